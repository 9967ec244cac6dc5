//! Questions to one name server, many at once.
//!
//! Guarantees: an answer counts only when it comes from the server that was asked and repeats id and question; all of it
//! ends after some seconds, and what was not asked for by then is told apart from what the server did not answer.

use crate::{name, rfc2136::response};
use ring::rand::{SecureRandom, SystemRandom};
use std::{io, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::{Instant, timeout_at},
};

/// Questions that are on their way at once: few enough for the buffer of any socket.
const WINDOW: usize = 64;
/// How long each try waits, in tenths of the whole. The last one is for a server that is far away or busy.
const TRIES: [u32; 3] = [1, 2, 4];
/// The one try for a server that said nothing the last time: nobody is to wait for one that is down again and again.
const LAST_TRY: [u32; 1] = [2];
/// How long all questions may take where nobody says otherwise.
pub(super) const WHOLE: Duration = Duration::from_secs(4);
/// What fits into a packet everywhere (DNS flag day 2020).
const PACKET: u16 = 1_232;

/// How long a server is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// How long all questions may take.
    pub(super) whole: Duration,
    /// It said nothing the last time.
    pub(super) was_silent: bool,
}

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A message that answers it.
    Octets(Vec<u8>),
    /// Nothing came, however often it was asked.
    Silence,
    /// There was no time for it, or the answer never came whole.
    Unasked,
}

/// Name and type number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question<'a> {
    pub(super) name: &'a str,
    pub(super) number: u16,
}

/// Asks `server`; the answers stand where the questions do.
///
/// Errors: this host cannot send to the server.
pub(super) async fn ask(
    server: SocketAddr,
    questions: &[Question<'_>],
    patience: Patience,
) -> io::Result<Vec<Answer>> {
    let until = Instant::now() + patience.whole;
    let packets = packets(questions).ok_or_else(|| io::Error::other("no randomness"))?;
    let any: SocketAddr = if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    let mut answers = vec![Answer::Unasked; questions.len()];
    let tries = if patience.was_silent { &LAST_TRY[..] } else { &TRIES[..] };
    for tenths in tries {
        let open: Vec<usize> =
            (0..questions.len()).filter(|index| !matches!(answers[*index], Answer::Octets(_))).collect();
        for window in open.chunks(WINDOW).take_while(|_| Instant::now() < until) {
            for index in window {
                if let Some(packet) = &packets[*index] {
                    let _ = socket.send(packet).await;
                    answers[*index] = Answer::Silence;
                }
            }
            let end = until.min(Instant::now() + patience.whole * *tenths / 10);
            if listen(&socket, questions, &packets, window, &mut answers, end).await == 0 {
                break;
            }
        }
    }
    let is_cut = |answer: &Answer| match answer {
        Answer::Octets(octets) => response::parse(octets).is_some_and(|response| response.is_truncated),
        _ => false,
    };
    let cut: Vec<usize> = (0..answers.len()).filter(|index| is_cut(&answers[*index])).collect();
    for index in &cut {
        answers[*index] = Answer::Unasked;
    }
    // A server may close after each answer; one that never gives any is left alone.
    let (mut open, mut is_given_up) = (&cut[..], false);
    while !open.is_empty() && !is_given_up && Instant::now() < until {
        let before = open.len();
        let rest = over_tcp(server, questions, &packets, &mut open, &mut answers);
        let _ = timeout_at(until, rest).await;
        is_given_up = open.len() == before;
    }
    Ok(answers)
}

/// Takes answers to the questions of `window` until all are there or time is over; says how many came.
async fn listen(
    socket: &UdpSocket,
    questions: &[Question<'_>],
    packets: &[Option<Vec<u8>>],
    window: &[usize],
    answers: &mut [Answer],
    until: Instant,
) -> usize {
    let (mut heard, mut open) = (0, window.iter().filter(|index| packets[**index].is_some()).count());
    let mut buffer = vec![0; 4_096];
    while open > 0 {
        // Nobody listens there, or time is over.
        let Ok(Ok(length)) = timeout_at(until, socket.recv(&mut buffer)).await else { break };
        let packet = &buffer[..length];
        let is_for = |index: &&usize| {
            packets[**index].as_ref().is_some_and(|asked| is_answer(asked, &questions[**index], packet))
        };
        if let Some(index) = window.iter().find(is_for)
            && answers[*index] == Answer::Silence
        {
            answers[*index] = Answer::Octets(packet.to_vec());
            (heard, open) = (heard + 1, open - 1);
        }
    }
    heard
}

/// Asks again what did not fit into a packet, on one connection; takes what was answered off `open`.
async fn over_tcp(
    server: SocketAddr,
    questions: &[Question<'_>],
    packets: &[Option<Vec<u8>>],
    open: &mut &[usize],
    answers: &mut [Answer],
) -> io::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    while let Some((index, rest)) = open.split_first() {
        let packet = packets[*index].as_deref().unwrap_or_default();
        stream.write_u16(u16::try_from(packet.len()).unwrap_or(0)).await?;
        stream.write_all(packet).await?;
        let mut answer = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut answer).await?;
        if is_answer(packet, &questions[*index], &answer) {
            answers[*index] = Answer::Octets(answer);
        }
        *open = rest;
    }
    Ok(())
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
