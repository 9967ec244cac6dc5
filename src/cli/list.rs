//! Lists: the forms every listing verb has.

use super::Out;
use crate::{config::Period, failure::Failure};
use clap::ValueEnum;
use serde::Serialize;

/// Form of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// For people
    #[default]
    Table,
    /// For people with wide screens
    Wide,
    /// For programs
    Json,
    /// For programs, and people
    Yaml,
}

/// Writes `value` for programs, or what `table` makes of it for people.
pub(super) fn show(
    out: &mut Out,
    format: ListFormat,
    value: &impl Serialize,
    table: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let text = match format {
        ListFormat::Table | ListFormat::Wide => table(),
        ListFormat::Json => serde_json::to_string_pretty(value).map_err(|e| unwritable(&e))?,
        ListFormat::Yaml => yaml(value)?,
    };
    out.data(&text);
    Ok(())
}

fn unwritable(error: &dyn std::fmt::Display) -> Failure {
    Failure::plain(format!("this cannot be written: {error}"))
}

/// `value` as YAML.
pub(super) fn yaml(value: &impl Serialize) -> Result<String, Failure> {
    serde_saphyr::to_string(value).map_err(|e| unwritable(&e))
}

/// `value` as JSON on one line.
pub(super) fn one_line(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|e| unwritable(&e))
}

/// The beginning of `--since`.
pub(super) fn since(
    period: Option<&str>,
    now: std::time::Duration,
) -> Result<Option<std::time::Duration>, Failure> {
    let Some(text) = period else { return Ok(None) };
    let period: Period = text
        .parse()
        .map_err(|_| Failure::hinted(format!("`{text}` is no duration"), "write 90s, 12h or 30d"))?;
    Ok(Some(now.saturating_sub(period.0)))
}
