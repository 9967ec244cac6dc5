//! What was found, as manifests: the inverse of normalizing.

use crate::{
    cron::CRON,
    kind::{API_VERSION, DIRECTORY, FILE},
    state::{self, Access, Content, Shape, mode_text},
    systemd::{self, SYSTEMD, Unit, unit::Then},
};
use bytes::Bytes;
use reconciled_provider::{Found, Observed};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// One manifest for each file, link, directory and block that may be declared as it is.
///
/// Content that not every user of the host may read is left out, with its file: a repository is read by more people.
pub fn export(entry: &str, found: &Found) -> Vec<Bytes> {
    let mut names = BTreeSet::new();
    let is_of_units = [SYSTEMD, CRON].contains(&&*found.scope.name);
    let one = |observed: &Observed| match is_of_units {
        true => unit(entry, observed),
        false => document(entry, observed, &mut names),
    };
    found.resources.iter().filter_map(one).collect()
}

/// A unit as a manifest of its own.
fn unit(entry: &str, observed: &Observed) -> Option<Bytes> {
    let unit = Unit::decode(&observed.bytes)?;
    // A repository is read by more people than the file is.
    if unit.content.iter().chain(unit.drop_ins.values()).any(|text| systemd::is_closed(text)) {
        return None;
    }
    let mut spec = json!({ "provider": entry, "onChange": unit.on_change });
    let fields = spec.as_object_mut()?;
    let mut add = |key: &str, value: Option<Value>| fields.extend(value.map(|value| (key.to_owned(), value)));
    add("content", unit.content.map(Value::from));
    add("dropIns", (!unit.drop_ins.is_empty()).then(|| json!(unit.drop_ins)));
    add("enabled", unit.enabled.map(Value::from));
    add("masked", unit.masked.map(Value::from));
    for (word, then) in [("reloadOn", Then::Reload), ("restartOn", Then::Restart)] {
        let paths: Vec<&String> =
            unit.reads.iter().filter(|(_, read)| read.then == then).map(|(path, _)| path).collect();
        add(word, (!paths.is_empty()).then(|| json!(paths)));
    }
    add("state", unit.state.map(|state| json!(state)));
    let head = json!({ "apiVersion": systemd::API_VERSION, "kind": systemd::UNIT, "metadata": { "name": &*observed.id.0 } });
    // JSON is YAML.
    let head: String = head.as_object()?.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
    Some(format!("{head}spec: {spec}\n").into())
}

fn document(entry: &str, observed: &Observed, names: &mut BTreeSet<String>) -> Option<Bytes> {
    let shape = Shape::decode(&observed.bytes)?;
    let (path, block) = state::parts(&observed.id);
    let mut spec = Map::new();
    if !entry.is_empty() {
        spec.insert("provider".into(), entry.into());
    }
    spec.insert("path".into(), path.into());
    let mut kind = FILE;
    match &shape {
        Shape::File(file) => {
            access(&mut spec, &file.access, file.content.usual_mode());
            spec.extend(file.validate.as_deref().map(|name| ("validate".to_owned(), name.into())));
            spec.insert("content".into(), content(&file.content)?);
        }
        Shape::Link { target } => {
            spec.insert("symlink".into(), (&**target).into());
        }
        Shape::Directory(directory) => {
            kind = DIRECTORY;
            access(&mut spec, &directory.access, 0o755);
            if directory.purge {
                spec.insert("purge".into(), true.into());
            }
        }
        Shape::Block(declared) => {
            spec.insert("block".into(), block?.into());
            if &*declared.comment != "#" {
                spec.insert("comment".into(), (&*declared.comment).into());
            }
            spec.extend(declared.validate.as_deref().map(|name| ("validate".to_owned(), name.into())));
            spec.insert("content".into(), content(&declared.content)?);
        }
        Shape::Other { .. } | Shape::Refused(_) => return None,
    }
    let name = name(&observed.id.0, names);
    // JSON is YAML, and quotes everything that could be misread.
    let spec: String = spec.iter().map(|(key, value)| format!("  {key}: {value}\n")).collect();
    let head = format!("apiVersion: {API_VERSION}\nkind: {kind}\nmetadata: {{name: {}}}\n", json!(name));
    Some(format!("{head}spec:\n{spec}").into())
}

fn access(spec: &mut Map<String, Value>, access: &Access, default: u32) {
    spec.extend(access.owner.as_deref().map(|name| ("owner".to_owned(), name.into())));
    spec.extend(access.group.as_deref().map(|name| ("group".to_owned(), name.into())));
    if access.mode != default {
        spec.insert("mode".into(), mode_text(access.mode).into());
    }
}

fn content(content: &Content) -> Option<Value> {
    match content {
        Content::Clear(bytes) => Some(std::str::from_utf8(bytes).ok()?.into()),
        Content::Secret { name, .. } => Some(json!({"secret": &**name})),
        Content::Mark { .. } => None,
    }
}

/// A name for the manifest of a path: its letters and digits, and a number where that is taken.
fn name(id: &str, taken: &mut BTreeSet<String>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let joined: String = id.chars().map(plain).collect();
    let words: Vec<&str> = joined.split('-').filter(|word| !word.is_empty()).collect();
    let base: String = words.join("-").chars().take(200).collect();
    let base = if base.is_empty() { "file".to_owned() } else { base };
    let mut name = base.clone();
    let mut number = 2;
    while !taken.insert(name.clone()) {
        name = format!("{base}-{number}");
        number += 1;
    }
    name
}
