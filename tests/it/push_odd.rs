//! Pushes of what is seldom pushed: names and options that are no text, tags that move, several rewinds at once.

use crate::{
    env::{Env, Output, zone},
    push::git,
    running::Daemon,
};
use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::{OsStrExt, OsStringExt},
};

const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";

/// A desk with these sources of its push target, each with its further keys.
fn desk(sources: &[(&str, &str)]) -> Env {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let url = env.path("repo.git");
    let source = |(name, keys): &(&str, &str)| {
        format!("  - {{name: {name}, url: {}, allow: all, {keys}}}\n", url.display())
    };
    let sources: String = sources.iter().map(source).collect();
    let (head, tail) = (config.split("sources:").next().unwrap(), config.split("providers:").nth(1).unwrap());
    env.write("config.yaml", &format!("{head}sources:\n{sources}providers:{tail}"));
    fs::remove_dir_all(env.path("repo.git")).unwrap();
    env.run(&["init", "repo.git"]).exits(0);
    env
}

fn commit(env: &Env, file: &str, name: &str, records: &[&str]) -> String {
    env.write(&format!("work/{file}"), &zone(name, "zones", records));
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "--allow-empty", "-m", "change"]);
    env.git(&["rev-parse", "HEAD"])
}

fn push(env: &Env, args: &[&[u8]]) -> Output {
    let mut command = git(env, &["push"]);
    command.args(args.iter().map(|arg| OsStr::from_bytes(arg)));
    env.finish(command)
}

#[test]
fn a_ref_whose_name_is_no_text_is_taken_and_keeps_the_followed_one_from_nothing() {
    let env = desk(&[("infra", "branch: main")]);
    let _daemon = Daemon::ready(&env);
    let sha = commit(&env, "zone.yaml", "example.com", &[WWW]);
    // What Git itself says of it is no text either.
    push(&env, &[b"-q", b"origin", b"HEAD:refs/heads/main", b"HEAD:refs/heads/f\xffx"])
        .exits(0)
        .says(&["infra is in sync at", "not applied: no source follows f\u{fffd}x"]);
    assert!(env.zone_rrsets("example.com").contains_key("www A"));
    let odd = OsString::from_vec(b"refs/heads/f\xffx".to_vec());
    assert_eq!(fs::read_to_string(env.path("repo.git").join(odd)).unwrap().trim(), sha);
}

#[test]
fn a_push_with_an_option_that_cannot_be_read_takes_nothing() {
    let env = desk(&[("infra", "branch: main")]);
    let _daemon = Daemon::ready(&env);
    commit(&env, "zone.yaml", "example.com", &[WWW]);
    push(&env, &[b"-o", b"ci.skip", b"-o", b"reconciled.plan\xff", b"origin", b"HEAD:main"])
        .exits(1)
        .says(&["error: option 2 of this push is no text (UTF-8)", "hint: write it anew"]);
    assert!(env.zone_rrsets("example.com").is_empty());
    push(&env, &[b"-o", b"ci.skip", b"-o", b"", b"origin", b"HEAD:main"]).exits(0);
    assert!(env.zone_rrsets("example.com").contains_key("www A"));
}

#[test]
fn two_branches_are_rewound_by_the_one_line_that_a_push_says() {
    let env = desk(&[("a", "branch: a, path: a"), ("b", "branch: b, path: b")]);
    let _daemon = Daemon::ready(&env);
    commit(&env, "b/zone.yaml", "example.net", &[WWW]);
    let first = commit(&env, "a/zone.yaml", "example.com", &[WWW]);
    let both: [&[u8]; 3] = [b"origin", b"HEAD:refs/heads/a", b"HEAD:refs/heads/b"];
    push(&env, &both).exits(0);
    commit(&env, "a/zone.yaml", "example.com", &[WWW, MAIL]);
    push(&env, &both).exits(0);
    // Each branch has its own way back.
    env.git(&["reset", "-q", "--hard", &first]);
    env.git(&["branch", "other"]);
    env.git(&["commit", "-q", "--allow-empty", "-m", "another way"]);
    let back: [&[u8]; 3] = [b"origin", b"HEAD:refs/heads/a", b"other:refs/heads/b"];
    let refused = push(&env, &[&[&b"--force"[..]][..], &back[..]].concat()).exits(1);
    let line = refused.stderr.lines().find_map(|line| line.split_once("to rewind on purpose: git push "));
    let line: Vec<&[u8]> = line.unwrap().1.split_whitespace().map(str::as_bytes).collect();
    assert_eq!(line.len(), 5, "{}", refused.stderr);
    // One that names a part of it is told the whole.
    let part = push(&env, &[&line[..3], &back[..]].concat()).exits(1);
    part.says(&[&String::from_utf8_lossy(&line.join(&b' '))]);
    let done = push(&env, &[&line[..], &back[..]].concat()).exits(0);
    done.says(&["a is rewound to", "b is rewound to", "a is in sync at", "b is in sync at"]);
    assert!(!env.zone_rrsets("example.com").contains_key("mail A"));
}

#[test]
fn what_is_said_of_a_tag_that_is_rewound_names_that_tag() {
    let env = desk(&[("infra", "ref: {tag: stable}, approve: [socket]")]);
    let _daemon = Daemon::ready(&env);
    let first = commit(&env, "zone.yaml", "example.com", &[WWW]);
    push(&env, &[b"origin", b"HEAD:refs/tags/stable"]).exits(0);
    commit(&env, "zone.yaml", "example.com", &[WWW, MAIL]);
    push(&env, &[b"--force", b"origin", b"HEAD:refs/tags/stable"]).exits(0).says(&["infra is in sync at"]);
    let refused = push(&env, &[b"--force", b"origin", b"HEAD~1:refs/tags/stable"]).exits(1);
    refused.says(&["on the daemon's host: git update-ref refs/tags/stable COMMIT, then reconciled sync"]);
    env.git_in("repo.git", &["update-ref", "refs/tags/stable", &first]);
    env.run(&["sync", "--source", "infra", "--accept-rewind", &first, "--wait"]).exits(0);
    assert!(!env.zone_rrsets("example.com").contains_key("mail A"));
}

#[test]
fn what_a_pointer_of_git_lfs_stands_for_is_not_deleted() {
    let env = desk(&[("infra", "branch: main")]);
    let _daemon = Daemon::ready(&env);
    commit(&env, "zone.yaml", "example.com", &[WWW]);
    push(&env, &[b"origin", b"HEAD:main"]).exits(0);
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    env.write("work/zone.yaml", pointer);
    env.git(&["commit", "-q", "-a", "-m", "track with lfs"]);
    let refused = push(&env, &[b"origin", b"HEAD:main"]).exits(1);
    refused.says(&["this is a pointer of Git LFS", "--> zone.yaml", "its manifests have errors"]);
    assert!(env.zone_rrsets("example.com").contains_key("www A"));
}

#[test]
fn the_name_of_a_file_says_no_lines_of_its_own() {
    let env = desk(&[("infra", "branch: main")]);
    let _daemon = Daemon::ready(&env);
    env.write("work/z\nerror: all is lost.yaml", "apiVersion: dns/v1\n");
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "odd"]);
    let refused = push(&env, &[b"origin", b"HEAD:main"]).exits(1);
    refused.says(&["--> z\\nerror: all is lost.yaml:1:"]).hides(&["remote: error: all is lost"]);
}

#[test]
fn what_goes_from_one_branch_to_another_while_it_is_suspended_is_handed_over() {
    let env = desk(&[("a", "branch: a"), ("b", "branch: b")]);
    let _daemon = Daemon::ready(&env);
    let head = "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {name: mail}\n";
    let set = format!("{head}spec: {{zone: example.com, records: [{MAIL}]}}\n");
    env.git(&["checkout", "-q", "-b", "a"]);
    env.write("work/mail.yaml", &set);
    commit(&env, "zone.yaml", "example.com", &[WWW]);
    push(&env, &[b"origin", b"a"]).exits(0);
    env.git(&["checkout", "-q", "--orphan", "b"]);
    env.git(&["rm", "-q", "-f", "zone.yaml"]);
    env.git(&["commit", "-q", "-m", "add"]);
    push(&env, &[b"origin", b"b"]).exits(1).says(&["belongs to source `a`"]);

    env.run(&["suspend", "--all", "--reason", "it moves"]).exits(0);
    env.git(&["checkout", "-q", "a"]);
    env.git(&["rm", "-q", "mail.yaml"]);
    env.git(&["commit", "-q", "-m", "take out"]);
    push(&env, &[b"origin", b"a"]).exits(0).says(&["- RecordSet/mail#mail/A", "a is suspended at"]);
    push(&env, &[b"origin", b"b"]).exits(0).says(&["No changes"]);
    env.run(&["resume", "--all"]).exits(0);
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    assert!(env.zone_rrsets("example.com").contains_key("mail A"));
    env.run(&["history"]).exits(0).hides(&["delete "]);
}
