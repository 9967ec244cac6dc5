//! The reference provider, role by role.

use async_trait::async_trait;
use reconciled_provider::{Clock, Cx, ErrorKind, Owner, Provider, ResourceId, Scope};
use reconciled_testkit::{
    Fault, Faults, Point, Reference, Role, World,
    conformance::{Sample, Subject, run},
    context::{HandClock, cx},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// A remote that refuses when told to, with the time of the test.
#[derive(Default)]
struct Weather {
    clock: Arc<HandClock>,
    refuses: AtomicBool,
}

#[async_trait]
impl Faults for Weather {
    fn at(&self, point: Point) -> Option<Fault> {
        let refuses = point == Point::Write && self.refuses.swap(false, Ordering::SeqCst);
        refuses.then_some(Fault::Refuse(ErrorKind::Unavailable))
    }
    async fn pause(&self) {
        // Awaits once, so that a process can die here.
        let mut has_waited = false;
        std::future::poll_fn(|task| {
            if std::mem::replace(&mut has_waited, true) {
                return std::task::Poll::Ready(());
            }
            task.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await;
    }
    async fn time_out(&self) {}
    async fn crash(&self) {}
    fn now(&self) -> Duration {
        self.clock.now()
    }
}

pub(crate) struct Stage {
    role: Role,
    world: Arc<World>,
    weather: Arc<Weather>,
}

impl Stage {
    pub(crate) fn new(role: Role) -> Stage {
        Stage { role, world: Arc::default(), weather: Arc::default() }
    }
    pub(crate) fn provider(&self, scope: &Scope, instance: &str) -> Reference {
        Reference::new(self.role, &scope.provider, instance, self.world.clone(), self.weather.clone())
    }
}

#[async_trait]
impl Subject for Stage {
    fn scope(&self, number: usize) -> Scope {
        Scope::new("reference", format!("scope-{number}"))
    }
    async fn connect(&self, scope: &Scope, instance: &str) -> Arc<dyn Provider> {
        Arc::new(self.provider(scope, instance))
    }
    fn cx(&self) -> Cx {
        Cx { clock: self.weather.clock.clone(), ..cx() }
    }
    fn manifests(&self, scope: &Scope, sample: Sample) -> Option<String> {
        let items = match sample {
            Sample::Initial => "a: one, b: two, c: three, www/A: address",
            Sample::Changed => "a: other, b: two, c: three, www/A: address",
            Sample::Shrunk => "a: one, www/A: address",
            Sample::Mixed => "a: other, c: three, d: four, www/A: address",
            // A slot that changes hands, and content that cannot be changed in place.
            Sample::Swapped => "a: one, b: '!fixed', c: three, www/CNAME: name",
            Sample::Shared => "a: one, b: two, c: three, www/A: address, shared: ours",
        };
        Some(format!(
            "apiVersion: test/v1\nkind: Thing\nmetadata: {{name: t}}\n\
             spec: {{provider: reference, scope: {}, items: {{{items}}}}}\n",
            scope.name
        ))
    }
    async fn put_by_hand(&self, scope: &Scope, id: &ResourceId) {
        self.world.by_hand(scope, &id.0, Some("by hand"), Owner::Unmarked, self.weather.now());
    }
    async fn delete_by_hand(&self, scope: &Scope, id: &ResourceId) {
        self.world.by_hand(scope, &id.0, None, Owner::Unmarked, self.weather.now());
    }
    fn foreign(&self, _: &Scope) -> ResourceId {
        "foreign".into()
    }
    async fn inspect(&self, scope: &Scope) -> Vec<String> {
        let contents = self.world.contents(scope);
        let twice = contents.objects.iter().filter(|(_, list)| list.len() > 1);
        let twice = twice.map(|(id, list)| format!("{} objects for {id}", list.len()));
        twice.chain(self.world.violations()).collect()
    }
    async fn refuse_next(&self, _: &Scope) -> bool {
        self.weather.refuses.store(true, Ordering::SeqCst);
        true
    }
}

fn check(role: Role, skipped: &[&str]) {
    let report = futures_executor::block_on(run(&Stage::new(role)));
    report.assert_holds_but_skips(skipped);
}

const VERSIONS: &str = "a_version_stands_while_nothing_changes_and_moves_when_something_does";
const LISTS: &str = "a_list_does_not_depend_on_what_is_desired";
const STALE: &str = "a_stale_base_writes_nothing";
const MEANWHILE: &str = "a_scope_that_came_to_be_meanwhile_is_not_overwritten";
const SECRETS: &str = "no_secret_is_printed";
const MARKS: &str = "marks_say_whose_it_is";
const LEFT: &str = "an_update_leaves_what_is_ignored_as_it_is";
const AGAIN: &str = "a_batch_that_took_effect_is_done_again_without_harm";

#[test]
fn the_zone_keeps_every_law() {
    check(Role::Zone, &[SECRETS]);
}

#[test]
fn the_host_keeps_every_law_but_has_neither_versions_nor_marks() {
    check(Role::Host, &[SECRETS, LISTS, VERSIONS, MARKS, STALE, MEANWHILE]);
}

#[test]
fn the_cloud_keeps_every_law_but_has_no_versions() {
    check(Role::Cloud { tokens: true }, &[SECRETS, LISTS, VERSIONS, LEFT, STALE, MEANWHILE]);
}

#[test]
fn the_cloud_without_tokens_is_not_asked_to_create_twice() {
    check(Role::Cloud { tokens: false }, &[SECRETS, LISTS, VERSIONS, LEFT, AGAIN, STALE, MEANWHILE]);
}

#[test]
fn the_issuer_keeps_every_law_in_its_steps() {
    check(Role::Issuer, &[SECRETS, LISTS, VERSIONS, STALE, MEANWHILE]);
}
