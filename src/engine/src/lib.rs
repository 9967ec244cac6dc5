//! The engine: what shall be × what is × what is tracked → a plan, and the plan made real.
//!
//! [`plan`] is pure and synchronous: same input, same bytes out. [`pass`] runs one scope through the loop:
//! observe, diff, plan, guard, apply, verify, record; [`scheduler`] says when. Everything outside is behind a trait: [`Store`] for
//! memory, `Provider` for the remote, `Clock` for time. So the simulation runs exactly this code.
//!
//! It deliberately depends on no runtime, HTTP, SQL or Git crate.

pub mod desired;
pub mod drift;
pub mod error_policy;
pub mod health;
mod journal;
pub mod pass;
pub mod pin;
pub mod plan;
pub mod ready;
pub mod scheduler;
mod selector;
pub mod store;
pub mod survey;
pub mod suspension;
pub mod telemetry;

pub use desired::{Desired, Hidden, ManifestMeta, Pinned, PutOut, Reach, SourceState};
pub use pin::Pin;
pub use selector::{Selector, SelectorError};
pub use store::{DriftEnd, DriftField, Drifted, HealthState, Row, RowState, Store, Write};
pub use suspension::{BY_MANIFEST, BY_PERSON, Extent, Heals, Passes, StoppedBy, Suspension, WINDOW_CLOSED};
