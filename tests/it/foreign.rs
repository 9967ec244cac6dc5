//! `import --from`: what other programs declare, as manifests that plan nothing.

use crate::env::{Env, rrsets};

const OCTODNS: &str = "'':
  type: MX
  ttl: 300
  value: {exchange: mail.example.com., preference: 10}
mail:
  - {type: A, value: 192.0.2.25}
  - {type: AAAA, value: 2001:db8::25}
pool:
  type: A
  value: 192.0.2.1
  dynamic: {pools: {a: {values: [{value: 192.0.2.1}]}}, rules: [{pool: a}]}
www: {type: CNAME, value: mail.example.com.}
";

const MASTER: &str = "$TTL 600
@ IN SOA ns1.example.net. hostmaster.example.net. 1 3600 600 604800 300
  IN NS ns1.example.net.
mail A 192.0.2.25
www  CNAME mail
text TXT \"a\" \"b\"
old  HINFO x y
";

#[test]
fn a_zone_file_is_imported_so_that_a_plan_against_it_only_adopts() {
    let env = Env::zonefile();
    env.write("zones/example.com.zone", MASTER);
    env.run(&["import", "--from", "zonefile", "zones", "--out", "work"]).exits(3).says(&[
        "warning: HINFO of old.example.com.: unknown type",
        "--> zones/example.com.zone:7",
        "1 file written to work",
    ]);
    let manifest = std::fs::read_to_string(env.path("work/example.com.yaml")).unwrap();
    assert!(manifest.contains("# Not taken over:\n#   zones/example.com.zone:7: HINFO"), "{manifest}");
    assert!(manifest.contains("{name: text, type: TXT, values: [{strings: [a, b]}]}"), "{manifest}");
    env.push_all();
    env.run(&["plan"]).exits(0).says(&["= ", "Plan: 0 to create, 0 to update, 0 to delete, 4 to adopt"]);
    env.apply();
    assert_eq!(std::fs::read_to_string(env.path("zones/example.com.zone")).unwrap(), MASTER);
    env.in_sync();
    // A text does not say where it is cut, so it stays as it is.
    env.write("work/example.com.yaml", &manifest.replace("[{strings: [a, b]}]", "[ab], ttl: 601"));
    env.push_all();
    env.apply();
    let written = std::fs::read_to_string(env.path("zones/example.com.zone")).unwrap();
    assert!(written.contains("text 601 IN TXT \"a\" \"b\""), "{written}");
    env.in_sync();
}

#[test]
fn what_of_a_zone_no_manifest_can_declare_is_said_and_counted() {
    let env = Env::zonefile();
    env.write("zones/example.com.zone", MASTER);
    let import = ["import", "zones", "example.com"];
    let output = env.run(&import).exits(3).says(&["left out: old HINFO of example.com"]);
    assert!(output.stdout.contains("can:\n#   old 600 HINFO x y"), "{}", output.stdout);
    env.run(&[&import[..], &["--ignore", "old"]].concat()).exits(0).hides(&["left out"]);
}

#[test]
fn a_file_that_is_named_as_another_zone_than_it_holds_is_no_empty_zone() {
    let env = Env::zonefile();
    env.write("odd.zone", &format!("$ORIGIN example.com.\n{MASTER}"));
    let import = ["import", "--from", "zonefile", "odd.zone"];
    env.run(&import).exits(1).says(&["nothing of zone `odd`", "--from zonefile odd.zone ZONE"]);
    env.run(&[&import[..], &["example.com"]].concat()).exits(3).says(&["{name: mail, type: A"]);
}

#[test]
fn zones_of_octodns_are_imported_with_what_is_left_out_said() {
    let env = Env::zonefile();
    env.write("config/example.com.yaml", OCTODNS);
    env.write(
        "config/production.yaml",
        "providers: {config: {class: x}}\nzones: {example.com.: {sources: [config]}}\n",
    );
    let output = env.finish(env.command(&["import", "--from", "octodns", "config"])).exits(3).says(&[
        "warning: A of pool.example.com.: a dynamic record is not supported",
        "--> config/example.com.yaml:11:3",
    ]);
    env.push("zone.yaml", &output.stdout);
    env.apply();
    let expected = rrsets(&[
        (" MX", "300 10 mail.example.com."),
        ("mail A", "3600 192.0.2.25"),
        ("mail AAAA", "3600 2001:db8::25"),
        ("www CNAME", "3600 mail.example.com."),
    ]);
    assert_eq!(env.zone_rrsets("example.com"), expected);
    env.in_sync();
    let one = ["import", "--from", "octodns", "config/example.com.yaml", "--only", "www"];
    env.finish(env.command(&one)).exits(3).says(&["name: www"]).hides(&["name: mail", "leave nothing"]);
    let none = ["import", "--from", "octodns", "config/example.com.yaml", "--only", "wwww"];
    env.finish(env.command(&none)).says(&["warning: --only and --ignore leave nothing of what is there"]);
    env.finish(env.command(&["import", "--from", "octodns", "zones"]))
        .exits(1)
        .says(&["files are called ZONE.yaml"]);
    env.finish(env.command(&["import", "--from", "octdns", "config"])).exits(1).says(&["octodns"]);
}

#[test]
fn a_zone_that_octodns_split_into_files_is_imported_as_one() {
    let env = Env::zonefile();
    env.write(
        "config/example.com./$example.com.yaml",
        "'': {type: MX, value: {exchange: mail.example.com., preference: 10}}\n",
    );
    env.write("config/example.com./mail.yaml", "mail: {type: A, value: 192.0.2.25}\n");
    env.write("config/example.com.yaml", "www: {type: A, value: 192.0.2.1}\n");
    let output = env.run(&["import", "--from", "octodns", "config"]).exits(0);
    assert_eq!(output.stdout.matches("kind: Zone").count(), 1, "{}", output.stdout);
    env.push("zone.yaml", &output.stdout);
    env.apply();
    let expected = rrsets(&[
        (" MX", "3600 10 mail.example.com."),
        ("mail A", "3600 192.0.2.25"),
        ("www A", "3600 192.0.2.1"),
    ]);
    assert_eq!(env.zone_rrsets("example.com"), expected);
    env.write("config/example.com./www.yaml", "www: {type: A, value: 192.0.2.2}\n");
    env.run(&["import", "--from", "octodns", "config"])
        .exits(1)
        .says(&["www.example.com./A as another file"]);
}
