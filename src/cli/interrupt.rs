//! Signals to a verb that writes without a daemon: the first has it come to an end, the second ends it. A copy ends with the first.
//!
//! Guarantees: after the first nothing more begins, and what is under way is waited for, since a creation that is cut off may have to
//! be found by hand; of a copy nothing is left. Until then, before anything is written, a signal ends the process as it ends any other.
//! It deliberately leaves SIGHUP alone, which `nohup` has ignored.

use super::Out;
use crate::{failure::Failure, session::Session};
use std::pin::pin;
use tokio::signal::unix::{Signal, SignalKind, signal};

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
/// Errors: those of `work`; a signal, before which it had not ended.
pub(super) async fn until_signal<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let (mut interrupt, mut terminate) = (caught(SignalKind::interrupt())?, caught(SignalKind::terminate())?);
    tokio::select! {
        biased;
        result = work => result,
        _ = interrupt.recv() => Err(Failure::plain("ended by a signal: nothing was written")),
        _ = terminate.recv() => Err(Failure::plain("ended by a signal: nothing was written")),
    }
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
