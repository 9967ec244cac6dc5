//! Users and groups of this host, as its own files have them.

use std::fs;

/// A group of this host.
pub(super) struct Group {
    pub(super) id: u32,
    pub(super) members: Vec<String>,
}

/// The group of this name.
pub(super) fn group(name: &str) -> Option<Group> {
    found(|known, _| known == name)
}

/// The group of this number.
pub(super) fn group_of(id: u32) -> Option<Group> {
    found(|_, known| known == id)
}

fn found(is_meant: impl Fn(&str, u32) -> bool) -> Option<Group> {
    let text = fs::read_to_string("/etc/group").ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let id = fields.nth(1)?.parse().ok()?;
        if !is_meant(name, id) {
            return None;
        }
        let members = fields.next().unwrap_or_default().split(',').map(String::from).collect();
        Some(Group { id, members })
    })
}

/// The name of a user of this host, or its number where it has none.
pub fn user(uid: u32) -> String {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_string())
    });
    name.unwrap_or_else(|| format!("uid {uid}"))
}

/// The number of a group of this host.
pub fn group_id(name: &str) -> Option<u32> {
    group(name).map(|group| group.id)
}

/// What to do where there is no group that `api.group` names.
pub fn no_group(name: &str) -> (String, String) {
    (
        format!("there is no group `{name}`, which `api.group` names"),
        format!("make it: groupadd --system {name}"),
    )
}
