use super::*;
use std::collections::BTreeSet;

const FREE: Plan = Plan { batch: 200, longest_comment: 100, has_tags: false };
const PAID: Plan = Plan { batch: 3_500, longest_comment: 500, has_tags: true };

fn seen(id: &str, value: &str) -> Seen {
    let marked = mark::split("reconciled=dns1", &[]);
    Seen { id: id.into(), value: value.into(), ttl: 300, proxied: false, marked, is_system: false }
}

fn noted(id: &str, value: &str, comment: &str) -> Seen {
    Seen { marked: mark::split(comment, &[]), ..seen(id, value) }
}

fn changes(plan: Plan, now: &[Seen], desired: &[u8]) -> Result<Changes, Error> {
    changes_after(MarkAfter::Ours, plan, now, desired)
}

fn changes_after(after: MarkAfter, plan: Plan, now: &[Seen], desired: &[u8]) -> Result<Changes, Error> {
    changes_of(Writer { instance: "dns1", marks: true, after, plan }, now, desired)
}

fn changes_of(writer: Writer<'_>, now: &[Seen], desired: &[u8]) -> Result<Changes, Error> {
    let desired = RrSet::decode(desired).unwrap();
    writer.changes("www.example.com.", "A", now, Some(&desired))
}

fn text(view: &View) -> String {
    String::from_utf8(view.bytes.clone()).unwrap()
}

#[test]
fn values_that_stay_keep_their_records_and_others_change_in_place() {
    let now = [seen("1", "192.0.2.1"), seen("2", "192.0.2.2"), seen("3", "192.0.2.3")];
    let none = changes(FREE, &now, b"300\n192.0.2.1\n192.0.2.2\n192.0.2.3").unwrap();
    assert_eq!(none, Changes::default());
    let one = changes(FREE, &now, b"300\n192.0.2.1\n192.0.2.7").unwrap();
    assert_eq!(one.deletes, ["3"]);
    let patch = json!({"id": "2", "content": "192.0.2.7", "name": "www.example.com", "type": "A"});
    assert_eq!(one.patches, [patch]);
    let more = changes(FREE, &now[..1], b"60\n192.0.2.1\n192.0.2.7").unwrap();
    assert_eq!(more.patches, [json!({"id": "1", "ttl": 60})]);
    let post = json!({"name": "www.example.com", "type": "A", "ttl": 60, "proxied": false,
        "comment": "reconciled=dns1", "content": "192.0.2.7"});
    assert_eq!(more.posts, [post]);
}

#[test]
fn a_note_that_nobody_declares_is_kept_and_no_difference() {
    let now = [noted("1", "192.0.2.1", "call Bob (reconciled=dns1)")];
    let undeclared = Extra::default();
    assert_eq!(text(&view(&now, Some(&undeclared))), "300\n192.0.2.1");
    assert_eq!(text(&view(&now, None)), "300 {\"cloudflare\":{\"comment\":\"call Bob\"}}\n192.0.2.1");
    assert_eq!(changes(FREE, &now, b"300\n192.0.2.1").unwrap().count(), 0);
    let changed = changes(FREE, &now, b"300\n192.0.2.2").unwrap();
    assert!(changed.patches[0].get("comment").is_none(), "{changed:?}");
}

#[test]
fn a_declared_note_replaces_what_was_there_and_carries_the_mark() {
    let now = [noted("1", "192.0.2.1", "call Bob (reconciled=dns1)")];
    let desired = b"300 {\"cloudflare\":{\"comment\":\"web\"}}\n192.0.2.1";
    let changed = changes(FREE, &now, desired).unwrap();
    assert_eq!(changed.patches, [json!({"id": "1", "comment": "web (reconciled=dns1)"})]);
    let after = [noted("1", "192.0.2.1", "web (reconciled=dns1)")];
    let wanted = Extra::parse("{\"cloudflare\":{\"comment\":\"web\"}}");
    assert_eq!(view(&after, Some(&wanted)).bytes, desired);
    assert_eq!(changes(FREE, &after, desired).unwrap().count(), 0);
}

#[test]
fn odd_records_of_a_set_are_a_difference_that_one_write_takes_away() {
    let mut now = [seen("1", "192.0.2.1"), seen("2", "192.0.2.2")];
    now[1].ttl = 600;
    now[0].proxied = true;
    now[0].ttl = AUTO;
    assert_eq!(text(&view(&now, Some(&Extra::default()))), "1\n(proxied) 192.0.2.1\n(ttl 600) 192.0.2.2");
    let mended = changes(FREE, &now, b"300\n192.0.2.1\n192.0.2.2").unwrap();
    assert_eq!(mended.patches.len(), 2, "{mended:?}");
    assert_eq!((mended.deletes.len(), mended.posts.len()), (0, 0));
}

#[test]
fn what_others_keep_odd_in_a_shared_set_stays_as_it_is() {
    let mut now = [noted("1", "192.0.2.1", ""), seen("2", "192.0.2.2")];
    now[0].ttl = 600;
    let shown = view(&now, Some(&Extra::default()));
    let desired = text(&shown).replace("192.0.2.2", "192.0.2.9");
    let changed = changes(FREE, &now, desired.as_bytes()).unwrap();
    assert_eq!((changed.patches.len(), changed.count()), (1, 1), "{changed:?}");
    assert_eq!(changed.patches[0]["id"], "2");
}

#[test]
fn a_set_belongs_to_whom_its_marks_say() {
    let check = |comments: &[&str], expected: Owner| {
        let records: Vec<Seen> = comments.iter().map(|text| noted("1", "x", text)).collect();
        assert_eq!(owner(&records, "dns1"), expected, "{comments:?}");
    };
    check(&["", "call Bob"], Owner::Unmarked);
    check(&["", "reconciled=dns1"], Owner::Ours);
    check(&["reconciled=dns1", "x (reconciled=dns2)"], Owner::Other("dns2".into()));
    assert_eq!(owner(&[Seen { is_system: true, ..seen("1", "x") }], "dns1"), Owner::System);
}

#[test]
fn a_write_without_a_difference_is_there_for_the_mark() {
    let theirs = [noted("1", "192.0.2.1", "note (reconciled=dns2)")];
    let taken = changes(FREE, &theirs, b"300\n192.0.2.1").unwrap();
    assert_eq!(taken.patches, [json!({"id": "1", "comment": "note (reconciled=dns1)"})]);
}

#[test]
fn what_is_shared_stays_under_the_mark_of_the_other() {
    let theirs = noted("1", "192.0.2.1", "web (reconciled=dns2)");
    let both = b"60 {\"cloudflare\":{\"comment\":\"mine\"}}\n192.0.2.1\n192.0.2.2";
    let joined = changes_after(MarkAfter::AsSeen, FREE, std::slice::from_ref(&theirs), both).unwrap();
    assert_eq!(joined.patches, [json!({"id": "1", "ttl": 60})], "neither mark nor comment");
    let post = json!({"name": "www.example.com", "type": "A", "ttl": 60, "proxied": false,
        "comment": "mine", "content": "192.0.2.2"});
    assert_eq!(joined.posts, [post]);

    let ours = noted("2", "192.0.2.2", "");
    let left = |after, ours: &Seen| {
        changes_after(after, FREE, &[theirs.clone(), ours.clone()], b"300\n192.0.2.1").unwrap()
    };
    let gone = Changes { deletes: vec!["2".into()], ..Changes::default() };
    assert_eq!(left(MarkAfter::AsSeen, &ours), gone);
    assert_eq!(left(MarkAfter::NotOurs, &ours), gone);
}

#[test]
fn our_mark_goes_from_what_is_left_to_others() {
    let now = [noted("1", "192.0.2.1", "web (reconciled=dns1)"), seen("2", "192.0.2.2")];
    let left = changes_after(MarkAfter::NotOurs, FREE, &now, b"300\n192.0.2.1").unwrap();
    assert_eq!((left.patches, left.deletes), (vec![json!({"id": "1", "comment": "web"})], vec!["2".into()]));
}

#[test]
fn where_marks_are_turned_off_that_of_whom_it_was_taken_over_from_goes_all_the_same() {
    let patches = |after, comment: &str, value: &str| {
        let writer = Writer { instance: "dns1", marks: false, after, plan: FREE };
        let now = [noted("1", "192.0.2.1", comment)];
        let changes = changes_of(writer, &now, format!("300\n{value}").as_bytes()).unwrap();
        changes.patches.into_iter().map(|patch| patch["comment"].clone()).collect::<Vec<_>>()
    };
    let (same, other) = ("192.0.2.1", "192.0.2.2");
    for (comment, left) in [("note (reconciled=dns2)", "note"), ("reconciled=dns2", "")] {
        for value in [same, other] {
            assert_eq!(patches(MarkAfter::Ours, comment, value), [json!(left)], "{comment} {value}");
        }
        assert!(patches(MarkAfter::AsSeen, comment, same).is_empty(), "{comment}");
        assert!(patches(MarkAfter::NotOurs, comment, same).is_empty(), "{comment}");
    }
    // One of ours stays with what is ours, and nothing is written for the lack of one.
    for comment in ["note (reconciled=dns1)", "note"] {
        assert!(patches(MarkAfter::Ours, comment, same).is_empty(), "{comment}");
        assert_eq!(patches(MarkAfter::Ours, comment, other), [json!(null)], "{comment}");
    }
    assert_eq!(patches(MarkAfter::NotOurs, "note (reconciled=dns1)", same), [json!("note")]);
}

#[test]
fn what_the_plan_of_a_zone_does_not_know_is_refused_by_name() {
    let long =
        format!("300 {}\n192.0.2.1", Extra { comment: Some("x".repeat(101)), ..Extra::default() }.text());
    let error = changes(FREE, &[], long.as_bytes()).unwrap_err();
    assert!(error.message.contains("www.example.com. A has 101 characters"), "{error}");
    assert_eq!(changes(PAID, &[], long.as_bytes()).unwrap().posts.len(), 1);
    let tagged = Extra { tags: Some(vec!["team:web".into()]), ..Extra::default() };
    let tagged = format!("300 {}\n192.0.2.1", tagged.text());
    assert!(changes(FREE, &[], tagged.as_bytes()).unwrap_err().message.contains("has tags"));
    let post = &changes(PAID, &[], tagged.as_bytes()).unwrap().posts[0];
    assert_eq!(post["tags"], json!(["team:web"]));
}

#[test]
fn every_id_is_touched_at_most_once() {
    let now: Vec<Seen> = (0..9).map(|i| seen(&i.to_string(), &format!("192.0.2.{i}"))).collect();
    let changed = changes(FREE, &now, b"60\n192.0.2.1\n192.0.2.3\n198.51.100.1\n198.51.100.2").unwrap();
    let ids = changed.patches.iter().filter_map(|patch| patch["id"].as_str()).map(str::to_owned);
    let all: Vec<String> = ids.chain(changed.deletes.iter().cloned()).collect();
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (9, 9), "{changed:?}");
}
