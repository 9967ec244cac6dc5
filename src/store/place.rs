//! Where scopes are, as far as what is tracked was found there: rows written and read.

use super::{
    error::Result,
    rows::{hash, json, scope},
};
use reconciled_engine::store::ScopeMemory;
use reconciled_provider::{Hash, Scope};
use sqlx::SqliteConnection;
use std::collections::BTreeMap;

/// Remembers the place of each of these scopes.
pub(super) async fn put(
    conn: &mut SqliteConnection,
    places: impl Iterator<Item = (&Scope, &Hash)>,
) -> Result<()> {
    let places: Vec<(String, String)> =
        places.map(|(scope, place)| (scope.to_string(), place.to_string())).collect();
    sqlx::query(
        "INSERT INTO scope_place (scope, place)
         SELECT value ->> 0, unhex(value ->> 1) FROM json_each(?1) WHERE true
         ON CONFLICT (scope) DO UPDATE SET place = excluded.place WHERE place <> excluded.place",
    )
    .bind(json(&places))
    .execute(conn)
    .await?;
    Ok(())
}

/// Adds the places to the memory of the scopes from `first` to `last`.
pub(super) async fn recall(
    conn: &mut SqliteConnection,
    (first, last): (&str, &str),
    many: &mut BTreeMap<Scope, ScopeMemory>,
) -> Result<()> {
    let found: Vec<(String, Vec<u8>)> =
        sqlx::query_as("SELECT scope, place FROM scope_place WHERE scope BETWEEN ?1 AND ?2")
            .bind(first)
            .bind(last)
            .fetch_all(conn)
            .await?;
    for (name, place) in &found {
        many.entry(scope(name)?).or_default().place = Some(hash(place)?);
    }
    Ok(())
}
