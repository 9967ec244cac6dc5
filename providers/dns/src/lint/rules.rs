//! The catalogue: what each rule says, how bad that is, and where it is written.

/// One rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// How it is called, also to be silenced.
    pub id: &'static str,
    /// It can never work; such a rule cannot be silenced.
    pub is_error: bool,
    /// What it demands.
    pub says: &'static str,
    /// What to do.
    pub hint: &'static str,
    /// The standard it is from.
    pub source: &'static str,
}

const fn error(id: &'static str, says: &'static str, hint: &'static str, source: &'static str) -> Rule {
    Rule { id, is_error: true, says, hint, source }
}

const fn warning(id: &'static str, says: &'static str, hint: &'static str, source: &'static str) -> Rule {
    Rule { id, is_error: false, says, hint, source }
}

/// Every rule, sorted.
pub const RULES: &[Rule] = &[
    warning(
        "address-unusable",
        "an address that no host can have",
        "write the address of a host",
        "RFC 6890 §2.2.2",
    ),
    warning(
        "alias-and-address",
        "ALIAS beside A or AAAA: which one answers depends on the server",
        "keep one of them",
        "no standard: ALIAS has none",
    ),
    warning(
        "alias-root",
        "ALIAS is for the zone itself, and for names that have more; elsewhere a CNAME does",
        "write CNAME",
        "octoDNS alias-root; no standard: ALIAS has none",
    ),
    warning(
        "answer-large",
        "the values of one name and type are longer than a resolver takes over UDP",
        "use fewer or shorter values",
        "RFC 6891 §6.2.5",
    ),
    warning(
        "below-delegation",
        "a name below a delegation is answered by the servers it is delegated to, addresses of name servers apart",
        "declare it in the zone that is delegated",
        "RFC 1034 §4.2.1",
    ),
    error("below-dname", "a name below a DNAME is never answered", "remove one of them", "RFC 6672 §2.4"),
    warning(
        "below-zone",
        "a name in a zone that is declared at the same provider is answered from that zone",
        "declare it there",
        "RFC 1034 §4.2",
    ),
    warning("caa-flags", "flags of CAA are 0, or 128 for critical", "write 0 or 128", "RFC 8659 §4.1"),
    warning(
        "caa-iodef",
        "iodef wants a URL of mailto, http or https",
        "write it like mailto:security@example.com",
        "RFC 8659 §4.4",
    ),
    warning(
        "caa-issuer",
        "who may issue is named by a domain, or by `;` for nobody",
        "write it like letsencrypt.org, without a scheme or path",
        "RFC 8659 §4.2",
    ),
    warning(
        "caa-tag",
        "an unknown property of CAA, which no authority heeds",
        "known: contactemail, contactphone, iodef, issue, issuemail, issuevmc, issuewild",
        "RFC 8659 §7",
    ),
    error(
        "cname-and-other-data",
        "a CNAME is the only record at its name",
        "remove one of them",
        "RFC 1034 §3.6.2",
    ),
    warning(
        "cname-chain",
        "a row of more than three CNAMEs, each a query of its own",
        "point at the end of it",
        "RFC 1034 §3.6.2",
    ),
    error(
        "cname-loop",
        "CNAMEs that lead back to themselves have no answer",
        "point one of them elsewhere",
        "RFC 1034 §5.2.2",
    ),
    warning(
        "cname-target-cname",
        "the target of a CNAME is no alias itself",
        "point at what that points at",
        "RFC 1034 §3.6.2, octoDNS cname-target-not-cname",
    ),
    warning(
        "dkim-form",
        "a key of DKIM is base64 in the tag p",
        "write it like v=DKIM1; k=rsa; p=MIIB…, or as `dkim: {p: …}`",
        "RFC 6376 §3.6.1",
    ),
    warning(
        "dkim-weak",
        "receivers do not believe an RSA key of less than 1,024 bits",
        "make one of 2,048",
        "RFC 8301 §3.2",
    ),
    warning(
        "dmarc-form",
        "a policy begins with v=DMARC1 and has p=none, quarantine or reject",
        "write it like v=DMARC1; p=reject",
        "RFC 7489 §6.3",
    ),
    warning(
        "dmarc-missing",
        "who takes mail and says nothing of forged senders",
        "declare a TXT at `_dmarc`, such as v=DMARC1; p=none",
        "RFC 7489 §6.6.3",
    ),
    warning("dmarc-several", "several policies are none", "keep one of them", "RFC 7489 §6.6.3"),
    warning(
        "ds-weak",
        "an algorithm or digest that is not to be used any more",
        "use digest type 2 and a key of algorithm 13 or 8",
        "RFC 8624 §3",
    ),
    warning(
        "ds-without-ns",
        "a DS stands where a zone is delegated",
        "declare the NS records beside it",
        "RFC 4035 §2.4",
    ),
    warning(
        "hostname-hyphen",
        "a label of a host name neither begins nor ends with a hyphen",
        "leave it out",
        "RFC 952, RFC 1123 §2.1",
    ),
    warning(
        "hostname-underscore",
        "a host name has letters, digits and hyphens",
        "use a hyphen",
        "RFC 952, RFC 1123 §2.1",
    ),
    warning(
        "mx-null",
        "a null MX stands alone, with priority 0",
        "keep `0 .` alone, or the others",
        "RFC 7505 §3",
    ),
    warning(
        "mx-null-sender",
        "a name that takes no mail is no sender to receivers either",
        "end its SPF policy with `-all` and nothing before it, or give it an MX",
        "RFC 7505 §4.2",
    ),
    warning("mx-target-cname", "the target of an MX is no alias", "name the host itself", "RFC 2181 §10.3"),
    warning(
        "naptr-both",
        "regexp and replacement exclude each other",
        "leave regexp empty, or write `.` as replacement",
        "RFC 3403 §4.1",
    ),
    warning(
        "ns-single",
        "one name server is one failure away from none",
        "name a second one, elsewhere",
        "RFC 2182 §5",
    ),
    warning("ns-target-cname", "the target of an NS is no alias", "name the host itself", "RFC 2181 §10.3"),
    warning(
        "ns-without-glue",
        "a name server within what it serves cannot be found without its address",
        "declare its A or AAAA",
        "RFC 1034 §4.2.1",
    ),
    warning(
        "service-name",
        "the name of such a record begins with the service: `_sip._tcp`",
        "write the service in front of the name",
        "RFC 2782, RFC 6698 §3",
    ),
    warning(
        "soa-mailbox",
        "the mailbox in a SOA has a dot in place of the `@`",
        "write it like hostmaster.example.com.",
        "RFC 1035 §8",
    ),
    warning(
        "soa-timers",
        "retry is below refresh, and expire above both together",
        "write it like 7200 900 1209600 300",
        "RFC 1912 §2.2",
    ),
    warning(
        "soa-zero",
        "refresh, retry, expire and minimum are above 0",
        "write it like 7200 900 1209600 300",
        "RFC 1912 §2.2, DNSControl",
    ),
    warning("spf-all", "`+all` lets everybody send", "end with -all or ~all", "RFC 7208 §5.1"),
    warning(
        "spf-lookups",
        "more than ten mechanisms that ask, with those of what is included from the same zone, are an error to receivers",
        "include less",
        "RFC 7208 §4.6.4",
    ),
    warning(
        "spf-missing",
        "who takes mail and does not say who sends it",
        "declare a TXT such as v=spf1 mx -all",
        "RFC 7208 §3",
    ),
    warning(
        "spf-ptr",
        "the mechanism ptr is slow, unreliable, and not to be used",
        "write addresses or names",
        "RFC 7208 §5.5",
    ),
    warning(
        "spf-several",
        "several policies at one name are an error to receivers",
        "unite them in one text",
        "RFC 7208 §3.2",
    ),
    warning("srv-target-cname", "the target of an SRV is no alias", "name the host itself", "RFC 2782"),
    warning(
        "sshfp-weak",
        "a SHA-1 fingerprint, or a DSA key",
        "use type 2, and a key of algorithm 4, 3 or 1",
        "RFC 8624 §3, RFC 6594",
    ),
    warning(
        "svcb-alias",
        "priority 0 is an alias: it stands alone, and has no parameters",
        "use priority 1, or leave the others out",
        "RFC 9460 §2.4.2",
    ),
    warning(
        "target-address",
        "a target whose name is an address",
        "give the host an A or AAAA record and write its name",
        "RFC 1034 §3.6",
    ),
    warning(
        "target-missing",
        "a target in this zone that nothing declares",
        "declare it, or correct the name",
        "RFC 1912 §2.4",
    ),
    warning(
        "tlsa-fields",
        "a usage above 3, selector above 1 or matching type above 2 is unknown",
        "write it like 3 1 1",
        "RFC 6698 §2.1, RFC 7218",
    ),
    warning(
        "ttl-differs",
        "those who share a record say the same ttl; the smallest counts",
        "write the same ttl in all of them",
        "RFC 2181 §5.2",
    ),
    warning("ttl-long", "more than a week in caches; resolvers cut it", "604800 is a week", "RFC 8767 §4"),
    warning(
        "ttl-zero",
        "nothing is cached, and every query comes to the servers",
        "60 is short enough for most",
        "RFC 1034 §3.6",
    ),
    warning(
        "txt-blank",
        "a blank at the end belongs to the text, and is seldom meant to",
        "leave it out",
        "RFC 1035 §3.3.14",
    ),
    warning(
        "wildcard-delegation",
        "a wildcard of NS or DNAME has no meaning that servers agree on",
        "name what is delegated",
        "RFC 4592 §4.2, §4.4",
    ),
];

/// The rule called `id`.
pub(crate) fn find(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.id == id)
}
