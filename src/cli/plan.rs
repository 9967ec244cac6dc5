//! `plan`: shows what would change. Holds observers only; writes nothing to a remote, nothing to the state.

use super::{
    Args, Exit, Out,
    args::{Format, PlanArgs, SelectionArgs},
};
use crate::{
    config::Environment,
    render::plan::{Details, Document, Options, TextOptions, markdown, text},
    session::{Ask, Failure, Outlook, Session, Snapshot},
};
use reconciled_engine::{
    Desired, Store,
    plan::Selection,
    survey::{Ahead, Glance, Survey, SurveyOptions},
};
use reconciled_provider::{Pattern, Problem};
use serde::{Deserialize, Serialize};
use std::{fs, path::Path, sync::Arc};

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    plan: &PlanArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let session = Session::open(args.config.as_deref(), environment).await?;
    tell_warnings(&session, out);
    let ask = ask(&plan.selection, plan.show_foreign)?;
    let reader = session.reader().await?;
    let snapshots = out.during("reading sources", &session, session.snapshots(&ask, &reader)).await?;
    let in_force: Vec<String> =
        snapshots.iter().map(|s| format!("source {} at {}", s.name, s.label)).collect();
    out.talk(&format!(
        "standalone · state {} · {}",
        session.config.state_dir.display(),
        in_force.join(" · ")
    ));
    if plan.out.is_none()
        && let Some(standing) = session.stands(&ask, &snapshots, &reader).await?
    {
        let status = reader.status().await?;
        let in_sync = status.scopes.iter().map(|s| s.tracked as usize).sum();
        let document = Document::standing(in_sync, standing.foreign, &snapshots_of(&snapshots));
        show(&document, plan, out);
        return Ok(Exit::Good);
    }
    let options = SurveyOptions { selection: ask.selection.clone(), refresh: ask.refresh, only: None };
    let (outlook, glance) = out
        .during("reading manifests", &session, look_and_load(&session, snapshots, &reader, &options))
        .await?;
    tell_problems(&outlook, out);
    let survey = out
        .during(
            "planning",
            &session,
            session.surveyor.survey_from(&reader, &outlook.desired, glance, &options),
        )
        .await?;
    let details = match plan.output {
        Format::Text if plan.limit > 0 && plan.out.is_none() => Details::First(plan.limit),
        _ => Details::All,
    };
    // As text, problems were told above, with their lines.
    let problems =
        if plan.output == Format::Text && plan.out.is_none() { &[] } else { &outlook.problems[..] };
    let document = document(&session, &survey, &outlook.desired, problems, plan.show_foreign, details);
    if let Some(path) = &plan.out {
        PlanFile { selection: Saved::of(&plan.selection), plan: document.clone() }.write(path)?;
        out.talk(&format!(
            "plan written to {}; to apply it: reconciled apply {}",
            path.display(),
            path.display()
        ));
    }
    show(&document, plan, out);
    Ok(exit(&document, &outlook, plan.detailed_exitcode))
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

fn show(document: &Document, plan: &PlanArgs, out: &mut Out) {
    match plan.output {
        Format::Json => out.data(&document.json()),
        Format::Markdown => out.data(&markdown(document)),
        Format::Text => {
            let options = TextOptions {
                colour: out.colour,
                show_foreign: plan.show_foreign,
                width: None,
                limit: plan.limit,
            };
            out.data(&text(document, &options));
        }
    }
}

/// The document of a survey.
pub(super) fn document(
    session: &Session,
    survey: &Survey,
    desired: &Desired,
    problems: &[Problem],
    show_foreign: bool,
    details: Details,
) -> Document {
    let options = Options { problems, show_foreign, details };
    Document::of(survey, desired, &|entry| session.observer(entry), &options)
}

fn exit(document: &Document, outlook: &Outlook, detailed: bool) -> Exit {
    let mut exit = Exit::Good;
    if detailed && document.has_changes() {
        exit = exit.worst(Exit::Changes);
    }
    if document.needs_person() {
        exit = exit.worst(Exit::Person);
    }
    if !document.failures.is_empty()
        || outlook.problems.iter().any(Problem::is_error)
        || outlook.snapshots.iter().any(|s| s.behind.is_some())
    {
        exit = exit.worst(Exit::Error);
    }
    exit
}

/// Warnings about the configuration.
pub(super) fn tell_warnings(session: &Session, out: &mut Out) {
    for warning in &session.warnings {
        out.talk(&format!("{warning}\n"));
    }
}

/// What is wrong with sources and manifests.
pub(super) fn tell_problems(outlook: &Outlook, out: &mut Out) {
    for snapshot in &outlook.snapshots {
        if let Some(error) = &snapshot.behind {
            out.talk(&format!(
                "error: source {}: {}",
                snapshot.name,
                Failure::Other(error.to_string(), None)
            ));
            out.talk(&format!("hint: {}; {} stays in force", error.hint(), snapshot.label));
        }
    }
    for problem in &outlook.problems {
        out.talk(&format!("{problem}\n"));
    }
    for source in &outlook.withheld {
        out.talk(&format!("error: source {source}: the revision has errors and `onInvalid: hold`; the last good one stays in force"));
    }
}

/// What the arguments mean.
pub(super) fn ask(selection: &SelectionArgs, refresh: bool) -> Result<Ask, Failure> {
    let parse = |text: &String| text.parse::<Pattern>().map_err(|error| Failure::plain(error.to_string()));
    let targets = selection.target.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let label = |text: &String| {
        let pairs = text.split(',').map(|pair| {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| Failure::hinted(format!("`{pair}` is no label"), "write -l KEY=VALUE"))?;
            Ok((Arc::from(key.trim()), Arc::from(value.trim())))
        });
        pairs.collect::<Result<Vec<_>, Failure>>()
    };
    let labels =
        selection.selector.iter().map(label).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    Ok(Ask {
        source: selection.source.clone(),
        dir: selection.dir.clone(),
        rev: selection.rev.clone(),
        selection: Selection { targets, labels, source: selection.source.as_deref().map(Arc::from) },
        refresh: refresh || selection.refresh,
        accept_rewind: None,
    })
}

/// A plan on disk: what was asked, and what it came to. Holds no secret: specs hold marks.
#[derive(Serialize, Deserialize)]
pub(super) struct PlanFile {
    pub(super) selection: Saved,
    pub(super) plan: Document,
}

/// The selection a plan was made with.
#[derive(Serialize, Deserialize)]
pub(super) struct Saved {
    source: Option<String>,
    dir: Option<std::path::PathBuf>,
    rev: Option<String>,
    target: Vec<String>,
    selector: Vec<String>,
}

impl Saved {
    fn of(selection: &SelectionArgs) -> Saved {
        Saved {
            source: selection.source.clone(),
            dir: selection.dir.as_ref().map(|d| fs::canonicalize(d).unwrap_or_else(|_| d.clone())),
            rev: selection.rev.clone(),
            target: selection.target.clone(),
            selector: selection.selector.clone(),
        }
    }
    /// The arguments that ask for the same.
    pub(super) fn arguments(&self) -> SelectionArgs {
        SelectionArgs {
            source: self.source.clone(),
            dir: self.dir.clone(),
            rev: self.rev.clone(),
            target: self.target.clone(),
            selector: self.selector.clone(),
            refresh: false,
        }
    }
}

impl PlanFile {
    fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_json::to_vec_pretty(self)
            .map_err(|e| Failure::plain(format!("the plan cannot be written as JSON: {e}")))?;
        fs::write(path, text).map_err(|e| Failure::plain(format!("write {}: {e}", path.display())))
    }
    /// Reads a plan file.
    pub(super) fn read(path: &Path) -> Result<PlanFile, Failure> {
        let text = fs::read(path).map_err(|e| Failure::plain(format!("read {}: {e}", path.display())))?;
        serde_json::from_slice(&text).map_err(|e| {
            Failure::hinted(
                format!("{} is no plan: {e}", path.display()),
                format!("write one: reconciled plan --out {}", path.display()),
            )
        })
    }
}
