//! What is refused as it is declared is said for as long as it is, and keeps nothing else open.

use super::*;
use reconciled_engine::DriftEnd;
use reconciled_provider::{Error, ErrorKind};

#[test]
fn what_was_put_back_is_no_drift_any_more_also_where_what_is_declared_is_refused() {
    let mut house = House::new(Settings::default());
    let host = Scope::new("host", "h1");
    house.commit("r1", slice::from_ref(&host), "one");
    house.pass(MINUTE);
    // As of a revision that was taken back: what stands in for it is kept.
    house.rig.refused.lock().unwrap().insert(host.clone());
    house.by_hand(&host, Some("vandalized"));
    house.scheduler.wake([host.clone()], Priority::Hint, Focus::All);
    house.pass(MINUTE);
    assert!(house.is_as_declared(&host));
    let disk = house.disk.lock().unwrap();
    assert!(&*disk.scopes[&host].conditions[0].reason == "invalid", "{:?}", disk.scopes[&host].conditions);
    assert!(disk.scopes[&host].drifts.is_empty(), "{:?}", disk.scopes[&host].drifts);
    let is_one = matches!(&disk.ledger[..], [(drift, DriftEnd::Healed)] if drift.action.is_some());
    assert!(is_one, "{:?}", disk.ledger);
}

#[test]
fn what_was_denied_and_a_deletion_that_was_refused_are_known_as_that_until_they_are_taken() {
    let mut house = House::new(Settings::default());
    let host = Scope::new("host", "h");
    let both = desired("r1", &["host/h|a|one", "host/h|b|one", "host/h|c|one"]).done();
    house.desire(both, [host.clone()].into());
    house.pass(MINUTE);
    assert!(house.is_as_declared(&host));
    let told = |house: &House| -> Vec<(String, bool, Option<String>)> {
        let disk = house.disk.lock().unwrap();
        let conditions = disk.scopes[&host].conditions.iter().filter(|condition| condition.id.is_some());
        let told = conditions.map(|condition| {
            let hint = condition.hint.as_deref().map(str::to_owned);
            (condition.reason.to_string(), condition.declared.is_some(), hint)
        });
        told.collect()
    };
    let deny = |house: &House, kind| {
        house.rig.denied.lock().unwrap().insert(host.clone(), Error::new(kind, "no"));
    };
    deny(&house, ErrorKind::PermissionDenied);
    let changed = desired("r2", &["host/h|a|two", "host/h|b|one", "host/h|c|one"]).done();
    house.desire(changed, [host.clone()].into());
    house.pass(MINUTE);
    assert_eq!(told(&house), [("permission-denied".into(), true, None)]);

    deny(&house, ErrorKind::Invalid);
    let fewer = desired("r3", &["host/h|a|one", "host/h|c|one"]).done();
    house.desire(fewer, [host.clone()].into());
    house.pass(HOUR);
    assert_eq!(told(&house), [("invalid".into(), true, None)], "of the one that goes");

    house.rig.denied.lock().unwrap().clear();
    house.scheduler.sync(&[host.clone()].into());
    house.pass(MINUTE);
    assert!(house.is_as_declared(&host));
    assert_eq!(told(&house), []);
}
