//! What records say, and what only Cloudflare knows of them.

use super::*;

#[tokio::test]
async fn a_text_stays_cut_as_it_was_found() {
    let (_fake, provider) = with_zone("free");
    world::strings_stay(&*provider, &cx(), ZONE).await;
}

#[tokio::test]
async fn a_second_run_is_empty_for_every_type() {
    let (fake, provider) = with_zone("free");
    let long = format!("name: long, type: TXT, values: [{}]", "x".repeat(766));
    let wanted = desired(
        &*provider,
        ZONE,
        &records(&[
            r#"name: "@", type: A, values: [192.0.2.2, 192.0.2.1], ttl: 60"#,
            r#"name: auto, type: A, values: [192.0.2.2], ttl: 1"#,
            r#"name: "@", type: MX, values: [10 mail.example.com., 20 @]"#,
            r#"name: nullmx, type: MX, values: [0 .]"#,
            r#"name: "@", type: CAA, values: ['0 issue "letsencrypt.org; a=b"', '128 IssueWild ";"']"#,
            r#"name: WWW, type: CNAME, values: [Example.COM.], cloudflare: {proxied: true}"#,
            r#"name: v6, type: AAAA, values: ["2001:DB8:0:0:1::1", "::ffff:192.0.2.1", "::"]"#,
            r#"name: _sip._tcp, type: SRV, values: [10 60 5060 sip.example.com., 0 0 0 .]"#,
            r#"name: "*.dev", type: A, values: [192.0.2.9], ttl: 86400, cloudflare: {comment: "ask (Bob)"}"#,
            r#"name: sub, type: NS, values: [ns1.example.net., ns2.example.net.]"#,
            "name: loc, type: LOC, values: [51 30 12.748 N 0 7 39.611 W 10m, 52 14 05 S 00 08 50 E -10m 30m 20m 5m]",
            r#"name: key, type: OPENPGPKEY, values: ["mQENBFVHm5sBCADEQ1jW AAECAw=="]"#,
            r#"name: _ftp._tcp, type: URI, values: ['10 1 "ftp://ftp1.example.com/public"']"#,
            r#"name: txt, type: TXT, values: ["", "a;b", "trailing ", "it's `x`", "quo\"te", "back\\slash", "äö\nü"]"#,
            &long,
        ]),
    );
    converge(&*provider, &cx(), ZONE, &wanted, &[]).await;
    let seen = world::observe_for(&*provider, &cx(), ZONE, &wanted).await.unwrap();
    assert_eq!(seen.resources.len(), wanted.len());
    assert!(seen.resources.iter().all(|o| o.owner == Owner::Ours || o.id.0.ends_with('.')), "{seen:?}");
    fake.with(|cloudflare| {
        let www = &cloudflare.at(ZONE, "www.example.com", "CNAME")[0];
        assert_eq!((&www["ttl"], &www["content"]), (&json!(1), &json!("example.com")));
        assert_eq!(
            cloudflare.at(ZONE, "*.dev.example.com", "A")[0]["comment"],
            "ask (Bob) (reconciled=dns1)"
        );
    });
}

#[tokio::test]
async fn an_alias_at_the_zone_itself_is_a_cname_that_is_flattened() {
    let (fake, provider) = with_zone("free");
    let text = r#"name: "@", type: TXT, values: [beside]"#;
    let list = |apex: &str| desired(&*provider, ZONE, &records(&[apex, text]));
    let alias = list(r#"name: "@", type: ALIAS, values: [www.example.net.], cloudflare: {proxied: true}"#);
    converge(&*provider, &cx(), ZONE, &alias, &[]).await;
    let kept = fake.with(|cloudflare| cloudflare.at(ZONE, ZONE, "CNAME")[0].clone());
    assert_eq!((&kept["content"], &kept["proxied"]), (&json!("www.example.net"), &json!(true)));
    let address = list(r#"name: "@", type: A, values: [192.0.2.1]"#);
    converge(&*provider, &cx(), ZONE, &address, &["example.com./ALIAS"]).await;
    converge(&*provider, &cx(), ZONE, &alias, &["example.com./A"]).await;
    let spec = "records: [{name: www, type: ALIAS, values: [a.example.net.]}]";
    let (_, problems) = normalize(&*provider, ZONE, spec);
    assert!(problems[0].message.contains("only at the zone itself"), "{problems:?}");
    let spec = "records: [{name: '@', type: CNAME, values: [a.example.net.]}]";
    let (_, problems) = normalize(&*provider, ZONE, spec);
    assert!(problems[0].hint.as_ref().unwrap().contains("ALIAS"), "{problems:?}");
}

#[tokio::test]
async fn what_somebody_proxies_is_a_difference_that_one_write_takes_away() {
    let (fake, provider) = with_zone("free");
    let wanted = desired(&*provider, ZONE, &records(&["name: www, type: A, values: [192.0.2.1]"]));
    converge(&*provider, &cx(), ZONE, &wanted, &[]).await;
    fake.with(|cloudflare| {
        for record in cloudflare.zone(ZONE).records.values_mut() {
            record.insert("proxied".into(), json!(true));
            // Some answers keep the TTL that was set before.
            record.insert("ttl".into(), json!(300));
        }
    });
    let seen = world::observe_for(&*provider, &cx(), ZONE, &wanted).await.unwrap();
    let deltas = world::diff(&*provider, &cx(), ZONE, &wanted, &seen).await;
    let delta = deltas[&"www.example.com./A".into()].as_ref().unwrap();
    let paths: Vec<&str> = delta.fields.iter().map(|field| &*field.path).collect();
    assert_eq!(paths, ["ttl", "cloudflare.proxied"]);
    converge(&*provider, &cx(), ZONE, &wanted, &[]).await;
    let proxied = desired(
        &*provider,
        ZONE,
        &records(&["name: www, type: A, values: [192.0.2.1], cloudflare: {proxied: true}"]),
    );
    converge(&*provider, &cx(), ZONE, &proxied, &[]).await;
}

#[tokio::test]
async fn old_texts_without_quotes_are_equal_and_other_comments_stay() {
    let (fake, provider) = with_zone("free");
    fake.with(|cloudflare| {
        let content = "v=spf1 -all";
        cloudflare
            .put(ZONE, json!({"name": ZONE, "type": "TXT", "content": content, "comment": "old (ask Bob)"}));
    });
    let spf = r#"name: "@", type: TXT, values: ["v=spf1 -all"]"#;
    let wanted = desired(&*provider, ZONE, &records(&[spf]));
    let seen = world::observe_for(&*provider, &cx(), ZONE, &wanted).await.unwrap();
    assert!(plan_of(&*provider, &wanted, &seen).await.actions.is_empty());
    let other = desired(&*provider, ZONE, &records(&[&spf.replace("-all", "~all")]));
    converge(&*provider, &cx(), ZONE, &other, &[]).await;
    fake.with(|cloudflare| {
        let now = cloudflare.at(ZONE, ZONE, "TXT");
        assert_eq!(now.len(), 1);
        assert_eq!(now[0]["content"], "\"v=spf1 ~all\"");
        assert_eq!(now[0]["comment"], "old (ask Bob) (reconciled=dns1)");
    });
}

#[tokio::test]
async fn comments_and_tags_are_declared_changed_and_left_to_others() {
    let (fake, provider) = with_zone("business");
    let record = |extra: &str| {
        let record = format!("name: www, type: A, values: [192.0.2.1, 192.0.2.2]{extra}");
        desired(&*provider, ZONE, &records(&[&record]))
    };
    for extra in [
        ", cloudflare: {comment: one, tags: [\"Team:web\", b]}",
        ", cloudflare: {comment: two, tags: [b]}",
        ", cloudflare: {comment: \"\", tags: []}",
        ", cloudflare: {proxied: true, comment: three}",
    ] {
        let wanted = record(extra);
        let (_, _, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
        result.unwrap();
        let seen = world::observe_for(&*provider, &cx(), ZONE, &wanted).await.unwrap();
        assert!(plan_of(&*provider, &wanted, &seen).await.actions.is_empty(), "{extra}: {seen:?}");
    }
    let now = fake.with(|cloudflare| cloudflare.at(ZONE, "www.example.com", "A"));
    assert_eq!(
        (&now[0]["comment"], &now[1]["comment"]),
        (&json!("three (reconciled=dns1)"), &now[0]["comment"])
    );
    // Nobody declares them any more: they stay.
    let silent = record("");
    converge(&*provider, &cx(), ZONE, &silent, &[]).await;
    let now = fake.with(|cloudflare| cloudflare.at(ZONE, "www.example.com", "A"));
    assert_eq!(now[0]["comment"], "three (reconciled=dns1)");
}

#[tokio::test]
async fn what_other_products_of_cloudflare_keep_is_the_systems_and_not_written() {
    let (fake, provider) = with_zone("free");
    fake.with(|cloudflare| {
        cloudflare.put(
            ZONE,
            json!({"name": ZONE, "type": "MX", "content": "route1.mx.cloudflare.net", "priority": 5,
                "meta": {"email_routing": true, "read_only": true}}),
        );
    });
    let wanted =
        desired(&*provider, ZONE, &records(&[r#"name: "@", type: MX, values: [10 mail.example.net.]"#]));
    let (batch, notes, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
    result.unwrap();
    let outcome = notes.outcome(&batch, "example.com./MX");
    assert!(outcome.contains("unsupported: example.com. MX is kept by another product"), "{outcome}");
    let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
    assert_eq!(seen.get(&"example.com./MX".into()).unwrap().owner, Owner::System);
}

#[tokio::test]
async fn a_manifest_that_cloudflare_would_refuse_is_refused_at_its_place() {
    let (_, provider) = with_zone("free");
    let refuse = |record: &str, part: &str| {
        let spec = format!("apex: true\nrecords:\n  - {{{record}}}\n");
        let (_, problems) = normalize(&*provider, ZONE, &spec);
        let text: String = problems.iter().map(|problem| format!("{problem}\n")).collect();
        assert!(text.contains(part) && text.contains("zone.yaml:3:"), "{record}: {text}");
    };
    refuse("name: a, type: A, values: [192.0.2.1], ttl: 20", "takes no ttl of 20 seconds");
    refuse("name: a, type: A, values: [192.0.2.1], ttl: 90000", "60 to 86400");
    refuse("name: a, type: MX, values: [0 .], cloudflare: {proxied: true}", "a MX cannot be proxied");
    refuse("name: a, type: A, values: [192.0.2.1], ttl: 60, cloudflare: {proxied: true}", "leave `ttl` out");
    refuse("name: a, type: A, values: [192.0.2.1], cloudflare: {proxyed: true}", "did you mean `proxied`");
    refuse("name: a, type: A, values: [192.0.2.1], cloudflare: {comment: \"a\\nb\"}", "one line");
    refuse("name: a, type: A, values: [192.0.2.1], cloudflare: {tags: [\"a,b\"]}", "is no tag");
    refuse(
        "name: a, type: A, values: [192.0.2.1], cloudflare: {comment: x (reconciled=dns2)}",
        "looks like the mark",
    );
    refuse(
        "name: a, type: A, values: [192.0.2.1], cloudflare: {tags: [\"Reconciled:dns2\"]}",
        "looks like the mark",
    );
    refuse("name: \"@\", type: SOA, values: [a. b. 1 2 3 4]", "keeps the SOA");
}

#[tokio::test]
async fn a_merged_value_of_ours_that_somebody_proxies_stays_ours() {
    let (fake, provider) = with_zone("free");
    let record = ["name: www, type: A, values: [192.0.2.1], merge: true"];
    let wanted = desired(&*provider, ZONE, &records(&record)).split_off(1);
    fake.with(|cloudflare| {
        let put = |ttl, proxied, content| json!({"name": "www.example.com", "type": "A", "ttl": ttl, "proxied": proxied, "content": content});
        cloudflare.put(ZONE, put(1, true, "192.0.2.1"));
        cloudflare.put(ZONE, put(600, false, "192.0.2.9"));
    });
    let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
    let observed = seen.get(&wanted[0].id).unwrap();
    let shown = String::from_utf8_lossy(&observed.bytes).into_owned();
    assert!(shown.contains(") 192.0.2.1\n") || shown.ends_with(") 192.0.2.1"), "{shown}");
    let tracked = Tracked {
        private: reconciled_dns::merge::remember(wanted[0].spec.bytes().unwrap(), None, None),
        ..Tracked::new(wanted[0].id.clone(), wanted[0].spec.hash().unwrap())
    };
    let merge = |declared: &[&Resource]| {
        let merged = provider.merge(declared, Some(observed), Some(&tracked), &[]).unwrap().unwrap();
        String::from_utf8_lossy(merged.resource.spec.bytes().unwrap()).into_owned()
    };
    let both = merge(&[&wanted[0]]);
    assert_eq!(both.matches("192.0.2.1").count(), 1, "{both}");
    assert!(both.contains("192.0.2.9"), "{both}");
    let left = merge(&[]);
    assert!(left.contains("192.0.2.9") && !left.contains("192.0.2.1"), "{left}");
}

#[test]
fn a_configuration_that_cannot_work_is_refused() {
    let connect = |change: &dyn Fn(&mut reconciled_dns::cloudflare::Config), instance: &str| {
        let mut config = reconciled_dns::cloudflare::Config::default();
        change(&mut config);
        let secret = reconciled_provider::SecretRef::Named("token".into());
        reconciled_dns::cloudflare::connect("cf", instance, config, secret).map(|_| ()).unwrap_err()
    };
    assert!(connect(&|c| c.url = "http://me:canary@x".into(), "dns1").message.contains("belong in a secret"));
    assert!(connect(&|c| c.account = Some("my account".into()), "dns1").message.contains("is no id"));
    assert!(connect(&|_| (), "two words").hint.as_ref().unwrap().contains("marks: false"));
}
