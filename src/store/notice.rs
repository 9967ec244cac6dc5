//! What receivers of notifications and forges are told, as data. Its rows are in [`super::notification`].

use super::entry::UnassignedManifest;
use std::{sync::Arc, time::Duration};

/// What names a trouble: never its text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TroubleKey {
    /// Scope, guard domain, source or suspension.
    pub subject: Arc<str>,
    /// In the words of `notify.on`.
    pub topic: Arc<str>,
    /// One word for machines.
    pub reason: Arc<str>,
}

/// A trouble as it is remembered.
#[derive(Clone, Debug, PartialEq)]
pub struct TroubleRow {
    /// Which.
    pub key: TroubleKey,
    /// JSON of what is known of it.
    pub body: String,
    /// When it was first seen, since the epoch.
    pub seen_at: Duration,
    /// Since when it is over.
    pub gone_at: Option<Duration>,
    /// Who was told, and when.
    pub told: Vec<(Arc<str>, Duration)>,
}

/// A message that waits to be delivered.
#[derive(Clone, Debug, PartialEq)]
pub struct Posted {
    /// Its number: the same at each attempt.
    pub number: i64,
    /// JSON of the message.
    pub message: String,
    /// When it was decided.
    pub created_at: Duration,
    /// How often it was tried.
    pub attempts: u32,
    /// When it is tried next.
    pub next_try: Duration,
}

/// What a forge was told, or is to be told, of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusRow {
    /// Name of the source.
    pub source: Arc<str>,
    /// Full commit id.
    pub commit: Arc<str>,
    /// `pending`, `success`, `failure` or `error`.
    pub state: Arc<str>,
    /// One line for people.
    pub description: Arc<str>,
    /// When it was decided, since the epoch.
    pub decided_at: Duration,
    /// The forge knows it.
    pub is_delivered: bool,
}

/// One thing to remember.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A trouble put or replaced; who was told of it stays.
    Trouble(TroubleRow),
    /// A trouble is over and everybody knows.
    Over(TroubleKey),
    /// A receiver was told of a trouble.
    Told(Arc<str>, TroubleKey, Duration),
    /// A receiver was told that a trouble is over.
    Untold(Arc<str>, TroubleKey),
    /// A message for a receiver.
    Post(Arc<str>, String, Duration),
    /// A message is delivered, or given up.
    Delivered(i64),
    /// A message could not be delivered and is tried again at this time.
    Again(i64, Duration),
    /// These are the receivers; what waits for others is dropped.
    Receivers(Vec<Arc<str>>),
    /// What a forge is to be told; the same again changes nothing.
    Status(StatusRow),
    /// What manifests are for that is not configured here, of all sources.
    UnassignedManifests(Vec<UnassignedManifest>),
}
