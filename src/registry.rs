//! Provider type → constructor: nothing else but its parts names provider crates.

mod certificates;
mod dns;
mod entry;
mod handover;
mod host;
mod known;
mod marks;
mod place;
#[cfg(test)]
mod places;
mod terraform;
mod verify;

pub use certificates::entry_for;
pub use host::serve_host;
pub use known::{Type, kinds, needs_id, samples, types};
pub use reconciled_cloud::{GivenBack, Row, TakenOver};
pub use reconciled_dns::foreign::Taken;
pub use terraform::serve_plugin;

use crate::config::{Config, ProviderEntry};
use bytes::Bytes;
use reconciled_dns::family::Options;
use reconciled_provider::{Cx, Error, Found, Problem, Provider, SourceFile};
use std::sync::Arc;

/// Programs whose files can be imported, with the word for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Foreign {
    /// Zones of octoDNS's YamlProvider
    Octodns,
    /// Zone files of BIND and others (RFC 1035)
    Zonefile,
}

/// What a file of another program holds of `zone`, and what of it is left out.
///
/// Errors: `zone` is no name of a zone.
pub fn foreign(kind: Foreign, zone: &str, file: &SourceFile) -> Result<Taken, String> {
    let zone = reconciled_dns::name::Name::zone(zone).map_err(|error| error.to_string())?;
    Ok(match kind {
        Foreign::Octodns => reconciled_dns::foreign::octodns(&zone, file),
        Foreign::Zonefile => reconciled_dns::foreign::master(&zone, file),
    })
}

/// Manifests that declare what a file of another program holds; they name no provider.
pub fn foreign_manifests(found: &Found) -> Vec<Bytes> {
    reconciled_dns::export::export("", found)
}

/// Builds the provider of one entry of `config`.
///
/// Errors: every problem of the entry at its place in the host configuration.
pub fn build(entry: &ProviderEntry, config: &Config) -> Result<Arc<dyn Provider>, Vec<Problem>> {
    if &*entry.type_name == reconciled_local::INFO.type_name {
        return host::build(entry, config);
    }
    if &*entry.type_name == reconciled_certificates::INFO.type_name {
        return certificates::build(entry, config);
    }
    if &*entry.type_name == reconciled_cloud::INFO.type_name {
        return terraform::build(entry, config);
    }
    let mut entry = entry.clone();
    let (ownership, verify) = match (marks::take(&mut entry, &config.instance), verify::take(&mut entry)) {
        (Ok(ownership), Ok(verify)) => (ownership, verify),
        (ownership, verify) => {
            return Err(ownership.err().into_iter().chain(verify.err()).flatten().collect());
        }
    };
    let options = Options { ownership, verify, timeout: entry.timeout };
    dns::build(&entry, &config.instance, options).map_err(|mut problems| {
        Problem::hide_lines(&mut problems);
        problems
    })
}

/// Writes a state file of Terraform of those of `rows` that entries of `config` carry.
///
/// Errors: the schemas of a provider cannot be had.
pub async fn give_back(
    config: &Config,
    cx: &Cx,
    rows: &[Row],
    with_secrets: bool,
) -> Result<GivenBack, Error> {
    reconciled_cloud::give_back(cx, &terraform::entries(config), rows, with_secrets).await
}

/// Those of `rows` that a provider of Terraform made and no entry of `config` carries any more.
pub fn without_entry<'r>(config: &Config, rows: &'r [Row]) -> Vec<&'r Row> {
    reconciled_cloud::without_entry(&terraform::entries(config), rows)
}

/// Takes over what a state file of Terraform holds, as far as entries of `config` have its providers.
///
/// Errors: it is no state file of a format that is known.
pub async fn take_over(
    config: &Config,
    cx: &Cx,
    file: &[u8],
    with_secrets: bool,
) -> Result<TakenOver, Error> {
    reconciled_cloud::take_over(cx, &terraform::entries(config), file, with_secrets).await
}

/// True for an entry whose provider is a program made for Terraform.
pub fn is_terraform(entry: &ProviderEntry) -> bool {
    *entry.type_name == *reconciled_cloud::INFO.type_name
}

/// The groups that an entry's kinds may have, where only its program tells the kinds themselves.
pub fn groups(entry: &ProviderEntry) -> Vec<Arc<str>> {
    match is_terraform(entry) {
        true => terraform::groups(entry),
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Environment};

    /// The problems of the one entry in `text`.
    fn problems(text: &str) -> String {
        let file = SourceFile::new("config.yaml", format!("providers:\n  - {{name: x, {text}}}\n"));
        let (config, problems) = config::parse(file.into(), &Environment::of([]));
        assert!(problems.is_empty(), "{problems:?}");
        let config = config.unwrap();
        let built = build(&config.providers[0], &config);
        built.err().unwrap_or_default().iter().map(|problem| format!("{problem}\n")).collect()
    }

    fn refuse(text: &str, part: &str) {
        let shown = problems(text);
        assert!(shown.contains(part) && shown.contains("config.yaml:2:"), "{text}\n{shown}");
    }

    #[test]
    fn a_misspelt_key_is_told_once_with_what_was_meant() {
        let key = "{file: /k}";
        for (text, meant) in [
            ("type: zonefile, directory: /z, polcy: sync".to_owned(), "policy"),
            ("type: webhook, polcy: sync".into(), "policy"),
            ("type: webhook, verfy: {}".into(), "verify"),
            (format!("type: powerdns, url: 'http://127.0.0.1:1', apikey: {key}"), "apiKey"),
            (format!("type: powerdns, apiKey: {key}, ulr: 'http://127.0.0.1:1'"), "url"),
            (format!("type: cloudflare, tokn: {key}"), "token"),
            (format!("type: rfc2136, server: 127.0.0.1, tsg: {{name: k., secret: {key}}}"), "tsig"),
            (format!("type: route53, acessKeyId: {key}"), "accessKeyId"),
            ("type: terraform, source: hashicorp/aws, path: /x, confg: {region: x}".into(), "config"),
        ] {
            let shown = problems(&text);
            assert_eq!(shown.matches("unknown field").count(), 1, "{shown}");
            assert!(shown.contains(&format!("hint: did you mean `{meant}`?")), "{shown}");
        }
        assert!(!problems("type: cloudflare, tokn: S3CR3T").contains("S3CR3T"));
    }

    #[test]
    fn what_is_like_no_key_is_told_with_all_that_there_are() {
        let shown = problems("type: powerdns, url: 'http://127.0.0.1:1', apiKey: {file: /k}, wombat: 1");
        let known = shown.split("known fields: ").nth(1).unwrap_or_default();
        for key in ["url", "apiKey", "marks", "externalDns", "verify", "policy", "guard", "rate", "was"] {
            let is_key = |word: &str| word.trim() == key;
            assert_eq!(known.split(',').filter(|word| is_key(word)).count(), 1, "{key}: {shown}");
        }
        refuse("type: terraform, source: a/b, path: /x, wombat: 1", "config, env, policy, guard");
        refuse("type: host, paths: [/etc], wombat: 1", "policy, guard");
    }

    #[test]
    fn a_secret_in_the_place_of_its_place_is_not_repeated() {
        for text in [
            "type: powerdns, url: 'http://127.0.0.1:1', apiKey: S3CR3T",
            "type: powerdns, url: 'http://127.0.0.1:1', apiKey: {value: S3CR3T}, polcy: sync",
            "type: cloudflare, token: [S3CR3T]",
            "type: route53, accessKeyId: {env: A}, secretAccessKey: S3CR3T",
            "type: rfc2136, server: 127.0.0.1, tsig: {name: k., secret: S3CR3T}",
            "type: rfc2136, server: 127.0.0.1, tsig: S3CR3T",
        ] {
            let shown = problems(text);
            assert!(shown.contains("error: ") && !shown.contains("S3CR3T"), "{text}\n{shown}");
        }
        refuse("type: cloudflare, token: S3CR3T", "not the secret itself: {file: PATH}, {env: NAME}");
    }

    #[test]
    fn entries_of_services_are_complete_with_little() {
        assert_eq!(problems("type: cloudflare, token: {env: CF_TOKEN}"), "");
        assert_eq!(
            problems("type: cloudflare, token: {file: /t}, url: 'http://127.0.0.1:1', account: ab12"),
            ""
        );
        assert_eq!(problems("type: route53, region: us-east-1"), "");
        let keys = "accessKeyId: {env: A}, secretAccessKey: {file: /s}, sessionToken: {env: T}";
        assert_eq!(problems(&format!("type: route53, {keys}, createZones: true")), "");
        for login in ["instance", "container", "{shared: {file: /root/.aws/credentials}, profile: dns}"] {
            assert_eq!(
                problems(&format!("type: route53, credentials: {login}, insync: true")),
                "",
                "{login}"
            );
        }
        assert_eq!(problems("type: host, paths: [/etc, /srv], root: /, originals: /var/lib/x"), "");
        assert_eq!(problems("type: host, helper: /run/reconciled-hostd.sock"), "");
        assert_eq!(problems("type: certificates, helper: /run/reconciled-hostd.sock"), "");
        assert_eq!(problems("type: webhook"), "");
        assert_eq!(problems("type: webhook, url: 'http://127.0.0.1:1', txt: plain, maxChanges: 5"), "");
    }

    #[test]
    fn two_entries_of_a_machine_with_paths_in_common_are_refused() {
        let two = |paths: &str| {
            let text = format!(
                "providers:\n  - {{name: a, type: host, paths: [/etc]}}\n  - {{name: b, type: host, paths: [{paths}]}}\n"
            );
            let (config, _) =
                config::parse(SourceFile::new("config.yaml", text).into(), &Environment::of([]));
            let config = config.unwrap();
            assert!(build(&config.providers[0], &config).is_ok());
            let built = build(&config.providers[1], &config).err().unwrap_or_default();
            built.iter().map(Problem::to_string).collect::<String>()
        };
        assert_eq!(two("/srv"), "");
        let shown = two("/srv, /etc/nginx");
        assert!(
            shown.contains("`a` and `b` would both manage /etc/nginx") && shown.contains("config.yaml:3:"),
            "{shown}"
        );
    }

    #[test]
    fn marks_in_txt_records_and_verify_are_for_every_entry() {
        for text in [
            "type: webhook, marks: {type: txt}",
            "type: webhook, marks: false",
            "type: route53, marks: {type: txt, prefix: 'own-%{record_type}.', encrypt: {file: /k}}",
            "type: cloudflare, token: {env: T}, marks: {type: txt, wildcard: any}",
            "type: zonefile, directory: /zones, marks: {type: txt, suffix: -own}",
            "type: zonefile, directory: /zones, externalDns: {prefix: extdns-, wildcard: any, encrypt: {env: K}}",
            "type: webhook, verify: {authoritative: true, timeout: 90s, servers: [ns1.example.com], waitForTtl: true}",
            "type: webhook, verify: {authoritative: false}",
        ] {
            assert_eq!(problems(text), "", "{text}");
        }
        refuse("type: webhook, marks: true", "marks: {type: txt}");
        refuse("type: webhook, marks: {type: text}", "txt");
        refuse("type: webhook, marks: {type: txt, prefx: a}", "did you mean `prefix`");
        refuse("type: webhook, marks: {type: txt, prefix: a-, suffix: -b}", "leave one out");
        refuse("type: webhook, marks: {type: txt, encrypt: clear-text}", "config.yaml:2:");
        refuse("type: webhook, externalDns: {prefix: 'a b'}", "makes no name");
        refuse(
            "type: webhook, verify: {authoritative: true, servers: ['http://a']}",
            "no address of a server",
        );
        refuse(
            "type: webhook, verify: {authoritative: true, resolver: [ns1.example.com]}",
            "no address of a server",
        );
        refuse("type: webhook, verify: {timeout: 5s}", "authoritative");
        refuse("type: webhook, verify: {authoritative: true, server: []}", "did you mean `servers`");
        refuse("type: webhook, externalDNS: {}", "did you mean `externalDns`");
    }

    #[test]
    fn what_is_wrong_with_an_entry_has_its_place_and_a_hint() {
        refuse("type: cloudflare", "`x` needs `token`");
        refuse("type: cloudflare, token: {env: A}, acount: ab12", "did you mean `account`");
        refuse("type: cloudflare, token: {env: A}, account: my account", "is no id");
        refuse("type: cloudflare, token: secret-in-clear", "config.yaml:2:");
        refuse("type: route53, accessKeyId: {env: A}", "`x` needs `secretAccessKey`");
        refuse("type: route53, regoin: x", "did you mean `region`");
        refuse("type: route53, credentials: machine", "write instance, container, or");
        refuse("type: route53, credentials: instance, accessKeyId: {env: A}", "leave one of them out");
        refuse("type: route53, credentials: {shared: {file: /f}, profil: x}", "did you mean `profile`");
        refuse("type: webhook, txt: bare", "bare");
        refuse("type: webhook, url: 'http://me:pw@x'", "belong in a secret");
        refuse("type: webhok", "did you mean `webhook`");
        refuse("type: host", "empty or missing");
        refuse("type: host, helper: /run/h.sock, bus: system", "which the helper decides");
        refuse("type: host, paths: [/etc/../root]", "has `.` or `..` in it");
        refuse("type: certificates", "empty or missing");
        refuse("type: certificates, helper: hostd.sock", "no absolute path");
        refuse("type: host, paths: [/etc], rot: /", "did you mean `root`");
        refuse(
            "type: host, paths: [/etc], bus: 'tcp:host=x'",
            "neither `system` nor `user` nor the address of a socket",
        );
    }
}
