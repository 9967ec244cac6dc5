//! pre-receive: checks the tree, shows the plan, and takes the push or refuses it.

use super::{
    consent::{line, rewinding, trailers, ways},
    daemon::{Daemon, is_unreachable, told, within},
    input::{Update, received},
    options::Options,
};
use crate::{
    cli::{Exit, Out, validate},
    client::Client,
    config::{Approver, Environment, FOLDER, OnHold},
    failure::Failure,
    manifest::SourceRules,
    operation::{Form, PushAnswer, PushAsk, PushSource, SignedObjects, Upload, plan::State},
    render::{
        plan::{TextOptions, text},
        problems,
    },
    source::{CommitInfo, CommitTree, Limits, Oid, Received},
    text::short_digest,
};
use reconciled_provider::Problem;
use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

/// Columns that are left of 80 after `remote: `.
const WIDTH: usize = 72;
/// Most branches of one push that are planned although nobody follows them: each plan takes its time.
const PLANNED: usize = 3;
/// Most commits whose signatures the daemon is asked about; it judges all of them once they are pushed.
const JUDGED: usize = 1_000;
/// Most changes of a scope that a pusher is shown.
const SHOWN: usize = 40;
/// What happens to the push.
#[derive(PartialEq, Eq)]
enum Verdict {
    Taken,
    Refused,
}

/// The daemon's plan, or lines that say why there is none.
type Planned = Result<PushAnswer, Vec<String>>;

/// One push under examination.
struct Push<'a> {
    environment: &'a Environment,
    received: Received,
    daemon: Daemon,
    options: &'a Options,
    out: &'a mut Out,
    /// Branches nobody follows that were planned.
    planned: usize,
    /// Consent that no plan has asked for so far; none while there was no plan.
    unknown: Option<Vec<String>>,
    /// Digests that the pusher may consent to.
    wanted: Vec<Arc<str>>,
    /// Digests that a trailer of the commit may consent to.
    unsaid: Vec<Arc<str>>,
    /// The commits to which the push rewinds what is followed, where a push may consent to that, and whether it does.
    rewinds: Vec<(String, bool)>,
}

/// Runs the hook.
pub(super) async fn run(
    socket: &Path,
    environment: &Environment,
    updates: &[Update],
    options: &Options,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let received = received(environment)?;
    let daemon = Daemon::find(socket, &received, Duration::MAX).await;
    let mut push = Push {
        environment,
        received,
        daemon,
        options,
        out,
        planned: 0,
        unknown: None,
        wanted: Vec::new(),
        unsaid: Vec::new(),
        rewinds: Vec::new(),
    };
    let mut verdict = Verdict::Taken;
    for update in updates {
        if push.judge(update).await? == Verdict::Refused {
            verdict = Verdict::Refused;
        }
    }
    // What was consented to is not what is planned: the pusher must look again.
    for digest in push.unknown.iter().flatten() {
        push.out.talk(&format!("error: `{digest}` is not the digest of anything this push has held"));
        verdict = Verdict::Refused;
    }
    // One line for all of them: what names some is refused for the rest.
    if push.rewinds.iter().any(|(_, is_meant)| !is_meant) {
        let line = rewinding(push.rewinds.iter().map(|(commit, _)| commit));
        push.out.talk(&format!("hint: to rewind on purpose: git push{line}"));
    }
    if !push.wanted.is_empty() && (options.plan || verdict == Verdict::Refused) {
        let line = line(&push.wanted, options);
        push.out.talk(&format!("hint: if it is meant: {line}"));
    }
    if !push.unsaid.is_empty() && (options.plan || verdict == Verdict::Refused) {
        let line = format!("git commit --amend --no-edit --allow-empty{}", trailers(&push.unsaid));
        // What of it no push option may consent to needs the commit's word in any case.
        let word = if push.unsaid.iter().all(|digest| push.wanted.contains(digest)) { "or " } else { "" };
        push.out.talk(&format!("hint: {word}let the commit say so, then push again: {line}"));
    }
    if options.plan && verdict == Verdict::Taken {
        push.out.talk("nothing was taken: -o reconciled.plan only shows the plan");
        verdict = Verdict::Refused;
    }
    Ok(if verdict == Verdict::Taken { Exit::Good } else { Exit::Error })
}

impl Push<'_> {
    async fn judge(&mut self, update: &Update) -> Result<Verdict, Failure> {
        let sources = self.daemon.target.sources.clone();
        let tracked: Vec<PushSource> =
            sources.iter().filter(|source| source.follows(&update.reference)).cloned().collect();
        let Some(new) = update.new else {
            let lines: Vec<PushSource> = tracked.into_iter().filter(PushSource::is_line).collect();
            return Ok(self.deleted(update, &lines));
        };
        // Tags that nobody follows, notes and the like are none of our business.
        if !update.is_branch() && tracked.is_empty() {
            return Ok(Verdict::Taken);
        }
        let Some(commit) = self.received.commit(new)? else {
            self.out.talk(&format!("error: {} would be no commit: {new}", update.name()));
            return Ok(Verdict::Refused);
        };
        match tracked.is_empty() {
            true => Ok(self.unfollowed(update, &commit, &sources).await),
            false => self.followed(update, &commit, &tracked).await,
        }
    }

    /// What is pushed comes into force.
    async fn followed(
        &mut self,
        update: &Update,
        commit: &CommitInfo,
        tracked: &[PushSource],
    ) -> Result<Verdict, Failure> {
        let (lines, ranges): (Vec<PushSource>, Vec<PushSource>) =
            tracked.iter().cloned().partition(PushSource::is_line);
        if self.rewinds(update, commit, &lines)? {
            return Ok(Verdict::Refused);
        }
        let short = commit.short();
        let tree = self.received.tree(commit.oid, limits(tracked))?;
        let signed = self.signed(update, commit, tracked)?;
        let planned = match lines.is_empty() {
            true => None,
            false => Some(self.plan(update, commit, &tree, &self.options.approve, signed).await?),
        };
        let is_broken = self.is_bad(planned.as_ref(), commit, tracked).await?;
        if is_broken {
            self.out.talk(&format!("error: {short} is refused: its manifests have errors"));
            return Ok(Verdict::Refused);
        }
        let Some(planned) = planned else {
            let name = update.name();
            let range = format!("the highest version that source {} follows", names(&ranges));
            self.out.talk(&format!("{name} is not planned: it is applied if it is {range}"));
            return Ok(Verdict::Taken);
        };
        let answer = match planned {
            Ok(answer) => answer,
            Err(why) => {
                why.iter().for_each(|line| self.out.talk(line));
                return Ok(Verdict::Taken);
            }
        };
        if !answer.unverified.is_empty() {
            for (error, hint) in &answer.unverified {
                self.out.talk(&format!("error: {error}"));
                self.out.talk(&format!("hint: {hint}"));
            }
            self.unknown = Some(Vec::new());
            return Ok(Verdict::Refused);
        }
        self.unknown.get_or_insert_with(|| self.options.approve.clone());
        self.unknown.iter_mut().for_each(|all| all.retain(|digest| !answer.approved.contains(digest)));
        if answer.is_broken {
            answer.messages.iter().for_each(|message| self.out.talk(message.trim_end()));
            self.out.talk(&format!("error: {short} is refused: its manifests have errors on this host"));
            return Ok(Verdict::Refused);
        }
        self.show(&format!("plan of {short} for source {}", names(tracked)), &answer);
        Ok(self.held(&answer))
    }

    /// Nobody follows what is pushed: it is shown what it would do, and taken whatever that is.
    async fn unfollowed(&mut self, update: &Update, commit: &CommitInfo, sources: &[PushSource]) -> Verdict {
        let name = update.name();
        self.planned += 1;
        if self.planned > PLANNED {
            self.out.talk(&format!("not planned, not applied: no source follows {name}"));
            return Verdict::Taken;
        }
        match self.received.tree(commit.oid, limits(sources)) {
            Ok(tree) => {
                let planned = self.plan(update, commit, &tree, &[], None).await.ok();
                match self.is_bad(planned.as_ref(), commit, sources).await {
                    Ok(true) => {}
                    Ok(false) => match planned {
                        Some(Ok(answer)) => {
                            // Errors that only this host has; warnings were shown already.
                            if answer.is_broken {
                                answer.messages.iter().for_each(|message| self.out.talk(message.trim_end()));
                            }
                            let as_if = format!("for source {}, as if it followed {name}", names(sources));
                            self.show(&format!("plan of {} {as_if}", commit.short()), &answer);
                        }
                        Some(Err(why)) => why.iter().for_each(|line| self.out.talk(line)),
                        None => {}
                    },
                    Err(failure) => self.out.talk(&format!("note: {}: {}", commit.short(), told(&failure))),
                }
            }
            Err(error) => {
                let failure = Failure::from(error);
                self.out.talk(&format!("note: {}: {}", commit.short(), told(&failure)));
            }
        }
        self.out.talk(&format!("not applied: no source follows {name}"));
        Verdict::Taken
    }

    fn deleted(&mut self, update: &Update, tracked: &[PushSource]) -> Verdict {
        if tracked.is_empty() {
            return Verdict::Taken;
        }
        let (name, sources) = (update.name(), names(tracked));
        self.out.talk(&format!("error: {name} is followed by source {sources} and cannot be deleted"));
        self.out.talk("hint: to remove what it declares: push a commit without those manifests");
        self.out.talk("hint: to stop following it: take the source out of the daemon's configuration");
        Verdict::Refused
    }

    /// True when the push leaves out commits that were there, and nobody consented to that.
    fn rewinds(
        &mut self,
        update: &Update,
        commit: &CommitInfo,
        tracked: &[PushSource],
    ) -> Result<bool, Failure> {
        if tracked.is_empty() {
            return Ok(false);
        }
        let mut left_out = None;
        // A tag leads to its commit; what is none cannot be compared.
        if let Some(before) = update.old
            && let Ok(Some(before)) = self.received.commit(before)
            && !self.received.descends(before.oid, commit.oid)?
        {
            left_out = Some(before.oid);
        }
        for before in tracked.iter().filter_map(|source| source.in_force.as_ref()?.parse::<Oid>().ok()) {
            // One that is not here, as where the repository is another one, has no descendants here either.
            if !self.received.descends(before, commit.oid)? {
                left_out = Some(before);
            }
        }
        let Some(left_out) = left_out else { return Ok(false) };
        let is_here = matches!(self.received.commit(left_out), Ok(Some(_)));
        let left_out = left_out.short();
        let is_meant = self.options.accepts_rewind(&commit.oid.to_string());
        let consents = tracked.iter().all(|source| source.consents) && self.daemon.client.is_ok();
        let (name, short) = (update.name(), commit.short());
        if consents {
            self.rewinds.push((short.clone(), is_meant));
        }
        if is_meant && consents {
            self.out.talk(&format!("{name} is rewound to {short}, which leaves out {left_out}"));
            return Ok(false);
        }
        let why = if is_here { "" } else { ", which is in force and not in this repository" };
        self.out.talk(&format!("error: this rewinds {name}: {short} does not descend from {left_out}{why}"));
        if is_here {
            self.out.talk("hint: to keep what others pushed: git pull --rebase, then push again");
        }
        if !consents {
            let source = tracked.first().map_or("NAME", |source| &*source.name);
            self.out.talk(&format!(
                "hint: to rewind on purpose, on the daemon's host: git update-ref {} COMMIT, \
                 then reconciled sync --source {source} --accept-rewind COMMIT",
                update.reference
            ));
        }
        Ok(true)
    }

    /// Every problem of the manifests, looked for on a thread of its own.
    fn check(
        &self,
        commit: &CommitInfo,
        meant: &[PushSource],
    ) -> impl Future<Output = Result<Vec<Problem>, Failure>> + use<> {
        let rules = |source: &PushSource| {
            let (paths, ignore) = (source.paths.clone(), source.ignore.clone());
            (source.name.clone(), SourceRules { paths, ignore, ..SourceRules::default() })
        };
        let mut all: Vec<(String, SourceRules)> = meant.iter().map(rules).collect();
        if all.is_empty() {
            all.push((FOLDER.into(), SourceRules::default()));
        }
        let (environment, oid, limits) = (self.environment.clone(), commit.oid, limits(meant));
        let checking = tokio::task::spawn_blocking(move || {
            let tree = received(&environment)?.tree(oid, limits)?;
            let mut found: Vec<Problem> = Vec::new();
            for (name, rules) in all {
                let loaded = validate::check(&tree, &name, rules);
                let problems = loaded.problems.into_iter().map(|reported| reported.problem);
                found.extend(problems.filter(|problem| !found.contains(problem)).collect::<Vec<_>>());
            }
            Ok(found)
        });
        async move { checking.await.unwrap_or_else(|_| Err(Failure::plain("checking the manifests panicked"))) }
    }

    /// Tells every problem of the manifests; true when one is an error. What the daemon checked for its plan is not
    /// checked again.
    async fn is_bad(
        &mut self,
        planned: Option<&Planned>,
        commit: &CommitInfo,
        meant: &[PushSource],
    ) -> Result<bool, Failure> {
        if let Some(Ok(answer)) = planned
            && answer.is_checked
            && !answer.is_broken
        {
            answer.messages.iter().for_each(|message| self.out.talk(message.trim_end()));
            return Ok(false);
        }
        let problems = self.check(commit, meant).await?;
        let is_bad = self.is_broken(&problems);
        // What only this host knows to be wrong, such as a provider that is not configured, is mended with the rest.
        if is_bad && let Some(Ok(answer)) = planned {
            let told: BTreeSet<String> = problems.iter().map(|problem| problem.to_string()).collect();
            let is_new = |message: &&String| !told.contains(message.trim_end());
            answer.messages.iter().filter(is_new).for_each(|message| self.out.talk(message.trim_end()));
        }
        Ok(is_bad)
    }

    /// Tells every problem of the manifests; true when one is an error.
    fn is_broken(&mut self, problems: &[Problem]) -> bool {
        if !problems.is_empty() {
            self.out.talk(problems::text(problems).trim_end());
        }
        problems.iter().any(Problem::is_error)
    }

    /// What the daemon has to see to judge signatures; none where no source wants any.
    fn signed(
        &self,
        update: &Update,
        commit: &CommitInfo,
        tracked: &[PushSource],
    ) -> Result<Option<SignedObjects>, Failure> {
        let mut wanting = tracked.iter().filter(|source| source.verifies);
        let (Some(first), Some(pushed)) = (wanting.next(), update.new) else { return Ok(None) };
        // Sources that stand differently: the tip is all that is new to every one of them.
        let in_force =
            first.in_force.as_ref().filter(|one| wanting.all(|s| s.in_force.as_ref() == Some(one)));
        let base = in_force.and_then(|commit| commit.parse::<Oid>().ok());
        let tag = update.reference.strip_prefix("refs/tags/");
        let objects = self.received.objects(base, commit.oid, pushed, tag, JUDGED)?;
        Ok(Some(SignedObjects::of(&objects)))
    }

    /// The daemon's plan, or lines that say why there is none.
    async fn plan(
        &self,
        update: &Update,
        commit: &CommitInfo,
        tree: &CommitTree,
        approve: &[String],
        signed: Option<SignedObjects>,
    ) -> Result<Planned, Failure> {
        let client = match &self.daemon.client {
            Ok(client) => client,
            Err(failure) => return Ok(Err(vec![without_plan(failure, self.options)])),
        };
        if self.daemon.target.sources.is_empty() {
            return Ok(Err(vec![
                "note: no source of the daemon is this repository: nothing is planned or applied".into(),
                "hint: `reconciled init` prints the entry for its configuration".into(),
            ]));
        }
        let base = self.base(tree);
        let is_part = base.is_some();
        let upload = match base {
            Some(upload) => upload,
            None => Upload::of(tree)?,
        };
        let mut ask = PushAsk {
            repository: self.received.place().to_string_lossy().into_owned(),
            reference: update.reference.clone(),
            commit: commit.oid.to_string(),
            upload,
            approve: approve.to_vec(),
            trailers: commit.approves.clone(),
            form: Form { limit: Some(SHOWN), ..Form::default() },
            signed,
        };
        let limit = self.daemon.plan_timeout();
        let mut answer = within(limit, asked(client, &ask)).await;
        // What was in force when it was asked for may be no longer.
        if is_part && matches!(&answer, Err(failure) if !is_unreachable(failure)) {
            ask.upload = Upload::of(tree)?;
            answer = within(limit, asked(client, &ask)).await;
        }
        match answer {
            Ok(answer) => Ok(Ok(answer)),
            Err(failure) if !ask.approve.is_empty() && !is_unreachable(&failure) => Err(failure),
            Err(failure) => Ok(Err(vec![without_plan(&failure, self.options)])),
        }
    }

    /// What the daemon lacks of a tree, if it is known what that is.
    fn base(&self, tree: &CommitTree) -> Option<Upload> {
        let target = &self.daemon.target;
        let name = target.sources.iter().find_map(|source| source.in_force.as_deref());
        let name = name.filter(|_| target.knows_base)?;
        let base = self.received.tree(name.parse().ok()?, limits(&target.sources)).ok()?;
        Upload::upon(tree, &base, name).ok()
    }

    fn show(&mut self, title: &str, answer: &PushAnswer) {
        self.out.talk(title);
        self.out.talk("");
        let options = TextOptions {
            colour: self.options.colour,
            width: Some(WIDTH),
            limit: SHOWN,
            is_push: true,
            ..TextOptions::default()
        };
        self.out.talk_clean(text(&answer.document, &options).trim_end());
    }

    /// What a held plan means for the push.
    fn held(&mut self, answer: &PushAnswer) -> Verdict {
        for digest in &answer.consented {
            self.out.talk(&format!("{} is consented to by a trailer of the commit", short_digest(digest)));
        }
        if answer.held.is_empty() {
            return Verdict::Taken;
        }
        let is_refused = self.daemon.target.on_hold == OnHold::Refuse;
        let (by_option, by_trailer) = (by(answer, Approver::PushOption), by(answer, Approver::Trailer));
        self.wanted.extend(by_option.iter().cloned());
        self.unsaid.extend(by_trailer.iter().cloned());
        if self.options.plan {
            return Verdict::Taken;
        }
        self.out.talk("");
        if !is_refused {
            self.waits(answer, &by_option, &by_trailer);
            return Verdict::Taken;
        }
        let is_of_others = |digest: &&Arc<str>| !by_option.contains(digest) && !by_trailer.contains(digest);
        let of_others: Vec<&Arc<str>> = answer.held.iter().filter(is_of_others).collect();
        let whose = match of_others.len() {
            0 => "",
            all if all == answer.held.len() => ", and not the pusher's",
            _ => ", and not the pusher's alone",
        };
        self.out.talk(&format!("error: refused: what is HELD above needs consent{whose}"));
        for digest in &of_others {
            let command = format!("reconciled approve {digest} --reason \"…\"");
            self.out.talk(&format!("hint: to consent on the daemon's host: {command}"));
        }
        if !of_others.is_empty() {
            self.out.talk("hint: then push again");
        }
        Verdict::Refused
    }

    /// What is held is taken, and waits. Git runs no hook where there is nothing to push, so consent needs a commit of its own.
    fn waits(&mut self, answer: &PushAnswer, by_option: &[Arc<str>], by_trailer: &[Arc<str>]) {
        let domains = &answer.document.domains;
        let is_now = domains.iter().any(|domain| domain.state == State::Held);
        self.out.talk(match is_now {
            true => "what is HELD above waits for consent; the rest is applied",
            false => "what is HELD above needs consent before it goes on; until then nothing of it is done",
        });
        ways(by_option, by_trailer).iter().for_each(|way| self.out.talk(way));
    }
}

/// What of the held plans may be consented to this way.
fn by(answer: &PushAnswer, way: Approver) -> Vec<Arc<str>> {
    let is_open = |digest: &&Arc<str>| answer.ways.get(*digest).is_some_and(|ways| ways.contains(&way));
    answer.held.iter().filter(is_open).cloned().collect()
}

async fn asked(client: &Client, ask: &PushAsk) -> Result<PushAnswer, Failure> {
    client.post("/v1/push/plan", ask).await
}

fn without_plan(failure: &Failure, options: &Options) -> String {
    let approval = if options.approve.is_empty() { "" } else { ", and nothing is approved" };
    format!("note: no plan{approval}: {}", told(failure))
}

/// The widest limits of `sources`.
fn limits(sources: &[PushSource]) -> Limits {
    let default = Limits::default();
    let most =
        |of: fn(&Limits) -> u64, default| sources.iter().map(|s| of(&s.limits)).max().unwrap_or(default);
    Limits { file: most(|l| l.file, default.file), tree: most(|l| l.tree, default.tree), ..default }
}

fn names(sources: &[PushSource]) -> String {
    list(sources.iter().map(|source| source.name.as_str()))
}

/// `` `a`, `b` and `c` ``, for names of sources.
fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match names.split_last() {
        None => "none".into(),
        Some((last, [])) => (*last).into(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_as_people_do() {
        assert_eq!(list([]), "none");
        assert_eq!(list(["a"]), "a");
        assert_eq!(list(["a", "b", "c"]), "a, b and c");
    }
}
