//! Units that systemd passes over, for want of what their conditions ask for.

use crate::units::{Machine, wait_for};
use reconciled_provider::Health;
use reconciled_testkit::PATIENCE;
use std::time::{Duration, Instant};

const CONDITION: &str = "Unit a.service {state: running, content: \"[Unit]\\nConditionPathExists=/run/there\\nConditionPathExists=!/run/away\\n\
     [Service]\\nExecStart=/bin/sleep 1d\\n\"}";

#[tokio::test]
async fn a_unit_whose_condition_is_not_met_is_passed_over_and_has_not_failed() {
    let Some(machine) = Machine::boot() else { return };
    is_passed_over(&machine).await;
}

#[tokio::test]
async fn the_same_is_seen_through_a_helper() {
    let Some((machine, _helper)) = Machine::helped("systemd", "units: ['*.service']\n") else { return };
    is_passed_over(&machine).await;
}

async fn is_passed_over(machine: &Machine) {
    let desk = &machine.desk;
    let state = || machine.property("a.service", "ActiveState");
    assert_eq!(desk.pass(&[CONDITION]).await.done, ["create a.service: done"]);
    assert_eq!(state(), "inactive");
    let is_quiet = async || {
        for _ in 0..3 {
            assert_eq!(desk.pass(&[CONDITION]).await.done, [""; 0]);
        }
        assert_eq!(desk.health(&desk.desired(&[CONDITION])).await, [Health::Healthy]);
        desk.facts().await
    };
    let fact = "a.service: systemd passes it over, since this is not met: ConditionPathExists=/run/there";
    assert_eq!(is_quiet().await, [fact]);
    // From then on systemd does not say which.
    machine.run(&["systemctl", "daemon-reload"]);
    assert_eq!(is_quiet().await, [fact]);

    // With whoever asked about it systemd forgets the unit, and says nothing of it any longer.
    machine.run(&["systemctl", "restart", "dbus.service"]);
    machine.run(&["systemctl", "daemon-reload"]);
    wait_for("it is forgotten", || machine.property("a.service", "ConditionTimestamp").is_empty());
    let start = Instant::now();
    while desk.try_observe(&desk.desired(&[CONDITION])).await.is_err() {
        assert!(start.elapsed() < PATIENCE);
    }
    assert_eq!(desk.health_of_all(&desk.desired(&[CONDITION])).await, [Health::Healthy]);
    assert_eq!(desk.pass(&[CONDITION]).await.done, [""; 0]);

    // What is there now is seen by whoever looks next.
    machine.run(&["touch", "/run/there"]);
    until(&machine.desk, CONDITION, "update a.service: done").await;
    assert_eq!(state(), "active");
    assert_eq!(
        (desk.health(&desk.desired(&[CONDITION])).await, desk.facts().await),
        (vec![Health::Healthy], vec![])
    );

    // One that was stopped is started, as any other; and once, where that is to no purpose.
    machine.run(&["touch", "/run/away"]);
    machine.run(&["systemctl", "stop", "a.service"]);
    assert_eq!(desk.pass(&[CONDITION]).await.done, ["update a.service: done"]);
    let away = fact.replace("=/run/there", "=!/run/away");
    assert_eq!((state(), is_quiet().await), ("inactive".into(), vec![away]));

    // Without the condition it has another definition, and is started.
    let without = CONDITION.replace("ConditionPathExists=!/run/away\\n", "");
    assert_eq!(desk.pass(&[&without]).await.done, ["update a.service: done"]);
    assert_eq!(state(), "active");
}

/// Passes until one of them did that.
async fn until(desk: &crate::desk::Desk, spec: &str, expect: &str) {
    let start = Instant::now();
    while desk.pass(&[spec]).await.done != [expect] {
        assert!(start.elapsed() < PATIENCE, "it never came about: {expect}");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

#[tokio::test]
async fn a_unit_whose_assertion_does_not_hold_has_failed_and_says_which() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let spec = CONDITION.replace("ConditionPathExists=/", "AssertPathExists=/");
    let done = desk.pass(&[&spec]).await.done;
    let part = "start a.service: it was not started, since this does not hold: AssertPathExists=/run/there";
    assert!(done[0].contains("partial") && done[0].contains(part), "{done:?}");
    let health = desk.health(&desk.desired(&[&spec])).await;
    assert!(
        matches!(&health[0], Health::Degraded { why } if why.contains("AssertPathExists=/run/there")),
        "{health:?}"
    );
    machine.run(&["touch", "/run/there"]);
    assert_eq!(desk.pass(&[&spec]).await.done, ["update a.service: done"]);
    assert_eq!(machine.property("a.service", "ActiveState"), "active");
}

#[tokio::test]
async fn an_instance_that_is_passed_over_is_not_well_and_a_revision_that_would_be_is_taken_back() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    let web = |condition: &str| {
        format!(
            "Deployment web {{replicas: 2, minReadySeconds: 0, \
             content: \"[Unit]\\n{condition}\\n[Service]\\nExecStart=/bin/sleep 1d\\n\"}}"
        )
    };
    let plain = web("ConditionPathExists=!/run/away");
    while !desk.pass(&[&plain]).await.done.is_empty() {}
    let (done, worst) =
        crate::deployments::roll(&machine, &[&web("ConditionPathExists=/run/nowhere")], 1..=2).await;
    let told = done.last().unwrap();
    assert!(
        told.contains("was taken back") && told.contains("ConditionPathExists=/run/nowhere"),
        "{done:#?}"
    );
    assert_eq!(worst, 1);
    assert!((1..=2).all(|number| machine.is_active(number)));

    while !desk.pass(&[&plain]).await.done.is_empty() {}
    machine.run(&["touch", "/run/away"]);
    machine.run(&["systemctl", "stop", "web@2.service"]);
    assert_eq!(desk.pass(&[&plain]).await.done, ["update web@2.service: done"]);
    assert_eq!(desk.pass(&[&plain]).await.done, [""; 0]);
    let health = desk.health_of_all(&desk.desired(&[&plain])).await;
    let is_told = |health: &Health| matches!(health, Health::Degraded { why } if why.contains("ConditionPathExists=!/run/away"));
    assert_eq!(health.iter().filter(|health| is_told(health)).count(), 1, "{health:?}");
    machine.run(&["rm", "/run/away"]);
    until(desk, &plain, "update web@2.service: done").await;
    wait_for("it runs", || machine.is_active(2));
}
