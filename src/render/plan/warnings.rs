//! Changes that may not be what was meant: data in the document, so that every form and reader has them.

use super::document::Warning;
use reconciled_engine::{
    plan::{Change, Reason, Step},
    survey::Survey,
};
use reconciled_provider::{Hash, Scope};
use std::collections::HashMap;

/// Most warnings of one kind that are listed.
const WARNINGS: usize = 20;

/// Deletes and creates of equal declarations within one entry: perhaps a rename that forgot `moved-from`. Only where the
/// remote assigns identity, which `assigns` says of an entry: elsewhere another name is another resource, and nothing can
/// be moved. What was seen is no measure: it has what the remote made up.
///
/// Only what one delete and one create share says anything: hundreds of records point to one address.
pub(super) fn possible_moves(survey: &Survey, assigns: impl Fn(&str) -> bool) -> Vec<Warning> {
    // None: more than one of them.
    let mut gone: HashMap<(&str, Hash), Option<&Step>> = HashMap::new();
    for (scope, step) in committed(survey, Change::Delete).filter(|(scope, _)| assigns(&scope.provider)) {
        let Some(hash) = step.work.was.as_ref().map(|row| row.template) else { continue };
        gone.entry((&*scope.provider, hash)).and_modify(|one| *one = None).or_insert(Some(step));
    }
    if gone.is_empty() {
        return Vec::new();
    }
    let mut made: HashMap<(&str, Hash), Option<&Step>> = HashMap::new();
    for (scope, step) in committed(survey, Change::Create) {
        let Some(hash) = step.after else { continue };
        let key = (&*scope.provider, hash);
        if gone.contains_key(&key) {
            made.entry(key).and_modify(|one| *one = None).or_insert(Some(step));
        }
    }
    let mut pairs: Vec<(String, String)> = made
        .iter()
        .filter_map(|(key, create)| Some((gone.get(key).copied()??, (*create)?)))
        .map(|(delete, create)| (delete.address.to_string(), create.address.to_string()))
        .collect();
    pairs.sort();
    let rest = pairs.len().saturating_sub(WARNINGS);
    let mut warnings: Vec<Warning> = pairs.into_iter().take(WARNINGS).map(possible_move).collect();
    if rest > 0 {
        warnings.push(Warning {
            reason: "PossibleMove".into(),
            message: format!("{rest} more pairs of a delete and a create with equal spec"),
            hint: None,
            addresses: Vec::new(),
        });
    }
    warnings
}

/// The steps of one kind that a commit asks for, with their scopes.
fn committed(survey: &Survey, change: Change) -> impl Iterator<Item = (&Scope, &Step)> {
    let views = survey.scopes.iter().filter_map(|(scope, view)| Some((scope, view.as_ref().ok()?)));
    let steps = views.flat_map(|(scope, view)| view.plan.steps.iter().map(move |step| (scope, step)));
    steps.filter(move |(_, s)| s.change == change && matches!(s.reason, Reason::Commit(_)))
}

fn possible_move((from, to): (String, String)) -> Warning {
    Warning {
        reason: "PossibleMove".into(),
        message: format!("delete {from} + create {to} with equal spec: meant as a move?"),
        hint: Some(format!("if so, annotate the manifest of {to} with reconciled/moved-from: {from}")),
        addresses: vec![from, to],
    }
}
