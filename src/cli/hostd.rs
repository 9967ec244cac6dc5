//! `hostd`: the helper that has the rights of root in place of the daemon. systemd starts it; nobody types it.

use super::{Args, Exit};
use crate::{failure::Failure, registry};
use std::{
    io::stdin,
    os::{fd::AsFd, unix::net::UnixListener},
    path::Path,
};

/// Where its configuration is, unless `--config` says so.
const CONFIG: &str = "/etc/reconciled/hostd.yaml";

/// Runs the verb: answers until nobody has asked for a while.
pub(super) async fn run(args: &Args) -> Result<Exit, Failure> {
    let config = args.config.as_deref().unwrap_or(Path::new(CONFIG));
    // `StandardInput=socket`: a socket that comes as a number could not be taken without `unsafe`.
    let socket = stdin().as_fd().try_clone_to_owned().map(UnixListener::from);
    let listening = socket.and_then(|socket| {
        socket.local_addr()?;
        socket.set_nonblocking(true)?;
        tokio::net::UnixListener::from_std(socket)
    });
    let listening = listening.map_err(|error| {
        Failure::hinted(
            format!("take the socket from standard input: {error}"),
            "systemd starts the helper when somebody asks: systemctl enable --now reconciled-hostd.socket",
        )
    })?;
    registry::serve_host(listening, config).await?;
    Ok(Exit::Good)
}
