//! What goes wrong, for each backend. The table says which test plays what; a dash is a fault that a backend cannot have.
//!
//! | fault | powerdns | rfc2136 | cloudflare | route53 | webhook | zonefile |
//! |---|---|---|---|---|---|---|
//! | a list breaks off, page 2 fails | `wire` half a list | `broken` no transfer that breaks | a page that fails | no failure to read | no failure to read | a file with a mistake |
//! | 200 with nonsense | `wire` no failure to read | `broken` flipped bits | a page that fails | no failure to read | what a proxy says | a file with a mistake |
//! | an empty list | `wire` no failure to read | a zone that is not there | an empty list | no failure to read | here | a directory that is gone |
//! | wrong credentials | the wrong key | a key the server does not know | wrong credentials | no failure to read | who wants credentials | - |
//! | a clock that is wrong | - | a clock that goes wrong | - | here | - | - |
//! | too many calls for an hour | here | - | too many calls | calls take their turn | too many calls | - |
//! | one bad record in 500 | here | one refused record | one bad record | one bad set | one bad record | here |
//! | the connection ends after the commit | `wire` an answer that was lost | `broken` an update without an answer | a write without an answer | the same | the same | - |
//! | a person edits between look and write | a stale plan | an edit between | a person who edits | what somebody changes | a person who edits | an edit while check runs |
//! | a person edits between two requests | `between` | `between` | `between` | `between` | `between` | - |
//! | the zone is deleted meanwhile | here | `broken` a zone that was removed | a zone that goes while it is written | here | here | here |
//! | a write is answered and not done | here | what the server ignores | here | here | here | a reload that failed |
//! | the service changes what it is given | here | here | here, what somebody proxies | here | here, what the provider adjusts | here |
//!
//! That a difference which no write takes away ends as a named condition, and not in a storm of writes, is the engine's
//! and tested there (`sim`, flapping), and with the whole program at a server that does so in `tests/it/fighting.rs`.

use crate::{
    dnsd::{Dnsd, Kind},
    fake::{Fake, Fault, Passed, Play, Reply, Request},
    fake_cloudflare, fake_route53, fake_webhook,
    pdns::Pdns,
    world::{self, Notes, apply, converge, cx, desired, observe_for, plan},
};
use reconciled_dns::{powerdns, zonefile};
use reconciled_provider::{
    Clock, Cx, ErrorKind, Focus, Provider, Resource, SecretRef, Tracked, Version, Want,
};
use reconciled_testkit::context::HandClock;
use std::{fs, sync::Arc, time::Duration};

const ZONE: &str = "example.com";

fn hosts(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{{name: h{i}, type: A, values: [10.0.{}.{}]}}", i >> 8, i & 255)).collect()
}

fn wanted(provider: &dyn Provider) -> Vec<Resource> {
    desired(provider, ZONE, &hosts(2))
}

/// What stands before a server and has had enough for an hour.
struct Busy;

impl Play for Busy {
    fn answer(&mut self, _: &Request) -> Reply {
        Reply::new(429, "slow down")
    }
}

#[tokio::test]
async fn an_hour_of_too_many_calls_before_powerdns_is_a_call_a_minute() {
    let fake = Fake::start(Busy);
    let key = SecretRef::Env("K".into());
    let provider = powerdns::connect("test", "dns1", powerdns::Config::new(&fake.url), key).unwrap();
    let clock = Arc::new(HandClock::default());
    let cx = Cx { clock: clock.clone(), ..cx("k") };
    while clock.now() < Duration::from_secs(3_600) {
        for zone in ["a.example", "b.example", "c.example"] {
            let error = observe_for(&*provider, &cx, zone, &[]).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::RateLimited);
        }
        clock.advance(Duration::from_secs(10));
    }
    assert_eq!(fake.lines().len(), 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_record_in_five_hundred_at_powerdns_is_named_and_takes_one_more_request() {
    let server = Pdns::start().await;
    let fake = Fake::start(Passed { server: server.url.replace("http://", "") });
    let (provider, cx) = (server.provider_with(|config| config.url = fake.url.clone()), server.cx());
    converge(&*provider, &cx, ZONE, &desired(&*provider, ZONE, &hosts(1)), &[]).await;
    let mut wanted = desired(&*provider, ZONE, &hosts(500));
    wanted[334].spec = reconciled_provider::Spec::known(b"300\nnonsense".to_vec());
    fake.asked();
    let (batch, notes, result) = apply(&*provider, &cx, ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("done", 498), ("failed", 1)].into());
    assert!(notes.outcome(&batch, "h333.example.com./A").contains("nonsense"));
    assert_eq!(fake.lines().iter().filter(|line| line.starts_with("PATCH")).count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_record_in_five_hundred_of_a_zone_file_is_named_by_what_checks_it() {
    let directory = tempfile::tempdir().unwrap();
    let runs = directory.path().join("runs");
    let mut config = zonefile::Config::new(directory.path());
    config.nameservers = vec!["ns1.example.net".into()];
    let script = format!("echo >> {}; exec named-checkzone -k fail \"$0\" \"$1\"", runs.display());
    config.check = ["sh", "-c", &script, "{zone}", "{file}"].map(String::from).into();
    let files = zonefile::open("test", "dns1", config).unwrap();
    converge(&*files, &cx(""), ZONE, &desired(&*files, ZONE, &hosts(1)), &[]).await;
    let mut records = hosts(500);
    records.push("{name: bad_host, type: A, values: [192.0.2.1]}".into());
    // Good, but not without a record that is written behind it.
    records.push("{name: '@', type: NS, values: [ns1.example.net., z.example.com.]}".into());
    records.push("{name: z, type: A, values: [192.0.2.53]}".into());
    fs::remove_file(&runs).unwrap();
    let wanted = desired(&*files, ZONE, &records);
    let (batch, notes, result) = apply(&*files, &cx(""), ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("done", 501), ("failed", 1)].into());
    let told = notes.outcome(&batch, "bad_host.example.com./A");
    assert!(told.contains("failed: invalid") && told.contains("bad owner name"), "{told}");
    let runs = fs::read_to_string(runs).unwrap().len();
    assert!(runs < 40, "{runs}");
    let seen = observe_for(&*files, &cx(""), ZONE, &wanted).await.unwrap();
    let left = plan(&*files, &cx(""), ZONE, &wanted, &[], &seen).await;
    assert_eq!(
        left.actions.iter().map(|action| &*action.op.id().0).collect::<Vec<_>>(),
        ["bad_host.example.com./A"]
    );
    let names: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "no draft is left: {names:?}");
}

#[tokio::test]
async fn a_clock_that_route53_does_not_accept_is_told_as_such() {
    for code in ["RequestTimeTooSkewed", "RequestExpired"] {
        let fake = fake_route53::start();
        fake.with(|route53| route53.add_zone(ZONE));
        let provider = fake_route53::provider(&fake);
        fake.fail("GET", 0, Fault::Say(fake_route53::error(403, code, "Signature expired")));
        let error = observe_for(&*provider, &fake_route53::cx(), ZONE, &[]).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
        assert!(error.hint.as_ref().unwrap().contains("NTP"), "{error:?}");
    }
}

/// Plans a change, has the zone deleted, and applies: nothing is written, and the zone does not come back.
async fn deleted_meanwhile(provider: &dyn Provider, cx: &Cx, delete: impl AsyncFnOnce()) {
    converge(provider, cx, ZONE, &wanted(provider), &[]).await;
    let more = desired(provider, ZONE, &hosts(3));
    let seen = observe_for(provider, cx, ZONE, &more).await.unwrap();
    let batch = plan(provider, cx, ZONE, &more, &[], &seen).await;
    assert_eq!(batch.actions.len(), 1);
    delete().await;
    let notes = Notes::default();
    let error = provider.apply(cx, &batch, &notes).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    assert!(notes.started.lock().unwrap().is_empty(), "{:?}", notes.counts());
    let now = observe_for(provider, cx, ZONE, &more).await.unwrap();
    assert_eq!(now.resources, [], "{now:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_is_deleted_meanwhile_is_a_conflict_and_does_not_come_back() {
    let server = Pdns::start().await;
    deleted_meanwhile(&*server.provider(), &server.cx(), async || {
        server.change("DELETE", "/zones/example.com.", "").await;
    })
    .await;

    let fake = fake_route53::start();
    fake.with(|route53| route53.add_zone(ZONE));
    deleted_meanwhile(&*fake_route53::provider(&fake), &fake_route53::cx(), async || {
        fake.with(|route53| route53.zones.clear());
    })
    .await;

    let fake = fake_webhook::start();
    deleted_meanwhile(&*fake_webhook::provider(&fake), &cx(""), async || {
        fake.with(|webhook| webhook.records.clear());
    })
    .await;

    let directory = tempfile::tempdir().unwrap();
    let files = zonefile::open("test", "dns1", zonefile::Config::new(directory.path())).unwrap();
    deleted_meanwhile(&*files, &cx(""), async || {
        fs::remove_file(directory.path().join("example.com.zone")).unwrap();
    })
    .await;
}

/// What a webhook provider says that has lost its credentials, or swallows an error.
fn say_nothing(fake: &Fake<fake_webhook::Webhook>, nothing: &str, after: usize) {
    let reply = Reply::new(200, nothing).with("Content-Type", fake_webhook::MEDIA_TYPE);
    fake.fail("GET /records", after, Fault::Say(reply));
}

#[tokio::test]
async fn an_empty_list_of_a_webhook_is_believed_only_when_it_is_said_again_later() {
    for nothing in ["null", "[]"] {
        let fake = fake_webhook::start();
        let provider = fake_webhook::provider(&fake);
        let clock = Arc::new(HandClock::default());
        let cx = Cx { clock: clock.clone(), ..cx("") };
        let wanted = wanted(&*provider);
        converge(&*provider, &cx, ZONE, &wanted, &[]).await;
        let scope = world::scope(ZONE);
        let tracked: Vec<Tracked> =
            wanted.iter().map(|r| Tracked::new(r.id.clone(), r.spec.hash().unwrap())).collect();
        let look = async |tracked: &[Tracked]| {
            let want = Want { scope: &scope, focus: &Focus::All, desired: &wanted, tracked, claims: &[] };
            provider.observe(&cx, &want).await
        };
        let is_doubted = async || {
            let error = look(&tracked).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Unavailable);
            assert!(
                error.message.ends_with("no records at all, while 2 of example.com are tracked"),
                "{error}"
            );
        };
        // Also where one list told of all zones.
        say_nothing(&fake, nothing, 0);
        let versions = provider.versions(&cx, std::slice::from_ref(&scope)).await.unwrap();
        assert_eq!(versions[&scope], Version::Absent);
        is_doubted().await;
        clock.advance(Duration::from_secs(59));
        say_nothing(&fake, nothing, 0);
        is_doubted().await;
        // It was a mistake.
        assert_eq!(look(&tracked).await.unwrap().resources.len(), 2);

        clock.advance(Duration::from_secs(3_600));
        say_nothing(&fake, nothing, 0);
        is_doubted().await;
        // Where nothing is tracked there is nothing to lose.
        say_nothing(&fake, nothing, 0);
        assert_eq!(look(&[]).await.unwrap().version, Version::Absent);
        // Who really deletes everything waits for a minute.
        clock.advance(Duration::from_secs(60));
        say_nothing(&fake, nothing, 0);
        assert_eq!(look(&tracked).await.unwrap().version, Version::Absent);
    }
}

#[tokio::test]
async fn an_empty_list_after_a_refusal_says_of_no_deletion_that_it_was_done() {
    let fake = fake_webhook::start();
    let provider = fake_webhook::provider(&fake);
    converge(&*provider, &cx(""), ZONE, &wanted(&*provider), &[]).await;
    let seen = observe_for(&*provider, &cx(""), ZONE, &[]).await.unwrap();
    let left = desired(&*provider, ZONE, &hosts(1));
    let batch = plan(&*provider, &cx(""), ZONE, &left, &["h1.example.com./A"], &seen).await;
    fake.fail("POST /records", 0, Fault::Say(Reply::new(500, "down")));
    say_nothing(&fake, "[]", 1);
    let notes = Notes::default();
    let _ = provider.apply(&cx(""), &batch, &notes).await;
    assert_eq!(notes.counts(), [("unknown", 1)].into());
    // What is deleted may be all there is.
    let seen = observe_for(&*provider, &cx(""), ZONE, &[]).await.unwrap();
    let all = ["h0.example.com./A", "h1.example.com./A"];
    let batch = plan(&*provider, &cx(""), ZONE, &[], &all, &seen).await;
    fake.fail("POST /records", 0, Fault::DoAndSay(Reply::new(500, "late")));
    let notes = Notes::default();
    provider.apply(&cx(""), &batch, &notes).await.unwrap();
    assert_eq!(notes.counts(), [("gone", 2)].into());
}

/// Changes a record while the service says yes and does nothing: the next look wants the same again.
async fn says_yes_and_does_nothing(provider: &dyn Provider, cx: &Cx, deafen: impl FnOnce()) {
    converge(provider, cx, ZONE, &wanted(provider), &[]).await;
    let changed = desired(provider, ZONE, &[hosts(1)[0].replace("10.0", "10.9"), hosts(2)[1].clone()]);
    deafen();
    let (batch, notes, result) = apply(provider, cx, ZONE, &changed, &[]).await;
    result.unwrap();
    assert_eq!((batch.actions.len(), notes.counts()), (1, [("done", 1)].into()), "it said so");
    let seen = observe_for(provider, cx, ZONE, &changed).await.unwrap();
    let again = plan(provider, cx, ZONE, &changed, &[], &seen).await;
    assert_eq!(again.actions.len(), 1);
    assert_eq!(again.actions[0].op.id(), batch.actions[0].op.id());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_answered_and_not_done_is_still_wanted() {
    let server = Pdns::start().await;
    let fake = Fake::start(Passed { server: server.url.replace("http://", "") });
    let through = server.provider_with(|config| config.url = fake.url.clone());
    says_yes_and_does_nothing(&*through, &server.cx(), || {
        fake.fail("PATCH", 0, Fault::Say(Reply::new(204, "")));
    })
    .await;

    let fake = fake_cloudflare::start();
    fake.with(|cloudflare| cloudflare.add_zone(ZONE, "free"));
    says_yes_and_does_nothing(&*fake_cloudflare::provider(&fake, "dns1"), &fake_cloudflare::cx(), || {
        let yes = r#"{"success": true, "errors": [], "result": {}}"#;
        fake.fail("dns_records/batch", 0, Fault::Say(Reply::new(200, yes)));
    })
    .await;

    let fake = fake_route53::start();
    fake.with(|route53| route53.add_zone(ZONE));
    says_yes_and_does_nothing(&*fake_route53::provider(&fake), &fake_route53::cx(), || {
        let yes = "<ChangeResourceRecordSetsResponse><ChangeInfo><Id>/change/C9</Id><Status>INSYNC</Status></ChangeInfo>\
                   </ChangeResourceRecordSetsResponse>";
        fake.fail("POST", 0, Fault::Say(Reply::new(200, yes)));
    })
    .await;

    let fake = fake_webhook::start();
    says_yes_and_does_nothing(&*fake_webhook::provider(&fake), &cx(""), || {
        fake.fail("POST /records", 0, Fault::Say(Reply::new(204, "")));
    })
    .await;
}

/// A service that keeps another value than it is given: that is a difference at each look, with both sides.
async fn keeps_something_else(provider: &dyn Provider, cx: &Cx, wanted: &[Resource], change: impl AsyncFn()) {
    for _ in 0..2 {
        let (_, _, result) = apply(provider, cx, ZONE, wanted, &[]).await;
        result.unwrap();
        change().await;
        let seen = observe_for(provider, cx, ZONE, wanted).await.unwrap();
        let deltas = world::diff(provider, cx, ZONE, wanted, &seen).await;
        let ids: Vec<&str> = deltas.keys().map(|id| &*id.0).collect();
        assert_eq!(ids, ["h0.example.com./A"]);
        let delta = deltas[&"h0.example.com./A".into()].as_ref().unwrap();
        let values = delta.fields.iter().find(|field| &*field.path == "values").unwrap();
        let sides = format!("{:?} {:?}", values.before, values.after);
        assert!(sides.contains("192.0.2.99") && sides.contains("10.0.0.0"), "{sides}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_service_makes_of_a_value_is_a_difference_and_never_swallowed() {
    let server = Pdns::start().await;
    let provider = server.provider();
    let body = r#"{"rrsets": [{"name": "h0.example.com.", "type": "A", "ttl": 300, "changetype": "REPLACE",
        "records": [{"content": "192.0.2.99", "disabled": false}]}]}"#;
    keeps_something_else(&*provider, &server.cx(), &wanted(&*provider), async || {
        server.change("PATCH", "/zones/example.com.", body).await;
    })
    .await;

    let server = Dnsd::with_example(Kind::Bind).await;
    let provider = server.provider();
    let records = wanted(&*provider).split_off(1);
    keeps_something_else(&*provider, &server.cx(), &records, async || {
        let lines = "update delete h0.example.com. A\nupdate add h0.example.com. 300 A 192.0.2.99";
        server.change(ZONE, lines);
    })
    .await;

    let fake = fake_cloudflare::start();
    fake.with(|cloudflare| cloudflare.add_zone(ZONE, "free"));
    let provider = fake_cloudflare::provider(&fake, "dns1");
    keeps_something_else(&*provider, &fake_cloudflare::cx(), &wanted(&*provider), async || {
        fake.with(|cloudflare| {
            cloudflare.remove(ZONE, "h0.example.com", "A");
            let record = serde_json::json!({"name": "h0.example.com", "type": "A", "content": "192.0.2.99", "ttl": 300});
            cloudflare.put(ZONE, record);
        });
    })
    .await;

    let fake = fake_route53::start();
    fake.with(|route53| route53.add_zone(ZONE));
    let provider = fake_route53::provider(&fake);
    keeps_something_else(&*provider, &fake_route53::cx(), &wanted(&*provider), async || {
        fake.with(|route53| route53.put(ZONE, "h0.example.com", "A", &["192.0.2.99"]));
    })
    .await;

    let fake = fake_webhook::start();
    let provider = fake_webhook::provider(&fake);
    keeps_something_else(&*provider, &cx(""), &wanted(&*provider), async || {
        fake.with(|webhook| webhook.put("h0.example.com", "A", "192.0.2.99"));
    })
    .await;

    let directory = tempfile::tempdir().unwrap();
    let files = zonefile::open("test", "dns1", zonefile::Config::new(directory.path())).unwrap();
    keeps_something_else(&*files, &cx(""), &wanted(&*files), async || {
        let path = directory.path().join("example.com.zone");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace("10.0.0.0", "192.0.2.99")).unwrap();
    })
    .await;
}
