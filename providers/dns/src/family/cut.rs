//! What a plan says of a record that is to be made below a delegation of somebody else: nobody would be told of it.
//!
//! It deliberately says nothing of delegations that are declared, of which lint tells, or tracked, which may be about to go.

use crate::{
    name::{is_within, parent},
    record::{self, RrSet},
};
use reconciled_provider::{Caution, Deltas, Observation, ResourceId, Want};
use std::collections::{HashMap, HashSet};

/// Names from where whoever asks is led elsewhere, each with the type that does it: NS or DNAME.
type Cuts<'s> = HashMap<&'s str, &'s str>;

/// Cautions of what is not there yet and lies below what somebody else has in the zone.
pub(super) fn tell(want: &Want<'_>, seen: &Observation, deltas: &mut Deltas) {
    let zone = record::zone_name(want.scope);
    let cuts = cuts(want, seen, &zone);
    if cuts.is_empty() {
        return;
    }
    let servers = servers(want, seen);
    for desired in want.desired.iter().filter(|desired| seen.get(&desired.id).is_none()) {
        let Some((name, kind)) = record::parts(&desired.id) else { continue };
        // Glue is told with the delegation that needs it.
        if matches!(kind, "A" | "AAAA") && servers.contains(name) {
            continue;
        }
        let Some((at, by)) = over(&cuts, name, kind, &zone) else { continue };
        if let Ok(delta) = deltas.entry(desired.id.clone()).or_insert_with(|| Ok(Default::default())) {
            delta.cautions.push(caution(at, by));
        }
    }
}

/// What of the zone leads elsewhere and is neither declared nor ours.
fn cuts<'s>(want: &Want<'_>, seen: &'s Observation, zone: &str) -> Cuts<'s> {
    let mut found: Vec<(&ResourceId, &str, &str)> = Vec::new();
    for observed in &seen.resources {
        let Some((name, kind)) = record::parts(&observed.id) else { continue };
        if kind == "DNAME" || kind == "NS" && name != zone {
            found.push((&observed.id, name, kind));
        }
    }
    if found.is_empty() {
        return Cuts::new();
    }
    let declared = want.desired.iter().map(|resource| &resource.id);
    let ours: HashSet<&ResourceId> = declared.chain(want.tracked.iter().map(|tracked| &tracked.id)).collect();
    let others = found.into_iter().filter(|(id, ..)| !ours.contains(id));
    others.map(|(_, name, kind)| (name, kind)).collect()
}

/// The hosts that NS records name, seen and declared.
fn servers<'w>(want: &Want<'w>, seen: &'w Observation) -> HashSet<&'w str> {
    let is_ns = |id: &ResourceId| record::parts(id).is_some_and(|(_, kind)| kind == "NS");
    let there = seen.resources.iter().filter(|observed| is_ns(&observed.id)).map(|observed| &*observed.bytes);
    let declared = want.desired.iter().filter(|resource| is_ns(&resource.id));
    let all = there.chain(declared.filter_map(|resource| resource.spec.bytes()));
    all.filter_map(RrSet::decode).flat_map(|set| set.values).map(record::bare).collect()
}

/// What answers in place of `zone` for the record `name`/`kind`, if anything does. At a delegation only DS is of the zone above, and a
/// DNAME leaves its own name alone (RFC 4035 §3.1.4.1, RFC 6672 §2.3).
fn over<'s>(cuts: &Cuts<'s>, name: &'s str, kind: &str, zone: &str) -> Option<(&'s str, &'s str)> {
    let mut at = name;
    while is_within(at, zone) {
        let by = cuts.get(at).filter(|by| at != name || **by == "NS" && kind != "DS");
        if let Some(by) = by {
            return Some((at, *by));
        }
        if at == zone {
            break;
        }
        at = parent(at);
    }
    None
}

fn caution(at: &str, by: &str) -> Caution {
    let at = at.trim_end_matches('.');
    let message = match by {
        "NS" => format!(
            "nobody is told of it: the NS records at {at}, which are somebody else's, send whoever asks to other servers \
             (RFC 1034 §4.3.2)"
        ),
        _ => format!(
            "nobody is told of it: the {by} at {at}, which is somebody else's, puts another name in its place (RFC 6672 §2.3)"
        ),
    };
    let hint = format!("declare it where that leads, or have the {by} of {at} taken out first");
    Caution { reason: "BelowDelegation", message, hint: Some(hint) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::{Focus, Observed, Origin, PolicyId, Resource, Scope, Spec, Tracked, Version};
    use std::sync::Arc;

    /// What of `declared` is cautioned of, and where the cause is, in a zone that has `seen`.
    fn cautioned(declared: &[&str], tracked: &[&str], seen: &[(&str, &str)]) -> Vec<String> {
        let scope = Scope::new("pdns", "example.com");
        let resource = |id: &&str| {
            Resource::new(
                ResourceId::from(*id),
                Arc::new(scope.clone()),
                Spec::known(b"300\nx".to_vec()),
                Origin { manifest: 0, line: 1 },
                PolicyId::default(),
            )
        };
        let desired: Vec<Resource> = declared.iter().map(resource).collect();
        let tracked: Vec<Tracked> =
            tracked.iter().map(|id| Tracked::new(ResourceId::from(*id), Default::default())).collect();
        let want =
            Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked: &tracked, claims: &[] };
        let one = |(id, value): &(&str, &str)| {
            Observed::new(ResourceId::from(*id), format!("300\n{value}").into_bytes())
        };
        let mut resources: Vec<Observed> = seen.iter().map(one).collect();
        resources.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let seen = Observation { covered: Focus::All, complete: true, version: Version::Unknown, resources };
        let mut deltas = Deltas::new();
        tell(&want, &seen, &mut deltas);
        let told = deltas.into_iter().flat_map(|(id, delta)| {
            let cautions = delta.unwrap().cautions.into_iter();
            cautions.map(move |caution| format!("{} {}", id.0, caution.hint.unwrap()))
        });
        told.collect()
    }

    #[test]
    fn what_is_made_below_a_delegation_of_somebody_else_is_cautioned_of() {
        let cut = [("example.com./NS", "ns1.example.net."), ("sub.example.com./NS", "ns.sub.example.com.")];
        let told = cautioned(&["a.b.sub.example.com./A", "www.example.com./A"], &[], &cut);
        let hint = "declare it where that leads, or have the NS of sub.example.com taken out first";
        assert_eq!(told, [format!("a.b.sub.example.com./A {hint}")]);
        let silent = |declared: &[&str], tracked: &[&str], seen: &[(&str, &str)]| {
            assert_eq!(cautioned(declared, tracked, seen), [""; 0], "{declared:?} {tracked:?} {seen:?}");
        };
        assert_eq!(cautioned(&["sub.example.com./TXT"], &[], &cut).len(), 1, "it is asked of the zone below");
        silent(&["sub.example.com./DS"], &[], &cut);
        silent(&["ns.sub.example.com./A"], &[], &cut);
        silent(&["x.sub.example.com./A", "sub.example.com./NS"], &[], &cut);
        silent(&["x.sub.example.com./A"], &["sub.example.com./NS"], &cut);
        silent(&["x.notsub.example.com./A"], &[], &cut);
        let there = [cut[0], cut[1], ("x.sub.example.com./A", "192.0.2.1")];
        silent(&["x.sub.example.com./A"], &[], &there);
    }

    #[test]
    fn a_dname_of_somebody_else_leads_away_from_what_is_below_and_not_from_its_own_name() {
        let cut = [("sub.example.com./DNAME", "example.net.")];
        assert_eq!(cautioned(&["x.sub.example.com./A"], &[], &cut).len(), 1);
        assert_eq!(cautioned(&["sub.example.com./A"], &[], &cut).len(), 0);
        assert_eq!(cautioned(&["x.example.com./A"], &[], &[("example.com./DNAME", "example.net.")]).len(), 1);
    }
}
