//! Answers in a TLS handshake (RFC 8737): a certificate that nobody but the authority asks for, by a protocol of its own.

use super::port::{self, Port};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use reconciled_provider::Error;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::PrivateKeyDer,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

/// The protocol of the challenge.
const PROTOCOL: &[u8] = b"acme-tls/1";
/// What to do where the port is taken.
const TAKEN: &str = "if another program has the port, give `listenTls` of the provider entry another one and let that \
                     program pass on connections with the protocol acme-tls/1";

/// Certificates by the name that is asked for.
#[derive(Debug, Default)]
struct Answers(Mutex<BTreeMap<String, Arc<CertifiedKey>>>);

impl ResolvesServerCert for Answers {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name()?.to_ascii_lowercase();
        let asks = hello.alpn().is_some_and(|mut protocols| protocols.any(|protocol| protocol == PROTOCOL));
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(&name).filter(|_| asks).cloned()
    }
}

/// What is answered, and the port while it is open.
#[derive(Debug, Default)]
pub(super) struct Responder {
    answers: Arc<Answers>,
    port: Port,
}

/// Answers that go away with this.
#[derive(Debug)]
pub(super) struct Served<'a> {
    responder: &'a Responder,
    names: Vec<String>,
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        let mut answers = self.responder.answers.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.names.iter().for_each(|name| drop(answers.remove(name)));
    }
}

impl Responder {
    /// Answers for these names (name → digest) as long as the result lives; none where one of them is answered for
    /// already: a name has one answer at a time.
    pub(super) fn serve(&self, wanted: &[(String, Vec<u8>)]) -> Result<Option<Served<'_>>, Error> {
        let mut made = BTreeMap::new();
        for (name, digest) in wanted {
            made.insert(asked_for(name), Arc::new(certificate(name, digest)?));
        }
        let mut answers = self.answers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if made.keys().any(|name| answers.contains_key(name)) {
            return Ok(None);
        }
        let served = Served { responder: self, names: made.keys().cloned().collect() };
        answers.extend(made);
        Ok(Some(served))
    }

    /// Opens the port, or shares it with those who have it open.
    pub(super) async fn open(&self, address: SocketAddr) -> Result<Arc<TcpListener>, Error> {
        self.port.open(address, "challenges in TLS", TAKEN).await
    }

    /// Does `work`, and answers meanwhile.
    pub(super) async fn during<T>(
        &self,
        listener: &TcpListener,
        work: impl Future<Output = T>,
    ) -> Result<T, Error> {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::unexpected(format!("prepare answers in TLS: {error}")))?;
        let mut config = config.with_no_client_auth().with_cert_resolver(self.answers.clone());
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let answer = |stream: TcpStream| {
            let handshake = acceptor.accept(stream);
            async { handshake.await?.shutdown().await }
        };
        Ok(port::during(listener, answer, work).await)
    }
}

/// The name an authority asks for: that of an address is the one its reverse zone has (RFC 8738 §6).
fn asked_for(name: &str) -> String {
    match name.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        Ok(IpAddr::V6(address)) => {
            let octets = address.octets();
            let digits = octets.iter().rev().map(|octet| format!("{:x}.{:x}.", octet & 15, octet >> 4));
            format!("{}ip6.arpa", digits.collect::<String>())
        }
        Err(_) => name.to_ascii_lowercase(),
    }
}

fn certificate(name: &str, digest: &[u8]) -> Result<CertifiedKey, Error> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::unexpected(format!("make the certificate that proves {name}: {error}"))
    };
    let pair = KeyPair::generate().map_err(|error| failed(&error))?;
    let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(|error| failed(&error))?;
    params.custom_extensions.push(CustomExtension::new_acme_identifier(digest));
    let made = params.self_signed(&pair).map_err(|error| failed(&error))?;
    let key = PrivateKeyDer::try_from(pair.serialize_der()).map_err(|error| failed(&error))?;
    let key = ring::sign::any_ecdsa_type(&key).map_err(|error| failed(&error))?;
    Ok(CertifiedKey::new(vec![made.der().clone()], key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_asked_for_by_its_reverse_name() {
        assert_eq!(asked_for("192.0.2.1"), "1.2.0.192.in-addr.arpa");
        let v6 = asked_for("2001:db8::1");
        assert!(v6.starts_with("1.0.0.0.") && v6.ends_with(".8.b.d.0.1.0.0.2.ip6.arpa"), "{v6}");
        assert_eq!(asked_for("A.example"), "a.example");
    }

    #[test]
    fn a_name_has_one_answer_at_a_time() {
        let responder = Responder::default();
        let wanted = |name: &str| vec![(name.to_owned(), vec![1; 32])];
        let first = responder.serve(&wanted("a.example")).unwrap();
        assert!(first.is_some() && responder.serve(&wanted("A.example")).unwrap().is_none());
        assert!(responder.serve(&wanted("b.example")).unwrap().is_some());
        drop(first);
        assert!(responder.serve(&wanted("a.example")).unwrap().is_some());
    }
}
