//! The provider: who calls, what is called, and what is asked of it before anything is there.

use crate::{
    answer::{Answer, message},
    environment::{is_put_down, variable},
    form::{dynamic, error, parse, path, value},
    schema,
};
use prost::Message;
use prost::bytes::Bytes;
use reconciled_cloud::{
    cty::{Type, Value, write_json},
    schema::Schema,
    wire::message::{
        Configure, Diagnostic, Diagnostics, DynamicValue, Empty, IdentityData, Upgrade, UpgradeIdentity,
        Upgraded, UpgradedIdentity, Validate, ValidatedProvider,
    },
};
use std::{
    cell::{Cell, RefCell},
    path::PathBuf,
    sync::Arc,
};
use tokio::sync::watch;

/// The provider.
pub(crate) struct Toy {
    protocol: u8,
    thing: Schema,
    trivial: Schema,
    pub(crate) version: i64,
    pub(crate) directory: RefCell<PathBuf>,
    token: RefCell<String>,
    pub(crate) next: Cell<u64>,
    pub(crate) stopped: watch::Sender<bool>,
}

impl Toy {
    pub(crate) fn new(protocol: u8) -> Toy {
        let version = variable("TOY_VERSION").and_then(|number| number.parse().ok()).unwrap_or(1);
        Toy {
            protocol,
            thing: Schema::of(schema::thing(version)).unwrap_or_else(|why| unreachable!("{why}")),
            trivial: Schema::of(schema::trivial()).unwrap_or_else(|why| unreachable!("{why}")),
            version,
            directory: RefCell::default(),
            token: RefCell::default(),
            next: Cell::new(0),
            stopped: watch::channel(false).0,
        }
    }

    pub(crate) fn of(&self, name: &str) -> &Schema {
        if name == "toy_thing" { &self.thing } else { &self.trivial }
    }

    pub(crate) async fn call(&self, method: &str, body: Bytes) -> Answer {
        if !is_put_down("TOY_CALLS", method) {
            return Answer::Status(13, "the call cannot be put down".into());
        }
        match method {
            "GetSchema" | "GetProviderSchema" => {
                let mebibytes = variable("TOY_HUGE").and_then(|number| number.parse::<usize>().ok());
                let description = "x".repeat(mebibytes.unwrap_or(0) << 20);
                let can_be_listed = variable("TOY_LISTLESS").is_none();
                Answer::Message(schema::all(self.protocol, self.version, can_be_listed, description))
            }
            "PrepareProviderConfig" | "ValidateProviderConfig" => message(&ValidatedProvider::default()),
            "Configure" | "ConfigureProvider" => self.configure(body),
            "ValidateResourceTypeConfig" | "ValidateResourceConfig" => self.validate(body),
            "UpgradeResourceState" => self.upgrade(body),
            "ReadResource" => self.read(body),
            "ValidateDataSourceConfig" | "ValidateDataResourceConfig" => message(&Diagnostics::default()),
            "ReadDataSource" => self.read_data(body),
            "PlanResourceChange" => self.plan(body).await,
            "ApplyResourceChange" => self.apply(body).await,
            "ImportResourceState" => self.import(body),
            "ValidateListResourceConfig" => self.validate_list(body),
            "ListResource" => self.list(body),
            "GetResourceIdentitySchemas" if variable("TOY_NAMELESS").is_none() => {
                message(&schema::identities(self.version))
            }
            "UpgradeResourceIdentity" => self.upgrade_identity(body),
            "Stop" | "StopProvider" => {
                self.stopped.send_replace(true);
                message(&Empty {})
            }
            "Shutdown" if is_put_down("TOY_ENDS", "asked") => Answer::End,
            _ => Answer::Status(12, format!("unknown method {method}")),
        }
    }

    fn configure(&self, body: Bytes) -> Answer {
        let request = Configure::decode(body).unwrap_or_default();
        let of = Schema::of(schema::provider()).unwrap_or_else(|why| unreachable!("{why}"));
        let config = value(&request.config, &of.value_type);
        *self.directory.borrow_mut() = config.get("directory").as_str().unwrap_or_default().into();
        *self.token.borrow_mut() = config.get("token").as_str().unwrap_or_default().into();
        let diagnostics = match config.get("token").as_str() {
            Some("wrong") => vec![error("AccessDenied: the token `wrong` is wrong")],
            _ => Vec::new(),
        };
        message(&Diagnostics { diagnostics })
    }

    fn validate(&self, body: Bytes) -> Answer {
        let request = Validate::decode(body).unwrap_or_default();
        let config = value(&request.config, &self.of(&request.type_name).value_type);
        let diagnostics = match config.get("name").as_str() {
            Some("") => vec![Diagnostic { attribute: Some(path("name")), ..error("a name has letters") }],
            Some(name) if name.starts_with("either-") => {
                let is_there = |name: &str| !config.get(name).is_null();
                match (is_there("content"), is_there("secret")) {
                    (true, true) => vec![error("only one of `content,secret` can be specified")],
                    (false, false) => vec![error("one of `content,secret` must be specified")],
                    _ => Vec::new(),
                }
            }
            Some(name) if name.starts_with("old-") => {
                let secret = config.get("secret").as_str().unwrap_or("no secret");
                let text = format!("things with {secret} are deprecated");
                vec![Diagnostic { severity: 2, summary: text, ..Diagnostic::default() }]
            }
            _ => Vec::new(),
        };
        message(&Diagnostics { diagnostics })
    }

    fn upgrade(&self, body: Bytes) -> Answer {
        let request = Upgrade::decode(body).unwrap_or_default();
        let of = &self.of(&request.type_name).value_type;
        let json = request.raw_state.map(|raw| raw.json).unwrap_or_default();
        let mut json: serde_json::Value = serde_json::from_slice(&json).unwrap_or_default();
        if request.version < 2 && self.version > 1 {
            json["color"] = "grey".into();
        }
        let state = parse(&json, of);
        if variable("TOY_JSON").is_some() {
            // As it came, where there was nothing to change.
            let state = DynamicValue { msgpack: Bytes::new(), json: write_json(&state, of).into() };
            return message(&Upgraded { state: Some(state), diagnostics: Vec::new() });
        }
        message(&Upgraded { state: Some(dynamic(&state, of)), diagnostics: Vec::new() })
    }

    fn upgrade_identity(&self, body: Bytes) -> Answer {
        let request = UpgradeIdentity::decode(body).unwrap_or_default();
        let json = request.raw_identity.map(|raw| raw.json).unwrap_or_default();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap_or_default();
        let identity = self.identity(json["number"].as_str());
        message(&UpgradedIdentity { identity, diagnostics: Vec::new() })
    }

    /// What identifies the thing with this number; not known where it has none yet.
    pub(crate) fn identity(&self, number: Option<&str>) -> Option<IdentityData> {
        if variable("TOY_NAMELESS").is_some() {
            return None;
        }
        let names = schema::identity(self.version).attributes.into_iter().map(|part| part.name);
        let part = |name: String| match &*name {
            "number" => (Arc::from(name), number.map_or(Value::Unknown, Value::text)),
            "place" => (Arc::from(name), Value::text("desk")),
            _ => (Arc::from(name), Value::Null),
        };
        let value = Value::Map(names.map(part).collect());
        let Value::Map(parts) = &value else { return None };
        let of = Type::Object(parts.keys().map(|name| (name.clone(), Type::String)).collect());
        Some(IdentityData { identity: Some(dynamic(&value, &of)) })
    }

    /// What came with a call is what was told, or the call is refused: whoever hosts this has lost it.
    pub(crate) fn is_lost(&self, identity: Option<&IdentityData>, state: &Value) -> bool {
        let told = self.identity(state.get("id").as_str());
        variable("TOY_STRICT").is_some() && !state.is_null() && identity != told.as_ref()
    }

    /// The token `short` is worth nothing any more once there is a file that says so.
    pub(crate) fn refusal(&self) -> Option<Diagnostic> {
        let is_over = *self.token.borrow() == "short" && self.directory.borrow().join("expired").exists();
        is_over.then(|| error("ExpiredToken: the security token included in the request is expired"))
    }

    pub(crate) fn file(&self, state: &Value) -> PathBuf {
        self.directory.borrow().join(format!("{}.json", state.get("id").as_str().unwrap_or_default()))
    }
}
