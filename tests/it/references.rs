//! Values of one manifest in another.

use crate::{
    env::{Env, rrsets, zone},
    pdns::Pdns,
    running::Daemon,
};

const ZONE: &str = "example.com";
const MIRROR: &str = "apiVersion: dns/v1
kind: RecordSet
metadata: {name: mirror}
spec:
  zone: example.com
  records:
    - {name: mirror, type: A, values: [\"${Zone/example.com:spec.records[name=www,type=A].values[0]}\"]}
";

fn www(value: &str) -> String {
    zone(ZONE, "pdns", &[&format!("{{name: www, type: A, values: [{value}]}}")])
}

#[test]
fn what_the_hosts_configuration_changes_is_nobodys_commit() {
    let env = Env::zonefile();
    let config = std::fs::read_to_string(env.path("config.yaml")).unwrap();
    let configure = |address: &str| {
        let vars = format!("repo.git, vars: {{address: {address}}}}}");
        env.write("config.yaml", &config.replace("repo.git}", &vars));
    };
    let www = |ttl: u16| {
        let record = format!("{{name: www, type: A, ttl: {ttl}, values: [\"${{vars.address}}\"]}}");
        zone(ZONE, "zones", &[&record])
    };
    configure("192.0.2.1");
    env.push("zone.yaml", &www(300));
    env.apply();
    // Another commit is in force by the time that it is changed.
    env.push("README.md", "words\n");
    env.apply();
    // The second time, this commit is what it was written for last.
    for address in ["192.0.2.2", "192.0.2.3"] {
        configure(address);
        env.run(&["plan"]).exits(0).says(&["www/A", "configuration"]).hides(&["commit"]);
        env.run(&["explain", "Zone/example.com#www/A"]).exits(0).says(&["update (configuration)"]);
        env.apply();
        env.run(&["status", "Zone/example.com#www/A", "-o", "json"])
            .exits(0)
            .says(&["InSync"])
            .hides(&["OutOfDate"]);
        let told = env.run(&["history", "Zone/example.com#www/A", "-o", "json"]).exits(0);
        let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
        assert_eq!(
            (&told[0]["kind"], &told[0]["reason"]),
            (&"update".into(), &"configuration".into()),
            "{told:#}"
        );
        assert!(told[0]["author"].is_null(), "{told:#}");
        assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", &format!("300 {address}"))]));
    }
    let sha = env.push("zone.yaml", &www(600));
    env.run(&["plan"]).exits(0).says(&[&format!("commit {}", &sha[..7])]).hides(&["configuration"]);
}

#[test]
fn who_changes_a_value_changes_what_refers_to_it() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.write("work/mirror.yaml", MIRROR);
    env.push("zone.yaml", &www("192.0.2.1"));
    env.run(&["plan", "--detailed-exitcode"])
        .exits(2)
        .says(&["mirror/A", "192.0.2.1"])
        .hides(&["known after"]);
    let daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1"), ("mirror A", "300 192.0.2.1")]));
    env.push("zone.yaml", &www("192.0.2.2"));
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0).says(&["2 updated"]);
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.2"), ("mirror A", "300 192.0.2.2")]));
    env.run(&["history"]).exits(0).says(&["mirror/A"]);
    daemon.stop();
    env.in_sync();
}

#[test]
fn what_is_never_put_out_is_not_waited_for_without_a_word() {
    let env = Env::host("");
    let file = |name: &str, content: &str| {
        format!(
            "apiVersion: local/v1\nkind: File\nmetadata: {{name: {name}}}\nspec: {{path: /etc/{name}, template: true, content: \"{content}\"}}\n"
        )
    };
    env.write("work/motd.yaml", &file("motd", "hello"));
    env.push("other.yaml", &file("other", "{{ ref('File/motd:status.serial') }}"));
    let told =
        ["File/motd is in sync and puts out no `serial`", "what its manifest says is ${File/motd:spec.NAME}"];
    // Until it is made, nobody knows.
    env.run(&["plan"]).exits(0).says(&["waiting: for an output of File/motd"]).hides(&told);
    env.run(&["apply", "--yes"]).exits(3).says(&told);
    env.run(&["plan"])
        .exits(3)
        .says(&["warning: File/motd puts out no `serial`", "other.yaml:4:"])
        .says(&told);
    env.run(&["status"]).exits(0).says(&told);
    env.run(&["explain", "File/other"]).exits(0).says(&told);
    env.push("other.yaml", &file("other", "{{ ref('File/motd:spec.content') }}"));
    env.apply();
    env.in_sync();
}

#[test]
fn what_is_not_there_is_told_with_what_is() {
    let env = Env::zonefile();
    env.write("work/mirror.yaml", &MIRROR.replace("name=www", "name=wwww"));
    env.push("zone.yaml", &zone(ZONE, "zones", &["{name: www, type: A, values: [192.0.2.1]}"]));
    env.run(&["plan"]).exits(1).says(&[
        "error: Zone/example.com has no `[name=wwww,type=A]` in `spec.records`",
        "mirror.yaml:7:",
        "only what is written in the manifest can be referred to",
    ]);
}
