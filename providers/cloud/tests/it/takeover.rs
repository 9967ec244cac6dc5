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

/// Takes over things that are there as a state file says, with what it calls sensitive.
async fn taken(things: &[(&str, Json, Json)]) -> (TakenOver, Arc<Waiting>) {
    let desk = Desk::new("");
    let mut resources = Vec::new();
    for (number, (name, attributes, sensitive)) in (1..).zip(things) {
        let id = format!("thing-{number}");
        let mut attributes = attributes.clone();
        attributes["id"] = id.clone().into();
        attributes["level"] = 3.into();
        attributes["size"] = attributes["content"].as_str().map_or(0, str::len).into();
        desk.put(&id, &attributes);
        resources.push(json!({
            "mode": "managed", "type": "toy_thing", "name": name,
            "provider": "provider[\"registry.terraform.io/example/toy\"]",
            "instances": [{ "schema_version": 1, "attributes": attributes, "sensitive_attributes": sensitive }],
        }));
    }
    let waiting = Arc::new(Waiting::default());
    let mut config = desk.config.clone();
    config.handover = Some(waiting.clone());
    let file = json!({ "version": 4, "resources": resources }).to_string();
    let entries = [(Arc::from("toy"), config)].into();
    (take_over(&desk.cx, &entries, file.as_bytes(), true).await.expect("a state file"), waiting)
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
