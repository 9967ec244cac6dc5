//! Lists sorted by id, looked up by who walks another such list.

use crate::name::ResourceId;
use std::cell::Cell;

/// A list sorted by id. A caller that asks in the order of the list is answered without a search.
///
/// Desired, observed and tracked resources are mostly the same ids in the same order; comparing texts all over
/// memory for each of them would be the largest part of a pass that finds nothing to do.
///
/// ```
/// use reconciled_provider::{ResourceId, Sorted};
/// let ids: Vec<ResourceId> = ["a", "c"].map(ResourceId::from).into();
/// let sorted = Sorted::new(&ids, |id| id);
/// assert_eq!(sorted.get(&"a".into()), Some(&ids[0]));
/// assert_eq!(sorted.get(&"b".into()), None);
/// ```
#[derive(Debug)]
pub struct Sorted<'a, T> {
    list: &'a [T],
    id: fn(&T) -> &ResourceId,
    next: Cell<usize>,
}

impl<'a, T> Sorted<'a, T> {
    /// Wraps `list`, which is sorted by `id`.
    pub fn new(list: &'a [T], id: fn(&T) -> &ResourceId) -> Sorted<'a, T> {
        Sorted { list, id, next: Cell::new(0) }
    }

    /// The element `id`: the one after the last found, or by binary search.
    pub fn get(&self, id: &ResourceId) -> Option<&'a T> {
        let next = self.next.get();
        let index = match self.list.get(next) {
            Some(element) if (self.id)(element) == id => next,
            _ => self.list.binary_search_by(|element| (self.id)(element).cmp(id)).ok()?,
        };
        self.next.set(index + 1);
        self.list.get(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_of_questions_is_answered() {
        let ids: Vec<ResourceId> = ["a", "c", "e"].map(ResourceId::from).into();
        let sorted = Sorted::new(&ids, |id| id);
        for asked in ["a", "c", "e", "e", "f", "a", "b", "c", "", "e", "a"] {
            let expected = ids.iter().find(|id| &*id.0 == asked);
            assert_eq!(sorted.get(&asked.into()), expected, "{asked}");
        }
    }
}
