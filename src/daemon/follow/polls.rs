//! The polls that are under way.
//!
//! Guarantees: each is a task of its own, and none outlives the loop. One that went on only while the loop looks at it would keep what it
//! has of the store while the loop waits for the store itself, and with a few sources neither would ever get it.

use super::source::Source;
use crate::{
    daemon::wishes::What,
    failure::Failure,
    manifest::KnownSecrets,
    session::{Session, Snapshot, SourceAsk, Writing},
};
use futures_util::future::join;
use reconciled_engine::Store;
use std::{panic::resume_unwind, sync::Arc, time::Instant};
use tokio::task::JoinSet;

/// What a poll of a source came to, and whether a secret that its manifests name was rotated.
pub(super) type Polled = (Arc<str>, Result<Snapshot, Failure>, bool);

/// Those of one loop.
#[derive(Default)]
pub(super) struct Polls {
    under_way: JoinSet<Polled>,
}

impl Polls {
    /// Begins to poll `source`, as somebody `wished`; `secrets` are those that the desired state was loaded with.
    pub(super) fn begin(
        &mut self,
        session: &Arc<Session>,
        writing: &Arc<Writing>,
        source: &mut Source,
        secrets: &KnownSecrets,
        wished: Instant,
    ) {
        source.is_polling = true;
        source.polls += 1;
        source.judged_after = source.arrivals;
        tracing::debug!(source = &*source.config.name, "poll");
        let (session, writing, config) = (session.clone(), writing.clone(), source.config.clone());
        let secrets = secrets.of(&config.name);
        // What came back with consent and is not in force yet would be refused without.
        source.rewinding = source.accept_rewind.take().or_else(|| source.rewinding.take());
        let accept_rewind = source.rewinding.as_ref().and_then(|wish| match &wish.what {
            What::Rewind { commit, .. } => Some(commit.clone()),
            What::Push(_) => None,
        });
        self.under_way.spawn(async move {
            let polled = async {
                let known = SourceAsk::of(writing.db.in_force(&config.name).await?);
                let known = SourceAsk { accept_rewind, wished: Some(wished), ..known };
                session.poll(&config, known).await
            };
            // A secret has no commit: it is looked at whenever its source is.
            let (polled, has_rotated) = join(polled, has_rotated(session.clone(), secrets)).await;
            (config.name.clone(), polled, has_rotated)
        });
    }

    /// The next that came back; none while none is under way.
    pub(super) async fn next(&mut self) -> Option<Polled> {
        match self.under_way.join_next().await? {
            Ok(polled) => Some(polled),
            Err(stopped) if stopped.is_panic() => resume_unwind(stopped.into_panic()),
            // Only the end of the loop stops one.
            Err(_) => None,
        }
    }

    /// Gives up what is under way.
    pub(super) async fn end(&mut self) {
        self.under_way.shutdown().await;
    }
}

/// True when a secret is not what it was when the desired state was loaded.
pub(super) async fn has_rotated(session: Arc<Session>, known: KnownSecrets) -> bool {
    match session.has_rotated(known).await {
        Ok(has_rotated) => has_rotated,
        Err(failure) => {
            tracing::warn!(error = %failure, "secrets cannot be read");
            false
        }
    }
}
