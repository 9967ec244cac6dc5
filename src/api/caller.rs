//! Who asks: a peer of the socket, as the kernel says, or the bearer of a token.
//!
//! Guarantees: nothing of a request is read beyond its head before it is known who asks and that they may.

use super::{
    answer::Refused,
    peer::{Door, Peer},
};
use crate::{clock::SystemClock, config::Role, daemon::Daemon, failure::Failure};
use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{FromRequest, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use reconciled_provider::Clock;
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// What a caller may do; each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Right {
    /// To look.
    Read,
    /// To consent and have it written.
    Operator,
    /// To name what lies on this host.
    Socket,
}

/// Who asks.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// As the audit trail shows it.
    pub(super) name: String,
    pub(super) right: Right,
    /// Root or the daemon's own user, whom the state and its configuration obey anyway.
    pub(super) is_owner: bool,
    /// The process on the other side, for who came through the socket.
    pub(super) peer: Option<Peer>,
}

/// Lets in whom the socket lets in.
pub(super) async fn of_socket(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().cloned();
    let Some(name) = peer.as_ref().and_then(|peer| door.lets(peer)) else {
        let failure = Failure::hinted(
            "this user may not use the daemon",
            "become a member of the group named by `api.group`, or use sudo",
        );
        return Refused(failure, StatusCode::FORBIDDEN).into_response();
    };
    request.extensions_mut().insert(Caller {
        name,
        right: Right::Socket,
        is_owner: peer.as_ref().is_some_and(Peer::is_owner),
        peer,
    });
    next.run(request).await
}

/// Lets in who bears a token of the configuration at work.
pub(super) async fn of_token(
    State(daemon): State<Arc<Daemon>>,
    mut request: Request,
    next: Next,
) -> Response {
    let shown = bearer(request.headers());
    let known = shown.and_then(|token| daemon.instance().tokens.find(token));
    let Some((name, role)) = known else {
        if let (Some(_), Some(Peer::Network(address))) = (shown, request.extensions().get::<Peer>()) {
            tracing::debug!(%address, "token is not known");
        }
        let message = if shown.is_some() { "this token is not known here" } else { "a token is needed here" };
        let hint = "put one into a file and name it in $RECONCILED_TOKEN_FILE; on the daemon's host \
                    `reconciled token new` makes one";
        let refused = Refused(Failure::hinted(message, hint), StatusCode::UNAUTHORIZED);
        let challenge = HeaderValue::from_static("Bearer realm=\"reconciled\"");
        return ([(header::WWW_AUTHENTICATE, challenge)], refused).into_response();
    };
    let right = match role {
        Role::Read => Right::Read,
        Role::Operator => Right::Operator,
    };
    request.extensions_mut().insert(Caller {
        name: format!("token:{name}"),
        right,
        is_owner: false,
        peer: None,
    });
    next.run(request).await
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// How long a request may take to arrive, after its head.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    pub(super) usual: Duration,
    pub(super) large: Duration,
}

/// What stands before one route.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) needs: Right,
    /// Most bytes of a request, after its head.
    pub(super) limit: usize,
    pub(super) patience: Duration,
    /// For a route of large requests: how many there may be at once.
    pub(super) room: Option<Arc<Semaphore>>,
}

/// How long a large request waits for others to be done.
const TURN: Duration = Duration::from_secs(30);

/// Lets a caller through who may use the route, and takes in the request.
pub(super) async fn pass(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let right = request.extensions().get::<Caller>().map(|caller| caller.right);
    if right.is_none_or(|right| right < gate.needs) {
        return forbidden(gate.needs).into_response();
    }
    let _room = match &gate.room {
        None => None,
        Some(room) => tokio::select! {
            permit = room.clone().acquire_owned() => permit.ok(),
            () = SystemClock.sleep(TURN) => {
                let failure = Failure::hinted("too many large requests at once", "try again in a while");
                return Refused(failure, StatusCode::SERVICE_UNAVAILABLE).into_response();
            }
        },
    };
    match received(request, gate.limit, gate.patience).await {
        Ok(request) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

fn forbidden(needs: Right) -> Refused {
    let (message, hint) = match needs {
        Right::Socket => {
            ("only the daemon's own host may ask this", "ask there, without --server: it uses the socket")
        }
        Right::Operator | Right::Read => {
            ("this token may look only", "use one that has `role: operator` in the daemon's configuration")
        }
    };
    Refused(Failure::hinted(message, hint), StatusCode::FORBIDDEN)
}

/// The request with its whole body, which came in time and has at most `limit` bytes.
pub(super) async fn received(request: Request, limit: usize, patience: Duration) -> Result<Request, Refused> {
    let (parts, body) = request.into_parts();
    let too_large = || {
        let failure = Failure::hinted(
            format!("the request is too large: {limit} bytes are the most here"),
            "see docs/api.md for how large a request may be",
        );
        Refused(failure, StatusCode::PAYLOAD_TOO_LARGE)
    };
    // Whoever says beforehand that it is too large need not send it.
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let reading = Bytes::from_request(Request::from_parts(parts.clone(), body), &());
    let bytes = tokio::select! {
        bytes = reading => bytes.map_err(|error| match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => too_large(),
            status => Refused(Failure::plain(format!("the request broke off: {}", error.body_text())), status),
        })?,
        () = SystemClock.sleep(patience) => {
            return Err(Refused(Failure::plain("the request did not arrive in time"), StatusCode::REQUEST_TIMEOUT));
        }
    };
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_taken_from_the_header_of_that_scheme_alone() {
        let check = |header: &str, expect: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_bytes(header.as_bytes()).unwrap());
            assert_eq!(bearer(&headers), expect, "{header}");
        };
        check("Bearer abc", Some("abc"));
        check("bearer  abc ", Some("abc"));
        for wrong in ["abc", "Basic abc", "Bearer", "Bearerabc", "B\u{e9}arer abc"] {
            check(wrong, None);
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }

    #[test]
    fn each_right_includes_those_before_it() {
        assert!(Right::Read < Right::Operator && Right::Operator < Right::Socket);
    }
}
