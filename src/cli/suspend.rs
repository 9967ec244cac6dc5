//! `suspend` and `resume`: nothing is written to what is meant, until a time or a word; looking goes on.

use super::{Args, Exit, Out, answer::AnswerArgs, args::period, host::Host, person::actor};
use crate::{
    config::Environment,
    failure::Failure,
    operation::{self, Meant, ResumeAsk, Resumed, SuspendAsk, Suspended},
    session::{Session, by_files},
    store::Db,
};
use clap::Args as ClapArgs;
use reconciled_engine::{Desired, Store};

/// Most rollbacks that are listed.
const SHOWN: usize = 20;

/// What is meant.
#[derive(Clone, Debug, ClapArgs)]
pub struct MeantArgs {
    /// Only manifests with such labels (team=web,env!=staging); what is declared no longer counts as meant
    #[arg(short = 'l', long = "selector", value_name = "SELECTOR")]
    pub selector: Vec<String>,
    /// Only what lies behind this entry
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,
    /// Only what this source declares or declared
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Everything
    #[arg(long)]
    pub all: bool,
}

/// Arguments of `suspend`.
#[derive(Clone, Debug, ClapArgs)]
pub struct SuspendArgs {
    /// Only this; `*` and `?` are wild
    #[arg(value_name = "ADDRESS")]
    pub address: Option<String>,
    #[command(flatten)]
    pub meant: MeantArgs,
    /// But not this; `*` and `?` are wild
    #[arg(long, value_name = "ADDRESS")]
    pub except: Vec<String>,
    /// Why; kept in the audit trail
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// For how long; without, until `resume`
    #[arg(long = "for", value_name = "DURATION")]
    pub period: Option<String>,
    #[command(flatten)]
    pub answer: AnswerArgs,
}

/// Arguments of `resume`.
#[derive(Clone, Debug, ClapArgs)]
pub struct ResumeArgs {
    /// What was suspended, as it was named then, or the id that `status` shows
    #[arg(value_name = "ADDRESS|ID")]
    pub address: Option<String>,
    #[command(flatten)]
    pub meant: MeantArgs,
    /// Why; kept in the audit trail
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    #[command(flatten)]
    pub answer: AnswerArgs,
}

impl MeantArgs {
    fn meant(&self, address: Option<&String>) -> Meant {
        Meant {
            address: address.cloned(),
            selector: self.selector.clone(),
            provider: self.provider.clone(),
            source: self.source.clone(),
            all: self.all,
        }
    }
}

/// Runs `suspend`.
pub(super) async fn run(
    args: &Args,
    suspend: &SuspendArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let ask = SuspendAsk {
        meant: suspend.meant.meant(suspend.address.as_ref()),
        except: suspend.except.clone(),
        reason: suspend.reason.clone(),
        period: suspend.period.as_deref().map(period).transpose()?,
    };
    let suspended: Suspended = match Host::of_state(args, &environment, out).await? {
        Host::Daemon(client) => client.post("/v1/suspend", &ask).await?,
        Host::Alone(state) => {
            let db = state.writer().await?;
            let actor = actor(&environment);
            let result = operation::suspend(&db, &state.config, &ask, &actor, state.clock.now()).await;
            db.close().await;
            result?
        }
    };
    if let Some(address) = suspend.address.as_ref().filter(|_| suspended.tracked == 0) {
        out.talk(&format!(
            "warning: nothing that is tracked has the address `{address}`, so nothing is stopped that was written before"
        ));
        out.talk("hint: to see all that is tracked: reconciled status '*/*'");
        out.talk("what has it later is not written, and what is there and an exclusive zone would delete is left alone");
    }
    suspend.answer.tell(&suspended, out, |Suspended { suspension, tracked, .. }, out| {
        let until = suspension.until.as_ref().map(|until| format!(" until {until}")).unwrap_or_default();
        // Only a plan knows which manifests have the labels; what is declared no longer counts as meant.
        let most = if suspend.meant.selector.is_empty() { "" } else { "at most " };
        out.say(&format!("{} {} suspended{until}, {most}{tracked} tracked", suspension.id, suspension.what));
    })?;
    if suspended.is_writing {
        out.talk("what was sent before is still being answered; nothing new is sent");
    }
    out.talk(&format!("hint: {}", suspended.suspension.hint));
    Ok(Exit::Good)
}

/// Runs `resume`.
pub(super) async fn resume(
    args: &Args,
    resume: &ResumeArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let ask = ResumeAsk { meant: resume.meant.meant(resume.address.as_ref()), reason: resume.reason.clone() };
    let host = Host::of_state(args, &environment, out).await?;
    let resumed: Resumed = match &host {
        Host::Daemon(client) => client.post("/v1/resume", &ask).await?,
        Host::Alone(state) => {
            let db = state.writer().await?;
            let (actor, now) = (actor(&environment), state.clock.now());
            let mut result = operation::resume(&db, None, &ask, &actor, now).await;
            if result.is_err()
                && let Some(desired) = declared(args, &ask.meant, &environment, &db).await
            {
                result = operation::resume(&db, Some(&desired), &ask, &actor, now).await;
            }
            db.close().await;
            result?
        }
    };
    resume.answer.tell(&resumed, out, |resumed, out| {
        if let Some(ended) = &resumed.ended {
            out.say(&format!("{} {} goes on", ended.id, ended.what));
        }
        for pin in &resumed.released {
            out.say(&format!("{} is no longer kept at {}", pin.address, pin.label));
        }
    })?;
    for pin in resumed.kept.iter().take(SHOWN) {
        out.talk(&format!("still rolled back: {} is kept at {}: {}", pin.address, pin.label, pin.reason));
    }
    if let Some(more) = resumed.kept.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        out.talk(&format!("… and {more} more"));
    }
    if let Some(ended) = resumed.ended.as_ref().filter(|_| !resumed.kept.is_empty()) {
        let what = &ended.what;
        let what = if what.contains(['*', '?']) { format!("'{what}'") } else { what.clone() };
        out.talk(&format!("hint: to end that too: reconciled resume {what}"));
    }
    for left in &resumed.left {
        out.talk(&format!("still suspended: {} {}: {}", left.id, left.what, left.reason));
    }
    if let Host::Alone(state) = &host {
        match by_files(&state.config) {
            Some(file) => out.talk(&format!("still suspended by {}\nhint: {}", file.actor, file.remedy())),
            None => out.talk("now: reconciled apply"),
        }
    }
    Ok(Exit::Good)
}

/// What sources declare, where an address means nothing that the state knows: a commit may have moved what is rolled back. None
/// where that cannot be read, as nobody waits for that to let go of something.
async fn declared(args: &Args, meant: &Meant, environment: &Environment, db: &Db) -> Option<Desired> {
    let is_address = meant.address.as_ref().is_some_and(|address| address.contains('/'));
    if !is_address || db.pins().await.ok()?.is_empty() {
        return None;
    }
    let session = Session::open(args.config.as_deref(), environment.clone()).await.ok()?;
    let snapshots = session.in_force(db).await.ok()?;
    Some(session.load(snapshots, db).await.ok()?.desired)
}
