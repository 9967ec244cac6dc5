//! A plan on disk: `plan --out` writes it, and `apply` carries it out while it holds.

use super::{args::SelectionArgs, destination};
use crate::{
    failure::Failure,
    operation::plan::{Document, GuardDomain},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// What can be applied as a file.
const WRITTEN: &str =
    "name a file that `reconciled plan --out FILE` wrote; without one, the newest manifests are planned";

/// A plan on disk: what was asked, and what it came to. Holds no secret: specs hold marks.
#[derive(Serialize, Deserialize)]
pub(super) struct PlanFile {
    selection: Saved,
    plan: Document,
}

/// The selection a plan was made with.
#[derive(Clone, Serialize, Deserialize)]
struct Saved {
    source: Option<String>,
    dir: Option<PathBuf>,
    rev: Option<String>,
    target: Vec<String>,
    selector: Vec<String>,
}

impl Saved {
    fn of(selection: &SelectionArgs) -> Saved {
        Saved {
            source: selection.source.clone(),
            dir: selection.dir.as_ref().map(|dir| absolute(dir)),
            rev: selection.rev.clone(),
            target: selection.target.clone(),
            selector: selection.selector.clone(),
        }
    }
}

impl PlanFile {
    /// What `selection` asked for, and came to.
    pub(super) fn of(selection: &SelectionArgs, plan: Document) -> PlanFile {
        PlanFile { selection: Saved::of(selection), plan }
    }
    /// The arguments that ask for the same.
    pub(super) fn arguments(&self) -> SelectionArgs {
        let Saved { source, dir, rev, target, selector } = self.selection.clone();
        SelectionArgs { source, dir, rev, target, selector, refresh: false }
    }
    /// Writes it.
    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_json::to_vec_pretty(self)
            .map_err(|e| Failure::plain(format!("the plan cannot be written as JSON: {e}")))?;
        destination::write(path, &text).map_err(|e| {
            let hint = match e.kind() {
                ErrorKind::NotFound => "make its folder first, or name another file",
                ErrorKind::IsADirectory => "name a file in it",
                _ => "name a file that can be written: --out FILE",
            };
            Failure::hinted(format!("write the plan file {}: {e}", path.display()), hint)
        })
    }
    /// Reads a plan file.
    pub(super) fn read(path: &Path) -> Result<PlanFile, Failure> {
        let shown = path.display();
        // Only what is not there yet may be named as a place to write to.
        let hint = |error: &std::io::Error| match error.kind() {
            ErrorKind::NotFound => format!("write one: reconciled plan --out {shown}"),
            ErrorKind::IsADirectory => {
                format!("to apply manifests in a folder: reconciled apply --dir {shown}")
            }
            _ => WRITTEN.to_owned(),
        };
        let text = fs::read(path)
            .map_err(|e| Failure::hinted(format!("read the plan file {shown}: {e}"), hint(&e)))?;
        serde_json::from_slice(&text)
            .map_err(|e| Failure::hinted(format!("{shown} is no plan: {e}"), WRITTEN))
    }
    /// It is carried out only if planning again comes to the same: the same guarded changes, by digest, and
    /// the same repairs and bookkeeping, which no digest covers.
    pub(super) fn still_holds(&self, now: &Document) -> Result<(), Failure> {
        let (old, new) = (essence(&self.plan), essence(now));
        if old == new {
            return Ok(());
        }
        let moved: BTreeSet<String> = old.symmetric_difference(&new).map(|(what, _)| what.clone()).collect();
        let shown: Vec<String> = moved.iter().take(5).cloned().collect();
        let more = if moved.len() > shown.len() { ", …" } else { "" };
        let hint = match self.selection.dir.as_deref().is_some_and(is_stdin) {
            true => {
                "give it the manifests on standard input again, as for the plan, or look again: … | reconciled plan --dir - --out FILE"
            }
            false => "look again: reconciled plan --out FILE",
        };
        Err(Failure::hinted(
            format!("the plan no longer holds: {}{more} changed since it was made", shown.join(", ")),
            hint,
        ))
    }
}

/// True for `-`, whatever is called so here.
fn is_stdin(dir: &Path) -> bool {
    dir == Path::new("-")
}

/// The folder wherever the plan is applied from.
fn absolute(dir: &Path) -> PathBuf {
    match is_stdin(dir) {
        true => dir.to_owned(),
        false => fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned()),
    }
}

/// What a plan comes to: each domain with its digest, each change with what it does and which fields differ.
fn essence(plan: &Document) -> BTreeSet<(String, String)> {
    let digests = |domain: &GuardDomain| {
        let later = domain.foreseen.as_ref().map(|foreseen| format!("later {}", foreseen.digest));
        let now = domain.digest.as_ref().map(ToString::to_string);
        let name = domain.name.to_string();
        now.into_iter().chain(later).map(move |digest| (name.clone(), digest))
    };
    let domains = plan.domains.iter().flat_map(digests);
    let changes = plan.resource_changes.iter();
    let changes = changes.map(|c| {
        (c.address.to_string(), format!("{} {} {:?} {:?}", c.scope, c.id, c.change.actions, c.fields))
    });
    domains.chain(changes).collect()
}
