//! What a person keeps at an earlier revision, whatever newer ones say.
//!
//! Guarantees: pure; a pin changes nothing but the resource it names; once the newest revision declares that
//! resource otherwise than when it was pinned, the pin is over. It deliberately pins resources, not manifests: a
//! record can go back while its zone goes on.

use crate::desired::{Desired, ManifestMeta};
use reconciled_provider::{Address, Hash, ManifestKey, Origin, Resource, ResourceId, Scope};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A person's word that a resource shall be as an earlier revision declares it.
#[derive(Clone, Debug, PartialEq)]
pub struct Pin {
    /// The scope of the resource.
    pub scope: Scope,
    /// The resource.
    pub id: ResourceId,
    /// What people call it.
    pub address: Address,
    /// The manifest that declares it, or declared it then.
    pub manifest: ManifestKey,
    /// The revision it is kept at, as a full commit id.
    pub commit: Arc<str>,
    /// What people call that revision.
    pub label: Arc<str>,
    /// What the newest revision declared when it was pinned, references unresolved; none where it declared nothing.
    pub template: Option<Hash>,
    /// Why.
    pub reason: Arc<str>,
    /// By whom.
    pub actor: Arc<str>,
    /// Since when, since the epoch.
    pub since: Duration,
    /// Until when, since the epoch; none until a commit changes it or somebody resumes.
    pub until: Option<Duration>,
}

impl Pin {
    /// True once its time is over, or the newest revision declares something else than when it began.
    pub fn is_over(&self, newest: &Desired, now: Duration) -> bool {
        let source = newest.sources.get(self.manifest.source());
        // What a source declares is only known where all of it could be read.
        let is_known = source.is_some_and(|source| source.is_whole());
        let is_changed = is_known && template(newest, self) != self.template;
        self.until.is_some_and(|until| now >= until) || is_changed
    }
}

/// What `desired` declares of the pinned resource.
fn template(desired: &Desired, pin: &Pin) -> Option<Hash> {
    of_source(desired, pin).next().map(|resource| resource.spec.template())
}

fn of_source<'a>(desired: &'a Desired, pin: &'a Pin) -> impl Iterator<Item = &'a Resource> {
    let all = desired.in_scope(&pin.scope);
    let from = all.partition_point(|resource| resource.id < pin.id);
    let same = all[from..].iter().take_while(|resource| resource.id == pin.id);
    same.filter(|resource| desired.manifest(resource.origin).key.source() == pin.manifest.source())
}

/// Puts what `then` declares in place of what `desired` declares, for each of `pins`; where it declared nothing,
/// nothing is desired. `then` is the revision of all of them.
pub fn put_back(desired: &mut Desired, then: &Desired, pins: &[&Pin]) {
    let mut manifests: BTreeMap<ManifestKey, u32> = BTreeMap::new();
    for (index, manifest) in desired.manifests.iter().enumerate() {
        manifests.insert(manifest.key.clone(), index as u32);
    }
    for pin in pins {
        let before: Vec<Resource> = of_source(then, pin).cloned().collect();
        let newest: Vec<Resource> = of_source(desired, pin).cloned().collect();
        let list = desired.scopes.entry(pin.scope.clone()).or_default();
        list.retain(|resource| !newest.contains(resource));
        let at = list.partition_point(|resource| resource.id <= pin.id);
        let mut put = Vec::with_capacity(before.len());
        for resource in before {
            let meta = then.manifest(resource.origin);
            let manifest = *manifests.entry(meta.key.clone()).or_insert_with(|| {
                let file = format!("{}:{}", pin.label, meta.file).into();
                desired.manifests.push(ManifestMeta { file, ..meta.clone() });
                desired.manifests.len() as u32 - 1
            });
            let origin = Origin { manifest, ..resource.origin };
            let policy = desired.policies.intern(then.policies.get(resource.policy).clone());
            put.push(Resource { origin, policy, ..resource });
        }
        list.splice(at..at, put);
        if list.is_empty() {
            desired.scopes.remove(&pin.scope);
        }
        desired.pinned.insert((pin.scope.clone(), pin.id.clone()), pin.label.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::SourceState;
    use reconciled_provider::{PolicyId, Spec};

    fn desired(manifests: &[(&str, &[(&str, &str)])]) -> Desired {
        let mut desired = Desired::default();
        desired.sources.insert("s".into(), SourceState { prunes: true, ..SourceState::default() });
        let zone = Arc::new(Scope::new("dns", "zone"));
        for (index, (name, resources)) in manifests.iter().enumerate() {
            desired.manifests.push(ManifestMeta {
                key: ManifestKey::new("s", "test", "Zone", "", name),
                address: format!("Zone/{name}").parse().unwrap(),
                file: format!("{name}.yaml").into(),
                line: 1,
                content: Hash::default(),
                labels: BTreeMap::new(),
                after: Arc::from([]),
                moved_from: None,
            });
            for (id, value) in *resources {
                desired.scopes.entry((*zone).clone()).or_default().push(Resource {
                    id: (*id).into(),
                    scope: zone.clone(),
                    spec: Spec::known(value.as_bytes().to_vec()),
                    origin: Origin { manifest: index as u32, line: 1 },
                    policy: PolicyId::default(),
                });
            }
        }
        desired.scopes.values_mut().for_each(|list| list.sort_by(|a, b| a.id.cmp(&b.id)));
        desired
    }

    fn pin(id: &str, newest: &Desired) -> Pin {
        let mut pin = Pin {
            scope: Scope::new("dns", "zone"),
            id: id.into(),
            address: "Zone/a".parse().unwrap(),
            manifest: ManifestKey::new("s", "test", "Zone", "", "a"),
            commit: "c".into(),
            label: "then".into(),
            template: None,
            reason: "".into(),
            actor: "".into(),
            since: Duration::ZERO,
            until: None,
        };
        pin.template = template(newest, &pin);
        pin
    }

    fn shown(desired: &Desired) -> Vec<String> {
        let all = desired.scopes.values().flatten();
        let text = |r: &Resource| String::from_utf8(r.spec.bytes().unwrap().to_vec()).unwrap();
        all.map(|r| format!("{} {} {}", desired.manifest(r.origin).file, r.id.0, text(r))).collect()
    }

    #[test]
    fn only_what_is_pinned_goes_back() {
        let then = desired(&[("gone", &[("d", "1"), ("e", "1")]), ("a", &[("a", "1"), ("b", "1")])]);
        let mut newest = desired(&[("a", &[("a", "2"), ("b", "2"), ("c", "2")])]);
        let pins = ["b", "c", "d"].map(|id| pin(id, &newest));
        put_back(&mut newest, &then, &pins.iter().collect::<Vec<_>>());
        assert_eq!(shown(&newest), ["a.yaml a 2", "a.yaml b 1", "then:gone.yaml d 1"]);
        assert_eq!(newest.pinned.len(), 3, "what is pinned away counts too");
    }

    #[test]
    fn a_pin_is_over_once_the_newest_revision_says_something_else_or_its_time_is_over() {
        let before = desired(&[("a", &[("a", "2")])]);
        let check = |id: &str, newest: &Desired, until: Option<Duration>, expect: bool| {
            let pin = Pin { until, ..pin(id, &before) };
            assert_eq!(pin.is_over(newest, Duration::from_secs(10)), expect, "{id}");
        };
        let same = desired(&[("b", &[("x", "1")]), ("a", &[("a", "2")])]);
        check("a", &same, None, false);
        check("b", &same, None, false);
        check("a", &same, Some(Duration::from_secs(10)), true);
        check("a", &same, Some(Duration::from_secs(11)), false);
        let other = desired(&[("a", &[("a", "3"), ("b", "3")])]);
        check("a", &other, None, true);
        check("b", &other, None, true);
        check("a", &desired(&[]), None, true);
        // What a broken file declares is not known: nothing follows from its absence.
        let mut broken = desired(&[]);
        broken.sources.get_mut("s").unwrap().prunes = false;
        check("a", &broken, None, false);
    }
}
