//! What was found, each with the words of the rule that it breaks.

use super::{
    rules,
    zone::{Set, Zone},
};
use reconciled_provider::Finding;

/// What was found, in the order it was found.
#[derive(Default)]
pub(crate) struct Found(pub(super) Vec<Finding>);

impl Found {
    /// Notes that `set` breaks the rule `id`.
    pub(crate) fn tell(&mut self, id: &'static str, set: &Set<'_>, message: impl Into<String>) {
        self.push(id, set, None, message.into());
    }
    /// The same, with another set that has to do with it.
    pub(crate) fn tell_with(
        &mut self,
        id: &'static str,
        set: &Set<'_>,
        other: &Set<'_>,
        message: impl Into<String>,
    ) {
        self.push(id, set, Some(other.index), message.into());
    }
    /// The same of the RRset that `set` is the first part of: another part has to do with it, where several share it.
    pub(crate) fn tell_whole(
        &mut self,
        id: &'static str,
        zone: &Zone<'_>,
        set: &Set<'_>,
        message: impl Into<String>,
    ) {
        let other = zone.sharing(set).nth(1).map(|other| other.index);
        self.push(id, set, other, message.into());
    }

    fn push(&mut self, id: &'static str, set: &Set<'_>, other: Option<usize>, message: String) {
        let rule = rules::find(id).expect("a test looks up every rule that is told");
        self.0.push(Finding {
            index: set.index,
            other,
            rule: rule.id,
            is_error: rule.is_error,
            message,
            hint: Some(format!("{} ({})", rule.hint, rule.source)),
        });
    }
}
