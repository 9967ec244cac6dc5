//! The words of a scenario's lines.

use reconciled_engine::plan::EntryPolicy;
use reconciled_provider::{Address, Adopt, Deletion, Drift, Hash, ManifestKey};
use std::{sync::Arc, time::Duration};

/// One line: a word, and what is said of it.
pub(crate) struct Line<'a> {
    pub(crate) words: Vec<&'a str>,
}

impl<'a> Line<'a> {
    pub(crate) fn at(&self, index: usize) -> &'a str {
        self.words.get(index).copied().unwrap_or_else(|| panic!("too short: {:?}", self.words))
    }
    pub(crate) fn get(&self, key: &str) -> Option<&'a str> {
        self.words.iter().find_map(|w| w.strip_prefix(key)?.strip_prefix('='))
    }
    pub(crate) fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }
    pub(crate) fn list(&self, key: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.get(key).into_iter().flat_map(|list| list.split(','))
    }
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.get(key).map(|n| n.parse().unwrap())
    }
    pub(crate) fn seconds(&self, key: &str) -> Option<Duration> {
        self.number(key).map(Duration::from_secs)
    }
    pub(crate) fn manifest(&self) -> &'a str {
        self.get("manifest").unwrap_or("web")
    }
    pub(crate) fn source(&self) -> &'a str {
        self.get("source").unwrap_or("infra")
    }
}

pub(crate) fn key(source: &str, name: &str) -> ManifestKey {
    ManifestKey::new(source, "test", "Thing", "", name)
}

pub(crate) fn address(name: &str, part: Option<&str>) -> Address {
    Address { part: part.map(Arc::from), ..format!("Thing/{name}").parse().unwrap() }
}

pub(crate) fn hash(text: &str) -> Hash {
    Hash::of(text.as_bytes())
}

pub(crate) fn deletion(word: &str) -> Deletion {
    match word {
        "delete" => Deletion::Delete,
        "abandon" => Deletion::Abandon,
        "protect" => Deletion::Protect,
        _ => panic!("no deletion mode: {word}"),
    }
}

pub(crate) fn policy(word: &str) -> EntryPolicy {
    match word {
        "observe" => EntryPolicy::Observe,
        "create-only" => EntryPolicy::CreateOnly,
        "upsert-only" => EntryPolicy::UpsertOnly,
        "sync" => EntryPolicy::Sync,
        other => panic!("no policy: {other}"),
    }
}

pub(crate) fn drift(word: &str) -> Drift {
    match word {
        "heal" => Drift::Heal,
        "warn" => Drift::Warn,
        "ignore" => Drift::Ignore,
        _ => panic!("no drift mode: {word}"),
    }
}

pub(crate) fn adopt(word: &str) -> Adopt {
    match word {
        "always" => Adopt::Always,
        "never" => Adopt::Never,
        other => Adopt::From(other.into()),
    }
}

pub(crate) fn number(text: &str) -> u64 {
    text.parse().unwrap()
}
