//! The whole way while somebody asks: no name that is there before and after a commit is ever gone between.

use crate::{
    asker::Probe,
    env::{Env, zone},
    pdns::Pdns,
    updates::{self, Bind},
};

const ZONE: &str = "example.com";

/// The guard raised over what one commit does here.
const RAISED: &str =
    "guard: {maxDeletes: 5000, maxDeletePercent: 100, maxUpdates: 5000, maxUpdatePercent: 100}";

/// Twenty CNAMEs or addresses, a thousand records that stay, and a thousand that are called `other`.
fn records(is_alias: bool, net: u8, other: &str) -> Vec<String> {
    let swap = |i: usize| match is_alias {
        true => format!("{{name: swap-{i}, type: CNAME, values: [a{i}.example.org.]}}"),
        false => format!("{{name: swap-{i}, type: A, values: [192.0.2.{i}]}}"),
    };
    let address = |name: &str, i: usize| {
        format!("{{name: {name}-{i}, type: A, values: [10.{net}.{}.{}]}}", i >> 8, i & 255)
    };
    let stays = (0..1_000).map(|i| address("stays", i));
    (0..20).map(swap).chain(stays).chain((0..1_000).map(|i| address(other, i))).collect()
}

/// Changes, creates and deletes a thousand records, and turns CNAMEs to addresses and back, one commit each way.
fn there_and_back(env: &Env, provider: &str, port: u16) {
    let push = |is_alias: bool, net: u8, other: &str| {
        let records = records(is_alias, net, other);
        let records: Vec<&str> = records.iter().map(String::as_str).collect();
        env.push("zone.yaml", &zone(ZONE, provider, &records));
    };
    push(true, 1, "goes");
    env.apply();
    // Few, so that each is asked for every hundredth of a second.
    let stays = [0, 1, 333, 500, 998, 999].map(|i| format!("stays-{i}.{ZONE}"));
    let asked: Vec<String> =
        [0, 7, 13, 19].map(|i| format!("swap-{i}.{ZONE}")).into_iter().chain(stays).collect();
    for (is_alias, net, other) in [(false, 2, "comes"), (true, 3, "goes")] {
        push(is_alias, net, other);
        let probe = Probe::start(port, asked.clone());
        env.apply().says(&["1000 updated"]);
        probe.heard_only_data(provider);
    }
    env.in_sync();
}

#[test]
fn no_name_is_gone_while_a_commit_of_three_thousand_changes_reaches_powerdns() {
    let server = Pdns::start();
    let env = Env::new();
    env.write("key", &server.key);
    env.config(&env.pdns_entry(&server.url, RAISED));
    there_and_back(&env, "pdns", server.port);
}

#[test]
fn no_name_is_gone_while_a_commit_of_three_thousand_changes_reaches_bind() {
    let server = Bind::start();
    there_and_back(&updates::desk_with(&server, RAISED), "bind", server.port);
}
