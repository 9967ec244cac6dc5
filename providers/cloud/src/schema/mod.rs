//! Schemas of resource types: what may be declared, and what its values are.
//!
//! `config` reads YAML by a schema, `canonical` is the form in which a declaration is compared and kept, `outputs` is what
//! others may refer to, `describe` tells a schema to people.

pub mod canonical;
pub mod config;
mod describe;
#[cfg(test)]
pub(crate) mod fixture;
pub mod outputs;

pub use describe::json_schema;

use crate::{
    cty::{Type, Value},
    wire::message,
};
use std::{collections::BTreeMap, sync::Arc};

/// The schema of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// Raised by the provider when the form of its state changes.
    pub version: i64,
    /// What it is made of.
    pub block: Block,
    /// The type of its values.
    pub value_type: Type,
}

/// Attributes and blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Attributes by name.
    pub attributes: BTreeMap<Arc<str>, Attribute>,
    /// Blocks by name.
    pub blocks: BTreeMap<Arc<str>, NestedBlock>,
    /// In words.
    pub description: String,
}

/// An attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// The type of its values.
    pub value_type: Type,
    /// Attributes of its own.
    pub nested: Option<Nested>,
    /// It must be declared.
    pub required: bool,
    /// It may be declared.
    pub optional: bool,
    /// The provider may fill it in.
    pub computed: bool,
    /// It is a secret.
    pub sensitive: bool,
    /// It is given to the provider and never comes back.
    pub write_only: bool,
    /// It goes away one day.
    pub deprecated: bool,
    /// In words.
    pub description: String,
}

/// How what is nested is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nesting {
    /// One or none.
    Single,
    /// As [`Nesting::Single`], and always there.
    Group,
    /// In order.
    List,
    /// In no order.
    Set,
    /// By text.
    Map,
}

/// The attributes of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Nested {
    /// How they are held.
    pub nesting: Nesting,
    /// Attributes by name.
    pub attributes: BTreeMap<Arc<str>, Attribute>,
}

/// A block within a block.
#[derive(Clone, Debug, PartialEq)]
pub struct NestedBlock {
    /// How it is held.
    pub nesting: Nesting,
    /// What it is made of.
    pub block: Block,
    /// At least as many.
    pub min: usize,
    /// At most as many; 0 is no limit.
    pub max: usize,
    /// It goes away one day.
    pub deprecated: bool,
}

impl Nesting {
    /// `value`, held this way, with `of` each that it holds; nothing stays nothing.
    pub(crate) fn each(self, value: &Value, of: &dyn Fn(&Value) -> Value) -> Value {
        match (value, self) {
            (Value::Null, _) => Value::Null,
            (Value::Seq(all), Nesting::Set) => Value::set(all.iter().map(of).collect()),
            (Value::Seq(all), _) => Value::Seq(all.iter().map(of).collect()),
            (Value::Map(all), Nesting::Map) => {
                Value::Map(all.iter().map(|(key, one)| (key.clone(), of(one))).collect())
            }
            (one, _) => of(one),
        }
    }
    fn of(number: i32) -> Result<Nesting, String> {
        match number {
            1 => Ok(Nesting::Single),
            2 => Ok(Nesting::List),
            3 => Ok(Nesting::Set),
            4 => Ok(Nesting::Map),
            5 => Ok(Nesting::Group),
            other => Err(format!("nesting {other} is not known")),
        }
    }
    fn hold(self, inner: Type) -> Type {
        match self {
            Nesting::Single | Nesting::Group => inner,
            Nesting::List => Type::List(inner.into()),
            Nesting::Set => Type::Set(inner.into()),
            Nesting::Map => Type::Map(inner.into()),
        }
    }
}

impl Schema {
    /// Reads a schema.
    ///
    /// Errors: what of it is not understood.
    pub fn of(message: message::Schema) -> Result<Schema, String> {
        let block = Block::of(message.block.unwrap_or_default())?;
        Ok(Schema { version: message.version, value_type: block.value_type(), block })
    }
}

impl Block {
    fn of(message: message::Block) -> Result<Block, String> {
        let mut block = Block { description: message.description, ..Block::default() };
        block.attributes = attributes(message.attributes)?;
        for nested in message.block_types {
            let inner = nested.block.unwrap_or_default();
            let inner = NestedBlock {
                nesting: Nesting::of(nested.nesting)?,
                deprecated: inner.deprecated,
                block: Block::of(inner)?,
                min: usize::try_from(nested.min_items).unwrap_or(0),
                max: usize::try_from(nested.max_items).unwrap_or(0),
            };
            block.blocks.insert(nested.type_name.into(), inner);
        }
        Ok(block)
    }

    /// The type of its values.
    pub fn value_type(&self) -> Type {
        let attributes =
            self.attributes.iter().map(|(name, attribute)| (name.clone(), attribute.value_type.clone()));
        let blocks = self
            .blocks
            .iter()
            .map(|(name, nested)| (name.clone(), nested.nesting.hold(nested.block.value_type())));
        Type::Object(attributes.chain(blocks).collect())
    }

    /// True when a part of it is a secret.
    pub fn has_secret(&self) -> bool {
        self.attributes.values().any(Attribute::has_secret)
            || self.blocks.values().any(|b| b.block.has_secret())
    }

    /// What a block is where nothing is declared: attributes are null, lists of blocks empty.
    pub fn empty(&self) -> Value {
        let attributes = self.attributes.keys().map(|name| (name.clone(), Value::Null));
        let blocks = self.blocks.iter().map(|(name, nested)| (name.clone(), nested.empty()));
        Value::Map(attributes.chain(blocks).collect())
    }
}

impl NestedBlock {
    /// What stands for none of it.
    pub fn empty(&self) -> Value {
        match self.nesting {
            Nesting::Single => Value::Null,
            Nesting::Group => self.block.empty(),
            Nesting::List | Nesting::Set => Value::Seq(Vec::new()),
            Nesting::Map => Value::Map(BTreeMap::new()),
        }
    }
}

fn attributes(messages: Vec<message::Attribute>) -> Result<BTreeMap<Arc<str>, Attribute>, String> {
    let mut all = BTreeMap::new();
    for message in messages {
        let nested = match message.nested_type {
            Some(nested) => Some(Nested {
                nesting: Nesting::of(nested.nesting)?,
                attributes: attributes(nested.attributes)?,
            }),
            None => None,
        };
        let value_type = match &nested {
            Some(nested) => nested.nesting.hold(nested.value_type()),
            None => Type::parse(&message.type_json)?,
        };
        let attribute = Attribute {
            value_type,
            nested,
            required: message.required,
            optional: message.optional,
            computed: message.computed,
            sensitive: message.sensitive,
            write_only: message.write_only,
            deprecated: message.deprecated,
            description: message.description,
        };
        all.insert(message.name.into(), attribute);
    }
    Ok(all)
}

impl Nested {
    fn value_type(&self) -> Type {
        let fields =
            self.attributes.iter().map(|(name, attribute)| (name.clone(), attribute.value_type.clone()));
        Type::Object(fields.collect())
    }
}

impl Attribute {
    /// True when a manifest may declare it.
    pub fn is_declarable(&self) -> bool {
        self.required || self.optional
    }
    /// True when all of it is a secret: what never comes back is never shown either.
    pub fn is_secret(&self) -> bool {
        self.sensitive || self.write_only
    }
    /// True when it, or a part of it, is a secret.
    pub fn has_secret(&self) -> bool {
        let inner = self.nested.iter().flat_map(|nested| nested.attributes.values());
        self.is_secret() || inner.into_iter().any(Attribute::has_secret)
    }
}
