//! What a new database is made from is what the migrations come to.

use super::{migrations, open};
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection, migrate::Migrator};
use std::{fs, path::Path};

/// Where [`open::migrate`] has it from.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/schema.sql");

const HEAD: &str =
    "-- All migrations as one, for a new database. Never edited by hand: a test compares it with what they come to, and
-- tells how to write it anew.

";

async fn all(conn: &mut SqliteConnection, sql: String) -> Vec<String> {
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(conn).await.unwrap()
}

/// A database as the statements that make it, without what the migrator keeps.
async fn dump(conn: &mut SqliteConnection) -> String {
    let mut out = HEAD.to_string();
    for kind in ["table", "index", "trigger", "view"] {
        let sql = format!(
            "SELECT sql || ';' FROM sqlite_schema WHERE type = '{kind}' AND sql IS NOT NULL
             AND name NOT LIKE 'sqlite_%' AND tbl_name <> '_sqlx_migrations' ORDER BY rowid"
        );
        out += &all(conn, sql).await.join("\n");
        out += "\n\n";
    }
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> '_sqlx_migrations'";
    for table in all(conn, tables.into()).await {
        let columns =
            all(conn, format!("SELECT 'quote(' || name || ')' FROM pragma_table_info('{table}')")).await;
        let values = columns.join(" || ', ' || ");
        let rows = format!("SELECT 'INSERT INTO {table} VALUES (' || {values} || ');' FROM {table}");
        out.extend(all(conn, rows).await.into_iter().map(|row| row + "\n"));
    }
    for pragma in ["application_id", "user_version"] {
        let value: i64 = sqlx::query_scalar(AssertSqlSafe(format!("PRAGMA {pragma}")))
            .fetch_one(&mut *conn)
            .await
            .unwrap();
        out += &format!("PRAGMA {pragma} = {value};\n");
    }
    out
}

#[tokio::test]
async fn a_new_database_is_what_the_migrations_make_of_an_empty_one() {
    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    migrations::MIGRATIONS.run(&mut conn).await.unwrap();
    let migrated = dump(&mut conn).await;
    if fs::read_to_string(FILE).unwrap() != migrated {
        let new = tempfile::tempdir().unwrap().keep().join("schema.sql");
        fs::write(&new, &migrated).unwrap();
        panic!("{FILE} is not what the migrations come to: cp {} {FILE}", new.display());
    }

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(super::DATABASE);
    let mut new = SqliteConnection::connect(&format!("sqlite:{}?mode=rwc", file.display())).await.unwrap();
    open::migrate(&mut new, &file, open::Schema::Empty).await.unwrap();
    assert!(dump(&mut new).await == migrated, "made of {FILE}");
    let applied =
        "SELECT version || ' ' || description || ' ' || hex(checksum) FROM _sqlx_migrations ORDER BY version";
    assert_eq!(all(&mut new, applied.into()).await, all(&mut conn, applied.into()).await);
    // Who opens it next has nothing to do.
    migrations::MIGRATIONS.run(&mut new).await.unwrap();
}

#[tokio::test]
async fn every_migration_is_in_the_program() {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "schema.sql" {
            fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
    }
    let said = |migrator: &Migrator| {
        let one = |each: &sqlx::migrate::Migration| {
            (each.version, each.description.to_string(), each.checksum.to_vec())
        };
        migrator.iter().map(one).collect::<Vec<_>>()
    };
    let found = Migrator::new(folder.path() as &Path).await.unwrap();
    assert_eq!(said(&migrations::MIGRATIONS), said(&found), "of what is in migrations/");
}

#[tokio::test]
async fn a_release_leaves_checks_to_types_once_the_file_was_checked() {
    let (dir, db) = super::new().await;
    db.close().await;
    let mut conn = open::connect(&dir.path().join(super::DATABASE)).await.unwrap();
    let ignores = "PRAGMA ignore_check_constraints";
    let before: i64 = sqlx::query_scalar(ignores).fetch_one(&mut conn).await.unwrap();
    open::trust_types(&mut conn).await.unwrap();
    let after: i64 = sqlx::query_scalar(ignores).fetch_one(&mut conn).await.unwrap();
    assert_eq!((before, after), (0, 1));
}
