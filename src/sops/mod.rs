//! Files encrypted by sops (getsops.io): values that stand in the repository, and only this host can read.
//!
//! # Guarantees
//! - Nothing of a file is used before all of it is verified: each value against its place, and the whole against the
//!   MAC that sops wrote.
//! - No error has a value in it, and none is kept longer than its [`Secret`].
//!
//! # Not here
//! Keys other than age's X25519, groups of keys that have to act together, formats other than YAML and JSON. What
//! cannot be understood is refused, never passed by.

mod age;
mod clear;
mod value;

#[cfg(test)]
mod tests;

use age::Identity;
use data_encoding::HEXUPPER;
use reconciled_provider::{
    Error, Node, Secret, SourceFile,
    problem::did_you_mean,
    yaml::{Limits, NodeValue, ScalarKind, parse},
};
use ring::digest::{Context, SHA256, SHA512};
use value::Sealed;
use zeroize::Zeroizing;

/// Why a file gives nothing.
#[derive(Clone, Debug)]
pub enum Refused {
    /// It is not as sops wrote it: nothing else that came with it deserves trust either.
    Tampered(Error),
    /// No key here opens it, or what was asked for is not in it.
    Unreadable(Error),
}

impl Refused {
    /// What to tell.
    pub fn into_error(self) -> Error {
        match self {
            Refused::Tampered(error) | Refused::Unreadable(error) => error,
        }
    }
}

fn unreadable(message: String, hint: impl Into<String>) -> Refused {
    Refused::Unreadable(Error::invalid(message).hint(hint))
}

fn tampered(path: &str, what: &str) -> Refused {
    let text = format!("`{path}` was changed after sops wrote it: {what}");
    Refused::Tampered(Error::invalid(text).hint(format!(
        "edit it with `sops edit {path}`, and not by hand; after a merge by git, restore one side and edit again"
    )))
}

/// How each value begins that sops has encrypted.
const SEALED: &[u8] = b"ENC[AES256_GCM,";

/// Private keys of age. They cannot be printed.
#[derive(Default)]
pub struct Identities(Vec<Identity>);

impl Identities {
    /// Takes over the keys in the text of a key file as `age-keygen` writes it.
    ///
    /// Errors: a line is no key; the text is not part of the error.
    pub fn add(&mut self, text: &str) -> Result<(), Error> {
        let found = Identity::read(text).filter(|found| !found.is_empty()).ok_or_else(|| {
            Error::invalid("it holds no key of age: a line that begins with AGE-SECRET-KEY-1")
                .hint("make one with `age-keygen`")
        })?;
        self.0.extend(found);
        Ok(())
    }

    /// What others have to encrypt for.
    pub fn recipients(&self) -> Vec<String> {
        self.0.iter().map(Identity::recipient).collect()
    }
}

/// A file as sops wrote it, still encrypted.
pub struct File {
    path: String,
    documents: Vec<Node>,
}

/// A value and what leads to it.
struct Leaf<'a> {
    /// Keys and positions in lists, joined by dots.
    name: String,
    /// The keys alone, each with a colon behind it: what sops binds the value to.
    context: String,
    text: &'a str,
    kind: &'a ScalarKind,
}

/// The values of a verified file.
pub struct Opened(Vec<(String, Secret)>);

impl Opened {
    /// The value that `key` names.
    pub fn get(&self, key: &str) -> Option<&Secret> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, secret)| secret)
    }
}

impl File {
    /// Reads the file at `path`.
    ///
    /// Errors: it is no YAML or JSON, or sops did not write it.
    pub fn read(path: &str, content: &[u8]) -> Result<File, Refused> {
        // Of what sops once wrote, a merge of git may leave something that cannot be read at all.
        let was_sealed = content.windows(SEALED.len()).any(|window| window == SEALED);
        let broken = |what: &str, hint: &str| match was_sealed {
            true => tampered(path, what),
            false => unreadable(format!("`{path}`: {what}"), hint),
        };
        let text = std::str::from_utf8(content)
            .map_err(|_| broken("it is not UTF-8 text", "sops has to write YAML or JSON"))?;
        let file = SourceFile::new(path.to_owned(), text.to_owned());
        let documents = parse(&file, Limits::default())
            .map_err(|problem| broken(&problem.message, "sops has to write it"))?;
        if !documents
            .iter()
            .any(|document| document.get("sops").is_some_and(|sops| sops.get("mac").is_some()))
        {
            let read = File { path: path.to_owned(), documents };
            if read.leaves().iter().any(|leaf| Sealed::parse(leaf.text).is_some()) {
                return Err(read.tampered("its section `sops` is gone, or the `mac` in it"));
            }
            let text = format!("`{path}` is not encrypted: it has no section `sops`");
            return Err(unreadable(
                text,
                format!("sops encrypt --in-place {path}, and never push the clear text"),
            ));
        }
        Ok(File { path: path.to_owned(), documents })
    }

    /// Says whether there is an encrypted value at `key`, which needs no key of age.
    ///
    /// Errors: there is none.
    pub fn check(&self, key: &str) -> Result<(), Refused> {
        let leaves = self.leaves();
        let found: Vec<&Leaf<'_>> = leaves.iter().filter(|leaf| leaf.name == key).collect();
        match found[..] {
            [leaf] if Sealed::parse(leaf.text).is_some() => Ok(()),
            // What is empty is left in clear by sops.
            [leaf] if leaf.text.is_empty() => {
                let text = format!("`{key}` in `{}` is empty, and so is no secret", self.path);
                Err(unreadable(text, format!("give it a value: sops {}", self.path)))
            }
            [_] => {
                let text = format!("`{key}` in `{}` is not encrypted", self.path);
                Err(unreadable(text, "encrypt it with sops, or write its value where it is needed"))
            }
            [] => Err(self.missing(key, &leaves)),
            [_, _, ..] => {
                let text = format!("`{key}` means more than one value in `{}`", self.path);
                Err(unreadable(text, "rename one of the keys"))
            }
        }
    }

    fn missing(&self, key: &str, leaves: &[Leaf<'_>]) -> Refused {
        let names: Vec<String> = leaves.iter().map(|leaf| leaf.name.clone()).collect();
        let above = format!("{key}.");
        let text = format!("there is no value `{key}` in `{}`", self.path);
        let near = did_you_mean(key, names.iter().map(String::as_str));
        let hint = match (names.iter().find(|name| name.starts_with(&above)), near) {
            (Some(below), _) => format!("`{key}` is not one value: write `{below}`"),
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) => "write the keys that lead to it, joined by dots: database.password".to_owned(),
        };
        unreadable(text, hint)
    }

    /// Decrypts and verifies the whole file.
    ///
    /// Errors: [`Refused`].
    pub fn open(&self, identities: &Identities) -> Result<Opened, Refused> {
        let metadata = self.documents.iter().find_map(|document| document.get("sops"));
        let metadata = metadata.ok_or_else(|| self.tampered("its section `sops` is gone"))?;
        let key = self.key(metadata, identities)?;
        let text = |name: &str| metadata.get(name).and_then(Node::as_str);
        let (Some(mac), Some(modified)) = (text("mac"), text("lastmodified")) else {
            return Err(self.tampered("its section `sops` has no `mac` or no `lastmodified`"));
        };
        let mac = Sealed::parse(mac).and_then(|mac| mac.open(&key, modified));
        let mac = mac.ok_or_else(|| self.tampered("its MAC does not belong to its key and date"))?;
        let is_partial = text("mac_only_encrypted") == Some("true");
        let mut digest = Context::new(&SHA512);
        if is_partial {
            // So that the flag cannot be taken away: sops begins with the hash of its name.
            digest.update(ring::digest::digest(&SHA256, b"sops").as_ref());
        }
        let mut opened = Vec::new();
        for leaf in self.leaves() {
            match Sealed::parse(leaf.text) {
                Some(sealed) => {
                    let clear = sealed.open(&key, &leaf.context);
                    let clear = clear.ok_or_else(|| {
                        self.tampered(&format!("the value of `{}` was changed or moved", leaf.name))
                    })?;
                    digest.update(&clear);
                    opened.push((leaf.name.clone(), Secret::new(sealed.said(&clear).to_vec())));
                }
                None if is_partial => {}
                None => digest.update(clear::canonical(leaf.text, leaf.kind).as_bytes()),
            }
        }
        let expected = HEXUPPER.encode(digest.finish().as_ref());
        if expected.as_bytes() != &**mac {
            return Err(self.tampered("its content does not fit its MAC"));
        }
        Ok(Opened(opened))
    }

    fn tampered(&self, what: &str) -> Refused {
        tampered(&self.path, what)
    }

    /// The key of the file, opened by one of ours.
    fn key(&self, metadata: &Node, identities: &Identities) -> Result<Zeroizing<[u8; 32]>, Refused> {
        let path = &self.path;
        if metadata.get("shamir_threshold").or(metadata.get("key_groups")).is_some_and(|node| !node.is_null())
        {
            let text = format!("`{path}` needs several keys at once (key groups), which is not supported");
            return Err(unreadable(text, "encrypt it for one group of recipients"));
        }
        let recipients = metadata.get("age").map_or(&[][..], Node::elements);
        let wrapped = recipients.iter().filter_map(|recipient| recipient.get("enc")?.as_str());
        let key = wrapped.into_iter().find_map(|wrapped| age::decrypt(wrapped, &identities.0));
        if let Some(key) = key {
            let key = <[u8; 32]>::try_from(&**key).map(Zeroizing::new);
            return key.map_err(|_| self.tampered("its key has a wrong length"));
        }
        let of: Vec<&str> =
            recipients.iter().filter_map(|recipient| recipient.get("recipient")?.as_str()).collect();
        let have = identities.recipients();
        if let Some(ours) = of.iter().find(|recipient| have.iter().any(|have| have == *recipient)) {
            return Err(self.tampered(&format!("what it has for {ours} is not opened by that key")));
        }
        Err(match (&of[..], &have[..]) {
            ([], _) => unreadable(
                format!("`{path}` is encrypted for no key of age"),
                "sops updatekeys, with a rule that names recipients under `age`",
            ),
            (_, []) => unreadable(
                format!("`{path}` is encrypted for {}, and this host has no key of age", of.join(", ")),
                "write sops: {age: {file: /etc/reconciled/age.key}} in the host configuration",
            ),
            (_, have) => unreadable(
                format!(
                    "`{path}` is encrypted for {}, and the key of this host is {}",
                    of.join(", "),
                    have.join(", ")
                ),
                format!(
                    "put the key it is encrypted for where `sops` of the host configuration says, or add this \
                     host's to `age` in .sops.yaml and run: sops updatekeys {path}"
                ),
            ),
        })
    }

    fn leaves(&self) -> Vec<Leaf<'_>> {
        let mut all = Vec::new();
        for document in &self.documents {
            for (key, node) in document.entries().iter().filter(|(key, _)| key.as_str() != Some("sops")) {
                let key = key.as_str().unwrap_or_default();
                below(node, key.to_owned(), format!("{key}:"), &mut all);
            }
        }
        all
    }
}

fn below<'a>(node: &'a Node, name: String, context: String, all: &mut Vec<Leaf<'a>>) {
    match &node.value {
        NodeValue::Null => {}
        NodeValue::Scalar(text, kind) => all.push(Leaf { name, context, text, kind }),
        NodeValue::Seq(nodes) => {
            // Between items sops writes a comment as an item, encrypted; the MAC is not over comments.
            let is_comment =
                |node: &&Node| node.as_str().is_some_and(|text| text.ends_with(",type:comment]"));
            for (index, node) in nodes.iter().filter(|node| !is_comment(node)).enumerate() {
                below(node, format!("{name}.{index}"), context.clone(), all);
            }
        }
        NodeValue::Map(entries) => {
            for (key, node) in entries {
                let key = key.as_str().unwrap_or_default();
                below(node, format!("{name}.{key}"), format!("{context}{key}:"), all);
            }
        }
    }
}
