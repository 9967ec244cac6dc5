//! Showing: plans, status, problems and tables as text, JSON and Markdown.
//!
//! Guarantees: same input, same bytes; nothing from a repository or a remote can steer a terminal or a page
//! ([`clean`](crate::text::clean)); colour never alone carries meaning. Nothing here decides, reads a clock or does I/O.

pub mod audit;
pub mod explain;
pub mod plan;
pub mod problems;
pub mod status;
pub mod table;
