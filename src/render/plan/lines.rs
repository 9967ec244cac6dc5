//! What text and Markdown share: symbols, one-line values, changed lines of long values, counts in words.

use crate::{
    operation::plan::{
        Action, Approval, Blocked, ConditionKind, Document, Field, ForeignResource, Frozen, GuardDomain,
        ResourceChange, State, Summary, Unassigned,
    },
    store::UnassignedManifest,
    text::{clean, counted, cut},
};
use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

/// Most lines of a long value that are shown on each side.
const LINES: usize = 20;

/// Most manifests that are named for one reason.
const NAMED: usize = 5;

/// What is frozen, a line for each reason.
pub(super) fn frozen(document: &Document) -> Vec<String> {
    let line = |one: &Frozen| {
        let (source, reason, tracked) = (clean(&one.source), clean(&one.reason), one.tracked);
        format!("source {source}  {tracked} of {}: {reason}", first(&one.manifests))
    };
    document.frozen.iter().map(line).collect()
}

/// What is for sources and entries that are not configured here.
pub(super) fn unassigned(document: &Document) -> Vec<String> {
    let manifests: Vec<String> =
        document.unassigned_manifests.iter().map(UnassignedManifest::to_string).collect();
    let named = (!manifests.is_empty())
        .then(|| format!("{}: for providers that are not configured here", first(&manifests)));
    let line = |one: &Unassigned| {
        let scope = clean(&one.scope);
        let who = match &one.source {
            Some(source) => format!("source `{}`", clean(source)),
            None => format!("entry `{}`", scope.split('/').next().unwrap_or_default()),
        };
        format!("{scope}  {} tracked; no {who} is configured here", one.tracked)
    };
    let hints: BTreeSet<&Arc<str>> =
        document.unassigned_manifests.iter().filter_map(|one| one.hint.as_ref()).collect();
    let hints = hints.into_iter().map(|hint| format!("hint: {}", clean(hint)));
    named.into_iter().chain(hints).chain(document.unassigned.iter().map(line)).collect()
}

/// What nobody declared here, where that was asked for.
pub(super) fn foreign(document: &Document) -> Vec<String> {
    let line = |one: &ForeignResource| {
        let owner = one.owner.as_ref().map(|owner| format!("  marked by {}", clean(owner)));
        format!("{}  {}{}", clean(&one.scope), clean(&one.id), owner.unwrap_or_default())
    };
    document.foreign.resources.iter().map(line).collect()
}

fn first(names: &[String]) -> String {
    let shown = &names[..names.len().min(NAMED)];
    let more = if names.len() > NAMED { ", …" } else { "" };
    format!("{}{more}", clean(&shown.join(", ")))
}

/// The symbol of a change, as in Terraform's plans and three more.
pub(super) fn symbol(change: &ResourceChange) -> &'static str {
    match change.change.actions[..] {
        [Action::Create] => "+",
        [Action::Update] => "~",
        [Action::Delete] => "-",
        [Action::Adopt] => "=",
        [Action::Move] => ">",
        [Action::Forget] => ".",
        _ => "-/+",
    }
}

/// `ttl 300, values 192.0.2.1`: what comes, goes or is taken over. Updates tell their fields instead.
pub(super) fn values(change: &ResourceChange) -> String {
    if let Some(from) = &change.previous_address {
        return format!("moved from {}", clean(from));
    }
    if let Some(deposed) = &change.deposed {
        return format!("the one before: {}", clean(deposed));
    }
    let side = match change.change.actions[..] {
        [Action::Create] | [Action::Adopt] => change.change.after.as_ref(),
        [Action::Delete] => change.change.before.as_ref(),
        _ => None,
    };
    let mut words: Vec<String> = side
        .into_iter()
        .flatten()
        .map(|(path, value)| format!("{} {}", clean(path), first_line(value)))
        .collect();
    if change.change.actions == [Action::Create] && !change.change.after_unknown.is_empty() {
        words.push("(known after apply)".to_string());
    }
    words.join(", ")
}

/// A value on one line: of several lines the first, and how many there are.
pub(super) fn first_line(value: &str) -> Cow<'_, str> {
    let text = value.strip_suffix('\n').unwrap_or(value);
    match text.split_once('\n') {
        _ if value.is_empty() => Cow::Borrowed("\"\""),
        None => clean(text),
        Some((first, _)) => Cow::Owned(format!("{} … ({} lines)", clean(first), text.lines().count())),
    }
}

/// One side of a field in words.
pub(super) fn side(value: Option<&str>, is_unknown: bool) -> Cow<'_, str> {
    match value {
        _ if is_unknown => Cow::Borrowed("(known after apply)"),
        None => Cow::Borrowed("(none)"),
        Some(value) => first_line(value),
    }
}

/// True when a field needs more than one line: a value has several, or the sides would look the same on one.
pub(super) fn is_long(field: &Field) -> bool {
    let long =
        |side: &Option<String>| side.as_deref().is_some_and(|v| v.trim_end_matches('\n').contains('\n'));
    let looks_same =
        side(field.before.as_deref(), false) == side(field.after.as_deref(), field.after_unknown);
    long(&field.before) || long(&field.after) || looks_same && field.before != field.after
}

/// The lines that differ between two values, `-` before `+`, without what is equal at both ends.
pub(super) fn changed_lines(field: &Field, width: usize) -> Vec<(char, String)> {
    let difference = unseen(field);
    // Where nothing but white space differs, a tab must not look like a space.
    let shown = |line: &str| match difference {
        Some(SPACES) => clean(&line.replace('\t', "\u{2192}")).into_owned(),
        _ => clean(&line.replace('\t', TAB)).into_owned(),
    };
    let lines = |side: &'_ Option<String>| -> Vec<String> {
        side.iter().flat_map(|v| v.lines()).map(|l| cut(&shown(l), width).into_owned()).collect()
    };
    let (before, mut after) = (lines(&field.before), lines(&field.after));
    if field.after_unknown {
        after = vec!["(known after apply)".to_string()];
    }
    let start = before.iter().zip(&after).take_while(|(b, a)| b == a).count();
    let (before, after) = (&before[start..], &after[start..]);
    let end = before.iter().rev().zip(after.iter().rev()).take_while(|(b, a)| b == a).count();
    let mut out = Vec::new();
    for (sign, lines) in [('-', &before[..before.len() - end]), ('+', &after[..after.len() - end])] {
        out.extend(lines.iter().take(LINES).map(|l| (sign, l.clone())));
        if lines.len() > LINES {
            out.push((sign, format!("… {} more lines", lines.len() - LINES)));
        }
    }
    match difference {
        Some(difference) => out.push(('~', format!("({difference})"))),
        // Cut to the same text.
        None if out.is_empty() => out.push(('~', "(differs where it is not shown)".to_string())),
        None => {}
    }
    out
}

const END: &str = "differs only in a newline at the end";
const ENDS: &str = "differs only in line ends (CRLF)";
const SPACES: &str = "differs only in white space; a tab is shown as \u{2192}";

/// A tab, as wide as it is in most terminals: stops would depend on what stands before it.
const TAB: &str = "    ";

/// What the sides differ in, where nobody would see it.
fn unseen(field: &Field) -> Option<&'static str> {
    let (Some(before), Some(after)) = (&field.before, &field.after) else { return None };
    if before == after || field.after_unknown {
        return None;
    }
    let (before, after) = (before.as_str(), after.as_str());
    let same_lines = |a: &str, b: &str| a.replace("\r\n", "\n") == b.replace("\r\n", "\n");
    let is_shorter = |a: &str, b: &str| a.strip_suffix('\n') == Some(b);
    if is_shorter(before, after) || is_shorter(after, before) {
        Some(END)
    } else if same_lines(before, after) {
        Some(ENDS)
    } else if before.split_whitespace().eq(after.split_whitespace()) {
        Some(SPACES)
    } else {
        None
    }
}

/// `zones/example.com.yaml:12`, empty when there is no declaration.
pub(super) fn place(change: &ResourceChange) -> String {
    match (&change.file, change.line) {
        (Some(file), Some(line)) if line > 0 => format!("{}:{line}", clean(file)),
        (Some(file), _) => clean(file).into_owned(),
        _ => String::new(),
    }
}

/// Why, and that it is held if it is.
pub(super) fn reason(change: &ResourceChange) -> String {
    let held = if change.state == State::Held && !change.is_stalled() { ", held" } else { "" };
    format!("{}{held}", clean(&change.reason))
}

/// What keeps a change: `waiting: until Zone/a is ready`.
pub(super) fn blocked(blocked: &Blocked) -> String {
    let message = clean(&blocked.message);
    // The engine's messages begin with "waits", which the word before them already says.
    let message = match blocked.kind {
        ConditionKind::Waiting => message.strip_prefix("waits ").unwrap_or(&message),
        _ => &message,
    };
    format!("{}: {message}", blocked.kind.word())
}

/// The line of a commit's message that consents to a held domain, where every source of it lets it: with the whole digest,
/// because the plan may not be known yet where the commit is read.
pub(super) fn trailer(digest: &str, domain: &GuardDomain) -> Option<String> {
    domain.trailers.then(|| format!("{}: {digest}", crate::source::APPROVE))
}

/// What a person has to consent to.
pub(super) struct Held<'a> {
    pub(super) domain: &'a GuardDomain,
    pub(super) digest: &'a str,
    pub(super) reasons: &'a [Arc<str>],
    /// When it is held, where it is not yet, with what goes before it.
    pub(super) once: String,
    pub(super) recorded: bool,
}

/// What of a domain is held now, and what will be.
pub(super) fn held(domain: &GuardDomain) -> Vec<Held<'_>> {
    let now = (domain.state == State::Held).then(|| Held {
        domain,
        digest: domain.digest.as_deref().unwrap_or_default(),
        reasons: &domain.reasons,
        once: String::new(),
        recorded: domain.recorded,
    });
    let later = domain.foreseen.as_ref().filter(|foreseen| foreseen.approval.is_none());
    let later = later.map(|foreseen| Held {
        domain,
        digest: &foreseen.digest,
        reasons: &foreseen.reasons,
        once: format!("  {}", clean(&foreseen.once)),
        recorded: foreseen.recorded,
    });
    now.into_iter().chain(later).collect()
}

/// Each consent to what a domain has, with its digest, and when it counts where that is not yet.
pub(super) fn approved(domain: &GuardDomain) -> Vec<(&Approval, &str, String)> {
    let now = domain
        .approval
        .as_ref()
        .map(|given| (given, domain.digest.as_deref().unwrap_or_default(), String::new()));
    let later = domain.foreseen.as_ref().and_then(|foreseen| {
        let once = format!(", which counts {}", clean(&foreseen.once));
        Some((foreseen.approval.as_ref()?, &*foreseen.digest, once))
    });
    now.into_iter().chain(later).collect()
}

/// `3 to create, 1 to update; 1 suspended`: what there is, or with `always` also how little of the first kinds there is.
pub(super) fn words(summary: &Summary, always: bool) -> String {
    let parts = [
        (summary.create, "create", always),
        (summary.update, "update", always),
        (summary.replace, "replace", false),
        (summary.delete, "delete", always),
        (summary.adopt, "adopt", false),
        (summary.r#move, "move", false),
        (summary.forget, "forget", false),
    ];
    let shown = parts.iter().filter(|(count, _, always)| *count > 0 || *always);
    let shown = shown.map(|(count, word, _)| format!("{count} to {word}")).collect::<Vec<_>>().join(", ");
    let apart = [(summary.suspended, "suspended"), (summary.stalled, "stalled")];
    let apart = apart.iter().filter(|(count, _)| *count > 0);
    let apart = apart.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ");
    [shown, apart].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// The last line: what would happen, or that nothing would.
pub(super) fn conclusion(document: &Document) -> String {
    let text = planned(document);
    if !document.incomplete {
        return text;
    }
    format!("{}. Errors kept part of it from being planned.", text.trim_end_matches('.'))
}

fn planned(document: &Document) -> String {
    let frozen = document.frozen.iter().map(|one| one.tracked).sum();
    if document.has_changes() {
        let frozen = match frozen {
            0 => String::new(),
            count => format!(", {count} frozen"),
        };
        let words = words(&document.summary, true);
        let untouched = untouched(document.untouched);
        return format!("Plan: {words}; {} in sync{frozen}{untouched}", document.in_sync);
    }
    let count =
        |kinds: &[ConditionKind]| document.conditions.iter().filter(|c| kinds.contains(&c.kind)).count();
    let rest = [
        (count(&[ConditionKind::Stalled, ConditionKind::Held]), "in need of a person"),
        (count(&[ConditionKind::Waiting]), "waiting"),
        (count(&[ConditionKind::Suspended]), "suspended"),
        (frozen, "frozen"),
    ];
    let mut text = match (document.in_sync, document.untouched) {
        (0, 1..) if document.conditions.is_empty() && document.failures.is_empty() && frozen == 0 => {
            return format!("No changes. {} untouched.", counted(document.untouched, "scope"));
        }
        (in_sync, _) => format!("No changes. {} in sync", counted(in_sync, "resource")),
    };
    for (count, word) in rest.iter().filter(|(count, _)| *count > 0) {
        text += &format!(", {count} {word}");
    }
    text += &untouched(document.untouched);
    match document.failures.len() {
        0 => {}
        1 => text += ", 1 scope not read",
        many => text += &format!(", {many} scopes not read"),
    }
    text + "."
}

/// How many scopes were left out because nothing changes for them.
fn untouched(scopes: usize) -> String {
    if scopes == 0 { String::new() } else { format!(", {} untouched", counted(scopes, "scope")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_of_a_change_is_said() {
        let check = |before: &str, after: &str, expect: &[(char, &str)]| {
            let field = Field {
                path: "content".into(),
                before: Some(before.into()),
                after: Some(after.into()),
                after_unknown: false,
                forces_replacement: false,
            };
            let lines = changed_lines(&field, 40);
            let lines: Vec<(char, &str)> = lines.iter().map(|(sign, line)| (*sign, &**line)).collect();
            assert_eq!(lines, expect);
        };
        check("a\nb", "a\nb\n", &[('~', "(differs only in a newline at the end)")]);
        check("a\r\nb\r\n", "a\nb\n", &[('~', "(differs only in line ends (CRLF))")]);
        let spaces = "(differs only in white space; a tab is shown as \u{2192})";
        check("a\n\tb", "a\n b", &[('-', "\u{2192}b"), ('+', " b"), ('~', spaces)]);
        check("a\n\tb", "a\n\tc", &[('-', "    b"), ('+', "    c")]);
        let long = "x".repeat(50);
        check(&format!("{long}a"), &format!("{long}b"), &[('~', "(differs where it is not shown)")]);
    }
}
