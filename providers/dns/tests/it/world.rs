//! What the engine gives a provider: a context, inputs, a journal, and the smallest planner that will do.

use async_trait::async_trait;
use bytes::Bytes;
use reconciled_provider::{
    Action, ActionId, Batch, Clock, Cx, Deltas, Error, Focus, Inputs, Journal, Manifest, ManifestKey,
    Observation, Op, Outcome, Pace, Policies, Policy, PolicyId, Problem, Provider, Reference, Resource,
    ResourceId, Scope, Secret, SecretMark, SecretRef, Secrets, SourceFile, Stop, Tracked, Want,
    manifest::Value, yaml,
};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

struct NoClock;

#[async_trait]
impl Clock for NoClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    async fn sleep(&self, _: Duration) {}
}

struct OneKey(&'static str);

impl Secrets for OneKey {
    fn reveal(&self, _: &SecretRef) -> Result<Secret, Error> {
        Ok(Secret::new(self.0.as_bytes().to_vec()))
    }
    fn mark(&self, clear: &[u8]) -> SecretMark {
        SecretMark(reconciled_provider::Hash::of(clear))
    }
}

/// A context in which every secret is `key`.
pub(crate) fn cx(key: &'static str) -> Cx {
    Cx {
        clock: Arc::new(NoClock),
        secrets: Arc::new(OneKey(key)),
        deadline: Duration::from_secs(60),
        stop: Stop::default(),
        pace: Pace::default(),
        answers: Default::default(),
        warnings: Default::default(),
    }
}

/// The time of day, and how many seconds it goes wrong.
struct DayClock(i64);

#[async_trait]
impl Clock for DayClock {
    #[expect(clippy::disallowed_methods, reason = "real servers compare it with theirs")]
    fn now(&self) -> Duration {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Duration::from_secs(now.as_secs().saturating_add_signed(self.0))
    }
    async fn sleep(&self, _: Duration) {}
}

/// A context in which every secret is `key` and the clock is `skew` seconds ahead.
pub(crate) fn cx_now(key: &'static str, skew: i64) -> Cx {
    Cx { clock: Arc::new(DayClock(skew)), ..cx(key) }
}

/// A journal in memory.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) started: Mutex<Vec<Vec<ActionId>>>,
    pub(crate) outcomes: Mutex<BTreeMap<ActionId, Outcome>>,
}

#[async_trait]
impl Journal for Notes {
    async fn started(&self, actions: &[ActionId]) -> Result<(), Error> {
        self.started.lock().unwrap().push(actions.to_vec());
        Ok(())
    }
    async fn progress(&self, _: ActionId, _: Tracked) -> Result<(), Error> {
        Ok(())
    }
    async fn finished(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        let started: HashSet<ActionId> = self.started.lock().unwrap().iter().flatten().copied().collect();
        for (id, outcome) in outcomes {
            assert!(started.contains(&id), "{id:?} finished before it was started");
            let earlier = self.outcomes.lock().unwrap().insert(id, outcome);
            assert!(earlier.is_none(), "{id:?} finished twice");
        }
        Ok(())
    }
}

impl Notes {
    /// The outcome of the action on `id`, as a word and its error.
    pub(crate) fn outcome(&self, batch: &Batch, id: &str) -> String {
        let action = batch.actions.iter().find(|action| &*action.op.id().0 == id).unwrap();
        match self.outcomes.lock().unwrap().get(&action.id) {
            None => "none".into(),
            Some(Outcome::Failed(error)) => format!("failed: {}: {error}", error.kind.word()),
            Some(Outcome::Unknown(error)) => format!("unknown: {}: {error}", error.kind.word()),
            Some(other) => other.word().into(),
        }
    }
    /// How many actions ended in each way.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for outcome in self.outcomes.lock().unwrap().values() {
            *counts.entry(outcome.word()).or_default() += 1;
        }
        counts
    }
}

struct TestInputs {
    entry: String,
    scopes: BTreeSet<Scope>,
    policies: RefCell<Policies>,
}

impl Inputs for TestInputs {
    fn entry(&self) -> &str {
        &self.entry
    }
    fn is_sole(&self) -> bool {
        true
    }
    fn blob(&self, path: &str) -> Result<Bytes, Error> {
        Err(Error::invalid(path))
    }
    fn secret(&self, _: &SecretRef) -> Result<SecretMark, Error> {
        Err(Error::invalid("no secrets here"))
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
    fn siblings(&self, _: &str) -> Vec<&Manifest> {
        Vec::new()
    }
    fn policy(&self, policy: Policy) -> PolicyId {
        self.policies.borrow_mut().intern(policy)
    }
}

/// The resources and problems of a `Zone` manifest whose `spec` is `spec`.
pub(crate) fn normalize(provider: &dyn Provider, zone: &str, spec: &str) -> (Vec<Resource>, Vec<Problem>) {
    let file = Arc::new(SourceFile::new("zone.yaml", spec));
    let node = yaml::parse(&file, yaml::Limits::default()).unwrap().remove(0);
    let manifest = Manifest {
        index: 0,
        key: ManifestKey::new("infra", "dns", "Zone", "", zone),
        api_version: "dns/v1".into(),
        kind: "Zone".into(),
        name: zone.into(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        providers: None,
        policy: Policy::default(),
        file,
        span: node.span,
        spec: node,
    };
    let inputs = TestInputs { entry: "test".into(), scopes: BTreeSet::new(), policies: RefCell::default() };
    let out = provider.normalize(&reconciled_provider::Kinds::default(), &manifest, &inputs);
    (out.resources, out.problems)
}

/// The resources of a `Zone` manifest without problems; `records` are the elements of its list.
pub(crate) fn desired(provider: &dyn Provider, zone: &str, records: &[String]) -> Vec<Resource> {
    let spec = format!("apex: true\nrecords:\n  - {}\n", records.join("\n  - "));
    let (resources, problems) = normalize(provider, zone, &spec);
    assert!(problems.is_empty(), "{problems:?}");
    resources
}

/// The scope of `zone` at the entry under test.
pub(crate) fn scope(zone: &str) -> Scope {
    Scope::new("test", zone)
}

/// Reads all of a zone.
pub(crate) async fn observe(provider: &dyn Provider, cx: &Cx, zone: &str) -> Result<Observation, Error> {
    let scope = scope(zone);
    let want = Want { scope: &scope, focus: &Focus::All, desired: &[], tracked: &[], claims: &[] };
    provider.observe(cx, &want).await
}

/// Reads all of a zone for who wants `desired`.
pub(crate) async fn observe_for(
    provider: &dyn Provider,
    cx: &Cx,
    zone: &str,
    desired: &[Resource],
) -> Result<Observation, Error> {
    let scope = scope(zone);
    let want = Want { scope: &scope, focus: &Focus::All, desired, tracked: &[], claims: &[] };
    provider.observe(cx, &want).await
}

/// Differences between what is desired and what was seen.
pub(crate) async fn diff(
    provider: &dyn Provider,
    cx: &Cx,
    zone: &str,
    desired: &[Resource],
    seen: &Observation,
) -> Deltas {
    let scope = scope(zone);
    let want = Want { scope: &scope, focus: &Focus::All, desired, tracked: &[], claims: &[] };
    provider.diff(cx, &want, seen).await.unwrap()
}

/// Everything that must be done: creates and updates in the order of `desired`, then the named deletions.
pub(crate) async fn plan(
    provider: &dyn Provider,
    cx: &Cx,
    zone: &str,
    desired: &[Resource],
    delete: &[&str],
    seen: &Observation,
) -> Batch {
    let deltas = diff(provider, cx, zone, desired, seen).await;
    let mut ops = Vec::new();
    for resource in desired {
        let desired = resource.clone();
        match (seen.get(&resource.id), deltas.get(&resource.id)) {
            (None, _) => ops.push(Op::Create { desired, delta: Default::default() }),
            (Some(observed), Some(Ok(delta))) => ops.push(Op::Update {
                desired,
                delta: delta.clone().into(),
                observed: observed.clone().into(),
                tracked: None,
            }),
            _ => {}
        }
    }
    for id in delete {
        let observed =
            seen.get(&ResourceId::from(*id)).unwrap_or_else(|| panic!("{id} was not seen")).clone();
        ops.push(Op::Delete { observed: observed.into(), tracked: None });
    }
    batch(zone, seen, ops)
}

/// A batch of `ops` planned from `seen`.
pub(crate) fn batch(zone: &str, seen: &Observation, ops: Vec<Op>) -> Batch {
    let action =
        |(i, op): (usize, Op)| Action { id: ActionId(i as u64 + 1), token: format!("t{i}").into(), op };
    Batch {
        scope: scope(zone),
        base: seen.version.clone(),
        actions: ops.into_iter().enumerate().map(action).collect(),
    }
}

/// Observes, plans, applies; returns the batch, its notes and what `apply` said.
pub(crate) async fn apply(
    provider: &dyn Provider,
    cx: &Cx,
    zone: &str,
    desired: &[Resource],
    delete: &[&str],
) -> (Batch, Notes, Result<(), Error>) {
    let seen = observe_for(provider, cx, zone, desired).await.unwrap();
    let batch = plan(provider, cx, zone, desired, delete, &seen).await;
    let notes = Notes::default();
    let result = provider.apply(cx, &batch, &notes).await;
    (batch, notes, result)
}

/// Applies and expects that all of it is done and nothing is left to do.
pub(crate) async fn converge(
    provider: &dyn Provider,
    cx: &Cx,
    zone: &str,
    desired: &[Resource],
    delete: &[&str],
) {
    let (batch, notes, result) = apply(provider, cx, zone, desired, delete).await;
    result.unwrap();
    let counts = notes.counts();
    let done = counts.get("done").unwrap_or(&0) + counts.get("gone").unwrap_or(&0);
    let outcomes = notes.outcomes.lock().unwrap().clone();
    let errors: Vec<_> = outcomes.values().filter_map(Outcome::error).map(Error::chain).collect();
    assert_eq!(done, batch.actions.len(), "{counts:?}: {errors:#?}");
    let seen = observe_for(provider, cx, zone, desired).await.unwrap();
    let again = plan(provider, cx, zone, desired, &[], &seen).await;
    assert!(again.actions.is_empty(), "a second run wants {:#?}", again.actions);
    for id in delete {
        assert!(seen.get(&ResourceId::from(*id)).is_none(), "{id} is still there");
    }
}

/// Texts of two strings that others put into a zone stay so: where a manifest declares one as a text, with another TTL, and where
/// it declares a value beside one. Where a manifest declares other strings, they are written.
pub(crate) async fn strings_stay(provider: &dyn Provider, cx: &Cx, zone: &str) {
    let declared =
        |records: [&str; 2]| desired(provider, zone, &records.map(|record| format!("{{{record}}}")));
    let theirs = r#"type: TXT, ttl: 300, values: [{strings: ["path=/x", "rp=lp"]}]"#;
    let theirs = declared([&format!("name: prn, {theirs}"), &format!("name: m, {theirs}")]);
    converge(provider, cx, zone, &theirs, &[]).await;
    let seen = observe(provider, cx, zone).await.unwrap();

    let text = declared([
        "name: prn, type: TXT, ttl: 300, values: [path=/xrp=lp]",
        "name: m, type: TXT, ttl: 300, values: [path=/xrp=lp]",
    ]);
    let batch = plan(provider, cx, zone, &text, &[], &seen).await;
    assert!(batch.actions.is_empty(), "a text does not say where it is cut: {batch:#?}");

    let mut wanted = declared([
        "name: prn, type: TXT, ttl: 301, values: [path=/xrp=lp]",
        "name: m, type: TXT, ttl: 302, values: [mine], merge: true",
    ]);
    let (prn, m) = (format!("prn.{zone}./TXT"), format!("m.{zone}./TXT"));
    let shared = wanted.iter_mut().find(|resource| *resource.id.0 == *m).unwrap();
    let merged = provider.merge(&[&*shared], seen.get(&shared.id), None, &[]).unwrap().unwrap();
    let hash = merged.resource.spec.hash().unwrap();
    let tracked = Tracked { private: merged.ours, ..Tracked::new(shared.id.clone(), hash) };
    *shared = merged.resource;
    let deltas = diff(provider, cx, zone, &wanted, &seen).await;
    let fields = &deltas[&ResourceId::from(&*prn)].as_ref().unwrap().fields;
    assert_eq!(fields.iter().map(|field| &*field.path).collect::<Vec<_>>(), ["ttl"]);
    converge(provider, cx, zone, &wanted, &[]).await;
    let seen = observe(provider, cx, zone).await.unwrap();
    let content = |seen: &Observation, id: &str| {
        String::from_utf8(seen.get(&ResourceId::from(id)).unwrap().bytes.to_vec()).unwrap()
    };
    assert_eq!(content(&seen, &prn), "301\n\"path=/x\" \"rp=lp\"");
    assert_eq!(content(&seen, &m), "302\n\"mine\"\n\"path=/x\" \"rp=lp\"");
    let left = provider.merge(&[], seen.get(&ResourceId::from(&*m)), Some(&tracked), &[]).unwrap().unwrap();
    assert_eq!(left.resource.spec.bytes().unwrap(), b"302\n\"path=/x\" \"rp=lp\"");

    let other = declared([
        r#"name: prn, type: TXT, ttl: 301, values: [{strings: ["path=/", "xrp=lp"]}]"#,
        "name: x, type: TXT, values: [{strings: [b, a]}]",
    ]);
    converge(provider, cx, zone, &other, &[]).await;
    let seen = observe(provider, cx, zone).await.unwrap();
    assert_eq!(content(&seen, &prn), "301\n\"path=/\" \"xrp=lp\"");
}

/// A zone with every type that every server knows, and every awkward value.
pub(crate) fn every_type() -> Vec<String> {
    let mut records: Vec<String> = [
        r#"{name: "@", type: SOA, values: [ns1.example.com. hostmaster.example.com. 10800 3600 604800 300]}"#,
        r#"{name: "@", type: NS, values: [ns1.example.com., NS2.example.net.]}"#,
        r#"{name: ns1, type: A, values: [192.0.2.53]}"#,
        r#"{name: "@", type: A, values: [192.0.2.2, 192.0.2.1], ttl: 60}"#,
        r#"{name: "@", type: MX, values: [10 mail.example.com., 20 @]}"#,
        r#"{name: nullmx, type: MX, values: [0 .]}"#,
        r#"{name: "@", type: CAA, values: ['0 issue "letsencrypt.org; a=b"', '128 IssueWild ";"']}"#,
        r#"{name: WWW, type: CNAME, values: [Example.COM.], ttl: 0}"#,
        r#"{name: v6, type: AAAA, values: ["2001:DB8:0:0:1::1", "::ffff:192.0.2.1", "::"]}"#,
        r#"{name: _sip._tcp, type: SRV, values: [10 60 5060 sip.example.com., 0 0 0 .]}"#,
        r#"{name: "*.dev", type: A, values: [192.0.2.9], ttl: 2147483647}"#,
        r#"{name: sub, type: NS, values: [ns1.example.net.]}"#,
        r#"{name: sub, type: DS, values: [60485 13 2 D4B7D520E7BB5F0F67674A0CCEB1E3E0614B93C4F9E99B8383F6A1E4469DA50A]}"#,
        r#"{name: "0/25", type: PTR, values: [a.example.com.]}"#,
        r#"{name: old, type: DNAME, values: [new.example.com.]}"#,
        r#"{name: loc, type: LOC, values: [51 30 12.748 N 0 7 39.611 W 10m, 52 14 05 N 00 08 50 E 10m 30m 20m 5m]}"#,
        r#"{name: "1.2.1.5", type: NAPTR, values: ['100 10 u E2U+sip "!^.*$!sip:info@example.com!" .', '102 10 "" "" "" sip.example.com.']}"#,
        r#"{name: key, type: OPENPGPKEY, values: ["mQENBFVHm5sBCADEQ1jW AAECAw=="]}"#,
        r#"{name: _443._tcp.www2, type: TLSA, values: [3 1 1 D2ABDE240D7CD3EE6B4B28C54DF034B97983A1D16E8A410E4561CB106618E971]}"#,
        r#"{name: _smimecert.mail, type: SMIMEA, values: [3 0 1 d2abde240d7cd3ee6b4b28c54df034b97983a1d16e8a410e4561cb106618e971]}"#,
        r#"{name: host, type: SSHFP, values: [4 2 123456789abcdef67890123456789abcdef67890123456789abcdef123456789, 1 1 dd465c09cfa51fb45020cc83316fff21b9ec74ac]}"#,
        r#"{name: web, type: HTTPS, values: ['1 . port=8443 alpn="h3,h2" ipv4hint=192.0.2.1 ipv6hint=2001:DB8:0::1']}"#,
        r#"{name: alias, type: HTTPS, values: [0 web.example.net.]}"#,
        r#"{name: _svc, type: SVCB, values: [1 svc.example.net. alpn=h2 mandatory=alpn key667=hello, 2 svc2.example.net. alpn=h2 no-default-alpn]}"#,
        r#"{name: _ftp._tcp, type: URI, values: ['10 1 "ftp://ftp1.example.com/public"']}"#,
        r#"{name: txt, type: TXT, values: ["", "a;b", "trailing ", " leading", "it's `x`", "quo\"te", "back\\slash", "1.10"]}"#,
        r#"{name: _ipp._tcp, type: TXT, values: [{strings: ["path=/x", "rp=lp"]}]}"#,
        r#"{name: utf8, type: TXT, values: ["äöü €", "new\nline", "\\065\\", "nul\0l"]}"#,
    ]
    .map(String::from)
    .into();
    records.push(format!("{{name: long, type: TXT, values: [{}, {}]}}", "x".repeat(766), "ä".repeat(300)));
    records
}
