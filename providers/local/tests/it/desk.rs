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
    time::{Duration, SystemTime},
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
    /// What is on its way.
    pending: Mutex<BTreeSet<ResourceId>>,
}

/// What one pass did: `create /etc/a: done`, in order; and the fields of its deltas.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(crate) done: Vec<String>,
    pub(crate) fields: Vec<String>,
}

/// `${Queue/jobs:ttl}` is a reference whose value nobody knows yet.
fn without_values(node: &mut Node) {
    match &mut node.value {
        yaml::NodeValue::Scalar(text, kind) if text.contains("${Queue/jobs:ttl}") => {
            let target = ManifestKey::new("infra", "aws", "Queue", "", "jobs");
            *kind = yaml::ScalarKind::Unknown([Reference { target, path: "ttl".into() }].into());
        }
        yaml::NodeValue::Seq(nodes) => nodes.iter_mut().for_each(without_values),
        yaml::NodeValue::Map(entries) => entries.iter_mut().for_each(|(_, value)| without_values(value)),
        _ => {}
    }
}

fn manifest(spec: &str) -> Manifest {
    let (head, spec) = spec.split_at(spec.find('{').unwrap());
    let mut words = head.split_whitespace();
    let (kind, name) = (words.next().unwrap_or("File"), words.next().unwrap_or("x"));
    let labels = words.filter_map(|word| word.split_once('='));
    let group = match kind {
        "Unit" | "Deployment" | "LoadBalancer" => "systemd",
        _ => "local",
    };
    let file = Arc::new(SourceFile::new("file.yaml", spec));
    let mut node = yaml::parse(&file, yaml::Limits::default()).unwrap().remove(0);
    without_values(&mut node);
    Manifest {
        index: 0,
        key: ManifestKey::new("infra", group, kind, "", name),
        api_version: format!("{group}/v1").into(),
        kind: kind.into(),
        name: name.into(),
        labels: labels.map(|(key, value)| (key.into(), value.into())).collect(),
        annotations: BTreeMap::new(),
        providers: None,
        policy: Policy::default(),
        file,
        span: node.span,
        spec: node,
    }
}

/// Time as it passes: what waits here waits for real services, and systemd says when they began.
struct Wall;

#[async_trait]
impl Clock for Wall {
    #[expect(clippy::disallowed_methods, reason = "it is the clock")]
    fn now(&self) -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
    }
    async fn sleep(&self, wait: Duration) {
        tokio::time::sleep(wait).await;
    }
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
        let mut cx = cx_with(TableSecrets(secrets.into()));
        cx.clock = Arc::new(Wall);
        Desk {
            dir,
            provider,
            cx,
            scope: Scope::new("host", "files"),
            tracked: Mutex::default(),
            pending: Mutex::default(),
        }
    }
    /// The same desk, for another scope.
    pub(crate) fn of(mut self, scope: &str) -> Desk {
        self.scope = Scope::new("host", scope);
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

    /// Resources and problems of manifests, written as `KIND NAME LABEL=VALUE {spec}`, `KIND {spec}` or `{spec}` of a File.
    pub(crate) fn normalize(&self, specs: &[&str]) -> (Vec<Resource>, Vec<Problem>) {
        let (mut resources, mut problems) = (Vec::new(), Vec::new());
        let manifests: Vec<Manifest> =
            (0..).zip(specs).map(|(index, spec)| Manifest { index, ..manifest(spec) }).collect();
        for manifest in &manifests {
            let normalized = self.normalize_among(manifest, &manifests);
            resources.extend(normalized.resources);
            problems.extend(normalized.problems);
        }
        resources.sort_by(|a, b| a.id.cmp(&b.id));
        (resources, problems)
    }
    pub(crate) fn normalize_one(&self, spec: &str) -> Normalized {
        let manifest = manifest(spec);
        self.normalize_among(&manifest, std::slice::from_ref(&manifest))
    }
    /// The same of each of several that stand beside each other.
    pub(crate) fn normalize_all(&self, specs: &[&str]) -> Vec<Normalized> {
        let manifests: Vec<Manifest> = specs.iter().map(|spec| manifest(spec)).collect();
        manifests.iter().map(|manifest| self.normalize_among(manifest, &manifests)).collect()
    }
    fn normalize_among(&self, manifest: &Manifest, all: &[Manifest]) -> Normalized {
        let others = all.iter().filter(|other| other.key != manifest.key).collect();
        let inputs =
            TestInputs { cx: &self.cx, scopes: BTreeSet::new(), others, policies: RefCell::default() };
        self.provider.normalize(&Kinds::default(), manifest, &inputs)
    }
    #[track_caller]
    pub(crate) fn desired(&self, specs: &[&str]) -> Vec<Resource> {
        let (resources, problems) = self.normalize(specs);
        assert!(!problems.iter().any(Problem::is_error), "{problems:?}");
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

    /// The same, with what is remembered.
    pub(crate) async fn health_of_all(&self, desired: &[Resource]) -> Vec<Health> {
        let tracked: Vec<Tracked> = self.tracked.lock().unwrap().values().cloned().collect();
        let want = Want { scope: &self.scope, focus: &Focus::All, desired, tracked: &tracked, claims: &[] };
        let told = self.provider.health(&self.cx, &want).await.unwrap();
        told.into_iter().map(|(_, health)| health).collect()
    }

    /// How what was seen differs.
    pub(crate) async fn deltas(&self, desired: &[Resource]) -> Deltas {
        let seen = self.observe(desired).await;
        let want = Want { scope: &self.scope, focus: &Focus::All, desired, tracked: &[], claims: &[] };
        self.provider.diff(&self.cx, &want, &seen).await.unwrap()
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
            if let Some(tracked) =
                tracked.clone().filter(|row| self.pending.lock().unwrap().contains(&row.id))
            {
                let (desired, observed) = (resource.clone(), seen.get(&resource.id).cloned());
                ops.push(Op::Continue {
                    desired,
                    tracked: tracked.into(),
                    observed: observed.map(Into::into),
                    claims: Vec::new(),
                });
                continue;
            }
            match (seen.get(&resource.id).cloned(), deltas.get(&resource.id)) {
                (_, Some(Err(error))) => errors.push(format!("{}: {}", error.kind.word(), error.chain())),
                (None, _) => ops.push(Op::Create { desired: resource.clone(), delta: Default::default() }),
                (Some(observed), Some(Ok(delta))) => {
                    fields.extend(
                        delta.fields.iter().map(|f| format!("{} {:?} {:?}", f.path, f.before, f.after)),
                    );
                    let (desired, delta) = (resource.clone(), delta.clone());
                    ops.push(Op::Update {
                        desired,
                        delta: delta.into(),
                        observed: observed.into(),
                        tracked: tracked.map(Box::new),
                    });
                }
                (Some(observed), None) => {
                    // Adopted, with what was seen; a row that is there stays as it is, as the engine has it.
                    let adopted = || {
                        let new = Tracked::new(resource.id.clone(), observed.hash);
                        Tracked { private: observed.private.clone(), ..new }
                    };
                    let mut tracked = tracked.unwrap_or_else(adopted);
                    if !observed.outputs.is_empty() {
                        tracked.outputs = observed.outputs;
                    }
                    self.tracked.lock().unwrap().insert(resource.id.clone(), tracked);
                }
            }
        }
        for (id, row) in rows.iter().filter(|(id, _)| !desired.iter().any(|r| r.id == **id)) {
            match seen.get(id).cloned() {
                Some(observed) => {
                    ops.push(Op::Delete { observed: observed.into(), tracked: Some(row.clone().into()) })
                }
                None => drop(self.tracked.lock().unwrap().remove(id)),
            }
        }
        let action = |(i, op): (usize, Op)| Action { id: ActionId(i as u64), token: "t".into(), op };
        let actions = ops.into_iter().enumerate().map(action).collect();
        (Batch { scope, base: seen.version, actions }, errors, fields)
    }

    pub(crate) async fn apply(&self, batch: &Batch) -> Vec<String> {
        self.try_apply(batch, Notes::default()).await.unwrap()
    }
    /// As [`Desk::apply`]; the error is that of a journal that is no more.
    async fn try_apply(&self, batch: &Batch, notes: Notes) -> Result<Vec<String>, Error> {
        let result = self.provider.apply(&self.cx, batch, &notes).await;
        for (id, tracked) in notes.1.into_inner().unwrap() {
            let op = &batch.actions.iter().find(|action| action.id == id).unwrap().op;
            self.pending.lock().unwrap().insert(op.id().clone());
            self.tracked.lock().unwrap().insert(op.id().clone(), tracked);
        }
        let mut done = Vec::new();
        let mut outcomes = notes.0.into_inner().unwrap();
        if matches!(&*self.scope.name, "systemd" | "cron") {
            // Jobs end when they end.
            outcomes.sort_by_key(|(id, _)| id.0);
        }
        for (id, outcome) in outcomes {
            let op = &batch.actions.iter().find(|action| action.id == id).unwrap().op;
            let mut rows = self.tracked.lock().unwrap();
            match &outcome {
                Outcome::Done(tracked) | Outcome::Partial(tracked, _) => {
                    self.pending.lock().unwrap().remove(op.id());
                    rows.insert(op.id().clone(), tracked.clone());
                }
                Outcome::Back(tracked, _) => {
                    self.pending.lock().unwrap().remove(op.id());
                    rows.insert(op.id().clone(), tracked.clone());
                }
                Outcome::Pending { tracked, .. } => {
                    self.pending.lock().unwrap().insert(op.id().clone());
                    rows.insert(op.id().clone(), tracked.clone());
                }
                Outcome::Gone => drop(rows.remove(op.id())),
                _ => {}
            }
            let error = outcome.error().map(|e| format!(": {}: {}", e.kind.word(), e.chain()));
            done.push(format!("{} {}: {}{}", op.word(), op.id(), outcome.word(), error.unwrap_or_default()));
        }
        result.map(|()| done)
    }

    /// One pass of a process that dies at the `nth` call of the journal that ends or goes on with something; true where
    /// it lived.
    pub(crate) async fn pass_dying(&self, specs: &[&str], nth: usize) -> bool {
        let (batch, _, _) = self.plan(&self.desired(specs)).await;
        let notes = Notes(Mutex::default(), Mutex::default(), Some(nth).into());
        self.try_apply(&batch, notes).await.is_ok()
    }
    /// True where it is remembered.
    pub(crate) fn is_tracked(&self, id: &str) -> bool {
        self.tracked.lock().unwrap().contains_key(&ResourceId::from(id))
    }
    /// Nothing is remembered of it from now on; what is there stays.
    pub(crate) fn forget(&self, id: &str) {
        self.tracked.lock().unwrap().remove(&ResourceId::from(id));
    }
    /// What is remembered of it.
    pub(crate) fn row(&self, id: &str) -> Option<Tracked> {
        self.tracked.lock().unwrap().get(&ResourceId::from(id)).cloned()
    }
    /// What is put out for others, as last seen.
    pub(crate) fn outputs(&self, id: &str) -> serde_json::Value {
        let rows = self.tracked.lock().unwrap();
        serde_json::from_slice(&rows[&ResourceId::from(id)].outputs.0).unwrap_or_default()
    }
    /// What a person is told besides.
    pub(crate) async fn facts(&self) -> Vec<String> {
        let facts = self.provider.facts(&self.cx, &self.scope).await.unwrap();
        facts.into_iter().map(|fact| format!("{}: {}", fact.name, fact.value)).collect()
    }
    /// True while something is on its way.
    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.lock().unwrap().is_empty()
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
struct Notes(Mutex<Vec<(ActionId, Outcome)>>, Mutex<Vec<(ActionId, Tracked)>>, Mutex<Option<usize>>);

impl Notes {
    /// The process dies here, or it lives on.
    fn tick(&self) -> Result<(), Error> {
        match &mut *self.2.lock().unwrap() {
            Some(0) => Err(Error::unexpected("this process is dead")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Journal for Notes {
    async fn started(&self, _: &[ActionId]) -> Result<(), Error> {
        Ok(())
    }
    async fn progress(&self, action: ActionId, tracked: Tracked) -> Result<(), Error> {
        self.1.lock().unwrap().push((action, tracked));
        self.tick()
    }
    async fn finished(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        self.tick()?;
        self.0.lock().unwrap().extend(outcomes);
        Ok(())
    }
}

struct TestInputs<'a> {
    cx: &'a Cx,
    scopes: BTreeSet<Scope>,
    others: Vec<&'a Manifest>,
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
    fn secret_of(&self, _: &Manifest, reference: &SecretRef) -> Result<SecretMark, Error> {
        self.secret(reference)
    }
    fn output(&self, _: &Reference) -> Value {
        Value::Unknown
    }
    fn scopes(&self) -> &BTreeSet<Scope> {
        &self.scopes
    }
    fn siblings(&self, kind: &str) -> Vec<&Manifest> {
        self.others.iter().copied().filter(|other| &*other.kind == kind).collect()
    }
    fn policy(&self, policy: Policy) -> PolicyId {
        self.policies.borrow_mut().intern(policy)
    }
}
