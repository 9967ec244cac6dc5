//! The planner: desired × observed × tracked → steps with reasons. Pure, synchronous, no clock.
//!
//! Guarantees: same input, same steps in the same order; only tracked resources are changed; nothing is
//! deleted on an observation that is incomplete or covers a part; a step says why and what differs.
//!
//! It deliberately does not decide whether the steps may be carried out: that is the [`guard`].

mod agreed;
mod blocked;
mod claimed;
mod condition;
mod difference;
pub mod digest;
mod documents;
pub(crate) mod exclusive;
pub mod foreseen;
pub mod guard;
mod guard_words;
mod input;
mod kept;
mod needed;
mod order;
pub(crate) mod place;
mod planner;
mod prune;
mod reason;
mod remains;
mod resource;
mod scope_plan;
mod selection;
pub(crate) mod shared;
mod stands;
mod step;
mod step_for;
mod still_open;
mod suspended;
pub(crate) mod unanswered;

pub use agreed::as_shown;
pub use blocked::{Blocked, CREATE_UNKNOWN, DRIFTED, Dependant, POLICY_FORBIDS};
pub(crate) use blocked::{MADE_IN_PART, NOT_AS_PLANNED, STILL_HIDES};
pub use claimed::CLAIMS;
pub use condition::{BY_ADOPT, STILL_THERE};
pub use exclusive::Exclusive;
pub use input::{Elsewhere, Kept, ScopeInput, Shared};
pub use kept::{kept, written};
pub use reason::Reason;
pub use reconciled_provider::EntryPolicy;
pub use scope_plan::ScopePlan;
pub use selection::Selection;
pub use step::{Change, Step, Work};

use crate::store::Condition;
use planner::Planner;
use std::time::Duration;

/// Plans one scope.
pub fn plan(input: &ScopeInput<'_>) -> ScopePlan {
    debug_assert!(input.effective.is_sorted_by(|one, next| one.id < next.id), "one resource for each id");
    let mut out = ScopePlan::nothing(input.scope.clone(), input.seen.version.clone());
    out.tracked = input.memory.rows.len();
    let planner = Planner::new(input);
    if input.memory.rows.is_empty() {
        // Nearly all of a new scope is a step: a vector that grows holds twice as much, and three times while it does.
        out.steps.reserve_exact(input.effective.len());
    }
    for desired in input.effective {
        planner.desired(desired, &mut out);
    }
    prune::tracked_and_no_longer_desired(&planner, &mut out);
    shared::tell_what_is_kept(&planner, &mut out);
    prune::words_that_end(&planner, &mut out);
    prune::foreign(&planner, &mut out);
    suspended::suspend(&planner, &mut out);
    still_open::stay_open(&planner, &mut out);
    order::wait_for_each_other(input, &mut out.steps, &mut out.conditions);
    // What stays for others may be in the way, and may itself stand on something.
    needed::keep(&planner, &mut out);
    // Whatever else keeps what all are in keeps them.
    order::wait_for_holder(&planner, &mut out);
    prune::keep_what_holds_others(&planner, &mut out);
    prune::keep_what_would_be_hidden(&planner, &mut out);
    // What stays only now may stand on something, too.
    needed::keep(&planner, &mut out);
    place::doubt(&planner, &mut out);
    order::sort(input, &mut out.steps);
    out.exclusive = exclusive::of(input, &out.steps);
    out.resumed = resumed(input, &out.steps);
    if !input.seen.complete {
        let message = "not all of it could be read: nothing is created or deleted on the word of a part";
        let told = Condition::waiting("IncompleteRead", message);
        out.conditions.push(told.next_try(input.now + INCOMPLETE_AGAIN));
    }
    out.conditions.sort_by(|a, b| (&a.id, &a.reason).cmp(&(&b.id, &b.reason)));
    out.spent.sort();
    out.let_go.sort();
    out.documents = documents::changed(&planner, &out.lapsed);
    out
}

/// The steps of a plan as they are once nothing stops them; none where nothing that the guard would count is stopped.
fn resumed(input: &ScopeInput<'_>, steps: &[Step]) -> Vec<Step> {
    if !steps.iter().any(Step::is_put_off) {
        return Vec::new();
    }
    let suspensions: Vec<_> =
        input.suspensions.iter().filter_map(|one| foreseen::over(one, input.now)).collect();
    plan(&ScopeInput { suspensions: &suspensions, ..*input }).steps
}

/// When an incomplete read is repeated.
const INCOMPLETE_AGAIN: Duration = Duration::from_secs(10);
