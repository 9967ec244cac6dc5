//! Host configuration: the trust root.
//!
//! Reads one YAML file into [`Config`] and reports every problem with its place, not the first one only.
//! What belongs to a provider's backend stays a tree in [`ProviderEntry::rest`], for that backend to decode.
//! Nothing here reads a secret's value or reaches a network; the surroundings come in as [`Environment`].

mod commands;
mod daemon;
mod decode;
mod environment;
mod guard;
mod implied;
mod in_clear;
mod lenient;
mod locate;
mod names;
mod notify;
mod periods;
mod printed;
mod provider;
mod reach;
mod report;
mod secret_place;
mod secrets;
mod sops;
mod source;
mod telemetry;
mod trust;
mod upkeep;
mod values;
mod webhook;
mod windows;

pub use commands::Commands;
pub use daemon::{Api, Hook, OnHold, SYSTEM_SOCKET};
pub use environment::Environment;
pub use guard::{Always, GuardLimits};
pub use lenient::{Whereabouts, whereabouts};
pub use locate::{LocateError, beside, locate, state_dir};
pub use names::FOLDER;
pub use notify::{Email, Place, Receiver, Tls, Topic, Way};
pub use provider::ProviderEntry;
pub use reach::{Role, Token};
pub use report::{Forge as ReportForge, Report};
pub use secret_place::{SecretPlace, describe_secret};
pub use secrets::{DeclaredSecret, HostSecrets};
pub use sops::{SopsKey, Wanted};
pub use source::{Allow, AllowRule, ApplyMode, Approver, GitRef, OnInvalid, SourceConfig, Vars};
pub use telemetry::{LogFormat, TelemetryConfig};
pub use trust::Verify;
pub use upkeep::{Audit, Backups};
pub use values::{Percent, Period, Rate, Size, ValueError};
pub use webhook::{Forge, Webhook};

use daemon::{RawApi, RawHook};
use decode::{DecodedApart, decode_all, list};
use guard::RawGuard;
use names::{check_former, check_names, unknown_name};
use reconciled_provider::{
    Node, Problem, SourceFile, Span,
    problem::did_you_mean,
    yaml::{Limits, NodeValue, parse as parse_yaml},
};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
};
use telemetry::RawTelemetry;
use values::written;

/// The host configuration, complete and consistent.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file it came from.
    pub file: Arc<SourceFile>,
    /// Name written into ownership marks.
    pub instance: Arc<str>,
    /// Where database and mirrors are.
    pub state_dir: PathBuf,
    /// This host, for selectors and `${host.…}`.
    pub host: Host,
    /// Secrets that manifests may name.
    pub secrets: BTreeMap<Arc<str>, DeclaredSecret>,
    /// Keys that open what sops encrypted in a repository.
    pub sops: Vec<SopsKey>,
    /// Commands that manifests may name.
    pub commands: Commands,
    /// Where manifests come from, in order of precedence.
    pub sources: Vec<SourceConfig>,
    /// The provider entries.
    pub providers: Vec<ProviderEntry>,
    /// Limits for entries without their own.
    pub guard: GuardLimits,
    /// What it tells of itself, and to whom.
    pub telemetry: TelemetryConfig,
    /// Who is told when something is not well.
    pub notify: Vec<Receiver>,
    /// Copies of the state, if the daemon shall make any.
    pub backup: Option<Backups>,
    /// What becomes of the audit trail.
    pub audit: Audit,
    /// Where the daemon can be reached.
    pub api: Api,
    /// Who may ask over TCP.
    pub tokens: Vec<Token>,
    /// What a push is told.
    pub hook: Hook,
}

/// This host, as selectors and substitution see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Name.
    pub name: Arc<str>,
    /// Labels.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawConfig {
    instance: Option<String>,
    state_dir: Option<String>,
    host: Option<RawHost>,
    #[serde(rename = "secrets")]
    _secrets: DecodedApart,
    #[serde(rename = "sops")]
    _sops: DecodedApart,
    #[serde(rename = "sources")]
    _sources: DecodedApart,
    #[serde(rename = "providers")]
    _providers: DecodedApart,
    guard: Option<RawGuard>,
    telemetry: Option<RawTelemetry>,
    #[serde(rename = "commands")]
    _commands: DecodedApart,
    hook: Option<RawHook>,
    api: Option<RawApi>,
    #[serde(rename = "tokens")]
    _tokens: DecodedApart,
    #[serde(rename = "notify")]
    _notify: DecodedApart,
    audit: Option<upkeep::RawAudit>,
    backup: Option<upkeep::RawBackup>,
}

#[derive(Deserialize)]
struct RawHost {
    name: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct RawSecret {
    file: Option<String>,
    env: Option<String>,
    credential: Option<String>,
    exec: Option<Vec<String>>,
    #[serde(default, deserialize_with = "written")]
    sources: Option<Vec<String>>,
    #[serde(default, deserialize_with = "written")]
    kinds: Option<Vec<String>>,
}

/// Reads the configuration in the file at `path`.
///
/// Returns the configuration, unless a problem is an error, and all problems sorted by place.
pub fn read(path: &Path, environment: &Environment) -> (Option<Config>, Vec<Problem>) {
    let shown = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => parse(Arc::new(SourceFile::new(shown, text)), environment),
        Err(error) => {
            let problem = Problem::error(format!("read the configuration: {error}")).in_file(&shown);
            let hint = match error.kind() {
                ErrorKind::InvalidData => "it is no text; name the file of the configuration with --config",
                ErrorKind::PermissionDenied => "run as a user that may read it",
                _ => "create it, or name another file with --config",
            };
            (None, vec![problem.hint(hint)])
        }
    }
}

/// Reads the configuration in `file`, as [`read`] does.
pub fn parse(file: Arc<SourceFile>, environment: &Environment) -> (Option<Config>, Vec<Problem>) {
    let mut problems = Vec::new();
    let config = match parse_yaml(&file, Limits::default()) {
        Err(problem) => {
            problems.push(*problem);
            None
        }
        Ok(documents) => whole(documents, &file, environment, &mut problems),
    };
    problems.sort_by(|a, b| a.place.cmp(&b.place));
    Problem::hide_lines(&mut problems);
    let usable = !problems.iter().any(Problem::is_error);
    (config.filter(|_| usable), problems)
}

fn whole(
    mut documents: Vec<Node>,
    file: &Arc<SourceFile>,
    environment: &Environment,
    problems: &mut Vec<Problem>,
) -> Option<Config> {
    if let Some(second) = documents.get(1) {
        problems.push(Problem::error("a configuration is one document").at(file, second.span));
    }
    if documents.is_empty() {
        documents.push(Node { span: Span { line: 1, column: 1 }, value: NodeValue::Map(Vec::new()) });
    }
    let root = &documents[0];
    let raw = decode_all::<RawConfig>(root, file, problems);
    let guard = match raw.as_ref().and_then(|raw| raw.guard.as_ref()) {
        Some(guard) => guard.over(&GuardLimits::default()),
        None => GuardLimits::default(),
    };
    let source_nodes = list(root, "sources", file, problems);
    let is_sole = source_nodes.len() < 2;
    let sources: Vec<_> =
        source_nodes.iter().filter_map(|node| source::read(node, file, is_sole, problems)).collect();
    let mut providers: Vec<_> = list(root, "providers", file, problems)
        .iter()
        .filter_map(|node| provider::read(node, file, &guard, problems))
        .collect();
    providers.extend(implied::certificates(&providers));
    let notify: Vec<_> = list(root, "notify", file, problems)
        .iter()
        .filter_map(|node| notify::read(node, file, problems))
        .collect();
    check_names("receiver", notify.iter().map(|r| (&*r.name, r.span)), file, problems);
    let secrets = declared_secrets(root, file, problems);
    let sops = sops::read(root, &sources, file, problems);
    let commands = commands::read(root, file, problems);
    let tokens = reach::tokens(root, file, problems);
    check_names("source", sources.iter().map(|s| (&*s.name, s.span)), file, problems);
    check_names("provider", providers.iter().map(|p| (&*p.name, p.span)), file, problems);
    let former = sources.iter().map(|s| (&*s.name, s.was.as_deref(), s.span)).collect::<Vec<_>>();
    check_former("source", &former, file, problems);
    let former = providers.iter().map(|p| (&*p.name, p.was.as_deref(), p.span)).collect::<Vec<_>>();
    check_former("provider", &former, file, problems);
    check_secrets(root, &secrets, &sources, file, problems);
    check_allow(root, &sources, &providers, file, problems);
    periods::check(root, file, problems);
    in_clear::check(&providers, problems);
    let mut raw = raw?;
    let telemetry = raw.telemetry.take().unwrap_or_default().read(root, file, problems);
    let listen = raw.api.as_ref().and_then(RawApi::address);
    reach::check(root, listen, &sources, file, problems);
    let hostname: Arc<str> = environment.hostname.as_str().into();
    let host = raw.host.map_or_else(
        || Host { name: hostname.clone(), ..Host::default() },
        |host| Host {
            name: host.name.map_or_else(|| hostname.clone(), Arc::from),
            labels: host.labels.into_iter().map(|(k, v)| (k.into(), v.into())).collect(),
        },
    );
    let configured = raw.state_dir.as_deref().map(Path::new);
    let state_dir = state_dir(configured, Some(Path::new(&*file.path)), environment);
    Some(Config {
        instance: raw.instance.map_or(hostname, Arc::from),
        api: Api::of(raw.api.unwrap_or_default(), Some(Path::new(&*file.path)), &state_dir, environment),
        hook: raw.hook.unwrap_or_default().into(),
        tokens,
        state_dir,
        host,
        secrets,
        sops,
        commands,
        sources,
        providers,
        guard,
        telemetry,
        notify,
        backup: raw.backup.map(|backup| backup.read(file)),
        audit: raw.audit.map(|audit| audit.read(file)).unwrap_or_default(),
        file: file.clone(),
    })
}

fn declared_secrets(
    root: &Node,
    file: &SourceFile,
    problems: &mut Vec<Problem>,
) -> BTreeMap<Arc<str>, DeclaredSecret> {
    let mut all = BTreeMap::new();
    let Some(table) = root.get("secrets").filter(|node| !node.is_null()) else { return all };
    if !matches!(table.value, NodeValue::Map(_)) {
        let message = format!("expected a mapping under `secrets`, found {}", table.describe());
        problems.push(Problem::error(message).at(file, table.span));
    }
    for (name, node) in table.entries() {
        if !matches!(node.value, NodeValue::Map(_)) {
            // It may be the secret, which is not repeated.
            let message =
                format!("expected the place of a secret, and not the secret itself: {}", secret_place::FORMS);
            problems.push(Problem::error(message).at(file, node.span).without_line());
            continue;
        }
        let (raw, found) = node.decode::<RawSecret>(file);
        problems.extend(found.into_iter().map(Problem::without_line));
        let (Some(name), Some(raw)) = (name.as_str(), raw) else { continue };
        let place = match (&raw.file, &raw.env, &raw.credential, &raw.exec) {
            (Some(path), None, None, None) => SecretPlace::of("file", path),
            (None, Some(variable), None, None) => SecretPlace::of("env", variable),
            (None, None, Some(credential), None) => SecretPlace::of("credential", credential),
            (None, None, None, Some(argv)) => SecretPlace::of_command(argv),
            _ => None,
        };
        let Some(SecretPlace(place)) = place else {
            let problem = Problem::error(format!("secret `{name}` needs exactly one place"));
            problems.push(problem.at(file, node.span).hint("write one of file, env, credential, exec"));
            continue;
        };
        let shared = |list: Option<Vec<String>>| list.map(|l| l.into_iter().map(Arc::from).collect());
        let declared = DeclaredSecret { place, sources: shared(raw.sources), kinds: shared(raw.kinds) };
        all.insert(name.into(), declared);
    }
    all
}

fn check_secrets(
    root: &Node,
    secrets: &BTreeMap<Arc<str>, DeclaredSecret>,
    sources: &[SourceConfig],
    file: &SourceFile,
    problems: &mut Vec<Problem>,
) {
    let known: Vec<&str> = sources.iter().map(|source| &*source.name).collect();
    for (name, secret) in secrets {
        let node = root.get("secrets").and_then(|table| table.get(name));
        for source in secret.sources.iter().flatten().filter(|s| !known.contains(&&***s)) {
            let span = node.and_then(|node| node.get("sources")).map_or(root.span, |list| list.span);
            problems.push(unknown_name("source", source, &known).at(file, span));
        }
    }
}

fn check_allow(
    root: &Node,
    sources: &[SourceConfig],
    providers: &[ProviderEntry],
    file: &SourceFile,
    problems: &mut Vec<Problem>,
) {
    let known: Vec<&str> = providers.iter().map(|entry| &*entry.name).collect();
    let nodes = root.get("sources").map_or(&[][..], Node::elements);
    for source in sources {
        let Allow::Rules(rules) = &source.allow else { continue };
        let node = nodes.iter().find(|node| node.span == source.span).and_then(|node| node.get("allow"));
        for (index, rule) in rules.iter().enumerate() {
            let hits = known.iter().any(|name| reconciled_provider::address::glob(&rule.provider, name));
            if !hits {
                let place = node.and_then(|list| list.elements().get(index)).map_or(source.span, |n| n.span);
                problems.push(unknown_name("provider", &rule.provider, &known).at(file, place));
            }
        }
    }
}

/// What to write instead of the name of a receiver that is not there.
pub fn did_you_mean_receiver(config: &Config, name: &str) -> String {
    let known: Vec<&str> = config.notify.iter().map(|receiver| &*receiver.name).collect();
    match did_you_mean(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "write one under `notify` of the configuration".to_owned(),
        None => format!("known: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests;
