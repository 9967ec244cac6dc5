//! What a provider is asked, call by call: what follows from what it said already is not asked again.

use crate::{
    provider::{Desk, told},
    writes::{carry_out, create},
};
use reconciled_provider::{Outcome, Tracked};
use serde_json::{Value as Json, json};
use std::{fs, path::PathBuf};

/// A desk whose provider puts down each call of a resource.
struct Counted {
    desk: Desk,
    calls: PathBuf,
}

impl Counted {
    fn new() -> Counted {
        let desk = Desk::new("");
        let calls = desk.world.path().join("calls");
        let text = calls.display().to_string();
        Counted { desk: told(desk, "TOY_CALLS", &text), calls }
    }
    /// The calls since it was asked last.
    fn calls(&self) -> Vec<String> {
        let all = fs::read_to_string(&self.calls).unwrap_or_default();
        let _ = fs::remove_file(&self.calls);
        let of_resources = |call: &&str| call.contains("Resource") && !call.contains("Identity");
        all.lines().filter(of_resources).map(String::from).collect()
    }
    async fn look(&self, declared: &Json, tracked: &Tracked) -> Vec<String> {
        self.desk.look(declared, std::slice::from_ref(tracked)).await.expect("a plan");
        self.calls()
    }
}

const UPGRADE: &str = "UpgradeResourceState";
const READ: &str = "ReadResource";
const VALIDATE: &str = "ValidateResourceConfig";
const PLAN: &str = "PlanResourceChange";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_said_already_is_not_asked_again() {
    let counted = Counted::new();
    let declared = json!({ "config": { "name": "a" } });
    let made = carry_out(&counted.desk, &counted.desk.cx, create(&counted.desk, &declared).await, None).await;
    let Outcome::Done(tracked) = made else { panic!("{made:?}") };
    assert_eq!(counted.calls(), [VALIDATE, PLAN, "ApplyResourceChange"]);
    // The state is the one that it told, and the configuration the one that it found valid.
    for _ in 0..2 {
        assert_eq!(counted.look(&declared, &tracked).await, [READ, PLAN]);
    }
    let changed = json!({ "config": { "name": "a", "content": "x" } });
    assert_eq!(counted.look(&changed, &tracked).await, [READ, VALIDATE, PLAN]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_process_said_is_asked_for_once() {
    let counted = Counted::new();
    let declared = json!({ "config": { "name": "a" }, "import": "thing-1" });
    counted.desk.put("thing-1", &json!({ "id": "thing-1", "name": "a", "size": 0, "level": 3 }));
    let (seen, _) = counted.desk.look(&declared, &[]).await.expect("a plan");
    let tracked = Desk::tracked(&seen);
    counted.calls();
    let text = counted.calls.display().to_string();
    let counted = Counted { desk: told(counted.desk, "TOY_CALLS", &text), ..counted };
    assert_eq!(counted.look(&declared, &tracked).await, [UPGRADE, READ, VALIDATE, PLAN]);
    assert_eq!(counted.look(&declared, &tracked).await, [READ, PLAN]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_was_refused_is_asked_for_again() {
    let counted = Counted::new();
    let declared = json!({ "config": { "name": "" } });
    for _ in 0..2 {
        let (_, deltas) = counted.desk.look(&declared, &[]).await.expect("a look");
        assert!(deltas[&"toy_thing.a".into()].is_err());
        assert_eq!(counted.calls(), [VALIDATE]);
    }
}
