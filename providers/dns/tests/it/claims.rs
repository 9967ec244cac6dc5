//! Claims at every backend: the values of several claimants and of others share a name, and each goes alone.

use crate::{
    ownership::{Backend, backends, txt},
    world::{self, Notes, batch, observe, observe_for},
};
use reconciled_dns::ownership::TxtMarks;
use reconciled_provider::{Claim, Lives, Op, Outcome, Owner, Provider, ResourceId, Scope, Tracked};
use std::{collections::BTreeSet, sync::Arc};

const ZONE: &str = "example.com";

fn claim(name: &str, value: &str) -> Claim {
    let spec = format!(r#"{{"name": "{name}.example.com", "value": "{value}"}}"#);
    let (key, kind) = (value.into(), "dns-txt".into());
    Claim { key, provider: "test".into(), kind, spec: spec.into(), lives: Lives::WhilePending }
}

/// What the engine does for claims: unites them with what is there, writes that, and remembers which were ours.
async fn carry(
    provider: &dyn Provider,
    cx: &reconciled_provider::Cx,
    (name, claims): (&str, &[&str]),
    tracked: &mut Option<Tracked>,
) {
    let claims: Vec<Claim> = claims.iter().map(|value| claim(name, value)).collect();
    let at = format!("{name}.example.com./TXT");
    let at = at.as_str();
    let seen = observe(provider, cx, ZONE).await.unwrap();
    let now = seen.get(&at.into()).cloned();
    let merged = provider.merge(&[], now.as_ref(), tracked.as_ref(), &claims).unwrap();
    let desired = merged.map(|merged| {
        let (scope, id) = match claims.first() {
            Some(claim) => provider.place(claim, &BTreeSet::from([world::scope(ZONE)])).unwrap(),
            None => (world::scope(ZONE), at.into()),
        };
        assert_eq!((&scope, &*id.0), (&Scope::new("test", ZONE), at));
        merged.resource.with(|resource| {
            resource.id = id;
            resource.scope = Arc::new(scope);
        })
    });
    let op = match (desired, now) {
        (Some(desired), Some(observed)) => {
            let Some(delta) = provider.compare(&desired, &observed) else { return };
            Op::Update {
                desired,
                delta: delta.into(),
                observed: observed.into(),
                tracked: tracked.clone().map(Box::new),
            }
        }
        (Some(desired), None) => Op::Create { desired, delta: Default::default() },
        (None, Some(observed)) => {
            Op::Delete { observed: observed.into(), tracked: tracked.clone().map(Box::new) }
        }
        (None, None) => return,
    };
    let work = batch(ZONE, &seen, vec![op]);
    let notes = Notes::default();
    provider.apply(cx, &work, &notes).await.unwrap();
    let outcome = notes.outcomes.lock().unwrap().values().next().cloned();
    *tracked = match outcome {
        Some(Outcome::Done(done)) => Some(done),
        Some(Outcome::Gone) => None,
        other => panic!("{other:?}"),
    };
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_claimants_and_of_others_share_a_name_and_go_alone() {
    for backend in backends().await {
        // A challenge gets no mark in a TXT record; what else is claimed does.
        for (host, marks) in [("_acme-challenge", None), ("shared", None), ("marked", Some(txt(None)))] {
            share(&backend, host, marks).await;
        }
    }
}

async fn share(backend: &Backend, host: &str, marks: Option<TxtMarks>) {
    let (name, cx) = (format!("{} {host}", backend.name), &backend.cx);
    let hand = backend.hand();
    let theirs = backend.desired(&*hand, &[&format!("name: {host}, type: TXT, values: [theirs], ttl: 60")]);
    world::converge(&*hand, cx, ZONE, &theirs, &[]).await;
    let ours = backend.of("dns1", marks);
    let id = ResourceId::from(format!("{host}.example.com./TXT").as_str());
    let values = async || {
        let seen = observe_for(&*ours, cx, ZONE, &[]).await.unwrap();
        let bytes = seen.get(&id).map(|o| o.bytes.to_vec()).unwrap_or_default();
        let text = String::from_utf8(bytes).unwrap();
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    let mut tracked = None;
    carry(&*ours, cx, (host, &["one"]), &mut tracked).await;
    assert_eq!(values().await, r#""one" "theirs""#, "{name}");
    carry(&*ours, cx, (host, &["one", "two", "three"]), &mut tracked).await;
    assert_eq!(values().await, r#""one" "theirs" "three" "two""#, "{name}");
    // A second run has nothing to write, and neither has a process that died after the write.
    let before = observe(&*ours, cx, ZONE).await.unwrap().version;
    carry(&*ours, cx, (host, &["one", "two", "three"]), &mut tracked).await;
    assert_eq!(observe(&*ours, cx, ZONE).await.unwrap().version, before, "{name}");
    carry(&*ours, cx, (host, &["two"]), &mut tracked).await;
    assert_eq!(values().await, r#""theirs" "two""#, "{name}");
    carry(&*ours, cx, (host, &[]), &mut tracked).await;
    assert_eq!(values().await, r#""theirs""#, "{name}");
    // With our mark on it, the next declaration would take it for ours and overwrite it without consent.
    let left = observe(&*ours, cx, ZONE).await.unwrap();
    assert_eq!(left.get(&id).unwrap().owner, Owner::Unmarked, "{name}");
    let marks = left.resources.iter().filter(|o| o.bytes.windows(15).any(|part| part == b"reconciled/zone"));
    assert_eq!(marks.count(), 0, "{name}: {left:?}");
}
