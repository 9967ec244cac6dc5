//! A push: what it would change if it were taken, and consent to it.
//!
//! A hook asks three things: which sources follow this repository ([`PushTarget`]), what would a tree change
//! ([`push`]), and how does it go ([`PushFollow`]). It may run as anybody, so it says only what it was given; who
//! asks is what the kernel says of the peer.
//!
//! Guarantees: consent of a push is bound to the plan that was made before it was taken, and is put down only once the
//! repository has it: a push that is only planned, refused by whomever, or never made, has consented to nothing. Whether it counts is
//! asked both times.

mod target;

use target::at;
pub(crate) use target::is_line;
pub use target::{PushSource, PushTarget, PushTargetAsk};

use super::{
    Form, Upload,
    approve::{FEWEST, consent},
    plan::{Document, Insisted, document_from, survey_from},
};
use crate::{
    config::{Approver, Config, SourceConfig},
    consent::{Barred, Concerned, barring},
    failure::{self, Failure},
    session::{self, Session},
    source::{AmendedTree, Limits, Oid, RawObjects, SourceError, Tree},
    store::{Db, Reader},
    text::short_commit,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use reconciled_engine::{
    Desired, Store,
    store::{Approval, Hold},
    survey::{Domain, Survey, Surveyor, Wanted},
};
use reconciled_provider::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

/// What the audit trail has as the reason of such consent.
const WAY: &str = "push option";

/// What a plan says of consent that a trailer gives once its commit comes into force.
const TRAILER: &str = "trailer";

/// What would this tree change?
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PushAsk {
    /// Path of the repository, without links.
    pub repository: String,
    /// The ref that is pushed to; where no source follows it, the plan is as if they did.
    pub reference: String,
    /// Full id of the pushed commit.
    pub commit: String,
    /// Its files.
    pub upload: Upload,
    /// Digests of held plans that the pusher consents to, or their first six digits or more. The plan shows them as
    /// approved; they are once the push was taken.
    #[serde(default)]
    pub approve: Vec<String>,
    /// What the trailers of the commit approve.
    #[serde(default)]
    pub trailers: Vec<String>,
    /// In which form.
    #[serde(default)]
    pub form: Form,
    /// What of it may be signed, where a source wants that.
    #[serde(default)]
    pub signed: Option<SignedObjects>,
}

/// Commits and the tag of a push as Git stores them, in base64.
///
/// They come from whoever pushes, so the answer about them is a courtesy: what is fetched is judged again.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignedObjects {
    /// The annotated tag and its name.
    #[serde(default)]
    pub tag: Option<(String, String)>,
    /// Names and contents, the oldest first and the pushed one last.
    pub commits: Vec<(String, String)>,
}

impl SignedObjects {
    /// For sending.
    pub fn of(raw: &RawObjects) -> SignedObjects {
        let commit = |(oid, raw): &(Oid, Vec<u8>)| (oid.to_string(), STANDARD.encode(raw));
        SignedObjects {
            tag: raw.tag.as_ref().map(|(name, raw)| (name.clone(), STANDARD.encode(raw))),
            commits: raw.commits.iter().map(commit).collect(),
        }
    }

    fn raw(&self) -> Result<RawObjects, Failure> {
        let bytes = |text: &String| {
            STANDARD.decode(text).map_err(|error| Failure::plain(format!("a commit is no base64: {error}")))
        };
        let commit = |(oid, raw): &(String, String)| Ok((oid.parse()?, bytes(raw)?));
        Ok(RawObjects {
            tag: self
                .tag
                .as_ref()
                .map(|(name, raw)| Ok::<_, Failure>((name.clone(), bytes(raw)?)))
                .transpose()?,
            commits: self.commits.iter().map(commit).collect::<Result<_, Failure>>()?,
        })
    }
}

/// What it would change.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PushAnswer {
    /// The plan.
    pub document: Document,
    /// What is wrong with the manifests, for people.
    pub messages: Vec<String>,
    /// Some of it is an error of what was pushed.
    pub is_broken: bool,
    /// Every manifest was checked, and not only those that concern this host.
    #[serde(default)]
    pub is_checked: bool,
    /// Which of the given digests were held, and are consented to once the push was taken.
    #[serde(default)]
    pub approved: Vec<String>,
    /// Digests that this push would have held, and that were not held before.
    pub held: Vec<Arc<str>>,
    /// By which ways consent to each of them counts.
    #[serde(default)]
    pub ways: BTreeMap<Arc<str>, Vec<Approver>>,
    /// What it or an earlier one would have held too, and its trailers consent to: that counts once it comes into force.
    #[serde(default)]
    pub consented: Vec<Arc<str>>,
    /// Why it would not come into force: whose signature is missing, and what to do.
    #[serde(default)]
    pub unverified: Vec<(String, String)>,
}

/// How does it go? Answered by the lines of a sync.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PushFollow {
    /// Path of the repository, without links.
    pub repository: String,
    /// The source to follow.
    pub source: String,
    /// The ref that was pushed to.
    pub reference: String,
    /// Full id of the commit it is at now.
    pub commit: String,
    /// Follow for so many milliseconds.
    pub wait: Option<u64>,
    /// Consent to the rewind that the push is.
    #[serde(default)]
    pub accept_rewind: bool,
    /// What the pusher consents to, as it was said for the plan of the same push.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approve: Vec<String>,
    /// Who the pusher is, as the pusher's side says.
    pub claimed: Option<String>,
    /// All that the same push moves, where that is more than this one. Each is asked about beside the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<PushMove>,
}

/// A source, and to where a push moves it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PushMove {
    /// Its name.
    pub source: String,
    /// The ref that was pushed to.
    pub reference: String,
    /// Full id of the commit it is at now.
    pub commit: String,
}

/// A push that was taken, for the audit trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The ref.
    pub reference: String,
    /// Full commit id.
    pub commit: String,
    /// The user, as the kernel says.
    pub actor: String,
    /// Who it was, as the pusher's side says.
    pub claimed: Option<String>,
}

/// The sources that a push to `reference` of `repository` may move.
pub(crate) fn moved(config: &Config, repository: &str, reference: &str) -> Vec<SourceConfig> {
    let follows = |source: &SourceConfig| {
        session::reference(&source.reference).is_ok_and(|followed| followed.follows(reference))
    };
    let mut sources = at(config, Path::new(repository));
    sources.retain(follows);
    sources
}

/// The one of them that `ask` is about.
///
/// Errors: no source of this name follows it.
pub(crate) fn followed(config: &Config, ask: &PushFollow) -> Result<SourceConfig, Failure> {
    let mut sources = moved(config, &ask.repository, &ask.reference).into_iter();
    sources.find(|source| *source.name == *ask.source).ok_or_else(|| {
        Failure::plain(format!("no source `{}` follows {} of {}", ask.source, ask.reference, ask.repository))
    })
}

/// Consent of a push to one held plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// As the pusher wrote it.
    pub text: String,
    /// What it is to.
    pub hold: Hold,
    /// The sources that the plan was about when it was made.
    pub about: BTreeSet<Arc<str>>,
}

/// Answers [`PushAsk`], compared with what is in force and what a person `insisted` on there, and says to what the pusher consents if the
/// push is taken: see [`take`]. Of `unseen` scopes no pass has said yet what is held in them. Writes nothing.
///
/// Errors: no source is at the repository; consent to a plan of other sources, or where push options may not consent.
pub async fn push(
    session: &Session,
    reader: &Reader,
    insisted: Insisted<'_>,
    unseen: &BTreeSet<Scope>,
    ask: &PushAsk,
    actor: &str,
    now: Duration,
) -> Result<(PushAnswer, Vec<Given>), Failure> {
    let Surveyor { hurry, cx, .. } = &session.surveyor;
    let _rush = hurry.rush(&cx.clock);
    let (config, in_force) = (&session.config, insisted.in_force);
    let sources = at(config, Path::new(&ask.repository));
    if sources.is_empty() {
        return Err(Failure::hinted(
            format!("no source of this daemon is at {}", ask.repository),
            "add it under `sources:`; `reconciled init` prints the entry",
        ));
    }
    let tracked = moved(config, &ask.repository, &ask.reference);
    let by: Vec<&str> = tracked.iter().map(|source| &*source.name).collect();
    let meant = if tracked.is_empty() { &sources } else { &tracked };
    let most = |of: fn(Limits) -> u64| meant.iter().map(|s| of(session::tree_limits(s))).max().unwrap_or(0);
    let limits = Limits { file: most(|l| l.file), tree: most(|l| l.tree), ..Limits::default() };
    let tree = sent(session, reader, &sources, &ask.upload, limits).await?;
    let before = reader.holds().await?;
    let consents = !ask.approve.is_empty() || !ask.trailers.is_empty();
    // Consent may be to what an earlier commit had held, where this one changes nothing.
    let held = match consents {
        true => &held_scopes(&before, in_force, &Concerned::of(reader, &[in_force]).await?, &by) | unseen,
        false => BTreeSet::new(),
    };
    let mut snapshots = session.as_pushed(meant, &ask.commit, &tree, reader).await?;
    let pushed = meant.iter().map(|source| source.name.clone()).collect();
    session::await_alike(config, in_force, &pushed, &mut snapshots);
    let (outlook, mut survey) = survey_from(session, reader, snapshots, insisted, &held).await?;
    let is_held = survey.domains.values().any(|domain| domain.hold().is_some());
    let concerned = match consents || is_held {
        true => Concerned::of(reader, &[in_force, &outlook.desired]).await?,
        false => Concerned::default(),
    };
    let unverified = unverified(&tracked, ask)?;
    let is_broken = meant.iter().any(|source| outlook.broken.contains(&source.name));
    let counts = |domain: &str, way: Approver| concerned.counts(&config.sources, domain, way, &by);
    // Nobody consents to what does not come into force.
    let (approved, given, consented) = match unverified.is_empty() && !is_broken {
        true => {
            let option = |domain: &str| {
                counts(domain, Approver::PushOption)?;
                Ok(concerned.about(domain).into_iter().map(Arc::from).collect())
            };
            let (approved, given) = lay_over(&mut survey, &tracked, option, ask, actor, now)?;
            let trailer = |domain: &str| counts(domain, Approver::Trailer).is_ok();
            (approved, given, lay_trailers_over(&mut survey, trailer, ask, now))
        }
        false => (ask.approve.clone(), Vec::new(), Vec::new()),
    };
    let document = document_from(session, reader, survey, &outlook, in_force, &ask.form).await?;
    let is_new = |digest: &Arc<str>| before.iter().all(|hold| hold.digest.to_string() != **digest);
    let (mut held, mut ways) = (Vec::new(), BTreeMap::new());
    for domain in &document.domains {
        for digest in domain.wanted().filter(|digest| is_new(digest)) {
            held.push(digest.clone());
            ways.insert(digest.clone(), concerned.ways(&config.sources, &domain.name, &by));
        }
    }
    // Nothing is said of sources that are none of the pusher's business, and of two that read the same tree once.
    let mut messages: Vec<String> = Vec::new();
    for message in meant.iter().flat_map(|source| outlook.messages_of(&source.name)) {
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    let answer = PushAnswer {
        messages,
        is_broken,
        is_checked: meant.iter().all(|source| !outlook.unchecked.contains(&source.name)),
        approved,
        held,
        ways,
        consented,
        unverified,
        document,
    };
    Ok((answer, given))
}

/// All files of a push.
async fn sent(
    session: &Session,
    reader: &Reader,
    sources: &[SourceConfig],
    upload: &Upload,
    limits: Limits,
) -> Result<Arc<dyn Tree>, Failure> {
    let sent = upload.tree(limits)?;
    let (files, same) = (upload.files.len(), upload.same.len());
    tracing::debug!(files, same, "a push was sent");
    let Some(base) = &upload.base else { return Ok(Arc::new(sent)) };
    for source in sources {
        // Any other commit may hold what nobody here is to see.
        if reader.in_force(&source.name).await?.is_some_and(|revision| *revision.commit == **base) {
            let base = session.tree_at(source, base).await?;
            return Ok(Arc::new(AmendedTree::new(base, &upload.same, sent, limits)?));
        }
    }
    Err(Failure::plain(format!("{base} is not in force")))
}

/// Puts down what `actor` consented to with a push that was taken. Returns what counts no longer: the guard domain, and the
/// source that lets no push consent.
///
/// `sources` may be configured otherwise than when the plan was made, and another one may have come to what it is about
/// since: each that is, or was, has to list the way now. Others that the push moves have no say in it.
pub(crate) async fn take(
    db: &Db,
    sources: &[SourceConfig],
    in_force: &Desired,
    given: &[Given],
    actor: &str,
    now: Duration,
) -> Result<Vec<(Arc<str>, Arc<str>)>, Failure> {
    let (mut writes, mut barred) = (Vec::new(), Vec::new());
    if given.is_empty() {
        return Ok(barred);
    }
    let concerned = Concerned::of(db.reader(), &[in_force]).await?;
    for Given { hold, about, .. } in given {
        let mut about: BTreeSet<&str> = about.iter().map(|name| &**name).collect();
        about.extend(concerned.about(&hold.domain));
        let renamed = |source: &&SourceConfig| source.was.as_deref().is_some_and(|was| about.contains(was));
        let renamed: Vec<&str> = sources.iter().filter(renamed).map(|source| &*source.name).collect();
        about.extend(renamed);
        if let Some(source) = barring(sources, Some(&about), Approver::PushOption) {
            barred.push((hold.domain.clone(), source.name.clone()));
            continue;
        }
        // Given meanwhile and not used yet: it stands.
        if db.approval(hold.digest).await?.is_none() {
            writes.extend(consent(hold, WAY, actor, now));
        }
    }
    if !writes.is_empty() {
        db.commit(writes).await?;
    }
    Ok(barred)
}

/// The scopes of guard domains in which something is held that sources `by` have to do with.
fn held_scopes(holds: &[Hold], in_force: &Desired, concerned: &Concerned, by: &[&str]) -> BTreeSet<Scope> {
    let is_theirs = |domain: &str| {
        let about = concerned.about(domain);
        by.iter().any(|source| about.contains(source))
    };
    let domains: BTreeSet<&str> = holds.iter().map(|hold| &*hold.domain).collect();
    let domains: BTreeSet<&str> = domains.into_iter().filter(|domain| is_theirs(domain)).collect();
    let is_held =
        |scope: &&Scope| domains.contains(&*scope.provider) || domains.contains(&*scope.to_string());
    let of_itself = domains.iter().filter_map(|domain| domain.parse().ok());
    in_force.scopes.keys().filter(is_held).cloned().chain(of_itself).collect()
}

/// What each source that wants signatures would say about the push.
fn unverified(tracked: &[SourceConfig], ask: &PushAsk) -> Result<Vec<(String, String)>, Failure> {
    let Some(signed) = &ask.signed else {
        // Who shows nothing has nothing that is signed.
        let wanting = tracked.iter().filter(|source| source.verify.is_some());
        let said = |source: &SourceConfig| {
            let error =
                format!("source {} wants signatures, and none of this push was shown to it", source.name);
            (error, "push again: the hook asks what is wanted each time".to_owned())
        };
        return Ok(wanting.map(said).collect());
    };
    let raw = signed.raw()?;
    let judge = |source: &SourceConfig| session::verify(source)?.judge(&source.name, &raw).err();
    let said = |error: SourceError| (failure::chain(&error), error.hint());
    Ok(tracked.iter().filter_map(judge).map(said).collect())
}

/// Has `survey` show as approved what the pusher consents to: which of the given digests were held, and what of that is
/// consented to newly. `counts` says whether a push option may consent to a plan of a domain, and which sources that is about.
fn lay_over<'s>(
    survey: &mut Survey,
    tracked: &[SourceConfig],
    counts: impl Fn(&str) -> Result<BTreeSet<Arc<str>>, Barred<'s>>,
    ask: &PushAsk,
    actor: &str,
    now: Duration,
) -> Result<(Vec<String>, Vec<Given>), Failure> {
    let (mut approved, mut given) = (Vec::new(), Vec::new());
    if ask.approve.is_empty() {
        return Ok((approved, given));
    }
    if tracked.is_empty() {
        return Err(Failure::plain(format!(
            "no source follows {}: there is nothing to approve",
            ask.reference
        )));
    }
    let barred = |source: &SourceConfig| {
        let is_pushed = tracked.iter().any(|tracked| tracked.name == source.name);
        let about = if is_pushed { "" } else { ", which that plan is about too," };
        Failure::hinted(
            format!("source {}{about} does not let a push approve", source.name),
            "ask somebody who may use the daemon, or allow it in its configuration: approve: [push-option]",
        )
    };
    for text in &ask.approve {
        // One push may move several sources: another plan of it may ask for this.
        let Some(Wanted { hold, approval }) = find(survey, text)? else { continue };
        let about = match counts(&hold.domain) {
            Ok(about) => about,
            Err(Barred::By(source)) => return Err(barred(source)),
            Err(Barred::Elsewhere) => continue,
        };
        approved.push(text.clone());
        if approval.is_some() {
            continue;
        }
        let digest = hold.digest;
        let given_now = Approval { digest, reason: WAY.into(), actor: actor.into(), at: now, used_at: None };
        *approval = Some(given_now);
        given.push(Given { text: text.clone(), hold, about });
    }
    Ok((approved, given))
}

/// Has `survey` show as approved what the trailers of the pushed commit consent to, and returns the digests. `counts` says
/// whether a trailer of it may consent to a plan of a domain.
fn lay_trailers_over(
    survey: &mut Survey,
    counts: impl Fn(&str) -> bool,
    ask: &PushAsk,
    now: Duration,
) -> Vec<Arc<str>> {
    let mut consented = Vec::new();
    let label: Arc<str> = short_commit(&ask.commit).into();
    let wanted = survey.domains.values_mut().flat_map(Domain::wanted);
    for Wanted { hold, approval } in wanted.filter(|wanted| wanted.approval.is_none()) {
        let digest = hold.digest;
        let text = digest.to_string();
        if ask.trailers.iter().any(|given| given.eq_ignore_ascii_case(&text)) && counts(&hold.domain) {
            let (reason, actor) = (TRAILER.into(), label.clone());
            *approval = Some(Approval { digest, reason, actor, at: now, used_at: None });
            consented.push(text.into());
        }
    }
    consented
}

/// What is held, or will be, of which `text` begins the digest.
fn find<'a>(survey: &'a mut Survey, text: &str) -> Result<Option<Wanted<'a>>, Failure> {
    let text = text.to_lowercase();
    if text.len() < FEWEST {
        return Err(Failure::plain(format!("`{text}` is too short: write at least {FEWEST} digits")));
    }
    let wanted = survey.domains.values_mut().flat_map(Domain::wanted);
    let mut meant = wanted.filter(|wanted| wanted.hold.digest.to_string().starts_with(&text));
    match (meant.next(), meant.next()) {
        (wanted, None) => Ok(wanted),
        _ => Err(Failure::hinted(format!("`{text}` means several held plans"), "write more digits")),
    }
}
