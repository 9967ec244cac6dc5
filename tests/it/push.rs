//! `git push` as the deploy button: a real Git, the real hooks, the real daemon, a real PowerDNS.

use crate::{
    env::{Env, Output, WIDE_GUARD, rrsets, zone},
    pdns::Pdns,
    running::{Daemon, is_ready, wait_for},
};
use reconciled::failpoint::{NAMES, VARIABLE};
use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixListener, process::CommandExt},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";
const API: &str = "{name: api, type: A, values: [192.0.2.3]}";
const FTP: &str = "{name: ftp, type: A, values: [192.0.2.4]}";

/// A desk whose repository is a push target, with further keys of the pdns entry and of the source.
fn desk(server: &Pdns, entry: &str, source: &str) -> Env {
    let env = Env::new();
    env.write("key", &server.key);
    env.config_with("it", &env.pdns_entry(&server.url, entry), source);
    fs::remove_dir_all(env.path("repo.git")).unwrap();
    env.run(&["init", "repo.git"]).exits(0);
    env
}

/// Git in the working copy, with nothing of this machine's configuration.
fn git(env: &Env, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    #[expect(clippy::disallowed_methods, reason = "a test starts other programs by their names")]
    let path = std::env::var("PATH").unwrap();
    command
        .args(args)
        .current_dir(env.path("work"))
        .env_clear()
        .env("PATH", path)
        .env("HOME", env.dir.path())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null());
    command
}

fn push(env: &Env, options: &[&str]) -> Output {
    env.finish(git(env, &[&["push"], options, &["origin", "HEAD:main"]].concat()))
}

/// Commits these records of the zone.
fn commit(env: &Env, records: &[&str]) -> String {
    env.write("work/zone.yaml", &zone(ZONE, "pdns", records));
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "change"]);
    env.git(&["rev-parse", "HEAD"])
}

/// The tip of a branch of the repository; empty where there is none.
fn tip(env: &Env, branch: &str) -> String {
    env.git_in("repo.git", &["for-each-ref", "--format=%(objectname)", &format!("refs/heads/{branch}")])
}

fn addresses(names: &[(&str, &str)]) -> crate::pdns::Rrsets {
    let pairs: Vec<(String, String)> =
        names.iter().map(|(name, value)| (format!("{name} A"), format!("300 {value}"))).collect();
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
    rrsets(&pairs)
}

#[test]
fn a_push_shows_its_plan_deploys_and_says_how_it_ended() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let _daemon = Daemon::ready(&env);
    let sha = commit(&env, &[WWW, MAIL]);
    let short = &sha[..7];
    let output = push(&env, &[]).exits(0).hides(&[&server.key]);
    output.says(&[
        &format!("remote: plan of {short} for source infra"),
        "remote:   + Zone/example.com#www/A",
        "zone.yaml:8",
        "remote: Plan: 3 to create",
        &format!("remote: infra is in sync at {short}: 3 created ("),
    ]);
    assert_eq!(server.rrsets(ZONE), addresses(&[("www", "192.0.2.1"), ("mail", "192.0.2.2")]));

    // The same again with nothing that changes.
    env.write("work/README.md", "words\n");
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "words"]);
    push(&env, &[]).exits(0).says(&["remote: No changes. 1 scope untouched.", ": nothing to change ("]);

    // Who pushed is in the trail, beside who wrote it.
    env.run(&["history"]).exits(0).says(&["push", &format!("{short} pushed to main"), "A <a@example.com>"]);
    env.run(&["events", "--verify"]).exits(0);
}

#[test]
fn a_broken_tree_is_refused_with_its_place_with_and_without_a_daemon() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let check = || {
        let output = push(&env, &[]).exits(1);
        output.says(&[
            "remote: error: unknown field `vlaues`",
            "remote:   --> zone.yaml:8:28",
            "hint: did you mean `values`?",
            "is refused: its manifests have errors",
            "pre-receive hook declined",
        ]);
        assert_eq!(tip(&env, "main"), "");
    };
    commit(&env, &["{name: www, type: A, vlaues: [192.0.2.1]}"]);
    check();
    let _daemon = Daemon::ready(&env);
    check();
    // Fine everywhere but on this host: only the daemon can know.
    env.write("work/zone.yaml", &zone(ZONE, "pdsn", &[WWW]));
    env.git(&["commit", "-q", "-a", "-m", "elsewhere"]);
    push(&env, &[]).exits(1).says(&[
        "provider `pdsn`",
        "zone.yaml:5",
        "did you mean `pdns`?",
        "on this host",
    ]);
    assert_eq!(server.rrsets(ZONE), rrsets(&[]));
    // A link is refused by name, as everywhere.
    commit(&env, &[WWW]);
    std::os::unix::fs::symlink("/etc/passwd", env.path("work/evil.yaml")).unwrap();
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "link"]);
    push(&env, &[]).exits(1).says(&["evil.yaml", "symbolic links are not followed"]).hides(&["root:"]);
}

#[test]
fn only_what_the_source_reads_is_checked() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, ", path: prod, ignore: [\"chart*.yaml\"]");
    env.write("work/lab/zone.yaml", "apiVersion: dns/v1\nkind: Zoen\nmetadata: {name: a}\n");
    env.write("work/prod/chart.yaml", "apiVersion: dns/v1\nkind: Zoen\nmetadata: {name: a}\n");
    env.write("work/prod/zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "change"]);
    // Nobody answers: the hook goes by what `init` left.
    push(&env, &[]).exits(0).says(&["note: no plan", "is taken"]).hides(&["Zoen"]);
    let _daemon = Daemon::ready(&env);
    env.git(&["commit", "-q", "--allow-empty", "-m", "again"]);
    push(&env, &[]).exits(0).says(&["infra is in sync at"]).hides(&["Zoen"]);
    assert_eq!(server.rrsets(ZONE), addresses(&[("www", "192.0.2.1")]));
}

#[test]
fn a_source_is_known_by_its_place_however_its_url_is_written() {
    let env = Env::zonefile();
    fs::remove_dir_all(env.path("repo.git")).unwrap();
    std::os::unix::fs::symlink("repo.git", env.path("link.git")).unwrap();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let written = format!("url: {}", env.path("repo.git").display());
    assert!(config.contains(&written));
    let file = format!("url: \"file://{}\"", env.path("link.git").display());
    for url in [&*written, &*file, "url: repo", "url: repo.git", "url: ./link.git"] {
        env.write("config.yaml", &config.replace(&written, url));
        env.run(&["init", "repo.git"]).exits(0).says(&["source infra follows it"]);
    }
    env.write("config.yaml", &config.replace(&written, "url: elsewhere.git"));
    env.run(&["init", "repo.git"]).exits(0).hides(&["follows it"]);
}

/// What the hint of a refused push says to type, after `git push`.
fn line_to_type(output: &Output) -> Vec<String> {
    let line = output.stderr.lines().find_map(|line| line.split_once("hint: if it is meant: git push "));
    line.unwrap().1.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_held_push_is_refused_with_the_line_to_type_and_that_line_works() {
    let server = Pdns::start();
    let env = desk(&server, "", "");
    let _daemon = Daemon::ready(&env);
    let first = commit(&env, &[WWW, MAIL, API, FTP]);
    push(&env, &[]).exits(0);
    let before = server.rrsets(ZONE);

    let second = commit(&env, &[WWW]);
    let refused = push(&env, &[]).exits(1).says(&["HELD  pdns/example.com", "error: refused", "maxDelete"]);
    assert_eq!((tip(&env, "main"), server.rrsets(ZONE)), (first.clone(), before.clone()));

    // Consent to something else is none.
    push(&env, &["-o", "reconciled.approve=00000000"])
        .exits(1)
        .says(&["is not the digest of anything this push has held"]);
    push(&env, &["-o", "reconciled.approve=12"]).exits(1).says(&["too short"]);
    push(&env, &["-o", "reconciled.aprove=12"]).exits(1).says(&["did you mean `reconciled.approve`?"]);
    // Nor is it consent to a plan that has changed since.
    let line = line_to_type(&refused);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    commit(&env, &[MAIL]);
    push(&env, &line).exits(1).says(&["is not the digest of anything this push has held"]);
    env.git(&["reset", "-q", "--hard", &second]);
    assert_eq!((tip(&env, "main"), server.rrsets(ZONE)), (first, before));

    push(&env, &line).exits(0).says(&["APPROVED  pdns/example.com", "push option", "3 deleted"]);
    assert_eq!((tip(&env, "main"), server.rrsets(ZONE)), (second, addresses(&[("www", "192.0.2.1")])));
    env.run(&["history"]).exits(0).says(&["approve", "push option"]);
}

#[test]
fn where_push_options_may_not_consent_the_host_does() {
    let server = Pdns::start();
    let env = desk(&server, "", ", approve: [socket]");
    let _daemon = Daemon::ready(&env);
    commit(&env, &[WWW, MAIL, API, FTP]);
    push(&env, &[]).exits(0);
    commit(&env, &[WWW]);
    let refused = push(&env, &[]).exits(1).says(&["not the pusher's"]);
    let digest = refused.stderr.split("reconciled approve ").nth(1).unwrap().split(' ').next().unwrap();
    push(&env, &["-o", &format!("reconciled.approve={digest}")])
        .exits(1)
        .says(&["source infra does not let a push approve"]);
    env.run(&["approve", digest, "--reason", "meant"]).exits(0);
    push(&env, &[]).exits(0).says(&["APPROVED", "3 deleted"]);
}

#[test]
fn where_held_pushes_are_taken_what_is_held_waits() {
    let server = Pdns::start();
    let env = desk(&server, "", "");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &format!("{config}hook: {{onHold: accept}}\n"));
    let _daemon = Daemon::ready(&env);
    commit(&env, &[WWW, MAIL, API, FTP]);
    push(&env, &[]).exits(0);
    let before = server.rrsets(ZONE);
    let sha = commit(&env, &[WWW]);
    push(&env, &[]).exits(0).says(&["waits for consent", "infra is held at", "reconciled approve"]);
    assert_eq!((tip(&env, "main"), server.rrsets(ZONE)), (sha, before));
    // The next push is not about that.
    env.write("work/other.yaml", &zone("example.net", "pdns", &[WWW]));
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "other"]);
    push(&env, &[]).exits(0);
    assert_eq!(server.rrsets("example.net"), addresses(&[("www", "192.0.2.1")]));
    // A push that changes something else may consent to what still waits.
    let status = env.run(&["status"]).exits(0);
    let digest = status.stdout.split("reconciled approve ").nth(1).unwrap().split(' ').next().unwrap();
    env.write("work/other.yaml", &zone("example.net", "pdns", &[WWW, MAIL]));
    env.git(&["commit", "-q", "-a", "-m", "more"]);
    let consents = push(&env, &["-o", &format!("reconciled.approve={digest}")]).exits(0);
    consents.says(&["APPROVED"]).hides(&["is not the digest of anything"]);
    wait_for("what was held is done", || server.rrsets(ZONE) == addresses(&[("www", "192.0.2.1")]));
}

#[test]
fn a_trailer_consents_to_what_an_earlier_commit_had_held() {
    let server = Pdns::start();
    let env = desk(&server, "", ", approve: [socket, trailer]");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &format!("{config}hook: {{onHold: accept}}\n"));
    let _daemon = Daemon::ready(&env);
    commit(&env, &[WWW, MAIL, API, FTP]);
    push(&env, &[]).exits(0);
    commit(&env, &[WWW]);
    push(&env, &[]).exits(0).says(&["waits for consent"]);
    let status = env.run(&["status", "-o", "json"]).exits(0);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    let digest = status["holds"][0]["digest"].as_str().unwrap().to_owned();
    env.write("work/README.md", "words\n");
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", &format!("words\n\nReconciled-Approve: {digest}")]);
    push(&env, &[]).exits(0);
    wait_for("what was held is done", || server.rrsets(ZONE) == addresses(&[("www", "192.0.2.1")]));
}

#[test]
fn what_somebody_made_past_the_api_is_not_overwritten_by_a_push() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let _daemon = Daemon::ready(&env);
    commit(&env, &[WWW]);
    push(&env, &[]).exits(0);
    // The daemon has seen the zone whole; a change in the database leaves its serial as it was.
    env.run(&["sync", "--wait"]).exits(0);
    server.sneak(ZONE, "mail", "A", "198.51.100.1");
    commit(&env, &[WWW, MAIL]);
    push(&env, &[]).says(&["mail/A", "exists"]);
    let expected = addresses(&[("www", "192.0.2.1"), ("mail", "198.51.100.1")]);
    assert_eq!(server.rrsets(ZONE), expected);
}

#[test]
fn a_plan_takes_nothing_and_leaves_no_object_behind() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let _daemon = Daemon::ready(&env);
    for limit in ["1", "100"] {
        // Packed, and as loose objects: both wait in quarantine.
        env.git_in("repo.git", &["config", "receive.unpackLimit", limit]);
        let sha = commit(&env, &[WWW, &format!("{{name: a{limit}, type: A, values: [192.0.2.9]}}")]);
        push(&env, &["-o", "reconciled.plan"]).exits(1).says(&[
            "+ Zone/example.com#www/A",
            &format!("+ Zone/example.com#a{limit}/A"),
            "nothing was taken",
        ]);
        assert_eq!(tip(&env, "main"), "");
        let kept = git(&env, &["-C", "../repo.git", "cat-file", "-e", &sha]).output().unwrap();
        assert!(!kept.status.success(), "a refused push left {sha} behind");
    }
    assert_eq!(server.rrsets(ZONE), rrsets(&[]));
}

#[test]
fn nobody_waits_with_wait_0_and_it_is_deployed_all_the_same() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let _daemon = Daemon::ready(&env);
    commit(&env, &[WWW]);
    push(&env, &["-o", "reconciled.wait=0"])
        .exits(0)
        .says(&["is taken; to follow it"])
        .hides(&["in sync at"]);
    wait_for("the record", || server.rrsets(ZONE) == addresses(&[("www", "192.0.2.1")]));
}

#[test]
fn a_branch_that_nobody_follows_is_planned_taken_and_not_applied() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let _daemon = Daemon::ready(&env);
    commit(&env, &[WWW]);
    push(&env, &[]).exits(0);
    let sha = commit(&env, &[WWW, MAIL]);
    let to = |refspec: &str| env.finish(git(&env, &["push", "origin", refspec]));
    to("HEAD:refs/heads/feature").exits(0).says(&[
        "as if it followed feature",
        "+ Zone/example.com#mail/A",
        "not applied: no source follows feature",
    ]);
    assert_eq!(tip(&env, "feature"), sha);
    commit(&env, &["{name: www, tpye: A}"]);
    to("HEAD:refs/heads/draft").exits(0).says(&["unknown field `tpye`", "not applied"]);
    to("HEAD:refs/tags/v1").exits(0).hides(&["remote:"]);
    let many = ["push", "origin", "HEAD~:refs/heads/a", "HEAD~:refs/heads/b", "HEAD~:refs/heads/c"];
    let many = [&many[..], &["HEAD~:refs/heads/d"]].concat();
    let output = env.finish(git(&env, &many)).exits(0);
    output.says(&["as if it followed c", "not planned, not applied: no source follows d"]);
    to(":refs/heads/feature").exits(0).hides(&["remote:"]);
    assert_eq!(server.rrsets(ZONE), addresses(&[("www", "192.0.2.1")]));
}

#[test]
fn the_followed_branch_is_neither_deleted_nor_rewound_by_accident() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let daemon = Daemon::ready(&env);
    let first = commit(&env, &[WWW]);
    push(&env, &[]).exits(0);
    let second = commit(&env, &[WWW, MAIL]);
    push(&env, &[]).exits(0);

    let deleted = env.finish(git(&env, &["push", "origin", ":main"]));
    deleted.exits(1).says(&["main is followed by source infra", "hint:"]);
    env.git(&["reset", "-q", "--hard", &first]);
    let line = format!("reconciled.accept-rewind={}", &first[..7]);
    let refused = push(&env, &["--force"]).exits(1);
    refused.says(&["this rewinds main", &second[..7], &format!("git push --force -o {line}")]);
    assert_eq!(tip(&env, "main"), second);
    push(&env, &["--force", "-o", "reconciled.accept-rewind=0000000"]).exits(1);

    push(&env, &["--force", "-o", &line]).exits(0).says(&["is rewound to", "1 deleted", "in sync at"]);
    assert_eq!(tip(&env, "main"), first);
    assert_eq!(server.rrsets(ZONE), addresses(&[("www", "192.0.2.1")]));

    // Without a daemon nobody could consent.
    drop(daemon);
    commit(&env, &[API]);
    env.git(&["reset", "-q", "--hard", "HEAD~"]);
    env.git(&["commit", "-q", "--amend", "-m", "rewritten"]);
    push(&env, &["--force"]).exits(1).says(&["this rewinds main", "git update-ref"]);
    assert_eq!(tip(&env, "main"), first);
}

#[test]
fn a_dead_daemon_takes_the_push_and_deploys_it_when_it_is_back() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let sha = commit(&env, &[WWW]);
    push(&env, &[]).exits(0).says(&["note: no plan: the daemon at", "is taken, and applied once"]);
    assert_eq!(tip(&env, "main"), sha);
    let _daemon = Daemon::ready(&env);
    wait_for("the record", || server.rrsets(ZONE) == addresses(&[("www", "192.0.2.1")]));
}

#[test]
fn a_daemon_that_hangs_keeps_no_push_back() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &format!("{config}hook: {{planTimeout: 1s}}\n"));
    env.run(&["init", "repo.git"]).exits(0).says(&["reconciled.json written"]);
    fs::create_dir_all(env.path("state")).unwrap();
    // It accepts connections, and that is all.
    let _socket = UnixListener::bind(env.path("state/api.sock")).unwrap();
    let sha = commit(&env, &[WWW]);
    let start = Instant::now();
    push(&env, &[]).exits(0).says(&["did not answer within 1s", "is taken"]);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(tip(&env, "main"), sha);
}

#[test]
fn a_hundred_pushes_in_a_row_end_in_the_last_state() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let _daemon = Daemon::ready(&env);
    for n in 1..=100 {
        commit(&env, &[&format!("{{name: www, type: A, values: [192.0.2.{n}]}}")]);
        push(&env, &["-o", "reconciled.wait=0"]).exits(0);
    }
    commit(&env, &["{name: www, type: A, values: [192.0.2.200]}"]);
    push(&env, &[]).exits(0).says(&["infra is in sync at"]);
    assert_eq!(server.rrsets(ZONE), addresses(&[("www", "192.0.2.200")]));
    assert_eq!(env.sql("SELECT count(*) FROM event WHERE kind = 'push'"), "101");
}

#[test]
fn a_daemon_killed_during_a_push_loses_nothing() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    for n in 1..=5_u64 {
        let daemon = Daemon::ready(&env);
        let value = format!("192.0.2.{n}");
        let sha = commit(&env, &[&format!("{{name: www, type: A, values: [{value}]}}")]);
        let pushing = std::thread::scope(|scope| {
            let pushing = scope.spawn(|| push(&env, &[]));
            std::thread::park_timeout(Duration::from_millis(20 * n));
            drop(daemon);
            pushing.join().unwrap()
        });
        // Whatever it found of the daemon, the push is taken and ends with a word about that.
        let output = pushing.exits(0);
        assert!(output.all().contains("is taken") || output.all().contains("in sync at"), "{}", output.all());
        assert_eq!(tip(&env, "main"), sha);
        let _daemon = Daemon::ready(&env);
        wait_for("the record", || server.rrsets(ZONE) == addresses(&[("www", &value)]));
    }
}

#[test]
fn another_user_pushes_who_may_read_neither_configuration_nor_state() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    if !rustix_is_root() {
        eprintln!("left out: only root can become another user");
        return;
    }
    // nobody, whose group this is on Debian.
    let (uid, gid) = (65_534, 65_534);
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write(
        "config.yaml",
        &format!("{config}api: {{group: nogroup, socket: {}}}\n", env.path("api.sock").display()),
    );
    env.run(&["init", "repo.git", "--group", "nogroup"]).exits(0).says(&["given to the group"]);
    env.run(&["init", "repo.git", "--group", "nogroup"]).exits(0).says(&["is as it should be"]);
    let mode = |name: &str| fs::metadata(env.path(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("repo.git/objects") & 0o2070, 0o2070);
    fs::set_permissions(env.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(env.path("config.yaml"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(env.path("key"), fs::Permissions::from_mode(0o600)).unwrap();
    let config = env.path("config.yaml");
    let run = env.command(&["--config", config.to_str().unwrap(), "run"]);
    let _daemon = Daemon::of(run, env.path("daemon.log"));
    wait_for("a ready daemon", || is_ready(&env.path("api.sock")));

    // What Git asks of who pushes to a repository of another user.
    let (work, repo) = (env.path("work"), env.path("repo.git"));
    env.write(
        "home/.gitconfig",
        &format!("[safe]\n\tdirectory = {}\n\tdirectory = {}\n", repo.display(), work.display()),
    );
    commit(&env, &[WWW]);
    let as_nobody = |url: &str, variables: &[(&str, &str)]| {
        let mut command = git(&env, &["push", url, "HEAD:main"]);
        command.env("HOME", env.path("home")).envs(variables.iter().copied()).uid(uid).gid(gid);
        env.finish(command)
    };
    let url = format!("file://{}", repo.display());
    as_nobody(&url, &[("REMOTE_USER", "ann\u{1b}[31m@example.com")])
        .exits(0)
        .says(&["+ Zone/example.com#www/A", "in sync at"]);
    assert_eq!(server.rrsets(ZONE), addresses(&[("www", "192.0.2.1")]));
    let history = env.run(&["history", "--actor", "nobody"]).exits(0);
    history.says(&["pushed to main, by their own account ann", "@example.com"]).hides(&["\u{1b}"]);

    // Who is not let in to the daemon still pushes, without a plan.
    fs::set_permissions(env.path("api.sock"), fs::Permissions::from_mode(0o600)).unwrap();
    commit(&env, &[WWW, MAIL]);
    as_nobody(repo.to_str().unwrap(), &[]).exits(0).says(&["note: no plan", "is taken"]);
    // Both users' objects are there for both.
    env.git_in("repo.git", &["fsck", "--strict"]);
}

fn rustix_is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}

#[test]
fn init_makes_repairs_and_leaves_alone_what_is_not_its_own() {
    let env = Env::zonefile();
    fs::remove_dir_all(env.path("repo.git")).unwrap();
    env.run(&["init", "repo.git"]).exits(0).says(&["made DIR/repo.git", "source infra follows it"]);
    env.run(&["init", "other.git"]).exits(0).says(&["- {name: other, url: DIR/other.git, branch: main}"]);
    assert_eq!(env.git_in("repo.git", &["config", "receive.advertisePushOptions"]), "true");
    assert_eq!(env.git_in("repo.git", &["symbolic-ref", "HEAD"]), "refs/heads/main");
    env.run(&["init", "repo.git"]).exits(0).says(&["is as it should be"]);
    env.write("repo.git/hooks/pre-receive", "#!/bin/sh\n# mine\n");
    env.git_in("repo.git", &["config", "receive.advertisePushOptions", "false"]);
    env.run(&["init", "repo.git"])
        .exits(0)
        .says(&["hooks/pre-receive written", "receive.advertisePushOptions set to true"])
        .hides(&["post-receive"]);
    assert!(fs::read_to_string(env.path("repo.git/hooks/pre-receive.old")).unwrap().contains("# mine"));

    env.write("full/file", "mine");
    env.run(&["init", "full"]).exits(1).says(&["full is not empty; it is left alone"]);
    env.git_in(".", &["init", "-q", "--bare", "theirs.git"]);
    env.run(&["init", "theirs.git"]).exits(1).says(&["that `init` did not make", "hint:"]);
    env.run(&["init", "new.git", "--group", "no-such-group"]).exits(1).says(&["no group `no-such-group`"]);
    env.run(&["init", "new.git", "--work", "full"]).exits(1).says(&["full is not empty; nothing was made"]);
    assert!(!env.path("new.git").exists());
}

#[test]
fn init_makes_a_work_tree_whose_first_push_deploys_what_was_imported() {
    let server = Pdns::start();
    server.create(ZONE);
    server.set(ZONE, "www", "A", "192.0.2.1");
    let env = Env::pdns(&server);
    fs::remove_dir_all(env.path("repo.git")).unwrap();
    env.run(&["init", "repo.git", "--work", "desk", "--import", "pdns", ZONE]).exits(0).says(&[
        "desk/README.md written",
        "desk/example.com.yaml written",
        "git -C desk push -u origin main",
    ]);
    assert!(fs::read_to_string(env.path("desk/example.com.yaml")).unwrap().contains("192.0.2.1"));
    let _daemon = Daemon::ready(&env);
    env.git_in("desk", &["add", "-A"]);
    env.git_in("desk", &["commit", "-q", "-m", "first state"]);
    let mut command = git(&env, &["push", "-u", "origin", "main"]);
    command.current_dir(env.path("desk"));
    env.finish(command).exits(0).says(&["= Zone/example.com#www/A", "in sync at"]).hides(&[&server.key]);
    // One that has commits is cloned as it is.
    env.run(&["init", "repo.git", "--work", "desk2"]).exits(0);
    assert!(env.path("desk2/example.com.yaml").exists());
    // An example that declares nothing until it is meant.
    env.run(&["init", "empty.git", "--work", "desk3"]).exits(0);
    env.run(&["validate", "desk3"]).exits(0).says(&["no manifests found"]);
}

#[test]
fn a_daemon_killed_at_every_place_of_a_push_loses_nothing() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let socket = env.path("state/api.sock");
    let mut reached = std::collections::BTreeSet::new();
    let mut value = 0;
    for name in NAMES {
        for hit in 1..=6 {
            value += 1;
            let place = format!("{name}:{hit}");
            let mut daemon = Daemon::start_with(&env, &[(VARIABLE, &place)]);
            // Some places are met before there is a push: then a later hit is the one.
            wait_for("a daemon", || is_ready(&socket) || daemon.ended().is_some());
            let was_alive = daemon.ended().is_none();
            let address = format!("192.0.2.{value}");
            let sha = commit(&env, &[&format!("{{name: www, type: A, values: [{address}]}}")]);
            push(&env, &[]).exits(0);
            assert_eq!(tip(&env, "main"), sha, "{place}");
            let is_alive = is_ready(&socket);
            drop(daemon);
            let _daemon = Daemon::ready(&env);
            wait_for(&place, || server.rrsets(ZONE) == addresses(&[("www", &address)]));
            assert_eq!(env.sql("PRAGMA integrity_check"), "ok", "{place}");
            if was_alive && !is_alive {
                reached.insert(*name);
            }
            if was_alive {
                break;
            }
        }
    }
    let missed: Vec<_> = NAMES.iter().filter(|name| !reached.contains(*name)).collect();
    assert_eq!(missed, [&"store.migrate.after-backup"], "no push came there");
}

#[test]
fn a_push_while_the_server_is_down_is_taken_and_says_that_it_failed() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    env.write("key", "canary-of-the-key");
    // Nothing listens on the port of discard.
    env.config(&env.pdns_entry("http://127.0.0.1:9", WIDE_GUARD));
    let _daemon = Daemon::ready(&env);
    let sha = commit(&env, &[WWW]);
    push(&env, &["-o", "reconciled.wait=10s"])
        .exits(0)
        .says(&["COULD NOT BE READ", &format!("infra failed at {}", &sha[..7])])
        .hides(&["canary-of-the-key"]);
    assert_eq!(tip(&env, "main"), sha);
}

#[test]
fn a_tag_of_a_range_is_checked_and_applied_where_it_is_the_highest() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, ", ref: {semver: \"^1\"}");
    let _daemon = Daemon::ready(&env);
    let to = |refspec: &str| env.finish(git(&env, &["push", "origin", refspec]));
    commit(&env, &[WWW]);
    to("HEAD:refs/tags/v1.1.0").exits(0).says(&["is not planned", "infra is in sync at", "2 created"]);
    commit(&env, &[MAIL]);
    to("HEAD:refs/tags/v1.0.9").exits(0).says(&["nothing to change"]);
    to("HEAD:refs/tags/v2.0.0").exits(0).hides(&["remote:"]);
    commit(&env, &["{name: www, tpye: A}"]);
    to("HEAD:refs/tags/v1.2.0").exits(1).says(&["unknown field `tpye`"]);
    assert_eq!(server.rrsets(ZONE), addresses(&[("www", "192.0.2.1")]));
}

#[test]
fn two_sources_of_one_repository_are_planned_together_and_followed_each() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let repo = env.path("repo.git");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let sources = format!(
        "sources:\n  - {{name: one, url: {0}, path: one, allow: all}}\n  - {{name: two, url: {0}, path: two, allow: all}}\n",
        repo.display()
    );
    let (head, tail) = (config.split("sources:").next().unwrap(), config.split("providers:").nth(1).unwrap());
    env.write("config.yaml", &format!("{head}{sources}providers:{tail}"));
    let _daemon = Daemon::ready(&env);
    env.write("work/one/zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    env.write("work/two/zone.yaml", &zone("example.net", "pdns", &[MAIL]));
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "change"]);
    push(&env, &[]).exits(0).says(&["for source one and two", "one is in sync at", "two is in sync at"]);
    assert_eq!(server.rrsets("example.net"), addresses(&[("mail", "192.0.2.2")]));
}

#[test]
fn one_push_that_moves_two_sources_is_consented_to_by_one_line() {
    let server = Pdns::start();
    let env = desk(&server, "", "");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let repo = env.path("repo.git");
    let source = |name: &str| {
        format!("  - {{name: {name}, url: {}, branch: {name}, path: {name}, allow: all}}\n", repo.display())
    };
    let (head, tail) = (config.split("sources:").next().unwrap(), config.split("providers:").nth(1).unwrap());
    let sources = source("main") + &source("prod");
    env.write("config.yaml", &format!("{head}sources:\n{sources}providers:{tail}"));
    let _daemon = Daemon::ready(&env);
    let write = |records: &[&str]| {
        env.write("work/main/zone.yaml", &zone(ZONE, "pdns", records));
        env.write("work/prod/zone.yaml", &zone("example.net", "pdns", records));
        env.git(&["add", "-A"]);
        env.git(&["commit", "-q", "-m", "change"]);
    };
    let push = |options: &[&str]| {
        let both = ["origin", "HEAD:refs/heads/main", "HEAD:refs/heads/prod"];
        env.finish(git(&env, &[&["push"], options, &both].concat()))
    };
    write(&[WWW, MAIL, API, FTP]);
    push(&[]).exits(0).says(&["main is in sync at", "prod is in sync at"]);
    write(&[WWW]);
    let line = line_to_type(&push(&[]).exits(1));
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    assert_eq!(line.len(), 4, "{line:?}");
    push(&line).exits(0).says(&["main is in sync at", "prod is in sync at"]);
    for zone in [ZONE, "example.net"] {
        assert_eq!(server.rrsets(zone), addresses(&[("www", "192.0.2.1")]));
    }
}

#[test]
fn a_push_over_ssh_through_git_shell_is_told_the_same() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let _daemon = Daemon::ready(&env);
    let at = |name: &str| env.path(name).to_str().unwrap().to_owned();
    for key in ["host_key", "client_key"] {
        let made =
            Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &at(key)]).status();
        assert!(made.unwrap().success());
    }
    let key = fs::read_to_string(at("client_key.pub")).unwrap();
    let options =
        r#"restrict,environment="REMOTE_USER=ann",command="git-shell -c \"$SSH_ORIGINAL_COMMAND\"""#;
    env.write("authorized_keys", &format!("{options} {key}"));
    env.write(
        "sshd_config",
        &format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n\
             PermitUserEnvironment yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             PidFile none\nLogLevel ERROR\n",
            at("host_key"),
            at("authorized_keys")
        ),
    );
    // sshd insists on it when it runs as root; elsewhere it neither needs nor can have it.
    let _ = fs::create_dir_all("/run/sshd");
    let sshd = format!("/usr/sbin/sshd -i -e -f {}", at("sshd_config"));
    let ssh = format!(
        "ssh -F none -i {} -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
         -o LogLevel=ERROR -o ProxyCommand='{sshd}'",
        at("client_key")
    );
    let user = Command::new("id").arg("-un").output().unwrap().stdout;
    let user = String::from_utf8(user).unwrap();
    commit(&env, &[WWW]);
    let url = format!("ssh://{}@anywhere{}", user.trim(), at("repo.git"));
    let mut command = git(&env, &["push", &url, "HEAD:main"]);
    command.env("GIT_SSH_COMMAND", ssh);
    env.finish(command).exits(0).says(&["remote:   + Zone/example.com#www/A", "remote: infra is in sync at"]);
    assert_eq!(server.rrsets(ZONE), addresses(&[("www", "192.0.2.1")]));
    env.run(&["history"]).exits(0).says(&["pushed to main, by their own account ann"]);
}
