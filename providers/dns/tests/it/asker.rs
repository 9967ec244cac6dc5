//! Asks a DNS server for names, a question each millisecond, and keeps what must never be heard. Of std alone, so that
//! the tests of the program have it as well.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    net::UdpSocket,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How long one question is waited for. What comes later was an answer all the same, to somebody who waits longer.
const PATIENCE: Duration = Duration::from_secs(5);

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
    thread: Option<JoinHandle<Heard>>,
}

impl Probe {
    /// Asks the server at `port` for the address of each of `names` in turn, a question each millisecond. Returns once the
    /// first was answered: what follows is asked about.
    pub(crate) fn start(port: u16, names: Vec<String>) -> Probe {
        let is_over = Arc::new(AtomicBool::new(false));
        let until = is_over.clone();
        let (begin, begun) = mpsc::channel();
        let thread = thread::spawn(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(("127.0.0.1", port)).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut heard = Heard::default();
            for (id, name) in (1..=u16::MAX).cycle().zip(names.iter().cycle()) {
                if until.load(Ordering::SeqCst) {
                    break;
                }
                let began = Instant::now();
                match ask(&socket, id, name) {
                    None => heard.answers += 1,
                    Some(gap) => *heard.gaps.entry(format!("{gap} for {name}")).or_default() += 1,
                }
                // Nobody listens after the first.
                let _ = begin.send(());
                thread::park_timeout(Duration::from_millis(1).saturating_sub(began.elapsed()));
            }
            heard
        });
        // Where the thread fails, who ends it hears of it.
        let _ = begun.recv();
        Probe { is_over, thread: Some(thread) }
    }

    /// Ends it.
    pub(crate) fn end(mut self) -> Heard {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap()
    }

    /// Ends it: nothing but data was heard, and that more than the once that it started with. How often is the machine's
    /// affair: a server may take a whole change before it answers again.
    pub(crate) fn heard_only_data(self, server: &str) {
        let heard = self.end();
        assert!(heard.gaps.is_empty(), "{server}: {} answers and {:#?}", heard.answers, heard.gaps);
        assert!(heard.answers > 1, "{server} was asked before the change only");
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
