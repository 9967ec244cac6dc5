//! Where a certificate is used: a directory whose files change all at once.
//!
//! The files are links into `..data`, which is a link to the directory of one version: one rename switches key and chain
//! together, as a kubelet does it. A version is written and flushed completely before. Readers that hold a file open keep
//! what they have. Files of others become such a version first, as they are.
//!
//! Guarantees: nothing is written through a link that somebody put into the way; a key has its owner and permissions before
//! it has content; of a directory that another certificate is put into nothing is touched. The order of steps is here alone;
//! whoever has the rights takes each of them ([`place`](crate::place)).

mod layout;
mod view;

pub(crate) use layout::DATA;
pub use layout::{CA, CHAIN, COMBINED, KEY, KEYSTORE, NAMES};
pub use view::View;
pub(crate) use view::version;

use crate::{
    directory::failed,
    kept::{Issued, Mark},
    key, keystore,
    place::{Content, File, Place, Spot},
    wish::Output,
};
use layout::MARK;
use reconciled_provider::{Error, ErrorKind, Hash};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};
use zeroize::Zeroizing;

/// What is there under one of our names.
pub enum There {
    /// A file, with its content.
    File(Zeroizing<Vec<u8>>),
    /// A link of somebody else, to there. It is not followed.
    Link(PathBuf),
    /// A file larger than any of ours.
    Huge,
    /// Something that is no file.
    Other,
}

impl There {
    /// What it is, in words for people; none for a file.
    pub(crate) fn word(&self) -> Option<String> {
        match self {
            There::File(_) => None,
            There::Link(to) => Some(format!("a link to {}", to.to_string_lossy().escape_debug())),
            There::Huge => Some("larger than any certificate".into()),
            There::Other => Some("no file".into()),
        }
    }
}

/// What is there: its name, and what it is.
pub type Found = (&'static str, There);

/// A copy of what is there: how it is called, and what is in it.
pub type Copy = (String, Zeroizing<Vec<u8>>);

/// The files of a certificate; a PKCS #12 file only once it is made.
pub fn files(output: &Output, issued: &Issued) -> Vec<File> {
    let file = |name, bytes: &[u8], mode| File { name, bytes: Zeroizing::new(bytes.to_vec()), mode };
    let secret = issued.key.secret();
    let older = if output.pkcs1 { key::older(&secret) } else { None };
    // Another program may have made it, or a version of this one that wrote the public half as well.
    let other = older.or_else(|| key::first_version(&secret));
    let (key, chain) = (other.as_deref().map_or(secret.reveal(), Vec::as_slice), issued.chain.as_bytes());
    let mut files = vec![file(CHAIN, chain, 0o644), file(KEY, key, output.mode)];
    if let Some(ca) = &issued.ca {
        files.push(file(CA, ca.as_bytes(), 0o644));
    }
    if output.combined {
        // A key that was adopted may end without the end of its line.
        let end: &[u8] = if key.ends_with(b"\n") { b"" } else { b"\n" };
        let both = Zeroizing::new([key, end, chain].concat());
        files.push(file(COMBINED, &both, output.mode));
    }
    if let Some(bytes) = keystore::file(issued, output.keystore.as_ref()) {
        files.push(File { name: KEYSTORE, bytes, mode: output.mode });
    }
    files
}

/// What is not as it should be, in words for people; nothing when all is.
pub fn troubles(view: &View, output: &Output, files: &[File]) -> Result<Vec<String>, Error> {
    if !view.is_there()? {
        return Ok(files.iter().map(|file| format!("{} is missing", file.name)).collect());
    }
    let mut troubles = Vec::new();
    // Nobody may be there any more whom files could belong to, and what is there can be deleted all the same.
    let ids = match ids(view.own, output) {
        Ok(ids) => Some(ids),
        Err(error) if error.kind == ErrorKind::Invalid => {
            troubles.push(error.into_told().message);
            None
        }
        Err(error) => return Err(error),
    };
    for file in files {
        let found = match view.spot(file.name)? {
            Spot::File(content) => content,
            Spot::Nothing => {
                troubles.push(format!("{} is missing", file.name));
                continue;
            }
            Spot::Link(_) | Spot::Other | Spot::Huge => {
                troubles.push(format!("{} is no file of ours", file.name));
                continue;
            }
        };
        if *found.bytes != *file.bytes {
            troubles.push(format!("{} is not what was issued", file.name));
        }
        if found.mode != file.mode {
            troubles.push(format!("{} has mode {:04o}, not {:04o}", file.name, found.mode, file.mode));
        }
        let Content { user: uid, group: gid, .. } = found;
        if let Some((user, group)) = ids.filter(|ids| *ids != (*uid, *gid)) {
            troubles.push(format!("{} belongs to {uid}:{gid}, not to {user}:{group}", file.name));
        }
    }
    for name in NAMES.iter().filter(|name| !files.iter().any(|file| file.name == **name)) {
        if *name == KEYSTORE && output.keystore.is_some() {
            troubles.push(format!("{name} is not of this certificate, or has another password"));
        // What somebody else put beside ours is theirs.
        } else if view.is_ours(name) {
            troubles.push(format!("{name} is not wanted any more"));
        }
    }
    Ok(troubles)
}

/// What is there instead of what should be, of each of `files` that has something else in it: its bytes, or where a link of
/// somebody else leads.
pub(crate) fn others<'a>(
    view: &'a View,
    files: &'a [File],
) -> impl Iterator<Item = (&'static str, &'a [u8])> {
    files.iter().filter_map(|file| match view.spot(file.name).ok()? {
        Spot::File(content) if *content.bytes != *file.bytes => Some((file.name, &content.bytes[..])),
        Spot::Link(to) => Some((file.name, to.as_os_str().as_encoded_bytes())),
        Spot::File(_) | Spot::Nothing | Spot::Huge | Spot::Other => None,
    })
}

/// What is in the directory under our names, whoever put it there.
pub fn found(view: &View, output: &Output) -> Result<Vec<Found>, Error> {
    if !view.is_there()? {
        return Ok(Vec::new());
    }
    // What others keep there under the name of a file that is not wanted is no matter of ours.
    let is_asked = |name: &&str| *name != KEYSTORE || output.keystore.is_some();
    let there = |name| match view.spot(name) {
        Ok(spot) => Some(Ok((name, there(spot)?))),
        Err(error) => Some(Err(error)),
    };
    NAMES.into_iter().filter(is_asked).filter_map(there).collect()
}

fn there(spot: &Spot) -> Option<There> {
    Some(match spot {
        Spot::Nothing => return None,
        Spot::File(content) => There::File(content.bytes.clone()),
        Spot::Huge => There::Huge,
        Spot::Link(to) => There::Link(to.clone()),
        Spot::Other => There::Other,
    })
}

/// Copies of what is replaced by `files`, and was not put there by us.
///
/// Errors: `Invalid` when there is something that cannot be copied.
pub fn foreign(view: &View, output: &Output, files: &[File]) -> Result<Vec<Copy>, Error> {
    let mut foreign = Vec::new();
    for file in files.iter().filter(|file| !view.is_ours(file.name)) {
        let there = there(view.spot(file.name)?);
        let is_same = matches!(&there, Some(There::File(bytes)) if **bytes == *file.bytes);
        if let Some(there) = there.filter(|_| !is_same) {
            foreign.push(copy(output, file.name, there)?);
        }
    }
    Ok(foreign)
}

/// What is to be kept of what is replaced: of a link, where it leads, since what is there stays.
///
/// Errors: `Invalid` when it cannot be copied.
pub(crate) fn copy(output: &Output, name: &str, there: There) -> Result<Copy, Error> {
    let word = there.word().unwrap_or_default();
    match there {
        There::File(bytes) => Ok((name.into(), bytes)),
        There::Link(to) => Ok((format!("{name}.link"), to.into_os_string().into_encoded_bytes().into())),
        There::Huge | There::Other => Err(Error::invalid(format!("{}/{name} is {word}", output.directory))
            .hint("it is not replaced: move it away")),
    }
}

/// Puts the files of a certificate into their directory, which is marked with `mark`, in place of what is in `view`, of which
/// copies were made. `version` tells versions apart, in 16 hexadecimal digits.
///
/// Errors: `Invalid` when another certificate is put there, or a link is in the way, or something of another program;
/// `PermissionDenied` where others may write; `Conflict` where what is there is not what is in `view` any more.
pub async fn put(
    place: &dyn Place,
    view: &View,
    mark: &Mark,
    version: &str,
    output: &Output,
    files: &[File],
    passed: fn(&str),
) -> Result<(), Error> {
    let owner = ids(place.own(), output)?;
    let directory = Path::new(&output.directory);
    place.make(directory).await?;
    if view.is_foreign {
        let message = format!("{}/{DATA} was put there by another program", output.directory);
        return Err(
            Error::invalid(message).hint("take another directory for the certificate, or move it away")
        );
    }
    claim(place, view, output, mark).await?;
    // What was begun before may be why the disk is full.
    let _ = sweep(place, directory, view.version.as_deref()).await;
    let mut names = Names::of(view);
    stage(place, view, &mut names, version, files, owner, passed).await?;
    let target = write_version(place, directory, version, files, owner).await?;
    passed("certificate.draft");
    let wanted: Vec<&str> = files.iter().map(|file| file.name).collect();
    names.switch(place, &target, &wanted, passed).await?;
    // Names of ours that are not wanted any more.
    for name in NAMES.iter().filter(|name| !wanted.contains(name) && view.is_ours(name)) {
        place.remove(&directory.join(name), &ours(name)).await?;
    }
    place.settle(directory).await?;
    // What stays is told by the next look.
    let _ = sweep(place, directory, Some(&target)).await;
    Ok(())
}

/// Marks a directory, in which the files are as they should be, and removes what was begun in it.
///
/// Errors: `Invalid` when another certificate is put there.
pub(crate) async fn tidy(place: &dyn Place, view: &View, output: &Output, mark: &Mark) -> Result<(), Error> {
    claim(place, view, output, mark).await?;
    match view.left.is_empty() {
        true => Ok(()),
        false => sweep(place, &view.directory, view.version.as_deref()).await,
    }
}

/// Writes a version; how its directory is called. One that could not be finished is removed, as far as that goes.
async fn write_version(
    place: &dyn Place,
    directory: &Path,
    version: &str,
    files: &[File],
    owner: (u32, u32),
) -> Result<String, Error> {
    let target = free_name(place, directory, version).await?;
    let there = directory.join(&target);
    if let Err(error) = place.write_version(&there, files, owner).await {
        let _ = place.remove_version(&there).await;
        return Err(error);
    }
    Ok(target)
}

/// Makes what others have there under our names a version of its own, so that one rename switches all of it later on. Whoever
/// reads key and chain while one name after the other leads elsewhere would have one of each pair; so each shows what it showed.
async fn stage(
    place: &dyn Place,
    view: &View,
    now: &mut Names,
    version: &str,
    files: &[File],
    owner: (u32, u32),
    passed: fn(&str),
) -> Result<(), Error> {
    let is_foreign_pair = |name| {
        let is_there = !matches!(view.spot(name), Ok(Spot::Nothing));
        [CHAIN, KEY].contains(&name) && !view.is_ours(name) && is_there
    };
    if !files.iter().any(|file| is_foreign_pair(file.name)) {
        return Ok(());
    }
    let (mut theirs, mut links) = (Vec::new(), Vec::new());
    for File { name, mode, .. } in files {
        match there(view.spot(name)?) {
            Some(There::File(bytes)) => theirs.push(File { name, bytes, mode: *mode }),
            // It is not followed, but leads where it led.
            Some(There::Link(to)) => links.push((*name, view.directory.join(to))),
            Some(There::Huge | There::Other) | None => {}
        }
    }
    let target = write_version(place, &view.directory, version, &theirs, owner).await?;
    let there = view.directory.join(&target);
    for (name, to) in &links {
        place.link(&there.join(name), to, &Spot::Nothing).await?;
    }
    place.settle(&there).await?;
    let names: Vec<&str> =
        theirs.iter().map(|file| file.name).chain(links.iter().map(|(name, _)| *name)).collect();
    now.switch(place, &target, &names, passed).await
}

/// Takes the files of the certificate with this mark, which was `issued`, away again; those of others stay.
pub async fn withdraw(place: &dyn Place, mark: &Mark, output: &Output, issued: &Issued) -> Result<(), Error> {
    let view = View::of(place, output).await;
    if !view.is_there()? {
        return Ok(());
    }
    let taken_over = taken_over(&view, output, issued);
    let is_its = view.version().is_some_and(|version| issued.has_version(version));
    match view.mark()? {
        Some(owner) if mark.is(owner) => {}
        // Somebody took the mark away, or it was never there, and nobody else came. Who is killed on the way finds it again.
        None if is_its || !taken_over.is_empty() => claim(place, &view, output, mark).await?,
        Some(_) | None => return Ok(()),
    }
    for name in NAMES.into_iter().filter(|name| view.is_ours(name)) {
        place.remove(&view.directory.join(name), &ours(name)).await?;
    }
    for (name, file) in &taken_over {
        place.remove(&view.directory.join(name), file).await?;
    }
    if !view.is_foreign {
        place.remove(&view.directory.join(DATA), &view.data).await?;
    }
    // Before the mark: what has a key in it is not left where nobody looks for it.
    sweep(place, &view.directory, None).await?;
    let at = view.directory.join(MARK);
    let marked = place.look(std::slice::from_ref(&at)).await?.pop().unwrap_or(Ok(Spot::Nothing))?;
    place.remove(&at, &marked).await?;
    // What is not empty belongs to others as well.
    let _ = place.remove_empty(&view.directory).await;
    Ok(())
}

/// Files that stand in the directory as somebody else put them, and that are in use so: what has anything else in it stays theirs.
fn taken_over(view: &View, output: &Output, issued: &Issued) -> Vec<(&'static str, Spot)> {
    let files = files(output, issued);
    let is_in_use = |name: &str, bytes: &[u8]| {
        let is_it = |file: &File| file.name == name && file.bytes[..] == *bytes;
        files.iter().any(is_it) || issued.has_adopted(&view.directory.join(name), bytes)
    };
    let stands = |name| match view.itself(name) {
        Spot::File(file) if is_in_use(name, &file.bytes) => Some((name, Spot::File(file))),
        _ => None,
    };
    NAMES.into_iter().filter_map(stands).collect()
}

/// Hashes of the `files` that stand in the directory as somebody else put them, by their paths.
pub(crate) fn adopted(view: &View, files: &[File]) -> BTreeMap<PathBuf, Hash> {
    let stands = |file: &File| match view.itself(file.name) {
        Spot::File(found) if *found.bytes == *file.bytes => {
            Some((view.directory.join(file.name), Hash::of(&found.bytes)))
        }
        _ => None,
    };
    files.iter().filter_map(stands).collect()
}

/// Takes the directory from whoever marked it.
pub(crate) async fn take(place: &dyn Place, view: &View, mark: &Mark) -> Result<(), Error> {
    // What cannot be believed is not written to either.
    view.is_there()?;
    place.write(&view.directory.join(MARK), &mark.today(), &view.mark_spot).await
}

/// Makes a directory that of the certificate with the mark `heir`, with all that is in it.
pub(crate) async fn hand_over(
    place: &dyn Place,
    mark: &Mark,
    heir: &Mark,
    output: &Output,
) -> Result<(), Error> {
    let view = View::of(place, output).await;
    match view.is_there()? && view.is_of(mark)? {
        true => take(place, &view, heir).await,
        false => Ok(()),
    }
}

/// Two certificates in one directory would overwrite each other for ever.
async fn claim(place: &dyn Place, view: &View, output: &Output, mark: &Mark) -> Result<(), Error> {
    if let Some(other) = view.other_owner(mark)? {
        return Err(taken(output, &other));
    }
    match view.mark()? == Some(&*mark.today()) {
        true => Ok(()),
        false => take(place, view, mark).await,
    }
}

/// The directory is another certificate's.
pub(crate) fn taken(output: &Output, owner: &str) -> Error {
    let directory = &output.directory;
    Error::invalid(format!("{directory} is where {owner} is put")).hint(format!(
        "give each its own directory, and of two that exchange theirs first one a third; if that certificate is gone for good: \
         rm {directory}/{MARK}"
    ))
}

async fn free_name(place: &dyn Place, directory: &Path, version: &str) -> Result<String, Error> {
    for number in 0_u32.. {
        let name = format!("..{version}.{number}");
        match place.look(&[directory.join(&name)]).await?.pop() {
            Some(Ok(Spot::Nothing)) => return Ok(name),
            Some(Err(error)) => return Err(error),
            _ => {}
        }
    }
    Ok(format!("..{version}"))
}

/// The link of ours with this name.
fn ours(name: &str) -> Spot {
    Spot::Link(Path::new(DATA).join(name))
}

/// What is under each name as far as we know: what was seen, and then what we put there. What somebody else puts there
/// meanwhile is found by the next look, and copied, before anything takes its place.
struct Names {
    directory: PathBuf,
    data: Spot,
    all: BTreeMap<&'static str, Spot>,
}

impl Names {
    fn of(view: &View) -> Names {
        let all = NAMES.into_iter().map(|name| (name, view.itself(name))).collect();
        Names { directory: view.directory.clone(), data: view.data.clone(), all }
    }

    /// Has the names show what is in the version `target`.
    async fn switch(
        &mut self,
        place: &dyn Place,
        target: &str,
        names: &[&'static str],
        passed: fn(&str),
    ) -> Result<(), Error> {
        let to = PathBuf::from(target);
        place.link(&self.directory.join(DATA), &to, &self.data).await?;
        self.data = Spot::Link(to);
        for name in names {
            let over = self.all.entry(name).or_insert(Spot::Nothing);
            if *over != ours(name) {
                place.link(&self.directory.join(name), &Path::new(DATA).join(name), over).await?;
                *over = ours(name);
                passed("certificate.link");
            }
        }
        place.settle(&self.directory).await
    }
}

/// Removes versions of ours that nobody reads any more, each whatever keeps another one.
async fn sweep(place: &dyn Place, directory: &Path, keep: Option<&str>) -> Result<(), Error> {
    let mut swept = Ok(());
    for name in view::left(place, directory, keep).await {
        swept = swept.and(place.remove_version(&directory.join(name)).await);
    }
    swept
}

/// Says whether there is anybody whom the files can belong to.
///
/// Errors: `Invalid` where there is not.
pub(crate) fn check_owner(output: &Output) -> Result<(), Error> {
    ids((0, 0), output).map(drop)
}

/// Numbers of the user and the group the files belong to; `own` where nobody is named.
fn ids(own: (u32, u32), output: &Output) -> Result<(u32, u32), Error> {
    let user = output.owner.as_ref().map_or(Ok(own.0), |name| number("user", USERS, name))?;
    let group = output.group.as_ref().map_or(Ok(own.1), |name| number("group", GROUPS, name))?;
    Ok((user, group))
}

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// Where the names are that files belong to.
pub(crate) fn names_of(output: &Output) -> impl Iterator<Item = &'static str> {
    let users = output.owner.is_some().then_some(USERS);
    users.into_iter().chain(output.group.is_some().then_some(GROUPS))
}

/// Read as text: the C library might ask the network.
fn number(what: &str, list: &str, name: &str) -> Result<u32, Error> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let path = PathBuf::from(list);
    let text = fs::read_to_string(&path).map_err(|error| failed("read", &path, error))?;
    let found = text.lines().find_map(|line| {
        let mut parts = line.split(':');
        (parts.next() == Some(name)).then(|| parts.nth(1)?.parse().ok()).flatten()
    });
    found.ok_or_else(|| {
        Error::invalid(format!("there is no {what} `{name}` on this host"))
            .hint(format!("{list} has the names"))
    })
}
