//! The kinds of a provider: one for each type of its resources, and one for those whose names do not fit.

use crate::{
    catalog::Catalog,
    change, lifecycle,
    schema::{self, Block},
};
use reconciled_provider::{Deletion, Kind, Kinds, ResourceId, Scope, kind::Schema};
use serde_json::{Value as Json, json};
use std::{collections::BTreeMap, sync::Arc};

/// Value of `apiVersion` of what names its type itself.
pub const API_VERSION: &str = "terraform/v1";
/// Value of `kind` of what names its type itself.
pub const RESOURCE: &str = "Resource";
/// Value of `kind` of what is read and not managed.
pub const DATA: &str = "Data";
/// What the ids of data begin with.
const OF_DATA: &str = "data.";

/// Groups of this program: they win over a provider of the same name.
const OURS: [&str; 6] = ["dns", "local", "systemd", "cert", "terraform", "reconciled"];

/// True for a group of this program.
pub fn is_ours(group: &str) -> bool {
    OURS.contains(&group)
}

/// The kinds that are known without any provider.
pub fn static_kinds() -> Kinds {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let schema = json!({
        "type": "object",
        "properties": {
            "provider": text("Entry that carries it"),
            "type": text("Type of the resource, such as aws_sqs_queue"),
            "attributes": { "type": "object", "description": "Its attributes, by the schema of the type" },
            "lifecycle": lifecycle::schema(),
        },
        "required": ["type"],
        "additionalProperties": false,
    });
    let data = json!({
        "type": "object",
        "properties": {
            "provider": text("Entry that reads it"),
            "type": text("Data source, such as aws_caller_identity"),
            "attributes": { "type": "object", "description": "What is asked for, by its schema" },
        },
        "required": ["type"],
        "additionalProperties": false,
    });
    let kind = |name: &str, summary: &str, schema| Kind {
        api_versions: [Arc::from(API_VERSION)].into(),
        name: name.into(),
        summary: summary.into(),
        schema: Schema::of(schema),
    };
    Kinds(vec![
        kind(RESOURCE, "A resource of any type of a Terraform provider", schema),
        kind(DATA, "What a data source of a Terraform provider tells, for others to refer to", data),
    ])
}

/// The kinds of a provider; a type whose kind would be another's has none.
pub fn kinds(catalog: &Arc<Catalog>, source: &str) -> Kinds {
    let mut by_name: BTreeMap<(&str, String), Vec<&Arc<str>>> = BTreeMap::new();
    for name in catalog.types() {
        if let Some((group, rest)) = name.split_once('_').filter(|(group, _)| !is_ours(group)) {
            by_name.entry((group, camel(rest))).or_default().push(name);
        }
    }
    let mut kinds = static_kinds();
    for ((group, kind), types) in by_name {
        let [name] = types[..] else { continue };
        let (catalog, name) = (catalog.clone(), name.clone());
        let summary = format!("{name} of {source}").into();
        kinds.0.push(Kind {
            api_versions: [Arc::from(format!("{group}/v1"))].into(),
            name: kind.into(),
            summary,
            schema: Schema::deferred(move || {
                catalog.resource(&name).map_or_else(|_| json!({}), |found| of_type(&found.schema.block))
            }),
        });
    }
    kinds
}

/// The JSON Schema of `spec`: what the type has, and what this program adds.
fn of_type(block: &Block) -> Json {
    let mut schema = schema::json_schema(block);
    if lifecycle::is_ours(block) {
        schema["properties"][lifecycle::LIFECYCLE] = lifecycle::schema();
    }
    schema
}

/// The type that a kind stands for.
pub fn type_of<'c>(catalog: &'c Catalog, api_version: &str, kind: &str) -> Option<&'c Arc<str>> {
    let group = api_version.strip_suffix("/v1")?;
    let of_group = |name: &&Arc<str>| {
        name.split_once('_').is_some_and(|(first, rest)| first == group && is_camel_of(kind, rest))
    };
    catalog.types().find(of_group)
}

/// The group and kind of a type; none where only `terraform/v1 Resource` reaches it.
pub fn kind_of(catalog: &Catalog, type_name: &str) -> Option<(String, String)> {
    let (group, rest) = type_name.split_once('_').filter(|(group, _)| !is_ours(group))?;
    let kind = camel(rest);
    let is_namesake = |name: &&Arc<str>| {
        name.split_once('_').is_some_and(|(first, rest)| first == group && is_camel_of(&kind, rest))
    };
    (catalog.types().filter(is_namesake).count() == 1).then(|| (group.to_string(), kind))
}

/// `SqsQueue` of `sqs_queue`.
pub fn camel(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    for word in words.split('_') {
        let mut letters = word.chars();
        out.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        out.push_str(letters.as_str());
    }
    out
}

/// Without making the name, since it is asked a thousand times.
fn is_camel_of(kind: &str, words: &str) -> bool {
    let mut kind = kind.bytes();
    let mut starts = true;
    for byte in words.bytes() {
        if byte == b'_' {
            starts = true;
            continue;
        }
        let expect = if starts { byte.to_ascii_uppercase() } else { byte };
        if kind.next() != Some(expect) {
            return false;
        }
        starts = false;
    }
    kind.next().is_none()
}

/// Where a resource lives: each has a scope of its own, so that one that cannot be read fails alone.
pub fn place(entry: &str, type_name: &str, namespace: &str, name: &str) -> (Scope, ResourceId) {
    let name = if namespace.is_empty() { name.to_string() } else { format!("{namespace}/{name}") };
    let kind = camel(type_name.split_once('_').map_or(type_name, |(_, rest)| rest));
    (Scope::new(entry, format!("{kind}/{name}")), format!("{type_name}.{name}").into())
}

/// Where data is read.
pub fn place_of_data(entry: &str, type_name: &str, namespace: &str, name: &str) -> (Scope, ResourceId) {
    let name = if namespace.is_empty() { name.to_string() } else { format!("{namespace}/{name}") };
    (Scope::new(entry, format!("{DATA}/{name}")), format!("{OF_DATA}{type_name}.{name}").into())
}

/// The data source in an id that [`place_of_data`] made; none for the id of a resource.
pub fn data_in(id: &ResourceId) -> Option<&str> {
    let (name, _) = id.0.strip_prefix(OF_DATA)?.split_once('.')?;
    Some(name)
}

/// The type in an id that [`place`] made.
pub fn type_in(id: &ResourceId) -> &str {
    id.0.split_once('.').map_or(&id.0, |(name, _)| name)
}

/// Words in the names of types that hold what cannot be had back. A type that only belongs to one of them, such as
/// the policy of a bucket, stays as well: that costs a person a line, the other way round costs them data.
const STORES: [&str; 63] = [
    "_bucket",
    "_database",
    "_db_instance",
    "_db_cluster",
    "_sql_instance",
    "_rds_cluster",
    "_table",
    "_bigquery_dataset",
    "_bigtable_instance",
    "_spanner_instance",
    "_redshift_cluster",
    "_docdb_cluster",
    "_neptune_cluster",
    "_elasticache_cluster",
    "_elasticache_replication_group",
    "_memorydb_cluster",
    "_redis_instance",
    "_redis_cache",
    "_elasticsearch_domain",
    "_opensearch_domain",
    "_msk_cluster",
    "_kinesis_stream",
    "_cosmosdb_account",
    "_storage_account",
    "_storage_container",
    "_storage_share",
    "_data_lake_store",
    "_file_system",
    "_fsx_",
    "_filestore",
    "_volume",
    "_disk",
    "_snapshot",
    "_backup_vault",
    "_glacier_vault",
    "_recovery_services_vault",
    "_key_vault",
    "_kms_key",
    "_kms_crypto_key",
    "_secretsmanager_secret",
    "_secret_manager_secret",
    "_repository",
    "_registry",
    "_user_pool",
    "_route53_zone",
    "_dns_zone",
    "_dns_managed_zone",
    "_alloydb_",
    "_redis_cluster",
    "_redis_enterprise",
    "_mssql_managed_instance",
    "_db_system",
    "_rdb_instance",
    "mongodbatlas_cluster",
    "mongodbatlas_advanced_cluster",
    "_redshiftserverless_namespace",
    "_docdbelastic_cluster",
    "_neptunegraph_graph",
    "_serverless_cache",
    "_opensearchserverless_collection",
    "_qldb_ledger",
    "_mq_broker",
    "_msk_serverless_cluster",
];

/// Ends of the names of types that only say what such a store holds, from a declaration: it can be made again, unless the
/// secret in it is ignored.
const VERSIONS: [&str; 2] = ["_secretsmanager_secret_version", "_secret_manager_secret_version"];

/// What happens to a resource of a type when its declaration goes and nobody said what: what holds data stays. `ignored` are
/// the paths in it that are left as they are.
pub fn default_deletion(type_name: &str, block: &Block, ignored: &[Arc<str>]) -> Option<Deletion> {
    // A version of a secret is made anew with each rotation, and what it says was declared.
    if !change::ignores_secret(block, ignored) && VERSIONS.iter().any(|word| type_name.ends_with(word)) {
        return None;
    }
    let holds = STORES.iter().any(|word| type_name.contains(word));
    // A server of Azure is one of databases: mysql, postgresql, mssql, mariadb.
    let serves = type_name.starts_with("azurerm_") && type_name.ends_with("_server");
    (holds || serves).then_some(Deletion::Abandon)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{schema::Schema, wire::message};

    #[test]
    fn a_kind_is_its_type_in_other_letters() {
        for (words, kind) in
            [("sqs_queue", "SqsQueue"), ("s3_bucket", "S3Bucket"), ("vpc", "Vpc"), ("ec2_vpc_2", "Ec2Vpc2")]
        {
            assert_eq!(camel(words), kind);
            assert!(is_camel_of(kind, words), "{kind}");
            assert!(!is_camel_of(kind, "other") && !is_camel_of("Other", words) && !is_camel_of("", words));
        }
        assert!(!is_camel_of("SqsQueueX", "sqs_queue") && !is_camel_of("SqsQueu", "sqs_queue"));
    }

    #[test]
    fn a_resource_has_a_scope_of_its_own_and_data_stay() {
        let (scope, id) = place("aws", "aws_sqs_queue", "", "jobs");
        assert_eq!((scope.to_string().as_str(), &*id.0), ("aws/SqsQueue/jobs", "aws_sqs_queue.jobs"));
        assert_eq!(type_in(&id), "aws_sqs_queue");
        assert_eq!(place("aws", "aws_sqs_queue", "team", "jobs").1.0.as_ref(), "aws_sqs_queue.team/jobs");
        let mut secret = message::Attribute { name: "secret_data".into(), ..Default::default() };
        (secret.type_json, secret.sensitive) = (br#""string""#.to_vec(), true);
        let plain = message::Attribute { name: "stages".into(), sensitive: false, ..secret.clone() };
        let block = message::Block { attributes: vec![secret, plain], ..Default::default() };
        let block = Schema::of(message::Schema { version: 0, block: Some(block) }).unwrap().block;
        for holds in [
            "aws_s3_bucket",
            "aws_ebs_volume",
            "aws_elasticsearch_domain",
            "aws_opensearch_domain",
            "aws_elasticache_replication_group",
            "aws_cognito_user_pool",
            "aws_kinesis_stream",
            "aws_fsx_lustre_file_system",
            "aws_db_snapshot",
            "aws_route53_zone",
            "aws_efs_file_system",
            "google_sql_database_instance",
            "google_secret_manager_secret",
            "google_kms_crypto_key",
            "google_compute_disk",
            "google_filestore_instance",
            "azurerm_postgresql_flexible_server",
            "azurerm_managed_disk",
            "github_repository",
            "digitalocean_database_cluster",
            "openstack_blockstorage_volume_v3",
            "google_alloydb_cluster",
            "google_redis_cluster",
            "azurerm_mssql_managed_instance",
            "azurerm_redis_enterprise_cluster",
            "oci_mysql_mysql_db_system",
            "scaleway_rdb_instance",
            "mongodbatlas_cluster",
            "aws_redshiftserverless_namespace",
            "aws_docdbelastic_cluster",
            "aws_elasticache_serverless_cache",
            "aws_mq_broker",
        ] {
            assert_eq!(default_deletion(holds, &block, &[]), Some(Deletion::Abandon), "{holds}");
        }
        for holds_nothing in [
            "aws_sqs_queue",
            "aws_iam_role",
            "google_compute_instance",
            "aws_route53_record",
            "aws_secretsmanager_secret_version",
            "google_secret_manager_secret_version",
        ] {
            assert_eq!(default_deletion(holds_nothing, &block, &[]), None, "{holds_nothing}");
        }
        for (ignored, expect) in
            [("secret_data", Some(Deletion::Abandon)), ("*", Some(Deletion::Abandon)), ("stages", None)]
        {
            let found = default_deletion("google_secret_manager_secret_version", &block, &[ignored.into()]);
            assert_eq!(found, expect, "{ignored}");
        }
    }
}
