//! Claims as the daemon carries them: somebody who works in steps, and needs TXT records in a zone meanwhile.
//!
//! The clock stands still, so whoever goes on was woken: no step waits for its next look.

use super::{
    Instance, Options, forget,
    hour::{Hand, git, until},
};
use crate::{
    config::Environment,
    layer::forward_observer,
    manifest::EntryView,
    operation::{ForgetAsk, forgettable},
    session::Session,
    store,
};
use async_trait::async_trait;
use reconciled_engine::{
    Store,
    plan::EntryPolicy,
    scheduler::{Stance, Standing},
    survey::Watched,
};
use reconciled_provider::{
    ActionId, Batch, Claim, Cx, Error, Journal, Observer, Op, Outcome, Provider, Scope, Tracked,
};
use reconciled_testkit::{Calm, Reference, Role, World};
use serde_json::json;
use std::{
    borrow::Cow,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio_util::task::TaskTracker;

const NAME: &str = "_acme-challenge.example.com.";

/// The issuer of the testkit, whose challenges are TXT values at one name of a zone.
#[derive(Debug)]
struct Issuer {
    inner: Arc<Reference>,
    zones: PathBuf,
    /// The zone as it was whenever a challenge was said to be there, and whose it was.
    seen: Mutex<Vec<(String, String)>>,
    /// What is not done.
    refuses: Mutex<fn(&Op) -> bool>,
}

impl Issuer {
    async fn around<T>(&self, _: &str, _: Option<&Scope>, work: impl Future<Output = T>) -> T {
        work.await
    }

    fn within<'a>(&self, cx: &'a Cx) -> Cow<'a, Cx> {
        Cow::Borrowed(cx)
    }
}

forward_observer!(Issuer);

#[async_trait]
impl Provider for Issuer {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        let refuses = *self.refuses.lock().unwrap();
        if batch.actions.iter().all(|action| refuses(&action.op)) {
            let refused: Vec<ActionId> = batch.actions.iter().map(|action| action.id).collect();
            journal.started(&refused).await?;
            let failed = |id| (id, Outcome::Failed(Error::unavailable("the authority is away")));
            return journal.finished(refused.into_iter().map(failed).collect()).await;
        }
        for action in &batch.actions {
            if let Op::Continue { desired, claims, .. } = &action.op
                && !claims.is_empty()
                && claims.iter().all(|claim| claim.synced)
            {
                self.seen.lock().unwrap().push((desired.id.to_string(), zone(&self.zones)));
            }
        }
        self.inner.apply(cx, batch, &Translated(journal)).await
    }
}

/// Says challenges in the words of DNS.
struct Translated<'a>(&'a dyn Journal);

fn translated(claim: Claim, owner: &str) -> Claim {
    let spec = json!({"name": NAME, "value": format!("for {owner}")}).to_string();
    Claim { provider: "zones".into(), kind: "dns-txt".into(), spec: spec.into(), ..claim }
}

#[async_trait]
impl Journal for Translated<'_> {
    async fn started(&self, actions: &[ActionId]) -> Result<(), Error> {
        self.0.started(actions).await
    }
    async fn progress(&self, action: ActionId, tracked: Tracked) -> Result<(), Error> {
        self.0.progress(action, tracked).await
    }
    async fn finished(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        let said = |outcome| match outcome {
            Outcome::Pending { tracked, recheck_after, claims } => {
                let claims = claims.into_iter().map(|claim| translated(claim, &tracked.id.0)).collect();
                Outcome::Pending { tracked, recheck_after, claims }
            }
            other => other,
        };
        self.0.finished(outcomes.into_iter().map(|(id, outcome)| (id, said(outcome))).collect()).await
    }
}

fn zone(zones: &Path) -> String {
    let files = fs::read_dir(zones).unwrap().filter_map(|file| fs::read_to_string(file.unwrap().path()).ok());
    files.collect()
}

/// A zone and a certificate authority under one daemon.
struct Desk {
    dir: tempfile::TempDir,
    world: Arc<World>,
    issuer: Arc<Issuer>,
    instance: Arc<Instance>,
}

impl Desk {
    async fn new(guard: &str) -> Desk {
        Desk::with(guard, "").await
    }

    /// With `team`, what a second source may do.
    async fn with(guard: &str, team: &str) -> Desk {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("zones")).unwrap();
        fs::create_dir(at("infra")).unwrap();
        git(&at("infra"), &["init", "-q"]);
        commit(&at("infra"), &["www", "api", "old"], &[]);
        let path = dir.path().display();
        let team = match team {
            "" => String::new(),
            rules => {
                fs::create_dir(at("team")).unwrap();
                git(&at("team"), &["init", "-q"]);
                fs::write(at("team/none.yaml"), "").unwrap();
                git(&at("team"), &["add", "-A"]);
                git(&at("team"), &["commit", "-qm", "nothing"]);
                format!(", allow: all}}, {{name: team, url: {path}/team, interval: 60s, allow: [{rules}]")
            }
        };
        let config = format!(
            "instance: test\nstateDir: {path}/state\nsources: [{{name: infra, url: {path}/infra, interval: 60s{team}}}]\n\
             providers: [{{name: zones, type: zonefile, directory: {path}/zones, guard: {{{guard}}}}}]\n"
        );
        fs::write(at("config.yaml"), config).unwrap();
        let clock = Hand::new();
        store::init(&at("state"), store::Init::New, clock.clone()).await.unwrap();
        let config = at("config.yaml");
        let session = Session::open_at(Some(&config), Environment::default(), clock.clone()).await;
        let mut session = session.unwrap();

        let world = Arc::new(World::default());
        let inner = Arc::new(Reference::new(Role::Issuer, "ca", "test", world.clone(), Arc::new(Calm)));
        let nothing: fn(&Op) -> bool = |_| false;
        let (seen, refuses) = (Mutex::default(), Mutex::new(nothing));
        let issuer = Arc::new(Issuer { inner, zones: at("zones"), seen, refuses });
        let kinds = issuer.kinds(&session.surveyor.cx).await.unwrap();
        let observer: Arc<dyn Observer> = issuer.clone();
        let watched = Watched {
            observer: observer.clone(),
            policy: EntryPolicy::Sync,
            guard: session.surveyor.entries["zones"].guard.clone(),
        };
        session.surveyor.entries.insert("ca".into(), watched);
        session.views.push(EntryView { name: "ca".into(), observer, kinds });
        session.writers.insert("ca".into(), issuer.clone());

        let tasks = TaskTracker::new();
        let instance = Instance::start(session, None, &Options::default(), &tasks).await.unwrap();
        let desk = Desk { dir, world, issuer, instance };
        until("the zone", || desk.zone().contains("www")).await;
        until("ready", || desk.instance.is_ready()).await;
        desk
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn zone(&self) -> String {
        zone(&self.at("zones"))
    }

    fn issued(&self) -> usize {
        self.world.contents(&Scope::new("ca", "web")).objects.len()
    }

    async fn end(self) {
        self.instance.stop();
        self.instance.ended().await;
    }
}

/// Commits a zone with these names and certificates with those.
fn commit(infra: &Path, names: &[&str], certificates: &[&str]) {
    let record = |name: &&str| format!("    - {{name: {name}, type: A, values: [192.0.2.1]}}\n");
    let mut text: String =
        "apiVersion: dns/v1\nkind: Zone\nmetadata: {name: example.com}\nspec:\n  apex: true\n  records:\n\
         \x20   - {name: '@', type: NS, values: [ns.example.net.]}\n"
            .into();
    text.extend(names.iter().map(record));
    if !certificates.is_empty() {
        text += "---\n";
        text += &wanted(certificates);
    }
    publish(infra, &text);
}

fn wanted(certificates: &[&str]) -> String {
    let mut text = "apiVersion: test/v1\nkind: Thing\nmetadata: {name: web}\nspec:\n  provider: ca\n  scope: web\n  items:\n"
        .to_owned();
    text.extend(certificates.iter().map(|name| format!("    {name}: issued\n")));
    text
}

fn publish(repository: &Path, text: &str) {
    fs::write(repository.join("all.yaml"), text).unwrap();
    git(repository, &["add", "-A"]);
    git(repository, &["commit", "-qm", "change"]);
}

const EIGHT: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_claims_at_one_name_stand_beside_a_foreign_value_and_go_without_a_hold() {
    let desk = Desk::new("maxDeletes: 0, maxUpdates: 0").await;
    // Somebody else proves something at the same name.
    let file = desk.at("zones/example.com.zone");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}{NAME} 60 IN TXT \"foreign\"\n")).unwrap();
    commit(&desk.at("infra"), &["www", "api", "old"], &EIGHT);
    desk.instance.follower.wake(Some("infra".into()));
    until("eight certificates", || desk.issued() == 8).await;
    let is_clean = || !desk.zone().contains("for ") && desk.zone().contains("foreign");
    until("the challenges to be gone, and no more than they", is_clean).await;
    let seen = desk.issuer.seen.lock().unwrap().clone();
    for (owner, zone) in &seen {
        assert!(
            zone.contains(&format!("\"for {owner}\"")),
            "{owner} goes on when its value is there:\n{zone}"
        );
        assert!(zone.contains("\"foreign\""), "{owner}:\n{zone}");
    }
    assert_eq!(seen.len(), 8, "each went on once: {seen:?}");
    assert_eq!(desk.instance.writing.db.holds().await.unwrap(), [], "claims are no matter of the guard");
    desk.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_are_carried_in_a_zone_that_is_held() {
    let desk = Desk::new("maxDeletes: 0").await;
    commit(&desk.at("infra"), &["www"], &EIGHT);
    desk.instance.follower.wake(Some("infra".into()));
    until("eight certificates", || desk.issued() == 8).await;
    until("the challenges to be gone", || !desk.zone().contains("for ")).await;
    let holds = desk.instance.writing.db.holds().await.unwrap();
    assert_eq!(holds.iter().map(|hold| &*hold.domain).collect::<Vec<_>>(), ["zones/example.com"]);
    let zone = desk.zone();
    assert!(zone.contains("api") && zone.contains("old"), "what is held stays:\n{zone}");
    desk.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_something_claimed_goes_once_that_is_let_go_of() {
    let desk = Desk::new("maxDeletes: 0").await;
    *desk.issuer.refuses.lock().unwrap() = |op| matches!(op, Op::Continue { .. });
    commit(&desk.at("infra"), &["www", "api", "old"], &["a"]);
    desk.instance.follower.wake(Some("infra".into()));
    until("the challenge", || desk.zone().contains("for a")).await;
    let waits = || {
        let all = desk.instance.scheduler.standing();
        let is_at_rest = |known: &Standing| !known.is_queued && known.running_since.is_none();
        let issuer = all.get(&Scope::new("ca", "web"));
        all.values().all(is_at_rest) && issuer.is_some_and(|known| known.stance == Stance::Failed)
    };
    until("the authority to be waited for, and nothing else to go on", waits).await;
    // It is declared still, and must not claim anew.
    *desk.issuer.refuses.lock().unwrap() = |_| true;
    let ask = ForgetAsk { address: Some("Thing/web".into()), source: None };
    let shown = forgettable(desk.instance.writing.db.reader(), &ask).await.unwrap();
    assert_eq!(forget(&desk.instance, shown, "ann").await.unwrap().count, 1);
    until("the challenge to be gone", || !desk.zone().contains("for a")).await;
    assert_eq!(desk.issued(), 0);
    desk.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_source_may_not_declare_it_may_not_claim() {
    for (rules, told) in [
        ("{provider: '*', scopes: [web]}", true),
        ("{provider: '*', scopes: [web]}, {provider: zones, scopes: [example.org]}", true),
        ("{provider: '*', scopes: [web]}, {provider: zones, deny: ['Zone/*#_acme-challenge*']}", true),
        ("{provider: '*', scopes: [web]}, {provider: zones, kinds: [dns/None], deny: ['*/*#www/*']}", false),
    ] {
        let desk = Desk::with("maxDeletes: 0", rules).await;
        publish(&desk.at("team"), &wanted(&["a"]));
        desk.instance.follower.wake(Some("team".into()));
        let mut status = String::new();
        for _ in 0..1_500 {
            status =
                serde_json::to_string(&desk.instance.writing.db.reader().not_well().await.unwrap()).unwrap();
            if desk.issued() == 1 || status.contains("source `team` may not write") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(status.contains("source `team` may not write"), told, "{rules}: {status}");
        assert!(!told || !desk.zone().contains("for "), "{rules}");
        assert_eq!(desk.issued(), usize::from(!told), "{rules}");
        desk.end().await;
    }
}
