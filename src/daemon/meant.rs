//! Which source and which scopes a question is about.

use super::instance::Instance;
use crate::{
    failure::Failure,
    operation::{SyncAsk, Unmatched, pattern, unmatched},
};
use reconciled_engine::{
    Store,
    plan::Selection,
    scheduler::{Stance, Standing},
};
use reconciled_provider::{Address, Pattern, Scope, problem::did_you_mean};
use std::{collections::BTreeSet, sync::Arc};

/// The scopes in which something is held that somebody consented to.
pub(super) async fn released(instance: &Instance) -> Result<BTreeSet<Scope>, Failure> {
    let db = &instance.writing.db;
    let mut domains = BTreeSet::new();
    for hold in db.holds().await? {
        // What a window or a person stops goes on by itself once they do not.
        if hold.once.is_none() && db.approval(hold.digest).await?.is_some() {
            domains.insert(hold.domain);
        }
    }
    let is_in = |scope: &Scope| domains.contains(&scope.provider) || domains.contains(&*scope.to_string());
    Ok(instance.scheduler.standing().into_keys().filter(is_in).collect())
}

/// The source that a commit is of where none is named: the only one there is.
pub(super) fn sole(instance: &Instance) -> Result<Arc<str>, Failure> {
    match &instance.session.config.sources[..] {
        [source] => Ok(source.name.clone()),
        sources => {
            let names: Vec<&str> = sources.iter().map(|source| &*source.name).collect();
            let hint = match names.is_empty() {
                true => "there is none in the configuration".to_owned(),
                false => format!("write --source with one of {}", names.join(", ")),
            };
            Err(Failure::hinted("it is not said which source the commit is of", hint))
        }
    }
}

pub(super) fn named(instance: &Instance, name: &str) -> Result<Arc<str>, Failure> {
    let sources = &instance.session.config.sources;
    let found = sources.iter().find(|source| *source.name == *name);
    let names: Vec<&str> = sources.iter().map(|source| &*source.name).collect();
    found.map(|source| source.name.clone()).ok_or_else(|| {
        Failure::hinted(
            format!("no source is called `{name}`"),
            format!("configured sources: {}", names.join(", ")),
        )
    })
}

/// Refuses the name of a provider that there is not.
fn is_configured(instance: &Instance, name: &str) -> Result<(), Failure> {
    let providers = &instance.session.config.providers;
    let names: Vec<&str> = providers.iter().map(|entry| &*entry.name).collect();
    if names.contains(&name) {
        return Ok(());
    }
    let hint = match did_you_mean(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("configured providers: {}", names.join(", ")),
    };
    Err(Failure::hinted(format!("no provider is called `{name}`"), hint))
}

/// The scopes that `ask` means, and what of it means nothing.
pub(super) async fn meant(
    instance: &Instance,
    ask: &SyncAsk,
    source: Option<&str>,
) -> Result<(BTreeSet<Scope>, Vec<Unmatched>), Failure> {
    let desired = instance.follower.desired();
    let of_source = |scope: &Scope| {
        let from = |resource: &reconciled_provider::Resource| {
            source.is_none_or(|source| desired.manifest(resource.origin).key.source() == source)
        };
        source.is_none() || desired.in_scope(scope).iter().any(from)
    };
    if let Some(name) = &ask.provider {
        is_configured(instance, name)?;
    }
    let of_provider = |scope: &Scope| ask.provider.as_deref().is_none_or(|name| *scope.provider == *name);
    let patterns = ask.addresses.iter().map(|text| pattern(text)).collect::<Result<Vec<Pattern>, _>>()?;
    let mut tracked = BTreeSet::new();
    for pattern in &patterns {
        let rows = instance.writing.db.reader().rows(Some(pattern)).await?;
        tracked.extend(rows.iter().filter_map(|row| row.scope.parse::<Scope>().ok()));
    }
    let named = |scope: &Scope| {
        let observer = instance.session.observer(&scope.provider);
        patterns.is_empty()
            || tracked.contains(scope)
            || desired.in_scope(scope).iter().any(|resource| {
                let part = observer.and_then(|observer| observer.part(scope, &resource.id));
                desired.known_by(scope, resource).any(|manifest| {
                    let address = Address { part: part.clone(), ..manifest.address.clone() };
                    patterns.iter().any(|pattern| pattern.matches(&address, manifest.key.group()))
                })
            })
    };
    let known: BTreeSet<Scope> =
        desired.scopes.keys().cloned().chain(instance.scheduler.standing().into_keys()).collect();
    let found: BTreeSet<Scope> =
        known.into_iter().filter(|scope| of_source(scope) && of_provider(scope) && named(scope)).collect();
    let selection = Selection { targets: patterns, ..Selection::default() };
    let reader = instance.writing.db.reader();
    let nothing = unmatched(&instance.session, reader, &desired, None, &selection).await?;
    if found.is_empty() && (!selection.targets.is_empty() || ask.provider.is_some()) {
        let to_see = || "to see what is tracked: reconciled status '*/*'".to_owned();
        return Err(match &nothing[..] {
            [one] => Failure::hinted(one.to_string(), one.hint().unwrap_or_else(to_see)),
            _ => Failure::hinted("nothing that is declared or tracked is meant by that", to_see()),
        });
    }
    Ok((found, nothing))
}

/// The scopes in which something of `source`, or what nobody desires any more, is about to be looked at.
pub(super) fn busy(instance: &Instance, source: Option<&str>) -> Vec<Scope> {
    of_source(instance, source, |s| s.is_queued || s.running_since.is_some())
}

/// The same of what is at rest and not in sync: held, stalled, failed or suspended. What nobody desires any more may
/// be another source's, where there are several.
pub(super) fn left_over(instance: &Instance, source: Option<&str>) -> Vec<Scope> {
    let desired = instance.follower.desired();
    let mut scopes = of_source(instance, source, |s| is_at_rest(s) && s.stance != Stance::InSync);
    scopes
        .retain(|scope| source.is_none() || desired.sources.len() < 2 || !desired.in_scope(scope).is_empty());
    scopes
}

fn of_source(instance: &Instance, source: Option<&str>, is_meant: impl Fn(&Standing) -> bool) -> Vec<Scope> {
    let desired = instance.follower.desired();
    let is_of_source = |scope: &Scope| {
        let declared = desired.in_scope(scope);
        let of = |resource: &reconciled_provider::Resource| {
            Some(desired.manifest(resource.origin).key.source()) == source
        };
        declared.is_empty() || declared.iter().any(of)
    };
    let standing = instance.scheduler.standing().into_iter();
    standing.filter(|(scope, s)| is_meant(s) && is_of_source(scope)).map(|(scope, _)| scope).collect()
}

/// A scope at rest changes only when somebody does something.
pub(super) fn is_at_rest(standing: &Standing) -> bool {
    !standing.is_queued
        && standing.running_since.is_none()
        && standing.ended_at.is_some()
        && standing.stance != Stance::Waiting
}
