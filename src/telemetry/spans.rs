//! Spans, sent to a collector by OTLP, the protocol of OpenTelemetry.
//!
//! Guarantees: ending a span never waits; what the collector does not take, or what is more than [`WAITING`], is
//! dropped. While it cannot be reached it is asked every [`REST`] and that is said once.
//! It deliberately is no SDK: no sampling, no events, no links, one resource.

use super::{
    collector::{self, Collector},
    names,
    wire::{
        self, ExportTraceServiceRequest, InstrumentationScope, Resource, ResourceSpans, ScopeSpans, Span,
    },
};
use crate::clock::SystemClock;
use reconciled_provider::Clock;
use reqwest::Url;
use ring::rand::{SecureRandom, SystemRandom};
use std::{
    fmt::Debug,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

/// Spans that may wait to be sent.
const WAITING: usize = 4_096;
/// Spans in one request.
const TOGETHER: usize = 512;
/// How long a span waits for company.
const COMPANY: Duration = Duration::from_secs(1);
/// How long a collector is left alone that did not answer.
const REST: Duration = Duration::from_secs(30);

/// Where spans go.
#[derive(Clone, Default)]
pub(super) struct Outlet {
    is_open: Arc<AtomicBool>,
    queue: Arc<Mutex<Option<mpsc::Sender<Span>>>>,
}

impl Outlet {
    /// True while somebody wants spans.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Sends to `collector` from now on, and no longer to the one before.
    pub(super) fn configure(&self, collector: Option<&Url>, instance: &str, tasks: &TaskTracker) {
        self.close();
        let Some(collector) = collector else { return };
        let (send, receive) = mpsc::channel(WAITING);
        let exporter = Exporter { url: collector.clone(), resource: resource(instance), is_away: false };
        drop(tasks.spawn(exporter.run(receive)));
        *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = Some(send);
        self.is_open.store(true, Ordering::Relaxed);
    }

    /// The exporter sends what it has and ends.
    pub(super) fn close(&self) {
        self.is_open.store(false, Ordering::Relaxed);
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn put(&self, span: Span) {
        if let Some(queue) = &*self.queue.lock().unwrap_or_else(PoisonError::into_inner) {
            // A full queue is a collector that does not keep up.
            let _ = queue.try_send(span);
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Outlet {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let Some(span) = cx.span(id) else { return };
        let mut made = Span {
            span_id: random::<8>(),
            name: span.name().to_owned(),
            kind: if span.name() == names::CALL { wire::CLIENT } else { wire::INTERNAL },
            start_time_unix_nano: now(),
            ..Span::default()
        };
        let parent = span.parent();
        match parent
            .as_ref()
            .and_then(|p| p.extensions().get::<Span>().map(|s| (s.trace_id.clone(), s.span_id.clone())))
        {
            Some((trace, parent)) => (made.trace_id, made.parent_span_id) = (trace, parent),
            None => made.trace_id = random::<16>(),
        }
        attributes.record(&mut Attached(&mut made));
        span.extensions_mut().insert(made);
    }
    fn on_record(&self, id: &Id, values: &Record<'_>, cx: Context<'_, S>) {
        let Some(span) = cx.span(id) else { return };
        if let Some(made) = span.extensions_mut().get_mut::<Span>() {
            values.record(&mut Attached(made));
        }
    }
    fn on_close(&self, id: Id, cx: Context<'_, S>) {
        let Some(span) = cx.span(&id) else { return };
        let made = span.extensions_mut().remove::<Span>();
        if let Some(mut made) = made {
            made.end_time_unix_nano = now();
            self.put(made);
        }
    }
}

/// Puts fields on a span.
struct Attached<'a>(&'a mut Span);

impl Attached<'_> {
    fn put(&mut self, field: &Field, value: &str) {
        self.0.attributes.push(wire::attribute(field.name(), value));
        if field.name() == names::ERROR {
            self.0.status = Some(wire::Status { message: value.to_owned(), code: wire::FAILED });
        }
    }
}

impl Visit for Attached<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, &format!("{value:?}"));
    }
}

struct Exporter {
    url: Url,
    resource: Resource,
    is_away: bool,
}

impl Exporter {
    async fn run(mut self, mut queue: mpsc::Receiver<Span>) {
        let mut collector = match Collector::new(&self.url) {
            Ok(collector) => collector,
            Err(error) => return tracing::warn!(%error, "spans cannot be sent"),
        };
        let mut spans = Vec::with_capacity(TOGETHER);
        while queue.recv_many(&mut spans, TOGETHER).await > 0 {
            let until = tokio::time::Instant::now() + COMPANY;
            while spans.len() < TOGETHER {
                match tokio::time::timeout_at(until, queue.recv()).await {
                    Ok(Some(span)) => spans.push(span),
                    Ok(None) | Err(_) => break,
                }
            }
            let is_taken = self.send(&mut collector, std::mem::take(&mut spans)).await;
            if !is_taken {
                // What came meanwhile is not worth a second attempt either.
                let rest = async { while queue.recv().await.is_some() {} };
                let _ = tokio::time::timeout(REST, rest).await;
            }
        }
    }

    async fn send(&mut self, collector: &mut Collector, spans: Vec<Span>) -> bool {
        let scope = InstrumentationScope {
            name: "reconciled".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let message = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![ScopeSpans { scope: Some(scope), spans }],
            }],
        };
        let result = collector.take(&message).await;
        match (&result, self.is_away) {
            (Ok(()), true) => tracing::info!(collector = self.url.host_str(), "spans are sent again"),
            (Err(error), false) => tracing::warn!(
                collector = self.url.host_str(),
                hint = collector::hint(&self.url),
                "spans cannot be sent and are dropped: {error}"
            ),
            _ => {}
        }
        self.is_away = result.is_err();
        result.is_ok()
    }
}

/// Names of OpenTelemetry's semantic conventions.
fn resource(instance: &str) -> Resource {
    let attributes = [
        ("service.name", "reconciled"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", instance),
    ];
    Resource { attributes: attributes.map(|(key, value)| wire::attribute(key, value)).to_vec() }
}

fn now() -> u64 {
    u64::try_from(SystemClock.now().as_nanos()).unwrap_or(u64::MAX)
}

/// An id. All zeros, which the protocol takes for "none", where there is no chance to be had.
fn random<const LENGTH: usize>() -> Vec<u8> {
    let mut bytes = vec![0; LENGTH];
    let _ = SystemRandom::new().fill(&mut bytes);
    bytes
}
