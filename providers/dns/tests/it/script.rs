//! A server that answers by script, for the failures a real one does not show on request.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// One answer.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// A status with a body.
    Say(u16, String),
    /// A status with a header and no body.
    With(u16, &'static str),
    /// A body of which only the first bytes arrive.
    Cut(String, usize),
    /// The request is read and the connection closed: the server may have committed.
    Hang,
    /// The request is read and nothing comes until the client gives up.
    Silence,
}

/// What was asked: `METHOD PATH` and body.
pub(crate) type Request = (String, String);

/// The scripted server; its requests are kept.
pub(crate) struct Script {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Script {
    /// Answers one request after the other; when the script has ended, connections are refused by silence.
    pub(crate) fn play(answers: Vec<Answer>) -> Script {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        // The thread ends with its script, or with the test's process.
        thread::spawn(move || {
            let mut open = Vec::new();
            for answer in answers {
                let Ok((stream, _)) = listener.accept() else { return };
                let Some(request) = read(&stream) else { return };
                seen.lock().unwrap().push(request);
                open.extend(give(stream, answer));
            }
            // Silent connections stay open until the client gave up and the process ends.
            let _ = listener.accept().map(|stream| open.push(stream.0));
        });
        Script { url, requests }
    }
    /// What was asked so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut words = first.split(' ');
    let what = format!("{} {}", words.next()?, words.next()?);
    Some((what, String::from_utf8(body).ok()?))
}

fn give(mut stream: TcpStream, answer: Answer) -> Option<TcpStream> {
    let head = |status: u16, length: usize, more: &str| {
        format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n{more}\r\n")
    };
    let text = match answer {
        Answer::Say(status, body) => head(status, body.len(), "") + &body,
        Answer::With(status, header) => head(status, 0, &format!("{header}\r\n")),
        Answer::Cut(body, length) => head(200, body.len(), "") + &body[..length],
        Answer::Hang => return None,
        Answer::Silence => return Some(stream),
    };
    let _ = stream.write_all(text.as_bytes());
    None
}
