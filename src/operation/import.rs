//! Manifests of what a provider holds already. Reads the remote; writes nothing.

use crate::{
    failure::Failure,
    session::{Ask, Session},
};
use reconciled_engine::{Row, Store};
use reconciled_provider::{
    Address, Focus, Found, Observed, Observer, Owner, RemoteNames, Resource, ResourceId, Want, address::glob,
    problem::did_you_mean,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is there?
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportAsk {
    /// The entry.
    pub provider: String,
    /// What of it, such as a zone or a type of a Terraform provider; `*` and `?` are wild.
    pub scope: String,
    /// What a Terraform provider is asked for where it lists a type.
    #[serde(default)]
    pub filter: BTreeMap<String, String>,
    /// One resource of a Terraform provider, where `scope` is its type or kind.
    #[serde(default)]
    pub id: Option<String>,
    /// Only these names, or names with types.
    #[serde(default)]
    pub only: Vec<String>,
    /// But not these.
    #[serde(default)]
    pub ignore: Vec<String>,
    /// A file for each name, and not for each scope.
    #[serde(default)]
    pub by_name: bool,
    /// Only what is declared and differs.
    #[serde(default)]
    pub drifted: bool,
}

/// What is there.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Imported {
    /// Manifests, by the name of their file.
    pub files: BTreeMap<String, String>,
    /// What there is to say of them.
    pub messages: Vec<String>,
    /// How much was found and could not be written.
    #[serde(default)]
    pub left_out: usize,
}

/// Writes the manifests of what `ask` means. With `drifted`, `store` has what is declared now.
///
/// Errors: no such entry, nothing there, the remote.
pub async fn import(session: &Session, store: &dyn Store, ask: &ImportAsk) -> Result<Imported, Failure> {
    let observer = entry(session, &ask.provider)?;
    // As it is written in addresses and plans: PROVIDER/NAME.
    let prefix = format!("{}/", ask.provider);
    let query = ask.scope.strip_prefix(&prefix).unwrap_or(&ask.scope);
    let is_terraform = observer.info().type_name == "terraform";
    if ask.drifted && is_terraform {
        return Err(Failure::hinted(
            format!("`{}` tells drift resource by resource", ask.provider),
            "see it with `reconciled plan --refresh`; one as it is: reconciled explain ADDRESS",
        ));
    }
    if !ask.filter.is_empty() && !is_terraform {
        return Err(Failure::hinted(
            format!("`{}` is asked for nothing but names", ask.provider),
            "leave --filter out; --only and --ignore choose among what is found",
        ));
    }
    let mut found = observer.discover(&session.surveyor.cx, &ask.query(query)).await?;
    if found.is_empty() {
        return Err(Failure::hinted(
            format!("`{}` has nothing that `{query}` means", ask.provider),
            format!("to see everything: reconciled import {} '*'", ask.provider),
        ));
    }
    let mut imported = Imported::default();
    for why in found.iter().flat_map(|found| &found.left_out) {
        imported.messages.push(format!("left out: {why}"));
        imported.left_out += 1;
    }
    found.retain(|found| found.left_out.is_empty() || !found.resources.is_empty());
    if !observer.info().lists {
        as_tracked(session, store, (observer, ask), &mut found, &mut imported.messages).await?;
    }
    let mut chosen = Chosen::default();
    found.iter_mut().for_each(|found| ask.choose(observer, found, &mut chosen));
    imported.messages.extend(chosen.warning());
    if ask.drifted {
        let missing = keep_drifted(session, store, ask, observer, &mut found, &mut imported.messages).await?;
        if found.is_empty() && missing == 0 {
            imported.messages.push("nothing that is declared differs there".into());
        }
    }
    let is_list = ask.id.is_none() && !observer.info().lists;
    for found in &found {
        tell_owners(found, &mut imported.messages);
        for what in observer.undeclarable(found) {
            imported.messages.push(format!("left out: {what}"));
            imported.left_out += 1;
        }
        for (name, part) in split(found, ask.by_name, observer) {
            let documents = observer.export(&part)?;
            let texts: Vec<String> =
                documents.iter().map(|document| String::from_utf8_lossy(document).into_owned()).collect();
            let text = texts.join("---\n");
            match kind_of(&part).filter(|_| is_list && !ask.by_name) {
                // A file for each of hundreds would be no use.
                Some(kind) => {
                    let file = imported.files.entry(format!("{}.yaml", file_name(kind))).or_default();
                    if !file.is_empty() {
                        file.push_str("---\n");
                    }
                    file.push_str(&text);
                }
                None => drop(imported.files.insert(free_name(&imported.files, name), text)),
            }
        }
    }
    Ok(imported)
}

/// The kind of resources that have a scope each.
fn kind_of(found: &Found) -> Option<&str> {
    found.scope.name.split_once('/').map(|(kind, _)| kind).filter(|kind| !kind.is_empty())
}

/// What is tracked of what was found is shown as it is shown elsewhere: who looks at it knows from its row what of it is a
/// secret. Of a list by identities it is left out: it has a manifest, of whatever name. Asked for by its id it is refused.
async fn as_tracked(
    session: &Session,
    store: &dyn Store,
    (observer, ask): (&dyn Observer, &ImportAsk),
    found: &mut Vec<Found>,
    messages: &mut Vec<String>,
) -> Result<(), Failure> {
    let all = store.all().await?;
    let rows = all.iter().filter(|(scope, _)| *scope.provider == *ask.provider);
    let rows = rows.flat_map(|(_, memory)| memory.rows.iter());
    let rows: Vec<(RemoteNames, &Row)> =
        rows.map(|row| (observer.remote_names(&row.tracked.id, &row.tracked.private), row)).collect();
    let mut known = Vec::new();
    for found in found.iter_mut() {
        let resources = std::mem::take(&mut found.resources);
        for resource in resources {
            let names = observer.remote_names(&resource.id, &resource.private);
            let is_there = |row: &Row| *row.scope == found.scope && row.tracked.id == resource.id;
            let row = rows.iter().find(|(own, row)| own.is(&names).unwrap_or_else(|| is_there(row)));
            match row {
                None => {
                    let taken = rows.iter().find(|(_, row)| is_there(row));
                    messages.extend(taken.map(|(_, row)| {
                        format!("warning: {} is another one already: give this one another name", row.address)
                    }));
                    found.resources.push(resource);
                }
                // A second manifest for it would be of no use: both would write it in turn.
                Some((_, row)) if ask.id.is_some() => return Err(managed(session, store, row).await),
                Some((_, row)) if names.identity.is_some() => known.push(row.address.to_string()),
                Some((_, row)) => {
                    let focus = Focus::Only([row.tracked.id.clone()].into());
                    let tracked = std::slice::from_ref(&row.tracked);
                    let want = Want { scope: &row.scope, focus: &focus, desired: &[], tracked, claims: &[] };
                    let mut seen = observer.observe(&session.surveyor.cx, &want).await?;
                    found.scope.clone_from(&row.scope);
                    seen.resources.retain(|observed| observed.id == row.tracked.id);
                    found.resources.append(&mut seen.resources);
                }
            }
        }
    }
    found.retain(|found| !found.resources.is_empty());
    if !known.is_empty() {
        let (count, most) = (known.len(), 5);
        let more = if count > most { ", …" } else { "" };
        known.truncate(most);
        messages.push(format!("{count} tracked already, and left out: {}{more}", known.join(", ")));
    }
    Ok(())
}

/// That something is managed already, and where: by the manifest that declares it now, or that declared it last.
async fn managed(session: &Session, store: &dyn Store, row: &Row) -> Failure {
    let address = &row.address;
    let outlook = session.outlook(&Ask::default(), store).await.ok();
    let declared = outlook.as_ref().map(|outlook| &outlook.desired).and_then(|desired| {
        let resource = desired.declaring(&row.scope, &row.tracked.id).first()?;
        let manifest = desired.manifest(resource.origin);
        let (by, source) = (&manifest.address, manifest.key.source());
        Some(format!("it is managed by {by} of source `{source}`, declared in {}", desired.place(resource)))
    });
    match declared {
        Some(text) => Failure::hinted(
            text,
            format!(
                "change it there; as it is: reconciled explain {address}; under another name: reconciled/moved-from"
            ),
        ),
        None => Failure::hinted(
            format!(
                "it is tracked as {address} of source `{}`, declared last in {}, where it is not found now",
                row.manifest.source(),
                row.file
            ),
            format!("put that back; or let go of it, and import it then: reconciled forget {address}"),
        ),
    }
}

fn entry<'a>(session: &'a Session, name: &str) -> Result<&'a dyn Observer, Failure> {
    session.observer(name).ok_or_else(|| {
        let known: Vec<&str> = session.surveyor.entries.keys().map(|known| &**known).collect();
        let hint = match did_you_mean(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("configured providers: {}", known.join(", ")),
        };
        Failure::hinted(format!("no provider is called `{name}`"), hint)
    })
}

/// Keeps what is declared and differs, and says where each is declared. Returns how much is declared and not there.
async fn keep_drifted(
    session: &Session,
    store: &dyn Store,
    ask: &ImportAsk,
    observer: &dyn Observer,
    found: &mut Vec<Found>,
    messages: &mut Vec<String>,
) -> Result<usize, Failure> {
    let outlook = session.outlook(&Ask::default(), store).await?;
    if outlook.is_invalid() {
        // What could not be read may be what differs.
        return Err(Failure::Problems(outlook.problems()));
    }
    messages.extend(outlook.messages());
    let desired = &outlook.desired;
    let (mut differ, mut missing) = (0, 0);
    for found in found.iter_mut() {
        let (scope, declared) = (&found.scope, desired.in_scope(&found.scope));
        let place = |resource: &Resource| {
            let manifest = desired.manifest(resource.origin);
            let address = Address { part: observer.part(scope, &resource.id), ..manifest.address.clone() };
            format!("{address}, declared in {},", desired.place(resource))
        };
        let is_known = |id: &ResourceId| found.resources.iter().any(|observed| observed.id == *id);
        let is_asked = |id: &ResourceId| observer.part(scope, id).is_some_and(|part| ask.means(&part));
        for gone in declared.iter().filter(|resource| is_asked(&resource.id) && !is_known(&resource.id)) {
            missing += 1;
            messages.push(format!("{} is not there: to accept that, remove its declaration", place(gone)));
        }
        let before = differ;
        found.resources.retain(|observed| {
            if observer.part(scope, &observed.id).is_none() {
                return true;
            }
            let at = declared.binary_search_by(|resource| resource.id.cmp(&observed.id));
            let Some(resource) = at.ok().map(|at| &declared[at]) else { return false };
            // Of shared values, those of others are no difference.
            let is_shared = desired.policies.get(resource.policy).merge;
            let Some(delta) = observer.compare(resource, observed).filter(|_| !is_shared) else {
                return false;
            };
            let fields: Vec<&str> = delta.fields.iter().map(|field| &*field.path).collect();
            messages.push(format!("{} differs in {}", place(resource), fields.join(", ")));
            differ += 1;
            true
        });
        if before == differ {
            found.resources.clear();
        }
    }
    found.retain(|found| !found.resources.is_empty());
    if differ > 0 {
        messages.push("next: put these records in place of the declared ones and commit, instead of `reconciled apply`;".into());
        messages.push("      one without a ttl has that of its manifest".into());
    }
    Ok(missing)
}

/// What goes into each file.
pub(crate) fn split(found: &Found, by_name: bool, observer: &dyn Observer) -> Vec<(String, Found)> {
    let whole = file_name(&found.scope.name);
    if !by_name {
        return vec![(format!("{whole}.yaml"), found.clone())];
    }
    // What belongs to the scope itself comes first: the others contribute to it.
    let mut names: BTreeMap<Option<String>, Vec<Observed>> = BTreeMap::new();
    for resource in &found.resources {
        let part = observer.part(&found.scope, &resource.id);
        let name = part.map(|part| part.rsplit_once('/').map_or(&*part, |(name, _)| name).to_string());
        names.entry(name.filter(|name| name != "@")).or_default().push(resource.clone());
    }
    let file = |(name, resources): (Option<String>, _)| {
        let file = name.as_deref().map_or_else(|| whole.clone(), file_name);
        (format!("{whole}/{file}.yaml"), Found::new(found.scope.clone(), resources))
    };
    names.into_iter().map(file).collect()
}

/// `name`, or the next that no file has: what a file name cannot hold may make two names one.
pub(crate) fn free_name(files: &BTreeMap<String, String>, name: String) -> String {
    let stem = name.trim_end_matches(".yaml");
    let mut names = std::iter::once(name.clone()).chain((2..).map(|number| format!("{stem}-{number}.yaml")));
    names.find(|name| !files.contains_key(name)).unwrap_or(name)
}

/// How much of what is there `--only` and `--ignore` chose.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chosen {
    meant: usize,
    left_out: usize,
}

impl Chosen {
    /// That they chose nothing: a misspelt pattern must not look like a scope with nothing in it.
    pub(crate) fn warning(self) -> Option<String> {
        let Chosen { meant, left_out } = self;
        (meant == 0 && left_out > 0).then(|| {
            format!("warning: --only and --ignore leave nothing of what is there, {left_out} in all")
        })
    }
}

impl ImportAsk {
    /// As a provider is asked: what is meant, and which of it.
    fn query(&self, wanted: &str) -> String {
        if let Some(id) = &self.id {
            return format!("{wanted} {id}");
        }
        if self.filter.is_empty() {
            return wanted.to_string();
        }
        // What looks like a list or a mapping is one; anything else is text, whatever is in it.
        let line = |(key, value): (&String, &String)| match value.starts_with(['[', '{']) {
            true => format!("{}: {value}\n", serde_json::Value::from(&**key)),
            false => format!("{}: {}\n", serde_json::Value::from(&**key), serde_json::Value::from(&**value)),
        };
        format!("{wanted}?\n{}", self.filter.iter().map(line).collect::<String>())
    }

    /// Leaves what is meant of `found`.
    pub(crate) fn choose(&self, observer: &dyn Observer, found: &mut Found, chosen: &mut Chosen) {
        let scope = &found.scope;
        found.resources.retain(|resource| {
            let Some(part) = observer.part(scope, &resource.id) else { return true };
            let is_meant = self.means(&part);
            *(if is_meant { &mut chosen.meant } else { &mut chosen.left_out }) += 1;
            is_meant
        });
    }

    /// True when `part` (`www/A`) is to be imported.
    pub(crate) fn means(&self, part: &str) -> bool {
        let name = part.rsplit_once('/').map_or(part, |(name, _)| name);
        let hits = |globs: &[String]| globs.iter().any(|pattern| glob(pattern, part) || glob(pattern, name));
        (self.only.is_empty() || hits(&self.only)) && !hits(&self.ignore)
    }
}

/// What carries somebody else's mark is declared too, but is not adopted without a word.
pub(crate) fn tell_owners(found: &Found, messages: &mut Vec<String>) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for resource in &found.resources {
        if let Owner::Other(owner) = &resource.owner {
            *counts.entry(owner).or_default() += 1;
        }
    }
    // What a file holds is of no entry.
    let place = match &*found.scope.provider {
        "" => found.scope.name.to_string(),
        _ => found.scope.to_string(),
    };
    for (owner, count) in counts {
        messages.push(format!("warning: {place}: {count} marked as {owner}'s"));
        let hint = match owner == "octodns" || owner.starts_with("externaldns/") {
            true => format!("to take them over, annotate the manifest: reconciled/adopt: {owner}"),
            // Of another instance only a person takes something, by what was shown.
            false => format!(
                "to take them over, once they are declared: reconciled adopt ADDRESS --from-instance {owner}"
            ),
        };
        messages.push(format!("hint: {hint}"));
    }
}

/// Names may hold what a file name cannot.
pub(crate) fn file_name(name: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' };
    let name: String = name.chars().map(safe).collect();
    // A leading dot would hide the file from the loader.
    name.trim_start_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::Scope;

    fn ask(only: &[&str], ignore: &[&str]) -> ImportAsk {
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        ImportAsk { only: texts(only), ignore: texts(ignore), ..ImportAsk::default() }
    }

    #[test]
    fn globs_mean_names_or_names_with_types() {
        assert!(ask(&[], &[]).means("www/A"));
        assert!(ask(&["www"], &[]).means("www/A"));
        assert!(!ask(&["www"], &[]).means("mail/A"));
        assert!(!ask(&[], &["*/TXT"]).means("www/TXT"));
        assert!(!ask(&["*"], &["*.dev"]).means("a.dev/A"));
    }

    #[test]
    fn what_a_list_is_asked_for_is_text_unless_it_looks_like_more() {
        let filter = [("b", "[1, {x: y}]"), ("a", "pre: *x")].map(|(key, value)| (key.into(), value.into()));
        let ask = ImportAsk { filter: filter.into(), ..ImportAsk::default() };
        assert_eq!(ask.query("Thing"), "Thing?\n\"a\": \"pre: *x\"\n\"b\": [1, {x: y}]\n");
        assert_eq!(ImportAsk::default().query("Thing"), "Thing");
        let one = ImportAsk { id: Some("a b".into()), ..ImportAsk::default() };
        assert_eq!(one.query("Thing"), "Thing a b");
    }

    #[test]
    fn what_carries_a_mark_is_told_with_what_takes_it_over() {
        let check = |owner: &str, hint: &str| {
            let owner = Owner::Other(owner.into());
            let resources =
                vec![Observed { owner, ..Observed::new("www.b.test./A".into(), "300\n192.0.2.1") }];
            let mut messages = Vec::new();
            tell_owners(&Found::new(Scope::new("pdns", "b.test"), resources), &mut messages);
            assert!(messages[1].ends_with(hint), "{messages:?}");
        };
        check("dns2", "once they are declared: reconciled adopt ADDRESS --from-instance dns2");
        check("octodns", "annotate the manifest: reconciled/adopt: octodns");
        check("externaldns/k8s", "annotate the manifest: reconciled/adopt: externaldns/k8s");
    }

    #[test]
    fn a_scope_gives_a_file_name_that_the_loader_reads() {
        assert_eq!(file_name("0/25.2.0.192.in-addr.arpa"), "0_25.2.0.192.in-addr.arpa");
        assert_eq!(file_name("../../etc/passwd"), "_.._etc_passwd");
        let taken = ["a/_.yaml", "a/_-2.yaml"].map(|name| (name.to_string(), String::new())).into();
        assert_eq!(free_name(&taken, "a/_.yaml".into()), "a/_-3.yaml");
        assert_eq!(free_name(&taken, "a/b.yaml".into()), "a/b.yaml");
    }
}
