//! Commit statuses: a forge is told how the commits of a source fare.
//!
//! Guarantees: a call for each change of state and no more; `pending` only before anything else is known of a
//! commit; what follows later must last, since a forge takes a limited number for each commit. Each commit that was in force
//! is told what it came to. What was decided and not told survives a restart. A forge that is away delays nobody.
//! It deliberately tells nothing of commits that never were in force, but of the one that is withheld.

use super::{again, error::SendError, send::authorized};
use crate::{
    config::{Report, ReportForge as Forge, SourceConfig},
    daemon::{Fared, Fate, Instance, Verdict},
    failure::Failure,
    http::{self, CallError},
    store::{Notice, StatusRow},
    text::short_commit,
};
use reconciled_provider::Secrets;
use reqwest::Url;
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How long a change must last once a commit was said to be more than pending.
const LASTS: Duration = Duration::from_secs(60);
/// How long a status is worth an attempt.
const WORTH: Duration = Duration::from_hours(24);
/// Longest time between two looks.
const LOOK: Duration = Duration::from_secs(5);

/// What is wrong with telling forges, by source, for `status`.
pub(crate) fn troubles(instance: &Instance) -> Vec<String> {
    let unreported = instance.unreported();
    unreported.iter().map(|(name, why)| format!("warning: source {name}: {why}")).collect()
}

/// Tells the forge of one source until the instance stops.
pub(crate) async fn report(instance: Arc<Instance>, source: SourceConfig, report: Report) {
    let cx = &instance.session.surveyor.cx;
    let mut fates = instance.fates.clone();
    let mut teller = Teller {
        instance: &instance,
        source: &source.name,
        report: &report,
        failures: 0,
        next: Duration::ZERO,
        last: None,
        left: 0,
    };
    loop {
        let fared = fates.borrow_and_update().get(&source.name).cloned();
        let wait = match teller.turn(fared).await {
            Ok(wait) => wait,
            Err(failure) => {
                tracing::warn!(source = &*source.name, error = %failure, "commit statuses cannot be put down");
                LOOK
            }
        };
        if cx.stop.is_set() {
            return;
        }
        tokio::select! {
            // What came about while a forge was waited for is put down before the end.
            () = cx.stop.wished() => {}
            changed = fates.changed() => if changed.is_err() && !cx.stop.is_set() { return },
            () = cx.clock.sleep(wait) => {}
        }
    }
}

struct Teller<'a> {
    instance: &'a Instance,
    source: &'a Arc<str>,
    report: &'a Report,
    failures: u32,
    /// When the forge is asked next.
    next: Duration,
    /// How the commit fared at the last look, and since when.
    last: Option<(Arc<str>, &'static str, Duration)>,
    /// Of how many commits that are not in force any more it was put down what they came to.
    left: u64,
}

impl Teller<'_> {
    /// Decides, tells what is to be told, and says how long nothing follows by itself.
    async fn turn(&mut self, fared: Option<Fared>) -> Result<Duration, Failure> {
        let now = self.instance.session.clock.now();
        let rows = self.instance.writing.db.reader().statuses(self.source).await?;
        if let Some(mut fared) = fared {
            let since = self.since(&fared.now, now);
            let new = usize::try_from(fared.count.saturating_sub(self.left)).unwrap_or(usize::MAX);
            fared.left.drain(..fared.left.len().saturating_sub(new));
            let notices = decide(self.source, &fared, &rows, since, now);
            self.instance.writing.db.note(notices).await?;
            self.left = fared.count;
        }
        let stop = &self.instance.session.surveyor.cx.stop;
        if stop.is_set() {
            return Ok(LOOK);
        }
        let rows = self.instance.writing.db.reader().statuses(self.source).await?;
        let Some(row) = rows.into_iter().rev().find(|row| !row.is_delivered) else { return Ok(LOOK) };
        let left = self.next.saturating_sub(now);
        // One that is longer than any wait was put down before the clock went back.
        if !left.is_zero() && left <= again::LONGEST {
            return Ok(left.min(LOOK));
        }
        let told = tokio::select! {
            told = tell(self.report, &self.instance.session.config.instance, &row, &*self.instance.session.secrets) => told,
            () = stop.wished() => return Ok(LOOK),
        };
        self.instance.session.metrics.reported(self.source, if told.is_ok() { "sent" } else { "failed" });
        let is_done = match told {
            Ok(()) => {
                if self.failures > 0 {
                    tracing::info!(source = &**self.source, "commit statuses are told again");
                }
                self.failures = 0;
                self.instance.set_unreported(self.source, None);
                true
            }
            Err(error) => {
                let why =
                    format!("the status of commit {} cannot be told: {error}", short_commit(&row.commit));
                let is_given_up = error.is_final || row.decided_at + WORTH <= now;
                if self.failures == 0 {
                    let hint = error.hint.as_deref().unwrap_or("see `report` of the source");
                    match is_given_up {
                        true => {
                            tracing::warn!(source = &**self.source, error = %error, hint, "a commit status cannot be told, and is given up");
                        }
                        false => {
                            tracing::warn!(source = &**self.source, error = %error, hint, "a commit status cannot be told; it is tried again");
                        }
                    }
                }
                self.instance.set_unreported(self.source, Some(why));
                self.next = now + again::backoff(self.failures);
                self.failures += 1;
                is_given_up
            }
        };
        if is_done {
            let row = StatusRow { is_delivered: true, ..row };
            self.instance.writing.db.note(vec![Notice::Status(row)]).await?;
        }
        // More may wait.
        Ok(Duration::from_millis(50))
    }

    /// Since when the commit fares as it does.
    fn since(&mut self, fate: &Fate, now: Duration) -> Duration {
        let (state, _) = said(fate);
        match &self.last {
            Some((commit, last, since)) if *commit == fate.commit && *last == state => *since,
            _ => {
                self.last = Some((fate.commit.clone(), state, now));
                now
            }
        }
    }
}

/// What is to be put down, given what was decided before. Of the commits that were in force it has those that are new.
fn decide(
    source: &Arc<str>,
    fared: &Fared,
    rows: &[StatusRow],
    since: Duration,
    now: Duration,
) -> Vec<Notice> {
    let Fared { now: fate, withheld, left, .. } = fared;
    let mut states: BTreeMap<&str, &str> = rows.iter().map(|row| (&*row.commit, &*row.state)).collect();
    let mut decided: Vec<(&Arc<str>, &'static str, String)> = Vec::new();
    let superseded = |by: &str| format!("superseded by {}", short_commit(by));
    for (index, fate) in left.iter().enumerate() {
        let next = left.get(index + 1).unwrap_or(&fared.now);
        let (state, description) = match fate.verdict {
            Verdict::Pending => ("error", superseded(&next.commit)),
            _ => said(fate),
        };
        let is_new = match states.get(&*fate.commit) {
            // It is in force once more.
            _ if fate.verdict == Verdict::Pending && fate.commit == fared.now.commit => false,
            None | Some(&"pending") => true,
            // It stays what it came to, and that it got there at last needs not last.
            Some(before) => *before != state && fate.verdict == Verdict::Converged,
        };
        if is_new {
            states.insert(&fate.commit, state);
            decided.push((&fate.commit, state, description));
        }
    }
    // Nobody saw what they came to, as where the daemon was away.
    let stays =
        |commit: &Arc<str>| *commit == fate.commit || withheld.as_ref().is_some_and(|w| w.commit == *commit);
    for other in rows.iter().filter(|row| !stays(&row.commit)) {
        if states.get(&*other.commit) == Some(&"pending") {
            decided.push((&other.commit, "error", superseded(&fate.commit)));
        }
    }
    let (state, description) = said(fate);
    let is_new = match states.get(&*fate.commit) {
        None => true,
        Some(before) if *before == state => false,
        Some(&"pending") => true,
        // It was applied, and drift is being repaired: no news for a commit.
        Some(_) if state == "pending" => false,
        Some(_) => since + LASTS <= now,
    };
    if is_new {
        decided.push((&fate.commit, state, description));
    }
    for fate in withheld.iter().filter(|fate| matches!(states.get(&*fate.commit), None | Some(&"pending"))) {
        let (state, description) = said(fate);
        decided.push((&fate.commit, state, description));
    }
    let notice = |(commit, state, description): (&Arc<str>, &str, String)| {
        Notice::Status(StatusRow {
            source: source.clone(),
            commit: commit.clone(),
            state: state.into(),
            description: description.into(),
            decided_at: now,
            is_delivered: false,
        })
    };
    decided.into_iter().map(notice).collect()
}

fn said(fate: &Fate) -> (&'static str, String) {
    let counts = format!("{} changed, {} held", fate.changed, fate.held);
    let troubled = match fate.troubled {
        0 => counts.clone(),
        n => format!("{counts}, {n} not well"),
    };
    match fate.verdict {
        Verdict::Pending => ("pending", "in force, being applied".to_owned()),
        Verdict::Converged => ("success", counts),
        Verdict::NeedsPerson => ("failure", troubled),
        Verdict::Failing => ("error", troubled),
        Verdict::Invalid => ("failure", "the manifests have errors".to_owned()),
    }
}

async fn tell(
    report: &Report,
    instance: &str,
    row: &StatusRow,
    secrets: &dyn Secrets,
) -> Result<(), SendError> {
    let context = format!("reconciled/{instance}/{}", row.source);
    let url = url(report, &row.commit);
    let request = http::client(&url)?.post(url);
    let (state, description) = (&*row.state, &*row.description);
    let request = match report.forge {
        Forge::Github => authorized(request, Some(&report.token), secrets)?
            .header("accept", "application/vnd.github+json")
            .header("x-github-api-version", "2022-11-28")
            .json(&json!({"state": state, "description": description, "context": context})),
        Forge::Gitlab => {
            let state = match state {
                "failure" => "failed",
                "error" if description.starts_with("superseded") => "canceled",
                "error" => "failed",
                other => other,
            };
            authorized(request, Some(&report.token), secrets)?
                .json(&json!({"state": state, "description": description, "name": context}))
        }
        Forge::Gitea => authorized(request, Some(&report.token), secrets)?
            .json(&json!({"state": state, "description": description, "context": context})),
    };
    match http::send(request).await {
        // GitLab refuses to be told what it knows: an earlier call arrived and its answer did not.
        Err(CallError::Refused { status: 400, said, .. }) if said.contains("Cannot transition status") => {
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// <https://docs.github.com/rest/commits/statuses>, <https://docs.gitlab.com/api/commits>, Gitea's `/api/swagger`.
fn url(report: &Report, commit: &str) -> Url {
    let mut url = report.api.clone();
    {
        let mut path = url.path_segments_mut().expect("an address of http has a path");
        path.pop_if_empty();
        match report.forge {
            Forge::Github | Forge::Gitea => path.push("repos").extend(report.project.split('/')),
            // The project is one segment, its slashes are encoded.
            Forge::Gitlab => path.push("projects").push(&report.project),
        };
        path.push("statuses").push(commit);
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forge_is_told_of_changes_only_and_pending_comes_first_or_never() {
        let mut told = Told::default();
        let one = |commit: &str, state: &str| vec![format!("{commit} {state}")];
        assert_eq!(told.of(fate("a", Verdict::Pending), 1, 1), one("a", "pending"));
        assert_eq!(told.of(fate("a", Verdict::Pending), 1, 9), none());
        assert_eq!(told.of(fate("a", Verdict::Converged), 10, 10), one("a", "success"));
        assert_eq!(told.of(fate("a", Verdict::Pending), 20, 99), none());
        assert_eq!(told.of(fate("a", Verdict::Failing), 100, 130), none());
        assert_eq!(told.of(fate("a", Verdict::Failing), 100, 160), one("a", "error"));
        assert_eq!(told.of(fate("b", Verdict::Pending), 200, 200), one("b", "pending"));
        // Nobody saw what became of it.
        let both = [one("b", "error"), one("c", "failure")].concat();
        assert_eq!(told.of(fate("c", Verdict::NeedsPerson), 300, 300), both);
    }

    #[test]
    fn each_commit_that_was_in_force_is_told_what_it_came_to() {
        let mut told = Told::default();
        told.of(fate("a", Verdict::Pending), 1, 1);
        let left = [
            ("a", Verdict::Converged),
            ("b", Verdict::Converged),
            ("c", Verdict::Pending),
            ("d", Verdict::NeedsPerson),
        ];
        let fared = Fared {
            now: fate("e", Verdict::Pending),
            withheld: None,
            left: left.into_iter().map(|(commit, verdict)| fate(commit, verdict)).collect(),
            count: 4,
        };
        let said = told.decided(&fared, 2, 2);
        assert_eq!(said, ["a success", "b success", "c error", "d failure", "e pending"]);
        assert_eq!(&*told.0.iter().find(|row| &*row.commit == "c").unwrap().description, "superseded by d");
        // That it got there at last is said at once, and what goes wrong with the last look is no news.
        let last = |commit, verdict| Fared { left: [fate(commit, verdict)].into(), ..fared.clone() };
        assert_eq!(told.decided(&last("d", Verdict::Converged), 3, 3), ["d success"]);
        assert_eq!(told.decided(&last("d", Verdict::Failing), 4, 4), none());
    }

    #[test]
    fn a_commit_that_is_withheld_supersedes_none() {
        let mut told = Told::default();
        told.of(fate("a", Verdict::Pending), 1, 1);
        let withheld = Some(fate("b", Verdict::Invalid));
        let fared =
            |verdict| Fared { now: fate("a", verdict), withheld: withheld.clone(), ..Fared::default() };
        assert_eq!(told.decided(&fared(Verdict::Pending), 1, 2), ["b failure"]);
        assert_eq!(told.decided(&fared(Verdict::Converged), 3, 3), ["a success"]);
        assert_eq!(told.decided(&fared(Verdict::Converged), 3, 4), none());
    }

    fn fate(commit: &str, verdict: Verdict) -> Fate {
        Fate { commit: commit.into(), verdict, ..Fate::default() }
    }

    fn none() -> Vec<String> {
        Vec::new()
    }

    /// What was put down, as the state has it.
    #[derive(Default)]
    struct Told(Vec<StatusRow>);

    impl Told {
        fn of(&mut self, now: Fate, since: u64, at: u64) -> Vec<String> {
            self.decided(&Fared { now, ..Fared::default() }, since, at)
        }

        fn decided(&mut self, fared: &Fared, since: u64, at: u64) -> Vec<String> {
            let (since, at) = (Duration::from_secs(since), Duration::from_secs(at));
            let mut said = Vec::new();
            for notice in decide(&"infra".into(), fared, &self.0, since, at) {
                let Notice::Status(row) = notice else { panic!("{notice:?}") };
                said.push(format!("{} {}", row.commit, row.state));
                self.0.retain(|other| other.commit != row.commit);
                self.0.push(row);
            }
            said
        }
    }

    #[test]
    fn each_forge_has_its_path() {
        let check = |forge, project: &str, api: &str, expect: &str| {
            let token = reconciled_provider::SecretRef::Env("T".into());
            let report = Report { forge, project: project.into(), api: api.parse().unwrap(), token };
            assert_eq!(url(&report, "abc").as_str(), expect);
        };
        check(
            Forge::Github,
            "o/r",
            "https://api.github.com",
            "https://api.github.com/repos/o/r/statuses/abc",
        );
        check(
            Forge::Gitlab,
            "g/s/p",
            "https://x/api/v4/",
            "https://x/api/v4/projects/g%2Fs%2Fp/statuses/abc",
        );
        check(Forge::Gitea, "o/r", "https://x/api/v1", "https://x/api/v1/repos/o/r/statuses/abc");
    }
}
