//! `plan`: shows what would change. Holds observers only; writes nothing to a remote, nothing to the state.

use super::{
    Args, Exit, Out,
    args::{Format, SelectionArgs},
    destination::{spares_own, takes_content},
    host::{self, Host, tell_warnings},
    plan_file::PlanFile,
};
use crate::{
    config::Environment,
    failure::Failure,
    operation::{self, Form, PlanAnswer, PlanAsk, Selected, plan::Document},
    render::plan::{Consent, TextOptions, markdown, text},
    session::{Folder, Session},
};
use clap::Args as ClapArgs;
use std::path::{Path, PathBuf};

/// Arguments of `plan`.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct PlanArgs {
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Form of output
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
    /// Write the plan to this file, for `apply FILE`
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// List what nobody declared
    #[arg(long)]
    pub show_foreign: bool,
    /// Exit 2 when changes are pending
    #[arg(long)]
    pub detailed_exitcode: bool,
    /// Show at most this many changes of a scope as text; 0 shows all
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    pub limit: usize,
}

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
    let meant = Selected { by_person: plan.out.is_some(), ..plan.selection.selected() };
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
        PlanFile::of(&plan.selection, document.clone()).write(path)?;
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
