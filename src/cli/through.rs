//! `apply` where a daemon has the state: the plan is the daemon's, and so is the doing.

use super::{
    Exit, Out,
    apply::same,
    args::{ApplyArgs, Format, SelectionArgs},
    follow::follow,
    plan::{PlanFile, selected},
};
use crate::{
    client::Client,
    config::Period,
    operation::{ApproveAsk, Approved, Form, PlanAnswer, PlanAsk, Selected, SyncAsk},
    render::plan::{Document, State, TextOptions, text},
    session::Failure,
};
use std::collections::BTreeSet;

/// Shows the daemon's plan, asks, and has it carried out.
pub(super) async fn apply(
    client: &Client,
    apply: &ApplyArgs,
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
    let json = apply.output == Format::Json;
    let form = Form {
        problems: planfile.is_some() || json,
        limit: planfile.is_none().then_some(200),
        whole: true,
        ..Form::default()
    };
    let selected = Selected { by_person: true, ..selected(selection) };
    let ask = PlanAsk { selected, upload: None, form };
    let PlanAnswer { document, messages, .. } = client.post("/v1/plan", &ask).await?;
    messages.iter().for_each(|message| out.talk(message));
    if let Some(file) = planfile {
        same(&file.plan, &document)?;
        for domain in document.domains.iter().filter(|domain| domain.state == State::Held) {
            let Some(digest) = &domain.digest else { continue };
            let ask = ApproveAsk { digest: digest.to_string(), reason: "plan file".into() };
            let _: Approved = client.post("/v1/approve", &ask).await?;
        }
    }
    if !json {
        let options = TextOptions { colour: out.colour, ..TextOptions::default() };
        out.data(&text(&document, &options));
    }
    if document.has_changes() && !apply.yes && planfile.is_none() && !out.ask("Apply these changes?") {
        out.talk("nothing was changed");
        return Ok(Exit::Error);
    }
    let ask = SyncAsk {
        source: selection.source.clone(),
        only_changes: true,
        scopes: scopes(&document),
        wait: Some(u64::try_from(timeout.0.as_millis()).unwrap_or(u64::MAX)),
        ..SyncAsk::default()
    };
    follow(client, &ask, json, out).await
}

/// Where the plan changes something.
fn scopes(document: &Document) -> Vec<String> {
    let all: BTreeSet<String> = document.resource_changes.iter().map(|c| c.scope.to_string()).collect();
    all.into_iter().collect()
}
