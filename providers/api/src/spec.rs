//! What is desired of one resource.

pub use crate::reference::Reference;

use crate::{
    name::{Hash, Origin, ResourceId, Scope},
    policy::PolicyId,
};
use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// The desired content in canonical bytes: the form in which the remote will report it.
///
/// Secrets appear as marks. Two resources are equal exactly when their hashes are.
///
/// ```
/// use reconciled_provider::Spec;
/// assert_eq!(Spec::known(b"300 192.0.2.1".to_vec()), Spec::known(b"300 192.0.2.1".to_vec()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// Everything is known.
    Known {
        /// Canonical bytes.
        bytes: Arc<[u8]>,
        /// Hash of `bytes`.
        hash: Hash,
        /// Hash of the declaration with references unresolved: what a person wrote and can approve.
        template: Hash,
    },
    /// A part is an output that another resource does not have yet.
    Waiting {
        /// Hash of the declaration with references unresolved.
        template: Hash,
        /// What it waits for.
        on: Arc<[Reference]>,
        /// Canonical bytes as far as they are known, for who plans with that; empty where nobody does.
        so_far: Arc<[u8]>,
    },
}

impl Spec {
    /// A spec without references: its template is its content.
    pub fn known(bytes: impl Into<Arc<[u8]>>) -> Spec {
        let bytes = bytes.into();
        let hash = Hash::of(&bytes);
        Spec::Known { bytes, hash, template: hash }
    }
    /// A spec whose references all had values.
    pub fn resolved(bytes: impl Into<Arc<[u8]>>, template: Hash) -> Spec {
        let bytes = bytes.into();
        Spec::Known { hash: Hash::of(&bytes), bytes, template }
    }
    /// A spec with a part that is not known yet, of which nothing can be planned.
    pub fn waiting(template: Hash, on: impl Into<Arc<[Reference]>>) -> Spec {
        Spec::Waiting { template, on: on.into(), so_far: Arc::from([]) }
    }
    /// What a person wrote: stable while outputs of others change.
    pub fn template(&self) -> Hash {
        match self {
            Spec::Known { template, .. } | Spec::Waiting { template, .. } => *template,
        }
    }
    /// Hash of the content, if all of it is known.
    pub fn hash(&self) -> Option<Hash> {
        match self {
            Spec::Known { hash, .. } => Some(*hash),
            Spec::Waiting { .. } => None,
        }
    }
    /// The content as far as it is known, where any of it is: with all of it, the content.
    pub fn so_far(&self) -> Option<&[u8]> {
        match self {
            Spec::Known { bytes, .. } => Some(bytes),
            Spec::Waiting { so_far, .. } => Some(&**so_far).filter(|bytes| !bytes.is_empty()),
        }
    }
    /// The content, if all of it is known.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Spec::Known { bytes, .. } => Some(bytes),
            Spec::Waiting { .. } => None,
        }
    }
}

/// One desired resource: what the remote changes in one step.
///
/// It has the fields of [`Declared`] as well. Of many thousand resources clones share these, until one of them is changed.
///
/// ```
/// use reconciled_provider::{Origin, PolicyId, Resource, Scope, Spec};
/// let (scope, origin) = (Scope::new("pdns", "example.com").into(), Origin { manifest: 0, line: 1 });
/// let one = Resource::new("www".into(), scope, Spec::known(b"1".to_vec()), origin, PolicyId(0));
/// let other = one.clone().with(|other| other.spec = Spec::known(b"2".to_vec()));
/// assert_eq!(one.id, other.id);
/// assert_ne!(one.spec, other.spec);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// What is declared.
    pub declared: Arc<Declared>,
    /// Where it was declared.
    pub origin: Origin,
    /// How it may be treated.
    pub policy: PolicyId,
}

/// What is declared of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Remote key within the scope.
    pub id: ResourceId,
    /// The scope it lives in.
    pub scope: Arc<Scope>,
    /// Desired content.
    pub spec: Spec,
}

impl Resource {
    /// The resource `id` of `scope`, which shall be `spec`.
    pub fn new(id: ResourceId, scope: Arc<Scope>, spec: Spec, origin: Origin, policy: PolicyId) -> Resource {
        Resource { declared: Declared { id, scope, spec }.into(), origin, policy }
    }

    /// This resource with something changed.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Resource)) -> Resource {
        change(&mut self);
        self
    }
}

impl Deref for Resource {
    type Target = Declared;
    fn deref(&self) -> &Declared {
        &self.declared
    }
}

impl DerefMut for Resource {
    fn deref_mut(&mut self) -> &mut Declared {
        Arc::make_mut(&mut self.declared)
    }
}
