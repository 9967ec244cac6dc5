//! What an author tells the suite: a remote, and desired states of a scope of it.

use async_trait::async_trait;
use reconciled_provider::{Claim, Cx, Provider, ResourceId, Scope};
use std::sync::Arc;

/// The instance whose marks the suite writes.
pub(super) const INSTANCE: &str = "conformance";

/// A desired state of one scope. The first law checks that the manifests of a subject are what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// At least three resources.
    Initial,
    /// The resources of `Initial`; at least one of them has other content, changed in place.
    Changed,
    /// Some of the resources of `Initial`, as they were.
    Shrunk,
    /// Against `Initial`: one is new, one has other content, one is gone.
    Mixed,
    /// Against `Initial`: one is replaced, because it cannot be changed in place or because another resource
    /// takes its slot. None where there is no such thing.
    Swapped,
    /// `Initial` and one more resource whose values can be shared with others. None where nothing is shared.
    Shared,
}

/// What an author tells the suite about a provider and its remote.
#[async_trait]
pub trait Subject: Send + Sync {
    /// The scope number `number`: nobody has written to it yet, and no other number gives it again.
    fn scope(&self, number: usize) -> Scope;

    /// True where a provider cannot make scopes: they are there from the start, with what the remote itself needs
    /// ([`Owner::System`](reconciled_provider::Owner::System)) and nothing else.
    fn has_scopes(&self) -> bool {
        false
    }

    /// A provider as a process that has just started would have it. All providers of one scope see the same
    /// remote; `instance` is the name they mark resources with.
    async fn connect(&self, scope: &Scope, instance: &str) -> Arc<dyn Provider>;

    /// A context for calls, with a wish to stop of its own.
    fn cx(&self) -> Cx;

    /// The manifests (YAML documents) of `sample` in `scope`. Only [`Sample::Swapped`] and [`Sample::Shared`]
    /// may be none.
    fn manifests(&self, scope: &Scope, sample: Sample) -> Option<String>;

    /// Somebody else, past the provider, makes `id` or changes it to content that no sample has. The scope
    /// exists. A resource made this way carries no mark.
    async fn put_by_hand(&self, scope: &Scope, id: &ResourceId);

    /// Somebody else deletes `id`, past the provider.
    async fn delete_by_hand(&self, scope: &Scope, id: &ResourceId);

    /// A resource that no sample declares and that [`Subject::put_by_hand`] can make.
    fn foreign(&self, scope: &Scope) -> ResourceId;

    /// What is wrong at the remote and no reader can see, such as two objects for one id; one sentence each.
    async fn inspect(&self, _scope: &Scope) -> Vec<String> {
        Vec::new()
    }

    /// Carries out what a resource claims from another provider. Afterwards the claim counts as synced.
    async fn carry(&self, _claim: &Claim) {}

    /// Makes the remote refuse the next write in `scope`. False where that cannot be arranged.
    async fn refuse_next(&self, _scope: &Scope) -> bool {
        false
    }

    /// True when a resource of ours carries a mark, where the provider marks at all. A container may not.
    fn is_marked(&self, _id: &ResourceId) -> bool {
        true
    }

    /// Nobody needs `scope` any more: where it costs the remote time by being there, it may go.
    async fn leave(&self, _scope: &Scope) {}

    /// The clear values of all secrets that this provider is configured with.
    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }
}
