//! What a zone of one source says counts for the records that another one puts into it.

use super::*;
use crate::{config::Allow, registry};
use reconciled_provider::{ManifestKey, Scope};
use std::collections::BTreeSet;

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

/// A zone that is for others, and what of the same source goes into it; the other source has a zone of this host.
fn afar(zone: &str, sets: &[(&str, &str)]) -> Setup {
    let mut setup = setup("", &set(X));
    let mut files = vec![("afar.yaml", zone)];
    files.extend(sets);
    setup.sources.insert(0, ("afar", folder(&files), SourceRules::default()));
    setup.sources[0].2.vars = inline("{domain: afar.test}");
    setup
}

const AFAR: &str = "apiVersion: dns/v1\nkind: Zone\nmetadata: {name: afar.test}\nspec: {provider: berlin}\n";

fn into_afar(name: &str) -> String {
    set(X).replace("z.test", "afar.test").replace("name: t}", &format!("name: {name}}}"))
}

fn endpoint(names: &[&str]) -> String {
    let one = |name: &&str| format!("  - {{dnsName: {name}, recordType: A, targets: [192.0.2.1]}}\n");
    let all: String = names.iter().map(one).collect();
    format!(
        "apiVersion: externaldns.k8s.io/v1alpha1\nkind: DNSEndpoint\nmetadata: {{name: e}}\nspec:\n  endpoints:\n{all}"
    )
}

fn places(found: &BTreeSet<(ManifestKey, Scope)>) -> Vec<String> {
    found.iter().map(|(key, scope)| format!("{}/{} in {scope}", key.kind(), key.name())).collect()
}

#[test]
fn what_goes_into_a_zone_of_another_host_is_for_that_host_too() {
    let web =
        AFAR.replace("{name: afar.test}", "{name: afar.test, annotations: {reconciled/hosts: role=db}}");
    let by_variable = AFAR
        .replace("name: afar.test}", "name: a}")
        .replace("{provider", "{zone: \"${vars.domain}\", provider");
    let here = web.replace(" {provider: berlin}", " {}");
    let check = |zone: &str, file: &str, unassigned: &[&str], unselected: &[&str]| {
        let loaded = afar(zone, &[("set.yaml", file)]).once();
        let state = &loaded.desired.sources["afar"];
        assert_eq!((shown(&loaded).as_str(), state.is_whole()), ("", true), "{zone}{file}");
        assert_eq!(
            (places(&state.unassigned_in), places(&state.unselected_in)),
            (own(unassigned), own(unselected))
        );
        let elsewhere: BTreeSet<_> =
            state.elsewhere.iter().map(|(key, entry)| (key.kind(), &**entry)).collect();
        let told = unassigned.iter().map(|place| (place.split('/').next().unwrap(), "berlin"));
        let zone = unselected.is_empty().then_some(("Zone", "berlin"));
        assert_eq!(elsewhere, told.chain(zone).collect::<BTreeSet<_>>(), "{zone:?}");
        resources(&loaded)
    };
    let (set, set_there) = (into_afar("s"), &["RecordSet/s in one/afar.test"][..]);
    let without = resources(&afar(AFAR, &[]).once());
    for zone in [AFAR, &by_variable] {
        assert_eq!(check(zone, &set, set_there, &[]), without);
    }
    for zone in [&web, &here] {
        assert_eq!(check(zone, &set, &[], set_there), without);
    }
    let there = &["DNSEndpoint/e in one/afar.test"][..];
    assert_eq!(check(AFAR, &endpoint(&["x.afar.test"]), there, &[]), without);
    // Of several endpoints each goes its own way.
    let both = check(&here, &endpoint(&["x.afar.test", "y.z.test"]), &[], there);
    let own = "one/z.test y.z.test./A = 300\n192.0.2.1\n";
    assert_eq!(both.replace(own, ""), without, "and this one is here: {both}");
    assert!(both.contains(own));
    // The longest zone counts, wherever it is.
    let below = AFAR.replace("afar.test", "sub.z.test");
    check(&below, &endpoint(&["x.sub.z.test"]), &["DNSEndpoint/e in one/sub.z.test"], &[]);
    // But no other source can take it out of a zone that is here.
    let mut setup = afar(&below, &[]);
    setup.sources[2].1 = folder(&[("e.yaml", &endpoint(&["x.sub.z.test"]))]);
    assert!(resources(&setup.once()).contains("one/z.test x.sub.z.test./A"));
}

#[test]
fn where_not_all_can_be_read_what_goes_into_a_zone_of_another_host_is_frozen() {
    let web =
        AFAR.replace("{name: afar.test}", "{name: afar.test, annotations: {reconciled/hosts: role=db}}");
    let mut setup = afar(&web, &[("set.yaml", &into_afar("s"))]);
    let state = |setup: &Setup| setup.once().desired.sources["afar"].clone();
    let sure = state(&setup);
    assert_eq!((places(&sure.unselected_in).len(), sure.is_whole()), (1, true));
    // A manifest of this very zone for this host may be in it.
    setup.sources[2].1 = folder(&[("broken.yaml", "a: [\n")]);
    let unsure = state(&setup);
    assert_eq!((places(&unsure.unselected_in), unsure.is_whole()), (Vec::new(), false));
    assert!(unsure.broken.contains("set.yaml"), "{:?}", unsure.broken);
}

fn own(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| text.to_string()).collect()
}

#[test]
fn a_set_that_names_an_entry_which_does_not_have_the_zone_is_an_error_all_the_same() {
    let named = into_afar("s").replace("zone: afar.test", "zone: afar.test\n  provider: one");
    let loaded = afar(AFAR, &[("set.yaml", &named)]).once();
    assert!(
        shown(&loaded).contains("zone `afar.test` is declared nowhere at provider `one`"),
        "{}",
        shown(&loaded)
    );
}

#[test]
fn what_is_kept_of_a_set_does_not_outlive_where_its_zone_is() {
    let mut cache = Cache::default();
    let first = afar(AFAR, &[("set.yaml", &into_afar("s"))]);
    let load = |zone: &str, cache: &mut Cache| {
        let mut setup = afar(zone, &[("set.yaml", &into_afar("s"))]);
        setup.entries = first.entries.clone();
        let loaded = setup.load(cache);
        let state = &loaded.desired.sources["afar"];
        (shown(&loaded), state.unassigned_in.len(), resources(&loaded).contains("x.afar.test"))
    };
    assert_eq!(load(AFAR, &mut cache), (String::new(), 1, false));
    assert_eq!(load(AFAR, &mut cache), (String::new(), 1, false));
    assert_eq!(load(&AFAR.replace("berlin", "one"), &mut cache), (String::new(), 0, true));
    let (told, ..) = load("", &mut cache);
    assert!(told.contains("zone `afar.test` is declared nowhere"), "{told}");
    assert_eq!(load(AFAR, &mut cache), (String::new(), 1, false));
}

#[test]
fn what_goes_into_a_zone_that_cannot_be_read_is_frozen_without_an_error_of_its_own() {
    let faulty = AFAR.replace("berlin", "oen");
    let late = format!("{}---\na: [\n", AFAR.replace("afar.test", "other.test"));
    let pointing = into_afar("s").replace("values: [192.0.2.1]", "values: [192.0.2.1], reverse: true");
    let pointing = pointing.replace("afar.test", "z.test").replace("name: x", "name: r");
    let files =
        [into_afar("s"), endpoint(&["x.afar.test"]), endpoint(&["x.afar.test", "y.z.test"]), pointing];
    for zone in ["a: [\n", &faulty, &late] {
        for file in files.iter().filter(|file| zone != faulty || !file.contains("reverse")) {
            let loaded =
                afar(zone, &[("set.yaml", file), ("more.yaml", &set(X).replace("name: x", "name: more"))])
                    .once();
            assert_eq!(loaded.problems.len(), 1, "{zone}{file}{}", shown(&loaded));
            let broken = &loaded.desired.sources["afar"].broken;
            let is_pointing = file.contains("reverse");
            // Of what points back only that is frozen.
            let frozen = if is_pointing { &["afar.yaml"][..] } else { &["afar.yaml", "set.yaml"][..] };
            assert_eq!(broken.iter().map(|path| &**path).collect::<Vec<_>>(), frozen, "{zone}{file}");
            let all = resources(&loaded);
            assert!(all.contains("more.z.test./A") && !all.contains("y.z.test./A"), "{all}");
            assert_eq!((all.contains("r.z.test./A"), all.contains("PTR")), (is_pointing, false), "{all}");
        }
    }
}

fn only(scopes: Option<&str>, kinds: Option<&str>) -> Allow {
    let globs = |text: &str| vec![text.into()];
    let (scopes, kinds) = (scopes.map(globs), kinds.map(globs));
    Allow::Rules(vec![AllowRule { provider: "*".into(), scopes, kinds, deny: Vec::new() }])
}

#[test]
fn an_endpoint_goes_into_no_other_zone_while_its_own_may_be_declared_where_nothing_can_be_read() {
    let check = |desk: &Setup, goes_on: bool| {
        let loaded = desk.once();
        let all = resources(&loaded);
        assert_eq!(all.contains("one/z.test x.sub.z.test./A"), goes_on, "{all}{}", shown(&loaded));
        let state = &loaded.desired.sources["team"];
        assert_eq!((state.is_whole(), state.broken.contains("t.yaml")), (goes_on, !goes_on));
    };
    let mut desk = setup("", &endpoint(&["x.sub.z.test"]));
    check(&desk, true);
    let sub = zone("").replace("z.test", "sub.z.test");
    let named = |zone: &str| {
        sub.replace("sub.z.test", "s").replace("provider: one", &format!("zone: {zone}, provider: oen"))
    };
    let wrong = [
        "a: [\n".to_owned(),
        sub.replace("kind: Zone", "kind: Zonee"),
        sub.replace("dns/v1", "dns/v2"),
        sub.replace("provider: one", "provider: oen"),
        named("Sub.Z.test."),
        // Which name it has where it is in use is not known here.
        named("sübdomain.z.test"),
    ];
    for text in &wrong {
        desk.sources[0].1 = folder(&[("z.yaml", &zone("")), ("sub.yaml", text)]);
        check(&desk, false);
    }
    let apart = [
        wrong[3].replace("sub.z.test", "sub.other.test"),
        wrong[1].replace("sub.z.test", "sub.other.test"),
        named("sub.other.test"),
        "apiVersion: dns/v1\nkind: Fiile\nmetadata: {name: motd}\nspec: {path: /etc/ü, text: über uns}\n"
            .to_owned(),
    ];
    for text in &apart {
        desk.sources[0].1 = folder(&[("z.yaml", &zone("")), ("apart.yaml", text)]);
        assert_eq!(desk.once().problems.len(), 1, "{text}");
        check(&desk, true);
    }
    desk.sources[0].1 = folder(&[("z.yaml", &zone(""))]);
    for (allow, goes_on) in [
        (Allow::All, false),
        (only(Some("*.z.test"), None), false),
        (only(Some("*.other.test"), None), true),
        (only(None, Some("dns/RecordSet")), true),
    ] {
        desk.lacking = vec![allow];
        check(&desk, goes_on);
    }
}

#[test]
fn who_asks_where_a_claim_goes_is_told_what_may_declare_a_zone_for_it_and_has_to_be_mended() {
    let sub = zone("").replace("z.test", "sub.z.test");
    let told = |text: &str| {
        let mut desk = setup("", &set(X));
        desk.sources[0].1 = folder(&[("z.yaml", &zone("")), ("sub.yaml", text)]);
        let hidden = desk.once().desired.hidden;
        ["z.test", "sub.z.test", "other.test"].map(|name| hidden.by("one", "dns/Zone", name))
    };
    let file = || Some("sub.yaml of source `infra`, which has errors".to_owned());
    assert_eq!(told(&sub), [None, None, None]);
    assert_eq!(told("a: [\n"), [file(), file(), file()], "anything may be in it");
    for provider in ["provider: oen", "provider: one, tttl: 3"] {
        let text = sub.replace("provider: one", provider);
        assert_eq!(told(&text), [None, file(), None], "{text}");
    }
    let mut desk = setup("", &set(X));
    desk.lacking = vec![only(Some("*.other.test"), None)];
    let hidden = desk.once().desired.hidden;
    let afar = Some("source `afar`, of which nothing is known".to_owned());
    assert_eq!(hidden.by("one", "dns/Zone", "a.other.test"), afar);
    assert_eq!(hidden.by("one", "dns/Zone", "sub.z.test"), None);
}

#[test]
fn who_asks_where_a_claim_goes_is_told_what_the_same_source_has_for_other_hosts() {
    let told = |provider: &str, hosts: &str| {
        let sub = zone("")
            .replace("name: z.test", &format!("name: sub, annotations: {{reconciled/hosts: {hosts}}}"));
        let sub = sub.replace("provider: one", &format!("zone: Sub.z.test., provider: {provider}"));
        let mut desk = setup("", &set(X));
        desk.sources[0].1 = folder(&[("z.yaml", &zone("")), ("sub.yaml", &sub)]);
        let hidden = desk.once().desired.hidden;
        assert_eq!(hidden.by("one", "dns/Zone", "sub.z.test"), None, "there is nothing to mend");
        let of = |source: &str, name: &str| hidden.for_others(source, "one", "dns/Zone", name);
        // What one source has elsewhere keeps nothing from another one.
        [of("infra", "sub.z.test"), of("team", "sub.z.test"), of("infra", "z.test")]
    };
    let there = Some("Zone/sub is for other hosts: role=afar".to_owned());
    assert_eq!(told("one", "role=afar"), [there, None, None]);
    assert_eq!(told("other", "role=afar"), [None, None, None], "the zone is another one there");
    assert_eq!(told("one", "role!=afar"), [None, None, None]);
}

#[test]
fn what_the_host_lets_a_source_declare_nowhere_hides_nothing_for_the_claims_of_others() {
    let zone = zone("").replace("z.test", "www.z.test");
    let mut desk = setup("", &set(X));
    desk.sources.push(("b", folder(&[]), SourceRules::default()));
    let mut check = |text: &str, entry: &str, scopes: Option<&str>, hides: bool| {
        let scopes = scopes.map(|scopes| vec![scopes.into()]);
        let rule = AllowRule { provider: entry.into(), scopes, kinds: None, deny: Vec::new() };
        desk.sources[2].1 = folder(&[("b.yaml", text)]);
        desk.sources[2].2.allow = Allow::Rules(vec![rule.clone()]);
        let of = |desk: &Setup| desk.once().desired.hidden.by("one", "dns/Zone", "www.z.test");
        let expected = hides.then(|| "b.yaml of source `b`, which has errors".to_owned());
        assert_eq!(of(&desk), expected, "{text}{rule:?}");
        // And where the source cannot be had.
        desk.sources[2].1 = folder(&[]);
        desk.lacking = vec![Allow::Rules(vec![rule.clone()])];
        assert_eq!(of(&desk).is_some(), hides, "{rule:?}");
        desk.lacking.clear();
    };
    // Not to be parsed; refused, or in error as a zone; and in error before it is known whose it is.
    let unknown = zone.replace("provider: one", "provider: oen");
    for text in ["a: [\n", &zone.replace("provider: one", "provider: one, tttl: 3"), &unknown] {
        check(text, "one", Some("*.z.test"), true);
        check(text, "o*", None, true);
        check(text, "one", Some("b.test"), false);
        check(text, "other", None, false);
    }
    let mut denied = setup("", &set(X));
    denied.sources.push(("b", folder(&[("b.yaml", &zone)]), SourceRules::default()));
    for (entry, scopes) in [("one", Some(vec!["b.test".into()])), ("other", None)] {
        let rule = AllowRule { provider: entry.into(), scopes, kinds: None, deny: Vec::new() };
        denied.sources[2].2.allow = Allow::Rules(vec![rule]);
        let loaded = denied.once();
        assert!(shown(&loaded).contains("source `b` may not manage"), "{}", shown(&loaded));
        assert_eq!(loaded.desired.hidden.by("one", "dns/Zone", "www.z.test"), None);
    }
}

#[test]
fn what_is_kept_of_an_endpoint_does_not_outlive_what_may_be_hidden() {
    let mut cache = Cache::default();
    let mut desk = setup("", &endpoint(&["x.sub.z.test"]));
    let mut load = |desk: &Setup| resources(&desk.load(&mut cache)).contains("x.sub.z.test./A");
    assert!(load(&desk));
    desk.lacking = vec![Allow::All];
    assert!(!load(&desk));
    desk.lacking = vec![only(Some("*.other.test"), None)];
    assert!(load(&desk));
    desk.lacking = Vec::new();
    assert!(load(&desk));
}

#[test]
fn a_ptr_stays_where_it_is_while_its_zone_may_be_declared_where_nothing_can_be_read() {
    let (short, pointer) = ("192.in-addr.arpa", "1.2.0.192.in-addr.arpa./PTR");
    let reverse = zone("").replace("z.test", short);
    let mut desk = setup("", &set(&X.replace("}", ", reverse: true}")));
    let z = zone("");
    let files = [("z.yaml", z.as_str()), ("r.yaml", reverse.as_str()), ("longer.yaml", "a: [\n")];
    desk.sources[0].1 = folder(&files[..2]);
    assert!(resources(&desk.once()).contains(&format!("one/{short} {pointer}")));
    desk.sources[0].1 = folder(&files);
    let loaded = desk.once();
    let all = resources(&loaded);
    assert!(all.contains("one/z.test x.z.test./A") && !all.contains("PTR"), "{all}");
    assert!(loaded.desired.sources["team"].is_whole(), "all else of that source is sure");
    let aside: BTreeSet<String> =
        loaded.desired.set_aside.keys().map(|(scope, id)| format!("{scope} {id}")).collect();
    for zone in [short, "0.192.in-addr.arpa", "2.0.192.in-addr.arpa", "1.2.0.192.in-addr.arpa"] {
        assert!(aside.contains(&format!("one/{zone} {pointer}")), "{zone} {aside:?}");
    }
}

#[test]
fn a_ptr_goes_into_no_shorter_zone_while_its_own_is_in_error() {
    let (short, long, pointer) = ("192.in-addr.arpa", "2.0.192.in-addr.arpa", "1.2.0.192.in-addr.arpa./PTR");
    let (z, team) = (zone(""), set(&X.replace("}", ", reverse: true}")));
    let of = |name: &str, entry: &str| {
        zone("").replace("z.test", name).replace("provider: one", &format!("provider: {entry}"))
    };
    let load = |longer: &str, entry: &str, is_own: bool| {
        let (shorter, longer) = (of(short, "one"), of(longer, entry));
        let files = [("z.yaml", &*z), ("s.yaml", &*shorter), ("l.yaml", &*longer), ("t.yaml", &*team)];
        let mut desk = setup("", if is_own { "" } else { &team });
        desk.sources[0].1 = folder(&files[..if is_own { 4 } else { 3 }]);
        desk.once()
    };
    for is_own in [true, false] {
        assert!(resources(&load(long, "one", is_own)).contains(&format!("one/{long} {pointer}")));
        let apart = load("3.0.192.in-addr.arpa", "oen", is_own);
        assert!(resources(&apart).contains(&format!("one/{short} {pointer}")), "{}", resources(&apart));
        let loaded = load(long, "oen", is_own);
        let all = resources(&loaded);
        assert!(all.contains("one/z.test x.z.test./A") && !all.contains("PTR"), "{all}{}", shown(&loaded));
        let aside: BTreeSet<String> =
            loaded.desired.set_aside.keys().map(|(scope, id)| format!("{scope} {id}")).collect();
        assert_eq!(aside, [short, long].map(|zone| format!("one/{zone} {pointer}")).into());
    }
}

#[test]
fn a_zone_of_another_source_that_cannot_be_read_freezes_what_goes_into_it_and_nothing_else() {
    for rules in [OnInvalid::Partial, OnInvalid::Hold] {
        let mut setup = setup("", &format!("{}---\n{}", set(X), AFAR.replace("berlin", "one")));
        setup.sources[0].1 = folder(&[("z.yaml", "a: [\n")]);
        setup.sources[1].2.on_invalid = rules;
        let loaded = setup.once();
        let sources: Vec<&str> = loaded.problems.iter().map(|reported| &*reported.source).collect();
        assert_eq!((sources, loaded.withheld.len()), (vec!["infra"], 0), "{}", shown(&loaded));
        // What else is in the same file is declared; nothing is pruned meanwhile.
        assert!(loaded.desired.scopes.keys().any(|scope| &*scope.name == "afar.test"));
        assert!(!loaded.desired.scopes.keys().any(|scope| &*scope.name == "z.test"));
        assert!(!loaded.desired.sources["team"].is_whole());
    }
}

#[test]
fn a_zone_that_cannot_be_read_is_no_warning_of_what_goes_into_it() {
    let zonefile = registry::types().iter().find(|known| known.name == "zonefile").unwrap();
    let observer = reconciled_dns::zonefile::sample("any").unwrap();
    let types = [EntryView { name: "zonefile".into(), observer, kinds: zonefile.kinds.clone() }];
    let check = |zone: &str, set: &str| {
        let files = folder(&[("z.yaml", zone), ("t.yaml", set)]);
        shown(&validate(&files, "dir", &types, SourceRules::default()))
    };
    assert!(check("", &set(X)).contains("zone `z.test` is not declared here"));
    assert!(!check("a: [\n", &set(X)).contains("not declared here"));
    // What is wrong in it is told all the same.
    assert!(check("a: [\n", &set("{name: x, type: A, values: [192.0.2]}")).contains("`192.0.2`"));
}

#[test]
fn what_has_one_value_is_not_shared() {
    let loaded = setup("", &set("{name: x, type: CNAME, values: [a.test.], merge: true}")).once();
    assert_snapshot!(shown(&loaded), @r"
    error: `merge` shares values with others, and a CNAME has exactly one value
      --> t.yaml:6:29
    6 |   records: [{name: x, type: CNAME, values: [a.test.], merge: true}]
      |                             ^
    hint: leave `merge` out
    ");
    let of_all = set("{name: x, type: CNAME, values: [a.test.]}, {name: y, type: TXT, values: [a]}")
        .replace("{name: t}", "{name: t, annotations: {reconciled/merge: \"true\"}}");
    assert_snapshot!(shown(&setup("", &of_all).once()), @r"
    error: `reconciled/merge` shares values with others, and a CNAME has exactly one value
      --> t.yaml:6:29
    6 |   records: [{name: x, type: CNAME, values: [a.test.]}, {name: y, type: TXT, values: [a]}]
      |                             ^
    hint: move it to a manifest without the annotation, or write `merge: true` in the records that share values instead
    ");
    let twice = format!(
        "{0}---\n{1}",
        set("{name: x, type: CNAME, values: [a.test.]}"),
        set("{name: x, type: CNAME, values: [b.test.]}").replace("name: t}", "name: u}")
    );
    assert!(shown(&setup("", &twice).once()).contains("hint: remove one of them"));
    // An annotation that lays a manifest over another one is no word about its values.
    let base = set("{name: x, type: CNAME, values: [a.test.]}");
    let over = base
        .replace("{name: t}", "{name: t, annotations: {reconciled/merge: \"true\"}}")
        .replace("a.test", "b.test");
    let mut layers = setup("", "");
    layers.sources[1].1 = folder(&[("common/t.yaml", &base), ("prod/t.yaml", &over)]);
    layers.sources[1].2.paths = vec!["common".into(), "prod".into()];
    assert_eq!(good(&layers), "one/z.test x.z.test./CNAME = 300\nb.test.\none/z.test z.test. = zone");
}
