//! Entries of servers and services of DNS.

use super::{
    entry::{self, at_entry, secret, take},
    known::types,
};
use crate::config::{ProviderEntry, SecretPlace, beside};
use reconciled_dns::{family::Options, route53::Login};
use reconciled_provider::{Node, Problem, Provider, SecretRef, problem::did_you_mean, yaml::NodeValue};
use serde::{Deserialize, de::DeserializeOwned};
use std::{path::Path, sync::Arc};

/// Keys of every entry of DNS that are read before those of its backend.
const SHARED: [&str; 3] = ["marks", "externalDns", "verify"];

type Built = Result<Arc<dyn Provider>, Vec<Problem>>;

/// Builds the provider of one entry.
///
/// Errors: every problem of the entry at its place.
pub(super) fn build(entry: &ProviderEntry, instance: &str, options: Options) -> Built {
    match &*entry.type_name {
        "powerdns" => powerdns(entry, instance, options),
        "rfc2136" => rfc2136(entry, options),
        "cloudflare" => cloudflare(entry, instance, options),
        "route53" => route53(entry, options),
        "webhook" => webhook(entry, options),
        "zonefile" => zonefile(entry, instance, options),
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

/// As [`entry::decode`], without the keys `taken` and those that are [`SHARED`].
fn decode<T: DeserializeOwned>(
    entry: &ProviderEntry,
    rest: &Node,
    taken: &[&str],
) -> (Option<T>, Vec<Problem>) {
    entry::decode(entry, rest, &[taken, &SHARED].concat())
}

/// What was read, where nothing is wrong with it.
fn whole<T>(read: Option<T>, problems: Vec<Problem>) -> Result<T, Vec<Problem>> {
    read.filter(|_| problems.is_empty()).ok_or(problems)
}

/// What was read, and the secret that stands at `key` beside it.
fn with_secret<T: DeserializeOwned>(
    entry: &ProviderEntry,
    key: &str,
) -> Result<(T, SecretRef), Vec<Problem>> {
    let mut rest = entry.rest.clone();
    let node = take(&mut rest, key);
    let (read, mut problems) = decode(entry, &rest, &[key]);
    let secret = secret(entry, node, key, &mut problems);
    whole(read.zip(secret), problems)
}

/// Marks stand in one place: where they are records of TXT, the remote has none of its own.
fn has_marks(wanted: bool, options: &Options) -> bool {
    wanted && options.ownership.marks.is_none()
}

fn powerdns(entry: &ProviderEntry, instance: &str, options: Options) -> Built {
    use reconciled_dns::powerdns::{Config, connect};
    let (config, key) = with_secret::<Config>(entry, "apiKey")?;
    let config = Config { marks: has_marks(config.marks, &options), options, ..config };
    connect(&entry.name, instance, config, key).map_err(|error| at_entry(entry, &error))
}

fn rfc2136(entry: &ProviderEntry, options: Options) -> Built {
    use reconciled_dns::rfc2136::{Config, Keys, connect};
    let mut rest = entry.rest.clone();
    let (update, transfer) = (take(&mut rest, "tsig"), take(&mut rest, "transferTsig"));
    let (config, mut problems) = decode::<Config>(entry, &rest, &["tsig", "transferTsig"]);
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
    let (config, update) = whole(config.zip(update), problems)?;
    let transfer = transfer.unwrap_or_else(|| update.clone());
    let config = Config { options, ..config };
    connect(&entry.name, config, Keys { update, transfer }).map_err(|error| at_entry(entry, &error))
}

fn cloudflare(entry: &ProviderEntry, instance: &str, options: Options) -> Built {
    use reconciled_dns::cloudflare::{Config, connect};
    let (config, token) = with_secret::<Config>(entry, "token")?;
    let config = Config { marks: has_marks(config.marks, &options), options, ..config };
    connect(&entry.name, instance, config, token).map_err(|error| at_entry(entry, &error))
}

/// Keys that say where an entry gets its key of AWS.
const LOGIN: [&str; 4] = ["credentials", "accessKeyId", "secretAccessKey", "sessionToken"];

fn route53(entry: &ProviderEntry, options: Options) -> Built {
    use reconciled_dns::route53::{Config, connect};
    let mut rest = entry.rest.clone();
    let [login, id, key, token] = LOGIN.map(|key| take(&mut rest, key));
    let (config, mut problems) = decode::<Config>(entry, &rest, &LOGIN);
    let login = aws_login(entry, login, [id, key, token], &mut problems);
    let (config, login) = whole(config.zip(login), problems)?;
    let config = Config { options, ..config };
    connect(&entry.name, config, login).map_err(|error| at_entry(entry, &error))
}

fn webhook(entry: &ProviderEntry, options: Options) -> Built {
    use reconciled_dns::webhook::{Config, connect};
    let (config, problems) = decode::<Config>(entry, &entry.rest, &[]);
    let config = Config { options, ..whole(config, problems)? };
    connect(&entry.name, config).map_err(|error| at_entry(entry, &error))
}

fn zonefile(entry: &ProviderEntry, instance: &str, options: Options) -> Built {
    use reconciled_dns::zonefile::{Config, open};
    let (config, problems) = decode::<Config>(entry, &entry.rest, &[]);
    let config = whole(config, problems)?;
    let config = Config {
        directory: beside(Some(Path::new(&*entry.file.path)), &config.directory),
        marks: has_marks(config.marks, &options),
        options,
        ..config
    };
    open(&entry.name, instance, config).map_err(|error| at_entry(entry, &error))
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
