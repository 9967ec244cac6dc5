//! The remotes, in memory. Outlives the crash of whoever talks to it, and checks what only a remote can see:
//! duplicates, deletions of what is not ours, writes that no intent announced, stale writes.

use reconciled_provider::{Health, Owner, ResourceId, Scope};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// One object of a remote.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Identifier the remote assigned.
    pub remote: Arc<str>,
    /// Content.
    pub content: Arc<str>,
    /// Who marked it.
    pub owner: Owner,
    /// Client token it was created with.
    pub token: Arc<str>,
    /// A slow create is not done before this time.
    pub ready_at: Duration,
}

/// One scope of a remote: objects by key. A remote without unique names can hold several for one key.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Raised with every change.
    pub version: u64,
    /// Objects by key.
    pub objects: BTreeMap<ResourceId, Vec<Object>>,
}

#[derive(Default)]
struct State {
    scopes: BTreeMap<Scope, Contents>,
    /// Older contents, newest last, for stale reads.
    past: BTreeMap<Scope, Vec<(Duration, Contents)>>,
    health: BTreeMap<(Scope, ResourceId), Health>,
    assigned: u64,
    reads: u64,
    writes: u64,
    violations: Vec<String>,
}

type Witness = Box<dyn Fn(&Scope, &ResourceId, Change) -> Option<String> + Send + Sync>;

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// It comes to be, or becomes, this.
    Put(&'a str),
    /// It goes, if it is there.
    Delete {
        /// False where there is nothing to delete.
        is_there: bool,
    },
    /// Its mark goes.
    Unmark,
}

/// All remotes of a test.
#[derive(Default)]
pub struct World {
    state: Mutex<State>,
    witness: Mutex<Option<Arc<Witness>>>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("World")
    }
}

impl World {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has every write checked: the witness says what is wrong with it.
    pub fn watch(
        &self,
        witness: impl Fn(&Scope, &ResourceId, Change) -> Option<String> + Send + Sync + 'static,
    ) {
        *self.witness.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(Box::new(witness)));
    }

    /// Counts a read call.
    pub(crate) fn count_read(&self) {
        self.state().reads += 1;
    }

    /// Counts a write call.
    pub(crate) fn count_write(&self) {
        self.state().writes += 1;
    }

    /// Read and write calls so far.
    pub fn calls(&self) -> (u64, u64) {
        let state = self.state();
        (state.reads, state.writes)
    }

    /// What the remotes saw go wrong.
    pub fn violations(&self) -> Vec<String> {
        self.state().violations.clone()
    }

    /// The contents of a scope now.
    pub fn contents(&self, scope: &Scope) -> Contents {
        self.state().scopes.get(scope).cloned().unwrap_or_default()
    }

    /// The contents as an old reader sees them: at most `window` old.
    pub(crate) fn stale(&self, scope: &Scope, now: Duration, window: Duration) -> Contents {
        let state = self.state();
        let past = state.past.get(scope).map_or(&[][..], Vec::as_slice);
        // The newest contents that were replaced no longer ago than the window.
        let old = past
            .iter()
            .find(|(replaced_at, _)| *replaced_at + window > now)
            .map(|(_, contents)| contents.clone());
        old.unwrap_or_else(|| state.scopes.get(scope).cloned().unwrap_or_default())
    }

    /// From now on, an object fares like this.
    pub fn fares(&self, scope: &Scope, id: &str, health: Health) {
        self.state().health.insert((scope.clone(), id.into()), health);
    }

    /// How the objects of a scope fare, as far as anything was said.
    pub(crate) fn health(&self, scope: &Scope) -> Vec<(ResourceId, Health)> {
        let state = self.state();
        let mine = state.health.iter().filter(|((place, _), _)| place == scope);
        mine.map(|((_, id), health)| (id.clone(), health.clone())).collect()
    }

    /// Puts or deletes as somebody else would, past every check.
    pub fn by_hand(&self, scope: &Scope, id: &str, content: Option<&str>, owner: Owner, now: Duration) {
        let mut state = self.state();
        state.remember(scope, now);
        state.assigned += 1;
        let assigned = state.assigned;
        let contents = state.scopes.entry(scope.clone()).or_default();
        contents.version += 1;
        match content {
            Some(content) => {
                let list = contents.objects.entry(id.into()).or_default();
                match list.first_mut() {
                    Some(object) => object.content = content.into(),
                    None => list.push(Object {
                        remote: format!("{BY_HAND}{assigned}").into(),
                        content: content.into(),
                        owner,
                        token: "".into(),
                        ready_at: Duration::ZERO,
                    }),
                }
            }
            None => {
                contents.objects.remove(&ResourceId::from(id));
            }
        }
    }

    /// The object that a remote gave this identity, in another scope behind the same entry.
    pub(crate) fn elsewhere(&self, scope: &Scope, remote: &str) -> Option<Object> {
        let state = self.state();
        let (place, id) = state.place(scope, remote).filter(|(place, _)| place != scope)?;
        state.scopes[&place].objects[&id].iter().find(|object| &*object.remote == remote).cloned()
    }

    /// Changes a scope as the engine's provider does: every change is checked.
    pub(crate) fn change(&self, scope: &Scope, now: Duration, changes: &[(ResourceId, Edit)]) {
        let witness = self.witness.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(witness) = witness {
            let seen: Vec<Change<'_>> = {
                let state = self.state();
                changes.iter().map(|(id, edit)| state.seen(scope, id, edit)).collect()
            };
            let told = changes.iter().zip(seen).filter_map(|((id, _), change)| witness(scope, id, change));
            let told: Vec<String> = told.collect();
            self.state().violations.extend(told);
        }
        let mut state = self.state();
        state.remember(scope, now);
        state.scopes.entry(scope.clone()).or_default().version += 1;
        for (id, edit) in changes {
            state.edit(scope, id, edit, now);
        }
        for (id, _) in changes {
            let count = state.scopes[scope].objects.get(id).map_or(0, Vec::len);
            if count > 1 {
                state.violations.push(format!("S1: {scope}/{id} is there {count} times"));
            }
        }
    }
}

/// What the identity of what somebody made by hand begins with.
const BY_HAND: &str = "by-hand-";

impl State {
    fn remember(&mut self, scope: &Scope, now: Duration) {
        let contents = self.scopes.get(scope).cloned().unwrap_or_default();
        let past = self.past.entry(scope.clone()).or_default();
        past.push((now, contents));
        if past.len() > 8 {
            past.remove(0);
        }
    }

    /// Where the object with this identity is: in `scope`, or in another one behind the same entry.
    fn place(&self, scope: &Scope, remote: &str) -> Option<(Scope, ResourceId)> {
        let others = self.scopes.keys().filter(|other| other.provider == scope.provider && *other != scope);
        std::iter::once(scope).chain(others).find_map(|place| {
            let mut objects = self.scopes.get(place)?.objects.iter();
            let (id, _) = objects.find(|(_, list)| list.iter().any(|object| &*object.remote == remote))?;
            Some((place.clone(), id.clone()))
        })
    }

    fn seen<'e>(&self, scope: &Scope, id: &ResourceId, edit: &'e Edit) -> Change<'e> {
        match edit {
            Edit::Put { content, .. } | Edit::Add { content, .. } => Change::Put(content),
            Edit::Remove { remote: Some(remote) } => {
                Change::Delete { is_there: self.place(scope, remote).is_some() }
            }
            Edit::Unmark { .. } => Change::Unmark,
            Edit::Remove { remote: None } => {
                let contents = self.scopes.get(scope);
                Change::Delete { is_there: contents.is_some_and(|c| c.objects.contains_key(id)) }
            }
        }
    }

    fn edit(&mut self, scope: &Scope, id: &ResourceId, edit: &Edit, now: Duration) {
        match edit {
            Edit::Put { content, owner, remote } => {
                // What has an identity keeps it, whatever it is called now.
                let known = remote.as_ref().and_then(|remote| self.take(scope, remote, now));
                let list = self.list(scope, id);
                list.extend(known);
                match list.last_mut() {
                    Some(object) => {
                        object.content = content.clone();
                        object.owner = owner.clone();
                    }
                    None => list.push(Object {
                        remote: id.0.clone(),
                        content: content.clone(),
                        owner: owner.clone(),
                        token: "".into(),
                        ready_at: Duration::ZERO,
                    }),
                }
            }
            Edit::Add { content, owner, token, ready_at } => {
                let object = Object {
                    remote: format!("r-{}", self.assigned).into(),
                    content: content.clone(),
                    owner: owner.clone(),
                    token: token.clone(),
                    ready_at: *ready_at,
                };
                self.list(scope, id).push(object);
            }
            Edit::Unmark { remote } => {
                let known = self.place(scope, remote);
                let contents =
                    known.and_then(|(place, id)| self.scopes.get_mut(&place)?.objects.get_mut(&id));
                let objects = contents.into_iter().flatten().filter(|object| object.remote == *remote);
                objects.for_each(|object| object.owner = Owner::Unmarked);
            }
            Edit::Remove { remote } => {
                let gone = match remote {
                    Some(remote) => self.take(scope, remote, now).into_iter().collect(),
                    None => std::mem::take(self.list(scope, id)),
                };
                let foreign =
                    gone.iter().filter(|o| o.owner == Owner::Unmarked && o.remote.starts_with(BY_HAND));
                let told = foreign.map(|_| format!("S2: deleted foreign {scope}/{id}"));
                self.violations.extend(told.collect::<Vec<_>>());
            }
        }
        self.assigned += 1;
        if let Some(contents) = self.scopes.get_mut(scope)
            && contents.objects.get(id).is_some_and(Vec::is_empty)
        {
            contents.objects.remove(id);
        }
    }

    fn list(&mut self, scope: &Scope, id: &ResourceId) -> &mut Vec<Object> {
        self.scopes.entry(scope.clone()).or_default().objects.entry(id.clone()).or_default()
    }

    /// Takes the object with this identity from where it is.
    fn take(&mut self, scope: &Scope, remote: &str, now: Duration) -> Option<Object> {
        let (place, id) = self.place(scope, remote)?;
        if place != *scope {
            self.remember(&place, now);
        }
        let contents = self.scopes.get_mut(&place)?;
        contents.version += 1;
        let list = contents.objects.get_mut(&id)?;
        let index = list.iter().position(|object| &*object.remote == remote)?;
        let object = list.remove(index);
        if list.is_empty() {
            contents.objects.remove(&id);
        }
        Some(object)
    }
}

/// One change of one object, in the words of the remote.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    /// Creates or replaces by key; by assigned identity where given, and the key becomes this one.
    Put { content: Arc<str>, owner: Owner, remote: Option<Arc<str>> },
    /// Creates with an assigned identity; the same key twice is two objects.
    Add { content: Arc<str>, owner: Owner, token: Arc<str>, ready_at: Duration },
    /// Takes the mark from what has this identity, if that is there.
    Unmark { remote: Arc<str> },
    /// Deletes by key, or by assigned identity where given.
    Remove { remote: Option<Arc<str>> },
}
