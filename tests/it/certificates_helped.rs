//! Certificates where a helper has the rights: the daemon and the helper are killed, and no pair on the disk is torn.

use crate::{
    acme::{self, is_good},
    acme_web::Nginx,
    certificates::{
        SELF, certificate, damages_are_put_right, desk, fingerprint, is_pair, make_regular, manifest,
        openssl, read,
    },
    env::{Env, WIDE_GUARD, is_root, zone},
    helper::{Death, Helper},
    machine::Machine,
    pdns::Pdns,
    pebble::{Pebble, free_port},
    running::wait_for,
};
use reconciled::failpoint::{CERTIFICATES, VARIABLE};
use std::{
    fs,
    net::TcpStream,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    thread,
};

const SIGKILL: i32 = 9;
const OWN: &str = "issuerRef: {name: own}, dnsNames: [example.com], reload: [a.service]";

/// What is killed, and over what.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    First,
    Renewal,
    /// What somebody else wrote is replaced.
    Regular,
}

/// Where both are there they belong together.
#[track_caller]
fn is_no_torn_pair(env: &Env, name: &str) {
    let is_there = |file: &&str| env.path(&format!("ssl/{name}/{file}")).exists();
    if ["tls.crt", "tls.key"].iter().all(is_there) {
        is_pair(env, name);
    }
}

/// A desk with a certificate `name` to be worked on.
fn begin(env: &Env, work: Work, name: &str) {
    env.write("work/issuer.yaml", &manifest("Issuer", "own", SELF));
    env.push(&format!("{name}.yaml"), &certificate(env, name, OWN));
    if work != Work::First {
        env.apply();
        env.run(&["renew", &format!("Certificate/{name}")]).exits(0);
    }
    if work == Work::Regular {
        make_regular(env, name);
    }
}

/// All is as declared, and nothing of what was begun is left.
fn is_well(env: &Env, name: &str, label: &str) {
    let again = env.run(&["apply", "--yes"]);
    assert_eq!(again.code, Some(0), "{label}: {}", again.all());
    is_pair(env, name);
    env.in_sync();
    let names = fs::read_dir(env.path(&format!("ssl/{name}"))).unwrap().flatten();
    let mut names: Vec<_> = names.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names.retain(|name| !name.starts_with("..") || ["..data", "..certificate"].contains(&&**name));
    assert_eq!(names, ["..certificate", "..data", "ca.crt", "tls.crt", "tls.key"], "{label}");
}

/// Has each of them live in a thread of its own: they know nothing of each other, and wait most of the time.
fn all_at_once<T: Send>(all: impl IntoIterator<Item = T>, live: impl Fn(T) + Sync) {
    let live = &live;
    thread::scope(|scope| {
        for one in all {
            scope.spawn(move || live(one));
        }
    });
}

#[test]
fn a_helper_that_is_killed_around_any_change_tears_no_pair() {
    if !is_root() {
        return;
    }
    let lives = [
        (Work::First, Death::Done),
        (Work::Renewal, Death::Asked),
        (Work::Regular, Death::Asked),
        (Work::Regular, Death::Done),
    ];
    let live = |(work, death): (Work, Death)| {
        let env = desk();
        let helper = Helper::of(&env);
        for number in 1.. {
            let (name, label) = (format!("web{number}"), format!("{work:?}, {death:?} {number}"));
            begin(&env, work, &name);
            helper.dies_at(number, death);
            // What the death cost is made good by the next one.
            env.run(&["apply", "--yes", "--timeout", "0s"]);
            is_no_torn_pair(&env, &name);
            let was_killed = helper.lives() > 0;
            is_well(&env, &name, &label);
            if !was_killed {
                assert!(number > 8, "{label}: changes");
                break;
            }
        }
    };
    all_at_once(lives, live);
}

#[test]
fn a_daemon_that_is_killed_on_the_way_through_its_helper_tears_no_pair() {
    if !is_root() {
        return;
    }
    all_at_once([Work::First, Work::Renewal, Work::Regular], |work| {
        for point in CERTIFICATES.iter().filter(|name| name.starts_with("certificate.")) {
            let env = desk();
            let _helper = Helper::of(&env);
            let hits = (1..).take_while(|hit| {
                let (name, point) = (format!("web{hit}"), format!("{point}:{hit}"));
                begin(&env, work, &name);
                let died = env.run_with(&["apply", "--yes"], &[(VARIABLE, &point)]);
                is_no_torn_pair(&env, &name);
                is_well(&env, &name, &format!("{work:?}, {point}"));
                died.signal == Some(SIGKILL)
            });
            let is_met = work != Work::Renewal || *point != "certificate.link";
            assert_eq!(hits.count() > 0, is_met, "{work:?}, {point}");
        }
    });
}

#[test]
fn what_happens_to_files_is_put_right_through_the_helper_and_nothing_of_keys_is_said() {
    if !is_root() {
        return;
    }
    let env = desk();
    let helper = Helper::of(&env);
    env.run(&["check"]).says(&["provider cert", "its directories can be used"]);
    begin(&env, Work::First, "web");
    env.apply();
    damages_are_put_right(&env);
    let key = env.path("ssl/web/tls.key");
    // What somebody else wrote is kept by the daemon, not by the helper.
    fs::remove_file(&key).unwrap();
    env.write("ssl/web/tls.key", "put there by hand");
    env.apply();
    let copies = fs::read_dir(env.path("state/certificates/cert/replaced/web")).unwrap().flatten();
    assert!(copies.into_iter().any(|copy| fs::read(copy.path()).unwrap() == b"put there by hand"));
    // A pass with nothing to do changes nothing.
    let before = helper.changes();
    env.in_sync();
    env.run(&["apply", "--yes"]).exits(0);
    assert_eq!(helper.changes(), before);
    let secret = read(&env, "ssl/web/tls.key");
    let secret = secret.lines().nth(1).unwrap();
    assert!(helper.log().contains("written") && !helper.log().contains(secret));

    // Where others may write, or a link leads elsewhere, nothing is put.
    fs::create_dir(env.path("ssl/open")).unwrap();
    fs::set_permissions(env.path("ssl/open"), fs::Permissions::from_mode(0o777)).unwrap();
    symlink(env.path("ssl/open"), env.path("ssl/link")).unwrap();
    let dir = env.dir.path().display();
    for (directory, words) in [
        (format!("{dir}/ssl/open/a"), "others may write to DIR/ssl/open"),
        (format!("{dir}/ssl/link/a"), "a symbolic link is in the way"),
        (format!("{dir}/ssl"), "is not below any of the directories for certificates"),
    ] {
        let spec = format!("output: {{directory: {directory}}}, {OWN}");
        env.push("bad.yaml", &manifest("Certificate", "bad", &spec));
        env.run(&["apply", "--yes", "--timeout", "1s"]).says(&[words]);
    }
    assert!(fs::read_dir(env.path("ssl/open")).unwrap().next().is_none());

    // With its manifest its files go, and the directory with them.
    let other = certificate(&env, "other", OWN);
    env.push("bad.yaml", &other);
    env.push_without("web.yaml");
    env.apply();
    assert!(!env.path("ssl/web").exists());
}

#[test]
fn while_the_helper_is_away_nothing_is_lost_and_then_all_of_it_is_made_good() {
    if !is_root() {
        return;
    }
    let env = desk();
    let helper = Helper::of(&env);
    begin(&env, Work::First, "web");
    helper.is_away(true);
    env.run(&["apply", "--yes", "--timeout", "1s"]).says(&["ask the helper at DIR/hostd.sock"]);
    assert!(!env.path("ssl/web").exists());
    helper.is_away(false);
    is_well(&env, "web", "the first one");
    let first = fingerprint(&env, "web");
    helper.is_away(true);
    fs::remove_file(env.path("ssl/web/tls.key")).unwrap();
    env.run(&["renew", "Certificate/web"]).exits(0);
    env.push("other.yaml", &certificate(&env, "other", OWN));
    env.push_without("web.yaml");
    // What cannot be looked at is not taken for gone.
    env.run(&["apply", "--yes", "--timeout", "1s"]).says(&["ask the helper at"]);
    assert_eq!(fingerprint(&env, "web"), first);
    env.push("web.yaml", &certificate(&env, "web", OWN));
    helper.is_away(false);
    is_well(&env, "web", "the second one");
    is_well(&env, "other", "another one");
    assert_ne!(fingerprint(&env, "web"), first);
}

#[test]
fn what_others_put_there_is_adopted_through_the_helper_and_moves_with_a_keystore() {
    if !is_root() {
        return;
    }
    let env = desk();
    let _helper = Helper::of(&env);
    env.write("password", "changeit\n");
    let secret = format!("secrets: {{p12: {{file: {}}}}}\n", env.path("password").display());
    env.write("config.yaml", &(read(&env, "config.yaml") + &secret));
    begin(&env, Work::First, "web");
    env.apply();
    // The program that had it before was this one, on another host.
    make_regular(&env, "web");
    fs::remove_dir_all(env.path("state")).unwrap();
    fs::remove_file(env.path("ssl/web/..certificate")).unwrap();
    let first = fingerprint(&env, "web");
    env.run(&["plan"]).exits(0).says(&["= Certificate/web"]);
    env.apply();
    is_well(&env, "web", "kept");
    fs::remove_file(env.path("ssl/web/tls.key")).unwrap();
    is_well(&env, "web", "put back");
    let moved = certificate(&env, "elsewhere", OWN)
        .replace("metadata: {name: elsewhere}", "metadata: {name: web}")
        .replacen("}, ", ", pkcs12: {password: {secret: p12}}}, ", 1);
    env.push("web.yaml", &moved);
    env.apply();
    env.in_sync();
    assert_eq!(fingerprint(&env, "elsewhere"), first, "the same certificate");
    let shown = ["pkcs12", "-in", "ssl/elsewhere/keystore.p12", "-passin", "pass:changeit", "-nodes"];
    assert!(openssl(&env, &shown).contains(&read(&env, "ssl/elsewhere/tls.key")));
    assert_eq!(fs::metadata(env.path("ssl/elsewhere/keystore.p12")).unwrap().mode() & 0o777, 0o600);
    assert!(!env.path("ssl/web/tls.key").exists() && !env.path("ssl/web/..data").exists());
}

#[test]
fn answers_for_a_web_server_are_put_there_and_taken_away_through_the_helper() {
    if !is_root() {
        return;
    }
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let env = acme::desk(&pdns, &pebble, "");
    let helper = Helper::of(&env);
    let webroot = env.path("ssl/webroot");
    let _nginx = Nginx::of_files(&env, &webroot, pebble.http);
    env.push("zone.yaml", &zone("example.com", "pdns", &["{name: www, type: A, values: [127.0.0.1]}"]));
    env.apply();
    let solvers = format!("solvers: [{{http01: {{webroot: {}}}}}]", webroot.display());
    let issuer = manifest("Issuer", "le", &format!("{}, {solvers}}}", pebble.acme()));
    let web = certificate(&env, "web", "issuerRef: {name: le}, dnsNames: [www.example.com]");
    env.push("all.yaml", &format!("{issuer}{web}"));
    env.apply();
    is_good(&env, &pebble, "web");
    assert!(helper.log().contains("/.well-known/acme-challenge/"), "{}", helper.log());
    assert!(webroot.exists() && !webroot.join(".well-known").exists());
    env.in_sync();
}

/// What the helper may do on this machine.
const MAY: &str = "users: [reconciled]\npaths: [/etc/app]\nunits: [back.service, front.service]\n";

/// Adds units and starts them; each notes down that it read its files anew, which fails while `/run/NAME.deaf` is there.
fn start_readers(machine: &Machine, names: &[&str]) {
    for &name in names {
        let read = format!("test ! -e /run/{name}.deaf && echo read >>/run/{name}.read");
        let unit = format!("[Service]\nExecStart=/bin/sleep 1000\nExecReload=/bin/sh -c '{read}'\n");
        machine.write(&format!("/etc/systemd/system/{name}.service"), &unit);
    }
    machine.run(&["systemctl", "daemon-reload"]);
    for &name in names {
        machine.run(&["systemctl", "start", name]);
    }
}

/// How often a unit has read its files anew.
fn reads(machine: &Machine, name: &str) -> usize {
    let noted = fs::read_to_string(machine.path(&format!("/run/{name}.read")));
    noted.unwrap_or_default().lines().count()
}

fn status(machine: &Machine, arguments: &[&str]) -> String {
    let output = machine.command(&[&["reconciled", "status"][..], arguments].concat());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Renews `web` while `front` cannot read anew, of which `words` are said: it is told again until it can, and `back` is not.
#[track_caller]
fn who_fails_is_told_again_alone(machine: &Machine, words: &str) {
    let count = || ["back", "front"].map(|name| reads(machine, name));
    let [back, front] = count();
    machine.write("/run/front.deaf", "");
    machine.run(&["reconciled", "renew", "Certificate/web"]);
    wait_for("it is said who does not read it", || status(machine, &[]).contains(words));
    assert_eq!(count(), [back + 1, front]);
    machine.run(&["rm", "/run/front.deaf"]);
    wait_for("it is read in the end", || {
        reads(machine, "front") > front && !status(machine, &[]).contains(words)
    });
    assert_eq!(count(), [back + 1, front + 1]);
}

/// Where the daemon has the rights itself, systemctl has units read anew, and restarts what goes on showing another one.
fn systemctl_does_it_where_there_is_no_helper(machine: &Machine) {
    machine.config(&format!("  - {{name: host, type: host, bus: system, paths: [/etc/app], {WIDE_GUARD}}}"));
    machine.run(&["systemctl", "start", "reconciled-host.service"]);
    let port = free_port();
    let server = format!(
        "[Service]\nExecStart=/usr/bin/openssl s_server -quiet -accept 127.0.0.1:{port} -cert /etc/app/shown/tls.crt \
         -key /etc/app/shown/tls.key\nExecReload=/bin/true\n"
    );
    machine.write("/etc/systemd/system/shown.service", &server);
    machine.run(&["systemctl", "daemon-reload"]);
    let shown = format!(
        "issuerRef: {{name: own}}, dnsNames: [example.com], reload: [shown.service], serve: ['127.0.0.1:{port}'], \
         escalate: true, output: {{directory: /etc/app/shown}}"
    );
    machine.env.push("shown.yaml", &manifest("Certificate", "shown", &shown));
    let is_there = ["cat", "/etc/app/shown/tls.crt", "/etc/app/shown/tls.key"];
    wait_for("it is there", || machine.command(&is_there).status.success());
    machine.run(&["systemctl", "start", "shown.service"]);
    wait_for("the server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let pid = || machine.run(&["systemctl", "show", "shown", "--value", "-p", "MainPID"]);
    let first = pid();
    machine.run(&["reconciled", "renew", "Certificate/shown"]);
    // Meanwhile the server has its time to show the new one, of which it makes nothing.
    who_fails_is_told_again_alone(machine, "reload front.service with systemctl: exit status: 1");
    wait_for("it is restarted", || pid() != first);
    wait_for("it is shown", || {
        status(machine, &["Certificate/shown", "-o", "wide"]).contains(", this one, until")
    });
}

#[test]
fn a_daemon_without_rights_has_certificates_put_in_place_and_read_through_its_helper_and_root_by_itself() {
    let Some(machine) = Machine::with_unit() else { return };
    machine.run(&["mkdir", "/etc/app"]);
    machine.write("/etc/reconciled/hostd.yaml", MAY);
    machine.config(
        "  - {name: host, type: host, helper: /run/reconciled-hostd.sock, guard: {maxUpdates: 1000}}",
    );
    start_readers(&machine, &["back", "front"]);
    machine.run(&["systemctl", "start", "reconciled-hostd.socket"]);
    let web = "issuerRef: {name: own}, dnsNames: [example.com], reload: [back.service, front.service], \
               output: {directory: /etc/app/web, group: www-data, mode: '0640'}";
    machine.env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &manifest("Certificate", "web", web)));
    machine.systemctl("start");
    // What a link leads to is that of the machine, seen from here only by its version.
    let cat = |name: &str| {
        let output = machine.command(&["cat", &format!("/etc/app/web/{name}")]);
        String::from_utf8(output.stdout).unwrap()
    };
    wait_for("the certificate is there, and read", || {
        !cat("tls.crt").is_empty() && reads(&machine, "front") == 1
    });
    let stat = |name: &str| machine.run(&["stat", "-Lc", "%U %G %a", &format!("/etc/app/web/{name}")]);
    assert_eq!((&*stat("tls.key"), &*stat("tls.crt")), ("root www-data 640\n", "root www-data 644\n"));
    let daemon = machine.run(&["systemctl", "show", "reconciled", "--value", "-p", "MainPID"]);
    assert_eq!(machine.run(&["ps", "-o", "user=", "-p", daemon.trim()]), "reconciled\n");
    let is_writable = ["setpriv", "--reuid=reconciled", "--clear-groups", "test", "-w", "/etc/app/web"];
    assert!(!machine.command(&is_writable).status.success());

    let first = cat("tls.crt");
    machine.write("/etc/app/web/tls.crt", "by hand\n");
    wait_for("it is put right", || cat("tls.crt") == first && reads(&machine, "front") == 2);
    who_fails_is_told_again_alone(&machine, "reload front.service: the job ended with `failed`");
    assert_ne!(cat("tls.crt"), first, "another one is there");
    for (name, file) in [("crt", "tls.crt"), ("key", "tls.key")] {
        machine.env.write(&format!("seen.{name}"), &cat(file));
    }
    let of_key = openssl(&machine.env, &["pkey", "-in", "seen.key", "-pubout"]);
    assert_eq!(openssl(&machine.env, &["x509", "-in", "seen.crt", "-noout", "-pubkey"]), of_key);

    // What the helper may not do it refuses, in words that say what to change.
    let other = "issuerRef: {name: own}, dnsNames: [example.com], output: {directory: /etc/other/x}";
    let unit = "issuerRef: {name: own}, dnsNames: [example.com], reload: [dbus.service], output: {directory: /etc/app/x}";
    machine
        .env
        .push("more.yaml", &(manifest("Certificate", "o", other) + &manifest("Certificate", "u", unit)));
    wait_for("the refusals are told", || {
        let status = status(&machine, &[]);
        status.contains("is not below any of the directories that the helper may go to")
            && status.contains("dbus.service is none of the helper's units")
    });
    assert!(!machine.path("/etc/other").exists());
    let log = machine.run(&["journalctl", "--no-pager", "-o", "cat"]);
    let secret = cat("tls.key");
    assert!(!log.contains(secret.lines().nth(1).unwrap()));

    machine.systemctl("stop");
    machine.env.push_without("more.yaml");
    systemctl_does_it_where_there_is_no_helper(&machine);
}
