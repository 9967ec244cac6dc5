//! What other clients had is taken over as their pages say: nothing is issued for the move.

use crate::{
    acme::{desk, is_good},
    certificates::{certificate, fingerprint, is_pair, manifest, read},
    env::{Env, zone},
    pdns::Pdns,
    pebble::Pebble,
};
use std::{fs, path::Path, process::Command};

const NAME: &str = "www.example.com";

/// A client, which has a certificate of Pebble for [`NAME`] in the folder `theirs`.
struct Client {
    /// Its page.
    page: &'static str,
    /// A program of Debian.
    program: &'static str,
    /// What it is told; `URL` is the authority, and `PORT` where that asks.
    arguments: &'static str,
    /// The variable that says which certificates it believes.
    trusts: &'static str,
    /// Has the files lie as the client of the page has them, where that is no program of Debian.
    lays_out: &'static str,
    /// What the page says of its files, and what that is here.
    files: &'static [(&'static str, &'static str)],
    /// The kind of its key.
    key: &'static str,
}

/// How `acme.sh` leaves what it issued in the folder `$1`: its keys come from `openssl ecparam -genkey` and `openssl genrsa
/// -traditional`.
const ACME_SH: &str = "\
    mkdir -p theirs/$1
    cd theirs/certificates
    cp www.example.com.crt ../$1/fullchain.cer
    cp www.example.com.issuer.crt ../$1/ca.cer
    openssl x509 -in www.example.com.crt -out ../$1/www.example.com.cer
    openssl pkey -traditional -in www.example.com.key -out ../$1/www.example.com.key
    grep -q \"BEGIN $2 PRIVATE KEY\" ../$1/www.example.com.key
    printf \"Le_Domain='www.example.com'\\nLe_Keylength='%s'\\n\" \"$3\" > ../$1/www.example.com.conf
    cd ..
    rm -r certificates
";

const ECDSA: &str = "algorithm: ECDSA";

const CLIENTS: [Client; 4] = [
    Client {
        page: "migrate-lego.md",
        program: "lego",
        arguments: "--accept-tos --email a@example.com --server URL --path theirs --http --http.port 127.0.0.1:PORT \
                    -d www.example.com run",
        trusts: "LEGO_CA_CERTIFICATES",
        lays_out: "",
        files: &[(".lego", "theirs")],
        key: ECDSA,
    },
    Client {
        page: "migrate-acme-sh.md",
        program: "lego",
        arguments: "--accept-tos --email a@example.com --server URL --path theirs --http --http.port 127.0.0.1:PORT \
                    -d www.example.com run",
        trusts: "LEGO_CA_CERTIFICATES",
        lays_out: "set -- www.example.com_ecc EC ec-256",
        files: &[("~/.acme.sh", "theirs")],
        key: ECDSA,
    },
    Client {
        page: "migrate-acme-sh.md",
        program: "lego",
        arguments: "--accept-tos --email a@example.com --server URL --path theirs --http --http.port 127.0.0.1:PORT \
                    --key-type rsa2048 -d www.example.com run",
        trusts: "LEGO_CA_CERTIFICATES",
        lays_out: "set -- www.example.com RSA 2048",
        files: &[("~/.acme.sh/example.com_ecc", "theirs/example.com")],
        key: "algorithm: RSA, size: 2048",
    },
    Client {
        page: "migrate-certbot.md",
        program: "certbot",
        arguments: "certonly --standalone --http-01-port PORT --http-01-address 127.0.0.1 --server URL --config-dir theirs \
                    --work-dir work --logs-dir logs -n --agree-tos -m a@example.com -d www.example.com",
        trusts: "REQUESTS_CA_BUNDLE",
        lays_out: "",
        files: &[("/etc/letsencrypt", "theirs")],
        key: ECDSA,
    },
];

/// Runs a program in the folder of the desk.
#[track_caller]
fn run(env: &Env, command: &mut Command) {
    let output = command.current_dir(env.dir.path()).output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", said(&output.stdout), said(&output.stderr));
}

/// The commands of a page.
fn commands(page: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page);
    let text = fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once("```sh\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn what_another_client_had_is_taken_over_as_its_page_says_and_renewed_here() {
    for Client { page, program, arguments, trusts, lays_out, files, key } in CLIENTS {
        let pdns = Pdns::start();
        let pebble = Pebble::start(pdns.port, "", &[]);
        let env = desk(&pdns, &pebble, "");
        env.push("zone.yaml", &zone("example.com", "pdns", &["{name: www, type: A, values: [127.0.0.1]}"]));
        env.apply();
        let arguments = arguments.replace("URL", &pebble.url()).replace("PORT", &pebble.http.to_string());
        run(&env, Command::new(program).args(arguments.split_whitespace()).env(trusts, pebble.bundle()));
        assert_eq!(pebble.issued(), (1, 1), "{page}");
        if !lays_out.is_empty() {
            run(&env, Command::new("sh").args(["-ec", &format!("{lays_out}\n{ACME_SH}")]));
        }

        let ours = env.path("ssl/web").display().to_string();
        let script = commands(page).replace("/etc/ssl/web", &ours);
        let script = files.iter().fold(script, |script, (theirs, here)| script.replace(theirs, here));
        run(&env, Command::new("sh").args(["-ec", &script.replace("example.com", NAME)]));
        let first = fingerprint(&env, "web");
        let issuer = manifest("Issuer", "le", &format!("{}, solvers: [{{http01: {{}}}}]}}", pebble.acme()));
        let web = certificate(
            &env,
            "web",
            &format!("issuerRef: {{name: le}}, dnsNames: [{NAME}], privateKey: {{{key}}}"),
        );
        env.push("all.yaml", &format!("{issuer}{web}"));
        env.run(&["plan"]).exits(0).says(&["= Certificate/web"]);
        env.apply();
        // It is kept by one pass more.
        env.apply();
        env.in_sync();
        assert_eq!((fingerprint(&env, "web"), pebble.issued()), (first.clone(), (1, 1)), "{page}");
        env.run(&["renew", "Certificate/web"]).exits(0);
        env.apply();
        is_good(&env, &pebble, "web");
        assert_ne!(fingerprint(&env, "web"), first, "{page}");
        env.in_sync();
    }
}

/// Prints what a template asks of the Secret `web`, whose key is as cert-manager writes it.
const KUBECTL: &str = "\
    kubectl() {
        test \"$1 $2 $3 $4\" = 'get secret web -o'
        case $5 in
            'go-template={{index .data \"tls.crt\" | base64decode}}') cat theirs/certificates/www.example.com.crt ;;
            'go-template={{index .data \"tls.key\" | base64decode}}') cat theirs/pkcs1.key ;;
            *) exit 1 ;;
        esac
    }
    openssl pkey -traditional -in theirs/certificates/www.example.com.key -out theirs/pkcs1.key
";

#[test]
fn what_cert_manager_had_is_taken_over_by_its_own_manifests_as_the_page_says() {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let env = desk(&pdns, &pebble, "");
    env.push("zone.yaml", &zone("example.com", "pdns", &["{name: www, type: A, values: [127.0.0.1]}"]));
    env.apply();
    let [_, _, Client { program, arguments, trusts, .. }, _] = CLIENTS;
    let arguments = arguments.replace("URL", &pebble.url()).replace("PORT", &pebble.http.to_string());
    run(&env, Command::new(program).args(arguments.split_whitespace()).env(trusts, pebble.bundle()));
    let ssl = env.path("ssl").display().to_string();
    let paths = format!("paths: [{ssl}],");
    let config = read(&env, "config.yaml");
    assert!(config.contains(&paths));
    env.write("config.yaml", &config.replace(&paths, &format!("{paths} directory: {ssl},")));
    let script = commands("migrate-cert-manager.md").replace("/etc/ssl", &ssl);
    run(&env, Command::new("sh").args(["-ec", &format!("{KUBECTL}{script}")]));
    let (first, key) = (fingerprint(&env, "web"), read(&env, "ssl/web/tls.key"));
    assert!(key.starts_with("-----BEGIN RSA PRIVATE KEY-----"));

    let issuer = format!(
        "apiVersion: cert-manager.io/v1\nkind: ClusterIssuer\nmetadata: {{name: letsencrypt}}\nspec: {{{}, \
         privateKeySecretRef: {{name: letsencrypt}}, solvers: [{{http01: {{ingress: {{ingressClassName: nginx}}}}}}]}}}}\n---\n",
        pebble.acme()
    );
    let all = |encoding: &str| {
        format!(
            "{issuer}apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {{name: web}}\nspec: {{secretName: web, \
             dnsNames: [{NAME}], privateKey: {{algorithm: RSA{encoding}}}, issuerRef: {{name: letsencrypt, kind: \
             ClusterIssuer}}}}\n"
        )
    };
    // The same key in another form is as declared too.
    env.push("all.yaml", &all(""));
    env.run(&["plan"]).exits(0).says(&["= Certificate/web"]);
    env.push("all.yaml", &all(", encoding: PKCS1"));
    env.run(&["plan"]).exits(0).says(&["= Certificate/web", "`http01.ingress` has no effect"]);
    env.apply();
    // It is kept by one pass more.
    env.apply();
    env.in_sync();
    assert_eq!((fingerprint(&env, "web"), read(&env, "ssl/web/tls.key")), (first.clone(), key));
    // Where the encoding was left out, the same key is written in the other one.
    env.push("all.yaml", &all(""));
    env.run(&["plan"]).exits(0).says(&["~ Certificate/web"]);
    env.apply();
    env.in_sync();
    assert!(read(&env, "ssl/web/tls.key").starts_with("-----BEGIN PRIVATE KEY-----"));
    is_pair(&env, "web");
    assert_eq!((fingerprint(&env, "web"), pebble.issued()), (first.clone(), (1, 1)));
    env.run(&["renew", "Certificate/web"]).exits(0);
    env.apply();
    is_good(&env, &pebble, "web");
    assert_ne!(fingerprint(&env, "web"), first);
    env.in_sync();
}
