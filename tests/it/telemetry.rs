//! What the daemon tells of itself: to a collector, to Prometheus, to whoever reads its log.

use crate::{
    env::{Env, zone},
    running::{Daemon, wait_for},
    sink::Sink,
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use prost::Message;
use reconciled::telemetry::names;
use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    process::{Command, Stdio},
};

const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
const OTHER: &str = "{name: www, type: A, values: [192.0.2.2]}";

/// A desk of zone files whose configuration has further lines.
fn desk(more: &str) -> Env {
    let env = Env::zonefile();
    configure(&env, more);
    env
}

fn configure(env: &Env, more: &str) {
    let before = fs::read_to_string(env.path("config.yaml")).unwrap();
    let own = before.split("telemetry:").next().unwrap();
    env.write("config.yaml", &format!("{own}telemetry: {more}\n"));
}

fn sync(env: &Env) {
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
}

fn spans(sink: &Sink) -> Vec<Span> {
    let mut all = Vec::new();
    for request in sink.at("/v1/traces") {
        assert_eq!(request.header("content-type"), "application/x-protobuf");
        let message = ExportTraceServiceRequest::decode(request.body.as_slice()).unwrap();
        for resource in message.resource_spans {
            let attributes = resource.resource.unwrap().attributes;
            assert_eq!(attribute(&attributes, "service.name"), "reconciled");
            assert_eq!(attribute(&attributes, "service.instance.id"), "it");
            all.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    all
}

fn attribute(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|found| found.value.clone()).and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        _ => String::new(),
    }
}

#[test]
fn a_collector_gets_the_spans_of_the_specification() {
    let sink = Sink::start();
    let env = desk(&format!("{{otlp: \"{}\"}}", sink.url));
    let commit = env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::start(&env);
    sync(&env);
    let named = |name: &str| spans(&sink).into_iter().filter(|span| span.name == name).collect::<Vec<_>>();
    wait_for("actions and passes are told", || named("action").len() >= 2 && named("pass").len() >= 2);
    daemon.stop();

    let all = spans(&sink);
    for span in &all {
        let spec = names::SPANS.iter().find(|spec| spec.name == span.name).expect("the name is specified");
        let unknown = span.attributes.iter().find(|a| !spec.fields.contains(&a.key.as_str()));
        assert_eq!(unknown, None, "{span:?}");
        assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8));
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano && span.start_time_unix_nano > 0);
    }
    let is_ours = |span: &&Span| attribute(&span.attributes, "resource") == "Zone/example.com#www/A";
    let action = all.iter().find(is_ours).unwrap_or_else(|| panic!("{all:#?}"));
    assert_eq!((action.name.as_str(), attribute(&action.attributes, "op")), ("action", "create".to_owned()));
    let parent =
        |span: &Span| all.iter().find(|other| other.span_id == span.parent_span_id).cloned().unwrap();
    let scope = parent(action);
    assert_eq!((scope.name.as_str(), attribute(&scope.attributes, "scope")), ("scope", ZONE.to_owned()));
    assert_eq!(attribute(&scope.attributes, "provider"), "zones");
    let pass = parent(&scope);
    assert_eq!((pass.name.as_str(), pass.parent_span_id.len()), ("pass", 0));
    assert_eq!(attribute(&pass.attributes, "revision"), format!("infra@{}", &commit[..7]));
    assert!(all.iter().any(|span| span.name == "call"));
    assert!([&scope, &pass].iter().all(|span| span.trace_id == action.trace_id));
}

#[test]
fn a_collector_that_is_away_costs_nothing_and_is_named_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let env = desk(&format!("{{otlp: \"{url}\"}}"));
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::start(&env);
    sync(&env);
    wait_for("the log says so", || daemon.log().contains("spans cannot be sent"));
    env.push("zone.yaml", &zone(ZONE, "zones", &[OTHER]));
    sync(&env);
    assert_eq!(daemon.log().matches("spans cannot be sent").count(), 1, "{}", daemon.log());
    daemon.stop();
}

#[test]
fn a_reload_changes_the_form_of_the_log_and_where_spans_go() {
    let sink = Sink::start();
    let env = desk("{log: json}");
    let everybody = "{name: www, type: TXT, values: [\"v=spf1 +all\"]}";
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, everybody]));
    let daemon = Daemon::start(&env);
    sync(&env);
    let log = daemon.log();
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(line["timestamp"].is_string() && line["level"].is_string() && line["message"].is_string());
    }
    let problem = log.lines().find(|line| line.contains("manifest problem")).unwrap();
    assert_eq!(problem.matches("\"message\":").count(), 1, "{problem}");
    for word in ["\"source\":\"infra\"", "\"file\":\"zone.yaml\"", "\"line\":", "\"problem\":\""] {
        assert!(problem.contains(word), "`{word}` is missing in {problem}");
    }
    assert!(log.contains("\"message\":\"daemon is running\""), "{log}");
    assert!(log.contains("\"spans\":[{") && log.contains("\"name\":\"pass\""), "{log}");

    configure(&env, &format!("{{log: text, otlp: \"{}\"}}", sink.url));
    daemon.signal("HUP");
    wait_for("the log is text", || {
        daemon.log().lines().any(|line| line.contains("INFO reconciled::run: configuration is reloaded"))
    });
    env.push("zone.yaml", &zone(ZONE, "zones", &[OTHER]));
    sync(&env);
    wait_for("spans arrive", || !sink.at("/v1/traces").is_empty());
    daemon.stop();
}

/// What Prometheus would be answered.
pub(crate) fn scrape(env: &Env) -> String {
    let mut stream = UnixStream::connect(env.path("state/api.sock")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/plain; version=0.0.4"), "{head}");
    body.to_owned()
}

/// The value of one series.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("`{series}` is missing in\n{text}")).parse().unwrap()
}

#[test]
fn prometheus_is_told_what_was_done_and_how_it_stands() {
    let env = desk("{log: text}");
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::start(&env);
    sync(&env);
    wait_for("the commit has converged", || {
        scrape(&env).contains("reconciled_seen_to_converged_seconds_count{source=\"infra\"} 1")
    });
    let zone_file = fs::read_to_string(env.path("zones/example.com.zone")).unwrap();
    fs::write(env.path("zones/example.com.zone"), zone_file.replace("192.0.2.1", "203.0.113.9")).unwrap();
    sync(&env);
    wait_for("the repair is counted", || {
        scrape(&env).contains("reconciled_healing_writes_total{provider=\"zones\"} 1")
    });

    let text = scrape(&env);
    assert_eq!(
        value(&text, "reconciled_writes_total{outcome=\"done\",provider=\"zones\",reason=\"drift\"}"),
        1.0
    );
    assert!(
        value(&text, "reconciled_writes_total{outcome=\"done\",provider=\"zones\",reason=\"commit\"}") >= 1.0
    );
    assert_eq!(value(&text, "reconciled_scopes{stance=\"in-sync\"}"), 1.0);
    assert!(value(&text, "reconciled_resources{state=\"settled\"}") >= 1.0);
    assert_eq!(
        (value(&text, "reconciled_holds"), value(&text, "reconciled_longest_pass_seconds")),
        (0.0, 0.0)
    );
    assert!(value(&text, "reconciled_git_polls_total{outcome=\"answered\",source=\"infra\"}") >= 2.0);
    assert!(
        value(
            &text,
            "reconciled_provider_calls_total{operation=\"apply\",outcome=\"ok\",provider=\"zones\"}"
        ) >= 2.0
    );
    assert!(value(&text, "reconciled_store_commits_total{outcome=\"done\"}") >= 1.0);
    assert!(value(&text, "reconciled_pass_seconds_count{provider=\"zones\"}") >= 2.0);
    assert!(value(&text, "reconciled_last_converged_commit_timestamp_seconds{source=\"infra\"}") > 1e9);
    let unknown: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .filter(|name| names::METRICS.iter().all(|metric| metric.name != *name))
        .collect();
    assert_eq!(unknown, [""; 0]);

    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let said = promtool.wait_with_output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    daemon.stop();
}
