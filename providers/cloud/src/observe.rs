//! What is there: kept state, brought up to date by the provider.

use crate::{
    config::Named,
    cty::Value,
    host::Host,
    kept::Kept,
    kind,
    normalize::Declared,
    plugin::{Plugin, ResourceType},
    schema::canonical::{self, Clear},
};
use reconciled_provider::{Cx, Error, Observation, Observed, ResourceId, Sealed, Version, Want};
use std::{collections::BTreeSet, sync::Arc};

/// Reads what is known of one scope: what is tracked, and what a manifest gives the id of.
pub(crate) async fn observe(host: &Host, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
    let ids: BTreeSet<&ResourceId> =
        want.desired.iter().map(|d| &d.id).chain(want.tracked.iter().map(|t| &t.id)).collect();
    let mut resources = Vec::new();
    for id in ids.into_iter().filter(|id| want.focus.covers(id)) {
        resources.extend(look(host, cx, want, id).await?);
    }
    Ok(Observation { covered: want.focus.clone(), complete: true, version: Version::Unknown, resources })
}

async fn look(host: &Host, cx: &Cx, want: &Want<'_>, id: &ResourceId) -> Result<Option<Observed>, Error> {
    let desired = want.desired.iter().find(|desired| desired.id == *id);
    let declared = desired.and_then(|desired| Declared::read(desired.spec.bytes()?));
    // The last that was put down counts: an unanswered intent comes after its row.
    let kept = want
        .tracked
        .iter()
        .filter(|t| t.id == *id)
        .find_map(|t| Kept::open(&t.private).transpose())
        .transpose()?;
    let import = declared.as_ref().and_then(|declared| declared.import.clone());
    if kept.is_none() && import.is_none() {
        return Ok(None);
    }
    let plugin = host.running(cx).await?;
    let of = plugin.catalog.resource(kind::type_in(id))?;
    let before = kept.iter().flat_map(|kept| kept.secrets.iter().cloned());
    let clear = Named::of(cx, declared.as_ref().map(|declared| &declared.config), before)?;
    let (state, private) = match (&kept, &import) {
        (Some(kept), _) => {
            if kept.version > of.schema.version {
                let text = format!("the state of {id} is from a newer version of the provider");
                return Err(Error::unsupported(text).hint("install that version again, or a newer one"));
            }
            (state_of(&plugin, &of, kept).await?, kept.private())
        }
        (None, Some(import)) => match plugin.import(&of, import, clear.hidden()).await? {
            Some(found) => found,
            None => return Err(nothing_there(id, import)),
        },
        (None, None) => return Ok(None),
    };
    let (state, private) = plugin.read(&of, &state, &private, clear.hidden()).await?;
    let account = host.config.account(&plugin.catalog.provider.block)?;
    match (state.is_null(), &kept, &import) {
        (false, ..) => {}
        (true, Some(kept), _) => {
            let is_elsewhere = kept.account.as_ref().is_some_and(|was| *was != account.to_string());
            return if is_elsewhere { Err(elsewhere(id)) } else { Ok(None) };
        }
        // Many importers give back the id that they were given: only reading tells.
        (true, None, Some(import)) => return Err(nothing_there(id, import)),
        (true, None, None) => return Ok(None),
    }
    let mut now = Kept::new(&of, &state, &private, account);
    now.is_tainted = kept.is_some_and(|kept| kept.is_tainted);
    now.secrets = clear.hidden().within(&state);
    Ok(Some(observed(&clear, id, &of, &state, &now, declared.as_ref())))
}

/// What cannot be found with what the entry says now, and could with what it said before, may be in another account.
fn elsewhere(id: &ResourceId) -> Error {
    let text = format!("{id} is not there, and the entry's `config` or `env` changed since it was written");
    Error::invalid(text).hint(
        "if that leads to another account or region, undo it; if it is gone: reconciled forget ADDRESS, take its \
         manifest out, and put it back once that is in force",
    )
}

fn nothing_there(id: &ResourceId, import: &str) -> Error {
    let hint = "correct the id in `reconciled/import`, or leave the annotation out to make a new one";
    Error::invalid(format!("there is no {} with the id `{import}`", kind::type_in(id))).hint(hint)
}

/// A resource as it is reported: through its declaration, where there is one.
pub(crate) fn observed(
    clear: &Named<'_>,
    id: &ResourceId,
    of: &ResourceType,
    state: &Value,
    kept: &Kept,
    declared: Option<&Declared>,
) -> Observed {
    let block = &of.schema.block;
    let seen = match declared {
        Some(declared) => {
            Declared { config: canonical::through(&declared.config, state, block, clear), ..declared.clone() }
        }
        None => {
            let config = canonical::declarable(state, block, clear);
            Declared { config, ignore: Vec::new(), import: None }
        }
    };
    let mut observed = Observed::new(id.clone(), seen.bytes());
    observed.remote = remote(state);
    observed.outputs = outputs(clear, of, state);
    observed.private = kept.seal();
    observed
}

/// The id that nearly every resource has.
pub(crate) fn remote(state: &Value) -> Option<Arc<str>> {
    state.get("id").as_str().map(Arc::from)
}

/// What others may refer to.
pub(crate) fn outputs(clear: &Named<'_>, of: &ResourceType, state: &Value) -> Sealed {
    let outputs = canonical::outputs(state, &of.schema.block, clear);
    Sealed(serde_json::to_vec(&outputs).unwrap_or_default().into())
}

/// The state behind what was observed, as the provider wants it.
pub(crate) async fn state_of(plugin: &Plugin, of: &ResourceType, kept: &Kept) -> Result<Value, Error> {
    plugin.upgrade(of, kept.version, &kept.state, &kept.hidden()).await
}
