//! What there is of a type, for types that a provider can list (protocols 5.10 and 6.10).

use super::{Class, Plugin, value::write_value};
use crate::{
    catalog::ResourceType,
    cty::{self, Value},
    said::said,
    wire::{Status, message::List},
};
use reconciled_provider::{Cx, Error, ErrorKind};
use serde_json::{Map, Value as Json};

/// One of a list: how it is found again, and what people call it.
#[derive(Debug)]
pub(crate) struct Listed {
    /// Its identity, as `reconciled/import` says it.
    pub(crate) import: String,
    /// What the provider calls it before people; nobody promises that there is one of that name.
    pub(crate) name: String,
}

impl Plugin {
    /// At most `limit` resources of a type; `list` is what may be asked of it, `config` what is.
    ///
    /// Errors: also where any part of the list could not be told: half of a list looks like all of it.
    pub(crate) async fn list(
        &self,
        cx: &Cx,
        of: &ResourceType,
        (list, config): (&ResourceType, &Value),
        limit: usize,
    ) -> Result<Vec<Listed>, Error> {
        let doing = format!("list each {}", of.name);
        let hidden = &self.hidden;
        let config = || write_value(config, &list.schema.value_type);
        match self.ask(self.process.calls.validate_list(&list.name, config())).await {
            Ok(answer) => {
                if let Some(mut error) = said(&doing, &answer.diagnostics, hidden) {
                    // Nothing was asked of the cloud: it is what was written.
                    if error.kind == ErrorKind::Unexpected {
                        error.kind = ErrorKind::Invalid;
                    }
                    return Err(error);
                }
            }
            // It has nothing to check.
            Err(status) if status.is_unimplemented() => {}
            Err(status) => return Err(self.severed(&doing, status, hidden).await),
        }
        let Some(identity) = self.identity_type(of, hidden).await? else {
            let text = format!("{doing}: provider `{}` does not say what identifies one", self.name);
            return Err(Error::unsupported(text)
                .hint("this is a mistake of the provider; its maintainers want to know"));
        };
        let message = List {
            type_name: list.name.to_string(),
            config: Some(config()),
            include_resource_object: false,
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
        };
        self.turn(cx, Class::Reads).await;
        let answer = match self.ask(self.process.calls.list(message)).await {
            Ok(answer) => answer,
            Err(Status::Code(12, _)) => {
                let text = format!("{doing}: provider `{}` says that it can, and cannot", self.name);
                return Err(Error::unsupported(text)
                    .hint("this is a mistake of the provider; its maintainers want to know"));
            }
            Err(status) => return Err(self.severed(&doing, status, hidden).await),
        };
        let diagnostics: Vec<_> = answer.iter().flat_map(|one| one.diagnostics.iter().cloned()).collect();
        if let Some(error) = self.heard(Class::Reads, &doing, &diagnostics, hidden) {
            return Err(error);
        }
        let mut all = Vec::new();
        for one in answer {
            // A warning may come by itself.
            let Some(data) = one.identity.and_then(|identity| identity.identity) else { continue };
            let value = self.read_value(Some(data), &identity.of, &doing)?;
            all.push(Listed {
                import: without_nulls(&cty::write_json(&value, &identity.of)),
                name: one.display_name,
            });
        }
        Ok(all)
    }
}

/// An identity as a person would write it: what of it is null may be left out.
fn without_nulls(json: &[u8]) -> String {
    let parts: Map<String, Json> = serde_json::from_slice(json).unwrap_or_default();
    let parts = parts.into_iter().filter(|(_, part)| !part.is_null());
    Json::Object(parts.collect()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_written_without_what_it_leaves_open() {
        assert_eq!(without_nulls(br#"{"account":null,"name":"a\"b","n":12}"#), r#"{"name":"a\"b","n":12}"#);
    }
}
