//! `git push` as the deploy button: a real Git, the real hooks, the real daemon, a real PowerDNS.

use crate::{
    env::{Env, Output, WIDE_GUARD, is_root, rrsets, zone},
    pdns::Pdns,
    running::{Daemon, is_ready, wait_for},
};
use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::{Command, Stdio},
};

pub(crate) const ZONE: &str = "example.com";
pub(crate) const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
pub(crate) const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";
pub(crate) const API: &str = "{name: api, type: A, values: [192.0.2.3]}";
pub(crate) const FTP: &str = "{name: ftp, type: A, values: [192.0.2.4]}";

/// A desk whose repository is a push target, with further keys of the pdns entry and of the source.
pub(crate) fn desk(server: &Pdns, entry: &str, source: &str) -> Env {
    let env = Env::new();
    env.write("key", &server.key);
    env.config_with("it", &env.pdns_entry(&server.url, entry), source);
    fs::remove_dir_all(env.path("repo.git")).unwrap();
    env.run(&["init", "repo.git"]).exits(0);
    env
}

/// Git in the working copy, with nothing of this machine's configuration.
pub(crate) fn git(env: &Env, args: &[&str]) -> Command {
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

pub(crate) fn push(env: &Env, options: &[&str]) -> Output {
    env.finish(git(env, &[&["push"], options, &["origin", "HEAD:main"]].concat()))
}

/// Commits these records of the zone.
pub(crate) fn commit(env: &Env, records: &[&str]) -> String {
    env.write("work/zone.yaml", &zone(ZONE, "pdns", records));
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "change"]);
    env.git(&["rev-parse", "HEAD"])
}

/// The tip of a branch of the repository; empty where there is none.
pub(crate) fn tip(env: &Env, branch: &str) -> String {
    env.git_in("repo.git", &["for-each-ref", "--format=%(objectname)", &format!("refs/heads/{branch}")])
}

pub(crate) fn addresses(names: &[(&str, &str)]) -> crate::pdns::Rrsets {
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
fn a_push_sends_what_is_not_as_in_force_and_its_plan_is_of_all_the_same() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let log = "reconciled::operation=debug";
    let daemon = Daemon::start_with(&env, &[("RECONCILED_LOG", log)]);
    wait_for("the daemon", || is_ready(&env.path("state/api.sock")));
    let more = |name: &str, record: &str| {
        env.write(
            &format!("work/{name}.yaml"),
            &format!("apiVersion: dns/v1\nkind: RecordSet\nmetadata: {{name: {name}}}\nspec: {{zone: {ZONE}, records: [{record}]}}\n"),
        );
    };
    more("one", MAIL);
    more("two", API);
    commit(&env, &[WWW]);
    push(&env, &[]).exits(0).says(&["remote: Plan: 4 to create"]);
    assert!(daemon.log().contains("files=3 same=0"), "{}", daemon.log());

    // One that stays, one that has another name, one that is gone, one that changed.
    env.git(&["mv", "one.yaml", "moved.yaml"]);
    env.git(&["rm", "-q", "two.yaml"]);
    commit(&env, &["{name: www, type: A, values: [192.0.2.9]}"]);
    push(&env, &[]).exits(0).says(&["remote: Plan: 0 to create, 1 to update, 1 to delete"]);
    assert!(daemon.log().contains("files=2 same=0"), "{}", daemon.log());
    more("two", API);
    commit(&env, &["{name: www, type: A, values: [192.0.2.9]}"]);
    push(&env, &[]).exits(0).says(&["remote: Plan: 1 to create, 0 to update, 0 to delete"]);
    assert!(daemon.log().contains("files=1 same=2"), "{}", daemon.log());
    let expect = addresses(&[("www", "192.0.2.9"), ("mail", "192.0.2.2"), ("api", "192.0.2.3")]);
    assert_eq!(server.rrsets(ZONE), expect);
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
    // What everybody can tell and what only the daemon knows is told at once.
    env.write("work/zone.yaml", &zone(ZONE, "pdsn", &["{name: www, type: A, values: [999.1.1.1]}"]));
    env.git(&["commit", "-q", "-a", "-m", "twice wrong"]);
    push(&env, &[]).exits(1).says(&["999.1.1.1", "provider `pdsn`", "did you mean `pdns`?"]);
    // A link is refused by name, as everywhere.
    commit(&env, &[WWW]);
    std::os::unix::fs::symlink("/etc/passwd", env.path("work/evil.yaml")).unwrap();
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "link"]);
    push(&env, &[])
        .exits(1)
        .says(&["evil.yaml", "symbolic links are not followed"])
        .hides(&["root:", "it cannot be read"]);
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

#[test]
fn hooks_find_the_daemon_wherever_its_configuration_was_named_from() {
    let env = Env::zonefile();
    fs::remove_dir_all(env.path("repo.git")).unwrap();
    let entry = "{name: zones, type: zonefile, directory: ./zones, nameservers: [ns1.example.net.]}";
    let sources = "sources: [{name: infra, url: ./repo.git}]";
    let config = format!("instance: it\nstateDir: ./state\n{sources}\nproviders: [{entry}]\n");
    env.write("config.yaml", &config);
    let from = |folder: &str, config: &str, args: &[&str]| {
        let mut command = env.command(&[&["--config", config], args].concat());
        command.current_dir(env.path(folder));
        command
    };
    env.finish(from(".", "config.yaml", &["init", "repo.git"])).exits(0).says(&["source infra follows it"]);
    let socket = fs::canonicalize(env.dir.path()).unwrap().join("state/api.sock");
    let hook = fs::read_to_string(env.path("repo.git/hooks/pre-receive")).unwrap();
    assert!(hook.contains(&format!("--socket '{}'", socket.display())), "{hook}");
    let _daemon = Daemon::of(from("zones", "../config.yaml", &["run", "-v"]), env.path("daemon.log"));
    wait_for("a ready daemon", || is_ready(&socket));
    let push_these = |records: &[&str]| {
        env.write("work/zone.yaml", &zone(ZONE, "zones", records));
        env.git(&["add", "-A"]);
        env.git(&["commit", "-q", "-m", "change"]);
        push(&env, &[])
    };
    push_these(&[WWW, MAIL, API, FTP]).exits(0).hides(&["does not answer"]);
    assert!(env.path("zones/example.com.zone").exists(), "`directory` is beside the configuration");
    push_these(&[WWW]).exits(1).says(&["HELD  zones/example.com"]);
    env.finish(from("work", "../config.yaml", &["status"])).says(&["using daemon at"]);
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
    // Colours steer the terminal, and are no text of the plan.
    push(&env, &["-o", "reconciled.plan", "-o", "reconciled.color=always"])
        .exits(1)
        .says(&["[1mpdns/example.com"])
        .hides(&["u{1b}"]);
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
fn a_push_to_a_repository_that_took_the_place_of_another_is_a_rewind() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let _daemon = Daemon::ready(&env);
    let first = commit(&env, &[WWW]);
    push(&env, &[]).exits(0);
    fs::remove_dir_all(env.path("repo.git")).unwrap();
    env.run(&["init", "repo.git"]).exits(0);
    env.git(&["update-ref", "-d", "HEAD"]);
    let other = commit(&env, &[MAIL]);
    let line = format!("reconciled.accept-rewind={}", &other[..7]);
    let gone = format!("does not descend from {}, which is in force and not in this repository", &first[..7]);
    push(&env, &[]).exits(1).says(&[&gone, &format!("git push --force -o {line}")]).hides(&["git pull"]);
    assert_eq!((tip(&env, "main"), server.rrsets(ZONE)), (String::new(), addresses(&[("www", "192.0.2.1")])));
    push(&env, &["--force", "-o", &line]).exits(0).says(&["is rewound to", "in sync at"]);
    assert_eq!((tip(&env, "main"), server.rrsets(ZONE)), (other, addresses(&[("mail", "192.0.2.2")])));
}

#[test]
fn another_user_pushes_who_may_read_neither_configuration_nor_state() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    if !is_root() {
        return;
    }
    // nobody, whose group this is on Debian.
    let (uid, gid) = (65_534, 65_534);
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write(
        "config.yaml",
        &format!("{config}api: {{group: nogroup, socket: {}}}\n", env.path("api.sock").display()),
    );
    // As one that is shared from the beginning has it.
    env.git_in("repo.git", &["config", "receive.denyNonFastForwards", "true"]);
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

    // A shared repository is made so that Git refuses a rewind before anybody could consent to it.
    let first = env.git(&["rev-parse", "HEAD"]);
    commit(&env, &[WWW, API]);
    as_nobody(&url, &[]).exits(0);
    env.git(&["reset", "-q", "--hard", &first]);
    let mut command = git(
        &env,
        &["push", "--force", "-o", &format!("reconciled.accept-rewind={first}"), &url, "HEAD:main"],
    );
    command.env("HOME", env.path("home")).uid(uid).gid(gid);
    env.finish(command).exits(0).says(&["is rewound to", "1 deleted", "in sync at"]);

    // Who is not let in to the daemon still pushes, without a plan.
    fs::set_permissions(env.path("api.sock"), fs::Permissions::from_mode(0o600)).unwrap();
    commit(&env, &[WWW, MAIL]);
    as_nobody(repo.to_str().unwrap(), &[]).exits(0).says(&["note: no plan", "is taken"]);
    // Both users' objects are there for both.
    env.git_in("repo.git", &["fsck", "--strict"]);
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
fn a_tag_of_a_range_is_checked_and_applied_where_it_is_the_highest() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, ", ref: {semver: \"^1\"}");
    let _daemon = Daemon::ready(&env);
    let to = |refspec: &str| env.finish(git(&env, &["push", "origin", refspec]));
    let highest = commit(&env, &[WWW])[..7].to_owned();
    to("HEAD:refs/tags/v1.1.0").exits(0).says(&["is not planned", "infra is in sync at", "2 created"]);
    let lower = commit(&env, &[MAIL, API])[..7].to_owned();
    to("HEAD:refs/tags/v1.0.9")
        .exits(0)
        .says(&[
            &format!("v1.0.9 is taken; infra is at {highest}"),
            &format!("infra is in sync at {highest}: nothing to change"),
        ])
        .hides(&[&format!("in sync at {lower}")]);
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
