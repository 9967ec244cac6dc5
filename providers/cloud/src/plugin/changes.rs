//! Planning and carrying out a change.

use super::{
    Class, Known, Plugin,
    identity::Identity,
    value::{says_something, settled, write_value},
};
use crate::{
    catalog::ResourceType,
    change,
    cty::Value,
    hidden::Hidden,
    said::{said, warnings},
    wire::message::{Apply, DynamicValue, IdentityData, Plan},
};
use prost::bytes::Bytes;
use reconciled_provider::Error;
use std::{collections::BTreeSet, sync::Arc};

/// A plan of a provider.
#[derive(Clone)]
pub struct Planned {
    /// What would be; null for a deletion.
    pub state: Value,
    /// What the provider wants back when it is carried out.
    pub private: Vec<u8>,
    /// What will identify it, in the provider's own form: parts of it may not be known yet.
    pub identity: Option<Vec<u8>>,
    /// Paths that cannot be changed in place.
    pub replace: Vec<String>,
    /// The old SDK made it.
    pub is_legacy: bool,
    /// What the provider warns of.
    pub warnings: BTreeSet<String>,
}

/// What there is after a change.
pub struct Applied {
    /// What is there, if anything is.
    pub now: Known,
    /// The old SDK made it.
    pub is_legacy: bool,
    /// What went wrong.
    pub error: Option<Error>,
}

impl Plugin {
    /// Plans a change from `prior` to `config`; both may be null.
    pub async fn plan(
        &self,
        of: &ResourceType,
        known: &Known,
        config: &Value,
        hidden: &Hidden,
    ) -> Result<Planned, Error> {
        self.plan_leaving(of, known, (config, &[]), hidden).await
    }

    /// As [`Plugin::plan`], where `config` has what is ignored as it was. The old SDK may plan to change it in spite of that,
    /// as where it keeps a hash of what is declared: it stays as it was.
    pub async fn plan_leaving(
        &self,
        of: &ResourceType,
        known: &Known,
        (config, ignored): (&Value, &[Arc<str>]),
        hidden: &Hidden,
    ) -> Result<Planned, Error> {
        let doing = format!("plan a {}", of.name);
        let prior = &known.state;
        let hidden = &self.secrets(of, &[prior, config], hidden);
        let identity_type = self.identity_type(of, hidden).await?;
        let identity = known.identity_data(identity_type);
        let as_it_was = identity.clone().and_then(msgpack);
        if config.is_null() && !self.catalog.plans_deletions() {
            return Ok(Planned {
                state: Value::Null,
                private: known.private.clone(),
                identity: as_it_was,
                replace: Vec::new(),
                is_legacy: true,
                warnings: BTreeSet::new(),
            });
        }
        let block = &of.schema.block;
        let proposed = change::proposed(block, prior, config);
        let of_type = &of.schema.value_type;
        let message = Plan {
            type_name: of.name.to_string(),
            prior: Some(write_value(prior, of_type)),
            proposed: Some(write_value(&proposed, of_type)),
            config: Some(write_value(config, of_type)),
            private: known.private.clone().into(),
            provider_meta: self.meta(),
            capabilities: None,
            identity,
        };
        let answer = match self.ask(self.process.calls.plan(message)).await {
            Ok(answer) => answer,
            Err(status) => return Err(self.severed(&doing, status, hidden).await),
        };
        let hidden = &self.secrets_told(of, &answer.diagnostics, &answer.state, hidden);
        if let Some(error) = said(&doing, &answer.diagnostics, hidden) {
            return Err(self.pace.told(Class::Reads, error));
        }
        let state = self.read_value(answer.state, of_type, &doing)?;
        let kept = change::check_write_only(block, &state);
        let state = match settled(block, state) {
            state if answer.legacy_type_system && !state.is_null() => {
                change::leave_ignored(state, prior, ignored)
            }
            state => state,
        };
        // Whether it is to exist is not for the old SDK to say either.
        let checked = match answer.legacy_type_system {
            true if state.is_null() != config.is_null() => Err("whether it is to exist".into()),
            true => Ok(()),
            false => change::check_plan(block, prior, config, &state),
        };
        let mistake = |what: String| {
            let text = format!("{doing}: provider `{}` {}", self.name, hidden.scrub(&what));
            Error::unexpected(text).hint("this is a mistake of the provider; its maintainers want to know")
        };
        checked.map_err(|path| mistake(format!("plans {path} otherwise than declared")))?;
        // Whichever SDK made it: the plan is another one than what is kept of it.
        kept.map_err(|path| mistake(format!("plans to keep {path}, which is only written")))?;
        let mut replace = Vec::new();
        for path in &answer.requires_replace {
            let words = change::at_path(&Value::Null, &change::open_part(path, hidden)).0;
            let ((_, before), (_, after)) = (change::at_path(prior, path), change::at_path(&state, path));
            if before.is_none() && after.is_none() {
                return Err(mistake(format!("cannot change `{words}` in place, which there is not")));
            }
            let (before, after) = (before.unwrap_or(&Value::Null), after.unwrap_or(&Value::Null));
            if before != after || !after.is_known() || change::is_write_only(block, path) {
                replace.push(words);
            }
        }
        Ok(Planned {
            replace: if prior.is_null() { Vec::new() } else { replace },
            state,
            private: answer.private.to_vec(),
            identity: answer.identity.and_then(msgpack).or(as_it_was),
            is_legacy: answer.legacy_type_system,
            warnings: warnings(&answer.diagnostics, hidden),
        })
    }

    /// Carries out a plan, at once: whoever asks has waited for its turn. What the provider refuses is in the answer.
    ///
    /// Errors: there is no answer, or none that can be read: what was done is not known.
    pub async fn apply(
        &self,
        of: &ResourceType,
        doing: &str,
        prior: &Value,
        planned: &Planned,
        config: &Value,
        hidden: &Hidden,
    ) -> Result<Applied, Error> {
        let hidden = &self.secrets(of, &[prior, &planned.state, config], hidden);
        let of_type = &of.schema.value_type;
        // Whoever cannot say what identifies things can still make them: before it is sent, nothing may go wrong.
        let identity_type = self.identity_type(of, hidden).await.ok().flatten();
        let identity = planned.identity.clone().filter(|_| identity_type.is_some()).map(|msgpack| {
            IdentityData { identity: Some(DynamicValue { msgpack: msgpack.into(), json: Bytes::new() }) }
        });
        let message = Apply {
            type_name: of.name.to_string(),
            prior: Some(write_value(prior, of_type)),
            planned: Some(write_value(&planned.state, of_type)),
            config: Some(write_value(config, of_type)),
            private: planned.private.clone().into(),
            provider_meta: self.meta(),
            identity,
        };
        let answer = match self.call(self.process.calls.apply(message)).await {
            Ok(answer) => answer,
            Err(status) => return Err(self.severed(doing, status, hidden).await),
        };
        // What was made may be secret, and the provider may say so in what went wrong then.
        let hidden = &self.secrets_told(of, &answer.diagnostics, &answer.state, hidden);
        let error = self.heard(Class::Writes, doing, &answer.diagnostics, hidden);
        let state = match (answer.state.filter(says_something), &error) {
            // The answer of some libraries for what is gone.
            (None, None) if planned.state.is_null() => Value::Null,
            // Without a state in the answer nothing is said about what there was.
            (None, Some(_)) => prior.clone(),
            (state, _) => {
                let state = settled(&of.schema.block, known(self.read_value(state, of_type, doing)?));
                // A change that fails deletes nothing: many providers say null for want of anything better.
                let is_lost = error.is_some() && state.is_null() && !planned.state.is_null();
                if is_lost { prior.clone() } else { state }
            }
        };
        // What came about is remembered whatever is said of its identity.
        let told = self.told(answer.identity, identity_type, doing).ok().flatten();
        let identity = told.or_else(|| Identity::planned(planned.identity.as_deref(), identity_type));
        let now = Known { state, private: answer.private.to_vec(), identity };
        Ok(Applied { now, is_legacy: answer.legacy_type_system, error })
    }
}

/// An identity as it came; nothing where there is none.
fn msgpack(data: IdentityData) -> Option<Vec<u8>> {
    Some(data.identity?.msgpack.to_vec()).filter(|bytes| !bytes.is_empty())
}

/// What is unknown after it was done is a mistake of the provider; nothing is the best that can be said of it.
fn known(value: Value) -> Value {
    match value {
        Value::Unknown => Value::Null,
        Value::Seq(all) => Value::Seq(all.into_iter().map(known).collect()),
        Value::Map(all) => Value::Map(all.into_iter().map(|(name, value)| (name, known(value))).collect()),
        Value::Dynamic(inner) => Value::Dynamic(Box::new((inner.0, known(inner.1)))),
        other => other,
    }
}
