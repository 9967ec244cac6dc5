//! Sources that follow one repository: what a commit moves comes into force for all of them together.

use crate::{
    env::{Env, Output, WIDE_GUARD, zone},
    push::{API, MAIL, WWW, ZONE, git, push},
    running::{Daemon, wait_for},
};
use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt, process::Stdio};

/// A desk with the sources `a` and `b`, which are folders of one repository, further keys of the entry `zones`, and more lines.
fn desk(keys: &str, more: &str) -> Env {
    let env = Env::new();
    let (state, repo) = (env.path("state"), env.path("repo.git"));
    let source = |name: &str| {
        let repo = repo.display();
        format!("  - {{name: {name}, url: {repo}, path: {name}, allow: all, interval: 1h}}\n")
    };
    let entry = |name: &str, keys: &str| {
        fs::create_dir(env.path(name)).unwrap();
        let directory = env.path(name);
        format!(
            "  - {{name: {name}, type: zonefile, directory: {}, nameservers: [ns1.example.net.], {keys}}}\n",
            directory.display()
        )
    };
    let text = format!(
        "instance: it\nstateDir: {}\nsources:\n{}{}providers:\n{}{}{more}",
        state.display(),
        source("a"),
        source("b"),
        entry("zones", keys),
        entry("others", WIDE_GUARD)
    );
    env.write("config.yaml", &text);
    env
}

/// The same with a repository that is pushed to.
fn target(keys: &str, more: &str) -> Env {
    let env = desk(keys, more);
    fs::remove_dir_all(env.path("repo.git")).unwrap();
    env.run(&["init", "repo.git"]).exits(0);
    env
}

fn set(name: &str, records: &[&str]) -> String {
    format!(
        "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {{name: {name}}}\nspec:\n  zone: {ZONE}\n  ttl: 300\n  records: [{}]\n",
        records.join(", ")
    )
}

/// A zone of `a`, and a record of each source.
fn write(env: &Env) {
    env.write("work/a/zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.write("work/a/moved.yaml", &set("moved", &[MAIL]));
    env.write("work/b/stays.yaml", &set("stays", &[API]));
}

fn commit(env: &Env) {
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "change"]);
}

fn moves(env: &Env, from: &str, to: &str) {
    env.git(&["mv", &format!("{from}/moved.yaml"), &format!("{to}/moved.yaml")]);
}

/// The record that moves is there and always was, and is tracked for this source.
#[track_caller]
fn is_handed_over_to(env: &Env, source: &str) {
    assert_eq!(env.sql("SELECT substr(manifest, 1, 1) FROM inventory WHERE id LIKE 'mail.%'"), source);
    assert_eq!(env.zone_rrsets(ZONE).len(), 3, "{:?}", env.zone_rrsets(ZONE));
    env.run(&["history"]).exits(0).hides(&["delete "]);
}

#[test]
fn what_a_push_moves_from_one_source_to_another_is_handed_over() {
    let env = target(WIDE_GUARD, "");
    let _daemon = Daemon::ready(&env);
    write(&env);
    commit(&env);
    push(&env, &[]).exits(0).says(&["a is in sync at", "b is in sync at"]);
    for (from, to) in [("a", "b"), ("b", "a")] {
        moves(&env, from, to);
        commit(&env);
        push(&env, &[])
            .exits(0)
            .says(&["No changes.", "a is in sync at", "b is in sync at"])
            .hides(&["deleted", "created", "error"]);
        is_handed_over_to(&env, to);
    }
}

#[test]
fn what_a_sync_of_one_source_finds_is_looked_for_in_the_others_of_its_repository() {
    let env = desk(WIDE_GUARD, "");
    write(&env);
    env.push_all();
    let _daemon = Daemon::ready(&env);
    // Either source, asked for either way.
    for (source, from, to) in [("a", "a", "b"), ("a", "b", "a"), ("b", "a", "b"), ("b", "b", "a")] {
        moves(&env, from, to);
        env.push_all();
        env.run(&["sync", "--source", source, "--wait"]).exits(0).hides(&["deleted", "error"]);
        is_handed_over_to(&env, to);
    }
}

#[test]
fn what_leaves_a_source_stays_while_another_one_refuses_the_commit() {
    let env = desk(WIDE_GUARD, "");
    write(&env);
    let first = env.push_all();
    let _daemon = Daemon::ready(&env);
    moves(&env, "a", "b");
    env.push_all();
    env.run(&["sync", "--wait"]).exits(0);
    is_handed_over_to(&env, "b");
    env.git(&["reset", "-q", "--hard", &first]);
    env.git(&["push", "-q", "--force", "origin", "HEAD:main"]);
    let rewind = |source: &str| {
        env.run(&["sync", "--source", source, "--wait", "--timeout", "60s", "--accept-rewind", &first])
    };
    // It leaves `b`, and nobody has consented yet to what `a` declares then.
    rewind("b").says(&["note: source b deletes nothing while source a of the same repository"]);
    is_handed_over_to(&env, "b");
    let kept = "RecordSet/moved: source a of the same repository is not known to be as far";
    env.run(&["plan"]).says(&["FROZEN", kept]);
    rewind("a").exits(0).hides(&["deletes nothing"]);
    is_handed_over_to(&env, "a");
}

#[test]
fn what_leaves_a_source_stays_while_nobody_knows_what_another_branch_is_at() {
    let env = desk(WIDE_GUARD, "");
    // Both branches are of one repository, by a url that nobody answers at. That of `b` is read at a mirror.
    let away = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (repo, mirror) = (env.path("repo.git"), env.path("mirror.git"));
    let (repo, mirror) = (repo.display(), mirror.display());
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let (a, b) = (format!("name: a, url: {repo},"), format!("name: b, url: {repo},"));
    assert!(config.contains(&a) && config.contains(&b), "{config}");
    let config = config.replace(&a, &format!("name: a, url: [{repo}, 'https://{away}/repo'],"));
    let other = format!("name: b, branch: other, url: [{mirror}, 'https://{away}/repo'],");
    env.write("config.yaml", &config.replace(&b, &other));
    write(&env);
    env.push_all();
    env.git(&["clone", "-q", "--bare", &repo.to_string(), &mirror.to_string()]);
    env.git_in("mirror.git", &["branch", "other", "main"]);
    let daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait"]).exits(0);

    fs::rename(env.path("mirror.git"), env.path("moved.git")).unwrap();
    env.push_without("a/moved.yaml");
    let note = "note: source a deletes nothing while source b of the same repository";
    env.run(&["sync", "--source", "a", "--wait"]).says(&[note]);
    assert_eq!(env.zone_rrsets(ZONE).len(), 3, "{:?}", env.zone_rrsets(ZONE));
    // What is planned is what is done.
    let kept = "RecordSet/moved: source b of the same repository is not known to be as far";
    env.run(&["plan"]).says(&[note, "FROZEN", kept]);
    daemon.signal("HUP");
    wait_for("the reload", || daemon.log().contains("configuration is reloaded"));
    env.run(&["sync", "--wait"]).says(&[note]);
    assert_eq!(env.zone_rrsets(ZONE).len(), 3, "{:?}", env.zone_rrsets(ZONE));
    fs::rename(env.path("moved.git"), env.path("mirror.git")).unwrap();
    env.run(&["plan"]).hides(&[note, kept]);
    env.run(&["sync", "--wait"]).exits(0).hides(&[note]);
    assert_eq!(env.zone_rrsets(ZONE).len(), 2, "{:?}", env.zone_rrsets(ZONE));
}

/// What the hook says is held.
fn digest(output: &Output) -> String {
    let after = output.stderr.split(&format!("HELD  zones/{ZONE}  ")).nth(1).unwrap();
    after.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn what_a_push_deletes_in_several_sources_is_judged_together() {
    let env = target("guard: {maxDeletes: 5, maxDeletePercent: 100}", "hook: {onHold: accept}\n");
    let daemon = Daemon::ready(&env);
    let write = |left: usize| {
        let record = |name: &str, number: usize| {
            format!("{{name: {name}{number}, type: A, values: [192.0.2.{number}]}}")
        };
        let of = |name: &str| (1..=left).map(|number| record(name, number)).collect::<Vec<String>>();
        let (a, b) = (of("a"), of("b"));
        let a: Vec<&str> = a.iter().map(String::as_str).collect();
        let b: Vec<&str> = b.iter().map(String::as_str).collect();
        env.write("work/a/zone.yaml", &zone(ZONE, "zones", &a));
        env.write("work/b/set.yaml", &set("set", &b));
        commit(&env);
    };
    write(6);
    push(&env, &[]).exits(0).says(&["a is in sync at", "b is in sync at"]);
    // Four of each source, where either alone would go.
    write(2);
    let held = push(&env, &[]).exits(0).says(&["8 deletes, limit 5", "a is held at", "b is held at"]);
    let held = held.hides(&["deleted"]);
    let line = format!("held: zones/{ZONE}: ");
    assert_eq!(held.stderr.matches(&line).count(), 1, "told once: {}", held.stderr);
    assert_eq!(env.zone_rrsets(ZONE).len(), 12);
    // What the push was shown is what is consented to.
    env.run(&["approve", &digest(&held), "--reason", "meant"]).exits(0);
    wait_for("they are gone", || env.zone_rrsets(ZONE).len() == 4);
    daemon.stop();
}

#[test]
fn what_a_push_moves_is_followed_beside_each_other() {
    let env = target(WIDE_GUARD, "");
    let folder = env.dir.path().display();
    // The zone of `a` is written once the file `go` is there.
    env.write("check", &format!("#!/bin/sh\nwhile [ ! -e {folder}/go ]; do sleep 0.02; done\n"));
    fs::set_permissions(env.path("check"), fs::Permissions::from_mode(0o755)).unwrap();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let entry = "name: zones, type: zonefile,";
    assert!(config.contains(entry), "{config}");
    env.write("config.yaml", &config.replace(entry, &format!("{entry} check: [{folder}/check],")));
    let _daemon = Daemon::ready(&env);
    env.write("work/a/zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.write("work/b/zone.yaml", &zone("example.net", "others", &[MAIL]));
    commit(&env);
    let mut pushing = git(&env, &["push", "origin", "HEAD:main"]);
    let log = fs::File::create(env.path("push.log")).unwrap();
    let mut pushing = pushing.stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let said = || fs::read_to_string(env.path("push.log")).unwrap();
    wait_for("the end of what does not wait", || said().contains("b is in sync at"));
    assert!(!said().contains("a is in sync at"), "{}", said());
    env.write("go", "");
    assert!(pushing.wait().unwrap().success());
    assert!(said().contains("a is in sync at"), "{}", said());
}
