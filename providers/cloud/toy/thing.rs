//! The calls: things are files, and what a thing's `fault` says goes wrong.

use crate::{
    is_put_down, schema,
    server::{Answer, message},
    variable,
};
use prost::{Message, bytes::Bytes};
use reconciled_cloud::{
    cty::{Number, Type, Value, decode, encode, write_json},
    schema::Schema,
    wire::message::{
        Applied, Apply, AttributePath, Configure, DataAnswer, Diagnostic, Diagnostics, DynamicValue, Empty,
        IdentityData, Import, ImportAnswer, Imported, List, Listed, Plan, Planned, Read, ReadAnswer,
        ReadData, Selector, Step, Upgrade, UpgradeIdentity, Upgraded, UpgradedIdentity, Validate,
        ValidatedProvider,
    },
};
use std::{
    cell::{Cell, RefCell},
    fs,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::sync::watch;

/// The provider.
pub(crate) struct Toy {
    protocol: u8,
    thing: Schema,
    trivial: Schema,
    version: i64,
    directory: RefCell<PathBuf>,
    token: RefCell<String>,
    next: Cell<u64>,
    stopped: watch::Sender<bool>,
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

    fn of(&self, name: &str) -> &Schema {
        if name == "toy_thing" { &self.thing } else { &self.trivial }
    }

    pub(crate) async fn call(&self, method: &str, body: Bytes) -> Answer {
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
    fn identity(&self, number: Option<&str>) -> Option<IdentityData> {
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
    fn is_lost(&self, identity: Option<&IdentityData>, state: &Value) -> bool {
        let told = self.identity(state.get("id").as_str());
        variable("TOY_STRICT").is_some() && !state.is_null() && identity != told.as_ref()
    }

    /// The token `short` is worth nothing any more once there is a file that says so.
    fn refusal(&self) -> Option<Diagnostic> {
        let is_over = *self.token.borrow() == "short" && self.directory.borrow().join("expired").exists();
        is_over.then(|| error("ExpiredToken: the security token included in the request is expired"))
    }

    fn file(&self, state: &Value) -> PathBuf {
        self.directory.borrow().join(format!("{}.json", state.get("id").as_str().unwrap_or_default()))
    }

    fn read(&self, body: Bytes) -> Answer {
        let request = Read::decode(body).unwrap_or_default();
        let of = &self.of(&request.type_name).value_type;
        let current = value(&request.current, of);
        if let Some(refusal) = self.refusal() {
            return message(&ReadAnswer { diagnostics: vec![refusal], ..ReadAnswer::default() });
        }
        let state = match &*request.type_name {
            "toy_thing" => match fs::read(self.file(&current)) {
                Ok(json) => {
                    let Value::Map(mut fields) =
                        parse(&serde_json::from_slice(&json).unwrap_or_default(), of)
                    else {
                        return message(&ReadAnswer {
                            diagnostics: vec![error("odd file")],
                            ..Default::default()
                        });
                    };
                    // What a cloud does not know of.
                    for name in ["fault", "delay_ms", "color"] {
                        if let Some(field) = fields.get_mut(name) {
                            *field = current.get(name).clone();
                        }
                    }
                    Value::Map(fields)
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Value::Null,
                Err(why) => {
                    let diagnostics = vec![error(&format!("connection refused: {why}"))];
                    return message(&ReadAnswer { diagnostics, ..ReadAnswer::default() });
                }
            },
            _ => current,
        };
        let is_thing = &*request.type_name == "toy_thing" && !state.is_null();
        let identity = is_thing.then(|| self.identity(state.get("id").as_str())).flatten();
        message(&ReadAnswer {
            state: Some(dynamic(&state, of)),
            private: request.private,
            identity,
            ..ReadAnswer::default()
        })
    }

    /// A thing by its name.
    fn read_data(&self, body: Bytes) -> Answer {
        let request = ReadData::decode(body).unwrap_or_default();
        let of = Schema::of(schema::data()).unwrap_or_else(|why| unreachable!("{why}")).value_type;
        let config = value(&request.config, &of);
        let directory = self.directory.borrow();
        let files = fs::read_dir(&*directory).into_iter().flatten().flatten();
        let all = files.filter_map(|file| {
            serde_json::from_slice::<serde_json::Value>(&fs::read(file.path()).ok()?).ok()
        });
        let name = config.get("name").as_str().unwrap_or_default();
        let Some(found) = all.into_iter().find(|thing| thing["name"] == name) else {
            let diagnostics = vec![error(&format!("nothing is called {name}"))];
            return message(&DataAnswer { diagnostics, ..DataAnswer::default() });
        };
        let state = Some(dynamic(&parse(&found, &of), &of));
        message(&DataAnswer { state, diagnostics: Vec::new() })
    }

    async fn plan(&self, body: Bytes) -> Answer {
        let request = Plan::decode(body).unwrap_or_default();
        let of = &self.of(&request.type_name).value_type;
        let (prior, proposed) = (value(&request.prior, of), value(&request.proposed, of));
        let config = value(&request.config, of);
        if config.is_null() && prior.get("content").as_str() == Some("wedge") {
            loop {
                std::thread::park();
            }
        }
        let is_thing = &*request.type_name == "toy_thing";
        if is_thing && self.is_lost(request.identity.as_ref(), &prior) {
            return message(&Planned { diagnostics: vec![error(LOST)], ..Planned::default() });
        }
        let (Value::Map(mut state), is_new) = (proposed.clone(), prior.is_null()) else {
            return message(&Planned {
                state: Some(dynamic(&Value::Null, of)),
                private: request.private,
                identity: request.identity,
                ..Planned::default()
            });
        };
        match config.get("fault").as_str() {
            Some("plan-garbage") => return Answer::Garbage,
            Some("plan-death") => return Answer::Death,
            // Nothing of it answers any more.
            Some("plan-wedge") => {
                let _ = fs::write(self.directory.borrow().join("wedged"), "");
                loop {
                    std::thread::park();
                }
            }
            Some("plan-flood") => return Answer::Message(vec![0; 65 << 20]),
            Some("plan-empty") => return message(&Planned::default()),
            Some("plan-null") => {
                return message(&Planned {
                    state: Some(dynamic(&Value::Null, of)),
                    legacy_type_system: true,
                    ..Planned::default()
                });
            }
            Some("plan-nowhere") => {
                return message(&Planned {
                    state: Some(dynamic(&Value::Map(state), of)),
                    requires_replace: vec![path("nowhere")],
                    legacy_type_system: true,
                    ..Planned::default()
                });
            }
            // As the old SDK may, whatever it was asked for.
            Some("plan-rewrite") if !is_new => {
                state.insert("content".into(), Value::text("a hash of it"));
                return message(&Planned {
                    state: Some(dynamic(&Value::Map(state), of)),
                    requires_replace: vec![path("content")],
                    legacy_type_system: true,
                    ..Planned::default()
                });
            }
            Some("plan-lie") => drop(state.insert("name".into(), Value::text("other"))),
            Some("plan-error") => {
                let text =
                    format!("a plan with {} fails", config.get("secret").as_str().unwrap_or("nothing"));
                return message(&Planned { diagnostics: vec![error(&text)], ..Planned::default() });
            }
            _ => {}
        }
        if is_new {
            state.insert("id".into(), Value::Unknown);
        }
        if state.get("input") != Some(prior.get("input")) && makes_password(&config).is_some() {
            state.insert("password".into(), Value::Unknown);
        }
        if is_thing {
            if is_new || state.get("content") != Some(prior.get("content")) {
                state.insert("size".into(), Value::Unknown);
            }
            if state.get("level").is_none_or(Value::is_null) {
                state.insert("level".into(), Value::Unknown);
            }
            for (name, field, default) in [("rule", "protocol", "tcp"), ("label", "value", "none")] {
                let Some(Value::Seq(all)) = state.get(name).cloned() else { continue };
                let filled = |one: Value| match one {
                    Value::Map(mut inner) => {
                        if inner.get(field).is_none_or(Value::is_null) {
                            inner.insert(field.into(), Value::text(default));
                        }
                        Value::Map(inner)
                    }
                    other => other,
                };
                let all: Vec<Value> = all.into_iter().map(filled).collect();
                state.insert(name.into(), if name == "label" { Value::set(all) } else { Value::Seq(all) });
            }
        }
        message(&Planned {
            state: Some(dynamic(&Value::Map(state), of)),
            requires_replace: if is_thing { vec![path("name")] } else { Vec::new() },
            private: Bytes::from_static(b"planned"),
            identity: is_thing.then(|| self.identity(prior.get("id").as_str())).flatten(),
            ..Planned::default()
        })
    }

    async fn apply(&self, body: Bytes) -> Answer {
        let request = Apply::decode(body).unwrap_or_default();
        let of = &self.of(&request.type_name).value_type;
        let (prior, planned) = (value(&request.prior, of), value(&request.planned, of));
        let said = if planned.is_null() { &prior } else { &planned };
        let fault = said.get("fault").as_str().unwrap_or_default().to_string();
        let is_new = prior.is_null();
        let failed = |text: &str, state: &Value| {
            message(&Applied {
                state: Some(dynamic(state, of)),
                diagnostics: vec![error(text)],
                ..Applied::default()
            })
        };
        if &*request.type_name == "toy_thing" && self.is_lost(request.identity.as_ref(), &prior) {
            return failed(LOST, &prior);
        }
        if let Some(refusal) = self.refusal() {
            return failed(&refusal.summary, &prior);
        }
        match &*fault {
            "die" => return Answer::Death,
            "garbage" => return Answer::Garbage,
            "lose" if !is_new && !planned.is_null() => return failed("it went wrong", &Value::Null),
            // What is left of it is something else.
            "cling" if planned.is_null() => {
                let Value::Map(mut left) = prior.clone() else { return Answer::Garbage };
                left.insert("content".into(), Value::text("half gone"));
                return failed("only half of it is gone", &Value::Map(left));
            }
            "tell" => {
                let Value::Map(mut made) = planned.clone() else { return Answer::Garbage };
                made.insert("id".into(), Value::text("thing-9"));
                made.insert("secret".into(), Value::text("made-by-the-cloud"));
                return failed("the password made-by-the-cloud is too short", &Value::Map(made));
            }
            "exists" => {
                let text = "creating: operation error Toy: Make, https response error StatusCode: 409, \
                            ThingAlreadyExists: a thing has that name";
                return failed(text, &prior);
            }
            "refuse" => return failed("InvalidParameterValue: no such thing can be", &prior),
            "throttle" => return failed("Throttling: Rate exceeded", &prior),
            "stoppable" => {
                // It takes its time, and breaks off when it is asked to come to an end.
                let mut stopped = self.stopped.subscribe();
                let stopped = stopped.wait_for(|stopped| *stopped);
                if tokio::time::timeout(Duration::from_millis(300), stopped).await.is_ok() {
                    return failed("it was asked to stop", &prior);
                }
            }
            "hang" => {
                // Until it is asked to come to an end.
                let mut stopped = self.stopped.subscribe();
                let _ = stopped.wait_for(|stopped| *stopped).await;
                return failed("it was asked to stop", &prior);
            }
            _ => {}
        }
        if let Value::Number(delay) = said.get("delay_ms") {
            // Half before it takes effect, half after.
            tokio::time::sleep(Duration::from_millis(delay.as_int().unwrap_or(0) as u64 / 2)).await;
        }
        if planned.is_null() {
            let _ = fs::remove_file(self.file(&prior));
            return message(&Applied { state: Some(dynamic(&Value::Null, of)), ..Applied::default() });
        }
        let Value::Map(mut fields) = planned.clone() else { return Answer::Garbage };
        if is_new {
            self.next.set(self.next.get() + 1);
            let id = match &*request.type_name {
                // Clouds that know a thing by its name change the one that is there.
                "toy_thing" if fault == "same" => "thing-1".into(),
                "toy_thing" => self.new_id(),
                _ => format!("{}-{}", std::process::id(), self.next.get()),
            };
            fields.insert("id".into(), Value::String(id.into()));
        }
        if fields.get("password") == Some(&Value::Unknown) {
            let made =
                makes_password(&planned).map_or(Value::Null, |of| Value::text(&format!("canary?made/{of}")));
            fields.insert("password".into(), made);
        }
        if &*request.type_name == "toy_thing" {
            let size = fields.get("content").and_then(Value::as_str).map_or(0, str::len) as i64;
            fields.insert("size".into(), Value::Number(size.into()));
            if fields.get("level") == Some(&Value::Unknown) {
                fields.insert("level".into(), Value::Number(3.into()));
            }
            if fault == "inconsistent" {
                fields.insert("content".into(), Value::text("something else"));
            }
            if let "unknown" | "unknown-declared" = &*fault {
                let name = if fault == "unknown" { "size" } else { "content" };
                fields.insert(name.into(), Value::Unknown);
            }
            if fault == "half" && is_new {
                fields.insert("content".into(), Value::Null);
            }
        }
        let state = Value::Map(fields);
        // With a rename, since tests read while it writes; the draft is no thing.
        let draft = format!("draft-{}", state.get("id").as_str().unwrap_or_default());
        let (file, draft) = (self.file(&state), self.directory.borrow().with_extension(draft));
        let written = || fs::write(&draft, write_json(&state, of)).and_then(|()| fs::rename(&draft, &file));
        if &*request.type_name == "toy_thing" && written().is_err() {
            return failed("connection refused: the folder is gone", &prior);
        }
        match &*fault {
            "die-after" => return Answer::Death,
            "half" if is_new => return failed("only half of it was made", &state),
            _ => {}
        }
        if let Value::Number(delay) = said.get("delay_ms") {
            tokio::time::sleep(Duration::from_millis(delay.as_int().unwrap_or(0) as u64 / 2)).await;
        }
        message(&Applied {
            state: Some(dynamic(&state, of)),
            private: Bytes::from_static(b"made"),
            identity: match &*request.type_name {
                // It was said before, and is not said again.
                "toy_thing" if is_new => self.identity(state.get("id").as_str()),
                _ => None,
            },
            ..Applied::default()
        })
    }

    fn validate_list(&self, body: Bytes) -> Answer {
        let request = Validate::decode(body).unwrap_or_default();
        let config = list_config(&request.config);
        let is_odd = config.get("prefix").as_str() == Some("");
        let diagnostics = if is_odd { vec![error("a prefix has letters")] } else { Vec::new() };
        message(&Diagnostics { diagnostics })
    }

    /// Each thing whose name begins as it should. A prefix of `half` breaks off after the first.
    fn list(&self, body: Bytes) -> Answer {
        let request = List::decode(body).unwrap_or_default();
        let config = list_config(&request.config);
        let prefix = config.get("prefix").as_str().unwrap_or_default().to_string();
        if &*request.type_name != "toy_thing" {
            return Answer::Messages(Vec::new());
        }
        let directory = self.directory.borrow();
        let mut files: Vec<_> = fs::read_dir(&*directory).into_iter().flatten().flatten().collect();
        files.sort_by_key(fs::DirEntry::file_name);
        let things = files.into_iter().filter_map(|file| {
            let thing: serde_json::Value = serde_json::from_slice(&fs::read(file.path()).ok()?).ok()?;
            let name = thing["name"].as_str()?.to_string();
            let number = thing["id"].as_str()?.to_string();
            let parts = [("name", Value::text(&name)), ("number", Value::text(&number))];
            let names = schema::identity(self.version).attributes.into_iter().map(|part| part.name);
            let of = Type::Object(names.map(|name| (name.into(), Type::String)).collect());
            let identity = Value::Map(parts.map(|(part, value)| (Arc::from(part), value)).into());
            let identity = Some(IdentityData { identity: Some(dynamic(&identity, &of)) });
            let listed = Listed { identity, display_name: name.clone(), diagnostics: Vec::new() };
            (prefix == "half" || name.starts_with(&prefix)).then_some(listed)
        });
        let mut all: Vec<Listed> = things.take(request.limit.max(0) as usize).collect();
        if prefix == "half" {
            all.truncate(1);
            all.push(Listed {
                diagnostics: vec![error("the second page is not there")],
                ..Listed::default()
            });
        }
        Answer::Messages(all.iter().map(Message::encode_to_vec).collect())
    }

    /// The first number that no thing has.
    fn new_id(&self) -> String {
        if variable("TOY_FRESH").is_some() {
            return format!("thing-{}-{}", std::process::id(), self.next.get());
        }
        let directory = self.directory.borrow();
        let free = (1..).find(|number| !directory.join(format!("thing-{number}.json")).exists());
        format!("thing-{}", free.unwrap_or(0))
    }

    fn import(&self, body: Bytes) -> Answer {
        let request = Import::decode(body).unwrap_or_default();
        let of = &self.of(&request.type_name).value_type;
        let mut id = request.id.clone();
        if let Some(identity) = request.identity {
            // By its name alone: a thing with that name, if there is one.
            let names = schema::identity(self.version).attributes.into_iter().map(|part| part.name);
            let of = Type::Object(names.map(|name| (name.into(), Type::String)).collect());
            let identity = value(&identity.identity, &of);
            let name = identity.get("name").as_str().unwrap_or_default().to_string();
            let directory = self.directory.borrow();
            let files = fs::read_dir(&*directory).into_iter().flatten().flatten();
            let is_it = |file: &fs::DirEntry| {
                let thing = fs::read(file.path()).unwrap_or_default();
                serde_json::from_slice::<serde_json::Value>(&thing).is_ok_and(|thing| thing["name"] == *name)
            };
            let found = files.into_iter().find(is_it);
            let stem = found.and_then(|file| Some(file.path().file_stem()?.to_str()?.to_string()));
            id = stem.unwrap_or_else(|| "nothing".into());
        }
        let state = Value::Map([("id".into(), Value::text(&id))].into());
        let found = Imported {
            type_name: request.type_name.clone(),
            state: Some(dynamic(&state, of)),
            ..Imported::default()
        };
        message(&ImportAnswer { resources: vec![found], diagnostics: Vec::new() })
    }
}

/// What a password is made of: `generate 1` makes another one than `generate 2`.
fn makes_password(config: &Value) -> Option<&str> {
    config.get("input").as_str()?.strip_prefix("generate ")
}

fn list_config(config: &Option<DynamicValue>) -> Value {
    let of = Schema::of(schema::list()).unwrap_or_else(|why| unreachable!("{why}"));
    value(config, &of.value_type)
}

/// What is said where an identity is missing that was told.
const LOST: &str = "the identity is lost";

fn error(summary: &str) -> Diagnostic {
    Diagnostic { severity: 1, summary: summary.into(), ..Diagnostic::default() }
}

fn path(name: &str) -> AttributePath {
    AttributePath { steps: vec![Step { selector: Some(Selector::AttributeName(name.into())) }] }
}

fn dynamic(value: &Value, of: &Type) -> DynamicValue {
    DynamicValue { msgpack: encode(value, of).into(), json: Bytes::new() }
}

fn value(dynamic: &Option<DynamicValue>, of: &Type) -> Value {
    let bytes = dynamic.as_ref().map(|dynamic| dynamic.msgpack.clone()).unwrap_or_default();
    decode(&bytes, of).unwrap_or(Value::Null)
}

/// JSON as a value of a type.
fn parse(json: &serde_json::Value, of: &Type) -> Value {
    use serde_json::Value as Json;
    match (json, of) {
        (Json::Bool(set), _) => Value::Bool(*set),
        (Json::Number(number), _) => Number::parse(&number.to_string()).map_or(Value::Null, Value::Number),
        (Json::String(text), _) => Value::text(text),
        (Json::Array(all), Type::Set(of)) => Value::set(all.iter().map(|one| parse(one, of)).collect()),
        (Json::Array(all), Type::List(of)) => Value::Seq(all.iter().map(|one| parse(one, of)).collect()),
        (Json::Object(all), Type::Map(of)) => {
            Value::Map(all.iter().map(|(key, one)| (Arc::from(&**key), parse(one, of))).collect())
        }
        (Json::Object(all), Type::Object(types)) => {
            let field = |(name, of): (&Arc<str>, &Type)| {
                (name.clone(), all.get(&**name).map_or(Value::Null, |one| parse(one, of)))
            };
            Value::Map(types.iter().map(field).collect())
        }
        _ => Value::Null,
    }
}
