//! What Git tells a hook (githooks(5)): on standard input which refs are pushed, and in its environment where.

use crate::{
    config::Environment,
    failure::Failure,
    source::{Oid, Received, SourceError},
};
use std::{io::Read, path::Path};

/// Longest list of refs in one push, in bytes.
const MOST: u64 = 16 << 20;

/// Reads what Git says is pushed.
///
/// A ref whose name is not UTF-8 has another one here: nobody can follow it, and it keeps no other from being taken.
pub(super) fn updates(from: impl Read) -> Result<Vec<Update>, Failure> {
    let mut text = Vec::new();
    let read = from.take(MOST + 1).read_to_end(&mut text);
    read.map_err(|error| Failure::plain(format!("read what Git says is pushed: {error}")))?;
    // What is cut off would be taken unseen.
    if text.len() as u64 > MOST {
        let message = format!("the list of refs that are pushed is longer than {} MiB", MOST >> 20);
        return Err(Failure::hinted(message, "push fewer refs at once"));
    }
    String::from_utf8_lossy(&text).lines().map(Update::parse).collect()
}

/// One ref that is pushed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Update {
    /// Where it was; none where it is new.
    pub(super) old: Option<Oid>,
    /// Where it shall be; none where it is deleted.
    pub(super) new: Option<Oid>,
    /// Its full name, such as `refs/heads/main`.
    pub(super) reference: String,
}

impl Update {
    fn parse(line: &str) -> Result<Update, Failure> {
        let invalid = || Failure::plain(format!("Git says what is no update of a ref: {line}"));
        let mut words = line.splitn(3, ' ');
        let (Some(old), Some(new), Some(reference)) = (words.next(), words.next(), words.next()) else {
            return Err(invalid());
        };
        let id = |digits: &str| match digits.bytes().all(|digit| digit == b'0') {
            true => Ok(None),
            false => digits.parse::<Oid>().map(Some).map_err(|_| invalid()),
        };
        Ok(Update { old: id(old)?, new: id(new)?, reference: reference.into() })
    }

    /// As people write it: `main`, `tags/v1`.
    pub(super) fn name(&self) -> &str {
        let name = self.reference.strip_prefix("refs/heads/");
        name.or_else(|| self.reference.strip_prefix("refs/")).unwrap_or(&self.reference)
    }

    pub(super) fn is_branch(&self) -> bool {
        self.reference.starts_with("refs/heads/")
    }
}

/// The repository that Git runs the hook in.
pub(super) fn received(environment: &Environment) -> Result<Received, Failure> {
    let directory = Path::new(environment.var("GIT_DIR").unwrap_or("."));
    let objects = environment.var("GIT_OBJECT_DIRECTORY");
    let opened = Received::open(directory, objects, environment.var("GIT_ALTERNATE_OBJECT_DIRECTORIES"));
    opened.map_err(|error| match error {
        SourceError::Corrupt { cause, .. } => Failure::hinted(
            format!("{} cannot be read as the repository that is pushed to: {cause}", directory.display()),
            "Git runs its hooks inside of it; where Git ran this one, `git fsck` says what is damaged",
        ),
        error => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_git_is_an_update_a_new_ref_or_a_deletion() {
        let (zero, one) = ("0".repeat(40), "1".repeat(40));
        let update = |old: &str, new: &str| Update::parse(&format!("{old} {new} refs/heads/a b")).unwrap();
        assert_eq!(update(&one, &one).name(), "a b");
        assert_eq!(update(&zero, &one).old, None);
        assert_eq!(update(&one, &zero).new, None);
        for wrong in ["", "x y z", &format!("{one} {one}")] {
            assert!(Update::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_ref_whose_name_is_no_text_keeps_no_other_from_being_read() {
        let one = "1".repeat(40);
        let (odd, main) = (format!("{one} {one} refs/heads/f"), format!("{one} {one} refs/heads/main\n"));
        let text = [odd.as_bytes(), b"\xffx\n", main.as_bytes()].concat();
        let found = updates(&*text).unwrap();
        let names: Vec<&str> = found.iter().map(Update::name).collect();
        assert_eq!(names, ["f\u{fffd}x", "main"]);
        let failure = updates(std::io::repeat(b'x')).unwrap_err();
        assert!(failure.to_string().contains("longer than 16 MiB"), "{failure}");
    }

    #[test]
    fn outside_of_a_repository_nothing_is_said_of_mirrors() {
        let empty = tempfile::tempdir().unwrap();
        let path = empty.path().to_str().unwrap();
        // The first to set the options of libgit2 sets them for all tests of the process, and a hook asks for no owner.
        crate::source::init(empty.path()).unwrap();
        let environment = Environment::of([("GIT_DIR", path)]);
        let failure = received(&environment).err().unwrap();
        assert!(failure.to_string().contains("the repository that is pushed to"), "{failure}");
        assert!(failure.hint().unwrap().contains("git fsck"));
    }
}
