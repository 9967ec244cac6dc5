//! What a process was asked and answers again alike, because the answer follows from the question: whether a configuration is
//! valid, and what a state is that this very process told or left as it was. A pass over what did not change asks neither again.
//!
//! *Guarantees*: nothing is remembered beyond the process that said it, and of no state whose text would read otherwise than what
//! was told. *Deliberately not done*: nothing of the cloud is remembered, and no refusal is.

use crate::{
    catalog::ResourceType,
    cty::{self, Type, Value},
};
use reconciled_provider::Hash;
use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Answers that are remembered: two for each of 32,768 resources. Past that all of them are asked for once more.
const MOST: usize = 65_536;

/// Hashes of what was asked.
#[derive(Default)]
pub(super) struct Answered(Mutex<HashSet<Hash>>);

/// What was asked.
pub(super) struct Asked(Hash);

impl Asked {
    /// What this state is today.
    pub(super) fn state(of: &ResourceType, version: i64, json: &str) -> Asked {
        Asked(Hash::of(format!("state {} {version} {json}", of.name).as_bytes()))
    }

    /// Whether this configuration is valid.
    pub(super) fn config(of: &ResourceType, msgpack: &[u8]) -> Asked {
        Asked(Hash::of(&[b"config ", of.name.as_bytes(), b" ", msgpack].concat()))
    }
}

impl Answered {
    fn all(&self) -> MutexGuard<'_, HashSet<Hash>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has(&self, asked: &Asked) -> bool {
        self.all().contains(&asked.0)
    }

    /// Remembers that `state` is in today's form, if its text says all of it: a number may have more digits than are read.
    pub(super) fn put_state(&self, asked: Asked, of: &Type, state: &Value, json: &str) {
        if !self.has(&asked) && reads_back(of, json).as_ref() == Some(state) {
            self.put(asked);
        }
    }

    pub(super) fn put(&self, asked: Asked) {
        let mut all = self.all();
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(asked.0);
    }
}

/// What the text of a state says.
pub(super) fn reads_back(of: &Type, json: &str) -> Option<Value> {
    cty::read_json(json.as_bytes(), of).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cty::Number;

    #[test]
    fn a_state_is_remembered_where_its_text_says_all_of_it() {
        let of = Type::Object([("n".into(), Type::Number)].into());
        let check = |number: &str, expect: bool| {
            let state = Value::Map([("n".into(), Value::Number(Number::parse(number).unwrap()))].into());
            let json = String::from_utf8(cty::write_json(&state, &of)).unwrap();
            let (answered, asked) = (Answered::default(), || Asked(Hash::of(json.as_bytes())));
            answered.put_state(asked(), &of, &state, &json);
            assert_eq!(answered.has(&asked()), expect, "{number}");
        };
        check("7", true);
        check("0.1", true);
        check("12345678901234567890123", false);
        check("0.12345678901234567890123", false);
    }

    #[test]
    fn more_than_is_remembered_is_asked_for_once_more() {
        let (answered, asked) = (Answered::default(), |n: usize| Asked(Hash::of(&n.to_le_bytes())));
        (0..=MOST).for_each(|n| answered.put(asked(n)));
        assert!(answered.has(&asked(MOST)) && !answered.has(&asked(0)));
        assert!(answered.all().len() <= MOST);
    }
}
