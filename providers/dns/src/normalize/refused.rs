//! What cannot be declared, wherever it is written: by its type, its place in the zone, or who else would have a part in it.

use super::{collect::Site, context::Context};
use crate::{name::Name, rdata::Type};
use reconciled_provider::Problem;

/// Refuses a type that the backend does not have.
pub(super) fn served(cx: &Context<'_>, kind: Type, site: &Site) -> Option<Problem> {
    let (_, hint) = cx.served.refused.iter().find(|(refused, _)| *refused == kind)?;
    let (word, by, entry) = (kind.word(), cx.served.by, cx.inputs.entry());
    let message = format!("{word} records cannot be served by `{entry}`, a provider of type {by}");
    Some(site.error(message).hint(*hint))
}

/// Refuses to share what has one value: with those of others there would be two of them. `own` where the record says it.
pub(super) fn unshareable(cx: &Context<'_>, kind: Type, own: bool, site: &Site) -> Option<Problem> {
    if !kind.is_single() || !own && !cx.manifest.policy.merge {
        return None;
    }
    let (word, hint) = match own {
        true => ("merge", "leave `merge` out"),
        false => (
            "reconciled/merge",
            "move it to a manifest without the annotation, or write `merge: true` in the records that share values instead",
        ),
    };
    let why = kind.refuse_several().message;
    Some(site.error(format!("`{word}` shares values with others, and {why}")).hint(hint))
}

/// Refuses what cannot stand at the zone itself, or only there, or only with consent.
pub(super) fn at_apex(cx: &Context<'_>, name: &Name, kind: Type, site: &Site) -> Option<Problem> {
    let is_apex = name == cx.zone;
    let problem = match kind {
        Type::Cname if is_apex => site
            .error("a CNAME cannot stand at the zone itself, beside its SOA and NS")
            .hint("use A and AAAA records there, or ALIAS where the server knows it (RFC 1034 §3.6.2)"),
        Type::Ds if is_apex => site
            .error("a DS stands in the zone above, at the name of the delegation")
            .hint("declare it in the zone above (RFC 4035 §2.4)"),
        Type::Soa if !is_apex => {
            site.error("a SOA stands only at the zone itself").hint("name it `@` (RFC 1035 §5.2)")
        }
        Type::Soa | Type::Ns if is_apex && !cx.has_apex => site
            .error(format!("the {} of the zone itself is not managed", kind.word()))
            .hint("write `apex: true` in the spec of the zone to manage it"),
        _ => return None,
    };
    Some(problem)
}
