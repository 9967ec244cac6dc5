//! What cannot be had from a real systemd at will: answers that do not come, and time.

mod world;

use super::*;
use reconciled_provider::Clock;
use world::{Says, World, web};

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
        world.job(&format!("web@{number}.service"), Job::Stop).await.unwrap();
    }
    world.jobs();
    world.pass(&web(4, "b", "old")).await;
    assert_eq!(world.jobs()[..3], [2, 3, 4].map(|number| format!("start web@{number}.service")));
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
