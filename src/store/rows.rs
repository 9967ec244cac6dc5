//! Inventory rows in and out of the columns of `inventory`, and the words and numbers that values are stored as. What writes rows
//! is in [`super::inventory`].

use super::{
    error::{Result, StoreError},
    seal::{Part, Seal},
};
use data_encoding::HEXUPPER;
use reconciled_engine::{
    Row, RowState,
    store::{Known, Terms},
};
use reconciled_provider::{
    Address, Deletion, Drift, EntryPolicy, Hash, ManifestKey, Pattern, ResourceId, Scope, Sealed, Tracked,
    Whole,
};
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;
use std::{
    borrow::Cow,
    collections::HashMap,
    path::PathBuf,
    str::FromStr,
    sync::{Arc, LazyLock},
    time::Duration,
};

/// Rows that are asked for at once: more are no cheaper by themselves.
pub(super) const CHUNK: usize = 512;

/// Rows that are asked for while nobody knows how long they are.
pub(super) const FIRST_CHUNK: usize = 32;

/// How many rows are asked for after so many that took so many bytes: what is sealed of one may be long, the text of all of them is in
/// memory twice, and what SQLite took for it once stays with the thread of each connection.
pub(super) fn next_chunk(rows: usize, bytes: usize) -> usize {
    const BYTES: usize = 64 << 10;
    (BYTES * rows / bytes.max(1)).clamp(1, CHUNK)
}

/// An inventory row as a JSON array, which [`Line`] reads: handing over twenty values costs more than their text.
const LINE: &str = "json_array(scope, id, manifest, address, file, hex(template), hex(applied), normalizer, deletion, writes, \
     drift, merged, state, recheck_at, written_at, revision, remote, depends_on, formerly, hex(private), hex(outputs), STAMP)";

/// Rows one by one, as the marks of their scopes say they are.
pub(super) static SELECT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM inventory_now", LINE.replace("STAMP", "NULL")));

/// ?4 rows as one JSON array of them, from scope ?1 and id ?2 on up to scope ?3; what marks say of them is said by
/// [`Marks`], since to ask for that row by row takes as long as the rest.
pub(super) static FROM: LazyLock<String> = LazyLock::new(|| chunk(">="));

/// As [`FROM`], after scope ?1 and id ?2.
pub(super) static AFTER: LazyLock<String> = LazyLock::new(|| chunk(">"));

fn chunk(comparison: &str) -> String {
    let line = LINE.replace("STAMP", "stamp");
    format!(
        "SELECT json_group_array({line}) FROM (SELECT * FROM inventory
         WHERE (scope, id) {comparison} (?1, ?2) AND scope <= ?3 ORDER BY scope, id LIMIT ?4)"
    )
}

/// Up to which stamp rows that were written are settled, by their scopes.
#[derive(Default)]
pub(super) struct Marks(HashMap<String, i64>);

impl Marks {
    /// Those of these scopes.
    pub(super) async fn between(conn: &mut SqliteConnection, (first, last): (&str, &str)) -> Result<Marks> {
        let found = sqlx::query_as(
            "SELECT scope, settled FROM inventory_stamp WHERE settled IS NOT NULL AND scope BETWEEN ?1 AND ?2",
        );
        let found: Vec<(String, i64)> = found.bind(first).bind(last).fetch_all(conn).await?;
        Ok(Marks(found.into_iter().collect()))
    }

    fn settle(&self, line: &Line<'_>) -> bool {
        line.state == "applied"
            && line
                .stamp
                .is_some_and(|stamp| self.0.get(&*line.scope).is_some_and(|settled| stamp <= *settled))
    }
}

/// A row, in the order of [`LINE`].
#[derive(Deserialize)]
pub(super) struct Line<'a> {
    #[serde(borrow)]
    pub(super) scope: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) id: Cow<'a, str>,
    #[serde(borrow)]
    manifest: Cow<'a, str>,
    #[serde(borrow)]
    address: Cow<'a, str>,
    #[serde(borrow)]
    file: Cow<'a, str>,
    template: Hash,
    applied: Hash,
    normalizer: u32,
    deletion: Deletion,
    writes: EntryPolicy,
    drift: Drift,
    merged: u8,
    state: &'a str,
    recheck_at: Option<i64>,
    written_at: i64,
    #[serde(borrow)]
    revision: Cow<'a, str>,
    #[serde(borrow)]
    remote: Option<Cow<'a, str>>,
    #[serde(borrow)]
    depends_on: Option<Cow<'a, str>>,
    #[serde(borrow)]
    formerly: Option<Cow<'a, str>>,
    /// In hexadecimal digits, as what follows; what is sealed is never empty.
    private: &'a str,
    outputs: &'a str,
    /// None where the state is what a mark says already.
    stamp: Option<i64>,
}

/// The row of a line.
pub(super) fn get(line: &Line<'_>, names: &mut Names, marks: &Marks, seal: Option<&Seal>) -> Result<Row> {
    let scope = names.scope(&line.scope)?;
    let id = ResourceId::from(&*line.id);
    let opened = |part, digits: &str| match digits {
        "" => Ok(Sealed::default()),
        digits => {
            let bytes = bytes(digits, || format!("what is sealed of `{id}`"))?;
            unseal(seal, &scope, &id, part, Some(&bytes))
        }
    };
    let (private, outputs) = (opened(Part::Private, line.private)?, opened(Part::Outputs, line.outputs)?);
    let tracked = Tracked {
        remote: line.remote.as_deref().map(Arc::from),
        private,
        applied: line.applied,
        after: line.depends_on.as_deref().map_or_else(|| Ok(names.no_edges.clone()), parse_edges)?,
        outputs,
        id,
    };
    let terms = Terms {
        scope,
        manifest: ManifestKey(names.manifest.arc(&line.manifest)),
        file: names.file.arc(&line.file),
        normalizer: line.normalizer,
        deletion: line.deletion,
        writes: line.writes,
        drift: line.drift,
        merge: line.merged != 0,
        revision: names.revision.arc(&line.revision),
        formerly: line.formerly.as_deref().map_or_else(|| Ok(Vec::new()), parse_addresses)?,
    };
    let known = Known {
        terms: terms.shared(&mut names.terms),
        tracked,
        address: names.address(&line.address),
        template: line.template,
    };
    let state = match marks.settle(line) {
        true => RowState::Settled,
        false => parse_state(line.state, line.recheck_at)?,
    };
    Ok(Row::new(known, state, at(line.written_at)))
}

/// Shares texts that repeat from row to row: 100,000 rows of a zone name one scope, one file, one manifest.
#[derive(Default)]
pub(super) struct Names {
    scope: Option<(String, Arc<Scope>)>,
    address: Option<(String, Address)>,
    manifest: Last,
    file: Last,
    revision: Last,
    terms: Option<Arc<Terms>>,
    no_edges: Arc<[ManifestKey]>,
}

impl Names {
    /// The address of a text; addresses of one manifest share all but their part.
    pub(super) fn address(&mut self, text: &str) -> Address {
        let (path, part) = match text.split_once('#') {
            Some((path, part)) if !part.is_empty() => (path, Some(part)),
            _ => (text, None),
        };
        let whole = match &self.address {
            Some((last, address)) if last == path => address.clone(),
            _ => self.address.insert((path.to_string(), address(path))).1.clone(),
        };
        Address { part: part.map(Arc::from), ..whole }
    }
    pub(super) fn scope(&mut self, text: &str) -> Result<Arc<Scope>> {
        match &self.scope {
            Some((last, scope)) if last == text => Ok(scope.clone()),
            _ => {
                let scope = Arc::new(scope(text)?);
                self.scope = Some((text.to_string(), scope.clone()));
                Ok(scope)
            }
        }
    }
}

/// The text seen last.
#[derive(Default)]
struct Last(Option<Arc<str>>);

impl Last {
    fn arc(&mut self, text: &str) -> Arc<str> {
        match &self.0 {
            Some(last) if &**last == text => last.clone(),
            _ => self.0.insert(Arc::from(text)).clone(),
        }
    }
}

pub(super) fn unseal(
    seal: Option<&Seal>,
    scope: &Scope,
    id: &ResourceId,
    part: Part,
    bytes: Option<&[u8]>,
) -> Result<Sealed> {
    match (bytes, seal) {
        (None, _) => Ok(Sealed::default()),
        (Some(bytes), Some(seal)) => seal.open(scope, id, part, bytes),
        (Some(_), None) => Err(StoreError::SealKeyMissing(PathBuf::from(super::seal::KEY_FILE))),
    }
}

/// Milliseconds since the epoch: finer times are cut.
pub(super) fn ms(at: Duration) -> i64 {
    i64::try_from(at.as_millis()).unwrap_or(i64::MAX)
}

/// The time behind stored milliseconds.
pub(super) fn at(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// JSON of plain data.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data has a JSON form")
}

/// A JSON array, written element by element.
pub(super) fn json_list<T: Serialize>(list: impl Iterator<Item = Result<T>>) -> Result<String> {
    let mut out = vec![b'['];
    for element in list {
        if out.len() > 1 {
            out.push(b',');
        }
        serde_json::to_writer(&mut out, &element?).expect("plain data has a JSON form");
    }
    out.push(b']');
    Ok(String::from_utf8(out).expect("JSON is UTF-8"))
}

pub(super) fn parse_json<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| StoreError::Unreadable(format!("JSON: {error}")))
}

/// What SQLite's `hex` was given.
pub(super) fn bytes(digits: &str, what: impl FnOnce() -> String) -> Result<Vec<u8>> {
    HEXUPPER.decode(digits.as_bytes()).map_err(|_| StoreError::Unreadable(what()))
}

pub(super) fn scope(text: &str) -> Result<Scope> {
    text.parse().map_err(|_| StoreError::Unreadable(format!("scope `{text}`")))
}

/// An address is for people: one that does not follow the grammar keeps its text instead of making a whole
/// scope unreadable.
pub(super) fn address(text: &str) -> Address {
    Address::from_str(text).unwrap_or_else(|_| {
        let (kind, name) = text.split_once('/').unwrap_or(("", text));
        Whole { namespace: None, kind: kind.into(), group: None, name: name.into() }.into()
    })
}

/// True when a stored address is among those meant. `group` is that of its manifest, where one is known.
pub(super) fn is_meant(pattern: Option<&Pattern>, address: Option<&str>, group: Option<&str>) -> bool {
    let Some(pattern) = pattern else { return true };
    let Some(address) = address.and_then(|text| text.parse::<Address>().ok()) else { return false };
    let group = group.or(address.group.as_deref()).unwrap_or("");
    pattern.matches(&address, group)
}

pub(super) fn hash(bytes: &[u8]) -> Result<Hash> {
    bytes.try_into().map(Hash).map_err(|_| StoreError::Unreadable(format!("hash of {} bytes", bytes.len())))
}

pub(super) fn edges(after: &[ManifestKey]) -> Option<String> {
    (!after.is_empty()).then(|| json(&after.iter().map(|key| &*key.0).collect::<Vec<_>>()))
}

/// Addresses as a JSON array; nothing for none.
pub(super) fn addresses(list: &[Address]) -> Option<String> {
    (!list.is_empty()).then(|| json(&list.iter().map(ToString::to_string).collect::<Vec<_>>()))
}

fn parse_addresses(text: &str) -> Result<Vec<Address>> {
    let list: Vec<String> = parse_json(text)?;
    Ok(list.iter().map(|one| address(one)).collect())
}

fn parse_edges(text: &str) -> Result<Arc<[ManifestKey]>> {
    let keys: Vec<String> = parse_json(text)?;
    Ok(keys.into_iter().map(|key| ManifestKey(key.into())).collect())
}

pub(super) fn state_columns(state: &RowState) -> (&'static str, Option<i64>) {
    match state {
        RowState::Settled => ("settled", None),
        RowState::Applied => ("applied", None),
        RowState::Pending { recheck_at } => ("pending", Some(ms(*recheck_at))),
    }
}

pub(super) fn parse_state(word: &str, time: Option<i64>) -> Result<RowState> {
    match (word, time) {
        ("settled", _) => Ok(RowState::Settled),
        ("applied", _) => Ok(RowState::Applied),
        ("pending", Some(time)) => Ok(RowState::Pending { recheck_at: at(time) }),
        _ => Err(StoreError::Unreadable(format!("state `{word}`"))),
    }
}

pub(super) fn deletion_word(deletion: Deletion) -> &'static str {
    match deletion {
        Deletion::Delete => "delete",
        Deletion::Abandon => "abandon",
        Deletion::Protect => "protect",
    }
}
