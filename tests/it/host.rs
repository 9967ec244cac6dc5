//! Files of a host from Git to the disk and back, with the real program.

use crate::{
    env::Env,
    running::{Daemon, wait_for},
};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

const SIGKILL: i32 = 9;

/// A manifest of a file with these keys.
fn file(name: &str, spec: &str) -> String {
    format!("apiVersion: local/v1\nkind: File\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n---\n")
}

fn read(env: &Env, path: &str) -> String {
    fs::read_to_string(env.path("machine").join(path)).unwrap()
}

/// The same of a file that may not be there.
fn read_if(env: &Env, path: &str) -> String {
    fs::read_to_string(env.path("machine").join(path)).unwrap_or_default()
}

/// Names in /etc of the machine, drafts included.
fn names(env: &Env) -> Vec<String> {
    let entries = fs::read_dir(env.path("machine/etc")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_follows_the_repository_and_drift_is_shown_line_by_line_and_healed() {
    let env = Env::host("");
    env.write("work/other.yaml", &file("other", "path: /etc/other, content: \"\""));
    env.push(
        "motd.yaml",
        &file("motd", "path: /etc/motd, content: \"one\\ntwo\\nthree\\n\", mode: \"0640\""),
    );
    env.run(&["plan"]).exits(0).says(&["+ File/motd", "mode 0640", "(14 bytes, not shown)"]);
    env.push("motd.yaml", &file("motd", "path: /etc/motd, content: \"one\\ntwo\\nthree\\n\""));
    env.run(&["plan"]).exits(0).says(&["+ File/motd", "content one … (3 lines)"]);
    env.apply();
    assert_eq!(read(&env, "etc/motd"), "one\ntwo\nthree\n");
    env.in_sync();

    env.write("machine/etc/motd", "one\n2\nthree\n");
    env.run(&["plan"]).exits(0).says(&["~ File/motd", "drift", "- 2", "+ two"]).hides(&["- one", "+ three"]);
    env.apply();
    assert_eq!(read(&env, "etc/motd"), "one\ntwo\nthree\n");
    let kept = fs::read_dir(env.path("state/originals/host/=2Fetc=2Fmotd")).unwrap();
    let kept: Vec<_> = kept.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    assert_eq!(kept, ["one\n2\nthree\n"], "what was written by hand is kept");

    env.push_without("motd.yaml");
    env.run(&["plan"]).exits(0).says(&["- File/motd"]);
    env.apply();
    assert_eq!(names(&env), ["other"]);
}

#[test]
fn a_file_of_somebody_else_is_a_conflict_until_it_is_adopted() {
    let env = Env::host("");
    env.write("machine/etc/hosts", "127.0.0.1 localhost\n");
    env.push("hosts.yaml", &file("hosts", "path: /etc/hosts, content: \"::1 localhost\\n\""));
    env.run(&["apply", "--yes"]).exits(3).says(&["it exists, differs from the manifest, and is not tracked"]);
    assert_eq!(read(&env, "etc/hosts"), "127.0.0.1 localhost\n");
    // What a folder declares is no source that `adopt` could read.
    let folder = env.path("work");
    let plan = env.run(&["plan", "--dir", folder.to_str().unwrap()]);
    plan.says(&["its manifest: reconciled/adopt: \"true\""]).hides(&["reconciled adopt"]);
    env.run(&["adopt", "File/hosts", "--yes"]).exits(0);
    env.apply();
    assert_eq!(read(&env, "etc/hosts"), "::1 localhost\n");
    assert!(env.path("state/originals/host/=2Fetc=2Fhosts").is_dir());
    env.in_sync();
}

/// A manifest of a file that comes after `dependency`.
fn file_after(name: &str, dependency: &str) -> String {
    let spec = format!("path: /etc/{name}, content: {name}");
    file(name, &spec).replace(
        &format!("{{name: {name}}}"),
        &format!("{{name: {name}, annotations: {{reconciled/depends-on: File/{dependency}}}}}"),
    )
}

#[test]
fn one_apply_does_all_that_is_not_in_conflict_however_deep_it_depends() {
    let env = Env::host("");
    env.write("machine/etc/theirs", "theirs\n");
    let chain = [
        file("a", "path: /etc/a, content: a"),
        file_after("b", "a"),
        file_after("c", "b"),
        file_after("d", "c"),
        file_after("never", "theirs"),
    ];
    env.push("all.yaml", &(file("theirs", "path: /etc/theirs, content: ours") + &chain.concat()));
    env.run(&["apply", "--yes"]).exits(3).says(&["File/theirs", "is not tracked"]);
    assert_eq!(names(&env), ["a", "b", "c", "d", "theirs"]);
}

#[test]
fn what_cannot_be_written_there_is_told_as_it_is_and_cannot_be_adopted() {
    let env = Env::host("");
    fs::create_dir(env.path("machine/etc/conf")).unwrap();
    std::os::unix::fs::symlink("conf", env.path("machine/etc/through")).unwrap();
    env.push("x.yaml", &file("x", "path: /etc/through/x, content: x"));
    let told =
        ["permission-denied", "a symbolic link is in the way", "declare the path that the link leads to"];
    env.run(&["plan"]).says(&told).hides(&["it exists", "reconciled adopt"]);
    env.run(&["apply", "--yes"]).exits(3);
    env.run(&["adopt", "File/x", "--yes"]).exits(1).says(&["a symbolic link is in the way"]);
}

#[test]
fn a_file_without_a_directory_stalls_at_once_and_is_written_once_somebody_made_that() {
    let env = Env::host("");
    env.push("x.yaml", &file("x", "path: /etc/a/b/x, content: x"));
    let told = ["there is no directory /etc/a/b", "kind: Directory, path: /etc/a/b"];
    env.run(&["plan"]).exits(3).says(&told);
    // It is not tried until the time is over, which would be another end.
    env.run(&["apply", "--yes"]).exits(3).says(&told);
    let daemon = Daemon::ready(&env);
    fs::create_dir_all(env.path("machine/etc/a/b")).unwrap();
    wait_for("it is written", || read_if(&env, "etc/a/b/x") == "x");
    daemon.stop();
    env.in_sync();
}

#[test]
fn a_process_killed_between_draft_and_rename_leaves_the_old_file_and_the_next_one_finishes() {
    let kill = "commands: {check: [sh, -c, 'kill -9 $PPID; sleep 5']}\n";
    let env = Env::host("commands: {check: ['true']}\n");
    let spec = |content: &str| file("x", &format!("path: /etc/x, validate: check, content: {content}"));
    env.push("x.yaml", &spec("old"));
    env.apply();
    env.push("x.yaml", &spec("new"));
    env.host_config(kill);
    assert_eq!(env.run(&["apply", "--yes"]).signal, Some(SIGKILL));
    assert_eq!(read(&env, "etc/x"), "old");
    assert_eq!(names(&env).len(), 2, "the draft is left: it died between the two");
    env.host_config("commands: {check: ['true']}\n");
    env.apply();
    assert_eq!((&*read(&env, "etc/x"), names(&env)), ("new", vec!["x".into()]));
    env.in_sync();
    assert_eq!(env.sql("SELECT count(*) FROM journal WHERE ended < total"), "0", "open intents");

    // The same for what is made anew: nothing is there, and nothing is somebody else's afterwards.
    env.push("y.yaml", &file("y", "path: /etc/y, validate: check, content: y"));
    env.host_config(kill);
    assert_eq!(env.run(&["apply", "--yes"]).signal, Some(SIGKILL));
    assert!(!env.path("machine/etc/y").exists());
    env.host_config("commands: {check: ['true']}\n");
    env.apply();
    assert_eq!(names(&env), ["x", "y"]);
    env.in_sync();
}

#[test]
fn a_command_that_says_no_stalls_the_file_and_nothing_else() {
    let env = Env::host("commands: {check: [grep, -q, good, '{file}']}\n");
    let bad = file("bad", "path: /etc/bad, validate: check, content: bad");
    env.push(
        "all.yaml",
        &format!("{bad}{}", file("good", "path: /etc/good, validate: check, content: good")),
    );
    env.run(&["apply", "--yes"]).exits(3).says(&["`check` refuses the new /etc/bad", "mend the content"]);
    assert_eq!(names(&env), ["good"]);
    env.push("all.yaml", &file("bad", "path: /etc/bad, validate: chekc, content: bad"));
    env.run(&["plan"]).exits(1).says(&["all.yaml:4:", "no command `chekc`", "did you mean `check`?"]);
}

#[test]
fn what_was_refused_is_planned_as_that_until_something_else_is_declared() {
    let env = Env::host("commands: {check: [grep, -q, good, '{file}']}\n");
    let declare = |content: &str| {
        env.push("x.yaml", &file("x", &format!("path: /etc/x, validate: check, content: {content}")));
    };
    let refused = ["stalled: it was refused as it is declared: ", "`check` refuses the new /etc/x"];
    declare("bad");
    env.run(&["plan"]).exits(0).hides(&["it was refused"]);
    env.run(&["apply", "--yes"]).exits(3);
    env.run(&["plan"]).exits(3).says(&refused);
    // A look that leaves it out finds nothing out about it.
    env.push("y.yaml", &file("y", "path: /etc/y, content: y"));
    env.run(&["apply", "--yes", "--target", "File/y"]).exits(0);
    env.run(&["plan"]).exits(3).says(&refused).says(&["mend the content"]);
    env.run(&["explain", "File/x"]).says(&["File/x is stalled (invalid)", "planned    create"]);
    declare("worse");
    env.run(&["plan"]).exits(0).says(&["+ File/x"]).hides(&["it was refused"]);
    env.run(&["apply", "--yes"]).exits(3);
    env.run(&["plan", "-o", "json"]).exits(3).says(&["it was refused as it is declared"]);
    declare("good");
    env.apply();
    assert_eq!(read(&env, "etc/x"), "good");
    env.in_sync();
}

#[test]
fn what_nobody_declares_in_a_purged_directory_goes_with_consent() {
    let env = Env::host("");
    env.write("machine/etc/conf.d/stray", "s");
    env.write("machine/etc/outside", "o");
    let directory = "apiVersion: local/v1\nkind: Directory\nmetadata: {name: d}\nspec: {path: /etc/conf.d, purge: true}\n---\n";
    let ours = file("ours", "path: /etc/conf.d/ours, content: x");
    env.push("all.yaml", &format!("{directory}{ours}"));
    let held = env.run(&["apply", "--yes"]).exits(3).says(&["/etc/conf.d/stray", "foreign-delete"]);
    assert!(env.path("machine/etc/conf.d/stray").exists());
    let line =
        held.stdout.lines().chain(held.stderr.lines()).find(|line| line.contains("reconciled approve "));
    let digest = line.unwrap().split("approve ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    env.run(&["approve", &digest, "--reason", "ours alone"]).exits(0);
    env.apply();
    assert!(!env.path("machine/etc/conf.d/stray").exists() && env.path("machine/etc/conf.d/ours").exists());
    assert_eq!(names(&env), ["conf.d", "outside"]);
    env.in_sync();
}

#[test]
fn content_from_the_host_s_secrets_reaches_the_file_and_nothing_else() {
    let canary = "canary-93b1";
    let env = Env::host("secrets: {db: {file: SECRET, kinds: [local/File]}}\n");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("secret", canary);
    env.write("config.yaml", &config.replace("SECRET", env.path("secret").to_str().unwrap()));
    let spec = "path: /etc/db.key, content: {secret: db}, mode: \"0644\"";
    env.push("key.yaml", &file("key", spec));
    let mut said = env.run(&["plan"]).exits(0).says(&["(secret db)"]).all();
    said += &env.apply().all();
    assert_eq!(read(&env, "etc/db.key"), canary);
    env.in_sync();
    // Rotated, drifted, and no longer declared.
    env.write("secret", "canary-rotated");
    said += &env.run(&["plan", "-o", "json"]).exits(0).says(&["input"]).all();
    said += &env.apply().all();
    assert_eq!(read(&env, "etc/db.key"), "canary-rotated");
    env.write("machine/etc/db.key", "canary-by-hand");
    said += &env.run(&["plan"]).exits(0).says(&["drift"]).all();
    said += &env.run(&["explain", "File/key"]).all();
    // The file is readable by everybody, and its manifest does not hold what is in it.
    env.write("machine/etc/motd", "hello\n");
    said += &env.run(&["import", "host", "/etc"]).exits(0).says(&["/etc/motd", "hello"]).all();
    env.push_without("key.yaml");
    said += &env.run(&["plan", "-o", "json"]).exits(3).all();
    assert!(!said.contains("canary"), "{said}");
    let state = fs::read(env.path("state/state.db")).unwrap();
    assert!(!state.windows(6).any(|bytes| bytes == b"canary"), "a secret is in the database");
}

#[test]
fn a_daemon_writes_a_rotated_secret_when_it_is_asked_to_and_when_it_would_write_the_old_one() {
    let env = Env::host("secrets: {db: {file: SECRET}}\n");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("secret", "one");
    env.write("config.yaml", &config.replace("SECRET", env.path("secret").to_str().unwrap()));
    env.push("key.yaml", &file("key", "path: /etc/db.key, content: {secret: db}"));
    let _daemon = Daemon::ready(&env);
    wait_for("it is written", || read_if(&env, "etc/db.key") == "one");
    for (rotated, words) in [("two", &["sync", "--wait"][..]), ("three", &["sync", "File/key", "--wait"])] {
        env.write("secret", rotated);
        env.run(words).exits(0).says(&["in sync"]);
        assert_eq!(read(&env, "etc/db.key"), rotated);
    }
    // Nobody asks: the pass that heals is refused the old one, and is the reason to look.
    env.write("secret", "four");
    fs::remove_file(env.path("machine/etc/db.key")).unwrap();
    wait_for("it is written anew", || read_if(&env, "etc/db.key") == "four");
    // A plan shows what can be consented to.
    env.write("secret", "five");
    env.run(&["plan"]).exits(0);
    wait_for("what was planned is done", || read_if(&env, "etc/db.key") == "five");
}

#[test]
fn a_file_that_the_mirror_has_no_longer_is_had_again_before_anything_is_made_of_it() {
    let env = Env::host("secrets: {db: {file: SECRET}}\n");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let config = config.replace("SECRET", env.path("secret").to_str().unwrap());
    env.write("config.yaml", &config.replace("repo.git}", "repo.git, interval: 1s}"));
    env.write("secret", "one");
    env.push("key.yaml", &file("key", "path: /etc/db.key, content: {secret: db}"));
    let daemon = Daemon::ready(&env);
    wait_for("it is written", || read_if(&env, "etc/db.key") == "one");
    // A poll asks for the commit and its root alone: only who reads that file can find that it is gone.
    let mut found = fs::read_dir(env.path("state/git")).unwrap().map(|entry| entry.unwrap().path());
    let mirror = found.find(|path| path.extension().is_some_and(|end| end == "git")).unwrap();
    let git = |arguments: &[&str], input: Stdio| {
        let mut command = Command::new("git");
        command.args(["-c", "safe.directory=*", "-C"]).arg(&mirror).args(arguments);
        let output = command.stdin(input).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let blob = git(&["rev-parse", "HEAD:key.yaml"], Stdio::null());
    fs::rename(mirror.join("objects/pack"), env.path("packs")).unwrap();
    let packs = fs::read_dir(env.path("packs")).unwrap().map(|entry| entry.unwrap().path());
    for pack in packs.filter(|path| path.extension().is_some_and(|end| end == "pack")) {
        git(&["unpack-objects", "-q"], fs::File::open(pack).unwrap().into());
    }
    let loose = mirror.join("objects").join(&blob[..2]).join(&blob[2..]);
    fs::remove_file(&loose).unwrap();
    fs::write(&loose, "no object").unwrap();
    env.write("secret", "two");
    wait_for("it is written anew", || read_if(&env, "etc/db.key") == "two");
    let log = daemon.log();
    assert!(log.contains("revision cannot come into force") && !log.contains("panicked"), "{log}");
}

#[test]
fn a_daemon_puts_back_what_changes_when_it_changes_and_its_own_writes_wake_it_in_vain() {
    let env = Env::host("");
    // One file for each: of one that is changed again and again, only the first repairs are made.
    let all = ["a", "b", "c", "d", "e", "f"];
    let spec = |name: &&str| file(name, &format!("path: /etc/{name}, content: {name}"));
    env.push("all.yaml", &all.iter().map(spec).collect::<String>());
    let daemon = Daemon::ready(&env);
    let at = |name: &str| env.path(&format!("machine/etc/{name}"));
    let is_back = |name: &str| {
        let metadata = fs::symlink_metadata(at(name));
        let is_ours = metadata.is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o777 == 0o644);
        is_ours && fs::read_to_string(at(name)).is_ok_and(|text| text == name)
    };
    let writes = || env.sql("SELECT count(*) FROM journal").parse::<u32>().unwrap();
    let before = writes();
    // Nothing but a hint can be in time: the next look by the clock is ten minutes away.
    env.write("machine/etc/a", "by hand");
    fs::remove_file(at("b")).unwrap();
    fs::set_permissions(at("c"), fs::Permissions::from_mode(0o666)).unwrap();
    // As editors save: beside it, and renamed.
    env.write("machine/etc/.d.swp", "saved");
    fs::rename(at(".d.swp"), at("d")).unwrap();
    fs::remove_file(at("e")).unwrap();
    std::os::unix::fs::symlink("/nowhere", at("e")).unwrap();
    for name in all {
        wait_for("it is put back", || is_back(name));
    }
    let healed = writes();
    // What was removed and made again, or written in two steps, may be seen in between.
    assert!((5..=7).contains(&(healed - before)), "{before}, then {healed}: {}", daemon.log());
    // All at once: a file that is seen while it is being written is planned twice.
    env.write("machine/etc/.f.swp", "saved");
    fs::rename(at(".f.swp"), at("f")).unwrap();
    wait_for("it is put back", || is_back("f"));
    env.write("machine/etc/foreign", "nobody's");
    env.run(&["sync", "--wait"]).exits(0);
    assert_eq!(writes(), healed + 1, "{}", daemon.log());
    daemon.stop();
}

#[test]
fn a_file_stays_as_a_person_changed_it_where_its_manifest_or_an_operator_says_so() {
    let env = Env::host("");
    let spec = |(name, drift): (&str, &str)| {
        let with = format!("metadata: {{name: {name}, annotations: {{reconciled/drift: {drift}}}}}");
        let plain = format!("metadata: {{name: {name}}}");
        file(name, &format!("path: /etc/{name}, content: ours")).replace(&plain, &with)
    };
    let all = [("warned", "warn"), ("left", "ignore"), ("suspended", "heal"), ("healed", "heal")];
    env.push("all.yaml", &all.map(spec).concat());
    let daemon = Daemon::ready(&env);
    env.run(&["suspend", "File/suspended", "--for", "1h", "--reason", "a test"]).exits(0);
    for (name, _) in all {
        env.write(&format!("machine/etc/{name}"), "theirs");
    }
    wait_for("the last one is put back", || read(&env, "etc/healed") == "ours");
    env.run(&["sync", "--wait"]).exits(3);
    for name in ["warned", "left", "suspended"] {
        assert_eq!(read(&env, &format!("etc/{name}")), "theirs", "{name}: {}", daemon.log());
    }
    let said = env.run(&["status"]).exits(0).says(&["DRIFTED (2)", "File/warned", "File/suspended"]);
    said.hides(&["File/left"]);
    env.run(&["resume", "File/suspended"]).exits(0);
    wait_for("a person said so", || read(&env, "etc/suspended") == "ours");
    assert_eq!((read(&env, "etc/warned"), read(&env, "etc/left")), ("theirs".into(), "theirs".into()));
    daemon.stop();
}

#[test]
fn of_two_that_keep_writing_one_file_this_one_stops_says_so_and_keeps_the_others() {
    let env = Env::host("");
    let spec = |name: &str| file(name, &format!("path: /etc/{name}, content: ours"));
    env.push("all.yaml", &(spec("a") + &spec("b")));
    let daemon = Daemon::ready(&env);
    let told = ["somebody else keeps changing it", "`theirs`", "`ours`", "reconciled sync File/a"];
    wait_for("it gives up and shows both", || {
        // The other manager puts its own back whenever it sees ours.
        if read(&env, "etc/a") == "ours" {
            env.write("machine/etc/a", "theirs");
        }
        let said = env.run(&["status", "--exit-code"]).stdout;
        told.iter().all(|text| said.contains(text))
    });
    assert_eq!(read(&env, "etc/a"), "theirs");
    env.write("machine/etc/b", "theirs");
    wait_for("the other is put back", || read(&env, "etc/b") == "ours");
    assert_eq!(read(&env, "etc/a"), "theirs");
    // A person, or another revision, begins anew.
    env.run(&["sync", "File/a", "--wait"]).exits(0);
    assert_eq!(read(&env, "etc/a"), "ours");
    daemon.stop();
}

#[test]
fn a_file_of_the_repository_is_read_from_the_same_commit() {
    let env = Env::host("");
    env.write("work/files/page.html", "<p>${HOME} ${vars.x}</p>\n");
    env.push("page.yaml", &file("page", "path: /etc/page.html, from: files/page.html"));
    env.apply();
    assert_eq!(read(&env, "etc/page.html"), "<p>${HOME} ${vars.x}</p>\n");
    env.push("files/page.html", "<p>new</p>\n");
    env.run(&["plan"]).exits(0).says(&["~ File/page", "commit"]);
    env.apply();
    assert_eq!(read(&env, "etc/page.html"), "<p>new</p>\n");
    env.push("page.yaml", &file("page", "path: /etc/page.html, from: files/nope.html"));
    env.run(&["plan"]).exits(1).says(&["there is no file `files/nope.html` in the repository"]);
}

#[test]
fn what_is_there_can_be_imported_and_then_nothing_is_to_be_done() {
    let env = Env::host("");
    env.write("machine/etc/app/app.conf", "listen = 80\n");
    env.write("machine/etc/app/key", "canary");
    fs::set_permissions(env.path("machine/etc/app/key"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(env.path("machine"), fs::Permissions::from_mode(0o755)).unwrap();
    let imported = env.run(&["import", "host", "/etc/app"]).exits(0).says(&["app.conf"]).hides(&["canary"]);
    env.push("app.yaml", &imported.stdout);
    env.run(&["plan"]).exits(0).says(&["= Directory/etc-app", "= File/etc-app-app-conf"]);
    env.apply();
    env.in_sync();
}
