//! The real process killed with SIGKILL at every named place, and started again.
//!
//! After each death: the database is sound, one more `apply` ends well, the server holds exactly what Git declares
//! and what was foreign, nothing is left to plan, and no intent is left without an answer.

use crate::{
    env::{Env, rrsets, zone},
    pdns::{Pdns, Rrsets},
};
use reconciled::failpoint::{FORESEEN, NAMES, VARIABLE};
use std::collections::BTreeSet;

const SIGKILL: i32 = 9;

/// Hits of one failpoint that are tried.
const HITS: u32 = 3;

/// Where the zones live.
enum Backend<'a> {
    Pdns(&'a Pdns),
    Zonefile,
}

impl Backend<'_> {
    fn env(&self) -> Env {
        match self {
            Backend::Pdns(server) => Env::pdns(server),
            Backend::Zonefile => Env::zonefile(),
        }
    }
    fn entry(&self) -> &'static str {
        match self {
            Backend::Pdns(_) => "pdns",
            Backend::Zonefile => "zones",
        }
    }
    fn rrsets(&self, env: &Env, zone: &str) -> Rrsets {
        match self {
            Backend::Pdns(server) => server.rrsets(zone),
            Backend::Zonefile => env.zone_rrsets(zone),
        }
    }
    /// A zone that is there before, with a record that nobody declares.
    fn foreign_zone(&self, env: &Env, zone: &str) {
        match self {
            Backend::Pdns(server) => {
                server.create(zone);
                server.set(zone, "foreign", "A", "198.51.100.1");
            }
            Backend::Zonefile => env.write(
                &format!("zones/{zone}.zone"),
                &format!(
                    "$ORIGIN {zone}.\n$TTL 300\n@ IN SOA ns1.example.net. hostmaster 1 3600 600 86400 300\n@ IN NS ns1.example.net.\nforeign IN A 198.51.100.1\n"
                ),
            ),
        }
    }
}

const FIRST: &[&str] = &[
    "{name: www, type: A, values: [192.0.2.1]}",
    "{name: www, type: TXT, values: [\"one\"]}",
    "{name: old, type: A, values: [192.0.2.9]}",
    "{name: alias, type: CNAME, values: [www.example.net.]}",
    "{name: swap, type: A, values: [192.0.2.5]}",
    "{name: same, type: A, values: [192.0.2.7, 192.0.2.8]}",
];
const SECOND: &[&str] = &[
    "{name: www, type: A, values: [192.0.2.2]}",
    "{name: www, type: TXT, values: [\"one\"]}",
    "{name: alias, type: A, values: [192.0.2.3]}",
    "{name: swap, type: CNAME, values: [www.example.net.]}",
    "{name: same, type: A, values: [192.0.2.7, 192.0.2.8]}",
    "{name: new, type: A, values: [192.0.2.4]}",
];

fn first() -> Rrsets {
    rrsets(&[
        ("www A", "300 192.0.2.1"),
        ("www TXT", "300 \"one\""),
        ("old A", "300 192.0.2.9"),
        ("alias CNAME", "300 www.example.net."),
        ("swap A", "300 192.0.2.5"),
        ("same A", "300 192.0.2.7 192.0.2.8"),
    ])
}

fn second() -> Rrsets {
    rrsets(&[
        ("www A", "300 192.0.2.2"),
        ("www TXT", "300 \"one\""),
        ("alias A", "300 192.0.2.3"),
        ("swap CNAME", "300 www.example.net."),
        ("same A", "300 192.0.2.7 192.0.2.8"),
        ("new A", "300 192.0.2.4"),
    ])
}

/// Kills `apply` at `point` and lets the next one finish; true when the point was reached.
fn kill_and_recover(env: &Env, point: &str) -> bool {
    let died = env.run_with(&["apply", "--yes"], &[(VARIABLE, point)]);
    let was_reached = died.signal == Some(SIGKILL);
    assert!(was_reached || died.code == Some(0), "{point}: {died:?}");
    if env.path("state/state.db").exists() {
        assert_eq!(env.sql("PRAGMA integrity_check"), "ok", "{point}");
    }
    let again = env.run(&["apply", "--yes"]);
    assert_eq!(again.code, Some(0), "{point}: {}", again.all());
    was_reached
}

fn check(backend: &Backend<'_>, env: &Env, point: &str, zones: [(&str, Rrsets); 2]) {
    for (zone, expect) in zones {
        assert_eq!(backend.rrsets(env, zone), expect, "{point}: {zone}");
    }
    let plan = env.run(&["plan", "--refresh", "--detailed-exitcode"]);
    assert_eq!(plan.code, Some(0), "{point}: {}", plan.all());
    assert_eq!(env.sql("SELECT count(*) FROM journal WHERE ended < total"), "0", "{point}: open intents");
    let tracked = 2 * FIRST.len();
    let rows = env.sql("SELECT count(*) FROM inventory WHERE id LIKE '%/%'");
    assert_eq!(rows, tracked.to_string(), "{point}: {}", env.sql("SELECT scope, id FROM inventory"));
}

/// One life: both revisions, each killed once at `point`. True when it was reached.
fn life(backend: &Backend<'_>, name: &str, hit: u32) -> bool {
    let point = format!("{name}:{hit}");
    let label = format!("{}-{hit}", name.replace('.', "-"));
    let (made, given) = (format!("{label}.example.com"), format!("{label}.example.org"));
    let with_foreign = |mut expect: Rrsets| {
        expect.insert("foreign A".into(), "300 198.51.100.1".into());
        expect
    };
    let env = backend.env();
    backend.foreign_zone(&env, &given);
    let both = |records: &[&str]| {
        format!("{}---\n{}", zone(&made, backend.entry(), records), zone(&given, backend.entry(), records))
    };
    env.push("zones.yaml", &both(FIRST));
    let mut was_reached = kill_and_recover(&env, &point);
    check(backend, &env, &point, [(&made, first()), (&given, with_foreign(first()))]);
    let newest = env.sql("PRAGMA user_version");
    if name.starts_with("store.migrate") {
        env.sql(TO_SCHEMA_6);
    }
    env.push("zones.yaml", &both(SECOND));
    was_reached |= kill_and_recover(&env, &point);
    assert_eq!(env.sql("PRAGMA user_version"), newest, "{point}: it was not migrated after all");
    check(backend, &env, &point, [(&made, second()), (&given, with_foreign(second()))]);
    was_reached
}

/// Takes back what migrations from 7 on made, so that there is something to migrate.
pub(crate) const TO_SCHEMA_6: &str =
    "DROP VIEW held; CREATE VIEW held AS SELECT 1; ALTER TABLE hold DROP COLUMN once;
    DROP VIEW actions; CREATE VIEW actions AS SELECT 1; ALTER TABLE journal ADD COLUMN actions TEXT NOT NULL DEFAULT '[]';
    UPDATE journal SET actions = (SELECT json_group_array(json_patch(json_remove(common, '$.row'), a.value))
        FROM intent, json_each(intent.actions) a WHERE intent.number = journal.number);
    UPDATE journal SET rows = (SELECT json_group_array(json_patch(ifnull(common ->> '$.row', '{}'), r.value))
        FROM intent, json_each(journal.rows) r WHERE intent.number = journal.number) WHERE rows IS NOT NULL;
    ALTER TABLE journal DROP COLUMN numbers; DROP TABLE intent; DROP TABLE begun; DROP TABLE scope_place;
    DROP VIEW tracked; DROP VIEW inventory_now; CREATE VIEW tracked AS SELECT 1; ALTER TABLE inventory DROP COLUMN stamp;
    ALTER TABLE inventory DROP COLUMN writes; ALTER TABLE inventory DROP COLUMN formerly; ALTER TABLE condition DROP COLUMN declared;
    ALTER TABLE inventory_stamp DROP COLUMN settled; ALTER TABLE inventory_stamp DROP COLUMN settled_at;
    DROP INDEX inventory_outputs; CREATE INDEX inventory_manifest ON inventory (manifest);
    DELETE FROM _sqlx_migrations WHERE version >= 7; PRAGMA user_version = 6";

fn every_failpoint(backend: &Backend<'_>) {
    let mut reached = BTreeSet::new();
    for name in NAMES {
        for hit in 1..=HITS {
            if !life(backend, name, hit) {
                break;
            }
            reached.insert(*name);
        }
    }
    let missed: Vec<_> = NAMES.iter().filter(|name| !reached.contains(*name)).collect();
    assert!(missed.is_empty(), "never reached: {missed:?}");
}

#[test]
fn a_process_killed_anywhere_loses_and_doubles_nothing_on_powerdns() {
    every_failpoint(&Backend::Pdns(&Pdns::start()));
}

#[test]
fn a_process_killed_anywhere_loses_and_doubles_nothing_in_zone_files() {
    every_failpoint(&Backend::Zonefile);
}

#[test]
fn a_process_killed_with_rows_in_a_transaction_that_waits_for_its_call_loses_and_doubles_nothing() {
    let server = Pdns::start();
    let records: Vec<String> =
        (0..3_000).map(|n| format!("{{name: www{n:04}, type: A, values: [192.0.2.1]}}")).collect();
    let records: Vec<&str> = records.iter().map(String::as_str).collect();
    // Where the server answers before the rows are there, it is not reached.
    let was_reached = (0..10).any(|round| {
        let (env, name) = (Env::pdns(&server), format!("foreseen{round}.example"));
        env.push("zones.yaml", &zone(&name, "pdns", &records));
        let was_reached = kill_and_recover(&env, &format!("{}:1", FORESEEN[0]));
        assert_eq!(server.rrsets(&name).len(), records.len());
        let plan = env.run(&["plan", "--refresh", "--detailed-exitcode"]);
        assert_eq!(plan.code, Some(0), "{}", plan.all());
        assert_eq!(env.sql("SELECT count(*) FROM journal WHERE ended < total"), "0");
        let rows = env.sql("SELECT count(*) FROM inventory WHERE id LIKE '%/A'");
        assert_eq!(rows, records.len().to_string());
        was_reached
    });
    assert!(was_reached, "{} was never reached", FORESEEN[0]);
}
