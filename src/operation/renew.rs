//! Having something made anew although it is as declared: a certificate whose key somebody may have seen.

use super::{explain::declared, pattern};
use crate::{
    failure::Failure,
    session::{Session, outside},
    store::{Db, TrackedEntry},
};
use reconciled_engine::{
    Desired, Store, Write,
    store::Event,
    suspension::{Heals, StoppedBy, Suspension},
};
use reconciled_provider::{Address, ManifestKey, Provider, Renewal, ResourceId, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What shall be made anew?
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewAsk {
    /// What is tracked at this address.
    pub address: String,
    /// The issuer to have it from this once; one of those that are declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// How its names are proven this once: `dns01`, `http01`, `tlsAlpn01` or `dnsPersist01`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solver: Option<String>,
}

/// What will be made anew.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Renewed {
    /// Their addresses.
    pub addresses: Vec<String>,
    /// The scopes they are in, `PROVIDER/NAME`.
    pub scopes: Vec<String>,
}

/// Has what is tracked at an address made anew by the next pass, and what is declared there and was begun and never made.
///
/// Errors: nothing is there, it is nothing that can be made anew, or nothing is done about it now; then nothing is.
pub async fn renew(
    session: &Session,
    db: &Db,
    desired: &Desired,
    ask: &RenewAsk,
    actor: &str,
) -> Result<Renewed, Failure> {
    let meant = pattern(&ask.address)?;
    let rows = db.reader().rows(Some(&meant)).await?;
    let cx = &session.surveyor.cx;
    let way = Renewal { issuer: ask.issuer.clone(), solver: ask.solver.clone() };
    let now = session.clock.now();
    let mut suspensions = db.suspensions().await?;
    suspensions.extend(outside(&session.config, now));
    suspensions.retain(|suspension| !suspension.is_over(now) && !lets_renew(suspension));
    // All are asked before the first one is changed.
    let mut all = Vec::new();
    for row in rows {
        let scope: Scope = row.scope.parse().map_err(|error: &str| Failure::plain(error.to_string()))?;
        let Some(provider) = session.writers.get(&scope.provider) else {
            return Err(Failure::plain(format!("no provider is called `{}`", scope.provider)));
        };
        refuse_frozen(desired, &row, &scope)?;
        let id = ResourceId::from(row.id.as_str());
        refuse_suspended(desired, &suspensions, &scope, &id, &row.address)?;
        provider.can_renew(cx, &scope, &id, &way).await.map_err(|error| failed(&row.address, error))?;
        all.push(Renewing { address: row.address, revision: row.revision, scope, id, provider });
    }
    // What was refused at its first try is not tracked.
    let mut refused = None;
    for (scope, id, address) in declared(session, desired, &meant) {
        let is_known = all.iter().any(|known| known.scope == scope && known.id == id);
        let Some(provider) = session.writers.get(&scope.provider).filter(|_| !is_known) else { continue };
        match provider.can_renew(cx, &scope, &id, &way).await {
            Ok(()) => {
                refuse_suspended(desired, &suspensions, &scope, &id, &address.to_string())?;
                let (address, revision) = (address.to_string(), String::new());
                all.push(Renewing { address, revision, scope, id, provider });
            }
            Err(error) => refused = refused.or(Some(failed(&address.to_string(), error))),
        }
    }
    if let (true, Some(refused)) = (all.is_empty(), refused) {
        return Err(refused);
    }
    if all.is_empty() {
        return Err(Failure::hinted(
            format!("nothing is tracked at {}", ask.address),
            "to see what is tracked: reconciled status '*/*'",
        ));
    }
    let mut renewed = Renewed { addresses: Vec::new(), scopes: Vec::new() };
    for Renewing { address, revision, scope, id, provider } in all {
        provider.renew(cx, &scope, &id, &way).await.map_err(|error| failed(&address, error))?;
        renewed.scopes.push(scope.to_string());
        let event = Event {
            at: session.clock.now(),
            kind: "renew".into(),
            scope: Some(scope),
            address: address.parse().ok(),
            revision: revision.as_str().into(),
            actor: actor.into(),
            reason: "renew".into(),
            message: "made anew by the next pass".into(),
        };
        db.commit(vec![Write::Event(event)]).await?;
        renewed.addresses.push(address);
    }
    Ok(renewed)
}

/// Nothing of a manifest that is frozen is made: who is told that it will be would wait for ever.
fn refuse_frozen(desired: &Desired, row: &TrackedEntry, scope: &Scope) -> Result<(), Failure> {
    let manifest = ManifestKey(row.manifest.as_str().into());
    let is_declared = !desired.declaring(scope, &row.id.as_str().into()).is_empty();
    if is_declared || desired.knows(&manifest, scope) {
        return Ok(());
    }
    Err(Failure::hinted(
        format!(
            "renew {}: no manifest that can be read declares it, so it is frozen and nothing makes it anew",
            row.address
        ),
        "mend what is wrong with its source, which `reconciled plan` shows, and ask again",
    ))
}

/// True for a closed window that lets what is due through, or what a person asks for.
fn lets_renew(suspension: &Suspension) -> bool {
    matches!(suspension.stopped_by, StoppedBy::Window(passes) if passes.heals == Heals::Everything || passes.manual)
}

/// Nor is anything of what is suspended, until it is resumed.
fn refuse_suspended(
    desired: &Desired,
    suspensions: &[Suspension],
    scope: &Scope,
    id: &ResourceId,
    address: &str,
) -> Result<(), Failure> {
    let Ok(meant) = address.parse::<Address>() else { return Ok(()) };
    let refused = |why: &str, hint: String| {
        let text = format!("renew {address}: {why}, so nothing makes it anew");
        Err(Failure::hinted(text, hint))
    };
    for declared in desired.declaring(scope, id) {
        let manifest = desired.manifest(declared.origin);
        if desired.policies.get(declared.policy).suspend {
            let hint = format!("take `reconciled/suspend` out of {}:{}", manifest.file, manifest.line);
            return refused("its manifest suspends it", hint);
        }
        let means = |suspension: &&Suspension| {
            suspension.means(scope, &meant, Some(&manifest.key), || Some(&manifest.labels))
        };
        if let Some(suspension) = suspensions.iter().find(means) {
            let why = format!("{} suspended it ({})", suspension.actor, suspension.reason);
            return refused(&why, suspension.remedy());
        }
    }
    Ok(())
}

/// One resource that is about to be made anew.
struct Renewing<'a> {
    address: String,
    revision: String,
    scope: Scope,
    id: ResourceId,
    provider: &'a Arc<dyn Provider>,
}

fn failed(address: &str, error: reconciled_provider::Error) -> Failure {
    Failure::Other(format!("renew {address}: {}", error.chain()), error.into_told().hint)
}
