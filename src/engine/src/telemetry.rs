//! Names of the spans and fields of a pass. The whole specification is docs/telemetry.md.
//!
//! `pass{revision}` holds `scope{provider, scope}` holds `action{op, resource}`. Spans say where something was
//! done and how long it took; what was decided is in the journal.

/// One run over some scopes.
pub const PASS: &str = "pass";
/// What is done to one scope of a pass.
pub const SCOPE: &str = "scope";
/// One action, from the intent to the outcome.
pub const ACTION: &str = "action";

/// Actions of one batch that have a span of their own; a zone may have a hundred thousand.
pub(crate) const ACTIONS: usize = 256;
