//! A plan for a pull request: what a person must know first, then each scope behind a click.
//!
//! Whatever comes from a repository or a remote stands in fenced blocks, or is escaped, so that a record can
//! neither draw a heading, nor link, nor call a person by name.

use super::lines;
use crate::{
    operation::plan::{ConditionKind, Document, ResourceChange, Summary},
    text::{clean, cut, short_digest},
};
use std::{borrow::Cow, fmt::Write};

/// Most characters: GitHub takes 65,536 in a comment.
const MOST: usize = 60_000;

/// Room that is kept for the end of the page.
const TAIL: usize = 600;

/// Most entries of each list before the scopes.
const ENTRIES: usize = 20;

/// Longest line of a list or a diff.
const LINE: usize = 300;

/// Renders `document` in at most 60,000 characters; what does not fit is counted.
pub fn markdown(document: &Document) -> String {
    let mut out = String::new();
    head(document, &mut out);
    let lists = [
        ("Held: a person must consent", held(document)),
        ("Could not be read", failures(document)),
        ("Problems in manifests", problems(document)),
        ("Needs a person", conditions(document, &[ConditionKind::Stalled, ConditionKind::Held])),
        ("Waiting", conditions(document, &[ConditionKind::Waiting])),
        ("Warnings", warnings(document)),
        ("Frozen: not changed, restored or deleted", plain(lines::frozen(document))),
        ("Unassigned, left alone", plain(lines::unassigned(document))),
        ("Foreign, left alone", plain(lines::foreign(document))),
    ];
    for (title, entries) in lists {
        list(title, &entries, &mut out);
    }
    let rest = scopes(document, &mut out);
    if rest > 0 {
        let _ = writeln!(
            out,
            "**Truncated**: {rest} more changes do not fit here; `reconciled plan -o json` shows all of them.\n"
        );
    }
    if document.foreign.count > 0 {
        let _ = writeln!(out, "{} foreign, left alone\n", document.foreign.count);
    }
    if document.foreign.ignored > 0 {
        let _ = writeln!(out, "{} ignored, as their zones say\n", document.foreign.ignored);
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn head(document: &Document, out: &mut String) {
    let _ = writeln!(out, "### {}\n", lines::conclusion(document));
    for source in document.sources.iter().take(ENTRIES) {
        let (name, label) = (code(cut(&source.name, LINE)), code(cut(&source.label, LINE)));
        let _ = writeln!(out, "{name} at {label}\n");
    }
    for name in document.withheld.iter().take(ENTRIES) {
        let stays = match document.sources.iter().any(|source| source.name == *name) {
            true => "the last good one stays",
            false => "nothing of it is in force yet",
        };
        let name = code(cut(name, LINE));
        let _ = writeln!(
            out,
            "The newest revision of {name} has errors that keep all of it from coming into force: {stays}\n"
        );
    }
    if document.has_changes() {
        let s = &document.summary;
        out.push_str("| create | update | replace | delete | adopt | move | forget | in sync |\n");
        out.push_str("|---:|---:|---:|---:|---:|---:|---:|---:|\n");
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} |\n",
            s.create, s.update, s.replace, s.delete, s.adopt, s.r#move, s.forget, document.in_sync
        );
    }
}

fn list(title: &str, entries: &[String], out: &mut String) {
    if entries.is_empty() {
        return;
    }
    let _ = writeln!(out, "**{title}**\n");
    let mut text: String = entries.iter().take(ENTRIES).map(|e| e.as_str()).collect();
    if entries.len() > ENTRIES {
        let _ = writeln!(text, "… {} more", entries.len() - ENTRIES);
    }
    fenced("text", &text, out);
}

fn entry(first: String, hint: Option<&str>) -> String {
    let mut text = format!("{}\n", cut(&clean(&first), LINE));
    if let Some(hint) = hint {
        let _ = writeln!(text, "  hint: {}", cut(&clean(hint), LINE));
    }
    text
}

fn held(document: &Document) -> Vec<String> {
    let held = document.domains.iter().flat_map(lines::held);
    held.map(|held| {
        let digest = short_digest(held.digest);
        let mut text = entry(format!("{}  {digest}{}", held.domain.name, held.once), None);
        for reason in held.reasons.iter().take(ENTRIES) {
            let _ = writeln!(text, "  {}", cut(&clean(reason), LINE));
        }
        // Where the state has no such hold, only the whole digest says what is meant.
        let whole = if held.recorded { digest } else { held.digest };
        let _ = writeln!(text, "  hint: to consent: reconciled approve {whole} --reason \"…\"");
        if let Some(trailer) = lines::trailer(held.digest, held.domain) {
            let _ = writeln!(text, "  hint: or with a line at the end of a commit's message: {trailer}");
        }
        text
    })
    .collect()
}

fn failures(document: &Document) -> Vec<String> {
    let all = document.failures.iter();
    all.map(|f| entry(format!("{}  {}: {}", f.scope, f.kind, f.message), f.hint.as_deref())).collect()
}

fn problems(document: &Document) -> Vec<String> {
    let all = document.problems.iter();
    all.map(|p| {
        let line = p.line.map(|line| format!(":{line}")).unwrap_or_default();
        let file = p.file.as_ref().map(|file| format!("{file}{line}  ")).unwrap_or_default();
        entry(format!("{file}{}: {}", p.severity, p.message), p.hint.as_deref())
    })
    .collect()
}

fn conditions(document: &Document, kinds: &[ConditionKind]) -> Vec<String> {
    let wanted = document.conditions.iter().filter(|c| kinds.contains(&c.kind));
    wanted
        .map(|c| {
            let name = c.address.as_deref().unwrap_or(&c.scope);
            entry(format!("{name}  {}: {}", c.reason, c.message), c.hint.as_deref())
        })
        .collect()
}

fn plain(lines: Vec<String>) -> Vec<String> {
    lines.into_iter().map(|line| entry(line, None)).collect()
}

fn warnings(document: &Document) -> Vec<String> {
    document.warnings.iter().map(|w| entry(w.message.clone(), w.hint.as_deref())).collect()
}

/// Writes the scopes that fit; returns how many changes did not.
fn scopes(document: &Document, out: &mut String) -> usize {
    let mut rest = 0;
    for changes in document.resource_changes.chunk_by(|a, b| a.scope == b.scope) {
        let name = code(cut(&changes[0].scope, LINE));
        let words = lines::words(&Summary::of(changes), false);
        let head = format!("<details><summary>{name}: {words}</summary>\n\n");
        // Fence, its language, its end and the closing tag; fences grow with the longest run inside.
        let room = (MOST - TAIL).saturating_sub(out.len() + head.len() + 100);
        let mut diff = String::new();
        let mut shown = 0;
        let mut ticks = 0;
        for change in changes {
            let text = diff_of(change);
            let wider = ticks.max(longest_run(&text));
            if diff.len() + text.len() + 2 * wider > room {
                break;
            }
            ticks = wider;
            diff.push_str(&text);
            shown += 1;
        }
        rest += changes.len() - shown;
        if shown == 0 {
            continue;
        }
        out.push_str(&head);
        fenced("diff", &diff, out);
        out.push_str("</details>\n\n");
    }
    rest
}

/// One change in the colours of a diff: `!` marks what changes in place.
fn diff_of(change: &ResourceChange) -> String {
    let sign = match lines::symbol(change) {
        "~" => "!",
        "-/+" => "-",
        "+" => "+",
        "-" => "-",
        _ => " ",
    };
    let mark = lines::symbol(change);
    let mut line = format!("{sign} ");
    if mark != sign && sign != "!" {
        let _ = write!(line, "{mark} ");
    }
    let _ = write!(line, "{}", clean(&change.address));
    let values = lines::values(change);
    if !values.is_empty() {
        let _ = write!(line, "  {values}");
    }
    let place = lines::place(change);
    if !place.is_empty() {
        let _ = write!(line, "  {place}");
    }
    let mut text = format!("{}  {}\n", cut(&line, LINE), cut(&lines::reason(change), LINE));
    for field in &change.fields {
        let path = cut(&clean(&field.path), LINE).into_owned();
        if field.forces_replacement {
            let _ = writeln!(text, "#   {path} forces replacement");
        }
        if lines::is_long(field) {
            let _ = writeln!(text, "    {path}:");
            for (sign, line) in lines::changed_lines(field, LINE) {
                let _ = writeln!(text, "{sign}     {line}");
            }
            continue;
        }
        let before = lines::side(field.before.as_deref(), false);
        let after = lines::side(field.after.as_deref(), field.after_unknown);
        let _ = writeln!(text, "-   {path}: {}", cut(&before, LINE));
        let _ = writeln!(text, "+   {path}: {}", cut(&after, LINE));
    }
    if let Some(blocked) = &change.blocked {
        let _ = writeln!(text, "#   {}", cut(&lines::blocked(blocked), LINE));
    }
    text
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// A fenced block that `text` cannot end (CommonMark §4.5): its fence is longer than any run of backticks inside.
fn fenced(language: &str, text: &str, out: &mut String) {
    let fence = "`".repeat(3.max(longest_run(text) + 1));
    let _ = write!(out, "{fence}{language}\n{text}{fence}\n\n");
}

/// Text as code within a line or a summary, where backticks do not work: every character of Markdown, HTML
/// or a mention becomes an entity.
fn code(text: Cow<'_, str>) -> String {
    let mut out = String::from("<code>");
    for c in clean(&text).chars() {
        match c {
            '&' | '<' | '>' | '"' | '\'' | '`' | '|' | '*' | '_' | '~' | '[' | ']' | '\\' | '@' | '#'
            | '!' => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push_str("</code>");
    out
}
