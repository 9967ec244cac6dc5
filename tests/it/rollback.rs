//! Going back to an earlier revision, and on again.

use crate::{
    env::{Env, Output, WIDE_GUARD, rrsets, zone},
    pdns::Pdns,
    running::{Daemon, wait_for},
    shared::{other_source, push_other},
    terraform::{desk, state, thing, things, toy},
};
use std::fs;

const ZONE: &str = "example.com";

fn zone_of(www: &str, mail: &str) -> String {
    let record = |name: &str, value: &str| format!("{{name: {name}, type: A, values: [{value}]}}");
    zone(ZONE, "pdns", &[&record("www", www), &record("mail", mail)])
}

fn served(server: &Pdns, www: &str, mail: &str) -> bool {
    let (www, mail) = (format!("300 {www}"), format!("300 {mail}"));
    server.rrsets(ZONE) == rrsets(&[("www A", &www), ("mail A", &mail)])
}

fn sync(env: &Env) -> Output {
    env.run(&["sync", "--wait", "--timeout", "60s"])
}

#[test]
fn what_is_rolled_back_stays_there_until_a_commit_changes_it_and_the_rest_goes_on() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    let first = env.push("zone.yaml", &zone_of("192.0.2.1", "192.0.2.2"));
    let daemon = Daemon::start(&env);
    sync(&env).exits(0);
    env.push("zone.yaml", &zone_of("192.0.2.11", "192.0.2.12"));
    sync(&env).exits(0);
    assert!(served(&server, "192.0.2.11", "192.0.2.12"));

    let back = ["rollback", first.trim(), "--target", "Zone/example.com#www/A", "--reason", "it is down"];
    env.run(&back).exits(0).says(&[
        "Zone/example.com#www/A is kept at",
        "hint: to let it go on",
        "1 updated",
    ]);
    assert!(served(&server, "192.0.2.1", "192.0.2.12"), "{:?}", server.rrsets(ZONE));
    env.run(&["status"]).exits(0).says(&["ROLLED BACK (1)", "Zone/example.com#www/A", "it is down"]);
    env.run(&["plan", "--detailed-exitcode"]).exits(0).says(&["kept at", "it is down"]);
    env.run(&["explain", "Zone/example.com#www/A"]).exits(0).says(&[
        "is rolled back to",
        "it is down",
        &format!("of source infra at {}", first.trim()),
        &format!("from zone.yaml at {}", &first.trim()[..7]),
        "hint: to let it go on: reconciled resume Zone/example.com#www/A",
    ]);
    env.run(&["explain", "Zone/example.com#mail/A"]).exits(0).hides(&["rolled back"]);

    // The other goes on with newer commits; a restart changes nothing.
    env.push("zone.yaml", &zone_of("192.0.2.11", "192.0.2.22"));
    sync(&env).exits(0);
    assert!(served(&server, "192.0.2.1", "192.0.2.22"));
    daemon.stop();
    let daemon = Daemon::ready(&env);
    sync(&env).exits(0);
    assert!(served(&server, "192.0.2.1", "192.0.2.22"));
    let log = daemon.log();
    assert_eq!(log.matches("1 resource is kept at").count(), 1, "{log}");
    assert!(!log.contains("manifest problem"), "{log}");
    server.set(ZONE, "www", "A", "192.0.2.11");
    sync(&env).exits(0);
    assert!(served(&server, "192.0.2.1", "192.0.2.22"), "drift is healed to what it is kept at");

    // A commit that changes it is the end of that.
    env.push("zone.yaml", &zone_of("192.0.2.31", "192.0.2.22"));
    sync(&env).exits(0);
    assert!(served(&server, "192.0.2.31", "192.0.2.22"));
    env.run(&["status"]).exits(0).hides(&["ROLLED BACK"]);
    env.run(&["history"]).exits(0).says(&["rollback", "it is down", "a commit changed it"]);
    daemon.stop();
    env.in_sync();
}

#[test]
fn what_is_rolled_back_is_found_at_the_address_that_a_commit_moved_it_to() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    let first = env.push("zone.yaml", &zone_of("192.0.2.1", "192.0.2.2"));
    let daemon = Daemon::start(&env);
    sync(&env).exits(0);
    env.push("zone.yaml", &zone_of("192.0.2.11", "192.0.2.2"));
    sync(&env).exits(0);
    let back = ["rollback", first.trim(), "--target", "Zone/example.com#www/A", "--reason", "it is down"];
    env.run(&back).exits(0);
    let moved = "---\napiVersion: dns/v1\nkind: RecordSet\nmetadata: {name: web}\nspec: {zone: example.com, records: [{name: www, type: A, values: [192.0.2.11]}]}\n";
    let rest = zone(ZONE, "pdns", &["{name: mail, type: A, values: [192.0.2.2]}"]);
    env.push("zone.yaml", &format!("{rest}{moved}"));
    sync(&env).exits(0);
    assert!(served(&server, "192.0.2.1", "192.0.2.2"), "the same is declared, elsewhere");

    for address in ["RecordSet/web", "RecordSet/web#www/A"] {
        env.run(&["explain", address]).exits(0).says(&[
            "Zone/example.com#www/A is rolled back to",
            &format!("of source infra at {}", first.trim()),
            "hint: to let it go on: reconciled resume Zone/example.com#www/A",
        ]);
        env.run(&["status", address]).exits(0).says(&["ROLLED BACK (1)", "Zone/example.com#www/A"]);
        env.run(&["sync", address, "--wait", "--timeout", "60s"]).exits(0).hides(&["warning"]);
    }
    env.run(&["explain", "RecordSet/other"]).exits(1);
    env.run(&["resume", "RecordSet/web#www/A"]).exits(0).says(&["is no longer kept at"]);
    wait_for("it goes on", || served(&server, "192.0.2.11", "192.0.2.2"));
    daemon.stop();
    env.in_sync();
}

#[test]
fn a_rollback_ends_with_resume_and_with_its_time() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    let first = env.push("zone.yaml", &zone_of("192.0.2.1", "192.0.2.2"));
    let daemon = Daemon::start(&env);
    sync(&env).exits(0);
    env.push("zone.yaml", &zone(ZONE, "pdns", &["{name: mail, type: A, values: [192.0.2.12]}"]));
    sync(&env).exits(0);
    assert_eq!(server.rrsets(ZONE), rrsets(&[("mail A", "300 192.0.2.12")]));

    // All that differs: what a later commit removed comes back.
    env.run(&["rollback", first.trim(), "--reason", "all of it"]).exits(0).says(&["1 created", "1 updated"]);
    assert!(served(&server, "192.0.2.1", "192.0.2.2"));
    env.run(&["rollback", first.trim(), "--reason", "again", "--target", "Zone/nowhere"])
        .exits(1)
        .says(&["nothing of what is meant", "reconciled plan --source infra --rev"]);
    env.run(&["resume", "Zone/example.com#www/A"]).exits(0).says(&["is no longer kept at"]);
    wait_for("www is deleted again", || server.rrsets(ZONE) == rrsets(&[("mail A", "300 192.0.2.2")]));
    env.run(&["resume", "--all"]).exits(0).says(&["mail/A is no longer kept at"]);
    wait_for("mail goes on", || server.rrsets(ZONE) == rrsets(&[("mail A", "300 192.0.2.12")]));
    env.run(&["resume", "--all"]).exits(1).says(&["and no rollback"]);

    let back = ["rollback", first.trim(), "--reason", "a moment", "--for", "1s", "--target", "*/*#mail/A"];
    env.run(&back).exits(0).says(&["is kept at", "until"]);
    wait_for("its time is over", || server.rrsets(ZONE) == rrsets(&[("mail A", "300 192.0.2.12")]));
    wait_for("it is said so", || env.run(&["history"]).all().contains("its time is over"));
    daemon.stop();
    env.in_sync();
}

#[test]
fn what_was_rolled_back_while_it_was_suspended_stays_so_when_that_is_over() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    let first = env.push("zone.yaml", &zone_of("192.0.2.1", "192.0.2.2"));
    let daemon = Daemon::start(&env);
    sync(&env).exits(0);
    env.push("zone.yaml", &zone_of("192.0.2.11", "192.0.2.2"));
    sync(&env).exits(0);
    env.run(&["suspend", "--all", "--reason", "x", "--for", "3000000d"]).exits(1).says(&["ten years"]);
    env.run(&["suspend", "--all", "--reason", "it is down"]).exits(0);
    env.run(&["rollback", first.trim(), "--reason", "to what was good"]).exits(3).says(&["is kept at"]);
    env.run(&["resume", "--all"]).exits(0).hides(&["no longer kept"]).says(&[
        "--all goes on",
        "still rolled back: Zone/example.com#www/A is kept at",
        "hint: to end that too: reconciled resume --all",
    ]);
    sync(&env).exits(0);
    assert!(served(&server, "192.0.2.1", "192.0.2.2"), "{:?}", server.rrsets(ZONE));
    env.run(&["resume", "--all"]).exits(0).says(&["www/A is no longer kept at"]);
    wait_for("it goes on", || served(&server, "192.0.2.11", "192.0.2.2"));
    daemon.stop();
    env.in_sync();
}

#[test]
fn what_another_source_has_by_now_is_not_kept_and_that_is_said() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    let first = env.push("zone.yaml", &zone_of("192.0.2.1", "192.0.2.2"));
    other_source(&env);
    push_other(&env, "# nothing yet\n");
    env.apply();
    env.push("zone.yaml", &zone(ZONE, "pdns", &["{name: mail, type: A, values: [192.0.2.12]}"]));
    let set = "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {name: more}\nspec:\n  zone: example.com\n  records:\n    \
               - {name: www, type: A, values: [192.0.2.11]}\n";
    push_other(&env, set);
    env.apply();
    assert!(served(&server, "192.0.2.11", "192.0.2.12"), "{:?}", server.rrsets(ZONE));
    let rollback = |target: &[&str]| {
        let words = ["rollback", first.trim(), "--source", "infra", "--reason", "it is down"];
        env.run(&[&words, target].concat())
    };
    rollback(&["--target", "*/*#www/A"])
        .exits(1)
        .says(&["Zone/example.com#www/A of source other is not kept", "hint:"]);
    rollback(&[]).exits(0).says(&[
        "Zone/example.com#mail/A is kept at",
        "warning: Zone/example.com#www/A of source other is not kept",
    ]);
    env.run(&["resume", "Zone/nowhere"]).exits(1).says(&["hint: rolled back now: Zone/example.com#mail/A"]);
    env.apply();
    assert!(served(&server, "192.0.2.11", "192.0.2.2"), "{:?}", server.rrsets(ZONE));
}

#[test]
fn a_rollback_without_a_daemon_is_for_the_next_apply() {
    let env = Env::zonefile();
    let text = |value: &str| zone(ZONE, "zones", &[&format!("{{name: www, type: A, values: [{value}]}}")]);
    let first = env.push("zone.yaml", &text("192.0.2.1"));
    env.run(&["rollback", first.trim(), "--reason", "x"]).exits(1).says(&["no revision is in force yet"]);
    env.apply().exits(0);
    env.push("zone.yaml", &text("192.0.2.2"));
    env.apply().exits(0);
    env.run(&["rollback", "0123456789abcdef", "--reason", "x"]).exits(1).says(&["0123456789abcdef"]);
    env.run(&["rollback", first.trim(), "--reason", "x"]).exits(0).says(&["now: reconciled plan"]);
    env.run(&["plan", "--detailed-exitcode"]).exits(2).says(&["rollback", "192.0.2.1"]);
    env.apply().exits(0);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
    env.in_sync();
    env.run(&["resume", "--source", "infra"]).exits(0).says(&["is no longer kept at"]);
    env.apply().exits(0);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.2")]));
}

#[test]
fn a_revision_that_cannot_be_read_any_more_freezes_its_source_and_no_other() {
    let env = Env::zonefile();
    let text = |zone: &str, value: &str| {
        crate::env::zone(zone, "zones", &[&format!("{{name: www, type: A, values: [{value}]}}")])
    };
    let providers = format!(
        "  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.], {WIDE_GUARD}}}",
        env.path("zones").display()
    );
    env.git_in(".", &["init", "-q", "-b", "main", "other"]);
    let other = |value: &str| {
        env.write("other/zone.yaml", &text("example.org", value));
        env.git_in("other", &["add", "-A"]);
        env.git_in("other", &["commit", "-qm", "change"]);
    };
    let sources = |keys: &str| {
        let url = env.path("other").display().to_string();
        env.config_with(
            "it",
            &providers,
            &format!(", allow: all{keys}}}\n  - {{name: other, url: {url}, allow: all"),
        );
    };
    sources("");
    other("192.0.2.1");
    let first = env.push("zone.yaml", &format!("{}# {}\n", text(ZONE, "192.0.2.1"), "-".repeat(2_000)));
    env.apply().exits(0);
    env.push("zone.yaml", &text(ZONE, "192.0.2.2"));
    env.apply().exits(0);
    env.run(&["rollback", first.trim(), "--reason", "x", "--source", "infra"]).exits(0);
    env.apply().exits(0);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));

    sources(", maxFile: 1KiB");
    other("192.0.2.7");
    let more = "    - {name: new, type: A, values: [192.0.2.3]}\n";
    env.push("zone.yaml", &(text(ZONE, "192.0.2.2").trim_end().to_owned() + "\n" + more));
    env.run(&["apply", "--yes"]).exits(1).says(&[
        "is kept at",
        "which cannot be read",
        "hint: to let it go on: reconciled resume",
    ]);
    assert_eq!(env.zone_rrsets("example.org"), rrsets(&[("www A", "300 192.0.2.7")]), "others go on");
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]), "it stays as it is");
    env.run(&["resume", "--source", "infra"]).exits(0);
    env.apply().exits(0);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("new A", "300 192.0.2.3"), ("www A", "300 192.0.2.2")]));
}

#[test]
fn what_was_renamed_since_keeps_what_it_has_under_its_earlier_name() {
    let env = desk("");
    let first = env.push("a.yaml", &thing("a", "", "name: same"));
    env.apply();
    let renamed = |spec: &str| thing("b", "reconciled/moved-from: Thing/a", spec);
    env.push("a.yaml", &renamed("name: same, content: x"));
    env.apply().says(&["0 created", "0 deleted"]);
    env.run(&["rollback", first.trim(), "--reason", "it is down"]).exits(0);
    env.run(&["plan"]).exits(0).says(&["> Thing/a"]);
    env.apply().says(&["0 created", "0 deleted"]);
    assert_eq!(things(&env), ["thing-1.json"]);
    env.in_sync();
    // A commit to it goes on only once a person lets the other name go.
    env.push("a.yaml", &renamed("name: same, content: y"));
    env.run(&["apply", "--yes"]).exits(3).says(&["names what a rollback keeps", "reconciled resume Thing/a"]);
    assert_eq!(things(&env), ["thing-1.json"]);
    env.run(&["resume", "Thing/a", "--reason", "it is up"]);
    env.apply().says(&["0 created", "0 deleted"]);
    assert_eq!(things(&env), ["thing-1.json"]);
    env.in_sync();
}

#[test]
fn what_a_commit_wrote_in_part_goes_back_and_is_no_drift() {
    let windows = ", windows: [{deny: \"* * * * *\", duration: 1h}]";
    // Neither what is said of drift keeps it, nor a closed window, which lets a rollback through.
    for (mode, is_closed) in [("warn", false), ("ignore", false), ("heal", true)] {
        let env = desk("");
        let with =
            |spec: &str| thing("a", &format!("reconciled/drift: {mode}"), &format!("name: same, {spec}"));
        let first = env.push("a.yaml", &with("content: one"));
        env.apply();
        env.push("a.yaml", &with("content: two, fault: inconsistent"));
        env.run(&["apply", "--yes"]).says(&["done in part"]);
        let content = || state(&env, "thing-1.json")["content"].clone();
        assert_eq!(content(), "something else");
        if is_closed {
            let text = fs::read_to_string(env.path("config.yaml")).unwrap();
            env.write("config.yaml", &text.replace("repo.git}", &format!("repo.git{windows}}}")));
            env.run(&["rollback", first.trim(), "--reason", "it came about in part"]).exits(0);
        } else {
            env.push("a.yaml", &with("content: one"));
        }
        env.run(&["plan"]).exits(0).says(&["~ Thing/a"]).hides(&["changed by hand", "suspended"]);
        env.apply();
        assert_eq!(content(), "one", "{mode}");
    }
}

#[test]
fn a_rollback_outlasts_an_entry_that_cannot_be_used_for_a_moment() {
    let env = desk("");
    let push = |annotations: &str, content: &str| {
        let commit = env.push("a.yaml", &thing("a", annotations, &format!("name: same, content: {content}")));
        env.apply();
        commit
    };
    let is = |content: &str| assert_eq!(state(&env, "thing-1.json")["content"], content);
    let first = push("", "good");
    push("", "bad");
    env.run(&["rollback", first.trim(), "--reason", "it is down"]).exits(0).hides(&["warning"]);
    env.apply();
    is("good");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace(&toy().display().to_string(), "/bin/false"));
    env.run(&["apply", "--yes"])
        .exits(1)
        .says(&["provider `toy` cannot be used", "1 resource is kept at"])
        .hides(&["no longer kept"]);
    env.run(&["status"]).exits(0).says(&["ROLLED BACK (1)"]);
    env.write("config.yaml", &config);
    env.apply();
    is("good");
    env.run(&["status"]).exits(0).says(&["ROLLED BACK (1)"]);

    // What a revision leaves to the remote does not go back with it.
    env.run(&["resume", "Thing/a"]).exits(0);
    let ignoring = push("reconciled/ignore: content", "bad");
    push("", "worse");
    env.run(&["rollback", ignoring.trim(), "--reason", "it is down"])
        .exits(0)
        .says(&["warning: Thing/a: content stays as the remote has it"]);
}

#[test]
fn a_rollback_outlasts_that_nothing_is_meant_for_the_host_for_a_moment() {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let config = config.replace("sources:", "host: {name: h, labels: {role: dns}}\nsources:");
    env.write("config.yaml", &config);
    let selector = "name: example.com, annotations: {reconciled/hosts: \"role=dns\"}";
    let text = |value: &str| {
        let record = format!("{{name: www, type: A, values: [{value}]}}");
        zone(ZONE, "zones", &[&record]).replace("name: example.com", selector)
    };
    let first = env.push("zone.yaml", &text("192.0.2.1"));
    env.apply();
    env.push("zone.yaml", &text("192.0.2.2"));
    env.apply();
    env.run(&["rollback", first.trim(), "--reason", "it is down"]).exits(0);
    env.apply();
    for (now, for_a_moment, code) in
        [("role: dns", "role: web", 3), ("name: zones, type", "name: others, type", 0)]
    {
        env.write("config.yaml", &config.replace(now, for_a_moment));
        env.run(&["apply", "--yes"]).exits(code).hides(&["no longer kept"]);
        env.write("config.yaml", &config);
        env.apply();
        assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]), "{for_a_moment}");
        env.run(&["status"]).exits(0).says(&["ROLLED BACK (1)"]);
    }
}

#[test]
fn what_is_rolled_back_waits_for_nothing_that_only_newer_revisions_wait_for() {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let bad = format!(
        "  - {{name: bad, type: zonefile, directory: {}, nameservers: [ns1.example.net.], {WIDE_GUARD}}}\n",
        env.path("nowhere").display()
    );
    env.write("config.yaml", &(config + &bad));
    let text = |value: &str| zone(ZONE, "zones", &[&format!("{{name: www, type: A, values: [{value}]}}")]);
    let first = env.push("zone.yaml", &text("192.0.2.1"));
    env.apply();
    env.push("zone.yaml", &text("192.0.2.2"));
    env.apply();
    let waits = "name: example.com, annotations: {reconciled/depends-on: Zone/new.example}";
    let new = zone("new.example", "bad", &["{name: www, type: A, values: [192.0.2.5]}"]);
    let waiting = text("192.0.2.3").replace("name: example.com", waits);
    env.push("zone.yaml", &format!("{waiting}---\n{new}"));
    env.run(&["apply", "--yes"]).exits(1).says(&["until Zone/new.example is ready"]);
    let back = ["rollback", first.trim(), "--target", "Zone/example.com#www/A", "--reason", "it is down"];
    env.run(&back).exits(0);
    env.run(&["apply", "--yes"]).exits(1).says(&["1 updated"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
}

#[test]
fn what_is_rolled_back_goes_on_where_nothing_else_comes_after_what_it_came_after_then() {
    let env = Env::zonefile();
    let record = |value: &str| format!("{{name: www, type: A, values: [{value}]}}");
    let text = |value: &str| zone(ZONE, "zones", &[&record(value)]);
    env.write("work/old.yaml", &zone("old.example", "zones", &[&record("192.0.2.5")]));
    let waits = "name: example.com, annotations: {reconciled/depends-on: Zone/old.example}";
    let first = env.push("zone.yaml", &text("192.0.2.1").replace("name: example.com", waits));
    env.apply();
    env.push("zone.yaml", &text("192.0.2.2"));
    env.apply();
    let back = ["rollback", first.trim(), "--target", "Zone/example.com#www/A", "--reason", "it is down"];
    env.run(&back).exits(0);
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
}

#[test]
fn what_is_rolled_back_has_the_outputs_that_nobody_else_refers_to_by_now() {
    let content = |env: &Env| state(env, "thing-2.json")["content"].clone();
    // What puts them out was there all the time, or is made anew by the rollback.
    for is_gone in [false, true] {
        let env = desk("");
        let a = thing("a", "", "name: a");
        let b = |content: &str| thing("b", "", &format!("name: b, content: \"{content}\""));
        let first = env.push("a.yaml", &format!("{a}{}", b("of ${Thing/a:status.id}")));
        env.apply();
        let rest = if is_gone { "" } else { &*a };
        env.push("a.yaml", &format!("{rest}{}", b("of nobody")));
        env.apply();
        assert_eq!(content(&env), "of nobody");
        env.run(&["rollback", first.trim(), "--reason", "it is down"]).exits(0);
        env.apply();
        assert_eq!(content(&env), "of thing-1", "{is_gone}");
        env.in_sync();
    }
}

#[test]
fn rollbacks_that_wait_for_each_other_are_told_with_their_path() {
    let env = Env::zonefile();
    let (one, other) = ("example.com", "old.example");
    let text = |name: &str, value: &str, after: Option<&str>| {
        let record = |name: &str| format!("{{name: {name}, type: A, values: [{value}]}}");
        let text = zone(name, "zones", &[&record("www"), &record("mail")]);
        let waits =
            after.map(|on| format!("name: {name}, annotations: {{reconciled/depends-on: Zone/{on}}}"));
        waits.map_or_else(|| text.clone(), |waits| text.replace(&format!("name: {name}"), &waits))
    };
    let push = |value: &str, [of_one, of_other]: [Option<&str>; 2]| {
        let both = [text(one, value, of_one), text(other, value, of_other)];
        let revision = env.push("zone.yaml", &both.join("---\n"));
        env.apply();
        revision
    };
    let first = push("192.0.2.1", [Some(other), None]);
    let second = push("192.0.2.2", [None, Some(one)]);
    push("192.0.2.3", [None, None]);
    for (revision, address) in [(first, "Zone/example.com"), (second, "Zone/old.example#www/A")] {
        let path = "Zone/example.com → Zone/old.example → Zone/example.com";
        env.run(&["plan"]).exits(0).hides(&[path]);
        env.run(&["rollback", revision.trim(), "--target", address, "--reason", "it is down"]).exits(0);
    }
    env.run(&["plan"]).exits(0).says(&[
        "what rollbacks keep waits for itself: Zone/example.com → Zone/old.example → Zone/example.com",
        // Two records of the one are kept.
        "hint: to let it go on: reconciled resume Zone/example.com or Zone/old.example#www/A",
    ]);
    env.run(&["resume", "Zone/example.com"]).exits(0);
    env.apply().hides(&["waits for itself"]);
    let of = |www: &str, mail: &str| rrsets(&[("www A", www), ("mail A", mail)]);
    let now = [one, other].map(|name| env.zone_rrsets(name));
    assert_eq!(now, [of("300 192.0.2.3", "300 192.0.2.3"), of("300 192.0.2.2", "300 192.0.2.3")]);
}

#[test]
fn a_commit_that_asks_for_more_care_with_what_is_rolled_back_is_heeded() {
    let env = Env::zonefile();
    let push = |value: &str, keys: &str| {
        let record = format!("{{name: www, type: A, values: [{value}]{keys}}}");
        env.push("zone.yaml", &zone(ZONE, "zones", &[&record]))
    };
    let first = push("192.0.2.1", "");
    env.apply();
    push("192.0.2.2", "");
    env.apply();
    env.run(&["rollback", first.trim(), "--reason", "it is down"]).exits(0);
    env.apply();
    push("192.0.2.2", ", suspend: true");
    env.run(&["apply", "--yes"]);
    let file = env.path("zones/example.com.zone");
    let text = fs::read_to_string(&file).unwrap();
    let changed = text.replace("192.0.2.1", "192.0.2.9");
    assert_ne!(text, changed);
    fs::write(&file, changed).unwrap();
    env.run(&["apply", "--yes", "--refresh"]).says(&["suspended"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.9")]));
    // It is rolled back all the same, and a revision that is less careful has nothing to go back to.
    push("192.0.2.2", "");
    env.run(&["apply", "--yes", "--refresh"]).exits(0);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
    env.run(&["resume", "Zone/example.com#www/A"]).exits(0);
    env.apply();
    let less = env.git(&["rev-parse", "HEAD"]);
    push("192.0.2.2", ", suspend: true");
    env.run(&["apply", "--yes"]);
    env.run(&["rollback", less.trim(), "--reason", "x"]).exits(1).says(&["nothing of what is meant"]);
}

#[test]
fn a_rollback_goes_along_to_another_source_and_ends_with_what_that_declares_otherwise() {
    let env = Env::zonefile();
    other_source(&env);
    push_other(&env, "# nothing yet\n");
    let text = |value: &str| zone(ZONE, "zones", &[&format!("{{name: www, type: A, values: [{value}]}}")]);
    let first = env.push("zone.yaml", &text("192.0.2.1"));
    env.apply();
    env.push("zone.yaml", &text("192.0.2.2"));
    env.apply();
    env.run(&["rollback", first.trim(), "--source", "infra", "--reason", "it is down"]).exits(0);
    env.apply();
    push_other(&env, &text("192.0.2.2"));
    env.push("zone.yaml", "# nothing any more\n");
    env.apply().hides(&["no longer kept"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
    env.in_sync();
    env.run(&["explain", "Zone/example.com#www/A"])
        .exits(0)
        .says(&["is rolled back to", &format!("of source infra at {}", first.trim())]);

    // An error in that source says nothing of what it declares.
    push_other(&env, &text("192.0.2.2").replace("values", "valuez"));
    env.run(&["apply", "--yes"]).exits(1).says(&["valuez"]).hides(&["no longer kept"]);
    env.run(&["status"]).says(&["ROLLED BACK (1)"]);
    push_other(&env, &text("192.0.2.2"));
    env.apply().hides(&["no longer kept"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));

    push_other(&env, &text("192.0.2.3"));
    let over = "source other declares it by now, and otherwise";
    env.run(&["plan"]).exits(0).says(&["Zone/example.com#www/A is no longer kept at", "(it is down)", over]);
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.3")]));
    env.run(&["history"]).exits(0).says(&[over]).hides(&["a commit changed it"]);
}

#[test]
fn what_a_commit_moved_is_resumed_by_its_new_address_without_a_daemon_too() {
    let env = Env::zonefile();
    let mail = "{name: mail, type: A, values: [192.0.2.25]}";
    let www = |value: &str| format!("{{name: www, type: A, values: [{value}]}}");
    let text = |value: &str| zone(ZONE, "zones", &[&www(value), mail]);
    let first = env.push("zone.yaml", &text("192.0.2.1"));
    env.apply();
    env.push("zone.yaml", &text("192.0.2.2"));
    env.apply();
    env.run(&["rollback", first.trim(), "--reason", "it is down"]).exits(0);
    env.apply();
    let record = www("192.0.2.2");
    let moved = format!(
        "---\napiVersion: dns/v1\nkind: RecordSet\nmetadata: {{name: web}}\nspec: {{zone: {ZONE}, records: [{record}]}}\n"
    );
    env.push("zone.yaml", &(zone(ZONE, "zones", &[mail]) + &moved));
    env.apply();
    env.run(&["resume", "RecordSet/other#www/A"]).exits(1).says(&["and no rollback"]);
    env.run(&["resume", "RecordSet/web#www/A"]).exits(0).says(&["is no longer kept at"]);
    env.apply();
    let both = rrsets(&[("mail A", "300 192.0.2.25"), ("www A", "300 192.0.2.2")]);
    assert_eq!(env.zone_rrsets(ZONE), both);
}
