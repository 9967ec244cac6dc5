//! `plugin-serve`: starts the one provider that the connection at its standard input asks for, and passes on what the two say.
//! A unit of systemd runs it with fewer rights than the daemon has; nobody types it.

use super::Exit;
use crate::{failure::Failure, registry};
use std::{
    io::stdin,
    os::{fd::AsFd, unix::net::UnixStream},
};

/// Runs the verb: returns when the provider, or who asked for it, has ended.
pub(super) async fn run() -> Result<Exit, Failure> {
    let connection = stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    // What is no socket has no other end.
    let connection = connection.and_then(|stream| stream.peer_addr().map(|_| stream)).map_err(|error| {
        Failure::hinted(
            format!("take the connection from standard input: {error}"),
            "systemd starts it when the daemon connects: systemctl enable --now reconciled-plugin.socket",
        )
    })?;
    registry::serve_plugin(connection).await?;
    Ok(Exit::Good)
}
