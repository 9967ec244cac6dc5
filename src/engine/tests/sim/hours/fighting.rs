//! Who fights with us over a resource, and who only damages it once more.

use super::{HOUR, House, MINUTE, SECOND, zones};
use futures_util::FutureExt;
use reconciled_engine::{
    scheduler::{Priority, Settings, Stance},
    store::ConditionKind,
};
use reconciled_provider::{Focus, Scope};

impl House {
    /// Somebody leaves `content` there, or nothing, and that is seen. Returns whether it was put right.
    fn damage(&mut self, scope: &Scope, content: Option<&str>) -> bool {
        self.by_hand(scope, content);
        self.scheduler.wake([scope.clone()], Priority::Hint, Focus::All);
        self.pass(MINUTE);
        self.is_as_declared(scope)
    }
    fn told(&self, scope: &Scope) -> String {
        let conditions = self.disk.lock().unwrap().scopes[scope].conditions.clone();
        assert_eq!((&*conditions[0].reason, conditions[0].kind), ("Flapping", ConditionKind::Stalled));
        conditions[0].message.to_string()
    }
}

#[test]
fn who_keeps_undoing_what_we_write_is_stopped_and_a_person_goes_on() {
    let (mut house, zones) = (House::new(Settings::default()), zones(2));
    house.commit("r1", &zones, "x@g1");
    house.pass(MINUTE);
    let before = house.world.calls().1;
    for _ in 0..12 {
        house.by_hand(&zones[0], Some("vandalized"));
        house.scheduler.wake([zones[0].clone()], Priority::Hint, Focus::All);
        house.pass(MINUTE);
    }
    assert_eq!(house.world.calls().1 - before, 3, "three repairs in an hour");
    assert_eq!((house.stance(&zones[0]), house.stance(&zones[1])), (Stance::Stalled, Stance::InSync));
    let told = house.disk.lock().unwrap().scopes[&zones[0]].conditions.clone();
    assert_eq!((&*told[0].reason, told[0].kind), ("Flapping", ConditionKind::Stalled));
    assert!(told[0].message.contains("`vandalized`, declared `x@g1`"), "{}", told[0].message);
    house.pass(24 * HOUR);
    assert_eq!(house.world.calls().1 - before, 3, "it does not start over by itself");
    let ticket = house.scheduler.sync(&[zones[0].clone()].into());
    house.pass(SECOND);
    assert!(house.scheduler.handled(&ticket).now_or_never().is_some());
    assert!(house.is_as_declared(&zones[0]));
    house.settles();
}

#[test]
fn one_damage_after_the_other_is_put_right() {
    let (mut house, zones) = (House::new(Settings::default()), zones(1));
    house.commit("r1", &zones, "x@g1");
    house.pass(MINUTE);
    for content in [Some("cut"), None, Some("another"), Some("empty"), None, Some("owner"), Some("cut")] {
        assert!(house.damage(&zones[0], content), "{content:?}");
    }
    house.settles();
}

#[test]
fn the_same_damage_is_put_right_three_times_and_another_one_all_the_same() {
    for (same, said) in [(Some("theirs"), "`theirs`, declared `x@g1`"), (None, "it keeps going missing")] {
        let (mut house, zones) = (House::new(Settings::default()), zones(1));
        house.commit("r1", &zones, "x@g1");
        house.pass(MINUTE);
        assert!(house.damage(&zones[0], same));
        assert!(house.damage(&zones[0], Some("another")));
        assert!(house.damage(&zones[0], same));
        assert!(house.damage(&zones[0], same));
        assert!(!house.damage(&zones[0], same));
        let told = house.told(&zones[0]);
        assert!(told.contains("written 3 times within an hour") && told.contains(said), "{told}");
        assert!(house.damage(&zones[0], Some("another")));
        house.pass(3 * HOUR);
        assert!(house.is_as_declared(&zones[0]));
        assert!(!house.damage(&zones[0], same), "however long ago");
    }
}

#[test]
fn what_comes_back_less_than_three_times_an_hour_is_put_right_for_ever() {
    let (mut house, zones) = (House::new(Settings::default()), zones(1));
    house.commit("r1", &zones, "x@g1");
    house.pass(MINUTE);
    for number in 0..12 {
        assert!(house.damage(&zones[0], Some("theirs")), "{number}");
        assert!(house.damage(&zones[0], Some("another")), "{number}");
        house.pass(31 * MINUTE);
    }
    house.settles();
}

#[test]
fn who_writes_something_else_each_time_is_stopped_after_ten() {
    let (mut house, zones) = (House::new(Settings::default()), zones(1));
    house.commit("r1", &zones, "x@g1");
    house.pass(MINUTE);
    for minute in 0..10 {
        assert!(house.damage(&zones[0], Some(&format!("written at {minute}"))), "{minute}");
    }
    assert!(!house.damage(&zones[0], Some("written at 10")));
    let told = house.told(&zones[0]);
    assert!(told.contains("written 10 times within an hour") && told.contains("`written at 10`"), "{told}");
    house.pass(24 * HOUR);
    assert!(!house.is_as_declared(&zones[0]), "it does not start over by itself");
    house.scheduler.sync(&[zones[0].clone()].into());
    house.pass(SECOND);
    house.settles();
}

#[test]
fn a_new_revision_ends_flapping() {
    let (mut house, zones) = (House::new(Settings::default()), zones(1));
    house.commit("r1", &zones, "x@g1");
    for _ in 0..6 {
        house.pass(MINUTE);
        house.by_hand(&zones[0], Some("vandalized"));
        house.scheduler.wake([zones[0].clone()], Priority::Hint, Focus::All);
    }
    house.pass(MINUTE);
    assert_eq!(house.stance(&zones[0]), Stance::Stalled);
    house.commit("r2", &zones, "x@g2");
    house.settles();
}
