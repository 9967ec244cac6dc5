//! Certificates from Git to the disk, with the real program; OpenSSL says what they are.

use crate::{
    env::{Env, Output, WIDE_GUARD, zone},
    running::{Daemon, wait_for},
};
use reconciled::failpoint::VARIABLE;
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    process::Command,
};

/// A desk with the entry `cert`, which may put certificates into `ssl/` and has `log` written by what it reloads.
pub(crate) fn desk() -> Env {
    let env = Env::trusted();
    fs::create_dir(env.path("ssl")).unwrap();
    env.config(&entry(&env, "echo \"$1\" >> reloaded"));
    env
}

/// The entry, with a shell script that reloads `$1` and works in the folder of the desk.
pub(crate) fn entry(env: &Env, script: &str) -> String {
    let dir = env.dir.path().display();
    format!(
        "  - {{name: cert, type: certificates, paths: [{dir}/ssl], directory: {dir}/ssl, \
         reload: [sh, -c, 'cd {dir}; {script}', sh, '{{unit}}'], {WIDE_GUARD}}}"
    )
}

/// A manifest.
pub(crate) fn manifest(kind: &str, name: &str, spec: &str) -> String {
    format!("apiVersion: cert/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n---\n")
}

/// A certificate with an output directory of its own name.
pub(crate) fn certificate(env: &Env, name: &str, spec: &str) -> String {
    let directory = env.path(&format!("ssl/{name}"));
    manifest("Certificate", name, &format!("output: {{directory: {}}}, {spec}", directory.display()))
}

/// What OpenSSL says, which must end well.
#[track_caller]
pub(crate) fn openssl(env: &Env, args: &[&str]) -> String {
    let output = Command::new("openssl").args(args).current_dir(env.dir.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

pub(crate) fn fingerprint(env: &Env, name: &str) -> String {
    openssl(env, &["x509", "-in", &format!("ssl/{name}/tls.crt"), "-noout", "-fingerprint", "-sha256"])
}

pub(crate) fn read(env: &Env, path: &str) -> String {
    fs::read_to_string(env.path(path)).unwrap_or_default()
}

/// Key and certificate of `name` belong together.
#[track_caller]
pub(crate) fn is_pair(env: &Env, name: &str) {
    let of_key = openssl(env, &["pkey", "-in", &format!("ssl/{name}/tls.key"), "-pubout"]);
    let of_cert = openssl(env, &["x509", "-in", &format!("ssl/{name}/tls.crt"), "-noout", "-pubkey"]);
    assert_eq!(of_key, of_cert);
}

/// Has the names of a certificate be regular files, as another program writes them.
pub(crate) fn make_regular(env: &Env, name: &str) {
    for file in ["tls.crt", "tls.key"] {
        let (path, draft) = (env.path(&format!("ssl/{name}/{file}")), env.path("draft"));
        fs::copy(&path, &draft).unwrap();
        fs::rename(&draft, &path).unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }
}

pub(crate) const SELF: &str = "selfSigned: {}";

#[test]
fn below_another_root_the_entry_that_is_missing_is_told_of() {
    let env = Env::host("host: {labels: {role: web}}");
    env.push("own.yaml", &manifest("Issuer", "own", SELF));
    let hint = "hint: the root of entry `host` is DIR/machine, so it stands for no certificates of this machine; \
                write an entry with the directories that they may be put into: {name: certificates, type: certificates";
    env.run(&["plan"]).exits(0).says(&["UNASSIGNED", "Issuer/own: for providers", hint]);
    env.apply();
    env.run(&["status"]).exits(0).says(&["UNASSIGNED (1)", "Issuer/own  of source infra", hint]);
    env.run(&["plan"]).exits(0).says(&[hint]);
}

#[test]
fn a_self_signed_certificate_is_what_was_declared_and_then_nothing_is_left_to_plan() {
    let env = desk();
    let issuer = manifest("Issuer", "own", SELF);
    let web = certificate(
        &env,
        "web",
        "issuerRef: {name: own}, dnsNames: [Example.com, '*.example.com'], ipAddresses: [192.0.2.1, '2001:db8::1'], \
         duration: 30d, reload: [nginx.service]",
    );
    env.push("all.yaml", &format!("{issuer}{web}"));
    env.run(&["plan"]).exits(0).says(&[
        "+ Certificate/web",
        "*.example.com example.com",
        "self-signed",
        "ECDSA 256",
    ]);
    env.apply();
    let text = openssl(&env, &["x509", "-in", "ssl/web/tls.crt", "-noout", "-text"]);
    for part in [
        "DNS:*.example.com, DNS:example.com, IP Address:192.0.2.1, IP Address:2001:DB8:0:0:0:0:0:1",
        "Digital Signature, Key Encipherment",
        "TLS Web Server Authentication",
        "CA:FALSE",
        "prime256v1",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    is_pair(&env, "web");
    openssl(&env, &["verify", "-CAfile", "ssl/web/ca.crt", "ssl/web/tls.crt"]);
    openssl(&env, &["x509", "-in", "ssl/web/tls.crt", "-noout", "-checkend", "2500000"]);
    assert_eq!(fs::metadata(env.path("ssl/web/tls.key")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(read(&env, "reloaded"), "nginx.service\n");
    env.in_sync();
    env.run(&["apply", "--yes"]).exits(0);
    assert_eq!(read(&env, "reloaded"), "nginx.service\n", "once");
}

#[test]
fn a_certificate_of_our_own_signs_others_and_a_new_one_of_it_signs_them_again() {
    let env = desk();
    let issuers = manifest("Issuer", "own", SELF) + &manifest("Issuer", "ca", "ca: {certificate: ca}");
    let ca = |key: &str| {
        let spec = format!(
            "issuerRef: {{name: own}}, isCA: true, commonName: Lab CA, duration: 3650d, privateKey: {{algorithm: {key}}}"
        );
        certificate(&env, "ca", &spec)
    };
    // Its name comes before that of the one that signs, and so does its turn.
    let web = certificate(
        &env,
        "a-web",
        "issuerRef: {name: ca}, dnsNames: [web.example.com], usages: [client auth, signing], \
         privateKey: {algorithm: ECDSA, size: 384}",
    );
    env.push("all.yaml", &format!("{web}{issuers}{}", ca("ECDSA")));
    env.apply();
    let verify = || openssl(&env, &["verify", "-CAfile", "ssl/ca/tls.crt", "ssl/a-web/tls.crt"]);
    verify();
    is_pair(&env, "a-web");
    assert_eq!(read(&env, "ssl/a-web/ca.crt"), read(&env, "ssl/ca/tls.crt"));
    let text = openssl(&env, &["x509", "-in", "ssl/a-web/tls.crt", "-noout", "-text"]);
    assert!(text.contains("Issuer: CN = Lab CA") && text.contains("TLS Web Client Authentication"), "{text}");
    assert!(text.contains("secp384r1") && !text.contains("Server Authentication"), "{text}");
    env.in_sync();

    let before = fingerprint(&env, "a-web");
    env.push("all.yaml", &format!("{web}{issuers}{}", ca("Ed25519")));
    env.apply();
    verify();
    assert_ne!(fingerprint(&env, "a-web"), before);
    env.in_sync();

    let before = fingerprint(&env, "a-web");
    env.run(&["renew", "Certificate/ca"]).exits(0);
    env.apply();
    verify();
    assert_ne!(fingerprint(&env, "a-web"), before, "signed by the new key, in the same run");
    env.in_sync();
}

#[test]
fn the_daemon_has_what_is_signed_signed_again_by_the_new_key() {
    let env = desk();
    let issuers = manifest("Issuer", "own", SELF) + &manifest("Issuer", "ca", "ca: {certificate: ca}");
    let ca =
        certificate(&env, "ca", "issuerRef: {name: own}, isCA: true, commonName: Lab CA, duration: 3650d");
    let web = certificate(&env, "web", "issuerRef: {name: ca}, dnsNames: [web.example.com]");
    env.push("all.yaml", &format!("{issuers}{ca}{web}"));
    env.apply();
    let daemon = Daemon::ready(&env);
    let first = fingerprint(&env, "ca");
    env.run(&["renew", "Certificate/ca"]).exits(0);
    let is_signed = || {
        let mut verify = Command::new("openssl");
        verify.args(["verify", "-CAfile", "ssl/ca/tls.crt", "ssl/web/tls.crt"]);
        verify.current_dir(env.dir.path()).output().unwrap().status.success()
    };
    wait_for("what the new key signed", || fingerprint(&env, "ca") != first && is_signed());
    // Where that may not be done, it is not said to be well.
    env.run(&["suspend", "Certificate/web", "--reason", "looking"]).exits(0);
    env.run(&["renew", "Certificate/web"]).exits(1).says(&["suspended it (looking)", "reconciled resume"]);
    env.run(&["renew", "Certificate/ca"]).exits(0);
    wait_for("what is not well", || {
        env.run(&["status"]).stdout.contains("it is signed by an earlier key of its issuer")
    });
    daemon.stop();
}

#[test]
fn check_says_whether_certificates_can_be_put_where_the_host_allows_them() {
    let env = desk();
    env.push("all.yaml", &manifest("Issuer", "own", SELF));
    env.run(&["check"]).says(&["provider cert", "its directories can be used"]);
    let mode = |mode| fs::set_permissions(env.path("ssl"), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o777);
    env.run(&["check"]).exits(1).says(&["provider cert", "others may write to"]);
    mode(0o1777);
    env.run(&["check"]).says(&["its directories can be used"]);
}

#[test]
fn what_somebody_keeps_changing_is_renewed_all_the_same() {
    let env = desk();
    let web = certificate(&env, "web", "issuerRef: {name: own}, dnsNames: [example.com]");
    env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &web));
    env.apply();
    let first = fingerprint(&env, "web");
    let daemon = Daemon::ready(&env);
    let key = env.path("ssl/web/tls.key");
    let is_closed = || fs::metadata(&key).is_ok_and(|meta| meta.mode() & 0o777 == 0o600);
    let open = || fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    for _ in 0..3 {
        open();
        wait_for("the mode that is declared", is_closed);
    }
    open();
    wait_for("that it is left alone", || env.run(&["status"]).stdout.contains("Flapping"));
    env.run(&["renew", "Certificate/web"]).exits(0);
    wait_for("another certificate", || is_closed() && fingerprint(&env, "web") != first);
    // Who asked for it has seen what goes on.
    open();
    wait_for("the mode that is declared", is_closed);
    daemon.stop();
}

#[test]
fn one_damage_after_the_other_is_put_right_and_the_same_one_three_times() {
    let env = desk();
    let web = certificate(&env, "web", "issuerRef: {name: own}, dnsNames: [example.com]");
    env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &web));
    env.apply();
    let issued = read(&env, "ssl/web/tls.crt");
    let daemon = Daemon::ready(&env);
    // At once: a file that is empty for a moment is another damage, and may be all that is seen.
    let damage = |number: usize| {
        env.write("damage", &format!("damage {number}"));
        fs::rename(env.path("damage"), env.path("ssl/web/tls.crt")).unwrap();
    };
    for number in [0, 1, 2, 3, 4, 4, 4] {
        damage(number);
        wait_for("what was issued", || read(&env, "ssl/web/tls.crt") == issued);
    }
    damage(4);
    wait_for("that it is left alone", || env.run(&["status"]).stdout.contains("Flapping"));
    daemon.stop();
}

#[test]
fn an_issuer_without_a_name_is_warned_of_where_it_is_declared() {
    let env = desk();
    let web = certificate(&env, "web", "issuerRef: {name: own}, dnsNames: [example.com]");
    env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &web));
    let words = [
        "warning: it signs itself and has no `commonName`",
        "[issuer-without-name]",
        "--> all.yaml:6",
        "hint: write commonName: NAME",
    ];
    env.finish(env.command(&["validate", "work"])).exits(0).says(&words);
    env.run(&["plan"]).exits(0).says(&words);
    let silent =
        web.replace("name: web}", "name: web, annotations: {reconciled/lint-ignore: issuer-without-name}}");
    env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &silent));
    env.run(&["plan"]).exits(0).hides(&["warning:"]);
}

/// Puts a pair of somebody else in the place of `web`: `other.crt` and `other.key`, for the same name.
fn put_another_pair(env: &Env) {
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let names = ["-subj", "/CN=example.com", "-addext", "subjectAltName=DNS:example.com"];
    let rest = ["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", "other.key", "-out", "other.crt"];
    openssl(env, &[&["req", "-x509"][..], &curve, &names, &rest].concat());
    for end in ["crt", "key"] {
        fs::copy(env.path(&format!("other.{end}")), env.path("draft")).unwrap();
        fs::rename(env.path("draft"), env.path(&format!("ssl/web/tls.{end}"))).unwrap();
    }
}

/// Does to the files of `web` what may happen to files; each is said, and put right with the same certificate. Returns how many
/// that were.
pub(crate) fn damages_are_put_right(env: &Env) -> usize {
    let first = fingerprint(env, "web");
    let other = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let key = env.path("ssl/web/tls.key");
    let damages: [(&str, &dyn Fn()); 8] = [
        ("tls.key is missing", &|| fs::remove_file(&key).unwrap()),
        ("tls.crt is not what was issued", &|| env.write("ssl/web/tls.crt", "")),
        ("tls.crt is not what was issued", &|| env.write("ssl/web/tls.crt", other)),
        ("tls.key is not what was issued", &|| put_another_pair(env)),
        ("tls.key has mode 0644, not 0600", &|| {
            fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap()
        }),
        ("tls.key belongs to 7:7", &|| std::os::unix::fs::chown(&key, Some(7), Some(7)).unwrap()),
        ("tls.crt is missing", &|| fs::remove_dir_all(env.path("ssl/web")).unwrap()),
        ("tls.key is no file of ours", &|| {
            fs::remove_file(&key).unwrap();
            env.write("elsewhere", "x");
            symlink(env.path("elsewhere"), &key).unwrap();
        }),
    ];
    for (trouble, damage) in damages {
        damage();
        env.run(&["plan"]).exits(0).says(&["~ Certificate/web", trouble, "drift"]);
        env.apply();
        assert_eq!(fingerprint(env, "web"), first, "{trouble}");
        is_pair(env, "web");
        env.in_sync();
    }
    assert_eq!(read(env, "elsewhere"), "x", "nothing is written through a link");
    damages.len()
}

#[test]
fn whatever_happens_to_the_files_costs_no_certificate() {
    let env = desk();
    let web =
        certificate(&env, "web", "issuerRef: {name: own}, dnsNames: [example.com], reload: [nginx.service]");
    env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &web));
    env.apply();
    let damages = damages_are_put_right(&env);
    let key = env.path("ssl/web/tls.key");
    assert_eq!(fs::metadata(&key).unwrap().uid(), fs::metadata(env.path("ssl")).unwrap().uid());
    assert_eq!(read(&env, "reloaded").lines().count(), 1 + damages, "each time the files changed");
    let copies = fs::read_dir(env.path("state/certificates/cert/replaced/web")).unwrap();
    let copies: Vec<String> =
        copies.map(|copy| fs::read_to_string(copy.unwrap().path()).unwrap_or_default()).collect();
    for file in ["other.crt", "other.key"] {
        assert!(copies.contains(&read(&env, file)), "{file}: what was replaced is kept");
    }
}

#[test]
fn a_renewal_that_was_kept_when_the_process_died_is_put_in_place_whatever_is_said_of_drift() {
    for mode in ["ignore", "warn"] {
        let env = desk();
        let web = certificate(&env, "web", "issuerRef: {name: own}, dnsNames: [example.com]");
        let annotated = format!("name: web, annotations: {{reconciled/drift: {mode}}}}}");
        let web = web.replacen("name: web}", &annotated, 1);
        env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &web));
        env.apply();
        let first = fingerprint(&env, "web");
        env.run(&["renew", "Certificate/web"]).exits(0);
        let died = env.run_with(&["apply", "--yes"], &[(VARIABLE, "certificate.kept")]);
        assert_eq!(died.signal, Some(9), "{mode}: {died:?}");
        assert_eq!(fingerprint(&env, "web"), first, "{mode}");
        env.run(&["plan"]).exits(0).says(&["~ Certificate/web", "due", "tls.crt is not what was issued"]);
        env.apply();
        assert_ne!(fingerprint(&env, "web"), first, "{mode}");
        is_pair(&env, "web");
        env.in_sync();
    }
}

#[test]
fn a_reload_that_fails_is_done_again_and_nothing_else_is() {
    let env = desk();
    env.config(&entry(&env, "test -e ready || { echo not now >&2; exit 3; }; echo \"$1\" >> reloaded"));
    let web =
        certificate(&env, "web", "issuerRef: {name: own}, dnsNames: [example.com], reload: [nginx.service]");
    env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &web));
    env.run(&["apply", "--yes", "--timeout", "1s"]).says(&["reload nginx.service", "not now"]);
    let first = fingerprint(&env, "web");
    env.run(&["plan"]).exits(0).says(&["~ Certificate/web", "has not read the files since they changed"]);
    env.write("ready", "");
    env.apply();
    assert_eq!((read(&env, "reloaded").as_str(), fingerprint(&env, "web")), ("nginx.service\n", first));
    env.in_sync();
}

#[test]
fn a_certificate_moves_with_its_directory_and_goes_with_its_manifest() {
    let env = desk();
    let web = |directory: &str| {
        let directory = env.path(directory);
        let spec = format!(
            "output: {{directory: {}}}, issuerRef: {{name: own}}, dnsNames: [example.com]",
            directory.display()
        );
        manifest("Issuer", "own", SELF) + &manifest("Certificate", "web", &spec)
    };
    env.push("all.yaml", &web("ssl/one"));
    env.apply();
    let first = fingerprint(&env, "one");
    env.push("all.yaml", &web("ssl/two"));
    env.apply();
    assert_eq!(fingerprint(&env, "two"), first);
    assert!(!env.path("ssl/one").exists());
    env.in_sync();
    // Somebody else's file in the directory stays, and so does the directory.
    env.write("ssl/two/dhparam.pem", "x");
    let other = certificate(&env, "other", "issuerRef: {name: own}, dnsNames: [example.com]");
    env.push("other.yaml", &other);
    env.apply();
    env.push("all.yaml", &manifest("Issuer", "own", SELF));
    env.run(&["plan"]).exits(0).says(&["- Certificate/web"]);
    env.apply();
    let left = fs::read_dir(env.path("ssl/two")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["dhparam.pem"]);
    let kept = fs::read_dir(env.path("state/certificates/cert/certificates")).unwrap();
    let kept: Vec<_> = kept.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(kept, ["other"], "no key is left");
}

#[test]
fn a_person_has_a_certificate_made_anew_and_the_daemon_does_it_at_once() {
    let env = desk();
    let directory = env.path("zones");
    fs::create_dir(&directory).unwrap();
    let zones = format!(
        "  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.]}}",
        directory.display()
    );
    env.config(&format!("{}\n{zones}", entry(&env, "echo \"$1\" >> reloaded")));
    let web = certificate(&env, "web", "issuerRef: {name: own}, dnsNames: [example.com]");
    let records = zone("example.com", "zones", &["{name: www, type: A, values: [192.0.2.1]}"]);
    env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &web + &records));
    env.apply();
    let first = fingerprint(&env, "web");
    env.run(&["renew", "Zone/example.com#www/A"]).exits(1).says(&["cannot be renewed", "certificates can"]);
    env.run(&["renew", "Certificate/wbe"]).exits(1).says(&["nothing is tracked at Certificate/wbe"]);
    env.run(&["renew", "Certificate/web"]).exits(0).says(&["Certificate/web", "now: reconciled apply"]);
    env.run(&["plan"]).exits(0).says(&["~ Certificate/web", "asked for by a person"]);
    env.apply();
    let second = fingerprint(&env, "web");
    assert_ne!(second, first);
    env.in_sync();
    env.run(&["events"]).exits(0).says(&["renew"]);

    let daemon = Daemon::ready(&env);
    env.run(&["renew", "Certificate/web"]).exits(0).says(&["the daemon makes them anew now"]);
    wait_for("another certificate", || {
        env.path("ssl/web/tls.crt").exists() && fingerprint(&env, "web") != second
    });
    daemon.stop();
}

#[test]
fn a_backup_says_that_certificates_are_not_in_it() {
    let env = desk();
    let web = certificate(&env, "web", "issuerRef: {name: own}, dnsNames: [example.com]");
    env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &web));
    env.apply();
    let file = env.path("backup.db").display().to_string();
    let hint = "hint: keep DIR/state/seal.key and DIR/state/certificates too, and elsewhere: they are not in the backup";
    env.run(&["backup", &file]).exits(0).says(&[hint]);
}

#[test]
fn manifests_of_cert_manager_are_read_as_they_are() {
    let env = desk();
    let text = "\
apiVersion: cert-manager.io/v1\nkind: ClusterIssuer\nmetadata: {name: selfsigned-issuer}\nspec: {selfSigned: {}}\n---\n\
apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: my-selfsigned-ca, namespace: sandbox}\nspec:\n  \
isCA: true\n  commonName: my-selfsigned-ca\n  secretName: root-secret\n  privateKey:\n    algorithm: ECDSA\n    size: 256\n  \
issuerRef:\n    name: selfsigned-issuer\n    kind: ClusterIssuer\n    group: cert-manager.io\n---\n\
apiVersion: cert-manager.io/v1\nkind: Issuer\nmetadata: {name: my-ca-issuer, namespace: sandbox}\nspec:\n  ca:\n    secretName: root-secret\n---\n\
apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: example-com, namespace: sandbox}\nspec:\n  \
secretName: example-com-tls\n  duration: 2160h\n  renewBefore: 360h\n  dnsNames: [example.com]\n  privateKey: {rotationPolicy: Always}\n  \
usages: [server auth, client auth]\n  issuerRef: {name: my-ca-issuer}\n";
    env.push("all.yaml", text);
    env.apply();
    openssl(&env, &["verify", "-CAfile", "ssl/root-secret/tls.crt", "ssl/example-com-tls/tls.crt"]);
    env.in_sync();
}

#[test]
fn what_is_wrong_with_an_issuer_is_told_where_it_stands() {
    let env = desk();
    let acme = "acme: {server: 'https://ca.example/dir', rotateAccountKeyAfter: 1m, solvers: [{http01: {}}]}";
    env.push("issuer.yaml", &manifest("Issuer", "le", acme));
    env.push("web.yaml", &certificate(&env, "web", "issuerRef: {name: le}, dnsNames: [a.example]"));
    let words = ["`1m` is no age of the key of an account", "issuer.yaml:4:"];
    env.run(&["plan"]).exits(1).says(&words).hides(&["web.yaml:4"]);
}

#[test]
fn a_plan_says_that_files_would_belong_to_nobody_and_nothing_is_begun() {
    let env = desk();
    let web = certificate(&env, "web", "issuerRef: {name: own}, dnsNames: [a.example]");
    let owned = web.replacen("}, ", ", owner: no-such-user-here}, ", 1);
    env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &owned));
    let words = ["there is no user `no-such-user-here` on this host"];
    env.run(&["plan"]).says(&words).hides(&["+ Certificate/web"]);
    env.run(&["apply", "--yes"]).says(&words).hides(&["1 created"]);
    assert!(!env.path("state/certificates/cert/certificates/web").exists());
    env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &web));
    env.apply();
    is_pair(&env, "web");
}

#[test]
fn what_is_wrong_has_its_place_and_a_hint() {
    let env = desk();
    let check = |spec: &str, part: &str| -> Output {
        env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &certificate(&env, "web", spec)));
        env.run(&["plan"]).exits(1).says(&[part, "all.yaml:"])
    };
    check("issuerRef: {name: onw}, dnsNames: [a.example]", "did you mean `own`?");
    check("issuerRef: {name: own}", "the certificate is for nobody");
    check("issuerRef: {name: own}, dnsNames: [192.0.2.1]", "an address belongs into ipAddresses");
    check("issuerRef: {name: own}, dnsNames: ['a.*.example']", "is no name of a host");
    check(
        "issuerRef: {name: own}, dnsNames: [a.example], usages: [server aut]",
        "did you mean `server auth`?",
    );
    check("issuerRef: {name: own}, dnsNames: [a.example], duration: 90", "90d or 2160h");
    check("issuerRef: {name: own}, dnsNames: [a.example], reload: ['--now']", "is no name of a unit");
    check("issuerRef: {name: own}, dnsName: [a.example]", "did you mean `dnsNames`?");
    check(
        "issuerRef: {name: own}, dnsNames: [a.example], privateKey: {algorithm: RSA, size: 512}",
        "no keys of kind `RSA 512`",
    );
    let outside = "output: {directory: /etc/ssl/web}, issuerRef: {name: own}, dnsNames: [a.example]";
    env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &manifest("Certificate", "web", outside)));
    env.run(&["plan"])
        .exits(1)
        .says(&["`/etc/ssl/web` is not below any of the directories", "`paths` of provider `cert`"]);
    let open = outside.replace("/etc/ssl/web", &format!("{}, mode: \"0644\"", env.path("ssl/web").display()));
    env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &manifest("Certificate", "web", &open)));
    env.run(&["plan"]).exits(1).says(&["no permissions for a key"]);
}
