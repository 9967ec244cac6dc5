//! The ways here from other programs, as their pages say them: from the real octoDNS, and from what DNSControl left.

use crate::{
    env::{Env, Output, path},
    pdns::Pdns,
};
use std::{fs, path::Path, process::Command};

const ZONE: &str = "example.com";

/// Each type that octoDNS has at PowerDNS, and what it sends otherwise than it stands here.
const RECORDS: &str = r#"'':
  - {type: ALIAS, ttl: 60, value: www.example.net.}
  - {type: CAA, values: [{flags: 0, tag: issue, value: 'letsencrypt.org; a=b'}, {flags: 128, tag: issuewild, value: ';'}]}
  - {type: MX, values: [{exchange: mail.example.com., preference: 10}, {exchange: mail.example.net., preference: 20}]}
'*.dev': {type: A, value: 192.0.2.9}
0/25: {type: PTR, values: [a.example.com., b.example.com.]}
1.2.1.5: {type: NAPTR, value: {order: 100, preference: 10, flags: u, service: E2U+sip, regexp: '!^.*$!sip:info@example.com!', replacement: .}}
_443._tcp.www: {type: TLSA, value: {certificate_usage: 3, selector: 1, matching_type: 1, certificate_association_data: d2abde240d7cd3ee6b4b28c54df034b97983a1d16e8a410e4561cb106618e971}}
_ftp._tcp: {type: URI, value: {priority: 10, weight: 1, target: 'ftp://ftp1.example.com/public'}}
_sip._tcp: {type: SRV, values: [{priority: 0, weight: 0, port: 0, target: .}, {priority: 10, weight: 60, port: 5060, target: sip.example.com.}]}
_svc: {type: SVCB, values: [{svcpriority: 1, targetname: svc.example.net., svcparams: {alpn: [h2], mandatory: [alpn]}}, {svcpriority: 2, targetname: svc2.example.net., svcparams: {alpn: [h2], no-default-alpn: }}]}
alias: {type: HTTPS, value: {svcpriority: 0, targetname: web.example.net.}}
cname: {type: CNAME, value: WWW.Example.NET.}
dkim._domainkey: {type: TXT, value: 'v=DKIM1\; k=rsa\; p=LONG'}
host: {type: SSHFP, value: {algorithm: 4, fingerprint_type: 2, fingerprint: 123456789ABCDEF67890123456789ABCDEF67890123456789ABCDEF123456789}}
loc: {type: LOC, value: {lat_degrees: 51, lat_minutes: 30, lat_seconds: 12.748, lat_direction: N, long_degrees: 0, long_minutes: 7, long_seconds: 39.611, long_direction: W, altitude: 10, size: 1, precision_horz: 10000, precision_vert: 10}}
mail: [{type: A, value: 192.0.2.25}, {type: AAAA, values: ['2001:db8:0::25', '::ffff:192.0.2.1']}]
sub: [{type: DS, value: {key_tag: 60485, algorithm: 13, digest_type: 2, digest: d4b7d520e7bb5f0f67674a0cceb1e3e0614b93c4f9e99b8383f6a1e4469da50a}}, {type: NS, values: [ns1.example.net., ns2.example.net.]}]
texts: {type: TXT, values: ['a\;b', ' leading', 'back\\slash', 'quo\"te', 'an octet \195\164', '1.10']}
web: {type: HTTPS, value: {svcpriority: 1, targetname: ., svcparams: {alpn: [h3, h2], ipv4hint: [192.0.2.1], ipv6hint: ['2001:db8::1'], port: 8443}}}
"#;

/// Two configurations of octoDNS for `server`: one has it mark what it makes.
fn configure(env: &Env, server: &Pdns) {
    let address = server.address();
    let (host, port) = address.rsplit_once(':').unwrap();
    for (file, keys) in [("plain.yaml", ""), ("marking.yaml", ", processors: [owner]")] {
        let text = format!(
            "providers:\n  config: {{class: octodns.provider.yaml.YamlProvider, directory: config, enforce_order: false}}\n  \
             pdns: {{class: octodns_powerdns.PowerDnsProvider, host: {host}, port: {port}, api_key: '{}'}}\n\
             processors:\n  owner: {{class: octodns.processor.ownership.OwnershipProcessor}}\n\
             zones:\n  {ZONE}.: {{sources: [config], targets: [pdns]{keys}}}\n",
            server.key
        );
        env.write(file, &text);
    }
}

/// Runs a program of octoDNS, which must end well.
fn octodns(env: &Env, program: &str, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", path()).env("HOME", env.dir.path()).current_dir(env.dir.path());
    command.args(args);
    env.finish(command).exits(0)
}

/// The commands in the `sh` blocks of a page, word by word, without what is said of them behind `#`.
fn typed(page: &str) -> Vec<Vec<String>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page);
    let page = fs::read_to_string(page).unwrap();
    let blocks = page.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let lines = blocks.flat_map(str::lines).map(|line| line.split('#').next().unwrap_or_default());
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

/// Runs what somebody typed, which must end well.
fn run(env: &Env, words: &[String]) -> Output {
    assert_eq!(words[0], "reconciled", "{words:?}");
    let words: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    env.run(&words).exits(0)
}

#[test]
fn the_page_about_octodns_works_as_typed_on_what_octodns_made_and_its_marks_go_with_their_records() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    configure(&env, &server);
    env.write("config/example.com.yaml", &RECORDS.replace("LONG", &"x".repeat(500)));
    octodns(&env, "octodns-sync", &["--config-file=plain.yaml", "--doit"]);
    let made = server.rrsets(ZONE);
    let outputs: Vec<Output> = typed("migrate-octodns.md").iter().map(|words| run(&env, words)).collect();
    let [_, _, plan] = <[Output; 3]>::try_from(outputs).expect("the page imports, validates and plans");
    let adopts = format!("Plan: 0 to create, 0 to update, 0 to delete, {} to adopt", made.len() + 1);
    plan.says(&[&adopts]);
    let imported = fs::read_to_string(env.path("zones/example.com.yaml")).unwrap();

    // With its marks in the zone, what it dumps of that declares the same, and nothing of them.
    octodns(&env, "octodns-sync", &["--config-file=marking.yaml", "--doit"]);
    let marked = server.rrsets(ZONE);
    assert_eq!(marked.len(), 2 * made.len(), "{marked:?}");
    let dump = ["--config-file=plain.yaml", "--output-dir=dumped", "example.com.", "pdns"];
    octodns(&env, "octodns-dump", &dump);
    let counted = format!("example.com: {} marked as octodns's", made.len());
    let dumped = env.run(&["import", "--from", "octodns", "dumped"]).exits(0).says(&[&counted]);
    assert_eq!(dumped.stdout, imported);

    env.push("zone.yaml", &imported);
    env.run(&["apply", "--yes"]).exits(3).says(&["it carries the ownership mark of `octodns`"]);
    assert_eq!(server.rrsets(ZONE), marked);
    let named = "metadata: {name: example.com";
    let adopting = format!("{named}, annotations: {{reconciled/adopt: octodns}}");
    env.push("zone.yaml", &imported.replace(named, &adopting));
    let updates = format!("Plan: 0 to create, {} to update, 0 to delete", made.len());
    let plan = env.run(&["plan"]).exits(0).says(&[&updates, "owner: octodns → this instance"]);
    plan.hides(&["values:", "ttl:"]);
    env.apply();
    let ours = server.rrsets(ZONE);
    assert_eq!(ours.keys().collect::<Vec<_>>(), made.keys().collect::<Vec<_>>(), "no mark is left");
    octodns(&env, "octodns-sync", &["--config-file=plain.yaml"]).says(&["No changes were planned"]);

    // What it marked once and declares no longer it would delete, and it has let go of that.
    env.write("config/example.com.yaml", "other: {type: A, value: 192.0.2.77}\n");
    octodns(&env, "octodns-sync", &["--config-file=marking.yaml", "--doit", "--force"]);
    let beside = server.rrsets(ZONE);
    assert_eq!(beside.get("other A").map(String::as_str), Some("3600 192.0.2.77"));
    assert!(ours.iter().all(|(set, data)| beside.get(set) == Some(data)), "{beside:?}");
    env.in_sync();
}

/// A zone file in the form that DNSControl writes.
const GOTTEN: &str = "$ORIGIN example.com.
$TTL 300
@                IN SOA   ns1.example.com. hostmaster.example.com. 1 3600 600 604800 1440
                 IN NS    ns1.example.com.
mail             IN MX    10 www.example.com.
text             IN TXT   \"v=x; y\"
www              IN A     192.0.2.1
";

#[test]
fn the_page_about_dnscontrol_works_as_typed_but_for_the_program_itself() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    server.create(ZONE);
    server.set(ZONE, "mail", "MX", "10 www.example.com.");
    server.set(ZONE, "text", "TXT", "\"v=x; y\"");
    server.set(ZONE, "www", "A", "192.0.2.1");
    let plan = ["reconciled", "plan", "--dir", "zones/"].map(str::to_owned);
    let adopts = |output: Output| {
        output.says(&["Plan: 0 to create, 0 to update, 0 to delete, 4 to adopt"]);
    };
    let commands = typed("migrate-dnscontrol.md");
    let [import, look, get, read, validate] = &commands[..] else {
        panic!("two ways lead here: {commands:?}")
    };
    let import: Vec<String> =
        import.iter().map(|word| if word == "cf" { "pdns".into() } else { word.clone() }).collect();
    run(&env, &import);
    assert_eq!(look[..], plan);
    adopts(run(&env, look));

    fs::remove_dir_all(env.path("zones")).unwrap();
    let file = get.iter().find_map(|word| word.strip_prefix("--out=")).unwrap();
    env.write(file, GOTTEN);
    run(&env, read);
    run(&env, validate);
    adopts(run(&env, &plan));
}

/// What somebody made at a server, by name, type and TTL: each type that there is.
const SETS: &[(&str, &str, u32, &[&str])] = &[
    ("", "A", 60, &["192.0.2.1", "192.0.2.2"]),
    ("", "CAA", 300, &["0 issue \"letsencrypt.org; a=b\"", "128 issuewild \";\""]),
    ("", "MX", 300, &["10 mail.example.com."]),
    ("*.dev", "A", 300, &["192.0.2.9"]),
    ("0/25", "PTR", 300, &["a.example.com."]),
    ("1.2", "NAPTR", 300, &["100 10 \"u\" \"E2U+sip\" \"!^.*$!sip:info@example.com!\" ."]),
    ("_443._tcp", "TLSA", 300, &["3 1 1 d2abde240d7cd3ee6b4b28c54df034b97983a1d16e8a410e4561cb106618e971"]),
    ("_ftp._tcp", "URI", 300, &["10 1 \"ftp://ftp1.example.com/public\""]),
    ("_sip._tcp", "SRV", 300, &["10 60 5060 sip.example.com."]),
    (
        "_smimecert",
        "SMIMEA",
        300,
        &["3 0 1 d2abde240d7cd3ee6b4b28c54df034b97983a1d16e8a410e4561cb106618e971"],
    ),
    ("_svc", "SVCB", 300, &["1 svc.example.net. mandatory=alpn alpn=h2 key667=\"hello\""]),
    ("alias", "ALIAS", 300, &["www.example.net."]),
    ("host", "SSHFP", 300, &["4 2 123456789abcdef67890123456789abcdef67890123456789abcdef123456789"]),
    ("key", "OPENPGPKEY", 300, &["mQENBFVHm5sBCADEQ1jWAAECAw=="]),
    ("loc", "LOC", 300, &["51 30 12.748 N 0 7 39.611 W 10.00m 1.00m 10000.00m 10.00m"]),
    ("old", "DNAME", 300, &["new.example.com."]),
    ("sub", "DS", 300, &["60485 13 2 d4b7d520e7bb5f0f67674a0cceb1e3e0614b93c4f9e99b8383f6a1e4469da50a"]),
    ("sub", "NS", 300, &["ns1.example.net.", "ns2.example.net."]),
    ("txt", "TXT", 300, &["\"a;b\" \"c\"", "\"quo\\\"te\"", "\"\\195\\164 \\\\\"", "\"\""]),
    ("v6", "AAAA", 300, &["2001:db8::1"]),
    ("web", "HTTPS", 300, &["1 . alpn=h3,h2 port=8443 ipv4hint=192.0.2.1"]),
    ("www", "CNAME", 0, &["example.com."]),
];

#[test]
fn all_that_somebody_made_at_a_server_is_imported_so_that_a_plan_only_adopts_and_nothing_is_written() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    let set = |(name, kind, ttl, values): &(&str, &str, u32, &[&str])| {
        let records: Vec<_> =
            values.iter().map(|value| serde_json::json!({"content": value, "disabled": false})).collect();
        let name = if name.is_empty() { format!("{ZONE}.") } else { format!("{name}.{ZONE}.") };
        serde_json::json!({"name": name, "type": kind, "ttl": ttl, "changetype": "REPLACE", "records": records})
    };
    let sets: Vec<_> = SETS.iter().map(set).collect();
    server.create(ZONE);
    server.create("example.net");
    server.change("PATCH", &format!("/zones/{ZONE}."), &serde_json::json!({"rrsets": sets}));
    server.set("example.net", "www", "A", "192.0.2.1");
    let (made, writes) = (server.rrsets(ZONE), server.writes());
    assert_eq!(made.len(), SETS.len());
    env.run(&["import", "pdns", "*", "--out", "work"]).exits(0).says(&["2 files written to work"]);
    env.push_all();
    let adopts =
        format!("Plan: 0 to create, 0 to update, 0 to delete, {} to adopt; 0 in sync", SETS.len() + 3);
    env.run(&["plan"]).exits(0).says(&[&adopts]).hides(&["foreign, left alone"]);
    env.apply();
    assert_eq!((server.rrsets(ZONE), server.writes()), (made, writes));
    env.in_sync();
}
