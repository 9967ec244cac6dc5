//! What is known, from the state alone: reaches neither remote nor source.

use super::{
    RequestEntry,
    aside::{Aside, RESTORED, entry_of},
    health::{self, Known, ManifestEntry, ResourceEntry, SourceHealth, UNSEEN},
    late, pattern, pinned,
};
use crate::{
    config::{Config, SourceConfig},
    failure::Failure,
    session::source_of,
    store::{
        Approvals, ConditionEntry, DegradedEntry, DriftEntry, EventEntry, EventFilter, HistoryEntry,
        HistoryFilter, Parts, PinEntry, Reader, Stamp, Status, SuspensionEntry, TrackedEntry,
        UnassignedEntry,
    },
};
use reconciled_engine::{
    Desired, Store, Suspension, plan::CLAIMS, scheduler::Standing, store::ConditionKind,
};
use reconciled_provider::{Address, ManifestKey, Pattern, Scope, problem::did_you_mean};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How does it stand?
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct StatusAsk {
    /// What is tracked at this address; none for the whole.
    pub address: Option<String>,
    /// Asks the remotes for facts of the scopes at this address, such as the serial at each name server.
    #[serde(default)]
    pub wide: bool,
    /// Of these only what is looked after anyway: for programs that ask often.
    #[serde(default)]
    pub quick: bool,
}

/// How it stands.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusAnswer {
    /// Name of the instance.
    pub instance: String,
    /// The whole, or the conditions of what was asked for.
    #[serde(flatten)]
    pub status: Status,
    /// How the resources of each source fare; where an address was asked for, nothing.
    #[serde(default)]
    pub health: BTreeMap<String, SourceHealth>,
    /// What is tracked at the address that was asked for, or declared and not brought about yet.
    #[serde(default)]
    pub resources: Vec<ResourceEntry>,
    /// The manifests of these, each with the worst of its health.
    #[serde(default)]
    pub manifests: Vec<ManifestEntry>,
    /// Facts of the scopes of these, where they were asked for.
    #[serde(default)]
    pub facts: Vec<FactEntry>,
    /// What keeps newer revisions from coming into force, and what is wrong with the manifests; only a daemon
    /// knows.
    #[serde(default)]
    pub messages: Vec<String>,
    /// What was asked for with `sync`, the newest first; only a daemon knows.
    #[serde(default)]
    pub requests: Vec<RequestEntry>,
    /// Nothing is known at the address that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<Unknown>,
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FactEntry {
    /// The scope.
    pub scope: String,
    /// What it is about, such as a name server.
    pub name: String,
    /// What is so, such as its serial.
    pub value: String,
}

/// Nothing is known at an address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unknown {
    /// An address that is much like it.
    pub near: Option<String>,
}

/// Says in `answer` that it knows nothing of the one address that was asked for. `desired` is what sources declare, where that
/// is known.
pub async fn add_unknown(
    reader: &Reader,
    desired: Option<&Desired>,
    ask: &StatusAsk,
    answer: &mut StatusAnswer,
) -> Result<(), Failure> {
    let Some(text) = ask.address.as_deref().filter(|text| !text.contains(['*', '?'])) else { return Ok(()) };
    let StatusAnswer { status, resources, .. } = &*answer;
    let is_known = !resources.is_empty()
        || !status.conditions.is_empty()
        || !status.elsewhere.is_empty()
        || !status.drifts.is_empty()
        || !status.pins.is_empty();
    let pattern = pattern(text)?;
    let manifests = desired.map(|desired| &*desired.manifests).unwrap_or_default();
    // A manifest may declare nothing, or nothing here.
    let is_declared = manifests.iter().any(|one| pattern.matches(&one.address, one.key.group()));
    if is_known || is_declared {
        return Ok(());
    }
    answer.unknown = Some(Unknown { near: near(reader, desired, text).await? });
    Ok(())
}

/// What is tracked or declared and called almost as `text`.
pub(super) async fn near(
    reader: &Reader,
    desired: Option<&Desired>,
    text: &str,
) -> Result<Option<String>, Failure> {
    if text.contains(['*', '?']) {
        return Ok(None);
    }
    let rows = reader.rows(None).await?;
    let known = rows.iter().map(|row| row.address.clone());
    let manifests = desired.map(|desired| &*desired.manifests).unwrap_or_default();
    let declared = manifests.iter().map(|manifest| manifest.address.to_string());
    let all: BTreeSet<String> = known.chain(declared).collect();
    Ok(nearest(text, &all).map(str::to_owned))
}

/// The address of `all` that `text` may mean.
fn nearest<'a>(text: &str, all: &'a BTreeSet<String>) -> Option<&'a str> {
    // Who asks for a manifest means one.
    if !text.contains('#') {
        return did_you_mean(text, all.iter().map(|address| address.split('#').next().unwrap_or(address)));
    }
    // A name without its type may have several: a shorter one is no nearer.
    let goes_on = |address: &&String| address.strip_prefix(text).is_some_and(|rest| rest.starts_with('/'));
    let longer = all.iter().find(goes_on).map(String::as_str);
    longer.or_else(|| did_you_mean(text, all.iter().map(String::as_str)))
}

/// Answers [`StatusAsk`].
///
/// `outside` has what suspends besides the state: the file, windows that are closed; `unwritten` what the state could not be
/// told of passes; `late` what is late and no daemon looks at; `desired` is what sources declare, where that is known.
pub async fn status(
    config: &Config,
    reader: &Reader,
    desired: Option<&Desired>,
    outside: &[Suspension],
    unwritten: &[ConditionEntry],
    late: &[DegradedEntry],
    ask: &StatusAsk,
) -> Result<StatusAnswer, Failure> {
    let aside = Aside::of(config, unwritten);
    let mut status = reader.status_of(&|scope, source| aside.why(scope, source).is_none()).await?;
    let aside = aside.with(&status);
    aside.leave_out(&mut status);
    status.suspensions.extend(outside.iter().map(SuspensionEntry::from));
    tell_sources(&mut status);
    tell_restored(&aside, &mut status);
    status.conditions.extend_from_slice(unwritten);
    let (mut resources, mut manifests, mut health) = (Vec::new(), Vec::new(), BTreeMap::new());
    if let Some(address) = &ask.address {
        let pattern = pattern(address)?;
        let mut stands = Known::read(reader, &status, Parts::All, aside).await?;
        stands.complete(&mut status.conditions);
        late::tell(late, &mut stands, &mut status);
        leave_to_others(&stands, &mut status);
        let pins = pinned::meant(reader, desired, &pattern).await?;
        let rows = pinned::rows(reader, &pattern, &pins).await?;
        status.conditions.retain(|condition| concerns(&pattern, condition, &rows));
        status.drifts.retain(|drift| is_meant(&pattern, &drift.address));
        let meant: BTreeSet<(&str, &str)> = rows.iter().map(|row| (&*row.scope, &*row.id)).collect();
        status.degraded.retain(|one| meant.contains(&(&*one.scope, &*one.id)));
        status.progressing.retain(|one| meant.contains(&(&*one.scope, &*one.id)));
        status.elsewhere.retain(|one| is_meant(&pattern, &one.address));
        status.holds.clear();
        let known = reader.suspensions().await.map_err(Failure::Remote)?;
        let mine =
            known.iter().chain(outside).filter(|suspension| rows.iter().any(|row| means(suspension, row)));
        status.suspensions = mine.map(SuspensionEntry::from).collect();
        status.pins = pins.iter().map(PinEntry::from).collect();
        resources = stands.resources(rows, |address| is_meant(&pattern, address));
        manifests = health::manifests(&resources);
    } else {
        // What is late may be well by all else that is known.
        let parts = if late.is_empty() { Parts::Ailing } else { Parts::All };
        let mut stands = Known::read(reader, &status, parts, aside.clone()).await?;
        stands.complete(&mut status.conditions);
        late::tell(late, &mut stands, &mut status);
        leave_to_others(&stands, &mut status);
        let tracked = reader.tracked_by_source().await?;
        health = stands.by_source(&tracked);
        status.unassigned = unassigned(&aside, &tracked);
        // What was in force of a source that is gone says nothing any more.
        status.sources.retain(|source| aside.is_source(&source.source));
        health.retain(|source, _| aside.is_source(source));
    }
    let instance = config.instance.to_string();
    let (facts, messages, requests) = (Vec::new(), Vec::new(), Vec::new());
    let unknown = None;
    Ok(StatusAnswer { instance, status, health, resources, manifests, facts, messages, requests, unknown })
}

/// Adds the scopes of which something came into force that nobody has looked at, or in which something stays that is not declared any
/// more, as far as the state alone tells: no daemon has this one, so nobody knows more. What is in them counts as well no longer.
pub async fn add_behind(
    config: &Config,
    reader: &Reader,
    ask: &StatusAsk,
    answer: &mut StatusAnswer,
    now: Duration,
) -> Result<(), Failure> {
    let asked: BTreeSet<&str> = answer.resources.iter().map(|one| &*one.tracked.scope).collect();
    let aside = Aside::of(config, &[]).with(&answer.status);
    let status = &mut answer.status;
    let left = left_over(reader, &aside).await?.into_iter().map(|scope| (scope, LEFT_OVER));
    let mut found: BTreeMap<String, &str> = left.collect();
    // Of entries that are not configured nobody will look, and what is tracked there is told as that.
    let behind = reader.behind().await?.into_iter().filter(|scope| aside.is_entry(entry_of(scope)));
    found.extend(behind.map(|scope| (scope, "not looked at since what is in force came into force")));
    for (scope, message) in found {
        let says_why = |c: &ConditionEntry| {
            let is_whole = c.scope == scope && c.id.is_none() && c.address.is_none();
            is_whole && matches!(&*c.kind, "waiting" | "stalled")
        };
        if ask.address.is_some() && !asked.contains(&*scope) || status.conditions.iter().any(says_why) {
            continue;
        }
        for mine in status.scopes.iter_mut().filter(|mine| mine.scope == scope) {
            // What is held may be among these: it counts no second time.
            status.well = status.well.saturating_sub(std::mem::take(&mut mine.well));
        }
        let told = ConditionEntry::of(scope, ConditionKind::Waiting, UNSEEN, message, Stamp(now));
        status.conditions.push(told);
    }
    Ok(())
}

/// What is said of a scope in which something stays that is not declared any more.
const LEFT_OVER: &str = "something tracked here is declared by nothing in force any more; `reconciled plan` says what becomes of it";

/// The scopes in which something is tracked that nothing in force declares any more, and nobody has said why it stays: a commit that
/// removed it came into force, and its deletion is still to come. What is for other hosts by now, or looked after by nobody, is told
/// as that.
async fn left_over(reader: &Reader, aside: &Aside) -> Result<BTreeSet<String>, Failure> {
    let all = reader.left_over().await?;
    if all.is_empty() {
        return Ok(BTreeSet::new());
    }
    // All of it, also where an address was asked for.
    let elsewhere = reader.not_well().await?.elsewhere;
    let is_for_others = |manifest: &ManifestKey| {
        let address = Address::of(manifest, None).to_string();
        elsewhere.iter().any(|one| *one.source == *manifest.source() && *one.address == *address)
    };
    let is_due = |(scope, manifest): &(String, String)| {
        let manifest = ManifestKey(manifest.as_str().into());
        aside.why(scope, manifest.source()).is_none() && !is_for_others(&manifest)
    };
    Ok(all.into_iter().filter(is_due).map(|(scope, _)| scope).collect())
}

/// Reason of what is said of a creation that has no answer.
const UNANSWERED: &str = "Unanswered";

/// Adds the creations without an answer of which no pass has said anything yet: no daemon has this state, so none is at work on them.
pub async fn add_unanswered(
    reader: &Reader,
    ask: &StatusAsk,
    answer: &mut StatusAnswer,
    now: Duration,
) -> Result<(), Failure> {
    let meant = ask.address.as_deref().map(pattern).transpose()?;
    let conditions = &mut answer.status.conditions;
    for (_, open) in reader.unanswered(meant.as_ref()).await? {
        if conditions.iter().any(|one| one.scope == open.scope && one.id.as_ref() == Some(&open.id)) {
            continue;
        }
        let message = "it was sent and has no answer so far: whether it was made, a look has to tell";
        let since = open.written_at.unwrap_or(Stamp(now));
        let told = ConditionEntry::of(open.scope, ConditionKind::Waiting, UNANSWERED, message, since)
            .hint("to look, and to see what to do if that tells nothing: reconciled plan");
        conditions.push(ConditionEntry { id: Some(open.id), address: Some(open.address), ..told });
    }
    Ok(())
}

/// What is tracked for sources and entries that are not configured.
fn unassigned(aside: &Aside, tracked: &BTreeMap<(String, String), u64>) -> Vec<UnassignedEntry> {
    let (mut sources, mut entries) = (BTreeMap::<&str, u64>::new(), BTreeMap::<&str, u64>::new());
    for ((source, scope), count) in tracked {
        if !aside.is_source(source) && source != CLAIMS {
            *sources.entry(source).or_default() += count;
        }
        if !aside.is_entry(entry_of(scope)) {
            *entries.entry(entry_of(scope)).or_default() += count;
        }
    }
    let entry = |kind: &'static str| {
        move |(name, tracked): (&str, u64)| UnassignedEntry { kind: kind.into(), name: name.into(), tracked }
    };
    sources.into_iter().map(entry("source")).chain(entries.into_iter().map(entry("provider"))).collect()
}

/// Has what is tracked of manifests that are for other hosts by now not count as well: nobody looks after it here.
fn leave_to_others(stands: &Known, status: &mut Status) {
    for (scope, count) in stands.left_to_others() {
        late::count_less(status, &scope, count);
    }
}

/// Calls what is about the manifests of a source by its name. A source with errors is not in sync.
fn tell_sources(status: &mut Status) {
    for condition in &mut status.conditions {
        let Some(name) = source_of(&condition.scope).map(str::to_owned) else { continue };
        status.sources.iter_mut().filter(|source| source.source == name).for_each(|s| s.converged = false);
        condition.scope = format!("source {name}");
    }
}

/// Says of which sources nothing is done before they were had once since the state was restored.
fn tell_restored(aside: &Aside, status: &mut Status) {
    let mut waiting = Vec::new();
    for source in status.sources.iter_mut().filter(|source| aside.is_source(&source.source)) {
        let Some(since) = source.restored else { continue };
        source.converged = false;
        let scope = format!("source {}", source.source);
        let message =
            "the state was restored and the source was not had since: nothing of it is done until then";
        let hint = format!(
            "to have it asked now: reconciled sync --source {0}; without a daemon: reconciled apply --source {0}",
            source.source
        );
        let told = ConditionEntry::of(scope, ConditionKind::Waiting, RESTORED, message, since);
        waiting.push(told.hint(hint));
    }
    waiting.append(&mut status.conditions);
    status.conditions = waiting;
}

/// Reason of what is said of a source of which nothing was ever in force.
const NO_REVISION: &str = "NoRevision";

/// Says of which sources nothing is in force yet, where nothing else is said of them.
pub fn add_without_revision(config: &Config, status: &mut Status, now: Duration) {
    for source in &config.sources {
        let scope = format!("source {}", source.name);
        let is_told = status.conditions.iter().any(|c| c.scope == scope && c.id.is_none());
        if is_told || is_in_force(status, &source.name) {
            continue;
        }
        let message = "nothing of it is in force yet";
        let hint = "to see what it declares, or why it cannot be had: reconciled plan; a daemon brings it into force, and \
                    without one `reconciled apply`";
        let told = ConditionEntry::of(scope, ConditionKind::Waiting, NO_REVISION, message, Stamp(now));
        status.conditions.push(told.hint(hint));
    }
}

/// What the state knows of sources, and what is wrong with their manifests.
pub async fn of_sources(reader: &Reader) -> Result<Status, Failure> {
    let mut status = reader.status().await?;
    tell_sources(&mut status);
    Ok(status)
}

/// Of which sources nothing is in force, and why: what somebody asked about may be declared there.
pub fn without_revision(config: &Config, status: &Status) -> Vec<String> {
    let told = |source: &SourceConfig| {
        let scope = format!("source {}", source.name);
        let why = status.conditions.iter().find(|c| c.scope == scope && c.id.is_none())?;
        let since = match why.reason == NO_REVISION {
            true => String::new(),
            false => format!(", since {}", why.since),
        };
        let hint = why.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        Some(format!("source {} may declare it: {}{since}{hint}", source.name, why.message))
    };
    config.sources.iter().filter(|source| !is_in_force(status, &source.name)).filter_map(told).collect()
}

fn is_in_force(status: &Status, source: &str) -> bool {
    status.sources.iter().any(|known| known.source == source)
}

/// Says when what waits is tried again, as the scheduler has it: a condition that stays what it was is not written anew.
pub fn lay_over(conditions: &mut [ConditionEntry], standing: &BTreeMap<Scope, Standing>, now: Duration) {
    for condition in conditions.iter_mut().filter(|condition| condition.kind == "waiting") {
        let is_past = condition.next_try.is_none_or(|at| at.0 <= now);
        if is_past && let Some(next) = next_try(standing, &condition.scope) {
            condition.next_try = Some(next);
        }
    }
}

/// The same of what does not do its work: when it is looked at again.
pub fn lay_over_health(status: &mut Status, standing: &BTreeMap<Scope, Standing>) {
    for one in status.degraded.iter_mut().chain(&mut status.progressing) {
        one.next_try = next_try(standing, &one.scope);
    }
}

fn next_try(standing: &BTreeMap<Scope, Standing>, scope: &str) -> Option<Stamp> {
    standing.get(&scope.parse::<Scope>().ok()?)?.next_try.map(Stamp)
}

/// True when a suspension means what is tracked; of labels that is not known here.
pub(super) fn means(suspension: &Suspension, row: &TrackedEntry) -> bool {
    let (Ok(scope), Ok(address)) = (row.scope.parse::<Scope>(), row.address.parse::<Address>()) else {
        return false;
    };
    suspension.means(&scope, &address, Some(&ManifestKey(row.manifest.as_str().into())), || None)
}

pub(super) fn concerns(pattern: &Pattern, condition: &ConditionEntry, rows: &[TrackedEntry]) -> bool {
    let tracked =
        rows.iter().any(|row| row.scope == condition.scope && Some(&row.id) == condition.id.as_ref());
    tracked || condition.address.as_deref().is_some_and(|address| is_meant(pattern, address))
}

/// True when an address that was written down is meant.
pub(super) fn is_meant(pattern: &Pattern, address: &str) -> bool {
    let address = address.parse::<Address>();
    address.is_ok_and(|address| pattern.matches(&address, address.group.as_deref().unwrap_or("")))
}

/// What was changed by somebody else?
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct DriftAsk {
    /// Only what concerns this address.
    pub address: Option<String>,
    /// Only what is not over.
    #[serde(default)]
    pub open: bool,
}

/// Answers [`DriftAsk`]: the drift ledger, the newest first.
pub async fn drift(reader: &Reader, ask: &DriftAsk) -> Result<Vec<DriftEntry>, Failure> {
    let address = ask.address.as_deref().map(pattern).transpose()?;
    Ok(reader.drifts(address.as_ref(), ask.open).await?)
}

/// What happened?
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct HistoryAsk {
    /// Only what concerns this address.
    pub address: Option<String>,
    /// Not before this time.
    pub since: Option<Stamp>,
    /// Only what this one did.
    pub actor: Option<String>,
}

/// Answers [`HistoryAsk`].
pub async fn history(reader: &Reader, ask: &HistoryAsk) -> Result<Vec<HistoryEntry>, Failure> {
    let address = ask.address.as_deref().map(pattern).transpose()?;
    let filter = HistoryFilter { address, since: ask.since.map(|s| s.0), actor: ask.actor.clone() };
    Ok(reader.history(&filter).await?)
}

/// Which events?
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct EventsAsk {
    /// Those with a higher number.
    #[serde(default)]
    pub after: i64,
    /// At most so many.
    pub limit: Option<usize>,
}

/// Answers [`EventsAsk`].
pub async fn events(reader: &Reader, ask: &EventsAsk) -> Result<Vec<EventEntry>, Failure> {
    Ok(reader.events(&EventFilter::default(), ask.after, ask.limit.unwrap_or(usize::MAX)).await?)
}

/// What waits for consent, and what was consented to.
pub async fn approvals(reader: &Reader) -> Result<Approvals, Failure> {
    Ok(reader.approvals().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_part_lacks_is_its_type_before_it_is_another_name() {
        let known = ["#@/A", "#www/CNAME", "#www2/A", ""].map(|part| format!("Zone/example.com{part}"));
        let known = BTreeSet::from(known);
        let check = |text: &str, expect: &str| assert_eq!(nearest(text, &known), Some(expect), "{text}");
        check("Zone/example.com#www", "Zone/example.com#www/CNAME");
        check("Zone/example.com#wwww/CNAME", "Zone/example.com#www/CNAME");
        check("Zone/exampel.com", "Zone/example.com");
        check("Zone/exampel.com#@/A", "Zone/example.com#@/A");
    }

    #[test]
    fn the_next_try_is_the_schedulers_where_that_of_the_condition_is_over() {
        let at = |seconds| Stamp(Duration::from_secs(seconds));
        let condition = |kind, next_try| ConditionEntry {
            next_try,
            ..ConditionEntry::of("pdns/a", kind, "unavailable", "", at(1))
        };
        let mut standing = Standing::default();
        standing.next_try = Some(at(90).0);
        let standing = BTreeMap::from([(Scope::new("pdns", "a"), standing)]);
        let mut all = [
            condition(ConditionKind::Waiting, Some(at(2))),
            condition(ConditionKind::Waiting, Some(at(70))),
            condition(ConditionKind::Stalled, None),
        ];
        lay_over(&mut all, &standing, at(60).0);
        assert_eq!(all.map(|condition| condition.next_try), [Some(at(90)), Some(at(70)), None]);
    }
}
