//! `zonefile: PATH` among records: what a master file in the same repository holds.
//!
//! The file is read from the same revision as the manifest, so a change of it alone is a change of what is desired.
//! What it says of the zone itself (SOA and apex NS) counts only with `apex: true`; a zone file cannot do without
//! them, so otherwise they are left out without a word. So is what signing software writes, with a warning.

use super::{
    collect::{Collected, Declared, Site},
    context::Context,
    refused::{at_apex, served, unshareable},
};
use crate::{
    kind::RecordSpec,
    master::{self, Entry},
    name::Name,
    rdata::{self, Type},
    record::{self, MAX_TTL},
};
use reconciled_provider::{
    Manifest, Node, PolicyId, Problem, SourceFile, Span, Spec,
    problem::did_you_mean,
    yaml::{NodeValue, ScalarKind},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

const FIELD: &str = "zonefile";

/// A file to include, as the manifest names it.
pub(super) struct Written {
    path: String,
    span: Span,
}

/// Takes the files to include out of a spec; none where it has none, which is most of the time.
pub(super) fn take(manifest: &Manifest, problems: &mut Vec<Problem>) -> Option<(Node, Vec<Written>)> {
    let records = manifest.spec.get("records")?;
    let is_item = |node: &Node| node.get(FIELD).is_some();
    let is_whole = matches!(records.value, NodeValue::Map(_));
    if !is_whole && !records.elements().iter().any(is_item) {
        return None;
    }
    let mut spec = manifest.spec.clone();
    let NodeValue::Map(fields) = &mut spec.value else { return None };
    let index = fields.iter().position(|(key, _)| key.as_str() == Some("records"))?;
    let items = match &mut fields[index].1.value {
        NodeValue::Seq(list) => {
            let (items, rest) = std::mem::take(list).into_iter().partition(is_item);
            *list = rest;
            items
        }
        _ => vec![fields.remove(index).1],
    };
    let written = items.iter().filter_map(|item| one(manifest, item, problems)).collect();
    Some((spec, written))
}

fn one(manifest: &Manifest, item: &Node, problems: &mut Vec<Problem>) -> Option<Written> {
    for (key, _) in item.entries().iter().filter(|(key, _)| key.as_str() != Some(FIELD)) {
        let word = key.as_str().unwrap_or_default();
        let problem = manifest.error(key.span, format!("unknown field `{word}` beside an included file"));
        problems.push(match did_you_mean(word, [FIELD]) {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None => problem.hint("write {zonefile: PATH} alone, or a list of records"),
        });
    }
    let Some(path) = item.get(FIELD) else {
        if item.entries().is_empty() {
            let problem = manifest.error(item.span, "`records` is an empty mapping");
            problems.push(problem.hint("write a list of records, or {zonefile: PATH}"));
        }
        return None;
    };
    match &path.value {
        NodeValue::Scalar(_, ScalarKind::Unknown(on)) => {
            // A variable, where no configuration says what it holds: nothing is planned from that.
            if on.iter().any(|reference| !reference.target.source().is_empty()) {
                let problem =
                    manifest.error(path.span, "the path of a file is an output of another resource");
                problems.push(problem.hint("write the path out, or put a variable into it"));
            }
            None
        }
        NodeValue::Scalar(text, ScalarKind::Str) if !text.is_empty() => {
            Some(Written { path: text.to_string(), span: path.span })
        }
        _ => {
            let problem = manifest.error(path.span, format!("expected a path, found {}", path.describe()));
            problems.push(problem.hint("write the path of a zone file of this repository"));
            None
        }
    }
}

/// Adds what one file holds.
pub(super) fn add(
    cx: &Context<'_>,
    written: &Written,
    policy: PolicyId,
    collected: &mut Collected<'_>,
    problems: &mut Vec<Problem>,
) {
    let Some(file) = read(cx, written, problems) else { return };
    let file = Arc::new(file);
    let site = |line: u32| Site {
        file: file.clone(),
        span: Span { line, column: 0 },
        through: Some(written.span.line),
    };
    let mut signed: BTreeMap<Box<str>, usize> = BTreeMap::new();
    let mut sets = Sets::default();
    for found in master::included(cx.zone.as_str(), &file.text, cx.ttl) {
        match found {
            Err(error) => {
                let line = u32::try_from(error.line).unwrap_or(u32::MAX);
                problems.push(site(line).error(error.what.to_string()));
            }
            Ok((_, entry)) if rdata::is_signer_type(&entry.kind) => {
                *signed.entry(entry.kind).or_default() += 1;
            }
            Ok((line, entry)) => sets.take(cx, line, entry, &site, problems),
        }
    }
    if !signed.is_empty() {
        let counts: Vec<String> = signed.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let message = format!("records of signing software are left out: {}", counts.join(", "));
        let warning = Problem::warning(message).in_file(&file.path);
        problems.push(warning.hint("the server that signs writes them; remove them from the file"));
    }
    for set in sets.list {
        set.declare(cx, &site, policy, collected, problems);
    }
}

/// The file, or the problem at the place that names it.
fn read(cx: &Context<'_>, written: &Written, problems: &mut Vec<Problem>) -> Option<SourceFile> {
    let manifest = cx.manifest;
    let Some(path) = resolved(&manifest.file.path, &written.path) else {
        let message = format!("`{}` lies outside of the repository", written.path);
        let hint = "a file to include is in the same repository as its manifest";
        problems.push(manifest.error(written.span, message).hint(hint));
        return None;
    };
    match cx.inputs.blob(&path).map(|bytes| String::from_utf8(bytes.into())) {
        Ok(Ok(text)) => Some(SourceFile::new(path, text)),
        Ok(Err(_)) => {
            let problem = manifest.error(written.span, format!("`{path}` is not text in UTF-8"));
            problems.push(problem.hint("write other octets as `\\DDD`"));
            None
        }
        Err(error) => {
            let hint = "a path counts from the folder of the manifest, with `/` in front from the root of the \
                        repository; what lies outside of the source's `path` is not read";
            problems.push(manifest.error(written.span, error.into_told().message).hint(hint));
            None
        }
    }
}

/// `path` as `manifest` means it, from the root of the repository; none when it leads out of it.
fn resolved(manifest: &str, path: &str) -> Option<String> {
    let (folder, path) = match path.strip_prefix('/') {
        Some(path) => ("", path),
        None => (manifest.rsplit_once('/').map_or("", |(folder, _)| folder), path),
    };
    let mut steps: Vec<&str> = Vec::new();
    for step in folder.split('/').chain(path.split('/')) {
        match step {
            "" | "." => {}
            ".." => {
                steps.pop()?;
            }
            step => steps.push(step),
        }
    }
    Some(steps.join("/"))
}

/// The RRsets of a file, in the order of their first records.
#[derive(Default)]
struct Sets {
    list: Vec<Set>,
    index: HashMap<(Box<str>, Type), usize>,
}

struct Set {
    name: Name,
    kind: Type,
    ttl: u32,
    line: u32,
    values: Vec<String>,
}

impl Sets {
    fn take(
        &mut self,
        cx: &Context<'_>,
        line: u32,
        entry: Entry,
        site: &dyn Fn(u32) -> Site,
        problems: &mut Vec<Problem>,
    ) {
        let mut refuse = |refusal: rdata::Refusal| {
            let problem = site(line).error(refusal.message);
            problems.push(Problem { hint: refusal.hint, ..problem });
        };
        let Some(kind) = Type::of(&entry.kind) else { return refuse(Type::refuse(&entry.kind)) };
        let is_apex = *entry.name == *cx.zone.as_str();
        if is_apex && matches!(kind, Type::Soa | Type::Ns) && !cx.has_apex {
            return;
        }
        let name = match Name::absolute(&entry.name) {
            Ok(name) => name,
            Err(error) => return refuse(error.into()),
        };
        let value = match rdata::from_master(kind, &entry.content) {
            Ok(value) => value,
            Err(refusal) => return refuse(refusal),
        };
        if entry.ttl > MAX_TTL {
            let message = format!("a ttl of {} seconds is out of range", entry.ttl);
            return refuse(rdata::Refusal::new(message, format!("0 to {MAX_TTL} (RFC 2181 §8)")));
        }
        if let Some(set) = self.index.get(&(entry.name.clone(), kind)).map(|index| &mut self.list[*index]) {
            if set.ttl != entry.ttl {
                let (least, word) = (set.ttl.min(entry.ttl), kind.word());
                let message = format!("the {word} records of {name} have several TTLs; {least} counts");
                let warning = Problem::warning(message).at(&site(line).file, Span { line, column: 0 });
                problems.push(warning.hint("records of one name and type share a TTL (RFC 2181 §5.2)"));
                set.ttl = least;
            }
            if kind.is_single() && !set.values.contains(&value) {
                let refusal = kind.refuse_several();
                let problem = site(line).error(refusal.message);
                return problems.push(Problem { hint: refusal.hint, ..problem });
            }
            set.values.push(value);
            return;
        }
        self.index.insert((entry.name, kind), self.list.len());
        self.list.push(Set { name, kind, ttl: entry.ttl, line, values: vec![value] });
    }
}

impl Set {
    fn declare(
        mut self,
        cx: &Context<'_>,
        site: &dyn Fn(u32) -> Site,
        policy: PolicyId,
        collected: &mut Collected<'_>,
        problems: &mut Vec<Problem>,
    ) {
        let site = site(self.line);
        let refused = served(cx, self.kind, &site)
            .or_else(|| at_apex(cx, &self.name, self.kind, &site))
            .or_else(|| unshareable(cx, self.kind, false, &site));
        if let Some(problem) = refused {
            return problems.push(problem);
        }
        let bare = RecordSpec::bare(self.name.as_str(), self.kind.word(), site.span);
        let settled = match (cx.served.dialect)(&bare, self.kind, self.ttl, cx.zone) {
            Ok(settled) => settled,
            Err((_, refusal)) => {
                return problems.push(Problem { hint: refusal.hint, ..site.error(refusal.message) });
            }
        };
        let merge = cx.manifest.policy.merge;
        let declared = Declared { name: self.name, kind: self.kind, site, merge };
        if let Some(id) = collected.room(&declared, problems) {
            let spec = Spec::known(record::encode_with(settled.ttl, &settled.extra, &mut self.values));
            let _ = collected.add(id, declared, spec, policy, problems);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_counts_from_the_folder_of_the_manifest_and_never_leads_out() {
        let check = |manifest, path, expect: Option<&str>| {
            assert_eq!(resolved(manifest, path).as_deref(), expect, "{manifest} {path}");
        };
        check("zones/a.yaml", "a.zone", Some("zones/a.zone"));
        check("zones/a.yaml", "./b/../a.zone", Some("zones/a.zone"));
        check("zones/a.yaml", "../bind/a.zone", Some("bind/a.zone"));
        check("zones/a.yaml", "/bind/a.zone", Some("bind/a.zone"));
        check("a.yaml", "../a.zone", None);
        check("zones/a.yaml", "../../etc/passwd", None);
        check("zones/a.yaml", "/../a.zone", None);
    }
}
