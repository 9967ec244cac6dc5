//! What of a resource others declare with it: the rules of a group that are resources of their own come back as an
//! attribute or block of the group too, and a manifest that had both would fight with itself.
//!
//! A state file does not say what was declared where. It is told by what is there:
//!
//! - A list of objects, each of which stands in another resource of the file that names this one by its id.
//! - A list of words, each of which another resource ties to this one, and says nothing else.
//! - A list that had nothing in the file and has something now, where others name this one.
//!
//! What is there is what was read, as manifests are written from that: Terraform does not look again at what it made first.

use serde_json::Value as Json;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// One resource of the file.
#[derive(Clone, Default)]
pub(super) struct Look {
    /// As its provider calls it.
    pub(super) type_name: String,
    /// It is no data source.
    pub(super) is_managed: bool,
    /// Its attributes and blocks as the file has them.
    pub(super) then: Json,
    /// The same as they were read.
    pub(super) now: Json,
}

impl Look {
    /// One that could not be read is as in the file.
    pub(super) fn unread(type_name: &str, is_managed: bool, attributes: &Json) -> Look {
        Look { type_name: type_name.into(), is_managed, then: attributes.clone(), now: attributes.clone() }
    }

    fn id(&self) -> Option<&str> {
        self.now["id"].as_str().filter(|_| self.is_managed)
    }
}

/// Attributes and blocks that a manifest leaves to others, as far as its provider lets it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct LeftToOthers {
    /// Others say all of it.
    pub(super) said: BTreeSet<Arc<str>>,
    /// It was empty in the file, so it was not declared here.
    pub(super) since: BTreeSet<Arc<str>>,
    /// Others name it whose type begins with its own: what its provider has given up there may be what they say, in words that nobody
    /// can compare.
    pub(super) is_named: bool,
}

impl LeftToOthers {
    pub(super) fn has(&self, name: &str) -> bool {
        self.said.contains(name) || self.since.contains(name)
    }
}

/// What one resource says that names another.
struct Naming<'a> {
    words: &'a BTreeSet<String>,
    /// All that it says besides its own id and the name.
    rest: BTreeSet<&'a str>,
}

/// Finds out for each.
pub(super) fn find(all: &[Look]) -> Vec<LeftToOthers> {
    let words: Vec<BTreeSet<String>> = all.iter().map(|look| said(&look.now)).collect();
    let mut naming: BTreeMap<&str, Vec<Naming<'_>>> =
        all.iter().filter_map(Look::id).map(|id| (id, Vec::new())).collect();
    // Parts of a resource often have its id for their own, as those of an S3 bucket.
    let mut saying: BTreeMap<&str, Vec<&Look>> = naming.keys().map(|id| (*id, Vec::new())).collect();
    for (look, words) in all.iter().zip(&words).filter(|(look, _)| look.is_managed) {
        for word in words {
            if let Some(saying) = saying.get_mut(&**word) {
                saying.push(look);
            }
            // What it says of itself is nobody else's.
            if look.id() == Some(&**word) {
                continue;
            }
            let Some(named) = naming.get_mut(&**word) else { continue };
            let is_rest = |other: &&str| *other != &**word && look.id() != Some(*other);
            named.push(Naming { words, rest: words.iter().map(|other| &**other).filter(is_rest).collect() });
        }
    }
    let of_one = |look: &Look| {
        let mut out = LeftToOthers::default();
        let Some(id) = look.id() else { return out };
        let is_part = |other: &&Look| {
            let is_it = other.id() == Some(id) && other.type_name == look.type_name;
            !is_it && other.type_name.starts_with(&look.type_name)
        };
        out.is_named = saying.get(id).is_some_and(|saying| saying.iter().any(is_part));
        let Some(others) = naming.get(id).filter(|others| !others.is_empty()) else { return out };
        for (name, now) in look.now.as_object().into_iter().flatten() {
            let Some(elements) = now.as_array().filter(|_| !is_empty(now)) else { continue };
            let name: Arc<str> = (&**name).into();
            if elements.iter().all(|element| is_said(element, others)) {
                out.said.insert(name);
            } else if is_empty(&look.then[&*name]) {
                out.since.insert(name);
            }
        }
        out
    };
    all.iter().map(of_one).collect()
}

/// True where others declare an element. A rule of a group may be made of several, each with some of its networks: each network
/// has to be beside all that is not in a list.
fn is_said(element: &Json, others: &[Naming<'_>]) -> bool {
    let fields = match element {
        Json::Object(fields) => fields,
        Json::String(text) => {
            let word = plain(text);
            return others.iter().any(|other| other.rest.len() == 1 && other.rest.contains(&*word));
        }
        _ => return false,
    };
    let (lists, single): (Vec<&Json>, Vec<&Json>) = fields.values().partition(|value| value.is_array());
    let mut alike = BTreeSet::new();
    single.into_iter().for_each(|value| leaves(value, &mut alike));
    let items = lists.into_iter().filter_map(Json::as_array).flatten();
    let mut wanted: Vec<BTreeSet<String>> = items.map(said).filter(|item| !item.is_empty()).collect();
    if wanted.is_empty() && !alike.is_empty() {
        wanted.push(BTreeSet::new());
    }
    let has_all = |item: &BTreeSet<String>| {
        others.iter().any(|other| alike.is_subset(other.words) && item.is_subset(other.words))
    };
    !wanted.is_empty() && wanted.iter().all(has_all)
}

/// What a value says.
fn said(json: &Json) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    leaves(json, &mut out);
    out
}

/// What a value says: texts and numbers, but not what is nothing by itself.
fn leaves(json: &Json, out: &mut BTreeSet<String>) {
    match json {
        Json::String(text) if !text.is_empty() => drop(out.insert(plain(text))),
        Json::Number(number) if number.as_f64() != Some(0.0) => drop(out.insert(number.to_string())),
        Json::Array(all) => all.iter().for_each(|one| leaves(one, out)),
        Json::Object(fields) => fields.values().for_each(|one| leaves(one, out)),
        Json::String(_) | Json::Number(_) | Json::Null | Json::Bool(_) => {}
    }
}

/// True for what says nothing.
fn is_empty(json: &Json) -> bool {
    match json {
        Json::Null | Json::Bool(false) => true,
        Json::Bool(true) => false,
        Json::Number(number) => number.as_f64() == Some(0.0),
        Json::String(text) => text.is_empty(),
        Json::Array(all) => all.iter().all(is_empty),
        Json::Object(fields) => fields.values().all(is_empty),
    }
}

/// A text; one that holds JSON, as policies do, in one form. Each resource has it as it was once written, with keys and elements in
/// another order, or with one thing for a list of it.
fn plain(text: &str) -> String {
    if !text.trim_start().starts_with(['{', '[']) {
        return text.into();
    }
    serde_json::from_str(text).map_or_else(|_| text.into(), |json: Json| sorted(&json))
}

fn sorted(json: &Json) -> String {
    match json {
        Json::Array(all) => {
            let mut all: Vec<String> = all.iter().map(sorted).collect();
            all.sort();
            match &all[..] {
                [one] => one.clone(),
                _ => format!("[{}]", all.join(",")),
            }
        }
        Json::Object(fields) => {
            let mut all: Vec<String> =
                fields.iter().map(|(key, value)| format!("{key:?}:{}", sorted(value))).collect();
            all.sort();
            format!("{{{}}}", all.join(","))
        }
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What is left to others of the first resource, which was read as it is in the file.
    fn check(resources: &[Json], expect: &[&str]) {
        let look = |json: &Json| Look::unread("", true, json);
        let all: Vec<Look> = resources.iter().map(look).collect();
        let found = find(&all).remove(0);
        assert_eq!(found.said.iter().map(|name| &**name).collect::<Vec<_>>(), expect);
        assert_eq!(found.since, BTreeSet::new());
    }

    fn ingress(cidrs: &[&str], port: u16) -> Json {
        json!({ "cidr_blocks": cidrs, "from_port": port, "to_port": port, "protocol": "tcp", "self": false, "description": "" })
    }

    fn group(ingress: &[Json]) -> Json {
        json!({ "id": "sg-1", "name": "g", "ingress": ingress, "egress": [] })
    }

    fn rule(group: &str, cidr: &str, port: u16) -> Json {
        json!({ "id": format!("sgr-{cidr}-{port}"), "security_group_id": group, "cidr_ipv4": cidr, "from_port": port, "to_port": port, "ip_protocol": "tcp" })
    }

    #[test]
    fn what_others_declare_with_it_is_found() {
        let both = [ingress(&["10.0.0.0/8"], 80), ingress(&["10.0.0.0/8"], 443)];
        check(&[group(&both)], &[]);
        check(&[group(&both), rule("sg-1", "10.0.0.0/8", 80), rule("sg-1", "10.0.0.0/8", 443)], &["ingress"]);
        // One of them is declared here.
        check(&[group(&both), rule("sg-1", "10.0.0.0/8", 80)], &[]);
        // Those of another group say nothing of this one, and nor does what only uses it.
        check(&[group(&both[..1]), rule("sg-2", "10.0.0.0/8", 80)], &[]);
        let instance = json!({ "id": "i-1", "vpc_security_group_ids": ["sg-1"], "cpu": 80 });
        check(&[group(&both[..1]), instance], &[]);
        // The cloud makes one of what has the same port, and only of that.
        let united = [ingress(&["10.0.0.0/8", "192.0.2.0/24"], 80)];
        let (ours, theirs) = (rule("sg-1", "10.0.0.0/8", 80), |port| rule("sg-1", "192.0.2.0/24", port));
        check(&[group(&united), ours.clone(), theirs(80)], &["ingress"]);
        check(&[group(&united), ours, theirs(443), rule("sg-1", "198.51.100.0/24", 80)], &[]);
    }

    #[test]
    fn a_policy_is_the_same_however_it_is_written() {
        let role = |policy: &str| json!({ "id": "r", "inline_policy": [{ "name": "p", "policy": policy }] });
        let policy = |text: &str| json!({ "id": "r:p", "role": "r", "name": "p", "policy": text });
        let one = r#"{"Version":"2012-10-17","Statement":[{"Action":"sqs:*","Effect":"Allow"}]}"#;
        let same = r#"{"Statement": {"Effect": "Allow", "Action": ["sqs:*"]}, "Version": "2012-10-17"}"#;
        check(&[role(one), policy(same)], &["inline_policy"]);
        check(&[role(one), policy(&same.replace("sqs", "sns"))], &[]);
        check(&[role("{no json"), policy("{no json")], &["inline_policy"]);
    }

    #[test]
    fn words_are_left_to_what_ties_them_to_it_and_says_nothing_else() {
        let role = json!({ "id": "r", "managed_policy_arns": ["arn:a", "arn:b"], "tags": ["arn:a"] });
        let tie = |arn: &str| json!({ "id": format!("r-{arn}"), "role": "r", "policy_arn": arn });
        check(&[role.clone(), tie("arn:a")], &["tags"]);
        check(&[role.clone(), tie("arn:a"), tie("arn:b")], &["managed_policy_arns", "tags"]);
        // What has more to say uses both.
        let user = json!({ "id": "i-1", "role": "r", "policies": ["arn:a", "arn:b"] });
        check(&[role, user], &[]);
    }

    #[test]
    fn only_what_may_be_a_part_of_it_by_its_type_says_what_its_provider_has_given_up() {
        let bucket = Look::unread("aws_s3_bucket", true, &json!({ "id": "b" }));
        let check = |type_name: &str, id: &str, expect: bool| {
            let other = Look::unread(type_name, true, &json!({ "id": id, "bucket": "b" }));
            assert_eq!(find(&[bucket.clone(), other]).remove(0).is_named, expect, "{type_name} {id}");
        };
        check("aws_s3_bucket_versioning", "b", true);
        check("aws_s3_bucket_versioning", "b,123456789012", true);
        check("aws_s3_bucket", "b", false);
        check("aws_cloudtrail", "t", false);
        check("aws_s3_object", "o", false);
    }

    #[test]
    fn what_came_after_the_file_was_written_was_not_declared_with_it() {
        let since = |then: &[Json], now: &[Json], others: &[Json]| {
            let look = |json: &Json| Look::unread("", true, json);
            let first = Look { is_managed: true, then: group(then), now: group(now), ..Look::default() };
            find(&[first].into_iter().chain(others.iter().map(look)).collect::<Vec<_>>()).remove(0)
        };
        // The second was made by hand.
        let both = [ingress(&["10.0.0.0/8"], 80), ingress(&["192.0.2.0/24"], 22)];
        let elsewhere = |said: &[&str], since: &[&str]| {
            let names = |all: &[&str]| all.iter().map(|name| Arc::from(*name)).collect();
            LeftToOthers { said: names(said), since: names(since), is_named: true }
        };
        let rules = [rule("sg-1", "10.0.0.0/8", 80)];
        assert_eq!(since(&[], &both[..1], &rules), elsewhere(&["ingress"], &[]));
        assert_eq!(since(&[], &both, &rules), elsewhere(&[], &["ingress"]));
        // What was there is declared, and what nobody else names may be.
        assert_eq!(since(&both[1..], &both, &rules), elsewhere(&[], &[]));
        assert_eq!(since(&[], &both, &[]), LeftToOthers::default());
    }
}
