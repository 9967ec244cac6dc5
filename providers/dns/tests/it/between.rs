//! Somebody edits between two requests of one `apply`: nothing of that is overwritten, at any backend.
//!
//! `zonefile` writes a file at once, and has no second request.

use crate::{
    dnsd::{Dnsd, KINDS, provider_with},
    fake_cloudflare, fake_route53, fake_webhook,
    pdns::Pdns,
    relay::{Fault, Relay},
    world::{Notes, converge, cx, desired, diff, observe_for, plan},
};
use async_trait::async_trait;
use reconciled_provider::{ActionId, Cx, Error, ErrorKind, Journal, Outcome, Provider, Resource, Tracked};
use serde_json::json;
use std::{collections::BTreeMap, pin::Pin, sync::Mutex};

const ZONE: &str = "example.com";

/// What a person writes at the names of `edited`, both before the last request.
const HAND: &str = "203.0.113.9";

type Edit<'e> = Pin<Box<dyn Future<Output = ()> + Send + 'e>>;

/// A journal with somebody behind it who edits once the first records are written.
struct Meddled<'e> {
    notes: Notes,
    first: ActionId,
    edit: Mutex<Option<Edit<'e>>>,
}

#[async_trait]
impl Journal for Meddled<'_> {
    async fn started(&self, actions: &[ActionId]) -> Result<(), Error> {
        self.notes.started(actions).await
    }
    async fn progress(&self, action: ActionId, tracked: Tracked) -> Result<(), Error> {
        self.notes.progress(action, tracked).await
    }
    async fn finished(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        let is_now = outcomes.iter().any(|(id, _)| *id == self.first);
        self.notes.finished(outcomes).await?;
        let edit = if is_now { self.edit.lock().unwrap().take() } else { None };
        if let Some(edit) = edit {
            edit.await;
        }
        Ok(())
    }
}

/// Records `h0` and up.
fn hosts(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{{name: h{i}, type: A, values: [10.0.{}.{}]}}", i >> 8, i & 255)).collect()
}

/// The records at these names of `count`: one that is to be changed, one to be created.
fn edited(count: usize) -> [String; 2] {
    [count - 2, count - 1].map(|number| format!("h{number}.{ZONE}"))
}

/// Resources of records alone: not every backend has zones to make.
fn wanted(provider: &dyn Provider, records: &[String]) -> Vec<Resource> {
    let mut wanted = desired(provider, ZONE, records);
    wanted.retain(|resource| resource.id.0.contains('/'));
    wanted
}

/// Writes `count` records with `provider`, which takes several requests. Somebody edits after the first of these, unless
/// `edit` is none and `provider` sees to it that somebody does. Returns how many actions ended in each way.
async fn check(
    (set_up, provider): (&dyn Provider, &dyn Provider),
    cx: &Cx,
    count: usize,
    edit: Option<Edit<'_>>,
) -> BTreeMap<&'static str, usize> {
    let before = vec![hosts(count)[count - 2].replace("10.0", "192.0")];
    let wants_zone = desired(set_up, ZONE, &before);
    let has_zones = wants_zone.iter().any(|resource| !resource.id.0.contains('/'));
    let is_made = observe_for(set_up, cx, ZONE, &[]).await.is_ok_and(|seen| !seen.resources.is_empty());
    let first = if has_zones && !is_made { wants_zone } else { wanted(set_up, &before) };
    converge(set_up, cx, ZONE, &first, &[]).await;
    let wanted = wanted(set_up, &hosts(count));
    let seen = observe_for(set_up, cx, ZONE, &wanted).await.unwrap();
    let batch = plan(set_up, cx, ZONE, &wanted, &[], &seen).await;
    assert_eq!(batch.actions.len(), count);
    let journal = Meddled { notes: Notes::default(), first: batch.actions[0].id, edit: Mutex::new(edit) };
    let error = provider.apply(cx, &batch, &journal).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    assert!(journal.edit.lock().unwrap().is_none(), "somebody edited");
    let notes = journal.notes;
    assert_eq!(notes.outcome(&batch, "h0.example.com./A"), "done");
    let seen = observe_for(set_up, cx, ZONE, &wanted).await.unwrap();
    for name in edited(count) {
        let id = format!("{name}./A");
        let kept = seen.get(&id.as_str().into()).unwrap();
        let kept = String::from_utf8_lossy(&kept.bytes).into_owned();
        assert!(kept.contains(HAND) && !kept.contains("10.0."), "{id} is {kept}");
        assert!(!notes.outcome(&batch, &id).contains("done"), "{id} {}", notes.outcome(&batch, &id));
    }
    let open: Vec<_> = notes.started.lock().unwrap().iter().flatten().copied().collect();
    assert!(
        open.iter().all(|id| notes.outcomes.lock().unwrap().contains_key(id)),
        "all that began has ended"
    );
    notes.counts()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_edits_between_two_requests_fails_alone_at_cloudflare() {
    let fake = fake_cloudflare::start();
    fake.with(|cloudflare| cloudflare.add_zone(ZONE, "free"));
    let provider = fake_cloudflare::provider(&fake, "dns1");
    let edit = Box::pin(async {
        fake.with(|cloudflare| {
            for name in edited(450) {
                cloudflare.remove(ZONE, &name, "A");
                cloudflare.put(ZONE, json!({"name": name, "type": "A", "content": HAND}));
            }
        });
    });
    let counts = check((&*provider, &*provider), &fake_cloudflare::cx(), 450, Some(edit)).await;
    assert_eq!(counts, [("done", 448), ("failed", 2)].into());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_cloudflare_that_somebody_makes_anew_meanwhile_is_changed_by_its_new_id() {
    let fake = fake_cloudflare::start();
    fake.with(|cloudflare| cloudflare.add_zone(ZONE, "free"));
    let (provider, cx) = (fake_cloudflare::provider(&fake, "dns1"), fake_cloudflare::cx());
    converge(&*provider, &cx, ZONE, &desired(&*provider, ZONE, &hosts(250)), &[]).await;
    let changed: Vec<String> = hosts(250).iter().map(|host| host.replace("10.0", "10.9")).collect();
    let changed = desired(&*provider, ZONE, &changed);
    let seen = observe_for(&*provider, &cx, ZONE, &changed).await.unwrap();
    let batch = plan(&*provider, &cx, ZONE, &changed, &[], &seen).await;
    let edit: Edit<'_> = Box::pin(async {
        fake.with(|cloudflare| {
            let old = cloudflare.at(ZONE, "h249.example.com", "A").remove(0);
            cloudflare.remove(ZONE, "h249.example.com", "A");
            cloudflare.put(ZONE, old.into());
        });
    });
    let first = batch.actions[0].id;
    let journal = Meddled { notes: Notes::default(), first, edit: Mutex::new(Some(edit)) };
    provider.apply(&cx, &batch, &journal).await.unwrap();
    assert_eq!(journal.notes.counts(), [("done", 250)].into());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_edits_between_two_requests_fails_alone_at_a_webhook_provider() {
    let fake = fake_webhook::start();
    let provider = fake_webhook::provider_with(&fake, |config| config.max_changes = 10);
    let edit = Box::pin(async {
        fake.with(|webhook| edited(25).iter().for_each(|name| webhook.put(name, "A", HAND)));
    });
    let counts = check((&*provider, &*provider), &cx(""), 25, Some(edit)).await;
    assert_eq!(counts, [("done", 23), ("failed", 2)].into());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_edits_between_two_requests_is_refused_by_route53() {
    let fake = fake_route53::start();
    fake.with(|route53| route53.add_zone(ZONE));
    let provider = fake_route53::provider(&fake);
    let edit = Box::pin(async {
        fake.with(|route53| edited(1_100).iter().for_each(|name| route53.put(ZONE, name, "A", &[HAND])));
    });
    let counts = check((&*provider, &*provider), &fake_route53::cx(), 1_100, Some(edit)).await;
    assert_eq!(counts, [("done", 1_098), ("failed", 2)].into());
}

#[tokio::test(flavor = "multi_thread")]
async fn name_servers_of_a_zone_that_somebody_edits_meanwhile_are_not_overwritten_at_route53() {
    let fake = fake_route53::start();
    fake.with(|route53| route53.add_zone(ZONE));
    let (provider, cx) = (fake_route53::provider(&fake), fake_route53::cx());
    let mut records = hosts(1_100);
    records.push("{name: '@', type: NS, values: [ns1.example.net., ns2.example.net.]}".into());
    let wanted = desired(&*provider, ZONE, &records);
    let seen = observe_for(&*provider, &cx, ZONE, &wanted).await.unwrap();
    let batch = plan(&*provider, &cx, ZONE, &wanted, &[], &seen).await;
    let edit: Edit<'_> = Box::pin(async {
        fake.with(|route53| route53.put(ZONE, ZONE, "NS", &["ns.by.hand."]));
    });
    let first = batch.actions[0].id;
    let journal = Meddled { notes: Notes::default(), first, edit: Mutex::new(Some(edit)) };
    assert_eq!(provider.apply(&cx, &batch, &journal).await.unwrap_err().kind, ErrorKind::Conflict);
    assert!(journal.notes.outcome(&batch, "example.com./NS").contains("left alone"));
    let seen = observe_for(&*provider, &cx, ZONE, &wanted).await.unwrap();
    let kept = seen.get(&"example.com./NS".into()).unwrap();
    assert!(String::from_utf8_lossy(&kept.bytes).contains("ns.by.hand."));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_edits_between_two_requests_ends_the_batch_at_powerdns() {
    let server = Pdns::start().await;
    let provider = server.provider_with(|config| config.max_body = 8_000);
    let sets: Vec<_> = edited(100)
        .iter()
        .map(|name| {
            json!({"name": format!("{name}."), "type": "A", "ttl": 300, "changetype": "REPLACE",
                "records": [{"content": HAND, "disabled": false}]})
        })
        .collect();
    let body = json!({ "rrsets": sets }).to_string();
    let edit = Box::pin(server.change("PATCH", "/zones/example.com.", &body));
    let counts = check((&*provider, &*provider), &server.cx(), 100, Some(edit)).await;
    assert!(counts["done"] < 98 && counts["failed"] >= 1, "{counts:?}");
}

/// Somebody's edit at a DNS server.
fn by_hand(server: &Dnsd, count: usize) {
    let line = |name: &String| format!("update delete {name}. A\nupdate add {name}. 300 A {HAND}");
    server.change(ZONE, &edited(count).iter().map(line).collect::<Vec<_>>().join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_edits_between_two_messages_is_kept() {
    for kind in KINDS {
        let server = Dnsd::with_example(kind).await;
        let provider = provider_with(&server.address(), |config, _| config.max_message = 2_000);
        let edit = Box::pin(async { by_hand(&server, 100) });
        let counts = check((&*provider, &*provider), &server.cx(), 100, Some(edit)).await;
        assert!(counts["done"] <= 98 && counts["failed"] >= 1, "{kind:?}: {counts:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_edits_right_behind_the_last_message_is_not_held_against_the_server() {
    for kind in KINDS {
        let server = std::sync::Arc::new(Dnsd::with_example(kind).await);
        let hand = server.clone();
        let relay = Relay::to(server.port, vec![Fault::after(move || by_hand(&hand, 3))]);
        let (straight, through, cx) =
            (server.provider(), provider_with(&relay.address, |_, _| {}), server.cx());
        let wanted = wanted(&*straight, &hosts(3));
        let seen = observe_for(&*straight, &cx, ZONE, &wanted).await.unwrap();
        let batch = plan(&*straight, &cx, ZONE, &wanted, &[], &seen).await;
        through.apply(&cx, &batch, &Notes::default()).await.unwrap();
        let seen = observe_for(&*through, &cx, ZONE, &wanted).await.unwrap();
        let deltas = diff(&*through, &cx, ZONE, &wanted, &seen).await;
        assert!(deltas.len() == 2 && deltas.values().all(Result::is_ok), "{kind:?}: {deltas:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_edits_between_an_answer_and_the_question_for_its_soa_fails_alone() {
    for kind in KINDS {
        let server = std::sync::Arc::new(Dnsd::with_example(kind).await);
        let hand = server.clone();
        let relay = Relay::to(server.port, vec![Fault::after(move || by_hand(&hand, 100))]);
        let through = provider_with(&relay.address, |config, _| config.max_message = 2_000);
        let counts = check((&*server.provider(), &*through), &server.cx(), 100, None).await;
        assert_eq!(counts, [("done", 98), ("failed", 2)].into(), "{kind:?}");
    }
}
