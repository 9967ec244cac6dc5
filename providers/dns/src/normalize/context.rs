//! What the records of a manifest are read with, and what is told of them in the same words wherever it is found.

use crate::{
    dialect::Served,
    ignore::Ignored,
    name::{Name, NameError},
    rdata,
    record::MAX_TTL,
};
use reconciled_provider::{At, Inputs, Manifest, Problem, Reference, Scope, Span};
use std::sync::Arc;

/// What the records of a manifest in a zone are read with.
pub(super) struct Context<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) inputs: &'a dyn Inputs,
    pub(super) served: &'a Served,
    pub(super) zone: &'a Name,
    pub(super) scope: Arc<Scope>,
    pub(super) ttl: u32,
    pub(super) has_apex: bool,
    pub(super) ignored: &'a Ignored,
}

pub(super) fn valid_ttl(
    manifest: &Manifest,
    ttl: Option<&At<u32>>,
    problems: &mut Vec<Problem>,
) -> Option<u32> {
    let ttl = ttl?;
    if ttl.value > MAX_TTL {
        let message = format!("a ttl of {} seconds is out of range", ttl.value);
        problems.push(manifest.error(ttl.span, message).hint(format!("0 to {MAX_TTL} (RFC 2181 §8)")));
        return None;
    }
    Some(ttl.value)
}

/// Refuses the name of a zone or record that waits for an output: with another value it would be another one. A variable
/// that it waits for, where no configuration says what it holds, is none.
pub(super) fn of_output(
    manifest: &Manifest,
    what: &str,
    span: Span,
    unknown: &[Reference],
) -> Option<Problem> {
    unknown.iter().find(|reference| !reference.target.source().is_empty())?;
    let text = format!("the name of a {what} cannot depend on an output of another manifest");
    let hint = "write the name out; `spec.` and `metadata.` of another manifest may stand in it";
    Some(manifest.error(span, text).hint(hint))
}

pub(super) fn name_problem(manifest: &Manifest, span: Span, error: &NameError) -> Problem {
    Problem { hint: error.hint(), ..manifest.error(span, error.to_string()) }
}

pub(super) fn refusal(manifest: &Manifest, span: Span, refusal: rdata::Refusal) -> Problem {
    Problem { hint: refusal.hint, ..manifest.error(span, refusal.message) }
}
