//! Who of several that stand for one thing cannot have it: all but the only one that is tracked and declared.

use reconciled_provider::{Error, Scope};

/// A resource that stands for a thing.
pub(super) struct Twin {
    pub(super) scope: Scope,
    pub(super) is_tracked: bool,
    pub(super) is_declared: bool,
    /// A call without an answer replaced it: it may be gone, and the thing another one.
    pub(super) is_in_doubt: bool,
}

/// Those of `all` that cannot have the thing, and why.
pub(super) fn refused(identity: &str, all: &[Twin]) -> Vec<(Scope, Error)> {
    let mut tracked = all.iter().filter(|twin| twin.is_tracked);
    let owner = match (tracked.next(), tracked.next()) {
        (Some(only), None) if only.is_declared && !only.is_in_doubt => Some(only),
        _ => None,
    };
    let hint = match (owner, all.iter().any(|twin| twin.is_tracked)) {
        (Some(_), _) => "take its manifest out",
        (None, false) => "take all of their manifests out but one",
        (None, true) => {
            "let go of those that are not meant to have it: reconciled forget ADDRESS; a manifest that took the place of \
             another one says so: reconciled/moved-from"
        }
    };
    let others = all.iter().filter(|twin| owner.is_none_or(|owner| owner.scope != twin.scope));
    let refuse = |twin: &Twin| {
        let beside = all.iter().filter(|other| other.scope != twin.scope);
        let beside: Vec<String> = beside.map(|other| other.scope.to_string()).collect();
        let text = format!("{} is one thing with {}: {identity}", twin.scope, beside.join(" and "));
        (twin.scope.clone(), Error::invalid(text).hint(hint))
    };
    others.map(refuse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each by its name, with `t` where it is tracked, `d` where it is declared and `?` where it was being replaced.
    fn check(all: &[(&str, &str)], expect: &[&str], hint: &str) {
        let twin = |(name, is): &(&str, &str)| Twin {
            scope: Scope::new("toy", *name),
            is_tracked: is.contains('t'),
            is_declared: is.contains('d'),
            is_in_doubt: is.contains('?'),
        };
        let refused = refused("toy_thing 1", &all.iter().map(twin).collect::<Vec<_>>());
        let names: Vec<&str> = refused.iter().map(|(scope, _)| &*scope.name).collect();
        assert_eq!(names, expect, "{all:?}");
        for (_, error) in refused {
            assert!(error.hint.as_deref().is_some_and(|said| said.contains(hint)), "{all:?}: {error:?}");
        }
    }

    #[test]
    fn the_only_one_that_is_tracked_and_declared_keeps_the_thing() {
        check(&[("a", "td"), ("b", "d")], &["b"], "take its manifest out");
        check(&[("a", "d"), ("b", "td"), ("c", "d")], &["a", "c"], "take its manifest out");
    }

    #[test]
    fn where_nobody_or_more_than_one_has_it_a_person_decides() {
        check(&[("a", "d"), ("b", "d")], &["a", "b"], "but one");
        check(&[("a", "td"), ("b", "td")], &["a", "b"], "reconciled forget");
        // What goes would take with it what the other one is about to take over.
        check(&[("a", "t"), ("b", "d")], &["a", "b"], "reconciled/moved-from");
        check(&[("a", "t"), ("b", "td")], &["a", "b"], "reconciled forget");
        check(&[("a", "td?"), ("b", "d")], &["a", "b"], "reconciled forget");
    }

    #[test]
    fn what_is_told_has_both_places_and_the_identity() {
        let twin = |name, is_tracked| Twin {
            scope: Scope::new("toy", name),
            is_tracked,
            is_declared: true,
            is_in_doubt: false,
        };
        let refused = refused("toy_thing 1", &[twin("Thing/a", true), twin("Thing/b", false)]);
        assert_eq!(refused[0].1.message, "toy/Thing/b is one thing with toy/Thing/a: toy_thing 1");
    }
}
