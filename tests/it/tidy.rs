//! What the source must not contain, and which part may name what.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Longest source file; tests and tables are exempt.
const LONGEST: usize = 1_000;

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Tracked files below the root, as Git names them.
pub(crate) fn tracked() -> Vec<String> {
    let output = Command::new("git").args(["ls-files"]).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "the tidy test needs the repository it is in");
    let files: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert!(files.len() > 50, "only {} files are tracked", files.len());
    files.into_iter().filter(|file| root().join(file).is_file()).collect()
}

fn text(file: &str) -> String {
    String::from_utf8_lossy(&fs::read(root().join(file)).unwrap()).into_owned()
}

fn rust() -> Vec<String> {
    tracked().into_iter().filter(|file| file.ends_with(".rs")).collect()
}

/// True for files that only tests build, and for tables.
fn is_test(file: &str) -> bool {
    let path = PathBuf::from(file);
    let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
    path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "benches" | "testkit")))
        || stem.ends_with("tests")
        || matches!(&*stem, "testing" | "fixture" | "table")
}

/// Places among `files` whose code, comments apart, contains one of `words`.
fn places(files: impl IntoIterator<Item = String>, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        for (number, line) in text(&file).lines().enumerate() {
            let code = line.trim_start();
            if !code.starts_with("//") && words.iter().any(|word| code.contains(word)) {
                found.push(format!("{file}:{}: {code}", number + 1));
            }
        }
    }
    found
}

#[test]
fn no_source_file_is_longer_than_a_thousand_lines() {
    let long: Vec<_> =
        rust().into_iter().filter(|f| !is_test(f) && text(f).lines().count() > LONGEST).collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn nothing_is_left_undone_or_ignored() {
    let words = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("#[", "ignore")];
    assert_eq!(places(rust(), &words), [""; 0]);
}

#[test]
fn only_the_source_names_git2() {
    let others = rust().into_iter().filter(|f| !f.starts_with("src/source/") && !is_test(f));
    assert_eq!(places(others, &["git2::", "use git2", "libgit2_sys"]), [""; 0]);
}

#[test]
fn only_the_store_speaks_sql() {
    let others = rust().into_iter().filter(|f| !f.starts_with("src/store/") && !is_test(f));
    let words = ["sqlx::", "SELECT ", "INSERT INTO ", "DELETE FROM ", "PRAGMA "];
    assert_eq!(places(others, &words), [""; 0]);
}

#[test]
fn only_the_registry_names_provider_crates() {
    let is_registry = |f: &str| f == "src/registry.rs" || f.starts_with("src/registry/");
    let others = rust().into_iter().filter(|f| f.starts_with("src/") && !is_registry(f) && !is_test(f));
    let words = ["reconciled_dns::", "reconciled_local::", "reconciled_cloud::", "reconciled_certificates::"];
    assert_eq!(places(others, &words), [""; 0]);
}

#[test]
fn calls_of_grpc_are_made_in_one_place() {
    let others = rust().into_iter().filter(|f| !f.starts_with("providers/grpc/"));
    assert_eq!(places(others, &[concat!("h2::", "client")]), [""; 0]);
    let names = needed_by("reconciled-grpc");
    let ours: Vec<_> = names.iter().filter(|name| name.starts_with("reconciled")).collect();
    assert_eq!(ours, ["reconciled-grpc"]);
}

#[test]
fn commands_are_run_in_one_place_that_both_sides_may_depend_on() {
    let others = rust().into_iter().filter(|f| !f.starts_with("providers/command/"));
    assert_eq!(places(others, &[concat!("tokio::process", "::Command")]), [""; 0]);
    let names = needed_by("reconciled-command");
    let ours: Vec<_> = names.iter().filter(|name| name.starts_with("reconciled")).collect();
    assert_eq!(ours, ["reconciled-command", "reconciled-provider"]);
}

/// The names of a package and of all that it needs.
fn needed_by(package: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "-p", package, "-e", "normal", "--offline", "--prefix", "none"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn the_engine_depends_on_no_runtime_http_sql_or_git() {
    let names = needed_by("reconciled-engine");
    assert!(names.iter().any(|name| name == "reconciled-provider"), "{names:?}");
    for forbidden in ["tokio", "reqwest", "hyper", "sqlx", "sqlx-core", "git2", "libgit2-sys"] {
        assert!(!names.iter().any(|name| name == forbidden), "the engine depends on {forbidden}: {names:?}");
    }
}

#[test]
fn tracked_files_name_no_build_machine() {
    let home = concat!("/ro", "ot/.cargo");
    let root = root().to_str().unwrap();
    let files = tracked().into_iter().filter(|file| !file.ends_with("Cargo.lock"));
    let found: Vec<_> =
        files.filter(|file| [home, root].iter().any(|word| text(file).contains(word))).collect();
    assert_eq!(found, [""; 0]);
}

#[test]
fn the_lock_file_knows_only_the_public_registry() {
    let lock = text("Cargo.lock");
    let sources = lock.lines().filter_map(|line| line.strip_prefix("source = "));
    let others: Vec<_> =
        sources.filter(|s| *s != "\"registry+https://github.com/rust-lang/crates.io-index\"").collect();
    assert_eq!(others, [""; 0]);
}
