//! The place of a secret: how it is written in the configuration, and how messages name it.

use reconciled_provider::{SecretRef, yaml::unshown};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use std::{fmt, sync::Arc};

/// How the place of a secret is written.
pub(super) const FORMS: &str = "{file: PATH}, {env: NAME}, {credential: NAME} or {exec: [PROGRAM, ARGUMENT]}";

/// `{file|env|credential|exec: …}` in host configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretPlace(pub SecretRef);

impl<'de> Deserialize<'de> for SecretPlace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SecretPlace, D::Error> {
        struct PlaceVisitor;
        impl<'de> Visitor<'de> for PlaceVisitor {
            type Value = SecretPlace;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "the place of a secret, and not the secret itself: {FORMS}")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<SecretPlace, A::Error> {
                let place = match access.next_key::<String>()? {
                    Some(key) if key == "exec" => {
                        SecretPlace::of_command(&access.next_value::<Vec<String>>()?)
                    }
                    Some(key) => SecretPlace::of(&key, &access.next_value::<String>()?),
                    None => None,
                };
                let more = access.next_entry::<String, String>()?.is_some();
                place
                    .filter(|_| !more)
                    .ok_or_else(|| A::Error::custom(format!("a secret is written {FORMS}")))
            }
        }
        unshown(deserializer, PlaceVisitor)
    }
}

impl SecretPlace {
    /// The place named by one `key: value`, if the key is one of the three.
    pub(super) fn of(key: &str, value: &str) -> Option<SecretPlace> {
        let reference = match key {
            "file" => SecretRef::File(value.into()),
            "env" => SecretRef::Env(value.into()),
            "credential" => SecretRef::Credential(value.into()),
            _ => return None,
        };
        (!value.is_empty()).then_some(SecretPlace(reference))
    }

    /// What a command prints, if there is one.
    pub(super) fn of_command(argv: &[String]) -> Option<SecretPlace> {
        let is_command = argv.first().is_some_and(|program| !program.is_empty());
        let argv = argv.iter().map(|argument| Arc::from(argument.as_str())).collect();
        is_command.then_some(SecretPlace(SecretRef::Exec(argv)))
    }
}

/// The place a secret reference names, in the words of the configuration.
pub fn describe_secret(reference: &SecretRef) -> String {
    match reference {
        SecretRef::Named(name) => format!("secret {name}"),
        SecretRef::File(path) => format!("file {path}"),
        SecretRef::Env(name) => format!("environment variable {name}"),
        SecretRef::Credential(name) => format!("credential {name}"),
        // Arguments may tell more than a log should know.
        SecretRef::Exec(argv) => format!("command {}", argv.first().map_or("", |program| program)),
    }
}
