//! Signed history, made by the real tools: `git commit -S` with ssh-keygen and with gpg.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use super::fixture::{Host, init_process};
use super::*;
use crate::clock::SystemClock;
use crate::trust::KeyFiles;

/// Somebody who commits: a repository, keys, and the file of those that are allowed.
struct Desk {
    dir: tempfile::TempDir,
    host: Host,
}

impl Drop for Desk {
    fn drop(&mut self) {
        // gpg leaves an agent behind, where it was used.
        let _ = self.command("gpgconf").args(["--kill", "all"]).output();
    }
}

impl Desk {
    fn new() -> Self {
        init_process();
        let desk = Self { dir: tempfile::tempdir().unwrap(), host: Host::new() };
        fs::create_dir(desk.path("gnupg")).unwrap();
        let private = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o700);
        fs::set_permissions(desk.path("gnupg"), private).unwrap();
        desk.git(&["init", "-q", "-b", "main", "."]);
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn at(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.dir.path())
            .env("HOME", self.dir.path())
            .env("GNUPGHOME", self.path("gnupg"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env_remove("SSH_AUTH_SOCK")
            .envs([("GIT_AUTHOR_NAME", "Ada"), ("GIT_AUTHOR_EMAIL", "ada@example.com")])
            .envs([("GIT_COMMITTER_NAME", "Ada"), ("GIT_COMMITTER_EMAIL", "ada@example.com")]);
        command
    }

    #[track_caller]
    fn run(&self, command: &mut Command) -> String {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[track_caller]
    fn git(&self, args: &[&str]) -> String {
        self.run(self.command("git").args(args))
    }

    /// Makes an ssh key and returns what a line of allowed signers ends with.
    fn key(&self, name: &str, kind: &[&str]) -> String {
        let path = self.at(name);
        self.run(self.command("ssh-keygen").args(["-q", "-N", "", "-C", "", "-f", &path, "-t"]).args(kind));
        fs::read_to_string(format!("{path}.pub")).unwrap().trim().to_owned()
    }

    fn allow(&self, lines: &[String]) {
        fs::write(self.path("allowed"), lines.join("\n") + "\n").unwrap();
    }

    /// Commits, signed with an ssh key.
    fn ssh(&self, key: &str, args: &[&str]) -> Oid {
        let signing = format!("user.signingkey={}", self.at(key));
        let sign = ["-c", "gpg.format=ssh", "-c", &signing, "commit", "-q", "-S", "--allow-empty"];
        self.git(&[&sign[..], &["-m", "zones: add www"], args].concat());
        self.head()
    }

    fn unsigned(&self, message: &str) -> Oid {
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.head()
    }

    fn head(&self) -> Oid {
        self.git(&["rev-parse", "HEAD"]).parse().unwrap()
    }

    /// Makes `HEAD` a commit with this content.
    fn forge(&self, raw: &[u8]) -> Oid {
        fs::write(self.path(".git/raw"), raw).unwrap();
        let oid = self.git(&["hash-object", "-t", "commit", "-w", ".git/raw"]);
        self.git(&["reset", "-q", "--soft", &oid]);
        oid.parse().unwrap()
    }

    fn raw(&self) -> String {
        self.git(&["cat-file", "commit", "HEAD"]) + "\n"
    }

    /// The mirror of a source that follows `reference`.
    fn mirror(&self, reference: Reference, history: History) -> Mirror {
        let is_there = |name: &str| Some(self.path(name)).filter(|path| path.exists());
        let keys = KeyFiles { allowed_signers: is_there("allowed"), gpg_keys: is_there("keys.asc") };
        let mut spec = self.host.spec(&[self.dir.path().to_str().unwrap()]);
        spec.reference = reference;
        spec.verify = Some(Verify { keys, history, clock: Arc::new(SystemClock) });
        self.host.open(spec)
    }

    /// Polls `main` and says who signed, or what is said instead.
    fn poll(&self, in_force: Option<Oid>) -> Result<String, String> {
        polled(&self.mirror(Reference::Branch("main".into()), History::All), in_force)
    }

    #[track_caller]
    fn refused(&self, in_force: Option<Oid>, said: &[&str]) {
        let error = self.poll(in_force).unwrap_err();
        for word in said {
            assert!(error.contains(word), "`{word}` is missing in: {error}");
        }
    }

    fn gpg(&self, args: &[&str]) -> String {
        let quiet = ["--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""];
        self.run(self.command("gpg").args(quiet).args(args))
    }

    /// Commits, signed with an OpenPGP key.
    fn pgp(&self, key: &str, args: &[&str]) -> Oid {
        let signing = format!("user.signingkey={key}");
        self.git(
            &[&["-c", &signing], args, &["commit", "-q", "-S", "--allow-empty", "-m", "change"]].concat(),
        );
        self.head()
    }

    /// Takes what gpg exports of these keys as the allowed ones.
    fn allow_gpg(&self, keys: &[&str]) {
        let text = self.gpg(&[&["--export", "--armor"], keys].concat());
        fs::write(self.path("keys.asc"), text + "\n").unwrap();
    }
}

fn polled(mirror: &Mirror, in_force: Option<Oid>) -> Result<String, String> {
    match mirror.poll(in_force, None) {
        Ok(Polled::Changed { signer, .. }) => Ok(signer.unwrap().to_string()),
        Ok(Polled::Unchanged(_)) => Ok("unchanged".into()),
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            Err(format!("{error}: {cause}; {}", error.hint()))
        }
    }
}

const ED: &[&str] = &["ed25519"];

#[test]
fn ssh_keys_of_each_kind_sign_what_comes_into_force() {
    let desk = Desk::new();
    let kinds: [(&str, &[&str]); 5] = [
        ("ed25519", ED),
        ("p256", &["ecdsa", "-b", "256"]),
        ("p384", &["ecdsa", "-b", "384"]),
        ("p521", &["ecdsa", "-b", "521"]),
        ("rsa", &["rsa", "-b", "3072"]),
    ];
    let keys = kinds.map(|(name, kind)| format!("{name}@example.com {}", desk.key(name, kind)));
    desk.allow(&keys);
    let mut in_force = None;
    for (name, _) in kinds {
        let tip = desk.ssh(name, &[]);
        let signer = desk.poll(in_force).unwrap();
        assert!(
            signer.starts_with(&format!("{name}@example.com (")) && signer.contains("SHA256:"),
            "{signer}"
        );
        in_force = Some(tip);
    }
}

#[test]
fn who_signs_the_first_commit_anew_is_sent_to_no_commit_before_it() {
    let desk = Desk::new();
    let key = desk.key("ada", ED);
    desk.allow(&[format!("ada@example.com {key}")]);
    desk.unsigned("first\n\nparent none");
    let amend = "git rebase --exec 'git commit --amend --no-edit --allow-empty -S'";
    desk.refused(None, &[&format!("{amend} --root with a key")]);
    let second = desk.unsigned("second").short();
    desk.refused(None, &[&format!("-S' {second}~1 with a key")]);
}

#[test]
fn a_commit_that_proves_nothing_is_refused_and_what_is_in_force_stays() {
    let desk = Desk::new();
    let key = desk.key("ada", ED);
    desk.key("eve", ED);
    desk.allow(&[format!("ada@example.com {key}")]);
    let good = desk.ssh("ada", &[]);
    desk.poll(None).unwrap();

    let unsigned = desk.unsigned("more");
    let short = unsigned.short();
    desk.refused(
        Some(good),
        &[
            &format!("commit {short} of source infra does not come into force: it is not signed"),
            "-S",
            "allowed",
        ],
    );
    desk.git(&["reset", "-q", "--hard", &good.to_string()]);
    desk.ssh("eve", &[]);
    desk.refused(
        Some(good),
        &["ssh-ed25519 SHA256:", "which is not among the allowed keys", "if the key may sign, add it to"],
    );

    // Signed, then changed.
    desk.git(&["reset", "-q", "--hard", &good.to_string()]);
    desk.ssh("ada", &[]);
    let changed = desk.raw().replace("zones: add www", "zones: add eve");
    desk.forge(changed.as_bytes());
    desk.refused(Some(good), &["it was changed after it was signed"]);

    // Signed as a file, not as a commit.
    desk.git(&["reset", "-q", "--hard", &good.to_string()]);
    desk.unsigned("zones: add www");
    let raw = desk.raw();
    fs::write(desk.path("payload"), &raw).unwrap();
    desk.run(desk.command("ssh-keygen").args([
        "-q",
        "-Y",
        "sign",
        "-n",
        "file",
        "-f",
        &desk.at("ada"),
        "payload",
    ]));
    let signature = fs::read_to_string(desk.path("payload.sig")).unwrap();
    let header = format!("\ngpgsig {}\n\n", signature.trim().replace('\n', "\n "));
    desk.forge(raw.replacen("\n\n", &header, 1).as_bytes());
    desk.refused(Some(good), &["it is signed for the namespace `file`, not `git`"]);

    // Nothing of all this made the mirror forget what is in force.
    let mirror = desk.mirror(Reference::Branch("main".into()), History::All);
    assert_eq!(mirror.commit(good).unwrap().oid, good);
    desk.git(&["reset", "-q", "--hard", &good.to_string()]);
    assert_eq!(desk.poll(Some(good)), Ok("unchanged".into()));
}

#[test]
fn a_line_of_allowed_signers_limits_its_key() {
    let desk = Desk::new();
    let key = desk.key("ada", ED);
    desk.ssh("ada", &[]);
    for (options, said) in [
        ("namespaces=\"file\"", "its namespaces do not include `git`"),
        ("valid-before=\"20200101Z\"", "valid before 2020-01-01T00:00:00Z"),
        ("valid-after=\"29990101Z\"", "valid after 2999-01-01T00:00:00Z"),
        ("cert-authority", "which is not among the allowed keys"),
    ] {
        desk.allow(&[format!("ada@example.com {options} {key}")]);
        desk.refused(None, &[said]);
    }
    desk.allow(&[format!("ada@example.com namespaces=\"git,file\",valid-before=\"29990101\" {key}")]);
    desk.poll(None).unwrap();
    // A broken file lets nobody in, and says where.
    desk.allow(&[format!("ada@example.com {key}"), "bob".into()]);
    desk.refused(None, &["nothing new of source infra can be verified", "allowed:2: it has no key"]);
    // As `git verify-commit` does, the time that counts is the committer's.
    desk.run(
        desk.command("git")
            .args(["-c", "gpg.format=ssh", "-c", &format!("user.signingkey={}", desk.at("ada"))])
            .args(["commit", "-q", "-S", "--allow-empty", "-m", "old"])
            .env("GIT_COMMITTER_DATE", "2019-06-01T00:00:00Z"),
    );
    desk.allow(&[format!("ada@example.com valid-before=\"20200101Z\" {key}")]);
    desk.poll(None).unwrap();
    // A key that leaves the file counts no more.
    desk.allow(&[]);
    desk.refused(None, &["which is not among the allowed keys"]);
}

#[test]
fn an_authority_lets_in_whom_it_certifies() {
    let desk = Desk::new();
    let authority = desk.key("ca", ED);
    desk.key("ada", ED);
    let certify = |name: &str, options: &[&str]| {
        let path = desk.at("ada-cert.pub");
        let _ = fs::remove_file(&path);
        let args = ["-q", "-s", &desk.at("ca"), "-I", "ada", "-n", name];
        desk.run(desk.command("ssh-keygen").args(args).args(options).arg(desk.at("ada.pub")));
    };
    desk.allow(&[format!("*@example.com cert-authority,namespaces=\"git\" {authority}")]);
    certify("ada@example.com,root", &[]);
    desk.ssh("ada-cert.pub", &[]);
    let signer = desk.poll(None).unwrap();
    assert!(signer.starts_with("ada@example.com (certificate of ssh-ed25519 SHA256:"), "{signer}");

    certify("eve@example.org", &[]);
    desk.ssh("ada-cert.pub", &[]);
    desk.refused(None, &["its certificate names nobody of `*@example.com`"]);
    certify("ada@example.com", &["-V", "20190101:20200101"]);
    desk.ssh("ada-cert.pub", &[]);
    desk.refused(None, &["its certificate was not valid"]);
    certify("ada@example.com", &["-h"]);
    desk.ssh("ada-cert.pub", &[]);
    desk.refused(None, &["its certificate is for a host"]);
    certify("ada@example.com", &["-O", "force-command=true"]);
    desk.ssh("ada-cert.pub", &[]);
    desk.refused(None, &["has the critical option \"force-command\""]);
    // An authority that is not allowed vouches for nobody.
    let other = desk.key("other", ED);
    desk.allow(&[format!("*@example.com cert-authority {other}")]);
    desk.refused(None, &["which is not among the allowed keys"]);
}

#[test]
fn every_new_commit_has_to_be_signed_or_the_tip_alone() {
    let desk = Desk::new();
    let key = desk.key("ada", ED);
    desk.allow(&[format!("ada@example.com {key}")]);
    desk.unsigned("from before anybody signed");
    let first = desk.ssh("ada", &[]);
    desk.poll(None).unwrap();

    let middle = desk.unsigned("slipped in");
    desk.unsigned("and again");
    desk.ssh("ada", &[]);
    let said = format!(
        "commit {} of source infra does not come into force, and neither do 1 after it",
        middle.short()
    );
    desk.refused(Some(first), &[&said, &format!("{}~1", middle.short())]);
    let tip_alone = desk.mirror(Reference::Branch("main".into()), History::Head);
    polled(&tip_alone, Some(first)).unwrap();

    // What a merge brings along counts too.
    desk.git(&["reset", "-q", "--hard", &first.to_string()]);
    desk.git(&["checkout", "-q", "-b", "side"]);
    let side = desk.unsigned("on the side");
    desk.git(&["checkout", "-q", "main"]);
    desk.ssh("ada", &[]);
    let signing = format!("user.signingkey={}", desk.at("ada"));
    let merge = ["-c", "gpg.format=ssh", "-c", &signing, "merge", "-q", "--no-ff", "-m", "merge", "side"];
    desk.git(&[&merge[..], &["-S"]].concat());
    desk.refused(Some(first), &[&side.short(), "it is not signed"]);

    // A merge that is signed, of commits that are.
    desk.git(&["checkout", "-q", "-B", "side", &first.to_string()]);
    desk.ssh("ada", &["--author", "Bob <bob@example.com>"]);
    desk.git(&["checkout", "-q", "-B", "main", &first.to_string()]);
    let second = desk.ssh("ada", &[]);
    desk.git(&[&merge[..], &["-S"]].concat());
    desk.poll(Some(first)).unwrap();
    // And one that is not.
    desk.git(&["reset", "-q", "--hard", &second.to_string()]);
    desk.git(&["merge", "-q", "--no-ff", "-m", "merge", "side"]);
    let merge = desk.head();
    desk.refused(Some(first), &[&merge.short(), "it is not signed"]);
}

#[test]
fn a_signed_tag_stands_for_its_commit() {
    let desk = Desk::new();
    let key = desk.key("ada", ED);
    desk.allow(&[format!("ada@example.com {key}")]);
    desk.unsigned("release");
    let signing = format!("user.signingkey={}", desk.at("ada"));
    let sign =
        |name: &str| desk.git(&["-c", "gpg.format=ssh", "-c", &signing, "tag", "-s", "-m", "release", name]);
    let follow = |name: &str| desk.mirror(Reference::Tag(name.into()), History::All);
    desk.git(&["tag", "-a", "-m", "unsigned", "v0"]);
    assert!(polled(&follow("v0"), None).unwrap_err().contains("it is not signed"));
    sign("v1.0.0");
    assert!(polled(&follow("v1.0.0"), None).unwrap().starts_with("ada@example.com"));
    assert!(polled(&desk.mirror(Reference::semver("1").unwrap(), History::All), None).is_ok());
    // A branch is no tag: its commits count.
    desk.refused(None, &["it is not signed"]);
    // The tag of an old release under the name of a new one.
    desk.git(&["update-ref", "refs/tags/v2.0.0", "refs/tags/v1.0.0"]);
    assert!(polled(&follow("v2.0.0"), None).unwrap_err().contains("it is not signed"));
    assert!(polled(&desk.mirror(Reference::semver("2").unwrap(), History::All), None).is_err());
    // Without a tag that is signed, a commit that is.
    desk.ssh("ada", &[]);
    desk.git(&["tag", "light"]);
    assert!(polled(&follow("light"), None).is_ok());
}

#[test]
fn openpgp_keys_sign_as_gpg_makes_them() {
    let desk = Desk::new();
    let mut in_force = None;
    for (user, kind, usage) in [
        ("ed@example.com", "ed25519", "sign"),
        ("rsa@example.com", "rsa3072", "sign"),
        ("nist@example.com", "nistp256", "sign"),
    ] {
        desk.gpg(&["--quick-gen-key", user, kind, usage, "never"]);
        desk.allow_gpg(&[user]);
        let tip = desk.pgp(user, &[]);
        let signer = desk.poll(in_force).unwrap();
        assert!(signer.starts_with(&format!("{user} (OpenPGP ")), "{signer}");
        in_force = Some(tip);
    }
    // A subkey that signs for a key that only certifies; the file without armor.
    desk.gpg(&["--quick-gen-key", "sub@example.com", "ed25519", "cert", "never"]);
    let listed = desk.gpg(&["--list-keys", "--with-colons", "sub@example.com"]);
    let fingerprint = listed.lines().find_map(|line| line.strip_prefix("fpr:::::::::")).unwrap();
    let fingerprint = fingerprint.trim_end_matches(':');
    desk.gpg(&["--quick-add-key", fingerprint, "ed25519", "sign", "never"]);
    desk.gpg(&["--output", "keys.asc", "--yes", "--export", "sub@example.com", "ed@example.com"]);
    desk.pgp("sub@example.com", &[]);
    assert!(desk.poll(in_force).unwrap().starts_with("sub@example.com (OpenPGP "));

    // Signed, then changed; signed by a key that is not there.
    let good = desk.head();
    desk.pgp("sub@example.com", &[]);
    desk.forge(desk.raw().replace("change", "harm").as_bytes());
    desk.refused(Some(good), &["it was changed after it was signed"]);
    desk.git(&["reset", "-q", "--hard", &good.to_string()]);
    desk.pgp("rsa@example.com", &[]);
    desk.refused(Some(good), &["it is signed by OpenPGP ", "which is not among the allowed keys"]);
    // An ssh key where only OpenPGP keys are allowed.
    desk.git(&["reset", "-q", "--hard", &good.to_string()]);
    desk.key("ada", ED);
    desk.ssh("ada", &[]);
    desk.refused(Some(good), &["names no `verify.allowedSigners`"]);
}

#[test]
fn an_openpgp_key_that_ended_or_was_revoked_vouches_for_nothing() {
    let desk = Desk::new();
    // A key of 2020 that ended in 2021, used in its time.
    let then = ["--faked-system-time", "20200101T000000!"];
    desk.gpg(&[&then[..], &["--quick-gen-key", "old@example.com", "ed25519", "sign", "1y"]].concat());
    let wrapper = desk.path("gpg-of-2020");
    fs::write(&wrapper, "#!/bin/sh\nexec gpg --faked-system-time 20200201T000000! \"$@\"\n").unwrap();
    let executable = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(&wrapper, executable).unwrap();
    desk.allow_gpg(&["old@example.com"]);
    desk.pgp("old@example.com", &["-c", &format!("gpg.program={}", wrapper.display())]);
    desk.refused(None, &["which does not count: the key has expired"]);

    desk.gpg(&["--quick-gen-key", "lost@example.com", "ed25519", "sign", "never"]);
    desk.pgp("lost@example.com", &[]);
    desk.allow_gpg(&["lost@example.com"]);
    desk.poll(None).unwrap();
    let revocations = desk.path("gnupg/openpgp-revocs.d");
    for entry in fs::read_dir(revocations).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        // gpg disarms the certificate with a colon, lest it is imported by mistake.
        fs::write(desk.path("revocation"), text.replace(":-----BEGIN", "-----BEGIN")).unwrap();
        desk.gpg(&["--import", "revocation"]);
    }
    desk.allow_gpg(&["lost@example.com"]);
    desk.refused(None, &["which does not count: the key is revoked"]);
    // Somebody's private keys are no list of public ones.
    fs::write(desk.path("keys.asc"), "-----BEGIN PGP PRIVATE KEY BLOCK-----\n").unwrap();
    desk.refused(None, &["nothing new of source infra can be verified", "something else than public keys"]);
}

#[test]
fn what_was_accepted_before_signatures_were_asked_for_counts_no_more() {
    use History::{All, Head};
    let desk = Desk::new();
    let key = desk.key("ada", ED);
    desk.allow(&[format!("ada@example.com {key}")]);
    let first = desk.ssh("ada", &[]);
    let unsigned = desk.unsigned("second");
    let signed = desk.ssh("ada", &[]);
    let main = || Reference::Branch("main".into());
    let mut asked_nothing = desk.host.spec(&[desk.dir.path().to_str().unwrap()]);
    asked_nothing.reference = main();
    let mirror = desk.host.open(asked_nothing);
    mirror.poll(None, None).unwrap();
    assert_eq!(mirror.accepted().unwrap().map(|commit| commit.oid), Some(signed));
    let counts = |reference: Reference, history: History, in_force: Oid, commit: Oid| {
        desk.mirror(reference, history).still_accepts(Some(in_force), commit).unwrap()
    };
    assert!(mirror.still_accepts(Some(first), unsigned).unwrap(), "nobody asks for signatures");
    assert!(!counts(main(), All, first, unsigned));
    assert!(!counts(main(), All, first, signed), "what it brings along is not signed");
    assert!(counts(main(), Head, first, signed));
    assert!(counts(main(), All, signed, unsigned), "what is in force was judged before");
    // A tag may have been signed in its place.
    assert!(counts(Reference::Tag("v1".into()), All, first, unsigned));
}
