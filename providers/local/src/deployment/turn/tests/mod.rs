//! What cannot be had from a real systemd at will: answers that do not come, and time.

mod moved;
mod spared;
mod surge;
mod world;

use super::*;
use crate::{
    balancer::Front,
    deployment::{instance, kind::Canary},
    hands::Job,
};
use reconciled_provider::{Clock, Health, Outcome};
use world::{Restarts, Says, World, web};

#[tokio::test]
async fn a_check_that_nobody_can_ask_restarts_no_more_instances_at_once_than_may_be_away() {
    let world = World::running(&web(4, "a", "old")).await;
    world.jobs();
    // The command has another name from now on, so those that run cannot be asked any longer.
    world.says("old", Says::Nothing);
    let new = web(4, "b", "new");
    let mut restarted = Vec::new();
    loop {
        let outcome = world.pass(&new).await.unwrap();
        let jobs = world.jobs();
        assert!(jobs.len() <= 1, "{jobs:?}");
        restarted.extend(jobs);
        match outcome {
            Outcome::Pending { .. } => world.clock.advance(IDLE),
            outcome => {
                assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
                break;
            }
        }
    }
    assert_eq!(restarted, [1, 2, 3, 4].map(|number| format!("restart web@{number}.service")));
}

#[tokio::test]
async fn instances_that_run_and_are_not_well_go_first_once_that_is_certain_and_a_few_at_a_time() {
    let world = World::running(&web(4, "a", "old")).await;
    world.jobs();
    // Once is nothing.
    world.says("old", Says::No);
    let new = web(4, "b", "new");
    world.pass(&new).await;
    assert_eq!(world.jobs(), [""; 0]);
    world.says("old", Says::Yes);
    world.clock.advance(IDLE);
    world.pass(&new).await;
    assert_eq!(world.jobs(), ["restart web@1.service"]);
    world.until_still(&new).await;

    for number in [3, 4] {
        world.says(&format!("new {number}"), Says::No);
    }
    world.jobs();
    world.until_still(&web(4, "c", "newest")).await;
    assert_eq!(world.jobs(), [3, 4, 1, 2].map(|number| format!("restart web@{number}.service")));
}

#[tokio::test]
async fn instances_that_do_not_run_get_a_revision_at_once() {
    let old = web(4, "a", "old");
    let world = World::running(&old).await;
    world.jobs();
    for number in [2, 3, 4] {
        let unit = format!("web@{number}.service");
        let run = world.state.lock().unwrap().units[&unit].invocation.clone();
        world.job(&unit, Job::Stop, &run).await.unwrap();
    }
    world.jobs();
    world.pass(&web(4, "b", "old")).await;
    assert_eq!(world.jobs()[..3], [2, 3, 4].map(|number| format!("start web@{number}.service")));
}

#[tokio::test]
async fn an_instance_that_systemd_started_meanwhile_gets_the_revision_all_the_same() {
    let world = World::running(&web(2, "a", "")).await;
    world.jobs();
    world.state.lock().unwrap().begins_by_itself = true;
    world.until_still(&web(2, "b", "")).await;
    assert_eq!(world.jobs(), [1, 2].map(|number| format!("restart web@{number}.service")));
}

#[tokio::test]
async fn an_instance_that_nobody_may_restart_is_no_success_and_ends_the_revision_in_time() {
    for (restarts, why) in [(Restarts::Refused, "by dependency only"), (Restarts::Lost, "nobody answers")] {
        let world = World::running(&web(2, "a", "")).await;
        let before = world.runs();
        world.state.lock().unwrap().restarts = restarts;
        let start = world.clock.now();
        while !matches!(world.pass(&web(2, "b", "")).await, Some(Outcome::Partial(..))) {
            world.clock.advance(IDLE);
            assert!(world.clock.now() - start < Duration::from_secs(300), "{:?}", world.memory());
        }
        let told = world.memory().bad.unwrap().why;
        assert!(told.contains("no progress within 60 s") && told.contains(why), "{told}");
        assert_eq!(world.runs(), before);
    }
}

/// A world that has begun to bring `new` to its instances, where each restart goes so.
async fn begun(restarts: Restarts, new: &Deployment) -> World {
    let world = World::running(&web(2, "a", "")).await;
    world.jobs();
    world.state.lock().unwrap().restarts = restarts;
    for _ in 0..3 {
        world.pass(new).await;
        world.clock.advance(IDLE);
    }
    world
}

#[tokio::test]
async fn a_restart_whose_answer_was_lost_is_asked_for_again_until_it_is_done() {
    let new = web(2, "b", "");
    let world = begun(Restarts::Lost, &new).await;
    world.state.lock().unwrap().restarts = Restarts::Done;
    assert!(matches!(world.until_still(&new).await, Some(Outcome::Done(_))));
    assert_eq!(world.jobs(), [1, 2].map(|number| format!("restart web@{number}.service")));
}

#[tokio::test]
async fn a_run_that_takes_long_to_end_is_waited_for_and_its_instance_is_started_anew_once() {
    let new = web(2, "b", "");
    let world = begun(Restarts::Slow, &new).await;
    {
        let mut state = world.state.lock().unwrap();
        state.restarts = Restarts::Done;
        let unit = state.units.get_mut("web@1.service").unwrap();
        (unit.active, unit.invocation) = ("active".into(), "the one after".into());
    }
    assert!(matches!(world.until_still(&new).await, Some(Outcome::Done(_))));
    assert_eq!(world.jobs(), [1, 2].map(|number| format!("restart web@{number}.service")));
}

#[tokio::test]
async fn a_step_that_was_drained_waits_while_too_few_others_are_left() {
    let front = Front { path: "/etc/front.conf".into(), reload: "front.service".into(), drain: 5 };
    let old = Deployment { fronts: vec![front], ..web(3, "a", "old") };
    let new = Deployment { fronts: old.fronts.clone(), ..web(3, "b", "old") };
    let world = World::new();
    world.balance("server 127.0.0.1:1; # web@1.service\nserver 127.0.0.1:2; # web@2.service\n");
    world.until_still(&old).await;
    world.pass(&new).await;
    world.jobs();
    for number in [2, 3] {
        world.says(&format!("old {number}"), Says::No);
    }
    for _ in 0..20 {
        world.clock.advance(Duration::from_secs(1));
        world.pass(&new).await;
    }
    // Those that answer no more go first.
    assert!(!world.jobs().contains(&"restart web@1.service".into()));
    for number in [2, 3] {
        world.says(&format!("old {number}"), Says::Yes);
    }
    assert!(matches!(world.until_still(&new).await, Some(Outcome::Done(_))));
}

#[tokio::test]
async fn a_template_stays_as_long_as_an_instance_runs_that_does_not_go() {
    let world = World::running(&web(2, "a", "")).await;
    world.suspended.lock().unwrap().insert(instance("web", 2).as_str().into());
    let kept = world.take_down().await.unwrap();
    assert!(kept.error().is_some_and(|error| error.message.contains("web@2.service still runs")), "{kept:?}");
    assert_eq!(
        (world.running_units(), world.files()),
        (vec!["web@2.service".into()], vec!["web@.service".into()])
    );
    world.suspended.lock().unwrap().clear();
    assert!(matches!(world.take_down().await, Some(Outcome::Gone)));
    assert_eq!((world.running_units(), world.files()), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn an_instance_that_a_balancer_still_names_stays() {
    let world = World::new();
    world.balance("server 127.0.0.1:1; # web@1.service\nserver 127.0.0.1:2; # web@2.service\n");
    world.until_still(&web(2, "a", "")).await;
    world.suspended.lock().unwrap().insert("/etc/front.conf".into());
    world.jobs();
    world.balance("server 127.0.0.1:1; # web@1.service\n");
    let one = web(1, "a", "");
    for _ in 0..2 {
        world.pass(&one).await;
    }
    assert_eq!(world.running_units(), ["front.service", "web@1.service", "web@2.service"]);
    world.suspended.lock().unwrap().clear();
    for _ in 0..10 {
        world.pass(&one).await;
        world.clock.advance(IDLE);
    }
    assert_eq!(world.running_units(), ["front.service", "web@1.service"]);
}

#[tokio::test]
async fn an_instance_that_was_started_before_the_files_were_read_is_started_anew() {
    let world = World::running(&web(2, "a", "")).await;
    world.state.lock().unwrap().units.get_mut("web@1.service").unwrap().active = "deactivating".into();
    world.jobs();
    world.state.lock().unwrap().begun_at_reload = Some("web@1.service");
    world.until_still(&web(2, "b", "")).await;
    assert_eq!(world.jobs(), [1, 2].map(|number| format!("restart web@{number}.service")));
}

#[tokio::test]
async fn a_step_ends_in_time_also_where_every_look_takes_longer_than_a_pause() {
    let old = web(2, "a", "old");
    for between in [1, 30] {
        let world = World::running(&old).await;
        world.says("new", Says::No);
        world.state.lock().unwrap().takes = Duration::from_secs(20);
        let (new, start, mut took) = (web(2, "b", "new"), world.clock.now(), None);
        while !matches!(world.pass(&new).await, Some(Outcome::Partial(..))) {
            world.clock.advance(Duration::from_secs(between));
            assert!(world.clock.now() - start < Duration::from_secs(3_600), "it never ends");
            if world.memory().bad.is_some() {
                took.get_or_insert(world.clock.now() - start);
            }
        }
        // Looks of 20 s, and a second for what is between them.
        assert!(took.is_some_and(|took| took < Duration::from_secs(240)), "{took:?}");
        assert!(world.memory().bad.is_some_and(|bad| bad.why.contains("no progress within 60 s")));
    }
}

#[tokio::test]
async fn a_time_in_which_nobody_took_a_turn_is_not_that_of_a_step() {
    let world = World::running(&web(2, "a", "old")).await;
    world.says("new", Says::No);
    let new = web(2, "b", "new");
    for _ in 0..5 {
        assert!(matches!(world.pass(&new).await, Some(Outcome::Pending { .. })));
        world.clock.advance(Duration::from_secs(3_600));
    }
    world.says("new", Says::Yes);
    assert!(matches!(world.until_still(&new).await, Some(Outcome::Done(_))));
}

#[tokio::test]
async fn an_instance_that_is_declared_no_longer_is_in_no_step() {
    let world = World::running(&web(3, "a", "")).await;
    // Each is declared no longer while it is the one that is being replaced, and does not come up.
    world.says("new 3", Says::No);
    let new = |replicas: u32, first: u32| Deployment { first, ..web(replicas, "b", "new") };
    loop {
        world.pass(&new(3, 1)).await;
        world.clock.advance(Duration::from_secs(1));
        if world.memory().rollout.unwrap().batch.contains_key(&3) {
            break;
        }
    }
    world.jobs();
    let outcome = world.until_still(&new(2, 1)).await;
    assert!(matches!(outcome, Some(Outcome::Done(_))), "{outcome:?}");
    assert_eq!(world.jobs(), ["stop web@3.service"]);
    assert_eq!(world.memory().bad, None);

    world.says("newest 1", Says::No);
    let newest = |replicas: u32, first: u32| Deployment { first, ..web(replicas, "c", "newest") };
    world.pass(&newest(2, 1)).await;
    assert_eq!(world.memory().rollout.unwrap().batch.keys().collect::<Vec<_>>(), [&1]);
    let outcome = world.until_still(&newest(2, 5)).await;
    assert!(matches!(outcome, Some(Outcome::Done(_))), "{outcome:?}");
    assert_eq!(world.running_units(), ["web@5.service", "web@6.service"]);
    assert_eq!(world.memory().bad, None);
    assert_eq!(world.files(), ["web@.service"]);
}

/// One on which 3 and 4 were started by a rolling update, whose rows are gone by now.
async fn without_rows_of_3_and_4(passes: u32) -> World {
    let world = World::running(&web(2, "a", "")).await;
    for _ in 0..passes {
        world.pass(&web(4, "b", "new")).await;
    }
    for number in [3, 4] {
        world.rows.lock().unwrap().remove(&instance("web", number).as_str().into()).unwrap();
    }
    assert_eq!(world.running_units().len(), 4);
    world
}

#[tokio::test]
async fn what_a_rolling_update_started_and_nobody_declares_is_stopped_unless_it_has_a_row() {
    // A process that died before the instances had rows of their own.
    let world = without_rows_of_3_and_4(1).await;
    world.until_still(&web(2, "b", "new")).await;
    assert_eq!(world.running_units(), ["web@1.service", "web@2.service"]);
    assert_eq!(world.files(), ["web@.service"]);
}

#[tokio::test]
async fn what_a_person_had_forgotten_in_the_middle_of_a_rolling_update_goes_on() {
    let world = without_rows_of_3_and_4(2).await;
    world.until_still(&web(2, "b", "new")).await;
    assert_eq!(world.running_units().len(), 4);
}

#[tokio::test]
async fn what_a_rolling_update_started_goes_with_its_deployment_also_without_a_row() {
    let world = without_rows_of_3_and_4(1).await;
    assert!(matches!(world.take_down().await, Some(Outcome::Gone)));
    assert_eq!((world.running_units(), world.files()), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn a_revision_that_is_tried_out_is_not_taken_back_for_pauses() {
    let canary = Some(Canary { instances: 1, seconds: 600 });
    let world = World::running(&Deployment { canary, ..web(2, "a", "old") }).await;
    let new = Deployment { canary, ..web(2, "b", "new") };
    for _ in 0..2_000 {
        match world.pass(&new).await {
            Some(Outcome::Pending { .. }) => world.clock.advance(Duration::from_secs(15)),
            outcome => return assert!(matches!(outcome, Some(Outcome::Done(_))), "{outcome:?}"),
        }
    }
    panic!("it never ends: {:?}", world.memory());
}

#[tokio::test]
async fn an_instance_that_came_besides_and_is_declared_by_now_is_counted_once() {
    let surging = |replicas: u32, content: &str| Deployment {
        max_unavailable: 0,
        max_surge: 1,
        ..web(replicas, content, "")
    };
    let world = World::running(&surging(2, "a")).await;
    world.pass(&surging(2, "b")).await;
    assert!(world.memory().rollout.unwrap().surge.contains(&3));
    world.jobs();
    // One of three, and none besides.
    let three = Deployment { max_surge: 0, max_unavailable: 1, ..surging(3, "b") };
    while !matches!(world.pass(&three).await, Some(Outcome::Done(_))) {
        let jobs = world.jobs();
        assert!(jobs.len() <= 1, "{jobs:?}");
        world.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(world.running_units().len(), 3);
}

#[tokio::test]
async fn an_instance_that_does_not_answer_yet_is_on_its_way_and_one_that_answered_is_not_well() {
    let web = web(1, "a", "up");
    let world = World::running(&web).await;
    world.says("up", Says::No);
    let health = async || world.health_of(&web, "web@1.service").await;
    assert!(matches!(health().await, Health::Degraded { .. }), "it runs for long");
    world.state.lock().unwrap().began = world.clock.now().as_micros() as u64;
    let now = health().await;
    assert!(matches!(&now, Health::Progressing { why, .. } if why.contains("up says no")), "{now:?}");
    world.says("up", Says::Yes);
    assert_eq!(health().await, Health::Healthy);
}

#[tokio::test]
async fn a_way_back_that_hangs_is_not_well_and_goes_on_once_it_can() {
    let old = web(2, "a", "old");
    let world = World::running(&old).await;
    world.says("new", Says::No);
    let new = web(2, "b", "new");
    while world.memory().bad.is_none() {
        let health = world.health(&new).await;
        assert!(!matches!(health, Health::Degraded { .. }), "{health:?}");
        assert!(matches!(world.pass(&new).await, Some(Outcome::Pending { .. })));
        world.clock.advance(Duration::from_secs(1));
    }
    let told = async |part: &str| {
        let health = world.health(&new).await;
        assert!(matches!(&health, Health::Degraded { why } if why.contains(part)), "{health:?}");
    };
    told("the one before is on its way back").await;
    // It bears the old one no better.
    world.says("old 1", Says::No);
    for _ in 0..70 {
        assert!(matches!(world.pass(&new).await, Some(Outcome::Pending { .. })));
        world.clock.advance(Duration::from_secs(1));
    }
    told("the one before does not come up: web@1.service: old says no").await;
    world.says("old 1", Says::Yes);
    assert!(matches!(world.until_still(&new).await, Some(Outcome::Partial(..))));
    assert_eq!(world.memory().rollout, None);
    told("the new revision was taken back: ").await;
}

#[tokio::test]
async fn a_revision_that_hangs_and_has_none_to_go_back_to_is_not_well() {
    let new = web(2, "b", "new");
    let world = World::running(&web(2, "a", "old")).await;
    // As where what is there was adopted.
    let mut memory = world.memory();
    memory.good = None;
    world.rows.lock().unwrap().get_mut(&"web@.service".into()).unwrap().private = memory.seal();
    world.says("new", Says::No);
    for _ in 0..70 {
        assert!(matches!(world.pass(&new).await, Some(Outcome::Pending { .. })));
        world.clock.advance(Duration::from_secs(1));
    }
    let health = world.health(&new).await;
    assert!(
        matches!(&health, Health::Degraded { why } if why.contains("the new revision does not come up")),
        "{health:?}"
    );
    world.says("new", Says::Yes);
    assert!(matches!(world.until_still(&new).await, Some(Outcome::Done(_))));
    assert_eq!(world.health(&new).await, Health::Healthy);
}

#[tokio::test]
async fn an_instance_gets_its_answers_out_also_where_no_time_is_given_for_that() {
    for (seconds, least) in [(0, 1), (3, 3)] {
        let front = Front { path: "/etc/front.conf".into(), reload: "front.service".into(), drain: seconds };
        let old = Deployment { fronts: vec![front], ..web(2, "a", "old") };
        let world = World::new();
        world.balance("server 127.0.0.1:1; # web@1.service\nserver 127.0.0.1:2; # web@2.service\n");
        world.until_still(&old).await;
        world.jobs();
        // To look for who may go takes longer than an instance has.
        world.state.lock().unwrap().takes = Duration::from_secs(10);
        let new = Deployment { fronts: old.fronts.clone(), ..web(2, "b", "old") };
        world.pass(&new).await;
        assert_eq!(world.jobs(), ["reload front.service"]);
        let drained = world.clock.now();
        while !world.jobs().contains(&"restart web@1.service".into()) {
            world.clock.advance(Duration::from_millis(100));
            world.pass(&new).await;
        }
        let waited = world.clock.now() - drained - Duration::from_secs(10);
        assert!(waited >= Duration::from_secs(least), "{seconds}: {waited:?}");
    }
}
