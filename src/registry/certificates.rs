//! Entries of `type: certificates`.

use super::{
    entry::{at_entry, decode},
    known::types,
    place::Helped,
};
use crate::config::{Config, ProviderEntry};
use reconciled_certificates as authority;
use reconciled_provider::{Kind, ManifestKey, Node, Problem, Provider};
use std::{path::Path, sync::Arc};

/// How an entry is called that a host implies.
const IMPLIED: &str = "certificates";

/// Builds the provider of one entry.
///
/// Errors: every problem of the entry at its place.
pub(super) fn build(entry: &ProviderEntry, config: &Config) -> Result<Arc<dyn Provider>, Vec<Problem>> {
    let (decoded, problems) = decode::<authority::Config>(entry, &entry.rest, &[]);
    let Some(decoded) = decoded.filter(|_| problems.is_empty()) else { return Err(problems) };
    let own = [config.state_dir.as_path(), Path::new(&*entry.file.path)];
    let place = match &decoded.helper {
        Some(socket) => Arc::new(Helped::new(socket)),
        None => decoded.place.clone(),
    };
    let config = authority::Config {
        state: config.state_dir.join("certificates").join(&*entry.name),
        instance: config.instance.clone(),
        former: former(entry, config),
        reserved: own
            .into_iter()
            .filter(|path| path.is_absolute())
            .map(|path| path.to_string_lossy().into_owned())
            .collect(),
        timeout: entry.timeout,
        passed: crate::failpoint::hit,
        place,
        ..decoded
    };
    authority::open(&entry.name, config).map_err(|error| at_entry(entry, &error))
}

/// Names under which the entry may have kept something before: the one it says, and that of the entry that a host implies.
fn former(entry: &ProviderEntry, config: &Config) -> Vec<String> {
    let is_other = |other: &&ProviderEntry| other.name != entry.name;
    let is_taken = |name: &str| config.providers.iter().filter(is_other).any(|other| &*other.name == name);
    let mut is_alone = config.providers.iter().filter(is_other);
    let is_alone = !is_alone.any(|other| other.type_name == entry.type_name);
    let implied = is_alone.then_some(IMPLIED).filter(|name| **name != *entry.name);
    let names = entry.was.as_deref().into_iter().chain(implied);
    names.filter(|name| !is_taken(name)).map(String::from).collect()
}

/// Which entry to write for a manifest that no entry of `config` takes, where it is of certificates and the files of a host are
/// managed: below another root than that of this machine no entry is implied.
pub fn entry_for(config: &Config, manifest: &ManifestKey) -> Option<String> {
    let is_group = |version: &Arc<str>| version.split('/').next() == Some(manifest.group());
    let is_its = |kind: &Kind| *kind.name == *manifest.kind() && kind.api_versions.iter().any(is_group);
    let ours = types().iter().find(|one| one.name == authority::INFO.type_name)?;
    let root = |entry: &ProviderEntry| entry.rest.get("root").and_then(Node::as_str).map(String::from);
    let mut hosts = config.providers.iter().filter(|entry| *entry.type_name == *"host");
    let (host, root) = hosts.find_map(|entry| Some((entry, root(entry).filter(|root| root != "/")?)))?;
    ours.kinds.0.iter().any(is_its).then(|| {
        format!(
            "the root of entry `{}` is {root}, so it stands for no certificates of this machine; write an entry with the \
             directories that they may be put into: {{name: {IMPLIED}, type: {IMPLIED}, paths: [/etc/ssl]}}",
            host.name
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, parse};
    use reconciled_provider::SourceFile;

    fn former_of(name: &str, providers: &str) -> Vec<String> {
        let text = format!("providers:\n{providers}");
        let (config, problems) =
            parse(Arc::new(SourceFile::new("config.yaml", text)), &Environment::default());
        assert_eq!(problems, []);
        let config = config.unwrap();
        former(config.providers.iter().find(|entry| &*entry.name == name).unwrap(), &config)
    }

    #[test]
    fn where_another_root_implies_no_entry_one_is_told_of() {
        let check = |providers: &str, group: &str, kind: &str| {
            let text = format!("providers:\n{providers}");
            let config = parse(Arc::new(SourceFile::new("config.yaml", text)), &Environment::default()).0;
            entry_for(&config.unwrap(), &ManifestKey::new("infra", group, kind, "", "web"))
        };
        let below = "- {name: box, type: host, root: /srv/box, paths: [/etc]}\n";
        for (group, kind) in
            [("cert", "Certificate"), ("cert", "Issuer"), ("cert-manager.io", "ClusterIssuer")]
        {
            let hint = check(below, group, kind).unwrap();
            assert!(hint.contains("`box` is /srv/box") && hint.contains("type: certificates"), "{hint}");
        }
        assert_eq!(check(below, "acme", "Certificate"), None);
        assert_eq!(check(below, "aws", "SqsQueue"), None);
        assert_eq!(check("- {name: zones, type: zonefile, directory: /z}\n", "cert", "Issuer"), None);
    }

    #[test]
    fn an_entry_takes_over_what_it_kept_under_another_name_and_nothing_of_others() {
        let entry = |name: &str, more: &str| {
            format!("- {{name: {name}, type: certificates, paths: [/etc/ssl]{more}}}\n")
        };
        assert_eq!(former_of("ca", &entry("ca", "")), ["certificates"]);
        assert_eq!(former_of("ca", &entry("ca", ", was: old")), ["old", "certificates"]);
        assert_eq!(former_of("certificates", &entry("certificates", "")), [] as [&str; 0]);
        let two = entry("ca", "") + &entry("le", "");
        assert_eq!(former_of("ca", &two), [] as [&str; 0], "each has its own");
    }
}
