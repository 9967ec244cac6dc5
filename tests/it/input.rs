//! Bad input: one clear error with place and remedy, the right exit code, nothing changed.

use crate::env::{Env, Output, left_out, rrsets, zone};
use std::{fs, os::unix::fs::PermissionsExt, process::Command};

const ZONE: &str = "example.com";

/// Applies one manifest file that must be refused.
#[track_caller]
fn refused(text: &str, words: &[&str]) -> Output {
    let env = Env::zonefile();
    env.push("zone.yaml", text);
    let output = env.run(&["apply", "--yes"]).exits(1).says(words);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[]), "something of an invalid file was applied");
    output
}

#[test]
fn unreadable_yaml_is_told_with_its_place() {
    refused(
        "apiVersion: dns/v1\nkind: [Zone\n",
        &["error: unclosed bracket", "--> zone.yaml:2:7", "2 | kind: [Zone"],
    );
}

#[test]
fn yaml_bombs_end_within_a_small_memory() {
    let mut exponential = "a0: &a0 [x]\n".to_owned();
    for n in 1..40 {
        exponential += &format!("a{n}: &a{n} [*a{0}, *a{0}, *a{0}]\n", n - 1);
    }
    let quadratic = format!("a: &a [{}]\nb: [{}]\n", "x,".repeat(20_000), "*a,".repeat(20_000));
    let deep = "[".repeat(200_000);
    let aliases = "hint: aliases (`*name`) are not read: write the value out";
    for (bomb, words) in [
        (exponential, ["--> bomb.yaml:6:12", aliases]),
        (quadratic, ["--> bomb.yaml:6:7", aliases]),
        (deep, ["--> bomb.yaml:5:", "error: recursion limit exceeded"]),
    ] {
        let env = Env::zonefile();
        env.push(
            "bomb.yaml",
            &format!(
                "apiVersion: dns/v1\nkind: Zone\nmetadata: {{name: a}}\nspec:\n{}",
                bomb.lines().map(|line| format!("  {line}\n")).collect::<String>()
            ),
        );
        let mut command = Command::new("prlimit");
        let config = env.path("config.yaml");
        command
            .env_clear()
            .env("HOME", env.dir.path())
            .current_dir(env.dir.path())
            .args(["--as=2000000000", "--cpu=60", env!("CARGO_BIN_EXE_reconciled"), "--config"])
            .arg(config)
            .args(["apply", "--yes"]);
        env.finish(command).exits(1).says(&words);
    }
}

#[test]
fn an_unknown_field_kind_or_provider_is_told_with_what_was_meant() {
    refused(
        &zone(ZONE, "zones", &["{name: www, type: A, valeus: [192.0.2.1]}"]),
        &["error: unknown field `valeus`", "--> zone.yaml:8:28", "hint: did you mean `values`?"],
    );
    refused(
        &zone(ZONE, "zones", &[]).replace("kind: Zone", "kind: Zoen"),
        &["error: unknown kind Zoen of dns/v1", "--> zone.yaml:2:7", "hint: did you mean `Zone` of dns/v1?"],
    );
    refused(
        &zone(ZONE, "zoness", &["{name: www, type: A, values: [192.0.2.1]}"]),
        &[
            "error: provider `zoness` is not configured on this host",
            "--> zone.yaml:5:13",
            "hint: did you mean `zones`?",
        ],
    );
}

#[test]
fn a_move_where_nothing_can_be_moved_is_an_error_that_says_what_to_do() {
    let env = Env::host("");
    env.push(
        "web.yaml",
        "apiVersion: local/v1\nkind: File\nmetadata: {name: b, annotations: {reconciled/moved-from: File/a}}\n\
         spec: {path: /etc/b, content: x}\n",
    );
    let words = ["web.yaml:1", "reconciled/moved-from means nothing for a File", "declare both"];
    env.run(&["plan"]).exits(1).says(&words);
}

#[test]
fn what_nobody_sees_is_written_out_wherever_it_is_shown() {
    let odd = ["\u{202e}", "\u{61c}", "\u{200b}", "\u{1b}"];
    let file = |path: &str, rest: &str| {
        format!(
            "apiVersion: local/v1\nkind: File\nmetadata: {{name: motd}}\nspec: {{path: /etc/{path}{rest}}}\n"
        )
    };
    let env = Env::host("");
    env.push("motd\u{202e}.yaml", &file("mo\u{202e}td", ", content: \"a\u{200b}b\u{61c}\\n\""));
    for form in ["text", "markdown"] {
        let plan = env.run(&["plan", "-o", form]).exits(0).hides(&odd);
        plan.says(&["a\\u{200b}b\\u{61c}", "motd\\u{202e}.yaml"]);
    }
    let json: serde_json::Value =
        serde_json::from_str(&env.run(&["plan", "-o", "json"]).exits(0).stdout).unwrap();
    assert!(json["resource_changes"][0]["file"].as_str().unwrap().contains('\u{202e}'), "{json}");
    env.apply().hides(&odd);
    env.run(&["explain", "File/motd"]).exits(0).hides(&odd).says(&["motd\\u{202e}.yaml"]);
    env.run(&["status", "File/motd", "-o", "wide"]).exits(0).hides(&odd).says(&["motd\\u{202e}.yaml"]);

    let env = Env::host("");
    env.push("motd\u{202e}\u{1b}.yaml", &file("motd", ", \"con\u{61c}tent\": x"));
    let told =
        ["unknown field `con\\u{61c}tent`", "--> motd\\u{202e}\\u{1b}.yaml:4", "\"con\\u{61c}tent\": x"];
    env.run(&["plan"]).exits(1).hides(&odd).says(&told);
    env.run(&["validate", "work"]).exits(1).hides(&odd).says(&told);
    fs::remove_dir_all(env.path("repo.git")).unwrap();
    env.run(&["init", "repo.git"]).exits(0);
    let push = env.finish(crate::push::git(&env, &["push", "origin", "HEAD:main"])).exits(1);
    // Git erases to the end of its own lines.
    let push = Output { stderr: push.stderr.replace("\u{1b}[K", ""), ..push };
    push.hides(&odd).says(&told[..2]);
}

#[test]
fn a_wrong_field_does_not_hide_what_else_is_wrong() {
    let text = zone(ZONE, "zones", &["{name: www, type: A, values: [192.0.2.256]}"]);
    refused(
        &text.replace("ttl: 300", "ttl: many"),
        &["--> zone.yaml:6:8", "expected a number, found `many`", "--> zone.yaml:8:37", "192.0.2.256"],
    );
}

#[test]
fn a_record_that_cannot_be_is_told_with_its_place() {
    let www = "{name: www, type: A, values: [192.0.2.1]}";
    for (record, words) in [
        (
            "{name: bad, type: A, values: [192.0.2.256]}",
            [
                "error: `192.0.2.256` is not an IPv4 address",
                "--> zone.yaml:9:37",
                "hint: an A record wants four numbers",
            ],
        ),
        (
            "{name: www.example.org., type: A, values: [192.0.2.1]}",
            [
                "error: `www.example.org.` is outside zone `example.com`",
                "--> zone.yaml:9:14",
                "hint: write it without the dot at the end",
            ],
        ),
        (
            "{name: www, type: CNAME, values: [www.example.net.]}",
            [
                "error: www A stands beside a CNAME",
                "--> zone.yaml:9:7 the CNAME",
                "hint: a CNAME is the only record at its name",
            ],
        ),
        (
            "{name: www, type: A, values: [192.0.2.3]}",
            [
                "error: www A is declared twice\n  --> zone.yaml:9:7",
                "--> zone.yaml:8:7 first declared here",
                "hint: write all values in one record",
            ],
        ),
    ] {
        let env = Env::zonefile();
        env.push("zone.yaml", &zone(ZONE, "zones", &[www, record]));
        env.run(&["apply", "--yes"]).exits(1).says(&words);
    }
}

#[test]
fn what_a_value_should_be_is_said_with_what_it_is_not() {
    let env = Env::host("");
    let check = |spec: &str, words: &[&str]| {
        env.push(
            "a.yaml",
            &format!("apiVersion: local/v1\nkind: File\nmetadata: {{name: a}}\nspec: {spec}\n"),
        );
        env.run(&["plan"]).exits(1).says(words);
    };
    check(
        "{path: /etc/a, content: {file: x}}",
        &[
            "field `secret` is missing",
            "hint: there is no `file` here; write text, `{secret: NAME}` or `{sops: PATH, key: KEY}`",
        ],
    );
    let sops = "hint: write both, and nothing else: `{sops: PATH, key: KEY}`";
    check("{path: /etc/a, content: {sops: x.yaml}}", &["field `secret` is missing", sops]);
    check("{path: /etc/a, content: {secrte: x}}", &["hint: did you mean `secret`?"]);
    check(
        "{path: /etc/a, template: true, content: \"{{ vars.x }}\"}",
        &["undefined value in `{{ vars.x }}`", "hint: there are vars.NAME, host.name"],
    );
    check("{path: /etc/a, providers: host, content: x}", &["hint: a list is written `[A, B]`"]);
}

#[test]
fn what_is_no_file_of_ours_is_not_to_be_written_over() {
    let env = Env::host("");
    let file = env.path("notes").display().to_string();
    env.write("notes", "mine\n");
    let told = env
        .run(&["apply", &file])
        .exits(1)
        .says(&["is no plan", "hint: name a file that `reconciled plan --out FILE` wrote"]);
    told.hides(&["--out DIR/notes"]);
    env.run(&["apply", "work"])
        .exits(1)
        .says(&["hint: to apply manifests in a folder: reconciled apply --dir work"]);
    env.run(&["apply", "none"]).exits(1).says(&["hint: write one: reconciled plan --out none"]);
    let with = |config: &str| env.finish(env.command(&["--config", config, "plan"])).exits(1);
    with("work").says(&[
        "is a directory and no configuration",
        "hint: name the file in it: --config work/config.yaml",
    ]);
    with("none").says(&["there is no configuration at none", "hint: correct the path"]);
    fs::write(env.path("binary"), [0xff, 0xfe, 0]).unwrap();
    with("binary").says(&["--> DIR/binary", "hint: it is no text"]);
}

#[test]
fn what_is_no_directory_no_file_and_no_filter_is_told_with_what_to_write() {
    let env = Env::zonefile();
    env.write("FILE", "mine\n");
    let refused = |args: &[&str], hint: &str| env.run(args).exits(1).says(&["error: ", hint]);
    refused(&["demo", "--dir", "FILE"], "hint: name a directory that does not exist");
    refused(&["man", "FILE"], "hint: name a directory");
    refused(&["explain", "--schemas", "FILE"], "hint: name a directory");
    refused(&["import", "--from", "zonefile", "nope"], "hint: check the path");
    refused(&["backup", "zones"], "hint: name a file in it: reconciled backup zones/state.db");
    refused(&["restore", "zones", "--yes"], "zones is no backup that can be restored: it is no file")
        .hides(&["dmesg"]);
    env.run_with(&["validate", "work"], &[("RECONCILED_LOG", "[[[")])
        .says(&["warning: RECONCILED_LOG has no effect", "hint: write levels, as in info"]);
}

#[test]
fn one_resource_in_two_files_names_both_places() {
    let env = Env::zonefile();
    env.write("work/a.yaml", &zone(ZONE, "zones", &["{name: www, type: A, values: [192.0.2.1]}"]));
    let second = zone(ZONE, "zones", &["{name: www, type: A, values: [192.0.2.2]}"]);
    env.push(
        "b.yaml",
        &second
            .replace("metadata: {name: example.com}", "metadata: {name: other}")
            .replace("spec:", "spec:\n  zone: example.com"),
    );
    env.run(&["apply", "--yes"]).exits(1).says(&[
        "error: Zone/other#www/A in zones/example.com is declared twice",
        "--> b.yaml:9\n",
        "--> a.yaml:8 first declared here",
        "hint: remove one, or write `merge: true` on all",
        "error: Zone/other in zones/example.com is declared twice",
        "hint: remove one, or annotate all with `reconciled/merge: \"true\"`",
    ]);
}

#[test]
fn without_a_configuration_all_four_places_are_named() {
    let env = Env::new();
    let output = env.finish(env.command(&["plan"])).exits(1);
    output.says(&[
        "--config",
        "$RECONCILED_CONFIG",
        "DIR/.config/reconciled/config.yaml",
        "/etc/reconciled/config.yaml",
        "sources:",
    ]);
    env.run(&["plan"]).exits(1).says(&["DIR/config.yaml", "--config"]);
}

#[test]
fn a_bad_configuration_is_told_with_its_place_and_what_was_meant() {
    let env = Env::new();
    env.config("  - {name: zones, type: zonfile, directory: /zones}");
    env.run(&["plan"]).exits(1).says(&["config.yaml:6:", "zonfile", "zonefile"]);
    env.write("config.yaml", "instnace: x\n");
    env.run(&["plan"]).exits(1).says(&["config.yaml:1:", "instnace", "instance"]);
    env.write("config.yaml", "sources: [\n");
    env.run(&["plan"]).exits(1).says(&["error: unclosed bracket", "--> DIR/config.yaml:1:10"]);
    for (reference, words) in
        [("{semver: x.y.z}", "`x.y.z` is no range of versions"), ("{commit: zzz}", "`zzz` is no commit: ")]
    {
        let keys = format!(", ref: {reference}");
        env.config_with("it", "  - {name: zones, type: zonefile, directory: /zones}", &keys);
        for verb in ["plan", "check"] {
            env.run(&[verb]).exits(1).says(&["config.yaml:4:", words, "hint: write"]);
        }
    }
    // What is only a warning is not the error.
    env.config("  - {name: zones, type: zonefile, directory: /zones}\ntokens: [{name: ci, role: admin, hash: {env: X}}]");
    env.run(&["plan"])
        .exits(1)
        .says(&["error: unknown value `admin`", "\nwarning: `tokens` have no effect"])
        .hides(&["error: warning"]);
}

/// One record, applied to a zone file.
pub(crate) fn applied() -> Env {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &["{name: www, type: A, values: [192.0.2.1]}"]));
    env.apply();
    env
}

#[test]
fn a_state_that_cannot_be_written_is_named() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &["{name: www, type: A, values: [192.0.2.1]}"]));
    // Permissions do not stop root, a file where a directory belongs does.
    env.write("state", "");
    env.run(&["apply", "--yes"])
        .exits(1)
        .says(&["error: create DIR/state: File exists", "hint: check `stateDir` in the configuration"]);
    fs::remove_file(env.path("state")).unwrap();
    fs::create_dir(env.path("state")).unwrap();
    fs::set_permissions(env.path("state"), fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(env.path("state/probe"), "").is_err() {
        env.run(&["apply", "--yes"]).exits(1).says(&["DIR/state", "hint: run as the user that owns"]);
    } else {
        // Root is not stopped by that, but by a file system that is for reading only, where one can be had.
        let script =
            "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" || exit 100; shift; exec \"$@\"";
        let config = env.path("config.yaml");
        let verb = env.command(&["--config", config.to_str().unwrap(), "apply", "--yes"]);
        let values = verb.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let mut command = Command::new("unshare");
        command.env_clear().envs(values).args(["--mount", "sh", "-c", script, "sh"]).arg(env.path("state"));
        command.arg(verb.get_program()).args(verb.get_args());
        let output = env.finish(command);
        if output.code != Some(100) && !output.stderr.contains("unshare failed") {
            output.exits(1).says(&["DIR/state", "Read-only file system", "hint:"]);
        }
    }
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[]));
}

#[test]
fn a_state_on_a_file_system_that_takes_nothing_can_be_read() {
    let env = applied();
    for how in ["mount -o remount,ro \"$1\"", "cat /dev/zero > \"$1/fill\" 2>/dev/null || true"] {
        let script = format!(
            "mount -t tmpfs -o size=4m tmpfs \"$1\" && cp -a \"$2/.\" \"$1\" && {{ {how}; }} || exit 100; shift 2; exec \"$@\""
        );
        fs::create_dir_all(env.path("small")).unwrap();
        let config = fs::read_to_string(env.path("config.yaml")).unwrap();
        env.write("small.yaml", &config.replace("/state\n", "/small\n"));
        let verb = env.command(&["--config", env.path("small.yaml").to_str().unwrap(), "status", "*/*"]);
        let values = verb.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let mut command = Command::new("unshare");
        command.env_clear().envs(values).args(["--mount", "sh", "-c", &script, "sh"]);
        command.arg(env.path("small")).arg(env.path("state")).arg(verb.get_program()).args(verb.get_args());
        let output = env.finish(command);
        if output.code == Some(100) || output.stderr.contains("unshare failed") {
            left_out("nothing can be mounted here");
            return;
        }
        output.exits(0).says(&["Zone/example.com#www/A", "in sync"]);
    }
}

#[test]
fn a_second_instance_names_the_first() {
    let env = applied();
    let lock = fs::OpenOptions::new().read(true).write(true).open(env.path("state/lock")).unwrap();
    lock.try_lock().unwrap();
    let pid = fs::read_to_string(env.path("state/lock")).unwrap();
    env.run(&["apply", "--yes"]).exits(1).says(&["in use by process", pid.trim(), "hint:", "stop it first"]);
    // Looking is allowed.
    env.run(&["plan"]).exits(0);
    drop(lock);
    env.apply();
}

#[test]
fn a_newer_schema_is_left_alone() {
    let env = applied();
    env.sql("PRAGMA user_version = 999");
    for verb in [&["plan"][..], &["apply", "--yes"]] {
        env.run(verb).exits(1).says(&["state.db has schema 999", "hint:"]);
    }
}

#[test]
fn a_lost_database_is_told_by_whoever_looks() {
    let env = applied();
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(env.path(&format!("state/{name}")));
    }
    let told = ["no database in DIR/state", "hint:", "reconciled state init --recover"];
    env.run(&["check"]).exits(1).says(&["FAIL  database"]).says(&told);
    for verb in [&["plan"][..], &["status"], &["apply", "--yes"]] {
        env.run(verb).exits(1).says(&told);
    }
    assert!(!env.path("state/state.db").exists());
}

#[test]
fn a_damaged_database_is_told_with_two_ways_out() {
    let env = applied();
    let text = "this is no database, it is a text that is longer than the hundred bytes that a header of SQLite has, and then some";
    for name in ["state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(env.path(&format!("state/{name}")));
    }
    env.write("state/state.db", text);
    env.run(&["apply", "--yes"]).exits(1).says(&[
        "state.db",
        "reconciled restore",
        "reconciled state init --recover",
    ]);
    assert_eq!(fs::read_to_string(env.path("state/state.db")).unwrap(), text);
}

/// What SARIF 2.1.0 (OASIS, the published schema) demands of each object that a report of ours holds, and all it
/// allows of what we write: path from the log, required fields, allowed fields.
const SARIF: &[(&str, &[&str], &[&str])] = &[
    ("", &["version", "runs"], &["$schema", "version", "runs"]),
    ("/runs/*", &["tool"], &["tool", "results", "columnKind"]),
    ("/runs/*/tool", &["driver"], &["driver"]),
    ("/runs/*/tool/driver", &["name"], &["name", "version", "rules"]),
    ("/runs/*/tool/driver/rules/*", &["id"], &["id", "shortDescription", "helpUri"]),
    ("/runs/*/tool/driver/rules/*/shortDescription", &["text"], &["text"]),
    (
        "/runs/*/results/*",
        &["message"],
        &["ruleId", "ruleIndex", "level", "message", "partialFingerprints", "locations", "relatedLocations"],
    ),
    ("/runs/*/results/*/message", &["text"], &["text"]),
    ("/runs/*/results/*/locations/*", &[], &["physicalLocation"]),
    ("/runs/*/results/*/relatedLocations/*", &[], &["physicalLocation", "message"]),
    (
        "/runs/*/results/*/locations/*/physicalLocation",
        &["artifactLocation"],
        &["artifactLocation", "region"],
    ),
    ("/runs/*/results/*/locations/*/physicalLocation/artifactLocation", &["uri"], &["uri"]),
    ("/runs/*/results/*/locations/*/physicalLocation/region", &["startLine"], &["startLine", "startColumn"]),
];

/// Every value that `path` means; `*` is each element of a list.
fn at<'a>(root: &'a serde_json::Value, path: &str) -> Vec<&'a serde_json::Value> {
    let mut found = vec![root];
    for step in path.split('/').skip(1) {
        found = found
            .into_iter()
            .flat_map(|value| match step {
                "*" => {
                    value.as_array().unwrap_or_else(|| panic!("{path}: no list: {value}")).iter().collect()
                }
                _ => value.get(step).into_iter().collect::<Vec<_>>(),
            })
            .collect();
    }
    found
}

#[test]
fn layers_are_checked_as_the_source_reads_them() {
    let env = Env::new();
    let record = |address: &str| format!("{{name: www, type: A, values: [{address}]}}");
    let layer = zone(ZONE, "zones", &[&record("192.0.2.2")]);
    env.write("in/common/z.yaml", &zone(ZONE, "zones", &[&record("192.0.2.1")]));
    env.write(
        "in/prod/z.yaml",
        &layer.replace("metadata: {", "metadata: {annotations: {reconciled/merge: \"true\"}, "),
    );
    // All of it at once, one declares what the other one declares.
    env.run(&["validate", "in"]).exits(1).says(&["is declared twice"]);
    env.run(&["validate", "in", "--path", "common", "--path", "prod"]).exits(0).says(&["2 files"]);
    env.run(&["validate", "in", "--path", "common"]).exits(0).says(&["1 file"]);
    env.run(&["validate", "in", "--path", "staging"]).exits(1).says(&["in has no folder staging", "hint: "]);
}

#[test]
fn what_a_layer_puts_in_the_place_of_an_earlier_record_is_complained_of_once() {
    let env = Env::new();
    let record = |name: &str, key: &str| format!("{{name: {name}, type: A, {key}: [192.0.2.1]}}");
    env.write(
        "in/common/z.yaml",
        &zone(ZONE, "zones", &[&record("www", "values"), &record("mail", "values")]),
    );
    let layer = zone(ZONE, "zones", &[&record("www", "valuess")]);
    env.write(
        "in/prod/z.yaml",
        &layer.replace("metadata: {", "metadata: {annotations: {reconciled/merge: \"true\"}, "),
    );
    let output = env.run(&["validate", "in", "--path", "common", "--path", "prod"]).exits(1);
    output.says(&["unknown field `valuess`", "did you mean `values`?", "prod/z.yaml", "1 error"]);
}

#[test]
fn a_report_for_code_scanning_is_sarif_2_1_0() {
    let env = Env::new();
    let duplicate = ["{name: www, type: A, values: [192.0.2.1]}"; 2];
    env.write("in/a b.yaml", &zone(ZONE, "zones", &duplicate));
    env.write("in/c.yaml", "kind: [");
    let output = env.finish(env.command(&["validate", "in", "-o", "sarif"])).exits(1);
    let log: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    for (path, required, allowed) in SARIF {
        for object in at(&log, path) {
            let keys: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
            assert!(
                required.iter().all(|key| keys.contains(key)),
                "{path} lacks one of {required:?}: {object}"
            );
            assert!(
                keys.iter().all(|key| allowed.contains(key)),
                "{path} has more than {allowed:?}: {object}"
            );
        }
    }
    assert_eq!((&log["version"], at(&log, "/runs/*").len()), (&"2.1.0".into(), 1));
    assert!(log["$schema"].as_str().unwrap().ends_with("sarif-2.1.0.json"));
    assert_eq!(log["runs"][0]["columnKind"], "unicodeCodePoints");
    let results = at(&log, "/runs/*/results/*");
    assert_eq!(results.len(), 2, "{log:#}");
    let rules = at(&log, "/runs/*/tool/driver/rules/*/id");
    for result in results {
        assert!(["error", "warning", "note", "none"].contains(&result["level"].as_str().unwrap()));
        assert_eq!(rules[result["ruleIndex"].as_u64().unwrap() as usize], &result["ruleId"]);
        let prints = result["partialFingerprints"].as_object().unwrap();
        assert!(prints.values().all(serde_json::Value::is_string));
        for physical in at(result, "/locations/*/physicalLocation") {
            let uri = physical["artifactLocation"]["uri"].as_str().unwrap();
            assert!(uri.starts_with("in/") && !uri.contains(' '), "{uri}");
            // Lines and columns count from 1.
            for number in physical["region"].as_object().unwrap().values() {
                assert!(number.as_u64().unwrap() >= 1);
            }
        }
    }
    assert!(!at(&log, "/runs/*/results/*/relatedLocations/*/message/text").is_empty());
}

#[test]
fn what_is_wrong_with_manifests_is_told_until_it_is_mended() {
    let env = Env::zonefile();
    let records = ["{name: www, type: A, values: [192.0.2.1]}"];
    env.push("zone.yaml", &zone(ZONE, "zones", &records));
    env.run(&["apply", "--yes"]).exits(0);
    env.run(&["status", "--exit-code"]).exits(0).hides(&["InvalidManifests"]);
    env.push("zone.yaml", &zone(ZONE, "zones", &["{name: www, tpye: A}"]));
    env.run(&["apply", "--yes"]).exits(1);
    let words = [
        "Unknown)",
        "NEEDS A PERSON (1)",
        "source infra  InvalidManifests",
        "zone.yaml:",
        "to see them all",
        "FROZEN (1)\n  Zone/example.com  Frozen",
        "\n0 well",
    ];
    env.run(&["status", "--exit-code"]).exits(3).says(&words).hides(&["WAITING", "OutOfDate"]);
    env.run(&["status", "Zone/*"]).exits(0).says(&["Unknown"]).hides(&["Healthy", "OutOfDate"]);
    let shown = env.run(&["status", "-o", "json"]).exits(0);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["sources"][0]["converged"], false, "{shown:#}");
    env.push("zone.yaml", &zone(ZONE, "zones", &records));
    env.run(&["apply", "--yes"]).exits(0);
    env.run(&["status", "--exit-code"]).exits(0).hides(&["InvalidManifests", "Frozen"]).says(&["\n2 well"]);
}
