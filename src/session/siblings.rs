//! Which sources are of one repository, by their urls alone: no remote is asked.

use super::sources;
use crate::config::{Config, SourceConfig};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The other sources of its repository, by source.
pub type Siblings = BTreeMap<Arc<str>, BTreeSet<Arc<str>>>;

/// The other sources of the repository of each; they have a url in common, or two that lead to one place on this host. Blocks.
pub(super) fn siblings(config: &Config) -> Siblings {
    let places = |source: &SourceConfig| -> BTreeSet<String> {
        let written = source.urls.iter().map(|url| sources::repository(config, url));
        let found = sources::local_places(config, source).into_iter();
        written.chain(found.map(|place| place.to_string_lossy().into_owned())).collect()
    };
    let all: Vec<(&Arc<str>, BTreeSet<String>)> =
        config.sources.iter().map(|source| (&source.name, places(source))).collect();
    let mut siblings = Siblings::new();
    for (name, places) in &all {
        let others = all.iter().filter(|(other, theirs)| other != name && !theirs.is_disjoint(places));
        let others = others.map(|(other, _)| Arc::clone(other)).collect();
        siblings.insert(Arc::clone(name), others);
    }
    siblings
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config::parse;
    use reconciled_provider::SourceFile;
    use std::path::Path;

    /// A configuration with sources of these keys.
    pub(in crate::session) fn config(sources: &[&str]) -> Config {
        let sources: String = sources.iter().map(|keys| format!("  - {{{keys}, allow: all}}\n")).collect();
        let file = SourceFile::new("/etc/reconciled/config.yaml", format!("sources:\n{sources}"));
        let (config, problems) = parse(file.into(), &Default::default());
        config.unwrap_or_else(|| panic!("{problems:?}"))
    }

    #[test]
    fn sources_with_a_url_in_common_are_of_one_repository_however_it_is_written() {
        let config = config(&[
            "name: a, url: /srv/infra.git",
            "name: b, url: file:///srv/infra/",
            "name: c, url: infra.git",
            "name: d, url: [https://example.com/dns.git, /srv/infra/.git], branch: other",
            "name: e, url: https://example.com/dns",
            "name: f, url: https://example.com/else",
            "name: g, url: https://ann@example.com/dns",
        ]);
        let siblings = siblings(&config);
        let of = |name: &str| siblings[name].iter().map(|other| &**other).collect::<Vec<_>>();
        assert_eq!(of("a"), ["b", "d"]);
        assert_eq!(of("d"), ["a", "b", "e", "g"]);
        assert_eq!(of("e"), ["d", "g"]);
        assert!(of("c").is_empty() && of("f").is_empty());
    }

    #[test]
    fn a_link_to_a_repository_is_that_repository() {
        let dir = tempfile::tempdir().unwrap();
        let [repo, link, other] = ["repo.git", "link.git", "other.git"].map(|name| dir.path().join(name));
        std::fs::create_dir(&repo).unwrap();
        std::fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&repo, &link).unwrap();
        let source = |name: &str, place: &Path| format!("name: {name}, url: {}", place.display());
        let written = [source("a", &repo), source("b", &link), source("c", &other)];
        let siblings = siblings(&config(&written.each_ref().map(String::as_str)));
        let of = |name: &str| siblings[name].iter().map(|other| &**other).collect::<Vec<_>>();
        assert_eq!((of("a"), of("b")), (vec!["b"], vec!["a"]));
        assert!(of("c").is_empty());
    }
}
