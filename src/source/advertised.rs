//! What a remote lists.
//!
//! # Guarantees
//! - A ref whose name is not UTF-8 is left out, and keeps no other from being read: whoever may push a branch that nobody
//!   follows would else keep every source of the repository from being read.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use git2::RemoteHead;

use super::reference::Advertised;

thread_local! {
    /// Names are being read here: a panic says that one is no text, and is nothing to be told.
    static IS_READING: Cell<bool> = const { Cell::new(false) };
}

/// The refs in `heads` that somebody may follow.
pub(super) fn advertised(heads: &[RemoteHead<'_>]) -> Vec<Advertised> {
    readable(heads, |head| Advertised { name: head.name().to_owned(), oid: head.oid() })
}

/// What `read` makes of each, without those at which it panics: git2 has the name of a head as text alone, and no other way to
/// tell that it is none.
fn readable<H, T>(heads: &[H], read: impl Fn(&H) -> T) -> Vec<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_READING.get() {
                before(panic);
            }
        }));
    });
    IS_READING.set(true);
    let read = heads.iter().filter_map(|head| catch_unwind(AssertUnwindSafe(|| read(head))).ok()).collect();
    IS_READING.set(false);
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_left_out() {
        let names: [&[u8]; 3] = [b"refs/heads/main", b"refs/heads/f\xffx", b"refs/heads/z"];
        let read = readable(&names, |name| std::str::from_utf8(name).unwrap().len());
        assert_eq!(read, [15, 12]);
        assert!(!IS_READING.get());
    }
}
