//! All that touches the machine: small requests, each complete in itself.
//!
//! *Guarantees*: a request that changes something names what it expects to find, and changes nothing where it finds
//! something else; done a second time it changes nothing. Nothing outside the allowed directories is read or written, and
//! no symbolic link is followed below them. *Assumptions*: the caller decides; a request carries no policy.
//!
//! [`Here`] does it in this process. The requests hold no state and no open file, so that another process, which has the
//! rights that this one should not have, can carry them out: [`Afar`] sends them there in the words of [`wire`], and
//! [`crate::hostd`] is that process.

mod accounts;
mod afar;
mod analyze;
mod beneath;
mod bus;
mod check;
mod command;
mod here;
mod originals;
mod replace;
mod watch;
pub mod wire;

pub use accounts::Account;
pub(crate) use accounts::{Accounts, home};
pub use afar::Afar;
pub use analyze::Draft;
pub use beneath::LARGEST;
pub(crate) use bus::ended;
pub use bus::{Bus, Job, Link, Manager, Run, Start, UnitState};
pub use check::{Asked, Check};
pub(crate) use check::{is_address, url};
pub use command::Unwell;
pub(crate) use command::{is_unknown as is_unknown_command, unknown as unknown_command};
pub use here::Here;
pub(crate) use here::no_directory;

use crate::path::FilePath;
use crate::state::Refusal;
use async_trait::async_trait;
use futures_core::stream::BoxStream;
use reconciled_provider::{Error, Hash, Outcome, Secret};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

/// Most entries of a directory, those below it included, that are listed.
pub const MOST_ENTRIES: usize = 10_000;

/// Owner, group and permissions of what is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The user.
    pub owner: Account,
    /// The group.
    pub group: Account,
    /// Permission bits, without the type.
    pub mode: u32,
}

/// What is at a path. Written out for the socket of the helper alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum What {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// Who may do what with it.
        meta: Meta,
        /// What is in it; may be somebody's secret.
        #[serde(with = "in_clear")]
        content: Secret,
    },
    /// A symbolic link.
    Link {
        /// Where it leads.
        target: Arc<str>,
    },
    /// A directory.
    Directory {
        /// Who may do what with it.
        meta: Meta,
    },
    /// Anything else, in a word.
    Other(Arc<str>),
    /// It could not be looked at, or must not be.
    Refused(Refusal),
}

/// Names one state of a path: equal stamps, equal state. Only for preconditions: it goes nowhere but to who carries the
/// request out, because the hash of a short secret gives it away.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp(Hash);

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stamp(…)")
    }
}

/// How much older than a moment files have to be to be known as those of before it: the kernel gives files the time of its last
/// tick.
pub(crate) const TICK: Duration = Duration::from_millis(12);

/// A path and what was found there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// The path.
    pub path: FilePath,
    /// What is there.
    pub what: What,
    /// Every user of the machine gets there and may read it.
    pub is_public: bool,
    /// When it became what it is, in microseconds since the epoch; 0 where nothing is.
    pub changed: u64,
    /// Nothing is there, and could not be: there is no directory for it.
    #[serde(default)]
    pub lacks_directory: bool,
}

impl Seen {
    /// A path of which nothing more is known than this.
    pub fn only(path: FilePath, what: What) -> Seen {
        Seen { path, what, is_public: false, changed: 0, lacks_directory: false }
    }

    /// It may have become what it is after this moment, in microseconds since the epoch.
    pub(crate) fn may_be_after(&self, moment: u64) -> bool {
        Duration::from_micros(self.changed) + TICK > Duration::from_micros(moment)
    }

    /// The stamp of this state.
    pub fn stamp(&self) -> Stamp {
        let meta = |meta: &Meta| format!("{} {} {:o}", meta.owner.id, meta.group.id, meta.mode);
        Stamp(match &self.what {
            What::Absent => Hash::of(b"absent"),
            What::File { meta: m, content } => {
                let head = format!("file {}\n", meta(m));
                Hash::of(&[head.as_bytes(), &Hash::of(content.reveal()).0].concat())
            }
            What::Link { target } => Hash::of(format!("link {target}").as_bytes()),
            What::Directory { meta: m } => Hash::of(format!("directory {}", meta(m)).as_bytes()),
            What::Other(word) => Hash::of(format!("other {word}").as_bytes()),
            What::Refused(refusal) => Hash::of(format!("refused {}", refusal.message).as_bytes()),
        })
    }
}

/// What shall be at a path. Written out for the socket of the helper alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Make {
    /// A regular file.
    File {
        /// Who may do what with it.
        access: crate::state::Access,
        /// What is in it.
        #[serde(with = "in_clear")]
        content: Secret,
        /// The command that must accept it.
        validate: Option<Arc<str>>,
        /// What that command says may be told.
        is_public: bool,
    },
    /// A symbolic link.
    Link {
        /// Where it leads.
        target: Arc<str>,
    },
    /// A directory.
    Directory {
        /// Who may do what with it.
        access: crate::state::Access,
    },
}

/// Makes something, where `expect` is found.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Put {
    /// Where.
    pub path: FilePath,
    /// What must be there.
    pub expect: Stamp,
    /// What shall be there.
    pub make: Make,
    /// What is there now is somebody else's work: keep a copy.
    pub keep: bool,
}

/// Deletes something, where `expect` is found. A directory must be empty.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remove {
    /// Where.
    pub path: FilePath,
    /// What must be there.
    pub expect: Stamp,
    /// What is there now is somebody else's work: keep a copy.
    pub keep: bool,
}

/// How a request that should have changed something failed.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing changed.
    NoEffect(Error),
    /// It may have been done.
    Unknown(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::NoEffect(error)
    }
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Outcome {
        match fault {
            Fault::NoEffect(error) => Outcome::Failed(error),
            Fault::Unknown(error) => Outcome::Unknown(error),
        }
    }
}

/// What changes are told of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watched {
    /// These paths, each whatever is there.
    pub paths: BTreeSet<FilePath>,
    /// Whatever stands in these directories.
    pub directories: BTreeSet<FilePath>,
}

/// Something changed: where to look again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// At this path.
    At(FilePath),
    /// Nobody knows.
    Anywhere,
}

/// Looks at and changes a machine.
#[async_trait]
pub trait Hands: Send + Sync + fmt::Debug {
    /// What is at each of `paths`, in their order. What cannot be looked at is [`What::Refused`], each for itself.
    async fn look(&self, paths: &[FilePath]) -> Result<Vec<Seen>, Error>;
    /// What is in a directory and in those below it, without the directory itself and what no manifest could name.
    async fn list(&self, directory: &FilePath) -> Result<Vec<Seen>, Error>;
    /// What files there are below the allowed directories.
    async fn list_all(&self) -> Result<Vec<Seen>, Error>;
    /// Makes something; durable when it returns.
    async fn put(&self, put: &Put) -> Result<(), Fault>;
    /// Deletes something; durable when it returns.
    async fn remove(&self, remove: &Remove) -> Result<(), Fault>;
    /// Asks whether an instance of a service is well.
    async fn check(&self, check: &Check, asked: Asked<'_>) -> Result<(), Unwell>;
    /// From now on changes of these are told for `scope`, and of no others. What cannot be watched is left to the next look.
    async fn watch(&self, scope: &'static str, watched: Watched) -> Result<(), Error>;
    /// Changes, from now on; a stream that has ended where nothing can be told. One listener.
    fn changes(&self) -> BoxStream<'static, Vec<Change>>;
}

/// A secret in base64: between two processes of one host, of which both have to know it.
mod in_clear {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use reconciled_provider::Secret;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(secret: &Secret, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(secret.reveal()))
    }
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        let text = String::deserialize(from)?;
        // The error would repeat a part of it.
        let clear = STANDARD.decode(text).map_err(|_| de::Error::custom("content is no base64"))?;
        Ok(Secret::new(clear))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_tick_before_a_moment_may_be_of_after_it() {
        let path = FilePath::parse("/etc/app.conf").unwrap();
        let changed = |changed| Seen { changed, ..Seen::only(path.clone(), What::Absent) };
        let moment = 1_796_034_991_393_486;
        // One that was written a millisecond after the moment said this of itself.
        assert!(changed(moment - 1_042).may_be_after(moment));
        assert!(changed(moment + 1).may_be_after(moment));
        assert!(!changed(moment - 12_000).may_be_after(moment));
        assert!(!changed(0).may_be_after(moment));
    }
}
