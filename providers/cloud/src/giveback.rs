//! Giving back: a state file of Terraform, format 4, of what is tracked. Pure but for reading schemas.
//!
//! Such a file holds secrets in clear, since Terraform has no other way. Without them it is complete but for their values,
//! which the next `terraform plan` then sets anew.

use crate::{
    Config,
    catalog::Catalog,
    cty::Type,
    hidden::Hidden,
    host::Host,
    kept::Kept,
    kind,
    schema::{Attribute, Block},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use reconciled_provider::{Cx, Error, ManifestKey, ResourceId, Scope, Sealed};
use serde_json::{Value as Json, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A resource that is tracked.
pub struct Row {
    /// Where.
    pub scope: Scope,
    /// Which.
    pub id: ResourceId,
    /// What is remembered of it.
    pub private: Sealed,
    /// What declares it.
    pub manifest: ManifestKey,
    /// What that depends on.
    pub after: Arc<[ManifestKey]>,
}

/// The rows that a provider of Terraform has made, and that none of `entries` carries any more: [`give_back`] leaves them out.
pub fn without_entry<'r>(entries: &BTreeMap<Arc<str>, Config>, rows: &'r [Row]) -> Vec<&'r Row> {
    // Nobody else remembers what looks like a state.
    let is_ours = |row: &&Row| matches!(Kept::open(&row.private), Ok(Some(_)));
    rows.iter().filter(|row| !entries.contains_key(&row.scope.provider)).filter(is_ours).collect()
}

/// A state file, and what is in it.
pub struct GivenBack {
    /// The file.
    pub text: Vec<u8>,
    /// How many resources.
    pub count: usize,
    /// Secrets of them are in it, or were left out of it.
    pub has_secrets: bool,
}

/// Writes a state file of the rows that `entries` carry.
///
/// Errors: schemas cannot be had, or what is remembered is no state.
pub async fn give_back(
    cx: &Cx,
    entries: &BTreeMap<Arc<str>, Config>,
    rows: &[Row],
    with_secrets: bool,
) -> Result<GivenBack, Error> {
    let mut catalogs: BTreeMap<Arc<str>, Arc<Catalog>> = BTreeMap::new();
    for (name, config) in entries {
        if rows.iter().any(|row| row.scope.provider == *name) {
            catalogs.insert(name.clone(), Host::new(name, config.clone()).catalog(cx).await?);
        }
    }
    let mut names: BTreeSet<(String, String)> = BTreeSet::new();
    let mut addresses: BTreeMap<&ManifestKey, BTreeSet<String>> = BTreeMap::new();
    let mut tracked = Vec::new();
    for row in rows.iter().filter(|row| catalogs.contains_key(&row.scope.provider)) {
        let Some(kept) = Kept::open(&row.private)? else { continue };
        let type_name = kind::type_in(&row.id);
        let name = row.id.0.split_once('.').map_or("", |(_, name)| name);
        let name = identifier(&mut names, type_name, name);
        addresses.entry(&row.manifest).or_default().insert(format!("{type_name}.{name}"));
        tracked.push((row, kept, type_name, name));
    }
    let needs = needs(rows);
    let (count, mut has_secrets) = (tracked.len(), false);
    let mut resources = Vec::new();
    for (row, kept, type_name, name) in tracked {
        let (Some(catalog), Some(config)) =
            (catalogs.get(&row.scope.provider), entries.get(&row.scope.provider))
        else {
            continue;
        };
        let block = &catalog.resource(type_name)?.schema.block;
        let former = kept.former.iter().enumerate().map(|(number, former)| {
            let mut one = instance(block, &former.kept, with_secrets, &mut has_secrets)?;
            one["deposed"] = format!("{number:08x}").into();
            Ok(one)
        });
        let former = former.collect::<Result<Vec<_>, Error>>()?;
        let mut instances = vec![instance(block, &kept, with_secrets, &mut has_secrets)?];
        instances.extend(former);
        let own = format!("{type_name}.{name}");
        let behind = behind(row, &needs).into_iter().filter_map(|key| addresses.get(key)).flatten();
        let dependencies: BTreeSet<&String> = behind.filter(|address| **address != own).collect();
        if !dependencies.is_empty() {
            instances.iter_mut().for_each(|one| one["dependencies"] = json!(dependencies));
        }
        resources.push(json!({
            "mode": "managed",
            "type": type_name,
            "name": name,
            "provider": provider(&row.scope.provider, entries, config),
            "instances": instances,
        }));
    }
    let lineage = blake3::hash(Json::from(resources.clone()).to_string().as_bytes()).to_hex();
    let parts = [&lineage[..8], &lineage[8..12], &lineage[12..16], &lineage[16..20], &lineage[20..32]];
    let file = json!({
        "version": 4,
        "terraform_version": "1.0.0",
        "serial": 1,
        "lineage": parts.join("-"),
        "outputs": {},
        "resources": resources,
    });
    Ok(GivenBack { text: format!("{file:#}\n").into_bytes(), count, has_secrets })
}

/// What each manifest depends on, as far as it has made anything.
fn needs(rows: &[Row]) -> BTreeMap<&ManifestKey, BTreeSet<&ManifestKey>> {
    let mut needs: BTreeMap<&ManifestKey, BTreeSet<&ManifestKey>> = BTreeMap::new();
    for row in rows {
        needs.entry(&row.manifest).or_default().extend(row.after.iter());
    }
    needs
}

/// All that a resource depends on, also by way of others: a state file has all of it.
fn behind<'r>(
    row: &'r Row,
    needs: &BTreeMap<&'r ManifestKey, BTreeSet<&'r ManifestKey>>,
) -> BTreeSet<&'r ManifestKey> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&ManifestKey> = row.after.iter().collect();
    while let Some(key) = open.pop() {
        if found.insert(key) {
            open.extend(needs.get(key).into_iter().flatten().copied());
        }
    }
    found
}

fn instance(block: &Block, kept: &Kept, with_secrets: bool, has_secrets: &mut bool) -> Result<Json, Error> {
    // The text of the error would quote the state.
    let mut attributes: Json = serde_json::from_str(&kept.state)
        .map_err(|_| Error::unexpected("what is remembered of it is no state"))?;
    let secret: Vec<Json> = block
        .attributes
        .iter()
        .filter(|(_, attribute)| attribute.is_secret())
        .map(|(name, _)| json!([{ "type": "get_attr", "value": name }]))
        .collect();
    let mut private = STANDARD.encode(kept.private());
    let mut identity = kept.identity.as_ref();
    let hidden = kept.hidden_by(block);
    let mut blanked = attributes.clone();
    blank_secrets(block, &mut blanked);
    blank(&hidden, &mut blanked, &block.value_type());
    *has_secrets |= blanked != attributes;
    if with_secrets {
        // Nobody but the provider knows what is in there.
        *has_secrets |= !private.is_empty();
    } else {
        attributes = blanked;
        private.clear();
        identity = identity.filter(|identity| !hidden.hides(&identity.value));
    }
    let mut one = json!({
        "schema_version": kept.version,
        "attributes": attributes,
        "sensitive_attributes": secret,
    });
    if !private.is_empty() {
        one["private"] = private.into();
    }
    if let Some(identity) = identity
        && let Ok(value) = serde_json::from_str::<Json>(&identity.value)
    {
        one["identity_schema_version"] = identity.version.into();
        one["identity"] = value;
    }
    if kept.is_tainted {
        one["status"] = "tainted".into();
    }
    Ok(one)
}

/// Empties what the schema calls a secret.
fn blank_secrets(block: &Block, state: &mut Json) {
    let Some(fields) = state.as_object_mut() else { return };
    for (name, attribute) in &block.attributes {
        if let Some(value) = fields.get_mut(&**name) {
            blank_attribute(attribute, value);
        }
    }
    for (name, nested) in &block.blocks {
        if let Some(value) = fields.get_mut(&**name) {
            each(value, &|one| blank_secrets(&nested.block, one));
        }
    }
}

fn blank_attribute(attribute: &Attribute, value: &mut Json) {
    if attribute.is_secret() {
        *value = Json::Null;
    } else if let Some(nested) = &attribute.nested {
        let block = Block { attributes: nested.attributes.clone(), ..Block::default() };
        each(value, &|one| blank_secrets(&block, one));
    }
}

/// One, or each of several; a map of blocks looks like one, and nothing of it is called like an attribute by chance
/// without being looked at.
fn each(value: &mut Json, one: &dyn Fn(&mut Json)) {
    match value {
        Json::Array(all) => all.iter_mut().for_each(one),
        Json::Object(fields) if fields.values().all(Json::is_object) => {
            fields.values_mut().for_each(one);
            one(value);
        }
        single => one(single),
    }
}

/// Empties every text that is a secret or holds one, wherever it stands; what has one as its key goes.
fn blank(hidden: &Hidden, state: &mut Json, of: &Type) {
    match state {
        Json::String(text) if hidden.hides(text) => *state = Json::Null,
        Json::Number(number) if hidden.hides(&number.to_string()) => *state = Json::Null,
        Json::Array(all) => {
            let of = match of {
                Type::List(of) | Type::Set(of) => &**of,
                _ => &Type::Dynamic,
            };
            all.iter_mut().for_each(|one| blank(hidden, one, of));
        }
        Json::Object(fields) => {
            // The names of attributes say nothing.
            if let Type::Map(_) = of {
                fields.retain(|key, _| !hidden.hides(key));
            }
            for (name, one) in fields.iter_mut() {
                let of = match of {
                    Type::Map(of) => &**of,
                    Type::Object(types) => types.get(&**name).unwrap_or(&Type::Dynamic),
                    _ => &Type::Dynamic,
                };
                blank(hidden, one, of);
            }
        }
        _ => {}
    }
}

/// What HCL takes for a name.
fn identifier(names: &mut BTreeSet<(String, String)>, type_name: &str, name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let mut safe: String = name.chars().map(safe).collect();
    if !safe.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        safe.insert(0, '_');
    }
    let mut all = std::iter::once(safe.clone()).chain((2..).map(|number| format!("{safe}-{number}")));
    let of = |name: String| (type_name.to_string(), name);
    let free = all.find(|name| !names.contains(&of(name.clone()))).unwrap_or_default();
    names.insert(of(free.clone()));
    free
}

/// The provider as a state file names it: by its alias, where several entries have it.
fn provider(entry: &str, entries: &BTreeMap<Arc<str>, Config>, config: &Config) -> String {
    let parts: Vec<&str> = config.source.split('/').collect();
    let source = match parts[..] {
        [_, _, _] => config.source.to_string(),
        [_, _] => format!("registry.terraform.io/{}", config.source),
        _ => format!("registry.terraform.io/hashicorp/{}", config.source),
    };
    let several = entries.values().filter(|other| other.source == config.source).count() > 1;
    let alias = if several && entry != config.group() { format!(".{entry}") } else { String::new() };
    format!("provider[\"{source}\"]{alias}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        schema::fixture::{block, text},
        wire::message,
    };

    #[test]
    fn rows_of_an_entry_that_is_gone_are_told() {
        let row = |scope: Scope, id: &str, private: &str| Row {
            scope,
            id: id.into(),
            private: Sealed::new(private),
            manifest: ManifestKey::new("infra", "toy", "Thing", "", id),
            after: Arc::from([]),
        };
        let state = r#"{"version": 1, "state": "{}"}"#;
        let rows = [
            row(Scope::new("gone", "Thing/a"), "toy_thing.a", state),
            row(Scope::new("gone", "Data/b"), "data.toy_thing.b", ""),
            row(Scope::new("zones", "example.com"), "www/A", r#"{"serial": 1}"#),
        ];
        let left: Vec<&str> =
            without_entry(&BTreeMap::new(), &rows).into_iter().map(|row| &*row.id.0).collect();
        assert_eq!(left, ["toy_thing.a"]);
    }

    #[test]
    fn no_secret_is_left_as_a_key_and_no_attribute_goes() {
        let tags = message::Attribute { type_json: br#"["map","string"]"#.to_vec(), ..text("tags", "o") };
        let block = block(vec![tags, text("name", "o")], Vec::new());
        let hidden: Hidden = ["name".into(), "hunter2".into()].into_iter().collect();
        let mut state = json!({ "name": "web", "tags": { "of-hunter2": "1", "b": "x-hunter2", "c": "y" } });
        blank(&hidden, &mut state, &block.value_type());
        assert_eq!(state, json!({ "name": "web", "tags": { "b": null, "c": "y" } }));
    }

    #[test]
    fn what_is_behind_something_is_all_of_it_and_a_circle_ends() {
        let key = |name: &str| ManifestKey::new("infra", "toy", "Thing", "", name);
        let row = |name: &str, after: &[&str]| Row {
            scope: Scope::new("toy", format!("Thing/{name}")),
            id: format!("toy_thing.{name}").into(),
            private: Sealed::default(),
            manifest: key(name),
            after: after.iter().map(|name| key(name)).collect(),
        };
        let rows =
            [row("a", &[]), row("b", &["a", "none"]), row("c", &["b"]), row("d", &["e"]), row("e", &["d"])];
        let check = |row: &Row, expect: &[&str]| {
            let expect: Vec<ManifestKey> = expect.iter().map(|name| key(name)).collect();
            let expect: BTreeSet<&ManifestKey> = expect.iter().collect();
            assert_eq!(behind(row, &needs(&rows)), expect);
        };
        check(&rows[0], &[]);
        check(&rows[2], &["a", "b", "none"]);
        check(&rows[4], &["d", "e"]);
    }
}
