//! reconciled

pub mod source;
