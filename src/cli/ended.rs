//! How `apply` ended, for programs: one object of one form, whether a daemon did it or this process.

use super::{Exit, Out, answer::object, follow::words};
use crate::{
    failure::Failure,
    operation::{SyncLine, SyncOutcome},
};
use reconciled_engine::pass::Converge;
use serde::Serialize;
use std::collections::BTreeMap;

/// What was done, and what there is to say of it.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Scope, change and outcome, and how often.
    outcomes: BTreeMap<(String, String, String), usize>,
    messages: Vec<String>,
    timed_out: bool,
}

/// As programs read it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    exit: u8,
    outcomes: Vec<Outcome<'a>>,
    messages: &'a [String],
    timed_out: bool,
}

#[derive(Serialize)]
struct Outcome<'a> {
    scope: &'a str,
    change: &'a str,
    outcome: &'a str,
    count: usize,
}

impl Ended {
    /// What this process did.
    pub(super) fn of(converge: &Converge, messages: Vec<String>) -> Ended {
        let all = converge.outcomes.all.iter();
        let outcomes = all.map(|((scope, change, outcome), count)| {
            ((scope.to_string(), (*change).to_owned(), (*outcome).to_owned()), *count)
        });
        Ended { outcomes: outcomes.collect(), messages, timed_out: converge.timed_out }
    }

    /// Takes in what a daemon says. What goes on meanwhile is for `sync --json`, and how it ended is said by the exit code; why a scope
    /// is not in sync by then is at the end.
    pub(super) fn hear(&mut self, line: &SyncLine) {
        match line {
            SyncLine::Revision { .. } | SyncLine::Begun { .. } => {}
            SyncLine::Scope { scope, outcomes, .. } => {
                for (what, count) in outcomes {
                    let (change, outcome) = what.split_once(' ').unwrap_or((what.as_str(), ""));
                    let key = (scope.clone(), change.to_owned(), outcome.to_owned());
                    *self.outcomes.entry(key).or_default() += count;
                }
            }
            SyncLine::Message { .. } | SyncLine::Held { .. } => {
                self.messages.extend(words(line).iter().map(|text| text.trim_end().to_owned()));
            }
            SyncLine::End { outcome, .. } => {
                self.timed_out = *outcome == SyncOutcome::TimedOut;
                let mut said = words(line);
                said.pop();
                self.messages.extend(said);
            }
        }
    }

    /// Writes it.
    pub(super) fn tell(&self, exit: Exit, out: &mut Out) -> Result<(), Failure> {
        object(&self.answer(exit), out)
    }

    fn answer(&self, exit: Exit) -> Answer<'_> {
        let all = self.outcomes.iter();
        let outcomes =
            all.map(|((scope, change, outcome), count)| Outcome { scope, change, outcome, count: *count });
        let Ended { messages, timed_out, .. } = self;
        Answer { exit: exit.code(), outcomes: outcomes.collect(), messages, timed_out: *timed_out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_daemon_did_is_added_up_and_what_went_on_is_left_out() {
        let scope = |outcomes: &[(&str, usize)], error: Option<&str>| SyncLine::Scope {
            scope: "zones/example.com".into(),
            stance: "failed".into(),
            outcomes: outcomes.iter().map(|(what, count)| (what.to_string(), *count)).collect(),
            error: error.map(str::to_owned),
            milliseconds: 3,
        };
        let (source, commit, label) = ("infra".into(), "c".into(), "main@c".into());
        let lines = [
            SyncLine::Revision { source, commit, label },
            SyncLine::Begun { scopes: 1, request: "r".into() },
            scope(&[("create done", 2), ("update failed", 1)], Some("answered 500")),
            scope(&[("create done", 1)], None),
            SyncLine::Message { text: "Zone/example.com#www/A is Degraded: no\n".into() },
            SyncLine::End {
                outcome: SyncOutcome::TimedOut,
                outcomes: BTreeMap::new(),
                left: [("zones/example.com", "waiting"), ("zones/example.net", "failed: answered 503")]
                    .map(|(scope, stance)| (scope.to_owned(), stance.to_owned()))
                    .into(),
                invalid: false,
                missed: false,
                milliseconds: 3,
                request: "r".into(),
            },
        ];
        let mut ended = Ended::default();
        lines.iter().for_each(|line| ended.hear(line));
        let zone = "zones/example.com";
        let expect = serde_json::json!({
            "exit": 4,
            "outcomes": [
                {"scope": zone, "change": "create", "outcome": "done", "count": 3},
                {"scope": zone, "change": "update", "outcome": "failed", "count": 1},
            ],
            "messages": [
                "Zone/example.com#www/A is Degraded: no",
                "zones/example.com is waiting",
                "zones/example.net is failed: answered 503",
                "hint: to see why: reconciled status",
            ],
            "timedOut": true,
        });
        assert_eq!(serde_json::to_value(ended.answer(Exit::Late)).unwrap(), expect);
    }
}
