//! The webhook protocol against a fake that is as strict as its description, and as loose about failures.

use crate::{
    fake::{Fake, Fault, Reply},
    fake_webhook::{self, MEDIA_TYPE, Webhook, provider, provider_with},
    world::{Notes, apply, converge, cx, desired, diff, normalize, observe, observe_for, plan, scope},
};
use reconciled_dns::webhook::{Config, TxtForm, connect};
use reconciled_provider::{Clock, Cx, ErrorKind, LeftAlone, Op, Outcome, Owner, Provider, Resource};
use reconciled_testkit::context::HandClock;
use serde_json::json;
use std::{sync::Arc, time::Duration};

pub(crate) const ZONE: &str = "example.com";

pub(crate) fn start() -> (Fake<Webhook>, Arc<dyn Provider>) {
    let fake = fake_webhook::start();
    let provider = provider(&fake);
    (fake, provider)
}

pub(crate) fn records(list: &[&str]) -> Vec<String> {
    list.iter().map(|record| format!("{{{record}}}")).collect()
}

pub(crate) fn hosts(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{{name: h{i}, type: A, values: [10.0.{}.{}]}}", i >> 8, i & 255)).collect()
}

/// The client kept the rules.
pub(crate) fn nothing_is_wrong(fake: &Fake<Webhook>) {
    assert_eq!(fake.with(|webhook| webhook.wrong.clone()), [""; 0]);
}

pub(crate) async fn wants_nothing(provider: &dyn Provider, wanted: &[Resource]) {
    let seen = observe_for(provider, &cx(""), ZONE, wanted).await.unwrap();
    let batch = plan(provider, &cx(""), ZONE, wanted, &[], &seen).await;
    assert!(batch.actions.is_empty(), "{batch:#?}");
}

#[tokio::test]
async fn a_second_run_is_empty_for_every_type_in_both_forms_of_text() {
    for txt in [TxtForm::Quoted, TxtForm::Plain] {
        let fake = fake_webhook::start();
        let provider = connect("test", Config { txt, ..Config::new(&fake.url) }).unwrap();
        let wanted = desired(
            &*provider,
            ZONE,
            &records(&[
                r#"name: "@", type: A, values: [192.0.2.2, 192.0.2.1], ttl: 60"#,
                r#"name: "@", type: MX, values: [10 mail.example.com., 20 @]"#,
                r#"name: "@", type: CAA, values: ['0 issue "letsencrypt.org; a=b"']"#,
                r#"name: WWW, type: CNAME, values: [Example.COM.]"#,
                r#"name: v6, type: AAAA, values: ["2001:DB8:0:0:1::1"]"#,
                r#"name: _sip._tcp, type: SRV, values: [10 60 5060 sip.example.com.]"#,
                r#"name: "*.dev", type: A, values: [192.0.2.9]"#,
                r#"name: sub, type: NS, values: [ns1.example.net., ns2.example.net.]"#,
                r#"name: txt, type: TXT, values: ["a;b", "it's `x`", "quo\"te", "äö"]"#,
            ]),
        );
        assert!(wanted.iter().all(|resource| resource.id.0.contains('/')), "there are no zones");
        converge(&*provider, &cx(""), ZONE, &wanted, &[]).await;
        nothing_is_wrong(&fake);
    }
}

#[tokio::test]
async fn who_adds_the_quotes_itself_is_sent_the_text_however_it_was_seen_cut() {
    let fake = fake_webhook::start();
    fake.with(|webhook| webhook.quotes = 4);
    let provider = provider_with(&fake, |config| config.txt = TxtForm::Plain);
    for ttl in [300, 301] {
        let record = format!("name: t, type: TXT, ttl: {ttl}, values: [path=/xrp=lp]");
        converge(&*provider, &cx(""), ZONE, &desired(&*provider, ZONE, &records(&[&record])), &[]).await;
    }
    let kept = fake.with(|webhook| webhook.records.values().next().unwrap().clone());
    assert_eq!((&kept["targets"], &kept["recordTTL"]), (&json!([r#""path" "=/xr" "p=lp""#]), &json!(301)));
    nothing_is_wrong(&fake);
}

#[tokio::test]
async fn international_names_are_the_declared_ones_where_they_are_told_as_people_read_them() {
    let (fake, provider) = start();
    fake.with(|webhook| webhook.in_unicode = true);
    for ttl in [300, 301] {
        let wanted = [
            format!("{{name: bücher, type: A, ttl: {ttl}, values: [192.0.2.1]}}"),
            format!("{{name: www, type: CNAME, ttl: {ttl}, values: [bücher.example.com.]}}"),
        ];
        converge(&*provider, &cx(""), ZONE, &desired(&*provider, ZONE, &wanted), &[]).await;
    }
    let told = fake.with(|webhook| webhook.records.values().next_back().unwrap().clone());
    assert_eq!(told["dnsName"], "bücher.example.com");
    converge(&*provider, &cx(""), ZONE, &[], &["xn--bcher-kva.example.com./A"]).await;
    assert_eq!(fake.with(|webhook| webhook.records.len()), 1);
    nothing_is_wrong(&fake);
}

#[tokio::test]
async fn what_is_imported_of_several_strings_is_the_text_that_a_manifest_may_declare_here() {
    let (fake, provider) = start();
    fake.with(|webhook| webhook.put("t.example.com", "TXT", "\"path=/x\" \"rp=lp\""));
    let found = provider.discover(&cx(""), ZONE).await.unwrap().remove(0);
    let text = String::from_utf8(provider.export(&found).unwrap().remove(0).to_vec()).unwrap();
    let spec = text.split_once("\nspec:\n").unwrap().1.replace("  provider: test\n", "");
    let (wanted, problems) = normalize(&*provider, ZONE, &spec);
    assert_eq!((problems, wanted.len()), (Vec::new(), 1), "{text}");
    wants_nothing(&*provider, &wanted).await;
}

#[tokio::test]
async fn what_the_provider_adjusts_is_no_difference_and_is_sent_as_it_was_adjusted() {
    let (fake, provider) = start();
    fake.with(|webhook| (webhook.least_ttl, webhook.property) = (600, Some(("proxied", "true"))));
    let wanted = desired(&*provider, ZONE, &hosts(3));
    let (_, notes, result) = apply(&*provider, &cx(""), ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("done", 3)].into());
    wants_nothing(&*provider, &wanted).await;
    nothing_is_wrong(&fake);
    fake.with(|webhook| {
        let record = webhook.records.values().next().unwrap();
        assert_eq!(record["recordTTL"], 600);
        assert_eq!(record["providerSpecific"], json!([{"name": "proxied", "value": "true"}]));
    });
    // A change of the data still is one, and a provider that keeps no TTL differs in none.
    fake.with(|webhook| webhook.hides_ttl = true);
    let changed: Vec<String> = hosts(3).iter().map(|host| host.replace("10.0", "10.9")).collect();
    let changed = desired(&*provider, ZONE, &changed);
    let (batch, _, result) = apply(&*provider, &cx(""), ZONE, &changed, &[]).await;
    result.unwrap();
    assert_eq!(batch.actions.len(), 3);
    wants_nothing(&*provider, &changed).await;
}

#[tokio::test]
async fn what_the_provider_drops_is_an_error_of_that_record_alone() {
    let (fake, provider) = start();
    fake.with(|webhook| webhook.drops = "CAA");
    let caa = r#"name: "@", type: CAA, values: ['0 issue "letsencrypt.org"']"#;
    let wanted = desired(&*provider, ZONE, &records(&[caa, "name: a, type: A, values: [192.0.2.1]"]));
    let (batch, notes, result) = apply(&*provider, &cx(""), ZONE, &wanted, &[]).await;
    result.unwrap();
    let outcome = notes.outcome(&batch, "example.com./CAA");
    assert!(outcome.contains("unsupported") && outcome.contains("cannot serve example.com CAA"), "{outcome}");
    assert_eq!(notes.outcome(&batch, "a.example.com./A"), "done");
}

#[tokio::test]
async fn all_zones_take_one_list_and_a_change_three_calls() {
    let (fake, provider) = start();
    fake.with(|webhook| {
        for i in 0..1_000 {
            webhook.put(&format!("www.z{i}.example"), "A", "192.0.2.1");
        }
    });
    let scopes: Vec<_> = (0..1_000).map(|i| scope(&format!("z{i}.example"))).collect();
    let versions = provider.versions(&cx(""), &scopes).await.unwrap();
    assert_eq!(versions.len(), 1_000);
    for scope in &scopes {
        assert_eq!(observe(&*provider, &cx(""), &scope.name).await.unwrap().version, versions[scope]);
    }
    assert_eq!(fake.lines(), ["GET /", "GET /records"]);
    let zone = "z7.example";
    let wanted = desired(&*provider, zone, &records(&["name: www, type: A, values: [192.0.2.7]"]));
    let seen = observe_for(&*provider, &cx(""), zone, &wanted).await.unwrap();
    let batch = plan(&*provider, &cx(""), zone, &wanted, &[], &seen).await;
    fake.asked();
    provider.apply(&cx(""), &batch, &Notes::default()).await.unwrap();
    assert_eq!(fake.lines(), ["GET /", "GET /records", "POST /adjustendpoints", "POST /records"]);
    let after = provider.versions(&cx(""), &scopes).await.unwrap();
    let moved: Vec<_> = scopes.iter().filter(|scope| versions[scope] != after[scope]).collect();
    assert_eq!(moved, [&scopes[7]]);
}

#[tokio::test]
async fn ten_thousand_creates_are_sent_in_parts() {
    let (fake, provider) = start();
    let wanted = desired(&*provider, ZONE, &hosts(10_000));
    let (_, notes, result) = apply(&*provider, &cx(""), ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("done", 10_000)].into());
    let lines = fake.lines();
    assert_eq!(lines.iter().filter(|line| *line == "POST /records").count(), 10);
}

#[tokio::test]
async fn one_bad_record_in_five_hundred_is_named_though_nothing_is_a_transaction() {
    let (fake, provider) = start();
    fake.with(|webhook| webhook.bad = Some("10.0.1.77"));
    let wanted = desired(&*provider, ZONE, &hosts(500));
    let (batch, notes, result) = apply(&*provider, &cx(""), ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("done", 499), ("failed", 1)].into());
    let outcome = notes.outcome(&batch, "h333.example.com./A");
    assert!(outcome.contains("h333.example.com A: change zone") && outcome.contains("is bad"), "{outcome}");
    let writes = fake.lines().iter().filter(|line| *line == "POST /records").count();
    assert!(writes <= 20, "{writes} requests");
    nothing_is_wrong(&fake);
}

#[tokio::test]
async fn a_provider_that_does_not_work_costs_few_calls_and_says_that_nothing_happened() {
    let (fake, provider) = start();
    for _ in 0..100 {
        fake.fail("POST /records", 0, Fault::Say(Reply::new(500, "down")));
    }
    let wanted = desired(&*provider, ZONE, &hosts(5_000));
    let (_, notes, result) = apply(&*provider, &cx(""), ZONE, &wanted, &[]).await;
    assert_eq!(result.unwrap_err().kind, ErrorKind::Unavailable);
    assert_eq!(notes.counts().keys().copied().collect::<Vec<_>>(), ["failed"]);
    let writes = fake.lines().iter().filter(|line| *line == "POST /records").count();
    assert!(writes <= 12, "{writes}");
}

#[tokio::test]
async fn who_wants_credentials_is_told_and_asked_once() {
    for status in [401, 403] {
        let (fake, provider) = start();
        let wanted = desired(&*provider, ZONE, &hosts(50));
        fake.fail("POST /records", 0, Fault::Say(Reply::new(status, "who are you")));
        let (_, notes, result) = apply(&*provider, &cx(""), ZONE, &wanted, &[]).await;
        assert_eq!(result.unwrap_err().kind, ErrorKind::PermissionDenied, "{status}");
        assert_eq!(notes.counts(), [("failed", 50)].into(), "{status}");
        let writes = fake.lines().iter().filter(|line| *line == "POST /records").count();
        assert_eq!(writes, 1, "{status}");
        fake.fail("GET /records", 0, Fault::Say(Reply::new(status, "who are you")));
        let error = observe(&*provider, &cx(""), ZONE).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::PermissionDenied, "{status}");
        assert!(error.hint.as_ref().unwrap().contains("no credentials"), "{error:?}");
    }
}

#[tokio::test]
async fn what_a_proxy_says_for_the_provider_is_no_answer_of_it() {
    for status in [408, 502, 503, 504] {
        let (fake, provider) = start();
        fake.fail("POST /records", 0, Fault::DoAndSay(Reply::new(status, "later")));
        let wanted = desired(&*provider, ZONE, &hosts(50));
        let (_, notes, result) = apply(&*provider, &cx(""), ZONE, &wanted, &[]).await;
        assert_eq!(result.unwrap_err().kind, ErrorKind::Unavailable, "{status}");
        assert_eq!(notes.counts(), [("unknown", 50)].into(), "{status}");
        let writes = fake.lines().iter().filter(|line| *line == "POST /records").count();
        assert_eq!(writes, 1, "{status}: nothing is sent again at once");
        wants_nothing(&*provider, &wanted).await;
    }
}

#[tokio::test]
async fn a_ttl_that_is_not_reported_is_no_difference_and_nothing_that_was_seen() {
    let (fake, provider) = start();
    fake.with(|webhook| webhook.hides_ttl = true);
    let wanted = desired(&*provider, ZONE, &records(&["name: a, type: A, values: [192.0.2.1], ttl: 77"]));
    converge(&*provider, &cx(""), ZONE, &wanted, &[]).await;
    let with = observe_for(&*provider, &cx(""), ZONE, &wanted).await.unwrap();
    let without = observe(&*provider, &cx(""), ZONE).await.unwrap();
    assert_eq!(with, without, "what is seen does not depend on what is wanted");
    let seen = &with.resources[0];
    assert_eq!(provider.show(&seen.id, &seen.bytes)[0], ("ttl".into(), "not reported".into()));
    assert!(provider.compare(&wanted[0], seen).is_none());
    fake.asked();
    wants_nothing(&*provider, &wanted).await;
    assert!(fake.lines().iter().all(|line| !line.contains("adjust")), "there is nothing to ask");
    // A provider that raises TTLs and reports none differs in none, either.
    fake.with(|webhook| webhook.least_ttl = 600);
    let wanted = desired(&*provider, ZONE, &records(&["name: a, type: A, values: [192.0.2.2], ttl: 77"]));
    converge(&*provider, &cx(""), ZONE, &wanted, &[]).await;
    nothing_is_wrong(&fake);
}

#[tokio::test]
async fn another_order_of_the_same_records_is_the_same_zone() {
    let (fake, provider) = start();
    let wanted = desired(&*provider, ZONE, &records(&["name: a, type: A, values: [192.0.2.1, 192.0.2.2]"]));
    converge(&*provider, &cx(""), ZONE, &wanted, &[]).await;
    let before = observe(&*provider, &cx(""), ZONE).await.unwrap();
    let changed = desired(&*provider, ZONE, &records(&["name: a, type: A, values: [192.0.2.3]"]));
    let batch = plan(&*provider, &cx(""), ZONE, &changed, &[], &before).await;
    fake.with(|webhook| {
        let record = webhook.records.values_mut().next().unwrap();
        record["targets"].as_array_mut().unwrap().reverse();
    });
    assert_eq!(observe(&*provider, &cx(""), ZONE).await.unwrap(), before);
    let notes = Notes::default();
    provider.apply(&cx(""), &batch, &notes).await.unwrap();
    assert_eq!(notes.counts(), [("done", 1)].into());
    nothing_is_wrong(&fake);
}

#[tokio::test]
async fn a_swap_that_a_provider_does_not_take_as_one_is_planned_as_such_and_done_in_steps() {
    let (fake, provider) = start();
    fake.with(|webhook| {
        webhook.put("www.example.com", "CNAME", "a.example.net");
        webhook.creates_first = true;
    });
    let wanted = desired(&*provider, ZONE, &records(&["name: www, type: A, values: [192.0.2.1]"]));
    let seen = observe_for(&*provider, &cx(""), ZONE, &wanted).await.unwrap();
    let deltas = diff(&*provider, &cx(""), ZONE, &wanted, &seen).await;
    let field = &deltas[&"www.example.com./A".into()].as_ref().unwrap().fields[0];
    let shown = format!("{}: {:?} {:?}", field.path, field.before, field.after);
    assert!(shown.contains("CNAME") && shown.contains("A, not in one step"), "{shown}");
    let (_, notes, result) = apply(&*provider, &cx(""), ZONE, &wanted, &["www.example.com./CNAME"]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("done", 1), ("gone", 1)].into());

    // What comes is refused on its own account: what went is there again.
    fake.with(|webhook| webhook.bad = Some("b.example.net"));
    let alias = desired(&*provider, ZONE, &records(&["name: www, type: CNAME, values: [b.example.net.]"]));
    let (batch, notes, result) = apply(&*provider, &cx(""), ZONE, &alias, &["www.example.com./A"]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("failed", 2)].into());
    let outcome = notes.outcome(&batch, "www.example.com./CNAME");
    assert!(
        outcome.contains("is bad") && outcome.contains("invalid"),
        "tried again, the name would go again: {outcome}"
    );
    wants_nothing(&*provider, &wanted).await;
}

#[tokio::test]
async fn half_a_swap_is_never_written() {
    let (fake, provider) = start();
    let cname = desired(&*provider, ZONE, &records(&["name: www, type: CNAME, values: [a.example.net.]"]));
    converge(&*provider, &cx(""), ZONE, &cname, &[]).await;
    fake.with(|webhook| webhook.drops = "MX");
    let mx = desired(&*provider, ZONE, &records(&["name: www, type: MX, values: [10 mail.example.net.]"]));
    let (batch, notes, result) = apply(&*provider, &cx(""), ZONE, &mx, &["www.example.com./CNAME"]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("failed", 2)].into());
    assert!(notes.outcome(&batch, "www.example.com./MX").contains("cannot serve"));
    assert!(notes.outcome(&batch, "www.example.com./CNAME").contains("is held back"));
    assert_eq!(fake.with(|webhook| webhook.records.len()), 1);
}

#[tokio::test]
async fn a_write_without_an_answer_is_unknown_and_the_next_pass_finds_it_done() {
    let (fake, provider) = start();
    let wanted = desired(&*provider, ZONE, &hosts(3));
    for (fault, expected) in [
        (Fault::DoAndHang, "unknown"),
        (Fault::DoAndSay(Reply::new(200, "")), "unknown"),
        // What is there after a refusal has happened.
        (Fault::DoAndSay(Reply::new(500, "late")), "done"),
    ] {
        fake.with(|webhook| webhook.records.clear());
        fake.fail("POST /records", 0, fault);
        let (_, notes, _) = apply(&*provider, &cx(""), ZONE, &wanted, &[]).await;
        assert_eq!(notes.counts(), [(expected, 3)].into());
        wants_nothing(&*provider, &wanted).await;
    }
}

#[tokio::test]
async fn no_failure_to_read_is_an_empty_list() {
    let (fake, provider) = start();
    converge(&*provider, &cx(""), ZONE, &desired(&*provider, ZONE, &hosts(1)), &[]).await;
    let fails = async |line: &str, reply: Reply, kind, part: &str| {
        fake.fail(line, 0, Fault::Say(reply));
        let error = observe(&*provider, &cx(""), ZONE).await.unwrap_err();
        let text = format!("{} / {:?}", error.chain(), error.hint);
        assert!(error.kind == kind && text.contains(part), "{part}: {kind:?}: {text}");
    };
    let typed = |body: &str| Reply::new(200, body).with("Content-Type", MEDIA_TYPE);
    let (unexpected, unavailable) = (ErrorKind::Unexpected, ErrorKind::Unavailable);
    fails("GET /records", typed("<html>"), unexpected, "not what the API gives").await;
    fails("GET /records", typed(""), unexpected, "not what the API gives").await;
    fails("GET /records", typed("[{\"dnsName\": "), unexpected, "not what the API gives").await;
    fails("GET /?{}", Reply::new(200, "{}"), unexpected, "the answer is ``, not `application/").await;
    let old = Reply::new(200, "{}").with("Content-Type", "application/external.dns.webhook+json;version=2");
    fails("GET /?{}", old, unexpected, "version=2`, not").await;
    fails("GET /records", Reply::new(500, "db\u{1b}[2J"), unavailable, "answered 500: db [2J").await;
    fails("GET /records", Reply::new(400, "what"), unexpected, "answered 400").await;
    fails("GET /?{}", typed("[]"), unexpected, "the domain filter is none").await;
    fails("GET /?{}", Reply::new(404, "nginx"), unexpected, "answered 404").await;
    assert_eq!(observe(&*provider, &cx(""), ZONE).await.unwrap().resources.len(), 1);
    // What was agreed upon need not be said again.
    let list = r#"[{"dnsName": "a.example.com", "recordType": "A", "targets": ["192.0.2.1"]}]"#;
    fake.fail("GET /records", 0, Fault::Say(Reply::new(200, list).with("Content-Type", "application/json")));
    assert_eq!(observe(&*provider, &cx(""), ZONE).await.unwrap().resources.len(), 1);
}

#[tokio::test]
async fn a_person_who_edits_between_look_and_write_is_not_overwritten() {
    let (fake, provider) = start();
    let wanted = desired(&*provider, ZONE, &hosts(2));
    converge(&*provider, &cx(""), ZONE, &wanted, &[]).await;
    let changed = desired(&*provider, ZONE, &records(&["name: h0, type: A, values: [192.0.2.7]"]));
    let seen = observe(&*provider, &cx(""), ZONE).await.unwrap();
    let batch = plan(&*provider, &cx(""), ZONE, &changed, &[], &seen).await;
    fake.with(|webhook| webhook.put("h0.example.com", "A", "203.0.113.9"));
    fake.asked();
    let error = provider.apply(&cx(""), &batch, &Notes::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert_eq!(fake.lines(), ["GET /", "GET /records"]);
}

#[tokio::test]
async fn answers_with_a_set_identifier_are_seen_and_never_written() {
    let (fake, provider) = start();
    fake.with(|webhook| {
        for (identifier, target) in [("blue", "192.0.2.1"), ("green", "192.0.2.2")] {
            let endpoint = json!({"dnsName": "www.example.com", "recordType": "A", "targets": [target],
                "setIdentifier": identifier, "recordTTL": 60});
            let key = ("www.example.com".to_owned(), "A".to_owned(), identifier.to_owned());
            webhook.records.insert(key, endpoint);
        }
    });
    let wanted = desired(&*provider, ZONE, &records(&["name: www, type: A, values: [192.0.2.7]"]));
    let (batch, notes, result) = apply(&*provider, &cx(""), ZONE, &wanted, &[]).await;
    result.unwrap();
    assert!(notes.outcome(&batch, "www.example.com./A").contains("with a set identifier"));
    let seen = observe(&*provider, &cx(""), ZONE).await.unwrap();
    let bytes = String::from_utf8_lossy(&seen.resources[0].bytes).into_owned();
    assert_eq!(bytes, "60\n(set blue) 192.0.2.1\n(set green) 192.0.2.2");
    let left = provider.left_alone(&scope(ZONE), &[], &seen.resources[0], &seen);
    assert_eq!(left, Some(LeftAlone::Custom), "an exclusive zone would try for ever");
    let op = Op::Delete { observed: seen.resources[0].clone().into(), tracked: None };
    let batch = crate::world::batch(ZONE, &seen, vec![op]);
    let notes = Notes::default();
    provider.apply(&cx(""), &batch, &notes).await.unwrap();
    assert!(matches!(notes.outcomes.lock().unwrap().values().next(), Some(Outcome::Failed(_))));
    assert_eq!(fake.with(|webhook| webhook.records.len()), 2);
}

#[tokio::test]
async fn what_others_keep_on_an_endpoint_stays() {
    let (fake, provider) = start();
    fake.with(|webhook| {
        webhook.put("www.example.com", "A", "192.0.2.1");
        for record in webhook.records.values_mut() {
            record["labels"] = json!({"team": "web"});
            record["providerSpecific"] = json!([{"name": "geo", "value": "eu"}]);
        }
    });
    let wanted = desired(&*provider, ZONE, &records(&["name: www, type: A, values: [192.0.2.7]"]));
    converge(&*provider, &cx(""), ZONE, &wanted, &[]).await;
    nothing_is_wrong(&fake);
    fake.with(|webhook| {
        let record = webhook.records.values().next().unwrap();
        assert_eq!(record["labels"], json!({"team": "web"}));
        assert_eq!(record["providerSpecific"], json!([{"name": "geo", "value": "eu"}]));
    });
}

#[tokio::test]
async fn records_of_externaldns_belong_to_it() {
    let (fake, provider) = start();
    fake.with(|webhook| {
        webhook.put("www.example.com", "A", "192.0.2.1");
        webhook.put("a-www.example.com", "TXT", "\"heritage=external-dns,external-dns/owner=k8s\"");
    });
    let seen = observe(&*provider, &cx(""), ZONE).await.unwrap();
    assert!(seen.resources.iter().all(|o| o.owner == Owner::Other("externaldns/k8s".into())), "{seen:?}");
}

#[tokio::test]
async fn too_many_calls_for_an_hour_are_no_storm_of_calls() {
    let (fake, provider) = start();
    let clock = Arc::new(HandClock::default());
    let cx = Cx { clock: clock.clone(), ..cx("") };
    let mut asked = 0;
    while clock.now() < Duration::from_secs(3_600) {
        fake.fail("GET", 0, Fault::Say(Reply::new(429, "").with("Retry-After", "600")));
        for zone in ["a.example", "b.example", "c.example"] {
            let error = observe(&*provider, &cx, zone).await.unwrap_err();
            assert_eq!(
                (error.kind, error.retry_after),
                (ErrorKind::RateLimited, Some(Duration::from_secs(600)))
            );
        }
        asked += fake.lines().len();
        clock.advance(Duration::from_secs(600));
    }
    assert_eq!(asked, 6);
}

#[tokio::test]
async fn no_server_silences_an_entry_for_longer_than_a_day() {
    let (fake, provider) = start();
    let clock = Arc::new(HandClock::default());
    clock.advance(Duration::from_secs(1_000));
    let cx = Cx { clock: clock.clone(), ..cx("") };
    let reply = Reply::new(429, "").with("Retry-After", &u64::MAX.to_string());
    fake.fail("GET", 0, Fault::Say(reply));
    let day = Duration::from_secs(24 * 3_600);
    let error = observe(&*provider, &cx, ZONE).await.unwrap_err();
    assert_eq!((error.kind, error.retry_after), (ErrorKind::RateLimited, Some(day)));
    assert_eq!(observe(&*provider, &cx, ZONE).await.unwrap_err().retry_after, Some(day));
    // A clock that was set back makes no longer pause of it.
    let back = Cx { clock: Arc::new(HandClock::default()), ..cx.clone() };
    observe(&*provider, &back, ZONE).await.unwrap();
    clock.advance(day);
    observe(&*provider, &cx, ZONE).await.unwrap();
}

#[tokio::test]
async fn a_manifest_that_no_webhook_can_serve_is_refused_at_its_place() {
    let (_, provider) = start();
    let refuse = |record: &str, part: &str| {
        let (_, problems) = normalize(&*provider, ZONE, &format!("apex: true\nrecords:\n  - {{{record}}}\n"));
        let text: String = problems.iter().map(|problem| format!("{problem}\n")).collect();
        assert!(text.contains(part) && text.contains("zone.yaml:3:"), "{record}: {text}");
    };
    refuse("name: \"@\", type: SOA, values: [a. b. 1 2 3 4]", "keeps the SOA");
    refuse("name: a, type: A, values: [192.0.2.1], ttl: 0", "write at least 1");
    refuse("name: a, type: TXT, values: [{strings: [a, b]}]", "no form for the strings of a TXT");
    refuse("name: a, type: A, values: [192.0.2.1], cloudflare: {proxied: true}", "of another type");
}

#[test]
fn a_configuration_that_cannot_work_is_refused() {
    let refused = |config: Config| connect("hook", config).map(|_| ()).unwrap_err().message.clone();
    assert!(refused(Config::new("http://me:canary@x")).contains("belong in a secret"));
    assert!(refused(Config { max_changes: 0, ..Config::new("http://x") }).contains("maxChanges"));
}
