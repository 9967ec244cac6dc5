//! Certificates of our own issuers, as OpenSSL and Java read them when they are strict.

use openssl::{pkey::PKey, rsa::Rsa};
use reconciled_certificates::{
    key, sign,
    wish::{Issue, KeyKind, Output, Renew, Wish},
    x509,
};
use reconciled_provider::Secret;
use std::{
    fs,
    path::Path,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

const KINDS: [KeyKind; 4] = [KeyKind::Ecdsa(256), KeyKind::Ecdsa(384), KeyKind::Ed25519, KeyKind::Rsa(2_048)];

fn wish(common_name: Option<&str>, is_ca: bool) -> Wish {
    let usual = ["digital signature", "key encipherment", "server auth"].map(String::from);
    Wish {
        issuer: Issue::SelfSigned,
        others: Vec::new(),
        issuer_names: Vec::new(),
        names: if is_ca { [].into() } else { ["a.example", "*.b.example"].map(String::from).into() },
        addresses: if is_ca {
            [].into()
        } else {
            ["192.0.2.1", "2001:db8::1"].map(|ip| ip.parse().unwrap()).into()
        },
        common_name: common_name.map(String::from),
        key: KeyKind::Ecdsa(256),
        keep_key: false,
        usages: if is_ca { [].into() } else { usual.into() },
        is_ca,
        duration: 86_400,
        renew: Renew::Usual,
        output: Output::default(),
        reload: [].into(),
        escalate: false,
        serve: [].into(),
    }
}

async fn make(kind: KeyKind) -> Secret {
    match kind {
        // The way a daemon makes it takes half a minute without optimization.
        KeyKind::Rsa(bits) => {
            let key = PKey::from_rsa(Rsa::generate(bits).unwrap()).unwrap();
            Secret::new(key.private_key_to_pem_pkcs8().unwrap())
        }
        kind => key::make(kind).await.unwrap(),
    }
}

pub(crate) fn now() -> u64 {
    // OpenSSL and Java have no other clock than that of the machine.
    #[expect(clippy::disallowed_methods, reason = "what reads the certificate goes by it")]
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// What the real `openssl` says, whatever it thinks of it.
fn openssl(directory: &Path, args: &[&str]) -> (bool, String) {
    let output = Command::new("openssl").args(args).current_dir(directory).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test]
async fn strict_readers_take_what_our_issuers_sign_with_and_without_a_subject() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    let mut for_java = String::new();
    for kind in KINDS {
        let (root, key) = (make(kind).await, make(kind).await);
        let signer = sign::self_signed(&wish(Some("Internal CA"), true), &root, now()).unwrap().chain;
        for common_name in [None, Some("a.example")] {
            let wish = wish(common_name, false);
            let ca = sign::Ca { chain: signer.clone(), key: root.clone() };
            let by_ca = sign::signed(&wish, &key, &ca, now()).unwrap();
            let by_itself = sign::self_signed(&wish, &key, now()).unwrap();
            for (signed, issuer) in [(by_ca, "ca"), (by_itself, "selfSigned")] {
                let what = format!("{kind} by {issuer}, named {common_name:?}");
                write("leaf.pem", &signed.chain);
                write("root.pem", &signed.ca);
                let verify =
                    ["verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", "root.pem", "leaf.pem"];
                let (is_taken, said) = openssl(dir.path(), &verify);
                assert!(is_taken, "{what}: {said}");
                let (_, text) = openssl(dir.path(), &["x509", "-in", "leaf.pem", "-noout", "-text"]);
                let marked = text.contains("Subject Alternative Name: critical");
                assert_eq!(marked, common_name.is_none(), "{what}: {text}");
                let facts = x509::leaf("it", &signed.chain).unwrap();
                assert_eq!((facts.names, facts.addresses), (wish.names.clone(), wish.addresses.clone()));
                // What signs itself and has no subject has no issuer either, which Java refuses anyway.
                if !facts.issuer.is_empty() {
                    for_java.push_str(&signed.chain);
                }
            }
        }
    }
    // Java comes with few machines.
    write("java.pem", &for_java);
    let mut java = Command::new("keytool");
    if let Ok(output) = java.args(["-printcert", "-file", "java.pem"]).current_dir(dir.path()).output() {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[tokio::test]
async fn a_request_marks_names_as_the_certificate_shall() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for kind in KINDS {
        let key = make(kind).await;
        for common_name in [None, Some("a.example")] {
            let request = sign::request(&wish(common_name, false), &key).unwrap();
            fs::write(dir.path().join("it.csr"), request).unwrap();
            let args = ["req", "-inform", "DER", "-in", "it.csr", "-noout", "-verify", "-text"];
            let (is_read, text) = openssl(dir.path(), &args);
            assert!(is_read, "{kind}: {text}");
            let names =
                "DNS:*.b.example, DNS:a.example, IP Address:192.0.2.1, IP Address:2001:DB8:0:0:0:0:0:1";
            assert!(text.contains(names), "{kind}: {text}");
            let marked = text.contains("Subject Alternative Name: critical");
            assert_eq!(marked, common_name.is_none(), "{kind}: {text}");
            // What it may be used for is asked for as well, and nothing else.
            for (extension, usages) in [
                ("X509v3 Key Usage: critical", "Digital Signature, Key Encipherment"),
                ("X509v3 Extended Key Usage:", "TLS Web Server Authentication"),
            ] {
                let mut lines = text.lines().map(str::trim).skip_while(|line| *line != extension);
                assert_eq!((lines.next(), lines.next()), (Some(extension), Some(usages)), "{kind}: {text}");
            }
        }
    }
}
