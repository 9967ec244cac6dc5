//! Sources that follow one repository: what a commit moves comes into force for all of them together.

use crate::{
    env::{Env, Output, WIDE_GUARD, zone},
    http::Place,
    push::{API, FTP, MAIL, WWW, ZONE, git, push},
    running::{Daemon, wait_for},
};
use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    process::{Child, Stdio},
    sync::{Arc, Mutex, MutexGuard},
};

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

/// Writes the configuration with these words in place of others.
#[track_caller]
fn configure(env: &Env, before: &str, after: &str) {
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    assert!(config.contains(before), "{before}: {config}");
    env.write("config.yaml", &config.replace(before, after));
}

/// A remote that answers nobody: shut, it keeps whoever asks waiting, and else sends them away.
struct Gate {
    url: String,
    asking: Arc<Mutex<Asking>>,
}

#[derive(Default)]
struct Asking {
    is_shut: bool,
    waiting: Vec<TcpStream>,
}

impl Gate {
    fn start() -> Gate {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/repo.git", listener.local_addr().unwrap());
        let gate = Gate { url, asking: Arc::default() };
        let asking = gate.asking.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut asking = asking.lock().unwrap();
                if asking.is_shut {
                    asking.waiting.push(stream);
                }
            }
        });
        gate
    }
    /// Has a source of a desk ask here before it asks its repository.
    fn before(&self, env: &Env, source: &str) {
        let repo = env.path("repo.git");
        let (name, repo) = (format!("name: {source}, url: "), repo.display());
        configure(env, &format!("{name}{repo},"), &format!("{name}['{}', {repo}],", self.url));
    }
    fn asking(&self) -> MutexGuard<'_, Asking> {
        self.asking.lock().unwrap()
    }
    fn shut(&self) {
        self.asking().is_shut = true;
    }
    fn open(&self) {
        *self.asking() = Asking::default();
    }
    fn is_asked(&self) -> bool {
        !self.asking().waiting.is_empty()
    }
    /// Sends away who waits.
    fn let_go(&self) {
        self.asking().waiting.clear();
    }
}

/// Runs the program beside the test.
fn beside(env: &Env, args: &[&str]) -> Child {
    let config = env.path("config.yaml");
    let mut command = env.command(&[&["--config", config.to_str().unwrap()], args].concat());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// How often a source was polled and was answered.
fn answers(env: &Env, source: &str) -> usize {
    let socket = Place::Socket(env.path("state/api.sock"));
    let text = socket.ask("GET", "/metrics", &[], b"").text();
    let name = format!("reconciled_git_polls_total{{outcome=\"answered\",source=\"{source}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&*name)?.parse().ok()).unwrap_or_default()
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
fn what_moves_into_a_file_with_an_error_stays_until_that_is_mended() {
    let good = set("moved", &[MAIL]);
    let broken = [
        good.replace("192.0.2.2", "192.0.2.300"),
        good.replace("records: [", "records: [["),
        good.replace("records: ", "recrds: "),
        good.replace("kind: RecordSet", "kind: RecordSets"),
    ];
    let note = "note: source a deletes nothing while source b of the same repository has errors";
    let in_part = "RecordSet/moved: files of source b with errors may declare it by now: b/moved.yaml";
    let refused = "RecordSet/moved: source b of the same repository is not known to be as far";
    for (on_invalid, kept) in [("partial", in_part), ("hold", refused)] {
        let env = desk(WIDE_GUARD, "");
        configure(&env, "path: b,", &format!("path: b, onInvalid: {on_invalid},"));
        write(&env);
        env.push_all();
        env.apply();
        for (number, text) in broken.iter().enumerate() {
            assert_ne!(*text, good);
            moves(&env, "a", "b");
            let address = format!("192.0.2.{}", 10 + number);
            let www = format!("{{name: www, type: A, values: [{address}]}}");
            env.write("work/a/zone.yaml", &zone(ZONE, "zones", &[&www]));
            env.push("b/moved.yaml", text);
            env.run(&["plan"]).exits(1).says(&[note, "FROZEN", kept, "0 to delete"]);
            env.run(&["apply", "--yes"]).exits(1).says(&[note]);
            let found = env.zone_rrsets(ZONE);
            assert!(found.contains_key("mail A"), "{text}: {found:?}");
            assert_eq!(found["www A"], format!("300 {address}"), "what is no deletion goes on");
            env.run(&["status"]).says(&["and source a deletes nothing meanwhile"]);

            env.push("b/moved.yaml", &good);
            env.apply().hides(&[note]);
            is_handed_over_to(&env, "b");
            moves(&env, "b", "a");
            env.push_all();
            env.apply();
            is_handed_over_to(&env, "a");
        }
    }
}

#[test]
fn a_daemon_says_for_whom_it_deletes_nothing_while_manifests_have_errors() {
    let env = desk(WIDE_GUARD, "");
    write(&env);
    env.push_all();
    let _daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait"]).exits(0);
    moves(&env, "a", "b");
    env.push("b/moved.yaml", "a: [\n");
    let note = "note: source a deletes nothing while source b of the same repository has errors";
    env.run(&["sync", "--wait"]).exits(1).says(&[note]);
    env.run(&["status"]).says(&[note, "and source a deletes nothing meanwhile"]);
    env.run(&["plan"]).exits(1).says(&[note, "FROZEN"]);
    // All else goes on, for as long as that is.
    env.push("a/more.yaml", &set("more", &[FTP]));
    env.run(&["sync", "--source", "a", "--wait"]).says(&[note]);
    let found = env.zone_rrsets(ZONE);
    assert!(found.contains_key("ftp A") && found.contains_key("mail A"), "{found:?}");
    env.push("b/moved.yaml", &set("moved", &[MAIL]));
    env.run(&["sync", "--wait"]).exits(0).hides(&[note]);
    assert_eq!(env.sql("SELECT substr(manifest, 1, 1) FROM inventory WHERE id LIKE 'mail.%'"), "b");
    env.run(&["history"]).exits(0).hides(&["delete "]);
}

#[test]
fn what_left_a_source_is_looked_for_in_another_one_that_answered_before() {
    for branch in ["main", "other"] {
        let (env, gate) = (desk(WIDE_GUARD, ""), Gate::start());
        gate.before(&env, "a");
        configure(&env, "name: b,", &format!("name: b, branch: {branch},"));
        let push_to = |branch: &str| env.git(&["push", "-q", "origin", &format!("HEAD:refs/heads/{branch}")]);
        write(&env);
        env.push_all();
        push_to(branch);
        let _daemon = Daemon::ready(&env);
        env.run(&["sync", "--wait"]).exits(0);

        gate.shut();
        let before = answers(&env, "b");
        let mut asking = beside(&env, &["sync", "--wait"]);
        wait_for("an answer of b alone", || gate.is_asked() && answers(&env, "b") > before);
        // It is in `b` before it is gone from `a`.
        moves(&env, "a", "b");
        commit(&env);
        push_to(branch);
        push_to("main");
        gate.open();
        assert!(asking.wait().unwrap().success());
        is_handed_over_to(&env, "b");
    }
}

#[test]
fn who_asks_about_a_source_is_answered_by_the_poll_after_that_whatever_others_move_to() {
    let (env, gate) = (desk(WIDE_GUARD, ""), Gate::start());
    gate.before(&env, "b");
    configure(&env, "name: b,", "name: b, branch: other,");
    write(&env);
    env.push_all();
    env.git(&["push", "-q", "origin", "HEAD:refs/heads/other"]);
    let _daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait"]).exits(0);

    gate.shut();
    let mut asking = beside(&env, &["sync", "--source", "b", "--wait", "--timeout", "60s"]);
    wait_for("b is asked", || gate.is_asked());
    let before = answers(&env, "a");
    env.push("a/more.yaml", &set("more", &[FTP]));
    let mut other = beside(&env, &["sync", "--source", "a", "--wait"]);
    wait_for("a has moved", || answers(&env, "a") > before);
    gate.let_go();
    assert!(asking.wait().unwrap().success(), "it was answered");
    // What it may have on that account is looked for all the same.
    wait_for("b is asked once more", || gate.is_asked());
    gate.open();
    assert!(other.wait().unwrap().success());
    assert!(env.zone_rrsets(ZONE).contains_key("ftp A"));
}

/// A desk whose source `a` moved, waited for `b`, and came into force alone. Before it did, its branch was rewound to the first commit, and
/// a sync of `a` began that is not answered yet.
struct Overtaken {
    _daemon: Daemon,
    asking: Child,
    gates: [Gate; 2],
    first: String,
    env: Env,
}

const NEW: &str = "{name: www, type: A, values: [192.0.2.9]}";

/// With these options of the sync, each for the first commit.
fn overtaken(consent: &[&str]) -> Overtaken {
    let (env, gates) = (desk(WIDE_GUARD, ""), [Gate::start(), Gate::start()]);
    let [a, b] = &gates;
    a.before(&env, "a");
    b.before(&env, "b");
    write(&env);
    let first = env.push_all();
    let daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait"]).exits(0);

    b.shut();
    env.push("a/zone.yaml", &zone(ZONE, "zones", &[NEW]));
    let mut moving = beside(&env, &["sync", "--source", "a"]);
    wait_for("b is asked, as a has moved", || b.is_asked());
    env.git(&["push", "-q", "--force", "origin", &format!("{first}:refs/heads/main")]);
    a.shut();
    let consent: Vec<&str> = consent.iter().flat_map(|option| [*option, first.as_str()]).collect();
    let asking =
        beside(&env, &[&["sync", "--source", "a", "--wait", "--timeout", "60s"], &consent[..]].concat());
    wait_for("a is asked", || a.is_asked());
    wait_for("what waited is in force", || env.zone_rrsets(ZONE)["www A"] == "300 192.0.2.9");
    moving.wait().unwrap();
    Overtaken { _daemon: daemon, asking, gates, first, env }
}

impl Overtaken {
    /// How the sync ends once `a` is answered.
    fn ends(&mut self) -> Option<i32> {
        for gate in self.gates.iter().rev() {
            gate.open();
        }
        self.asking.wait().unwrap().code()
    }
}

#[test]
fn a_poll_that_judged_by_what_is_in_force_no_longer_rewinds_nothing() {
    let mut desk = overtaken(&[]);
    assert_eq!(desk.ends(), Some(3), "it needs a person");
    let Overtaken { env, first, .. } = &desk;
    assert_eq!(env.zone_rrsets(ZONE)["www A"], "300 192.0.2.9");
    let wait = ["sync", "--source", "a", "--wait", "--timeout", "60s"];
    env.run(&wait).exits(3).says(&["was rewound", "--accept-rewind", first]);
    env.run(&["events"]).exits(0).hides(&["source a rewound to"]);
}

#[test]
fn consent_to_a_rewind_is_not_used_up_by_what_comes_into_force_before_it() {
    let mut desk = overtaken(&["--accept-rewind"]);
    assert_eq!(desk.ends(), Some(0));
    let Overtaken { env, first, .. } = &desk;
    assert_eq!(env.zone_rrsets(ZONE)["www A"], "300 192.0.2.1");
    env.run(&["events"]).exits(0).says(&[&format!("source a rewound to {first}")]);
}

/// Has `b` follow the branch `other` and read it at a mirror. It is of one repository with `a` by the url `away`, which nobody answers at.
fn part(env: &Env, away: &str) {
    let (repo, mirror) = (env.path("repo.git"), env.path("mirror.git"));
    let (repo, mirror) = (repo.display(), mirror.display());
    configure(env, &format!("name: a, url: {repo},"), &format!("name: a, url: [{repo}, '{away}'],"));
    let other = format!("name: b, branch: other, url: [{mirror}, '{away}'],");
    configure(env, &format!("name: b, url: {repo},"), &other);
    write(env);
    env.push_all();
    env.git(&["clone", "-q", "--bare", &repo.to_string(), &mirror.to_string()]);
    env.git_in("mirror.git", &["branch", "other", "main"]);
}

#[test]
fn what_leaves_a_source_stays_while_nobody_knows_what_another_branch_is_at() {
    let env = desk(WIDE_GUARD, "");
    let away = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    part(&env, &format!("https://{away}/repo"));
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
    // Killed, without it, and as it begins anew.
    drop(daemon);
    env.run(&["plan"]).exits(1).says(&[note, "FROZEN", kept]);
    env.run(&["apply", "--yes"]).says(&[note]);
    assert_eq!(env.zone_rrsets(ZONE).len(), 3, "{:?}", env.zone_rrsets(ZONE));
    let _daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait"]).says(&[note]);
    assert_eq!(env.zone_rrsets(ZONE).len(), 3, "{:?}", env.zone_rrsets(ZONE));
    fs::rename(env.path("moved.git"), env.path("mirror.git")).unwrap();
    env.run(&["plan"]).hides(&[note, kept]);
    env.run(&["sync", "--wait"]).exits(0).hides(&[note]);
    assert_eq!(env.zone_rrsets(ZONE).len(), 2, "{:?}", env.zone_rrsets(ZONE));
}

#[test]
fn what_left_a_source_stays_whatever_is_loaded_while_its_next_commit_waits() {
    let (env, gate) = (desk(WIDE_GUARD, ""), Gate::start());
    // Another one that is loaded with them, and has nothing to do with either.
    let third = env.path("third.git").display().to_string();
    let source = format!("  - {{name: c, url: {third}, path: c, allow: all, interval: 1h}}\n");
    configure(&env, "providers:\n", &(source + "providers:\n"));
    env.git_in(".", &["init", "-q", "--bare", "-b", "main", "third.git"]);
    env.write("work/c/zone.yaml", &zone("example.net", "others", &[WWW]));
    part(&env, &gate.url);
    env.git(&["push", "-q", &third, "HEAD:main"]);
    let _daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait"]).exits(0);

    fs::rename(env.path("mirror.git"), env.path("moved.git")).unwrap();
    env.push_without("a/moved.yaml");
    let sync = ["sync", "--source", "a", "--wait"];
    env.run(&sync).says(&["note: source a deletes nothing while source b of the same repository"]);
    let before = answers(&env, "a");
    env.run(&sync);
    assert!(answers(&env, "a") > before, "it was asked once more, and had nothing new");
    gate.shut();
    env.push("a/more.yaml", &set("more", &[FTP]));
    let mut moving = beside(&env, &sync);
    wait_for("b is asked, as a has moved", || gate.is_asked());
    env.write("work/c/zone.yaml", &zone("example.net", "others", &[MAIL]));
    commit(&env);
    env.git(&["push", "-q", &third, "HEAD:main"]);
    env.run(&["sync", "--source", "c", "--wait"]);
    let found = env.zone_rrsets(ZONE);
    assert!(found.contains_key("mail A"), "{found:?}");
    gate.open();
    moving.wait().unwrap();
    let found = env.zone_rrsets(ZONE);
    assert!(found.contains_key("mail A") && found.contains_key("ftp A"), "{found:?}");
}

#[test]
fn who_has_no_daemon_asks_once_more_for_what_moved_between_branches_meanwhile() {
    let (env, gate) = (desk(WIDE_GUARD, ""), Gate::start());
    gate.before(&env, "b");
    configure(&env, "name: b,", "name: b, branch: other,");
    let push_both = || {
        commit(&env);
        env.git(&["push", "-q", "--atomic", "origin", "HEAD:refs/heads/main", "HEAD:refs/heads/other"]);
    };
    write(&env);
    push_both();
    moves(&env, "a", "b");
    push_both();
    env.apply();
    is_handed_over_to(&env, "b");

    gate.shut();
    let mut applying = beside(&env, &["apply", "--yes"]);
    wait_for("b is asked, after a was", || gate.is_asked());
    moves(&env, "b", "a");
    push_both();
    gate.open();
    assert!(applying.wait().unwrap().success());
    is_handed_over_to(&env, "a");
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
