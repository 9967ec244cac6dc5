//! Zones within zones: which of them is asked for a name.

use crate::{
    name::is_within,
    record::{parts, zone_name},
};
use reconciled_provider::{ResourceId, Scope};

/// True where a server that has both zones answers from `inner` for a record of `outer` (RFC 1034 §4.3.2).
pub(super) fn hides(inner: &Scope, outer: &Scope, id: &ResourceId) -> bool {
    let (zone, above) = (zone_name(inner), zone_name(outer));
    let Some((name, kind)) = parts(id) else { return false };
    // What proves the keys of a zone is asked of the one above (RFC 4035 §3.1.4.1).
    let is_of_cut = kind == "DS" && name == zone;
    zone != above && is_within(&zone, &above) && is_within(name, &zone) && !is_of_cut
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
}
