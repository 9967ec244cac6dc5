//! The kinds `Zone` and `RecordSet`, and `DNSEndpoint` of ExternalDNS; the doc comments of the fields are what `explain` prints.

use reconciled_provider::{
    At, Deletion, Drift, Each, Kind, Kinds, Span,
    yaml::{TextListOr, TextOr, TextOrList, flag},
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Value of `apiVersion`.
pub const API_VERSION: &str = "dns/v1";
/// Value of `kind` of a zone.
pub const ZONE: &str = "Zone";
/// What may hide a zone, as `allow` of a source names kinds.
pub(crate) const HIDDEN: &str = "dns/Zone";
/// Value of `kind` of records for a zone declared elsewhere.
pub const RECORD_SET: &str = "RecordSet";
/// Value of `apiVersion` of what ExternalDNS reads.
pub const EXTERNAL_DNS: &str = "externaldns.k8s.io/v1alpha1";
/// Value of `kind` of what ExternalDNS reads.
pub const DNS_ENDPOINT: &str = "DNSEndpoint";

/// The kinds of every DNS backend.
pub fn kinds() -> Kinds {
    Kinds(vec![
        Kind::of::<ZoneSpec>(&[API_VERSION], ZONE, "A DNS zone and records in it"),
        Kind::of::<RecordSetSpec>(
            &[API_VERSION],
            RECORD_SET,
            "Records for a zone that is declared elsewhere in the source",
        ),
        Kind::of::<DnsEndpointSpec>(
            &[EXTERNAL_DNS],
            DNS_ENDPOINT,
            "Records as ExternalDNS reads them; each goes to the longest declared zone that holds its name",
        ),
    ])
}

/// A DNS zone and records in it.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct ZoneSpec {
    /// Name of the zone. Default: `metadata.name`, so that one zone may exist twice (split horizon).
    pub zone: Option<At<String>>,
    /// The provider entry that serves the zone. Default: the only one that serves DNS.
    pub provider: Option<String>,
    /// Several provider entries that all serve the zone.
    pub providers: Option<Vec<String>>,
    /// Seconds that resolvers may keep records which say nothing else. Default: 300.
    pub ttl: Option<At<u32>>,
    /// Also delete what nobody declared. Such a deletion is held while `guard.always` names `foreign-delete`, as it does by
    /// default. Default: false.
    #[serde(default)]
    pub exclusive: bool,
    /// Consent to manage the NS and SOA records of the zone itself. Default: false.
    #[serde(default)]
    pub apex: bool,
    /// Records that others manage: neither changed nor pruned nor listed as foreign. Declaring one is an error.
    #[serde(default)]
    pub ignore: Each<IgnoreSpec>,
    /// The records: a list, in which `{zonefile: PATH}` stands for what a zone file of the repository holds, or that
    /// alone.
    #[serde(default)]
    #[schemars(with = "Records")]
    pub records: Each<RecordSpec>,
}

/// A rule about records that others manage; all that it says has to fit. `*` is any text, `?` any character.
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct IgnoreSpec {
    /// Pattern of names within the zone: `@`, `*.dev`, or absolute with a dot at the end.
    pub name: Option<String>,
    /// Pattern of types, such as `TXT`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Pattern of the data as they are written here; one value that fits is enough.
    pub target: Option<String>,
}

/// Records for a zone that is declared elsewhere in the source.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct RecordSetSpec {
    /// Name of the zone. The records go to each `Zone` of that name, unless `provider` names one entry.
    pub zone: At<String>,
    /// The provider entry that gets the records.
    pub provider: Option<String>,
    /// Several provider entries that all get the records.
    pub providers: Option<Vec<String>>,
    /// Seconds that resolvers may keep records which say nothing else. Default: the zone's.
    pub ttl: Option<At<u32>>,
    /// The records: a list, in which `{zonefile: PATH}` stands for what a zone file of the repository holds, or that
    /// alone.
    #[serde(default)]
    #[schemars(with = "Records")]
    pub records: Each<RecordSpec>,
}

/// Records as ExternalDNS reads them.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DnsEndpointSpec {
    /// The endpoints: all records of one type at one name each.
    #[serde(default)]
    pub endpoints: Each<EndpointSpec>,
}

/// All records of one type at one name.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct EndpointSpec {
    /// The whole name, with or without a dot at the end.
    pub dns_name: At<String>,
    /// The type, as of a record.
    pub record_type: At<String>,
    /// The data, one entry for each record, as zone files write them; a dot at the end of a host may be left out.
    #[serde(default)]
    pub targets: Each<String>,
    /// Seconds that resolvers may keep it. 0 or left out: as the zone says.
    #[serde(rename = "recordTTL")]
    pub record_ttl: Option<At<i64>>,
    /// One of several answers for a name: a set at Route 53, as `route53.sets` of a record; an error elsewhere.
    pub set_identifier: Option<At<String>>,
    /// Read by ExternalDNS alone.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Known: `alias`, at Cloudflare `cloudflare-proxied`, `cloudflare-tags`, `cloudflare-record-comment`, and beside a
    /// `setIdentifier` at Route 53 `aws/weight` and the like; others are left out with a warning.
    #[serde(default)]
    pub provider_specific: Each<Property>,
}

/// What stands before the properties of ExternalDNS's annotations.
const PREFIX: &str = "external-dns.alpha.kubernetes.io/";

/// What one provider of ExternalDNS knows besides.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Property {
    /// Its name, with or without `external-dns.alpha.kubernetes.io/`.
    pub name: String,
    /// Its value.
    #[serde(default)]
    pub value: String,
}

impl Property {
    /// The name without what annotations have before it.
    pub(crate) fn word(&self) -> &str {
        self.name.strip_prefix(PREFIX).unwrap_or(&self.name)
    }
}

/// What `records` may be, for schemas; files to include are taken out before the rest is decoded.
#[derive(schemars::JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Records {
    List(Vec<Item>),
    File(ZoneFile),
}

/// An element of `records`.
#[derive(schemars::JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Item {
    Record(Box<RecordSpec>),
    File(ZoneFile),
}

/// A zone file to include.
#[derive(schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct ZoneFile {
    /// Instead of a record, and alone: path of a zone file (RFC 1035 §5) in the same repository, from the folder of the
    /// manifest, or with `/` in front from the root.
    zonefile: String,
}

/// One value: text as zone files write it, or its fields by name.
pub type Data = TextOr<BTreeMap<String, At<FieldValue>>>;

/// The value of a field; parameters of a service and policies of mail are mappings themselves, the strings of a text a list.
pub type FieldValue = TextListOr<BTreeMap<String, Words>>;

/// All records of one type at one name. What few records have is boxed: a zone is thousands of these at once.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RecordSpec {
    /// Name within the zone: `@` is the zone itself, `www` is completed, `www.example.com.` stands as it is.
    pub name: At<String>,
    /// A AAAA ALIAS CAA CNAME DNAME DS HTTPS LOC MX NAPTR NS OPENPGPKEY PTR SMIMEA SRV SSHFP SVCB TLSA TXT URI; SOA
    /// with `apex: true`.
    #[serde(rename = "type")]
    pub kind: At<String>,
    /// The data, one entry for each record: as zone files write them, or a mapping of their fields, such as
    /// `{priority: 10, target: mail}`. TXT is plain text of any length, without quotes; or a policy of mail, such as
    /// `{spf: {mx: true, all: fail}}`, `{dmarc: {p: reject}}`, `{dkim: {p: KEY}}`; or several strings that are not one text, as
    /// `{strings: ["path=/x", "rp=lp"]}`.
    #[serde(default)]
    pub values: Each<Data>,
    /// Seconds that resolvers may keep it. Default: `ttl` of the manifest.
    pub ttl: Option<At<u32>>,
    /// Deleting it is held until a person approves. Short for `deletion: protect`.
    #[serde(default)]
    pub protect: bool,
    /// These values are ours, other values at the same name and type stay.
    #[serde(default, deserialize_with = "flag")]
    #[schemars(schema_with = "flag_schema")]
    pub merge: bool,
    /// Of A and AAAA: also declare the PTR records, in the reverse zones that are declared at the same provider.
    #[serde(default)]
    pub reverse: bool,
    /// What happens to the record when its declaration goes: `delete`, `abandon` or `protect`.
    pub deletion: Option<Deletion>,
    /// What happens when it is changed by hand: `heal`, `warn` or `ignore`.
    pub drift: Option<Drift>,
    /// Whether an existing record may be taken over: `true`, `externaldns/OWNER`, `octodns` or `never`.
    pub adopt: Option<Box<At<String>>>,
    /// No writes; observing goes on.
    #[serde(default, deserialize_with = "flag")]
    #[schemars(schema_with = "flag_schema")]
    pub suspend: bool,
    /// The hosts that it is for, as `role=web,env!=staging`; on others it is not declared. Default: all that the manifest is for.
    pub hosts: Option<Box<At<String>>>,
    /// Fields that are left as they are, also when the others are written: `ttl`, `values`.
    pub ignore: Option<Box<Words>>,
    /// Rules of `reconciled validate` that are not told of this record; only warnings can be silenced.
    #[serde(rename = "lintIgnore")]
    pub lint_ignore: Option<Box<At<Words>>>,
    /// What only providers of type `cloudflare` know; others refuse it.
    pub cloudflare: Option<Box<At<CloudflareSpec>>>,
    /// What only providers of type `route53` know; others refuse it.
    pub route53: Option<Box<At<Route53Spec>>>,
}

/// A yes or no as [`flag`] reads it. That it may stand in quotes is for programs: `explain` tells nobody.
fn flag_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let quoted = ["true", "false"];
    schemars::json_schema!({"anyOf": [{"type": "boolean"}, {"enum": quoted, "x-otherwise": true}]})
}

/// What only Route 53 knows of a record, in place of `values`.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Route53Spec {
    /// Answers with the data of another name: of a resource of AWS, or of this zone.
    pub alias: Option<At<AliasSpec>>,
    /// Sets of data, of which Route 53 chooses for each question.
    #[serde(default)]
    pub sets: Each<RoutedSpec>,
}

/// Whose data a name answers with.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct AliasSpec {
    /// The other name, such as that of a load balancer.
    pub target: At<String>,
    /// Id of the hosted zone of the target, as its service documents it. Default: the zone of the record.
    pub zone: Option<At<String>>,
    /// Answers only while the target is healthy. Default: false.
    #[serde(default)]
    pub evaluate_target_health: bool,
}

/// One of several sets at a name. All of them are chosen in the same way.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct RoutedSpec {
    /// Tells the sets of a name and type apart.
    pub id: At<String>,
    /// The data, as `values` of a record.
    #[serde(default)]
    pub values: Each<Data>,
    /// In place of `values`: answers with the data of another name.
    pub alias: Option<At<AliasSpec>>,
    /// Seconds that resolvers may keep it. Default: `ttl` of the record.
    pub ttl: Option<u32>,
    /// Chosen in proportion, 0 to 255.
    pub weight: Option<u8>,
    /// Chosen where this region of AWS is the nearest in time.
    pub region: Option<String>,
    /// Chosen for questions from this place.
    pub geo: Option<GeoSpec>,
    /// Chosen while it is well (`primary`), or else (`secondary`).
    pub failover: Option<Failover>,
    /// Up to eight of these sets are the answer. Default: false.
    #[serde(default)]
    pub multivalue: bool,
    /// Id of a health check of Route 53; a set that is not well is not chosen.
    pub health_check: Option<String>,
}

/// A place on earth.
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct GeoSpec {
    /// Two letters, such as EU.
    pub continent: Option<String>,
    /// Two letters (ISO 3166-1), or `*` for all that no other set is for.
    pub country: Option<String>,
    /// Of the United States and Ukraine: a state.
    pub subdivision: Option<String>,
}

/// The part that a set plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Failover {
    /// The answer while it is well.
    Primary,
    /// The answer otherwise.
    Secondary,
}

impl Failover {
    /// As manifests write it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Failover::Primary => "primary",
            Failover::Secondary => "secondary",
        }
    }
}

/// What only Cloudflare knows of a record.
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct CloudflareSpec {
    /// Traffic goes through Cloudflare: for A, AAAA and CNAME. The ttl is automatic then. Default: false.
    #[serde(default)]
    pub proxied: bool,
    /// A note on the record; at most 100 characters on the Free plan, 500 on others. Left out: whatever note is
    /// there stays.
    pub comment: Option<String>,
    /// Tags, each `name` or `name:value`; not on the Free plan. Left out: whatever tags are there stay.
    pub tags: Option<Vec<String>>,
}

impl RecordSpec {
    /// A record of which only name and type are said, at `span`.
    pub(crate) fn bare(name: &str, kind: &str, span: Span) -> RecordSpec {
        let at = |text: &str| At { span, unknown: Vec::new(), value: text.to_owned() };
        RecordSpec {
            name: at(name),
            kind: at(kind),
            values: Each::default(),
            ttl: None,
            protect: false,
            merge: false,
            reverse: false,
            deletion: None,
            drift: None,
            adopt: None,
            suspend: false,
            hosts: None,
            ignore: None,
            lint_ignore: None,
            cloudflare: None,
            route53: None,
        }
    }
    /// True when the record says anything about its own treatment.
    pub(crate) fn has_policy(&self) -> bool {
        self.protect
            || self.merge
            || self.suspend
            || self.deletion.is_some()
            || self.drift.is_some()
            || self.adopt.is_some()
            || self.ignore.is_some()
            || self.lint_ignore.is_some()
    }
}

/// Words, as a list or as one text with commas.
pub type Words = TextOrList;

#[cfg(test)]
mod tests {
    use super::*;

    /// The names in the first column of the table below `heading`.
    fn documented(page: &str, heading: &str) -> std::collections::BTreeSet<String> {
        let (_, table) = page.split_once(&format!("| {heading} | meaning |\n|---|---|\n")).expect(heading);
        let rows = table.lines().take_while(|line| line.starts_with('|'));
        let names = rows.filter_map(|row| row.split('|').nth(1));
        names
            .flat_map(|names| names.split(','))
            .map(|name| name.trim().trim_matches('`').to_owned())
            .collect()
    }

    #[test]
    fn every_field_stands_in_the_docs_and_no_other() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dns.md");
        let page = std::fs::read_to_string(page).unwrap();
        let fields = |schema: schemars::Schema| {
            let properties = schema.as_value()["properties"].as_object().unwrap();
            properties.keys().cloned().collect::<std::collections::BTreeSet<String>>()
        };
        for (heading, schema) in [
            ("field of a record", schemars::schema_for!(RecordSpec)),
            ("field of a `Zone`", schemars::schema_for!(ZoneSpec)),
            ("field of a `RecordSet`", schemars::schema_for!(RecordSetSpec)),
        ] {
            assert_eq!(documented(&page, heading), fields(schema), "{heading}");
        }
    }

    #[test]
    fn every_field_of_both_kinds_is_explained() {
        for kind in &kinds().0 {
            let properties = kind.schema["properties"].as_object().unwrap();
            assert!(properties.contains_key("records") || properties.contains_key("endpoints"));
            for (field, schema) in properties {
                let is_explained = schema.get("description").is_some();
                assert!(is_explained, "{}.{field}: {schema}", kind.name);
            }
            assert!(["dns", "externaldns.k8s.io"].contains(&kind.group()));
        }
    }

    #[test]
    fn a_yes_or_no_that_is_also_an_annotation_fits_its_schema_in_quotes() {
        let schema = schemars::schema_for!(RecordSpec);
        for field in ["merge", "suspend"] {
            let property = &schema.as_value()["properties"][field];
            assert_eq!(property["anyOf"][0]["type"], "boolean", "{property}");
            assert_eq!(property["anyOf"][1]["enum"][0], "true", "{property}");
            assert_eq!(property["default"], false, "{property}");
        }
    }

    #[test]
    fn words_are_a_list_or_a_text_with_commas() {
        let list = Words::List(vec!["ttl".into(), "values".into()]);
        assert!(list.iter().eq(Words::Text("ttl, values".into()).iter()));
    }
}
