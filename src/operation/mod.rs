//! What an instance can be asked: one function for each verb, plain data in, plain data out.
//!
//! The command line working alone and the daemon's API call the same functions, so that both give the same
//! answers. Nothing here prints or asks a person: what needs a word between looking and writing is two
//! functions, and the second is bound to what the first showed.

mod adopt;
mod approve;
mod aside;
mod changes;
mod explain;
mod facts;
mod forget;
mod health;
mod import;
mod notify;
pub mod plan;
mod push;
mod read;
mod renew;
mod rollback;
mod select;
mod suspend;
mod sync;
mod target;
mod unmatched;

pub use adopt::{AdoptAsk, Adoptable, Adoption, adopt, adoptable};
pub use approve::{ApproveAsk, Approved, approve, may_approve};
pub use aside::{Aside, UNASSIGNED};
pub(crate) use changes::changed;
pub use explain::{ExplainAsk, Explanation, Left, Now, Wanted, explain};
pub use facts::{FactEntry, add_facts};
pub use forget::{ForgetAsk, Forgotten, forget, forgettable};
pub use health::{
    MISSING, ManifestEntry, RESTORED, ResourceCondition, ResourceEntry, SourceHealth, UNSEEN, UNTRACKED, said,
};
pub(crate) use import::{Chosen, free_name, split, tell_owners};
pub use import::{ImportAsk, Imported, import};
pub use notify::{NotifyTestAsk, notify_test};
pub use plan::{Form, Insisted, PlanAnswer, PlanAsk, document, look_and_load, plan};
pub use push::{
    Given, PushAnswer, PushAsk, PushFollow, PushMove, PushSource, PushTarget, PushTargetAsk, Pushed,
    SignedObjects, push,
};
pub(crate) use push::{followed, is_line, moved, take};
pub use read::{
    DriftAsk, EventsAsk, HistoryAsk, StatusAnswer, StatusAsk, Unknown, add_behind, add_unanswered,
    add_unknown, add_without_revision, approvals, drift, events, history, lay_over, lay_over_health,
    of_sources, status, without_revision,
};

pub use renew::{RenewAsk, Renewed, renew};
pub(crate) use rollback::nothing_in_force;
pub use rollback::{RollbackAsk, RolledBack, rollback};
pub use select::{Selected, Upload, UploadFile, upload};
pub use suspend::{Meant, ResumeAsk, Resumed, SuspendAsk, Suspended, resume, suspend};
pub use sync::{RequestEntry, SyncAsk, SyncLine, SyncOutcome};
pub(crate) use target::{KEPT, files as target_files, program, stale};
pub(crate) use unmatched::{Unmatched, unmatched};

use crate::{failure::Failure, registry};
use reconciled_provider::{Pattern, address::AddressError};

/// An address pattern, as typed.
pub fn pattern(text: &str) -> Result<Pattern, Failure> {
    text.parse().map_err(|error: AddressError| match capital(text) {
        Some(near) => Failure::hinted(error.to_string(), format!("did you mean `{near}`?")),
        None => Failure::plain(error.to_string()),
    })
}

/// The address that is meant where its kind is written small.
fn capital(text: &str) -> Option<String> {
    let (word, rest) = text.split_once('/')?;
    let kinds = registry::kinds().0;
    let kind = kinds.iter().find(|kind| kind.name.eq_ignore_ascii_case(word))?;
    let near = format!("{}/{rest}", kind.name);
    near.parse::<Pattern>().is_ok().then_some(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_is_written_small_is_told_as_it_is_written() {
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(pattern(text).unwrap_err().hint().as_deref(), expect);
        };
        check("zone/example.com", Some("did you mean `Zone/example.com`?"));
        check("recordset/www#a/A", Some("did you mean `RecordSet/www#a/A`?"));
        check("nothing/x", None);
        check("nothing", None);
    }
}
