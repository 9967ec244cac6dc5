//! What others have values in, too.

use super::{When::*, *};

pub(crate) fn zone_merges_with_others() -> Scenario {
    Scenario {
        before: vec![(scope("zone/z"), "txt", "theirs")],
        script: vec![
            (AtRest, commit(desired("r1", &["zone/z|txt|ours", "zone/z|own|mine"]).merged())),
            (AtRest, commit(desired("r2", &["zone/z|own|mine"]).merged())),
        ],
        expect: [(scope("zone/z"), contents(&[("txt", "theirs"), ("own", "mine")]))].into(),
        ..base()
    }
}

pub(crate) fn zone_merges_with_others_who_write_meanwhile() -> Scenario {
    shared("zone/z")
}

/// Nothing marks what is ours there: the first write is of what has no row.
pub(crate) fn host_merges_with_others_who_write_meanwhile() -> Scenario {
    Scenario { roles: host(), ..shared("host/files") }
}

/// Beside what others have, ours becomes another one and goes.
fn shared(place: &str) -> Scenario {
    let [first, second, own] = ["txt|ours-a", "txt|ours-b", "own|mine"].map(|i| format!("{place}|{i}"));
    Scenario {
        before: vec![(scope(place), "txt", "theirs")],
        script: vec![
            (AtRest, commit(desired("r1", &[&first, &own]).merged())),
            (AtRest, commit(desired("r2", &[&second, &own]).merged())),
            (AtRest, commit(desired("r3", &[&own]).merged())),
            (AtRest, another(place, "txt")),
        ],
        meddles: Some(another(place, "txt")),
        expect: [(scope(place), contents(&[("txt", "theirs\ntheirs too"), ("own", "mine")]))].into(),
        ..base()
    }
}
