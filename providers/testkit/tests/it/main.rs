//! The conformance suite against the reference provider in each of its roles, and against the example of
//! `docs/writing-a-provider.md`.

#![expect(clippy::unwrap_used, reason = "what cannot set up its world fails its test")]

mod broken;
mod page;
mod reference;
mod toy;
