//! What lets somebody in from outside: tokens of the API, and secrets of webhooks with the paths that are made of them.

mod hook;
mod token;

pub use hook::{Hooks, path_of, secret_of};
pub use token::{TokenHash, Tokens, hash_of, new_token};
