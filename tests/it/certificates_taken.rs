//! Files of somebody else where a certificate is to be put, and directories that two want.

use crate::certificates::{SELF, certificate, desk, entry, fingerprint, manifest, openssl, read};
use crate::env::Env;
use std::fs;

/// What somebody else issued for example.com, in `ssl/web`.
fn of_somebody_else(env: &Env) {
    fs::create_dir(env.path("ssl/web")).unwrap();
    openssl(
        env,
        &[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "90",
            "-subj",
            "/CN=example.com",
            "-addext",
            "subjectAltName=DNS:example.com",
            "-addext",
            "basicConstraints=CA:FALSE",
            "-keyout",
            "ssl/web/tls.key",
            "-out",
            "ssl/web/tls.crt",
        ],
    );
}

#[test]
fn what_somebody_else_issued_is_adopted_also_where_an_authority_of_ones_own_is_to_issue_the_next() {
    let env = desk();
    of_somebody_else(&env);
    let issuers = manifest("Issuer", "own", SELF) + &manifest("Issuer", "ca", "ca: {certificate: ca}");
    let ca =
        certificate(&env, "ca", "issuerRef: {name: own}, isCA: true, commonName: Lab CA, duration: 3650d");
    let web = certificate(&env, "web", "issuerRef: {name: ca}, dnsNames: [example.com]");
    let theirs = fingerprint(&env, "web");
    env.push("all.yaml", &format!("{issuers}{ca}{web}"));
    env.apply();
    assert_eq!(fingerprint(&env, "web"), theirs);
    env.in_sync();
}

#[test]
fn files_of_somebody_else_are_adopted_when_they_are_as_declared_and_kept_when_they_are_replaced() {
    let env = desk();
    of_somebody_else(&env);
    let theirs = fingerprint(&env, "web");
    let web = |names: &str| {
        let spec = format!("issuerRef: {{name: own}}, dnsNames: [{names}]");
        manifest("Issuer", "own", SELF) + &certificate(&env, "web", &spec)
    };
    env.push("all.yaml", &web("example.com"));
    env.run(&["plan"]).exits(0).says(&["= Certificate/web"]);
    env.apply();
    assert_eq!(fingerprint(&env, "web"), theirs);
    // One more pass takes it over: it is kept, and put back from there.
    env.apply();
    env.in_sync();
    fs::remove_file(env.path("ssl/web/tls.crt")).unwrap();
    env.apply();
    assert_eq!(fingerprint(&env, "web"), theirs);
    env.in_sync();

    // What is ours by adoption may be replaced, and the only copy of a key is kept.
    let key = read(&env, "ssl/web/tls.key");
    env.push("all.yaml", &web("example.com, www.example.com"));
    env.apply();
    assert_ne!(fingerprint(&env, "web"), theirs);
    let copies = || {
        let copies = fs::read_dir(env.path("state/certificates/cert/replaced/web")).unwrap();
        copies.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect::<Vec<_>>()
    };
    assert!(copies().contains(&key));
    env.in_sync();
    // So is what comes later, and once; it stays when the certificate goes.
    for _ in 0..2 {
        fs::remove_file(env.path("ssl/web/tls.key")).unwrap();
        env.write("ssl/web/tls.key", "put there by hand");
        env.apply();
    }
    // The last one of all is held, as with everything else.
    env.push("all.yaml", &manifest("Issuer", "own", SELF));
    let held = env.run(&["apply", "--yes"]).exits(3).says(&["reconciled approve"]);
    let words: Vec<&str> = held.stdout.split_whitespace().collect();
    let digest = words[words.iter().position(|word| *word == "approve").unwrap() + 1];
    env.run(&["approve", digest, "--reason", "meant so"]).exits(0);
    env.apply();
    assert!(!env.path("ssl/web/tls.key").exists());
    let copies = copies();
    assert_eq!(copies.iter().filter(|copy| *copy == "put there by hand").count(), 1);
    assert!(copies.contains(&key));
}

#[test]
fn what_was_adopted_goes_with_its_key() {
    let env = desk();
    of_somebody_else(&env);
    let own = manifest("Issuer", "own", SELF);
    let spec = "issuerRef: {name: own}, dnsNames: [example.com]";
    env.push("own.yaml", &(own + &certificate(&env, "other", spec)));
    env.push("web.yaml", &certificate(&env, "web", spec));
    let theirs = fingerprint(&env, "web");
    env.apply();
    env.apply();
    env.in_sync();
    assert_eq!(fingerprint(&env, "web"), theirs);
    env.push_without("web.yaml");
    env.apply().says(&["1 deleted"]);
    assert!(!env.path("ssl/web").exists() && env.path("ssl/other/tls.key").exists());
    env.in_sync();
}

#[test]
fn two_instances_do_not_share_a_directory_unless_a_person_says_who_has_it() {
    let (ours, theirs) = (desk(), desk());
    theirs.config_with("theirs", &entry(&ours, "true"), "");
    let issuer = manifest("Issuer", "own", SELF);
    let text = issuer.clone() + &certificate(&ours, "web", "issuerRef: {name: own}, dnsNames: [example.com]");
    ours.push("all.yaml", &text);
    ours.apply();
    let key = read(&ours, "ssl/web/tls.key");
    theirs.push("all.yaml", &text);
    let words = ["ManagementConflict", "`it`", "--from-instance it"];
    theirs.run(&["apply", "--yes"]).exits(3).says(&words);
    theirs.push("all.yaml", &issuer);
    theirs.apply();
    assert_eq!(read(&ours, "ssl/web/tls.key"), key);
    ours.in_sync();

    theirs.push("all.yaml", &text);
    theirs.run(&["adopt", "Certificate/web", "--from-instance", "it"]).exits(0);
    theirs.apply();
    theirs.in_sync();
    assert_eq!(read(&ours, "ssl/web/tls.key"), key);
    ours.run(&["plan"]).exits(3).says(&["ManagementConflict", "`theirs`", "--from-instance theirs"]);
}

#[test]
fn two_certificates_do_not_share_a_directory() {
    let env = desk();
    let spec = format!(
        "output: {{directory: {}}}, issuerRef: {{name: own}}, dnsNames: [example.com]",
        env.path("ssl/x").display()
    );
    let text = manifest("Issuer", "own", SELF) + &manifest("Certificate", "one", &spec);
    env.push("all.yaml", &text);
    env.apply();
    let first = fingerprint(&env, "x");
    env.push("all.yaml", &(text + &manifest("Certificate", "two", &spec)));
    env.run(&["plan"]).exits(1).says(&["Certificate/two and", "are one resource, the directory DIR/ssl/x"]);
    assert_eq!(fingerprint(&env, "x"), first);
}

#[test]
fn nor_do_two_of_different_entries() {
    let env = desk();
    let one = entry(&env, "true");
    env.config(&format!("{one}\n{}", one.replace("name: cert,", "name: other,")));
    for entry in ["cert", "other"] {
        let spec = format!(
            "provider: {entry}, output: {{directory: {}}}, issuerRef: {{name: by-{entry}}}, dnsNames: [example.com]",
            env.path("ssl/x").display()
        );
        let issuer = manifest("Issuer", &format!("by-{entry}"), &format!("provider: {entry}, {SELF}"));
        env.push(
            &format!("{entry}.yaml"),
            &(issuer + &manifest("Certificate", &format!("of-{entry}"), &spec)),
        );
    }
    let both = ["Certificate/of-other and Certificate/of-cert are one resource, the directory DIR/ssl/x"];
    env.run(&["plan"]).exits(1).says(&both);
}

#[test]
fn nobody_is_told_to_take_over_what_is_another_entrys() {
    let env = desk();
    of_somebody_else(&env);
    let (before, mark) = (fingerprint(&env, "web"), "ssl/web/..certificate");
    env.write(mark, "elsewhere/web");
    let web = certificate(&env, "web", "issuerRef: {name: own}, dnsNames: [other.example]");
    env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &web));
    let words = ["DIR/ssl/web is where certificate elsewhere/web is put", "rm DIR/ssl/web/..certificate"];
    env.run(&["plan"]).says(&words).hides(&["reconciled adopt"]);
    // Who does so all the same is told the same.
    env.run(&["adopt", "Certificate/web"]);
    env.run(&["apply", "--yes"]).says(&words[..1]);
    env.run(&["plan"]).says(&words).hides(&["reconciled adopt"]);
    assert_eq!(fingerprint(&env, "web"), before);
    fs::remove_file(env.path(mark)).unwrap();
    env.run(&["adopt", "Certificate/web"]).exits(0);
    env.apply();
    assert_ne!(fingerprint(&env, "web"), before);
}
