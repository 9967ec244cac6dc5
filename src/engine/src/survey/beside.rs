//! Jobs of many entries beside each other, and not too many of one at once.

use futures_util::{StreamExt, future::BoxFuture, stream};
use std::{collections::BTreeMap, sync::Arc};

/// Does the jobs of each entry beside those of all others, `width` of them at once: an entry that is slow, or takes one at a
/// time, keeps no other waiting. What `work` makes of a job is made once there is room for it, so that it takes no memory and
/// is not timed before.
pub(crate) async fn beside<'a, J, T>(
    jobs: impl IntoIterator<Item = (Arc<str>, J)>,
    width: impl Fn(&str) -> usize,
    work: impl Fn(J) -> BoxFuture<'a, T>,
) -> Vec<T> {
    let mut entries: BTreeMap<Arc<str>, Vec<J>> = BTreeMap::new();
    for (entry, job) in jobs {
        entries.entry(entry).or_default().push(job);
    }
    let streams = entries.into_iter().map(|(entry, jobs)| {
        let width = width(&entry).max(1);
        stream::iter(jobs).map(&work).buffer_unordered(width)
    });
    stream::select_all(streams).collect().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_executor::block_on;
    use futures_util::FutureExt;
    use std::{
        future,
        sync::atomic::{AtomicUsize, Ordering},
        task::Poll,
    };

    #[test]
    fn what_a_job_takes_is_made_once_there_is_room_for_it() {
        let (made, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let jobs = (0..100).map(|number| (Arc::from(if number % 2 == 0 { "a" } else { "b" }), number));
        let width = |entry: &str| if entry == "a" { 3 } else { 1 };
        let work = |number: usize| {
            let under_way = made.fetch_add(1, Ordering::Relaxed) + 1;
            most.fetch_max(under_way, Ordering::Relaxed);
            let mut turns = number % 5;
            let made = &made;
            future::poll_fn(move |cx| {
                cx.waker().wake_by_ref();
                if turns == 0 {
                    made.fetch_sub(1, Ordering::Relaxed);
                    return Poll::Ready(number);
                }
                turns -= 1;
                Poll::Pending
            })
            .boxed()
        };
        let mut done = block_on(beside(jobs, width, work));
        done.sort_unstable();
        assert_eq!(done, (0..100).collect::<Vec<_>>());
        assert_eq!(most.into_inner(), 4);
    }
}
