//! What is there: things read, found by name or id, and listed.

use crate::{
    answer::{Answer, message},
    form::{dynamic, error, parse, value},
    schema,
    thing::Toy,
};
use prost::Message;
use prost::bytes::Bytes;
use reconciled_cloud::{
    cty::{Type, Value},
    schema::Schema,
    wire::message::{
        DataAnswer, Diagnostics, DynamicValue, IdentityData, Import, ImportAnswer, Imported, List, Listed,
        Read, ReadAnswer, ReadData, Validate,
    },
};
use std::{fs, sync::Arc};

impl Toy {
    pub(crate) fn read(&self, body: Bytes) -> Answer {
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
        // Who cannot make sense of it says what it is.
        let told = state.get("secret").as_str().filter(|_| state.get("content").as_str() == Some("tell"));
        let told = told.map(|secret| error(&format!("the password {secret} is too short")));
        message(&ReadAnswer {
            state: Some(dynamic(&state, of)),
            private: request.private,
            identity,
            diagnostics: told.into_iter().collect(),
        })
    }

    /// A thing by its name.
    pub(crate) fn read_data(&self, body: Bytes) -> Answer {
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

    pub(crate) fn validate_list(&self, body: Bytes) -> Answer {
        let request = Validate::decode(body).unwrap_or_default();
        let config = list_config(&request.config);
        let is_odd = config.get("prefix").as_str() == Some("");
        let diagnostics = if is_odd { vec![error("a prefix has letters")] } else { Vec::new() };
        message(&Diagnostics { diagnostics })
    }

    /// Each thing whose name begins as it should. A prefix of `half` breaks off after the first.
    pub(crate) fn list(&self, body: Bytes) -> Answer {
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

    pub(crate) fn import(&self, body: Bytes) -> Answer {
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

fn list_config(config: &Option<DynamicValue>) -> Value {
    let of = Schema::of(schema::list()).unwrap_or_else(|why| unreachable!("{why}"));
    value(config, &of.value_type)
}
