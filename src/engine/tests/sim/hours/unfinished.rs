//! What was written in part, and what was written and is not in use yet, because what has it used fails: a failure like any other.

use super::{HOUR, House, MINUTE, SECOND, desired, snapshot};
use crate::rigged::HALF;
use reconciled_engine::scheduler::{Settings, Stance};
use reconciled_provider::{Drift, Hash, Scope, Spec};
use std::{slice, sync::Arc, time::Duration};

impl House {
    /// A secret gets this value, and is all that `scope` shall hold: what declares it stays as it is.
    fn rotate(&mut self, scope: &Scope, value: &str, drift: Drift) {
        let item = format!("{scope}|a-{}|{value}", scope.name);
        let mut wanted = (*desired("r1", &[item.as_str()]).done()).clone();
        let template = Hash::of(b"${secret}");
        wanted.manifests[0].content = template;
        wanted.sources.get_mut("s").unwrap().drift = Some(drift);
        let declared = Arc::make_mut(wanted.scopes.get_mut(scope).unwrap());
        declared[0].spec = Spec::resolved(value.as_bytes(), template);
        self.desire(Arc::new(wanted), [scope.clone()].into());
    }
}

#[test]
fn a_rotated_secret_that_was_written_in_part_and_is_rotated_back_is_no_drift() {
    for drift in [Drift::Heal, Drift::Warn] {
        let mut house = House::new(Settings::default());
        let scope = Scope::new("host", "h1");
        house.rotate(&scope, "one", drift);
        house.pass(MINUTE);
        assert!(house.is_as_declared(&scope));
        house.rig.halves.lock().unwrap().insert(scope.clone());
        house.rotate(&scope, "two", drift);
        house.pass(MINUTE);
        assert_eq!(snapshot(&house.world, &scope)["a-h1"], [HALF]);
        house.rig.halves.lock().unwrap().clear();
        house.rotate(&scope, "one", drift);
        house.pass(HOUR);
        assert!(house.is_as_declared(&scope), "{drift:?}");
        assert_eq!(house.stance(&scope), Stance::InSync);
        let disk = house.disk.lock().unwrap();
        assert!(
            disk.ledger.is_empty() && disk.scopes[&scope].drifts.is_empty(),
            "{drift:?}: {:?}",
            disk.ledger
        );
    }
}

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
