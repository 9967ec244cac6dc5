//! What a zone of one source says counts for the records that another one puts into it.

use super::*;
use crate::{config::Allow, registry};

fn zone(spec: &str) -> String {
    format!("apiVersion: dns/v1\nkind: Zone\nmetadata: {{name: z.test}}\nspec: {{provider: one{spec}}}\n")
}

/// Two sources: `infra` has the zone, and `team` what is in it.
fn setup(spec: &str, team: &str) -> Setup {
    let zonefile = registry::types().iter().find(|known| known.name == "zonefile").unwrap();
    let mut setup = Setup::new(&[("z.yaml", &zone(spec))]);
    setup.sources.push(("team", folder(&[("t.yaml", team)]), SourceRules::default()));
    let observer = reconciled_dns::zonefile::sample("one").unwrap();
    setup.entries = vec![EntryView { name: "one".into(), observer, kinds: zonefile.kinds.clone() }];
    setup
}

fn set(records: &str) -> String {
    format!(
        "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {{name: t}}\nspec:\n  zone: z.test\n  records: [{records}]\n"
    )
}

const X: &str = "{name: x, type: A, values: [192.0.2.1]}";

/// The TTL that `x` has.
fn ttl(loaded: &Loaded) -> String {
    let all = resources(loaded);
    let line = all.lines().find(|line| line.contains("x.z.test./A")).unwrap_or(&all);
    line.split("= ").nth(1).unwrap_or_default().to_owned()
}

#[test]
fn records_without_a_ttl_have_that_of_the_zone_and_follow_it() {
    let mut cache = Cache::default();
    let loaded = setup(", ttl: 30", &set(X)).load(&mut cache);
    assert_eq!((shown(&loaded).as_str(), ttl(&loaded).as_str()), ("", "30"));
    let first = setup(", ttl: 30", &set(X));
    let mut second = setup(", ttl: 60", &set(X));
    second.entries = first.entries.clone();
    first.load(&mut cache);
    let loaded = second.load(&mut cache);
    assert_eq!(ttl(&loaded), "60", "what is kept is not what it was made from any more");
    assert_eq!(second.load(&mut cache).counts.normalized, 0);
}

#[test]
fn a_zone_that_the_host_denies_its_source_says_nothing_to_others() {
    let mut setup = setup(", ttl: 30", &set(X));
    let rule = AllowRule { provider: "other".into(), scopes: None, kinds: None, deny: Vec::new() };
    setup.rules().allow = Allow::Rules(vec![rule]);
    assert_eq!(ttl(&setup.once()), "300");
}

#[test]
fn a_set_without_records_belongs_to_the_zone_all_the_same() {
    assert_eq!(shown(&setup("", &set("")).once()), "");
    let endpoint = "apiVersion: externaldns.k8s.io/v1alpha1\nkind: DNSEndpoint\nmetadata: {name: e}\nspec: {endpoints: []}\n";
    assert_eq!(shown(&setup("", endpoint).once()), "");
}

#[test]
fn what_the_zone_ignores_is_an_error_with_both_places() {
    let loaded = setup(", ignore: [{name: x}]", &set(X)).once();
    assert_snapshot!(shown(&loaded), @r"
    error: x A is declared, and ignored by its zone
      --> t.yaml:6:13
    6 |   records: [{name: x, type: A, values: [192.0.2.1]}]
      |             ^
      --> z.yaml:4:32 the rule of source `infra` that names it
    hint: remove the declaration, or narrow the rule of `ignore`
    ");
}
