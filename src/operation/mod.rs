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
mod late;
mod notify;
mod pinned;
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
pub use aside::{Aside, RESTORED, UNASSIGNED};
pub(crate) use changes::changed;
pub use explain::{ExplainAsk, Explanation, Left, Now, Wanted, explain};
pub use facts::add_facts;
pub use forget::{ForgetAsk, Forgotten, claimed, forget, forgettable};
pub use health::{
    MISSING, ManifestEntry, ResourceCondition, ResourceEntry, SourceHealth, UNSEEN, UNTRACKED, said,
};
pub(crate) use import::{Chosen, free_name, split, tell_owners};
pub use import::{ImportAsk, Imported, import};
pub use late::late;
pub use notify::{NotifyTestAsk, notify_test};
pub use plan::{Form, Insisted, PlanAnswer, PlanAsk, document, look_and_load, plan};
pub use push::{
    Given, PushAnswer, PushAsk, PushFollow, PushMove, PushSource, PushTarget, PushTargetAsk, Pushed,
    SignedObjects, push,
};
pub(crate) use push::{followed, is_line, moved, take};
pub use read::{
    DriftAsk, EventsAsk, FactEntry, HistoryAsk, StatusAnswer, StatusAsk, Unknown, add_behind, add_unanswered,
    add_unknown, add_without_revision, approvals, drift, events, history, lay_over, lay_over_health,
    of_sources, status, without_revision,
};
pub use renew::{RenewAsk, Renewed, renew};
pub(crate) use rollback::nothing_in_force;
pub use rollback::{RollbackAsk, RolledBack, rollback};
pub use select::{Meant, Selected, Upload, UploadFile, pattern, upload};
pub use suspend::{ResumeAsk, Resumed, SuspendAsk, Suspended, resume, suspend};
pub use sync::{RequestEntry, SyncAsk, SyncLine, SyncOutcome};
pub(crate) use target::{KEPT, files as target_files, program, stale};
pub(crate) use unmatched::{Unmatched, unmatched};
