//! Those that come besides behind a balancer: they serve once they are available, and are taken from it before they go.

use super::{
    spared::behind,
    world::{Says, World, web},
    *,
};

/// A balancer of `replicas` instances and one that comes besides, which rests.
fn front(replicas: u32) -> String {
    let one = |number| format!("server 127.0.0.1:{number}; # web@{number}.service\n");
    let besides = replicas + 1;
    let rests = format!("server 127.0.0.1:{besides} down; # web@{besides}.service surge\n");
    (1..=replicas).map(one).chain([rests]).collect()
}

fn surging(replicas: u32, content: &str, check: &str) -> Deployment {
    Deployment { max_surge: 1, max_unavailable: 0, ..behind(web(replicas, content, check), 5) }
}

async fn world(declared: &Deployment) -> World {
    let world = World::new();
    world.balance(&front(declared.replicas));
    world.until_still(declared).await;
    assert_eq!(world.front(), front(declared.replicas));
    world.jobs();
    world
}

/// The units that get requests.
fn served(world: &World) -> Vec<String> {
    let text = world.front();
    let lines = text.lines().filter(|line| !line.contains(" down;"));
    lines.map(|line| line.split(" # ").last().unwrap().replace(" surge", "")).collect()
}

#[tokio::test]
async fn as_many_serve_as_are_declared_and_whoever_came_besides_has_its_time_before_it_goes() {
    for replicas in [1, 3] {
        let world = world(&surging(replicas, "a", "")).await;
        let new = surging(replicas, "b", "");
        let besides = instance("web", replicas + 1);
        let mut left = None;
        loop {
            let is_done = matches!(world.pass(&new).await, Some(Outcome::Done(_)));
            let (served, running) = (served(&world), world.running_units());
            assert!(served.len() >= replicas as usize, "{served:?}");
            assert!(served.iter().all(|unit| running.contains(unit)), "{served:?} {running:?}");
            match (left, served.contains(&besides), running.contains(&besides)) {
                (None, true, _) => left = Some(world.clock.now()),
                (Some(_), true, _) => left = Some(world.clock.now()),
                (Some(since), false, false) => {
                    assert!(world.clock.now() - since >= Duration::from_secs(5));
                    assert!(is_done);
                }
                _ => {}
            }
            if is_done {
                break;
            }
            world.clock.advance(STEP);
        }
        assert!(left.is_some(), "{besides} served");
        assert_eq!(world.front(), front(replicas));
        assert!(!world.running_units().contains(&besides));
        let restarted = world.jobs().iter().filter(|job| job.starts_with("restart web@")).count();
        assert_eq!(restarted, replicas as usize);
    }
}

#[tokio::test]
async fn one_that_came_besides_and_does_not_do_gets_no_requests_and_nobody_is_replaced() {
    let world = world(&surging(2, "a", "old")).await;
    world.says("new", Says::No);
    let new = surging(2, "b", "new");
    let outcome = loop {
        let outcome = world.pass(&new).await;
        assert_eq!(world.front(), front(2));
        match outcome {
            Some(Outcome::Pending { .. }) => world.clock.advance(Duration::from_secs(1)),
            outcome => break outcome.unwrap(),
        }
    };
    assert!(outcome.error().unwrap().message.contains("was taken back"), "{outcome:?}");
    assert_eq!(world.running_units(), ["front.service", "web@1.service", "web@2.service"]);
    assert!(!world.jobs().iter().any(|job| job.starts_with("restart web@")));
}

#[tokio::test]
async fn a_mark_that_nobody_accounts_for_is_taken_back_also_from_one_that_rests() {
    let old = surging(2, "a", "");
    let world = world(&old).await;
    world.write_front(&front(2).replace(":3 down;", ":3;").replace(":1;", ":1 down;"));
    world.until_still(&old).await;
    assert_eq!(world.front(), front(2));
}

#[tokio::test]
async fn one_that_was_stopped_since_it_is_needed_no_more_stays_so_whoever_dies_then() {
    let old = surging(2, "a", "");
    let world = world(&old).await;
    let new = surging(2, "b", "");
    while !matches!(world.pass_dying_when_done(&new).await, Some(Outcome::Done(_))) {
        world.clock.advance(Duration::from_secs(1));
    }
    assert!(matches!(world.until_still(&new).await, Some(Outcome::Done(_))));
    assert_eq!(world.running_units(), ["front.service", "web@1.service", "web@2.service"]);
}
