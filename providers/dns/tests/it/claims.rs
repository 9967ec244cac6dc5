//! Claims at every backend: the values of several claimants and of others share a name, and each goes alone.

use crate::{
    ownership::backends,
    world::{self, Notes, batch, observe, observe_for},
};
use reconciled_provider::{Claim, Lives, Op, Outcome, Provider, Resource, Scope, Tracked};
use std::{collections::BTreeSet, sync::Arc};

const ZONE: &str = "example.com";
const ID: &str = "_acme-challenge.example.com./TXT";

fn claim(value: &str) -> Claim {
    let spec = format!(r#"{{"name": "_acme-challenge.example.com", "value": "{value}"}}"#);
    let (key, kind) = (value.into(), "dns-txt".into());
    Claim { key, provider: "test".into(), kind, spec: spec.into(), lives: Lives::WhilePending }
}

/// What the engine does for claims: unites them with what is there, writes that, and remembers which were ours.
async fn carry(
    provider: &dyn Provider,
    cx: &reconciled_provider::Cx,
    claims: &[&str],
    tracked: &mut Option<Tracked>,
) {
    let claims: Vec<Claim> = claims.iter().map(|value| claim(value)).collect();
    let seen = observe(provider, cx, ZONE).await.unwrap();
    let now = seen.get(&ID.into()).cloned();
    let merged = provider.merge(&[], now.as_ref(), tracked.as_ref(), &claims).unwrap();
    let desired = merged.map(|merged| {
        let (scope, id) = match claims.first() {
            Some(claim) => provider.place(claim, &BTreeSet::from([world::scope(ZONE)])).unwrap(),
            None => (world::scope(ZONE), ID.into()),
        };
        assert_eq!((&scope, &*id.0), (&Scope::new("test", ZONE), ID));
        Resource { id, scope: Arc::new(scope), ..merged.resource }
    });
    let op = match (desired, now) {
        (Some(desired), Some(observed)) => {
            let Some(delta) = provider.compare(&desired, &observed) else { return };
            Op::Update { desired, delta, observed, tracked: tracked.clone() }
        }
        (Some(desired), None) => Op::Create { desired, delta: Default::default() },
        (None, Some(observed)) => Op::Delete { observed, tracked: tracked.clone() },
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
        let (name, cx) = (backend.name, &backend.cx);
        let hand = backend.hand();
        let theirs =
            backend.desired(&*hand, &["name: _acme-challenge, type: TXT, values: [theirs], ttl: 60"]);
        world::converge(&*hand, cx, ZONE, &theirs, &[]).await;
        let ours = backend.of("dns1", None);
        let values = async || {
            let seen = observe_for(&*ours, cx, ZONE, &[]).await.unwrap();
            let bytes = seen.get(&ID.into()).map(|o| o.bytes.to_vec()).unwrap_or_default();
            let text = String::from_utf8(bytes).unwrap();
            text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        let mut tracked = None;
        carry(&*ours, cx, &["one"], &mut tracked).await;
        assert_eq!(values().await, r#""one" "theirs""#, "{name}");
        carry(&*ours, cx, &["one", "two", "three"], &mut tracked).await;
        assert_eq!(values().await, r#""one" "theirs" "three" "two""#, "{name}");
        // A second run has nothing to write, and neither has a process that died after the write.
        let before = observe(&*ours, cx, ZONE).await.unwrap().version;
        carry(&*ours, cx, &["one", "two", "three"], &mut tracked).await;
        assert_eq!(observe(&*ours, cx, ZONE).await.unwrap().version, before, "{name}");
        carry(&*ours, cx, &["two"], &mut tracked).await;
        assert_eq!(values().await, r#""theirs" "two""#, "{name}");
        carry(&*ours, cx, &[], &mut tracked).await;
        assert_eq!(values().await, r#""theirs""#, "{name}");
    }
}
