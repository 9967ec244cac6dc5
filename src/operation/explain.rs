//! Why something is as it is: what the state remembers of it, and what a look at it shows now.
//!
//! Guarantees: what the state knows is told also where neither source nor remote can be reached; a look writes
//! nothing, and what went wrong with it is part of the answer.

use super::{
    aside::Aside,
    health::{Known, ResourceEntry},
    pattern, pinned,
    plan::{Condition, why_frozen},
    read::{concerns, is_meant as is_meant_here, means, near},
};
use crate::{
    failure::Failure,
    registry::entry_for,
    session::{FROZEN, Session},
    store::{
        ConditionEntry, DriftEntry, HistoryEntry, HistoryFilter, HoldEntry, Parts, PinEntry, Reader,
        SuspensionEntry, UnassignedManifest,
    },
};
use reconciled_engine::{
    Desired, Pin, Store, Suspension,
    plan::{CREATE_UNKNOWN, Selection, Step},
    survey::{SurveyOptions, UNDER_WAY, View},
};
use reconciled_provider::{Address, Hash, ManifestKey, Observer, Pattern, Resource, ResourceId, Scope, Spec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How much history is told.
const RECENT: usize = 5;

/// Why is it so?
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ExplainAsk {
    /// What is meant.
    pub address: String,
}

/// Why it is so.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// What keeps it from being in sync, as the last pass found it.
    pub conditions: Vec<ConditionEntry>,
    /// What waits for consent where it lives.
    pub holds: Vec<HoldEntry>,
    /// Who stopped it.
    pub suspensions: Vec<SuspensionEntry>,
    /// What a person keeps at an earlier revision.
    #[serde(default)]
    pub pins: Vec<PinEntry>,
    /// What is declared, what is there, and what would be done about it, from a look now.
    pub now: Vec<Now>,
    /// What is tracked, or declared and not brought about yet, and how it stands.
    pub tracked: Vec<ResourceEntry>,
    /// What was found changed by somebody else, the newest first.
    #[serde(default)]
    pub drifts: Vec<DriftEntry>,
    /// What happened last, the newest first.
    pub history: Vec<HistoryEntry>,
    /// What its manifest is for and is not configured here.
    #[serde(default)]
    pub elsewhere: Vec<UnassignedManifest>,
    /// What could not be looked at, and why.
    pub messages: Vec<String>,
    /// Where nothing is known: what may be meant.
    #[serde(default)]
    pub near: Option<String>,
}

/// One resource as it is now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Now {
    /// Address for people.
    pub address: String,
    /// `PROVIDER/NAME`.
    pub scope: String,
    /// Who wants it; none when nothing declares it.
    pub wanted: Option<Wanted>,
    /// It was never ours: where it is declared that the scope holds nothing else, and by which it goes.
    #[serde(default)]
    pub foreign_to: Option<String>,
    /// What it shall be, one field a line; empty when that is not known yet.
    pub declared: Vec<String>,
    /// What it is at the remote, one field a line; none when it is not there.
    pub remote: Option<Vec<String>>,
    /// Whether it is there, nobody can tell: what would have made it got no answer, or it was forgotten.
    #[serde(default)]
    pub is_in_doubt: bool,
    /// What would be done, and why: `update (drift)`.
    pub change: Option<String>,
    /// What keeps it from being in sync, as this look found it.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Why nothing is done about it, where no condition says so.
    #[serde(default)]
    pub left: Option<Left>,
}

/// Why what is not in sync is left as it is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Left {
    /// One word for machines: `Frozen`, `Ignored`, `Unread`, or `Undeclared` for what only has to be forgotten.
    pub reason: String,
    /// What is the matter.
    pub message: String,
}

impl Now {
    /// True when it is declared, and is as declared. That nothing is planned does not say so.
    pub fn is_in_sync(&self) -> bool {
        self.change.is_none() && self.conditions.is_empty() && self.left.is_none()
    }
}

/// Who wants something.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wanted {
    /// File in the repository.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Source.
    pub source: String,
    /// Full commit id.
    pub commit: String,
}

impl Explanation {
    /// True when nothing is known of what was asked for.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
            && self.now.is_empty()
            && self.tracked.is_empty()
            && self.pins.is_empty()
            && self.history.is_empty()
            && self.elsewhere.is_empty()
            // What is declared where nobody can look is known.
            && self.messages.is_empty()
    }
}

/// Answers [`ExplainAsk`]. `look` is what a look needs, where there is something to look with; `outside`
/// has what suspends besides the state: the file, windows that are closed; `aside` what is not looked after.
pub async fn explain(
    reader: &Reader,
    look: Option<(&Session, &Desired)>,
    outside: &[Suspension],
    aside: Aside,
    ask: &ExplainAsk,
) -> Result<Explanation, Failure> {
    let meant = pattern(&ask.address)?;
    let mut status = reader.status().await?;
    let aside = aside.with(&status);
    aside.leave_out(&mut status);
    let pins = pinned::meant(reader, look.map(|(_, desired)| desired), &meant).await?;
    let tracked = pinned::rows(reader, &meant, &pins).await?;
    let stands = Known::read(reader, &status, Parts::All, aside).await?;
    stands.complete(&mut status.conditions);
    let mut drifts = reader.drifts(Some(&meant), false).await?;
    drifts.truncate(RECENT);
    let mut scopes: BTreeSet<Scope> = tracked.iter().filter_map(|row| row.scope.parse().ok()).collect();
    let filter = HistoryFilter { address: Some(meant.clone()), ..HistoryFilter::default() };
    let mut history = reader.history(&filter).await?;
    history.truncate(RECENT);
    if let Some((session, desired)) = look {
        scopes.extend(declaring(session, desired, &meant));
        scopes.extend(emptying(desired, &meant));
    }
    // What keeps a whole scope keeps everything in it.
    let of_scope = |c: &ConditionEntry| {
        c.id.is_none() && c.address.is_none() && scopes.iter().any(|scope| scope.to_string() == c.scope)
    };
    status.conditions.retain(|c| concerns(&meant, c, &tracked) || of_scope(c));
    status.holds.retain(|hold| {
        scopes.iter().any(|scope| *hold.domain == scope.to_string() || *hold.domain == *scope.provider)
    });
    let known = reader.suspensions().await.map_err(Failure::Remote)?;
    let suspends = |s: &&Suspension| tracked.iter().any(|row| means(s, row));
    let suspensions = known.iter().chain(outside).filter(suspends).map(SuspensionEntry::from).collect();
    let mut elsewhere = look.map_or(status.elsewhere, |(session, desired)| {
        UnassignedManifest::of(desired, |key| entry_for(&session.config, key))
    });
    elsewhere.retain(|one| is_meant_here(&meant, &one.address));
    let mut answer = Explanation {
        elsewhere,
        conditions: status.conditions,
        pins: pins.iter().map(PinEntry::from).collect(),
        holds: status.holds,
        suspensions,
        tracked: stands.resources(tracked, |address| is_meant_here(&meant, address)),
        drifts,
        history,
        ..Explanation::default()
    };
    let Some((session, desired)) = look.filter(|_| !scopes.is_empty()) else {
        if answer.is_empty() {
            answer.near = near(reader, look.map(|(_, desired)| desired), &ask.address).await?;
        }
        return Ok(answer);
    };
    // A version that stands would spare the very reading that is asked for.
    let options = look_at(&scopes, [meant.clone()].into_iter().chain(pins.iter().map(of_pin)));
    let calls = &session.surveyor.calls;
    let under_way = calls.now();
    let mut survey = session.surveyor.survey(reader, desired, &options).await.map_err(Failure::Remote)?;
    survey.tell_under_way(under_way, calls);
    for (scope, view) in survey.scopes.iter().filter(|(scope, _)| scopes.contains(*scope)) {
        let Some(observer) = session.observer(&scope.provider) else { continue };
        match view {
            Ok(view) => {
                let look = Look { session, scope, view, desired, observer };
                answer.now.extend(look.now(&pins, &meant));
            }
            Err(error) => answer.messages.push(format!("{scope} cannot be looked at: {}", error.chain())),
        }
    }
    if answer.is_empty() {
        answer.near = near(reader, Some(desired), &ask.address).await?;
    }
    Ok(answer)
}

/// How a look is made at what `targets` mean in `scopes`: what is only counted beside it, since its entry is judged whole, is
/// not read for that.
pub(super) fn look_at(scopes: &BTreeSet<Scope>, targets: impl IntoIterator<Item = Pattern>) -> SurveyOptions {
    SurveyOptions {
        selection: Selection { targets: targets.into_iter().collect(), ..Selection::default() },
        refresh: true,
        only: Some(scopes.clone()),
        asked: Some(scopes.clone()),
        ..SurveyOptions::default()
    }
}

/// What is kept at an earlier revision is planned by the address it had there.
fn of_pin(pin: &Pin) -> Pattern {
    Pattern(pin.address.clone())
}

/// The scopes in which something at these addresses is declared.
pub(super) fn declaring(session: &Session, desired: &Desired, meant: &Pattern) -> BTreeSet<Scope> {
    let declares = |scope: &&Scope| {
        let Some(observer) = session.observer(&scope.provider) else { return false };
        desired.in_scope(scope).iter().any(|resource| is_meant(scope, resource, desired, observer, meant))
    };
    desired.scopes.keys().filter(declares).cloned().collect()
}

/// The scopes in which what nobody declares goes by a manifest at these addresses.
fn emptying(desired: &Desired, meant: &Pattern) -> BTreeSet<Scope> {
    let whole = Pattern(meant.0.without_part());
    let is_meant = |scope: &&Scope| {
        desired.exclusive_by(scope).is_some_and(|by| whole.matches(&by.address, by.key.group()))
    };
    desired.exclusive.keys().filter(is_meant).cloned().collect()
}

/// What is declared at an address: where, and how each is called.
pub(super) fn declared(
    session: &Session,
    desired: &Desired,
    meant: &Pattern,
) -> Vec<(Scope, ResourceId, Address)> {
    let mut found = Vec::new();
    for scope in declaring(session, desired, meant) {
        let Some(observer) = session.observer(&scope.provider) else { continue };
        let here = desired.in_scope(&scope).iter();
        let here = here.filter(|resource| is_meant(&scope, resource, desired, observer, meant));
        found.extend(here.map(|r| (scope.clone(), r.id.clone(), address(&scope, r, desired, observer))));
    }
    found
}

fn address(scope: &Scope, resource: &Resource, desired: &Desired, observer: &dyn Observer) -> Address {
    let manifest = desired.manifest(resource.origin);
    Address { part: observer.part(scope, &resource.id), ..manifest.address.clone() }
}

fn is_meant(
    scope: &Scope,
    resource: &Resource,
    desired: &Desired,
    observer: &dyn Observer,
    meant: &Pattern,
) -> bool {
    let part = observer.part(scope, &resource.id);
    desired.known_by(scope, resource).any(|manifest| {
        let address = Address { part: part.clone(), ..manifest.address.clone() };
        meant.matches(&address, manifest.key.group())
    })
}

/// A look at one scope.
struct Look<'a> {
    session: &'a Session,
    scope: &'a Scope,
    view: &'a View,
    desired: &'a Desired,
    observer: &'a dyn Observer,
}

impl Look<'_> {
    /// What is declared in the scope, what is tracked there and declared no longer, and what goes since the scope is exclusive.
    fn now(&self, pins: &[Pin], meant: &Pattern) -> Vec<Now> {
        let Look { scope, view, desired, observer, .. } = *self;
        let declared = desired.in_scope(scope);
        let wanted = declared.iter().filter(|resource| is_meant(scope, resource, desired, observer, meant));
        let mut all: Vec<Now> = wanted
            .map(|resource| Now {
                wanted: Some(self.wanted(resource, pins)),
                declared: match &resource.spec {
                    Spec::Known { bytes, .. } => lines(observer, &resource.id, bytes),
                    Spec::Waiting { .. } => Vec::new(),
                },
                left: self.left(resource),
                ..self.stands(&resource.id, &address(scope, resource, desired, observer))
            })
            .collect();
        let is_declared = |id: &ResourceId| declared.iter().any(|resource| resource.id == *id);
        let rows = view.memory.rows.iter().filter(|row| meant.matches(&row.address, row.manifest.group()));
        all.extend(rows.filter(|row| !is_declared(&row.tracked.id)).map(|row| Now {
            left: self.undeclared(&row.tracked.id, &row.manifest),
            ..self.stands(&row.tracked.id, &row.address)
        }));
        // What is nobody's and goes from an exclusive scope.
        let group = desired.exclusive_by(scope).map_or("", |by| by.key.group());
        let is_stray =
            |step: &&Step| step.work.desired.is_none() && step.work.row.is_none() && step.work.was.is_none();
        let strays = view.plan.steps.iter().filter(is_stray);
        let strays = strays.filter(|step| meant.matches(&step.address, group));
        all.extend(strays.map(|step| Now {
            foreign_to: Some(wants_alone(scope, desired)),
            change: Some(change_of(step)),
            is_in_doubt: false,
            ..self.stands(&step.id, &step.address)
        }));
        all
    }

    /// What the look shows of a resource, whoever wants it.
    fn stands(&self, id: &ResourceId, address: &Address) -> Now {
        let Look { scope, view, observer, .. } = *self;
        // A resource that was not read has a hash and no bytes.
        let seen = view.seen.get(id);
        let read = seen.filter(|seen| !seen.bytes.is_empty() || seen.hash == Hash::of(b""));
        let conditions = view.plan.conditions.iter().filter(|condition| condition.id.as_ref() == Some(id));
        let is_doubt = |reason: &str| [CREATE_UNKNOWN, "Forgotten", UNDER_WAY].contains(&reason);
        Now {
            address: address.to_string(),
            scope: scope.to_string(),
            wanted: None,
            foreign_to: None,
            declared: Vec::new(),
            remote: read.map(|seen| lines(observer, id, &seen.bytes)),
            is_in_doubt: seen.is_none() && conditions.clone().any(|one| is_doubt(&one.reason)),
            change: self.step(id).map(change_of),
            conditions: conditions.map(|one| Condition::of(&scope.to_string().into(), one)).collect(),
            left: None,
        }
    }

    fn step(&self, id: &ResourceId) -> Option<&Step> {
        self.view.plan.steps.iter().find(|step| step.id == *id)
    }

    /// True where the plan says itself what is done about it, or what keeps it.
    fn is_told(&self, id: &ResourceId) -> bool {
        let mut conditions = self.view.plan.conditions.iter();
        self.step(id).is_some() || conditions.any(|condition| condition.id.as_ref() == Some(id))
    }

    /// Who wants a resource.
    fn wanted(&self, resource: &Resource, pins: &[Pin]) -> Wanted {
        let Look { scope, desired, .. } = *self;
        let manifest = desired.manifest(resource.origin);
        let source = desired.sources.get(manifest.key.source());
        let place = desired.place(resource);
        // What is rolled back is wanted by the revision that it is kept at.
        let is_pinned = desired.pinned.contains_key(&(scope.clone(), resource.id.clone()));
        let pin = pins.iter().find(|pin| is_pinned && pin.scope == *scope && pin.id == resource.id);
        let in_force = source.map(|source| source.revision.to_string()).unwrap_or_default();
        Wanted {
            file: place.file.to_string(),
            line: place.line,
            // Of the source that had it then, where another one has it by now.
            source: pin.map_or(&manifest.key, |pin| &pin.manifest).source().to_string(),
            commit: pin.map_or(in_force, |pin| pin.commit.to_string()),
        }
    }

    /// Why nothing is done about what is declared; none where it is in sync.
    fn left(&self, resource: &Resource) -> Option<Left> {
        let (id, View { seen, plan, memory, .. }) = (&resource.id, self.view);
        let is_there = seen.get(id).is_some();
        if self.is_told(id) {
            return None;
        }
        // Another file declares it than the one that did or may, which cannot be read.
        let manifest = self.desired.manifest(resource.origin);
        let row = memory.rows.binary_search_by(|row| row.tracked.id.cmp(id)).map(|index| &memory.rows[index]);
        let frozen = match row {
            Ok(row) => Some(&row.manifest).filter(|_| row.file != manifest.file),
            Err(_) => Some(&manifest.key),
        };
        if let Some(key) = frozen.filter(|key| plan.frozen.contains_key(*key)) {
            return Some(self.frozen(key));
        }
        if plan.left.contains(id) {
            return Some(Left::new(
                "Ignored",
                match is_there {
                    true => "it differs, and the difference is ignored as its manifest or source says",
                    false => "it is gone from the remote, and that is ignored as its manifest or source says",
                },
            ));
        }
        (!is_there && !seen.complete).then(|| Left::new("Unread", UNREAD))
    }

    /// Why what a manifest had here, and declares no longer as far as is known, is left.
    fn undeclared(&self, id: &ResourceId, manifest: &ManifestKey) -> Option<Left> {
        let plan = &self.view.plan;
        if self.is_told(id) {
            return None;
        }
        if plan.lapsed.iter().any(|row| row.tracked.id == *id) {
            let message = "it is gone as it shall be; it is forgotten with the next pass";
            return Some(Left::new("Undeclared", message));
        }
        if !plan.frozen.contains_key(manifest) {
            return Some(Left::new("Unread", UNREAD));
        }
        Some(self.frozen(manifest))
    }

    /// That what a manifest had is left as it is, since it is not known whether it declares it still.
    fn frozen(&self, manifest: &ManifestKey) -> Left {
        let name = manifest.source();
        let why = match self.session.config.sources.iter().any(|source| *source.name == *name) {
            true => why_frozen(manifest, self.desired),
            false => format!("source {name} is not configured"),
        };
        Left::new(FROZEN, &format!("{why}; it is not changed, restored or deleted"))
    }
}

/// What is said of what a look did not come to.
const UNREAD: &str =
    "not all of its scope could be read: nothing is created or deleted on the word of a part";

impl Left {
    fn new(reason: &str, message: &str) -> Left {
        Left { reason: reason.into(), message: message.into() }
    }
}

/// Who declares that a scope holds nothing but what is declared, and where.
fn wants_alone(scope: &Scope, desired: &Desired) -> String {
    let wanting = desired.exclusive.get(scope).map_or(&[][..], Vec::as_slice);
    let manifests = wanting.iter().filter_map(|index| desired.manifests.get(*index as usize));
    let all: Vec<String> =
        manifests.map(|one| format!("{} ({}:{})", one.address, one.file, one.line)).collect();
    all.join(", ")
}

fn change_of(step: &Step) -> String {
    format!("{} ({})", step.change.word(), step.reason)
}

/// Canonical bytes as people read them.
fn lines(observer: &dyn Observer, id: &ResourceId, bytes: &[u8]) -> Vec<String> {
    observer.show(id, bytes).into_iter().map(|(path, value)| format!("{path}: {value}")).collect()
}
