//! One entry under `sources:`: where manifests come from and what they may touch.

use super::{
    SecretPlace,
    decode::{DecodedApart, OneOrMore, decode_all},
    locate::beside,
    report::{RawReport, Report},
    trust::{self, Verify},
    values::{Period, Size, from_text, written},
    webhook::{RawWebhook, Webhook},
    windows,
};
use crate::{
    source::{Reference, SourceError},
    window::Windows,
};
use ignore::gitignore::GitignoreBuilder;
use reconciled_provider::{
    Drift, Node, Pattern, Problem, SecretRef, SourceFile, Span,
    address::AddressError,
    yaml::{NodeValue, ScalarKind},
};
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{SeqAccess, Visitor},
};
use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

/// One source of manifests.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// Name, in identities and on the command line.
    pub name: Arc<str>,
    /// Former name, when renamed.
    pub was: Option<Arc<str>>,
    /// Where the repository is; tried in order.
    pub urls: Vec<Arc<str>>,
    /// What is followed.
    pub reference: GitRef,
    /// Folders of manifests; later ones override earlier ones. May hold `${host.…}`.
    pub paths: Vec<Arc<str>>,
    /// Variables for `${vars.…}`.
    pub vars: Vars,
    /// Globs of files that are no manifests.
    pub ignore: Vec<Arc<str>>,
    /// How often the repository is polled.
    pub interval: Duration,
    /// What happens to the rest when something is invalid.
    pub on_invalid: OnInvalid,
    /// Whether a new revision is applied by itself.
    pub apply: ApplyMode,
    /// Who may consent.
    pub approve: Vec<Approver>,
    /// What happens on drift where the manifest does not say.
    pub drift: Drift,
    /// What the manifests of this source may touch.
    pub allow: Allow,
    /// The user for https; by default the url's, else `git`.
    pub username: Option<Arc<str>>,
    /// Password or access token for https.
    pub token: Option<SecretRef>,
    /// Key file for ssh; without one the agent is asked.
    pub ssh_key: Option<PathBuf>,
    /// Passphrase of the key file.
    pub ssh_passphrase: Option<SecretRef>,
    /// Host keys that are accepted; by default the user's `known_hosts`.
    pub known_hosts: Option<PathBuf>,
    /// What wakes it, besides time and pushes.
    pub webhook: Option<Webhook>,
    /// Largest accepted file.
    pub max_file: Size,
    /// Largest accepted tree.
    pub max_tree: Size,
    /// What has to be signed, and by whom; nothing without.
    pub verify: Option<Verify>,
    /// When it may write; always without.
    pub windows: Windows,
    /// The forge that is told how its commits fare.
    pub report: Option<Report>,
    /// Where the entry begins in the configuration.
    pub span: Span,
}

/// What of a repository is followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum GitRef {
    /// The head of a branch.
    Branch(Arc<str>),
    /// A tag.
    Tag(Arc<str>),
    /// The highest tag in a range of versions.
    Semver(Arc<str>),
    /// One commit.
    Commit(Arc<str>),
}

/// Where variables come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Vars {
    /// Written in the configuration: a mapping.
    Inline(Node),
    /// Files of the repository, later ones override earlier ones.
    Files(Vec<Arc<str>>),
}

impl SourceConfig {
    /// True where both ask the same repository as the same user.
    pub fn shares_remote(&self, other: &SourceConfig) -> bool {
        let SourceConfig { urls, username, token, ssh_key, ssh_passphrase, known_hosts, .. } = self;
        *urls == other.urls
            && (username, token) == (&other.username, &other.token)
            && (ssh_key, ssh_passphrase) == (&other.ssh_key, &other.ssh_passphrase)
            && *known_hosts == other.known_hosts
    }
}

impl Default for Vars {
    fn default() -> Vars {
        Vars::Files(Vec::new())
    }
}

/// What an invalid file means for the rest of its revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnInvalid {
    /// The rest applies, nothing is pruned.
    #[default]
    Partial,
    /// The whole revision or nothing.
    Hold,
}

/// Whether a new revision is applied by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApplyMode {
    /// At once, unless the guard holds it.
    #[default]
    Auto,
    /// After a person consented.
    Approve,
}

/// A way to consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Approver {
    /// Through the daemon's socket.
    Socket,
    /// With a push option.
    PushOption,
    /// With a trailer of the commit.
    Trailer,
}

/// What the manifests of a source may touch.
#[derive(Clone, Debug)]
pub enum Allow {
    /// Everything.
    All,
    /// What one of these rules lets through.
    Rules(Vec<AllowRule>),
}

/// One rule of [`Allow`].
#[derive(Clone, Debug)]
pub struct AllowRule {
    /// Entry, as a glob.
    pub provider: Arc<str>,
    /// Scopes of it, as globs; none means all.
    pub scopes: Option<Vec<Arc<str>>>,
    /// Kinds, as `GROUP/KIND` globs; none means all.
    pub kinds: Option<Vec<Arc<str>>>,
    /// What of that is refused all the same.
    pub deny: Vec<Pattern>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSource {
    name: String,
    was: Option<String>,
    url: Option<OneOrMore<String>>,
    branch: Option<String>,
    r#ref: Option<RawRef>,
    path: Option<OneOrMore<String>>,
    #[serde(rename = "vars")]
    _vars: DecodedApart,
    #[serde(default)]
    ignore: Vec<IgnorePattern>,
    interval: Option<Period>,
    #[serde(default)]
    on_invalid: OnInvalid,
    #[serde(default)]
    apply: ApplyMode,
    #[serde(default, deserialize_with = "written")]
    approve: Option<Vec<Approver>>,
    drift: Option<Drift>,
    #[serde(default, deserialize_with = "written")]
    allow: Option<RawAllow>,
    username: Option<String>,
    token: Option<SecretPlace>,
    ssh: Option<RawSsh>,
    max_file: Option<Size>,
    max_tree: Option<Size>,
    #[serde(default, deserialize_with = "written")]
    verify: Option<trust::RawVerify>,
    webhook: Option<RawWebhook>,
    #[serde(rename = "windows")]
    _windows: DecodedApart,
    report: Option<RawReport>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSsh {
    key: Option<PathBuf>,
    passphrase: Option<SecretPlace>,
    known_hosts: Option<PathBuf>,
}

#[derive(Deserialize)]
struct RawRef {
    branch: Option<String>,
    tag: Option<String>,
    semver: Option<String>,
    commit: Option<String>,
}

impl GitRef {
    /// As a repository is asked for it.
    ///
    /// Errors: it can be the name of nothing there.
    pub fn parsed(&self) -> Result<Reference, SourceError> {
        let reference = match self {
            GitRef::Branch(name) => Reference::Branch(name.to_string()),
            GitRef::Tag(name) => Reference::Tag(name.to_string()),
            GitRef::Semver(range) => Reference::semver(range)?,
            GitRef::Commit(id) => Reference::Commit(id.parse()?),
        };
        reference.check()?;
        Ok(reference)
    }

    /// The key that says it, what that means, and what is right there.
    fn written(&self) -> (&'static str, &'static str, &'static str) {
        match self {
            GitRef::Branch(_) => ("branch", "name of a branch", "write a name such as `main`"),
            GitRef::Tag(_) => ("tag", "name of a tag", "write a name such as `v1.2`"),
            GitRef::Semver(_) => {
                ("semver", "range of versions", "write a range such as `1.x` or `>=1.2, <2`")
            }
            GitRef::Commit(_) => {
                ("commit", "commit", "write the 40 digits that `git rev-parse COMMIT` prints")
            }
        }
    }
}

impl RawRef {
    fn only(self) -> Option<GitRef> {
        match (self.branch, self.tag, self.semver, self.commit) {
            (Some(branch), None, None, None) => Some(GitRef::Branch(branch.into())),
            (None, Some(tag), None, None) => Some(GitRef::Tag(tag.into())),
            (None, None, Some(range), None) => Some(GitRef::Semver(range.into())),
            (None, None, None, Some(commit)) => Some(GitRef::Commit(commit.into())),
            _ => None,
        }
    }
}

enum RawAllow {
    All,
    Rules(Vec<RawRule>),
}

impl<'de> Deserialize<'de> for RawAllow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawAllow, D::Error> {
        struct AllowVisitor;
        impl<'de> Visitor<'de> for AllowVisitor {
            type Value = RawAllow;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`all` or a list of rules")
            }
            fn visit_unit<E: serde::de::Error>(self) -> Result<RawAllow, E> {
                Err(E::custom("expected `all` or a list of rules, found nothing"))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RawAllow, E> {
                match text {
                    "all" => Ok(RawAllow::All),
                    _ => Err(E::custom(format!("expected `all` or a list of rules, found `{text}`"))),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<RawAllow, A::Error> {
                let mut rules = Vec::new();
                while let Some(rule) = access.next_element()? {
                    rules.push(rule);
                }
                Ok(RawAllow::Rules(rules))
            }
        }
        deserializer.deserialize_any(AllowVisitor)
    }
}

#[derive(Deserialize)]
struct RawRule {
    provider: String,
    #[serde(default, deserialize_with = "written")]
    scopes: Option<Vec<String>>,
    #[serde(default, deserialize_with = "written")]
    kinds: Option<Vec<String>>,
    #[serde(default)]
    deny: Vec<DenyPattern>,
}

struct DenyPattern(Pattern);

impl FromStr for DenyPattern {
    type Err = AddressError;
    fn from_str(text: &str) -> Result<DenyPattern, AddressError> {
        // `#@/NS` is short for that part of every manifest.
        let full = if text.starts_with('#') { format!("*/*{text}") } else { text.to_string() };
        full.parse().map(DenyPattern)
    }
}

impl<'de> Deserialize<'de> for DenyPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DenyPattern, D::Error> {
        from_text(deserializer)
    }
}

/// A line as of a `.gitignore`.
struct IgnorePattern(Arc<str>);

impl FromStr for IgnorePattern {
    type Err = String;
    fn from_str(text: &str) -> Result<IgnorePattern, String> {
        match GitignoreBuilder::new("").allow_unclosed_class(false).add_line(None, text) {
            Ok(_) => Ok(IgnorePattern(text.into())),
            Err(error) => Err(format!("`{text}` is no pattern as of a .gitignore: {error}")),
        }
    }
}

impl<'de> Deserialize<'de> for IgnorePattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IgnorePattern, D::Error> {
        from_text(deserializer)
    }
}

fn shared(texts: Vec<String>) -> Vec<Arc<str>> {
    texts.into_iter().map(Arc::from).collect()
}

const INTERVAL: Duration = Duration::from_secs(60);

/// Reads one source; none when a key is wrong. `is_sole` tells whether `allow` may be left out.
pub(super) fn read(
    node: &Node,
    file: &SourceFile,
    is_sole: bool,
    problems: &mut Vec<Problem>,
) -> Option<SourceConfig> {
    let raw = decode_all::<RawSource>(node, file, problems);
    let raw = raw?;
    let mut error = |key: &str, message: String, hint: &str| {
        let span = node.entry(key).map_or(node.span, |(key, _)| key.span);
        problems.push(Problem::error(message).at(file, span).hint(hint));
    };
    let urls = raw.url.map_or_else(Vec::new, |urls| urls.0);
    if urls.is_empty() {
        let message = format!("source `{}` has no `url`", raw.name);
        error("url", message, "write a path, https:// or ssh:// address");
    }
    let reference = match (raw.branch, raw.r#ref) {
        (Some(branch), None) => GitRef::Branch(branch.into()),
        (None, None) => GitRef::Branch("main".into()),
        (None, Some(one)) => one.only().unwrap_or_else(|| {
            error(
                "ref",
                "`ref` names not exactly one thing".into(),
                "write one of branch, tag, semver, commit",
            );
            GitRef::Branch("main".into())
        }),
        (Some(_), Some(_)) => {
            error("ref", "`branch` and `ref` exclude each other".into(), "keep one of them");
            GitRef::Branch("main".into())
        }
    };
    let paths = raw.path.map_or_else(|| vec![".".into()], |paths| paths.0);
    for path in &paths {
        if path.starts_with('/') || path.split('/').any(|part| part == "..") {
            let message = format!("`{path}` is not a folder of the repository");
            error("path", message, "write a path relative to the repository's root, without `..`");
        }
    }
    let interval = raw.interval.map_or(INTERVAL, |period| period.0);
    if interval < Duration::from_secs(1) {
        error("interval", "an interval under 1s is not useful".into(), "write 1s or more");
    }
    let allow = match raw.allow {
        Some(RawAllow::All) => Allow::All,
        Some(RawAllow::Rules(rules)) => Allow::Rules(rules.into_iter().map(rule).collect()),
        None => {
            // Rules with a mistake in them are rules.
            if !is_sole && node.get("allow").is_none_or(Node::is_null) {
                let message = format!("source `{}` does not say what it may touch", raw.name);
                error("name", message, "with two sources or more each needs `allow: all` or rules");
            }
            Allow::All
        }
    };
    let verify = raw.verify.and_then(|raw| {
        let verify = raw.read(file);
        if verify.is_none() {
            let hint = "write verify: {allowedSigners: /etc/reconciled/allowed_signers} or {gpgKeys: PATH}";
            error("verify", "`verify` names no allowed keys".into(), hint);
        }
        verify
    });
    if let Err(SourceError::InvalidReference { text, problem }) = reference.parsed() {
        let (key, what, hint) = reference.written();
        let place = node.get(key).or_else(|| node.get("ref")?.get(key)).unwrap_or(node);
        let message = format!("`{text}` is no {what}: {problem}");
        problems.push(Problem::error(message).at(file, place.span).hint(hint));
    }
    let approve = raw.approve.unwrap_or_else(|| vec![Approver::Socket, Approver::PushOption]);
    if approve.contains(&Approver::Trailer) && verify.is_none() {
        let span = node.entry("approve").map_or(node.span, |(key, _)| key.span);
        let problem =
            Problem::warning("whoever may push can write a trailer that approves: commits are not verified");
        problems
            .push(problem.at(file, span).hint("add verify: {allowedSigners: PATH}, or take `trailer` out"));
    }
    let report = raw.report.and_then(|raw| raw.read(node.get("report").unwrap_or(node), file, problems));
    let ssh = raw.ssh.unwrap_or(RawSsh { key: None, passphrase: None, known_hosts: None });
    let beside = |path: PathBuf| beside(Some(Path::new(&*file.path)), &path);
    Some(SourceConfig {
        name: raw.name.into(),
        was: raw.was.map(Arc::from),
        urls: shared(urls),
        reference,
        paths: shared(paths),
        vars: vars(node, file, problems),
        ignore: raw.ignore.into_iter().map(|pattern| pattern.0).collect(),
        interval,
        on_invalid: raw.on_invalid,
        apply: raw.apply,
        approve,
        drift: raw.drift.unwrap_or(Drift::Heal),
        allow,
        username: raw.username.map(Arc::from),
        token: raw.token.map(|place| place.0),
        ssh_passphrase: ssh.passphrase.map(|place| place.0),
        ssh_key: ssh.key.map(beside),
        known_hosts: ssh.known_hosts.map(beside),
        webhook: raw.webhook.map(Webhook::from),
        max_file: raw.max_file.unwrap_or(Size(16 << 20)),
        max_tree: raw.max_tree.unwrap_or(Size(64 << 20)),
        verify,
        windows: windows::read(node, file, problems),
        report,
        span: node.span,
    })
}

fn rule(raw: RawRule) -> AllowRule {
    AllowRule {
        provider: raw.provider.into(),
        scopes: raw.scopes.map(shared),
        kinds: raw.kinds.map(shared),
        deny: raw.deny.into_iter().map(|deny| deny.0).collect(),
    }
}

fn vars(source: &Node, file: &SourceFile, problems: &mut Vec<Problem>) -> Vars {
    let Some(node) = source.get("vars") else { return Vars::default() };
    match &node.value {
        NodeValue::Null => Vars::default(),
        NodeValue::Map(_) => Vars::Inline(node.clone()),
        NodeValue::Seq(paths) => {
            let text = |path: &Node| match &path.value {
                NodeValue::Scalar(text, ScalarKind::Str) => Some(Arc::from(&**text)),
                _ => None,
            };
            Vars::Files(paths.iter().filter_map(text).collect())
        }
        NodeValue::Scalar(text, _) => {
            let problem = Problem::error(format!("expected a mapping or a list of files, found `{text}`"));
            problems.push(problem.at(file, node.span).hint("write vars: {name: value} or vars: [file.yaml]"));
            Vars::default()
        }
    }
}
