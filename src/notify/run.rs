//! The tasks: one that decides, and one for each receiver that delivers.

use super::{
    again,
    error::SendError,
    gather::{Endings, Sources, gather, is_unknown},
    ledger::{Ledger, Wish},
    message::Message,
    send::{STANDS, alert, send},
};
use crate::{
    config::{Receiver, Way},
    daemon::{self, Instance},
    failure::Failure,
    session::by_files,
    store::{Notice, Posted, Reader, Stamp, Status, StoreError, SuspensionEntry},
};
use futures_util::future::join_all;
use std::{sync::Arc, time::Duration};
use tokio::sync::{Notify, watch};

/// Least time between two looks at the state.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest time, while nothing happens.
const LOOK: Duration = Duration::from_secs(10);
/// How often what ends is looked at: a file for each certificate.
const ENDINGS: Duration = Duration::from_secs(20);
/// What helps where nothing better is known.
const TRY: &str = "to try it: reconciled notify test NAME";
/// How long a message is worth an attempt.
const WORTH: Duration = Duration::from_hours(24);

/// Decides and delivers until the instance stops.
pub(crate) async fn watch(instance: Arc<Instance>) {
    let receivers = &instance.session.config.notify;
    let names = receivers.iter().map(|receiver| receiver.name.clone()).collect();
    // Also without receivers: what waits for those that were taken out shall not be sent years later.
    note(&instance, vec![Notice::Receivers(names)]).await;
    if receivers.is_empty() {
        return;
    }
    let news = Notify::new();
    let (standing, active) = watch::channel(Vec::new());
    let deliveries = receivers.iter().map(|receiver| deliver(&instance, receiver, &news, active.clone()));
    tokio::join!(decide(&instance, &news, &standing), join_all(deliveries));
}

/// Messages of what stands, for receivers that are told again and again.
type Active = Vec<(Arc<str>, Vec<Message>)>;

async fn decide(instance: &Instance, news: &Notify, standing: &watch::Sender<Active>) {
    let cx = &instance.session.surveyor.cx;
    let (config, reader) = (&instance.session.config, instance.writing.db.reader());
    let wishes: Vec<Wish> = config
        .notify
        .iter()
        .map(|receiver| {
            let (name, on) = (receiver.name.clone(), receiver.on.clone());
            Wish { name, on, settle: receiver.settle }
        })
        .collect();
    let mut progress = instance.scheduler.watch();
    let mut ledger = None;
    let (mut endings, mut endings_at) = (Endings::default(), Duration::ZERO);
    while !cx.stop.is_set() {
        let now = cx.clock.now();
        if ledger.is_none() {
            ledger = reader.troubles().await.ok().map(Ledger::of);
        }
        // A state that cannot be read now is read the next time.
        if let (Some(known), Ok(mut status)) = (&mut ledger, not_well(reader).await) {
            daemon::add_upkeep(instance, &mut status.conditions);
            status.suspensions.extend(by_files(config).as_ref().map(SuspensionEntry::from));
            let sources = Sources {
                following: instance.follower.sources(),
                failure: instance.follower.failure(),
                tried: daemon::tried_upkeep(instance),
            };
            // While not everything was looked at, the next scopes are known soon.
            let pause = if endings.is_whole { ENDINGS } else { PAUSE };
            if now >= endings_at + pause || now < endings_at {
                (endings, endings_at) = (look(instance).await, now);
            }
            let found = gather(&status, &sources, &endings, Stamp(now));
            let notices =
                known.turn(&config.instance, found, |key| is_unknown(key, &sources, &endings), &wishes, now);
            let posts = notices.iter().any(|notice| matches!(notice, Notice::Post(..)));
            if note(instance, notices).await {
                let of = |wish: &Wish| (wish.name.clone(), known.active(&config.instance, &wish.name, now));
                let _ = standing.send(wishes.iter().map(of).collect());
            } else {
                // What is durable counts: decided anew from there.
                ledger = None;
            }
            if posts {
                news.notify_waiters();
            }
        }
        let is_waiting = ledger.as_ref().is_none_or(|known| known.is_waiting(&wishes));
        let look = if is_waiting { PAUSE } else { LOOK };
        tokio::select! {
            () = cx.stop.wished() => return,
            () = cx.clock.sleep(look) => {}
            _ = progress.next() => {
                cx.clock.sleep(PAUSE).await;
            }
        }
    }
}

/// What needs a person, and what does not do by its remote's word. Without the one the other would seem to be over.
async fn not_well(reader: &Reader) -> Result<Status, StoreError> {
    Ok(Status { degraded: reader.degraded().await?, ..reader.not_well().await? })
}

/// What ends by itself. Nothing is known of a scope before its first pass ended.
async fn look(instance: &Instance) -> Endings {
    let is_whole = instance.is_ready();
    let standing = instance.scheduler.standing();
    let looked_at = standing.iter().filter(|(_, standing)| standing.ended_at.is_some());
    let known = looked_at.map(|(scope, _)| scope.to_string().into()).collect();
    Endings { all: instance.session.endings(standing.into_keys()).await, known, is_whole }
}

async fn deliver(instance: &Instance, receiver: &Receiver, news: &Notify, active: watch::Receiver<Active>) {
    let cx = &instance.session.surveyor.cx;
    let reader = instance.writing.db.reader();
    let mut is_away = false;
    let mut told_again = cx.clock.now();
    while !cx.stop.is_set() {
        let posted = news.notified();
        let now = cx.clock.now();
        let next = reader.next_message(&receiver.name).await.ok().flatten();
        let wait = match next {
            // One that is later than any wait was put down before the clock went back.
            Some(next) if next.next_try <= now || next.next_try > now + again::LONGEST => {
                attempt(instance, receiver, &next, &mut is_away).await;
                continue;
            }
            Some(next) => (next.next_try - now).min(LOOK),
            None => LOOK,
        };
        let is_due = told_again + STANDS / 4 <= now || now < told_again;
        if is_due && let Way::Alertmanager { url, token } = &receiver.way {
            told_again = now;
            let mine: Vec<Message> = {
                let all = active.borrow();
                all.iter().filter(|(name, _)| *name == receiver.name).flat_map(|(_, m)| m.clone()).collect()
            };
            if !mine.is_empty() {
                let mine: Vec<&Message> = mine.iter().collect();
                let secrets = &*instance.session.secrets;
                let sent = alert(url, token.as_ref(), &mine, receiver.link.as_ref(), secrets).await;
                count(instance, receiver, &sent);
                say(receiver, &sent, &mut is_away);
            }
        }
        tokio::select! {
            () = cx.stop.wished() => return,
            () = posted => {}
            () = cx.clock.sleep(wait) => {}
        }
    }
}

/// Tries to deliver one message, and puts down what came of it.
async fn attempt(instance: &Instance, receiver: &Receiver, posted: &Posted, is_away: &mut bool) {
    let (session, now) = (&instance.session, instance.session.clock.now());
    let Ok(message) = serde_json::from_str::<Message>(&posted.message) else {
        tracing::warn!(
            receiver = &*receiver.name,
            "a notification of another version cannot be read; it is dropped"
        );
        note(instance, vec![Notice::Delivered(posted.number)]).await;
        return;
    };
    let id = format!("{}-{}", session.config.instance, posted.number);
    let stop = &session.surveyor.cx.stop;
    let sent = tokio::select! {
        sent = send(receiver, &message, &id, &*session.secrets) => sent,
        // It may have arrived; it is sent again under the same number.
        () = stop.wished() => return,
    };
    count(instance, receiver, &sent);
    let notice = match &sent {
        Ok(()) => {
            say(receiver, &sent, is_away);
            Notice::Delivered(posted.number)
        }
        Err(error) if error.is_final || posted.created_at + WORTH <= now => {
            session.metrics.notified(&receiver.name, "given-up");
            let (title, hint) = (&message.title, error.hint.as_deref().unwrap_or(TRY));
            tracing::warn!(receiver = &*receiver.name, title, error = %error, hint, "a notification is given up");
            Notice::Delivered(posted.number)
        }
        Err(_) => {
            say(receiver, &sent, is_away);
            Notice::Again(posted.number, now + again::backoff(posted.attempts))
        }
    };
    if !note(instance, vec![notice]).await {
        // The state cannot be written: what was sent would be sent again at once, for ever.
        session.surveyor.cx.clock.sleep(LOOK).await;
    }
}

fn count(instance: &Instance, receiver: &Receiver, sent: &Result<(), SendError>) {
    instance.session.metrics.notified(&receiver.name, if sent.is_ok() { "sent" } else { "failed" });
}

/// Says once that a receiver cannot be reached, and once that it can.
fn say(receiver: &Receiver, sent: &Result<(), SendError>, is_away: &mut bool) {
    match (sent, *is_away) {
        (Err(error), false) => {
            let hint = error.hint.as_deref().unwrap_or(TRY);
            tracing::warn!(receiver = &*receiver.name, error = %error, hint, "a notification cannot be sent; it is tried again");
        }
        (Ok(()), true) => tracing::info!(receiver = &*receiver.name, "notifications are sent again"),
        _ => {}
    }
    *is_away = sent.is_err();
}

async fn note(instance: &Instance, notices: Vec<Notice>) -> bool {
    match instance.writing.db.note(notices).await {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(error = %Failure::from(error), "what receivers are told cannot be put down");
            false
        }
    }
}
