//! From what the engine found to the [`Document`]: a translation, field by field.

use super::{
    blocked::{self, left_alone},
    change::*,
    document::*,
    domain::*,
    former::formers,
    frozen::frozen,
    options::{Details, Options},
    summary::{Summary, Unlisted},
    warnings::{cautions, followers, moves},
};
use crate::{render::problems, text::time};
use reconciled_engine::{
    Desired,
    plan::{self, ScopePlan, Step},
    store,
    survey::{self, Survey, View},
};
use reconciled_provider::{
    Error, FieldChange, Hash, Identity, Observer, ResourceId, Scope, Severity, Shown, Spec,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

impl Document {
    /// The document of `survey`, made from `desired`.
    ///
    /// `show` finds the observer of an entry, which shows canonical bytes as fields; a change of an entry it
    /// does not know has no values.
    pub fn of<'a>(
        survey: &Survey,
        desired: &Desired,
        show: &dyn Fn(&str) -> Option<&'a dyn Observer>,
        options: &Options<'_>,
    ) -> Document {
        let mut document = Document {
            version: FORMAT_VERSION.into(),
            format_version: FORMAT_VERSION.into(),
            ..Document::default()
        };
        document.sources = desired
            .sources
            .iter()
            // One that could not be had is told as a problem.
            .filter(|(_, s)| !s.label.is_empty())
            .map(|(name, s)| Source {
                name: name.clone(),
                revision: s.revision.clone(),
                label: s.label.clone(),
            })
            .collect();
        for (scope, view) in &survey.scopes {
            match view {
                Ok(view) => ScopeBuilder::new(survey, scope, show(&scope.provider), options)
                    .build(view, &mut document),
                Err(error) => document.failures.push(failure(scope, error)),
            }
        }
        let unlisted = document.unlisted.values().map(|unlisted| unlisted.summary);
        document.summary = unlisted.fold(Summary::of(&document.resource_changes), Summary::and);
        document.domains = guard_domains(survey, &document);
        document.warnings = moves(survey, |entry| {
            show(entry).is_some_and(|observer| matches!(observer.info().identity, Identity::Assigned { .. }))
        });
        document.warnings.extend(followers(survey, desired));
        document.warnings.extend(formers(survey, show));
        document.warnings.extend(cautions(survey));
        document.unassigned = unassigned(survey, options);
        document.frozen = frozen(survey, desired, options);
        document.problems = options.problems.iter().map(problem).collect();
        document.state = state(&document);
        document
    }
}

/// What is tracked for entries and sources that are not configured, by scope.
fn unassigned(survey: &Survey, options: &Options<'_>) -> Vec<Unassigned> {
    let of_entry = |(scope, tracked): &(Scope, usize)| Unassigned {
        scope: name(scope),
        tracked: *tracked,
        source: None,
    };
    let mut found: Vec<Unassigned> = survey.unassigned.iter().map(of_entry).collect();
    for (scope, view) in &survey.scopes {
        let Ok(view) = view else { continue };
        let mut of_sources: BTreeMap<&str, usize> = BTreeMap::new();
        for (key, count) in view.plan.frozen.iter().filter(|(key, _)| !options.is_configured(key.source())) {
            *of_sources.entry(key.source()).or_default() += count;
        }
        let of_source = |(source, tracked): (&str, usize)| Unassigned {
            scope: name(scope),
            tracked,
            source: Some(source.into()),
        };
        found.extend(of_sources.into_iter().map(of_source));
    }
    found.sort_by(|a, b| (&a.scope, &a.source).cmp(&(&b.scope, &b.source)));
    found
}

fn name(scope: &Scope) -> Arc<str> {
    scope.to_string().into()
}

/// Translates one scope; what its changes share is made once.
struct ScopeBuilder<'a> {
    observer: Option<&'a dyn Observer>,
    provider: Arc<str>,
    scope: Arc<str>,
    domain: Arc<str>,
    digest: Option<Arc<str>>,
    /// The digest of what is stopped, where that will be held.
    later: Option<Arc<str>>,
    is_held: bool,
    options: &'a Options<'a>,
}

impl<'a> ScopeBuilder<'a> {
    fn new(
        survey: &Survey,
        scope: &Scope,
        observer: Option<&'a dyn Observer>,
        options: &'a Options<'a>,
    ) -> ScopeBuilder<'a> {
        let domain = survey.domain_of(scope);
        let shown = name(scope);
        ScopeBuilder {
            observer,
            provider: scope.provider.clone(),
            domain: domain.map_or_else(|| shown.clone(), |d| d.name.clone()),
            digest: domain.and_then(|d| d.verdict.digest).map(|d| d.to_string().into()),
            later: domain.and_then(|d| d.later()?.verdict.digest).map(|d| d.to_string().into()),
            is_held: domain.is_some_and(survey::Domain::is_held),
            scope: shown,
            options,
        }
    }

    fn build(&self, view: &View, document: &mut Document) {
        let plan = &view.plan;
        let left_alone = left_alone(view);
        // What blocks a step is said by the last condition of its resource.
        let is_refused = |c: &store::Condition| c.declared.is_some();
        let is_told = plan.steps.iter().any(|s| s.blocked.is_some())
            || plan.conditions.iter().any(is_refused)
            || !left_alone.is_empty();
        let told: HashMap<&ResourceId, &store::Condition> = if is_told {
            let all = left_alone.iter().copied().chain(&plan.conditions);
            all.filter_map(|c| Some((c.id.as_ref()?, c))).collect()
        } else {
            HashMap::new()
        };
        let mut reason: Option<(&plan::Reason, Arc<str>)> = None;
        let most = if let Details::Alone(most) = self.options.details { most } else { usize::MAX };
        document.resource_changes.reserve(plan.steps.len().min(most));
        let mut unlisted = Unlisted { domain: self.domain.clone(), ..Unlisted::default() };
        for (index, step) in plan.steps.iter().enumerate() {
            if index >= most && blocked::of(step, told.get(&step.id).copied()).0.is_none() {
                *unlisted.summary.of_actions(actions(&step.change)) += 1;
                unlisted.is_ready |= !self.is_held(step);
                continue;
            }
            // Neighbours mostly share their reason.
            let word = match &reason {
                Some((known, word)) if **known == step.reason => word.clone(),
                _ => step.reason.to_string().into(),
            };
            reason = Some((&step.reason, word.clone()));
            let detailed = self.options.details.have(index);
            document.resource_changes.push(self.change(step, word, &told, detailed));
        }
        if unlisted.summary.total() > 0 {
            document.unlisted.insert(self.scope.clone(), unlisted);
        }
        let told = plan.conditions.iter().chain(&plan.to_come).chain(left_alone);
        document.conditions.extend(told.map(|c| Condition::of(&self.scope, c)));
        document.in_sync += plan.in_sync;
        self.foreign(plan, &mut document.foreign);
    }

    fn change(
        &self,
        step: &Step,
        reason: Arc<str>,
        told: &HashMap<&ResourceId, &store::Condition>,
        detailed: bool,
    ) -> ResourceChange {
        let is_guarded = step.change.writes() && step.is_guarded();
        let is_held = self.is_held(step);
        let told = told.get(&step.id).copied();
        let (blocked, needs_person) = blocked::of(step, told);
        let mut change = Change { actions: actions(&step.change).to_vec(), ..Change::default() };
        change.replace_paths = step.work.delta.replace_paths.iter().map(|path| steps_of(path)).collect();
        let mut fields = Vec::new();
        if detailed {
            self.values(step, &mut change);
            fields = step.fields.iter().map(|change| field(change, &step.work.delta.replace_paths)).collect();
        }
        ResourceChange {
            address: step.address.to_string(),
            previous_address: match &step.change {
                plan::Change::Move { from } => Some(from.to_string()),
                _ => None,
            },
            deposed: (step.change == plan::Change::EndFormer).then(|| step.work.delta.former.join(", ")),
            provider: self.provider.clone(),
            scope: self.scope.clone(),
            id: step.id.0.clone(),
            r#type: step.address.kind.clone(),
            change,
            fields,
            reason,
            state: match &blocked {
                _ if is_held => State::Held,
                Some(_) if needs_person => State::Held,
                Some(_) => State::Waiting,
                None => State::Ready,
            },
            blocked,
            domain: self.domain.clone(),
            digest: match step.is_put_off() {
                true => self.later.clone(),
                false => self.digest.clone().filter(|_| is_guarded),
            },
            file: step.place.as_ref().map(|(file, _)| file.clone()),
            line: step.place.as_ref().map(|(_, line)| *line),
        }
    }

    /// True for what the guard keeps back.
    fn is_held(&self, step: &Step) -> bool {
        self.is_held && step.waits_for_consent()
    }

    /// Both sides of a change, where the provider can show them.
    fn values(&self, step: &Step, change: &mut Change) {
        // What was replaced is told by its name alone: what is declared is another one.
        use plan::Change::{Abandon, EndFormer, Forget, Move};
        if matches!(step.change, Move { .. } | Forget | Abandon | EndFormer) {
            return;
        }
        // A resource that was not read, because its scope's version stood, has a hash and no bytes.
        let seen = step.work.observed.as_ref().filter(|o| !o.bytes.is_empty() || o.hash == Hash::of(b""));
        change.before = seen.and_then(|o| self.show(&step.id, &o.bytes));
        match step.work.desired.as_ref().map(|r| &r.spec) {
            Some(Spec::Known { bytes, .. }) => change.after = self.show(&step.id, bytes),
            Some(spec @ Spec::Waiting { .. }) => {
                change.after =
                    spec.so_far().map_or_else(|| Some(Values::new()), |bytes| self.show(&step.id, bytes));
                let is_planned = step.fields.iter().any(|field| field.after == Shown::Unknown);
                if !is_planned {
                    change.after_unknown.insert("*".into(), true);
                }
            }
            None => {}
        }
        for field in &step.fields {
            if field.before == Shown::Sensitive || field.after == Shown::Sensitive {
                mask(&mut change.before, &mut change.before_sensitive, &field.path);
                mask(&mut change.after, &mut change.after_sensitive, &field.path);
            }
            if field.after == Shown::Unknown {
                if let Some(after) = &mut change.after {
                    after.remove(&field.path);
                }
                change.after_unknown.insert(field.path.clone(), true);
            }
        }
    }

    fn show(&self, id: &ResourceId, bytes: &[u8]) -> Option<Values> {
        let mut values = Values::new();
        for (path, value) in self.observer?.show(id, bytes) {
            // A path that comes twice is a list told one by one: nothing of it may be lost.
            values
                .entry(path)
                .and_modify(|known: &mut String| {
                    known.push_str(", ");
                    known.push_str(&value);
                })
                .or_insert(value);
        }
        Some(values)
    }

    fn foreign(&self, plan: &ScopePlan, foreign: &mut Foreign) {
        foreign.count += plan.foreign_count as usize;
        foreign.ignored += plan.ignored_count as usize;
        if !self.options.show_foreign {
            return;
        }
        let start = foreign.resources.len();
        foreign.resources.extend(plan.foreign.iter().map(|(id, owner)| ForeignResource {
            scope: self.scope.clone(),
            id: id.0.clone(),
            owner: owner.clone(),
        }));
        foreign.resources[start..].sort();
    }
}

impl Condition {
    /// A condition of the engine in `scope`.
    pub fn of(scope: &Arc<str>, condition: &store::Condition) -> Condition {
        Condition {
            scope: scope.clone(),
            id: condition.id.as_ref().map(|id| id.0.clone()),
            address: condition.address.as_ref().map(ToString::to_string),
            kind: condition.kind.into(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            hint: condition.hint.clone(),
            next_try: condition.next_try.map(time::rfc3339),
        }
    }
}

/// True where the path `inner` is below `outer`.
fn within(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with(['.', '[']))
}

/// Puts `(sensitive)` for the field at `path`, for what is in it and for what it is in.
fn mask(side: &mut Option<Values>, marks: &mut BTreeMap<Arc<str>, bool>, path: &Arc<str>) {
    let Some(values) = side else { return };
    let mut found = false;
    for (key, value) in values.iter_mut() {
        if key == path || within(key, path) || within(path, key) {
            *value = SENSITIVE.to_string();
            marks.insert(key.clone(), true);
            found = true;
        }
    }
    if !found {
        values.insert(path.clone(), SENSITIVE.to_string());
        marks.insert(path.clone(), true);
    }
}

fn field(change: &FieldChange, replace_paths: &[Arc<str>]) -> Field {
    let forces = |path: &Arc<str>| change.path == *path || within(&change.path, path);
    let side = |shown: &Shown| match shown {
        Shown::Text(text) => Some(text.clone()),
        Shown::Sensitive => Some(SENSITIVE.to_string()),
        Shown::Unknown | Shown::Absent => None,
    };
    Field {
        path: change.path.clone(),
        before: side(&change.before),
        after: side(&change.after),
        after_unknown: change.after == Shown::Unknown,
        forces_replacement: replace_paths.iter().any(forces),
    }
}

/// `rule[0].port` as the steps `rule`, 0 and `port`.
fn steps_of(path: &str) -> Vec<PathStep> {
    let step = |word: &str| match word.strip_suffix(']').map(str::parse) {
        Some(Ok(index)) => PathStep::Index(index),
        _ => PathStep::Name(word.into()),
    };
    path.split(['.', '[']).filter(|word| !word.is_empty()).map(step).collect()
}

fn actions(change: &plan::Change) -> &'static [Action] {
    match change {
        plan::Change::Create => &[Action::Create],
        plan::Change::Update | plan::Change::Continue => &[Action::Update],
        plan::Change::Replace => &[Action::Delete, Action::Create],
        plan::Change::Delete | plan::Change::EndFormer => &[Action::Delete],
        plan::Change::Adopt => &[Action::Adopt],
        plan::Change::Move { .. } => &[Action::Move],
        plan::Change::Forget | plan::Change::Abandon => &[Action::Forget],
    }
}

fn failure(scope: &Scope, error: &Error) -> Failure {
    Failure {
        scope: name(scope),
        kind: error.kind.word().into(),
        message: error.chain(),
        hint: error.hint.clone(),
    }
}

fn problem(problem: &reconciled_provider::Problem) -> Problem {
    let (line, column) = problems::position(problem);
    Problem {
        severity: match problem.severity {
            Severity::Error => "error".into(),
            Severity::Warning => "warning".into(),
        },
        file: problem.place.as_ref().map(|p| p.file.clone()),
        line,
        column,
        message: problem.message.clone(),
        hint: problem.hint.clone(),
    }
}

fn guard_domains(survey: &Survey, document: &Document) -> Vec<GuardDomain> {
    let mut waiting: HashMap<&str, bool> = HashMap::new();
    for change in &document.resource_changes {
        *waiting.entry(&*change.domain).or_insert(true) &= change.state != State::Ready;
    }
    for unlisted in document.unlisted.values() {
        *waiting.entry(&*unlisted.domain).or_insert(true) &= !unlisted.is_ready;
    }
    let failed: HashSet<&str> = document.failures.iter().map(|f| &*f.scope).collect();
    survey
        .domains
        .values()
        .map(|domain| {
            let scopes: Vec<Arc<str>> = domain.scopes.iter().map(name).collect();
            let state = if domain.is_held() {
                State::Held
            } else if scopes.iter().any(|s| failed.contains(&**s)) {
                State::Failed
            } else if waiting.get(&*domain.name).is_some_and(|all| *all) {
                State::Waiting
            } else {
                State::Ready
            };
            guard_domain(domain, scopes, state)
        })
        .collect()
}

fn guard_domain(domain: &survey::Domain, scopes: Vec<Arc<str>>, state: State) -> GuardDomain {
    GuardDomain {
        name: domain.name.clone(),
        scopes,
        digest: domain.verdict.digest.map(|d| d.to_string().into()),
        state,
        reasons: domain.verdict.reasons.clone(),
        counts: counts(&domain.verdict.counts),
        approval: domain.approval.as_ref().map(approval),
        trailers: false,
        recorded: false,
        foreseen: domain.later().and_then(foreseen),
    }
}

fn foreseen(later: &survey::Foreseen) -> Option<Foreseen> {
    Some(Foreseen {
        once: later.once.into(),
        digest: later.verdict.digest?.to_string().into(),
        reasons: later.verdict.reasons.clone(),
        counts: counts(&later.verdict.counts),
        approval: later.approval.as_ref().map(approval),
        recorded: false,
    })
}

fn counts(counts: &plan::guard::Counts) -> Counts {
    let [create, update, replace, delete] = *counts;
    Counts { create, update, replace, delete }
}

fn approval(given: &store::Approval) -> Approval {
    Approval { actor: given.actor.clone(), reason: given.reason.clone(), at: time::rfc3339(given.at) }
}

/// The worst of what is in it: failed, then what needs a person, then what needs time.
fn state(document: &Document) -> State {
    let conditions = document.conditions.iter().map(|c| match c.kind {
        ConditionKind::Stalled | ConditionKind::Held => State::Held,
        ConditionKind::Waiting => State::Waiting,
        ConditionKind::Suspended => State::Ready,
    });
    let domains = document.domains.iter().map(|d| d.state);
    let broken = !document.failures.is_empty() || document.problems.iter().any(|p| &*p.severity == "error");
    let failed = broken.then_some(State::Failed);
    conditions.chain(domains).chain(failed).max().unwrap_or_default()
}
