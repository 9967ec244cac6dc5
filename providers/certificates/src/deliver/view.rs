//! What is in the directory of a certificate at one moment, and whose it is.
//!
//! Guarantees: it is looked at with few questions, since somebody else may have to be asked each of them; no link is followed but
//! one of ours, and that by the name of the version it leads to.

use super::layout::{DATA, MARK, NAMES, fingerprint, is_version};
use crate::{
    kept::Mark,
    place::{Files, Place, Spot, Trust},
    wish::Output,
};
use reconciled_provider::Error;
use std::path::{Path, PathBuf};

/// What was in the directory of a certificate at one moment. There are keys in it, so it is not printed.
pub struct View {
    pub(super) directory: PathBuf,
    pub(super) own: (u32, u32),
    trust: Result<Trust, Error>,
    mark: Result<Option<String>, Error>,
    /// What the mark was read out of.
    pub(super) mark_spot: Spot,
    /// What [`DATA`] is.
    pub(super) data: Spot,
    /// There is a [`DATA`] that leads elsewhere than ours ever does: other programs call theirs so too.
    pub(super) is_foreign: bool,
    /// The directory of the version in place, where it is one of ours.
    pub(super) version: Option<String>,
    /// Versions of ours that are not in place: of a process that died, or whose removal failed.
    pub(super) left: Vec<String>,
    names: Vec<Named>,
}

/// What was there under one of our names.
struct Named {
    name: &'static str,
    /// It is a link like those we put there.
    is_link: bool,
    /// Where the content is: a link of ours leads there, and no other one is followed.
    spot: Result<Spot, Error>,
    /// What is there under the name itself.
    itself: Spot,
}

impl View {
    /// Looks at the directory of a certificate. What cannot be looked at is said by whoever needs it.
    pub async fn of(place: &dyn Place, output: &Output) -> View {
        let directory = PathBuf::from(&output.directory);
        let trust = place.trust(&directory).await;
        let is_there = matches!(trust, Ok(Trust::There));
        let names: &[&str] = if is_there { &NAMES } else { &[] };
        let data = is_there.then_some(DATA);
        let all = [MARK].into_iter().chain(data).chain(names.iter().copied());
        let paths: Vec<PathBuf> = all.map(|name| directory.join(name)).collect();
        let mut view = View {
            directory,
            own: place.own(),
            trust,
            mark: Ok(None),
            mark_spot: Spot::Nothing,
            data: Spot::Nothing,
            is_foreign: false,
            version: None,
            left: Vec::new(),
            names: Vec::new(),
        };
        if let Err(error) = view.look(place, &paths).await {
            view.mark = Err(error.clone());
            // What is wrong with the directory itself is told before it.
            view.trust = view.trust.and(Err(error));
        }
        view
    }

    async fn look(&mut self, place: &dyn Place, paths: &[PathBuf]) -> Result<(), Error> {
        let mut seen = place.look(paths).await?.into_iter();
        let mark = seen.next().unwrap_or(Ok(Spot::Nothing));
        self.mark_spot = mark.as_ref().cloned().unwrap_or(Spot::Other);
        self.mark = owner(&self.directory, mark);
        // What could not be read may be ours or not.
        self.data = seen.next().unwrap_or(Ok(Spot::Nothing))?;
        match &self.data {
            Spot::Link(to) => {
                self.version = to.to_str().filter(|name| is_version(name)).map(str::to_owned);
                self.is_foreign = self.version.is_none();
            }
            Spot::Nothing => {}
            Spot::File(_) | Spot::Huge | Spot::Other => self.is_foreign = true,
        }
        for (name, spot) in NAMES.into_iter().zip(seen) {
            let is_link = matches!(&spot, Ok(Spot::Link(to)) if *to == Path::new(DATA).join(name));
            let itself = spot.as_ref().cloned().unwrap_or(Spot::Other);
            self.names.push(Named { name, is_link, spot, itself });
        }
        // Ours is looked at where it leads: no way through a link is taken.
        let ours: Vec<usize> =
            (0..self.names.len()).filter(|at| self.is_ours(self.names[*at].name)).collect();
        let within = match &self.version {
            Some(version) => {
                let version = self.directory.join(version);
                let paths: Vec<_> = ours.iter().map(|at| version.join(self.names[*at].name)).collect();
                if paths.is_empty() { Vec::new() } else { place.look(&paths).await? }
            }
            None => ours.iter().map(|_| Ok(Spot::Nothing)).collect(),
        };
        for (at, spot) in ours.into_iter().zip(within) {
            self.names[at].spot = spot;
        }
        if self.version.is_some() || matches!(self.mark, Ok(Some(_))) {
            self.left = left(place, &self.directory, self.version.as_deref()).await;
        }
        Ok(())
    }

    /// What says whether anything changed of what was looked at; none where not all of it is a version of ours.
    pub(crate) fn files(&self) -> Option<Files> {
        let version = self.version.as_ref().filter(|_| self.left.is_empty())?;
        let version = self.directory.join(version);
        let mut exact = vec![self.directory.clone(), self.directory.join(MARK)];
        for Named { name, is_link, itself, .. } in &self.names {
            match (is_link, itself) {
                (true, _) => exact.push(version.join(name)),
                (false, Spot::Nothing) => {}
                (false, _) => return None,
            }
        }
        exact.push(version);
        Some(Files { exact, way: self.directory.parent().map(Path::to_owned) })
    }

    fn named(&self, name: &str) -> Option<&Named> {
        self.names.iter().find(|named| named.name == name)
    }

    /// True when a name is the link we put there.
    pub(super) fn is_ours(&self, name: &str) -> bool {
        !self.is_foreign && self.named(name).is_some_and(|named| named.is_link)
    }

    pub(super) fn spot(&self, name: &str) -> Result<&Spot, Error> {
        match self.named(name) {
            Some(Named { spot: Ok(spot), .. }) => Ok(spot),
            Some(Named { spot: Err(error), .. }) => Err(error.clone()),
            None => Ok(&Spot::Nothing),
        }
    }

    /// What is under a name, of which nothing is followed.
    pub(super) fn itself(&self, name: &str) -> Spot {
        self.named(name).map_or(Spot::Nothing, |named| named.itself.clone())
    }

    pub(super) fn is_there(&self) -> Result<bool, Error> {
        Ok(self.trust.clone()? == Trust::There)
    }

    /// The mark of the directory.
    pub(crate) fn mark(&self) -> Result<Option<&str>, Error> {
        match &self.mark {
            Ok(mark) => Ok(mark.as_deref()),
            Err(error) => Err(error.clone()),
        }
    }

    /// True when the directory is the certificate's that has this mark.
    pub(crate) fn is_of(&self, mark: &Mark) -> Result<bool, Error> {
        Ok(self.mark()?.is_some_and(|owner| mark.is(owner)))
    }

    /// The certificate that is put into the directory, in words for people, if its mark is another one than `mark`.
    pub fn other_owner(&self, mark: &Mark) -> Result<Option<String>, Error> {
        Ok(self.mark()?.and_then(|owner| mark.other(owner)))
    }

    /// The other instance that put its certificate into the directory, where the mark names one.
    pub(crate) fn other_instance(&self, mark: &Mark) -> Result<Option<&str>, Error> {
        Ok(self.mark()?.and_then(|owner| mark.other_instance(owner)))
    }

    /// The beginning of the fingerprint that the version in place was put there with, where one of ours is.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref().map(fingerprint)
    }

    /// That the directory is marked otherwise than with `mark`, in words for people.
    pub(crate) fn marked_otherwise(&self, mark: &Mark) -> Result<Option<String>, Error> {
        Ok(self.mark()?.and_then(|owner| match mark.former(owner) {
            Some(former) => Some(format!("it is marked as {former}, as the entry was called before")),
            None => mark.other(owner).map(|other| format!("{other} is put there")),
        }))
    }

    /// What is not right with the directory of the certificate that has this mark, and is kept, whatever its files are.
    pub(crate) fn disorder(&self, mark: &Mark) -> Result<Vec<String>, Error> {
        // Where it was adopted as it is, [`View::is_unmarked`] says so.
        let is_unmarked = self.version.is_some() && self.mark()?.is_none();
        let unmarked = is_unmarked.then(|| format!("{MARK}, which says whose it is, is missing"));
        Ok(self.marked_otherwise(mark)?.into_iter().chain(unmarked).collect())
    }

    /// True where files stand as somebody else put them, and nothing says whose the directory is.
    pub(crate) fn is_unmarked(&self) -> Result<bool, Error> {
        let is_file = |named: &Named| matches!(named.itself, Spot::File(_));
        let is_theirs = self.version.is_none() && !self.is_foreign && self.names.iter().any(is_file);
        Ok(is_theirs && self.mark()?.is_none())
    }

    /// What was begun there and not finished, or could not be removed, in words for people.
    pub(crate) fn left_over(&self) -> impl Iterator<Item = String> {
        self.left.iter().map(|version| format!("{version} is left over"))
    }
}

/// Versions of ours but the one in place. What cannot be listed is not told of: nothing is removed for that.
pub(super) async fn left(place: &dyn Place, directory: &Path, version: Option<&str>) -> Vec<String> {
    let mut left = place.directories(directory).await.unwrap_or_default();
    left.retain(|name| is_version(name) && Some(&**name) != version);
    left.sort();
    left
}

/// That of the version in place, where one of ours is.
pub(crate) async fn version(place: &dyn Place, output: &Output) -> Result<Option<String>, Error> {
    let data = Path::new(&output.directory).join(DATA);
    Ok(match place.look(&[data]).await?.pop() {
        // What may not be read any more is where it was before.
        Some(Ok(Spot::Link(to))) => {
            to.to_str().filter(|name| is_version(name)).map(|name| fingerprint(name).to_owned())
        }
        _ => None,
    })
}

/// What the mark says; none where there is none, or an empty one, which a full disk leaves.
fn owner(directory: &Path, seen: Result<Spot, Error>) -> Result<Option<String>, Error> {
    match seen? {
        Spot::Nothing => Ok(None),
        Spot::File(content) if content.bytes.is_empty() => Ok(None),
        Spot::File(content) => Ok(Some(String::from_utf8_lossy(&content.bytes).into_owned())),
        Spot::Link(_) | Spot::Other | Spot::Huge => {
            let mark = directory.join(MARK);
            Err(Error::invalid(format!("{} is no mark of ours", mark.display()))
                .hint("somebody else put it there: remove it, or take another directory"))
        }
    }
}
