use super::*;
use async_trait::async_trait;
use reconciled_provider::{
    Action, ActionId, Batch, Clock, Cx, Error, ErrorKind, Hash, Journal, Observed, Op, Origin, Outcome, Pace,
    PolicyId, Resource, ResourceId, Scope, Secret, SecretMark, SecretRef, Secrets, Spec, Stop, Tracked,
    Version,
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

struct Nobody;

#[async_trait]
impl Clock for Nobody {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    async fn sleep(&self, _: Duration) {}
}

impl Secrets for Nobody {
    fn reveal(&self, _: &SecretRef) -> Result<Secret, Error> {
        Err(Error::invalid("no secrets here"))
    }
    fn mark(&self, clear: &[u8]) -> SecretMark {
        SecretMark(Hash::of(clear))
    }
}

fn cx() -> Cx {
    let deadline = Duration::from_secs(60);
    Cx {
        clock: Arc::new(Nobody),
        secrets: Arc::new(Nobody),
        deadline,
        stop: Stop::default(),
        pace: Pace::default(),
        answers: Default::default(),
        warnings: Default::default(),
    }
}

/// What happened, in order: `started 1 2`, `done 1`, `failed 2: why`.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[async_trait]
impl Journal for Notes {
    async fn started(&self, actions: &[ActionId]) -> Result<(), Error> {
        let ids: Vec<String> = actions.iter().map(|id| id.0.to_string()).collect();
        self.0.lock().unwrap().push(format!("started {}", ids.join(" ")));
        Ok(())
    }
    async fn progress(&self, _: ActionId, _: Tracked) -> Result<(), Error> {
        Ok(())
    }
    async fn finished(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        let line = |(id, outcome): (ActionId, Outcome)| match outcome.error() {
            Some(error) => format!("{} {}: {}", outcome.word(), id.0, error.message),
            None => format!("{} {}", outcome.word(), id.0),
        };
        self.0.lock().unwrap().extend(outcomes.into_iter().map(line));
        Ok(())
    }
}

/// Actions in order, numbered from 1: `-x/CNAME` deletes, `x/A` creates, `x/A?` creates what is not known yet.
fn batch(actions: &[&str]) -> Batch {
    let scope = Arc::new(Scope::new("test", "example.com"));
    let op = |text: &str| {
        let name = |id: &str| -> ResourceId { id.replacen('/', ".example.com./", 1).as_str().into() };
        if let Some(id) = text.strip_prefix('-') {
            let observed = Observed::new(name(id), b"300\nold");
            return Op::Delete { observed: observed.into(), tracked: None };
        }
        let spec = match text.ends_with('?') {
            true => Spec::waiting(Hash::of(b"x"), Vec::new()),
            false => Spec::known(b"300\nnew".to_vec()),
        };
        let (id, origin) = (name(text.trim_end_matches('?')), Origin { manifest: 0, line: 1 });
        let desired = Resource::new(id, scope.clone(), spec, origin, PolicyId::default());
        Op::Create { desired, delta: Default::default() }
    };
    let action =
        |(i, text): (usize, &&str)| Action { id: ActionId(i as u64 + 1), token: "t".into(), op: op(text) };
    let actions = actions.iter().enumerate().map(action).collect();
    Batch { scope: (*scope).clone(), base: Version::Unknown, actions }
}

fn work(batch: &Batch, together: Together) -> Work<'_, ()> {
    Work::of(batch, together, |action, _, _| wanted(action).map(|_| Some(())))
}

/// Units as the numbers of their actions, and the numbers of what is settled.
fn sorted(actions: &[&str], together: Together) -> (Vec<Vec<u64>>, Vec<u64>) {
    let batch = batch(actions);
    let work = work(&batch, together);
    let units = work.units.iter().map(|unit| unit.iter().map(|item| item.action.id.0).collect()).collect();
    let mut settled: Vec<u64> = work.settled.iter().map(|(id, _)| id.0).collect();
    settled.sort_unstable();
    (units, settled)
}

#[test]
fn what_changes_places_is_one_unit_and_the_rest_as_the_backend_wants() {
    let actions = ["-x/CNAME", "y/A", "x/A", "y/TXT", "x/AAAA"];
    assert_eq!(sorted(&actions, Together::Swaps), (vec![vec![1, 3, 5], vec![2], vec![4]], vec![]));
    assert_eq!(sorted(&actions, Together::Names), (vec![vec![1, 3, 5], vec![2, 4]], vec![]));
}

#[test]
fn half_a_swap_is_held_back_and_what_else_is_at_the_name_of_a_refusal_is_not() {
    let actions = ["-x/CNAME", "x/A?", "y/A", "y/AAAA?", "x/TXT"];
    for together in [Together::Swaps, Together::Names] {
        assert_eq!(sorted(&actions, together), (vec![vec![3]], vec![1, 2, 4, 5]), "{together:?}");
    }
}

/// What the remote says to a request with these actions.
type Say = fn(&[u64]) -> Answer;

/// Sends four units at once and writes down what it sends.
struct Scripted<'n> {
    say: Say,
    notes: &'n Notes,
}

#[async_trait]
impl Sender<()> for Scripted<'_> {
    const CULPRITS: usize = 2;

    fn take<'b>(&self, queue: &mut VecDeque<Unit<'b, ()>>) -> Chunk<'b, ()> {
        let mut units = 0;
        take(queue, |_| {
            units += 1;
            units <= 4
        })
    }

    async fn send(&mut self, chunk: &mut Chunk<'_, ()>) -> Result<Answer, Error> {
        let sent: Vec<u64> = ids(chunk).map(|id| id.0).collect();
        self.notes.0.lock().unwrap().push(format!("sent {sent:?}"));
        Ok((self.say)(&sent))
    }
}

/// What comes of seven creates.
async fn deliver(say: Say) -> (Vec<String>, Result<(), Error>) {
    let (notes, cx) = (Notes::default(), cx());
    let batch = batch(&["a/A", "b/A", "c/A", "d/A", "e/A", "f/A", "g/A"]);
    let mut delivery = Delivery::new(Scripted { say, notes: &notes }, &cx, &notes, "change");
    let result = delivery.all(work(&batch, Together::Swaps).units).await;
    (notes.lines(), result)
}

fn refuse(sent: &[u64], bad: &[u64]) -> Answer {
    match sent.iter().any(|id| bad.contains(id)) {
        true => Answer::Refused(Error::invalid("no")),
        false => Answer::Done,
    }
}

#[tokio::test]
async fn a_culprit_is_found_by_halves_and_named_and_the_others_are_done() {
    let (lines, result) = deliver(|sent| refuse(sent, &[3])).await;
    result.unwrap();
    let expected = [
        "started 1 2 3 4",
        "sent [1, 2, 3, 4]",
        "sent [1, 2]",
        "done 1",
        "done 2",
        "sent [3, 4]",
        "sent [3]",
        "failed 3: c.example.com A: no",
        "sent [4]",
        "done 4",
        "started 5 6 7",
        "sent [5, 6, 7]",
        "done 5",
        "done 6",
        "done 7",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn after_as_many_culprits_as_are_followed_up_the_rest_of_the_request_is_not_sent() {
    let (lines, result) = deliver(|sent| refuse(sent, &[1, 2, 3, 4])).await;
    result.unwrap();
    let unsent: Vec<&String> = lines.iter().filter(|line| line.contains("not sent")).collect();
    assert_eq!(unsent.len(), 2, "{lines:#?}");
    assert!(
        unsent[0].starts_with("failed 3: change: not sent, since 2 other records were refused"),
        "{unsent:?}"
    );
    assert_eq!(lines.last().unwrap(), "done 7", "the next request is sent all the same");
}

/// As [`Scripted`], with what a backend does that does not say otherwise, two hundred at once; asks twice.
struct Many<'n>(Scripted<'n>);

#[async_trait]
impl Sender<()> for Many<'_> {
    const ASKS_TWICE: bool = true;

    fn take<'b>(&self, queue: &mut VecDeque<Unit<'b, ()>>) -> Chunk<'b, ()> {
        take(queue, |_| true)
    }

    async fn send(&mut self, chunk: &mut Chunk<'_, ()>) -> Result<Answer, Error> {
        self.0.send(chunk).await
    }
}

#[tokio::test]
async fn where_nothing_is_taken_few_are_asked_for_one_by_one() {
    // All of them, and three of them that nothing comes after: who has not changed is not asked again.
    let says: [(Say, usize, usize); 2] = [
        (|_| Answer::Refused(Error::invalid("no")), 60, 200),
        (|sent| refuse(sent, &[198, 199, 200]), 24, 3),
    ];
    for (say, most, failed) in says {
        let (notes, cx) = (Notes::default(), cx());
        let names: Vec<String> = (0..200).map(|n| format!("h{n}/A")).collect();
        let batch = batch(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let sender = Many(Scripted { say, notes: &notes });
        let mut delivery = Delivery::new(sender, &cx, &notes, "change");
        delivery.all(work(&batch, Together::Swaps).units).await.unwrap();
        let lines = notes.lines();
        let count = |word: &str| lines.iter().filter(|line| line.starts_with(word)).count();
        assert!(count("sent") <= most, "{} requests", count("sent"));
        assert_eq!((count("failed"), count("done")), (failed, 200 - failed));
    }
}

#[tokio::test]
async fn what_an_answer_names_is_taken_out_and_the_rest_sent_again() {
    let (lines, result) = deliver(|sent| match sent {
        [1, 2, 3, 4] => Answer::Named(vec![(ActionId(2), Outcome::Failed(Error::conflict("moved")))]),
        _ => Answer::Done,
    })
    .await;
    result.unwrap();
    assert_eq!(
        lines[1..7],
        ["sent [1, 2, 3, 4]", "failed 2: moved", "sent [1, 3, 4]", "done 1", "done 3", "done 4"]
    );
}

#[tokio::test]
async fn without_an_answer_the_request_is_unknown_and_nothing_more_is_sent() {
    let (lines, result) = deliver(|sent| match sent {
        [1, 2, 3, 4] => Answer::TooLarge(Error::invalid("large")),
        _ => Answer::Over { error: Error::unavailable("gone"), is_lost: true },
    })
    .await;
    assert_eq!(result.unwrap_err().kind, ErrorKind::Unavailable);
    let expected = [
        "started 1 2 3 4",
        "sent [1, 2, 3, 4]",
        "sent [1, 2]",
        "unknown 1: gone",
        "unknown 2: gone",
        "failed 3: gone",
        "failed 4: gone",
    ];
    assert_eq!(lines, expected);
}
