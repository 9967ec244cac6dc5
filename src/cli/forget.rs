//! `forget`: lets go of what is tracked, which stays as it is. Needs the state alone, no source and no remote.
//!
//! A forgotten identity is barred: while a manifest still declares it, it is not adopted again by itself.

use super::{
    Args, Exit, Out,
    apply::actor,
    backup::consent,
    list::{self},
};
use crate::{
    config::Environment,
    render,
    session::{Failure, HostState},
    store::{Db, StoreError, TrackedEntry},
};
use clap::Args as ClapArgs;
use reconciled_engine::{
    Store, Write,
    store::{Consent, Event},
};
use reconciled_provider::{ManifestKey, ResourceId, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Arguments of `forget`.
#[derive(Clone, Debug, ClapArgs)]
pub struct ForgetArgs {
    /// What to let go of; `*` and `?` are wild
    #[arg(value_name = "ADDRESS", required_unless_present = "source", conflicts_with = "source")]
    pub address: Option<String>,
    /// Everything this source declared
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    forget: &ForgetArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let actor = actor(&environment);
    let pattern = forget.address.as_deref().map(list::pattern).transpose()?;
    let state = HostState::open(args.config.as_deref(), &environment)?;
    let dir = &state.config.state_dir;
    let reader = state.reader().await?.ok_or_else(|| StoreError::NotThere(dir.clone()))?;
    let mut rows = reader.rows(pattern.as_ref()).await?;
    if let Some(source) = &forget.source {
        rows.retain(|row| source_of(row) == *source);
    }
    if rows.is_empty() {
        let what = forget.address.clone().or_else(|| forget.source.as_ref().map(|s| format!("source {s}")));
        return Err(Failure::hinted(
            format!("nothing is tracked at {}", what.unwrap_or_default()),
            "to see what is tracked: reconciled status '*/*'",
        ));
    }
    out.data(&render::status::tracked(&rows, &[], false));
    let question = format!("Let go of these {}? They stay as they are.", rows.len());
    if !consent(forget.yes, &question, "reconciled forget … --yes", out)? {
        return Ok(Exit::Error);
    }
    let db = state.writer().await?;
    let result = let_go(&db, rows, &actor, state.clock.now()).await;
    db.close().await;
    let count = result?;
    out.talk(&format!("{count} forgotten; while a manifest declares them they are not adopted again"));
    out.talk("hint: to take one back: reconciled adopt ADDRESS");
    Ok(Exit::Good)
}

fn source_of(row: &TrackedEntry) -> String {
    ManifestKey(row.manifest.as_str().into()).source().to_string()
}

/// What was shown, as far as it is still there.
async fn let_go(db: &Db, shown: Vec<TrackedEntry>, actor: &str, at: Duration) -> Result<usize, Failure> {
    let now: BTreeSet<(String, String)> =
        db.reader().rows(None).await?.into_iter().map(|row| (row.scope, row.id)).collect();
    let rows: Vec<TrackedEntry> =
        shown.into_iter().filter(|row| now.contains(&(row.scope.clone(), row.id.clone()))).collect();
    let writes = writes(&rows, actor, at)?;
    db.commit(writes).await?;
    Ok(rows.len())
}

fn writes(rows: &[TrackedEntry], actor: &str, at: Duration) -> Result<Vec<Write>, Failure> {
    let mut gone: BTreeMap<Scope, Vec<ResourceId>> = BTreeMap::new();
    let mut sources = BTreeSet::new();
    let mut writes = Vec::new();
    for row in rows {
        let scope: Scope = row.scope.parse().map_err(|error: &str| Failure::plain(error.to_string()))?;
        let id = ResourceId::from(row.id.as_str());
        // What it claimed elsewhere goes with it.
        writes.push(Write::Claims(scope.clone(), id.clone(), Vec::new()));
        writes.push(Write::Consent(scope.clone(), id.clone(), Consent::Barred));
        writes.push(Write::Event(Event {
            at,
            kind: "forget".into(),
            scope: Some(scope.clone()),
            address: row.address.parse().ok(),
            revision: row.revision.as_str().into(),
            actor: actor.into(),
            reason: "forget".into(),
            message: "no longer tracked, left as it is".into(),
        }));
        gone.entry(scope).or_default().push(id);
        sources.insert(source_of(row));
    }
    for (scope, ids) in gone {
        // What was found in sync was found so with these rows.
        writes.push(Write::Version(scope.clone(), None));
        writes.push(Write::Gone(scope, ids));
    }
    writes.extend(sources.into_iter().map(|source| Write::Converged(Err(source.into()))));
    Ok(writes)
}
