//! The kind `Deployment`, and its two resources in canonical bytes: JSON with the word of the form in front.

use crate::{
    balancer::Front,
    compare::by_shown,
    hands::Check,
    systemd::{RunState, Why},
};
use reconciled_provider::{At, Delta, Hash, Observed, Resource, is_ignored};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// Value of `kind`.
pub const DEPLOYMENT: &str = "Deployment";

/// Instances of one service, brought to a new revision a few at a time.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct DeploymentSpec {
    /// The provider entry. Default: the only one that knows deployments.
    #[serde(rename = "provider")]
    pub _provider: Option<String>,
    /// Several provider entries that all get it.
    #[serde(rename = "providers")]
    pub _providers: Option<Vec<String>>,
    /// The template unit, exactly as written: `/etc/systemd/system/NAME@.service`. `%i` is the number of the instance.
    #[schemars(extend("x-reconciled-verbatim" = true))]
    pub content: At<String>,
    /// The text is a template of minijinja: `{{ vars.x }}`, `{{ host.name }}`, `{{ ref('ADDRESS:path') }}`. What is not
    /// defined is an error. Default: false.
    #[serde(default, rename = "template")]
    pub _template: bool,
    /// How many instances run. Default: 1.
    pub replicas: Option<At<u32>>,
    /// Number of the first instance; the others follow. With `8001`, `%i` is a port. Default: 1.
    pub first_instance: Option<At<u32>>,
    /// Whether instances are started at boot. Default: true where the template has an `[Install]` section.
    pub enabled: Option<At<bool>>,
    /// How a new revision is brought to the instances.
    #[serde(default)]
    pub strategy: StrategySpec,
    /// How long an instance must have been available without a break before the next ones follow. Default: 1,
    /// so that what dies at once is not taken for well.
    pub min_ready_seconds: Option<At<u32>>,
    /// How long the instances of one step may take to become available, before everything goes back. Default: 600.
    pub progress_deadline_seconds: Option<At<u32>>,
    /// How many earlier revisions are remembered, with how they ended. Default: 10.
    pub revision_history_limit: Option<At<u32>>,
    /// What must answer for an instance to be available, besides that its unit is active. `%i` is its number.
    #[serde(default)]
    pub health: Vec<At<CheckSpec>>,
    /// Files that the service reads, by their paths, each declared by a `File` of the same source: another content of one is
    /// another revision.
    #[serde(default)]
    pub restart_on: Vec<At<String>>,
}

/// How a new revision is brought to the instances of a deployment.
#[derive(Debug, Default, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct StrategySpec {
    /// How many instances may be unavailable, as a number or in percent of `replicas`, rounded down. Default: 1, or 0 where
    /// `maxSurge` is more than that.
    pub max_unavailable: Option<At<String>>,
    /// How many instances more than `replicas` may run meanwhile, as a number or in percent, rounded up. Default: 0.
    pub max_surge: Option<At<String>>,
    /// Instances that get a new revision first, and are watched before the others follow. Default: none.
    pub canary: Option<At<CanarySpec>>,
}

/// Instances that try a new revision before the others.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct CanarySpec {
    /// How many, fewer than `replicas`. Default: 1.
    pub instances: Option<At<u32>>,
    /// How long all of them must have been available without a break before the others follow. Default: 60.
    pub seconds: Option<At<u32>>,
}

/// What must answer for an instance to be available: one of the three.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct CheckSpec {
    /// A URL that must answer with a status below 400 within two seconds: `http://127.0.0.1:%i/healthz`.
    pub http: Option<String>,
    /// An address that must accept a connection within two seconds: `127.0.0.1:%i`.
    pub tcp: Option<String>,
    /// Name of a command of the host configuration that must end well; `{unit}` and `{instance}` in it are filled in.
    pub command: Option<String>,
}

/// What one of the two resources shall be, or what was seen of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Declared {
    Deployment(Deployment),
    Instance(Instance),
}

/// The template and its rolling update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Deployment {
    pub(crate) content: String,
    pub(crate) replicas: u32,
    pub(crate) first: u32,
    pub(crate) max_unavailable: u32,
    pub(crate) max_surge: u32,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) canary: Option<Canary>,
    pub(crate) min_ready: u32,
    pub(crate) deadline: u32,
    pub(crate) history: u32,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) checks: Vec<Check>,
    /// The balancers it is behind.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) fronts: Vec<Front>,
    /// Seen: what somebody did besides to what is declared, by what a plan calls it: drop-ins of the template or an instance by
    /// path, and who may do what with the template.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub(crate) beside: BTreeMap<String, String>,
    /// Seen: instances that run as another revision says.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) stale: Vec<u32>,
    /// Seen: this revision was tried, and why it was taken back.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) refused: Option<String>,
    /// Seen: it cannot be managed, and why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) closed: Option<Why>,
}

/// What stands of a deployment that nobody declares any longer.
pub(super) fn undeclared(content: String) -> Deployment {
    Deployment {
        content,
        replicas: 0,
        first: 1,
        max_unavailable: 0,
        max_surge: 0,
        canary: None,
        min_ready: 0,
        deadline: 0,
        history: 0,
        checks: Vec::new(),
        fronts: Vec::new(),
        beside: BTreeMap::new(),
        stale: Vec::new(),
        refused: None,
        closed: None,
    }
}

/// How many instances try a new revision, and for how many seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Canary {
    pub(crate) instances: u32,
    pub(crate) seconds: u32,
}

/// One instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Instance {
    pub(crate) state: RunState,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) enabled: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) checks: Vec<Check>,
    /// Seen: it cannot be managed, and why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) closed: Option<Why>,
}

impl Declared {
    /// Why what was seen cannot be managed, if so.
    pub(crate) fn closed(self) -> Option<Why> {
        match self {
            Declared::Deployment(deployment) => deployment.closed,
            Declared::Instance(instance) => instance.closed,
        }
    }
    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
    pub(crate) fn decode(bytes: &[u8]) -> Option<Declared> {
        serde_json::from_slice(bytes).ok()
    }

    /// Fields and values a person can read, in a fixed order.
    fn fields(&self) -> Vec<(Arc<str>, String)> {
        let mut out: Vec<(Arc<str>, String)> = Vec::new();
        let mut field = |name: &str, value: String| out.push((name.into(), value));
        match self {
            Declared::Deployment(deployment) => {
                field("content", deployment.content.clone());
                // Of one that nobody declares any longer there are none: whatever is declared has one of the two.
                if deployment.max_unavailable > 0 || deployment.max_surge > 0 {
                    field("replicas", deployment.replicas.to_string());
                    field("strategy.maxUnavailable", deployment.max_unavailable.to_string());
                    field("strategy.maxSurge", deployment.max_surge.to_string());
                }
                if let Some(Canary { instances, seconds }) = deployment.canary {
                    field("strategy.canary", format!("{instances} for {seconds} s"));
                }
                if !deployment.checks.is_empty() {
                    let checks: Vec<String> = deployment.checks.iter().map(said).collect();
                    field("health", checks.join(", "));
                }
                deployment.beside.iter().for_each(|(path, text)| field(path, text.clone()));
                if !deployment.stale.is_empty() {
                    let numbers: Vec<String> = deployment.stale.iter().map(u32::to_string).collect();
                    field("instances", format!("{} run as another revision says", numbers.join(", ")));
                }
                deployment.refused.iter().for_each(|why| field("refused", why.clone()));
                deployment.closed.iter().for_each(|why| field("refused", why.text.clone()));
            }
            Declared::Instance(instance) => {
                let is_running = instance.state == RunState::Running;
                field("state", if is_running { "running" } else { "stopped" }.into());
                instance.enabled.iter().for_each(|is| field("enabled", is.to_string()));
                instance.closed.iter().for_each(|why| field("refused", why.text.clone()));
            }
        }
        out
    }
}

/// A check as a manifest has it.
fn said(check: &Check) -> String {
    match check {
        Check::Http(url) => format!("http {url}"),
        Check::Tcp(address) => format!("tcp {address}"),
        Check::Command(name) => format!("command {name}"),
    }
}

impl Deployment {
    /// Numbers of the instances that are declared.
    pub(crate) fn range(&self) -> std::ops::Range<u32> {
        self.first..self.first.saturating_add(self.replicas)
    }
    /// Numbers of the instances that may run besides while a revision is brought in.
    pub(crate) fn surge(&self) -> std::ops::Range<u32> {
        let end = self.range().end;
        end..end.saturating_add(self.max_surge)
    }
    /// How many instances that serve a rolling update leaves. Behind a balancer it is never without one, unless there is no more
    /// than one.
    pub(crate) fn floor(&self) -> u32 {
        let floor = self.replicas.saturating_sub(self.max_unavailable);
        if self.fronts.is_empty() || self.replicas < 2 { floor } else { floor.max(1) }
    }
    /// How long an instance gets its answers out once no balancer sends it requests any more, in milliseconds.
    pub(crate) fn drain_millis(&self) -> u64 {
        self.fronts.iter().map(Front::drain_millis).max().unwrap_or(0)
    }
    /// What is tried: a revision that was taken back is tried again once any of this is another.
    pub(crate) fn revision(&self) -> String {
        let tried = (&self.content, &self.checks, self.min_ready, self.deadline);
        Hash::of(format!("{tried:?}").as_bytes()).to_string()
    }
}

/// Canonical bytes for people; none where they are of another form.
pub(crate) fn show(bytes: &[u8]) -> Option<Vec<(Arc<str>, String)>> {
    Declared::decode(bytes).map(|declared| declared.fields())
}

/// The canonical bytes `desired` with what is at `ignored` paths as in `observed`. What instances are started from, how many
/// there are, and the file of a balancer are as declared, also where they are ignored: that they are written is in the plan.
pub(crate) fn keep(desired: &[u8], observed: &[u8], ignored: &[Arc<str>]) -> Vec<u8> {
    let is_left = |path: &str| is_ignored(ignored, path);
    match (Declared::decode(desired), Declared::decode(observed)) {
        (Some(Declared::Deployment(wanted)), Some(Declared::Deployment(seen))) => {
            let beside = seen.beside.into_iter().filter(|(path, _)| is_left(path)).collect();
            Declared::Deployment(Deployment { beside, ..wanted }).encode()
        }
        (Some(Declared::Instance(mut wanted)), Some(Declared::Instance(seen))) => {
            if is_left("state") {
                wanted.state = seen.state;
            }
            if is_left("enabled") {
                wanted.enabled = seen.enabled;
            }
            Declared::Instance(wanted).encode()
        }
        _ => desired.to_vec(),
    }
}

/// How `observed` differs from `desired`, if it does.
pub(crate) fn compare(desired: &Resource, observed: &Observed) -> Option<Delta> {
    by_shown(desired, observed, |bytes| show(bytes).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_declares_any_longer_is_shown_without_numbers_that_nobody_wrote() {
        let of = |max_unavailable| Deployment { max_unavailable, ..undeclared("[Service]\n".into()) };
        let shown = |deployment| -> Vec<String> {
            let fields = show(&Declared::Deployment(deployment).encode()).unwrap();
            fields.into_iter().map(|(path, _)| path.to_string()).collect()
        };
        assert_eq!(shown(of(0)), ["content"]);
        assert_eq!(shown(of(1)), ["content", "replicas", "strategy.maxUnavailable", "strategy.maxSurge"]);
    }
}
