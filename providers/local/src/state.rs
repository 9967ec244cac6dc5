//! Canonical bytes: the form in which what is declared and what is there are compared.
//!
//! A few lines of `key value`, an empty line, and the content if it is in clear. Content is in clear where it comes from
//! the repository, or where every user of the host may read it; else only a keyed mark stands for it, so neither the
//! database nor a plan holds what it should not.
//!
//! What cannot be seen on a host (`validate`, `purge`, the name of a secret) is part of the bytes as well, because
//! `apply` gets nothing else; [`crate::observe`] reports a resource that is as declared in the very bytes declared.

use bytes::Bytes;
use reconciled_provider::{ErrorKind, Hash, ResourceId, SecretRef};
use serde::{Deserialize, Serialize};
use std::{fmt::Write, sync::Arc};

/// Separates the name of a block from the path of its file in an id.
pub const BLOCK: char = '#';

/// What a resource is, declared or seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A regular file.
    File(File),
    /// A symbolic link.
    Link {
        /// Where it leads.
        target: Arc<str>,
    },
    /// A directory.
    Directory(Directory),
    /// A block of lines in a file.
    Block(Block),
    /// Seen: something else, such as a socket.
    Other {
        /// What, in a word.
        word: Arc<str>,
    },
    /// Seen: it could not be looked at, or must not be.
    Refused(Refusal),
}

/// A regular file.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Who may do what with it.
    pub access: Access,
    /// The command that must accept it.
    pub validate: Option<Arc<str>>,
    /// What is in it.
    pub content: Content,
}

/// A directory.
#[derive(Clone, Debug, PartialEq)]
pub struct Directory {
    /// Who may do what with it.
    pub access: Access,
    /// What nobody declares in it shall go.
    pub purge: bool,
}

/// A block of lines in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// What a marker line begins with.
    pub comment: Arc<str>,
    /// The command that must accept the file.
    pub validate: Option<Arc<str>>,
    /// The lines between the markers.
    pub content: Content,
}

/// Owner, group and permissions. No name: those of the process that keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Name or number of the user.
    pub owner: Option<Arc<str>>,
    /// Name or number of the group.
    pub group: Option<Arc<str>>,
    /// Permission bits.
    pub mode: u32,
}

impl Access {
    /// True when every user may read it, as far as its own permissions go.
    pub fn is_public(&self) -> bool {
        self.mode & 0o004 != 0
    }
}

/// What is in a file or a block.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// These bytes.
    Clear(Bytes),
    /// A secret of the host.
    Secret {
        /// Its name.
        name: Arc<str>,
        /// The mark of its value.
        mark: Hash,
    },
    /// Seen: not for everyone, so only the mark of it.
    Mark {
        /// The mark.
        mark: Hash,
        /// How many bytes.
        length: u64,
    },
}

/// Why something could not be looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// What follows from it.
    #[serde(with = "kind")]
    pub kind: ErrorKind,
    /// What was being done, to what, and why it was not.
    pub message: String,
    /// What a person can do.
    pub hint: Option<String>,
}

/// The id of a block of a file.
pub fn block_id(path: &str, name: &str) -> ResourceId {
    format!("{path}{BLOCK}{name}").into()
}

/// Path, and name of the block where it is one.
pub fn parts(id: &ResourceId) -> (&str, Option<&str>) {
    match id.0.split_once(BLOCK) {
        Some((path, name)) => (path, Some(name)),
        None => (&id.0, None),
    }
}

const KINDS: [ErrorKind; 7] = [
    ErrorKind::Invalid,
    ErrorKind::Unsupported,
    ErrorKind::PermissionDenied,
    ErrorKind::Conflict,
    ErrorKind::RateLimited,
    ErrorKind::Unavailable,
    ErrorKind::Unexpected,
];

/// The kind of an error as its word.
pub(crate) mod kind {
    use super::KINDS;
    use reconciled_provider::ErrorKind;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(kind: &ErrorKind, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(kind.word())
    }
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ErrorKind, D::Error> {
        let word = String::deserialize(from)?;
        let known = KINDS.into_iter().find(|kind| kind.word() == word);
        known.ok_or_else(|| de::Error::custom(format!("`{word}` is no kind of error")))
    }
}

impl Shape {
    /// The word for what it is.
    pub fn word(&self) -> &str {
        match self {
            Shape::File(_) => "file",
            Shape::Link { .. } => "symlink",
            Shape::Directory(_) => "directory",
            Shape::Block(_) => "block",
            Shape::Other { word } => word,
            Shape::Refused(_) => "refused",
        }
    }

    /// The canonical bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut head = format!("{}\n", if let Shape::Other { .. } = self { "other" } else { self.word() });
        let mut body = None;
        match self {
            Shape::File(file) => {
                file.access.write(&mut head);
                line(&mut head, "validate", file.validate.as_deref());
                body = file.content.write(&mut head);
            }
            Shape::Link { target } => line(&mut head, "target", Some(target)),
            Shape::Directory(directory) => {
                directory.access.write(&mut head);
                line(&mut head, "purge", directory.purge.then_some("true"));
            }
            Shape::Block(block) => {
                line(&mut head, "comment", Some(&block.comment));
                line(&mut head, "validate", block.validate.as_deref());
                body = block.content.write(&mut head);
            }
            Shape::Other { word } => line(&mut head, "word", Some(word)),
            Shape::Refused(refusal) => {
                line(&mut head, "kind", Some(refusal.kind.word()));
                line(&mut head, "message", Some(&refusal.message.replace('\n', " ")));
                line(
                    &mut head,
                    "hint",
                    refusal.hint.as_deref().map(|hint| hint.replace('\n', " ")).as_deref(),
                );
            }
        }
        let mut bytes = head.into_bytes();
        bytes.push(b'\n');
        bytes.extend_from_slice(&body.unwrap_or_default());
        bytes
    }

    /// True for the canonical bytes of a directory.
    pub(crate) fn is_directory(bytes: &[u8]) -> bool {
        bytes.starts_with(b"directory\n")
    }

    /// Reads canonical bytes; none for what no version wrote.
    pub fn decode(bytes: &[u8]) -> Option<Shape> {
        let end = bytes.windows(2).position(|pair| pair == b"\n\n")?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let body = &bytes[end + 2..];
        let mut lines = head.lines();
        let word = lines.next()?;
        let entries: Vec<(&str, &str)> = lines.map(|line| line.split_once(' ')).collect::<Option<_>>()?;
        let get = |key: &str| entries.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
        let text = |key: &str| get(key).map(Arc::<str>::from);
        Some(match word {
            "file" => Shape::File(File {
                access: Access::read(&get)?,
                validate: text("validate"),
                content: Content::read(&get, body)?,
            }),
            "symlink" => Shape::Link { target: text("target")? },
            "directory" => {
                Shape::Directory(Directory { access: Access::read(&get)?, purge: get("purge").is_some() })
            }
            "block" => Shape::Block(Block {
                comment: text("comment")?,
                validate: text("validate"),
                content: Content::read(&get, body)?,
            }),
            "other" => Shape::Other { word: text("word")? },
            "refused" => Shape::Refused(Refusal {
                kind: KINDS.into_iter().find(|kind| Some(kind.word()) == get("kind"))?,
                message: get("message")?.into(),
                hint: get("hint").map(str::to_owned),
            }),
            _ => return None,
        })
    }

    /// Fields and values a person can read; what not everyone may see is left out.
    pub fn show(&self) -> Vec<(Arc<str>, String)> {
        let mut out: Vec<(Arc<str>, String)> = Vec::new();
        let mut add = |key: &str, value: Option<&str>| {
            out.extend(value.map(|value| (Arc::from(key), value.to_owned())));
        };
        match self {
            Shape::File(file) => {
                add("owner", file.access.owner.as_deref());
                add("group", file.access.group.as_deref());
                add("mode", Some(&mode_text(file.access.mode)));
                add("validate", file.validate.as_deref());
                add("content", Some(&file.content.show(file.access.is_public())));
            }
            Shape::Link { target } => add("symlink", Some(target)),
            Shape::Directory(directory) => {
                add("type", Some("directory"));
                add("owner", directory.access.owner.as_deref());
                add("group", directory.access.group.as_deref());
                add("mode", Some(&mode_text(directory.access.mode)));
                add("purge", directory.purge.then_some("true"));
            }
            Shape::Block(block) => {
                add("validate", block.validate.as_deref());
                add("content", Some(&block.content.show(true)));
            }
            Shape::Other { word } => add("type", Some(word)),
            Shape::Refused(refusal) => add("refused", Some(&refusal.message)),
        }
        out
    }
}

/// Permissions as people write them.
pub fn mode_text(mode: u32) -> String {
    format!("{mode:04o}")
}

fn line(head: &mut String, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        let _ = writeln!(head, "{key} {value}");
    }
}

impl Access {
    fn write(&self, head: &mut String) {
        line(head, "owner", self.owner.as_deref());
        line(head, "group", self.group.as_deref());
        line(head, "mode", Some(&mode_text(self.mode)));
    }
    fn read<'a>(get: &impl Fn(&str) -> Option<&'a str>) -> Option<Access> {
        let mode = u32::from_str_radix(get("mode")?, 8).ok()?;
        Some(Access { owner: get("owner").map(Arc::from), group: get("group").map(Arc::from), mode })
    }
}

/// Longest content that is shown whole.
const SHOWN: usize = 64 * 1024;

impl Content {
    /// Writes what stands for it; returns what stands behind the empty line.
    fn write(&self, head: &mut String) -> Option<Bytes> {
        match self {
            Content::Clear(bytes) => return Some(bytes.clone()),
            Content::Secret { name, mark } => line(head, "secret", Some(&format!("{mark} {name}"))),
            Content::Mark { mark, length } => line(head, "mark", Some(&format!("{mark} {length}"))),
        }
        None
    }
    fn read<'a>(get: &impl Fn(&str) -> Option<&'a str>, body: &[u8]) -> Option<Content> {
        if let Some((mark, name)) = get("secret").map(|text| text.split_once(' ')).unwrap_or_default() {
            return Some(Content::Secret { name: name.into(), mark: Hash::from_hex(mark)? });
        }
        if let Some((mark, length)) = get("mark").map(|text| text.split_once(' ')).unwrap_or_default() {
            return Some(Content::Mark { mark: Hash::from_hex(mark)?, length: length.parse().ok()? });
        }
        Some(Content::Clear(Bytes::copy_from_slice(body)))
    }

    /// The content, where it is text that may be shown.
    pub fn text(&self) -> Option<&str> {
        let Content::Clear(bytes) = self else { return None };
        let text = std::str::from_utf8(bytes).ok()?;
        let is_shown = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r');
        (text.len() <= SHOWN && text.chars().all(is_shown)).then_some(text)
    }

    /// The permissions of a file that says none: a secret is nobody else's.
    pub fn usual_mode(&self) -> u32 {
        match self {
            Content::Clear(_) => 0o644,
            Content::Secret { .. } | Content::Mark { .. } => 0o600,
        }
    }
    /// True for a secret that another manifest puts out.
    pub fn is_put_out(&self) -> bool {
        matches!(self, Content::Secret { name, .. } if SecretRef::Named(name.clone()).is_put_out())
    }

    /// What a plan says of it.
    pub fn show(&self, is_public: bool) -> String {
        match self {
            Content::Secret { name, .. } => format!("(secret {name})"),
            Content::Mark { length, .. } => format!("({length} bytes, not shown)"),
            Content::Clear(bytes) if !is_public => format!("({} bytes, not shown)", bytes.len()),
            Content::Clear(bytes) => match self.text() {
                Some(text) => text.to_owned(),
                None => format!("({} bytes)", bytes.len()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn access(mode: u32) -> Access {
        Access { owner: Some("root".into()), group: None, mode }
    }

    #[test]
    fn every_shape_survives_its_bytes() {
        let clear = |text: &'static str| Content::Clear(Bytes::from_static(text.as_bytes()));
        let mark = Content::Mark { mark: Hash::of(b"x"), length: 7 };
        let secret = Content::Secret { name: "a b".into(), mark: Hash::of(b"y") };
        let shapes = [
            Shape::File(File {
                access: access(0o4755),
                validate: Some("nginx".into()),
                content: clear("\n\na\n\n"),
            }),
            Shape::File(File { access: access(0o600), validate: None, content: mark.clone() }),
            Shape::File(File { access: access(0), validate: None, content: secret }),
            Shape::File(File { access: access(0o644), validate: None, content: clear("") }),
            Shape::Link { target: "../a b".into() },
            Shape::Directory(Directory { access: access(0o755), purge: true }),
            Shape::Block(Block { comment: "//".into(), validate: None, content: mark }),
            Shape::Other { word: "socket".into() },
            Shape::Refused(Refusal { kind: ErrorKind::PermissionDenied, message: "no".into(), hint: None }),
        ];
        for shape in shapes {
            assert_eq!(Shape::decode(&shape.encode()).as_ref(), Some(&shape));
        }
    }

    #[test]
    fn what_not_everyone_may_read_is_not_shown() {
        let file = |mode, content| Shape::File(File { access: access(mode), validate: None, content });
        let shown = |shape: &Shape| format!("{:?}", shape.show());
        let canary = || Content::Clear(Bytes::from_static(b"canary\n"));
        assert!(shown(&file(0o644, canary())).contains("canary"));
        assert!(!shown(&file(0o640, canary())).contains("canary"));
        assert!(shown(&file(0o640, canary())).contains("7 bytes"));
        let binary = Content::Clear(Bytes::from_static(b"\x1b[31m"));
        assert!(!shown(&file(0o644, binary)).contains("31m"));
    }

    #[test]
    fn an_id_is_a_path_or_a_block_of_one() {
        assert_eq!(parts(&"/etc/hosts".into()), ("/etc/hosts", None));
        assert_eq!(parts(&block_id("/etc/hosts", "lab")), ("/etc/hosts", Some("lab")));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), word in "(file|symlink|block|refused)") {
            let _ = Shape::decode(&bytes).map(|shape| shape.show());
            let _ = Shape::decode(&[word.as_bytes(), b"\nmode 9\nmark x\n\n", &bytes].concat());
        }
        #[test]
        fn content_of_any_bytes_survives(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let file = Shape::File(File { access: access(0o644), validate: None, content: Content::Clear(bytes.into()) });
            prop_assert_eq!(Shape::decode(&file.encode()), Some(file));
        }
    }
}
