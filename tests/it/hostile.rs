//! What no client would say, said to every route: refused with a reason, and the daemon goes on as if nothing was.
//! And what every route says of itself.

use crate::{
    env::{Env, is_root, zone},
    http::Place,
    reach::{address, desk},
    running::{Daemon, wait_for},
};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
};

/// One operation, as the description has it.
#[derive(Clone, Debug)]
struct Operation {
    method: String,
    path: String,
    described: Value,
}

impl Operation {
    /// What may be asked, or says what must be.
    fn schema(&self) -> Value {
        match self.method.as_str() {
            "get" => {
                let parameters = self.described["parameters"].as_array().cloned().unwrap_or_default();
                let pair = |p: &Value| (p["name"].as_str().unwrap().to_owned(), p["schema"].clone());
                json!({"type": "object", "properties": parameters.iter().map(pair).collect::<serde_json::Map<_, _>>()})
            }
            _ => self.described["requestBody"]["content"]["application/json"]["schema"].clone(),
        }
    }

    fn ask(&self, place: &Place, token: &str, body: &[u8]) -> crate::http::Answer {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        match self.method.as_str() {
            "get" => {
                let words: String = body.iter().map(|byte| format!("%{byte:02x}")).collect();
                let names: Vec<String> =
                    self.schema()["properties"].as_object().unwrap().keys().cloned().collect();
                let query: Vec<String> = names.iter().map(|name| format!("{name}={words}")).collect();
                place.ask("GET", &format!("{}?{}", self.path, query.join("&")), &headers[..1], b"")
            }
            _ => place.ask("POST", &self.path, &headers, body),
        }
    }
}

fn operations(described: &Value) -> Vec<Operation> {
    let mut all = Vec::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if operation["x-role"].is_string() {
                all.push(Operation {
                    method: method.clone(),
                    path: path.clone(),
                    described: operation.clone(),
                });
            }
        }
    }
    assert!(all.len() > 20, "{all:?}");
    all
}

/// Text that is odd in one way or another.
fn text() -> BoxedStrategy<String> {
    prop_oneof![
        any::<String>(),
        "[A-Za-z]{1,8}/[a-z.*?#@]{0,12}",
        "[0-9a-f]{0,70}",
        Just("Zone/example.com#www/A".into()),
        Just("infra".into()),
        Just("../../etc/passwd\0".into()),
        Just("9999999-99-99T99:99:99Z".into()),
        Just("é".repeat(5000)),
    ]
    .boxed()
}

/// Any JSON at all.
fn anything() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(json!(u64::MAX)),
        Just(json!(1e300)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((text(), inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
    .boxed()
}

/// JSON that a schema lets through, with odd values; now and then something it does not.
fn like(schema: &Value, depth: usize) -> BoxedStrategy<Value> {
    let one = |schema: &Value| like(schema, depth + 1);
    if let Some(choices) = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
        return proptest::strategy::Union::new(choices.iter().map(one)).boxed();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[0].as_str().unwrap_or(""),
        kind => kind.as_str().unwrap_or(""),
    };
    let good = match kind {
        _ if depth > 6 => Just(Value::Null).boxed(),
        "string" => text().prop_map(Value::from).boxed(),
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        "integer" => prop_oneof![
            Just(json!(u64::MAX)),
            Just(json!(i64::MAX)),
            Just(json!(0)),
            any::<u32>().prop_map(Value::from)
        ]
        .boxed(),
        "array" => proptest::collection::vec(one(&schema["items"]), 0..3).prop_map(Value::from).boxed(),
        "object" => {
            let properties = schema["properties"].as_object().cloned().unwrap_or_default();
            let pairs: Vec<BoxedStrategy<Option<(String, Value)>>> = properties
                .iter()
                .map(|(name, schema)| {
                    let name = name.clone();
                    let value = one(schema).prop_map(move |value| (name.clone(), value));
                    proptest::option::weighted(0.9, value).boxed()
                })
                .collect();
            pairs.prop_map(|pairs| Value::Object(pairs.into_iter().flatten().collect())).boxed()
        }
        _ => anything(),
    };
    prop_oneof![12 => good, 1 => anything()].boxed()
}

/// Everything is well: it answers, nothing in it has panicked, nothing was changed.
#[track_caller]
fn is_well(env: &Env, daemon: &Daemon, place: &Place) {
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
    assert_eq!(place.ask("GET", "/healthz", &[], b"").status, 200);
    env.run(&["resume", "--all"]);
    env.run(&["sync", "--wait"]).exits(0);
    assert_eq!(env.zone_rrsets("example.com").len(), 1);
}

/// Neither silence nor an error that claims to be the daemon's own fault.
#[track_caller]
fn is_answered(operation: &Operation, body: &[u8], answer: &crate::http::Answer) {
    let (method, path) = (&operation.method, &operation.path);
    let shown = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
    assert!(
        (200..500).contains(&answer.status),
        "{method} {path} {shown}: {} {}",
        answer.head,
        answer.text()
    );
    if answer.status >= 400 {
        assert!(answer.json()["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{path}");
    }
}

#[test]
fn nonsense_to_any_route_is_refused_with_a_reason() {
    let (env, _, operator) = desk();
    let daemon = Daemon::start(&env);
    let place = address(&daemon);
    env.run(&["sync", "--wait"]).exits(0);
    let all = operations(&place.get("/v1/openapi.json", &operator).json());
    let socket = Place::Socket(env.path("state/api.sock"));
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    let fixed: Vec<Vec<u8>> =
        ["", "{", "[]]", "null", "\"x\"", "[[]]", "[{}]", "\0", "1e999", "-1", "{\"a\":1e400}"]
            .iter()
            .map(|text| text.as_bytes().to_vec())
            .chain(
                [deep("[", "]"), deep("{\"a\":", "}"), deep("{\"selected\":", "}"), "9".repeat(100_000)]
                    .map(String::into_bytes),
            )
            .chain([vec![0xff; 64], b"{\"reason\":\"\xff\xfe\"}".to_vec(), b"\xef\xbb\xbf{}".to_vec()])
            .collect();
    for operation in &all {
        for body in &fixed {
            // A query cannot be that long.
            let body = if operation.method == "get" { &body[..body.len().min(2000)] } else { body };
            is_answered(operation, body, &operation.ask(&socket, "", body));
        }
    }
    let strategy = (0..all.len()).prop_flat_map({
        let all = all.clone();
        move |index| {
            let schema = all[index].schema();
            let body = prop_oneof![
                4 => like(&schema, 0).prop_map(|value| value.to_string().into_bytes()),
                2 => (like(&schema, 0), any::<u16>()).prop_map(|(value, cut)| {
                    let text = value.to_string().into_bytes();
                    let end = usize::from(cut) % (text.len() + 1);
                    text[..end].to_vec()
                }),
                1 => proptest::collection::vec(any::<u8>(), 0..200),
                1 => anything().prop_map(|value| value.to_string().into_bytes()),
            ];
            (Just(index), body)
        }
    });
    let config = Config { cases: 400, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&strategy, |(index, mut body)| {
            let operation = &all[index];
            if operation.method == "get" {
                body.truncate(2000);
            }
            is_answered(operation, &body, &operation.ask(&socket, "", &body));
            Ok(())
        })
        .unwrap();
    is_well(&env, &daemon, &place);
    daemon.stop();
}

#[test]
fn what_is_too_large_is_refused_before_it_is_read_whole() {
    let (env, _, operator) = desk();
    let daemon = Daemon::start(&env);
    let place = address(&daemon);
    env.run(&["sync", "--wait"]).exits(0);
    for operation in operations(&place.get("/v1/openapi.json", &operator).json()) {
        if operation.method == "get" || operation.described["x-role"] == "socket" {
            continue;
        }
        let head = |length: u64, token: &str| {
            format!(
                "POST {} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n",
                operation.path
            )
        };
        // Nothing of it comes: what is answered was known from the head.
        place.raw(head((96 << 20) + 1, &operator).as_bytes()).is_refused(413, "docs/api.md");
        place.raw(head(u64::MAX / 2, &operator).as_bytes()).is_refused(413, "docs/api.md");
        place.raw(head(96 << 20, "x").as_bytes()).is_refused(401, "token");
        let is_large = ["/v1/plan", "/v1/adopt", "/v1/forget"].contains(&operation.path.as_str());
        let body = format!("\"{}\"", "x".repeat(1 << 20));
        let status = place.post(&operation.path, &operator, &body).status;
        assert_eq!(status == 413, !is_large, "{}: {status}", operation.path);
    }
    is_well(&env, &daemon, &place);
    daemon.stop();
}

/// A user of this host who is nobody in particular.
const NOBODY: u32 = 65_534;

#[test]
fn another_user_of_the_host_does_not_get_in_through_the_socket() {
    if !is_root() {
        // Only root can become somebody else; that the peer's credentials decide is a unit test too.
        return;
    }
    let env = Env::zonefile();
    env.push("zone.yaml", &zone("example.com", "zones", &["{name: www, type: A, values: [192.0.2.1]}"]));
    let daemon = Daemon::start(&env);
    let socket = env.path("state/api.sock");
    let speak = |socket: &Path| {
        let script = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
                      s.sendall(b'GET /v1/status HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\n\\r\\n')\n\
                      print(s.makefile().read())";
        let mut command = Command::new("python3");
        command
            .args(["-c", script])
            .arg(socket)
            .uid(NOBODY)
            .gid(NOBODY)
            .stderr(Stdio::piped())
            .current_dir("/");
        command.output().unwrap()
    };
    let shut = speak(&socket);
    assert!(!shut.status.success(), "{shut:?}");
    assert!(String::from_utf8_lossy(&shut.stderr).contains("PermissionError"), "{shut:?}");
    // Also where somebody opened the way by mistake: the kernel says who it is.
    let open = |path: &Path, mode: u32| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    open(&socket, 0o666);
    for folder in [env.path("state"), env.path(".")] {
        open(&folder, 0o755);
    }
    let refused = speak(&socket);
    let text = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(text.contains("403") && text.contains("may not use the daemon"), "{refused:?}");
    daemon.stop();
}

#[test]
fn the_description_is_the_one_in_the_documentation() {
    let env = Env::new();
    env.finish(env.command(&["explain", "--schemas", "out"])).exits(0);
    let made = fs::read_to_string(env.path("out/openapi.json")).unwrap();
    let kept = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/openapi.json")).unwrap();
    assert!(
        made == kept,
        "write it anew: reconciled explain --schemas DIR, and take DIR/openapi.json as docs/openapi.json"
    );
}

/// Reads lines of `SCHEMA<TAB>VALUE` and says which do not fit; `$ref`s are found in the first argument.
const VALIDATE: &str = "
import json, sys, jsonschema
from jsonschema import Draft202012Validator
described = json.load(open(sys.argv[1]))
for line in sys.stdin:
    name, schema, value = line.rstrip('\\n').split('\\t')
    schema = {**json.loads(schema), 'components': described['components']}
    Draft202012Validator.check_schema(schema)
    for error in Draft202012Validator(schema).iter_errors(json.loads(value)):
        print(name, list(error.absolute_path), error.message)
";

#[test]
fn what_is_answered_is_what_is_described() {
    let (env, _, operator) = desk();
    let daemon = Daemon::start(&env);
    let place = address(&daemon);
    env.run(&["sync", "--wait"]).exits(0);
    // Something of everything: a hold, a conflict, a suspension, history.
    env.write(
        "zones/example.org.zone",
        "$ORIGIN example.org.\n$TTL 300\n@ IN SOA ns1.example.net. h 1 3600 600 86400 300\n@ IN NS ns1.example.net.\nwww IN A 198.51.100.1\n",
    );
    env.push("other.yaml", &zone("example.org", "zones", &["{name: www, type: A, values: [192.0.2.9]}"]));
    env.run(&["sync", "--wait"]);
    env.run(&["suspend", "Zone/example.org", "--reason", "x", "--for", "1h"]).exits(0);
    wait_for("it is in conflict", || env.run(&["status"]).all().contains("example.org"));
    let described = place.get("/v1/openapi.json", &operator).json();
    let mut lines = String::new();
    let mut seen = Vec::new();
    for operation in operations(&described) {
        let queries: &[&str] = match (operation.method.as_str(), operation.path.as_str()) {
            ("get", "/v1/adopt") => &["?address=Zone/example.org%23*"],
            ("get", "/v1/forget") => &["?address=Zone/*"],
            ("get", "/v1/explain") => &["?address=Zone/example.com%23www/A", "?address=Zone/example.org%23*"],
            ("get", "/v1/status") => &["", "?address=Zone/*"],
            ("get", _) => &[""],
            ("post", "/v1/plan") => &["{}", "{\"form\":{\"whole\":true,\"showForeign\":true}}"],
            ("post", "/v1/sync") => &["{\"wait\":60000}"],
            _ => &[],
        };
        let content = operation.described["responses"]["200"]["content"].as_object().unwrap();
        let (media, content) = content.iter().next().unwrap();
        if content["schema"].is_null() {
            continue;
        }
        for query in queries {
            let answer = match operation.method.as_str() {
                "get" => place.get(&format!("{}{query}", operation.path), &operator),
                _ => place.post(&operation.path, &operator, query),
            };
            assert_eq!(answer.status, 200, "{}{query}: {}", operation.path, answer.text());
            assert!(answer.head.contains(&format!("content-type: {media}")), "{}", answer.head);
            let name = format!("{} {}{query}", operation.method, operation.path);
            let text = answer.text();
            let values: Vec<&str> =
                if media.contains("ndjson") { text.lines().collect() } else { vec![&text] };
            for value in values {
                lines += &format!("{name}\t{}\t{value}\n", content["schema"]);
            }
            seen.push(operation.path.clone());
        }
    }
    let refusal = &described["components"]["responses"]["Refused"]["content"]["application/json"]["schema"];
    let refused = place.get("/v1/history?since=yesterday", &operator);
    assert_eq!(refused.status, 400);
    lines += &format!("refusal\t{refusal}\t{}\n", refused.text());
    assert!(seen.len() >= 14, "{seen:?}");
    env.write("described.json", &described.to_string());
    env.write("lines", &lines);
    let checked = Command::new("python3")
        .args(["-c", VALIDATE])
        .arg(env.path("described.json"))
        .stdin(fs::File::open(env.path("lines")).unwrap())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    assert_eq!(String::from_utf8_lossy(&checked.stdout), "", "an answer is not as described");
    daemon.stop();
}
