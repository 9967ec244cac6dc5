//! Work on files that may hang, as on a mount whose server is away: away from the tasks, one after another.

use crate::failure::Failure;
use std::{io, path::Path, sync::Arc};

/// Whose turn it is.
pub(super) type Turn = Arc<tokio::sync::Mutex<()>>;

/// The failure of `doing` something to the file or folder at `path`.
pub(super) fn about(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> Failure {
    let path = path.to_path_buf();
    move |error| Failure::plain(format!("{doing} {}: {error}", path.display()))
}

/// Does `work` where it may hang, after what had `turn` before.
pub(super) async fn blocking<T: Send + 'static>(
    turn: &Turn,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let turn = turn.clone().lock_owned().await;
    let work = move || {
        let result = work();
        drop(turn);
        result
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Failure::plain(format!("work on files panicked: {error}"))),
    }
}
