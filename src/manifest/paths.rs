//! The configured paths of a source, with facts of the host in place.

use super::{
    request::SourceRules,
    select,
    substitute::{Put, Replaced, Root, replaced},
};
use crate::config::Host;
use reconciled_provider::{Problem, yaml::ScalarKind};
use std::sync::Arc;

/// The configured paths with host values in place, and the folders above those for which there is none.
pub(super) fn paths(
    rules: &SourceRules,
    host: &Host,
    problems: &mut Vec<Problem>,
) -> (Vec<String>, Vec<Arc<str>>) {
    let (mut paths, mut unknown) = (Vec::new(), Vec::new());
    for path in &rules.paths {
        match host_text(path, host) {
            Ok(text) => paths.push(text),
            Err(token) => {
                let problem = Problem::error(format!("path `{path}`: this host has no `{token}`"));
                problems.push(problem.hint("set host.labels in the host configuration"));
                let written = path.split("${").next().unwrap_or_default();
                let above = written.rsplit_once('/').map_or("", |(above, _)| select::clean(above));
                unknown.push(Arc::from(above));
            }
        }
    }
    (paths, unknown)
}

/// A configured path, with host values in place; as it is where this host has none of that name.
pub fn on_host(path: &Arc<str>, host: &Host) -> Arc<str> {
    host_text(path, host).map_or_else(|_| path.clone(), Arc::from)
}

/// A text of the configuration in which only facts of the host may stand. Errors: the token without a value.
fn host_text(text: &str, host: &Host) -> Result<String, String> {
    let missing = std::cell::RefCell::new(None);
    let put = |root: &Root| {
        let value = match root {
            Root::HostName => Some(&host.name),
            Root::HostLabel(label) => host.labels.get(label),
            _ => None,
        };
        match value {
            Some(value) => Put::Value((**value).into(), ScalarKind::Str),
            None => {
                missing.replace(Some(match root {
                    Root::HostLabel(label) => format!("host.labels.{label}"),
                    Root::Var(name) => format!("vars.{name}"),
                    _ => text.to_string(),
                }));
                Put::Failed
            }
        }
    };
    match replaced(text, usize::MAX, &put) {
        Replaced::Text(text, _) => Ok(text.into()),
        _ => Err(missing.into_inner().unwrap_or_default()),
    }
}
