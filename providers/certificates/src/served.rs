//! What services show: a TLS handshake with each address in `serve`.
//!
//! What was seen last is remembered in this process, so that who counts it (metrics) opens no connections. An address that
//! goes on showing another certificate although services were told is a difference: they are told again, a few times for one
//! certificate and less and less often, since it may be somebody else who answers there.

use crate::{
    compare::Difference,
    kept::Issued,
    wish::{KeyKind, Wish},
    x509,
};
use futures_util::future::join_all;
use reconciled_provider::Served;
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same where a plan waits for it: what takes longer is looked at by `health`.
const BRIEFLY: Duration = Duration::from_secs(2);

/// How long what was seen counts, in seconds, when it is looked for whether services have to be told again.
const FRESH: u64 = 60;
/// After how many seconds services that show another certificate are told again, each time; then no more.
const AGAIN: [u64; 4] = [15, 2 * 3_600, 6 * 3_600, 24 * 3_600];

/// What an address shows.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    /// The fingerprint of the certificate.
    pub(crate) fingerprint: String,
    /// When it ends, in seconds since 1970.
    pub(crate) until: u64,
    /// It and what is shown above it, in words.
    pub(crate) chain: String,
}

/// What was seen of all addresses of a certificate at one moment; none of what did not answer.
#[derive(Debug)]
struct Seen {
    /// When, in seconds since 1970.
    at: u64,
    sights: BTreeMap<String, Option<Sight>>,
}

/// What was seen last, by certificate.
#[derive(Debug, Default)]
pub(crate) struct Sights(Mutex<BTreeMap<String, Seen>>);

impl Sights {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what was seen of the certificate `name` at `at`, in seconds since 1970.
    pub(crate) fn remember(&self, name: &str, seen: &[(String, Result<Sight, String>)], at: u64) {
        if seen.is_empty() {
            return self.forget(name);
        }
        let sights = seen.iter().map(|(address, sight)| (address.clone(), sight.clone().ok()));
        self.all().insert(name.to_owned(), Seen { at, sights: sights.collect() });
    }

    /// Forgets what was seen of the certificate `name`.
    pub(crate) fn forget(&self, name: &str) {
        self.all().remove(name);
    }

    /// What was seen last of the certificate `name`, whose fingerprint this is.
    pub(crate) fn shown(&self, name: &str, fingerprint: &str) -> Vec<Served> {
        let all = self.all();
        let shown = |(address, sight): (&String, &Option<Sight>)| {
            sight.as_ref().map(|sight| Served {
                address: address.as_str().into(),
                is_current: sight.fingerprint == fingerprint,
                until: Duration::from_secs(sight.until),
            })
        };
        all.get(name).into_iter().flat_map(|seen| &seen.sights).filter_map(shown).collect()
    }

    /// True when all addresses of the certificate `name` were looked at a moment ago, and not before `since`.
    fn is_fresh(&self, name: &str, wish: &Wish, since: u64, now: u64) -> bool {
        let all = self.all();
        let seen = all.get(name).filter(|seen| seen.at >= since && (seen.at..seen.at + FRESH).contains(&now));
        seen.is_some_and(|seen| wish.serve.iter().all(|address| seen.sights.contains_key(address)))
    }

    /// Looks at the addresses of the certificate `name`, where it is time to tell its services again if one of them shows
    /// another one, and nobody has looked just now.
    pub(crate) async fn look_again(&self, name: &str, wish: &Wish, issued: &Issued, now: u64) {
        let since = again_at(wish, issued).filter(|at| now >= *at);
        if since.is_some_and(|since| !self.is_fresh(name, wish, since, now)) {
            let kind = issued.facts().ok().and_then(|facts| facts.key);
            self.remember(name, &look_within(wish, kind, BRIEFLY).await, now);
        }
    }

    /// Addresses that were seen, not before `since`, to show another certificate than the one with this fingerprint.
    pub(crate) fn strangers(&self, name: &str, wish: &Wish, fingerprint: &str, since: u64) -> Vec<String> {
        let all = self.all();
        let Some(seen) = all.get(name).filter(|seen| seen.at >= since) else { return Vec::new() };
        let is_other = |sight: &Option<Sight>| sight.as_ref().is_some_and(|it| it.fingerprint != fingerprint);
        let shown =
            seen.sights.iter().filter(|(address, sight)| wish.serve.contains(*address) && is_other(sight));
        shown.map(|(address, _)| address.clone()).collect()
    }

    /// That services have to be told again, where they have to.
    pub(crate) fn unserved(&self, name: &str, wish: &Wish, issued: &Issued, now: u64) -> Option<Difference> {
        // What was seen before services had their time says nothing of what they show now.
        let since = again_at(wish, issued).filter(|at| now >= *at)?;
        let strangers = self.strangers(name, wish, issued.told.as_deref()?, since);
        let units = wish.reload.iter().cloned().collect::<Vec<_>>().join(" ");
        let before = format!("another certificate at {}", strangers.join(" "));
        (!strangers.is_empty()).then(|| Difference::new("served", before, format!("this one, by {units}")))
    }
}

/// When services are told again if an address shows another certificate, in seconds since 1970; none where nobody is to be
/// told, or they are still to be told of this one, or were told often enough.
pub(crate) fn again_at(wish: &Wish, issued: &Issued) -> Option<u64> {
    let is_told = issued.told.is_some() && issued.told == issued.facts().ok().map(|facts| facts.fingerprint);
    if !is_told || wish.reload.is_empty() || wish.serve.is_empty() {
        return None;
    }
    Some(issued.told_at + AGAIN.get(issued.told_again as usize)?)
}

/// Asks all addresses of a certificate at once, whose key is of this kind where that is known.
pub(crate) async fn look(wish: &Wish, kind: Option<KeyKind>) -> Vec<(String, Result<Sight, String>)> {
    look_within(wish, kind, PATIENCE).await
}

async fn look_within(
    wish: &Wish,
    kind: Option<KeyKind>,
    patience: Duration,
) -> Vec<(String, Result<Sight, String>)> {
    let one = |address: &String| {
        let address = address.clone();
        async move {
            let seen = tokio::time::timeout(patience, served(&address, wish, kind)).await;
            (address, seen.unwrap_or_else(|_| Err("no answer in time".into())))
        }
    };
    join_all(wish.serve.iter().map(one)).await
}

/// What is served at `address` to who asks for the first name of the certificate.
///
/// Who has several certificates of the same names shows the one whose kind of key the other side takes, so only this one is
/// taken. Where that is refused there is none of this kind, and what is shown instead is asked for.
async fn served(address: &str, wish: &Wish, kind: Option<KeyKind>) -> Result<Sight, String> {
    let all = shake(address, wish, None);
    match kind {
        Some(kind) => match shake(address, wish, Some(kind)).await {
            Err(Shake::Refused(_)) => all.await,
            seen => seen,
        },
        None => all.await,
    }
    .map_err(|(Shake::Refused(why) | Shake::Unanswered(why))| why)
}

/// Why a handshake came to nothing.
enum Shake {
    /// It was begun.
    Refused(String),
    /// Nobody is there to begin it with.
    Unanswered(String),
}

async fn shake(address: &str, wish: &Wish, kind: Option<KeyKind>) -> Result<Sight, Shake> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    // A name of its own, where there is one: what a wildcard stands for may be served by others.
    let own = wish.names.iter().find(|name| !name.contains('*')).cloned();
    let name = own.or_else(|| wish.names.first().map(|name| name.replacen('*', "www", 1)));
    let name =
        name.or_else(|| wish.addresses.first().map(ToString::to_string)).unwrap_or_else(|| host.into());
    let unasked = |error: &dyn std::fmt::Display| Shake::Unanswered(error.to_string());
    let name = ServerName::try_from(name).map_err(|_| unasked(&"no name to ask for"))?;
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| unasked(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Witness { provider, kind }))
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.map_err(|error| unasked(&error))?;
    let refused = |error: &dyn std::fmt::Display| Shake::Refused(error.to_string());
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let stream = stream.map_err(|error| refused(&error))?;
    let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let leaf = shown.first().ok_or_else(|| refused(&"it shows no certificate"))?;
    let facts = x509::facts("what it shows", leaf).map_err(|error| refused(&error.message))?;
    let chain = x509::path(shown.iter().map(AsRef::as_ref));
    Ok(Sight { fingerprint: facts.fingerprint, until: facts.not_after, chain })
}

/// True when a key of this kind signs so.
fn is_of(kind: KeyKind, scheme: SignatureScheme) -> bool {
    use SignatureScheme as Scheme;
    match kind {
        KeyKind::Ecdsa(_) => matches!(
            scheme,
            Scheme::ECDSA_NISTP256_SHA256 | Scheme::ECDSA_NISTP384_SHA384 | Scheme::ECDSA_NISTP521_SHA512
        ),
        KeyKind::Ed25519 => scheme == Scheme::ED25519,
        KeyKind::Rsa(_) => matches!(
            scheme,
            Scheme::RSA_PSS_SHA256
                | Scheme::RSA_PSS_SHA384
                | Scheme::RSA_PSS_SHA512
                | Scheme::RSA_PKCS1_SHA256
                | Scheme::RSA_PKCS1_SHA384
                | Scheme::RSA_PKCS1_SHA512
        ),
    }
}

/// Takes every certificate: which one is shown is what is asked, and nothing is told to who shows it. That the other side
/// has its key is checked all the same.
#[derive(Debug)]
struct Witness {
    provider: Arc<CryptoProvider>,
    /// Only keys of this kind are taken.
    kind: Option<KeyKind>,
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let mut schemes = self.provider.signature_verification_algorithms.supported_schemes();
        schemes.retain(|scheme| self.kind.is_none_or(|kind| is_of(kind, *scheme)));
        schemes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_of_one_kind_of_key_each() {
        let all = ring::default_provider().signature_verification_algorithms.supported_schemes();
        let kinds = [KeyKind::Ecdsa(256), KeyKind::Rsa(2_048), KeyKind::Ed25519];
        for scheme in all {
            let count = kinds.iter().filter(|kind| is_of(**kind, scheme)).count();
            assert_eq!(count, 1, "{scheme:?}");
        }
    }
}
