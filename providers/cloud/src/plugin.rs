//! One running provider, configured: its calls in terms of values.
//!
//! *Guarantees*: what a provider says in an error is shown without the secrets that it was given; a call that broke off
//! is told apart from one that was refused, because only the first may have taken effect.

use crate::{
    catalog::Catalog,
    change,
    cty::{self, Type, Value},
    hidden::Hidden,
    schema::{Block, Nesting, Schema},
    wire::{
        Process, Status,
        message::{Apply, Diagnostic, DynamicValue, Plan, RawState, Read, ReadData, Upgrade},
    },
};
use prost::bytes::Bytes;
use reconciled_provider::{Error, ErrorKind};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// A type of resources, as a provider knows it.
#[derive(Clone, Debug)]
pub struct ResourceType {
    /// `aws_sqs_queue`.
    pub name: Arc<str>,
    /// Its schema.
    pub schema: Arc<Schema>,
}

/// A plan of a provider.
#[derive(Clone)]
pub struct Planned {
    /// What would be; null for a deletion.
    pub state: Value,
    /// What the provider wants back when it is carried out.
    pub private: Vec<u8>,
    /// Paths that cannot be changed in place.
    pub replace: Vec<String>,
    /// The old SDK made it.
    pub is_legacy: bool,
}

/// What there is after a change.
pub struct Applied {
    /// What is there, if anything is.
    pub state: Value,
    /// What the provider wants back.
    pub private: Vec<u8>,
    /// The old SDK made it.
    pub is_legacy: bool,
    /// What went wrong.
    pub error: Option<Error>,
}

/// A provider that was given its configuration.
pub struct Plugin {
    process: Process,
    /// Its schemas.
    pub catalog: Arc<Catalog>,
    name: Arc<str>,
    used: AtomicU64,
    is_broken: AtomicBool,
    /// Secrets of the entry.
    hidden: Hidden,
}

impl Plugin {
    /// Wraps a process that is configured already.
    pub fn new(name: Arc<str>, process: Process, catalog: Arc<Catalog>, hidden: Hidden) -> Plugin {
        let (used, is_broken) = (AtomicU64::new(0), AtomicBool::new(false));
        Plugin { process, catalog, name, used, is_broken, hidden }
    }

    /// The entry.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True once its process has ended, or a call of it broke off or was given up: the next needs another one.
    pub fn is_broken(&self) -> bool {
        self.process.has_ended() || self.is_broken.load(Ordering::Relaxed)
    }

    /// Ends its process, which is asked to first where it still answers.
    pub(crate) async fn end(self) {
        if !self.is_broken() {
            self.process.stop().await;
        }
    }

    /// How many calls it has had.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Asks all that is under way to come to an end. Some providers do nothing any more after that, so the next call
    /// needs another process.
    pub async fn cancel(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
        self.process.calls.cancel().await;
    }

    /// One call. Whoever waits for it may give it up, as a limit of time does: the process is taken for stuck then.
    async fn call<A>(&self, call: impl Future<Output = Result<A, Status>>) -> Result<A, Status> {
        struct Waits<'a>(&'a AtomicBool, bool);
        impl Drop for Waits<'_> {
            fn drop(&mut self) {
                if self.1 {
                    self.0.store(true, Ordering::Relaxed);
                }
            }
        }
        self.used.fetch_add(1, Ordering::Relaxed);
        let mut waits = Waits(&self.is_broken, true);
        let answer = call.await;
        waits.1 = answer.as_ref().is_err_and(Status::is_broken);
        answer
    }

    async fn severed(&self, doing: &str, status: Status, hidden: &Hidden) -> Error {
        let hidden = self.hidden.and(hidden.iter().cloned());
        let status = match status {
            Status::Code(code, text) => Status::Code(code, hidden.scrub(&text)),
            Status::Broken(why) => Status::Broken(hidden.scrub(&why)),
        };
        let mut text = format!("{doing}: provider `{}` gave no answer: {status}", self.name);
        if status.is_broken()
            && let Some(how) = self.process.ending().await
        {
            text = format!("{doing}: provider `{}` died, {how}", self.name);
        }
        let text = cut(text);
        match status {
            Status::Code(12, _) => Error::unsupported(text),
            _ => Error::unavailable(text).hint(
                "it is started again for the next try; if it keeps dying, its maintainers want to know",
            ),
        }
    }

    /// Errors: `Unexpected` for what is no value: nothing at all is not null, which says that nothing is there.
    fn read_value(&self, value: Option<DynamicValue>, of: &Type, doing: &str) -> Result<Value, Error> {
        let wrong = |why: &str| Error::unexpected(format!("{doing}: provider `{}` {why}", self.name));
        match value {
            Some(value) if !value.msgpack.is_empty() => cty::decode(&value.msgpack, of)
                .map_err(|why| wrong(&format!("answered with what is no value: {why}"))),
            Some(value) if !value.json.is_empty() => {
                Err(Error::unsupported(format!("{doing}: the answer is JSON, which nobody asked for")))
            }
            _ => Err(wrong("answered without a value")),
        }
    }

    /// What errors about these values must not show.
    fn secrets(&self, of: &ResourceType, values: &[&Value], hidden: &Hidden) -> Hidden {
        let of_values = values.iter().flat_map(|value| change::secrets(&of.schema.block, value));
        self.hidden.and(hidden.iter().cloned().chain(of_values))
    }

    /// Asks whether a configuration is valid.
    pub async fn validate(&self, of: &ResourceType, config: &Value, hidden: &Hidden) -> Result<(), Error> {
        let doing = format!("check a {}", of.name);
        let hidden = &self.secrets(of, &[config], hidden);
        let value = write_value(config, &of.schema.value_type);
        let answer = self.call(self.process.calls.validate(&of.name, value)).await;
        match answer {
            Ok(answer) => match said(&doing, &answer.diagnostics, hidden) {
                Some(mut error) => {
                    // Nothing was asked of the cloud: it is the content.
                    if error.kind == ErrorKind::Unexpected {
                        error.kind = ErrorKind::Invalid;
                    }
                    Err(error)
                }
                None => Ok(()),
            },
            Err(status) => Err(self.severed(&doing, status, hidden).await),
        }
    }

    /// Brings kept state into today's form.
    ///
    /// Errors: `Unexpected` when nothing of it is left: what is kept says that there is something.
    pub async fn upgrade(
        &self,
        of: &ResourceType,
        version: i64,
        json: &str,
        hidden: &Hidden,
    ) -> Result<Value, Error> {
        let doing = format!("read the state of a {}", of.name);
        // Kept state is of an older schema: what it has at the secrets of this one, as far as they are still there.
        let block = &of.schema.block;
        let kept = serde_json::from_str(json).map(|json| change::secrets_in(block, &json));
        let hidden = &self.hidden.and(hidden.iter().cloned().chain(kept.unwrap_or_default()));
        let raw_state = Some(RawState { json: Bytes::copy_from_slice(json.as_bytes()) });
        let message = Upgrade { type_name: of.name.to_string(), version, raw_state };
        let answer = match self.call(self.process.calls.upgrade(message)).await {
            Ok(answer) => answer,
            Err(status) => return Err(self.severed(&doing, status, hidden).await),
        };
        if let Some(error) = said(&doing, &answer.diagnostics, hidden) {
            return Err(error);
        }
        let state = self.read_value(answer.state, &of.schema.value_type, &doing)?;
        if state.is_null() {
            let text = format!("{doing}: provider `{}` makes nothing of it", self.name);
            return Err(Error::unexpected(text)
                .hint("this is a mistake of the provider; its maintainers want to know"));
        }
        Ok(settled(&of.schema.block, state))
    }

    /// Reads a resource; null is gone.
    pub async fn read(
        &self,
        of: &ResourceType,
        state: &Value,
        private: &[u8],
        hidden: &Hidden,
    ) -> Result<(Value, Vec<u8>), Error> {
        let doing = format!("read a {}", of.name);
        let hidden = &self.secrets(of, &[state], hidden);
        let message = Read {
            type_name: of.name.to_string(),
            current: Some(write_value(state, &of.schema.value_type)),
            private: private.to_vec().into(),
            provider_meta: self.catalog.meta(),
            capabilities: None,
        };
        let answer = match self.call(self.process.calls.read(message)).await {
            Ok(answer) => answer,
            Err(status) => return Err(self.severed(&doing, status, hidden).await),
        };
        if let Some(error) = said(&doing, &answer.diagnostics, hidden) {
            return Err(error);
        }
        let state = self.read_value(answer.state, &of.schema.value_type, &doing)?;
        Ok((settled(&of.schema.block, state), answer.private.to_vec()))
    }

    /// Reads a data source.
    ///
    /// Errors: also `Unexpected` when nothing is told: what is not there is an error of the provider.
    pub async fn read_data(
        &self,
        of: &ResourceType,
        config: &Value,
        hidden: &Hidden,
    ) -> Result<Value, Error> {
        let doing = format!("read data of {}", of.name);
        let hidden = &self.secrets(of, &[config], hidden);
        let of_type = &of.schema.value_type;
        let checked =
            self.call(self.process.calls.validate_data(&of.name, write_value(config, of_type))).await;
        let diagnostics = match checked {
            Ok(answer) => answer.diagnostics,
            Err(status) => return Err(self.severed(&doing, status, hidden).await),
        };
        if let Some(mut error) = said(&doing, &diagnostics, hidden) {
            if error.kind == ErrorKind::Unexpected {
                error.kind = ErrorKind::Invalid;
            }
            return Err(error);
        }
        let message = ReadData {
            type_name: of.name.to_string(),
            config: Some(write_value(config, of_type)),
            provider_meta: self.catalog.meta(),
            capabilities: None,
        };
        let answer = match self.call(self.process.calls.read_data(message)).await {
            Ok(answer) => answer,
            Err(status) => return Err(self.severed(&doing, status, hidden).await),
        };
        if let Some(error) = said(&doing, &answer.diagnostics, hidden) {
            return Err(error);
        }
        let state = self.read_value(answer.state, of_type, &doing)?;
        match state.is_null() {
            true => Err(Error::unexpected(format!("{doing}: provider `{}` tells nothing", self.name))),
            false => Ok(settled(&of.schema.block, state)),
        }
    }

    /// Plans a change from `prior` to `config`; both may be null.
    pub async fn plan(
        &self,
        of: &ResourceType,
        prior: &Value,
        config: &Value,
        private: &[u8],
        hidden: &Hidden,
    ) -> Result<Planned, Error> {
        let doing = format!("plan a {}", of.name);
        let hidden = &self.secrets(of, &[prior, config], hidden);
        if config.is_null() && !self.catalog.plans_deletions() {
            return Ok(Planned {
                state: Value::Null,
                private: private.to_vec(),
                replace: Vec::new(),
                is_legacy: true,
            });
        }
        let block = &of.schema.block;
        let proposed = change::proposed(block, prior, config);
        let of_type = &of.schema.value_type;
        let message = Plan {
            type_name: of.name.to_string(),
            prior: Some(write_value(prior, of_type)),
            proposed: Some(write_value(&proposed, of_type)),
            config: Some(write_value(config, of_type)),
            private: private.to_vec().into(),
            provider_meta: self.catalog.meta(),
            capabilities: None,
        };
        let answer = match self.call(self.process.calls.plan(message)).await {
            Ok(answer) => answer,
            Err(status) => return Err(self.severed(&doing, status, hidden).await),
        };
        if let Some(error) = said(&doing, &answer.diagnostics, hidden) {
            return Err(error);
        }
        let state = self.read_value(answer.state, of_type, &doing)?;
        let state = settled(block, state);
        // Whether it is to exist is not for the old SDK to say either.
        let checked = match answer.legacy_type_system {
            true if state.is_null() != config.is_null() => Err("whether it is to exist".into()),
            true => Ok(()),
            false => change::check_plan(block, prior, config, &state),
        };
        let mistake = |what: String| {
            let text = format!("{doing}: provider `{}` {what}", self.name);
            Error::unexpected(text).hint("this is a mistake of the provider; its maintainers want to know")
        };
        checked.map_err(|path| mistake(format!("plans {path} otherwise than declared")))?;
        let mut replace = Vec::new();
        for path in &answer.requires_replace {
            let ((words, before), (_, after)) = (change::at_path(prior, path), change::at_path(&state, path));
            if before.is_none() && after.is_none() {
                return Err(mistake(format!("cannot change `{words}` in place, which there is not")));
            }
            let (before, after) = (before.unwrap_or(&Value::Null), after.unwrap_or(&Value::Null));
            if before != after || !after.is_known() || change::is_write_only(block, path) {
                replace.push(words);
            }
        }
        Ok(Planned {
            replace: if prior.is_null() { Vec::new() } else { replace },
            state,
            private: answer.private.to_vec(),
            is_legacy: answer.legacy_type_system,
        })
    }

    /// Carries out a plan. What the provider refuses is in the answer.
    ///
    /// Errors: there is no answer, or none that can be read: what was done is not known.
    pub async fn apply(
        &self,
        of: &ResourceType,
        doing: &str,
        prior: &Value,
        planned: &Planned,
        config: &Value,
        hidden: &Hidden,
    ) -> Result<Applied, Error> {
        let hidden = &self.secrets(of, &[prior, &planned.state, config], hidden);
        let of_type = &of.schema.value_type;
        let message = Apply {
            type_name: of.name.to_string(),
            prior: Some(write_value(prior, of_type)),
            planned: Some(write_value(&planned.state, of_type)),
            config: Some(write_value(config, of_type)),
            private: planned.private.clone().into(),
            provider_meta: self.catalog.meta(),
        };
        let answer = match self.call(self.process.calls.apply(message)).await {
            Ok(answer) => answer,
            Err(status) => return Err(self.severed(doing, status, hidden).await),
        };
        // What was made may be secret, and the provider may say so in what went wrong then.
        let told = answer.state.as_ref().and_then(|state| cty::decode(&state.msgpack, of_type).ok());
        let hidden = &self.secrets(of, told.iter().collect::<Vec<_>>().as_slice(), hidden);
        let error = said(doing, &answer.diagnostics, hidden);
        let state = match (answer.state, &error) {
            // Without a state in the answer nothing is said about what there was.
            (None, Some(_)) => prior.clone(),
            (state, _) => {
                let state = settled(&of.schema.block, known(self.read_value(state, of_type, doing)?));
                // A change that fails deletes nothing: many providers say null for want of anything better.
                let is_lost = error.is_some() && state.is_null() && !planned.state.is_null();
                if is_lost { prior.clone() } else { state }
            }
        };
        Ok(Applied { state, private: answer.private.to_vec(), is_legacy: answer.legacy_type_system, error })
    }

    /// Finds a resource by its id: its state as far as the provider tells it without reading.
    pub async fn import(
        &self,
        of: &ResourceType,
        id: &str,
        hidden: &Hidden,
    ) -> Result<Option<(Value, Vec<u8>)>, Error> {
        let doing = format!("find {} `{id}`", of.name);
        let hidden = &self.hidden.and(hidden.iter().cloned());
        let answer = match self.call(self.process.calls.import(&of.name, id)).await {
            Ok(answer) => answer,
            Err(status) => return Err(self.severed(&doing, status, hidden).await),
        };
        if let Some(error) = said(&doing, &answer.diagnostics, hidden) {
            return Err(error);
        }
        // A provider may tell of others that belong to it; they have manifests of their own.
        let Some(found) = answer.resources.into_iter().find(|found| *found.type_name == *of.name) else {
            return Ok(None);
        };
        let state = self.read_value(found.state, &of.schema.value_type, &doing)?;
        Ok((!state.is_null()).then(|| (settled(&of.schema.block, state), found.private.to_vec())))
    }
}

/// A value for a message.
pub fn write_value(value: &Value, of: &Type) -> DynamicValue {
    DynamicValue { msgpack: cty::encode(value, of).into(), json: Bytes::new() }
}

/// What is unknown after it was done is a mistake of the provider; nothing is the best that can be said of it.
fn known(value: Value) -> Value {
    match value {
        Value::Unknown => Value::Null,
        Value::Seq(all) => Value::Seq(all.into_iter().map(known).collect()),
        Value::Map(all) => Value::Map(all.into_iter().map(|(name, value)| (name, known(value))).collect()),
        Value::Dynamic(inner) => Value::Dynamic(Box::new((inner.0, known(inner.1)))),
        other => other,
    }
}

/// The old SDK says null for blocks that are not there, where an empty list is meant.
fn settled(block: &Block, value: Value) -> Value {
    let Value::Map(mut all) = value else { return value };
    for (name, nested) in &block.blocks {
        let inner = all.remove(name).unwrap_or(Value::Null);
        let inner = match (inner, nested.nesting) {
            (Value::Null, _) => nested.empty(),
            (Value::Seq(each), Nesting::Set) => {
                Value::set(each.into_iter().map(|one| settled(&nested.block, one)).collect())
            }
            (Value::Seq(each), _) => {
                Value::Seq(each.into_iter().map(|one| settled(&nested.block, one)).collect())
            }
            (Value::Map(each), Nesting::Map) => {
                Value::Map(each.into_iter().map(|(key, one)| (key, settled(&nested.block, one))).collect())
            }
            (one, _) => settled(&nested.block, one),
        };
        all.insert(name.clone(), inner);
    }
    Value::Map(all)
}

/// The errors among diagnostics as one, without `hidden`.
pub fn said(doing: &str, diagnostics: &[Diagnostic], hidden: &Hidden) -> Option<Error> {
    let errors = diagnostics.iter().filter(|d| d.severity != 2);
    let errors: Vec<String> = errors.map(|diagnostic| in_words(diagnostic, hidden)).collect();
    if errors.is_empty() {
        return None;
    }
    let told = errors.join("; ");
    Some(classified(&told, cut(format!("{doing}: {told}"))))
}

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
        let (words, _) = change::at_path(&Value::Null, path);
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
    let lower = told.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| holds_word(&lower, word));
    if has(&THROTTLED) {
        return Error::rate_limited(text).retry_after(Duration::from_secs(10));
    }
    if has(&DENIED) {
        return Error::permission_denied(text)
            .hint("the entry's `config` and `env` say what the provider signs in with");
    }
    match (has(&AWAY), has(&INVALID)) {
        (true, _) => Error::unavailable(text),
        (_, true) => Error::invalid(text),
        _ => Error::unexpected(text),
    }
}

/// True where `word` stands by itself, or as the name of an exception. What is joined by `-` or `_` is the name of something.
fn holds_word(text: &str, word: &str) -> bool {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let after = &text[at + word.len()..];
        let after = after.strip_prefix("exception").unwrap_or(after);
        !text[..at].ends_with(is_of_word) && !after.starts_with(is_of_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // Names of things are no errors.
        for name in ["geofence", "eof-queue", "throttling_rules", "slowdowns", "malformedly"] {
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
        let warning = Diagnostic { severity: 2, ..Diagnostic::default() };
        assert!(said("x", &[warning], &Hidden::default()).is_none());
    }
}
