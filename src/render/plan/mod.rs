//! The plan: one published JSON document, and everything else rendered from that document.
//!
//! [`Document`] is what `-o json`, the API and plan files hold; [`text()`] and [`markdown()`] know nothing but it,
//! so whoever reads the JSON can show what a terminal shows. It holds no secret, no clock reading and no
//! generated id: planning the same state twice gives the same bytes.

mod build;
mod document;
mod former;
mod lines;
mod markdown;
mod text;
mod warnings;

#[cfg(test)]
mod tests;

pub use build::{Details, Options, why_frozen};
pub use document::{
    Action, Approval, Blocked, Change, Condition, ConditionKind, Counts, Document, Failure, Field, Foreign,
    ForeignResource, GuardDomain, Problem, ResourceChange, Source, State, Summary, Unassigned, Values,
    Warning,
};
pub use markdown::markdown;
pub use text::{Consent, TextOptions, text};
