//! What would change, as the provider itself says.

use crate::{
    change,
    config::Named,
    cty::{self, Value},
    host::Host,
    kept::Kept,
    kind,
    normalize::Declared,
    observe::state_of,
    plugin::{Planned, Plugin, ResourceType},
    schema::canonical::{self, Clear},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use reconciled_provider::{
    Cx, Delta, Deltas, Error, FieldChange, Observation, Observed, Resource, Sealed, Shown, Want,
};
use serde::{Deserialize, Serialize};

/// Plans each desired resource of a scope, also what does not exist yet.
pub(crate) async fn diff(host: &Host, cx: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
    let mut deltas = Deltas::new();
    for desired in want.desired.iter().filter(|desired| want.focus.covers(&desired.id)) {
        let Some(declared) = desired.spec.bytes().and_then(Declared::read) else { continue };
        let is_tracked = want.tracked.iter().any(|row| row.id == desired.id && !row.private.is_empty());
        let delta = of_one(host, cx, desired, &declared, seen.get(&desired.id), is_tracked).await;
        match delta {
            Ok(None) => {}
            Ok(Some(delta)) => drop(deltas.insert(desired.id.clone(), Ok(delta))),
            // Nobody tries again what is told of one resource: only what its content is to blame for.
            Err(error) if error.kind.stalls() => drop(deltas.insert(desired.id.clone(), Err(error))),
            Err(error) => return Err(error),
        }
    }
    Ok(deltas)
}

async fn of_one(
    host: &Host,
    cx: &Cx,
    desired: &Resource,
    declared: &Declared,
    observed: Option<&Observed>,
    is_tracked: bool,
) -> Result<Option<Delta>, Error> {
    let plugin = host.running(cx).await?;
    let of = plugin.catalog.resource(kind::type_in(&desired.id))?;
    let kept = observed.map(|observed| Kept::open(&observed.private)).transpose()?.flatten();
    let prior = match (&kept, observed) {
        (Some(kept), _) => state_of(&plugin, &of, kept).await?,
        (None, None) => Value::Null,
        // Planning it from nothing would make a second one.
        (None, Some(_)) => {
            return Err(Error::unexpected(format!(
                "{} was seen, and nothing is known of its state",
                desired.id
            )));
        }
    };
    let before = kept.iter().flat_map(|kept| kept.secrets.iter().cloned());
    let clear = Named::of(cx, Some(&declared.config), before)?;
    let hidden = clear.hidden();
    let written = canonical::to_value(&declared.config, &of.schema.block, &clear)?;
    plugin.validate(&of, &written, hidden).await?;
    let config = change::leave_ignored(written.clone(), &prior, &declared.ignore);
    let private = kept.as_ref().map(Kept::private).unwrap_or_default();
    let planned = plugin.plan(&of, &prior, &config, &private, hidden).await?;
    let is_tainted = kept.as_ref().is_some_and(|kept| kept.is_tainted);
    let replaces = !prior.is_null() && (is_tainted || !planned.replace.is_empty());
    if planned.state == prior && !replaces {
        return Ok(None);
    }
    if replaces && !is_tracked {
        let text = format!(
            "taking {} over would delete and make it anew, because of {}",
            desired.id,
            planned.replace.join(", ")
        );
        return Err(Error::invalid(text).hint("declare these as they are, or leave the existing one alone"));
    }
    let mut plans = Plans::of(&of, &prior, &planned, &config);
    let mut after = planned.state.clone();
    if replaces {
        // The new one is planned from nothing, with what is declared and nothing ignored.
        let anew = plugin.plan(&of, &Value::Null, &written, &planned.private, hidden).await?;
        after = anew.state.clone();
        plans.anew = Some(Step::of(&of, &anew, &written));
    }
    let mut fields = change::fields(&of.schema.block, &prior, &after, hidden);
    if fields.is_empty() && is_tainted {
        let before = Shown::Text("made in part".into());
        fields.push(FieldChange { path: "state".into(), before, after: Shown::Text("whole".into()) });
    }
    Ok(Some(Delta { fields, replace: replaces, planned: plans.seal() }))
}

/// What was planned, as `apply` gets it back. It stays in memory: it holds secrets.
#[derive(Serialize, Deserialize)]
pub(crate) struct Plans {
    prior: String,
    pub(crate) step: Step,
    pub(crate) anew: Option<Step>,
}

/// One half of a plan.
#[derive(Serialize, Deserialize)]
pub(crate) struct Step {
    state: String,
    config: String,
    private: String,
    is_legacy: bool,
}

impl Plans {
    fn of(of: &ResourceType, prior: &Value, planned: &Planned, config: &Value) -> Plans {
        Plans { prior: packed(of, prior), step: Step::of(of, planned, config), anew: None }
    }
    fn seal(&self) -> Sealed {
        Sealed(serde_json::to_vec(self).unwrap_or_default().into())
    }
    /// Reads what [`diff`] planned.
    pub(crate) fn open(sealed: &Sealed) -> Option<Plans> {
        serde_json::from_slice(&sealed.0).ok()
    }
    /// The state it was planned from.
    pub(crate) fn prior(&self, of: &ResourceType) -> Option<Value> {
        unpacked(of, &self.prior)
    }
}

impl Step {
    fn of(of: &ResourceType, planned: &Planned, config: &Value) -> Step {
        Step {
            state: packed(of, &planned.state),
            config: packed(of, config),
            private: STANDARD.encode(&planned.private),
            is_legacy: planned.is_legacy,
        }
    }
    /// The plan and the configuration it was made for.
    pub(crate) fn planned(&self, of: &ResourceType) -> Option<(Planned, Value)> {
        let planned = Planned {
            state: unpacked(of, &self.state)?,
            private: STANDARD.decode(&self.private).ok()?,
            replace: Vec::new(),
            is_legacy: self.is_legacy,
        };
        Some((planned, unpacked(of, &self.config)?))
    }
}

fn packed(of: &ResourceType, value: &Value) -> String {
    STANDARD.encode(cty::encode(value, &of.schema.value_type))
}

fn unpacked(of: &ResourceType, text: &str) -> Option<Value> {
    cty::decode(&STANDARD.decode(text).ok()?, &of.schema.value_type).ok()
}

/// Plans the end of a resource.
pub(crate) async fn deletion(
    plugin: &Plugin,
    of: &ResourceType,
    kept: &Kept,
) -> Result<(Value, Planned), Error> {
    let prior = state_of(plugin, of, kept).await?;
    let planned = plugin.plan(of, &prior, &Value::Null, &kept.private(), &kept.hidden()).await?;
    Ok((prior, planned))
}
