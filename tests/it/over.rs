//! What is over once nobody declares it any more.

use crate::env::{Env, zone};
use std::fs;

const ZONE: &str = "example.com";
const NOTHING: &str = "# nothing\n";

#[test]
fn a_hold_ends_with_the_commit_that_takes_its_zone_back() {
    let env = Env::new();
    fs::create_dir(env.path("zones")).unwrap();
    let entry = format!(
        "  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.]}}",
        env.path("zones").display()
    );
    env.config_with("it", &entry, ", apply: approve");
    env.push("zone.yaml", &zone(ZONE, "zones", &["{name: a, type: A, values: [192.0.2.1]}"]));
    env.run(&["apply", "--yes"]).exits(3);
    env.run(&["approvals"]).exits(0).says(&[ZONE]);
    env.push("zone.yaml", NOTHING);
    env.run(&["apply", "--yes"]).exits(0);
    env.run(&["approvals"]).exits(0).hides(&[ZONE]);
    env.run(&["status", "--exit-code"]).exits(0);
}

#[test]
fn what_kept_something_from_being_done_ends_with_its_declaration() {
    let env = Env::host("");
    env.write("machine/etc/a", "somebody else's");
    let file = "apiVersion: local/v1\nkind: File\nmetadata: {name: a}\nspec: {path: /etc/a, content: ours}\n";
    env.push("all.yaml", file);
    env.run(&["apply", "--yes"]).exits(3);
    env.run(&["status", "--exit-code"]).exits(3).says(&["File/a"]);
    env.push("all.yaml", NOTHING);
    env.run(&["apply", "--yes"]).exits(0);
    env.run(&["status", "--exit-code"]).exits(0).hides(&["File/a"]);
    assert_eq!(fs::read_to_string(env.path("machine/etc/a")).unwrap(), "somebody else's");
}
