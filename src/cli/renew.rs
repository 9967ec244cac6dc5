//! `renew`: has certificates made anew although they are as declared.

use super::{
    Args, Exit, Out,
    answer::AnswerArgs,
    host::{Host, tell_warnings},
    person::actor,
};
use crate::{
    config::Environment,
    failure::Failure,
    operation::{self, RenewAsk, Renewed},
    session::{Ask, Session},
};
use clap::Args as ClapArgs;

/// Arguments of `renew`.
#[derive(Clone, Debug, ClapArgs)]
pub struct RenewArgs {
    /// What to make anew; `*` and `?` are wild
    #[arg(value_name = "ADDRESS")]
    pub address: String,
    /// Prove its names in this way this once: dns01, http01, tlsAlpn01 or dnsPersist01
    #[arg(long, value_name = "SOLVER")]
    pub solver: Option<String>,
    /// Have it from this one of its issuers this once
    #[arg(long, value_name = "ISSUER")]
    pub issuer: Option<String>,
    #[command(flatten)]
    pub answer: AnswerArgs,
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    renew: &RenewArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let ask = RenewAsk {
        address: renew.address.clone(),
        issuer: renew.issuer.clone(),
        solver: renew.solver.clone(),
    };
    if let Host::Daemon(client) = Host::find(args, &environment, out).await? {
        let renewed: Renewed = client.post("/v1/renew", &ask).await?;
        renew.answer.tell(&renewed, out, tell)?;
        out.talk("the daemon makes them anew now");
        return Ok(Exit::Good);
    }
    let actor = actor(&environment);
    let session = Session::open(args.config.as_deref(), environment).await?;
    tell_warnings(&session, out);
    let writing = session.writer().await?;
    let renewed = async {
        let outlook = session.outlook(&Ask::default(), &*writing.db).await?;
        operation::renew(&session, &writing.db, &outlook.desired, &ask, &actor).await
    };
    let renewed = renewed.await;
    writing.db.close().await;
    renew.answer.tell(&renewed?, out, tell)?;
    out.talk("now: reconciled apply");
    Ok(Exit::Good)
}

fn tell(renewed: &Renewed, out: &mut Out) {
    renewed.addresses.iter().for_each(|address| out.say(address));
}
