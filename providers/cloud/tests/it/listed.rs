//! What a provider can list, as declarations that leave it as it is.

use crate::provider::{Desk, told};
use reconciled_provider::Found;
use serde_json::json;

fn desk_with_things() -> Desk {
    let desk = Desk::new("");
    desk.put("thing-1", &json!({ "id": "thing-1", "name": "a", "content": "x", "size": 1, "level": 3 }));
    desk.put("thing-2", &json!({ "id": "thing-2", "name": "b/c", "size": 0, "level": 7 }));
    // Nobody can declare it: it fails whatever is asked of it.
    desk.put("thing-3", &json!({ "id": "thing-3", "name": "", "size": 0, "level": 3 }));
    desk
}

async fn discover(desk: &Desk, query: &str) -> Result<Vec<Found>, String> {
    let found = desk.provider.discover(&desk.cx, query).await;
    found.map_err(|error| format!("{}; {}", error.message, error.hint.as_deref().unwrap_or_default()))
}

async fn manifests(desk: &Desk, query: &str) -> (String, Vec<String>) {
    let found = discover(desk, query).await.expect("what is there");
    let mut text = String::new();
    for found in found.iter().filter(|found| !found.resources.is_empty()) {
        for document in desk.provider.export(found).expect("a manifest") {
            text += std::str::from_utf8(&document).expect("a text");
        }
    }
    (text, found.into_iter().flat_map(|found| found.left_out).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_thing_there_is_becomes_a_manifest_that_finds_it_by_its_identity() {
    for protocol in ["5", "6"] {
        let desk = told(desk_with_things(), "TOY_PROTOCOL", protocol);
        let (text, left_out) = manifests(&desk, "Thing").await;
        for part in [
            "  name: a\n",
            r#"reconciled/import: "{\"name\":\"a\",\"number\":\"thing-1\"}""#,
            "  content: x\n",
            "  name: b-c\n",
            r#"reconciled/import: "{\"name\":\"b/c\",\"number\":\"thing-2\"}""#,
            "  level: 7\n",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert_eq!(text.matches("kind: Thing").count(), 2, "{text}");
        assert_eq!(left_out.len(), 1, "{left_out:?}");
        let why =
            "toy_thing unnamed {\"name\":\"\",\"number\":\"thing-3\"}: check a toy_thing: a name has letters";
        assert!(left_out[0].starts_with(why), "{left_out:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_them_is_what_the_provider_is_asked_for() {
    let desk = desk_with_things();
    let (text, left_out) = manifests(&desk, "toy_thing?\nprefix: b").await;
    assert!(text.contains("name: b-c") && text.matches("kind: Thing").count() == 1, "{text}");
    assert_eq!(left_out, [""; 0]);
    assert_eq!(discover(&desk, "toy_thing?\nprefix: z").await, Ok(Vec::new()));
    let refuse = async |query: &str, expect: &str| {
        let error = discover(&desk, query).await.expect_err(query);
        assert!(error.starts_with(expect), "{error}");
    };
    refuse("toy_thing?\nprefix: ''", "list each toy_thing: a prefix has letters; ").await;
    refuse("toy_thing?\nprfix: b", "list each toy_thing: unknown attribute `prfix`; did you mean `prefix`?")
        .await;
    refuse("toy_thing?\nwords: b", "list each toy_thing: expected a list for `words`, found").await;
    refuse("toy_thing?\n[", "list each toy_thing: ").await;
    // Half of a list looks like all of it.
    refuse("toy_thing?\nprefix: half", "list each toy_thing: the second page is not there; ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_listed_says_what_can() {
    let desk = desk_with_things();
    let refuse = async |desk: &Desk, query: &str, expect: &str| {
        let error = discover(desk, query).await.expect_err(query);
        assert!(error.starts_with(expect), "{error}");
    };
    refuse(&desk, "Trivial", "list each toy_trivial: `shelf` is required and missing; ").await;
    let of_no_identity = "list each toy_trivial: provider `toy` does not say what identifies one; ";
    refuse(&desk, "Trivial?\nshelf: top", of_no_identity).await;
    refuse(&desk, "Thnig", "the provider has no resource type `Thnig`").await;
    refuse(
        &desk,
        "aws_*",
        "the provider can list nothing that is meant; it can list toy_thing, toy_trivial; one by its id: ",
    )
    .await;
    // Of many, what fails is told beside what does not.
    let (text, left_out) = manifests(&desk, "*").await;
    assert_eq!(text.matches("kind: Thing").count(), 2, "{text}");
    assert!(
        left_out.iter().any(|why| why.starts_with("toy_trivial: list each toy_trivial: `shelf`")),
        "{left_out:?}"
    );

    let older = told(desk_with_things(), "TOY_LISTLESS", "yes");
    let nothing =
        "the provider cannot list what there is of toy_thing; it can list nothing at all: one by its id: ";
    refuse(&older, "Thing", nothing).await;
    refuse(&older, "*", "the provider can list nothing that is meant; it can list nothing at all").await;
}
