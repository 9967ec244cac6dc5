//! `verify` in the entry of any DNS provider: whether, whom and how long to ask if its records are served.

use super::entry;
use crate::config::{Period, ProviderEntry};
use reconciled_dns::{endpoint, served::Verify};
use reconciled_provider::{Node, Problem};
use serde::Deserialize;
use std::{net::SocketAddr, time::Duration};

/// How long name servers usually take to hear of a change.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    authoritative: bool,
    timeout: Option<Period>,
    #[serde(default)]
    servers: Vec<String>,
    #[serde(default)]
    resolver: Vec<String>,
    #[serde(default)]
    wait_for_ttl: bool,
}

/// Takes `verify` out of `entry`; none where nobody is to be asked.
///
/// Errors: every problem with it, at its place.
pub(super) fn take(entry: &mut ProviderEntry) -> Result<Option<Verify>, Vec<Problem>> {
    let Some(node) = entry::take(&mut entry.rest, "verify") else { return Ok(None) };
    let (raw, mut problems) = node.decode::<Raw>(&entry.file);
    let verify = raw.map(|raw| {
        let at = |word: &str| node.get(word).map_or(node.span, |node: &Node| node.span);
        let mut wrong = |word: &str, text: &str, hint: &str| {
            let problem = Problem::error(format!("`{text}` of `{word}` is no address of a server"));
            problems.push(problem.at(&entry.file, at(word)).hint(hint));
        };
        let hint = "write it like 192.0.2.53, ns1.example.com or [2001:db8::53]:5353";
        let mut servers = Vec::new();
        for text in &raw.servers {
            match endpoint::parse(text) {
                Some(server) => servers.push(server),
                None => wrong("servers", text, hint),
            }
        }
        let mut resolver = Vec::new();
        for text in &raw.resolver {
            let address = endpoint::parse(text).and_then(|(host, port)| Some((host.parse().ok()?, port)));
            match address {
                Some((ip, port)) => resolver.push(SocketAddr::new(ip, port)),
                None => wrong("resolver", text, "write its address, such as 192.0.2.53 or 127.0.0.1:5353"),
            }
        }
        let timeout = raw.timeout.map_or(TIMEOUT, |period| period.0);
        let verify = Verify { timeout, servers, resolver, wait_for_ttl: raw.wait_for_ttl, patience: None };
        raw.authoritative.then_some(verify)
    });
    match verify {
        Some(verify) if problems.is_empty() => Ok(verify),
        _ => Err(problems),
    }
}
