//! What was done and how it stands, as people read it.

use super::*;

fn in_order(checked: u64, first: i64) -> Verification {
    Verification { checked, first: Some(first), broken: None }
}

#[tokio::test]
async fn the_event_chain_shows_what_was_changed_or_removed() {
    let check = async |sql: &str| {
        let (dir, db) = new().await;
        for n in 0..5 {
            db.commit(vec![Write::Event(event("adopt", &format!("n{n}")))]).await.unwrap();
        }
        let whole = db.reader().verify_events().await.unwrap();
        assert_eq!(whole, in_order(5, 1));
        db.close().await;
        tamper(&dir, &format!("DROP TRIGGER event_is_append_only; {sql}")).await;
        let db = Reader::open(dir.path(), Arc::new(At(NOW))).await.unwrap();
        db.verify_events().await.unwrap().broken.map(|broken| broken.number)
    };
    assert_eq!(check("SELECT 1").await, None);
    assert_eq!(check("UPDATE event SET actor = 'eve' WHERE number = 3").await, Some(3));
    assert_eq!(check("UPDATE event SET scope = NULL WHERE number = 1").await, Some(1));
    assert_eq!(check("DELETE FROM event WHERE number = 2").await, Some(2));
    assert_eq!(check("DELETE FROM event WHERE number = 5").await, Some(5));
    assert_eq!(check("DELETE FROM event").await, Some(1));
    assert_eq!(check("UPDATE event SET number = number + 1 WHERE number = 5").await, Some(5));
}

#[tokio::test]
async fn events_cannot_be_changed_by_accident() {
    let (_dir, db) = new().await;
    db.commit(vec![Write::Event(event("adopt", "x"))]).await.unwrap();
    let mut conn = open::connect(&db.reader.file).await.unwrap();
    assert!(sqlx::query("UPDATE event SET actor = 'eve'").execute(&mut conn).await.is_err());
}

#[tokio::test]
async fn history_tells_revisions_actions_and_events_newest_first() {
    let (_dir, db) = new().await;
    let later = |event: Event| Event { at: NOW + DAY, ..event };
    db.commit(vec![
        in_force("c1", &[("example.com", "1")]),
        start(vec![intent(1, row("www/A"))], vec![]),
        Write::Event(event("create", "told by the journal")),
        Write::Event(later(event("adopt", "taken over"))),
    ])
    .await
    .unwrap();
    let reader = db.reader();
    let told = async |filter: HistoryFilter| -> Vec<String> {
        let entries = reader.history(&filter).await.unwrap();
        entries
            .iter()
            .map(|e| format!("{} {} {}", e.kind, e.actor, e.outcome.as_deref().unwrap_or("-")))
            .collect()
    };
    let all = ["adopt ada -", "revision Ada -", "create engine open"];
    assert_eq!(told(HistoryFilter::default()).await, all);
    let of = |text: &str| Some(text.parse::<Pattern>().unwrap());
    assert_eq!(
        told(HistoryFilter { address: of("Zone/*#www/A"), ..Default::default() }).await,
        [all[0], all[2]]
    );
    assert_eq!(told(HistoryFilter { address: of("Zone/example.org"), ..Default::default() }).await, [""; 0]);
    assert_eq!(told(HistoryFilter { actor: Some("Ada".into()), ..Default::default() }).await, [all[1]]);
    assert_eq!(told(HistoryFilter { since: Some(NOW + DAY), ..Default::default() }).await, [all[0]]);
    let events = reader.events(&EventFilter::default(), 1, 10).await.unwrap();
    assert_eq!(events.iter().map(|e| e.number).collect::<Vec<_>>(), [2]);
    let adopted = EventFilter { kinds: vec!["adopt".into()], ..Default::default() };
    assert_eq!(reader.events(&adopted, 0, 10).await.unwrap().len(), 1);
    assert_eq!(reader.last_event().await.unwrap(), 2);
}

#[tokio::test]
async fn what_is_waited_for_is_in_history_once_for_each_wait() {
    let (_dir, db) = new().await;
    let mut number = 0;
    let mut acted = async |op: &'static str, id: &str, outcome: &str| {
        number += 1;
        let at = NOW + Duration::from_secs(number);
        let intents = vec![Intent { op: op.into(), ..intent(number, row(id)) }];
        let start = Write::Start { scope: zone(), intents, fence: vec![], at };
        db.commit(vec![start, Write::End(vec![ending(number, outcome)])]).await.unwrap();
    };
    for (op, id, outcome) in [
        ("create", "web", "pending"),
        ("continue", "web", "pending"),
        ("continue", "api", "pending"),
        ("continue", "web", "failed"),
        ("continue", "web", "pending"),
        ("continue", "web", "done"),
        ("update", "web", "pending"),
        ("continue", "web", "pending"),
        ("continue", "web", "pending"),
    ] {
        acted(op, id, outcome).await;
    }
    let told: Vec<_> = db
        .reader()
        .history(&HistoryFilter::default())
        .await
        .unwrap()
        .iter()
        .map(|entry| (entry.at.0.as_secs() - NOW.as_secs(), entry.kind.clone()))
        .collect();
    let told: Vec<_> = told.iter().map(|(at, kind)| (*at, kind.as_str())).collect();
    let all =
        [(9, "continue"), (7, "update"), (6, "continue"), (4, "continue"), (3, "continue"), (1, "create")];
    assert_eq!(told, all);
}

#[tokio::test]
async fn status_counts_what_is_tracked_and_names_what_is_in_force() {
    let (_dir, db) = new().await;
    db.commit(vec![
        in_force("c1", &[("example.com", "1")]),
        Write::Converged(Ok(Converged {
            source: "infra".into(),
            commit: "c1".into(),
            inputs: Hash::of(b""),
        })),
        Write::Rows(
            vec![row("a"), rich_row("b"), Row { state: RowState::Applied, written_at: NOW, ..row("c") }]
                .into(),
        ),
        Write::Version(zone(), Some(KnownVersion { version: Version::Absent, foreign: 9 })),
        Write::Conditions(zone(), vec![condition("Conflict", "differs", NOW)]),
        Write::Hold(hold("one")),
    ])
    .await
    .unwrap();
    let status = db.reader().status().await.unwrap();
    let scope = &status.scopes[0];
    assert_eq!((scope.tracked, scope.applied, scope.pending, scope.foreign), (3, 1, 1, Some(9)));
    let source = &status.sources[0];
    assert_eq!((source.label.as_str(), source.manifests, source.converged), ("c1", 1, true));
    assert_eq!((status.conditions.len(), status.holds[0].deletes, status.open), (1, 7, 0));
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(json["conditions"][0]["nextTry"], "2023-11-15T22:13:20Z");
    let rows = db.reader().rows(Some(&"Zone/*#b".parse().unwrap())).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].depends_on, ["infra/dns/Zone//a", "infra/dns/Zone//b"]);
    assert_eq!(db.reader().rows(None).await.unwrap().len(), 3);
}

#[tokio::test]
async fn what_nothing_in_force_declares_is_left_over_unless_it_is_known_what_keeps_it() {
    let (_dir, db) = new().await;
    let left = async || db.reader().left_over().await.unwrap();
    let none: [(String, String); 0] = [];
    db.commit(vec![in_force("c1", &[("example.com", "1")]), Write::Rows(vec![row("www/A")].into())])
        .await
        .unwrap();
    assert_eq!(left().await, none);
    db.commit(vec![in_force("c2", &[])]).await.unwrap();
    let www = [(zone().to_string(), key("example.com").to_string())];
    assert_eq!(left().await, www);

    for domain in ["pdns/example.com", "pdns"] {
        let held = Hold { domain: domain.into(), ..hold("one") };
        // What will be held is not held yet: what waits for that says so itself.
        let later = Hold { once: Some("once the window opens".into()), ..held.clone() };
        db.commit(vec![Write::Hold(later)]).await.unwrap();
        assert_eq!(left().await, www, "{domain}");
        db.commit(vec![Write::Hold(held)]).await.unwrap();
        assert_eq!(left().await, none, "{domain}");
        db.commit(vec![Write::Release(domain.into())]).await.unwrap();
    }
    // That something else is stalled there says nothing of it.
    let other = Condition { id: Some("mail/A".into()), ..condition("Conflict", "differs", NOW) };
    db.commit(vec![Write::Conditions(zone(), vec![other])]).await.unwrap();
    assert_eq!(left().await, www);
    db.commit(vec![Write::Conditions(zone(), vec![condition("Conflict", "differs", NOW)])]).await.unwrap();
    assert_eq!(left().await, none);
    db.commit(vec![Write::Conditions(zone(), vec![])]).await.unwrap();
    let pending = Row { state: RowState::Pending { recheck_at: NOW }, ..row("www/A") };
    db.commit(vec![Write::Rows(vec![pending].into())]).await.unwrap();
    assert_eq!(left().await, none);
}

#[tokio::test]
async fn the_views_for_people_can_all_be_read() {
    let (_dir, db) = new().await;
    db.commit(vec![
        in_force("c1", &[("a", "1")]),
        Write::Rows(vec![row("a")].into()),
        start(vec![intent(1, row("a"))], vec![]),
        Write::End(vec![ending(1, "done")]),
        Write::Conditions(zone(), vec![condition("Conflict", "differs", NOW)]),
        Write::Hold(hold("one")),
        Write::Approve(approval(NOW)),
        Write::Suspend(suspension("one", None)),
        Write::Pin(pin("one", None)),
        Write::Drifted(vec![drift("a", None)]),
        Write::Ailments(zone(), vec![ailment("a", HealthState::Degraded)]),
        Write::Event(event("adopt", "x")),
    ])
    .await
    .unwrap();
    let mut conn = db.reader().conn().await.unwrap();
    let views: Vec<String> = sqlx::query_scalar("SELECT name FROM sqlite_schema WHERE type = 'view'")
        .fetch_all(&mut *conn)
        .await
        .unwrap();
    assert_eq!(views.len(), 12);
    let page = include_str!("../../../docs/operating.md");
    for view in views {
        let rows =
            sqlx::query(AssertSqlSafe(format!("SELECT * FROM {view}"))).fetch_all(&mut *conn).await.unwrap();
        assert_eq!(rows.len(), 1, "{view}");
        // The one that `tracked` is made from is for nobody.
        let is_told = page.contains(&format!("\n| `{view}` | "));
        assert_eq!(is_told, view != "inventory_now", "{view} in docs/operating.md");
    }
    let outcome: String =
        sqlx::query_scalar("SELECT outcome FROM actions").fetch_one(&mut *conn).await.unwrap();
    assert_eq!(outcome, "done");
}

#[tokio::test]
async fn a_trail_without_its_beginning_holds_together_and_so_does_its_export() {
    let (_dir, db) = new().await;
    let at = |second: u64| NOW + Duration::from_secs(second);
    for second in 0..6 {
        let event = Event { at: at(second), scope: None, ..event("adopt", "x") };
        db.commit(vec![Write::Event(event)]).await.unwrap();
    }
    let lines = |events: &[Exported]| {
        events.iter().map(|event| serde_json::to_string(event).unwrap() + "\n").collect::<String>()
    };
    let all = db.reader().exported(0, 100).await.unwrap();
    assert_eq!(all.len(), 6);
    let verified = |text: &str| {
        let mut chain = export::Chain::default();
        chain.read(text.as_bytes()).unwrap();
        chain.found()
    };
    assert_eq!(verified(&lines(&all)), in_order(6, 1));

    assert_eq!(db.trim_events(at(3)).await.unwrap(), 3);
    assert_eq!(db.reader().verify_events().await.unwrap(), in_order(3, 4));
    assert_eq!(db.trim_events(at(100)).await.unwrap(), 2, "the last one stays");
    assert_eq!(db.trim_events(at(100)).await.unwrap(), 0);
    db.commit(vec![Write::Event(event("adopt", "y"))]).await.unwrap();
    assert_eq!(db.reader().verify_events().await.unwrap(), in_order(2, 6));
    assert!(db.reader().continues(&all[5]).await.unwrap());
    assert!(db.reader().continues(&all[1]).await.unwrap(), "what follows it is gone, not another");
    let other = Exported { message: "another".into(), ..all[5].clone() };
    assert!(!db.reader().continues(&other).await.unwrap());

    // An export is checked from its first line on, whatever that is.
    let later = db.reader().exported(all[5].number - 1, 100).await.unwrap();
    assert_eq!(verified(&lines(&later)), in_order(2, 6));
    assert_eq!(verified(""), Verification::default());
    // Files of a rotation are one chain, from which none may be missing.
    let parts = |parts: &[&[Exported]]| {
        let mut chain = export::Chain::default();
        parts.iter().for_each(|part| chain.read(lines(part).as_bytes()).unwrap());
        chain.found()
    };
    assert_eq!(parts(&[&all[..2], &[], &all[2..4], &all[4..]]), in_order(6, 1));
    let missing = parts(&[&all[..2], &all[4..]]);
    assert_eq!((missing.checked, missing.broken.unwrap().number), (2, 5));
    let broken = |change: &dyn Fn(&mut Vec<Exported>)| {
        let mut changed = all.clone();
        change(&mut changed);
        verified(&lines(&changed)).broken.map(|broken| broken.number)
    };
    assert_eq!(broken(&|all| all[0].actor = "mallory".into()), Some(1));
    assert_eq!(broken(&|all| all[3].at += 1), Some(4));
    assert_eq!(broken(&|all| drop(all.remove(2))), Some(4));
    // What is written beside an event is no part of it, and what it has not is said.
    let second = |from: &str, to: &str| {
        let text = lines(&all);
        let (at, _) = text.match_indices(from).nth(1).unwrap();
        let text = format!("{}{to}{}", &text[..at], &text[at + from.len()..]);
        verified(&text).broken.map(|broken| broken.number)
    };
    assert_eq!(second("{\"number\"", "{\"approver\":\"bob\",\"number\""), Some(2));
    assert_eq!(second("\"scope\":null,", ""), Some(2));
    assert!(export::Chain::default().read("{}\n".as_bytes()).is_err());
}

#[tokio::test]
async fn what_was_done_goes_with_the_events_of_its_time_and_a_question_stays() {
    let (_dir, db) = new().await;
    // Out of order, as a provider may begin them.
    let intents = [7, 8, 3, 9].map(|action| intent(action, row(&format!("a{action}")))).to_vec();
    db.commit(vec![start(intents, Vec::new())]).await.unwrap();
    db.commit(vec![start(vec![intent(10, row("b"))], Vec::new())]).await.unwrap();
    db.commit(vec![Write::End(vec![ending(3, "done"), ending(8, "failed")])]).await.unwrap();
    let open = |db: &Db| {
        let reader = db.reader().clone();
        async move {
            reader.scope(&zone()).await.unwrap().open.iter().map(|o| o.intent.action.0).collect::<Vec<_>>()
        }
    };
    assert_eq!(open(&db).await, [7, 9, 10]);
    db.commit(vec![Write::End([7, 9].map(|action| ending(action, "done")).to_vec())]).await.unwrap();
    assert_eq!(open(&db).await, [10]);
    let outcomes = |list: &[HistoryEntry]| -> Vec<String> {
        list.iter()
            .map(|entry| {
                format!(
                    "{} {}",
                    entry.address.as_deref().unwrap_or(""),
                    entry.outcome.as_deref().unwrap_or("")
                )
            })
            .collect()
    };
    let history = db.reader().history(&HistoryFilter::default()).await.unwrap();
    assert_eq!(outcomes(&history).iter().filter(|line| line.ends_with("failed")).count(), 1, "{history:?}");

    db.trim_events(NOW).await.unwrap();
    assert_eq!(db.reader().history(&HistoryFilter::default()).await.unwrap().len(), 5);
    db.trim_events(NOW + DAY).await.unwrap();
    let left = db.reader().history(&HistoryFilter::default()).await.unwrap();
    assert_eq!((left.len(), left[0].outcome.as_deref()), (1, Some("open")), "{left:?}");
    assert_eq!(open(&db).await, [10]);
}
