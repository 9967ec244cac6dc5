//! A state file of Terraform or OpenTofu, format 4: what was made, by whom, and in which state. Pure.
//!
//! Such a file holds secrets in clear, so no error quotes it.

use super::marked::{self, Path};
use crate::plugin::Identity;
use base64::{Engine, engine::general_purpose::STANDARD};
use reconciled_provider::Error;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// The format that is read and written.
const VERSION: u64 = 4;

/// One instance of a resource.
pub(super) struct Held {
    /// `module.web.aws_sqs_queue.jobs["a"]`.
    pub(super) address: String,
    /// Where it is, as others depend on it.
    pub(super) place: Place,
    /// `aws_sqs_queue`.
    pub(super) type_name: String,
    /// `hashicorp/aws`.
    pub(super) source: String,
    /// Where the module configures the provider more than once.
    pub(super) alias: Option<String>,
    /// A name for its manifest.
    pub(super) name: String,
    /// Version of the schema it was written with.
    pub(super) version: i64,
    /// Its attributes.
    pub(super) attributes: Json,
    /// What of them the configuration called sensitive.
    pub(super) marked: Vec<Path>,
    /// What the provider wants back.
    pub(super) private: Vec<u8>,
    /// What identifies it.
    pub(super) identity: Option<Identity>,
    /// What it depends on.
    pub(super) dependencies: Vec<String>,
    /// The new one is made before the old one is deleted.
    pub(super) create_before_destroy: bool,
    /// It is no data source.
    pub(super) is_managed: bool,
    /// Why it cannot be taken over.
    pub(super) fault: Option<&'static str>,
}

/// Where a resource stands in a configuration.
pub(super) struct Place {
    /// `module.web.aws_sqs_queue.jobs`, without the keys of modules and instances: so others name what they depend on.
    pub(super) resource: String,
    /// The modules on the way, by name and key, which is empty where there is none.
    modules: Vec<(String, String)>,
}

impl Place {
    fn of(module: &str, data: &str, type_name: &str, name: &str) -> Place {
        let modules = modules(module);
        let way: String = modules.iter().map(|(module, _)| format!("module.{module}.")).collect();
        Place { resource: format!("{way}{data}{type_name}.{name}"), modules }
    }

    /// True where what is at `other` may refer to it: an instance of a module has no way to another one of the same module.
    pub(super) fn is_seen_from(&self, other: &Place) -> bool {
        let mut shared =
            self.modules.iter().zip(&other.modules).take_while(|(own, others)| own.0 == others.0);
        shared.all(|(own, others)| own.1 == others.1)
    }
}

/// The modules of `module.web["a b"].module.x`, by name and key.
fn modules(text: &str) -> Vec<(String, String)> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(step) = rest.strip_prefix("module.") {
        let (name, after) = step.split_at(step.find(['.', '[']).unwrap_or(step.len()));
        let (key, after) = after.split_at(key_end(after));
        found.push((name.to_string(), key.to_string()));
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    found
}

/// Where the key ends that a text begins with; 0 where it begins with none. A quoted key may hold brackets, dots and quotes.
fn key_end(text: &str) -> usize {
    if !text.starts_with('[') {
        return 0;
    }
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            ']' if !is_quoted => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    resources: Vec<Resource>,
}

/// What is the same in all formats.
#[derive(Deserialize)]
struct Any {
    version: Option<Json>,
    /// It is the note of a working folder that says where the state is.
    backend: Option<IgnoredAny>,
    /// OpenTofu was told to encrypt it.
    encrypted_data: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Resource {
    module: Option<String>,
    mode: String,
    #[serde(rename = "type")]
    type_name: String,
    name: String,
    provider: String,
    #[serde(default)]
    instances: Vec<Instance>,
}

#[derive(Deserialize)]
struct Instance {
    index_key: Option<Json>,
    status: Option<String>,
    deposed: Option<String>,
    #[serde(default)]
    schema_version: i64,
    attributes: Option<Json>,
    #[serde(default)]
    sensitive_attributes: Json,
    private: Option<String>,
    identity: Option<Json>,
    #[serde(default)]
    identity_schema_version: i64,
    #[serde(default)]
    dependencies: Vec<String>,
    #[serde(default)]
    create_before_destroy: bool,
}

/// Reads a state file.
///
/// Errors: `Invalid` for what is no state file, or one of another format.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Held>, Error> {
    let no_state =
        |line: usize| Error::invalid(format!("line {line} is not that of a state file of Terraform"));
    // First of all: what another format has otherwise is no mistake in it.
    let any: Any = serde_json::from_slice(bytes).map_err(|error| no_state(error.line()))?;
    check(&any)?;
    let file: File = serde_json::from_slice(bytes).map_err(|error| no_state(error.line()))?;
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut all = Vec::new();
    for resource in file.resources {
        let Resource { module, mode, type_name, name, provider, instances } = resource;
        let prefix = module.as_ref().map(|module| format!("{module}.")).unwrap_or_default();
        let data = if mode == "data" { "data." } else { "" };
        let whole = format!("{prefix}{data}{type_name}.{name}");
        let (source, alias) = provider_of(&provider);
        for instance in instances {
            let key = match &instance.index_key {
                None => String::new(),
                Some(key) => format!("[{key}]"),
            };
            let (fault, marked) = (fault(&mode, &instance), marked::read(&instance.sensitive_attributes));
            let taken = names.entry(type_name.clone()).or_default();
            let called = free(taken, &plain_name(module.as_deref(), &name, instance.index_key.as_ref()));
            all.push(Held {
                address: format!("{whole}{key}"),
                place: Place::of(module.as_deref().unwrap_or_default(), data, &type_name, &name),
                type_name: type_name.clone(),
                source: source.clone(),
                alias: alias.clone(),
                name: called,
                version: instance.schema_version,
                attributes: instance.attributes.unwrap_or_default(),
                marked,
                private: instance.private.and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default(),
                identity: instance.identity.filter(Json::is_object).map(|identity| Identity {
                    version: instance.identity_schema_version,
                    value: identity.to_string(),
                }),
                dependencies: instance.dependencies,
                create_before_destroy: instance.create_before_destroy,
                is_managed: mode == "managed",
                fault,
            });
        }
    }
    Ok(all)
}

fn check(any: &Any) -> Result<(), Error> {
    if any.encrypted_data.is_some() {
        let error = Error::unsupported("the state file is encrypted");
        return Err(error.hint("`tofu state pull > plain.tfstate` writes it in clear"));
    }
    match any.version.as_ref().and_then(Json::as_u64) {
        Some(VERSION) => Ok(()),
        Some(_) if any.backend.is_some() => {
            let error = Error::invalid("it says where the state is, and is none itself");
            Err(error.hint("`terraform state pull > pulled.tfstate` fetches the state"))
        }
        Some(other) => {
            let error = Error::unsupported(format!("the state file has format {other}"));
            Err(error.hint("`terraform refresh` of version 0.13 or later writes format 4"))
        }
        None => Err(Error::invalid("it is no state file of Terraform: it has no `version`")),
    }
}

fn fault(mode: &str, instance: &Instance) -> Option<&'static str> {
    match mode {
        "managed" => {}
        "data" => {
            return Some("a data source is read and not managed: write a manifest of kind Data where needed");
        }
        _ => return Some("it is neither a resource nor a data source"),
    }
    if instance.deposed.is_some() {
        return Some("it was replaced and waits for its deletion: let `terraform apply` end that first");
    }
    match (instance.status.as_deref(), &instance.attributes) {
        (Some("tainted"), _) => {
            Some("it is tainted: let `terraform apply` replace it, or `terraform untaint` it")
        }
        (Some(_), _) => Some("its status is not known"),
        (None, None) => {
            Some("it is in the form of Terraform 0.11: `terraform refresh` of 0.13 or later rewrites it")
        }
        (None, Some(_)) => None,
    }
}

/// `hashicorp/aws` and the alias of `provider["registry.terraform.io/hashicorp/aws"].west`.
fn provider_of(text: &str) -> (String, Option<String>) {
    let Some((_, rest)) = text.split_once("provider[\"") else { return (text.to_string(), None) };
    let (address, rest) = rest.split_once("\"]").unwrap_or((rest, ""));
    let source = address.split_once('/').map_or(address, |(_, source)| source);
    (source.to_string(), rest.strip_prefix('.').map(String::from))
}

fn plain_name(module: Option<&str>, name: &str, key: Option<&Json>) -> String {
    let module = module.unwrap_or_default().replace("module.", "");
    let key = key.map(|key| key.as_str().map_or_else(|| key.to_string(), String::from)).unwrap_or_default();
    let whole = [module, name.to_string(), key].join("-");
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' };
    let parts: String = whole.chars().map(safe).collect();
    let parts: Vec<&str> = parts.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-").chars().take(200).collect()
}

/// `name`, or the next that nobody has.
pub(super) fn free(taken: &mut BTreeSet<String>, name: &str) -> String {
    let mut names = std::iter::once(name.to_string()).chain((2..).map(|number| format!("{name}-{number}")));
    let name = names.find(|name| !taken.contains(name)).unwrap_or_default();
    taken.insert(name.clone());
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_have_addresses_names_and_faults() {
        let text = r#"{"version": 4, "resources": [
            {"module": "module.web[\"a b\"].module.x", "mode": "managed", "type": "t_q", "name": "jobs",
             "provider": "module.web.provider[\"registry.terraform.io/hashicorp/aws\"].west",
             "instances": [{"index_key": "k/1", "attributes": {"id": "1"}, "private": "YQ==", "dependencies": ["t_r.x"]},
                           {"index_key": "k-1", "attributes": {}, "status": "tainted"},
                           {"index_key": 0, "deposed": "abc", "attributes": {}}]},
            {"mode": "data", "type": "t_d", "name": "d", "provider": "provider[\"registry.opentofu.org/a/b\"]",
             "instances": [{"attributes": {}}]}]}"#;
        let held = read(text.as_bytes()).unwrap();
        let addresses: Vec<&str> = held.iter().map(|held| &*held.address).collect();
        assert_eq!(addresses[0], r#"module.web["a b"].module.x.t_q.jobs["k/1"]"#);
        assert_eq!(addresses[3], "data.t_d.d");
        assert_eq!((&*held[0].source, held[0].alias.as_deref()), ("hashicorp/aws", Some("west")));
        assert_eq!((&*held[3].source, &held[3].alias), ("a/b", &None));
        assert_eq!(held[0].name, "web-a-b-.x-jobs-k-1");
        assert_eq!(held[1].name, format!("{}-2", held[0].name));
        assert_eq!((&*held[0].private, held[0].fault), (&b"a"[..], None));
        assert!(held[1].fault.unwrap().contains("tainted") && held[2].fault.unwrap().contains("deletion"));
        assert!(held[3].fault.unwrap().contains("data source"));
    }

    #[test]
    fn what_others_depend_on_is_named_without_keys_and_seen_from_within_one_instance() {
        let place = |module: &str| Place::of(module, "", "t_q", "jobs");
        let check = |module: &str, expect: &str| assert_eq!(place(module).resource, expect, "{module}");
        check("", "t_q.jobs");
        check("module.plain", "module.plain.t_q.jobs");
        check(r#"module.web["prod"].module.x[0]"#, "module.web.module.x.t_q.jobs");
        check(r#"module.web["a].b \" [\\"].module.x"#, "module.web.module.x.t_q.jobs");
        let sees = |from: &str, to: &str| place(to).is_seen_from(&place(from));
        let (a, b) = (r#"module.web["a"]"#, r#"module.web["b"]"#);
        assert!(sees(a, a) && !sees(a, b) && sees("", a) && sees(a, "") && sees("module.app", b));
        assert!(sees(&format!("{a}.module.x"), &format!("{a}.module.y[1]")));
        assert!(!sees(&format!("{a}.module.x"), &format!("{b}.module.x")));
    }

    #[test]
    fn what_is_no_state_file_is_refused_without_a_word_of_it() {
        for (text, part) in [
            ("hunter2", "line 1"),
            ("{}", "no `version`"),
            (r#"{"version": 3, "modules": []}"#, "format 3"),
            (r#"{"version": 3, "resources": {"a": "hunter2"}}"#, "format 3"),
            (r#"{"version": 4, "resources": "hunter2"}"#, "line 1"),
            (r#"{"version": 3, "backend": {"type": "s3", "hunter2": 1}}"#, "where the state is"),
            (r#"{"serial": 1, "encrypted_data": "hunter2", "encryption_version": "v0"}"#, "is encrypted"),
        ] {
            let error = read(text.as_bytes()).err().unwrap();
            assert!(error.message.contains(part) && !error.message.contains("hunter2"), "{error}");
        }
    }
}
