//! What keeps a change from happening, in the words of a plan.

use super::change::{Blocked, ConditionKind};
use reconciled_engine::{
    pass::FLAPPING,
    plan::{Change, Reason, Step},
    store::Condition,
    survey::View,
};

/// What keeps `step` from being taken now, by the condition that is `told` of its resource; and whether it is not tried before a
/// person did something.
pub(super) fn of(step: &Step, told: Option<&Condition>) -> (Option<Blocked>, bool) {
    let is_kept = step.blocked.is_some() || told.is_some_and(|condition| &*condition.reason == FLAPPING);
    let say = |condition: &Condition, message| {
        Some(Blocked { kind: condition.kind.into(), reason: condition.reason.clone(), message })
    };
    let blocked = match told {
        Some(condition) if is_kept => say(condition, condition.message.clone()),
        // It is tried again all the same, with the next look at it: what it was refused for may be over.
        Some(condition) if condition.declared.is_some() => {
            let refused = match step.change {
                Change::Delete => "its deletion was refused",
                _ => "it was refused as it is declared",
            };
            say(condition, format!("{refused}: {}", condition.message).into())
        }
        _ => step.blocked.is_some().then(|| Blocked {
            kind: ConditionKind::Waiting,
            reason: "Blocked".into(),
            message: "it cannot happen yet".into(),
        }),
    };
    let is_stalled = blocked.as_ref().is_some_and(|blocked| blocked.kind == ConditionKind::Stalled);
    (blocked, is_kept && is_stalled)
}

/// What was found to be undone each time that it was put right, and is put right no more: of these the daemon keeps count, and
/// the state has what it said.
pub(super) fn left_alone(view: &View) -> Vec<&Condition> {
    let known = view.memory.conditions.iter().filter(|condition| &*condition.reason == FLAPPING);
    let is_so = |condition: &&Condition| {
        let step = view.plan.steps.iter().find(|step| condition.id.as_ref() == Some(&step.id));
        let is_repair = |step: &Step| matches!(step.reason, Reason::Drift | Reason::Restore);
        step.is_some_and(|step| step.blocked.is_none() && is_repair(step))
    };
    known.filter(is_so).collect()
}
