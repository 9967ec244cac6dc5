//! What a backend makes of a record: the types it refuses, and what it alone knows besides name, type, TTL and values.

use crate::{
    kind::RecordSpec,
    name::Name,
    rdata::{self, Type},
};
use reconciled_provider::Span;

/// Value of `type` of entries that alone know what is written in `cloudflare`.
pub(crate) const CLOUDFLARE: &str = "cloudflare";

/// Value of `type` of entries that alone know what is written in `route53`.
pub(crate) const ROUTE53: &str = "route53";

/// What stands for the `type` of an entry while nobody knows yet which one it will be.
pub(crate) const ANY: &str = "*";

/// What a backend makes of a record of a zone; refusals say at which place of the record.
pub type Dialect = fn(&RecordSpec, Type, u32, &Name) -> Result<Settled, (Span, rdata::Refusal)>;

/// A record as a backend will have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Seconds.
    pub ttl: u32,
    /// What only this backend knows, see [`record::encode_with`](crate::record::encode_with).
    pub extra: String,
    /// Canonical values; none for those that the record lists.
    pub values: Option<Vec<String>>,
}

impl Settled {
    /// A record with its own values.
    pub fn new(ttl: u32, extra: String) -> Settled {
        Settled { ttl, extra, values: None }
    }
}

/// What a backend cannot hold, and what it alone knows.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// Value of `type` in the host configuration.
    pub by: &'static str,
    /// Types it does not serve, each with what to do instead.
    pub refused: &'static [(Type, &'static str)],
    /// What it makes of the rest of a record.
    pub dialect: Dialect,
}

impl Served {
    /// Every type, and nothing else.
    pub(crate) const ALL: Served = Served { by: "", refused: &[], dialect: plain };

    /// True where what only backends of type `by` know can be declared.
    pub(crate) fn may_be(&self, by: &str) -> bool {
        self.by == by || self.by == ANY
    }
}

/// The dialect of backends that know nothing besides: what is meant for others is refused by name.
pub(crate) fn plain(
    record: &RecordSpec,
    _: Type,
    ttl: u32,
    _: &Name,
) -> Result<Settled, (Span, rdata::Refusal)> {
    refuse_cloudflare(record)?;
    refuse_route53(record)?;
    Ok(Settled::new(ttl, String::new()))
}

/// Refuses what only Cloudflare knows.
pub(crate) fn refuse_cloudflare(record: &RecordSpec) -> Result<(), (Span, rdata::Refusal)> {
    record.cloudflare.as_ref().map_or(Ok(()), |other| Err((other.span, of_another(CLOUDFLARE))))
}

/// Refuses what only Route 53 knows.
pub(crate) fn refuse_route53(record: &RecordSpec) -> Result<(), (Span, rdata::Refusal)> {
    record.route53.as_ref().map_or(Ok(()), |other| Err((other.span, of_another(ROUTE53))))
}

fn of_another(word: &str) -> rdata::Refusal {
    let message = format!("`{word}` means nothing to this provider, which is of another type");
    let hint = format!("write the record in a RecordSet whose `provider` is of type `{word}`");
    rdata::Refusal { message, hint: Some(hint) }
}
