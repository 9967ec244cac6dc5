//! Commit statuses, as a forge is told them.

use crate::{
    env::{Env, zone},
    running::{Daemon, wait_for},
    sink::{Request, Sink},
};

const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";

fn desk(forge: &str, url: &str) -> Env {
    let env = Env::zonefile();
    env.write("token", "canary-forge-token\n");
    let config = std::fs::read_to_string(env.path("config.yaml")).unwrap();
    let report =
        format!(", report: {{{forge}, url: \"{url}\", token: {{file: {}}}}}", env.path("token").display());
    env.write("config.yaml", &config.replace("repo.git}", &format!("repo.git{report}}}")));
    env
}

fn states(requests: &[Request]) -> Vec<String> {
    requests.iter().map(|request| request.json()["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_commit_is_pending_and_then_it_succeeded_and_nothing_is_said_twice() {
    let sink = Sink::start();
    let env = desk("github: acme/infra", &sink.url);
    let first = env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::start(&env);
    let at = |commit: &str| sink.at(&format!("/repos/acme/infra/statuses/{commit}"));
    wait_for("it succeeded", || states(&at(&first)).last().is_some_and(|state| state == "success"));
    let told = at(&first);
    assert!(["pending success", "success"].contains(&states(&told).join(" ").as_str()), "{told:?}");
    let last = told.last().unwrap();
    assert_eq!((last.method.as_str(), last.header("accept")), ("POST", "application/vnd.github+json"));
    assert_eq!(last.header("authorization"), "Bearer canary-forge-token");
    assert_eq!(last.json()["context"], "reconciled/it/infra");
    assert!(last.json()["description"].as_str().unwrap().ends_with(" changed, 0 held"), "{last:?}");

    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    daemon.stop();
    let daemon = Daemon::start(&env);
    let broken = env.push("zone.yaml", &zone(ZONE, "zones", &["{name: www, type: A, values: [nonsense]}"]));
    env.run(&["sync", "--wait", "--timeout", "60s"]);
    wait_for("it failed", || states(&at(&broken)).last().is_some_and(|state| state == "failure"));
    assert_eq!(at(&first).len(), told.len(), "what was told is not told again");
    let log = daemon.log();
    daemon.stop();
    assert!(!log.contains("canary") && !env.sql("SELECT * FROM commit_status").contains("canary"), "{log}");
}

#[test]
fn each_commit_that_was_in_sync_succeeded_however_soon_the_next_one_came() {
    let sink = Sink::start();
    let env = desk("github: acme/infra", &sink.url);
    let daemon = Daemon::start(&env);
    let push = |number: usize| {
        let www = format!("{{name: www, type: A, values: [192.0.2.{number}]}}");
        let commit = env.push("zone.yaml", &zone(ZONE, "zones", &[&www]));
        env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
        commit
    };
    let commits: Vec<String> = (1..9).map(push).collect();
    let at = |commit: &String| states(&sink.at(&format!("/repos/acme/infra/statuses/{commit}")));
    wait_for("all are told of", || commits.iter().all(|commit| at(commit).contains(&"success".to_owned())));
    for commit in &commits {
        let told = at(commit).join(" ");
        assert!(["pending success", "success"].contains(&told.as_str()), "{told}");
    }
    daemon.stop();
}

#[test]
fn a_forge_that_refuses_is_shown_and_holds_up_nothing() {
    let sink = Sink::start();
    sink.answers(503);
    let env = desk("gitlab: \"group/sub/infra\"", &format!("{}/api/v4", sink.url));
    let commit = env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::start(&env);
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    let path = format!("/api/v4/projects/group%2Fsub%2Finfra/statuses/{commit}");
    wait_for("it was tried", || sink.at(&path).len() >= 2);
    env.run(&["status"]).says(&["the status of commit", "answered 503"]);
    assert_eq!(daemon.log().matches("a commit status cannot be told").count(), 1, "{}", daemon.log());
    sink.answers(201);
    wait_for("it succeeded", || states(&sink.at(&path)).last().is_some_and(|state| state == "success"));
    assert_eq!(sink.at(&path).last().unwrap().json()["name"], "reconciled/it/infra");
    wait_for("status is quiet", || !env.run(&["status"]).all().contains("the status of commit"));
    daemon.stop();
}

#[test]
fn gitea_is_told_in_its_words_and_gitlab_that_a_commit_was_overtaken() {
    let sink = Sink::start();
    let env = desk("gitea: acme/infra", &format!("{}/api/v1", sink.url));
    let commit = env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::start(&env);
    let path = format!("/api/v1/repos/acme/infra/statuses/{commit}");
    wait_for("it succeeded", || states(&sink.at(&path)).last().is_some_and(|state| state == "success"));
    let last = sink.at(&path).pop().unwrap();
    assert_eq!(
        (last.method.as_str(), last.json()["context"].as_str()),
        ("POST", Some("reconciled/it/infra"))
    );
    assert_eq!(last.header("authorization"), "Bearer canary-forge-token");
    daemon.stop();

    // All is suspended, so that a commit stays pending until the next one comes.
    let env = desk("gitlab: acme/infra", &format!("{}/api/v4", sink.url));
    let first = env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::start(&env);
    env.run(&["suspend", "--all", "--reason", "a look"]).exits(0);
    let at = |commit: &str| states(&sink.at(&format!("/api/v4/projects/acme%2Finfra/statuses/{commit}")));
    wait_for("the first is told of", || !at(&first).is_empty());
    let other = "{name: www, type: A, values: [192.0.2.2]}";
    let second = env.push("zone.yaml", &zone(ZONE, "zones", &[other]));
    env.run(&["sync", "--wait", "--timeout", "60s"]);
    wait_for("the second is pending", || at(&second) == ["pending"]);
    let third =
        env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, "{name: a, type: A, values: [192.0.2.3]}"]));
    env.run(&["sync", "--wait", "--timeout", "60s"]);
    wait_for("the third is pending", || at(&third) == ["pending"]);
    wait_for("the second is over", || at(&second) == ["pending", "canceled"]);
    daemon.stop();
}

#[test]
fn a_forge_that_knows_no_such_token_is_asked_again_and_one_that_takes_no_such_status_is_not() {
    let path = |commit: &str| format!("/repos/acme/infra/statuses/{commit}");
    let live = |code: u16| {
        let sink = Sink::start();
        sink.answers(code);
        let env = desk("github: acme/infra", &sink.url);
        let first = env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
        let daemon = Daemon::start(&env);
        wait_for("status says so", || env.run(&["status"]).all().contains(&format!("answered {code}")));
        wait_for("the end was tried", || states(&sink.at(&path(&first))).contains(&"success".to_owned()));
        let again = || {
            let mut told = states(&sink.at(&path(&first)));
            let all = told.len();
            told.dedup();
            all > told.len()
        };
        if code != 422 {
            wait_for("it is tried again", again);
        }
        sink.answers(201);
        let other = "{name: www, type: A, values: [192.0.2.2]}";
        let second = env.push("zone.yaml", &zone(ZONE, "zones", &[other]));
        env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
        wait_for("the second is told of", || {
            states(&sink.at(&path(&second))).contains(&"success".to_owned())
        });
        assert_eq!(again(), code != 422, "{code}: {:?}", states(&sink.at(&path(&first))));
        assert!(!daemon.log().contains("canary"), "{}", daemon.log());
        daemon.stop();
    };
    // Each waits for the forge to be asked again, most of the time.
    std::thread::scope(|scope| {
        for code in [401, 403, 404, 422] {
            scope.spawn(move || live(code));
        }
    });
}
