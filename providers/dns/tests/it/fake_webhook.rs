//! A webhook provider as the protocol describes it, strict about media types, names and lists, and without
//! transactions: what came before a bad record has taken effect.

use crate::fake::{self, Fake, Play, Reply, Request};
use reconciled_dns::webhook::{Config, connect};
use reconciled_provider::Provider;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// The media type of the protocol.
pub(crate) const MEDIA_TYPE: &str = "application/external.dns.webhook+json;version=1";

type Key = (String, String, String);

pub(crate) struct Webhook {
    pub(crate) records: BTreeMap<Key, Value>,
    /// The answer of the negotiation.
    pub(crate) filter: Value,
    /// TTLs are raised to this.
    pub(crate) least_ttl: i64,
    /// No TTL is reported.
    pub(crate) hides_ttl: bool,
    /// Types that `adjustendpoints` drops.
    pub(crate) drops: &'static str,
    /// Properties that `adjustendpoints` adds and `GET /records` reports.
    pub(crate) property: Option<(&'static str, &'static str)>,
    /// Targets that are refused.
    pub(crate) bad: Option<&'static str>,
    /// Creates before it deletes, and refuses a CNAME beside other data.
    pub(crate) creates_first: bool,
    /// Names are kept and told as people read them, whatever form they are sent in.
    pub(crate) in_unicode: bool,
    /// Texts are put into quotes, and cut every so many octets; 0: they stay as they are sent.
    pub(crate) quotes: usize,
    /// What a client must not do, and did.
    pub(crate) wrong: Vec<String>,
}

/// The fake, running.
pub(crate) fn start() -> Fake<Webhook> {
    Fake::start(Webhook {
        records: BTreeMap::new(),
        filter: json!({}),
        least_ttl: 0,
        hides_ttl: false,
        drops: "",
        property: None,
        bad: None,
        creates_first: false,
        in_unicode: false,
        quotes: 0,
        wrong: Vec::new(),
    })
}

/// A provider of the fake.
pub(crate) fn provider(fake: &Fake<Webhook>) -> Arc<dyn Provider> {
    provider_with(fake, |_| {})
}

/// A provider whose configuration `change` changes.
pub(crate) fn provider_with(fake: &Fake<Webhook>, change: impl FnOnce(&mut Config)) -> Arc<dyn Provider> {
    let mut config = Config::new(&fake.url);
    config.options.timeout = fake::PATIENCE;
    change(&mut config);
    connect("test", config).unwrap()
}

/// An international name in both of its forms.
const INTERNATIONAL: (&str, &str) = ("xn--bcher-kva", "bücher");

fn key(endpoint: &Value) -> Key {
    let text = |name: &str| endpoint[name].as_str().unwrap_or_default().to_lowercase();
    let name = text("dnsName").replace(INTERNATIONAL.1, INTERNATIONAL.0);
    (name, text("recordType").to_uppercase(), text("setIdentifier"))
}

impl Webhook {
    /// Somebody's change past the protocol.
    pub(crate) fn put(&mut self, name: &str, kind: &str, target: &str) {
        let endpoint = json!({"dnsName": name, "recordType": kind, "targets": [target], "recordTTL": 300});
        self.records.insert(key(&endpoint), endpoint);
    }
    pub(crate) fn remove(&mut self, name: &str, kind: &str) {
        self.records.remove(&(name.into(), kind.into(), String::new()));
    }

    fn adjusted(&self, mut endpoint: Value) -> Option<Value> {
        if endpoint["recordType"] == self.drops {
            return None;
        }
        let ttl = endpoint["recordTTL"].as_i64().unwrap_or(0).max(self.least_ttl);
        endpoint["recordTTL"] = json!(ttl);
        if let Some((name, value)) = self.property {
            endpoint["providerSpecific"] = json!([{"name": name, "value": value}]);
        }
        Some(endpoint)
    }

    /// Carries out changes one by one; what is wrong ends it in the middle.
    fn change(&mut self, changes: &Value) -> Result<(), String> {
        let list = |name: &str| changes.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        let (olds, news) = (list("updateOld"), list("updateNew"));
        if olds.len() != news.len() {
            self.wrong.push("updateOld and updateNew are not paired".into());
        }
        let all = list("create").len() + news.len() + list("delete").len();
        if all == 0 {
            self.wrong.push("changes without a change".into());
        }
        if self.creates_first {
            let is_alias = |key: &Key| key.1 == "CNAME";
            for new in list("create").iter().map(key) {
                let clashes = |old: &&Key| old.0 == new.0 && (is_alias(old) || is_alias(&new));
                if self.records.keys().any(|old| clashes(&old)) {
                    return Err(format!("{} cannot be a CNAME and something else", new.0));
                }
            }
        }
        for endpoint in list("delete") {
            if self.records.remove(&key(&endpoint)).as_ref() != Some(&endpoint) {
                return Err(format!("{} to delete is not there", endpoint["dnsName"]));
            }
        }
        for (old, new) in olds.iter().zip(&news) {
            if key(old) != key(new) || self.records.get(&key(old)) != Some(old) {
                return Err(format!("{} to update is not there", old["dnsName"]));
            }
            self.accept(new)?;
        }
        for endpoint in list("create") {
            if self.records.contains_key(&key(&endpoint)) {
                return Err(format!("{} to create is there", endpoint["dnsName"]));
            }
            self.accept(&endpoint)?;
        }
        Ok(())
    }

    fn accept(&mut self, endpoint: &Value) -> Result<(), String> {
        let name = endpoint["dnsName"].as_str().unwrap();
        if name.ends_with('.') || name.is_empty() {
            self.wrong.push(format!("`{name}` is no name of an endpoint"));
        }
        let targets = endpoint["targets"].as_array().unwrap();
        let is_bad = |target: &Value| self.bad.is_some_and(|bad| target.as_str().unwrap().contains(bad));
        if targets.is_empty() || targets.iter().any(is_bad) {
            return Err(format!("{name} is bad"));
        }
        if endpoint["recordTTL"].as_i64().unwrap_or(0) < self.least_ttl {
            self.wrong.push(format!("{name} was not adjusted"));
        }
        let mut kept = endpoint.clone();
        if self.hides_ttl {
            kept.as_object_mut().unwrap().remove("recordTTL");
        }
        if self.quotes > 0 && endpoint["recordType"] == "TXT" {
            kept["targets"] =
                targets.iter().map(|target| quoted(target.as_str().unwrap(), self.quotes)).collect();
        }
        if self.in_unicode {
            kept["dnsName"] = in_unicode(&kept["dnsName"]);
            kept["targets"] = targets.iter().map(in_unicode).collect();
        }
        self.records.insert(key(&kept), kept);
        Ok(())
    }
}

/// A name as people read it.
fn in_unicode(name: &Value) -> Value {
    json!(name.as_str().unwrap().replace(INTERNATIONAL.0, INTERNATIONAL.1))
}

/// A text in quotes, cut every so many octets.
fn quoted(text: &str, every: usize) -> String {
    let string = |octets: &[u8]| {
        let string = String::from_utf8(octets.to_vec()).unwrap();
        format!("\"{}\"", string.replace('\\', "\\\\").replace('"', "\\\""))
    };
    text.as_bytes().chunks(every).map(string).collect::<Vec<_>>().join(" ")
}

fn say(body: &Value) -> Reply {
    Reply::new(200, body.to_string()).with("Content-Type", MEDIA_TYPE)
}

impl Play for Webhook {
    fn answer(&mut self, request: &Request) -> Reply {
        let wants = request.method == "GET" || request.path == "/adjustendpoints";
        if wants && request.header("accept") != MEDIA_TYPE {
            self.wrong.push(format!("{} with Accept: {}", request.line(), request.header("accept")));
        }
        if request.method == "POST" && request.header("content-type") != MEDIA_TYPE {
            self.wrong.push(format!(
                "{} with Content-Type: {}",
                request.line(),
                request.header("content-type")
            ));
        }
        match request.line().as_str() {
            "GET /" => say(&self.filter),
            "GET /records" if self.records.is_empty() => say(&Value::Null),
            "GET /records" => say(&self.records.values().cloned().collect()),
            "POST /adjustendpoints" => {
                let asked: Vec<Value> = serde_json::from_str(&request.body).unwrap();
                say(&asked.into_iter().filter_map(|endpoint| self.adjusted(endpoint)).collect())
            }
            "POST /records" => {
                let changes = serde_json::from_str(&request.body).unwrap();
                match self.change(&changes) {
                    Ok(()) => Reply::new(204, ""),
                    Err(text) => Reply::new(500, text),
                }
            }
            _ => Reply::new(404, "no such route"),
        }
    }
}
