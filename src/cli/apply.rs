//! `apply`: shows the plan, asks, and carries it out; where the world moved meanwhile, what is planned anew then.

use super::{
    Args, Exit, Out,
    args::{Format, SelectionArgs, timeout},
    confirm::Confirm,
    ended::Ended,
    host::{self, Host, tell_warnings},
    interrupt,
    person::actor,
    plan_file::PlanFile,
    through,
};
use crate::{
    config::{Environment, Period},
    consent,
    failure::Failure,
    operation::{
        Form, document, look_and_load,
        plan::{Details, Document, State},
        unmatched,
    },
    render::plan::TextOptions,
    session::{Outlook, Session, Writing},
    store::{DegradedEntry, Parts},
    text::short_digest,
};
use clap::Args as ClapArgs;
use reconciled_engine::{
    BY_PERSON, HealthState, Store, WINDOW_CLOSED, Write,
    pass::{Converge, Outcomes, Patience, ScopeReport, ScopeState},
    store::{Approval, ConditionKind},
    survey::{ByPerson, Domain, Heard, Survey, SurveyOptions, Wanted},
};
use std::{future::ready, mem, path::PathBuf, time::Duration};

/// How long is waited where it ends with an error anyway.
const SOON: Duration = Duration::from_secs(30);

/// Resources that do not do their work and are named at the end.
const NAMED: usize = 10;

/// Arguments of `apply`.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct ApplyArgs {
    /// A plan written by `plan --out`: applied if planning again comes to the same, and approved by that
    #[arg(value_name = "PLANFILE", conflicts_with_all = ["source", "dir", "rev", "target", "selector"])]
    pub planfile: Option<PathBuf>,
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Do not ask; what is held stays held
    #[arg(short, long)]
    pub yes: bool,
    /// Form of output
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
    /// How long to wait for what is on its way
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub timeout: String,
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    apply: &ApplyArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let timeout = timeout(&apply.timeout)?;
    if !apply.yes && !out.interactive && apply.planfile.is_none() {
        return Err(Failure::hinted(
            "there is nobody to ask: no terminal",
            "to apply without asking: reconciled apply --yes",
        ));
    }
    let planfile = apply.planfile.as_deref().map(PlanFile::read).transpose()?;
    let selection = planfile.as_ref().map_or_else(|| apply.selection.clone(), PlanFile::arguments);
    let confirm = Confirm { output: apply.output, asks: !apply.yes && planfile.is_none() };
    if let Host::Daemon(client) = Host::look(args, &environment, out).await? {
        return through::apply(&client, confirm, &selection, planfile.as_ref(), timeout, out).await;
    }
    let actor = actor(&environment);
    let session = Session::open_to_write(args.config.as_deref(), environment).await?;
    tell_warnings(&session, out);
    let ask = selection.ask()?;
    let writing = session.writer().await?;
    let options = SurveyOptions {
        selection: ask.selection.clone(),
        refresh: ask.refresh,
        health: true,
        by_person: ByPerson::Everything,
        ..SurveyOptions::default()
    };
    let looking = async {
        let snapshots = session.snapshots(&ask, &*writing.db).await?;
        look_and_load(&session, (snapshots, ready(Heard::new())), &*writing.db, &options).await
    };
    let (mut outlook, glance) = out.during("reading sources", &session, looking).await?;
    let sources = outlook.snapshots.iter().map(|one| (one.name.to_string(), one.label.to_string()));
    out.talk(&host::alone(&session.config, &sources.collect::<Vec<_>>()));
    outlook.messages().iter().for_each(|message| out.talk(message));
    let planning = session.surveyor.survey_from(&*writing.db, &outlook.desired, glance, &options);
    let mut survey = out.during("planning", &session, planning).await?;
    // As text, problems were told above, with their lines.
    let limit = planfile.is_none().then_some(TextOptions::default().limit);
    let form = Form { problems: apply.output == Format::Json, limit, ..Form::default() };
    // What is selected is looked for among all changes.
    let is_alone = apply.output == Format::Text && ask.selection.is_all();
    let details = limit.filter(|_| is_alone).map_or_else(|| form.details(), Details::Alone);
    let (sources, reader) = (&session.config.sources, writing.db.reader());
    consent::lay_over(sources, reader, &outlook, &mut survey, session.clock.now()).await?;
    let mut plan = document(&session, &survey, &outlook, &form, details);
    if let Some(file) = &planfile {
        file.still_holds(&plan)?;
        approve(&session, &writing, &mut survey, &actor).await?;
        plan = document(&session, &survey, &outlook, &form, details);
    }
    let nothing = unmatched(&session, reader, &outlook.desired, Some(&plan), &ask.selection).await?;
    nothing.iter().for_each(|one| out.talk(&one.warning()));
    // Where something could not even be read there is an error to report, and what was written is to be seen.
    let timeout = if plan.failures.is_empty() { timeout } else { Period(timeout.0.min(SOON)) };
    if !confirm.consents(&plan, session.clock.now() + timeout.0, out) {
        writing.db.close().await;
        return Ok(Exit::Error);
    }
    // What was shown is not needed while it is carried out.
    plan.resource_changes = Vec::new();
    let told = outlook.messages();
    let began = session.clock.now();
    let work = carry_out(&session, &writing, &mut outlook, survey, &options, timeout);
    let work = interrupt::heard(&session, out, work);
    let result = out.during("applying", &session, work).await;
    let unwell = unwell(&writing, began).await;
    writing.db.close().await;
    let exit = report(&plan, (&outlook, &told), &result?, &unwell?, apply.output, out)?;
    // The process ends now, and all of its memory with it. To give back what is large piece by piece takes as long as to
    // plan it; the rest comes to its end as ever: it may be a process of its own.
    mem::forget((outlook.desired, session.parsed(), writing.db.clone()));
    Ok(exit)
}

/// What was written since `began` and does not do its work, or not yet, by the word of its remote: `Degraded` first.
async fn unwell(writing: &Writing, began: Duration) -> Result<Vec<(HealthState, DegradedEntry)>, Failure> {
    let reader = writing.db.reader();
    let of = |state| move |one| (state, one);
    let degraded = reader.degraded().await?.into_iter().map(of(HealthState::Degraded));
    let progressing = reader.progressing().await?.into_iter().map(of(HealthState::Progressing));
    let unwell: Vec<(HealthState, DegradedEntry)> = degraded.chain(progressing).collect();
    if unwell.is_empty() {
        return Ok(unwell);
    }
    let parts = reader.parts(Parts::Ailing).await?;
    let is_ours = |(_, one): &(HealthState, DegradedEntry)| {
        let part = parts.get(&(one.scope.clone(), one.id.clone()));
        part.and_then(|part| part.written_at).is_some_and(|at| at.0 >= began)
    };
    Ok(unwell.into_iter().filter(is_ours).collect())
}

async fn carry_out(
    session: &Session,
    writing: &Writing,
    outlook: &mut Outlook,
    survey: Survey,
    options: &SurveyOptions,
    timeout: Period,
) -> Result<Converge, Failure> {
    writing.bring_into_force(&outlook.snapshots(), &outlook.desired, false, &|_, _| Vec::new()).await?;
    writing.end_pins(&outlook.pins).await?;
    writing.note_problems(outlook).await?;
    let unread = survey.scopes.iter().filter(|(_, view)| view.is_err()).map(|(scope, _)| scope.clone());
    let patience = Patience { until: session.clock.now() + timeout.0, given_up: unread.collect() };
    let mut converge = writing.engine.converge_from(&outlook.desired, survey, options, &patience).await?;
    let stop = &session.surveyor.cx.stop;
    // What was made puts out values that others wait for.
    while !converge.timed_out && !stop.is_set() && session.renew(outlook, &*writing.db).await? {
        let next = writing.engine.converge(&outlook.desired, options, &patience).await?;
        converge = converge.then(next);
    }
    // Values that came about may have mended or shown what is wrong.
    writing.note_problems(outlook).await?;
    if stop.is_set() {
        // Not all that was written was looked at again, whatever the last round saw.
        return Ok(Converge { timed_out: true, ..converge });
    }
    let whole = options.selection.is_all()
        && !outlook.is_invalid()
        && outlook.withheld.is_empty()
        && outlook.is_newest()
        && outlook.desired.sources.values().all(|source| source.prunes && source.awaits.is_none());
    let path_changed = outlook.desired.sources.values().any(|s| s.path_changed);
    if whole && path_changed && converge.round.held.is_empty() && !converge.timed_out {
        writing.bring_into_force(&outlook.snapshots(), &outlook.desired, true, &|_, _| Vec::new()).await?;
    }
    let configured = outlook.snapshots.len() == session.config.sources.len();
    if whole && configured {
        writing.lift_bars(&outlook.desired).await?;
    }
    if whole && configured && converge.round.is_in_sync() {
        writing.end_recovery().await?;
    }
    let is_pinned = !outlook.pins.is_empty();
    if whole && configured && !is_pinned && converge.round.is_in_sync() {
        let is_versioned = all_versioned(writing, &converge).await?;
        for converged in session.converged(&outlook.snapshots(), is_versioned) {
            writing.engine.converged(converged).await?;
        }
    }
    Ok(converge)
}

/// True when every scope was seen whole at a version that is remembered.
async fn all_versioned(writing: &Writing, converge: &Converge) -> Result<bool, Failure> {
    let versions = writing.db.versions().await?;
    Ok(converge.round.scopes.keys().all(|scope| versions.contains_key(scope)))
}

/// Applying a plan file is consent to what it shows.
async fn approve(
    session: &Session,
    writing: &Writing,
    survey: &mut Survey,
    actor: &str,
) -> Result<(), Failure> {
    let at = session.clock.now();
    let mut writes = Vec::new();
    let wanted = survey.domains.values_mut().flat_map(Domain::wanted);
    for Wanted { hold, approval } in wanted.filter(|wanted| wanted.approval.is_none()) {
        let digest = hold.digest;
        let given = Approval { digest, reason: "plan file".into(), actor: actor.into(), at, used_at: None };
        writes.push(Write::Approve(given.clone()));
        *approval = Some(given);
    }
    if !writes.is_empty() {
        writing.db.commit(writes).await?;
    }
    Ok(())
}

fn report(
    plan: &Document,
    (outlook, told): (&Outlook, &[String]),
    converge: &Converge,
    unwell: &[(HealthState, DegradedEntry)],
    format: Format,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let exit = exit_of(plan, outlook, converge, unwell);
    let lines = lines(plan, (outlook, told), converge, unwell, format);
    match format {
        Format::Json => Ended::of(converge, lines).tell(exit, out)?,
        _ => {
            lines.iter().for_each(|line| out.talk(line));
            out.say(&summary(&converge.outcomes));
        }
    }
    Ok(exit)
}

/// What it came to, for whoever called.
fn exit_of(
    plan: &Document,
    outlook: &Outlook,
    converge: &Converge,
    unwell: &[(HealthState, DegradedEntry)],
) -> Exit {
    let mut exit = Exit::Good;
    for report in converge.round.scopes.values() {
        for condition in &report.conditions {
            // What a person stopped, a person lets go on; for a window one waits, or changes the configuration.
            let is_stopped = matches!(&*condition.reason, BY_PERSON | WINDOW_CLOSED);
            if condition.kind == ConditionKind::Stalled || is_stopped {
                exit = exit.worst(Exit::Person);
            } else if condition.kind == ConditionKind::Waiting {
                exit = exit.worst(Exit::Late);
            }
        }
        if is_due(report) {
            // What failed is not tried again once this process has ended; what is on its way goes on at the remote.
            exit = exit.worst(if report.error.is_some() { Exit::Error } else { Exit::Late });
        }
    }
    if !converge.round.held.is_empty() {
        exit = exit.worst(Exit::Person);
    }
    for (state, _) in unwell {
        let is_degraded = *state == HealthState::Degraded;
        exit = exit.worst(if is_degraded { Exit::Person } else { Exit::Late });
    }
    if converge.timed_out {
        exit = exit.worst(Exit::Late);
    }
    let failed = converge.outcomes.count("failed") + converge.outcomes.count("partial");
    // What failed and was made good since is as declared, as what only had to wait.
    if failed > 0 && exit == Exit::Good && !converge.round.is_in_sync() {
        exit = Exit::Error;
    }
    if outlook.has_errors() || !plan.failures.is_empty() {
        exit = exit.worst(Exit::Error);
    }
    exit
}

/// True where more is to be done in a scope, now or later.
fn is_due(report: &ScopeReport) -> bool {
    matches!(report.state, ScopeState::DueAt(_) | ScopeState::DueNow)
}

/// What there is to say at the end. As text, neither what the plan said is said again nor what was `told` of the sources.
fn lines(
    plan: &Document,
    (outlook, told): (&Outlook, &[String]),
    converge: &Converge,
    unwell: &[(HealthState, DegradedEntry)],
    format: Format,
) -> Vec<String> {
    // As text, what came to light with the values that others waited for.
    let is_said = |message: &String| format == Format::Json || !told.contains(message);
    let messages = outlook.messages().into_iter().filter(is_said);
    let mut lines: Vec<String> = messages.map(|message| message.trim_end().to_string()).collect();
    let mut is_given_up = false;
    for (scope, report) in &converge.round.scopes {
        for condition in &report.conditions {
            let told = plan
                .conditions
                .iter()
                .any(|c| c.message == condition.message && *c.scope == *scope.to_string());
            // Of all that a scope has, where it is said of the one resource that it has already.
            let is_said = condition.address.is_none()
                && report.conditions.iter().any(|c| c.address.is_some() && c.message == condition.message);
            if (told || is_said) && format == Format::Text {
                continue;
            }
            let place = condition.address.as_ref().map_or_else(|| scope.to_string(), ToString::to_string);
            lines.push(format!("{place}: {}", condition.message));
            lines.extend(condition.hint.iter().map(|hint| format!("hint: {hint}")));
        }
        let Some(error) = report.error.as_ref().filter(|_| is_due(report)) else { continue };
        is_given_up = true;
        if !report.conditions.iter().any(|c| *c.message == *error.chain()) {
            lines.push(format!("{scope}: {}", error.chain()));
            lines.extend(error.hint.iter().map(|hint| format!("hint: {hint}")));
        }
    }
    for domain in &converge.round.held {
        let told = plan.domains.iter().any(|d| d.name == domain.name && d.state == State::Held);
        if told && format == Format::Text {
            lines.push(format!("held: {}; what waits for consent was not changed", domain.name));
            continue;
        }
        lines.push(format!("held: {}: {}", domain.name, domain.verdict.reasons.join("; ")));
        let digest = domain.verdict.digest.map(|digest| digest.to_string()).unwrap_or_default();
        let short = short_digest(&digest);
        lines.push(format!("hint: to consent: reconciled approve {short} --reason \"…\""));
    }
    for (state, one) in unwell.iter().take(NAMED) {
        lines.push(format!("{} is {}: {}", one.address, state.word(), one.message));
    }
    if unwell.len() > NAMED {
        lines.push(format!("and {} more: reconciled status", unwell.len() - NAMED));
    }
    if is_given_up {
        lines
            .push("hint: what failed is not tried again by itself without a daemon: reconciled apply".into());
    }
    lines
}

/// How much was done, in one line.
fn summary(outcomes: &Outcomes) -> String {
    let sum = |change: &str, ends: &[&str]| -> usize {
        let all = outcomes.all.iter();
        all.filter(|((_, c, o), _)| *c == change && ends.contains(o)).map(|(_, n)| n).sum()
    };
    // A call that got no answer counts once a later look shows that it took effect.
    let found = |change: &str| sum(change, &["unknown"]).min(sum(change, &["observed"]));
    let ends = ["done", "gone", "pending"];
    // What others need for a time was in no plan, such as the record that proves a name.
    let for_others = |change: &str| outcomes.claims(change, &ends);
    let counts = |change: &str| {
        let without = for_others(change) + outcomes.broken_off(change);
        (sum(change, &ends) + found(change)).saturating_sub(without)
    };
    // The new one could not be made: a later step, which is counted as well, makes it.
    let only_gone = sum("replace", &["gone"]);
    let mut summary = format!(
        "Applied: {} created, {} updated, {} replaced, {} deleted, {} adopted",
        counts("create"),
        counts("update") + outcomes.resumed(),
        counts("replace").saturating_sub(only_gone),
        counts("delete") + only_gone,
        counts("adopt"),
    );
    if counts("abandon") > 0 {
        summary += &format!(", {} abandoned", counts("abandon"));
    }
    let in_part = outcomes.count("partial");
    if in_part > 0 {
        summary += &format!(", {in_part} done in part");
    }
    let claims: usize = ["create", "update", "replace", "delete"].into_iter().map(for_others).sum();
    if claims > 0 {
        summary += &format!("; {claims} claimed or given back on the way");
    }
    summary
}
