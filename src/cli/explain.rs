//! `explain`: what a kind may hold, from the types that parse it and the schemas of configured providers; or why an address is not in sync, from what the
//! last pass left in the state and from a look at it now.

use super::{
    Args, Exit, Out,
    host::Host,
    list::{self, ListFormat},
};
use crate::{
    api,
    clock::SystemClock,
    config::Environment,
    failure::Failure,
    manifest::explain,
    operation::{self, Aside, ExplainAsk, Explanation, plan::Document},
    registry,
    render::explain::explanation,
    session::{Ask, HostState, Session, outside},
    store::Reader,
};
use clap::{Args as ClapArgs, ValueEnum};
use reconciled_provider::{Clock, Kinds};
use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Arguments of `explain`.
#[derive(Clone, Debug, ClapArgs)]
pub struct ExplainArgs {
    /// A kind (`Zone`, or `Zone.dns` where groups share a name), a field of it (`Zone.records.values`), or an
    /// address (`Zone/example.com#www/A`)
    #[arg(value_name = "KIND[.FIELD]|ADDRESS", required_unless_present = "schemas")]
    what: Option<String>,
    /// Write the JSON Schema of every kind and of the plan document, and the description of the API, into this folder
    #[arg(long, value_name = "DIR")]
    schemas: Option<PathBuf>,
    /// Form of output; of an address alone
    #[arg(short, long, value_enum, default_value_t)]
    output: ExplainFormat,
}

/// Form of what is said of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ExplainFormat {
    /// For people
    #[default]
    Text,
    /// For programs: what the API answers
    Json,
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    explain: &ExplainArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    if let Some(dir) = &explain.schemas {
        let kinds = kinds_here(args, environment.clone(), out).await;
        write_schemas(dir, &kinds, out)?;
    }
    let Some(what) = &explain.what else { return Ok(Exit::Good) };
    if what.contains('/') {
        return address(args, explain, what, environment, out).await;
    }
    if explain.output == ExplainFormat::Json {
        return Err(Failure::hinted(
            "`-o json` is for addresses",
            "for the JSON Schema of every kind: reconciled explain --schemas DIR",
        ));
    }
    // What is known without a configuration needs none; a provider's program is asked only where nothing else knows.
    let known = explain::explain(&registry::kinds(), what);
    let known = match known {
        Ok(text) => Ok(text),
        Err(_) => explain::explain(&kinds_here(args, environment, out).await, what),
    };
    match known {
        Ok(text) => out.data(&text),
        Err(text) => {
            let (message, hint) = text.split_once("\nhint: ").unwrap_or((&text, ""));
            return Err(match hint {
                "" => Failure::plain(message),
                hint => Failure::hinted(message, hint),
            });
        }
    }
    Ok(Exit::Good)
}

/// Every kind in this binary, and those that entries of the configuration tell of, where there is one.
async fn kinds_here(args: &Args, environment: Environment, out: &mut Out) -> Kinds {
    let mut all = registry::kinds();
    let session = match Session::open(args.config.as_deref(), environment).await {
        Ok(session) => session,
        Err(Failure::Config(_)) => return all,
        Err(failure) => {
            out.talk(&format!("kinds of configured providers are not known: {}", failure.with_hint()));
            return all;
        }
    };
    for problem in session.ailing() {
        out.talk(&format!("{problem}\n"));
    }
    let mut known: HashSet<(Vec<Arc<str>>, Arc<str>)> =
        all.0.iter().map(|kind| (kind.api_versions.to_vec(), kind.name.clone())).collect();
    for kind in session.views.iter().flat_map(|view| &view.kinds.0) {
        if known.insert((kind.api_versions.to_vec(), kind.name.clone())) {
            all.0.push(kind.clone());
        }
    }
    all
}

fn write_schemas(dir: &Path, kinds: &Kinds, out: &mut Out) -> Result<(), Failure> {
    let mut files = explain::schemas(kinds);
    let plan = serde_json::to_string_pretty(&Document::schema())
        .map_err(|e| Failure::plain(format!("the schema of the plan cannot be written: {e}")))?;
    files.insert("plan.json".to_string(), plan + "\n");
    files.insert("openapi.json".to_string(), format!("{:#}\n", api::openapi()));
    fs::create_dir_all(dir).map_err(|e| {
        let hint = "name a directory that you may write to, or that is not there: --schemas DIR";
        Failure::hinted(format!("create {}: {e}", dir.display()), hint)
    })?;
    for (name, text) in &files {
        let path = dir.join(name);
        fs::write(&path, text).map_err(|e| Failure::plain(format!("write {}: {e}", path.display())))?;
    }
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf());
    let dir = dir.display();
    out.talk(&format!(
        "{} schemas written to {dir}; plan.json is that of `plan -o json`, openapi.json describes the API",
        files.len()
    ));
    out.talk("to have an editor with yaml-language-server check a manifest, put this line at its top:");
    out.talk(&format!("  # yaml-language-server: $schema={dir}/all.json"));
    Ok(())
}

async fn address(
    args: &Args,
    explain: &ExplainArgs,
    what: &str,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    operation::pattern(what)?;
    let ask = ExplainAsk { address: what.into() };
    let found: Explanation = match Host::find(args, &environment, out).await? {
        Host::Daemon(client) => client.get("/v1/explain", &ask).await?,
        Host::Alone(state) => alone(args, &state, environment, &ask, out).await?,
    };
    found.messages.iter().for_each(|message| out.talk(message));
    if found.is_empty() {
        return Err(Failure::hinted(
            format!(
                "nothing is known of `{what}`: it is neither declared nor tracked, and no pass reported it"
            ),
            match &found.near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "to see what is declared and what is there: reconciled plan --show-foreign".into(),
            },
        ));
    }
    match explain.output {
        ExplainFormat::Text => out.data(&explanation(what, &found, SystemClock.now())),
        ExplainFormat::Json => list::show(out, ListFormat::Json, &found, String::new)?,
    }
    Ok(Exit::Good)
}

/// What the state knows, and what a look shows where sources can be had.
async fn alone(
    args: &Args,
    state: &HostState,
    environment: Environment,
    ask: &ExplainAsk,
    out: &mut Out,
) -> Result<Explanation, Failure> {
    let reader = match state.reader().await? {
        Some(reader) => reader,
        None => Reader::empty(state.clock.clone()).await?,
    };
    let outside = outside(&state.config, state.clock.now());
    let aside = Aside::of(&state.config, &[]);
    let looked = async {
        let session = Session::open(args.config.as_deref(), environment).await?;
        let outlook = session.outlook(&Ask::default(), &reader).await?;
        Ok::<_, Failure>((session, outlook))
    };
    match looked.await {
        Ok((session, outlook)) => {
            outlook.messages().iter().for_each(|message| out.talk(message));
            let look = Some((&session, &outlook.desired));
            let mut found = operation::explain(&reader, look, &outside, aside, ask).await?;
            if found.is_empty() && found.near.is_none() {
                let told = |name: &Arc<str>| {
                    format!(
                        "source {name} may declare it: its manifests have errors, and nothing of it is in force yet\n\
                         hint: to see them all: reconciled plan"
                    )
                };
                found.messages = outlook.without_revision().map(told).collect();
            }
            Ok(found)
        }
        Err(failure) => {
            let mut found = operation::explain(&reader, None, &outside, aside, ask).await?;
            let said = format!("what is declared cannot be had: {}", failure.with_hint());
            // It may be declared there, for all that anybody knows.
            let is_without = matches!(&failure, Failure::Source(error) if error.is_without_revision());
            match is_without && found.is_empty() && found.near.is_none() {
                true => found.messages.push(said),
                false => out.talk(&said),
            }
            Ok(found)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Db, OpenOptions};
    use reconciled_engine::{
        Store as _, Write,
        store::{Condition, ConditionKind},
    };
    use reconciled_provider::Scope;
    use std::time::Duration;

    fn opened() -> OpenOptions {
        OpenOptions { create: true, clock: Arc::new(SystemClock) }
    }

    #[tokio::test]
    async fn an_address_that_is_stalled_says_why_and_one_nobody_knows_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let db = Db::open_writer(folder.path(), opened()).await.unwrap();
        let scope = Scope::new("pdns", "example.com");
        let condition = Condition {
            id: Some("www.example.com./A".into()),
            address: Some("Zone/example.com#www/A".parse().unwrap()),
            kind: ConditionKind::Stalled,
            reason: "Conflict".into(),
            message: "it exists with other values".into(),
            hint: Some("reconciled adopt Zone/example.com#www/A".into()),
            since: Duration::from_secs(1_000_000),
            next_try: None,
            declared: None,
        };
        db.commit(vec![Write::Conditions(scope, vec![condition])]).await.unwrap();
        let ask = |what: &'static str| {
            let reader = db.reader().clone();
            async move {
                let ask = ExplainAsk { address: what.into() };
                operation::explain(&reader, None, &[], Aside::default(), &ask).await.unwrap()
            }
        };
        let found = ask("Zone/example.com#www/A").await;
        let text = explanation("", &found, Duration::from_secs(1_000_100));
        for part in ["is stalled (Conflict)", "other values", "hint: reconciled adopt"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(ask("Zone/example.com#mail/A").await.is_empty());
        db.close().await;
    }

    #[test]
    fn a_group_with_dots_is_a_group() {
        let shown = |what: &str| explain::explain(&registry::kinds(), what);
        assert!(shown("Certificate.cert-manager.io").unwrap().starts_with("Certificate: "));
        assert!(
            shown("Certificate.cert-manager.io.spec.dnsNames")
                .unwrap()
                .starts_with("dnsNames of Certificate")
        );
        assert!(shown("Certificate.cert-manager").unwrap_err().contains("has no field `cert-manager`"));
    }

    #[test]
    fn schemas_are_written_with_that_of_the_plan() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("schemas");
        write_schemas(&dir, &registry::kinds(), &mut Out::new(&Environment::default())).unwrap();
        for name in ["all.json", "plan.json", "zone-dns-v1.json", "recordset-dns-v1.json"] {
            let text = fs::read_to_string(dir.join(name)).unwrap();
            assert!(serde_json::from_str::<serde_json::Value>(&text).unwrap().is_object(), "{name}");
        }
    }

    #[test]
    fn a_schema_takes_a_secret_in_each_way_that_a_manifest_may_name_it() {
        let files = explain::schemas(&registry::kinds());
        for name in ["file-local-v1.json", "issuer-cert-v1.json", "certificate-cert-manager.io-v1.json"] {
            let schema: serde_json::Value = serde_json::from_str(&files[name]).unwrap();
            let forms = &schema["definitions"]["SecretName"]["anyOf"];
            let needed = [&forms[0]["required"], &forms[1]["required"]];
            assert_eq!(
                needed,
                [&serde_json::json!(["secret"]), &serde_json::json!(["sops", "key"])],
                "{name}"
            );
        }
    }
}
