//! YAML → desired state: reads the manifests of every source and has each entry normalize what is its own.
//!
//! *Guarantees*: all problems of all files are found at once, each with its place; a file with an error
//! contributes nothing and is named in `SourceState::broken`; the same input gives the same output, whatever
//! the cache holds. *Caveats*: a [`Cache`] belongs to one set of provider entries; entries built anew miss it.
//!
//! It deliberately knows no Git, no network and no clock: files come in through [`Files`], outputs of other
//! resources through [`Outputs`], secrets as marks through [`SecretMarks`].
//!
//! The stages, one file each: `select` (which files), `read` (parse, or reuse), `overlay` (several paths),
//! `standing` (is it for this host, and whose), `resolve` (`${…}`), `graph` (what comes first), `normalize`,
//! `assemble`, `lint`.

mod allowed;
mod annotations;
mod assemble;
mod cache;
mod envelope;
pub mod explain;
mod faulty;
mod graph;
mod hidden;
mod inputs;
mod lint;
mod normalize;
mod overlay;
mod problems;
mod read;
mod refer;
mod resolve;
mod select;
mod standing;
mod substitute;
mod template;
mod twice;
mod vars;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use cache::Cache;
pub(crate) use refer::output_at;

use crate::{
    config::{Allow, ApplyMode, Host, HostSecrets, OnInvalid, SourceConfig, Vars, Wanted},
    sops::{self, Refused},
};
use bytes::Bytes;
use read::{Loading, read_text};
use reconciled_engine::Desired;
use reconciled_provider::{
    Drift, Error, Kinds, ManifestKey, Observer, Problem, Reference, ResourceId, Scope, Secret, SecretMark,
    SecretRef,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

/// The files of one source at one revision.
pub trait Files {
    /// Every regular file: its path within the source and the id of its content.
    fn entries(&self) -> Vec<(Arc<str>, [u8; 20])>;
    /// The content of a file.
    fn read(&self, path: &str) -> Result<Bytes, Box<Problem>>;
    /// What was refused by name: links, submodules, files that are too large. Each has its path as place.
    fn refused(&self) -> Vec<Problem> {
        Vec::new()
    }
}

/// What a reference to an output comes to.
#[derive(Clone, Debug)]
pub enum Output {
    /// A value that anybody may see.
    Text(Arc<str>),
    /// One that nobody may see.
    Secret(Secret),
    /// It will be known after apply.
    Unknown,
}

impl Output {
    /// The value, if anybody may see it.
    fn text(self) -> Option<Arc<str>> {
        match self {
            Output::Text(text) => Some(text),
            Output::Secret(_) | Output::Unknown => None,
        }
    }
}

/// What other resources put out.
pub trait Outputs {
    /// The value of one output, if it is there.
    fn get(&self, reference: &Reference) -> Output;
    /// What is put out by a manifest whose outputs are known, for "did you mean".
    fn names(&self, manifest: &ManifestKey) -> Vec<String>;
    /// True when the manifest is in sync, so that it puts out all it ever does.
    fn is_settled(&self, manifest: &ManifestKey) -> bool;
}

/// No output is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOutputs;

impl Outputs for NoOutputs {
    fn get(&self, _: &Reference) -> Output {
        Output::Unknown
    }
    fn names(&self, _: &ManifestKey) -> Vec<String> {
        Vec::new()
    }
    fn is_settled(&self, _: &ManifestKey) -> bool {
        false
    }
}

/// The marks of secrets that manifests may name.
pub trait SecretMarks {
    /// The mark of what a manifest of `kind` (`GROUP/KIND`) in `source` names.
    fn mark(&self, source: &str, kind: &str, reference: &SecretRef) -> Result<SecretMark, Error>;
    /// The mark of a value in a file of the repository that sops encrypted; `content` is the file's.
    fn sealed(&self, wanted: &Wanted<'_>, content: &[u8]) -> Result<SecretMark, Refused>;
    /// The marks of the keys that open what sops encrypted in files of `source`; none of one that cannot be had.
    fn keys(&self, source: &str) -> Vec<Option<SecretMark>>;
    /// The mark of a secret that a manifest puts out, which backends may ask for from then on.
    fn put_out(&self, secret: &Secret) -> SecretMark;
}

impl SecretMarks for HostSecrets {
    fn sealed(&self, wanted: &Wanted<'_>, content: &[u8]) -> Result<SecretMark, Refused> {
        self.open_for_manifest(wanted, content)
    }
    fn keys(&self, source: &str) -> Vec<Option<SecretMark>> {
        self.marks_of_keys(source)
    }
    fn mark(&self, source: &str, kind: &str, reference: &SecretRef) -> Result<SecretMark, Error> {
        self.mark_for_manifest(source, kind, reference)
    }
    fn put_out(&self, secret: &Secret) -> SecretMark {
        self.keep_output(secret)
    }
}

/// The secrets that manifests name, and the keys that open what sops encrypted for them, each with the mark it had; none
/// where it could not be had. As long as these stand, loading again finds the same.
#[derive(Clone, Debug, Default)]
pub struct KnownSecrets {
    named: BTreeMap<(Arc<str>, Arc<str>, SecretRef), Option<SecretMark>>,
    /// By source.
    keys: BTreeMap<Arc<str>, Vec<Option<SecretMark>>>,
}

impl KnownSecrets {
    /// Of two marks the first counts: a secret that was rotated meanwhile is found to have changed, and all is loaded again.
    fn note(&mut self, source: &str, kind: &str, reference: &SecretRef, mark: Option<SecretMark>) {
        self.named.entry((source.into(), kind.into(), reference.clone())).or_insert(mark);
    }
    /// Notes the keys for files of `source`, before the first of these is opened, for the same reason.
    fn note_keys(&mut self, source: &str, secrets: &dyn SecretMarks) {
        self.keys.entry(source.into()).or_insert_with(|| secrets.keys(source));
    }
    /// Those of `other` as well; where both have one, the mark in `self` counts.
    pub fn extend(&mut self, other: KnownSecrets) {
        for (of, mark) in other.named {
            self.named.entry(of).or_insert(mark);
        }
        for (source, marks) in other.keys {
            self.keys.entry(source).or_insert(marks);
        }
    }
    /// Those that manifests of one source name.
    pub fn of(&self, source: &str) -> KnownSecrets {
        let named = self.named.iter().filter(|((by, _, _), _)| **by == *source);
        let keys = self.keys.iter().filter(|(by, _)| ***by == *source);
        KnownSecrets {
            named: named.map(|(of, mark)| (of.clone(), *mark)).collect(),
            keys: keys.map(|(by, marks)| (by.clone(), marks.clone())).collect(),
        }
    }
    /// True when any of them has another mark now, is gone, or has come. Blocks: secrets are read.
    pub fn have_changed(&self, secrets: &dyn SecretMarks) -> bool {
        let mut named = self.named.iter();
        named.any(|((source, kind, reference), known)| secrets.mark(source, kind, reference).ok() != *known)
            || self.keys.iter().any(|(source, known)| secrets.keys(source) != *known)
    }
}

/// A provider entry, as far as reading goes.
#[derive(Clone)]
pub struct EntryView {
    /// Name in the host configuration.
    pub name: Arc<str>,
    /// What normalizes.
    pub observer: Arc<dyn Observer>,
    /// The kinds it knows.
    pub kinds: Arc<Kinds>,
}

impl fmt::Debug for EntryView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryView").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A configured entry that does not tell its kinds.
#[derive(Clone, Debug)]
pub struct Ailing {
    /// Its name.
    pub name: Arc<str>,
    /// The groups that its kinds may have, as far as its configuration tells.
    pub groups: Vec<Arc<str>>,
    /// What keeps it from telling them.
    pub why: Arc<str>,
    /// What to do about that.
    pub hint: Option<Arc<str>>,
}

/// How the manifests of a source are to be read.
#[derive(Clone, Debug)]
pub struct SourceRules {
    /// Folders; later ones override earlier ones.
    pub paths: Vec<Arc<str>>,
    /// Variables.
    pub vars: Vars,
    /// Globs of files that are no manifests.
    pub ignore: Vec<Arc<str>>,
    /// What an invalid file means for the rest.
    pub on_invalid: OnInvalid,
    /// What happens on drift where a manifest does not say.
    pub drift: Option<Drift>,
    /// What the manifests may touch.
    pub allow: Allow,
    /// Every revision needs a person's consent.
    pub needs_consent: bool,
}

impl Default for SourceRules {
    fn default() -> SourceRules {
        SourceRules {
            paths: vec![".".into()],
            vars: Vars::default(),
            ignore: Vec::new(),
            on_invalid: OnInvalid::Partial,
            drift: None,
            allow: Allow::All,
            needs_consent: false,
        }
    }
}

impl From<&SourceConfig> for SourceRules {
    fn from(config: &SourceConfig) -> SourceRules {
        SourceRules {
            paths: config.paths.clone(),
            vars: config.vars.clone(),
            ignore: config.ignore.clone(),
            on_invalid: config.on_invalid,
            drift: Some(config.drift),
            allow: config.allow.clone(),
            needs_consent: config.apply == ApplyMode::Approve,
        }
    }
}

/// One source at one revision.
pub struct SourceRequest<'a> {
    /// Name of the source.
    pub name: Arc<str>,
    /// Full commit id; empty for a folder.
    pub revision: Arc<str>,
    /// What people call the revision.
    pub label: Arc<str>,
    /// Its files.
    pub files: &'a dyn Files,
    /// False for a folder without a name: nothing is pruned on its word.
    pub prunes: bool,
    /// How its manifests are to be read.
    pub rules: SourceRules,
}

/// The source for which a resource is tracked.
pub type Owners = BTreeMap<(Scope, ResourceId), Arc<str>>;

/// Everything that decides what is desired.
pub struct Request<'a> {
    /// The sources, in the order of the configuration: what nobody owns yet goes to the first that declares it.
    pub sources: &'a [SourceRequest<'a>],
    /// The configured sources that are not among them, and what they may touch: nobody knows what they declare.
    pub lacking: &'a [(Arc<str>, Allow)],
    /// The configured entries.
    pub entries: &'a [EntryView],
    /// Those of them that do not tell their kinds.
    pub ailing: &'a BTreeMap<Arc<str>, Ailing>,
    /// Names that entries had, each with the one that it has by now: what was written before may name either.
    pub renamed: &'a BTreeMap<Arc<str>, Arc<str>>,
    /// Every kind this program knows, configured or not.
    pub known: &'a Kinds,
    /// This host.
    pub host: &'a Host,
    /// Who owns what several sources declare, as far as it was asked for: see [`Loaded::contested`].
    pub owners: &'a Owners,
    /// What other resources put out.
    pub outputs: &'a dyn Outputs,
    /// Marks of secrets.
    pub secrets: &'a dyn SecretMarks,
}

/// A problem and the source it was found in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// Name of the source.
    pub source: Arc<str>,
    /// The problem; its place is a path within the source.
    pub problem: Problem,
}

/// How much was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files with manifests.
    pub files: usize,
    /// Files parsed in this load.
    pub parsed: usize,
    /// Files that were not parsed because their content stands in the cache.
    pub reused: usize,
    /// Manifests, desired or not.
    pub manifests: usize,
    /// Normalizations done in this load.
    pub normalized: usize,
    /// Normalizations taken from the cache.
    pub kept: usize,
    /// Documents that are no manifests.
    pub skipped_documents: usize,
    /// YAML files that are excluded.
    pub excluded_files: usize,
}

/// What loading came to.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The desired state; without what is broken or withheld.
    pub desired: Desired,
    /// All problems, sorted by source, file and line.
    pub problems: Vec<Reported>,
    /// Sources with `onInvalid: hold` that have an error, or with an encrypted file that was tampered with: nothing of this revision may come into force.
    pub withheld: BTreeSet<Arc<str>>,
    /// Sources with something that was not checked here: files that could not be read, and manifests that other hosts
    /// make something of as well.
    pub unchecked: BTreeSet<Arc<str>>,
    /// What more than one source declares, also by names of their own. Who tracks it owns it; with [`Request::owners`] loading again tells.
    pub contested: BTreeSet<(Scope, ResourceId)>,
    /// What manifests share (`merge: true`) that do not count.
    pub shared_aside: BTreeMap<(Scope, ResourceId), BTreeSet<ManifestKey>>,
    /// Outputs that were asked for. With [`Request::outputs`] loading again puts their values in place.
    pub outputs: BTreeSet<Reference>,
    /// Secrets that were asked for.
    pub secrets: KnownSecrets,
    /// How much was read.
    pub counts: Counts,
}

impl Loaded {
    /// True when something is an error.
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|reported| reported.problem.is_error())
    }
}

/// What is checked besides the manifests themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// For this host: provider names, host selectors, variables and secrets count.
    Host,
    /// Only what every host agrees on.
    Anywhere,
}

/// Loads all sources.
///
/// `cache` makes the next load cheap: a blob that did not change is not parsed again, and a manifest none of
/// whose recorded inputs changed is not normalized again.
pub fn load(request: &Request<'_>, cache: &mut Cache) -> Loaded {
    run(request, cache, Mode::Host)
}

/// A configured path, with host values in place; as it is where this host has none of that name.
pub fn on_host(path: &Arc<str>, host: &Host) -> Arc<str> {
    resolve::host_text(path, host).map_or_else(|_| path.clone(), Arc::from)
}

/// What is wrong with where the manifests of a source are looked for, and the files of its variables.
pub fn misplaced(files: &dyn Files, rules: &SourceRules, host: &Host) -> Vec<Problem> {
    let mut problems = Vec::new();
    let (paths, _) = read::paths(rules, host, &mut problems);
    problems.extend(select::choose(files, &paths, &rules.ignore).problems);
    vars::read(&rules.vars, files, &mut problems);
    problems
}

/// Checks the manifests in `files` without a configuration, chosen by `rules`.
///
/// `types` stands for the provider types of this program, one entry each; what names they have in a
/// configuration, which variables there are and what this host is called is not checked.
pub fn validate(files: &dyn Files, name: &str, types: &[EntryView], rules: SourceRules) -> Loaded {
    let source = SourceRequest {
        name: name.into(),
        revision: "".into(),
        label: "".into(),
        files,
        prunes: false,
        rules,
    };
    let known = Kinds(types.iter().flat_map(|entry| entry.kinds.0.iter().cloned()).collect());
    let request = Request {
        sources: &[source],
        lacking: &[],
        entries: types,
        ailing: &BTreeMap::new(),
        renamed: &BTreeMap::new(),
        known: &known,
        host: &Host::default(),
        owners: &Owners::new(),
        outputs: &NoOutputs,
        secrets: &AnySecret,
    };
    run(&request, &mut Cache::default(), Mode::Anywhere)
}

/// Every secret is there, as far as a manifest alone can tell.
struct AnySecret;

impl SecretMarks for AnySecret {
    fn sealed(&self, wanted: &Wanted<'_>, content: &[u8]) -> Result<SecretMark, Refused> {
        sops::File::read(wanted.path, content)?.check(wanted.key)?;
        Ok(SecretMark(reconciled_provider::Hash::default()))
    }
    fn keys(&self, _: &str) -> Vec<Option<SecretMark>> {
        Vec::new()
    }
    fn mark(&self, _: &str, _: &str, _: &SecretRef) -> Result<SecretMark, Error> {
        Ok(SecretMark(reconciled_provider::Hash::default()))
    }
    fn put_out(&self, _: &Secret) -> SecretMark {
        SecretMark(reconciled_provider::Hash::default())
    }
}

fn run(request: &Request<'_>, cache: &mut Cache, mode: Mode) -> Loaded {
    let mut loading = Loading::read(request, cache, mode);
    overlay::unite(&mut loading);
    standing::settle(&mut loading);
    overlay::report_lone(&mut loading);
    resolve::resolve(&mut loading);
    let (graph, after) = graph::order(&mut loading);
    let results = normalize::normalize(&mut loading, cache);
    graph::scopes(&mut loading, graph, &results);
    assemble::assemble(loading, after, results, cache)
}
