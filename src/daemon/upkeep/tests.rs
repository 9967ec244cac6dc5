use super::{record::SOON, *};
use crate::{
    config::Environment,
    daemon::{
        Options,
        hour::{self, Hand, Place, until},
    },
    session::Session,
    store::{self, EventEntry, EventFilter},
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

/// Backups of these days, of which three are kept.
fn three_backups(place: &Place, days: [&str; 3]) -> String {
    let dir = place.at("backups");
    fs::create_dir(&dir).unwrap();
    for day in days {
        fs::write(dir.join(format!("test-{day}T060000Z.db")), "").unwrap();
    }
    format!("backup: {{dir: {}, every: 1d, keep: 3}}", dir.display())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_a_clock_that_was_ahead_has_no_others_made_and_drives_none_out() {
    let (place, clock, instance) =
        kept_up(|place| three_backups(place, ["2023-11-12", "2023-11-13", "2024-06-01"])).await;
    let days = || days(&place);
    until("one is made", || days() == ["2023-11-12", "2023-11-13", "2023-11-14"]).await;
    for _ in 0..20 {
        clock.advance(LOOK);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(days(), ["2023-11-12", "2023-11-13", "2023-11-14"]);
    clock.advance(Duration::from_hours(24));
    // A look under way as the day went by saw the time before it, and is followed by another.
    hour::in_time(&clock, "the next is due", || days() == ["2023-11-13", "2023-11-14", "2023-11-15"]).await;
    instance.stop();
    instance.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_behind_has_a_backup_made_and_drives_none_out() {
    let (place, clock, instance) =
        kept_up(|place| three_backups(place, ["2024-06-01", "2024-06-02", "2024-06-03"])).await;
    let all = ["2023-11-14", "2024-06-01", "2024-06-02", "2024-06-03"];
    until("one is made", || days(&place) == all).await;
    for _ in 0..20 {
        clock.advance(LOOK);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(days(&place), all);
    // Once it is right there are as many as there shall be, and what it made itself is the oldest.
    clock.advance(Duration::from_hours(24 * 203));
    hour::in_time(&clock, "the next is due", || days(&place) == ["2024-06-02", "2024-06-03", "2024-06-04"])
        .await;
    instance.stop();
    instance.ended().await;
}

/// The days of which there are backups.
fn days(place: &Place) -> Vec<String> {
    let names = fs::read_dir(place.at("backups")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut days: Vec<String> =
        names.filter(|name| name.ends_with(".db")).map(|name| name[5..15].to_owned()).collect();
    days.sort();
    days
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_go_when_they_are_old_and_were_exported() {
    let (place, clock, instance) =
        kept_up(|place| format!("audit: {{keep: 30d, export: {}}}", place.at("audit.jsonl").display())).await;
    let first = all(&instance).await;
    assert!(!first.is_empty());
    // What cannot be exported stays, whatever its age.
    in_time(&clock, "the export", || place.at("audit.jsonl").exists()).await;
    fs::remove_file(place.at("audit.jsonl")).unwrap();
    fs::create_dir(place.at("audit.jsonl")).unwrap();
    instance.writing.db.commit(vec![event(clock.now())]).await.unwrap();
    in_time(&clock, "it is shown", || reasons(&instance) == ["NotExported"]).await;
    clock.advance(Duration::from_hours(24 * 31));
    instance.writing.db.commit(vec![event(clock.now())]).await.unwrap();
    // Another process, which finds that it is that late.
    instance.stop();
    instance.ended().await;
    instance.writing.db.close().await;
    let instance = started(&place, &clock, None).await;
    has_run(&instance);
    in_time(&clock, "it is shown again", || reasons(&instance) == ["NotExported"]).await;
    for _ in 0..5 {
        clock.advance(TRIM);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(all(&instance).await.len() > first.len());
    fs::remove_dir(place.at("audit.jsonl")).unwrap();
    in_time(&clock, "it is exported", || reasons(&instance).is_empty()).await;
    let is_old = |event: &EventEntry| first.iter().any(|old| old.number == event.number);
    for _ in 0..24_000 {
        if !all(&instance).await.iter().any(is_old) {
            break;
        }
        clock.advance(TRIM);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!all(&instance).await.iter().any(is_old));
    // The chain begins later, and is whole.
    assert!(instance.writing.db.reader().verify_events().await.unwrap().broken.is_none());
    instance.stop();
    instance.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_goes_because_the_clock_is_ahead() {
    let (_place, clock, instance) = kept_up(|_| "audit: {keep: 30d}".into()).await;
    has_run(&instance);
    instance.writing.db.commit(vec![event(clock.now()), event(clock.now())]).await.unwrap();
    let first = all(&instance).await;
    clock.advance(Duration::from_hours(24 * 31));
    for _ in 0..5 {
        clock.advance(TRIM);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let now = all(&instance).await;
    assert!(first.iter().all(|event| now.iter().any(|other| other.number == event.number)), "{now:?}");
    instance.stop();
    instance.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_goes_before_a_clock_is_set_that_is_ahead_at_each_start() {
    let month = Duration::from_hours(24 * 31);
    let (place, clock, instance) = kept_up(|_| "audit: {keep: 30d}".into()).await;
    let first = all(&instance).await;
    assert!(!first.is_empty());
    clock.advance(month);
    instance.writing.db.commit(vec![event(clock.now())]).await.unwrap();
    instance.stop();
    instance.ended().await;
    instance.writing.db.close().await;
    // The newest event is of the time that the clock shows once more.
    let instance = started(&place, &clock, None).await;
    let some_looks = async || {
        for _ in 0..5 {
            clock.advance(LOOK);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    some_looks().await;
    clock.put_back(month);
    has_run(&instance);
    some_looks().await;
    let now = all(&instance).await;
    assert!(first.iter().all(|event| now.iter().any(|other| other.number == event.number)), "{now:?}");
    instance.stop();
    instance.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_events_go_where_each_process_ends_within_an_hour() {
    let (place, clock, instance) = kept_up(|_| "audit: {keep: 30d}".into()).await;
    let first = all(&instance).await;
    assert!(!first.is_empty());
    clock.advance(Duration::from_hours(24 * 31));
    instance.writing.db.commit(vec![event(clock.now())]).await.unwrap();
    instance.stop();
    instance.ended().await;
    instance.writing.db.close().await;
    let instance = started(&place, &clock, None).await;
    let is_old = |event: &EventEntry| first.iter().any(|old| old.number == event.number);
    let some_looks = async || {
        for _ in 0..5 {
            clock.advance(LOOK);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // The host has run for long, and the process has just begun; then the other way around.
    clock.stay_up(TRIM);
    some_looks().await;
    clock.stay_up(TRIM - LOOK);
    has_run_for(&instance, SOON);
    some_looks().await;
    assert_eq!(all(&instance).await.into_iter().filter(is_old).count(), first.len());
    clock.stay_up(TRIM);
    for _ in 0..2_000 {
        if !all(&instance).await.iter().any(is_old) {
            break;
        }
        clock.advance(LOOK);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!all(&instance).await.iter().any(is_old));
    instance.stop();
    instance.ended().await;
}

/// As if the process had run for so long that old events are taken out.
fn has_run(instance: &Instance) {
    has_run_for(instance, TRIM);
}

fn has_run_for(instance: &Instance, long: Duration) {
    instance.upkeep.looks.store(long.as_secs() / LOOK.as_secs(), Ordering::Relaxed);
}

async fn all(instance: &Instance) -> Vec<EventEntry> {
    instance.writing.db.reader().events(&EventFilter::default(), 0, 1_000).await.unwrap()
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
