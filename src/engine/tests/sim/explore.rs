//! Every single fault, every pair of faults, and random seeds.

use crate::{
    executor::Rng,
    run::{Faulty, Outcome, run, run_traced},
    scenario::Scenario,
};
use reconciled_testkit::{Fault, Point};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

/// Random seeds for each scenario; `SIM_FULL=1` makes it hundreds of thousands.
const SEEDS: u64 = 2_000;
const SEEDS_FULL: u64 = 200_000;
/// The same by the scheduler: what it changes is when things happen, and they happen at random as it is.
const SEEDS_SCHEDULED: u64 = 1_000;
/// Pairs for each scenario; where there are more, a sample that covers every single fault as the first. `SIM_FULL=1` has them all.
const PAIRS: usize = 8_000;
/// In front of a plan to replay: the scheduler decides when.
const SCHEDULED: &str = "scheduled:";

pub(crate) fn everything(scenario: Scenario) {
    #[expect(clippy::disallowed_methods, reason = "a test's own switches")]
    let (replay, full) = (std::env::var("SIM_REPLAY").ok(), std::env::var("SIM_FULL").is_ok());
    if let Some(replay) = replay {
        if let Some(plan) = replay.strip_prefix(&format!("{}:", scenario.name)) {
            match plan.strip_prefix(SCHEDULED) {
                Some(plan) => show(&Scenario { scheduled: true, ..scenario }, parse(plan)),
                None => show(&scenario, parse(plan)),
            }
        }
        return;
    }
    let mut tally = Tally::default();
    let calm = tally.take(&scenario, Faulty::Never);
    let singles = exhaustive(&scenario, &mut tally, &calm, full);
    let seeds = if full { SEEDS_FULL } else { SEEDS };
    let before = Instant::now();
    for seed in 0..seeds {
        tally.take(&scenario, Faulty::Random { seed });
    }
    let rate = seeds as f64 / before.elapsed().as_secs_f64();
    println!(
        "{}: {singles} single faults, {} runs, {rate:.0} seeds/s, hits {:?}",
        scenario.name, tally.runs, tally.hits
    );
    for path in scenario.must_hit {
        assert!(tally.hits.contains_key(path), "{}: no run ever came to: {path}", scenario.name);
    }
}

/// Every single fault, and random seeds: for what differs only in when things happen.
pub(crate) fn by_chance(scenario: Scenario) {
    #[expect(clippy::disallowed_methods, reason = "a test's own switches")]
    let (replay, full) = (std::env::var_os("SIM_REPLAY"), std::env::var_os("SIM_FULL").is_some());
    if replay.is_some() {
        return;
    }
    let mut tally = Tally::default();
    let calm = tally.take(&scenario, Faulty::Never);
    for plan in plans(&scenario, &calm.points, 0) {
        tally.take(&scenario, Faulty::At(vec![plan]));
    }
    let seeds = if full { SEEDS } else { SEEDS_SCHEDULED };
    (0..seeds).for_each(|seed| drop(tally.take(&scenario, Faulty::Random { seed })));
    println!("{}, scheduled: {} runs, hits {:?}", scenario.name, tally.runs, tally.hits);
    // Of the rare paths those that a process shows from outside; the others are noted by the loop without a scheduler.
    for path in scenario.must_hit.iter().filter(|path| **path == "crash with an open intent") {
        assert!(tally.hits.contains_key(path), "{}, scheduled: no run ever came to: {path}", scenario.name);
    }
}

fn exhaustive(scenario: &Scenario, tally: &mut Tally, calm: &Outcome, full: bool) -> usize {
    let mut pairs = Vec::new();
    let singles = plans(scenario, &calm.points, 0);
    for first in &singles {
        let outcome = tally.take(scenario, Faulty::At(vec![*first]));
        pairs
            .extend(plans(scenario, &outcome.points, first.0 + 1).into_iter().map(|second| [*first, second]));
    }
    // Equally spaced, so that every first fault keeps its share.
    let stride = if full { 1 } else { pairs.len().div_ceil(PAIRS).max(1) };
    let offset = Rng::new(pairs.len() as u64).below(stride as u64) as usize;
    for pair in pairs.iter().skip(offset).step_by(stride) {
        tally.take(scenario, Faulty::At(pair.to_vec()));
    }
    singles.len()
}

/// Every fault that can happen at each point from `from` on.
fn plans(scenario: &Scenario, points: &[Point], from: usize) -> Vec<(usize, Fault)> {
    let each = points.iter().enumerate().skip(from);
    each.flat_map(|(index, point)| point.alphabet().iter().map(move |fault| (index, *fault)))
        .filter(|(_, fault)| !scenario.excluded.contains(fault))
        .collect()
}

#[derive(Default)]
struct Tally {
    runs: usize,
    hits: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn take(&mut self, scenario: &Scenario, faulty: Faulty) -> Outcome {
        let outcome = run(scenario, faulty.clone());
        let excluded = outcome.happened.iter().any(|(_, fault)| scenario.excluded.contains(fault));
        if !outcome.failures.is_empty() && !excluded {
            let replay = match &faulty {
                Faulty::Random { seed } => format!("seed={seed}"),
                _ => text(&outcome.happened),
            };
            show(scenario, faulty);
            let list = outcome.failures.join("\n  ");
            let way = if scenario.scheduled { SCHEDULED } else { "" };
            panic!("{} failed:\n  {list}\nSIM_REPLAY={}:{way}{replay}", scenario.name, scenario.name);
        }
        self.runs += 1;
        for hit in &outcome.hits {
            *self.hits.entry(hit).or_default() += 1;
        }
        outcome
    }
}

/// Runs one plan with a trace on standard output.
fn show(scenario: &Scenario, faulty: Faulty) {
    let outcome = run_traced(scenario, faulty, true);
    println!("{}\n{:#?}", outcome.trace.join("\n"), outcome.failures);
}

fn text(plan: &[(usize, Fault)]) -> String {
    plan.iter().map(|(index, fault)| format!("{index}={fault:?}")).collect::<Vec<_>>().join(",")
}

fn parse(text: &str) -> Faulty {
    if let Some(seed) = text.strip_prefix("seed=") {
        return Faulty::Random { seed: seed.parse().expect("a number") };
    }
    let known: BTreeSet<Fault> =
        [Point::Read, Point::Write, Point::Commit].iter().flat_map(|p| p.alphabet()).copied().collect();
    let plan = text.split(',').map(|part| {
        let (index, name) = part.split_once('=').expect("POINT=FAULT,…");
        let fault = known.iter().find(|f| format!("{f:?}") == name).expect("a fault's name");
        (index.parse().expect("a number"), *fault)
    });
    Faulty::At(plan.collect())
}
