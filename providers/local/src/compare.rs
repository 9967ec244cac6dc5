//! How what is declared differs from what is there, in words that may be shown.

use crate::state::{Access, Content, Refusal, Shape, mode_text};
use reconciled_provider::{Delta, Error, FieldChange, Observed, Resource, Shown};
use std::{collections::BTreeMap, sync::Arc};

/// How `observed` differs from `desired`, if it does.
pub(crate) fn compare(desired: &Resource, observed: &Observed) -> Option<Delta> {
    let bytes = desired.spec.bytes()?;
    if *bytes == observed.bytes[..] {
        return None;
    }
    let fields = match (Shape::decode(&observed.bytes), Shape::decode(bytes)) {
        (Some(before), Some(after)) => fields(&before, &after),
        _ => Vec::new(),
    };
    // A difference without a field could not be shown.
    let fields = if fields.is_empty() { vec![sensitive("state")] } else { fields };
    Some(Delta { fields, ..Delta::default() })
}

/// Paths and what is shown there.
type Fields = Vec<(Arc<str>, String)>;

/// As [`compare`], by the fields that `show` makes of canonical bytes. There may be none that differs.
pub(crate) fn by_shown(desired: &Resource, observed: &Observed, show: fn(&[u8]) -> Fields) -> Option<Delta> {
    let bytes = desired.spec.bytes()?;
    if *bytes == observed.bytes[..] {
        return None;
    }
    let before: BTreeMap<_, _> = show(&observed.bytes).into_iter().collect();
    let after: BTreeMap<_, _> = show(bytes).into_iter().collect();
    let mut paths: Vec<&Arc<str>> = before.keys().chain(after.keys()).collect();
    paths.sort();
    paths.dedup();
    let differing = paths.into_iter().filter(|path| before.get(*path) != after.get(*path));
    let fields = differing
        .map(|path| FieldChange::text(path, before.get(path).cloned(), after.get(path).cloned()))
        .collect();
    Some(Delta { fields, ..Delta::default() })
}

/// Why nothing can be done about a difference, if so.
pub(crate) fn refused(desired: &Resource, observed: &Observed) -> Option<Error> {
    let before = Shape::decode(&observed.bytes)?;
    let after = Shape::decode(desired.spec.bytes()?)?;
    match (&before, &after) {
        (Shape::Refused(refusal), _) => Some(Refusal::clone(refusal).into()),
        // A link is replaced, never followed; what may hold somebody's files is not.
        (Shape::Directory(_) | Shape::Other { .. }, Shape::File(_) | Shape::Link { .. })
        | (Shape::File(_) | Shape::Link { .. } | Shape::Other { .. }, Shape::Directory(_)) => {
            let word = match &before {
                Shape::Directory(_) => "a directory",
                Shape::File(_) => "a file",
                Shape::Link { .. } => "a symbolic link",
                other => other.word(),
            };
            let text = format!("{} is {word}, and a {} is declared", observed.id, after.word());
            Some(Error::invalid(text).hint("remove it by hand, or declare it as what it is"))
        }
        _ => None,
    }
}

fn fields(before: &Shape, after: &Shape) -> Vec<FieldChange> {
    let mut out = Vec::new();
    match (before, after) {
        (Shape::File(before), Shape::File(after)) => {
            access(&before.access, &after.access, &mut out);
            let is_public = after.access.is_public();
            content(&before.content, &after.content, is_public, &mut out);
            text("validate", before.validate.as_deref(), after.validate.as_deref(), &mut out);
        }
        (Shape::Directory(before), Shape::Directory(after)) => {
            access(&before.access, &after.access, &mut out);
            let word = |purge: bool| Some(if purge { "true" } else { "false" });
            text("purge", word(before.purge), word(after.purge), &mut out);
        }
        (Shape::Block(before), Shape::Block(after)) => {
            content(&before.content, &after.content, true, &mut out);
            text("comment", Some(&before.comment), Some(&after.comment), &mut out);
            text("validate", before.validate.as_deref(), after.validate.as_deref(), &mut out);
        }
        (Shape::Link { target: before }, Shape::Link { target: after }) => {
            text("symlink", Some(before), Some(after), &mut out);
        }
        (before, after) => {
            text("type", Some(before.word()), Some(after.word()), &mut out);
            if let Shape::Link { target } = before {
                text("symlink", Some(target), None, &mut out);
            }
            if let Shape::Link { target } = after {
                text("symlink", None, Some(target), &mut out);
            }
        }
    }
    out
}

fn text(path: &str, before: Option<&str>, after: Option<&str>, out: &mut Vec<FieldChange>) {
    if before != after {
        out.push(FieldChange::text(path, before.map(str::to_owned), after.map(str::to_owned)));
    }
}

fn access(before: &Access, after: &Access, out: &mut Vec<FieldChange>) {
    let own = |name: &Option<Arc<str>>| name.as_deref().unwrap_or("(that of reconciled)").to_owned();
    text("owner", Some(&own(&before.owner)), Some(&own(&after.owner)), out);
    text("group", Some(&own(&before.group)), Some(&own(&after.group)), out);
    text("mode", Some(&mode_text(before.mode)), Some(&mode_text(after.mode)), out);
}

/// Content of both sides where both may be shown; else only that it differs.
fn content(before: &Content, after: &Content, is_public: bool, out: &mut Vec<FieldChange>) {
    if before == after {
        return;
    }
    out.push(match (before.text(), after.text()) {
        (Some(before), Some(after)) if is_public => {
            FieldChange::text("content", Some(before.into()), Some(after.into()))
        }
        // Two contents that are no text: their sizes are all that can be told.
        _ if is_public && matches!((before, after), (Content::Clear(_), Content::Clear(_))) => {
            FieldChange::text("content", Some(before.show(true)), Some(after.show(true)))
        }
        _ => sensitive("content"),
    });
}

fn sensitive(path: &str) -> FieldChange {
    FieldChange { path: path.into(), before: Shown::Sensitive, after: Shown::Sensitive }
}
