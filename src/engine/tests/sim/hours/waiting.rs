//! Who waits for something in another scope goes on once that is ready.

use super::*;

#[test]
fn what_came_to_be_ready_while_somebody_was_looked_at_keeps_nobody_waiting() {
    let mut house = House::new(Settings::default());
    let (zone, host) = (Scope::new("zone", "a"), Scope::new("host", "b"));
    let both = |revision: &'static str, a: &str, b: &str| {
        let (a, b) = (format!("zone/a|a|{a}"), format!("host/b|b|{b}|a"));
        desired(revision, &[a.as_str(), b.as_str()]).done()
    };
    house.desire(both("r1", "x@g1", "x"), [zone.clone(), host.clone()].into());
    house.pass(MINUTE);
    assert!(house.is_as_declared(&zone) && house.is_as_declared(&host));

    *house.rig.slow.lock().unwrap() = SECOND;
    house.desire(both("r2", "x@g2", "x"), [zone.clone()].into());
    while !house.is_as_declared(&zone) {
        house.pass(SECOND / 100);
    }
    // It is written and not yet seen. Who depends on it is looked at from here on, until long after it was.
    *house.rig.slow.lock().unwrap() = 10 * SECOND;
    house.desire(both("r3", "x@g2", "y"), [host.clone()].into());
    house.pass(SECOND / 100);
    *house.rig.slow.lock().unwrap() = SECOND;
    house.pass(5 * SECOND);
    assert_eq!(house.stance(&zone), Stance::InSync);
    assert!(!house.is_as_declared(&host), "it was looked at too early");
    house.pass(MINUTE);
    assert!(house.is_as_declared(&host), "{:?}", house.scheduler.standing()[&host]);
    assert_eq!(house.stance(&host), Stance::InSync);
}

#[test]
fn what_waits_for_a_move_that_is_called_off_goes_on_at_once() {
    let mut house = House::new(Settings::default());
    let [old, new] = ["a", "b"].map(|name| Scope::new("zone", name));
    let host = Scope::new("host", "h");
    house.desire(desired("r1", &["zone/a|k|one", "zone/a|x|one"]).done(), [old.clone()].into());
    house.pass(MINUTE);
    assert!(house.is_as_declared(&old));

    // Where it moves to, it waits for a host that is away.
    house.rig.silent.lock().unwrap().insert(host.clone());
    let moved = desired("r2", &["zone/a|k|one", "zone/b|x|one|h", "host/h|h|one"]).done();
    house.desire(moved, [old.clone(), new.clone(), host].into());
    house.pass(MINUTE);
    assert!(
        house.scheduler.standing()[&old].waits && !house.is_as_declared(&old),
        "it stays until it is there"
    );

    house.desire(desired("r3", &["zone/a|k|one", "host/h|h|one"]).done(), [new].into());
    house.pass(MINUTE);
    assert!(house.is_as_declared(&old), "{:?}", house.scheduler.standing()[&old]);
    assert_eq!(house.stance(&old), Stance::InSync);
}
