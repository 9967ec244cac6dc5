//! Properties over small worlds, written in the same words as the scenarios.
//!
//! A world has up to six resources, each declared or not, tracked or not, there or not, marked or not; how it
//! was read, what was said of it and what the entry may do vary.

use crate::{
    case::{Answer, Case},
    observer::fields,
};
use proptest::prelude::*;
use reconciled_engine::{
    plan::{Blocked, Change, Step},
    store::Consent,
};
use reconciled_provider::{Observed, Owner, ResourceId, is_ignored};
use std::{collections::BTreeSet, sync::Arc};

const IDS: [&str; 6] = ["api/A", "api/CNAME", "mail", "www/A", "www/CNAME", "zone"];

fn resource(id: &'static str) -> impl Strategy<Value = Vec<String>> {
    let contents = ["one", "two", "!three", "ttl=1;values=2", "ttl=2;values=2", "ttl=2;values=3"];
    let content = || prop::option::of(prop::sample::select(contents.to_vec()));
    let said = prop::sample::select(vec![
        "",
        "deletion=protect",
        "deletion=abandon",
        "drift=warn",
        "drift=ignore",
        "adopt=always",
        "adopt=never",
        "suspend",
        "ignore=ttl",
        "ignore=values",
        "ignore=*",
    ]);
    let owner = prop::sample::select(vec!["", "owner=ours", "owner=dns2", "owner=system"]);
    let row = prop::sample::select(vec![
        "",
        "deletion=protect",
        "deletion=abandon",
        "applied",
        "file=broken.yaml",
        "source=other",
        "normalizer=0",
    ]);
    let consent =
        prop::sample::select(vec!["", "", "", "barred", "let-go", "adopt=one", "adopt=two from=dns2"]);
    (content(), said, content(), row, content(), owner, consent).prop_map(
        move |(desired, said, tracked, row, observed, owner, consent)| {
            let line = |word: &str, content: Option<&str>, rest: &str| {
                content.map(|content| format!("{word} {id} {content} {rest}"))
            };
            let consent = (!consent.is_empty()).then(|| format!("consent {id} {consent}"));
            let lines = [
                line("desired", desired, said),
                line("tracked", tracked, row),
                line("observed", observed, owner),
                consent,
            ];
            lines.into_iter().flatten().collect()
        },
    )
}

/// Lines of a world; any order of them means the same.
fn world() -> impl Strategy<Value = Vec<String>> {
    let settings = prop::sample::subsequence(
        vec![
            "policy upsert-only",
            "observation incomplete",
            "observation only=api/A,www/A,zone",
            "exclusive",
            "source infra broken=broken.yaml",
            "source other",
            "document web v0",
            "word zone zone-delete",
        ],
        0..4,
    );
    let role = prop::sample::select(vec!["role zone", "role host", "role cloud"]);
    let resources = IDS.map(resource);
    (resources, settings, role).prop_map(|(resources, settings, role)| {
        let mut lines: Vec<String> = resources.into_iter().flatten().collect();
        lines.extend(settings.into_iter().map(String::from));
        lines.push(role.to_string());
        lines.push("now 1000".into());
        lines
    })
}

fn seen_whole() -> impl Strategy<Value = Vec<String>> {
    world().prop_map(|mut lines| {
        lines.retain(|line| !line.starts_with("observation"));
        lines
    })
}

fn answer(lines: &[String]) -> Answer {
    Case::read(&lines.join("\n")).answer()
}

/// All that a reader, a store or an approval sees of an answer.
fn seen(answer: &Answer) -> String {
    format!("{:?} {:?} {:?}", crate::show::show(answer), answer.verdicts, digests(answer))
}

fn digests(answer: &Answer) -> Vec<Option<reconciled_provider::Hash>> {
    answer.verdicts.iter().map(|(_, verdict)| verdict.digest).collect()
}

fn has_line(lines: &[String], start: &str) -> bool {
    lines.iter().any(|line| line.starts_with(start))
}

/// Carries a step out in the model: the remote and the inventory as an undisturbed `apply` leaves them.
fn carry_out(case: &mut Case, step: &Step) {
    let place = case.places.values_mut().next().unwrap();
    let (rows, seen) = (Arc::make_mut(&mut place.memory.rows), &mut place.seen.resources);
    let row = step.work.row.clone().or_else(|| step.work.was.clone());
    rows.retain(|r| r.tracked.id != step.id);
    match step.change {
        Change::Delete => seen.retain(|o| o.id != step.id),
        Change::Forget => {}
        Change::Abandon => {
            seen.iter_mut().filter(|o| o.id == step.id).for_each(|o| o.owner = Owner::Unmarked);
        }
        Change::Adopt | Change::Move { .. } => rows.extend(row.map(Arc::unwrap_or_clone)),
        Change::Create | Change::Update | Change::Replace | Change::EndFormer | Change::Continue => {
            rows.extend(row.map(Arc::unwrap_or_clone));
            seen.retain(|o| o.id != step.id);
            let bytes = step.work.desired.as_ref().and_then(|d| d.spec.bytes()).unwrap_or_default();
            let written = Observed::new(step.id.clone(), bytes);
            seen.push(Observed { owner: Owner::Ours, ..written });
        }
    }
    rows.sort_by(|a, b| a.tracked.id.cmp(&b.tracked.id));
    seen.sort_by(|a, b| a.id.cmp(&b.id));
}

/// What a pass writes to memory besides steps.
fn bookkeeping(case: &mut Case, answer: &Answer) {
    let plan = &answer.plans[0];
    let memory = &mut case.places.values_mut().next().unwrap().memory;
    let gone: BTreeSet<&ResourceId> = plan.lapsed.iter().map(|r| &r.tracked.id).collect();
    let rows = Arc::make_mut(&mut memory.rows);
    rows.retain(|r| !gone.contains(&r.tracked.id));
    for row in rows {
        if let Some(next) = plan.refreshed.iter().find(|r| r.tracked.id == row.tracked.id) {
            *row = next.clone();
        }
    }
    for (manifest, document) in &plan.documents {
        match document {
            Some(document) => drop(memory.documents.insert(manifest.clone(), *document)),
            None => drop(memory.documents.remove(manifest)),
        }
    }
    memory.consents.retain(|(id, _)| !plan.spent.contains(id));
    for (id, word) in &mut memory.consents {
        if plan.let_go.contains(id) {
            *word = Consent::LetGo;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_world_gives_the_same_plan(lines in world()) {
        prop_assert_eq!(seen(&answer(&lines)), seen(&answer(&lines)));
    }

    #[test]
    fn the_order_of_what_is_given_changes_neither_plan_nor_digest(
        (lines, shuffled) in world().prop_flat_map(|lines| (Just(lines.clone()), Just(lines).prop_shuffle()))
    ) {
        let (first, second) = (answer(&lines), answer(&shuffled));
        prop_assert_eq!(digests(&first), digests(&second));
        prop_assert_eq!(seen(&first), seen(&second));
    }

    #[test]
    fn carrying_the_plan_out_leaves_nothing_to_write(lines in seen_whole()) {
        let mut case = Case::read(&lines.join("\n"));
        let first = case.answer();
        bookkeeping(&mut case, &first);
        for step in first.plans[0].steps.iter().filter(|s| s.blocked.is_none()) {
            carry_out(&mut case, step);
        }
        let second = case.answer();
        // In an exclusive scope, what was let go is foreign from then on: held, not left.
        let lets_go = |s: &Step| matches!(s.change, Change::Forget | Change::Abandon);
        let let_go = |id: &ResourceId| first.plans[0].steps.iter().any(|s| lets_go(s) && s.id == *id);
        // So does what waited for room beside it.
        let had_no_room = |id: &ResourceId| {
            let is_it = |s: &Step| s.id == *id && matches!(s.blocked, Some(Blocked::Occupied { .. }));
            first.plans[0].steps.iter().any(is_it)
        };
        let writing =
            |s: &&Step| s.change.writes() && s.blocked.is_none() && !let_go(&s.id) && !had_no_room(&s.id);
        let left: Vec<&Step> = second.plans[0].steps.iter().filter(writing).collect();
        prop_assert!(left.is_empty(), "{}\nthen\n{}", crate::show::show(&first), crate::show::show(&second));
    }

    #[test]
    fn nothing_is_deleted_that_is_desired_untracked_or_not_wholly_seen(lines in world()) {
        let answer = answer(&lines);
        for step in answer.plans[0].steps.iter().filter(|s| s.change == Change::Delete) {
            let is = |word: &str| has_line(&lines, &format!("{word} {} ", step.id));
            prop_assert!(!is("desired"), "{} is desired", step.id);
            prop_assert!(is("tracked") || has_line(&lines, "exclusive"), "{} is foreign", step.id);
            prop_assert!(is("observed"), "{} was not seen", step.id);
            prop_assert!(!has_line(&lines, "observation"), "not all of the scope was seen");
        }
    }

    #[test]
    fn only_what_is_to_be_abandoned_loses_our_mark_and_nothing_else_with_it(lines in world()) {
        let answer = answer(&lines);
        for step in answer.plans[0].steps.iter().filter(|s| s.change == Change::Abandon) {
            let was = lines.iter().find(|line| line.starts_with(&format!("tracked {} ", step.id)));
            prop_assert!(was.is_some_and(|line| line.ends_with("deletion=abandon")), "{}", step.id);
            prop_assert!(!has_line(&lines, &format!("desired {} ", step.id)), "{} is desired", step.id);
            let seen = step.work.observed.as_ref().unwrap();
            prop_assert_eq!(&seen.owner, &Owner::Ours);
            let written = step.work.desired.as_ref().unwrap();
            prop_assert_eq!(written.spec.bytes(), Some(&*seen.bytes));
            prop_assert!(step.work.row.is_none() && step.work.delta.leaves && step.after.is_none());
        }
    }

    #[test]
    fn what_another_instance_marked_is_changed_by_consent_only(lines in world()) {
        let answer = answer(&lines);
        for step in answer.plans[0].steps.iter().filter(|s| s.change.writes()) {
            let marked = step.work.observed.as_ref().is_some_and(|o| matches!(o.owner, Owner::Other(_)));
            let agreed = has_line(&lines, &format!("consent {} adopt=two from=dns2", step.id))
                && has_line(&lines, &format!("observed {} two ", step.id));
            prop_assert!(!marked || agreed, "{} carries the mark of another", step.id);
        }
    }

    #[test]
    fn what_is_ignored_is_written_as_it_was_seen(lines in world()) {
        let answer = answer(&lines);
        for step in answer.plans[0].steps.iter().filter(|s| s.change.writes()) {
            let (Some(desired), Some(observed)) = (&step.work.desired, &step.work.observed) else { continue };
            let declared = lines.iter().find(|line| line.starts_with(&format!("desired {} ", step.id)));
            let ignored = declared.and_then(|line| line.split("ignore=").nth(1)).map(|path| [Arc::from(path)]);
            let Some(ignored) = ignored else { continue };
            let of = |bytes: &[u8]| {
                let mut fields = fields(bytes);
                fields.retain(|path, _| is_ignored(&ignored, path));
                fields
            };
            let written = desired.spec.bytes().unwrap_or_default();
            prop_assert_eq!(of(written), of(&observed.bytes), "{} is overwritten", step.id);
        }
    }

    #[test]
    fn a_version_is_remembered_only_where_all_that_is_desired_was_seen_so(lines in world()) {
        let case = Case::read(&lines.join("\n"));
        let place = case.places.values().next().unwrap();
        let as_desired = place
            .desired
            .iter()
            .all(|d| place.seen.get(&d.id).map(|o| o.hash) == d.spec.hash());
        prop_assert!(!case.answer().known[0] || as_desired && !has_line(&lines, "observation"));
    }
}
