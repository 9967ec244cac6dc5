//! One running provider, configured: its calls in terms of values.
//!
//! *Guarantees*: what a provider says in an error is shown without the secrets that it was given; a call that broke off
//! is told apart from one that was refused, because only the first may have taken effect.

mod answered;
mod changes;
mod identity;
mod identity_calls;
mod list;
mod pace;
mod reads;
mod value;

pub use changes::{Applied, Planned};
pub use identity::Identity;
pub(crate) use list::Listed;
pub(crate) use pace::{Class, Pace};
pub use value::write_value;

use answered::Answered;
use identity::IdentityType;

use crate::{
    catalog::{Catalog, ResourceType},
    change,
    cty::{self, Type, Value},
    hidden::Hidden,
    said::{cut, said},
    wire::{
        Process, Status,
        message::{Diagnostic, DynamicValue, IdentityData},
    },
};
use reconciled_provider::{Cx, Error};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::OnceCell;

/// A call that was given up says that the process is stuck once it had this share of the time that a call may take: ten
/// seconds of five minutes.
const PATIENCE: u32 = 30;

/// What is known of a resource.
#[derive(Clone)]
pub struct Known {
    /// Null where it is not there.
    pub state: Value,
    /// What the provider wants back with it.
    pub private: Vec<u8>,
    /// What identifies it, where its type has that.
    pub identity: Option<Identity>,
}

impl Known {
    /// A state without an identity.
    pub fn new(state: Value, private: Vec<u8>) -> Known {
        Known { state, private, identity: None }
    }

    /// The identity for a message.
    fn identity_data(&self, of: Option<&IdentityType>) -> Option<IdentityData> {
        self.identity.as_ref()?.data(of)
    }
}

/// A provider that was given its configuration.
pub struct Plugin {
    process: Process,
    /// Its schemas.
    pub catalog: Arc<Catalog>,
    name: Arc<str>,
    /// How long a call may take that changes nothing.
    limit: Duration,
    used: AtomicU64,
    /// When it was last of use.
    last: Mutex<Instant>,
    is_broken: AtomicBool,
    /// Of the account: it outlives this process.
    pace: Arc<Pace>,
    /// Secrets of the entry.
    hidden: Hidden,
    /// What identifies resources, once somebody asked.
    identities: OnceCell<identity::Types>,
    /// What need not be asked again.
    answered: Answered,
}

impl Plugin {
    /// Wraps a process that is configured already. A call that changes nothing may take as long as `limit`.
    pub(crate) fn new(
        (name, limit): (Arc<str>, Duration),
        process: Process,
        catalog: Arc<Catalog>,
        hidden: Hidden,
        pace: Arc<Pace>,
    ) -> Plugin {
        let (used, is_broken) = (AtomicU64::new(0), AtomicBool::new(false));
        Plugin {
            process,
            catalog,
            name,
            limit,
            used,
            last: Mutex::new(Instant::now()),
            is_broken,
            pace,
            hidden,
            identities: OnceCell::new(),
            answered: Answered::default(),
        }
    }

    /// The entry.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True once its process has ended, or a call of it broke off or was late: the next needs another one.
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

    /// How long it had nothing to do.
    pub(crate) fn rested(&self) -> Duration {
        self.last().elapsed()
    }

    fn last(&self) -> MutexGuard<'_, Instant> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks all that is under way to come to an end. Some providers do nothing any more after that, so the next call
    /// needs another process.
    pub async fn cancel(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
        self.process.calls.cancel().await;
    }

    /// One call. Whoever waits for it may give it up: a limit of time does, and the process is taken for stuck then; so does
    /// what makes way for somebody else, which says nothing of the process, and its answer is wanted by nobody any more.
    async fn call<A>(&self, call: impl Future<Output = Result<A, Status>>) -> Result<A, Status> {
        struct Waits<'a> {
            plugin: &'a Plugin,
            since: Instant,
            is_broken: Option<bool>,
        }
        impl Drop for Waits<'_> {
            fn drop(&mut self) {
                let is_stuck = || self.since.elapsed() >= self.plugin.limit / PATIENCE;
                if self.is_broken.unwrap_or_else(is_stuck) {
                    self.plugin.is_broken.store(true, Ordering::Relaxed);
                }
            }
        }
        self.used.fetch_add(1, Ordering::Relaxed);
        let mut waits = Waits { plugin: self, since: Instant::now(), is_broken: None };
        let answer = call.await;
        *self.last() = Instant::now();
        waits.is_broken = Some(answer.as_ref().is_err_and(Status::is_broken));
        answer
    }

    /// One call that changes nothing, which has an end.
    async fn ask<A>(&self, call: impl Future<Output = Result<A, Status>>) -> Result<A, Status> {
        tokio::time::timeout(self.limit, self.call(call)).await.unwrap_or(Err(Status::Late(self.limit)))
    }

    /// Waits until something may be asked of the cloud: by the entry's `rate`, and by what the cloud said of it.
    pub(crate) async fn turn(&self, cx: &Cx, class: Class) {
        cx.pace.turn().await;
        self.pace.turn(class).await;
    }

    /// What the cloud said to a call that asked it for something.
    fn heard(&self, class: Class, doing: &str, diagnostics: &[Diagnostic], hidden: &Hidden) -> Option<Error> {
        match said(doing, diagnostics, hidden) {
            Some(error) => Some(self.pace.told(class, error)),
            None => {
                self.pace.well(class);
                None
            }
        }
    }

    async fn severed(&self, doing: &str, status: Status, hidden: &Hidden) -> Error {
        let hidden = self.hidden.and(hidden.iter().cloned());
        let status = match status {
            Status::Code(code, text) => Status::Code(code, hidden.scrub(&text)),
            Status::Broken(why) => Status::Broken(hidden.scrub(&why)),
            Status::Late(limit) => Status::Late(limit),
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
            Status::Late(_) => {
                Error::unavailable(text).hint("if it needs longer than that: a longer `timeout` of the entry")
            }
            _ => Error::unavailable(text).hint(
                "it is started again for the next try; if it keeps dying, its maintainers want to know",
            ),
        }
    }

    /// What is to be said of the module a resource is in: nothing, to providers that ask for it.
    fn meta(&self) -> Option<DynamicValue> {
        self.catalog.meta.as_ref().map(|schema| write_value(&Value::Null, &schema.value_type))
    }

    /// Errors: `Unexpected` for what is no value: nothing at all is not null, which says that nothing is there.
    fn read_value(&self, value: Option<DynamicValue>, of: &Type, doing: &str) -> Result<Value, Error> {
        let wrong = |why: &str| Error::unexpected(format!("{doing}: provider `{}` {why}", self.name));
        match value {
            Some(value) if !value.msgpack.is_empty() => cty::decode(&value.msgpack, of)
                .map_err(|why| wrong(&format!("answered with what is no value: {why}"))),
            Some(value) if !value.json.is_empty() => cty::read_json(&value.json, of)
                .map_err(|why| wrong(&format!("answered with what is no value: {why}"))),
            _ => Err(wrong("answered without a value")),
        }
    }

    /// The same, and what is secret in states that came with diagnostics: these may tell of it.
    fn secrets_told<'v>(
        &self,
        of: &ResourceType,
        diagnostics: &[Diagnostic],
        states: impl IntoIterator<Item = &'v DynamicValue>,
        hidden: &Hidden,
    ) -> Hidden {
        if diagnostics.is_empty() {
            return hidden.clone();
        }
        let of_type = &of.schema.value_type;
        let read = |value: &DynamicValue| match value.msgpack.is_empty() {
            true => cty::read_json(&value.json, of_type).ok(),
            false => cty::decode(&value.msgpack, of_type).ok(),
        };
        let told: Vec<Value> = states.into_iter().filter_map(read).collect();
        self.secrets(of, &told.iter().collect::<Vec<_>>(), hidden)
    }

    /// What errors about these values must not show.
    fn secrets(&self, of: &ResourceType, values: &[&Value], hidden: &Hidden) -> Hidden {
        let of_values = values.iter().flat_map(|value| change::secrets(&of.schema.block, value));
        self.hidden.and(hidden.iter().cloned().chain(of_values))
    }
}
