//! A route: who may use it, what it takes and what it answers, in one value, so that the router, the rights and the
//! published description cannot say different things.

use super::{
    answer::{Refused, lines},
    caller::{Caller, Right},
    peer::Peer,
    takes::Takes,
};
use crate::daemon::{Daemon, Instance};
use axum::{
    Extension, Json,
    extract::{
        Query, RawQuery, State,
        rejection::{JsonRejection, QueryRejection},
    },
    http::Method,
    response::Response,
    routing::{MethodRouter, get, post},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{pin::Pin, sync::Arc};
use tokio::sync::mpsc;

/// One question that can be asked.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    /// The least a caller must be.
    pub(super) needs: Right,
    /// What is asked, for people.
    pub(super) about: &'static str,
    /// The request carries files or resources.
    pub(super) is_large: bool,
    pub(super) service: MethodRouter<Arc<Daemon>>,
    pub(super) ask: SchemaOf,
    pub(super) answer: Form,
}

/// Makes the schema of a type.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The form of an answer.
pub(super) enum Form {
    /// One JSON value.
    Value(SchemaOf),
    /// One JSON value a line, as they come about.
    Lines(SchemaOf),
    /// Bytes of this media type.
    Bytes(&'static str),
}

/// What a handler knows besides the question.
pub(super) struct Asking {
    /// Over reloads.
    pub(super) daemon: Arc<Daemon>,
    /// The configuration at work when the question came.
    pub(super) instance: Arc<Instance>,
    /// Who asks.
    pub(super) actor: String,
    /// Root or the daemon's own user.
    pub(super) is_owner: bool,
    /// The process on the other side, for who came through the socket.
    pub(super) peer: Option<Peer>,
}

impl Asking {
    fn of(daemon: Arc<Daemon>, caller: Caller) -> Asking {
        Asking {
            instance: daemon.instance(),
            daemon,
            actor: caller.name,
            is_owner: caller.is_owner,
            peer: caller.peer,
        }
    }
}

/// Nothing is asked for in particular.
#[derive(Deserialize, JsonSchema)]
pub(super) struct All {}

/// Work that sends its lines itself; it only watches, and is dropped with the connection.
pub(super) type Telling = Pin<Box<dyn Future<Output = Result<(), crate::failure::Failure>> + Send>>;

/// A question in the query.
pub(super) fn asked<A, T, F, W>(path: &'static str, about: &'static str, handler: F) -> Route
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    T: Serialize + JsonSchema + 'static,
    F: Fn(Asking, A) -> W + Clone + Send + Sync + 'static,
    W: Future<Output = Result<T, Refused>> + Send + 'static,
{
    let takes = Takes::of::<A>();
    let service = get(
        move |State(daemon): State<Arc<Daemon>>,
              Extension(caller): Extension<Caller>,
              RawQuery(written): RawQuery,
              query: Result<Query<A>, QueryRejection>| async move {
            if let Some(key) = takes.unknown(written.as_deref()) {
                return Err(Refused::key(&key, &takes));
            }
            let Query(ask) = query.map_err(|error| Refused::query(&error, &takes))?;
            handler(Asking::of(daemon, caller), ask).await.map(Json)
        },
    );
    let answer = Form::Value(|generator| generator.subschema_for::<T>());
    Route::of(Method::GET, path, about, service, |generator| generator.subschema_for::<A>(), answer)
}

/// A question in the body.
pub(super) fn said<A, T, F, W>(path: &'static str, about: &'static str, handler: F) -> Route
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    T: Serialize + JsonSchema + 'static,
    F: Fn(Asking, A) -> W + Clone + Send + Sync + 'static,
    W: Future<Output = Result<T, Refused>> + Send + 'static,
{
    let takes = Takes::of::<A>();
    let service = post(
        move |State(daemon): State<Arc<Daemon>>,
              Extension(caller): Extension<Caller>,
              body: Result<Json<A>, JsonRejection>| async move {
            let Json(ask) = body.map_err(|error| Refused::body(&error, &takes))?;
            handler(Asking::of(daemon, caller), ask).await.map(Json)
        },
    );
    let answer = Form::Value(|generator| generator.subschema_for::<T>());
    Route::of(Method::POST, path, about, service, |generator| generator.subschema_for::<A>(), answer)
}

/// A question in the body, answered by what goes on; `failed` makes the last line of a failure that comes late.
pub(super) fn told<A, T>(
    path: &'static str,
    about: &'static str,
    handler: fn(Asking, A, mpsc::Sender<T>) -> Telling,
    failed: fn(crate::failure::Failure) -> T,
) -> Route
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    T: Serialize + JsonSchema + Send + 'static,
{
    let takes = Takes::of::<A>();
    let service = post(
        move |State(daemon): State<Arc<Daemon>>,
              Extension(caller): Extension<Caller>,
              body: Result<Json<A>, JsonRejection>| async move {
            let Json(ask) = body.map_err(|error| Refused::body(&error, &takes))?;
            let asking = Asking::of(daemon, caller);
            let (send, receive) = mpsc::channel(64);
            lines(handler(asking, ask, send), receive, failed).await
        },
    );
    let answer = Form::Lines(|generator| generator.subschema_for::<T>());
    Route::of(Method::POST, path, about, service, |generator| generator.subschema_for::<A>(), answer)
}

/// Bytes of a media type.
pub(super) fn bytes<F, W>(path: &'static str, about: &'static str, media: &'static str, handler: F) -> Route
where
    F: Fn(Arc<Daemon>) -> W + Clone + Send + Sync + 'static,
    W: Future<Output = Result<Response, Refused>> + Send + 'static,
{
    let service = get(move |State(daemon): State<Arc<Daemon>>| handler(daemon));
    let ask: SchemaOf = |generator| generator.subschema_for::<All>();
    Route::of(Method::GET, path, about, service, ask, Form::Bytes(media))
}

impl Route {
    fn of(
        method: Method,
        path: &'static str,
        about: &'static str,
        service: MethodRouter<Arc<Daemon>>,
        ask: SchemaOf,
        answer: Form,
    ) -> Route {
        // A route that was given no right is the socket's alone.
        Route { method, path, needs: Right::Socket, about, is_large: false, service, ask, answer }
    }

    /// Who may look may use it.
    pub(super) fn reads(self) -> Route {
        Route { needs: Right::Read, ..self }
    }

    /// Who may have it written may use it.
    pub(super) fn acts(self) -> Route {
        Route { needs: Right::Operator, ..self }
    }

    /// The request carries files or resources.
    pub(super) fn large(self) -> Route {
        Route { is_large: true, ..self }
    }
}
