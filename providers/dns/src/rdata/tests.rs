use super::*;
use proptest::prelude::*;

fn zone() -> Name {
    Name::zone("example.com").unwrap()
}

fn check(kind: &str, value: &str, canonical: &str) {
    let kind_of = Type::of(kind).unwrap();
    let written = written(kind_of, value, &zone()).unwrap();
    assert_eq!(written, canonical, "{kind} {value}");
    assert_eq!(observed(kind, &written), canonical);
    assert_eq!(observed(kind, &wire(kind, &written, 7)), canonical, "wire of {kind} {value}");
    assert_eq!(observed(kind, &master(kind, &written, 7)), canonical, "master of {kind} {value}");
    if let Some(number) = kind_of.number() {
        let octets = octets::encode(kind, &written, 7).unwrap();
        assert_eq!(octets::decode(number, &octets, 0, octets.len()), canonical, "octets of {kind} {value}");
    }
}

fn refuse(kind: &str, value: &str, part: &str) {
    let refusal = written(Type::of(kind).unwrap(), value, &zone()).unwrap_err();
    let text = format!("{} / {}", refusal.message, refusal.hint.unwrap_or_default());
    assert!(text.contains(part), "{kind} {value}: {text}");
}

#[test]
fn a_long_text_in_one_string_keeps_its_quotes_and_blanks() {
    // The 255th octet is a quote and a blank follows, then another quote.
    let text = format!("{}\\\" \\\"{}", "x".repeat(254), "y".repeat(60));
    check("CAA", &format!("0 issue \"{text}\""), &format!("0 issue \"{text}\""));
    check("URI", &format!("10 1 \"{text}\""), &format!("10 1 \"{text}\""));
}

#[test]
fn numbers_of_any_size_are_refused_and_do_not_overflow() {
    let most = i64::MAX / 100;
    for altitude in [most.to_string(), format!("-{most}"), format!("{most}.07"), "9".repeat(40)] {
        refuse("LOC", &format!("51 N 0 W {altitude}m"), "is not the form of LOC data");
    }
}

#[test]
fn each_type_has_one_canonical_form() {
    check("A", "192.0.2.1", "192.0.2.1");
    check("AAAA", "2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1");
    check("AAAA", "::ffff:1.2.3.4", "::ffff:1.2.3.4");
    check("CNAME", "Example.COM.", "example.com.");
    check("CNAME", "@", "example.com.");
    check("MX", "010  Mail.Example.com.", "10 mail.example.com.");
    check("MX", "0 .", "0 .");
    check("SRV", "0 0 0 .", "0 0 0 .");
    check("SRV", "1 2 3 Sip.example.com.", "1 2 3 sip.example.com.");
    check("CAA", "0 Issue letsencrypt.org", "0 issue \"letsencrypt.org\"");
    check("CAA", "0 issue \"le.org; a=b\"", "0 issue \"le.org; a=b\"");
    check("CAA", "128 issuewild \"\"", "128 issuewild \"\"");
    check("PTR", r"a\046b.example.com.", r"a\.b.example.com.");
    check("TXT", "v=spf1 -all", "\"v=spf1 -all\"");
    check("TXT", "", "\"\"");
    check("TXT", " lead trail ", "\" lead trail \"");
    check("TXT", "back\\slash \"quote\" ä `;", "\"back\\\\slash \\\"quote\\\" ä `;\"");
    check("TXT", &"x".repeat(766), &format!("\"{}\"", "x".repeat(766)));
    check("SOA", "ns1.example.com. h.example.com. 1 2 3 4", "ns1.example.com. h.example.com. 1 2 3 4");
    check("ALIAS", "Lb.example.net.", "lb.example.net.");
    check("DNAME", "@", "example.com.");
    check(
        "LOC",
        "51 30 12.748 N 0 7 39.6 W 10m",
        "51 30 12.748 N 0 7 39.600 W 10.00m 1.00m 10000.00m 10.00m",
    );
    check(
        "LOC",
        "90 S 180 E -100000 0 90000000 0.5",
        "90 0 0.000 S 180 0 0.000 E -100000.00m 0.00m 90000000.00m 0.50m",
    );
    check("NAPTR", "100 10 u E2U+sip \"!^.*$!sip:a@b!\" .", "100 10 \"u\" \"E2U+sip\" \"!^.*$!sip:a@b!\" .");
    check("NAPTR", r#"1 2 "" "" "" Sip.example.com."#, r#"1 2 "" "" "" sip.example.com."#);
    check("OPENPGPKEY", "mQENBFVH m5sBCADE", "mQENBFVHm5sBCADE");
    check("URI", "10 1 \"https://example.com/a b\"", "10 1 \"https://example.com/a b\"");
    check("SVCB", "0 Alias.example.com.", "0 alias.example.com.");
    check("HTTPS", "1 . port=443 alpn=\"h2,h3\"", "1 . alpn=h2,h3 port=443");
    check(
        "HTTPS",
        "16 foo.example.org. alpn=h2,h3-19 mandatory=ipv4hint,alpn ipv4hint=192.0.2.1 no-default-alpn key667=\"a\\210\"",
        "16 foo.example.org. mandatory=alpn,ipv4hint alpn=h2,h3-19 no-default-alpn ipv4hint=192.0.2.1 key667=\"a\\210\"",
    );
    // RFC 9460 appendix D.2: an alpn with a comma and a backslash in it.
    check(
        "SVCB",
        r#"16 foo.example.org. alpn="f\\\\oo\\,bar,h2""#,
        r"16 foo.example.org. alpn=f\\\\oo\\,bar,h2",
    );
}

#[test]
fn a_refusal_says_what_to_write() {
    refuse("A", "2001:db8::1", "did you mean type `AAAA`");
    refuse("A", "192.0.2.300", "192.0.2.1");
    refuse("AAAA", "192.0.2.1", "did you mean type `A`");
    refuse("CNAME", "www", "write `www.`, or `www.example.com.` for the name in this zone (RFC 1035 §5.1)");
    refuse("CNAME", "a b", "www.example.com.");
    refuse("MX", "mail.example.com.", "10 mail.example.com.");
    refuse("MX", "10 192.0.2.1", "is an address");
    refuse("NS", "192.0.2.1.", "is an address");
    refuse("SRV", "1 2 sip.example.com.", "10 60 5060");
    refuse("SRV", "1 2 70000 sip.example.com.", "10 60 5060");
    refuse("CAA", "issue letsencrypt.org", "0 issue");
    refuse("CAA", "256 issue \"a\"", "0 issue");
    refuse("LOC", "91 N 0 W 0m", "51 30 12.748 N");
    refuse("HTTPS", "1 . alpn", "alpn=h2,h3");
    refuse("HTTPS", "1 . port=1 port=2", "alpn=h2,h3");
    refuse("SVCB", "1 svc alpn=h2", "has no dot at the end");
    refuse("SVCB", "1 svc. mandatory=port alpn=h2", "the mandatory parameter `port` is not there");
    refuse("HTTPS", "1 . mandatory=alpn,key667 alpn=h2", "the mandatory parameter `key667` is not there");
    refuse("HTTPS", "1 . no-default-alpn port=1", "`no-default-alpn` without `alpn`");
    refuse("URI", "1 2 \"\"", "the target of a URI is empty");
    refuse("TLSA", "3 1 1 abcd", "the digest has 2 octets, and its kind `1` has 32");
    refuse("SSHFP", "4 2 xyz", "4 2 1234");
    refuse("NAPTR", "1 2 u s \"open .", "100 10");
    refuse("URI", "1 2 a b", "https://");
    refuse("OPENPGPKEY", "no base64!", "mQENB");
    refuse("DS", "1 13 2 ", "60485");
    refuse("SOA", "ns1.example.com. h.example.com. 2026 1 2 3 4", "leave it out");
    assert!(Type::refuse("spf").hint.unwrap().contains("is a TXT record"));
    let unknown = Type::refuse("CNAM");
    assert_eq!(unknown.hint.unwrap(), "did you mean `CNAME`?");
}

#[test]
fn data_that_fit_no_record_are_refused_wherever_they_are_written() {
    let more = "more octets than the 65535 that a record holds";
    let check = |kind: &str, value: &str, fits: bool| {
        let kind = Type::of(kind).unwrap();
        let found = [from_master(kind, value), written(kind, value, &zone())];
        // Written by itself, a text stands for itself: it has no strings, and a limit of its own.
        for found in found.into_iter().take(if kind == Type::Txt { 1 } else { 2 }) {
            let refused = found.as_ref().err().map(|refusal| refusal.message.contains(more));
            assert_eq!(refused, (!fits).then_some(true), "{} of {} characters", kind.word(), value.len());
        }
    };
    let strings = |count: usize| vec![format!("\"{}\"", "x".repeat(255)); count].join(" ");
    check("TXT", &strings(255), true);
    check("TXT", &strings(256), false);
    let issue = |length: usize| format!("0 issue \"{}\"", "x".repeat(length));
    check("CAA", &issue(65_000), true);
    check("CAA", &issue(66_000), false);
    let digits = |octets: usize| format!("3 1 0 {}", "ab".repeat(octets));
    check("TLSA", &digits(65_532), true);
    check("TLSA", &digits(65_533), false);
    let service =
        |more: usize| format!("1 . ipv6hint={} key667={}", ["::"; 4_000].join(","), "x".repeat(more));
    check("HTTPS", &service(1_000), true);
    check("HTTPS", &service(2_000), false);
}

#[test]
fn reported_forms_of_the_same_data_are_equal() {
    assert_eq!(observed("TXT", r#""a\195\164b""#), "\"aäb\"");
    assert_eq!(observed("AAAA", "2001:db8:0::1"), "2001:db8::1");
    assert_eq!(observed("CNAME", "Foo.Example.com."), "foo.example.com.");
    assert_eq!(observed("SOA", "NS1.e. h.e. 2026 1 2 3 4"), "ns1.e. h.e. 1 2 3 4");
    assert_eq!(observed("LOC", "51 30 12.748 N"), "51 30 12.748 N");
    assert_eq!(observed("TLSA", "3 1 1 AB CD"), "3 1 1 abcd");
    assert_eq!(observed("HTTPS", "1 . port=\"443\" alpn=\"h3,h2\""), "1 . alpn=h3,h2 port=443");
    assert_eq!(
        observed("LOC", "51 30 N 0 7 W 10"),
        observed("LOC", "51 30 0 N 0 7 0.0 W 10.00m 1m 10000m 10m")
    );
    assert_eq!(observed("MX", "garbage"), "garbage");
    assert_eq!(observed("TXT", "\"open"), "\"open");
}

#[test]
fn a_text_keeps_its_strings_in_every_form() {
    let long = "x".repeat(255);
    let check = |content: &str, canonical: &str| {
        assert_eq!(observed("TXT", content), canonical, "{content}");
        assert_eq!(from_master(Type::Txt, content).unwrap(), canonical, "{content}");
        for form in [wire("TXT", canonical, 0), master("TXT", canonical, 0)] {
            assert_eq!(observed("TXT", &form), canonical, "{form}");
        }
        let octets = octets::encode("TXT", canonical, 0).unwrap();
        assert_eq!(octets::decode(16, &octets, 0, octets.len()), canonical, "{content}");
    };
    check("\"path=/x\" rp=lp", "\"path=/x\" \"rp=lp\"");
    check("\"a\\195\\164b\" \"\"", "\"aäb\" \"\"");
    check(&format!("\"{long}\" \"x\""), &format!("\"{long}x\""));
    check(&format!("\"x\" \"{long}\""), &format!("\"x\" \"{long}\""));
    let octets = octets::encode("TXT", "\"path=/x\" \"rp=lp\"", 0).unwrap();
    assert_eq!(octets, b"\x07path=/x\x05rp=lp");
}

#[test]
fn a_long_caa_value_stays_one_string() {
    let value = written(Type::Caa, &format!("0 issue \"{}\"", "x".repeat(300)), &zone()).unwrap();
    let wire = wire("CAA", &value, 0);
    assert_eq!(wire.matches('"').count(), 2);
    assert_eq!(observed("CAA", &wire), value);
}

/// A canonical value of any type; some texts are cut into strings.
pub(crate) fn canonical_values() -> impl Strategy<Value = (Type, String)> {
    (values(), proptest::collection::vec(0usize..1_000, 0..3)).prop_map(|((kind, value), places)| {
        let canonical = written(kind, &value, &zone()).unwrap_or_else(|r| panic!("{kind:?} {value}: {r:?}"));
        (kind, if kind == Type::Txt { cut(&canonical, &places) } else { canonical })
    })
}

/// A text that is cut at these places as well.
fn cut(canonical: &str, places: &[usize]) -> String {
    let octets = text::unquote(canonical).unwrap();
    let mut places: Vec<usize> = places.iter().map(|place| place % (octets.len() + 1)).collect();
    places.sort_unstable();
    let (mut parts, mut start, mut out) = (Vec::new(), 0, String::new());
    for place in places.into_iter().chain([octets.len()]) {
        parts.push(&octets[start..place]);
        start = place;
    }
    Strings::of(parts).quote(&mut out);
    out
}

/// A value that a person might write, for each type.
fn values() -> impl Strategy<Value = (Type, String)> {
    let host = "([a-zA-Z0-9_-]{1,20}\\.){0,3}[a-z]{2,5}\\.";
    let hex = |octets: usize| format!("[0-9a-fA-F]{{{}}}", octets * 2);
    let text = "\"([ !#-\\[\\]-~äö]|\\\\[\"\\\\]|\\\\[01][0-9][0-9]){0,60}\"";
    let params = "( mandatory=alpn,port)?( alpn=(h2|\"h2,h3\"|f\\\\044o))( no-default-alpn)?( port=[1-9][0-9]{0,3})( ipv4hint=192\\.0\\.2\\.[1-9](,10\\.0\\.0\\.1)?)?( ech=(AEn\\+DQBF|\"AEn\\+DQBF\"))?( ipv6hint=2001:DB8:0::[0-9a-f]{1,4})?( dohpath=/q\\{\\?dns\\})?( key[1-9][0-9]{3}(=[a-z]{1,9})?)?";
    let pattern = move |kind: Type| {
        match kind {
        Type::A => "((0|1?[1-9]?[1-9])\\.){3}(0|1?[1-9]?[1-9])".into(),
        Type::Aaaa => "([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|::ffff:1[.]2[.]3[.][0-9]".into(),
        Type::Alias | Type::Cname | Type::Dname | Type::Ns | Type::Ptr => host.into(),
        Type::Caa => format!("(0|128) [a-zA-Z0-9]{{1,12}} {text}"),
        Type::Ds => format!("[0-9]{{1,4}} (8|13) 2 {}", hex(32)),
        Type::Https | Type::Svcb => format!("[1-9][0-9]{{0,3}} (\\.|{host}){params}"),
        Type::Loc => "[0-8]?[0-9] [0-5]?[0-9] [0-5]?[0-9](\\.[0-9]{1,3})? [NS] 1?[0-7][0-9] [0-5]?[0-9] [EW] -?[0-9]{1,5}(\\.[0-9]{1,2})?m?( [1-9]0{0,6}m( [1-9]0{0,6}m( [1-9]0{0,6})?)?)?".into(),
        Type::Mx => format!("[0-9]{{1,4}} ({host}|\\.)"),
        Type::Naptr => format!("[0-9]{{1,4}} [0-9]{{1,4}} {text} {text} {text} ({host}|\\.)"),
        Type::Openpgpkey => "([A-Za-z0-9+/]{4}){1,40}".into(),
        Type::Smimea | Type::Tlsa => format!("[0-3] [01] 1 {}", hex(32)),
        Type::Soa => format!("{host} {host} [0-9]{{1,9}} [0-9]{{1,9}} [0-9]{{1,9}} [0-9]{{1,9}}"),
        Type::Srv => format!("[0-9]{{1,4}} [0-9]{{1,4}} [0-9]{{1,4}} ({host}|\\.)"),
        Type::Sshfp => format!("[1-6] 2 {}", hex(32)),
        Type::Txt => ".{0,300}".into(),
        Type::Uri => format!("[0-9]{{1,4}} [0-9]{{1,4}} {}", text.replace("{0,60}", "{1,60}")),
    }
    };
    let kinds: Vec<Type> = Type::all().collect();
    proptest::sample::select(kinds).prop_flat_map(move |kind: Type| {
        let pattern: String = pattern(kind);
        (Just(kind), proptest::string::string_regex(&pattern).unwrap())
    })
}

proptest! {
    #[test]
    fn canonical_is_idempotent_for_any_report(
        kind in proptest::sample::select(vec!["A", "AAAA", "CAA", "CNAME", "MX", "NS", "PTR", "SOA", "SRV", "TXT", "LOC", "HTTPS", "NAPTR", "TLSA", "URI", "OPENPGPKEY"]),
        content in r#"[ -~]{0,60}"#,
    ) {
        let once = observed(kind, &content).into_owned();
        prop_assert_eq!(observed(kind, &once), once.as_str());
    }

    #[test]
    fn txt_of_any_octets_survives_the_wire(octets in proptest::collection::vec(any::<u8>(), 0..600)) {
        let mut canonical = String::new();
        text::quote(&octets, &mut canonical);
        let content = wire("TXT", &canonical, 0);
        prop_assert_eq!(observed("TXT", &content), canonical.as_str());
    }

    #[test]
    fn every_value_of_every_type_survives_every_form((kind, value) in values()) {
        let canonical = written(kind, &value, &zone()).unwrap_or_else(|r| panic!("{kind:?} {value}: {r:?}"));
        let word = kind.word();
        prop_assert_eq!(observed(word, &canonical), canonical.as_str());
        for sent in [wire(word, &canonical, 7), master(word, &canonical, 7)] {
            prop_assert_eq!(observed(word, &sent), canonical.as_str(), "{}", sent);
        }
        if let Some(again) = for_manifest(kind, &canonical) {
            prop_assert_eq!(written(kind, &again, &zone()).unwrap(), canonical.as_str());
        }
        if let Some(number) = kind.number() {
            let octets = octets::encode(word, &canonical, 7).unwrap();
            prop_assert_eq!(octets::decode(number, &octets, 0, octets.len()), canonical);
        }
    }

    #[test]
    fn octets_of_any_type_are_kept(number in 1u16..300, octets in proptest::collection::vec(any::<u8>(), 0..80)) {
        let text = octets::decode(number, &octets, 0, octets.len());
        // A SOA loses its serial, and only that.
        if number != 6 {
            let again = octets::encode(&octets::word(number), &text, 0).unwrap();
            let read = octets::decode(number, &again, 0, again.len());
            prop_assert_eq!(read, text);
        }
    }
}
