//! Records of one source in the zone of another.

use crate::{
    env::{Env, rrsets, zone},
    shared::{other_source, push_other},
};
use std::fs;

const ZONE: &str = "example.com";

fn set(records: &str) -> String {
    format!(
        "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {{name: more}}\nspec: {{zone: {ZONE}, records: [{records}]}}\n"
    )
}

#[test]
fn the_last_record_of_a_set_in_the_zone_of_another_source_is_pruned_and_has_its_ttl() {
    let env = Env::zonefile();
    other_source(&env);
    let own = zone(ZONE, "zones", &["{name: www, type: A, values: [192.0.2.1]}"]);
    env.push("zone.yaml", &own.replace("ttl: 300", "ttl: 30"));
    push_other(&env, &set("{name: x, type: A, values: [192.0.2.2]}"));
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "30 192.0.2.1"), ("x A", "30 192.0.2.2")]));
    push_other(&env, &set(""));
    env.apply().says(&["- RecordSet/other#x/A"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "30 192.0.2.1")]));
}

#[test]
fn what_moves_to_another_repository_stays_while_its_value_is_wrong_there() {
    let env = Env::zonefile();
    other_source(&env);
    env.push("zone.yaml", &zone(ZONE, "zones", &["{name: www, type: A, values: [192.0.2.1]}"]));
    let moved = set("{name: x, type: A, values: [192.0.2.2]}");
    push_other(&env, &moved);
    env.apply();
    let all = env.zone_rrsets(ZONE);
    env.push("moved.yaml", &moved.replace("192.0.2.2", "192.0.2.300"));
    push_other(&env, &set(""));
    let frozen = "RecordSet/other: files of source infra with errors may declare it by now: moved.yaml";
    env.run(&["plan"]).exits(1).says(&["FROZEN", frozen, "No changes. 2 resources in sync, 1 frozen."]);
    env.run(&["apply", "--yes"]).exits(1);
    assert_eq!(env.zone_rrsets(ZONE), all);
    env.push("moved.yaml", &moved);
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), all);
    env.run(&["history"]).exits(0).hides(&["delete "]);
}

#[test]
fn while_a_zone_is_in_error_the_records_of_others_stay_where_they_are() {
    let env = Env::zonefile();
    other_source(&env);
    fs::create_dir(env.path("more")).unwrap();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let more = env.path("more");
    let entry = format!(
        "  - {{name: more, type: zonefile, directory: {}, nameservers: [ns1.example.net.]}}\n",
        more.display()
    );
    env.write("config.yaml", &(config + &entry));
    let own = zone(ZONE, "zones", &["{name: www, type: A, values: [192.0.2.1]}"]);
    env.push("zone.yaml", &own);
    push_other(&env, &set("{name: x, type: A, values: [192.0.2.2]}"));
    env.apply();
    let all = rrsets(&[("www A", "300 192.0.2.1"), ("x A", "300 192.0.2.2")]);
    assert_eq!(env.zone_rrsets(ZONE), all);

    // It says that it is at another entry by now, where there is one of that name.
    let wrong = own.replace("values:", "valuez:");
    let theirs = "$ORIGIN example.com.\n@ 3600 IN SOA ns1.example.net. h.example.com. 1 10800 3600 604800 3600\n@ 3600 IN NS ns1.example.net.\n";
    env.write("more/example.com.zone", theirs);
    env.push("zone.yaml", &wrong.replace("provider: zones", "provider: more"));
    let frozen = "RecordSet/other: files of source infra with errors may declare it by now: zone.yaml";
    let waits = "waiting: until the manifest that declares more/example.com counts";
    env.run(&["plan"]).exits(1).says(&[waits, "FROZEN", frozen, "0 to delete"]).hides(&["HELD"]);
    env.run(&["apply", "--yes"]).exits(1).hides(&["1 created", "1 deleted"]);
    assert_eq!(fs::read_to_string(more.join("example.com.zone")).unwrap(), theirs);
    assert_eq!(env.zone_rrsets(ZONE), all);

    // It is where it was, and somebody took it away.
    fs::remove_file(env.path("zones/example.com.zone")).unwrap();
    env.push("zone.yaml", &wrong);
    let waits = "waiting: until Zone/example.com is made: a file with errors declares it";
    let told = env.run(&["apply", "--yes"]).exits(1);
    told.says(&[waits]).hides(&["does not exist", "what failed"]);
    env.push("zone.yaml", &own);
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), all);
}
