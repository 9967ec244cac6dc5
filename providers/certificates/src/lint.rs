//! What is declared of a certificate, can be made, and is refused by those it is for. Pure.

use crate::wish::{Issue, Wish};
use reconciled_provider::{Finding, Linted};

/// The name of an issuer may not be empty.
const ISSUER_WITHOUT_NAME: &str = "issuer-without-name";

/// Looks at the certificate that is declared in one scope.
pub(crate) fn lint(declared: &[Linted<'_>]) -> Vec<Finding> {
    let is_told = |linted: &Linted<'_>| !linted.quiet.iter().any(|rule| **rule == *ISSUER_WITHOUT_NAME);
    let told = declared.iter().enumerate().filter(|(_, linted)| is_told(linted));
    let found = told.filter_map(|(index, linted)| {
        let wish = Wish::decode(linted.resource.spec.bytes()?)?;
        let what = signs(&wish).filter(|_| wish.common_name.is_none())?;
        Some(Finding {
            index,
            other: None,
            rule: ISSUER_WITHOUT_NAME,
            is_error: false,
            message: format!("it signs {what} and has no `commonName`, so its issuer has no name"),
            hint: Some(
                "write commonName: NAME; Java refuses what is signed by nobody (RFC 5280 §4.1.2.4)".into(),
            ),
        })
    });
    found.collect()
}

/// What it signs. An authority says itself how what it issues is called.
fn signs(wish: &Wish) -> Option<&'static str> {
    let mut ours = wish.issuers().filter(|issuer| issuer.authority().is_none()).peekable();
    match wish.is_ca && ours.peek().is_some() {
        true => Some("others"),
        false => ours.any(|issuer| *issuer == Issue::SelfSigned).then_some("itself"),
    }
}
