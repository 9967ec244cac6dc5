//! `${…}` in scalars, `{sops: PATH, key: KEY}` and `{secret: "${ADDRESS:path}"}`: which ones are ours, and putting values in
//! their place. A value that is a secret is put in as `{secret: NAME}`, with a name that is made of its mark.
//!
//! Ours are `${vars.x}`, `${host.name}`, `${host.labels.x}` and `${ADDRESS:path}`; everything else (`${HOME}`,
//! `${1:-x}`) belongs to somebody else and stays. `$${` is a literal `${`. Keys and `provider` are never
//! touched, nor are fields whose schema says `x-reconciled-verbatim`.

use crate::config::HostSecrets;
use reconciled_provider::{
    Address, Node, Reference, Secret, SecretMark, Span,
    yaml::{NodeValue, ScalarKind},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What a `${…}` of ours asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Root {
    Var(Arc<str>),
    HostName,
    HostLabel(Arc<str>),
    Output(Address, Arc<str>),
    /// A value in a file of the repository that sops encrypted: path and key.
    Sealed(Arc<str>, Arc<str>),
    /// An output that counts as a secret, whatever its provider says of it.
    Secret(Address, Arc<str>),
    /// Begins like ours and is not complete.
    Malformed(Arc<str>),
    /// An address without a path that can be read, or of a part, and the whole text: ours where it names a group or a known
    /// kind.
    Addressed(Address, Arc<str>),
}

/// A `${…}` of ours and the scalar it stands in, or a mapping that names an encrypted value.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) root: Root,
    /// Where it stands first.
    pub(super) span: Span,
    /// How often it stands there.
    pub(super) times: usize,
}

/// A secret that another manifest puts out, or a text with one in it. Printed as its mark.
#[derive(Clone, Debug)]
pub(super) struct PutOut {
    pub(super) mark: SecretMark,
    pub(super) clear: Secret,
    pub(super) from: Reference,
}

impl PartialEq for PutOut {
    fn eq(&self, other: &PutOut) -> bool {
        (self.mark, &self.from) == (other.mark, &other.from)
    }
}

/// What is put in the place of a [`Root`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Put {
    /// What a person wrote somewhere.
    Value(Box<str>, ScalarKind),
    /// An output of another manifest, or a text with one in it.
    Output(Box<str>, ScalarKind, Reference),
    /// An output that is not known yet.
    Unknown(Reference),
    /// A value that the host has opened.
    Sealed(SecretMark),
    /// An output that nobody may see.
    Secret(PutOut),
    /// It is somebody else's, and stays as it is.
    AsWritten,
    /// Nothing: the problem is reported elsewhere.
    Failed,
}

impl Put {
    /// How many bytes it puts in.
    pub(super) fn len(&self) -> usize {
        match self {
            Put::Value(text, _) | Put::Output(text, ..) => text.len(),
            Put::Secret(secret) => secret.clear.reveal().len(),
            Put::Unknown(_) | Put::Sealed(_) | Put::AsWritten | Put::Failed => 0,
        }
    }

    /// The output whose value it is, or that is in it.
    pub(super) fn output(&self) -> Option<&Reference> {
        match self {
            Put::Output(_, _, from) | Put::Secret(PutOut { from, .. }) => Some(from),
            _ => None,
        }
    }

    /// The name by which a backend asks for it, and its mark, where it is a secret.
    pub(super) fn opened(&self) -> Option<(String, SecretMark)> {
        match self {
            Put::Sealed(mark) => Some((HostSecrets::name_of(*mark), *mark)),
            Put::Secret(PutOut { mark, .. }) => Some((HostSecrets::name_of_output(*mark), *mark)),
            _ => None,
        }
    }
}

enum Piece<'a> {
    Text(&'a str),
    Ours(Root, &'a str),
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut all, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            all.push(Piece::Text(&rest[..at - 1]));
            all.push(Piece::Text("${"));
            rest = &rest[at + 2..];
            continue;
        }
        let ours = rest[at + 2..].find('}').and_then(|end| {
            let inner = &rest[at + 2..at + 2 + end];
            classify(inner).map(|root| (root, at + end + 3))
        });
        match ours {
            Some((root, end)) => {
                all.push(Piece::Text(&rest[..at]));
                all.push(Piece::Ours(root, &rest[at..end]));
                rest = &rest[end..];
            }
            None => {
                all.push(Piece::Text(&rest[..at + 2]));
                rest = &rest[at + 2..];
            }
        }
    }
    all.push(Piece::Text(rest));
    all
}

pub(super) fn classify(inner: &str) -> Option<Root> {
    let is_path = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./[]=,@*".contains(c))
    };
    let malformed = || Root::Malformed(inner.into());
    if let Some(name) = inner.strip_prefix("vars.") {
        return Some(if is_path(name) { Root::Var(name.into()) } else { malformed() });
    }
    if let Some(fact) = inner.strip_prefix("host.") {
        return Some(match (fact, fact.strip_prefix("labels.")) {
            ("name", _) => Root::HostName,
            (_, Some(label)) if is_path(label) => Root::HostLabel(label.into()),
            _ => malformed(),
        });
    }
    let (address, path) = inner.rsplit_once(':').map_or((inner, ""), |(address, path)| (address, path));
    let address: Address = address.parse().ok()?;
    // A kind begins with a capital and has small letters; `${FOO/a:b}` and `${file/a.b/c}` are a shell's. One that begins
    // within another ends elsewhere.
    let is_kind = address.kind.starts_with(|c: char| c.is_ascii_uppercase())
        && address.kind.chars().any(|c| c.is_ascii_lowercase())
        && address.kind.chars().all(|c| c.is_ascii_alphanumeric());
    match is_kind && !inner.contains("${") {
        true if address.part.is_none() && is_path(path) => Some(Root::Output(address, path.into())),
        true => Some(Root::Addressed(address, inner.into())),
        false => None,
    }
}

/// Calls `visit` on every scalar of a spec that is subject to substitution.
fn scalars_mut(spec: &mut Node, verbatim: &BTreeSet<Arc<str>>, visit: &mut impl FnMut(&mut Node)) {
    if let NodeValue::Map(entries) = &mut spec.value {
        let open = |key: &Node| key.as_str().is_none_or(|word| !verbatim.contains(word));
        for (key, value) in entries.iter_mut().filter(|(key, _)| open(key)) {
            if !names_provider(key) {
                below_mut(value, visit);
            }
        }
    } else {
        below_mut(spec, visit);
    }
}

fn names_provider(key: &Node) -> bool {
    matches!(key.as_str(), Some("provider" | "providers"))
}

fn below_mut(node: &mut Node, visit: &mut impl FnMut(&mut Node)) {
    match &mut node.value {
        NodeValue::Null => {}
        NodeValue::Scalar(..) => visit(node),
        NodeValue::Seq(nodes) => nodes.iter_mut().for_each(|node| below_mut(node, visit)),
        NodeValue::Map(entries) => entries
            .iter_mut()
            .filter(|(key, _)| !names_provider(key))
            .for_each(|(_, node)| below_mut(node, visit)),
    }
}

/// What `{sops: PATH, key: KEY}` or `{secret: "${ADDRESS:path}"}` names, if the node is such a mapping.
fn sealed(node: &Node) -> Option<Root> {
    let NodeValue::Map(entries) = &node.value else { return None };
    let word = |name: &str| node.get(name)?.as_str();
    match entries.len() {
        1 => match classify(word("secret")?.strip_prefix("${")?.strip_suffix('}')?)? {
            Root::Output(address, path) => Some(Root::Secret(address, path)),
            _ => None,
        },
        2 => Some(Root::Sealed(word("sops")?.into(), word("key")?.into())),
        _ => None,
    }
}

/// Calls `visit` on every mapping that names a secret which the host does not declare.
fn sealed_mut(node: &mut Node, visit: &mut impl FnMut(Root, &mut Node)) {
    if let Some(root) = sealed(node) {
        return visit(root, node);
    }
    match &mut node.value {
        NodeValue::Null | NodeValue::Scalar(..) => {}
        NodeValue::Seq(nodes) => nodes.iter_mut().for_each(|node| sealed_mut(node, visit)),
        NodeValue::Map(entries) => entries.iter_mut().for_each(|(_, node)| sealed_mut(node, visit)),
    }
}

/// A text of a manifest that may be a template.
pub(super) enum Text {
    /// It stands in the scalar itself.
    Here,
    /// The scalar names a file; what it comes to goes to this field.
    Of(Arc<str>),
}

/// Calls `visit` on every scalar of a spec that is never substituted, and on that which names a file with such a text.
pub(super) fn texts_mut(
    spec: &mut Node,
    verbatim: &BTreeSet<Arc<str>>,
    file: Option<&(Arc<str>, Arc<str>)>,
    visit: &mut impl FnMut(Text, &mut Node),
) {
    let NodeValue::Map(entries) = &mut spec.value else { return };
    for (key, value) in entries.iter_mut() {
        let Some(word) = key.as_str() else { continue };
        match file {
            Some((from, to)) if **from == *word => visit(Text::Of(to.clone()), value),
            _ if verbatim.contains(word) => within(value, visit),
            _ => {}
        }
    }
}

fn within(node: &mut Node, visit: &mut impl FnMut(Text, &mut Node)) {
    match &mut node.value {
        NodeValue::Null => {}
        NodeValue::Scalar(..) => visit(Text::Here, node),
        NodeValue::Seq(nodes) => nodes.iter_mut().for_each(|node| within(node, visit)),
        NodeValue::Map(entries) => entries.iter_mut().for_each(|(_, node)| within(node, visit)),
    }
}

/// Every distinct token of a spec, with the first place it is used at.
pub(super) fn tokens(spec: &mut Node, verbatim: &BTreeSet<Arc<str>>) -> Vec<Token> {
    let (mut all, mut seen) = (Vec::<Token>::new(), BTreeMap::new());
    let mut note = |root: Root, span| {
        let index = *seen.entry(root).or_insert_with_key(|root| {
            all.push(Token { root: root.clone(), span, times: 0 });
            all.len() - 1
        });
        all[index].times += 1;
    };
    scalars_mut(spec, verbatim, &mut |node| {
        let Some(text) = node.as_str().filter(|text| text.contains("${")) else { return };
        for piece in pieces(text) {
            let Piece::Ours(root, _) = piece else { continue };
            note(root, node.span);
        }
    });
    sealed_mut(spec, &mut |root, node| note(root, node.span));
    all
}

/// Places of scalars whose value is not what a person wrote, nor what it will be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Gaps {
    /// Something failed.
    pub(super) failed: Vec<Span>,
    /// A part is not known yet.
    pub(super) unknown: Vec<Span>,
    /// A secret that another manifest puts out was put in.
    pub(super) secrets: Vec<Placed>,
}

/// A place that a secret which another manifest puts out was put into.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placed {
    pub(super) span: Span,
    pub(super) from: Reference,
    /// The name that stands there; none where the secret would be a part of a text.
    pub(super) name: Option<String>,
}

/// The mapping that backends read as a secret.
pub(super) fn named(name: &str, span: Span) -> Node {
    let scalar = |text: &str| Node { span, value: NodeValue::Scalar(text.into(), ScalarKind::Str) };
    Node { span, value: NodeValue::Map(vec![(scalar("secret"), scalar(name))]) }
}

/// Puts values into a spec.
pub(super) fn substitute(spec: &mut Node, verbatim: &BTreeSet<Arc<str>>, put: &dyn Fn(&Root) -> Put) -> Gaps {
    let mut gaps = Gaps::default();
    sealed_mut(spec, &mut |root, node| {
        let span = node.span;
        *node = match put(&root) {
            Put::Secret(secret) => gaps.place(secret, span),
            // It stands as it is written: consent is given to that.
            Put::Unknown(reference) => {
                gaps.unknown.push(span);
                let written = node.get("secret").and_then(Node::as_str).unwrap_or_default();
                let kind = ScalarKind::Unknown([reference].into());
                Node { span, value: NodeValue::Scalar(written.into(), kind) }
            }
            put => {
                // What failed is told once: a secret without a value stands in for it.
                let opened = put.opened();
                if opened.is_none() {
                    gaps.failed.push(span);
                }
                named(opened.as_ref().map_or(HostSecrets::NO_NAME, |(name, _)| name), span)
            }
        };
    });
    scalars_mut(spec, verbatim, &mut |node| {
        let NodeValue::Scalar(text, kind) = &mut node.value else { return };
        if !text.contains("${") {
            return;
        }
        let span = node.span;
        match replaced(text, usize::MAX, put) {
            Replaced::Text(new, new_kind) => {
                *text = new;
                if let Some(new_kind) = new_kind {
                    if matches!(new_kind, ScalarKind::Unknown(_)) {
                        gaps.unknown.push(span);
                    }
                    *kind = new_kind;
                }
            }
            Replaced::Secret(secret) => *node = gaps.place(secret, span),
            Replaced::Holds(from) => gaps.secrets.push(Placed { span, from, name: None }),
            Replaced::Failed => gaps.failed.push(span),
        }
    });
    gaps
}

impl Gaps {
    /// Notes that a secret stands at `span`; returns what stands there.
    pub(super) fn place(&mut self, secret: PutOut, span: Span) -> Node {
        let name = HostSecrets::name_of_output(secret.mark);
        let node = named(&name, span);
        self.secrets.push(Placed { span, from: secret.from, name: Some(name) });
        node
    }
}

/// What a text comes to.
#[derive(Debug, PartialEq)]
pub(super) enum Replaced {
    /// The text with values in place, and its kind where that changes.
    Text(Box<str>, Option<ScalarKind>),
    /// It is nothing but a secret.
    Secret(PutOut),
    /// A secret would be a part of it.
    Holds(Reference),
    /// Something failed.
    Failed,
}

/// The text with values in place. It ends soon after it comes to more than `most` bytes.
pub(super) fn replaced(text: &str, most: usize, put: &dyn Fn(&Root) -> Put) -> Replaced {
    let (mut new, mut unknown) = (String::with_capacity(text.len()), Vec::new());
    for piece in pieces(text) {
        if new.len() > most {
            break;
        }
        match piece {
            Piece::Text(text) => new.push_str(text),
            Piece::Ours(root, written) => match put(&root) {
                // A scalar that is nothing but one value takes that value's kind: a number stays a number.
                Put::Value(value, kind) | Put::Output(value, kind, _) if written.len() == text.len() => {
                    return Replaced::Text(value, Some(kind));
                }
                Put::Secret(secret) if written.len() == text.len() => return Replaced::Secret(secret),
                Put::Secret(secret) => return Replaced::Holds(secret.from),
                Put::Value(value, _) | Put::Output(value, ..) => new.push_str(&value),
                Put::Unknown(reference) => {
                    new.push_str(written);
                    unknown.push(reference);
                }
                Put::AsWritten => new.push_str(written),
                Put::Failed | Put::Sealed(_) => return Replaced::Failed,
            },
        }
    }
    let kind = (!unknown.is_empty()).then(|| ScalarKind::Unknown(unknown.into()));
    Replaced::Text(new.into(), kind)
}

/// The kind a plain scalar with this text would have: outputs come as text.
pub(super) fn kind_of(text: &str) -> ScalarKind {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    match text {
        "true" | "false" => ScalarKind::Bool,
        // A leading zero is part of a code, not of a number.
        _ if is_whole && (digits.len() == 1 || !digits.starts_with('0')) => ScalarKind::Int,
        _ => ScalarKind::Str,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::{
        ManifestKey, SourceFile,
        yaml::{Limits, parse},
    };

    fn put(root: &Root) -> Put {
        match root {
            Root::Var(name) if &**name == "ttl" => Put::Value("60".into(), ScalarKind::Int),
            Root::Var(name) if &**name == "d" => Put::Value("example.com".into(), ScalarKind::Str),
            Root::HostName => Put::Value("h1".into(), ScalarKind::Str),
            Root::Addressed(..) => Put::AsWritten,
            Root::Output(address, path) => Put::Unknown(Reference {
                target: ManifestKey(address.to_string().into()),
                path: path.clone(),
            }),
            _ => Put::Failed,
        }
    }

    #[test]
    fn ours_are_replaced_and_the_rest_is_left_alone() {
        let check = |text: &str, expect: Option<&str>| {
            let text_of = |replaced| match replaced {
                Replaced::Text(text, _) => Some(text),
                _ => None,
            };
            assert_eq!(text_of(replaced(text, usize::MAX, &put)).as_deref(), expect, "{text}");
        };
        check("a.${vars.d}", Some("a.example.com"));
        check("${host.name}.${vars.d}:${vars.ttl}", Some("h1.example.com:60"));
        check("${HOME}/${1:-x} ${host} ${vars}", Some("${HOME}/${1:-x} ${host} ${vars}"));
        check("${FOO/a:b}", Some("${FOO/a:b}"));
        check("${Foo/a} ${Foo/${vars.d}}", Some("${Foo/a} ${Foo/example.com}"));
        check("$${vars.d} $$${HOME}", Some("${vars.d} $${HOME}"));
        check("${vars.d", Some("${vars.d"));
        check("${vars.nope}", None);
        check("${host.nope}", None);
        check("x${SqsQueue.aws/jobs:status.arn}", Some("x${SqsQueue.aws/jobs:status.arn}"));
    }

    #[test]
    fn a_single_value_keeps_its_kind_and_an_unknown_part_makes_the_whole_unknown() {
        let kind = |text: &str| match replaced(text, usize::MAX, &put) {
            Replaced::Text(_, kind) => kind,
            other => panic!("{other:?}"),
        };
        assert_eq!(kind("${vars.ttl}"), Some(ScalarKind::Int));
        assert_eq!(kind("${vars.ttl}s"), None);
        let Some(ScalarKind::Unknown(references)) = kind("${vars.d}/${Zone/a:serial}") else { panic!() };
        assert_eq!((&*references[0].target.0, &*references[0].path), ("Zone/a", "serial"));
    }

    #[test]
    fn keys_provider_and_verbatim_fields_are_never_touched() {
        let file = SourceFile::new(
            "a.yaml",
            "'${vars.d}': '${vars.d}'\nprovider: '${vars.d}'\ncontent: '$${x}'\nl: [{provider: '${vars.d}', v: '${vars.ttl}'}]\n",
        );
        let mut node = parse(&file, Limits::default()).unwrap().remove(0);
        let verbatim = BTreeSet::from(["content".into()]);
        assert_eq!(tokens(&mut node, &verbatim).len(), 2);
        assert_eq!(substitute(&mut node, &verbatim, &put), Gaps::default());
        let shown: Vec<_> = node.entries().iter().map(|(k, v)| (k.as_str().unwrap(), v.as_str())).collect();
        assert_eq!(shown[0], ("${vars.d}", Some("example.com")));
        assert_eq!(shown[1], ("provider", Some("${vars.d}")));
        assert_eq!(shown[2], ("content", Some("$${x}")));
        assert_eq!(node.get("l").unwrap().elements()[0].get("provider").unwrap().as_str(), Some("${vars.d}"));
        assert_eq!(node.get("l").unwrap().elements()[0].get("v").unwrap().as_str(), Some("60"));
    }

    #[test]
    fn outputs_take_the_kind_they_look_like() {
        for (text, kind) in [
            ("12", ScalarKind::Int),
            ("-3", ScalarKind::Int),
            ("012", ScalarKind::Str),
            ("true", ScalarKind::Bool),
            ("a", ScalarKind::Str),
            ("-", ScalarKind::Str),
        ] {
            assert_eq!(kind_of(text), kind, "{text}");
        }
    }
}
