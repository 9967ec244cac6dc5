//! What `check` finds wrong that no daemon has met yet.

use crate::{
    env::{Env, zone},
    terraform,
};
use std::fs;

/// A desk with a zone, whose configuration `change` changes.
fn desk(change: impl FnOnce(&str) -> String) -> Env {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone("example.com", "zones", &["{name: www, type: A, values: [192.0.2.1]}"]));
    env.run(&["check"]).exits(0).says(&["all is well"]);
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &change(&config));
    env
}

#[test]
fn a_group_that_is_not_there_fails() {
    let env = desk(|config| format!("api: {{group: nosuchgroup}}\n{config}"));
    env.run(&["check"])
        .exits(1)
        .says(&["FAIL  api.group: there is no group `nosuchgroup`", "groupadd --system nosuchgroup"]);
}

#[test]
fn an_unknown_key_of_an_entry_fails_and_keeps_nobody_from_the_state() {
    let env = desk(str::to_owned);
    env.apply();
    let good = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &good.replace("type: zonefile,", "type: zonefile, polcy: observe,"));
    let found = env.run(&["check"]).exits(1);
    assert_eq!(found.stdout.matches("  config: ").count(), 1, "{}", found.all());
    found.says(&["FAIL  config: DIR/config.yaml:", "unknown field `polcy`", "hint: did you mean `policy`?"]);
    let told = ["warning: nothing can be planned or applied", "config.yaml:", "did you mean `policy`?"];
    let verbs: [&[&str]; 10] = [
        &["status"],
        &["status", "-o", "json"],
        &["status", "Zone/example.com#www/A", "-o", "json"],
        &["history"],
        &["events"],
        &["approvals"],
        &["suspend", "--all", "--reason", "x"],
        &["resume", "--all"],
        &["backup", "b"],
        &["forget", "Zone/example.com"],
    ];
    for verb in verbs {
        let said = env.run(verb).exits(0);
        assert!(!said.stdout.contains("polcy"), "{}", said.all());
        said.says(&told);
    }
    for verb in [&["plan"][..], &["apply", "--yes"]] {
        env.run(verb).exits(1).says(&["error: unknown field `polcy`"]).hides(&["warning: "]);
    }
}

#[test]
fn a_file_of_variables_that_is_not_there_fails() {
    let env = desk(|config| config.replace("{name: infra,", "{name: infra, vars: [nosuch.yaml],"));
    env.run(&["check"]).exits(1).says(&["FAIL  source infra: nosuch.yaml", "hint: correct `vars`"]);
    env.push("nosuch.yaml", "a: 1\n");
    env.run(&["check"]).exits(0).says(&["ok    source infra"]);
}

#[test]
fn manifests_with_errors_are_something_to_look_at() {
    let env = desk(str::to_owned);
    env.push("bad.yaml", &zone("example.org", "zones", &["{name: www, type: A, values: [x]}"]));
    env.run(&["check"])
        .exits(0)
        .says(&[
            "warn  manifests of infra: they have errors",
            "hint: to see each with its place: reconciled plan",
        ])
        .hides(&["all is well"]);
}

#[test]
fn a_program_of_zone_files_that_cannot_be_run_fails() {
    let with = |program: &str| {
        let check = format!("type: zonefile, check: [{program}, \"{{zone}}\", \"{{file}}\"],");
        desk(|config| config.replace("type: zonefile,", &check))
    };
    let env = with("nosuchprog");
    env.run(&["check"]).exits(1).says(&["FAIL  provider zones check: there is no program `nosuchprog`"]);
    with("/nonexistent/prog").run(&["check"]).exits(1).says(&["there is no program `/nonexistent/prog`"]);
    with("/etc/passwd").run(&["check"]).exits(1).says(&["`/etc/passwd` is not executable"]);
    with("/bin/true").run(&["check"]).exits(0);
    with("true").run(&["check"]).exits(0);
}

#[test]
fn a_template_that_names_what_is_not_given_fails() {
    let with = |template: &str| {
        let receiver = format!(
            "notify: [{{name: own, type: webhook, url: 'http://127.0.0.1:9/', on: [held], template: '{template}'}}]\n"
        );
        desk(|config| format!("{receiver}{config}"))
    };
    with("{{ instnace }}")
        .run(&["check"])
        .exits(1)
        .says(&["FAIL  receiver own template: the template fails"]);
    with("{{ topic }}{% if topic == \"held\" %}{{ nosuch }}{% endif %}").run(&["check"]).exits(1);
    with("{{ title | tojson }}").run(&["check"]).exits(0);
}

#[test]
fn what_holds_no_address_of_a_receiver_fails_though_it_can_be_read() {
    let env = desk(|config| {
        let receiver = "notify: [{name: own, type: slack, url: {env: ADDRESS}, on: [held]}]\n";
        format!("{receiver}{config}")
    });
    let check = |address: &str| env.run_with(&["check"], &[("ADDRESS", address)]);
    let wrong = "FAIL  receiver own url: environment variable ADDRESS does not hold an address";
    check("https//CANARY").exits(1).says(&[wrong, "hint: write"]).hides(&["CANARY"]);
    check("https://127.0.0.1:9/CANARY").exits(0).hides(&["CANARY"]);
    // That it is not there is told once.
    env.run(&["check"]).exits(1).hides(&["does not hold"]);
}

#[test]
fn a_pattern_that_never_ends_is_an_error_with_its_place() {
    let env = desk(|config| config.replace("{name: infra,", "{name: infra, ignore: [\"[\"],"));
    env.run(&["check"]).exits(1).says(&["`[` is no pattern as of a .gitignore", "config.yaml:"]);
    env.run(&["plan"]).exits(1).says(&["`[` is no pattern as of a .gitignore"]);
}

#[test]
fn a_path_with_a_label_that_this_host_has_not_is_told_as_a_plan_tells_it() {
    let env =
        desk(|config| config.replace("{name: infra,", "{name: infra, path: \"env/${host.labels.env}\","));
    let words = ["this host has no `host.labels.env`", "set host.labels in the host configuration"];
    env.run(&["plan"]).exits(1).says(&words);
    env.run(&["check"]).exits(1).says(&words).hides(&["there is no folder"]);
}

#[test]
fn nothing_is_substituted_in_the_names_of_files_of_variables() {
    let env =
        desk(|config| config.replace("{name: infra,", "{name: infra, vars: [\"vars/${host.name}.yaml\"],"));
    env.run(&["plan"]).exits(1).says(&["no such file", "nothing is substituted in it"]);
}

#[test]
fn a_secret_that_a_terraform_provider_is_told_in_clear_is_something_to_look_at() {
    let env = terraform::desk("");
    env.push("a.yaml", &terraform::thing("a", "", "name: a"));
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let place = format!("{{file: {}}}", env.path("token").display());
    let clear = config.replace(&place, "canary-in-clear");
    assert_ne!(clear, config);
    env.write("config.yaml", &clear);
    let told = [
        "DIR/config.yaml:6:",
        "`token` of provider `toy` is a secret by its name, and stands here in clear",
        "hint: write token: {file: /etc/reconciled/toy.key}",
    ];
    env.run(&["check"]).exits(0).says(&["warn  config: "]).says(&told).hides(&["canary-in-clear"]);
    // It is used all the same.
    env.run(&["plan"]).exits(0).says(&["warning: ", "+ Thing/a"]).says(&told).hides(&["canary-in-clear"]);
}
