//! `explain`: what a kind may hold, from the types that parse it; or why an address is not in sync, from what
//! the last pass left in the state.

use super::{Args, Exit, Out};
use crate::{
    config::Environment,
    manifest::explain,
    registry,
    render::plan::Document,
    session::{Failure, Session},
    store::{HistoryFilter, Reader, Status, TrackedEntry},
};
use clap::Args as ClapArgs;
use reconciled_provider::Pattern;
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// How much history an address is shown with.
const RECENT: usize = 5;

/// Arguments of `explain`.
#[derive(Clone, Debug, ClapArgs)]
pub struct ExplainArgs {
    /// A kind (`Zone`, or `Zone.dns` where groups share a name), a field of it (`Zone.records.values`), or an
    /// address (`Zone/example.com#www/A`)
    #[arg(value_name = "KIND[.FIELD]|ADDRESS", required_unless_present = "schemas")]
    what: Option<String>,
    /// Write the JSON Schema of every kind, and of the plan document, into this folder
    #[arg(long, value_name = "DIR")]
    schemas: Option<PathBuf>,
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    explain: &ExplainArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    if let Some(dir) = &explain.schemas {
        write_schemas(dir, out)?;
    }
    let Some(what) = &explain.what else { return Ok(Exit::Good) };
    if what.contains('/') {
        return address(args, what, environment, out).await;
    }
    match explain::explain(&registry::kinds(), what) {
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

fn write_schemas(dir: &Path, out: &mut Out) -> Result<(), Failure> {
    let mut files = explain::schemas(&registry::kinds());
    let plan = serde_json::to_string_pretty(&Document::schema())
        .map_err(|e| Failure::plain(format!("the schema of the plan cannot be written: {e}")))?;
    files.insert("plan.json".to_string(), plan + "\n");
    fs::create_dir_all(dir).map_err(|e| Failure::plain(format!("create {}: {e}", dir.display())))?;
    for (name, text) in &files {
        let path = dir.join(name);
        fs::write(&path, text).map_err(|e| Failure::plain(format!("write {}: {e}", path.display())))?;
    }
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf());
    let dir = dir.display();
    out.talk(&format!("{} schemas written to {dir}; plan.json is that of `plan -o json`", files.len()));
    out.talk("to have an editor with yaml-language-server check a manifest, put this line at its top:");
    out.talk(&format!("  # yaml-language-server: $schema={dir}/all.json"));
    Ok(())
}

async fn address(args: &Args, what: &str, environment: Environment, out: &mut Out) -> Result<Exit, Failure> {
    let pattern: Pattern = what.parse().map_err(|error| {
        Failure::hinted(
            format!("`{what}` is no address: {error}"),
            "write KIND/NAME or KIND/NAME#PART, such as Zone/example.com#www/A",
        )
    })?;
    let session = Session::open(args.config.as_deref(), environment).await?;
    let reader = session.reader().await?;
    match why(&reader, what, &pattern).await? {
        Some(text) => out.data(&text),
        None => {
            return Err(Failure::hinted(
                format!("nothing is known of `{what}`: it is not tracked, and no pass reported it"),
                format!("to see whether it is declared: reconciled plan --target '{what}'"),
            ));
        }
    }
    Ok(Exit::Good)
}

/// What the state knows of the resources that `pattern` means; none when it knows nothing.
async fn why(reader: &Reader, what: &str, pattern: &Pattern) -> Result<Option<String>, Failure> {
    let rows = reader.rows(Some(pattern)).await?;
    let status = reader.status().await?;
    let filter = HistoryFilter { address: Some(pattern.clone()), ..HistoryFilter::default() };
    let history = reader.history(&filter).await?;
    let mut text = String::new();
    let troubles = troubles(&status, pattern, &rows, &mut text);
    if rows.is_empty() && history.is_empty() && troubles == 0 {
        return Ok(None);
    }
    if troubles == 0 {
        text = match rows.as_slice() {
            [] => format!("{what} is not tracked any more\n"),
            _ if rows.iter().any(|row| row.state == "pending") => {
                format!("{what} is on its way: the remote has accepted it, but it is not there yet\n")
            }
            _ => format!("{what} was in sync when it was last looked at\n"),
        };
    }
    if !rows.is_empty() {
        text.push_str("\ntracked:\n");
    }
    for row in &rows {
        let _ = writeln!(text, "  {}", row.address);
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
    if !history.is_empty() {
        text.push_str("\nlast:\n");
    }
    for entry in history.iter().take(RECENT) {
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
    Ok(Some(text.lines().map(|line| crate::render::clean(line) + "\n").collect()))
}

/// Writes what keeps the resources from being in sync; returns how many things that are.
fn troubles(status: &Status, pattern: &Pattern, rows: &[TrackedEntry], text: &mut String) -> usize {
    let scopes: BTreeSet<&str> = rows.iter().map(|row| row.scope.as_str()).collect();
    let ids: BTreeSet<(&str, &str)> = rows.iter().map(|row| (row.scope.as_str(), row.id.as_str())).collect();
    let is_meant = |address: &Option<String>| {
        let address = address.as_ref().and_then(|text| text.parse::<reconciled_provider::Address>().ok());
        address.is_some_and(|address| pattern.matches(&address, address.group.as_deref().unwrap_or("")))
    };
    let mut count = 0;
    for condition in &status.conditions {
        let scope = condition.scope.as_str();
        let concerns = match &condition.id {
            Some(id) => ids.contains(&(scope, id)) || is_meant(&condition.address),
            None => scopes.contains(scope) || is_meant(&condition.address),
        };
        if !concerns {
            continue;
        }
        count += 1;
        let who = condition.address.as_deref().unwrap_or(scope);
        let _ =
            writeln!(text, "{who} is {} ({}) since {}", condition.kind, condition.reason, condition.since);
        let _ = writeln!(text, "  {}", condition.message);
        if let Some(next) = condition.next_try {
            let _ = writeln!(text, "  next try {next}");
        }
        if let Some(hint) = &condition.hint {
            let _ = writeln!(text, "  hint: {hint}");
        }
    }
    for hold in &status.holds {
        // A guard domain is a scope, or all scopes of an entry.
        let is_held =
            |scope: &&str| *scope == hold.domain || scope.split('/').next() == Some(hold.domain.as_str());
        if !scopes.iter().any(is_held) {
            continue;
        }
        count += 1;
        let _ = writeln!(text, "{} is held since {}: {}", hold.domain, hold.since, hold.reasons.join("; "));
        let short = &hold.digest[..8.min(hold.digest.len())];
        let _ = writeln!(text, "  hint: to consent: reconciled approve {short} --reason \"…\"");
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        clock::SystemClock,
        store::{Db, OpenOptions},
    };
    use reconciled_engine::{
        Store as _, Write,
        store::{Condition, ConditionKind},
    };
    use reconciled_provider::Scope;
    use std::{sync::Arc, time::Duration};

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
        };
        db.commit(vec![Write::Conditions(scope, vec![condition])]).await.unwrap();
        let ask = |what: &'static str| {
            let reader = db.reader().clone();
            async move { why(&reader, what, &what.parse().unwrap()).await.unwrap() }
        };
        let text = ask("Zone/example.com#www/A").await.unwrap();
        for part in ["is stalled (Conflict)", "other values", "hint: reconciled adopt"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(ask("Zone/example.com#mail/A").await, None);
        db.close().await;
    }

    #[test]
    fn schemas_are_written_with_that_of_the_plan() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("schemas");
        write_schemas(&dir, &mut Out::new(&Environment::default())).unwrap();
        for name in ["all.json", "plan.json", "zone-dns-v1.json", "recordset-dns-v1.json"] {
            let text = fs::read_to_string(dir.join(name)).unwrap();
            assert!(serde_json::from_str::<serde_json::Value>(&text).unwrap().is_object(), "{name}");
        }
    }
}
