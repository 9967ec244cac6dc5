//! reconciled

pub mod failpoint;
pub mod source;
pub mod store;
