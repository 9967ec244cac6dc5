//! The record types that manifests may declare, and those that signing software writes.

use super::refusal::Refusal;
use reconciled_provider::problem::did_you_mean;

/// A record type that manifests may declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are the record types")]
pub enum Type {
    A,
    Aaaa,
    Alias,
    Caa,
    Cname,
    Dname,
    Ds,
    Https,
    Loc,
    Mx,
    Naptr,
    Ns,
    Openpgpkey,
    Ptr,
    Smimea,
    Soa,
    Srv,
    Sshfp,
    Svcb,
    Tlsa,
    Txt,
    Uri,
}

/// Every declarable type with its word.
pub(super) const TYPES: [(&str, Type); 22] = [
    ("A", Type::A),
    ("AAAA", Type::Aaaa),
    ("ALIAS", Type::Alias),
    ("CAA", Type::Caa),
    ("CNAME", Type::Cname),
    ("DNAME", Type::Dname),
    ("DS", Type::Ds),
    ("HTTPS", Type::Https),
    ("LOC", Type::Loc),
    ("MX", Type::Mx),
    ("NAPTR", Type::Naptr),
    ("NS", Type::Ns),
    ("OPENPGPKEY", Type::Openpgpkey),
    ("PTR", Type::Ptr),
    ("SMIMEA", Type::Smimea),
    ("SOA", Type::Soa),
    ("SRV", Type::Srv),
    ("SSHFP", Type::Sshfp),
    ("SVCB", Type::Svcb),
    ("TLSA", Type::Tlsa),
    ("TXT", Type::Txt),
    ("URI", Type::Uri),
];

/// Types that signing software writes; a person never declares them.
const SIGNER_TYPES: [&str; 10] =
    ["RRSIG", "NSEC", "NSEC3", "NSEC3PARAM", "DNSKEY", "CDS", "CDNSKEY", "ZONEMD", "TYPE65534", "TYPE65281"];

impl Type {
    /// The type called `word`, in any case.
    pub fn of(word: &str) -> Option<Type> {
        TYPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, kind)| *kind)
    }
    /// Every declarable type.
    pub fn all() -> impl Iterator<Item = Type> {
        TYPES.iter().map(|(_, kind)| *kind)
    }
    /// The type as zone files write it.
    pub fn word(self) -> &'static str {
        TYPES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
    /// Why `word` is no type, and what to write.
    pub fn refuse(word: &str) -> Refusal {
        let names = || TYPES.iter().map(|(name, _)| *name);
        let hint = match did_you_mean(word, names()) {
            // Was a type of its own once, which nobody asks for any more.
            _ if word.eq_ignore_ascii_case("SPF") => "an SPF policy is a TXT record (RFC 7208 §3.1)".into(),
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known types: {}", names().collect::<Vec<_>>().join(", ")),
        };
        Refusal::new(format!("unknown record type `{word}`"), hint)
    }
    /// True for a type of which a name has one record at most.
    pub(crate) fn is_single(self) -> bool {
        matches!(self, Type::Alias | Type::Cname | Type::Dname | Type::Soa)
    }
    /// Why a record of a type that is single is refused where there are several.
    pub(crate) fn refuse_several(self) -> Refusal {
        let hint = match self {
            Type::Cname => "keep one; a name with several addresses has A and AAAA records (RFC 2181 §10.1)",
            Type::Dname => "keep one of them (RFC 6672 §2.4)",
            Type::Soa => "keep one of them (RFC 1035 §5.2)",
            _ => "keep one; a name with several addresses has A and AAAA records",
        };
        let article = if self == Type::Alias { "an" } else { "a" };
        Refusal::new(format!("{article} {} has exactly one value", self.word()), hint)
    }
    /// What its data look like.
    pub(super) fn example(self) -> &'static str {
        match self {
            Type::A => "192.0.2.1",
            Type::Aaaa => "2001:db8::1",
            Type::Alias | Type::Cname | Type::Dname | Type::Ns | Type::Ptr => "www.example.com.",
            Type::Caa => "0 issue \"letsencrypt.org\"",
            Type::Ds => "60485 13 2 D4B7D520E7BB5F0F67674A0CCEB1E3E0614B93C4F9E99B8383F6A1E4469DA50A",
            Type::Https => "1 . alpn=h2,h3",
            Type::Loc => "51 30 12.748 N 0 7 39.611 W 10m",
            Type::Mx => "10 mail.example.com.",
            Type::Naptr => "100 10 \"u\" \"E2U+sip\" \"!^.*$!sip:info@example.com!\" .",
            Type::Openpgpkey => "mQENBFVHm5sBCADEQ1jW",
            Type::Smimea | Type::Tlsa => {
                "3 1 1 D2ABDE240D7CD3EE6B4B28C54DF034B97983A1D16E8A410E4561CB106618E971"
            }
            Type::Soa => "ns1.example.com. hostmaster.example.com. 10800 3600 604800 3600",
            Type::Srv => "10 60 5060 sip.example.com.",
            Type::Sshfp => "4 2 123456789ABCDEF67890123456789ABCDEF67890123456789ABCDEF123456789",
            Type::Svcb => "1 svc.example.com. alpn=h2 port=8443",
            Type::Txt => "any text",
            Type::Uri => "10 1 \"https://www.example.com/\"",
        }
    }
}

/// True for types that DNSSEC signing maintains.
pub fn is_signer_type(word: &str) -> bool {
    SIGNER_TYPES.contains(&word)
}
