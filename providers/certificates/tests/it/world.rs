//! A desk with one certificate, driven as the engine drives it.

use crate::authority::{Authority, BEGIN};
use async_trait::async_trait;
use rcgen::{CertificateParams, KeyPair};
use reconciled_certificates::{
    Config,
    config::Limits,
    kept::Keep,
    open,
    place::{Here, Place},
    wish::{self, Issue, KeyKind, Output, Renew, Solver, Wish},
};
use reconciled_provider::{
    Action, ActionId, Batch, Claim, ClaimState, Cx, Error, Fact, FieldChange, Focus, Hash, Health, Hint,
    Journal, OWNER_FIELD, Observed, Op, Origin, Outcome, PolicyId, Provider, Renewal, Resource, Scope,
    Sealed, SecretRef, Spec, Tracked, Version, Want,
};
use reconciled_testkit::context::{HandClock, TableSecrets};
use std::{
    any::Any,
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

/// The desk.
pub(crate) struct Desk {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) cx: Cx,
    pub(crate) clock: Arc<HandClock>,
    pub(crate) wish: Wish,
    /// Where challenges are answered, over HTTP and in TLS.
    pub(crate) listen: SocketAddr,
    pub(crate) listen_tls: SocketAddr,
    /// What is claimed and carried out: the specs of records. An outcome says which ones stand from then on; an error, and a
    /// process that dies, leave them as they are.
    pub(crate) records: Arc<Mutex<BTreeMap<String, String>>>,
    /// Whose limits are kept.
    pub(crate) limits: Option<Limits>,
    /// No zone takes the record that proves a name.
    pub(crate) lacks_place: bool,
    /// Told the name of each place at which the process may die.
    pub(crate) passed: fn(&str),
    /// Who puts certificates in place.
    pub(crate) place: Arc<dyn Place>,
    /// What the marks of directories call the instance.
    pub(crate) instance: &'static str,
    /// The command for services, where it is not a script that writes them down.
    pub(crate) reload: Option<Vec<String>>,
    /// The name of the entry, and of its directory; and those it had before.
    name: &'static str,
    former: Vec<String>,
    provider: Arc<dyn Provider>,
}

#[derive(Default)]
struct Notes {
    outcome: Mutex<Option<Outcome>>,
    lacks_place: bool,
}

#[async_trait]
impl Journal for Notes {
    async fn started(&self, _: &[ActionId]) -> Result<(), Error> {
        Ok(())
    }
    async fn progress(&self, _: ActionId, _: Tracked) -> Result<(), Error> {
        Ok(())
    }
    async fn finished(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        *self.outcome.lock().unwrap() = outcomes.into_iter().next().map(|(_, outcome)| outcome);
        Ok(())
    }
    fn has_place(&self, _: ActionId, claims: &[Claim]) -> Result<(), Error> {
        match claims.first() {
            Some(claim) if self.lacks_place => {
                let spec = String::from_utf8(claim.spec.to_vec()).unwrap();
                Err(Error::invalid(format!("no zone holds {spec}")).hint("declare one"))
            }
            _ => Ok(()),
        }
    }
}

impl Desk {
    /// A desk at which `web` shall be had from `authority`.
    pub(crate) fn new(authority: &Authority) -> Desk {
        // Others may write to the usual place, so no certificate is put there.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let clock = Arc::new(HandClock::default());
        clock.advance(Duration::from_secs(BEGIN + 60));
        let cx = Cx {
            clock: clock.clone(),
            secrets: Arc::new(TableSecrets::default()),
            ..reconciled_testkit::context::cx()
        };
        let directory = dir.path().join("out/web").display().to_string();
        let authority = wish::Authority {
            server: format!("{}/dir", authority.url),
            email: None,
            bundle: None,
            binding: None,
            binding_mark: None,
            lacks_binding_key: false,
            rotate: None,
            profile: None,
            profile_at_once: false,
            preferred_chain: None,
            solvers: vec![("a.example".into(), Solver::Http)],
            others: Vec::new(),
        };
        let wish = Wish {
            issuer: Issue::Acme(Box::new(authority)),
            others: Vec::new(),
            issuer_names: vec!["first".into(), "second".into()],
            names: ["a.example".to_owned()].into(),
            addresses: [].into(),
            common_name: None,
            key: KeyKind::Ecdsa(256),
            keep_key: false,
            usages: [].into(),
            is_ca: false,
            duration: 0,
            renew: Renew::Usual,
            output: Output { directory, mode: 0o600, ..Output::default() },
            reload: [].into(),
            escalate: false,
            serve: [].into(),
        };
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let (name, former) = ("cert", Vec::new());
        let place: Arc<dyn Place> = Arc::new(Here);
        let provider = open(name, config(&dir, name, [listen; 2])).unwrap();
        let records = Arc::default();
        let (listen_tls, limits, instance) = (listen, None, HERE);
        Desk {
            dir,
            cx,
            clock,
            wish,
            listen,
            listen_tls,
            records,
            limits,
            lacks_place: false,
            passed: |_| {},
            place,
            instance,
            reload: None,
            name,
            former,
            provider,
        }
    }

    /// The entry has another name from now on.
    pub(crate) fn rename(&mut self, name: &'static str, former: &str) {
        (self.name, self.former) = (name, vec![former.into()]);
        self.restart();
    }

    /// From now on it is another instance, which keeps nothing yet; what this one keeps lies in `at` from now on.
    pub(crate) fn become_another(&mut self, instance: &'static str, at: &str) {
        fs::rename(self.dir.path().join("state"), self.dir.path().join(at)).unwrap();
        self.instance = instance;
        self.restart();
    }

    /// As a process that has just started has it.
    pub(crate) fn restart(&mut self) {
        let mut config = config(&self.dir, self.name, [self.listen, self.listen_tls]);
        (config.limits, config.former, config.passed) = (self.limits, self.former.clone(), self.passed);
        (config.place, config.instance) = (self.place.clone(), self.instance.into());
        if let Some(reload) = &self.reload {
            config.reload = reload.clone();
        }
        self.provider = open(self.name, config).unwrap();
    }

    pub(crate) fn keep(&self) -> Keep {
        Keep::new(self.name, self.dir.path().join(state_of(self.name)))
    }

    fn desired(&self) -> Resource {
        Resource::new(
            "web".into(),
            Arc::new(Scope::new("cert", "web")),
            Spec::known(self.wish.encode()),
            Origin { manifest: 0, line: 1 },
            PolicyId::default(),
        )
    }

    /// What is there.
    pub(crate) async fn observe(&self) -> Option<Observed> {
        let (scope, desired) = (Scope::new("cert", "web"), [self.desired()]);
        let want = Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked: &[], claims: &[] };
        self.provider.observe(&self.cx, &want).await.unwrap().resources.pop()
    }

    /// What is there of what is tracked, as it was declared.
    pub(crate) async fn observe_tracked(&self) -> Option<Observed> {
        let (scope, desired) = (Scope::new("cert", "web"), [self.desired()]);
        let tracked = [Tracked::new("web".into(), desired[0].spec.hash().unwrap())];
        let want =
            Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked: &tracked, claims: &[] };
        self.provider.observe(&self.cx, &want).await.unwrap().resources.pop()
    }

    /// What is there of what is tracked with these outputs, as a pass looks at it.
    pub(crate) async fn look_as_a_pass(&self, outputs: &Sealed) -> Result<Option<Observed>, Error> {
        let (scope, desired) = (Scope::new("cert", "web"), [self.desired()]);
        let mut tracked = Tracked::new("web".into(), desired[0].spec.hash().unwrap());
        tracked.outputs = outputs.clone();
        let tracked = [tracked];
        let want =
            Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked: &tracked, claims: &[] };
        Ok(self.provider.observe(&self.cx, &want).await?.resources.pop())
    }

    /// Looks at many from now on, as a pass does, until what is returned is dropped.
    pub(crate) fn sweep(&self) -> Option<Box<dyn Any + Send>> {
        self.provider.sweep(&self.cx, &[Scope::new("cert", "web")])
    }

    /// True when a pass finds it as declared.
    pub(crate) async fn is_as_declared(&self, outputs: &Sealed) -> bool {
        let seen = self.look_as_a_pass(outputs).await;
        seen.is_ok_and(|seen| seen.is_some_and(|seen| Some(seen.hash) == self.desired().spec.hash()))
    }

    /// What is there of what is tracked, for a plan that leaves it out.
    pub(crate) async fn look_undeclared(&self) -> Option<Observed> {
        let scope = Scope::new("cert", "web");
        let tracked = [Tracked::new("web".into(), self.desired().spec.hash().unwrap())];
        let want = Want { scope: &scope, focus: &Focus::All, desired: &[], tracked: &tracked, claims: &[] };
        self.provider.observe(&self.cx, &want).await.unwrap().resources.pop()
    }

    /// True when it is not as declared, and nobody changed anything.
    pub(crate) async fn is_due(&self) -> bool {
        let seen = self.observe().await.unwrap();
        self.provider.compare(&self.desired(), &seen).unwrap().is_due
    }

    /// What is told of it.
    pub(crate) async fn facts(&self) -> Vec<Fact> {
        self.provider.facts(&self.cx, &Scope::new("cert", "web")).await.unwrap()
    }

    /// When it ends, as it is told to who counts it.
    pub(crate) async fn end(&self) -> Option<Duration> {
        let endings = self.provider.endings(&self.cx, &Scope::new("cert", "web")).await.unwrap();
        endings.first().map(|ending| ending.at)
    }

    /// How it fares.
    pub(crate) async fn health(&self) -> Health {
        let (scope, desired) = (Scope::new("cert", "web"), [self.desired()]);
        let want = Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked: &[], claims: &[] };
        self.provider.health(&self.cx, &want).await.unwrap().pop().unwrap().1
    }

    /// True where it is kept and well.
    pub(crate) async fn is_healthy(&self) -> bool {
        let (scope, desired) = (Scope::new("cert", "web"), [self.desired()]);
        let want = Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked: &[], claims: &[] };
        let told = self.provider.health(&self.cx, &want).await.unwrap();
        told.iter().any(|(_, health)| matches!(health, Health::Healthy))
    }

    /// How it fares while no manifest that can be read declares it, where there is anything to say.
    pub(crate) async fn health_undeclared(&self) -> Option<Health> {
        let scope = Scope::new("cert", "web");
        let tracked = [Tracked::new("web".into(), self.desired().spec.hash().unwrap())];
        let want = Want { scope: &scope, focus: &Focus::All, desired: &[], tracked: &tracked, claims: &[] };
        self.provider.health(&self.cx, &want).await.unwrap().pop().map(|(_, health)| health)
    }

    /// Why no plan makes it, where none does.
    pub(crate) async fn refusal(&self) -> Option<Error> {
        let (scope, desired) = (Scope::new("cert", "web"), [self.desired()]);
        let want = Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked: &[], claims: &[] };
        let seen = self.provider.observe(&self.cx, &want).await.unwrap();
        let mut deltas = self.provider.diff(&self.cx, &want, &seen).await.unwrap();
        deltas.remove(&desired[0].id)?.err()
    }

    /// True when it is as declared.
    pub(crate) async fn is_in_sync(&self) -> bool {
        self.observe().await.is_some_and(|seen| Some(seen.hash) == self.desired().spec.hash())
    }

    /// One pass.
    pub(crate) async fn pass(&self) -> Outcome {
        let desired = self.desired();
        let op = match self.observe().await {
            None => Op::Create { desired, delta: Default::default() },
            Some(observed) => {
                let delta = self.provider.compare(&desired, &observed).unwrap_or_default();
                Op::Update { desired, delta: delta.into(), observed: observed.into(), tracked: None }
            }
        };
        self.carry_out(op).await
    }

    /// One pass, after a person said that it is taken over from the instance whose mark it bears.
    pub(crate) async fn pass_with_consent(&self) -> Outcome {
        let (desired, observed) = (self.desired(), self.observe().await.unwrap());
        let mut delta = self.provider.compare(&desired, &observed).unwrap_or_default();
        delta.fields.push(FieldChange::text(OWNER_FIELD, None, Some("this instance".into())));
        let op = Op::Update { desired, delta: delta.into(), observed: observed.into(), tracked: None };
        self.carry_out(op).await
    }

    /// One pass, where there may be none: looking fails.
    pub(crate) async fn try_pass(&self) -> Option<Outcome> {
        let (scope, desired) = (Scope::new("cert", "web"), [self.desired()]);
        let want = Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked: &[], claims: &[] };
        self.provider.observe(&self.cx, &want).await.ok()?;
        let [desired] = desired;
        Some(self.carry_out(Op::Create { desired, delta: Default::default() }).await)
    }

    /// A pass once nothing is declared.
    pub(crate) async fn delete(&self) -> Outcome {
        let observed = self.look("web", false).await.unwrap();
        self.carry_out(Op::Delete { observed: observed.into(), tracked: None }).await
    }

    /// A pass once the certificate `name` is not declared any more, of which nothing but a wait is there.
    pub(crate) async fn delete_of(&self, name: &str) -> Outcome {
        let observed = Observed::new(name.into(), Vec::new());
        self.carry_out_in(Scope::new("cert", name), Op::Delete { observed: observed.into(), tracked: None })
            .await
    }

    /// A step after an outcome that was `Pending`, with a record that is there.
    pub(crate) async fn go_on(&self) -> Outcome {
        let desired = self.desired();
        let tracked = Tracked::new(desired.id.clone(), desired.spec.hash().unwrap());
        let claims =
            vec![ClaimState { owner: "web".into(), key: "record".into(), synced: true, health: None }];
        self.carry_out(Op::Continue { desired, tracked: tracked.into(), observed: None, claims }).await
    }

    /// What comes to be looked at by itself.
    pub(crate) fn hints(&self) -> futures_core::stream::BoxStream<'static, Hint> {
        self.provider.hints()
    }

    /// Looks at the certificate `name`, which is declared as `web` is, or not at all.
    pub(crate) async fn look(&self, name: &str, is_declared: bool) -> Option<Observed> {
        let scope = Scope::new("cert", name);
        let desired = self.desired().with(|resource| {
            resource.id = name.into();
            resource.scope = Arc::new(scope.clone());
        });
        let desired = if is_declared { vec![desired] } else { Vec::new() };
        let want = Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked: &[], claims: &[] };
        self.provider.observe(&self.cx, &want).await.unwrap().resources.pop()
    }

    /// A pass over the certificate `name`, which is declared as `web` is.
    pub(crate) async fn pass_of(&self, name: &str) -> Outcome {
        let scope = Scope::new("cert", name);
        let desired = self.desired().with(|resource| {
            resource.id = name.into();
            resource.scope = Arc::new(scope.clone());
        });
        self.carry_out_in(scope, Op::Create { desired, delta: Default::default() }).await
    }

    /// A certificate of the host with these `params` signs what is wanted, for a day. Returns it.
    pub(crate) fn be_signed_by(&mut self, params: CertificateParams) -> String {
        let key = KeyPair::generate().unwrap();
        let cert = params.self_signed(&key).unwrap().pem();
        let secret = |name: &str| SecretRef::Named(name.into());
        let table =
            [(secret("ca"), cert.clone().into_bytes()), (secret("key"), key.serialize_pem().into_bytes())];
        self.cx = Cx { secrets: Arc::new(TableSecrets(table.into())), ..self.cx.clone() };
        self.wish.duration = 86_400;
        self.wish.issuer =
            Issue::Secret { cert: "ca".into(), key: "key".into(), mark: Hash::of(cert.as_bytes()) };
        cert
    }

    /// A person wants another one.
    pub(crate) async fn renew(&self) {
        self.renew_by(&Renewal::default()).await.unwrap();
    }

    /// A person wants another one, in this way.
    pub(crate) async fn renew_by(&self, way: &Renewal) -> Result<(), Error> {
        self.provider.renew(&self.cx, &Scope::new("cert", "web"), &"web".into(), way).await
    }

    async fn carry_out(&self, op: Op) -> Outcome {
        self.carry_out_in(Scope::new("cert", "web"), op).await
    }

    async fn carry_out_in(&self, scope: Scope, op: Op) -> Outcome {
        let actions = vec![Action { id: ActionId(1), token: "token".into(), op }];
        let batch = Batch { scope, base: Version::Unknown, actions };
        let notes = Notes { lacks_place: self.lacks_place, ..Notes::default() };
        self.provider.apply(&self.cx, &batch, &notes).await.unwrap();
        notes.outcome.into_inner().unwrap().unwrap()
    }

    /// As [`Desk::passes`], with what it claims carried out between them, as the engine does it: what stands was claimed by
    /// the last outcome that was no error, also that of a process that died since.
    pub(crate) async fn carried(&self, most: usize) -> Outcome {
        let mut last = self.carry_on().await;
        for _ in 1..most {
            let wait = match &last {
                Outcome::Done(_) => return last,
                Outcome::Pending { recheck_after, .. } => *recheck_after,
                other => other.error().and_then(|error| error.retry_after).unwrap_or(Duration::from_secs(1)),
            };
            self.clock.advance(wait);
            last = self.carry_on().await;
        }
        last
    }

    /// A pass, or a further step where something is claimed.
    async fn carry_on(&self) -> Outcome {
        let keys: Vec<String> = self.records.lock().unwrap().keys().cloned().collect();
        let outcome = match keys.is_empty() {
            true => self.pass().await,
            false => {
                let desired = self.desired();
                let tracked = Tracked::new(desired.id.clone(), desired.spec.hash().unwrap());
                let state = |key: &String| ClaimState {
                    owner: "web".into(),
                    key: key.as_str().into(),
                    synced: true,
                    health: None,
                };
                let claims = keys.iter().map(state).collect();
                self.carry_out(Op::Continue { desired, tracked: tracked.into(), observed: None, claims })
                    .await
            }
        };
        let claims: &[Claim] = match &outcome {
            Outcome::Pending { claims, .. } => claims,
            Outcome::Done(_) | Outcome::Gone => &[],
            _ => return outcome,
        };
        let spec = |claim: &Claim| String::from_utf8(claim.spec.to_vec()).unwrap();
        *self.records.lock().unwrap() =
            claims.iter().map(|claim| (claim.key.to_string(), spec(claim))).collect();
        outcome
    }

    /// Passes until it is done, at most so many, waiting as told between them.
    pub(crate) async fn passes(&self, most: usize) -> Outcome {
        let mut last = self.pass().await;
        for _ in 1..most {
            let wait = match &last {
                Outcome::Done(_) => return last,
                Outcome::Pending { recheck_after, .. } => *recheck_after,
                other => other.error().and_then(|error| error.retry_after).unwrap_or(Duration::from_secs(1)),
            };
            self.clock.advance(wait);
            last = self.pass().await;
        }
        last
    }
}

/// What the marks of directories call the instance, where nothing else is said.
const HERE: &str = "here";

/// Where the entry keeps what it has.
fn state_of(name: &str) -> &str {
    if name == "cert" { "state" } else { name }
}

fn config(dir: &tempfile::TempDir, name: &str, listen: [SocketAddr; 2]) -> Config {
    let path = dir.path().display().to_string();
    let mut config = Config::new(dir.path().join(state_of(name)), &[&path]);
    [config.listen, config.listen_tls] = listen;
    let script =
        format!("cd {path} && env >> environment && echo \"$1\" >> reloaded && test \"$1\" != bad.service");
    config.reload = ["sh", "-c", &script, "sh", "{unit}"].map(String::from).into();
    let restart = format!("cd {path} && echo \"$1\" >> restarted && test \"$1\" != stiff.service");
    config.restart = Some(["sh", "-c", &restart, "sh", "{unit}"].map(String::from).into());
    (config.timeout, config.instance) = (Duration::from_secs(10), HERE.into());
    config
}
