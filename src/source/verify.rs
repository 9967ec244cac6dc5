//! Which commits must be signed before what they say comes into force.
//!
//! # Guarantees
//! - With the whole history, every commit is judged that the new revision has and the one in force has not; what is
//!   in force was judged before, or was there before anybody asked for signatures.
//! - Without anything in force the tip alone is judged: whoever signs it vouches for what it has.
//! - An annotated tag that is followed and signed stands for its commit, if it names that commit and bears the name
//!   under which it was found: a tag of an old release is none of a new one.

use std::sync::Arc;

use git2::{ObjectType, Oid as GitOid, Repository, Sort};
use reconciled_provider::Clock;

use super::commit::broken;
use super::{Oid, SourceError};
use crate::trust::{self, Doubt, KeyFiles, Keys, Signed, Signer};

/// Which commits have to be signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum History {
    /// Each that the revision in force does not have.
    #[default]
    All,
    /// The one that comes into force: who signs it vouches for what it brings along.
    Head,
}

/// What has to be signed, and by whom.
#[derive(Clone)]
pub struct Verify {
    /// Where the allowed keys are.
    pub keys: KeyFiles,
    /// Which commits.
    pub history: History,
    /// OpenPGP keys end.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Verify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Verify({:?}, {:?})", self.keys, self.history)
    }
}

/// Commits and tags as Git stores them, of somebody else's repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawObjects {
    /// The annotated tag, if one leads there, and the name under which it was found.
    pub tag: Option<(String, Vec<u8>)>,
    /// Names and contents of commits, the oldest first and the tip last.
    pub commits: Vec<(Oid, Vec<u8>)>,
}

impl Verify {
    /// Judges what would come into force of the source `name`; says who signed the tip, or the tag.
    ///
    /// # Errors
    /// [`SourceError::Unverified`] about the oldest commit that is not proven, [`SourceError::Keys`].
    pub fn judge(&self, name: &str, objects: &RawObjects) -> Result<Signer, SourceError> {
        let keys =
            Keys::read(&self.keys).map_err(|cause| SourceError::Keys { name: name.to_owned(), cause })?;
        let now = self.clock.now();
        let Some(tip) = objects.commits.last() else {
            return Err(self.unverified(name, None, 0, Doubt::Unsigned));
        };
        if let Some((tag, raw)) = &objects.tag
            && let Ok((signed, header)) = trust::tag(raw)
            && header.object == tip.0.to_string()
            && header.kind == "commit"
            && header.name == *tag
            && let Ok(signer) = keys.judge(&signed, now)
        {
            return Ok(signer);
        }
        let first = match self.history {
            History::All => 0,
            History::Head => objects.commits.len() - 1,
        };
        let mut last = None;
        let (mut refused, mut others) = (None, 0);
        for commit in &objects.commits[first..] {
            match trust::commit(&commit.1).and_then(|signed: Signed| keys.judge(&signed, now)) {
                Ok(signer) => last = Some(signer),
                Err(doubt) if refused.is_none() => refused = Some((commit, doubt)),
                Err(_) => others += 1,
            }
        }
        match (refused, last) {
            (None, Some(signer)) => Ok(signer),
            (refused, _) => {
                let (commit, doubt) = refused.unwrap_or((tip, Doubt::Unsigned));
                Err(self.unverified(name, Some(commit), others, doubt))
            }
        }
    }

    fn unverified(
        &self,
        name: &str,
        commit: Option<&(Oid, Vec<u8>)>,
        others: usize,
        cause: Doubt,
    ) -> SourceError {
        SourceError::Unverified {
            name: name.to_owned(),
            commit: commit.map(|(oid, _)| oid.short()).unwrap_or_default(),
            is_first: commit.is_some_and(|(_, raw)| is_first(raw)),
            others,
            keys: Box::new(self.keys.clone()),
            cause: Box::new(cause),
        }
    }
}

/// True for a commit without a parent.
fn is_first(raw: &[u8]) -> bool {
    let mut header = raw.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    header.all(|line| !line.starts_with(b"parent "))
}

/// Reads the commits that `tip` has and `base` has not, and the tag that leads to it.
pub(super) fn objects(
    repository: &Repository,
    base: Option<Oid>,
    tip: Oid,
    tag: Option<(String, GitOid)>,
    history: History,
) -> Result<RawObjects, SourceError> {
    let damaged = |error| broken(repository.path(), error);
    let odb = repository.odb().map_err(damaged)?;
    let raw = |oid: GitOid| odb.read(oid).map(|object| object.data().to_vec()).map_err(damaged);
    let tag = match tag {
        Some((name, oid)) if odb.read_header(oid).map_err(damaged)?.1 == ObjectType::Tag => {
            Some((name, raw(oid)?))
        }
        _ => None,
    };
    let base = base.filter(|base| odb.exists((*base).into()));
    let (Some(base), History::All) = (base, history) else {
        return Ok(RawObjects { tag, commits: vec![(tip, raw(tip.into())?)] });
    };
    let mut walk = repository.revwalk().map_err(damaged)?;
    walk.set_sorting(Sort::TOPOLOGICAL | Sort::REVERSE).map_err(damaged)?;
    walk.push(tip.into()).map_err(damaged)?;
    walk.hide(base.into()).map_err(damaged)?;
    let mut commits = Vec::new();
    for oid in walk {
        let oid = oid.map_err(damaged)?;
        commits.push((oid.into(), raw(oid)?));
    }
    // Going back to what the one in force has already brings nothing new, and is judged all the same.
    if commits.last().is_none_or(|(last, _)| *last != tip) {
        commits.push((tip, raw(tip.into())?));
    }
    Ok(RawObjects { tag, commits })
}
