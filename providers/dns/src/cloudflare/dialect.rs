//! What only Cloudflare knows of a record: proxied, comment, tags; and the TTLs it takes.
//!
//! The same form stands on both sides: [`settle`] gives it for a manifest, [`Extra::text`] for what was seen.
//! Invariant: a proxied record has TTL 1 on both sides. Cloudflare forces it, so anything else would be a
//! difference that no write takes away.

use super::mark::{self, canonical_tags};
use crate::{
    dialect::{Settled, refuse_route53},
    kind::RecordSpec,
    name::Name,
    rdata::{Refusal, Type},
};
use reconciled_provider::Span;
use serde::{Deserialize, Serialize};

/// The TTL that stands for "automatic".
pub(crate) const AUTO: u32 = 1;

/// Longest comment of any plan, in characters.
pub(crate) const LONGEST_COMMENT: usize = 500;

/// What is declared, or seen, of an RRset besides its data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extra {
    /// Traffic goes through Cloudflare.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) proxied: bool,
    /// The note, without our mark; none where nobody declares one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) comment: Option<String>,
    /// The tags, sorted, without our mark; none where nobody declares them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tags: Option<Vec<String>>,
}

#[derive(Serialize, Deserialize)]
struct Wrapped {
    cloudflare: Extra,
}

impl Extra {
    /// Canonical text; empty when there is nothing to say.
    pub(crate) fn text(&self) -> String {
        if *self == Extra::default() {
            return String::new();
        }
        // Writing plain data into memory cannot fail.
        serde_json::to_string(&Wrapped { cloudflare: self.clone() }).unwrap_or_default()
    }
    /// Reads canonical text.
    pub(crate) fn parse(text: &str) -> Extra {
        serde_json::from_str(text).map(|wrapped: Wrapped| wrapped.cloudflare).unwrap_or_default()
    }
}

/// The TTL and the rest of a record as a manifest declares it.
pub(crate) fn settle(
    record: &RecordSpec,
    kind: Type,
    ttl: u32,
    _: &Name,
) -> Result<Settled, (Span, Refusal)> {
    refuse_route53(record)?;
    let refuse =
        |span, message: String, hint: &str| Err((span, Refusal { message, hint: Some(hint.to_owned()) }));
    if kind == Type::Soa {
        let message = "Cloudflare keeps the SOA of a zone itself".into();
        return refuse(record.kind.span, message, "leave the record out at this provider");
    }
    // An absolute name may be that of the zone: it is looked at when it is written.
    let is_at_zone = record.name.value == "@" || record.name.value.ends_with('.');
    if kind == Type::Alias && !is_at_zone {
        let message = "Cloudflare has an ALIAS only at the zone itself, where it flattens a CNAME".into();
        return refuse(record.kind.span, message, "write CNAME");
    }
    let ttl_span = record.ttl.as_ref().map_or(record.name.span, |ttl| ttl.span);
    let extra = match &record.cloudflare {
        None => Extra::default(),
        Some(at) => {
            let spec = &at.value;
            let comment = spec.comment.as_ref().map(|text| text.trim().to_owned());
            if let Some(text) = &comment {
                if text.chars().any(char::is_control) {
                    return refuse(at.span, "a comment is one line of text".into(), "write it in one line");
                }
                let length = text.chars().count();
                if length > LONGEST_COMMENT {
                    let message = format!("a comment of {length} characters is longer than any plan takes");
                    return refuse(at.span, message, "at most 100 on the Free plan, 500 on others");
                }
            }
            let bad = |tag: &&String| tag.is_empty() || tag.chars().any(|c| c.is_control() || c == ',');
            if let Some(tag) = spec.tags.iter().flatten().find(bad) {
                return refuse(at.span, format!("`{tag}` is no tag"), "a tag is `name` or `name:value`");
            }
            let none = Vec::new();
            let parts =
                mark::split(comment.as_deref().unwrap_or_default(), spec.tags.as_ref().unwrap_or(&none));
            if parts.owner.is_some() {
                let message = "the comment or a tag looks like the mark of an instance".into();
                return refuse(at.span, message, "leave out `reconciled=…` and `reconciled:…`");
            }
            let tags = spec.tags.as_ref().map(canonical_tags);
            Extra { proxied: spec.proxied, comment, tags }
        }
    };
    if extra.proxied {
        let span = record.cloudflare.as_ref().map_or(ttl_span, |at| at.span);
        if !matches!(kind, Type::A | Type::Aaaa | Type::Alias | Type::Cname) {
            let message = format!("a {} cannot be proxied", kind.word());
            return refuse(span, message, "only A, AAAA, ALIAS and CNAME can");
        }
        if record.ttl.as_ref().is_some_and(|ttl| ttl.value != AUTO) {
            let message = "the ttl of a proxied record is automatic".into();
            return refuse(ttl_span, message, "leave `ttl` out");
        }
        return Ok(Settled::new(AUTO, extra.text()));
    }
    if ttl != AUTO && !(30..=86_400).contains(&ttl) {
        let message = format!("Cloudflare takes no ttl of {ttl} seconds");
        return refuse(ttl_span, message, "60 to 86400 (from 30 on Enterprise), or 1 for automatic");
    }
    Ok(Settled::new(ttl, extra.text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canonical_text_holds_only_what_is_said() {
        assert_eq!(Extra::default().text(), "");
        let extra = Extra { proxied: true, comment: Some("a \"b\"".into()), tags: None };
        assert_eq!(extra.text(), r#"{"cloudflare":{"proxied":true,"comment":"a \"b\""}}"#);
        assert_eq!(Extra::parse(&extra.text()), extra);
        assert_eq!(Extra::parse("{damaged"), Extra::default());
    }
}
