//! Answers: values as JSON, failures as JSON with the status that fits.

use super::takes::Takes;
use crate::{
    client::{Refusal, Told},
    failure::Failure,
};
use axum::{
    Json,
    body::Body,
    extract::rejection::{JsonRejection, QueryRejection},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::StreamExt;
use serde::Serialize;
use std::panic::resume_unwind;
use tokio::{sync::mpsc, task::JoinSet};

/// A failure on its way out.
pub(super) struct Refused(pub(super) Failure, pub(super) StatusCode);

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        let status = match &failure {
            Failure::Problems(_) | Failure::Other(..) => StatusCode::UNPROCESSABLE_ENTITY,
            Failure::Source(error) if error.is_of_the_question() => StatusCode::UNPROCESSABLE_ENTITY,
            Failure::Source(_) | Failure::Remote(_) => StatusCode::BAD_GATEWAY,
            Failure::Config(_)
            | Failure::Store(_)
            | Failure::Unreachable(_)
            | Failure::Silent(_)
            | Failure::Away(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refused(failure, status)
    }
}

impl Refused {
    /// Nothing is here, or nothing for who asks.
    pub(super) fn nowhere() -> Refused {
        Refused(Failure::hinted("there is no such path", "see docs/api.md"), StatusCode::NOT_FOUND)
    }
    /// The path takes another method.
    pub(super) fn method() -> Refused {
        let failure = Failure::hinted("this path takes another method", "see docs/api.md");
        Refused(failure, StatusCode::METHOD_NOT_ALLOWED)
    }
    /// The query is no question.
    pub(super) fn query(error: &QueryRejection, takes: &Takes) -> Refused {
        let text = error.body_text();
        let why = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
        Refused(Failure::hinted(format!("the query cannot be taken: {why}"), takes.query()), error.status())
    }
    /// The query has a key that is none.
    pub(super) fn key(key: &str, takes: &Takes) -> Refused {
        let text = format!("unknown key `{key}` in the query");
        Refused(Failure::hinted(text, takes.instead_of(key)), StatusCode::BAD_REQUEST)
    }
    /// The body is no question.
    pub(super) fn body(error: &JsonRejection, takes: &Takes) -> Refused {
        let text = error.body_text();
        let (text, hint) = match error {
            JsonRejection::MissingJsonContentType(_) => (
                "the body is not said to be JSON".into(),
                "send the header `Content-Type: application/json`".into(),
            ),
            JsonRejection::JsonDataError(_) => {
                let prefix = "Failed to deserialize the JSON body into the target type: ";
                let why = text.strip_prefix(prefix).unwrap_or(&text);
                (format!("the body cannot be taken: {why}"), takes.body())
            }
            JsonRejection::JsonSyntaxError(_) => {
                let why = text.strip_prefix("Failed to parse the request body as JSON: ").unwrap_or(&text);
                (format!("the body is no JSON: {why}"), takes.body())
            }
            // It broke off, or is too large.
            _ => (text, "see docs/api.md for what is taken".into()),
        };
        Refused(Failure::hinted(text, hint), error.status())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.1, Json(Refusal { error: Told::from(&self.0) })).into_response()
    }
}

/// What a handler returns.
pub(super) type Answer<T> = Result<T, Refused>;

/// One line for each value that `work` sends, while it is done; a failure before the first is an answer of its
/// own, and what `failed` makes of a later one is the last line.
///
/// Whoever goes away drops `work`, so it must only watch. It goes on while nobody reads: what it has of the store at that moment
/// it gives back.
pub(super) async fn lines<T, W>(
    work: W,
    mut values: mpsc::Receiver<T>,
    failed: fn(Failure) -> T,
) -> Result<Response, Refused>
where
    T: Serialize + Send + 'static,
    W: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let mut working = JoinSet::new();
    working.spawn(work);
    let first = next(&mut working, &mut values).await?;
    let rest = futures_util::stream::unfold((working, values), move |(mut working, mut values)| async move {
        let value = next(&mut working, &mut values).await;
        let value = value.unwrap_or_else(|failure| Some(failed(failure)))?;
        Some((value, (working, values)))
    });
    let all = futures_util::stream::iter(first).chain(rest).map(|value| {
        let mut line = serde_json::to_vec(&value)?;
        line.push(b'\n');
        Ok::<_, serde_json::Error>(Bytes::from(line))
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(all)).into_response())
}

/// The next value; none once the work has ended and nothing is left.
async fn next<T>(
    working: &mut JoinSet<Result<(), Failure>>,
    values: &mut mpsc::Receiver<T>,
) -> Result<Option<T>, Failure> {
    if let Some(value) = values.recv().await {
        return Ok(Some(value));
    }
    match working.join_next().await {
        Some(Ok(ended)) => ended.map(|()| None),
        Some(Err(stopped)) if stopped.is_panic() => resume_unwind(stopped.into_panic()),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::{sync::oneshot, task::yield_now, time::timeout};

    #[tokio::test]
    async fn who_does_not_read_on_keeps_nothing_from_others() {
        let (send, receive) = mpsc::channel(64);
        let (give_back, given_back) = oneshot::channel();
        let work = async move {
            send.send("first").await.unwrap();
            // As one that waits for the store.
            yield_now().await;
            give_back.send(()).unwrap();
            Ok(())
        };
        let answer = lines(work, receive, |_| "failed").await;
        assert!(answer.is_ok());
        timeout(Duration::from_secs(60), given_back).await.expect("it stands still").unwrap();
    }

    #[tokio::test]
    async fn a_failure_is_an_answer_or_the_last_line() {
        let (send, receive) = mpsc::channel::<&str>(64);
        let work = async move {
            drop(send);
            Err(Failure::plain("no"))
        };
        assert!(lines(work, receive, |_| "failed").await.is_err());
        let (send, receive) = mpsc::channel(64);
        let work = async move {
            send.send("first").await.unwrap();
            Err(Failure::plain("no"))
        };
        let Ok(answer) = lines(work, receive, |_| "failed").await else { panic!("it has a line") };
        let body = axum::body::to_bytes(answer.into_body(), 100).await.unwrap();
        assert_eq!(body, "\"first\"\n\"failed\"\n");
    }
}
