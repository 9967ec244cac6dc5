//! What the host configuration says of marks in TXT records.

use super::naming::Naming;
use reconciled_provider::SecretRef;
use std::sync::Arc;

/// How marks are named and sealed.
#[derive(Clone, Debug)]
pub struct TxtMarks {
    /// How they are named.
    pub naming: Naming,
    /// Where the key is that seals them; none for marks in clear.
    pub key: Option<SecretRef>,
}

/// What an entry knows of marks in TXT records.
#[derive(Clone, Debug, Default)]
pub struct Ownership {
    /// The instance that ours name.
    pub instance: Arc<str>,
    /// How ours are written; none: no TXT records of ours.
    pub marks: Option<TxtMarks>,
    /// How those of an ExternalDNS in these zones are written; none: that is found out.
    pub external_dns: Option<TxtMarks>,
}

impl Ownership {
    /// The same for `instance`.
    pub(crate) fn of(&self, instance: &str) -> Ownership {
        Ownership { instance: instance.into(), ..self.clone() }
    }
}
