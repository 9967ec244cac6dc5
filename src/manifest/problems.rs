//! What is wrong with manifests, in the order and number in which people read it.

use super::{loaded::Reported, loading::Loading};
use reconciled_provider::Problem;

/// All of it by source, sorted by place and each once.
pub(super) fn sorted(loading: Loading<'_>) -> Vec<Reported> {
    let mut all = Vec::new();
    for side in loading.sides {
        let source = &side.request.name;
        let mut problems = side.problems;
        // A manifest that goes to two entries has its problems twice.
        problems.sort_by(|a, b| (&a.place, &a.message, &a.hint).cmp(&(&b.place, &b.message, &b.hint)));
        problems.dedup();
        let problems = capped(problems);
        all.extend(problems.into_iter().map(|problem| Reported { source: source.clone(), problem }));
    }
    all
}

/// Most problems of one file that are told; nobody reads more of them.
const MOST: usize = 100;

/// Cuts what is too much of one file, and says how much that is. Takes sorted problems.
fn capped(problems: Vec<Problem>) -> Vec<Problem> {
    let file = |problem: &Problem| problem.place.as_ref().map(|place| place.file.clone());
    let mut kept = Vec::with_capacity(problems.len());
    for group in problems.chunk_by(|a, b| file(a) == file(b)) {
        // Where something must go, it is warnings first: an error must never be lost behind them.
        let errors = group.iter().filter(|problem| problem.is_error()).count();
        let (mut room, mut warnings) = (MOST, MOST.saturating_sub(errors));
        let fits = |problem: &&Problem| {
            let of_kind = if problem.is_error() { &mut room } else { &mut warnings };
            let fits = *of_kind > 0;
            *of_kind = of_kind.saturating_sub(1);
            fits
        };
        let before = kept.len();
        kept.extend(group.iter().filter(fits).cloned());
        let more = group.len() - (kept.len() - before);
        if more == 0 {
            continue;
        }
        let text = format!("… and {more} more");
        let rest = if errors > 0 { Problem::error(text) } else { Problem::warning(text) };
        kept.push(match file(&group[0]) {
            Some(path) => rest.in_file(&path),
            None => rest,
        });
    }
    kept
}
