//! Files that the real sops wrote, for keys that the real age-keygen made.

use super::*;
use std::{fs, process::Command};

const MIXED: &str = r#"# at the top
database:
    # about the password
    # in two lines
    password: hunter2
    port: 5432
    ratio: 1.5
    on: true
    empty: ""
    none: null
    list:
        - a
        # between items
        - b: c
          text: |
            of two lines
            # which is no comment
    last: x # behind a value
# at the end
plain_unencrypted: 12
float_unencrypted: 1.50
bool_unencrypted: true
date_unencrypted: 2026-01-01
text_unencrypted: |
    hello
    # no comment
    world
"#;

struct Desk {
    folder: tempfile::TempDir,
    identities: Identities,
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

impl Desk {
    fn new() -> Desk {
        let folder = tempfile::tempdir().unwrap();
        let key = run("age-keygen", &[]);
        fs::write(folder.path().join("key"), &key).unwrap();
        let mut identities = Identities::default();
        identities.add(&key).unwrap();
        Desk { folder, identities }
    }

    /// What sops makes of `text`, told `flags` besides the recipient.
    fn encrypt(&self, name: &str, text: &str, flags: &[&str]) -> String {
        let path = self.folder.path().join(name).display().to_string();
        fs::write(&path, text).unwrap();
        let recipient = self.identities.recipients().remove(0);
        let mut arguments = vec!["--config", "/dev/null", "encrypt", "--age", &recipient];
        arguments.extend(flags);
        arguments.push(&path);
        run("sops", &arguments)
    }

    fn open(&self, text: &str) -> Result<Opened, Refused> {
        File::read("secrets.yaml", text.as_bytes())?.open(&self.identities)
    }
}

fn value(opened: &Opened, key: &str) -> String {
    opened.get(key).map(|secret| secret.reveal_str().unwrap().to_owned()).unwrap_or_default()
}

#[track_caller]
fn is_tampered(result: Result<Opened, Refused>, words: &str) {
    match result.map(|_| ()) {
        Err(Refused::Tampered(error)) => {
            assert!(error.message.contains(words), "{error}");
            assert!(!error.message.contains("hunter2"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_sops_wrote_is_read_and_verified() {
    let desk = Desk::new();
    assert_eq!(
        desk.identities.recipients(),
        [run("age-keygen", &["-y", &desk.folder.path().join("key").display().to_string()]).trim()]
    );
    for flags in [
        &[][..],
        &["--encrypted-regex", "^(password|port|ratio|on|list|last)$"],
        &["--encrypted-suffix", "word"],
    ] {
        let text = desk.encrypt("a.yaml", MIXED, flags);
        let opened = desk.open(&text).unwrap_or_else(|why| panic!("{flags:?}: {why:?}\n{text}"));
        assert_eq!(value(&opened, "database.password"), "hunter2", "{flags:?}");
        if flags.is_empty() {
            assert_eq!(value(&opened, "database.port"), "5432");
            assert_eq!(value(&opened, "database.list.1.text"), "of two lines\n# which is no comment\n");
            assert!(opened.get("plain_unencrypted").is_none());
        }
    }
    // Only a rule of its configuration says this.
    let rules = desk.folder.path().join("rules").display().to_string();
    let (key, path) =
        (desk.identities.recipients().remove(0), desk.folder.path().join("a.yaml").display().to_string());
    let rule = format!("creation_rules: [{{age: {key}, mac_only_encrypted: true, encrypted_suffix: word}}]");
    fs::write(&rules, rule).unwrap();
    fs::write(&path, MIXED).unwrap();
    let text = run("sops", &["--config", &rules, "encrypt", &path]);
    assert!(text.contains("mac_only_encrypted: true"), "{text}");
    assert_eq!(value(&desk.open(&text).unwrap(), "database.password"), "hunter2");
    let json =
        r#"{"database": {"password": "hunter2", "ports": [1, 2.50, true, null, ""]}, "a_unencrypted": 1.0}"#;
    let opened = desk.open(&desk.encrypt("a.json", json, &[])).unwrap();
    assert_eq!(value(&opened, "database.password"), "hunter2");
    assert_eq!(value(&opened, "database.ports.1"), "2.5");
}

#[test]
fn values_come_to_what_sops_prints() {
    let desk = Desk::new();
    let text = "{yes: true, no: False, text: \"True\", port: 5432, below: -7, hex: 0x1F, ratio: 1.50, many: 1e3, \
                date: 2026-01-01, time: 2026-01-01T10:00:00.5+02:00, code: \"007\", none: \"\"}";
    let sealed = desk.encrypt("a.yaml", text, &[]);
    let opened = desk.open(&sealed).unwrap();
    let file = desk.folder.path().join("sealed.yaml").display().to_string();
    fs::write(&file, &sealed).unwrap();
    let key = desk.folder.path().join("key");
    for name in ["yes", "no", "text", "port", "below", "hex", "ratio", "many", "date", "time", "code", "none"]
    {
        let name_of = format!("[\"{name}\"]");
        let mut sops = Command::new("sops");
        sops.args(["decrypt", "--extract", &name_of, &file]).env("SOPS_AGE_KEY_FILE", &key);
        let printed = String::from_utf8(sops.output().unwrap().stdout).unwrap();
        assert_eq!(value(&opened, name), printed.trim_end(), "{name}");
    }
}

#[test]
fn whatever_was_changed_after_sops_is_noticed() {
    let desk = Desk::new();
    let text = desk.encrypt("a.yaml", MIXED, &[]);
    let line = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap().to_owned();
    let swapped = text
        .replace(line("port:").split_once(": ").unwrap().1, "@")
        .replace(line("password:").split_once(": ").unwrap().1, line("port:").split_once(": ").unwrap().1)
        .replace('@', line("password:").split_once(": ").unwrap().1);
    is_tampered(desk.open(&swapped), "database.password");
    is_tampered(desk.open(&text.replace(&format!("{}\n", line("port:")), "")), "does not fit its MAC");
    is_tampered(desk.open(&text.replace("plain_unencrypted: 12", "plain_unencrypted: 13")), "does not fit");
    is_tampered(desk.open(&text.replace("empty: \"\"", "empty: \"x\"")), "does not fit");
    is_tampered(desk.open(&text.replace("    # no comment", "    # no commend")), "does not fit");
    let whole = text.split_once("\nsops:").unwrap().0;
    is_tampered(File::read("a.yaml", whole.as_bytes()).map(|_| unreachable!()), "its section `sops` is gone");
    let date = line("lastmodified:");
    is_tampered(desk.open(&text.replace(&date, "    lastmodified: \"2020-01-01T00:00:00Z\"")), "MAC");
    // What a merge of git leaves, and what an editor for another encoding does.
    let merged = text.replacen("database:", "<<<<<<< ours\ndatabase:", 1);
    is_tampered(File::read("a.yaml", merged.as_bytes()).map(|_| unreachable!()), "was changed after");
    let mut octets = text.clone().into_bytes();
    octets.insert(0, 0xff);
    is_tampered(File::read("a.yaml", &octets).map(|_| unreachable!()), "is not UTF-8 text");
    // The key of the file, as it is kept for the recipient that this host is.
    let at = text.find("-----BEGIN AGE").unwrap();
    let (begin, rest) = text.split_at(at);
    let body = rest.find('\n').unwrap() + 30;
    let other = if rest.as_bytes()[body] == b'A' { "B" } else { "A" };
    let wrapped = format!("{begin}{}{other}{}", &rest[..body], &rest[body + 1..]);
    is_tampered(desk.open(&wrapped), "is not opened by that key");
}

#[test]
fn a_file_for_others_and_a_key_that_is_not_there_are_said_plainly() {
    let desk = Desk::new();
    let refused = |result: Result<(), Refused>| {
        let Err(Refused::Unreadable(error)) = result else { panic!("{result:?}") };
        format!("{} / {}", error.message, error.hint.as_deref().unwrap())
    };
    let text = desk.encrypt("a.yaml", MIXED, &[]);
    let file = File::read("secrets.yaml", text.as_bytes()).unwrap();
    assert!(file.check("database.password").is_ok() && file.check("database.list.1.b").is_ok());
    assert!(refused(file.check("database.pasword")).contains("did you mean `database.password`?"));
    assert!(refused(file.check("database")).contains("write `database.password`"));
    assert!(refused(file.check("plain_unencrypted")).contains("is not encrypted"));
    assert!(refused(file.check("database.empty")).contains("is empty, and so is no secret"));
    let other = Desk::new();
    let told = refused(file.open(&other.identities).map(|_| ()));
    assert!(
        told.contains(&desk.identities.recipients()[0]) && told.contains(&other.identities.recipients()[0]),
        "{told}"
    );
    assert!(told.contains("sops updatekeys secrets.yaml"), "{told}");
    assert!(told.contains("put the key it is encrypted for where `sops`"), "{told}");
    assert!(refused(file.open(&Identities::default()).map(|_| ())).contains("has no key of age"));
    assert!(refused(File::read("a.yaml", b"a: 1\n").map(|_| ())).contains("sops encrypt"));
    assert!(refused(File::read("a.yaml", b"a: [\n").map(|_| ())).contains("a.yaml"));
    let error = Identities::default().add("AGE-SECRET-KEY-1QQQQ\n").unwrap_err();
    assert!(!error.to_string().contains("QQQQ") && error.hint.as_ref().unwrap().contains("age-keygen"));
}
