//! A scenario: a small world in lines of text, and what the planner and the guard say of it.
//!
//! ```text
//! role zone|host|cloud|cloud-without-tokens|issuer      policy observe|create-only|upsert-only|sync
//! now SECONDS      window SECONDS      normalizer N     marks none     lists none
//! source NAME label=L prunes=no broken=FILE unassigned=M unselected=M unselectedParts=ID path-changed layers overlaid=FILE,FILE
//!             needs-consent drift=MODE newest=L             (what is offered and not in force)
//!             awaits=S                                      (another source of its repository, which is behind)
//!             unassignedIn=M unselectedIn=M (the scope)      denies=PART,PART (what `allow` of the host keeps from it)
//! manifest NAME source=S file=F document=V after=M,M labels=K:V
//! scope NAME                                            (what follows is in this scope)
//! desired ID CONTENT manifest=M template=T waits=M deletion= drift= adopt= suspend merge ignore=P,P
//! claim ID CONTENT by=ID at=SCOPE                       (desired because of a claim, of that resource)
//! goes ID                                               (differs in values of ours alone, which nobody declares any more)
//! tracked ID CONTENT source=S manifest=M template=T normalizer=N deletion= policy= file= after=M
//!                    merge ours=VALUE pending=SECONDS applied half written=SECONDS
//! observed ID CONTENT owner=ours|system|NAME outputs=JSON news=PRIVATE
//! observation incomplete | only=ID,ID | version=N | absent
//! open OP ID CONTENT started=SECONDS
//! consent ID barred | let-go | adopt=CONTENT from=NAME
//! document MANIFEST NAME (planned from before)          reconfigured MANIFEST NAME (as it came into force)
//! ailing         (the entry of the scope)       aside ID (declared where something else is wrong)
//! exclusive [M]  rule PATTERN     target PATTERN      label K=V      only-source S      ready M      there M      needed M BY   moved ID ADDRESS at=SCOPE
//! suspended all | source=S | provider=P | address=PATTERN | labels=K:V   until=SECONDS except=PATTERN window manual
//!                 heal=protected|all rollback           (what the window lets through)
//! gone-before ID ignored                                (an earlier look found it gone: drift, or ignored)
//! guard maxDeletes=N maxDeletePercent=N maxUpdates=N maxUpdatePercent=N always=WORD,WORD
//! recovering      rolled-back ID                        (after `state init --recover`; a person keeps it at an earlier revision)
//! held                                                  (something of the domain was, when it was last looked at)
//! former ID OLD until=SECONDS  stood-on M BY            (what was replaced, and stays so long; who was not written since)
//! refused-before ID CONTENT reason=WORD                 (as the state remembers it)     tries-again (a person asks for it)
//! word ID WORD                                          (a guard word of the provider)
//! elsewhere ID SCOPE M   settled hidden                 (declared there by now, by M; as it shall be, and not seen)
//! also ID OTHER                                         (who changes the one writes the other on the way)
//! remains ID OTHER                                      (the mark that stands beside the one)
//! leaves-marks                                          (some are of nothing, by whatever name)
//! by-hand ID                                            (only what somebody else changed has it made anew)
//! unread N                                              (declared in scopes of the domain that cannot be read)
//! holder ID      of-scope ID                            (what all others are in; what goes with that)
//! points-at PLACE      was-at PLACE                     (what the entry says of where its scopes are, and what it said)
//! ```

mod answer;
mod row;

use crate::{
    observer::Spoken,
    words::{Line, address, adopt, deletion, drift, hash, key, number, policy},
};
use futures_executor::block_on;
use reconciled_engine::{
    Desired, Drifted, HealthState, ManifestMeta, Pinned, Reach, Row, RowState, SourceState,
    plan::{
        CLAIMS, Elsewhere, EntryPolicy, ScopeInput, ScopePlan, Selection, Shared, foreseen,
        guard::{self, GuardLimits, Unread, Verdict},
        kept, plan, written,
    },
    store::{Ailment, ClaimRow, Condition, Consent, Intent, MovedAway, OpenIntent, ScopeMemory},
    suspension::{Extent, Heals, Passes, StoppedBy, Suspension},
};
use reconciled_provider::{
    ActionId, Address, Claim, Deletion, Drift, Focus, Hash, Lives, ManifestKey, Marking, Observation,
    Observed, Observer, Origin, Owner, Policy, PolicyId, Reference, Resource, ResourceId, Scope, Sealed,
    Spec, Tracked, Version, Want,
};
use reconciled_testkit::{Role, context};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// One scope of a case.
pub(crate) struct Place {
    pub(crate) desired: Vec<Resource>,
    pub(crate) claimed: BTreeSet<ResourceId>,
    goes: BTreeSet<ResourceId>,
    pub(crate) memory: ScopeMemory,
    pub(crate) seen: Observation,
    moved: BTreeMap<ResourceId, Address>,
    elsewhere: BTreeMap<ResourceId, Elsewhere>,
}

/// The world of one scenario.
pub(crate) struct Case {
    pub(crate) observer: Spoken,
    policy: EntryPolicy,
    pub(crate) desired: Desired,
    pub(crate) places: BTreeMap<Scope, Place>,
    selection: Selection,
    suspensions: Vec<Arc<Suspension>>,
    tries_again: bool,
    ready: BTreeSet<ManifestKey>,
    there: BTreeSet<ManifestKey>,
    stood_on: BTreeMap<ManifestKey, ManifestKey>,
    needed: BTreeMap<ManifestKey, ManifestKey>,
    limits: GuardLimits,
    now: Duration,
    recovering: bool,
    has_hold: bool,
    unread: u32,
}

/// What came of a case.
pub(crate) struct Answer {
    pub(crate) plans: Vec<ScopePlan>,
    pub(crate) known: Vec<bool>,
    pub(crate) verdicts: Vec<(Arc<str>, Verdict)>,
    /// On what is stopped, as they will be once nothing is: when that is, and the word.
    pub(crate) foreseen: Vec<(Arc<str>, &'static str, Verdict)>,
}

impl Case {
    /// Reads a case. Lines may come in any order, but for `scope`, which those after it belong to.
    pub(crate) fn read(text: &str) -> Case {
        let lines: Vec<Line> = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .map(|line| line.split_whitespace().collect())
            .filter(|words: &Vec<&str>| !words.is_empty())
            .map(|words| Line { words })
            .collect();
        let role = lines.iter().find(|l| l.at(0) == "role").map_or("zone", |l| l.at(1));
        let (role, entry) = match role {
            "zone" => (Role::Zone, "zone"),
            "host" => (Role::Host, "host"),
            "cloud" => (Role::Cloud { tokens: true }, "cloud"),
            "cloud-without-tokens" => (Role::Cloud { tokens: false }, "cloud"),
            "issuer" => (Role::Issuer, "issuer"),
            _ => panic!("no role: {role}"),
        };
        let mut case = Case {
            observer: Spoken::new(role, entry),
            policy: EntryPolicy::Sync,
            desired: Desired::default(),
            places: BTreeMap::new(),
            selection: Selection::default(),
            suspensions: Vec::new(),
            tries_again: false,
            ready: BTreeSet::new(),
            there: BTreeSet::new(),
            stood_on: BTreeMap::new(),
            needed: BTreeMap::new(),
            limits: GuardLimits::default(),
            now: Duration::from_secs(1000),
            recovering: false,
            has_hold: false,
            unread: 0,
        };
        let mut scope = Scope::new(entry, "s");
        if !lines.iter().any(|l| l.at(0) == "source") {
            case.source(&scope, &Line { words: vec!["source", "infra"] });
        }
        for line in lines.iter().filter(|l| l.at(0) == "manifest") {
            case.manifest(line.source(), line.at(1), line);
        }
        case.place(&scope);
        for line in &lines {
            if line.at(0) == "scope" {
                scope = Scope::new(entry, line.at(1));
                case.place(&scope);
            } else {
                case.line(&scope, line);
            }
        }
        let seen = |place: &mut Place| {
            place.desired.sort_by(|a, b| a.id.cmp(&b.id));
            Arc::make_mut(&mut place.memory.rows).sort_by(|a, b| a.tracked.id.cmp(&b.tracked.id));
            place.seen.resources.sort_by(|a, b| a.id.cmp(&b.id));
        };
        case.places.values_mut().for_each(seen);
        for (scope, place) in &case.places {
            let declared = place.desired.iter().filter(|d| !place.claimed.contains(&d.id));
            case.desired.scopes.insert(scope.clone(), Arc::new(declared.cloned().collect()));
        }
        case
    }

    fn place(&mut self, scope: &Scope) -> &mut Place {
        self.places.entry(scope.clone()).or_insert_with(|| Place {
            desired: Vec::new(),
            claimed: BTreeSet::new(),
            goes: BTreeSet::new(),
            memory: ScopeMemory::default(),
            seen: Observation {
                covered: Focus::All,
                complete: true,
                version: Version::At("7".into()),
                resources: Vec::new(),
            },
            moved: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
        })
    }

    fn line(&mut self, scope: &Scope, line: &Line<'_>) {
        match line.at(0) {
            "role" | "manifest" => {}
            "policy" => self.policy = policy(line.at(1)),
            "now" => self.now = Duration::from_secs(number(line.at(1))),
            "window" => self.observer.info.consistency_window = Duration::from_secs(number(line.at(1))),
            "normalizer" => self.observer.info.normalizer = number(line.at(1)) as u32,
            "marks" => self.observer.info.marking = Marking::InventoryOnly,
            "lists" => self.observer.info.lists = false,
            "refused" => drop(self.observer.refused.insert(line.at(1).into())),
            "source" => self.source(scope, line),
            "desired" => self.declare(scope, line),
            "claim" => {
                let spec = Spec::known(line.at(2).as_bytes().to_vec());
                let resource = self.resource(scope, line.at(1), spec, u32::MAX, PolicyId(0));
                let place = self.place(scope);
                place.claimed.insert(line.at(1).into());
                place.desired.push(resource);
                if let Some(owner) = line.get("by") {
                    let owner_scope = Scope::new(&*scope.provider, line.get("at").unwrap_or("s"));
                    let claim = Claim {
                        key: line.at(1).into(),
                        provider: scope.provider.clone(),
                        kind: "dns-txt".into(),
                        spec: Default::default(),
                        lives: Lives::WhilePending,
                    };
                    let (owner, id) = (owner.into(), line.at(1).into());
                    let claim =
                        ClaimRow { owner_scope, owner, claim, scope: scope.clone(), id, synced: false };
                    place.memory.claims_here.push(claim.clone());
                    self.place(&claim.owner_scope).memory.claims_made.push(claim);
                }
            }
            "tracked" => {
                let row = self.row(scope, line);
                let memory = &mut self.place(scope).memory;
                memory.documents.entry(row.manifest.clone()).or_insert(hash("v1"));
                Arc::make_mut(&mut memory.rows).push(row);
            }
            "reconfigured" => {
                let (key, document) = (key(line.source(), line.at(1)), hash(line.at(2)));
                self.desired.reconfigured.insert(key, document);
            }
            "document" => {
                let (key, document) = (key(line.source(), line.at(1)), hash(line.at(2)));
                self.place(scope).memory.documents.insert(key, document);
            }
            "observed" => {
                let content = line.at(2).replace('|', "\n");
                let mut observed = Observed::new(line.at(1).into(), content.into_bytes());
                observed.owner = match line.get("owner") {
                    None => Owner::Unmarked,
                    Some("ours") => Owner::Ours,
                    Some("system") => Owner::System,
                    Some(other) => Owner::Other(other.into()),
                };
                if let Some(news) = line.get("news") {
                    observed.private = Sealed::new(news);
                    observed.has_news = true;
                }
                if let Some(outputs) = line.get("outputs") {
                    observed.outputs = Sealed::new(outputs);
                }
                self.place(scope).seen.resources.push(observed);
            }
            "observation" => {
                let seen = &mut self.place(scope).seen;
                seen.complete &= !line.has("incomplete");
                if line.get("only").is_some() {
                    seen.covered = Focus::Only(line.list("only").map(ResourceId::from).collect());
                }
                if let Some(version) = line.get("version") {
                    seen.version = Version::At(version.to_string().into());
                }
                if line.has("absent") {
                    seen.version = Version::Absent;
                }
            }
            "open" => {
                let row = self.row(scope, &Line { words: line.words[1..].to_vec() });
                let open = OpenIntent {
                    intent: Intent {
                        action: ActionId(1),
                        op: line.at(1).into(),
                        token: "dns1-1".into(),
                        before: None,
                        after: Some(row.tracked.applied),
                        reason: "commit".into(),
                        row: row.into(),
                        consented: None,
                    },
                    started_at: line.seconds("started").unwrap_or_default(),
                };
                self.place(scope).memory.open.push(open);
            }
            "consent" => {
                let word = match line.get("adopt") {
                    Some(shown) => {
                        Consent::Adopt { observed: hash(shown), from: line.get("from").map(Arc::from) }
                    }
                    None if line.has("let-go") => Consent::LetGo,
                    None => Consent::Barred,
                };
                self.place(scope).memory.consents.push((line.at(1).into(), word));
            }
            "rule" => {
                self.desired.ignored.entry(scope.clone()).or_default().push(line.at(1).into());
            }
            "ailing" => {
                self.desired.ailing.insert(scope.provider.clone());
            }
            "gone-before" => self.gone_before(scope, line),
            "aside" => {
                self.desired.set_aside.entry((scope.clone(), line.at(1).into())).or_default();
            }
            "exclusive" => {
                let by = line.words.get(1).map(|name| self.manifest(line.source(), name, line));
                self.desired.exclusive.insert(scope.clone(), by.into_iter().collect());
            }
            "target" => self.selection.targets.push(line.at(1).parse().unwrap()),
            "only-source" => self.selection.source = Some(line.at(1).into()),
            "label" => {
                let (name, value) = line.at(1).split_once('=').unwrap();
                self.selection.labels.push(format!("{name}={value}").parse().unwrap());
            }
            "elsewhere" => {
                let id = line.at(1);
                let there = Scope::new(&*scope.provider, line.at(2));
                let elsewhere = Elsewhere {
                    scope: there,
                    address: Some(address(line.at(3), Some(id))),
                    is_settled: line.has("settled"),
                    is_hidden: line.has("hidden"),
                };
                self.place(scope).elsewhere.insert(id.into(), elsewhere);
            }
            "ready" => {
                self.ready.insert(key("infra", line.at(1)));
            }
            "there" => {
                self.there.insert(key("infra", line.at(1)));
            }
            "needed" => {
                self.needed.insert(key("infra", line.at(1)), key("infra", line.at(2)));
            }
            "stood-on" => {
                self.stood_on.insert(key("infra", line.at(1)), key("infra", line.at(2)));
            }
            "goes" => drop(self.place(scope).goes.insert(line.at(1).into())),
            "former" => {
                let former = (line.at(2).into(), line.seconds("until"));
                self.observer.former.insert(line.at(1).into(), former);
            }
            "refused-before" => {
                let reason = line.get("reason").unwrap_or("invalid");
                let condition = Condition {
                    id: Some(line.at(1).into()),
                    declared: Some(hash(line.at(2))),
                    ..Condition::stalled(reason, "the remote does not take it")
                };
                self.place(scope).memory.conditions.push(condition);
            }
            "tries-again" => self.tries_again = true,
            "moved" => {
                let (id, place): (ResourceId, _) = (line.at(1).into(), self.place(scope));
                if let Some(before) = line.get("at") {
                    let (scope, was) = (Scope::new(&*scope.provider, before), id.clone());
                    place.memory.moved_away.push(MovedAway { id: id.clone(), scope, was });
                }
                place.moved.insert(id, line.at(2).parse().unwrap());
            }
            "also" => drop(self.observer.also.insert(line.at(1).into(), line.at(2).into())),
            "remains" => drop(self.observer.remains.insert(line.at(1).into(), line.at(2).into())),
            "leaves-marks" => self.observer.leaves_marks = true,
            "by-hand" => drop(self.observer.by_hand.insert(line.at(1).into())),
            "unread" => self.unread = number(line.at(1)) as u32,
            "holder" => self.observer.holder = Some(line.at(1).into()),
            "of-scope" => drop(self.observer.of_scope.insert(line.at(1).into())),
            "rolled-back" => {
                let pinned = Pinned { label: "1a2b3c4".into(), newest: None, after: BTreeMap::new() };
                self.desired.pinned.insert((scope.clone(), line.at(1).into()), pinned);
            }
            "points-at" => self.observer.points_at = Some(line.at(1).into()),
            "was-at" => self.place(scope).memory.place = Some(hash(line.at(1))),
            "guard" => self.guard(line),
            "recovering" => self.recovering = true,
            "held" => self.has_hold = true,
            "suspended" => self.suspend(scope, line),
            "word" => {
                let word = match line.at(2) {
                    "zone-delete" => "zone-delete",
                    "apex-ns" => "apex-ns",
                    other => panic!("no guard word: {other}"),
                };
                self.observer.words.insert(line.at(1).into(), word);
            }
            other => panic!("no such line: {other}"),
        }
    }

    fn gone_before(&mut self, scope: &Scope, line: &Line<'_>) {
        let id: ResourceId = line.at(1).into();
        let memory = &mut self.place(scope).memory;
        if line.has("ignored") {
            memory.ailments.push(Ailment {
                id: Some(id),
                state: HealthState::Missing,
                message: "it is gone from the remote, and that is ignored".into(),
                since: Duration::ZERO,
            });
            return;
        }
        memory.drifts.push(Drifted {
            scope: scope.clone(),
            address: address("web", Some(line.at(1))),
            id,
            manifest: key("infra", "web"),
            mode: Drift::Warn,
            first_seen: Duration::ZERO,
            missing: true,
            fields: Vec::new(),
            action: None,
        });
    }

    fn suspend(&mut self, scope: &Scope, line: &Line<'_>) {
        let labels = line.list("labels").filter_map(|l| l.split_once(':'));
        let extent = match (line.get("source"), line.get("provider"), line.get("address")) {
            (Some(name), ..) => Extent::Source(name.into()),
            (_, Some(name), _) => Extent::Provider(name.into()),
            (.., Some(pattern)) => Extent::Address(pattern.parse().unwrap()),
            _ if line.get("labels").is_some() => Extent::Labels(
                labels.map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(",").parse().unwrap(),
            ),
            _ => Extent::All,
        };
        self.suspensions.push(Arc::new(Suspension {
            id: "4f2a9c".into(),
            extent,
            except: line.list("except").map(|pattern| pattern.parse().unwrap()).collect(),
            reason: "moving the database".into(),
            actor: "ada".into(),
            since: Duration::ZERO,
            until: line.seconds("until"),
            stopped_by: match line.has("window") {
                true => StoppedBy::Window(Passes {
                    heals: match line.get("heal") {
                        None => Heals::Nothing,
                        Some("protected") => Heals::Protected,
                        Some("all") => Heals::Everything,
                        Some(other) => panic!("a window heals no {other}"),
                    },
                    rollback: line.has("rollback"),
                    manual: line.has("manual"),
                }),
                false => StoppedBy::Person,
            },
            scopes: BTreeSet::from([scope.clone()]),
        }));
    }

    fn guard(&mut self, line: &Line<'_>) {
        let set = |limit: &mut u32, key: &str| *limit = line.number(key).map_or(*limit, |n| n as u32);
        set(&mut self.limits.max_deletes, "maxDeletes");
        set(&mut self.limits.max_delete_percent, "maxDeletePercent");
        set(&mut self.limits.max_updates, "maxUpdates");
        set(&mut self.limits.max_update_percent, "maxUpdatePercent");
        if line.get("always").is_some() {
            self.limits.always = line.list("always").map(Arc::from).collect();
        }
    }

    fn source(&mut self, scope: &Scope, line: &Line<'_>) {
        let name = line.at(1);
        let state = SourceState {
            revision: "abc1234def".into(),
            label: line.get("label").unwrap_or("abc1234").into(),
            newest: line.get("newest").map(Arc::from),
            prunes: line.get("prunes") != Some("no"),
            awaits: line.get("awaits").map(Arc::from),
            broken: line.list("broken").map(Arc::from).collect(),
            has_layers: line.has("layers"),
            overlaid: line.list("overlaid").map(Arc::from).collect(),
            unassigned: line
                .list("unassigned")
                .map(|m| match m.split_once('/') {
                    Some((group, m)) => ManifestKey::new(name, group, "Thing", "", m),
                    None => key(name, m),
                })
                .collect(),
            elsewhere: Default::default(),
            unselected: line.list("unselected").map(|m| key(name, m)).collect(),
            unassigned_in: line.list("unassignedIn").map(|m| (key(name, m), scope.clone())).collect(),
            unselected_in: line.list("unselectedIn").map(|m| (key(name, m), scope.clone())).collect(),
            unselected_parts: line.list("unselectedParts").map(|id| (scope.clone(), id.into())).collect(),
            needs_consent: line.has("needs-consent"),
            path_changed: line.has("path-changed"),
            drift: line.get("drift").map(drift),
            reach: match line.list("denies").map(Arc::<str>::from).collect::<Vec<_>>() {
                denied if denied.is_empty() => Reach::default(),
                denied => Reach::within(move |_, address, _| {
                    address.part.as_ref().is_none_or(|part| !denied.contains(part))
                }),
            },
        };
        self.desired.sources.insert(name.into(), state);
    }

    fn manifest(&mut self, source: &str, name: &str, line: &Line<'_>) -> u32 {
        let wanted = key(source, name);
        if let Some(index) = self.desired.manifests.iter().position(|m| m.key == wanted) {
            return index as u32;
        }
        let labels = line.list("labels").filter_map(|l| l.split_once(':'));
        self.desired.manifests.push(ManifestMeta {
            key: wanted,
            address: address(name, None),
            file: line.get("file").unwrap_or("f.yaml").into(),
            line: 1,
            content: hash(line.get("document").unwrap_or("v1")),
            labels: labels.map(|(k, v)| (k.into(), v.into())).collect(),
            after: line.list("after").map(|m| key("infra", m)).collect(),
            moved_from: None,
        });
        self.desired.manifests.len() as u32 - 1
    }

    fn resource(&self, scope: &Scope, id: &str, spec: Spec, manifest: u32, policy: PolicyId) -> Resource {
        let origin = Origin { manifest, line: 1 };
        Resource::new(id.into(), Arc::new(scope.clone()), spec, origin, policy)
    }

    fn declare(&mut self, scope: &Scope, line: &Line<'_>) {
        let manifest = self.manifest(line.source(), line.manifest(), &Line { words: Vec::new() });
        let content = line.at(2);
        let template = hash(line.get("template").unwrap_or(content));
        let waits: Vec<_> = line
            .list("waits")
            .map(|m| Reference { target: key("infra", m), path: "status.id".into() })
            .collect();
        let spec = match waits.is_empty() {
            true => Spec::resolved(content.as_bytes().to_vec(), template),
            false => Spec::waiting(template, waits),
        };
        let policy = self.desired.policies.intern(Policy {
            deletion: line.get("deletion").map(deletion),
            drift: line.get("drift").map(drift),
            adopt: line.get("adopt").map(adopt).unwrap_or_default(),
            suspend: line.has("suspend"),
            merge: line.has("merge"),
            ignore: line.list("ignore").map(Arc::from).collect(),
            ..Policy::default()
        });
        let resource = self.resource(scope, line.at(1), spec, manifest, policy);
        let key = self.desired.manifests[manifest as usize].key.clone();
        let place = self.place(scope);
        // But for what `document` says, nothing changed since the scope was planned last.
        place.memory.documents.entry(key).or_insert(hash("v1"));
        place.desired.push(resource);
    }
}
