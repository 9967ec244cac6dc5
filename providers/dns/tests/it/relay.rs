//! A relay before a real server that breaks what passes, for the failures a server does not show on request.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// What happens to one exchange over TCP.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It passes as it is.
    Pass,
    /// The answers end after so many octets, and the connection with them.
    CutAnswer(usize),
    /// The server gets the request and its answer is thrown away.
    LoseAnswer,
    /// The server gets the request, and in place of its answer there is one without a signature and with this code.
    Say(u8),
    /// The server never gets the request.
    LoseRequest,
    /// The server gets only the first octets of the request.
    CutRequest(usize),
    /// So many octets into the answers, one bit is changed.
    Flip(usize),
    /// It passes, and this happens between the server's answer and who asked getting it.
    After(Meanwhile),
}

impl Fault {
    pub(crate) fn after(act: impl Fn() + Send + Sync + 'static) -> Fault {
        Fault::After(Meanwhile(Arc::new(act)))
    }
}

/// Something that happens.
#[derive(Clone)]
pub(crate) struct Meanwhile(Arc<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meanwhile")
    }
}

/// What passed so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Packets over UDP, both ways.
    pub(crate) packets: AtomicUsize,
    /// Connections over TCP.
    pub(crate) connections: AtomicUsize,
    /// Messages to the server over TCP.
    pub(crate) requests: AtomicUsize,
    /// Those of them that are updates.
    pub(crate) updates: AtomicUsize,
    /// Those of them that ask for all of a zone.
    pub(crate) wholes: AtomicUsize,
    /// Those of them that ask for what changed.
    pub(crate) differences: AtomicUsize,
    /// Octets of the answers over TCP.
    pub(crate) octets: AtomicUsize,
}

impl Counts {
    pub(crate) fn all(&self) -> (usize, usize, usize) {
        let of = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        (of(&self.packets), of(&self.connections), of(&self.requests))
    }
    /// Questions for all of a zone, and for what changed, and the octets of all answers.
    pub(crate) fn transfers(&self) -> (usize, usize, usize) {
        let of = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        (of(&self.wholes), of(&self.differences), of(&self.octets))
    }
    /// Questions and updates to the server, over UDP and TCP.
    pub(crate) fn questions_and_updates(&self) -> (usize, usize) {
        let of = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        let updates = of(&self.updates);
        (of(&self.packets).div_ceil(2) + of(&self.requests) - updates, updates)
    }
}

/// A running relay. Its threads end with the process of the tests.
pub(crate) struct Relay {
    pub(crate) address: String,
    pub(crate) counts: Arc<Counts>,
}

impl Relay {
    /// A relay to the server at `port`. Each request over TCP takes the next of `faults`; after them all pass.
    pub(crate) fn to(port: u16, faults: Vec<Fault>) -> Relay {
        let (tcp, udp) = both();
        let counts = Arc::new(Counts::default());
        let address = tcp.local_addr().unwrap().to_string();
        let faults = Arc::new(Mutex::new(faults.into_iter()));
        let seen = counts.clone();
        thread::spawn(move || {
            for client in tcp.incoming().flatten() {
                seen.connections.fetch_add(1, Ordering::SeqCst);
                let (faults, seen) = (faults.clone(), seen.clone());
                thread::spawn(move || {
                    let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { return };
                    let _ = pass(client, server, &faults, &seen);
                });
            }
        });
        let seen = counts.clone();
        thread::spawn(move || {
            let mut packet = [0; 4_096];
            while let Ok((length, client)) = udp.recv_from(&mut packet) {
                seen.packets.fetch_add(1, Ordering::SeqCst);
                let server = UdpSocket::bind("127.0.0.1:0").unwrap();
                server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                server.send_to(&packet[..length], ("127.0.0.1", port)).unwrap();
                let mut answer = [0; 4_096];
                if let Ok(length) = server.recv(&mut answer) {
                    seen.packets.fetch_add(1, Ordering::SeqCst);
                    udp.send_to(&answer[..length], client).unwrap();
                }
            }
        });
        Relay { address, counts }
    }
}

/// Sockets of both kinds with one number.
fn both() -> (TcpListener, UdpSocket) {
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) {
            return (tcp, udp);
        }
    }
}

type Faults = Arc<Mutex<std::vec::IntoIter<Fault>>>;

/// Passes messages of one connection. A zone transfer is as many answers as come.
fn pass(mut client: TcpStream, mut server: TcpStream, faults: &Faults, seen: &Counts) -> std::io::Result<()> {
    loop {
        let mut request = read(&mut client)?;
        seen.requests.fetch_add(1, Ordering::SeqCst);
        // The operation of a message stands behind its length and id.
        seen.updates.fetch_add(usize::from(request[4] >> 3 & 15 == 5), Ordering::SeqCst);
        let fault = faults.lock().unwrap().next().unwrap_or(Fault::Pass);
        match fault {
            Fault::LoseRequest => return Ok(()),
            Fault::CutRequest(length) => {
                request.truncate(length);
                server.write_all(&request)?;
                return Ok(());
            }
            _ => server.write_all(&request)?,
        }
        let mut left = match fault {
            Fault::CutAnswer(length) => Some(length),
            Fault::LoseAnswer => Some(0),
            _ => None,
        };
        let mut flip = match fault {
            Fault::Flip(at) => Some(at),
            _ => None,
        };
        // Types 252 and 251 in the question: answers follow until the server has nothing more to say for a moment.
        let asks_for = |kind: u8| request.windows(4).any(|octets| octets == [0, kind, 0, 1]);
        let (whole, difference) = (asks_for(252), asks_for(251));
        let is_transfer = whole || difference;
        seen.wholes.fetch_add(usize::from(whole), Ordering::SeqCst);
        seen.differences.fetch_add(usize::from(difference), Ordering::SeqCst);
        server.set_read_timeout(None)?;
        let mut is_first = true;
        loop {
            let mut answer = match read(&mut server) {
                Ok(answer) => answer,
                Err(_) if !is_first => break,
                Err(error) => return Err(error),
            };
            seen.octets.fetch_add(answer.len(), Ordering::SeqCst);
            if let Fault::After(Meanwhile(act)) = &fault
                && is_first
            {
                act();
            }
            is_first = false;
            if let Fault::Say(code) = fault {
                answer = unsigned(&request, code);
            }
            if let Some(at) = flip.filter(|at| *at < answer.len()) {
                answer[at] ^= 1;
                flip = None;
            } else if let Some(at) = &mut flip {
                *at -= answer.len();
            }
            if let Some(left) = &mut left {
                let length = answer.len().min(*left);
                client.write_all(&answer[..length])?;
                *left -= length;
                if *left == 0 {
                    return Ok(());
                }
            } else {
                client.write_all(&answer)?;
            }
            if !is_transfer {
                break;
            }
            server.set_read_timeout(Some(Duration::from_millis(300)))?;
        }
    }
}

/// The header of an answer to `request`, with its length before it.
fn unsigned(request: &[u8], code: u8) -> Vec<u8> {
    let mut header = request[2..14].to_vec();
    header[2] |= 0x80;
    header[3] = code;
    header[4..].fill(0);
    [&[0, 12], &header[..]].concat()
}

/// One message with its length before it.
fn read(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message)?;
    Ok([&length[..], &message].concat())
}
