//! A server that is down, refuses, limits, fails or loses its answers: one clear error, nothing deleted, and the
//! next apply puts everything right.

use crate::{
    env::{Env, WIDE_GUARD, rrsets, zone},
    pdns::Pdns,
    proxy::{Damage, Proxy},
};
use std::time::{Duration, Instant};

const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";
const NEW: &str = "{name: new, type: A, values: [192.0.2.3]}";

/// A desk whose server is behind a proxy, with `www` and `mail` applied and a commit that replaces `mail` by `new`.
fn behind_proxy(server: &Pdns) -> (Env, Proxy) {
    let proxy = Proxy::start(server.address());
    let env = Env::pdns(server);
    env.config(&env.pdns_entry(&proxy.url, &format!("timeout: 2s, {WIDE_GUARD}")));
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.apply();
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, NEW]));
    (env, proxy)
}

/// An apply while `damage` lasts: it names the server, deletes nothing, and the next one converges.
#[track_caller]
fn spoilt(method: &'static str, damage: Damage, code: i32, words: &[&str]) {
    let server = Pdns::start();
    let (env, proxy) = behind_proxy(&server);
    let before = server.rrsets(ZONE);
    proxy.spoil(method, "/zones", damage);
    let output = env.run(&["apply", "--yes", "--timeout", "2s"]);
    assert!(proxy.spoilt() > 0, "no request was spoilt: {}", output.all());
    output.exits(code).says(words).says(&["pdns/example.com", &proxy.url]);
    if method == "GET" {
        assert_eq!(server.rrsets(ZONE), before, "something was written though nothing could be read");
    }
    proxy.heal();
    env.apply();
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1"), ("new A", "300 192.0.2.3")]));
    assert_eq!(env.sql("SELECT count(*) FROM journal WHERE ended < total"), "0");
    env.in_sync();
}

#[test]
fn a_server_that_is_down_is_named_with_a_hint() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    // Port 1 is reserved and nobody listens there.
    env.config(&env.pdns_entry("http://127.0.0.1:1", WIDE_GUARD));
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    env.run(&["plan"]).exits(1).says(&["http://127.0.0.1:1", "no connection", "hint: is the server running"]);
    env.run(&["apply", "--yes", "--timeout", "2s"])
        .exits(1)
        .says(&["no connection", "hint: is the server running"]);
}

#[test]
fn what_was_written_is_looked_at_although_another_entry_cannot_be_read_and_nobody_waits_for_that() {
    let env = Env::zonefile();
    env.write("key", "x");
    let zones = format!(
        "  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.]}}",
        env.path("zones").display()
    );
    env.config(&format!("{zones}\n{}", env.pdns_entry("http://127.0.0.1:1", "")));
    env.push(
        "a.yaml",
        &format!("{}---\n{}", zone(ZONE, "zones", &[WWW]), zone("example.org", "pdns", &[WWW])),
    );
    let began = Instant::now();
    env.run(&["apply", "--yes"]).exits(1).says(&["no connection", "Applied: 2 created"]);
    // Far less than what it waits for by itself.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    env.run(&["status"]).says(&["2 well"]).hides(&["not yet seen"]);
}

#[test]
fn a_wrong_key_is_named_with_a_hint_and_stalls() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.apply();
    env.write("key", "wrong");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    env.run(&["apply", "--yes"]).exits(1).says(&["answered 401", "hint: compare the key"]);
    assert!(server.rrsets(ZONE).contains_key("mail A"));
}

#[test]
fn a_record_that_has_no_room_does_not_keep_the_others() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    server.create(ZONE);
    // A foreign alias, beside which the server accepts nothing.
    server.set(ZONE, "web", "CNAME", "www.example.net.");
    let web = "{name: web, type: A, values: [192.0.2.9]}";
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, web, MAIL]));
    env.run(&["apply", "--yes"]).exits(3).says(&[
        "Zone/example.com#web/A  Occupied: cannot be made beside web.example.com./CNAME",
        "2 created",
    ]);
    assert_eq!(
        server.rrsets(ZONE),
        rrsets(&[
            ("www A", "300 192.0.2.1"),
            ("mail A", "300 192.0.2.2"),
            ("web CNAME", "300 www.example.net.")
        ])
    );
}

#[test]
fn while_reading_fails_nothing_is_written() {
    spoilt("GET", Damage::Instead("500 Internal Server Error\r\n"), 1, &["answered 500", "hint:"]);
    spoilt("GET", Damage::Instead("401 Unauthorized\r\n"), 1, &["answered 401", "hint: compare the key"]);
    spoilt("GET", Damage::Instead("404 Not Found\r\n"), 1, &["answered 404", "hint: was the zone removed?"]);
}

#[test]
fn a_rate_limit_is_waited_for_as_told() {
    let refusal = "429 Too Many Requests\r\nRetry-After: 3600\r\n";
    spoilt("GET", Damage::Instead(refusal), 1, &["rate-limited", "wants no calls for another 3"]);
}

#[test]
fn an_answer_that_never_comes_or_breaks_off_is_no_empty_zone() {
    spoilt("GET", Damage::Silence, 1, &["no answer in time", "hint:"]);
    spoilt("GET", Damage::Truncated, 1, &["hint:"]);
    spoilt("GET", Damage::CutAfter, 1, &["the connection broke", "hint:"]);
}

#[test]
fn a_write_whose_answer_is_lost_is_found_out_and_not_doubled() {
    let server = Pdns::start();
    let (env, proxy) = behind_proxy(&server);
    proxy.spoil("PATCH", "/zones", Damage::CutAfter);
    // The server did it: looking again says so, that is no error, and it counts.
    env.run(&["apply", "--yes"])
        .exits(0)
        .says(&["Applied: 1 created, 0 updated, 0 replaced, 1 deleted, 0 adopted"]);
    assert_eq!(proxy.spoilt(), 1, "the write was sent again");
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1"), ("new A", "300 192.0.2.3")]));
    assert_eq!(env.sql("SELECT count(*) FROM journal WHERE ended < total"), "0");
    proxy.heal();
    env.in_sync();
}

#[test]
fn a_write_that_fails_is_done_again() {
    spoilt("PATCH", Damage::Instead("503 Service Unavailable\r\n"), 1, &["answered 503"]);
    spoilt("PATCH", Damage::Silence, 1, &["no answer in time", "not tried again by itself"]);
}
