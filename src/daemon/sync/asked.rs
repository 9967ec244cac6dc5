//! A question as it is answered, and the way of the answer.

use crate::{
    daemon::{
        arrival::is_commit,
        instance::Instance,
        meant::{named, sole},
    },
    failure::Failure,
    operation::{SyncAsk, SyncLine},
    session::oid,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// A question that can be answered, so that nothing is kept of what was said with one that cannot.
pub(super) struct Asked {
    pub(super) ask: SyncAsk,
    /// Also with the next instance it is the same request.
    pub(super) request: String,
    pub(super) began: Duration,
}

impl Asked {
    pub(super) fn of(instance: &Instance, mut ask: SyncAsk) -> Result<Asked, Failure> {
        if let Some(rev) = ask.rev.as_deref().filter(|rev| !is_commit(rev)) {
            let hint = "write its hexadecimal digits, the first seven or more";
            return Err(Failure::hinted(format!("`{rev}` is no commit id"), hint));
        }
        // A poll that took it along would fail by it, as if something were wrong with the source.
        if let Some(commit) = &mut ask.accept_rewind {
            *commit = oid(commit)?.to_string();
        }
        let began = instance.session.clock.now();
        let request = instance.requests.name(ask.request.as_deref(), began)?;
        let asked = Asked { ask, request, began };
        asked.source(instance)?;
        Ok(asked)
    }

    /// The source that is meant, where one is.
    pub(super) fn source(&self, instance: &Instance) -> Result<Option<Arc<str>>, Failure> {
        match &self.ask.source {
            Some(name) => named(instance, name).map(Some),
            None if self.ask.rev.is_some() || self.ask.accept_rewind.is_some() => sole(instance).map(Some),
            None => Ok(None),
        }
    }
}

/// Where the lines go. Who stopped reading stops the telling, not the work.
pub(crate) type Lines = mpsc::Sender<SyncLine>;

pub(super) async fn tell(lines: &Lines, line: SyncLine) {
    // Nobody reads any more: the work goes on without an audience.
    let _ = lines.send(line).await;
}
