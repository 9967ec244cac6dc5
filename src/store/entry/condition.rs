//! A condition as the reading verbs tell it: one of the state, or what is known beside it.

use super::stamp::Stamp;
use reconciled_engine::store::{Condition, ConditionKind};
use reconciled_provider::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that is not in sync.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConditionEntry {
    /// `PROVIDER/NAME`.
    pub scope: String,
    /// The resource, or none for the scope as a whole.
    pub id: Option<String>,
    /// Address for people.
    pub address: Option<String>,
    /// `waiting`, `stalled`, `held` or `suspended`.
    pub kind: String,
    /// One word for machines.
    pub reason: String,
    /// What is the matter.
    pub message: String,
    /// What to type.
    pub hint: Option<String>,
    /// Since when.
    pub since: Stamp,
    /// When it is tried again, if it is.
    pub next_try: Option<Stamp>,
}

impl ConditionEntry {
    /// What is said of a scope as a whole, or of what stands in the place of one, such as `source NAME`.
    pub fn of(
        scope: impl Into<String>,
        kind: ConditionKind,
        reason: &str,
        message: impl Into<String>,
        since: Stamp,
    ) -> ConditionEntry {
        ConditionEntry {
            scope: scope.into(),
            id: None,
            address: None,
            kind: kind.word().into(),
            reason: reason.into(),
            message: message.into(),
            hint: None,
            since,
            next_try: None,
        }
    }

    /// Says what to type.
    pub fn hint(self, hint: impl Into<String>) -> ConditionEntry {
        ConditionEntry { hint: Some(hint.into()), ..self }
    }
}

impl From<(&Scope, &Condition)> for ConditionEntry {
    fn from((scope, condition): (&Scope, &Condition)) -> ConditionEntry {
        let Condition { kind, reason, message, since, .. } = condition;
        ConditionEntry {
            id: condition.id.as_ref().map(ToString::to_string),
            address: condition.address.as_ref().map(ToString::to_string),
            hint: condition.hint.as_deref().map(str::to_owned),
            next_try: condition.next_try.map(Stamp),
            ..ConditionEntry::of(scope.to_string(), *kind, reason, &**message, Stamp(*since))
        }
    }
}
