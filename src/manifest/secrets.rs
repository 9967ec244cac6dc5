//! The secrets that manifests name: marks in their place, and whether any of them is another one by now.

use crate::{
    config::{HostSecrets, Wanted},
    sops::{self, Refused},
};
use reconciled_provider::{Error, Hash, Secret, SecretMark, SecretRef};
use std::{collections::BTreeMap, sync::Arc};

/// The marks of secrets that manifests may name.
pub trait SecretMarks {
    /// The mark of what a manifest of `kind` (`GROUP/KIND`) in `source` names.
    fn mark(&self, source: &str, kind: &str, reference: &SecretRef) -> Result<SecretMark, Error>;
    /// The mark of a value in a file of the repository that sops encrypted; `content` is the file's.
    fn sealed(&self, wanted: &Wanted<'_>, content: &[u8]) -> Result<SecretMark, Refused>;
    /// The marks of the keys that open what sops encrypted in files of `source`; none of one that cannot be had.
    fn keys(&self, source: &str) -> Vec<Option<SecretMark>>;
    /// The mark of a secret that a manifest puts out, which backends may ask for from then on.
    fn put_out(&self, secret: &Secret) -> SecretMark;
}

impl SecretMarks for HostSecrets {
    fn sealed(&self, wanted: &Wanted<'_>, content: &[u8]) -> Result<SecretMark, Refused> {
        self.open_for_manifest(wanted, content)
    }
    fn keys(&self, source: &str) -> Vec<Option<SecretMark>> {
        self.marks_of_keys(source)
    }
    fn mark(&self, source: &str, kind: &str, reference: &SecretRef) -> Result<SecretMark, Error> {
        self.mark_for_manifest(source, kind, reference)
    }
    fn put_out(&self, secret: &Secret) -> SecretMark {
        self.keep_output(secret)
    }
}

/// Every secret is there, as far as a manifest alone can tell.
pub(super) struct AnySecret;

impl SecretMarks for AnySecret {
    fn sealed(&self, wanted: &Wanted<'_>, content: &[u8]) -> Result<SecretMark, Refused> {
        sops::File::read(wanted.path, content)?.check(wanted.key)?;
        Ok(SecretMark(Hash::default()))
    }
    fn keys(&self, _: &str) -> Vec<Option<SecretMark>> {
        Vec::new()
    }
    fn mark(&self, _: &str, _: &str, _: &SecretRef) -> Result<SecretMark, Error> {
        Ok(SecretMark(Hash::default()))
    }
    fn put_out(&self, _: &Secret) -> SecretMark {
        SecretMark(Hash::default())
    }
}

/// The secrets that manifests name, and the keys that open what sops encrypted for them, each with the mark it had; none
/// where it could not be had. As long as these stand, loading again finds the same.
#[derive(Clone, Debug, Default)]
pub struct KnownSecrets {
    named: BTreeMap<(Arc<str>, Arc<str>, SecretRef), Option<SecretMark>>,
    /// By source.
    keys: BTreeMap<Arc<str>, Vec<Option<SecretMark>>>,
}

impl KnownSecrets {
    /// Of two marks the first counts: a secret that was rotated meanwhile is found to have changed, and all is loaded again.
    pub(super) fn note(&mut self, source: &str, kind: &str, reference: &SecretRef, mark: Option<SecretMark>) {
        self.named.entry((source.into(), kind.into(), reference.clone())).or_insert(mark);
    }
    /// Notes the keys for files of `source`, before the first of these is opened, for the same reason.
    pub(super) fn note_keys(&mut self, source: &str, secrets: &dyn SecretMarks) {
        self.keys.entry(source.into()).or_insert_with(|| secrets.keys(source));
    }
    /// Those of `other` as well; where both have one, the mark in `self` counts.
    pub fn extend(&mut self, other: KnownSecrets) {
        for (of, mark) in other.named {
            self.named.entry(of).or_insert(mark);
        }
        for (source, marks) in other.keys {
            self.keys.entry(source).or_insert(marks);
        }
    }
    /// Those that manifests of one source name.
    pub fn of(&self, source: &str) -> KnownSecrets {
        let named = self.named.iter().filter(|((by, _, _), _)| **by == *source);
        let keys = self.keys.iter().filter(|(by, _)| ***by == *source);
        KnownSecrets {
            named: named.map(|(of, mark)| (of.clone(), *mark)).collect(),
            keys: keys.map(|(by, marks)| (by.clone(), marks.clone())).collect(),
        }
    }
    /// True when any of them has another mark now, is gone, or has come. Blocks: secrets are read.
    pub fn have_changed(&self, secrets: &dyn SecretMarks) -> bool {
        let mut named = self.named.iter();
        named.any(|((source, kind, reference), known)| secrets.mark(source, kind, reference).ok() != *known)
            || self.keys.iter().any(|(source, known)| secrets.keys(source) != *known)
    }
}
