//! The state, opened for writing: the way to its writer. How it is opened is in [`super`].

use super::{
    error::{Result, StoreError},
    message::Message,
    reader::Reader,
    seal::Seal,
};
use reconciled_provider::Error;
use std::{fmt, sync::Arc};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

/// The state, opened for writing.
pub struct Db {
    pub(super) queue: mpsc::Sender<Message>,
    pub(super) tasks: TaskTracker,
    pub(super) reader: Reader,
    pub(super) seal: Arc<Seal>,
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Db({}, epoch {})", self.reader.file.display(), self.reader.epoch)
    }
}

impl Db {
    /// The reading side.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Keeps rows of the scopes that were read last in memory, at most so many.
    pub fn keep_rows(&self, most: usize) {
        self.reader.kept.keep(most);
    }

    /// The keys of this installation.
    pub fn seal(&self) -> &Arc<Seal> {
        &self.seal
    }

    /// Ends the recovery that `state init --recover` began.
    pub async fn recovered(&self) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(Message::Recovered(reply)).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Writes what is queued, folds the WAL into the database and lets go of the lock. Later commits fail.
    pub async fn close(&self) {
        self.reader.pool.close().await;
        // An error means that the writer has ended already.
        let _ = self.queue.send(Message::Close).await;
        self.tasks.wait().await;
    }
}
