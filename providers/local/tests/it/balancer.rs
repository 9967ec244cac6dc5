//! A real nginx in front of a deployment, under load while a new revision comes; HAProxy's own word on what is written.

use crate::{
    deployments::roll,
    desk::Desk,
    units::{Machine, wait_for},
};
use reconciled_provider::{Focus, Hash, Observation, Observed, Scope, Version};
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

const REPLICAS: u16 = 10;
/// The most that come besides.
const SURGE: u16 = 3;

/// After this a request that gets no answer has failed, on a machine however busy.
const STALLED: Duration = Duration::from_secs(60);

/// Between two requests of one who asks: hundreds a second are load enough, and leave the machine to other tests.
const PAUSE: Duration = Duration::from_millis(2);

/// The first of so many ports in a row that nobody has.
fn ports() -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    std::iter::repeat_with(crate::sockets::port)
        .take(100)
        .find(|port| (*port..=*port + REPLICAS + SURGE).all(is_free))
        .unwrap()
}

/// One request; what came back in its place if that was no page.
fn get(port: u16) -> Result<(), String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(STALLED)).unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").map_err(|error| error.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
    let is_page =
        answer.starts_with("HTTP/1.") && answer[8..].starts_with(" 200") && answer.ends_with("</html>\n");
    if is_page { Ok(()) } else { Err(answer) }
}

#[tokio::test]
async fn no_request_fails_while_ten_instances_behind_nginx_get_a_new_revision() {
    let unit = "[Service]\nExecStart=/usr/sbin/nginx -g 'daemon off;' -c /etc/front.conf\nExecReload=/bin/kill -HUP $MAINPID\n";
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    roll_under_load(&machine, "nginx", unit, (3, 0), false).await;
}

#[tokio::test]
async fn no_request_fails_while_others_come_besides_behind_nginx_and_reconciled_dies_again_and_again() {
    let unit = "[Service]\nExecStart=/usr/sbin/nginx -g 'daemon off;' -c /etc/front.conf\nExecReload=/bin/kill -HUP $MAINPID\n";
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    roll_under_load(&machine, "nginx", unit, (0, SURGE), true).await;
}

/// As Debian's unit has it: started by root, and reloaded by its master process.
#[tokio::test]
async fn no_request_fails_while_ten_instances_behind_haproxy_get_a_new_revision() {
    let unit = "[Service]\nType=notify\nExecStart=/usr/sbin/haproxy -Ws -f /etc/front.conf\n\
                ExecReload=/usr/sbin/haproxy -c -q -f /etc/front.conf\nExecReload=/bin/kill -USR2 $MAINPID\n\
                KillMode=mixed\nSuccessExitStatus=143\n";
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    roll_under_load(&machine, "haproxy", unit, (2, 1), false).await;
    // Who answers requests has no rights of root.
    let master = machine.pid("front.service");
    let workers = machine.run(&["ps", "-o", "user=", "--ppid", &master]);
    assert!(!workers.is_empty() && workers.lines().all(|user| user.trim() == "haproxy"), "{workers}");
}

/// A new revision comes while so many may be away, and so many may come besides.
async fn roll_under_load(machine: &Machine, program: &str, unit: &str, strategy: (u16, u16), is_dying: bool) {
    let (away, besides) = strategy;
    let first = ports();
    let (end, listen) = (first + REPLICAS, first + REPLICAS + SURGE);
    fs::write(machine.file("front.service"), unit).unwrap();
    machine.run(&["systemctl", "daemon-reload"]);
    let front = format!(
        "LoadBalancer front {{type: {program}, path: /etc/front.conf, selector: {{app: web}}, listen: '127.0.0.1:{listen}', reload: front.service, drainSeconds: 1}}"
    );
    let web = |revision: u32| {
        format!(
            "Deployment web app=web {{replicas: {REPLICAS}, firstInstance: {first}, strategy: {{maxUnavailable: {away}, maxSurge: {besides}}}, \
             content: \"[Service]\\nEnvironment=REVISION={revision}\\nExecStart=/usr/bin/python3 -m http.server --bind 127.0.0.1 --directory /srv %i\\n\", \
             minReadySeconds: 0, health: [{{http: 'http://127.0.0.1:%i/'}}]}}"
        )
    };
    let old = web(1);
    machine.desk.pass(&[&old, &front]).await;
    let written = machine.run(&["cat", "/etc/front.conf"]);
    assert_eq!(written.matches(" # web@").count(), usize::from(REPLICAS + besides), "{written}");
    machine.run(&["systemctl", "start", "front.service"]);
    assert_eq!(machine.desk.pass(&[&old, &front]).await.done, [""; 0]);
    wait_for("every instance serves", || (first..end).all(get_direct));
    wait_for("the balancer serves", || get(listen).is_ok());

    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let load: Vec<_> = (0..4)
        .map(|_| {
            let (stop, asked) = (stop.clone(), asked.clone());
            std::thread::spawn(move || {
                let mut failed = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    failed.extend(get(listen).err());
                    asked.fetch_add(1, Ordering::Relaxed);
                    std::thread::park_timeout(PAUSE);
                }
                failed
            })
        })
        .collect();
    let new = web(2);
    // Lives that are too short for a step, and one between them that takes up what they left.
    let (mut deaths, mut lives) = (0, 0);
    while is_dying && (machine.desk.is_pending() || lives == 0) {
        for calls in [0, 1, 0] {
            deaths += usize::from(!machine.desk.pass_dying(&[&new, &front], calls).await);
        }
        machine.desk.pass(&[&new, &front]).await;
        lives += 1;
        assert!(lives < 1_000, "it never ends");
    }
    assert!(!is_dying || deaths > 5, "{deaths}");
    let range = u32::from(first)..=u32::from(listen - 1);
    let (done, worst) = roll(machine, &[&new, &front], range).await;
    stop.store(true, Ordering::Relaxed);
    let failed: Vec<String> = load.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let asked = asked.load(Ordering::Relaxed);
    assert!(failed.is_empty(), "{} of {asked} failed: {:?}", failed.len(), failed.first());
    assert!(asked > 100, "{asked} requests are no load");
    assert!(worst >= usize::from(REPLICAS - away), "{worst} were available");
    assert!(is_dying || done.last().is_some_and(|last| last == "continue web@.service: done"), "{done:?}");
    assert!((end..listen).all(|number| !machine.is_active(number.into())), "they go");
    assert!(machine.property(&format!("web@{first}.service"), "Environment").contains("REVISION=2"));
    assert_eq!(machine.run(&["cat", "/etc/front.conf"]), written, "nobody is drained any longer");
    assert_eq!(machine.desk.pass(&[&new, &front]).await.done, [""; 0]);

    // A mark that nobody can account for is drift.
    let marked = written.replacen("; #", " down; #", 1).replacen(" 1s #", " 1s disabled #", 1);
    fs::write(machine.desk_path("/etc/front.conf"), marked).unwrap();
    assert_eq!(machine.desk.pass(&[&new, &front]).await.done, ["update /etc/front.conf: done"]);
    assert_eq!(machine.run(&["cat", "/etc/front.conf"]), written);
}

#[tokio::test]
async fn a_reload_that_is_still_to_come_is_not_forgotten_and_nobody_goes_before_it() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    let reload = "/bin/sh -c 'test ! -e /run/broken && cp /etc/front.conf /run/read'";
    let service = format!("[Service]\nExecStart=/bin/sleep 1d\nExecReload={reload}\n");
    fs::write(machine.file("front.service"), service).unwrap();
    machine.run(&["systemctl", "daemon-reload"]);
    machine.run(&["systemctl", "start", "front.service"]);
    let front = "LoadBalancer front {type: haproxy, path: /etc/front.conf, selector: {app: web}, listen: 8080, reload: front.service}";
    let web = |replicas: u32| {
        format!(
            "Deployment web app=web {{replicas: {replicas}, content: \"[Service]\\nExecStart=/bin/sleep 1d\\n\", minReadySeconds: 0}}"
        )
    };
    // It dies once it has put down that it begins, and with the file written and not read.
    let create = [&*web(2), front];
    let mut lives = 0;
    while !desk.is_tracked("/etc/front.conf") {
        assert!(!desk.pass_dying(&create, lives).await);
        lives += 1;
    }
    assert!(!machine.desk_path("/run/read").exists());
    let text = desk.provider.show(
        &"/etc/front.conf".into(),
        desk.desired(&create)
            .iter()
            .find(|one| &*one.id.0 == "/etc/front.conf")
            .unwrap()
            .spec
            .bytes()
            .unwrap(),
    );
    fs::write(machine.desk_path("/etc/front.conf"), &text[0].1).unwrap();
    while !desk.pass(&create).await.done.is_empty() {}
    assert_eq!(machine.run(&["cat", "/run/read"]), text[0].1);

    machine.run(&["touch", "/run/broken"]);
    let fewer = [&*web(1), front];
    let done = desk.pass(&fewer).await.done;
    assert!(done.iter().any(|line| line.starts_with("update /etc/front.conf: partial")), "{done:?}");
    assert!(
        done.iter()
            .any(|line| line.contains("web@2.service is kept: /etc/front.conf may still name its instances")),
        "{done:?}"
    );
    assert!(machine.is_active(2) && !machine.run(&["cat", "/etc/front.conf"]).contains("web@2"));
    let again = desk.pass(&fewer).await;
    assert!(again.fields.iter().any(|field| field.starts_with("served ")), "{again:?}");
    assert!(machine.is_active(2));
    machine.run(&["rm", "/run/broken"]);
    while !desk.pass(&fewer).await.done.is_empty() {}
    assert!(!machine.is_active(2) && !machine.run(&["cat", "/run/read"]).contains("web@2"));

    // What the plan did not see is not written over; what is healed is kept.
    assert_eq!(desk.originals().len(), 0);
    let file = machine.desk_path("/etc/front.conf");
    let (whole, batch) =
        (fs::read_to_string(&file).unwrap(), desk.plan(&desk.desired(&[&web(2), front])).await.0);
    fs::write(&file, whole.replace("8080", "9090")).unwrap();
    let done = desk.apply(&batch).await;
    let conflict = "update /etc/front.conf: failed: conflict: /etc/front.conf changed since it was looked at";
    assert!(done.iter().any(|line| line == conflict), "{done:?}");
    let edited = whole.replace("8080", "9090");
    while !desk.pass(&[&web(2), front]).await.done.is_empty() {}
    assert_eq!(desk.originals(), [edited]);

    // A path may be that of any file.
    fs::write(&file, "root:canary\n").unwrap();
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    let (_, _, fields) = desk.plan(&desk.desired(&[&web(2), front])).await;
    assert!(format!("{fields:?}").contains("(12 bytes, not shown, mark "), "{fields:?}");
    assert!(!format!("{fields:?}").contains("canary"));
}

/// Whoever reads the file goes on with what it read before somebody put something else there.
#[tokio::test]
async fn nobody_goes_while_the_file_of_a_balancer_is_something_else() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    let service = "[Service]\nExecStart=/bin/sleep 1d\nExecReload=/bin/cp /etc/front.conf /run/read\n";
    fs::write(machine.file("front.service"), service).unwrap();
    machine.run(&["systemctl", "daemon-reload"]);
    machine.run(&["systemctl", "start", "front.service"]);
    let front = "LoadBalancer front {type: nginx, path: /etc/front.conf, selector: {app: web}, listen: 8080, reload: front.service, drainSeconds: 0}";
    let named = |name: &str, replicas: u32| {
        format!(
            "Deployment {name} app=web {{replicas: {replicas}, content: \"[Service]\\nExecStart=/bin/sleep 1d\\n\", minReadySeconds: 0}}"
        )
    };
    let four = named("web", 4);
    while !desk.pass(&[&four, front]).await.done.is_empty() {}
    let (file, aside) = (machine.desk_path("/etc/front.conf"), machine.desk_path("/etc/aside"));
    fs::rename(&file, &aside).unwrap();
    std::os::unix::fs::symlink("aside", &file).unwrap();

    for later in [named("web", 2), named("other", 2)] {
        let done = desk.pass(&[&later, front]).await.done;
        assert!(done.contains(&"invalid: /etc/front.conf is no file".into()), "{done:?}");
        let kept = "is kept: /etc/front.conf may still name it";
        assert!(done.iter().any(|line| line.contains(kept)), "{done:?}");
        assert!((1..=4).all(|number| machine.is_active(number)), "{done:?}");
    }
    fs::remove_file(&file).unwrap();
    let other = named("other", 2);
    while !desk.pass(&[&other, front]).await.done.is_empty() {}
    assert!(!(1..=4).any(|number| machine.is_active(number)));
    assert!(machine.run(&["cat", "/run/read"]).contains("# other@1"));
}

#[tokio::test]
async fn a_revision_that_is_reverted_while_an_instance_is_drained_leaves_nobody_drained() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    let service = "[Service]\nExecStart=/bin/sleep 1d\nExecReload=/bin/cp /etc/front.conf /run/read\n";
    fs::write(machine.file("front.service"), service).unwrap();
    machine.run(&["systemctl", "daemon-reload"]);
    machine.run(&["systemctl", "start", "front.service"]);
    let front = "LoadBalancer front {type: nginx, path: /etc/front.conf, selector: {app: web}, listen: 8080, reload: front.service, drainSeconds: 600}";
    let web = |days: u32| {
        format!(
            "Deployment web app=web {{replicas: 2, content: \"[Service]\\nExecStart=/bin/sleep {days}d\\n\", minReadySeconds: 0}}"
        )
    };
    let (old, new) = (web(1), web(2));
    while !desk.pass(&[&old, front]).await.done.is_empty() {}
    let read = || machine.run(&["cat", "/run/read"]);
    let before = read();
    assert_eq!(desk.pass(&[&new, front]).await.done, ["update web@.service: pending"]);
    assert_eq!(read().matches(" down;").count(), 1);
    let pid = machine.pid("web@1.service");
    assert_eq!(desk.pass(&[&old, front]).await.done, ["continue web@.service: done"]);
    assert_eq!((read(), machine.pid("web@1.service")), (before, pid));
    assert_eq!(desk.pass(&[&old, front]).await.done, [""; 0]);
}

/// An instance of its own answers.
fn get_direct(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut answer = String::new();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").is_ok() && stream.read_to_string(&mut answer).is_ok()
}

#[test]
fn nginx_and_haproxy_take_what_is_written() {
    for (program, command) in
        [("nginx", ["nginx", "-t", "-q", "-c"]), ("haproxy", ["haproxy", "-c", "-q", "-f"])]
    {
        let desk = Desk::with(|config| config.bus = Some("system".into()));
        let front = format!(
            "LoadBalancer front {{type: {program}, path: /etc/front.conf, selector: {{app: web}}, listen: 8080, reload: front.service}}"
        );
        let web = "Deployment web app=web {replicas: 2, firstInstance: 8001, strategy: {maxSurge: 50%}, content: \"[Service]\"}";
        let (resources, problems) = desk.normalize(&[&front, web, "Deployment other app=other {content: x}"]);
        assert!(problems.is_empty(), "{problems:?}");
        let shown = desk.provider.show(&resources[0].id, resources[0].spec.bytes().unwrap());
        let text = &shown[0].1;
        assert_eq!(text.matches(" # ").count(), 3, "{text}");
        let rests = text.lines().find(|line| line.ends_with(" # web@8003.service surge")).unwrap();
        assert!(rests.contains(" down;") || rests.contains(" disabled "), "{rests}");
        let file = desk.dir.path().join("front.conf");
        fs::write(&file, text).unwrap();
        let output = Command::new(command[0]).args(&command[1..]).arg(&file).output().unwrap();
        assert!(output.status.success(), "{}{text}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn whom_haproxy_runs_as_is_written_out_or_left_to_its_unit() {
    let desk = Desk::with(|config| config.bus = Some("system".into()));
    let global = |rest: &str| {
        let front = format!(
            "LoadBalancer front {{type: haproxy, path: /etc/front.conf, selector: {{app: web}}, listen: 8080, reload: front.service{rest}}}"
        );
        let resource = desk.desired(&[&front, "Deployment web app=web {content: x}"]).remove(0);
        let text = desk.provider.show(&resource.id, resource.spec.bytes().unwrap())[0].1.clone();
        let lines = text.lines().skip_while(|line| *line != "global").skip(1);
        lines.take_while(|line| *line != "defaults").map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(global(""), ["user haproxy", "group haproxy", "maxconn 4096"]);
    assert_eq!(global(", runAs: www"), ["user www", "group www", "maxconn 4096"]);
    assert_eq!(global(", runAs: 'www:web'"), ["user www", "group web", "maxconn 4096"]);
    assert_eq!(global(", runAs: none"), ["maxconn 4096"]);
}

#[test]
fn what_is_made_of_the_same_manifests_changes_only_with_the_number_of_the_normalizer() {
    let desk = Desk::with(|config| config.bus = Some("system".into()));
    let made = ["nginx", "haproxy"].map(|kind| {
        let front = format!(
            "LoadBalancer front {{type: {kind}, path: /etc/front.conf, selector: {{app: web}}, listen: 8080, reload: front.service}}"
        );
        let resource = desk.desired(&[&front, "Deployment web app=web {content: x}"]).remove(0);
        desk.provider.show(&resource.id, resource.spec.bytes().unwrap())[0].1.clone()
    });
    let made = (desk.provider.info().normalizer, Hash::of(made.concat().as_bytes()).to_string());
    // An upgrade that writes another file shall be told as one, and be held: raise the number where this differs.
    assert_eq!(made, (3, "bf85d8a4d4c35fada2ecd07aaa3d6273".into()));
}

#[test]
fn balancers_that_mean_nothing_are_refused_with_what_to_write() {
    let refuse = |spec: &str, part: &str| {
        let desk = Desk::with(|config| config.bus = Some("system".into()));
        let (_, problems) = desk.normalize(&[&format!("LoadBalancer front {{{spec}}}")]);
        let shown: Vec<String> = problems.iter().map(|problem| problem.to_string()).collect();
        assert!(shown.iter().any(|text| text.contains(part)), "{spec}: {shown:#?}");
    };
    let good = "type: nginx, path: /etc/f, selector: {a: b}, listen: 80, reload: a.service";
    refuse(good, "no deployment has the labels");
    refuse(&good.replace("/etc/f", "/root/f"), "below none of the `paths`");
    refuse(&good.replace("80", "'80; include /etc/shadow'"), "nowhere to listen");
    refuse(&good.replace("{a: b}", "{}"), "would choose everything");
    refuse(&good.replace("a.service", "a.timer"), "no name of a service");
    refuse(&format!("{good}, member: '127.0.0.1:80'"), "no address of an instance");
    refuse(&format!("{good}, validate: nosuch"), "no command `nosuch`");
    refuse(&format!("{good}, runAs: www-data"), "`runAs` is for HAProxy alone");
    let haproxy = good.replace("nginx", "haproxy");
    refuse(&format!("{haproxy}, runAs: 'a b'"), "`a b` is no user and group");
    refuse(&format!("{haproxy}, runAs: 'a:'"), "`a:` is no user and group");
    refuse(&format!("{haproxy}, runAs: \"a\\nb\""), "is no user and group");
    refuse(&good.replace("/etc/f", "/etc/systemd/system/f"), "where systemd loads units from");
}

#[test]
fn what_two_scopes_would_write_is_refused() {
    let desk = Desk::with(|config| config.bus = Some("system".into()));
    let refused = |specs: &[&str], part: &str| {
        let shown: Vec<String> = desk.normalize(specs).1.iter().map(ToString::to_string).collect();
        assert!(shown.iter().any(|text| text.contains(part)), "{specs:?}: {shown:#?}");
    };
    let front =
        "LoadBalancer front {type: nginx, path: /etc/f, selector: {app: web}, listen: 80, reload: a.service}";
    refused(&[front, "{path: /etc/f, content: x}"], "/etc/f is declared by File/x as well");
    refused(&["{path: /etc/systemd/system/a.service, content: x}"], "where systemd loads units from");
    refused(
        &["{path: /etc/systemd/system/a.service.d/x.conf, content: x}"],
        "where systemd loads units from",
    );
    let job = "CronJob web {schedule: '@daily', command: [/bin/true], concurrencyPolicy: Allow}";
    refused(&[job, "Deployment web {content: x}"], "the template of the job web is that of Deployment/web");
}

/// What is asked over all sources: two manifests with one of these in common are an error that names both.
#[test]
fn every_kind_says_what_it_writes_in_words_that_others_have_for_it() {
    let desk = Desk::with(|config| config.bus = Some("system".into()));
    let remotes = |spec: &str| {
        let told = desk.normalize_one(spec).remotes;
        told.into_iter().map(|(scope, _, remote)| format!("{}: {remote}", scope.name)).collect::<Vec<_>>()
    };
    assert_eq!(remotes("Unit web@1.service {state: running}"), ["systemd: the unit web@1.service"]);
    assert_eq!(
        remotes("Deployment web {content: x, replicas: 2}"),
        ["web@1.service", "web@2.service", "web@.service"]
            .map(|unit| format!("deployments: the unit {unit}"))
    );
    assert_eq!(
        remotes("CronJob web {schedule: '@daily', command: [a], concurrencyPolicy: Allow}"),
        ["web@.service", "web-start.service", "web.timer"].map(|unit| format!("cron: the unit {unit}"))
    );
    let front =
        "LoadBalancer front {type: nginx, path: /etc/f, selector: {app: web}, listen: 80, reload: a.service}";
    assert_eq!(remotes(front), ["deployments: the path /etc/f"]);
    for file in
        ["{path: /etc/f, content: x}", "Directory {path: /etc/f}", "{path: /etc/f, block: b, content: x}"]
    {
        let told = desk.normalize_one(file).remotes;
        assert_eq!(remotes(file), ["files: the path /etc/f"]);
        // Blocks of one file are in nobody's way.
        assert_eq!(&*told[0].1.0, "/etc/f");
    }
}

#[test]
fn files_of_a_certificate_are_its_own() {
    let desk = Desk::with(|config| (config.root, config.bus) = ("/".into(), Some("system".into())));
    let certificate = "Certificate web {issuerRef: {name: le}, output: {directory: /etc/ssl/web}}";
    let refused = |spec: &str| {
        let (_, problems) = desk.normalize(&[certificate, spec]);
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(
            shown.iter().any(|text| text.contains("is written by Certificate/web as well")),
            "{shown:#?}"
        );
    };
    refused("{path: /etc/ssl/web/tls.key, content: x}");
    refused("{path: /etc/ssl/web, symlink: other}");
    refused(
        "LoadBalancer front {type: nginx, path: /etc/ssl/web/tls.crt, selector: {app: web}, listen: 80, reload: a.service}",
    );
    for spec in ["{path: /etc/ssl/web/dhparam, content: x}", "Directory {path: /etc/ssl/web, mode: \"0750\"}"]
    {
        assert!(desk.normalize(&[certificate, spec]).1.is_empty(), "{spec}");
    }
    let purge = "Directory {path: /etc/ssl, purge: true}";
    let rules: Vec<_> =
        desk.normalize_all(&[certificate, purge]).into_iter().flat_map(|one| one.ignored).collect();
    let rules: Vec<_> = rules.into_iter().map(|(_, rule)| rule).collect();
    let left = |path: &str| is_left_alone(&desk, &rules, path);
    for path in ["/etc/ssl/web", "/etc/ssl/web/tls.key", "/etc/ssl/web/..data", "/etc/ssl/web/..2026/tls.key"]
    {
        assert!(left(path), "{path}");
    }
    assert!(!left("/etc/ssl/web/old") && !left("/etc/ssl/other") && !left("/etc/ssl/web2/tls.key"));
}

#[tokio::test]
async fn a_balancer_in_a_purged_directory_is_no_stray() {
    let desk = Desk::with(|config| config.bus = Some("system".into()));
    let front = "LoadBalancer front {type: nginx, path: /etc/d/n/f, selector: {app: web}, listen: 80, reload: a.service}";
    let rules: Vec<_> = desk.normalize_one(front).ignored.into_iter().map(|(_, rule)| rule).collect();
    let purge = desk.normalize_one("Directory {path: /etc/d, purge: true}");
    let rules: Vec<_> = rules.into_iter().chain(purge.ignored.into_iter().map(|(_, rule)| rule)).collect();
    let left = |path: &str| is_left_alone(&desk, &rules, path);
    assert!(left("/etc/d/n/f") && left("/etc/d/n") && left("/etc/other"));
    assert!(!left("/etc/d/n/g") && !left("/etc/d/x"));
}

/// True when what is at `path` stays, though nobody declares it.
fn is_left_alone(desk: &Desk, rules: &[Arc<str>], path: &str) -> bool {
    let scope = Scope::new("host", "files");
    let observed = Observed::new(path.into(), "");
    let seen = Observation {
        covered: Focus::All,
        complete: true,
        version: Version::Unknown,
        resources: vec![observed.clone()],
    };
    desk.provider.left_alone(&scope, rules, &observed, &seen).is_some()
}
