//! What one resource needs of another provider, and how that fares.

use crate::{health::Health, name::ResourceId};
use bytes::Bytes;
use std::sync::Arc;

/// How long a claim is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lives {
    /// While the claiming resource is pending (an ACME challenge).
    WhilePending,
    /// As long as the claiming resource is tracked (a certificate's files).
    WhileTracked,
}

/// A resource of another provider that a resource needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Tells the claims of one resource apart.
    pub key: Arc<str>,
    /// The entry that shall carry it.
    pub provider: Arc<str>,
    /// What it is, in the words of that provider (`dns-txt`).
    pub kind: Arc<str>,
    /// What it shall be, in the words of that provider.
    pub spec: Bytes,
    /// How long it is wanted.
    pub lives: Lives,
}

/// How a claim fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimState {
    /// The claiming resource.
    pub owner: ResourceId,
    /// The key its claim has.
    pub key: Arc<str>,
    /// The claimed resource is as claimed.
    pub synced: bool,
    /// How it fares.
    pub health: Option<Health>,
}
