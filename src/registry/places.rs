//! What entries point to, as their configuration says it: see [`reconciled_provider::Observer::points_at`].

use super::build;
use crate::config::{self, Environment};
use reconciled_provider::{Scope, SourceFile};

/// Where a scope of the one entry in `text` is.
fn place(text: &str, scope: &str) -> String {
    let file = SourceFile::new("config.yaml", format!("providers:\n  - {{name: x, {text}}}\n"));
    let config = config::parse(file.into(), &Environment::of([])).0.unwrap();
    let built = build(&config.providers[0], &config).unwrap_or_else(|problems| panic!("{problems:?}"));
    built.points_at(&Scope::new("x", scope)).unwrap()
}

#[test]
fn an_entry_points_to_what_its_address_says_and_its_credentials_are_no_part_of_that() {
    let check = |scope: &str, one: &str, other: &str, is_same: bool| {
        let places = [place(one, scope), place(other, scope)];
        assert_eq!(places[0] == places[1], is_same, "{places:?}");
    };
    let pdns = "type: powerdns, url: 'http://a:1', apiKey: {env: A}";
    check("z", pdns, "type: powerdns, url: 'http://a:1/api/v1/', apiKey: {env: B}, maxBody: 2000", true);
    check("z", pdns, "type: powerdns, url: 'http://a:2', apiKey: {env: A}", false);
    check("z", pdns, "type: powerdns, url: 'http://a:1', apiKey: {env: A}, server: other", false);
    check("z", "type: zonefile, directory: /zones", "type: zonefile, directory: /zones/", true);
    check("z", "type: zonefile, directory: /zones", "type: zonefile, directory: /others", false);
    let bind = "type: rfc2136, server: 127.0.0.1, tsig: {name: k., secret: {env: A}}";
    check("z", bind, "type: rfc2136, server: '127.0.0.1:53', tsig: {name: K, secret: {env: B}}", true);
    check("z", bind, "type: rfc2136, server: 127.0.0.2, tsig: {name: k., secret: {env: A}}", false);
    check("z", bind, "type: rfc2136, server: 127.0.0.1, tsig: {name: l., secret: {env: A}}", false);
    check("z", "type: cloudflare, token: {env: A}", "type: cloudflare, token: {env: B}", true);
    check("z", "type: cloudflare, token: {env: A}", "type: cloudflare, token: {env: A}, account: b1", false);
    check("z", "type: route53", "type: route53, credentials: instance", true);
    check("z", "type: route53", "type: route53, private: true", false);
    check("z", "type: route53", "type: route53, zoneIds: {z: Z1}", false);
    check("y", "type: route53", "type: route53, zoneIds: {z: Z1}", true);
    check("z", "type: webhook", "type: webhook, url: 'http://127.0.0.1:8889'", false);
    let host = "type: host, paths: [/etc]";
    check("files", host, "type: host, paths: [/srv], bus: system", true);
    check("systemd", host, "type: host, paths: [/srv], bus: system", false);
    check("files", host, "type: host, paths: [/etc], root: /chroot", false);
    check("files", host, "type: host, helper: /run/hostd.sock", false);
}
