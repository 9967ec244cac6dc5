//! Whose consent counts for which plan. Pure but for reading the inventory.
//!
//! Guarantees: a way to consent counts for a guard domain only where every configured source that declares something
//! there, or has something tracked there, lists it under `approve`. Consent that comes by a source (a push, a trailer of
//! a commit) counts only where that source is among them: nobody consents to what is none of theirs.

use crate::{
    config::{Approver, SourceConfig},
    failure::Failure,
    session::Outlook,
    store::Reader,
};
use reconciled_engine::{
    Desired,
    survey::{Domain, Survey, Wanted},
};
use reconciled_provider::{ManifestKey, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// The sources that have to do with each scope: what they declare there, and what of theirs is tracked there.
#[derive(Default)]
pub(crate) struct Concerned(BTreeMap<Scope, BTreeSet<Arc<str>>>);

/// Why consent does not count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Barred<'s> {
    /// This source, which the plan is about, does not list the way.
    By(&'s SourceConfig),
    /// It comes by sources that the plan is not about.
    Elsewhere,
}

impl Concerned {
    /// What is declared in `desired`, each of which may come into force, and what is tracked.
    pub(crate) async fn of(reader: &Reader, desired: &[&Desired]) -> Result<Concerned, Failure> {
        let mut scopes: BTreeMap<Scope, BTreeSet<Arc<str>>> = BTreeMap::new();
        for desired in desired {
            for (scope, resources) in &desired.scopes {
                let sources = scopes.entry(scope.clone()).or_default();
                for resource in &**resources {
                    let source = desired.manifest(resource.origin).key.source();
                    if !sources.contains(source) {
                        sources.insert(source.into());
                    }
                }
            }
        }
        for row in reader.rows(None).await? {
            let Ok(scope) = row.scope.parse::<Scope>() else { continue };
            let sources = scopes.entry(scope).or_default();
            sources.insert(ManifestKey(row.manifest.as_str().into()).source().into());
        }
        Ok(Concerned(scopes))
    }

    /// The sources that a plan of the guard domain `domain` is about: a scope, or all of an entry.
    pub(crate) fn about(&self, domain: &str) -> BTreeSet<&str> {
        let is_of = |scope: &Scope| *scope.provider == *domain || *scope.to_string() == *domain;
        let of_domain = self.0.iter().filter(|(scope, _)| is_of(scope));
        of_domain.flat_map(|(_, sources)| sources.iter().map(|source| &**source)).collect()
    }

    /// Every scope that is declared or tracked.
    pub(crate) fn scopes(&self) -> impl Iterator<Item = &Scope> {
        self.0.keys()
    }

    /// The ways by which consent to a plan of `domain` counts; of those that come by a source, by one of the sources `by`.
    pub(crate) fn ways(&self, sources: &[SourceConfig], domain: &str, by: &[&str]) -> Vec<Approver> {
        let about = self.about(domain);
        let counts = |way: &Approver| match way {
            Approver::Socket => barring(sources, Some(&about), *way).is_none(),
            Approver::PushOption | Approver::Trailer => self.counts(sources, domain, *way, by).is_ok(),
        };
        [Approver::Socket, Approver::PushOption, Approver::Trailer].into_iter().filter(counts).collect()
    }

    /// Whether consent to a plan of `domain` counts that comes the `way`, by one of the sources `by`.
    pub(crate) fn counts<'s>(
        &self,
        sources: &'s [SourceConfig],
        domain: &str,
        way: Approver,
        by: &[&str],
    ) -> Result<(), Barred<'s>> {
        let about = self.about(domain);
        if !by.iter().any(|source| about.contains(source)) {
            return Err(Barred::Elsewhere);
        }
        barring(sources, Some(&about), way).map_or(Ok(()), |source| Err(Barred::By(source)))
    }
}

/// The first source that does not list `way`; `about` none for a plan that may be about any.
pub(crate) fn barring<'s>(
    sources: &'s [SourceConfig],
    about: Option<&BTreeSet<&str>>,
    way: Approver,
) -> Option<&'s SourceConfig> {
    let is_meant = |source: &&SourceConfig| about.is_none_or(|about| about.contains(&*source.name));
    sources.iter().filter(is_meant).find(|source| !source.approve.contains(&way))
}

/// Whether consent to a plan of `domain` may come the `way`, by what `survey` has seen of its scopes.
pub(crate) fn may(
    sources: &[SourceConfig],
    domain: &Domain,
    survey: &Survey,
    desired: &Desired,
    way: Approver,
) -> bool {
    let mut about: BTreeSet<&str> = BTreeSet::new();
    for scope in &domain.scopes {
        let declared = desired.in_scope(scope).iter();
        about.extend(declared.map(|resource| desired.manifest(resource.origin).key.source()));
        if let Some(Ok(view)) = survey.scopes.get(scope) {
            about.extend(view.memory.rows.iter().map(|row| row.manifest.source()));
        }
    }
    let is_of_any = sources.iter().any(|source| about.contains(&*source.name));
    is_of_any && barring(sources, Some(&about), way).is_none()
}

/// Has a survey know what the commits consent to that are to come into force.
pub(crate) async fn lay_over(
    sources: &[SourceConfig],
    reader: &Reader,
    outlook: &Outlook,
    survey: &mut Survey,
    at: Duration,
) -> Result<(), Failure> {
    let snapshots = outlook.snapshots();
    let given = snapshots
        .iter()
        .flat_map(|snapshot| snapshot.approvals(at).into_iter().map(|approval| (&*snapshot.name, approval)));
    let given: Vec<_> = given.collect();
    if given.is_empty() {
        return Ok(());
    }
    let concerned = Concerned::of(reader, &[&outlook.desired]).await?;
    let wanted = survey.domains.values_mut().flat_map(Domain::wanted);
    for Wanted { hold, approval } in wanted.filter(|wanted| wanted.approval.is_none()) {
        let counts = |by: &str| concerned.counts(sources, &hold.domain, Approver::Trailer, &[by]).is_ok();
        let found = given.iter().find(|(by, approval)| hold.digest == approval.digest && counts(by));
        *approval = found.map(|(_, approval)| approval.clone());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> Vec<SourceConfig> {
        let text = "sources:\n  - {name: a, url: /a, allow: all, approve: [socket, push-option, trailer]}\n  - {name: b, url: /b, allow: all, approve: [push-option]}\n";
        let file = reconciled_provider::SourceFile::new("c.yaml", text);
        let (config, problems) = crate::config::parse(file.into(), &Default::default());
        assert!(!problems.iter().any(reconciled_provider::Problem::is_error), "{problems:?}");
        config.unwrap().sources
    }

    #[test]
    fn a_plan_of_which_nothing_is_known_may_be_of_any_source() {
        let sources = sources();
        let barred = |about: Option<&[&str]>| {
            let about = about.map(|names| names.iter().copied().collect());
            barring(&sources, about.as_ref(), Approver::Socket).map(|source| source.name.to_string())
        };
        assert_eq!(barred(Some(&["a"])), None);
        assert_eq!(barred(Some(&["a", "b"])).as_deref(), Some("b"));
        assert_eq!(barred(None).as_deref(), Some("b"));
    }

    #[test]
    fn consent_counts_by_a_source_of_the_plan_where_all_of_them_list_the_way() {
        let sources = sources();
        let of = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
        let concerned = Concerned(BTreeMap::from([
            (Scope::new("pdns", "a"), of(&["a"])),
            (Scope::new("pdns", "b"), of(&["b"])),
            (Scope::new("pdns", "both"), of(&["a", "b"])),
            (Scope::new("pdns", "none"), of(&["gone"])),
        ]));
        let check = |domain: &str, way: Approver, by: &str, expect: &str| {
            let said = match concerned.counts(&sources, domain, way, &[by]) {
                Ok(()) => "counts".to_string(),
                Err(Barred::Elsewhere) => "elsewhere".to_string(),
                Err(Barred::By(source)) => format!("barred by {}", source.name),
            };
            assert_eq!(said, expect, "{domain} {way:?} by {by}");
        };
        let ways = |domain: &str, by: &str| concerned.ways(&sources, domain, &[by]);
        assert_eq!(ways("pdns/a", "a"), [Approver::Socket, Approver::PushOption, Approver::Trailer]);
        assert_eq!(ways("pdns/a", "b"), [Approver::Socket]);
        assert_eq!(ways("pdns/both", "a"), [Approver::PushOption]);
        check("pdns/a", Approver::PushOption, "a", "counts");
        check("pdns/a", Approver::PushOption, "b", "elsewhere");
        check("pdns/b", Approver::PushOption, "a", "elsewhere");
        check("pdns/both", Approver::PushOption, "a", "counts");
        check("pdns/both", Approver::Trailer, "a", "barred by b");
        check("pdns/a", Approver::Trailer, "a", "counts");
        // The entry is one domain.
        check("pdns", Approver::PushOption, "b", "counts");
        check("pdns", Approver::Trailer, "a", "barred by b");
        check("pdns/none", Approver::PushOption, "a", "elsewhere");
        check("pdns/unknown", Approver::PushOption, "a", "elsewhere");
    }
}
