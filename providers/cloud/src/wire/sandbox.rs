//! A provider that somebody else starts, with fewer rights than this program has: a unit of systemd with `Accept=yes`, one
//! process of it for each connection.
//!
//! ```text
//! this program ─► length + open program ─► unit   program: path, variables, allowTcp
//!              ◄─ one line ◄──────────────        the protocol, or what went wrong
//!              ◄─► HTTP/2 ◄──────────────►        passed on between here and the provider
//! ```
//!
//! *Guarantees*: what is run is the very file that this program opened, whether or not the unit could open it. The provider ends with the connection, however this program ends. *Assumptions*: nobody else can
//! connect to the socket, and who listens there is who the host's configuration says. *Deliberately not done*: nothing that a
//! provider prints is passed on, but for the last line of one that does not start.

use super::{
    Status, call,
    launch::{Begun, Launch, START, reach},
    version::Protocol,
};
use reconciled_grpc::Channel;
use reconciled_provider::{Error, ErrorKind};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::UnixStream,
};

/// As large may a request be: variables hold keys and certificates.
const LARGEST: u32 = 1 << 20;
/// As large may an answer be.
const LONGEST: usize = 64 << 10;
/// How long who starts a provider may take beyond what the provider may.
const MARGIN: Duration = Duration::from_secs(15);

/// What is asked for.
#[derive(Serialize, Deserialize)]
struct Request {
    path: PathBuf,
    environment: Vec<(String, String)>,
    allow_tcp: bool,
}

/// What came of it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Answer {
    Protocol(u32),
    Failed { unsupported: bool, message: String, hint: Option<String> },
}

/// Has a provider started by who listens at `at`.
///
/// Errors: as for one that is started here, and `Unavailable` where nobody listens.
pub(super) async fn start(launch: &Launch, at: &Path) -> Result<(Channel, Protocol), Error> {
    let failed = |what: &str, error: io::Error| {
        Error::unavailable(format!("{what} {}", at.display())).caused_by(error).hint(
            "systemctl enable --now reconciled-plugin.socket; then `sandbox` of the entry names its socket",
        )
    };
    let file = match &launch.opened {
        Some(file) => file.try_clone(),
        None => File::open(&launch.path).map(OwnedFd::from),
    };
    let file =
        file.map_err(|error| Error::unavailable(format!("open {}", launch.path.display())).caused_by(error))?;
    let mut stream = UnixStream::connect(at).await.map_err(|error| failed("connect to", error))?;
    let request = Request {
        path: launch.path.clone(),
        environment: launch.environment.clone(),
        allow_tcp: launch.allow_tcp,
    };
    let asked = async {
        send(&mut stream, &request, &file).await.map_err(|error| failed("speak to", error))?;
        // Nothing of what follows the line may be read with it.
        line(&mut stream).await.map_err(|error| failed("hear from", error))
    };
    let answer = tokio::time::timeout(START + MARGIN, asked).await.map_err(|_| {
        failed("hear from", io::Error::new(io::ErrorKind::TimedOut, "it gave no answer in time"))
    })??;
    let odd = || failed("hear from", io::Error::other("it gave no answer that is understood"));
    match serde_json::from_str(&answer).map_err(|_| odd())? {
        Answer::Protocol(number) => {
            let protocol = Protocol::of(number).ok_or_else(odd)?;
            let broken = |status: Status| failed("speak to", io::Error::other(status.to_string()));
            Ok((call::channel(stream).await.map_err(broken)?, protocol))
        }
        Answer::Failed { unsupported, message, hint } => {
            let kind = if unsupported { ErrorKind::Unsupported } else { ErrorKind::Unavailable };
            let error = Error::new(kind, message);
            Err(error.hint_if(hint))
        }
    }
}

/// Starts the provider that `connection` asks for, and passes on what the two say until one of them ends.
///
/// Errors: `Unavailable` where nobody asked for anything; what goes wrong with the provider is told to who asked.
pub async fn serve(connection: std::os::unix::net::UnixStream) -> Result<(), Error> {
    let lost =
        |what: &str, error: io::Error| Error::unavailable(format!("{what} who asked")).caused_by(error);
    connection.set_nonblocking(true).map_err(|error| lost("listen to", error))?;
    let mut stream = UnixStream::from_std(connection).map_err(|error| lost("listen to", error))?;
    let received = tokio::time::timeout(MARGIN, receive(&mut stream)).await;
    let received =
        received.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "nothing was asked")));
    let (request, file) = received.map_err(|error| lost("listen to", error))?;
    let launch = Launch {
        path: request.path,
        keeper: Vec::new(),
        environment: request.environment,
        allow_tcp: request.allow_tcp,
        sandbox: None,
        opened: Some(Arc::new(file)),
    };
    let begun = async {
        let begun = Begun::start(&launch).await?;
        let name = launch.path.display();
        let failed = |error| Error::unavailable(format!("speak to {name}")).caused_by(error);
        let provider = reach(&begun.offer.network).await.map_err(failed)?;
        Ok::<_, Error>((begun, provider))
    };
    let (begun, mut provider) = match begun.await {
        Ok(begun) => begun,
        Err(error) => {
            let unsupported = error.kind == ErrorKind::Unsupported;
            let answer = Answer::Failed { unsupported, message: error.chain(), hint: error.into_told().hint };
            return answered(&mut stream, &answer).await.map_err(|error| lost("answer", error));
        }
    };
    let number = if begun.offer.protocol == Protocol::V5 { 5 } else { 6 };
    answered(&mut stream, &Answer::Protocol(number)).await.map_err(|error| lost("answer", error))?;
    let (mut from_us, mut to_us) = stream.split();
    let (mut from_provider, mut to_provider) = tokio::io::split(&mut provider);
    // Whoever of the two ends first ends the other; what broke off is seen at the other end.
    tokio::select! {
        _ = tokio::io::copy(&mut from_us, &mut to_provider) => {}
        _ = tokio::io::copy(&mut from_provider, &mut to_us) => {}
    }
    drop(begun);
    Ok(())
}

async fn answered(stream: &mut UnixStream, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

/// The length of a request goes with the open program, and the request follows.
async fn send(stream: &mut UnixStream, request: &Request, program: &OwnedFd) -> io::Result<()> {
    let body = serde_json::to_vec(request)?;
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    if length > LARGEST {
        return Err(io::Error::other("the variables of the entry are larger than they can be"));
    }
    let length = length.to_be_bytes();
    stream
        .async_io(Interest::WRITABLE, || {
            let files = [program.as_fd()];
            let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut beside = SendAncillaryBuffer::new(&mut room);
            beside.push(SendAncillaryMessage::ScmRights(&files));
            sendmsg(&*stream, &[IoSlice::new(&length)], &mut beside, SendFlags::NOSIGNAL)?;
            Ok(())
        })
        .await?;
    stream.write_all(&body).await
}

async fn receive(stream: &mut UnixStream) -> io::Result<(Request, OwnedFd)> {
    let mut length = [0; 4];
    let file = stream
        .async_io(Interest::READABLE, || {
            let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut beside = RecvAncillaryBuffer::new(&mut room);
            let flags = RecvFlags::CMSG_CLOEXEC;
            let got = recvmsg(&*stream, &mut [IoSliceMut::new(&mut length)], &mut beside, flags)?;
            let mut files = beside.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(files) => Some(files),
                _ => None,
            });
            let file = files.next().and_then(|mut files| files.next());
            file.filter(|_| got.bytes == 4).ok_or_else(|| io::Error::other("that is no request"))
        })
        .await?;
    let length = u32::from_be_bytes(length);
    if length > LARGEST {
        return Err(io::Error::other("a request of that length is none"));
    }
    let mut body = vec![0; length as usize];
    stream.read_exact(&mut body).await?;
    // The text of the error would quote secrets.
    let request = serde_json::from_slice(&body).map_err(|_| io::Error::other("that is no request"))?;
    Ok((request, file))
}

async fn line(stream: &mut UnixStream) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await? {
            b'\n' => break,
            byte => line.push(byte),
        }
        if line.len() > LONGEST {
            return Err(io::Error::other("it says more than can be"));
        }
    }
    String::from_utf8(line).map_err(io::Error::other)
}
