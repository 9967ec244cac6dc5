//! What other clients had is taken over as their pages say: nothing is issued for the move.

use crate::{
    acme::{desk, is_good},
    certificates::{certificate, fingerprint, manifest},
    env::{Env, zone},
    pdns::Pdns,
    pebble::Pebble,
};
use std::{fs, path::Path, process::Command};

const NAME: &str = "www.example.com";

/// A client of Debian, which has a certificate of Pebble for [`NAME`] in the folder `theirs`.
struct Client {
    /// Its page.
    page: &'static str,
    program: &'static str,
    /// What it is told; `URL` is the authority, and `PORT` where that asks.
    arguments: &'static str,
    /// The variable that says which certificates it believes.
    trusts: &'static str,
    /// Where its page says that its files are.
    files: &'static str,
}

const CLIENTS: [Client; 2] = [
    Client {
        page: "migrate-lego.md",
        program: "lego",
        arguments: "--accept-tos --email a@example.com --server URL --path theirs --http --http.port 127.0.0.1:PORT \
                    -d www.example.com run",
        trusts: "LEGO_CA_CERTIFICATES",
        files: ".lego",
    },
    Client {
        page: "migrate-certbot.md",
        program: "certbot",
        arguments: "certonly --standalone --http-01-port PORT --http-01-address 127.0.0.1 --server URL --config-dir theirs \
                    --work-dir work --logs-dir logs -n --agree-tos -m a@example.com -d www.example.com",
        trusts: "REQUESTS_CA_BUNDLE",
        files: "/etc/letsencrypt",
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
    for Client { page, program, arguments, trusts, files } in CLIENTS {
        let pdns = Pdns::start();
        let pebble = Pebble::start(pdns.port, "", &[]);
        let env = desk(&pdns, &pebble, "");
        env.push("zone.yaml", &zone("example.com", "pdns", &["{name: www, type: A, values: [127.0.0.1]}"]));
        env.apply();
        let arguments = arguments.replace("URL", &pebble.url()).replace("PORT", &pebble.http.to_string());
        run(&env, Command::new(program).args(arguments.split_whitespace()).env(trusts, pebble.bundle()));
        assert_eq!(pebble.issued(), (1, 1), "{program}");

        let ours = env.path("ssl/web").display().to_string();
        let script = commands(page).replace("/etc/ssl/web", &ours).replace(files, "theirs");
        run(&env, Command::new("sh").args(["-ec", &script.replace("example.com", NAME)]));
        let first = fingerprint(&env, "web");
        let issuer = manifest("Issuer", "le", &format!("{}, solvers: [{{http01: {{}}}}]}}", pebble.acme()));
        let web = certificate(&env, "web", &format!("issuerRef: {{name: le}}, dnsNames: [{NAME}]"));
        env.push("all.yaml", &format!("{issuer}{web}"));
        env.run(&["plan"]).exits(0).says(&["= Certificate/web"]);
        env.apply();
        // It is kept by one pass more.
        env.apply();
        env.in_sync();
        assert_eq!((fingerprint(&env, "web"), pebble.issued()), (first.clone(), (1, 1)), "{program}");
        env.run(&["renew", "Certificate/web"]).exits(0);
        env.apply();
        is_good(&env, &pebble, "web");
        assert_ne!(fingerprint(&env, "web"), first, "{program}");
        env.in_sync();
    }
}
