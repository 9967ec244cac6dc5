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
    /// It goes.
    Delete,
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
        let contents = state.scopes.entry(scope.clone()).or_default();
        contents.version += 1;
        match content {
            Some(content) => {
                let list = contents.objects.entry(id.into()).or_default();
                match list.first_mut() {
                    Some(object) => object.content = content.into(),
                    None => list.push(Object {
                        remote: "by-hand".into(),
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

    /// Changes a scope as the engine's provider does: every change is checked.
    pub(crate) fn change(&self, scope: &Scope, now: Duration, changes: &[(ResourceId, Edit)]) {
        let witness = self.witness.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(witness) = witness {
            let told: Vec<String> =
                changes.iter().filter_map(|(id, edit)| witness(scope, id, edit.seen())).collect();
            self.state().violations.extend(told);
        }
        let mut state = self.state();
        state.remember(scope, now);
        let assigned = state.assigned;
        state.assigned += changes.len() as u64;
        let mut told = Vec::new();
        let contents = state.scopes.entry(scope.clone()).or_default();
        contents.version += 1;
        for (offset, (id, edit)) in changes.iter().enumerate() {
            let list = contents.objects.entry(id.clone()).or_default();
            match edit {
                Edit::Put { content, owner } => match list.first_mut() {
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
                },
                Edit::Add { content, owner, token, ready_at } => {
                    let remote = format!("r-{}", assigned + offset as u64).into();
                    list.push(Object {
                        remote,
                        content: content.clone(),
                        owner: owner.clone(),
                        token: token.clone(),
                        ready_at: *ready_at,
                    });
                }
                Edit::Remove { remote } => {
                    let gone: Vec<_> =
                        list.iter().filter(|o| remote.as_ref().is_none_or(|r| *r == o.remote)).collect();
                    told.extend(
                        gone.iter()
                            .filter(|o| o.owner == Owner::Unmarked && &*o.remote == "by-hand")
                            .map(|_| format!("deleted foreign {scope}/{id}")),
                    );
                    list.retain(|o| remote.as_ref().is_some_and(|r| *r != o.remote));
                }
            }
            if list.is_empty() {
                contents.objects.remove(id);
            }
        }
        state.violations.extend(told);
    }
}

impl State {
    fn remember(&mut self, scope: &Scope, now: Duration) {
        let contents = self.scopes.get(scope).cloned().unwrap_or_default();
        let past = self.past.entry(scope.clone()).or_default();
        past.push((now, contents));
        if past.len() > 8 {
            past.remove(0);
        }
    }
}

/// One change of one object, in the words of the remote.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    /// Creates or replaces by key.
    Put { content: Arc<str>, owner: Owner },
    /// Creates with an assigned identity; the same key twice is two objects.
    Add { content: Arc<str>, owner: Owner, token: Arc<str>, ready_at: Duration },
    /// Deletes by key, or by assigned identity where given.
    Remove { remote: Option<Arc<str>> },
}

impl Edit {
    fn seen(&self) -> Change<'_> {
        match self {
            Edit::Put { content, .. } | Edit::Add { content, .. } => Change::Put(content),
            Edit::Remove { .. } => Change::Delete,
        }
    }
}
