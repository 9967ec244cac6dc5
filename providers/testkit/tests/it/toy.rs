//! A complete provider: every scope is a directory, every resource a text file in it.

use async_trait::async_trait;
use bytes::Bytes;
use futures_core::stream::BoxStream;
use reconciled_provider::*;
use reconciled_testkit::conformance::{Sample, Subject, run};
use std::collections::{BTreeMap, BTreeSet};
use std::{fs, io, path::PathBuf, sync::Arc, time::Duration};

#[derive(Debug)]
struct Notebook {
    entry: Arc<str>,
    root: PathBuf,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NotesSpec {
    /// The entry that keeps the notes.
    #[serde(rename = "provider")]
    _provider: Option<String>,
    /// Texts by name.
    notes: BTreeMap<String, String>,
}

const INFO: ProviderInfo = ProviderInfo {
    type_name: "notebook",
    static_kinds: &["Notes"],
    guard: GuardDomain::Scope,
    fencing: Fencing::None,
    identity: Identity::Deterministic,
    marking: Marking::InventoryOnly,
    lists: true,
    reads_ahead: true,
    lists_scopes: false,
    atomic_batch: false,
    concurrency: 1,
    consistency_window: Duration::ZERO,
    apply_limit: Duration::from_secs(10),
    create_backoff: ProviderInfo::BACKOFF,
    normalizer: 1,
};

/// Nothing a manifest says may lead out of the root.
fn is_file_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('.') && !text.contains(['/', '\0'])
}

impl Notebook {
    fn read(&self, scope: &Scope) -> Result<Vec<Observed>, Error> {
        let failed = |error| Error::unavailable(format!("read {scope}")).caused_by(error);
        // A root that is gone (a mount that failed) is an error, never a notebook without notes.
        fs::metadata(&self.root).map_err(failed)?;
        let list = match fs::read_dir(self.root.join(&*scope.name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            list => list.map_err(failed)?,
        };
        let mut notes = Vec::new();
        for file in list {
            let file = file.map_err(failed)?;
            let name = file.file_name().to_string_lossy().into_owned();
            if is_file_name(&name) {
                notes.push(Observed::new(name.into(), fs::read(file.path()).map_err(failed)?));
            }
        }
        notes.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(notes)
    }

    fn write(&self, scope: &Scope, op: &Op) -> io::Result<Outcome> {
        let directory = self.root.join(&*scope.name);
        let path = directory.join(&*op.id().0);
        let Some(desired) = op.desired() else {
            return match fs::remove_file(path) {
                // Done already, by us before a crash or by somebody else.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Outcome::Gone),
                result => result.map(|()| Outcome::Gone),
            };
        };
        fs::create_dir_all(&directory)?;
        // A reader, or a new process after a crash, sees the old text or the new one.
        let draft = directory.join(format!(".{}", op.id()));
        fs::write(&draft, desired.spec.bytes().unwrap_or_default())?;
        fs::File::open(&draft)?.sync_all()?;
        fs::rename(draft, path)?;
        Ok(Outcome::Done(Tracked::new(op.id().clone(), desired.spec.hash().unwrap_or_default())))
    }
}

#[async_trait]
impl Observer for Notebook {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }
    async fn kinds(&self, _: &Cx) -> Result<Arc<Kinds>, Error> {
        Ok(Arc::new(Kinds(vec![Kind::of::<NotesSpec>(&["notes/v1"], "Notes", "texts in one directory")])))
    }
    fn normalize(&self, kinds: &Kinds, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
        let is_known = kinds.find(&manifest.api_version, &manifest.kind).is_some();
        if !is_known || !manifest.is_for(&self.entry, inputs.is_sole()) {
            return Normalized::default();
        }
        let (spec, problems) = manifest.spec::<NotesSpec>();
        let mut out = Normalized { problems, ..Normalized::default() };
        let scope = Arc::new(Scope::new(self.entry.clone(), manifest.name.clone()));
        let policy = inputs.policy(manifest.policy.clone());
        for (name, text) in spec.into_iter().flat_map(|spec| spec.notes) {
            if !is_file_name(&name) || !is_file_name(&manifest.name) {
                let text = format!("`{}/{name}` cannot name a note", manifest.name);
                out.problems.push(manifest.error(manifest.span, text));
                continue;
            }
            let (origin, spec) = (manifest.origin(manifest.span), Spec::known(text.into_bytes()));
            out.resources.push(Resource::new(name.into(), scope.clone(), spec, origin, policy));
        }
        out
    }
    async fn versions(&self, _: &Cx, _: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        Ok(BTreeMap::new())
    }
    async fn observe(&self, _: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        let (covered, resources) = (Focus::All, self.read(want.scope)?);
        Ok(Observation { covered, complete: true, version: Version::Unknown, resources })
    }
    fn compare(&self, desired: &Resource, observed: &Observed) -> Option<Delta> {
        let text = |bytes: &[u8]| Some(String::from_utf8_lossy(bytes).into_owned());
        let (before, after) = (&observed.bytes[..], desired.spec.bytes()?);
        let fields = vec![FieldChange::text("text", text(before), text(after))];
        (before != after).then(|| Delta { fields, ..Delta::default() })
    }
    async fn diff(&self, _: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
        Ok(diff_by_compare(|desired, observed| self.compare(desired, observed), want, seen))
    }
    async fn health(&self, _: &Cx, _: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error> {
        Ok(Vec::new())
    }
    async fn discover(&self, _: &Cx, query: &str) -> Result<Vec<Found>, Error> {
        let scope = Scope::new(self.entry.clone(), query);
        Ok(vec![Found::new(scope.clone(), self.read(&scope)?)])
    }
    fn export(&self, found: &Found) -> Result<Vec<Bytes>, Error> {
        let text = |o: &Observed| (o.id.to_string(), String::from_utf8_lossy(&o.bytes).into_owned());
        let notes: BTreeMap<String, String> = found.resources.iter().map(text).collect();
        // JSON is YAML, and quotes everything that could be misread.
        let (name, notes) = (&found.scope.name, serde_json::json!(notes));
        let head = format!("apiVersion: notes/v1\nkind: Notes\nmetadata: {{name: {name}}}\n");
        Ok(vec![format!("{head}spec: {{provider: {}, notes: {notes}}}\n", self.entry).into()])
    }
    fn part(&self, _: &Scope, id: &ResourceId) -> Option<Arc<str>> {
        Some(id.0.clone())
    }
    fn slot(&self, _: &ResourceId) -> Option<Slot> {
        None
    }
    fn guard_word(&self, _: &Scope, _: &ResourceId) -> Option<&'static str> {
        None
    }
    fn show(&self, _: &ResourceId, bytes: &[u8]) -> Vec<(Arc<str>, String)> {
        vec![("text".into(), String::from_utf8_lossy(bytes).into_owned())]
    }
    fn keep(&self, desired: &Resource, observed: &Observed, ignored: &[Arc<str>]) -> Result<Vec<u8>, Error> {
        // There is one field: what is ignored is all of it.
        Ok(match is_ignored(ignored, "text") {
            true => observed.bytes.to_vec(),
            false => desired.spec.bytes().unwrap_or_default().to_vec(),
        })
    }
    fn place(&self, _: &Claim, _: &BTreeSet<Scope>) -> Result<(Scope, ResourceId), Error> {
        Err(Error::unsupported("a notebook carries no claims"))
    }
    fn merge(
        &self,
        _: &[&Resource],
        _: Option<&Observed>,
        _: Option<&Tracked>,
        _: &[Claim],
    ) -> Result<Option<Merged>, Error> {
        Err(Error::unsupported("a note has one author"))
    }
    fn hints(&self) -> BoxStream<'static, Hint> {
        no_hints()
    }
}

#[async_trait]
impl Provider for Notebook {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        for action in &batch.actions {
            if cx.stop.is_set() {
                return Ok(());
            }
            journal.started(&[action.id]).await?;
            let outcome = self.write(&batch.scope, &action.op).unwrap_or_else(|error| {
                let doing = format!("{} {}", action.op.word(), action.op.id());
                // Creating the directory may have worked, so it is not known that nothing happened.
                Outcome::Unknown(Error::unavailable(doing).caused_by(error))
            });
            journal.finished(vec![(action.id, outcome)]).await?;
        }
        Ok(())
    }
}

struct Desk(tempfile::TempDir);

#[async_trait]
impl Subject for Desk {
    fn scope(&self, number: usize) -> Scope {
        Scope::new("notebook", format!("page-{number}"))
    }
    async fn connect(&self, scope: &Scope, _: &str) -> Arc<dyn Provider> {
        Arc::new(Notebook { entry: scope.provider.clone(), root: self.0.path().to_owned() })
    }
    fn cx(&self) -> Cx {
        reconciled_testkit::context::cx()
    }
    fn manifests(&self, scope: &Scope, sample: Sample) -> Option<String> {
        let notes = match sample {
            Sample::Initial => "{a: one, b: two, c: three}",
            Sample::Changed => "{a: other, b: two, c: three}",
            Sample::Shrunk => "{a: one, b: two}",
            Sample::Mixed => "{a: other, b: two, d: four}",
            Sample::Swapped | Sample::Shared => return None,
        };
        let head = format!("apiVersion: notes/v1\nkind: Notes\nmetadata: {{name: {}}}\n", scope.name);
        Some(format!("{head}spec: {{notes: {notes}}}\n"))
    }
    async fn put_by_hand(&self, scope: &Scope, id: &ResourceId) {
        fs::write(self.0.path().join(&*scope.name).join(&*id.0), "by hand").unwrap();
    }
    async fn delete_by_hand(&self, scope: &Scope, id: &ResourceId) {
        fs::remove_file(self.0.path().join(&*scope.name).join(&*id.0)).unwrap();
    }
    fn foreign(&self, _: &Scope) -> ResourceId {
        "foreign".into()
    }
}

#[test]
fn the_notebook_keeps_every_law_that_concerns_it() {
    let report = futures_executor::block_on(run(&Desk(tempfile::tempdir().unwrap())));
    report.assert_holds_but_skips(&[
        "no_secret_is_printed",
        "a_version_stands_while_nothing_changes_and_moves_when_something_does",
        "one_batch_swaps_what_cannot_coexist",
        "a_refused_write_had_no_effect_and_says_so",
        "marks_say_whose_it_is",
        "values_of_others_stay_when_ours_leave",
        "a_stale_base_writes_nothing",
        "a_scope_that_came_to_be_meanwhile_is_not_overwritten",
    ]);
}
