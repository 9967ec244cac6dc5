//! Several paths: what is laid over another manifest stays as it was while nobody can read what lays it over.

use crate::env::{Env, rrsets, zone};
use std::{fs, os::unix::fs::symlink};

const ZONE: &str = "example.com";

const OVER: &str = r#"apiVersion: dns/v1
kind: Zone
metadata:
  name: example.com
  annotations: {reconciled/merge: "true", reconciled/deletion: protect}
spec:
  ttl: 120
  records:
    - {name: "@", type: A, values: [192.0.2.9]}
"#;

/// A zone of `common`, over which `prod` lays itself.
fn layered() -> Env {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace("repo.git}", "repo.git, path: [common, prod]}"));
    let records =
        ["{name: \"@\", type: A, values: [192.0.2.1]}", "{name: www, type: A, values: [192.0.2.2]}"];
    env.write("work/common/z.yaml", &zone(ZONE, "zones", &records));
    env.push("prod/z.yaml", OVER);
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[(" A", "120 192.0.2.9"), ("www A", "120 192.0.2.2")]));
    env
}

#[test]
fn a_layer_that_cannot_be_read_uncovers_nothing() {
    let env = layered();
    let before = env.zone_rrsets(ZONE);
    let file = "work/prod/z.yaml";
    let damages: [(&str, &dyn Fn()); 7] = [
        ("no YAML", &|| env.write(file, &format!("{OVER}  bad: ["))),
        ("no kind that there is", &|| env.write(file, &OVER.replace("Zone", "Zoen"))),
        ("no group", &|| env.write(file, OVER.split_once('\n').unwrap().1)),
        ("a first document that is wrong", &|| env.write(file, &format!("a: [\n---\n{OVER}"))),
        ("what excludes files", &|| env.write("work/prod/.reconciledignore", "[z-a]\n")),
        ("a link", &|| {
            fs::remove_file(env.path(file)).unwrap();
            symlink("../common/z.yaml", env.path(file)).unwrap();
        }),
        ("a folder that is gone", &|| fs::remove_dir_all(env.path("work/prod")).unwrap()),
    ];
    for (what, damage) in damages {
        damage();
        env.push_all();
        env.run(&["plan"]).exits(1).says(&["FROZEN"]).hides(&["192.0.2.1"]);
        env.run(&["apply", "--yes"]).exits(1).says(&["0 updated"]);
        assert_eq!(env.zone_rrsets(ZONE), before, "{what}");
        assert_eq!(env.sql("SELECT DISTINCT deletion FROM inventory"), "protect", "{what}");
        env.run(&["status"]).says(&["FROZEN (1)\n  Zone/example.com"]);
        let asked = env.run(&["explain", "Zone/example.com#@/A"]);
        asked.says(&["it is not changed, restored or deleted"]).hides(&["is in sync"]);
        let _ = fs::remove_dir_all(env.path("work/prod"));
        env.push("prod/z.yaml", OVER);
        env.apply();
        env.in_sync();
    }
    // What a person takes away is uncovered.
    env.write("config.yaml", &fs::read_to_string(env.path("config.yaml")).unwrap().replace(", prod]", "]"));
    env.push_without("prod/z.yaml");
    env.run(&["apply", "--yes"]).exits(0);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[(" A", "300 192.0.2.1"), ("www A", "300 192.0.2.2")]));
}

#[test]
fn a_layer_that_cannot_be_read_uncovers_nothing_that_is_shared_or_of_which_nothing_is_remembered() {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace("repo.git}", "repo.git, path: [common, prod]}"));
    let records = |text: &str, address: &str| {
        let text = format!("{{name: \"@\", type: TXT, values: [\"{text}\"], merge: true}}");
        [text, format!("{{name: www, type: A, values: [{address}]}}")]
    };
    let [text, address] = records("env=default", "192.0.2.1");
    env.write("work/common/z.yaml", &zone(ZONE, "zones", &[&text, &address]));
    let [text, address] = records("env=prod", "192.0.2.9");
    let over =
        OVER.replace("{name: \"@\", type: A, values: [192.0.2.9]}", &format!("{text}\n    - {address}"));
    env.push("prod/z.yaml", &over);
    env.apply();
    let before = env.zone_rrsets(ZONE);
    assert_eq!(before, rrsets(&[(" TXT", "120 \"env=prod\""), ("www A", "120 192.0.2.9")]));
    env.push("prod/z.yaml", &format!("{over}  bad: ["));
    let more = "{name: new, type: A, values: [192.0.2.3]}";
    let [text, address] = records("env=default", "192.0.2.1");
    env.push("common/z.yaml", &zone(ZONE, "zones", &[&text, &address, more]));
    env.run(&["apply", "--yes"]).exits(1).says(&["FROZEN", "0 created, 0 updated"]);
    assert_eq!(env.zone_rrsets(ZONE), before);
    fs::remove_dir_all(env.path("state")).unwrap();
    env.run(&["state", "init", "--recover"]).exits(0);
    env.run(&["apply", "--yes"]).exits(1).says(&["FROZEN"]);
    assert_eq!(env.zone_rrsets(ZONE), before);
}

#[test]
fn what_several_layers_give_variables_is_not_taken_from_one_of_them() {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let vars = "vars: [vars/base.yaml, vars/prod.yaml], ignore: [vars/]";
    env.write("config.yaml", &config.replace("repo.git}", &format!("repo.git, {vars}}}")));
    env.write("work/vars/base.yaml", "ip: 192.0.2.1\n");
    env.write("work/vars/prod.yaml", "ip: 192.0.2.9\n");
    env.push("z.yaml", &zone(ZONE, "zones", &["{name: www, type: A, values: [\"${vars.ip}\"]}"]));
    env.apply();
    let before = env.zone_rrsets(ZONE);
    for broken in [Some("ip: 192.0.2.9\nb: {c: x"), Some("[ip]\n"), None] {
        match broken {
            Some(text) => env.write("work/vars/prod.yaml", text),
            None => fs::remove_file(env.path("work/vars/prod.yaml")).unwrap(),
        }
        env.push_all();
        env.run(&["apply", "--yes"]).exits(1).says(&["vars/prod.yaml", "FROZEN"]).hides(&["192.0.2.1"]);
        assert_eq!(env.zone_rrsets(ZONE), before, "{broken:?}");
    }
    env.push("vars/prod.yaml", "ip: 192.0.2.9\n");
    env.in_sync();
}

#[test]
fn of_three_layers_none_is_left_out_because_it_cannot_be_read() {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace("repo.git}", "repo.git, path: [common, region, host]}"));
    let records = ["{name: \"@\", type: A, values: [192.0.2.1]}"];
    env.write("work/common/z.yaml", &zone(ZONE, "zones", &records));
    env.write("work/region/z.yaml", OVER);
    let host =
        OVER.replace("ttl: 120\n  records:\n    - {name: \"@\", type: A, values: [192.0.2.9]}", "ttl: 60");
    env.push("host/z.yaml", &host);
    env.apply();
    let before = env.zone_rrsets(ZONE);
    assert_eq!(before, rrsets(&[(" A", "60 192.0.2.9")]));
    for broken in [OVER.replace("Zone", "Zoen"), format!("{OVER}  bad: [")] {
        env.push("region/z.yaml", &broken);
        env.run(&["apply", "--yes"]).exits(1).says(&["FROZEN", "0 updated"]);
        assert_eq!(env.zone_rrsets(ZONE), before, "{broken}");
    }
    // It may be in another file by now.
    env.git(&["mv", "region/z.yaml", "region/zones.yaml"]);
    env.push_all();
    env.run(&["apply", "--yes"]).exits(1).says(&["FROZEN", "0 updated"]);
    assert_eq!(env.zone_rrsets(ZONE), before);
    env.push("region/zones.yaml", OVER);
    env.in_sync();
}
