//! The suite finds what is broken: the reference provider with one mistake at a time.

use crate::reference::Stage;
use async_trait::async_trait;
use bytes::Bytes;
use futures_core::stream::BoxStream;
use reconciled_provider::*;
use reconciled_testkit::{
    Role,
    conformance::{Sample, Subject, Verdict, run},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mistake {
    SendsBeforeTheJournal,
    IgnoresTheJournal,
    FinishesTwice,
    IgnoresTheBase,
    IgnoresStop,
    HidesWhatIsNotTracked,
    ForgetsToCover,
    ShowsAnotherForm,
    ShowsWhatIsWished,
    VersionNeverMoves,
    ForgetsMarks,
    MergesOthersAway,
    ExportsHalf,
    ComparesNothing,
    TakesEverything,
    PrintsItsKey,
    ShowsItsKey,
    PanicsOnStrangers,
    KnowsEveryPart,
    ClaimsTokens,
    DeletesTooMuch,
    LeavesADraft,
    KeepsWhatNobodySaw,
}

struct Broken {
    inner: Arc<dyn Provider>,
    info: ProviderInfo,
    mistake: Mistake,
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.mistake == Mistake::PrintsItsKey { "hunter2" } else { "Broken" })
    }
}

/// Passes on to another journal what a careless provider still tells.
struct Careless<'a>(&'a dyn Journal, Mistake);

#[async_trait]
impl Journal for Careless<'_> {
    async fn started(&self, actions: &[ActionId]) -> Result<(), Error> {
        match self.1 {
            Mistake::SendsBeforeTheJournal => Ok(()),
            Mistake::IgnoresTheJournal => self.0.started(actions).await.or(Ok(())),
            _ => self.0.started(actions).await,
        }
    }
    async fn progress(&self, action: ActionId, tracked: Tracked) -> Result<(), Error> {
        self.0.progress(action, tracked).await
    }
    async fn finished(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        match self.1 {
            Mistake::FinishesTwice => self.0.finished(outcomes.clone()).await?,
            Mistake::SendsBeforeTheJournal => {
                self.0.started(&outcomes.iter().map(|(id, _)| *id).collect::<Vec<_>>()).await?;
            }
            _ => {}
        }
        self.0.finished(outcomes).await
    }
}

#[async_trait]
impl Observer for Broken {
    fn info(&self) -> &ProviderInfo {
        &self.info
    }
    async fn kinds(&self, cx: &Cx) -> Result<Arc<Kinds>, Error> {
        self.inner.kinds(cx).await
    }
    fn normalize(&self, kinds: &Kinds, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
        let mut manifest = manifest.clone();
        if self.mistake == Mistake::TakesEverything {
            manifest.providers = None;
        }
        self.inner.normalize(kinds, &manifest, inputs)
    }
    async fn versions(&self, cx: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        let mut versions = self.inner.versions(cx, scopes).await?;
        if self.mistake == Mistake::VersionNeverMoves {
            versions.values_mut().for_each(|version| *version = Version::At("1".into()));
        }
        Ok(versions)
    }
    async fn observe(&self, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        let mut seen = self.inner.observe(cx, want).await?;
        match self.mistake {
            Mistake::HidesWhatIsNotTracked => {
                seen.resources.retain(|o| want.tracked.iter().any(|t| t.id == o.id))
            }
            Mistake::ForgetsToCover if seen.covered != Focus::All => seen.covered = Focus::Only([].into()),
            Mistake::ShowsAnotherForm => seen
                .resources
                .iter_mut()
                .for_each(|o| *o = Observed::new(o.id.clone(), [&o.bytes[..], b" "].concat())),
            Mistake::ShowsWhatIsWished => seen.resources.retain(|o| {
                let wish = want.desired.iter().find(|r| r.id == o.id);
                wish.is_none_or(|r| r.spec.hash() == Some(o.hash))
            }),
            Mistake::ShowsItsKey => seen.resources.push(Observed::new("~".into(), "hunter2")),
            Mistake::ForgetsMarks => seen.resources.iter_mut().for_each(|o| o.owner = Owner::Unmarked),
            _ => {}
        }
        Ok(seen)
    }
    fn compare(&self, desired: &Resource, observed: &Observed) -> Option<Delta> {
        self.inner.compare(desired, observed).filter(|_| self.mistake != Mistake::ComparesNothing)
    }
    async fn diff(&self, cx: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
        self.inner.diff(cx, want, seen).await
    }
    fn left_alone(
        &self,
        scope: &Scope,
        rules: &[Arc<str>],
        observed: &Observed,
        seen: &Observation,
    ) -> Option<LeftAlone> {
        self.inner.left_alone(scope, rules, observed, seen)
    }
    fn holder(&self, scope: &Scope) -> Option<ResourceId> {
        self.inner.holder(scope)
    }
    fn tells_health(&self) -> bool {
        self.inner.tells_health()
    }

    async fn health(&self, cx: &Cx, want: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error> {
        self.inner.health(cx, want).await
    }
    async fn discover(&self, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
        self.inner.discover(cx, query).await
    }
    fn export(&self, found: &Found) -> Result<Vec<Bytes>, Error> {
        let mut found = found.clone();
        if self.mistake == Mistake::ExportsHalf {
            found.resources.truncate(found.resources.len() / 2);
        }
        self.inner.export(&found)
    }
    fn part(&self, scope: &Scope, id: &ResourceId) -> Option<Arc<str>> {
        assert!(self.mistake != Mistake::PanicsOnStrangers || id.0.is_ascii(), "what is {id}?");
        self.inner.part(scope, id)
    }
    fn is_part(&self, scope: &Scope, id: &ResourceId, part: Option<&str>) -> bool {
        self.mistake == Mistake::KnowsEveryPart || self.inner.is_part(scope, id, part)
    }
    fn slot(&self, id: &ResourceId) -> Option<Slot> {
        self.inner.slot(id)
    }
    fn guard_word(&self, scope: &Scope, id: &ResourceId) -> Option<&'static str> {
        self.inner.guard_word(scope, id)
    }
    fn show(&self, id: &ResourceId, bytes: &[u8]) -> Vec<(Arc<str>, String)> {
        self.inner.show(id, bytes)
    }
    fn keep(&self, desired: &Resource, observed: &Observed, ignored: &[Arc<str>]) -> Result<Vec<u8>, Error> {
        let mut kept = self.inner.keep(desired, observed, ignored)?;
        if self.mistake == Mistake::KeepsWhatNobodySaw {
            kept.extend_from_slice(b", made up");
        }
        Ok(kept)
    }
    fn place(&self, claim: &Claim, scopes: &BTreeSet<Scope>) -> Result<(Scope, ResourceId), Error> {
        self.inner.place(claim, scopes)
    }
    fn merge(
        &self,
        declared: &[&Resource],
        seen: Option<&Observed>,
        tracked: Option<&Tracked>,
        claims: &[Claim],
    ) -> Result<Option<Merged>, Error> {
        let seen = seen.filter(|_| self.mistake != Mistake::MergesOthersAway);
        self.inner.merge(declared, seen, tracked, claims)
    }
    fn hints(&self) -> BoxStream<'static, Hint> {
        self.inner.hints()
    }
}

#[async_trait]
impl Provider for Broken {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        let (mut cx, mut batch) = (cx.clone(), batch.clone());
        match self.mistake {
            Mistake::IgnoresStop => cx.stop = Stop::default(),
            Mistake::IgnoresTheBase => {
                let now = self.inner.versions(&cx, std::slice::from_ref(&batch.scope)).await?;
                batch.base = now.get(&batch.scope).cloned().unwrap_or_default();
            }
            // Creates what the remote knows by the token under one that it does not know.
            Mistake::ClaimsTokens => {
                batch.actions.iter_mut().for_each(|a| a.token = format!("{}", a.id.0 + batch_nonce()).into());
            }
            Mistake::DeletesTooMuch => {
                let want =
                    Want { scope: &batch.scope, focus: &Focus::All, desired: &[], tracked: &[], claims: &[] };
                let seen = self.inner.observe(&cx, &want).await?;
                let foreign = seen.resources.into_iter().find(|o| o.owner == Owner::Unmarked);
                if let (Some(observed), Some(last)) = (foreign, batch.actions.last_mut()) {
                    last.op = Op::Delete { observed: observed.into(), tracked: None };
                }
            }
            _ => {}
        }
        let makes_draft = self.mistake == Mistake::LeavesADraft && !batch.actions.is_empty();
        if makes_draft {
            self.draft(&cx, &batch.scope, true).await?;
        }
        self.inner.apply(&cx, &batch, &Careless(journal, self.mistake)).await?;
        if makes_draft { self.draft(&cx, &batch.scope, false).await } else { Ok(()) }
    }
}

/// A journal that nobody reads.
struct Deaf;

#[async_trait]
impl Journal for Deaf {
    async fn started(&self, _: &[ActionId]) -> Result<(), Error> {
        Ok(())
    }
    async fn progress(&self, _: ActionId, _: Tracked) -> Result<(), Error> {
        Ok(())
    }
    async fn finished(&self, _: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        Ok(())
    }
}

impl Broken {
    /// Makes or removes an object that nobody was told of.
    async fn draft(&self, cx: &Cx, scope: &Scope, is_made: bool) -> Result<(), Error> {
        let op = match is_made {
            true => Op::Create {
                desired: Resource::new(
                    "draft".into(),
                    Arc::new(scope.clone()),
                    Spec::known(b"draft".to_vec()),
                    Origin { manifest: 0, line: 1 },
                    PolicyId::default(),
                ),
                delta: Delta { planned: Sealed::new("plan of draft"), ..Delta::default() }.into(),
            },
            false => Op::Delete { observed: Observed::new("draft".into(), "draft").into(), tracked: None },
        };
        let action = Action { id: ActionId(0), token: format!("{}", batch_nonce()).into(), op };
        let batch = Batch { scope: scope.clone(), base: Version::Unknown, actions: vec![action] };
        self.inner.apply(cx, &batch, &Deaf).await
    }
}

/// A number that no earlier call gave.
fn batch_nonce() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1_000, std::sync::atomic::Ordering::Relaxed)
}

struct BrokenStage(Stage, Mistake);

#[async_trait]
impl Subject for BrokenStage {
    fn scope(&self, number: usize) -> Scope {
        self.0.scope(number)
    }
    async fn connect(&self, scope: &Scope, instance: &str) -> Arc<dyn Provider> {
        let inner = self.0.connect(scope, instance).await;
        Arc::new(Broken { info: inner.info().clone(), inner, mistake: self.1 })
    }
    fn cx(&self) -> Cx {
        self.0.cx()
    }
    fn manifests(&self, scope: &Scope, sample: Sample) -> Option<String> {
        self.0.manifests(scope, sample)
    }
    async fn put_by_hand(&self, scope: &Scope, id: &ResourceId) {
        self.0.put_by_hand(scope, id).await;
    }
    async fn delete_by_hand(&self, scope: &Scope, id: &ResourceId) {
        self.0.delete_by_hand(scope, id).await;
    }
    fn foreign(&self, scope: &Scope) -> ResourceId {
        self.0.foreign(scope)
    }
    async fn inspect(&self, scope: &Scope) -> Vec<String> {
        self.0.inspect(scope).await
    }
    async fn refuse_next(&self, scope: &Scope) -> bool {
        self.0.refuse_next(scope).await
    }
    fn secrets(&self) -> Vec<String> {
        vec!["hunter2".into()]
    }
}

/// The laws that a provider in `role` with this mistake breaks.
fn broken_laws(role: Role, mistake: Mistake) -> Vec<&'static str> {
    let report = futures_executor::block_on(run(&BrokenStage(Stage::new(role), mistake)));
    let is_broken = |(_, verdict): &(_, Verdict)| matches!(verdict, Verdict::Failed(_));
    report.0.into_iter().filter(is_broken).map(|(name, _)| name).collect()
}

fn check(role: Role, mistake: Mistake, law: &str) {
    let broken = broken_laws(role, mistake);
    assert!(broken.contains(&law), "{mistake:?} breaks {broken:?}, not {law}");
}

const TOKENS: Role = Role::Cloud { tokens: true };

#[test]
fn what_a_death_leaves_behind_is_found() {
    check(TOKENS, Mistake::LeavesADraft, "a_death_at_any_journal_call_is_recovered_from");
    check(TOKENS, Mistake::LeavesADraft, "a_death_at_any_await_is_recovered_from");
}

#[test]
fn a_mistake_with_the_journal_is_found() {
    check(Role::Host, Mistake::SendsBeforeTheJournal, "nothing_is_sent_that_the_journal_refused");
    check(Role::Host, Mistake::IgnoresTheJournal, "nothing_is_sent_that_the_journal_refused");
    check(Role::Host, Mistake::FinishesTwice, "what_was_created_is_observed_as_desired");
    check(TOKENS, Mistake::ClaimsTokens, "a_batch_that_took_effect_is_done_again_without_harm");
}

#[test]
fn a_mistake_with_the_base_or_the_wish_to_stop_is_found() {
    check(Role::Zone, Mistake::IgnoresTheBase, "a_stale_base_writes_nothing");
    check(Role::Zone, Mistake::IgnoresTheBase, "a_scope_that_came_to_be_meanwhile_is_not_overwritten");
    check(Role::Zone, Mistake::IgnoresStop, "nothing_begins_after_a_wish_to_stop");
    check(Role::Host, Mistake::IgnoresStop, "a_wish_to_stop_is_heard_between_calls");
}

#[test]
fn a_mistake_in_reading_is_found() {
    let untracked = "what_is_desired_is_observed_though_nothing_is_tracked";
    check(Role::Zone, Mistake::HidesWhatIsNotTracked, untracked);
    check(Role::Zone, Mistake::ForgetsToCover, "a_focus_is_covered");
    check(Role::Zone, Mistake::ShowsWhatIsWished, "a_list_does_not_depend_on_what_is_desired");
    check(Role::Zone, Mistake::ShowsAnotherForm, "what_was_created_is_observed_as_desired");
    let version = "a_version_stands_while_nothing_changes_and_moves_when_something_does";
    check(Role::Zone, Mistake::VersionNeverMoves, version);
}

#[test]
fn a_mistake_about_what_belongs_to_others_is_found() {
    check(Role::Zone, Mistake::ForgetsMarks, "marks_say_whose_it_is");
    check(Role::Zone, Mistake::MergesOthersAway, "values_of_others_stay_when_ours_leave");
    check(Role::Zone, Mistake::DeletesTooMuch, "foreign_resources_are_left_alone");
}

#[test]
fn a_mistake_in_a_pure_function_is_found() {
    check(Role::Zone, Mistake::ExportsHalf, "what_is_exported_normalizes_to_the_same");
    check(Role::Zone, Mistake::ExportsHalf, "what_was_observed_and_exported_plans_nothing");
    check(Role::Zone, Mistake::KeepsWhatNobodySaw, "an_update_leaves_what_is_ignored_as_it_is");
    check(Role::Zone, Mistake::ComparesNothing, "compare_finds_every_difference_and_no_other");
    check(Role::Zone, Mistake::TakesEverything, "a_manifest_for_another_entry_is_left_alone");
    check(Role::Zone, Mistake::PrintsItsKey, "no_secret_is_printed");
    check(Role::Zone, Mistake::ShowsItsKey, "no_secret_is_printed");
    check(Role::Zone, Mistake::PanicsOnStrangers, "naming_and_showing_never_fail");
    check(Role::Zone, Mistake::KnowsEveryPart, "naming_and_showing_never_fail");
}
