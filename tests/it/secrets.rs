//! Canaries: a key and a token that must be found nowhere but where they were put.

use crate::{
    certificates::{SELF, certificate, entry, manifest, read},
    env::{Env, WIDE_GUARD, zone},
    http::Place,
    pdns::Pdns,
    reach::{address, token},
    running::{Daemon, wait_for},
    sink::Sink,
    sops, terraform,
};
use std::{fs, path::Path, sync::LazyLock};

/// A key and a token that occur nowhere else.
const KEY: &str = "canary?key/of=the+server";
const TOKEN: &str = "canary?token/of=the+forge";
/// Of who is told what, of a forge's commit statuses, and of the mail server.
const RECEIVER: &str = "canary?url/of=the+receiver";
const SIGNING: &str = "canary?key/of=the+signature";
const REPORT: &str = "canary?token/of=the+statuses";
const MAIL: &str = "canary?password/of=the+mail";
/// Of manifests, each with the name of its file: what a file of the host holds, what a command of it prints, what sops encrypted.
const OF_MANIFESTS: [(&str, &str); 3] = [
    ("kept", "canary?value/of=the+file"),
    ("printed", "canary?value/of=the+command"),
    ("sealed", "canary?value/of=the+repository"),
];
/// The key of age that opens what sops encrypted.
static AGE: LazyLock<String> = LazyLock::new(|| {
    let made = sops::tool("age-keygen", &[]);
    made.lines().find(|line| line.starts_with("AGE-SECRET-KEY-1")).unwrap().to_owned()
});
/// What passwords begin with that the small provider makes.
const MADE: &str = "canary?made/";

/// A secret and its other spellings: base64 (without padding), hexadecimal, percent-encoded.
fn spellings(secret: &str) -> Vec<String> {
    const TABLE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    // Whole groups of three bytes only, so that what follows does not change the text.
    let whole = secret.as_bytes().chunks_exact(3).flat_map(|group| {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        [18, 12, 6, 0].map(|shift| char::from(TABLE[(bits >> shift) as usize & 63]))
    });
    let hexadecimal = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let encoded = secret.bytes().map(|byte| match byte {
        b'a'..=b'z' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    vec![secret.to_owned(), whole.collect(), hexadecimal, encoded.collect()]
}

#[track_caller]
fn search(place: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    let of_manifests = OF_MANIFESTS.map(|(_, secret)| secret);
    let all =
        [KEY, TOKEN, RECEIVER, SIGNING, REPORT, MAIL, MADE, AGE.as_str()].into_iter().chain(of_manifests);
    for word in all.flat_map(spellings) {
        assert!(!text.contains(&word.to_lowercase()), "{place} holds a secret as {word}");
    }
}

fn search_folder(folder: &Path) -> usize {
    let mut files = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files += search_folder(&path);
        } else {
            search(&path.display().to_string(), &fs::read(&path).unwrap());
            files += 1;
        }
    }
    files
}

/// Runs verbs at the loudest and looks through all they leave behind.
fn run(env: &Env, variables: &[(&str, &str)]) {
    let file = env.path("plan.json");
    for args in [
        &["plan", "-vvv", "-o", "json"][..],
        &["plan", "-vvv", "--out", file.to_str().unwrap()],
        &["apply", "-vvv", "--yes", "--timeout", "2s"],
    ] {
        let output = env.run_with(args, variables);
        assert!(output.stderr.len() > 20, "nothing was said at -vvv: {}", output.all());
        search(&format!("{args:?} stdout"), output.stdout.as_bytes());
        search(&format!("{args:?} stderr"), output.stderr.as_bytes());
    }
    if file.exists() {
        search("the plan file", &fs::read(&file).unwrap());
        fs::remove_file(&file).unwrap();
    }
    if env.path("state").exists() {
        search_folder(&env.path("state"));
    }
}

#[test]
fn the_search_finds_a_secret_in_each_spelling() {
    let sealed = OF_MANIFESTS[2].1;
    for word in [KEY, AGE.as_str(), sealed].into_iter().flat_map(spellings) {
        let found = std::panic::catch_unwind(|| search("here", format!("x{word}x").as_bytes()));
        assert!(found.is_err(), "{word}");
    }
}

#[test]
fn a_key_stays_in_its_file_whatever_the_server_says() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone("example.com", "pdns", &["{name: www, type: A, values: [192.0.2.1]}"]));
    env.apply();
    assert!(search_folder(&env.path("state")) > 1);
    // Refused: the key is wrong. Not there at all: nobody listens on port 1.
    env.write("key", KEY);
    run(&env, &[]);
    env.config(&env.pdns_entry("http://127.0.0.1:1", WIDE_GUARD));
    run(&env, &[]);
    // A key that cannot be sent.
    env.write("key", &format!("{KEY}\u{7}"));
    run(&env, &[]);
}

#[test]
fn a_key_in_the_environment_stays_there() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone("example.com", "pdns", &["{name: www, type: A, values: [192.0.2.1]}"]));
    env.config(&format!(
        "  - {{name: pdns, type: powerdns, url: \"{}\", apiKey: {{env: PDNS_KEY}}}}",
        server.url
    ));
    run(&env, &[("PDNS_KEY", KEY)]);
}

#[test]
fn a_token_of_a_service_stays_where_it_is_whatever_the_service_says() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone("example.com", "cf", &["{name: www, type: A, values: [192.0.2.1]}"]));
    let sink = Sink::start();
    for (url, status) in [(&*sink.url, 403), (&*sink.url, 200), (&*sink.url, 429), ("http://127.0.0.1:1", 0)]
    {
        sink.answers(status);
        env.config(&format!("  - {{name: cf, type: cloudflare, url: \"{url}\", token: {{env: CF_TOKEN}}}}"));
        run(&env, &[("CF_TOKEN", TOKEN)]);
    }
    let bearer = format!("Bearer {TOKEN}");
    assert!(sink.requests().iter().any(|request| request.header("authorization") == bearer), "it was sent");
}

#[test]
fn a_password_in_an_address_is_not_repeated() {
    let env = Env::zonefile();
    let encoded = &spellings(TOKEN)[3];
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let repository = env.path("repo.git");
    for url in
        [format!("https://user:{encoded}@127.0.0.1:1/repo.git"), format!("ftp://user:{encoded}@127.0.0.1/x")]
    {
        env.write("config.yaml", &config.replace(repository.to_str().unwrap(), &format!("\"{url}\"")));
        run(&env, &[]);
    }
    env.config(&format!(
        "  - {{name: pdns, type: powerdns, url: \"http://user:{encoded}@127.0.0.1:1\", apiKey: {{env: K}}}}"
    ));
    run(&env, &[("K", KEY)]);
}

#[test]
fn a_running_daemon_tells_no_secret_whomever_it_answers() {
    let (server, collector, told) = (Sink::start(), Sink::start(), Sink::start());
    server.answers(403);
    let env = Env::trusted();
    fs::create_dir(env.path("ssl")).unwrap();
    env.write("key", KEY);
    env.write("hook", TOKEN);
    // What refuses makes the daemon say why.
    told.answers(403);
    env.write("receiver", &format!("{}/{RECEIVER}", told.url));
    env.write("signing", SIGNING);
    env.write("report", REPORT);
    env.write("mail", MAIL);
    let (token, line) = token(&env, "ci", "read");
    let search = |place: &str, bytes: &[u8]| {
        search(place, bytes);
        assert!(!String::from_utf8_lossy(bytes).contains(&token), "{place} holds the token of the API");
        let text = String::from_utf8_lossy(bytes).to_lowercase();
        for word in ["ca", "web"].iter().flat_map(|name| key_lines(&env, name)) {
            assert!(!text.contains(&word.to_lowercase()), "{place} holds a key as {word}");
        }
    };
    let at = |name: &str| format!("{{file: {}}}", env.path(name).display());
    let notify = format!(
        "notify:\n  - {{name: chat, type: slack, url: {}, for: 1s}}\n  - {{name: own, type: webhook, url: \"{}/own\", secret: {}, for: 1s}}\n  - {{name: mail, type: email, server: \"localhost:9\", from: it@dns1.example, to: [ops@example.com], username: it, password: {}, for: 1s}}",
        at("receiver"),
        told.url,
        at("signing"),
        at("mail")
    );
    let (host, places) = secrets_of_manifests(&env);
    let more = format!(
        "\napi: {{listen: \"127.0.0.1:0\"}}\ntokens: [{line}]\n{notify}\ntelemetry: {{otlp: \"{}\"}}\n{places}",
        collector.url
    );
    let hook = format!(
        ", webhook: {{type: github, secret: {}}}, report: {{github: acme/infra, url: \"{}\", token: {}}}",
        at("hook"),
        told.url,
        at("report")
    );
    let entries =
        format!("{}\n{host}\n{}{more}", env.pdns_entry(&server.url, WIDE_GUARD), entry(&env, "true"));
    env.config_with("it", &entries, &hook);
    fs::remove_dir_all(env.path("repo.git")).unwrap();
    env.run(&["init", "repo.git"]).exits(0);
    env.push("zone.yaml", &zone("example.com", "pdns", &["{name: www, type: A, values: [192.0.2.1]}"]));
    let issuers = manifest("Issuer", "own", SELF) + &manifest("Issuer", "ca", "ca: {certificate: ca}");
    let ca = certificate(&env, "ca", "issuerRef: {name: own}, isCA: true, commonName: Lab");
    let web = certificate(&env, "web", "issuerRef: {name: ca}, dnsNames: [example.com]");
    env.push("certificates.yaml", &(issuers + &ca + &web));
    push_files_with_secrets(&env);
    let daemon = Daemon::start(&env);
    wait_for("there is a certificate", || key_lines(&env, "web").len() > 4);
    wait_for("secrets of manifests are in their files", || have_secrets(&env));
    env.write("machine/etc/kept", "by hand");
    let synced = env.run(&["sync", "--wait", "--timeout", "20s", "--json"]);
    assert_ne!(synced.code, Some(0), "{}", synced.all());
    search("sync", synced.all().as_bytes());
    let socket = Place::Socket(env.path("state/api.sock"));
    let is_told = |path: &str, word: &str| socket.ask("GET", path, &[], b"").text().contains(word);
    wait_for("a file is healed and told of", || {
        have_secrets(&env) && is_told("/v1/drift", "File/kept") && is_told("/v1/events", "File/sealed")
    });
    let asked = [
        "/metrics",
        "/readyz",
        "/v1/instance",
        "/v1/sources",
        "/v1/status",
        "/v1/history",
        "/v1/events",
        "/v1/approvals",
        "/v1/drift",
        "/v1/explain?address=Zone/example.com",
        "/v1/explain?address=Certificate/web",
        "/v1/explain?address=File/kept",
        "/v1/explain?address=File/printed",
        "/v1/explain?address=File/sealed",
    ];
    for path in asked {
        let answer = socket.ask("GET", path, &[], b"");
        assert!(matches!(answer.status, 200 | 503), "{path}: {answer:?}");
        let refused = "reconciled_provider_requests_total{code=\"403\",provider=\"pdns\"}";
        assert!(path != "/metrics" || answer.text().contains(refused), "{answer:?}");
        search(path, &answer.body);
    }
    // The address to give to a forge is made from its secret, and is none.
    let checked = env.run(&["check"]);
    let place = checked.stdout.find("/hooks/").unwrap_or_else(|| panic!("{}", checked.all()));
    let path = checked.stdout[place..].split_whitespace().next().unwrap();
    let listening = address(&daemon);
    let forge = |path: &str, signature: &str| {
        listening.ask("POST", path, &[("x-hub-signature-256", signature)], b"{}")
    };
    let wrong = format!("sha256={}", "0".repeat(64));
    for (what, answer, status) in [
        ("a forged webhook", forge(path, &wrong), 404),
        ("a guessed path", forge("/hooks/infra/guessed", &wrong), 404),
        (
            "a wrong token",
            listening.ask("GET", "/v1/status", &[("authorization", "Bearer rcd_wrong")], b""),
            401,
        ),
        (
            "a token",
            listening.ask("GET", "/v1/status", &[("authorization", &format!("Bearer {token}"))], b""),
            200,
        ),
    ] {
        assert_eq!(answer.status, status, "{what}: {answer:?}");
        search(what, answer.head.as_bytes());
        search(what, &answer.body);
    }
    wait_for("both receivers and the forge were told", || {
        [format!("/{RECEIVER}"), "/own".into()].iter().all(|path| !told.at(path).is_empty())
            && told
                .requests()
                .iter()
                .any(|request| request.header("authorization") == format!("Bearer {REPORT}"))
    });
    wait_for("the mail server was tried", || daemon.log().contains("mail"));
    let config = env.path("config.yaml");
    for args in [
        &["status"][..],
        &["status", "Certificate/web", "-o", "json"],
        &["status", "File/sealed", "-o", "json"],
        &["history"],
        &["plan", "-vvv"],
        &["plan", "-o", "json"],
        &["check"],
    ] {
        let output = env.run(&[&["--config", config.to_str().unwrap()], args].concat());
        search(&format!("{args:?}"), output.all().as_bytes());
    }
    env.write(
        "work/zone.yaml",
        &zone("example.com", "pdns", &["{name: mail, type: A, values: [192.0.2.2]}"]),
    );
    env.git(&["commit", "-qam", "mail"]);
    let mut push = std::process::Command::new("git");
    push.args(["push", "-o", "reconciled.wait=5s", "origin", "HEAD:main"])
        .current_dir(env.path("work"))
        .env("HOME", env.dir.path())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    let pushed = env.finish(push).says(&["remote:"]);
    search("a push", pushed.all().as_bytes());
    wait_for("a span of each file", || {
        let sent: Vec<_> = collector.requests().into_iter().map(|request| request.body).collect();
        OF_MANIFESTS.iter().all(|(name, _)| {
            let file = format!("File/{name}");
            sent.iter().any(|body| body.windows(file.len()).any(|part| part == file.as_bytes()))
        })
    });
    daemon.stop();
    collector.requests().iter().for_each(|request| search("a span", &request.body));
    search("the log", &fs::read(env.path("daemon.log")).unwrap());
    search_folder(&env.path("state"));
    // What is made is kept in a directory of its own, and nowhere else.
    let files = fs::read_dir(env.path("state")).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.is_file()).collect();
    assert!(files.iter().any(|path| path.extension().is_some_and(|end| end == "db")), "{files:?}");
    files.iter().for_each(|path| search(&path.display().to_string(), &fs::read(path).unwrap()));
    let kept = read(&env, "state/certificates/cert/certificates/web/issued.json");
    assert!(key_lines(&env, "web").iter().any(|line| kept.contains(line)), "so they can be found");
    assert!(server.requests().iter().any(|request| request.header("x-api-key") == KEY), "it was sent");
}

/// Puts what manifests name where the host has it, and returns the entry and the lines of the configuration that say so.
fn secrets_of_manifests(env: &Env) -> (String, String) {
    let [(_, kept), (_, printed), _] = OF_MANIFESTS;
    fs::create_dir_all(env.path("machine/etc")).unwrap();
    env.write("kept", kept);
    env.write("store", printed);
    env.write("age.key", &AGE);
    let [machine, kept, store, key] =
        ["machine", "kept", "store", "age.key"].map(|name| env.path(name).display().to_string());
    (
        format!("  - {{name: host, type: host, root: {machine}, paths: [/etc], {WIDE_GUARD}}}"),
        format!(
            "secrets: {{kept: {{file: {kept}}}, printed: {{exec: [cat, {store}]}}}}\nsops: {{age: {{file: {key}}}}}"
        ),
    )
}

/// Has each of these secrets be the content of a file of its name.
fn push_files_with_secrets(env: &Env) {
    let [_, _, (_, sealed)] = OF_MANIFESTS;
    let recipient = sops::tool("age-keygen", &["-y", env.path("age.key").to_str().unwrap()]);
    sops::encrypt(env, recipient.trim(), "secrets.yaml", &format!("database: {{password: \"{sealed}\"}}\n"));
    let contents = ["{secret: kept}", "{secret: printed}", "{sops: secrets.yaml, key: database.password}"];
    let files = OF_MANIFESTS
        .iter()
        .zip(contents)
        .map(|((name, _), content)| file(name, &format!("mode: \"0600\", content: {content}")));
    env.push("files.yaml", &files.collect::<String>());
}

/// True while each of these files has its secret.
fn have_secrets(env: &Env) -> bool {
    OF_MANIFESTS.iter().all(|(name, secret)| read(env, &format!("machine/etc/{name}")) == *secret)
}

/// What the key of a certificate may be written as: its lines that have no other half of it, in each spelling.
fn key_lines(env: &Env, name: &str) -> Vec<String> {
    let text = read(env, &format!("ssl/{name}/tls.key"));
    // The last line is of the public key.
    text.lines().filter(|line| line.len() == 64).take(2).flat_map(spellings).collect()
}

/// A desk with the small provider, which makes passwords, and with files and zones.
fn makes_passwords() -> Env {
    let env = terraform::desk("");
    fs::create_dir_all(env.path("machine/etc")).unwrap();
    fs::create_dir_all(env.path("zones")).unwrap();
    let (toy, machine, zones) = (terraform::entry(&env, ""), env.path("machine"), env.path("zones"));
    env.config(&format!(
        "{toy}\n  - {{name: host, type: host, root: {}, paths: [/etc], {WIDE_GUARD}}}\n  - {{name: zones, type: zonefile, directory: {}}}",
        machine.display(),
        zones.display()
    ));
    env
}

fn password(input: &str) -> String {
    format!("apiVersion: toy/v1\nkind: Trivial\nmetadata: {{name: pw}}\nspec: {{input: {input}}}\n---\n")
}

fn file(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: local/v1\nkind: File\nmetadata: {{name: {name}}}\nspec: {{path: /etc/{name}, {spec}}}\n---\n"
    )
}

const REFERENCE: &str = "\"${Trivial.toy/pw:status.password}\"";

#[test]
fn a_password_that_a_provider_made_reaches_its_targets_and_nothing_else() {
    let env = makes_passwords();
    let alone = format!("mode: \"0600\", content: {{secret: {REFERENCE}}}");
    let template = "mode: \"0600\", template: true, content: \"user=web password={{ ref('Trivial.toy/pw:status.password') }}\"";
    let thing = terraform::thing("b", "", &format!("name: b, secret: {REFERENCE}"));
    env.write(
        "work/targets.yaml",
        &format!("{}{}{thing}", file("alone", &alone), file("template", template)),
    );
    env.push("pw.yaml", &password("generate 1"));
    let planned = env.run(&["plan"]).exits(0).says(&["waiting: for an output of Trivial/pw"]);
    search("the first plan", planned.all().as_bytes());
    run(&env, &[]);
    let at_targets = |number: u8| {
        let made = format!("{MADE}{number}");
        let read = |name: &str| fs::read_to_string(env.path("machine/etc").join(name)).unwrap_or_default();
        read("alone") == made
            && read("template") == format!("user=web password={made}")
            && terraform::state(&env, "thing-1.json")["secret"] == made
    };
    assert!(at_targets(1), "{}", env.run(&["plan"]).all());
    env.in_sync();
    // Another process, which has opened nothing yet, heals a target from what is sealed.
    fs::write(env.path("machine/etc/alone"), "by hand").unwrap();
    let healed = env.run(&["plan"]).says(&["~ File/alone"]);
    search("a plan that heals", healed.all().as_bytes());
    env.apply();
    assert!(at_targets(1));

    let daemon = Daemon::ready(&env);
    env.push("pw.yaml", &password("generate 2"));
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    wait_for("the new password at its targets", || at_targets(2));
    let socket = Place::Socket(env.path("state/api.sock"));
    for path in ["/metrics", "/v1/status", "/v1/history", "/v1/events", "/v1/explain?address=Trivial/pw"] {
        let answer = socket.ask("GET", path, &[], b"");
        search(path, &answer.body);
    }
    for args in [&["status", "-o", "json"][..], &["history"], &["plan", "-vvv", "-o", "json"]] {
        search(&format!("{args:?}"), env.run(args).all().as_bytes());
    }
    env.run(&["history"]).says(&["input"]);
    daemon.stop();
    search("the log", &fs::read(env.path("daemon.log")).unwrap());
    search_folder(&env.path("state"));
    env.in_sync();
}

#[test]
fn a_copy_of_what_a_provider_calls_sensitive_is_shown_nowhere() {
    let env = makes_passwords();
    let thing = |annotations: &str| terraform::thing("a", annotations, "name: a, content: x");
    let url = format!("db://u:{MADE}1@h");
    let by_hand = |fields: &[(&str, serde_json::Value)]| {
        let mut thing = terraform::state(&env, "thing-1.json");
        fields.iter().for_each(|(name, value)| thing[*name] = value.clone());
        thing["secret"] = format!("{MADE}1").into();
        thing["tags"] = serde_json::json!({ "url": url });
        fs::write(env.path("world/thing-1.json"), thing.to_string()).unwrap();
    };
    env.push("a.yaml", &thing(""));
    env.apply();
    by_hand(&[("content", url.as_str().into())]);
    let planned = env.run(&["plan", "--refresh"]).exits(0).says(&["tags: (sensitive) → (none)"]);
    search("the plan", planned.all().as_bytes());
    for args in
        [&["explain", "Thing/a"][..], &["explain", "Thing/a", "-o", "json"], &["status", "-o", "json"]]
    {
        search(&format!("{args:?}"), env.run(args).all().as_bytes());
    }
    // What is said of it while it is healed.
    run(&env, &[]);
    search("the history", env.run(&["history"]).says(&["drift", "content"]).all().as_bytes());
    // What refers to it has a secret.
    env.push("a.yaml", &thing("reconciled/ignore: \"secret,tags\""));
    by_hand(&[]);
    env.apply();
    let refers = "name: b, content: \"${Thing.toy/a:status.tags.url}\"";
    env.push("b.yaml", &terraform::thing("b", "", refers));
    let planned = env.run(&["plan"]).exits(0).says(&["content: (none) → (sensitive)"]);
    search("the second plan", planned.all().as_bytes());
    run(&env, &[]);
    assert_eq!(terraform::state(&env, "thing-2.json")["content"], url);
}

#[test]
fn where_no_secret_can_stand_none_is_put() {
    let env = makes_passwords();
    env.push("pw.yaml", &password("generate 1"));
    env.apply();
    let check = |manifest: &str, words: &[&str]| {
        env.push("wrong.yaml", manifest);
        let said = env.run(&["plan"]).exits(1).says(words).says(&["wrong.yaml:"]);
        search(manifest, said.all().as_bytes());
    };
    let nowhere = "`password` of Trivial/pw is a secret, and no secret can stand here";
    let values = format!("{{name: x, type: TXT, values: [{REFERENCE}]}}");
    check(
        &zone("example.com", "zones", &[&values]),
        &[nowhere, "the `content` of a File that not everybody may read"],
    );
    check(&terraform::thing("c", "", &format!("name: c, tags: {REFERENCE}")), &[nowhere]);
    check(&terraform::thing("c", "", &format!("name: c, delay_ms: [{REFERENCE}]")), &["wrong.yaml:4:"]);
    let longer = REFERENCE.replacen('"', "\"x-", 1);
    check(
        &terraform::thing("c", "", &format!("name: c, secret: {longer}")),
        &["it cannot be a part of a longer text", "template: true"],
    );
    let content = format!("mode: \"0644\", content: {{secret: {REFERENCE}}}");
    check(&file("open", &content), &["everybody may read this file", "write mode: \"0600\""]);
    check(
        &file("open", "template: true, content: \"{{ ref('Trivial.toy/pw:status.password') | int }}\""),
        &["line 1 of the template", "no more is said, since a secret is in it"],
    );
    check(
        &file("open", "mode: \"0600\", content: {secret: \"${Trivial.toy/pw:spec.input}\"}"),
        &["stands in Git in clear, so it is no secret"],
    );
    // Its name alone opens it to nobody.
    check(
        &file("open", "mode: \"0600\", content: {secret: \"output:00000000000000000000000000000000\"}"),
        &["is not one that a manifest may name"],
    );
}
