//! Signals to a verb that writes without a daemon: the first has it come to an end, the second ends it. A copy ends with the first.
//!
//! Guarantees: after the first nothing more begins, and what is under way is waited for, since a creation that is cut off may have to
//! be found by hand; of a copy nothing is left, unless what it is written to hangs. Until then, before anything is written, a signal
//! ends the process as it ends any other. It deliberately leaves SIGHUP alone, which `nohup` has ignored.

use super::Out;
use crate::{failure::Failure, session::Session};
use std::{pin::pin, time::Duration};
use tokio::{
    runtime::Handle,
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
    task::spawn_blocking,
    time::sleep,
};

/// How long a copy may take to go once a signal has come: what takes longer hangs.
const CLEARING: Duration = Duration::from_secs(5);

/// What is said after the first.
const STOPPING: &str = "stopping: what is under way is waited for, and nothing more begins; once more ends at once, and what was being \
                        made then may have to be found by hand";

/// Does `work`, which hears of the wish of `session` to stop, and tells it of signals.
///
/// Errors: those of `work`; a second signal, before which it had not ended.
pub(super) async fn heard<T>(
    session: &Session,
    out: &Out,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let (mut interrupt, mut terminate) = (caught(SignalKind::interrupt())?, caught(SignalKind::terminate())?);
    let stop = &session.surveyor.cx.stop;
    let mut work = pin!(work);
    tokio::select! {
        biased;
        result = &mut work => return result,
        _ = interrupt.recv() => stop.set(),
        // Who says so kills before long: providers are to know.
        _ = terminate.recv() => stop.end(),
    }
    out.aside(STOPPING);
    tokio::select! {
        biased;
        result = &mut work => result,
        _ = interrupt.recv() => Err(cut_off()),
        _ = terminate.recv() => Err(cut_off()),
    }
}

/// Does `work`, of which nothing is left where it is dropped, until a signal comes.
///
/// Errors: those of `work`; a signal, before which it had not ended; `hung`, where it does not go after a signal.
pub(super) async fn until_signal<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    hung: Failure,
) -> Result<T, Failure> {
    let (mut interrupt, mut terminate) = (caught(SignalKind::interrupt())?, caught(SignalKind::terminate())?);
    let mut signal = async || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    until(work, &mut signal, CLEARING, hung).await
}

/// Does `work` on a thread of its own until `signal`, and waits no longer than `clearing`, or than for a second one, for it to go. A call on a disk that hangs does
/// not come back, and keeps whoever made it from hearing of anything: that thread is left to end with the process.
async fn until<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    mut signal: impl AsyncFnMut(),
    clearing: Duration,
    hung: Failure,
) -> Result<T, Failure> {
    let (end, ended) = oneshot::channel::<()>();
    let runtime = Handle::current();
    let mut working = spawn_blocking(move || {
        runtime.block_on(async move {
            tokio::select! {
                biased;
                result = work => result,
                _ = ended => Err(Failure::plain("ended by a signal: nothing was written")),
            }
        })
    });
    let result = tokio::select! {
        biased;
        result = &mut working => result,
        () = signal() => {
            // An error means that it is over.
            let _ = end.send(());
            tokio::select! {
                biased;
                result = working => result,
                () = signal() => return Err(hung),
                () = sleep(clearing) => return Err(hung),
            }
        }
    };
    result.unwrap_or_else(|error| Err(Failure::plain(format!("what is written panicked: {error}"))))
}

fn caught(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::plain(format!("wait for signals: {error}")))
}

fn cut_off() -> Failure {
    Failure::hinted(
        "ended by the second signal: what was under way has no answer",
        "to see what became of it: reconciled plan",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_testkit::PATIENCE;
    use std::{
        future::pending,
        mem,
        sync::{Arc, mpsc},
    };

    fn hung() -> Failure {
        Failure::plain("it hangs")
    }

    /// A signal, and no second one.
    fn once() -> impl AsyncFnMut() {
        let mut has_come = false;
        async move || {
            if mem::replace(&mut has_come, true) {
                pending::<()>().await;
            }
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_hangs_is_left_after_a_signal() {
        let (lets_go, call) = mpsc::channel::<()>();
        let work = async move {
            // As a call on a disk that does not answer.
            let _ = call.recv();
            Ok(())
        };
        let failure = until(work, once(), Duration::ZERO, hung()).await.unwrap_err();
        assert_eq!(failure.to_string(), "it hangs");
        drop(lets_go);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_hangs_is_left_at_once_after_a_second_signal() {
        let (lets_go, call) = mpsc::channel::<()>();
        let work = async move {
            let _ = call.recv();
            Ok(())
        };
        let failure = until(work, async || {}, Duration::MAX, hung()).await.unwrap_err();
        assert_eq!(failure.to_string(), "it hangs");
        drop(lets_go);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn of_what_does_not_hang_nothing_is_left_after_a_signal() {
        let left = Arc::new(());
        let kept = left.clone();
        let work = async move {
            pending::<()>().await;
            drop(kept);
            Ok(())
        };
        let failure = until(work, once(), PATIENCE, hung()).await.unwrap_err();
        assert_eq!(failure.to_string(), "ended by a signal: nothing was written");
        assert_eq!(Arc::strong_count(&left), 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_was_done_by_the_time_of_a_signal_is_done() {
        let (lets_go, call) = mpsc::channel::<()>();
        let work = async move {
            let _ = call.recv();
            Ok(7)
        };
        let mut lets_go = Some(lets_go);
        let signal = async || match lets_go.take() {
            Some(lets_go) => drop(lets_go),
            None => pending().await,
        };
        assert_eq!(until(work, signal, PATIENCE, hung()).await.unwrap(), 7);
        assert_eq!(until(async { Ok(8) }, async || pending().await, PATIENCE, hung()).await.unwrap(), 8);
        let failed = until(async { Err::<(), _>(hung()) }, async || pending().await, PATIENCE, hung()).await;
        assert_eq!(failed.unwrap_err().to_string(), "it hangs");
    }
}
