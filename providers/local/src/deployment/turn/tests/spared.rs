//! What a rolling update leaves alone: the last one that serves, systemd, and what systemd would pass over.

use super::{
    super::super::jobs::AT_ONCE,
    world::{World, web},
    *,
};
use crate::{balancer::Front, hands::Start};
use reconciled_provider::Health;

pub(super) fn behind(declared: Deployment, seconds: u32) -> Deployment {
    let front = Front { path: "/etc/front.conf".into(), reload: "front.service".into(), drain: seconds };
    Deployment { fronts: vec![front], ..declared }
}

#[tokio::test]
async fn the_only_one_behind_a_balancer_serves_until_it_is_started_anew() {
    let world = World::new();
    world.balance("server 127.0.0.1:1; # web@1.service\n");
    world.until_still(&behind(web(1, "a", ""), 30)).await;
    world.jobs();
    world.pass(&behind(web(1, "b", ""), 30)).await;
    assert!(world.jobs().contains(&"restart web@1.service".into()));
    assert!(!world.front().contains("down"), "{}", world.front());
}

#[tokio::test]
async fn a_balancer_is_never_without_a_member_however_many_may_be_away() {
    let all = |content| Deployment { max_unavailable: 3, ..behind(web(3, content, ""), 1) };
    let world = World::new();
    world.balance(
        "server 127.0.0.1:1; # web@1.service\nserver 127.0.0.1:2; # web@2.service\nserver 127.0.0.1:3; # web@3.service\n",
    );
    world.until_still(&all("a")).await;
    let new = all("b");
    let mut most = 0;
    while !matches!(world.pass(&new).await, Some(Outcome::Done(_))) {
        let drained = world.front().matches("down").count();
        assert!(drained < 3, "{}", world.front());
        most = most.max(drained);
        world.clock.advance(STEP);
    }
    assert_eq!(most, 2);
}

#[tokio::test]
async fn nobody_else_is_started_anew_while_something_else_is_in_the_place_of_a_balancer() {
    let both = |content| behind(web(2, content, ""), 1);
    let world = World::new();
    world.balance("server 127.0.0.1:1; # web@1.service\nserver 127.0.0.1:2; # web@2.service\n");
    world.until_still(&both("a")).await;
    // What is no file is refused where it is planned.
    world.suspended.lock().unwrap().insert("/etc/front.conf".into());
    let new = both("b");
    world.pass(&new).await;
    assert!(world.front().contains("127.0.0.1:1 down"), "{}", world.front());
    world.jobs();
    world.link_front();
    for _ in 0..20 {
        world.clock.advance(Duration::from_secs(1));
        world.pass(&new).await;
    }
    assert_eq!(world.jobs(), ["restart web@1.service"], "it is not given back");
    world.unlink_front();
    assert!(matches!(world.until_still(&new).await, Some(Outcome::Done(_))));
    assert!(!world.front().contains("down"), "{}", world.front());
}

#[tokio::test]
async fn nobody_is_started_once_more_where_another_one_of_the_step_could_not_be() {
    let both = |content| Deployment { max_unavailable: 2, ..web(2, content, "") };
    let world = World::running(&both("a")).await;
    world.jobs();
    world.state.lock().unwrap().unreached = Some("web@1.service");
    let new = both("b");
    let outcome = world.pass(&new).await;
    assert!(matches!(outcome, Some(Outcome::Failed(_))), "{outcome:?}");
    assert!(matches!(world.until_still(&new).await, Some(Outcome::Done(_))));
    assert_eq!(world.jobs(), ["restart web@2.service", "restart web@1.service"]);
}

#[tokio::test]
async fn the_last_one_waits_while_all_others_of_its_balancer_are_drained_for_somebody_else() {
    let (world, new) = beside_one_that_is_drained().await;
    for _ in 0..3 {
        world.pass(&new).await;
        world.clock.advance(IDLE);
    }
    assert_eq!((world.jobs(), world.front()), (Vec::new(), beside(" down")));
    world.write_front(&beside(""));
    world.pass(&new).await;
    // Now that there is another one, it is drained as always.
    assert!(world.front().contains("127.0.0.1:1 down"), "{}", world.front());
    assert!(matches!(world.until_still(&new).await, Some(Outcome::Done(_))));
}

/// The members of the balancer, with what is said of the other one.
fn beside(word: &str) -> String {
    format!("server 127.0.0.1:1; # web@1.service\nserver 127.0.0.1:2{word}; # api@1.service\n")
}

/// One instance behind a balancer, whose only other member is being drained for somebody else, and a revision for it.
async fn beside_one_that_is_drained() -> (World, Deployment) {
    let world = World::new();
    world.balance(&beside(""));
    world.runs_besides("api@1.service", "active");
    world.until_still(&behind(web(1, "a", ""), 1)).await;
    // The other one's own step accounts for the mark; to this world it is nobody's.
    world.suspended.lock().unwrap().insert("/etc/front.conf".into());
    world.write_front(&beside(" down"));
    world.jobs();
    (world, behind(web(1, "b", ""), 1))
}

#[tokio::test]
async fn waiting_for_others_that_are_drained_is_no_time_of_its_own() {
    let (world, new) = beside_one_that_is_drained().await;
    let begun = world.clock.now();
    let pass = async || {
        world.pass(&new).await;
        world.clock.advance(STUCK);
    };
    while world.clock.now() - begun < Duration::from_secs(60) {
        pass().await;
        let health = world.health(&new).await;
        assert!(
            matches!(&health, Health::Progressing { why, .. } if why.contains("api@1.service")),
            "{health:?}"
        );
    }
    while world.clock.now() - begun < Duration::from_secs(600) {
        pass().await;
    }
    let health = world.health(&new).await;
    let is_told = matches!(&health, Health::Degraded { why } if why.contains("its turn") && why.contains("api@1.service"));
    assert!(is_told, "{health:?}");
    world.write_front(&world.front().replace(" down", ""));
    assert!(matches!(world.until_still(&new).await, Some(Outcome::Done(_))));
    let jobs = ["reload front.service", "restart web@1.service", "reload front.service"];
    assert_eq!((world.memory().bad, world.jobs()), (None, jobs.map(String::from).to_vec()));
}

#[tokio::test]
async fn one_that_is_being_drained_for_longer_than_any_may_be_is_no_longer_waited_for() {
    let (world, new) = beside_one_that_is_drained().await;
    let begun = world.clock.now();
    while world.jobs().is_empty() {
        world.pass(&new).await;
        world.clock.advance(STUCK);
    }
    let waited = (world.clock.now() - begun).as_secs();
    assert!((3_660..3_700).contains(&waited), "{waited}");
    // It is the only one, and serves to the end.
    assert!(!world.front().contains("127.0.0.1:1 down"), "{}", world.front());
    assert!(matches!(world.until_still(&new).await, Some(Outcome::Done(_))));
}

#[tokio::test]
async fn a_member_whose_unit_does_not_run_is_no_other_one_that_serves() {
    let world = World::new();
    world.balance("server 127.0.0.1:1; # web@1.service\nserver 127.0.0.1:2; # api@1.service\n");
    world.until_still(&behind(web(1, "a", ""), 30)).await;
    world.runs_besides("api@1.service", "failed");
    world.jobs();
    world.pass(&behind(web(1, "b", ""), 30)).await;
    assert!(world.jobs().contains(&"restart web@1.service".into()));
    assert!(!world.front().contains("down"), "{}", world.front());
}

#[tokio::test]
async fn whoever_is_left_alone_at_a_balancer_while_it_is_drained_serves_again() {
    let world = World::new();
    let web_alone = "server 127.0.0.1:1; # web@1.service\n";
    world.balance(&format!("{web_alone}server 127.0.0.1:2; # api@1.service\n"));
    world.runs_besides("api@1.service", "active");
    world.until_still(&behind(web(1, "a", ""), 30)).await;
    let new = behind(web(1, "b", ""), 30);
    world.pass(&new).await;
    assert!(world.front().contains("127.0.0.1:1 down"), "{}", world.front());
    world.balance(web_alone);
    world.pass(&new).await;
    assert_eq!(world.front(), web_alone);
    assert!(matches!(world.until_still(&new).await, Some(Outcome::Done(_))));
}

#[tokio::test]
async fn no_more_jobs_are_under_way_at_one_time_than_systemd_does_well() {
    let all = |content| Deployment { max_unavailable: 200, ..web(200, content, "") };
    let world = World::running(&all("a")).await;
    assert_eq!(world.most_jobs(), AT_ONCE);
    world.until_still(&all("b")).await;
    assert_eq!(world.most_jobs(), AT_ONCE);
    assert_eq!(world.running_units().len(), 200);
}

#[tokio::test]
async fn a_revision_that_systemd_passes_over_is_taken_back_with_the_condition() {
    let world = World::running(&web(2, "a", "")).await;
    world.state.lock().unwrap().starts_as = Some("inactive");
    let start = Start { unmet: vec!["ConditionPathExists=/a".into()], ..Start::default() };
    world.state.lock().unwrap().start = start;
    let mut new = web(2, "b", "");
    new.content += "[Unit]\nConditionPathExists=/a\n";
    world.pass(&new).await;
    let told = world.memory().bad.unwrap().why;
    assert!(told.contains("web@1.service") && told.contains("ConditionPathExists=/a"), "{told}");
}

#[tokio::test]
async fn an_instance_that_systemd_passes_over_is_not_well_and_not_started_again_and_again() {
    let mut declared = web(1, "a", "");
    declared.content += "[Unit]\nConditionPathExists=/a\n";
    let world = World::running(&declared).await;
    let start = Start { unmet: vec!["ConditionPathExists=/a".into()], ..Start::default() };
    {
        let mut state = world.state.lock().unwrap();
        state.start = start;
        let unit = state.units.get_mut("web@1.service").unwrap();
        (unit.active, unit.invocation) = ("inactive".into(), String::new());
    }
    world.jobs();
    for _ in 0..3 {
        world.pass(&declared).await;
    }
    assert_eq!(world.jobs(), [""; 0]);
    let health = world.health_of(&declared, "web@1.service").await;
    assert!(
        matches!(&health, Health::Degraded { why } if why.contains("ConditionPathExists=/a")),
        "{health:?}"
    );
    // It would be met by now.
    world.state.lock().unwrap().start = Start::default();
    world.pass(&declared).await;
    assert_eq!(world.jobs(), ["start web@1.service"]);
}
