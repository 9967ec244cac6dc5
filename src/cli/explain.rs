//! `explain`: what a kind may hold, from the types that parse it and the schemas of configured providers; or why an address is not in sync, from what the
//! last pass left in the state and from a look at it now.

use super::{
    Args, Exit, Host, Out,
    list::{self, ListFormat},
};
use crate::{
    api,
    clock::SystemClock,
    config::Environment,
    failure::Failure,
    manifest::explain,
    operation::{
        self, Aside, ExplainAsk, Explanation, MISSING, RESTORED, ResourceEntry, UNASSIGNED, UNTRACKED,
        Wanted,
        plan::{Condition, Document},
        said,
    },
    registry,
    render::status,
    session::{Ask, HostState, Session, outside},
    store::{ConditionEntry, Reader, Stamp, SuspensionEntry},
};
use clap::{Args as ClapArgs, ValueEnum};
use reconciled_engine::plan::STILL_THERE;
use reconciled_provider::{Clock, Kinds};
use std::{
    collections::HashSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
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
            out.talk(&format!("kinds of configured providers are not known: {failure}"));
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
        ExplainFormat::Text => out.data(&text(what, &found, SystemClock.now())),
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
            let said = format!("what is declared cannot be had: {failure}");
            // It may be declared there, for all that anybody knows.
            let is_without = matches!(&failure, Failure::Source(error) if error.is_without_revision());
            match is_without && found.is_empty() && found.near.is_none() {
                true => {
                    let hint = failure.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
                    found.messages.push(said + &hint);
                }
                false => out.talk(&said),
            }
            Ok(found)
        }
    }
}

/// Why a resource is not in sync though nothing is done about it and nobody waits.
fn not_in_sync(resource: &ResourceEntry) -> Option<&str> {
    let synced = resource.conditions.iter().find(|side| side.kind == "Synced" && side.status != "True");
    synced.filter(|side| [UNASSIGNED, RESTORED, MISSING].contains(&&*side.reason)).map(|side| &*side.message)
}

/// How it stands in one line, where nothing is told that keeps it from being in sync.
fn headline(what: &str, found: &Explanation) -> String {
    let (rows, now) = (&found.tracked, &found.now);
    if now.iter().any(|one| one.change.is_some()) {
        return format!("{what} is not in sync");
    }
    if let Some(why) = rows.iter().find_map(not_in_sync) {
        return format!("{what}: {why}");
    }
    if let Some((one, left)) = now.iter().find_map(|one| Some((one, one.left.as_ref()?))) {
        return format!("{}: {}", one.address, left.message);
    }
    if now.iter().any(|one| !one.is_in_sync()) {
        return format!("{what} is not in sync");
    }
    if rows.iter().any(|row| row.tracked.state == "pending") {
        return format!("{what} is on its way: the remote has accepted it, but it is not there yet");
    }
    match (rows.is_empty(), now.is_empty()) {
        (_, false) => format!("{what} is in sync"),
        (false, true) => format!("{what} was in sync when it was last looked at"),
        (true, true) if !found.messages.is_empty() => format!("{what} cannot be looked at now"),
        (true, true) => format!("{what} is not tracked any more"),
    }
}

/// An explanation for people.
fn text(what: &str, found: &Explanation, now: Duration) -> String {
    let mut text = String::new();
    troubles(found, now, &mut text);
    text.push_str(&status::for_others(&found.elsewhere).concat());
    if text.is_empty() {
        text = headline(what, found) + "\n";
    }
    rollbacks(found, now, &mut text);
    if !found.now.is_empty() {
        text.push_str("\nnow:\n");
    }
    for one in &found.now {
        let _ = writeln!(text, "  {} ({})", one.address, one.scope);
        match &one.wanted {
            Some(Wanted { file, line, source, commit }) => {
                let commit = if commit.is_empty() { "no commit" } else { commit };
                let _ = writeln!(text, "    wanted by {file}:{line} of source {source} at {commit}");
            }
            None if let Some(by) = &one.foreign_to => {
                let _ =
                    writeln!(text, "    foreign: nobody declared it; {by} is exclusive, and would delete it");
            }
            None if one.left.as_ref().is_some_and(|left| left.reason == "Frozen") => {
                text.push_str("    not known to be declared\n");
            }
            None => text.push_str("    no longer declared\n"),
        }
        for line in &one.declared {
            let _ = writeln!(text, "    declared   {line}");
        }
        match &one.remote {
            Some(lines) => lines.iter().for_each(|line| {
                let _ = writeln!(text, "    at remote  {line}");
            }),
            None if one.is_in_doubt => text.push_str("    at remote  not known\n"),
            None => text.push_str("    at remote  not there\n"),
        }
        if let Some(change) = &one.change {
            let _ = writeln!(text, "    planned    {change}");
        }
        if let Some(left) = &one.left {
            let _ = writeln!(text, "    left so    {}", left.message);
        }
    }
    if !found.tracked.is_empty() {
        text.push_str("\ntracked:\n");
    }
    for resource in &found.tracked {
        let row = &resource.tracked;
        let _ = writeln!(text, "  {}", row.address);
        standing(resource, &mut text);
        if row.state == UNTRACKED {
            let _ = writeln!(text, "    {} {}, not tracked", row.scope, row.id);
            continue;
        }
        let _ = writeln!(
            text,
            "    {} {}, {}, from {} at {}",
            row.scope, row.id, row.state, row.file, row.revision
        );
        let written =
            row.written_at.map_or("adopted as it was".to_string(), |at| format!("last written {at}"));
        let merge = if row.merge { ", only some values are ours" } else { "" };
        let _ = writeln!(text, "    {written}, deletion: {}, drift: {}{merge}", row.deletion, row.drift);
        if !row.depends_on.is_empty() {
            let _ = writeln!(text, "    depends on {}", row.depends_on.join(", "));
        }
    }
    if !found.drifts.is_empty() {
        text.push_str("\ndrift:\n");
    }
    for drift in &found.drifts {
        let over = drift.ended_at.map(|at| format!(" at {at}")).unwrap_or_default();
        let by = match (drift.outcome.as_str(), drift.action) {
            ("healed", Some(action)) => format!(" by action {action}"),
            _ => String::new(),
        };
        let (seen, address, outcome) = (drift.first_seen, &drift.address, &drift.outcome);
        let _ = writeln!(text, "  {seen} · {address} · {outcome}{over}{by} · {}", said(drift));
    }
    if !found.history.is_empty() {
        text.push_str("\nlast:\n");
    }
    for entry in &found.history {
        let _ = write!(text, "  {} {}", entry.at, entry.kind);
        let parts = [
            entry.address.as_deref().unwrap_or(""),
            &entry.reason,
            entry.outcome.as_deref().unwrap_or(""),
            &entry.message,
        ];
        for part in parts.iter().filter(|part| !part.is_empty()) {
            let _ = write!(text, " · {part}");
        }
        text.push('\n');
    }
    crate::render::clean_lines(&text)
}

/// Writes what a person keeps at an earlier revision: what is declared below is what was declared then.
fn rollbacks(found: &Explanation, now: Duration, text: &mut String) {
    for pin in &found.pins {
        let until = until(pin.until, now);
        let (what, label, since, actor) = (&pin.address, &pin.label, pin.since, &pin.actor);
        let _ = writeln!(
            text,
            "{what} is rolled back to {label} by {actor} since {since}{until}: {}",
            pin.reason
        );
        let _ = writeln!(text, "  hint: to let it go on: reconciled resume {what}");
    }
}

/// Until when something counts, also where that is over and nobody has looked since.
fn until(at: Option<Stamp>, now: Duration) -> String {
    match at {
        None => String::new(),
        Some(at) if at.0 > now => format!(" until {at}"),
        Some(at) => format!(" until {at}, which is over, and was not looked at since"),
    }
}

/// Writes how a resource stands: both conditions, and what they are about where all is not well.
fn standing(resource: &ResourceEntry, text: &mut String) {
    for side in &resource.conditions {
        let since = side.since.map(|since| format!(" since {since}")).unwrap_or_default();
        let _ = write!(text, "    {}: {} ({}){since}", side.kind, side.status, side.reason);
        if !side.message.is_empty() {
            let _ = write!(text, ": {}", side.message);
        }
        text.push('\n');
    }
    let observed = resource.conditions.first().and_then(|side| side.observed_generation);
    if let Some(generation) = resource.generation {
        let observed = observed.map_or("none".to_owned(), |observed| observed.to_string());
        let _ = writeln!(text, "    generation {generation} in force, {observed} looked at");
    }
}

/// What a look found that the last pass did not, but for suspensions, which are told with who said so.
fn seen_now(found: &Explanation) -> impl Iterator<Item = &Condition> {
    let is_recorded = |one: &&Condition| {
        let of_it = |known: &ConditionEntry| {
            known.scope == *one.scope
                && known.id.as_deref() == one.id.as_deref()
                && known.reason == *one.reason
        };
        let stops = |known: &SuspensionEntry| one.hint.as_deref() == Some(&*known.hint);
        found.conditions.iter().any(of_it) || found.suspensions.iter().any(stops)
    };
    found.now.iter().flat_map(|one| &one.conditions).filter(move |one| !is_recorded(one))
}

/// Writes what keeps the resources from being in sync, and who stopped them.
fn troubles(found: &Explanation, now: Duration, text: &mut String) {
    for condition in &found.conditions {
        let who = condition.address.as_deref().unwrap_or(&condition.scope);
        let _ =
            writeln!(text, "{who} is {} ({}) since {}", condition.kind, condition.reason, condition.since);
        let _ = writeln!(text, "  {}", condition.message);
        if let Some(next) = condition.next_try {
            let _ = match (next.0 > now, condition.reason == STILL_THERE) {
                (true, true) => writeln!(text, "  it stays until {next}"),
                (true, false) => writeln!(text, "  next try {next}"),
                (false, _) => writeln!(text, "  next try is due since {next}"),
            };
        }
        if let Some(hint) = &condition.hint {
            let _ = writeln!(text, "  hint: {hint}");
        }
    }
    for condition in seen_now(found) {
        let who = condition.address.as_deref().unwrap_or(&condition.scope);
        let _ = writeln!(text, "{who} is {} ({})", condition.kind.word(), condition.reason);
        let _ = writeln!(text, "  {}", condition.message);
        if let Some(next) = &condition.next_try {
            let _ = writeln!(text, "  next try {next}");
        }
        if let Some(hint) = &condition.hint {
            let _ = writeln!(text, "  hint: {hint}");
        }
    }
    for hold in &found.holds {
        let (domain, since, reasons) = (&hold.domain, hold.since, hold.reasons.join("; "));
        let _ = match &hold.once {
            Some(once) => writeln!(text, "{domain} is held {once}, known since {since}: {reasons}"),
            None => writeln!(text, "{domain} is held since {since}: {reasons}"),
        };
        if let Some(approval) = &hold.approval {
            let (actor, until) = (&approval.actor, approval.expires_at);
            let _ = writeln!(text, "  approved by {actor}, until {until}");
            continue;
        }
        let short = status::short(&hold.digest);
        let _ = writeln!(text, "  hint: to consent: reconciled approve {short} --reason \"…\"");
    }
    // What a condition said of it need not be said again.
    let is_told = |hint: &String| found.conditions.iter().any(|c| c.hint.as_ref() == Some(hint));
    for one in found.suspensions.iter().filter(|one| !is_told(&one.hint)) {
        let until = until(one.until, now);
        let _ = match one.is_window {
            true if one.until.is_some_and(|at| at.0 <= now) => {
                writeln!(text, "{}: {}; that is over, and was not looked at since", one.actor, one.reason)
            }
            true => writeln!(text, "{}: {}", one.actor, one.reason),
            false => {
                let (what, since, actor) = (&one.what, one.since, &one.actor);
                writeln!(text, "{what} suspended by {actor} since {since}{until}: {}", one.reason)
            }
        };
        let _ = writeln!(text, "  hint: {}", one.hint);
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

    fn opened() -> OpenOptions {
        OpenOptions { create: true, clock: Arc::new(SystemClock) }
    }

    #[test]
    fn what_is_over_and_was_not_looked_at_since_is_told_as_that() {
        let at = |seconds| Stamp(Duration::from_secs(seconds));
        let suspension = SuspensionEntry {
            id: "4f2a9c11".into(),
            what: "--all".into(),
            except: Vec::new(),
            reason: "moving".into(),
            actor: "ada".into(),
            since: at(1_000_000),
            until: Some(at(1_000_060)),
            hint: "to resume: reconciled resume 4f2a9c11".into(),
            is_window: false,
        };
        let found = Explanation { suspensions: vec![suspension], ..Explanation::default() };
        let told = |now| text("x", &found, Duration::from_secs(now));
        let until = "--all suspended by ada since 1970-01-12T13:46:40Z until 1970-01-12T13:47:40Z";
        assert!(told(1_000_059).contains(&format!("{until}: moving")), "{}", told(1_000_059));
        let over = format!("{until}, which is over, and was not looked at since: moving");
        assert!(told(1_000_060).contains(&over), "{}", told(1_000_060));
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
        let text = text("", &ask("Zone/example.com#www/A").await, Duration::from_secs(1_000_100));
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
