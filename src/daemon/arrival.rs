//! Whether a commit that somebody waits for has come: what a source offers, and what is said where it never will.
//!
//! Deliberately no waiting: that is [`super::sync`]'s.

use super::instance::Instance;
use crate::{config::GitRef, failure::Failure, session::Called};
use std::sync::Arc;

/// How a commit that is waited for stands to what the source offers.
pub(super) enum Arrived {
    /// It is what is offered.
    Offered,
    /// It came before what is offered.
    Before,
}

/// None while the source does not offer the commit or a later one.
///
/// Errors: its digits mean several.
pub(super) async fn arrived(
    instance: &Instance,
    source: &Arc<str>,
    rev: &str,
) -> Result<Option<Arrived>, Failure> {
    let sources = instance.follower.sources();
    let Some(offered) = sources.get(source).map(|s| s.offered.as_str()).filter(|o| !o.is_empty()) else {
        return Ok(None);
    };
    if offered == rev {
        return Ok(Some(Arrived::Offered));
    }
    match instance.session.called(source, rev, offered).await? {
        Called::It => Ok(Some(Arrived::Offered)),
        Called::Earlier => Ok(Some(Arrived::Before)),
        Called::Nothing | Called::Other => Ok(None),
        Called::Several(commits) => Err(Failure::hinted(
            format!("`{rev}` means {} commits of source {source}: {}", commits.len(), commits.join(", ")),
            "write more of its digits",
        )),
    }
}

/// What is said of a commit that a source was asked for in vain; none where the source could not be asked.
pub(super) fn missing(instance: &Instance, source: &Arc<str>, rev: &str) -> Option<String> {
    let sources = instance.follower.sources();
    let following = sources.get(source).filter(|following| following.behind.is_none())?;
    let config = instance.session.config.sources.iter().find(|config| config.name == *source)?;
    let follows = match &config.reference {
        GitRef::Branch(name) => format!("branch {name}"),
        GitRef::Tag(name) => format!("tag {name}"),
        GitRef::Semver(range) => format!("tags {range}"),
        GitRef::Commit(id) => format!("commit {id}"),
    };
    let is_at = &following.label;
    Some(format!(
        "error: no commit that source {source} offers begins with `{rev}`: it follows {follows}, and is at {is_at}\n\
         hint: see that it is pushed there: git branch --all --contains {rev}"
    ))
}

/// True when the commit that begins so is in force.
pub(super) fn is_in_force(instance: &Instance, source: &Arc<str>, rev: &str) -> bool {
    instance.follower.sources().get(source).is_some_and(|following| following.commit.starts_with(rev))
}

/// True when a source offers nothing until a person does something, such as a commit that is not signed.
pub(super) fn is_refused(instance: &Instance, source: &Arc<str>) -> bool {
    let sources = instance.follower.sources();
    sources.get(source).and_then(|following| following.behind_since).is_some_and(|(_, for_person)| for_person)
}

/// A commit as people write it: its first digits.
pub(super) fn is_commit(text: &str) -> bool {
    (7..=40).contains(&text.len()) && text.chars().all(|digit| digit.is_ascii_hexdigit())
}
