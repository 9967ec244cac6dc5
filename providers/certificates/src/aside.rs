//! Calls that wait for a disk, which other work of the runtime must not wait for.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does `work`, and has what else runs on this thread go on elsewhere meanwhile.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // There is but this thread, or no runtime at all.
        _ => work(),
    }
}
