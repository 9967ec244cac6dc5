//! What is read of the files of units is what systemd says when it is asked for each.

use crate::units::Machine;
use reconciled_local::hands::{Bus, Manager, UnitState};
use std::{fs, os::unix::fs::symlink};

/// A machine and its manager, once with its files and once without.
struct Both {
    machine: Machine,
    seen: Bus,
    asked: Bus,
    names: Vec<String>,
}

impl Both {
    fn boot() -> Option<Both> {
        let machine = Machine::of("systemd", |_| {})?;
        let address = format!("unix:path={}", machine.dir.join("bus/system_bus_socket").display());
        let root = machine.desk_path("/");
        let (seen, asked) = (Bus::new(&address, Some(&root)), Bus::new(&address, None));
        Some(Both { machine, seen, asked, names: Vec::new() })
    }
    fn write(&self, name: &str, content: &str) {
        let file = self.machine.file(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
    async fn agree(&self, when: &str) -> Vec<UnitState> {
        let (seen, asked) =
            (self.seen.units(&self.names).await.unwrap(), self.asked.units(&self.names).await.unwrap());
        for ((name, seen), asked) in self.names.iter().zip(&seen).zip(&asked) {
            assert_eq!(seen, asked, "{name}, {when}");
        }
        seen
    }
}

const SERVICE: &str = "[Service]\nExecStart=/bin/sleep 1d\n";
const WANTED: &str = "[Service]\nExecStart=/bin/sleep 1d\n[Install]\nWantedBy=basic.target\n";

#[tokio::test]
async fn files_say_what_systemd_says() {
    let Some(mut both) = Both::boot() else { return };
    let list = both.machine.run(&["systemctl", "list-unit-files", "--no-legend", "--no-pager"]);
    both.names = list.lines().filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect();
    assert!(both.names.len() > 100, "those of the system are among them: {}", both.names.len());
    let own = [
        "plain.service",
        "wanted.service",
        "linked.service",
        "masked.service",
        "alias.service",
        "named.service",
        "also.service",
        "many@.service",
        "many@1.service",
        "many@2.service",
        "extended.service",
        "run.service",
        "pre-fix.service",
        "nowhere.service",
        "gone.service",
    ];
    both.names.extend(own.map(str::to_owned));
    both.names.sort();
    both.names.dedup();
    for name in ["plain.service", "gone.service", "pre-fix.service"] {
        both.write(name, SERVICE);
    }
    for name in ["wanted.service", "linked.service", "many@.service", "run.service"] {
        both.write(name, WANTED);
    }
    both.write("extended.service", SERVICE);
    both.write("extended.service.d/install.conf", "[Install]\nWantedBy=basic.target\n");
    both.write("named.service", "[Service]\nExecStart=/bin/sleep 1d\n[Install]\nAlias=alias.service\n");
    both.write("also.service", "[Service]\nExecStart=/bin/sleep 1d\n[Install]\nAlso=wanted.service\n");
    symlink("/dev/null", both.machine.file("masked.service")).unwrap();
    both.agree("written and not read").await;
    both.names = own.map(str::to_owned).to_vec();
    both.machine.run(&["systemctl", "enable", "linked.service", "named.service", "many@1.service"]);
    both.machine.run(&["systemctl", "enable", "--runtime", "run.service"]);
    both.machine.run(&["systemctl", "start", "plain.service", "many@2.service", "extended.service"]);
    let states = both.agree("enabled and started").await;
    let of = |name: &str, states: &[UnitState]| {
        states[both.names.iter().position(|known| known == name).unwrap()].clone()
    };
    assert_eq!(of("linked.service", &states).file, "enabled");
    assert_eq!(of("wanted.service", &states).file, "disabled");
    assert!(!of("plain.service", &states).invocation.is_empty());

    // Links that nobody told systemd of.
    fs::remove_file(both.machine.file("basic.target.wants/linked.service")).unwrap();
    let states = both.agree("a link taken away").await;
    assert_eq!(of("linked.service", &states).file, "disabled");
    fs::create_dir_all(both.machine.file("basic.target.requires")).unwrap();
    symlink("../wanted.service", both.machine.file("basic.target.requires/wanted.service")).unwrap();
    both.agree("a link made").await;

    // What is edited and not read: a file, drop-ins of a unit, of its type, of what its name begins with.
    for name in
        ["plain.service", "extended.service.d/new.conf", "service.d/all.conf", "pre-.service.d/some.conf"]
    {
        both.machine.run(&["systemctl", "daemon-reload"]);
        let content = if name.ends_with(".conf") {
            "[Unit]\nDescription=x\n"
        } else {
            "[Service]\nExecStart=/bin/sleep 2d\n"
        };
        both.write(name, content);
        let states = both.agree(name).await;
        assert!(states.iter().any(|state| state.needs_reload), "{name}");
    }
    both.machine.run(&["systemctl", "daemon-reload"]);
    fs::remove_dir_all(both.machine.file("extended.service.d")).unwrap();
    let states = both.agree("drop-ins taken away").await;
    assert!(of("extended.service", &states).needs_reload);
    both.machine.run(&["systemctl", "daemon-reload"]);
    fs::remove_file(both.machine.file("plain.service")).unwrap();
    let states = both.agree("a file taken away").await;
    assert!(of("plain.service", &states).needs_reload);

    // Which run it is, however it came to it.
    let before = of("many@2.service", &states).invocation;
    for step in [
        "restart many@2.service",
        "kill -s KILL many@2.service",
        "stop extended.service",
        "start extended.service",
    ] {
        both.machine.run(&[&["systemctl"][..], &step.split(' ').collect::<Vec<_>>()].concat());
        both.agree(step).await;
    }
    both.machine.run(&["systemctl", "restart", "many@2.service"]);
    assert_ne!(of("many@2.service", &both.agree("run anew").await).invocation, before);
}

#[tokio::test]
async fn five_hundred_units_that_are_well_are_a_few_calls() {
    let Some(mut both) = Both::boot() else { return };
    both.names = (0..500).map(|number| format!("n{number}.service")).collect();
    both.names.iter().for_each(|name| both.write(name, WANTED));
    both.asked.reload().await.unwrap();
    let calls = |bus: &str| -> u64 {
        let ask = [
            "busctl",
            "call",
            "org.freedesktop.DBus",
            "/org/freedesktop/DBus",
            "org.freedesktop.DBus.Debug.Stats",
            "GetConnectionStats",
            "s",
            bus,
        ];
        let said = both.machine.run(&ask);
        let (_, rest) = said.split_once("\"OutgoingMessages\" u ").unwrap();
        rest.split_whitespace().next().unwrap().parse().unwrap()
    };
    both.seen.units(&both.names).await.unwrap();
    let before = calls("org.freedesktop.systemd1");
    both.seen.units(&both.names).await.unwrap();
    let many = calls("org.freedesktop.systemd1") - before;
    assert!(many < 50, "{many} messages of systemd");
}
