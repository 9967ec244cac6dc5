//! What the API says to whoever asks for what it does not have: why, and what there is.

use crate::{
    env::{Env, zone},
    http::{Answer, Place},
    running::Daemon,
};

/// The refusal has both: what is wrong, and what to write.
#[track_caller]
fn refused(answer: &Answer, status: u16, message: &str, hint: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    let json = answer.json();
    let text = |key: &str| json["error"][key].as_str().unwrap_or_default().to_owned();
    assert!(text("message").contains(message) && text("hint").contains(hint), "{json}");
}

#[test]
fn what_is_asked_wrongly_is_refused_with_what_there_is() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone("example.com", "zones", &["{name: www, type: A, values: [192.0.2.1]}"]));
    let daemon = Daemon::ready(&env);
    let place = Place::Socket(env.path("state/api.sock"));
    let get = |path: &str| place.ask("GET", path, &[], b"");
    let json = [("content-type", "application/json")];
    let post = |path: &str, body: &str| place.ask("POST", path, &json, body.as_bytes());

    let takes = "address (text), wide (true or false), quick (true or false)";
    refused(&get("/v1/status?foo=1"), 400, "unknown key `foo`", takes);
    refused(&get("/v1/status?adress=x"), 400, "unknown key `adress`", "did you mean `address`?");
    refused(&get("/v1/instance?x=1"), 400, "unknown key `x`", "takes nothing in its query");
    refused(&get("/v1/history?since=30d"), 400, "`30d` is no time", "since (a time such as");
    refused(&get("/v1/drift?open=yes"), 400, "open", "open (true or false)");
    assert_eq!(get("/v1/status?address=Zone/example.com&wide=true&quick=true").status, 200);
    assert_eq!(get("/v1/status").status, 200);

    let bare = place.ask("POST", "/v1/approve", &[], b"{}");
    refused(&bare, 415, "not said to be JSON", "Content-Type: application/json");
    let approve = "{digest (text), reason (text)}";
    refused(&post("/v1/approve", "{}"), 422, "missing field `digest`", approve);
    refused(&post("/v1/renew", "{\"adress\": 1}"), 422, "unknown field `adress`", "address (text)");
    refused(&post("/v1/approve", "{"), 400, "is no JSON", approve);
    refused(&post("/v1/adopt", "{}"), 422, "expected a sequence", "GET /v1/openapi.json");
    daemon.stop();
}
