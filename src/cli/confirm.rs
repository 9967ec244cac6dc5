//! Before `apply` writes, whoever does it: the plan is shown, and a person is asked where there is one to ask.

use super::{Out, args::Format};
use crate::{
    operation::plan::{Condition, ConditionKind as Kind, Document},
    render::plan::{TextOptions, markdown, text},
    text::time::rfc3339,
};
use std::time::Duration;

/// How a plan is shown, and whether somebody is asked.
#[derive(Clone, Copy)]
pub(super) struct Confirm {
    pub(super) output: Format,
    /// False for who said yes beforehand.
    pub(super) asks: bool,
}

impl Confirm {
    /// Shows the plan; false where a person was asked and does not want it. It is carried out `until` then.
    pub(super) fn consents(self, plan: &Document, until: Duration, out: &mut Out) -> bool {
        let question = question(plan.is_pending(), &plan.conditions, until).filter(|_| self.asks);
        let as_text = |colour| text(plan, &TextOptions { colour, ..TextOptions::default() });
        match self.output {
            Format::Text => out.data(&as_text(out.colour)),
            Format::Markdown => out.data(&markdown(plan)),
            // What is written is how it ended; nobody says yes to what was not shown.
            Format::Json if question.is_some() => out.talk(&as_text(false)),
            Format::Json => {}
        }
        if question.is_some_and(|question| !out.ask(question)) {
            out.talk("nothing was changed");
            return false;
        }
        true
    }
}

/// What a person is asked before anything is written; none where nothing can be. What waits is planned anew and written once
/// it can be: that is no part of what is shown, so it is told in the question.
fn question(has_changes: bool, conditions: &[Condition], until: Duration) -> Option<&'static str> {
    let last = rfc3339(until);
    let comes = |one: &Condition| {
        let is_in_time = one.next_try.as_ref().is_none_or(|next| *next <= last);
        one.kind == Kind::Waiting && is_in_time
    };
    match (has_changes, conditions.iter().any(comes)) {
        (true, false) => Some("Apply these changes?"),
        (true, true) => Some("Apply these changes, and do what waits as soon as it can be done?"),
        (false, true) => Some("Nothing is changed now; do what waits as soon as it can be done?"),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_asked_before_what_waits_is_written_too() {
        let one = |kind, next_try: Option<u64>| Condition {
            scope: "notes/one".into(),
            id: Some("one".into()),
            address: Some("Note/one".into()),
            kind,
            reason: "NotYetVisible".into(),
            message: "waits until it is seen".into(),
            hint: None,
            next_try: next_try.map(|at| rfc3339(Duration::from_secs(at))),
        };
        let ask = |has_changes, conditions: &[Condition]| {
            question(has_changes, conditions, Duration::from_secs(1_000))
        };
        let waits = "Nothing is changed now; do what waits as soon as it can be done?";
        assert_eq!(ask(false, &[one(Kind::Waiting, None)]), Some(waits));
        assert_eq!(ask(false, &[one(Kind::Stalled, None), one(Kind::Waiting, Some(999))]), Some(waits));
        let both = "Apply these changes, and do what waits as soon as it can be done?";
        assert_eq!(ask(true, &[one(Kind::Waiting, None)]), Some(both));
        assert_eq!(ask(true, &[]), Some("Apply these changes?"));
        // Nothing of these is written before the run ends.
        for left in [one(Kind::Waiting, Some(1_001)), one(Kind::Stalled, None), one(Kind::Suspended, None)] {
            assert_eq!(ask(false, &[left]), None);
        }
        assert_eq!(ask(false, &[]), None);
    }
}
