//! Who types: the name that the audit trail has of them, and whether they agree to what cannot be taken back.

use super::Out;
use crate::{api, config::Environment, failure::Failure};

/// Who runs this, for the audit trail.
pub(super) fn actor(environment: &Environment) -> String {
    let name = environment
        .var("SUDO_USER")
        .or_else(|| environment.var("USER"))
        .or_else(|| environment.var("LOGNAME"));
    name.map_or_else(|| api::user(environment.uid), str::to_string)
}

/// Asks who sits at a terminal, unless told not to; false when the answer is no. A script has said what it means.
///
/// Errors: somebody types and sees no question.
pub(super) fn consent(yes: bool, question: &str, out: &mut Out) -> Result<bool, Failure> {
    if yes || out.unattended {
        return Ok(true);
    }
    if !out.interactive {
        let hint = "add --yes, or let standard error be the terminal";
        return Err(Failure::hinted("what is to be agreed to cannot be asked", hint));
    }
    let agreed = out.ask(question);
    if !agreed {
        out.talk("nothing was changed");
    }
    Ok(agreed)
}
