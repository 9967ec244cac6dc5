//! The conformance suite against real servers, zone files, and fakes of services that cannot be installed.

use crate::{
    dnsd::{self, Dnsd, Kind},
    fake::{Fake, Fault, Reply},
    fake_cloudflare::{self, Cloudflare},
    fake_route53::{self, Route53},
    fake_webhook::{self, Webhook},
    pdns::Pdns,
    world,
};
use async_trait::async_trait;
use reconciled_dns::{
    ownership::{Naming, TxtMarks},
    zonefile,
};
use reconciled_provider::{Cx, Provider, ResourceId, Scope};
use reconciled_testkit::conformance::{Sample, Subject, run};
use std::{fs, path::PathBuf, sync::Arc};

/// The records of a sample, the same for every backend.
fn manifests(scope: &Scope, sample: Sample) -> String {
    let www = "{name: www, type: A, values: [192.0.2.1, 192.0.2.2]}";
    let other = "{name: www, type: A, values: [192.0.2.7], ttl: 60}";
    let text = r#"{name: "@", type: TXT, values: ["v=spf1 -all", "it's; \"quoted\""]}"#;
    let mail = r#"{name: "@", type: MX, values: [10 mail.example.net.]}"#;
    let alias = "{name: alias, type: CNAME, values: [www.example.org.]}";
    let address = r#"{name: alias, type: AAAA, values: ["2001:db8::1"]}"#;
    let new = "{name: _sip._tcp, type: SRV, values: [10 60 5060 sip.example.net.]}";
    let shared = "{name: shared, type: TXT, values: [ours], merge: true}";
    let records = match sample {
        Sample::Initial => vec![www, text, mail, alias],
        Sample::Changed => vec![other, text, mail, alias],
        Sample::Shrunk => vec![www, text],
        Sample::Mixed => vec![other, text, alias, new],
        Sample::Swapped => vec![www, text, mail, address],
        Sample::Shared => vec![www, text, mail, alias, shared],
    };
    format!(
        "apiVersion: dns/v1\nkind: Zone\nmetadata: {{name: {}}}\nspec:\n  provider: test\n  records:\n    - {}\n",
        scope.name,
        records.join("\n    - ")
    )
}

/// A TTL and values that no sample has, for what somebody else writes.
fn by_hand(id: &ResourceId) -> (&str, &str, &'static str) {
    let (name, kind) = id.0.split_once('/').unwrap();
    let value = match kind {
        "A" => "198.51.100.99",
        "TXT" => "\"theirs\"",
        "CNAME" => "elsewhere.example.net.",
        "MX" => "20 elsewhere.example.net.",
        _ => panic!("nobody writes {kind} by hand here"),
    };
    (name, kind, value)
}

/// The zone itself carries no mark.
fn is_marked(id: &ResourceId) -> bool {
    id.0.contains('/')
}

fn foreign(scope: &Scope) -> ResourceId {
    format!("foreign.{}./A", scope.name).into()
}

/// A real server, and how much is sent to it at once.
struct Server {
    pdns: Pdns,
    max_body: Option<usize>,
}

impl Server {
    async fn patch(&self, scope: &Scope, rrset: String) {
        let body = format!(r#"{{"rrsets": [{rrset}]}}"#);
        self.pdns.change("PATCH", &format!("/zones/{}.", scope.name), &body).await;
    }
}

#[async_trait]
impl Subject for Server {
    fn scope(&self, number: usize) -> Scope {
        Scope::new("test", format!("zone-{number}.example"))
    }
    async fn connect(&self, _: &Scope, instance: &str) -> Arc<dyn Provider> {
        self.pdns.provider_of(instance, |config| {
            config.max_body = self.max_body.unwrap_or(config.max_body);
        })
    }
    fn cx(&self) -> Cx {
        world::cx(crate::pdns::KEY)
    }
    fn manifests(&self, scope: &Scope, sample: Sample) -> Option<String> {
        Some(manifests(scope, sample))
    }
    async fn put_by_hand(&self, scope: &Scope, id: &ResourceId) {
        let (name, kind, value) = by_hand(id);
        let record = serde_json::json!({
            "name": name, "type": kind, "ttl": 300, "changetype": "REPLACE", "comments": [],
            "records": [{"content": value, "disabled": false}],
        });
        self.patch(scope, record.to_string()).await;
    }
    async fn delete_by_hand(&self, scope: &Scope, id: &ResourceId) {
        let (name, kind, _) = by_hand(id);
        self.patch(scope, format!(r#"{{"name": "{name}", "type": "{kind}", "changetype": "DELETE"}}"#)).await;
    }
    fn foreign(&self, scope: &Scope) -> ResourceId {
        foreign(scope)
    }
    fn is_marked(&self, id: &ResourceId) -> bool {
        is_marked(id)
    }
    fn secrets(&self) -> Vec<String> {
        vec![crate::pdns::KEY.into()]
    }
}

/// Zone files in a scratch directory.
struct Files(tempfile::TempDir, Option<TxtMarks>);

impl Files {
    fn path(&self, scope: &Scope) -> PathBuf {
        self.0.path().join(format!("{}.zone", scope.name))
    }
    /// While this exists, `check` refuses what it is shown, once.
    fn refusal(&self) -> PathBuf {
        self.0.path().join("refuse")
    }
    /// Rewrites a file without the records of `id`, as somebody with an editor would.
    fn edit(&self, scope: &Scope, id: &ResourceId, line: &str) {
        let (name, kind, _) = by_hand(id);
        let relative = name.strip_suffix(&format!("{}.", scope.name)).unwrap().trim_end_matches('.');
        let owner = if relative.is_empty() { "@" } else { relative };
        let path = self.path(scope);
        let text = fs::read_to_string(&path).unwrap();
        let (mut kept, mut last) = (String::new(), "@");
        for old in text.lines() {
            let mut words = old.split_whitespace();
            if !old.starts_with([' ', '\t']) {
                last = words.next().unwrap_or(last);
            }
            if last != owner || !words.any(|word| word == kind) {
                kept += &format!("{old}\n");
            }
        }
        fs::write(path, format!("{kept}{line}")).unwrap();
    }
}

#[async_trait]
impl Subject for Files {
    fn scope(&self, number: usize) -> Scope {
        Scope::new("test", format!("zone-{number}.example"))
    }
    async fn connect(&self, _: &Scope, instance: &str) -> Arc<dyn Provider> {
        let mut config = zonefile::Config::new(self.0.path());
        let refusal = self.refusal();
        let check = format!("test ! -e {0} || (rm {0}; exit 1)", refusal.display());
        config.check = ["sh", "-c", &check].map(String::from).into();
        config.reload = vec!["true".into()];
        config.marks = self.1.is_none();
        config.options.ownership.marks = self.1.clone();
        zonefile::open("test", instance, config).unwrap()
    }
    fn cx(&self) -> Cx {
        world::cx("")
    }
    fn manifests(&self, scope: &Scope, sample: Sample) -> Option<String> {
        Some(manifests(scope, sample))
    }
    async fn put_by_hand(&self, scope: &Scope, id: &ResourceId) {
        let (name, kind, value) = by_hand(id);
        self.edit(scope, id, &format!("{name} 300 IN {kind} {value}\n"));
    }
    async fn delete_by_hand(&self, scope: &Scope, id: &ResourceId) {
        self.edit(scope, id, "");
    }
    fn foreign(&self, scope: &Scope) -> ResourceId {
        foreign(scope)
    }
    async fn inspect(&self, scope: &Scope) -> Vec<String> {
        // A death may leave a draft, which the next write takes over; who comes to an end leaves nothing.
        let left = [format!(".{}.zone.new", scope.name), format!("{}.zone.reload", scope.name)];
        let left = left.iter().filter(|name| self.0.path().join(name).exists());
        left.map(|name| format!("{name} is left behind")).collect()
    }
    async fn refuse_next(&self, _: &Scope) -> bool {
        fs::write(self.refusal(), "").unwrap();
        true
    }
    fn is_marked(&self, id: &ResourceId) -> bool {
        is_marked(id)
    }
}

/// A server that takes dynamic updates. Its zones are there from the start: nobody can make one over DNS.
struct Updated {
    server: Dnsd,
    max_message: usize,
    marks: Option<TxtMarks>,
}

/// Scopes that a run of the suite uses at most.
const SCOPES: usize = 800;

impl Updated {
    async fn start(kind: Kind, max_message: usize) -> Updated {
        let zones: Vec<String> = (0..SCOPES).map(|number| format!("zone-{number}.example")).collect();
        Updated { server: Dnsd::start(kind, &zones).await, max_message, marks: None }
    }
}

#[async_trait]
impl Subject for Updated {
    fn scope(&self, number: usize) -> Scope {
        assert!(number < SCOPES, "the suite uses more scopes than the server has");
        Scope::new("test", format!("zone-{number}.example"))
    }
    fn has_scopes(&self) -> bool {
        true
    }
    async fn connect(&self, _: &Scope, instance: &str) -> Arc<dyn Provider> {
        dnsd::provider_with(&self.server.address(), |config, _| {
            config.max_message = self.max_message;
            (config.options.ownership.instance, config.options.ownership.marks) =
                (instance.into(), self.marks.clone());
        })
    }
    fn cx(&self) -> Cx {
        self.server.cx()
    }
    fn manifests(&self, scope: &Scope, sample: Sample) -> Option<String> {
        let text = manifests(scope, sample).replace("kind: Zone", "kind: RecordSet");
        let zone = format!("spec:\n  zone: {}\n", scope.name);
        Some(text.replace("spec:\n", &zone))
    }
    async fn put_by_hand(&self, scope: &Scope, id: &ResourceId) {
        let (name, kind, value) = by_hand(id);
        let lines = format!("update delete {name} {kind}\nupdate add {name} 300 {kind} {value}");
        self.server.change(&scope.name, &lines);
    }
    async fn delete_by_hand(&self, scope: &Scope, id: &ResourceId) {
        let (name, kind, _) = by_hand(id);
        self.server.change(&scope.name, &format!("update delete {name} {kind}"));
    }
    fn foreign(&self, scope: &Scope) -> ResourceId {
        foreign(scope)
    }
    fn secrets(&self) -> Vec<String> {
        vec![dnsd::SECRET.into()]
    }
}

/// Marks in TXT records, with a place for those of the zone itself.
fn txt_marks() -> Option<TxtMarks> {
    Some(TxtMarks { naming: Naming::new("%{record_type}-own.", "", "").unwrap(), key: None })
}

#[tokio::test(flavor = "multi_thread")]
async fn zone_files_with_marks_in_txt_records_keep_every_law() {
    let report = run(&Files(tempfile::tempdir().unwrap(), txt_marks())).await;
    report.assert_holds_but_skips(&["no_secret_is_printed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_of_bind_with_marks_in_txt_records_keep_every_law() {
    let mut updated = Updated::start(Kind::Bind, 65_535).await;
    updated.marks = txt_marks();
    run(&updated).await.assert_holds_but_skips(&["a_refused_write_had_no_effect_and_says_so"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_of_bind_with_marks_and_little_room_keep_every_law() {
    let mut updated = Updated::start(Kind::Bind, 1_000).await;
    updated.marks = txt_marks();
    run(&updated).await.assert_holds_but_skips(&["a_refused_write_had_no_effect_and_says_so"]);
}

/// No marks over DNS, and a server refuses no write on request.
const NOT_OVER_DNS: [&str; 2] = ["a_refused_write_had_no_effect_and_says_so", "marks_say_whose_it_is"];

#[tokio::test(flavor = "multi_thread")]
async fn updates_of_bind_keep_every_law() {
    run(&Updated::start(Kind::Bind, 65_535).await).await.assert_holds_but_skips(&NOT_OVER_DNS);
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_of_bind_keep_every_law_when_each_takes_few_records() {
    run(&Updated::start(Kind::Bind, 1_000).await).await.assert_holds_but_skips(&NOT_OVER_DNS);
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_of_knot_keep_every_law() {
    run(&Updated::start(Kind::Knot, 65_535).await).await.assert_holds_but_skips(&NOT_OVER_DNS);
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_of_powerdns_keep_every_law() {
    run(&Updated::start(Kind::PowerDns, 65_535).await).await.assert_holds_but_skips(&NOT_OVER_DNS);
}

#[async_trait]
impl Subject for Fake<Cloudflare> {
    fn scope(&self, number: usize) -> Scope {
        Scope::new("test", format!("zone-{number}.example"))
    }
    async fn connect(&self, _: &Scope, instance: &str) -> Arc<dyn Provider> {
        fake_cloudflare::provider(self, instance)
    }
    fn cx(&self) -> Cx {
        fake_cloudflare::cx()
    }
    fn manifests(&self, scope: &Scope, sample: Sample) -> Option<String> {
        Some(manifests(scope, sample))
    }
    async fn put_by_hand(&self, scope: &Scope, id: &ResourceId) {
        self.delete_by_hand(scope, id).await;
        let (name, kind, value) = by_hand(id);
        let name = name.trim_end_matches('.');
        let record = match value.split_once(' ') {
            Some((priority, host)) if kind == "MX" => {
                let priority: u32 = priority.parse().unwrap();
                let content = host.trim_end_matches('.');
                serde_json::json!({"name": name, "type": kind, "content": content, "priority": priority})
            }
            _ => serde_json::json!({"name": name, "type": kind, "content": value.trim_end_matches('.')}),
        };
        self.with(|fake| fake.put(&scope.name, record));
    }
    async fn delete_by_hand(&self, scope: &Scope, id: &ResourceId) {
        let (name, kind, _) = by_hand(id);
        self.with(|fake| fake.remove(&scope.name, name.trim_end_matches('.'), kind));
    }
    fn foreign(&self, scope: &Scope) -> ResourceId {
        foreign(scope)
    }
    async fn refuse_next(&self, _: &Scope) -> bool {
        let reply = fake_cloudflare::error(400, 9_005, "Content for A record is invalid.");
        self.fail("dns_records/batch", 0, Fault::Say(reply));
        true
    }
    fn is_marked(&self, id: &ResourceId) -> bool {
        is_marked(id)
    }
    fn secrets(&self) -> Vec<String> {
        vec![fake_cloudflare::TOKEN.into()]
    }
}

#[async_trait]
impl Subject for Fake<Webhook> {
    fn scope(&self, number: usize) -> Scope {
        Scope::new("test", format!("zone-{number}.example"))
    }
    async fn connect(&self, _: &Scope, _: &str) -> Arc<dyn Provider> {
        fake_webhook::provider(self)
    }
    fn cx(&self) -> Cx {
        world::cx("")
    }
    fn manifests(&self, scope: &Scope, sample: Sample) -> Option<String> {
        Some(manifests(scope, sample))
    }
    async fn put_by_hand(&self, _: &Scope, id: &ResourceId) {
        let (name, kind, value) = by_hand(id);
        self.with(|webhook| webhook.put(name.trim_end_matches('.'), kind, value.trim_end_matches('.')));
    }
    async fn delete_by_hand(&self, _: &Scope, id: &ResourceId) {
        let (name, kind, _) = by_hand(id);
        self.with(|webhook| webhook.remove(name.trim_end_matches('.'), kind));
    }
    fn foreign(&self, scope: &Scope) -> ResourceId {
        foreign(scope)
    }
    async fn refuse_next(&self, _: &Scope) -> bool {
        self.fail("POST /records", 0, Fault::Say(Reply::new(500, "no")));
        true
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_keeps_every_law() {
    let fake = fake_webhook::start();
    run(&fake).await.assert_holds_but_skips(&[
        "no_secret_is_printed",
        "a_list_does_not_depend_on_what_is_desired",
        "marks_say_whose_it_is",
    ]);
    assert_eq!(fake.with(|webhook| webhook.wrong.clone()), [""; 0]);
}

#[async_trait]
impl Subject for Fake<Route53> {
    fn scope(&self, number: usize) -> Scope {
        Scope::new("test", format!("zone-{number}.example"))
    }
    async fn connect(&self, _: &Scope, _: &str) -> Arc<dyn Provider> {
        fake_route53::provider(self)
    }
    fn cx(&self) -> Cx {
        fake_route53::cx()
    }
    fn manifests(&self, scope: &Scope, sample: Sample) -> Option<String> {
        Some(manifests(scope, sample))
    }
    async fn put_by_hand(&self, scope: &Scope, id: &ResourceId) {
        let (name, kind, value) = by_hand(id);
        self.with(|route53| route53.put(&scope.name, name.trim_end_matches('.'), kind, &[value]));
    }
    async fn delete_by_hand(&self, scope: &Scope, id: &ResourceId) {
        let (name, kind, _) = by_hand(id);
        self.with(|route53| route53.remove(&scope.name, name.trim_end_matches('.'), kind));
    }
    fn foreign(&self, scope: &Scope) -> ResourceId {
        foreign(scope)
    }
    async fn refuse_next(&self, _: &Scope) -> bool {
        let list = "<InvalidChangeBatch><Messages><Message>no</Message></Messages></InvalidChangeBatch>";
        self.fail("POST", 0, Fault::Say(Reply::new(400, list)));
        true
    }
    fn secrets(&self) -> Vec<String> {
        vec![fake_route53::SECRET.into()]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn route53_keeps_every_law() {
    let mut skipped = UNFENCED.to_vec();
    skipped.insert(1, "marks_say_whose_it_is");
    run(&fake_route53::start()).await.assert_holds_but_skips(&skipped);
}

/// Neither a change token nor a refusal of stale writes: what is touched is compared before it is written.
const UNFENCED: [&str; 3] = [
    "a_version_stands_while_nothing_changes_and_moves_when_something_does",
    "a_stale_base_writes_nothing",
    "a_scope_that_came_to_be_meanwhile_is_not_overwritten",
];

#[tokio::test(flavor = "multi_thread")]
async fn cloudflare_keeps_every_law() {
    run(&fake_cloudflare::start()).await.assert_holds_but_skips(&cloudflare_skips());
}

#[tokio::test(flavor = "multi_thread")]
async fn cloudflare_keeps_every_law_with_small_pages_on_a_paid_plan() {
    let fake = fake_cloudflare::start();
    fake.with(|cloudflare| (cloudflare.page, cloudflare.plan) = (2, "pro"));
    run(&fake).await.assert_holds_but_skips(&cloudflare_skips());
}

/// Comments and tags are seen where they are declared.
fn cloudflare_skips() -> Vec<&'static str> {
    [&["a_list_does_not_depend_on_what_is_desired"][..], &UNFENCED].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn powerdns_keeps_every_law() {
    let report = run(&Server { pdns: Pdns::start().await, max_body: None }).await;
    report.assert_holds_but_skips(&["a_refused_write_had_no_effect_and_says_so"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn powerdns_keeps_every_law_when_each_name_takes_a_request() {
    let report = run(&Server { pdns: Pdns::start().await, max_body: Some(1_000) }).await;
    report.assert_holds_but_skips(&["a_refused_write_had_no_effect_and_says_so"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn zone_files_keep_every_law() {
    let report = run(&Files(tempfile::tempdir().unwrap(), None)).await;
    report.assert_holds_but_skips(&["no_secret_is_printed"]);
}
