//! The words for what keeps a step: the condition that tells a person.
//!
//! Guarantees: each says what is the matter, and what to type where a person can do something. It deliberately does not find out
//! whether anything keeps the step.

use super::{
    Blocked, CREATE_UNKNOWN, DRIFTED, Dependant, FILES_IN_ERROR, POLICY_FORBIDS, STILL_HIDES,
    WAITING_FOR_MOVE,
};
use crate::{
    plan::{Change, Elsewhere, Step},
    store::{Condition, ConditionKind},
    suspension::{BY_MANIFEST, BY_PERSON, StoppedBy, WINDOW_CLOSED},
};
use reconciled_provider::{Address, ManifestKey};

/// Reason of what is to be deleted and is stood on by others.
const STILL_NEEDED: &str = "StillNeeded";

/// Reason of what waits for what it would be in.
const WAITING_FOR_HOLDER: &str = "WaitingForHolder";

impl Blocked {
    /// The condition that tells a person.
    pub(crate) fn condition(&self, step: &Step) -> Condition {
        let told = match self {
            Blocked::Reference(keys) => Condition {
                hint: keys.first().map(|key| why(key).into()),
                ..Condition::waiting("WaitingForOutput", format!("waits for an output of {}", names(keys)))
            },
            Blocked::NoOutput { reference, hint } => {
                let (target, path) = (name(&reference.target), &reference.path);
                let message = format!("{target} is in sync and puts out no `{path}`");
                Condition::stalled("NoSuchOutput", message).hint(hint.clone())
            }
            Blocked::Dependency(key) => {
                let message = format!("waits until {} is ready", name(key));
                Condition::waiting("WaitingForDependency", message).hint(why(key))
            }
            Blocked::Dependant(dependant) => still_needed(dependant),
            Blocked::StandsOnFormer(key) => {
                let message =
                    format!("the one before it is deleted once {} has moved on to the new one", name(key));
                Condition::waiting(STILL_NEEDED, message).hint(why(key))
            }
            Blocked::StoodOnByFormer(key) => {
                let message = format!("the one before it is deleted once the one before {} is", name(key));
                Condition::waiting(STILL_NEEDED, message).hint(why(key))
            }
            Blocked::Successor(address) => {
                let message = format!("stays until {address} can take its place, which cannot be made");
                let hint = format!("to see why: reconciled explain {address}");
                Condition::waiting("WaitingForSuccessor", message).hint(hint)
            }
            Blocked::Occupied { by, is_tracked: true, is_declared: true } => {
                let hint = format!(
                    "take {by} out of its manifest, or say in the one that claims this that it goes elsewhere; the page of its \
                     kind says how"
                );
                let message = format!("cannot be made beside {by}, which is declared");
                Condition::stalled("Occupied", message).hint(hint)
            }
            Blocked::Occupied { by, is_tracked: true, .. } => {
                let hint = "`status` says what keeps it: a suspension, a source that is in error, a rule of its manifest";
                let message = format!("cannot be made beside {by}, which stays for now");
                Condition::waiting("WaitingForRoom", message).hint(hint)
            }
            Blocked::Occupied { by, is_tracked: false, .. } => {
                let message = format!("cannot be made beside {by}, which is somebody else's");
                Condition::stalled("Occupied", message)
                    .hint("delete it at the remote, or take this declaration back")
            }
            Blocked::NoHolder { holder, told } => Condition {
                reason: match told.kind {
                    // Who may let it go on is told apart by that.
                    ConditionKind::Suspended => told.reason.clone(),
                    _ => WAITING_FOR_HOLDER.into(),
                },
                message: format!("waits until {holder} is made: {}", told.message).into(),
                declared: None,
                ..(**told).clone()
            },
            Blocked::InError(scope) => {
                let message = format!(
                    "waits until the manifest that declares {scope} counts: its file has errors, or its revision is not in force"
                );
                let hint = "`status` names the files with errors, and says what keeps a revision";
                Condition::waiting(WAITING_FOR_HOLDER, message).hint(hint)
            }
            Blocked::Heir(address) => {
                let message = format!(
                    "stays until {address} can be read: that waits or failed, and may be the same thing"
                );
                let hint = format!(
                    "if it takes its place, say there `reconciled/moved-from: {}`; if it is to stay whatever comes: \
                     reconciled forget {}",
                    step.address, step.address
                );
                Condition::waiting("WaitingForTwin", message).hint(hint)
            }
            Blocked::Mistakable(address) => {
                let message = format!(
                    "stays until it is known whether {address} was made: what is there may be that one"
                );
                Condition::waiting("WaitingForTwin", message).hint(why_of(address))
            }
            Blocked::Taken(address) => {
                let message = format!(
                    "stays, since what it was before it was replaced is {address} by now, and would go with it"
                );
                let hint = format!(
                    "it is left to that one: reconciled forget {own}, give its id as reconciled/import in its manifest, \
                     and reconciled adopt {own}; if they are two, delete by hand what it was before",
                    own = step.address
                );
                Condition::stalled("TakenOver", message).hint(hint)
            }
            Blocked::Same(address) => {
                let message = format!("stays, since {address} is the same thing, and would go with it");
                let hint = format!(
                    "that one has it from now on: reconciled forget {}; if they are two, delete this one by hand",
                    step.address
                );
                Condition::stalled("SameThing", message).hint(hint)
            }
            Blocked::Elsewhere(there) => {
                let Elsewhere { scope, address, .. } = &**there;
                let (message, hint) = match address {
                    Some(address) => (
                        format!("stays until {address} is in {scope}, where it is declared now"),
                        why_of(address),
                    ),
                    None => (
                        format!("stays until it is in {scope}, where a file with errors declares it"),
                        FILES_IN_ERROR.into(),
                    ),
                };
                Condition::waiting(WAITING_FOR_MOVE, message).hint(hint)
            }
            Blocked::Hidden { by, there } => {
                let scope = &there.scope;
                let what = match &there.address {
                    Some(address) => format!("{address} of {scope}"),
                    None => format!("what a file with errors declares in {scope}"),
                };
                let message = format!("stays, since {by} is still there and hides {what}");
                // At another entry it is asked for its names only where it is sent to.
                let end = match by.provider == scope.provider {
                    true => format!("delete {by} at the remote"),
                    false => format!("take out of {scope} what sends to {by}"),
                };
                let hint = format!(
                    "{end}, or declare this in it again; to leave it there and stop tracking it: reconciled forget {}",
                    step.address
                );
                Condition::stalled(STILL_HIDES, message).hint(hint)
            }
            Blocked::NotEmpty { kept, such_as } => {
                let message = format!(
                    "stays, since {kept} in it would go with it that are not deleted by this plan, such as {such_as}"
                );
                let hint = format!(
                    "delete them at the remote, or declare them first so that they are adopted; to keep it all and \
                     stop tracking it: reconciled forget {}",
                    step.address
                );
                Condition::stalled("NotEmpty", message).hint(hint)
            }
            // It has been told as it is.
            Blocked::Futile(told) | Blocked::UnderWay(told) => return (**told).clone(),
            Blocked::Drift(_) => {
                let hint = format!(
                    "the manifest or source says `drift: warn`; to heal it once, set `drift: heal` on {}",
                    step.address
                );
                Condition::stalled(DRIFTED, "it was changed by hand").hint(hint)
            }
            Blocked::EntryPolicy(policy) => {
                let word = policy.word();
                let change = match step.change {
                    Change::Update if step.work.row.is_none() => "take our values out of".to_owned(),
                    _ => step.change.word().to_owned(),
                };
                let message = format!("the entry's `policy: {word}` does not allow to {change} it");
                let hint = match step.change {
                    Change::Abandon => step.let_go_unwritten(),
                    _ if step.is_undeclared() => format!(
                        "change `policy` of the entry in the configuration of the host, or declare it again; to keep it and \
                         let go of it: reconciled forget {}",
                        step.address
                    ),
                    _ => "change `policy` of the entry in the configuration of the host, or what is declared"
                        .into(),
                };
                Condition::stalled(POLICY_FORBIDS, message).hint(hint)
            }
            Blocked::OwnPolicy(policy) => {
                let (word, change) = (policy.word(), step.change.word());
                let message =
                    format!("its manifest's `reconciled/policy: {word}` does not allow to {change} it");
                Condition::stalled(POLICY_FORBIDS, message)
                    .hint("change that annotation, or what is declared")
            }
            Blocked::Suspended(None) => {
                let message = "its manifest says `suspend`";
                Condition::of(ConditionKind::Suspended, BY_MANIFEST, message)
                    .hint("to let it go on, take `suspend` out of the manifest")
            }
            Blocked::Suspended(Some(by)) => {
                let (reason, message) = match by.stopped_by {
                    StoppedBy::Window(_) => (WINDOW_CLOSED, by.reason.clone()),
                    StoppedBy::Person => {
                        (BY_PERSON, format!("suspended by {}: {}", by.actor, by.reason).into())
                    }
                };
                let told = Condition::of(ConditionKind::Suspended, reason, message).hint(by.remedy());
                Condition { next_try: by.until, ..told }
            }
            Blocked::Ambiguous(None) => {
                let message = "an earlier create may have succeeded, and the remote cannot tell";
                let hint = format!(
                    "look at the remote: if it is there, give its id as `reconciled/import` in the manifest; \
                     if it is not: reconciled forget {}",
                    step.address
                );
                Condition::stalled(CREATE_UNKNOWN, message).hint(hint)
            }
            Blocked::Ambiguous(Some(at)) => {
                let message = "an earlier create may have succeeded; looked for until reads must show it";
                Condition::waiting(CREATE_UNKNOWN, message).next_try(*at)
            }
        };
        told.about(step.id.clone(), step.address.clone())
    }
}

/// What is to be deleted and is needed.
fn still_needed(dependant: &Dependant) -> Condition {
    let Dependant { on, by, awaits, is_declared } = dependant;
    let (on_name, by_name) = (name(on), name(by));
    if *is_declared {
        let message =
            format!("is deleted once what {on_name} declares now is ready, since {by_name} depends on it");
        return Condition::waiting(STILL_NEEDED, message).hint(why(on));
    }
    let Some(awaited) = awaits.as_ref().map(name) else {
        let message = format!("is deleted once nothing depends on {on_name} any more, as {by_name} does");
        return Condition::waiting(STILL_NEEDED, message).hint(why(by));
    };
    let message = format!(
        "is deleted once nothing depends on {on_name} any more, as {by_name} does, which comes after {awaited} by now, and \
         that is not ready"
    );
    let hint = format!(
        "{}; if {awaited} cannot work while this is there, let {by_name} depend on neither for one commit",
        why(by)
    );
    Condition::waiting(STILL_NEEDED, message).hint(hint)
}

/// What to type to see why something is not as it shall be.
fn why(key: &ManifestKey) -> String {
    why_of(&Address::of(key, None))
}

fn why_of(address: &Address) -> String {
    format!("to see how that stands: reconciled explain {address}")
}

fn name(key: &ManifestKey) -> String {
    Address::of(key, None).to_string()
}

/// Each once, however many of its outputs are meant.
fn names(keys: &[ManifestKey]) -> String {
    let mut names = Vec::new();
    for name in keys.iter().map(name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_named_once_however_many_of_its_outputs_are_waited_for() {
        let key = |name| ManifestKey::new("infra", "toy", "Thing", "", name);
        assert_eq!(names(&[key("b"), key("a"), key("b")]), "Thing/b, Thing/a");
    }
}
