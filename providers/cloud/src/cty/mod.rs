//! The type system of Terraform's providers (go-cty): types, values with unknown parts, and their two encodings.
//!
//! *Guarantees*: numbers keep every digit; sets are kept sorted, so that equal values are equal. It deliberately has no
//! functions on values, no refinements and no capsule types.

mod json;
mod msgpack;
mod types;
mod value;

pub use json::{read_json, write_json};
pub use msgpack::{decode, encode};
pub use types::Type;
pub use value::{Number, Value};
