//! A revision is known of a source and not in force: `plan`, `apply` and the daemon, also while it begins, keep what it declares.

use crate::{
    env::{Env, Output, WIDE_GUARD, rrsets, zone},
    running::{Daemon, wait_for},
    shared::{other_source, push_other},
};
use std::fs;

const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.9]}";
const OLD: &str = "{name: old, type: A, values: [192.0.2.2]}";
const BAD: &str =
    "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {name: bad}\nspec: {zone: example.com, recordz: []}\n";

fn desk(source_keys: &str) -> Env {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace("repo.git}", &format!("repo.git{source_keys}}}")));
    env
}

fn sync(env: &Env) -> Output {
    env.run(&["sync", "--wait", "--timeout", "60s"])
}

/// `old` is to go and `www` to change by what is in force, and nothing of that was done.
fn opened(source_keys: &str) -> Env {
    let env = desk(source_keys);
    env.push("zone.yaml", &zone(ZONE, "zones", &["{name: www, type: A, values: [192.0.2.1]}", OLD]));
    env.apply();
    env.run(&["suspend", "--all", "--reason", "x"]).exits(0);
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.run(&["apply", "--yes"]).exits(3).says(&["2 suspended"]);
    env
}

/// `old` was kept, though `www` was changed.
#[track_caller]
fn is_kept(env: &Env) {
    wait_for("what is in force is done", || {
        env.zone_rrsets(ZONE).get("www A").is_some_and(|www| www == "300 192.0.2.9")
    });
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("old A", "300 192.0.2.2"), ("www A", "300 192.0.2.9")]));
    env.run(&["history", "Zone/example.com#old/A"]).exits(0).says(&["create"]).hides(&["delete"]);
}

/// What the newest revision has beside what is in force.
struct Newest {
    source_keys: &'static str,
    file: &'static str,
    text: String,
    /// How a plan ends, and what it says of `old`.
    code: i32,
    says: &'static str,
    /// The same while its remote cannot be asked.
    unasked: &'static str,
    /// How a sync ends.
    synced: i32,
}

fn cases() -> [Newest; 3] {
    let declared = zone(ZONE, "zones", &[WWW, OLD]);
    let declares = "its newest revision, COMMIT, declares it and is not in force";
    [
        Newest {
            source_keys: ", onInvalid: hold",
            file: "zone.yaml",
            text: format!("{declared}---\n{BAD}"),
            code: 1,
            says: declares,
            unasked: declares,
            synced: 1,
        },
        Newest {
            source_keys: "",
            file: "old.yaml",
            text: "a: [\n".into(),
            code: 1,
            says: "files with errors may still declare it: old.yaml",
            unasked: "its newest revision, COMMIT, is not in force, has errors, and may still declare it",
            synced: 1,
        },
        Newest {
            source_keys: "",
            file: "zone.yaml",
            text: declared,
            code: 2,
            says: "2 in sync",
            unasked: declares,
            synced: 0,
        },
    ]
}

impl Newest {
    /// A desk where it was offered, and a plan said what becomes of `old`.
    fn planned(&self) -> (Env, String) {
        let env = opened(self.source_keys);
        let commit = env.push(self.file, &self.text)[..7].to_owned();
        env.run(&["resume", "--all"]).exits(0);
        let plan = env.run(&["plan", "--detailed-exitcode"]).exits(self.code);
        plan.says(&["1 to update, 0 to delete", &self.says.replace("COMMIT", &commit)]);
        (env, commit)
    }
}

#[test]
fn a_daemon_that_begins_deletes_nothing_that_a_plan_keeps() {
    for newest in cases() {
        let (env, _) = newest.planned();
        let daemon = Daemon::ready(&env);
        is_kept(&env);
        sync(&env).exits(newest.synced);
        is_kept(&env);
        daemon.stop();
    }
}

#[test]
fn a_remote_that_cannot_be_asked_takes_nothing_back_that_it_offered() {
    for newest in cases() {
        let (env, commit) = newest.planned();
        let (here, away) = (env.path("repo.git"), env.path("away.git"));
        fs::rename(&here, &away).unwrap();
        let kept = newest.unasked.replace("COMMIT", &commit);
        env.run(&["plan"]).exits(1).says(&["1 to update, 0 to delete", &kept]);
        let daemon = Daemon::ready(&env);
        is_kept(&env);
        wait_for("the remote was asked", || env.run(&["status"]).all().contains("is not a repository"));
        is_kept(&env);
        env.run(&["plan"]).exits(1).says(&["No changes", &kept]);
        // What comes back is as it was offered, and nothing was taken back meanwhile.
        fs::rename(&away, &here).unwrap();
        sync(&env).exits(newest.synced);
        is_kept(&env);
        daemon.stop();
    }
}

#[test]
fn what_the_remote_took_back_is_kept_no_longer() {
    let [refused, ..] = cases();
    let (env, _) = refused.planned();
    env.git(&["reset", "-q", "--hard", "HEAD~1"]);
    env.git(&["push", "-q", "--force", "origin", "HEAD:main"]);
    env.run(&["plan", "--detailed-exitcode"]).exits(2).says(&["1 to update, 1 to delete"]).hides(&["FROZEN"]);
    let daemon = Daemon::ready(&env);
    sync(&env).exits(0);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.9")]));
    daemon.stop();
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Apply,
    Beginning,
    Running,
}

#[test]
fn what_is_rolled_back_goes_though_a_refused_revision_declares_it() {
    for by in [By::Apply, By::Beginning, By::Running] {
        let env = desk(", onInvalid: hold");
        let first = env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
        env.apply();
        let more = "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {name: more}\n";
        env.push("more.yaml", &format!("{more}spec: {{zone: {ZONE}, records: [{OLD}]}}\n"));
        env.apply();
        let running = (by == By::Running).then(|| Daemon::ready(&env));
        env.push("bad.yaml", BAD);
        if running.is_some() {
            sync(&env).exits(1);
        }
        let code = if by == By::Running { 1 } else { 0 };
        env.run(&["rollback", &first, "--source", "infra", "--reason", "x"]).exits(code);
        if by != By::Running {
            env.run(&["plan"]).exits(1).says(&["0 to update, 1 to delete"]).hides(&["FROZEN"]);
        }
        if by == By::Apply {
            env.run(&["apply", "--yes"]).exits(1).says(&["1 deleted"]);
        }
        let daemon = running.or_else(|| (by == By::Beginning).then(|| Daemon::ready(&env)));
        let goes = rrsets(&[("www A", "300 192.0.2.9")]);
        wait_for("it is rolled back", || env.zone_rrsets(ZONE) == goes);
        if let Some(daemon) = daemon {
            daemon.stop();
        }
        // Nothing brings it back but a revision that is good.
        env.run(&["plan"]).exits(1).says(&["No changes"]);
    }
}

#[test]
fn what_has_to_be_signed_by_now_and_is_not_is_kept_no_longer() {
    let [refused, ..] = cases();
    let (env, _) = refused.planned();
    env.write("allowed", "# nobody\n");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let verified = config.replace("onInvalid: hold", "onInvalid: hold, verify: {allowedSigners: allowed}");
    env.write("config.yaml", &verified);
    env.run(&["plan"]).exits(1).says(&["it is not signed", "1 to update, 1 to delete"]).hides(&["FROZEN"]);
}

#[test]
fn what_cannot_be_listed_may_declare_anything() {
    let env = opened(", maxTree: 4KiB");
    env.write("work/large.txt", &"x".repeat(8192));
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, OLD]));
    env.run(&["resume", "--all"]).exits(0);
    let said = "the files are larger than 4096 bytes together";
    env.run(&["plan"]).exits(1).says(&["1 to update, 0 to delete", said]);
    let daemon = Daemon::ready(&env);
    is_kept(&env);
    sync(&env).says(&[said]);
    is_kept(&env);
    daemon.stop();
}

/// A set of records in the zone.
fn set(name: &str, hosts: &[&str]) -> String {
    let record = |host: &&str| format!("{{name: {host}, type: A, values: [192.0.2.3]}}");
    let records: Vec<String> = hosts.iter().map(record).collect();
    let records = records.join(", ");
    format!(
        "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {{name: {name}}}\nspec: {{zone: {ZONE}, records: [{records}]}}\n"
    )
}

#[test]
fn what_is_left_of_a_held_change_is_held_while_what_takes_it_back_is_refused() {
    let env = desk(", onInvalid: hold");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace(WIDE_GUARD, "guard: {maxDeletes: 2, maxDeletePercent: 100}"));
    let (most, last) = (set("most", &["a", "b", "c"]), set("last", &["d"]));
    env.write("work/most.yaml", &most);
    env.write("work/last.yaml", &last);
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.apply();
    let all = env.zone_rrsets(ZONE);
    env.push_without("most.yaml");
    env.push_without("last.yaml");
    env.run(&["apply", "--yes"]).exits(3).says(&["4 deletes, limit 2"]);
    // Who takes it back breaks one of the files on the way.
    env.write("work/most.yaml", &most);
    env.push("last.yaml", "a: [\n");
    let left = "3 are frozen and may be a part of what was held before";
    env.run(&["plan"]).exits(1).says(&["1 to delete", left]);
    env.run(&["apply", "--yes"]).says(&[left]);
    assert_eq!(env.zone_rrsets(ZONE), all);
    let daemon = Daemon::ready(&env);
    sync(&env);
    env.run(&["plan"]).exits(1).says(&["1 to delete", left]);
    assert_eq!(env.zone_rrsets(ZONE), all);
    daemon.stop();
    env.push("last.yaml", &last);
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), all);
}

#[test]
fn what_is_shared_loses_no_value_that_a_refused_revision_declares() {
    let env = desk(", onInvalid: hold");
    let value = |last: u8| format!("{{name: app, type: A, values: [192.0.2.{last}], merge: true}}");
    let more = format!(
        "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {{name: more}}\nspec: {{zone: {ZONE}, records: [{}]}}\n",
        value(2)
    );
    env.write("work/more.yaml", &more);
    env.push("zone.yaml", &zone(ZONE, "zones", &[&value(1)]));
    env.apply();
    let both = rrsets(&[("app A", "300 192.0.2.1 192.0.2.2")]);
    assert_eq!(env.zone_rrsets(ZONE), both);
    env.run(&["suspend", "--all", "--reason", "x"]).exits(0);
    env.push_without("more.yaml");
    env.run(&["apply", "--yes"]).exits(3).says(&["1 suspended"]);
    env.write("work/more.yaml", &more);
    let newest = env.push("bad.yaml", BAD)[..7].to_owned();
    env.run(&["resume", "--all"]).exits(0);
    let kept = format!("1 of RecordSet/more: its newest revision, {newest}, declares it and is not in force");
    env.run(&["plan"]).exits(1).says(&["No changes", &kept]);
    env.run(&["apply", "--yes"]).exits(1);
    assert_eq!(env.zone_rrsets(ZONE), both);
    let daemon = Daemon::ready(&env);
    sync(&env).exits(1);
    assert_eq!(env.zone_rrsets(ZONE), both);
    daemon.stop();
    // What is taken back declares nothing any more.
    env.git(&["reset", "-q", "--hard", "HEAD~1"]);
    env.git(&["push", "-q", "--force", "origin", "HEAD:main"]);
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("app A", "300 192.0.2.1")]));
}

#[test]
fn what_is_kept_for_a_refused_revision_alone_is_shown_as_frozen() {
    let env = desk(", onInvalid: hold");
    let more = set("more", &["old"]);
    env.write("work/more.yaml", &more);
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.apply();
    env.run(&["suspend", "--all", "--reason", "x"]).exits(0);
    let in_force = env.push_without("more.yaml")[..7].to_owned();
    env.run(&["apply", "--yes"]).exits(3).says(&["1 suspended"]);
    env.write("work/more.yaml", &more);
    let newest = env.push("bad.yaml", BAD)[..7].to_owned();
    env.run(&["resume", "--all"]).exits(0);
    env.run(&["apply", "--yes"]).exits(1);
    let stays = format!("{in_force} stays in force, and what only {newest} declares stays as it is");
    let kept = format!("its newest revision, {newest}, declares it and is refused");
    let words = [&*stays, &*kept, "FROZEN (1)\n  RecordSet/more  Frozen"];
    env.run(&["status", "--exit-code"]).exits(3).says(&words);
    env.push_without("bad.yaml");
    env.apply();
    env.run(&["status"]).exits(0).hides(&["FROZEN", "InvalidManifests"]);
}

#[test]
fn what_is_newer_is_kept_also_where_what_is_in_force_is_refused_by_now() {
    let env = Env::zonefile();
    other_source(&env);
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let may = |what: &str| {
        let keys = format!("repo.git, onInvalid: hold, allow: {what}}}");
        env.write("config.yaml", &config.replace("repo.git, allow: all}", &keys));
    };
    may("all");
    env.write("work/set.yaml", &set("set", &["m"]));
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    push_other(&env, &set("more", &["api"]));
    env.apply();
    // One source hands over what it has to the other, which is refused for something else.
    env.write("work/bad.yaml", BAD);
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, "{name: api, type: A, values: [192.0.2.3]}"]));
    fs::remove_file(env.path("other/more.yaml")).unwrap();
    env.write("other/README", "nothing\n");
    env.git_in("other", &["add", "-A"]);
    env.git_in("other", &["commit", "-q", "-m", "less"]);
    env.git_in("other", &["push", "-q", "origin", "HEAD:main"]);
    let kept = "1 of RecordSet/other: ";
    env.run(&["plan"]).exits(1).says(&[kept]);
    fs::rename(env.path("repo.git"), env.path("away.git")).unwrap();
    // The host lets it have no sets any more, and what is in force has one.
    may("[{provider: zones, kinds: [dns/Zone]}]");
    let words = ["may not manage dns/RecordSet", "is not a repository", kept];
    env.run(&["plan"]).exits(1).says(&words).hides(&["#api/A"]);
}
