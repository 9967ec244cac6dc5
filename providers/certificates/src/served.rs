//! What services show: a TLS handshake with each address in `serve`.
//!
//! What was seen last is remembered in this process, so that who counts it (metrics) opens no connections.

use crate::{wish::Wish, x509};
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
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// What was seen last, by certificate and address.
#[derive(Debug, Default)]
pub(crate) struct Sights(Mutex<BTreeMap<String, BTreeMap<String, Sight>>>);

impl Sights {
    /// Remembers what was seen of the certificate `name`; what did not answer is forgotten.
    pub(crate) fn remember(&self, name: &str, seen: &[(String, Result<Sight, String>)]) {
        let answers = seen.iter().filter_map(|(address, sight)| Some((address.clone(), sight.clone().ok()?)));
        let answers: BTreeMap<String, Sight> = answers.collect();
        let mut sights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match answers.is_empty() {
            true => drop(sights.remove(name)),
            false => drop(sights.insert(name.to_owned(), answers)),
        }
    }

    /// What was seen last of the certificate `name`, whose fingerprint this is.
    pub(crate) fn shown(&self, name: &str, fingerprint: &str) -> Vec<Served> {
        let sights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = |(address, sight): (&String, &Sight)| Served {
            address: address.as_str().into(),
            is_current: sight.fingerprint == fingerprint,
            until: Duration::from_secs(sight.until),
        };
        sights.get(name).into_iter().flatten().map(shown).collect()
    }
}

/// Asks all addresses of a certificate at once.
pub(crate) async fn look(wish: &Wish) -> Vec<(String, Result<Sight, String>)> {
    join_all(wish.serve.iter().map(|address| async { (address.clone(), served(address, wish).await) })).await
}

/// What is served at `address` to who asks for the first name of the certificate.
async fn served(address: &str, wish: &Wish) -> Result<Sight, String> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    let name = wish.names.iter().map(|name| name.replacen('*', "www", 1)).next();
    let name =
        name.or_else(|| wish.addresses.first().map(ToString::to_string)).unwrap_or_else(|| host.into());
    let name = ServerName::try_from(name).map_err(|_| "no name to ask for".to_owned())?;
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Witness(provider)))
        .with_no_client_auth();
    let shake = async {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let leaf = shown.first().ok_or_else(|| "it shows no certificate".to_owned())?;
        let facts = x509::facts("what it shows", leaf).map_err(|error| error.message)?;
        let chain = x509::path(shown.iter().map(AsRef::as_ref));
        Ok(Sight { fingerprint: facts.fingerprint, until: facts.not_after, chain })
    };
    tokio::time::timeout(PATIENCE, shake).await.unwrap_or_else(|_| Err("no answer in time".into()))
}

/// Takes every certificate: which one is shown is what is asked, and nothing is told to who shows it. That the other side
/// has its key is checked all the same.
#[derive(Debug)]
struct Witness(Arc<CryptoProvider>);

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
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
