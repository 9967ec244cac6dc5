//! A small HTTP server for fakes of APIs: it keeps what was asked, and fails where a test tells it to.

use std::{
    collections::{BTreeMap, HashMap},
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// How long who asks a fake waits: a machine that is busy with other tests makes it slow, and nothing else does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    /// Names in lower case.
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(String::as_str).unwrap_or_default()
    }
    /// `GET /zones`
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<String>) -> Reply {
        Reply { status, headers: Vec::new(), body: body.into() }
    }
    pub(crate) fn with(mut self, name: &str, value: &str) -> Reply {
        self.headers.push((name.into(), value.into()));
        self
    }
}

/// What goes wrong with one request.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// This is said and nothing done.
    Say(Reply),
    /// It is done and this is said.
    DoAndSay(Reply),
    /// It is done and the connection closed without an answer.
    DoAndHang,
}

/// An API that a fake plays.
pub(crate) trait Play: Send + 'static {
    fn answer(&mut self, request: &Request) -> Reply;
}

/// A real server behind the fake, so that what is asked of it is counted.
pub(crate) struct Passed {
    /// `HOST:PORT`.
    pub(crate) server: String,
}

impl Play for Passed {
    fn answer(&mut self, request: &Request) -> Reply {
        let mut stream = TcpStream::connect(&self.server).unwrap();
        let query: String =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&request.query).finish();
        let mut text = format!("{} {}?{query} HTTP/1.1\r\n", request.method, request.path);
        for (name, value) in request.headers.iter().filter(|(name, _)| *name != "connection") {
            text += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{text}connection: close\r\n\r\n{}", request.body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        Reply::new(head.split(' ').nth(1).unwrap().parse().unwrap(), body)
    }
}

struct State<P> {
    play: P,
    seen: Vec<Request>,
    faults: Vec<(String, usize, Fault)>,
}

/// A running fake. It ends with the process of the test.
pub(crate) struct Fake<P> {
    pub(crate) url: String,
    state: Arc<Mutex<State<P>>>,
}

impl<P: Play> Fake<P> {
    pub(crate) fn start(play: P) -> Fake<P> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State { play, seen: Vec::new(), faults: Vec::new() }));
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(stream), state) = (stream, shared.clone()) else { return };
                thread::spawn(move || serve(stream, &state));
            }
        });
        Fake { url, state }
    }
    fn state(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Looks at the fake, or changes it past its API.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut P) -> T) -> T {
        act(&mut self.state().play)
    }
    /// Lets the `nth` (from 0) request whose line contains `part` go wrong.
    pub(crate) fn fail(&self, part: &str, nth: usize, fault: Fault) {
        self.state().faults.push((part.into(), nth, fault));
    }
    /// What was asked since the last call of this.
    pub(crate) fn asked(&self) -> Vec<Request> {
        std::mem::take(&mut self.state().seen)
    }
    /// The lines of what was asked since the last call of this or of `asked`.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.asked().iter().map(Request::line).collect()
    }
}

fn serve<P: Play>(stream: TcpStream, state: &Mutex<State<P>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(request) = read(&mut reader) {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let line = format!("{}?{:?}", request.line(), request.query);
        let fault = take_fault(&mut state.faults, &line);
        let reply = match fault {
            Some(Fault::Say(reply)) => Some(reply),
            Some(Fault::DoAndSay(reply)) => {
                state.play.answer(&request);
                Some(reply)
            }
            Some(Fault::DoAndHang) => {
                state.play.answer(&request);
                None
            }
            None => Some(state.play.answer(&request)),
        };
        state.seen.push(request);
        drop(state);
        let Some(reply) = reply else { return };
        let mut head = format!("HTTP/1.1 {} X\r\nContent-Length: {}\r\n", reply.status, reply.body.len());
        for (name, value) in &reply.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if stream.write_all(format!("{head}\r\n{}", reply.body).as_bytes()).is_err() {
            return;
        }
    }
}

fn take_fault(faults: &mut Vec<(String, usize, Fault)>, line: &str) -> Option<Fault> {
    let mut hit = None;
    for (index, (part, nth, _)) in faults.iter_mut().enumerate() {
        if line.contains(part.as_str()) {
            match nth {
                0 if hit.is_none() => hit = Some(index),
                0 => {}
                _ => *nth -= 1,
            }
        }
    }
    hit.map(|index| faults.remove(index).2)
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|length| *length > 0)?;
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Some(Request {
        method,
        path: path.into(),
        query: url::form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        headers,
        body: String::from_utf8(body).ok()?,
    })
}
