//! reconciled

pub mod render;
pub mod source;
