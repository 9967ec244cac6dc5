//! `apply`: shows the plan, asks, and carries out exactly what was shown.

use super::{
    Args, Exit, Out,
    args::{ApplyArgs, Format},
    plan::{PlanFile, ask, document, tell_problems, tell_warnings},
};
use crate::{
    config::{Environment, Period},
    render::plan::{Details, Document, TextOptions, text},
    session::{Failure, Outlook, Session, Writing},
};
use reconciled_engine::{
    Store, Write,
    pass::{Converge, ScopeState},
    store::{Approval, ConditionKind},
    survey::{Survey, SurveyOptions},
};
use reconciled_provider::Problem;
use std::collections::BTreeSet;

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    apply: &ApplyArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let timeout: Period = apply
        .timeout
        .parse()
        .map_err(|_| Failure::hinted(format!("`{}` is no duration", apply.timeout), "write 30s, 5m or 1h"))?;
    if !apply.yes && !out.interactive && apply.planfile.is_none() {
        return Err(Failure::hinted(
            "there is nobody to ask: no terminal",
            "to apply without asking: reconciled apply --yes",
        ));
    }
    let actor = actor(&environment);
    let session = Session::open_to_write(args.config.as_deref(), environment).await?;
    tell_warnings(&session, out);
    let planfile = apply.planfile.as_deref().map(PlanFile::read).transpose()?;
    let selection =
        planfile.as_ref().map_or_else(|| apply.selection.clone(), |file| file.selection.arguments());
    let ask = ask(&selection, false)?;
    let writing = session.writer().await?;
    let outlook = session.outlook(&ask, &*writing.db).await?;
    tell_problems(&outlook, out);
    let options = SurveyOptions { selection: ask.selection.clone(), refresh: ask.refresh, only: None };
    let survey = session.surveyor.survey(&*writing.db, &outlook.desired, &options).await?;
    let plan = document(&session, &survey, &outlook.desired, &outlook.problems, false, Details::First(200));
    let survey = match &planfile {
        Some(file) => {
            same(&file.plan, &plan)?;
            approve(&session, &writing, &survey, &actor).await?;
            session.surveyor.survey(&*writing.db, &outlook.desired, &options).await?
        }
        None => survey,
    };
    if apply.output == Format::Text {
        out.data(&text(
            &plan,
            &TextOptions { colour: out.colour, show_foreign: false, width: None, limit: 200 },
        ));
    }
    if plan.has_changes() && !apply.yes && planfile.is_none() && !out.ask("Apply these changes?") {
        out.talk("nothing was changed");
        writing.db.close().await;
        return Ok(Exit::Error);
    }
    let result = carry_out(&session, &writing, &outlook, survey, &options, timeout).await;
    writing.db.close().await;
    let converge = result?;
    report(&session, &plan, &outlook, &converge, apply.output, out)
}

async fn carry_out(
    session: &Session,
    writing: &Writing,
    outlook: &Outlook,
    survey: Survey,
    options: &SurveyOptions,
    timeout: Period,
) -> Result<Converge, Failure> {
    writing.bring_into_force(&outlook.snapshots, &outlook.desired).await?;
    let until = session.clock.now() + timeout.0;
    let converge = writing.engine.converge_from(&outlook.desired, survey, options, until).await?;
    let whole = options.selection.is_all()
        && !outlook.problems.iter().any(Problem::is_error)
        && outlook.withheld.is_empty()
        && outlook.desired.sources.values().all(|source| source.prunes);
    let configured = outlook.snapshots.len() == session.config.sources.len();
    if whole && configured {
        writing.lift_bars(&outlook.desired).await?;
    }
    if whole && configured && converge.round.is_in_sync() {
        writing.end_recovery().await?;
    }
    if whole && configured && converge.round.is_in_sync() && all_versioned(writing, &converge).await? {
        for converged in session.converged(&outlook.snapshots) {
            writing.engine.converged(converged).await?;
        }
    }
    Ok(converge)
}

/// True when every scope was seen whole at a version that is remembered.
async fn all_versioned(writing: &Writing, converge: &Converge) -> Result<bool, Failure> {
    let versions: BTreeSet<_> = writing.db.versions().await?.into_iter().map(|(scope, _)| scope).collect();
    Ok(converge.round.scopes.keys().all(|scope| versions.contains(scope)))
}

/// A plan file is carried out only if planning again comes to the same.
fn same(before: &Document, now: &Document) -> Result<(), Failure> {
    let key = |d: &Document| -> BTreeSet<_> {
        d.domains.iter().filter_map(|g| Some((g.name.clone(), g.digest.clone()?))).collect()
    };
    let (old, new) = (key(before), key(now));
    if old == new {
        return Ok(());
    }
    let moved: Vec<_> = old
        .symmetric_difference(&new)
        .map(|(name, _)| name.to_string())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    Err(Failure::hinted(
        format!("the plan no longer holds: {} changed since it was made", moved.join(", ")),
        "look again: reconciled plan --out FILE",
    ))
}

/// Applying a plan file is consent to what it shows.
async fn approve(session: &Session, writing: &Writing, survey: &Survey, actor: &str) -> Result<(), Failure> {
    let at = session.clock.now();
    let held = survey.domains.values().filter(|d| d.is_held()).filter_map(|d| d.verdict.digest);
    let consent = |digest| {
        Write::Approve(Approval {
            digest,
            reason: "plan file".into(),
            actor: actor.into(),
            at,
            used_at: None,
        })
    };
    let writes: Vec<Write> = held.map(consent).collect();
    if !writes.is_empty() {
        writing.db.commit(writes).await?;
    }
    Ok(())
}

/// Who runs this, for the audit trail.
pub(super) fn actor(environment: &Environment) -> String {
    let name = environment
        .var("SUDO_USER")
        .or_else(|| environment.var("USER"))
        .or_else(|| environment.var("LOGNAME"));
    name.map_or_else(|| format!("uid {}", environment.uid), str::to_string)
}

fn report(
    session: &Session,
    plan: &Document,
    outlook: &Outlook,
    converge: &Converge,
    format: Format,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let _ = session;
    let mut exit = Exit::Good;
    let mut lines = Vec::new();
    for (scope, report) in &converge.round.scopes {
        for condition in &report.conditions {
            let place = condition.address.as_ref().map_or_else(|| scope.to_string(), ToString::to_string);
            lines.push(format!("{place}: {}", condition.message));
            lines.extend(condition.hint.iter().map(|hint| format!("hint: {hint}")));
            if condition.kind == ConditionKind::Stalled {
                exit = exit.worst(Exit::Person);
            }
        }
        if matches!(report.state, ScopeState::DueAt(_) | ScopeState::DueNow) {
            exit = exit.worst(Exit::Late);
        }
    }
    for domain in &converge.round.held {
        exit = exit.worst(Exit::Person);
        let digest = domain.verdict.digest.map(|d| d.to_string()).unwrap_or_default();
        lines.push(format!("held: {}: {}", domain.name, domain.verdict.reasons.join("; ")));
        lines.push(format!(
            "hint: to consent: reconciled approve {} --reason \"…\"",
            &digest[..8.min(digest.len())]
        ));
    }
    if converge.timed_out {
        exit = exit.worst(Exit::Late);
    }
    if converge.outcomes.count("failed") > 0 && exit == Exit::Good {
        exit = Exit::Error;
    }
    if outlook.problems.iter().any(Problem::is_error)
        || outlook.snapshots.iter().any(|s| s.behind.is_some())
        || !plan.failures.is_empty()
    {
        exit = exit.worst(Exit::Error);
    }
    let counts = |change: &str| -> usize {
        converge
            .outcomes
            .0
            .iter()
            .filter(|((_, c, o), _)| *c == change && matches!(*o, "done" | "gone" | "pending"))
            .map(|(_, n)| n)
            .sum()
    };
    let summary = format!(
        "Applied: {} created, {} updated, {} replaced, {} deleted, {} adopted",
        counts("create"),
        counts("update"),
        counts("replace"),
        counts("delete"),
        counts("adopt"),
    );
    match format {
        Format::Json => {
            let outcomes: Vec<_> = converge.outcomes.0.iter().map(|((scope, change, outcome), count)| {
                serde_json::json!({"scope": scope.to_string(), "change": change, "outcome": outcome, "count": count})
            }).collect();
            let value = serde_json::json!({"formatVersion": "1.0", "exit": exit.code(), "outcomes": outcomes, "messages": lines, "timedOut": converge.timed_out});
            out.data(&value.to_string());
        }
        _ => {
            lines.iter().for_each(|line| out.talk(line));
            out.data(&summary);
        }
    }
    Ok(exit)
}
