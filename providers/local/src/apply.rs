//! Carrying out a batch: one request to the hands for each action, each with what it expects to find.
//!
//! Guarantees: what is there is looked at again right before; what is as declared already is done; what is not what the
//! plan was made from is a conflict. What somebody else wrote is kept before it goes.

use crate::{
    block,
    hands::{Fault, Hands, Make, Put, Remove, Seen, What, is_unknown_command},
    observe::{self, Target, Written},
    path::FilePath,
    state::{self, Access, Content, Shape},
};
use reconciled_provider::{
    Action, ActionId, Batch, Cx, Error, ErrorKind, Journal, Observed, Op, Outcome, Resource, Secret,
    SecretMark, SecretRef, Tracked,
};
use tracing::warn;

/// Permissions of a file that is made for a block.
const NEW_FILE: u32 = 0o644;

/// Carries out a batch.
pub(crate) async fn apply(
    hands: &dyn Hands,
    cx: &Cx,
    batch: &Batch,
    journal: &dyn Journal,
) -> Result<(), Error> {
    let mut unmade: Vec<(FilePath, Error)> = Vec::new();
    for action in in_order(&batch.actions) {
        if cx.stop.is_set() {
            return Ok(());
        }
        journal.started(&[action.id]).await?;
        let outcome = match carry_out(hands, cx, &action.op).await.unwrap_or_else(Outcome::from) {
            Outcome::Failed(error) => Outcome::Failed(for_want_of(&unmade, &action.op, error)),
            outcome => outcome,
        };
        if let (Op::Create { desired, .. }, Some(error)) = (&action.op, outcome.error())
            && let Ok(path) = FilePath::parse(&desired.id.0)
        {
            unmade.push((path, error.clone()));
        }
        journal.finished(vec![(action.id, outcome)]).await?;
    }
    Ok(())
}

/// The error of what was to stand in a directory that could not be made: it is as lasting as what kept that from being made.
fn for_want_of(unmade: &[(FilePath, Error)], op: &Op, mut error: Error) -> Error {
    let path = FilePath::parse(state::parts(op.id()).0).ok();
    let is_around = |(above, _): &&(FilePath, Error)| {
        path.as_ref().is_some_and(|path| path.below(above.as_str()).is_some())
    };
    let Some((_, why)) = unmade.iter().find(is_around).filter(|_| matches!(op, Op::Create { .. })) else {
        return error;
    };
    (error.kind, error.hint, error.retry_after) = (why.kind, why.hint.clone(), why.retry_after);
    error
}

/// Begins a batch whose actions are carried out together; false where there is nothing to begin.
pub(crate) async fn begin(cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<bool, Error> {
    if cx.stop.is_set() || batch.actions.is_empty() {
        return Ok(false);
    }
    let ids: Vec<ActionId> = batch.actions.iter().map(|action| action.id).collect();
    journal.started(&ids).await?;
    Ok(true)
}

/// Deletions at the end of a batch go from the inside out: a directory has to be empty.
fn in_order(actions: &[Action]) -> Vec<&Action> {
    let is_deletion = |action: &&Action| matches!(action.op, Op::Delete { .. });
    let last = actions.len() - actions.iter().rev().take_while(is_deletion).count();
    let mut ordered: Vec<&Action> = actions.iter().collect();
    ordered[last..].sort_by(|a, b| b.op.id().cmp(a.op.id()));
    ordered
}

async fn carry_out(hands: &dyn Hands, cx: &Cx, op: &Op) -> Result<Outcome, Fault> {
    let (desired, planned, tracked) = match op {
        Op::Create { desired, .. } => (Some(desired), None, None),
        Op::Update { desired, observed, tracked, .. } | Op::Replace { desired, observed, tracked, .. } => {
            (Some(desired), Some(observed), tracked.as_deref())
        }
        Op::Delete { observed, tracked } => (None, Some(observed), tracked.as_deref()),
        Op::Continue { desired, tracked, .. } => (Some(desired), None, Some(&**tracked)),
    };
    let (path, block) = state::parts(op.id());
    let path = FilePath::parse(path).map_err(|why| Error::invalid(format!("`{path}` {why}")))?;
    let seen = hands.look(std::slice::from_ref(&path)).await?.into_iter().next();
    let seen = seen.ok_or_else(|| Error::unexpected(format!("nothing was said of {path}")))?;
    let target = Target { id: op.id().clone(), desired, tracked };
    let now = observe::observed(cx, &target, &seen);
    if let Some(done) = already(desired, now.as_ref()) {
        return Ok(done);
    }
    if now.as_ref().map(|now| now.hash) != planned.map(|planned| planned.hash) {
        return Err(Fault::NoEffect(Error::conflict(format!("{} changed since it was looked at", op.id()))));
    }
    let keep = is_somebody_elses(tracked, now.as_ref());
    match (desired, block) {
        (None, None) if is_another_kind(tracked, &seen) => {
            let error = Error::invalid(format!(
                "delete {path}: it is not what was made here any more, but of another kind"
            ));
            return Err(error.hint("remove it by hand, or keep it (`forget`)").into());
        }
        (None, None) => hands.remove(&Remove { path, expect: seen.stamp(), keep }).await?,
        (None, Some(name)) => take_out(hands, without_block(tracked, &seen, name, keep)?).await?,
        (Some(desired), _) => hands.put(&put(cx, desired, block, &seen, keep)?).await?,
    }
    Ok(match desired {
        Some(desired) => done(cx, desired, left(tracked, now.as_ref()).filter(|_| keep))?,
        None => Outcome::Gone,
    })
}

/// The outcome where there is nothing to do, because it was done: before a crash, or by somebody else.
fn already(desired: Option<&Resource>, now: Option<&Observed>) -> Option<Outcome> {
    match (desired, now) {
        (None, None) => Some(Outcome::Gone),
        (Some(desired), Some(now)) if desired.spec.hash() == Some(now.hash) => {
            let mut tracked = Tracked::new(desired.id.clone(), now.hash);
            tracked.private = now.private.clone();
            Some(Outcome::Done(tracked))
        }
        _ => None,
    }
}

/// True unless the content is what was last written here.
fn is_somebody_elses(tracked: Option<&Tracked>, now: Option<&Observed>) -> bool {
    let written = |private| Written::open(private).map(|written: Written| written.mark);
    let now = now.and_then(|now| written(&now.private));
    now.is_some() && now != tracked.and_then(|tracked| written(&tracked.private))
}

/// True when somebody put a directory in the place of a file of ours, or the other way round: only content has a mark.
fn is_another_kind(tracked: Option<&Tracked>, seen: &Seen) -> bool {
    let Some(tracked) = tracked else { return false };
    let had_content = Written::open(&tracked.private).is_some();
    match seen.what {
        What::Directory { .. } => had_content,
        What::File { .. } | What::Link { .. } => !had_content,
        _ => false,
    }
}

fn shape_of(desired: &Resource) -> Result<Shape, Error> {
    let bytes = desired.spec.bytes();
    let unknown = || Error::invalid(format!("not all is known yet of {}", desired.id));
    Shape::decode(bytes.ok_or_else(unknown)?)
        .ok_or_else(|| Error::unexpected(format!("what is declared of {} cannot be read", desired.id)))
}

/// The content in clear, for the one call that needs it. What is to stay as it is, and is known by its mark alone, is in `there`.
fn reveal(cx: &Cx, content: &Content, there: Option<&[u8]>) -> Result<Secret, Error> {
    match content {
        Content::Clear(bytes) => Ok(Secret::new(bytes.to_vec())),
        Content::Secret { name, mark } => {
            let secret = cx.secrets.reveal(&SecretRef::Named(name.clone()))?;
            // What was planned is what is written: a secret that was rotated since is planned anew.
            match cx.secrets.mark(secret.reveal()).0 == *mark {
                true => Ok(secret),
                false => Err(Error::conflict(format!("secret `{name}` changed since it was planned"))),
            }
        }
        Content::Mark { mark, .. } => match there {
            Some(there) if cx.secrets.mark(there).0 == *mark => Ok(Secret::new(there.to_vec())),
            _ => Err(Error::conflict("a content that is to be left as it is changed since it was planned")),
        },
    }
}

fn content_of(seen: &Seen) -> Option<&[u8]> {
    match &seen.what {
        What::File { content, .. } => Some(content.reveal()),
        _ => None,
    }
}

/// The request that makes `desired`.
fn put(cx: &Cx, desired: &Resource, block: Option<&str>, seen: &Seen, keep: bool) -> Result<Put, Error> {
    let make = match shape_of(desired)? {
        Shape::File(file) => Make::File {
            content: reveal(cx, &file.content, content_of(seen))?,
            is_public: file.access.is_public() && matches!(file.content, Content::Clear(_)),
            access: file.access,
            validate: file.validate,
        },
        Shape::Link { target } => Make::Link { target },
        Shape::Directory(directory) => Make::Directory { access: directory.access },
        Shape::Block(declared) => {
            let name = block.ok_or_else(|| Error::unexpected(format!("{} names no block", desired.id)))?;
            let (old, access) = surroundings(seen)?;
            let there = block::find(old, name).ok().flatten().map(|found| &old[found.inner]);
            let inner = reveal(cx, &declared.content, there)?;
            let content = block::put(old, name, &declared.comment, inner.reveal());
            let content = content.map_err(|line| observe::broken_block(&seen.path, name, line))?;
            Make::File {
                is_public: seen.is_public && matches!(declared.content, Content::Clear(_)),
                content: Secret::new(content),
                access,
                validate: declared.validate,
            }
        }
        Shape::Other { .. } | Shape::Refused(_) => {
            return Err(Error::unexpected(format!("what is declared of {} can only be seen", desired.id)));
        }
    };
    Ok(Put { path: seen.path.clone(), expect: seen.stamp(), make, keep })
}

/// Takes a block out of its file. The command that had to accept it is remembered, and may be gone from the host since: then
/// nobody can be asked, and the block would stay for ever.
async fn take_out(hands: &dyn Hands, mut put: Put) -> Result<(), Fault> {
    let asked = match &put.make {
        Make::File { validate, .. } => validate.clone(),
        _ => None,
    };
    match (hands.put(&put).await, asked) {
        (Err(Fault::NoEffect(error)), Some(name)) if is_unknown_command(&error, &name) => {
            warn!(path = %put.path, command = &*name, "command is gone, a block is taken out unchecked");
            if let Make::File { validate, .. } = &mut put.make {
                *validate = None;
            }
            hands.put(&put).await
        }
        (Err(Fault::NoEffect(error)), Some(_)) if error.kind == ErrorKind::Invalid => {
            Err(error.hint("mend what is left of the file, or keep the block (`forget`)").into())
        }
        (end, _) => end,
    }
}

/// The request that takes a block out of its file, which stays: what had to accept the block must accept what is left.
fn without_block(tracked: Option<&Tracked>, seen: &Seen, name: &str, keep: bool) -> Result<Put, Error> {
    let (old, access) = surroundings(seen)?;
    let content = block::remove(old, name);
    let content = content.map_err(|line| observe::broken_block(&seen.path, name, line))?;
    let validate = tracked.and_then(|tracked| Written::open(&tracked.private)?.validate);
    let make = Make::File { content: Secret::new(content), access, validate, is_public: seen.is_public };
    Ok(Put { path: seen.path.clone(), expect: seen.stamp(), make, keep })
}

/// The file around a block, and whose it is: that is not ours to change.
fn surroundings(seen: &Seen) -> Result<(&[u8], Access), Error> {
    match &seen.what {
        What::Absent => Ok((b"", Access { owner: None, group: None, mode: NEW_FILE })),
        What::File { meta, content } => {
            let number = |id: u32| Some(id.to_string().into());
            let access =
                Access { owner: number(meta.owner.id), group: number(meta.group.id), mode: meta.mode };
            Ok((content.reveal(), access))
        }
        What::Refused(refusal) => Err(refusal.clone().into()),
        _ => Err(observe::no_block(seen).into()),
    }
}

/// What was written here before somebody else's content came, with the mark of that content.
fn left(tracked: Option<&Tracked>, now: Option<&Observed>) -> Option<(Written, SecretMark)> {
    let theirs: Written = Written::open(&now?.private)?;
    Some((Written::open(&tracked?.private)?, theirs.mark))
}

/// `left`: somebody else's content may have been written again, since it is ignored. It stays somebody else's.
fn done(cx: &Cx, desired: &Resource, left: Option<(Written, SecretMark)>) -> Result<Outcome, Error> {
    let shape = shape_of(desired)?;
    let mut tracked = Tracked::new(desired.id.clone(), desired.spec.hash().unwrap_or_default());
    let is_secret = matches!(observe::content(&shape), Some(Content::Secret { .. }));
    let mark = match (&shape, observe::content(&shape)) {
        (_, Some(Content::Secret { mark, .. })) => Some(SecretMark(*mark)),
        (_, Some(Content::Clear(bytes))) => Some(cx.secrets.mark(bytes)),
        (_, Some(Content::Mark { mark, .. })) => Some(SecretMark(*mark)),
        (Shape::Link { target }, _) => Some(cx.secrets.mark(target.as_bytes())),
        _ => None,
    };
    let validate = observe::validate(&shape).cloned();
    let written = mark.map(|mark| match left {
        Some((ours, theirs)) if theirs == mark => Written { validate, ..ours },
        _ => Written { mark, is_secret, validate },
    });
    tracked.private = written.map(|written| written.seal()).unwrap_or_default();
    Ok(Outcome::Done(tracked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::{Origin, PolicyId, Scope, Spec};
    use std::sync::Arc;

    fn create(id: &str) -> Op {
        let desired = Resource::new(
            id.into(),
            Arc::new(Scope::new("host", "files")),
            Spec::known(Vec::new()),
            Origin { manifest: 0, line: 1 },
            PolicyId(0),
        );
        Op::Create { desired, delta: Default::default() }
    }

    #[test]
    fn what_has_no_directory_fails_for_as_long_as_that_cannot_be_made() {
        let unmade = [(FilePath::parse("/etc/d").unwrap(), Error::invalid("no").hint("mend it"))];
        let check = |id: &str, kind, hint: Option<&str>| {
            let error = for_want_of(&unmade, &create(id), Error::unavailable("no directory"));
            let told = (error.kind, error.hint.as_deref(), &*error.message);
            assert_eq!(told, (kind, hint, "no directory"), "{id}");
        };
        check("/etc/d/f", ErrorKind::Invalid, Some("mend it"));
        check("/etc/d/e/f#block", ErrorKind::Invalid, Some("mend it"));
        check("/etc/dd", ErrorKind::Unavailable, None);
        check("/etc/x/f", ErrorKind::Unavailable, None);
    }
}
