//! What the daemon does for its state by the clock.

use crate::{
    env::{Env, zone},
    running::{Daemon, wait_for},
};
use std::{fs, io::Write, process::Command};

const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";

fn backups(env: &Env) -> Vec<String> {
    let Ok(entries) = fs::read_dir(env.path("backups")) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn exported(env: &Env) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(env.path("audit.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn backups_are_made_and_only_the_newest_stay() {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let dir = env.path("backups");
    fs::write(
        env.path("config.yaml"),
        format!("{config}\nbackup: {{dir: {}, every: 1h, keep: 2}}\n", dir.display()),
    )
    .unwrap();
    fs::create_dir(&dir).unwrap();
    let old = |day: u32| format!("desk-2020-01-0{day}T000000Z.db");
    let name = env.run(&["check"]).all();
    let instance =
        config.lines().find_map(|line| line.strip_prefix("instance: ")).unwrap_or_else(|| panic!("{name}"));
    for day in 1..4 {
        let file = dir.join(old(day).replace("desk", instance));
        fs::write(&file, "").unwrap();
        let touched =
            Command::new("touch").arg("-d").arg(format!("2020-01-0{day}")).arg(&file).status().unwrap();
        assert!(touched.success());
    }
    fs::write(dir.join("mine.db"), "not ours").unwrap();
    let unfinished = [".part", ".a1B2c3.part", ".a1B2c3.part-journal"]
        .map(|end| dir.join(old(4).replace("desk", instance) + end));
    for file in &unfinished {
        fs::write(file, "of a process that died").unwrap();
    }
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::ready(&env);
    let is_rest = || unfinished.iter().any(|file| file.exists());
    wait_for("a backup, and the oldest gone", || backups(&env).len() == 3 && !is_rest());
    let names = backups(&env);
    assert_eq!(names[2], "mine.db", "{names:?}");
    assert!(!is_rest());
    assert_eq!(names[0], old(3).replace("desk", instance), "{names:?}");
    daemon.stop();
    let copy = Command::new("sqlite3").arg(dir.join(&names[1])).arg("PRAGMA quick_check").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&copy.stdout).trim(), "ok");
    // The next is not due.
    let daemon = Daemon::ready(&env);
    daemon.stop();
    assert_eq!(backups(&env), names);
}

#[test]
fn a_backup_that_fails_is_in_status_and_metrics_until_one_succeeds() {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let dir = env.path("backups");
    env.write("config.yaml", &format!("{config}\nbackup: {{dir: {}, every: 1h}}\n", dir.display()));
    fs::write(&dir, "no folder").unwrap();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::ready(&env);
    let fails = "reconciled_upkeep_failing{work=\"backup\"} ";
    wait_for("the metric says so", || crate::telemetry::scrape(&env).contains(&format!("{fails}1")));
    env.run(&["status", "--exit-code"]).exits(3).says(&[
        "NEEDS A PERSON",
        "NotBackedUp",
        "the state cannot be backed up: make DIR/backups",
        "backup.dir",
    ]);
    fs::remove_file(&dir).unwrap();
    wait_for("a backup", || crate::telemetry::scrape(&env).contains(&format!("{fails}0")));
    env.run(&["status", "--exit-code"]).exits(0).hides(&["NotBackedUp"]);
    assert_eq!(backups(&env).len(), 1);
    daemon.stop();
}

#[test]
fn a_file_that_was_rotated_goes_on_after_a_reload() {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let file = env.path("audit.jsonl");
    env.write("config.yaml", &format!("{config}\naudit: {{keep: 400d, export: {}}}\n", file.display()));
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::ready(&env);
    wait_for("what happened is exported", || exported(&env).iter().any(|event| event["kind"] == "create"));
    fs::rename(&file, env.path("audit.jsonl.1")).unwrap();
    daemon.signal("HUP");
    wait_for("it is reloaded", || daemon.log().contains("configuration is reloaded"));
    env.run(&["suspend", "--all", "--reason", "a look"]).exits(0);
    wait_for("it goes on", || fs::read_to_string(&file).is_ok_and(|text| text.contains("a look")));
    daemon.stop();
    let old = fs::read_to_string(env.path("audit.jsonl.1")).unwrap();
    let new = exported(&env);
    assert_eq!(new[0]["number"].as_i64().unwrap(), old.lines().count() as i64 + 1, "{new:?}");
}

#[test]
fn a_file_that_was_moved_away_or_emptied_goes_on_after_a_restart() {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let file = env.path("audit.jsonl");
    let with = |name: &str| {
        let file = env.path(name);
        env.write("config.yaml", &format!("{config}\naudit: {{keep: 400d, export: {}}}\n", file.display()));
    };
    with("audit.jsonl");
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::ready(&env);
    wait_for("what happened is exported", || exported(&env).iter().any(|event| event["kind"] == "create"));
    daemon.stop();
    let mut before = exported(&env).len() as i64;
    for (turn, copies) in [("moved", false), ("emptied", true)] {
        match copies {
            true => fs::write(&file, "").unwrap(),
            false => fs::rename(&file, env.path("audit.jsonl.1")).unwrap(),
        }
        env.run(&["suspend", "--all", "--reason", turn]).exits(0);
        let daemon = Daemon::ready(&env);
        wait_for("it goes on", || fs::read_to_string(&file).is_ok_and(|text| text.contains(turn)));
        daemon.stop();
        let new = exported(&env);
        assert_eq!(new[0]["number"].as_i64().unwrap(), before + 1, "{turn}: {new:?}");
        before += new.len() as i64;
    }
    // Another file is another export.
    with("other.jsonl");
    let other = env.path("other.jsonl");
    let daemon = Daemon::ready(&env);
    wait_for("all of it", || {
        fs::read_to_string(&other).is_ok_and(|text| text.lines().count() as i64 >= before)
    });
    daemon.stop();
}

#[test]
fn check_finds_what_keeps_the_daemon_from_going_on_with_an_export_and_changes_nothing() {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let file = env.path("audit.jsonl");
    env.write("config.yaml", &format!("{config}\naudit: {{export: {}}}\n", file.display()));
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    for (text, why) in [("mine\n", "its last line is no event"), ("mine", "what it ends with is no event")] {
        fs::write(&file, text).unwrap();
        let failed = env.run(&["check"]).exits(1);
        failed.says(&["FAIL  audit.export: DIR/audit.jsonl is no audit trail: ", why, "hint: name another"]);
        let daemon = Daemon::ready(&env);
        wait_for("the daemon says so", || daemon.log().contains(why));
        daemon.stop();
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    fs::remove_file(&file).unwrap();
    let pipe = Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(pipe.success());
    env.run(&["check"]).exits(1).says(&["FAIL  audit.export: ", "it is no file"]);
    fs::remove_file(&file).unwrap();
    let daemon = Daemon::ready(&env);
    wait_for("what happened is exported", || !exported(&env).is_empty());
    daemon.stop();
    // As a crash in the middle of a line leaves it.
    fs::File::options().append(true).open(&file).unwrap().write_all(b"{\"number\": 99").unwrap();
    let before = fs::read(&file).unwrap();
    env.run(&["check"]).exits(0).says(&["ok    audit.export: DIR/audit.jsonl can be written"]);
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn every_event_is_exported_once_also_across_a_kill() {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let file = env.path("audit.jsonl");
    fs::write(
        env.path("config.yaml"),
        format!("{config}\naudit: {{keep: 400d, export: {}}}\n", file.display()),
    )
    .unwrap();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::ready(&env);
    wait_for("what happened is exported", || exported(&env).iter().any(|event| event["kind"] == "create"));
    daemon.signal("KILL");
    drop(daemon);
    // As a crash in the middle of a line leaves it.
    fs::File::options().append(true).open(&file).unwrap().write_all(b"{\"number\": 99").unwrap();
    env.run(&["suspend", "--all", "--reason", "a look"]).exits(0);
    let daemon = Daemon::ready(&env);
    wait_for("it goes on", || {
        let text = fs::read_to_string(&file).unwrap();
        text.ends_with('\n') && text.contains("a look")
    });
    env.run(&["resume", "--all", "--reason", "enough"]).exits(0);
    daemon.stop();
    let numbers: Vec<i64> = exported(&env).iter().map(|event| event["number"].as_i64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<_>>());
    assert!(fs::read_to_string(&file).unwrap().contains("enough"), "what happened last is missing");

    let path = file.to_str().unwrap();
    env.run(&["events", "--verify", "--file", path]).exits(0).says(&["none was changed"]);
    let text = fs::read_to_string(&file).unwrap().replace("a look", "a hook");
    fs::write(&file, text).unwrap();
    env.run(&["events", "--verify", "--file", path]).exits(1).says(&["it was changed after it was written"]);
    env.run(&["events", "--verify"]).exits(0);
    // A trail that is another than the one exported gets a file of its own.
    let last = numbers.len();
    let text = fs::read_to_string(&file).unwrap().replace("enough", "ENOUGH");
    fs::write(&file, text).unwrap();
    let daemon = Daemon::ready(&env);
    wait_for("a new file", || {
        env.path(&format!("audit.jsonl.until-{last}")).exists() && exported(&env).len() >= last
    });
    daemon.stop();
    env.run(&["events", "--verify", "--file", path]).exits(0);
}
