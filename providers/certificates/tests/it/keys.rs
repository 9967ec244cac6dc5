//! Keys, as the real OpenSSL and nginx read them.

use crate::{authority::Authority, world::Desk};
use reconciled_certificates::{
    kept::{Issued, Private},
    key,
    wish::KeyKind,
};
use reconciled_provider::{Outcome, Secret};
use rsa::pkcs8::{PrivateKeyInfo, der::Encode};
use std::{fs, path::Path, process::Command};

fn read(desk: &Desk, name: &str) -> String {
    fs::read_to_string(desk.dir.path().join("out/web").join(name)).unwrap()
}

fn run(directory: &Path, program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Has both read the files of the certificate.
fn check(desk: &Desk) {
    let out = desk.dir.path().join("out/web");
    run(&out, "openssl", &["pkey", "-in", "tls.key", "-noout", "-check"]);
    let config = format!(
        "pid {0}/nginx.pid; error_log stderr; events {{}}\nhttp {{ access_log off; client_body_temp_path {0}/t; \
         proxy_temp_path {0}/t; fastcgi_temp_path {0}/t; uwsgi_temp_path {0}/t; scgi_temp_path {0}/t;\n\
         server {{ listen unix:{0}/one ssl; ssl_certificate {1}/tls.crt; ssl_certificate_key {1}/tls.key; }}\n\
         server {{ listen unix:{0}/two ssl; ssl_certificate {1}/tls-combined.pem; \
         ssl_certificate_key {1}/tls-combined.pem; }}\n}}\n",
        desk.dir.path().display(),
        out.display()
    );
    fs::write(desk.dir.path().join("nginx.conf"), config).unwrap();
    let config = desk.dir.path().join("nginx.conf").display().to_string();
    run(&out, "/usr/sbin/nginx", &["-e", "stderr", "-t", "-c", &config]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_key_is_read_by_others() {
    // RSA takes too long without optimization.
    for kind in [KeyKind::Ecdsa(256), KeyKind::Ecdsa(384), KeyKind::Ed25519] {
        for pkcs1 in [false, true] {
            let authority = Authority::start();
            let mut desk = Desk::new(&authority);
            (desk.wish.key, desk.wish.output.pkcs1, desk.wish.output.combined) = (kind, pkcs1, true);
            assert!(matches!(desk.passes(2).await, Outcome::Done(_)), "{kind}");
            check(&desk);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_the_second_version_is_written_in_the_first_one_and_costs_no_certificate() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    (desk.wish.key, desk.wish.output.combined) = (KeyKind::Ed25519, true);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let (chain, first, both) =
        (read(&desk, "tls.crt"), read(&desk, "tls.key"), read(&desk, "tls-combined.pem"));
    // As it was written before: the public half is beside the private one.
    let public = key::public("it", &Secret::new(first.clone().into())).unwrap();
    let der = pem::parse(&first).unwrap().into_contents();
    let mut info = PrivateKeyInfo::try_from(der.as_slice()).unwrap();
    info.public_key = Some(&public[public.len() - 32..]);
    let lines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    let second = pem::encode_config(&pem::Pem::new("PRIVATE KEY", info.to_der().unwrap()), lines);
    let issued = desk.keep().issued("web").unwrap().unwrap();
    assert_eq!(issued.key.secret().reveal_str().unwrap(), first);
    let key = Private::of(&Secret::new(second.clone().into())).unwrap();
    desk.keep().put_issued("web", &Issued { key, parsed: Default::default(), ..issued }).unwrap();
    for (name, text) in [("tls.key", second.clone()), ("tls-combined.pem", format!("{second}{chain}"))] {
        fs::write(fs::canonicalize(desk.dir.path().join("out/web").join(name)).unwrap(), text).unwrap();
    }
    desk.restart();
    let seen = String::from_utf8(desk.observe().await.unwrap().bytes.to_vec()).unwrap();
    assert!(seen.contains("tls.key is not what was issued"), "{seen}");
    assert!(matches!(desk.pass().await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert_eq!(
        [chain, first, both],
        ["tls.crt", "tls.key", "tls-combined.pem"].map(|name| read(&desk, name))
    );
    assert_eq!(authority.counts(), (1, 1), "one order, one certificate");
    check(&desk);
    // One that stays with its certificates goes on as it is.
    desk.wish.keep_key = true;
    desk.renew().await;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    let still = key::public("it", &Secret::new(read(&desk, "tls.key").into())).unwrap();
    assert_eq!((still, authority.counts().1), (public, 2));
    check(&desk);
}
