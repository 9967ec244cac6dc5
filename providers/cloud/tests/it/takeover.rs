//! What is taken over from a state file, and which of its values never get into a manifest.

use crate::provider::Desk;
use reconciled_cloud::{Handover, TakenOver, take_over};
use reconciled_provider::Error;
use serde_json::{Value as Json, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// States that wait, in memory.
#[derive(Debug, Default)]
struct Waiting(Mutex<BTreeMap<String, Vec<u8>>>);

impl Handover for Waiting {
    fn put(&self, address: &str, state: &[u8]) -> Result<(), Error> {
        self.0.lock().expect("nobody panics with it").insert(address.into(), state.into());
        Ok(())
    }
    fn get(&self, address: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.0.lock().expect("nobody panics with it").get(address).cloned())
    }
}

const CANARY: &str = "canary-of-a-variable";

/// Takes over things that are there as a state file says, but for what it has under `then`, with what it calls sensitive.
async fn taken(things: &[(&str, Json, Json)]) -> (TakenOver, Arc<Waiting>) {
    let ids: Vec<String> = (1..=things.len()).map(|number| format!("thing-{number}")).collect();
    let things = things
        .iter()
        .zip(&ids)
        .map(|((name, attributes, sensitive), id)| (*name, &**id, attributes.clone(), sensitive.clone()));
    taken_by_id(things.collect()).await
}

/// As [`taken`], with the id of each.
async fn taken_by_id(things: Vec<(&str, &str, Json, Json)>) -> (TakenOver, Arc<Waiting>) {
    let desk = Desk::new("");
    let mut resources = Vec::new();
    for (name, id, mut attributes, sensitive) in things {
        let then = attributes.as_object_mut().and_then(|all| all.remove("then"));
        attributes["id"] = id.into();
        attributes["level"] = 3.into();
        attributes["size"] = attributes["content"].as_str().map_or(0, str::len).into();
        desk.put(id, &attributes);
        for (name, value) in then.iter().filter_map(Json::as_object).flatten() {
            attributes[name] = value.clone();
        }
        resources.push(json!({
            "mode": "managed", "type": "toy_thing", "name": name,
            "provider": "provider[\"registry.terraform.io/example/toy\"]",
            "instances": [{
                "schema_version": 1, "attributes": attributes, "sensitive_attributes": sensitive,
                "dependencies": if name == "user" { json!(["toy_thing.second"]) } else { json!([]) },
            }],
        }));
    }
    let waiting = Arc::new(Waiting::default());
    let mut config = desk.config.clone();
    config.handover = Some(waiting.clone());
    let file = json!({ "version": 4, "resources": resources }).to_string();
    let entries = [(Arc::from("toy"), config)].into();
    (take_over(&desk.cx, &entries, file.as_bytes(), true).await.expect("a state file"), waiting)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thing_with_two_addresses_has_one_manifest() {
    let thing = || json!({ "name": "a", "content": "x" });
    let marked = json!([path(&["content"])]);
    // The third waits with its state, since that alone knows that the content is a secret.
    let (taken, _) = taken_by_id(vec![
        ("first", "thing-1", thing(), json!([])),
        ("second", "thing-1", thing(), json!([])),
        ("third", "thing-1", thing(), marked),
        ("equal", "thing-2", thing(), json!([])),
        ("user", "thing-3", json!({ "name": "b" }), json!([])),
    ])
    .await;
    let left: Vec<(&str, &str)> =
        taken.left.iter().map(|left| (&*left.address, &*left.error.message)).collect();
    let why = "it is the same resource as toy_thing.first, which has the manifest";
    assert_eq!(left, [("toy_thing.second", why), ("toy_thing.third", why)]);
    assert!(taken.left.iter().all(|left| left.is_managed));
    let text = &taken.files["Thing.yaml"];
    assert_eq!((taken.count, text.matches("reconciled/import: thing-1\n").count()), (3, 1), "{text}");
    // What depends on the one depends on the other.
    assert!(text.contains("reconciled/depends-on: Thing.toy/first\n"), "{text}");
}

fn path(names: &[&str]) -> Json {
    names.iter().map(|name| json!({ "type": "get_attr", "value": name })).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_state_file_calls_sensitive_is_in_no_manifest() {
    let (taken, waiting) = taken(&[
        ("optional", json!({ "name": "a", "content": CANARY }), json!([path(&["content"])])),
        ("required", json!({ "name": CANARY }), json!([path(&["name"])])),
        (
            "key",
            json!({ "name": "b", "tags": { "open": "x", "token": CANARY } }),
            json!([path(&["tags", "token"])]),
        ),
    ])
    .await;
    let text = &taken.files["Thing.yaml"];
    assert!(!text.contains(CANARY), "{text}");
    assert_eq!(taken.count, 3, "{:?}", taken.left.iter().map(|left| &left.error).collect::<Vec<_>>());
    for part in ["reconciled/ignore: content", "reconciled/ignore: tags", "secret: toy-thing-required-name"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(taken.secrets["toy-thing-required-name"].as_ref(), CANARY);
    // Nothing but their state knows that these are secret.
    let waiting = waiting.0.lock().unwrap();
    let remembered = |address: &str| {
        let state: Json = serde_json::from_slice(&waiting[address]).unwrap();
        state["secrets"].clone()
    };
    assert_eq!(waiting.len(), 2);
    assert_eq!(remembered("tfstate:toy_thing.optional"), json!([CANARY]));
    assert_eq!(remembered("tfstate:toy_thing.key"), json!([CANARY]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_repeats_a_secret_is_left() {
    let content = format!("password={CANARY}");
    let (taken, _) = taken(&[
        ("repeats", json!({ "name": "a", "secret": CANARY, "content": content }), json!([])),
        ("apart", json!({ "name": "b", "secret": CANARY, "content": "open" }), json!([])),
    ])
    .await;
    let text = &taken.files["Thing.yaml"];
    assert!(!text.contains(CANARY) && text.contains("content: open"), "{text}");
    assert_eq!((taken.count, taken.left.len()), (1, 1));
    let error = &taken.left[0].error;
    assert_eq!(error.message, "`content` has to be declared, and holds what is secret");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_with_a_secret_in_it_is_in_no_manifest() {
    let (id, thing) = (format!("thing-{CANARY}"), json!({ "name": "a", "secret": CANARY }));
    let (taken, waiting) = taken_by_id(vec![("telltale", &*id, thing, json!([]))]).await;
    let text = &taken.files["Thing.yaml"];
    assert!(!text.contains(CANARY) && text.contains("tfstate:toy_thing.telltale"), "{text}");
    assert!(waiting.0.lock().unwrap().contains_key("tfstate:toy_thing.telltale"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_secret_is_looked_for_nowhere_else() {
    let thing = |secret: &str| json!({ "name": "a3", "secret": secret, "tags": { "on": "true", "n": "3" } });
    let (taken, _) = taken(&[("number", thing("3"), json!([])), ("truth", thing("true"), json!([]))]).await;
    let left: Vec<&str> = taken.left.iter().map(|left| &*left.error.message).collect();
    assert_eq!((taken.count, left), (2, Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_secret_has_a_name_of_its_own() {
    let marked = || json!([path(&["name"])]);
    let (taken, _) = taken(&[
        ("a_b", json!({ "name": "first-secret" }), marked()),
        ("a-b", json!({ "name": "second-secret" }), marked()),
    ])
    .await;
    let secrets: Vec<(&str, &str)> = taken.secrets.iter().map(|(name, clear)| (&**name, &**clear)).collect();
    let expect = [("toy-thing-a-b-name", "first-secret"), ("toy-thing-a-b-name-2", "second-secret")];
    assert_eq!(secrets, expect);
    let text = &taken.files["Thing.yaml"];
    assert!(text.contains("secret: toy-thing-a-b-name\n") && text.contains("secret: toy-thing-a-b-name-2\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_the_provider_asks_for_is_named_although_it_is_optional() {
    let (taken, _) = taken(&[("one", json!({ "name": "either-a", "secret": CANARY }), json!([]))]).await;
    let left: Vec<&Error> = taken.left.iter().map(|left| &left.error).collect();
    assert_eq!(taken.count, 1, "{left:?}");
    let text = &taken.files["Thing.yaml"];
    assert!(!text.contains(CANARY) && !text.contains("reconciled/ignore"), "{text}");
    assert!(
        text.contains("secret: {secret: toy-thing-one-secret}")
            || text.contains("secret: toy-thing-one-secret\n"),
        "{text}"
    );
    assert_eq!(taken.secrets["toy-thing-one-secret"].as_ref(), CANARY);

    // One by its id has no file for it: a person says where it is.
    let desk = Desk::new("");
    let thing = json!({ "id": "thing-1", "name": "either-a", "secret": CANARY, "size": 0, "level": 3 });
    desk.put("thing-1", &thing);
    let found = desk.provider.discover(&desk.cx, "Thing thing-1").await.expect("it is there");
    let text = String::from_utf8(desk.provider.export(&found[0]).expect("a manifest").remove(0).to_vec());
    let text = text.expect("text");
    assert!(text.contains("secret: NAME") && !text.contains(CANARY), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_declare_with_it_is_left_to_them() {
    let part = |port: u16| json!({ "port": port, "word": "open" });
    let rule =
        |of: &str, port: &str| json!({ "name": port, "tags": { "of": of, "port": port, "word": "open" } });
    let (taken, _) = taken(&[
        ("apart", json!({ "name": "a", "parts": [part(80), part(443)] }), json!([])),
        ("within", json!({ "name": "b", "parts": [part(80)] }), json!([])),
        ("web", rule("thing-1", "80"), json!([])),
        ("tls", rule("thing-1", "443"), json!([])),
        ("other", rule("thing-2", "22"), json!([])),
    ])
    .await;
    assert_eq!(taken.count, 5);
    let documents: Vec<&str> = taken.files["Thing.yaml"].split("---\n").collect();
    let of = |name: &str| documents.iter().find(|text| text.contains(&format!("name: {name}\n"))).unwrap();
    assert!(!of("apart").contains("parts"), "{}", of("apart"));
    assert!(of("within").contains("parts"), "{}", of("within"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_made_after_the_file_was_written_is_left_to_them() {
    let part = |port: u16| json!({ "port": port, "word": "open" });
    let of = |of: &str, a: &str, b: &str| json!({ "name": "n", "tags": { "of": of, "a": a, "b": b } });
    let rule = |thing: &str| of(thing, "80", "open");
    let empty = json!({ "parts": [], "label": [] });
    let label = json!([{ "key": "k", "value": "v" }]);
    let (taken, _) = taken(&[
        ("group", json!({ "name": "kept-a", "parts": [part(80)], "label": label, "then": empty }), json!([])),
        ("rule", rule("thing-1"), json!([])),
        ("policy", of("thing-1", "k", "v"), json!([])),
        // One of these was made by hand.
        ("mixed", json!({ "name": "m", "parts": [part(80), part(22)], "then": empty }), json!([])),
        ("other", rule("thing-4"), json!([])),
        // What its provider would take away has to be declared.
        ("fixed", json!({ "name": "f", "label": label, "then": empty }), json!([])),
        ("third", of("thing-6", "k", "v"), json!([])),
    ])
    .await;
    assert_eq!(taken.count, 7, "{:?}", taken.left.iter().map(|left| &left.error).collect::<Vec<_>>());
    let documents: Vec<&str> = taken.files["Thing.yaml"].split("---\n").collect();
    let of = |name: &str| documents.iter().find(|text| text.contains(&format!("name: {name}\n"))).unwrap();
    assert!(!of("group").contains("parts") && !of("group").contains("label"), "{}", of("group"));
    assert!(!of("mixed").contains("parts"), "{}", of("mixed"));
    assert!(of("fixed").contains("label"), "{}", of("fixed"));
    let told: Vec<(&str, &str, &str)> =
        taken.elsewhere.iter().map(|(address, names, why)| (&**address, &**names, *why)).collect();
    let empty = "which was empty in the state file, while other resources name this one";
    let expect = [
        ("toy_thing.group", "`label`, `parts`", "which resources of their own declare"),
        ("toy_thing.mixed", "`parts`", empty),
    ];
    assert_eq!(told, expect);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_its_provider_has_given_up_is_left_to_others_that_may_declare_it() {
    let label = json!([{ "key": "k", "value": "v" }]);
    let of = |of: &str| json!({ "name": "n", "tags": { "of": of, "status": "enabled" } });
    let (taken, _) = taken(&[
        ("named", json!({ "name": "kept-a", "label": label }), json!([])),
        // What nobody else may declare is declared here.
        ("alone", json!({ "name": "kept-b", "label": label }), json!([])),
        // And so is what its provider would take away.
        ("fixed", json!({ "name": "f", "label": label }), json!([])),
        ("first", of("thing-1"), json!([])),
        ("third", of("thing-3"), json!([])),
    ])
    .await;
    assert_eq!(taken.count, 5, "{:?}", taken.left.iter().map(|left| &left.error).collect::<Vec<_>>());
    let documents: Vec<&str> = taken.files["Thing.yaml"].split("---\n").collect();
    let of = |name: &str| documents.iter().find(|text| text.contains(&format!("name: {name}\n"))).unwrap();
    assert!(!of("named").contains("label"), "{}", of("named"));
    assert!(
        of("alone").contains("label") && of("fixed").contains("label"),
        "{} {}",
        of("alone"),
        of("fixed")
    );
    let why = "which is deprecated, while other resources name this one";
    assert_eq!(taken.elsewhere, [("toy_thing.named".to_owned(), "`label`".to_owned(), why)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_taken_over_in_the_order_of_their_file() {
    let names: Vec<String> = (0..25).map(|number| format!("n{number:02}")).collect();
    let all: Vec<(&str, Json, Json)> =
        names.iter().map(|name| (&**name, json!({ "name": name }), json!([]))).collect();
    let (taken, _) = taken(&all).await;
    let text = &taken.files["Thing.yaml"];
    let places: Vec<usize> =
        names.iter().map(|name| text.find(&format!("  name: {name}\n")).expect("it is there")).collect();
    assert!(places.is_sorted() && taken.count == 25, "{places:?}");
}
