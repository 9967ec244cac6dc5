//! What of a selection means nothing at all: a name that is misspelt must not look like one that is in sync.

use super::plan::document::Document;
use crate::{failure::Failure, session::Session, store::Reader};
use reconciled_engine::{Desired, plan::Selection};
use reconciled_provider::{Address, ManifestKey, Pattern, problem::did_you_mean};
use std::{collections::BTreeSet, fmt};

/// An address or a selector of labels that nothing has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unmatched {
    /// What is wrong.
    text: String,
    /// The address that may be meant.
    near: Option<String>,
}

impl Unmatched {
    /// What to do about it, where something near is known.
    pub(crate) fn hint(&self) -> Option<String> {
        self.near.as_ref().map(|near| format!("did you mean `{near}`?"))
    }
    /// As a message for people.
    pub(crate) fn warning(&self) -> String {
        match self.hint() {
            Some(hint) => format!("warning: {self}\nhint: {hint}"),
            None => format!("warning: {self}"),
        }
    }
}

impl fmt::Display for Unmatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What of `selection` neither `desired`, the inventory nor `plan` has anything of.
pub(crate) async fn unmatched(
    session: &Session,
    reader: &Reader,
    desired: &Desired,
    plan: Option<&Document>,
    selection: &Selection,
) -> Result<Vec<Unmatched>, Failure> {
    // What is wrong with a file says nothing of what else is in it.
    let is_broken = desired.sources.values().any(|source| !source.broken.is_empty());
    let as_far = if is_broken { ", as far as files could be read" } else { "" };
    let mut found = Vec::new();
    for labels in &selection.labels {
        let has = |meta: &reconciled_engine::ManifestMeta| labels.matches(|key| meta.labels.get(key));
        if !desired.manifests.iter().any(has) {
            let text = format!("no manifest has labels that `{labels}` means{as_far}");
            found.push(Unmatched { text, near: None });
        }
    }
    for target in &selection.targets {
        if is_declared(session, desired, target)
            || plan.is_some_and(|plan| is_planned(plan, target))
            || !reader.rows(Some(target)).await?.is_empty()
        {
            continue;
        }
        let known = known(session, reader, desired, target).await?;
        let text = target.0.to_string();
        // What has a `*` in it is no name.
        let near = (!text.contains(['*', '?']))
            .then(|| did_you_mean(&text, known.iter().map(String::as_str)).map(str::to_owned));
        let text = format!("nothing is declared or tracked that `{text}` means{as_far}");
        found.push(Unmatched { text, near: near.flatten() });
    }
    Ok(found)
}

/// The manifests that are declared, also those that are nothing here.
fn declared(desired: &Desired) -> impl Iterator<Item = (Address, &ManifestKey)> {
    let here = desired.manifests.iter().map(|meta| (meta.address.clone(), &meta.key));
    let elsewhere = desired.sources.values().flat_map(|s| s.unassigned.iter().chain(&s.unselected));
    here.chain(elsewhere.map(|key| (Address::of(key, None), key)))
}

/// The resources of what is declared here, by their addresses.
fn parts<'a>(session: &'a Session, desired: &'a Desired) -> impl Iterator<Item = (Address, &'a ManifestKey)> {
    desired.scopes.iter().flat_map(move |(scope, resources)| {
        let observer = session.observer(&scope.provider);
        resources.iter().flat_map(move |resource| {
            let part = observer.and_then(|observer| observer.part(scope, &resource.id));
            let named = desired.known_by(scope, resource);
            named.map(move |meta| (Address { part: part.clone(), ..meta.address.clone() }, &meta.key))
        })
    })
}

fn is_declared(session: &Session, desired: &Desired, target: &Pattern) -> bool {
    let is_meant = |(address, key): (Address, &ManifestKey)| target.matches(&address, key.group());
    declared(desired).any(is_meant) || target.names_part() && parts(session, desired).any(is_meant)
}

/// True for what is neither declared nor tracked and comes up all the same, as what an `exclusive` zone deletes.
fn is_planned(plan: &Document, target: &Pattern) -> bool {
    let any_group = Pattern(target.0.in_group(None));
    let conditions = plan.conditions.iter().filter_map(|condition| condition.address.as_deref());
    let mut all = plan.resource_changes.iter().map(|change| &*change.address).chain(conditions);
    all.any(|address| address.parse().is_ok_and(|address| any_group.matches(&address, "")))
}

/// What may be meant in place of `target`.
async fn known(
    session: &Session,
    reader: &Reader,
    desired: &Desired,
    target: &Pattern,
) -> Result<BTreeSet<String>, Failure> {
    let tracked = reader.rows(None).await?.into_iter().map(|row| row.address);
    let mut known: BTreeSet<String> = match target.names_part() {
        true => parts(session, desired).map(|(address, _)| address.to_string()).chain(tracked).collect(),
        false => tracked.filter_map(|address| address.split('#').next().map(str::to_owned)).collect(),
    };
    known.extend(declared(desired).map(|(address, _)| address.to_string()));
    Ok(known)
}
