//! What is planned and done, and what goes wrong with it as a thing's `fault` says.

use crate::{
    answer::{Answer, message},
    environment::variable,
    form::{dynamic, error, path, value},
    thing::Toy,
};
use prost::Message;
use prost::bytes::Bytes;
use reconciled_cloud::{
    cty::{Value, write_json},
    wire::message::{Applied, Apply, Plan, Planned},
};
use std::{fs, time::Duration};

/// What is said where an identity is missing that was told.
const LOST: &str = "the identity is lost";

impl Toy {
    pub(crate) async fn plan(&self, body: Bytes) -> Answer {
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
            // This call has no answer, and all others do.
            Some("plan-slow") => {
                let _ = fs::write(self.directory.borrow().join("wedged"), "");
                return std::future::pending().await;
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
        // As blocks that a provider with the old SDK fills in: where none is declared, those that are there stay.
        let keeps = is_thing
            && config.get("name").as_str().is_some_and(|name| name.starts_with("kept-"))
            && config.get("label").elements().is_empty();
        if keeps && !is_new {
            state.insert("label".into(), prior.get("label").clone());
        }
        message(&Planned {
            legacy_type_system: keeps,
            state: Some(dynamic(&Value::Map(state), of)),
            requires_replace: if is_thing { vec![path("name")] } else { Vec::new() },
            private: Bytes::from_static(b"planned"),
            identity: is_thing.then(|| self.identity(prior.get("id").as_str())).flatten(),
            ..Planned::default()
        })
    }

    pub(crate) async fn apply(&self, body: Bytes) -> Answer {
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
            "refused" => return failed("dial tcp 192.0.2.1:443: connect: connection refused", &prior),
            // The cloud made it, and its answer was lost.
            "unheard" => return failed("send request failed: Post \"https://toy.example\": EOF", &prior),
            // It broke while it made it, as the library of AWS says that which most of its types were written with.
            "broken" => return failed("InternalFailure: x\n\tstatus code: 500, request id: y", &prior),
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
                // Whoever sees the id sees what it is made of.
                "toy_thing" if fault == "telltale" => {
                    let part = |name| planned.get(name).as_str().unwrap_or_default();
                    format!("thing-{}{}", part("secret"), part("content"))
                }
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

    /// The first number that no thing has.
    fn new_id(&self) -> String {
        if variable("TOY_FRESH").is_some() {
            return format!("thing-{}-{}", std::process::id(), self.next.get());
        }
        let directory = self.directory.borrow();
        let free = (1..).find(|number| !directory.join(format!("thing-{number}.json")).exists());
        format!("thing-{}", free.unwrap_or(0))
    }
}

/// What a password is made of: `generate 1` makes another one than `generate 2`.
fn makes_password(config: &Value) -> Option<&str> {
    config.get("input").as_str()?.strip_prefix("generate ")
}
