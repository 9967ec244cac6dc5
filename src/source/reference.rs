//! Which commit of a remote a source follows: pure selection from what the remote advertises.

use std::str::FromStr;

use data_encoding::HEXLOWER_PERMISSIVE;
use git2::Oid as GitOid;
use semver::{Version, VersionReq};
use strsim::osa_distance;

use super::{Oid, SourceError};

/// What a source follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The tip of a branch.
    Branch(String),
    /// One tag.
    Tag(String),
    /// The highest tag in a range; tags are `1.2.3` or `v1.2.3`.
    Semver(VersionReq),
    /// One commit, for ever.
    Commit(Oid),
}

impl Reference {
    /// Parses a range of versions: `1.4`, `>=1.2, <2`, `1.x`.
    ///
    /// # Errors
    /// [`SourceError::InvalidReference`].
    pub fn semver(range: &str) -> Result<Self, SourceError> {
        let range = VersionReq::parse(range).map_err(|error| SourceError::InvalidReference {
            text: range.to_owned(),
            problem: error.to_string(),
        })?;
        Ok(Self::Semver(range))
    }

    /// Says whether a push to the ref `name` (`refs/heads/main`) may move what is followed.
    pub fn follows(&self, name: &str) -> bool {
        match self {
            Self::Branch(branch) => name.strip_prefix(HEADS) == Some(branch),
            Self::Tag(tag) => name.strip_prefix(TAGS) == Some(tag),
            Self::Semver(range) => {
                name.strip_prefix(TAGS).and_then(version).is_some_and(|version| range.matches(&version))
            }
            Self::Commit(_) => false,
        }
    }

    /// Checks that the name can be a name of Git and nothing else, such as a refspec.
    ///
    /// # Errors
    /// [`SourceError::InvalidReference`].
    pub fn check(&self) -> Result<(), SourceError> {
        let (name, prefix) = match self {
            Self::Branch(name) => (name, "refs/heads/"),
            Self::Tag(name) => (name, "refs/tags/"),
            Self::Semver(_) | Self::Commit(_) => return Ok(()),
        };
        reconciled_libgit2::begin();
        if git2::Reference::is_valid_name(&format!("{prefix}{name}")) {
            return Ok(());
        }
        Err(SourceError::InvalidReference {
            text: name.clone(),
            problem: "it cannot be the name of a branch or tag".to_owned(),
        })
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Branch(name) => write!(f, "branch {name}"),
            Self::Tag(name) => write!(f, "tag {name}"),
            Self::Semver(range) => write!(f, "range {range}"),
            Self::Commit(oid) => write!(f, "commit {}", oid.short()),
        }
    }
}

impl FromStr for Oid {
    type Err = SourceError;

    fn from_str(digits: &str) -> Result<Self, SourceError> {
        let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok();
        let bytes: Option<[u8; 20]> = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self::from).ok_or_else(|| SourceError::InvalidReference {
            text: digits.to_owned(),
            problem: "a commit is named by its 40 hexadecimal digits".to_owned(),
        })
    }
}

/// One line of what a remote advertises. An annotated tag has two: itself and `NAME^{}`, its commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Advertised {
    pub(super) name: String,
    pub(super) oid: GitOid,
}

/// What to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) commit: GitOid,
    /// The one ref that leads there; none where only fetching everything can tell.
    pub(super) name: Option<String>,
    /// The annotated tag that leads there, without `refs/tags/`.
    pub(super) tag: Option<(String, GitOid)>,
}

impl Offer {
    /// A commit by itself.
    pub(super) fn commit(commit: GitOid) -> Self {
        Self { commit, name: None, tag: None }
    }
}

const HEADS: &str = "refs/heads/";
const TAGS: &str = "refs/tags/";

/// Finds what `reference` names among `refs`; `url` is for the message.
pub(super) fn select(reference: &Reference, refs: &[Advertised], url: &str) -> Result<Offer, SourceError> {
    if refs.is_empty() {
        return Err(SourceError::Empty { url: url.to_owned() });
    }
    match reference {
        Reference::Branch(branch) => find(refs, HEADS, branch).ok_or_else(|| {
            let branches = names(refs, HEADS);
            SourceError::MissingBranch {
                url: url.to_owned(),
                branch: branch.clone(),
                nearest: nearest(branch, &branches),
                branches,
            }
        }),
        Reference::Tag(tag) => find(refs, TAGS, tag).ok_or_else(|| {
            let tags = names(refs, TAGS);
            SourceError::MissingTag {
                url: url.to_owned(),
                tag: tag.clone(),
                nearest: nearest(tag, &tags),
                tags,
            }
        }),
        Reference::Semver(range) => {
            let tags = names(refs, TAGS);
            let versions = tags.iter().filter_map(|tag| Some((version(tag)?, tag)));
            let highest = versions.filter(|(version, _)| range.matches(version)).max();
            highest.and_then(|(_, tag)| find(refs, TAGS, tag)).ok_or_else(|| SourceError::NoMatchingTag {
                url: url.to_owned(),
                range: range.to_string(),
                tags,
            })
        }
        Reference::Commit(oid) => {
            let commit = GitOid::from(*oid);
            let tip = refs.iter().find(|tip| tip.oid == commit && tip.name.starts_with("refs/"));
            let name = tip.map(|tip| tip.name.trim_end_matches("^{}").to_owned());
            Ok(Offer { name, ..Offer::commit(commit) })
        }
    }
}

fn find(refs: &[Advertised], prefix: &str, name: &str) -> Option<Offer> {
    let name = format!("{prefix}{name}");
    let peeled = format!("{name}^{{}}");
    let oid = |name: &str| refs.iter().find(|line| line.name == name).map(|line| line.oid);
    let itself = oid(&name);
    let commit = oid(&peeled).or(itself)?;
    let tag = itself.filter(|itself| *itself != commit);
    let tag = tag.and_then(|tag| Some((name.strip_prefix(TAGS)?.to_owned(), tag)));
    Some(Offer { commit, name: Some(name), tag })
}

/// Returns the short names below `prefix`, sorted.
fn names(refs: &[Advertised], prefix: &str) -> Vec<String> {
    let short = refs.iter().filter_map(|line| line.name.strip_prefix(prefix));
    let mut names: Vec<String> = short.filter(|name| !name.ends_with("^{}")).map(ToOwned::to_owned).collect();
    names.sort();
    names
}

fn version(tag: &str) -> Option<Version> {
    Version::parse(tag.strip_prefix('v').unwrap_or(tag)).ok()
}

/// Returns the name somebody probably meant: the other usual default branch, or at most two edits away.
fn nearest(wanted: &str, names: &[String]) -> Option<String> {
    let has = |name: &&str| names.iter().any(|other| other == name);
    let usual = match wanted {
        "main" => Some("master").filter(has),
        "master" => Some("main").filter(has),
        _ => None,
    };
    if let Some(usual) = usual {
        return Some(usual.to_owned());
    }
    // Among shorter names everything is near.
    if wanted.chars().count() < 4 {
        return None;
    }
    let lower = wanted.to_lowercase();
    let near = names.iter().map(|name| (osa_distance(&lower, &name.to_lowercase()), name));
    let near = near.filter(|(edits, _)| *edits <= 2);
    near.min().map(|(_, name)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `NAME=DIGIT …`: the digit is the whole object name.
    fn refs(lines: &str) -> Vec<Advertised> {
        let line = |line: &str| {
            let (name, digit) = line.split_once('=').unwrap();
            Advertised { name: name.to_owned(), oid: oid(digit) }
        };
        lines.split_whitespace().map(line).collect()
    }

    fn oid(digit: &str) -> GitOid {
        GitOid::from_str(&digit.repeat(40)).unwrap()
    }

    fn check(reference: &Reference, lines: &str, expect: Result<(&str, Option<&str>), &str>) {
        let offer = select(reference, &refs(lines), "/r");
        match (offer, expect) {
            (Ok(offer), Ok((digit, name))) => {
                assert_eq!((offer.commit, offer.name.as_deref()), (oid(digit), name));
            }
            (Err(error), Err(said)) => assert_eq!(format!("{error}; {}", error.hint()), said),
            (offer, expect) => panic!("{reference} in {lines}: {offer:?}, not {expect:?}"),
        }
    }

    #[test]
    fn a_branch_is_its_tip() {
        let main = Reference::Branch("main".into());
        check(&main, "HEAD=1 refs/heads/main=1 refs/tags/main=2", Ok(("1", Some("refs/heads/main"))));
    }

    #[test]
    fn a_missing_branch_lists_the_others_and_what_was_meant() {
        let branch = |name: &str| Reference::Branch(name.into());
        check(
            &branch("main"),
            "refs/heads/master=1 refs/heads/dev=2 refs/tags/main=1",
            Err("/r has no branch main; it has dev, master; did you mean master?"),
        );
        check(
            &branch("prodution"),
            "refs/heads/production=1",
            Err("/r has no branch prodution; it has production; did you mean production?"),
        );
        // Neighbours that changed places are one edit.
        check(
            &branch("porductoin"),
            "refs/heads/production=1",
            Err("/r has no branch porductoin; it has production; did you mean production?"),
        );
        check(
            &branch("main"),
            "refs/tags/v1=1",
            Err(
                "/r has no branch main; it has none; push the branch, or name another as the source's `branch`",
            ),
        );
        check(&branch("main"), "", Err("/r has no commit yet; push a first commit"));
    }

    #[test]
    fn an_annotated_tag_is_its_commit() {
        let tag = Reference::Tag("v1".into());
        check(&tag, "refs/tags/v1=1 refs/tags/v1^{}=2", Ok(("2", Some("refs/tags/v1"))));
        check(&tag, "refs/tags/v1=1", Ok(("1", Some("refs/tags/v1"))));
        check(
            &tag,
            "refs/tags/v2=1",
            Err("/r has no tag v1; it has v2; push the tag, or change the source's `ref`"),
        );
    }

    #[test]
    fn a_range_is_its_highest_tag() {
        let lines =
            "refs/tags/v1.2.0=1 refs/tags/1.10.0=2 refs/tags/v1.9.9=3 refs/tags/v2.0.0=4 refs/tags/x=5";
        check(&Reference::semver("1").unwrap(), lines, Ok(("2", Some("refs/tags/1.10.0"))));
        check(&Reference::semver(">=1.2, <1.10").unwrap(), lines, Ok(("3", Some("refs/tags/v1.9.9"))));
        check(
            &Reference::semver("3").unwrap(),
            "refs/tags/v1.0.0=1",
            Err("/r has no tag that matches ^3; it has v1.0.0; push the tag, or change the source's `ref`"),
        );
        assert!(Reference::semver("one").is_err());
    }

    #[test]
    fn a_commit_is_fetched_by_the_ref_that_leads_to_it() {
        let commit = Reference::Commit(oid("1").into());
        check(&commit, "HEAD=1 refs/heads/main=1", Ok(("1", Some("refs/heads/main"))));
        check(&commit, "refs/tags/v1=2 refs/tags/v1^{}=1", Ok(("1", Some("refs/tags/v1"))));
        check(&commit, "refs/heads/main=2", Ok(("1", None)));
    }

    #[test]
    fn a_name_that_is_a_refspec_is_refused() {
        for name in ["", "a:b", "a..b", "-x y", "a^{}", "*"] {
            assert!(Reference::Branch(name.into()).check().is_err(), "{name}");
        }
        assert!(Reference::Branch("team/a-b".into()).check().is_ok());
    }

    #[test]
    fn an_abbreviated_commit_is_not_a_name() {
        for digits in ["ce01362", "", &"g".repeat(40), &"é".repeat(20), &"0".repeat(64)] {
            assert!(digits.parse::<Oid>().is_err(), "{digits}");
        }
    }
}
