//! What the row says of a write that came about in part, or not at all.

use crate::{plan::Step, store::Row};
use reconciled_provider::Hash;

/// Stands for what is there once another value was written in part: no resource is this text.
const IN_PART: &[u8] = b"(in part)";

/// What was written in part was not applied: the row keeps what was, so that going on has the same reason. Of another declaration
/// than before it keeps none, and of another value in the same one, as a rotated secret is, no content: what is there is neither
/// of them, so going back to the one before is asked for by who declares it, or rotates it, and is no drift.
pub(super) fn half(step: &Step, row: Row) -> Row {
    let was = step.work.was.as_ref();
    let applied = was.map_or_else(Hash::default, |was| applied(was, &row));
    let template = was.map(|w| w.template).filter(|template| *template == row.template);
    row.with(|row| {
        row.tracked.applied = applied;
        row.template = template.unwrap_or_default();
    })
}

/// What counts as applied of what was `was`, and of which `row` was written in part.
fn applied(was: &Row, row: &Row) -> Hash {
    let before = was.tracked.applied;
    let is_another_value = was.template == row.template && before != row.tracked.applied;
    // What was never applied as a whole is still told by that: it may bear the mark of who had it before.
    match is_another_value && before != Hash::default() {
        true => Hash::of(IN_PART),
        false => before,
    }
}

/// Where nothing was written, the row stands and is as old as it was.
pub(super) fn back(step: &Step, row: Row) -> Row {
    let Some(was) = &step.work.was else { return half(step, row) };
    row.with(|row| {
        (row.state, row.written_at) = (was.state.clone(), was.written_at);
        (row.tracked.applied, row.template) = (was.tracked.applied, was.template);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Change, Reason, Work};
    use reconciled_provider::{ManifestKey, Scope};

    fn hash(text: &str) -> Hash {
        Hash::of(text.as_bytes())
    }

    fn row((template, content): (&str, &str)) -> Row {
        let manifest = ManifestKey::new("s", "toy", "Thing", "", "a");
        // Without content it was never applied as a whole.
        let applied = if content.is_empty() { Hash::default() } else { hash(content) };
        Row::settled(Scope::new("toy", "a"), "a", manifest).with(|row| {
            row.tracked.applied = applied;
            row.template = hash(template);
        })
    }

    /// What the rows say once a write of the second, each a template with its content, came about in part, and once it was undone.
    fn check(was: Option<(&str, &str)>, now: (&str, &str), in_part: [Hash; 2], undone: [Hash; 2]) {
        let (was, now) = (was.map(row), row(now));
        let step = Step {
            change: Change::Update,
            id: "a".into(),
            address: now.address.clone(),
            reason: Reason::Drift,
            place: None,
            fields: Vec::new(),
            before: None,
            after: None,
            blocked: None,
            guard_words: Vec::new(),
            is_remade: false,
            goes_on: false,
            work: Work {
                desired: None,
                observed: None,
                row: Some(now.clone().into()),
                was: was.map(Into::into),
                delta: Default::default(),
            },
        };
        let told = |row: Row| [row.template, row.tracked.applied];
        assert_eq!((told(half(&step, now.clone())), told(back(&step, now))), (in_part, undone));
    }

    #[test]
    fn what_was_written_in_part_is_as_neither_declaration_has_it() {
        let none = Hash::default();
        let before = [hash("t"), hash("one")];
        check(Some(("t", "one")), ("u", "two"), [none, hash("one")], before);
        // A repair.
        check(Some(("t", "one")), ("t", "one"), before, before);
        check(None, ("t", "one"), [none, none], [none, none]);
    }

    #[test]
    fn another_value_that_was_written_in_part_is_neither_of_both_until_one_is_written() {
        let in_part = [hash("t"), Hash::of(IN_PART)];
        check(Some(("t", "one")), ("t", "two"), in_part, [hash("t"), hash("one")]);
        for value in ["one", "two", "three"] {
            check(Some(("t", "(in part)")), ("t", value), in_part, in_part);
        }
        let never = [hash("t"), Hash::default()];
        check(Some(("t", "")), ("t", "two"), never, never);
    }
}
