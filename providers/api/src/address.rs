//! Addresses, one grammar everywhere: `[NAMESPACE/]KIND[.GROUP]/NAME[#PART]`.

use crate::name::ManifestKey;
use std::{fmt, ops::Deref, str::FromStr, sync::Arc};

/// What a person types and reads to name a manifest or one resource of it: the [`Whole`], whose fields it has, and a part.
///
/// ```
/// use reconciled_provider::Address;
/// let address: Address = "prod/Certificate.cert-manager.io/web#dns".parse().unwrap();
/// assert_eq!(&*address.kind, "Certificate");
/// assert_eq!(address.group.as_deref(), Some("cert-manager.io"));
/// assert_eq!(address.part.as_deref(), Some("dns"));
/// assert_eq!(address.to_string(), "prod/Certificate.cert-manager.io/web#dns");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// What the manifest is called. The addresses of its thousands of parts share it.
    pub whole: Arc<Whole>,
    /// Part of the manifest: one resource of several, such as `www/A`.
    pub part: Option<Arc<str>>,
}

/// What a person types and reads to name a manifest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Whole {
    /// Namespace, if one is named.
    pub namespace: Option<Arc<str>>,
    /// Kind, such as `Zone`.
    pub kind: Arc<str>,
    /// API group without version, if one is named.
    pub group: Option<Arc<str>>,
    /// Name of the manifest.
    pub name: Arc<str>,
}

impl From<Whole> for Address {
    fn from(whole: Whole) -> Address {
        Address { whole: whole.into(), part: None }
    }
}

impl Deref for Address {
    type Target = Whole;
    fn deref(&self) -> &Whole {
        &self.whole
    }
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError(String);

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not an address: write [NAMESPACE/]KIND[.GROUP]/NAME[#PART], as in Zone/example.com#www/A",
            self.0
        )
    }
}

impl std::error::Error for AddressError {}

impl Address {
    /// The address of a manifest, in its short form: the group is left out.
    pub fn of(key: &ManifestKey, part: Option<Arc<str>>) -> Address {
        let namespace = Some(key.namespace()).filter(|n| !n.is_empty()).map(Arc::from);
        let whole = Whole { namespace, kind: key.kind().into(), group: None, name: key.name().into() };
        Address { whole: whole.into(), part }
    }
    /// The address of the manifest.
    pub fn without_part(&self) -> Address {
        Address { whole: self.whole.clone(), part: None }
    }
    /// The same, with this group named, or none.
    pub fn in_group(&self, group: Option<Arc<str>>) -> Address {
        if self.group == group {
            return self.clone();
        }
        Address { whole: Whole { group, ..Whole::clone(self) }.into(), part: self.part.clone() }
    }
}

impl FromStr for Address {
    type Err = AddressError;
    fn from_str(text: &str) -> Result<Address, AddressError> {
        let error = || AddressError(text.to_string());
        let (path, part) = match text.split_once('#') {
            Some((path, part)) => (path, Some(part)),
            None => (text, None),
        };
        let (first, rest) = path.split_once('/').ok_or_else(error)?;
        // Kinds begin with a capital, namespaces never do; a name may hold slashes (RFC 2317 zones), and none of those begins
        // like a kind. A wildcard may begin either.
        let is_wild = |text: &str| text.starts_with(['*', '?']);
        let is_kind = |text: &str| text.starts_with(|c: char| c.is_ascii_uppercase()) || is_wild(text);
        let (namespace, kind, name) = match rest.split_once('/') {
            Some((kind, name)) if !is_kind(first) || is_wild(first) && is_kind(kind) => {
                (Some(first), kind, name)
            }
            _ if is_kind(first) => (None, first, rest),
            _ => return Err(error()),
        };
        let (kind, group) = match kind.split_once('.') {
            Some((kind, group)) => (kind, Some(group)),
            None => (kind, None),
        };
        if kind.is_empty()
            || name.is_empty()
            || part == Some("")
            || group == Some("")
            || namespace == Some("")
        {
            return Err(error());
        }
        let (namespace, group) = (namespace.map(Arc::from), group.map(Arc::from));
        let whole = Whole { namespace, kind: kind.into(), group, name: name.into() };
        Ok(Address { whole: whole.into(), part: part.map(Arc::from) })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Piece by piece: a plan of many thousand records shows as many addresses.
        if let Some(namespace) = &self.namespace {
            f.write_str(namespace)?;
            f.write_str("/")?;
        }
        f.write_str(&self.kind)?;
        if let Some(group) = &self.group {
            f.write_str(".")?;
            f.write_str(group)?;
        }
        f.write_str("/")?;
        f.write_str(&self.name)?;
        if let Some(part) = &self.part {
            f.write_str("#")?;
            f.write_str(part)?;
        }
        Ok(())
    }
}

/// An address in which `*` and `?` stand for anything; what is left out matches everything.
///
/// ```
/// use reconciled_provider::Pattern;
/// let pattern: Pattern = "Zone/*.example.com".parse().unwrap();
/// assert!(pattern.matches(&"Zone/a.example.com#www/A".parse().unwrap(), "dns"));
/// assert!(!pattern.matches(&"Zone/example.org".parse().unwrap(), "dns"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(pub Address);

impl FromStr for Pattern {
    type Err = AddressError;
    fn from_str(text: &str) -> Result<Pattern, AddressError> {
        text.parse().map(Pattern)
    }
}

impl Pattern {
    /// True when `address`, whose manifest is of `group`, is among those meant.
    pub fn matches(&self, address: &Address, group: &str) -> bool {
        let optional =
            |pattern: &Option<Arc<str>>, text: &str| pattern.as_ref().is_none_or(|p| glob(p, text));
        let part = match (&self.0.part, &address.part) {
            (None, _) => true,
            (Some(pattern), Some(part)) => glob(pattern, part),
            (Some(_), None) => false,
        };
        part && glob(&self.0.kind, &address.kind)
            && glob(&self.0.name, &address.name)
            && optional(&self.0.group, group)
            && optional(&self.0.namespace, address.namespace.as_deref().unwrap_or(""))
    }
    /// True when the pattern means a part of manifests, not manifests as a whole.
    pub fn names_part(&self) -> bool {
        self.0.part.is_some()
    }
}

/// Matches `text` against `pattern`, in which `*` is any run of characters and `?` any one.
///
/// ```
/// use reconciled_provider::address::glob;
/// assert!(glob("*.example.com", "www.example.com"));
/// assert!(!glob("*.example.com", "example.com"));
/// ```
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    is_meant(&pattern, &text, '*', '?')
}

/// Whether a pattern of `list` means `text`, and none with `!` does (ssh_config(5), PATTERNS). Case counts, and `?` is any one
/// byte, as OpenSSH has it. Blanks beside a comma are of no pattern.
///
/// ```
/// use reconciled_provider::address::pattern_list;
/// assert!(pattern_list("*.example,!bad.example", "git.example"));
/// assert!(!pattern_list("*.example,!bad.example", "bad.example"));
/// assert!(!pattern_list("!bad.example", "git.example"));
/// ```
pub fn pattern_list(list: &str, text: &str) -> bool {
    let is_this = |pattern: &str| is_meant(pattern.as_bytes(), text.as_bytes(), b'*', b'?');
    let mut is_listed = false;
    for pattern in list.split(',').map(str::trim_ascii) {
        match pattern.strip_prefix('!') {
            Some(pattern) if is_this(pattern) => return false,
            None if is_this(pattern) => is_listed = true,
            _ => {}
        }
    }
    is_listed
}

/// Goes back to the last `run` only, so it is linear in practice.
fn is_meant<T: PartialEq>(pattern: &[T], text: &[T], run: T, one: T) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut last = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(c) if *c == run => {
                last = Some((p, t));
                p += 1;
            }
            Some(c) if *c == one || *c == text[t] => (p, t) = (p + 1, t + 1),
            _ => {
                let Some((at, from)) = last else { return false };
                last = Some((at, from + 1));
                (p, t) = (at + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|c| *c == run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_grammar_reads_every_form() {
        for text in [
            "Zone/example.com",
            "Zone/example.com#www/A",
            "ns/Zone.dns/a",
            "SqsQueue.aws/jobs",
            "Zone/0/25.2.0.192.in-addr.arpa",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "Zone", "Zone/", "/a", "zone/a", "Zone/a#", "Zone./a"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_pattern_without_part_means_every_part_and_one_with_a_part_only_those() {
        let deny: Pattern = "Zone/*#@/NS".parse().unwrap();
        assert!(deny.matches(&"Zone/a.example#@/NS".parse().unwrap(), "dns"));
        assert!(!deny.matches(&"Zone/a.example#@/A".parse().unwrap(), "dns"));
        assert!(!deny.matches(&"Zone/a.example".parse().unwrap(), "dns"));
    }

    #[test]
    fn a_wildcard_before_a_kind_means_every_namespace() {
        let check = |pattern: &str, address: &str, is_meant: bool| {
            let meant: Pattern = pattern.parse().unwrap();
            assert_eq!(meant.matches(&address.parse().unwrap(), "local"), is_meant, "{pattern} {address}");
            assert_eq!(meant.0.to_string(), pattern);
        };
        for pattern in ["*/File/f", "*/File/*", "*/*/*", "*/F*/f", "*/?ile.local/f"] {
            check(pattern, "a/File/f", true);
            check(pattern, "File/f", true);
        }
        check("?/File/f", "a/File/f", true);
        check("?/File/f", "File/f", false);
        check("*/File/f", "a/Unit/f", false);
        // The name of a zone below a delegated part of a network (RFC 2317) is no kind.
        check("*/0/25.2.0.192.in-addr.arpa", "Zone/0/25.2.0.192.in-addr.arpa", true);
        check("*/f", "a/File/f", true);
        check("F*/f", "a/File/f", true);
    }

    #[test]
    fn a_pattern_list_means_what_ssh_means() {
        for (text, list, is_meant) in [
            ("git", "git", true),
            ("git", "file,g?t", true),
            ("git", "*,!git", false),
            ("git", "!file", false),
            ("ada@example.com", "*@example.com", true),
            ("ada@example.com.evil", "*@example.com", false),
            ("", "*", true),
            ("aab", "*ab", true),
            // A letter of two bytes is two.
            ("é", "?", false),
            ("é", "??", true),
        ] {
            assert_eq!(pattern_list(list, text), is_meant, "{text} {list}");
        }
    }

    proptest! {
        #[test]
        fn a_text_matches_itself_and_the_star(text in "[a-z./]{0,12}") {
            prop_assert!(glob(&text, &text));
            prop_assert!(glob("*", &text));
            let (pattern, wider) = (format!("*{text}*"), format!("x{text}y"));
            prop_assert!(glob(&pattern, &wider));
        }
    }
}
