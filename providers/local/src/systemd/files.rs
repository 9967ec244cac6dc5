//! Files of units: what is in one that was seen, and how they are written and removed, only where they are not as wanted yet
//! and keeping what others put there.

use super::{
    Places,
    unit::{Why, closed},
};
use crate::{
    hands::{Account, Fault, Hands, Make, Put, Remove, Seen, What},
    path::FilePath,
    state::{Access, mode_text},
};
use reconciled_provider::{Cx, Secret};
use std::collections::BTreeMap;

/// Who may do what with a file of ours: whoever may write it decides what runs, with the rights of the manager.
pub(crate) const ACCESS: Access = Access { owner: None, group: None, mode: 0o644 };

/// Who may do what with a file of ours, where that is another than should be: what a plan calls it, and says of it.
pub(crate) fn access(seen: &Seen) -> Option<(String, String)> {
    let What::File { meta, .. } = &seen.what else { return None };
    let words = [
        (meta.mode != ACCESS.mode).then(|| format!("mode {}", mode_text(meta.mode))),
        (!meta.owner.is_own).then(|| format!("owner {}", meta.owner.named())),
        (!meta.group.is_own).then(|| format!("group {}", meta.group.named())),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    (!words.is_empty()).then(|| (format!("{} access", seen.path), words.join(", ")))
}

/// What is in a file, as text: of what is none, as much as can be read.
pub(crate) fn text(seen: &Seen) -> Option<String> {
    match &seen.what {
        What::File { content, .. } => Some(String::from_utf8_lossy(content.reveal()).into_owned()),
        _ => None,
    }
}

/// Why what was seen at the path of a file cannot be managed, if so.
pub(crate) fn no_file(seen: &Seen) -> Option<Why> {
    match &seen.what {
        What::Refused(refusal) => Some(Why::of(refusal, BY_HAND)),
        What::Directory { .. } | What::Other(_) => {
            Some(Why::new(format!("{} is no file", seen.path), BY_HAND))
        }
        What::Absent | What::File { .. } | What::Link { .. } => None,
    }
}

const BY_HAND: &str = "remove it by hand, or let it be managed there";

/// Why what systemd reads drop-ins from can neither be told nor taken away, if so.
pub(crate) fn no_drop_in(seen: &Seen) -> Option<Why> {
    match &seen.what {
        What::Link { target } if seen.path.as_str().ends_with(".d") => {
            let text =
                format!("{} is a link to {target}: drop-ins there outrank what is declared", seen.path);
            Some(Why::new(text, "remove it by hand, and declare what shall stay of them"))
        }
        _ => no_file(seen),
    }
}

/// What is in a file, as it is reported: what is declared, and what every user of the host may read, in clear; of all else a
/// mark and the length, or a repository were a way to read the host. What is no text is never what is declared.
pub(crate) fn reported(cx: &Cx, seen: &Seen, declared: Option<&str>) -> Option<String> {
    let What::File { content, .. } = &seen.what else { return None };
    Some(match std::str::from_utf8(content.reveal()) {
        Ok(text) if seen.is_public || declared == Some(text) => text.to_owned(),
        _ => closed(cx, content.reveal()),
    })
}

pub(crate) fn is_absent(seen: &Seen) -> bool {
    matches!(seen.what, What::Absent)
}

/// True for a file with this in it.
fn has(seen: &Seen, content: &str) -> bool {
    matches!(&seen.what, What::File { content: is, .. } if is.reveal() == content.as_bytes())
}

/// True for that, where nobody else may do anything with it.
pub(super) fn is_ours(seen: &Seen, content: &str) -> bool {
    has(seen, content) && access(seen).is_none()
}

/// True for what is as wanted: `beside` has what a person wants left, who may do what with it among that.
pub(super) fn is_as_wanted(seen: &Seen, content: &str, beside: &BTreeMap<String, String>) -> bool {
    is_ours(seen, content) || has(seen, content) && left_access(seen, beside).is_some()
}

/// Who may do what with a file, where that is to be left.
fn left_access(seen: &Seen, beside: &BTreeMap<String, String>) -> Option<Access> {
    let What::File { meta, .. } = &seen.what else { return None };
    let (what, _) = access(seen)?;
    let number = |account: &Account| Some(account.id.to_string().into());
    let (owner, group) = (number(&meta.owner), number(&meta.group));
    beside.contains_key(&what).then_some(Access { owner, group, mode: meta.mode })
}

/// Writes a file, and leaves of it what is in `beside`; false where it is as wanted already.
pub(crate) async fn write(
    hands: &dyn Hands,
    places: &Places,
    seen: &Seen,
    content: &str,
    beside: &BTreeMap<String, String>,
) -> Result<bool, Fault> {
    if is_as_wanted(seen, content, beside) {
        return Ok(false);
    }
    make_way(hands, places, &seen.path).await?;
    // What is in it is nobody's work where it is ours.
    let keep = !is_absent(seen) && !has(seen, content);
    let content = Secret::new(content.as_bytes().to_vec());
    let access = left_access(seen, beside).unwrap_or(ACCESS);
    let make = Make::File { access, content, validate: None, is_public: true };
    hands.put(&Put { path: seen.path.clone(), expect: seen.stamp(), make, keep }).await?;
    Ok(true)
}

/// Removes a file; false where there is none.
pub(crate) async fn remove(hands: &dyn Hands, seen: &Seen) -> Result<bool, Fault> {
    if is_absent(seen) {
        return Ok(false);
    }
    hands.remove(&Remove { path: seen.path.clone(), expect: seen.stamp(), keep: true }).await?;
    Ok(true)
}

/// Removes a directory that drop-ins were in, where nothing is in it any more. One that stays means nothing to systemd: what
/// somebody else put there meanwhile, or a death right before this, is no failure.
pub(super) async fn remove_directory(hands: &dyn Hands, path: FilePath) -> Result<(), Fault> {
    let seen = hands.look(std::slice::from_ref(&path)).await?.pop();
    if let Some(seen) = seen.filter(|seen| matches!(seen.what, What::Directory { .. })) {
        let _ = hands.remove(&Remove { path, expect: seen.stamp(), keep: false }).await;
    }
    Ok(())
}

/// Makes the directories on the way to `path` that are missing in the home of a user. Those of a machine are there.
pub(super) async fn make_way(hands: &dyn Hands, places: &Places, path: &FilePath) -> Result<(), Fault> {
    let Some(home) = places.home() else { return Ok(()) };
    let mut missing = Vec::new();
    let mut next = path.directory().filter(|directory| directory.below(home).is_some());
    while let Some(directory) = next {
        next = directory.directory().filter(|directory| directory.below(home).is_some());
        missing.push(directory);
    }
    for directory in missing.into_iter().rev() {
        make_directory(hands, directory).await?;
    }
    Ok(())
}

/// Makes a directory that is not there.
pub(super) async fn make_directory(hands: &dyn Hands, path: FilePath) -> Result<(), Fault> {
    let seen = hands.look(std::slice::from_ref(&path)).await?.pop();
    let Some(seen) = seen.filter(is_absent) else { return Ok(()) };
    let make = Make::Directory { access: Access { owner: None, group: None, mode: 0o755 } };
    hands.put(&Put { path, expect: seen.stamp(), make, keep: false }).await
}
