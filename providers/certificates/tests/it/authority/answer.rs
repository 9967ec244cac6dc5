//! What the authority answers to each call.

use super::{BEGIN, Ca, Fault, LIFE, Order, PERSIST, Proof, State};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use rcgen::{CertificateSigningRequestParams, SerialNumber};
use ring::digest;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::TcpStream,
    sync::Mutex,
};
use time::OffsetDateTime;

/// Answers the requests of one connection.
pub(super) fn serve(mut stream: TcpStream, state: &Mutex<State>, base: &str, ca: &Ca) {
    while let Some((method, path, body)) = request(&mut stream) {
        let call = path.split('/').nth(1).unwrap_or_default().to_owned();
        let mut state = state.lock().unwrap();
        state.calls.push(call.clone());
        if call == "finalize" {
            let request = payload(&body)["csr"].as_str().unwrap_or_default().to_owned();
            state.requests.push(request);
        }
        let number = state.calls.len();
        let is_nth = state.nth.as_ref().is_some_and(|(nth, _)| *nth <= number);
        let planned = match is_nth {
            true => state.nth.take().map(|(_, fault)| fault),
            false => {
                let index = state.faults.iter().position(|(name, _)| *name == call);
                index.and_then(|index| state.faults.remove(index)).map(|(_, fault)| fault)
            }
        };
        if matches!(planned, Some(Fault::Dropped)) {
            return;
        }
        let (status, headers, answer) = match planned {
            Some(Fault::Refused(status, word, headers)) => {
                let problem =
                    json!({"type": format!("urn:ietf:params:acme:error:{word}"), "detail": "told to"});
                (status, headers.to_owned(), problem.to_string())
            }
            Some(Fault::Said(status, word, text)) => {
                let problem = json!({"type": format!("urn:ietf:params:acme:error:{word}"), "detail": text});
                (status, String::new(), problem.to_string())
            }
            _ => answer(&mut state, base, ca, &path, &body),
        };
        state.nonces += 1;
        let nonce = state.nonces;
        drop(state);
        if matches!(planned, Some(Fault::Lost)) {
            return;
        }
        let length = answer.len();
        let head = format!(
            "HTTP/1.1 {status} X\r\nReplay-Nonce: n{nonce}\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        let body = if method == "HEAD" { "" } else { answer.as_str() };
        if stream.write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
    }
}

/// Method, path and body of the next request of a connection.
fn request(stream: &mut TcpStream) -> Option<(String, String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut part = [0; 4_096];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            break end + 4;
        }
        let read = stream.read(&mut part).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&part[..read]);
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok()).unwrap_or(0);
    while bytes.len() < end + length {
        let read = stream.read(&mut part).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&part[..read]);
    }
    let line = String::from_utf8_lossy(&bytes[..end]).lines().next()?.to_owned();
    let mut words = line.split(' ').map(str::to_owned);
    Some((words.next()?, words.next()?, bytes[end..].to_vec()))
}

/// What a signed request carries.
fn protected(body: &[u8]) -> Value {
    let body: Value = serde_json::from_slice(body).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body["protected"].as_str().unwrap()).unwrap()).unwrap()
}

fn payload(body: &[u8]) -> Value {
    let outer: Value = serde_json::from_slice(body).unwrap_or_default();
    let inner = URL_SAFE_NO_PAD.decode(outer["payload"].as_str().unwrap_or_default()).unwrap_or_default();
    serde_json::from_slice(&inner).unwrap_or_default()
}

fn problem(status: u16, word: &str) -> (u16, String, String) {
    let body = json!({"type": format!("urn:ietf:params:acme:error:{word}"), "detail": word});
    (status, String::new(), body.to_string())
}

fn answer(state: &mut State, base: &str, ca: &Ca, path: &str, body: &[u8]) -> (u16, String, String) {
    let good = |value: Value| (200, String::new(), value.to_string());
    let mut parts = path.split('/').skip(1);
    let (call, number) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let index: usize = number.parse().unwrap_or(usize::MAX);
    // Which identifier of the order.
    let which: usize = parts.next().and_then(|which| which.parse().ok()).unwrap_or_default();
    match call {
        "dir" => {
            let mut directory = json!({"newNonce": format!("{base}/nonce"), "newAccount": format!("{base}/account"),
                "newOrder": format!("{base}/order"), "keyChange": format!("{base}/rollover"),
                "meta": {"profiles": {"shortlived": "six days", state.profile.unwrap_or("classic"): "more"}}});
            if !state.lacks_info {
                directory["renewalInfo"] = format!("{base}/info").into();
            }
            good(directory)
        }
        "nonce" => (200, String::new(), String::new()),
        "account" => {
            let key = protected(body)["jwk"].clone();
            if payload(body)["onlyReturnExisting"] == true && state.account != Some(key.clone()) {
                return problem(400, "accountDoesNotExist");
            }
            state.former_accounts += usize::from(state.account.as_ref().is_some_and(|known| *known != key));
            state.account = Some(key);
            state.contact = payload(body)["contact"].clone();
            let number = state.former_accounts + 1;
            (201, format!("Location: {base}/accounts/{number}\r\n"), "{}".into())
        }
        "accounts" if state.account.is_none() => problem(400, "accountDoesNotExist"),
        "accounts" => {
            state.contact = payload(body)["contact"].clone();
            good(json!({}))
        }
        "rollover" => {
            let inner = payload(body);
            let claims = payload(inner.to_string().as_bytes());
            if state.account.is_none() {
                return problem(400, "accountDoesNotExist");
            }
            if claims["account"] != format!("{base}/accounts/1")
                || Some(&claims["oldKey"]) != state.account.as_ref()
            {
                return problem(400, "malformed");
            }
            state.account = Some(protected(inner.to_string().as_bytes())["jwk"].clone());
            state.rollovers += 1;
            good(json!({}))
        }
        "order" => {
            let asked = payload(body);
            let replaces = asked["replaces"].as_str().map(str::to_owned);
            if replaces.is_some() && !state.replaced.is_empty() {
                return problem(409, "alreadyReplaced");
            }
            let account = protected(body)["kid"].clone();
            let last = state.orders.iter().rev().find(|order| order.chain.is_some());
            if replaces.is_some() && last.is_some_and(|last| last.account != account) {
                return problem(403, "unauthorized");
            }
            let open = |order: &Order| {
                order.identifiers == asked["identifiers"] && ["pending", "ready"].contains(&order.status)
            };
            if let Some(index) = state.orders.iter().position(open).filter(|_| state.reuses) {
                let (_, _, text) = order_text(state, base, index);
                return (201, format!("Location: {base}/orders/{index}\r\n"), text);
            }
            let was_proven = |order: &Order| order.is_proven() && order.identifiers == asked["identifiers"];
            let is_proven = state.reuses && state.orders.iter().any(was_proven);
            let all = 0..asked["identifiers"].as_array().unwrap().len();
            let order = Order {
                identifiers: asked["identifiers"].clone(),
                status: if is_proven { "ready" } else { "pending" },
                proven: if is_proven { all.collect() } else { BTreeSet::new() },
                replaces,
                account,
                profile: asked["profile"].as_str().map(str::to_owned),
                ..Order::default()
            };
            state.orders.push(order);
            let index = state.orders.len() - 1;
            let (_, _, text) = order_text(state, base, index);
            (201, format!("Location: {base}/orders/{index}\r\n"), text)
        }
        _ if index >= state.orders.len() && call != "info" => problem(404, "malformed"),
        "orders" if state.orders[index].status == "gone" => problem(404, "malformed"),
        "orders" => {
            if state.orders[index].status == "processing" {
                if state.slow > 0 {
                    state.slow -= 1;
                    let (status, _, text) = order_text(state, base, index);
                    let wait = if state.is_silent { "" } else { "Retry-After: 30\r\n" };
                    return (status, wait.into(), text);
                }
                state.orders[index].status = "valid";
            }
            order_text(state, base, index)
        }
        "authz" => {
            let order = &state.orders[index];
            let status = match (order.proven.contains(&which), order.refused.contains(&which)) {
                (false, _) => "pending",
                (true, true) => "invalid",
                (true, false) => "valid",
            };
            let mut identifier = order.identifiers[which].clone();
            let name = identifier["value"].as_str().unwrap().to_owned();
            let bare = name.strip_prefix("*.").unwrap_or(&name);
            identifier["value"] = bare.into();
            let kind = state.offers_for.get(bare).copied().or(state.offers).unwrap_or("http-01");
            let mut challenges =
                vec![json!({"type": kind, "url": format!("{base}/challenge/{index}/{which}"),
                "token": token(index, which), "status": status,
                "error": {"type": "x:incorrectResponse", "detail": "what is there is wrong"}})];
            match state.offers {
                // One without a token, and with something that nobody else has.
                Some(PERSIST) => {
                    challenges[0].as_object_mut().unwrap().remove("token");
                    challenges[0]["issuer-domain-names"] = json!(["ca.example", "other.example"]);
                }
                _ => challenges.insert(0, json!({"type": PERSIST, "url": "nowhere"})),
            }
            let is_wild = bare.len() < name.len();
            good(
                json!({"identifier": identifier, "status": status, "wildcard": is_wild, "challenges": challenges}),
            )
        }
        "challenge" => {
            let name = state.orders[index].identifiers[which]["value"].as_str().unwrap().to_owned();
            let mut is_refused = state.refuses || state.refuses_for == Some(&name);
            if state.offers == Some(PERSIST) {
                let name = &*name;
                let bare = name.strip_prefix("*.").unwrap_or(name);
                let policy = if bare == name { "" } else { "; policy=wildcard" };
                let value = format!("ca.example; accounturi={base}/accounts/1{policy}");
                let wanted = (format!("_validation-persist.{bare}"), value);
                is_refused = !state.records.contains(&wanted);
            }
            if state.ponders {
                return good(json!({"type": "http-01", "url": path, "token": "t", "status": "processing"}));
            }
            if let Some(look) = &state.look {
                let token = token(index, which);
                // Its members are in the order that RFC 7638 wants.
                let key = state.account.as_ref().unwrap().to_string();
                let thumb = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, key.as_bytes()));
                is_refused = !look(&Proof { name, authorization: format!("{token}.{thumb}"), token });
            }
            let order = &mut state.orders[index];
            order.proven.insert(which);
            if is_refused {
                order.refused.insert(which);
            }
            order.status = match (order.refused.is_empty(), order.is_proven()) {
                (false, _) => "invalid",
                (true, true) => "ready",
                (true, false) => "pending",
            };
            good(json!({"type": "http-01", "url": path, "token": "t", "status": "processing"}))
        }
        "finalize" => {
            if state.orders[index].status != "ready" {
                return problem(403, "orderNotReady");
            }
            let request = URL_SAFE_NO_PAD.decode(payload(body)["csr"].as_str().unwrap()).unwrap();
            let mut request = CertificateSigningRequestParams::from_der(&request.into()).unwrap();
            let begin = state.begin.unwrap_or(BEGIN);
            let life = state.life.unwrap_or(LIFE);
            request.params.not_before = OffsetDateTime::from_unix_timestamp(begin as i64).unwrap();
            request.params.not_after = OffsetDateTime::from_unix_timestamp((begin + life) as i64).unwrap();
            for name in &state.adds {
                let name = name.clone().try_into().unwrap();
                request.params.subject_alt_names.push(rcgen::SanType::DnsName(name));
            }
            if state.drops_names {
                request.params.subject_alt_names.clear();
            }
            request.params.use_authority_key_identifier_extension = true;
            state.issued += 1;
            request.params.serial_number = Some(SerialNumber::from(0x80_00_00_00 + state.issued as u64));
            let chain = request.signed_by(&ca.0, &ca.1).unwrap().pem();
            state.orders[index].chain = Some(chain);
            state.orders[index].status = if state.slow > 0 { "processing" } else { "valid" };
            order_text(state, base, index)
        }
        "certificate" if state.garbles => (200, String::new(), "what is this?".into()),
        "certificate" if state.has_chains => {
            let chain = state.orders[index].chain.clone().unwrap() + &ca.0.pem();
            (200, format!("Link: <{base}/other/{index}>;rel=\"alternate\"\r\n"), chain)
        }
        "certificate" => (200, String::new(), state.orders[index].chain.clone().unwrap() + &state.appends),
        "other" => (200, String::new(), state.orders[index].chain.clone().unwrap() + &ca.2),
        "info" => match state.window {
            Some((start, end)) => {
                let moment = |seconds: u64| {
                    let moment = OffsetDateTime::from_unix_timestamp(seconds as i64).unwrap();
                    moment.format(&time::format_description::well_known::Rfc3339).unwrap()
                };
                let mut info = json!({"suggestedWindow": {"start": moment(start), "end": moment(end)}});
                if let Some(url) = state.explanation {
                    info["explanationURL"] = url.into();
                }
                (200, "Retry-After: 7200\r\n".into(), info.to_string())
            }
            None => problem(404, "malformed"),
        },
        _ => problem(404, "malformed"),
    }
}

/// The token of a challenge.
fn token(index: usize, which: usize) -> String {
    if which == 0 { format!("t{index}") } else { format!("t{index}-{which}") }
}

/// An order, with an authorization for each of its identifiers.
fn order_text(state: &State, base: &str, index: usize) -> (u16, String, String) {
    let order = &state.orders[index];
    let count = order.identifiers.as_array().map_or(0, Vec::len);
    let authorizations: Vec<String> =
        (0..count).map(|which| format!("{base}/authz/{index}/{which}")).collect();
    let mut value = json!({"status": order.status, "identifiers": order.identifiers,
        "authorizations": authorizations, "finalize": format!("{base}/finalize/{index}")});
    if order.status == "valid" {
        value["certificate"] = json!(format!("{base}/certificate/{index}"));
    }
    (200, String::new(), value.to_string())
}
