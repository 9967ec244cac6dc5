//! The conformance suite on a scratch directory.

use crate::helper::Helper;
use async_trait::async_trait;
use reconciled_local::{Config, open};
use reconciled_provider::*;
use reconciled_testkit::conformance::{Sample, Subject, run};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::{Arc, Mutex},
};

/// Each scope is a machine: a directory with an `etc`, managed by this process or by a helper.
struct Machines(tempfile::TempDir, Option<Mutex<Vec<Helper>>>);

impl Machines {
    fn root(&self, scope: &Scope) -> PathBuf {
        self.0.path().join(&*scope.provider)
    }
    fn path(&self, scope: &Scope, id: &ResourceId) -> PathBuf {
        self.root(scope).join(id.0.trim_start_matches('/'))
    }
    /// While this exists, the command refuses what it is shown, once.
    fn refusal(&self) -> PathBuf {
        self.0.path().join("refuse")
    }
}

#[async_trait]
impl Subject for Machines {
    fn scope(&self, number: usize) -> Scope {
        let scope = Scope::new(format!("host-{number}"), "files");
        fs::create_dir_all(self.root(&scope).join("etc")).unwrap();
        scope
    }
    async fn connect(&self, scope: &Scope, _: &str) -> Arc<dyn Provider> {
        let refusal = self.refusal();
        let once = format!("test -s \"$1\" && (test ! -e {0} || (rm {0}; exit 1))", refusal.display());
        if let Some(helpers) = &self.1 {
            let (dir, once) =
                (self.0.path().join(format!("{}.helper", scope.provider)), once.replace('"', "\\\""));
            fs::create_dir_all(&dir).unwrap();
            let keys = format!("paths: [/etc]\ncommands: {{once: [sh, -c, \"{once}\", sh, \"{{file}}\"]}}\n");
            let helper = Helper::start(&dir, &self.root(scope), &keys);
            let mut config = Config::new("/", &[]);
            config.helper = Some(helper.socket.clone());
            helpers.lock().unwrap().push(helper);
            return open(&scope.provider, config).unwrap();
        }
        let argv = ["sh", "-c", &once, "sh", "{file}"].map(String::from).into();
        let mut config = Config::new(self.root(scope), &["/etc"]);
        config.commands = Some([("once".into(), argv)].into());
        config.originals = Some(self.0.path().join("originals"));
        open(&scope.provider, config).unwrap()
    }
    fn cx(&self) -> Cx {
        reconciled_testkit::context::cx()
    }
    fn manifests(&self, _: &Scope, sample: Sample) -> Option<String> {
        let file = |path: &str, rest: &str| ("File", path.to_owned(), rest.to_owned());
        let (a, changed) = (
            file("/etc/a", "content: one"),
            file("/etc/a", "content: other, validate: once, mode: \"0600\""),
        );
        let b = file("/etc/b", "content: \"tw\\no\\n\", mode: \"0755\"");
        let d = ("Directory", "/etc/d".to_owned(), "mode: \"0711\"".to_owned());
        let e = file("/etc/d/e", "content: three");
        let l = file("/etc/l", "symlink: ../elsewhere");
        let n = file("/etc/d/n", "content: \"\"");
        let list = match sample {
            Sample::Initial => vec![a, b, d, e, l],
            Sample::Changed => vec![changed, b, d, e, l],
            Sample::Shrunk => vec![a, b],
            Sample::Mixed => vec![changed, b, d, n, l],
            Sample::Swapped | Sample::Shared => return None,
        };
        let manifest = |(kind, path, rest): &(&str, String, String)| {
            let name = path.replace('/', "-");
            format!(
                "apiVersion: local/v1\nkind: {kind}\nmetadata: {{name: x{name}}}\nspec: {{path: {path}, {rest}}}\n"
            )
        };
        Some(list.iter().map(manifest).collect::<Vec<_>>().join("---\n"))
    }
    async fn put_by_hand(&self, scope: &Scope, id: &ResourceId) {
        let path = self.path(scope, id);
        match path.is_dir() {
            true => fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap(),
            false => fs::write(path, "by hand").unwrap(),
        }
    }
    async fn delete_by_hand(&self, scope: &Scope, id: &ResourceId) {
        fs::remove_file(self.path(scope, id)).unwrap();
    }
    fn foreign(&self, _: &Scope) -> ResourceId {
        "/etc/foreign".into()
    }
    async fn inspect(&self, scope: &Scope) -> Vec<String> {
        // A death may leave a draft, which the next write to the same path clears away.
        let names = fs::read_dir(self.root(scope).join("etc")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let odd = names.filter(|name| name.starts_with('.') && !name.starts_with(".reconciled-"));
        odd.map(|name| format!("{name} is left behind")).collect()
    }
    async fn refuse_next(&self, _: &Scope) -> bool {
        fs::write(self.refusal(), "").unwrap();
        true
    }
}

async fn check(helpers: Option<Mutex<Vec<Helper>>>) {
    let machines = Machines(tempfile::tempdir().unwrap(), helpers);
    // What is not open to everyone is reported by its mark.
    fs::set_permissions(machines.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
    run(&machines).await.assert_holds_but_skips(&[
        "no_secret_is_printed",
        "a_list_does_not_depend_on_what_is_desired",
        "a_version_stands_while_nothing_changes_and_moves_when_something_does",
        "one_batch_swaps_what_cannot_coexist",
        "marks_say_whose_it_is",
        "values_of_others_stay_when_ours_leave",
        "a_stale_base_writes_nothing",
        "a_scope_that_came_to_be_meanwhile_is_not_overwritten",
    ]);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_host_keep_every_law_that_concerns_them() {
    check(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn and_so_they_do_where_a_helper_has_the_rights() {
    check(Some(Mutex::default())).await;
}
