//! The conformance suite for units, on a real systemd: each scope is an entry with units of names of its own.

use crate::units::Machine;
use async_trait::async_trait;
use reconciled_local::{Config, open};
use reconciled_provider::*;
use reconciled_testkit::conformance::{Sample, Subject, run};
use std::{fs, sync::Arc};

struct Units(Machine);

#[async_trait]
impl Subject for Units {
    fn scope(&self, number: usize) -> Scope {
        Scope::new(format!("h{number}"), "systemd")
    }
    async fn connect(&self, scope: &Scope, _: &str) -> Arc<dyn Provider> {
        let mut config = Config::new(self.0.desk_path(""), &["/etc/app"]);
        config.bus = Some(format!("unix:path={}", self.0.dir.join("bus/system_bus_socket").display()));
        config.commands = Some([].into());
        open(&scope.provider, config).unwrap()
    }
    fn cx(&self) -> Cx {
        reconciled_testkit::context::cx()
    }
    fn manifests(&self, scope: &Scope, sample: Sample) -> Option<String> {
        let unit = |name: &str, spec: &str| {
            let name = format!("{}-{name}.service", scope.provider);
            format!("apiVersion: systemd/v1\nkind: Unit\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n")
        };
        let content = |seconds: u32| {
            format!(
                "content: \"[Service]\\nExecStart=/bin/sleep {seconds}\\n[Install]\\nWantedBy=basic.target\\n\""
            )
        };
        let a = |seconds| unit("a", &format!("{}, enabled: true, state: running", content(seconds)));
        let b = unit("b", &format!("{}, dropIns: {{limits: \"[Service]\\nTasksMax=9\\n\"}}", content(2)));
        let c = unit("c", &format!("{}, enabled: true", content(3)));
        let n = unit("n", &content(4));
        let list = match sample {
            Sample::Initial => vec![a(1000), b, c],
            Sample::Changed => vec![a(2000), b, c],
            Sample::Shrunk => vec![a(1000), c],
            Sample::Mixed => vec![a(2000), b, n],
            Sample::Swapped | Sample::Shared => return None,
        };
        Some(list.join("---\n"))
    }
    async fn put_by_hand(&self, _: &Scope, id: &ResourceId) {
        fs::write(self.0.file(&id.0), "[Service]\nExecStart=/bin/sleep 7000\n").unwrap();
        self.0.run(&["systemctl", "daemon-reload"]);
    }
    async fn delete_by_hand(&self, _: &Scope, id: &ResourceId) {
        fs::remove_file(self.0.file(&id.0)).unwrap();
        self.0.run(&["systemctl", "daemon-reload"]);
    }
    fn foreign(&self, scope: &Scope) -> ResourceId {
        format!("{}-foreign.service", scope.provider).as_str().into()
    }
    /// The more units there are, the longer systemd takes to read them all again, which each batch has it do.
    async fn leave(&self, scope: &Scope) {
        let prefix = format!("{}-", scope.provider);
        self.0.run(&["systemctl", "stop", &format!("{prefix}*.service")]);
        for folder in ["", "basic.target.wants"] {
            for entry in fs::read_dir(self.0.file(folder)).into_iter().flatten().flatten() {
                if !entry.file_name().to_string_lossy().starts_with(&prefix) {
                    continue;
                }
                match entry.file_type().unwrap().is_dir() {
                    true => fs::remove_dir_all(entry.path()).unwrap(),
                    false => fs::remove_file(entry.path()).unwrap(),
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn units_of_a_host_keep_every_law_that_concerns_them() {
    let Some(machine) = Machine::of("systemd", |_| {}) else { return };
    run(&Units(machine)).await.assert_holds_but_skips(&[
        "no_secret_is_printed",
        "a_list_does_not_depend_on_what_is_desired",
        "a_version_stands_while_nothing_changes_and_moves_when_something_does",
        "one_batch_swaps_what_cannot_coexist",
        "a_refused_write_had_no_effect_and_says_so",
        "marks_say_whose_it_is",
        "values_of_others_stay_when_ours_leave",
        "a_stale_base_writes_nothing",
        "a_scope_that_came_to_be_meanwhile_is_not_overwritten",
    ]);
}
