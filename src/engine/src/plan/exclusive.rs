//! The first time that a scope which is to hold nothing undeclared loses what nobody declared.
//!
//! Guarantees: that time waits for a person, whatever `guard.always` says: who takes the word out of it has seen what goes by it once.
//! That somebody agreed is remembered with the first write that follows from it, until the scope is exclusive no more; among the
//! documents of the scope, by a key that no manifest has. It deliberately remembers nothing where nothing was to go.

use super::{Change, ScopeInput, Step, guard_words::FOREIGN_DELETE};
use reconciled_provider::{EntryPolicy, Hash, ManifestKey};

/// Source part of the key of what is remembered.
const EXCLUSIVE: &str = "$exclusive";

/// Whether what nobody declared goes from a scope for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exclusive {
    /// It does not, or did before.
    #[default]
    AsBefore,
    /// It does, and not all of it can go with this plan.
    InPart,
    /// It does, with this plan.
    Whole,
}

/// What a plan of these steps is in this respect.
pub(super) fn of(input: &ScopeInput<'_>, steps: &[Step]) -> Exclusive {
    if !input.desired.exclusive.contains_key(input.scope) || input.memory.documents.keys().any(is_mark) {
        return Exclusive::AsBefore;
    }
    let mut goes = steps.iter().filter(|step| is_foreign(step)).peekable();
    if goes.peek().is_none() {
        return Exclusive::AsBefore;
    }
    match input.selection.is_all() && goes.all(|step| step.blocked.is_none()) {
        true => Exclusive::Whole,
        false => Exclusive::InPart,
    }
}

/// True for the deletion of what nobody declared, as a whole.
pub(super) fn is_foreign(step: &Step) -> bool {
    step.change == Change::Delete && step.work.was.is_none() && step.guard_words.contains(&FOREIGN_DELETE)
}

/// What is to be remembered once a plan is carried out that a person agreed to, and that is this in this respect.
pub(crate) fn agreed(exclusive: Exclusive) -> Option<(ManifestKey, Option<Hash>)> {
    let mark = || (ManifestKey::new(EXCLUSIVE, "", "", "", ""), Some(Hash::default()));
    (exclusive == Exclusive::Whole).then(mark)
}

/// True where what nobody declares is deleted: the scope is exclusive, and its entry may delete.
pub(super) fn takes_all(input: &ScopeInput<'_>) -> bool {
    input.desired.exclusive.contains_key(input.scope) && input.policy >= EntryPolicy::Sync
}

/// True where it is known that the scope is exclusive no more.
pub(super) fn is_over(input: &ScopeInput<'_>) -> bool {
    let desired = input.desired;
    let is_sure = !desired.sources.is_empty() && desired.sources.values().all(|source| source.is_sure());
    let is_known = is_sure && !desired.ailing.contains(&input.scope.provider);
    is_known && !desired.exclusive.contains_key(input.scope)
}

/// True for the key of what is remembered, which is no manifest's.
pub(super) fn is_mark(key: &ManifestKey) -> bool {
    key.source() == EXCLUSIVE
}
