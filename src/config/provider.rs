//! One entry under `providers:`: the keys every entry has, and the rest for the backend.

use super::{
    decode::decode_all,
    guard::{GuardLimits, RawGuard},
    values::{Period, Rate},
};
use reconciled_provider::{
    EntryPolicy, Node, Problem, SourceFile, Span, problem::did_you_mean, yaml::NodeValue,
};
use serde::Deserialize;
use std::{sync::Arc, time::Duration};

/// One provider entry. `rest` holds what only its backend understands; its decoder reports unknown keys.
#[derive(Clone, Debug)]
pub struct ProviderEntry {
    /// Name manifests use.
    pub name: Arc<str>,
    /// Value of `type`.
    pub type_name: Arc<str>,
    /// What may be written.
    pub policy: EntryPolicy,
    /// Limits of this entry, already completed from the limits of the file; none when it has none of its own.
    pub guard: Option<GuardLimits>,
    /// Most calls per time.
    pub rate: Option<Rate>,
    /// Limit of every read.
    pub timeout: Duration,
    /// The same where the entry says it itself: what is slow by nature has another default.
    pub own_timeout: Option<Duration>,
    /// How often the remote is probed.
    pub resync: Duration,
    /// Former name, when renamed.
    pub was: Option<Arc<str>>,
    /// Where the entry begins.
    pub span: Span,
    /// The mapping without the keys above.
    pub rest: Node,
    /// The file the entry is in, for problems in `rest`.
    pub file: Arc<SourceFile>,
}

#[derive(Deserialize)]
struct RawProvider {
    name: String,
    r#type: String,
    #[serde(default)]
    policy: EntryPolicy,
    guard: Option<RawGuard>,
    rate: Option<Rate>,
    timeout: Option<Period>,
    resync: Option<Period>,
    was: Option<String>,
}

impl ProviderEntry {
    /// The keys that every entry may have.
    pub const COMMON: [&str; 8] = ["name", "type", "policy", "guard", "rate", "timeout", "resync", "was"];
}

const TIMEOUT: Duration = Duration::from_secs(30);
const RESYNC: Duration = Duration::from_secs(600);

/// Reads one entry; none when a common key is wrong.
pub(super) fn read(
    node: &Node,
    file: &Arc<SourceFile>,
    limits: &GuardLimits,
    problems: &mut Vec<Problem>,
) -> Option<ProviderEntry> {
    let NodeValue::Map(entries) = &node.value else {
        problems.push(Problem::error("expected a mapping with `name` and `type`").at(file, node.span));
        return None;
    };
    let is_common = |key: &Node| key.as_str().is_some_and(|word| ProviderEntry::COMMON.contains(&word));
    let (common, rest): (Vec<_>, Vec<_>) = entries.iter().cloned().partition(|(key, _)| is_common(key));
    let part = |entries| Node { span: node.span, value: NodeValue::Map(entries) };
    let known = problems.len();
    let raw = decode_all::<RawProvider>(&part(common), file, problems);
    for key in ["name", "type"] {
        let missing = format!("field `{key}` is missing");
        let Some(problem) = problems[known..].iter_mut().find(|problem| problem.message == missing) else {
            continue;
        };
        // It is there, under a word that would be taken for one of the backend's.
        let mut words = rest.iter().filter_map(|(node, _)| Some((node.as_str()?, node.span)));
        if let Some((word, span)) = words.find(|(word, _)| did_you_mean(word, [key]).is_some()) {
            let told = Problem::error(format!("unknown field `{word}`")).at(file, span);
            *problem = told.hint(format!("did you mean `{key}`?"));
        }
    }
    let raw = raw?;
    Some(ProviderEntry {
        name: raw.name.into(),
        type_name: raw.r#type.into(),
        policy: raw.policy,
        guard: raw.guard.map(|guard| guard.over(limits)),
        rate: raw.rate,
        timeout: raw.timeout.map_or(TIMEOUT, |period| period.0),
        own_timeout: raw.timeout.map(|period| period.0),
        resync: raw.resync.map_or(RESYNC, |period| period.0),
        was: raw.was.map(Arc::from),
        span: node.span,
        rest: part(rest),
        file: file.clone(),
    })
}
