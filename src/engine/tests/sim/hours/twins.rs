//! Two declarations of one thing, over whole surveys: what cannot be looked up may be the other one.

use super::*;
use reconciled_provider::Spec;

/// `host/a` and `host/b` stand for one thing, `host/c` for another; `a` and `c` are made.
fn house() -> (House, [Scope; 2]) {
    let mut house = House::new(Settings::default());
    let [a, b]: [Scope; 2] = ["host/a", "host/b"].map(|text| text.parse().unwrap());
    house.desire(desired("r1", &["host/a|a|x", "host/c|c|x"]).done(), [a.clone()].into());
    house.pass(HOUR);
    assert_eq!(house.stance(&a), Stance::InSync);
    let identities = [a.clone(), b.clone()].map(|scope| (scope, "thing 1"));
    *house.rig.identities.lock().unwrap() = identities.into();
    house.world.by_hand(&b, "b", Some("x"), Owner::Unmarked, house.sim.now());
    (house, [a, b])
}

/// `b` in place of `a`.
fn replaced(revision: &'static str) -> Desired {
    Desired::clone(&desired(revision, &["host/b|b|x", "host/c|c|x"]).done())
}

impl House {
    fn rows(&self, scope: &Scope) -> usize {
        self.disk.lock().unwrap().scopes.get(scope).map_or(0, |memory| memory.rows.len())
    }

    fn says(&self, scope: &Scope, reason: &str) -> bool {
        let disk = self.disk.lock().unwrap();
        disk.scopes.get(scope).is_some_and(|memory| memory.conditions.iter().any(|c| &*c.reason == reason))
    }

    /// Neither of both is touched: a person has to say whose the thing is.
    fn is_up_to_a_person(&self, [a, b]: &[Scope; 2]) {
        assert_eq!(snapshot(&self.world, a).len(), 1);
        assert_eq!((self.rows(a), self.rows(b)), (1, 0));
        for scope in [a, b] {
            let disk = self.disk.lock().unwrap();
            let said = disk.scopes[scope].conditions.iter().any(|c| c.message.contains("is one thing with"));
            assert!(said, "{scope}: {:?}", disk.scopes[scope].conditions);
        }
    }
}

#[test]
fn what_a_declaration_that_waits_may_take_over_is_not_deleted() {
    let (mut house, both) = house();
    let mut waits = replaced("r2");
    let list = Arc::make_mut(waits.scopes.get_mut(&both[1]).unwrap());
    list[0].spec = Spec::waiting(list[0].spec.template(), []);
    house.desire(Arc::new(waits), both.iter().cloned().collect());
    house.pass(HOUR);
    assert_eq!(snapshot(&house.world, &both[0]).len(), 1, "it is about to be taken over");
    assert!(house.says(&both[0], "WaitingForTwin"));
    house.desire(Arc::new(replaced("r3")), both.iter().cloned().collect());
    house.pass(HOUR);
    house.is_up_to_a_person(&both);
}

#[test]
fn what_a_declaration_that_cannot_be_read_may_take_over_is_not_deleted() {
    let (mut house, both) = house();
    house.rig.silent.lock().unwrap().insert(both[1].clone());
    house.desire(Arc::new(replaced("r2")), both.iter().cloned().collect());
    house.pass(HOUR);
    assert_eq!(snapshot(&house.world, &both[0]).len(), 1, "it is about to be taken over");
    assert!(house.says(&both[0], "WaitingForTwin"));
    house.rig.silent.lock().unwrap().clear();
    house.pass(6 * HOUR);
    house.is_up_to_a_person(&both);
}

#[test]
fn what_a_tracked_one_that_cannot_be_read_may_have_is_not_taken_over() {
    let (mut house, both) = house();
    house.rig.silent.lock().unwrap().insert(both[0].clone());
    house.desire(Arc::new(replaced("r2")), both.iter().cloned().collect());
    house.pass(HOUR);
    assert_eq!(house.rows(&both[1]), 0);
    assert!(house.says(&both[1], "WaitingForTwin"));
    house.rig.silent.lock().unwrap().clear();
    house.pass(6 * HOUR);
    house.is_up_to_a_person(&both);
}

#[test]
fn what_nothing_can_take_over_goes_although_something_waits() {
    let (mut house, both) = house();
    let mut waits = replaced("r2");
    waits.manifests[0].key = ManifestKey::new("s", "test", "Other", "", "b");
    let list = Arc::make_mut(waits.scopes.get_mut(&both[1]).unwrap());
    list[0].spec = Spec::waiting(list[0].spec.template(), []);
    house.desire(Arc::new(waits), both.iter().cloned().collect());
    house.pass(HOUR);
    assert_eq!(snapshot(&house.world, &both[0]).len(), 0);
}
