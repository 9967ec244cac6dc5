//! From manifests to resources.

mod endpoints;
mod included;
mod records;
mod reverse;

use super::*;
use crate::record::RrSet;
use bytes::Bytes;
use reconciled_provider::{
    Adopt, Error, ManifestKey, Policies, PolicyId, Reference, ResourceId, SecretMark, SecretRef, SourceFile,
    manifest::Value, yaml,
};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

struct TestInputs {
    is_sole: bool,
    scopes: BTreeSet<Scope>,
    siblings: Vec<Manifest>,
    /// Zones that may be declared where nothing can be read.
    hidden: BTreeSet<&'static str>,
    policies: RefCell<Policies>,
    /// Other files of the repository, by path.
    files: BTreeMap<&'static str, &'static str>,
}

impl Default for TestInputs {
    fn default() -> TestInputs {
        TestInputs {
            is_sole: true,
            scopes: BTreeSet::new(),
            siblings: Vec::new(),
            hidden: BTreeSet::new(),
            policies: RefCell::default(),
            files: BTreeMap::new(),
        }
    }
}

impl Inputs for TestInputs {
    fn entry(&self) -> &str {
        "pdns"
    }
    fn is_sole(&self) -> bool {
        self.is_sole
    }
    fn blob(&self, path: &str) -> Result<Bytes, Error> {
        let text =
            self.files.get(path).ok_or_else(|| Error::invalid(format!("there is no file `{path}`")))?;
        Ok(Bytes::from_static(text.as_bytes()))
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
    fn is_all_read(&self) -> bool {
        self.hidden.is_empty()
    }
    fn may_hide(&self, kind: &str, name: &str) -> bool {
        kind == "dns/Zone" && self.hidden.contains(name)
    }
    fn siblings(&self, kind: &str) -> Vec<&Manifest> {
        self.siblings.iter().filter(|manifest| &*manifest.kind == kind).collect()
    }
    /// This host is a web server.
    fn selects(&self, selector: &str) -> Result<bool, Error> {
        match selector {
            "role" => Err(Error::invalid("`role` is no selector").hint("write role=web")),
            _ => Ok(selector == "role=web"),
        }
    }
    fn policy(&self, policy: Policy) -> PolicyId {
        self.policies.borrow_mut().intern(policy)
    }
}

/// A manifest from its text, as the loader would make it.
pub(crate) fn manifest(text: &str) -> Manifest {
    let file = Arc::new(SourceFile::new("zone.yaml", text));
    let mut node = yaml::parse(&file, yaml::Limits::default()).unwrap().remove(0);
    let text = |path: &[&str]| {
        path.iter()
            .try_fold(&node, |node, key| node.get(key))
            .and_then(|node| node.as_str())
            .map(Arc::<str>::from)
    };
    let kind = text(&["kind"]).unwrap();
    let name = text(&["metadata", "name"]).unwrap_or_else(|| "example.com".into());
    let providers = text(&["spec", "provider"]).map(|name| Arc::from([name]));
    let api_version = text(&["apiVersion"]).unwrap_or_else(|| API_VERSION.into());
    let span = node.span;
    let NodeValue::Map(entries) = &mut node.value else { panic!("no mapping") };
    let index = entries.iter().position(|(key, _)| key.as_str() == Some("spec")).unwrap();
    let spec = entries.remove(index).1;
    Manifest {
        index: 0,
        key: ManifestKey::new("infra", "dns", &kind, "", &name),
        api_version,
        kind,
        name,
        labels: Default::default(),
        annotations: Default::default(),
        providers,
        policy: Policy::default(),
        file,
        span,
        spec,
    }
}

/// The same manifest, whose references are outputs that are not known yet.
fn waiting(mut manifest: Manifest) -> Manifest {
    manifest.spec.for_each_scalar_mut(&mut |_, text, kind| {
        if text.starts_with("${") {
            *kind = ScalarKind::Unknown([host_ip()].into());
        }
    });
    manifest
}

/// What they refer to.
fn host_ip() -> Reference {
    Reference { target: ManifestKey::new("infra", "g", "Host", "", "a"), path: "ip".into() }
}

/// Normalizes the only manifest of a text at the only entry.
pub(crate) fn normalized(text: &str) -> Normalized {
    normalize(&manifest(text), &TestInputs::default())
}

/// Normalizes a manifest beside other files.
fn beside(files: &[(&'static str, &'static str)], text: &str) -> Normalized {
    let inputs = TestInputs { files: files.iter().copied().collect(), ..TestInputs::default() };
    normalize(&manifest(text), &inputs)
}

/// Id and content of each resource.
fn contents(out: &Normalized) -> Vec<String> {
    let one = |r: &Resource| format!("{} {}", r.id, String::from_utf8_lossy(r.spec.bytes().unwrap()));
    out.resources.iter().map(one).collect()
}

/// One line for each problem: `LINE:COLUMN message / hint`.
fn told(problems: &[Problem]) -> Vec<String> {
    let one = |p: &Problem| {
        let place = p.place.as_ref().unwrap();
        format!("{}:{} {} / {}", place.line, place.column, p.message, p.hint.as_deref().unwrap_or(""))
    };
    problems.iter().map(one).collect()
}

fn zone_text(records: &str) -> String {
    format!("kind: Zone\nmetadata: {{name: example.com}}\nspec:\n  records:\n{records}")
}
