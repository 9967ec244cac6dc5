//! The kinds a provider knows, with the schema of their specs.

use std::sync::Arc;

/// One kind of manifest: what it is called and what its `spec` may hold.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Accepted values of `apiVersion`, the preferred one first.
    pub api_versions: Arc<[Arc<str>]>,
    /// Value of `kind`.
    pub name: Arc<str>,
    /// One sentence for `explain`.
    pub summary: Arc<str>,
    /// JSON Schema of `spec`, from the type that parses it.
    pub schema: Arc<serde_json::Value>,
}

impl Kind {
    /// A kind whose spec is parsed as `T`.
    ///
    /// ```
    /// use reconciled_provider::Kind;
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct ZoneSpec { /** Seconds. */ ttl: u32 }
    /// let kind = Kind::of::<ZoneSpec>(&["dns/v1"], "Zone", "A DNS zone");
    /// assert!(kind.schema["properties"]["ttl"]["description"].as_str().unwrap().contains("Seconds"));
    /// ```
    pub fn of<T: schemars::JsonSchema>(api_versions: &[&str], name: &str, summary: &str) -> Kind {
        let schema =
            schemars::generate::SchemaSettings::draft07().into_generator().into_root_schema_for::<T>();
        Kind {
            api_versions: api_versions.iter().map(|v| Arc::from(*v)).collect(),
            name: name.into(),
            summary: summary.into(),
            schema: Arc::new(schema.to_value()),
        }
    }
    /// The group of the preferred version: `dns` of `dns/v1`.
    pub fn group(&self) -> &str {
        self.api_versions.first().and_then(|v| v.split('/').next()).unwrap_or("")
    }
}

/// The kinds of one entry; may come from a schema at run time.
#[derive(Clone, Debug, Default)]
pub struct Kinds(pub Vec<Kind>);

impl Kinds {
    /// The kind a manifest with this `apiVersion` and `kind` has.
    pub fn find(&self, api_version: &str, name: &str) -> Option<&Kind> {
        self.0
            .iter()
            .find(|kind| &*kind.name == name && kind.api_versions.iter().any(|v| &**v == api_version))
    }
}
