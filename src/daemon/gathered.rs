//! Pushes that move several sources: a call tells of each, and none is looked at before what the push says of all is put down.
//!
//! Guarantees: who comes waits until all calls of the push have come, one of them has gone away, or for [`PATIENCE`].

use crate::operation::{PushFollow, PushMove};
use reconciled_provider::Clock;
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::watch;

/// How long calls that come beside each other wait for the last of them.
const PATIENCE: Duration = Duration::from_secs(2);

/// Who pushes what.
type Push = (String, String, Vec<PushMove>);

/// Pushes of which some calls have come, and how many.
#[derive(Debug, Default)]
pub(crate) struct Gathered(Mutex<BTreeMap<Push, watch::Sender<usize>>>);

/// One call that waits. With it goes the push: whoever is left waits for nothing more.
struct Call<'a>(&'a Gathered, Push);

impl Gathered {
    /// Waits for the other calls of a push of `actor`.
    pub(super) async fn all(&self, ask: &PushFollow, actor: &str, clock: &dyn Clock) {
        let most = ask.moves.len();
        if most < 2 {
            return;
        }
        let push = (ask.repository.clone(), actor.to_owned(), ask.moves.clone());
        let mut come = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let calls = all.entry(push.clone()).or_insert_with(|| watch::Sender::new(0));
            calls.send_modify(|calls| *calls += 1);
            calls.subscribe()
        };
        let _call = Call(self, push);
        let all_have_come = async {
            let _ = come.wait_for(|calls| *calls >= most).await;
        };
        tokio::select! {
            () = all_have_come => {}
            () = clock.sleep(PATIENCE) => {}
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::hour::Hand;
    use futures_util::FutureExt;

    fn ask(source: &str) -> PushFollow {
        let to = |source: &str| PushMove {
            source: source.into(),
            reference: "refs/heads/main".into(),
            commit: "1".repeat(40),
        };
        PushFollow {
            repository: "/r".into(),
            source: source.into(),
            reference: "refs/heads/main".into(),
            commit: "1".repeat(40),
            wait: None,
            accept_rewind: false,
            approve: Vec::new(),
            claimed: None,
            moves: ["a", "b"].map(to).into(),
        }
    }

    #[tokio::test]
    async fn a_call_waits_for_the_others_of_its_push_and_for_no_other() {
        let (gathered, hand) = (Gathered::default(), Hand::new());
        let clock = &*hand;
        let (a, b) = (ask("a"), ask("b"));
        let mut first = Box::pin(gathered.all(&a, "ann", clock));
        assert!((&mut first).now_or_never().is_none());
        // The same push of somebody else, which goes away again.
        assert!(gathered.all(&b, "bob", clock).now_or_never().is_none());
        assert!((&mut first).now_or_never().is_none());
        assert!(gathered.all(&b, "ann", clock).now_or_never().is_some());
        assert!((&mut first).now_or_never().is_some());
        let alone = PushFollow { moves: Vec::new(), ..ask("a") };
        assert!(gathered.all(&alone, "ann", clock).now_or_never().is_some());
        assert!(gathered.0.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn nobody_waits_for_ever_for_a_call_that_does_not_come() {
        let (gathered, hand) = (Gathered::default(), Hand::new());
        let a = ask("a");
        let mut first = Box::pin(gathered.all(&a, "ann", &*hand));
        assert!((&mut first).now_or_never().is_none());
        hand.advance(PATIENCE);
        assert!((&mut first).now_or_never().is_some());
        assert!(gathered.0.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn nobody_waits_for_a_call_that_has_gone_away() {
        let (gathered, hand) = (Gathered::default(), Hand::new());
        let clock = &*hand;
        let (a, b) = (ask("a"), PushFollow { moves: vec![], ..ask("b") });
        let three = PushFollow { moves: [a.moves.clone(), vec![a.moves[0].clone()]].concat(), ..b };
        let mut first = Box::pin(gathered.all(&three, "ann", clock));
        assert!((&mut first).now_or_never().is_none());
        assert!(gathered.all(&three, "ann", clock).now_or_never().is_none());
        assert!((&mut first).now_or_never().is_some());
    }
}
