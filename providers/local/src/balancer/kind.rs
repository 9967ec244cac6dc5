//! The kind `LoadBalancer`, a balancer in canonical bytes, and what of it is in those of a deployment.

use crate::{compare::by_shown, systemd::Why};
use reconciled_provider::{At, Delta, Observed, Resource};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// Value of `kind`.
pub const BALANCER: &str = "LoadBalancer";

/// A web server or proxy in front of deployments.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct BalancerSpec {
    /// The provider entry. Default: the only one that knows load balancers.
    #[serde(rename = "provider")]
    pub _provider: Option<String>,
    /// Several provider entries that all get it.
    #[serde(rename = "providers")]
    pub _providers: Option<Vec<String>>,
    /// The program whose configuration is written.
    #[serde(rename = "type")]
    pub program: Program,
    /// Where the configuration is: a file below one of `paths` of the provider entry. All of it is written.
    pub path: At<String>,
    /// Labels (`metadata.labels`) that a deployment must have to be a member.
    pub selector: BTreeMap<String, At<String>>,
    /// The address or port that is listened at: `8080`, `127.0.0.1:8080`.
    pub listen: At<String>,
    /// The address of an instance; `%i` is its number. Default: `127.0.0.1:%i`.
    pub member: Option<At<String>>,
    /// The unit that serves it, which is reloaded when the configuration changed: `nginx.service`.
    pub reload: At<String>,
    /// Name of a command of the host configuration that must accept the new configuration before it takes the place of the old.
    pub validate: Option<At<String>>,
    /// Whom the processes of HAProxy that answer requests run as, once its ports are open: `USER` or `USER:GROUP`, and `none` where
    /// the unit starts it as another user than root. Default: `haproxy:haproxy`. nginx has a user of its own.
    pub run_as: Option<At<String>>,
    /// How long an instance gets no further requests before it is restarted by a rolling update, or stopped. Default: 5.
    pub drain_seconds: Option<At<u32>>,
}

/// A program that balances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Program {
    /// nginx, for HTTP.
    Nginx,
    /// HAProxy, for HTTP.
    Haproxy,
}

/// What a balancer shall be, or what was seen of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Balancer {
    /// The file, with nobody drained.
    pub(crate) balancer: String,
    pub(crate) reload: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) validate: Option<Arc<str>>,
    /// For how many seconds an instance that is left out gets its answers out, before it goes.
    #[serde(default)]
    pub(crate) drain: u32,
    /// Seen: the unit was not told of this file, as far as anybody knows.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub(crate) is_unread: bool,
    /// Seen: who may do what with the file, by what a plan calls it, where that is another than should be.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) access: Option<(String, String)>,
    /// Seen: it cannot be managed, and why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) refused: Option<Why>,
}

impl Balancer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
    pub(crate) fn decode(bytes: &[u8]) -> Option<Balancer> {
        serde_json::from_slice(bytes).ok()
    }
}

/// Where a deployment is served from, as far as a rolling update has to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Front {
    pub(crate) path: String,
    pub(crate) reload: String,
    pub(crate) drain: u32,
}

impl Front {
    /// How long an instance that it leaves out gets its answers out, in milliseconds.
    pub(crate) fn drain_millis(&self) -> u64 {
        drain_millis(self.drain)
    }
}

/// The same of so many seconds. A program that is told to read its file does so a moment later.
pub(super) fn drain_millis(seconds: u32) -> u64 {
    u64::from(seconds.max(1)) * 1_000
}

/// How long an instance that gets no further requests is left, in seconds.
pub(super) fn drain_seconds(drain: &Option<At<u32>>) -> u32 {
    drain.as_ref().map_or(5, |at| at.value)
}

/// Most milliseconds that an instance is left: so long a rolling update or a smaller number of instances may stand still.
pub(crate) const LONGEST: u64 = 3_600_000;

/// Canonical bytes for people; none where they are of another form.
pub(crate) fn show(bytes: &[u8]) -> Option<Vec<(Arc<str>, String)>> {
    let balancer = Balancer::decode(bytes)?;
    let mut out = vec![("content".into(), balancer.balancer), ("reload".into(), balancer.reload)];
    out.extend(balancer.validate.map(|name| ("validate".into(), name.to_string())));
    let served = balancer.is_unread.then(|| ("served".into(), "another file than the one in place".into()));
    out.extend(served);
    out.extend(balancer.access.map(|(what, text)| (what.into(), text)));
    out.extend(balancer.refused.map(|why| ("refused".into(), why.text)));
    Some(out)
}

/// Why a balancer that was seen cannot be managed, if it cannot.
pub(crate) fn refused(bytes: &[u8]) -> Option<Why> {
    Balancer::decode(bytes)?.refused
}

/// How `observed` differs from `desired`, if it does.
pub(crate) fn compare(desired: &Resource, observed: &Observed) -> Option<Delta> {
    by_shown(desired, observed, |bytes| show(bytes).unwrap_or_default())
}
