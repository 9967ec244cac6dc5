//! Rows of the scopes that were read last, kept in memory: a pass over 10,000 rows that changes one reads one.
//!
//! Guarantees: what is kept is what the database holds at the stamp that the same snapshot read, whichever process wrote
//! it and raised that (SQL by hand has to raise it too); a stamp is never used twice. It deliberately keeps nothing until
//! it is told how much it may.

use super::rows::{self, Names, at, ms};
use reconciled_engine::{Row, RowState, Write};
use reconciled_provider::{Address, ResourceId, Scope};
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
const ROW: usize = 320;

/// What is kept of a scope, in rows; one more for the scope.
fn weight(rows: &[Row]) -> usize {
    let sealed = |row: &Row| row.tracked.private.0.len() + row.tracked.outputs.0.len();
    1 + rows.iter().map(|row| 1 + sealed(row) / ROW).sum::<usize>()
}

#[derive(Debug)]
struct Entry {
    stamp: i64,
    rows: Arc<Vec<Row>>,
    /// What was written since. The rows show it once somebody reads them, who then mostly is the only one that has them; while a
    /// pass has them too, it would take a copy of all.
    late: Vec<Late>,
    weight: usize,
    used: u64,
}

/// A write that the rows do not show yet.
#[derive(Debug)]
enum Late {
    /// They were seen to be as written.
    Settled(Vec<ResourceId>),
    Rows(Vec<Row>),
    Gone(Vec<ResourceId>),
}

impl Late {
    /// What `write` does to `scope`; none where that is not to be told.
    fn of(scope: &Scope, write: Write) -> Option<Late> {
        match write {
            Write::Settled(_, ids) => Some(Late::Settled(ids)),
            Write::Gone(_, ids) => Some(Late::Gone(ids)),
            Write::Rows(list) => {
                let mut list = Arc::unwrap_or_clone(list);
                list.retain(|row| *row.scope == *scope);
                Some(Late::Rows(list))
            }
            _ => None,
        }
    }

    fn show(self, rows: &mut Vec<Row>) {
        match self {
            Late::Settled(mut ids) => {
                ids.sort_unstable();
                let mut ids = ids.iter().peekable();
                for row in rows {
                    while ids.next_if(|id| **id < row.tracked.id).is_some() {}
                    if ids.peek().is_some_and(|id| **id == row.tracked.id) {
                        row.state = RowState::Settled;
                    }
                }
            }
            Late::Rows(list) => put(rows, list),
            Late::Gone(ids) => {
                let ids: HashSet<&ResourceId> = ids.iter().collect();
                rows.retain(|row| !ids.contains(&row.tracked.id));
            }
        }
    }
}

impl Scopes {
    fn put(&mut self, scope: &Scope, stamp: i64, rows: Arc<Vec<Row>>) {
        self.remove(scope);
        self.uses += 1;
        let weight = weight(&rows);
        self.size += weight;
        self.used.insert(self.uses, scope.clone());
        self.all.insert(scope.clone(), Entry { stamp, rows, late: Vec::new(), weight, used: self.uses });
    }

    fn at(&mut self, scope: &Scope, stamp: i64) -> Option<Arc<Vec<Row>>> {
        self.all.get(scope).filter(|entry| entry.stamp == stamp)?;
        self.rows(scope)
    }

    /// The rows of `scope` with all that was written since.
    fn rows(&mut self, scope: &Scope) -> Option<Arc<Vec<Row>>> {
        let entry = self.all.get_mut(scope)?;
        if !entry.late.is_empty() {
            let rows = Arc::make_mut(&mut entry.rows);
            mem::take(&mut entry.late).into_iter().for_each(|late| late.show(rows));
            self.size -= entry.weight;
            entry.weight = weight(&entry.rows);
            self.size += entry.weight;
        }
        Some(entry.rows.clone())
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
        let mut scopes = self.scopes();
        let rows = scopes.at(scope, stamp);
        // They may be more by what was written since.
        scopes.trim(self.most.load(Ordering::Relaxed));
        rows
    }

    /// As [`Kept::at`]; the scope is the one used last from now on.
    pub(super) fn use_at(&self, scope: &Scope, stamp: i64) -> Option<Arc<Vec<Row>>> {
        let mut scopes = self.scopes();
        scopes.all.get(scope).filter(|entry| entry.stamp == stamp)?;
        scopes.use_now(scope);
        let rows = scopes.rows(scope);
        scopes.trim(self.most.load(Ordering::Relaxed));
        rows
    }

    /// Whether these are all rows of `scope` at `stamp`, and each was written and not seen since; none where that is not to be told
    /// from what is kept. `ids` are sorted.
    pub(super) fn are_applied(&self, scope: &Scope, stamp: i64, ids: &[&str]) -> Option<bool> {
        let scopes = self.scopes();
        let entry = scopes.all.get(scope).filter(|entry| entry.stamp == stamp && entry.late.is_empty())?;
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
            if let (true, Write::Rows(list)) = (touched.is_begun, write)
                && let Some(rows) = begun(scope, Arc::unwrap_or_clone(list))
            {
                self.put(scope, touched.stamp, rows.into());
            }
            return;
        };
        if stamp >= touched.stamp {
            return;
        }
        // What came between is not known.
        let late = Late::of(scope, write).filter(|_| stamp + 1 == touched.stamp);
        let (Some(late), Some(entry)) = (late, scopes.use_now(scope)) else {
            scopes.remove(scope);
            return;
        };
        entry.stamp = touched.stamp;
        let shows_at_once = !matches!(late, Late::Settled(_)) && Arc::strong_count(&entry.rows) == 1;
        entry.late.push(late);
        if shows_at_once {
            scopes.rows(scope);
            scopes.trim(self.most.load(Ordering::Relaxed));
        }
    }

    fn scopes(&self) -> MutexGuard<'_, Scopes> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All that `scope` has, of what was written; none where two have one id. They stay in the memory that they came in, and nothing is
/// needed to sort them: a new scope may have thousands.
fn begun(scope: &Scope, mut rows: Vec<Row>) -> Option<Vec<Row>> {
    let mut names = Names::default();
    rows.retain(|row| *row.scope == *scope);
    rows.iter_mut().for_each(|row| store(row, &mut names));
    rows.sort_unstable_by(|a, b| a.tracked.id.cmp(&b.tracked.id));
    rows.is_sorted_by(|a, b| a.tracked.id < b.tracked.id).then_some(rows)
}

/// Puts or replaces rows by id; of several with one id the last counts.
fn put(rows: &mut Vec<Row>, list: Vec<Row>) {
    let mut names = Names::default();
    let stored = |mut row: Row| {
        store(&mut row, &mut names);
        (row.tracked.id.clone(), row)
    };
    let mut new: BTreeMap<ResourceId, Row> = list.into_iter().map(stored).collect();
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
    let address = names.address(&row.address.to_string());
    let formerly: Vec<Address> = row.formerly.iter().map(|one| rows::address(&one.to_string())).collect();
    // Where it is as it reads back, it goes on sharing what it has with the step that wrote it.
    if row.address != address || row.formerly != formerly {
        (row.address, row.formerly) = (address, formerly);
    }
}
