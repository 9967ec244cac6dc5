//! Transaction signatures (RFC 8945): every request is signed, and no unsigned answer is believed but a refusal.
//!
//! Servers refuse without a signature what they cannot handle. To a question, that only keeps us from reading; to an
//! update, it ends as "no effect", but for SERVFAIL, which ends as unknown.
//!
//! Guarantees: a key is looked up at each call and forgotten after it; the messages of a transfer are one chain,
//! in which up to 99 may be unsigned (§5.3.1) and the last one is signed; what the server says about a
//! signature it refused (`BADKEY`, `BADTIME`) is told even where that answer cannot be signed.

use super::response::Response;
use base64::{Engine, engine::general_purpose::STANDARD};
use hickory_proto::{
    op::Message,
    rr::{
        Name, TSigner,
        rdata::tsig::{TSIG, TsigAlgorithm, TsigError},
    },
    serialize::binary::BinEncoder,
};
use reconciled_provider::{Cx, Error, SecretRef};
use std::{fmt, time::Duration};

/// Seconds by which two clocks may differ (RFC 8945 §10).
pub const FUDGE: u16 = 300;

/// Most unsigned messages between two signed ones (RFC 8945 §5.3.1).
const UNSIGNED: usize = 99;

/// How a key signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// HMAC with SHA-256, which every server knows.
    #[default]
    HmacSha256,
    /// HMAC with SHA-384.
    HmacSha384,
    /// HMAC with SHA-512.
    HmacSha512,
}

/// A key by name; the secret itself is looked up when it is needed.
#[derive(Clone, Debug)]
pub struct Key {
    /// Name, as the server knows it.
    pub name: String,
    /// How it signs.
    pub algorithm: Algorithm,
    /// Where the secret is, in base64.
    pub secret: SecretRef,
    /// Seconds by which the clocks may differ.
    pub fudge: u16,
}

impl Key {
    /// Refuses a name that is none.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        self.domain().map(|_| ())
    }

    fn domain(&self) -> Result<Name, Error> {
        let name = crate::name::Name::zone(&self.name);
        name.ok().and_then(|name| super::request::domain(name.as_str())).ok_or_else(|| {
            Error::invalid(format!("`{}` is no name of a TSIG key", self.name))
                .hint("write the name that the server has for it, such as `reconciled.`")
        })
    }

    /// A signer with the secret as it is now.
    pub(crate) fn signer(&self, cx: &Cx) -> Result<Signer, Error> {
        let secret = cx.secrets.reveal(&self.secret)?;
        let text: String = secret.reveal_str()?.split_ascii_whitespace().collect();
        let key = STANDARD.decode(&text).ok().filter(|key| !key.is_empty()).ok_or_else(|| {
            Error::invalid(format!("the secret of TSIG key `{}` is not base64", self.name))
                .hint("it is what stands between the quotes behind `secret` in the server's configuration, and nothing else")
        })?;
        let algorithm = match self.algorithm {
            Algorithm::HmacSha256 => TsigAlgorithm::HmacSha256,
            Algorithm::HmacSha384 => TsigAlgorithm::HmacSha384,
            Algorithm::HmacSha512 => TsigAlgorithm::HmacSha512,
        };
        let signer = TSigner::new(key, algorithm, self.domain()?, self.fudge)
            .map_err(|_| Error::invalid(format!("TSIG key `{}` cannot sign", self.name)))?;
        Ok(Signer { signer, now: cx.clock.now() })
    }
}

/// Signs requests.
pub(crate) struct Signer {
    signer: TSigner,
    now: Duration,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(…)")
    }
}

impl Signer {
    /// The octets of the signed message, and what checks the answers to it.
    pub(crate) fn sign(&self, mut message: Message) -> Result<(Vec<u8>, Verifier), Error> {
        let failed = |error: String| Error::unexpected(format!("write a DNS message: {error}"));
        message.finalize(&self.signer, self.now.as_secs()).map_err(|error| failed(error.to_string()))?;
        let previous = message.signature().map(|record| record.data.mac.clone()).unwrap_or_default();
        let octets = message.to_vec().map_err(|error| failed(error.to_string()))?;
        let verifier = Verifier {
            signer: self.signer.clone(),
            previous,
            is_first: true,
            unsigned: Vec::new(),
            held: 0,
            now: self.now.as_secs(),
        };
        Ok((octets, verifier))
    }
}

/// Why an answer is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// It is not signed, or not as it should be.
    Forged(&'static str),
    /// The server did not accept our signature.
    Refused(TsigError),
    /// The clocks differ: by so many seconds the server's is ahead.
    Clock(i64),
}

/// Checks the answers to one request, in the order they come.
pub(crate) struct Verifier {
    signer: TSigner,
    previous: Vec<u8>,
    is_first: bool,
    /// Messages since the last signed one.
    unsigned: Vec<u8>,
    held: usize,
    now: u64,
}

impl Verifier {
    /// True when the last message was signed: only then is a chain complete.
    pub(crate) fn is_settled(&self) -> bool {
        !self.is_first && self.held == 0
    }

    /// Checks the next message.
    pub(crate) fn check(&mut self, response: &Response<'_>) -> Result<(), Doubt> {
        let Some((start, name, tsig)) = &response.tsig else {
            // The first message and error answers have to be signed.
            if self.is_first || self.held >= UNSIGNED || response.rcode != 0 {
                return Err(Doubt::Forged("it is not signed"));
            }
            self.unsigned.extend_from_slice(response.octets);
            self.held += 1;
            return Ok(());
        };
        // These two cannot be signed, since the two sides share no key (§5.2.1, §5.2.2).
        if let Some(error @ (TsigError::BadKey | TsigError::BadSig)) = tsig.error {
            return Err(Doubt::Refused(error));
        }
        if !is_same_name(name, self.signer.signer_name()) {
            return Err(Doubt::Forged("it is signed with another key"));
        }
        let octets = self.to_be_signed(response, *start, tsig);
        self.signer.verify(&octets, &tsig.mac).map_err(|_| Doubt::Forged("its signature is wrong"))?;
        if let Some(error) = tsig.error {
            let server = <[u8; 6]>::try_from(&tsig.other[..]).ok();
            return Err(match (error, server) {
                (TsigError::BadTime, Some([a, b, c, d, e, f])) => {
                    let server = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
                    Doubt::Clock(server.cast_signed() - self.now.cast_signed())
                }
                _ => Doubt::Refused(error),
            });
        }
        if tsig.time.abs_diff(self.now) > u64::from(tsig.fudge.max(self.signer.fudge())) {
            return Err(Doubt::Clock(tsig.time.cast_signed() - self.now.cast_signed()));
        }
        self.previous = tsig.mac.clone();
        self.is_first = false;
        self.unsigned.clear();
        self.held = 0;
        Ok(())
    }

    /// What a signature covers (RFC 8945 §4.3): the signature before it, the message without its own, and when.
    fn to_be_signed(&self, response: &Response<'_>, start: usize, tsig: &TSIG) -> Vec<u8> {
        let mut out = Vec::with_capacity(response.octets.len() + self.unsigned.len() + 128);
        out.extend(u16::try_from(self.previous.len()).unwrap_or_default().to_be_bytes());
        out.extend_from_slice(&self.previous);
        out.extend_from_slice(&self.unsigned);
        let header = out.len();
        out.extend_from_slice(&response.octets[..start]);
        out[header..header + 2].copy_from_slice(&tsig.oid.to_be_bytes());
        let additionals = response.additionals.saturating_sub(1);
        out[header + 10..header + 12].copy_from_slice(&additionals.to_be_bytes());
        if self.is_first {
            let mut variables = Vec::with_capacity(128);
            // Writing into memory fails on nothing but its size, which is small.
            let _ = tsig.emit_tsig_for_mac(&mut BinEncoder::new(&mut variables), self.signer.signer_name());
            out.extend(variables);
        } else {
            out.extend_from_slice(&tsig.time.to_be_bytes()[2..]);
            out.extend(tsig.fudge.to_be_bytes());
        }
        out
    }
}

fn is_same_name(canonical: &str, name: &Name) -> bool {
    let mut labels = crate::name::labels(canonical);
    let same = name.iter().all(|label| {
        let label = label.to_ascii_lowercase();
        labels.next().is_some_and(|other| other.as_bytes() == label)
    });
    same && labels.next().is_none()
}
