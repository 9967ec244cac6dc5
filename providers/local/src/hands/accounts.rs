//! Names of users and groups, from the machine's own lists (`/etc/passwd`, `/etc/group`).
//!
//! They are read as text, so that they may be those of another root, and because the C library's answer may come over a
//! network. An account that is elsewhere is declared by its number.

use super::beneath::LARGEST;
use reconciled_provider::Error;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, openat2};
use serde::{Deserialize, Serialize};
use std::{fs::File, io::Read, path::Path, sync::Arc};

/// Someone who files belong to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The number.
    pub id: u32,
    /// Its names in the machine's own list, the first one first: one number may have several.
    pub names: Vec<Arc<str>>,
    /// True for the one that the hands run as: what is declared without a name.
    pub is_own: bool,
}

impl Account {
    /// True when `declared` means this one.
    pub fn is(&self, declared: Option<&str>) -> bool {
        match declared {
            None => self.is_own,
            Some(text) => self.names.iter().any(|name| &**name == text) || text.parse() == Ok(self.id),
        }
    }
    /// The name, or the number where it has none.
    pub fn named(&self) -> Arc<str> {
        self.names.first().cloned().unwrap_or_else(|| self.id.to_string().into())
    }
}

/// The names of one machine.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    users: Vec<(Arc<str>, u32)>,
    groups: Vec<(Arc<str>, u32)>,
}

impl Accounts {
    /// Reads the lists below `root`. What is not there has no names.
    pub(crate) fn read(root: &Path) -> Accounts {
        let list = |name: &str| open(root, name).map(|file| parse(&content(file))).unwrap_or_default();
        Accounts { users: list("etc/passwd"), groups: list("etc/group") }
    }

    /// The user with this number.
    pub(crate) fn user(&self, id: u32) -> Account {
        named(&self.users, id, rustix::process::geteuid().as_raw())
    }
    /// The group with this number.
    pub(crate) fn group(&self, id: u32) -> Account {
        named(&self.groups, id, rustix::process::getegid().as_raw())
    }

    /// The number of a declared user; none where the process's own is meant.
    pub(crate) fn user_id(&self, declared: Option<&str>) -> Result<Option<u32>, Error> {
        number(&self.users, declared, "user", "useradd")
    }
    /// The number of a declared group; none where the process's own is meant.
    pub(crate) fn group_id(&self, declared: Option<&str>) -> Result<Option<u32>, Error> {
        number(&self.groups, declared, "group", "groupadd")
    }
}

/// The home of the user with this number, in the list of the machine below `root`.
pub(crate) fn home(root: &Path, id: u32) -> Option<String> {
    let text = content(open(root, "etc/passwd")?);
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_that = fields.get(2)?.parse() == Ok(id);
        is_that.then(|| fields.get(5).map(|home| (*home).to_owned())).flatten()
    })
}

/// Opens a regular file below `root`: links of another root lead nowhere else, and a pipe keeps nobody waiting.
fn open(root: &Path, name: &str) -> Option<File> {
    let root =
        rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat2(&root, name, flags, Mode::empty(), ResolveFlags::IN_ROOT).ok()?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file).ok()?.st_mode);
    (kind == FileType::RegularFile).then(|| File::from(file))
}

/// The text of a list. Comments in it may be in any encoding.
fn content(file: File) -> String {
    let mut octets = Vec::new();
    // What was read before an error counts.
    let _ = file.take(LARGEST).read_to_end(&mut octets);
    String::from_utf8_lossy(&octets).into_owned()
}

/// `NAME:x:NUMBER:…` in each line; what is no such line is left out.
fn parse(text: &str) -> Vec<(Arc<str>, u32)> {
    let entry = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty() && !name.starts_with(['#', '+', '-']))?;
        Some((name.into(), fields.nth(1)?.parse().ok()?))
    };
    text.lines().filter_map(entry).collect()
}

fn named(list: &[(Arc<str>, u32)], id: u32, own: u32) -> Account {
    let names = list.iter().filter(|(_, known)| *known == id).map(|(name, _)| name.clone());
    Account { id, names: names.collect(), is_own: id == own }
}

fn number(
    list: &[(Arc<str>, u32)],
    declared: Option<&str>,
    what: &str,
    tool: &str,
) -> Result<Option<u32>, Error> {
    let Some(text) = declared else { return Ok(None) };
    let known = list.iter().find(|(name, _)| &**name == text).map(|(_, id)| *id);
    // -1 means "leave it" to the kernel.
    let id = known.or_else(|| text.parse().ok().filter(|id| *id != u32::MAX));
    id.map(Some).ok_or_else(|| {
        Error::unavailable(format!("this host has no {what} `{text}`")).hint(format!(
            "create it ({tool} {text}); one that is not in the host's own lists is written as its number"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_lists_and_numbers_always_do() {
        let list = parse("root:x:0:0:root:/root:/bin/sh\n#x:x:1\n\n+nis::\nweb:x:33:33::/:\nbad:x:y\n");
        assert_eq!(list, [("root".into(), 0), ("web".into(), 33)]);
        let id = |text| number(&list, text, "user", "useradd");
        assert_eq!(id(None).unwrap(), None);
        assert_eq!(id(Some("web")).unwrap(), Some(33));
        assert_eq!(id(Some("4711")).unwrap(), Some(4711));
        assert!(id(Some("nobody-here")).unwrap_err().message.contains("no user `nobody-here`"));
        assert!(id(Some("4294967295")).is_err());
        let twice = parse("root:x:0:\ntoor:x:0:\n");
        let root = named(&twice, 0, 7);
        assert!(root.is(Some("root")) && root.is(Some("toor")) && !root.is(Some("web")));
        assert_eq!(&*root.named(), "root");
        let web = named(&list, 33, 0);
        assert!(web.is(Some("web")) && web.is(Some("33")) && !web.is(None) && !web.is(Some("root")));
        assert_eq!((&*web.named(), &*named(&list, 7, 0).named()), ("web", "7"));
        assert!(named(&list, 0, 0).is(None));
    }
}
