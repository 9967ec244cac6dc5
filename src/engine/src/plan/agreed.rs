//! What a person agrees to when something is taken over: what is there, as it was shown to them.
//!
//! Guarantees: pure; a consent holds for nothing that it did not show. Where a remote plans, what was observed is as much as is
//! declared, and what else goes is in its plan alone. It deliberately has no secret in it: that one changed since is not noticed.

use super::planner::Planner;
use crate::store::Consent;
use reconciled_provider::{Delta, Hash, Observed, Resource, Shown};

/// What a consent to take `observed` over is bound to, where the provider `planned` what would change of it then.
pub fn as_shown(observed: &Observed, planned: Option<&Delta>) -> Hash {
    let Some(planned) = planned.filter(|delta| !delta.planned.is_empty()) else { return observed.hash };
    let mut bytes = observed.hash.0.to_vec();
    let mut put = |part: &str| {
        bytes.extend((part.len() as u32).to_be_bytes());
        bytes.extend(part.as_bytes());
    };
    // What the remote decides by itself may be another with each look, and is not taken away.
    for field in planned.fields.iter().filter(|field| field.after != Shown::Unknown) {
        let (side, text) = match &field.before {
            Shown::Text(text) => ("text", text.as_str()),
            Shown::Sensitive => ("sensitive", ""),
            Shown::Unknown => ("unknown", ""),
            Shown::Absent => ("absent", ""),
        };
        [&*field.path, side, text].into_iter().for_each(&mut put);
    }
    Hash::of(&bytes)
}

impl Planner<'_> {
    /// True when a person agreed to take over exactly what was seen.
    pub(super) fn is_agreed(&self, desired: &Resource, observed: &Observed) -> bool {
        let Some(Consent::Adopt { observed: shown, .. }) = self.consent(&desired.id) else { return false };
        let planned = self.input.deltas.get(&desired.id).and_then(|delta| delta.as_ref().ok());
        *shown == as_shown(observed, planned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::{FieldChange, Sealed};

    fn seen() -> Observed {
        Observed::new("web".into(), "declared")
    }

    fn shown(planned: &'static str, fields: Vec<FieldChange>) -> Hash {
        let planned = Sealed::new(planned);
        as_shown(&seen(), Some(&Delta { fields, planned, ..Delta::default() }))
    }

    #[test]
    fn a_consent_is_bound_to_what_goes_besides_what_is_declared() {
        let goes = |before: &str| shown("plan", vec![FieldChange::text("tags", Some(before.into()), None)]);
        assert_eq!(goes("team-b"), goes("team-b"));
        assert_ne!(goes("team-b"), goes("team-c"));
        assert_ne!(goes("team-b"), shown("plan", Vec::new()));
        // What is observed of others is all there is of them.
        let hash = seen().hash;
        assert_eq!(shown("", vec![FieldChange::text("tags", Some("team-b".into()), None)]), hash);
        assert_eq!(as_shown(&seen(), None), hash);
    }

    #[test]
    fn what_the_remote_decides_by_itself_voids_no_consent() {
        let counted = |before: &str| {
            let field = FieldChange::text("running", Some(before.into()), None);
            shown("plan", vec![FieldChange { after: Shown::Unknown, ..field }])
        };
        assert_eq!(counted("3"), counted("4"));
    }
}
