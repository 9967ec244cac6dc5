//! Repositories and servers for the tests of this module.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use git2::{ObjectType, Oid as GitOid, Repository, Signature};
use tempfile::TempDir;

use super::*;

/// Sets libgit2's process-wide options with a directory that outlives every test.
pub(super) fn init_process() {
    static STATE: OnceLock<PathBuf> = OnceLock::new();
    let state = STATE.get_or_init(|| tempfile::tempdir().unwrap().keep());
    init(state).unwrap();
}

/// A repository somebody pushes to.
pub(super) struct Upstream {
    directory: TempDir,
    pub(super) repository: Repository,
}

/// `(octal mode, name, object)`, as Git stores an entry of a tree.
pub(super) type RawEntry<'a> = (&'a str, &'a [u8], GitOid);

impl Upstream {
    pub(super) fn new() -> Self {
        init_process();
        let directory = tempfile::tempdir().unwrap();
        let repository = Repository::init_bare(directory.path().join("infra.git")).unwrap();
        Self { directory, repository }
    }

    /// Commits these files, and no others, on top of a branch.
    pub(super) fn commit(&self, branch: &str, files: &[(&str, &str)]) -> Oid {
        self.commit_tree(branch, self.tree(files))
    }

    pub(super) fn commit_tree(&self, branch: &str, tree: GitOid) -> Oid {
        let parent = self.repository.refname_to_id(&format!("refs/heads/{branch}")).ok();
        self.commit_on(branch, tree, parent)
    }

    /// Commits on top of `parent` and moves the branch there, wherever it was.
    pub(super) fn commit_on(&self, branch: &str, tree: GitOid, parent: Option<GitOid>) -> Oid {
        let time = git2::Time::new(1_700_000_000, 0);
        let author = Signature::new("A U Thor", "author@example.com", &time).unwrap();
        let tree = self.repository.find_tree(tree).unwrap();
        let parents: Vec<_> =
            parent.map(|oid| self.repository.find_commit(oid).unwrap()).into_iter().collect();
        let parents: Vec<_> = parents.iter().collect();
        let message = "zones: add www\n\nBecause.\n";
        let commit = self.repository.commit(None, &author, &author, message, &tree, &parents).unwrap();
        self.repository.reference(&format!("refs/heads/{branch}"), commit, true, "test").unwrap();
        commit.into()
    }

    pub(super) fn tag(&self, name: &str, commit: Oid) {
        let target = self.repository.find_object(commit.into(), None).unwrap();
        let tagger = Signature::now("A U Thor", "author@example.com").unwrap();
        self.repository.tag(name, &target, &tagger, name, false).unwrap();
    }

    pub(super) fn blob(&self, content: &[u8]) -> GitOid {
        self.repository.blob(content).unwrap()
    }

    /// Writes a tree without the checks libgit2 would make.
    pub(super) fn raw_tree(&self, entries: &[RawEntry<'_>]) -> GitOid {
        let mut entries = entries.to_vec();
        entries.sort_by_key(|(mode, name, _)| [name, &b"/"[usize::from(*mode != "40000")..]].concat());
        let mut bytes = Vec::new();
        for (mode, name, oid) in entries {
            bytes.extend([mode.as_bytes(), b" ", name, b"\0", oid.as_bytes()].concat());
        }
        self.repository.odb().unwrap().write(ObjectType::Tree, &bytes).unwrap()
    }

    pub(super) fn tree(&self, files: &[(&str, &str)]) -> GitOid {
        let mut directories: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
        let mut entries = Vec::new();
        for (path, content) in files {
            match path.split_once('/') {
                Some((directory, rest)) => directories.entry(directory).or_default().push((rest, content)),
                None => entries.push(("100644", path.as_bytes(), self.blob(content.as_bytes()))),
            }
        }
        for (name, files) in &directories {
            entries.push(("40000", name.as_bytes(), self.tree(files)));
        }
        self.raw_tree(&entries)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join("infra.git")
    }

    pub(super) fn url(&self) -> String {
        self.path().to_str().unwrap().to_owned()
    }
}

/// A state directory and what is mirrored into it.
pub(super) struct Host {
    pub(super) state: TempDir,
}

impl Host {
    pub(super) fn new() -> Self {
        init_process();
        Self { state: tempfile::tempdir().unwrap() }
    }

    pub(super) fn spec(&self, urls: &[&str]) -> RemoteSpec {
        let urls = urls.iter().map(|url| RemoteUrl::parse(url).unwrap()).collect();
        RemoteSpec::new("infra", urls, Reference::Branch("main".into()))
    }

    pub(super) fn open(&self, spec: RemoteSpec) -> Mirror {
        Mirror::open(self.state.path(), spec).unwrap()
    }

    /// Opens the mirror of `url` that follows `main`.
    pub(super) fn mirror(&self, url: &str) -> Mirror {
        self.open(self.spec(&[url]))
    }
}

/// All a person or a log would see of an error.
pub(super) fn everything_said(error: &SourceError) -> String {
    let mut said = format!("{error}\n{error:?}\n{}", error.hint());
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        said.push_str(&format!("\n{error}\n{error:?}"));
        cause = error.source();
    }
    said
}

/// Serves connections of one listener until the test ends.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    /// What each connection sent first, up to the end of an HTTP head.
    pub(super) requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers every HTTP request with `answer` and closes.
    pub(super) fn http(answer: impl Fn(&str) -> String + Send + 'static) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let address = listen(move |mut stream| {
            let request = read_head(&mut stream);
            let answer = answer(&request);
            seen.lock().unwrap().push(request);
            // The peer may have left.
            let _ = stream.write_all(answer.as_bytes());
        });
        Self { address, requests }
    }

    /// Answers 404 over TLS, with a certificate for `name` that signs itself; returns it as PEM too.
    pub(super) fn https(name: &str) -> (Self, String) {
        Self::tls(name, |_, _| {
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec()
        })
    }

    /// The same of the repositories in `folder`, which Git itself serves to who shows `login`, `USER:PASSWORD`.
    pub(super) fn git(name: &str, folder: &Path, login: &str) -> (Self, String) {
        let shown = format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode(login));
        let folder = folder.to_owned();
        Self::tls(name, move |head, body| match head.contains(&shown) {
            true => backend(&folder, head, body),
            false => {
                b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"git\"\r\nContent-Length: 0\r\n\
                       Connection: close\r\n\r\n"
                    .to_vec()
            }
        })
    }

    /// Answers every request, head and body, over TLS and closes.
    fn tls(name: &str, answer: impl Fn(&str, &[u8]) -> Vec<u8> + Send + 'static) -> (Self, String) {
        let certified = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::Pkcs8(certified.key_pair.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let address = listen(move |mut stream| {
            let mut session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut tls = rustls::Stream::new(&mut session, &mut stream);
            let request = read_head(&mut tls);
            if !request.is_empty() {
                let length = field(&request, "content-length").and_then(|length| length.parse().ok());
                let mut body = vec![0; length.unwrap_or(0)];
                tls.read_exact(&mut body).unwrap();
                let answer = answer(&request, &body);
                seen.lock().unwrap().push(request);
                // The peer may have left.
                let _ = tls.write_all(&answer).and_then(|()| tls.flush());
            }
        });
        (Self { address, requests }, certified.cert.pem())
    }
}

/// A field of an HTTP head.
fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// Asks `git http-backend`, as a web server does (CGI, RFC 3875).
fn backend(folder: &Path, head: &str, body: &[u8]) -> Vec<u8> {
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", folder)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", method)
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", field(head, "content-type").unwrap_or_default())
        .env("CONTENT_LENGTH", body.len().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the tests need git");
    child.stdin.take().unwrap().write_all(body).unwrap();
    let output = child.wait_with_output().unwrap().stdout;
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer") + 4;
    let (fields, content) = output.split_at(end);
    let fields = String::from_utf8_lossy(fields);
    let status = field(&fields, "status").unwrap_or("200 OK");
    let length = content.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{fields}");
    [head.as_bytes(), content].concat()
}

fn listen(serve: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            serve(stream.unwrap());
        }
    });
    address
}

fn read_head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1..) => head.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// A real sshd, one process for each connection, for the user that runs the test.
pub(super) struct Sshd {
    directory: TempDir,
    pub(super) address: SocketAddr,
    user: String,
}

impl Sshd {
    pub(super) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        ssh_keygen(&["-t", "ed25519", "-N", "", "-f", &at("host_ed25519")]);
        ssh_keygen(&["-t", "ecdsa", "-N", "", "-f", &at("host_ecdsa")]);
        ssh_keygen(&["-t", "ed25519", "-N", "", "-f", &at("client")]);
        ssh_keygen(&["-t", "ed25519", "-N", "open sesame", "-f", &at("locked")]);
        ssh_keygen(&["-t", "ed25519", "-N", "", "-f", &at("stranger")]);
        let authorized = ["client.pub", "locked.pub"].map(|name| std::fs::read_to_string(at(name)).unwrap());
        std::fs::write(at("authorized_keys"), authorized.concat()).unwrap();
        let config = format!(
            "HostKey {}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nPidFile none\nLogLevel ERROR\n",
            at("host_ed25519"),
            at("host_ecdsa"),
            at("authorized_keys")
        );
        std::fs::write(at("sshd_config"), config).unwrap();
        // sshd insists on it when it runs as root; elsewhere it neither needs nor can have it.
        let _ = std::fs::create_dir_all("/run/sshd");
        let config = at("sshd_config");
        let address = listen(move |stream| {
            let input = std::os::fd::OwnedFd::from(stream);
            let output = input.try_clone().unwrap();
            let child = Command::new("/usr/sbin/sshd")
                .args(["-i", "-e", "-f", &config])
                .stdin(Stdio::from(input))
                .stdout(Stdio::from(output))
                .stderr(Stdio::null())
                .spawn()
                .expect("the tests need /usr/sbin/sshd (Debian: openssh-server)");
            std::thread::spawn(move || child.wait_with_output());
        });
        let user = Command::new("id").arg("-un").output().unwrap().stdout;
        Self { directory, address, user: String::from_utf8(user).unwrap().trim().to_owned() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn url(&self, repository: &Path) -> String {
        format!("ssh://{}@{}{}", self.user, self.address, repository.display())
    }

    /// Writes a `known_hosts` file with these public keys.
    pub(super) fn known_hosts(&self, keys: &[&str]) -> PathBuf {
        let mut text = String::new();
        for key in keys {
            let key = std::fs::read_to_string(self.path(key)).unwrap();
            text.push_str(&format!("[127.0.0.1]:{} {key}", self.address.port()));
        }
        let path = self.path("known_hosts");
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(super) fn key(&self, name: &str) -> Option<SshKey> {
        Some(SshKey::File { path: self.path(name), passphrase: None })
    }
}

fn ssh_keygen(args: &[&str]) {
    let made = Command::new("ssh-keygen").arg("-q").args(args).status();
    assert!(made.expect("the tests need ssh-keygen (Debian: openssh-client)").success());
}
