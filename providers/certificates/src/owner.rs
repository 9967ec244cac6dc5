//! Whose the directory of a certificate is, as its mark says.

use crate::{deliver::View, heirs::Heirs, kept::Keep};
use reconciled_provider::{Cx, Error};
use std::{sync::Arc, time::Duration};

/// Somebody who has the directory that a certificate is to be put into.
pub(crate) struct Stranger {
    /// Whose it is, in words for people.
    pub(crate) words: String,
    /// The other instance of this program, where it is one: a person may say that the directory is taken from there. From nobody
    /// else it is, whatever a person says.
    pub(crate) instance: Option<Arc<str>>,
}

/// Who has the directory, where it is none of this entry. One of this entry may be about to leave it, and the step says so where it
/// is not.
pub(crate) fn stranger(keep: &Keep, name: &str, view: &View) -> Option<Stranger> {
    // What is no mark is said by the step that would replace it.
    let text = view.mark().ok().flatten()?;
    if keep.marked(text).is_some_and(|marked| marked != name) {
        return None;
    }
    let mark = keep.mark(name);
    let words = mark.other(text)?;
    Some(Stranger { words, instance: mark.other_instance(text).map(Arc::from) })
}

/// Since when the directory belongs to a certificate of ours that nobody declares any more: what is there is taken over once
/// that one goes. None where it need not be waited for, or is not about to go.
pub(crate) fn comes_after(
    cx: &Cx,
    keep: &Keep,
    heirs: &Heirs,
    name: &str,
    view: &View,
) -> Result<Option<Duration>, Error> {
    // What is no mark is said by the step that would replace it.
    let mark = view.mark().ok().flatten();
    let other = mark.and_then(|mark| keep.marked(mark)).filter(|other| other != name);
    match other {
        Some(other) if !matches!(keep.in_use(name), Ok(Some(_))) && keep.issued(&other)?.is_some() => {
            Ok(heirs.waits_for(name, &other, cx.clock.now()))
        }
        _ => {
            heirs.waits_no_more(name);
            Ok(None)
        }
    }
}
