//! Questions to one name server, many at once.
//!
//! Guarantees: an answer counts only when it comes from the server that was asked and repeats id and question; no wait
//! is without an end; a server that says nothing at all costs one round of waiting for each try, however much it is
//! asked.

use crate::{name, rfc2136::response};
use ring::rand::{SecureRandom, SystemRandom};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::{Instant, timeout, timeout_at},
};

/// Questions that are on their way at once: few enough for the buffer of any socket.
const WINDOW: usize = 64;
/// How long each try waits. The last ones are for a server that is far away or busy.
const TRIES: [Duration; 3] =
    [Duration::from_millis(400), Duration::from_millis(800), Duration::from_millis(1_600)];
/// What fits into a packet everywhere (DNS flag day 2020).
const PACKET: u16 = 1_232;

/// Name and type number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question<'a> {
    pub(super) name: &'a str,
    pub(super) number: u16,
}

/// Asks `server`; the answers stand where the questions do, none for what it does not answer. One that said nothing the
/// last time is tried once: whoever waits for this is not to wait for a server that is down again and again.
pub(super) async fn ask(
    server: SocketAddr,
    questions: &[Question<'_>],
    was_silent: bool,
) -> Vec<Option<Vec<u8>>> {
    let mut answers = vec![None; questions.len()];
    let Some(packets) = packets(questions) else { return answers };
    let any: SocketAddr = if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let Ok(socket) = UdpSocket::bind(any).await else { return answers };
    if socket.connect(server).await.is_err() {
        return answers;
    }
    for patience in TRIES.into_iter().take(if was_silent { 1 } else { TRIES.len() }) {
        let open: Vec<usize> = (0..questions.len()).filter(|index| answers[*index].is_none()).collect();
        for window in open.chunks(WINDOW) {
            for index in window {
                if let Some(packet) = &packets[*index] {
                    let _ = socket.send(packet).await;
                }
            }
            let heard = listen(&socket, questions, &packets, window, &mut answers, patience).await;
            if heard == 0 {
                break;
            }
        }
        if answers.iter().all(Option::is_some) {
            break;
        }
    }
    let cut: Vec<usize> = (0..questions.len())
        .filter(|index| answers[*index].as_deref().and_then(response::parse).is_some_and(|r| r.is_truncated))
        .collect();
    if !cut.is_empty() {
        let whole = timeout(TRIES[2] * 2, over_tcp(server, questions, &packets, &cut));
        let whole = whole.await.ok().and_then(Result::ok).unwrap_or_default();
        for (place, index) in cut.iter().enumerate() {
            answers[*index] = whole.get(place).cloned().flatten();
        }
    }
    answers
}

/// Takes answers to the questions of `window` until all are there or time is over; says how many came.
async fn listen(
    socket: &UdpSocket,
    questions: &[Question<'_>],
    packets: &[Option<Vec<u8>>],
    window: &[usize],
    answers: &mut [Option<Vec<u8>>],
    patience: Duration,
) -> usize {
    let until = Instant::now() + patience;
    let mut heard = 0;
    let mut buffer = vec![0; 4_096];
    while window.iter().any(|index| answers[*index].is_none()) {
        // Nobody listens there, or time is over.
        let Ok(Ok(length)) = timeout_at(until, socket.recv(&mut buffer)).await else { break };
        let packet = &buffer[..length];
        let is_for = |index: &&usize| {
            packets[**index].as_ref().is_some_and(|asked| is_answer(asked, &questions[**index], packet))
        };
        if let Some(index) = window.iter().find(is_for) {
            answers[*index] = Some(packet.to_vec());
            heard += 1;
        }
    }
    heard
}

/// Asks again what did not fit into a packet, on one connection.
async fn over_tcp(
    server: SocketAddr,
    questions: &[Question<'_>],
    packets: &[Option<Vec<u8>>],
    which: &[usize],
) -> std::io::Result<Vec<Option<Vec<u8>>>> {
    let mut stream = TcpStream::connect(server).await?;
    let mut answers = Vec::with_capacity(which.len());
    for index in which {
        let Some(packet) = &packets[*index] else { continue };
        stream.write_u16(u16::try_from(packet.len()).unwrap_or(0)).await?;
        stream.write_all(packet).await?;
        let mut answer = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut answer).await?;
        answers.push(is_answer(packet, &questions[*index], &answer).then_some(answer));
    }
    Ok(answers)
}

/// True for an answer to the question that `asked` is.
fn is_answer(asked: &[u8], question: &Question<'_>, packet: &[u8]) -> bool {
    // The id first: most packets are for other questions.
    packet.first_chunk::<2>() == asked.first_chunk::<2>()
        && response::parse(packet).is_some_and(|response| {
            let repeated = response
                .question
                .as_ref()
                .is_none_or(|(name, number)| *name == question.name && *number == question.number);
            response.is_response && repeated
        })
}

/// The questions as messages; none of one that has no form on the wire. Their ids differ.
fn packets(questions: &[Question<'_>]) -> Option<Vec<Option<Vec<u8>>>> {
    let mut start = [0; 2];
    SystemRandom::new().fill(&mut start).ok()?;
    let start = u16::from_be_bytes(start);
    let packet = |(index, question): (usize, &Question<'_>)| {
        let id = start.wrapping_add(u16::try_from(index).ok()?);
        let mut out = Vec::with_capacity(64);
        out.extend(id.to_be_bytes());
        // Not recursive: what a server says of itself is asked for. One question, and one option (EDNS0).
        out.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
        name::encode(question.name, &mut out)?;
        out.extend(question.number.to_be_bytes());
        out.extend(response::IN.to_be_bytes());
        out.extend([0, 0, 41]);
        out.extend(PACKET.to_be_bytes());
        out.extend([0, 0, 0, 0, 0, 0]);
        Some(out)
    };
    Some(questions.iter().enumerate().map(packet).collect())
}
