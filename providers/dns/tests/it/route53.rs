//! Route 53 against a fake that enforces its documented rules.

use crate::{
    fake::{Fake, Fault, Play, Reply, Request},
    fake_route53::{self, Route53, SECRET, cx, provider},
    world::{self, Notes, apply, converge, desired, observe, plan, scope},
};
use reconciled_dns::route53::{Config, Credentials, Login, connect};
use reconciled_provider::{Clock, Cx, ErrorKind, Op, Owner, Provider, SecretRef, Tracked, Version};
use reconciled_testkit::context::{HandClock, TableSecrets, cx_with};
use std::{sync::Arc, time::Duration};

const ZONE: &str = "example.com";

fn with_zone() -> (Fake<Route53>, Arc<dyn Provider>) {
    let fake = fake_route53::start();
    fake.with(|route53| route53.add_zone(ZONE));
    let provider = provider(&fake);
    (fake, provider)
}

fn records(list: &[&str]) -> Vec<String> {
    list.iter().map(|record| format!("{{{record}}}")).collect()
}

fn hosts(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{{name: h{i}, type: A, values: [10.0.{}.{}]}}", i >> 8, i & 255)).collect()
}

#[tokio::test]
async fn a_second_run_is_empty_for_every_type() {
    let (fake, provider) = with_zone();
    let long = format!("name: long, type: TXT, values: [{}]", "x".repeat(766));
    let wanted = desired(
        &*provider,
        ZONE,
        &records(&[
            r#"name: "@", type: SOA, values: [ns1.example.com. h.example.com. 7200 900 1209600 300]"#,
            r#"name: "@", type: NS, values: [ns1.example.net., ns2.example.net.]"#,
            r#"name: "@", type: A, values: [192.0.2.2, 192.0.2.1], ttl: 60"#,
            r#"name: "@", type: MX, values: [10 mail.example.com., 20 @]"#,
            r#"name: "@", type: CAA, values: ['0 issue "letsencrypt.org; a=b"']"#,
            r#"name: WWW, type: CNAME, values: [Example.COM.], ttl: 0"#,
            r#"name: v6, type: AAAA, values: ["2001:DB8:0:0:1::1"]"#,
            r#"name: _sip._tcp, type: SRV, values: [10 60 5060 sip.example.com.]"#,
            r#"name: "*.dev", type: A, values: [192.0.2.9]"#,
            r#"name: txt, type: TXT, values: ["a;b", "<&>", "it's", "quo\"te", "back\\slash", "äö"]"#,
            &long,
        ]),
    );
    converge(&*provider, &cx(), ZONE, &wanted, &[]).await;
    assert_eq!(fake.with(|route53| route53.unsigned), 0);
    let kept = fake.with(|route53| route53.values(ZONE, "txt.example.com", "TXT"));
    let kept: Vec<_> = kept.iter().map(|value| fake_route53::octets(value).unwrap()).collect();
    assert!(kept.iter().any(|value| value == "\"äö\"".as_bytes()), "{kept:?}");
    let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
    assert_eq!(seen.resources.len(), wanted.len());
    assert_eq!(seen.get(&"example.com./SOA".into()).unwrap().owner, Owner::System);
}

#[tokio::test]
async fn what_the_console_wrote_with_codes_is_what_a_manifest_writes_without() {
    let (fake, provider) = with_zone();
    fake.with(|route53| {
        route53.put(ZONE, "t.example.com", "TXT", &[r#""\303\244""#]);
        route53.put(ZONE, r"a\056b.example.com", "CNAME", &[r"x\057y.example.net"]);
    });
    let wanted = desired(
        &*provider,
        ZONE,
        &records(&[
            "name: t, type: TXT, values: [ä]",
            r#"name: 'a\.b', type: CNAME, values: ['x/y.example.net.']"#,
            r#"name: 'c\.d', type: A, values: [192.0.2.1]"#,
        ]),
    );
    let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
    let batch = plan(&*provider, &cx(), ZONE, &wanted, &[], &seen).await;
    let ids: Vec<&str> = batch.actions.iter().map(|action| &*action.op.id().0).collect();
    assert_eq!(ids, [r"c\.d.example.com./A"]);
    provider.apply(&cx(), &batch, &Notes::default()).await.unwrap();
    assert_eq!(fake.with(|route53| route53.values(ZONE, r"c\056d.example.com", "A")), ["192.0.2.1"]);
}

#[tokio::test]
async fn zones_and_sets_are_listed_in_as_few_calls_as_there_may_be() {
    let fake = fake_route53::start();
    let scopes: Vec<_> = (0..1_000).map(|i| scope(&format!("z{i}.example"))).collect();
    fake.with(|route53| scopes.iter().for_each(|scope| drop(route53.add_zone(&scope.name))));
    let provider = provider(&fake);
    assert!(provider.versions(&cx(), &scopes).await.unwrap().is_empty());
    assert_eq!(fake.lines().len(), 10, "100 zones a page");
    observe(&*provider, &cx(), "z7.example").await.unwrap();
    assert_eq!(fake.lines().len(), 1, "its id is known");
    let wanted = desired(&*provider, "z7.example", &hosts(1_000));
    converge(&*provider, &cx(), "z7.example", &wanted, &[]).await;
    // 1,002 sets: none to plan from but two, the same before the write, one batch, and four pages to check.
    assert_eq!(fake.lines().len(), 1 + 1 + 1 + 4);
    let gone = provider.versions(&cx(), &[scope("gone.example")]).await.unwrap();
    assert_eq!(gone.values().collect::<Vec<_>>(), [&Version::Absent]);
}

#[tokio::test]
async fn a_list_of_zones_that_does_not_go_on_is_an_error() {
    let (fake, provider) = with_zone();
    let scopes: Vec<_> = (0..9).map(|i| scope(&format!("z{i}.example"))).collect();
    let page = |marker: &str| {
        let list = "<HostedZones></HostedZones><IsTruncated>true</IsTruncated>";
        Reply::new(200, format!("<ListHostedZonesResponse>{list}{marker}</ListHostedZonesResponse>"))
    };
    for marker in ["", "<NextMarker></NextMarker>", "<NextMarker>Z1</NextMarker>"] {
        for _ in 0..3 {
            fake.fail("GET /2013-04-01/hostedzone?", 0, Fault::Say(page(marker)));
        }
        let error = provider.versions(&cx(), &scopes).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unexpected, "{marker}");
        assert!(
            error.message.contains("list zones") && error.message.contains("does not say where"),
            "{error}"
        );
        let left = fake.lines().len();
        assert!(left <= 2, "{marker}: {left} calls");
        // What was not asked for is taken away again.
        while provider.versions(&cx(), &scopes).await.is_err() {}
        fake.asked();
    }
}

#[tokio::test]
async fn batches_keep_both_limits_and_a_change_compares_and_swaps() {
    let (fake, provider) = with_zone();
    let wanted = desired(&*provider, ZONE, &hosts(2_500));
    converge(&*provider, &cx(), ZONE, &wanted, &[]).await;
    let batches = |fake: &Fake<Route53>| fake.lines().iter().filter(|line| line.starts_with("POST")).count();
    assert_eq!(batches(&fake), 3);
    let texts: Vec<String> = (0..100)
        .map(|i| format!("{{name: t{i}, type: TXT, values: [\"{i} {}\"]}}", "x".repeat(600)))
        .collect();
    let mut all = hosts(2_500);
    all.extend(texts);
    converge(&*provider, &cx(), ZONE, &desired(&*provider, ZONE, &all), &[]).await;
    assert_eq!(batches(&fake), 2, "32,000 characters a batch");
    all[7] = all[7].replace("10.0", "10.9");
    converge(&*provider, &cx(), ZONE, &desired(&*provider, ZONE, &all), &[]).await;
    let asked = fake.asked();
    let body = &asked.iter().find(|request| request.method == "POST").unwrap().body;
    assert!(
        body.contains("<Action>DELETE</Action>") && body.contains("10.0.0.7") && body.contains("10.9.0.7"),
        "{body}"
    );
}

#[tokio::test]
async fn one_bad_set_in_five_hundred_is_named_and_the_others_are_written() {
    let (fake, provider) = with_zone();
    fake.with(|route53| route53.bad = Some("10.0.1.77"));
    let wanted = desired(&*provider, ZONE, &hosts(500));
    let (batch, notes, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("done", 499), ("failed", 1)].into());
    let outcome = notes.outcome(&batch, "h333.example.com./A");
    assert!(
        outcome.contains("invalid: h333.example.com A") && outcome.contains("FATAL problem"),
        "{outcome}"
    );
    assert!(fake.lines().len() <= 24);
}

#[tokio::test]
async fn what_somebody_changes_between_the_last_look_and_the_write_is_refused_by_the_service() {
    let (fake, provider) = with_zone();
    converge(&*provider, &cx(), ZONE, &desired(&*provider, ZONE, &hosts(3)), &[]).await;
    let changed: Vec<String> = hosts(3).iter().map(|host| host.replace("10.0", "10.9")).collect();
    let changed = desired(&*provider, ZONE, &changed);
    let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
    let batch = plan(&*provider, &cx(), ZONE, &changed, &[], &seen).await;
    // Before the last look: nothing is sent.
    fake.with(|route53| route53.put(ZONE, "h1.example.com", "A", &["203.0.113.9"]));
    fake.asked();
    let error = provider.apply(&cx(), &batch, &Notes::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(fake.lines().iter().all(|line| line.starts_with("GET")));
    // After it: the batch is refused, names the set, and the others are written.
    fake.with(|route53| route53.put(ZONE, "h1.example.com", "A", &["10.0.0.1"]));
    let refusal = "<InvalidChangeBatch><Messages><Message>[Tried to delete resource record set \
                   [name='h1.example.com.', type='A'] but the values provided do not match the current values]\
                   </Message></Messages></InvalidChangeBatch>";
    fake.fail("POST", 0, Fault::Say(Reply::new(400, refusal)));
    let notes = Notes::default();
    let error = provider.apply(&cx(), &batch, &notes).await.unwrap_err();
    assert_eq!((error.kind, notes.counts()), (ErrorKind::Conflict, [("done", 2), ("failed", 1)].into()));
}

#[tokio::test]
async fn no_failure_to_read_is_a_smaller_zone() {
    let (fake, provider) = with_zone();
    converge(&*provider, &cx(), ZONE, &desired(&*provider, ZONE, &hosts(400)), &[]).await;
    let fails = async |reply: Reply, kind, part: &str| {
        fake.fail("\"name\":", 0, Fault::Say(reply));
        let error = observe(&*provider, &cx(), ZONE).await.unwrap_err();
        let text = format!("{} / {:?}", error.chain(), error.hint);
        assert!(
            error.kind == kind && text.contains(part) && !text.contains(SECRET),
            "{part}: {kind:?}: {text}"
        );
    };
    fails(Reply::new(500, "oops"), ErrorKind::Unavailable, "answered 500: oops").await;
    fails(Reply::new(200, "<html>"), ErrorKind::Unexpected, "not what the API gives").await;
    fails(Reply::new(200, ""), ErrorKind::Unexpected, "not what the API gives").await;
    fails(Reply::new(200, "{\"json\": 1}"), ErrorKind::Unexpected, "not what the API gives").await;
    let endless = "<ListResourceRecordSetsResponse><ResourceRecordSets></ResourceRecordSets>\
                   <IsTruncated>true</IsTruncated></ListResourceRecordSetsResponse>";
    fails(Reply::new(200, endless), ErrorKind::Unexpected, "does not say where").await;
    // An answer in place of the first page.
    fake.fail("GET", 0, Fault::Say(Reply::new(200, endless.replace("true", "false"))));
    let empty = observe(&*provider, &cx(), ZONE).await.unwrap_err();
    assert!(empty.kind == ErrorKind::Unexpected && empty.message.contains("the list has no SOA"), "{empty}");
    fails(fake_route53::error(403, "AccessDenied", "no"), ErrorKind::PermissionDenied, "AccessDenied: no")
        .await;
    assert_eq!(observe(&*provider, &cx(), ZONE).await.unwrap().resources.len(), 403);
    let wrong = observe(&*provider, &world::cx("wrong"), ZONE).await.unwrap_err();
    assert_eq!(wrong.kind, ErrorKind::PermissionDenied);
}

#[tokio::test]
async fn calls_take_their_turn_and_too_many_of_them_are_no_storm() {
    let (fake, provider) = with_zone();
    let clock = Arc::new(HandClock::default());
    let cx = Cx { clock: clock.clone(), ..cx() };
    for _ in 0..6 {
        observe(&*provider, &cx, ZONE).await.unwrap();
    }
    // Seven calls with the look-up of the zone: five a second.
    assert_eq!(clock.now(), Duration::from_millis(1_200));
    fake.asked();
    let (start, mut asked) = (clock.now(), 0);
    while clock.now() < start + Duration::from_secs(3_600) {
        fake.fail("GET", 0, Fault::Say(fake_route53::error(400, "Throttling", "Rate exceeded")));
        for _ in 0..3 {
            let error = observe(&*provider, &cx, ZONE).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::RateLimited);
        }
        asked += fake.lines().len();
        clock.advance(Duration::from_secs(10));
    }
    assert!(asked <= 360, "{asked}: once in ten seconds");
}

#[tokio::test]
async fn a_clock_that_was_set_back_silences_no_entry() {
    let (_fake, provider) = with_zone();
    let ahead = Arc::new(HandClock::default());
    ahead.advance(Duration::from_secs(7 * 24 * 3_600));
    observe(&*provider, &Cx { clock: ahead, ..cx() }, ZONE).await.unwrap();
    let clock = Arc::new(HandClock::default());
    observe(&*provider, &Cx { clock: clock.clone(), ..cx() }, ZONE).await.unwrap();
    assert!(clock.now() < Duration::from_secs(1), "waited {:?}", clock.now());
}

#[tokio::test]
async fn a_prior_request_that_is_not_complete_waits_and_had_no_effect() {
    let (fake, provider) = with_zone();
    let wanted = desired(&*provider, ZONE, &hosts(2));
    fake.fail("POST", 0, Fault::Say(fake_route53::error(400, "PriorRequestNotComplete", "wait")));
    let (_, notes, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
    assert_eq!(result.unwrap_err().kind, ErrorKind::RateLimited);
    assert_eq!(notes.counts(), [("failed", 2)].into());
    converge(&*provider, &cx(), ZONE, &wanted, &[]).await;
}

#[tokio::test]
async fn a_write_without_an_answer_is_unknown_and_the_next_pass_finds_it_done() {
    for fault in
        [Fault::DoAndHang, Fault::DoAndSay(Reply::new(503, "")), Fault::DoAndSay(Reply::new(200, "?"))]
    {
        let (fake, provider) = with_zone();
        let wanted = desired(&*provider, ZONE, &hosts(3));
        fake.fail("POST", 0, fault);
        let (_, notes, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
        assert!(result.is_err());
        assert_eq!(notes.counts(), [("unknown", 3)].into());
        let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
        assert!(plan(&*provider, &cx(), ZONE, &wanted, &[], &seen).await.actions.is_empty());
    }
}

#[tokio::test]
async fn a_zone_that_was_removed_is_absent_and_one_made_anew_is_read() {
    let (fake, provider) = with_zone();
    assert_eq!(observe(&*provider, &cx(), ZONE).await.unwrap().resources.len(), 3);
    fake.with(|route53| route53.zones.clear());
    assert_eq!(observe(&*provider, &cx(), ZONE).await.unwrap().version, Version::Absent);
    fake.with(|route53| {
        route53.add_zone(ZONE);
        route53.put(ZONE, "a.example.com", "A", &["192.0.2.1"]);
    });
    assert_eq!(observe(&*provider, &cx(), ZONE).await.unwrap().resources.len(), 4);
    fake.with(|route53| route53.add_zone(ZONE));
    let again = fake_route53::start();
    again.with(|route53| (route53.add_zone(ZONE), route53.add_zone(ZONE)));
    let error = observe(&*fake_route53::provider(&again), &cx(), ZONE).await.unwrap_err();
    assert!(error.message.contains("several zones"), "{error}");
}

#[tokio::test]
async fn of_several_zones_of_one_name_the_entry_says_which_is_meant() {
    let fake = fake_route53::start();
    let [first, second] = fake.with(|route53| {
        let ids = [route53.add_zone(ZONE), route53.add_zone(ZONE)];
        let sets = route53.zones[&ids[0]].1.clone();
        route53.zones.get_mut(&ids[1]).unwrap().1 = sets;
        ids
    });
    let error = observe(&*provider(&fake), &cx(), ZONE).await.unwrap_err();
    let hint = error.hint.as_ref().unwrap();
    assert!(hint.contains("zoneIds") && hint.contains(&first) && hint.contains(&second), "{hint}");

    let of = |zone: &str, id: &str| {
        let chosen = (zone.to_owned(), id.to_owned());
        fake_route53::provider_with(&fake, |config| config.zone_ids = [chosen].into())
    };
    for (zone, id) in [("Example.com.", format!("/hostedzone/{second}")), (ZONE, second.clone())] {
        let provider = of(zone, &id);
        let wanted = desired(&*provider, ZONE, &hosts(2));
        converge(&*provider, &cx(), ZONE, &wanted, &[]).await;
        let sizes = fake.with(|route53| [&first, &second].map(|id| route53.zones[id].1.len()));
        assert_eq!(sizes, [2, 4]);
        let scopes = [ZONE, "a.example", "b.example", "c.example", "d.example"].map(scope);
        let versions = provider.versions(&cx(), &scopes).await.unwrap();
        assert_eq!((versions.len(), versions.get(&scopes[0])), (4, None), "it is there");
        provider.discover(&cx(), "no-zone.invalid*").await.unwrap();
    }
    // A zone that is not there is no other one, and none is made in its place.
    for (zone, part) in [(ZONE, &*second), ("example.net", "take it out")] {
        let provider = of(zone, "Z9");
        for error in [
            observe(&*provider, &cx(), zone).await.unwrap_err(),
            provider.discover(&cx(), "no-zone.invalid*").await.unwrap_err(),
        ] {
            assert_eq!(error.kind, ErrorKind::Invalid);
            assert!(error.message.contains(&format!("no public zone {zone} with the id Z9")), "{error}");
            assert!(error.hint.as_ref().unwrap().contains(part), "{error:?}");
        }
    }
}

#[test]
fn a_configuration_that_cannot_work_is_refused() {
    let refused = |config: Config| {
        connect("r53", config, Credentials::default()).map(|_| ()).unwrap_err().message.clone()
    };
    assert!(
        refused(Config { url: "http://me:canary@x".into(), ..Config::default() })
            .contains("belong in a secret")
    );
    assert!(refused(Config { region: "US East".into(), ..Config::default() }).contains("is none"));
    let zone_ids = |all: &[(&str, &str)]| {
        let zone_ids = all.iter().map(|(zone, id)| (zone.to_string(), id.to_string())).collect();
        Config { zone_ids, ..Config::default() }
    };
    assert!(refused(zone_ids(&[("example.com", "the first")])).contains("is no id of a zone"));
    assert!(refused(zone_ids(&[("example.com", "Z1"), ("example.com.", "Z2")])).contains("twice"));
}

#[tokio::test]
async fn a_change_is_pending_until_every_name_server_has_it() {
    let fake = fake_route53::start();
    fake.with(|route53| route53.add_zone(ZONE));
    let provider = fake_route53::provider_with(&fake, |config| config.insync = true);
    let wanted = desired(&*provider, ZONE, &hosts(3));
    let (_, notes, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("pending", 3)].into());
    let due = async || {
        let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
        let next = |resource: &reconciled_provider::Resource| {
            let tracked = Tracked::new(resource.id.clone(), resource.spec.hash().unwrap());
            let observed = seen.get(&resource.id).cloned();
            Op::Continue {
                desired: resource.clone(),
                tracked: tracked.into(),
                observed: observed.map(Into::into),
                claims: Vec::new(),
            }
        };
        let batch = world::batch(ZONE, &seen, wanted[1..].iter().map(next).collect());
        let notes = Notes::default();
        fake.asked();
        provider.apply(&cx(), &batch, &notes).await.unwrap();
        let changes = fake.lines().iter().filter(|line| line.contains("/change/C1")).count();
        (notes.counts(), changes)
    };
    assert_eq!(due().await, ([("pending", 3)].into(), 1));
    fake.with(|route53| route53.insync = true);
    assert_eq!(due().await, ([("done", 3)].into(), 1));
    assert_eq!(due().await, ([("done", 3)].into(), 0), "nobody asks for what is over");
}

#[tokio::test]
async fn a_declaration_that_overtakes_a_pending_one_overwrites_nothing_that_came_in_between() {
    let fake = fake_route53::start();
    fake.with(|route53| route53.add_zone(ZONE));
    let provider = fake_route53::provider_with(&fake, |config| config.insync = true);
    let host = |value: &str| {
        let records = [format!("{{name: h, type: A, values: [{value}]}}")];
        desired(&*provider, ZONE, &records).pop().unwrap()
    };
    let (first, next) = (host("192.0.2.1"), host("192.0.2.2"));
    let (_, notes, _) = apply(&*provider, &cx(), ZONE, std::slice::from_ref(&first), &[]).await;
    assert_eq!(notes.counts(), [("pending", 1)].into());
    let values = async || {
        let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
        String::from_utf8_lossy(&seen.get(&first.id).unwrap().bytes).replace('\n', " ")
    };
    for is_changed in [true, false] {
        let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
        let tracked = Tracked::new(first.id.clone(), first.spec.hash().unwrap());
        let observed = seen.get(&first.id).cloned();
        let op = Op::Continue {
            desired: next.clone(),
            tracked: tracked.into(),
            observed: observed.map(Into::into),
            claims: Vec::new(),
        };
        let batch = world::batch(ZONE, &seen, vec![op]);
        if is_changed {
            fake.with(|route53| route53.put(ZONE, "h.example.com", "A", &["192.0.2.1", "192.0.2.66"]));
        }
        let result = provider.apply(&cx(), &batch, &Notes::default()).await;
        match is_changed {
            true => assert_eq!(result.unwrap_err().kind, ErrorKind::Conflict),
            false => result.unwrap(),
        }
        let expected = if is_changed { "192.0.2.1 192.0.2.66" } else { "192.0.2.2" };
        assert!(values().await.ends_with(expected), "{}", values().await);
    }
}

/// What lends keys: to a machine by its metadata service, or to a container.
#[derive(Default)]
struct Lender {
    wrong: Vec<String>,
}

const LENT: &str = r#"{"Code": "Success", "AccessKeyId": "secret-of-the-fake-route53",
    "SecretAccessKey": "canary-of-the-lender", "Token": "token-of-the-lender", "Expiration": "1970-01-01T06:00:00Z"}"#;

impl Play for Lender {
    fn answer(&mut self, request: &Request) -> Reply {
        let has_token = request.header("x-aws-ec2-metadata-token") == "token";
        match request.line().as_str() {
            "PUT /latest/api/token" if !request.header("x-aws-ec2-metadata-token-ttl-seconds").is_empty() => {
                Reply::new(200, "token")
            }
            "GET /latest/meta-data/iam/security-credentials/" if has_token => Reply::new(200, "dns-role\n"),
            "GET /latest/meta-data/iam/security-credentials/dns-role" if has_token => Reply::new(200, LENT),
            "GET /container" if request.header("authorization") == "task-token" => Reply::new(200, LENT),
            line => {
                self.wrong.push(line.into());
                Reply::new(401, "canary-of-the-lender")
            }
        }
    }
}

#[tokio::test]
async fn a_machine_gets_its_key_from_the_metadata_service_and_a_new_one_before_it_ends() {
    let (fake, lender) = (fake_route53::start(), Fake::start(Lender::default()));
    fake.with(|route53| route53.add_zone(ZONE));
    let provider = fake_route53::provider_of(&fake, Login::Instance { url: lender.url.clone() });
    let clock = Arc::new(HandClock::default());
    let cx = Cx { clock: clock.clone(), ..cx_with(TableSecrets::default()) };
    for _ in 0..3 {
        observe(&*provider, &cx, ZONE).await.unwrap();
    }
    assert_eq!(lender.lines().len(), 3, "a token, the role, its key");
    clock.advance(Duration::from_secs(6 * 3_600 - 300));
    observe(&*provider, &cx, ZONE).await.unwrap();
    assert_eq!(lender.lines().len(), 3, "five minutes before the end");
    assert_eq!(fake.with(|route53| route53.unsigned), 0);
    lender.fail("PUT", 0, Fault::Say(Reply::new(403, "canary-of-the-lender")));
    let error = observe(&*provider, &cx, ZONE).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::PermissionDenied);
    assert!(error.hint.as_ref().unwrap().contains("instance profile"), "{error:?}");
    assert!(!format!("{error:?} {provider:?}").contains("canary"), "{error:?} {provider:?}");
    // It lends a key in a form that nobody expects.
    lender.fail("dns-role", 0, Fault::Say(Reply::new(200, "\"canary-of-the-lender\"")));
    let error = observe(&*provider, &cx, ZONE).await.unwrap_err();
    assert!(error.message.contains("not what the API gives"), "{error:?}");
    assert!(!format!("{error:?} {}", error.chain()).contains("canary"), "{error:?}");
}

#[tokio::test]
async fn a_container_gets_its_key_from_who_its_environment_names() {
    let (fake, lender) = (fake_route53::start(), Fake::start(Lender::default()));
    fake.with(|route53| route53.add_zone(ZONE));
    let provider = fake_route53::provider_of(&fake, Login::Container);
    let environment = |url: String| {
        let variables = [
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "task-token".into()),
        ];
        cx_with(TableSecrets(
            variables.map(|(name, value)| (SecretRef::Env(name.into()), value.into())).into(),
        ))
    };
    let elsewhere = environment("http://lender.example/".into());
    let error = observe(&*provider, &elsewhere, ZONE).await.unwrap_err();
    assert!(error.message.contains("no address that lends credentials"), "{error}");
    let error = observe(&*provider, &cx_with(TableSecrets::default()), ZONE).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::PermissionDenied);
    let here = environment(format!("{}/container", lender.url));
    assert_eq!(observe(&*provider, &here, ZONE).await.unwrap().resources.len(), 3);
    assert_eq!(lender.with(|lender| lender.wrong.clone()), [""; 0]);
}

#[tokio::test]
async fn a_section_of_a_shared_file_is_a_key() {
    let fake = fake_route53::start();
    fake.with(|route53| route53.add_zone(ZONE));
    let file = SecretRef::File("/etc/aws".into());
    let text = format!(
        "[default]\naws_access_key_id = x\n[dns]\naws_access_key_id = {SECRET}\naws_secret_access_key = canary\n"
    );
    let cx = cx_with(TableSecrets([(file.clone(), text.into())].into()));
    let provider = |profile: &str| {
        fake_route53::provider_of(&fake, Login::Shared { file: file.clone(), profile: profile.into() })
    };
    assert_eq!(observe(&*provider("dns"), &cx, ZONE).await.unwrap().resources.len(), 3);
    let error = observe(&*provider("default"), &cx, ZONE).await.unwrap_err();
    assert!(error.message.contains("profile `default` of the credentials file has no access key"), "{error}");
    assert!(!format!("{error:?}").contains("canary"), "{error:?}");
}
