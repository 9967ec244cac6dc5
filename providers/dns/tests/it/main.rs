//! The DNS backends from outside: against a real PowerDNS, against servers that misbehave, against files.

#![expect(clippy::unwrap_used, reason = "what cannot set up its world fails its test")]

mod broken;
mod conformance;
mod dnsd;
mod pdns;
mod powerdns;
mod relay;
mod rfc2136;
mod script;
mod wire;
mod world;
mod zonefile;
