//! Which changes of a batch `check` refuses: found by halves, so that one bad record keeps no other from its file.
//!
//! Each try is a whole file beside the real one, which stays untouched meanwhile. What changes at one name is taken or left as
//! one. What is refused is tried once more at the end: it may only have lacked something that came after it, as an NS lacks the
//! address of its host. A file that is refused as it is has no culprit among the changes.

use super::{
    backend::Backend,
    command,
    draft::{Draft, draft_path, is_creation, store},
    write,
};
use crate::{master::Entry, record};
use reconciled_provider::{Action, Error, ErrorKind};
use std::{collections::BTreeMap, fs, path::Path};

/// Most runs of `check` for one batch; what is left then waits for the next.
const TRIES: usize = 64;

/// Finds the changes that can be written without those which `check` refuses; `error` is what it said of all of them.
///
/// Errors: `check` cannot be run, or refuses the file as it is.
pub(super) async fn accepted(
    backend: &Backend,
    zone: &str,
    place: &Path,
    entries: &[Entry],
    actions: &[Action],
    error: Error,
) -> Result<Draft, Error> {
    let mut search =
        Search { backend, zone, place, entries, tries: 0, taken: Vec::new(), refused: Vec::new() };
    // What a new zone cannot be without is no part of the search: the zone itself, and what stands at it.
    let is_new = actions.iter().any(is_creation);
    let apex = format!("{zone}.");
    let is_sought =
        |action: &&Action| record::parts(action.op.id()).is_some_and(|(name, _)| !is_new || name != apex);
    let (names, rest): (Vec<&Action>, Vec<&Action>) = actions.iter().partition(is_sought);
    search.taken = rest;
    if search.refusal(&[]).await?.is_some() {
        return Err(error);
    }
    search.take(by_name(&names)).await?;
    let again = std::mem::take(&mut search.refused);
    for (unit, _) in again {
        search.take(vec![unit]).await?;
    }
    let mut made = Draft::new(backend, zone, entries.to_vec(), &search.taken);
    for (unit, error) in search.refused {
        made.refused.extend(unit.iter().map(|action| (action.id, error.clone())));
    }
    Ok(made)
}

/// Actions at one name, in the order of names.
fn by_name<'b>(actions: &[&'b Action]) -> Vec<Vec<&'b Action>> {
    let mut units: BTreeMap<&str, Vec<&Action>> = BTreeMap::new();
    for action in actions {
        let name = record::parts(action.op.id()).map_or("", |(name, _)| name);
        units.entry(name).or_default().push(action);
    }
    units.into_values().collect()
}

struct Search<'b> {
    backend: &'b Backend,
    zone: &'b str,
    place: &'b Path,
    entries: &'b [Entry],
    tries: usize,
    taken: Vec<&'b Action>,
    refused: Vec<(Vec<&'b Action>, Error)>,
}

impl<'b> Search<'b> {
    /// Takes as many of the units as `check` lets through.
    async fn take(&mut self, units: Vec<Vec<&'b Action>>) -> Result<(), Error> {
        let mut stack = vec![units];
        while let Some(mut units) = stack.pop() {
            if units.is_empty() {
                continue;
            }
            let all: Vec<&Action> = units.iter().flatten().copied().collect();
            match self.refusal(&all).await? {
                None => self.taken.extend(all),
                Some(error) if units.len() == 1 => self.refused.extend(units.pop().map(|unit| (unit, error))),
                Some(_) => {
                    let second = units.split_off(units.len() / 2);
                    stack.extend([second, units]);
                }
            }
        }
        Ok(())
    }

    /// What `check` says of the file with what was taken so far and `more`; none where it lets it through.
    async fn refusal(&mut self, more: &[&'b Action]) -> Result<Option<Error>, Error> {
        if self.tries >= TRIES {
            let text = format!("{} was not tried: `check` refused {TRIES} drafts of its zone", self.zone);
            return Ok(Some(
                Error::unavailable(text).hint("mend what it refused; the rest follows by itself"),
            ));
        }
        self.tries += 1;
        let actions: Vec<&Action> = self.taken.iter().chain(more).copied().collect();
        let made = Draft::new(self.backend, self.zone, self.entries.to_vec(), &actions);
        let as_it_is = || write::write(&format!("{}.", self.zone), &mut self.entries.to_vec());
        let text = made.text.unwrap_or_else(as_it_is);
        let draft = draft_path(self.place);
        store(&draft, self.place, &text)?;
        let config = &self.backend.config;
        let said = command::run(&config.check, self.zone, &draft, config.options.timeout).await;
        let _ = fs::remove_file(&draft);
        match said {
            Ok(()) => Ok(None),
            Err(error) if error.kind == ErrorKind::Invalid => Ok(Some(error)),
            Err(error) => Err(error),
        }
    }
}
