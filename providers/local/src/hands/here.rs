//! The hands of this very process.

use super::{
    Change, Fault, Hands, MOST_ENTRIES, Make, Meta, Put, Remove, Seen, Watched, What,
    accounts::Accounts,
    beneath::{self, refusal},
    command::{self, Command, Shown},
    originals,
    replace::{self, DRAFT, Draft},
    watch::Watches,
};
use crate::{Config, path::FilePath, state::Refusal};
use async_trait::async_trait;
use futures_core::stream::BoxStream;
use reconciled_provider::{Error, ErrorKind, Secret};
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Dir, FileType, Stat},
    io::Errno,
};
use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    sync::Arc,
};

/// Carries out requests in this process, with its rights.
#[derive(Clone, Debug)]
pub struct Here(Arc<Config>, Arc<Watches>);

impl Here {
    /// Hands that go where `config` allows.
    pub fn new(config: Arc<Config>) -> Here {
        Here(config, Arc::default())
    }

    /// Directories in which changes cannot be watched, such as where the kernel's limit is reached; each is in the log.
    pub fn unwatched(&self) -> Vec<String> {
        self.1.unwatched()
    }

    /// Whether the kernel tells what changes to whoever listens to [`Hands::changes`]: its queues are limited in number.
    pub(crate) fn is_told(&self) -> bool {
        self.1.are_told()
    }

    /// Runs `work`, which waits for the disk, where waiting hurts nobody.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Here) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let me = self.clone();
        let task = tokio::task::spawn_blocking(move || work(&me));
        task.await.map_err(|error| Error::unexpected("work on files").caused_by(error))
    }

    fn parent(&self, path: &FilePath) -> Result<Option<OwnedFd>, Refusal> {
        beneath::parent(&self.0.root, &self.0.paths, path)
    }

    /// What is there is what the request was made for; returns it with the directory it stands in.
    fn expected(&self, path: &FilePath, expect: super::Stamp) -> Result<(Seen, OwnedFd), Fault> {
        if self.0.is_reserved(path) {
            // Whatever a row of before says.
            let error = Error::permission_denied(format!("change {path}: it is reconciled's own"));
            return Err(error.hint("keep it: `reconciled forget`").into());
        }
        let parent = self.parent(path).map_err(Error::from)?;
        let Some(parent) = parent else {
            // It went since somebody looked, or what was to make it did not.
            return Err(Fault::NoEffect(no_directory(ErrorKind::Unavailable, path, path.parent())));
        };
        let seen = Look::new(self).at(path);
        if seen.stamp() != expect {
            return Err(Fault::NoEffect(replace::moved(path)));
        }
        Ok((seen, parent))
    }

    /// Keeps what somebody else wrote.
    fn keep(&self, seen: &Seen) -> Result<(), Error> {
        let Some(directory) = &self.0.originals else { return Ok(()) };
        match &seen.what {
            What::File { content, .. } => originals::keep(directory, &seen.path, content.reveal()),
            // A link says nothing but where it led.
            What::Link { target } => originals::keep(directory, &seen.path, target.as_bytes()),
            _ => Ok(()),
        }
    }

    /// Everything up to the command; none where nothing is left to do.
    fn stage(&self, put: &Put) -> Result<Option<Draft>, Fault> {
        let (seen, parent) = self.expected(&put.path, put.expect)?;
        let accounts = Accounts::read(&self.0.root);
        match (&seen.what, &put.make) {
            (What::Directory { .. }, Make::Directory { access }) => {
                replace::change_directory(&put.path, access, &parent, &accounts)?;
                Ok(None)
            }
            (What::Refused(refusal), _) => Err(Error::from(refusal.clone()).into()),
            (What::Directory { .. } | What::Other(_), _) => Err(in_the_way(&seen).into()),
            (What::File { .. } | What::Link { .. }, Make::Directory { .. }) => Err(in_the_way(&seen).into()),
            _ => Ok(Some(replace::draft(put, parent, &accounts)?)),
        }
    }

    /// How a command gets at the draft: by a name beside the file, so that names in it are found, where nobody else can
    /// put another file under that name.
    fn shown(&self, path: &FilePath, draft: &Draft) -> Result<Shown, Refusal> {
        let directory = self.0.root.join(path.parent().trim_start_matches('/'));
        match beneath::is_closed(&directory) {
            true => Ok(Shown::At(directory.join(&draft.name))),
            false => draft.read().map(Shown::Open).map_err(|errno| refusal("read the new", path, errno)),
        }
    }

    fn commit(&self, put: &Put, draft: Draft) -> Result<(), Fault> {
        // The race that is left is between this look and the rename.
        let (now, parent) = self.expected(&put.path, put.expect)?;
        let which = |directory: &OwnedFd| rustix::fs::fstat(directory).map(|stat| (stat.st_dev, stat.st_ino));
        if which(&parent).ok() != which(&draft.parent).ok() || !draft.has_its_name() {
            // While the command ran the directory was moved away and another one put in its place, or the draft was.
            return Err(Fault::NoEffect(replace::moved(&put.path)));
        }
        if put.keep {
            self.keep(&now)?;
        }
        replace::commit(put, draft, &now, &Accounts::read(&self.0.root))
    }

    fn take_away(&self, remove: &Remove) -> Result<(), Fault> {
        let path = &remove.path;
        let (seen, parent) = self.expected(path, remove.expect)?;
        if let What::Other(_) = &seen.what {
            return Err(in_the_way(&seen).into());
        }
        if remove.keep {
            self.keep(&seen)?;
        }
        replace::clear(&parent, path);
        let flags = match &seen.what {
            What::Absent => return Ok(()),
            What::Directory { .. } => AtFlags::REMOVEDIR,
            What::Refused(refusal) => return Err(Error::from(refusal.clone()).into()),
            _ => AtFlags::empty(),
        };
        match rustix::fs::unlinkat(&parent, path.name(), flags) {
            Ok(()) | Err(Errno::NOENT) => replace::sync(&parent, path),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                Err(Fault::NoEffect(Error::invalid(format!("delete {path}: it is not empty")).hint(
                    "what is in it was declared by nobody: remove that by hand, then: reconciled sync, or without a daemon \
                     reconciled apply; or keep the directory (`forget`)",
                )))
            }
            Err(errno) => Err(Fault::NoEffect(refusal("delete", path, errno).into())),
        }
    }
}

/// What is to be at `path` has nowhere to be, for want of `directory`.
pub(crate) fn no_directory(kind: ErrorKind, path: &FilePath, directory: &str) -> Error {
    let error = Error::new(kind, format!("make {path}: there is no directory {directory}"));
    error.hint(format!("declare it (kind: Directory, path: {directory}), or create it by hand"))
}

/// Something of another kind is there, which nobody asked to be deleted.
fn in_the_way(seen: &Seen) -> Error {
    let word = match &seen.what {
        What::Directory { .. } => "a directory",
        What::Link { .. } => "a symbolic link",
        What::Other(word) => &**word,
        _ => "a file",
    };
    Error::invalid(format!("{} is {word}", seen.path)).hint("remove it by hand, or declare it as what it is")
}

#[async_trait]
impl Hands for Here {
    async fn look(&self, paths: &[FilePath]) -> Result<Vec<Seen>, Error> {
        let paths = paths.to_vec();
        self.blocking(move |me| {
            let mut look = Look::new(me);
            paths.iter().map(|path| look.at(path)).collect()
        })
        .await
    }

    async fn list(&self, directory: &FilePath) -> Result<Vec<Seen>, Error> {
        let directory = directory.clone();
        self.blocking(move |me| {
            let mut look = Look::new(me);
            match me.0.paths.iter().any(|base| base == directory.as_str()) {
                true => look.base(&directory)?,
                false => look.below(&directory)?,
            }
            Ok(look.listed)
        })
        .await?
    }

    async fn list_all(&self) -> Result<Vec<Seen>, Error> {
        self.blocking(|me| {
            let mut look = Look::new(me);
            // The home of a user is gone to for the directory of units alone, unless `paths` names it as well.
            let times = |base: &String| me.0.paths.iter().filter(|path| *path == base).count();
            let is_listed = |base: &&String| Some(base.as_str()) != me.0.places.home() || times(base) > 1;
            for base in me.0.paths.iter().filter(is_listed).collect::<BTreeSet<_>>() {
                let base = FilePath::parse(base).map_err(|why| Error::invalid(format!("`{base}` {why}")))?;
                look.base(&base)?;
            }
            Ok(look.listed)
        })
        .await?
    }

    async fn put(&self, put: &Put) -> Result<(), Fault> {
        let request = put.clone();
        let Some(mut draft) = self.blocking(move |me| me.stage(&request)).await?? else { return Ok(()) };
        if let Make::File { validate: Some(name), is_public, .. } = &put.make {
            let commands = self.0.commands.iter().flatten();
            let Some((_, argv)) = commands.clone().find(|(known, _)| *known == name) else {
                return Err(command::unknown(name, commands.map(|(known, _)| &**known)).into());
            };
            let command = Command { name, argv, limit: self.0.timeout, is_public: *is_public };
            let path = put.path.clone();
            let (shown, staged) = self.blocking(move |me| (me.shown(&path, &draft), draft)).await?;
            draft = staged;
            let shown = shown.map_err(Error::from)?;
            command::accepts(&command, shown, &put.path).await?;
        }
        let request = put.clone();
        self.blocking(move |me| me.commit(&request, draft)).await?
    }

    async fn remove(&self, remove: &Remove) -> Result<(), Fault> {
        let request = remove.clone();
        self.blocking(move |me| me.take_away(&request)).await?
    }

    async fn check(&self, check: &super::Check, asked: super::Asked<'_>) -> Result<(), super::Unwell> {
        super::check::run(check, asked, self.0.commands.as_ref(), self.0.timeout).await
    }

    async fn watch(&self, scope: &'static str, watched: Watched) -> Result<(), Error> {
        self.1.set(&self.0, scope, watched).await;
        Ok(())
    }

    fn changes(&self) -> BoxStream<'static, Vec<Change>> {
        self.1.changes(&self.0)
    }
}

/// One look, with what is known for its length.
struct Look<'a> {
    here: &'a Here,
    accounts: Accounts,
    /// Directories, and whether every user may pass them and those above.
    open_to_all: HashMap<String, bool>,
    /// The directory that was gone to last, and by which name: of many paths most stand side by side.
    last: Option<(String, OwnedFd)>,
    listed: Vec<Seen>,
    /// Octets of the files that were listed.
    content: u64,
}

/// Octets that listing holds at most: everything in a purged directory is looked at each time.
const MOST_CONTENT: u64 = 64 << 20;
/// Levels of directories that are listed.
const DEEPEST: usize = 64;

impl<'a> Look<'a> {
    fn new(here: &'a Here) -> Look<'a> {
        let accounts = Accounts::read(&here.0.root);
        Look { here, accounts, open_to_all: HashMap::new(), last: None, listed: Vec::new(), content: 0 }
    }

    fn at(&mut self, path: &FilePath) -> Seen {
        if let Some((_, parent)) = self.last.take_if(|(directory, _)| *directory == path.parent()) {
            return self.beside(parent, path);
        }
        match self.here.parent(path) {
            Ok(Some(parent)) => self.beside(parent, path),
            Ok(None) => Seen { lacks_directory: true, ..Seen::only(path.clone(), What::Absent) },
            Err(refusal) => Seen::only(path.clone(), What::Refused(refusal)),
        }
    }

    fn beside(&mut self, parent: OwnedFd, path: &FilePath) -> Seen {
        let seen = self.entry(&parent, path);
        self.last = Some((path.parent().to_owned(), parent));
        seen
    }

    fn entry(&mut self, parent: &OwnedFd, path: &FilePath) -> Seen {
        let (what, mode, changed) = match what(parent, path, &self.accounts) {
            Ok(found) => found,
            Err(Errno::NOENT) => (What::Absent, 0, 0),
            Err(errno) => (What::Refused(refusal("look at", path, errno)), 0, 0),
        };
        let is_public = mode & 0o004 != 0 && self.is_open_to_all(path.parent());
        Seen { is_public, changed, ..Seen::only(path.clone(), what) }
    }

    fn is_open_to_all(&mut self, directory: &str) -> bool {
        if let Some(known) = self.open_to_all.get(directory) {
            return *known;
        }
        let is_open = beneath::is_open_to_all(&self.here.0.root, directory);
        self.open_to_all.insert(directory.to_owned(), is_open);
        is_open
    }

    /// Lists what is below a directory; nothing where there is none.
    fn below(&mut self, directory: &FilePath) -> Result<(), Error> {
        let Some(parent) = self.here.parent(directory)? else { return Ok(()) };
        match beneath::directory(&parent, directory.name()) {
            Ok(open) => self.descend(&open, directory),
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(refusal("list", directory, errno).into()),
        }
    }

    /// Lists what is below an allowed directory. It is reached through its first entry, since it is below none itself.
    fn base(&mut self, base: &FilePath) -> Result<(), Error> {
        let Some(inside) = base.join("x") else { return Ok(()) };
        match self.here.parent(&inside)? {
            Some(open) => self.descend(&open, base),
            None => Ok(()),
        }
    }

    fn descend(&mut self, open: &OwnedFd, directory: &FilePath) -> Result<(), Error> {
        // Each level holds a descriptor.
        if directory.as_str().matches('/').count() > DEEPEST {
            let text = format!("list {directory}: it is deeper than {DEEPEST} directories");
            return Err(Error::new(ErrorKind::Unsupported, text).hint("name a smaller directory"));
        }
        let failed = |errno| Error::from(refusal("list", directory, errno));
        let entries = Dir::read_from(open).map_err(failed)?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            // What a manifest could not name is nobody's here: drafts of ours, and names that are no text.
            let name = entry.file_name().to_str().unwrap_or_default();
            if !matches!(name, "" | "." | "..") && !name.starts_with(DRAFT) {
                names.extend(directory.join(name));
            }
        }
        names.sort();
        for path in names {
            if self.listed.len() >= MOST_ENTRIES {
                let text = format!("list {directory}: there are more than {MOST_ENTRIES} entries");
                return Err(Error::new(ErrorKind::Unsupported, text).hint("name a smaller directory"));
            }
            if self.here.0.is_reserved(&path) {
                continue;
            }
            let seen = self.entry(open, &path);
            match &seen.what {
                // It went between the two looks.
                What::Absent => continue,
                What::File { content, .. } => self.content += content.reveal().len() as u64,
                What::Directory { .. } => match beneath::on_this_mount(open, path.name()) {
                    Ok(inner) => {
                        self.listed.push(seen);
                        self.descend(&inner, &path)?;
                        continue;
                    }
                    // What is mounted there is another matter, and so is whatever goes meanwhile.
                    Err(Errno::XDEV | Errno::NOENT) => continue,
                    Err(errno) => return Err(refusal("list", &path, errno).into()),
                },
                _ => {}
            }
            if self.content > MOST_CONTENT {
                let text = format!("list {directory}: its files hold more than {} MiB", MOST_CONTENT >> 20);
                return Err(Error::new(ErrorKind::Unsupported, text).hint("name a smaller directory"));
            }
            self.listed.push(seen);
        }
        Ok(())
    }
}

/// What stands in `parent` under the name of `path`, its permissions, and when it became so.
fn what(parent: &OwnedFd, path: &FilePath, accounts: &Accounts) -> Result<(What, u32, u64), Errno> {
    let stat = rustix::fs::statat(parent, path.name(), AtFlags::SYMLINK_NOFOLLOW)?;
    let mode = |stat: &Stat| stat.st_mode & 0o7777;
    let meta = |stat: &Stat| Meta {
        owner: accounts.user(stat.st_uid),
        group: accounts.group(stat.st_gid),
        mode: mode(stat),
    };
    let changed = |stat: &Stat| {
        let micros =
            stat.st_ctime.saturating_mul(1_000_000).saturating_add(stat.st_ctime_nsec as i64 / 1_000);
        u64::try_from(micros).unwrap_or_default()
    };
    let (what, mode) = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let (content, stat) = beneath::content(parent, Path::new(path.name()))?;
            let what = What::File { meta: meta(&stat), content: Secret::new(content) };
            return Ok((what, mode(&stat), changed(&stat)));
        }
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(parent, path.name(), Vec::new())?;
            // Where a link leads may be read by whoever gets there. No manifest could name what is no text.
            match target.to_str().ok().filter(|target| !target.contains(|c: char| c.is_control())) {
                Some(target) => (What::Link { target: target.into() }, 0o444),
                None => (What::Other("a symbolic link to what is no text".into()), 0),
            }
        }
        FileType::Directory => (What::Directory { meta: meta(&stat) }, mode(&stat)),
        FileType::Socket => (What::Other("a socket".into()), 0),
        FileType::Fifo => (What::Other("a pipe".into()), 0),
        FileType::BlockDevice | FileType::CharacterDevice => (What::Other("a device".into()), 0),
        FileType::Unknown => (What::Other("of no known type".into()), 0),
    };
    Ok((what, mode, changed(&stat)))
}
