//! One operator's desk: a configuration, a repository with its remote, a state, and what is run there.

use crate::pdns::{Pdns, Rrsets};
use reconciled_testkit::PATIENCE;
pub(crate) use reconciled_testkit::tools::left_out;
use std::{
    fs,
    os::unix::{fs::MetadataExt, process::ExitStatusExt},
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

/// What an invocation left behind.
#[derive(Debug)]
pub(crate) struct Output {
    /// Exit code; none when a signal ended it.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    /// Both streams, for messages and for looking into.
    pub(crate) fn all(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
    /// The exit code is this one.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Output {
        assert_eq!(self.code, Some(code), "{}", self.all());
        self
    }
    /// Every one of these words was said, on either stream.
    #[track_caller]
    pub(crate) fn says(self, words: &[&str]) -> Output {
        let all = self.all();
        for word in words {
            assert!(all.contains(word), "`{word}` is missing in:\n{all}");
        }
        self
    }
    /// None of these words was said.
    #[track_caller]
    pub(crate) fn hides(self, words: &[&str]) -> Output {
        let all = self.all();
        for word in words {
            assert!(!all.contains(word), "`{word}` is said in:\n{all}");
        }
        self
    }
}

/// The desk.
pub(crate) struct Env {
    pub(crate) dir: tempfile::TempDir,
}

impl Env {
    /// A desk with an empty repository and no configuration.
    pub(crate) fn new() -> Env {
        Env::at(tempfile::tempdir().unwrap())
    }
    /// The same where nobody else may write, not even into a directory above it.
    pub(crate) fn trusted() -> Env {
        Env::at(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }
    fn at(dir: tempfile::TempDir) -> Env {
        let env = Env { dir };
        env.git_in(".", &["init", "-q", "--bare", "-b", "main", "repo.git"]);
        env.git_in(".", &["init", "-q", "-b", "main", "work"]);
        env.git(&["remote", "add", "origin", "../repo.git"]);
        env
    }
    /// A desk that manages `server` under the entry `pdns`, its guard out of the way.
    pub(crate) fn pdns(server: &Pdns) -> Env {
        let env = Env::new();
        env.write("key", &server.key);
        env.config(&env.pdns_entry(&server.url, WIDE_GUARD));
        env
    }
    /// A desk that manages zone files under the entry `zones`, its guard out of the way.
    pub(crate) fn zonefile() -> Env {
        let env = Env::new();
        fs::create_dir(env.path("zones")).unwrap();
        let directory = env.path("zones");
        env.config(&format!("  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.], {WIDE_GUARD}}}", directory.display()));
        env
    }
    /// A desk that manages the files of a machine in `machine/` under the entry `host`, its guard out of the way.
    pub(crate) fn host(config: &str) -> Env {
        let env = Env::new();
        fs::create_dir_all(env.path("machine/etc")).unwrap();
        env.host_config(config);
        env
    }
    /// Writes the configuration of such a desk; `config` are further keys of the file.
    pub(crate) fn host_config(&self, config: &str) {
        let root = self.path("machine");
        self.config(&format!(
            "  - {{name: host, type: host, root: {}, paths: [/etc], {WIDE_GUARD}}}\n{config}",
            root.display()
        ));
    }
    /// A PowerDNS entry at `url` with further `keys`.
    pub(crate) fn pdns_entry(&self, url: &str, keys: &str) -> String {
        let comma = if keys.is_empty() { "" } else { ", " };
        let key = self.path("key");
        format!(
            "  - {{name: pdns, type: powerdns, url: \"{url}\", apiKey: {{file: {}}}{comma}{keys}}}",
            key.display()
        )
    }
    /// Writes the configuration with these provider entries.
    pub(crate) fn config(&self, providers: &str) {
        self.config_with("it", providers, "");
    }
    /// Writes the configuration.
    pub(crate) fn config_with(&self, instance: &str, providers: &str, source_keys: &str) {
        let (state, repo) = (self.path("state"), self.path("repo.git"));
        self.write(
            "config.yaml",
            &format!(
                "instance: {instance}\nstateDir: {}\nsources:\n  - {{name: infra, url: {}{source_keys}}}\nproviders:\n{providers}\n",
                state.display(),
                repo.display()
            ),
        );
    }
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    /// Runs git in the working copy.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        self.git_in("work", args)
    }
    pub(crate) fn git_in(&self, folder: &str, args: &[&str]) -> String {
        let output = Command::new("git")
            .args(args)
            .current_dir(self.path(folder))
            .env("HOME", self.dir.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs([("GIT_AUTHOR_NAME", "A"), ("GIT_AUTHOR_EMAIL", "a@example.com")])
            .envs([("GIT_COMMITTER_NAME", "A"), ("GIT_COMMITTER_EMAIL", "a@example.com")])
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
    /// Writes a file of the repository, commits and pushes.
    pub(crate) fn push(&self, file: &str, text: &str) -> String {
        self.write(&format!("work/{file}"), text);
        self.push_all()
    }
    /// Removes a file of the repository, commits and pushes.
    pub(crate) fn push_without(&self, file: &str) -> String {
        fs::remove_file(self.path(&format!("work/{file}"))).unwrap();
        self.push_all()
    }
    /// Commits what lies in the working copy and pushes.
    pub(crate) fn push_all(&self) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "change"]);
        self.git(&["push", "-q", "origin", "HEAD:main"]);
        self.git(&["rev-parse", "HEAD"])
    }
    /// The program with this desk's surroundings and nothing else.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reconciled"));
        command
            .env_clear()
            .env("PATH", path())
            .env("HOME", self.dir.path())
            .env("USER", "tester")
            .current_dir(self.dir.path())
            .stdin(std::process::Stdio::null())
            .args(args);
        command
    }
    /// Runs the program with this desk's configuration.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.run_with(args, &[])
    }
    /// The same with variables.
    pub(crate) fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Output {
        let config = self.path("config.yaml");
        let mut command = self.command(&[&["--config", config.to_str().unwrap()], args].concat());
        command.envs(variables.iter().copied());
        self.finish(command)
    }
    /// Runs to the end, or fails the test when that does not come.
    pub(crate) fn finish(&self, mut command: Command) -> Output {
        let (out, err) = (tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap());
        command.stdout(out.reopen().unwrap()).stderr(err.reopen().unwrap());
        let start = Instant::now();
        let mut child = command.spawn().unwrap();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > PATIENCE {
                child.kill().unwrap();
                panic!("{command:?} did not end: {}", fs::read_to_string(err.path()).unwrap());
            }
            std::thread::park_timeout(Duration::from_millis(5));
        };
        let text = |file: &tempfile::NamedTempFile| {
            let text = String::from_utf8(fs::read(file.path()).unwrap()).unwrap();
            text.replace(self.dir.path().to_str().unwrap(), "DIR")
        };
        Output { code: status.code(), signal: status.signal(), stdout: text(&out), stderr: text(&err) }
    }
    /// Applies, which must end well.
    #[track_caller]
    pub(crate) fn apply(&self) -> Output {
        self.run(&["apply", "--yes"]).exits(0)
    }
    /// Plans everything anew; nothing may be pending.
    #[track_caller]
    pub(crate) fn in_sync(&self) {
        self.run(&["plan", "--refresh", "--detailed-exitcode"]).exits(0);
    }
    /// Asks the database of the state.
    pub(crate) fn sql(&self, query: &str) -> String {
        let output = Command::new("sqlite3").arg(self.path("state/state.db")).arg(query).output().unwrap();
        assert!(output.status.success(), "{query}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
    /// The records of a zone file but its SOA and apex NS; none where there is no file.
    pub(crate) fn zone_rrsets(&self, zone: &str) -> Rrsets {
        let file = self.path(&format!("zones/{zone}.zone"));
        if !file.exists() {
            return Rrsets::new();
        }
        // The form of BIND's own tool: one record a line, all names and times written out.
        let output = Command::new("named-compilezone")
            .env("PATH", path())
            .args(["-q", "-i", "none", "-s", "full", "-o", "-", zone])
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let mut found: std::collections::BTreeMap<String, Vec<String>> = Default::default();
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (name, ttl, kind) = (words[0], words[1], words[3]);
            if kind == "SOA" || (kind == "NS" && name == format!("{zone}.")) {
                continue;
            }
            let host = name.trim_end_matches(&format!("{zone}.")).trim_end_matches('.');
            let values = found.entry(format!("{host} {kind}")).or_insert_with(|| vec![ttl.to_owned()]);
            values.push(words[4..].join(" "));
        }
        let joined = |mut values: Vec<String>| {
            values[1..].sort_unstable();
            values.join(" ")
        };
        found.into_iter().map(|(name, values)| (name, joined(values))).collect()
    }
}

/// True for root, who alone can have others do something; where it is anybody else, the test is left out.
pub(crate) fn is_root() -> bool {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        left_out("it needs root");
    }
    is_root
}

/// Keys of an entry whose guard never holds.
pub(crate) const WIDE_GUARD: &str =
    "guard: {maxDeletes: 1000, maxDeletePercent: 100, maxUpdates: 1000, maxUpdatePercent: 100}";

/// Where Debian keeps servers too; a user's PATH often leaves it out.
pub(crate) fn path() -> String {
    #[expect(clippy::disallowed_methods, reason = "a test starts other programs by their names")]
    let path = std::env::var("PATH").unwrap();
    format!("{path}:/usr/local/sbin:/usr/sbin:/sbin")
}

/// A zone manifest with `records`, one YAML flow mapping each.
pub(crate) fn zone(name: &str, provider: &str, records: &[&str]) -> String {
    let mut text = format!(
        "apiVersion: dns/v1\nkind: Zone\nmetadata: {{name: {name}}}\nspec:\n  provider: {provider}\n  ttl: 300\n  records:\n"
    );
    for record in records {
        text += &format!("    - {record}\n");
    }
    text
}

/// RRsets as the servers are asked for them.
pub(crate) fn rrsets(pairs: &[(&str, &str)]) -> Rrsets {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}
