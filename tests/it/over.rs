//! What is over once nobody declares it any more, and what was ours once and is not by its mark alone.

use crate::{
    env::{Env, rrsets, zone},
    pdns::Pdns,
};
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

#[test]
fn what_was_let_go_of_is_not_overwritten_because_it_bears_our_mark() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    let (kept, let_go) =
        ("{name: a, type: A, values: [192.0.2.1]}", "{name: x, type: A, values: [192.0.2.2]");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[kept, &format!("{let_go}, deletion: abandon}}")]));
    env.run(&["apply", "--yes"]).exits(0);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[kept]));
    env.run(&["apply", "--yes"]).exits(0);
    // The server keeps the comment with our mark.
    server.set(ZONE, "x", "A", "198.51.100.7");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[kept, "{name: x, type: A, values: [192.0.2.3]}"]));
    env.run(&["apply", "--yes"]).exits(3).says(&["differs from the manifest"]);
    let theirs = ("x A", "300 198.51.100.7");
    assert_eq!(server.rrsets(ZONE), rrsets(&[("a A", "300 192.0.2.1"), theirs]));
}
