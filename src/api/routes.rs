//! The routes: which operation answers what, and who may ask it.

use super::{
    answer::{Answer, Refused},
    caller::{self, Gate, Patience},
    metrics, open,
    openapi::describe,
    peer::{Door, Peer},
    route::{All, Asking, Route, Telling, asked, bytes, said, told},
};
use crate::{
    client::Identity,
    daemon::{self, Daemon, Following, Instance},
    failure::Failure,
    operation::{
        self, AdoptAsk, Adoptable, Adoption, ApproveAsk, Approved, Aside, DriftAsk, EventsAsk, ExplainAsk,
        Explanation, ForgetAsk, Forgotten, HistoryAsk, ImportAsk, Imported, Insisted, NotifyTestAsk,
        PlanAnswer, PlanAsk, PushAnswer, PushAsk, PushFollow, PushTarget, PushTargetAsk, RenewAsk, Renewed,
        ResumeAsk, Resumed, RollbackAsk, RolledBack, StatusAnswer, StatusAsk, SuspendAsk, Suspended, SyncAsk,
        SyncLine,
    },
    session::{Folder, outside, reach},
    source::{Limits, Reach},
    store::{Approvals, DriftEntry, EventEntry, HistoryEntry, TrackedEntry, Verification},
};
use axum::{
    Router,
    extract::DefaultBodyLimit,
    http::header,
    middleware,
    response::{IntoResponse, Response},
};
use reconciled_engine::survey::Surveyor;
use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};
use tokio::sync::{Semaphore, mpsc};

/// Largest request that only says what is wanted.
const USUAL: usize = 1 << 20;
/// Largest request that carries something: a tree of the largest size a source may have, in base64.
const LARGEST: usize = 96 << 20;

/// Large requests at a time on the socket: plans of pushes wait for each other.
const SOCKET_AT_ONCE: usize = 4;
/// The same at the address.
const ADDRESS_AT_ONCE: usize = 2;
/// How long a request may take to arrive, after its head.
const PATIENCE: Patience = Patience { usual: Duration::from_secs(30), large: Duration::from_secs(300) };

/// Every question that needs to be known who asks.
pub(super) fn all() -> Vec<Route> {
    vec![
        asked("/v1/instance", "who answers", instance).reads(),
        asked("/v1/status", "how it stands", status).reads(),
        asked("/v1/sources", "how the sources stand", sources).reads(),
        asked("/v1/history", "what happened", history).reads(),
        asked("/v1/events", "the audit trail", events).reads(),
        asked("/v1/events/last", "number of the newest event", last_event).reads(),
        asked("/v1/events/verify", "whether the audit trail holds together", verify).reads(),
        asked("/v1/drift", "what was changed by somebody else, and what became of it", drift).reads(),
        asked("/v1/approvals", "what waits for consent, and what was consented to", approvals).reads(),
        said("/v1/approve", "consent to a held plan", approve).acts(),
        asked("/v1/adopt", "what can be taken over", adoptable).reads(),
        said("/v1/adopt", "take over what was shown", adopt).acts().large(),
        asked("/v1/forget", "what may be let go of", forgettable).reads(),
        said("/v1/forget", "let go of what was shown", forget).acts().large(),
        asked("/v1/explain", "why something is as it is", explain).reads(),
        said("/v1/suspend", "write nothing to what is meant", suspend).acts(),
        said("/v1/resume", "write again to what was suspended", resume).acts(),
        said("/v1/renew", "make certificates anew although they are as declared", renew).acts(),
        said("/v1/rollback", "keep resources at an earlier revision", rollback).acts(),
        said("/v1/import", "manifests of what a provider holds", import).acts(),
        said("/v1/plan", "what would change", plan).reads().large(),
        told("/v1/sync", "look and act now, and tell how it goes", sync, failed).acts(),
        said("/v1/push/target", "which sources follow a repository of this host", push_target),
        said("/v1/push/plan", "what a push would change", push_plan).large(),
        told("/v1/push/follow", "have a push followed, and tell how it goes", push_follow, failed),
        bytes("/v1/backup", "the state as a file, without its key", SQLITE, backup).acts(),
        said("/v1/notify/test", "send a test message to a receiver", notify_test).acts(),
        bytes(
            "/metrics",
            "what it counted and how it stands, for Prometheus",
            metrics::TEXT,
            metrics::metrics,
        )
        .reads(),
        bytes("/v1/openapi.json", "this description", JSON, openapi).reads(),
    ]
}

const SQLITE: &str = "application/vnd.sqlite3";
const JSON: &str = "application/json";

/// What is answered on the unix socket.
pub(super) fn for_socket(daemon: Arc<Daemon>, door: Door) -> Router {
    gated(SOCKET_AT_ONCE)
        .layer(middleware::from_fn_with_state(door, caller::of_socket))
        .merge(open::router())
        .with_state(daemon)
}

/// What is answered at an address.
pub(super) fn for_address(daemon: Arc<Daemon>) -> Router {
    gated(ADDRESS_AT_ONCE)
        .layer(middleware::from_fn_with_state(daemon.clone(), caller::of_token))
        .merge(open::router())
        .merge(open::webhooks())
        .with_state(daemon)
}

/// Every route behind its gate; `at_once` large requests at a time.
fn gated(at_once: usize) -> Router<Arc<Daemon>> {
    let room = Arc::new(Semaphore::new(at_once));
    let mut router = Router::new();
    for route in all() {
        let (limit, patience) = match route.is_large {
            true => (LARGEST, PATIENCE.large),
            false => (USUAL, PATIENCE.usual),
        };
        let gate = Gate { needs: route.needs, limit, patience, room: route.is_large.then(|| room.clone()) };
        let service = route
            .service
            .route_layer(middleware::from_fn_with_state(gate, caller::pass))
            .route_layer(DefaultBodyLimit::max(limit));
        router = router.route(route.path, service);
    }
    router.fallback(async || Refused::nowhere()).method_not_allowed_fallback(async || Refused::method())
}

async fn instance(asking: Asking, _: All) -> Answer<Identity> {
    let config = &asking.instance.session.config;
    let following = asking.instance.follower.sources();
    let at = |name: &str| following.get(name).map(|f| f.label.clone()).filter(|l| !l.is_empty());
    let sources = config.sources.iter().map(|source| {
        (source.name.to_string(), at(&source.name).unwrap_or_else(|| "no revision yet".into()))
    });
    Ok(Identity {
        instance: config.instance.to_string(),
        version: env!("CARGO_PKG_VERSION").into(),
        state_dir: config.state_dir.to_string_lossy().into_owned(),
        sources: sources.collect(),
    })
}

async fn status(Asking { instance, .. }: Asking, ask: StatusAsk) -> Answer<StatusAnswer> {
    let config = &instance.session.config;
    let outside = outside(config, instance.session.clock.now());
    let reader = instance.writing.db.reader();
    let unwritten = daemon::unwritten(&instance, reader).await?;
    let desired = instance.follower.desired();
    let mut answer =
        operation::status(config, reader, Some(&desired), &outside, &unwritten, &[], &ask).await?;
    if ask.wide {
        operation::add_facts(&instance.session, &mut answer, ask.quick).await;
    }
    let standing = instance.scheduler.standing();
    operation::lay_over(&mut answer.status.conditions, &standing, instance.session.clock.now());
    operation::lay_over_health(&mut answer.status, &standing);
    daemon::add_unseen(&instance, &mut answer, ask.address.is_none()).await?;
    operation::add_unknown(reader, Some(&desired), &ask, &mut answer).await?;
    if answer.unknown.is_some() {
        answer.messages.extend(daemon::without_revision(&instance).await?);
    }
    if ask.address.is_none() {
        daemon::add_sources(&instance, &mut answer.status);
        operation::add_without_revision(config, &mut answer.status, instance.session.clock.now());
        daemon::add_upkeep(&instance, &mut answer.status.conditions);
        answer.requests = instance.requests.entries(&instance.scheduler);
    }
    if instance.observes {
        answer.messages.push("note: the daemon only looks (`run --observe`) and writes nothing".into());
    }
    answer.messages.extend(instance.follower.messages());
    answer.messages.extend(crate::notify::report_troubles(&instance));
    Ok(answer)
}

async fn sources(asking: Asking, _: All) -> Answer<BTreeMap<Arc<str>, Following>> {
    Ok(asking.instance.follower.sources())
}

async fn history(asking: Asking, ask: HistoryAsk) -> Answer<Vec<HistoryEntry>> {
    Ok(operation::history(asking.instance.writing.db.reader(), &ask).await?)
}

async fn drift(asking: Asking, ask: DriftAsk) -> Answer<Vec<DriftEntry>> {
    Ok(operation::drift(asking.instance.writing.db.reader(), &ask).await?)
}

async fn events(asking: Asking, ask: EventsAsk) -> Answer<Vec<EventEntry>> {
    Ok(operation::events(asking.instance.writing.db.reader(), &ask).await?)
}

async fn last_event(asking: Asking, _: All) -> Answer<i64> {
    Ok(asking.instance.writing.db.reader().last_event().await.map_err(Failure::from)?)
}

async fn verify(asking: Asking, _: All) -> Answer<Verification> {
    Ok(asking.instance.writing.db.reader().verify_events().await.map_err(Failure::from)?)
}

async fn approvals(asking: Asking, _: All) -> Answer<Approvals> {
    Ok(operation::approvals(asking.instance.writing.db.reader()).await?)
}

async fn approve(Asking { instance, actor, is_owner, .. }: Asking, ask: ApproveAsk) -> Answer<Approved> {
    let now = instance.session.clock.now();
    if !is_owner {
        let (sources, desired) = (&instance.session.config.sources, instance.follower.desired());
        operation::may_approve(sources, instance.writing.db.reader(), &desired, &ask).await?;
    }
    let approved = operation::approve(&*instance.writing.db, &ask, &actor, now).await?;
    daemon::approved(&instance, &approved.domain);
    Ok(approved)
}

async fn adoptable(Asking { instance, .. }: Asking, ask: AdoptAsk) -> Answer<Adoption> {
    Ok(operation::adoptable(&instance.session, &*instance.writing.db, &ask).await?)
}

async fn adopt(Asking { instance, actor, .. }: Asking, shown: Vec<Adoptable>) -> Answer<()> {
    Ok(daemon::adopt(&instance, &shown, &actor).await?)
}

async fn forgettable(asking: Asking, ask: ForgetAsk) -> Answer<Vec<TrackedEntry>> {
    Ok(operation::forgettable(asking.instance.writing.db.reader(), &ask).await?)
}

async fn forget(Asking { instance, actor, .. }: Asking, shown: Vec<TrackedEntry>) -> Answer<Forgotten> {
    Ok(daemon::forget(&instance, shown, &actor).await?)
}

async fn renew(Asking { instance, actor, .. }: Asking, ask: RenewAsk) -> Answer<Renewed> {
    let desired = instance.follower.desired();
    let renewed = operation::renew(&instance.session, &instance.writing.db, &desired, &ask, &actor).await?;
    daemon::asked_for(&instance, renewed.scopes.iter().filter_map(|scope| scope.parse().ok()));
    Ok(renewed)
}

async fn explain(Asking { instance, .. }: Asking, ask: ExplainAsk) -> Answer<Explanation> {
    let outside = outside(&instance.session.config, instance.session.clock.now());
    let (reader, desired) = (instance.writing.db.reader(), instance.follower.desired());
    let look = Some((&*instance.session, &*desired));
    let aside = Aside::of(&instance.session.config, &daemon::unwritten(&instance, reader).await?);
    let mut explanation = operation::explain(reader, look, &outside, aside, &ask).await?;
    let now = instance.session.clock.now();
    operation::lay_over(&mut explanation.conditions, &instance.scheduler.standing(), now);
    if explanation.is_empty() && explanation.near.is_none() {
        explanation.messages = daemon::without_revision(&instance).await?;
    }
    Ok(explanation)
}

/// What is suspended is durable before anything that runs is asked to stop.
async fn suspend(Asking { instance, actor, .. }: Asking, ask: SuspendAsk) -> Answer<Suspended> {
    let (config, now) = (&instance.session.config, instance.session.clock.now());
    let suspended = operation::suspend(&instance.writing.db, config, &ask, &actor, now).await?;
    Ok(Suspended { is_writing: daemon::halt(&instance).await, ..suspended })
}

async fn resume(Asking { daemon, instance, actor, .. }: Asking, ask: ResumeAsk) -> Answer<Resumed> {
    let now = instance.session.clock.now();
    let desired = instance.follower.desired();
    let resumed = operation::resume(&instance.writing.db, Some(&desired), &ask, &actor, now).await?;
    if !resumed.released.is_empty() {
        repinned(&daemon).await?;
    }
    daemon::resumed(&instance);
    Ok(resumed)
}

async fn rollback(Asking { daemon, instance, actor, .. }: Asking, ask: RollbackAsk) -> Answer<RolledBack> {
    let now = instance.session.clock.now();
    let done = operation::rollback(&instance.session, &instance.writing.db, &ask, &actor, now).await?;
    repinned(&daemon).await?;
    Ok(done)
}

/// Has what is kept at earlier revisions come into force.
async fn repinned(daemon: &Daemon) -> Result<(), Failure> {
    let repin = async |instance: Arc<Instance>| {
        let news = instance.follower.repin().await;
        news.map(drop).map_err(|failure| Failure::Other(failure.to_string(), failure.hint()))
    };
    daemon.asked(repin).await
}

async fn import(Asking { instance, .. }: Asking, ask: ImportAsk) -> Answer<Imported> {
    Ok(operation::import(&instance.session, instance.writing.db.reader(), &ask).await?)
}

async fn plan(Asking { daemon, .. }: Asking, ask: PlanAsk) -> Answer<PlanAnswer> {
    Ok(daemon.asked(|instance| planned(instance, &ask)).await?)
}

async fn planned(instance: Arc<Instance>, ask: &PlanAsk) -> Result<PlanAnswer, Failure> {
    let tree = ask.upload.as_ref().map(|upload| upload.whole(Limits::default())).transpose()?;
    let meant = ask.selected.ask(tree.map(Folder::Sent))?;
    let reader = instance.writing.db.reader();
    let (in_force, scopes) = (instance.follower.desired(), instance.scheduler.insisted());
    let insisted = Some(Insisted { scopes: &scopes, in_force: &in_force });
    let planned = operation::plan(&instance.session, reader, &meant, &ask.form, insisted).await;
    let mut answer = planned.map_err(|failure| daemon::since_when(&instance, failure))?;
    // What it shows of a rotated secret is what can be consented to, once the daemon has seen it too.
    instance.follower.look_at_secrets();
    if instance.observes {
        answer
            .messages
            .push("note: the daemon only looks (`run --observe`): it will write nothing of this".into());
    }
    Ok(answer)
}

/// Does it and tells how it goes. The work is the daemon's: it goes on when nobody listens any more.
fn sync(Asking { daemon, actor, .. }: Asking, ask: SyncAsk, lines: mpsc::Sender<SyncLine>) -> Telling {
    Box::pin(async move { daemon::sync(&daemon, ask, &actor, &lines).await })
}

fn failed(failure: Failure) -> SyncLine {
    SyncLine::Message { text: format!("error: {}", failure.with_hint()) }
}

/// What a hook must know of a repository.
async fn push_target(Asking { instance, .. }: Asking, ask: PushTargetAsk) -> Answer<PushTarget> {
    // Somebody pushes: a resync makes way for the moment until the plan is asked for.
    let Surveyor { hurry, cx, .. } = &instance.session.surveyor;
    let _rush = hurry.rush(&cx.clock);
    let target = PushTarget::of(&instance.session.config, Path::new(&ask.repository));
    let mut target = PushTarget { knows_base: true, knows_moves: true, ..target };
    let following = instance.follower.sources();
    for source in &mut target.sources {
        let commit = following.get(source.name.as_str()).map(|following| following.commit.clone());
        source.in_force = commit.filter(|commit| !commit.is_empty());
    }
    Ok(target)
}

/// What a push would change, and what of that the pusher consents to once it was taken.
async fn push_plan(Asking { daemon, actor, peer, .. }: Asking, ask: PushAsk) -> Answer<PushAnswer> {
    if !ask.approve.is_empty() {
        may_push(peer, &ask.repository)?;
    }
    Ok(daemon.asked(|instance| push_planned(instance, &ask, &actor)).await?)
}

async fn push_planned(instance: Arc<Instance>, ask: &PushAsk, actor: &str) -> Result<PushAnswer, Failure> {
    let now = instance.session.clock.now();
    let (in_force, scopes) = (instance.follower.desired(), instance.scheduler.insisted());
    let insisted = Insisted { scopes: &scopes, in_force: &in_force };
    let unseen = instance.scheduler.unseen();
    let reader = instance.writing.db.reader();
    let (answer, given) =
        operation::push(&instance.session, reader, insisted, &unseen, ask, actor, now).await?;
    // Looked at last: who gave up waiting for a plan was told that nothing is approved, and the commit may be there by now.
    let before = match given.is_empty() {
        true => Reach::Without,
        false => reach(&ask.repository, &ask.reference, &ask.commit).await?,
    };
    instance.pending.put(ask, actor, given, before);
    Ok(answer)
}

/// Follows what a push set off.
fn push_follow(
    Asking { daemon, actor, peer, .. }: Asking,
    ask: PushFollow,
    lines: mpsc::Sender<SyncLine>,
) -> Telling {
    Box::pin(async move {
        if !ask.approve.is_empty() || ask.accept_rewind {
            may_push(peer, &ask.repository)?;
        }
        daemon::pushed(&daemon, &ask, &actor, &lines).await
    })
}

/// What a push may consent to is said by who may push: who may use the socket alone has the verbs for it.
fn may_push(peer: Option<Peer>, repository: &str) -> Result<(), Failure> {
    if peer.is_some_and(|peer| peer.may_write(&Path::new(repository).join("refs"))) {
        return Ok(());
    }
    Err(Failure::hinted(
        format!("this user may not write {repository}, and so cannot consent as its pusher"),
        "whoever pushes needs to be the owner of the repository, or in its group: reconciled init --group",
    ))
}

/// Has a receiver of notifications told that it can be told something.
async fn notify_test(Asking { instance, .. }: Asking, ask: NotifyTestAsk) -> Answer<()> {
    let (session, now) = (&instance.session, instance.session.clock.now());
    operation::notify_test(&session.config, &*session.secrets, &ask, now).await?;
    Ok(())
}

/// The state as a file, without its key.
async fn backup(daemon: Arc<Daemon>) -> Answer<Response> {
    let instance = daemon.instance();
    let cannot = |error: std::io::Error| Failure::plain(format!("write the backup: {error}"));
    let folder = tempfile::tempdir_in(&instance.session.config.state_dir).map_err(cannot)?;
    let file = folder.path().join("state.db");
    instance.writing.db.reader().backup(&file).await.map_err(Failure::from)?;
    let content = tokio::fs::read(&file).await.map_err(cannot)?;
    Ok(([(header::CONTENT_TYPE, SQLITE)], content).into_response())
}

async fn openapi(_: Arc<Daemon>) -> Answer<Response> {
    let text = describe(&all()).to_string();
    Ok(([(header::CONTENT_TYPE, JSON)], text).into_response())
}
