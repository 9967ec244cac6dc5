//! What goes wrong on a host. Some of it only root can arrange; `RECONCILED_TEST_SYSTEMD=no` leaves that out, as it does
//! for the other tests that need more than a plain user's rights.

use crate::desk::{Desk, SECRET};
use reconciled_testkit::PATIENCE;
use std::{fs, os::unix::fs::symlink, path::PathBuf, process::Command, time::Duration};

const MOTD: &str = "{path: /etc/motd, content: \"hello\\n\"}";

/// False when the person at the tests said that this machine lends itself to none of it.
fn is_wanted() -> bool {
    #[expect(clippy::disallowed_methods, reason = "a person says so to the tests")]
    let says_no = std::env::var("RECONCILED_TEST_SYSTEMD").is_ok_and(|value| value == "no");
    !says_no
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Something mounted for the length of a test.
struct Mounted(PathBuf);

impl Mounted {
    fn new(arguments: &[&str], at: PathBuf) -> Mounted {
        run("mount", &[arguments, &[at.to_str().unwrap()]].concat());
        Mounted(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run("umount", &[self.0.to_str().unwrap()]);
    }
}

#[tokio::test]
async fn a_full_disk_leaves_the_old_file_whole() {
    if !is_wanted() {
        return;
    }
    let desk = Desk::new();
    let _full = Mounted::new(&["-t", "tmpfs", "-o", "size=64k,mode=755", "tmpfs"], desk.path("/etc"));
    desk.pass(&[MOTD]).await;
    let large = format!("{{path: /etc/motd, content: {}}}", "x".repeat(200_000));
    let pass = desk.pass(&[&large]).await;
    assert_eq!(
        pass.done,
        ["update /etc/motd: failed: unavailable: write the new /etc/motd: no space is left"]
    );
    assert_eq!(desk.read("/etc/motd"), "hello\n");
    assert_eq!(desk.names("/etc"), ["motd"], "no draft is left");
    assert_eq!(desk.pass(&[MOTD]).await.done, [""; 0]);
}

#[tokio::test]
async fn a_file_that_is_a_mount_point_is_rewritten_in_place() {
    if !is_wanted() {
        return;
    }
    let desk = Desk::new();
    desk.write("/srv/real", "a much longer text that was there before\n");
    desk.write("/etc/motd", "");
    let _bind = Mounted::new(&["--bind", desk.path("/srv/real").to_str().unwrap()], desk.path("/etc/motd"));
    assert_eq!(desk.pass(&[MOTD]).await.done, ["update /etc/motd: done"]);
    assert_eq!(desk.read("/srv/real"), "hello\n");
    assert_eq!(desk.names("/etc"), ["motd"], "no draft is left");
    assert_eq!(desk.pass(&[MOTD]).await.done, [""; 0]);
}

/// Takes the flag away again, or the scratch directory could not be removed.
struct Immutable(PathBuf);

impl Drop for Immutable {
    fn drop(&mut self) {
        run("chattr", &["-i", self.0.to_str().unwrap()]);
    }
}

#[tokio::test]
async fn a_file_made_immutable_is_said_to_be_that() {
    if !is_wanted() {
        return;
    }
    let desk = Desk::new();
    desk.write("/etc/motd", "old");
    run("chattr", &["+i", desk.path("/etc/motd").to_str().unwrap()]);
    let _flag = Immutable(desk.path("/etc/motd"));
    let pass = desk.pass(&[MOTD]).await;
    assert_eq!(
        pass.done,
        ["update /etc/motd: failed: permission-denied: replace /etc/motd: operation not permitted"]
    );
    assert_eq!((&*desk.read("/etc/motd"), desk.names("/etc")), ("old", vec!["motd".into()]));
}

#[tokio::test]
async fn a_path_replaced_by_a_link_to_the_shadow_file_reveals_and_changes_nothing_of_it() {
    let desk = Desk::new();
    desk.write("/root/shadow", SECRET);
    desk.chmod("/root/shadow", 0o644);
    desk.pass(&[MOTD]).await;
    fs::remove_file(desk.path("/etc/motd")).unwrap();
    symlink("/root/shadow", desk.path("/etc/motd")).unwrap();
    let desired = desk.desired(&[MOTD]);
    let seen = desk.observe(&desired).await;
    assert!(!format!("{seen:?}").contains(SECRET));
    let pass = desk.pass(&[MOTD]).await;
    assert_eq!(pass.done, ["update /etc/motd: done"]);
    assert_eq!(pass.fields[0], "type Text(\"symlink\") Text(\"file\")");
    assert_eq!(desk.read("/root/shadow"), SECRET);
    assert!(fs::symlink_metadata(desk.path("/etc/motd")).unwrap().is_file());
}

#[tokio::test]
async fn a_directory_on_the_way_replaced_by_a_link_is_refused_and_the_others_go_on() {
    let desk = Desk::new();
    fs::create_dir(desk.path("/etc/d")).unwrap();
    let file = "{path: /etc/d/shadow, content: x}";
    desk.pass(&[file]).await;
    fs::rename(desk.path("/etc/d"), desk.path("/etc/old")).unwrap();
    // Inside the allowed directory as well as out of it: a link is somebody's doing.
    for target in ["../root", "old", "/etc/old"] {
        symlink(target, desk.path("/etc/d")).unwrap();
        let pass = desk.pass(&[file, "{path: /etc/other, content: x}"]).await;
        let refused =
            "permission-denied: go to /etc/d/shadow: a symbolic link is in the way, and none is followed";
        assert_eq!(pass.done.last().unwrap(), refused, "{target}");
        // Nor is anything deleted through it.
        let pass = desk.pass(&["{path: /etc/other, content: x}"]).await;
        assert!(pass.done[0].starts_with("delete /etc/d/shadow: failed: permission-denied"), "{pass:?}");
        fs::remove_file(desk.path("/etc/d")).unwrap();
    }
    assert_eq!(desk.read("/etc/other"), "x");
    assert_eq!(desk.names("/root"), [""; 0]);
    assert_eq!(desk.names("/etc/old"), ["shadow"]);
}

#[tokio::test]
async fn what_changed_since_it_was_planned_is_not_overwritten() {
    let desk = Desk::new();
    desk.pass(&[MOTD]).await;
    let desired = desk.desired(&["{path: /etc/motd, content: new}", "{path: /etc/new, content: new}"]);
    let (batch, _, _) = desk.plan(&desired).await;
    desk.write("/etc/motd", "by hand");
    desk.write("/etc/new", "by hand");
    let done = desk.apply(&batch).await;
    assert!(done.iter().all(|line| line.contains("failed: conflict")), "{done:?}");
    assert_eq!((&*desk.read("/etc/motd"), &*desk.read("/etc/new")), ("by hand", "by hand"));
    let (batch, _, _) = desk.plan(&[]).await;
    desk.write("/etc/motd", "again");
    assert!(desk.apply(&batch).await[0].contains("failed: conflict"));
    assert_eq!(desk.read("/etc/motd"), "again");
}

fn with_command(script: &str) -> Desk {
    with_command_for(script, PATIENCE)
}

fn with_command_for(script: &str, timeout: Duration) -> Desk {
    let argv = ["sh", "-c", script, "sh", "{file}"].map(String::from).into();
    Desk::with(|config| {
        config.commands = Some([("check".into(), argv)].into());
        config.timeout = timeout;
    })
}

#[tokio::test]
async fn a_command_sees_the_new_file_before_it_takes_the_place_of_the_old_one() {
    let desk = with_command("grep -q good \"$1\" || { cat \"$1\"; exit 3; }");
    let file = |content: &str, mode: &str| {
        format!("{{path: /etc/x, validate: check, mode: \"{mode}\", content: {content}}}")
    };
    assert_eq!(desk.pass(&[&file("good", "0644")]).await.done, ["create /etc/x: done"]);
    let pass = desk.pass(&[&file("bad-canary", "0644")]).await;
    let refused = "update /etc/x: failed: invalid: `check` refuses the new /etc/x (exit status: 3)";
    assert_eq!(pass.done, [format!("{refused}: bad-canary")]);
    let pass = desk.pass(&[&file("bad-canary", "0600")]).await;
    assert!(pass.done[0].starts_with(refused) && !pass.done[0].contains("canary"), "{pass:?}");
    assert_eq!((&*desk.read("/etc/x"), desk.names("/etc")), ("good", vec!["x".into()]));
    let pass = desk.pass(&["{path: /etc/x, validate: check, content: {secret: key}}"]).await;
    assert!(pass.done[0].starts_with(refused) && !pass.done[0].contains(SECRET), "{pass:?}");
    // Only its name changed: nothing to write, nothing to run.
    assert_eq!(desk.pass(&["{path: /etc/x, content: good}"]).await.done, [""; 0]);
}

#[tokio::test]
async fn a_command_that_hangs_or_is_not_there_leaves_the_old_file() {
    let desk = with_command_for("sleep 60", Duration::from_millis(200));
    desk.write("/etc/x", "old");
    let pass = desk.pass(&["{path: /etc/x, validate: check, content: new}"]).await;
    assert!(pass.done[0].contains("failed: unavailable: `check` did not end within"), "{pass:?}");
    let desk = Desk::with(|config| {
        config.commands = Some([("check".into(), vec!["no-such-program".into()])].into());
    });
    desk.write("/etc/x", "old");
    let pass = desk.pass(&["{path: /etc/x, validate: check, content: new}"]).await;
    assert!(pass.done[0].contains("failed: unavailable: run `check` (no-such-program)"), "{pass:?}");
    assert_eq!((&*desk.read("/etc/x"), desk.names("/etc")), ("old", vec!["x".into()]));
}

/// apt for a scratch directory, whose lock is at `dpkg/lock-frontend` in it.
fn apt(scratch: &std::path::Path, wait: &str, words: &str) -> Vec<String> {
    for name in ["dpkg", "lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(scratch.join(name)).unwrap();
    }
    fs::write(scratch.join("dpkg/status"), "").unwrap();
    let at = scratch.display();
    let apt = format!(
        "apt-get -q -o DPkg::Lock::Timeout={wait} -o Dir::State={at} -o Dir::State::status={at}/dpkg/status \
         -o Dir::Cache={at}/cache -o Dir::Etc=/nonexistent check"
    );
    ["sh", "-c", &words.replace("APT", &apt), "{file}"].map(String::from).into()
}

#[tokio::test]
async fn a_command_that_cannot_have_the_lock_of_apt_is_asked_again() {
    let scratch = tempfile::tempdir().unwrap();
    // One that waits for the lock longer than it has time for, and one that says that it cannot tell.
    for (wait, words, part, timeout) in [
        ("3600", "APT", "`check` did not end within", Duration::from_secs(10)),
        ("0", "APT || exit 75", "cannot tell now of the new /etc/x (exit status: 75)", PATIENCE),
        ("0", "APT || kill -TERM $$", "cannot tell now of the new /etc/x (signal: 15", PATIENCE),
    ] {
        let argv = apt(scratch.path(), wait, words);
        let desk = Desk::with(|config| {
            config.commands = Some([("check".into(), argv)].into());
            config.timeout = timeout;
        });
        desk.write("/etc/x", "old");
        let lock = fs::File::create(scratch.path().join("dpkg/lock-frontend")).unwrap();
        rustix::fs::fcntl_lock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        let spec = "{path: /etc/x, validate: check, content: new}";
        let pass = desk.pass(&[spec, "{path: /etc/other, content: x}"]).await;
        let failed = pass.done.iter().find(|line| line.starts_with("update /etc/x")).unwrap();
        assert!(failed.contains("failed: unavailable: ") && failed.contains(part), "{failed}");
        assert!(pass.done.contains(&"create /etc/other: done".into()), "{pass:?}");
        assert_eq!((&*desk.read("/etc/x"), desk.names("/etc")), ("old", vec!["other".into(), "x".into()]));
        drop(lock);
        let pass = desk.pass(&[spec, "{path: /etc/other, content: x}"]).await;
        assert_eq!(pass.done, ["update /etc/x: done"]);
    }
}

#[tokio::test]
async fn an_environment_that_may_hold_secrets_is_not_a_command_s() {
    let desk = with_command("env | grep -v -e ^PATH= -e ^PWD= -e ^SHLVL= -e ^_= && exit 1; exit 0");
    let pass = desk.pass(&["{path: /etc/x, validate: check, content: new}"]).await;
    assert_eq!(pass.done, ["create /etc/x: done"]);
}

#[tokio::test]
async fn drafts_that_a_crash_left_are_cleared_away_by_the_next_write() {
    let desk = with_command("ls -A \"$(dirname \"$1\")\" | grep -c reconciled | grep -qx 1");
    let spec = "{path: /etc/x, validate: check, content: new}";
    // The command sees one draft; where its name is made visible, a second one of the family is put beside it.
    let seen = with_command("basename \"$1\"; exit 1");
    let said = seen.pass(&[spec]).await.done.remove(0);
    let name = said.rsplit(' ').next().unwrap();
    let (family, _) = name.rsplit_once('.').unwrap();
    desk.write(&format!("/etc/{family}.1-0"), "half a te");
    assert_eq!(desk.pass(&[spec]).await.done, ["create /etc/x: done"]);
    assert_eq!(desk.names("/etc"), ["x"]);
}

#[tokio::test]
async fn pipes_sockets_and_large_files_are_neither_waited_for_nor_read() {
    let desk = Desk::new();
    run("mkfifo", &[desk.path("/etc/pipe").to_str().unwrap()]);
    let pass = desk.pass(&["{path: /etc/pipe, content: x}"]).await;
    assert_eq!(pass.done, ["invalid: /etc/pipe is a pipe, and a file is declared"]);
    let large = fs::File::create(desk.path("/etc/large")).unwrap();
    large.set_len(1 << 30).unwrap();
    let pass = desk.pass(&["{path: /etc/large, content: x}"]).await;
    assert!(pass.done[0].starts_with("unsupported: look at /etc/large: it is larger than"), "{pass:?}");
}

#[tokio::test]
async fn a_copy_that_cannot_be_kept_keeps_the_file() {
    let desk = Desk::with(|config| config.originals = Some("/dev/null/originals".into()));
    desk.write("/etc/motd", "by hand");
    let pass = desk.pass(&[MOTD]).await;
    assert!(
        pass.done[0].contains("failed: unavailable: keep a copy of what somebody else wrote"),
        "{pass:?}"
    );
    assert_eq!((&*desk.read("/etc/motd"), desk.names("/etc")), ("by hand", vec!["motd".into()]));
}

#[tokio::test]
async fn an_allowed_directory_that_is_reached_by_a_link_is_refused() {
    let desk = Desk::with(|config| config.paths = vec!["/srv/www/site".into(), "/etc".into()]);
    fs::create_dir_all(desk.path("/srv/www/site")).unwrap();
    let file = "{path: /srv/www/site/index, content: x}";
    assert_eq!(desk.pass(&[file]).await.done, ["create /srv/www/site/index: done"]);
    fs::rename(desk.path("/srv/www/site"), desk.path("/srv/www/old")).unwrap();
    symlink("/root", desk.path("/srv/www/site")).unwrap();
    let pass = desk.pass(&[file, "{path: /etc/other, content: x}"]).await;
    assert!(pass.done.last().unwrap().contains("a symbolic link is on the way to /srv/www/site"), "{pass:?}");
    assert_eq!(desk.read("/etc/other"), "x");
    assert_eq!(desk.names("/root"), [""; 0]);
}

#[tokio::test]
async fn a_purged_directory_that_cannot_be_listed_is_refused_alone() {
    let desk = Desk::new();
    fs::create_dir(desk.path("/etc/conf.d")).unwrap();
    let mut deep = desk.path("/etc/conf.d");
    for _ in 0..70 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    let pass = desk.pass(&["Directory {path: /etc/conf.d, purge: true}", MOTD]).await;
    assert!(pass.done.contains(&"create /etc/motd: done".into()), "{pass:?}");
    assert!(pass.done.iter().any(|line| line.contains("deeper than 64 directories")), "{pass:?}");
}

#[tokio::test]
async fn what_is_mounted_below_a_purged_directory_is_not_looked_at() {
    if !is_wanted() {
        return;
    }
    let desk = Desk::new();
    fs::create_dir_all(desk.path("/etc/conf.d/mnt")).unwrap();
    desk.write("/etc/conf.d/stray", "x");
    let _mounted = Mounted::new(&["-t", "tmpfs", "tmpfs"], desk.path("/etc/conf.d/mnt"));
    desk.write("/etc/conf.d/mnt/kept", "x");
    let desired = desk.desired(&["Directory {path: /etc/conf.d, purge: true}"]);
    let seen = desk.observe(&desired).await;
    let ids: Vec<&str> = seen.resources.iter().map(|resource| &*resource.id.0).collect();
    assert_eq!(ids, ["/etc/conf.d", "/etc/conf.d/stray"]);
}

#[tokio::test]
async fn a_secret_in_a_block_is_written_once() {
    let desk = Desk::new();
    desk.write("/etc/env", "A=1\n");
    let block = "{path: /etc/env, block: key, content: {secret: key}}";
    assert_eq!(desk.pass(&[block]).await.done.len(), 1);
    assert!(desk.read("/etc/env").contains(SECRET));
    assert_eq!(desk.pass(&[block]).await.done, [""; 0], "the line end that was added is no drift");
    fs::write(desk.path("/etc/env"), desk.read("/etc/env").replace(SECRET, "changed")).unwrap();
    assert_eq!(desk.pass(&[block]).await.done.len(), 1, "a change by hand is");
}

#[tokio::test]
async fn a_pipe_in_the_place_of_a_file_outlives_its_declaration_and_drafts_do_not() {
    let desk = Desk::new();
    desk.pass(&[MOTD, "{path: /etc/other, content: x}"]).await;
    fs::remove_file(desk.path("/etc/motd")).unwrap();
    run("mkfifo", &[desk.path("/etc/motd").to_str().unwrap()]);
    let pass = desk.pass(&[]).await;
    assert!(pass.done.iter().any(|line| line.contains("/etc/motd is a pipe")), "{pass:?}");
    assert_eq!(desk.names("/etc"), ["motd"]);
}

#[tokio::test]
async fn what_is_reconciled_s_own_is_out_of_reach() {
    let desk = Desk::with(|config| config.reserved = vec!["/etc/reconciled".into()]);
    for path in ["/etc/reconciled/config.yaml", "/etc/reconciled"] {
        let (resources, problems) = desk.normalize(&[&format!("{{path: {path}, content: x}}")]);
        assert!(resources.is_empty() && problems[0].message.contains("reconciled itself"), "{problems:?}");
    }
}

#[tokio::test]
async fn what_is_reconciled_s_own_is_neither_purged_nor_listed() {
    let desk = Desk::with(|config| {
        config.reserved = vec!["/etc/app/state".into()];
        // By its path on the machine, in the tree that stands for `/`.
        config.originals = Some(config.root.join("etc/app/originals"));
    });
    fs::create_dir_all(desk.path("/etc/app/sites")).unwrap();
    for own in ["state", "originals"] {
        fs::create_dir_all(desk.path(&format!("/etc/app/{own}"))).unwrap();
        desk.write(&format!("/etc/app/{own}/kept"), "x");
    }
    desk.write("/etc/app/sites/stray", "x");
    let (resources, problems) = desk.normalize(&["Directory {path: /etc/app, purge: true}"]);
    assert!(resources.is_empty() && problems[0].message.contains("cannot be purged"), "{problems:?}");
    let (_, problems) = desk.normalize(&["{path: /etc/app/originals/kept, content: x}"]);
    assert!(problems[0].message.contains("reconciled itself"), "{problems:?}");
    let desired = desk.desired(&["Directory {path: /etc/app/sites, purge: true}"]);
    let ids = |seen: &[reconciled_provider::Observed]| -> Vec<String> {
        seen.iter().map(|one| one.id.0.to_string()).collect()
    };
    assert_eq!(ids(&desk.observe(&desired).await.resources), ["/etc/app/sites", "/etc/app/sites/stray"]);
    let found = desk.provider.discover(&desk.cx, "/etc/app").await.unwrap();
    assert_eq!(ids(&found[0].resources), ["/etc/app", "/etc/app/sites", "/etc/app/sites/stray"]);
}
