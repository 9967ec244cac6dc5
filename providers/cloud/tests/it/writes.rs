//! What is written, and what is remembered of it: a provider that is told to misbehave while it writes.

use crate::provider::Desk;
use async_trait::async_trait;
use reconciled_cloud::{Mark, open};
use reconciled_provider::{
    Action, ActionId, Batch, Clock, Cx, Delta, Error, ErrorKind, Focus, Journal, Observed, Op, Outcome,
    Owner, Sealed, Shown, Spec, Stop, Tracked, Version, Want,
};
use serde_json::{Value as Json, json};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A clock that a test moves, and that waits until it does.
#[derive(Default)]
struct StillClock(AtomicU64);

#[async_trait]
impl Clock for StillClock {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
    async fn sleep(&self, wait: Duration) {
        let end = self.now() + wait;
        while self.now() < end {
            tokio::task::yield_now().await;
        }
    }
}

/// What was noted; a wish to stop comes right before the first call.
#[derive(Default)]
pub(crate) struct Notes {
    stop: Option<Stop>,
    pub(crate) outcomes: Mutex<Vec<Outcome>>,
}

#[async_trait]
impl Journal for Notes {
    async fn started(&self, _: &[ActionId]) -> Result<(), Error> {
        self.stop.iter().for_each(Stop::set);
        Ok(())
    }
    async fn progress(&self, _: ActionId, _: Tracked) -> Result<(), Error> {
        Ok(())
    }
    async fn finished(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        self.outcomes
            .lock()
            .expect("nobody panics with it")
            .extend(outcomes.into_iter().map(|(_, outcome)| outcome));
        Ok(())
    }
}

/// Carries out one operation.
pub(crate) async fn carry_out(desk: &Desk, cx: &Cx, op: Op, stop: Option<Stop>) -> Outcome {
    let notes = Notes { stop, ..Notes::default() };
    let action = Action { id: ActionId(1), token: "t".into(), op };
    let batch = Batch { scope: Desk::scope(), base: Version::Unknown, actions: vec![action] };
    desk.provider.apply(cx, &batch, &notes).await.expect("the journal refuses nothing");
    let mut outcomes = notes.outcomes.into_inner().expect("nobody panics with it");
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0)
}

pub(crate) async fn create(desk: &Desk, declared: &Json) -> Op {
    let (_, mut deltas) = desk.look(declared, &[]).await.expect("a plan");
    let delta = deltas.remove(&"toy_thing.a".into()).expect("a difference").expect("a plan");
    Op::Create { desired: Desk::desired(declared), delta: delta.into() }
}

/// The thing `thing-1`, tracked, and what `declared` comes to then.
pub(crate) async fn planned(desk: &Desk, declared: &Json) -> (Tracked, Observed, Delta) {
    desk.put("thing-1", &json!({ "id": "thing-1", "name": "a", "size": 0, "level": 3 }));
    let (seen, _) =
        desk.look(&json!({ "config": { "name": "a" }, "import": "thing-1" }), &[]).await.expect("a plan");
    let tracked = Desk::tracked(&seen);
    replan(desk, declared, tracked).await
}

pub(crate) async fn replan(desk: &Desk, declared: &Json, tracked: Tracked) -> (Tracked, Observed, Delta) {
    let (mut seen, mut deltas) = desk.look(declared, std::slice::from_ref(&tracked)).await.expect("a plan");
    let delta = deltas.remove(&"toy_thing.a".into()).expect("a difference").expect("a plan");
    (tracked, seen.resources.remove(0), delta)
}

/// What is remembered after an outcome.
pub(crate) fn remembered(outcome: &Outcome) -> Json {
    let (Outcome::Done(tracked) | Outcome::Partial(tracked, _)) = outcome else { panic!("{outcome:?}") };
    serde_json::from_slice(&tracked.private.0).expect("a state")
}

pub(crate) fn word(outcome: &Outcome) -> String {
    let error = outcome.error().map(|error| format!(": {}", error.message)).unwrap_or_default();
    format!("{}{error}", outcome.word())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_is_waited_for_by_who_wishes_to_stop() {
    let desk = Desk::new("");
    let cx = Cx { clock: Arc::new(StillClock::default()), ..desk.cx.clone() };
    let declared = json!({ "config": { "name": "a", "fault": "stoppable" } });
    let op = create(&desk, &declared).await;
    let outcome = carry_out(&desk, &cx, op, Some(cx.stop.clone())).await;
    assert_eq!(word(&outcome), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_longer_than_its_limit_is_asked_to_end() {
    let desk = Desk::new("");
    let clock = Arc::new(StillClock::default());
    let cx = Cx { clock: clock.clone(), ..desk.cx.clone() };
    let declared = json!({ "config": { "name": "a", "fault": "hang" } });
    let op = create(&desk, &declared).await;
    let over = async {
        // The engine wishes to stop when the limit is over.
        cx.stop.wished().await;
        clock.0.store(reconciled_cloud::INFO.apply_limit.as_secs(), Ordering::SeqCst);
    };
    let (outcome, ()) = tokio::join!(carry_out(&desk, &cx, op, Some(cx.stop.clone())), over);
    assert_eq!(word(&outcome), "unknown: create toy_thing.a: it was asked to stop");
    // Whoever comes next has another process.
    let next = json!({ "config": { "name": "a", "fault": "stoppable" } });
    let cx = desk.cx.clone();
    let cx = Cx { clock, stop: Stop::default(), ..cx };
    let op = create(&desk, &next).await;
    assert_eq!(word(&carry_out(&desk, &cx, op, None).await), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_under_way_when_everything_ends_is_asked_to_end_before_that() {
    let desk = Desk::new("");
    let clock = Arc::new(StillClock::default());
    let cx = Cx { clock: clock.clone(), stop: Stop::default(), ..desk.cx.clone() };
    let op = create(&desk, &json!({ "config": { "name": "a", "fault": "hang" } })).await;
    let ends = async {
        cx.stop.wished().await;
        cx.stop.end();
        // Time goes by, and never so much that the limit of an `apply` were over.
        for now in (1..reconciled_cloud::INFO.apply_limit.as_secs()).cycle() {
            clock.0.store(now, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    };
    let outcome = tokio::select! {
        outcome = carry_out(&desk, &cx, op, Some(cx.stop.clone())) => outcome,
        () = ends => unreachable!("time has no end"),
    };
    assert_eq!(word(&outcome), "unknown: create toy_thing.a: it was asked to stop");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_whose_answer_the_provider_lost_may_have_taken_effect() {
    let desk = Desk::new("");
    for (fault, expect) in
        [("unheard", "unknown"), ("broken", "unknown"), ("refused", "failed"), ("throttle", "failed")]
    {
        let op = create(&desk, &json!({ "config": { "name": "a", "fault": fault } })).await;
        let outcome = carry_out(&desk, &desk.cx.clone(), op, None).await;
        assert_eq!(outcome.word(), expect, "{fault}: {outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_in_part_is_planned_anew_with_the_reason() {
    let desk = Desk::new("");
    let declared = json!({ "config": { "name": "a", "content": "x", "fault": "half" } });
    let op = create(&desk, &declared).await;
    let outcome = carry_out(&desk, &desk.cx.clone(), op, None).await;
    let Outcome::Partial(tracked, _) = outcome else { panic!("{outcome:?}") };
    let (_, _, delta) = replan(&desk, &declared, tracked).await;
    assert!(delta.replace);
    let first = &delta.fields[0];
    let text = |shown: &Shown| match shown {
        Shown::Text(text) => text.clone(),
        other => format!("{other:?}"),
    };
    let told = (&*first.path, text(&first.before), text(&first.after));
    assert_eq!(told, ("state", "made in part (tainted)".into(), "made anew".into()));
    assert!(delta.fields.len() > 1, "what differs is told too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_that_is_its_predecessor_is_not_deleted() {
    let replace = async |fault: &str| {
        let desk = Desk::new("");
        let declared = json!({
            "config": { "name": "b", "fault": fault },
            "lifecycle": { "create_before_destroy": true },
        });
        let (tracked, observed, delta) = planned(&desk, &declared).await;
        assert!(delta.replace);
        let desired = Desk::desired(&declared);
        let op = Op::Replace {
            desired,
            delta: delta.into(),
            observed: observed.into(),
            tracked: Some(tracked.into()),
        };
        let cx = Cx { clock: Arc::new(StillClock::default()), ..desk.cx.clone() };
        carry_out(&desk, &cx, op, None).await
    };
    let outcome = replace("same").await;
    let expect = "partial: replace toy_thing.a: the new one is the one that it takes the place of (thing-1), \
                  changed; nothing is deleted";
    assert_eq!(word(&outcome), expect);
    assert_eq!(remembered(&outcome)["former"], Json::Null);
    // Another one takes the place of the one before, which goes later.
    let outcome = replace("none").await;
    assert_eq!(word(&outcome), "done");
    assert_eq!(remembered(&outcome)["former"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_fails_loses_nothing() {
    let desk = Desk::new("");
    let declared = json!({ "config": { "name": "a", "content": "x", "fault": "lose" } });
    let (tracked, observed, delta) = planned(&desk, &declared).await;
    let op = Op::Update {
        desired: Desk::desired(&declared),
        delta: delta.into(),
        observed: observed.into(),
        tracked: Some(tracked.into()),
    };
    let outcome = carry_out(&desk, &desk.cx.clone(), op, None).await;
    assert_eq!(word(&outcome), "failed: update toy_thing.a: it went wrong");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_told_without_the_secrets_that_were_made() {
    let desk = Desk::new("");
    let declared = json!({ "config": { "name": "a", "fault": "tell" } });
    let op = create(&desk, &declared).await;
    let outcome = carry_out(&desk, &desk.cx.clone(), op, None).await;
    assert_eq!(word(&outcome), "partial: create toy_thing.a: the password (secret) is too short");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_to_go_still_has_to_after_a_deletion_in_part() {
    let desk = Desk::new("");
    desk.put("thing-1", &json!({ "id": "thing-1", "name": "a", "size": 0, "level": 3 }));
    let (seen, _) = desk.look(&json!({ "config": { "name": "a" }, "import": "thing-1" }), &[]).await.unwrap();
    let mut tracked = Desk::tracked(&seen);
    // As it is after a creation that failed half way.
    let mut kept: Json = serde_json::from_slice(&tracked.private.0).unwrap();
    let state = kept["state"].as_str().unwrap().replace(r#""fault":null"#, r#""fault":"cling""#);
    kept["state"] = state.into();
    kept["is_tainted"] = true.into();
    kept["triggers"] = json!(["before"]);
    tracked.private = Sealed::new(kept.to_string());
    let declared = json!({ "config": { "name": "a" }, "lifecycle": { "triggers": ["after"] } });
    let (tracked, observed, delta) = replan(&desk, &declared, tracked).await;
    assert!(delta.replace);
    let op = Op::Replace {
        desired: Desk::desired(&declared),
        delta: delta.into(),
        observed: observed.into(),
        tracked: Some(tracked.into()),
    };
    let outcome = carry_out(&desk, &desk.cx.clone(), op, None).await;
    assert_eq!(word(&outcome), "partial: replace toy_thing.a: only half of it is gone");
    let kept = remembered(&outcome);
    assert_eq!((&kept["is_tainted"], &kept["triggers"]), (&json!(true), &json!(["before"])));
    assert!(kept["state"].as_str().unwrap().contains("half gone"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_given_up_by_who_wishes_to_stop() {
    let desk = Desk::new("");
    // Its end cannot be planned.
    desk.put("thing-1", &json!({ "id": "thing-1", "name": "a", "content": "wedge", "size": 5, "level": 3 }));
    let declared = json!({ "config": { "name": "a" }, "import": "thing-1" });
    let (mut seen, _) = desk.look(&declared, &[]).await.unwrap();
    let tracked = Desk::tracked(&seen);
    let op = Op::Delete { observed: seen.resources.remove(0).into(), tracked: Some(tracked.into()) };
    let notes = Notes::default();
    let action = Action { id: ActionId(1), token: "t".into(), op };
    let batch = Batch { scope: Desk::scope(), base: Version::Unknown, actions: vec![action] };
    let cx = Cx { stop: Stop::default(), ..desk.cx.clone() };
    let work = desk.provider.apply(&cx, &batch, &notes);
    let wish = async {
        tokio::task::yield_now().await;
        cx.stop.set();
    };
    let limit = Duration::from_secs(30);
    let (done, ()) = tokio::join!(tokio::time::timeout(limit, work), wish);
    done.expect("it is given up").unwrap();
    assert!(notes.outcomes.into_inner().unwrap().is_empty(), "nothing was begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_unknown_after_it_was_done_is_nothing() {
    let made = async |fault: &str| {
        let desk = Desk::new("");
        let declared = json!({ "config": { "name": "a", "content": "x", "fault": fault } });
        let op = create(&desk, &declared).await;
        carry_out(&desk, &desk.cx.clone(), op, None).await
    };
    // Nobody knew what it would be, and nobody does.
    let outcome = made("unknown").await;
    assert_eq!(word(&outcome), "done");
    assert!(remembered(&outcome)["state"].as_str().unwrap().contains(r#""size":null"#));
    // What was planned did not come about, and is remembered: it exists.
    let outcome = made("unknown-declared").await;
    let expect = "partial: create toy_thing.a: content did not come about as the provider planned it";
    assert_eq!(word(&outcome), expect);
    assert!(remembered(&outcome)["state"].as_str().unwrap().contains(r#""content":null"#));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_with_nothing_that_can_be_read_may_have_been_done() {
    let made = async |fault: &str| {
        let desk = Desk::new("");
        let declared = json!({ "config": { "name": "a", "fault": fault } });
        let op = create(&desk, &declared).await;
        let outcome = carry_out(&desk, &desk.cx.clone(), op, None).await;
        // Whoever comes next is served.
        let op = create(&desk, &json!({ "config": { "name": "b" } })).await;
        assert_eq!(word(&carry_out(&desk, &desk.cx, op, None).await), "done");
        let is_made = desk.world.path().join("thing-2.json").exists();
        (word(&outcome), is_made)
    };
    for (fault, part, expect) in [
        ("garbage", "with what is no message", false),
        ("die", "provider `toy` died, with exit code 9", false),
        ("die-after", "provider `toy` died, with exit code 9", true),
    ] {
        let (word, is_made) = made(fault).await;
        assert!(word.starts_with("unknown: create toy_thing.a") && word.contains(part), "{fault}: {word}");
        assert_eq!(is_made, expect, "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_exists_is_made_again_later_and_says_how_to_take_it_over() {
    let desk = Desk::new("");
    let op = create(&desk, &json!({ "config": { "name": "a", "fault": "exists" } })).await;
    let outcome = carry_out(&desk, &desk.cx.clone(), op, None).await;
    let error = outcome.error().expect("an error");
    assert_eq!((outcome.word(), error.kind), ("failed", ErrorKind::Unexpected), "{error}");
    assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("reconciled/import")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_ignored_stays_though_the_old_sdk_plans_otherwise() {
    let desk = Desk::new("");
    let thing = json!({ "id": "thing-1", "name": "a", "content": "x", "size": 1, "level": 3 });
    desk.put("thing-1", &thing);
    let declared = |ignore: Json, fault: Option<&str>| {
        json!({
            "config": { "name": "a", "content": "y", "fault": fault },
            "import": "thing-1", "ignore": ignore,
        })
    };
    let (seen, _) = desk.look(&declared(json!([]), None), &[]).await.expect("a plan");
    let tracked = [Desk::tracked(&seen)];
    let paths = async |ignore: Json| {
        let (_, deltas) = desk.look(&declared(ignore, Some("plan-rewrite")), &tracked).await.expect("a plan");
        let delta = deltas.get(&"toy_thing.a".into()).map(|delta| delta.as_ref().expect("a plan").clone());
        let fields = delta.iter().flat_map(|delta| &delta.fields).map(|field| field.path.to_string());
        (fields.collect::<Vec<_>>(), delta.is_some_and(|delta| delta.replace))
    };
    assert_eq!(paths(json!(["content"])).await, (vec!["fault".into()], false));
    // Made anew, it has all that it is given from nothing.
    let all = ["content", "fault", "id", "level", "size"].map(String::from);
    assert_eq!(paths(json!([])).await, (all.to_vec(), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_abandoned_loses_our_mark_and_nothing_else() {
    let check = async |fault: &str, expect: &str| {
        let mut desk = Desk::new("");
        let mark = Mark { key: Mark::KEY.into(), instance: "one".into() };
        desk.config.mark = Some(mark);
        desk.provider = open("toy", desk.config.clone()).expect("a program");
        let mut there = json!({
            "id": "thing-1", "name": "a", "content": "x", "size": 1, "level": 3, "secret": "s", "words": ["b", "c"],
            "tags": { "team": "web", Mark::KEY: "one" }, "rule": [{ "port": 80, "protocol": "udp" }],
            "label": [{ "key": "k", "value": "v" }],
        });
        desk.put("thing-1", &there);
        let found = json!({ "config": { "name": "a" }, "import": "thing-1" });
        let (seen, _) = desk.look(&found, &[]).await.expect("a plan");
        let mut tracked = Desk::tracked(&seen);
        let mut kept: Json = serde_json::from_slice(&tracked.private.0).expect("a state");
        let mut state: Json = serde_json::from_str(kept["state"].as_str().expect("JSON")).expect("a state");
        state["fault"] = json!(Some(fault).filter(|fault| !fault.is_empty()));
        kept["state"] = json!(state.to_string());
        tracked.private = Sealed::new(kept.to_string());
        // Somebody changed it since, and nobody declares it any more.
        (there["content"], there["size"]) = (json!("theirs"), json!(6));
        desk.put("thing-1", &there);
        let (scope, rows) = (Desk::scope(), [tracked.clone()]);
        let want = Want { scope: &scope, focus: &Focus::All, desired: &[], tracked: &rows, claims: &[] };
        let observed = desk.provider.observe(&desk.cx, &want).await.expect("a look").resources.remove(0);
        assert_eq!(observed.owner, Owner::Ours);
        let spec = Spec::known(observed.bytes.to_vec());
        let desired = Desk::desired(&found).with(|resource| resource.spec = spec);
        let op = Op::Update {
            desired,
            delta: Delta::leaving().into(),
            observed: observed.into(),
            tracked: Some(tracked.into()),
        };
        let outcome = carry_out(&desk, &desk.cx, op, None).await;
        assert!(word(&outcome).starts_with(expect), "{fault}: {}", word(&outcome));
        if expect == "done" {
            there["tags"] = json!({ "team": "web" });
        }
        let file = std::fs::read(desk.world.path().join("thing-1.json")).expect("it is there");
        let now: Json = serde_json::from_slice(&file).expect("a thing");
        for (name, value) in there.as_object().expect("fields") {
            assert_eq!(now[name], *value, "{fault}: {name}");
        }
    };
    check("", "done").await;
    check("refuse", "failed").await;
    // What the old SDK would change on the way is no reason to change it.
    check("plan-rewrite", "failed: to take our mark away would also change content").await;
}
