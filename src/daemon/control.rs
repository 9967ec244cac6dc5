//! Suspending and resuming while passes run, and what follows from time, from windows and from the file that suspends.
//!
//! Guarantees: a suspension is durable before anything is asked to stop, so that whatever begins afterwards knows
//! of it; the answer says whether anything that began before still writes.

use super::instance::Instance;
use crate::{
    failure::Failure,
    session::{by_files, by_windows},
};
use reconciled_engine::{
    Store, Write,
    scheduler::{Priority, Stance, Standing},
    store::Event,
};
use reconciled_provider::{Focus, Scope};
use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// How long `suspend` waits for what was sent to be answered.
const HALT: Duration = Duration::from_secs(10);
/// How often the file and the time are looked at, beyond each pass.
const LOOK: Duration = Duration::from_secs(2);

/// Has passes that run stop; true when one still writes after a while.
pub(crate) async fn halt(instance: &Instance) -> bool {
    tokio::select! {
        () = instance.scheduler.halt() => false,
        () = instance.session.clock.sleep(HALT) => true,
    }
}

/// Has what was suspended looked at, and what is looked at now: a pass that began before takes it for suspended.
pub(crate) fn resumed(instance: &Instance) {
    let is_in_doubt = |s: &Standing| s.stance != Stance::InSync || s.running_since.is_some();
    let standing = instance.scheduler.standing().into_iter();
    let scopes: Vec<Scope> =
        standing.filter(|(_, standing)| is_in_doubt(standing)).map(|(scope, _)| scope).collect();
    instance.scheduler.wake(scopes, Priority::Operator, Focus::All);
}

/// Watches, until the instance stops: who makes the file that suspends has passes that run stopped, who removes it
/// has everything looked at, however short it was there; and where the time of a suspension is over, its scopes are
/// looked at once, so that what is changed by hand from then on is drift like any other. A window that closes stops
/// passes as a suspension does; one that opens has looked at what waited for it.
pub(super) async fn watch(instance: Arc<Instance>) {
    let cx = &instance.session.surveyor.cx;
    let mut before = None;
    let mut is_first = true;
    let mut told = BTreeSet::new();
    let mut closed = BTreeSet::new();
    while !cx.stop.is_set() {
        let was_met = instance.session.met_file.swap(false, Ordering::Relaxed);
        let now = by_files(&instance.session.config);
        if now.is_some() != before.is_some() {
            let (kind, file) = match (&now, &before) {
                (Some(file), _) => ("suspend", file),
                (None, Some(file)) => ("resume", file),
                (None, None) => continue,
            };
            tracing::warn!(by = &*file.actor, reason = &*file.reason, "{kind}");
            record(&instance, kind, &file.actor, &file.reason).await;
            match now.is_some() {
                // Whatever runs at the start has asked for the file itself.
                true if is_first => {}
                true => drop(halt(&instance).await),
                false => resumed(&instance),
            }
        } else if was_met && now.is_none() {
            // It came and went between two looks, and a pass in between takes everything for suspended.
            resumed(&instance);
        }
        closed = windows(&instance, closed, is_first).await;
        (before, is_first) = (now, false);
        wake_what_is_over(&instance, &mut told).await;
        tokio::select! {
            () = cx.stop.wished() => break,
            () = cx.clock.sleep(LOOK) => {}
        }
    }
}

/// Follows the windows from those that were `closed` before to those that are now.
async fn windows(instance: &Instance, before: BTreeSet<Arc<str>>, is_first: bool) -> BTreeSet<Arc<str>> {
    let found = by_windows(&instance.session.config, instance.session.clock.now());
    for one in found.iter().filter(|one| !before.contains(&one.id)) {
        tracing::info!(source = &*one.actor, why = &*one.reason, "window closes");
    }
    let now: BTreeSet<Arc<str>> = found.into_iter().map(|one| one.id).collect();
    // Whatever runs at the start has looked at the clock itself.
    if !is_first && now.difference(&before).next().is_some() {
        halt(instance).await;
    }
    if before.difference(&now).next().is_some() {
        tracing::info!("window opens");
        resumed(instance);
    }
    now
}

/// `told` has the suspensions whose scopes were woken, by id and beginning.
async fn wake_what_is_over(instance: &Instance, told: &mut BTreeSet<(Arc<str>, Duration)>) {
    let now = instance.session.clock.now();
    // A state that cannot be read now is read the next time.
    let known = instance.writing.db.suspensions().await.unwrap_or_default();
    for suspension in known.into_iter().filter(|suspension| suspension.is_over(now)) {
        if told.insert((suspension.id, suspension.since)) {
            instance.scheduler.wake(suspension.scopes, Priority::Hint, Focus::All);
        }
    }
}

async fn record(instance: &Instance, kind: &str, actor: &Arc<str>, reason: &Arc<str>) {
    let event = Event {
        at: instance.session.clock.now(),
        kind: kind.into(),
        scope: None,
        address: None,
        revision: "".into(),
        actor: actor.clone(),
        reason: reason.clone(),
        message: if kind == "suspend" { "--all suspended" } else { "--all goes on" }.into(),
    };
    if let Err(error) = instance.writing.db.commit(vec![Write::Event(event)]).await {
        tracing::warn!(error = %Failure::from(error), "a suspension by file cannot be recorded");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::Environment,
        daemon::{
            Options,
            hour::{Hand, Place, begun, git, until},
        },
        operation::{Meant, ResumeAsk, SuspendAsk, resume, suspend},
        session::Session,
        store,
    };
    use reconciled_engine::survey::Outside;
    use reconciled_provider::Clock;
    use std::{
        fs,
        sync::{Mutex, atomic::AtomicBool, mpsc},
    };
    use tokio_util::task::TaskTracker;

    fn standing(instance: &Instance) -> Standing {
        let all = instance.scheduler.standing();
        all.get(&Scope::new("zones", "example.com")).cloned().unwrap_or_default()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_file_that_came_and_went_between_two_looks_suspends_nothing_for_longer() {
        let (place, clock) = (Place::new(), Hand::new());
        let instance = begun(&place, &clock).await;
        until("all is in sync", || standing(&instance).stance == Stance::InSync).await;
        // The clock stands still: nobody looks for the file but passes.
        fs::write(place.at("suspended"), "").unwrap();
        place.commit(&["www", "api"]);
        instance.follower.wake(Some("infra".into()));
        until("it is suspended", || standing(&instance).stance == Stance::Suspended).await;
        fs::remove_file(place.at("suspended")).unwrap();
        // A minute at most, far less than a resync.
        for _ in 0..30 {
            clock.advance(LOOK);
            tokio::time::sleep(Duration::from_millis(20)).await;
            if place.zone().contains("api") {
                break;
            }
        }
        until("it goes on", || place.zone().contains("api")).await;
        instance.stop();
        instance.ended().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_pass_that_began_before_somebody_resumed_is_followed_by_another_one() {
        let (place, clock) = (Place::new(), Hand::new());
        let (reached, is_reached) = mpsc::channel();
        let (open, is_open) = mpsc::channel::<()>();
        let (is_armed, is_open) = (Arc::new(AtomicBool::new(false)), Mutex::new(is_open));
        let armed = is_armed.clone();
        // Asked once a pass has read what the state says of suspensions: there it stands still.
        let outside: Outside = Arc::new(move || {
            if armed.swap(false, Ordering::SeqCst) {
                reached.send(()).unwrap();
                tokio::task::block_in_place(|| is_open.lock().unwrap().recv().unwrap());
            }
            Vec::new()
        });
        store::init(&place.at("state"), store::Init::New, clock.clone()).await.unwrap();
        let config = place.at("config.yaml");
        let session = Session::open_at(Some(&config), Environment::default(), clock.clone()).await;
        let mut session = session.unwrap();
        session.surveyor.outside = Some(outside);
        let instance =
            Instance::start(session, None, &Options::default(), &TaskTracker::new()).await.unwrap();
        until("all is in sync", || standing(&instance).stance == Stance::InSync).await;

        let (db, now) = (&instance.writing.db, clock.now());
        let all = Meant { all: true, ..Meant::default() };
        let ask = SuspendAsk { meant: all.clone(), reason: "a test".into(), ..SuspendAsk::default() };
        suspend(db, &instance.session.config, &ask, "ann", now).await.unwrap();
        is_armed.store(true, Ordering::SeqCst);
        place.commit(&["www", "api"]);
        instance.follower.wake(Some("infra".into()));
        tokio::task::spawn_blocking(move || is_reached.recv().unwrap()).await.unwrap();
        let known = standing(&instance);
        assert!(known.running_since.is_some() && known.stance == Stance::InSync, "{known:?}");
        resume(db, None, &ResumeAsk { meant: all, reason: None }, "ann", now).await.unwrap();
        resumed(&instance);
        open.send(()).unwrap();
        until("it goes on", || place.zone().contains("api")).await;
        instance.stop();
        instance.ended().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_is_done_alone_in_one_entry_waits_for_no_other_and_keeps_none_waiting() {
        let (place, clock) = (Place::new(), Hand::new());
        let (gate, slow) = (place.at("gate"), place.at("slow"));
        fs::create_dir(&slow).unwrap();
        fs::write(&gate, "").unwrap();
        let check = format!("[sh, -c, 'until [ -e {} ]; do sleep 0.1; done']", gate.display());
        let entry = format!(
            "{{name: slow, type: zonefile, directory: {}, timeout: 10m, check: {check}}}",
            slow.display()
        );
        place.configure("resync: 10m}]", &format!("resync: 10m}}, {entry}]"));
        let publish = |names: &[&str]| {
            let record = |name: &&str| format!("    - {{name: {name}, type: A, values: [192.0.2.1]}}\n");
            let records: String = names.iter().map(record).collect();
            let zone = |name: &str, entry: &str| {
                format!(
                    "apiVersion: dns/v1\nkind: Zone\nmetadata: {{name: {name}}}\nspec:\n  provider: {entry}\n  records:\n{records}"
                )
            };
            let text = [zone("example.com", "zones"), zone("slow.example", "slow")].join("---\n");
            fs::write(place.at("infra/zone.yaml"), text).unwrap();
            git(&place.at("infra"), &["add", "-A"]);
            git(&place.at("infra"), &["commit", "-qm", "zones"]);
        };
        let written = || fs::read_to_string(slow.join("slow.example.zone")).unwrap_or_default();
        publish(&["www"]);
        let instance = begun(&place, &clock).await;
        until("the first passes", || place.zone().contains("www") && written().contains("www")).await;

        // A call of one entry takes its time.
        fs::remove_file(&gate).unwrap();
        publish(&["www", "api"]);
        instance.follower.wake(Some("infra".into()));
        let is_running = || {
            let all = instance.scheduler.standing();
            all.get(&Scope::new("slow", "slow.example")).is_some_and(|known| known.running_since.is_some())
        };
        until("the other one is done", || place.zone().contains("api") && is_running()).await;
        let zones = BTreeSet::from([Arc::from("zones")]);
        tokio::select! {
            is_running = instance.scheduler.alone(&zones, async { is_running() }) => assert!(is_running),
            () = tokio::time::sleep(reconciled_testkit::PATIENCE) => panic!("it waits for a call of another entry"),
        }
        fs::write(&gate, "").unwrap();
        until("the call has ended", || written().contains("api") && !is_running()).await;

        let slow_one = BTreeSet::from([Arc::from("slow")]);
        let work = async {
            publish(&["www", "api", "ftp"]);
            instance.follower.wake(Some("infra".into()));
            until("the other one goes on", || place.zone().contains("ftp")).await;
            assert!(!written().contains("ftp"), "{}", written());
        };
        instance.scheduler.alone(&slow_one, work).await;
        until("it goes on afterwards", || written().contains("ftp")).await;
        instance.stop();
        instance.ended().await;
    }
}
