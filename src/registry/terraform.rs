//! `type: terraform`: a provider of Terraform or OpenTofu, by the path of its program, or by its version.

use super::{
    entry::{at_entry, decode, take},
    handover::Folder,
};
use crate::{
    config::{Config, Period, ProviderEntry, SecretPlace},
    failure::Failure,
};
use reconciled_cloud::{
    Given, Mark,
    find::{Program, Written},
};
use reconciled_provider::{Problem, Provider, yaml::NodeValue};
use serde::Deserialize;
use std::{collections::BTreeMap, os::unix::net::UnixStream, path::PathBuf, sync::Arc};

/// What the entry says besides `config` and `env`, which have forms of their own.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    source: String,
    path: Option<PathBuf>,
    version: Option<String>,
    mirror: Option<PathBuf>,
    url: Option<String>,
    #[serde(default)]
    hashes: Vec<String>,
    settle: Option<Period>,
    idle: Option<Period>,
    max_calls: Option<u64>,
    #[serde(default)]
    allow_tcp: bool,
    sandbox: Option<PathBuf>,
    marks: Option<Marks>,
}

/// Whose a resource is, in a tag of it.
#[derive(Deserialize)]
struct Marks {
    #[serde(rename = "type")]
    _kind: Kind,
    key: Option<Arc<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Tag,
}

/// Folder below the state directory in which schemas are kept.
const CACHE: &str = "plugins";
/// Folder below the state directory in which programs are installed.
const INSTALLED: &str = "providers";

/// Builds the provider of an entry.
///
/// Errors: every problem of the entry at its place.
pub(super) fn build(entry: &ProviderEntry, config: &Config) -> Result<Arc<dyn Provider>, Vec<Problem>> {
    let own = read(entry, config)?;
    reconciled_cloud::open(&entry.name, own).map_err(|error| at_entry(entry, &error))
}

/// The entries of this type.
pub(super) fn entries(config: &Config) -> BTreeMap<Arc<str>, reconciled_cloud::Config> {
    let ours = config.providers.iter().filter(|entry| *entry.type_name == *reconciled_cloud::INFO.type_name);
    // What is wrong with one of them was told when the session was opened.
    ours.filter_map(|entry| Some((entry.name.clone(), read(entry, config).ok()?))).collect()
}

fn read(entry: &ProviderEntry, config: &Config) -> Result<reconciled_cloud::Config, Vec<Problem>> {
    let mut rest = entry.rest.clone();
    let (own, env) = (take(&mut rest, "config"), take(&mut rest, "env"));
    let (raw, mut problems) = decode::<Raw>(entry, &rest, &["config", "env"]);
    let mut environment = Vec::new();
    if let Some(env) = env {
        if !matches!(env.value, NodeValue::Map(_)) {
            let problem = Problem::error("expected a mapping of variables").at(&entry.file, env.span);
            problems.push(problem.hint("write env: {NAME: value, SECRET: {file: /path}}"));
        }
        for (name, value) in env.entries() {
            let name = name.as_str().unwrap_or_default().to_string();
            match value.as_str() {
                Some(text) => environment.push((name, Given::Text(text.into()))),
                None => {
                    let (place, found) = value.decode::<SecretPlace>(&entry.file);
                    problems.extend(found);
                    environment.extend(place.map(|place| (name, Given::Secret(place.0))));
                }
            }
        }
    }
    let Some(raw) = raw.filter(|_| problems.is_empty()) else { return Err(problems) };
    let written = Written {
        source: &raw.source,
        path: raw.path,
        version: raw.version.as_deref(),
        mirror: raw.mirror,
        url: raw.url.as_deref(),
        hashes: &raw.hashes,
    };
    let program =
        Program::written(written, &config.state_dir.join(INSTALLED)).map_err(|(key, text, hint)| {
            let span = entry.rest.get(key).map_or(entry.span, |node| node.span);
            vec![Problem::error(text).at(&entry.file, span).hint_if(hint)]
        })?;
    Ok(reconciled_cloud::Config {
        source: raw.source.into(),
        program,
        config: own,
        environment,
        allow_tcp: raw.allow_tcp,
        file: entry.file.clone(),
        span: entry.span,
        settle: raw.settle.map_or(reconciled_cloud::INFO.consistency_window, |period| period.0),
        timeout: entry.own_timeout.unwrap_or(reconciled_cloud::Config::TIMEOUT),
        idle: Some(raw.idle.map_or(reconciled_cloud::Config::IDLE, |period| period.0)),
        max_calls: raw.max_calls.unwrap_or(reconciled_cloud::Config::MAX_CALLS).max(1),
        cache: Some(config.state_dir.join(CACHE)),
        keeper: keeper(),
        sandbox: raw.sandbox,
        handover: Some(Arc::new(Folder {
            state_dir: config.state_dir.clone(),
            entry: entry.name.clone(),
            was: entry.was.clone(),
        })),
        mark: raw.marks.map(|marks| Mark {
            key: marks.key.unwrap_or_else(|| Mark::KEY.into()),
            instance: config.instance.clone(),
        }),
    })
}

/// Starts the provider that a daemon asks for over `connection`, and passes on what the two say.
pub async fn serve_plugin(connection: UnixStream) -> Result<(), Failure> {
    Ok(reconciled_cloud::wire::serve(connection).await?)
}

/// `aws` of `source: hashicorp/aws`; of `hashicorp/google-beta`, whose types are called as those of `google` are, also that.
/// A group of this program is no provider's, whatever that is called.
pub(super) fn groups(entry: &ProviderEntry) -> Vec<Arc<str>> {
    let source = entry.rest.get("source").and_then(|source| source.as_str());
    let Some(name) = source.and_then(|source| source.rsplit('/').next()) else { return Vec::new() };
    let first = name.split_once('-').map(|(first, _)| first);
    let all = [Some(name), first].into_iter().flatten();
    all.filter(|group| !reconciled_cloud::kind::is_ours(group)).map(Arc::from).collect()
}

/// This very program, with the verb that ends a provider with us, whatever it is called and whether or not its file was
/// replaced since it was started. Unit tests have another program around them, which knows no such verb.
fn keeper() -> Vec<PathBuf> {
    if cfg!(test) {
        return Vec::new();
    }
    vec!["/proc/self/exe".into(), "plugin-exec".into(), std::process::id().to_string().into()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Environment};
    use reconciled_provider::SourceFile;

    #[test]
    fn what_a_terraform_provider_may_have_is_told_by_its_source_and_no_group_of_this_program() {
        let groups_of = |source: &str| {
            let text = format!("providers:\n  - {{name: x, type: terraform, source: {source}, path: /x}}\n");
            let (config, problems) =
                config::parse(SourceFile::new("config.yaml", text).into(), &Environment::of([]));
            assert!(problems.is_empty(), "{problems:?}");
            groups(&config.unwrap().providers[0]).iter().map(|group| group.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(groups_of("hashicorp/aws"), ["aws"]);
        assert_eq!(groups_of("registry.example.com/hashicorp/google-beta"), ["google-beta", "google"]);
        for source in
            ["hashicorp/local", "hashicorp/dns", "team/systemd", "team/cert", "x/terraform", "x/reconciled"]
        {
            assert_eq!(groups_of(source), [""; 0], "{source}");
        }
        assert_eq!(groups_of("team/local-files"), ["local-files"]);
    }
}
