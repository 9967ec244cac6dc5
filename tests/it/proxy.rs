//! A proxy between the program and a real server that can spoil an answer.

use reconciled_testkit::PATIENCE;
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// What happens to the answer of a request.
#[derive(Clone)]
pub(crate) enum Damage {
    /// The server is not asked; this is answered: status line and headers, each ended by CR LF.
    Instead(&'static str),
    /// The server is asked, its answer does not come through: the connection is cut.
    CutAfter,
    /// Half of the answer's body comes through, as if it were all of it.
    Truncated,
    /// The server is not asked and nothing is answered until the client has gone.
    Silence,
}

/// Which requests are spoiled: method and a part of the path, after so many of them that are not.
#[derive(Clone)]
struct Rule {
    method: &'static str,
    path: &'static str,
    damage: Damage,
    passes: usize,
}

/// A listening proxy; every connection carries one request.
pub(crate) struct Proxy {
    pub(crate) url: String,
    address: String,
    rule: Arc<Mutex<Option<Rule>>>,
    spoilt: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the listener, which then sees that it is over.
        let _ = TcpStream::connect(&self.address);
    }
}

impl Proxy {
    /// A proxy in front of `server` (`HOST:PORT`).
    pub(crate) fn start(server: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let rule = Arc::new(Mutex::new(None));
        let (spoilt, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let proxy = Proxy {
            url: format!("http://{address}"),
            address,
            rule: rule.clone(),
            spoilt: spoilt.clone(),
            is_over: is_over.clone(),
        };
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                let (server, rule, spoilt) = (server.clone(), rule.clone(), spoilt.clone());
                std::thread::spawn(move || {
                    let Ok(client) = client else { return };
                    // A client that goes away is what some of the tests want.
                    let _ = serve(client, &server, &rule, &spoilt);
                });
            }
        });
        proxy
    }
    /// From now on spoils requests of `method` whose path contains `path`.
    pub(crate) fn spoil(&self, method: &'static str, path: &'static str, damage: Damage) {
        self.spoil_after(0, method, path, damage);
    }
    /// The same, but for the first `passes` of them.
    pub(crate) fn spoil_after(
        &self,
        passes: usize,
        method: &'static str,
        path: &'static str,
        damage: Damage,
    ) {
        *self.rule.lock().unwrap() = Some(Rule { method, path, damage, passes });
        self.spoilt.store(0, Ordering::SeqCst);
    }
    /// From now on lets everything through.
    pub(crate) fn heal(&self) {
        *self.rule.lock().unwrap() = None;
    }
    /// Requests spoilt since the last rule.
    pub(crate) fn spoilt(&self) -> usize {
        self.spoilt.load(Ordering::SeqCst)
    }
}

fn serve(
    mut client: TcpStream,
    server: &str,
    rule: &Mutex<Option<Rule>>,
    spoilt: &AtomicUsize,
) -> std::io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    let (head, body) = message(&mut client)?;
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let matching = |rule: &Rule| rule.method == method && path.contains(rule.path);
    let damage = {
        let mut rule = rule.lock().unwrap();
        match rule.as_mut().filter(|rule| matching(rule)) {
            Some(rule) if rule.passes > 0 => {
                rule.passes -= 1;
                None
            }
            rule => rule.map(|rule| rule.damage.clone()),
        }
    };
    if damage.is_some() {
        spoilt.fetch_add(1, Ordering::SeqCst);
    }
    match &damage {
        Some(Damage::Instead(head)) => {
            return client.write_all(
                format!("HTTP/1.1 {head}Connection: close\r\nContent-Length: 0\r\n\r\n").as_bytes(),
            );
        }
        Some(Damage::Silence) => {
            // Ends when the client gives up.
            client.read_to_end(&mut Vec::new())?;
            return Ok(());
        }
        _ => {}
    }
    let mut upstream = TcpStream::connect(server)?;
    let kept = head.split("\r\n").filter(|line| !line.to_lowercase().starts_with("connection:"));
    let head = kept.collect::<Vec<_>>().join("\r\n");
    upstream.write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes())?;
    upstream.write_all(&body)?;
    let (head, mut body) = message(&mut upstream)?;
    match damage {
        Some(Damage::CutAfter) => return client.shutdown(Shutdown::Both),
        Some(Damage::Truncated) => body.truncate(body.len() / 2),
        _ => {}
    }
    let is_framing = |line: &str| {
        let line = line.to_lowercase();
        ["connection:", "content-length:", "transfer-encoding:"].iter().any(|name| line.starts_with(name))
    };
    let head = head.split("\r\n").filter(|line| !is_framing(line)).collect::<Vec<_>>().join("\r\n");
    let framing =
        if head.contains(" 204 ") { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    client.write_all(format!("{head}\r\nConnection: close\r\n{framing}\r\n").as_bytes())?;
    client.write_all(&body)
}

/// Head without its empty line, and the body by its `Content-Length`, or to the end.
fn message(stream: &mut TcpStream) -> std::io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 65_536];
    loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
            let length = head.split("\r\n").find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            });
            let is_answer = head.starts_with("HTTP/");
            let mut body = bytes.split_off(at + 4);
            match length {
                Some(length) => {
                    while body.len() < length {
                        let count = stream.read(&mut chunk)?;
                        if count == 0 {
                            break;
                        }
                        body.extend_from_slice(&chunk[..count]);
                    }
                }
                None if is_answer => {
                    stream.read_to_end(&mut body)?;
                }
                None => {}
            }
            return Ok((head, body));
        }
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&chunk[..count]);
    }
}
