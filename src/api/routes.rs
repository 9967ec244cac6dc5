//! The routes: which operation answers what.

use super::{
    answer::{Answer, Refused, lines},
    peer::{Door, Peer},
};
use crate::{
    client::Identity,
    daemon::{self, Daemon, Following},
    operation::{
        self, AdoptAsk, Adoptable, Adoption, ApproveAsk, Approved, EventsAsk, ExplainAsk, Explanation,
        ForgetAsk, Forgotten, HistoryAsk, NotifyTestAsk, PlanAnswer, PlanAsk, PushAnswer, PushAsk,
        PushFollow, PushTarget, PushTargetAsk, ResumeAsk, Resumed, StatusAnswer, StatusAsk, SuspendAsk,
        Suspended, SyncAsk, SyncLine,
    },
    session::{Failure, Folder, by_file, suspending_file},
    source::Limits,
    store::{Approvals, EventEntry, HistoryEntry, TrackedEntry, Verification},
};
use axum::{
    Extension, Json, Router,
    extract::{
        ConnectInfo, DefaultBodyLimit, Query, Request, State,
        rejection::{JsonRejection, QueryRejection},
    },
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use std::{collections::BTreeMap, path::Path, sync::Arc};
use tokio::sync::mpsc;

/// Largest request that only says what is wanted.
const USUAL: usize = 1 << 20;
/// Largest request that carries something: a tree of the largest size a source may have, in base64.
const LARGEST: usize = 96 << 20;

type Host = State<Arc<Daemon>>;
type Asked<T> = Result<Query<T>, QueryRejection>;
type Said<T> = Result<Json<T>, JsonRejection>;

/// The name of who asks, as the kernel says.
#[derive(Clone)]
struct Actor(String);

pub(super) fn router(daemon: Arc<Daemon>, door: Door) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/v1/instance", get(instance))
        .route("/v1/status", get(status))
        .route("/v1/sources", get(sources))
        .route("/v1/history", get(history))
        .route("/v1/events", get(events))
        .route("/v1/events/last", get(last_event))
        .route("/v1/events/verify", get(verify))
        .route("/v1/approvals", get(approvals))
        .route("/v1/approve", post(approve))
        .route("/v1/adopt", get(adoptable).post(adopt).layer(large()))
        .route("/v1/forget", get(forgettable).post(forget).layer(large()))
        .route("/v1/explain", get(explain))
        .route("/v1/suspend", post(suspend))
        .route("/v1/resume", post(resume))
        .route("/v1/notify/test", post(notify_test))
        .route("/v1/plan", post(plan).layer(large()))
        .route("/v1/sync", post(sync))
        .route("/v1/push/target", post(push_target))
        .route("/v1/push/plan", post(push_plan).layer(large()))
        .route("/v1/push/follow", post(push_follow))
        .route("/v1/backup", get(backup))
        .route("/metrics", get(super::metrics::metrics))
        .fallback(async || {
            Refused(Failure::hinted("there is no such path", "see docs/api.md"), StatusCode::NOT_FOUND)
        })
        .layer(DefaultBodyLimit::max(USUAL))
        .layer(middleware::from_fn_with_state(door, guard))
        .with_state(daemon)
}

fn large() -> DefaultBodyLimit {
    DefaultBodyLimit::max(LARGEST)
}

/// Lets in whom the door lets in, and notes who it is.
async fn guard(
    State(door): State<Door>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(name) = door.lets(peer) else {
        let failure = Failure::hinted(
            "this user may not use the daemon",
            "become a member of the group named by `api.group`, or use sudo",
        );
        return Refused(failure, StatusCode::FORBIDDEN).into_response();
    };
    request.extensions_mut().insert(Actor(name));
    next.run(request).await
}

/// What was asked, or why it is no question.
fn asked<T>(query: Asked<T>) -> Result<T, Refused> {
    match query {
        Ok(Query(ask)) => Ok(ask),
        Err(error) => Err(Refused(Failure::plain(error.body_text()), error.status())),
    }
}

fn said<T>(body: Said<T>) -> Result<T, Refused> {
    match body {
        Ok(Json(ask)) => Ok(ask),
        Err(error) => Err(Refused(Failure::plain(error.body_text()), error.status())),
    }
}

async fn readyz(State(daemon): Host) -> (StatusCode, &'static str) {
    match daemon.instance().is_ready() {
        true => (StatusCode::OK, "ready\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "the first pass has not ended\n"),
    }
}

async fn instance(State(daemon): Host) -> Json<Identity> {
    let instance = daemon.instance();
    let config = &instance.session.config;
    let following = instance.follower.sources();
    let at = |name: &str| following.get(name).map(|f| f.label.clone()).filter(|l| !l.is_empty());
    let sources = config.sources.iter().map(|source| {
        (source.name.to_string(), at(&source.name).unwrap_or_else(|| "no revision yet".into()))
    });
    Json(Identity {
        instance: config.instance.to_string(),
        version: env!("CARGO_PKG_VERSION").into(),
        state_dir: config.state_dir.to_string_lossy().into_owned(),
        sources: sources.collect(),
    })
}

async fn status(State(daemon): Host, query: Asked<StatusAsk>) -> Answer<StatusAnswer> {
    let (instance, ask) = (daemon.instance(), asked(query)?);
    let config = &instance.session.config;
    let file = by_file(&suspending_file(config));
    let reader = instance.writing.db.reader();
    let mut answer = operation::status(&config.instance, reader, file.as_ref(), &ask).await?;
    for (name, following) in instance.follower.sources() {
        if let Some((error, hint)) = following.behind {
            let force = match following.label.as_str() {
                "" => "nothing is in force yet".to_string(),
                label => format!("{label} stays in force"),
            };
            answer.messages.push(format!("error: source {name}: {error}\nhint: {hint}; {force}"));
        }
    }
    answer.messages.extend(instance.follower.messages());
    answer.messages.extend(crate::notify::report_troubles(&instance));
    Ok(Json(answer))
}

async fn sources(State(daemon): Host) -> Json<BTreeMap<Arc<str>, Following>> {
    Json(daemon.instance().follower.sources())
}

async fn history(State(daemon): Host, query: Asked<HistoryAsk>) -> Answer<Vec<HistoryEntry>> {
    Ok(Json(operation::history(daemon.instance().writing.db.reader(), &asked(query)?).await?))
}

async fn events(State(daemon): Host, query: Asked<EventsAsk>) -> Answer<Vec<EventEntry>> {
    Ok(Json(operation::events(daemon.instance().writing.db.reader(), &asked(query)?).await?))
}

async fn last_event(State(daemon): Host) -> Answer<i64> {
    Ok(Json(daemon.instance().writing.db.reader().last_event().await.map_err(Failure::from)?))
}

async fn verify(State(daemon): Host) -> Answer<Verification> {
    let found = daemon.instance().writing.db.reader().verify_events().await;
    Ok(Json(found.map_err(Failure::from)?))
}

async fn approvals(State(daemon): Host) -> Answer<Approvals> {
    Ok(Json(operation::approvals(daemon.instance().writing.db.reader()).await?))
}

async fn approve(
    State(daemon): Host,
    Extension(Actor(actor)): Extension<Actor>,
    body: Said<ApproveAsk>,
) -> Answer<Approved> {
    let (instance, ask) = (daemon.instance(), said(body)?);
    let now = instance.session.clock.now();
    let approved = operation::approve(&*instance.writing.db, &ask, &actor, now).await?;
    daemon::consented(&instance);
    Ok(Json(approved))
}

async fn adoptable(State(daemon): Host, query: Asked<AdoptAsk>) -> Answer<Adoption> {
    let instance = daemon.instance();
    Ok(Json(operation::adoptable(&instance.session, &*instance.writing.db, &asked(query)?).await?))
}

async fn adopt(
    State(daemon): Host,
    Extension(Actor(actor)): Extension<Actor>,
    body: Said<Vec<Adoptable>>,
) -> Answer<()> {
    let (instance, shown) = (daemon.instance(), said(body)?);
    let now = instance.session.clock.now();
    operation::adopt(&*instance.writing.db, &shown, &actor, now).await?;
    daemon::consented(&instance);
    Ok(Json(()))
}

async fn forgettable(State(daemon): Host, query: Asked<ForgetAsk>) -> Answer<Vec<TrackedEntry>> {
    Ok(Json(operation::forgettable(daemon.instance().writing.db.reader(), &asked(query)?).await?))
}

async fn forget(
    State(daemon): Host,
    Extension(Actor(actor)): Extension<Actor>,
    body: Said<Vec<TrackedEntry>>,
) -> Answer<Forgotten> {
    let (instance, shown) = (daemon.instance(), said(body)?);
    let now = instance.session.clock.now();
    // A pass that has planned already would write what it found, and its row with it.
    let forget = operation::forget(&instance.writing.db, shown, &actor, now);
    let forgotten = instance.scheduler.alone(forget).await?;
    daemon::consented(&instance);
    Ok(Json(forgotten))
}

async fn explain(State(daemon): Host, query: Asked<ExplainAsk>) -> Answer<Explanation> {
    let (instance, ask) = (daemon.instance(), asked(query)?);
    let file = by_file(&suspending_file(&instance.session.config));
    let (reader, desired) = (instance.writing.db.reader(), instance.follower.desired());
    let look = Some((&*instance.session, &*desired));
    Ok(Json(operation::explain(reader, look, file.as_ref(), &ask).await?))
}

/// What is suspended is durable before anything that runs is asked to stop.
async fn suspend(
    State(daemon): Host,
    Extension(Actor(actor)): Extension<Actor>,
    body: Said<SuspendAsk>,
) -> Answer<Suspended> {
    let (instance, ask) = (daemon.instance(), said(body)?);
    let (config, now) = (&instance.session.config, instance.session.clock.now());
    let suspended = operation::suspend(&instance.writing.db, config, &ask, &actor, now).await?;
    Ok(Json(Suspended { is_writing: daemon::halt(&instance).await, ..suspended }))
}

async fn resume(
    State(daemon): Host,
    Extension(Actor(actor)): Extension<Actor>,
    body: Said<ResumeAsk>,
) -> Answer<Resumed> {
    let (instance, ask) = (daemon.instance(), said(body)?);
    let now = instance.session.clock.now();
    let resumed = operation::resume(&instance.writing.db, &ask, &actor, now).await?;
    daemon::resumed(&instance);
    Ok(Json(resumed))
}

async fn plan(State(daemon): Host, body: Said<PlanAsk>) -> Answer<PlanAnswer> {
    let (instance, ask) = (daemon.instance(), said(body)?);
    let tree = ask.upload.as_ref().map(|upload| upload.tree(Limits::default())).transpose()?;
    let meant = ask.selected.ask(tree.map(Folder::Sent))?;
    let reader = instance.writing.db.reader();
    Ok(Json(operation::plan(&instance.session, reader, &meant, &ask.form).await?))
}

/// Does it and tells how it goes. The work is the daemon's: it goes on when nobody listens any more.
async fn sync(
    State(daemon): Host,
    Extension(Actor(actor)): Extension<Actor>,
    body: Said<SyncAsk>,
) -> Result<Response, Refused> {
    let (instance, ask) = (daemon.instance(), said(body)?);
    let (send, receive) = mpsc::channel(64);
    let work = async move { daemon::sync(&instance, &ask, &actor, &send).await };
    lines(work, receive, failed).await
}

fn failed(failure: Failure) -> SyncLine {
    let hint = failure.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    SyncLine::Message { text: format!("error: {failure}{hint}") }
}

/// What a hook must know of a repository.
async fn push_target(State(daemon): Host, body: Said<PushTargetAsk>) -> Answer<PushTarget> {
    let (instance, ask) = (daemon.instance(), said(body)?);
    let mut target = PushTarget::of(&instance.session.config, Path::new(&ask.repository));
    let following = instance.follower.sources();
    for source in &mut target.sources {
        let commit = following.get(source.name.as_str()).map(|following| following.commit.clone());
        source.in_force = commit.filter(|commit| !commit.is_empty());
    }
    Ok(Json(target))
}

/// What a push would change; consents to it first where the pusher may and says so.
async fn push_plan(
    State(daemon): Host,
    Extension(Actor(actor)): Extension<Actor>,
    body: Said<PushAsk>,
) -> Answer<PushAnswer> {
    let (instance, ask) = (daemon.instance(), said(body)?);
    let now = instance.session.clock.now();
    Ok(Json(operation::push(&instance.session, &instance.writing.db, &ask, &actor, now).await?))
}

/// Follows what a push set off.
async fn push_follow(
    State(daemon): Host,
    Extension(Actor(actor)): Extension<Actor>,
    body: Said<PushFollow>,
) -> Result<Response, Refused> {
    let (instance, ask) = (daemon.instance(), said(body)?);
    let (send, receive) = mpsc::channel(64);
    let work = async move { daemon::pushed(&instance, &ask, &actor, &send).await };
    lines(work, receive, failed).await
}

/// Has a receiver of notifications told that it can be told something.
async fn notify_test(State(daemon): Host, body: Said<NotifyTestAsk>) -> Answer<()> {
    let (instance, ask) = (daemon.instance(), said(body)?);
    let (session, now) = (&instance.session, instance.session.clock.now());
    operation::notify_test(&session.config, &*session.secrets, &ask, now).await?;
    Ok(Json(()))
}

/// The state as a file, without its key.
async fn backup(State(daemon): Host) -> Result<Response, Refused> {
    let instance = daemon.instance();
    let cannot = |error: std::io::Error| Failure::plain(format!("write the backup: {error}"));
    let folder = tempfile::tempdir_in(&instance.session.config.state_dir).map_err(cannot)?;
    let file = folder.path().join("state.db");
    instance.writing.db.reader().backup(&file).await.map_err(Failure::from)?;
    let content = tokio::fs::read(&file).await.map_err(cannot)?;
    Ok(([(header::CONTENT_TYPE, "application/vnd.sqlite3")], content).into_response())
}
