//! `apply` where a daemon has the state: the plan is the daemon's, and so is the doing.

use super::{
    Exit, Out,
    args::{Format, SelectionArgs},
    confirm::Confirm,
    ended::Ended,
    follow::{follow, tell},
    plan_file::PlanFile,
};
use crate::{
    client::Client,
    clock::SystemClock,
    config::Period,
    daemon::Following,
    failure::Failure,
    operation::{
        ApproveAsk, Approved, Form, PlanAnswer, PlanAsk, Selected, SyncAsk,
        plan::{Action, Blocked, ConditionKind, Document, GuardDomain, ResourceChange, Source, State},
    },
};
use reconciled_provider::Clock;
use std::collections::{BTreeMap, BTreeSet};

/// Shows the daemon's plan, asks, and has it carried out.
pub(super) async fn apply(
    client: &Client,
    confirm: Confirm,
    selection: &SelectionArgs,
    planfile: Option<&PlanFile>,
    timeout: Period,
    out: &mut Out,
) -> Result<Exit, Failure> {
    if selection.dir.is_some() || selection.rev.is_some() {
        return Err(Failure::hinted(
            "the daemon applies what its sources hold, no folder and no other revision",
            "push it; or stop the daemon: systemctl stop reconciled",
        ));
    }
    let json = confirm.output == Format::Json;
    let form = Form {
        problems: planfile.is_some() || json,
        limit: planfile.is_none().then_some(200),
        whole: true,
        ..Form::default()
    };
    let selected = Selected { by_person: true, ..selection.selected() };
    let ask = PlanAsk { selected, upload: None, form };
    let PlanAnswer { document, messages, .. } = client.post("/v1/plan", &ask).await?;
    messages.iter().for_each(|message| out.talk(message));
    if !selection.is_whole() {
        nothing_else(client, selection, &document).await?;
    }
    if let Some(file) = planfile {
        file.still_holds(&document)?;
        for digest in document.domains.iter().flat_map(GuardDomain::wanted) {
            let ask = ApproveAsk { digest: digest.to_string(), reason: "plan file".into() };
            let _: Approved = client.post("/v1/approve", &ask).await?;
        }
    }
    if !confirm.consents(&document, SystemClock.now() + timeout.0, out) {
        return Ok(Exit::Error);
    }
    let ask = SyncAsk {
        source: selection.source.clone(),
        only_changes: true,
        scopes: scopes(&document),
        try_again: !selection.target.is_empty(),
        wait: Some(u64::try_from(timeout.0.as_millis()).unwrap_or(u64::MAX)),
        ..SyncAsk::default()
    };
    if !json {
        return follow(client, &ask, out, tell).await;
    }
    let mut ended = Ended::default();
    let exit = follow(client, &ask, out, |line, _| ended.hear(line)).await?;
    ended.tell(exit, out)?;
    Ok(exit)
}

/// Where the plan changes something, and where something keeps it from being in sync: how that ends is what is asked.
fn scopes(document: &Document) -> Vec<String> {
    let changes = document.resource_changes.iter().map(|change| &change.scope);
    let conditions = document.conditions.iter().map(|condition| &condition.scope);
    let failures = document.failures.iter().map(|failure| &failure.scope);
    let all: BTreeSet<String> = changes.chain(conditions).chain(failures).map(ToString::to_string).collect();
    all.into_iter().collect()
}

/// Refuses a part of a plan where a daemon would do more than that: it brings commits into force whole, and looks at whole scopes.
async fn nothing_else(client: &Client, selection: &SelectionArgs, part: &Document) -> Result<(), Failure> {
    let form = Form { limit: Some(0), whole: true, ..Form::default() };
    let selected = Selected { by_person: true, refresh: selection.refresh, ..Selected::default() };
    let ask = PlanAsk { selected, upload: None, form };
    let PlanAnswer { document, .. } = client.post("/v1/plan", &ask).await?;
    let in_force: BTreeMap<String, Following> = client.get("/v1/sources", &()).await?;
    let is_in_force = |source: &Source| {
        in_force.get(&*source.name).is_some_and(|following| *following.commit == *source.revision)
    };
    let is_new = !document.sources.iter().all(is_in_force);
    for mine in part.domains.iter().filter(|mine| mine.digest.is_some()) {
        let whole = document.domains.iter().find(|whole| whole.name == mine.name);
        let Some(whole) = whole.filter(|whole| whole.state == State::Held && whole.digest != mine.digest)
        else {
            continue;
        };
        // What the guard counts of a part waits with all that the guard holds.
        let digest = whole.digest.as_deref().unwrap_or_default();
        return Err(Failure::hinted(
            format!("the daemon holds all of {}, and a part of it is not carried out by itself", whole.name),
            format!(
                "to consent to all of it: reconciled approve {digest} --reason \"…\"; to keep some back: reconciled suspend ADDRESS --reason \"…\""
            ),
        ));
    }
    let looked_at = scopes(part);
    let meant: BTreeSet<_> = part.resource_changes.iter().map(step).collect();
    let others: Vec<&ResourceChange> = document
        .resource_changes
        .iter()
        .filter(|change| is_new || looked_at.iter().any(|scope| **scope == *change.scope))
        .filter(|change| is_due(change) && !meant.contains(&step(change)))
        .collect();
    let Some(first) = others.first() else { return Ok(()) };
    let what = match others.len() {
        1 => format!("another change, of {}", first.address),
        count => format!("{count} other changes, of {} and more", first.address),
    };
    Err(Failure::hinted(
        format!(
            "the daemon would make {what}: it brings commits into force whole, and looks at whole scopes"
        ),
        "all of it: reconciled plan, reconciled apply; to keep some back: reconciled suspend ADDRESS --reason \"…\"",
    ))
}

/// True for a change that is made as soon as it can be: nobody has to consent, to mend something, or to let it go on.
fn is_due(change: &ResourceChange) -> bool {
    let waits = |blocked: &Blocked| blocked.kind == ConditionKind::Waiting;
    change.state != State::Held && change.blocked.as_ref().is_none_or(waits)
}

/// What tells one change from another.
fn step(change: &ResourceChange) -> (&str, &str, &str, Vec<Action>) {
    (&change.address, &change.scope, &change.id, change.change.actions.clone())
}
