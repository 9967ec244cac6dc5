//! Manifests as text → resources, with the envelope read and nothing substituted.

use super::check::{Stop, ensure};
use bytes::Bytes;
use reconciled_provider::{
    Cx, Error, Hash, Inputs, Kinds, Manifest, ManifestKey, Policies, Policy, PolicyId, Provider, Reference,
    Resource, Scope, SecretMark, SecretRef, SourceFile, Value, yaml,
};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Reads the documents of `text`.
pub(super) fn parse(text: &str) -> Result<Vec<Manifest>, Stop> {
    let file = Arc::new(SourceFile::new("sample.yaml", text));
    let documents = yaml::parse(&file, yaml::Limits::default())
        .map_err(|problem| Stop::Fail(format!("{problem:?}\nin\n{text}")))?;
    documents.iter().enumerate().map(|(index, document)| manifest(index, document, &file)).collect()
}

fn manifest(index: usize, document: &yaml::Node, file: &Arc<SourceFile>) -> Result<Manifest, Stop> {
    let read = |node: Option<&yaml::Node>, what: &str| {
        let text = node.and_then(|node| node.as_str().map(Arc::<str>::from));
        text.ok_or_else(|| Stop::Fail(format!("a manifest has no {what}:\n{}", file.text)))
    };
    let api_version = read(document.get("apiVersion"), "apiVersion")?;
    let kind = read(document.get("kind"), "kind")?;
    let name = read(document.get("metadata").and_then(|m| m.get("name")), "metadata.name")?;
    let Some(spec) = document.get("spec") else {
        return Err(Stop::Fail(format!("a manifest has no spec:\n{}", file.text)));
    };
    let one = spec.get("provider").into_iter();
    let several = spec.get("providers").into_iter().flat_map(|list| list.elements());
    let providers: Vec<Arc<str>> =
        one.chain(several).filter_map(|node| node.as_str().map(Arc::from)).collect();
    Ok(Manifest {
        index: index as u32,
        key: ManifestKey::new("conformance", api_version.split('/').next().unwrap_or(""), &kind, "", &name),
        api_version,
        kind,
        name,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        providers: (!providers.is_empty()).then(|| providers.into()),
        policy: Policy::default(),
        file: file.clone(),
        span: document.span,
        spec: spec.clone(),
    })
}

/// The resources that `text` declares in `scope`, sorted by id.
pub(super) async fn normalize(
    provider: &dyn Provider,
    cx: &Cx,
    scope: &Scope,
    text: &str,
) -> Result<Vec<Resource>, Stop> {
    let kinds = provider.kinds(cx).await?;
    let mut all = Vec::new();
    for manifest in parse(text)? {
        all.extend(normalize_one(provider, &kinds, scope, &manifest)?);
    }
    all.sort_by(|a, b| a.id.cmp(&b.id));
    for pair in all.windows(2) {
        ensure!(pair[0].id != pair[1].id, "{} is declared twice in\n{text}", pair[0].id);
    }
    Ok(all)
}

/// The resources of one manifest, in the order they come.
pub(super) fn normalize_one(
    provider: &dyn Provider,
    kinds: &Kinds,
    scope: &Scope,
    manifest: &Manifest,
) -> Result<Vec<Resource>, Stop> {
    let inputs = PlainInputs {
        entry: scope.provider.clone(),
        scopes: [scope.clone()].into(),
        policies: RefCell::default(),
    };
    let out = provider.normalize(kinds, manifest, &inputs);
    ensure!(out.problems.is_empty(), "problems with\n{}\n{:?}", manifest.file.text, out.problems);
    for resource in &out.resources {
        ensure!(*resource.scope == *scope, "{} is in {}, not in {scope}", resource.id, resource.scope);
    }
    Ok(out.resources)
}

/// Inputs of a repository that holds nothing but the manifest.
struct PlainInputs {
    entry: Arc<str>,
    scopes: BTreeSet<Scope>,
    policies: RefCell<Policies>,
}

impl Inputs for PlainInputs {
    fn entry(&self) -> &str {
        &self.entry
    }
    fn is_sole(&self) -> bool {
        true
    }
    fn blob(&self, path: &str) -> Result<Bytes, Error> {
        Err(Error::invalid(format!("the repository has no file {path}")))
    }
    fn secret(&self, reference: &SecretRef) -> Result<SecretMark, Error> {
        Ok(SecretMark(Hash::of(format!("{reference:?}").as_bytes())))
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
    fn siblings(&self, _: &str) -> Vec<&Manifest> {
        Vec::new()
    }
    fn policy(&self, policy: Policy) -> PolicyId {
        self.policies.borrow_mut().intern(policy)
    }
}
