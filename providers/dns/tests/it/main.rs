//! The DNS backends from outside: against a real PowerDNS, against servers that misbehave, against files.

mod pdns;
mod powerdns;
mod script;
mod wire;
mod world;
mod zonefile;
