//! OTLP over gRPC: one message there and a status back, on one connection.
//!
//! Guarantees: a connection that broke, or on which something went wrong, is not used again; the next call makes another.
//! Of an answer the status alone counts.

use super::wire::{ANSWER, ExportTraceServiceRequest};
use crate::http::{CallError, excerpt};
use reconciled_grpc::{Channel, Status};
use reqwest::Url;
use std::{fmt::Display, time::Duration};
use tokio::{net::TcpStream, time::timeout};

/// `collector/trace/v1/trace_service.proto` of opentelemetry-proto.
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// Bytes of an answer that are read: it says how many spans were refused, if any.
const READ: usize = 16 << 10;

/// A collector.
pub(super) struct Grpc {
    url: Url,
    /// For tests: [`ANSWER`].
    limit: Duration,
    kept: Option<Channel>,
}

impl Grpc {
    pub(super) fn new(url: &Url) -> Grpc {
        Grpc { url: url.clone(), limit: ANSWER, kept: None }
    }

    pub(super) async fn export(&mut self, message: &ExportTraceServiceRequest) -> Result<(), CallError> {
        let kept = self.kept.take();
        let result = timeout(self.limit, call(&self.url, kept, message)).await;
        let host = || self.url.host_str().unwrap_or("the collector").to_owned();
        let why = match result.unwrap_or(Err(Status::Late(self.limit))) {
            Ok(channel) => {
                self.kept = Some(channel);
                return Ok(());
            }
            Err(Status::Code(code, said)) => {
                return Err(CallError::Status { host: host(), code, said: excerpt(&said) });
            }
            Err(Status::Broken(why)) => why,
            Err(Status::Late(limit)) => format!("no answer within {limit:?}"),
        };
        Err(CallError::NoAnswer { host: host(), why })
    }
}

/// One call, on a connection that was kept if that still stands. Returns the connection if all went well.
async fn call(
    url: &Url,
    kept: Option<Channel>,
    message: &ExportTraceServiceRequest,
) -> Result<Channel, Status> {
    let channel = match kept {
        // One that the collector has closed meanwhile says so here, before anything is sent.
        Some(channel) if channel.is_open().await => channel,
        _ => connect(url).await?,
    };
    let agent = concat!("reconciled/", env!("CARGO_PKG_VERSION"));
    let limit = format!("{}m", ANSWER.as_millis());
    let headers = [("user-agent", agent), ("grpc-timeout", &*limit)];
    channel.ask(EXPORT, &headers, message, READ).await?;
    Ok(channel)
}

async fn connect(url: &Url) -> Result<Channel, Status> {
    let port = url.port_or_known_default().unwrap_or_default();
    let stream = match url.host() {
        Some(url::Host::Domain(name)) => TcpStream::connect((name, port)).await,
        Some(url::Host::Ipv4(address)) => TcpStream::connect((address, port)).await,
        Some(url::Host::Ipv6(address)) => TcpStream::connect((address, port)).await,
        None => return Err(broken("it has no host")),
    };
    let stream = stream.map_err(|error| broken(format!("connect: {error}")))?;
    // A batch is written at once, and nothing comes after it that it could wait for.
    stream.set_nodelay(true).map_err(broken)?;
    let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
    Channel::over(stream, authority, READ as u32).await
}

fn broken(error: impl Display) -> Status {
    Status::Broken(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            collector::{Collector, Protocol},
            wire::{self, ResourceSpans, ScopeSpans, Span},
        },
        *,
    };
    use http::{HeaderMap, Response};
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Theirs;
    use prost::{Message, bytes::Bytes};
    use std::sync::{Arc, Mutex};
    use tokio::{net::TcpListener, task::JoinSet};

    /// What the collector does with a call.
    #[derive(Clone, Copy)]
    enum Play {
        /// It takes the spans, and says so in trailers.
        Takes,
        /// It answers with this status, in headers alone or in trailers.
        Says(u32, bool),
        /// It cuts the connection instead of an answer.
        Cuts,
        /// It takes the spans, and closes the connection in good order.
        Leaves,
        /// It answers as a server does that knows no gRPC.
        KnowsNot,
        /// It never answers.
        Sleeps,
    }

    /// The connection that each call came on, and its spans' names.
    type Calls = Arc<Mutex<Vec<(usize, Vec<String>)>>>;

    /// A collector of its own address, since the port is what says that it speaks gRPC.
    struct Fake {
        url: Url,
        calls: Calls,
        _serving: JoinSet<()>,
    }

    impl Fake {
        async fn start(plays: &'static [Play]) -> Fake {
            let mut number = std::process::id();
            let (listener, address) = loop {
                number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let [_, a, b, c] = number.to_be_bytes();
                let address = std::net::Ipv4Addr::new(127, a, b, c.clamp(1, 254));
                if let Ok(listener) = TcpListener::bind((address, 4317)).await {
                    break (listener, address);
                }
            };
            let calls = Arc::<Mutex<Vec<(usize, Vec<String>)>>>::default();
            let mut serving = JoinSet::new();
            let kept = calls.clone();
            serving.spawn(async move {
                let mut plays = plays.iter().copied();
                for connection in 0.. {
                    let (stream, _) = listener.accept().await.unwrap();
                    serve(stream, &mut plays, |names| kept.lock().unwrap().push((connection, names))).await;
                }
            });
            let url = Url::parse(&format!("http://{address}:4317")).unwrap();
            Fake { url, calls, _serving: serving }
        }
    }

    /// Serves one connection until it is over.
    async fn serve(
        stream: TcpStream,
        plays: &mut impl Iterator<Item = Play>,
        mut heard: impl FnMut(Vec<String>),
    ) {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let mut asleep = Vec::new();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
            assert_eq!((request.method().as_str(), request.uri().path()), ("POST", EXPORT));
            assert_eq!(header("content-type"), Some("application/grpc"));
            assert_eq!((header("te"), header("grpc-timeout")), (Some("trailers"), Some("5000m")));
            assert!(header("user-agent").is_some_and(|agent| agent.starts_with("reconciled/")));
            let mut body = request.into_body();
            let mut bytes = Vec::new();
            while let Some(part) = std::future::poll_fn(|cx| {
                // The connection moves while its streams are read.
                let _ = connection.poll_closed(cx);
                body.poll_data(cx)
            })
            .await
            {
                let part = part.unwrap();
                body.flow_control().release_capacity(part.len()).unwrap();
                bytes.extend_from_slice(&part);
            }
            assert_eq!(bytes[0], 0, "not compressed");
            assert_eq!(bytes[1..5], ((bytes.len() - 5) as u32).to_be_bytes());
            let message = Theirs::decode(&bytes[5..]).unwrap();
            let spans = message.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
            heard(spans.flat_map(|scope| scope.spans).map(|span| span.name).collect());
            let play = plays.next().expect("no more calls than the test is about");
            let answer = Response::builder().header("content-type", "application/grpc");
            match play {
                Play::Takes | Play::Leaves | Play::Says(_, false) => {
                    let mut stream = respond.send_response(answer.body(()).unwrap(), false).unwrap();
                    let code = if let Play::Says(code, _) = play { code } else { 0 };
                    if code == 0 {
                        stream.send_data(Bytes::from_static(&[0; 5]), false).unwrap();
                    }
                    let mut trailers = HeaderMap::new();
                    trailers.insert("grpc-status", code.into());
                    trailers.insert("grpc-message", "not%20now".parse().unwrap());
                    stream.send_trailers(trailers).unwrap();
                    if matches!(play, Play::Leaves) {
                        connection.graceful_shutdown();
                    }
                }
                Play::Says(code, true) => {
                    let answer = answer.header("grpc-status", code).header("grpc-message", "not%20now");
                    respond.send_response(answer.body(()).unwrap(), true).unwrap();
                }
                Play::Cuts => return,
                Play::KnowsNot => {
                    let answer = Response::builder().status(404).body(()).unwrap();
                    respond.send_response(answer, true).unwrap();
                }
                Play::Sleeps => asleep.push(respond),
            }
        }
    }

    fn spans(name: &str) -> ExportTraceServiceRequest {
        let span = Span { name: name.to_owned(), span_id: vec![1; 8], kind: wire::CLIENT, ..Span::default() };
        let scope = ScopeSpans { scope: None, spans: vec![span] };
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans { resource: None, scope_spans: vec![scope] }],
        }
    }

    /// Sends a batch for each play. Returns what came of each, and which connection each came on.
    async fn play(plays: &'static [Play]) -> (Vec<String>, Vec<usize>) {
        let fake = Fake::start(plays).await;
        assert_eq!(Protocol::of(&fake.url), Protocol::Grpc);
        let mut collector = Collector::new(&fake.url).unwrap();
        let host = fake.url.host_str().unwrap();
        let mut results = Vec::new();
        for number in 0..plays.len() {
            let result = collector.take(&spans(&format!("span-{number}"))).await;
            results
                .push(result.map_or_else(|error| error.to_string().replace(host, "HOST"), |()| "ok".into()));
        }
        let calls = fake.calls.lock().unwrap().clone();
        for (number, (_, names)) in calls.iter().enumerate() {
            assert_eq!(*names, [format!("span-{number}")]);
        }
        (results, calls.into_iter().map(|(connection, _)| connection).collect())
    }

    #[tokio::test]
    async fn spans_are_taken_one_batch_after_the_other_on_one_connection() {
        let (results, connections) = play(&[Play::Takes, Play::Takes, Play::Takes]).await;
        assert_eq!(results, ["ok", "ok", "ok"]);
        assert_eq!(connections, [0, 0, 0]);
    }

    #[tokio::test]
    async fn a_status_is_an_error_wherever_it_stands_and_the_next_call_has_a_connection_of_its_own() {
        let plays = &[Play::Says(14, false), Play::Says(14, true), Play::Says(0, true), Play::Takes];
        let (results, connections) = play(plays).await;
        let refused = "HOST answered gRPC status 14: not now";
        assert_eq!(results, [refused, refused, "ok", "ok"]);
        assert_eq!(connections, [0, 1, 2, 2]);
    }

    #[tokio::test]
    async fn a_connection_that_is_cut_is_an_error_and_is_made_anew() {
        let (results, connections) = play(&[Play::Takes, Play::Cuts, Play::Takes]).await;
        assert!(results[1].starts_with("HOST: "), "{results:?}");
        assert_eq!((&*results[0], &*results[2]), ("ok", "ok"));
        assert_eq!(connections, [0, 0, 1]);
    }

    #[tokio::test]
    async fn what_knows_no_grpc_is_said_to() {
        let (results, _) = play(&[Play::KnowsNot]).await;
        assert_eq!(results, ["HOST: HTTP status 404 Not Found, which is no answer of gRPC"]);
    }

    #[tokio::test]
    async fn a_collector_that_never_answers_is_given_up() {
        let fake = Fake::start(&[Play::Sleeps]).await;
        let mut grpc = Grpc { limit: Duration::from_millis(50), ..Grpc::new(&fake.url) };
        let error = grpc.export(&spans("late")).await.unwrap_err();
        assert!(error.to_string().ends_with(": no answer within 50ms"), "{error}");
        assert!(grpc.kept.is_none());
    }

    #[tokio::test]
    async fn one_that_closed_the_connection_meanwhile_is_asked_on_another() {
        let fake = Fake::start(&[Play::Leaves, Play::Takes]).await;
        let mut grpc = Grpc::new(&fake.url);
        grpc.export(&spans("first")).await.unwrap();
        grpc.kept.as_ref().unwrap().ended().wait_for(|ended| *ended).await.unwrap();
        grpc.export(&spans("second")).await.unwrap();
        let connections: Vec<usize> = fake.calls.lock().unwrap().iter().map(|(number, _)| *number).collect();
        assert_eq!(connections, [0, 1]);
    }
}
