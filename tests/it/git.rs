//! Repositories that are gone, empty, rewound or hold what is refused: the last good revision stays in force.

use crate::{
    env::{Env, rrsets, zone},
    http::Place,
    running::{Daemon, wait_for},
    shared::{other_source, push_other},
};
use std::{
    fs,
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::symlink,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::channel,
    },
};

const ZONE: &str = "example.com";

fn www(value: &str) -> String {
    zone(ZONE, "zones", &[&format!("{{name: www, type: A, values: [{value}]}}")])
}

fn applied() -> Env {
    let env = Env::zonefile();
    env.push("zone.yaml", &www("192.0.2.1"));
    env.apply();
    env
}

#[test]
fn a_forced_push_is_refused_and_the_last_revision_stays_in_force() {
    let env = applied();
    env.write("work/zone.yaml", &www("192.0.2.66"));
    env.git(&["commit", "-q", "-a", "--amend", "-m", "rewritten"]);
    env.git(&["push", "-q", "--force", "origin", "HEAD:main"]);
    let offered = env.git(&["rev-parse", "HEAD"]);
    env.run(&["apply", "--yes"]).exits(1).says(&["rewound", "--accept-rewind", &offered, "stays in force"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
}

#[test]
fn with_the_remote_gone_the_last_revision_still_heals() {
    let env = applied();
    fs::rename(env.path("repo.git"), env.path("away.git")).unwrap();
    let file = env.path("zones/example.com.zone");
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("192.0.2.1", "203.0.113.9")).unwrap();
    env.run(&["plan", "--detailed-exitcode"]).exits(1).says(&[
        "repo.git",
        "hint:",
        "stays in force",
        "drift",
    ]);
    env.run(&["apply", "--yes"]).exits(1).says(&["hint:"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
}

#[test]
fn a_missing_branch_is_named_beside_those_that_are_there() {
    let env = Env::zonefile();
    env.push("zone.yaml", &www("192.0.2.1"));
    let entry = format!("  - {{name: zones, type: zonefile, directory: {}}}", env.path("zones").display());
    env.config_with("it", &entry, ", branch: mian");
    env.run(&["apply", "--yes"]).exits(1).says(&[
        "no branch mian",
        "it has main",
        "hint: did you mean main?",
    ]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[]));
}

#[test]
fn an_empty_repository_is_told_to_get_a_first_commit() {
    let env = Env::zonefile();
    env.run(&["plan"]).exits(1).says(&["repo.git has no commit yet", "hint: push a first commit"]);
}

#[test]
fn a_missing_repository_is_named_with_a_way_out() {
    let env = Env::zonefile();
    fs::remove_dir_all(env.path("repo.git")).unwrap();
    env.run(&["apply", "--yes"]).exits(1).says(&["repo.git", "hint:"]);
}

#[test]
fn a_symbolic_link_is_refused_by_name_and_nothing_is_pruned() {
    let env = applied();
    symlink("zone.yaml", env.path("work/link.yaml")).unwrap();
    env.push("zone.yaml", &www("192.0.2.2"));
    env.run(&["plan"]).exits(1).says(&["link.yaml"]);
}

#[test]
fn a_submodule_is_refused_by_name_and_nothing_is_pruned() {
    let env = applied();
    let head = env.git(&["rev-parse", "HEAD"]);
    env.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},vendored")]);
    env.git(&["commit", "-q", "-m", "submodule"]);
    env.git(&["push", "-q", "origin", "HEAD:main"]);
    env.run(&["plan"]).exits(1).says(&["vendored"]);
}

#[test]
fn the_proxy_of_the_environment_is_asked_for_https_and_its_refusal_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let (sender, asked) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let _ =
                stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = sender.send(line);
        }
    });
    let env = Env::zonefile();
    let text = fs::read_to_string(env.path("config.yaml")).unwrap();
    let local = format!("url: {}", env.path("repo.git").display());
    assert!(text.contains(&local));
    env.write("config.yaml", &text.replace(&local, "url: \"https://git.example.invalid/infra.git\""));
    let output = env.run_with(&["plan"], &[("https_proxy", &proxy)]).exits(1);
    output.says(&[
        "https://git.example.invalid/infra.git cannot be reached: proxy returned unexpected status: 403",
        "hint: check the proxy that `https_proxy` names",
    ]);
    assert_eq!(asked.try_recv().unwrap().trim(), "CONNECT git.example.invalid:443 HTTP/1.1");
}

#[test]
fn a_rewind_is_consented_to_although_what_is_in_force_is_nowhere_any_more() {
    let env = applied();
    env.write("work/zone.yaml", &www("192.0.2.66"));
    env.git(&["commit", "-q", "-a", "--amend", "-m", "rewritten"]);
    env.git(&["push", "-q", "--force", "origin", "HEAD:main"]);
    let offered = env.git(&["rev-parse", "HEAD"]);
    env.git_in("repo.git", &["reflog", "expire", "--expire=now", "--all"]);
    env.git_in("repo.git", &["gc", "-q", "--prune=now"]);
    fs::remove_dir_all(env.path("state/git")).unwrap();
    for verb in [&["plan"][..], &["apply", "--yes"]] {
        env.run(verb).exits(1).says(&["rewound", "sync --source infra --accept-rewind", &offered]);
    }
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
    env.run(&["sync", "--accept-rewind", &offered]).exits(0);
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.66")]));
}

#[test]
fn the_rewind_of_one_source_is_accepted_whatever_is_wrong_with_others() {
    let env = Env::zonefile();
    other_source(&env);
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let infra = format!("  - {{name: infra, url: {}, allow: all}}\n", env.path("repo.git").display());
    assert!(config.contains(&infra), "{config}");
    let source = |name: &str| infra.replace("name: infra,", &format!("name: {name}, path: {name},"));
    env.write("config.yaml", &config.replace(&infra, &(source("a") + &source("b"))));
    let of = |name: &str, value: &str| {
        let www = format!("{{name: www, type: A, values: [{value}]}}");
        zone(&format!("{name}.example"), "zones", &[&www])
    };
    let push = |value: &str| {
        env.write("work/a/zone.yaml", &of("a", value));
        env.push("b/zone.yaml", &of("b", value))
    };
    let have = |values: [&str; 2]| {
        for (zone, value) in ["a.example", "b.example"].iter().zip(values) {
            assert_eq!(env.zone_rrsets(zone), rrsets(&[("www A", &format!("300 {value}"))]));
        }
    };
    let first = push("192.0.2.1");
    push_other(&env, &of("c", "192.0.2.1"));
    env.apply();
    push("192.0.2.2");
    env.apply();
    env.git(&["reset", "-q", "--hard", &first]);
    env.git(&["push", "-q", "--force", "origin", "HEAD:main"]);

    let accept = |source: &str| env.run(&["sync", "--source", source, "--accept-rewind", &first]);
    // One has an error, and the other was rewound as well.
    push_other(&env, "a: [\n");
    accept("a").exits(0).says(&["source a is in force at", "source b stays at"]).hides(&["error:"]);
    env.run(&["apply", "--yes"]).exits(1).says(&["source b was rewound", "--accept-rewind"]);
    have(["192.0.2.1", "192.0.2.2"]);
    // Nothing is left of one, not even what was in force.
    fs::rename(env.path("other.git"), env.path("away.git")).unwrap();
    fs::remove_dir_all(env.path("state/git")).unwrap();
    accept("b").exits(0).says(&["source b is in force at"]).hides(&["error:", "stays at"]);
    fs::rename(env.path("away.git"), env.path("other.git")).unwrap();
    push_other(&env, &of("c", "192.0.2.1"));
    env.apply();
    have(["192.0.2.1", "192.0.2.1"]);
}

#[test]
fn a_rewind_to_what_may_not_come_into_force_is_not_accepted_and_says_so() {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace("{name: infra,", "{name: infra, onInvalid: hold,"));
    let bad = env.push("bad.yaml", "apiVersion: ''\nkind: Zone\n");
    env.push_without("bad.yaml");
    let good = env.push("zone.yaml", &www("192.0.2.1"));
    env.apply();
    env.git(&["reset", "-q", "--hard", &bad]);
    env.git(&["push", "-q", "--force", "origin", "HEAD:main"]);
    let told = env.run(&["sync", "--accept-rewind", &bad]).exits(1);
    told.says(&["the last good one stays", "the rewind of source infra is not accepted"])
        .hides(&["in force at"]);
    // What is no rewind is not accepted as one.
    env.git(&["reset", "-q", "--hard", &good]);
    let newer = env.push("zone.yaml", &www("192.0.2.2"));
    let nothing = format!("nothing was rewound: source infra is at {newer}, and not at {bad}");
    env.run(&["sync", "--accept-rewind", &bad]).exits(0).says(&[&nothing]).hides(&["in force at"]);
}

#[test]
fn check_says_of_each_source_what_is_wrong_with_that_one() {
    let env = applied();
    let (repo, gone) = (env.path("repo.git"), env.path("gone.git"));
    let config = |path: &str, other: &std::path::Path| {
        let (state, zones) = (env.path("state"), env.path("zones"));
        format!(
            "instance: it\nstateDir: {}\nsources:\n  - {{name: infra, url: {}, path: {path}, allow: all}}\n  - {{name: two, url: {}, allow: all}}\nproviders:\n  - {{name: zones, type: zonefile, directory: {}}}\n",
            state.display(),
            repo.display(),
            other.display(),
            zones.display()
        )
    };
    let lines = |said: &str, name: &str| said.lines().filter(|line| line.contains(name)).count();
    env.write("config.yaml", &config(".", &gone));
    let said = env.run(&["check"]).exits(1).says(&["ok    source infra", "FAIL  source two"]);
    assert_eq!(
        (lines(&said.stdout, "source infra:"), lines(&said.stdout, "source two:")),
        (1, 1),
        "{}",
        said.all()
    );
    env.write("config.yaml", &config("nosuch", &repo));
    env.run(&["check"])
        .exits(1)
        .says(&["FAIL  source infra: there is no folder `nosuch`", "ok    source two"]);
}

#[test]
fn a_rewind_needs_a_person_and_sync_says_so_once() {
    let env = applied();
    let daemon = Daemon::start(&env);
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    env.write("work/zone.yaml", &www("192.0.2.66"));
    env.git(&["commit", "-q", "-a", "--amend", "-m", "rewritten"]);
    env.git(&["push", "-q", "--force", "origin", "HEAD:main"]);
    let offered = env.git(&["rev-parse", "HEAD"]);
    for rev in [&[][..], &["--rev", &offered]] {
        let told = env.run(&[&["sync", "--wait", "--timeout", "60s"], rev].concat()).exits(3);
        let told = told.says(&["needs a person", "--accept-rewind", &offered]).hides(&["by itself"]);
        assert_eq!(told.all().matches("error: source infra").count(), 1, "{}", told.all());
    }
    env.run(&["status", "--exit-code"]).exits(3);
    daemon.stop();
}

#[test]
fn consent_to_a_rewind_that_there_is_not_says_nothing_of_the_source() {
    let env = applied();
    let daemon = Daemon::ready(&env);
    let (head, short) = (env.git(&["rev-parse", "HEAD"]), env.git(&["rev-parse", "--short", "HEAD"]));
    let elsewhere = "1".repeat(40);
    let nothing = format!("nothing was rewound: source infra is at {head}, and not at {elsewhere}");
    for wait in [&[][..], &["--wait", "--timeout", "60s"]] {
        let accept = |commit: &str| env.run(&[&["sync", "--accept-rewind", commit], wait].concat());
        accept(&short).exits(1).says(&[&format!("`{short}` is no commit id"), "hint: write all 40"]);
        env.run(&["status", "--exit-code"]).exits(0).hides(&["SourceBehind"]);
        accept(&elsewhere).exits(0).says(&[&nothing]);
        accept(&head).exits(0).hides(&["nothing was rewound"]);
    }
    daemon.stop();
}

#[test]
fn who_does_not_wait_is_not_kept_by_a_remote_that_says_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::<Mutex<Vec<TcpStream>>>::default();
    let keep = asked.clone();
    std::thread::spawn(move || listener.incoming().for_each(|stream| keep.lock().unwrap().extend(stream)));
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let repository = env.path("repo.git").display().to_string();
    env.write("config.yaml", &config.replace(&repository, &format!("http://{address}/repo.git")));
    let _daemon = Daemon::start(&env);
    env.run(&["sync"]).exits(0).says(&["asked for"]);
    let waits = |stream: &mut TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    let mut asked = asked.lock().unwrap();
    assert!(asked.last_mut().is_some_and(waits), "the answer came after the remote was given up");
}

/// A server of Git that has `commit` as its branch `main` and counts who asks.
fn server_of(commit: String) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/infra.git", listener.local_addr().unwrap());
    let asked = Arc::<AtomicUsize>::default();
    let count = asked.clone();
    let line = |text: String| format!("{:04x}{text}", text.len() + 4);
    let refs = [format!("{commit} HEAD\0side-band-64k ofs-delta\n"), format!("{commit} refs/heads/main\n")];
    let body = format!("{}0000{}0000", line("# service=git-upload-pack\n".into()), refs.map(line).concat());
    let head = "Content-Type: application/x-git-upload-pack-advertisement\r\nConnection: close";
    let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
            count.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (url, asked)
}

#[test]
fn sources_of_one_repository_ask_it_once_for_all() {
    let env = Env::zonefile();
    let names = ["a", "b", "c"];
    for name in names {
        let zone = zone(&format!("{name}.example"), "zones", &["{name: www, type: A, values: [192.0.2.1]}"]);
        env.write(&format!("work/{name}/zone.yaml"), &zone);
    }
    let commit = env.push_all();
    let configure = |url: &str| {
        let source = |name: &str| {
            format!("  - {{name: {name}, url: \"{url}\", path: {name}, interval: 1s, allow: all}}\n")
        };
        let (state, zones) = (env.path("state"), env.path("zones"));
        let config = format!(
            "instance: it\nstateDir: {}\nsources:\n{}providers:\n  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.]}}\n",
            state.display(),
            names.map(source).concat(),
            zones.display()
        );
        env.write("config.yaml", &config);
    };
    configure(env.path("repo.git").to_str().unwrap());
    env.apply();
    let (url, asked) = server_of(commit);
    configure(&url);
    env.run(&["plan"]).exits(0);
    assert_eq!(asked.load(Ordering::SeqCst), 1, "one plan, one question");
    let daemon = Daemon::start(&env);
    let socket = Place::Socket(env.path("state/api.sock"));
    let polls = || -> usize {
        let text = socket.ask("GET", "/metrics", &[], b"").text();
        let lines =
            text.lines().filter(|line| line.starts_with("reconciled_git_polls_total{outcome=\"answered\""));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum()
    };
    wait_for("some polls", || polls() >= 12);
    // Asked for before the polls are counted: none of them is missing.
    let (asked, polls) = (asked.load(Ordering::SeqCst) - 1, polls());
    assert!(asked * 3 <= polls * 2, "{asked} questions for {polls} polls");
    daemon.stop();
}

#[test]
fn a_plan_names_the_revision_that_it_is_of_where_the_newest_one_is_refused() {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace("{name: infra,", "{name: infra, onInvalid: hold,"));
    let refused = env.push("bad.yaml", "apiVersion: ''\nkind: Zone\n");
    env.run(&["plan"]).exits(1).says(&["`apiVersion` is empty", "nothing of it is in force yet"]);
    env.push_without("bad.yaml");
    let good = env.push("zone.yaml", &www("192.0.2.1"));
    env.apply();
    let bad = env.push("bad.yaml", "apiVersion: dns/v1\n");
    let label = |commit: &str| format!("source infra at {}", &commit[..7]);
    for form in ["text", "markdown", "json"] {
        let plan = env.run(&["plan", "-o", form]).exits(1);
        plan.says(&[&label(&good)]).hides(&[&label(&bad), &label(&refused)]);
    }
    let plan = env.run(&["plan", "-o", "markdown"]).exits(1).stdout;
    assert!(plan.contains("the last good one stays"), "{plan}");
}
