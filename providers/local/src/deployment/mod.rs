//! Deployments: instances of a template unit, kept in number and brought to a new revision a few at a time.
//!
//! `Deployment web` is the template `web@.service` and its instances `web@1.service`, `web@2.service` and so on, all in the
//! scope `deployments`: a resource for the template, which also leads a rolling update, and one for each instance, so that
//! what is killed or stopped is started by itself, whatever the others are at.
//!
//! Invariant: the template holds the revision that is left until every instance runs the new one. An instance that was
//! brought on has the new revision in a file of its own name, which outranks the template. So what an instance is started
//! with is on the disk, whoever starts it, and going back is taking those files away.

mod apply;
mod coming;
mod instance;
mod jobs;
mod kind;
mod leaving;
mod look;
mod memory;
mod names;
mod normalize;
mod observe;
mod rollout;
mod turn;

pub(crate) use apply::apply;
pub use kind::{CheckSpec, DEPLOYMENT, DeploymentSpec, StrategySpec};
pub(crate) use kind::{compare, keep, show};
pub(crate) use memory::millis;
pub(crate) use names::{instance, parts, template};
pub(crate) use normalize::{normalize, numbers_of};
pub(crate) use observe::{diff, health, observe};

/// The name of the scope that all deployments of a host are in.
pub const DEPLOYMENTS: &str = "deployments";
