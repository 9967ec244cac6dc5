//! What is asked of a provider and changes nothing.

use super::{
    Class, Known, Plugin,
    answered::{Asked, reads_back},
    value::{says_something, settled, write_value},
};
use crate::{
    catalog::ResourceType,
    change,
    cty::Value,
    hidden::Hidden,
    said::{said, warnings},
    wire::message::{IdentityData, Import, RawState, Read, ReadData, Upgrade},
};
use prost::bytes::Bytes;
use reconciled_provider::{Cx, Error, ErrorKind};
use std::collections::BTreeSet;

impl Plugin {
    /// Asks whether a configuration is valid, and returns what the provider warns of. One without a word is not asked about again.
    pub async fn validate(
        &self,
        of: &ResourceType,
        config: &Value,
        hidden: &Hidden,
    ) -> Result<BTreeSet<String>, Error> {
        let value = write_value(config, &of.schema.value_type);
        let asked = Asked::config(of, &value.msgpack);
        if self.answered.has(&asked) {
            return Ok(BTreeSet::new());
        }
        let doing = format!("check a {}", of.name);
        let hidden = &self.secrets(of, &[config], hidden);
        let answer = self.ask(self.process.calls.validate(&of.name, value)).await;
        match answer {
            Ok(answer) => match said(&doing, &answer.diagnostics, hidden) {
                Some(mut error) => {
                    // Nothing was asked of the cloud: it is the content.
                    if error.kind == ErrorKind::Unexpected {
                        error.kind = ErrorKind::Invalid;
                    }
                    Err(error)
                }
                None => {
                    let warnings = warnings(&answer.diagnostics, hidden);
                    // Who asks again is to be warned again.
                    if warnings.is_empty() {
                        self.answered.put(asked);
                    }
                    Ok(warnings)
                }
            },
            Err(status) => Err(self.severed(&doing, status, hidden).await),
        }
    }

    /// Brings kept state into today's form. What this process told itself, or left as it was, has that already.
    ///
    /// Errors: `Unexpected` when nothing of it is left: what is kept says that there is something.
    pub async fn upgrade(
        &self,
        of: &ResourceType,
        version: i64,
        json: &str,
        hidden: &Hidden,
    ) -> Result<Value, Error> {
        let asked = Asked::state(of, version, json);
        if self.answered.has(&asked)
            && let Some(state) = reads_back(&of.schema.value_type, json)
        {
            return Ok(state);
        }
        let doing = format!("read the state of a {}", of.name);
        // Kept state is of an older schema: what it has at the secrets of this one, as far as they are still there.
        let block = &of.schema.block;
        let kept = serde_json::from_str(json).map(|json| change::secrets_in(block, &json));
        let hidden = &self.hidden.and(hidden.iter().cloned().chain(kept.unwrap_or_default()));
        let raw_state = Some(RawState { json: Bytes::copy_from_slice(json.as_bytes()) });
        let message = Upgrade { type_name: of.name.to_string(), version, raw_state };
        let answer = match self.ask(self.process.calls.upgrade(message)).await {
            Ok(answer) => answer,
            Err(status) => return Err(self.severed(&doing, status, hidden).await),
        };
        let hidden = &self.secrets_told(of, &answer.diagnostics, &answer.state, hidden);
        if let Some(error) = said(&doing, &answer.diagnostics, hidden) {
            return Err(error);
        }
        let state = self.read_value(answer.state, &of.schema.value_type, &doing)?;
        if state.is_null() {
            let text = format!("{doing}: provider `{}` makes nothing of it", self.name);
            return Err(Error::unexpected(text)
                .hint("this is a mistake of the provider; its maintainers want to know"));
        }
        let state = settled(&of.schema.block, state);
        self.answered.put_state(asked, &of.schema.value_type, &state, json);
        Ok(state)
    }

    /// Remembers that a state, which will be kept as this text, is in the form in which this process told it.
    pub(crate) fn told_as(&self, of: &ResourceType, state: &Value, json: &str) {
        let asked = Asked::state(of, of.schema.version, json);
        self.answered.put_state(asked, &of.schema.value_type, state, json);
    }

    /// Reads a resource; null is gone.
    pub async fn read(
        &self,
        cx: &Cx,
        of: &ResourceType,
        known: &Known,
        hidden: &Hidden,
    ) -> Result<Known, Error> {
        self.turn(cx, Class::Reads).await;
        self.read_at_once(of, known, hidden).await
    }

    /// The same for whoever has waited for its turn.
    pub(crate) async fn read_at_once(
        &self,
        of: &ResourceType,
        known: &Known,
        hidden: &Hidden,
    ) -> Result<Known, Error> {
        let doing = format!("read a {}", of.name);
        let hidden = &self.secrets(of, &[&known.state], hidden);
        let identity_type = self.identity_type(of, hidden).await?;
        let message = Read {
            type_name: of.name.to_string(),
            current: Some(write_value(&known.state, &of.schema.value_type)),
            private: known.private.clone().into(),
            provider_meta: self.meta(),
            capabilities: None,
            identity: known.identity_data(identity_type),
        };
        let answer = match self.ask(self.process.calls.read(message)).await {
            Ok(answer) => answer,
            Err(status) => return Err(self.severed(&doing, status, hidden).await),
        };
        let hidden = &self.secrets_told(of, &answer.diagnostics, &answer.state, hidden);
        if let Some(error) = self.heard(Class::Reads, &doing, &answer.diagnostics, hidden) {
            return Err(error);
        }
        let state = match answer.state.filter(says_something) {
            // The answer of some libraries for what is gone; Terraform and OpenTofu take it so.
            None => Value::Null,
            state => self.read_value(state, &of.schema.value_type, &doing)?,
        };
        if state.is_null() {
            return Ok(Known::new(Value::Null, answer.private.to_vec()));
        }
        // What is not said again is as it was.
        let identity = self.told(answer.identity, identity_type, &doing)?.or_else(|| known.identity.clone());
        Ok(Known { state: settled(&of.schema.block, state), private: answer.private.to_vec(), identity })
    }

    /// Reads a data source.
    ///
    /// Errors: also `Unexpected` when nothing is told: what is not there is an error of the provider.
    pub async fn read_data(
        &self,
        cx: &Cx,
        of: &ResourceType,
        config: &Value,
        hidden: &Hidden,
    ) -> Result<Value, Error> {
        let doing = format!("read data of {}", of.name);
        let hidden = &self.secrets(of, &[config], hidden);
        let of_type = &of.schema.value_type;
        let checked =
            self.ask(self.process.calls.validate_data(&of.name, write_value(config, of_type))).await;
        let diagnostics = match checked {
            Ok(answer) => answer.diagnostics,
            Err(status) => return Err(self.severed(&doing, status, hidden).await),
        };
        if let Some(mut error) = said(&doing, &diagnostics, hidden) {
            if error.kind == ErrorKind::Unexpected {
                error.kind = ErrorKind::Invalid;
            }
            return Err(error);
        }
        let message = ReadData {
            type_name: of.name.to_string(),
            config: Some(write_value(config, of_type)),
            provider_meta: self.meta(),
            capabilities: None,
        };
        self.turn(cx, Class::Reads).await;
        let answer = match self.ask(self.process.calls.read_data(message)).await {
            Ok(answer) => answer,
            Err(status) => return Err(self.severed(&doing, status, hidden).await),
        };
        let hidden = &self.secrets_told(of, &answer.diagnostics, &answer.state, hidden);
        if let Some(error) = self.heard(Class::Reads, &doing, &answer.diagnostics, hidden) {
            return Err(error);
        }
        let state = self.read_value(answer.state, of_type, &doing)?;
        match state.is_null() {
            true => Err(Error::unexpected(format!("{doing}: provider `{}` tells nothing", self.name))),
            false => Ok(settled(&of.schema.block, state)),
        }
    }

    /// Finds a resource by its id, or by its identity, which is written as an object: as much of it as the provider tells
    /// without reading.
    pub async fn import(
        &self,
        cx: &Cx,
        of: &ResourceType,
        id: &str,
        hidden: &Hidden,
    ) -> Result<Option<Known>, Error> {
        let doing = format!("find {} `{id}`", of.name);
        let hidden = &self.hidden.and(hidden.iter().cloned());
        let identity = self.identity(of, id, hidden).await?;
        let identity_type = self.identity_type(of, hidden).await?;
        let message = Import {
            type_name: of.name.to_string(),
            id: if identity.is_none() { id.into() } else { String::new() },
            capabilities: None,
            identity: identity.map(|identity| IdentityData { identity: Some(identity) }),
        };
        self.turn(cx, Class::Reads).await;
        let answer = match self.ask(self.process.calls.import(message)).await {
            Ok(answer) => answer,
            Err(status) => return Err(self.severed(&doing, status, hidden).await),
        };
        let told = answer.resources.iter().filter(|found| *found.type_name == *of.name);
        let told = told.filter_map(|found| found.state.as_ref());
        let hidden = &self.secrets_told(of, &answer.diagnostics, told, hidden);
        if let Some(error) = self.heard(Class::Reads, &doing, &answer.diagnostics, hidden) {
            return Err(error);
        }
        // A provider may tell of others that belong to it; they have manifests of their own.
        let Some(found) = answer.resources.into_iter().find(|found| *found.type_name == *of.name) else {
            return Ok(None);
        };
        let state = self.read_value(found.state, &of.schema.value_type, &doing)?;
        if state.is_null() {
            return Ok(None);
        }
        let identity = self.told(found.identity, identity_type, &doing)?;
        let (state, private) = (settled(&of.schema.block, state), found.private.to_vec());
        Ok(Some(Known { state, private, identity }))
    }
}
