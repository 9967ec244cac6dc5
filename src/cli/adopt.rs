//! `adopt`: a person's consent to take over what exists and differs, bound to what was shown.

use super::{
    Args, Exit, Out,
    apply::actor,
    backup::consent,
    list,
    plan::{tell_problems, tell_warnings},
};
use crate::{
    config::Environment,
    render::clean,
    session::{Ask, Failure, Outlook, Session, Writing},
};
use clap::Args as ClapArgs;
use reconciled_engine::{
    Store, Write,
    store::{Consent, Event},
    survey::{Survey, SurveyOptions},
};
use reconciled_provider::{Address, Hash, Owner, Pattern, ResourceId, Scope, Shown, Spec};
use std::{collections::BTreeSet, sync::Arc};

/// Conditions that `adopt` resolves.
const RESOLVES: [&str; 2] = ["Conflict", "ManagementConflict"];

/// Arguments of `adopt`.
#[derive(Clone, Debug, ClapArgs)]
pub struct AdoptArgs {
    /// What to take over; `*` and `?` are wild
    #[arg(value_name = "ADDRESS")]
    pub address: String,
    /// Take it from this instance or tool, whose mark it carries
    #[arg(long, value_name = "NAME")]
    pub from_instance: Option<String>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

/// One resource to take over.
struct Found {
    scope: Scope,
    id: ResourceId,
    address: Address,
    observed: Hash,
    /// Whose mark it carries, if anybody's.
    owner: Option<Arc<str>>,
    /// How it differs, one line each.
    lines: Vec<String>,
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    adopt: &AdoptArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let actor = actor(&environment);
    let pattern = list::pattern(&adopt.address)?;
    let session = Session::open(args.config.as_deref(), environment).await?;
    tell_warnings(&session, out);
    let writing = session.writer().await?;
    let result = take(&session, &writing, adopt, &pattern, &actor, out).await;
    writing.db.close().await;
    result
}

async fn take(
    session: &Session,
    writing: &Writing,
    adopt: &AdoptArgs,
    pattern: &Pattern,
    actor: &str,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let outlook = session.outlook(&Ask::default(), &*writing.db).await?;
    tell_problems(&outlook, out);
    let only = scopes(session, &outlook, pattern);
    if only.is_empty() {
        return Err(Failure::hinted(
            format!("no manifest declares {}", adopt.address),
            "to see what is declared and what is there: reconciled plan --show-foreign",
        ));
    }
    let options = SurveyOptions { only: Some(only), refresh: true, ..SurveyOptions::default() };
    let survey = session.surveyor.survey(&*writing.db, &outlook.desired, &options).await?;
    let found = conflicts(session, &outlook, &survey, pattern)?;
    if found.is_empty() {
        return Err(nothing(&survey, pattern, &adopt.address));
    }
    for one in &found {
        foreign_mark(one, adopt.from_instance.as_deref())?;
        out.data(&format!("{} ({}, observed → declared)", one.address, one.scope));
        one.lines.iter().for_each(|line| out.data(&format!("  {line}")));
    }
    let question = format!("Take over these {} and make them as declared?", found.len());
    if !consent(adopt.yes, &question, "reconciled adopt ADDRESS --yes", out)? {
        return Ok(Exit::Error);
    }
    let from: Option<Arc<str>> = adopt.from_instance.as_deref().map(Arc::from);
    let mut writes = Vec::new();
    for one in &found {
        let word = Consent::Adopt { observed: one.observed, from: one.owner.as_ref().and(from.clone()) };
        writes.push(Write::Consent(one.scope.clone(), one.id.clone(), word));
        writes.push(Write::Event(Event {
            at: session.clock.now(),
            kind: "consent".into(),
            scope: Some(one.scope.clone()),
            address: Some(one.address.clone()),
            revision: "".into(),
            actor: actor.into(),
            reason: "adopt".into(),
            message: format!("may be taken over as it was shown ({})", one.observed).into(),
        }));
    }
    writing.db.commit(writes).await?;
    out.talk("now: reconciled apply");
    Ok(Exit::Good)
}

/// The scopes in which something at these addresses is declared.
fn scopes(session: &Session, outlook: &Outlook, pattern: &Pattern) -> BTreeSet<Scope> {
    let desired = &outlook.desired;
    let declares = |scope: &Scope| {
        let Some(observer) = session.observer(&scope.provider) else { return false };
        desired.in_scope(scope).iter().any(|resource| {
            let manifest = desired.manifest(resource.origin);
            let address = Address { part: observer.part(scope, &resource.id), ..manifest.address.clone() };
            pattern.matches(&address, manifest.key.group())
        })
    };
    desired.scopes.keys().filter(|scope| declares(scope)).cloned().collect()
}

fn conflicts(
    session: &Session,
    outlook: &Outlook,
    survey: &Survey,
    pattern: &Pattern,
) -> Result<Vec<Found>, Failure> {
    let mut all = Vec::new();
    for (scope, view) in &survey.scopes {
        let view = view.as_ref().map_err(|error| Failure::Remote(error.clone()))?;
        let Some(observer) = session.observer(&scope.provider) else { continue };
        for condition in view.plan.conditions.iter().filter(|c| RESOLVES.contains(&&*c.reason)) {
            let (Some(id), Some(address)) = (&condition.id, &condition.address) else { continue };
            let desired = outlook.desired.in_scope(scope);
            let declared = desired.iter().find(|resource| resource.id == *id);
            let group = declared.map_or("", |d| outlook.desired.manifest(d.origin).key.group());
            let Some(observed) = view.seen.get(id).filter(|_| pattern.matches(address, group)) else {
                continue;
            };
            let delta = declared
                .filter(|d| matches!(d.spec, Spec::Known { .. }))
                .and_then(|declared| observer.compare(declared, observed));
            let fields = delta.map(|delta| delta.fields).unwrap_or_default();
            let mut lines: Vec<String> = fields
                .iter()
                .map(|field| format!("{}: {} → {}", field.path, side(&field.before), side(&field.after)))
                .collect();
            if lines.is_empty() {
                lines.push(clean(&condition.message).into_owned());
            }
            let owner = match &observed.owner {
                Owner::Other(other) => Some(other.clone()),
                _ => None,
            };
            let (scope, id, address) = (scope.clone(), id.clone(), address.clone());
            all.push(Found { scope, id, address, observed: observed.hash, owner, lines });
        }
    }
    Ok(all)
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
fn foreign_mark(found: &Found, from: Option<&str>) -> Result<(), Failure> {
    match &found.owner {
        Some(owner) if from != Some(owner) => Err(Failure::hinted(
            format!("{} carries the ownership mark of `{owner}`", found.address),
            format!("to take it from there: reconciled adopt {} --from-instance {owner}", found.address),
        )),
        _ => Ok(()),
    }
}

/// Nothing is in conflict: says what is there.
fn nothing(survey: &Survey, pattern: &Pattern, text: &str) -> Failure {
    let views = survey.scopes.values().filter_map(|view| view.as_ref().ok());
    let tracked = views
        .clone()
        .flat_map(|view| &view.memory.rows)
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
