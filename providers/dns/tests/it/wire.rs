//! PowerDNS as a server that fails: each failure has one clear meaning, and no error is an empty zone.

use crate::{
    script::{Answer, Request, Script},
    world::{Notes, batch, cx, desired, observe, scope},
};
use reconciled_dns::powerdns::{Config, connect};
use reconciled_provider::{
    Batch, Error, ErrorKind, Observation, Observed, Op, Provider, Resource, SecretRef, Version,
};
use reconciled_testkit::ports::NOBODY;
use std::{sync::Arc, time::Duration};

const ZONE: &str = "example.com";
const PROBE: &str = r#"{"serial": 5, "soa_edit_api": "DEFAULT"}"#;
const FULL: &str = r#"{"serial": 5, "soa_edit_api": "DEFAULT", "rrsets": [
    {"name": "example.com.", "type": "SOA", "ttl": 60, "records": [{"content": "a. b. 5 1 1 1 1", "disabled": false}], "comments": []},
    {"name": "a.example.com.", "type": "A", "ttl": 60, "records": [{"content": "192.0.2.1", "disabled": false}], "comments": []}]}"#;

fn provider(url: &str) -> Arc<dyn Provider> {
    let mut config = Config::new(url);
    config.options.timeout = Duration::from_secs(1);
    connect("test", "dns1", config, SecretRef::Named("key".into())).unwrap()
}

fn say(status: u16, body: &str) -> Answer {
    Answer::Say(status, body.into())
}

/// What reading a zone comes to when the server answers once.
async fn read(answer: Answer) -> Result<Observation, Error> {
    let script = Script::play(vec![answer]);
    observe(&*provider(&script.url), &cx("canary"), ZONE).await
}

async fn refuse_read(answer: Answer, kind: ErrorKind, part: &str) -> Error {
    let error = read(answer.clone()).await.unwrap_err();
    assert_eq!(error.kind, kind, "{answer:?}: {}", error.chain());
    let text = format!("{} / {:?}", error.chain(), error.hint);
    assert!(text.contains(part), "{answer:?}: {text}");
    assert!(text.contains("read zone example.com at http://127.0.0.1:"), "{text}");
    assert!(!text.contains("canary"), "{text}");
    error
}

#[tokio::test]
async fn no_failure_to_read_is_an_empty_zone() {
    assert_eq!(read(say(200, FULL)).await.unwrap().resources.len(), 3);
    // No zone is without a SOA, so a list without one was cut.
    let empty = r#"{"serial": 5, "soa_edit_api": "DEFAULT", "rrsets": []}"#;
    refuse_read(say(200, empty), ErrorKind::Unexpected, "never transferred").await;
    refuse_read(say(200, &FULL[..FULL.len() / 2]), ErrorKind::Unexpected, "not what the API gives").await;
    refuse_read(say(200, "<html>login</html>"), ErrorKind::Unexpected, "is `url` the API").await;
    refuse_read(say(200, ""), ErrorKind::Unexpected, "not what the API gives").await;
    refuse_read(Answer::Cut(FULL.into(), 60), ErrorKind::Unavailable, "the connection broke").await;
    refuse_read(Answer::Hang, ErrorKind::Unavailable, "the connection broke").await;
    refuse_read(Answer::Silence, ErrorKind::Unavailable, "no answer in time").await;
    refuse_read(say(401, "Unauthorized"), ErrorKind::PermissionDenied, "apiKey").await;
    refuse_read(say(500, "{\"error\": \"db\\u001b[2J gone\"}"), ErrorKind::Unavailable, "db [2J gone").await;
    // What stands between may echo the key that it was sent, and an answer may be what nobody expects.
    let echo = say(500, "{\"error\": \"boom key=canary\"}");
    refuse_read(echo, ErrorKind::Unavailable, "boom key=(secret)").await;
    refuse_read(say(502, "key=canary"), ErrorKind::Unavailable, "key=(secret)").await;
    refuse_read(say(200, "\"canary\""), ErrorKind::Unexpected, "(secret)").await;
    refuse_read(Answer::With(302, "Location: http://evil.example/"), ErrorKind::Invalid, "not followed")
        .await;
    let limited = refuse_read(Answer::With(429, "Retry-After: 17"), ErrorKind::RateLimited, "429").await;
    assert_eq!(limited.retry_after, Some(Duration::from_secs(17)));
}

#[tokio::test]
async fn a_zone_is_missing_only_when_the_list_of_zones_says_so_too() {
    let read = async |answers: Vec<Answer>| {
        let script = Script::play(answers);
        observe(&*provider(&script.url), &cx("key"), ZONE).await
    };
    let absent = read(vec![say(404, "Not Found"), say(200, "[]")]).await.unwrap();
    assert_eq!((absent.version, absent.complete), (Version::Absent, true));
    let html = "<html>no such page</html>";
    let elsewhere = read(vec![say(404, html), say(404, html)]).await.unwrap_err();
    assert!(elsewhere.hint.as_ref().unwrap().contains("check `url`"));
    let listed = r#"[{"name": "example.com.", "serial": 5}]"#;
    let created = read(vec![say(404, "Not Found"), say(200, listed)]).await.unwrap_err();
    assert_eq!(created.kind, ErrorKind::Conflict);
}

#[tokio::test]
async fn a_server_that_is_down_is_unavailable_and_the_hint_says_what_to_look_at() {
    let url = format!("http://127.0.0.1:{NOBODY}");
    let error = observe(&*provider(&url), &cx("key"), ZONE).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("no connection") && error.hint.as_ref().unwrap().contains("running"));
}

fn seen() -> Observation {
    let mut resources = vec![
        Observed::new("example.com.".into(), &b"zone"[..]),
        Observed::new("old.example.com./A".into(), &b"60\n192.0.2.1"[..]),
    ];
    resources.sort_by(|a, b| a.id.cmp(&b.id));
    let version = Version::At("s:5:dns1".into());
    Observation { covered: reconciled_provider::Focus::All, complete: true, version, resources }
}

fn creates(wanted: &[Resource]) -> Vec<Op> {
    wanted.iter().map(|r| Op::Create { desired: r.clone(), delta: Default::default() }).collect()
}

/// A batch that creates `count` records in a zone that exists.
fn records(provider: &dyn Provider, count: usize) -> Batch {
    let list: Vec<String> =
        (0..count).map(|i| format!("{{name: h{i}, type: A, values: [192.0.2.{}]}}", i % 250)).collect();
    batch(ZONE, &seen(), creates(&desired(provider, ZONE, &list)[1..]))
}

/// Applies a batch of `count` creates; returns what was asked after the probe, the notes and the result.
async fn write(
    count: usize,
    answers: Vec<Answer>,
) -> (Vec<(String, String)>, Batch, Notes, Result<(), Error>) {
    let mut all = vec![say(200, PROBE)];
    all.extend(answers);
    let script = Script::play(all);
    let provider = provider(&script.url);
    let batch = records(&*provider, count);
    let notes = Notes::default();
    let result = provider.apply(&cx("key"), &batch, &notes).await;
    let requests = script.requests().split_off(1);
    (requests, batch, notes, result)
}

#[tokio::test]
async fn a_write_is_one_patch_with_the_mark_and_deletions_first() {
    let script = Script::play(vec![say(200, PROBE), say(204, "")]);
    let provider = provider(&script.url);
    let seen = seen();
    let mut ops =
        creates(&desired(&*provider, ZONE, &["{name: t, type: TXT, values: ['a\"b']}".into()])[1..]);
    ops.push(Op::Delete {
        observed: seen.get(&"old.example.com./A".into()).unwrap().clone().into(),
        tracked: None,
    });
    let notes = Notes::default();
    provider.apply(&cx("key"), &batch(ZONE, &seen, ops), &notes).await.unwrap();
    let requests = script.requests();
    assert_eq!(requests[0].0, "GET /api/v1/servers/localhost/zones/example.com.?rrsets=false");
    assert_eq!(requests[1].0, "PATCH /api/v1/servers/localhost/zones/example.com.");
    assert_eq!(
        requests[1].1,
        concat!(
            r#"{"rrsets":[{"name":"old.example.com.","type":"A","changetype":"DELETE"},"#,
            r#"{"name":"t.example.com.","type":"TXT","changetype":"REPLACE","ttl":300,"#,
            r#""records":[{"content":"\"a\\\"b\""}],"#,
            r#""comments":[{"account":"reconciled","content":"dns1"}]}]}"#,
        )
    );
}

#[tokio::test]
async fn creating_a_zone_is_one_post_with_its_records() {
    let script = Script::play(vec![say(201, "{}")]);
    let provider = provider(&script.url);
    let wanted = desired(&*provider, ZONE, &["{name: a, type: A, values: [192.0.2.1]}".into()]);
    let absent = Observation { version: Version::Absent, resources: Vec::new(), ..seen() };
    let notes = Notes::default();
    provider.apply(&cx("key"), &batch(ZONE, &absent, creates(&wanted)), &notes).await.unwrap();
    let requests = script.requests();
    assert_eq!(requests[0].0, "POST /api/v1/servers/localhost/zones?rrsets=false");
    assert_eq!(
        requests[0].1,
        concat!(
            r#"{"name":"example.com.","kind":"Native","soa_edit_api":"DEFAULT","serial":1970010150,"nameservers":[],"#,
            r#""rrsets":[{"name":"a.example.com.","type":"A","ttl":300,"#,
            r#""records":[{"content":"192.0.2.1"}],"#,
            r#""comments":[{"account":"reconciled","content":"dns1"}]}]}"#,
        )
    );
    assert_eq!(notes.counts(), [("done", 2)].into());
}

#[tokio::test]
async fn an_answer_that_was_lost_leaves_the_outcome_unknown() {
    for answer in [Answer::Hang, Answer::Silence, say(500, "boom"), say(504, "")] {
        let (requests, _, notes, result) = write(3, vec![answer.clone()]).await;
        assert_eq!(result.unwrap_err().kind, ErrorKind::Unavailable, "{answer:?}");
        assert_eq!(notes.counts(), [("unknown", 3)].into(), "{answer:?}");
        assert_eq!(requests.len(), 1, "nothing is sent after an unknown outcome");
    }
}

#[tokio::test]
async fn a_write_that_something_in_between_says_yes_to_is_not_taken_for_done() {
    let (_, _, notes, result) = write(2, vec![say(200, "<html>please log in</html>")]).await;
    assert_eq!(result.unwrap_err().kind, ErrorKind::Unexpected);
    assert_eq!(notes.counts(), [("unknown", 2)].into());
}

#[tokio::test]
async fn a_refusal_of_the_whole_has_no_effect_and_stops_the_batch() {
    for (answer, kind) in [
        (say(401, "Unauthorized"), ErrorKind::PermissionDenied),
        (say(404, "Not Found"), ErrorKind::Conflict),
        (Answer::With(429, "Retry-After: 3"), ErrorKind::RateLimited),
    ] {
        let (_, _, notes, result) = write(2, vec![answer]).await;
        assert_eq!(result.unwrap_err().kind, kind);
        assert_eq!(notes.counts(), [("failed", 2)].into());
    }
}

fn patches(requests: &[Request]) -> Vec<&Request> {
    requests.iter().filter(|(line, _)| line.starts_with("PATCH")).collect()
}

#[tokio::test]
async fn a_culprit_nobody_names_is_found_by_halves() {
    let no = || say(422, r#"{"error": "something is wrong somewhere"}"#);
    // 4 records, the third is bad: all, first half, second half, third alone, fourth alone. Before each but the first
    // the zone is asked for, of which the first half raised the serial.
    let (five, six) = (|| say(200, PROBE), || say(200, &PROBE.replace('5', "6")));
    let answers = vec![no(), five(), say(204, ""), six(), no(), six(), no(), six(), say(204, "")];
    let (requests, batch, notes, result) = write(4, answers).await;
    result.unwrap();
    assert_eq!((patches(&requests).len(), requests.len()), (5, 9));
    assert_eq!(notes.counts(), [("done", 3), ("failed", 1)].into());
    assert!(notes.outcome(&batch, "h2.example.com./A").contains("something is wrong"));
    assert_eq!(notes.started.lock().unwrap().len(), 1, "the intent was durable before the first of them");
}

#[tokio::test]
async fn a_body_the_server_finds_too_large_is_split() {
    let big = || say(400, "Bad Request");
    let (five, six) = (say(200, PROBE), say(200, &PROBE.replace('5', "6")));
    let (requests, _, notes, result) = write(1_000, vec![big(), five, say(204, ""), six, say(204, "")]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("done", 1_000)].into());
    let sizes: Vec<usize> = patches(&requests).iter().map(|(_, body)| body.len()).collect();
    assert!(sizes[0] > sizes[1] + sizes[2] - 100, "{sizes:?}");
}

#[tokio::test]
async fn a_zone_that_moved_is_a_conflict_before_anything_is_sent() {
    let script = Script::play(vec![say(200, &PROBE.replace('5', "6"))]);
    let provider = provider(&script.url);
    let notes = Notes::default();
    let error = provider.apply(&cx("key"), &records(&*provider, 1), &notes).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert_eq!(script.requests().len(), 1);
    assert!(notes.started.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_list_of_zones_is_never_half_a_list() {
    let list = r#"[{"name": "example.com.", "serial": 5}, {"name": "example.net.", "serial": 6}]"#;
    let script = Script::play(vec![say(200, list), say(200, &list[..40]), say(200, "{}")]);
    let provider = provider(&script.url);
    let versions = provider.versions(&cx("key"), &[scope(ZONE)]).await.unwrap();
    assert_eq!(versions[&scope(ZONE)], Version::At("s:5:dns1".into()));
    for _ in 0..2 {
        let error = provider.versions(&cx("key"), &[scope(ZONE)]).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unexpected);
    }
    assert_eq!(script.requests()[0].0, "GET /api/v1/servers/localhost/zones?dnssec=false&zone=example.com.");
    // Who asks for one does not pay for all of them; of several all are listed.
    let script = Script::play(vec![say(200, list)]);
    let scopes = [scope(ZONE), scope("example.org")];
    let versions = self::provider(&script.url).versions(&cx("key"), &scopes).await.unwrap();
    assert_eq!(versions.values().collect::<Vec<_>>(), [&Version::At("s:5:dns1".into()), &Version::Absent]);
    assert_eq!(script.requests()[0].0, "GET /api/v1/servers/localhost/zones?dnssec=false");
}
