//! The provider contract: the words, data and two traits that every backend and the engine share.
//!
//! A backend implements [`Observer`] (everything that reads) and [`Provider`] (the one call that writes).
//! The engine decides; a backend only says what is, how it differs, and carries out what was decided.
//!
//! This crate guarantees that a secret cannot be printed ([`Secret`]), that an incomplete read cannot be
//! mistaken for an empty one ([`Observation::complete`]), and that a holder of `dyn Observer` cannot write.
//! It deliberately knows no async runtime, no HTTP, no SQL and no Git.
//!
//! `docs/writing-a-provider.md` leads from an empty crate to a green conformance suite.

pub mod address;
pub mod apply;
pub mod claim;
pub mod context;
pub mod diff;
pub mod error;
pub mod health;
pub mod kind;
pub mod lint;
pub mod manifest;
pub mod mask;
pub mod name;
pub mod observe;
pub mod policy;
pub mod problem;
pub mod provider;
pub mod reference;
pub mod secret;
pub mod sorted;
pub mod spec;
pub mod yaml;

pub use address::{Address, Pattern, Whole};
pub use apply::{Action, ActionId, Batch, Journal, Op, Outcome};
pub use claim::{Claim, ClaimState, Lives};
pub use context::{Answers, Clock, Cx, Listener, Pace, Stop, Turns, Warnings};
pub use diff::{
    Caution, Delta, Deltas, FieldChange, OWNER_FIELD, PENDING_FIELD, Shown, diff_by_compare, is_ignored,
};
pub use error::{Error, ErrorKind, Told};
pub use health::{Health, Unwell};
pub use kind::{Kind, Kinds};
pub use lint::{Around, Finding, Linted};
pub use manifest::{Inputs, Manifest, Normalized, Value};
pub use mask::Mask;
pub use name::{Hash, ManifestKey, Origin, ResourceId, Scope};
pub use observe::{
    Ending, Fact, Focus, Found, Hint, LeftAlone, Observation, Observed, Owner, RemoteNames, Served, Tracked,
    Version, Want,
};
pub use policy::{Adopt, Deletion, Drift, EntryPolicy, Policies, Policy, PolicyId};
pub use problem::{Place, Problem, Severity};
pub use provider::{
    Fencing, GuardDomain, Identity, Marking, Merged, Observer, Provider, ProviderInfo, Renewal, Slot,
    no_hints,
};
pub use reference::Reference;
pub use secret::{Sealed, Secret, SecretMark, SecretRef, Secrets, secret_in, secret_output};
pub use sorted::Sorted;
pub use spec::{Declared, Resource, Spec};
pub use yaml::{At, Each, Node, SourceFile, Span};
