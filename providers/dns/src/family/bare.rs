//! What a plan says of a zone that is made without name servers: it answers whoever asks its server, and nobody is sent there.

use crate::record;
use reconciled_provider::{Caution, Deltas, Observation, ResourceId, Want};

/// What to do about a zone without name servers.
pub(crate) const NEEDS_SERVERS: &str = "name them in `nameservers` of the entry, or declare them: `apex: true` in the zone and NS records at `@`";

/// Cautions of the zone of this scope, where it is to be made and nothing names its servers.
pub(super) fn tell(want: &Want<'_>, seen: &Observation, deltas: &mut Deltas) {
    let zone = record::zone_id(want.scope);
    let servers = record::id(&record::zone_name(want.scope), "NS");
    let is_declared = |id: &ResourceId| want.desired.iter().any(|desired| desired.id == *id);
    if !seen.complete || seen.get(&zone).is_some() || !is_declared(&zone) || is_declared(&servers) {
        return;
    }
    let caution = Caution {
        reason: "NoNameServers",
        message: "the zone is made without an NS record at its name, so nobody can be sent to it (RFC 1034 §4.2.1, \
                  RFC 1912 §2.7)"
            .into(),
        hint: Some(NEEDS_SERVERS.into()),
    };
    if let Ok(delta) = deltas.entry(zone).or_insert_with(|| Ok(Default::default())) {
        delta.cautions.push(caution);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::{Focus, Observed, Origin, PolicyId, Resource, Scope, Spec, Version};
    use std::sync::Arc;

    /// How many cautions a zone with these declared and seen has.
    fn cautions(declared: &[&str], seen: &[&str]) -> usize {
        let scope = Scope::new("pdns", "example.com");
        let resource = |id: &&str| {
            Resource::new(
                ResourceId::from(*id),
                Arc::new(scope.clone()),
                Spec::known(record::ZONE),
                Origin { manifest: 0, line: 1 },
                PolicyId::default(),
            )
        };
        let desired: Vec<Resource> = declared.iter().map(resource).collect();
        let want = Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked: &[], claims: &[] };
        let resources = seen.iter().map(|id| Observed::new(ResourceId::from(*id), record::ZONE)).collect();
        let seen = Observation { covered: Focus::All, complete: true, version: Version::Unknown, resources };
        let mut deltas = Deltas::new();
        tell(&want, &seen, &mut deltas);
        deltas.into_values().map(|delta| delta.unwrap().cautions.len()).sum()
    }

    #[test]
    fn a_zone_that_is_made_without_name_servers_is_cautioned_of_and_no_other() {
        assert_eq!(cautions(&["example.com.", "sub.example.com./NS", "www.example.com./A"], &[]), 1);
        assert_eq!(cautions(&["example.com.", "example.com./NS"], &[]), 0, "they are declared");
        assert_eq!(cautions(&["example.com."], &["example.com."]), 0, "it is there, with whatever it has");
        assert_eq!(cautions(&["www.example.com./A"], &[]), 0, "nobody makes it");
    }
}
