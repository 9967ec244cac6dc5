//! A deployment as it stands: its template, the files of single instances, and their units.

use super::{
    jobs::Jobs,
    kind::Deployment,
    memory::{Known, Memory},
    names::{instance, template},
    rollout::Standing,
};
use crate::{
    hands::{Asked, Check, Fault, Hands, Job, Manager, Seen, Start, UnitState, Unwell},
    systemd::{
        Places, Why, definition,
        files::{no_drop_in, no_file, text},
        health::after,
        look::{drop_ins, is_idle, starts},
    },
};
use futures_util::future::join_all;
use reconciled_provider::Error;
use std::collections::{BTreeMap, BTreeSet};

/// What was seen of the template and of these instances.
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) template: Seen,
    pub(crate) members: BTreeMap<u32, Looked>,
    /// Drop-ins that somebody put beside the template, or beside an instance, by the unit they are of; where these were
    /// looked at.
    pub(crate) beside: BTreeMap<String, Vec<Seen>>,
}

/// What was seen of an instance.
pub(crate) struct Looked {
    /// The file of its own name, which outranks the template.
    pub(crate) file: Seen,
    pub(crate) state: UnitState,
    /// What came of its last start, where it does not run and has conditions.
    pub(crate) start: Start,
}

/// Instances that may be there: those declared, those that may come besides, and those that are remembered.
pub(crate) fn numbers(desired: Option<&Deployment>, memory: &Memory) -> BTreeSet<u32> {
    let declared = desired.into_iter().flat_map(|desired| desired.range().chain(desired.surge()));
    let on_its_way = memory
        .rollout
        .iter()
        .flat_map(|rollout| rollout.surge.iter().chain(rollout.batch.keys()).chain(&rollout.touched));
    declared.chain(on_its_way.copied()).chain(memory.known.keys().copied()).collect()
}

/// Looks at the deployment called `name`.
pub(crate) async fn group(
    hands: &dyn Hands,
    manager: &dyn Manager,
    name: &str,
    numbers: &BTreeSet<u32>,
) -> Result<Group, Error> {
    let units: Vec<String> = numbers.iter().map(|number| instance(name, *number)).collect();
    let places = manager.places();
    let mut paths = vec![places.fragment(&template(name))?];
    for unit in &units {
        paths.push(places.fragment(unit)?);
    }
    let mut seen = hands.look(&paths).await?.into_iter();
    let missing = || Error::unexpected(format!("nothing was said of {}", template(name)));
    let template = seen.next().ok_or_else(missing)?;
    let states = manager.units(&units).await?;
    let has_conditions = |seen: &Seen| text(seen).is_some_and(|text| definition::has_conditions(&text));
    let of_template = has_conditions(&template);
    let members: Vec<(Seen, UnitState)> = seen.zip(states).collect();
    let idle = units.iter().zip(&members);
    let idle = idle.filter(|(_, (file, state))| is_idle(state) && (of_template || has_conditions(file)));
    let mut starts = starts(manager, idle.map(|(unit, _)| unit.clone()).collect()).await?;
    let members = members.into_iter().zip(&units).map(|((file, state), unit)| {
        let start = starts.remove(unit).unwrap_or_default();
        Looked { file, state, start }
    });
    let members = numbers.iter().copied().zip(members).collect();
    Ok(Group { name: name.into(), template, members, beside: BTreeMap::new() })
}

impl Group {
    /// Looks at the drop-ins of the template and of the instances: those of `systemctl edit` and of `systemctl set-property`.
    pub(crate) async fn look_beside(&mut self, hands: &dyn Hands, places: &Places) -> Result<(), Error> {
        let numbers = self.members.keys().map(|number| instance(&self.name, *number));
        self.beside = drop_ins(hands, places, &numbers.chain([template(&self.name)]).collect()).await?;
        Ok(())
    }
    /// Has none of these drop-ins count but those that are at one of `paths`.
    pub(crate) fn only_beside(&mut self, paths: &BTreeSet<String>) {
        self.beside.values_mut().for_each(|seen| seen.retain(|seen| paths.contains(seen.path.as_str())));
        self.beside.retain(|_, seen| !seen.is_empty());
    }
    /// What is in the template, if there is one.
    pub(crate) fn content(&self) -> Option<String> {
        text(&self.template)
    }
    /// Why the template, or the file of an instance's own, cannot be managed, if so.
    pub(crate) fn closed(&self, number: Option<u32>) -> Option<Why> {
        let own = number.and_then(|number| self.members.get(&number)).map(|looked| &looked.file);
        std::iter::once(&self.template).chain(own).find_map(no_file)
    }
    /// The same of all of it, and of what somebody put beside it where that was looked at.
    pub(crate) fn any_closed(&self) -> Option<Why> {
        let files = self.members.values().map(|looked| &looked.file);
        let why = std::iter::once(&self.template).chain(files).find_map(no_file);
        why.or_else(|| self.beside.values().flatten().find_map(no_drop_in))
    }
    /// What keeps an instance from being loaded, as systemd says it.
    pub(crate) fn unloadable(&self, number: u32) -> Option<String> {
        let state = self.state(number)?;
        let is_wrong = matches!(&*state.load, "bad-setting" | "error" | "not-found");
        let unit = instance(&self.name, number);
        is_wrong.then(|| format!("systemd cannot load {unit}: {} {}", state.load, state.load_error))
    }
    pub(crate) fn state(&self, number: u32) -> Option<&UnitState> {
        self.members.get(&number).map(|looked| &looked.state)
    }
    /// Stops an instance, if it runs.
    pub(super) async fn stop(&self, jobs: &Jobs<'_>, number: u32) -> Result<(), Fault> {
        match self.state(number).filter(|state| state.is_running()) {
            Some(state) => jobs.job(&instance(&self.name, number), Job::Stop, &state.invocation).await,
            None => Ok(()),
        }
    }
    pub(crate) fn is_running(&self, number: u32) -> bool {
        self.state(number).is_some_and(UnitState::is_running)
    }
    /// Why systemd does not start an instance, where that is for want of what its conditions and assertions ask for.
    pub(crate) fn passed_over(&self, number: u32) -> Option<String> {
        let looked = self.members.get(&number)?;
        let why = looked.start.why().filter(|_| !looked.state.is_running())?;
        Some(format!("{}: {why}", instance(&self.name, number)))
    }
    /// What an instance would be started with.
    pub(crate) fn means(&self, number: u32) -> Option<String> {
        let own = self.members.get(&number).and_then(|looked| text(&looked.file));
        let content = own.or_else(|| self.content())?;
        let units = [template(&self.name), instance(&self.name, number)];
        let drop_ins = units.iter().filter_map(|unit| self.beside.get(unit)).flatten().filter_map(text);
        let texts: Vec<String> = [content].into_iter().chain(drop_ins).collect();
        Some(definition::effective(texts.iter().map(String::as_str)))
    }
    /// True when an instance runs, or would be started, as `goal` means.
    pub(crate) fn is_current(&self, number: u32, goal: &str, memory: &Memory) -> bool {
        match self.known(number, memory) {
            Some(known) => known.means == goal,
            // It was started by somebody else: with the files that are there, as far as anybody can tell.
            None => self.means(number).is_some_and(|means| means == goal),
        }
    }

    /// What must answer of an instance: what the revision says that it runs. Those that still run another one than `goal` means
    /// are well as long as they are what they were: what is new in the one to come, they cannot answer.
    pub(crate) fn checks<'a>(
        &self,
        number: u32,
        goal: &str,
        memory: &'a Memory,
        declared: &'a Deployment,
    ) -> &'a [Check] {
        if self.is_current(number, goal, memory) {
            return memory.checks(declared);
        }
        let of_run = self.known(number, memory).and_then(|known| known.checks.as_deref());
        let of_before = || memory.good.as_ref().map(|good| &*good.checks);
        of_run.or_else(of_before).unwrap_or_else(|| memory.checks(declared))
    }

    /// What is known of the run that an instance is in; none where it is another one.
    pub(crate) fn known<'a>(&self, number: u32, memory: &'a Memory) -> Option<&'a Known> {
        let state = self.state(number).filter(|state| state.is_running())?;
        memory.known.get(&number).filter(|known| known.invocation == state.invocation)
    }

    /// How `numbers` stand, going by their units and by what each of their `checks` says.
    pub(crate) async fn standings<'a>(
        &self,
        hands: &dyn Hands,
        checks: impl Fn(u32) -> &'a [Check],
        numbers: impl IntoIterator<Item = u32>,
    ) -> BTreeMap<u32, Standing> {
        let ask = async |number: u32| {
            let unit = instance(&self.name, number);
            let state = self.state(number).cloned().unwrap_or_default();
            // Whoever reads its configuration again serves meanwhile.
            if !matches!(&*state.active, "active" | "reloading") {
                let why = self.passed_over(number);
                let why = why.unwrap_or_else(|| format!("{unit} is {}{}", state.active, after(&state)));
                return (
                    number,
                    if state.is_running() { Standing::Unwell(why) } else { Standing::Down(why) },
                );
            }
            let asked = Asked { unit: &unit, instance: number };
            let answers = join_all(checks(number).iter().map(|check| hands.check(check, asked))).await;
            // One that says no counts for more than one that nobody can ask.
            let wrong = answers.into_iter().filter_map(Result::err);
            let standing = match wrong.min_by_key(|wrong| matches!(wrong, Unwell::NotAsked(_))) {
                None => Standing::Available,
                Some(Unwell::No(error)) => Standing::Unwell(format!("{unit}: {}", error.chain())),
                Some(Unwell::NotAsked(error)) => Standing::NotAsked(format!("{unit}: {}", error.chain())),
            };
            (number, standing)
        };
        join_all(numbers.into_iter().map(ask)).await.into_iter().collect()
    }
}
