//! What would change: one published document, from which everything else is rendered.
//!
//! [`Document`] is what `-o json`, the API and plan files hold. It holds no secret, no clock reading and no generated id: planning
//! the same state twice gives the same bytes.

mod blocked;
mod build;
mod change;
pub(super) mod document;
mod domain;
#[cfg(test)]
pub(crate) mod fixture;
mod former;
mod frozen;
mod options;
mod summary;
mod warnings;

#[cfg(test)]
mod tests;

pub use change::{Action, Blocked, Change, ConditionKind, Field, PathStep, ResourceChange, Values};
pub use document::{
    Condition, Document, Foreign, ForeignResource, Frozen, Problem, Source, Unassigned, Warning,
};
pub use domain::{Approval, Counts, Foreseen, GuardDomain, State};
pub use frozen::why_frozen;
pub use options::{Details, Options};
pub use summary::Summary;

use super::{Selected, Unmatched, Upload, changed, unmatched};
use crate::{
    config::Approver,
    consent,
    failure::Failure,
    registry::entry_for,
    session::{Ask, Outlook, Session, Snapshot, Standing, await_alike},
    store::{Reader, TrackedHere, UnassignedManifest},
};
use futures_util::future::{Either, maybe_done, select};
use reconciled_engine::{
    Desired, Store,
    survey::{Ahead, ByPerson, Glance, Heard, Survey, SurveyOptions, Surveyor},
};
use reconciled_provider::{Scope, Warnings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::ready,
    pin::pin,
    sync::Arc,
    time::Duration,
};

/// What would change?
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanAsk {
    /// What is meant.
    #[serde(default)]
    pub selected: Selected,
    /// These files instead of a repository's.
    pub upload: Option<Upload>,
    /// In which form.
    #[serde(default)]
    pub form: Form,
}

/// How much of a plan is told.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Form {
    /// List what nobody declared, which has every scope read.
    #[serde(default)]
    pub show_foreign: bool,
    /// Values of at most so many changes of a scope; none for all.
    pub limit: Option<usize>,
    /// Put the problems of manifests into the document too, not only into the messages.
    #[serde(default)]
    pub problems: bool,
    /// The changes themselves are needed, even where nothing moved since all was in sync.
    #[serde(default)]
    pub whole: bool,
}

impl Form {
    /// How many changes have their values.
    pub fn details(&self) -> Details {
        self.limit.map_or(Details::All, Details::First)
    }
}

/// What would change.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanAnswer {
    /// The plan.
    pub document: Document,
    /// What is wrong with sources and manifests, for people.
    pub messages: Vec<String>,
    /// Some of it is an error.
    pub has_errors: bool,
    /// The sources that were looked at, and their revisions.
    pub sources: Vec<(String, String)>,
}

/// What a person means just so, as a loop that runs has heard it and not done it yet: what came to nothing there is tried once more.
#[derive(Clone, Copy, Debug)]
pub struct Insisted<'a> {
    /// The scopes.
    pub scopes: &'a BTreeSet<Scope>,
    /// What is desired as that loop has it: the word counts no longer where something else is.
    pub in_force: &'a Desired,
}

impl Insisted<'_> {
    /// Where it counts once `desired` is in force.
    pub(super) fn with(&self, desired: &Desired) -> BTreeSet<Scope> {
        if self.scopes.is_empty() {
            return BTreeSet::new();
        }
        // Where any may have changed, it counts nowhere.
        changed(self.in_force, desired).map(|changed| self.scopes - &changed).unwrap_or_default()
    }
}

/// How long it counts what remotes said.
const FRESH: Duration = Duration::from_secs(5);

/// Answers [`PlanAsk`], as the loop that heard what is `insisted` on would do it, where there is one. Holds observers only; writes
/// nothing to a remote, nothing to the state.
pub async fn plan(
    session: &Session,
    reader: &Reader,
    ask: &Ask,
    form: &Form,
    insisted: Option<Insisted<'_>>,
) -> Result<PlanAnswer, Failure> {
    let Surveyor { hurry, cx, .. } = &session.surveyor;
    let _rush = hurry.rush(&cx.clock);
    // Names are not remembered, only their number: what is to be listed has to be read.
    let refresh = ask.refresh || form.show_foreign;
    let is_whole = ask.is_everything() && !refresh && !form.whole;
    let known = if is_whole { reader.versions().await? } else { BTreeMap::new() };
    let is_here = |entry: &str| session.config.providers.iter().any(|here| *here.name == *entry);
    let desired = async {
        let mut snapshots = session.snapshots(ask, reader).await?;
        if let Some(Insisted { in_force, .. }) = insisted {
            let told = |one: &&Snapshot| one.behind.as_ref().is_none_or(|error| !error.may_pass());
            let told = snapshots.iter().filter(told).map(|one| one.name.clone()).collect();
            await_alike(&session.config, in_force, &told, &mut snapshots);
        }
        let polled = cx.clock.now();
        let tracked = match is_whole && session.are_as_converged(&snapshots, &known, reader).await? {
            true => Some(reader.tracked_here(&is_here).await?),
            false => None,
        };
        Ok::<_, Failure>((snapshots, tracked, polled))
    };
    // What is known can be asked about before it is known what is desired, and who has manifests to load then does not wait for it.
    let began = cx.clock.now();
    let mut hearing = pin!(maybe_done(session.hear(&known)));
    let (snapshots, tracked, polled) = match select(pin!(desired), hearing.as_mut()).await {
        Either::Left((desired, _)) => desired?,
        Either::Right(((), desired)) => desired.await?,
    };
    let heard = async {
        // What was said while sources took long is of the past.
        if polled.saturating_sub(began) > FRESH {
            return session.hear(&known).await;
        }
        hearing.as_mut().await;
        hearing.take_output().unwrap_or_default()
    };
    let heard = match tracked {
        Some(tracked) => {
            let heard = heard.await;
            if let Some(standing) = session.stands(&known, &heard) {
                return Ok(unchanged(&snapshots, tracked, standing));
            }
            Either::Left(ready(heard))
        }
        None => Either::Right(heard),
    };
    let by_person = if ask.by_person { ByPerson::Everything } else { ByPerson::Nothing };
    let selection = ask.selection.clone();
    let options = SurveyOptions { selection, refresh, by_person, ..SurveyOptions::default() };
    let warnings = Warnings::heard();
    let (outlook, document) =
        plan_of(session, reader, (snapshots, heard), (&options, insisted), form, &warnings).await?;
    let mut messages = outlook.messages();
    messages.extend(warnings.take().into_iter().map(|warning| format!("warning: {warning}")));
    let nothing = unmatched(session, reader, &outlook.desired, Some(&document), &ask.selection).await?;
    messages.extend(nothing.iter().map(Unmatched::warning));
    // What was planned, which is not always what was polled: `onInvalid: hold`.
    let sources = named(&outlook.snapshots);
    let has_errors = outlook.has_errors();
    drop_aside(outlook);
    Ok(PlanAnswer { document, messages, has_errors, sources })
}

/// The answer where nothing changed.
fn unchanged(snapshots: &[Snapshot], tracked: TrackedHere, standing: Standing) -> PlanAnswer {
    let mut document = Document::standing(tracked.here as usize, standing.foreign, &snapshots_of(snapshots));
    document.unassigned_manifests = tracked.manifests;
    document.unassigned = tracked
        .elsewhere
        .into_iter()
        .map(|(scope, count)| Unassigned { scope: scope.into(), tracked: count as usize, source: None })
        .collect();
    PlanAnswer { document, messages: Vec::new(), has_errors: false, sources: named(snapshots) }
}

/// Gives back the memory of what may be large, while whoever waits for the answer has it already.
fn drop_aside(large: impl Send + 'static) {
    tokio::task::spawn_blocking(move || drop(large));
}

fn named(snapshots: &[Snapshot]) -> Vec<(String, String)> {
    snapshots.iter().map(|s| (s.name.to_string(), s.label.to_string())).collect()
}

/// What would change if `snapshots` were in force.
async fn plan_of(
    session: &Session,
    reader: &Reader,
    (snapshots, heard): (Vec<Snapshot>, impl Future<Output = Heard> + Send),
    (options, insisted): (&SurveyOptions, Option<Insisted<'_>>),
    form: &Form,
    warnings: &Warnings,
) -> Result<(Outlook, Document), Failure> {
    let under_way = session.surveyor.calls.now();
    let (outlook, glance) = look_and_load(session, (snapshots, heard), reader, options).await?;
    let insisted = insisted.map(|insisted| insisted.with(&outlook.desired)).unwrap_or_default();
    let options = &SurveyOptions { insisted, ..options.clone() };
    let mut surveyor = session.surveyor.clone();
    surveyor.cx.warnings = warnings.clone();
    let mut survey = surveyor.survey_from(reader, &outlook.desired, glance, options).await?;
    survey.tell_under_way(under_way, &surveyor.calls);
    let document = consented(session, reader, &mut survey, &outlook, form).await?;
    drop_aside(survey);
    Ok((outlook, document))
}

/// What is found if `snapshots` take the place of what is in force: only the scopes for which that makes a difference are
/// looked at, and those that are `held`, which somebody may consent to.
pub(super) async fn survey_from(
    session: &Session,
    reader: &Reader,
    snapshots: Vec<Snapshot>,
    insisted: Insisted<'_>,
    held: &BTreeSet<Scope>,
) -> Result<(Outlook, Survey), Failure> {
    let outlook = session.load(snapshots, reader).await?;
    let only = changed(insisted.in_force, &outlook.desired).map(|changed| &changed | held);
    // As the daemon will look, once they are in force.
    let (asked, insisted) = (Some(BTreeSet::new()), insisted.with(&outlook.desired));
    let options = SurveyOptions { only, asked, insisted, ..SurveyOptions::default() };
    let calls = &session.surveyor.calls;
    let under_way = calls.now();
    let mut survey = session.surveyor.survey(reader, &outlook.desired, &options).await?;
    survey.tell_under_way(under_way, calls);
    Ok((outlook, survey))
}

/// The document of [`survey_from`].
pub(super) async fn document_from(
    session: &Session,
    reader: &Reader,
    mut survey: Survey,
    outlook: &Outlook,
    in_force: &Desired,
    form: &Form,
) -> Result<Document, Failure> {
    let declared: BTreeSet<&Scope> = in_force.scopes.keys().chain(outlook.desired.scopes.keys()).collect();
    let untouched = declared.into_iter().filter(|scope| !survey.scopes.contains_key(*scope)).count();
    Ok(Document { untouched, ..consented(session, reader, &mut survey, outlook, form).await? })
}

async fn consented(
    session: &Session,
    reader: &Reader,
    survey: &mut Survey,
    outlook: &Outlook,
    form: &Form,
) -> Result<Document, Failure> {
    consent::lay_over(&session.config.sources, reader, outlook, survey, session.clock.now()).await?;
    let mut document = document(session, survey, outlook, form, form.details());
    let waits = |domain: &GuardDomain| domain.state == State::Held || domain.foreseen.is_some();
    if document.domains.iter().any(waits) {
        let holds: BTreeSet<String> =
            reader.holds().await?.iter().map(|hold| hold.digest.to_string()).collect();
        for domain in &mut document.domains {
            domain.recorded = domain.digest.as_ref().is_some_and(|digest| holds.contains(&**digest));
            if let Some(foreseen) = &mut domain.foreseen {
                foreseen.recorded = holds.contains(&*foreseen.digest);
            }
        }
    }
    Ok(document)
}

/// Reads the manifests and glances at the remotes side by side, but for those that are being asked already, which is `heard` of.
pub async fn look_and_load(
    session: &Session,
    (snapshots, heard): (Vec<Snapshot>, impl Future<Output = Heard> + Send),
    store: &dyn Store,
    options: &SurveyOptions,
) -> Result<(Outlook, Glance), Failure> {
    let ahead = if options.selection.is_all() { Ahead::Moved } else { Ahead::Nothing };
    let glance = async { session.surveyor.glance(store, options, ahead, heard).await.map_err(Failure::from) };
    // Remotes first: they take the longest, and while manifests are read nobody gets to ask them.
    let (glance, outlook) = tokio::try_join!(glance, session.load(snapshots, store))?;
    Ok((outlook, glance))
}

fn snapshots_of(snapshots: &[Snapshot]) -> Vec<(Arc<str>, Arc<str>, Arc<str>)> {
    snapshots.iter().map(|s| (s.name.clone(), s.revision.clone(), s.label.clone())).collect()
}

/// The document of a survey.
pub fn document(
    session: &Session,
    survey: &Survey,
    outlook: &Outlook,
    form: &Form,
    details: Details,
) -> Document {
    let desired = &outlook.desired;
    let problems = if form.problems { outlook.problems() } else { Vec::new() };
    let sources = &session.config.sources;
    let names: BTreeSet<Arc<str>> = sources.iter().map(|source| source.name.clone()).collect();
    let options =
        Options { problems: &problems, show_foreign: form.show_foreign, details, configured: Some(&names) };
    let mut document = Document::of(survey, desired, &|entry| session.observer(entry), &options);
    document.unassigned_manifests = UnassignedManifest::of(desired, |key| entry_for(&session.config, key));
    // `adopt` reads the configured sources alone.
    if !desired.sources.keys().all(|name| names.contains(name)) {
        let conflicts = document.conditions.iter_mut().filter(|condition| &*condition.reason == "Conflict");
        conflicts.for_each(|condition| condition.hint = Some(ADOPT_BY_MANIFEST.into()));
    }
    for domain in &mut document.domains {
        let seen = survey.domains.get(&domain.name);
        domain.trailers =
            seen.is_some_and(|seen| consent::may(sources, seen, survey, desired, Approver::Trailer));
    }
    document.trailers = document.domains.iter().any(|domain| domain.trailers);
    document.incomplete = outlook.has_errors();
    document.withheld = outlook.withheld.clone();
    document
}

/// How what a folder declares is taken over.
const ADOPT_BY_MANIFEST: &str = "to take it over as it is and make it as declared, write among the annotations of its manifest: reconciled/adopt: \"true\"";
