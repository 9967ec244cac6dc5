//! The subscriber: one place where lines and spans go to, in a form that a reload may change.

use super::{journald::Journald, names, spans::Outlet};
use crate::config::{LogFormat, TelemetryConfig};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};
use tokio_util::task::TaskTracker;
use tracing::{
    Event, Metadata, Subscriber,
    level_filters::LevelFilter,
    span::{Attributes, Id, Record},
    subscriber::Interest,
};
use tracing_subscriber::{
    EnvFilter, Layer, Registry, fmt,
    layer::{Context, Filter, SubscriberExt as _},
    util::SubscriberInitExt as _,
};

/// The way to change where what is told goes.
#[derive(Clone, Default)]
pub struct Telemetry {
    format: Arc<AtomicU8>,
    spans: Outlet,
}

/// Begins: lines go to standard error, as text.
pub fn start(filter: EnvFilter) -> Telemetry {
    let telemetry = Telemetry::default();
    let text = fmt::layer().with_writer(io::stderr).with_ansi(false).without_time();
    let json = fmt::layer().json().flatten_event(true).with_current_span(false).with_writer(io::stderr);
    let lines = Lines {
        format: telemetry.format.clone(),
        forms: [text.boxed(), json.boxed(), Journald::new().boxed()],
    };
    let spans = telemetry.spans.clone().with_filter(Exported(telemetry.spans.clone()));
    // A second call in one process changes nothing: tests of the command line share one.
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).with(spans).try_init();
    telemetry
}

impl Telemetry {
    /// Takes a configuration into use. The exporter of spans runs as one of `tasks`, until it is told otherwise.
    pub(crate) fn configure(&self, config: &TelemetryConfig, instance: &str, tasks: &TaskTracker) {
        self.format.store(config.log as u8, Ordering::Relaxed);
        self.spans.configure(config.otlp.as_ref(), instance, tasks);
    }

    /// Sends what is left and then nothing more.
    pub(crate) fn stop(&self) {
        self.spans.close();
    }
}

/// Lines in one of several forms. Every form sees every span, so that changing the form never meets one that it
/// does not know; one form sees the lines.
struct Lines {
    format: Arc<AtomicU8>,
    /// By [`LogFormat`].
    forms: [Box<dyn Layer<Registry> + Send + Sync>; 3],
}

// Invariant: the forms are in the order of the enum.
const _: () =
    assert!(LogFormat::Text as u8 == 0 && LogFormat::Json as u8 == 1 && LogFormat::Journald as u8 == 2);

impl Layer<Registry> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, Registry>) {
        self.forms.iter().for_each(|form| form.on_new_span(attributes, id, cx.clone()));
    }
    fn on_record(&self, id: &Id, values: &Record<'_>, cx: Context<'_, Registry>) {
        self.forms.iter().for_each(|form| form.on_record(id, values, cx.clone()));
    }
    fn on_event(&self, event: &Event<'_>, cx: Context<'_, Registry>) {
        let form = usize::from(self.format.load(Ordering::Relaxed));
        self.forms[form].on_event(event, cx);
    }
}

/// Lets spans of the specification through while somebody wants them.
struct Exported(Outlet);

impl Exported {
    fn is_meant(metadata: &Metadata<'_>) -> bool {
        metadata.is_span()
            && metadata.target().starts_with("reconciled")
            && names::SPANS.iter().any(|span| span.name == metadata.name())
    }
}

impl<S: Subscriber> Filter<S> for Exported {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.0.is_open() && Exported::is_meant(metadata)
    }
    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        // Everything else is off for good, so that a quiet program asks about it once.
        if Exported::is_meant(metadata) { Interest::sometimes() } else { Interest::never() }
    }
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }
}
