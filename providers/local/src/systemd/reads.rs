//! Files that a service reads: where one changes, the service is restarted, or told to read them again.
//!
//! Whoever writes the file, a manifest, a certificate or a package: what counts is what is in it, and whether the service began
//! or was told since it came to be. What it read last is remembered as a mark; where nothing is known of the present run,
//! since somebody else started it, a file that is younger than that run was not read.

use super::{
    look::Look,
    memory::Memory,
    unit::{Read, Reads, Then, Unit, UnitSpec},
};
use crate::{
    Config,
    hands::{Seen, What},
    normalize,
    path::FilePath,
};
use reconciled_provider::{At, Cx, Inputs, Span};
use std::collections::BTreeMap;

/// The files that a manifest names.
pub(crate) fn declared(
    config: &Config,
    inputs: &dyn Inputs,
    name: &str,
    spec: &UnitSpec,
    refuse: &mut impl FnMut(Span, String, &str),
) -> Reads {
    let mut reads = Reads::new();
    let all = [(Then::Reload, &spec.reload_on), (Then::Restart, &spec.restart_on)];
    for (then, at) in all.into_iter().flat_map(|(then, list)| list.iter().map(move |at| (then, at))) {
        let Some(path) = allowed(config, at, refuse) else { continue };
        if !name.ends_with(".service") {
            refuse(at.span, format!("`{name}` is no service, and reads no files"), "leave it out");
        }
        let declared = normalize::declared_at(config, inputs, &path).map(|hash| hash.to_string());
        if reads.insert(path.as_str().into(), Read { then, declared, is_newer: false }).is_some() {
            refuse(at.span, format!("{path} is named twice"), "name it in one of `reloadOn` and `restartOn`");
        }
    }
    reads
}

/// Reads a path that a manifest names.
pub(crate) fn allowed(
    config: &Config,
    at: &At<String>,
    refuse: &mut impl FnMut(Span, String, &str),
) -> Option<FilePath> {
    if !at.unknown.is_empty() {
        refuse(at.span, "a path cannot depend on an output of another manifest".into(), "write the path out");
        return None;
    }
    match FilePath::parse(&at.value) {
        Err(why) => {
            let text = format!("`{}` {why}", at.value.escape_debug());
            refuse(at.span, text, "write the absolute path of a file, such as /etc/nginx/nginx.conf");
            None
        }
        Ok(path) if config.is_of_units(&path) => {
            let text = format!("{path} is a file of units, whose changes are known without that");
            refuse(at.span, text, "`onChange` says what they mean");
            None
        }
        Ok(path) if !config.allows(&path) => {
            let hint = "name a directory above it in `paths` of the provider entry";
            refuse(at.span, format!("{path} is below none of the `paths` of the provider"), hint);
            None
        }
        Ok(path) => Some(path),
    }
}

/// Marks of what is in the files now.
pub(crate) fn marks(cx: &Cx, look: &Look) -> BTreeMap<String, String> {
    let mark = |seen: &Seen| {
        let mark = match &seen.what {
            What::File { content, .. } => cx.secrets.mark(content.reveal()),
            // None is followed: what it leads to may be anybody's.
            What::Link { target } => cx.secrets.mark(target.as_bytes()),
            _ => return None,
        };
        Some((seen.path.as_str().to_owned(), mark.0.to_string()))
    };
    look.reads.iter().filter_map(mark).collect()
}

/// The files of `unit`, with those that it has not read as they are.
pub(crate) fn seen(cx: &Cx, unit: &Unit, memory: Option<&Memory>, look: &Look) -> Reads {
    let mut reads = unit.reads.clone();
    if !look.state.is_running() {
        return reads;
    }
    let of_this_run = memory.filter(|memory| memory.invocation == look.state.invocation);
    let marks = marks(cx, look);
    for seen in &look.reads {
        let (path, Some(mark)) = (seen.path.as_str(), marks.get(seen.path.as_str())) else { continue };
        let is_newer = match of_this_run.and_then(|memory| memory.read.get(path)) {
            Some(read) => read != mark,
            None => seen.may_be_after(look.began),
        };
        reads.entry(path.to_owned()).and_modify(|read| read.is_newer = is_newer);
    }
    reads
}

/// What those of `reads` mean together that are newer.
pub(crate) fn due(reads: &Reads) -> Option<Then> {
    reads.values().filter(|read| read.is_newer).map(|read| read.then).max()
}
