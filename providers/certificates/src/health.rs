//! How a certificate fares: served where it should be, and renewed in time.
//!
//! A renewal that nobody uses is the most frequent complaint about tools like this one. So what counts is what a service
//! shows: it is Degraded while an address in `serve` answers with another certificate than the one that is kept, and Unknown
//! while one does not answer: a service that waits for its certificate has to be able to start.

use crate::{
    Config,
    acme::{self, Acme},
    compare::moment,
    duration,
    kept::{Issued, Keep},
    renewal,
    wish::{Issue, Wish},
    x509,
};
use reconciled_provider::{Cx, Ending, Error, Fact, Health, ResourceId, Want};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use std::{sync::Arc, time::Duration};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How the certificate of a scope fares. Asks the authority when it would like it renewed, where it is time to.
pub(crate) async fn health(
    acme: &Acme,
    cx: &Cx,
    config: &Config,
    keep: &Keep,
    want: &Want<'_>,
) -> Result<Vec<(ResourceId, Health)>, Error> {
    let name = &*want.scope.name;
    let wish = want.desired.first().and_then(|desired| Wish::decode(desired.spec.bytes()?));
    let Some(wish) = wish else { return Ok(Vec::new()) };
    let known = keep.issued(name)?.and_then(|issued| issued.issuer);
    if let Issue::Acme(authority) = wish.issuer_of(known.as_deref()) {
        // An authority that does not answer is no reason to think ill of the certificate.
        let _ = acme::suggest(acme, cx, config, keep, name, authority).await;
    }
    let Some(issued) = keep.issued(name)? else { return Ok(Vec::new()) };
    let facts = issued.facts()?;
    let now = cx.clock.now().as_secs();
    let due = renewal::due_at(facts.not_before, facts.not_after, wish.renew, issued.suggested.as_ref());
    let (mut why, mut is_silent) = (Vec::new(), false);
    if now >= facts.not_after {
        why.push(format!("it is over since {}", moment(facts.not_after)));
    } else if now >= renewal::late_at(due, facts.not_after) {
        let left = duration::show(facts.not_after - now);
        why.push(format!("it should have been renewed at {}, and is over in {left}", moment(due)));
    }
    for address in &wish.serve {
        match served(address, &wish).await {
            Ok(fingerprint) if fingerprint == facts.fingerprint => {}
            Ok(_) => why.push(format!("{address} serves another certificate")),
            // Whoever serves it may be waiting for this certificate to be ready.
            Err(_) => is_silent = true,
        }
    }
    let health = match (why.is_empty(), is_silent) {
        (true, false) => Health::Healthy,
        (true, true) => Health::Unknown,
        (false, _) => Health::Degraded { why: why.join("; ") },
    };
    Ok(vec![(ResourceId::from(name), health)])
}

/// When the certificate ends that is in use.
pub(crate) fn ending(keep: &Keep, name: &str) -> Result<Option<Ending>, Error> {
    let Some(issued) = keep.issued(name)? else { return Ok(None) };
    let facts = issued.facts()?;
    let renew = issued.wish.renew;
    let due = renewal::due_at(facts.not_before, facts.not_after, renew, issued.suggested.as_ref());
    let (at, renewed_at) = (Duration::from_secs(facts.not_after), Duration::from_secs(due));
    Ok(Some(Ending { id: name.into(), at, renewed_at }))
}

/// What a person wants to know of a certificate.
pub(crate) fn facts(keep: &Keep, name: &str) -> Result<Vec<Fact>, Error> {
    let mut told = Vec::new();
    let mut tell = |name: &str, value: String| told.push(Fact { name: name.into(), value });
    if let Some(Issued { wish, suggested, chain, issuer, .. }) = keep.issued(name)? {
        for authority in wish.issuers().filter_map(Issue::authority) {
            let account = keep.account(&acme::account_id(authority))?;
            if let Some(change) = account.and_then(|account| account.change) {
                let (again, message) = (moment(change.again_at), change.message);
                tell("account key", format!("not changed, tried again at {again}: {message}"));
            }
        }
        let facts = x509::leaf("the certificate that is kept", &chain)?;
        let due = renewal::due_at(facts.not_before, facts.not_after, wish.renew, suggested.as_ref());
        tell("valid until", moment(facts.not_after));
        tell("renewed at", moment(due));
        let by = if facts.issuer.is_empty() { issuer.unwrap_or_default() } else { facts.issuer };
        tell("issued by", by);
        tell("fingerprint", facts.fingerprint);
        if let Some(explanation) = suggested.and_then(|suggested| suggested.explanation) {
            tell("why then", explanation);
        }
    }
    for keep in keep.issuers(name)? {
        for record in keep.lasting(name)? {
            tell("record to declare", record.to_string());
        }
        if let Some(attempt) = keep.attempt(name)? {
            tell("being issued", attempt.order.unwrap_or_else(|| "no order yet".into()));
        }
        if let Some(busy) = keep.busy(name)? {
            tell("left alone", format!("asked again at {}: {}", moment(busy.until), busy.message));
        }
        if let Some(outage) = keep.outage(name)? {
            tell("no answer", format!("since {}: {}", moment(outage.since), outage.message));
        }
        let refusals = keep.refusals(name)?;
        if refusals.count > 0 {
            let (count, until) = (refusals.count, moment(refusals.until));
            tell("refused", format!("{count} in a row, asked again at {until}: {}", refusals.message));
        }
    }
    Ok(told)
}

/// The fingerprint of what is served at `address` to who asks for the first name of the certificate.
async fn served(address: &str, wish: &Wish) -> Result<String, String> {
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
        let shown = stream.get_ref().1.peer_certificates().and_then(|all| all.first());
        shown.map(|der| x509::fingerprint(der)).ok_or_else(|| "it shows no certificate".to_owned())
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
