//! What things are made of.

use prost::Message;
use reconciled_cloud::wire::message::{
    Attribute, Block, IdentityAttribute, IdentitySchema, IdentitySchemas, NestedBlock, Schema,
    ServerCapabilities, v5,
};
use std::collections::HashMap;

/// Rights of an attribute, in letters: `r`equired, `o`ptional, `c`omputed, `s`ensitive.
fn attribute(name: &str, of: &str, rights: &str) -> Attribute {
    Attribute {
        name: name.into(),
        type_json: of.as_bytes().to_vec(),
        required: rights.contains('r'),
        optional: rights.contains('o'),
        computed: rights.contains('c'),
        sensitive: rights.contains('s'),
        ..Attribute::default()
    }
}

fn nested(name: &str, nesting: i32, attributes: Vec<Attribute>) -> NestedBlock {
    let block = Some(Block { attributes, ..Block::default() });
    NestedBlock { type_name: name.into(), nesting, block, ..NestedBlock::default() }
}

const TEXT: &str = r#""string""#;
const NUMBER: &str = r#""number""#;

/// The provider's own configuration.
pub(crate) fn provider() -> Schema {
    let attributes = vec![attribute("directory", TEXT, "r"), attribute("token", TEXT, "os")];
    Schema { version: 0, block: Some(Block { attributes, ..Block::default() }) }
}

/// `toy_thing`: everything that things can have. Its version can be set, for upgrades: from 2 on, things have a color.
pub(crate) fn thing(version: i64) -> Schema {
    let mut attributes = vec![
        attribute("id", TEXT, "c"),
        attribute("name", TEXT, "r"),
        attribute("content", TEXT, "o"),
        attribute("size", NUMBER, "c"),
        attribute("uid", TEXT, "c"),
        attribute("level", NUMBER, "oc"),
        attribute("tags", r#"["map","string"]"#, "o"),
        attribute("words", r#"["set","string"]"#, "o"),
        // What may be declared here, or by others.
        attribute("parts", r#"["set",["object",{"port":"number","word":"string"}]]"#, "oc"),
        attribute("secret", TEXT, "os"),
        attribute("fault", TEXT, "o"),
        attribute("delay_ms", NUMBER, "o"),
    ];
    attributes.extend((version > 1).then(|| attribute("color", TEXT, "oc")));
    let rule = vec![attribute("port", NUMBER, "r"), attribute("protocol", TEXT, "oc")];
    let label = vec![attribute("key", TEXT, "r"), attribute("value", TEXT, "oc")];
    let mut label = nested("label", 3, label);
    // Others may declare it by now.
    label.block.iter_mut().for_each(|block| block.deprecated = true);
    let limit = NestedBlock { max_items: 1, ..nested("limit", 2, vec![attribute("most", NUMBER, "r")]) };
    let block_types = vec![nested("rule", 2, rule), label, limit];
    Schema { version, block: Some(Block { attributes, block_types, ..Block::default() }) }
}

/// A thing is found by its name, and identified by its number; from version 2 on, by its place too.
pub(crate) fn identity(version: i64) -> IdentitySchema {
    let attribute = |name: &str, required_for_import| IdentityAttribute {
        name: name.into(),
        type_json: TEXT.as_bytes().to_vec(),
        required_for_import,
    };
    let mut attributes = vec![attribute("name", true), attribute("number", false)];
    attributes.extend((version > 1).then(|| attribute("place", false)));
    IdentitySchema { version: version - 1, attributes }
}

/// Of those types that have one.
pub(crate) fn identities(version: i64) -> IdentitySchemas {
    let schema = identity(version);
    let identity_schemas = HashMap::from([("toy_thing".into(), schema)]);
    IdentitySchemas { identity_schemas, diagnostics: Vec::new() }
}

/// `toy_trivial`: nothing is done for it, but that a password is made where its input asks for one.
pub(crate) fn trivial() -> Schema {
    let attributes =
        vec![attribute("id", TEXT, "c"), attribute("input", TEXT, "o"), attribute("password", TEXT, "cs")];
    Schema { version: 0, block: Some(Block { attributes, ..Block::default() }) }
}

/// The data source `toy_thing`: a thing by its name.
pub(crate) fn data() -> Schema {
    let attributes = vec![
        attribute("name", TEXT, "r"),
        attribute("id", TEXT, "c"),
        attribute("content", TEXT, "c"),
        attribute("secret", TEXT, "cs"),
    ];
    Schema { version: 0, block: Some(Block { attributes, ..Block::default() }) }
}

/// What may be asked where things are listed.
pub(crate) fn list() -> Schema {
    let attributes = vec![attribute("prefix", TEXT, "o"), attribute("words", r#"["list","string"]"#, "o")];
    Schema { version: 0, block: Some(Block { attributes, ..Block::default() }) }
}

/// `toy_trivial`: where they are remains to be said, and there are none.
fn list_of_trivial() -> Schema {
    let attributes = vec![attribute("shelf", TEXT, "r")];
    Schema { version: 0, block: Some(Block { attributes, ..Block::default() }) }
}

/// The answer of protocol 6.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Answer {
    #[prost(message, optional, tag = "1")]
    provider: Option<Schema>,
    #[prost(map = "string, message", tag = "2")]
    resources: HashMap<String, Schema>,
    #[prost(map = "string, message", tag = "3")]
    data: HashMap<String, Schema>,
    #[prost(message, optional, tag = "6")]
    capabilities: Option<ServerCapabilities>,
    #[prost(map = "string, message", tag = "9")]
    lists: HashMap<String, Schema>,
}

/// The answer of protocol 5.
#[derive(Clone, PartialEq, Message)]
struct Answer5 {
    #[prost(message, optional, tag = "1")]
    provider: Option<v5::Schema>,
    #[prost(map = "string, message", tag = "2")]
    resources: HashMap<String, v5::Schema>,
    #[prost(map = "string, message", tag = "3")]
    data: HashMap<String, v5::Schema>,
    #[prost(message, optional, tag = "6")]
    capabilities: Option<ServerCapabilities>,
    #[prost(map = "string, message", tag = "9")]
    lists: HashMap<String, v5::Schema>,
}

/// All schemas, as `protocol` writes them; with those of lists where things `can_be_listed`, and with a `description` of
/// things.
pub(crate) fn all(protocol: u8, version: i64, can_be_listed: bool, description: String) -> Vec<u8> {
    let capabilities = Some(ServerCapabilities { plan_destroy: true, get_provider_schema_optional: true });
    let mut thing = thing(version);
    thing.block.iter_mut().for_each(|block| block.description.clone_from(&description));
    let types = [("toy_thing", thing), ("toy_trivial", trivial())];
    let lists = [("toy_thing", list()), ("toy_trivial", list_of_trivial())];
    let lists = lists.into_iter().filter(|_| can_be_listed);
    match protocol {
        5 => {
            let lists = lists.map(|(name, schema)| (name.to_string(), old(schema))).collect();
            let resources = types.into_iter().map(|(name, schema)| (name.to_string(), old(schema))).collect();
            let data = [("toy_thing".to_string(), old(data()))].into();
            Answer5 { provider: Some(old(provider())), resources, data, capabilities, lists }.encode_to_vec()
        }
        _ => {
            let lists = lists.map(|(name, schema)| (name.to_string(), schema)).collect();
            let resources = types.into_iter().map(|(name, schema)| (name.to_string(), schema)).collect();
            let data = [("toy_thing".to_string(), data())].into();
            Answer { provider: Some(provider()), resources, data, capabilities, lists }.encode_to_vec()
        }
    }
}

fn old(schema: Schema) -> v5::Schema {
    let block = schema.block.unwrap_or_default();
    v5::Schema { version: schema.version, block: Some(old_block(block)) }
}

fn old_block(block: Block) -> v5::Block {
    let attribute = |a: Attribute| v5::Attribute {
        name: a.name,
        type_json: a.type_json,
        required: a.required,
        optional: a.optional,
        computed: a.computed,
        sensitive: a.sensitive,
        ..v5::Attribute::default()
    };
    let nested = |n: NestedBlock| v5::NestedBlock {
        type_name: n.type_name,
        block: n.block.map(old_block),
        nesting: n.nesting,
        max_items: n.max_items,
        ..v5::NestedBlock::default()
    };
    v5::Block {
        attributes: block.attributes.into_iter().map(attribute).collect(),
        block_types: block.block_types.into_iter().map(nested).collect(),
        description: block.description,
        deprecated: block.deprecated,
    }
}
