//! Values of several owners in one RRset: `merge: true`, and claims such as ACME challenges.
//!
//! Ours is what was declared or claimed and what the inventory remembers as ours ([`remember`]); every other
//! value that was seen belongs to somebody else and stays. Where the inventory remembers nothing, nothing
//! seen is taken for ours: a value may then outlive its declaration, but none of another owner is lost.
//! A value is the same however it stands at the remote: `(disabled) X` and `(ttl 60) X` are X. A text of ours that does not say
//! where it is cut is the one that was seen of it (`strings`); one of somebody else stays cut as it is.

use crate::{
    kind::HIDDEN,
    name::{Name, zones},
    rdata::Type,
    record::{self, RrSet},
    strings,
};
use reconciled_provider::{
    Action, Claim, Error, Hash, Merged, Observed, Op, Origin, Outcome, PolicyId, Reference, Resource,
    ResourceId, Scope, Sealed, Spec, Tracked,
};
use serde::Deserialize;
use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

/// The kind of claim that DNS backends carry.
pub const DNS_TXT: &str = "dns-txt";

/// A claimed TXT value, as JSON: `{"name": "_acme-challenge.example.com.", "value": "…", "ttl": 60}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TxtClaim {
    /// Absolute, with or without the dot at the end.
    name: String,
    /// Plain text.
    value: String,
    #[serde(default = "claim_ttl")]
    ttl: u32,
}

/// Where a set says it comes from that nobody declares: it holds claims, or what is left to others.
const UNDECLARED: Origin = Origin { manifest: u32::MAX, line: 0 };

/// True for a set that is written to take our values out of it: what is left belongs to others.
pub(crate) fn is_left(action: &Action) -> bool {
    let Op::Update { desired, observed, tracked, .. } = &action.op else { return false };
    let bytes = desired.spec.bytes().unwrap_or_default();
    desired.origin == UNDECLARED && remember(bytes, Some(observed), tracked.as_deref()) == Sealed::default()
}

fn claim_ttl() -> u32 {
    60
}

fn parse(claim: &Claim) -> Result<(Name, TxtClaim), Error> {
    if &*claim.kind != DNS_TXT {
        return Err(Error::unsupported(format!("claim `{}` of kind `{}`", claim.key, claim.kind))
            .hint(format!("DNS providers carry claims of kind `{DNS_TXT}`")));
    }
    let bad = |error: &dyn std::fmt::Display| Error::invalid(format!("claim `{}`: {error}", claim.key));
    let spec: TxtClaim = serde_json::from_slice(&claim.spec).map_err(|error| bad(&error))?;
    let name = Name::zone(&spec.name).map_err(|error| bad(&error))?;
    Ok((name, spec))
}

/// Where a claim lands: the longest zone of `entry` that holds its name.
pub fn place(entry: &str, claim: &Claim, scopes: &BTreeSet<Scope>) -> Result<(Scope, ResourceId), Error> {
    let (name, _) = parse(claim)?;
    let holds = |scope: &&Scope| {
        &*scope.provider == entry && crate::name::is_within(name.as_str(), &record::zone_name(scope))
    };
    let scope = scopes.iter().filter(holds).max_by_key(|scope| scope.name.len());
    let scope = scope.ok_or_else(|| {
        Error::invalid(format!("no zone of provider `{entry}` holds `{name}`"))
            .hint(
                "declare the zone with a manifest of kind `Zone` (one that is for other hosts, or for a provider that is not configured \
                 here, does not count), or say in the manifest that claims this that it goes elsewhere; the page of its kind says how",
            )
    })?;
    Ok((scope.clone(), record::id(name.as_str(), Type::Txt.word())))
}

/// The zones that would carry a claim in place of `scope` were they declared: all longer ones that hold its name, the shortest first.
pub(crate) fn would_carry(claim: &Claim, scope: Option<&Scope>) -> Vec<(&'static str, String)> {
    // What is wrong with it `place` says.
    let Ok((name, _)) = parse(claim) else { return Vec::new() };
    let length = scope.map_or(0, |scope| scope.name.len());
    let longer = zones(name.as_str()).take_while(|zone| zone.len() > length);
    let mut longer: Vec<(&'static str, String)> = longer.map(|zone| (HIDDEN, zone.to_owned())).collect();
    longer.reverse();
    longer
}

/// The type of an RRset that has one value, which nobody can share.
fn single(id: &ResourceId) -> Option<&str> {
    let (_, kind) = record::parts(id)?;
    Type::of(kind).is_some_and(Type::is_single).then_some(kind)
}

/// Unites declared and claimed values with those of others; none when nothing is left.
pub fn merge(
    declared: &[&Resource],
    seen: Option<&Observed>,
    tracked: Option<&Tracked>,
    claims: &[Claim],
) -> Result<Option<Merged>, Error> {
    if let Some(kind) = declared.iter().find_map(|resource| single(&resource.id)) {
        return Err(Error::unsupported(format!("a {kind} has exactly one value"))
            .hint(format!("a {kind} cannot be merged: leave `merge` out")));
    }
    let waiting: Vec<&Resource> = declared.iter().copied().filter(|r| r.spec.bytes().is_none()).collect();
    if let Some(first) = waiting.first() {
        let resource = Resource::clone(first).with(|resource| resource.spec = united_wait(declared));
        return Ok(Some(Merged { resource, ours: Sealed::default() }));
    }
    let mut values: BTreeSet<String> = BTreeSet::new();
    let mut ttl: Option<u32> = None;
    let mut extra = "";
    for resource in declared {
        let Some(set) = resource.spec.bytes().and_then(RrSet::decode) else { continue };
        values.extend(set.values.iter().map(|value| value.to_string()));
        ttl = Some(ttl.map_or(set.ttl, |ttl| ttl.min(set.ttl)));
        extra = if extra.is_empty() { set.extra } else { extra };
    }
    let mut id = declared.first().map(|resource| resource.id.clone());
    for claim in claims {
        let (name, spec) = parse(claim)?;
        let mut value = String::new();
        crate::text::quote(spec.value.as_bytes(), &mut value);
        values.insert(value);
        if declared.is_empty() {
            ttl = Some(ttl.map_or(spec.ttl, |ttl| ttl.min(spec.ttl)));
        }
        id.get_or_insert_with(|| record::id(name.as_str(), Type::Txt.word()));
    }
    if let Some(set) = seen.and_then(|seen| RrSet::decode(&seen.bytes)) {
        let ours = remembered(tracked);
        let bare: Vec<&str> = set.values.iter().map(|value| record::bare(value)).collect();
        let wanted: Vec<&str> = values.iter().map(String::as_str).collect();
        let is_text = seen.is_some_and(|seen| strings::is_text(&seen.id));
        if is_text && let Some(cut) = strings::values_as_seen(&wanted, &bare) {
            values = cut.into_iter().collect();
        }
        let is_foreign = |value: &&&str| {
            let value = record::bare(value);
            known_by(value, &bare, &ours).is_none() && !values.contains(value)
        };
        let foreign: Vec<String> =
            set.values.iter().filter(is_foreign).map(|value| value.to_string()).collect();
        values.extend(foreign);
        ttl = ttl.or(Some(set.ttl));
        extra = if declared.is_empty() { set.extra } else { extra };
    }
    let Some(id) = id.or_else(|| seen.map(|seen| seen.id.clone())) else { return Ok(None) };
    let (Some(ttl), false) = (ttl, values.is_empty()) else { return Ok(None) };
    let mut values: Vec<String> = values.into_iter().collect();
    let bytes = record::encode_with(ttl, extra, &mut values);
    let ours = remember(&bytes, seen, tracked);
    let spec = Spec::known(bytes);
    let first = declared.first();
    // Without a declaration only the caller knows the scope and whose claims these are.
    let scope = first.map_or_else(|| Arc::new(Scope::new("", "")), |first| first.scope.clone());
    let (origin, policy) =
        first.map_or((UNDECLARED, PolicyId::default()), |first| (first.origin, first.policy));
    let resource = Resource::new(id, scope, spec, origin, policy);
    Ok(Some(Merged { resource, ours }))
}

fn united_wait(declared: &[&Resource]) -> Spec {
    let mut template = Vec::new();
    let mut on: BTreeSet<Reference> = BTreeSet::new();
    for resource in declared {
        template.extend_from_slice(&resource.spec.template().0);
        if let Spec::Waiting { on: more, .. } = &resource.spec {
            on.extend(more.iter().cloned());
        }
    }
    Spec::waiting(Hash::of(&template), on.into_iter().collect::<Vec<_>>())
}

/// Octets of a hash that tell the values of one RRset apart.
const DIGEST: usize = 8;

fn digest(value: &str) -> [u8; DIGEST] {
    let hash = Hash::of(value.as_bytes());
    let mut cut = [0; DIGEST];
    cut.copy_from_slice(&hash.0[..DIGEST]);
    cut
}

/// What the inventory remembers the value by, if it is ours; `seen` are all that are there.
///
/// A text of ours that somebody cut otherwise since is known by the text, unless several of it are there.
fn known_by(value: &str, seen: &[&str], ours: &HashSet<[u8; DIGEST]>) -> Option<[u8; DIGEST]> {
    let own = digest(value);
    if ours.contains(&own) {
        return Some(own);
    }
    let text = strings::joined(value)?;
    let by_text = Some(digest(&text)).filter(|digest| ours.contains(digest))?;
    let same = seen.iter().filter(|other| **other == text || strings::joined(other).as_ref() == Some(&text));
    (same.count() == 1).then_some(by_text)
}

fn remembered(tracked: Option<&Tracked>) -> HashSet<[u8; DIGEST]> {
    let private = tracked.map(|tracked| &tracked.private.0[..]).unwrap_or_default();
    private.chunks_exact(DIGEST).filter_map(|chunk| chunk.try_into().ok()).collect()
}

/// What the inventory keeps after writing `desired`: which of its values are ours.
///
/// A value that was there before and was not ours stays with its owner, even if it is declared here as well.
pub fn remember(desired: &[u8], observed: Option<&Observed>, tracked: Option<&Tracked>) -> Sealed {
    let Some(desired) = RrSet::decode(desired) else { return Sealed::default() };
    let before = observed.and_then(|observed| RrSet::decode(&observed.bytes));
    let seen: Vec<&str> =
        before.iter().flat_map(|set| set.values.iter().map(|value| record::bare(value))).collect();
    let before: HashSet<&str> = seen.iter().copied().collect();
    let ours = remembered(tracked);
    let mut out = Vec::with_capacity(desired.values.len() * DIGEST);
    for value in desired.values {
        let value = record::bare(value);
        let new = (!before.contains(value)).then(|| digest(value));
        if let Some(digest) = known_by(value, &seen, &ours).or(new) {
            out.extend_from_slice(&digest);
        }
    }
    Sealed::new(out)
}

/// How an action ends that took effect.
pub(crate) fn done(action: &Action) -> Outcome {
    let (observed, tracked): (Option<&Observed>, Option<&Tracked>) = match &action.op {
        Op::Update { observed, tracked, .. } | Op::Replace { observed, tracked, .. } => {
            (Some(observed), tracked.as_deref())
        }
        Op::Continue { observed, tracked, .. } => (observed.as_deref(), Some(tracked)),
        Op::Create { .. } => (None, None),
        Op::Delete { .. } => return Outcome::Gone,
    };
    let spec = action.op.desired().map(|resource| &resource.spec);
    let desired = spec.and_then(Spec::bytes).unwrap_or(record::ZONE);
    let hash = spec.and_then(Spec::hash).unwrap_or_else(|| Hash::of(desired));
    Outcome::Done(Tracked {
        private: remember(desired, observed, tracked),
        after: tracked.map(|tracked| tracked.after.clone()).unwrap_or_default(),
        ..Tracked::new(action.op.id().clone(), hash)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::Lives;

    const ID: &str = "example.com./TXT";

    fn declared(ttl: u32, values: &[&str]) -> Resource {
        Resource::new(
            ID.into(),
            Arc::new(Scope::new("pdns", "example.com")),
            Spec::known(record::encode(ttl, &mut values.to_vec())),
            Origin { manifest: 0, line: 1 },
            PolicyId::default(),
        )
    }

    fn seen(values: &[&str]) -> Observed {
        Observed::new(ID.into(), record::encode(300, &mut values.to_vec()))
    }

    fn claim(value: &str) -> Claim {
        let spec = format!(r#"{{"name": "_acme-challenge.example.com", "value": "{value}", "ttl": 30}}"#);
        let (key, provider, kind) = (value.into(), "pdns".into(), DNS_TXT.into());
        Claim { key, provider, kind, spec: spec.into(), lives: Lives::WhilePending }
    }

    fn tracked_after(desired: &Resource, before: Option<&Observed>, tracked: Option<&Tracked>) -> Tracked {
        let bytes = desired.spec.bytes().unwrap();
        let private = remember(bytes, before, tracked);
        Tracked { private, ..Tracked::new(desired.id.clone(), Hash::of(bytes)) }
    }

    fn values(resource: &Resource) -> Vec<&str> {
        RrSet::decode(resource.spec.bytes().unwrap()).unwrap().values
    }

    #[test]
    fn declared_values_join_those_of_others_and_leave_without_them() {
        let ours = declared(60, &["\"ours\""]);
        let before = seen(&["\"theirs\""]);
        let united = merge(&[&ours], Some(&before), None, &[]).unwrap().unwrap().resource;
        assert_eq!(values(&united), ["\"ours\"", "\"theirs\""]);
        assert_eq!(RrSet::decode(united.spec.bytes().unwrap()).unwrap().ttl, 60);

        let tracked = tracked_after(&united, Some(&before), None);
        let now = seen(&["\"ours\"", "\"theirs\""]);
        let left = merge(&[], Some(&now), Some(&tracked), &[]).unwrap().unwrap().resource;
        assert_eq!(values(&left), ["\"theirs\""]);
        assert_eq!(merge(&[], Some(&seen(&["\"ours\""])), Some(&tracked), &[]).unwrap(), None);
    }

    #[test]
    fn a_changed_value_replaces_ours_and_never_theirs() {
        let before = seen(&["\"theirs\""]);
        let united = merge(&[&declared(60, &["\"a\""])], Some(&before), None, &[]).unwrap().unwrap().resource;
        let tracked = tracked_after(&united, Some(&before), None);
        let now = seen(&["\"a\"", "\"theirs\"", "\"new foreign\""]);
        let next =
            merge(&[&declared(60, &["\"b\""])], Some(&now), Some(&tracked), &[]).unwrap().unwrap().resource;
        assert_eq!(values(&next), ["\"b\"", "\"new foreign\"", "\"theirs\""]);
        let again = tracked_after(&next, Some(&now), Some(&tracked));
        let seen = seen(&["\"b\"", "\"new foreign\"", "\"theirs\""]);
        let left = merge(&[], Some(&seen), Some(&again), &[]).unwrap().unwrap().resource;
        assert_eq!(values(&left), ["\"new foreign\"", "\"theirs\""]);
    }

    #[test]
    fn a_value_that_was_theirs_before_stays_when_our_declaration_goes() {
        let ours = declared(60, &["\"both\""]);
        let before = seen(&["\"both\"", "\"x\""]);
        let united = merge(&[&ours], Some(&before), None, &[]).unwrap().unwrap().resource;
        let tracked = tracked_after(&united, Some(&before), None);
        let left = merge(&[], Some(&before), Some(&tracked), &[]).unwrap().unwrap().resource;
        assert_eq!(values(&left), ["\"both\"", "\"x\""]);
    }

    #[test]
    fn a_value_is_the_same_however_it_stands_at_the_remote() {
        for word in ["(disabled)", "(ttl 300)", "(proxied, other comment)"] {
            let ours = declared(60, &["\"ours\""]);
            let before = seen(&["\"theirs\""]);
            let united = merge(&[&ours], Some(&before), None, &[]).unwrap().unwrap().resource;
            let tracked = tracked_after(&united, Some(&before), None);
            let now = seen(&[&format!("{word} \"ours\""), &format!("{word} \"theirs\"")]);
            let theirs = format!("{word} \"theirs\"");
            let again = merge(&[&ours], Some(&now), Some(&tracked), &[]).unwrap().unwrap().resource;
            assert_eq!(values(&again), ["\"ours\"", &theirs], "{word}");
            let left = merge(&[], Some(&now), Some(&tracked), &[]).unwrap().unwrap().resource;
            assert_eq!(values(&left), [&theirs], "{word}");
            // What is theirs stays theirs when we declare it, too.
            let both =
                merge(&[&declared(60, &["\"theirs\""])], Some(&now), None, &[]).unwrap().unwrap().resource;
            assert_eq!(tracked_after(&both, Some(&now), None).private, Sealed::default(), "{word}");
        }
    }

    #[test]
    fn texts_of_others_stay_cut_as_they_are() {
        let (cut, ours) = ("\"path=/x\" \"rp=lp\"", declared(60, &["\"ours\""]));
        let before = seen(&[cut]);
        let united = merge(&[&ours], Some(&before), None, &[]).unwrap().unwrap().resource;
        assert_eq!(values(&united), ["\"ours\"", cut]);
        let tracked = tracked_after(&united, Some(&before), None);
        let now = seen(&["\"ours\"", cut]);
        let left = merge(&[], Some(&now), Some(&tracked), &[]).unwrap().unwrap().resource;
        assert_eq!(values(&left), [cut]);
        // One that is declared as well is theirs, and no second one is put beside it.
        let same = declared(60, &["\"path=/xrp=lp\""]);
        let united = merge(&[&same], Some(&before), None, &[]).unwrap().unwrap();
        assert_eq!((values(&united.resource), &united.ours), (vec![cut], &Sealed::default()));
    }

    #[test]
    fn a_text_of_ours_is_ours_however_it_is_cut_unless_it_may_be_anothers() {
        let (plain, cut) = ("\"ab\"", "\"a\" \"b\"");
        let ours = declared(60, &[plain]);
        let united = merge(&[&ours], None, None, &[]).unwrap().unwrap().resource;
        let tracked = tracked_after(&united, None, None);
        let check = |now: &[&str], united: &[&str], left: &[&str]| {
            let now = seen(now);
            let found = merge(&[&ours], Some(&now), Some(&tracked), &[]).unwrap().unwrap().resource;
            assert_eq!(values(&found), united);
            let again = tracked_after(&found, Some(&now), Some(&tracked));
            for tracked in [&tracked, &again] {
                let found = merge(&[], Some(&now), Some(tracked), &[]).unwrap();
                let found = found.as_ref().map(|merged| values(&merged.resource)).unwrap_or_default();
                assert_eq!(found, left);
            }
        };
        check(&[cut], &[cut], &[]);
        check(&[plain, cut], &[cut, plain], &[cut]);
        check(&["\"\" \"ab\"", cut], &["\"\" \"ab\"", cut, plain], &["\"\" \"ab\"", cut]);
    }

    #[test]
    fn two_challenges_share_a_name_and_each_leaves_alone() {
        let both = merge(&[], None, None, &[claim("one"), claim("two")]).unwrap().unwrap().resource;
        assert_eq!(&*both.id.0, "_acme-challenge.example.com./TXT");
        assert_eq!(values(&both), ["\"one\"", "\"two\""]);
        let tracked = tracked_after(&both, None, None);
        let now = Observed::new(both.id.clone(), both.spec.bytes().unwrap());
        let one = merge(&[], Some(&now), Some(&tracked), &[claim("one")]).unwrap().unwrap().resource;
        assert_eq!(values(&one), ["\"one\""]);
        let none = merge(&[], Some(&now), Some(&tracked), &[]).unwrap();
        assert_eq!(none, None);
    }

    #[test]
    fn several_declarations_are_united_and_a_cname_is_not() {
        let (a, b) = (declared(60, &["\"a\""]), declared(30, &["\"b\""]));
        let united = merge(&[&a, &b], None, None, &[]).unwrap().unwrap().resource;
        assert_eq!(united.spec.bytes().unwrap(), b"30\n\"a\"\n\"b\"");
        let id = ResourceId::from("www.example.com./CNAME");
        let [a, b] = ["a.", "b."].map(|v| declared(60, &[v]).with(|resource| resource.id = id.clone()));
        assert!(merge(&[&a, &b], None, None, &[]).unwrap_err().hint.as_ref().unwrap().contains("merge"));
    }

    #[test]
    fn a_claim_lands_in_the_longest_zone_of_its_entry() {
        let scopes = ["pdns/example.com", "pdns/sub.example.com", "bind/a.sub.example.com"]
            .map(|s| s.parse().unwrap())
            .into();
        let spec =
            bytes::Bytes::from_static(br#"{"name": "_acme-challenge.a.sub.example.com.", "value": "x"}"#);
        let claim = Claim { spec, ..claim("x") };
        let (scope, id) = place("pdns", &claim, &scopes).unwrap();
        assert_eq!((&*scope.name, &*id.0), ("sub.example.com", "_acme-challenge.a.sub.example.com./TXT"));
        assert!(place("pdns", &claim, &BTreeSet::new()).is_err());
        let rather = |scope: Option<&Scope>| -> Vec<String> {
            would_carry(&claim, scope).into_iter().map(|(kind, zone)| format!("{kind} {zone}")).collect()
        };
        let own = "dns/Zone _acme-challenge.a.sub.example.com";
        assert_eq!(rather(Some(&scope)), ["dns/Zone a.sub.example.com", own]);
        assert_eq!(rather(None)[..2], ["dns/Zone com", "dns/Zone example.com"]);
        assert_eq!(rather(Some(&Scope::new("pdns", "_acme-challenge.a.sub.example.com"))), [""; 0]);
    }
}
