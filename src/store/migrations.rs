//! The migrations, in the program. A new one is a file in `migrations/` and a line here.
//!
//! `sqlx::migrate!` would find them by itself, and has a second sqlx with a second SQLite compiled for the sake of that.

use sqlx::{
    SqlStr,
    migrate::{Migration, MigrationType, Migrator},
};
use std::sync::LazyLock;

/// Version, description and text of what is `migrations/VERSION_DESCRIPTION.sql`, the version with four digits.
macro_rules! embedded {
    ($($version:literal $description:literal),* $(,)?) => {
        &[$((
            $version,
            $description,
            include_str!(concat!("../../migrations/", $version, "_", $description, ".sql")),
        )),*]
    };
}

const FILES: &[(&str, &str, &str)] = embedded![
    "0001" "state",
    "0002" "suspension",
    "0003" "pin",
    "0004" "notification",
    "0005" "rows",
    "0006" "health",
    "0007" "intent",
    "0008" "begun",
    "0009" "settled",
    "0010" "outputs",
    "0011" "let_go",
    "0012" "writes",
    "0013" "refused",
    "0014" "ahead",
    "0015" "consents",
    "0016" "alike",
    "0017" "place",
    "0018" "formerly",
];

/// The schema this program reads and writes. Who only reads needs no more of the migrations than that: each has to be hashed.
pub(super) const NEWEST: i64 = FILES.len() as i64;

pub(super) static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let migrations = (1..).zip(FILES).map(|(number, (version, description, text))| {
        debug_assert_eq!(*version, format!("{number:04}"), "each version follows the one before");
        let description = description.replace('_', " ").into();
        Migration::new(number, description, MigrationType::Simple, SqlStr::from_static(text), false)
    });
    Migrator::with_migrations(migrations.collect())
});
