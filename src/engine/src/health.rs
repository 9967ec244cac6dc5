//! Health: how resources fare, apart from whether they are in sync, in the words and the order of Argo CD.
//!
//! Guarantees: only what is not healthy is remembered, so a pass over what is well writes nothing; what was not read
//! keeps the health it had. It deliberately does not say what keeps something from being in sync: that is a
//! [`crate::store::Condition`], and health at large follows from both.

pub use crate::store::HealthState;

use crate::{
    error_policy::CAP,
    store::{Ailment, LEFT_OUT, RowState, ScopeMemory, Write},
};
use reconciled_provider::{Error, Health, Observation, ResourceId, Scope, Unwell};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// What a look says of the health of a scope.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assessment {
    /// What is not healthy, sorted by id; none for the scope as a whole comes first.
    pub ailments: Vec<Ailment>,
    /// When what is on its way, or does not do its work, shall be looked at again.
    pub recheck: Option<Duration>,
    /// When what is on its way and somebody waits for shall be.
    pub awaited: Option<Duration>,
}

impl Assessment {
    /// Adds what is `gone` from the remote and stays so; what was not looked for is as it was.
    pub(crate) fn leave_out(
        &mut self,
        memory: &ScopeMemory,
        gone: &[ResourceId],
        was_read: &dyn Fn(&ResourceId) -> bool,
        now: Duration,
    ) {
        let known = || memory.ailments.iter().filter(|known| known.is_left_out());
        if gone.is_empty() && known().next().is_none() {
            return;
        }
        self.ailments.retain(|ailment| !ailment.is_left_out());
        let before: Known<'_> = known().map(|known| ((known.id.as_ref(), known.state), known)).collect();
        let not_read = known().filter_map(|known| known.id.as_ref());
        let not_read = not_read.filter(|id| !was_read(id) && !gone.contains(id) && is_known(memory, id));
        for id in gone.iter().chain(not_read) {
            let gone = ailment(&before, Some(id.clone()), HealthState::Missing, LEFT_OUT.into(), now);
            self.ailments.push(gone);
        }
        self.ailments.sort_by(|a, b| a.id.cmp(&b.id));
    }
}

/// What of a scope is known by looking.
pub(crate) struct Told<'a> {
    pub(crate) memory: &'a ScopeMemory,
    pub(crate) seen: &'a Observation,
    /// What was really read, and not taken from memory.
    pub(crate) was_read: &'a dyn Fn(&ResourceId) -> bool,
    /// What the provider says on its own clock.
    pub(crate) asked: Asked,
    pub(crate) now: Duration,
    /// What was written since then is waited for.
    pub(crate) written_since: Option<Duration>,
}

/// What a provider says of health when it is asked.
pub(crate) enum Asked {
    /// It never says any: what was read says all.
    Never,
    /// It was not asked this time: what is known stays.
    NotNow,
    /// It was asked.
    Now(Result<Vec<(ResourceId, Health)>, Error>),
}

/// Puts together what was read, what the provider says when asked, and what was known.
pub(crate) fn assess(told: Told<'_>) -> Assessment {
    let Told { memory, seen, was_read, asked, now, written_since } = told;
    let is_awaited = |id: &ResourceId| {
        let row = memory.rows.binary_search_by(|row| row.tracked.id.cmp(id)).ok().map(|at| &memory.rows[at]);
        written_since.zip(row).is_some_and(|(since, row)| row.written_at >= since)
    };
    let before: Known<'_> =
        memory.ailments.iter().map(|known| ((known.id.as_ref(), known.state), known)).collect();
    let mut all: BTreeMap<&ResourceId, &Health> = BTreeMap::new();
    all.extend(seen.resources.iter().filter_map(|o| Some((&o.id, o.health.as_deref()?))));
    let (answers, error) = match &asked {
        Asked::Now(Ok(answers)) => (&answers[..], None),
        Asked::Now(Err(error)) => (&[][..], Some(error)),
        Asked::Never | Asked::NotNow => (&[][..], None),
    };
    // Of what is to be made yet a remote can only say that it is not there.
    let is_there = |id: &ResourceId| seen.get(id).is_some() || is_known(memory, id);
    all.extend(answers.iter().filter(|(id, _)| is_there(id)).map(|(id, health)| (id, health)));
    let mut out = Assessment::default();
    if let Some(error) = error {
        let message = format!("asking for health: {}", error.chain());
        out.ailments.push(ailment(&before, None, HealthState::Unknown, message.into(), now));
    }
    for (id, health) in &all {
        let (state, why) = (HealthState::from(*health), why(health));
        if let Health::Progressing { recheck, .. } = health {
            let at = now + (*recheck).max(SOONEST);
            let sooner = |other: Option<Duration>| Some(other.map_or(at, |other| other.min(at)));
            out.recheck = sooner(out.recheck);
            if is_awaited(id) {
                out.awaited = sooner(out.awaited);
            }
        }
        if state != HealthState::Healthy {
            out.ailments.push(ailment(&before, Some((*id).clone()), state, why.into(), now));
        }
    }
    // What nobody spoke of keeps what is known, unless it was read: then silence means health.
    let silent = |id: &ResourceId| match &asked {
        Asked::Now(answer) => answer.is_ok(),
        Asked::Never => was_read(id),
        Asked::NotNow => false,
    };
    let kept = memory.ailments.iter().filter(|known| match &known.id {
        Some(id) => !all.contains_key(id) && !silent(id) && is_known(memory, id),
        // Of the scope as a whole.
        None => matches!(asked, Asked::NotNow),
    });
    out.ailments.extend(kept.cloned());
    out.ailments.sort_by(|a, b| a.id.cmp(&b.id));
    if matches!(asked, Asked::Now(_)) {
        let ill = out.ailments.iter().filter(|ailment| ailment.state == HealthState::Degraded);
        let again = ill.map(|ailment| again_at(ailment.since, now)).min();
        out.recheck = out.recheck.into_iter().chain(again).min();
    }
    out
}

/// A remote that asks to be looked at again at once is not.
const SOONEST: Duration = Duration::from_secs(1);
/// First wait until what does not do its work is looked at again.
const AGAIN: Duration = Duration::from_secs(5);

/// When what does not do its work since then is looked at again: nobody tells that it does, and who depends on it waits. The
/// wait is as long as that has lasted, so it doubles from look to look, up to that after a failure. The clock may go back.
fn again_at(since: Duration, now: Duration) -> Duration {
    now + now.abs_diff(since).clamp(AGAIN, CAP)
}

fn is_known(memory: &ScopeMemory, id: &ResourceId) -> bool {
    memory.rows.binary_search_by(|row| row.tracked.id.cmp(id)).is_ok()
}

fn why(health: &Health) -> String {
    match health {
        Health::Progressing { why, .. } | Health::Degraded { why } => why.clone(),
        Health::Healthy => String::new(),
        Health::Suspended => "it is switched off".into(),
        Health::Missing => "it is not there".into(),
        Health::Unknown => "the remote cannot tell".into(),
    }
}

/// What was known, by resource and state.
type Known<'a> = BTreeMap<(Option<&'a ResourceId>, HealthState), &'a Ailment>;

/// `since` is kept while the state stays the same.
fn ailment(
    before: &Known<'_>,
    id: Option<ResourceId>,
    state: HealthState,
    message: Arc<str>,
    now: Duration,
) -> Ailment {
    let before = before.get(&(id.as_ref(), state));
    Ailment { since: before.map_or(now, |known| known.since), id, state, message }
}

/// The health of a scope that could not be looked at: unknown as a whole, and what was known of its parts stays.
pub(crate) fn unseen(known: &[Ailment], error: &Error, now: Duration) -> Vec<Ailment> {
    let before = known.iter().find(|a| a.id.is_none() && a.state == HealthState::Unknown);
    let whole = Ailment {
        id: None,
        state: HealthState::Unknown,
        message: error.chain().into(),
        since: before.map_or(now, |known| known.since),
    };
    std::iter::once(whole).chain(known.iter().filter(|a| a.id.is_some()).cloned()).collect()
}

/// Remembers health that changed. Returns whether any did.
pub(crate) fn write(scope: &Scope, known: &[Ailment], now: &[Ailment], writes: &mut Vec<Write>) -> bool {
    let is_changed = known != now;
    if is_changed {
        writes.push(Write::Ailments(scope.clone(), now.to_vec()));
    }
    is_changed
}

/// What a provider is told of earlier looks: also what was written, and not looked at since.
pub(crate) fn known_unwell(memory: &ScopeMemory) -> Vec<Unwell> {
    let mut all: BTreeMap<&ResourceId, Unwell> = BTreeMap::new();
    for row in memory.rows.iter().filter(|row| row.state == RowState::Applied) {
        let (id, since) = (row.tracked.id.clone(), row.written_at);
        all.insert(&row.tracked.id, Unwell { id, is_degraded: false, why: "".into(), since });
    }
    for known in &memory.ailments {
        let (Some(id), HealthState::Progressing | HealthState::Degraded) = (&known.id, known.state) else {
            continue;
        };
        let is_degraded = known.state == HealthState::Degraded;
        let unwell = Unwell { id: id.clone(), is_degraded, why: known.message.clone(), since: known.since };
        all.insert(id, unwell);
    }
    all.into_values().collect()
}

/// Resources of a scope whose dependants must wait because of their health.
pub(crate) fn unready(memory: &ScopeMemory) -> BTreeSet<&ResourceId> {
    let keeps_waiting = |ailment: &&Ailment| !ailment.state.is_ready() && !ailment.is_left_out();
    memory.ailments.iter().filter(keeps_waiting).filter_map(|a| a.id.as_ref()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Row;
    use reconciled_provider::{Focus, ManifestKey, Observed, Version};

    const NOW: Duration = Duration::from_secs(1000);

    fn row(id: &str) -> Row {
        let address = format!("Thing/a#{id}").parse().unwrap();
        let manifest = ManifestKey::new("s", "test", "Thing", "", "a");
        Row::settled(Scope::new("ref", "a"), id, manifest).with(|row| row.address = address)
    }

    fn ill(id: Option<&str>, state: HealthState, since: u64) -> Ailment {
        let since = Duration::from_secs(since);
        Ailment { id: id.map(ResourceId::from), state, message: "why".into(), since }
    }

    fn degraded() -> Health {
        Health::Degraded { why: "why".into() }
    }

    /// `known` and what `seen` and `asked` say of a, b and c, of which only `read` was read.
    fn check(known: Vec<Ailment>, seen: &[(&str, Health)], asked: Asked, read: &[&str]) -> Assessment {
        let memory = ScopeMemory {
            rows: Vec::from(["a", "b", "c"].map(row)).into(),
            ailments: known,
            ..ScopeMemory::default()
        };
        let resources = ["a", "b", "c"].map(|id| Observed {
            health: seen.iter().find(|(i, _)| *i == id).map(|(_, health)| health.clone().into()),
            ..Observed::new(id.into(), "")
        });
        let seen = Observation {
            covered: Focus::All,
            complete: true,
            version: Version::Unknown,
            resources: resources.into(),
        };
        let was_read = |id: &ResourceId| read.contains(&&*id.0);
        assess(Told {
            memory: &memory,
            seen: &seen,
            was_read: &was_read,
            asked,
            now: NOW,
            written_since: None,
        })
    }

    #[test]
    fn the_order_is_that_of_argo_cd() {
        assert!(HealthState::ALL.is_sorted());
        let words: Vec<_> = HealthState::ALL.iter().map(|state| state.word()).collect();
        assert_eq!(words, ["Healthy", "Suspended", "Progressing", "Missing", "Degraded", "Unknown"]);
        assert!(HealthState::ALL.iter().all(|state| HealthState::of_word(state.word()) == Some(*state)));
    }

    #[test]
    fn what_is_read_and_silent_is_healthy_and_what_is_not_read_stays_as_it_was() {
        let known = vec![ill(Some("a"), HealthState::Degraded, 1), ill(Some("b"), HealthState::Missing, 2)];
        let found = check(known, &[], Asked::Never, &["a"]);
        assert_eq!(found.ailments, [ill(Some("b"), HealthState::Missing, 2)]);
    }

    #[test]
    fn since_is_kept_while_the_state_stays() {
        let known =
            vec![ill(Some("a"), HealthState::Degraded, 1), ill(Some("b"), HealthState::Progressing, 2)];
        let found = check(known, &[("a", degraded()), ("b", degraded())], Asked::Never, &["a", "b", "c"]);
        let expected =
            [ill(Some("a"), HealthState::Degraded, 1), ill(Some("b"), HealthState::Degraded, 1000)];
        assert_eq!(found.ailments, expected);
    }

    #[test]
    fn what_the_provider_says_when_asked_counts_before_what_a_read_says() {
        let found = check(
            vec![ill(Some("c"), HealthState::Degraded, 1)],
            &[("a", degraded()), ("b", degraded())],
            Asked::Now(Ok(vec![("a".into(), Health::Healthy)])),
            &[],
        );
        assert_eq!(found.ailments, [ill(Some("b"), HealthState::Degraded, 1000)]);
    }

    #[test]
    fn what_is_gone_and_ignored_is_missing_until_it_is_seen_and_keeps_nobody_waiting() {
        let left_out =
            |id, since| Ailment { message: LEFT_OUT.into(), ..ill(Some(id), HealthState::Missing, since) };
        let known = vec![left_out("a", 1), left_out("b", 2), ill(Some("c"), HealthState::Missing, 3)];
        let memory = ScopeMemory {
            rows: Vec::from(["a", "b", "c", "d"].map(row)).into(),
            ailments: known,
            ..ScopeMemory::default()
        };
        let mut found = Assessment { ailments: memory.ailments.clone(), ..Assessment::default() };
        // Of a nothing was said, b was seen, and d is gone by now.
        found.leave_out(&memory, &["d".into()], &|id| &*id.0 != "a", NOW);
        assert_eq!(
            found.ailments,
            [left_out("a", 1), ill(Some("c"), HealthState::Missing, 3), left_out("d", 1000)]
        );
        let memory = ScopeMemory { ailments: found.ailments, ..memory };
        assert_eq!(unready(&memory), [&ResourceId::from("c")].into());
    }

    #[test]
    fn what_is_on_its_way_is_looked_at_again() {
        let way = |seconds| Health::Progressing { why: "why".into(), recheck: Duration::from_secs(seconds) };
        let found = check(Vec::new(), &[("a", way(30)), ("b", way(0))], Asked::Never, &["a", "b"]);
        assert_eq!(found.recheck, Some(NOW + SOONEST));
    }

    #[test]
    fn what_does_not_do_its_work_is_looked_at_again_ever_more_seldom() {
        let asked = || Asked::Now(Ok(vec![("a".into(), degraded())]));
        for (since, wait) in [(1_000, 5), (998, 5), (980, 20), (1, 300), (1_060, 60)] {
            let found = check(vec![ill(Some("a"), HealthState::Degraded, since)], &[], asked(), &[]);
            assert_eq!(found.recheck, Some(NOW + Duration::from_secs(wait)), "since {since}");
            assert_eq!(found.awaited, None, "nobody waits for what may never be well");
        }
        let known = vec![ill(Some("a"), HealthState::Degraded, 980)];
        assert_eq!(check(known, &[], Asked::NotNow, &[]).recheck, None, "nobody was asked");
    }

    #[test]
    fn nothing_is_said_of_what_is_to_be_made_yet() {
        let told = vec![("new".into(), degraded()), ("b".into(), degraded())];
        let found = check(Vec::new(), &[], Asked::Now(Ok(told)), &[]);
        assert_eq!(found.ailments, [ill(Some("b"), HealthState::Degraded, 1_000)]);
    }

    #[test]
    fn who_is_not_asked_keeps_the_health_that_is_known_whatever_is_read() {
        let known = vec![ill(None, HealthState::Unknown, 1), ill(Some("a"), HealthState::Degraded, 2)];
        assert_eq!(check(known.clone(), &[], Asked::NotNow, &["a", "b", "c"]).ailments, known);
        assert_eq!(check(known, &[], Asked::Now(Ok(Vec::new())), &[]).ailments, []);
    }

    #[test]
    fn a_question_without_an_answer_makes_the_whole_unknown_and_forgets_nothing() {
        let known = vec![ill(Some("a"), HealthState::Degraded, 1)];
        let found = check(known.clone(), &[], Asked::Now(Err(Error::unavailable("no"))), &["a", "b", "c"]);
        assert_eq!(found.ailments.len(), 2);
        assert_eq!((found.ailments[0].state, found.ailments[0].id.clone()), (HealthState::Unknown, None));
        assert_eq!(found.ailments[1], known[0]);
    }
}
