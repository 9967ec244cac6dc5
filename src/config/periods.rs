//! Times that are none, and a name that is none: what parses, and would do nothing or do it all the time.

use super::Period;
use reconciled_provider::{Node, Problem, SourceFile};
use std::{sync::Arc, time::Duration};

/// Where a time stands, the shortest that is one, and why a shorter one is not.
type Least = (&'static str, &'static str, Duration, &'static str, &'static str);

const MILLISECOND: Duration = Duration::from_millis(1);
const LEAST: &[Least] = &[
    ("hook", "planTimeout", MILLISECOND, "no push would ever be shown its plan", "write 1s or more"),
    ("hook", "pushTimeout", MILLISECOND, "no push would ever be followed", "write 1s or more"),
    (
        "audit",
        "keep",
        Duration::from_secs(86_400),
        "events would be gone for good before anybody asks for them",
        "write 1d or more (`m` are minutes), or leave it out to keep all",
    ),
];

/// Refuses them.
pub(super) fn check(root: &Node, file: &Arc<SourceFile>, problems: &mut Vec<Problem>) {
    if let Some(instance) = root.get("instance")
        && instance.as_str().is_some_and(|name| name.trim().is_empty())
    {
        let problem = Problem::error("`instance` is empty: nothing could be told to be ours");
        problems
            .push(problem.at(file, instance.span).hint("write a name, or leave it out for that of the host"));
    }
    for (within, key, least, why, hint) in LEAST {
        let node = root.get(within).and_then(|node| node.get(key));
        problems.extend(node.and_then(|node| short(node, key, *least, why, hint, file)));
    }
    for entry in root.get("providers").map(Node::elements).unwrap_or_default() {
        let (least, why) = (Duration::from_secs(1), "it would be looked at all the time");
        let node = entry.get("resync");
        problems.extend(node.and_then(|node| short(node, "resync", least, why, "write 1s or more", file)));
    }
}

fn short(
    node: &Node,
    key: &str,
    least: Duration,
    why: &str,
    hint: &str,
    file: &Arc<SourceFile>,
) -> Option<Problem> {
    // What is no time at all is told where it is read.
    let Period(time) = node.as_str()?.parse().ok()?;
    let text = node.as_str()?;
    let problem = Problem::error(format!("`{key}: {text}` is too short: {why}"));
    (time < least).then(|| problem.at(file, node.span).hint(hint))
}
