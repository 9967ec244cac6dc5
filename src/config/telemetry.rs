//! The key `telemetry`: the form of log lines, and where spans go.

use reconciled_provider::{Node, Problem, SourceFile};
use serde::Deserialize;
use url::Url;

/// What the program tells of itself, and to whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// The form of log lines.
    pub log: LogFormat,
    /// A collector of spans; what is spoken to it is told by its port and path.
    pub otlp: Option<Url>,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
    /// Fields for the journal.
    Journald,
}

#[derive(Default, Deserialize)]
pub(super) struct RawTelemetry {
    #[serde(default)]
    log: LogFormat,
    otlp: Option<String>,
}

impl RawTelemetry {
    pub(super) fn read(self, root: &Node, file: &SourceFile, problems: &mut Vec<Problem>) -> TelemetryConfig {
        let otlp =
            self.otlp.and_then(|text| {
                let url = http(&text);
                if url.is_none() {
                    let node =
                        root.get("telemetry").and_then(|node| node.get("otlp")).map_or(root.span, |n| n.span);
                    let problem = Problem::error("`otlp` is not the address of a collector");
                    problems.push(problem.at(file, node).hint(
                        "write http://HOST:4317 (gRPC), or http://HOST:4318 or https://HOST:4318 (HTTP)",
                    ));
                }
                url
            });
        TelemetryConfig { log: self.log, otlp }
    }
}

/// An address of HTTP, without a user in it: that would be a secret in a place where none is.
pub(super) fn http(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
    (is_http && url.username().is_empty() && url.password().is_none()).then_some(url)
}
