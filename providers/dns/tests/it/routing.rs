//! Aliases and routed sets of Route 53: declared, changed set by set, shown, exported; against the fake.

use crate::{
    fake::Fake,
    fake_route53::{self, Route53, cx, provider},
    world::{self, Notes, apply, converge, desired, normalize, observe},
};
use reconciled_provider::{Op, Outcome, Provider};
use std::sync::Arc;

const ZONE: &str = "example.com";

/// Each kind of routing, and each kind of alias.
pub(crate) const ROUTED: [&str; 7] = [
    "{name: \"@\", type: A, route53: {alias: {target: LB.example.net., zone: Z2ABC, evaluateTargetHealth: true}}}",
    "{name: same, type: AAAA, route53: {alias: {target: v6}}}",
    "{name: w, type: A, ttl: 60, route53: {sets: [{id: blue, weight: 10, values: [192.0.2.1, 192.0.2.2]}, \
     {id: green, weight: 90, alias: {target: w2}}]}}",
    "{name: near, type: CNAME, route53: {sets: [{id: eu, region: eu-west-1, values: [eu.example.net.]}, \
     {id: us, region: us-east-1, ttl: 30, values: [us.example.net.]}]}}",
    "{name: place, type: TXT, route53: {sets: [{id: de, geo: {country: DE}, values: [guten tag]}, \
     {id: eu, geo: {continent: EU}, values: [hi]}, {id: rest, geo: {country: \"*\"}, values: [hello]}]}}",
    "{name: safe, type: A, route53: {sets: [{id: one, failover: primary, healthCheck: abc-1, values: [192.0.2.1]}, \
     {id: two, failover: secondary, values: [192.0.2.2]}]}}",
    "{name: many, type: A, route53: {sets: [{id: a, multivalue: true, values: [192.0.2.1]}, \
     {id: b, multivalue: true, values: [192.0.2.2]}]}}",
];

fn routed() -> Vec<String> {
    ROUTED.map(str::to_owned).to_vec()
}

fn with_zone() -> (Fake<Route53>, Arc<dyn Provider>) {
    let fake = fake_route53::start();
    fake.with(|route53| route53.add_zone(ZONE));
    let provider = provider(&fake);
    (fake, provider)
}

#[tokio::test]
async fn every_routing_is_declared_and_a_second_run_is_empty() {
    let (fake, provider) = with_zone();
    let wanted = desired(&*provider, ZONE, &routed());
    converge(&*provider, &cx(), ZONE, &wanted, &[]).await;
    let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
    let shown = |id: &str| String::from_utf8_lossy(&seen.get(&id.into()).unwrap().bytes).into_owned();
    assert_eq!(
        shown("example.com./A"),
        "0 {\"route53\":{\"alias\":{\"zone\":\"Z2ABC\",\"evaluateTargetHealth\":true}}}\n(alias lb.example.net.)"
    );
    assert_eq!(
        shown("w.example.com./A"),
        "60 {\"route53\":{\"sets\":{\"blue\":{\"ttl\":60,\"weight\":10},\"green\":{\"alias\":{},\"weight\":90}}}}\n\
         (set blue) 192.0.2.1\n(set blue) 192.0.2.2\n(set green) (alias w2.example.com.)"
    );
    // Without `zone` an alias is one of the zone itself.
    let own = fake.with(|route53| route53.zones.keys().next().unwrap().clone());
    let more =
        fake.with(|route53| route53.zones[&own].1.values().map(|set| set.more.clone()).collect::<Vec<_>>());
    assert!(
        more.iter().any(|more| more.contains(&format!("<HostedZoneId>{own}</HostedZoneId>"))),
        "{more:?}"
    );
}

#[tokio::test]
async fn only_the_set_that_differs_is_touched() {
    let (fake, provider) = with_zone();
    let mut list = routed();
    converge(&*provider, &cx(), ZONE, &desired(&*provider, ZONE, &list), &[]).await;
    list[2] = list[2].replace("weight: 10", "weight: 20");
    let wanted = desired(&*provider, ZONE, &list);
    let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
    let deltas = world::diff(&*provider, &cx(), ZONE, &wanted, &seen).await;
    assert_eq!(deltas.len(), 1, "{deltas:?}");
    let delta = deltas[&"w.example.com./A".into()].as_ref().unwrap();
    let paths: Vec<&str> = delta.fields.iter().map(|field| &*field.path).collect();
    assert_eq!(paths, ["route53.sets.blue.weight"]);
    fake.asked();
    apply(&*provider, &cx(), ZONE, &wanted, &[]).await.2.unwrap();
    let asked = fake.asked();
    let body = &asked.iter().find(|request| request.method == "POST").unwrap().body;
    assert_eq!(body.matches("<Change>").count(), 2, "{body}");
    assert!(body.contains("<SetIdentifier>blue</SetIdentifier><Weight>20</Weight>"), "{body}");
    assert!(!body.contains("green"), "{body}");

    // Routed sets become plain values and the other way round in one step; what is pruned goes as a whole.
    list[2] = "{name: w, type: A, values: [192.0.2.9]}".into();
    list[0] = list[0].replace("@", "apex2");
    converge(&*provider, &cx(), ZONE, &desired(&*provider, ZONE, &list), &["example.com./A"]).await;
    list[2] = ROUTED[2].into();
    converge(&*provider, &cx(), ZONE, &desired(&*provider, ZONE, &list), &[]).await;
    let ids: Vec<String> = desired(&*provider, ZONE, &list).iter().map(|r| r.id.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).filter(|id| *id != "example.com.").collect();
    converge(&*provider, &cx(), ZONE, &[], &ids).await;
    assert_eq!(
        observe(&*provider, &cx(), ZONE).await.unwrap().resources.len(),
        3,
        "the zone, its NS and SOA"
    );
}

#[tokio::test]
async fn a_routing_that_is_not_known_is_seen_and_never_written() {
    let (fake, provider) = with_zone();
    let strange = "<SetIdentifier>blue</SetIdentifier><CidrRoutingConfig><CollectionId>c</CollectionId>\
                   <LocationName>l</LocationName></CidrRoutingConfig><TTL>60</TTL><ResourceRecords><ResourceRecord>\
                   <Value>192.0.2.1</Value></ResourceRecord></ResourceRecords>";
    fake.with(|route53| route53.route(ZONE, "www.example.com", "A", "blue", strange));
    let before = fake.with(|route53| route53.zones.clone());
    let id = "www.example.com./A";
    for record in [
        "{name: www, type: A, values: [192.0.2.7]}",
        "{name: www, type: A, route53: {sets: [{id: blue, ttl: 60, weight: 1, values: [192.0.2.1]}]}}",
    ] {
        let wanted = desired(&*provider, ZONE, &[record.into()]);
        let (batch, notes, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
        result.unwrap();
        assert!(notes.outcome(&batch, id).contains("a routing policy that this version does not write"));
    }
    let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
    let observed = seen.get(&id.into()).unwrap().clone();
    assert!(String::from_utf8_lossy(&observed.bytes).ends_with("\n(set blue) (other routing) 192.0.2.1"));
    let batch = world::batch(ZONE, &seen, vec![Op::Delete { observed: observed.into(), tracked: None }]);
    let notes = Notes::default();
    provider.apply(&cx(), &batch, &notes).await.unwrap();
    assert!(notes.outcomes.lock().unwrap().values().all(|outcome| matches!(outcome, Outcome::Failed(_))));
    assert!(fake.with(|route53| route53.zones == before));
}

#[tokio::test]
async fn a_set_that_somebody_changed_since_is_refused_and_theirs_stays() {
    let (fake, provider) = with_zone();
    let other = fake_route53::provider(&fake);
    let list = vec![ROUTED[2].to_owned()];
    converge(&*provider, &cx(), ZONE, &desired(&*provider, ZONE, &list), &[]).await;
    let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
    let ours = desired(&*provider, ZONE, &[list[0].replace("weight: 10", "weight: 20")]);
    let batch = world::plan(&*provider, &cx(), ZONE, &ours, &[], &seen).await;
    let theirs = desired(&*other, ZONE, &[list[0].replace("weight: 10", "weight: 66")]);
    converge(&*other, &cx(), ZONE, &theirs, &[]).await;
    let error = provider.apply(&cx(), &batch, &Notes::default()).await.unwrap_err();
    assert_eq!(error.kind, reconciled_provider::ErrorKind::Conflict, "{error}");
    let more = fake.with(|route53| {
        route53
            .zones
            .values()
            .flat_map(|(_, sets)| sets.values())
            .map(|set| set.more.clone())
            .collect::<String>()
    });
    assert!(more.contains("<Weight>66</Weight>"), "{more}");
}

#[tokio::test]
async fn what_is_exported_declares_the_same_again() {
    let (_fake, provider) = with_zone();
    let wanted = desired(&*provider, ZONE, &routed());
    converge(&*provider, &cx(), ZONE, &wanted, &[]).await;
    let found = provider.discover(&cx(), ZONE).await.unwrap().remove(0);
    let text = provider.export(&found).unwrap().remove(0);
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(!text.contains("Not declared here"), "{text}");
    let spec = text.split_once("spec:\n").unwrap().1.replace("  provider: test\n", "");
    let (again, problems) = normalize(&*provider, ZONE, &spec);
    assert!(problems.is_empty(), "{problems:?}\n{text}");
    let contents = |list: &[reconciled_provider::Resource]| {
        let mut all: Vec<_> = list.iter().map(|r| (r.id.clone(), r.spec.hash())).collect();
        all.sort();
        all
    };
    assert_eq!(contents(&again), contents(&wanted), "{text}");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_at_its_place() {
    let (_fake, provider) = with_zone();
    let check = |record: &str, part: &str| {
        let (_, problems) = normalize(&*provider, ZONE, &format!("records: [{record}]"));
        let texts: Vec<String> = problems.iter().map(|p| format!("{} / {:?}", p.message, p.hint)).collect();
        assert!(texts.len() == 1 && texts[0].contains(part), "{record}: {texts:?}");
    };
    let sets = |sets: &str| format!("{{name: w, type: A, route53: {{sets: [{sets}]}}}}");
    check("{name: a, type: A, route53: {}}", "one of `alias` and `sets`");
    check("{name: a, type: A, values: [192.0.2.1], route53: {alias: {target: b}}}", "`values` and `route53`");
    check("{name: a, type: A, merge: true, route53: {alias: {target: b}}}", "for plain values");
    check("{name: a, type: NS, route53: {alias: {target: b}}}", "NS and SOA have neither");
    check("{name: a, type: A, route53: {alias: {target: \"b..\"}}}", "b..");
    check("{name: a, type: A, route53: {alias: {target: lb.example.com}}}", "write `lb.example.com.`");
    check(&sets("{id: x, values: [192.0.2.1]}"), "one way to be chosen");
    check(&sets("{id: x, weight: 1, region: eu-west-1, values: [192.0.2.1]}"), "one way to be chosen");
    check(&sets("{id: \"x)\", weight: 1, values: [192.0.2.1]}"), "no id of a set");
    check(&sets("{id: x, weight: 1}"), "either `values` or an `alias`");
    check(&sets("{id: x, weight: 1, values: [300.0.2.1]}"), "300.0.2.1");
    check(&sets("{id: x, multivalue: true, values: [192.0.2.1, 192.0.2.2]}"), "has one value");
    check(&sets("{id: x, geo: {continent: EU, country: DE}, values: [192.0.2.1]}"), "continent or a country");
    let twice = "{id: x, weight: 1, values: [192.0.2.1]}, {id: x, weight: 2, values: [192.0.2.1]}";
    check(&sets(twice), "of this id is there already");
    let mixed = "{id: x, weight: 1, values: [192.0.2.1]}, {id: y, region: eu-west-1, values: [192.0.2.1]}";
    check(&sets(mixed), "one kind of routing");
    check("{name: a, type: A}", "has no values");
    check("{name: a, type: ALIAS, values: [b]}", "write type A or AAAA");
}
