//! Installing from a server that speaks the provider registry protocol: discovery, versions, download, `SHA256SUMS` and
//! its signature.
//!
//! *Guarantees*: no archive is unpacked before its checksum is that of a list that one of the keys signed which the
//! registry names for the provider, and the list has it under the name of this provider, version and machine: what was signed
//! as something else is refused. A provider without keys needs a checksum in the host configuration. Over https, no answer
//! leads to plain http; plain http is for this machine alone, or for checksums that are configured.

use super::{
    address::platform,
    found::{Found, blocking},
    installed, signature,
    sums::listed,
    wanted::Wanted,
};
use data_encoding::HEXLOWER;
use reconciled_provider::{Answers, Error};
use reqwest::{Client, Response, StatusCode};
use ring::digest::{Context, SHA256};
use semver::Version;
use serde::{Deserialize, de::DeserializeOwned};
use std::{path::Path, time::Duration};
use tokio::io::AsyncWriteExt;
use url::Url;

/// How long a server may say nothing.
const SILENCE: Duration = Duration::from_secs(30);
/// As large may an answer be: the versions of a provider with a thousand of them have less than one.
const LARGEST_ANSWER: usize = 16 << 20;
/// As large may an archive be.
const LARGEST_ARCHIVE: u64 = 1 << 30;

#[derive(Deserialize)]
struct Services {
    #[serde(rename = "providers.v1")]
    providers: Option<String>,
}

#[derive(Deserialize)]
struct Versions {
    versions: Option<Vec<Offered>>,
}

#[derive(Deserialize)]
struct Offered {
    version: String,
    #[serde(default)]
    platforms: Vec<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    os: String,
    arch: String,
}

#[derive(Deserialize)]
struct Download {
    filename: String,
    download_url: String,
    shasum: String,
    shasums_url: Option<String>,
    shasums_signature_url: Option<String>,
    #[serde(default)]
    signing_keys: Keys,
}

#[derive(Default, Deserialize)]
struct Keys {
    #[serde(default)]
    gpg_public_keys: Vec<Key>,
}

#[derive(Deserialize)]
struct Key {
    ascii_armor: String,
}

struct Registry<'a> {
    http: Client,
    wanted: &'a Wanted,
    host: &'a str,
    answers: &'a Answers,
}

/// Installs the newest version that will do.
pub(super) async fn install(wanted: &Wanted, url: &Url, answers: &Answers) -> Result<Found, Error> {
    let registry = Registry::new(wanted, url, answers)?;
    let services: Services = registry.ask(&registry.join(url, "/.well-known/terraform.json")?).await?;
    let base =
        services.providers.ok_or_else(|| wanted.refused(&format!("{} has no providers", registry.host)))?;
    // So that what is joined is below it.
    let base = registry.join(url, &format!("{}/", base.trim_end_matches('/')))?;
    let version = registry.newest(&base).await?;
    let (os, arch) = platform();
    let of = format!("{}/{}", wanted.address.namespace, wanted.address.name);
    let at = registry.join(&base, &format!("{of}/{version}/download/{os}/{arch}"))?;
    let download: Download = registry.ask(&at).await?;
    // Keys sign all that their owner makes: an older version, or another provider, is signed as well.
    let expected = format!("{}_{version}_{os}_{arch}.zip", wanted.address.prefix());
    if download.filename != expected {
        let why = format!("{} offers `{}` as {expected}", registry.host, download.filename.escape_debug());
        return Err(wanted.refused(&why).hint("the server is not what it should be, or is wrong"));
    }
    registry.vouched(&at, &download).await?;
    let scratch = installed::prepare(wanted)?;
    let archive = scratch.path().join("archive.zip");
    let sum = registry.load(&registry.join(&at, &download.download_url)?, &archive).await?;
    if !sum.eq_ignore_ascii_case(&download.shasum) {
        let why = format!("{} has another checksum than was signed", download.filename);
        return Err(wanted
            .refused(&why)
            .hint("it was changed on its way, or the server is not what it should be"));
    }
    let wanted = wanted.clone();
    blocking(move || installed::put(&wanted, &version, (&archive, &sum), &scratch, None)).await
}

impl<'a> Registry<'a> {
    fn new(wanted: &'a Wanted, url: &'a Url, answers: &'a Answers) -> Result<Registry<'a>, Error> {
        // An error says that one is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let is_plain = url.scheme() == "http";
        let mut builder = Client::builder()
            .user_agent(concat!("reconciled/", env!("CARGO_PKG_VERSION")))
            .https_only(!is_plain)
            .connect_timeout(Duration::from_secs(10))
            .read_timeout(SILENCE);
        if is_plain {
            // Plain HTTP is for this machine and its neighbours: no proxy, no certificate store in memory.
            builder = builder.tls_certs_only([]).no_proxy();
        }
        let http = builder.build().map_err(|error| wanted.failed("prepare calls").caused_by(error))?;
        Ok(Registry { http, wanted, host: url.host_str().unwrap_or_default(), answers })
    }

    fn join(&self, to: &Url, path: &str) -> Result<Url, Error> {
        to.join(path).map_err(|_| self.wanted.refused(&format!("`{}` is no address", path.escape_debug())))
    }

    async fn newest(&self, base: &Url) -> Result<Version, Error> {
        let of = format!("{}/{}", self.wanted.address.namespace, self.wanted.address.name);
        let answer: Versions = self.ask(&self.join(base, &format!("{of}/versions"))?).await?;
        let (os, arch) = platform();
        let parsed = answer.versions.unwrap_or_default().into_iter().filter_map(|offered| {
            let is_ours = offered.platforms.iter().any(|one| one.os == os && one.arch == arch);
            Some((Version::parse(&offered.version).ok()?, is_ours))
        });
        let (ours, elsewhere): (Vec<_>, Vec<_>) = parsed.partition(|(_, is_ours)| *is_ours);
        match self.wanted.version.newest(ours) {
            Some((version, _)) => Ok(version),
            None => Err(self.wanted.none(self.host, self.wanted.version.newest(elsewhere).is_some())),
        }
    }

    /// Errors: `Invalid` unless the checksum of the archive was signed, or checksums are configured where nobody signs.
    async fn vouched(&self, at: &Url, download: &Download) -> Result<(), Error> {
        let keys: Vec<String> =
            download.signing_keys.gpg_public_keys.iter().map(|key| key.ascii_armor.clone()).collect();
        if keys.is_empty() {
            if !self.wanted.hashes.is_empty() {
                return Ok(());
            }
            let error = self.wanted.refused(&format!("{} names no key that signs it", self.host));
            return Err(error.hint("write its checksum in `hashes` of the entry, if you know it to be good"));
        }
        let missing = || self.wanted.refused(&format!("{} names no signed list of checksums", self.host));
        let sums = self.join(at, download.shasums_url.as_deref().ok_or_else(missing)?)?;
        let signed = self.join(at, download.shasums_signature_url.as_deref().ok_or_else(missing)?)?;
        let list = self.read(&sums).await?;
        let signed = self.read(&signed).await?;
        signature::verify(&keys, &list, &signed).map_err(|why| {
            self.wanted.refused(&format!("its list of checksums: {why}")).hint("nothing of it was unpacked")
        })?;
        let list = String::from_utf8_lossy(&list);
        match listed(&list, &download.filename) {
            Some(sum) if sum.eq_ignore_ascii_case(&download.shasum) => Ok(()),
            Some(_) => Err(self.wanted.refused(&format!(
                "{} names another checksum of {} than was signed",
                self.host, download.filename
            ))),
            None => {
                Err(self.wanted.refused(&format!("{} is not on its list of checksums", download.filename)))
            }
        }
    }

    async fn ask<T: DeserializeOwned>(&self, url: &Url) -> Result<T, Error> {
        let bytes = self.read(url).await?;
        serde_json::from_slice(&bytes).map_err(|error| {
            self.wanted.failed(&format!("{} is no answer of a registry", shown(url))).caused_by(error)
        })
    }

    async fn read(&self, url: &Url) -> Result<Vec<u8>, Error> {
        let mut response = self.get(url).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.lost(url, &error))? {
            if bytes.len() + chunk.len() > LARGEST_ANSWER {
                return Err(self.wanted.refused(&format!("{} is larger than it can be", shown(url))));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// Writes what is at `url` into a file. Returns its checksum.
    async fn load(&self, url: &Url, into: &Path) -> Result<String, Error> {
        let unwritten = |error: std::io::Error| self.wanted.failed("write its archive").caused_by(error);
        let mut response = self.get(url).await?;
        let mut file = tokio::fs::File::create(into).await.map_err(unwritten)?;
        let (mut context, mut length) = (Context::new(&SHA256), 0);
        while let Some(chunk) = response.chunk().await.map_err(|error| self.lost(url, &error))? {
            length += chunk.len() as u64;
            if length > LARGEST_ARCHIVE {
                return Err(self.wanted.refused("its archive is larger than any provider's"));
            }
            context.update(&chunk);
            file.write_all(&chunk).await.map_err(unwritten)?;
        }
        file.flush().await.map_err(unwritten)?;
        Ok(HEXLOWER.encode(context.finish().as_ref()))
    }

    async fn get(&self, url: &Url) -> Result<Response, Error> {
        let sent = self.http.get(url.clone()).send().await;
        self.answers.answered(sent.as_ref().ok().map(|response| response.status().as_u16()));
        let response = sent.map_err(|error| self.lost(url, &error))?;
        let text = format!("{} answered {}", shown(url), response.status());
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::NOT_FOUND => {
                Err(self.wanted.refused(&text).hint("correct `source` or `version` of the entry"))
            }
            StatusCode::TOO_MANY_REQUESTS => {
                Err(Error::rate_limited(text).retry_after(Duration::from_secs(60)))
            }
            _ => Err(self.wanted.failed(&text)),
        }
    }

    fn lost(&self, url: &Url, error: &reqwest::Error) -> Error {
        let why = match () {
            () if error.is_timeout() => "gave no answer in time",
            () if error.is_connect() => "cannot be reached",
            () if error.is_redirect() => "leads elsewhere without end, or where it must not",
            () => "broke off",
        };
        let hint = "where this machine reaches no registry: `mirror` of the entry, or `path`";
        // The first cause of all: the others have addresses in them, whose queries give access.
        let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
        while let Some(deeper) = cause.and_then(std::error::Error::source) {
            cause = Some(deeper);
        }
        let because = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
        self.wanted.failed(&format!("{} {why}{because}", shown(url))).hint(hint)
    }
}

/// What follows a `?` may be a signature that gives access.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url.to_string()
}
