//! Changes that may not be what was meant: data in the document, so that every form and reader has them.

use super::document::Warning;
use reconciled_engine::{
    Desired, ManifestMeta,
    plan::{Change, Reason, Step},
    survey::Survey,
};
use reconciled_provider::{Address, Hash, ManifestKey, Scope, Whole};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Most warnings of one kind that are listed.
const WARNINGS: usize = 20;

/// Changes that may have been meant as a move. `assigns` says of an entry whether its remote assigns identity.
pub(super) fn moves(survey: &Survey, assigns: impl Fn(&str) -> bool) -> Vec<Warning> {
    let mut warnings = possible_moves(survey, &assigns);
    warnings.extend(renames(survey, &assigns));
    warnings
}

/// Deletes and creates of equal declarations within one entry: perhaps a rename that forgot `moved-from`. Only where the
/// remote assigns identity: elsewhere another name is another resource, and nothing can be moved. What was seen is no measure: it has what the remote made up.
///
/// Only what one delete and one create share says anything: hundreds of records point to one address.
fn possible_moves(survey: &Survey, assigns: impl Fn(&str) -> bool) -> Vec<Warning> {
    // None: more than one of them.
    let mut gone: HashMap<(&str, Hash), Option<&Step>> = HashMap::new();
    for (scope, step) in committed(survey, Change::Delete).filter(|(scope, _)| assigns(&scope.provider)) {
        let Some(hash) = step.work.was.as_ref().map(|row| row.template) else { continue };
        gone.entry((&*scope.provider, hash)).and_modify(|one| *one = None).or_insert(Some(step));
    }
    if gone.is_empty() {
        return Vec::new();
    }
    let mut made: HashMap<(&str, Hash), Option<&Step>> = HashMap::new();
    for (scope, step) in committed(survey, Change::Create) {
        let Some(hash) = step.after else { continue };
        let key = (&*scope.provider, hash);
        if gone.contains_key(&key) {
            made.entry(key).and_modify(|one| *one = None).or_insert(Some(step));
        }
    }
    let mut pairs: Vec<(String, String)> = made
        .iter()
        .filter_map(|(key, create)| Some((gone.get(key).copied()??, (*create)?)))
        .map(|(delete, create)| (delete.address.to_string(), create.address.to_string()))
        .collect();
    pairs.sort();
    listed(pairs, |from, to| {
        format!("if so, annotate the manifest of {to} with reconciled/moved-from: {from}")
    })
}

/// Most manifests of an entry that are deleted at once and looked at for a rename.
const RENAMED: usize = 100;

/// Manifests that are another one under another name, where the names of their resources come from it: nothing can be
/// moved, so what runs under the old name goes, and who only meant the name should know.
fn renames(survey: &Survey, assigns: impl Fn(&str) -> bool) -> Vec<Warning> {
    let by_manifest = |change| {
        let mut all: BTreeMap<(&Scope, Address), BTreeMap<&str, &Step>> = BTreeMap::new();
        for (scope, step) in committed(survey, change).filter(|(scope, _)| !assigns(&scope.provider)) {
            let manifest = step.address.without_part();
            all.entry((scope, manifest)).or_default().insert(&step.id.0, step);
        }
        all
    };
    let gone = by_manifest(Change::Delete);
    if gone.is_empty() || gone.len() > RENAMED {
        return Vec::new();
    }
    let mut pairs = Vec::new();
    for ((scope, to), made) in by_manifest(Change::Create) {
        let is_renamed = |((of, from), gone): &(&(&Scope, Address), &BTreeMap<&str, &Step>)| {
            let is_like = *of == scope && Whole { name: to.name.clone(), ..Whole::clone(from) } == *to.whole;
            is_like && gone.len() == made.len() && made.values().all(|step| is_same(step, gone, from, &to))
        };
        let from = gone.iter().find(is_renamed).map(|((_, from), _)| from.to_string());
        pairs.extend(from.map(|from| (from, to.to_string())));
    }
    listed(pairs, |from, to| {
        format!(
            "the name says which one it is, so {from} goes and {to} is made; keep the name where that is not meant"
        )
    })
}

/// True when one of `gone` is what this step makes, but for the name of the manifest.
fn is_same(step: &Step, gone: &BTreeMap<&str, &Step>, from: &Address, to: &Address) -> bool {
    let was = step.id.0.replace(&*to.name, &from.name);
    let row = gone.get(&*was).filter(|_| *was != *step.id.0).and_then(|gone| gone.work.was.as_ref());
    let Some(row) = row else { return false };
    // What is made of a manifest may name it.
    let declared = step.work.desired.as_ref().and_then(|desired| desired.spec.bytes());
    let declared = declared.and_then(|bytes| std::str::from_utf8(bytes).ok());
    let under_the_old_name = declared.map(|text| Hash::of(text.replace(&*to.name, &from.name).as_bytes()));
    [step.after, under_the_old_name].contains(&Some(row.template))
}

/// The first of these pairs of a delete and a create, and how many more there are.
fn listed(pairs: Vec<(String, String)>, hint: impl Fn(&str, &str) -> String) -> Vec<Warning> {
    let rest = pairs.len().saturating_sub(WARNINGS);
    let possible_move = |(from, to): (String, String)| Warning {
        reason: "PossibleMove".into(),
        message: format!("delete {from} + create {to} with equal spec: meant as a move?"),
        hint: Some(hint(&from, &to)),
        addresses: vec![from, to],
    };
    let mut warnings: Vec<Warning> = pairs.into_iter().take(WARNINGS).map(possible_move).collect();
    if rest > 0 {
        warnings.push(Warning {
            reason: "PossibleMove".into(),
            message: format!("{rest} more pairs of a delete and a create with equal spec"),
            hint: None,
            addresses: Vec::new(),
        });
    }
    warnings
}

/// The steps of one kind that a commit asks for, with their scopes.
fn committed(survey: &Survey, change: Change) -> impl Iterator<Item = (&Scope, &Step)> {
    let views = survey.scopes.iter().filter_map(|(scope, view)| Some((scope, view.as_ref().ok()?)));
    let steps = views.flat_map(|(scope, view)| view.plan.steps.iter().map(move |step| (scope, step)));
    steps.filter(move |(_, s)| s.change == change && matches!(s.reason, Reason::Commit(_)))
}

/// What is made anew, or changed in what others refer to, puts out something else, and who refers to it is planned only then:
/// that it looks in sync until then must not be taken for the whole of a change, nor what it shows of the outputs of now for what is
/// written. One warning of each kind for each of them.
pub(super) fn followers(survey: &Survey, desired: &Desired) -> Vec<Warning> {
    let mut referred: BTreeMap<&ManifestKey, BTreeSet<&str>> = BTreeMap::new();
    for reference in &desired.referred {
        referred.entry(&reference.target).or_default().insert(root(&reference.path));
    }
    if referred.is_empty() {
        return Vec::new();
    }
    let views = || survey.scopes.values().filter_map(|view| view.as_ref().ok());
    let steps = || views().flat_map(|view| &view.plan.steps);
    let key = |step: &Step| step.work.row.as_ref().map(|row| row.manifest.clone());
    // What is made at another entry than before is made anew as well.
    let gone: BTreeSet<ManifestKey> =
        steps().filter(|step| step.change == Change::Delete).filter_map(key).collect();
    let moves = |step: &Step, key: &ManifestKey| -> Option<&'static str> {
        let outputs = referred.get(key)?;
        match step.change {
            Change::Replace => Some("made anew"),
            Change::Create if gone.contains(key) => Some("made anew"),
            Change::Update => {
                step.fields.iter().any(|field| outputs.contains(root(&field.path))).then_some("changed")
            }
            _ => None,
        }
    };
    let moving = steps().filter(|step| step.can_happen()).filter_map(|step| {
        let key = key(step)?;
        Some((step, moves(step, &key)?, key))
    });
    let moving: Vec<(&Step, &str, ManifestKey)> = moving.collect();
    if moving.is_empty() {
        return Vec::new();
    }
    let planned: BTreeSet<ManifestKey> =
        steps().filter(|step| step.change.writes()).filter_map(key).collect();
    // What refers to something that is not known at all is shown so.
    let is_known = |step: &&Step| {
        let makes = matches!(step.change, Change::Create | Change::Update | Change::Replace);
        makes && step.work.desired.as_ref().is_some_and(|desired| desired.spec.bytes().is_some())
    };
    let known: BTreeSet<ManifestKey> = steps().filter(is_known).filter_map(key).collect();
    let mut next_to: BTreeMap<&ManifestKey, Vec<&ManifestMeta>> = BTreeMap::new();
    for manifest in &desired.manifests {
        manifest.after.iter().for_each(|on| next_to.entry(on).or_default().push(manifest));
    }
    let mut warnings = Vec::new();
    for (step, what, key) in moving {
        let mut reached = BTreeSet::from([&key]);
        let (mut names, mut early) = (Vec::new(), Vec::new());
        let mut open = vec![&key];
        while let Some(on) = open.pop() {
            for next in next_to.get(on).into_iter().flatten() {
                if !reached.insert(&next.key) {
                    continue;
                }
                open.push(&next.key);
                if !planned.contains(&next.key) {
                    names.push(next.address.to_string());
                } else if known.contains(&next.key) {
                    early.push(next.address.to_string());
                }
            }
        }
        if !names.is_empty() {
            let said = "may be changed or made anew too, once its outputs are known";
            let hint = "they are in no count of this plan; the guard judges them once they are planned";
            warnings.push(following("MayFollow", (step, what), names, (said, hint)));
        }
        if !early.is_empty() {
            let said = "may be shown with what it puts out now";
            let hint = "they wait for it, and are planned and judged again with what it puts out by then";
            warnings.push(following("PlannedAgain", (step, what), early, (said, hint)));
        }
    }
    warnings
}

/// A warning of what follows `step`, by `names`.
fn following(
    reason: &str,
    (step, what): (&Step, &str),
    mut names: Vec<String>,
    (said, hint): (&str, &str),
) -> Warning {
    names.sort();
    let count = names.len();
    let shown = names[..count.min(WARNINGS)].join(", ");
    let more = if count > WARNINGS { format!(" and {} more", count - WARNINGS) } else { String::new() };
    let these = if count == 1 { "1 that follows it".to_string() } else { format!("{count} that follow it") };
    Warning {
        reason: reason.into(),
        message: format!("{} is {what}: {these} {said}: {shown}{more}", step.address),
        hint: Some(hint.into()),
        addresses: std::iter::once(step.address.to_string()).chain(names).collect(),
    }
}

/// What providers caution of, each with its place.
pub(super) fn cautions(survey: &Survey) -> Vec<Warning> {
    let views = survey.scopes.values().filter_map(|view| view.as_ref().ok());
    let steps = views.flat_map(|view| &view.plan.steps).filter(|step| step.can_happen());
    let all = steps.flat_map(|step| step.work.delta.cautions.iter().map(move |caution| (step, caution))).map(
        |(step, caution)| {
            let place = step.place.as_ref();
            let place = place.map(|(file, line)| format!(", {file}:{line}")).unwrap_or_default();
            Warning {
                reason: caution.reason.into(),
                message: format!("{}{place}: {}", step.address, caution.message),
                hint: caution.hint.clone(),
                addresses: vec![step.address.to_string()],
            }
        },
    );
    let mut kinds: BTreeMap<_, Vec<Warning>> = BTreeMap::new();
    for warning in all {
        kinds.entry(warning.reason.clone()).or_default().push(warning);
    }
    kinds.into_values().flat_map(some).collect()
}

/// The first of one kind, and how many more there are.
fn some(mut of_kind: Vec<Warning>) -> Vec<Warning> {
    let rest = of_kind.len().saturating_sub(WARNINGS);
    if rest > 0 {
        of_kind.truncate(WARNINGS);
        of_kind.push(Warning {
            reason: of_kind[0].reason.clone(),
            message: format!("{rest} more warnings of this kind"),
            hint: None,
            addresses: Vec::new(),
        });
    }
    of_kind
}

/// The first key of a path: of a field, and of an output.
fn root(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or(path)
}
