//! What an entry of Terraform that does not work, takes its time or is not on this host leaves alone.

use crate::{
    env::{Env, zone},
    running::{Daemon, wait_for},
    terraform::{desk, thing, things, toy},
};
use std::{fs, os::unix::fs::PermissionsExt};

/// A desk with a second entry of the same provider, which keeps its things in `other/`.
pub(crate) fn two() -> (Env, String) {
    let env = desk("");
    fs::create_dir(env.path("other")).unwrap();
    let own = fs::read_to_string(env.path("config.yaml")).unwrap();
    let second = format!(
        "  - {{name: second, type: terraform, source: example/toy, settle: 0s, path: {}, config: {{directory: {}}}}}\n",
        toy().display(),
        env.path("other").display()
    );
    let config = own.replace("providers:\n", &format!("providers:\n{second}"));
    assert_ne!(own, config);
    env.write("config.yaml", &config);
    (env, config)
}

#[test]
fn an_entry_that_cannot_be_used_stops_no_other_and_loses_nothing() {
    let (env, config) = two();
    let theirs = thing("theirs", "reconciled/provider: second", "name: theirs");
    let resource = |name: &str| {
        format!(
            "apiVersion: terraform/v1\nkind: Resource\nmetadata: {{name: {name}}}\nspec: {{type: toy_thing, attributes: {{name: x}}}}\n---\n"
        )
    };
    let ours = |names: &[&str]| names.iter().map(|name| thing(name, "", "name: x")).collect::<String>();
    env.push("a.yaml", &format!("{}{theirs}{}", ours(&["a", "b"]), resource("r")));
    env.apply();
    assert_eq!(things(&env), ["thing-1.json", "thing-2.json", "thing-3.json"]);

    // The entry of most of them has no program any more; one manifest goes, one comes, and one of the others changes.
    let broken = config.replacen(
        &format!("path: {}, config: {{directory: {}", toy().display(), env.path("world").display()),
        &format!("path: /nonexistent/toy, config: {{directory: {}", env.path("world").display()),
        1,
    );
    assert_ne!(broken, config);
    env.write("config.yaml", &broken);
    let changed = thing("theirs", "reconciled/provider: second", "name: theirs, content: new");
    env.push("a.yaml", &format!("{}{changed}{}", ours(&["a", "c"]), resource("r")));
    let said = env.run(&["apply", "--yes", "--timeout", "2s"]).exits(1);
    said.says(&[
        "provider `toy` cannot be used: the provider's program /nonexistent/toy cannot be run",
        "Errors kept part of it from being planned.",
        "install the provider there",
        "config.yaml:",
        "this Thing and 2 other manifests wait",
    ]);
    assert_eq!(things(&env), ["thing-1.json", "thing-2.json", "thing-3.json"], "nothing is pruned or made");
    let other = fs::read_to_string(env.path("other/thing-1.json")).unwrap();
    assert!(other.contains("\"new\""), "{other}");
    assert_eq!(
        fs::read_dir(env.path("other")).unwrap().count(),
        1,
        "what was for one entry went to no other"
    );
    env.run(&["check"]).exits(1).says(&["FAIL  config", "provider `toy` cannot be used"]);

    // Once it is there again, all of it goes on.
    env.write("config.yaml", &config);
    env.apply();
    assert_eq!(things(&env).len(), 3, "{:?}", things(&env));
    env.in_sync();
}

/// A daemon that waited for a program would not be there for everything else, and a service manager would end it.
#[test]
fn a_program_that_takes_its_time_keeps_the_daemon_from_nothing_and_is_used_once_it_is_there() {
    let (env, config) = two();
    let slow = env.path("slow");
    let script = format!(
        "#!/bin/sh\nwhile ! [ -e {} ]; do sleep 0.1; done\nexec {}\n",
        env.path("go").display(),
        toy().display()
    );
    fs::write(&slow, script).unwrap();
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).unwrap();
    let own = format!("path: {}, config: {{directory: {}", toy().display(), env.path("world").display());
    let slower = config.replacen(&own, &own.replace(&*toy().to_string_lossy(), &slow.to_string_lossy()), 1);
    assert_ne!(slower, config);
    env.write("config.yaml", &slower);
    let theirs = |content: &str| {
        let spec = format!("name: theirs, content: {content}");
        format!(
            "{}{}",
            thing("ours", "", "name: ours"),
            thing("theirs", "reconciled/provider: second", &spec)
        )
    };
    let has = |content: &str| {
        let file = fs::read_to_string(env.path("other/thing-1.json")).unwrap_or_default();
        file.contains(&format!("\"{content}\""))
    };
    env.push("a.yaml", &theirs("old"));
    let daemon = Daemon::ready(&env);
    wait_for("what is another entry's", || has("old"));
    // Nor does it keep the sources from being followed.
    env.push("a.yaml", &theirs("new"));
    env.run(&["sync"]);
    wait_for("what is another entry's, changed", || has("new"));
    assert_eq!(things(&env), [""; 0], "its program has not begun");
    assert!(daemon.log().contains("this Thing waits"), "{}", daemon.log());

    // Nobody has to push or to ask.
    fs::write(env.path("go"), "").unwrap();
    wait_for("the thing of the slow one", || things(&env) == ["thing-1.json"]);
    daemon.stop();
}

#[test]
fn a_kind_whose_entry_other_hosts_have_is_unassigned_and_stays_where_it_was_made() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: x"));
    env.apply();
    assert_eq!(things(&env), ["thing-1.json"]);
    fs::create_dir(env.path("zones")).unwrap();
    let zones = format!(
        "  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.]}}",
        env.path("zones").display()
    );
    env.config(&zones);
    env.run(&["plan"]).exits(1).says(&["unknown kind Thing of toy/v1"]);
    // Where hosts differ, the rest is applied and pruned, and the manifest is listed.
    env.config(&format!("{zones}\nhost: {{labels: {{role: dns}}}}"));
    let records = ["{name: a, type: A, values: [192.0.2.1]}", "{name: b, type: A, values: [192.0.2.2]}"];
    env.push("zone.yaml", &zone("example.com", "zones", &records));
    env.run(&["apply", "--yes"])
        .exits(0)
        .says(&["UNASSIGNED", "Thing/a: for providers that are not configured"]);
    env.push("zone.yaml", &zone("example.com", "zones", &records[..1]));
    env.run(&["apply", "--yes"]).exits(0);
    assert!(!env.zone_rrsets("example.com").contains_key("b A"));
    assert_eq!(things(&env), ["thing-1.json"]);
    let why = "no provider that is configured on this host knows its kind";
    env.run(&["status"]).exits(0).says(&["UNASSIGNED", "Thing/a  of source infra", why]);
    env.run(&["explain", "Thing/a"]).exits(0).says(&[why]);
    env.push("a.yaml", &thing("a", "", "name: x").replace("toy/v1", "zonse/v1"));
    env.run(&["plan"]).exits(1).says(&["did you mean the group of provider `zones`?"]);
}
