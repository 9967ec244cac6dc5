//! The messages of Terraform's plugin protocols 5 and 6, as far as they are used.
//!
//! One set serves both: field by field the two protocols are the same, apart from three fields of [`Attribute`] and
//! from names of calls. Written from the tables of the protocol's documentation; fields that nobody reads are left
//! out, and what a newer provider adds is skipped.

use prost::Message;
use prost::bytes::Bytes;
use std::collections::HashMap;

/// A value: always MessagePack in what providers answer.
#[derive(Clone, PartialEq, Message)]
pub struct DynamicValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub msgpack: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub json: Bytes,
}

/// What a provider has to say to a person.
#[derive(Clone, PartialEq, Message)]
pub struct Diagnostic {
    /// 1 error, 2 warning.
    #[prost(int32, tag = "1")]
    pub severity: i32,
    #[prost(string, tag = "2")]
    pub summary: String,
    #[prost(string, tag = "3")]
    pub detail: String,
    #[prost(message, optional, tag = "4")]
    pub attribute: Option<AttributePath>,
}

/// Where in a value.
#[derive(Clone, PartialEq, Message)]
pub struct AttributePath {
    #[prost(message, repeated, tag = "1")]
    pub steps: Vec<Step>,
}

/// One step of a path.
#[derive(Clone, PartialEq, Message)]
pub struct Step {
    #[prost(oneof = "Selector", tags = "1, 2, 3")]
    pub selector: Option<Selector>,
}

/// What a step selects.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Selector {
    #[prost(string, tag = "1")]
    AttributeName(String),
    #[prost(string, tag = "2")]
    ElementKeyString(String),
    #[prost(int64, tag = "3")]
    ElementKeyInt(i64),
}

/// No fields.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Empty {}

/// The schemas of a provider. Those of resources are left as they came: hundreds, of which few are used.
#[derive(Clone, PartialEq, Message)]
pub struct Schemas {
    #[prost(message, optional, tag = "1")]
    pub provider: Option<Schema>,
    #[prost(map = "string, bytes", tag = "2")]
    pub resources: HashMap<String, Vec<u8>>,
    #[prost(map = "string, bytes", tag = "3")]
    pub data_sources: HashMap<String, Vec<u8>>,
    #[prost(message, repeated, tag = "4")]
    pub diagnostics: Vec<Diagnostic>,
    #[prost(message, optional, tag = "5")]
    pub provider_meta: Option<Schema>,
    #[prost(message, optional, tag = "6")]
    pub capabilities: Option<ServerCapabilities>,
    /// What may be asked of a type whose resources can be listed.
    #[prost(map = "string, bytes", tag = "9")]
    pub list_resources: HashMap<String, Vec<u8>>,
}

/// What a provider can do.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ServerCapabilities {
    #[prost(bool, tag = "1")]
    pub plan_destroy: bool,
    #[prost(bool, tag = "2")]
    pub get_provider_schema_optional: bool,
}

/// What we can do.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ClientCapabilities {
    #[prost(bool, tag = "1")]
    pub deferral_allowed: bool,
    #[prost(bool, tag = "2")]
    pub write_only_attributes_allowed: bool,
}

/// The schema of one type.
#[derive(Clone, PartialEq, Message)]
pub struct Schema {
    #[prost(int64, tag = "1")]
    pub version: i64,
    #[prost(message, optional, tag = "2")]
    pub block: Option<Block>,
}

/// Attributes and blocks.
#[derive(Clone, PartialEq, Message)]
pub struct Block {
    #[prost(message, repeated, tag = "2")]
    pub attributes: Vec<Attribute>,
    #[prost(message, repeated, tag = "3")]
    pub block_types: Vec<NestedBlock>,
    #[prost(string, tag = "4")]
    pub description: String,
    #[prost(bool, tag = "6")]
    pub deprecated: bool,
}

/// A block within a block.
#[derive(Clone, PartialEq, Message)]
pub struct NestedBlock {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(message, optional, tag = "2")]
    pub block: Option<Block>,
    /// 1 single, 2 list, 3 set, 4 map, 5 group.
    #[prost(int32, tag = "3")]
    pub nesting: i32,
    #[prost(int64, tag = "4")]
    pub min_items: i64,
    #[prost(int64, tag = "5")]
    pub max_items: i64,
}

/// An attribute. Tag 10 is `write_only` in protocol 5 and `nested_type` in 6: see [`Attribute::nested`].
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub type_json: Vec<u8>,
    #[prost(string, tag = "3")]
    pub description: String,
    #[prost(bool, tag = "4")]
    pub required: bool,
    #[prost(bool, tag = "5")]
    pub optional: bool,
    #[prost(bool, tag = "6")]
    pub computed: bool,
    #[prost(bool, tag = "7")]
    pub sensitive: bool,
    #[prost(bool, tag = "9")]
    pub deprecated: bool,
    /// Protocol 6.
    #[prost(message, optional, tag = "10")]
    pub nested_type: Option<NestedType>,
    /// Protocol 6.
    #[prost(bool, tag = "11")]
    pub write_only: bool,
}

/// The type of an attribute with attributes of its own.
#[derive(Clone, PartialEq, Message)]
pub struct NestedType {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<Attribute>,
    /// 1 single, 2 list, 3 set, 4 map.
    #[prost(int32, tag = "3")]
    pub nesting: i32,
}

/// Schema as protocol 5 writes it: two of an attribute's fields have other tags.
pub mod v5 {
    use prost::Message;

    /// As [`super::Schema`].
    #[derive(Clone, PartialEq, Message)]
    pub struct Schema {
        #[prost(int64, tag = "1")]
        pub version: i64,
        #[prost(message, optional, tag = "2")]
        pub block: Option<Block>,
    }

    /// As [`super::Block`].
    #[derive(Clone, PartialEq, Message)]
    pub struct Block {
        #[prost(message, repeated, tag = "2")]
        pub attributes: Vec<Attribute>,
        #[prost(message, repeated, tag = "3")]
        pub block_types: Vec<NestedBlock>,
        #[prost(string, tag = "4")]
        pub description: String,
        #[prost(bool, tag = "6")]
        pub deprecated: bool,
    }

    /// As [`super::NestedBlock`].
    #[derive(Clone, PartialEq, Message)]
    pub struct NestedBlock {
        #[prost(string, tag = "1")]
        pub type_name: String,
        #[prost(message, optional, tag = "2")]
        pub block: Option<Block>,
        #[prost(int32, tag = "3")]
        pub nesting: i32,
        #[prost(int64, tag = "4")]
        pub min_items: i64,
        #[prost(int64, tag = "5")]
        pub max_items: i64,
    }

    /// As [`super::Attribute`], which has no type of its own to be nested in here.
    #[derive(Clone, PartialEq, Message)]
    pub struct Attribute {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(bytes = "vec", tag = "2")]
        pub type_json: Vec<u8>,
        #[prost(string, tag = "3")]
        pub description: String,
        #[prost(bool, tag = "4")]
        pub required: bool,
        #[prost(bool, tag = "5")]
        pub optional: bool,
        #[prost(bool, tag = "6")]
        pub computed: bool,
        #[prost(bool, tag = "7")]
        pub sensitive: bool,
        #[prost(bool, tag = "9")]
        pub deprecated: bool,
        #[prost(bool, tag = "10")]
        pub write_only: bool,
    }

    impl From<Schema> for super::Schema {
        fn from(schema: Schema) -> super::Schema {
            super::Schema { version: schema.version, block: schema.block.map(Into::into) }
        }
    }

    impl From<Block> for super::Block {
        fn from(block: Block) -> super::Block {
            super::Block {
                attributes: block.attributes.into_iter().map(Into::into).collect(),
                block_types: block.block_types.into_iter().map(Into::into).collect(),
                description: block.description,
                deprecated: block.deprecated,
            }
        }
    }

    impl From<NestedBlock> for super::NestedBlock {
        fn from(nested: NestedBlock) -> super::NestedBlock {
            super::NestedBlock {
                type_name: nested.type_name,
                block: nested.block.map(Into::into),
                nesting: nested.nesting,
                min_items: nested.min_items,
                max_items: nested.max_items,
            }
        }
    }

    impl From<Attribute> for super::Attribute {
        fn from(attribute: Attribute) -> super::Attribute {
            super::Attribute {
                name: attribute.name,
                type_json: attribute.type_json,
                description: attribute.description,
                required: attribute.required,
                optional: attribute.optional,
                computed: attribute.computed,
                sensitive: attribute.sensitive,
                deprecated: attribute.deprecated,
                nested_type: None,
                write_only: attribute.write_only,
            }
        }
    }
}

/// Asks whether a configuration of the provider is valid.
#[derive(Clone, PartialEq, Message)]
pub struct ValidateProvider {
    #[prost(message, optional, tag = "1")]
    pub config: Option<DynamicValue>,
}

/// Diagnostics behind what protocol 5 calls the prepared configuration, which nobody uses.
#[derive(Clone, PartialEq, Message)]
pub struct ValidatedProvider {
    #[prost(message, repeated, tag = "2")]
    pub diagnostics: Vec<Diagnostic>,
}

/// Gives the provider its configuration.
#[derive(Clone, PartialEq, Message)]
pub struct Configure {
    #[prost(string, tag = "1")]
    pub terraform_version: String,
    #[prost(message, optional, tag = "2")]
    pub config: Option<DynamicValue>,
    #[prost(message, optional, tag = "3")]
    pub capabilities: Option<ClientCapabilities>,
}

/// Diagnostics alone.
#[derive(Clone, PartialEq, Message)]
pub struct Diagnostics {
    #[prost(message, repeated, tag = "1")]
    pub diagnostics: Vec<Diagnostic>,
}

/// Asks whether a configuration of a resource or data source is valid.
#[derive(Clone, PartialEq, Message)]
pub struct Validate {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(message, optional, tag = "2")]
    pub config: Option<DynamicValue>,
    #[prost(message, optional, tag = "3")]
    pub capabilities: Option<ClientCapabilities>,
}

/// State as it was kept.
#[derive(Clone, PartialEq, Message)]
pub struct RawState {
    #[prost(bytes = "bytes", tag = "1")]
    pub json: Bytes,
}

/// Brings kept state into the form of today's schema.
#[derive(Clone, PartialEq, Message)]
pub struct Upgrade {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
    #[prost(message, optional, tag = "3")]
    pub raw_state: Option<RawState>,
}

/// The state in that form.
#[derive(Clone, PartialEq, Message)]
pub struct Upgraded {
    #[prost(message, optional, tag = "1")]
    pub state: Option<DynamicValue>,
    #[prost(message, repeated, tag = "2")]
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a resource.
#[derive(Clone, PartialEq, Message)]
pub struct Read {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(message, optional, tag = "2")]
    pub current: Option<DynamicValue>,
    #[prost(bytes = "bytes", tag = "3")]
    pub private: Bytes,
    #[prost(message, optional, tag = "4")]
    pub provider_meta: Option<DynamicValue>,
    #[prost(message, optional, tag = "5")]
    pub capabilities: Option<ClientCapabilities>,
    #[prost(message, optional, tag = "6")]
    pub identity: Option<IdentityData>,
}

/// What was read; a null state is gone.
#[derive(Clone, PartialEq, Message)]
pub struct ReadAnswer {
    #[prost(message, optional, tag = "1")]
    pub state: Option<DynamicValue>,
    #[prost(message, repeated, tag = "2")]
    pub diagnostics: Vec<Diagnostic>,
    #[prost(bytes = "bytes", tag = "3")]
    pub private: Bytes,
    #[prost(message, optional, tag = "5")]
    pub identity: Option<IdentityData>,
}

/// Reads a data source.
#[derive(Clone, PartialEq, Message)]
pub struct ReadData {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(message, optional, tag = "2")]
    pub config: Option<DynamicValue>,
    #[prost(message, optional, tag = "3")]
    pub provider_meta: Option<DynamicValue>,
    #[prost(message, optional, tag = "4")]
    pub capabilities: Option<ClientCapabilities>,
}

/// What a data source said.
#[derive(Clone, PartialEq, Message)]
pub struct DataAnswer {
    #[prost(message, optional, tag = "1")]
    pub state: Option<DynamicValue>,
    #[prost(message, repeated, tag = "2")]
    pub diagnostics: Vec<Diagnostic>,
}

/// Plans a change.
#[derive(Clone, PartialEq, Message)]
pub struct Plan {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(message, optional, tag = "2")]
    pub prior: Option<DynamicValue>,
    #[prost(message, optional, tag = "3")]
    pub proposed: Option<DynamicValue>,
    #[prost(message, optional, tag = "4")]
    pub config: Option<DynamicValue>,
    #[prost(bytes = "bytes", tag = "5")]
    pub private: Bytes,
    #[prost(message, optional, tag = "6")]
    pub provider_meta: Option<DynamicValue>,
    #[prost(message, optional, tag = "7")]
    pub capabilities: Option<ClientCapabilities>,
    #[prost(message, optional, tag = "8")]
    pub identity: Option<IdentityData>,
}

/// What would be.
#[derive(Clone, PartialEq, Message)]
pub struct Planned {
    #[prost(message, optional, tag = "1")]
    pub state: Option<DynamicValue>,
    #[prost(message, repeated, tag = "2")]
    pub requires_replace: Vec<AttributePath>,
    #[prost(bytes = "bytes", tag = "3")]
    pub private: Bytes,
    #[prost(message, repeated, tag = "4")]
    pub diagnostics: Vec<Diagnostic>,
    /// Made with the old SDK, of which less may be expected.
    #[prost(bool, tag = "5")]
    pub legacy_type_system: bool,
    #[prost(message, optional, tag = "7")]
    pub identity: Option<IdentityData>,
}

/// Carries out what was planned.
#[derive(Clone, PartialEq, Message)]
pub struct Apply {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(message, optional, tag = "2")]
    pub prior: Option<DynamicValue>,
    #[prost(message, optional, tag = "3")]
    pub planned: Option<DynamicValue>,
    #[prost(message, optional, tag = "4")]
    pub config: Option<DynamicValue>,
    #[prost(bytes = "bytes", tag = "5")]
    pub private: Bytes,
    #[prost(message, optional, tag = "6")]
    pub provider_meta: Option<DynamicValue>,
    #[prost(message, optional, tag = "7")]
    pub identity: Option<IdentityData>,
}

/// What is there now, also where it failed.
#[derive(Clone, PartialEq, Message)]
pub struct Applied {
    #[prost(message, optional, tag = "1")]
    pub state: Option<DynamicValue>,
    #[prost(bytes = "bytes", tag = "2")]
    pub private: Bytes,
    #[prost(message, repeated, tag = "3")]
    pub diagnostics: Vec<Diagnostic>,
    #[prost(bool, tag = "4")]
    pub legacy_type_system: bool,
    #[prost(message, optional, tag = "5")]
    pub identity: Option<IdentityData>,
}

/// Finds a resource by its id.
#[derive(Clone, PartialEq, Message)]
pub struct Import {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(string, tag = "2")]
    pub id: String,
    #[prost(message, optional, tag = "3")]
    pub capabilities: Option<ClientCapabilities>,
    /// In place of the id.
    #[prost(message, optional, tag = "4")]
    pub identity: Option<IdentityData>,
}

/// What identifies a resource.
#[derive(Clone, PartialEq, Message)]
pub struct IdentityData {
    #[prost(message, optional, tag = "1")]
    pub identity: Option<DynamicValue>,
}

/// What identifies resources, by their types.
#[derive(Clone, PartialEq, Message)]
pub struct IdentitySchemas {
    #[prost(map = "string, message", tag = "1")]
    pub identity_schemas: HashMap<String, IdentitySchema>,
    #[prost(message, repeated, tag = "2")]
    pub diagnostics: Vec<Diagnostic>,
}

/// What identifies resources of one type.
#[derive(Clone, PartialEq, Message)]
pub struct IdentitySchema {
    #[prost(int64, tag = "1")]
    pub version: i64,
    #[prost(message, repeated, tag = "2")]
    pub attributes: Vec<IdentityAttribute>,
}

/// A part of that.
#[derive(Clone, PartialEq, Message)]
pub struct IdentityAttribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub type_json: Vec<u8>,
    #[prost(bool, tag = "3")]
    pub required_for_import: bool,
}

/// Brings a kept identity into the form of today's schema.
#[derive(Clone, PartialEq, Message)]
pub struct UpgradeIdentity {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
    #[prost(message, optional, tag = "3")]
    pub raw_identity: Option<RawState>,
}

/// The identity in that form.
#[derive(Clone, PartialEq, Message)]
pub struct UpgradedIdentity {
    #[prost(message, optional, tag = "1")]
    pub identity: Option<IdentityData>,
    #[prost(message, repeated, tag = "2")]
    pub diagnostics: Vec<Diagnostic>,
}

/// Lists the resources of a type.
#[derive(Clone, PartialEq, Message)]
pub struct List {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(message, optional, tag = "2")]
    pub config: Option<DynamicValue>,
    #[prost(bool, tag = "3")]
    pub include_resource_object: bool,
    #[prost(int64, tag = "4")]
    pub limit: i64,
}

/// One of them: the answer is a stream of these.
#[derive(Clone, PartialEq, Message)]
pub struct Listed {
    #[prost(message, optional, tag = "1")]
    pub identity: Option<IdentityData>,
    #[prost(string, tag = "2")]
    pub display_name: String,
    #[prost(message, repeated, tag = "4")]
    pub diagnostics: Vec<Diagnostic>,
}

/// What was found.
#[derive(Clone, PartialEq, Message)]
pub struct ImportAnswer {
    #[prost(message, repeated, tag = "1")]
    pub resources: Vec<Imported>,
    #[prost(message, repeated, tag = "2")]
    pub diagnostics: Vec<Diagnostic>,
}

/// One resource that was found, so far by its id alone.
#[derive(Clone, PartialEq, Message)]
pub struct Imported {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(message, optional, tag = "2")]
    pub state: Option<DynamicValue>,
    #[prost(bytes = "bytes", tag = "3")]
    pub private: Bytes,
    #[prost(message, optional, tag = "4")]
    pub identity: Option<IdentityData>,
}
