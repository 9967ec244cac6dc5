//! A plan for a terminal, or for a pipe.

use super::lines;
use crate::{
    operation::plan::{Action, Condition, ConditionKind, Document, Field, ResourceChange, State, Summary},
    text::{clean, cut, short_digest},
};
use reconciled_engine::plan::STILL_THERE;
use std::{
    collections::{HashMap, HashSet},
    fmt::Write,
};

/// How a text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextOptions {
    /// Writes ANSI colours.
    pub colour: bool,
    /// Lists the foreign resources that the document lists.
    pub show_foreign: bool,
    /// Columns of the terminal; none where lines need not end.
    pub width: Option<usize>,
    /// Most changes of a scope, and most entries of a list; 0 is no limit.
    pub limit: usize,
    /// Told to somebody who pushes: without what is to be typed elsewhere.
    pub is_push: bool,
    /// What a person has to type who consents to what is held.
    pub consent: Consent,
}

/// How a person consents to what a plan holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consent {
    /// Whoever shows the plan puts down what is held: the first digits will do.
    #[default]
    Recorded,
    /// Where the state has no such hold, only the whole digest says what is meant.
    ByDigest,
    /// As [`Consent::ByDigest`], of a part of a plan: what carries plans out carries out whole ones, and asks for consent to those.
    InPart,
    /// There is no state yet, and with one the digest is another.
    Fleeting,
}

impl Default for TextOptions {
    fn default() -> TextOptions {
        TextOptions {
            colour: false,
            show_foreign: false,
            width: None,
            limit: 200,
            is_push: false,
            consent: Consent::Recorded,
        }
    }
}

/// Longest line where there is no terminal to ask.
const WIDTH: usize = 400;

/// Room that values get however narrow the terminal is.
const VALUES: usize = 16;

/// Widest address that its neighbours are aligned with.
const ALIGNED: usize = 48;

/// Renders `document`; the text ends with a line feed.
pub fn text(document: &Document, options: &TextOptions) -> String {
    let mut out = Text { out: String::new(), options: *options };
    out.changes(document);
    out.domains(document);
    out.failures(document);
    out.problems(document);
    out.conditions(document);
    out.warnings(document);
    out.left_alone(document);
    out.line(&lines::conclusion(document));
    if document.foreign.count > 0 {
        let hint = if options.show_foreign || options.is_push { "" } else { " (--show-foreign)" };
        out.line(&format!("{} foreign, left alone{hint}", document.foreign.count));
    }
    if document.foreign.ignored > 0 {
        out.line(&format!("{} ignored, as their zones say", document.foreign.ignored));
    }
    out.out
}

/// ANSI codes by meaning.
mod paint {
    pub(super) const BOLD: &str = "1";
    pub(super) const DIM: &str = "2";
    pub(super) const RED: &str = "31";
    pub(super) const GREEN: &str = "32";
    pub(super) const YELLOW: &str = "33";
    pub(super) const CYAN: &str = "36";
}

struct Text {
    out: String,
    options: TextOptions,
}

impl Text {
    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// `text` in a colour, where colours are wanted.
    fn painted(&mut self, code: &str, text: &str) {
        if self.options.colour && !text.is_empty() {
            let _ = write!(self.out, "\u{1b}[{code}m{text}\u{1b}[0m");
        } else {
            self.out.push_str(text);
        }
    }

    fn width(&self) -> usize {
        self.options.width.unwrap_or(WIDTH)
    }

    fn limit(&self) -> usize {
        if self.options.limit == 0 { usize::MAX } else { self.options.limit }
    }

    fn more(&mut self, count: usize, what: &str) {
        if count > 0 {
            let how = if self.options.is_push { "" } else { ": -o json shows all of them" };
            self.line(&format!("      … {count} more{what}{how}"));
        }
    }

    fn hint(&mut self, hint: Option<&str>) {
        if let Some(hint) = hint {
            self.line(&format!("      hint: {}", clean(hint)));
        }
    }

    fn changes(&mut self, document: &Document) {
        let held: HashSet<&str> =
            document.domains.iter().filter(|d| d.state == State::Held).map(|d| &*d.name).collect();
        for changes in document.resource_changes.chunk_by(|a, b| a.scope == b.scope) {
            self.painted(paint::BOLD, &clean(&changes[0].scope));
            let unlisted =
                document.unlisted.get(&changes[0].scope).map_or_else(Summary::default, |rest| rest.summary);
            let _ = write!(self.out, "  {}", lines::words(&Summary::of(changes).and(unlisted), false));
            if held.contains(&*changes[0].domain) {
                self.out.push_str("  ");
                self.painted(paint::YELLOW, "HELD");
            }
            self.out.push('\n');
            let shown = &changes[..changes.len().min(self.limit())];
            let lengths = shown.iter().map(|c| c.address.chars().count());
            let column = lengths.filter(|l| *l <= ALIGNED).max().unwrap_or(0);
            for change in shown {
                self.change(change, column);
            }
            let rest = &changes[shown.len()..];
            let rest = Summary::of(rest).and(unlisted);
            self.more(rest.total(), &format!(" ({})", lines::words(&rest, false)));
            self.out.push('\n');
        }
    }

    fn change(&mut self, change: &ResourceChange, column: usize) {
        let (symbol, code) = (lines::symbol(change), colour(change));
        let _ = write!(self.out, "{:>width$}", "", width = 3 - symbol.len());
        self.painted(code, symbol);
        let address = clean(&change.address);
        let _ = write!(self.out, " {address}");
        let (place, mut reason) = (lines::place(change), lines::reason(change));
        // Who pushes knows the commit, and what is held is said above.
        if self.options.is_push && reason.starts_with("commit ") {
            reason.clear();
        }
        let values = lines::values(change);
        let padding = column.saturating_sub(address.chars().count());
        if !values.is_empty() {
            let taken = 4 + address.chars().count() + padding + 2;
            let tail = 3 + place.chars().count() + 2 + reason.chars().count();
            let room = self.width().saturating_sub(taken + tail).max(VALUES);
            let _ = write!(self.out, "{:padding$}  {}", "", cut(&values, room));
        }
        let tail = if place.is_empty() { format!("   {reason}") } else { format!("   {place}  {reason}") };
        self.painted(paint::DIM, tail.trim_end());
        self.out.push('\n');
        for field in &change.fields {
            self.field(field);
        }
        if let Some(blocked) = &change.blocked {
            self.line(&format!("      {}", lines::blocked(blocked)));
        }
    }

    fn field(&mut self, field: &Field) {
        let path = clean(&field.path);
        let before = lines::side(field.before.as_deref(), false);
        let after = lines::side(field.after.as_deref(), field.after_unknown);
        let forces = if field.forces_replacement { "  # forces replacement" } else { "" };
        let line = format!("      {path}: {before} → {after}{forces}");
        if !lines::is_long(field) && line.chars().count() <= self.width() {
            return self.line(&line);
        }
        self.line(&format!("      {path}:{forces}"));
        for (sign, text) in lines::changed_lines(field, self.width().saturating_sub(10).max(VALUES)) {
            self.out.push_str("        ");
            self.painted(if sign == '-' { paint::RED } else { paint::GREEN }, &format!("{sign} {text}"));
            self.out.push('\n');
        }
    }

    /// Domains that need, or got, consent.
    fn domains(&mut self, document: &Document) {
        for domain in &document.domains {
            for held in lines::held(domain) {
                self.held(&held);
            }
            for (approval, digest, once) in lines::approved(domain) {
                self.painted(paint::GREEN, "APPROVED");
                let (actor, reason) = (clean(&approval.actor), clean(&approval.reason));
                let (name, digest) = (clean(&domain.name), short_digest(digest));
                self.line(&format!("  {name}  {digest} by {actor}: {reason}{once}"));
                self.out.push('\n');
            }
        }
    }

    /// What needs consent, and what to type.
    fn held(&mut self, held: &lines::Held<'_>) {
        let short = short_digest(held.digest);
        self.painted(paint::YELLOW, "HELD");
        self.line(&format!("  {}  {short}{}", clean(&held.domain.name), held.once));
        for reason in held.reasons {
            self.line(&format!("  {}", clean(reason)));
        }
        if !self.options.is_push {
            let whole = if held.recorded { short } else { held.digest };
            let digest = match self.options.consent {
                Consent::Recorded => Some(short),
                Consent::ByDigest => Some(whole),
                Consent::InPart => held.recorded.then_some(short),
                Consent::Fleeting => None,
            };
            match (digest, self.options.consent) {
                (Some(digest), _) => {
                    self.line(&format!("  hint: to consent: reconciled approve {digest} --reason \"…\""));
                }
                (None, Consent::Fleeting) => {
                    self.line(
                        "  hint: to consent, first make the state, and plan again: reconciled state init",
                    );
                }
                (None, _) => self.line(
                    "  hint: consent is to whole plans, with the digest that `reconciled plan` shows alone",
                ),
            }
            if let Some(trailer) = lines::trailer(held.digest, held.domain).filter(|_| digest.is_some()) {
                self.line(&format!("  hint: or with a line at the end of a commit's message: {trailer}"));
            }
        }
        self.out.push('\n');
    }

    fn failures(&mut self, document: &Document) {
        if document.failures.is_empty() {
            return;
        }
        self.painted(paint::RED, "COULD NOT BE READ");
        self.out.push('\n');
        let (all, limit) = (&document.failures, self.limit());
        for failure in all.iter().take(limit) {
            self.line(&format!("  {}  {}: {}", clean(&failure.scope), failure.kind, clean(&failure.message)));
            self.hint(failure.hint.as_deref());
        }
        self.more(all.len().saturating_sub(limit), "");
        self.out.push('\n');
    }

    fn problems(&mut self, document: &Document) {
        if document.problems.is_empty() {
            return;
        }
        self.painted(paint::RED, "PROBLEMS IN MANIFESTS");
        self.out.push('\n');
        let (all, limit) = (&document.problems, self.limit());
        for problem in all.iter().take(limit) {
            let mut place = problem.file.as_deref().map(clean).unwrap_or_default().into_owned();
            for number in [problem.line, problem.column].into_iter().flatten() {
                let _ = write!(place, ":{number}");
            }
            let gap = if place.is_empty() { "" } else { "  " };
            self.line(&format!("  {place}{gap}{}: {}", problem.severity, clean(&problem.message)));
            self.hint(problem.hint.as_deref());
        }
        self.more(all.len().saturating_sub(limit), "");
        self.out.push('\n');
    }

    fn conditions(&mut self, document: &Document) {
        // What waits is told where its change is; what needs a person is told again, with what to type.
        let told: HashSet<(&str, &str)> = document
            .resource_changes
            .iter()
            .filter(|c| c.blocked.is_some())
            .map(|c| (&*c.scope, &*c.id))
            .collect();
        let mut groups: HashMap<&str, Vec<&Condition>> = HashMap::new();
        for condition in &document.conditions {
            let title = match condition.kind {
                ConditionKind::Stalled | ConditionKind::Held => "NEEDS A PERSON",
                ConditionKind::Waiting => "WAITING",
                ConditionKind::Suspended => "SUSPENDED",
            };
            let is_told = condition.id.as_ref().is_some_and(|id| told.contains(&(&*condition.scope, &**id)));
            if title == "NEEDS A PERSON" || !is_told {
                groups.entry(title).or_default().push(condition);
            }
        }
        let order = [("NEEDS A PERSON", paint::YELLOW), ("WAITING", paint::CYAN), ("SUSPENDED", paint::DIM)];
        for (title, code) in order {
            let Some(group) = groups.get(title) else { continue };
            self.painted(code, title);
            self.out.push('\n');
            let limit = self.limit();
            for condition in group.iter().take(limit) {
                self.condition(condition);
            }
            self.more(group.len().saturating_sub(limit), "");
            self.out.push('\n');
        }
    }

    fn condition(&mut self, condition: &Condition) {
        let name = condition.address.as_deref().unwrap_or(&condition.scope);
        let mut line =
            format!("  {}  {}: {}", clean(name), clean(&condition.reason), clean(&condition.message));
        if let Some(next_try) = &condition.next_try {
            let word = if &*condition.reason == STILL_THERE { "until" } else { "next try" };
            let _ = write!(line, "  {word} {}", clean(next_try));
        }
        self.line(&line);
        self.hint(condition.hint.as_deref());
    }

    fn warnings(&mut self, document: &Document) {
        for warning in &document.warnings {
            self.painted(paint::YELLOW, "warning:");
            self.line(&format!(" {}", clean(&warning.message)));
            self.hint(warning.hint.as_deref());
        }
        if !document.warnings.is_empty() {
            self.out.push('\n');
        }
    }

    fn left_alone(&mut self, document: &Document) {
        let frozen = lines::frozen(document);
        if !frozen.is_empty() {
            self.painted(paint::YELLOW, "FROZEN");
            self.line(": not changed, restored or deleted");
            self.indented(&frozen);
        }
        let unassigned = lines::unassigned(document);
        if !unassigned.is_empty() {
            self.line("UNASSIGNED, left alone");
            self.indented(&unassigned);
        }
        if self.options.show_foreign && !document.foreign.resources.is_empty() {
            self.line("FOREIGN, left alone");
            self.indented(&lines::foreign(document));
        }
    }

    fn indented(&mut self, lines: &[String]) {
        lines.iter().for_each(|line| self.line(&format!("  {line}")));
        self.out.push('\n');
    }
}

fn colour(change: &ResourceChange) -> &'static str {
    match change.change.actions[..] {
        [Action::Create] => paint::GREEN,
        [Action::Update] => paint::YELLOW,
        [Action::Adopt | Action::Move] => paint::CYAN,
        [Action::Forget] => paint::DIM,
        _ => paint::RED,
    }
}
