//! Records of one source in the zone of another.

use crate::{
    env::{Env, rrsets, zone},
    shared::{other_source, push_other},
};

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
