//! Instances whose numbers change: those that were serve until those that are to come do.

use super::{
    spared::behind,
    world::{Says, World, web},
    *,
};

fn at(first: u32, declared: Deployment) -> Deployment {
    Deployment { first, ..declared }
}

fn units(numbers: &[u32]) -> Vec<String> {
    let mut units: Vec<String> = numbers.iter().map(|number| instance("web", *number)).collect();
    units.sort();
    units
}

/// A second goes by.
async fn pass(world: &World, declared: &Deployment) {
    world.pass(declared).await;
    world.clock.advance(Duration::from_secs(1));
}

#[tokio::test]
async fn as_many_serve_as_a_rolling_update_leaves_while_numbers_change() {
    // Also where the revision changes with them.
    for content in ["a", "b"] {
        let (old, new) = (web(3, "a", "old"), at(11, web(3, content, "new")));
        let world = World::running(&old).await;
        for number in new.range() {
            world.says(&format!("new {number}"), Says::No);
        }
        for _ in 0..5 {
            pass(&world, &new).await;
        }
        // Two of three have to.
        assert_eq!(world.running_units(), units(&[2, 3, 11, 12, 13]), "{content}");
        world.says("new 12", Says::Yes);
        pass(&world, &new).await;
        assert_eq!(world.running_units(), units(&[3, 11, 12, 13]), "{content}");
        world.says("new 13", Says::Yes);
        pass(&world, &new).await;
        assert_eq!(world.running_units(), units(&[11, 12, 13]), "{content}");
    }
}

#[tokio::test]
async fn a_revision_that_comes_with_other_numbers_and_does_not_do_leaves_those_that_serve() {
    let (old, new) = (web(3, "a", "old"), at(11, web(3, "b", "new")));
    let world = World::running(&old).await;
    world.says("new", Says::No);
    while world.memory().bad.is_none() {
        pass(&world, &new).await;
        let running = world.running_units();
        assert!(units(&[2, 3]).iter().all(|unit| running.contains(unit)), "{running:?}");
    }
    // The revision before comes up at the new numbers, and those make room.
    world.until_still(&new).await;
    pass(&world, &new).await;
    assert_eq!(world.running_units(), units(&[11, 12, 13]));
}

#[tokio::test]
async fn a_balancer_names_those_that_were_until_those_that_are_to_come_serve() {
    let line = |number: u32| format!("server 127.0.0.1:{number}; # web@{number}.service\n");
    let lines = |numbers: std::ops::Range<u32>| numbers.map(line).collect::<String>();
    let (old, new) = (behind(web(2, "a", "ask"), 1), at(11, behind(web(2, "a", "ask"), 1)));
    let world = World::new();
    world.balance(&lines(old.range()));
    world.until_still(&old).await;
    for number in new.range() {
        world.says(&format!("ask {number}"), Says::No);
    }
    world.balance(&lines(new.range()));
    for _ in 0..5 {
        pass(&world, &new).await;
        assert_eq!(world.front(), lines(old.range()));
    }
    let both = [vec!["front.service".into()], units(&[1, 2, 11, 12])].concat();
    assert_eq!(world.running_units(), both, "a balancer names each of them");
    world.says("ask 11", Says::Yes);
    pass(&world, &new).await;
    assert_eq!(world.front(), lines(new.range()));
    for _ in 0..3 {
        pass(&world, &new).await;
    }
    assert_eq!(world.running_units(), [vec!["front.service".into()], units(&[11, 12])].concat());
}

#[tokio::test]
async fn fewer_go_at_once_where_those_that_stay_serve_and_so_do_all_that_do_not() {
    let world = World::running(&web(4, "a", "ask")).await;
    world.pass(&web(2, "a", "ask")).await;
    assert_eq!(world.running_units(), units(&[1, 2]));
    // Nobody is kept who does not serve anyway.
    world.says("ask", Says::No);
    world.pass(&at(11, web(2, "a", "ask"))).await;
    assert_eq!(world.running_units(), units(&[11, 12]));
}

#[tokio::test]
async fn whoever_comes_counts_once_it_has_run_for_as_long_as_a_rolling_update_waits() {
    let ready = |declared: Deployment| Deployment { min_ready: 2, ..declared };
    let (old, new) = (ready(web(3, "a", "")), at(11, ready(web(3, "a", ""))));
    let world = World::running(&old).await;
    world.state.lock().unwrap().began = world.clock.now().as_micros() as u64;
    for _ in 0..2 {
        pass(&world, &new).await;
        assert_eq!(world.running_units(), units(&[2, 3, 11, 12, 13]));
    }
    pass(&world, &new).await;
    assert_eq!(world.running_units(), units(&[11, 12, 13]));
}

#[tokio::test]
async fn nobody_goes_before_it_is_known_what_comes() {
    let (old, new) = (web(3, "a", ""), at(11, web(3, "b", "")));
    let world = World::running(&old).await;
    for _ in 0..2 {
        world.pass_waiting(&new).await;
        assert_eq!(world.running_units(), units(&[1, 2, 3]));
    }
    world.until_still(&new).await;
    pass(&world, &new).await;
    assert_eq!(world.running_units(), units(&[11, 12, 13]));
}

#[tokio::test]
async fn those_that_go_are_stopped_beside_each_other() {
    let world = World::running(&web(5, "a", "")).await;
    world.state.lock().unwrap().units.values_mut().for_each(|unit| unit.file = "enabled".into());
    world.most_jobs();
    world.pass(&web(1, "a", "")).await;
    assert_eq!((world.running_units(), world.most_jobs()), (units(&[1]), 4));
    // Not so their links: systemd reads all its files for each.
    assert_eq!(world.state.lock().unwrap().linking, (0, 1));
}
