//! What is served where nobody knows yet which backend it will be: whatever some of them serve.

use crate::{
    cloudflare,
    dialect::{self, Served, Settled, plain},
    kind::RecordSpec,
    name::Name,
    rdata::{Refusal, Type},
    route53,
};
use reconciled_provider::Span;

/// Every type, and what any of the backends knows of it.
pub(crate) const SERVED: Served = Served { by: dialect::ANY, refused: &[], dialect: settle };

/// The dialect where the backend is not known: what is meant for one is checked by its rules.
fn settle(record: &RecordSpec, kind: Type, ttl: u32, zone: &Name) -> Result<Settled, (Span, Refusal)> {
    // Each of the two refuses what is meant for the other, so a record with both fails, as it would everywhere.
    let dialect = match (&record.cloudflare, &record.route53) {
        (Some(_), _) => cloudflare::SERVED.dialect,
        (None, Some(_)) => route53::SERVED.dialect,
        (None, None) => plain,
    };
    dialect(record, kind, ttl, zone)
}
