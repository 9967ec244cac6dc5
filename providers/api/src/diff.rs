//! How a desired resource differs from the observed one.

use crate::{
    error::Error,
    name::ResourceId,
    observe::{Observation, Observed, Want},
    secret::Sealed,
    sorted::Sorted,
    spec::{Resource, Spec},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A value as a plan shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// In clear.
    Text(String),
    /// A secret: only that it differs is shown.
    Sensitive,
    /// Known only after another resource was applied.
    Unknown,
    /// Not there on this side.
    Absent,
}

/// Path of the field by which the planner says that a resource is taken over from another owner.
///
/// An [`Op::Update`](crate::Op::Update) whose delta has it was agreed to by a person: `apply` removes the mark of the
/// owner that [`FieldChange::before`] names, also where the mark stands beside the resource. [`Delta::leaving`] shows by it
/// that our own mark goes.
pub const OWNER_FIELD: &str = "owner";

/// Path of the field by which a provider says that an earlier write of ours is not finished at the remote.
///
/// A delta of nothing else is no drift: it is gone on with, whatever the policy says of drift.
pub const PENDING_FIELD: &str = "pending";

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// Path of the field, such as `ttl` or `values`.
    pub path: Arc<str>,
    /// What the remote has.
    pub before: Shown,
    /// What it will have.
    pub after: Shown,
}

impl FieldChange {
    /// A change from `before` to `after`, both in clear; `None` is absent.
    pub fn text(path: &str, before: Option<String>, after: Option<String>) -> FieldChange {
        let show = |side: Option<String>| side.map_or(Shown::Absent, Shown::Text);
        FieldChange { path: path.into(), before: show(before), after: show(after) }
    }
}

impl Delta {
    /// That a resource is left to others: our mark on it goes, and nothing else of it changes.
    ///
    /// ```
    /// use reconciled_provider::{Delta, OWNER_FIELD};
    /// let delta = Delta::leaving();
    /// assert!(delta.leaves && &*delta.fields[0].path == OWNER_FIELD);
    /// ```
    pub fn leaving() -> Delta {
        let field = FieldChange::text(OWNER_FIELD, Some("this instance".into()), None);
        Delta { fields: vec![field], leaves: true, ..Delta::default() }
    }
    /// True when nothing differs but that a write of ours is not finished ([`PENDING_FIELD`]).
    pub fn is_unfinished(&self) -> bool {
        !self.fields.is_empty() && self.fields.iter().all(|field| &*field.path == PENDING_FIELD)
    }
}

/// How one resource differs, and what `apply` gets back to carry out exactly that.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delta {
    /// Fields that differ, for people.
    pub fields: Vec<FieldChange>,
    /// The change needs the resource to be deleted and created anew.
    pub replace: bool,
    /// The fields because of which it does, where the remote tells.
    pub replace_paths: Vec<Arc<str>>,
    /// It does only since somebody else changed it: what was last written could be made as declared in place. That a part of what is
    /// declared is new is no word for the loss then.
    pub heals_drift: bool,
    /// Nobody changed anything: what is there is due, as a certificate that is to be renewed. It is never told as a change by
    /// somebody else, and may happen as often as it likes.
    pub is_due: bool,
    /// Other resources of the scope that carrying it out writes as well. While one of them is suspended, it is not begun and
    /// does not go on.
    pub also: Vec<ResourceId>,
    /// Nobody changed it, it came to this by itself: the command that says why.
    pub look: Option<Arc<str>>,
    /// What it took the place of, as people know it, and that is to be deleted now; nothing differs then. It happens once
    /// all that refers to the resource was written since, as an [`Op::Update`](crate::Op::Update) with this delta.
    pub former: Vec<Arc<str>>,
    /// Those stay until this time, since the epoch, as reads may not show before that what took their place. Until then nothing
    /// is done about this difference; it is told what is still there.
    pub stays_until: Option<Duration>,
    /// It is left to others: an [`Op::Update`](crate::Op::Update) with this delta takes our mark away and changes nothing else
    /// ([`Observer::takes_marks_away`](crate::Observer::takes_marks_away)).
    pub leaves: bool,
    /// What a person should know before it is carried out. It keeps nothing from being done, and is in no digest.
    pub cautions: Vec<Caution>,
    /// What the provider planned; `apply` carries it out or answers `Conflict`.
    pub planned: Sealed,
}

/// What is odd about carrying out a change, for the warnings of a plan.
///
/// ```
/// use reconciled_provider::{Caution, Delta};
/// let caution = Caution {
///     reason: "NoNameServers",
///     message: "the zone is made without an NS record (RFC 1034 §4.2.1)".into(),
///     hint: Some("name them in `nameservers` of the entry".into()),
/// };
/// assert!(Delta { cautions: vec![caution], ..Delta::default() }.fields.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caution {
    /// One word for machines.
    pub reason: &'static str,
    /// What is odd, with the rule that says so.
    pub message: String,
    /// What to do if it is not meant.
    pub hint: Option<String>,
}

/// True when the path of a field is one of those that are `ignored`, or below one; `*` is every path.
///
/// ```
/// use reconciled_provider::is_ignored;
/// let ignored = ["tags".into(), "ttl".into()];
/// assert!(is_ignored(&ignored, "tags.owner") && is_ignored(&ignored, "ttl") && !is_ignored(&ignored, "tagset"));
/// ```
pub fn is_ignored(ignored: &[Arc<str>], field: &str) -> bool {
    let is_below = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[', '/']);
    ignored.iter().any(|path| &**path == "*" || field.strip_prefix(&**path).is_some_and(is_below))
}

/// A delta, or why there is none, for each desired resource that differs from an observed one, and for those
/// that do not exist where the remote plans creates. A delta counts also where the hashes are equal.
pub type Deltas = BTreeMap<ResourceId, Result<Delta, Error>>;

/// The usual `diff`: one pure comparison per pair, nothing for resources on one side only.
///
/// Equal hashes are equal resources, so `compare` runs only on those that differ.
pub fn diff_by_compare(
    compare: impl Fn(&Resource, &Observed) -> Option<Delta>,
    want: &Want<'_>,
    seen: &Observation,
) -> Deltas {
    let mut deltas = Deltas::new();
    let observed = Sorted::new(&seen.resources, |observed| &observed.id);
    for desired in want.desired {
        let Some(observed) = observed.get(&desired.id) else { continue };
        if matches!(&desired.spec, Spec::Known { hash, .. } if *hash == observed.hash) {
            continue;
        }
        if let Some(delta) = compare(desired, observed) {
            deltas.insert(desired.id.clone(), Ok(delta));
        }
    }
    deltas
}
