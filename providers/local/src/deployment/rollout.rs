//! How instances stand, and which of them come next. Pure.

use std::collections::BTreeSet;

/// An instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) number: u32,
    /// It is none of the declared ones.
    pub(crate) is_surge: bool,
    /// It runs, or would be started, as the revision says that is brought in.
    pub(crate) is_current: bool,
    pub(crate) stands: Stands,
}

/// How an instance stands; where it is not available, with the reason.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Standing {
    /// Its unit is active, and each of its checks answers.
    Available,
    /// Its unit does not run.
    Down(String),
    /// Its unit is coming up, or runs and a check of it says no.
    Unwell(String),
    /// Its unit is active, and a check of it could not be asked, which says nothing of it.
    NotAsked(String),
}

impl Standing {
    /// Why it is not known to be available.
    pub(crate) fn why(&self) -> Option<&str> {
        match self {
            Standing::Available => None,
            Standing::Down(why) | Standing::Unwell(why) | Standing::NotAsked(why) => Some(why),
        }
    }
}

/// How an instance stands, as far as that decides who is next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stands {
    /// Its unit is active, and every check of it answers.
    Available,
    /// Its unit is active, and nobody can ask whether it is well, for several turns now. It serves, as far as anybody knows.
    Unasked,
    /// It runs, and was not available when it was last asked; so it may be again.
    Doubtful,
    /// It runs, and has not been available for several turns.
    Unwell,
    /// It does not run.
    Down,
}

impl Stands {
    fn serves(self) -> bool {
        matches!(self, Stands::Available | Stands::Unasked)
    }
}

/// The instances to start anew now; empty where that must wait, or where all are current.
///
/// Guarantee: with those stopped, at least `floor` instances are left that are available, or as many as are now. What does not
/// run costs nothing, so it comes first, all of it at once; then what runs and is not well; and only then are those taken that
/// serve. Of those that run never more than may be away are taken, whatever is said of them: what is wrong may be who asks.
pub(crate) fn next(members: &[Member], floor: u32) -> BTreeSet<u32> {
    let left = || members.iter().filter(|member| !member.is_current);
    if left().all(|member| member.is_surge) {
        // Nobody is to be replaced: no more are needed.
        return BTreeSet::new();
    }
    // One that serves, as a revision says that was overtaken, is spared as any other.
    let is_to_come =
        |member: &&Member| member.is_surge && matches!(member.stands, Stands::Down | Stands::Unwell);
    let is_down = |member: &&Member| member.stands == Stands::Down;
    for is_first in [&is_to_come as &dyn Fn(&&Member) -> bool, &is_down] {
        let first: BTreeSet<u32> = left().filter(is_first).map(|member| member.number).collect();
        if !first.is_empty() {
            return first;
        }
    }
    let floor = floor as usize;
    let are_away = members.iter().filter(|member| member.is_current && !member.stands.serves()).count();
    let may_go = members.len().saturating_sub(floor + are_away);
    let is_unwell = |member: &&Member| member.stands == Stands::Unwell;
    let unwell: BTreeSet<u32> = left().filter(is_unwell).take(may_go).map(|member| member.number).collect();
    if !unwell.is_empty() {
        return unwell;
    }
    let spare = members.iter().filter(|member| member.stands.serves()).count().saturating_sub(floor);
    let mut rest: Vec<&Member> = left().collect();
    // Who may not serve anyway is the one to be spared first.
    rest.sort_by_key(|member| match member.stands {
        Stands::Unwell | Stands::Down => 0,
        Stands::Doubtful => 1,
        Stands::Unasked => 2,
        Stands::Available => 3,
    });
    rest.into_iter().take(spare).map(|member| member.number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `A` current, `o` not; `A` and `o` available, `a` and `u` unwell, `x` down, `?` doubtful, `n` not to be asked; `+` in front:
    /// surge.
    fn members(text: &str) -> Vec<Member> {
        let mut is_surge = false;
        let mut members = Vec::new();
        for c in text.chars() {
            if c == '+' {
                is_surge = true;
                continue;
            }
            let number = u32::try_from(members.len()).unwrap() + 1;
            let stands = match c {
                'A' | 'o' => Stands::Available,
                'a' | 'u' => Stands::Unwell,
                '?' => Stands::Doubtful,
                'n' => Stands::Unasked,
                _ => Stands::Down,
            };
            members.push(Member { number, is_surge, is_current: matches!(c, 'A' | 'a'), stands });
        }
        members
    }

    #[track_caller]
    fn check(text: &str, floor: u32, expect: &[u32]) {
        assert_eq!(next(&members(text), floor), expect.iter().copied().collect(), "{text}");
    }

    #[test]
    fn those_that_can_be_spared_come_first_and_never_more() {
        check("oooo", 3, &[1]);
        check("ooooo", 3, &[1, 2]);
        check("Aooo", 3, &[2]);
        // One that is current and not available is one less to spare.
        check("aooo", 3, &[]);
        // What does not run is replaced whatever the floor is.
        check("xooo", 4, &[1]);
        check("xxxx", 4, &[1, 2, 3, 4]);
        check("xuuu", 3, &[1]);
        check("AAAA", 3, &[]);
        check("oooo", 4, &[]);
    }

    #[test]
    fn those_that_run_and_are_not_well_come_before_others_and_never_too_many_at_once() {
        check("oouo", 3, &[3]);
        check("uuuu", 3, &[1]);
        check("uuuu", 2, &[1, 2]);
        check("Auuu", 3, &[2]);
        check("auuu", 3, &[]);
        check("uuuu+A", 4, &[1]);
        check("uuuu+a", 4, &[]);
    }

    #[test]
    fn whoever_could_not_be_asked_is_no_reason_to_start_anybody_anew() {
        check("????", 3, &[]);
        check("o?oo", 3, &[]);
        check("o?ooo", 3, &[2]);
        // That goes on, and the revision may be what mends it.
        check("nnnn", 3, &[1]);
        check("oono", 3, &[3]);
        check("Annn", 3, &[2]);
        check("annn", 3, &[]);
    }

    #[test]
    fn more_are_started_before_any_is_taken_and_only_while_some_are_left() {
        check("ooo+x", 3, &[4]);
        check("ooo+u", 3, &[4]);
        check("ooo+A", 3, &[1]);
        check("ooo+a", 3, &[]);
        check("AAo+A", 3, &[3]);
        check("AAA+x", 3, &[]);
        // One that is left of a revision that was overtaken serves as well.
        check("x+o", 1, &[1]);
        check("o+o", 2, &[]);
        check("ooo+?", 3, &[]);
    }

    proptest! {
        #[test]
        fn no_step_takes_the_available_below_the_floor_nor_too_many_that_run(
            text in "[Aaoux?n]{1,8}(\\+[Aaoux?n]{1,3})?",
            floor in 0u32..8,
        ) {
            let members = members(&text);
            let taken = next(&members, floor);
            let serve = |left: &dyn Fn(&Member) -> bool| members.iter().filter(|m| m.stands.serves() && left(m)).count();
            let (now, then) = (serve(&|_| true), serve(&|m| !taken.contains(&m.number)));
            prop_assert!(then == now || then >= floor as usize);
            let replaced = members.iter().filter(|m| !m.is_current && !m.is_surge).count();
            prop_assert!(taken.is_empty() || replaced > 0);
            let run = members.iter().filter(|m| taken.contains(&m.number) && !m.is_surge && m.stands != Stands::Down);
            let run = run.count();
            prop_assert!(run == 0 || members.len() - run >= floor as usize);
        }
    }
}
