//! `token new`: makes a token for those who ask over TCP. Keeps nothing, and shows the token once.

use super::{Exit, Out};
use crate::{
    access::{TokenHash, new_token},
    config::Role,
    failure::Failure,
};
use clap::{Args as ClapArgs, Subcommand};

/// Arguments of `token`.
#[derive(Clone, Debug, ClapArgs)]
pub struct TokenArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: TokenVerb,
}

/// What `token` does.
#[derive(Clone, Debug, Subcommand)]
pub enum TokenVerb {
    /// Print a new token, and what the daemon's configuration needs to know it
    New {
        /// What it is called in the audit trail
        #[arg(value_name = "NAME", default_value = "ci")]
        name: String,
        /// What it may be used for: to look, or also to consent and have it written
        #[arg(long, value_enum)]
        role: Role,
    },
}

/// Runs the verb.
pub(super) fn run(args: &TokenArgs, out: &mut Out) -> Result<Exit, Failure> {
    let TokenVerb::New { name, role } = &args.verb;
    let token = new_token()?;
    out.talk("the token is shown this once; keep it where who asks can read it, and nobody else");
    out.data(&token);
    let file = format!("/etc/reconciled/{name}.hash");
    out.talk(&format!("on the daemon's host, write its hash to {file}:"));
    out.talk(&format!("  {}", TokenHash::of(&token)));
    out.talk("and name that in the configuration, then reload: systemctl reload reconciled");
    out.talk(&format!("  tokens: [{{name: {name}, role: {role}, hash: {{file: {file}}}}}]"));
    Ok(Exit::Good)
}
