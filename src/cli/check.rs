//! `check`: everything an invocation needs, looked at one by one. Writes nothing but the mirrors of sources,
//! and never shows a secret.

mod kept;
mod report;

use self::{
    kept::upkeep,
    report::{Report, Verdict},
};
use super::{
    Args, Exit, Out,
    answer::AnswerArgs,
    probe::{self, Answer},
    settings,
};
use crate::{
    access, api,
    client::{Client, Identity},
    config::{
        self, Config, Environment, HostSecrets, Place, ProviderEntry, SecretPlace, Way, describe_secret,
    },
    failure::{self, Failure},
    manifest, operation,
    session::{Session, Snapshot, SourceAsk, TreeFiles, renames, wrong_entries},
    sops::Identities,
    store::{Holder, KEY_FILE, Reader, StoreError, holder},
    telemetry::collector::{self, Collector, Protocol},
    text::{counted, time::span},
    trust::Keys,
};
use clap::Args as ClapArgs;
use reconciled_engine::Store;
use reconciled_provider::{Clock, Node, Scope, SecretRef, Secrets};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, Instant},
};

/// How long a daemon may take to say who it is: it needs no work for that.
const LONGEST_ANSWER: Duration = Duration::from_secs(3);

/// Arguments of `check`.
#[derive(Clone, Debug, ClapArgs)]
pub struct CheckArgs {
    /// How long each source and provider may take
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    timeout: config::Period,
    #[command(flatten)]
    answer: AnswerArgs,
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    check: &CheckArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let mut report = Report::new(out, check.answer);
    let path = config::locate(args.config.as_deref(), &environment)?;
    let (config, problems) = config::read(&path, &environment);
    problems.iter().for_each(|problem| report.problem(problem));
    let Some(config) = config else { return report.end() };
    let counts = format!(
        "{}: {}, {}, instance {}",
        path.display(),
        counted(config.sources.len(), "source"),
        counted(config.providers.len(), "provider"),
        config.instance
    );
    let wrong = wrong_entries(&config);
    match wrong.is_empty() {
        true => report.ok("config", &counts),
        false => wrong.iter().for_each(|problem| report.problem(problem)),
    }
    writable_by_others(&path, &mut report);
    credentials(&config, &environment, &mut report);
    reach(&config, &environment, &mut report);
    for wrong in settings::wrong(&config, &environment) {
        report.say(Verdict::Fail, &wrong.what, &wrong.text, Some(&wrong.hint));
    }
    signatures(&config, &mut report);
    windows(&config, &mut report);
    upkeep(&config, &mut report);
    spans(&config, &mut report).await;
    socket(&config, check.timeout.0, &mut report).await;
    let clock = crate::clock::SystemClock;
    state(&config, std::sync::Arc::new(clock), &mut report).await;
    match Session::open(args.config.as_deref(), environment).await {
        Ok(session) => {
            targets(&config, &mut report);
            let snapshots = sources(&session, check.timeout.0, &mut report).await;
            let scopes = declared(&session, snapshots, &mut report).await;
            providers(&session, &scopes, check.timeout.0, &mut report).await;
        }
        // Said already, of the entries.
        Err(Failure::Problems(_)) if !wrong.is_empty() => {}
        Err(Failure::Problems(problems)) => problems.iter().for_each(|problem| report.problem(problem)),
        // Said in the check of the state already.
        Err(Failure::Store(_)) => {}
        Err(failure) => report.failure("config", &failure),
    }
    report.end()
}

/// Whoever can write the configuration decides which commands run and where credentials go.
fn writable_by_others(path: &Path, report: &mut Report<'_>) {
    let Ok(metadata) = fs::metadata(path) else { return };
    if metadata.permissions().mode() & 0o002 != 0 {
        let text = format!("{} can be written by everyone", path.display());
        report.say(Verdict::Warn, "config", &text, Some(&format!("chmod o-w {}", path.display())));
    }
}

fn credentials(config: &Config, environment: &Environment, report: &mut Report<'_>) {
    // Marks are not made here, so the key does not matter.
    let secrets =
        HostSecrets::new([0; 32], environment.clone(), config.secrets.clone()).with_sops(&config.sops);
    for (what, reference) in references(config) {
        let place = describe_secret(&reference);
        match secrets.reveal(&reference) {
            Err(error) => {
                report.say(Verdict::Fail, &what, &error.chain(), error.hint.as_deref());
            }
            Ok(_) => match secrets.warning(&reference) {
                Some(warning) => {
                    let (text, hint) = warning.split_once(": ").unwrap_or((&warning, ""));
                    report.say(Verdict::Warn, &what, text, Some(hint));
                }
                None => report.ok(&what, &format!("{place} can be read")),
            },
        }
    }
}

/// Whether the keys can be used that may sign, and whether anybody could add one.
fn signatures(config: &Config, report: &mut Report<'_>) {
    for source in &config.sources {
        let Some(verify) = &source.verify else { continue };
        let what = format!("source {} signatures", source.name);
        match Keys::read(&verify.keys) {
            Ok(keys) => report.ok(&what, &format!("{} may sign", counted(keys.count(), "key"))),
            Err(error) => {
                report.say(Verdict::Fail, &what, &failure::chain(&error), Some(&error.hint()));
            }
        }
        let files = [&verify.keys.allowed_signers, &verify.keys.gpg_keys];
        files.into_iter().flatten().for_each(|path| writable_by_others(path, report));
    }
}

/// Whether the windows of a source leave time to write in: where they do not, that shows only once something waits.
fn windows(config: &Config, report: &mut Report<'_>) {
    let now = crate::clock::SystemClock.now();
    for source in config.sources.iter().filter(|source| !source.windows.0.is_empty()) {
        let what = format!("source {} windows", source.name);
        match source.windows.closed(now) {
            None => report.ok(&what, "open now"),
            Some(closed) if closed.until.is_some() => report.ok(&what, &closed.why),
            Some(closed) => {
                let text = format!("{}, and no opening is in sight", closed.why);
                let hint =
                    "leave some time that no `deny` covers, and that an `allow` has where there is one";
                report.say(Verdict::Warn, &what, &text, Some(hint));
            }
        }
    }
}

/// Every secret the configuration names, by where it is used.
fn references(config: &Config) -> BTreeMap<String, SecretRef> {
    let mut all = BTreeMap::new();
    for (name, declared) in &config.secrets {
        all.insert(format!("secret {name}"), declared.place.clone());
    }
    for (number, key) in (1..).zip(&config.sops) {
        all.insert(format!("sops key {number}"), key.age.clone());
    }
    for source in &config.sources {
        let webhook = source.webhook.as_ref().map(|webhook| &webhook.secret);
        let named = [
            ("token", source.token.as_ref()),
            ("ssh passphrase", source.ssh_passphrase.as_ref()),
            ("webhook", webhook),
        ];
        let report = source.report.as_ref().map(|report| &report.token);
        for (word, reference) in named.into_iter().chain([("report token", report)]) {
            if let Some(reference) = reference {
                all.insert(format!("source {} {word}", source.name), reference.clone());
            }
        }
    }
    for token in &config.tokens {
        all.insert(format!("hash of token {}", token.name), token.hash.clone());
    }
    for entry in &config.providers {
        all.extend(secrets_of(entry));
    }
    for receiver in &config.notify {
        let named = secrets_of_way(&receiver.way).into_iter();
        all.extend(
            named.map(|(word, reference)| (format!("receiver {} {word}", receiver.name), reference.clone())),
        );
    }
    all
}

fn secrets_of_way(way: &Way) -> Vec<(&'static str, &SecretRef)> {
    let (url, more) = match way {
        Way::Webhook { url, secret, .. } => (Some(url), ("secret", secret.as_ref())),
        Way::Slack { url } => (Some(url), ("token", None)),
        Way::Alertmanager { url, token } | Way::Ntfy { url, token } => (Some(url), ("token", token.as_ref())),
        Way::Email(email) => (None, ("password", email.login.as_ref().map(|(_, password)| password))),
    };
    let url = url.and_then(|url| match url {
        Place::Plain(_) => None,
        Place::Secret(reference) => Some(("url", reference)),
    });
    url.into_iter().chain(more.1.map(|reference| (more.0, reference))).collect()
}

/// Who may reach the daemon from elsewhere; of a webhook the path, which a forge is told, and never the secret.
fn reach(config: &Config, environment: &Environment, report: &mut Report<'_>) {
    let secrets =
        HostSecrets::new([0; 32], environment.clone(), config.secrets.clone()).with_sops(&config.sops);
    // What cannot be read at all was said already.
    let is_readable = |reference| secrets.reveal(reference).is_ok();
    for token in config.tokens.iter().filter(|token| is_readable(&token.hash)) {
        let what = format!("token {}", token.name);
        match access::hash_of(token, &secrets) {
            Ok(_) => report.ok(&what, &format!("role {}", token.role)),
            Err(failure) => report.failure(&what, &failure),
        }
    }
    for (number, key) in (1..).zip(&config.sops) {
        let what = format!("sops key {number}");
        let Ok(text) = secrets.reveal(&key.age) else { continue };
        let mut identities = Identities::default();
        match text.reveal_str().and_then(|text| identities.add(text)) {
            Ok(()) => report
                .ok(&what, &format!("opens what is encrypted for {}", identities.recipients().join(", "))),
            Err(error) => report.say(Verdict::Fail, &what, &error.chain(), error.hint.as_deref()),
        }
    }
    for source in &config.sources {
        let Some(webhook) = source.webhook.as_ref().filter(|webhook| is_readable(&webhook.secret)) else {
            continue;
        };
        let what = format!("webhook {}", source.name);
        match access::secret_of(webhook, &secrets) {
            Ok(secret) => {
                let path = access::path_of(&source.name, &secret);
                report.ok(&what, &format!("give the forge this address: https://HOST{path}"));
            }
            Err(failure) => report.failure(&what, &failure),
        }
    }
}

/// What only a backend understands is a secret where it is written like one, also within another key.
fn secrets_of(entry: &ProviderEntry) -> Vec<(String, SecretRef)> {
    let mut found = Vec::new();
    secrets_in(entry, &entry.rest, &format!("provider {} ", entry.name), &mut found);
    found
}

fn secrets_in(entry: &ProviderEntry, node: &Node, path: &str, found: &mut Vec<(String, SecretRef)>) {
    let is_place = |word: &str| matches!(word, "file" | "env" | "credential" | "exec");
    for (key, value) in node.entries() {
        let Some(key) = key.as_str() else { continue };
        let fields = value.entries();
        if fields.len() != 1 || !fields[0].0.as_str().is_some_and(is_place) {
            secrets_in(entry, value, &format!("{path}{key}."), found);
        } else if let (Some(SecretPlace(reference)), _) = value.decode::<SecretPlace>(&entry.file) {
            found.push((format!("{path}{key}"), reference));
        }
    }
}

/// Whether a daemon could make its socket where it is configured, or one that is there answers: the system connects to a
/// process that hangs as well.
async fn socket(config: &Config, limit: Duration, report: &mut Report<'_>) {
    let path = &config.api.socket;
    let shown = path.display();
    let limit = limit.min(LONGEST_ANSWER);
    let found = async {
        match api::look_at(path)? {
            api::Found::Answering => Client::unix(path)?.identity_within(limit).await,
            api::Found::Nothing | api::Found::Left => Ok(None),
        }
    };
    match found.await {
        Ok(Some(Identity { instance, version, state_dir, .. })) => {
            let text = format!("{shown} answers: instance {instance}, version {version}, state {state_dir}");
            match Path::new(&state_dir) == config.state_dir {
                true => report.ok("api.socket", &text),
                false => {
                    let hint = "it is the daemon of another configuration; name another `api.socket` here";
                    report.say(Verdict::Fail, "api.socket", &text, Some(hint));
                }
            }
        }
        Ok(None) => report.ok("api.socket", &format!("{shown} is free; `run` makes it")),
        Err(Failure::Silent(message)) => {
            let text = format!("{message}: {} were given", span(limit));
            report.failure("api.socket", &Failure::Silent(text));
        }
        Err(failure) => report.failure("api.socket", &failure),
    }
    if let Some(why) = api::barred(&config.api) {
        report.say(Verdict::Warn, "api.group", &why, Some(api::BARRED));
    }
}

/// Whether the collector of spans takes them, in what is spoken to it.
async fn spans(config: &Config, report: &mut Report<'_>) {
    let Some(url) = &config.telemetry.otlp else { return };
    let way = Protocol::of(url).name();
    let asked = match Collector::new(url) {
        Ok(mut collector) => collector.probe().await,
        Err(error) => Err(error),
    };
    match asked {
        Ok(()) => report.ok("telemetry.otlp", &format!("{url} takes spans, by {way}")),
        // The daemon does its work without it.
        Err(error) => {
            let text = format!("{url} does not take spans, by {way}: {error}");
            report.say(Verdict::Warn, "telemetry.otlp", &text, Some(collector::hint(url)));
        }
    }
}

async fn state(config: &Config, clock: std::sync::Arc<dyn Clock>, report: &mut Report<'_>) {
    let dir = config.state_dir.as_path();
    let shown = dir.display();
    match fs::metadata(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return report.ok("state", &format!("{shown} is not there yet; the first `apply` makes it"));
        }
        Err(error) => {
            let hint = "let the service's user reach it, or change `stateDir`";
            return report.say(Verdict::Fail, "state", &format!("read {shown}: {error}"), Some(hint));
        }
        Ok(metadata) => {
            if metadata.permissions().mode() & 0o007 != 0 {
                let hint = format!("chmod 700 {shown}");
                report.say(Verdict::Warn, "state", &format!("{shown} is open to everyone"), Some(&hint));
            }
        }
    }
    match tempfile::tempfile_in(dir) {
        Ok(_) => report.ok("state", &format!("{shown} can be written")),
        Err(error) => {
            let hint = format!("let the service's user write it: chown USER {shown}");
            report.say(Verdict::Fail, "state", &format!("write to {shown}: {error}"), Some(&hint));
        }
    }
    match holder(dir) {
        Ok(Holder::Nobody) => report.ok("lock", "free"),
        Ok(Holder::Process(pid)) => {
            let pid = pid.map_or("another process".to_string(), |pid| format!("process {pid}"));
            report.ok("lock", &format!("held by {pid}"));
        }
        Err(error) => report.failure("lock", &error.into()),
    }
    let checked = match Reader::open(dir, clock).await {
        Ok(reader) => match reader.quick_check().await {
            Ok(()) => reader.has_its_names(&renames(config)).await,
            damage => damage,
        },
        Err(error) => Err(error),
    };
    match checked {
        Ok(()) => report.ok("database", "sound, schema of this version"),
        // The key is made with the database, and stays where that was lost.
        Err(StoreError::NotThere(_)) if !dir.join(KEY_FILE).exists() => {
            report.ok("database", "none yet; the first `apply` makes it");
        }
        Err(error @ (StoreError::OlderSchema { .. } | StoreError::Renamed(_))) => {
            let failure = Failure::from(error);
            report.say(Verdict::Warn, "database", &failure.to_string(), failure.hint().as_deref());
        }
        Err(error) => report.failure("database", &error.into()),
    }
}

/// The scopes that the sources declare, none where they cannot be read, which is said elsewhere; tells of manifests with errors.
async fn declared(session: &Session, snapshots: Vec<Snapshot>, report: &mut Report<'_>) -> Vec<Scope> {
    let Ok(reader) = session.reader_as_it_is().await else { return Vec::new() };
    let Ok(outlook) = session.load_newest(snapshots, &reader).await else { return Vec::new() };
    for name in &outlook.broken {
        let text = "they have errors; what they declare stays as it is";
        let hint = "to see each with its place: reconciled plan";
        report.say(Verdict::Warn, &format!("manifests of {name}"), text, Some(hint));
    }
    outlook.desired.scopes.into_keys().collect()
}

async fn providers(session: &Session, scopes: &[Scope], limit: Duration, report: &mut Report<'_>) {
    session.ailing().iter().for_each(|problem| report.problem(problem));
    let ailing = session.ailing_names();
    for entry in session.config.providers.iter().filter(|entry| !ailing.contains(&entry.name)) {
        let Some(watched) = session.surveyor.entries.get(&entry.name) else { continue };
        let what = format!("provider {}", entry.name);
        let begun = Instant::now();
        match tokio::time::timeout(limit, probe::ask(session, entry, &*watched.observer, scopes)).await {
            Ok(Ok(Answer::Answered)) => {
                report.ok(&what, &format!("answers in {} ms", begun.elapsed().as_millis()));
            }
            Ok(Ok(Answer::NotAsked(why))) => report.ok(&what, &format!("not asked: {why}")),
            Ok(Err(error)) => report.failure(&what, &error.into()),
            Err(_) => late(&what, limit, report),
        }
    }
}

/// Whether the hooks of repositories that are pushed to know this configuration.
fn targets(config: &Config, report: &mut Report<'_>) {
    match operation::stale(config) {
        Ok(stale) => {
            for one in stale {
                report.say(Verdict::Warn, "push target", &one.text(), Some(&one.hint()));
            }
        }
        Err(failure) => report.failure("push target", &failure),
    }
}

/// Asks each source; what those have that answered.
async fn sources(session: &Session, limit: Duration, report: &mut Report<'_>) -> Vec<Snapshot> {
    let mut snapshots = Vec::new();
    // A source that was renamed can be reached all the same.
    let Ok(reader) = session.reader_as_it_is().await else { return snapshots };
    for source in &session.config.sources {
        let what = format!("source {}", source.name);
        let asked = async {
            let in_force = reader.in_force(&source.name).await?.map(|revision| revision.commit);
            let in_force = in_force.filter(|commit| commit.len() == 40);
            session.poll(source, SourceAsk { in_force, ..SourceAsk::default() }).await
        };
        let snapshot = match tokio::time::timeout(limit, asked).await {
            Err(_) => {
                late(&what, limit, report);
                continue;
            }
            Ok(Err(failure)) => {
                report.failure(&what, &failure);
                continue;
            }
            Ok(Ok(snapshot)) => snapshot,
        };
        let misplaced =
            manifest::misplaced(&TreeFiles::new(&*snapshot.tree), &snapshot.rules, &session.config.host);
        match &snapshot.behind {
            Some(error) => {
                report.failure(&what, &Failure::Other(error.to_string(), Some(error.hint())));
            }
            None if misplaced.is_empty() => report.ok(&what, &format!("at {}", snapshot.label)),
            None => {}
        }
        for problem in misplaced {
            let place = problem.place.as_ref().map(|place| format!("{}: ", place.file)).unwrap_or_default();
            report.say(Verdict::Fail, &what, &format!("{place}{}", problem.message), problem.hint.as_deref());
        }
        snapshots.push(snapshot);
    }
    snapshots
}

fn late(what: &str, limit: Duration, report: &mut Report<'_>) {
    let text = format!("no answer within {}", span(limit));
    report.say(
        Verdict::Fail,
        what,
        &text,
        Some("check the address and the firewall, or allow more: --timeout 60s"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_secret_that_the_configuration_names_is_looked_at() {
        let text = concat!(
            "secrets: {db: {env: DB}}\n",
            "api: {listen: '127.0.0.1:9440'}\ntokens: [{name: ci, role: read, hash: {file: /h}}]\n",
            "sources: [{name: infra, url: /srv/infra.git, token: {credential: t}, ",
            "webhook: {type: github, secret: {credential: w}}, ",
            "report: {github: acme/infra, token: {credential: gh}}}]\n",
            "notify:\n",
            "  - {name: ops, type: slack, url: {credential: slack}, on: [degraded]}\n",
            "  - {name: am, type: alertmanager, url: 'http://a:9093', token: {file: /am}, on: [held]}\n",
            "  - {name: push, type: ntfy, url: 'https://n/t', token: {env: NTFY}, on: [held]}\n",
            "  - {name: own, type: webhook, url: 'https://w/t', secret: {file: /w}, on: [held]}\n",
            "providers:\n",
            "  - {name: pdns, type: powerdns, url: 'http://127.0.0.1:1', apiKey: {file: /key}}\n",
            "  - {name: zones, type: zonefile, directory: /zones}\n",
        );
        let file = reconciled_provider::SourceFile::new("c.yaml", text);
        let (config, problems) = config::parse(file.into(), &Environment::default());
        assert_eq!(problems, []);
        let found: Vec<String> = references(&config.unwrap())
            .into_iter()
            .map(|(what, reference)| format!("{what}: {}", describe_secret(&reference)))
            .collect();
        assert_eq!(
            found,
            [
                "hash of token ci: file /h",
                "provider pdns apiKey: file /key",
                "receiver am token: file /am",
                "receiver ops url: credential slack",
                "receiver own secret: file /w",
                "receiver push token: environment variable NTFY",
                "secret db: environment variable DB",
                "source infra report token: credential gh",
                "source infra token: credential t",
                "source infra webhook: credential w",
            ]
        );
    }
}
