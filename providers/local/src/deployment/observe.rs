//! How deployments stand, and how they fare.

use super::{
    DEPLOYMENTS,
    coming::{self, coming_up},
    instance::{self, fares, not_started},
    kind::{Declared, Deployment, compare, undeclared},
    leaving::{Others, Served},
    look::{Group, group, numbers},
    memory::{Good, Known, Memory, Rollout},
    parts, template,
};
use crate::{
    balancer,
    hands::{Draft, Hands, Manager, Start, Watched, What},
    systemd::{
        Places,
        definition::{self, Refuses},
        files::{access, reported},
        observe::watch_beside,
        places::path,
        refusals, restarted,
    },
};
use reconciled_provider::{
    Cx, Delta, Deltas, Error, FieldChange, Focus, Health, Observation, Observed, Resource, ResourceId,
    Sealed, Tracked, Unwell, Version, Want, diff_by_compare,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// What is asked for, by the name of the deployment.
#[derive(Default)]
struct Asked<'a> {
    template: Option<(Option<&'a Resource>, Option<&'a Tracked>)>,
    instances: BTreeMap<u32, (Option<&'a Resource>, Option<&'a Tracked>)>,
}

impl Asked<'_> {
    fn memory(&self) -> Memory {
        Memory::open(self.template.and_then(|(_, tracked)| tracked))
    }
    /// None where it is not declared, or not all of it is known.
    fn desired(&self) -> Option<Deployment> {
        deployment(self.template.and_then(|(desired, _)| desired))
    }
    fn is_declared(&self) -> bool {
        self.template.is_some_and(|(desired, _)| desired.is_some())
    }
}

pub(super) fn deployment(resource: Option<&Resource>) -> Option<Deployment> {
    match Declared::decode(resource?.spec.bytes()?)? {
        Declared::Deployment(deployment) => Some(deployment),
        Declared::Instance(_) => None,
    }
}

fn by_name<'a>(want: &Want<'a>) -> BTreeMap<&'a str, Asked<'a>> {
    let mut all: BTreeMap<&str, Asked<'_>> = BTreeMap::new();
    let desired = want.desired.iter().map(|desired| (&desired.id, Some(desired), None));
    let tracked = want.tracked.iter().map(|tracked| (&tracked.id, None, Some(tracked)));
    for (id, desired, tracked) in desired.chain(tracked) {
        let Some((name, number)) = parts(&id.0) else { continue };
        let asked = all.entry(name).or_default();
        let place = match number {
            None => asked.template.get_or_insert_default(),
            Some(number) => asked.instances.entry(number).or_default(),
        };
        (place.0, place.1) = (desired.or(place.0), tracked.or(place.1));
    }
    all
}

/// Reads what is wanted of the deployments.
pub(crate) async fn observe(
    cx: &Cx,
    hands: &dyn Hands,
    manager: &dyn Manager,
    want: &Want<'_>,
) -> Result<Observation, Error> {
    let all = by_name(want);
    if *want.focus == Focus::All {
        // Before anything is looked at: what changes from here on is told.
        let (mut watched, units) = watched(manager.places(), &all);
        watched.paths.extend(balancers(want).into_keys().filter_map(|id| balancer::path_of(&id.0)));
        hands.watch(DEPLOYMENTS, watched).await?;
        manager.watch(DEPLOYMENTS, units);
    }
    let of_balancers = || want.tracked.iter().filter(|tracked| balancer::is_balancer(&tracked.id.0));
    let ours: BTreeSet<String> = of_balancers().map(|tracked| tracked.id.0.to_string()).collect();
    let left: BTreeMap<String, u64> = of_balancers().flat_map(balancer::left).collect();
    let is_leaving =
        |(desired, tracked): &(Option<&Resource>, Option<&Tracked>)| desired.is_none() && tracked.is_some();
    let has_leaving = all.values().any(|asked| asked.instances.values().any(is_leaving));
    let naming = if has_leaving { naming(hands, &ours).await? } else { BTreeMap::new() };
    let mut resources = Vec::new();
    for (name, asked) in &all {
        let covers = |id: &str| want.focus.covers(&id.into());
        let whole = asked.template.filter(|_| covers(&template(name)));
        let wanted = |number: &u32| covers(&super::instance(name, *number));
        let mut which: BTreeSet<u32> = asked.instances.keys().copied().filter(wanted).collect();
        if whole.is_some() {
            which.extend(numbers(asked.desired().as_ref(), &asked.memory()));
        } else if which.is_empty() {
            continue;
        }
        let mut group = group(hands, manager, name, &which).await?;
        if let Some((desired, _)) = whole {
            if desired.is_some() && group.content().is_some() {
                group.look_beside(hands, manager.places()).await?;
            }
            let rows = asked.instances.iter().filter(|(_, (_, tracked))| tracked.is_some());
            let rows = Some(rows.map(|(number, _)| *number).collect());
            let memory = Memory { ours: ours.clone(), rows, ..asked.memory() };
            resources.extend(observed(cx, desired, &memory, &group));
        }
        let comes = asked.instances.values().any(is_leaving).then(|| (asked.desired(), asked.memory()));
        for (number, (desired, tracked)) in asked.instances.iter().filter(|(number, _)| wanted(number)) {
            let mut seen = instance::observed(*number, *desired, tracked.is_some(), &group);
            let leaves = seen.as_mut().filter(|_| desired.is_none());
            if let (Some(seen), Some((comes, memory))) = (leaves, &comes) {
                let may_name = |units: &BTreeSet<String>| units.contains(&*seen.id.0);
                let named = naming.iter().filter(|(_, units)| units.as_ref().is_none_or(may_name));
                let named = named.map(|(path, _)| path.clone()).collect();
                let until = left.get(&*seen.id.0).copied();
                let others = comes.as_ref().map(|comes| Others::of(*number, comes, memory, &group));
                let is_waiting = comes.is_none() && asked.is_declared();
                seen.private = Served { until, named, others, is_waiting }.seal();
            }
            resources.extend(seen);
        }
    }
    let on_their_way = on_their_way(want.tracked);
    for (id, (desired, tracked)) in balancers(want).into_iter().filter(|(id, _)| want.focus.covers(id)) {
        let Some(path) = balancer::path_of(&id.0) else { continue };
        for seen in hands.look(&[path]).await? {
            let may_drain = |unit: &str| is_of(unit, &on_their_way);
            resources.extend(balancer::observed(cx, id, desired, tracked, &seen, may_drain));
        }
    }
    resources.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(Observation { covered: want.focus.clone(), complete: true, version: Version::Unknown, resources })
}

/// The units that the files of these balancers name, by their paths; none of one where nobody can tell.
async fn naming(
    hands: &dyn Hands,
    balancers: &BTreeSet<String>,
) -> Result<BTreeMap<String, Option<BTreeSet<String>>>, Error> {
    let paths: Vec<_> = balancers.iter().filter_map(|path| balancer::path_of(path)).collect();
    let seen = hands.look(&paths).await?;
    Ok(seen.iter().map(|seen| (seen.path.as_str().to_owned(), balancer::names(seen))).collect())
}

/// The balancers that are declared or ours.
fn balancers<'a>(want: &Want<'a>) -> BTreeMap<&'a ResourceId, (Option<&'a Resource>, Option<&'a Tracked>)> {
    let mut all: BTreeMap<_, (Option<&Resource>, Option<&Tracked>)> = BTreeMap::new();
    for tracked in want.tracked.iter().filter(|tracked| balancer::is_balancer(&tracked.id.0)) {
        all.entry(&tracked.id).or_default().1 = Some(tracked);
    }
    for desired in want.desired.iter().filter(|desired| balancer::is_balancer(&desired.id.0)) {
        all.entry(&desired.id).or_default().0 = Some(desired);
    }
    all
}

/// Names of the deployments that have a rolling update on its way.
fn on_their_way(tracked: &[Tracked]) -> BTreeSet<String> {
    let rolling = tracked.iter().filter(|tracked| Memory::open(Some(tracked)).rollout.is_some());
    rolling.filter_map(|tracked| Some(parts(&tracked.id.0)?.0.to_owned())).collect()
}

fn is_of(unit: &str, names: &BTreeSet<String>) -> bool {
    parts(unit).is_some_and(|(name, _)| names.contains(name))
}

/// Files and units whose changes are to be told.
fn watched(places: &Places, all: &BTreeMap<&str, Asked<'_>>) -> (Watched, BTreeSet<String>) {
    let (mut watched, mut units) = (Watched::default(), BTreeSet::new());
    let mut files = |unit: &str| {
        watched.paths.extend(places.fragment(unit).ok());
        watch_beside(&mut watched, places, unit);
    };
    for (name, asked) in all {
        files(&template(name));
        let known = numbers(asked.desired().as_ref(), &asked.memory());
        for number in known.iter().chain(asked.instances.keys()) {
            let unit = super::instance(name, *number);
            files(&unit);
            units.insert(unit);
        }
    }
    if !all.is_empty() {
        watched.directories.extend(places.control().iter().filter_map(|at| path(at.clone()).ok()));
    }
    (watched, units)
}

/// The template and what its instances run as; none where there is no template.
pub(super) fn observed(
    cx: &Cx,
    desired: Option<&Resource>,
    memory: &Memory,
    group: &Group,
) -> Option<Observed> {
    let id = ResourceId::from(template(&group.name));
    if let Some(why) = group.any_closed() {
        let seen = deployment(desired).unwrap_or_else(|| undeclared(String::new()));
        let seen = Deployment { content: String::new(), closed: Some(why), ..seen };
        return Some(Observed::new(id, Declared::Deployment(seen).encode()));
    }
    let own_file = |number: &u32| {
        let file = group.members.get(number).map(|looked| &looked.file.what);
        !matches!(file, None | Some(What::Absent))
    };
    let Some(declared) = deployment(desired) else {
        let content = match reported(cx, &group.template, None) {
            Some(content) => content,
            None if group.members.keys().any(own_file) => String::new(),
            None => return None,
        };
        let mut observed = Observed::new(id, Declared::Deployment(undeclared(content)).encode());
        observed.private = Memory { rows: memory.rows.clone(), ..Memory::default() }.seal();
        return Some(observed);
    };
    let content = match (&group.template.what, group.content()) {
        (What::Absent, _) => return None,
        (_, content) => content.unwrap_or_default(),
    };
    let refused = memory.refusal(&declared);
    let goal = memory.goal(&declared);
    let means = definition::effective([goal]);
    let is_stale = |number: &u32| {
        let needs_reload = group.state(*number).is_some_and(|state| state.needs_reload);
        let is_other = group.is_running(*number) && !group.is_current(*number, &means, memory);
        own_file(number) || needs_reload || is_other
    };
    let stale: Vec<u32> = group.members.keys().copied().filter(|number| is_stale(number)).collect();
    // What was taken back is told once nothing is left of it.
    let is_back = content == goal && stale.is_empty();
    let refused = refused.filter(|_| is_back).map(str::to_owned);
    let content = reported(cx, &group.template, Some(&declared.content)).unwrap_or_default();
    let drop_ins = group.beside.values().flatten();
    let beside = drop_ins
        .map(|seen| (seen.path.as_str().to_owned(), reported(cx, seen, None).unwrap_or_default()))
        .chain(access(&group.template))
        .collect();
    // What had to answer so far is what the next rolling update judges those by that run now.
    let checks = match &memory.good {
        Some(good) if refused.is_none() && memory.rollout.is_none() => good.checks.clone(),
        _ => declared.checks.clone(),
    };
    let seen = Deployment { content, checks, beside, stale, refused, ..declared.clone() };
    let bytes = match desired.and_then(|desired| desired.spec.bytes()) {
        Some(bytes) if seen == declared => bytes.to_vec(),
        _ => Declared::Deployment(seen.clone()).encode(),
    };
    let mut observed = Observed::new(id, bytes);
    let is_settled = seen == declared && memory.rollout.is_none();
    let memory = if is_settled { settled(memory, &declared, group) } else { memory.clone() };
    observed.outputs = outputs(&declared, &memory, group);
    observed.private = memory.seal();
    Some(observed)
}

/// What is worth remembering of a deployment that is as declared.
pub(super) fn settled(memory: &Memory, declared: &Deployment, group: &Group) -> Memory {
    let running = declared.range().filter(|number| group.is_running(*number));
    let goal = definition::effective([memory.goal(declared)]);
    let known = running.filter_map(|number| {
        let (invocation, means) = (group.state(number)?.invocation.clone(), group.means(number)?);
        let checks = (means == goal).then(|| memory.checks(declared).to_vec());
        Some((number, Known { invocation, means, checks }))
    });
    let known = known.collect();
    // What was taken back has checks of its own, which say nothing of what runs.
    let good = match (memory.refusal(declared), &memory.good) {
        (Some(_), Some(good)) => Some(good.clone()),
        _ => group.content().map(|content| Good { content, checks: declared.checks.clone() }),
    };
    Memory { known, good, rollout: None, ..memory.clone() }
}

fn outputs(declared: &Deployment, memory: &Memory, group: &Group) -> Sealed {
    let running = declared.range().filter(|number| group.is_running(*number)).count();
    let value = serde_json::json!({
        "replicas": declared.replicas,
        "running": running,
        "history": memory.past,
    });
    Sealed::new(value.to_string())
}

/// Differences, and why a revision is not brought in.
pub(crate) async fn diff(
    manager: &dyn Manager,
    want: &Want<'_>,
    seen: &Observation,
) -> Result<Deltas, Error> {
    let by_kind = |desired: &Resource, observed: &Observed| match balancer::is_balancer(&desired.id.0) {
        true => balancer::compare(desired, observed),
        false => compare(desired, observed),
    };
    let mut deltas = diff_by_compare(by_kind, want, seen);
    for desired in want.desired {
        let also = written_with(desired, seen.get(&desired.id));
        if !also.is_empty()
            && let Ok(delta) = deltas.entry(desired.id.clone()).or_insert_with(|| Ok(Delta::default()))
        {
            delta.fields.extend(interrupted(desired, seen));
            delta.also = also;
        }
    }
    deltas = refused_starts(manager, want, seen, deltas).await?;
    // Templates that are refused and that nothing is there of, by the name of the deployment.
    let mut never: BTreeMap<&str, Error> = BTreeMap::new();
    for desired in want.desired {
        let observed = seen.get(&desired.id);
        if let Some(why) = observed.and_then(|observed| balancer::refused(&observed.bytes)) {
            deltas.insert(desired.id.clone(), Err(why.into()));
            continue;
        }
        let was = observed.and_then(|observed| Declared::decode(&observed.bytes));
        if let Some(why) = was.and_then(Declared::closed) {
            deltas.insert(desired.id.clone(), Err(why.into()));
            continue;
        }
        let Some(declared) = deployment(Some(desired)) else { continue };
        let was = seen.get(&desired.id).and_then(|observed| Declared::decode(&observed.bytes));
        let was = was.and_then(|was| match was {
            Declared::Deployment(was) => Some(was),
            Declared::Instance(_) => None,
        });
        if let Some(why) = was.as_ref().and_then(|was| was.refused.as_ref()) {
            deltas.insert(desired.id.clone(), Err(taken_back(&desired.id.0, why)));
            continue;
        }
        let is_new =
            seen.covered.covers(&desired.id) && was.is_none_or(|was| was.content != declared.content);
        let Some((name, _)) = parts(&desired.id.0).filter(|_| is_new) else { continue };
        // A template cannot be verified, an instance of it can.
        let unit = super::instance(name, declared.first);
        let draft = Draft { name: unit, content: Some(declared.content), ..Draft::default() };
        let Some(Err(error)) = manager.verify(&[draft]).await.pop() else { continue };
        if seen.get(&desired.id).is_none() {
            never.insert(name, error.clone());
        }
        deltas.insert(desired.id.clone(), Err(error));
    }
    // Nothing could be started without it, however often it is tried.
    for desired in want.desired {
        let Some((name, Some(_))) = parts(&desired.id.0) else { continue };
        let is_to_start = seen.get(&desired.id).is_none() || deltas.contains_key(&desired.id);
        if let Some(error) = never.get(name).filter(|_| is_to_start) {
            deltas.insert(desired.id.clone(), Err(not_started(&desired.id.0, error)));
        }
    }
    Ok(deltas)
}

/// What a rolling update of this template would write on its way: instances that it starts anew, and the balancers of ours at
/// which it marks them.
fn written_with(desired: &Resource, observed: Option<&Observed>) -> Vec<ResourceId> {
    let (Some(declared), Some(observed)) = (deployment(Some(desired)), observed) else { return Vec::new() };
    let Some(Declared::Deployment(was)) = Declared::decode(&observed.bytes) else { return Vec::new() };
    let memory = Memory::read(&observed.private);
    let means = |content: &str| definition::effective([content]);
    let is_to_roll =
        memory.rollout.is_some() || !was.stale.is_empty() || means(&was.content) != means(&declared.content);
    if !is_to_roll {
        return Vec::new();
    }
    let fronts = declared.fronts.iter().filter(|front| memory.ours.contains(&front.path));
    let fronts = fronts.map(|front| front.path.as_str().into());
    let name = parts(&desired.id.0).map_or("", |(name, _)| name);
    fronts.chain(declared.range().map(|number| super::instance(name, number).into())).collect()
}

/// Balancers that have nobody else while a rolling update starts the only instance anew.
fn interrupted(desired: &Resource, seen: &Observation) -> Option<FieldChange> {
    let is_replaced = |declared: &Deployment| declared.replicas == 1 && declared.max_surge == 0;
    let declared = deployment(Some(desired)).filter(is_replaced)?;
    let is_alone = |front: &&balancer::Front| {
        let observed = seen.get(&front.path.as_str().into());
        observed.is_some_and(|observed| balancer::members(&observed.bytes).len() == 1)
    };
    let alone: Vec<&str> = declared.fronts.iter().filter(is_alone).map(|front| front.path.as_str()).collect();
    let text = format!("{} has no other member while its instance starts anew", alone.join(", "));
    (!alone.is_empty()).then(|| FieldChange::text("interruption", None, Some(text)))
}

/// Has those of `deltas` be errors whose instances systemd would not start anew, by the word of another file than the template.
async fn refused_starts(
    manager: &dyn Manager,
    want: &Want<'_>,
    seen: &Observation,
    mut deltas: Deltas,
) -> Result<Deltas, Error> {
    for desired in want.desired {
        let is_to_roll = deltas
            .get(&desired.id)
            .and_then(|delta| delta.as_ref().ok())
            .is_some_and(|delta| !delta.also.is_empty());
        let Some(declared) = deployment(Some(desired)).filter(|_| is_to_roll) else { continue };
        let was = seen.get(&desired.id).and_then(|observed| Declared::decode(&observed.bytes));
        let Some(Declared::Deployment(was)) = was else { continue };
        let name = parts(&desired.id.0).map_or("", |(name, _)| name);
        let units: Vec<String> = declared.range().map(|number| super::instance(name, number)).collect();
        let old = definition::refuses([&*was.content]);
        let refuses = |start: &Start| {
            let start = refusals::then(Refuses::default(), old, start.clone());
            start.refuses_start || start.refuses_stop
        };
        let starts = manager.starts(&units).await?;
        let Some((unit, _)) = units.iter().zip(&starts).find(|(_, start)| refuses(start)) else { continue };
        let text = format!("{unit} would be started anew, and systemd does that for other units alone");
        let hint = format!(
            "take {} and {} out of its drop-ins: systemctl cat {unit}",
            refusals::START,
            refusals::STOP
        );
        deltas.insert(desired.id.clone(), Err(Error::invalid(text).hint(hint)));
    }
    Ok(deltas)
}

/// The revision that is declared did not do.
pub(super) fn taken_back(unit: &str, why: &str) -> Error {
    Error::invalid(format!("the new revision of {unit} was taken back: {why}"))
        .hint("the one before runs on; mend `content` or `health` in the repository: the same revision is not tried again")
}

/// How the declared deployments fare. `before` is what did not do its work when it was last looked at.
pub(crate) async fn health(
    cx: &Cx,
    hands: &dyn Hands,
    manager: &dyn Manager,
    want: &Want<'_>,
    before: &BTreeMap<ResourceId, Unwell>,
) -> Result<Vec<(ResourceId, Health)>, Error> {
    let mut told = Vec::new();
    for (name, asked) in by_name(want) {
        let declared: BTreeMap<u32, &Resource> = asked
            .instances
            .iter()
            .filter_map(|(number, (desired, _))| Some((*number, (*desired)?)))
            .filter(|(_, desired)| want.focus.covers(&desired.id))
            .collect();
        let group = group(hands, manager, name, &declared.keys().copied().collect()).await?;
        let Some(deployment) = asked.desired() else { continue };
        let memory = asked.memory();
        let goal = definition::effective([memory.goal(&deployment)]);
        let units = group.members.iter().map(|(number, looked)| {
            let known = memory.known.get(number).map(|known| &*known.invocation);
            (super::instance(name, *number), &looked.state, known)
        });
        let restarted = restarted(cx, manager, units).await?;
        let rollout = memory.rollout.as_ref().filter(|rollout| !rollout.is_stuck);
        let rollout = rollout.filter(|_| memory.refusal(&deployment).is_none());
        let is_in_step = |number: u32| rollout.is_some_and(|rollout| rollout.batch.contains_key(&number));
        let mut found = Vec::new();
        for (number, desired) in &declared {
            let checks = group.checks(*number, &goal, &memory, &deployment);
            found.push((*number, *desired, fares(hands, *number, checks, &group).await));
        }
        let is_silent = |(number, _, health): &&(u32, &Resource, Health)| {
            let is_ill = matches!(health, Health::Degraded { .. });
            is_ill && group.is_running(*number) && !is_in_step(*number)
        };
        let silent = found.iter().filter(is_silent).map(|(_, desired, _)| desired.id.0.to_string()).collect();
        let limit = Duration::from_secs(deployment.deadline.into());
        let coming = coming_up(cx, manager, silent, before, limit).await?;
        let mut are_well = true;
        for (number, desired, health) in found {
            let id = &*desired.id.0;
            let health = match (health, restarted.get(id)) {
                // It has until the deadline of its revision.
                (Health::Degraded { why }, _) if is_in_step(number) => {
                    Health::Progressing { why, recheck: coming::SOON }
                }
                // What ends again and again never comes up.
                (Health::Degraded { .. }, Some(ill @ Health::Degraded { .. })) if coming.contains(id) => {
                    ill.clone()
                }
                (Health::Degraded { why }, _) if coming.contains(id) => {
                    Health::Progressing { why, recheck: coming::SOON }
                }
                (degraded @ Health::Degraded { .. }, _) => degraded,
                (other, restarted) => restarted.cloned().unwrap_or(other),
            };
            are_well &= health == Health::Healthy;
            told.push((desired.id.clone(), health));
        }
        let health = match (&memory.rollout, memory.refusal(&deployment)) {
            (Some(rollout), Some(refused)) if !are_well || !rollout.is_stuck => {
                let how = match rollout.is_stuck {
                    true => format!("does not come up: {}", rollout.why),
                    false => "is on its way back".to_owned(),
                };
                let why = format!("the new revision was taken back ({refused}); the one before {how}");
                Health::Degraded { why }
            }
            (_, Some(why)) => Health::Degraded { why: format!("the new revision was taken back: {why}") },
            (Some(rollout), None) if rollout.is_stuck && rollout.waits.is_some() => {
                Health::Degraded { why: format!("the new revision does not get its turn: {}", rollout.why) }
            }
            (Some(rollout), None) if rollout.is_stuck => {
                Health::Degraded { why: format!("the new revision does not come up: {}", rollout.why) }
            }
            (Some(rollout), None) => {
                Health::Progressing { why: on_its_way(rollout), recheck: Duration::from_secs(5) }
            }
            (None, None) => Health::Healthy,
        };
        told.push((template(name).into(), health));
    }
    told.retain(|(id, _)| want.focus.covers(id));
    Ok(told)
}

fn on_its_way(rollout: &Rollout) -> String {
    let numbers: Vec<String> = rollout.batch.keys().map(u32::to_string).collect();
    match (numbers.is_empty(), rollout.why.is_empty()) {
        (true, true) => "a new revision is on its way".into(),
        (true, false) => format!("a new revision waits: {}", rollout.why),
        (false, true) => format!("a new revision is brought to instance {}", numbers.join(", ")),
        (false, false) => format!("a new revision at instance {}: {}", numbers.join(", "), rollout.why),
    }
}
