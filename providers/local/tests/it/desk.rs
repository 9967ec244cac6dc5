//! A machine in a scratch directory, and the smallest engine that will do for it.

use async_trait::async_trait;
use bytes::Bytes;
use reconciled_local::{Config, open};
use reconciled_provider::{manifest::Value, *};
use reconciled_testkit::context::{TableSecrets, cx_with};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::PathBuf,
    sync::{Arc, Mutex},
};

/// The secret `key`.
pub(crate) const SECRET: &str = "canary-7f31";

pub(crate) struct Desk {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) cx: Cx,
    /// The scope that is looked at.
    scope: Scope,
    tracked: Mutex<BTreeMap<ResourceId, Tracked>>,
}

/// What one pass did: `create /etc/a: done`, in order; and the fields of its deltas.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(crate) done: Vec<String>,
    pub(crate) fields: Vec<String>,
}

impl Desk {
    pub(crate) fn new() -> Desk {
        Desk::with(|_| {})
    }
    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Desk {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["root/etc", "root/srv", "root/root"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let mut config = Config::new(dir.path().join("root"), &["/etc", "/srv"]);
        config.originals = Some(dir.path().join("originals"));
        config.commands = Some(BTreeMap::new());
        change(&mut config);
        let provider = open("host", config).unwrap();
        let secrets = [(SecretRef::Named("key".into()), SECRET.as_bytes().to_vec())];
        let cx = cx_with(TableSecrets(secrets.into()));
        Desk { dir, provider, cx, scope: Scope::new("host", "files"), tracked: Mutex::default() }
    }
    /// The same desk, for units.
    pub(crate) fn of_units(mut self) -> Desk {
        self.scope = Scope::new("host", "systemd");
        self
    }

    /// Where a path of the machine really is.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join("root").join(path.trim_start_matches('/'))
    }
    pub(crate) fn write(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).unwrap();
    }
    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }
    pub(crate) fn mode(&self, path: &str) -> u32 {
        fs::symlink_metadata(self.path(path)).unwrap().mode() & 0o7777
    }
    pub(crate) fn chmod(&self, path: &str, mode: u32) {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    /// Names in a directory, drafts included.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
    /// Contents of all copies that were kept.
    pub(crate) fn originals(&self) -> Vec<String> {
        let Ok(paths) = fs::read_dir(self.dir.path().join("originals")) else { return Vec::new() };
        let files = paths.flat_map(|path| fs::read_dir(path.unwrap().path()).unwrap());
        let mut texts: Vec<_> = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
        texts.sort();
        texts
    }

    /// Resources and problems of manifests, written as `KIND {spec}` or `{spec}` of a File.
    pub(crate) fn normalize(&self, specs: &[&str]) -> (Vec<Resource>, Vec<Problem>) {
        let (mut resources, mut problems) = (Vec::new(), Vec::new());
        for spec in specs {
            let normalized = self.normalize_one(spec);
            resources.extend(normalized.resources);
            problems.extend(normalized.problems);
        }
        resources.sort_by(|a, b| a.id.cmp(&b.id));
        (resources, problems)
    }
    pub(crate) fn normalize_one(&self, spec: &str) -> Normalized {
        let (head, spec) = spec.split_at(spec.find('{').unwrap());
        let (kind, name) = match head.trim().split_once(' ') {
            Some((kind, name)) => (kind, name),
            None if head.trim().is_empty() => ("File", "x"),
            None => (head.trim(), "x"),
        };
        let group = if kind == "Unit" { "systemd" } else { "local" };
        let file = Arc::new(SourceFile::new("file.yaml", spec));
        let node = yaml::parse(&file, yaml::Limits::default()).unwrap().remove(0);
        let manifest = Manifest {
            index: 0,
            key: ManifestKey::new("infra", group, kind, "", name),
            api_version: format!("{group}/v1").into(),
            kind: kind.into(),
            name: name.into(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            providers: None,
            policy: Policy::default(),
            file,
            span: node.span,
            spec: node,
        };
        let inputs = TestInputs { cx: &self.cx, scopes: BTreeSet::new(), policies: RefCell::default() };
        self.provider.normalize(&Kinds::default(), &manifest, &inputs)
    }
    #[track_caller]
    pub(crate) fn desired(&self, specs: &[&str]) -> Vec<Resource> {
        let (resources, problems) = self.normalize(specs);
        assert!(problems.is_empty(), "{problems:?}");
        resources
    }

    pub(crate) async fn observe(&self, desired: &[Resource]) -> Observation {
        self.try_observe(desired).await.unwrap()
    }
    pub(crate) async fn try_observe(&self, desired: &[Resource]) -> Result<Observation, Error> {
        let tracked: Vec<Tracked> = self.tracked.lock().unwrap().values().cloned().collect();
        let scope = self.scope.clone();
        let want = Want { scope: &scope, focus: &Focus::All, desired, tracked: &tracked, claims: &[] };
        self.provider.observe(&self.cx, &want).await
    }

    /// How what is declared fares.
    pub(crate) async fn health(&self, desired: &[Resource]) -> Vec<Health> {
        let want = Want { scope: &self.scope, focus: &Focus::All, desired, tracked: &[], claims: &[] };
        let told = self.provider.health(&self.cx, &want).await.unwrap();
        told.into_iter().map(|(_, health)| health).collect()
    }

    /// What is to be done, and what cannot be: the error of each resource.
    pub(crate) async fn plan(&self, desired: &[Resource]) -> (Batch, Vec<String>, Vec<String>) {
        let seen = self.observe(desired).await;
        let rows = self.tracked.lock().unwrap().clone();
        let scope = self.scope.clone();
        let want = Want { scope: &scope, focus: &Focus::All, desired, tracked: &[], claims: &[] };
        let deltas = self.provider.diff(&self.cx, &want, &seen).await.unwrap();
        let (mut ops, mut errors, mut fields) = (Vec::new(), Vec::new(), Vec::new());
        for resource in desired {
            let tracked = rows.get(&resource.id).cloned();
            match (seen.get(&resource.id).cloned(), deltas.get(&resource.id)) {
                (_, Some(Err(error))) => errors.push(format!("{}: {}", error.kind.word(), error.chain())),
                (None, _) => ops.push(Op::Create { desired: resource.clone(), delta: Delta::default() }),
                (Some(observed), Some(Ok(delta))) => {
                    fields.extend(
                        delta.fields.iter().map(|f| format!("{} {:?} {:?}", f.path, f.before, f.after)),
                    );
                    let (desired, delta) = (resource.clone(), delta.clone());
                    ops.push(Op::Update { desired, delta, observed, tracked });
                }
                (Some(observed), None) => {
                    let mut tracked =
                        tracked.unwrap_or_else(|| Tracked::new(resource.id.clone(), observed.hash));
                    tracked.private = observed.private;
                    self.tracked.lock().unwrap().insert(resource.id.clone(), tracked);
                }
            }
        }
        for (id, row) in rows.iter().filter(|(id, _)| !desired.iter().any(|r| r.id == **id)) {
            match seen.get(id).cloned() {
                Some(observed) => ops.push(Op::Delete { observed, tracked: Some(row.clone()) }),
                None => drop(self.tracked.lock().unwrap().remove(id)),
            }
        }
        let action = |(i, op): (usize, Op)| Action { id: ActionId(i as u64), token: "t".into(), op };
        let actions = ops.into_iter().enumerate().map(action).collect();
        (Batch { scope, base: seen.version, actions }, errors, fields)
    }

    pub(crate) async fn apply(&self, batch: &Batch) -> Vec<String> {
        let notes = Notes::default();
        self.provider.apply(&self.cx, batch, &notes).await.unwrap();
        let mut done = Vec::new();
        for (id, outcome) in notes.0.into_inner().unwrap() {
            let op = &batch.actions.iter().find(|action| action.id == id).unwrap().op;
            let mut rows = self.tracked.lock().unwrap();
            match &outcome {
                Outcome::Done(tracked) => drop(rows.insert(op.id().clone(), tracked.clone())),
                Outcome::Gone => drop(rows.remove(op.id())),
                _ => {}
            }
            let error = outcome.error().map(|e| format!(": {}: {}", e.kind.word(), e.chain()));
            done.push(format!("{} {}: {}{}", op.word(), op.id(), outcome.word(), error.unwrap_or_default()));
        }
        done
    }

    /// One pass.
    #[track_caller]
    pub(crate) fn pass(&self, specs: &[&str]) -> impl Future<Output = Pass> {
        let desired = self.desired(specs);
        async move {
            let (batch, errors, fields) = self.plan(&desired).await;
            let mut done = self.apply(&batch).await;
            done.extend(errors);
            Pass { done, fields }
        }
    }
}

/// Outcomes in the order they came.
#[derive(Default)]
struct Notes(Mutex<Vec<(ActionId, Outcome)>>);

#[async_trait]
impl Journal for Notes {
    async fn started(&self, _: &[ActionId]) -> Result<(), Error> {
        Ok(())
    }
    async fn progress(&self, _: ActionId, _: Tracked) -> Result<(), Error> {
        Ok(())
    }
    async fn finished(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        self.0.lock().unwrap().extend(outcomes);
        Ok(())
    }
}

struct TestInputs<'a> {
    cx: &'a Cx,
    scopes: BTreeSet<Scope>,
    policies: RefCell<Policies>,
}

impl Inputs for TestInputs<'_> {
    fn entry(&self) -> &str {
        "host"
    }
    fn is_sole(&self) -> bool {
        true
    }
    fn blob(&self, path: &str) -> Result<Bytes, Error> {
        match path {
            "files/page.html" => Ok(Bytes::from_static(b"<p>\n")),
            path => Err(Error::invalid(format!("there is no file `{path}` in the repository"))),
        }
    }
    fn secret(&self, reference: &SecretRef) -> Result<SecretMark, Error> {
        Ok(self.cx.secrets.mark(self.cx.secrets.reveal(reference)?.reveal()))
    }
    fn output(&self, _: &Reference) -> Value {
        Value::Unknown
    }
    fn scopes(&self) -> &BTreeSet<Scope> {
        &self.scopes
    }
    fn siblings(&self, _: &str) -> Vec<&Manifest> {
        Vec::new()
    }
    fn policy(&self, policy: Policy) -> PolicyId {
        self.policies.borrow_mut().intern(policy)
    }
}
