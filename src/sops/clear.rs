//! Values in the clear, as the MAC of a sops file is over them.

use reconciled_provider::yaml::ScalarKind;

/// The text by which sops hashes a value that is not encrypted.
pub(super) fn canonical(text: &str, kind: &ScalarKind) -> String {
    let number = match kind {
        ScalarKind::Bool if text == "true" => Some("True".to_owned()),
        ScalarKind::Bool => Some("False".to_owned()),
        ScalarKind::Int => text.parse::<i64>().ok().map(|number| number.to_string()),
        ScalarKind::Float => text.parse::<f64>().ok().map(|number| number.to_string()),
        ScalarKind::Str | ScalarKind::Unknown(_) => None,
    };
    number.unwrap_or_else(|| text.to_owned())
}
