//! What a provider is asked of identities, and what it says of them.
//!
//! *Guarantees*: what a provider says of an identity loses no state: one that cannot be read after a change is as good as none.

use super::{
    Plugin,
    identity::{Identity, IdentityType, Types, identified},
    value::write_value,
};
use crate::{
    catalog::ResourceType,
    cty::{self, Type},
    hidden::Hidden,
    said::said,
    wire::{
        Status,
        message::{DynamicValue, IdentityData, IdentitySchemas, RawState, UpgradeIdentity},
    },
};
use prost::bytes::Bytes;
use reconciled_provider::Error;
use serde_json::{Map, Value as Json};

impl Plugin {
    /// What `import` says identifies a resource: an object, where the type has an identity. None for an id, which may look
    /// like an object to a type without.
    ///
    /// Errors: `Invalid` for what does not identify a resource of the type.
    pub(super) async fn identity(
        &self,
        of: &ResourceType,
        import: &str,
        hidden: &Hidden,
    ) -> Result<Option<DynamicValue>, Error> {
        let Ok(given) = serde_json::from_str::<Map<String, Json>>(import) else { return Ok(None) };
        let Some(identity) = self.identity_type(of, hidden).await? else { return Ok(None) };
        let value = identified(&identity.attributes, &given).map_err(|(why, hint)| {
            let error = Error::invalid(format!("find a {} by its identity: {why}", of.name));
            error.hint_if(hint)
        })?;
        Ok(Some(write_value(&value, &identity.of)))
    }

    /// What identifies resources of a type, if they have that.
    pub(super) async fn identity_type(
        &self,
        of: &ResourceType,
        hidden: &Hidden,
    ) -> Result<Option<&IdentityType>, Error> {
        let types = self.identities.get_or_try_init(|| self.identity_types(hidden)).await?;
        Ok(types.get(&*of.name))
    }

    async fn identity_types(&self, hidden: &Hidden) -> Result<Types, Error> {
        let doing = "ask what identifies resources";
        let schemas = match self.ask(self.process.calls.identity_schemas()).await {
            Ok(schemas) => match said(doing, &schemas.diagnostics, hidden) {
                Some(error) => return Err(error),
                None => schemas,
            },
            // Of a time before identities.
            Err(Status::Code(12, _)) => IdentitySchemas::default(),
            Err(status) => return Err(self.severed(doing, status, hidden).await),
        };
        let types = schemas.identity_schemas.into_iter().map(|(name, schema)| {
            let parts = schema.attributes.iter().map(|part| {
                let of = Type::parse(&part.type_json).map_err(|why| {
                    Error::unsupported(format!("{doing}: `{}` of {name}: {why}", part.name))
                })?;
                Ok((part.name.as_str().into(), of))
            });
            let of = Type::Object(parts.collect::<Result<_, Error>>()?);
            Ok((name, IdentityType { version: schema.version, attributes: schema.attributes, of }))
        });
        types.collect()
    }

    /// Brings a kept identity into today's form.
    ///
    /// Errors: `Unsupported` for one of a newer version of the provider.
    pub(crate) async fn upgrade_identity(
        &self,
        of: &ResourceType,
        kept: Option<&Identity>,
        hidden: &Hidden,
    ) -> Result<Option<Identity>, Error> {
        let Some(kept) = kept else { return Ok(None) };
        let Some(identity) = self.identity_type(of, hidden).await? else { return Ok(None) };
        if kept.version == identity.version {
            // In one order, whoever wrote it.
            let value = cty::read_json(kept.value.as_bytes(), &identity.of).ok();
            return Ok(value.and_then(|value| identity.write(&value)));
        }
        let doing = format!("read the identity of a {}", of.name);
        if kept.version > identity.version {
            return Err(Error::unsupported(format!("{doing}: it is from a newer version of the provider"))
                .hint("install that version again, or a newer one"));
        }
        let raw_identity = Some(RawState { json: Bytes::copy_from_slice(kept.value.as_bytes()) });
        let message = UpgradeIdentity { type_name: of.name.to_string(), version: kept.version, raw_identity };
        match self.ask(self.process.calls.upgrade_identity(message)).await {
            Ok(answer) => match said(&doing, &answer.diagnostics, hidden) {
                Some(error) => Err(error),
                None => self.told(answer.identity, Some(identity), &doing),
            },
            // The next read says what it is.
            Err(Status::Code(12, _)) => Ok(None),
            Err(status) => Err(self.severed(&doing, status, hidden).await),
        }
    }

    /// What a provider said of an identity.
    ///
    /// Errors: `Unexpected` when that is none.
    pub(super) fn told(
        &self,
        said: Option<IdentityData>,
        of: Option<&IdentityType>,
        doing: &str,
    ) -> Result<Option<Identity>, Error> {
        let (Some(of), Some(data)) = (of, said.and_then(|said| said.identity)) else { return Ok(None) };
        if data.msgpack.is_empty() && data.json.is_empty() {
            return Ok(None);
        }
        let value = self.read_value(Some(data), &of.of, doing)?;
        if !value.is_known() {
            let text = format!("{doing}: provider `{}` does not know what identifies it", self.name);
            return Err(Error::unexpected(text)
                .hint("this is a mistake of the provider; its maintainers want to know"));
        }
        Ok(of.write(&value))
    }
}
