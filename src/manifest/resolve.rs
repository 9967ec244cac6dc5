//! The values of `${…}`: variables, facts of the host, outputs of other manifests.

use super::{
    loading::Loading,
    place::place,
    request::Mode,
    substitute::{Put, PutOut, Root, Text, texts_mut},
    template::{Rendered, Template, Wrong},
    unit::{Resolved, Standing, Unit},
};
use crate::{
    config::{FOLDER, Wanted},
    sops::Refused,
};
use reconciled_provider::{
    Address, Hash, ManifestKey, Problem, Reference, Secret, Span, problem::did_you_mean, yaml::ScalarKind,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// Most bytes that are put into the manifests of one source: a few lines may refer to one long text many times.
const MOST: usize = 64 << 20;

/// Which manifests an address without a group may mean, by source, kind and name.
pub(super) struct Directory(HashMap<(usize, Arc<str>, Arc<str>), Vec<usize>>);

impl Directory {
    pub(super) fn of(units: &[Unit]) -> Directory {
        let mut all: HashMap<_, Vec<usize>> = HashMap::new();
        for (index, unit) in units.iter().enumerate() {
            let key = (unit.source, unit.document.kind.clone(), unit.document.name.clone());
            all.entry(key).or_default().push(index);
        }
        Directory(all)
    }

    /// The manifest that `address` means when `from` says it.
    pub(super) fn find(&self, units: &[Unit], from: &Unit, address: &Address) -> Result<usize, Box<Problem>> {
        let key = (from.source, address.kind.clone(), address.name.clone());
        let of_group = |index: &usize| {
            let unit = &units[*index];
            address.group.as_deref().is_none_or(|group| group == unit.document.group())
        };
        let all: Vec<usize> =
            self.0.get(&key).into_iter().flatten().copied().filter(|index| of_group(index)).collect();
        let in_namespace = |namespace: &str| -> Vec<usize> {
            all.iter().copied().filter(|index| &*units[*index].document.namespace == namespace).collect()
        };
        let mut found = match &address.namespace {
            Some(namespace) => in_namespace(namespace),
            None => in_namespace(&from.document.namespace),
        };
        if found.is_empty() && address.namespace.is_none() {
            found = in_namespace("");
        }
        match found[..] {
            [one] => Ok(one),
            [first, second, ..] => {
                let groups = [units[first].document.group(), units[second].document.group()];
                let message = format!("`{address}` may mean a manifest of {} or of {}", groups[0], groups[1]);
                let hint = format!("write {}.{}/{}", address.kind, groups[0], address.name);
                Err(Box::new(Problem::error(message).hint(hint)))
            }
            [] => Err(Box::new(self.missing(units, from, address))),
        }
    }

    fn missing(&self, units: &[Unit], from: &Unit, address: &Address) -> Problem {
        // A folder is no source, whatever it is called among them.
        let place = match from.key.source() {
            FOLDER => "here".to_owned(),
            source => format!("in source `{source}`"),
        };
        let problem = Problem::error(format!("there is no manifest `{address}` {place}"));
        if let Some(other) = units.iter().find(|unit| {
            unit.source != from.source
                && unit.document.kind == address.kind
                && unit.document.name == address.name
        }) {
            let text = format!("source `{}` has one, but sources do not see each other", other.key.source());
            return problem.hint(text);
        }
        // The kind or the name is misspelt, rarely both.
        let known: Vec<&Unit> =
            units.iter().filter(|unit| unit.source == from.source && unit.key != from.key).collect();
        let of_kind = known.iter().filter(|unit| unit.document.kind == address.kind);
        let of_name = known.iter().filter(|unit| unit.document.name == address.name);
        let name = did_you_mean(&address.name, of_kind.map(|unit| &*unit.document.name));
        let kind = did_you_mean(&address.kind, of_name.map(|unit| &*unit.document.kind));
        match (name, kind) {
            (Some(name), _) => problem.hint(format!("did you mean `{}/{name}`?", address.kind)),
            (None, Some(kind)) => problem.hint(format!("did you mean `{kind}/{}`?", address.name)),
            (None, None) => problem,
        }
    }
}

/// Resolves every manifest that is offered to an entry.
pub(super) fn resolve(loading: &mut Loading<'_>) {
    let directory = Directory::of(&loading.units);
    for index in 0..loading.units.len() {
        if !matches!(loading.units[index].standing, Standing::Offered { .. }) {
            loading.units[index].resolved = plain(loading, &directory, &loading.units[index]);
            continue;
        }
        let (mut problems, mut lacks, mut tampered) = (Vec::new(), Vec::new(), false);
        let unit = &loading.units[index];
        let mut resolved = Resolver {
            loading,
            directory: &directory,
            unit,
            problems: &mut problems,
            lacks: &mut lacks,
            trail: vec![index],
            beyond: None,
            tampered: &mut tampered,
            room: MOST.saturating_sub(loading.sides[unit.source].put_in),
        }
        .resolve();
        let placed = |(problem, span)| place(loading, unit, problem, span);
        let problems: Vec<Problem> = problems.into_iter().map(placed).collect();
        let lacks: Vec<Problem> = lacks.into_iter().map(placed).collect();
        let (source, path) = (unit.source, loading.sides[unit.source].texts[unit.text].path.clone());
        loading.sides[source].put_in += resolved.put_in;
        let is_wrong = problems.iter().any(Problem::is_error);
        resolved.failed |= is_wrong;
        loading.sides[source].is_tampered |= tampered;
        // That a value cannot be opened here says nothing against what else is in the file of the manifest.
        if resolved.failed && (is_wrong || lacks.is_empty() || resolved.fails_otherwise()) {
            loading.sides[source].mark_broken(&path);
        }
        problems.into_iter().for_each(|problem| loading.sides[source].report(problem));
        lacks.into_iter().for_each(|problem| loading.sides[source].report_lack(index, problem));
        loading.units[index].resolved = resolved;
    }
}

/// The values that need no other manifest, for what others have to know of one of which nothing is made here. What has none is no
/// problem here.
fn plain(loading: &Loading<'_>, directory: &Directory, unit: &Unit) -> Resolved {
    let mut resolver = Resolver {
        loading,
        directory,
        unit,
        problems: &mut Vec::new(),
        lacks: &mut Vec::new(),
        trail: Vec::new(),
        beyond: None,
        tampered: &mut false,
        room: 0,
    };
    let mut resolved = Resolved::default();
    let is_plain = |root: &Root| matches!(root, Root::Var(_) | Root::HostName | Root::HostLabel(_));
    for token in unit.document.tokens.iter().filter(|token| is_plain(&token.root)) {
        let put = resolver.put(&token.root, token.span, &mut Resolved::default());
        resolved.puts.insert(token.root.clone(), put);
    }
    resolved.input = hash(&unit.document.content, &format!("{:?}", resolved.puts));
    resolved
}

pub(super) struct Resolver<'a, 'b> {
    pub(super) loading: &'a Loading<'b>,
    pub(super) directory: &'a Directory,
    pub(super) unit: &'a Unit,
    pub(super) problems: &'a mut Vec<(Problem, Span)>,
    /// Encrypted values that cannot be had here.
    pub(super) lacks: &'a mut Vec<(Problem, Span)>,
    /// Manifests whose values are being looked up, one for the other.
    pub(super) trail: Vec<usize>,
    /// What went too far, wherever on the way that was.
    pub(super) beyond: Option<Problem>,
    /// Set when an encrypted file is not as it was written.
    pub(super) tampered: &'a mut bool,
    /// Bytes that may still be put into manifests of the source.
    pub(super) room: usize,
}

impl Resolver<'_, '_> {
    fn resolve(mut self) -> Resolved {
        let mut resolved = Resolved::default();
        let document = self.unit.document.clone();
        for token in &document.tokens {
            let put = self.put(&token.root, token.span, &mut resolved);
            resolved.failed |= put == Put::Failed;
            resolved.has_outputs |= put.output().is_some();
            resolved.put_in = resolved.put_in.saturating_add(put.len().saturating_mul(token.times));
            resolved.puts.insert(token.root.clone(), put);
            if resolved.put_in > self.room {
                break;
            }
        }
        let mut written_texts = String::new();
        if document.is_template {
            resolved.texts = self.texts(&mut resolved, &mut written_texts);
            resolved.failed |= resolved.texts.iter().any(|(put, _)| *put == Put::Failed);
            resolved.has_outputs |= resolved.texts.iter().any(|(put, _)| put.output().is_some());
        }
        resolved.put_in += resolved.texts.iter().map(|(put, _)| put.len()).sum::<usize>();
        if resolved.put_in > self.room {
            let text =
                format!("values of more than {} MiB are put into the manifests of this source", MOST >> 20);
            self.problems.push((
                Problem::error(text).hint("refer to less, or to it from fewer places"),
                document.span,
            ));
            (resolved.failed, resolved.put_in) = (true, 0);
            (resolved.puts, resolved.texts) = Default::default();
        }
        for (address, span) in &document.settings.depends_on {
            match self.directory.find(&self.loading.units, self.unit, address) {
                Ok(target) => resolved.after.push(self.loading.units[target].key.clone()),
                Err(problem) => resolved.failed |= self.miss(*problem, *span) == Put::Failed,
            }
        }
        resolved.after.sort();
        resolved.after.dedup();
        // Debug prints every part of roots and values; only equality within one process counts.
        resolved.input = hash(&document.content, &format!("{:?}{:?}", resolved.puts, resolved.texts));
        let values =
            written(resolved.puts.values().chain(resolved.texts.iter().map(|(put, _)| put))) + &written_texts;
        resolved.content =
            if values.is_empty() { document.content } else { hash(&document.content, &values) };
        resolved
    }

    pub(super) fn put(&mut self, root: &Root, span: Span, resolved: &mut Resolved) -> Put {
        let anywhere = self.loading.mode == Mode::Anywhere;
        match root {
            Root::Malformed(text) => {
                let problem = Problem::error(format!("`${{{text}}}` is not complete"));
                let hint = "write ${vars.NAME}, ${host.name}, ${host.labels.NAME}, or $${ for a literal";
                self.problems.push((problem.hint(hint), span));
                Put::Failed
            }
            Root::Addressed(address, text) if self.is_ours(address) => self.pathless(address, text, span),
            Root::Addressed(..) => Put::AsWritten,
            Root::Output(address, path) => self.referred(address, path, span, resolved),
            Root::Sealed(path, key) => self.sealed(path, key, span),
            Root::Secret(address, path) => match self.referred(address, path, span, resolved) {
                Put::Output(text, _, from) => self.secret(Secret::new(text.as_bytes().to_vec()), from),
                Put::Value(..) => {
                    let text = format!("`{address}:{path}` stands in Git in clear, so it is no secret");
                    let hint = "refer to what the manifest puts out: ${ADDRESS:status.NAME}";
                    self.problems.push((Problem::error(text).hint(hint), span));
                    Put::Failed
                }
                put => put,
            },
            _ if anywhere => anything(),
            Root::Var(name) => self.variable(name, span),
            Root::HostName => Put::Value((*self.loading.request.host.name).into(), ScalarKind::Str),
            Root::HostLabel(label) => match self.loading.request.host.labels.get(label) {
                Some(value) => Put::Value((**value).into(), ScalarKind::Str),
                None => {
                    let known = self.loading.request.host.labels.keys().map(|key| &**key);
                    let problem = Problem::error(format!("this host has no label `{label}`"));
                    self.problems.push((
                        match did_you_mean(label, known) {
                            Some(near) => problem.hint(format!("did you mean `{near}`?")),
                            None => problem.hint("set host.labels in the host configuration"),
                        },
                        span,
                    ));
                    Put::Failed
                }
            },
        }
    }

    /// Renders the texts of a manifest that says `template: true`; notes in `written` what persons wrote elsewhere.
    fn texts(&mut self, resolved: &mut Resolved, written: &mut String) -> Vec<(Put, String)> {
        let (loading, unit) = (self.loading, self.unit);
        let Some(file) = loading.templates.get(&unit.document.kind) else { return Vec::new() };
        let nothing = BTreeSet::new();
        let verbatim = loading.verbatim.get(&unit.document.kind).unwrap_or(&nothing);
        let mut found = Vec::new();
        loading.with_spec(unit, |spec| {
            texts_mut(&mut spec.clone(), verbatim, file.as_ref(), &mut |text, node| {
                found.push((text, node.span, node.as_str().unwrap_or_default().to_owned()));
            });
        });
        let (mut puts, mut size) = (Vec::new(), 0_usize);
        for (text, span, content) in found {
            // That it is too much is told by who counts all of it.
            if size > self.room {
                break;
            }
            let (content, place) = match text {
                Text::Here => (Ok(content), "the template".to_owned()),
                Text::Of(_) => (loading.text(unit.source, &content), format!("`{content}`")),
            };
            puts.push(match content {
                Ok(content) => {
                    if let Text::Of(_) = text {
                        written.push_str(&format!("{} {content}\n", content.len()));
                    }
                    let put = self.rendered(&content, &place, span, resolved);
                    size += put.len();
                    (put, content)
                }
                Err(error) => {
                    self.problems.push((Problem::from(&error), span));
                    (Put::Failed, String::new())
                }
            });
        }
        puts
    }

    fn rendered(&mut self, text: &str, place: &str, span: Span, resolved: &mut Resolved) -> Put {
        let told = |wrong: Wrong| {
            let problem = Problem::error(format!("line {} of {place}: {}", wrong.line, wrong.message));
            (Problem { hint: wrong.hint, ..problem }, span)
        };
        let template = match Template::parse(text) {
            Ok(template) => template,
            Err(wrong) => {
                self.problems.push(told(wrong));
                return Put::Failed;
            }
        };
        let mut puts = BTreeMap::new();
        for (literal, root) in &template.references {
            puts.insert(literal.clone(), self.put(root, span, resolved));
        }
        if puts.values().any(|put| *put == Put::Failed) {
            return Put::Failed;
        }
        // Which variables there are is not known here.
        if self.loading.mode == Mode::Anywhere {
            return anything();
        }
        let has_secret = puts.values().any(|put| matches!(put, Put::Secret(_)));
        let output = puts.values().find_map(|put| put.output().cloned());
        let variables = &self.loading.sides[self.unit.source].variables;
        // Which of them a template takes only its run would tell.
        if variables.incomplete && text.contains("vars") {
            return Put::Failed;
        }
        let vars = &variables.tree;
        match (template.render(vars, self.loading.request.host, puts), output) {
            // A text with a secret in it is one.
            (Ok(Rendered::Text(text)), Some(reference)) if has_secret => {
                self.secret(Secret::new(text.into_bytes()), reference)
            }
            (Ok(Rendered::Text(text)), None) => Put::Value(text.into(), ScalarKind::Str),
            (Ok(Rendered::Text(text)), Some(reference)) => {
                Put::Output(text.into(), ScalarKind::Str, reference)
            }
            (Ok(Rendered::Unknown(references)), _) => match references.into_iter().next() {
                Some(reference) => Put::Unknown(reference),
                None => Put::Failed,
            },
            (Err(wrong), _) => {
                self.problems.push(told(wrong));
                Put::Failed
            }
        }
    }

    /// A secret that another manifest puts out.
    pub(super) fn secret(&self, clear: Secret, from: Reference) -> Put {
        Put::Secret(PutOut { mark: self.loading.request.secrets.put_out(&clear), clear, from })
    }

    fn sealed(&mut self, path: &str, key: &str, span: Span) -> Put {
        let kind = format!("{}/{}", self.unit.document.group(), self.unit.document.kind);
        let secrets = self.loading.request.secrets;
        self.loading.secrets.borrow_mut().note_keys(self.unit.key.source(), secrets);
        let opened =
            self.loading.blob(self.unit.source, path).map_err(Refused::Unreadable).and_then(|content| {
                let wanted = Wanted { source: self.unit.key.source(), kind: &kind, path, key };
                secrets.sealed(&wanted, &content)
            });
        match opened {
            Ok(mark) => Put::Sealed(mark),
            Err(refused) => {
                let is_tampered = matches!(refused, Refused::Tampered(_));
                *self.tampered |= is_tampered;
                let problem = Problem::from(&refused.into_error());
                let told = if is_tampered { &mut *self.problems } else { &mut *self.lacks };
                told.push((problem, span));
                Put::Failed
            }
        }
    }

    fn variable(&mut self, name: &str, span: Span) -> Put {
        let variables = &self.loading.sides[self.unit.source].variables;
        if let Some((text, kind)) = variables.values.get(name).filter(|_| variables.is_certain(name)) {
            return Put::Value(text.clone(), kind.clone());
        }
        // A file of variables that cannot be read is one problem, not one for each use.
        if !variables.incomplete {
            if let Some(shape) = variables.shape(name) {
                let problem =
                    Problem::error(format!("the variable `{name}` is {shape}, and no single value"));
                let hint = "only templates take lists and mappings: `{% for one in vars.NAME %}`; here, write one value, such as `${vars.NAME.KEY}` of a mapping";
                self.problems.push((problem.hint(hint), span));
                return Put::Failed;
            }
            let problem = Problem::error(format!("there is no variable `{name}`"));
            let problem = match did_you_mean(name, variables.values.keys().map(String::as_str)) {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem.hint("set it under `vars` of the source, or write $${ for a literal"),
            };
            self.problems.push((problem, span));
        }
        Put::Failed
    }
}

/// A value that some host would give.
fn anything() -> Put {
    let target = ManifestKey::new("", "reconciled", "Host", "", "any");
    Put::Unknown(Reference { target, path: "value".into() })
}

fn hash(content: &Hash, values: &str) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&content.0);
    hasher.update(values.as_bytes());
    Hash::cut(hasher.finalize())
}

/// The values that persons wrote, in a form that is the same in every process.
fn written<'a>(puts: impl Iterator<Item = &'a Put>) -> String {
    let values = puts.filter_map(|put| match put {
        Put::Value(text, _) => Some(format!("{} {text}\n", text.len())),
        Put::Sealed(mark) => Some(format!("{}\n", mark.0)),
        Put::Output(..) | Put::Secret(_) | Put::Unknown(_) | Put::AsWritten | Put::Failed => None,
    });
    values.collect()
}
