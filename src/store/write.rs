//! One function per [`Write`]: each changes its tables inside the transaction the writer opened.
//!
//! Guarantee: a write that changes nothing touches no page, so a transaction of such writes costs no fsync.

use super::{
    approval, begun, drift,
    error::Result,
    events, health,
    inventory::{self, Wanted},
    journal,
    memory::{self, Many},
    pin, place,
    rows::{self, hash, json, ms},
    suspension,
    transaction::Tx,
};
use data_encoding::HEXLOWER;
use reconciled_engine::{
    Row, Write,
    store::{ClaimRow, Condition, ConditionKind, Consent, Converged, Hold, KnownVersion, Revision},
};
use reconciled_provider::{Address, Hash, Lives, ManifestKey, ResourceId, Scope, Version};
use sqlx::{Row as _, SqliteConnection};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

/// Carries out one write.
pub(super) async fn apply(tx: &mut Tx<'_>, write: &Write) -> Result<()> {
    match write {
        Write::Start { scope, intents, fence, at } => journal::start(tx, scope, intents, fence, *at).await,
        Write::End(endings) => journal::end(tx, endings.iter()).await,
        Write::Rows(list) => rows(tx, &list.iter().collect::<Vec<_>>(), &|| true).await.map(drop),
        Write::Gone(scope, ids) => {
            if inventory::remove(tx.conn, scope, ids).await? {
                tx.touch(&[scope]).await?;
            }
            // What they claimed elsewhere goes with them: nobody would withdraw it later.
            unclaim(tx.conn, scope, ids).await
        }
        Write::Settled(scope, ids) => {
            if tx.settle(scope, ids).await? {
                tx.touch(&[scope]).await?;
            }
            Ok(())
        }
        Write::Documents(scope, list) => inventory::documents(tx.conn, scope, list).await,
        Write::Conditions(scope, list) => conditions(tx.conn, scope, list, tx.now).await,
        Write::InForce { revision, manifests, at } => in_force(tx.conn, revision, manifests, *at).await,
        Write::Hold(hold) => put_hold(tx.conn, hold).await,
        Write::Release(domain) => release(tx.conn, domain).await,
        Write::Approve(approval) => approval::put(tx.conn, approval).await,
        Write::Begun(begun) => begun::put(tx.conn, begun).await,
        Write::StepsOver(digest, scope, steps) => begun::over(tx.conn, *digest, scope, steps).await,
        Write::UseApproval(digest, at) => approval::spend(tx.conn, *digest, *at).await,
        Write::Consent(scope, id, consent) => put_consent(tx.conn, scope, id, consent).await,
        Write::ConsentSpent(scope, id) => consent_spent(tx.conn, scope, id).await,
        Write::Claims(scope, id, list) => claims(tx.conn, scope, id, list).await,
        Write::ClaimSynced(scope, id, key, synced) => claim_synced(tx.conn, scope, id, key, *synced).await,
        Write::Version(scope, version) => put_version(tx.conn, scope, version.as_ref()).await,
        Write::Converged(Ok(converged)) => put_converged(tx.conn, converged).await,
        Write::Converged(Err(source)) => no_longer_converged(tx.conn, source).await,
        Write::Suspend(suspension) => suspension::put(tx.conn, suspension).await,
        Write::Resume(id) => suspension::end(tx.conn, id).await,
        Write::Looked(id, since, scope) => suspension::looked(tx.conn, id, *since, scope).await,
        Write::Moved(from, to) => suspension::moved(tx.conn, from, to).await,
        Write::Pin(pin) => pin::put(tx.conn, pin).await,
        Write::Unpin(scope, id) => pin::end(tx.conn, scope, id).await,
        Write::Drifted(list) => drift::put(tx.conn, list).await,
        Write::NotHealed(scope, ids) => drift::not_healed(tx.conn, scope, ids).await,
        Write::DriftOver(scope, ends, at) => drift::over(tx.conn, scope, ends, *at).await,
        Write::Ailments(scope, list) => health::put(tx.conn, scope, list, tx.now).await,
        Write::LookedAt(scope, generation) => health::looked_at(tx.conn, scope, *generation).await,
        Write::Place(scope, place) => place::put(tx.conn, [(scope, place)].into_iter()).await,
        Write::Event(event) => events::append(tx.conn, event).await,
    }
}

/// Puts or replaces rows, of any scopes. False where they were no longer wanted: the transaction is of no use then.
pub(super) async fn rows(tx: &mut Tx<'_>, list: &[&Row], are_wanted: Wanted<'_>) -> Result<bool> {
    let mut written: BTreeMap<&Scope, usize> = BTreeMap::new();
    for row in list {
        *written.entry(&row.scope).or_default() += 1;
    }
    let stamps = tx.touch(&written.keys().copied().collect::<Vec<_>>()).await?;
    if !inventory::put(tx.conn, tx.seal, list, &stamps, tx.now, are_wanted).await? {
        return Ok(false);
    }
    let new = stamps.iter().filter(|(_, stamp)| stamp.number == 1);
    let new: Vec<Scope> = new.map(|(scope, _)| (*scope).clone()).collect();
    if !new.is_empty() {
        let counts = inventory::counts(tx.conn, &new).await?;
        let begun = new.into_iter().filter(|scope| counts.get(&scope.to_string()) == written.get(scope));
        tx.begun.extend(begun);
    }
    Ok(true)
}

async fn conditions(
    conn: &mut SqliteConnection,
    scope: &Scope,
    list: &[Condition],
    now: Duration,
) -> Result<()> {
    let name = scope.to_string();
    let mut memory = Many::new();
    memory::conditions(conn, (&name, &name), &mut memory).await?;
    let old = memory.remove(scope).unwrap_or_default().conditions;
    // Of several that say the same the first counts.
    let known: HashMap<_, _> = old.iter().rev().map(|condition| (trouble(condition), condition)).collect();
    let new: Vec<Condition> = list
        .iter()
        .map(|condition| {
            let before = known.get(&trouble(condition));
            let since = if condition.since.is_zero() { now } else { condition.since };
            Condition { since: before.map_or(since, |before| before.since), ..condition.clone() }
        })
        .collect();
    if stored(&new) == stored(&old) {
        return Ok(());
    }
    // Of whom nothing is said any more is well since now.
    let named: HashSet<&ResourceId> = new.iter().filter_map(|condition| condition.id.as_ref()).collect();
    let well = old.iter().filter_map(|condition| condition.id.as_ref()).filter(|id| !named.contains(id));
    let well: Vec<&str> = well.map(|id| &*id.0).collect();
    inventory::unmark(conn, &name, &well).await?;
    sqlx::query(
        "UPDATE inventory SET synced_at = ?3, healthy_at = ?3
         WHERE scope = ?1 AND id IN (SELECT value FROM json_each(?2)) AND state = 'settled'",
    )
    .bind(&name)
    .bind(json(&well))
    .bind(ms(now))
    .execute(&mut *conn)
    .await?;
    sqlx::query("DELETE FROM condition WHERE scope = ?1").bind(&name).execute(&mut *conn).await?;
    for (position, condition) in new.iter().enumerate() {
        sqlx::query(
            "INSERT INTO condition (scope, position, id, address, kind, reason, message, hint, since, next_try,
                                    declared)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )
        .bind(&name)
        .bind(position as i64)
        .bind(condition.id.as_ref().map(|id| id.0.clone()))
        .bind(condition.address.as_ref().map(ToString::to_string))
        .bind(condition.kind.word())
        .bind(condition.reason.clone())
        .bind(condition.message.clone())
        .bind(condition.hint.clone())
        .bind(ms(condition.since))
        .bind(condition.next_try.map(ms))
        .bind(condition.declared.as_ref().map(|hash| hash.0.to_vec()))
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

/// What tells one trouble from another. The message is left out: an error text that varies from try to try is still
/// the same trouble.
fn trouble(condition: &Condition) -> (Option<&ResourceId>, Option<&Address>, ConditionKind, &str) {
    (condition.id.as_ref(), condition.address.as_ref(), condition.kind, &condition.reason)
}

/// Conditions as they read back: times cut to milliseconds.
fn stored(list: &[Condition]) -> Vec<Condition> {
    let cut = |time: Duration| rows::at(ms(time));
    list.iter()
        .map(|c| Condition { since: cut(c.since), next_try: c.next_try.map(cut), ..c.clone() })
        .collect()
}

/// Brings a revision into force: its number is the new generation of every manifest it changed.
async fn in_force(
    conn: &mut SqliteConnection,
    revision: &Revision,
    manifests: &[(ManifestKey, Hash)],
    at: Duration,
) -> Result<()> {
    let found = sqlx::query("SELECT key, content FROM manifest WHERE source = ?1")
        .bind(revision.source.clone())
        .fetch_all(&mut *conn)
        .await?;
    let mut old: HashMap<String, Hash> = HashMap::with_capacity(found.len());
    for row in &found {
        old.insert(row.try_get(0)?, hash(row.try_get(1)?)?);
    }
    let mut changed = Vec::new();
    for (key, content) in manifests {
        if old.remove(&*key.0) != Some(*content) {
            changed.push([key.to_string(), content.to_string()]);
        }
    }
    let gone: Vec<&String> = old.keys().collect();
    let is_new = memory::in_force(conn, &revision.source).await?.as_ref() != Some(revision);
    if !is_new && changed.is_empty() && gone.is_empty() {
        return Ok(());
    }
    let generation = sqlx::query(
        "INSERT INTO revision (source, commit_id, label, author, subject, path, at, manifests, changed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )
    .bind(revision.source.clone())
    .bind(revision.commit.clone())
    .bind(revision.label.clone())
    .bind(revision.author.clone())
    .bind(revision.subject.clone())
    .bind(revision.path.clone())
    .bind(ms(at))
    .bind(manifests.len() as i64)
    .bind((changed.len() + gone.len()) as i64)
    .execute(&mut *conn)
    .await?
    .last_insert_rowid();
    if !revision.is_restored {
        sqlx::query("DELETE FROM meta WHERE key = 'restored/' || ?1")
            .bind(revision.source.clone())
            .execute(&mut *conn)
            .await?;
    }
    sqlx::query("DELETE FROM manifest WHERE key IN (SELECT value FROM json_each(?1))")
        .bind(json(&gone))
        .execute(&mut *conn)
        .await?;
    sqlx::query(
        "INSERT INTO manifest (source, key, content, generation)
         SELECT ?1, value ->> 0, unhex(value ->> 1), ?2 FROM json_each(?3) WHERE true
         ON CONFLICT (key) DO UPDATE SET content = excluded.content, previous = generation,
             generation = excluded.generation",
    )
    .bind(revision.source.clone())
    .bind(generation)
    .bind(json(&changed))
    .execute(&mut *conn)
    .await?;
    inventory::sweep(conn).await
}

async fn put_hold(conn: &mut SqliteConnection, hold: &Hold) -> Result<()> {
    let [creates, updates, replaces, deletes] = hold.counts;
    let reasons: Vec<&str> = hold.reasons.iter().map(|reason| &**reason).collect();
    sqlx::query(
        "INSERT INTO hold (domain, digest, reasons, creates, updates, replaces, deletes, revision, since, once)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
         ON CONFLICT (domain) DO UPDATE SET digest = excluded.digest, reasons = excluded.reasons,
             creates = excluded.creates, updates = excluded.updates, replaces = excluded.replaces,
             deletes = excluded.deletes, revision = excluded.revision, since = excluded.since,
             once = excluded.once
         WHERE (digest, reasons, creates, updates, replaces, deletes, revision, since, once)
             IS NOT (?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )
    .bind(hold.domain.clone())
    .bind(&hold.digest.0[..])
    .bind(json(&reasons))
    .bind(creates)
    .bind(updates)
    .bind(replaces)
    .bind(deletes)
    .bind(hold.revision.clone())
    .bind(ms(hold.since))
    .bind(hold.once.clone())
    .execute(conn)
    .await?;
    Ok(())
}

async fn release(conn: &mut SqliteConnection, domain: &Arc<str>) -> Result<()> {
    sqlx::query("DELETE FROM hold WHERE domain = ?1").bind(domain.clone()).execute(conn).await?;
    Ok(())
}

pub(super) async fn put_consent(
    conn: &mut SqliteConnection,
    scope: &Scope,
    id: &ResourceId,
    consent: &Consent,
) -> Result<()> {
    let (word, observed, from) = match consent {
        Consent::Adopt { observed, from } => ("adopt", Some(&observed.0[..]), from.clone()),
        Consent::Barred => ("barred", None, None),
        Consent::LetGo => ("let-go", None, None),
    };
    sqlx::query(
        "INSERT INTO consent (scope, id, word, observed, instance) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (scope, id) DO UPDATE SET word = ?3, observed = ?4, instance = ?5
         WHERE word IS NOT ?3 OR observed IS NOT ?4 OR instance IS NOT ?5",
    )
    .bind(scope.to_string())
    .bind(id.0.clone())
    .bind(word)
    .bind(observed)
    .bind(from)
    .execute(conn)
    .await?;
    Ok(())
}

async fn consent_spent(conn: &mut SqliteConnection, scope: &Scope, id: &ResourceId) -> Result<()> {
    sqlx::query("DELETE FROM consent WHERE scope = ?1 AND id = ?2")
        .bind(scope.to_string())
        .bind(id.0.clone())
        .execute(conn)
        .await?;
    Ok(())
}

async fn claims(
    conn: &mut SqliteConnection,
    scope: &Scope,
    id: &ResourceId,
    list: &[ClaimRow],
) -> Result<()> {
    let keys: BTreeMap<&str, &ClaimRow> = list.iter().map(|row| (&*row.claim.key, row)).collect();
    sqlx::query(
        "DELETE FROM claim WHERE owner_scope = ?1 AND owner = ?2 AND key NOT IN (SELECT value FROM json_each(?3))",
    )
    .bind(scope.to_string())
    .bind(id.0.clone())
    .bind(json(&keys.keys().collect::<Vec<_>>()))
    .execute(&mut *conn)
    .await?;
    for row in keys.values() {
        sqlx::query(
            "INSERT INTO claim (owner_scope, owner, key, provider, kind, spec, lives, scope, id, synced)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT (owner_scope, owner, key) DO UPDATE SET provider = ?4, kind = ?5, spec = ?6, lives = ?7,
                 scope = ?8, id = ?9, synced = ?10
             WHERE (provider, kind, spec, lives, scope, id, synced) <> (?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )
        .bind(scope.to_string())
        .bind(id.0.clone())
        .bind(row.claim.key.clone())
        .bind(row.claim.provider.clone())
        .bind(row.claim.kind.clone())
        .bind(&row.claim.spec[..])
        .bind(lives_word(row.claim.lives))
        .bind(row.scope.to_string())
        .bind(row.id.0.clone())
        .bind(row.synced)
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

/// Withdraws all that these resources claim.
pub(super) async fn unclaim(conn: &mut SqliteConnection, scope: &Scope, ids: &[ResourceId]) -> Result<()> {
    let ids: Vec<&str> = ids.iter().map(|id| &*id.0).collect();
    sqlx::query("DELETE FROM claim WHERE owner_scope = ?1 AND owner IN (SELECT value FROM json_each(?2))")
        .bind(scope.to_string())
        .bind(json(&ids))
        .execute(conn)
        .await?;
    Ok(())
}

/// Withdraws claims of what is not tracked: an earlier version of this program left them when it forgot who had made them.
/// Nobody may conclude from a commit alone, then, that everything is in sync.
pub(super) async fn sweep_claims(conn: &mut SqliteConnection) -> Result<()> {
    let swept = sqlx::query(
        "DELETE FROM claim WHERE NOT EXISTS
             (SELECT 1 FROM inventory WHERE inventory.scope = claim.owner_scope AND inventory.id = claim.owner)",
    );
    if swept.execute(&mut *conn).await?.rows_affected() > 0 {
        sqlx::query("DELETE FROM converged").execute(conn).await?;
    }
    Ok(())
}

fn lives_word(lives: Lives) -> &'static str {
    match lives {
        Lives::WhilePending => "while-pending",
        Lives::WhileTracked => "while-tracked",
    }
}

async fn claim_synced(
    conn: &mut SqliteConnection,
    scope: &Scope,
    id: &ResourceId,
    key: &Arc<str>,
    synced: bool,
) -> Result<()> {
    sqlx::query(
        "UPDATE claim SET synced = ?4 WHERE owner_scope = ?1 AND owner = ?2 AND key = ?3 AND synced <> ?4",
    )
    .bind(scope.to_string())
    .bind(id.0.clone())
    .bind(key.clone())
    .bind(synced)
    .execute(conn)
    .await?;
    Ok(())
}

pub(super) async fn put_version(
    conn: &mut SqliteConnection,
    scope: &Scope,
    version: Option<&KnownVersion>,
) -> Result<()> {
    let Some(known) = version else {
        sqlx::query("DELETE FROM scope_version WHERE scope = ?1")
            .bind(scope.to_string())
            .execute(&mut *conn)
            .await?;
        // A scope that is not known to be in sync leaves no source in sync as a whole.
        sqlx::query("DELETE FROM converged").execute(conn).await?;
        return Ok(());
    };
    let (state, token) = columns(&known.version);
    sqlx::query(
        "INSERT INTO scope_version (scope, state, token, foreigners) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (scope) DO UPDATE SET state = ?2, token = ?3, foreigners = ?4
         WHERE state <> ?2 OR token IS NOT ?3 OR foreigners <> ?4",
    )
    .bind(scope.to_string())
    .bind(state)
    .bind(token)
    .bind(known.foreign)
    .execute(conn)
    .await?;
    Ok(())
}

/// As [`put_version`], of scopes that have none any more.
pub(super) async fn no_versions(
    conn: &mut SqliteConnection,
    scopes: impl Iterator<Item = &Scope>,
) -> Result<()> {
    let scopes: Vec<String> = scopes.map(ToString::to_string).collect();
    sqlx::query("DELETE FROM scope_version WHERE scope IN (SELECT value FROM json_each(?1))")
        .bind(json(&scopes))
        .execute(&mut *conn)
        .await?;
    sqlx::query("DELETE FROM converged").execute(conn).await?;
    Ok(())
}

/// As [`put_version`], of many scopes.
pub(super) async fn put_versions(
    conn: &mut SqliteConnection,
    versions: impl Iterator<Item = (&Scope, &KnownVersion)>,
) -> Result<()> {
    let row = |(scope, known): (&Scope, &KnownVersion)| {
        let (state, token) = columns(&known.version);
        (scope.to_string(), state, token.map(|token| HEXLOWER.encode(token)), known.foreign)
    };
    let versions: Vec<_> = versions.map(row).collect();
    sqlx::query(
        "INSERT INTO scope_version (scope, state, token, foreigners)
         SELECT value ->> 0, value ->> 1, unhex(value ->> 2), value ->> 3 FROM json_each(?1) WHERE true
         ON CONFLICT (scope) DO UPDATE SET state = excluded.state, token = excluded.token,
             foreigners = excluded.foreigners
         WHERE state <> excluded.state OR token IS NOT excluded.token OR foreigners <> excluded.foreigners",
    )
    .bind(json(&versions))
    .execute(conn)
    .await?;
    Ok(())
}

/// A version in two columns.
fn columns(version: &Version) -> (&'static str, Option<&[u8]>) {
    match version {
        Version::Absent => ("absent", None),
        Version::At(token) => ("at", Some(&token[..])),
        Version::Unknown => ("unknown", None),
    }
}

async fn put_converged(conn: &mut SqliteConnection, converged: &Converged) -> Result<()> {
    sqlx::query(
        "INSERT INTO converged (source, commit_id, inputs) VALUES (?1, ?2, ?3)
         ON CONFLICT (source) DO UPDATE SET commit_id = ?2, inputs = ?3 WHERE (commit_id, inputs) <> (?2, ?3)",
    )
    .bind(converged.source.clone())
    .bind(converged.commit.clone())
    .bind(&converged.inputs.0[..])
    .execute(conn)
    .await?;
    Ok(())
}

pub(super) async fn no_longer_converged(conn: &mut SqliteConnection, source: &Arc<str>) -> Result<()> {
    sqlx::query("DELETE FROM converged WHERE source = ?1").bind(source.clone()).execute(conn).await?;
    Ok(())
}
