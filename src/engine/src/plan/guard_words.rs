//! Guard words: what of a step takes a person's consent, whatever the counts.
//!
//! Those that a provider has for resources of its own come besides.

/// Guard word of what was protected when it was last applied.
pub(super) const PROTECTED: &str = "protected";

/// Guard word of what nobody declared and that goes all the same.
pub(super) const FOREIGN_DELETE: &str = "foreign-delete";

/// Guard word of what is not as it was left, where the entry points to another place since.
pub(super) const ANOTHER_PLACE: &str = "another-place";

/// Guard word of what was changed by hand while it was suspended.
pub(super) const BY_HAND: &str = "changed-while-suspended";

/// Guard word of what a recovered memory would make or end again.
pub(super) const RECOVERED: &str = "recovered";

/// Guard word of what is taken over for a source every revision of which needs consent.
pub(super) const ADOPTED: &str = "adopted";
