//! Zones within zones: which of them is asked for a name.

use crate::{
    name::is_within,
    record::{parts, zone_name},
};
use reconciled_provider::{ResourceId, Scope};

/// True where nobody is told what `outer` has by this id as long as `inner` is there (RFC 1034 §4.3.2): a server that has both
/// answers from `inner`, and one that has `outer` alone [sends] whoever asks to the servers of `inner`, or else answers itself.
pub(super) fn hides(inner: &Scope, outer: &Scope, id: &ResourceId) -> bool {
    let (zone, above) = (zone_name(inner), zone_name(outer));
    let Some((name, kind)) = parts(id) else { return false };
    // What proves the keys of a zone is asked of the one above (RFC 4035 §3.1.4.1).
    let is_of_cut = kind == "DS" && name == zone;
    zone != above && is_within(&zone, &above) && is_within(name, &zone) && !is_of_cut
}

/// True for the NS that send whoever asks `outer` for names of `inner` elsewhere: to `inner`, or to what sends there in turn.
pub(super) fn sends(inner: &Scope, outer: &Scope, id: &ResourceId) -> bool {
    let Some((name, "NS")) = parts(id) else { return false };
    let (zone, above) = (zone_name(inner), zone_name(outer));
    name != above && is_within(name, &above) && is_within(&zone, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inner_zone_hides_what_the_outer_one_has_of_its_names() {
        let scope = |zone: &str| Scope::new("pdns", zone);
        let check = |inner: &str, outer: &str, id: &str| hides(&scope(inner), &scope(outer), &id.into());
        assert!(check("dev.example.com", "example.com", "x.dev.example.com./A"));
        assert!(check("dev.example.com", "com", "dev.example.com./NS"));
        assert!(!check("dev.example.com", "example.com", "dev.example.com./DS"), "it is above the cut");
        assert!(!check("dev.example.com", "example.com", "x.example.com./A"));
        assert!(!check("example.com", "dev.example.com", "x.dev.example.com./A"), "it is the outer one");
        assert!(!check("dev.example.com", "dev.example.com", "x.dev.example.com./A"));
        assert!(!check("ev.example.com", "example.com", "x.dev.example.com./A"));
    }

    #[test]
    fn a_delegation_at_the_inner_zone_or_above_it_sends_there() {
        let scope = |zone: &str| Scope::new("pdns", zone);
        let check = |id: &str| sends(&scope("a.dev.example.com"), &scope("example.com"), &id.into());
        assert!(check("a.dev.example.com./NS"));
        assert!(check("dev.example.com./NS"));
        assert!(!check("example.com./NS"), "the servers of the outer one itself");
        assert!(!check("a.dev.example.com./A"));
        assert!(!check("x.a.dev.example.com./NS"), "what is below is sent elsewhere");
        assert!(!check("b.dev.example.com./NS"));
        assert!(!sends(&scope("example.com"), &scope("a.example.com"), &"example.com./NS".into()));
    }
}
