//! A large zone that was made here: read back as text where that says all, and as a list everywhere else.

use crate::{
    fake::{Fake, Fault, Passed, Reply, Request},
    pdns::Pdns,
    world::{Notes, apply, batch, desired, every_type, observe, observe_for},
};
use reconciled_provider::{Observation, Op, Owner};

const ZONE: &str = "example.com";
/// From so many sets on it is worth while.
const LARGE: usize = 500;

fn records(count: usize) -> Vec<String> {
    let hosts = (0..count).map(|i| format!("{{name: h{i}, type: A, values: [10.0.{}.{}]}}", i >> 8, i & 255));
    every_type().into_iter().chain(hosts).collect()
}

/// How a zone that was made just now was read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Read {
    AsText,
    AsList,
}

/// Makes a zone of `count` records and more, in bodies of `most` bytes, has `meanwhile` happen and reads it: as `expected`, and always
/// as a list tells it.
async fn check(
    (count, most, marks): (usize, usize, bool),
    expected: Read,
    meanwhile: impl AsyncFnOnce(&Pdns, &Fake<Passed>),
) -> Observation {
    let server = Pdns::start().await;
    let fake = Fake::start(Passed { server: server.url.replace("http://", "") });
    let provider = server.provider_with(|config| {
        config.url = fake.url.clone();
        config.max_body = most;
        config.marks = marks;
    });
    let cx = server.cx();
    let wanted = desired(&*provider, ZONE, &records(count));
    let (_, notes, result) = apply(&*provider, &cx, ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("done", wanted.len())].into());
    fake.asked();
    meanwhile(&server, &fake).await;
    let seen = observe_for(&*provider, &cx, ZONE, &wanted).await.unwrap();
    let read = || {
        let asked = fake.asked();
        let is_list =
            |request: &Request| request.path.ends_with("/zones/example.com.") && request.query.is_empty();
        if asked.iter().any(is_list) { Read::AsList } else { Read::AsText }
    };
    assert_eq!(read(), expected);
    // Another entry knows nothing of what this one made.
    let list = observe(&*server.provider_with(|config| config.marks = marks), &cx, ZONE).await.unwrap();
    assert_eq!((&seen.version, seen.complete, &seen.covered), (&list.version, list.complete, &list.covered));
    let differ: Vec<_> = seen.resources.iter().filter(|one| list.get(&one.id) != Some(*one)).collect();
    assert!(differ.is_empty() && seen.resources.len() == list.resources.len(), "{differ:#?}");
    observe_for(&*provider, &cx, ZONE, &wanted).await.unwrap();
    assert_eq!(read(), Read::AsList, "once only");
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_at_once_or_in_parts_is_read_back_as_text() {
    for (most, marks) in [(2_000_000, true), (2_000_000, false), (60_000, true)] {
        let seen = check((LARGE, most, marks), Read::AsText, async |_, _| {}).await;
        let ours = seen.resources.iter().filter(|observed| observed.owner == Owner::Ours).count();
        assert_eq!(ours > LARGE, marks, "{ours}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_zone_is_read_as_ever() {
    check((1, 2_000_000, true), Read::AsList, async |_, _| {}).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_wrote_since_is_seen() {
    let changes = [
        r#"{"name": "h0.example.com.", "type": "A", "ttl": 300, "changetype": "REPLACE", "records": [{"content": "192.0.2.9"}]}"#,
        r#"{"name": "h0.example.com.", "type": "A", "changetype": "DELETE"}"#,
        r#"{"name": "h0.example.com.", "type": "A", "ttl": 300, "changetype": "REPLACE", "records": [{"content": "10.0.0.0"}],
            "comments": [{"account": "reconciled", "content": "dns2"}]}"#,
        r#"{"name": "new.example.com.", "type": "A", "ttl": 300, "changetype": "REPLACE", "records": [{"content": "10.0.0.0"}]}"#,
    ];
    for change in changes {
        let meanwhile = async |server: &Pdns, _: &Fake<Passed>| {
            let body = format!(r#"{{"rrsets": [{change}]}}"#);
            server.change("PATCH", "/zones/example.com.", &body).await;
        };
        let seen = check((LARGE, 2_000_000, true), Read::AsList, meanwhile).await;
        let is_as_made = |id: &str| {
            let observed = seen.get(&id.into());
            observed.is_some_and(|o| &o.bytes[..] == b"300\n10.0.0.0" && o.owner == Owner::Ours)
        };
        let is_new = seen.get(&"new.example.com./A".into()).is_some();
        assert_eq!(is_as_made("h0.example.com./A"), is_new, "{change}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_somebody_made_anew_is_seen_as_it_is() {
    let meanwhile = async |server: &Pdns, _: &Fake<Passed>| {
        server.change("DELETE", "/zones/example.com.", "").await;
        let zone =
            r#"{"name": "example.com.", "kind": "Native", "nameservers": [], "soa_edit_api": "DEFAULT"}"#;
        server.change("POST", "/zones?rrsets=false", zone).await;
    };
    let seen = check((LARGE, 2_000_000, true), Read::AsList, meanwhile).await;
    assert_eq!(seen.resources.len(), 2, "the zone and its SOA");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_later_batch_wrote_says_nothing_of_what_came_before_it() {
    let server = Pdns::start().await;
    let (provider, cx) = (server.provider(), server.cx());
    let wanted = desired(&*provider, ZONE, &records(LARGE));
    apply(&*provider, &cx, ZONE, &wanted, &[]).await.2.unwrap();
    let mark = r#"{"rrsets": [{"name": "h0.example.com.", "type": "A", "ttl": 300, "changetype": "REPLACE",
        "records": [{"content": "10.0.0.0"}], "comments": [{"account": "reconciled", "content": "dns2"}]}]}"#;
    server.change("PATCH", "/zones/example.com.", mark).await;
    // Planned without a look at all of the zone by the entry that made it.
    let seen = observe(&*server.provider(), &cx, ZONE).await.unwrap();
    let mut late = desired(&*provider, ZONE, &["{name: late, type: A, values: [192.0.2.1]}".into()]);
    late.retain(|resource| &*resource.id.0 == "late.example.com./A");
    let creates = late.into_iter().map(|desired| Op::Create { desired, delta: Default::default() });
    let notes = Notes::default();
    provider.apply(&cx, &batch(ZONE, &seen, creates.collect()), &notes).await.unwrap();
    assert_eq!(notes.counts(), [("done", 1)].into());
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    let owner = |id: &str| seen.get(&id.into()).unwrap().owner.clone();
    assert_eq!(owner("h0.example.com./A"), Owner::Other("dns2".into()));
    assert_eq!(owner("late.example.com./A"), Owner::Ours);
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_text_counts_for_nothing() {
    let answers = [
        Reply::new(404, r#"{"error": "Not Found"}"#),
        Reply::new(500, ""),
        Reply::new(200, ""),
        Reply::new(200, "<html>Sign in</html>\n"),
        Reply::new(200, "example.com.\t3600\tIN\tSOA\ta. b. 1 2 3 4 5\n"),
    ];
    for answer in answers {
        check((LARGE, 2_000_000, true), Read::AsList, async |_, fake| {
            fake.fail("/export", 0, Fault::Say(answer.clone()));
        })
        .await;
    }
    let cuts: [fn(&str) -> String; 6] = [
        |text| text[..text.len() / 2].into(),
        |text| text.replace("192.0.2.2\n", "192.0.2.3\n"),
        |text| text.replace("example.com.\t60\tIN\tA\t192.0.2.2\n", ""),
        |text| text.lines().skip(1).map(|line| format!("{line}\n")).collect(),
        |text| text.lines().filter(|line| !line.contains("SOA")).map(|line| format!("{line}\n")).collect(),
        |text| {
            let (mut last, mut rest) = (String::new(), String::new());
            for line in text.lines() {
                if line.starts_with("h7.") {
                    last = format!("{line}\n")
                } else {
                    rest += &format!("{line}\n")
                }
            }
            // Both are there, and one of them in two places.
            format!("{}{rest}{last}", last.replace("10.0.0.7", "10.0.0.8"))
        },
    ];
    for cut in cuts {
        check((LARGE, 2_000_000, true), Read::AsList, async |server, fake| {
            let (status, text) = server.http("GET", "/zones/example.com./export", "").await.unwrap();
            assert_eq!((status, cut(&text) == text), (200, false));
            fake.fail("/export", 0, Fault::Say(Reply::new(200, cut(&text))));
        })
        .await;
    }
}
