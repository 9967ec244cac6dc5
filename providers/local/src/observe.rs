//! What is there, in canonical bytes.
//!
//! A host cannot be listed, so what is looked at is what is declared or tracked, and what is in directories that are to
//! be purged. What is as declared is reported in the bytes declared; of the rest, content is in clear only where every
//! user of the host may read it, and where neither side came from a secret.

use crate::{
    block,
    hands::{Account, Hands, Meta, Seen, Watched, What},
    normalize::FILES,
    path::FilePath,
    state::{self, Access, Block, Content, Directory, File, Refusal, Shape},
};
use bytes::Bytes;
use reconciled_provider::{
    Cx, Error, ErrorKind, Focus, Observation, Observed, Resource, ResourceId, Sealed, SecretMark, Told,
    Tracked, Version, Want,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What a tracked resource remembers: the mark of the content that was written last, whether it came from a secret, and
/// the command that had to accept it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written {
    pub(crate) mark: SecretMark,
    pub(crate) is_secret: bool,
    pub(crate) validate: Option<Arc<str>>,
}

impl Written {
    pub(crate) fn seal(self) -> Sealed {
        let word = if self.is_secret { "secret" } else { "clear" };
        let validate = self.validate.map(|name| format!(" {name}")).unwrap_or_default();
        Sealed::new(format!("{} {word}{validate}", self.mark.0))
    }
    pub(crate) fn open(sealed: &Sealed) -> Option<Written> {
        let text = std::str::from_utf8(&sealed.0).ok()?;
        let (mark, rest) = text.split_once(' ')?;
        let (word, validate) = rest.split_once(' ').map_or((rest, None), |(word, name)| (word, Some(name)));
        Some(Written {
            mark: SecretMark(reconciled_provider::Hash::from_hex(mark)?),
            is_secret: word == "secret",
            validate: validate.map(Arc::from),
        })
    }
}

/// One resource, to be looked at.
pub(crate) struct Target<'a> {
    pub(crate) id: ResourceId,
    pub(crate) desired: Option<&'a Resource>,
    pub(crate) tracked: Option<&'a Tracked>,
}

/// Reads what is wanted of the files.
pub(crate) async fn observe(hands: &dyn Hands, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
    let mut targets: BTreeMap<ResourceId, Target<'_>> = BTreeMap::new();
    let target = |id: &ResourceId| Target { id: id.clone(), desired: None, tracked: None };
    for desired in want.desired {
        targets.entry(desired.id.clone()).or_insert_with(|| target(&desired.id)).desired = Some(desired);
    }
    for tracked in want.tracked {
        targets.entry(tracked.id.clone()).or_insert_with(|| target(&tracked.id)).tracked = Some(tracked);
    }
    let purged = purged(&targets);
    if *want.focus == Focus::All {
        // Before anything is looked at: what changes from here on is told.
        hands.watch(FILES, watched(&targets, &purged)).await?;
    }
    let mut resources = Vec::new();
    let (strays, unlisted) = strays(hands, &targets, &purged).await;
    for stray in strays {
        let id: ResourceId = stray.path.as_str().into();
        if want.focus.covers(&id) {
            resources.extend(observed(cx, &target(&id), &stray));
        }
    }
    targets.retain(|id, _| want.focus.covers(id));
    let mut paths: BTreeMap<FilePath, Vec<&Target<'_>>> = BTreeMap::new();
    for target in targets.values() {
        // What no version could have written is nowhere.
        if let Ok(path) = FilePath::parse(state::parts(&target.id).0) {
            paths.entry(path).or_default().push(target);
        }
    }
    let list: Vec<FilePath> = paths.keys().cloned().collect();
    for mut seen in hands.look(&list).await? {
        if let Some(error) = unlisted.get(&seen.path) {
            let Told { kind, message, hint, .. } = error.clone().into_told();
            seen.what = What::Refused(Refusal { kind, message, hint });
        }
        let of_path = paths.get(&seen.path).into_iter().flatten();
        resources.extend(of_path.filter_map(|target| observed(cx, target, &seen)));
    }
    resources.sort_by(|a, b| a.id.cmp(&b.id));
    let (covered, version) = (want.focus.clone(), Version::Unknown);
    Ok(Observation { covered, complete: true, version, resources })
}

/// The directories in which only what is declared shall stay.
fn purged(targets: &BTreeMap<ResourceId, Target<'_>>) -> BTreeSet<FilePath> {
    let is_purged = |target: &&Target<'_>| {
        let bytes = target.desired.and_then(|desired| desired.spec.bytes());
        // Of thousands of files none is read whole for that.
        let bytes = bytes.filter(|bytes| Shape::is_directory(bytes));
        matches!(bytes.and_then(Shape::decode), Some(Shape::Directory(Directory { purge: true, .. })))
    };
    targets.values().filter(is_purged).filter_map(|target| FilePath::parse(&target.id.0).ok()).collect()
}

fn watched(targets: &BTreeMap<ResourceId, Target<'_>>, purged: &BTreeSet<FilePath>) -> Watched {
    let paths = targets.keys().filter_map(|id| FilePath::parse(state::parts(id).0).ok());
    Watched { paths: paths.collect(), directories: purged.clone() }
}

/// What is in purged directories and is neither declared nor tracked, nor the way to something that is or cannot be deleted;
/// and why one cannot be listed, which is no matter of the others.
async fn strays(
    hands: &dyn Hands,
    targets: &BTreeMap<ResourceId, Target<'_>>,
    purged: &BTreeSet<FilePath>,
) -> (Vec<Seen>, BTreeMap<FilePath, Error>) {
    let (mut strays, mut unlisted) = (BTreeMap::new(), BTreeMap::new());
    if purged.is_empty() {
        return (Vec::new(), unlisted);
    }
    let mut known: BTreeSet<FilePath> = BTreeSet::new();
    let mut stays = |path: FilePath| {
        let mut next = Some(path);
        while let Some(path) = next {
            next = path.directory();
            known.insert(path);
        }
    };
    targets
        .values()
        .filter_map(|target| FilePath::parse(state::parts(&target.id).0).ok())
        .for_each(&mut stays);
    for directory in purged {
        match hands.list(directory).await {
            Ok(listed) => {
                // What no request deletes would hold up all else for ever.
                let cannot_go = |seen: &&Seen| matches!(seen.what, What::Other(_) | What::Refused(_));
                listed.iter().filter(cannot_go).map(|seen| seen.path.clone()).for_each(&mut stays);
                strays.extend(listed.into_iter().map(|seen| (seen.path.clone(), seen)));
            }
            Err(error) => {
                unlisted.insert(directory.clone(), error);
            }
        }
    }
    strays.retain(|path, _| !known.contains(path));
    (strays.into_values().collect(), unlisted)
}

/// What was seen at a path, as the resource that is asked for; none where there is none.
pub(crate) fn observed(cx: &Cx, target: &Target<'_>, seen: &Seen) -> Option<Observed> {
    let desired = target.desired.and_then(|desired| Shape::decode(desired.spec.bytes()?));
    let written = target.tracked.and_then(|tracked| Written::open(&tracked.private));
    let is_secret = written.as_ref().is_some_and(|written| written.is_secret)
        || desired.as_ref().is_some_and(|desired| matches!(content(desired), Some(Content::Secret { .. })));
    let form = Form { cx, is_public: seen.is_public && !is_secret, desired: desired.as_ref() };
    let (shape, clear) = match state::parts(&target.id).1 {
        None => form.whole(&seen.what)?,
        Some(name) => form.block(name, seen)?,
    };
    let bytes = match (&desired, target.desired.and_then(|desired| desired.spec.bytes())) {
        (Some(desired), Some(bytes)) if is_as_declared(desired, &shape, &seen.what) => bytes.to_vec(),
        _ => shape.encode(),
    };
    let mut observed = Observed::new(target.id.clone(), bytes);
    if let Some(clear) = clear {
        let validate = desired.as_ref().and_then(validate).cloned();
        observed.private = Written { mark: cx.secrets.mark(&clear), is_secret, validate }.seal();
    }
    Some(observed)
}

/// The content of a declared shape.
pub(crate) fn content(shape: &Shape) -> Option<&Content> {
    match shape {
        Shape::File(file) => Some(&file.content),
        Shape::Block(block) => Some(&block.content),
        _ => None,
    }
}

/// The command that must accept a declared shape.
pub(crate) fn validate(shape: &Shape) -> Option<&Arc<str>> {
    match shape {
        Shape::File(file) => file.validate.as_ref(),
        Shape::Block(block) => block.validate.as_ref(),
        _ => None,
    }
}

/// True when what was seen is all that was declared; content that is equal has been given the declared form already.
fn is_as_declared(desired: &Shape, seen: &Shape, what: &What) -> bool {
    match (desired, seen, what) {
        (Shape::File(desired), Shape::File(seen), What::File { meta, .. }) => {
            has_access(&desired.access, meta) && desired.content == seen.content
        }
        (Shape::Directory(desired), Shape::Directory(_), What::Directory { meta }) => {
            has_access(&desired.access, meta)
        }
        (Shape::Block(desired), Shape::Block(seen), _) => desired.content == seen.content,
        (desired, seen, _) => desired == seen,
    }
}

fn has_access(desired: &Access, seen: &Meta) -> bool {
    seen.owner.is(desired.owner.as_deref())
        && seen.group.is(desired.group.as_deref())
        && seen.mode == desired.mode
}

/// In which form things are reported.
struct Form<'a> {
    cx: &'a Cx,
    is_public: bool,
    desired: Option<&'a Shape>,
}

impl Form<'_> {
    /// What stands at a path as a whole, and its content in clear, for the mark of it.
    fn whole(&self, what: &What) -> Option<(Shape, Option<Vec<u8>>)> {
        Some(match what {
            What::Absent => return None,
            What::File { meta, content } => {
                let desired = match self.desired {
                    Some(Shape::File(file)) => Some(file),
                    _ => None,
                };
                let file = File {
                    access: access(meta, desired.map(|file| &file.access)),
                    // It is no matter of what is there.
                    validate: desired.and_then(|file| file.validate.clone()),
                    content: self.content(content.reveal()),
                };
                (Shape::File(file), Some(content.reveal().to_vec()))
            }
            What::Link { target } => {
                (Shape::Link { target: target.clone() }, Some(target.as_bytes().to_vec()))
            }
            What::Directory { meta } => {
                let desired = match self.desired {
                    Some(Shape::Directory(directory)) => Some(directory),
                    _ => None,
                };
                let access = access(meta, desired.map(|directory| &directory.access));
                let purge = desired.is_some_and(|directory| directory.purge);
                (Shape::Directory(Directory { access, purge }), None)
            }
            What::Other(word) => (Shape::Other { word: word.clone() }, None),
            What::Refused(refusal) => (Shape::Refused(refusal.clone()), None),
        })
    }

    /// A block of a file. A file that is not there has none.
    fn block(&self, name: &str, seen: &Seen) -> Option<(Shape, Option<Vec<u8>>)> {
        let content = match &seen.what {
            What::Absent => return None,
            What::File { content, .. } => content.reveal(),
            What::Refused(refusal) => return Some((Shape::Refused(refusal.clone()), None)),
            _ => return Some((Shape::Refused(no_block(seen)), None)),
        };
        let inner = match block::find(content, name) {
            Ok(None) => return None,
            Ok(Some(found)) => self.without_added_line_end(&content[found.inner]),
            Err(line) => return Some((Shape::Refused(broken_block(&seen.path, name, line)), None)),
        };
        let (comment, validate) = match self.desired {
            Some(Shape::Block(block)) => (block.comment.clone(), block.validate.clone()),
            _ => ("#".into(), None),
        };
        let block = Block { comment, validate, content: self.content(inner) };
        Some((Shape::Block(block), Some(inner.to_vec())))
    }

    /// What is in a block, without the line end that was added to a secret: nobody could know that it needs one.
    fn without_added_line_end<'c>(&self, inner: &'c [u8]) -> &'c [u8] {
        let Some(Content::Secret { mark, .. }) = self.desired.and_then(content) else { return inner };
        match inner.strip_suffix(b"\n") {
            Some(stripped) if *mark != self.cx.secrets.mark(inner).0 => stripped,
            _ => inner,
        }
    }

    /// Content in the declared form where it is as declared; else in clear or as a mark.
    fn content(&self, seen: &[u8]) -> Content {
        let mark = || self.cx.secrets.mark(seen).0;
        match self.desired.and_then(content) {
            Some(Content::Clear(desired)) if desired[..] == *seen => return Content::Clear(desired.clone()),
            Some(secret @ Content::Secret { mark: desired, .. }) if *desired == mark() => {
                return secret.clone();
            }
            // What is ignored is wanted as it was seen.
            Some(Content::Mark { mark: kept, length }) if *kept == mark() => {
                return Content::Mark { mark: *kept, length: *length };
            }
            _ => {}
        }
        match self.is_public {
            true => Content::Clear(Bytes::copy_from_slice(seen)),
            false => Content::Mark { mark: mark(), length: seen.len() as u64 },
        }
    }
}

/// What is there can have no block in it.
pub(crate) fn no_block(seen: &Seen) -> Refusal {
    let path = &seen.path;
    let (message, hint) = match &seen.what {
        What::Link { target } => (
            format!("{path} is a symbolic link, and a block is put into no file behind one"),
            format!("declare the block with the path of the file itself; the link leads to {target}"),
        ),
        _ => (
            format!("{path} is no file that could have a block in it"),
            "remove it by hand, or declare the block with the path of a file".into(),
        ),
    };
    Refusal { kind: ErrorKind::Invalid, message, hint: Some(hint) }
}

/// The markers of a block are no pair.
pub(crate) fn broken_block(path: &FilePath, name: &str, line: usize) -> Refusal {
    Refusal {
        kind: ErrorKind::Invalid,
        message: format!("{path}:{line}: the markers of block `{name}` are not one pair"),
        hint: Some(
            "mend the file by hand: one line BEGIN reconciled NAME, and behind it one END reconciled NAME"
                .into(),
        ),
    }
}

/// Owner, group and permissions as they are reported: what is as declared in the words of the declaration, and one's own
/// only by name where another one is declared.
fn access(seen: &Meta, desired: Option<&Access>) -> Access {
    let word = |account: &Account, declared: Option<&Option<Arc<str>>>| match declared {
        Some(declared) if account.is(declared.as_deref()) => declared.clone(),
        Some(_) => Some(account.named()),
        None => (!account.is_own).then(|| account.named()),
    };
    Access {
        owner: word(&seen.owner, desired.map(|desired| &desired.owner)),
        group: word(&seen.group, desired.map(|desired| &desired.group)),
        mode: seen.mode,
    }
}
