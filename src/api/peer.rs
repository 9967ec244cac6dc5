//! Who is on the other side of a connection, as the kernel says.

use super::accounts::{group, group_of, user};
use crate::config::Api;
use std::{fs, net::SocketAddr, os::unix::fs::MetadataExt, path::Path, sync::Arc};
use tokio::net::UnixStream;

/// The other side of a connection.
#[derive(Clone, Debug)]
pub(super) enum Peer {
    /// A process of this host.
    Process {
        /// User id; none where the kernel did not say.
        uid: Option<u32>,
        gid: Option<u32>,
        /// Its other groups, which `/etc/group` need not know: those of a directory service, of a unit.
        groups: Arc<[u32]>,
    },
    /// Somebody at this address.
    Network(SocketAddr),
}

impl Peer {
    /// True for root and this process's own user.
    pub(super) fn is_owner(&self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        matches!(self, Peer::Process { uid: Some(uid), .. } if *uid == 0 || *uid == own)
    }
    /// Whether this process may make files in `directory`, by its owner, group and mode: root and this process's own user
    /// may wherever it is. Access control lists are not looked at.
    pub(super) fn may_write(&self, directory: &Path) -> bool {
        let Peer::Process { uid: Some(uid), .. } = self else { return false };
        if self.is_owner() {
            return true;
        }
        let Ok(found) = fs::metadata(directory) else { return false };
        let is_member = || {
            let is_listed = || group_of(found.gid()).is_some_and(|g| g.members.contains(&user(*uid)));
            self.is_in(found.gid()) || is_listed()
        };
        // As the kernel does: of the three only the first that is meant counts.
        let bits = match *uid == found.uid() {
            true => found.mode() >> 6,
            false if is_member() => found.mode() >> 3,
            false => found.mode(),
        };
        bits & 0o3 == 0o3
    }
    /// Whether the kernel has the process in a group, as its own or as another one.
    fn is_in(&self, group: u32) -> bool {
        matches!(self, Peer::Process { gid, groups, .. } if *gid == Some(group) || groups.contains(&group))
    }
    pub(super) fn of(stream: &UnixStream) -> Peer {
        let Ok(found) = stream.peer_cred() else {
            return Peer::Process { uid: None, gid: None, groups: Arc::default() };
        };
        let status = found.pid().and_then(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok());
        let groups = status.and_then(|status| groups_in(&status, found.uid(), found.gid()));
        Peer::Process {
            uid: Some(found.uid()),
            gid: Some(found.gid()),
            groups: groups.unwrap_or_default().into(),
        }
    }
}

/// The other groups of a process, by what `/proc` has of it.
///
/// Race: the one that connected may have ended since, and another one have its number. That one counts only as the same user
/// and group, who might have connected itself.
fn groups_in(status: &str, uid: u32, gid: u32) -> Option<Vec<u32>> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    // Real, effective, saved, of file access: the socket has told the second.
    let effective = |name: &str| field(name)?.split_whitespace().nth(1)?.parse().ok();
    let is_same = effective("Uid") == Some(uid) && effective("Gid") == Some(gid);
    let groups = field("Groups").filter(|_| is_same)?;
    Some(groups.split_whitespace().filter_map(|group| group.parse().ok()).collect())
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
    pub(super) fn lets(&self, peer: &Peer) -> Option<String> {
        let Peer::Process { uid: Some(uid), .. } = peer else { return None };
        let name = user(*uid);
        if peer.is_owner() {
            return Some(name);
        }
        let group = group(self.group.as_deref()?)?;
        (peer.is_in(group.id) || group.members.contains(&name)).then_some(name)
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
        let peer = |uid: u32, gid: u32| Peer::Process { uid: Some(uid), gid: Some(gid), groups: [].into() };
        assert_eq!(door(None).lets(&peer(0, 0)).as_deref(), Some("root"));
        assert!(door(None).lets(&peer(own, 54_321)).is_some());
        assert_eq!(door(None).lets(&peer(54_321, 0)), None);
        assert_eq!(door(Some("root")).lets(&peer(54_321, 54_321)), None);
        assert_eq!(door(Some("root")).lets(&peer(54_321, 0)).as_deref(), Some("uid 54321"));
        // Of a directory service, or of the unit that the process is of.
        let peer_with =
            |groups: &[u32]| Peer::Process { uid: Some(54_321), gid: Some(54_321), groups: groups.into() };
        assert_eq!(door(Some("root")).lets(&peer_with(&[54_322, 0])).as_deref(), Some("uid 54321"));
        assert_eq!(door(Some("root")).lets(&peer_with(&[54_322])), None);
        assert_eq!(door(None).lets(&peer_with(&[0])), None);
        assert_eq!(door(Some("no-such-group")).lets(&peer(54_321, 0)), None);
        assert_eq!(door(None).lets(&Peer::Process { uid: None, gid: None, groups: [0].into() }), None);
        assert_eq!(door(Some("root")).lets(&Peer::Network("127.0.0.1:1".parse().unwrap())), None);
    }

    #[test]
    fn who_may_write_a_directory_is_read_from_its_owner_group_and_mode() {
        let folder = tempfile::tempdir().unwrap();
        let found = fs::metadata(folder.path()).unwrap();
        let (own, group, other) = (found.uid(), found.gid(), 54_321);
        let check = |mode: u32, uid: u32, gid: u32, expect: bool| {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            let peer = Peer::Process { uid: Some(uid), gid: Some(gid), groups: [].into() };
            assert_eq!(peer.may_write(folder.path()), expect, "{mode:o} {uid} {gid}");
            // The same as one of its other groups.
            let peer = Peer::Process { uid: Some(uid), gid: Some(54_322), groups: [54_323, gid].into() };
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
        let peer = Peer::Process { uid: Some(other), gid: Some(group), groups: [].into() };
        assert!(!peer.may_write(&folder.path().join("none")));
        assert!(!Peer::Process { uid: None, gid: None, groups: [group].into() }.may_write(folder.path()));
    }

    #[test]
    fn the_groups_of_a_process_count_only_while_its_number_is_its_own() {
        let status = "Name:\tcurl\nUid:\t0\t65534\t0\t0\nGid:\t0\t65534\t0\t0\nGroups:\t60 1001 \n";
        assert_eq!(groups_in(status, 65_534, 65_534), Some(vec![60, 1001]));
        assert_eq!(groups_in(&status.replace("60 1001 ", ""), 65_534, 65_534), Some(vec![]));
        assert_eq!(groups_in(status, 0, 65_534), None);
        assert_eq!(groups_in(status, 65_534, 0), None);
        assert_eq!(groups_in("Name:\tcurl\n", 65_534, 65_534), None);
    }

    #[tokio::test]
    async fn the_kernel_says_in_which_groups_a_peer_is() {
        let (one, _other) = UnixStream::pair().unwrap();
        let mut own: Vec<u32> =
            rustix::process::getgroups().unwrap().into_iter().map(rustix::process::Gid::as_raw).collect();
        own.sort_unstable();
        let Peer::Process { uid, groups, .. } = Peer::of(&one) else { panic!("it is a process") };
        assert_eq!((uid, &*groups), (Some(rustix::process::geteuid().as_raw()), &*own));
    }
}
