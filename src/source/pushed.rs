//! A repository of this host that is pushed to, as who follows it sees it: whether a push came, and what of it is signed.
//!
//! Guarantees: what is there counts, not what whoever pushed says. Nothing is written.
//!
//! Assumptions: the path is one that the configuration names; who owns it is not asked.

use std::path::Path;

use git2::{ErrorCode, ObjectType, Oid as GitOid, Reference, Repository};

use super::commit::broken;
use super::{History, Oid, RawObjects, SourceError, bare, verify};

/// How a ref stands to a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It is at the commit.
    At,
    /// It is at one that descends from it.
    Beyond,
    /// It does not lead there, or is nowhere.
    Without,
}

impl Reach {
    /// Looks at the ref `reference` of the repository at `directory`. A commit that is not there, or only in quarantine, is
    /// without reach.
    ///
    /// # Errors
    /// [`SourceError::Corrupt`], [`SourceError::Io`].
    pub fn of(directory: &Path, reference: &str, commit: Oid) -> Result<Reach, SourceError> {
        let repository = open(directory)?;
        let Some(found) = find(&repository, reference)? else { return Ok(Reach::Without) };
        let tip = match found.peel_to_commit() {
            Ok(tip) => Oid::from(tip.id()),
            // A tag of something else, or a ref of a ref that is nowhere.
            Err(error)
                if matches!(error.code(), ErrorCode::Peel | ErrorCode::InvalidSpec | ErrorCode::NotFound) =>
            {
                return Ok(Reach::Without);
            }
            Err(error) => return Err(broken(repository.path(), error)),
        };
        Ok(match tip == commit {
            true => Reach::At,
            false if bare::descends(&repository, commit, tip)? => Reach::Beyond,
            false => Reach::Without,
        })
    }

    /// Says whether the commit came there since it was `before`. The next push may have overtaken it.
    pub fn came_since(self, before: Reach) -> bool {
        match self {
            Reach::At => before != Reach::At,
            Reach::Beyond => before == Reach::Without,
            Reach::Without => false,
        }
    }
}

/// Reads what may be signed of a `commit` that was pushed to `reference` of the repository at `directory`: the commits that it
/// has and `base` has not, or the tip alone, as `history` has it, and the annotated tag that the ref is at, if it is.
///
/// # Errors
/// [`SourceError::Corrupt`], [`SourceError::Io`].
pub fn pushed_objects(
    directory: &Path,
    reference: &str,
    base: Option<Oid>,
    commit: Oid,
    history: History,
) -> Result<RawObjects, SourceError> {
    let repository = open(directory)?;
    let tag = tag(&repository, reference)?;
    verify::objects(&repository, base, commit, tag, history)
}

fn tag(repository: &Repository, reference: &str) -> Result<Option<(String, GitOid)>, SourceError> {
    let Some(name) = reference.strip_prefix("refs/tags/") else { return Ok(None) };
    let found = find(repository, reference)?;
    let tag = found.and_then(|found| found.peel(ObjectType::Tag).ok());
    Ok(tag.map(|tag| (name.to_owned(), tag.id())))
}

fn open(directory: &Path) -> Result<Repository, SourceError> {
    Repository::open_bare(directory).map_err(|error| broken(directory, error))
}

fn find<'r>(repository: &'r Repository, name: &str) -> Result<Option<Reference<'r>>, SourceError> {
    match repository.find_reference(name) {
        Ok(found) => Ok(Some(found)),
        // What is no name of a ref names none.
        Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::InvalidSpec) => Ok(None),
        Err(error) => Err(broken(repository.path(), error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::fixture::Upstream;

    #[test]
    fn a_commit_came_where_the_ref_leads_to_it_and_did_not_before() {
        use Reach::{At, Beyond, Without};
        let upstream = Upstream::new();
        let directory = upstream.repository.path();
        let main = "refs/heads/main";
        let reach = |reference: &str, commit: Oid| Reach::of(directory, reference, commit).unwrap();
        let nowhere: Oid = "1".repeat(40).parse().unwrap();
        assert_eq!(reach(main, nowhere), Without);
        let first = upstream.commit("main", &[("a", "1")]);
        let second = upstream.commit("main", &[("a", "2")]);
        let other = upstream.commit("other", &[("a", "3")]);
        assert_eq!([reach(main, second), reach(main, first)], [At, Beyond]);
        assert_eq!([reach(main, other), reach(main, nowhere), reach("refs/heads/..", first)], [Without; 3]);
        // An annotated tag leads to its commit, and one of a file to none.
        let object = upstream.repository.find_object(second.into(), None).unwrap();
        let tagger = upstream.repository.find_commit(first.into()).unwrap().author().to_owned();
        upstream.repository.tag("v1", &object, &tagger, "v1", false).unwrap();
        assert_eq!(reach("refs/tags/v1", second), At);
        let raw = pushed_objects(directory, "refs/tags/v1", None, second, History::All).unwrap();
        assert_eq!((raw.tag.is_some(), raw.commits.len()), (true, 1));
        let blob = upstream.repository.blob(b"x").unwrap();
        upstream.repository.reference("refs/tags/blob", blob, false, "test").unwrap();
        assert_eq!(reach("refs/tags/blob", second), Without);

        let came = [(Without, At), (Without, Beyond), (Beyond, At)];
        for before in [At, Beyond, Without] {
            for now in [At, Beyond, Without] {
                assert_eq!(now.came_since(before), came.contains(&(before, now)), "{before:?} {now:?}");
            }
        }
    }
}
