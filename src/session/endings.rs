//! What ends at a time that is known, over all entries: for metrics, and to tell persons in time.

use super::open::Session;
use reconciled_provider::{Ending, Scope};

impl Session {
    /// What of these scopes ends, and when. What cannot be told now is left out: the pass over it says why.
    pub async fn endings(&self, scopes: impl IntoIterator<Item = Scope>) -> Vec<(Scope, Ending)> {
        let mut all = Vec::new();
        for scope in scopes {
            let Some(entry) = self.surveyor.entries.get(&scope.provider) else { continue };
            let endings = entry.observer.endings(&self.surveyor.cx, &scope).await.unwrap_or_default();
            all.extend(endings.into_iter().map(|ending| (scope.clone(), ending)));
        }
        all
    }
}
