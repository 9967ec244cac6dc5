//! Entries of servers and services of DNS.

use super::{at_entry, decode, secret, take, types};
use crate::config::{ProviderEntry, SecretPlace, beside};
use reconciled_dns::{family::Options, route53::Login};
use reconciled_provider::{Node, Problem, Provider, problem::did_you_mean, yaml::NodeValue};
use serde::Deserialize;
use std::{path::Path, sync::Arc};

/// Builds the provider of one entry.
///
/// Errors: every problem of the entry at its place.
pub(super) fn build(
    entry: &ProviderEntry,
    instance: &str,
    options: Options,
) -> Result<Arc<dyn Provider>, Vec<Problem>> {
    // Marks stand in one place.
    let is_native = options.ownership.marks.is_none();
    match &*entry.type_name {
        "powerdns" => {
            let mut rest = entry.rest.clone();
            let key = take(&mut rest, "apiKey");
            let (config, mut problems) = decode::<reconciled_dns::powerdns::Config>(entry, &rest);
            let key = secret(entry, key, "apiKey", &mut problems);
            match (config, key) {
                (Some(config), Some(key)) if problems.is_empty() => {
                    let config = reconciled_dns::powerdns::Config {
                        marks: config.marks && is_native,
                        options,
                        ..config
                    };
                    reconciled_dns::powerdns::connect(&entry.name, instance, config, key)
                        .map_err(|e| at_entry(entry, &e))
                }
                _ => Err(problems),
            }
        }
        "rfc2136" => {
            let mut rest = entry.rest.clone();
            let (update, transfer) = (take(&mut rest, "tsig"), take(&mut rest, "transferTsig"));
            let (config, mut problems) = decode::<reconciled_dns::rfc2136::Config>(entry, &rest);
            if update.is_none() {
                let hint = "write tsig: {name: reconciled., secret: {file: /path/of/the/secret}}";
                let message = format!("`{}` needs `tsig`", entry.name);
                problems.push(Problem::error(message).at(&entry.file, entry.span).hint(hint));
            }
            let mut key = |node: Node| {
                if !matches!(node.value, NodeValue::Map(_)) {
                    // It may be the secret, which is not repeated.
                    let hint = "write {name: reconciled., secret: {file: /path/of/the/secret}}";
                    let problem = Problem::error("expected a key of TSIG").at(&entry.file, node.span);
                    problems.push(problem.without_line().hint(hint));
                    return None;
                }
                let (key, found) = node.decode::<TsigKey>(&entry.file);
                problems.extend(found);
                key.map(TsigKey::into_key)
            };
            let (update, transfer) = (update.and_then(&mut key), transfer.and_then(key));
            match (config, update) {
                (Some(config), Some(update)) if problems.is_empty() => {
                    let config = reconciled_dns::rfc2136::Config { options, ..config };
                    let transfer = transfer.unwrap_or_else(|| update.clone());
                    let keys = reconciled_dns::rfc2136::Keys { update, transfer };
                    reconciled_dns::rfc2136::connect(&entry.name, config, keys)
                        .map_err(|e| at_entry(entry, &e))
                }
                _ => Err(problems),
            }
        }
        "cloudflare" => {
            let mut rest = entry.rest.clone();
            let token = take(&mut rest, "token");
            let (config, mut problems) = decode::<reconciled_dns::cloudflare::Config>(entry, &rest);
            let token = secret(entry, token, "token", &mut problems);
            match (config, token) {
                (Some(config), Some(token)) if problems.is_empty() => {
                    let config = reconciled_dns::cloudflare::Config {
                        marks: config.marks && is_native,
                        options,
                        ..config
                    };
                    reconciled_dns::cloudflare::connect(&entry.name, instance, config, token)
                        .map_err(|e| at_entry(entry, &e))
                }
                _ => Err(problems),
            }
        }
        "route53" => {
            let mut rest = entry.rest.clone();
            let places = ["accessKeyId", "secretAccessKey", "sessionToken"].map(|key| take(&mut rest, key));
            let login = take(&mut rest, "credentials");
            let (config, mut problems) = decode::<reconciled_dns::route53::Config>(entry, &rest);
            let login = aws_login(entry, login, places, &mut problems);
            match (config, login) {
                (Some(config), Some(login)) if problems.is_empty() => {
                    let config = reconciled_dns::route53::Config { options, ..config };
                    reconciled_dns::route53::connect(&entry.name, config, login)
                        .map_err(|e| at_entry(entry, &e))
                }
                _ => Err(problems),
            }
        }
        "webhook" => {
            let (config, problems) = decode::<reconciled_dns::webhook::Config>(entry, &entry.rest);
            match config {
                Some(config) if problems.is_empty() => {
                    let config = reconciled_dns::webhook::Config { options, ..config };
                    reconciled_dns::webhook::connect(&entry.name, config).map_err(|e| at_entry(entry, &e))
                }
                _ => Err(problems),
            }
        }
        "zonefile" => {
            let (config, problems) = decode::<reconciled_dns::zonefile::Config>(entry, &entry.rest);
            match config {
                Some(config) if problems.is_empty() => {
                    let config = reconciled_dns::zonefile::Config {
                        directory: beside(Some(Path::new(&*entry.file.path)), &config.directory),
                        marks: config.marks && is_native,
                        options,
                        ..config
                    };
                    reconciled_dns::zonefile::open(&entry.name, instance, config)
                        .map_err(|e| at_entry(entry, &e))
                }
                _ => Err(problems),
            }
        }
        unknown => {
            let known: Vec<&str> = types().iter().map(|t| t.name).collect();
            let hint = match did_you_mean(unknown, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("this version knows: {}", known.join(", ")),
            };
            let message = format!("unknown provider type `{unknown}` of `{}`", entry.name);
            Err(vec![Problem::error(message).at(&entry.file, entry.span).hint(hint)])
        }
    }
}

/// A file such as `~/.aws/credentials` in host configuration.
#[derive(Deserialize)]
struct SharedFile {
    shared: SecretPlace,
    #[serde(default = "default_profile")]
    profile: String,
}

fn default_profile() -> String {
    "default".into()
}

/// Where an entry gets its key of AWS: `credentials`, or the parts of one; else the variables that every tool of AWS
/// knows.
fn aws_login(
    entry: &ProviderEntry,
    login: Option<Node>,
    [id, key, token]: [Option<Node>; 3],
    problems: &mut Vec<Problem>,
) -> Option<Login> {
    let mut credentials = reconciled_dns::route53::Credentials::default();
    if let Some(node) = login {
        if id.is_some() || key.is_some() || token.is_some() {
            let message = format!("`{}` has `credentials` and parts of a key", entry.name);
            problems.push(Problem::error(message).at(&entry.file, node.span).hint("leave one of them out"));
            return None;
        }
        return match node.as_str() {
            Some("instance") => Some(Login::instance()),
            Some("container") => Some(Login::Container),
            Some(other) => {
                let message = format!("`{other}` lends no credentials");
                let hint =
                    "write instance, container, or {shared: {file: /path/of/the/credentials}, profile: NAME}";
                problems.push(Problem::error(message).at(&entry.file, node.span).hint(hint));
                None
            }
            None => {
                let (file, found) = node.decode::<SharedFile>(&entry.file);
                problems.extend(found);
                file.map(|file| Login::Shared { file: file.shared.0, profile: file.profile })
            }
        };
    }
    if id.is_some() || key.is_some() {
        let id = secret(entry, id, "accessKeyId", problems);
        let key = secret(entry, key, "secretAccessKey", problems);
        (credentials.access_key_id, credentials.secret_access_key) = (id?, key?);
    }
    if token.is_some() {
        credentials.session_token = secret(entry, token, "sessionToken", problems);
    }
    Some(credentials.into())
}

/// A key of TSIG in host configuration.
#[derive(Deserialize)]
struct TsigKey {
    name: String,
    #[serde(default)]
    algorithm: reconciled_dns::rfc2136::Algorithm,
    secret: SecretPlace,
    fudge: Option<u16>,
}

impl TsigKey {
    fn into_key(self) -> reconciled_dns::rfc2136::Key {
        reconciled_dns::rfc2136::Key {
            name: self.name,
            algorithm: self.algorithm,
            secret: self.secret.0,
            fudge: self.fudge.unwrap_or(reconciled_dns::rfc2136::FUDGE),
        }
    }
}
