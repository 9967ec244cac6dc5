//! The real binary against real servers: a real PowerDNS, real zone files, real Git repositories, real SQLite.
//!
//! Nothing here looks inside the program: a test writes what an operator writes, runs what an operator runs and
//! reads what the servers then say.

#![expect(clippy::unwrap_used, reason = "what cannot set up its world fails its test")]

mod acme;
mod acme2certifier;
mod acme_account;
mod acme_late;
mod acme_waits;
mod acme_ways;
mod acme_web;
mod ahead;
mod answers;
mod asked;
#[path = "../../providers/dns/tests/it/asker.rs"]
mod asker;
mod beside;
mod certificates;
mod certificates_apart;
mod certificates_helped;
mod certificates_moved;
mod certificates_outage;
mod certificates_secret;
mod certificates_served;
mod certificates_taken;
mod checked;
mod circles;
mod consented;
mod control;
mod counted;
mod crash;
mod daemon;
mod deployment;
mod disk;
mod env;
mod explained;
#[path = "../../providers/dns/tests/it/fake.rs"]
#[expect(dead_code, reason = "the tests of the provider use the rest")]
mod fake;
#[path = "../../providers/dns/tests/it/fake_cloudflare/play.rs"]
#[expect(dead_code, reason = "the tests of the provider use the rest")]
mod fake_cloudflare;
#[path = "../../providers/dns/tests/it/fake_route53/play.rs"]
#[expect(dead_code, reason = "the tests of the provider use the rest")]
mod fake_route53;
mod fighting;
mod foreign;
mod gaps;
mod git;
mod health;
mod heard;
mod held;
mod helper;
mod host;
mod hostd;
mod hostile;
mod http;
mod ignored;
mod input;
mod interrupted;
mod layers;
mod loop_;
mod machine;
mod migrated;
mod newest;
mod notify;
mod output;
mod over;
mod ownership;
mod pdns;
mod pebble;
mod places;
mod proxy;
mod push;
mod push_consent;
mod push_ends;
mod push_faults;
mod push_odd;
mod reach;
mod references;
mod remote;
mod renamed;
mod report;
mod requests;
mod restored;
mod rollback;
mod running;
mod secrets;
mod shared;
mod signed;
mod sink;
mod sops;
mod ssh;
mod telemetry;
mod template;
mod terraform;
mod terraform_adopt;
mod terraform_aws;
mod terraform_back;
mod terraform_crash;
mod terraform_data;
mod terraform_entries;
mod terraform_futile;
mod terraform_import;
mod terraform_interval;
mod terraform_lifecycle;
mod terraform_marks;
mod terraform_order;
mod terraform_renamed;
mod through;
mod tidy;
mod together;
mod trust;
mod unit;
mod updates;
mod upkeep;
mod watch;
mod webhook;
mod windows;
mod without_revision;
mod zones;
