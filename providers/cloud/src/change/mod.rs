//! What a change is: the state a provider is asked to plan for, whether its plan is one, and what it does to each field.

mod check;
mod fields;
mod ignore;
mod proposed;
mod secrets;
mod standing;

pub use check::{check_applied, check_plan, check_write_only};
pub use fields::{at_path, fields, is_write_only, open_part};
pub use ignore::{Wrong, check_ignored, ignores_secret, leave_ignored};
pub use proposed::proposed;
pub use secrets::{made, secrets, secrets_in};
pub(crate) use standing::standing;
