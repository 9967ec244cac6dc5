//! Health and drift as an operator meets them: what was changed by hand, what became of it, and how each resource
//! stands.

use crate::{
    env::{Env, WIDE_GUARD, rrsets, zone},
    http::Place,
    pdns::Pdns,
    proxy::{Damage, Proxy},
    running::{Daemon, wait_for},
};
use reconciled::failpoint::VARIABLE;
use serde_json::Value;
use std::fs;

const SIGKILL: i32 = 9;
const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";

fn sync(env: &Env) {
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
}

fn json(env: &Env, args: &[&str]) -> Value {
    serde_json::from_str(&env.run(args).exits(0).stdout).unwrap()
}

/// The resource with this part, of `status ADDRESS`.
fn resource(env: &Env, part: &str) -> Value {
    let address = format!("Zone/{ZONE}#{part}");
    let found = json(env, &["status", &address, "-o", "json"]);
    let resources = found["resources"].as_array().unwrap();
    assert_eq!(resources.len(), 1, "{found:#}");
    resources[0].clone()
}

/// `Synced` and `Healthy` of a resource, as status and reason.
fn sides(resource: &Value) -> [(String, String); 2] {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let side = |kind: &str| {
        let all = resource["conditions"].as_array().unwrap();
        let side = all.iter().find(|side| side["type"] == kind).unwrap();
        (text(&side["status"]), text(&side["reason"]))
    };
    [side("Synced"), side("Healthy")]
}

fn are(sides: &[(String, String); 2], synced: (&str, &str), healthy: (&str, &str)) -> bool {
    let same = |side: &(String, String), (status, reason): (&str, &str)| side.0 == status && side.1 == reason;
    same(&sides[0], synced) && same(&sides[1], healthy)
}

const WELL: [(&str, &str); 2] = [("True", "InSync"), ("True", "Healthy")];

fn ledger(env: &Env) -> Vec<Value> {
    let found = json(env, &["explain", "Zone/*", "-o", "json"]);
    found["drifts"].as_array().unwrap().clone()
}

#[test]
fn a_change_by_hand_is_in_the_ledger_with_its_fields_and_how_it_was_healed() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    let daemon = Daemon::start(&env);
    sync(&env);
    let well = resource(&env, "www/A");
    assert!(are(&sides(&well), WELL[0], WELL[1]), "{well:#}");
    let condition = &well["conditions"][0];
    assert_eq!(condition["observedGeneration"], well["generation"], "{well:#}");
    assert!(condition["since"].is_string() && well["generation"].is_u64(), "{well:#}");
    assert!(ledger(&env).is_empty());

    server.set(ZONE, "www", "A", "203.0.113.9");
    sync(&env);
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1"), ("mail A", "300 192.0.2.2")]));
    let entries = ledger(&env);
    assert_eq!(entries.len(), 1, "{entries:#?}");
    let entry = &entries[0];
    assert_eq!((&entry["outcome"], &entry["mode"]), (&"healed".into(), &"heal".into()), "{entry:#}");
    assert_eq!(entry["address"], format!("Zone/{ZONE}#www/A"));
    assert_eq!(entry["missing"], false);
    assert!(entry["action"].is_u64() && entry["endedAt"].is_string(), "{entry:#}");
    let field = &entry["fields"][0];
    let text = |side: &str| field[side].as_str().unwrap().to_owned();
    assert!(text("remote").contains("203.0.113.9") && text("declared").contains("192.0.2.1"), "{entry:#}");
    env.run(&["history", &format!("Zone/{ZONE}#www/A")]).exits(0).says(&["drift", "203.0.113.9", "healed"]);
    env.run(&["explain", &format!("Zone/{ZONE}#www/A")]).exits(0).says(&[
        "Synced: True (InSync)",
        "Healthy: True (Healthy)",
        "drift:",
        "healed at",
        "by action",
    ]);
    env.run(&["status"]).exits(0).says(&["Healthy", "3 well"]).hides(&["DRIFTED"]);
    daemon.stop();
}

#[test]
fn what_is_only_reported_stays_open_until_somebody_puts_it_back() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    let warned = "{name: www, type: A, values: [192.0.2.1], drift: warn}";
    env.push("zone.yaml", &zone(ZONE, "pdns", &[warned, MAIL]));
    let daemon = Daemon::start(&env);
    sync(&env);
    server.set(ZONE, "www", "A", "203.0.113.9");
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(3);
    let entries = ledger(&env);
    assert_eq!(entries.len(), 1, "{entries:#?}");
    assert_eq!((&entries[0]["outcome"], &entries[0]["mode"]), (&"reported".into(), &"warn".into()));
    assert!(entries[0]["endedAt"].is_null() && entries[0]["action"].is_null(), "{entries:#?}");
    let drifted = resource(&env, "www/A");
    // It does its work, as far as anybody knows; only it is not as declared.
    assert!(are(&sides(&drifted), ("False", "Drifted"), WELL[1]), "{drifted:#}");
    env.run(&["status"]).exits(0).says(&["DRIFTED (1)", "203.0.113.9", "2 well", "1 drifted"]);
    let whole = json(&env, &["status", "-o", "json"]);
    assert_eq!(whole["drifts"].as_array().unwrap().len(), 1, "{whole:#}");
    // Looking again changes nothing: neither when it was first seen, nor how many there are.
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(3);
    assert_eq!(ledger(&env), entries);

    server.set(ZONE, "www", "A", "192.0.2.1");
    sync(&env);
    let entries = ledger(&env);
    assert_eq!(entries.len(), 1, "{entries:#?}");
    assert_eq!(entries[0]["outcome"], "gone", "{entries:#?}");
    let well = resource(&env, "www/A");
    assert!(are(&sides(&well), WELL[0], WELL[1]), "{well:#}");
    daemon.stop();
}

#[test]
fn what_is_suspended_missing_or_failing_says_so() {
    let env = Env::zonefile();
    let warned = "{name: www, type: A, values: [192.0.2.1], drift: warn}";
    let apply = |records: &[&str]| {
        env.push("zone.yaml", &zone(ZONE, "zones", records));
        env.run(&["apply", "--yes"])
    };
    apply(&[warned, MAIL]).exits(0);
    let whole = json(&env, &["status", "-o", "json"]);
    assert_eq!(whole["health"]["infra"]["health"], "Healthy", "{whole:#}");
    assert_eq!(whole["health"]["infra"]["resources"]["Healthy"], 3, "{whole:#}");

    // Gone from the remote, and only reported.
    let file = env.path("zones/example.com.zone");
    let text = fs::read_to_string(&file).unwrap();
    let without: String =
        text.lines().filter(|line| !line.contains("192.0.2.1")).map(|line| format!("{line}\n")).collect();
    assert_ne!(text, without, "{text}");
    fs::write(&file, without).unwrap();
    env.run(&["apply", "--yes"]).exits(3);
    let missing = resource(&env, "www/A");
    assert!(are(&sides(&missing), ("False", "Drifted"), ("False", "Missing")), "{missing:#}");
    let whole = json(&env, &["status", "-o", "json"]);
    assert_eq!(whole["health"]["infra"]["health"], "Missing", "{whole:#}");
    assert_eq!(whole["health"]["infra"]["resources"]["Healthy"], 2, "{whole:#}");
    let part = json(&env, &["status", "Zone/*", "-o", "json"]);
    assert_eq!(part["manifests"][0]["health"], "Missing", "{part:#}");
    env.run(&["explain", &format!("Zone/{ZONE}#www/A")])
        .exits(0)
        .says(&["Healthy: False (Missing)", "reported"]);

    // Switched off by its manifest.
    apply(&[WWW, "{name: mail, type: A, values: [192.0.2.9], suspend: true}"]);
    let suspended = resource(&env, "mail/A");
    assert!(are(&sides(&suspended), ("False", "Suspended"), ("False", "Suspended")), "{suspended:#}");
    let healed = resource(&env, "www/A");
    assert!(are(&sides(&healed), WELL[0], WELL[1]), "{healed:#}");
    env.run(&["status", "Zone/*"]).exits(0).says(&["HEALTH", "Suspended", "Healthy"]);

    // A folder in place of the file: the scope cannot be read, so nothing is known of what is in it.
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    env.run(&["apply", "--yes"]);
    let unread = resource(&env, "www/A");
    assert_eq!((&unread["health"], &sides(&unread)[0].0[..]), (&"Unknown".into(), "Unknown"), "{unread:#}");
    env.run(&["status"]).exits(0).says(&["Unknown"]);
}

#[test]
fn what_was_never_brought_about_is_listed_and_a_write_that_fails_is_degraded() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[MAIL]));
    env.run(&["apply", "--yes"]).exits(0);
    // Somebody else made it, and it differs: a person has to say what shall become of it.
    server.set(ZONE, "www", "A", "203.0.113.9");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[MAIL, WWW]));
    env.run(&["apply", "--yes"]).exits(3);
    let stalled = resource(&env, "www/A");
    assert_eq!(
        (&stalled["state"], &stalled["health"]),
        (&"untracked".into(), &"Degraded".into()),
        "{stalled:#}"
    );
    assert!(are(&sides(&stalled), ("False", "Conflict"), ("False", "Degraded")), "{stalled:#}");
    assert_eq!(stalled["conditions"][0]["observedGeneration"], stalled["generation"], "{stalled:#}");
    let whole = json(&env, &["status", "-o", "json"]);
    assert_eq!(whole["health"]["infra"]["health"], "Degraded", "{whole:#}");
    let mail = resource(&env, "mail/A");
    assert!(are(&sides(&mail), WELL[0], WELL[1]), "{mail:#}");
}

#[test]
fn a_drift_that_is_healed_through_a_crash_is_one_entry() {
    for place in ["store.start.after", "store.end.before", "store.end.after"] {
        let env = Env::zonefile();
        env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, MAIL]));
        env.run(&["apply", "--yes"]).exits(0);
        let file = env.path("zones/example.com.zone");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("192.0.2.1", "203.0.113.9")).unwrap();
        let died = env.run_with(&["apply", "--yes"], &[(VARIABLE, place)]);
        assert_eq!(died.signal, Some(SIGKILL), "{place}: {died:?}");
        env.run(&["apply", "--yes"]).exits(0);
        let entries = ledger(&env);
        assert_eq!(entries.len(), 1, "{place}: {entries:#?}");
        assert_eq!(entries[0]["outcome"], "healed", "{place}: {entries:#?}");
        assert!(entries[0]["fields"][0]["remote"].as_str().unwrap().contains("203.0.113.9"), "{place}");
    }
}

#[test]
fn the_api_and_the_metrics_have_the_ledger() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &["{name: www, type: A, values: [192.0.2.1], drift: warn}"]));
    let daemon = Daemon::start(&env);
    sync(&env);
    server.set(ZONE, "www", "A", "203.0.113.9");
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(3);
    let socket = Place::Socket(env.path("state/api.sock"));
    let answer = |path: &str| socket.ask("GET", path, &[], b"");
    let found = answer("/v1/drift?open=true").json();
    assert_eq!(found[0]["outcome"], "reported", "{found:#}");
    let metrics = answer("/metrics").text();
    assert!(metrics.contains("reconciled_drifts{mode=\"warn\"} 1"), "{metrics}");
    wait_for("the ledger is over", || {
        server.set(ZONE, "www", "A", "192.0.2.1");
        env.run(&["sync", "--wait", "--timeout", "60s"]);
        answer("/v1/drift?open=true").json() == Value::Array(Vec::new())
    });
    daemon.stop();
}

#[test]
fn what_came_into_force_and_was_not_looked_at_is_not_well() {
    let server = Pdns::start();
    let proxy = Proxy::start(server.address());
    let env = Env::pdns(&server);
    env.config(&env.pdns_entry(&proxy.url, WIDE_GUARD));
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    env.push("mail.yaml", &record_set("mail", MAIL));
    let daemon = Daemon::start(&env);
    sync(&env);
    env.run(&["status", "--exit-code"]).exits(0).says(&["3 well"]);

    proxy.spoil("GET", "/zones", Damage::Silence);
    let commit = env.push("zone.yaml", &zone(ZONE, "pdns", &["{name: www, type: A, values: [192.0.2.7]}"]));
    comes_into_force(&env, &commit);
    let said = format!("not looked at since {} of source infra came into force", &commit[..7]);
    let waits = |address: &[&str]| {
        env.run(&[&["status", "--exit-code"], address].concat()).exits(4).says(&["WAITING (1)", &said])
    };
    waits(&[]).says(&["pdns/example.com  OutOfDate", "\n0 well"]);
    waits(&["Zone/*"]);
    // Whoever starts meanwhile knows as much, from the state.
    drop(daemon);
    let daemon = started(&env, &commit);
    waits(&[]).says(&["\n0 well"]);
    proxy.heal();
    drop(daemon);
    let daemon = Daemon::start(&env);
    sync(&env);
    env.run(&["status", "--exit-code"]).exits(0).says(&["3 well"]).hides(&["WAITING"]);

    // A manifest that went has no generation any more.
    proxy.spoil("GET", "/zones", Damage::Silence);
    let commit = env.push_without("mail.yaml");
    comes_into_force(&env, &commit);
    env.run(&["status", "--exit-code"]).exits(4).says(&["WAITING (1)"]);
    drop(daemon);
    let daemon = started(&env, &commit);
    env.run(&["status", "--exit-code"]).exits(4).says(&["WAITING (1)"]);
    drop(daemon);
}

/// A daemon that has read what is in force.
fn started(env: &Env, commit: &str) -> Daemon {
    let daemon = Daemon::start(env);
    let label = format!("source infra at {}", &commit[..7]);
    wait_for("what is in force is read", || env.run(&["status"]).stderr.contains(&label));
    daemon
}

/// Has the daemon look for `commit`, and waits until that is in force, whatever becomes of it.
fn comes_into_force(env: &Env, commit: &str) {
    env.run(&["sync"]).exits(0);
    let label = format!("at {} (in force", &commit[..7]);
    wait_for("the commit is in force", || env.run(&["status"]).stdout.contains(&label));
}

fn record_set(name: &str, record: &str) -> String {
    format!(
        "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {{name: {name}}}\nspec:\n  zone: {ZONE}\n  records:\n    - {record}\n"
    )
}

/// An own write whose answer was lost is nobody's drift: what a commit takes back of it is taken back, whatever is said of drift.
#[test]
fn a_write_that_was_cut_off_is_no_drift() {
    let both = |mode: &str, value: &str| {
        let records = [format!("{{name: a, type: A, values: [{value}]}}"), b_is("192.0.2.2")];
        with_drift(mode, &records.each_ref().map(String::as_str))
    };
    for mode in ["ignore", "warn", "heal"] {
        let env = Env::zonefile();
        let before = rrsets(&[("a A", "300 192.0.2.1"), ("b A", "300 192.0.2.2")]);
        env.push("z.yaml", &both(mode, "192.0.2.1"));
        env.apply();
        assert_eq!(env.zone_rrsets(ZONE), before);

        // One is changed, the other deleted, and nobody hears of it.
        env.push("z.yaml", &with_drift(mode, &["{name: a, type: A, values: [192.0.2.9]}"]));
        let died = env.run_with(&["apply", "--yes"], &[(VARIABLE, "call.after")]);
        assert_eq!(died.signal, Some(SIGKILL), "{died:?}");
        assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("a A", "300 192.0.2.9")]));

        // The commit is taken back.
        env.push("z.yaml", &both(mode, "192.0.2.1"));
        env.run(&["plan"]).exits(0).says(&["commit", "1 to create, 1 to update"]).hides(&["drift"]);
        env.apply();
        assert_eq!(env.zone_rrsets(ZONE), before, "drift: {mode}");
        env.in_sync();
        env.run(&["history", "Zone/example.com#a/A"]).exits(0).hides(&["somebody else"]);
    }
}

fn b_is(value: &str) -> String {
    format!("{{name: b, type: A, values: [{value}]}}")
}

fn with_drift(mode: &str, records: &[&str]) -> String {
    let name = format!("{{name: {ZONE}}}");
    let annotated = format!("{{name: {ZONE}, annotations: {{reconciled/drift: {mode}}}}}");
    zone(ZONE, "zones", records).replace(&name, &annotated)
}

#[test]
fn what_an_entry_had_that_is_gone_is_not_waited_for() {
    let env = Env::new();
    let entry = |name: &str| {
        fs::create_dir_all(env.path(name)).unwrap();
        format!("  - {{name: {name}, type: zonefile, directory: {}}}\n", env.path(name).display())
    };
    let host = "host: {labels: {role: dns}}";
    let (alpha, berlin) = (entry("alpha"), entry("berlin"));
    env.config(&format!("{alpha}{berlin}{host}"));
    env.push("a.yaml", &zone(ZONE, "alpha", &[MAIL]));
    let named = format!("metadata: {{name: b}}\nspec:\n  zone: {ZONE}");
    let b = zone(ZONE, "berlin", &[MAIL]).replace("metadata: {name: example.com}\nspec:", &named);
    env.push("b.yaml", &b);
    env.push("s.yaml", &record_set("s", "{name: s, type: A, values: [192.0.2.1]}"));
    env.apply();
    env.config(&format!("{alpha}{host}"));
    env.push("s.yaml", &record_set("s", "{name: s, type: A, values: [192.0.2.5]}"));
    env.apply();
    let status = env.run(&["status", "--exit-code"]).exits(0);
    status.says(&["UNASSIGNED", "berlin"]).hides(&["WAITING", "OutOfDate"]);
}
