//! The examples of providers, `examples/providers`, by the life of a note from the first plan to the last: one provider in each
//! language.

use crate::{provider::Desk, writes::Notes};
use reconciled_cloud::{Config, find::Program, open};
use reconciled_provider::{
    Action, ActionId, Batch, Delta, Focus, Hash, Observed, Op, Origin, Outcome, PolicyId, Provider, Resource,
    Scope, SourceFile, Spec, Tracked, Version, Want, yaml,
};
use reconciled_testkit::tools::{installed, machines_own};
use serde_json::json;
use std::{fs, path::Path, sync::Arc};

/// A desk of the provider with notes in a folder.
struct Notebook {
    desk: Desk,
    provider: Arc<dyn Provider>,
}

impl Notebook {
    fn new(program: &Path, allow_tcp: bool) -> Notebook {
        let desk = Desk::new("");
        let text = format!("directory: {}\n", desk.world.path().display());
        let file = Arc::new(SourceFile::new("config.yaml", &*text));
        let node = yaml::parse(&file, yaml::Limits::default()).expect("YAML").remove(0);
        let config = Config {
            source: "example/note".into(),
            program: Program::At(program.into()),
            config: Some(node),
            file,
            allow_tcp,
            ..desk.config.clone()
        };
        Notebook { desk, provider: open("note", config).expect("a program") }
    }

    fn scope() -> Scope {
        Scope::new("note", "Note/n")
    }

    fn desired(title: &str, text: &str) -> Resource {
        let bytes = json!({ "config": { "title": title, "text": text } }).to_string().into_bytes();
        Resource::new(
            "note_note.n".into(),
            Notebook::scope().into(),
            Spec::resolved(bytes.clone(), Hash::of(&bytes)),
            Origin { manifest: 0, line: 1 },
            PolicyId(0),
        )
    }

    /// What is there, and what would change, in words.
    async fn plan(
        &self,
        desired: &Resource,
        tracked: &[Tracked],
    ) -> (Option<Observed>, Option<Delta>, String) {
        let (scope, desired) = (Notebook::scope(), [desired.clone()]);
        let want = Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked, claims: &[] };
        let mut seen = self.provider.observe(&self.desk.cx, &want).await.expect("a look");
        let mut deltas = self.provider.diff(&self.desk.cx, &want, &seen).await.expect("a plan");
        let delta = deltas.remove(&"note_note.n".into()).map(|delta| delta.expect("a plan"));
        let fields = delta.iter().flat_map(|delta| &delta.fields).map(|field| field.path.to_string());
        let mut words: Vec<String> = fields.collect();
        words.extend(delta.as_ref().is_some_and(|delta| delta.replace).then(|| "replace".into()));
        (seen.resources.pop(), delta, words.join(" "))
    }

    async fn carry_out(&self, op: Op) -> Outcome {
        let notes = Notes::default();
        let action = Action { id: ActionId(1), token: "t".into(), op };
        let batch = Batch { scope: Notebook::scope(), base: Version::Unknown, actions: vec![action] };
        self.provider.apply(&self.desk.cx, &batch, &notes).await.expect("the journal refuses nothing");
        notes.outcomes.into_inner().expect("nobody panics with it").remove(0)
    }

    fn note(&self, title: &str) -> Option<String> {
        fs::read_to_string(self.desk.world.path().join(title)).ok()
    }
}

fn done(outcome: Outcome) -> Tracked {
    let Outcome::Done(tracked) = outcome else { panic!("{outcome:?}") };
    tracked
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_a_provider_in_rust_is_hosted() {
    let Some(program) = installed("RECONCILED_TEST_RUST_PROVIDER") else { return };
    // Its library knows no unix sockets.
    a_note_lives(&Notebook::new(program.as_ref(), true)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_a_provider_in_python_is_hosted() {
    let Some(program) = installed("RECONCILED_TEST_PYTHON_PROVIDER") else { return };
    a_note_lives(&Notebook::new(program.as_ref(), false)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_a_provider_in_go_is_hosted_and_lists_its_notes() {
    let Some(program) = machines_own("RECONCILED_TEST_GO_PROVIDER") else { return };
    let book = Notebook::new(program.as_ref(), false);
    a_note_lives(&book).await;
    for (title, text) in [("one", "hello"), ("two", ""), ("other", "x")] {
        fs::write(book.desk.world.path().join(title), text).expect("a file");
    }
    let manifests = async |query: &str| {
        let found = book.provider.discover(&book.desk.cx, query).await.expect("what is there");
        let all = found.iter().map(|found| book.provider.export(found).expect("a manifest").remove(0));
        let texts: Vec<String> = all.map(|text| String::from_utf8_lossy(&text).into_owned()).collect();
        (texts.concat(), found.iter().map(|found| found.left_out.len()).sum::<usize>())
    };
    let (text, left_out) = manifests("Note").await;
    for part in [
        r#"reconciled/import: "{\"id\":\"one\"}""#,
        "  text: hello\n  title: one\n",
        "name: two",
        "name: other",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert_eq!(left_out, 0);
    let (text, _) = manifests("note_note?\nprefix: o").await;
    assert_eq!(text.matches("kind: Note").count(), 2, "{text}");
    let (text, _) = manifests("note_*").await;
    assert_eq!(text.matches("kind: Note").count(), 3, "{text}");
    let none = book.provider.discover(&book.desk.cx, "Note?\nprefix: z").await.expect("nothing");
    assert!(none.is_empty());
}

async fn a_note_lives(book: &Notebook) {
    let one = Notebook::desired("one", "hello");
    let (_, delta, words) = book.plan(&one, &[]).await;
    assert_eq!(words, "id text title");
    let tracked = done(
        book.carry_out(Op::Create { desired: one.clone(), delta: delta.expect("a difference").into() }).await,
    );
    assert_eq!(book.note("one").as_deref(), Some("hello"));
    let (_, delta, _) = book.plan(&one, std::slice::from_ref(&tracked)).await;
    assert!(delta.is_none(), "{delta:?}");

    fs::write(book.desk.world.path().join("one"), "by hand").expect("a file");
    let (observed, delta, words) = book.plan(&one, std::slice::from_ref(&tracked)).await;
    assert_eq!(words, "text");
    let (observed, delta) = (observed.expect("it is there"), delta.expect("a difference"));
    let heal = Op::Update {
        desired: one,
        delta: delta.into(),
        observed: observed.into(),
        tracked: Some(tracked.into()),
    };
    let tracked = done(book.carry_out(heal).await);
    assert_eq!(book.note("one").as_deref(), Some("hello"));

    let two = Notebook::desired("two", "hello");
    let (observed, delta, words) = book.plan(&two, std::slice::from_ref(&tracked)).await;
    assert_eq!(words, "id title replace");
    let (observed, delta) = (observed.expect("it is there"), delta.expect("a difference"));
    let replace = Op::Replace {
        desired: two.clone(),
        delta: delta.into(),
        observed: observed.into(),
        tracked: Some(tracked.into()),
    };
    let tracked = done(book.carry_out(replace).await);
    assert_eq!((book.note("one"), book.note("two").as_deref()), (None, Some("hello")));

    let (observed, ..) = book.plan(&two, std::slice::from_ref(&tracked)).await;
    let delete =
        Op::Delete { observed: observed.expect("it is there").into(), tracked: Some(tracked.clone().into()) };
    assert!(matches!(book.carry_out(delete).await, Outcome::Gone));
    assert_eq!(book.note("two"), None);
    // What is gone is told so.
    assert!(book.plan(&two, &[tracked]).await.0.is_none());
}
