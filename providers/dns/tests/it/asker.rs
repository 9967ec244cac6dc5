//! Asks a DNS server for names, a question each millisecond, and keeps what must never be heard. Of std alone, so that
//! the tests of the program have it as well.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    net::UdpSocket,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How long one question is waited for. What comes later was an answer all the same, to somebody who waits longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often each name is asked for at least: before the change, after it, and three times between. Few names are asked for often:
/// one that is gone for a hundredth of a second is heard to be.
const ROUNDS: usize = 5;

/// What was heard.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Answers with data.
    pub(crate) answers: usize,
    /// What must never be heard: `NXDOMAIN`, no data, a failure, silence, each with its name and how often.
    pub(crate) gaps: BTreeMap<String, usize>,
}

/// Asks for names until it is dropped or asked what it heard.
pub(crate) struct Probe {
    is_over: Arc<AtomicBool>,
    /// How often all names were asked for.
    rounds: Arc<AtomicUsize>,
    thread: Option<JoinHandle<Heard>>,
}

impl Probe {
    /// Asks the server at `port` for the address of each of `names` in turn, a question each millisecond. Returns once all
    /// were answered: what follows is asked about.
    pub(crate) fn start(port: u16, names: Vec<String>) -> Probe {
        let (is_over, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (until, counted) = (is_over.clone(), rounds.clone());
        let (begin, begun) = mpsc::channel();
        let thread = thread::spawn(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(("127.0.0.1", port)).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let (mut heard, mut id, mut is_last) = (Heard::default(), 0_u16, false);
            // All of the last round comes after the change.
            while !is_last {
                is_last = until.load(Ordering::SeqCst);
                for name in &names {
                    let began = Instant::now();
                    id = id.wrapping_add(1);
                    match ask(&socket, id, name) {
                        None => heard.answers += 1,
                        Some(gap) => *heard.gaps.entry(format!("{gap} for {name}")).or_default() += 1,
                    }
                    thread::park_timeout(Duration::from_millis(1).saturating_sub(began.elapsed()));
                }
                counted.fetch_add(1, Ordering::SeqCst);
                // Nobody listens after the first.
                let _ = begin.send(());
            }
            heard
        });
        // Where the thread fails, who ends it hears of it.
        let _ = begun.recv();
        Probe { is_over, rounds, thread: Some(thread) }
    }

    /// Ends it.
    pub(crate) fn end(mut self) -> Heard {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap()
    }

    /// Ends it: nothing but data was heard, of each name as often as that has to be to mean something.
    pub(crate) fn heard_only_data(self, server: &str) {
        let rounds = self.rounds.clone();
        let heard = self.end();
        assert!(heard.gaps.is_empty(), "{server}: {} answers and {:#?}", heard.answers, heard.gaps);
        let rounds = rounds.load(Ordering::SeqCst);
        assert!(rounds >= ROUNDS, "{server} was asked for each name {rounds} times only");
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

/// Asks for the address of `name`; says what is wrong with the answer. A CNAME alone is data.
fn ask(socket: &UdpSocket, id: u16, name: &str) -> Option<&'static str> {
    let mut question = [&id.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
    for label in name.split('.') {
        question.push(label.len() as u8);
        question.extend_from_slice(label.as_bytes());
    }
    question.extend_from_slice(&[0, 0, 1, 0, 1]);
    socket.send(&question).unwrap();
    let mut answer = [0; 1_500];
    loop {
        match socket.recv(&mut answer) {
            Ok(length) if length >= 12 && answer[..2] == id.to_be_bytes() => break,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Some("silence");
            }
            Err(error) => panic!("{error}"),
        }
    }
    match (answer[3] & 15, u16::from_be_bytes([answer[6], answer[7]])) {
        (0, 0) => Some("no data"),
        (0, _) => None,
        (3, _) => Some("NXDOMAIN"),
        _ => Some("a failure"),
    }
}
