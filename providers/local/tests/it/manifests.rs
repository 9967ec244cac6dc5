//! What manifests may say, and what is said of those that may not.

use crate::desk::Desk;

/// The one problem of a spec and its hint.
#[track_caller]
fn refuse(spec: &str, part: &str) {
    let desk = Desk::with(|config| config.commands = Some([("nginx".into(), vec!["true".into()])].into()));
    let (resources, problems) = desk.normalize(&[spec]);
    let shown: Vec<String> = problems.iter().map(|problem| format!("{problem} {problem:?}")).collect();
    assert!(resources.is_empty(), "{spec} is accepted");
    assert!(shown.iter().any(|text| text.contains(part)), "{spec}: `{part}` is not in {shown:#?}");
    assert!(problems.iter().all(|problem| problem.place.is_some() && problem.hint.is_some()
        || matches!(part, "missing" | "no secret" | "no file `nope`")));
}

#[test]
fn a_manifest_that_means_nothing_is_refused_with_what_to_write() {
    refuse("{content: x}", "missing");
    refuse("{path: etc/x, content: x}", "does not begin with a slash");
    refuse("{path: /etc/../root/x, content: x}", "has `.` or `..`");
    refuse("{path: /root/x, content: x}", "the host allows /etc, /srv");
    refuse("{path: /etc, content: x}", "the host allows");
    refuse("{path: /etc/x}", "one of `content`, `from` and `symlink`");
    refuse("{path: /etc/x, content: a, from: b}", "`from` has no meaning beside `content`");
    refuse("{path: /etc/x, symlink: a, mode: \"0644\"}", "`mode` has no meaning beside `symlink`");
    refuse("{path: /etc/x, symlink: \"\"}", "nowhere a link can lead");
    refuse("{path: /etc/x, content: a, mode: 644}", "four octal digits");
    refuse("{path: /etc/x, content: a, mode: \"0888\"}", "four octal digits");
    refuse("{path: /etc/x, content: a, owner: \"a b\"}", "no name of a user");
    refuse("{path: /etc/x, content: a, validate: ngix}", "did you mean `nginx`");
    refuse("{path: /etc/x, content: a, block: a b}", "no name of a block");
    refuse("{path: /etc/x, content: a, block: a, owner: root}", "`owner` has no meaning beside `block`");
    refuse("{path: /etc/x, content: \"# BEGIN reconciled a\", block: a}", "marker line");
    refuse("{path: /etc/x, content: a, comment: \"//\"}", "for a block");
    refuse("{path: /etc/x, from: nope}", "no file `nope`");
    refuse("{path: /etc/x, content: {secret: nope}}", "no secret");
    refuse("Directory {path: /etc/systemd/system, purge: true}", "cannot be purged");
    refuse(
        "Directory {path: /etc/systemd, mode: \"0777\"}",
        "`mode` of /etc/systemd decides about what is below it",
    );
    refuse("Directory {path: /etc/systemd/system, owner: daemon}", "`owner` of /etc/systemd/system decides");
    refuse("Directory {path: /etc/systemd, purge: true}", "cannot be purged");
}

#[test]
fn content_that_is_wrong_is_not_told_as_missing() {
    for content in ["{secert: x}", "{sops: a, key: b, c: d}", "[a]"] {
        let (_, problems) = Desk::new().normalize(&[&format!("{{path: /etc/x, content: {content}}}")]);
        let told: Vec<&str> = problems.iter().map(|problem| &*problem.message).collect();
        assert!(!told.is_empty() && !told.iter().any(|text| text.contains("needs one of")), "{told:?}");
    }
}

#[test]
fn an_instance_is_left_for_an_hour_at_most() {
    refuse(
        "LoadBalancer front {type: nginx, path: /etc/front.conf, selector: {app: web}, listen: 8080, reload: front.service, \
         drainSeconds: 3601}",
        "no instance is left for 3601 s",
    );
}

#[test]
fn modes_are_octal_quoted_or_not_and_defaults_are_ordinary() {
    let desk = Desk::new();
    let spec = |spec: &str| {
        let resource = desk.desired(&[spec]).remove(0);
        String::from_utf8(resource.spec.bytes().unwrap().to_vec()).unwrap()
    };
    assert_eq!(spec("{path: /etc/x, content: a}"), "file\nmode 0644\n\na");
    assert_eq!(spec("{path: /etc/x, content: a, mode: 0600}"), "file\nmode 0600\n\na");
    assert_eq!(spec("{path: /etc/x, content: a, mode: \"4755\", owner: 0}"), "file\nowner 0\nmode 4755\n\na");
    assert_eq!(spec("{path: /etc/x, from: ./files/page.html}"), "file\nmode 0644\n\n<p>\n");
    // A secret is for nobody else, unless that is said.
    let secret = |text: &str| spec(text).starts_with("file\nmode 0600\n");
    assert!(secret("{path: /etc/x, content: {secret: key}}"));
    assert!(!secret("{path: /etc/x, content: {secret: key}, mode: \"0644\"}"));
    assert_eq!(spec("Directory {path: /etc/x}"), "directory\nmode 0755\n\n");
    assert_eq!(spec("{path: /etc/x, block: lab, content: a}"), "block\ncomment #\n\na\n");
}

#[test]
fn what_cannot_stand_side_by_side_is_an_error_that_names_both() {
    let desk = Desk::new();
    let lint = |specs: &[&str]| {
        let declared = desk.desired(specs);
        let linted: Vec<_> =
            declared.iter().map(|resource| reconciled_provider::Linted { resource, quiet: &[] }).collect();
        let scope = reconciled_provider::Scope::new("host", "files");
        let found = desk.provider.lint(&scope, &linted, reconciled_provider::Around::default());
        found.iter().map(|finding| finding.message.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        lint(&["{path: /etc/x, content: a}", "{path: /etc/x, block: b, content: a}"]),
        ["block `b` is in /etc/x, which is declared as a whole"]
    );
    assert_eq!(
        lint(&["{path: /etc/x, content: a}", "{path: /etc/x/y, content: a}"]),
        ["/etc/x/y is below /etc/x, which is declared and no directory"]
    );
    let two_blocks = ["{path: /etc/h, block: a, content: a}", "{path: /etc/h, block: b, content: a}"];
    assert_eq!(lint(&two_blocks), [""; 0]);
    assert_eq!(lint(&["Directory {path: /etc/x}", "{path: /etc/x/y, content: a}"]), [""; 0]);
}
