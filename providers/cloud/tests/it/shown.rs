//! What is shown of values: secrets are hidden wherever they stand, and what is not known yet is told part by part.

use crate::provider::{Desk, SECRET};
use reconciled_provider::{Focus, Hash, ManifestKey, Observation, Reference, Shown, Spec, Want};
use serde_json::{Value as Json, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_hidden_where_no_schema_calls_it_one() {
    let desk = Desk::new("");
    desk.put("thing-1", &json!({ "id": "thing-1", "name": "a", "content": SECRET, "size": 11, "level": 3 }));
    let declared =
        |content: Json| json!({ "config": { "name": "a", "content": content }, "import": "thing-1" });
    let secret = json!({ "$secret": "key", "$mark": "x" });
    let (seen, _) = desk.look(&declared(secret), &[]).await.unwrap();
    let resource = &seen.resources[0];
    let holds = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(SECRET);
    assert!(!holds(&resource.bytes) && !holds(&resource.outputs.0), "it is in what is told");
    // Also once the manifest no longer names it.
    let (seen, deltas) = desk.look(&declared(json!("open")), &[Desk::tracked(&seen)]).await.unwrap();
    assert!(!holds(&seen.resources[0].bytes));
    let delta = deltas[&"toy_thing.a".into()].as_ref().unwrap();
    let content = delta.fields.iter().find(|field| &*field.path == "content").unwrap();
    assert_eq!(content.before, Shown::Sensitive);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_what_a_schema_calls_secret_is_hidden_and_goes_out_as_a_secret() {
    let desk = Desk::new("");
    let declared = json!({
        "config": { "name": "a", "content": "y", "tags": { "on": "true" } }, "import": "thing-1",
    });
    let look = async |secret: &str| {
        let tags = json!({ "url": format!("db://u:{secret}@h"), "on": "true", "n": "3" });
        let thing = json!({ "id": "thing-1", "name": "a", "content": secret, "size": 1, "level": 3 });
        let Json::Object(mut thing) = thing else { panic!("a thing") };
        thing.extend([("secret".to_string(), secret.into()), ("tags".to_string(), tags)]);
        desk.put("thing-1", &Json::Object(thing));
        let (seen, deltas) = desk.look(&declared, &[]).await.unwrap();
        let resource = &seen.resources[0];
        let outputs: Json = serde_json::from_slice(&resource.outputs.0).unwrap();
        let bytes = String::from_utf8_lossy(&resource.bytes).into_owned();
        let delta = deltas[&"toy_thing.a".into()].as_ref().unwrap();
        let before = |path: &str| {
            let field = delta.fields.iter().find(|field| &*field.path == path);
            field.unwrap_or_else(|| panic!("{path}: {:?}", delta.fields)).before.clone()
        };
        (bytes, outputs, [before("content"), before("tags.url"), before("tags.n")])
    };
    let (bytes, outputs, before) = look("made-by-the-cloud").await;
    assert!(!bytes.contains("made-by-the-cloud"), "{bytes}");
    let url = json!({ "$secret": "db://u:made-by-the-cloud@h" });
    assert_eq!(outputs["tags"], json!({ "url": url, "on": "true", "n": "3" }));
    assert_eq!(outputs["content"], json!({ "$secret": "made-by-the-cloud" }));
    assert_eq!((&outputs["name"], &outputs["level"]), (&json!("a"), &json!(3)));
    assert_eq!(before, [Shown::Sensitive, Shown::Sensitive, Shown::Text("3".into())]);
    // Words that are in many a text hide nothing.
    for word in ["a", "3", "true"] {
        let (_, outputs, before) = look(word).await;
        let url = format!("db://u:{word}@h");
        assert_eq!(outputs["tags"], json!({ "url": url, "on": "true", "n": "3" }), "{word}");
        let shown = [word, &*url, "3"].map(|text| Shown::Text(text.into()));
        assert_eq!(before, shown, "{word}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_declared_in_clear_is_shown_whatever_of_it_is_called_secret() {
    let desk = Desk::new("");
    let thing = json!({
        "id": "thing-1", "name": "a", "content": "/europe-1/web", "size": 13, "level": 3, "secret": "europe-1",
        "tags": { "url": "db://u:europe-1@h" },
    });
    desk.put("thing-1", &thing);
    let config = json!({ "name": "a", "content": "/europe-1/app", "secret": "europe-1" });
    let declared = json!({ "config": config, "import": "thing-1" });
    let (seen, deltas) = desk.look(&declared, &[]).await.unwrap();
    let delta = deltas[&"toy_thing.a".into()].as_ref().unwrap();
    let before =
        |path: &str| delta.fields.iter().find(|field| &*field.path == path).map(|one| one.before.clone());
    // Nobody declared that.
    assert_eq!(before("tags"), Some(Shown::Sensitive), "{:?}", delta.fields);
    // It is put out for others to refer to all the same: it is in Git.
    let outputs: Json = serde_json::from_slice(&seen.resources[0].outputs.0).unwrap();
    assert_eq!(outputs["content"], "/europe-1/web");
    let (_, deltas) = Desk::new("").look(&json!({ "config": config }), &[]).await.unwrap();
    let delta = deltas[&"toy_thing.a".into()].as_ref().unwrap();
    let content = delta.fields.iter().find(|field| &*field.path == "content").unwrap();
    assert_eq!(content.after, Shown::Text("/europe-1/app".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_is_in_no_error_that_comes_with_it() {
    let desk = Desk::new("");
    let thing = json!({ "id": "thing-1", "name": "a", "content": "tell", "secret": "made-by-hand" });
    desk.put("thing-1", &thing);
    let error = desk.look(&json!({ "config": { "name": "a" }, "import": "thing-1" }), &[]).await.unwrap_err();
    assert_eq!(error.message, "read a toy_thing: the password (secret) is too short");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_known_yet_within_a_value_is_told_and_no_mark_of_ours_is() {
    let desk = Desk::new("");
    let open = || json!({ "$unknown": "${Thing/b:status.id}" });
    let config = json!({ "name": "a", "tags": { "k": open(), "z": "zz" }, "words": ["x", open()] });
    let declared = json!({ "config": config });
    let bytes = declared.to_string().into_bytes();
    let on = [Reference { target: ManifestKey::new("infra", "toy", "Thing", "", "b"), path: "id".into() }];
    let spec = Spec::Waiting { template: Hash::of(&bytes), on: on.into(), so_far: bytes.clone().into() };
    let desired = [Desk::desired(&declared).with(|resource| resource.spec = spec)];
    let scope = Desk::scope();
    let want = Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked: &[], claims: &[] };
    let seen = desk.provider.observe(&desk.cx, &want).await.expect("a look");
    let deltas = desk.provider.diff(&desk.cx, &want, &seen).await.expect("a plan");
    let delta = deltas[&"toy_thing.a".into()].as_ref().expect("a change");
    let after = |path: &str| {
        let field = delta.fields.iter().find(|field| &*field.path == path);
        field.map(|field| field.after.clone())
    };
    for (path, expect) in [
        ("tags.k", Shown::Unknown),
        ("tags.z", Shown::Text("zz".into())),
        ("words[0]", Shown::Unknown),
        ("words[1]", Shown::Text("x".into())),
    ] {
        assert_eq!(after(path), Some(expect), "{path}: {:?}", delta.fields);
    }
    let shown = desk.provider.show(&"toy_thing.a".into(), &bytes);
    let tags = shown.iter().find(|(path, _)| &**path == "tags").map(|(_, text)| text.as_str());
    assert_eq!(tags, Some(r#"{"k":"(known after apply)","z":"zz"}"#));
    assert!(!format!("{shown:?}").contains("$unknown"), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_holds_a_secret_is_its_mark_and_leads_to_it_all_the_same() {
    let desk = Desk::new("");
    let put = |id: &str, field: &str, text: &str| {
        desk.put(id, &json!({ "id": id, "name": "a", "size": 0, "level": 3, field: text }));
    };
    let (named, literal) = (format!("thing-{SECRET}"), "thing-hunter22");
    put(&named, "content", SECRET);
    put("thing-1", "content", SECRET);
    put(literal, "secret", "hunter22");
    let look = async |id: &str, field: &str, value: Json| {
        let declared = json!({ "config": { "name": "a", field: value }, "import": id });
        let (seen, _) = desk.look(&declared, &[]).await.unwrap();
        // By what is remembered, as in each pass after that.
        let declared = json!({ "config": { "name": "a", field: value } });
        let (again, _) = desk.look(&declared, &[Desk::tracked(&seen)]).await.unwrap();
        let shown =
            |seen: &Observation| (seen.resources[0].remote.clone(), seen.resources[0].identity.clone());
        assert_eq!(shown(&seen), shown(&again));
        shown(&again)
    };
    let secret = json!({ "$secret": "key", "$mark": "x" });
    let (other, _) = look("thing-1", "content", secret.clone()).await;
    assert_eq!(other.as_deref(), Some("thing-1"));
    for (id, (remote, identity)) in [
        (&*named, look(&named, "content", secret).await),
        (literal, look(literal, "secret", json!("hunter22")).await),
    ] {
        let remote = remote.expect("it has an id");
        assert!(remote.starts_with("(secret) ") && !remote.contains(&id[6..]), "{remote}");
        assert!(!identity.expect("an identity").contains(&id[6..]));
    }
}
