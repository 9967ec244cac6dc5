//! What a pass does to files, links, directories and blocks.

use crate::desk::{Desk, SECRET};
use reconciled_local::{Config, open};
use reconciled_provider::{Found, Owner, Scope};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, symlink},
};

const MOTD: &str = "{path: /etc/motd, content: \"hello\\n\"}";

#[tokio::test]
async fn a_file_is_made_kept_and_taken_away() {
    let desk = Desk::new();
    assert_eq!(desk.pass(&[MOTD]).await.done, ["create /etc/motd: done"]);
    assert_eq!((&*desk.read("/etc/motd"), desk.mode("/etc/motd")), ("hello\n", 0o644));
    assert_eq!(desk.pass(&[MOTD]).await.done, [""; 0]);

    desk.write("/etc/motd", "good bye\n");
    let pass = desk.pass(&[MOTD]).await;
    assert_eq!(pass.done, ["update /etc/motd: done"]);
    assert_eq!(pass.fields, ["content Text(\"good bye\\n\") Text(\"hello\\n\")"]);
    assert_eq!(desk.read("/etc/motd"), "hello\n");
    assert_eq!(desk.originals(), ["good bye\n"], "what somebody wrote is kept");

    desk.chmod("/etc/motd", 0o666);
    assert_eq!(desk.pass(&[MOTD]).await.fields, ["mode Text(\"0666\") Text(\"0644\")"]);
    assert_eq!(desk.mode("/etc/motd"), 0o644);

    assert_eq!(desk.pass(&[]).await.done, ["delete /etc/motd: gone"]);
    assert_eq!(desk.names("/etc"), [""; 0]);
    assert_eq!(desk.originals(), ["good bye\n"], "what was ours is in the repository");
}

#[tokio::test]
async fn a_file_has_its_owner_and_permissions_from_its_first_instant() {
    let desk = Desk::new();
    desk.pass(&["{path: /etc/x, content: a, owner: 4711, group: 4712, mode: \"6750\"}"]).await;
    let stat = fs::metadata(desk.path("/etc/x")).unwrap();
    assert_eq!((stat.uid(), stat.gid(), stat.mode() & 0o7777), (4711, 4712, 0o6750));
    let pass = desk.pass(&["{path: /etc/x, content: a, owner: 4711, group: nosuchgroup}"]).await;
    assert_eq!(pass.done, ["update /etc/x: failed: unavailable: this host has no group `nosuchgroup`"]);
    assert_eq!(desk.mode("/etc/x"), 0o6750, "nothing changed");
    assert_eq!(desk.names("/etc"), ["x"]);
}

#[tokio::test]
async fn names_of_users_are_those_of_the_root_that_is_managed() {
    let desk = Desk::new();
    desk.write("/etc/passwd", "web:x:4711:4711::/:/bin/false\n");
    desk.write("/etc/group", "web:x:4712:\n");
    let spec = "{path: /etc/x, content: a, owner: web, group: web}";
    assert_eq!(desk.pass(&[spec]).await.done, ["create /etc/x: done"]);
    let stat = fs::metadata(desk.path("/etc/x")).unwrap();
    assert_eq!((stat.uid(), stat.gid()), (4711, 4712));
    assert_eq!(desk.pass(&[spec]).await.done, [""; 0]);
    std::os::unix::fs::chown(desk.path("/etc/x"), Some(0), None).unwrap();
    assert_eq!(desk.pass(&[spec]).await.fields.len(), 1);
    assert_eq!(fs::metadata(desk.path("/etc/x")).unwrap().uid(), 4711);
}

#[tokio::test]
async fn a_link_is_made_changed_and_never_followed() {
    let desk = Desk::new();
    desk.write("/root/shadow", SECRET);
    let link = "{path: /etc/l, symlink: ../root/shadow}";
    assert_eq!(desk.pass(&[link]).await.done, ["create /etc/l: done"]);
    assert_eq!(fs::read_link(desk.path("/etc/l")).unwrap().to_str(), Some("../root/shadow"));
    assert_eq!(desk.pass(&[link]).await.done, [""; 0]);
    let pass = desk.pass(&["{path: /etc/l, symlink: x}"]).await;
    assert_eq!(pass.fields, ["symlink Text(\"../root/shadow\") Text(\"x\")"]);
    // A file where a link was.
    let pass = desk.pass(&["{path: /etc/l, content: a}"]).await;
    assert_eq!(pass.done, ["update /etc/l: done"]);
    assert_eq!(desk.read("/etc/l"), "a");
    assert_eq!(desk.read("/root/shadow"), SECRET);
}

#[tokio::test]
async fn directories_come_before_what_is_in_them_and_go_after_it() {
    let desk = Desk::new();
    let specs = [
        "{path: /etc/d/a/f, content: x}",
        "Directory {path: /etc/d, mode: \"0700\"}",
        "Directory {path: /etc/d/a}",
    ];
    let pass = desk.pass(&specs).await;
    assert_eq!(pass.done, ["create /etc/d: done", "create /etc/d/a: done", "create /etc/d/a/f: done"]);
    assert_eq!(desk.mode("/etc/d"), 0o700);
    desk.chmod("/etc/d", 0o777);
    assert_eq!(desk.pass(&specs).await.done, ["update /etc/d: done"]);
    assert_eq!(desk.mode("/etc/d"), 0o700);
    desk.write("/etc/d/foreign", "x");
    let pass = desk.pass(&[]).await;
    assert_eq!(pass.done[..2], ["delete /etc/d/a/f: gone", "delete /etc/d/a: gone"]);
    assert_eq!(pass.done[2], "delete /etc/d: failed: invalid: delete /etc/d: it is not empty");
    fs::remove_file(desk.path("/etc/d/foreign")).unwrap();
    assert_eq!(desk.pass(&[]).await.done, ["delete /etc/d: gone"]);
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_said_with_what_to_declare() {
    let desk = Desk::with(|config| config.paths.push("/opt/app".into()));
    let missing =
        |at: &str, directory: &str| format!("invalid: make {at}: there is no directory {directory}");
    let file = "{path: /etc/d/e/f, content: x}";
    assert_eq!(desk.pass(&[file]).await.done, [missing("/etc/d/e/f", "/etc/d/e")]);
    // A directory that cannot be made itself is none for what is in it.
    let inner = "Directory {path: /etc/d/e}";
    let both = [missing("/etc/d/e", "/etc/d"), missing("/etc/d/e/f", "/etc/d")];
    assert_eq!(desk.pass(&[file, inner]).await.done, both);
    let block = "{path: /etc/d/h, block: b, content: x}";
    assert_eq!(desk.pass(&[block]).await.done, [missing("/etc/d/h", "/etc/d")]);
    // Nor is one that is allowed and not there.
    let below = "{path: /opt/app/f, content: x}";
    assert_eq!(desk.pass(&[below]).await.done, [missing("/opt/app/f", "/opt/app")]);
    // By now somebody made it.
    fs::create_dir_all(desk.path("/opt/app")).unwrap();
    assert_eq!(desk.pass(&[below]).await.done, ["create /opt/app/f: done"]);
}

#[tokio::test]
async fn what_is_of_another_kind_is_not_removed() {
    let desk = Desk::new();
    fs::create_dir(desk.path("/etc/x")).unwrap();
    let pass = desk.pass(&["{path: /etc/x, content: a}"]).await;
    assert_eq!(pass.done, ["invalid: /etc/x is a directory, and a file is declared"]);
    desk.write("/etc/y", "a");
    let pass = desk.pass(&["Directory {path: /etc/y}"]).await;
    assert_eq!(pass.done, ["invalid: /etc/y is a file, and a directory is declared"]);
    assert!(desk.path("/etc/x").is_dir() && desk.path("/etc/y").is_file());
}

#[tokio::test]
async fn a_block_leaves_the_rest_of_its_file_alone() {
    let desk = Desk::new();
    desk.write("/etc/hosts", "127.0.0.1 localhost");
    desk.chmod("/etc/hosts", 0o600);
    let lab = "{path: /etc/hosts, block: lab, content: \"192.0.2.1 a\"}";
    let web = "{path: /etc/hosts, block: web, content: \"192.0.2.2 b\\n\", comment: ;}";
    let pass = desk.pass(&[lab, web]).await;
    assert_eq!(pass.done, ["create /etc/hosts#lab: done", "create /etc/hosts#web: done"]);
    let text = "127.0.0.1 localhost\n# BEGIN reconciled lab\n192.0.2.1 a\n# END reconciled lab\n\
                ; BEGIN reconciled web\n192.0.2.2 b\n; END reconciled web\n";
    assert_eq!((&*desk.read("/etc/hosts"), desk.mode("/etc/hosts")), (text, 0o600));
    assert_eq!(desk.pass(&[lab, web]).await.done, [""; 0]);

    desk.write("/etc/hosts", &text.replace("192.0.2.1", "192.0.2.9").replace("127.0.0.1", "::1"));
    assert_eq!(desk.pass(&[lab, web]).await.done, ["update /etc/hosts#lab: done"]);
    assert_eq!(desk.read("/etc/hosts"), text.replace("127.0.0.1", "::1"));

    assert_eq!(desk.pass(&[web]).await.done, ["delete /etc/hosts#lab: gone"]);
    assert!(desk.read("/etc/hosts").starts_with("::1 localhost\n; BEGIN reconciled web\n"));
    desk.write("/etc/hosts", "; BEGIN reconciled web\nx\n");
    let pass = desk.pass(&[web]).await;
    assert_eq!(pass.done, ["invalid: /etc/hosts:1: the markers of block `web` are not one pair"]);
    assert_eq!(desk.read("/etc/hosts"), "; BEGIN reconciled web\nx\n");
}

#[tokio::test]
async fn a_block_is_put_into_no_file_behind_a_link_and_the_error_says_where_that_is() {
    let desk = Desk::new();
    desk.write("/etc/real", "a\n");
    symlink("real", desk.path("/etc/link")).unwrap();
    fs::create_dir(desk.path("/etc/d")).unwrap();
    symlink("d", desk.path("/etc/way")).unwrap();
    desk.write("/etc/d/f", "a\n");
    for (path, message, hint) in [
        ("/etc/link", "is a symbolic link, and a block is put", "the link leads to real"),
        ("/etc/way/f", "a symbolic link is in the way", "declare the path that the link leads to"),
        ("/etc/d", "is no file that could have a block", "with the path of a file"),
    ] {
        let desired = desk.desired(&[&format!("{{path: {path}, block: b, content: x}}")]);
        let error = desk.deltas(&desired).await.into_values().next().unwrap().unwrap_err();
        assert!(
            error.message.contains(message) && error.hint.as_ref().unwrap().contains(hint),
            "{}",
            error.message
        );
    }
    assert_eq!(desk.read("/etc/real"), "a\n");
}

#[tokio::test]
async fn what_is_left_of_a_file_without_its_block_is_validated_as_the_block_was() {
    let argv = ["/bin/grep", "-q", "ends", "{file}"].map(String::from).to_vec();
    let desk = Desk::with(|config| config.commands = Some([("whole".into(), argv)].into()));
    let block = "{path: /etc/sudoers, block: a, validate: whole, content: \"ends\"}";
    // Written here, and found as it is declared.
    for is_found in [false, true] {
        let text = "# BEGIN reconciled a\nends\n# END reconciled a\n";
        desk.write("/etc/sudoers", if is_found { text } else { "" });
        desk.pass(&[block]).await;
        let done = desk.pass(&[]).await.done;
        assert!(
            done.len() == 1 && done[0].starts_with("delete /etc/sudoers#a: failed: invalid: "),
            "{done:?}"
        );
        assert_eq!(desk.read("/etc/sudoers"), text, "nothing invalid takes its place");
        desk.write("/etc/sudoers", &format!("{text}ends here\n"));
        assert_eq!(desk.pass(&[]).await.done, ["delete /etc/sudoers#a: gone"]);
        assert_eq!(desk.read("/etc/sudoers"), "ends here\n");
    }
}

#[tokio::test]
async fn a_block_goes_also_where_the_command_that_had_to_accept_it_is_gone() {
    let argv = ["/bin/true".to_owned()].to_vec();
    let mut desk = Desk::with(|config| config.commands = Some([("whole".into(), argv)].into()));
    desk.write("/etc/hosts", "");
    desk.pass(&["{path: /etc/hosts, block: a, validate: whole, content: x}"]).await;
    let mut config = Config::new(desk.dir.path().join("root"), &["/etc"]);
    config.commands = Some(BTreeMap::new());
    desk.provider = open("host", config).unwrap();
    assert_eq!(desk.pass(&[]).await.done, ["delete /etc/hosts#a: gone"]);
    assert_eq!(desk.read("/etc/hosts"), "");
}

#[tokio::test]
async fn content_from_a_secret_is_in_the_file_and_nowhere_else() {
    let desk = Desk::new();
    let spec = "{path: /etc/key, content: {secret: key}, mode: \"0644\"}";
    let desired = desk.desired(&[spec]);
    assert_eq!(desk.pass(&[spec]).await.done, ["create /etc/key: done"]);
    assert_eq!(desk.read("/etc/key"), SECRET);
    assert_eq!(desk.pass(&[spec]).await.done, [""; 0]);

    let seen = desk.observe(&desired).await;
    let shown = format!(
        "{desired:?} {seen:?} {:?}",
        desk.provider.show(&"/etc/key".into(), &seen.resources[0].bytes)
    );
    assert!(!shown.contains(SECRET) && shown.contains("(secret key)"), "{shown}");
    let bytes = String::from_utf8_lossy(&seen.resources[0].bytes).into_owned();
    assert!(!bytes.contains(SECRET), "{bytes}");

    // Neither what replaces it nor what it is replaced by is told.
    desk.write("/etc/key", "another canary");
    let pass = desk.pass(&[spec]).await;
    assert_eq!(pass.fields, ["content Sensitive Sensitive"]);
    let pass = desk.pass(&["{path: /etc/key, content: plain}"]).await;
    assert_eq!(pass.fields, ["content Sensitive Sensitive"]);
    desk.pass(&[spec]).await;
    // No longer declared: what is shown of a deletion is no secret either.
    let seen = desk.observe(&[]).await;
    assert!(!String::from_utf8_lossy(&seen.resources[0].bytes).contains(SECRET));
}

#[tokio::test]
async fn what_not_every_user_may_read_is_not_reported() {
    let desk = Desk::new();
    let desired = desk.desired(&["{path: /etc/x, content: a}"]);
    let reported = async || {
        let seen = desk.observe(&desired).await;
        String::from_utf8_lossy(&seen.resources[0].bytes).into_owned()
    };
    desk.write("/etc/x", "canary");
    assert!(reported().await.contains("canary"));
    desk.chmod("/etc/x", 0o640);
    assert!(!reported().await.contains("canary"));
    desk.chmod("/etc/x", 0o644);
    desk.chmod("/etc", 0o750);
    assert!(!reported().await.contains("canary"), "nobody else gets there");
}

#[tokio::test]
async fn a_purged_directory_reports_what_nobody_declares() {
    let desk = Desk::new();
    let specs = ["Directory {path: /etc/conf.d, purge: true}", "{path: /etc/conf.d/sub/ours, content: x}"];
    fs::create_dir_all(desk.path("/etc/conf.d/sub")).unwrap();
    fs::create_dir_all(desk.path("/etc/conf.d/old")).unwrap();
    desk.write("/etc/conf.d/old/a", "a");
    desk.write("/etc/conf.d/stray", "s");
    desk.write("/etc/conf.d/.reconciled-0", "a draft");
    // What cannot be deleted is in no plan, nor is the way to it.
    fs::create_dir_all(desk.path("/etc/conf.d/run/deep")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(desk.path("/etc/conf.d/run/deep/socket")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, desk.path("/etc/conf.d/pipe"), rustix::fs::FileType::Fifo, mode, 0)
        .unwrap();
    fs::File::create(desk.path("/etc/conf.d/large")).unwrap().set_len(17 << 20).unwrap();
    desk.write("/etc/conf.d/run/stray", "s");
    desk.write("/etc/outside", "o");
    let normalized = desk.normalize_one(specs[0]);
    let scope = Scope::new("host", "files");
    assert_eq!(normalized.exclusive, std::slice::from_ref(&scope));
    let rules: Vec<_> = normalized.ignored.iter().map(|(_, rule)| rule.clone()).collect();

    let seen = desk.observe(&desk.desired(&specs)).await;
    let ids: Vec<&str> = seen.resources.iter().map(|observed| &*observed.id.0).collect();
    let strays =
        ["/etc/conf.d", "/etc/conf.d/old", "/etc/conf.d/old/a", "/etc/conf.d/run/stray", "/etc/conf.d/stray"];
    assert_eq!(ids, strays);
    for observed in &seen.resources {
        assert_eq!(observed.owner, Owner::Unmarked);
        let may_go = desk.provider.left_alone(&scope, &rules, observed, &seen).is_none();
        assert_eq!(may_go, &*observed.id.0 != "/etc/conf.d", "{}", observed.id);
    }
    let outside = reconciled_provider::Observed::new("/etc/outside".into(), b"");
    assert!(desk.provider.left_alone(&scope, &rules, &outside, &seen).is_some(), "only what is in it goes");
    assert!(
        desk.provider.left_alone(&scope, &[], &seen.resources[1], &seen).is_some(),
        "without a rule nothing goes"
    );
}

#[tokio::test]
async fn what_is_discovered_can_be_declared_as_it_is() {
    let desk = Desk::new();
    fs::create_dir(desk.path("/etc/app")).unwrap();
    desk.write("/etc/app/a.conf", "x: 1\n");
    desk.write("/etc/app/key", "canary");
    desk.chmod("/etc/app/key", 0o600);
    symlink("a.conf", desk.path("/etc/app/l")).unwrap();
    let found = desk.provider.discover(&desk.cx, "/etc/app").await.unwrap().remove(0);
    assert_eq!(found.resources.len(), 4);
    let documents = desk.provider.export(&Found { ..found }).unwrap();
    let text: String = documents.iter().map(|document| String::from_utf8_lossy(document)).collect();
    assert!(!text.contains("canary") && text.contains("\"x: 1\\n\""), "{text}");
    assert_eq!(documents.len(), 3);
    let error = desk.provider.discover(&desk.cx, "/root").await.unwrap_err();
    assert!(error.message.contains("not below any"), "{error}");
}

#[tokio::test]
async fn an_owner_may_be_declared_by_any_name_of_his_number() {
    let desk = Desk::new();
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    desk.write("/etc/passwd", &format!("one:x:{user}:0::/:\nother:x:{user}:0::/:\n"));
    desk.write("/etc/group", &format!("ones:x:{group}:\nothers:x:{group}:\n"));
    let spec = "{path: /srv/x, content: a, owner: other, group: others}";
    assert_eq!(desk.pass(&[spec]).await.done, ["create /srv/x: done"]);
    assert_eq!(desk.pass(&[spec]).await.done, [""; 0]);
    assert_eq!(desk.pass(&["{path: /srv/x, content: a, owner: one, group: ones}"]).await.done, [""; 0]);
}

#[tokio::test]
async fn a_link_to_what_is_no_text_is_nobodys_declared_link() {
    let desk = Desk::new();
    for target in [&b"a\xff"[..], b"a\nb"] {
        let target = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(target);
        symlink(target, desk.path("/etc/l")).unwrap();
        for lookalike in ["{path: /etc/l, symlink: \"a\u{fffd}\"}", "{path: /etc/l, symlink: 'a\\nb'}"] {
            let pass = desk.pass(&[lookalike]).await;
            assert!(pass.done[0].contains("a symbolic link to what is no text"), "{pass:?}");
        }
        assert_eq!(fs::read_link(desk.path("/etc/l")).unwrap().as_os_str(), target);
        fs::remove_file(desk.path("/etc/l")).unwrap();
    }
}

#[tokio::test]
async fn what_became_of_another_kind_is_not_taken_away() {
    let desk = Desk::new();
    let directory = "Directory d {path: /etc/d}";
    desk.pass(&[MOTD, directory]).await;
    fs::remove_file(desk.path("/etc/motd")).unwrap();
    fs::create_dir(desk.path("/etc/motd")).unwrap();
    fs::remove_dir(desk.path("/etc/d")).unwrap();
    desk.write("/etc/d", "somebody's\n");
    let pass = desk.pass(&[]).await;
    assert_eq!(pass.done.len(), 2);
    assert!(
        pass.done.iter().all(|done| done.contains("failed: invalid") && done.contains("another kind")),
        "{pass:?}"
    );
    assert!(desk.path("/etc/motd").is_dir() && desk.read("/etc/d") == "somebody's\n");
}

#[tokio::test]
async fn a_command_is_shown_the_draft_also_where_others_can_put_a_file_under_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let seen = dir.path().join("seen");
    // Somebody who may write in the directory, at the worst moment.
    let swap = format!(
        "for f in \"$2\"/.reconciled-*; do rm \"$f\"; echo evil > \"$f\"; done; cat \"$1\" > {}",
        seen.display()
    );
    let desk = Desk::with(|config| {
        let etc = config.root.join("etc").display().to_string();
        let argv = ["sh", "-c", &swap, "sh", "{file}", &etc].map(String::from).into();
        config.commands = Some([("swap".into(), argv)].into());
    });
    desk.chmod("/etc", 0o777);
    let pass = desk.pass(&["{path: /etc/x, content: good, validate: swap}"]).await;
    assert_eq!(fs::read_to_string(&seen).unwrap(), "good");
    assert_eq!(pass.done, ["create /etc/x: failed: conflict: /etc/x changed since it was looked at"]);
    assert!(!desk.path("/etc/x").exists());
}
