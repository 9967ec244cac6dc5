//! What was written and is not in use yet, because what has it used fails: a failure like any other.

use super::{HOUR, House, MINUTE, SECOND};
use reconciled_engine::scheduler::{Settings, Stance};
use reconciled_provider::Scope;
use std::{slice, time::Duration};

#[test]
fn what_is_not_in_use_stays_a_failure_until_it_is_and_is_tried_ever_less_often() {
    let mut house = House::new(Settings::default());
    let scope = Scope::new("zone", "z000");
    house.rig.unloaded.lock().unwrap().0.insert(scope.clone());
    house.commit("r1", slice::from_ref(&scope), "one");
    house.pass(2 * SECOND);
    for _ in 0..240 {
        house.pass(15 * SECOND);
        assert_eq!(house.stance(&scope), Stance::Failed);
        let disk = house.disk.lock().unwrap();
        let said = &disk.scopes[&scope].conditions;
        assert!(said.iter().any(|said| said.message.contains("written, but not loaded")), "{said:?}");
    }
    let loads = house.rig.loads.lock().unwrap().clone();
    let waits: Vec<Duration> = loads.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits[0] <= 2 * SECOND && waits.last().unwrap() >= &(2 * MINUTE), "{waits:?}");
    assert!((10..40).contains(&loads.len()), "{waits:?}");

    house.rig.unloaded.lock().unwrap().0.clear();
    house.pass(HOUR);
    assert_eq!(house.stance(&scope), Stance::InSync);
    assert!(house.is_as_declared(&scope) && house.disk.lock().unwrap().scopes[&scope].conditions.is_empty());
    let loads = house.rig.loads.lock().unwrap().len();
    house.pass(HOUR);
    assert_eq!(house.rig.loads.lock().unwrap().len(), loads, "it is done once");
}
