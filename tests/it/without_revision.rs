//! Nothing of a source is in force yet: which one it is, why, since when and what to do is told wherever its manifests would be.

use crate::{
    env::Env,
    running::{Daemon, wait_for},
};
use std::fs;

const KEY: &str =
    "ops@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPQP5EFhyn7obzb4K8ko41UKhHvE1M/qToDBKd/5Y4Gj\n";

struct Case<'a> {
    /// Further keys of the source.
    keys: &'a str,
    /// Where its repository is not.
    is_elsewhere: bool,
    /// What it has.
    text: &'a str,
    why: &'a str,
    hint: &'a str,
    /// What a plan says of that.
    planned: &'a str,
    /// What is known of it once the daemon has gone.
    after: &'a str,
}

const ZONE: &str =
    "apiVersion: dns/v1\nkind: Zone\nmetadata: {name: example.com}\nspec: {provider: zones, records: []}\n";

fn check(case: &Case<'_>) {
    let Case { keys, is_elsewhere, text, why, hint, planned, after } = *case;
    let env = Env::new();
    fs::create_dir(env.path("zones")).unwrap();
    env.write("allowed", KEY);
    let keys = keys.replace("DIR", &env.dir.path().display().to_string());
    let zones = env.path("zones");
    let entry = format!("  - {{name: zones, type: zonefile, directory: {}}}", zones.display());
    env.config_with("it", &entry, &keys);
    env.push("z.yaml", text);
    if is_elsewhere {
        fs::rename(env.path("repo.git"), env.path("elsewhere.git")).unwrap();
    }
    // Nobody has a state yet.
    let explain = ["explain", "Zone/example.com"];
    let unknown = "Zone/example.com cannot be looked at now";
    env.run(&explain).exits(0).says(&[unknown, "source infra", "is in force yet", why]);

    let daemon = Daemon::start(&env);
    wait_for("it is told of", || env.run(&["status"]).all().contains(why));
    env.run(&["status"]).exits(0).says(&["source infra  ", why, "nothing is in force yet", hint]);
    let told = ["source infra may declare it: ", why, "nothing is in force yet", ", since 20", hint];
    env.run(&explain).exits(0).says(&told).says(&[unknown]);
    env.run(&["status", "Zone/example.com"]).exits(1).says(&told);
    env.run(&["plan"]).exits(1).says(&[planned]);
    daemon.stop();

    env.run(&["status"]).exits(0).says(&["source infra  ", after, "reconciled plan"]);
    env.run(&["status", "Zone/example.com"]).exits(1).says(&["source infra may declare it: ", after]);
}

#[test]
fn of_a_source_whose_first_revision_is_invalid_it_is_told_that_nothing_is_in_force() {
    check(&Case {
        keys: ", onInvalid: hold",
        is_elsewhere: false,
        text: "a: [\n",
        why: "manifests have errors",
        hint: "to see them all: reconciled plan",
        planned: "nothing of it is in force yet",
        after: "its manifests have errors: nothing is in force yet",
    });
}

#[test]
fn of_a_source_whose_first_revision_is_not_signed_it_is_told_that_nothing_is_in_force() {
    check(&Case {
        keys: ", verify: {allowedSigners: DIR/allowed}",
        is_elsewhere: false,
        text: ZONE,
        why: "of source infra does not come into force: it is not signed",
        hint: "sign it anew and push",
        planned: "nothing of source infra is in force yet, since 20",
        after: "nothing of it is in force yet",
    });
}

#[test]
fn of_a_source_that_was_never_had_it_is_told_that_nothing_is_in_force() {
    check(&Case {
        keys: "",
        is_elsewhere: true,
        text: ZONE,
        why: "repo.git is not a repository",
        hint: "check the path, and that the credentials may read it",
        planned: "nothing of source infra is in force yet, since 20",
        after: "nothing of it is in force yet",
    });
}
