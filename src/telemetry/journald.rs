//! Lines for the journal, in its own protocol: one datagram each, fields beside the message
//! (systemd, "Native Journal Protocol").
//!
//! Guarantees: a journal that does not take a line delays nothing for longer than [`PATIENCE`]. Where there is no
//! journal the line goes to standard error. It deliberately sends no file descriptors: a value is cut instead.

use std::{
    fmt::{Debug, Write as _},
    io::Write as _,
    os::unix::net::UnixDatagram,
    path::PathBuf,
    time::Duration,
};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

/// Where the journal listens.
const SOCKET: &str = "/run/systemd/journal/socket";
/// How long a line may wait for the journal.
const PATIENCE: Duration = Duration::from_millis(100);
/// Longest value, in bytes; a datagram has to fit into the socket's buffer.
const LONGEST: usize = 16 << 10;

/// Writes lines to the journal.
pub(super) struct Journald {
    place: PathBuf,
    socket: Option<UnixDatagram>,
}

/// The fields of a span, as they are told with each of its lines.
#[derive(Default)]
struct Fields(Vec<(&'static str, String)>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), value.to_owned()));
    }
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push((field.name(), format!("{value:?}")));
    }
}

impl Journald {
    pub(super) fn new() -> Journald {
        Journald::at(SOCKET.into())
    }

    fn at(place: PathBuf) -> Journald {
        let socket = UnixDatagram::unbound().ok();
        let socket = socket.filter(|socket| socket.set_write_timeout(Some(PATIENCE)).is_ok());
        Journald { place, socket }
    }

    fn send(&self, fields: &[(&str, String)]) {
        let mut datagram = Vec::new();
        for (name, value) in fields {
            put(&mut datagram, name, value);
        }
        let sent = self.socket.as_ref().map(|socket| socket.send_to(&datagram, &self.place));
        if !matches!(sent, Some(Ok(_))) {
            let message = fields.iter().find(|(name, _)| *name == "MESSAGE").map_or("", |(_, text)| text);
            let _ = writeln!(std::io::stderr(), "{message}");
        }
    }
}

/// `NAME=value`; a value of several lines with its length in front.
fn put(datagram: &mut Vec<u8>, name: &str, value: &str) {
    let end = (0..=LONGEST.min(value.len())).rev().find(|end| value.is_char_boundary(*end)).unwrap_or(0);
    let value = &value.as_bytes()[..end];
    datagram.extend(name.as_bytes());
    if value.contains(&b'\n') {
        datagram.push(b'\n');
        datagram.extend((value.len() as u64).to_le_bytes());
    } else {
        datagram.push(b'=');
    }
    datagram.extend(value);
    datagram.push(b'\n');
}

/// Names of ours cannot be mistaken for those of the journal.
fn named(field: &str) -> String {
    let letters = field.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    format!("RECONCILED_{}", letters.collect::<String>())
}

/// The numbers of syslog(3).
fn priority(level: &Level) -> u8 {
    match *level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Journald {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let Some(span) = cx.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }
    fn on_record(&self, id: &Id, values: &Record<'_>, cx: Context<'_, S>) {
        let Some(span) = cx.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }
    fn on_event(&self, event: &Event<'_>, cx: Context<'_, S>) {
        let mut told = Fields::default();
        event.record(&mut told);
        let is_message = |(name, _): &&(&str, String)| *name == "message";
        let mut message = told.0.iter().find(is_message).map_or(String::new(), |(_, text)| text.clone());
        for (name, value) in told.0.iter().filter(|field| !is_message(field)) {
            let _ = write!(message, " {name}={value}");
        }
        let level = event.metadata().level();
        let mut fields = vec![
            ("PRIORITY", priority(level).to_string()),
            ("SYSLOG_IDENTIFIER", "reconciled".to_owned()),
            ("MESSAGE", message),
            ("RECONCILED_TARGET", event.metadata().target().to_owned()),
        ];
        let mut data: Vec<(String, String)> = Vec::new();
        for span in cx.event_scope(event).into_iter().flatten() {
            let extensions = span.extensions();
            let of_span = extensions.get::<Fields>().into_iter().flat_map(|fields| &fields.0);
            data.extend(of_span.map(|(name, value)| (named(name), value.clone())));
        }
        data.extend(
            told.0.iter().filter(|f| !is_message(f)).map(|(name, value)| (named(name), value.clone())),
        );
        fields.extend(data.iter().map(|(name, value)| (name.as_str(), value.clone())));
        self.send(&fields);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt as _;

    #[test]
    fn a_line_is_one_datagram_with_priority_message_and_the_fields_of_its_spans() {
        let folder = tempfile::tempdir().unwrap();
        let journal = UnixDatagram::bind(folder.path().join("socket")).unwrap();
        let layer = Journald::at(folder.path().join("socket"));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let pass = tracing::info_span!("pass", revision = "infra@abc1234").entered();
            tracing::warn!(source = "infra", text = "two\nlines", "source cannot be had");
            drop(pass);
            tracing::error!("alone");
        });
        let mut buffer = [0; 4096];
        let length = journal.recv(&mut buffer).unwrap();
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        assert!(text.starts_with("PRIORITY=4\nSYSLOG_IDENTIFIER=reconciled\nMESSAGE\n"), "{text}");
        assert!(text.contains("source cannot be had source=infra text=two\nlines"), "{text}");
        assert!(text.contains("RECONCILED_REVISION=infra@abc1234\nRECONCILED_SOURCE=infra\n"), "{text}");
        let value = b"RECONCILED_TEXT\n\x09\0\0\0\0\0\0\0two\nlines\n";
        assert!(buffer[..length].ends_with(value), "{text}");
        let length = journal.recv(&mut buffer).unwrap();
        assert!(buffer[..length].starts_with(b"PRIORITY=3\nSYSLOG_IDENTIFIER=reconciled\nMESSAGE=alone\n"));
    }

    #[test]
    fn a_value_that_is_too_long_is_cut_at_a_character() {
        let mut datagram = Vec::new();
        put(&mut datagram, "A", &"ä".repeat(LONGEST));
        assert!(datagram.len() <= LONGEST + 3 && String::from_utf8(datagram).is_ok());
    }
}
