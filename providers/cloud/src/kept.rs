//! What is remembered of a resource between passes: the state its provider gave, sealed by the store.

use crate::{
    catalog::ResourceType,
    change,
    cty::write_json,
    hidden::Hidden,
    plugin::{Identity, Known},
    schema::Block,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use reconciled_provider::{Error, Hash, RemoteNames, Sealed};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::{collections::BTreeSet, sync::Arc};

/// State of one resource.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Version of the schema it was written with.
    pub(crate) version: i64,
    /// JSON, as text: every digit of a number counts.
    pub(crate) state: String,
    /// The provider's own, in base64.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) private: String,
    /// What identifies it, where its type has that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<Identity>,
    /// It was made in part: it must go before there can be a whole one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_tainted: bool,
    /// Secrets of the manifest that are in it, in clear as in the state: they are never shown, wherever they stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) secrets: Vec<Arc<str>>,
    /// What the entry said when it was written: with another account, what is not there may be elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) account: Option<String>,
    /// The values of `replaceTriggeredBy` that it was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) triggers: Option<Vec<Json>>,
    /// Those that were in its place and are still to be deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) former: Vec<Former>,
    /// One that takes its place was being made: without an answer nobody knows whether it exists.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_making: bool,
}

/// What was replaced by one that was made before.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Former {
    /// Its state.
    pub(crate) kept: Kept,
    /// When it was replaced, in seconds since 1970.
    pub(crate) since: u64,
}

impl Former {
    /// What people know it by.
    pub(crate) fn id(&self, of: &ResourceType) -> String {
        let hidden = self.kept.hidden_by(&of.schema.block);
        let shown = self.kept.id().filter(|id| !hidden.hides(id));
        shown.unwrap_or_else(|| format!("the {} before", of.name))
    }
}

/// Attributes that say where something is, where they need not be declared.
const PLACES: [&str; 5] = ["location", "namespace", "project", "region", "zone"];
/// What stands where an id would, in types that have none, such as `random_password`.
const NO_IDS: [&str; 3] = ["", "-", "none"];

impl Kept {
    /// What is known of a resource in this account.
    pub(crate) fn new(of: &ResourceType, known: &Known, account: Hash) -> Kept {
        // JSON is written from texts, which are UTF-8.
        let json = String::from_utf8_lossy(&write_json(&known.state, &of.schema.value_type)).into_owned();
        Kept {
            version: of.schema.version,
            state: json,
            private: STANDARD.encode(&known.private),
            identity: known.identity.clone(),
            is_tainted: false,
            secrets: Vec::new(),
            account: Some(account.to_string()),
            triggers: None,
            former: Vec::new(),
            is_making: false,
        }
    }
    /// With what is remembered of `before`, beside its state.
    pub(crate) fn going_on_from(mut self, before: &Kept) -> Kept {
        self.is_tainted = before.is_tainted;
        self.is_making = before.is_making;
        self.triggers = before.triggers.clone();
        self.former = before.former.clone();
        self
    }
    /// True where nothing tells the two apart: their identity, their id, or what else the provider alone gives where a type has no id.
    pub(crate) fn is_of_one_thing_with(&self, other: &Kept, block: &Block) -> bool {
        if let (Some(one), Some(two)) = (&self.identity, &other.identity) {
            return one == two;
        }
        let read = |kept: &Kept| serde_json::from_str::<Json>(&kept.state).unwrap_or_default();
        let (ours, theirs) = (read(self), read(other));
        if let (Some(one), Some(two)) = (ours["id"].as_str(), theirs["id"].as_str()) {
            return one == two;
        }
        let given = block.attributes.iter().filter(|(_, a)| a.computed && !a.is_declarable());
        let told: Vec<bool> = given
            .map(|(name, _)| (&ours[&**name], &theirs[&**name]))
            .filter(|(one, two)| !one.is_null() && !two.is_null())
            .map(|(one, two)| one == two)
            .collect();
        if told.is_empty() { ours == theirs } else { told.into_iter().all(|same| same) }
    }
    /// The id that nearly every resource has.
    fn id(&self) -> Option<String> {
        let state: Json = serde_json::from_str(&self.state).ok()?;
        state["id"].as_str().map(String::from)
    }
    /// What it is called, as a resource of this type; `block` where that is known. Many an id is one only within something else,
    /// such as the bucket of an object, which then has to be declared, or is where the provider looks.
    pub(crate) fn remote_names(&self, type_name: &str, block: Option<&Block>) -> RemoteNames {
        let of = |name: &str| Hash::of(format!("{type_name} {name}").as_bytes());
        let state: Json = serde_json::from_str(&self.state).unwrap_or_default();
        let must_be = block.iter().flat_map(|block| &block.attributes).filter(|(_, one)| one.required);
        let within: BTreeSet<&str> = must_be.map(|(name, _)| &**name).chain(PLACES).collect();
        let within = within.into_iter().filter_map(|name| state[name].as_str());
        let remote = state["id"].as_str().filter(|id| !NO_IDS.contains(id)).map(|id| {
            let parts: Vec<&str> = std::iter::once(id).chain(within).collect();
            of(&format!("{parts:?}"))
        });
        RemoteNames { identity: self.identity.as_ref().map(|identity| of(&identity.value)), remote }
    }
    /// What the provider wants back.
    pub(crate) fn private(&self) -> Vec<u8> {
        STANDARD.decode(&self.private).unwrap_or_default()
    }
    /// Its secrets.
    pub(crate) fn hidden(&self) -> Hidden {
        self.secrets.iter().cloned().collect()
    }
    /// Its secrets, and what its schema calls sensitive.
    pub(crate) fn hidden_by(&self, block: &Block) -> Hidden {
        let state: Json = serde_json::from_str(&self.state).unwrap_or_default();
        self.hidden().and_copies(change::secrets_in(block, &state), BTreeSet::new())
    }
    /// Reads what was sealed; none where there is nothing.
    ///
    /// Errors: `Unexpected` when it is no state.
    pub(crate) fn open(sealed: &Sealed) -> Result<Option<Kept>, Error> {
        if sealed.is_empty() {
            return Ok(None);
        }
        // The text of the error would quote the state.
        serde_json::from_slice(&sealed.0)
            .map(Some)
            .map_err(|_| Error::unexpected("what is remembered of it is no state"))
    }
    /// Seals it.
    pub(crate) fn seal(&self) -> Sealed {
        Sealed::new(serde_json::to_vec(self).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::fixture::{block, text};

    #[test]
    fn an_id_is_that_of_one_thing_within_what_it_is_in_and_stands_for_nothing_where_it_is_none() {
        let attributes = ["id oc", "bucket r", "region oc", "tag o"].map(|attribute| {
            let (name, rights) = attribute.split_once(' ').unwrap();
            text(name, rights)
        });
        let block = block(attributes.into(), Vec::new());
        let names = |id: &str, rest: &str| {
            let state = format!(r#"{{"id": "{id}", "bucket": "b", "region": "r", "tag": "t"{rest}}}"#);
            let kept = serde_json::json!({"version": 0, "state": state});
            serde_json::from_value::<Kept>(kept).unwrap().remote_names("toy_object", Some(&block))
        };
        let one = names("key", "");
        assert_eq!(one.is(&names("key", r#", "tag": "u""#)), Some(true));
        for other in
            [names("other", ""), names("key", r#", "bucket": "c""#), names("key", r#", "region": "s""#)]
        {
            assert_eq!(one.is(&other), Some(false));
        }
        for none in NO_IDS {
            assert_eq!(names(none, "").is(&names(none, "")), None);
        }
    }
}
