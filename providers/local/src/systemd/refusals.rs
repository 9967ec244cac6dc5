//! Units that systemd starts or stops for other units alone: `RefuseManualStart=` and `RefuseManualStop=`.
//!
//! A manifest whose own text says so, and that wants it all the same, is in error. Where that is another file's word, of a package
//! or a drop-in of somebody, the manager knows it of what it has loaded, and a plan says so before anything is written.

use super::{
    definition::{self, Refuses},
    unit::{OnChange, RunState, Unit},
};
use crate::hands::{Manager, Start};
use reconciled_provider::{Deltas, Error, Observation, ResourceId, Want};

/// What is to be done to a unit.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Start,
    Stop,
    Again,
}

/// Has those of `deltas` be errors that systemd would not carry out.
pub(crate) async fn tell(
    manager: &dyn Manager,
    want: &Want<'_>,
    seen: &Observation,
    mut deltas: Deltas,
) -> Result<Deltas, Error> {
    let mut asked: Vec<(&ResourceId, Unit, Unit)> = Vec::new();
    for desired in want.desired {
        let is_to_change = deltas.get(&desired.id).is_some_and(Result::is_ok);
        let unit = desired.spec.bytes().and_then(Unit::decode).filter(|_| is_to_change);
        let was = seen.get(&desired.id).and_then(|observed| Unit::decode(&observed.bytes));
        asked.extend(unit.zip(was).map(|(unit, was)| (&desired.id, unit, was)));
    }
    asked.retain(|(id, unit, was)| wanted(&id.0, unit, was).is_some());
    if asked.is_empty() {
        return Ok(deltas);
    }
    let names: Vec<String> = asked.iter().map(|(id, ..)| id.0.to_string()).collect();
    let (starts, states) = (manager.starts(&names).await?, manager.units(&names).await?);
    for (((id, unit, was), start), state) in asked.into_iter().zip(starts).zip(states) {
        let Some(wanted) = wanted(&id.0, &unit, &was) else { continue };
        if wanted == Wanted::Again && !state.is_running() {
            continue;
        }
        let refuses = then(definition::refuses(texts(&unit)), definition::refuses(texts(&was)), start);
        if let Some(error) = refused(&id.0, wanted, &refuses) {
            deltas.insert(id.clone(), Err(error));
        }
    }
    Ok(deltas)
}

/// What a unit will refuse once what is declared is in place, as it refuses it now: what its new text says, which outranks others,
/// and else what comes from elsewhere than its old one.
pub(crate) fn then(new: Refuses, old: Refuses, loaded: Start) -> Start {
    let is_to_be = |new: Option<bool>, old, is| new.unwrap_or(is && old != Some(true));
    Start {
        refuses_start: is_to_be(new.start, old.start, loaded.refuses_start),
        refuses_stop: is_to_be(new.stop, old.stop, loaded.refuses_stop),
        ..loaded
    }
}

fn refused(unit: &str, wanted: Wanted, start: &Start) -> Option<Error> {
    let (word, key) = match wanted {
        Wanted::Start if start.refuses_start => ("started", START),
        Wanted::Stop if start.refuses_stop => ("stopped", STOP),
        Wanted::Again if start.refuses_stop => ("restarted", STOP),
        Wanted::Again if start.refuses_start => ("restarted", START),
        _ => return None,
    };
    let hint = match wanted {
        Wanted::Again => {
            "take that line out, or write `onChange: none`: the change counts from its next start on"
        }
        Wanted::Start | Wanted::Stop => "take that line out, or leave `state` out",
    };
    let text = format!("{unit} would be {word}, and systemd does that for other units alone: {key}=yes");
    Some(Error::invalid(text).hint(hint))
}

pub(crate) const START: &str = "RefuseManualStart";
pub(crate) const STOP: &str = "RefuseManualStop";

/// What a plan would have done to a unit, as far as that can be told from what is declared and what was seen.
fn wanted(name: &str, unit: &Unit, was: &Unit) -> Option<Wanted> {
    match (unit.state, was.state) {
        (Some(RunState::Running), Some(RunState::Stopped)) => return Some(Wanted::Start),
        (Some(RunState::Stopped), Some(RunState::Running)) => return Some(Wanted::Stop),
        _ => {}
    }
    let takes_over = ["target", "slice", "path"].iter().any(|kind| name.ends_with(&format!(".{kind}")));
    let is_other = match name.ends_with(".service") {
        true => definition::fixed(texts(unit)) != definition::fixed(texts(was)),
        // What a mount takes over it has to be told, which is a job as well.
        false => definition::effective(texts(unit)) != definition::effective(texts(was)),
    };
    (unit.on_change != OnChange::None && !takes_over && is_other).then_some(Wanted::Again)
}

/// What a unit is made of, drop-ins of others among them.
fn texts(unit: &Unit) -> impl Iterator<Item = &str> {
    let beside = unit.beside.iter().filter(|(path, _)| path.ends_with(".conf")).map(|(_, text)| text);
    unit.content.iter().chain(unit.drop_ins.values()).chain(beside).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_service_takes_over_as_it_runs_restarts_nothing() {
        let unit = |more: &str| Unit {
            content: Some(format!("[Service]\nExecStart=/bin/a\n{more}")),
            ..Unit::default()
        };
        let is_restarted = |more: &str| wanted("a.service", &unit(more), &unit("")) == Some(Wanted::Again);
        assert!(!is_restarted("ExecReload=/bin/b\n") && is_restarted("Nice=5\n"));
    }

    #[test]
    fn what_comes_from_elsewhere_stays_and_what_the_old_file_said_does_not() {
        let says = |stop| Refuses { start: None, stop };
        let will = |new, old, is| {
            let loaded = Start { refuses_stop: is, ..Start::default() };
            then(says(new), says(old), loaded).refuses_stop
        };
        assert!(will(None, None, true) && will(None, Some(false), true) && will(Some(true), None, false));
        assert!(!will(None, Some(true), true) && !will(Some(false), None, true) && !will(None, None, false));
    }
}
