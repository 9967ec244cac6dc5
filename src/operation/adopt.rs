//! A person's consent to take over what exists and differs, bound to what was shown.

use super::{
    explain::{declaring, look_at},
    pattern,
};
use crate::{
    failure::Failure,
    session::{Ask, Outlook, Session},
    text::clean,
};
use reconciled_engine::{
    Store, Write, plan,
    store::{Condition, ConditionKind, Consent, Event},
    survey::Survey,
};
use reconciled_provider::{Delta, Error, FieldChange, Hash, Owner, Pattern, Scope, Shown};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};

/// What can be taken over?
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdoptAsk {
    /// What to take over.
    pub address: String,
    /// The instance or tool whose mark it carries.
    pub from_instance: Option<String>,
}

/// One resource that can be taken over.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Adoptable {
    /// `PROVIDER/NAME`.
    pub scope: String,
    /// Remote key.
    pub id: String,
    /// Address for people.
    pub address: String,
    /// Hash of what was observed: the consent holds for nothing else.
    pub observed: String,
    /// Whose mark it carries, if anybody's.
    pub owner: Option<String>,
    /// How it differs, one line each, from observed to declared.
    pub lines: Vec<String>,
}

/// What was found on the way to an answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Adoption {
    /// What can be taken over.
    pub found: Vec<Adoptable>,
    /// What is wrong with sources and manifests.
    pub messages: Vec<String>,
}

/// Looks for what `ask` means.
///
/// Errors: nothing declared there, nothing in conflict there, somebody else's mark that was not named.
pub async fn adoptable(session: &Session, store: &dyn Store, ask: &AdoptAsk) -> Result<Adoption, Failure> {
    let meant = pattern(&ask.address)?;
    let outlook = session.outlook(&Ask::default(), store).await?;
    let only = declaring(session, &outlook.desired, &meant);
    if only.is_empty() {
        return Err(Failure::hinted(
            format!("no manifest declares {}", ask.address),
            "to see what is declared and what is there: reconciled plan --show-foreign",
        ));
    }
    let options = look_at(&only, [meant.clone()]);
    let calls = &session.surveyor.calls;
    let under_way = calls.now();
    let mut survey = session.surveyor.survey(store, &outlook.desired, &options).await?;
    survey.tell_under_way(under_way, calls);
    survey.scopes.retain(|scope, _| only.contains(scope));
    let found = conflicts(session, &outlook, &survey, &meant)?;
    if found.is_empty() {
        return Err(nothing(&survey, &meant, &ask.address));
    }
    for one in &found {
        foreign_mark(one, ask.from_instance.as_deref())?;
    }
    Ok(Adoption { found, messages: outlook.messages() })
}

/// Puts the consent of `actor` down.
pub async fn adopt(store: &dyn Store, shown: &[Adoptable], actor: &str, at: Duration) -> Result<(), Failure> {
    let mut writes = Vec::new();
    for one in shown {
        let scope: Scope = one.scope.parse().map_err(|error: &str| Failure::plain(error.to_string()))?;
        let observed = Hash::from_hex(&one.observed)
            .ok_or_else(|| Failure::plain(format!("`{}` is no hash", one.observed)))?;
        let word = Consent::Adopt { observed, from: one.owner.as_deref().map(Arc::from) };
        writes.push(Write::Consent(scope.clone(), one.id.as_str().into(), word));
        writes.push(Write::Event(Event {
            at,
            kind: "consent".into(),
            scope: Some(scope),
            address: one.address.parse().ok(),
            revision: "".into(),
            actor: actor.into(),
            reason: "adopt".into(),
            message: format!("may be taken over as it was shown ({observed})").into(),
        }));
    }
    store.commit(writes).await?;
    Ok(())
}

fn conflicts(
    session: &Session,
    outlook: &Outlook,
    survey: &Survey,
    pattern: &Pattern,
) -> Result<Vec<Adoptable>, Failure> {
    let mut all = Vec::new();
    for (scope, view) in &survey.scopes {
        let view = view.as_ref().map_err(|error| Failure::Remote(error.clone()))?;
        if session.observer(&scope.provider).is_none() {
            continue;
        }
        for condition in view.plan.conditions.iter().filter(|c| plan::BY_ADOPT.contains(&&*c.reason)) {
            let (Some(id), Some(address)) = (&condition.id, &condition.address) else { continue };
            let declared = outlook.desired.in_scope(scope).iter().find(|resource| resource.id == *id);
            let group = declared.map_or("", |d| outlook.desired.manifest(d.origin).key.group());
            let Some(observed) = view.seen.get(id).filter(|_| pattern.matches(address, group)) else {
                continue;
            };
            let offered = view.offered.get(id).map(Result::as_ref).transpose();
            let offered = offered.map_err(|error| cannot_be(&address.to_string(), error))?;
            let mut lines = offered.map(lines).unwrap_or_default();
            if lines.is_empty() {
                lines.push(clean(&condition.message).into_owned());
            }
            let owner = match &observed.owner {
                Owner::Other(other) => Some(other.to_string()),
                _ => None,
            };
            all.push(Adoptable {
                scope: scope.to_string(),
                id: id.to_string(),
                address: address.to_string(),
                observed: plan::as_shown(observed, offered).to_string(),
                owner,
                lines,
            });
        }
    }
    Ok(all)
}

/// Nobody consents to what fails.
fn cannot_be(address: &str, error: &Error) -> Failure {
    let message = format!("{address} cannot be taken over: {}", error.chain());
    Failure::hinted(message, error.hint.as_deref().unwrap_or("to see all of it: reconciled plan"))
}

/// All that taking it over would change.
fn lines(delta: &Delta) -> Vec<String> {
    let line =
        |field: &FieldChange| format!("{}: {} → {}", field.path, side(&field.before), side(&field.after));
    let mut lines: Vec<String> = delta.fields.iter().map(line).collect();
    if delta.replace {
        let because = match delta.replace_paths.is_empty() {
            true => String::new(),
            false => format!(", because of {}", delta.replace_paths.join(", ")),
        };
        lines.push(format!("it is deleted and made anew{because}"));
    }
    lines
}

fn side(shown: &Shown) -> String {
    match shown {
        Shown::Text(text) => clean(text).into_owned(),
        Shown::Sensitive => "(secret)".into(),
        Shown::Unknown => "(known after apply)".into(),
        Shown::Absent => "(none)".into(),
    }
}

/// The mark of another instance is taken only by its name.
fn foreign_mark(found: &Adoptable, from: Option<&str>) -> Result<(), Failure> {
    match &found.owner {
        Some(owner) if from != Some(owner.as_str()) => Err(Failure::hinted(
            format!("{} carries the ownership mark of `{owner}`", found.address),
            format!("to take it from there: reconciled adopt {} --from-instance {owner}", found.address),
        )),
        _ => Ok(()),
    }
}

/// Nothing is in conflict: says what is there, or what keeps it from being looked at or written.
fn nothing(survey: &Survey, pattern: &Pattern, text: &str) -> Failure {
    let conditions =
        survey.scopes.values().filter_map(|view| view.as_ref().ok()).flat_map(|view| &view.plan.conditions);
    let meant = |condition: &&Condition| {
        let address = condition.address.as_ref();
        address.is_some_and(|address| pattern.matches(address, address.group.as_deref().unwrap_or("")))
    };
    if let Some(stalled) = conditions.filter(|c| c.kind == ConditionKind::Stalled).find(meant) {
        let hint = stalled.hint.as_deref().unwrap_or("to see all of it: reconciled plan");
        return Failure::hinted(format!("nothing at {text} can be taken over: {}", stalled.message), hint);
    }
    let views = survey.scopes.values().filter_map(|view| view.as_ref().ok());
    let tracked = views
        .clone()
        .flat_map(|view| view.memory.rows.iter())
        .filter(|row| pattern.matches(&row.address, row.manifest.group()))
        .count();
    let planned: Vec<String> = views
        .flat_map(|view| &view.plan.steps)
        .filter(|step| pattern.matches(&step.address, step.address.group.as_deref().unwrap_or("")))
        .map(|step| format!("{} {}", step.change.word(), step.address))
        .take(5)
        .collect();
    let there = if planned.is_empty() { String::new() } else { format!(", planned: {}", planned.join(", ")) };
    Failure::hinted(
        format!("nothing at {text} needs to be taken over ({tracked} tracked{there})"),
        "to see all of it: reconciled plan",
    )
}
