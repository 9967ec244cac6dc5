//! Which deployments a balancer selects by their labels, and so which balancers a deployment is behind. Pure.

use super::kind::{BALANCER, BalancerSpec, Front, drain_seconds};
use crate::normalize::unknown;
use reconciled_provider::{At, Inputs, Manifest, Reference};

/// Whether a balancer has this deployment among its members.
pub(super) fn is_selected(balancer: &BalancerSpec, deployment: &Manifest) -> bool {
    let has = |(key, at): (&String, &At<String>)| {
        deployment.labels.get(&**key).is_some_and(|value| **value == *at.value)
    };
    !balancer.selector.is_empty() && balancer.selector.iter().all(has)
}

/// The balancers that a deployment is behind, and what has to be known of them first.
pub(crate) fn of_deployment(manifest: &Manifest, inputs: &dyn Inputs) -> (Vec<Front>, Vec<Reference>) {
    let balancers = inputs
        .siblings(BALANCER)
        .into_iter()
        .filter(|other| other.is_for(inputs.entry(), inputs.is_sole()))
        .filter_map(|other| Some((other, other.spec::<BalancerSpec>().0?)))
        .filter(|(_, spec)| is_selected(spec, manifest));
    let (mut fronts, mut waits_for) = (Vec::new(), Vec::new());
    for (other, spec) in balancers {
        waits_for.extend(unknown(&other.spec));
        fronts.push(Front {
            path: spec.path.value,
            reload: spec.reload.value,
            drain: drain_seconds(&spec.drain_seconds),
        });
    }
    fronts.sort_by(|a, b| a.path.cmp(&b.path));
    (fronts, waits_for)
}
