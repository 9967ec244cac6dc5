//! Deployments at a real systemd, booted in namespaces of its own by `tests/rig/systemd`.

use crate::{desk::Desk, units::Machine};
use futures_util::StreamExt;
use reconciled_provider::{Focus, Health};
use reconciled_testkit::PATIENCE;
use std::{
    collections::HashMap,
    ops::RangeInclusive,
    time::{Duration, Instant},
};

const INSTALL: &str = "[Install]\\nWantedBy=basic.target\\n";

/// A deployment of `replicas` whose instances run `command`.
fn web(replicas: u32, command: &str, rest: &str) -> String {
    format!(
        "Deployment web {{content: \"[Service]\\nExecStart={command}\\n{INSTALL}\", replicas: {replicas}, minReadySeconds: 0{rest}}}"
    )
}

pub(crate) fn unit(number: u32) -> String {
    format!("web@{number}.service")
}

impl Machine {
    pub(crate) fn is_active(&self, number: u32) -> bool {
        self.property(&unit(number), "ActiveState") == "active"
    }
    /// A property of each instance, by one question.
    fn each(&self, numbers: RangeInclusive<u32>, name: &str) -> Vec<String> {
        let units: Vec<String> = numbers.map(unit).collect();
        let mut command = vec!["systemctl", "show", "--value", "-p", name];
        command.extend(units.iter().map(String::as_str));
        let said = self.run(&command);
        let values: Vec<String> = said.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        assert_eq!(values.len(), units.len(), "{said}");
        values
    }
    /// The command line of each instance.
    fn commands(&self, numbers: RangeInclusive<u32>) -> Vec<String> {
        let pids = self.each(numbers, "MainPID");
        let said = self.run(&["ps", "-o", "pid=,args=", "-p", &pids.join(",")]);
        let of: HashMap<&str, &str> =
            said.lines().filter_map(|line| line.trim().split_once(char::is_whitespace)).collect();
        pids.iter().map(|pid| of[pid.as_str()].trim().to_owned()).collect()
    }
    /// Files of the deployment.
    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.join("etc")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.starts_with("web@")).collect();
        names.sort();
        names
    }
}

/// Passes until nothing is on its way; what each of them did, and how many instances were available at worst.
pub(crate) async fn roll(
    machine: &Machine,
    specs: &[&str],
    numbers: RangeInclusive<u32>,
) -> (Vec<String>, usize) {
    let (start, mut done, mut worst) = (Instant::now(), Vec::new(), usize::MAX);
    loop {
        done.extend(machine.desk.pass(specs).await.done);
        let states = machine.each(numbers.clone(), "ActiveState");
        worst = worst.min(states.iter().filter(|state| *state == "active").count());
        if !machine.desk.is_pending() {
            return (done, worst);
        }
        assert!(start.elapsed() < PATIENCE, "it never ends: {done:#?}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[tokio::test]
async fn instances_are_started_healed_scaled_and_taken_away() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    let three = web(3, "/bin/sleep 1d", "");
    let made = desk.pass(&[&three]).await.done;
    assert_eq!(made.len(), 4, "{made:?}");
    assert!(made.iter().all(|line| line.starts_with("create web@") && line.ends_with(": done")), "{made:?}");
    assert_eq!(desk.pass(&[&three]).await.done, [""; 0]);
    assert!((1..=3).all(|number| machine.is_active(number)));
    assert_eq!(machine.property("web@2.service", "UnitFileState"), "enabled");
    let healthy = desk.health(&desk.desired(&[&three])).await;
    assert_eq!(healthy, vec![Health::Healthy; 4]);

    // Each is healed by itself, and the others run on.
    let pid = machine.pid(&unit(1));
    machine.run(&["systemctl", "kill", "-s", "KILL", "web@2.service"]);
    machine.run(&["systemctl", "stop", "web@3.service"]);
    crate::units::wait_for("it is seen", || !machine.is_active(2) && !machine.is_active(3));
    let healed = desk.pass(&[&three]).await;
    assert_eq!(healed.done, ["update web@2.service: done", "update web@3.service: done"]);
    assert_eq!(healed.fields[0], "state Text(\"stopped: signal, status 9\") Text(\"running\")");
    assert_eq!(healed.fields[1], "state Text(\"stopped\") Text(\"running\")", "a person stopped it");
    assert_eq!(desk.pass(&[&three]).await.done, [""; 0]);
    assert_eq!(machine.pid(&unit(1)), pid);

    let five = web(5, "/bin/sleep 1d", "");
    assert_eq!(desk.pass(&[&five]).await.done, ["create web@4.service: done", "create web@5.service: done"]);
    assert_eq!(desk.pass(&[&five]).await.done, [""; 0]);
    let gone = desk.pass(&[&web(2, "/bin/sleep 1d", "")]).await.done;
    assert_eq!(gone.len(), 3, "{gone:?}");
    assert!(!machine.is_active(3) && !machine.is_active(5) && machine.is_active(2));
    assert_eq!(machine.pid(&unit(1)), pid);

    desk.pass(&[]).await;
    assert_eq!(desk.pass(&[]).await.done, [""; 0]);
    assert_eq!((machine.is_active(1), machine.files().len()), (false, 0));
    assert_eq!(machine.property("web@1.service", "LoadState"), "not-found");
}

#[tokio::test]
async fn a_new_revision_comes_step_by_step_and_enough_instances_serve_all_the_time() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    let rest = ", strategy: {maxUnavailable: 2}";
    desk.pass(&[&web(5, "/bin/sleep 1d", rest)]).await;
    let described = web(5, "/bin/sleep 1d", rest).replace("[Service]", "[Unit]\\nDescription=d\\n[Service]");
    let pids = |machine: &Machine| (1..=5).map(|number| machine.pid(&unit(number))).collect::<Vec<_>>();
    let before = pids(&machine);
    assert_eq!(desk.pass(&[&described]).await.done, ["update web@.service: done"]);
    assert_eq!(pids(&machine), before, "nobody would notice");

    let next = web(5, "/bin/sleep 2d", rest);
    let (done, worst) = roll(&machine, &[&next], 1..=5).await;
    assert_eq!(done.first().unwrap(), "update web@.service: pending");
    assert_eq!(done.last().unwrap(), "continue web@.service: done");
    assert!(worst >= 3, "{worst} were available");
    assert_eq!(machine.commands(1..=5), vec!["/bin/sleep 2d"; 5]);
    assert_eq!(machine.files(), ["web@.service"], "nothing is left of the way");
    assert_eq!(desk.pass(&[&next]).await.done, [""; 0]);

    // More instead of fewer, while it goes on.
    let surge = web(5, "/bin/sleep 3d", ", strategy: {maxSurge: 40%}");
    let (_, worst) = roll(&machine, &[&surge], 1..=7).await;
    assert!(worst >= 5, "{worst} were available");
    assert_eq!(machine.commands(1..=5), vec!["/bin/sleep 3d"; 5]);
    assert!(!machine.is_active(6) && !machine.is_active(7));
    assert_eq!(machine.files(), ["web@.service"]);
    assert_eq!(desk.pass(&[&surge]).await.done, [""; 0]);
}

#[tokio::test]
async fn a_revision_that_does_not_do_is_taken_back_and_not_tried_again() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    let good = web(3, "/bin/sleep 1d", "");
    desk.pass(&[&good]).await;
    let untouched = (machine.pid(&unit(2)), machine.pid(&unit(3)));
    let bad = web(3, "/bin/false", "").replace("minReadySeconds: 0", "minReadySeconds: 1");
    let (done, worst) = roll(&machine, &[&bad], 1..=3).await;
    assert!(worst >= 2, "{worst} were available: {done:#?}");
    let last = done.last().unwrap();
    assert!(last.contains("partial: invalid: the new revision of web@.service was taken back"), "{done:#?}");
    assert!(last.contains("web@1.service is failed: exit-code, exit status 1"), "{last}");
    assert_eq!(machine.commands(1..=3), vec!["/bin/sleep 1d"; 3]);
    assert_eq!(untouched, (machine.pid(&unit(2)), machine.pid(&unit(3))), "never touched");
    assert_eq!(machine.files(), ["web@.service"]);

    // It stays so, while the instances are kept as they are.
    for _ in 0..3 {
        let pass = desk.pass(&[&bad]).await;
        assert!(pass.done.len() == 1 && pass.done[0].starts_with("invalid: "), "{pass:?}");
    }
    machine.run(&["systemctl", "stop", "web@2.service"]);
    assert_eq!(desk.pass(&[&bad]).await.done[0], "update web@2.service: done");
    assert_eq!(machine.commands(2..=2), ["/bin/sleep 1d"]);
    let health = desk.health_of_all(&desk.desired(&[&bad])).await;
    assert!(matches!(&health[3], Health::Degraded { why } if why.contains("taken back")), "{health:?}");

    // Another revision is another matter.
    let (done, _) = roll(&machine, &[&web(3, "/bin/sleep 5d", "")], 1..=3).await;
    assert_eq!(done.last().unwrap(), "continue web@.service: done");
    assert_eq!(machine.commands(1..=3), vec!["/bin/sleep 5d"; 3]);
}

#[tokio::test]
async fn a_few_instances_try_a_revision_and_the_others_follow_or_do_not() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    let rest = ", strategy: {maxUnavailable: 3, canary: {instances: 1, seconds: 2}}";
    desk.pass(&[&web(4, "/bin/sleep 1d", rest)]).await;
    let next = web(4, "/bin/sleep 2d", rest);
    let (start, mut alone) = (Instant::now(), None);
    desk.pass(&[&next]).await;
    while desk.is_pending() {
        let new = machine.commands(1..=4).iter().filter(|command| *command == "/bin/sleep 2d").count();
        match new {
            0 => {}
            1 => drop(alone.get_or_insert_with(Instant::now)),
            _ => break,
        }
        assert!(start.elapsed() < PATIENCE, "the others never follow");
        desk.pass(&[&next]).await;
    }
    assert!(alone.unwrap().elapsed() >= Duration::from_millis(1_500), "it was alone for a while");
    roll(&machine, &[&next], 1..=4).await;
    assert_eq!(machine.commands(1..=4), vec!["/bin/sleep 2d"; 4]);
    assert_eq!(machine.files(), ["web@.service"]);

    // One that dies on the way keeps the others as they are.
    let pids = |machine: &Machine| (2..=4).map(|number| machine.pid(&unit(number))).collect::<Vec<_>>();
    let before = pids(&machine);
    let bad = web(4, "/bin/sh -c \\\"sleep 1; exit 3\\\"", rest);
    let (done, _) = roll(&machine, &[&bad], 1..=4).await;
    assert!(done.last().unwrap().contains("was taken back"), "{done:?}");
    assert_eq!(pids(&machine), before, "nobody else was touched");
    assert_eq!(machine.commands(1..=1), ["/bin/sleep 2d"]);
}

#[tokio::test]
async fn a_revision_that_systemd_will_not_load_is_taken_back() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    desk.pass(&[&web(3, "/bin/sleep 1d", "")]).await;
    let pids = |machine: &Machine| (1..=3).map(|number| machine.pid(&unit(number))).collect::<Vec<_>>();
    let before = pids(&machine);
    let bad = web(3, "/bin/sleep 1d", "").replace("ExecStart=/bin/sleep 1d", "Environment=A=1");
    let (done, worst) = roll(&machine, &[&bad], 1..=3).await;
    assert!(worst >= 2, "{worst} were available: {done:#?}");
    assert!(
        done.last().unwrap().contains("taken back: systemd cannot load web@1.service: bad-setting"),
        "{done:#?}"
    );
    assert_eq!(machine.commands(1..=3), vec!["/bin/sleep 1d"; 3]);
    assert_eq!(pids(&machine)[1..], before[1..], "never touched");
    assert_eq!(machine.files(), ["web@.service"]);
}

#[tokio::test]
async fn a_revision_that_does_not_load_and_has_none_to_go_back_to_ends_with_the_reason() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    let bad = |value: u32| {
        web(2, "/bin/sleep 1d", "").replace("ExecStart=/bin/sleep 1d", &format!("Environment=A={value}"))
    };
    // How the template fares, once it is not on its way any longer.
    let end = async |spec: &str| {
        let start = Instant::now();
        loop {
            let done = desk.pass(&[spec]).await.done;
            let is_of_it = |line: &&String| {
                line.contains(" web@.service: ")
                    || line.starts_with("invalid: the new revision of web@.service")
            };
            let line = done.iter().find(is_of_it).cloned();
            match line.filter(|line| !line.ends_with(": pending")) {
                Some(line) => return (line, done),
                None => assert!(start.elapsed() < PATIENCE, "it never ends: {done:#?}"),
            }
        }
    };
    let (template, done) = end(&bad(1)).await;
    assert_eq!((template.as_str(), done.len()), ("create web@.service: done", 3));
    assert!(done[1..].iter().all(|line| line.contains(": failed: invalid: start web@")), "{done:#?}");
    // The one before is no better.
    let (template, done) = end(&bad(2)).await;
    assert!(template.contains(": partial: invalid: ") && template.contains("bad-setting"), "{done:#?}");
    let (template, done) = end(&bad(2)).await;
    assert!(template.contains("invalid: ") && template.contains("was taken back"), "{done:#?}");
    let good = web(2, "/bin/sleep 2d", "");
    roll(&machine, &[&good], 1..=2).await;
    assert_eq!(machine.commands(1..=2), vec!["/bin/sleep 2d"; 2]);
    assert_eq!(machine.files(), ["web@.service"]);
    assert_eq!(desk.pass(&[&good]).await.done, [""; 0]);
}

#[tokio::test]
async fn instances_of_a_template_that_is_refused_are_refused_with_it() {
    let Some((machine, _helper)) = Machine::helped("deployments", "units: ['web@*']\n") else { return };
    let desk = &machine.desk;
    let good = web(2, "/bin/sleep 1d", "");
    let refused = good.replace("[Service]", "[Service]\\nNoSuchKey=1");
    let pass = desk.pass(&[&refused]).await;
    assert_eq!(pass.done.len(), 3, "{pass:?}");
    assert!(
        pass.done.iter().all(|line| line.starts_with("invalid: ") && line.contains("NoSuchKey")),
        "{pass:?}"
    );
    assert!(
        pass.done.iter().any(|line| line.contains("web@1.service is not started, for want of")),
        "{pass:?}"
    );
    assert_eq!(machine.files(), [""; 0]);

    // Those that are there have a template, and are healed from it.
    roll(&machine, &[&good], 1..=2).await;
    machine.run(&["systemctl", "stop", "web@2.service"]);
    let pass = desk.pass(&[&refused]).await;
    assert_eq!(pass.done.iter().filter(|line| line.starts_with("invalid: ")).count(), 1, "{pass:?}");
    assert!(machine.is_active(2));
}

#[tokio::test]
async fn what_is_half_made_of_a_deployment_is_ours_and_gone_on_with() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    // One instance: its template, the instance, each put down before it is touched.
    for lives in 0..4 {
        let spec = web(1, &format!("/bin/sleep {}d", lives + 1), "");
        let lived = desk.pass_dying(&[&spec], lives).await;
        assert!(!lived || lives > 2, "{lives}");
        assert!(desk.is_tracked("web@.service"), "{lives}");
        if lives == 2 {
            // The link that was made before it died.
            assert!(desk.is_tracked("web@1.service"));
            machine.run(&["systemctl", "enable", "web@1.service"]);
        }
        roll(&machine, &[&spec], 1..=1).await;
        assert_eq!(machine.commands(1..=1), [format!("/bin/sleep {}d", lives + 1)]);
        assert_eq!(desk.pass(&[&spec]).await.done, [""; 0]);
        roll(&machine, &[], 1..=1).await;
        assert_eq!(desk.pass(&[]).await.done, [""; 0]);
        assert_eq!(machine.files().len(), 0);
    }
    // A start that fails leaves an instance that is ours.
    let failing = web(1, "/bin/false", "").replace("[Service]", "[Service]\\nType=oneshot");
    let done = desk.pass(&[&failing]).await.done;
    assert!(done.iter().any(|line| line.starts_with("create web@1.service: partial: ")), "{done:?}");
    assert!(desk.is_tracked("web@1.service"));
    roll(&machine, &[], 1..=1).await;
}

#[tokio::test]
async fn hundreds_of_instances_are_started_brought_up_to_date_and_healed() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    let two_hundred = |command: &str| web(200, command, ", strategy: {maxUnavailable: 100%}");
    let old = two_hundred("/bin/sleep 1d");
    desk.pass(&[&old]).await;
    assert_eq!(desk.pass(&[&old]).await.done, [""; 0]);
    let new = two_hundred("/bin/sleep 2d");
    roll(&machine, &[&new], 1..=200).await;
    assert_eq!(machine.commands(1..=200), vec!["/bin/sleep 2d"; 200]);
    machine.run(&["systemctl", "stop", "web@*.service"]);
    desk.pass(&[&new]).await;
    assert_eq!(desk.pass(&[&new]).await.done, [""; 0]);
    assert_eq!(machine.commands(1..=200), vec!["/bin/sleep 2d"; 200]);
}

#[tokio::test]
async fn an_instance_that_cannot_be_looked_at_is_neither_well_nor_gone() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    let two = web(2, "/bin/sleep 1d", "");
    desk.pass(&[&two]).await;
    let pid = machine.pid(&unit(2));
    std::fs::create_dir(machine.file("web@2.service")).unwrap();
    let done = desk.pass(&[&two]).await.done;
    assert_eq!(done.len(), 2, "{done:?}");
    assert!(
        done.iter().all(|line| line == "invalid: /etc/systemd/system/web@2.service is no file"),
        "{done:?}"
    );
    let done = desk.pass(&[&web(1, "/bin/sleep 1d", "")]).await.done;
    assert!(done.iter().any(|line| line.starts_with("delete web@2.service: failed: invalid")), "{done:?}");
    assert!(desk.is_tracked("web@2.service"));
    assert_eq!(machine.pid(&unit(2)), pid);
}

#[tokio::test]
async fn what_somebody_put_beside_the_template_or_an_instance_is_drift_and_goes() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    let two = web(2, "/bin/sleep 1d", "");
    let mut hints = desk.provider.hints();
    while !desk.pass(&[&two]).await.done.is_empty() {}
    let pids = || [1, 2].map(|number| machine.pid(&unit(number)));
    let before = pids();
    machine.run(&["systemctl", "set-property", "web@1.service", "TasksMax=7"]);
    machine.run(&["systemctl", "set-property", "--runtime", "web@2.service", "TasksMax=8"]);
    let pass = desk.pass(&[&two]).await;
    assert_eq!(pass.done, ["update web@.service: done"]);
    for (at, number, tasks) in [("/etc", 1, "7"), ("/run", 2, "8")] {
        let path = format!("{at}/systemd/system.control/web@{number}.service.d/50-TasksMax.conf");
        let told = pass.fields.iter().find(|field| field.contains(&path));
        assert!(told.is_some_and(|field| field.contains("TasksMax=")), "{path}: {:?}", pass.fields);
        assert!(!machine.desk_path(&path).exists());
        assert_ne!(machine.property(&unit(number), "TasksMax"), tasks);
    }
    assert_eq!(pids(), before, "limits need no restart");
    assert_eq!(desk.pass(&[&two]).await.done, [""; 0]);

    // As `systemctl edit` does it: of the template, with one instance that was started with it; of one instance.
    let edit = |unit: &str, text: &str| {
        let directory = machine.file(&format!("{unit}.d"));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("override.conf"), text).unwrap();
        machine.run(&["systemctl", "daemon-reload"]);
        directory.join("override.conf")
    };
    while tokio::time::timeout(Duration::from_secs(1), hints.next()).await.is_ok() {}
    std::fs::create_dir(machine.file("web@.service.d")).unwrap();
    let told = async {
        loop {
            let hint = hints.next().await.unwrap();
            let is_it = matches!(&hint.focus, Focus::Only(ids) if ids.contains(&"web@.service".into()));
            if is_it && &*hint.scope.name == "deployments" {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
    let of_template = edit("web@.service", "[Service]\nEnvironment=A=1\n");
    machine.run(&["systemctl", "restart", "web@2.service"]);
    let by_hand = machine.pid(&unit(2));
    let (done, _) = roll(&machine, &[&two], 1..=2).await;
    assert_eq!(done.last().unwrap(), "continue web@.service: done", "{done:#?}");
    assert!(!of_template.exists() && machine.pid(&unit(1)) == before[0]);
    assert!(machine.pid(&unit(2)) != by_hand && machine.property(&unit(2), "Environment").is_empty());
    assert_eq!(desk.pass(&[&two]).await.done, [""; 0]);
    let of_one = edit("web@1.service", "[Service]\nEnvironment=B=1\n");
    let pass = desk.pass(&[&two]).await;
    assert_eq!(pass.done, ["update web@.service: done"]);
    assert!(pass.fields.iter().any(|field| field.contains("web@1.service.d/override.conf")), "{pass:?}");
    assert!(!of_one.exists() && machine.pid(&unit(1)) == before[0]);
    assert_eq!(desk.originals().len(), 4, "what somebody wrote is kept");
    assert_eq!(desk.pass(&[&two]).await.done, [""; 0]);
}

#[tokio::test]
async fn an_instance_that_does_not_answer_is_not_available() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    // A port that nobody has, and one that somebody has.
    let free = crate::sockets::port();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let rest = |port: u16| format!(", progressDeadlineSeconds: 1, health: [{{tcp: \"127.0.0.1:{port}\"}}]");
    let served = taken.local_addr().unwrap().port();
    desk.pass(&[&web(2, "/bin/sleep 1d", &rest(served))]).await;
    let (done, worst) = roll(&machine, &[&web(2, "/bin/sleep 2d", &rest(free))], 1..=2).await;
    assert!(done.last().unwrap().contains("no progress within 1 s"), "{done:#?}");
    assert!(worst >= 1, "{worst} were available: those that run the old one are as well as they were");
    assert_eq!(machine.commands(1..=2), vec!["/bin/sleep 1d"; 2]);
    let health = desk.health(&desk.desired(&[&web(2, "/bin/sleep 1d", &rest(free))])).await;
    assert!(
        health.iter().any(|health| matches!(health, Health::Degraded { why } if why.contains("refused")))
    );
    let (done, _) = roll(&machine, &[&web(2, "/bin/sleep 3d", &rest(served))], 1..=2).await;
    assert_eq!(done.last().unwrap(), "continue web@.service: done");
}

#[tokio::test]
async fn another_content_of_a_file_that_the_service_reads_is_another_revision() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    let spec =
        web(3, "/bin/sh -c '! grep bad /etc/app.conf && exec sleep 1d'", ", restartOn: [/etc/app.conf]");
    let file = |text: &str| {
        std::fs::write(machine.desk_path("/etc/app.conf"), text).unwrap();
        format!("{{path: /etc/app.conf, content: {text}}}")
    };
    // The desk is for deployments alone: the file is there by other hands.
    let of = |file: &str| {
        let all = desk.desired(&[&spec, file]);
        all.into_iter().filter(|one| &*one.scope.name == "deployments").collect::<Vec<_>>()
    };
    let pids = || (1..=3).map(|number| machine.pid(&unit(number))).collect::<Vec<_>>();
    let roll = async |file: &str| {
        let (desired, mut done, start) = (of(file), Vec::new(), Instant::now());
        loop {
            let (batch, errors, _) = desk.plan(&desired).await;
            done.extend(desk.apply(&batch).await);
            done.extend(errors);
            if !desk.is_pending() {
                return done;
            }
            assert!(start.elapsed() < PATIENCE, "it never ends: {done:#?}");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    };
    roll(&file("one")).await;
    let before = pids();
    assert_eq!(roll(&file("one")).await, [""; 0]);
    let done = roll(&file("two")).await;
    assert_eq!(done.last().unwrap(), "continue web@.service: done", "{done:?}");
    assert!(pids().iter().zip(&before).all(|(now, before)| now != before), "each was restarted");
    // One that they do not bear stops at the first step, whose instance cannot come back before the file is mended.
    let (bad, before) = (of(&file("bad")), pids());
    let start = Instant::now();
    while machine.property("web@1.service", "ActiveState") != "failed" {
        let (batch, _, _) = desk.plan(&bad).await;
        desk.apply(&batch).await;
        assert!(start.elapsed() < PATIENCE, "the first one never fails");
    }
    for _ in 0..5 {
        let (batch, _, _) = desk.plan(&bad).await;
        desk.apply(&batch).await;
    }
    assert_eq!(pids()[1..], before[1..], "the others serve");
    let done = roll(&file("good")).await;
    assert_eq!(done.last().unwrap(), "continue web@.service: done", "{done:?}");
    assert_eq!(roll(&file("good")).await, [""; 0]);
}

#[tokio::test]
async fn a_service_that_never_says_that_it_is_ready_is_taken_back() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    machine.desk.pass(&[&web(2, "/bin/sleep 1d", "")]).await;
    // It runs, and systemd waits in vain for its READY=1.
    let silent =
        web(2, "/bin/sleep 2d", "").replace("[Service]", "[Service]\\nType=notify\\nTimeoutStartSec=1");
    let (done, worst) = roll(&machine, &[&silent], 1..=2).await;
    let last = done.last().unwrap();
    assert!(
        last.contains("was taken back: ") && last.contains("web@1.service is failed: timeout"),
        "{done:#?}"
    );
    assert!(worst >= 1, "{worst} were available");
    assert_eq!(machine.commands(1..=2), vec!["/bin/sleep 1d"; 2]);
}

#[tokio::test]
async fn a_process_that_dies_anywhere_in_a_rollout_takes_up_the_same_step() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    let spec = |days: usize| web(4, &format!("/bin/sleep {days}d"), "");
    desk.pass(&[&spec(1)]).await;
    // A life of `lives` calls of the journal, over and over, and one that is long enough in between.
    for (days, lives) in [(2, 0), (3, 1)] {
        let (start, spec) = (Instant::now(), spec(days));
        let mut deaths = 0;
        while machine.desk.is_pending() || machine.commands(1..=4) != vec![format!("/bin/sleep {days}d"); 4] {
            deaths += usize::from(!desk.pass_dying(&[&spec], lives).await);
            let active = (1..=4).filter(|number| machine.is_active(*number)).count();
            assert!(active >= 3, "{active} are active after {deaths} deaths");
            if deaths % 3 == 2 {
                desk.pass(&[&spec]).await;
            }
            assert!(start.elapsed() < PATIENCE, "it never ends");
        }
        assert!(deaths > 2, "{deaths}");
        assert_eq!(desk.pass(&[&spec]).await.done, [""; 0]);
        assert_eq!(machine.files(), ["web@.service"]);
    }
}

#[test]
fn shares_that_come_to_nothing_mean_one_by_one() {
    let desk = Desk::with(|config| config.bus = Some("system".into()));
    for rest in [
        "replicas: 3, strategy: {maxUnavailable: 25%}",
        "replicas: 0, strategy: {maxUnavailable: 25%}",
        "replicas: 0, strategy: {maxUnavailable: 0, maxSurge: 25%}",
        "replicas: 3, strategy: {maxUnavailable: 10%, maxSurge: 0}",
    ] {
        let desired = desk.desired(&[&format!("Deployment web {{content: x, {rest}}}")]);
        let template = desired.iter().find(|one| &*one.id.0 == "web@.service").unwrap();
        let shown = desk.provider.show(&template.id, template.spec.bytes().unwrap());
        let one = shown.iter().find(|(name, _)| &**name == "strategy.maxUnavailable").unwrap();
        assert_eq!(one.1, "1", "{rest}");
    }
}

#[test]
fn deployments_that_mean_nothing_are_refused_with_what_to_write() {
    let refuse = |specs: &[&str], part: &str| {
        let desk = Desk::with(|config| config.bus = Some("system".into()));
        let (_, problems) = desk.normalize(specs);
        let shown: Vec<String> = problems.iter().map(|problem| problem.to_string()).collect();
        assert!(shown.iter().any(|text| text.contains(part)), "{specs:?}: {shown:#?}");
        assert!(problems.iter().all(|problem| problem.hint.is_some()), "{shown:#?}");
    };
    let with = |rest: &str| format!("Deployment web {{content: \"[Service]\"{rest}}}");
    refuse(&["Deployment web@.service {content: x}"], "no name of a service");
    refuse(&["Deployment web.service {content: x}"], "the name of a unit");
    refuse(&[&with(", replicas: 5000")], "too many");
    refuse(&[&with(", strategy: {maxUnavailable: many}")], "no number of instances");
    refuse(&[&with(", strategy: {maxUnavailable: 0}")], "no instance could ever be replaced");
    refuse(
        &[&with(", strategy: {maxUnavailable: 0%, maxSurge: 0}, replicas: 3")],
        "no instance could ever be replaced",
    );
    refuse(
        &[&with(", replicas: 2, strategy: {canary: {instances: 2}}")],
        "2 of 2 instances cannot go before the others",
    );
    refuse(&[&with(", enabled: true")], "no [Install] section");
    refuse(&[&with(", minReadySeconds: 10, progressDeadlineSeconds: 10")], "progressDeadlineSeconds");
    refuse(&[&with(", restartOn: [/etc/app.conf]")], "no `File` of this source is at /etc/app.conf");
    refuse(&[&with(", restartOn: [/root/app.conf]")], "below none of the `paths`");
    refuse(&[&with(", health: [{http: \"https://a\"}]")], "no URL that can be asked");
    refuse(&[&with(", health: [{tcp: a}]")], "no address");
    refuse(
        &[&with(", health: [{tcp: \"a:1\", http: \"http://a:1/\"}]")],
        "one of `http`, `tcp` and `command`",
    );
    refuse(&[&with(", health: [{command: nosuch}]")], "no command `nosuch`");
}
