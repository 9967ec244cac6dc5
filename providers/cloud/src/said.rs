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
    Some(classified(&told, cut(format!("{doing}: {told}"))))
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
fn classified(told: &str, text: String) -> Error {
    const THROTTLED: [&str; 9] = [
        "throttling",
        "throttled",
        "toomanyrequests",
        "too many requests",
        "rate exceeded",
        "requestlimitexceeded",
        "slowdown",
        "ratelimitexceeded",
        "statuscode: 429",
    ];
    const DENIED: [&str; 11] = [
        "accessdenied",
        "unauthorizedoperation",
        "expiredtoken",
        "invalidclienttokenid",
        "signaturedoesnotmatch",
        "no valid credential",
        "no valid credentials",
        "statuscode: 403",
        "statuscode: 401",
        "permission denied",
        "permissiondenied",
    ];
    const AWAY: [&str; 13] = [
        "connection refused",
        "no such host",
        "i/o timeout",
        "connection reset",
        "deadline exceeded",
        "internalerror",
        "serviceunavailable",
        "statuscode: 500",
        "statuscode: 502",
        "statuscode: 503",
        "statuscode: 504",
        "eof",
        "unexpected eof",
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
    if has(&THROTTLED) {
        return Error::rate_limited(text).retry_after(Duration::from_secs(10));
    }
    if has(&DENIED) {
        return Error::permission_denied(text)
            .hint("the entry's `config` and `env` say what the provider signs in with");
    }
    match (has(&AWAY), has(&INVALID)) {
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

/// True where what a provider says went wrong leaves open whether the cloud did it: it sent something, and heard no answer or that
/// something broke on the way. A connection that never was is none of those, nor is one that the cloud turned away.
pub(crate) fn had_no_answer(error: &Error) -> bool {
    // Go dials before it sends anything.
    const NOTHING_DONE: [&str; 9] = [
        "connection refused",
        "no such host",
        "dial tcp",
        "dial unix",
        // It asks for the address before that.
        "dial udp",
        "read udp",
        "tls handshake timeout",
        "serviceunavailable",
        "statuscode: 503",
    ];
    error.kind == ErrorKind::Unavailable && !NOTHING_DONE.iter().any(|word| holds_word(&error.message, word))
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
        let long = long.unwrap().message;
        assert!(long.len() <= TOLD + '…'.len_utf8() && long.ends_with('…'), "{}", long.len());
        let warning = Diagnostic { severity: 2, summary: "hunter2 is old.".into(), ..Diagnostic::default() };
        let (twice, hidden) = ([warning.clone(), warning], ["hunter2".into()].into_iter().collect());
        assert!(said("x", &twice, &hidden).is_none());
        assert_eq!(warnings(&twice, &hidden).into_iter().collect::<Vec<_>>(), ["(secret) is old"]);
    }
}
