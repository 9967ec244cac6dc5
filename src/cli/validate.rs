//! `validate`: checks manifests without a configuration, for editors and pipelines.

use super::{Exit, Out};
use crate::{
    config::FOLDER,
    failure::Failure,
    manifest::{self, EntryView, Loaded, SourceRules},
    registry,
    render::problems,
    session::TreeFiles,
    source::{FolderTree, Limits, Paths, Tree},
};
use clap::{Args as ClapArgs, ValueEnum};
use reconciled_provider::Problem;
use std::path::{Path, PathBuf};

/// Arguments of `validate`.
#[derive(Clone, Debug, ClapArgs)]
pub struct ValidateArgs {
    /// The folder; `-` reads manifests from standard input
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Only this folder below DIR, as `path` of a source says it; of several, later ones override earlier ones
    #[arg(long = "path", value_name = "PATH")]
    paths: Vec<String>,
    /// Form of output
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,
}

/// What problems are written for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
    /// Annotations of GitHub Actions
    Github,
    /// A Code Quality report of GitLab
    Gitlab,
    /// SARIF 2.1.0
    Sarif,
}

/// Runs the verb.
pub(super) fn run(validate: &ValidateArgs, out: &mut Out) -> Result<Exit, Failure> {
    let is_stream = validate.dir == Path::new("-");
    let mut rules = SourceRules::default();
    let tree = if is_stream {
        if !validate.paths.is_empty() {
            return Err(Failure::plain("standard input has no folders: leave `--path` out"));
        }
        FolderTree::from_stream(std::io::stdin().lock(), Limits::default())?
    } else if validate.paths.is_empty() {
        FolderTree::open(&validate.dir, &Paths::all(), Limits::default())?
    } else {
        if let Some(missing) = validate.paths.iter().find(|path| !validate.dir.join(path).is_dir()) {
            let hint = "`--path` is a folder below DIR, as `path` of a source in the configuration";
            return Err(Failure::hinted(format!("{} has no folder {missing}", validate.dir.display()), hint));
        }
        rules.paths = validate.paths.iter().map(|path| path.as_str().into()).collect();
        FolderTree::open(&validate.dir, &Paths::new(&validate.paths)?, Limits::default())?
    };
    let loaded = check(&tree, FOLDER, rules);
    let found: Vec<Problem> = loaded.problems.iter().map(|reported| reported.problem.clone()).collect();
    let base = if is_stream { String::new() } else { validate.dir.display().to_string() };
    out.data(&match validate.output {
        Form::Text => problems::text(&found),
        Form::Json => problems::json(&found, &base),
        Form::Github => problems::github(&found, &base),
        Form::Gitlab => problems::gitlab(&found, &base),
        Form::Sarif => problems::sarif(&found, &base),
    });
    out.talk(&summary(&loaded));
    if loaded.counts.manifests == 0 && !loaded.has_errors() {
        out.talk("hint: manifests are *.yaml and *.yml files with `apiVersion` and `kind`");
    }
    Ok(if loaded.has_errors() { Exit::Error } else { Exit::Good })
}

/// Checks the tree of the source `name` as far as that goes without a configuration.
pub(super) fn check(tree: &dyn Tree, name: &str, rules: SourceRules) -> Loaded {
    let types = registry::types();
    let view = |(name, observer): (&'static str, _)| {
        let kinds = types.iter().find(|known| known.name == name)?.kinds.clone();
        Some(EntryView { name: name.into(), observer, kinds })
    };
    let views: Vec<EntryView> = registry::samples().into_iter().filter_map(view).collect();
    manifest::validate(&TreeFiles::new(tree), name, &views, rules)
}

pub(super) fn summary(loaded: &Loaded) -> String {
    let count = |n: usize, word: &str| if n == 1 { format!("1 {word}") } else { format!("{n} {word}s") };
    let counts = &loaded.counts;
    let what = format!("{} in {}", count(counts.manifests, "manifest"), count(counts.files, "file"));
    let mut text = match (loaded.has_errors(), counts.manifests) {
        (true, _) => format!("{what} checked, with errors"),
        (false, 0) => "no manifests found".to_string(),
        (false, 1) => format!("{what} is valid"),
        (false, _) => format!("{what} are valid"),
    };
    if counts.skipped_documents > 0 {
        text += &format!(" · {} skipped: no manifest", count(counts.skipped_documents, "document"));
    }
    if counts.excluded_files > 0 {
        text += &format!(" · {} excluded", count(counts.excluded_files, "file"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Config, Environment};
    use std::{fs, sync::Arc};

    fn examples() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
    }

    fn checked(dir: &Path) -> Loaded {
        let tree = FolderTree::open(dir, &Paths::all(), Limits::default()).unwrap();
        check(&tree, FOLDER, SourceRules::default())
    }

    #[test]
    fn every_folder_of_the_examples_is_valid_without_a_configuration() {
        for name in [
            "dns",
            "host",
            "certificates",
            "dns-homelab",
            "dns-company/common",
            "dns-company/env/prod",
            "dns-company/env/lab",
        ] {
            let loaded = checked(&examples().join(name));
            assert_eq!(loaded.problems, [], "{name}");
            assert!(loaded.counts.manifests > 0, "{name}");
        }
    }

    fn example_config() -> Config {
        let (config, problems) = config::read(&examples().join("config.yaml"), &Environment::default());
        assert_eq!(problems, [], "nothing in it is wrong or without effect");
        config.unwrap()
    }

    fn desired(config: &Config, example: &str, rules: SourceRules) -> Loaded {
        let kinds = Arc::new(registry::kinds());
        let view = |entry: &config::ProviderEntry| {
            let observer = registry::build(entry, config).unwrap();
            let of_type = registry::types().iter().find(|one| *one.name == *entry.type_name);
            EntryView { name: entry.name.clone(), observer, kinds: of_type.unwrap().kinds.clone() }
        };
        let views: Vec<EntryView> = config.providers.iter().map(view).collect();
        let tree = FolderTree::open(&examples().join(example), &Paths::all(), Limits::default()).unwrap();
        let files = TreeFiles::new(&tree);
        let source = manifest::SourceRequest {
            name: "infra".into(),
            revision: "".into(),
            label: "".into(),
            files: &files,
            prunes: true,
            rules,
        };
        let request = manifest::Request {
            sources: &[source],
            lacking: &[],
            entries: &views,
            ailing: &Default::default(),
            renamed: &Default::default(),
            known: &kinds,
            host: &config.host,
            owners: &manifest::Owners::new(),
            outputs: &manifest::NoOutputs,
            secrets: &config::HostSecrets::new([0; 32], Environment::default(), config.secrets.clone()),
        };
        manifest::load(&request, &mut manifest::Cache::default())
    }

    fn count(loaded: &Loaded, scope: &str) -> usize {
        let found = loaded.desired.scopes.iter().find(|(name, _)| name.to_string() == scope);
        // Two declarations of one shared resource are one resource.
        let ids =
            found.map(|(_, list)| list.iter().map(|r| &r.id).collect::<std::collections::BTreeSet<_>>());
        ids.map_or(0, |ids| ids.len())
    }

    #[test]
    fn the_company_example_loads_with_the_example_configuration() {
        let config = example_config();
        let loaded = desired(&config, "dns-company", SourceRules::from(&config.sources[0]));
        assert_eq!(loaded.problems, []);
        // The zone, fourteen record sets of common/ (the texts of two teams are one of them), shop.
        assert_eq!(count(&loaded, "pdns/example.com"), 16);
        assert_eq!(count(&loaded, "pdns/2.0.192.in-addr.arpa"), 3);
        assert_eq!(count(&loaded, "zones/2.0.192.in-addr.arpa"), 3);
    }

    #[test]
    fn the_homelab_example_loads_with_its_variables() {
        let mut config = example_config();
        config.providers.retain(|entry| &*entry.name == "zones");
        let vars = config::Vars::Files(vec!["vars.yaml".into()]);
        let loaded = desired(&config, "dns-homelab", SourceRules { vars, ..SourceRules::default() });
        assert_eq!(loaded.problems, []);
        assert_eq!(count(&loaded, "zones/home.example"), 12);
        // The zone, and what `reverse` adds to it from three files.
        assert_eq!(count(&loaded, "zones/1.168.192.in-addr.arpa"), 4);
    }

    #[test]
    fn the_host_example_loads_with_what_its_page_configures() {
        let page = fs::read_to_string(examples().join("host/README.md")).unwrap();
        let indented: String = page
            .lines()
            .filter_map(|line| line.strip_prefix("    "))
            .map(|line| format!("{line}\n"))
            .collect();
        let (text, verbs) = indented.split_once("reconciled ").unwrap();
        assert!(verbs.contains("plan"));
        let secret = tempfile::NamedTempFile::new().unwrap();
        fs::write(&secret, "x").unwrap();
        let text = text.replace("/etc/reconciled/app-db", secret.path().to_str().unwrap());
        let file = reconciled_provider::SourceFile::new("config.yaml", text);
        let (config, problems) = config::parse(file.into(), &Environment::default());
        assert_eq!(problems, []);
        let loaded = desired(&config.unwrap(), "host", SourceRules::default());
        assert_eq!(loaded.problems, []);
        assert_eq!(count(&loaded, "host/files"), 9);
    }

    /// The problems of one record of a zone whose provider nobody knows here.
    fn record(record: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "apiVersion: dns/v1\nkind: Zone\nmetadata: {{name: example.com}}\nspec: {{provider: far, records: [{{name: www, type: A, {record}}}]}}\n"
        );
        fs::write(folder.path().join("zone.yaml"), text).unwrap();
        checked(folder.path()).problems.iter().map(|reported| format!("{}\n", reported.problem)).collect()
    }

    #[test]
    fn what_one_backend_knows_is_checked_by_its_rules_where_the_backend_is_not_known() {
        for good in [
            "values: [192.0.2.1], cloudflare: {proxied: true}",
            "values: [192.0.2.1], ttl: 1, cloudflare: {comment: of the web team}",
            "route53: {alias: {target: lb.example.org., zone: Z1}}",
            "route53: {sets: [{id: a, weight: 1, values: [192.0.2.1]}, {id: b, weight: 2, values: [192.0.2.2]}]}",
        ] {
            assert_eq!(record(good), "", "{good}");
        }
        for (bad, said) in [
            ("values: [192.0.2.1], ttl: 60, cloudflare: {proxied: true}", "the ttl of a proxied record"),
            ("values: [192.0.2.1], route53: {alias: {target: a.}}", "has `values` and `route53`"),
            ("cloudflare: {}, route53: {alias: {target: a.}}", "`route53` means nothing to this provider"),
        ] {
            assert!(record(bad).contains(said), "{bad}: {}", record(bad));
        }
    }

    #[test]
    fn endpoints_that_are_for_one_backend_are_valid_where_the_backend_is_not_known() {
        let folder = tempfile::tempdir().unwrap();
        let text = "apiVersion: dns/v1
kind: Zone
metadata: {name: example.com}
---
apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {name: shop}
spec:
  endpoints:
    - {dnsName: a.example.com, recordType: A, targets: [192.0.2.7], setIdentifier: one, providerSpecific: [{name: aws/weight, value: '10'}]}
    - {dnsName: b.example.com, recordType: A, targets: [192.0.2.7], providerSpecific: [{name: external-dns.alpha.kubernetes.io/cloudflare-proxied, value: 'true'}]}
";
        fs::write(folder.path().join("zone.yaml"), text).unwrap();
        assert_eq!(checked(folder.path()).problems, []);
    }

    #[test]
    fn what_is_not_there_is_missed_in_the_source_that_is_checked_and_in_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let text = "apiVersion: dns/v1\nkind: Zone\nmetadata: {name: example.com, annotations: {reconciled/depends-on: Zone/other}}\nspec: {}\n";
        fs::write(folder.path().join("zone.yaml"), text).unwrap();
        let tree = FolderTree::open(folder.path(), &Paths::all(), Limits::default()).unwrap();
        let said = |name: &str| {
            let loaded = check(&tree, name, SourceRules::default());
            let messages = loaded.problems.iter().map(|reported| reported.problem.message.clone());
            messages.collect::<Vec<_>>().join("\n")
        };
        assert_eq!(said("infra"), "there is no manifest `Zone/other` in source `infra`");
        assert_eq!(said(FOLDER), "there is no manifest `Zone/other` here");
    }

    #[test]
    fn ignored_files_are_not_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("good.yaml", "apiVersion: dns/v1\nkind: Zone\nmetadata: {name: example.com}\nspec: {}\n");
        write("bad.yaml", "apiVersion: dns/v1\nkind: Zoen\nmetadata: {name: example.com}\n");
        write("values.yaml", "replicas: 3\n");
        let loaded = checked(folder.path());
        assert!(loaded.has_errors());
        assert!(summary(&loaded).contains("with errors"), "{}", summary(&loaded));
        write(".reconciledignore", "bad.yaml\n");
        let loaded = checked(folder.path());
        assert_eq!(
            summary(&loaded),
            "1 manifest in 2 files is valid · 1 document skipped: no manifest · 1 file excluded"
        );
    }
}
