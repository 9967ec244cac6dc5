//! What of a resource others declare with it: the rules of a group that are resources of their own come back as an
//! attribute of the group too, and a manifest that had both would fight with itself.
//!
//! A state file does not say what was declared where. It is told by what is there: a list of objects, all of whose values
//! stand in other resources of the file that name this one by its id.

use super::tfstate::Held;
use serde_json::Value as Json;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Finds out for each.
pub(super) fn find(all: &mut [Held]) {
    let id = |held: &Held| held.attributes["id"].as_str().filter(|_| held.is_managed).map(String::from);
    let mut naming: BTreeMap<String, BTreeSet<String>> =
        all.iter().filter_map(id).map(|id| (id, BTreeSet::new())).collect();
    for held in all.iter().filter(|held| held.is_managed) {
        let mut words = BTreeSet::new();
        leaves(&held.attributes, &mut words);
        for word in &words {
            // What it says of itself is nobody else's.
            if id(held).as_ref() != Some(word)
                && let Some(said) = naming.get_mut(word)
            {
                said.extend(words.iter().cloned());
            }
        }
    }
    for held in all {
        let Some(said) = id(held).and_then(|id| naming.get(&id)) else { continue };
        let is_said = |value: &Json| {
            let mut words = BTreeSet::new();
            leaves(value, &mut words);
            !words.is_empty() && words.is_subset(said)
        };
        let has_objects = |value: &Json| value.as_array().is_some_and(|all| all.iter().all(Json::is_object));
        let attributes = held.attributes.as_object().into_iter().flatten();
        let elsewhere = attributes.filter(|(_, value)| has_objects(value) && is_said(value));
        held.elsewhere = elsewhere.map(|(name, _)| Arc::from(&**name)).collect();
    }
}

/// What a value says: texts and numbers, but not what is nothing by itself.
fn leaves(json: &Json, out: &mut BTreeSet<String>) {
    match json {
        Json::String(text) if !text.is_empty() => drop(out.insert(text.clone())),
        Json::Number(number) if number.as_f64() != Some(0.0) => drop(out.insert(number.to_string())),
        Json::Array(all) => all.iter().for_each(|one| leaves(one, out)),
        Json::Object(fields) => fields.values().for_each(|one| leaves(one, out)),
        Json::String(_) | Json::Number(_) | Json::Null | Json::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tfstate, *};
    use serde_json::json;

    #[test]
    fn what_others_declare_with_it_is_found() {
        let ingress = |cidr: &str, port: u16| json!({ "cidr_blocks": [cidr], "from_port": port, "to_port": port, "protocol": "tcp", "self": false, "description": "" });
        let rule = |group: &str, cidr: &str, port: u16| {
            (
                "aws_vpc_security_group_ingress_rule",
                json!({ "id": format!("sgr-{cidr}-{port}"), "security_group_id": group, "cidr_ipv4": cidr, "from_port": port, "to_port": port, "ip_protocol": "tcp" }),
            )
        };
        let group = |ingress: &[Json]| {
            ("aws_security_group", json!({ "id": "sg-1", "name": "g", "ingress": ingress, "egress": [] }))
        };
        let check = |resources: &[(&str, Json)], expect: &[&str]| {
            let resource = |(number, (type_name, attributes)): (usize, &(&str, Json))| {
                json!({
                    "mode": "managed", "type": type_name, "name": format!("r{number}"),
                    "provider": "provider[\"registry.terraform.io/hashicorp/aws\"]",
                    "instances": [{ "attributes": attributes }],
                })
            };
            let all: Vec<Json> = resources.iter().enumerate().map(resource).collect();
            let file = json!({ "version": 4, "resources": all }).to_string();
            let mut held = tfstate::read(file.as_bytes()).unwrap();
            find(&mut held);
            let found: Vec<&str> = held[0].elsewhere.iter().map(|name| &**name).collect();
            assert_eq!(found, expect);
        };
        let both = [ingress("10.0.0.0/8", 80), ingress("10.0.0.0/8", 443)];
        check(&[group(&both)], &[]);
        check(&[group(&both), rule("sg-1", "10.0.0.0/8", 80), rule("sg-1", "10.0.0.0/8", 443)], &["ingress"]);
        // One of them is declared here.
        check(&[group(&both), rule("sg-1", "10.0.0.0/8", 80)], &[]);
        // Those of another group say nothing of this one, and nor does what only uses it.
        check(&[group(&both[..1]), rule("sg-2", "10.0.0.0/8", 80)], &[]);
        let instance =
            ("aws_instance", json!({ "id": "i-1", "vpc_security_group_ids": ["sg-1"], "cpu": 80 }));
        check(&[group(&both[..1]), instance], &[]);
    }
}
