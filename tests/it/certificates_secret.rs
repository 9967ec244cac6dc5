//! Where the keys of certificates and the passwords of their files go, and where they are not.

use crate::{
    certificates::{SELF, certificate, desk, entry, fingerprint, manifest, openssl, read},
    env::WIDE_GUARD,
    running::{Daemon, wait_for},
    terraform,
};
use std::{fs, os::unix::fs::PermissionsExt};

#[test]
fn no_private_key_is_in_what_is_said_or_in_the_database() {
    let env = desk();
    let web = certificate(&env, "web", "issuerRef: {name: own}, dnsNames: [example.com]");
    env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &web));
    let mut said = env.run(&["plan", "-o", "json"]).all();
    said += &env.run(&["-vv", "apply", "--yes"]).all();
    fs::remove_file(env.path("ssl/web/tls.key")).unwrap();
    said += &env.run(&["-vv", "plan"]).all();
    said += &env.run(&["apply", "--yes"]).all();
    said += &env.run(&["status", "-o", "json"]).all();
    let key = read(&env, "ssl/web/tls.key");
    // What is there instead of the key may be another one.
    env.write("ssl/web/tls.key", &key.replace("PRIVATE KEY", "NOBODY'S KEY"));
    said += &env.run(&["-vv", "plan", "-o", "json"]).all();
    said += &env.run(&["apply", "--yes"]).all();
    said += &env.run(&["history", "-o", "json"]).all();
    let line = key.lines().nth(1).unwrap();
    assert!(line.len() > 40 && !said.contains(line));
    for entry in fs::read_dir(env.path("state")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = fs::read(&path).unwrap();
            assert!(!bytes.windows(line.len()).any(|part| part == line.as_bytes()), "{}", path.display());
        }
    }
    for path in ["state/certificates", "state/certificates/cert/certificates/web"] {
        assert_eq!(fs::metadata(env.path(path)).unwrap().permissions().mode() & 0o777, 0o700, "{path}");
    }
}

#[test]
fn what_a_certificate_puts_out_reaches_a_cloud_and_its_key_nobody_else() {
    let env = desk();
    fs::create_dir(env.path("world")).unwrap();
    env.write("token", "x");
    env.config(&format!("{}\n{}", entry(&env, "true"), terraform::entry(&env, "")));
    let issuers = manifest("Issuer", "own", SELF)
        + &manifest("Issuer", "ca", "ca: {certificate: ca}")
        + &manifest("Issuer", "between", "ca: {certificate: between}");
    let signs = |name: &str, issuer: &str| {
        let spec = format!("issuerRef: {{name: {issuer}}}, isCA: true, commonName: {name}, duration: 3650d");
        certificate(&env, name, &spec)
    };
    let web = certificate(&env, "web", "issuerRef: {name: between}, dnsNames: [example.com]");
    let of = |name: &str| format!("\"${{Certificate/web:status.{name}}}\"");
    let thing = terraform::thing(
        "balancer",
        "",
        &format!(
            "name: a, secret: {}, tags: {{certificate: {}, chain: {}, full: {}, ca: {}}}",
            of("privateKey"),
            of("certificate"),
            of("chain"),
            of("fullChain"),
            of("caBundle")
        ),
    );
    env.push("all.yaml", &[issuers, signs("ca", "own"), signs("between", "ca"), web, thing].concat());
    let mut said = env.run(&["-vv", "apply", "--yes"]).exits(0).all();
    said += &env.run(&["plan", "-o", "json"]).all();
    said += &env.run(&["status", "-o", "json"]).all();
    env.in_sync();
    let is_there = || {
        let thing = terraform::state(&env, "thing-1.json");
        let text = |name: &str| thing["tags"][name].as_str().unwrap().to_string();
        assert_eq!(thing["secret"], read(&env, "ssl/web/tls.key"));
        assert_eq!((text("full"), text("ca")), (read(&env, "ssl/web/tls.crt"), read(&env, "ssl/web/ca.crt")));
        let begins = |name: &str| text(name).matches("BEGIN CERTIFICATE").count();
        assert!(begins("certificate") == 1 && begins("chain") >= 1, "{thing}");
        let bare = |text: &str| text.split_whitespace().collect::<String>();
        assert_eq!(bare(&(text("certificate") + &text("chain"))), bare(&text("full")));
    };
    is_there();

    // It follows a renewal, in the same run.
    let before = read(&env, "ssl/web/tls.key");
    env.run(&["renew", "Certificate/web"]);
    said += &env.run(&["-vv", "apply", "--yes"]).exits(0).all();
    assert_ne!(read(&env, "ssl/web/tls.key"), before);
    is_there();
    env.in_sync();
    for key in [before, read(&env, "ssl/web/tls.key")] {
        let line = key.lines().nth(1).unwrap();
        assert!(line.len() > 40 && !said.contains(line));
        for entry in fs::read_dir(env.path("state")).unwrap().flatten().filter(|entry| entry.path().is_file())
        {
            let bytes = fs::read(entry.path()).unwrap();
            let holds = bytes.windows(line.len()).any(|part| part == line.as_bytes());
            assert!(!holds, "{}", entry.path().display());
        }
    }
    // Where everybody may read it, it is not put.
    env.push(
        "b.yaml",
        &terraform::thing("b", "", &format!("name: b, content: \"key {}", &of("privateKey")[1..])),
    );
    env.run(&["plan"]).exits(1).says(&["b.yaml:4:"]).hides(&["PRIVATE KEY"]);
}

#[test]
fn a_file_with_the_key_of_a_certificate_follows_each_renewal() {
    let env = desk();
    fs::create_dir_all(env.path("machine/etc")).unwrap();
    let root = env.path("machine");
    let host =
        format!("  - {{name: host, type: host, root: {}, paths: [/etc], {WIDE_GUARD}}}", root.display());
    env.config(&format!("{}\n{host}", entry(&env, "true")));
    let web = certificate(&env, "web", "issuerRef: {name: own}, dnsNames: [example.com]");
    let file = "apiVersion: local/v1\nkind: File\nmetadata: {name: key}\n\
                spec: {path: /etc/key.pem, content: {secret: \"${Certificate/web:status.privateKey}\"}}\n";
    env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &web + file));
    let _daemon = Daemon::ready(&env);
    let follows = || {
        let key = read(&env, "ssl/web/tls.key");
        !key.is_empty() && read(&env, "machine/etc/key.pem") == key
    };
    wait_for("the file has the key", follows);
    // The file is looked at while the new certificate is, and must not wait for it for ever.
    for _ in 0..3 {
        let before = read(&env, "ssl/web/tls.key");
        env.run(&["renew", "Certificate/web"]).exits(0);
        wait_for("another key", || read(&env, "ssl/web/tls.key") != before);
        wait_for("the file has the new key", follows);
    }
}

#[test]
fn a_pkcs12_file_follows_its_certificate_and_its_password_and_tells_nobody_of_it() {
    let env = desk();
    env.write(
        "config.yaml",
        &(read(&env, "config.yaml") + "secrets: {p12: {file: PASSWORD}}\n")
            .replace("PASSWORD", &env.path("password").display().to_string()),
    );
    env.write("password", "canary-one\n");
    let web =
        certificate(&env, "web", "issuerRef: {name: own}, dnsNames: [a.example], reload: [app.service]");
    let web = web.replacen("}, ", ", pkcs12: {password: {secret: p12}}}, ", 1);
    env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &web));
    let mut said = env.run(&["plan"]).exits(0).says(&["with the password of secret p12"]).all();
    said += &env.run(&["-vv", "apply", "--yes"]).exits(0).all();
    let leaf = |password: &str| {
        let password = format!("pass:{password}");
        openssl(&env, &["pkcs12", "-in", "ssl/web/keystore.p12", "-passin", &password, "-nokeys", "-clcerts"])
    };
    assert!(leaf("canary-one").contains(&read(&env, "ssl/web/tls.crt")));
    let of_key =
        ["pkcs12", "-in", "ssl/web/keystore.p12", "-passin", "pass:canary-one", "-nocerts", "-noenc"];
    assert!(openssl(&env, &of_key).contains(&read(&env, "ssl/web/tls.key")));
    let (before, made) = (fingerprint(&env, "web"), fs::read(env.path("ssl/web/keystore.p12")).unwrap());
    env.in_sync();
    env.run(&["apply", "--yes"]).exits(0);
    assert_eq!(fs::read(env.path("ssl/web/keystore.p12")).unwrap(), made);
    env.write("password", "canary-two\n");
    said += &env.run(&["plan"]).exits(0).says(&["~ Certificate/web", "has another password"]).all();
    said += &env.run(&["-vv", "apply", "--yes"]).exits(0).all();
    assert!(leaf("canary-two").contains(&read(&env, "ssl/web/tls.crt")));
    assert_eq!(fingerprint(&env, "web"), before, "the same certificate");
    assert_eq!(read(&env, "reloaded"), "app.service\napp.service\n");
    env.in_sync();
    // A password that cannot be had changes nothing.
    fs::rename(env.path("password"), env.path("elsewhere")).unwrap();
    said += &env.run(&["plan"]).says(&["p12"]).all();
    said += &env.run(&["apply", "--yes"]).all();
    assert!(leaf("canary-two").contains(&read(&env, "ssl/web/tls.crt")));
    // What is frozen is not made anew, and nobody is told that it will be.
    env.run(&["renew", "Certificate/web"]).exits(1).says(&["it is frozen"]);
    env.run(&["status", "--exit-code"]).exits(3).says(&["FROZEN (1)\n  Certificate/web", "\n0 well"]);
    fs::rename(env.path("elsewhere"), env.path("password")).unwrap();
    env.in_sync();
    said += &env.run(&["status", "Certificate/web", "-o", "json"]).all();
    assert!(!said.contains("canary"), "{said}");
    for entry in fs::read_dir(env.path("state")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = fs::read(&path).unwrap();
            assert!(!bytes.windows(6).any(|part| part == b"canary"), "{}", path.display());
        }
    }
}
