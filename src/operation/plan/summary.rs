//! How many changes there are, in the published form.

use super::change::{Action, ResourceChange};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How many changes of each kind come with an apply: at once, with consent, or once what they wait for is there. The others are
/// counted apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// New at the remote.
    pub create: usize,
    /// Changed in place, or taking the next step of a change.
    pub update: usize,
    /// Deleted and created anew.
    pub replace: usize,
    /// Gone from the remote.
    pub delete: usize,
    /// Taken over as they are.
    pub adopt: usize,
    /// Known under a new address.
    pub r#move: usize,
    /// No longer tracked, left as they are.
    pub forget: usize,
    /// Stopped by a person, a manifest or a window.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub suspended: usize,
    /// Not done before a person puts something right, such as what a policy forbids.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stalled: usize,
}

/// Changes of a scope that are not listed, and that nothing but the guard keeps from being made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unlisted {
    pub(crate) summary: Summary,
    pub(crate) domain: Arc<str>,
    /// Any of them waits for nothing.
    pub(crate) is_ready: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
pub(super) fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Summary {
    /// How many of each there are, and how many of any kind do not come by themselves.
    pub(crate) fn of<'a>(changes: impl IntoIterator<Item = &'a ResourceChange>) -> Summary {
        let mut summary = Summary::default();
        for change in changes {
            *match change.change.actions[..] {
                _ if change.is_suspended() => &mut summary.suspended,
                _ if change.is_stalled() => &mut summary.stalled,
                ref actions => summary.of_actions(actions),
            } += 1;
        }
        summary
    }

    /// The number of changes that are these.
    pub(super) fn of_actions(&mut self, actions: &[Action]) -> &mut usize {
        match actions {
            [Action::Create] => &mut self.create,
            [Action::Update] => &mut self.update,
            [Action::Delete] => &mut self.delete,
            [Action::Adopt] => &mut self.adopt,
            [Action::Move] => &mut self.r#move,
            [Action::Forget] => &mut self.forget,
            _ => &mut self.replace,
        }
    }

    /// Both together.
    pub(crate) fn and(self, other: Summary) -> Summary {
        let Summary { create, update, replace, delete, adopt, r#move, forget, suspended, stalled } = other;
        Summary {
            create: self.create + create,
            update: self.update + update,
            replace: self.replace + replace,
            delete: self.delete + delete,
            adopt: self.adopt + adopt,
            r#move: self.r#move + r#move,
            forget: self.forget + forget,
            suspended: self.suspended + suspended,
            stalled: self.stalled + stalled,
        }
    }

    /// How many these are.
    pub(crate) fn total(self) -> usize {
        let Summary { create, update, replace, delete, adopt, r#move, forget, suspended, stalled } = self;
        create + update + replace + delete + adopt + r#move + forget + suspended + stalled
    }

    /// True where all there is was switched off.
    pub(super) fn is_suspended(&self) -> bool {
        self.suspended > 0 && *self == Summary { suspended: self.suspended, ..Summary::default() }
    }
}
