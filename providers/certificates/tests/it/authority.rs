//! An authority that does what RFC 8555 says, but where it is told not to.
//!
//! It believes every signature, and every proof unless it is told how to look at it: what is tested here is what a client does
//! with answers.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, IsCa, KeyPair, SerialNumber,
};
use ring::digest;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};
use time::OffsetDateTime;

/// When its certificates begin, and how long they are valid.
pub(crate) const BEGIN: u64 = 1_800_000_000;
pub(crate) const LIFE: u64 = 90 * 86_400;

/// The kind of challenge that looks for a record that stays.
pub(crate) const PERSIST: &str = "dns-persist-01";

/// What goes wrong with a call.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It takes effect, and the answer is lost.
    Lost,
    /// It never arrives.
    Dropped,
    /// It is refused: status, the last part of the type, further headers.
    Refused(u16, &'static str, &'static str),
    /// The same with what it says besides: status, the last part of the type, the text.
    Said(u16, &'static str, &'static str),
}

#[derive(Debug, Default)]
struct Order {
    identifiers: Value,
    status: &'static str,
    /// Which of the identifiers somebody tried to prove, and which of these in vain.
    proven: BTreeSet<usize>,
    refused: BTreeSet<usize>,
    replaces: Option<String>,
    account: Value,
    profile: Option<String>,
    chain: Option<String>,
}

/// What proves a name.
pub(crate) struct Proof {
    pub(crate) name: String,
    pub(crate) token: String,
    /// The token and the key of the account (RFC 8555 §8.1).
    pub(crate) authorization: String,
}

/// Looks whether a proof is there.
type Look = Box<dyn Fn(&Proof) -> bool + Send>;

#[derive(Default)]
struct State {
    orders: Vec<Order>,
    /// Calls, in the order they came: the last part of the path, with a number for orders left out.
    calls: Vec<String>,
    /// Faults by the name of the call.
    faults: VecDeque<(String, Fault)>,
    /// The nth call fails so.
    nth: Option<(usize, Fault)>,
    issued: usize,
    /// Where it may write to.
    contact: Value,
    /// A profile that it has besides.
    profile: Option<&'static str>,
    /// The kind of challenge, if not HTTP-01.
    offers: Option<&'static str>,
    /// The same for single names.
    offers_for: BTreeMap<&'static str, &'static str>,
    /// A name for which proofs count for nothing.
    refuses_for: Option<&'static str>,
    /// It never comes to a result about a challenge.
    ponders: bool,
    /// TXT records that it sees.
    records: Vec<(String, String)>,
    /// What a challenge comes to.
    refuses: bool,
    /// How often an order is still being processed.
    slow: usize,
    /// It does not say how long that takes.
    is_silent: bool,
    /// The window of renewals.
    window: Option<(u64, u64)>,
    /// When certificates begin, if not at [`BEGIN`].
    begin: Option<u64>,
    /// Names that are added to those asked for.
    adds: Vec<String>,
    /// Certificates are for none of the names that were asked for.
    drops_names: bool,
    /// What it gives is no certificate.
    garbles: bool,
    /// It gives a whole chain, and there is another one.
    has_chains: bool,
    /// How it looks at proofs, if at all.
    look: Option<Look>,
    /// It gives an order that is open again to who asks for the same names, and remembers what was proven.
    reuses: bool,
    /// Requests that were handed in, whatever came of it.
    requests: Vec<String>,
    replaced: Vec<String>,
    /// The key of the account, and how many other ones there were.
    account: Option<Value>,
    former_accounts: usize,
    rollovers: usize,
    /// How long certificates are valid, if not [`LIFE`].
    life: Option<u64>,
    nonces: u64,
}

/// The authority.
pub(crate) struct Authority {
    state: Arc<Mutex<State>>,
    pub(crate) url: String,
}

impl Authority {
    pub(crate) fn start() -> Authority {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "Fake Root");
        let root = params.clone().self_signed(&key).unwrap();
        let old_key = KeyPair::generate().unwrap();
        let mut old = CertificateParams::default();
        old.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        old.distinguished_name.push(DnType::CommonName, "Old Root");
        let old = old.self_signed(&old_key).unwrap();
        let cross = params.signed_by(&key, &old, &old_key).unwrap().pem();
        let ca = Arc::new((root, key, cross));
        let (shared, base) = (state.clone(), url.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (state, base, ca) = (shared.clone(), base.clone(), ca.clone());
                thread::spawn(move || serve(stream, &state, &base, &ca));
            }
        });
        Authority { state, url }
    }

    /// The next call named `call` goes wrong.
    pub(crate) fn fail(&self, call: &str, fault: Fault) {
        self.state.lock().unwrap().faults.push_back((call.into(), fault));
    }
    /// The call number `number` from now goes wrong, whatever it is.
    pub(crate) fn fail_nth(&self, number: usize, fault: Fault) {
        let mut state = self.state.lock().unwrap();
        state.nth = Some((state.calls.len() + number, fault));
    }
    /// Whether the fault of [`Authority::fail_nth`] is still to come.
    pub(crate) fn is_armed(&self) -> bool {
        self.state.lock().unwrap().nth.is_some()
    }
    /// It has this profile from now on.
    pub(crate) fn add_profile(&self, name: &'static str) {
        self.state.lock().unwrap().profile = Some(name);
    }
    /// Where it may write to.
    pub(crate) fn contact(&self) -> Value {
        self.state.lock().unwrap().contact.clone()
    }
    /// Names are proven in this way from now on.
    pub(crate) fn offer(&self, kind: &'static str) {
        self.state.lock().unwrap().offers = Some(kind);
    }
    /// This name is proven in this way from now on.
    pub(crate) fn offer_for(&self, name: &'static str, kind: &'static str) {
        self.state.lock().unwrap().offers_for.insert(name, kind);
    }
    /// Proofs for this name count for nothing from now on, or for none.
    pub(crate) fn refuse_for(&self, name: Option<&'static str>) {
        self.state.lock().unwrap().refuses_for = name;
    }
    /// Proofs count for nothing from now on, or again.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.state.lock().unwrap().refuses = refuses;
    }
    /// The next order takes so many questions to be done.
    /// It never comes to a result about a challenge from now on.
    pub(crate) fn ponder(&self) {
        self.state.lock().unwrap().ponders = true;
    }
    /// It sees this record from now on.
    pub(crate) fn see(&self, name: &str, value: &str) {
        self.state.lock().unwrap().records.push((name.into(), value.into()));
    }
    pub(crate) fn slow(&self, questions: usize) {
        self.state.lock().unwrap().slow = questions;
    }
    /// The same, and it does not say how long to wait.
    pub(crate) fn slow_and_silent(&self, questions: usize) {
        self.slow(questions);
        self.state.lock().unwrap().is_silent = true;
    }
    /// When certificates should be renewed.
    pub(crate) fn suggest(&self, window: (u64, u64)) {
        self.state.lock().unwrap().window = Some(window);
    }
    /// Certificates begin then from now on.
    pub(crate) fn begin(&self, at: u64) {
        self.state.lock().unwrap().begin = Some(at);
    }
    /// Certificates are valid for so many seconds from now on.
    pub(crate) fn live(&self, seconds: u64) {
        self.state.lock().unwrap().life = Some(seconds);
    }
    /// How often the key of the account was changed.
    pub(crate) fn rollovers(&self) -> usize {
        self.state.lock().unwrap().rollovers
    }
    /// It forgets the account and all orders, as one that is started again without its data.
    pub(crate) fn forget_everything(&self) {
        self.forget();
        self.state.lock().unwrap().account = None;
    }
    /// Certificates are for this name as well.
    pub(crate) fn add(&self, name: &str) {
        self.state.lock().unwrap().adds.push(name.into());
    }
    /// Certificates are for none of the names that were asked for from now on, or no more.
    pub(crate) fn drop_names(&self, drops: bool) {
        self.state.lock().unwrap().drops_names = drops;
    }
    /// What it gives is no certificate from now on, or again.
    pub(crate) fn garble(&self, garbles: bool) {
        self.state.lock().unwrap().garbles = garbles;
    }
    /// It gives the chain up to its root from now on, and there is another one up to an older root.
    pub(crate) fn give_chains(&self) {
        self.state.lock().unwrap().has_chains = true;
    }
    /// Another order replaced this certificate already.
    pub(crate) fn replaced(&self) {
        self.state.lock().unwrap().replaced.push("*".into());
    }
    /// It forgets all orders.
    pub(crate) fn forget(&self) {
        self.state.lock().unwrap().orders.iter_mut().for_each(|order| order.status = "gone");
    }
    /// Orders and certificates so far.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.state.lock().unwrap();
        (state.orders.len(), state.issued)
    }
    /// What the last order said it replaces.
    pub(crate) fn last_replaces(&self) -> Option<String> {
        self.state.lock().unwrap().orders.last().unwrap().replaces.clone()
    }
    /// Requests that were handed in.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.clone()
    }
    /// It looks at proofs in this way from now on.
    pub(crate) fn look(&self, look: impl Fn(&Proof) -> bool + Send + 'static) {
        self.state.lock().unwrap().look = Some(Box::new(look));
    }
    /// From now on it gives an order that is open again to who asks for the same names, and remembers what was proven.
    pub(crate) fn reuse(&self) {
        self.state.lock().unwrap().reuses = true;
    }
    /// What the last order is for.
    pub(crate) fn last_identifiers(&self) -> Value {
        self.state.lock().unwrap().orders.last().unwrap().identifiers.clone()
    }
    /// The profile of the last order.
    pub(crate) fn last_profile(&self) -> Option<String> {
        self.state.lock().unwrap().orders.last().unwrap().profile.clone()
    }
    /// How often `call` came.
    pub(crate) fn calls(&self, call: &str) -> usize {
        self.state.lock().unwrap().calls.iter().filter(|known| *known == call).count()
    }
}

/// Its certificate, its key, and the same certificate signed by an older one.
type Ca = (rcgen::Certificate, KeyPair, String);

fn serve(mut stream: TcpStream, state: &Mutex<State>, base: &str, ca: &Ca) {
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
        "dir" => good(json!({"newNonce": format!("{base}/nonce"), "newAccount": format!("{base}/account"),
            "newOrder": format!("{base}/order"), "keyChange": format!("{base}/rollover"), "renewalInfo": format!("{base}/info"),
            "meta": {"profiles": {"shortlived": "six days", state.profile.unwrap_or("classic"): "more"}}})),
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
        "certificate" => (200, String::new(), state.orders[index].chain.clone().unwrap()),
        "other" => (200, String::new(), state.orders[index].chain.clone().unwrap() + &ca.2),
        "info" => match state.window {
            Some((start, end)) => {
                let moment = |seconds: u64| {
                    let moment = OffsetDateTime::from_unix_timestamp(seconds as i64).unwrap();
                    moment.format(&time::format_description::well_known::Rfc3339).unwrap()
                };
                let text =
                    json!({"suggestedWindow": {"start": moment(start), "end": moment(end)}}).to_string();
                (200, "Retry-After: 7200\r\n".into(), text)
            }
            None => problem(404, "malformed"),
        },
        _ => problem(404, "malformed"),
    }
}

impl Order {
    fn is_proven(&self) -> bool {
        self.refused.is_empty()
            && self.identifiers.as_array().is_some_and(|all| all.len() == self.proven.len())
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
