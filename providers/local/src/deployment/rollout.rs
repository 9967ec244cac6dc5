//! Which instances come next. Pure.

use std::collections::BTreeSet;

/// An instance as it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) number: u32,
    /// It is none of the declared ones.
    pub(crate) is_surge: bool,
    /// It runs, or would be started, as the revision says that is brought in.
    pub(crate) is_current: bool,
    /// Its unit is active, and every check of it answers.
    pub(crate) is_available: bool,
}

/// The instances to start anew now; empty where that must wait, or where all are current.
///
/// Guarantee: with those stopped, at least `floor` instances are left that are available, or as many as are now. What is not
/// available costs nothing, so it comes first; and only then are those taken that serve.
pub(crate) fn next(members: &[Member], floor: u32) -> BTreeSet<u32> {
    let left = || members.iter().filter(|member| !member.is_current);
    // One that serves, as a revision says that was overtaken, is spared as any other.
    let is_to_come = |member: &&Member| member.is_surge && !member.is_available;
    let surge: BTreeSet<u32> = left().filter(is_to_come).map(|member| member.number).collect();
    if left().all(|member| member.is_surge) {
        // Nobody is to be replaced: no more are needed.
        return BTreeSet::new();
    }
    if !surge.is_empty() {
        return surge;
    }
    let broken: BTreeSet<u32> =
        left().filter(|member| !member.is_available).map(|member| member.number).collect();
    if !broken.is_empty() {
        return broken;
    }
    let available = members.iter().filter(|member| member.is_available).count();
    let spare = available.saturating_sub(floor as usize);
    left().take(spare).map(|member| member.number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `A` current, `o` not; upper or `o` available, `a` and `x` not; `+` in front: surge.
    fn members(text: &str) -> Vec<Member> {
        let mut is_surge = false;
        let mut members = Vec::new();
        for c in text.chars() {
            if c == '+' {
                is_surge = true;
                continue;
            }
            let number = u32::try_from(members.len()).unwrap() + 1;
            let (is_current, is_available) = (matches!(c, 'A' | 'a'), matches!(c, 'A' | 'o'));
            members.push(Member { number, is_surge, is_current, is_available });
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
        // What does not serve is replaced whatever the floor is.
        check("xooo", 4, &[1]);
        check("xxxx", 4, &[1, 2, 3, 4]);
        check("AAAA", 3, &[]);
        check("oooo", 4, &[]);
    }

    #[test]
    fn more_are_started_before_any_is_taken_and_only_while_some_are_left() {
        check("ooo+x", 3, &[4]);
        check("ooo+A", 3, &[1]);
        check("ooo+a", 3, &[]);
        check("AAo+A", 3, &[3]);
        check("AAA+x", 3, &[]);
        // One that is left of a revision that was overtaken serves as well.
        check("x+o", 1, &[1]);
        check("o+o", 2, &[]);
    }

    proptest! {
        #[test]
        fn no_step_takes_the_available_below_the_floor(text in "[Aaox]{1,8}(\\+[Aaox]{1,3})?", floor in 0u32..8) {
            let members = members(&text);
            let taken = next(&members, floor);
            let available = |left: &dyn Fn(&Member) -> bool| members.iter().filter(|m| m.is_available && left(m)).count();
            let (now, then) = (available(&|_| true), available(&|m| !taken.contains(&m.number)));
            prop_assert!(then == now || then >= floor as usize);
            let replaced = members.iter().filter(|m| !m.is_current && !m.is_surge).count();
            prop_assert!(taken.is_empty() || replaced > 0);
        }
    }
}
