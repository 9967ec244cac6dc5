//! The DNS backends from outside: against a real PowerDNS, against servers that misbehave, against files.

#![expect(clippy::unwrap_used, reason = "what cannot set up its world fails its test")]

mod asker;
mod between;
mod broken;
mod claims;
mod cloudflare;
mod conformance;
mod dnsd;
mod fake;
mod fake_cloudflare;
mod fake_route53;
mod fake_webhook;
mod faults;
mod in_place;
mod made;
mod moto;
mod ownership;
mod pdns;
mod powerdns;
mod probe;
mod relay;
mod requests;
mod rfc2136;
mod route53;
mod routing;
mod script;
mod served;
mod webhook;
mod webhook_zones;
mod wire;
mod world;
mod zonefile;
