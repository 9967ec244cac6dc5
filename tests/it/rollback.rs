//! Going back to an earlier revision, and on again.

use crate::{
    env::{Env, Output, WIDE_GUARD, rrsets, zone},
    pdns::Pdns,
    running::{Daemon, wait_for},
    shared::{other_source, push_other},
    terraform::{desk, thing, things},
};

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
