//! The kinds a provider knows, with the schema of their specs.

use serde_json::Value;
use std::{
    fmt,
    ops::Deref,
    sync::{Arc, LazyLock},
};

type Describe = Box<dyn FnOnce() -> Value + Send>;

/// A JSON Schema, worked out when somebody looks at it: a cloud has a thousand kinds, of which few are looked at.
#[derive(Clone)]
pub struct Schema {
    value: Arc<LazyLock<Value, Describe>>,
    is_deferred: bool,
}

impl Schema {
    /// A schema that is there.
    pub fn of(value: Value) -> Schema {
        Schema::told(move || value, false)
    }
    /// The schema of a type, worked out when somebody looks at it: what reads no manifest needs none.
    fn of_type<T: schemars::JsonSchema + 'static>() -> Schema {
        let describe = || {
            let settings = schemars::generate::SchemaSettings::draft07();
            settings.into_generator().into_root_schema_for::<T>().to_value()
        };
        Schema::told(describe, false)
    }
    /// A schema that `describe` gives when it is asked for. It says nothing that reading manifests needs to know.
    ///
    /// ```
    /// use reconciled_provider::kind::Schema;
    /// let schema = Schema::deferred(|| serde_json::json!({ "type": "object" }));
    /// assert!(schema.is_deferred() && schema["type"] == "object");
    /// ```
    pub fn deferred(describe: impl FnOnce() -> Value + Send + 'static) -> Schema {
        Schema::told(describe, true)
    }
    fn told(describe: impl FnOnce() -> Value + Send + 'static, is_deferred: bool) -> Schema {
        Schema { value: Arc::new(LazyLock::new(Box::new(describe))), is_deferred }
    }
    /// True for one that is not there until it is asked for.
    pub fn is_deferred(&self) -> bool {
        self.is_deferred
    }
}

impl Deref for Schema {
    type Target = Value;
    fn deref(&self) -> &Value {
        &self.value
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("is_deferred", &self.is_deferred).finish_non_exhaustive()
    }
}

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
    pub schema: Schema,
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
    pub fn of<T: schemars::JsonSchema + 'static>(api_versions: &[&str], name: &str, summary: &str) -> Kind {
        Kind {
            api_versions: api_versions.iter().map(|v| Arc::from(*v)).collect(),
            name: name.into(),
            summary: summary.into(),
            schema: Schema::of_type::<T>(),
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
