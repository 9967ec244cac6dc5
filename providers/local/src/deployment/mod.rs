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
mod normalize;
mod observe;
mod rollout;
mod turn;

pub(crate) use apply::apply;
pub use kind::{CheckSpec, DEPLOYMENT, DeploymentSpec, StrategySpec};
pub(crate) use kind::{compare, keep, show};
pub(crate) use memory::millis;
pub(crate) use normalize::{normalize, numbers_of};
pub(crate) use observe::{diff, health, observe};

/// The name of the scope that all deployments of a host are in.
pub const DEPLOYMENTS: &str = "deployments";

/// The template of the deployment called `name`.
pub(crate) fn template(name: &str) -> String {
    format!("{name}@.service")
}

/// An instance of the deployment called `name`.
pub(crate) fn instance(name: &str, number: u32) -> String {
    format!("{name}@{number}.service")
}

/// The deployment that a unit belongs to by its name, and which instance it is; none for the template.
pub(crate) fn parts(unit: &str) -> Option<(&str, Option<u32>)> {
    let (name, number) = unit.strip_suffix(".service")?.split_once('@')?;
    match number {
        "" => Some((name, None)),
        number => {
            let parsed: u32 = number.parse().ok()?;
            // `web@01.service` is another unit than `web@1.service`.
            (parsed.to_string() == number).then_some((name, Some(parsed)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_says_by_its_name_which_deployment_it_is_of() {
        assert_eq!(parts("web@.service"), Some(("web", None)));
        assert_eq!(parts("web@12.service"), Some(("web", Some(12))));
        assert_eq!(parts("web@01.service"), None);
        assert_eq!((parts("web.service"), parts("web@1.timer")), (None, None));
    }
}
