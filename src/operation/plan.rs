//! What would change.

use super::{Selected, Upload, changed};
use crate::{
    config::Approver,
    consent,
    render::plan::{Details, Document, Options},
    session::{Ask, Failure, Outlook, Session, Snapshot},
    store::Reader,
};
use reconciled_engine::{
    Desired, Store,
    survey::{Ahead, Glance, Survey, SurveyOptions},
};
use reconciled_provider::{Problem, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, sync::Arc};

/// What would change?
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
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
#[serde(rename_all = "camelCase")]
pub struct Form {
    /// List what nobody declared.
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

/// Answers [`PlanAsk`]. Holds observers only; writes nothing to a remote, nothing to the state.
pub async fn plan(session: &Session, reader: &Reader, ask: &Ask, form: &Form) -> Result<PlanAnswer, Failure> {
    let snapshots = session.snapshots(ask, reader).await?;
    let sources = snapshots.iter().map(|s| (s.name.to_string(), s.label.to_string())).collect();
    if !form.whole
        && let Some(standing) = session.stands(ask, &snapshots, reader).await?
    {
        let status = reader.status().await?;
        let in_sync = status.scopes.iter().map(|s| s.tracked as usize).sum();
        let document = Document::standing(in_sync, standing.foreign, &snapshots_of(&snapshots));
        return Ok(PlanAnswer { document, messages: Vec::new(), has_errors: false, sources });
    }
    let options =
        SurveyOptions { selection: ask.selection.clone(), refresh: ask.refresh, ..SurveyOptions::default() };
    let (outlook, document) = plan_of(session, reader, snapshots, &options, form).await?;
    Ok(PlanAnswer { document, messages: outlook.messages(), has_errors: outlook.has_errors(), sources })
}

/// What would change if `snapshots` were in force.
pub(super) async fn plan_of(
    session: &Session,
    reader: &Reader,
    snapshots: Vec<Snapshot>,
    options: &SurveyOptions,
    form: &Form,
) -> Result<(Outlook, Document), Failure> {
    let (outlook, glance) = look_and_load(session, snapshots, reader, options).await?;
    let survey = session.surveyor.survey_from(reader, &outlook.desired, glance, options).await?;
    let document = consented(session, reader, survey, &outlook, form).await?;
    Ok((outlook, document))
}

/// What is found if `snapshots` take the place of `in_force`: only the scopes for which that makes a difference are
/// looked at, and those that are `held`, which somebody may consent to.
pub(super) async fn survey_from(
    session: &Session,
    reader: &Reader,
    snapshots: Vec<Snapshot>,
    in_force: &Desired,
    held: &BTreeSet<Scope>,
) -> Result<(Outlook, Survey), Failure> {
    let outlook = session.load(snapshots, reader).await?;
    let only = changed(in_force, &outlook.desired).map(|changed| &changed | held);
    let options = SurveyOptions { only, ..SurveyOptions::default() };
    let survey = session.surveyor.survey(reader, &outlook.desired, &options).await?;
    Ok((outlook, survey))
}

/// The document of [`survey_from`].
pub(super) async fn document_from(
    session: &Session,
    reader: &Reader,
    survey: Survey,
    outlook: &Outlook,
    in_force: &Desired,
    form: &Form,
) -> Result<Document, Failure> {
    let declared: BTreeSet<&Scope> = in_force.scopes.keys().chain(outlook.desired.scopes.keys()).collect();
    let untouched = declared.into_iter().filter(|scope| !survey.scopes.contains_key(*scope)).count();
    Ok(Document { untouched, ..consented(session, reader, survey, outlook, form).await? })
}

async fn consented(
    session: &Session,
    reader: &Reader,
    mut survey: Survey,
    outlook: &Outlook,
    form: &Form,
) -> Result<Document, Failure> {
    consent::lay_over(&session.config.sources, reader, outlook, &mut survey, session.clock.now()).await?;
    Ok(document(session, &survey, &outlook.desired, &outlook.problems(), form))
}

/// Reads the manifests and glances at the remotes side by side.
async fn look_and_load(
    session: &Session,
    snapshots: Vec<Snapshot>,
    store: &dyn Store,
    options: &SurveyOptions,
) -> Result<(Outlook, Glance), Failure> {
    let ahead = if options.selection.is_all() { Ahead::Moved } else { Ahead::Nothing };
    let glance = async { session.surveyor.glance(store, options, ahead).await.map_err(Failure::from) };
    tokio::try_join!(session.load(snapshots, store), glance)
}

fn snapshots_of(snapshots: &[Snapshot]) -> Vec<(Arc<str>, Arc<str>, Arc<str>)> {
    snapshots.iter().map(|s| (s.name.clone(), s.revision.clone(), s.label.clone())).collect()
}

/// The document of a survey.
pub fn document(
    session: &Session,
    survey: &Survey,
    desired: &Desired,
    problems: &[Problem],
    form: &Form,
) -> Document {
    let details = form.limit.map_or(Details::All, Details::First);
    let problems = if form.problems { problems } else { &[] };
    let options = Options { problems, show_foreign: form.show_foreign, details };
    let trailers = session.config.sources.iter().any(|source| source.approve.contains(&Approver::Trailer));
    Document { trailers, ..Document::of(survey, desired, &|entry| session.observer(entry), &options) }
}
