use super::*;
use crate::{
    config::Environment,
    daemon::{
        Options,
        hour::{Hand, Place, until},
    },
    session::Session,
    store::{self, EventFilter},
};
use reconciled_engine::{Store, Write, store::Event};
use reconciled_provider::Clock;
use std::fs;
use tokio_util::task::TaskTracker;

#[test]
fn what_fails_is_let_be_for_longer_each_time_until_it_succeeds() {
    let (mut pause, mut now) = (Pause::default(), Duration::from_secs(1_000));
    assert!(pause.is_over(now));
    for seconds in [5, 10, 20, 40, 80, 160, 320, 640, 900, 900] {
        pause.after(&Err::<(), ()>(()), now);
        let length = Duration::from_secs(seconds);
        assert!(!pause.is_over(now) && !pause.is_over(now + length - Duration::from_millis(1)), "{seconds}");
        now += length;
        assert!(pause.is_over(now), "{seconds}");
    }
    pause.after(&Err::<(), ()>(()), now);
    assert!(pause.is_over(Duration::ZERO), "the clock went back");
    pause.after(&Ok::<(), ()>(()), now);
    assert!(pause.is_over(now));
}

async fn started(place: &Place, clock: &Arc<Hand>, before: Option<&Instance>) -> Arc<Instance> {
    let config = place.at("config.yaml");
    let session = Session::open_at(Some(&config), Environment::default(), clock.clone()).await.unwrap();
    Instance::start(session, before, &Options::default(), &TaskTracker::new()).await.unwrap()
}

/// A place whose configuration has these lines too, with an instance that is ready.
async fn kept_up(lines: impl Fn(&Place) -> String) -> (Place, Arc<Hand>, Arc<Instance>) {
    let (place, clock) = (Place::new(), Hand::new());
    let config = fs::read_to_string(place.at("config.yaml")).unwrap();
    fs::write(place.at("config.yaml"), format!("{config}{}\n", lines(&place))).unwrap();
    store::init(&place.at("state"), store::Init::New, clock.clone()).await.unwrap();
    let instance = started(&place, &clock, None).await;
    until("ready", || instance.is_ready()).await;
    (place, clock, instance)
}

/// Lets time go by until it is so.
async fn in_time(clock: &Hand, what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if is_so() {
            return;
        }
        clock.advance(Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never came about: {what}");
}

fn reasons(instance: &Instance) -> Vec<String> {
    instance.upkeep.conditions().into_iter().map(|condition| condition.reason).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_hangs_is_shown_and_keeps_no_reload_waiting() {
    let (place, clock, instance) = kept_up(|place| {
        let (dir, file) = (place.at("backups"), place.at("audit.jsonl"));
        format!(
            "backup: {{dir: {}, every: 1m, keep: 2}}\naudit: {{export: {}}}",
            dir.display(),
            file.display()
        )
    })
    .await;
    let is_first = || place.at("audit.jsonl").exists() && place.at("backups").exists();
    in_time(&clock, "the first backup", is_first).await;
    // As if a call on their mount did not come back.
    let hung = [&instance.upkeep.backing_up, &instance.upkeep.exporting].map(Arc::clone);
    let hung = [hung[0].clone().lock_owned().await, hung[1].clone().lock_owned().await];
    instance.writing.db.commit(vec![event(clock.now())]).await.unwrap();
    in_time(&clock, "both are shown", || reasons(&instance) == ["NotBackedUp", "NotExported"]).await;
    assert_eq!(failing(&instance), [("backup", true), ("export", true), ("retention", false)]);

    instance.stop();
    let ended = instance.ended();
    let mut ended = pin!(ended);
    loop {
        tokio::select! {
            () = &mut ended => break,
            () = tokio::time::sleep(Duration::from_millis(5)) => clock.advance(Duration::from_secs(1)),
        }
    }
    let next = started(&place, &clock, Some(&instance)).await;
    assert_eq!(reasons(&next), ["NotBackedUp", "NotExported"], "it hangs on");
    drop(hung);
    in_time(&clock, "nothing hangs", || reasons(&next).is_empty()).await;
    next.stop();
    next.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_go_when_they_are_old_and_were_exported() {
    let (place, clock, instance) =
        kept_up(|place| format!("audit: {{keep: 30d, export: {}}}", place.at("audit.jsonl").display())).await;
    let reader = instance.writing.db.reader();
    let all = async || reader.events(&EventFilter::default(), 0, 1_000).await.unwrap();
    let first = all().await;
    assert!(!first.is_empty());
    // What cannot be exported stays, whatever its age.
    in_time(&clock, "the export", || place.at("audit.jsonl").exists()).await;
    fs::remove_file(place.at("audit.jsonl")).unwrap();
    fs::create_dir(place.at("audit.jsonl")).unwrap();
    instance.writing.db.commit(vec![event(clock.now())]).await.unwrap();
    in_time(&clock, "it is shown", || reasons(&instance) == ["NotExported"]).await;
    clock.advance(Duration::from_hours(24 * 31));
    for _ in 0..5 {
        clock.advance(TRIM);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(all().await.len() > first.len());
    fs::remove_dir(place.at("audit.jsonl")).unwrap();
    in_time(&clock, "it is exported", || reasons(&instance).is_empty()).await;
    for _ in 0..24_000 {
        if all().await.iter().all(|event| first.iter().all(|old| old.number != event.number)) {
            break;
        }
        clock.advance(TRIM);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(all().await.iter().all(|event| first.iter().all(|old| old.number != event.number)));
    // The chain begins later, and is whole.
    assert!(reader.verify_events().await.unwrap().broken.is_none());
    instance.stop();
    instance.ended().await;
}

fn event(at: Duration) -> Write {
    Write::Event(Event {
        at,
        kind: "suspend".into(),
        scope: None,
        address: None,
        revision: "".into(),
        actor: "ann".into(),
        reason: "a look".into(),
        message: "a look".into(),
    })
}
