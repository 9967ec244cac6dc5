//! Having something made anew although it is as declared: a certificate whose key somebody may have seen.

use super::pattern;
use crate::{
    session::{Failure, Session},
    store::Db,
};
use reconciled_engine::{Store, Write, store::Event};
use reconciled_provider::{Renewal, ResourceId, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What shall be made anew?
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewAsk {
    /// What is tracked at this address.
    pub address: String,
    /// The issuer to have it from this once; one of those that are declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// How its names are proven this once: `dns01`, `http01` or `tlsAlpn01`.
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

/// Has what is tracked at an address made anew by the next pass.
///
/// Errors: nothing is tracked there, or it is nothing that can be made anew; then nothing is.
pub async fn renew(session: &Session, db: &Db, ask: &RenewAsk, actor: &str) -> Result<Renewed, Failure> {
    let rows = db.reader().rows(Some(&pattern(&ask.address)?)).await?;
    if rows.is_empty() {
        return Err(Failure::hinted(
            format!("nothing is tracked at {}", ask.address),
            "to see what is tracked: reconciled status '*/*'",
        ));
    }
    // All are asked before the first one is changed.
    let cx = &session.surveyor.cx;
    let way = Renewal { issuer: ask.issuer.clone(), solver: ask.solver.clone() };
    let mut all = Vec::new();
    for row in rows {
        let scope: Scope = row.scope.parse().map_err(|error: &str| Failure::plain(error.to_string()))?;
        let Some(provider) = session.writers.get(&scope.provider) else {
            return Err(Failure::plain(format!("no provider is called `{}`", scope.provider)));
        };
        let id = ResourceId::from(row.id.as_str());
        let failed = |error: reconciled_provider::Error| {
            Failure::Other(format!("renew {}: {}", row.address, error.chain()), error.hint)
        };
        provider.can_renew(cx, &scope, &id, &way).await.map_err(failed)?;
        all.push((row, scope, id, provider));
    }
    let mut renewed = Renewed { addresses: Vec::new(), scopes: Vec::new() };
    for (row, scope, id, provider) in all {
        provider.renew(cx, &scope, &id, &way).await.map_err(|error| {
            Failure::Other(format!("renew {}: {}", row.address, error.chain()), error.hint)
        })?;
        let event = Event {
            at: session.clock.now(),
            kind: "renew".into(),
            scope: Some(scope),
            address: row.address.parse().ok(),
            revision: row.revision.as_str().into(),
            actor: actor.into(),
            reason: "renew".into(),
            message: "made anew by the next pass".into(),
        };
        db.commit(vec![Write::Event(event)]).await?;
        renewed.addresses.push(row.address);
        renewed.scopes.push(row.scope);
    }
    Ok(renewed)
}
