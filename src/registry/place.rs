//! Certificates where the helper of the host has the rights: each step is a question to it.
//!
//! A change names what was there when it was decided, so a helper that is killed, or somebody who is faster, costs another pass
//! and nothing else. What lies above the directories that the helper goes to is vouched for by its configuration, which is
//! root's. Numbers of users are those of this machine. Nothing is printed or logged of what is put: keys are [`Secret`]s
//! up to the socket.

use async_trait::async_trait;
use reconciled_certificates::{
    deliver::NAMES,
    place::{Again, Content, File, LARGEST, Place, Spot, Step, Trust, judge},
};
use reconciled_local::{
    hands::{Account, Afar, Fault, Hands, Job, Make, Manager, Meta, Put, Remove, Seen, What},
    path::FilePath,
    state::Access,
};
use reconciled_provider::{Error, ErrorKind, Secret};
use std::path::{Path, PathBuf};

/// A helper has the rights of root.
const ROOT: u32 = 0;

/// A directory of its own, open to everybody's eyes.
const DIRECTORY: Make = Make::Directory { access: Access { owner: None, group: None, mode: 0o755 } };

/// Puts certificates in place through the helper.
#[derive(Clone, Debug)]
pub(super) struct Helped(Afar);

/// How it failed is told by the next look.
fn either((Fault::NoEffect(error) | Fault::Unknown(error)): Fault) -> Error {
    error
}

fn path(path: &Path) -> Result<FilePath, Error> {
    let text = path.to_string_lossy();
    FilePath::parse(&text).map_err(|why| Error::invalid(format!("`{}` {why}", text.escape_debug())))
}

fn file(bytes: &[u8], mode: u32, owner: Option<(u32, u32)>) -> Make {
    let number = |number: u32| number.to_string().into();
    let (owner, group) = owner.map(|(user, group)| (number(user), number(group))).unzip();
    let content = Secret::new(bytes.to_vec());
    Make::File { access: Access { owner, group, mode }, content, validate: None, is_public: false }
}

fn spot(seen: Seen) -> Result<Spot, Error> {
    Ok(match seen.what {
        What::Absent => Spot::Nothing,
        What::File { content, .. } if content.reveal().len() as u64 > LARGEST => Spot::Huge,
        What::File { meta, content } => Spot::File(Content {
            bytes: content.reveal().to_vec().into(),
            user: meta.owner.id,
            group: meta.group.id,
            mode: meta.mode,
        }),
        What::Link { target } => Spot::Link(PathBuf::from(&*target)),
        What::Directory { .. } | What::Other(_) => Spot::Other,
        What::Refused(refusal) => return Err(refusal.into()),
    })
}

/// What was seen at `path`, in the words of the helper: it is found there unless somebody changed it since.
fn seen(path: FilePath, spot: &Spot) -> Result<Seen, Error> {
    let account = |id| Account { id, names: Vec::new(), is_own: false };
    let what = match spot {
        Spot::Nothing => What::Absent,
        Spot::File(Content { bytes, user, group, mode }) => What::File {
            meta: Meta { owner: account(*user), group: account(*group), mode: *mode },
            content: Secret::new(bytes.to_vec()),
        },
        Spot::Link(to) => What::Link { target: to.to_string_lossy().into() },
        Spot::Huge | Spot::Other => {
            return Err(Error::invalid(format!("{path} is no file that could be replaced"))
                .hint("somebody else put it there: move it away"));
        }
    };
    Ok(Seen::only(path, what))
}

impl Helped {
    pub(super) fn new(socket: &Path) -> Helped {
        Helped(Afar::new(socket))
    }

    async fn at(&self, path: &FilePath) -> Result<Seen, Error> {
        let seen = self.0.look(std::slice::from_ref(path)).await?.pop();
        seen.ok_or_else(|| Error::unexpected(format!("the helper did not say what {path} is")))
    }

    /// Makes something where nothing is.
    async fn put_new(&self, at: &Path, make: Make) -> Result<(), Error> {
        self.put(at, make, &Spot::Nothing).await
    }

    /// Makes something in place of `over`.
    async fn put(&self, at: &Path, make: Make, over: &Spot) -> Result<(), Error> {
        let path = path(at)?;
        let expect = seen(path.clone(), over)?.stamp();
        self.0.put(&Put { path, expect, make, keep: false }).await.map_err(either)
    }

    /// Removes what was seen, and drafts that a helper left which was killed.
    async fn take(&self, seen: &Seen) -> Result<(), Error> {
        let remove = Remove { path: seen.path.clone(), expect: seen.stamp(), keep: false };
        self.0.remove(&remove).await.map_err(either)
    }

    /// A directory and those it is in, the uppermost first, and what is there.
    async fn way(&self, directory: &Path) -> Result<Vec<Seen>, Error> {
        let below_root = directory.ancestors().filter(|at| at.parent().is_some());
        let mut paths = below_root.map(path).collect::<Result<Vec<_>, _>>()?;
        paths.reverse();
        self.0.look(&paths).await
    }
}

fn step(seen: &Seen, is_last: bool) -> Result<Step, Error> {
    Ok(match &seen.what {
        What::Absent => Step::Missing,
        What::Link { .. } => Step::Link,
        What::Directory { meta } => Step::There { user: meta.owner.id, mode: meta.mode },
        What::Refused(refusal) if is_last => return Err(refusal.clone().into()),
        // Above what the helper goes to.
        What::Refused(_) => Step::Unseen,
        What::File { .. } | What::Other(_) => {
            return Err(Error::invalid(format!("{} is no directory", seen.path)));
        }
    })
}

#[async_trait]
impl Place for Helped {
    fn own(&self) -> (u32, u32) {
        (ROOT, ROOT)
    }

    async fn look(&self, paths: &[PathBuf]) -> Result<Vec<Result<Spot, Error>>, Error> {
        let paths = paths.iter().map(|at| path(at)).collect::<Result<Vec<_>, _>>()?;
        Ok(self.0.look(&paths).await?.into_iter().map(spot).collect())
    }

    async fn trust(&self, directory: &Path) -> Result<Trust, Error> {
        let way = self.way(directory).await?;
        judge(directory, ROOT, |at| match way.iter().find(|seen| Path::new(seen.path.as_str()) == at) {
            Some(seen) => step(seen, at == directory),
            None => Ok(Step::Unseen),
        })
    }

    async fn make(&self, directory: &Path) -> Result<(), Error> {
        self.trust(directory).await?;
        for seen in self.way(directory).await? {
            let missing = Path::new(seen.path.as_str());
            let made = match seen.what {
                What::Absent => self.put_new(missing, DIRECTORY).await,
                _ => Ok(()),
            };
            // Another certificate may have been faster.
            made.or_else(|error| if error.kind == ErrorKind::Conflict { Ok(()) } else { Err(error) })?;
        }
        match self.trust(directory).await? {
            Trust::There => Ok(()),
            Trust::Nothing => {
                Err(Error::unavailable(format!("make {}: it is gone again", directory.display())))
            }
        }
    }

    async fn write_version(&self, version: &Path, files: &[File], owner: (u32, u32)) -> Result<(), Error> {
        self.put_new(version, DIRECTORY).await?;
        for one in files {
            self.put_new(&version.join(one.name), file(&one.bytes, one.mode, Some(owner))).await?;
        }
        Ok(())
    }

    async fn write(&self, path: &Path, text: &str, over: &Spot) -> Result<(), Error> {
        self.put(path, file(text.as_bytes(), 0o644, None), over).await
    }

    async fn link(&self, path: &Path, to: &Path, over: &Spot) -> Result<(), Error> {
        let target = to.to_str().ok_or_else(|| {
            Error::invalid(format!("{} would lead to what is no text", path.display()))
                .hint("move away what is there")
        })?;
        self.put(path, Make::Link { target: target.into() }, over).await
    }

    async fn remove(&self, at: &Path, what: &Spot) -> Result<(), Error> {
        if matches!(what, Spot::Nothing)
            && let Some(above) = at.parent()
            && matches!(self.at(&path(above)?).await?.what, What::Absent)
        {
            // Where no directory is, nobody left a draft either.
            return Ok(());
        }
        self.take(&seen(path(at)?, what)?).await
    }

    /// Each answer of the helper says that the disk has it.
    async fn settle(&self, _: &Path) -> Result<(), Error> {
        Ok(())
    }

    async fn directories(&self, directory: &Path) -> Result<Vec<String>, Error> {
        let directory = path(directory)?;
        let is_here = |seen: &Seen| seen.path.parent() == directory.as_str();
        let all = self.0.list(&directory).await?.into_iter().filter(is_here);
        let directories = all.filter(|seen| matches!(seen.what, What::Directory { .. }));
        Ok(directories.map(|seen| seen.path.name().to_owned()).collect())
    }

    async fn remove_version(&self, version: &Path) -> Result<(), Error> {
        let listed = self.0.list(&path(version)?).await?;
        // Where nothing is, there may still be the draft of a file.
        let names = NAMES.map(|name| path(&version.join(name)));
        let drafts = self.0.look(&names.into_iter().collect::<Result<Vec<_>, _>>()?).await?;
        let drafts = drafts.into_iter().filter(|seen| matches!(seen.what, What::Absent));
        // What is in a directory is listed behind it.
        for seen in listed.into_iter().rev().chain(drafts) {
            self.take(&seen).await?;
        }
        self.remove_empty(version).await
    }

    async fn remove_empty(&self, directory: &Path) -> Result<(), Error> {
        let seen = self.at(&path(directory)?).await?;
        match seen.what {
            What::Absent => Ok(()),
            _ => self.take(&seen).await,
        }
    }

    async fn call(&self, unit: &str, again: Again) -> Option<Result<(), Error>> {
        let job = match again {
            Again::Read => Job::Reload,
            Again::Start => Job::Restart,
        };
        // As systemctl reads it.
        let unit = if unit.contains('.') { unit.to_owned() } else { format!("{unit}.service") };
        Some(self.run(&unit, job).await)
    }
}

impl Helped {
    /// Has a unit do a job, where it runs.
    async fn run(&self, unit: &str, job: Job) -> Result<(), Error> {
        let state = self.0.units(&[unit.to_owned()]).await?.pop().unwrap_or_default();
        if state.load == "not-found" {
            let hint = "is it installed, and called so?";
            return Err(Error::unavailable(format!("{unit} is no unit of this host")).hint(hint));
        }
        // Of a unit that is out of its reach the helper says nothing; what is asked of one it refuses by name.
        if !state.load.is_empty() && !state.is_running() {
            return Ok(());
        }
        self.0.job(unit, job, &state.invocation).await.map_err(either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_what_a_change_expects_to_find() {
        let at = path(Path::new("/etc/ssl/tls.key")).unwrap();
        let account = |id, name: &str| Account { id, names: vec![name.into()], is_own: true };
        let meta = Meta { owner: account(0, "root"), group: account(7, "www"), mode: 0o640 };
        let file = What::File { meta, content: Secret::new(b"key".to_vec()) };
        for what in [file, What::Link { target: "..data/tls.key".into() }, What::Absent] {
            let found = Seen { is_public: true, changed: 7, ..Seen::only(at.clone(), what) };
            let stamp = found.stamp();
            assert_eq!(seen(at.clone(), &spot(found).unwrap()).unwrap().stamp(), stamp);
        }
        assert!(seen(at.clone(), &Spot::Huge).is_err() && seen(at, &Spot::Other).is_err());
    }
}
