//! What is declared in a zone and cannot work, or works and is bad practice.
//!
//! Pure and linear in the number of records. It sees all that is declared in a zone, by whichever manifest, and nothing
//! of what a server has besides; so it never says that something is missing, unless the zone is exclusive. Mistakes in a
//! single value are not here: `normalize` refuses them where they are written.

mod content;
mod found;
mod mail;
mod names;
mod rules;
mod zone;

#[cfg(test)]
#[path = "lint_tests.rs"]
mod tests;

pub use rules::{RULES, Rule};

use found::Found;
use reconciled_provider::{Around, Finding, Linted, Scope};
use zone::Zone;

/// Looks at all that is declared in one zone.
pub fn lint(scope: &Scope, declared: &[Linted<'_>], around: Around<'_>) -> Vec<Finding> {
    let zone = Zone::of(scope, declared, around);
    let mut found = Found::default();
    names::look(&zone, &mut found);
    for set in &zone.sets {
        content::look(&zone, set, &mut found);
    }
    mail::look(&zone, &mut found);
    let is_quiet = |finding: &Finding| {
        let quiet = declared[finding.index].quiet;
        !finding.is_error && quiet.iter().any(|rule| **rule == *finding.rule)
    };
    found.0.retain(|finding| !is_quiet(finding));
    found.0
}
