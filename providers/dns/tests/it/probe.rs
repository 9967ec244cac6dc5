//! Names are asked for each millisecond while they change: none that was there before and is there after is ever gone.

use crate::{
    dnsd::{Dnsd, KINDS, provider_with},
    pdns::Pdns,
    world::{apply, converge, desired, observe},
};
use reconciled_provider::{Cx, Provider, Resource};
use std::{
    collections::BTreeMap,
    io::ErrorKind,
    net::UdpSocket,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

const ZONE: &str = "example.com";

/// How long one question is waited for. What comes later was an answer all the same, to somebody who waits longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was heard.
#[derive(Debug, Default)]
struct Heard {
    /// Answers with data.
    answers: usize,
    /// What must never be heard: `NXDOMAIN`, no data, a failure, silence, each with its name and how often.
    gaps: BTreeMap<String, usize>,
}

/// Asks for names until it is dropped or asked what it heard.
struct Probe {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Heard>>,
}

impl Probe {
    /// Asks the server at `port` for the address of each of `names` in turn, a question each millisecond.
    fn start(port: u16, names: Vec<String>) -> Probe {
        let is_over = Arc::new(AtomicBool::new(false));
        let until = is_over.clone();
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
                thread::park_timeout(Duration::from_millis(1).saturating_sub(began.elapsed()));
            }
            heard
        });
        Probe { is_over, thread: Some(thread) }
    }

    /// Ends it.
    fn end(mut self) -> Heard {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap()
    }

    /// Ends it: nothing but data was heard, and at least `least` times.
    fn heard_only_data(self, server: &str, least: usize) {
        let heard = self.end();
        assert!(heard.gaps.is_empty(), "{server}: {} answers and {:#?}", heard.answers, heard.gaps);
        assert!(heard.answers >= least, "{server} was asked only {} times", heard.answers);
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

fn resources(provider: &dyn Provider, records: &[String]) -> Vec<Resource> {
    desired(provider, ZONE, records)
}

/// The zone itself and what a DNS server wants in it, then the names `swap-N`, of one kind or the other.
fn swaps(is_alias: bool) -> Vec<String> {
    let record = |i: usize| match is_alias {
        true => format!("{{name: swap-{i}, type: CNAME, values: [a{i}.example.org.]}}"),
        false => format!("{{name: swap-{i}, type: A, values: [192.0.2.{i}]}}"),
    };
    (0..20).map(record).collect()
}

/// Turns CNAMEs to addresses and back while somebody asks for them.
async fn swap(server: &str, provider: &dyn Provider, cx: &Cx, port: u16) {
    let (alias, address) = (resources(provider, &swaps(true)), resources(provider, &swaps(false)));
    converge(provider, cx, ZONE, &alias, &[]).await;
    let ids = |kind: &str| (0..20).map(|i| format!("swap-{i}.example.com./{kind}")).collect::<Vec<_>>();
    let (aliases, addresses) = (ids("CNAME"), ids("A"));
    let probe = Probe::start(port, (0..20).map(|i| format!("swap-{i}.example.com")).collect());
    for turn in 0..20 {
        let (wanted, gone) = if turn % 2 == 0 { (&address, &aliases) } else { (&alias, &addresses) };
        let gone: Vec<&str> = gone.iter().map(String::as_str).collect();
        let (_, notes, result) = apply(provider, cx, ZONE, wanted, &gone).await;
        result.unwrap_or_else(|error| panic!("{server}: {}", error.chain()));
        assert_eq!(notes.counts(), [("done", 20), ("gone", 20)].into());
    }
    probe.heard_only_data(server, 20);
}

/// Changes, creates and deletes a thousand records each in one batch while somebody asks for those that stay.
async fn mass(server: &str, provider: &dyn Provider, cx: &Cx, port: u16) {
    let record = |name: &str, i: usize, net: u8| {
        format!("{{name: {name}-{i}, type: A, values: [10.{net}.{}.{}]}}", i >> 8, i & 255)
    };
    let list = |name: &'static str, net| (0..1_000).map(move |i| record(name, i, net));
    let before: Vec<String> = list("stays", 1).chain(list("goes", 1)).collect();
    let after: Vec<String> = list("stays", 2).chain(list("comes", 2)).collect();
    converge(provider, cx, ZONE, &resources(provider, &before), &[]).await;
    let gone: Vec<String> = (0..1_000).map(|i| format!("goes-{i}.example.com./A")).collect();
    let gone: Vec<&str> = gone.iter().map(String::as_str).collect();
    let probe = Probe::start(port, (0..1_000).map(|i| format!("stays-{i}.example.com")).collect());
    let (_, notes, result) = apply(provider, cx, ZONE, &resources(provider, &after), &gone).await;
    result.unwrap_or_else(|error| panic!("{server}: {}", error.chain()));
    assert_eq!(notes.counts(), [("done", 2_000), ("gone", 1_000)].into());
    probe.heard_only_data(server, 10);
    let seen = observe(provider, cx, ZONE).await.unwrap();
    assert!(seen.get(&"comes-999.example.com./A".into()).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_goes_and_comes_in_two_steps_is_heard_to_be_gone() {
    for kind in KINDS {
        let server = Dnsd::with_example(kind).await;
        let (provider, cx) = (server.provider(), server.cx());
        let alias = resources(&*provider, &swaps(true)[..1]);
        let probe = Probe::start(server.port, vec!["swap-0.example.com".into()]);
        for _ in 0..20 {
            converge(&*provider, &cx, ZONE, &alias, &[]).await;
            converge(&*provider, &cx, ZONE, &alias[..1], &["swap-0.example.com./CNAME"]).await;
        }
        let heard = probe.end();
        assert!(heard.gaps.contains_key("NXDOMAIN for swap-0.example.com"), "{kind:?}: {heard:?}");
        assert!(heard.answers > 0, "{kind:?}: {heard:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_name_is_ever_gone_while_it_changes_through_the_api_of_powerdns() {
    for marks in [true, false] {
        let server = Pdns::start().await;
        let provider = server.provider_with(|config| config.marks = marks);
        swap("the API of PowerDNS", &*provider, &server.cx(), server.port).await;
        mass("the API of PowerDNS", &*provider, &server.cx(), server.port).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_name_is_ever_gone_while_it_changes_by_updates() {
    for kind in KINDS {
        let server = Dnsd::with_example(kind).await;
        // PowerDNS walks the zone for each deletion of an update.
        let provider = provider_with(&server.address(), |config, _| config.timeout = Duration::from_secs(60));
        let name = format!("{kind:?}");
        swap(&name, &*provider, &server.cx(), server.port).await;
        mass(&name, &*provider, &server.cx(), server.port).await;
    }
}
