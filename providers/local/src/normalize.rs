//! Manifests to resources. Pure: nothing here looks at the host.

use crate::{
    Config, block,
    hands::{LARGEST, unknown_command},
    kind::{API_VERSION, DIRECTORY, DirectorySpec, FILE, FileSpec},
    path::FilePath,
    state::{Access, Block, Content, Directory, File, Shape, block_id, parts},
};
use bytes::Bytes;
use reconciled_provider::{
    At, Error, Hash, Inputs, Manifest, Normalized, Problem, Reference, Resource, ResourceId, Scope,
    SecretMark, SecretRef, Span, Spec,
    yaml::{Node, NodeValue, ScalarKind, TextOr},
};
use std::sync::Arc;

/// The name of the scope that all files of a host are in.
pub const FILES: &str = "files";

/// Turns a manifest of this family into its resource.
pub fn normalize(config: &Config, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
    let is_ours = &*manifest.api_version == API_VERSION && matches!(&*manifest.kind, FILE | DIRECTORY);
    if !is_ours || !manifest.is_for(inputs.entry(), inputs.is_sole()) {
        return Normalized::default();
    }
    let mut cx = Reader { config, manifest, inputs, problems: Vec::new(), waits_for: Vec::new() };
    let mut out = Normalized::default();
    let scope = Arc::new(Scope::new(inputs.entry(), FILES));
    let found = match &*manifest.kind {
        FILE => cx.file(),
        _ => cx.directory().map(|(path, directory)| {
            if directory.purge {
                out.exclusive.push((*scope).clone());
                out.ignored.push(((*scope).clone(), path.as_str().into()));
                // What certificates are put into is declared, though not as files.
                let of_certificates = certificates(config, inputs).into_iter();
                let inside = of_certificates
                    .filter(|(_, at)| at == path.as_str() || at.starts_with(&format!("{path}/")));
                out.ignored
                    .extend(inside.flat_map(|(_, at)| own_rules(&at)).map(|rule| ((*scope).clone(), rule)));
            }
            (path.as_str().into(), Shape::Directory(directory), manifest.span)
        }),
    };
    out.problems = cx.problems;
    let Some((id, shape, span)) = found.filter(|_| !out.problems.iter().any(Problem::is_error)) else {
        return out;
    };
    let bytes = shape.encode();
    let spec = match cx.waits_for.is_empty() {
        true => Spec::resolved(bytes, Hash::of(&without_marks(&shape).encode())),
        // Texts that are not known yet still hold their references: this is what a person wrote.
        false => Spec::waiting(Hash::of(&without_marks(&shape).encode()), cx.waits_for),
    };
    let policy = inputs.policy(manifest.policy.clone());
    // Blocks share their file: it is the file that somebody else may write as well.
    let (path, _) = parts(&id);
    out.remotes.push((scope.clone(), path.into(), remote(path)));
    out.resources.push(Resource::new(id, scope, spec, manifest.origin(span), policy));
    out
}

/// What a path is called across scopes: a file and a balancer may both come to it, from any source.
pub(crate) fn remote(path: &str) -> Arc<str> {
    format!("the path {path}").into()
}

/// Names and directories of the certificates of the same source, where they are put into this very machine.
fn certificates(config: &Config, inputs: &dyn Inputs) -> Vec<(Arc<str>, String)> {
    let is_machine = config.root.as_os_str() == "/";
    let directory = |other: &Manifest| {
        let at = other.spec.get("output")?.get("directory")?.as_str()?.to_owned();
        Some((other.name.clone(), at))
    };
    let all = inputs.siblings(CERTIFICATE).into_iter();
    all.filter(|_| is_machine).filter_map(directory).collect()
}

/// The certificate that is put at `path`, if it is one.
pub(crate) fn certificate_at(config: &Config, inputs: &dyn Inputs, path: &FilePath) -> Option<Arc<str>> {
    let is_there = |at: &String| {
        *at == path.as_str() || *at == path.parent() && CERTIFICATE_FILES.contains(&path.name())
    };
    certificates(config, inputs).into_iter().find(|(_, at)| is_there(at)).map(|(name, _)| name)
}

/// The kind of certificates, and the names of their files.
const CERTIFICATE: &str = "Certificate";
const CERTIFICATE_FILES: [&str; 5] = ["tls.crt", "tls.key", "ca.crt", "tls-combined.pem", "keystore.p12"];

/// The rules that leave a certificate its files in a directory that is purged.
fn own_rules(directory: &str) -> Vec<Arc<str>> {
    let files = CERTIFICATE_FILES.iter().map(|name| left_rule(&format!("{directory}/{name}")));
    // Its versions, and the link that is switched between them.
    files.chain([format!("{LEFT_BELOW}{directory}/..")]).map(Arc::from).collect()
}

/// Begins a rule that leaves everything alone whose path begins as it goes on.
pub(crate) const LEFT_BELOW: &str = "!!";

/// The spec of these bytes, unless texts in them still hold references whose values are not known.
pub(crate) fn known_or_waiting(bytes: Vec<u8>, on: &[Reference]) -> Spec {
    match on.is_empty() {
        true => Spec::known(bytes),
        false => Spec::waiting(Hash::of(&bytes), on),
    }
}

/// The rule that leaves `path` to another scope, also where the directory it is in is purged.
pub(crate) fn left_rule(path: &str) -> String {
    format!("!{path}")
}

/// References anywhere below `node` whose values are not known.
pub(crate) fn unknown(node: &Node) -> Vec<Reference> {
    match &node.value {
        NodeValue::Scalar(_, ScalarKind::Unknown(references)) => references.to_vec(),
        NodeValue::Seq(nodes) => nodes.iter().flat_map(unknown).collect(),
        NodeValue::Map(entries) => entries.iter().flat_map(|(_, value)| unknown(value)).collect(),
        NodeValue::Scalar(..) | NodeValue::Null => Vec::new(),
    }
}

/// What a person wrote: the name of a secret, whatever its value is today.
fn without_marks(shape: &Shape) -> Shape {
    let mut shape = shape.clone();
    if let Shape::File(File { content, .. }) | Shape::Block(Block { content, .. }) = &mut shape
        && let Content::Secret { mark, .. } = content
    {
        *mark = Hash::default();
    }
    shape
}

/// What is declared at `path` by a file of the same source as a whole, if anything is.
pub(crate) fn declared_at(config: &Config, inputs: &dyn Inputs, path: &FilePath) -> Option<Hash> {
    let is_there = |other: &&Manifest| {
        let at = other.spec.get("path").and_then(Node::as_str);
        at == Some(path.as_str()) && other.is_for(inputs.entry(), inputs.is_sole())
    };
    let mut all = Vec::new();
    for manifest in inputs.siblings(FILE).into_iter().filter(is_there) {
        let (problems, waits_for) = (Vec::new(), Vec::new());
        let (_, shape, _) = Reader { config, manifest, inputs, problems, waits_for }.file()?;
        // A secret that is rotated is no other declaration: that it changed is seen in the file.
        all.extend(Hash::of(&without_marks(&shape).encode()).0);
    }
    (!all.is_empty()).then(|| Hash::of(&all))
}

struct Reader<'a> {
    config: &'a Config,
    manifest: &'a Manifest,
    inputs: &'a dyn Inputs,
    problems: Vec<Problem>,
    waits_for: Vec<Reference>,
}

impl Reader<'_> {
    fn refuse(&mut self, span: Span, message: impl Into<String>, hint: &str) {
        self.problems.push(self.manifest.error(span, message).hint(hint));
    }

    fn report(&mut self, span: Span, error: Error) {
        self.problems.push(Problem::from(&error).at(&self.manifest.file, span));
    }

    fn file(&mut self) -> Option<(ResourceId, Shape, Span)> {
        let (spec, problems) = self.manifest.spec::<FileSpec>();
        self.problems.extend(problems);
        let spec = spec?;
        let path = self.path(&spec.path);
        if let Some(other) = path.as_ref().and_then(|path| certificate_at(self.config, self.inputs, path)) {
            let message = format!("{} is written by Certificate/{other} as well", spec.path.value);
            let hint = "a certificate has its files to itself: leave one of the two out";
            self.refuse(spec.path.span, message, hint);
        }
        let validate = self.validate(spec.validate.as_ref());
        if let Some(target) = &spec.symlink {
            self.excludes(
                "symlink",
                &[
                    ("content", spec.content.as_ref().map(|at| at.span)),
                    ("from", span(&spec.from)),
                    ("owner", span(&spec.owner)),
                    ("group", span(&spec.group)),
                    ("mode", span(&spec.mode)),
                    ("validate", span(&spec.validate)),
                    ("block", span(&spec.block)),
                    ("comment", span(&spec.comment)),
                ],
            );
            let target = self.target(target);
            return Some((path?.as_str().into(), Shape::Link { target: target? }, spec.path.span));
        }
        let content = self.content(&spec);
        let Some(name) = &spec.block else {
            if let Some(comment) = &spec.comment {
                self.refuse(
                    comment.span,
                    "`comment` is for a block",
                    "write block: NAME as well, or leave it out",
                );
            }
            let content = content?;
            let access = self.access(&spec.owner, &spec.group, &spec.mode, content.usual_mode())?;
            if access.is_public() && content.is_put_out() {
                self.refuse(
                    span(&spec.mode).unwrap_or(spec.path.span),
                    "the content is a secret that another manifest puts out, and everybody may read this file",
                    "write mode: \"0600\"",
                );
            }
            let file = File { access, validate, content };
            return Some((path?.as_str().into(), Shape::File(file), spec.path.span));
        };
        self.excludes(
            "block",
            &[("owner", span(&spec.owner)), ("group", span(&spec.group)), ("mode", span(&spec.mode))],
        );
        let (name, comment) = (self.block_name(name), self.comment(spec.comment.as_ref()));
        let (name, content) = (name?, content?);
        if let Content::Clear(bytes) = &content
            && !matches!(block::find(bytes, &name), Ok(None))
        {
            let at = spec.content.as_ref().map_or(spec.path.span, |at| at.span);
            self.refuse(
                at,
                "the content of the block has a marker line of the block in it",
                "leave the markers out",
            );
        }
        let content = match content {
            Content::Clear(bytes) => Content::Clear(block::with_line_end(&bytes).into()),
            other => other,
        };
        let block = Block { comment: comment?, validate, content };
        Some((block_id(path?.as_str(), &name), Shape::Block(block), spec.path.span))
    }

    fn directory(&mut self) -> Option<(FilePath, Directory)> {
        let (spec, problems) = self.manifest.spec::<DirectorySpec>();
        self.problems.extend(problems);
        let spec = spec?;
        let path = self.path(&spec.path);
        let access = self.access(&spec.owner, &spec.group, &spec.mode, 0o755);
        let path = path?;
        for (key, at) in [("owner", &spec.owner), ("group", &spec.group), ("mode", &spec.mode)] {
            if let Some(at) = at.as_ref().filter(|_| self.config.is_above_reserved(&path)) {
                let message =
                    format!("`{key}` of {path} decides about what is below it: reconciled's own, or units");
                self.refuse(at.span, message, "leave it out: the directory is that of reconciled, 0755");
            }
        }
        // Unit files and the links that enable them are declared as units, which this scope knows nothing of.
        if spec.purge && self.config.has_units_below(&path) {
            let message = format!("{path} cannot be purged: units and the links of systemd are in it");
            self.refuse(spec.path.span, message, "purge a directory that is yours alone");
            return None;
        }
        if spec.purge && self.config.has_own_below(&path) {
            let message =
                format!("{path} cannot be purged: state, configuration or copies of reconciled are in it");
            self.refuse(spec.path.span, message, "purge a directory that is yours alone");
            return None;
        }
        Some((path, Directory { access: access?, purge: spec.purge }))
    }

    /// Two ways to say what a path is cannot stand side by side.
    fn excludes(&mut self, word: &str, others: &[(&str, Option<Span>)]) {
        for (other, span) in others {
            if let Some(span) = span {
                let message = format!("`{other}` has no meaning beside `{word}`");
                self.refuse(*span, message, "leave one of the two out");
            }
        }
    }

    fn path(&mut self, text: &At<String>) -> Option<FilePath> {
        if !text.unknown.is_empty() {
            self.refuse(
                text.span,
                "a path cannot depend on an output of another manifest",
                "write the path out; only values may be references",
            );
            return None;
        }
        let path = match FilePath::parse(&text.value) {
            Ok(path) => path,
            Err(why) => {
                let message = format!("`{}` {why}", text.value.escape_debug());
                self.refuse(text.span, message, "write an absolute path such as /etc/motd");
                return None;
            }
        };
        if self.config.is_reserved(&path) {
            let message = format!("`{path}` is state, configuration or copies of reconciled itself");
            self.refuse(text.span, message, "it is managed on the host, and never by what a repository says");
            return None;
        }
        if self.config.is_of_units(&path) {
            let message = format!("`{path}` is where systemd loads units from");
            self.refuse(
                text.span,
                message,
                "declare it with kind: Unit of systemd/v1 (content, dropIns, enabled), for an entry with `bus`",
            );
            return None;
        }
        if !self.config.allows(&path) {
            let allowed = self.config.paths.join(", ");
            let message =
                format!("`{path}` is not below any of the directories in which files may be managed");
            let hint = format!("the host allows {allowed}: `paths` of provider `{}`", self.inputs.entry());
            self.refuse(text.span, message, &hint);
            return None;
        }
        Some(path)
    }

    /// The text of a field that may wait for another manifest.
    fn text<'t>(&mut self, text: &'t At<String>) -> &'t str {
        self.waits_for.extend(text.unknown.iter().cloned());
        &text.value
    }

    fn access(
        &mut self,
        owner: &Option<At<String>>,
        group: &Option<At<String>>,
        mode: &Option<At<String>>,
        default: u32,
    ) -> Option<Access> {
        let owner = self.account("user", owner.as_ref());
        let group = self.account("group", group.as_ref());
        let mode = match mode {
            Some(mode) => self.mode(mode),
            None => Some(default),
        };
        Some(Access { owner: owner?, group: group?, mode: mode? })
    }

    fn account(&mut self, what: &str, name: Option<&At<String>>) -> Option<Option<Arc<str>>> {
        let Some(at) = name else { return Some(None) };
        let is_known = at.unknown.is_empty();
        let name = self.text(at);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.@$".contains(c);
        if is_known && (name.is_empty() || name.len() > 64 || !name.chars().all(is_plain)) {
            let message = format!("`{}` is no name of a {what}", name.escape_debug());
            self.refuse(at.span, message, "write a name such as www-data, or a number");
            return None;
        }
        Some(Some(name.into()))
    }

    fn mode(&mut self, at: &At<String>) -> Option<u32> {
        let is_known = at.unknown.is_empty();
        let text = self.text(at);
        if !is_known {
            return Some(0);
        }
        let digits = text.strip_prefix("0o").unwrap_or(text);
        let mode = u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o7777);
        // 644 may be octal or a decimal number that a person worked out: both are in use.
        let is_plain = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
        if mode.is_none() || !is_plain {
            let message = format!("`{}` are no permissions", text.escape_debug());
            self.refuse(at.span, message, "write four octal digits, such as \"0644\"");
            return None;
        }
        mode
    }

    fn validate(&mut self, name: Option<&At<String>>) -> Option<Arc<str>> {
        let at = name?;
        if !at.unknown.is_empty() {
            self.refuse(at.span, "the name of a command cannot be a reference", "write the name out");
            return None;
        }
        let name = at.value.as_str();
        let Some(commands) = &self.config.commands else {
            // Names of commands are those of a host, which is not known here.
            return Some(name.into());
        };
        if !commands.contains_key(name) {
            self.report(at.span, unknown_command(name, commands.keys().map(|known| &**known)));
        }
        Some(name.into())
    }

    fn target(&mut self, at: &At<String>) -> Option<Arc<str>> {
        let target = self.text(at);
        if target.is_empty() || target.len() > 4_095 || target.contains(|c: char| c.is_control()) {
            let message = format!("`{}` is nowhere a link can lead", target.escape_debug());
            self.refuse(at.span, message, "write a path");
            return None;
        }
        Some(target.into())
    }

    fn block_name(&mut self, at: &At<String>) -> Option<Arc<str>> {
        let name = at.value.as_str();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if !at.unknown.is_empty() || name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            let message = format!("`{}` is no name of a block", name.escape_debug());
            self.refuse(at.span, message, "use letters, digits, `_`, `-` and `.`, at most 64");
            return None;
        }
        Some(name.into())
    }

    fn comment(&mut self, at: Option<&At<String>>) -> Option<Arc<str>> {
        let Some(at) = at else { return Some("#".into()) };
        let sign = at.value.trim();
        if !at.unknown.is_empty()
            || sign.is_empty()
            || sign.len() > 16
            || sign.contains(|c: char| c.is_control())
        {
            let message = format!("`{}` is nothing a line can begin with", at.value.escape_debug());
            self.refuse(
                at.span,
                message,
                "write what begins a comment in this file, such as \"#\" or \"//\"",
            );
            return None;
        }
        Some(sign.into())
    }

    fn content(&mut self, spec: &FileSpec) -> Option<Content> {
        let bytes = match (&spec.content, &spec.from) {
            (Some(_), Some(from)) => {
                self.refuse(from.span, "`from` has no meaning beside `content`", "leave one of the two out");
                return None;
            }
            (Some(At { value: TextOr::Text(text), unknown, .. }), None) => {
                self.waits_for.extend(unknown.iter().cloned());
                Bytes::copy_from_slice(text.as_bytes())
            }
            (Some(At { value: TextOr::Map(secret), span, .. }), None) => {
                return self.secret(&secret.secret, *span);
            }
            (None, Some(from)) => self.blob(from)?,
            (None, None) => {
                let is_written = |way: &&str| self.manifest.spec.get(way).is_some_and(|node| !node.is_null());
                // What is written and wrong was told where it is.
                if ["content", "from", "symlink"].iter().any(is_written) {
                    return None;
                }
                let text = "a file needs one of `content`, `from` and `symlink`";
                self.refuse(spec.path.span, text, "for an empty file write content: \"\"");
                return None;
            }
        };
        if bytes.len() as u64 > LARGEST {
            let message = format!("the content has {} MiB, more than is kept in one file", bytes.len() >> 20);
            self.refuse(spec.path.span, message, "install what is that large from a package");
            return None;
        }
        Some(Content::Clear(bytes))
    }

    fn secret(&mut self, name: &str, span: Span) -> Option<Content> {
        if name.is_empty() || name.contains(|c: char| c.is_control()) {
            self.refuse(span, "the secret has no name", "write {secret: NAME}");
            return None;
        }
        match self.inputs.secret(&SecretRef::Named(name.into())) {
            Ok(SecretMark(mark)) => Some(Content::Secret { name: name.into(), mark }),
            Err(error) => {
                self.report(span, error);
                None
            }
        }
    }

    fn blob(&mut self, from: &At<String>) -> Option<Bytes> {
        if !from.unknown.is_empty() {
            self.refuse(
                from.span,
                "`from` cannot depend on an output of another manifest",
                "write the path out",
            );
            return None;
        }
        let path = from.value.strip_prefix("./").unwrap_or(&from.value);
        match self.inputs.blob(path) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                self.report(from.span, error);
                None
            }
        }
    }
}

fn span(field: &Option<At<String>>) -> Option<Span> {
    field.as_ref().map(|at| at.span)
}
