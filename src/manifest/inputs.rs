//! What a backend may look at while it normalizes, with every use recorded.

use super::{
    allowed, annotations,
    cache::Uses,
    loading::{Loading, Side},
    request::{EntryView, Mode},
    standing,
    substitute::Put,
    unit::{Standing, Unit},
};
use crate::config::HostSecrets;
use bytes::Bytes;
use reconciled_engine::Selector;
use reconciled_provider::{
    Error, Hash, Inputs, Manifest, Policies, Policy, PolicyId, Reference, Scope, SecretMark, SecretRef, Value,
};
use std::{cell::RefCell, collections::BTreeSet};

impl Uses {
    /// True when everything but the scopes would be seen the same now.
    pub(super) fn still_hold(&self, loading: &Loading<'_>, unit: &Unit) -> bool {
        let side = &loading.sides[unit.source];
        self.blobs.iter().all(|(path, oid)| side.oids.get(path) == oid.as_ref())
            && self.secrets.iter().all(|((owner, secret), mark)| {
                let owner = if *owner == unit.key { Some(unit) } else { loading.unit(owner) };
                owner.and_then(|owner| mark_of(loading, owner, secret).ok()) == *mark
            })
            && self.outputs.iter().all(|(reference, value)| loading.output(reference).text() == *value)
            && self.selectors.iter().all(|(text, is_this)| selects(loading, text).ok() == Some(*is_this))
            && self.siblings.iter().all(|(kind, hash)| hash_of(siblings(loading, unit, kind)) == *hash)
            && self
                .beside
                .iter()
                .all(|((kind, scope), hash)| hash_of(beside(loading, unit, kind, scope)) == *hash)
            && self.absent.iter().all(|(kind, hash)| hash_of(absent(loading, kind)) == *hash)
            && self.entries.is_none_or(|was| names_hash(&entries(loading)) == was)
            && self.is_all_read.is_none_or(|was| loading.is_all_read() == was)
            && self.hides_nothing.is_none_or(|was| loading.hides_nothing() == was)
            && self.hidden.iter().all(|((kind, name), was)| may_hide(loading, kind, name) == *was)
    }
}

/// A hash that is equal for equal sets of scopes.
pub(super) fn scopes_hash(scopes: &BTreeSet<Scope>) -> Hash {
    let text: Vec<String> = scopes.iter().map(Scope::to_string).collect();
    Hash::of(text.join("\n").as_bytes())
}

fn names_hash(names: &BTreeSet<&str>) -> Hash {
    let names: Vec<&str> = names.iter().copied().collect();
    Hash::of(names.join("\n").as_bytes())
}

/// The names of the entries of this host, whether they can be used or not, and those that they had.
fn entries<'a>(loading: &'a Loading<'_>) -> BTreeSet<&'a str> {
    if loading.mode == Mode::Anywhere {
        return BTreeSet::new();
    }
    let names = loading.request.entries.iter().map(|entry| &*entry.name);
    names.chain(loading.request.renamed.keys().map(|name| &**name)).collect()
}

/// The mark of a secret that `unit` names, if it may.
fn mark_of(loading: &Loading<'_>, unit: &Unit, reference: &SecretRef) -> Result<SecretMark, Error> {
    if let SecretRef::Named(name) = reference
        && HostSecrets::is_name_of_mark(name)
    {
        // Only what this manifest has had opened, not what it says it has.
        let texts = unit.resolved.texts.iter().map(|(put, _)| put);
        let mut opened = unit.resolved.puts.values().chain(texts).filter_map(Put::opened);
        return opened.find(|(of, _)| *of == **name).map(|(_, mark)| mark).ok_or_else(|| {
            Error::permission_denied(format!("secret `{name}` is not one that a manifest may name"))
                .hint("write {secret: NAME} or {sops: PATH, key: KEY}")
        });
    }
    let kind = format!("{}/{}", unit.document.group(), unit.document.kind);
    let mark = loading.request.secrets.mark(unit.key.source(), &kind, reference);
    loading.secrets.borrow_mut().note(unit.key.source(), &kind, reference, mark.as_ref().ok().copied());
    mark
}

/// Whether a selector is for this host, where there is one.
fn selects(loading: &Loading<'_>, selector: &str) -> Result<bool, Error> {
    let parsed = selector.parse::<Selector>();
    let selector = parsed.map_err(|error| Error::invalid(error.to_string()).hint(annotations::SELECTOR))?;
    Ok(loading.mode == Mode::Anywhere || selector.matches(|key| standing::label(loading.request.host, key)))
}

fn siblings<'a>(loading: &'a Loading<'_>, unit: &'a Unit, kind: &str) -> impl Iterator<Item = &'a Unit> {
    loading.units.iter().filter(move |other| {
        other.source == unit.source
            && &*other.document.kind == kind
            && other.key != unit.key
            && matches!(other.standing, Standing::Offered { .. })
    })
}

/// Those of the other sources that the host lets manage `scope`: nobody's settings count where nothing else of them would.
fn beside<'a>(
    loading: &'a Loading<'_>,
    unit: &'a Unit,
    kind: &str,
    scope: &Scope,
) -> impl Iterator<Item = &'a Unit> {
    loading.units.iter().filter(move |other| {
        other.source != unit.source
            && &*other.document.kind == kind
            && matches!(other.standing, Standing::Offered { .. })
            && allowed::may_manage(loading, other, scope)
    })
}

/// Those of which nothing is made here.
fn absent<'a>(loading: &'a Loading<'_>, kind: &str) -> impl Iterator<Item = &'a Unit> {
    loading.units.iter().filter(move |unit| {
        &*unit.document.kind == kind && !matches!(unit.standing, Standing::Offered { .. })
    })
}

/// Whether a scope of this name may be declared by a manifest of `kind` that is not seen as one: in what is not read anything may
/// stand, and what is in error may declare what it names.
fn may_hide(loading: &Loading<'_>, kind: &str, name: &str) -> bool {
    let manifest = |unit: usize| loading.manifest(&loading.units[unit]);
    let of_side = |side: &Side<'_>| {
        (side.has_unread() || side.faulty.may_declare(manifest, kind, name))
            && allowed::may_declare(&side.request.rules.allow, None, kind, name)
    };
    loading.sides.iter().any(of_side)
        || loading.request.lacking.iter().any(|(_, allow)| allowed::may_declare(allow, None, kind, name))
}

fn hash_of<'a>(units: impl Iterator<Item = &'a Unit>) -> Hash {
    let mut bytes = Vec::new();
    for other in units {
        bytes.extend_from_slice(other.key.0.as_bytes());
        bytes.extend_from_slice(&other.resolved.input.0);
    }
    Hash::of(&bytes)
}

/// The inputs of one manifest and one entry.
pub(super) struct Recorder<'a, 'b> {
    pub(super) loading: &'a Loading<'b>,
    pub(super) unit: &'a Unit,
    pub(super) entry: &'a EntryView,
    pub(super) scopes: &'a BTreeSet<Scope>,
    pub(super) policies: &'a RefCell<Policies>,
    /// Outputs count as unknown: what comes out is the template.
    pub(super) hides_outputs: bool,
    pub(super) uses: RefCell<Uses>,
}

impl Recorder<'_, '_> {
    fn mark(&self, owner: &Unit, reference: &SecretRef) -> Result<SecretMark, Error> {
        let mark = mark_of(self.loading, owner, reference);
        let what = (owner.key.clone(), reference.clone());
        self.uses.borrow_mut().secrets.insert(what, mark.as_ref().ok().copied());
        mark
    }
}

impl Inputs for Recorder<'_, '_> {
    fn entry(&self) -> &str {
        &self.entry.name
    }

    fn is_sole(&self) -> bool {
        standing::is_sole(self.loading, self.unit, self.entry)
    }

    fn blob(&self, path: &str) -> Result<Bytes, Error> {
        let oid = self.loading.sides[self.unit.source].oids.get(path).copied();
        self.uses.borrow_mut().blobs.insert(path.into(), oid);
        self.loading.blob(self.unit.source, path)
    }

    fn secret(&self, reference: &SecretRef) -> Result<SecretMark, Error> {
        self.mark(self.unit, reference)
    }

    fn secret_of(&self, other: &Manifest, reference: &SecretRef) -> Result<SecretMark, Error> {
        let owner = self.loading.unit(&other.key).filter(|owner| owner.source == self.unit.source);
        let owner =
            owner.ok_or_else(|| Error::unexpected(format!("{} is no manifest of this source", other.key)))?;
        self.mark(owner, reference)
    }

    fn output(&self, reference: &Reference) -> Value {
        if self.hides_outputs {
            return Value::Unknown;
        }
        let value = self.loading.output(reference).text();
        self.uses.borrow_mut().outputs.insert(reference.clone(), value.clone());
        value.map_or(Value::Unknown, Value::Known)
    }

    fn scopes(&self) -> &BTreeSet<Scope> {
        self.uses.borrow_mut().scopes = Some(scopes_hash(self.scopes));
        self.scopes
    }

    fn entries(&self) -> BTreeSet<&str> {
        let names = entries(self.loading);
        self.uses.borrow_mut().entries = Some(names_hash(&names));
        names
    }

    fn is_apart(&self) -> bool {
        self.loading.mode == Mode::Anywhere
    }

    fn is_all_read(&self) -> bool {
        let is_all_read = self.loading.is_all_read();
        self.uses.borrow_mut().is_all_read = Some(is_all_read);
        is_all_read
    }

    fn may_hide(&self, kind: &str, name: &str) -> bool {
        let hides_nothing = self.loading.hides_nothing();
        let mut uses = self.uses.borrow_mut();
        uses.hides_nothing = Some(hides_nothing);
        if hides_nothing {
            return false;
        }
        let may_hide = may_hide(self.loading, kind, name);
        uses.hidden.insert((kind.into(), name.into()), may_hide);
        may_hide
    }

    fn absent(&self, kind: &str) -> Vec<&Manifest> {
        let hash = hash_of(absent(self.loading, kind));
        self.uses.borrow_mut().absent.insert(kind.into(), hash);
        absent(self.loading, kind).map(|other| self.loading.manifest(other)).collect()
    }

    fn siblings(&self, kind: &str) -> Vec<&Manifest> {
        let hash = hash_of(siblings(self.loading, self.unit, kind));
        self.uses.borrow_mut().siblings.insert(kind.into(), hash);
        siblings(self.loading, self.unit, kind).map(|other| self.loading.manifest(other)).collect()
    }

    fn beside(&self, kind: &str, scope: &Scope) -> Vec<&Manifest> {
        let hash = hash_of(beside(self.loading, self.unit, kind, scope));
        self.uses.borrow_mut().beside.insert((kind.into(), scope.clone()), hash);
        beside(self.loading, self.unit, kind, scope).map(|other| self.loading.manifest(other)).collect()
    }

    fn selects(&self, selector: &str) -> Result<bool, Error> {
        let is_this = selects(self.loading, selector)?;
        self.uses.borrow_mut().selectors.insert(selector.into(), is_this);
        Ok(is_this)
    }

    fn policy(&self, policy: Policy) -> PolicyId {
        self.policies.borrow_mut().intern(policy)
    }
}
