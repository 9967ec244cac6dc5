//! What a person keeps at an earlier revision, whatever newer ones say.
//!
//! Guarantees: pure; a pin changes nothing but the resource it names; once the newest revision declares that
//! resource otherwise than when it was pinned, the pin is over. It deliberately pins resources, not manifests: a
//! record can go back while its zone goes on.

use crate::desired::{Desired, ManifestMeta, Pinned};
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
    /// The manifests that declared it then, as written.
    pub content: Option<Hash>,
    /// The earlier revision declares it; else it is pinned away.
    pub declared: bool,
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
    /// True once its time is over, the newest revision declares something else than when it began, or another source
    /// declares the resource.
    pub fn is_over(&self, newest: &Desired, now: Duration) -> bool {
        let source = newest.sources.get(self.manifest.source());
        // What a source declares is only known where all of it could be read.
        let is_known = source.is_some_and(|source| source.is_whole());
        let is = declared(newest, &self.scope, &self.id, self.manifest.source());
        let (template, content) = (is.map(|(template, _)| template), is.map(|(_, content)| content));
        // The same document that comes to something else is another version of this program, no commit.
        let is_changed = is_known && template != self.template && content != self.content;
        let mut others = newest.declaring(&self.scope, &self.id).iter();
        let is_handed_over = others.any(|resource| {
            newest.manifest(resource.origin).key.source() != self.manifest.source()
                && !newest.policies.get(resource.policy).merge
        });
        self.until.is_some_and(|until| now >= until) || is_changed || is_handed_over
    }
}

/// What a source declares of a resource, in two hashes: what it comes to, references unresolved, and its manifests as
/// written; none where it declares nothing.
pub fn declared(desired: &Desired, scope: &Scope, id: &ResourceId, source: &str) -> Option<(Hash, Hash)> {
    let of_source = |r: &&Resource| desired.manifest(r.origin).key.source() == source;
    let all: Vec<&Resource> = desired.declaring(scope, id).iter().filter(of_source).collect();
    let content = |resource: &Resource| desired.manifest(resource.origin).content;
    match all[..] {
        [] => None,
        [one] => Some((one.spec.template(), content(one))),
        _ => {
            let templates: Vec<u8> = all.iter().flat_map(|r| r.spec.template().0).collect();
            let contents: Vec<u8> = all.iter().flat_map(|r| content(r).0).collect();
            Some((Hash::of(&templates), Hash::of(&contents)))
        }
    }
}

/// Puts what `then` declares in place of what `desired` declares, for each of `pins`; where it declared nothing,
/// nothing is desired. `then` is the revision of all of them.
///
/// Errors: the address of a pin that `then` no longer declares, or now does, as when a host has other labels: nothing
/// follows from that.
pub fn put_back(desired: &mut Desired, then: &Desired, pins: &[&Pin]) -> Result<(), Address> {
    let mut manifests: BTreeMap<ManifestKey, u32> = BTreeMap::new();
    for (index, manifest) in desired.manifests.iter().enumerate() {
        manifests.insert(manifest.key.clone(), index as u32);
    }
    let known = desired.manifests.len();
    for pin in pins {
        let source = pin.manifest.source();
        let before = then.declaring(&pin.scope, &pin.id).iter();
        let before: Vec<&Resource> =
            before.filter(|r| then.manifest(r.origin).key.source() == source).collect();
        if before.is_empty() == pin.declared {
            return Err(pin.address.clone());
        }
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
            put.push(Resource { origin, policy, ..resource.clone() });
        }
        let now = desired.declaring(&pin.scope, &pin.id).iter();
        let (mine, others): (Vec<&Resource>, Vec<&Resource>) =
            now.partition(|r| desired.manifest(r.origin).key.source() == source);
        let newest = mine.first().map(|resource| resource.origin.manifest);
        put.extend(others.into_iter().cloned());
        // What is shared has one policy, as when it was loaded.
        let shared = put.iter().map(|resource| desired.policies.get(resource.policy).clone());
        if let Some(shared) = shared.reduce(|shared, policy| shared.with(&policy)) {
            let shared = desired.policies.intern(shared);
            put.iter_mut().for_each(|resource| resource.policy = shared);
        }
        let list = Arc::make_mut(desired.scopes.entry(pin.scope.clone()).or_default());
        let from = list.partition_point(|resource| resource.id < pin.id);
        let to = from + list[from..].partition_point(|resource| resource.id == pin.id);
        list.splice(from..to, put);
        if list.is_empty() {
            desired.scopes.remove(&pin.scope);
        }
        let pinned = Pinned { label: pin.label.clone(), newest };
        desired.pinned.insert((pin.scope.clone(), pin.id.clone()), pinned);
    }
    // What it waited for then may not be there any more, and would be waited for in vain.
    for index in known..desired.manifests.len() {
        let after = desired.manifests[index].after.iter();
        let after = after.filter(|key| manifests.contains_key(*key)).cloned().collect();
        desired.manifests[index].after = after;
    }
    Ok(())
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
                content: Hash::of(format!("{resources:?}").as_bytes()),
                labels: BTreeMap::new(),
                after: Arc::from([]),
                moved_from: None,
            });
            for (id, value) in *resources {
                Arc::make_mut(desired.scopes.entry((*zone).clone()).or_default()).push(Resource {
                    id: (*id).into(),
                    scope: zone.clone(),
                    spec: Spec::known(value.as_bytes().to_vec()),
                    origin: Origin { manifest: index as u32, line: 1 },
                    policy: PolicyId::default(),
                });
            }
        }
        desired.scopes.values_mut().for_each(|list| Arc::make_mut(list).sort_by(|a, b| a.id.cmp(&b.id)));
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
            content: None,
            declared: true,
            reason: "".into(),
            actor: "".into(),
            since: Duration::ZERO,
            until: None,
        };
        let is = declared(newest, &pin.scope, &pin.id, "s");
        (pin.template, pin.content) = (is.map(|(template, _)| template), is.map(|(_, content)| content));
        pin
    }

    fn shown(desired: &Desired) -> Vec<String> {
        let all = desired.scopes.values().flat_map(|list| list.iter());
        let text = |r: &Resource| String::from_utf8(r.spec.bytes().unwrap().to_vec()).unwrap();
        all.map(|r| format!("{} {} {}", desired.manifest(r.origin).file, r.id.0, text(r))).collect()
    }

    #[test]
    fn only_what_is_pinned_goes_back() {
        let then = desired(&[("gone", &[("d", "1"), ("e", "1")]), ("a", &[("a", "1"), ("b", "1")])]);
        let mut newest = desired(&[("a", &[("a", "2"), ("b", "2"), ("c", "2")])]);
        let pins = ["b", "c", "d"].map(|id| Pin { declared: id != "c", ..pin(id, &newest) });
        put_back(&mut newest, &then, &pins.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(shown(&newest), ["a.yaml a 2", "a.yaml b 1", "then:gone.yaml d 1"]);
        assert_eq!(newest.pinned.len(), 3, "what is pinned away counts too");
        // A revision that has become another, as on a host with other labels, deletes nothing.
        let gone = Pin { declared: true, ..pin("c", &newest) };
        assert_eq!(put_back(&mut newest, &then, &[&gone]), Err("Zone/a".parse().unwrap()));
    }

    #[test]
    fn what_is_pinned_is_known_by_the_manifest_that_declares_it_now_too() {
        let then = desired(&[("a", &[("a", "1"), ("b", "1")])]);
        let mut newest = desired(&[("a", &[]), ("moved", &[("a", "2")])]);
        let pins = ["a", "b"].map(|id| pin(id, &newest));
        put_back(&mut newest, &then, &pins.iter().collect::<Vec<_>>()).unwrap();
        let names = |id: &str| -> Vec<String> {
            let [resource] = newest.declaring(&pins[0].scope, &id.into()) else { panic!("{id}") };
            newest.known_by(&pins[0].scope, resource).map(|meta| meta.address.to_string()).collect()
        };
        assert_eq!(names("a"), ["Zone/a", "Zone/moved"]);
        assert_eq!(names("b"), ["Zone/a"]);
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
        // The same document that comes to something else: another version of the program.
        let mut upgraded = desired(&[("a", &[("a", "3")])]);
        upgraded.manifests[0].content = before.manifests[0].content;
        check("a", &upgraded, None, false);
        // What a broken file declares is not known: nothing follows from its absence.
        let mut broken = desired(&[]);
        broken.sources.get_mut("s").unwrap().prunes = false;
        check("a", &broken, None, false);
    }
}
