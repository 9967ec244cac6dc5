//! Where the daemon listens: one unix socket, mode 0660 for a group, else 0600; and an address, where one is
//! configured.

use crate::{config::Api, session::Failure};
use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, chown},
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
        let _ = fs::remove_file(&self.path);
    }
}

impl Socket {
    /// Makes the socket; one that a dead daemon left is replaced. Listens at the address, if there is one.
    ///
    /// Errors: somebody answers there, the place cannot be written, the group does not exist, the address is
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
        if UnixStream::connect(path).is_ok() {
            return Err(Failure::hinted(
                format!("another daemon answers at {}", path.display()),
                "stop it, or name another `api.socket`",
            ));
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(cannot("replace the old socket", error));
            }
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(|error| cannot("make the socket", error))?;
        allow(path, api.group.as_deref())?;
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
        let gid = super::peer::group(name).ok_or_else(|| {
            Failure::hinted(
                format!("there is no group `{name}`, which `api.group` names"),
                format!("make it: groupadd --system {name}"),
            )
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
