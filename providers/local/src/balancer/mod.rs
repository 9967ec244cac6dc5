//! Load balancers: the configuration of an nginx or a HAProxy, made from the deployments that a selector chooses.
//!
//! Members are known from manifests alone, so a balancer is a file with a unit that reads it. What moves is who is drained:
//! a rolling update marks the lines of the instances that it is about to restart (`render`), and has the unit read the
//! file again, before and after. Those that come besides have lines as well, at rest until they are marked.
//!
//! Invariant: only a rolling update that is on its way marks lines. A mark that nobody can account for is drift.

mod apply;
mod kind;
mod memory;
mod normalize;
mod observe;
mod render;
mod selector;

pub(crate) use apply::{Drained, apply, drain, release};
pub use kind::{BALANCER, BalancerSpec, Program};
pub(crate) use kind::{Front, LONGEST, compare, refused, show};
pub(crate) use memory::left;
pub(crate) use normalize::{normalize, path_of};
pub(crate) use observe::{members, names, observed};
pub(crate) use selector::of_deployment;

/// True when a resource of a deployment's scope is a balancer: its id is the path of its file.
pub(crate) fn is_balancer(id: &str) -> bool {
    id.starts_with('/')
}
