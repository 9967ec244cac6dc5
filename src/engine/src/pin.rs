//! What a person keeps at an earlier revision, whatever newer ones say.
//!
//! Guarantees: pure; a pin changes nothing but the resource it names; once the newest revision declares that
//! resource otherwise than when it was pinned, the pin is over, and not because nobody knows for a moment what it declares. It
//! deliberately pins resources, not manifests: a record can go back while its zone goes on.

use crate::desired::{Desired, ManifestMeta, Pinned, following};
use reconciled_provider::{Address, Hash, ManifestKey, Origin, Policy, Resource, ResourceId, Scope};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

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

/// How a pin stands with the newest revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is in effect.
    Kept,
    /// What may declare the resource does not count here and now, as while its entry cannot be used: the pin is neither over,
    /// nor is anything put back.
    Unseen,
    /// It is over.
    Over(Ending),
}

/// Why a pin is over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// Its time.
    Time,
    /// The newest revision declares the resource otherwise than when it was pinned.
    Commit,
    /// The same commit does, by the configuration of the host.
    Configuration,
    /// This other source does.
    HandedOver(Arc<str>),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Time => f.write_str("its time is over"),
            Ending::Commit => f.write_str("a commit changed it"),
            Ending::Configuration => f.write_str("the configuration of the host changed it"),
            Ending::HandedOver(source) => write!(f, "source {source} declares it by now, and otherwise"),
        }
    }
}

impl Pin {
    /// How it stands with what the newest revisions declare, what is kept at earlier ones not yet in its place.
    pub fn standing(&self, newest: &Desired, now: Duration) -> Standing {
        if self.until.is_some_and(|until| now >= until) {
            return Standing::Over(Ending::Time);
        }
        let heir = self.heir(newest);
        let holder = heir.unwrap_or(&self.manifest).source();
        let is = declared(newest, &self.scope, &self.id, holder);
        if is.is_none() && self.is_out_of_sight(newest) {
            return Standing::Unseen;
        }
        let (template, content) = (is.map(|(template, _)| template), is.map(|(_, content)| content));
        // The same document that comes to something else is another version of this program, no commit.
        if template == self.template || content == self.content {
            return Standing::Kept;
        }
        if let Some(heir) = heir {
            return Standing::Over(Ending::HandedOver(heir.source().into()));
        }
        // What a source declares is only known where all of it could be read, and what it does not declare where nobody that is
        // behind may have it by now.
        let is_known = newest.sources.get(self.manifest.source()).is_some_and(|source| match is {
            Some(_) => source.is_whole(),
            None => source.is_sure(),
        });
        match is_known {
            true if is.is_none() && self.may_be_with_others(newest) => Standing::Unseen,
            true => Standing::Over(self.ending(newest)),
            false => Standing::Kept,
        }
    }

    /// The manifest of another source that has the resource by now, alone. A hand-over changes nothing of what was pinned: what the
    /// other one declares decides.
    pub fn heir<'d>(&self, newest: &'d Desired) -> Option<&'d ManifestKey> {
        let mut all = newest.declaring(&self.scope, &self.id).iter();
        let other = all.find(|resource| {
            newest.manifest(resource.origin).key.source() != self.manifest.source()
                && !newest.policies.get(resource.policy).merge
        })?;
        Some(&newest.manifest(other.origin).key)
    }

    /// True where the resource may be declared by what does not count here and now: its entry cannot be used or is not configured,
    /// or its manifest is for other hosts, as this one would be with another label. What was so when it was pinned says nothing.
    fn is_out_of_sight(&self, newest: &Desired) -> bool {
        let Some(source) = newest.sources.get(self.manifest.source()) else { return false };
        let mut elsewhere = source.elsewhere.iter();
        newest.ailing.contains(&self.scope.provider)
            || self.template.is_some()
                && (source.is_elsewhere(&self.manifest, &self.scope)
                    || source.is_unselected(&self.manifest, &self.scope, &self.id)
                    || elsewhere.any(|(_, entry)| *entry == self.scope.provider))
    }

    /// True where another source may declare the resource, and nobody knows here and now: it may have gone there before, which ends no
    /// pin, and a pin does not remember who has it.
    fn may_be_with_others(&self, newest: &Desired) -> bool {
        let mut others = newest.sources.iter().filter(|(name, _)| ***name != *self.manifest.source());
        others.any(|(_, source)| {
            let of_manifest = self.manifest.within_group();
            let mut unselected = source.unselected.iter();
            let mut places = source.unassigned_in.iter().chain(&source.unselected_in);
            !source.is_sure()
                || source.may_be_elsewhere(&self.manifest)
                || source.elsewhere.iter().any(|(_, entry)| *entry == self.scope.provider)
                || unselected.any(|other| other.within_group() == of_manifest)
                || places.any(|(_, scope)| *scope == self.scope)
                || source.unselected_parts.contains(&(self.scope.clone(), self.id.clone()))
        })
    }

    fn ending(&self, newest: &Desired) -> Ending {
        let declaring = newest.declaring(&self.scope, &self.id).iter();
        let mut by = declaring.map(|resource| &newest.manifest(resource.origin).key);
        let is_reconfigured = by.any(|key| newest.reconfigured.contains_key(key));
        if is_reconfigured { Ending::Configuration } else { Ending::Commit }
    }
}

/// What counts of a resource that is put back: what both revisions say of it, the more careful of each. A commit that asks for
/// more care ends no rollback, and is heeded. Whether it is shared is as it was then.
pub fn policy(then: &Policy, newest: &Policy) -> Policy {
    Policy { merge: then.merge, ..then.with(newest) }
}

/// A resource, by its scope and what it is there.
type Place = (Scope, ResourceId);

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
/// nothing is desired. `then` is the revision of all of them. What another source has by now stays its own.
///
/// Errors: the address of a pin that `then` no longer declares, or now does, as when a host has other labels: nothing
/// follows from that.
pub fn put_back(desired: &mut Desired, then: &Desired, pins: &[&Pin]) -> Result<(), Address> {
    let mut manifests: BTreeMap<ManifestKey, u32> = BTreeMap::new();
    for (index, manifest) in desired.manifests.iter().enumerate() {
        manifests.insert(manifest.key.clone(), index as u32);
    }
    let known = desired.manifests.len();
    let mut waited: BTreeMap<(u32, Arc<[ManifestKey]>), Vec<Place>> = BTreeMap::new();
    for pin in pins {
        let source = pin.manifest.source();
        let before = then.declaring(&pin.scope, &pin.id).iter();
        let before: Vec<&Resource> =
            before.filter(|r| then.manifest(r.origin).key.source() == source).collect();
        if before.is_empty() == pin.declared {
            return Err(pin.address.clone());
        }
        let is_handed_over = pin.heir(desired).is_some();
        let now = desired.declaring(&pin.scope, &pin.id).iter().cloned();
        let (mine, others): (Vec<Resource>, Vec<Resource>) =
            now.partition(|r| is_handed_over || desired.manifest(r.origin).key.source() == source);
        let newest = mine.first().map(|resource| resource.origin);
        let said = mine.iter().map(|resource| desired.policies.get(resource.policy).clone());
        let said = said.reduce(|said, other| said.with(&other));
        let mut put = Vec::with_capacity(before.len() + others.len());
        for resource in before {
            let meta = then.manifest(resource.origin);
            let origin = newest.filter(|_| is_handed_over).unwrap_or_else(|| {
                let manifest = *manifests.entry(meta.key.clone()).or_insert_with(|| {
                    let file = format!("{}:{}", pin.label, meta.file).into();
                    desired.manifests.push(ManifestMeta { file, ..meta.clone() });
                    desired.manifests.len() as u32 - 1
                });
                Origin { manifest, ..resource.origin }
            });
            let place = (pin.scope.clone(), pin.id.clone());
            waited.entry((origin.manifest, meta.after.clone())).or_default().push(place);
            let own = then.policies.get(resource.policy);
            let counts = said.as_ref().map_or_else(|| own.clone(), |said| policy(own, said));
            let policy = desired.policies.intern(counts);
            put.push(Resource { origin, policy, ..resource.clone() });
        }
        put.extend(others);
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
        let newest = newest.map(|origin| origin.manifest);
        let pinned = Pinned { label: pin.label.clone(), newest, after: BTreeMap::new() };
        desired.pinned.insert((pin.scope.clone(), pin.id.clone()), pinned);
    }
    // What it waited for then may not be there any more, and would be waited for in vain.
    for index in known..desired.manifests.len() {
        let after = desired.manifests[index].after.iter();
        let after = after.filter(|key| manifests.contains_key(*key)).cloned().collect();
        desired.manifests[index].after = after;
    }
    for ((index, then), places) in waited {
        let after = still_first(desired, &manifests, index, &then);
        for place in places {
            if let Some(pinned) = desired.pinned.get_mut(&place) {
                pinned.after.insert(index, after.clone());
            }
        }
    }
    Ok(())
}

/// What of `then`, all that a manifest came after at that revision, is still to be waited for: what is there, and does not come
/// after the manifest by now. Anything else would be waited for in vain.
fn still_first(
    desired: &Desired,
    there: &BTreeMap<ManifestKey, u32>,
    index: u32,
    then: &Arc<[ManifestKey]>,
) -> Arc<[ManifestKey]> {
    let Some(newest) = desired.manifests.get(index as usize) else { return then.clone() };
    if newest.after == *then {
        return newest.after.clone();
    }
    let behind = following(desired, [&newest.key]);
    let counts =
        |key: &&ManifestKey| **key != newest.key && there.contains_key(*key) && !behind.contains_key(*key);
    then.iter().filter(counts).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::SourceState;
    use reconciled_provider::{Deletion, PolicyId, Spec};
    use std::collections::BTreeSet;

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
                Arc::make_mut(desired.scopes.entry((*zone).clone()).or_default()).push(Resource::new(
                    (*id).into(),
                    zone.clone(),
                    Spec::known(value.as_bytes().to_vec()),
                    Origin { manifest: index as u32, line: 1 },
                    PolicyId::default(),
                ));
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
            let standing = pin.standing(newest, Duration::from_secs(10));
            assert_eq!(matches!(standing, Standing::Over(_)), expect, "{id}: {standing:?}");
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
        // Nor from that of a source that is behind: it may have it by now. What is there is known.
        let mut behind = desired(&[]);
        behind.sources.get_mut("s").unwrap().awaits = Some("t".into());
        check("a", &behind, None, false);
        let mut behind = other;
        behind.sources.get_mut("s").unwrap().awaits = Some("t".into());
        check("a", &behind, None, true);
    }

    #[test]
    fn what_does_not_count_here_and_now_ends_no_pin_and_nothing_is_put_back() {
        let before = desired(&[("a", &[("a", "2")])]);
        let (known, unknown) = (pin("a", &before), pin("b", &before));
        let check = |change: &dyn Fn(&mut Desired), expect: [Standing; 2]| {
            let mut newest = desired(&[]);
            change(&mut newest);
            let of = |pin: &Pin| pin.standing(&newest, Duration::ZERO);
            assert_eq!([of(&known), of(&unknown)], expect);
        };
        fn source(newest: &mut Desired) -> &mut SourceState {
            newest.sources.get_mut("s").unwrap()
        }
        let (key, zone) = (&known.manifest, &known.scope);
        check(&|_| (), [Standing::Over(Ending::Commit), Standing::Kept]);
        // Neither can be put back while nobody can be asked what a manifest of the entry comes to.
        let ailing = |newest: &mut Desired| {
            newest.ailing.insert("dns".into());
        };
        check(&ailing, [Standing::Unseen, Standing::Unseen]);
        let places = BTreeSet::from([(key.clone(), zone.clone())]);
        let hidden: [&dyn Fn(&mut Desired); 6] = [
            &|newest| source(newest).unassigned = [key.clone()].into(),
            &|newest| source(newest).unassigned_in = places.clone(),
            &|newest| source(newest).elsewhere = [(key.clone(), "dns".into())].into(),
            &|newest| source(newest).unselected = [key.clone()].into(),
            &|newest| source(newest).unselected_in = places.clone(),
            &|newest| source(newest).unselected_parts = [(zone.clone(), "a".into())].into(),
        ];
        // What was declared for nobody here when it was pinned is kept for all that.
        for change in hidden {
            check(change, [Standing::Unseen, Standing::Kept]);
        }
        let late = Pin { until: Some(Duration::ZERO), ..known.clone() };
        assert_eq!(late.standing(&desired(&[]), Duration::ZERO), Standing::Over(Ending::Time));
    }

    #[test]
    fn a_pin_goes_along_to_the_source_that_declares_the_same() {
        let then = desired(&[("a", &[("a", "1")])]);
        let before = desired(&[("a", &[("a", "2")])]);
        let pin = pin("a", &before);
        let moved = |value: &str| {
            let mut moved = desired(&[("a", &[("a", value)])]);
            moved.manifests[0].key = ManifestKey::new("t", "test", "Zone", "", "a");
            moved.sources.insert("t".into(), SourceState { prunes: true, ..SourceState::default() });
            moved
        };
        let mut same = moved("2");
        assert_eq!(pin.standing(&same, Duration::ZERO), Standing::Kept);
        put_back(&mut same, &then, &[&pin]).unwrap();
        assert_eq!(shown(&same), ["a.yaml a 1"]);
        let [one] = same.declaring(&pin.scope, &pin.id) else { panic!("{same:?}") };
        assert_eq!(same.manifest(one.origin).key.source(), "t", "it is that one's");
        let over = Standing::Over(Ending::HandedOver("t".into()));
        assert_eq!(pin.standing(&moved("3"), Duration::ZERO), over);
    }

    #[test]
    fn a_pin_that_may_have_gone_along_is_not_over_while_another_source_is_out_of_sight() {
        let pin = pin("a", &desired(&[("a", &[("a", "2")])]));
        let check = |change: &dyn Fn(&mut SourceState), expect: Standing| {
            let mut newest = desired(&[]);
            let mut other = SourceState { prunes: true, ..SourceState::default() };
            change(&mut other);
            newest.sources.insert("t".into(), other);
            assert_eq!(pin.standing(&newest, Duration::ZERO), expect, "{newest:?}");
        };
        let key = |name: &str| ManifestKey::new("t", "test", "Zone", "", name);
        let place = |zone: &str| (key("b"), Scope::new("dns", zone));
        check(&|_| (), Standing::Over(Ending::Commit));
        check(&|other| other.unselected = [key("b")].into(), Standing::Over(Ending::Commit));
        check(&|other| other.unselected_in = [place("other")].into(), Standing::Over(Ending::Commit));
        let hidden: [&dyn Fn(&mut SourceState); 9] = [
            &|other| other.prunes = false,
            &|other| other.broken = ["a.yaml".into()].into(),
            &|other| other.awaits = Some("s".into()),
            &|other| other.unassigned = [key("a")].into(),
            &|other| other.unassigned_in = [place("zone")].into(),
            &|other| other.elsewhere = [(key("b"), "dns".into())].into(),
            &|other| other.unselected = [key("a")].into(),
            &|other| other.unselected_in = [place("zone")].into(),
            &|other| other.unselected_parts = [(pin.scope.clone(), pin.id.clone())].into(),
        ];
        for change in hidden {
            check(change, Standing::Unseen);
        }
    }

    #[test]
    fn of_what_both_revisions_say_of_a_resource_the_more_careful_counts() {
        let careful = Policy { suspend: true, deletion: Some(Deletion::Protect), ..Policy::default() };
        let check = |then: &Policy, newest: &Policy, expect: &Policy| {
            let (mut earlier, mut now) = (desired(&[("a", &[("a", "1")])]), desired(&[("a", &[("a", "2")])]));
            let pin = pin("a", &now);
            for (desired, policy) in [(&mut earlier, then), (&mut now, newest)] {
                let policy = desired.policies.intern(policy.clone());
                let list = desired.scopes.values_mut().next().unwrap();
                Arc::make_mut(list)[0].policy = policy;
            }
            put_back(&mut now, &earlier, &[&pin]).unwrap();
            let [one] = now.declaring(&pin.scope, &pin.id) else { panic!("{now:?}") };
            assert_eq!(now.policies.get(one.policy), expect);
        };
        check(&Policy::default(), &careful, &careful);
        check(&careful, &Policy::default(), &careful);
        let shared = Policy { merge: true, ..Policy::default() };
        check(&shared, &Policy::default(), &shared);
    }

    #[test]
    fn what_is_put_back_waits_for_what_it_waited_for_then() {
        let key = |name: &str| ManifestKey::new("s", "test", "Zone", "", name);
        let check = |then: &[&str], newest: &[&str], expect: &[&str]| {
            let after = |desired: &mut Desired, names: &[&str]| {
                desired.manifests[0].after = names.iter().map(|name| key(name)).collect();
            };
            let mut earlier = desired(&[("a", &[("a", "1"), ("b", "1")])]);
            let mut now =
                desired(&[("a", &[("a", "2"), ("b", "2")]), ("new", &[]), ("old", &[]), ("last", &[])]);
            after(&mut earlier, then);
            after(&mut now, newest);
            now.manifests[3].after = [key("a")].into();
            let pin = pin("a", &now);
            put_back(&mut now, &earlier, &[&pin]).unwrap();
            let [one, other] = now.in_scope(&pin.scope) else { panic!("{now:?}") };
            let names = |one: &Resource| -> Vec<String> {
                now.after(one).unwrap().iter().map(|key| key.name().to_string()).collect()
            };
            assert_eq!((names(one), names(other)), (owned(expect), owned(newest)));
        };
        fn owned(names: &[&str]) -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        }
        check(&[], &["new"], &[]);
        check(&["old"], &["new"], &["old"]);
        check(&["new"], &["new"], &["new"]);
        // What is there no longer, or comes after it by now, would be waited for in vain.
        check(&["gone", "last", "old"], &[], &["old"]);
    }
}
