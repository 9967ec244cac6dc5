//! Keys that open what sops encrypted in a repository, and what they opened.

use super::{
    Environment, SecretPlace, SourceConfig, decode::decode_all, names::unknown_name,
    secret_place::describe_secret, values::written,
};
use crate::sops::{self, Identities, Refused};
use reconciled_provider::{Error, Node, Problem, Secret, SecretRef, Secrets, SourceFile, yaml::NodeValue};
use serde::Deserialize;
use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// A file of age keys, and the sources whose files it opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SopsKey {
    /// Where the keys are, as `age-keygen` writes them.
    pub age: SecretRef,
    /// Sources whose files it opens; none means all.
    pub sources: Option<Vec<Arc<str>>>,
}

/// A value that a manifest names by `{sops: PATH, key: KEY}`.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The source of the manifest.
    pub source: &'a str,
    /// `GROUP/KIND` of the manifest.
    pub kind: &'a str,
    /// The file, from the root of the repository.
    pub path: &'a str,
    /// The keys that lead to the value, joined by dots.
    pub key: &'a str,
}

#[derive(Deserialize)]
struct RawSopsKey {
    age: SecretPlace,
    #[serde(default, deserialize_with = "written")]
    sources: Option<Vec<String>>,
}

/// Reads `sops:`, one entry or a list of them.
pub(super) fn read(
    root: &Node,
    sources: &[SourceConfig],
    file: &SourceFile,
    problems: &mut Vec<Problem>,
) -> Vec<SopsKey> {
    let Some(node) = root.get("sops").filter(|node| !node.is_null()) else { return Vec::new() };
    let nodes = match &node.value {
        NodeValue::Seq(nodes) => &nodes[..],
        _ => std::slice::from_ref(node),
    };
    let known: Vec<&str> = sources.iter().map(|source| &*source.name).collect();
    let mut keys = Vec::new();
    for node in nodes {
        let Some(raw) = decode_all::<RawSopsKey>(node, file, problems) else { continue };
        for name in raw.sources.iter().flatten().filter(|name| !known.contains(&name.as_str())) {
            let span = node.get("sources").map_or(node.span, |list| list.span);
            problems.push(unknown_name("source", name, &known).at(file, span));
        }
        let sources = raw.sources.map(|list| list.into_iter().map(Arc::from).collect());
        keys.push(SopsKey { age: raw.age.0, sources });
    }
    keys
}

/// Where the keys for files of `source` are. Where none are configured, those that sops itself would use.
pub(super) fn places(keys: &[SopsKey], source: &str, environment: &Environment) -> Vec<SecretRef> {
    let mut places = Vec::new();
    if keys.is_empty() {
        if environment.var("SOPS_AGE_KEY").is_some_and(|text| !text.is_empty()) {
            places.push(SecretRef::Env("SOPS_AGE_KEY".into()));
        }
        if let Some(path) = environment.var("SOPS_AGE_KEY_FILE").filter(|path| !path.is_empty()) {
            places.push(SecretRef::File(path.into()));
        }
        let home = || Some(Path::new(environment.var("HOME")?).join(".config"));
        let user = environment.var("XDG_CONFIG_HOME").map(|path| Path::new(path).to_owned()).or_else(home);
        if let Some(path) = user.map(|path| path.join("sops/age/keys.txt")).filter(|path| path.exists()) {
            places.push(SecretRef::File(path.to_string_lossy().into()));
        }
    }
    let is_for =
        |key: &&SopsKey| key.sources.as_ref().is_none_or(|list| list.iter().any(|name| **name == *source));
    places.extend(keys.iter().filter(is_for).map(|key| key.age.clone()));
    places
}

/// The keys at `places`.
///
/// Errors: a key cannot be had, or is no key.
pub(super) fn identities(places: &[SecretRef], secrets: &dyn Secrets) -> Result<Identities, Error> {
    let mut identities = Identities::default();
    for place in places {
        add(&mut identities, place, secrets)?;
    }
    Ok(identities)
}

fn add(identities: &mut Identities, place: &SecretRef, secrets: &dyn Secrets) -> Result<(), Error> {
    let text = secrets.reveal(place)?;
    identities.add(text.reveal_str()?).map_err(|error| named(error, &describe_secret(place)))
}

fn named(mut error: Error, place: &str) -> Error {
    error.message = format!("{place}: {}", error.message);
    error
}

/// Source, path and hash of the content: what one source may open says nothing of another.
type FileId = (String, String, [u8; 32]);

/// Files and values that were opened, in memory alone.
#[derive(Default)]
pub(super) struct Opened {
    files: Mutex<HashMap<FileId, Result<Arc<sops::Opened>, Refused>>>,
    values: Mutex<HashMap<String, Secret>>,
}

/// So many files are remembered; a revision rarely has more.
const FILES: usize = 1_000;

impl Opened {
    /// The opened file, which is decrypted once for each content, and refused once.
    pub(super) fn file(
        &self,
        wanted: &Wanted<'_>,
        content: &[u8],
        identities: impl FnOnce() -> Result<Identities, Error>,
    ) -> Result<Arc<sops::Opened>, Refused> {
        let id = (wanted.source.to_owned(), wanted.path.to_owned(), *blake3::hash(content).as_bytes());
        let known = self.files.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        match known {
            Some(Ok(file)) if file.get(wanted.key).is_some() => return Ok(file),
            Some(Err(refused)) => return Err(refused),
            _ => {}
        }
        let file =
            sops::File::read(wanted.path, content).inspect_err(|refused| self.remember(&id, refused))?;
        let opened = file.open(&identities().map_err(Refused::Unreadable)?);
        let opened = Arc::new(opened.inspect_err(|refused| {
            // A key of the host may come, but what was changed stays so.
            if let Refused::Tampered(_) = refused {
                self.remember(&id, refused);
            }
        })?);
        file.check(wanted.key)?;
        self.put(id, Ok(opened.clone()));
        Ok(opened)
    }

    fn remember(&self, id: &FileId, refused: &Refused) {
        self.put(id.clone(), Err(refused.clone()));
    }

    fn put(&self, id: FileId, result: Result<Arc<sops::Opened>, Refused>) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= FILES {
            files.clear();
        }
        files.insert(id, result);
    }

    /// Remembers a value by its name, which is made of its mark.
    pub(super) fn keep(&self, name: String, secret: Secret) {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).insert(name, secret);
    }

    /// The value with this name.
    pub(super) fn value(&self, name: &str) -> Option<Secret> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn read(text: &str) -> (Option<Vec<SopsKey>>, Vec<Problem>) {
        let text = format!("sources: [{{name: infra, url: /srv/git/infra.git}}]\n{text}");
        let (config, problems) =
            parse(Arc::new(SourceFile::new("config.yaml", text)), &Environment::default());
        (config.map(|config| config.sops), problems)
    }

    #[test]
    fn keys_are_one_entry_or_a_list_and_name_sources_that_exist() {
        let (one, problems) = read("sops: {age: {file: /etc/reconciled/age.key}}\n");
        let file = SecretRef::File("/etc/reconciled/age.key".into());
        assert_eq!((one, problems), (Some(vec![SopsKey { age: file, sources: None }]), vec![]));
        let (two, _) = read("sops: [{age: {env: A}, sources: [infra]}, {age: {exec: [pass, show, age]}}]\n");
        let two = two.unwrap();
        assert_eq!(two[0].sources, Some(vec!["infra".into()]));
        assert_eq!(two[1].age, SecretRef::Exec(["pass", "show", "age"].map(Arc::from).into()));
        let (_, problems) = read("sops: {age: {env: A}, sources: [infar]}\n");
        assert!(problems[0].to_string().contains("infar"), "{problems:?}");
        let (_, problems) = read("sops: {age: {exec: []}}\n");
        assert!(problems[0].to_string().contains("exec"), "{problems:?}");
    }
}
