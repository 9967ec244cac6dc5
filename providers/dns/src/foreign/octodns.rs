//! Zone files of octoDNS's `YamlProvider`: names → a record or a list of them.
//!
//! Dynamic and geo records answer different people differently, which no provider here can; they are left out by name.
//! Of `octodns:` only Cloudflare's `proxied` has an equal here, and `healthcheck` means nothing without dynamic records.

use super::taken::{Collector, Taken};
use crate::{
    kind::{FieldValue, Words},
    name::Name,
    rdata::{self, Refusal, Type, structured::structured},
    record, text,
};
use reconciled_provider::{
    At, Node, Problem, SourceFile, Span,
    yaml::{Limits, NodeValue, parse},
};
use std::collections::BTreeMap;

/// TTL of records that say none (`default_ttl` of `YamlProvider`).
const FALLBACK: u32 = 3600;

/// The records of one zone.
pub fn octodns(zone: &Name, file: &SourceFile) -> Taken {
    let mut out = Collector::new(zone);
    let documents = match parse(file, Limits::default()) {
        Ok(documents) => documents,
        Err(problem) => {
            out.left_out.push(*problem);
            return out.finish();
        }
    };
    for (key, node) in documents.iter().flat_map(Node::entries) {
        let name = match key.as_str().unwrap_or_default() {
            "" => "@",
            // `$schema` and the like are no names.
            name if name.starts_with('$') => continue,
            name => name,
        };
        let name = match Name::within(name, zone) {
            Ok(name) => name,
            Err(error) => {
                out.left_out.push(Problem::warning(error.to_string()).at(file, key.span));
                continue;
            }
        };
        let one = std::slice::from_ref(node);
        let records = if matches!(node.value, NodeValue::Seq(_)) { node.elements() } else { one };
        for record in records {
            if let Err((span, refusal)) = take(zone, &name, record, file, &mut out) {
                let kind = record.get("type").and_then(Node::as_str).unwrap_or("record");
                let message = format!("{kind} of {name}: {}", refusal.message);
                let problem = Problem::warning(message).at(file, span);
                out.left_out.push(Problem { hint: refusal.hint, ..problem });
            }
        }
    }
    out.finish()
}

type Refused = (Span, Refusal);

fn refuse<T>(span: Span, message: impl Into<String>, hint: &str) -> Result<T, Refused> {
    Err((span, Refusal::new(message, hint)))
}

fn take(
    zone: &Name,
    name: &Name,
    node: &Node,
    file: &SourceFile,
    out: &mut Collector,
) -> Result<(), Refused> {
    for word in ["dynamic", "geo"] {
        if let Some((key, _)) = node.entry(word) {
            let hint = "declare one of its answers, or leave the record to octoDNS";
            return refuse(key.span, format!("a {word} record is not supported"), hint);
        }
    }
    let Some(written) = node.get("type").and_then(Node::as_str) else {
        return refuse(node.span, "it has no type", "write `type`");
    };
    // RFC 7208 §3.1: the type is gone, the text stays.
    let word = if written == "SPF" { "TXT" } else { written };
    let Some(kind) = Type::of(word) else { return Err((node.span, Type::refuse(written))) };
    let mut ttl = FALLBACK;
    if let Some(node) = node.get("ttl") {
        match node.as_str().and_then(|text| text.parse().ok()) {
            Some(seconds) => ttl = seconds,
            None => return refuse(node.span, "its ttl is no number", "write seconds"),
        }
    }
    let mut extra = "";
    for (key, value) in node.get("octodns").map_or(&[][..], Node::entries) {
        match key.as_str().unwrap_or_default() {
            "ignored" | "excluded" | "included" => {
                return refuse(
                    key.span,
                    "it is not for every provider",
                    "declare it in a RecordSet of its own",
                );
            }
            "healthcheck" | "lenient" => {}
            "cloudflare" => {
                for (option, value) in value.entries() {
                    match (option.as_str().unwrap_or_default(), value.as_str()) {
                        ("proxied", Some("true")) => (extra, ttl) = (r#"{"cloudflare":{"proxied":true}}"#, 1),
                        ("proxied", _) => {}
                        ("auto-ttl", Some("true")) => ttl = 1,
                        ("auto-ttl", _) => {}
                        (option, _) => tell(out, file, key.span, name, &format!("cloudflare.{option}")),
                    }
                }
            }
            other => tell(out, file, key.span, name, other),
        }
    }
    let values = match (node.get("values"), node.get("value")) {
        (Some(list), _) if matches!(list.value, NodeValue::Seq(_)) => list.elements(),
        (Some(one), _) | (None, Some(one)) => std::slice::from_ref(one),
        (None, None) => return refuse(node.span, "it has no values", "write `value` or `values`"),
    };
    let mut canonical = Vec::with_capacity(values.len());
    for value in values {
        canonical.push(data(kind, value, zone).map_err(|refusal| (value.span, refusal))?);
    }
    if kind.word() == "NS" && name == zone {
        return refuse(
            node.span,
            "the name servers of the zone itself stay as the server has them",
            "to manage them: `apex: true` in the Zone, and the record",
        );
    }
    let id = record::id(name.as_str(), kind.word());
    if out.sets.contains_key(&id) {
        return refuse(node.span, "it is there twice", "write all values in one record");
    }
    out.sets.insert(id, record::encode_with(ttl, extra, &mut canonical));
    Ok(())
}

/// The record is taken over without an option of it.
fn tell(out: &mut Collector, file: &SourceFile, span: Span, name: &Name, option: &str) {
    let message = format!("{name} loses `octodns.{option}`, which nothing here knows");
    out.left_out.push(Problem::warning(message).at(file, span));
}

/// Canonical text of one value.
fn data(kind: Type, node: &Node, zone: &Name) -> Result<String, Refusal> {
    if let Some(text) = node.as_str() {
        return match kind {
            Type::Txt => rdata::written(kind, &plain(text), zone),
            _ => rdata::written(kind, text, zone),
        };
    }
    if kind == Type::Loc {
        return rdata::written(kind, &place(node), zone);
    }
    let mut fields = BTreeMap::new();
    for (theirs, value) in node.entries() {
        let theirs = theirs.as_str().unwrap_or_default();
        let content = match (kind, theirs, field(value)) {
            // octoDNS sends them so, however they are written.
            (Type::Naptr, "flags", FieldValue::Text(flags)) => FieldValue::Text(flags.to_ascii_uppercase()),
            (_, _, content) => content,
        };
        let value = At { span: value.span, unknown: Vec::new(), value: content };
        fields.insert(ours(kind, theirs).to_owned(), value);
    }
    structured(kind, &fields, zone)
}

/// How a field of octoDNS is called here.
fn ours(kind: Type, theirs: &str) -> &str {
    match (kind, theirs) {
        (Type::Mx, "preference") => "priority",
        (Type::Mx, "exchange" | "value") => "target",
        (Type::Sshfp, "fingerprint_type") => "fingerprintType",
        (Type::Tlsa, "certificate_usage") => "usage",
        (Type::Tlsa, "matching_type") => "matchingType",
        (Type::Tlsa, "certificate_association_data") => "data",
        (Type::Ds, "key_tag") => "keyTag",
        (Type::Ds, "digest_type") => "digestType",
        (Type::Https | Type::Svcb, "svcpriority") => "priority",
        (Type::Https | Type::Svcb, "targetname") => "target",
        (Type::Https | Type::Svcb, "svcparams") => "params",
        (_, same) => same,
    }
}

fn field(node: &Node) -> FieldValue {
    if !matches!(node.value, NodeValue::Map(_)) {
        return FieldValue::Text(scalar(node));
    }
    let entry = |(key, value): &(Node, Node)| (scalar(key), Words::Text(scalar(value)));
    FieldValue::Map(node.entries().iter().map(entry).collect())
}

/// A scalar, or the elements of a list with commas.
fn scalar(node: &Node) -> String {
    match &node.value {
        NodeValue::Seq(list) => list.iter().map(scalar).collect::<Vec<_>>().join(","),
        _ => node.as_str().unwrap_or_default().to_owned(),
    }
}

/// What the text says that octoDNS sends to servers as it is: with escapes, and quotes around the strings of a long one. Where there
/// are none it puts them around it; those in it are escaped here, but for those that are already.
fn plain(written: &str) -> String {
    let quoted = match written.starts_with('"') {
        true => written.to_owned(),
        false => format!("\"{}\"", escaped(written)),
    };
    let octets = text::unquote(&quoted).and_then(|octets| String::from_utf8(octets).ok());
    octets.unwrap_or_else(|| written.replace("\\;", ";"))
}

/// The text with a backslash before each quote that has none.
fn escaped(written: &str) -> String {
    let mut out = String::with_capacity(written.len());
    let mut is_escaped = false;
    for c in written.chars() {
        if c == '"' && !is_escaped {
            out.push('\\');
        }
        is_escaped = c == '\\' && !is_escaped;
        out.push(c);
    }
    out
}

/// A place as zone files write it.
fn place(node: &Node) -> String {
    let get = |name: &str| node.get(name).and_then(Node::as_str).unwrap_or("0").to_owned();
    let half = |side: &str| {
        ["degrees", "minutes", "seconds", "direction"].map(|part| get(&format!("{side}_{part}"))).join(" ")
    };
    let sizes =
        ["altitude", "size", "precision_horz", "precision_vert"].map(|part| format!("{}m", get(part)));
    format!("{} {} {}", half("lat"), half("long"), sizes.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{export::export, normalize::tests::normalized};
    use reconciled_provider::Owner;

    const ZONE: &str = r#"
'':
  - {type: A, ttl: 60, values: [192.0.2.1, 192.0.2.2]}
  - {type: CAA, value: {flags: 0, tag: issue, value: letsencrypt.org}}
  - {type: MX, values: [{exchange: mail.example.com., preference: 10}]}
  - {type: TXT, value: 'v=DKIM1\; k=rsa'}
'*.dev': {type: CNAME, value: www.example.com.}
_sip._tcp: {type: SRV, value: {priority: 1, weight: 2, port: 3, target: sip.example.com.}}
long: {type: TXT, value: '"a" "b"'}
loc: {type: LOC, value: {lat_degrees: 51, lat_minutes: 30, lat_seconds: 12.748, lat_direction: N, long_degrees: 0, long_minutes: 7, long_seconds: 39.611, long_direction: W, altitude: 10, size: 1, precision_horz: 10000, precision_vert: 10}}
n: {type: NAPTR, value: {order: 1, preference: 2, flags: u, service: E2U+sip, regexp: '!^.*$!sip:i@example.com!', replacement: .}}
ssh: {type: SSHFP, value: {algorithm: 4, fingerprint_type: 9, fingerprint: abcd}}
sub: {type: NS, values: [ns1.example.net., ns2.example.net.]}
svc: {type: HTTPS, value: {svcpriority: 1, targetname: ., svcparams: {alpn: [h2, h3], no-default-alpn: , port: 8443}}}
tls: {type: TLSA, value: {certificate_usage: 3, selector: 1, matching_type: 9, certificate_association_data: abcd}}
www: {type: A, octodns: {cloudflare: {proxied: false}}, value: 192.0.2.1}
"#;

    fn taken(text: &str) -> Taken {
        octodns(&Name::zone("example.com").unwrap(), &SourceFile::new("example.com.yaml", text))
    }

    #[test]
    fn every_type_is_taken_over_and_declares_the_same_again() {
        let taken = taken(ZONE);
        assert_eq!(taken.left_out, []);
        let manifest = String::from_utf8(export("", &taken.found).remove(0).to_vec()).unwrap();
        assert!(!manifest.contains("provider:"), "{manifest}");
        let again = normalized(&manifest);
        assert_eq!(again.problems, [], "{manifest}");
        let mut declared: Vec<_> =
            again.resources.iter().map(|r| (r.id.clone(), r.spec.bytes().unwrap().to_vec())).collect();
        declared.sort();
        let seen: Vec<_> = taken.found.resources.iter().map(|o| (o.id.clone(), o.bytes.to_vec())).collect();
        assert_eq!(declared, seen, "{manifest}");
        assert_eq!(seen.len(), 15);
        let of = |id: &str| {
            let (_, bytes) = seen.iter().find(|(known, _)| *known.0 == *id).unwrap();
            String::from_utf8_lossy(bytes).into_owned()
        };
        assert_eq!(of("example.com./TXT"), "3600\n\"v=DKIM1; k=rsa\"");
        assert_eq!(of("long.example.com./TXT"), "3600\n\"ab\"");
        assert_eq!(of("n.example.com./NAPTR"), "3600\n1 2 \"U\" \"E2U+sip\" \"!^.*$!sip:i@example.com!\" .");
        assert_eq!(of("svc.example.com./HTTPS"), "3600\n1 . alpn=h2,h3 no-default-alpn port=8443");
    }

    #[test]
    fn texts_are_what_a_server_reads_of_them() {
        let check = |written: &str, expect: &str| assert_eq!(plain(written), expect, "{written}");
        check("v=DKIM1\\; k=rsa", "v=DKIM1; k=rsa");
        check("v=DKIM1; k=rsa", "v=DKIM1; k=rsa");
        check(r"two backslashes \\ end", r"two backslashes \ end");
        check(r"an octet \065", "an octet A");
        check("a \"quoted\" word", "a \"quoted\" word");
        check(r#"what a \"dump\" has"#, "what a \"dump\" has");
        check(r#"a backslash \\"before" one"#, r#"a backslash \"before" one"#);
        check("\"a\" \"b\\;\"", "ab;");
        check("bücher", "bücher");
        check("", "");
        check(r"what is no text\", r"what is no text\");
        check(&"x".repeat(600), &"x".repeat(600));
    }

    #[test]
    fn what_is_not_taken_over_is_told_with_its_place() {
        let check = |text: &str, expect: &str| {
            let taken = taken(text);
            let told: Vec<String> = taken
                .left_out
                .iter()
                .map(|problem| format!("{} {}", problem.place.as_ref().unwrap(), problem.message))
                .collect();
            assert_eq!(told, [expect], "{text}");
        };
        check(
            "www: {type: A, value: 192.0.2.1, dynamic: {pools: {}}}\n",
            "example.com.yaml:1:34 A of www.example.com.: a dynamic record is not supported",
        );
        check(
            "www: {type: URLFWD, value: x}\n",
            "example.com.yaml:1:6 URLFWD of www.example.com.: unknown record type `URLFWD`",
        );
        check(
            "www: {type: CNAME, value: a.example.org}\n",
            "example.com.yaml:1:27 CNAME of www.example.com.: `a.example.org` has no dot at the end, so it could mean two names",
        );
        check(
            "www: {type: A, value: 192.0.2.1, octodns: {aws: {x: 1}}}\n",
            "example.com.yaml:1:44 www.example.com. loses `octodns.aws`, which nothing here knows",
        );
        check(
            "www: {type: A, value: 192.0.2.1, octodns: {excluded: [a]}}\n",
            "example.com.yaml:1:44 A of www.example.com.: it is not for every provider",
        );
        check(
            "'': {type: NS, value: ns1.example.net.}\nsub: {type: NS, value: ns1.example.net.}\n",
            "example.com.yaml:1:5 NS of example.com.: the name servers of the zone itself stay as the server has them",
        );
    }

    #[test]
    fn marks_in_what_octodns_dumped_are_no_records_and_say_whose_those_are() {
        let found = taken(
            "_owner.a.www: {type: TXT, ttl: 60, value: '*octodns*'}\n_owner.a: {type: TXT, value: plain}\nwww: {type: A, value: 192.0.2.1}\n",
        )
        .found;
        let seen: Vec<(&str, &Owner)> = found.resources.iter().map(|o| (&*o.id.0, &o.owner)).collect();
        let theirs = Owner::Other("octodns".into());
        let expect = [
            ("_owner.a.example.com./TXT", &Owner::Unmarked),
            ("example.com.", &Owner::Unmarked),
            ("www.example.com./A", &theirs),
        ];
        assert_eq!(seen, expect);
    }

    #[test]
    fn marks_of_what_is_not_there_are_told() {
        let ours =
            "heritage=external-dns,external-dns/owner=,external-dns/resource=reconciled/zone/example.com";
        let taken = taken(&format!(
            "_owner.a.gone: {{type: TXT, value: '*octodns*'}}\nown: {{type: TXT, value: '{ours}'}}\nwww: {{type: A, value: 192.0.2.1}}\n"
        ));
        assert!(taken.found.resources.iter().all(|one| !one.id.0.ends_with("/TXT")), "{:?}", taken.found);
        let told: Vec<&str> = taken.left_out.iter().map(|problem| &*problem.message).collect();
        assert_eq!(told, ["2 ownership marks are left out: what they are of is not in the file"]);
    }

    #[test]
    fn proxied_is_kept_for_cloudflare() {
        let found = taken("www: {type: A, value: 192.0.2.1, octodns: {cloudflare: {proxied: true}}}\n").found;
        let text = String::from_utf8(export("cf", &found).remove(0).to_vec()).unwrap();
        assert!(text.contains(r#""cloudflare":{"proxied":true}"#), "{text}");
    }
}
