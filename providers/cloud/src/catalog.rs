//! What a provider's schemas say, read as far as they are asked for.
//!
//! A large provider has a thousand types, of which few are used: each stays as the bytes it came in until somebody asks.

use crate::{
    hidden::Hidden,
    said::said,
    schema::Schema,
    wire::{self, Protocol},
};
use prost::bytes::Bytes;
use reconciled_provider::Error;
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// A type of resources, as a provider knows it.
#[derive(Clone, Debug)]
pub struct ResourceType {
    /// `aws_sqs_queue`.
    pub name: Arc<str>,
    /// Its schema.
    pub schema: Arc<Schema>,
}

/// The schemas of one provider.
pub struct Catalog {
    protocol: Protocol,
    /// The schema of its configuration.
    pub provider: Schema,
    /// The schema of what may be said of the module that a resource is in.
    pub(crate) meta: Option<Schema>,
    plans_deletions: bool,
    resources: Types,
    data: Types,
    lists: Types,
    read: Mutex<Read>,
}

/// Schemas as they came, by type.
type Types = BTreeMap<Arc<str>, Vec<u8>>;

/// What a type is of: they may have one name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    Resource,
    Data,
    List,
}

/// Schemas that somebody asked for.
type Read = HashMap<(What, Arc<str>), Arc<Schema>>;

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("types", &self.resources.len()).finish_non_exhaustive()
    }
}

impl Catalog {
    /// Reads what a provider answered when it was asked for its schemas.
    ///
    /// Errors: `Unsupported` when it is no such answer.
    pub fn read(bytes: Bytes, protocol: Protocol) -> Result<Catalog, Error> {
        let wrong = |why: String| Error::unsupported(format!("read the schemas of the provider: {why}"));
        let schemas = wire::schemas(bytes, protocol).map_err(|error| wrong(error.to_string()))?;
        if let Some(error) =
            said("read the schemas of the provider", &schemas.diagnostics, &Hidden::default())
        {
            return Err(error);
        }
        let capabilities = schemas.capabilities.unwrap_or_default();
        let types = |all: HashMap<String, Vec<u8>>| {
            all.into_iter().map(|(name, bytes)| (name.into(), bytes)).collect()
        };
        Ok(Catalog {
            protocol,
            provider: Schema::of(schemas.provider.unwrap_or_default()).map_err(wrong)?,
            meta: schemas.provider_meta.map(Schema::of).transpose().map_err(wrong)?,
            plans_deletions: capabilities.plan_destroy,
            resources: types(schemas.resources),
            data: types(schemas.data_sources),
            lists: types(schemas.list_resources),
            read: Mutex::default(),
        })
    }

    /// True when `other` says the same. Its bytes may differ: a message says in no certain order what types there are.
    pub(crate) fn is_same(&self, other: &Catalog) -> bool {
        let (of_meta, of_other) = (self.meta.as_ref(), other.meta.as_ref());
        let are_same = |types: &Types, others: &Types| {
            let mut pairs = types.iter().zip(others);
            types.len() == others.len()
                && pairs.all(|((name, bytes), (other_name, other_bytes))| {
                    name == other_name
                        && (bytes == other_bytes || self.parse(bytes).ok() == other.parse(other_bytes).ok())
                })
        };
        (self.protocol, self.plans_deletions) == (other.protocol, other.plans_deletions)
            && (&self.provider, of_meta) == (&other.provider, of_other)
            && are_same(&self.resources, &other.resources)
            && are_same(&self.data, &other.data)
            && are_same(&self.lists, &other.lists)
    }

    fn parse(&self, bytes: &[u8]) -> Result<Schema, String> {
        let message = wire::schema(bytes, self.protocol).map_err(|error| error.to_string())?;
        Schema::of(message)
    }

    /// The types of resources, sorted.
    pub fn types(&self) -> impl Iterator<Item = &Arc<str>> {
        self.resources.keys()
    }

    /// A type of resources.
    ///
    /// Errors: `Unsupported` when there is none of that name, or its schema is not understood.
    pub fn resource(&self, name: &str) -> Result<ResourceType, Error> {
        self.of(What::Resource, &self.resources, name, "resource type")
    }

    /// A data source.
    ///
    /// Errors: as [`Catalog::resource`].
    pub fn data_source(&self, name: &str) -> Result<ResourceType, Error> {
        self.of(What::Data, &self.data, name, "data source")
    }

    /// The types whose resources can be listed, sorted.
    pub fn listable(&self) -> impl Iterator<Item = &Arc<str>> {
        self.lists.keys()
    }

    /// What may be asked of a type whose resources can be listed; none for other types.
    ///
    /// Errors: `Unsupported` when its schema is not understood.
    pub fn list(&self, name: &str) -> Result<Option<ResourceType>, Error> {
        match self.lists.contains_key(name) {
            true => self.of(What::List, &self.lists, name, "list").map(Some),
            false => Ok(None),
        }
    }

    fn of(&self, what: What, all: &Types, name: &str, word: &str) -> Result<ResourceType, Error> {
        let Some((name, bytes)) = all.get_key_value(name) else {
            let near = reconciled_provider::problem::did_you_mean(name, all.keys().map(|name| &**name));
            let error = Error::unsupported(format!("the provider has no {word} `{name}`"));
            return Err(match near {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error,
            });
        };
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (what, name.clone());
        if let Some(schema) = read.get(&key) {
            return Ok(ResourceType { name: name.clone(), schema: schema.clone() });
        }
        let wrong = |why: String| Error::unsupported(format!("read the schema of {name}: {why}"));
        let schema = Arc::new(self.parse(bytes).map_err(wrong)?);
        read.insert(key, schema.clone());
        Ok(ResourceType { name: name.clone(), schema })
    }

    /// True when the provider wants to be asked before a deletion.
    pub fn plans_deletions(&self) -> bool {
        self.plans_deletions
    }
}
