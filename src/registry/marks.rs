//! Marks in TXT records, in the entry of any DNS provider: `marks: {type: txt}` writes them, `externalDns` says how those
//! of an ExternalDNS in the same zones are named.

use super::entry;
use crate::config::{ProviderEntry, SecretPlace};
use reconciled_dns::ownership::{Naming, Ownership, TxtMarks};
use reconciled_provider::{Node, Problem, Span, problem::did_you_mean, yaml::NodeValue};
use serde::Deserialize;

/// How marks of an ExternalDNS in the zones are written.
const WORD: &str = "externalDns";

/// Types of entries with a better place for marks, of which `marks` is also a yes or no.
const NATIVE: [&str; 3] = ["powerdns", "cloudflare", "zonefile"];

#[derive(Deserialize)]
struct Own {
    #[serde(rename = "type")]
    _kind: Kind,
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    suffix: String,
    #[serde(default)]
    wildcard: String,
    encrypt: Option<SecretPlace>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Txt,
}

#[derive(Deserialize)]
struct Foreign {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    suffix: String,
    #[serde(default)]
    wildcard: String,
    encrypt: Option<SecretPlace>,
}

/// Takes what is about marks in TXT records out of `entry`.
///
/// Errors: every problem with it, at its place.
pub(super) fn take(entry: &mut ProviderEntry, instance: &str) -> Result<Ownership, Vec<Problem>> {
    let mut ownership = Ownership { instance: instance.into(), ..Ownership::default() };
    let mut problems = Vec::new();
    if let Some(node) = mapping(entry, "marks") {
        let (own, found) = node.decode::<Own>(&entry.file);
        problems.extend(found);
        ownership.marks = own.and_then(|own| {
            marks(entry, node.span, [&own.prefix, &own.suffix, &own.wildcard], own.encrypt, &mut problems)
        });
    } else if !NATIVE.contains(&&*entry.type_name)
        && let Some(node) = entry::take(&mut entry.rest, "marks")
        && node.as_str() != Some("false")
    {
        let text = format!("a {} provider has no place for marks of its own", entry.type_name);
        problems.push(Problem::error(text).at(&entry.file, node.span).hint("write marks: {type: txt}"));
    }
    if let NodeValue::Map(entries) = &entry.rest.value {
        let is_near =
            |key: &str| key != WORD && did_you_mean(&key.to_lowercase(), [&*WORD.to_lowercase()]).is_some();
        for key in
            entries.iter().filter_map(|(key, _)| key.as_str().filter(|word| is_near(word)).map(|_| key))
        {
            let text = format!("unknown key `{}`", key.as_str().unwrap_or_default());
            let hint = format!("did you mean `{WORD}`?");
            problems.push(Problem::error(text).at(&entry.file, key.span).hint(hint));
        }
    }
    if let Some(node) = entry::take(&mut entry.rest, WORD) {
        let (foreign, found) = node.decode::<Foreign>(&entry.file);
        problems.extend(found);
        ownership.external_dns = foreign.and_then(|their| {
            marks(
                entry,
                node.span,
                [&their.prefix, &their.suffix, &their.wildcard],
                their.encrypt,
                &mut problems,
            )
        });
    }
    if problems.is_empty() { Ok(ownership) } else { Err(problems) }
}

/// Takes the value of `key` where it is a mapping.
fn mapping(entry: &mut ProviderEntry, key: &str) -> Option<Node> {
    let is_mapping = matches!(&entry.rest.get(key)?.value, NodeValue::Map(_));
    is_mapping.then(|| entry::take(&mut entry.rest, key)).flatten()
}

fn marks(
    entry: &ProviderEntry,
    span: Span,
    [prefix, suffix, wildcard]: [&str; 3],
    key: Option<SecretPlace>,
    problems: &mut Vec<Problem>,
) -> Option<TxtMarks> {
    match Naming::new(prefix, suffix, wildcard) {
        Ok(naming) => Some(TxtMarks { naming, key: key.map(|place| place.0) }),
        Err(error) => {
            let problem = Problem::error(format!("`{}`: {error}", entry.name)).at(&entry.file, span);
            problems.push(Problem { hint: error.into_told().hint, ..problem });
            None
        }
    }
}
