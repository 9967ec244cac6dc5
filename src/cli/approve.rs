//! `approve`: a person's consent to one held plan, bound to its digest.

use super::{Args, Exit, Out, answer::AnswerArgs, host::Host, person::actor};
use crate::{
    config::Environment,
    failure::Failure,
    operation::{self, ApproveAsk, Approved},
};
use clap::Args as ClapArgs;
use reconciled_provider::Hash;

/// Arguments of `approve`.
#[derive(Clone, Debug, ClapArgs)]
pub struct ApproveArgs {
    /// Digest of the held plan, or its first six digits or more
    #[arg(value_name = "DIGEST")]
    pub digest: String,
    /// Why; kept in the audit trail
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    #[command(flatten)]
    pub answer: AnswerArgs,
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    approve: &ApproveArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let ask = ApproveAsk { digest: approve.digest.clone(), reason: approve.reason.clone() };
    let host = Host::of_state(args, &environment, out).await?;
    let approved: Approved = match &host {
        Host::Daemon(client) => client.post("/v1/approve", &ask).await?,
        Host::Alone(state) => {
            // Of what was only planned whole digests count, and the first plan is made where there is no state yet.
            let db = match Hash::from_hex(&ask.digest.to_lowercase()) {
                Some(_) => state.writer_from_the_first().await?,
                None => state.writer().await?,
            };
            let result = operation::approve(&db, &ask, &actor(&environment), state.clock.now()).await;
            db.close().await;
            result?
        }
    };
    approve.answer.tell(&approved, out, |_, _| {})?;
    out.talk(&format!("{} is approved for 24 hours, to be used once", approved.domain));
    match host {
        // A digest that was mistyped is one that nothing has.
        _ if !approved.held => {
            out.talk("nothing that is held has this digest: it counts once a plan with just this digest is held, and nothing is done now");
            out.talk("hint: to see what is held: reconciled approvals");
        }
        _ if approved.once.is_some() => {
            let once = approved.once.as_deref().unwrap_or_default();
            out.talk(&format!(
                "nothing is written now: it goes on {once}, where that is within the 24 hours"
            ));
        }
        Host::Daemon(_) => {
            out.talk("the daemon goes on with it now, but for what is suspended or in a closed window without `manual`")
        }
        Host::Alone(_) => out.talk("now: reconciled apply"),
    }
    Ok(Exit::Good)
}
