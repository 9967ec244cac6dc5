//! What is wrong with the manifests in force, and what of them is for other hosts, put down so that `status` tells it without
//! reading any.
//!
//! Guarantees: written only where it changed; it ends with the load that finds all well again, and with its source. It
//! deliberately keeps one entry for each source: all of it is what `plan` shows.

use super::{Failure, Outlook, Writing};
use crate::store::{ConditionEntry, Elsewhere, Notice};
use reconciled_engine::{
    Store, Write,
    store::{Condition, ConditionKind},
};
use reconciled_provider::{Problem, Scope};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Takes the place of an entry in the scopes of these conditions; no entry is called so.
const SOURCES: &str = "$sources";

/// The source that a condition is about, where it is about the manifests of one.
pub fn source_of(scope: &str) -> Option<&str> {
    scope.strip_prefix(SOURCES)?.strip_prefix('/')
}

impl Outlook {
    /// The trouble with the manifests of one source.
    fn trouble_of(&self, name: &str) -> Option<Condition> {
        let mine = self.reported.iter().filter(|reported| *reported.source == *name);
        let errors: Vec<&Problem> =
            mine.map(|reported| &reported.problem).filter(|problem| problem.is_error()).collect();
        let first = errors.first()?;
        let label = self.snapshots.iter().find(|snapshot| *snapshot.name == *name).map(|s| &s.label);
        let follows = match (self.withheld.iter().any(|withheld| **withheld == *name), label) {
            (true, Some(label)) => format!("{label} stays in force"),
            (true, None) => "nothing is in force yet".into(),
            (false, _) => "the rest is applied, nothing of it is deleted".into(),
        };
        let place = first.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        let more = match errors.len() {
            1 => String::new(),
            all => format!("; and {} more", all - 1),
        };
        let all = || "to see them all: reconciled plan".to_owned();
        let hint = first.hint.clone().filter(|_| errors.len() == 1).unwrap_or_else(all);
        Some(Condition {
            id: None,
            address: None,
            kind: ConditionKind::Stalled,
            reason: "InvalidManifests".into(),
            message: format!("its manifests have errors: {follows}; {place}{}{more}", first.message).into(),
            hint: Some(hint.into()),
            since: Duration::ZERO,
            next_try: None,
        })
    }
}

impl Writing {
    /// Puts down what is wrong with the manifests of the sources that were read, and that nothing is any more.
    pub async fn note_problems(&self, outlook: &Outlook) -> Result<(), Failure> {
        let status = self.db.reader().not_well().await?;
        let known: BTreeMap<&str, &ConditionEntry> =
            status.conditions.iter().filter_map(|known| Some((source_of(&known.scope)?, known))).collect();
        // What a folder says is nobody's once it was applied.
        let is_folder =
            |name: &Arc<str>| outlook.snapshots.iter().any(|s| s.name == *name && s.commit.is_none());
        let mut now: BTreeMap<Arc<str>, Option<Condition>> = outlook
            .sources()
            .into_iter()
            .filter(|name| !is_folder(name))
            .map(|name| (name.clone(), outlook.trouble_of(&name)))
            .collect();
        for name in known.keys() {
            if self.config.sources.iter().all(|source| *source.name != **name) {
                now.entry(Arc::from(*name)).or_default();
            }
        }
        let moved = now.into_iter().filter(|(name, trouble)| {
            let before = known.get(&**name).map(|known| (&*known.message, known.hint.as_deref()));
            before != trouble.as_ref().map(|trouble| (&*trouble.message, trouble.hint.as_deref()))
        });
        let writes: Vec<Write> = moved
            .map(|(name, trouble)| {
                Write::Conditions(Scope::new(SOURCES, name), trouble.into_iter().collect())
            })
            .collect();
        if !writes.is_empty() {
            self.db.commit(writes).await?;
        }
        let read = outlook.sources();
        let stays = |one: &&Elsewhere| {
            self.config.sources.iter().any(|source| source.name == one.source) && !read.contains(&one.source)
        };
        let mut elsewhere: Vec<Elsewhere> = status.elsewhere.iter().filter(stays).cloned().collect();
        elsewhere.extend(Elsewhere::of(&outlook.desired).into_iter().filter(|one| !is_folder(&one.source)));
        elsewhere.sort();
        if elsewhere != status.elsewhere {
            self.db.note(vec![Notice::Elsewhere(elsewhere)]).await?;
        }
        Ok(())
    }
}
