//! Two declarations of one thing, over whole surveys: what cannot be looked up may be the other one.

use super::*;
use reconciled_engine::{
    Row,
    store::{Ending, Intent},
};
use reconciled_provider::{ActionId, Address, Hash, Spec};

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

/// A house with a cloud.
fn clouded() -> House {
    let sim = Sim::new(None, Plan::At(Vec::new()), false);
    let rig = Rig { has_cloud: true, ..Rig::default() };
    House::on(sim, Arc::default(), Arc::default(), rig.into(), Settings::default())
}

/// A call that was sent and has no answer.
fn unanswered(house: &House, op: &str, row: Row, after: &str) -> ActionId {
    let action = ActionId(row.tracked.id.0.len() as u64 + u64::from(op == "create"));
    let intent = Intent {
        action,
        op: op.into(),
        token: "".into(),
        row: row.clone().into(),
        before: None,
        after: Some(Hash::of(after.as_bytes())),
        reason: "".into(),
        consented: None,
    };
    let (scope, at) = (Scope::clone(&row.scope), house.sim.now());
    let start = Write::Start { scope, intents: vec![intent], fence: Vec::new(), at };
    house.store.commit(vec![start]).now_or_never().unwrap().unwrap();
    action
}

/// `cloud/a` is deleted and made anew as `cloud/b` is made, and the process dies. `b` got the id that `a` had.
#[test]
fn what_a_replacement_finds_under_its_id_may_be_what_another_creation_made() {
    let mut house = clouded();
    let [a, b]: [Scope; 2] = ["cloud/a", "cloud/b"].map(|text| text.parse().unwrap());
    house.desire(desired("r1", &["cloud/a|a|!x"]).done(), [a.clone()].into());
    house.pass(HOUR);
    let row = house.disk.lock().unwrap().scopes[&a].rows[0].clone();
    let key = ManifestKey::new("s", "test", "Thing", "", "b");
    let other = row.clone().with(|row| {
        (row.scope, row.manifest, row.address) = (b.clone().into(), key.clone(), Address::of(&key, None));
        (row.tracked.id, row.tracked.remote) = ("b".into(), None);
    });
    unanswered(&house, "replace", row, "!y");
    let creation = unanswered(&house, "create", other, "b");
    house.world.by_hand(&a, "a", Some("!b"), Owner::Unmarked, house.sim.now());
    house.rig.identities.lock().unwrap().insert(a.clone(), "thing 1");

    let both: BTreeSet<Scope> = [a.clone(), b.clone()].into();
    house.desire(desired("r2", &["cloud/a|a|!y", "cloud/b|b|b"]).done(), both.clone());
    house.pass(6 * HOUR);
    assert_eq!(snapshot(&house.world, &a)["a"], ["!b"], "it is deleted, whoever's it is");
    assert!(house.says(&a, "WaitingForTwin") && house.says(&b, "CreateUnknown"));

    // A person looked: it was not made.
    let ending = Ending { action: creation, outcome: "not-observed".into(), error: None };
    house.store.commit(vec![Write::End(vec![ending])]).now_or_never().unwrap().unwrap();
    house.scheduler.wake(both, Priority::Operator, Focus::All);
    house.pass(HOUR);
    assert_eq!(snapshot(&house.world, &a)["a"], ["!y"]);
    assert_eq!(snapshot(&house.world, &b)["b"], ["b"]);
}

/// `cloud/b` takes the place of `cloud/a`, and is called as that one was; the process dies as it is made. The cloud took that for a
/// change of `a`.
#[test]
fn what_a_creation_without_an_answer_may_have_changed_is_not_deleted() {
    let mut house = clouded();
    let [a, b]: [Scope; 2] = ["cloud/a", "cloud/b"].map(|text| text.parse().unwrap());
    house.desire(desired("r1", &["cloud/a|a|x"]).done(), [a.clone()].into());
    house.pass(HOUR);
    let row = house.disk.lock().unwrap().scopes[&a].rows[0].clone();
    let key = ManifestKey::new("s", "test", "Thing", "", "b");
    let other = row.with(|row| {
        (row.scope, row.manifest, row.address) = (b.clone().into(), key.clone(), Address::of(&key, None));
        (row.tracked.id, row.tracked.remote) = ("b".into(), None);
    });
    let creation = unanswered(&house, "create", other, "y");
    house.world.by_hand(&a, "a", Some("y"), Owner::Unmarked, house.sim.now());
    house.rig.identities.lock().unwrap().insert(a.clone(), "thing 1");

    let both: BTreeSet<Scope> = [a.clone(), b.clone()].into();
    house.desire(desired("r2", &["cloud/b|b|y"]).done(), both.clone());
    house.pass(6 * HOUR);
    assert_eq!(snapshot(&house.world, &a)["a"], ["y"], "it is deleted, whoever's it is");
    assert!(house.says(&a, "WaitingForTwin") && house.says(&b, "CreateUnknown"));

    // A person looked: it was not made.
    let ending = Ending { action: creation, outcome: "not-observed".into(), error: None };
    house.store.commit(vec![Write::End(vec![ending])]).now_or_never().unwrap().unwrap();
    house.scheduler.wake(both, Priority::Operator, Focus::All);
    house.pass(HOUR);
    assert_eq!(snapshot(&house.world, &a).len(), 0);
    assert_eq!(snapshot(&house.world, &b)["b"], ["y"]);
}

/// A process that dies between both calls of a replacement finds the old one: that alone is no reason to wait.
#[test]
fn a_replacement_without_an_answer_goes_on_where_nothing_else_was_being_made() {
    let mut house = clouded();
    let a: Scope = "cloud/a".parse().unwrap();
    house.desire(desired("r1", &["cloud/a|a|!x"]).done(), [a.clone()].into());
    house.pass(HOUR);
    let row = house.disk.lock().unwrap().scopes[&a].rows[0].clone();
    unanswered(&house, "replace", row, "!y");
    house.rig.identities.lock().unwrap().insert(a.clone(), "thing 1");
    house.desire(desired("r2", &["cloud/a|a|!y"]).done(), [a.clone()].into());
    house.pass(HOUR);
    assert_eq!(snapshot(&house.world, &a)["a"], ["!y"]);
}
