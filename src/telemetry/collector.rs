//! Who takes spans: a collector of OpenTelemetry, over HTTP (OTLP/HTTP, binary) or gRPC (OTLP/gRPC).
//!
//! Guarantees: a call ends within [`ANSWER`], whatever the collector does; an error names its host at most.

use super::{
    grpc::Grpc,
    wire::{ANSWER, ExportTraceServiceRequest},
};
use crate::http::{self, CallError};
use prost::Message;
use reqwest::{Client, Url, header};

/// The port that OpenTelemetry gives to OTLP over gRPC.
const PORT_OF_GRPC: u16 = 4317;

/// What is spoken to a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// A request of HTTP for each batch.
    Http,
    /// A call of gRPC for each batch, on a connection that stays.
    Grpc,
}

impl Protocol {
    /// What an address stands for. A path is that of a request, and TLS is spoken by way of HTTP alone.
    pub(crate) fn of(collector: &Url) -> Protocol {
        let is_bare = has_no_path(collector) && collector.query().is_none();
        match collector.scheme() == "http" && collector.port() == Some(PORT_OF_GRPC) && is_bare {
            true => Protocol::Grpc,
            false => Protocol::Http,
        }
    }

    /// What people call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Http => "OTLP over HTTP",
            Protocol::Grpc => "OTLP over gRPC",
        }
    }
}

/// A collector, by its address.
pub(crate) struct Collector(Way);

enum Way {
    Http(Client, Url),
    Grpc(Grpc),
}

impl Collector {
    /// Asks nothing yet.
    pub(crate) fn new(url: &Url) -> Result<Collector, CallError> {
        Ok(Collector(match Protocol::of(url) {
            Protocol::Http => Way::Http(http::client(url)?, endpoint(url)),
            Protocol::Grpc => Way::Grpc(Grpc::new(url)),
        }))
    }

    /// Has it take nothing: whoever takes spans answers that as well.
    pub(crate) async fn probe(&mut self) -> Result<(), CallError> {
        self.take(&ExportTraceServiceRequest::default()).await
    }

    /// Has it take spans. Nothing is tried twice that it may have taken.
    pub(super) async fn take(&mut self, message: &ExportTraceServiceRequest) -> Result<(), CallError> {
        match &mut self.0 {
            Way::Http(client, url) => {
                let request = client
                    .post(url.clone())
                    .timeout(ANSWER)
                    .header(header::CONTENT_TYPE, "application/x-protobuf")
                    .body(message.encode_to_vec());
                http::send(request).await.map(drop)
            }
            Way::Grpc(grpc) => grpc.export(message).await,
        }
    }
}

/// What to do where a collector does not take spans.
pub(crate) fn hint(collector: &Url) -> &'static str {
    match (Protocol::of(collector), collector.port()) {
        (Protocol::Grpc, _) => {
            "port 4317 without a path means gRPC; where OTLP over HTTP is spoken there, write the path: \
             http://HOST:4317/v1/traces"
        }
        (Protocol::Http, Some(PORT_OF_GRPC)) => {
            "port 4317 is usually that of OTLP over gRPC, which is spoken with http:// and without a path; \
             OTLP over HTTP usually has 4318"
        }
        (Protocol::Http, _) => "is the collector running, and does it take OTLP over HTTP there?",
    }
}

/// As the specification has it: a base gets the path of the signal.
fn endpoint(collector: &Url) -> Url {
    let mut url = collector.clone();
    if has_no_path(&url) {
        url.set_path("/v1/traces");
    }
    url
}

fn has_no_path(url: &Url) -> bool {
    matches!(url.path(), "" | "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_gets_the_path_of_the_signal_and_a_path_is_taken_as_it_is() {
        let check = |text: &str, expect: &str| {
            assert_eq!(endpoint(&Url::parse(text).unwrap()).as_str(), expect);
        };
        check("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces");
        check("https://otlp.example/otlp/v1/traces", "https://otlp.example/otlp/v1/traces");
    }

    #[test]
    fn the_port_of_grpc_without_a_path_and_without_tls_means_grpc() {
        let check = |text: &str, expect: Protocol| {
            assert_eq!(Protocol::of(&Url::parse(text).unwrap()), expect, "{text}");
        };
        check("http://127.0.0.1:4317", Protocol::Grpc);
        check("http://collector:4317/", Protocol::Grpc);
        check("http://[::1]:4317", Protocol::Grpc);
        check("http://127.0.0.1:4317/v1/traces", Protocol::Http);
        check("https://127.0.0.1:4317", Protocol::Http);
        check("http://127.0.0.1:4318", Protocol::Http);
        check("http://127.0.0.1", Protocol::Http);
    }
}
