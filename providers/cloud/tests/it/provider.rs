//! A whole provider against the small one of this package: what it sees, what it plans, and what it never shows.

use reconciled_cloud::{
    Config, Given, INFO,
    find::{Program, Written},
    open,
};
use reconciled_provider::{
    Cx, Deltas, Error, Focus, Hash, Observation, Origin, PolicyId, Provider, Resource, Scope, SecretRef,
    SourceFile, Spec, Tracked, Want, yaml,
};
use reconciled_testkit::{
    PATIENCE,
    context::{HandClock, TableSecrets, cx_with},
};
use serde_json::{Value as Json, json};
use std::{fs, sync::Arc, time::Duration};

pub(crate) const SECRET: &str = "canary-7f31";

pub(crate) struct Desk {
    pub(crate) world: tempfile::TempDir,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) cx: Cx,
    pub(crate) config: Config,
}

impl Desk {
    pub(crate) fn new(more: &str) -> Desk {
        let world = tempfile::tempdir().expect("a folder");
        let text = format!("directory: {}\n{more}", world.path().display());
        let file = Arc::new(SourceFile::new("config.yaml", &*text));
        let node = yaml::parse(&file, yaml::Limits::default()).expect("YAML").remove(0);
        let config = Config {
            source: "example/toy".into(),
            program: Program::At(env!("CARGO_BIN_EXE_terraform-provider-toy").into()),
            span: node.span,
            config: Some(node),
            environment: Vec::new(),
            allow_tcp: false,
            file,
            settle: INFO.consistency_window,
            timeout: Config::TIMEOUT,
            idle: None,
            max_calls: Config::MAX_CALLS,
            cache: None,
            keeper: Vec::new(),
            sandbox: None,
            handover: None,
            mark: None,
        };
        let mut secrets = TableSecrets::default();
        secrets.0.insert(SecretRef::Named("key".into()), SECRET.into());
        let provider = open("toy", config.clone()).expect("a program");
        Desk { world, provider, cx: cx_with(secrets), config }
    }

    pub(crate) fn put(&self, id: &str, fields: &Json) {
        fs::write(self.world.path().join(format!("{id}.json")), fields.to_string()).expect("a file");
    }

    pub(crate) fn scope() -> Scope {
        Scope::new("toy", "Thing/a")
    }

    pub(crate) fn desired(declared: &Json) -> Resource {
        let bytes = declared.to_string().into_bytes();
        Resource::new(
            "toy_thing.a".into(),
            Desk::scope().into(),
            Spec::resolved(bytes.clone(), Hash::of(&bytes)),
            Origin { manifest: 0, line: 1 },
            PolicyId(0),
        )
    }

    pub(crate) async fn look(
        &self,
        desired: &Json,
        tracked: &[Tracked],
    ) -> Result<(Observation, Deltas), Error> {
        let scope = Desk::scope();
        let desired = [Desk::desired(desired)];
        let want = Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked, claims: &[] };
        let seen = self.provider.observe(&self.cx, &want).await?;
        let deltas = self.provider.diff(&self.cx, &want, &seen).await?;
        Ok((seen, deltas))
    }

    /// What it would be tracked as once it is taken over.
    pub(crate) fn tracked(seen: &Observation) -> Tracked {
        let mut tracked = Tracked::new("toy_thing.a".into(), Hash::default());
        tracked.private = seen.resources[0].private.clone();
        tracked
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_of_a_mirror_plans_and_is_not_started_once_it_is_another() {
    let desk = Desk::new("");
    let mirror = tempfile::tempdir().expect("a folder");
    let platform = if cfg!(target_arch = "aarch64") { "linux_arm64" } else { "linux_amd64" };
    let folder = mirror.path().join("registry.opentofu.org/example/toy/1.4.0").join(platform);
    fs::create_dir_all(&folder).expect("a folder");
    let toy = env!("CARGO_BIN_EXE_terraform-provider-toy");
    std::os::unix::fs::symlink(toy, folder.join("terraform-provider-toy")).expect("a link");
    let cache = mirror.path().join("schemas");
    let open_with = |hashes: &[String], cache: Option<&std::path::Path>| {
        let written = Written {
            source: "example/toy",
            mirror: Some(mirror.path().into()),
            version: Some("~> 1.2"),
            hashes,
            ..Written::default()
        };
        let program = Program::written(written, mirror.path()).expect("a program");
        let cache = cache.map(Into::into);
        open("toy", Config { program, cache, ..desk.config.clone() }).expect("a provider")
    };
    let declared = json!({ "config": { "name": "a" } });
    let found = Desk { provider: open_with(&[], Some(&cache)), ..Desk::new("") };
    assert!(found.look(&declared, &[]).await.expect("a plan").1.contains_key(&"toy_thing.a".into()));
    let other = [format!("zh:{}", "0".repeat(64))];
    let refused =
        |error: Error| assert!(error.message.contains("has none of the checksums in `hashes`"), "{error}");
    let pinned = open_with(&other, None);
    refused(pinned.kinds(&desk.cx).await.unwrap_err());
    // What an earlier program said of itself says nothing about whether this one may be started.
    let pinned = open_with(&other, Some(&cache));
    pinned.kinds(&desk.cx).await.expect("the kinds that were told before");
    refused(pinned.versions(&desk.cx, &[]).await.unwrap_err());
    found.provider.versions(&found.cx, &[]).await.expect("it may be started");
}

/// A desk whose processes put their numbers down in a file, which is returned too.
fn counted(change: impl FnOnce(&mut Config)) -> (Desk, std::path::PathBuf) {
    let desk = Desk::new("");
    let starts = desk.world.path().join("starts");
    let mut config = desk.config.clone();
    config.environment.push(("TOY_STARTS".into(), Given::Text(starts.display().to_string())));
    change(&mut config);
    (Desk { provider: open("toy", config).expect("a program"), ..desk }, starts)
}

fn started(starts: &std::path::Path) -> Vec<String> {
    fs::read_to_string(starts).unwrap_or_default().lines().map(String::from).collect()
}

/// A program at `path` that is the toy of `version`.
fn install(path: &std::path::Path, version: &str) {
    use std::os::unix::fs::PermissionsExt;
    let toy = env!("CARGO_BIN_EXE_terraform-provider-toy");
    // Put there as packages are: never half of it.
    let new = path.with_extension("new");
    fs::write(&new, format!("#!/bin/sh\nTOY_VERSION={version} exec {toy}\n")).expect("a script");
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).expect("a program");
    fs::rename(new, path).expect("a program in its place");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_was_replaced_is_not_used_with_the_schemas_of_the_one_before() {
    let state = tempfile::tempdir().expect("a folder");
    let program = state.path().join("terraform-provider-toy");
    install(&program, "1");
    let (desk, starts) = counted(|config| {
        config.program = Program::At(program.clone());
        config.cache = Some(state.path().join("plugins"));
        config.max_calls = 1;
    });
    let config = desk.config.clone();
    desk.put("thing-1", &json!({ "id": "thing-1", "name": "a", "size": 0, "level": 3 }));
    let declared = json!({ "config": { "name": "a" }, "import": "thing-1" });
    // Another process of the same program, which tells its types in another order.
    for _ in 0..4 {
        desk.look(&declared, &[]).await.expect("a plan");
    }
    assert!(started(&starts).len() >= 4);

    install(&program, "2");
    for _ in 0..2 {
        let error = desk.look(&declared, &[]).await.unwrap_err();
        assert!(
            error.message.ends_with("of provider `toy` is another program now, with other schemas"),
            "{error}"
        );
        assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("systemctl reload")));
    }

    // As a reload does.
    let config =
        Config { program: Program::At(program.clone()), cache: Some(state.path().join("plugins")), ..config };
    let desk = Desk { provider: open("toy", config).expect("a program"), ..desk };
    desk.provider.kinds(&desk.cx).await.expect("its kinds");
    let (seen, _) = desk.look(&declared, &[]).await.expect("a plan");
    let kept: Json = serde_json::from_slice(&seen.resources[0].private.0).expect("a state");
    assert_eq!(kept["version"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_nobody_needs_ends_and_the_next_call_has_another() {
    let (desk, starts) = counted(|config| config.idle = Some(Duration::from_millis(50)));
    let declared = json!({ "config": { "name": "a" } });
    desk.look(&declared, &[]).await.expect("a plan");
    let first = started(&starts);
    let deadline = std::time::Instant::now() + PATIENCE;
    while crate::is_running(&first[0]) {
        assert!(std::time::Instant::now() < deadline, "{} is still there", first[0]);
        tokio::task::yield_now().await;
    }
    desk.look(&declared, &[]).await.expect("a plan");
    assert!(started(&starts).len() > first.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_replaced_after_so_many_calls() {
    let (desk, starts) = counted(|config| config.max_calls = 2);
    let declared = json!({ "config": { "name": "a" } });
    // Each look is a check and a plan.
    for _ in 0..3 {
        desk.look(&declared, &[]).await.expect("a plan");
    }
    assert_eq!(started(&starts).len(), 3);
    let last = started(&starts).remove(1);
    assert!(!crate::is_running(&last), "one at a time");
}

/// The same desk with a provider that is told something else.
pub(crate) fn told(desk: Desk, variable: &str, text: &str) -> Desk {
    let mut config = desk.config.clone();
    config.environment.push((variable.into(), Given::Text(text.into())));
    Desk { provider: open("toy", config).expect("a program"), ..desk }
}

/// The same desk with a provider whose schema has another version.
pub(crate) fn of_version(desk: Desk, version: &str) -> Desk {
    told(desk, "TOY_VERSION", version)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_goes_on_with_a_newer_provider_and_not_back() {
    let desk = Desk::new("");
    desk.put("thing-1", &json!({ "id": "thing-1", "name": "a", "size": 0, "level": 3 }));
    let declared = json!({ "config": { "name": "a" }, "import": "thing-1" });
    let (seen, _) = desk.look(&declared, &[]).await.unwrap();
    let old = Desk::tracked(&seen);

    // The newer schema has an attribute more, and the provider says what it is in an old state.
    let desk = of_version(desk, "2");
    let (seen, deltas) = desk.look(&declared, std::slice::from_ref(&old)).await.unwrap();
    assert!(deltas.is_empty() && seen.resources[0].has_news, "{deltas:?}");
    let new = Desk::tracked(&seen);
    let (again, _) = desk.look(&declared, std::slice::from_ref(&new)).await.unwrap();
    assert!(!again.resources[0].has_news);
    let kept: Json = serde_json::from_slice(&new.private.0).unwrap();
    assert_eq!(kept["version"], 2);
    assert!(kept["state"].as_str().unwrap().contains(r#""color":"grey""#), "{kept}");
    let colored = json!({ "config": { "name": "a", "color": "red" }, "import": "thing-1" });
    let (_, deltas) = desk.look(&colored, &[old]).await.unwrap();
    let delta = deltas[&"toy_thing.a".into()].as_ref().unwrap();
    assert_eq!((&*delta.fields[0].path, delta.fields.len()), ("color", 1));

    let desk = Desk { provider: open("toy", desk.config.clone()).expect("a program"), ..desk };
    let error = desk.look(&declared, &[new]).await.unwrap_err();
    assert_eq!(error.message, "the state of toy_thing.a is from a newer version of the provider");
    assert_eq!(error.hint.as_deref(), Some("install that version again, or a newer one"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_may_come_back_as_json() {
    let desk = Desk::new("");
    let thing = json!({
        "id": "thing-1", "name": "a", "size": 0, "level": 3, "tags": { "a": "b" }, "words": ["y", "x"],
        "rule": [{ "port": 80, "protocol": "tcp" }], "label": [{ "key": "k", "value": "none" }],
    });
    desk.put("thing-1", &thing);
    let declared = json!({ "config": { "name": "a" }, "import": "thing-1" });
    let (seen, expect) = desk.look(&declared, &[]).await.unwrap();
    let tracked = [Desk::tracked(&seen)];
    let mut config = desk.config.clone();
    config.environment.push(("TOY_JSON".into(), Given::Text("yes".into())));
    let desk = Desk { provider: open("toy", config).expect("a program"), ..desk };
    let (again, deltas) = desk.look(&declared, &tracked).await.unwrap();
    let state = |seen: &Observation| {
        let kept: Json = serde_json::from_slice(&seen.resources[0].private.0).unwrap();
        kept["state"].clone()
    };
    assert_eq!(state(&again), state(&seen));
    assert_eq!(format!("{deltas:?}"), format!("{expect:?}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_exists_is_found_by_its_identity() {
    let desk = Desk::new("");
    desk.put("thing-1", &json!({ "id": "thing-1", "name": "b", "size": 0, "level": 3 }));
    desk.put("thing-2", &json!({ "id": "thing-2", "name": "a", "size": 0, "level": 3 }));
    let declared = |import: &str| json!({ "config": { "name": "a" }, "import": import });
    let (seen, deltas) = desk.look(&declared(r#"{"name": "a"}"#), &[]).await.unwrap();
    assert_eq!(seen.resources[0].remote.as_deref(), Some("thing-2"));
    assert!(deltas.is_empty(), "{deltas:?}");
    for (import, expect) in [
        (r#"{"name": "c"}"#, r#"there is no toy_thing with the id `{"name": "c"}`"#),
        (r#"{"nane": "a"}"#, "find a toy_thing by its identity: `nane` is no part of it"),
        ("{}", "find a toy_thing by its identity: `name` is missing"),
    ] {
        assert_eq!(desk.look(&declared(import), &[]).await.unwrap_err().message, expect);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_does_not_exist_is_an_error_and_not_a_creation() {
    let desk = Desk::new("");
    let declared = json!({ "config": { "name": "a" }, "import": "thing-9" });
    let error = desk.look(&declared, &[]).await.unwrap_err();
    assert_eq!(error.message, "there is no toy_thing with the id `thing-9`");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_have_to_be_made_anew_is_not_taken_over() {
    let desk = Desk::new("");
    desk.put("thing-1", &json!({ "id": "thing-1", "name": "b", "size": 0, "level": 3 }));
    let declared = json!({ "config": { "name": "a" }, "import": "thing-1" });
    let (seen, deltas) = desk.look(&declared, &[]).await.unwrap();
    let error = deltas[&"toy_thing.a".into()].as_ref().unwrap_err();
    let expect = "taking toy_thing.a over would delete and make it anew, because of name";
    assert_eq!(error.message, expect);
    // What is ours already may be replaced.
    let (_, deltas) = desk.look(&declared, &[Desk::tracked(&seen)]).await.unwrap();
    assert!(deltas[&"toy_thing.a".into()].as_ref().unwrap().replace);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_says_whether_what_is_declared_asks_for_it_or_only_what_somebody_else_changed() {
    let desk = Desk::new("");
    let thing = |name: &str| json!({ "id": "thing-1", "name": name, "content": "x", "size": 1, "level": 3 });
    desk.put("thing-1", &thing("a"));
    let declared = |name: &str, content: &str| {
        let config = json!({ "name": name, "content": content });
        json!({ "config": config, "import": "thing-1" })
    };
    let (seen, _) = desk.look(&declared("a", "x"), &[]).await.unwrap();
    let tracked = [Desk::tracked(&seen)];
    let plan = async |name: &str, content: &str| {
        let (_, deltas) = desk.look(&declared(name, content), &tracked).await.unwrap();
        let delta = deltas[&"toy_thing.a".into()].as_ref().unwrap();
        (delta.replace, delta.heals_drift)
    };
    assert_eq!(plan("b", "x").await, (true, false));
    desk.put("thing-1", &thing("by hand"));
    assert_eq!(plan("a", "x").await, (true, true));
    // What else of it is declared anew could be done in place.
    assert_eq!(plan("a", "y").await, (true, true));
    assert_eq!(plan("b", "y").await, (true, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_gone_after_the_entry_changed_may_be_elsewhere() {
    let desk = Desk::new("");
    desk.put("thing-1", &json!({ "id": "thing-1", "name": "a", "size": 0, "level": 3 }));
    let declared = json!({ "config": { "name": "a" }, "import": "thing-1" });
    let (seen, _) = desk.look(&declared, &[]).await.unwrap();
    let tracked = [Desk::tracked(&seen)];
    // The directory is another one: another account, so to speak.
    let error = Desk::new("").look(&declared, &tracked).await.unwrap_err();
    assert!(error.message.contains("the entry's `config` or `env` changed"), "{error}");
    // With the same configuration it is simply gone.
    fs::remove_file(desk.world.path().join("thing-1.json")).unwrap();
    assert!(desk.look(&declared, &tracked).await.unwrap().0.resources.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_the_name_of_ours_in_another_account_is_not_ours() {
    let desk = Desk::new("");
    let thing = |uid: &str| json!({ "id": "thing-1", "name": "a", "size": 0, "level": 3, "uid": uid });
    desk.put("thing-1", &thing("u-1"));
    let declared = json!({ "config": { "name": "a" }, "import": "thing-1" });
    let (seen, _) = desk.look(&declared, &[]).await.unwrap();
    let tracked = [Desk::tracked(&seen)];
    // The same name in another account, so to speak.
    let other = Desk::new("");
    other.put("thing-1", &thing("u-2"));
    let error = other.look(&declared, &tracked).await.unwrap_err();
    assert!(error.message.starts_with("what is found as toy_thing.a has another `uid`"), "{error}");
    // The same one, however one gets there.
    other.put("thing-1", &thing("u-1"));
    assert_eq!(other.look(&declared, &tracked).await.unwrap().0.resources.len(), 1);
    // Whatever became of it, it is ours where we have been all the time.
    desk.put("thing-1", &thing("u-2"));
    assert_eq!(desk.look(&declared, &tracked).await.unwrap().0.resources.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_are_known_of_an_entry_that_the_cloud_refuses() {
    let desk = Desk::new("token: wrong\n");
    assert!(desk.provider.kinds(&desk.cx).await.unwrap().0.iter().any(|kind| &*kind.name == "Thing"));
    let (_, deltas) = desk.look(&json!({ "config": { "name": "a" } }), &[]).await.unwrap();
    let error = deltas[&"toy_thing.a".into()].as_ref().unwrap_err();
    assert_eq!(error.message, "configure provider `toy`: AccessDenied: the token `(secret)` is (secret)");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_ask_for_schemas_start_one_process() {
    let desk = Desk::new("");
    let told = desk.world.path().join("starts");
    let mut config = desk.config.clone();
    config.environment = vec![("TOY_STARTS".into(), Given::Text(told.display().to_string()))];
    let provider = open("toy", config).unwrap();
    let (one, two) = tokio::join!(provider.kinds(&desk.cx), provider.kinds(&desk.cx));
    assert_eq!(one.unwrap().0.len(), two.unwrap().0.len());
    assert_eq!(fs::read_to_string(told).unwrap().lines().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_died_is_started_again() {
    let desk = Desk::new("");
    for _ in 0..2 {
        let faulty = json!({ "config": { "name": "a", "fault": "plan-death" } });
        let error = desk.look(&faulty, &[]).await.unwrap_err();
        assert!(error.message.contains("died, with exit code 9"), "{error}");
        assert!(desk.look(&json!({ "config": { "name": "a" } }), &[]).await.unwrap().1.len() == 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_are_refused_are_tried_once_and_not_for_each_resource() {
    let (mut desk, starts) = counted(|config| {
        let text = config.file.text.replace("directory", "token: {file: /token}\ndirectory");
        config.file = Arc::new(SourceFile::new("config.yaml", &*text));
        config.config = Some(yaml::parse(&config.file, yaml::Limits::default()).expect("YAML").remove(0));
    });
    let clock = Arc::new(HandClock::default());
    let with = |token: &str| {
        let mut secrets = TableSecrets::default();
        secrets.0.insert(SecretRef::File("/token".into()), token.into());
        Cx { clock: clock.clone(), ..cx_with(secrets) }
    };
    let is_refused = async |desk: &Desk| {
        let (_, deltas) = desk.look(&json!({ "config": { "name": "a" } }), &[]).await.expect("a look");
        let error = deltas[&"toy_thing.a".into()].as_ref().err().cloned();
        error.inspect(|error| assert!(error.message.contains("AccessDenied"), "{error}")).is_some()
    };
    desk.cx = with("wrong");
    for _ in 0..50 {
        assert!(is_refused(&desk).await);
    }
    assert_eq!(started(&starts).len(), 1);
    clock.advance(Duration::from_secs(30));
    assert!(is_refused(&desk).await && is_refused(&desk).await);
    assert_eq!(started(&starts).len(), 2, "it is tried again after a while");
    desk.cx = with("right");
    assert!(!is_refused(&desk).await);
    assert_eq!(started(&starts).len(), 3, "another secret is tried at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_dies_at_its_start_is_started_once_and_not_for_each_resource() {
    let (desk, starts) = counted(|config| {
        config.environment.push(("TOY_START".into(), Given::Text("die".into())));
    });
    let declared = json!({ "config": { "name": "a" } });
    for _ in 0..50 {
        let error = desk.provider.kinds(&desk.cx).await.expect_err("it dies");
        assert!(error.message.contains("the toy is broken"), "{error}");
        desk.look(&declared, &[]).await.expect_err("it dies");
    }
    assert_eq!(started(&starts).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_stuck_is_not_asked_again() {
    let (desk, starts) = counted(|config| config.timeout = Duration::from_secs(30));
    let (good, stuck) = (wedged(""), wedged("plan-wedge"));
    desk.look(&good, &[]).await.expect("a plan");
    assert_eq!(started(&starts).len(), 1);
    // Given up, as a limit of time does: the process had more than a thirtieth of its time.
    tokio::select! {
        _ = desk.look(&stuck, &[]) => panic!("it answered"),
        () = async {
            is_asked(&desk).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
        } => {}
    }
    assert_eq!(desk.look(&good, &[]).await.expect("a plan").1.len(), 1);
    assert_eq!(started(&starts).len(), 2, "the one that is stuck is not asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_that_makes_way_leaves_the_process_as_it_is() {
    let (desk, starts) = counted(|_| {});
    let (good, slow) = (wedged(""), wedged("plan-slow"));
    for _ in 0..5 {
        // As a resync does for a push.
        tokio::select! {
            _ = desk.look(&slow, &[]) => panic!("it answered"),
            () = is_asked(&desk) => {}
        }
        fs::remove_file(desk.world.path().join("wedged")).unwrap();
        assert_eq!(desk.look(&good, &[]).await.expect("a plan").1.len(), 1);
    }
    assert_eq!(started(&starts).len(), 1);
}

/// Returns once a plan that will not be answered was asked for.
async fn is_asked(desk: &Desk) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !desk.world.path().join("wedged").exists() {
        assert!(std::time::Instant::now() < deadline, "it was never asked");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_waited_for_as_long_as_the_entry_says() {
    let (desk, starts) = counted(|config| config.timeout = Duration::from_secs(3));
    let error = desk.look(&wedged("plan-wedge"), &[]).await.unwrap_err();
    assert_eq!(error.message, "plan a toy_thing: provider `toy` gave no answer: none came within 3s");
    assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("`timeout`")));
    assert_eq!(started(&starts).len(), 1);
}

fn wedged(fault: &str) -> Json {
    json!({ "config": { "name": "a", "fault": fault } })
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_is_not_the_answer_that_nothing_is_there() {
    let desk = Desk::new("");
    let error =
        desk.look(&json!({ "config": { "name": "a", "fault": "plan-empty" } }), &[]).await.unwrap_err();
    assert_eq!(error.message, "plan a toy_thing: provider `toy` answered without a value");
    let error =
        desk.look(&json!({ "config": { "name": "a", "fault": "plan-flood" } }), &[]).await.unwrap_err();
    assert!(error.message.ends_with("an answer of more than 64 MiB"), "{error}");
    for fault in ["plan-null", "plan-nowhere"] {
        let error = desk.look(&json!({ "config": { "name": "a", "fault": fault } }), &[]).await.unwrap_err();
        assert!(error.hint.as_ref().unwrap().contains("mistake of the provider"), "{}", error.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_changes_reaches_the_provider() {
    let file = SecretRef::File("/token".into());
    let mut desk = Desk::new("token: {file: /token}\n");
    let with = |token: Option<&str>| {
        let mut secrets = TableSecrets::default();
        secrets.0.extend(token.map(|token| (file.clone(), token.into())));
        cx_with(secrets)
    };
    let declared = json!({ "config": { "name": "a" } });
    let made = async |desk: &Desk| desk.look(&declared, &[]).await.map(|(_, deltas)| deltas);
    desk.cx = with(Some("right"));
    made(&desk).await.unwrap();
    desk.cx = with(Some("wrong"));
    let error = made(&desk).await.unwrap();
    let error = error[&"toy_thing.a".into()].as_ref().unwrap_err();
    assert!(error.message.contains("AccessDenied"), "{error}");
    desk.cx = with(Some("another"));
    made(&desk).await.unwrap()[&"toy_thing.a".into()].as_ref().unwrap();
    // Who has it already does not need it again.
    desk.cx = with(None);
    made(&desk).await.unwrap()[&"toy_thing.a".into()].as_ref().unwrap();
}
