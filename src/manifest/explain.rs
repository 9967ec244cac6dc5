//! What a kind's spec may hold, from the schema of the type that parses it: for people, and for editors.

use super::{
    annotations::{KNOWN, PREFIX},
    envelope::METADATA_OF_KUBERNETES,
};
use reconciled_provider::{Kind, Kinds, problem::did_you_mean};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write as _,
};

/// Describes a kind, or one field of it, as an indented list of fields.
///
/// `name` is `KIND[.GROUP][.FIELD…]`: `Zone`, `Zone.dns` where two groups share the kind, `Zone.records.values`.
/// Elements of lists and values of mappings have no name of their own; `spec` may stand before the fields.
///
/// Errors: the text to show when there is no such kind or field.
pub fn explain(kinds: &Kinds, name: &str) -> Result<String, String> {
    let (kind, rest) = name.split_once('.').unwrap_or((name, ""));
    let named: Vec<&Kind> = kinds.0.iter().filter(|known| known.name.eq_ignore_ascii_case(kind)).collect();
    let below = |group: &str| {
        let rest = rest.strip_prefix(group)?;
        if rest.is_empty() { Some("") } else { rest.strip_prefix('.') }
    };
    // A group has dots of its own, so the longest that fits is the one that is meant.
    let groups = named.iter().flat_map(|known| {
        known.api_versions.iter().map(|version| (*known, version.split('/').next().unwrap_or_default()))
    });
    let fitting = groups.filter_map(|(known, group)| Some((known, group, below(group)?)));
    let of_group = fitting.max_by_key(|(_, group, _)| group.len()).map(|(known, _, path)| (known, path));
    let Some((found, path)) = of_group.or_else(|| named.first().map(|known| (*known, rest))) else {
        let near = did_you_mean(kind, kinds.0.iter().map(|kind| &*kind.name));
        return Err(match near {
            Some(near) => format!("there is no kind `{kind}`\nhint: did you mean `{near}`?"),
            None => {
                let names: BTreeSet<&str> = kinds.0.iter().map(|kind| &*kind.name).collect();
                let names = names.into_iter().collect::<Vec<_>>().join(", ");
                let others = "those of a Terraform provider are known where an entry of it is configured";
                format!("there is no kind `{kind}`\nhint: known: {names}; {others}")
            }
        });
    };
    if !path.is_empty() && path != "spec" {
        return field(found, path.strip_prefix("spec.").unwrap_or(path));
    }
    let mut text = String::new();
    let versions: Vec<&str> = found.api_versions.iter().map(|version| &**version).collect();
    let _ = writeln!(text, "{}: {}", found.name, found.summary);
    let _ = writeln!(text, "apiVersion: {}\n\nspec:", versions.join(" or "));
    let mut explainer = Explainer { text, ..Explainer::of(&found.schema) };
    explainer.fields(&found.schema, 1);
    Ok(explainer.text)
}

/// Describes the field at `path` of a kind.
fn field(kind: &Kind, path: &str) -> Result<String, String> {
    let mut explainer = Explainer::of(&kind.schema);
    let mut holder: &Value = &kind.schema;
    let mut steps = path.split('.').peekable();
    let mut walked = String::from(&*kind.name);
    while let Some(step) = steps.next() {
        let fields = explainer.fields_of(holder);
        let Some(property) = fields.and_then(|(_, fields)| fields.get(step)) else {
            let known: Vec<&str> =
                fields.into_iter().flat_map(|(_, fields)| fields.keys().map(String::as_str)).collect();
            let hint = match did_you_mean(step, known.iter().copied()) {
                Some(near) => format!("did you mean `{walked}.{near}`?"),
                None if known.is_empty() => format!("to see what {walked} is: reconciled explain {walked}"),
                None => format!("fields of {walked}: {}", known.join(", ")),
            };
            return Err(format!("{walked} has no field `{step}`\nhint: {hint}"));
        };
        if steps.peek().is_none() {
            let required = fields.and_then(|(schema, _)| schema.get("required")).and_then(Value::as_array);
            let is_required = required.into_iter().flatten().any(|name| name == step);
            let _ = writeln!(explainer.text, "{} of {walked} ({})\n", step, kind.api_versions.join(" or "));
            explainer.field(step, property, is_required, 0);
        }
        walked = format!("{walked}.{step}");
        holder = property;
    }
    Ok(explainer.text)
}

/// A definition of more lines is described once: statements of a firewall hold each other, 20,000 fields in all.
const REPEATED: usize = 20;

struct Explainer<'a> {
    root: &'a Value,
    text: String,
    /// Definitions being described: a type that holds itself is described once.
    open: Vec<&'a str>,
    /// The field being described, from the kind or from the field that was asked for.
    path: Vec<String>,
    /// Long definitions that were described, and of which field.
    told: HashMap<&'a str, String>,
}

impl<'a> Explainer<'a> {
    fn of(root: &'a Value) -> Explainer<'a> {
        Explainer { root, text: String::new(), open: Vec::new(), path: Vec::new(), told: HashMap::new() }
    }

    fn resolve(&self, schema: &'a Value) -> (&'a Value, Option<&'a str>) {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str) else {
            // An optional reference is written as one of it and null, a described one as all of one.
            for word in ["allOf", "anyOf"] {
                let all = schema.get(word).and_then(Value::as_array);
                // Other ways to write the same are for programs.
                let is_told =
                    |s: &&Value| s.get("type") != Some(&json!("null")) && s.get("x-otherwise").is_none();
                let mut real = all.into_iter().flatten().filter(is_told);
                if let (Some(one), None) = (real.next(), real.next()) {
                    return self.resolve(one);
                }
            }
            return (schema, None);
        };
        let target = self.root.pointer(reference.trim_start_matches('#'));
        (target.unwrap_or(schema), Some(reference))
    }

    /// The struct that `schema` is, or is a list or mapping of, and its fields.
    fn fields_of(&self, schema: &'a Value) -> Option<(&'a Value, &'a Map<String, Value>)> {
        let (schema, _) = self.resolve(schema);
        if let Some(fields) = schema.get("properties").and_then(Value::as_object) {
            return Some((schema, fields));
        }
        match schema.get("items").or_else(|| schema.get("additionalProperties")) {
            Some(inner) => self.fields_of(inner),
            // One of several forms: the first that has fields.
            None => variants(schema).find_map(|variant| self.fields_of(variant)),
        }
    }

    /// Describes the fields of `schema`, or of what it is a list or mapping of, or of each form it may have.
    fn below(&mut self, schema: &'a Value, depth: usize) {
        let start = self.text.len();
        self.fields(schema, depth);
        let (target, _) = self.resolve(schema);
        let inner = [target.get("items"), target.get("additionalProperties").filter(|v| v.is_object())];
        inner.into_iter().flatten().for_each(|inner| self.below(inner, depth));
        for variant in variants(target) {
            let end = self.text.len();
            let told = self.told.clone();
            self.below(variant, depth);
            self.told = told;
            // What an earlier form has too is said once.
            let (before, now) = self.text[start..].split_at(end - start);
            if before.starts_with(now) || before.contains(&format!("\n{now}")) {
                self.text.truncate(end);
            }
        }
    }

    fn fields(&mut self, schema: &'a Value, depth: usize) {
        let (schema, name) = self.resolve(schema);
        if name.is_some_and(|name| self.open.contains(&name)) {
            return;
        }
        if let Some(path) = name.and_then(|name| self.told.get(name)) {
            let _ = writeln!(self.text, "{}… as {path}", "  ".repeat(depth));
            return;
        }
        let start = self.text.len();
        self.open.extend(name);
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .map_or_else(Vec::new, |list| list.iter().filter_map(Value::as_str).collect());
        for (field, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.field(field, property, required.contains(&field.as_str()), depth);
        }
        if let Some(name) = name {
            self.open.pop();
            if self.text[start..].lines().count() > REPEATED {
                self.told.insert(name, self.path.join("."));
            }
        }
    }

    fn field(&mut self, field: &str, property: &'a Value, is_required: bool, depth: usize) {
        let pad = "  ".repeat(depth);
        let (target, _) = self.resolve(property);
        let mut notes = vec![self.type_of(property)];
        if is_required {
            notes.push("required".to_string());
        }
        if let Some(default) = property.get("default").filter(|value| !value.is_null()) {
            notes.push(format!("default {default}"));
        }
        let described = |schema: &'a Value| schema.get("description").and_then(Value::as_str);
        let description = described(property).or_else(|| described(target)).unwrap_or("");
        let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
        let dash = if description.is_empty() { "" } else { "  " };
        let _ = writeln!(self.text, "{pad}{field} <{}>{dash}{description}", notes.join(", "));
        self.path.push(field.to_string());
        self.below(property, depth + 1);
        self.path.pop();
    }

    fn type_of(&self, schema: &'a Value) -> String {
        let (schema, _) = self.resolve(schema);
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return choices(values.iter());
        }
        if let Some(variants) = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array)
        {
            let consts: Vec<&Value> = variants
                .iter()
                .filter_map(|variant| {
                    variant.get("const").map(|c| vec![c]).or_else(|| {
                        variant.get("enum").and_then(Value::as_array).map(|list| list.iter().collect())
                    })
                })
                .flatten()
                .collect();
            if consts.len() >= variants.len() {
                return choices(consts.into_iter());
            }
            let mut all: Vec<String> = variants.iter().map(|variant| self.type_of(variant)).collect();
            all.dedup();
            return all.join(" or ");
        }
        let named = |word: &str| match word {
            "array" => match schema.get("items") {
                Some(items) => format!("list of {}", self.type_of(items)),
                None => "list".to_string(),
            },
            "object" => "mapping".to_string(),
            "string" => "text".to_string(),
            word => word.to_string(),
        };
        match schema.get("type") {
            Some(Value::String(word)) => named(word),
            Some(Value::Array(words)) => {
                let words = words.iter().filter_map(Value::as_str).filter(|word| *word != "null");
                words.map(named).collect::<Vec<_>>().join(" or ")
            }
            _ => "any".to_string(),
        }
    }
}

/// The forms a schema may have, where there are several.
fn variants(schema: &Value) -> impl Iterator<Item = &Value> {
    let all = schema.get("anyOf").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    all.iter().filter(|variant| variant.get("type") != Some(&json!("null")))
}

fn choices<'a>(values: impl Iterator<Item = &'a Value>) -> String {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    values.map(shown).collect::<Vec<_>>().join(" | ")
}

/// The JSON Schema files of whole manifests, by file name: one for each kind and version, named as kubeconform
/// does (`zone-dns-v1.json`), and `all.json`, which takes any of them.
pub fn schemas(kinds: &Kinds) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut all = Vec::new();
    for kind in &kinds.0 {
        for version in kind.api_versions.iter() {
            let name = format!("{}-{}.json", kind.name, version.replace('/', "-")).to_lowercase();
            if files.contains_key(&name) {
                continue;
            }
            all.push(json!({"$ref": name}));
            files.insert(name, pretty(&manifest_schema(kind, version)));
        }
    }
    let any = json!({"$schema": "http://json-schema.org/draft-07/schema#", "oneOf": all});
    files.insert("all.json".to_string(), pretty(&any));
    files
}

fn pretty(schema: &Value) -> String {
    let text = serde_json::to_string_pretty(schema).expect("a JSON value has a text");
    text + "\n"
}

fn manifest_schema(kind: &Kind, version: &str) -> Value {
    let mut spec = (*kind.schema).clone();
    close(&mut spec);
    take_sealed(&mut spec);
    take_scalars(&mut spec);
    let definitions = take(&mut spec, "definitions");
    take(&mut spec, "$schema");
    let ours = format!("^{PREFIX}");
    let mut metadata = json!({
        "name": {"type": "string", "maxLength": 253},
        "namespace": {"type": "string"},
        "labels": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "propertyNames": {"not": {"pattern": ours}},
        },
        "annotations": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            // A pattern with a look-ahead would be shorter, and is none to many a validator.
            "propertyNames": {"anyOf": [{"not": {"pattern": ours}}, {"enum": annotations()}]},
            "properties": annotation_schemas(),
        },
    });
    for word in METADATA_OF_KUBERNETES {
        metadata[word] = json!({});
    }
    let mut schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": kind.name,
        "description": kind.summary,
        "type": "object",
        "properties": {
            "apiVersion": {"const": version},
            "kind": {"const": kind.name},
            "metadata": {
                "type": "object",
                "properties": metadata,
                "required": ["name"],
                "additionalProperties": false,
            },
            "spec": spec,
            "status": {},
        },
        "required": ["apiVersion", "kind", "metadata"],
        "additionalProperties": false,
    });
    if let (Some(definitions), Some(object)) = (definitions, schema.as_object_mut()) {
        object.insert("definitions".to_string(), definitions);
    }
    schema
}

/// Where a kind takes a secret by its name, a manifest may name a value that sops encrypted: the loader has put a name in its place
/// before the kind is asked.
fn take_sealed(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(take_sealed);
            if is_secret(fields) {
                let sealed = json!({
                    "type": "object",
                    "properties": {"sops": {"type": "string"}, "key": {"type": "string"}},
                    "required": ["sops", "key"],
                    "additionalProperties": false,
                });
                let named = std::mem::take(fields);
                fields.insert("anyOf".to_string(), json!([named, sealed]));
            }
        }
        Value::Array(all) => all.iter_mut().for_each(take_sealed),
        _ => {}
    }
}

fn is_secret(fields: &Map<String, Value>) -> bool {
    let properties = fields.get("properties").and_then(Value::as_object);
    let is_named = properties.is_some_and(|all| all.len() == 1 && all.contains_key("secret"));
    is_named && fields.get("required") == Some(&json!(["secret"]))
}

/// A text may be written as any scalar: `priority: 10`. For programs; people are told of texts.
fn take_scalars(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let is_free =
                !["enum", "const", "format", "pattern"].iter().any(|word| fields.contains_key(*word));
            let text = json!("string");
            match fields.get_mut("type") {
                Some(kind) if is_free && *kind == text => *kind = json!(["string", "number", "boolean"]),
                Some(Value::Array(kinds)) if is_free && kinds.contains(&text) => {
                    kinds.extend(["number", "boolean"].map(Value::from));
                }
                _ => {}
            }
            fields.values_mut().for_each(take_scalars);
        }
        Value::Array(all) => all.iter_mut().for_each(take_scalars),
        _ => {}
    }
}

/// The annotations that are ours.
fn annotations() -> Vec<String> {
    KNOWN.iter().map(|word| format!("{PREFIX}{word}")).collect()
}

fn annotation_schemas() -> Value {
    Value::Object(annotations().into_iter().map(|name| (name, json!({"type": "string"}))).collect())
}

fn take(schema: &mut Value, key: &str) -> Option<Value> {
    schema.as_object_mut().and_then(|object: &mut Map<String, Value>| object.shift_remove(key))
}

/// Unknown fields are refused when a manifest is read, so an editor should mark them.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            let is_struct = object.get("properties").is_some_and(|properties| {
                properties.is_object() && object.get("type").is_some_and(|kind| has_type(kind, "object"))
            });
            object.iter_mut().filter(|(key, _)| *key != "default").for_each(|(_, value)| close(value));
            if is_struct && !object.contains_key("additionalProperties") {
                object.insert("additionalProperties".to_string(), Value::Bool(false));
            }
        }
        Value::Array(all) => all.iter_mut().for_each(close),
        _ => {}
    }
}

fn has_type(kind: &Value, word: &str) -> bool {
    match kind {
        Value::String(one) => one == word,
        Value::Array(many) => many.iter().any(|one| one == word),
        _ => false,
    }
}
