//! The daemon as a hook finds it: there, or not; never for longer than it may take.

use crate::{
    client::Client,
    clock::SystemClock,
    config::GitRef,
    failure::Failure,
    operation::{KEPT, PushSource, PushTarget, PushTargetAsk},
    source::{Limits, Received},
};
use reconciled_provider::Clock as _;
use std::{fs, path::Path, time::Duration};

/// How long it may take where nobody has said otherwise.
const PLAN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a push is followed where nobody has said otherwise.
const PUSH_TIMEOUT: Duration = Duration::from_secs(60);

/// What is known of the repository, and by whom.
pub(super) struct Daemon {
    /// The daemon, or why it cannot be asked.
    pub(super) client: Result<Client, Failure>,
    /// What it says of the repository. While it does not answer: what `init` left there, or a guess.
    pub(super) target: PushTarget,
    /// It is there and did not answer within the patience of whoever asks, which is less than it may take.
    pub(super) is_slow: bool,
}

impl Daemon {
    /// Asks for what is known of `received`, for as long as a plan may take and at most for `patience`.
    pub(super) async fn find(socket: &Path, received: &Received, patience: Duration) -> Daemon {
        let place = received.place();
        let kept = fs::read(place.join(KEPT)).ok();
        let kept: Option<PushTarget> = kept.and_then(|text| serde_json::from_slice(&text).ok());
        let ask = PushTargetAsk { repository: place.to_string_lossy().into_owned() };
        let asked = async {
            let target: PushTarget = Client::unix(socket)?.post("/v1/push/target", &ask).await?;
            Ok(target)
        };
        let limit = kept.as_ref().map_or(PLAN_TIMEOUT, |kept| Duration::from_millis(kept.plan_timeout));
        match within(limit.min(patience), asked).await {
            Ok(target) => Daemon { client: Client::unix(socket), target, is_slow: false },
            Err(failure) => {
                let is_slow = patience < limit && matches!(failure, Failure::Silent(_));
                let client = if is_slow { Client::unix(socket) } else { Err(failure) };
                Daemon { client, target: kept.unwrap_or_else(|| guess(received)), is_slow }
            }
        }
    }

    /// How long a plan may take.
    pub(super) fn plan_timeout(&self) -> Duration {
        or(self.target.plan_timeout, PLAN_TIMEOUT)
    }

    /// How long a push is followed.
    pub(super) fn push_timeout(&self) -> Duration {
        or(self.target.push_timeout, PUSH_TIMEOUT)
    }
}

/// Where nobody ever said what is followed: the branch that `HEAD` names, read whole.
fn guess(received: &Received) -> PushTarget {
    let place = received.place();
    let name = place.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let source = received.head().map(|branch| PushSource {
        name,
        follows: GitRef::Branch(branch.into()),
        paths: vec![".".into()],
        ignore: Vec::new(),
        limits: Limits::default(),
        consents: false,
        socket: true,
        trailers: false,
        verifies: false,
        in_force: None,
    });
    PushTarget { sources: source.into_iter().collect(), ..PushTarget::default() }
}

fn or(milliseconds: u64, default: Duration) -> Duration {
    if milliseconds == 0 { default } else { Duration::from_millis(milliseconds) }
}

/// Does `work`, or gives up after `limit`.
pub(super) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        result = work => result,
        () = SystemClock.sleep(limit) => {
            Err(Failure::Silent(format!("the daemon did not answer within {limit:?}")))
        }
    }
}

/// True where nobody answers, or not in time.
pub(super) fn is_unreachable(failure: &Failure) -> bool {
    matches!(failure, Failure::Unreachable(_) | Failure::Silent(_))
}

/// What it says to whoever pushes: how a daemon is started is no hint for them.
pub(super) fn told(failure: &Failure) -> String {
    if is_unreachable(failure) { failure.to_string() } else { failure.with_hint() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_told_unless_it_is_how_to_start_the_daemon() {
        assert_eq!(told(&Failure::Silent("it says nothing".into())), "it says nothing");
        assert_eq!(told(&Failure::Unreachable("it is away".into())), "it is away");
        assert_eq!(told(&Failure::hinted("it is refused", "ask")), "it is refused\nhint: ask");
        assert_eq!(told(&Failure::plain("it is refused")), "it is refused");
    }
}
