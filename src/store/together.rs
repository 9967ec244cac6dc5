//! Commits that have nothing to do with each other, carried out statement by statement: hundreds of resources that are a scope
//! each are a dozen statements then, not a dozen for each of them.
//!
//! Guarantees: what is there afterwards is what it would be had each commit been carried out by itself. Only commits whose writes
//! are all about scopes of their own are taken together; whatever else is among them, none are. It deliberately knows no way back
//! for one of them: where one fails, nothing of the group holds, and the caller carries each out by itself.

use super::{error::Result, events, health, inventory, journal, place, transaction::Tx, write};
use reconciled_engine::Write;
use reconciled_provider::Scope;
use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

/// Writes of one kind, each with the commit and the write that it is.
pub(super) type Together<'w> = Vec<(usize, usize, &'w Write)>;

/// The writes of these commits, those of one kind together and each commit in its order; none where that could make a difference.
pub(super) fn together<'w>(commits: &[&'w [Write]]) -> Option<Vec<Together<'w>>> {
    let mut taken: BTreeMap<&Scope, usize> = BTreeMap::new();
    for (number, writes) in commits.iter().enumerate() {
        for scope in writes.iter().map(scopes).collect::<Option<Vec<_>>>()?.into_iter().flatten() {
            match taken.entry(scope) {
                Entry::Vacant(free) => drop(free.insert(number)),
                Entry::Occupied(by) if *by.get() == number => {}
                Entry::Occupied(_) => return None,
            }
        }
    }
    let longest = commits.iter().map(|writes| writes.len()).max().unwrap_or(0);
    let mut out = Vec::new();
    for index in 0..longest {
        // The first of each, then the second: of two commits it makes no difference which comes first.
        let mut kinds: BTreeMap<Kind, Together<'w>> = BTreeMap::new();
        for (number, write) in
            commits.iter().enumerate().filter_map(|(n, writes)| Some((n, writes.get(index)?)))
        {
            match kind(write) {
                Some(kind) => kinds.entry(kind).or_default().push((number, index, write)),
                None => out.push(vec![(number, index, write)]),
            }
        }
        out.extend(kinds.into_values());
    }
    Some(out)
}

/// Which of these writes is about a scope.
pub(super) fn by_scope<'w>(all: &Together<'w>) -> BTreeMap<&'w Scope, (usize, usize)> {
    let named = all.iter().flat_map(|(commit, write, what)| {
        let scopes = scopes(what).into_iter().flatten();
        scopes.map(|scope| (scope, (*commit, *write)))
    });
    named.collect()
}

/// The scopes whose rows, of whatever table, a write is about; none where it is about more than scopes.
fn scopes(write: &Write) -> Option<BTreeSet<&Scope>> {
    Some(match write {
        Write::Rows(list) => list.iter().map(|row| &*row.scope).collect(),
        Write::Drifted(list) => list.iter().map(|drift| &drift.scope).collect(),
        Write::Start { scope, .. }
        | Write::Gone(scope, _)
        | Write::Settled(scope, _)
        | Write::Documents(scope, _)
        | Write::Conditions(scope, _)
        | Write::Claims(scope, ..)
        | Write::ClaimSynced(scope, ..)
        | Write::Consent(scope, ..)
        | Write::ConsentSpent(scope, _)
        | Write::Version(scope, _)
        | Write::NotHealed(scope, _)
        | Write::DriftOver(scope, ..)
        | Write::Ailments(scope, _)
        | Write::LookedAt(scope, _)
        | Write::Place(scope, _) => BTreeSet::from([scope]),
        // Answers are to questions that were put down before, and nothing is in sync of which something moved.
        Write::End(_) | Write::Event(_) | Write::Converged(Err(_)) => BTreeSet::new(),
        _ => return None,
    })
}

/// What can be written with one statement for many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Start,
    End,
    Rows,
    Settled,
    Documents,
    NoVersion,
    Version,
    NotConverged,
    LookedAt,
    Place,
    Event,
}

fn kind(write: &Write) -> Option<Kind> {
    Some(match write {
        Write::Start { .. } => Kind::Start,
        Write::End(_) => Kind::End,
        Write::Rows(_) => Kind::Rows,
        Write::Settled(..) => Kind::Settled,
        Write::Documents(..) => Kind::Documents,
        Write::Version(_, None) => Kind::NoVersion,
        Write::Version(_, Some(_)) => Kind::Version,
        Write::Converged(Err(_)) => Kind::NotConverged,
        Write::LookedAt(..) => Kind::LookedAt,
        Write::Place(..) => Kind::Place,
        Write::Event(_) => Kind::Event,
        _ => return None,
    })
}

/// Carries out writes of one kind.
pub(super) async fn apply(tx: &mut Tx<'_>, all: &Together<'_>) -> Result<()> {
    let [(_, _, first), _, ..] = &all[..] else {
        for (_, _, write) in all {
            write::apply(tx, write).await?;
        }
        return Ok(());
    };
    let each = || all.iter().map(|(_, _, write)| *write);
    match first {
        Write::Start { .. } => {
            let starts = each().filter_map(|write| match write {
                Write::Start { scope, intents, fence, at } => {
                    Some(journal::Started { scope, intents, fence, at: *at })
                }
                _ => None,
            });
            journal::start_all(tx, &starts.collect::<Vec<_>>()).await
        }
        Write::End(_) => {
            let endings = each().flat_map(|write| match write {
                Write::End(endings) => &endings[..],
                _ => &[],
            });
            journal::end(tx, endings).await
        }
        Write::Rows(_) => {
            let rows = each().flat_map(|write| match write {
                Write::Rows(list) => &list[..],
                _ => &[],
            });
            write::rows(tx, &rows.collect::<Vec<_>>(), &|| true).await.map(drop)
        }
        Write::Settled(..) => {
            let (mut few, mut settled) = (Vec::new(), Vec::new());
            for write in each() {
                let Write::Settled(scope, ids) = write else { continue };
                if ids.len() < tx.marked {
                    few.extend(ids.iter().map(|id| (scope, id)));
                } else if tx.settle(scope, ids).await? {
                    settled.push(scope);
                }
            }
            let changed = inventory::settle_all(tx.conn, &few, tx.now).await?;
            let few: BTreeSet<&Scope> = few.iter().map(|(scope, _)| *scope).collect();
            settled.extend(few.into_iter().filter(|scope| changed.contains(&scope.to_string())));
            tx.touch(&settled).await.map(drop)
        }
        Write::Documents(..) => {
            let documents = each().flat_map(|write| match write {
                Write::Documents(scope, list) => list.iter().map(|(key, hash)| (scope, key, *hash)).collect(),
                _ => Vec::new(),
            });
            inventory::documents_all(tx.conn, &documents.collect::<Vec<_>>()).await
        }
        Write::Version(_, None) => {
            let scopes = each().filter_map(|write| match write {
                Write::Version(scope, _) => Some(scope),
                _ => None,
            });
            write::no_versions(tx.conn, scopes).await
        }
        Write::Version(_, Some(_)) => {
            let versions = each().filter_map(|write| match write {
                Write::Version(scope, version) => Some((scope, version.as_ref()?)),
                _ => None,
            });
            write::put_versions(tx.conn, versions).await
        }
        Write::Converged(_) => {
            let sources = each().filter_map(|write| match write {
                Write::Converged(Err(source)) => Some(source),
                _ => None,
            });
            for source in sources.collect::<BTreeSet<_>>() {
                write::no_longer_converged(tx.conn, source).await?;
            }
            Ok(())
        }
        Write::LookedAt(..) => {
            let looks = each().filter_map(|write| match write {
                Write::LookedAt(scope, generation) => Some((scope, *generation)),
                _ => None,
            });
            health::looked_at_all(tx.conn, looks).await
        }
        Write::Place(..) => {
            let places = each().filter_map(|write| match write {
                Write::Place(scope, place) => Some((scope, place)),
                _ => None,
            });
            place::put(tx.conn, places).await
        }
        Write::Event(_) => {
            let events = each().filter_map(|write| match write {
                Write::Event(event) => Some(event),
                _ => None,
            });
            events::append_all(tx.conn, &events.collect::<Vec<_>>()).await
        }
        _ => {
            for write in each() {
                write::apply(tx, write).await?;
            }
            Ok(())
        }
    }
}
