//! What stands beside the rows: suspensions, pins, drift, health.

use super::*;

#[tokio::test]
async fn ids_that_look_like_sql_or_glob_are_only_texts() {
    let (_dir, db) = new().await;
    let odd = ["'; DROP TABLE inventory; --", "*.example.com./A", "ä\u{10ffff}\"\\", "%", "[\"x\"]"];
    let mut rows: Vec<Row> =
        odd.iter().map(|id| row(id).with(|row| row.address = "Zone/a".parse().unwrap())).collect();
    rows.sort_by(|a, b| a.tracked.id.cmp(&b.tracked.id));
    db.commit(vec![
        Write::Rows(rows.clone().into()),
        start(rows.iter().map(|r| intent(1, r.clone())).collect(), vec![]),
    ])
    .await
    .unwrap();
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, rows);
    assert_eq!(db.scope(&zone()).await.unwrap().open.len(), rows.len());
    db.commit(vec![Write::Gone(zone(), odd.iter().map(|id| ResourceId::from(*id)).collect())]).await.unwrap();
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, []);
}

#[tokio::test]
async fn suspensions_read_back_as_they_were_put_and_go_with_their_last_scope() {
    let (_dir, db) = new().await;
    let extents = [
        Extent::All,
        Extent::Source("infra".into()),
        Extent::Provider("pdns".into()),
        Extent::Address("Zone/*.example#www/A".parse().unwrap()),
        Extent::Labels("team=web,env!=prod,tier in (a,b),!draft".parse().unwrap()),
    ];
    let put: Vec<Suspension> = (0..)
        .zip(extents)
        .map(|(id, extent)| Suspension { extent, ..suspension(&format!("{id}"), Some(NOW)) })
        .collect();
    db.commit(put.iter().cloned().map(Write::Suspend).collect()).await.unwrap();
    assert_eq!(db.suspensions().await.unwrap(), put);
    db.commit(vec![Write::Resume("1".into()), Write::Looked("0".into(), NOW, zone())]).await.unwrap();
    let left = db.suspensions().await.unwrap();
    assert_eq!(
        left.iter().map(|s| (&*s.id, s.scopes.len())).collect::<Vec<_>>(),
        [("0", 1), ("2", 2), ("3", 2), ("4", 2)]
    );
    db.commit(vec![Write::Looked("0".into(), NOW, Scope::new("pdns", "other.example"))]).await.unwrap();
    assert_eq!(db.suspensions().await.unwrap(), put[2..]);
    // Said again, it is another in its place; what is over and left nothing in doubt goes meanwhile.
    let again = Suspension { scopes: [].into(), ..suspension("2", Some(NOW)) };
    let other = Suspension { since: NOW + Duration::from_secs(1), ..suspension("9", None) };
    db.commit(vec![Write::Suspend(again), Write::Suspend(other.clone())]).await.unwrap();
    assert_eq!(db.suspensions().await.unwrap(), [put[3].clone(), put[4].clone(), other]);
}

#[tokio::test]
async fn who_saw_that_a_suspension_is_over_ends_none_that_is_said_in_its_place() {
    let (_dir, db) = new().await;
    let over = suspension("0", Some(NOW));
    let again = Suspension { since: NOW + Duration::from_secs(1), ..suspension("0", None) };
    let looked = |since| {
        let of = |scope: &Scope| Write::Looked("0".into(), since, scope.clone());
        over.scopes.iter().map(of).collect::<Vec<_>>()
    };
    db.commit(vec![Write::Suspend(over.clone()), Write::Suspend(again.clone())]).await.unwrap();
    db.commit(looked(over.since)).await.unwrap();
    assert_eq!(db.suspensions().await.unwrap(), std::slice::from_ref(&again));
    db.commit(looked(again.since)).await.unwrap();
    assert_eq!(db.suspensions().await.unwrap(), []);
}

#[tokio::test]
async fn what_is_moved_takes_what_a_suspension_left_in_doubt_along() {
    let (_dir, db) = new().await;
    let (other, new) = (Scope::new("pdns", "other.example"), Scope::new("pdns", "new.example"));
    let both = [
        row("a").with(|row| row.scope = other.clone().into()),
        row("b").with(|row| row.scope = other.clone().into()),
    ];
    db.commit(vec![Write::Suspend(suspension("0", Some(NOW))), Write::Rows(both.to_vec().into())])
        .await
        .unwrap();
    let check = async |id: &str, expect: &[&Scope]| {
        let gone = Write::Gone(other.clone(), vec![id.into()]);
        db.commit(vec![gone, Write::Moved(other.clone(), new.clone())]).await.unwrap();
        let known = db.suspensions().await.unwrap();
        assert_eq!(known[0].scopes.iter().collect::<Vec<_>>(), expect);
    };
    // What else is there may have been changed, too.
    check("a", &[&zone(), &new, &other]).await;
    check("b", &[&zone(), &new]).await;
}

#[tokio::test]
async fn what_was_planned_from_all_that_a_source_declares_is_void_once_any_of_it_is_another() {
    let (_dir, db) = new().await;
    db.commit(vec![in_force("c1", &[("a", "1"), ("b", "1")])]).await.unwrap();
    let newest = async || {
        let all = db.generations("infra").await.unwrap();
        reconciled_engine::store::newest(all.iter().map(|(_, of)| *of))
    };
    let first = newest().await;
    let write = |number: u64, of: u64| {
        start(vec![intent(number, row("x"))], vec![(reconciled_engine::store::newest_of("infra"), of)])
    };
    db.commit(vec![write(1, first)]).await.unwrap();
    // A pin of one hides nothing of another.
    db.commit(vec![Write::Pin(pin("a", None)), Write::Pin(pin("b", None))]).await.unwrap();
    assert!(db.commit(vec![write(9, first)]).await.is_err());
    // One that is new, and one that is declared otherwise.
    for (number, manifests) in
        [(2, [("a", "1"), ("b", "1"), ("c", "1")]), (3, [("a", "1"), ("b", "2"), ("c", "1")])]
    {
        let before = newest().await;
        db.commit(vec![in_force(&format!("c{number}"), &manifests)]).await.unwrap();
        let error = db.commit(vec![write(number, before)]).await.unwrap_err();
        assert!(
            error.message.contains("what source infra declares changed after the plan was made"),
            "{error}"
        );
        db.commit(vec![write(number, newest().await)]).await.unwrap();
    }
}

#[tokio::test]
async fn pins_read_back_as_they_were_put_and_fence_their_manifest() {
    let (_dir, db) = new().await;
    db.commit(vec![in_force("c1", &[("a", "1"), ("b", "1")])]).await.unwrap();
    let generations = async || db.generations("infra").await.unwrap();
    let mut seen = vec![generations().await];
    let pins = [pin("one", None), pin("two", Some(NOW))];
    db.commit(pins.iter().cloned().map(Write::Pin).collect()).await.unwrap();
    assert_eq!(db.pins().await.unwrap(), pins);
    seen.push(generations().await);
    db.commit(vec![Write::Unpin(zone(), "one".into())]).await.unwrap();
    assert_eq!(db.pins().await.unwrap(), pins[1..]);
    seen.push(generations().await);
    db.commit(vec![Write::Unpin(zone(), "one".into())]).await.unwrap();
    assert_eq!(generations().await, seen[2], "what was no pin fences nothing");
    for (before, after) in [(0, 1), (1, 2), (0, 2)] {
        assert_ne!(seen[before][0], seen[after][0], "a plan from before writes nothing");
        assert_eq!(seen[before][1], seen[after][1], "the other manifest is not concerned");
    }
}

#[tokio::test]
async fn a_drift_is_one_entry_until_it_is_over_and_goes_with_its_time() {
    let (_dir, db) = new().await;
    let open = async || db.reader().scope(&zone()).await.unwrap().drifts;
    let over = |end, at| Write::DriftOver(zone(), vec![("a".into(), end)], at);
    db.commit(vec![Write::Drifted(vec![drift("a", None)])]).await.unwrap();
    assert_eq!(open().await, [drift("a", None)]);
    // The intent that heals it, and a later look that knows of none: first seen and action stay.
    let later = Drifted { first_seen: NOW + DAY, ..drift("a", Some(7)) };
    db.commit(vec![Write::Drifted(vec![later])]).await.unwrap();
    db.commit(vec![Write::Drifted(vec![drift("a", None)])]).await.unwrap();
    assert_eq!(open().await, [drift("a", Some(7))]);
    db.commit(vec![Write::NotHealed(zone(), vec!["a".into()])]).await.unwrap();
    assert_eq!(open().await, [drift("a", None)]);
    db.commit(vec![over(DriftEnd::Gone, NOW + DAY)]).await.unwrap();
    assert_eq!(open().await, []);
    db.commit(vec![Write::Drifted(vec![drift("a", Some(8))]), over(DriftEnd::Healed, NOW + DAY * 3)])
        .await
        .unwrap();
    db.commit(vec![Write::Drifted(vec![drift("b", None)])]).await.unwrap();
    let words = async || -> Vec<String> {
        let all = db.reader().drifts(None, false).await.unwrap();
        all.iter().map(|entry| format!("{} {}", entry.id, entry.outcome)).collect()
    };
    assert_eq!(words().await, ["b open", "a healed", "a gone"]);
    assert_eq!(db.reader().drifts(None, true).await.unwrap().len(), 1);
    // What is open stays, however old it is.
    db.trim_events(NOW + DAY * 2).await.unwrap();
    assert_eq!(words().await, ["b open", "a healed"]);
    db.trim_events(NOW + DAY * 9).await.unwrap();
    assert_eq!(words().await, ["b open"]);
}

#[tokio::test]
async fn what_is_not_healthy_is_remembered_until_it_is_and_nothing_of_what_is() {
    let (_dir, db) = new().await;
    let settled = Row { state: RowState::Settled, ..row("a") };
    let whole = Ailment { id: None, ..ailment("a", HealthState::Unknown) };
    let list = vec![whole, ailment("a", HealthState::Degraded)];
    let looked = Write::LookedAt(zone(), 3);
    let writes = vec![Write::Rows(vec![settled].into()), Write::Ailments(zone(), list.clone()), looked];
    db.commit(writes).await.unwrap();
    let memory = db.reader().scope(&zone()).await.unwrap();
    assert_eq!((memory.ailments, memory.looked_at), (list, 3));
    assert_eq!(db.reader().parts(Parts::Ailing).await.unwrap().len(), 1);
    db.commit(vec![Write::Ailments(zone(), Vec::new())]).await.unwrap();
    assert_eq!(db.reader().scope(&zone()).await.unwrap().ailments, []);
    assert!(db.reader().parts(Parts::Ailing).await.unwrap().is_empty());
    let all = db.reader().parts(Parts::All).await.unwrap();
    let part = all.values().next().unwrap();
    assert!(part.synced_at.is_some() && part.healthy_at >= part.synced_at, "{part:?}");
    assert_eq!((part.looked_at, part.generation), (Some(3), None));
}
