//! `plan`: shows what would change. Holds observers only; writes nothing to a remote, nothing to the state.

use super::{
    Args, Exit, Host, Out,
    args::{Format, PlanArgs, SelectionArgs},
    destination::{self, spares_own, takes_content},
    host,
};
use crate::{
    config::Environment,
    failure::Failure,
    operation::{self, Form, PlanAnswer, PlanAsk, Selected, plan::Document},
    render::plan::{Consent, TextOptions, markdown, text},
    session::{Ask, Folder, Outlook, Session},
};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    plan: &PlanArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let form = Form {
        show_foreign: plan.show_foreign,
        limit: (plan.output == Format::Text && plan.limit > 0 && plan.out.is_none()).then_some(plan.limit),
        // As text, problems are told with their lines.
        problems: plan.output != Format::Text || plan.out.is_some(),
        whole: plan.out.is_some(),
    };
    // A file is for whoever applies it.
    let meant = Selected { by_person: plan.out.is_some(), ..selected(&plan.selection) };
    if plan.out.as_deref() == Some(Path::new("-")) {
        return Err(Failure::hinted(
            "a plan file is not written to standard output, where the plan is shown",
            "name a file: --out FILE; for programs: reconciled plan -o json",
        ));
    }
    if let Some(file) = &plan.out {
        takes_content(file)?;
        spares_own(file, args, &environment)?;
    }
    let host = Host::look(args, &environment, out).await?;
    let is_daemon = matches!(host, Host::Daemon(_));
    let mut is_fleeting = false;
    let answer = match host {
        Host::Daemon(client) => {
            let upload = plan.selection.dir.as_deref().map(operation::upload).transpose()?;
            let ask = PlanAsk { selected: meant, upload, form };
            client.post("/v1/plan", &ask).await?
        }
        Host::Alone(_) => {
            let session = Session::open(args.config.as_deref(), environment).await?;
            tell_warnings(&session, out);
            let reader = session.reader().await?;
            let ask = meant.ask(plan.selection.dir.clone().map(Folder::At))?;
            let planning = operation::plan(&session, &reader, &ask, &form, None);
            let answer = out.during("planning", &session, planning).await?;
            out.talk(&host::alone(&session.config, &answer.sources));
            is_fleeting = session.has_fleeting_digests();
            answer
        }
    };
    let PlanAnswer { document, messages, has_errors, .. } = answer;
    messages.iter().for_each(|message| out.talk(message));
    if let Some(path) = &plan.out {
        PlanFile { selection: Saved::of(&plan.selection), plan: document.clone() }.write(path)?;
        let path = path.display();
        out.talk(&format!("plan written to {path}; {}", to_apply(plan, is_daemon, &path.to_string())));
    }
    let is_wanted = document.domains.iter().any(|domain| domain.wanted().next().is_some());
    if is_fleeting && (is_wanted || plan.out.is_some()) {
        out.talk("warning: there is no state yet, and secrets are marked with its key: with it the digests of this plan are others, so it can be neither approved nor applied as a file");
        out.talk("hint: make the state, and plan again: reconciled state init");
    }
    // A daemon follows whole plans of what its sources hold.
    let is_part = is_daemon && plan.selection.dir.is_none() && !plan.selection.is_whole();
    let consent = match is_part {
        true => Consent::InPart,
        false if is_fleeting => Consent::Fleeting,
        false => Consent::ByDigest,
    };
    show(&document, plan, consent, out);
    Ok(exit(&document, has_errors, plan.detailed_exitcode))
}

/// How the plan that was written to `path` is carried out.
fn to_apply(plan: &PlanArgs, is_daemon: bool, path: &str) -> String {
    match is_daemon && (plan.selection.dir.is_some() || plan.selection.rev.is_some()) {
        true => "the daemon applies what its sources hold, so push what it was made of".into(),
        false => format!("to apply it: reconciled apply {path}"),
    }
}

fn show(document: &Document, plan: &PlanArgs, consent: Consent, out: &mut Out) {
    match plan.output {
        Format::Json => out.data(&document.json()),
        Format::Markdown => out.data(&markdown(document)),
        Format::Text => {
            let options = TextOptions {
                colour: out.colour,
                show_foreign: plan.show_foreign,
                limit: plan.limit,
                consent,
                ..TextOptions::default()
            };
            out.data(&text(document, &options));
        }
    }
}

fn exit(document: &Document, has_errors: bool, detailed: bool) -> Exit {
    let mut exit = Exit::Good;
    if detailed && document.is_pending() {
        exit = exit.worst(Exit::Changes);
        if document.is_stopped() {
            exit = exit.worst(Exit::Person);
        }
    }
    if document.needs_person() {
        exit = exit.worst(Exit::Person);
    }
    if !document.failures.is_empty() || has_errors {
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
    outlook.messages().iter().for_each(|message| out.talk(message));
}

/// What the arguments mean.
pub(super) fn ask(selection: &SelectionArgs) -> Result<Ask, Failure> {
    selected(selection).ask(selection.dir.clone().map(Folder::At))
}

pub(super) fn selected(selection: &SelectionArgs) -> Selected {
    Selected {
        source: selection.source.clone(),
        rev: selection.rev.clone(),
        target: selection.target.clone(),
        selector: selection.selector.clone(),
        refresh: selection.refresh,
        by_person: false,
    }
}

/// What can be applied as a file.
const WRITTEN: &str =
    "name a file that `reconciled plan --out FILE` wrote; without one, the newest manifests are planned";

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
    dir: Option<PathBuf>,
    rev: Option<String>,
    target: Vec<String>,
    selector: Vec<String>,
}

impl Saved {
    fn of(selection: &SelectionArgs) -> Saved {
        Saved {
            source: selection.source.clone(),
            dir: selection.dir.as_ref().map(|dir| absolute(dir)),
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
        destination::write(path, &text).map_err(|e| {
            let hint = match e.kind() {
                ErrorKind::NotFound => "make its folder first, or name another file",
                ErrorKind::IsADirectory => "name a file in it",
                _ => "name a file that can be written: --out FILE",
            };
            Failure::hinted(format!("write the plan file {}: {e}", path.display()), hint)
        })
    }
    /// Reads a plan file.
    pub(super) fn read(path: &Path) -> Result<PlanFile, Failure> {
        let shown = path.display();
        // Only what is not there yet may be named as a place to write to.
        let hint = |error: &std::io::Error| match error.kind() {
            ErrorKind::NotFound => format!("write one: reconciled plan --out {shown}"),
            ErrorKind::IsADirectory => {
                format!("to apply manifests in a folder: reconciled apply --dir {shown}")
            }
            _ => WRITTEN.to_owned(),
        };
        let text = fs::read(path)
            .map_err(|e| Failure::hinted(format!("read the plan file {shown}: {e}"), hint(&e)))?;
        serde_json::from_slice(&text)
            .map_err(|e| Failure::hinted(format!("{shown} is no plan: {e}"), WRITTEN))
    }
}

/// The folder wherever the plan is applied from; `-` is standard input, whatever is called so here.
fn absolute(dir: &Path) -> PathBuf {
    match dir == Path::new("-") {
        true => dir.to_owned(),
        false => fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned()),
    }
}
