//! An authority that does what RFC 8555 says, but where it is told not to.
//!
//! It believes every signature, and every proof unless it is told how to look at it: what is tested here is what a client does
//! with answers.

mod answer;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

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
    /// Where it says why.
    explanation: Option<&'static str>,
    /// It has no service that says it.
    lacks_info: bool,
    /// When certificates begin, if not at [`BEGIN`].
    begin: Option<u64>,
    /// Names that are added to those asked for.
    adds: Vec<String>,
    /// Certificates are for none of the names that were asked for.
    drops_names: bool,
    /// What it gives is no certificate.
    garbles: bool,
    /// What follows the certificate that it gives.
    appends: String,
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
                thread::spawn(move || answer::serve(stream, &state, &base, &ca));
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
    /// It never comes to a result about a challenge from now on.
    pub(crate) fn ponder(&self) {
        self.state.lock().unwrap().ponders = true;
    }
    /// It sees this record from now on.
    pub(crate) fn see(&self, name: &str, value: &str) {
        self.state.lock().unwrap().records.push((name.into(), value.into()));
    }
    /// The next order takes so many questions to be done.
    pub(crate) fn slow(&self, questions: usize) {
        self.state.lock().unwrap().slow = questions;
    }
    /// The same, and it does not say how long to wait.
    pub(crate) fn slow_and_silent(&self, questions: usize) {
        self.slow(questions);
        self.state.lock().unwrap().is_silent = true;
    }
    /// It suggests nothing to anybody, and has no service for that, from now on; or has one again.
    pub(crate) fn lack_info(&self, lacks: bool) {
        self.state.lock().unwrap().lacks_info = lacks;
    }
    /// When certificates should be renewed.
    pub(crate) fn suggest(&self, window: (u64, u64)) {
        self.state.lock().unwrap().window = Some(window);
    }
    /// Where it says from now on why they should be renewed then.
    pub(crate) fn explain(&self, url: &'static str) {
        self.state.lock().unwrap().explanation = Some(url);
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
    /// This follows what it gives from now on.
    pub(crate) fn append(&self, text: &str) {
        self.state.lock().unwrap().appends = text.into();
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

impl Order {
    fn is_proven(&self) -> bool {
        self.refused.is_empty()
            && self.identifiers.as_array().is_some_and(|all| all.len() == self.proven.len())
    }
}
