//! What a provider says went wrong, as an error: in one line, without secrets, and with what it means to us.

use crate::{change, cty::Value, hidden::Hidden, wire::message::Diagnostic};
use reconciled_provider::{Error, ErrorKind};
use std::{collections::BTreeSet, time::Duration};

/// The errors among diagnostics as one, without `hidden`.
pub(crate) fn said(doing: &str, diagnostics: &[Diagnostic], hidden: &Hidden) -> Option<Error> {
    let errors = diagnostics.iter().filter(|d| d.severity != WARNING);
    let errors: Vec<String> = errors.map(|diagnostic| in_words(diagnostic, hidden)).collect();
    if errors.is_empty() {
        return None;
    }
    let told = errors.join("; ");
    // Each by itself: what was refused in one of them says nothing of what broke in another.
    let is_away = errors.iter().any(|one| is_away(one));
    Some(classified(&told, is_away, cut(format!("{doing}: {told}"))))
}

/// The warnings among diagnostics, such as that something is deprecated, each once and without `hidden`.
pub(crate) fn warnings(diagnostics: &[Diagnostic], hidden: &Hidden) -> BTreeSet<String> {
    let warnings = diagnostics.iter().filter(|d| d.severity == WARNING);
    warnings.map(|diagnostic| cut(in_words(diagnostic, hidden))).collect()
}

/// The number of the protocol.
const WARNING: i32 = 2;

/// As much of what a provider says is told.
const TOLD: usize = 4 << 10;

/// The text, unless it is longer than anybody reads.
pub(crate) fn cut(mut text: String) -> String {
    if text.len() > TOLD {
        let end = (0..=TOLD).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        text.truncate(end);
        text.push('…');
    }
    text
}

fn in_words(diagnostic: &Diagnostic, hidden: &Hidden) -> String {
    let (summary, detail) = (hidden.scrub(&diagnostic.summary), hidden.scrub(&diagnostic.detail));
    let mut text = summary.trim_end_matches('.').to_string();
    if !detail.is_empty() && detail != summary {
        text += &format!(": {}", detail.trim_end_matches('.'));
    }
    if let Some(path) = &diagnostic.attribute {
        let (words, _) = change::at_path(&Value::Null, &change::open_part(path, hidden));
        if !words.is_empty() && !text.contains(&words) {
            text = format!("`{words}`: {text}");
        }
    }
    text
}

/// Providers have no codes for what went wrong: words of the large clouds in what was `told` say what to do about it.
/// Whole words: a queue called `geofence` has met no end of a file.
fn classified(told: &str, is_away: bool, text: String) -> Error {
    const THROTTLED: [&str; 11] = [
        "throttling",
        "throttled",
        "toomanyrequests",
        "too many requests",
        "rate exceeded",
        "requestlimitexceeded",
        "slowdown",
        "ratelimitexceeded",
        "userratelimitexceeded",
        // Of GitHub, with the status 403.
        "api rate limit",
        "secondary rate limit",
    ];
    const DENIED: [&str; 13] = [
        "accessdenied",
        "unauthorizedoperation",
        "expiredtoken",
        "invalidclienttokenid",
        "signaturedoesnotmatch",
        "no valid credential",
        "no valid credentials",
        "unrecognizedclient",
        "invalidaccesskeyid",
        "authfailure",
        "unauthenticated",
        "permission denied",
        "permissiondenied",
    ];
    const INVALID: [&str; 10] = [
        "invalidparameter",
        "invalidparametervalue",
        "invalidparametercombination",
        "validationerror",
        "validation",
        "invalidrequest",
        "malformed",
        "malformedpolicydocument",
        "malformedpolicy",
        "invalid value",
    ];
    // Ends of codes: `BucketAlreadyExists`, `EntityAlreadyExists`.
    const EXISTS: [&str; 6] = [
        "alreadyexists",
        "alreadyownedbyyou",
        "resourceexistsexception",
        "queuenameexists",
        "invalidgroup.duplicate",
        "already exists",
    ];
    let has = |words: &[&str]| words.iter().any(|word| holds_word(told, word));
    let has_status = |all: &[u16]| all.iter().any(|status| says_status(told, *status));
    if has(&THROTTLED) || has_status(&[429]) {
        return Error::rate_limited(text).retry_after(Duration::from_secs(10));
    }
    // Google says so where a quota is used up as well, which nobody mends by signing in otherwise.
    if has(&DENIED) || has_status(&[401, 403]) && !has(&["quotaexceeded"]) {
        return Error::permission_denied(text)
            .hint("the entry's `config` and `env` say what the provider signs in with");
    }
    match (is_away, has(&INVALID)) {
        (true, _) => Error::unavailable(text),
        // It is tried again, seldom: clouds release the name of what was deleted late, and who deleted it to make it anew has
        // nothing until then.
        _ if EXISTS.iter().any(|end| ends_code(told, end)) => Error::unexpected(text).hint(
            "to take over what is there: the annotation reconciled/import: ID, or reconciled import ENTRY TYPE ID",
        ),
        (_, true) => Error::invalid(text),
        _ => Error::unexpected(text),
    }
}

/// True where one error says that the cloud gave no answer, or none that says what became of what was asked.
fn is_away(told: &str) -> bool {
    const BROKE: [&str; 13] = [
        "internalerror",
        "internalfailure",
        "internalserver",
        "internalservererror",
        "internalservice",
        "internal server error",
        "serviceunavailable",
        "service unavailable",
        "bad gateway",
        "gateway timeout",
        // Of gRPC.
        "code = unavailable",
        "code = deadlineexceeded",
        "code = internal",
    ];
    const CUT_OFF: [&str; 21] = [
        "connection refused",
        "no such host",
        "i/o timeout",
        "connection reset",
        "connection timed out",
        "broken pipe",
        "use of closed network connection",
        "client connection lost",
        "server sent goaway",
        "stream error",
        "tls handshake timeout",
        "timeout awaiting response headers",
        "timeout exceeded while awaiting headers",
        "timeout while waiting for",
        "deadline exceeded",
        "context canceled",
        "request canceled",
        "requestcanceled",
        // An answer that could not be read.
        "statuscode: 200",
        "status code: 200",
        "eof",
    ];
    let has = |words: &[&str]| words.iter().any(|word| holds_word(told, word));
    let has_status = |all: &[u16]| all.iter().any(|status| says_status(told, *status));
    // What was refused was read and answered: such words in it are about what was declared, as a policy that ends too early.
    let is_refused = || has_status(&[400, 404, 405, 409, 412, 413, 422]) && !was_waiting(told);
    has_status(&[500, 502, 503, 504]) || has(&BROKE) || has(&CUT_OFF) && !is_refused()
}

/// True where what a provider says went wrong leaves open whether the cloud did it: it sent something, and heard no answer or that
/// something broke on the way, or an answer that cannot be read; or it was heard, and what came of it could not be looked at. A
/// connection that never was is none of those, nor is one that the cloud turned away.
pub(crate) fn had_no_answer(error: &Error) -> bool {
    // Go dials before it sends anything.
    const NOTHING_DONE: [&str; 11] = [
        "connection refused",
        "no such host",
        "dial tcp",
        "dial unix",
        // It asks for the address before that.
        "dial udp",
        "read udp",
        "tls handshake timeout",
        "request canceled while waiting for connection",
        // RFC 9113 §8.7.
        "refused_stream",
        "serviceunavailable",
        "service unavailable",
    ];
    let told = &error.message;
    let is_nothing_done = || NOTHING_DONE.iter().any(|word| holds_word(told, word)) || says_status(told, 503);
    match error.kind {
        ErrorKind::Unavailable => was_waiting(told) || !is_nothing_done(),
        // Who looked was turned away, not who asked for it.
        ErrorKind::RateLimited | ErrorKind::PermissionDenied => was_waiting(told),
        _ => false,
    }
}

/// True where the cloud had taken what it was asked, and the provider waited for it to come about.
fn was_waiting(told: &str) -> bool {
    // Those of Go wait for a connection before they send anything.
    let told = told.replace("waiting for connection", "");
    ["waiting for", "waiting to create", "polling after"].iter().any(|word| holds_word(&told, word))
}

/// True where the status of an answer of HTTP is told as the libraries of the large clouds do: AWS of both times, Azure of all three,
/// Google, OpenStack, and whoever says what others say; and as those of GitHub, GitLab and DigitalOcean do, behind an address.
fn says_status(told: &str, status: u16) -> bool {
    const BEFORE: [&str; 8] = [
        "statuscode: ",
        "status code: ",
        "status code ",
        "statuscode=",
        "status ",
        "response ",
        "response code ",
        "googleapi: error ",
    ];
    // `POST https://example.com/x: 500 …`
    let is_told_of = |(address, word): (&str, &str)| {
        address.contains("://")
            && address.ends_with(':')
            && word.trim_end_matches(',').parse::<u16>() == Ok(status)
    };
    BEFORE.iter().any(|before| holds_word(told, &format!("{before}{status}")))
        || holds_word(told, &format!("but got {status} instead"))
        || told.split_whitespace().zip(told.split_whitespace().skip(1)).any(is_told_of)
}

/// True where a code ends so, by itself or as the name of an exception, or these words are there.
fn ends_code(text: &str, end: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    lower.match_indices(end).any(|(at, _)| {
        let before = text[..at].trim_end_matches(|c: char| c.is_ascii_alphanumeric()).len();
        holds_word(text, &lower[before..at + end.len()])
    })
}

/// True where `word`, which is in small letters, stands by itself, or as the name of an exception. What is joined by `-`, `_`
/// or `/` is the name of something, and so is what has a dot within, unless a capital follows it: `Throttling.User` is a code,
/// `eof.example.com` a host.
fn holds_word(text: &str, word: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '/');
    let joins = |dot_and_more: &str| {
        dot_and_more.strip_prefix('.').is_some_and(|more| {
            more.starts_with(char::is_alphanumeric) && !more.starts_with(char::is_uppercase)
        })
    };
    // Of as many bytes: a place in the one is a place in the other.
    let lower = text.to_ascii_lowercase();
    lower.match_indices(word).any(|(at, _)| {
        let (before, end) = (&text[..at], at + word.len());
        let end = if lower[end..].starts_with("exception") { end + "exception".len() } else { end };
        let is_begun = before.ends_with(is_of_name) || (before.ends_with('.') && joins(&text[at - 1..]));
        !is_begun && !text[end..].starts_with(is_of_name) && !joins(&text[end..])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::ErrorKind;

    /// What providers say, as they say it: of an answer that says nothing of what was done, and of one that does.
    #[test]
    fn a_cloud_that_broke_in_the_middle_may_have_done_it() {
        let check = |summary: &str, expect: bool| {
            let diagnostic = Diagnostic { severity: 1, summary: summary.into(), ..Diagnostic::default() };
            let error = said("create aws_vpc.a", &[diagnostic], &Hidden::default()).unwrap();
            assert_eq!(had_no_answer(&error), expect, "{summary}: {:?}", error.kind);
        };
        for open in [
            "Error creating VPC: InternalFailure: An internal failure occurred\n\tstatus code: 500, request id: x",
            "Error creating VPC: : status code: 500, request id: ",
            "Error creating EIP: SerializationError: failed to unmarshal error message\n\tstatus code: 502, request id: ",
            "SerializationError: failed decoding EC2 Query response\n\tstatus code: 200, request id: x",
            "operation error EC2: CreateVpc, https response error StatusCode: 500, RequestID: x, api error X: y",
            "operation error EC2: CreateVpc, https response error StatusCode: 0, RequestID: , canceled, context deadline exceeded",
            "RequestError: send request failed\ncaused by: Post \"https://x/\": net/http: request canceled (Client.Timeout exceeded while awaiting headers)",
            "RequestError: send request failed\ncaused by: Post \"https://x/\": write tcp 192.0.2.1:1->192.0.2.2:443: write: broken pipe",
            "Post \"https://x/\": http2: server sent GOAWAY and closed the connection",
            "Post \"https://x/\": http2: client connection lost",
            "googleapi: Error 500: Internal error encountered., backendError",
            "googleapi: got HTTP response code 502 with body: <html>",
            "rpc error: code = Unavailable desc = transport is closing",
            "compute.VirtualMachinesClient#CreateOrUpdate: Failure sending request: StatusCode=500 -- Original Error: x",
            "RESPONSE 504: 504 Gateway Timeout ERROR CODE: GatewayTimeout",
            "unexpected status 500 (500 Internal Server Error) with error: InternalServerError: x",
            "Expected HTTP response code [201 202] when accessing [POST https://x/servers], but got 500 instead",
            "InternalServerException: try again",
            "timeout while waiting for state to become 'available' (last state: 'pending', timeout: 10m0s)",
            "POST https://api.example/v2/droplets: 500 (request \"x\") Server Error",
            "POST https://git.example/api/v4/projects: 502, try again",
            // It was taken, and could not be looked at.
            "Error waiting to create Address: Get \"https://x/\": dial tcp 192.0.2.1:443: i/o timeout",
            "waiting for EC2 VPC (vpc-1) create: https response error StatusCode: 403, api error UnauthorizedOperation: x",
            "waiting for EC2 VPC (vpc-1) create: https response error StatusCode: 503, RequestLimitExceeded: x",
            "timeout while waiting for state to become 'done' (timeout: 1m0s): last error: StatusCode: 404, NotFound",
        ] {
            check(open, true);
        }
        for closed in [
            "SerializationError: failed to unmarshal error message\n\tstatus code: 503, request id: ",
            "503 Service Unavailable",
            "Post \"https://x/\": net/http: TLS handshake timeout",
            "Post \"https://x/\": net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)",
            "InvalidParameterValue: 500 is no size\n\tstatus code: 400, request id: x",
            "VpcLimitExceeded: The maximum number of VPCs has been reached.\n\tstatus code: 400, request id: x",
            "RequestLimitExceeded: Request limit exceeded.\n\tstatus code: 503, request id: x",
            "AccessDenied: no\n\tstatus code: 403, request id: x",
            "expected size to be in the range (1 - 100), got 500",
            "the status-500 page is there, and status 5000 is none",
            "MalformedPolicyDocument: unexpected EOF\n\tstatus code: 400, request id: x",
            "googleapi: Error 400: Invalid value for field 'x': 'stream error', invalid",
            "POST https://api.example/v2/droplets: 422 (request \"x\") user_data has an unexpected EOF",
            "Post \"https://x/\": stream error: stream ID 7; REFUSED_STREAM; received from peer",
            "POST https://api.example/repos: 503 (request \"x\") no server is available",
        ] {
            check(closed, false);
        }
        // What was refused in one says nothing of another.
        let told = ["Error 1: status code: 400, request id: x", "Post \"https://x/\": EOF"];
        let both = told.map(|one| Diagnostic { severity: 1, summary: one.into(), ..Diagnostic::default() });
        assert!(had_no_answer(&said("create aws_vpc.a", &both, &Hidden::default()).unwrap()));
    }

    #[test]
    fn what_a_provider_says_decides_what_is_done() {
        let check = |summary: &str, detail: &str, kind: ErrorKind, text: &str| {
            let diagnostic =
                Diagnostic { severity: 1, summary: summary.into(), detail: detail.into(), attribute: None };
            let error = said("make a t", &[diagnostic], &["hunter2".into()].into_iter().collect()).unwrap();
            assert_eq!((error.kind, &*error.message), (kind, text));
        };
        check("Throttling: Rate exceeded", "", ErrorKind::RateLimited, "make a t: Throttling: Rate exceeded");
        check(
            "no",
            "AccessDenied for hunter2.",
            ErrorKind::PermissionDenied,
            "make a t: no: AccessDenied for (secret)",
        );
        check(
            "dial tcp: connection refused",
            "",
            ErrorKind::Unavailable,
            "make a t: dial tcp: connection refused",
        );
        check(
            "InvalidParameterValue: x\n\ty",
            "",
            ErrorKind::Invalid,
            "make a t: InvalidParameterValue: x y",
        );
        check("odd", "odd", ErrorKind::Unexpected, "make a t: odd");
        check("ThrottlingException: x", "", ErrorKind::RateLimited, "make a t: ThrottlingException: x");
        check("StatusCode: 503, x", "", ErrorKind::Unavailable, "make a t: StatusCode: 503, x");
        check("ValidationException", "", ErrorKind::Invalid, "make a t: ValidationException");
        check("status code: 429, x", "", ErrorKind::RateLimited, "make a t: status code: 429, x");
        check("status code: 403, x", "", ErrorKind::PermissionDenied, "make a t: status code: 403, x");
        for (text, kind) in [
            ("googleapi: Error 403: No, userRateLimitExceeded", ErrorKind::RateLimited),
            ("googleapi: Error 403: Quota 'CPUS' exceeded, quotaExceeded", ErrorKind::Unexpected),
            ("googleapi: Error 403: No, forbidden", ErrorKind::PermissionDenied),
            ("POST https://x/repos: 403 Forbidden", ErrorKind::PermissionDenied),
            ("GET https://x/repos: 403 API rate limit exceeded for user ID 1", ErrorKind::RateLimited),
            ("MalformedPolicyDocument: unexpected EOF, status code: 400", ErrorKind::Invalid),
        ] {
            check(text, "", kind, &format!("make a t: {text}"));
        }
        check(
            "UnrecognizedClientException: no",
            "",
            ErrorKind::PermissionDenied,
            "make a t: UnrecognizedClientException: no",
        );
        for code in [
            "BucketAlreadyExists",
            "EntityAlreadyExists",
            "RepositoryAlreadyExistsException",
            "it already exists",
        ] {
            let text = format!("StatusCode: 409, {code}: x");
            check(&text, "", ErrorKind::Unexpected, &format!("make a t: {text}"));
        }
        // Names of things are no errors.
        for code in ["Throttling.User", "Client.RequestLimitExceeded", "(Throttled).", "ThrottlingException."]
        {
            let text = format!("it says {code} Wait");
            check(&text, "", ErrorKind::RateLimited, &format!("make a t: {text}"));
        }
        for name in [
            "geofence",
            "eof-queue",
            "throttling_rules",
            "slowdowns",
            "malformedly",
            "/app/throttling",
            "throttling/limit",
            "eof.example.com",
            "www.Slowdown.example",
            "queue-alreadyexists",
            "alreadyexists.example.com",
            "alreadyexistsnot",
        ] {
            let text = format!("{name} exists");
            check(&text, "", ErrorKind::Unexpected, &format!("make a t: {text}"));
        }
        let named = said(
            "create throttling",
            &[Diagnostic { summary: "no".into(), ..Diagnostic::default() }],
            &Hidden::default(),
        );
        assert_eq!(named.unwrap().kind, ErrorKind::Unexpected);
        let long = said(
            "make a t",
            &[Diagnostic { summary: "é".repeat(8 << 10), ..Diagnostic::default() }],
            &Hidden::default(),
        );
        let long = long.unwrap().message.clone();
        assert!(long.len() <= TOLD + '…'.len_utf8() && long.ends_with('…'), "{}", long.len());
        let warning = Diagnostic { severity: 2, summary: "hunter2 is old.".into(), ..Diagnostic::default() };
        let (twice, hidden) = ([warning.clone(), warning], ["hunter2".into()].into_iter().collect());
        assert!(said("x", &twice, &hidden).is_none());
        assert_eq!(warnings(&twice, &hidden).into_iter().collect::<Vec<_>>(), ["(secret) is old"]);
    }
}
