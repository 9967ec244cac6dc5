//! Rows of the scopes that were read last, kept in memory: a pass over 10,000 rows that changes one reads one.
//!
//! Guarantees: what is kept is what the database holds at the stamp that the same snapshot read, whichever process wrote
//! it and raised that (SQL by hand has to raise it too); a stamp is never used twice. It deliberately keeps nothing until
//! it is told how much it may.

use super::rows::{self, Names, at, ms};
use reconciled_engine::{Row, RowState, Write};
use reconciled_provider::{ResourceId, Scope};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Rows by scope, sorted by id.
#[derive(Debug, Default)]
pub(super) struct Kept {
    most: AtomicUsize,
    scopes: Mutex<Scopes>,
}

/// A pass may look at thousands of scopes: nothing here goes through all of them.
#[derive(Debug, Default)]
struct Scopes {
    all: HashMap<Scope, Entry>,
    /// By when they were used; the scope used last comes last.
    used: BTreeMap<u64, Scope>,
    uses: u64,
    /// What all of them weigh.
    size: usize,
}

/// Bytes of a row, about; what is sealed of one counts as so many more rows.
const ROW: usize = 400;

/// What is kept of a scope, in rows; one more for the scope.
fn weight(rows: &[Row]) -> usize {
    let sealed = |row: &Row| row.tracked.private.0.len() + row.tracked.outputs.0.len();
    1 + rows.iter().map(|row| 1 + sealed(row) / ROW).sum::<usize>()
}

#[derive(Debug)]
struct Entry {
    stamp: i64,
    rows: Arc<Vec<Row>>,
    /// Rows that were seen to be as written since, by id. They say so once somebody reads them, who then mostly is the only
    /// one that has them; while a pass has them too, it would take a copy of all.
    seen: Vec<ResourceId>,
    weight: usize,
    used: u64,
}

impl Entry {
    /// The rows, as they are at the stamp.
    fn rows(&mut self) -> &mut Arc<Vec<Row>> {
        let seen = mem::take(&mut self.seen);
        if !seen.is_empty() {
            let mut seen = seen.iter().peekable();
            for row in Arc::make_mut(&mut self.rows) {
                while seen.next_if(|id| **id < row.tracked.id).is_some() {}
                if seen.peek().is_some_and(|id| **id == row.tracked.id) {
                    row.state = RowState::Settled;
                }
            }
        }
        &mut self.rows
    }
}

impl Scopes {
    fn put(&mut self, scope: &Scope, stamp: i64, rows: Arc<Vec<Row>>) {
        self.remove(scope);
        self.uses += 1;
        let weight = weight(&rows);
        self.size += weight;
        self.used.insert(self.uses, scope.clone());
        self.all.insert(scope.clone(), Entry { stamp, rows, seen: Vec::new(), weight, used: self.uses });
    }

    fn at(&mut self, scope: &Scope, stamp: i64) -> Option<Arc<Vec<Row>>> {
        Some(self.all.get_mut(scope).filter(|entry| entry.stamp == stamp)?.rows().clone())
    }

    /// The scope is the one used last from now on. It goes through none of the rows.
    fn use_now(&mut self, scope: &Scope) -> Option<&mut Entry> {
        let entry = self.all.get_mut(scope)?;
        self.uses += 1;
        self.used.remove(&entry.used);
        self.used.insert(self.uses, scope.clone());
        entry.used = self.uses;
        Some(entry)
    }

    fn remove(&mut self, scope: &Scope) -> Option<Entry> {
        let entry = self.all.remove(scope)?;
        self.used.remove(&entry.used);
        self.size -= entry.weight;
        Some(entry)
    }

    fn trim(&mut self, most: usize) {
        while self.size > most
            && let Some((_, oldest)) = self.used.pop_first()
        {
            self.remove(&oldest);
        }
    }
}

/// A write that changed rows of a scope, and the stamp that it gave them.
#[derive(Debug)]
pub(super) struct Touched {
    /// Which commit of its group, and which write of that.
    pub(super) commit: usize,
    pub(super) write: usize,
    pub(super) scope: Scope,
    pub(super) stamp: i64,
    /// What was written is all that the scope has.
    pub(super) is_begun: bool,
}

impl Kept {
    /// Keeps at most so many rows from now on, or fewer where much of them is sealed.
    pub(super) fn keep(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// True where it was told to keep nothing.
    pub(super) fn keeps_nothing(&self) -> bool {
        self.most.load(Ordering::Relaxed) == 0
    }

    /// The rows of `scope` at `stamp`.
    pub(super) fn at(&self, scope: &Scope, stamp: i64) -> Option<Arc<Vec<Row>>> {
        self.scopes().at(scope, stamp)
    }

    /// As [`Kept::at`]; the scope is the one used last from now on.
    pub(super) fn use_at(&self, scope: &Scope, stamp: i64) -> Option<Arc<Vec<Row>>> {
        let mut scopes = self.scopes();
        scopes.all.get(scope).filter(|entry| entry.stamp == stamp)?;
        Some(scopes.use_now(scope)?.rows().clone())
    }

    /// Whether these are all rows of `scope` at `stamp`, and each was written and not seen since; none where that is not to be told
    /// from what is kept. `ids` are sorted.
    pub(super) fn are_applied(&self, scope: &Scope, stamp: i64, ids: &[&str]) -> Option<bool> {
        let scopes = self.scopes();
        let entry = scopes.all.get(scope).filter(|entry| entry.stamp == stamp && entry.seen.is_empty())?;
        let is_applied =
            |(row, id): (&Row, &&str)| *row.tracked.id.0 == **id && row.state == RowState::Applied;
        Some(entry.rows.len() == ids.len() && entry.rows.iter().zip(ids).all(is_applied))
    }

    /// Keeps the rows of `scope` as they are at `stamp`, unless newer ones are kept.
    pub(super) fn put(&self, scope: &Scope, stamp: i64, rows: Arc<Vec<Row>>) {
        let most = self.most.load(Ordering::Relaxed);
        let mut scopes = self.scopes();
        if weight(&rows) > most || scopes.all.get(scope).is_some_and(|entry| entry.stamp >= stamp) {
            return;
        }
        scopes.put(scope, stamp, rows);
        scopes.trim(most);
    }

    /// As [`Kept::put`], where there is room besides all that is kept: who reads every scope one after the other would
    /// drive out each before it comes to it again.
    pub(super) fn put_beside(&self, scope: &Scope, stamp: i64, rows: Arc<Vec<Row>>) {
        let most = self.most.load(Ordering::Relaxed);
        let mut scopes = self.scopes();
        let (size, newest) = match scopes.all.get(scope) {
            Some(entry) => (scopes.size - entry.weight, entry.stamp),
            None => (scopes.size, i64::MIN),
        };
        if newest < stamp && size + weight(&rows) <= most {
            scopes.put(scope, stamp, rows);
        }
    }

    /// Follows a write that is durable.
    pub(super) fn follow(&self, touched: &Touched, write: Write) {
        let scope = &touched.scope;
        let mut scopes = self.scopes();
        let Some(stamp) = scopes.all.get(scope).map(|entry| entry.stamp) else {
            drop(scopes);
            if let (true, Write::Rows(list)) = (touched.is_begun, write) {
                self.put(scope, touched.stamp, Arc::new(begun(scope, Arc::unwrap_or_clone(list))));
            }
            return;
        };
        if stamp >= touched.stamp {
            return;
        }
        if let Write::Settled(_, mut ids) = write {
            // What came between is not known.
            if stamp + 1 != touched.stamp {
                scopes.remove(scope);
            } else if let Some(entry) = scopes.use_now(scope) {
                entry.rows();
                ids.sort_unstable();
                entry.seen = ids;
                entry.stamp = touched.stamp;
            }
            return;
        }
        let Some(mut entry) = scopes.remove(scope).filter(|_| stamp + 1 == touched.stamp) else { return };
        let rows = Arc::make_mut(entry.rows());
        match write {
            Write::Rows(list) => {
                put(rows, Arc::unwrap_or_clone(list).into_iter().filter(|row| row.scope == *scope))
            }
            Write::Gone(_, ids) => {
                let ids: HashSet<&ResourceId> = ids.iter().collect();
                rows.retain(|row| !ids.contains(&row.tracked.id));
            }
            _ => return,
        }
        scopes.put(scope, touched.stamp, entry.rows);
        scopes.trim(self.most.load(Ordering::Relaxed));
    }

    fn scopes(&self) -> MutexGuard<'_, Scopes> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All that `scope` has, of what was written; of several with one id the last counts. They stay in the memory that they came in:
/// a new scope may have thousands.
fn begun(scope: &Scope, mut rows: Vec<Row>) -> Vec<Row> {
    let mut names = Names::default();
    rows.retain(|row| row.scope == *scope);
    rows.iter_mut().for_each(|row| store(row, &mut names));
    rows.sort_by(|a, b| a.tracked.id.cmp(&b.tracked.id));
    rows.dedup_by(|later, one| {
        let is_same = later.tracked.id == one.tracked.id;
        if is_same {
            mem::swap(later, one);
        }
        is_same
    });
    rows
}

/// Puts or replaces rows by id; of several with one id the last counts.
fn put(rows: &mut Vec<Row>, list: impl Iterator<Item = Row>) {
    let mut names = Names::default();
    let stored = |mut row: Row| {
        store(&mut row, &mut names);
        (row.tracked.id.clone(), row)
    };
    let mut new: BTreeMap<ResourceId, Row> = list.map(stored).collect();
    for row in rows.iter_mut() {
        if let Some(next) = new.remove(&row.tracked.id) {
            *row = next;
        }
    }
    if !new.is_empty() {
        rows.extend(new.into_values());
        rows.sort_by(|a, b| a.tracked.id.cmp(&b.tracked.id));
    }
}

/// Makes a row what reads back of it.
fn store(row: &mut Row, names: &mut Names) {
    if let RowState::Pending { recheck_at } = &mut row.state {
        *recheck_at = at(ms(*recheck_at));
    }
    row.written_at = at(ms(row.written_at));
    row.address = names.address(&row.address.to_string());
    for one in &mut row.formerly {
        *one = rows::address(&one.to_string());
    }
}
