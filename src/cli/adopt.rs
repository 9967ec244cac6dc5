//! `adopt`: a person's consent to take over what exists and differs, bound to what was shown.

use super::{
    Args, Exit, Out,
    answer::AnswerArgs,
    host::{Host, tell_warnings},
    person::{actor, consent},
};
use crate::{
    config::Environment,
    failure::Failure,
    operation::{self, AdoptAsk, Adoption},
    session::Session,
};
use clap::Args as ClapArgs;

/// Arguments of `adopt`.
#[derive(Clone, Debug, ClapArgs)]
pub struct AdoptArgs {
    /// What to take over; `*` and `?` are wild
    #[arg(value_name = "ADDRESS")]
    pub address: String,
    /// Take it from this instance or tool, whose mark it carries
    #[arg(long, value_name = "NAME")]
    pub from_instance: Option<String>,
    /// Do not ask, which only happens at a terminal
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub answer: AnswerArgs,
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    adopt: &AdoptArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let ask = AdoptAsk { address: adopt.address.clone(), from_instance: adopt.from_instance.clone() };
    if let Host::Daemon(client) = Host::find(args, &environment, out).await? {
        let adoption: Adoption = client.get("/v1/adopt", &ask).await?;
        if !agreed(&adoption, adopt, out)? {
            return Ok(Exit::Error);
        }
        let () = client.post("/v1/adopt", &adoption.found).await?;
        adopt.answer.tell(&adoption, out, |_, _| {})?;
        out.talk("the daemon takes them over, but for what is suspended or in a window that is closed");
        return Ok(Exit::Good);
    }
    let actor = actor(&environment);
    let session = Session::open_to_write(args.config.as_deref(), environment).await?;
    tell_warnings(&session, out);
    let writing = session.writer().await?;
    let result = async {
        let adoption = operation::adoptable(&session, &*writing.db, &ask).await?;
        if !agreed(&adoption, adopt, out)? {
            return Ok(Exit::Error);
        }
        operation::adopt(&*writing.db, &adoption.found, &actor, session.clock.now()).await?;
        adopt.answer.tell(&adoption, out, |_, _| {})?;
        out.talk("now: reconciled apply");
        Ok(Exit::Good)
    }
    .await;
    writing.db.close().await;
    result
}

/// Shows what would be taken over and asks.
fn agreed(adoption: &Adoption, args: &AdoptArgs, out: &mut Out) -> Result<bool, Failure> {
    adoption.messages.iter().for_each(|message| out.talk(message));
    // Programs have data on standard output; who is asked has to see it all the same.
    let say = if args.answer.is_json() { Out::talk } else { Out::data };
    for one in &adoption.found {
        say(out, &format!("{} ({}, observed → declared)", one.address, one.scope));
        one.lines.iter().for_each(|line| say(out, &format!("  {line}")));
    }
    let question = format!("Take over these {} and make them as declared?", adoption.found.len());
    consent(args.yes, &question, out)
}
