//! Cloudflare's API v4 as its documentation describes it: zones, records of one value, the batch endpoint with
//! its limits and its one transaction, TTLs and proxied records, comments and tags by plan.

use crate::fake::{Fake, Play, Reply, Request};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};

/// The token, long enough to be found where it must not be.
pub(crate) const TOKEN: &str = "token-of-the-fake-cloudflare";

/// The account in which zones are created.
pub(crate) const ACCOUNT: &str = "0123456789abcdef0123456789abcdef";

type Record = Map<String, Value>;

#[derive(Default)]
pub(crate) struct Zone {
    pub(crate) name: String,
    pub(crate) plan: String,
    pub(crate) records: BTreeMap<String, Record>,
    /// Ids by name, for the time of a batch.
    by_name: HashMap<String, Vec<String>>,
}

pub(crate) struct Cloudflare {
    pub(crate) zones: BTreeMap<String, Zone>,
    /// Plan of zones that are created.
    pub(crate) plan: &'static str,
    /// Errors of a batch say where they are.
    pub(crate) points: bool,
    /// What a batch may hold although the plan says otherwise.
    pub(crate) batch: Option<usize>,
    /// Refuses this content as bad.
    pub(crate) bad: Option<&'static str>,
    /// Most records in a zone.
    pub(crate) quota: usize,
    /// Records in one page; less than asked for, where a test wants many pages.
    pub(crate) page: usize,
    next: u64,
    clock: u64,
}

struct Refusal(u64, String);

fn refuse<T>(code: u64, text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(code, text.into()))
}

fn text<'r>(record: &'r Record, key: &str) -> &'r str {
    record.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The fake, running.
pub(crate) fn start() -> Fake<Cloudflare> {
    Fake::start(Cloudflare {
        zones: BTreeMap::new(),
        plan: "free",
        points: false,
        batch: None,
        bad: None,
        quota: 100_000,
        page: 5_000,
        next: 0,
        clock: 0,
    })
}

impl Cloudflare {
    /// Adds a zone past the API; returns its id.
    pub(crate) fn add_zone(&mut self, name: &str, plan: &str) -> String {
        self.next += 1;
        let id = format!("{:032x}", self.next);
        let zone = Zone { name: name.into(), plan: plan.into(), ..Zone::default() };
        self.zones.insert(id.clone(), zone);
        id
    }
    /// The zone called `name`.
    pub(crate) fn zone(&mut self, name: &str) -> &mut Zone {
        self.zones.values_mut().find(|zone| zone.name == name).unwrap()
    }
    /// Somebody's change in the dashboard: a record as it is, past all rules.
    pub(crate) fn put(&mut self, zone: &str, record: Value) {
        self.next += 1;
        self.clock += 1;
        let id = format!("{:032x}", self.next);
        let mut record = record.as_object().unwrap().clone();
        record.entry("ttl").or_insert(json!(300));
        record.entry("proxied").or_insert(json!(false));
        record.insert("id".into(), json!(id));
        let modified = self.clock.to_string();
        record.insert("modified_on".into(), json!(modified));
        self.zone(zone).records.insert(id, record);
    }
    /// Records of `zone` at `name` of type `kind`.
    pub(crate) fn at(&mut self, zone: &str, name: &str, kind: &str) -> Vec<Record> {
        let is_it = |r: &&Record| text(r, "name") == name && text(r, "type") == kind;
        self.zone(zone).records.values().filter(is_it).cloned().collect()
    }
    /// Removes what stands at `name` of type `kind`.
    pub(crate) fn remove(&mut self, zone: &str, name: &str, kind: &str) {
        self.zone(zone).records.retain(|_, r| text(r, "name") != name || text(r, "type") != kind);
    }

    fn list(&self, items: Vec<Value>, request: &Request, most: usize) -> Reply {
        let number = |key: &str, default: usize| {
            request.query.get(key).and_then(|value| value.parse().ok()).unwrap_or(default)
        };
        let (page, per_page) = (number("page", 1), number("per_page", 20));
        if per_page > most {
            return error(400, 1_200, "per_page is too large");
        }
        let per_page = per_page.min(self.page);
        let total = items.len();
        let part: Vec<_> = items.into_iter().skip((page - 1) * per_page).take(per_page).collect();
        let info = json!({"page": page, "per_page": per_page, "count": part.len(),
            "total_count": total, "total_pages": total.div_ceil(per_page)});
        let body =
            json!({"success": true, "errors": [], "messages": [], "result": part, "result_info": info});
        Reply::new(200, body.to_string())
    }

    fn zone_body(id: &str, zone: &Zone) -> Value {
        json!({"id": id, "name": zone.name, "status": "active", "plan": {"legacy_id": zone.plan}})
    }

    /// Checks a record as the API would, and gives the form in which it is kept.
    fn accept(&mut self, zone: &Zone, id: Option<&str>, mut record: Record) -> Result<Record, Refusal> {
        let (name, kind) = (text(&record, "name").to_lowercase(), text(&record, "type").to_owned());
        // Zones are listed as people read them, records in ASCII.
        let apex = url::Host::parse(&zone.name).unwrap().to_string();
        let apex = apex.as_str();
        if name != apex && !name.ends_with(&format!(".{apex}")) {
            return refuse(9_000, "DNS name is invalid.");
        }
        record.insert("name".into(), json!(name));
        if matches!(kind.as_str(), "CAA" | "LOC" | "SRV" | "URI") {
            let data = record.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
            let keys: &[&str] = match kind.as_str() {
                "CAA" => &["flags", "tag", "value"],
                "LOC" => &["lat_degrees", "lat_direction", "long_degrees", "long_direction", "altitude"],
                "URI" => &["weight", "target"],
                _ => &["priority", "weight", "port", "target"],
            };
            if keys.iter().any(|key| !data.contains_key(*key)) {
                return refuse(9_101, "data is a required data field.");
            }
            let words: Vec<String> = keys.iter().map(|key| data[*key].to_string()).collect();
            record.insert("content".into(), json!(words.join("\t")));
        }
        let content = text(&record, "content").to_owned();
        let is_fine = match kind.as_str() {
            "A" => content.parse::<std::net::Ipv4Addr>().is_ok(),
            "AAAA" => content.parse::<std::net::Ipv6Addr>().is_ok(),
            "TXT" => content.starts_with('"') && content.ends_with('"') && content.is_ascii(),
            "CNAME" | "NS" | "PTR" => !content.ends_with('.') || content == ".",
            "URI" => record.contains_key("priority"),
            "MX" => record.contains_key("priority") && (!content.ends_with('.') || content == "."),
            "SOA" => false,
            _ => true,
        };
        if !is_fine || self.bad.is_some_and(|bad| content.contains(bad)) {
            return refuse(9_005, format!("Content for {kind} record is invalid."));
        }
        let proxied = record.get("proxied") == Some(&json!(true));
        if proxied && !matches!(kind.as_str(), "A" | "AAAA" | "CNAME") {
            return refuse(9_004, "This record type cannot be proxied.");
        }
        let ttl = record.get("ttl").and_then(Value::as_u64).unwrap_or(1);
        let least = if zone.plan == "enterprise" { 30 } else { 60 };
        if ttl != 1 && !(least..=86_400).contains(&ttl) {
            return refuse(9_021, "Invalid TTL. Must be between 60 and 86400 seconds, or 1 for Automatic.");
        }
        record.insert("ttl".into(), json!(if proxied { 1 } else { ttl }));
        record.insert("proxied".into(), json!(proxied));
        let longest = if zone.plan == "free" { 100 } else { 500 };
        if text(&record, "comment").chars().count() > longest {
            return refuse(9_302, "DNS record comment is too long.");
        }
        let has_tags = record.get("tags").and_then(Value::as_array).is_some_and(|tags| !tags.is_empty());
        if has_tags && zone.plan == "free" {
            return refuse(9_300, "DNS record has 1 tags, exceeding the quota of 0.");
        }
        for other in zone.by_name.get(&name).into_iter().flatten() {
            let Some(seen) = zone.records.get(other).filter(|_| Some(other.as_str()) != id) else { continue };
            let other = text(seen, "type");
            if other == kind
                && text(seen, "content") == content
                && seen.get("priority") == record.get("priority")
            {
                return refuse(81_058, "An identical record already exists.");
            }
            // At the zone itself a CNAME is flattened, and other types may stand beside it.
            let stands_alone = |two: &str| matches!(two, "A" | "AAAA" | "CNAME") || name != apex;
            let clash = |one: &str, two: &str| {
                one == "CNAME" && matches!(two, "A" | "AAAA" | "CNAME" | "TXT" | "MX") && stands_alone(two)
            };
            if clash(&kind, other) || clash(other, &kind) {
                return refuse(81_053, "An A, AAAA, or CNAME record with that host already exists.");
            }
        }
        Ok(record)
    }

    fn batch(&mut self, id: &str, body: &Value) -> Result<Value, (Refusal, String)> {
        let mut zone = self.zones.remove(id).unwrap();
        let backup = zone.records.clone();
        let result = self.batch_in(&mut zone, body);
        if result.is_err() {
            zone.records = backup;
        }
        self.zones.insert(id.to_owned(), zone);
        result
    }

    fn batch_in(&mut self, zone: &mut Zone, body: &Value) -> Result<Value, (Refusal, String)> {
        let list = |key: &str| body.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let at = |list: &str, index: usize| format!("/{list}/{index}");
        let count: usize = ["deletes", "patches", "puts", "posts"].iter().map(|key| list(key).len()).sum();
        let limit = self.batch.unwrap_or(if zone.plan == "free" { 200 } else { 3_500 });
        zone.by_name.clear();
        for (id, record) in &zone.records {
            zone.by_name.entry(text(record, "name").to_owned()).or_default().push(id.clone());
        }
        if count == 0 || count > limit {
            let text = format!("The batch exceeds the maximum of {limit} operations.");
            return Err((Refusal(9_999, text), String::new()));
        }
        for (index, delete) in list("deletes").iter().enumerate() {
            let id = delete["id"].as_str().unwrap();
            if zone.records.remove(id).is_none() {
                return Err((Refusal(81_044, "Record does not exist.".into()), at("deletes", index)));
            }
        }
        for (index, patch) in list("patches").iter().enumerate() {
            let id = patch["id"].as_str().unwrap();
            let Some(old) = zone.records.get(id).cloned() else {
                return Err((Refusal(81_044, "Record does not exist.".into()), at("patches", index)));
            };
            let mut merged = old;
            merged.extend(patch.as_object().unwrap().clone());
            let kept =
                self.accept(zone, Some(id), merged).map_err(|refusal| (refusal, at("patches", index)))?;
            self.keep(zone, id.to_owned(), kept);
        }
        for (index, post) in list("posts").iter().enumerate() {
            let record = post.as_object().unwrap().clone();
            let kept = self.accept(zone, None, record).map_err(|refusal| (refusal, at("posts", index)))?;
            if zone.records.len() >= self.quota {
                return Err((Refusal(81_045, "Record quota exceeded.".into()), at("posts", index)));
            }
            self.next += 1;
            let id = format!("{:032x}", self.next);
            self.keep(zone, id, kept);
        }
        Ok(json!({"deletes": [], "patches": [], "puts": [], "posts": []}))
    }

    fn keep(&mut self, zone: &mut Zone, id: String, mut record: Record) {
        self.clock += 1;
        record.insert("id".into(), json!(id));
        record.insert("modified_on".into(), json!(self.clock.to_string()));
        zone.by_name.entry(text(&record, "name").to_owned()).or_default().push(id.clone());
        zone.records.insert(id, record);
    }
}

fn ok(result: Value) -> Reply {
    Reply::new(200, json!({"success": true, "errors": [], "messages": [], "result": result}).to_string())
}

/// A refusal in the API's envelope.
pub(crate) fn error(status: u16, code: u64, message: &str) -> Reply {
    let errors = json!([{"code": code, "message": message}]);
    Reply::new(
        status,
        json!({"success": false, "errors": errors, "messages": [], "result": null}).to_string(),
    )
}

impl Play for Cloudflare {
    fn answer(&mut self, request: &Request) -> Reply {
        if request.header("authorization") != format!("Bearer {TOKEN}") {
            return error(403, 9_109, "Invalid access token");
        }
        let words: Vec<&str> = request.path.split('/').skip(1).collect();
        let is_there = words.get(1).is_none_or(|id| self.zones.contains_key(*id));
        if !is_there {
            return error(
                404,
                7_003,
                "Could not route to the zone, perhaps your object identifier is invalid?",
            );
        }
        match (request.method.as_str(), &words[..]) {
            ("GET", ["zones"]) => {
                let name = request.query.get("name");
                let is_asked_for = |zone: &&Zone| name.is_none_or(|name| *name == zone.name);
                let found = self.zones.iter().filter(|(_, zone)| is_asked_for(zone));
                let items = found.map(|(id, zone)| Self::zone_body(id, zone)).collect();
                self.list(items, request, 50)
            }
            ("POST", ["zones"]) => {
                let body: Value = serde_json::from_str(&request.body).unwrap();
                let name = body["name"].as_str().unwrap().to_owned();
                if body["account"]["id"] != ACCOUNT {
                    return error(403, 9_109, "Unauthorized to access requested resource");
                }
                if self.zones.values().any(|zone| zone.name == name) {
                    return error(400, 1_061, &format!("{name} already exists"));
                }
                let id = self.add_zone(&name, self.plan);
                ok(Self::zone_body(&id, &self.zones[&id]))
            }
            ("DELETE", ["zones", id]) => {
                self.zones.remove(*id);
                ok(json!({"id": id}))
            }
            ("GET", ["zones", id, "dns_records"]) => {
                let items = self.zones[*id].records.values().cloned().map(Value::from).collect();
                self.list(items, request, 5_000)
            }
            ("POST", ["zones", id, "dns_records", "batch"]) => {
                let body: Value = serde_json::from_str(&request.body).unwrap();
                match self.batch(id, &body) {
                    Ok(result) => ok(result),
                    Err((Refusal(code, message), pointer)) if self.points && !pointer.is_empty() => {
                        let errors =
                            json!([{"code": code, "message": message, "source": {"pointer": pointer}}]);
                        let body = json!({"success": false, "errors": errors, "result": null});
                        Reply::new(400, body.to_string())
                    }
                    Err((Refusal(code, message), _)) => error(400, code, &message),
                }
            }
            _ => error(404, 7_000, "No route for that URI"),
        }
    }
}
