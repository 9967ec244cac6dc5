//! The conformance suite: the laws of the contract as tests that every provider runs against its own remote.
//!
//! An author describes the remote once, as a [`Subject`], and calls [`run`]. Laws are tried in the order in
//! which an author meets them: pure functions, reading, writing, sharing a scope with others, stopping,
//! fencing, crashes. What a provider's [`ProviderInfo`](reconciled_provider::ProviderInfo) says it cannot do
//! is skipped, and the report says so: a law is never left out in silence.
//!
//! The suite holds the smallest engine that will do (`driver`, `memory`): it observes, asks for the
//! differences, plans, applies through a journal that checks its own rules, and survives its own death.
//! It deliberately does not use the real one, so that a law broken by both would still be seen.
//!
//! `docs/writing-a-provider.md` leads from an empty crate to a green report.

mod check;
mod crashing;
mod driver;
mod fencing;
mod manifests;
mod memory;
mod play;
mod pure;
mod reading;
mod sharing;
mod stopping;
mod subject;
mod writing;

use check::{Check, Stop};
use futures_util::{FutureExt, future::LocalBoxFuture};
use play::Play;
use std::{any::Any, fmt, panic::AssertUnwindSafe};
pub use subject::{Sample, Subject};

/// How one law fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Passed,
    /// It does not concern this provider; why.
    Skipped(String),
    /// It is broken; how.
    Failed(String),
}

/// Every law and how it fared, in the order they were tried.
#[derive(Clone, Debug)]
pub struct Report(pub Vec<(&'static str, Verdict)>);

impl Report {
    /// Names of the laws that were skipped.
    pub fn skipped(&self) -> Vec<&'static str> {
        let is_skipped = |(_, verdict): &&(&'static str, Verdict)| matches!(verdict, Verdict::Skipped(_));
        self.0.iter().filter(is_skipped).map(|(name, _)| *name).collect()
    }

    /// Panics with the whole report when a law is broken, or when the laws skipped are not exactly
    /// `expected`: what a provider is not tested for is written down in its test.
    #[track_caller]
    pub fn assert_holds_but_skips(&self, expected: &[&str]) {
        let is_failed = |(_, verdict): &(&'static str, Verdict)| matches!(verdict, Verdict::Failed(_));
        assert!(!self.0.iter().any(is_failed), "a law is broken\n{self}");
        assert_eq!(self.skipped(), expected, "other laws were skipped than expected\n{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, verdict)| match verdict {
            Verdict::Passed => writeln!(f, "passed   {name}"),
            Verdict::Skipped(why) => writeln!(f, "skipped  {name}: {why}"),
            Verdict::Failed(text) => writeln!(f, "FAILED   {name}: {text}"),
        })
    }
}

type Run = for<'a> fn(&'a Play<'a>) -> LocalBoxFuture<'a, Check>;

macro_rules! laws {
    ($($module:ident::$name:ident),* $(,)?) => {
        &[$((stringify!($name), |play| Box::pin($module::$name(play)) as LocalBoxFuture<'_, Check>)),*]
    };
}

/// The laws, from easy to hard. The name of a law is the name of its function.
const LAWS: &[(&str, Run)] = laws![
    pure::the_samples_are_what_they_should_be,
    pure::every_kind_of_the_samples_is_known,
    pure::normalize_is_pure,
    pure::a_manifest_for_another_entry_is_left_alone,
    pure::what_is_exported_normalizes_to_the_same,
    pure::compare_finds_every_difference_and_no_other,
    pure::naming_and_showing_never_fail,
    pure::a_claim_nobody_can_carry_is_refused,
    pure::no_secret_is_printed,
    reading::a_scope_that_is_absent_is_complete_and_empty,
    reading::what_was_created_is_observed_as_desired,
    reading::a_second_pass_does_nothing,
    reading::what_is_desired_is_observed_though_nothing_is_tracked,
    reading::a_focus_is_covered,
    reading::a_list_does_not_depend_on_what_is_desired,
    reading::what_was_observed_and_exported_plans_nothing,
    reading::what_was_created_is_discovered,
    reading::health_speaks_of_what_was_asked_for,
    reading::a_version_stands_while_nothing_changes_and_moves_when_something_does,
    writing::one_batch_creates_updates_and_deletes,
    writing::one_batch_swaps_what_cannot_coexist,
    writing::what_was_changed_by_hand_is_restored,
    writing::an_update_leaves_what_is_ignored_as_it_is,
    writing::everything_created_can_be_deleted,
    writing::a_batch_that_took_effect_is_done_again_without_harm,
    writing::a_refused_write_had_no_effect_and_says_so,
    sharing::foreign_resources_are_left_alone,
    sharing::marks_say_whose_it_is,
    sharing::values_of_others_stay_when_ours_leave,
    stopping::nothing_begins_after_a_wish_to_stop,
    stopping::a_wish_to_stop_is_heard_between_calls,
    stopping::nothing_is_sent_that_the_journal_refused,
    fencing::a_stale_base_writes_nothing,
    fencing::a_scope_that_came_to_be_meanwhile_is_not_overwritten,
    crashing::a_death_at_any_journal_call_is_recovered_from,
    crashing::a_death_at_any_await_is_recovered_from,
];

/// Tries every law and reports on each.
pub async fn run(subject: &dyn Subject) -> Report {
    let play = Play::new(subject);
    let mut report = Vec::new();
    for (name, law) in LAWS {
        let checked = AssertUnwindSafe(async {
            law(&play).await?;
            play.inspect_all().await
        });
        let verdict = match checked.catch_unwind().await {
            Ok(Ok(())) => Verdict::Passed,
            Ok(Err(Stop::Skip(why))) => Verdict::Skipped(why),
            Ok(Err(Stop::Fail(text))) => Verdict::Failed(text),
            Err(panic) => Verdict::Failed(format!("panicked: {}", message(&*panic))),
        };
        report.push((*name, verdict));
    }
    Report(report)
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
