//! Questions to the server, and what each way of failing means.
//!
//! Guarantees: an update that reached the server and brought no answer is told apart from one that was refused;
//! a transfer counts only when it began and ended with the same SOA and its last message was signed; error texts
//! hold no secret.

use super::{
    config::{Config, Keys},
    exchange::{Broken, Tcp},
    request,
    response::{self, Response},
    soa::{Soa, soa_of},
    transfer::{Form, Sink, Transfer, Unfit},
    tsig::{Doubt, Key, Verifier},
};
use hickory_proto::{
    op::Message,
    rr::{Name, Record, RecordType, rdata::tsig::TsigError},
};
use reconciled_provider::{Cx, Error};

/// How an update failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server answered no: nothing took effect.
    Refused {
        /// RFC 2136 §2.2.
        rcode: u8,
        /// It does not know the key, or not for what the message holds.
        is_of_key: bool,
        /// What it means to the engine.
        error: Error,
    },
    /// Nothing was sent.
    NotSent(Error),
    /// It may have taken effect.
    Lost(Error),
}

impl Failure {
    /// What it means to the engine.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Failure::Refused { error, .. } | Failure::NotSent(error) | Failure::Lost(error) => error,
        }
    }
}

pub(crate) const FORMERR: u8 = 1;
pub(crate) const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;
const NOTIMP: u8 = 4;
pub(crate) const REFUSED: u8 = 5;
pub(crate) const YXDOMAIN: u8 = 6;
pub(crate) const YXRRSET: u8 = 7;
pub(crate) const NXRRSET: u8 = 8;
const NOTAUTH: u8 = 9;
pub(crate) const NOTZONE: u8 = 10;

/// A connection to the server.
pub(crate) struct Connection<'c> {
    tcp: Tcp<'c>,
    cx: &'c Cx,
    keys: &'c Keys,
    server: &'c str,
}

impl<'c> Connection<'c> {
    /// Connects.
    pub(crate) async fn open(
        config: &'c Config,
        keys: &'c Keys,
        cx: &'c Cx,
        doing: &str,
    ) -> Result<Connection<'c>, Error> {
        let tcp = Tcp::connect(config, cx, doing).await?;
        Ok(Connection { tcp, cx, keys, server: &config.server })
    }

    /// What it was opened with.
    pub(crate) fn cx(&self) -> &'c Cx {
        self.cx
    }

    async fn ask(&mut self, key: &Key, message: Message, doing: &str) -> Result<(u16, Verifier), Broken> {
        let id = message.id;
        let (octets, verifier) =
            key.signer(self.cx).and_then(|signer| signer.sign(message)).map_err(Broken::NotSent)?;
        self.cx.pace.turn().await;
        self.tcp.send(&octets, doing).await?;
        Ok((id, verifier))
    }

    /// The SOA of `zone` as it is now; none where the server does not have the zone.
    pub(crate) async fn soa(&mut self, zone: &Name, text: &str, doing: &str) -> Result<Option<Soa>, Error> {
        self.question((zone, text), RecordType::SOA, soa_of, doing).await
    }

    /// True where the server keeps signatures with the data of `zone`. PowerDNS, which makes them as it answers, refuses
    /// to tell them. Whoever fails to is taken not to: whether a CNAME came is asked behind it.
    pub(crate) async fn keeps_signatures(
        &mut self,
        zone: &Name,
        text: &str,
        doing: &str,
    ) -> Result<bool, Error> {
        self.question((zone, text), RecordType::RRSIG, has_signatures, doing).await
    }

    /// Asks for the records of a type at `zone`; `told` is what an answer tells of a zone.
    async fn question<T>(
        &mut self,
        (zone, text): (&Name, &str),
        kind: RecordType,
        told: fn(&Response<'_>, &str) -> T,
        doing: &str,
    ) -> Result<T, Error> {
        let keys = self.keys;
        let asked = self.ask(&keys.transfer, request::question(zone, kind), doing).await;
        let (id, mut verifier) = asked.map_err(Broken::into_error)?;
        let octets = self.tcp.receive(doing).await.map_err(Broken::into_error)?;
        let response = read(&octets, id, text, u16::from(kind), self.server, doing)?;
        believe(&mut verifier, &response, self.server, &keys.transfer, doing)?;
        match response.rcode {
            // What it does not tell of signatures says nothing of the rest: it may be something before it that cannot carry them.
            SERVFAIL if kind != RecordType::RRSIG => Err(refusal(SERVFAIL, self.server, doing, false)),
            _ if is_key_refused(&response) => Err(key_refused(self.server, &keys.transfer, doing)),
            _ => Ok(told(&response, text)),
        }
    }

    /// Transfers `zone` into `sink`, or what changed since a version of it. What the sink has taken counts only if this
    /// succeeds.
    pub(crate) async fn transfer(
        &mut self,
        zone: &Name,
        text: &str,
        since: Option<&Soa>,
        sink: &mut (dyn Sink + Send),
        doing: &str,
    ) -> Result<(Soa, Form), Error> {
        let keys = self.keys;
        let (message, kind) = match since {
            Some(soa) => (request::difference(zone, &soa.data), RecordType::IXFR),
            None => (request::question(zone, RecordType::AXFR), RecordType::AXFR),
        };
        let asked = self.ask(&keys.transfer, message, doing).await;
        let (id, mut verifier) = asked.map_err(Broken::into_error)?;
        let bad = |what: &str| {
            Error::unexpected(format!("{doing} at {}: {what}", self.server))
                .hint("nothing of the transfer is used")
        };
        let mut transfer = Transfer::of(text, since);
        loop {
            let octets = self.tcp.receive(doing).await.map_err(Broken::into_error)?;
            let response = read(&octets, id, text, u16::from(kind), self.server, doing)?;
            believe(&mut verifier, &response, self.server, &keys.transfer, doing)?;
            if response.rcode != 0 {
                return Err(refusal(response.rcode, self.server, doing, false));
            }
            let ended = transfer.take(&response, sink).map_err(|unfit| match unfit {
                Unfit::Odd(why) => bad(why),
                Unfit::Moved => {
                    Error::conflict(format!("{doing} at {}: the zone changed on the way", self.server))
                }
                Unfit::Refused(error) => error,
            })?;
            match ended {
                Some(_) if !verifier.is_settled() => {
                    return Err(bad("the last message of the transfer is not signed"));
                }
                Some(ended) => return Ok(ended),
                None => {}
            }
        }
    }

    /// Changes `zone`, all or nothing, if its SOA is still `soa`.
    pub(crate) async fn update(
        &mut self,
        (zone, text): (&Name, &str),
        needs: Vec<Record>,
        changes: Vec<Record>,
        doing: &str,
    ) -> Result<(), Failure> {
        let keys = self.keys;
        let message = request::update(zone, needs, changes);
        let (id, mut verifier) =
            self.ask(&keys.update, message, doing).await.map_err(|broken| match broken {
                Broken::NotSent(error) => Failure::NotSent(error),
                Broken::Lost(error) => Failure::Lost(error),
            })?;
        let octets = self.tcp.receive(doing).await.map_err(|broken| Failure::Lost(broken.into_error()))?;
        // An answer that cannot be read or believed is none: somebody else may have written it.
        let response = read(&octets, id, text, response::SOA, self.server, doing).map_err(Failure::Lost)?;
        if let Err(doubt) = verifier.check(&response) {
            let error = doubtful(&doubt, self.server, &keys.update, doing);
            return Err(match doubt {
                // The server may have written its journal and not its answer, signed or not.
                _ if response.rcode == SERVFAIL => {
                    Failure::Lost(refusal(SERVFAIL, self.server, doing, true).caused_by(error))
                }
                Doubt::Forged(_) if response.tsig.is_none() && response.rcode != 0 => {
                    // Servers answer what they cannot handle without a signature, and then did nothing.
                    Failure::Refused {
                        rcode: response.rcode,
                        is_of_key: false,
                        error: refusal(response.rcode, self.server, doing, true),
                    }
                }
                Doubt::Forged(_) => Failure::Lost(error),
                // Knot says so too of a key that may do this, but not to one of the types in the message.
                Doubt::Refused(TsigError::BadKey) if response.rcode != 0 => {
                    Failure::Refused { rcode: REFUSED, is_of_key: true, error }
                }
                Doubt::Refused(_) | Doubt::Clock(_) if response.rcode != 0 => {
                    Failure::Refused { rcode: response.rcode, is_of_key: false, error }
                }
                Doubt::Refused(_) | Doubt::Clock(_) => Failure::Lost(error),
            });
        }
        match response.rcode {
            0 => Ok(()),
            // The server may have written its journal and not its answer.
            SERVFAIL => Err(Failure::Lost(refusal(SERVFAIL, self.server, doing, true))),
            rcode => {
                let error = refusal(rcode, self.server, doing, true);
                Err(Failure::Refused { rcode, is_of_key: false, error })
            }
        }
    }
}

fn read<'m>(
    octets: &'m [u8],
    id: u16,
    zone: &str,
    number: u16,
    server: &str,
    doing: &str,
) -> Result<Response<'m>, Error> {
    response::parse(octets).filter(|response| response.answers_to(id, zone, number)).ok_or_else(|| {
        Error::unexpected(format!("{doing} at {server}: the answer is not a DNS message that answers this"))
            .hint("is `server` of the entry a DNS server?")
    })
}

/// Checks the signature of an answer to a question. An unsigned refusal is believed: it only keeps us from reading.
fn believe(
    verifier: &mut Verifier,
    response: &Response<'_>,
    server: &str,
    key: &Key,
    doing: &str,
) -> Result<(), Error> {
    match verifier.check(response) {
        Ok(()) => Ok(()),
        Err(Doubt::Forged(_)) if response.tsig.is_none() && response.rcode != 0 => Ok(()),
        Err(doubt) => Err(doubtful(&doubt, server, key, doing)),
    }
}

/// True for the answer of a server that did not accept the signature of a question and does not say why: PowerDNS.
/// To a question, NOTAUTH means nothing else.
pub(crate) fn is_key_refused(response: &Response<'_>) -> bool {
    response.rcode == NOTAUTH && response.tsig.is_none()
}

/// The server did not accept a signature, and nobody knows why.
pub(crate) fn key_refused(server: &str, key: &Key, doing: &str) -> Error {
    let name = &key.name;
    Error::permission_denied(format!("{doing} at {server}: NOTAUTH, the signature of TSIG key `{name}` is not accepted"))
        .hint("compare name, algorithm and secret of `tsig` of the entry with the key at the server, and both clocks")
}

/// What a doubt about an answer means to the engine.
pub(crate) fn doubtful(doubt: &Doubt, server: &str, key: &Key, doing: &str) -> Error {
    let name = &key.name;
    match doubt {
        Doubt::Forged(why) => Error::unexpected(format!("{doing} at {server}: the answer is not believed, {why}"))
            .hint(format!("does the server sign with TSIG key `{name}`, or does somebody answer in its place?")),
        Doubt::Clock(ahead) => {
            let (by, way) = (ahead.unsigned_abs(), if *ahead > 0 { "behind" } else { "ahead of" });
            Error::unavailable(format!("{doing} at {server}: BADTIME, the clock here is {by} s {way} the server's"))
                .hint("set both clocks (NTP); signatures hold for `fudge` of the key, 300 s by default")
        }
        Doubt::Refused(TsigError::BadKey) => {
            Error::permission_denied(format!(
                "{doing} at {server}: BADKEY, the server knows no TSIG key `{name}` that may do this"
            ))
            .hint(
                "compare `tsig.name` and `tsig.algorithm` of the entry with the key in the server's configuration, and \
                 what that allows it: update, transfer, and at Knot the types in `update-type`",
            )
        }
        Doubt::Refused(TsigError::BadSig) => {
            Error::permission_denied(format!("{doing} at {server}: BADSIG, TSIG key `{name}` has another secret there"))
                .hint("compare the secret of `tsig` of the entry with the key in the server's configuration")
        }
        Doubt::Refused(TsigError::BadTime) => {
            Error::unavailable(format!("{doing} at {server}: BADTIME, the clocks differ"))
                .hint("set both clocks (NTP); signatures hold for `fudge` of the key, 300 s by default")
        }
        Doubt::Refused(other) => Error::permission_denied(format!(
            "{doing} at {server}: the server does not accept the signature of TSIG key `{name}` (error {})",
            u16::from(*other)
        )),
    }
}

/// What a response code means to the engine.
fn refusal(rcode: u8, server: &str, doing: &str, is_update: bool) -> Error {
    let error = |new: fn(String) -> Error, word: &str, hint: &str| {
        new(format!("{doing} at {server}: {word}")).hint(hint)
    };
    match rcode {
        FORMERR => error(
            Error::invalid,
            "FORMERR, the server cannot read the message",
            "it may not know a record type in it, or finds the data of one to be no such data",
        ),
        SERVFAIL => error(
            Error::unavailable,
            "SERVFAIL, the server failed",
            "its log says why: often it cannot write the zone's journal",
        ),
        NXDOMAIN | NOTAUTH => error(
            Error::unavailable,
            "NOTAUTH, the server is not the primary of the zone",
            "zones are never created over DNS: add the zone to the server's configuration, and let `server` name the primary",
        ),
        NOTIMP => error(
            Error::unsupported,
            "NOTIMP, the server does not do that",
            "switch on dynamic updates, such as `dnsupdate=yes` of PowerDNS",
        ),
        REFUSED if is_update => error(
            Error::permission_denied,
            "REFUSED",
            "allow the TSIG key to update the zone: `update-policy` of BIND, `acl` with `action: update` of Knot, TSIG-ALLOW-DNSUPDATE of PowerDNS",
        ),
        REFUSED => error(
            Error::permission_denied,
            "REFUSED",
            "allow the TSIG key to transfer the zone: `allow-transfer` of BIND, `acl` with `action: transfer` of Knot, TSIG-ALLOW-AXFR of PowerDNS",
        ),
        YXDOMAIN | YXRRSET | NXRRSET => error(
            Error::conflict,
            "the zone changed since it was observed",
            "somebody else writes to it; it is read again at once",
        ),
        NOTZONE => error(
            Error::invalid,
            "NOTZONE, a name lies outside of the zone",
            "a part of the zone may be a zone of its own at the server",
        ),
        other => new_unexpected(other, server, doing),
    }
}

fn new_unexpected(rcode: u8, server: &str, doing: &str) -> Error {
    Error::unexpected(format!("{doing} at {server}: answered with response code {rcode}"))
}

/// The server does not have the zone.
pub(crate) fn not_served(server: &str, zone: &str) -> Error {
    Error::unavailable(format!("zone {} is not served by {server}", zone.trim_end_matches('.')))
        .hint("zones are never created over DNS: add it to the configuration of the primary server, with a SOA and an NS")
}

/// True where there are signatures in an answer.
fn has_signatures(response: &Response<'_>, _: &str) -> bool {
    let number = u16::from(RecordType::RRSIG);
    response.rcode == 0 && response.answers.iter().any(|found| found.number == number)
}
