//! What would change, as the provider itself says.

use crate::{
    catalog::ResourceType,
    change,
    config::Named,
    cty::{self, Value},
    hidden::Hidden,
    host::Host,
    kept::{Former, Kept},
    kind,
    mark::Mark,
    normalize::Declared,
    observe::state_of,
    plugin::{Known, Planned, Plugin},
    schema::canonical::{self, Clear},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use reconciled_provider::{
    Cx, Delta, Deltas, Error, FieldChange, Observation, Observed, Owner, Resource, Sealed, Shown, Tracked,
    Want,
};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Plans each desired resource of a scope, also what does not exist yet.
pub(crate) async fn diff(host: &Host, cx: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
    let mut deltas = Deltas::new();
    for desired in want.desired.iter().filter(|desired| want.focus.covers(&desired.id)) {
        let Some(declared) = desired.spec.so_far().and_then(Declared::read) else { continue };
        if kind::data_in(&desired.id).is_some() {
            continue;
        }
        let row = want.tracked.iter().find(|row| row.id == desired.id && !row.private.is_empty());
        let is_waiting = desired.spec.bytes().is_none();
        if is_waiting && row.is_none() && declared.import.is_some() {
            // It is there already, and looked up once all of it is known.
            continue;
        }
        let delta = of_one(host, cx, desired, &declared, seen.get(&desired.id), row).await;
        match delta {
            Ok(None) => {}
            Ok(Some(delta)) => drop(deltas.insert(desired.id.clone(), Ok(delta))),
            // Nobody tries again what is told of one resource: only what its content is to blame for.
            Err(error) if error.kind.stalls() => drop(deltas.insert(desired.id.clone(), Err(error))),
            // It waits anyhow: nothing can be planned of it yet.
            Err(_) if is_waiting => {}
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
    row: Option<&Tracked>,
) -> Result<Option<Delta>, Error> {
    let plugin = host.running(cx).await?;
    let of = plugin.catalog.resource(kind::type_in(&desired.id))?;
    let kept = observed.map(|observed| Kept::open(&observed.private)).transpose()?.flatten();
    let prior = match (&kept, observed) {
        (Some(kept), _) => state_of(&plugin, &of, kept).await?,
        (None, None) => Known::new(Value::Null, Vec::new()),
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
    let declares = canonical::to_value(&declared.config, &of.schema.block, &clear)?;
    let mark = host.config.mark.as_ref();
    let marked = |owner: Option<&str>| match mark.zip(owner) {
        Some((mark, owner)) => {
            mark.put(&of.schema.block, declares.clone(), &prior.state, (owner, &declared.ignore))
        }
        None => declares.clone(),
    };
    // A mark is no difference: it is compared as it is, and comes with what else is changed.
    let there = mark.and_then(|mark| mark.of(&of.schema.block, &prior.state));
    let ours = mark.map(|mark| &*mark.instance);
    let mut written = marked(if prior.state.is_null() { ours } else { there });
    host.warn(cx, &of, plugin.validate(&of, &written, hidden).await?);
    let mut config = change::leave_ignored(written.clone(), &prior.state, &declared.ignore);
    let mut planned = plugin.plan_leaving(&of, &prior, (&config, &declared.ignore), hidden).await?;
    host.warn(cx, &of, std::mem::take(&mut planned.warnings));
    let because = planned.replace.clone();
    let is_tainted = kept.as_ref().is_some_and(|kept| kept.is_tainted);
    let triggers = Triggers::of(kept.as_ref(), declared);
    let replaces =
        !prior.state.is_null() && (is_tainted || triggers.replace() || !planned.replace.is_empty());
    let former = match (&kept, row) {
        (Some(kept), _) => kept.former.clone(),
        // It is gone itself; those before it may not be.
        (None, Some(row)) => Kept::open(&row.private)?.map(|kept| kept.former).unwrap_or_default(),
        (None, None) => Vec::new(),
    };
    if planned.state == prior.state && !replaces && !triggers.differ() {
        return Ok(end_of_former(host, &of, former, Plans::of(&of, &prior.state, &planned, &config)));
    }
    if !prior.state.is_null() && there != ours && planned.state != prior.state {
        written = marked(ours);
        config = change::leave_ignored(written.clone(), &prior.state, &declared.ignore);
        planned = plugin.plan_leaving(&of, &prior, (&config, &declared.ignore), hidden).await?;
    }
    if replaces && row.is_none() {
        let text = format!(
            "taking {} over would delete and make it anew, because of {}",
            desired.id,
            planned.replace.join(", ")
        );
        return Err(Error::invalid(text).hint("declare these as they are, or leave the existing one alone"));
    }
    let heals_drift = match row.filter(|_| replaces && !is_tainted && !triggers.replace()) {
        Some(row) => {
            let wanted = (&written, &*declared.ignore);
            match would_do_in_place(&plugin, &of, &row.private, &prior, wanted, hidden).await {
                // Where nobody can tell, a person is asked, as for drift.
                Err(error) if error.kind.stalls() => true,
                told => told?,
            }
        }
        None => false,
    };
    let mut plans = Plans::of(&of, &prior.state, &planned, &config);
    plans.former = former;
    let mut after = planned.state.clone();
    if replaces {
        // The new one is planned from nothing, with what is declared and nothing ignored.
        let nothing = Known::new(Value::Null, planned.private.clone());
        written = marked(ours);
        let anew = plugin.plan(&of, &nothing, &written, hidden).await?;
        after = anew.state.clone();
        plans.anew = Some(Step::of(&of, &anew, &written));
    }
    let block = &of.schema.block;
    let secrets = [&prior.state, &after, &written].into_iter().flat_map(|one| change::secrets(block, one));
    let shown = hidden.and_copies(secrets, canonical::written_out(&declared.config));
    let mut fields = change::fields(block, &prior.state, &after, &shown);
    if is_tainted {
        // First of all: it is the reason, whatever else differs.
        let before = Shown::Text("made in part (tainted)".into());
        let why = FieldChange { path: "state".into(), before, after: Shown::Text("made anew".into()) };
        fields.insert(0, why);
    }
    fields.extend(triggers.field(hidden));
    let mut replace_paths: Vec<Arc<str>> = because.into_iter().map(Arc::from).collect();
    replace_paths.extend(triggers.replace().then(|| TRIGGERS.into()));
    let planned = plans.seal();
    Ok(Some(Delta { fields, replace: replaces, replace_paths, heals_drift, planned, ..Delta::default() }))
}

/// True where what was `last` written is another state than what is there, and could be made as declared in place: then it is what
/// somebody else changed that has it made anew, whatever else is declared since.
async fn would_do_in_place(
    plugin: &Plugin,
    of: &ResourceType,
    last: &Sealed,
    there: &Known,
    (written, ignored): (&Value, &[Arc<str>]),
    hidden: &Hidden,
) -> Result<bool, Error> {
    let Some(last) = Kept::open(last)? else { return Ok(false) };
    let last = state_of(plugin, of, &last).await?;
    if last.state == there.state {
        return Ok(false);
    }
    let config = change::leave_ignored(written.clone(), &last.state, ignored);
    let planned = plugin.plan_leaving(of, &last, (&config, ignored), hidden).await?;
    Ok(planned.replace.is_empty())
}

/// That what was replaced goes, once that is long enough ago: until then it is told that it is there. Whether anything still needs
/// it is the engine's to know.
fn end_of_former(host: &Host, of: &ResourceType, former: Vec<Former>, plans: Plans) -> Option<Delta> {
    let since = former.iter().map(|former| former.since).min()?;
    let stays_until = Some(Duration::from_secs(since) + host.config.settle);
    let ids: Vec<Arc<str>> = former.iter().map(|former| former.id(of).into()).collect();
    let fields = vec![FieldChange::text("replaced", Some(ids.join(", ")), None)];
    let plans = Plans { former, ends_former: true, ..plans };
    Some(Delta { fields, former: ids, stays_until, planned: plans.seal(), ..Delta::default() })
}

/// Plans that the mark of a resource is ours, where all else is as declared.
pub(crate) async fn mark_alone(
    plugin: &Plugin,
    of: &ResourceType,
    (declared, mark): (&Declared, &Mark),
    kept: &Kept,
    clear: &Named<'_>,
) -> Result<(Known, Planned, Value), Error> {
    let prior = state_of(plugin, of, kept).await?;
    let block = &of.schema.block;
    let written = canonical::to_value(&declared.config, block, clear)?;
    let written = mark.put(block, written, &prior.state, (&mark.instance, &declared.ignore));
    let config = change::leave_ignored(written, &prior.state, &declared.ignore);
    let planned = plugin.plan_leaving(of, &prior, (&config, &declared.ignore), clear.hidden()).await?;
    match planned.replace.is_empty() {
        true => Ok((prior, planned, config)),
        false => Err(Error::invalid(format!(
            "to mark it would delete and make it anew, because of {}",
            planned.replace.join(", ")
        ))),
    }
}

/// Plans that a resource which nobody declares any more loses our mark, and nothing else.
///
/// Errors: what would change besides; then nothing is written.
pub(crate) async fn without_mark(
    plugin: &Plugin,
    of: &ResourceType,
    mark: &Mark,
    kept: &Kept,
    hidden: &Hidden,
) -> Result<(Known, Planned, Value), Error> {
    let prior = state_of(plugin, of, kept).await?;
    let block = &of.schema.block;
    let config = mark.take_out(block, change::standing(block, &prior.state), &prior.state);
    let planned = plugin.plan(of, &prior, &config, hidden).await?;
    if mark.owner(block, &planned.state) == Owner::Ours {
        return Err(Error::invalid("the provider leaves our mark where it is"));
    }
    let others = match mark.goes_alone(block, &prior.state, &planned.state) {
        Ok(()) => planned.replace.clone(),
        Err(others) => others,
    };
    if others.is_empty() {
        return Ok((prior, planned, config));
    }
    let text = format!("to take our mark away would also change {}", others.join(", "));
    Err(Error::invalid(text))
}

/// What was planned, as `apply` gets it back. It stays in memory: it holds secrets.
#[derive(Serialize, Deserialize)]
pub(crate) struct Plans {
    prior: String,
    pub(crate) step: Step,
    pub(crate) anew: Option<Step>,
    /// Those that were in its place before.
    #[serde(default)]
    pub(crate) former: Vec<Former>,
    /// They are to be deleted now.
    #[serde(default)]
    pub(crate) ends_former: bool,
}

/// Where the values of `replaceTriggeredBy` are declared.
const TRIGGERS: &str = "lifecycle.replaceTriggeredBy";

/// The values of `replaceTriggeredBy`: those that it was made with, and those that are declared.
struct Triggers {
    was: Option<Vec<Json>>,
    is: Option<Vec<Json>>,
}

impl Triggers {
    /// Of what exists; what does not is made with those that are declared.
    fn of(kept: Option<&Kept>, declared: &Declared) -> Triggers {
        let is = declared.lifecycle.made_with();
        Triggers { was: kept.map_or_else(|| is.clone(), |kept| kept.triggers.clone()), is }
    }
    fn differ(&self) -> bool {
        self.was != self.is
    }
    /// True where one of them changed. To begin or to end to name some is no reason.
    fn replace(&self) -> bool {
        self.differ() && self.was.is_some() && self.is.is_some()
    }
    fn field(&self, hidden: &Hidden) -> Option<FieldChange> {
        let words = |all: &Option<Vec<Json>>| {
            let word = |one: &Json| one.as_str().map_or_else(|| one.to_string(), String::from);
            let text = all.as_ref()?.iter().map(word).collect::<Vec<_>>().join(", ");
            Some(hidden.scrub(&text))
        };
        let mut field = FieldChange::text(TRIGGERS, words(&self.was), words(&self.is));
        if self.is.iter().flatten().any(canonical::is_unknown) {
            field.after = Shown::Unknown;
        }
        self.differ().then_some(field)
    }
}

/// One half of a plan.
#[derive(Serialize, Deserialize)]
pub(crate) struct Step {
    state: String,
    config: String,
    private: String,
    #[serde(default)]
    identity: Option<String>,
    is_legacy: bool,
}

impl Plans {
    fn of(of: &ResourceType, prior: &Value, planned: &Planned, config: &Value) -> Plans {
        Plans {
            prior: packed(of, prior),
            step: Step::of(of, planned, config),
            anew: None,
            former: Vec::new(),
            ends_former: false,
        }
    }
    fn seal(&self) -> Sealed {
        Sealed::new(serde_json::to_vec(self).unwrap_or_default())
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
            identity: planned.identity.as_ref().map(|identity| STANDARD.encode(identity)),
            is_legacy: planned.is_legacy,
        }
    }
    /// The plan and the configuration it was made for.
    pub(crate) fn planned(&self, of: &ResourceType) -> Option<(Planned, Value)> {
        let planned = Planned {
            state: unpacked(of, &self.state)?,
            private: STANDARD.decode(&self.private).ok()?,
            identity: self.identity.as_ref().and_then(|identity| STANDARD.decode(identity).ok()),
            replace: Vec::new(),
            is_legacy: self.is_legacy,
            warnings: BTreeSet::new(),
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
) -> Result<(Known, Planned), Error> {
    let prior = state_of(plugin, of, kept).await?;
    let planned = plugin.plan(of, &prior, &Value::Null, &kept.hidden()).await?;
    Ok((prior, planned))
}
