//! Providers from a folder, and from a registry in this process whose lists are signed by `gpg` itself.

mod https;

use super::{Address, Constraints, From, Pin, Program, Wanted, address::platform};
use reconciled_provider::{Answers, Error, ErrorKind, Listener};
use reconciled_testkit::ports::NOBODY;
use std::{
    collections::BTreeMap,
    fs,
    io::{Cursor, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use url::Url;
use zip::{ZipWriter, write::SimpleFileOptions};

const PROGRAM: &str = "terraform-provider-toy_v1.2.0";

/// A key of the tests: its public half, and where `gpg` keeps the other.
struct Signer {
    home: TempDir,
    public: String,
}

impl Signer {
    fn new() -> Signer {
        let home = tempfile::tempdir().unwrap();
        let mut signer = Signer { home, public: String::new() };
        let id = "Toy <toy@example.com>";
        signer.gpg(&["--passphrase", "", "--quick-gen-key", id, "ed25519", "sign", "never"], b"");
        signer.public = String::from_utf8(signer.gpg(&["--armor", "--export"], b"")).unwrap();
        signer
    }
    fn sign(&self, content: &[u8]) -> Vec<u8> {
        self.gpg(&["--detach-sign"], content)
    }
    fn gpg(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let mut child = Command::new("gpg")
            .args(["--batch", "--quiet", "--homedir"])
            .arg(self.home.path())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("gpg: tests/run installs it");
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}

/// `gpg` leaves an agent behind where it was used.
impl Drop for Signer {
    fn drop(&mut self) {
        let _ =
            Command::new("gpgconf").arg("--homedir").arg(self.home.path()).args(["--kill", "all"]).output();
    }
}

fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        writer.start_file(*name, SimpleFileOptions::default().unix_permissions(0o755)).unwrap();
        writer.write_all(content.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// What its archive for this machine is called.
fn name() -> String {
    let (os, arch) = platform();
    format!("terraform-provider-toy_1.2.0_{os}_{arch}.zip")
}

/// A registry: what it answers by path, and what it was asked.
struct Registry {
    url: Url,
    signer: Signer,
    pages: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    asked: Arc<Mutex<Vec<String>>>,
    serving: JoinSet<()>,
}

impl Registry {
    /// One that has version 1.2.0 of a provider for this machine, and 2.0.0 for others.
    async fn start() -> Registry {
        Registry::start_with(None).await
    }

    /// The same behind TLS, as `localhost`.
    async fn start_with(tls: Option<TlsAcceptor>) -> Registry {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let url = match &tls {
            Some(_) => format!("https://localhost:{}", address.port()),
            None => format!("http://{address}"),
        };
        let url = Url::parse(&url).unwrap();
        let (pages, asked) = <(Arc<Mutex<BTreeMap<String, Vec<u8>>>>, Arc<Mutex<Vec<String>>>)>::default();
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, tls, pages.clone(), asked.clone()));
        let registry = Registry { url, signer: Signer::new(), pages, asked, serving };
        let (os, arch) = platform();
        registry.put("/.well-known/terraform.json", br#"{"providers.v1": "/v1/providers/"}"#);
        let versions = format!(
            r#"{{"versions": [{{"version": "1.2.0", "platforms": [{{"os": "{os}", "arch": "{arch}"}}]}},
                {{"version": "2.0.0", "platforms": [{{"os": "plan9", "arch": "{arch}"}}]}}]}}"#
        );
        registry.put("/v1/providers/team/toy/versions", versions.as_bytes());
        registry.release(&archive(&[(PROGRAM, "#!/bin/sh\n"), ("LICENSE", "MPL")]), &registry.signer.public);
        registry
    }

    fn put(&self, path: &str, content: &[u8]) {
        self.pages.lock().unwrap().insert(path.into(), content.into());
    }

    /// Version 1.2.0, with a list of checksums that is signed.
    fn release(&self, archive: &[u8], key: &str) {
        let sum = super::sums::sha256(archive).unwrap();
        let list = format!("{sum}  {}\n{}  other.zip\n", name(), "0".repeat(64));
        self.put("/files/toy.zip", archive);
        self.put("/files/SUMS", list.as_bytes());
        self.put("/files/SUMS.sig", &self.signer.sign(list.as_bytes()));
        self.download(&sum, &[key]);
    }

    fn download(&self, sum: &str, keys: &[&str]) {
        self.offer(&name(), sum, keys);
    }

    fn offer(&self, name: &str, sum: &str, keys: &[&str]) {
        let (os, arch) = platform();
        let keys: Vec<_> = keys.iter().map(|key| serde_json::json!({ "ascii_armor": key })).collect();
        let answer = serde_json::json!({
            "filename": name, "download_url": "/files/toy.zip?token=secret", "shasum": sum,
            "shasums_url": "/files/SUMS", "shasums_signature_url": "/files/SUMS.sig",
            "signing_keys": { "gpg_public_keys": keys },
        });
        let path = format!("/v1/providers/team/toy/1.2.0/download/{os}/{arch}");
        self.put(&path, answer.to_string().as_bytes());
    }

    fn wanted(&self, folder: &Path, version: &str) -> Wanted {
        wanted(From::Registry(self.url.clone()), folder, version)
    }
}

async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    pages: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    asked: Arc<Mutex<Vec<String>>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        match &tls {
            None => answer(stream, &pages, &asked).await,
            Some(tls) => {
                if let Ok(stream) = tls.accept(stream).await {
                    answer(stream, &pages, &asked).await;
                }
            }
        }
    }
}

/// A page that begins with `-> ` leads elsewhere.
async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    pages: &Mutex<BTreeMap<String, Vec<u8>>>,
    asked: &Mutex<Vec<String>>,
) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { break };
        request.push(byte);
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let path = request.split(' ').nth(1).unwrap_or("/").split('?').next().unwrap_or("/").to_string();
    let page = pages.lock().unwrap().get(&path).cloned();
    asked.lock().unwrap().push(path);
    let (status, body) = match page {
        None => ("404 Not Found".to_string(), Vec::new()),
        Some(page) => match page.strip_prefix(b"-> ") {
            Some(place) => (format!("302 Found\r\nLocation: {}", String::from_utf8_lossy(place)), Vec::new()),
            None => ("200 OK".to_string(), page),
        },
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(&body).await;
    let _ = stream.shutdown().await;
}

fn wanted(from: From, folder: &Path, version: &str) -> Wanted {
    Wanted {
        address: Address::parse("example.com/team/toy").unwrap(),
        version: Constraints::parse(version).unwrap(),
        hashes: Vec::new(),
        from,
        folder: folder.join("providers"),
    }
}

async fn find(wanted: &Wanted) -> Result<PathBuf, Error> {
    heard(wanted, &Answers::default()).await
}

async fn heard(wanted: &Wanted, answers: &Answers) -> Result<PathBuf, Error> {
    let found = Program::Wanted(Box::new(wanted.clone())).find(answers).await?;
    let opened = found.check().await?;
    // What was installed is run as it was read.
    assert!(opened.is_some() || !found.program.starts_with(&wanted.folder));
    Ok(found.program)
}

/// What requests came to.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Option<u16>>>>);

impl Listener for Heard {
    fn answered(&self, status: Option<u16>) {
        self.0.lock().unwrap().push(status);
    }
}

/// The files below a folder that can be run.
fn programs(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type().unwrap().is_dir() {
            true => programs(&entry.path()),
            false => usize::from(entry.metadata().unwrap().permissions().mode() & 0o111 != 0),
        })
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_is_installed_once_and_found_without_its_server() {
    let world = tempfile::tempdir().unwrap();
    let mut registry = Registry::start().await;
    let wanted = registry.wanted(world.path(), "~> 1.0");
    let program = find(&wanted).await.unwrap();
    let (os, arch) = platform();
    let folder = world.path().join(format!("providers/example.com/team/toy/1.2.0/{os}_{arch}"));
    assert_eq!(program, folder.join(PROGRAM));
    assert_eq!(fs::read_to_string(folder.join("LICENSE")).unwrap(), "MPL");
    let mode = fs::metadata(world.path().join("providers")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let left = fs::read_dir(world.path().join("providers")).unwrap().count();
    assert_eq!(left, 1, "nothing of the installation is left beside it");

    let asked = registry.asked.lock().unwrap().len();
    assert_eq!(find(&wanted).await.unwrap(), program);
    assert_eq!(registry.asked.lock().unwrap().len(), asked, "nobody is asked for what is there");
    registry.serving.shutdown().await;
    assert_eq!(find(&wanted).await.unwrap(), program);
    // Another version is not there, and nobody to be asked for it.
    registry.url.set_port(Some(NOBODY)).unwrap();
    let error = find(&registry.wanted(world.path(), "~> 2.0")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("cannot be reached"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_to_a_registry_is_counted() {
    let world = tempfile::tempdir().unwrap();
    let mut registry = Registry::start().await;
    let wanted = registry.wanted(world.path(), "~> 1.0");
    let all = Heard::default();
    let answers = Answers::of(all.clone());
    let told = || std::mem::take(&mut *all.0.lock().unwrap());
    heard(&wanted, &answers).await.unwrap();
    let asked = registry.asked.lock().unwrap().len();
    assert_eq!(told(), vec![Some(200); asked]);
    // What is there already is nobody's answer.
    heard(&wanted, &answers).await.unwrap();
    assert_eq!(told(), []);
    registry.serving.shutdown().await;
    heard(&registry.wanted(world.path(), "~> 2.0"), &answers).await.unwrap_err();
    assert_eq!(told(), [None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_registry_should_not_give_is_refused_and_nothing_is_installed() {
    let registry = Registry::start().await;
    let check = async |part: &str| {
        let world = tempfile::tempdir().unwrap();
        let error = find(&registry.wanted(world.path(), "1.2.0")).await.unwrap_err();
        assert!(error.to_string().contains(part), "{part}: {error}");
        assert!(!error.to_string().contains("token=secret"), "{error}");
        assert_eq!(programs(world.path()), 0, "{part}");
    };
    let good = archive(&[(PROGRAM, "#!/bin/sh\n")]);
    let key = &*registry.signer.public;
    let sum = super::sums::sha256(&good[..]).unwrap();

    registry.release(&good, key);
    registry.put("/files/toy.zip", &archive(&[(PROGRAM, "#!/bin/evil\n")]));
    check(&format!("{} has another checksum than was signed", name())).await;
    registry.put("/files/toy.zip", &good[..good.len() - 7]);
    check(&format!("{} has another checksum than was signed", name())).await;

    registry.release(&good, key);
    registry.put("/files/SUMS", format!("{sum}  {}\n", name()).as_bytes());
    check("none of the keys that the registry names for it signed this").await;
    registry.put("/files/SUMS.sig", b"no signature");
    check("the signature cannot be read").await;

    registry.release(&good, key);
    registry.download(&sum, &[&Signer::new().public]);
    check("none of the keys that the registry names for it signed this").await;
    registry.download(&sum, &[]);
    check("names no key that signs it").await;
    registry.download(&"1".repeat(64), &[key]);
    check(&format!("another checksum of {} than was signed", name())).await;

    // Signed, and another one: an older version, say.
    let older = name().replace("1.2.0", "1.1.0");
    registry.put("/files/SUMS", format!("{sum}  {older}\n").as_bytes());
    registry.put("/files/SUMS.sig", &registry.signer.sign(format!("{sum}  {older}\n").as_bytes()));
    registry.download(&sum, &[key]);
    check("is not on its list of checksums").await;
    registry.offer(&older, &sum, &[key]);
    check(&format!("offers `{older}` as {}", name())).await;

    registry.release(&good[..good.len() / 2], key);
    check("the archive cannot be unpacked").await;
    registry.release(&archive(&[(PROGRAM, ""), ("../../../out", "")]), key);
    check("a file whose name leads out of it").await;
    registry.release(&archive(&[("terraform-provider-other", "")]), key);
    check("there is no program terraform-provider-toy*").await;

    registry.put("/.well-known/terraform.json", br#"{"modules.v1": "/"}"#);
    check("has no providers").await;
    registry.put("/.well-known/terraform.json", b"<html>");
    check("is no answer of a registry").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_not_for_this_machine_is_told_apart_from_one_that_is_not() {
    let (registry, world) = (Registry::start().await, tempfile::tempdir().unwrap());
    for (version, part) in [("2.0.0", "for other machines than"), ("~> 3.0", "has no provider")] {
        let error = find(&registry.wanted(world.path(), version)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains(part), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_artefact_without_a_configured_checksum_is_refused() {
    let (registry, world) = (Registry::start().await, tempfile::tempdir().unwrap());
    let content = archive(&[(PROGRAM, "#!/bin/sh\n")]);
    registry.release(&content, &registry.signer.public);
    let wanted = registry.wanted(world.path(), "");
    let pinned = |text: &str| Wanted { hashes: vec![Pin::parse(text).unwrap()], ..wanted.clone() };
    let sum = super::sums::sha256(&content[..]).unwrap();
    let zeros = format!("zh:{}", "0".repeat(64));
    let error = find(&pinned(&zeros)).await.unwrap_err();
    assert!(error.message.contains("none of the checksums in `hashes`: it is h1:"), "{error}");
    let program = find(&pinned(&format!("zh:{sum}"))).await.unwrap();
    // With a checksum of the files too, and then nobody has to sign.
    let h1 = super::sums::Sums::of_folder(program.parent().unwrap()).unwrap().h1;
    assert!(find(&pinned(&h1)).await.is_ok());
    fs::remove_dir_all(world.path().join("providers")).unwrap();
    registry.download(&sum, &[]);
    assert!(find(&pinned(&h1)).await.is_ok());
    // What is there has another checksum than is asked for now.
    assert!(find(&pinned(&zeros)).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_after_it_was_installed_is_not_run() {
    let (registry, world) = (Registry::start().await, tempfile::tempdir().unwrap());
    let wanted = registry.wanted(world.path(), "");
    let program = find(&wanted).await.unwrap();
    fs::write(&program, "#!/bin/evil\n").unwrap();
    let error = find(&wanted).await.unwrap_err();
    assert!(error.message.ends_with("was changed after the provider was installed"), "{error}");
    // As the hint says.
    fs::remove_dir_all(program.parent().unwrap()).unwrap();
    assert_eq!(find(&wanted).await.unwrap(), program);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_has_providers_in_both_layouts() {
    let world = tempfile::tempdir().unwrap();
    let (os, arch) = platform();
    let mirror = world.path().join("mirror");
    let folder = mirror.join("example.com/team/toy");
    let wanted = wanted(From::Mirror(mirror.clone()), world.path(), "");
    let error = find(&wanted).await.unwrap_err();
    assert!(error.message.starts_with("there is no mirror "), "{error}");
    fs::create_dir_all(mirror.join("registry.example/team/toy")).unwrap();
    let error = find(&wanted).await.unwrap_err();
    assert!(error.message.contains("has no provider example.com/team/toy (any version)"), "{error}");
    assert!(error.hint.as_ref().unwrap().contains("source: registry.example/team/toy"));

    let unpacked = folder.join(format!("1.0.0/{os}_{arch}"));
    fs::create_dir_all(&unpacked).unwrap();
    let own = unpacked.join("terraform-provider-toy");
    fs::write(&own, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(find(&wanted).await.unwrap(), own);
    assert!(!wanted.folder.exists(), "what is unpacked is used where it is");
    let pin = Pin::parse(&format!("zh:{}", "0".repeat(64))).unwrap();
    let error = find(&Wanted { hashes: vec![pin], ..wanted.clone() }).await.unwrap_err();
    assert!(error.message.contains("none of the checksums"), "{error}");

    let packed = folder.join(format!("terraform-provider-toy_1.2.0_{os}_{arch}.zip"));
    fs::write(&packed, archive(&[(PROGRAM, "#!/bin/sh\n")])).unwrap();
    let program = find(&wanted).await.unwrap();
    assert!(program.starts_with(&wanted.folder) && program.ends_with(PROGRAM));
    // The same version with another content: the folder is what counts.
    fs::write(&packed, archive(&[(PROGRAM, "#!/bin/sh\nexit\n")])).unwrap();
    assert_eq!(find(&wanted).await.unwrap(), program);
    assert_eq!(fs::read_to_string(&program).unwrap(), "#!/bin/sh\nexit\n");
}
