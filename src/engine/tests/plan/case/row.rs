//! What a line says of the inventory.

use super::*;
use reconciled_engine::store::{Known, Terms};

impl Case {
    /// A row that was applied as declared and needs no bookkeeping, but for what the line says.
    pub(super) fn row(&self, scope: &Scope, line: &Line<'_>) -> Row {
        let (id, content) = (line.at(1), line.at(2));
        let is_claim = line.has("claim");
        let manifest = match is_claim {
            true => ManifestKey::new(CLAIMS, "", "Claim", "", &format!("{scope}/{id}")),
            false => key(line.source(), line.manifest()),
        };
        let declared = self.desired.manifests.iter().find(|m| m.key == manifest);
        let mut tracked = Tracked::new(id.into(), hash(content));
        tracked.private = Sealed::new(line.get("ours").unwrap_or(""));
        tracked.after = match (line.get("after"), declared) {
            (Some(_), _) => line.list("after").map(|m| key("infra", m)).collect(),
            (None, Some(manifest)) => manifest.after.clone(),
            (None, None) => Arc::from([]),
        };
        let pending = line.seconds("pending").map(|recheck_at| RowState::Pending { recheck_at });
        // What a write that took effect in part leaves was never applied.
        let is_half = line.has("half");
        if is_half {
            tracked.applied = Hash::default();
        }
        let is_applied = is_half || line.has("applied");
        let settled = if is_applied { RowState::Applied } else { RowState::Settled };
        let terms = Terms {
            scope: scope.clone().into(),
            manifest,
            file: line.get("file").unwrap_or("f.yaml").into(),
            normalizer: line.number("normalizer").unwrap_or(1) as u32,
            deletion: line.get("deletion").map_or(Deletion::Delete, deletion),
            writes: line.get("policy").map_or(EntryPolicy::Sync, policy),
            drift: line.get("drift").map_or(Drift::Heal, drift),
            merge: line.has("merge"),
            revision: "abc0000".into(),
            formerly: Vec::new(),
        };
        let known = Known {
            terms: terms.into(),
            tracked,
            address: address(line.manifest(), Some(id)),
            template: if is_half { Hash::default() } else { hash(line.get("template").unwrap_or(content)) },
        };
        Row::new(known, pending.unwrap_or(settled), line.seconds("written").unwrap_or_default())
    }
}
