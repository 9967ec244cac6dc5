//! Where the daemon listens: one unix socket, mode 0660 for a group, else 0600; and an address, where one is
//! configured.

use super::accounts::{group, no_group};
use crate::{config::Api, failure::Failure};
use std::{
    fs,
    io::ErrorKind,
    os::unix::{
        fs::{FileTypeExt, MetadataExt, PermissionsExt, chown},
        net::UnixStream,
    },
    path::{Path, PathBuf},
};
use tokio::net::{TcpListener, UnixListener};

/// What listens.
pub struct Socket {
    /// None once it is served.
    listener: Option<UnixListener>,
    path: PathBuf,
    /// None once it is served, and where no address is configured.
    address: Option<TcpListener>,
}

/// Who finds no socket knows at once that no daemon is there.
impl Drop for Socket {
    fn drop(&mut self) {
        if is_socket(&self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What is where the socket is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A socket at which nobody answers any more.
    Left,
    /// A socket at which somebody answers.
    Answering,
}

/// Looks at the place of the socket.
///
/// Errors: what is there is no socket, so it is somebody's; it cannot be told whether anybody answers there.
pub fn look_at(path: &Path) -> Result<Found, Failure> {
    let shown = path.display();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => {
            let hint = "name a place that can be reached as `api.socket`";
            return Err(Failure::hinted(format!("look at {shown}: {error}"), hint));
        }
        Ok(found) if !found.file_type().is_socket() => {
            return Err(Failure::hinted(
                format!("{shown} is there and is no socket, so it is not replaced"),
                "name another place as `api.socket`, or move away what is there",
            ));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => Ok(Found::Answering),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(Found::Left),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Found::Nothing),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(Failure::hinted(
            format!("{shown} is there, and this user may not use it"),
            "be a member of `api.group`, or root",
        )),
        Err(error) => Err(Failure::hinted(
            format!("find out whether anybody answers at {shown}: {error}"),
            "remove it if no program uses it, or name another `api.socket`",
        )),
    }
}

/// What to do where members of `api.group` cannot reach the socket.
pub const BARRED: &str = "name a place that they may enter as `api.socket`, such as /run/reconciled/api.sock";

/// Why members of `api.group` cannot reach the socket: a directory above it does not let them in, by its group and mode.
/// Access control lists are not looked at; a directory that is not there yet is made so that everybody may enter.
pub fn barred(api: &Api) -> Option<String> {
    let name = api.group.as_deref()?;
    let group = group(name)?.id;
    let is_shut = |folder: &&Path| {
        let Ok(found) = fs::metadata(folder) else { return false };
        let bits = if found.gid() == group { found.mode() >> 3 } else { found.mode() };
        bits & 0o1 == 0
    };
    let folder = api.socket.ancestors().skip(1).filter(|folder| folder.has_root()).find(is_shut)?;
    Some(format!(
        "members of the group {name} cannot reach {}: {} does not let them in",
        api.socket.display(),
        folder.display()
    ))
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

impl Socket {
    /// Makes the socket; one that a dead daemon left is replaced, and nothing else is. Listens at the address, if there is one.
    ///
    /// Errors: somebody answers there, or something else is there; the place cannot be written, the group does not exist, the address is
    /// another program's or not this host's.
    pub async fn bind(api: &Api) -> Result<Socket, Failure> {
        let path = &api.socket;
        let cannot = |what: &str, error: std::io::Error| {
            Failure::hinted(
                format!("{what} {}: {error}", path.display()),
                "name a place that can be written, of at most 107 bytes, as `api.socket`",
            )
        };
        if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
            fs::create_dir_all(folder).map_err(|error| cannot("make the directory of the socket", error))?;
            let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o755));
        }
        match look_at(path)? {
            Found::Nothing => {}
            Found::Left => {
                fs::remove_file(path).map_err(|error| cannot("replace the old socket", error))?;
            }
            Found::Answering => {
                return Err(Failure::hinted(
                    format!("another daemon answers at {}", path.display()),
                    "stop it, or name another `api.socket`",
                ));
            }
        }
        let listener = UnixListener::bind(path).map_err(|error| cannot("make the socket", error))?;
        allow(path, api.group.as_deref())?;
        if let Some(why) = barred(api) {
            tracing::warn!(hint = BARRED, "{why}");
        }
        let mut socket = Socket { listener: Some(listener), path: path.clone(), address: None };
        if let Some(address) = api.listen {
            let listener = TcpListener::bind(address).await.map_err(|error| {
                let hint = "write an address of this host and a free port as `api.listen`";
                Failure::hinted(format!("listen at {address}: {error}"), hint)
            })?;
            let at = listener.local_addr().unwrap_or(address);
            tracing::info!(address = %at, "API listens");
            socket.address = Some(listener);
        }
        Ok(socket)
    }

    pub(super) fn take(&mut self) -> (Option<UnixListener>, Option<TcpListener>) {
        (self.listener.take(), self.address.take())
    }
}

fn allow(path: &Path, group: Option<&str>) -> Result<(), Failure> {
    if let Some(name) = group {
        let gid = self::group(name).ok_or_else(|| {
            let (text, hint) = no_group(name);
            Failure::hinted(text, hint)
        })?;
        chown(path, None, Some(gid.id)).map_err(|error| {
            Failure::hinted(
                format!("give {} to the group {name}: {error}", path.display()),
                format!("run the daemon as root or as a member; under systemd: SupplementaryGroups={name}"),
            )
        })?;
    }
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(|error| Failure::plain(format!("protect {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::{fs::symlink, net::UnixListener};

    #[test]
    fn who_is_in_the_group_has_to_get_to_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let api = Api { socket: folder.path().join("api.sock"), group: Some("nogroup".into()), listen: None };
        let check = |mode: u32, is_barred: bool| {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            let said = barred(&api).filter(|why| why.contains(&format!("{} does", folder.path().display())));
            assert_eq!(said.is_some(), is_barred, "{mode:o} {said:?}");
        };
        check(0o700, true);
        check(0o710, true);
        check(0o711, false);
        check(0o755, false);
        assert_eq!(barred(&Api { group: None, ..api.clone() }), None);
    }

    #[test]
    fn only_a_socket_that_nobody_answers_at_is_in_nobodys_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("api.sock");
        assert_eq!(look_at(&path).unwrap(), Found::Nothing);
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(look_at(&path).unwrap(), Found::Answering);
        drop(listener);
        // A process that another test starts just now has it too, until it has become its program.
        while UnixStream::connect(&path).is_ok() {}
        assert_eq!(look_at(&path).unwrap(), Found::Left);
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        let file = folder.path().join("data.txt");
        fs::write(&file, "text").unwrap();
        for other in [&link, &file, &folder.path().to_owned()] {
            let failure = look_at(other).unwrap_err().to_string();
            assert!(failure.contains(&format!("{} is there and is no socket", other.display())), "{failure}");
        }
    }
}
