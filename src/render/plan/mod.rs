//! A plan as text and Markdown.
//!
//! [`text()`] and [`markdown()`] know nothing but the published [`Document`](crate::operation::plan::Document), so whoever reads
//! the JSON can show what a terminal shows.

mod lines;
mod markdown;
mod text;

#[cfg(test)]
mod tests;

pub use markdown::markdown;
pub use text::{Consent, TextOptions, text};
