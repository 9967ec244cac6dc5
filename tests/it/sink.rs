//! A small HTTP server that keeps what it is told, and answers as the test says.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
};

/// One request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in small letters.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// The server. It listens as long as the process lives.
pub(crate) struct Sink {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    status: Arc<AtomicU16>,
}

impl Sink {
    pub(crate) fn start() -> Sink {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (requests, status) = (Arc::<Mutex<Vec<Request>>>::default(), Arc::new(AtomicU16::new(200)));
        let (kept, answer) = (requests.clone(), status.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, answer) = (kept.clone(), answer.clone());
                std::thread::spawn(move || serve(stream, &kept, &answer));
            }
        });
        Sink { url, requests, status }
    }
    /// Answers with this status from now on; 0 never answers.
    pub(crate) fn answers(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
    /// Those to this path.
    pub(crate) fn at(&self, path: &str) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.path == path).collect()
    }
}

fn serve(stream: TcpStream, kept: &Mutex<Vec<Request>>, status: &AtomicU16) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader) {
        kept.lock().unwrap().push(request);
        let status = status.load(Ordering::SeqCst);
        if status == 0 {
            loop {
                std::thread::park();
            }
        }
        let answer =
            format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}");
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let mut request = Request { method: words.next()?, path: words.next()?, ..Request::default() };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        request.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = request.header("content-length").parse().unwrap_or(0);
    request.body = vec![0; length];
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}
