//! What of the configuration can be told wrong without asking anybody: groups, programs, templates, addresses in files.
//!
//! Deliberately not here: what the configuration itself refuses, so that no daemon begins with it. A group or a program may come
//! after the configuration.

use crate::{
    api,
    config::{Config, Environment, HostSecrets, ProviderEntry, Receiver},
    notify,
};
use reconciled_command::PATH;
use reconciled_provider::Node;
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

/// One thing that cannot work.
pub(super) struct Wrong {
    pub(super) what: String,
    pub(super) text: String,
    pub(super) hint: String,
}

/// All of it; programs are looked for where they will be when they are run.
pub(super) fn wrong(config: &Config, environment: &Environment) -> Vec<Wrong> {
    let programs = config.providers.iter().flat_map(programs);
    let templates = config.notify.iter().filter_map(template);
    let addresses = config.notify.iter().filter_map(|receiver| address(receiver, config, environment));
    group(config).into_iter().chain(programs).chain(templates).chain(addresses).collect()
}

fn group(config: &Config) -> Option<Wrong> {
    let name = config.api.group.as_deref().filter(|name| api::group_id(name).is_none())?;
    let (text, hint) = api::no_group(name);
    Some(Wrong { what: "api.group".into(), text, hint })
}

/// The commands of an entry of zone files, which are run at every write and not before.
fn programs(entry: &ProviderEntry) -> Vec<Wrong> {
    let keys = if &*entry.type_name == "zonefile" { &["check", "reload"][..] } else { &[] };
    let wrong = |key: &&str| {
        let program = entry.rest.get(key)?.elements().first().and_then(Node::as_str)?;
        let text = missing(program)?;
        let hint = format!("install it, or correct `{key}` of the entry");
        Some(Wrong { what: format!("provider {} {key}", entry.name), text, hint })
    };
    keys.iter().filter_map(wrong).collect()
}

/// Why a program cannot be run; none where it can.
fn missing(program: &str) -> Option<String> {
    let is_file = |file: &Path| fs::metadata(file).is_ok_and(|found| found.is_file());
    let runs = |file: &Path| {
        fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        let file = Path::new(program);
        return match (is_file(file), runs(file)) {
            (_, true) => None,
            (true, false) => Some(format!("`{program}` is not executable")),
            (false, _) => Some(format!("there is no program `{program}`")),
        };
    }
    let is_found = PATH.split(':').any(|folder| runs(&Path::new(folder).join(program)));
    (!is_found).then(|| format!("there is no program `{program}` in {PATH}"))
}

/// A template that fails with what `notify test` would send, or with a message that it is there for.
fn template(receiver: &Receiver) -> Option<Wrong> {
    let error = notify::template_error(receiver)?;
    let hint = "see docs/notifications.md for what a template is given; once mended: reconciled notify test";
    Some(Wrong { what: format!("receiver {} template", receiver.name), text: error, hint: hint.into() })
}

/// An address that is kept where its secret can be read, and is none.
fn address(receiver: &Receiver, config: &Config, environment: &Environment) -> Option<Wrong> {
    let secrets =
        HostSecrets::new([0; 32], environment.clone(), config.secrets.clone()).with_sops(&config.sops);
    let text = notify::address_error(receiver, &secrets)?;
    let hint =
        "write the whole address into it, as in https://HOST/PATH; once mended: reconciled notify test";
    Some(Wrong { what: format!("receiver {} url", receiver.name), text, hint: hint.into() })
}
