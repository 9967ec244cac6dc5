//! Who is on the other side of a connection, as the kernel says.

use crate::config::Api;
use std::{fs, net::SocketAddr, os::unix::fs::MetadataExt, path::Path, sync::Arc};
use tokio::net::UnixStream;

/// The other side of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Peer {
    /// A process of this host.
    Process {
        /// User id; none where the kernel did not say.
        uid: Option<u32>,
        gid: Option<u32>,
    },
    /// Somebody at this address.
    Network(SocketAddr),
}

impl Peer {
    /// True for root and this process's own user.
    pub(super) fn is_owner(self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        matches!(self, Peer::Process { uid: Some(uid), .. } if uid == 0 || uid == own)
    }
    /// Whether this process may make files in `directory`, by its owner, group and mode: root and this process's own user
    /// may wherever it is. Access control lists are not looked at.
    pub(super) fn may_write(self, directory: &Path) -> bool {
        let Peer::Process { uid: Some(uid), gid } = self else { return false };
        if self.is_owner() {
            return true;
        }
        let Ok(found) = fs::metadata(directory) else { return false };
        let is_member = || {
            gid == Some(found.gid()) || group_of(found.gid()).is_some_and(|g| g.members.contains(&user(uid)))
        };
        // As the kernel does: of the three only the first that is meant counts.
        let bits = match uid == found.uid() {
            true => found.mode() >> 6,
            false if is_member() => found.mode() >> 3,
            false => found.mode(),
        };
        bits & 0o3 == 0o3
    }
    pub(super) fn of(stream: &UnixStream) -> Peer {
        let credentials = stream.peer_cred().ok();
        Peer::Process { uid: credentials.map(|c| c.uid()), gid: credentials.map(|c| c.gid()) }
    }
}

/// A group of this host.
pub(super) struct Group {
    pub(super) id: u32,
    members: Vec<String>,
}

/// The group of this name.
pub(super) fn group(name: &str) -> Option<Group> {
    found(|known, _| known == name)
}

/// The group of this number.
fn group_of(id: u32) -> Option<Group> {
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

/// The name of a user, or its number where it has none here.
pub(super) fn user(uid: u32) -> String {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_string())
    });
    name.unwrap_or_else(|| format!("uid {uid}"))
}

/// Who may come in.
#[derive(Clone, Debug)]
pub(super) struct Door {
    group: Option<Arc<str>>,
}

impl Door {
    pub(super) fn of(api: &Api) -> Door {
        Door { group: api.group.clone() }
    }

    /// The name of a peer that may come in: root, this process's own user, members of the group.
    pub(super) fn lets(&self, peer: Peer) -> Option<String> {
        let Peer::Process { uid: Some(uid), gid } = peer else { return None };
        let name = user(uid);
        if peer.is_owner() {
            return Some(name);
        }
        let group = group(self.group.as_deref()?)?;
        (gid == Some(group.id) || group.members.contains(&name)).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn root_and_the_own_user_come_in_and_others_only_through_the_group() {
        let own = rustix::process::geteuid().as_raw();
        let door = |group: Option<&str>| Door { group: group.map(Arc::from) };
        let peer = |uid: u32, gid: u32| Peer::Process { uid: Some(uid), gid: Some(gid) };
        assert_eq!(door(None).lets(peer(0, 0)).as_deref(), Some("root"));
        assert!(door(None).lets(peer(own, 54_321)).is_some());
        assert_eq!(door(None).lets(peer(54_321, 0)), None);
        assert_eq!(door(Some("root")).lets(peer(54_321, 54_321)), None);
        assert_eq!(door(Some("root")).lets(peer(54_321, 0)).as_deref(), Some("uid 54321"));
        assert_eq!(door(Some("no-such-group")).lets(peer(54_321, 0)), None);
        assert_eq!(door(None).lets(Peer::Process { uid: None, gid: None }), None);
        assert_eq!(door(Some("root")).lets(Peer::Network("127.0.0.1:1".parse().unwrap())), None);
    }

    #[test]
    fn who_may_write_a_directory_is_read_from_its_owner_group_and_mode() {
        let folder = tempfile::tempdir().unwrap();
        let found = fs::metadata(folder.path()).unwrap();
        let (own, group, other) = (found.uid(), found.gid(), 54_321);
        let check = |mode: u32, uid: u32, gid: u32, expect: bool| {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            let peer = Peer::Process { uid: Some(uid), gid: Some(gid) };
            assert_eq!(peer.may_write(folder.path()), expect, "{mode:o} {uid} {gid}");
        };
        check(0o700, own, group, true);
        check(0o700, 0, 0, true);
        check(0o775, other, other, false);
        check(0o775, other, group, true);
        check(0o755, other, group, false);
        check(0o777, other, other, true);
        // The group's own bits count for its members, and not those of all others.
        check(0o757, other, group, false);
        let peer = Peer::Process { uid: Some(other), gid: Some(group) };
        assert!(!peer.may_write(&folder.path().join("none")));
        assert!(!Peer::Process { uid: None, gid: None }.may_write(folder.path()));
    }
}
