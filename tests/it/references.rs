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
