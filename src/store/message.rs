//! What the writer is asked: the messages of its queue.

use super::{error::Result, named::Rename, notice::Notice};
use reconciled_engine::{Row, Write};
use reconciled_provider::Error;
use std::{sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// Commits that may wait; more make the caller wait.
pub(super) const QUEUE: usize = 1024;

/// What the writer is asked.
pub(super) enum Message {
    Commit(Commit),
    /// A commit may bring these rows soon.
    Foresee(Arc<Vec<Row>>),
    /// The recovery is over.
    Recovered(oneshot::Sender<Result<(), Error>>),
    /// Up to which event the trail was exported, and into which file.
    Exported(String, oneshot::Sender<Result<(), Error>>),
    /// Events from before this time go.
    Trim(Duration, oneshot::Sender<Result<u64, Error>>),
    /// What receivers of notifications are told.
    Note(Vec<Notice>, oneshot::Sender<Result<(), Error>>),
    /// Entries and sources that have other names now.
    Rename(Vec<Rename>, oneshot::Sender<Result<(), Error>>),
    Close,
}

/// Writes that are durable together or not at all.
pub(super) struct Commit {
    pub(super) writes: Vec<Write>,
    pub(super) reply: oneshot::Sender<Result<(), Error>>,
}
