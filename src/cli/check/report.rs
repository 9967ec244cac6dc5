//! What came of the checks, one line for each.

use crate::{
    cli::{Exit, Out, answer::AnswerArgs},
    failure::Failure,
};
use reconciled_provider::Problem;
use serde::Serialize;

/// How one check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Verdict {
    Ok,
    Warn,
    Fail,
}

/// What was found so far, each told at once to people.
pub(super) struct Report<'a> {
    out: &'a mut Out,
    answer: AnswerArgs,
    found: Found,
}

/// All that was looked at, for programs.
#[derive(Default, Serialize)]
struct Found {
    failures: usize,
    warnings: usize,
    checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Serialize)]
struct Check {
    verdict: Verdict,
    what: String,
    text: String,
    hint: Option<String>,
}

impl<'a> Report<'a> {
    /// Nothing so far.
    pub(super) fn new(out: &'a mut Out, answer: AnswerArgs) -> Report<'a> {
        Report { out, answer, found: Found::default() }
    }
    pub(super) fn say(&mut self, verdict: Verdict, what: &str, text: &str, hint: Option<&str>) {
        let word = match verdict {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "FAIL",
        };
        self.found.warnings += usize::from(verdict == Verdict::Warn);
        self.found.failures += usize::from(verdict == Verdict::Fail);
        let hint = hint.filter(|hint| !hint.is_empty());
        if self.answer.is_json() {
            let (what, text, hint) = (what.to_owned(), text.to_owned(), hint.map(str::to_owned));
            return self.found.checks.push(Check { verdict, what, text, hint });
        }
        // An error from a remote may have several lines.
        let text = text.replace('\n', "\n        ");
        self.out.say(&format!("{word:<4}  {what}: {text}"));
        if let Some(hint) = hint {
            self.out.say(&format!("      hint: {hint}"));
        }
    }
    pub(super) fn ok(&mut self, what: &str, text: &str) {
        self.say(Verdict::Ok, what, text, None);
    }
    pub(super) fn failure(&mut self, what: &str, failure: &Failure) {
        self.say(Verdict::Fail, what, &failure.to_string(), failure.hint().as_deref());
    }
    pub(super) fn problem(&mut self, problem: &Problem) {
        let verdict = if problem.is_error() { Verdict::Fail } else { Verdict::Warn };
        let place = problem.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        self.say(verdict, "config", &format!("{place}{}", problem.message), problem.hint.as_deref());
    }
    /// Says what it all comes to.
    pub(super) fn end(self) -> Result<Exit, Failure> {
        let Report { out, answer, found } = self;
        let (failures, warnings) = (found.failures, found.warnings);
        answer.tell(&found, out, |_, _| {})?;
        out.talk(&match (failures, warnings) {
            (0, 0) => "all is well".to_string(),
            (failures, warnings) => format!("{failures} failed, {warnings} to look at"),
        });
        Ok(if failures > 0 { Exit::Error } else { Exit::Good })
    }
}
