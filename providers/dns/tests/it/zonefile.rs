//! Zone files in a scratch directory.

use crate::world::{self, Notes, apply, batch, converge, cx, desired, observe, plan, scope};
use reconciled_dns::zonefile::{Config, open};
use reconciled_provider::{Error, ErrorKind, Op, Outcome, Owner, Provider, Version};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    sync::Arc,
};

const ZONE: &str = "example.com";

struct Zones {
    directory: tempfile::TempDir,
    provider: Arc<dyn Provider>,
}

impl Zones {
    fn new() -> Zones {
        Zones::with(|_, _| {})
    }
    fn with(change: impl FnOnce(&mut Config, &Path)) -> Zones {
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config::new(directory.path());
        change(&mut config, directory.path());
        Zones { provider: open("test", "dns1", config).unwrap(), directory }
    }
    fn provider(&self) -> &dyn Provider {
        &*self.provider
    }
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
    fn text(&self) -> String {
        fs::read_to_string(self.path("example.com.zone")).unwrap()
    }
    fn write(&self, text: &str) {
        fs::write(self.path("example.com.zone"), text).unwrap();
    }
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| word.to_string()).collect()
}

fn records(list: &[&str]) -> Vec<String> {
    list.iter().map(|record| format!("{{{record}}}")).collect()
}

const BY_HAND: &str = "\
$ORIGIN example.com.
$TTL 1h
@ IN SOA ns1 hostmaster 41 3h 1h 1w 5m ; first
  IN NS ns1
ns1 A 192.0.2.53
    AAAA 2001:DB8::53
$ORIGIN legacy
d AFSDB 1 t
x 60 A 192.0.2.1
x 90 A 192.0.2.2
";

#[tokio::test]
async fn a_second_run_is_empty_for_every_type() {
    // A server's own tool reads the file too.
    let zones = Zones::with(|config, _| {
        config.check = words(&["named-checkzone", "-i", "local", "{zone}", "{file}"]);
    });
    let mut records = world::every_type();
    records.push(r#"{name: "a\\.b;c", type: PTR, values: ["x\\032y(z.example.com."]}"#.into());
    let wanted = desired(zones.provider(), ZONE, &records);
    converge(zones.provider(), &cx(""), ZONE, &wanted, &[]).await;
    let seen = observe(zones.provider(), &cx(""), ZONE).await.unwrap();
    assert_eq!(seen.resources.len(), wanted.len());
    assert!(seen.resources.iter().all(|o| o.owner == Owner::Ours || o.id.0.ends_with('.')), "{seen:?}");
    let versions = zones.provider().versions(&cx(""), &[scope(ZONE), scope("example.net")]).await.unwrap();
    assert_eq!(versions[&scope(ZONE)], seen.version);
    assert_eq!(versions[&scope("example.net")], Version::Absent);
    assert_eq!(zones.names(), ["example.com.zone"], "nothing is left beside the file");
}

#[tokio::test]
async fn a_text_stays_cut_as_it_was_written_by_hand() {
    let zones = Zones::new();
    let cut = "300 TXT \"path=/x\" rp=lp\n";
    zones.write(&format!(
        "@ 300 IN SOA ns1 h 1 2 3 4 5\n  300 IN NS ns1\nns1 300 A 192.0.2.53\nprn {cut}m {cut}"
    ));
    world::strings_stay(zones.provider(), &cx(""), ZONE).await;
    let text = zones.text();
    for line in ["m 302 IN TXT \"path=/x\" \"rp=lp\"", "prn 301 IN TXT \"path=/\" \"xrp=lp\""] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[tokio::test]
async fn records_written_by_hand_are_kept_and_the_serial_goes_on() {
    let zones = Zones::new();
    zones.write(BY_HAND);
    let before = observe(zones.provider(), &cx(""), ZONE).await.unwrap();
    let wanted = desired(zones.provider(), ZONE, &records(&["name: www, type: A, values: [192.0.2.7]"]));
    converge(zones.provider(), &cx(""), ZONE, &wanted, &[]).await;
    assert!(zones.text().contains("www 300 IN A 192.0.2.7 ; reconciled=dns1\n"), "{}", zones.text());
    assert!(zones.text().contains("hostmaster.example.com. 42 10800 3600 604800 300\n"), "{}", zones.text());
    let after = observe(zones.provider(), &cx(""), ZONE).await.unwrap();
    let ours = |id: &str| id == "www.example.com./A";
    let rest: Vec<_> = after.resources.iter().filter(|o| !ours(&o.id.0)).cloned().collect();
    assert_eq!(rest, before.resources);
    let owner = |id: &str| after.get(&id.into()).unwrap().owner.clone();
    assert_eq!((owner("example.com./SOA"), owner("ns1.example.com./A")), (Owner::System, Owner::Unmarked));
    assert!(zones.text().contains("$ORIGIN legacy.example.com.\nd.legacy.example.com. 3600 IN AFSDB 1 t\n"));
    assert!(
        String::from_utf8_lossy(&after.get(&"x.legacy.example.com./A".into()).unwrap().bytes)
            .contains("(ttl")
    );
}

#[tokio::test]
async fn a_file_with_a_mistake_is_an_error_with_its_line_and_is_not_touched() {
    let zones = Zones::new();
    for (text, part) in [
        (BY_HAND.replace("192.0.2.53", "("), "never closed"),
        (format!("{BY_HAND}$INCLUDE other\n"), ":11: $INCLUDE is not supported"),
        (String::new(), "without a SOA"),
    ] {
        zones.write(&text);
        let error = observe(zones.provider(), &cx(""), ZONE).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains("example.com.zone:") && error.message.contains(part), "{error}");
    }
    fs::write(zones.path("example.com.zone"), b"@ 1 IN SOA a. b. 1 2 3 4 5\nx 1 IN TXT \"\xff\"\n").unwrap();
    let error = observe(zones.provider(), &cx(""), ZONE).await.unwrap_err();
    assert!(error.message.contains("example.com.zone:2: the file is not UTF-8"), "{error}");
}

#[tokio::test]
async fn a_directory_that_is_gone_is_no_directory_without_zones() {
    let zones = Zones::with(|config, path| config.directory = path.join("missing"));
    let error = observe(zones.provider(), &cx(""), ZONE).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.hint.as_ref().unwrap().contains("create the directory"));
    assert!(zones.provider().versions(&cx(""), &[scope(ZONE)]).await.is_err());
    assert!(zones.provider().discover(&cx(""), "*").await.is_err());
}

#[tokio::test]
async fn what_check_refuses_leaves_the_old_file_as_it_was() {
    let zones = Zones::with(|config, _| config.check = words(&["grep", "-c", "192.0.2.53", "{file}"]));
    zones.write(BY_HAND);
    let wanted = desired(zones.provider(), ZONE, &records(&["name: ns1, type: A, values: [192.0.2.99]"]));
    let (batch, notes, result) = apply(zones.provider(), &cx(""), ZONE, &wanted, &[]).await;
    result.unwrap();
    let outcome = notes.outcome(&batch, "ns1.example.com./A");
    assert!(outcome.contains("failed: invalid: `grep -c 192.0.2.53") && outcome.contains(": 0"), "{outcome}");
    assert_eq!((zones.text(), zones.names()), (BY_HAND.into(), vec!["example.com.zone".into()]));
}

#[tokio::test]
async fn a_new_zone_without_a_name_server_is_one_error_that_says_what_names_one() {
    let check = words(&["named-checkzone", "-i", "local", "{zone}", "{file}"]);
    let zones = Zones::with(|config, _| config.check = check.clone());
    let wanted = ["name: a, type: A, values: [192.0.2.1]", "name: b, type: A, values: [192.0.2.2]"];
    let wanted = desired(zones.provider(), ZONE, &records(&wanted));
    let (batch, notes, result) = apply(zones.provider(), &cx(""), ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!((batch.actions.len(), notes.counts()), (3, [("failed", 1)].into()));
    let outcomes = notes.outcomes.lock().unwrap().clone();
    let error = outcomes.values().find_map(Outcome::error).unwrap();
    let (said, hint) = (error.chain(), error.hint.clone().unwrap());
    assert!(said.contains("zone example.com has no name server") && said.contains("no NS records"), "{said}");
    assert!(hint.contains("`nameservers` of the entry") && hint.contains("`apex: true`"), "{hint}");
    assert!(zones.names().is_empty(), "{:?}", zones.names());

    let zones = Zones::with(|config, _| {
        config.check = check;
        config.nameservers = words(&["ns1.example.net"]);
    });
    converge(zones.provider(), &cx(""), ZONE, &wanted, &[]).await;
}

#[tokio::test]
async fn a_check_that_is_not_installed_writes_nothing() {
    let zones = Zones::with(|config, _| config.check = words(&["no-such-command-here", "{file}"]));
    let wanted = desired(zones.provider(), ZONE, &records(&["name: a, type: A, values: [192.0.2.1]"]));
    let (_, notes, result) = apply(zones.provider(), &cx(""), ZONE, &wanted, &[]).await;
    assert_eq!(result.unwrap_err().kind, ErrorKind::Unavailable);
    assert_eq!((notes.counts(), zones.names().len()), ([("failed", 2)].into(), 0));
}

#[tokio::test]
async fn a_reload_that_failed_is_seen_and_tried_again_until_it_works() {
    let zones = Zones::with(|config, path| {
        let up = path.join("server-is-up").display().to_string();
        config.reload = words(&["test", "-e", &up]);
    });
    let provider = zones.provider();
    let wanted = desired(provider, ZONE, &records(&["name: a, type: A, values: [192.0.2.1]"]));
    let (batch, notes, result) = apply(provider, &cx(""), ZONE, &wanted, &[]).await;
    assert!(result.unwrap_err().message.contains("not loaded by the server"));
    assert_eq!(notes.outcome(&batch, "a.example.com./A"), "done", "the record is in the file");
    assert_eq!(notes.outcome(&batch, "example.com."), "done", "it is there, and tracked");

    let seen = observe(provider, &cx(""), ZONE).await.unwrap();
    let again = plan(provider, &cx(""), ZONE, &wanted, &[], &seen).await;
    assert_eq!(again.actions.len(), 1, "the zone itself differs: its reload is pending");
    let Op::Update { delta, .. } = &again.actions[0].op else { panic!("{again:?}") };
    assert!(delta.is_unfinished(), "no drift, and no mode of drift keeps it back: {delta:?}");
    let text = zones.text();
    let notes = Notes::default();
    let error = provider.apply(&cx(""), &again, &notes).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    // Were it on its way, a pass that waits for it would say nothing of the failure and end its backoff.
    assert!(notes.outcome(&again, "example.com.").contains("failed: unavailable"));
    fs::write(zones.path("server-is-up"), "").unwrap();
    converge(provider, &cx(""), ZONE, &wanted, &[]).await;
    assert_eq!(zones.text(), text, "the file itself was right all the time");
    assert_eq!(zones.names(), ["example.com.zone", "server-is-up"]);
}

#[tokio::test]
async fn what_others_put_where_a_new_file_is_made_is_not_written_through() {
    // The second record is refused, so that drafts are tried as well.
    let zones = Zones::with(|config, _| {
        config.check = words(&["sh", "-c", "! grep -q 192.0.2.66 $0", "{file}"]);
        config.reload = words(&["false"]);
    });
    let victims = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| victims.path().join(name));
    for victim in [&first, &second] {
        fs::write(victim, "precious").unwrap();
    }
    symlink(&first, zones.path(".example.com.zone.new")).unwrap();
    symlink(&second, zones.path("example.com.zone.reload")).unwrap();
    zones.write(BY_HAND);
    let list = ["name: a, type: A, values: [192.0.2.1]", "name: b, type: A, values: [192.0.2.66]"];
    let wanted = desired(zones.provider(), ZONE, &records(&list));
    let (batch, notes, _) = apply(zones.provider(), &cx(""), ZONE, &wanted, &[]).await;
    assert_eq!(notes.outcome(&batch, "a.example.com./A"), "done");
    assert!(notes.outcome(&batch, "b.example.com./A").contains("failed"));
    for victim in [&first, &second] {
        assert_eq!(fs::read_to_string(victim).unwrap(), "precious", "{}", victim.display());
    }
    assert!(!zones.path("example.com.zone.reload").is_symlink());
    assert_eq!(zones.names(), ["example.com.zone", "example.com.zone.reload"]);
}

#[tokio::test]
async fn a_file_keeps_its_group_and_mode() {
    let zones = Zones::new();
    zones.write(BY_HAND);
    let file = zones.path("example.com.zone");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    // Only root may give it to any group.
    let _ = chown(&file, None, Some(4_242));
    let before = fs::metadata(&file).unwrap();
    let wanted = desired(zones.provider(), ZONE, &records(&["name: a, type: A, values: [192.0.2.1]"]));
    converge(zones.provider(), &cx(""), ZONE, &wanted, &[]).await;
    let after = fs::metadata(&file).unwrap();
    let kept = |metadata: &fs::Metadata| (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777);
    assert_eq!((kept(&after), kept(&after).2), (kept(&before), 0o640));
    assert_ne!(after.ino(), before.ino(), "it is a new file");
}

#[tokio::test]
async fn a_link_within_the_directory_stays_and_one_out_of_it_is_not_followed() {
    let zones = Zones::new();
    fs::create_dir(zones.path("kept")).unwrap();
    fs::write(zones.path("kept/db.example"), BY_HAND).unwrap();
    symlink("kept/db.example", zones.path("example.com.zone")).unwrap();
    let wanted = desired(zones.provider(), ZONE, &records(&["name: a, type: A, values: [192.0.2.1]"]));
    converge(zones.provider(), &cx(""), ZONE, &wanted, &[]).await;
    assert!(zones.path("example.com.zone").is_symlink());
    assert!(fs::read_to_string(zones.path("kept/db.example")).unwrap().contains("192.0.2.1"));
    assert_eq!(fs::read_dir(zones.path("kept")).unwrap().count(), 1, "no draft is left");

    let seen = observe(zones.provider(), &cx(""), ZONE).await.unwrap();
    let more = desired(zones.provider(), ZONE, &records(&["name: b, type: A, values: [192.0.2.2]"]));
    let batch = plan(zones.provider(), &cx(""), ZONE, &more, &[], &seen).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let outside = elsewhere.path().join("db.example");
    fs::write(&outside, BY_HAND).unwrap();
    fs::remove_file(zones.path("example.com.zone")).unwrap();
    symlink(&outside, zones.path("example.com.zone")).unwrap();
    let refused = |error: Error| {
        let is_denied = error.kind == ErrorKind::PermissionDenied && error.hint.is_some();
        assert!(is_denied && error.message.contains("out of the directory"), "{error}");
    };
    refused(observe(zones.provider(), &cx(""), ZONE).await.unwrap_err());
    refused(zones.provider().discover(&cx(""), "*").await.unwrap_err());
    let others = [scope(ZONE), scope("example.net")];
    let versions = zones.provider().versions(&cx(""), &others).await.unwrap();
    assert_eq!((&versions[&others[0]], &versions[&others[1]]), (&Version::Unknown, &Version::Absent));
    // It was no link when the plan was made.
    let notes = Notes::default();
    refused(zones.provider().apply(&cx(""), &batch, &notes).await.unwrap_err());
    assert!(notes.started.lock().unwrap().is_empty());
    assert_eq!(fs::read_to_string(&outside).unwrap(), BY_HAND);
    assert!(zones.path("example.com.zone").is_symlink());
}

#[tokio::test]
async fn a_stale_plan_is_a_conflict_and_writes_nothing() {
    let zones = Zones::new();
    zones.write(BY_HAND);
    let wanted = desired(zones.provider(), ZONE, &records(&["name: a, type: A, values: [192.0.2.1]"]));
    let seen = observe(zones.provider(), &cx(""), ZONE).await.unwrap();
    let batch = plan(zones.provider(), &cx(""), ZONE, &wanted, &[], &seen).await;
    let edited = format!("{BY_HAND}y 60 A 192.0.2.9\n");
    zones.write(&edited);
    let notes = Notes::default();
    let error = zones.provider().apply(&cx(""), &batch, &notes).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(notes.started.lock().unwrap().is_empty());
    assert_eq!(zones.text(), edited);
}

#[tokio::test]
async fn a_directory_that_another_program_keeps_locked_is_an_error_that_names_it() {
    let zones = Zones::new();
    let wanted = desired(zones.provider(), ZONE, &records(&["name: a, type: A, values: [192.0.2.1]"]));
    let held = fs::File::open(zones.directory.path()).unwrap();
    held.lock().unwrap();
    let (_, notes, result) = apply(zones.provider(), &cx(""), ZONE, &wanted, &[]).await;
    let error = result.unwrap_err();
    let directory = zones.directory.path().display().to_string();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(
        error.message.contains(&directory) && error.hint.as_ref().unwrap().contains("fuser"),
        "{}",
        error.message
    );
    assert!(notes.started.lock().unwrap().is_empty());
    // Closed only, it would stay locked by a child that another test is just about to start.
    held.unlock().unwrap();
    converge(zones.provider(), &cx(""), ZONE, &wanted, &[]).await;
}

#[tokio::test]
async fn an_edit_while_check_runs_is_not_overwritten() {
    let zones = Zones::with(|config, path| {
        // The check itself plays the editor.
        let file = path.join("example.com.zone").display().to_string();
        config.check = words(&["sed", "-i", "s/192.0.2.53/192.0.2.54/", &file]);
    });
    zones.write(BY_HAND);
    let wanted = desired(zones.provider(), ZONE, &records(&["name: a, type: A, values: [192.0.2.1]"]));
    let (_, notes, result) = apply(zones.provider(), &cx(""), ZONE, &wanted, &[]).await;
    assert_eq!(result.unwrap_err().kind, ErrorKind::Conflict);
    assert_eq!(notes.counts(), [("failed", 1)].into());
    assert_eq!(zones.text(), BY_HAND.replace("192.0.2.53", "192.0.2.54"));
}

#[tokio::test]
async fn a_cname_never_gets_company_and_swaps_in_one_step() {
    let zones = Zones::new();
    zones.write(BY_HAND);
    let cname =
        desired(zones.provider(), ZONE, &records(&["name: ns1, type: CNAME, values: [a.example.org.]"]));
    let (batch, notes, result) =
        apply(zones.provider(), &cx(""), ZONE, &cname, &["ns1.example.com./A"]).await;
    result.unwrap();
    assert!(notes.outcome(&batch, "ns1.example.com./CNAME").contains("beside other data"), "AAAA is there");
    assert!(notes.outcome(&batch, "ns1.example.com./A").contains("beside other data"));
    assert_eq!(zones.text(), BY_HAND);
    let both = ["ns1.example.com./A", "ns1.example.com./AAAA"];
    converge(zones.provider(), &cx(""), ZONE, &cname, &both).await;
}

#[tokio::test]
async fn a_new_zone_has_the_name_servers_of_the_entry_and_goes_when_deleted() {
    let zones = Zones::with(|config, _| config.nameservers = words(&["ns1.example.net", "ns2.example.net."]));
    let zone = "0/25.2.0.192.in-addr.arpa";
    let wanted =
        desired(zones.provider(), zone, &records(&["name: 1, type: PTR, values: [www.example.com.]"]));
    converge(zones.provider(), &cx(""), zone, &wanted, &[]).await;
    assert_eq!(zones.names(), ["0=2F25.2.0.192.in-addr.arpa.zone"]);
    let found = zones.provider().discover(&cx(""), "*").await.unwrap();
    assert_eq!((found.len(), &*found[0].scope.name), (1, zone));
    let seen = observe(zones.provider(), &cx(""), zone).await.unwrap();
    assert!(seen.get(&format!("{zone}./NS").as_str().into()).is_some());
    let observed = seen.get(&wanted[0].id).unwrap().clone();
    let notes = Notes::default();
    let ops = vec![Op::Delete { observed: observed.into(), tracked: None }];
    zones.provider().apply(&cx(""), &batch(zone, &seen, ops), &notes).await.unwrap();
    assert_eq!((notes.counts(), zones.names().len()), ([("gone", 1)].into(), 0));
}

#[tokio::test]
async fn a_zone_with_an_international_name_is_found_by_its_ascii_form_and_as_people_read_it() {
    let (zones, zone) = (Zones::new(), "xn--bcher-kva.example");
    let wanted = desired(zones.provider(), zone, &records(&["name: www, type: A, values: [192.0.2.1]"]));
    converge(zones.provider(), &cx(""), zone, &wanted, &[]).await;
    for query in ["bücher.example", "BÜCHER.example.", zone, "bücher.*"] {
        let found = zones.provider().discover(&cx(""), query).await.unwrap();
        assert_eq!((found.len(), &*found[0].scope.name), (1, zone), "{query}");
    }
}

#[tokio::test]
async fn a_zone_that_is_made_again_on_the_same_day_counts_on() {
    let zones = Zones::new();
    let serial = || {
        let text = zones.text();
        let soa = text.lines().find(|line| line.contains(" SOA ")).unwrap();
        soa.split_whitespace().rev().nth(4).unwrap().parse::<u32>().unwrap()
    };
    let wanted = |number: u8| {
        let record = format!("name: www, type: A, values: [192.0.2.{number}]");
        desired(zones.provider(), ZONE, &records(&[&record]))
    };
    converge(zones.provider(), &cx(""), ZONE, &wanted(1), &[]).await;
    let first = serial();
    converge(zones.provider(), &cx(""), ZONE, &wanted(2), &[]).await;
    assert_eq!(serial(), first + 1);
    let seen = observe(zones.provider(), &cx(""), ZONE).await.unwrap();
    let observed = seen.get(&wanted(2)[0].id).unwrap().clone();
    let ops = vec![Op::Delete { observed: observed.into(), tracked: None }];
    zones.provider().apply(&cx(""), &batch(ZONE, &seen, ops), &Notes::default()).await.unwrap();
    assert!(zones.names().is_empty());
    converge(zones.provider(), &cx(""), ZONE, &wanted(2), &[]).await;
    assert_eq!(serial(), first + 2);
    // Also where somebody else removed it.
    fs::remove_file(zones.path("example.com.zone")).unwrap();
    converge(zones.provider(), &cx(""), ZONE, &wanted(2), &[]).await;
    assert_eq!(serial(), first + 3);
}

#[tokio::test]
async fn marks_can_be_turned_off_and_another_instance_is_seen() {
    let zones = Zones::with(|config, _| config.marks = false);
    let wanted = desired(zones.provider(), ZONE, &records(&["name: a, type: A, values: [192.0.2.1]"]));
    converge(zones.provider(), &cx(""), ZONE, &wanted, &[]).await;
    assert!(!zones.text().contains("reconciled="), "{}", zones.text());
    zones.write(&zones.text().replace("192.0.2.1\n", "192.0.2.1 ; reconciled=dns2\n"));
    let seen = observe(zones.provider(), &cx(""), ZONE).await.unwrap();
    assert_eq!(seen.get(&"a.example.com./A".into()).unwrap().owner, Owner::Other("dns2".into()));
    assert!(open("test", "two words", Config::new("/zones")).is_err());
}
