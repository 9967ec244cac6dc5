//! The kind `Unit`, and a unit in canonical bytes: JSON, of what is declared of it.

use crate::{compare::by_shown, path::FilePath, state::Refusal};
use reconciled_provider::{
    At, Cx, Delta, Error, ErrorKind, FieldChange, Observed, Resource, ResourceId, is_ignored,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Value of `kind`.
pub const UNIT: &str = "Unit";

/// A unit of systemd. What is left out is not managed.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct UnitSpec {
    /// The provider entry. Default: the only one that knows units.
    #[serde(rename = "provider")]
    pub _provider: Option<String>,
    /// Several provider entries that all get it.
    #[serde(rename = "providers")]
    pub _providers: Option<Vec<String>>,
    /// The unit file, exactly as written: `/etc/systemd/system/NAME`. Without it, the unit is that of a package.
    #[schemars(extend("x-reconciled-verbatim" = true))]
    pub content: Option<At<String>>,
    /// Drop-ins by name, exactly as written: `limits` is `/etc/systemd/system/NAME.d/limits.conf`.
    #[serde(default)]
    #[schemars(extend("x-reconciled-verbatim" = true))]
    pub drop_ins: BTreeMap<String, At<String>>,
    /// Unit file and drop-ins are templates of minijinja: `{{ vars.x }}`, `{{ host.name }}`, `{{ ref('ADDRESS:path') }}`. What is not
    /// defined is an error. Default: false.
    #[serde(default, rename = "template")]
    pub _template: bool,
    /// Whether it is started at boot.
    pub enabled: Option<At<bool>>,
    /// Whether nobody may start it.
    pub masked: Option<At<bool>>,
    /// Whether it runs.
    pub state: Option<RunState>,
    /// What happens to it, while it runs, when its files change in a way that it would notice. Default: `restart`.
    #[serde(default)]
    pub on_change: OnChange,
    /// Files that the service reads, by their paths: when one changes while it runs, it is told to read its configuration, and
    /// restarted where it cannot do that.
    #[serde(default)]
    pub reload_on: Vec<At<String>>,
    /// Files by their paths: when one changes while it runs, it is restarted.
    #[serde(default)]
    pub restart_on: Vec<At<String>>,
}

/// Whether a unit runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// It is started, and started again when it is found stopped.
    Running,
    /// It is stopped.
    Stopped,
}

/// What a change of its files means for a unit that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnChange {
    /// It is restarted.
    #[default]
    Restart,
    /// It is told to read its configuration, and restarted where it cannot do that.
    Reload,
    /// It is stopped as it was started, before its files change, and started after that.
    #[serde(rename = "stop-start")]
    StopStart,
    /// Nothing: it runs on as it was started.
    None,
}

/// What a unit shall be, or what was seen of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Unit {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) content: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub(crate) drop_ins: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) masked: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) state: Option<RunState>,
    #[serde(default)]
    pub(crate) on_change: OnChange,
    /// Files that it reads.
    #[serde(skip_serializing_if = "Reads::is_empty", default)]
    pub(crate) reads: Reads,
    /// How many runs are remembered, where the unit is the work of a job.
    #[serde(skip_serializing_if = "HistoryLimits::is_default", default)]
    pub(crate) history: HistoryLimits,
    /// Seen: what somebody did besides to what is declared, by what a plan calls it: drop-ins by path, and who may do what
    /// with a file of ours.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub(crate) beside: BTreeMap<String, String>,
    /// Seen: it runs as files were that are no longer there, or systemd has not read those that are.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub(crate) is_stale: bool,
    /// Seen: it cannot be managed, and why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) refused: Option<Why>,
}

/// What a change of a file means for a service that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Then {
    /// It is told to read it, and restarted where it cannot.
    Reload,
    /// It is restarted.
    Restart,
}

/// A file that a service reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Read {
    pub(crate) then: Then,
    /// What is declared of it in the same source: a change of that is a change of the unit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) declared: Option<String>,
    /// Seen: the service has not read what is in place.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub(crate) is_newer: bool,
}

/// The files that a service reads, by path.
pub(crate) type Reads = BTreeMap<String, Read>;

/// How many runs of a job are remembered that went well, and that failed: as many as Kubernetes keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HistoryLimits {
    pub(crate) successful: u32,
    pub(crate) failed: u32,
}

impl Default for HistoryLimits {
    fn default() -> HistoryLimits {
        HistoryLimits { successful: 3, failed: 1 }
    }
}

impl HistoryLimits {
    pub(crate) fn is_default(&self) -> bool {
        *self == HistoryLimits::default()
    }
}

/// Why something that was seen cannot be managed, and what a person can do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Why {
    /// What follows from it.
    #[serde(with = "crate::state::kind")]
    pub(crate) kind: ErrorKind,
    pub(crate) text: String,
    pub(crate) hint: String,
}

impl Why {
    /// One that only a person can end.
    pub(crate) fn new(text: impl Into<String>, hint: &str) -> Why {
        Why { kind: ErrorKind::Invalid, text: text.into(), hint: hint.into() }
    }
    /// One that may be over by itself, as when somebody installs what is missing.
    pub(crate) fn for_now(text: impl Into<String>, hint: &str) -> Why {
        Why { kind: ErrorKind::Unavailable, ..Why::new(text, hint) }
    }
    /// What was said where it could not be looked at; `hint` where that says nothing to do.
    pub(crate) fn of(refusal: &Refusal, hint: &str) -> Why {
        let hint = refusal.hint.clone().unwrap_or_else(|| hint.into());
        Why { kind: refusal.kind, text: refusal.message.clone(), hint }
    }
}

impl From<Why> for Error {
    fn from(why: Why) -> Error {
        Error::new(why.kind, why.text).hint(why.hint)
    }
}

impl Unit {
    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
    pub(crate) fn decode(bytes: &[u8]) -> Option<Unit> {
        serde_json::from_slice(bytes).ok()
    }

    /// The paths of the files that it reads, in order.
    pub(crate) fn read_paths(&self) -> Vec<FilePath> {
        self.reads.keys().filter_map(|path| FilePath::parse(path).ok()).collect()
    }

    /// Fields and values a person can read, in a fixed order.
    fn fields(&self) -> Vec<(Arc<str>, String)> {
        let mut out: Vec<(Arc<str>, String)> = Vec::new();
        out.extend(self.content.iter().map(|text| ("content".into(), text.clone())));
        // A plan shows a long text by its first line, and these are what a timer is about.
        let times = self
            .content
            .iter()
            .flat_map(|text| text.lines())
            .filter_map(|line| line.strip_prefix("OnCalendar="));
        let times: Vec<&str> = times.collect();
        out.extend((!times.is_empty()).then(|| ("times".into(), times.join("; "))));
        out.extend(self.drop_ins.iter().map(|(name, text)| (format!("dropIns.{name}").into(), text.clone())));
        out.extend(self.beside.iter().map(|(path, text)| (path.as_str().into(), text.clone())));
        out.extend(self.enabled.map(|is| ("enabled".into(), is.to_string())));
        out.extend(self.masked.map(|is| ("masked".into(), is.to_string())));
        let word = |state| if state == RunState::Running { "running" } else { "stopped" };
        out.extend(self.state.map(|state| ("state".into(), word(state).to_owned())));
        for (path, read) in &self.reads {
            let word = match read.then {
                Then::Reload => "reloadOn",
                Then::Restart => "restartOn",
            };
            let which = if read.is_newer { "read before it changed" } else { "read as it is" };
            out.push((format!("{word} {path}").into(), which.to_owned()));
        }
        let runs = self.is_stale.then(|| ("definition".into(), "other files than those in place".to_owned()));
        out.extend(runs);
        out.extend(self.refused.iter().map(|why| ("refused".into(), why.text.clone())));
        out
    }
}

/// True for what stands for a text: no unit begins so.
pub(crate) fn is_closed(text: &str) -> bool {
    text.starts_with('(') && text.contains(" bytes, not shown, mark ")
}

/// What stands for something that not everyone may read, or that is no text.
pub(crate) fn closed(cx: &Cx, octets: &[u8]) -> String {
    let mark: String = cx.secrets.mark(octets).0.to_string().chars().take(16).collect();
    format!("({} bytes, not shown, mark {mark})", octets.len())
}

/// Canonical bytes for people.
pub(crate) fn show(bytes: &[u8]) -> Vec<(Arc<str>, String)> {
    Unit::decode(bytes).map(|unit| unit.fields()).unwrap_or_default()
}

/// The canonical bytes `desired` with what is at `ignored` paths as in `observed`: also drop-ins that somebody else put beside
/// it, and who may do what with a file.
///
/// Errors: a file that is to be left is none, or may not be read, so that it could not be written as it is.
pub(crate) fn keep(
    id: &ResourceId,
    desired: &[u8],
    observed: &[u8],
    ignored: &[Arc<str>],
) -> Result<Vec<u8>, Error> {
    let (Some(mut unit), Some(seen)) = (Unit::decode(desired), Unit::decode(observed)) else {
        return Ok(desired.to_vec());
    };
    let is_left = |path: &str| is_ignored(ignored, path);
    if is_left("content") && unit.content != seen.content {
        unit.content = seen.content.map(|text| left(id, "content", text)).transpose()?;
    }
    let names: BTreeSet<&String> = unit.drop_ins.keys().chain(seen.drop_ins.keys()).collect();
    let names: Vec<String> = names.into_iter().cloned().collect();
    for name in names {
        let path = format!("dropIns.{name}");
        match seen.drop_ins.get(&name) {
            _ if !is_left(&path) || seen.drop_ins.get(&name) == unit.drop_ins.get(&name) => {}
            Some(text) => drop(unit.drop_ins.insert(name, left(id, &path, text.clone())?)),
            None => drop(unit.drop_ins.remove(&name)),
        }
    }
    if is_left("enabled") {
        unit.enabled = seen.enabled;
    }
    if is_left("masked") {
        unit.masked = seen.masked;
    }
    if is_left("state") {
        unit.state = seen.state;
    }
    unit.beside = seen.beside.into_iter().filter(|(path, _)| is_left(path)).collect();
    Ok(unit.encode())
}

/// The text of a file that is to be written as it is.
fn left(id: &ResourceId, path: &str, text: String) -> Result<String, Error> {
    if !text.is_empty() && !is_closed(&text) {
        return Ok(text);
    }
    let why = if text.is_empty() { "is no file with a text" } else { "is no text that everyone may read" };
    Err(Error::invalid(format!(
        "`{path}` of {id} is ignored, and {why}: it cannot be left while the rest is written"
    ))
    .hint("make it what it should be by hand, or take the path out of `reconciled/ignore`"))
}

/// How `observed` differs from `desired`, if it does.
pub(crate) fn compare(desired: &Resource, observed: &Observed) -> Option<Delta> {
    let mut delta = by_shown(desired, observed, show)?;
    if delta.fields.is_empty() {
        delta.fields.push(FieldChange::text("onChange", None, None));
    }
    Some(delta)
}
