//! What goes wrong with the account: credentials that expire while they are used, and a cloud that has had too much.

use crate::{
    provider::Desk,
    writes::{carry_out, create, planned, remembered, replan, word},
};
use async_trait::async_trait;
use reconciled_provider::{Cx, ErrorKind, Focus, Op, Outcome, Pace, Scope, SecretRef, Turns, Want};
use reconciled_testkit::{
    PATIENCE,
    context::{TableSecrets, cx_with},
};
use serde_json::{Value as Json, json};
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

fn with_token(token: &str) -> Cx {
    let mut secrets = TableSecrets::default();
    secrets.0.insert(SecretRef::File("/token".into()), token.into());
    cx_with(secrets)
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_expire_lose_nothing_and_new_ones_go_on() {
    let mut desk = Desk::new("token: {file: /token}\n");
    desk.cx = with_token("short");
    let declared = json!({ "config": { "name": "a" } });
    let made = carry_out(&desk, &desk.cx, create(&desk, &declared).await, None).await;
    let Outcome::Done(tracked) = made else { panic!("{made:?}") };
    let changed = json!({ "config": { "name": "a", "content": "x" } });
    let (tracked, observed, delta) = replan(&desk, &changed, tracked).await;

    // Between the plan and the change.
    fs::write(desk.world.path().join("expired"), "").unwrap();
    let op = Op::Update {
        desired: Desk::desired(&changed),
        delta: delta.into(),
        observed: observed.into(),
        tracked: Some(tracked.clone().into()),
    };
    let outcome = carry_out(&desk, &desk.cx, op, None).await;
    assert!(word(&outcome).starts_with("failed: update toy_thing.a: ExpiredToken"), "{outcome:?}");
    assert_eq!(outcome.error().unwrap().kind, ErrorKind::PermissionDenied);
    // What cannot be asked for is not gone.
    let error = desk.look(&changed, std::slice::from_ref(&tracked)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::PermissionDenied);
    assert_eq!(
        error.hint.as_deref(),
        Some("the entry's `config` and `env` say what the provider signs in with")
    );

    desk.cx = with_token("fresh");
    let (tracked, observed, delta) = replan(&desk, &changed, tracked).await;
    let op = Op::Update {
        desired: Desk::desired(&changed),
        delta: delta.into(),
        observed: observed.into(),
        tracked: Some(tracked.into()),
    };
    let outcome = carry_out(&desk, &desk.cx, op, None).await;
    assert_eq!(word(&outcome), "done");
    assert!(remembered(&outcome)["state"].as_str().unwrap().contains(r#""content":"x""#));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_refused_for_asking_too_much_comes_back_later_each_time() {
    let desk = Desk::new("");
    let throttled = async |desk: &Desk, declared: Json| {
        let outcome = carry_out(desk, &desk.cx, create(desk, &declared).await, None).await;
        let error = outcome.error().expect("an error").clone();
        // Nothing was made, and that is known: it is no creation without an answer.
        assert_eq!((outcome.word(), error.kind), ("failed", ErrorKind::RateLimited), "{error}");
        error.retry_after.expect("a time")
    };
    let declared = json!({ "config": { "name": "a", "fault": "throttle" } });
    assert_eq!(throttled(&desk, declared.clone()).await, Duration::from_secs(10));
    // What follows at once is the same complaint; the next one counts, however much is read between them.
    let deadline = Instant::now() + PATIENCE;
    let (tracked, ..) = planned(&desk, &json!({ "config": { "name": "a", "content": "x" } })).await;
    let scope = Desk::scope();
    let want = Want {
        scope: &scope,
        focus: &Focus::All,
        desired: &[],
        tracked: std::slice::from_ref(&tracked),
        claims: &[],
    };
    let next = loop {
        for _ in 0..100 {
            let seen = desk.provider.observe(&desk.cx, &want).await.expect("it is read");
            assert_eq!(seen.resources.len(), 1);
        }
        let wait = throttled(&desk, declared.clone()).await;
        if wait > Duration::from_secs(10) {
            break wait;
        }
        assert!(Instant::now() < deadline, "it is told to come back as soon as ever");
    };
    assert_eq!(next, Duration::from_secs(20));
    // Who asks for something else is served.
    let other = json!({ "config": { "name": "b" } });
    assert_eq!(word(&carry_out(&desk, &desk.cx, create(&desk, &other).await, None).await), "done");
    // Another entry is another account, of which nothing is held against it.
    assert_eq!(throttled(&Desk::new(""), declared).await, Duration::from_secs(10));
}

/// Counts the turns that were waited for.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

#[async_trait]
impl Turns for Counted {
    async fn turn(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Counted {
    fn since(&self) -> usize {
        self.0.swap(0, Ordering::SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_reaches_the_cloud_waits_for_its_turn_and_nothing_else_does() {
    let mut desk = Desk::new("");
    let turns = Counted::default();
    desk.cx.pace = Pace::of(turns.clone());
    let declared = json!({ "config": { "name": "a" } });
    let op = create(&desk, &declared).await;
    assert_eq!(turns.since(), 0, "nothing is there to be read, and a plan asks the provider alone");
    let made = carry_out(&desk, &desk.cx, op, None).await;
    let Outcome::Done(tracked) = made else { panic!("{made:?}") };
    assert_eq!(turns.since(), 1, "a creation");

    let changed = json!({ "config": { "name": "a", "content": "x" } });
    let (tracked, observed, delta) = replan(&desk, &changed, tracked).await;
    assert_eq!(turns.since(), 1, "a read");
    let op = Op::Update {
        desired: Desk::desired(&changed),
        delta: delta.into(),
        observed: observed.into(),
        tracked: Some(tracked.into()),
    };
    let Outcome::Done(tracked) = carry_out(&desk, &desk.cx, op, None).await else { panic!("an update") };
    assert_eq!(turns.since(), 1, "an update");

    // Another place: what is there goes, and what takes its place is made.
    let moved = json!({ "config": { "name": "b", "content": "x" } });
    let (tracked, observed, delta) = replan(&desk, &moved, tracked).await;
    assert!(delta.replace);
    turns.since();
    let op = Op::Replace {
        desired: Desk::desired(&moved),
        delta: delta.into(),
        observed: observed.into(),
        tracked: Some(tracked.into()),
    };
    let Outcome::Done(tracked) = carry_out(&desk, &desk.cx, op, None).await else { panic!("a replacement") };
    assert_eq!(turns.since(), 2, "a deletion and a creation");

    let id = tracked.remote.clone().expect("an id");
    let import = json!({ "config": { "name": "b", "content": "x" }, "import": id });
    let (seen, _) = desk.look(&import, &[]).await.unwrap();
    assert_eq!((seen.resources.len(), turns.since()), (1, 2), "found by its id, and read");
    let scope = Scope::new("toy", "Data/b");
    let data = Desk::desired(&json!({ "config": { "name": "b" } })).with(|resource| {
        resource.id = "data.toy_thing.b".into();
        resource.scope = scope.clone().into();
    });
    let desired = [data];
    let want = Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked: &[], claims: &[] };
    let told = desk.provider.observe(&desk.cx, &want).await.unwrap();
    assert_eq!((told.resources.len(), turns.since()), (1, 1), "data");

    let op = Op::Delete { observed: seen.resources[0].clone().into(), tracked: Some(tracked.into()) };
    assert_eq!(word(&carry_out(&desk, &desk.cx, op, None).await), "gone");
    assert_eq!(turns.since(), 1, "a deletion");
}

/// One turn, and never another.
#[derive(Default)]
struct OneTurn(AtomicUsize);

#[async_trait]
impl Turns for OneTurn {
    async fn turn(&self) {
        if self.0.fetch_add(1, Ordering::SeqCst) > 0 {
            std::future::pending::<()>().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_wishes_to_stop_keeps_no_half_of_a_replacement_waiting_for_its_turn() {
    let desk = Desk::new("");
    let declared = json!({ "config": { "name": "b" } });
    let (tracked, observed, delta) = planned(&desk, &declared).await;
    assert!(delta.replace);
    let op = Op::Replace {
        desired: Desk::desired(&declared),
        delta: delta.into(),
        observed: observed.into(),
        tracked: Some(tracked.into()),
    };
    let cx = Cx { pace: Pace::of(OneTurn::default()), ..desk.cx.clone() };
    let outcome = carry_out(&desk, &cx, op, Some(cx.stop.clone())).await;
    assert_eq!(word(&outcome), "done");
}
