//! What identifies a resource: told once, remembered, and given back with every call about it.

use crate::{
    provider::{Desk, of_version, told},
    writes::{carry_out, create, remembered, replan, word},
};
use reconciled_provider::{Observation, Op, Outcome, Sealed, Tracked};
use serde_json::{Value as Json, json};

/// A desk whose provider does nothing with a thing whose identity does not come along.
fn strict() -> Desk {
    told(Desk::new(""), "TOY_STRICT", "yes")
}

fn kept(private: &Sealed) -> Json {
    serde_json::from_slice(&private.0).expect("a state")
}

fn tampered(mut tracked: Tracked, change: impl FnOnce(&mut Json)) -> Tracked {
    let mut kept = kept(&tracked.private);
    change(&mut kept);
    tracked.private = Sealed::new(kept.to_string());
    tracked
}

async fn seen(desk: &Desk, tracked: &[Tracked]) -> Observation {
    desk.look(&json!({ "config": { "name": "a" } }), tracked).await.expect("a look").0
}

const FIRST: &str = r#"{"name":null,"number":"thing-1"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_comes_along_with_all_that_is_done_with_its_thing() {
    let desk = strict();
    let cx = desk.cx.clone();
    let declared = json!({ "config": { "name": "a" } });
    let made = carry_out(&desk, &cx, create(&desk, &declared).await, None).await;
    assert_eq!(remembered(&made)["identity"], json!({ "version": 0, "value": FIRST }));
    let Outcome::Done(tracked) = made else { panic!("{made:?}") };
    let seen = seen(&desk, std::slice::from_ref(&tracked)).await;
    assert_eq!(seen.resources[0].identity.as_deref(), Some(&*format!("toy_thing {FIRST}")));

    let declared = json!({ "config": { "name": "a", "content": "x" } });
    let (tracked, observed, delta) = replan(&desk, &declared, tracked).await;
    let op = Op::Update {
        desired: Desk::desired(&declared),
        delta: delta.into(),
        observed: observed.into(),
        tracked: Some(tracked.into()),
    };
    let changed = carry_out(&desk, &cx, op, None).await;
    assert_eq!(word(&changed), "done");
    // The provider did not say it again.
    assert_eq!(remembered(&changed)["identity"]["value"], FIRST);
    let Outcome::Done(tracked) = changed else { panic!("{changed:?}") };

    let declared = json!({ "config": { "name": "b" } });
    let (tracked, observed, delta) = replan(&desk, &declared, tracked).await;
    assert!(delta.replace);
    let op = Op::Replace {
        desired: Desk::desired(&declared),
        delta: delta.into(),
        observed: observed.into(),
        tracked: Some(tracked.into()),
    };
    let replaced = carry_out(&desk, &cx, op, None).await;
    assert_eq!(word(&replaced), "done");
    let Outcome::Done(tracked) = replaced else { panic!("{replaced:?}") };
    let (mut seen, _) = desk.look(&declared, std::slice::from_ref(&tracked)).await.unwrap();
    let op = Op::Delete { observed: seen.resources.remove(0).into(), tracked: Some(tracked.into()) };
    assert_eq!(word(&carry_out(&desk, &cx, op, None).await), "gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thing_without_its_identity_is_refused_by_who_wants_it() {
    // So that the test above can fail.
    let desk = strict();
    let made =
        carry_out(&desk, &desk.cx, create(&desk, &json!({ "config": { "name": "a" } })).await, None).await;
    let Outcome::Done(tracked) = made else { panic!("{made:?}") };
    let (mut seen, _) =
        desk.look(&json!({ "config": { "name": "a" } }), std::slice::from_ref(&tracked)).await.unwrap();
    let mut observed = seen.resources.remove(0);
    let mut without = kept(&observed.private);
    without.as_object_mut().unwrap().remove("identity");
    observed.private = Sealed::new(without.to_string());
    let outcome = carry_out(
        &desk,
        &desk.cx,
        Op::Delete { observed: observed.into(), tracked: Some(tracked.into()) },
        None,
    )
    .await;
    assert_eq!(word(&outcome), "failed: plan a toy_thing: the identity is lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_goes_on_with_a_newer_provider_and_not_back() {
    let desk = strict();
    let made =
        carry_out(&desk, &desk.cx, create(&desk, &json!({ "config": { "name": "a" } })).await, None).await;
    let Outcome::Done(old) = made else { panic!("{made:?}") };
    let newer = of_version(desk, "2");
    let seen_now = seen(&newer, std::slice::from_ref(&old)).await;
    let expect = json!({ "version": 1, "value": r#"{"name":null,"number":"thing-1","place":"desk"}"# });
    assert_eq!(kept(&seen_now.resources[0].private)["identity"], expect);

    let from_the_future = tampered(old, |kept| kept["identity"]["version"] = 9.into());
    let error = newer.look(&json!({ "config": { "name": "a" } }), &[from_the_future]).await.unwrap_err();
    assert_eq!(error.message, "read the identity of a toy_thing: it is from a newer version of the provider");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_without_identities_needs_none() {
    let desk = told(Desk::new(""), "TOY_NAMELESS", "yes");
    let made =
        carry_out(&desk, &desk.cx, create(&desk, &json!({ "config": { "name": "a" } })).await, None).await;
    assert_eq!(remembered(&made)["identity"], Json::Null);
    let Outcome::Done(tracked) = made else { panic!("{made:?}") };
    // As after the version before, which had some.
    let tracked = tampered(tracked, |kept| kept["identity"] = json!({ "version": 0, "value": FIRST }));
    let seen = seen(&desk, &[tracked]).await;
    assert_eq!(seen.resources[0].identity, None);
    assert_eq!(kept(&seen.resources[0].private)["identity"], Json::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_manifests_of_one_thing_tell_the_same_identity() {
    let desk = Desk::new("");
    desk.put("thing-1", &json!({ "id": "thing-1", "name": "a", "size": 0, "level": 3 }));
    let identity = async |import: &str| {
        let declared = json!({ "config": { "name": "a" }, "import": import });
        let (mut seen, _) = desk.look(&declared, &[]).await.expect("a look");
        seen.resources.remove(0).identity
    };
    let by_id = identity("thing-1").await;
    assert_eq!(by_id.as_deref(), Some(&*format!("toy_thing {FIRST}")));
    assert_eq!(by_id, identity(r#"{"name": "a"}"#).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_another_identity_is_another_one_whatever_the_entry_says() {
    let desk = Desk::new("");
    let made =
        carry_out(&desk, &desk.cx, create(&desk, &json!({ "config": { "name": "a" } })).await, None).await;
    let Outcome::Done(tracked) = made else { panic!("{made:?}") };
    let other = FIRST.replace("thing-1", "thing-7");
    let elsewhere = tampered(tracked.clone(), |kept| {
        kept["account"] = "another".into();
        kept["identity"]["value"] = other.clone().into();
    });
    let error = desk.look(&json!({ "config": { "name": "a" } }), &[elsewhere]).await.unwrap_err();
    let shown = "what is found as toy_thing.a has another `identity` than what was written";
    assert_eq!(error.message, format!("{shown}, and the entry's `config` or `env` changed since"));

    // As where a secret of the entry has the key of another account now.
    let behind_the_same_secret = tampered(tracked, |kept| kept["identity"]["value"] = other.into());
    let error =
        desk.look(&json!({ "config": { "name": "a" } }), &[behind_the_same_secret]).await.unwrap_err();
    assert_eq!(error.message, shown);
}
