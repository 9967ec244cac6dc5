//! `docs/writing-a-provider.md` says what is so: its code is the code that is tested, its laws are the laws.

use crate::reference::Stage;
use reconciled_testkit::{Role, conformance::run};

const PAGE: &str = include_str!("../../../../docs/writing-a-provider.md");
const EXAMPLE: &str = include_str!("toy.rs");

/// The blocks of Rust on the page.
fn blocks() -> Vec<&'static str> {
    let blocks = PAGE.split("```rust\n").skip(1);
    blocks.map(|rest| rest.split_once("```").map_or(rest, |(block, _)| block)).collect()
}

#[test]
fn every_block_of_the_page_is_code_that_is_tested() {
    assert!(blocks().len() > 5, "{} blocks", blocks().len());
    for block in blocks() {
        assert!(EXAMPLE.contains(block), "not in the example:\n{block}");
    }
}

#[test]
fn the_page_shows_all_of_the_example() {
    let shown: Vec<&str> = blocks().into_iter().flat_map(str::lines).collect();
    for line in EXAMPLE.lines() {
        assert!(line.is_empty() || shown.contains(&line), "not on the page: {line}");
    }
}

#[test]
fn the_page_explains_every_law_and_no_other() {
    let report = futures_executor::block_on(run(&Stage::new(Role::Zone)));
    let laws: Vec<&str> = report.0.iter().map(|(name, _)| *name).collect();
    let table = PAGE.lines().skip_while(|line| !line.starts_with("| law |"));
    let table = table.filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let explained: Vec<&str> = table.map(|(name, _)| name).collect();
    assert_eq!(explained, laws, "the table of laws on the page, in order");
}
