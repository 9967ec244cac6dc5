//! Planning and carrying out a change.

use super::{Plugin, ResourceType, said, settled, write_value};
use crate::{
    change,
    cty::{self, Value},
    hidden::Hidden,
    wire::message::{Apply, Plan},
};
use reconciled_provider::Error;

/// A plan of a provider.
#[derive(Clone)]
pub struct Planned {
    /// What would be; null for a deletion.
    pub state: Value,
    /// What the provider wants back when it is carried out.
    pub private: Vec<u8>,
    /// Paths that cannot be changed in place.
    pub replace: Vec<String>,
    /// The old SDK made it.
    pub is_legacy: bool,
}

/// What there is after a change.
pub struct Applied {
    /// What is there, if anything is.
    pub state: Value,
    /// What the provider wants back.
    pub private: Vec<u8>,
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
        prior: &Value,
        config: &Value,
        private: &[u8],
        hidden: &Hidden,
    ) -> Result<Planned, Error> {
        let doing = format!("plan a {}", of.name);
        let hidden = &self.secrets(of, &[prior, config], hidden);
        if config.is_null() && !self.catalog.plans_deletions() {
            return Ok(Planned {
                state: Value::Null,
                private: private.to_vec(),
                replace: Vec::new(),
                is_legacy: true,
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
            private: private.to_vec().into(),
            provider_meta: self.catalog.meta(),
            capabilities: None,
        };
        let answer = match self.call(self.process.calls.plan(message)).await {
            Ok(answer) => answer,
            Err(status) => return Err(self.severed(&doing, status, hidden).await),
        };
        if let Some(error) = said(&doing, &answer.diagnostics, hidden) {
            return Err(error);
        }
        let state = self.read_value(answer.state, of_type, &doing)?;
        let state = settled(block, state);
        // Whether it is to exist is not for the old SDK to say either.
        let checked = match answer.legacy_type_system {
            true if state.is_null() != config.is_null() => Err("whether it is to exist".into()),
            true => Ok(()),
            false => change::check_plan(block, prior, config, &state),
        };
        let mistake = |what: String| {
            let text = format!("{doing}: provider `{}` {what}", self.name);
            Error::unexpected(text).hint("this is a mistake of the provider; its maintainers want to know")
        };
        checked.map_err(|path| mistake(format!("plans {path} otherwise than declared")))?;
        let mut replace = Vec::new();
        for path in &answer.requires_replace {
            let ((words, before), (_, after)) = (change::at_path(prior, path), change::at_path(&state, path));
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
            is_legacy: answer.legacy_type_system,
        })
    }

    /// Carries out a plan. What the provider refuses is in the answer.
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
        let message = Apply {
            type_name: of.name.to_string(),
            prior: Some(write_value(prior, of_type)),
            planned: Some(write_value(&planned.state, of_type)),
            config: Some(write_value(config, of_type)),
            private: planned.private.clone().into(),
            provider_meta: self.catalog.meta(),
        };
        let answer = match self.call(self.process.calls.apply(message)).await {
            Ok(answer) => answer,
            Err(status) => return Err(self.severed(doing, status, hidden).await),
        };
        // What was made may be secret, and the provider may say so in what went wrong then.
        let told = answer.state.as_ref().and_then(|state| cty::decode(&state.msgpack, of_type).ok());
        let hidden = &self.secrets(of, told.iter().collect::<Vec<_>>().as_slice(), hidden);
        let error = said(doing, &answer.diagnostics, hidden);
        let state = match (answer.state, &error) {
            // Without a state in the answer nothing is said about what there was.
            (None, Some(_)) => prior.clone(),
            (state, _) => {
                let state = settled(&of.schema.block, known(self.read_value(state, of_type, doing)?));
                // A change that fails deletes nothing: many providers say null for want of anything better.
                let is_lost = error.is_some() && state.is_null() && !planned.state.is_null();
                if is_lost { prior.clone() } else { state }
            }
        };
        Ok(Applied { state, private: answer.private.to_vec(), is_legacy: answer.legacy_type_system, error })
    }
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
