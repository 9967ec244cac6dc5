//! Entries and sources that have other names now.

use super::*;

fn renamed(what: Named, from: &str, to: &str) -> Rename {
    Rename { what, from: from.into(), to: to.into() }
}

#[tokio::test]
async fn what_is_known_of_an_entry_goes_along_and_can_be_opened() {
    let (dir, db) = new().await;
    db.keep_rows(100);
    let settled = Row { state: RowState::Settled, ..rich_row("a") };
    let unwell = Condition { id: None, ..condition("unavailable", "away", NOW) };
    db.commit(vec![
        Write::Rows(vec![settled.clone()].into()),
        Write::Conditions(zone(), vec![unwell]),
        Write::Ailments(zone(), vec![Ailment { id: None, ..ailment("", HealthState::Unknown) }]),
        Write::Hold(hold("x")),
        Write::Pin(pin("a", None)),
        Write::Consent(zone(), "b".into(), Consent::Barred),
        Write::Version(zone(), None),
        Write::Place(zone(), Hash::of(b"here")),
    ])
    .await
    .unwrap();
    assert_eq!(db.scope(&zone()).await.unwrap().rows.len(), 1);
    let rename = [renamed(Named::Provider, "pdns", "dns")];
    db.reader().has_its_names(&rename).await.unwrap_err();
    db.rename(&rename).await.unwrap();
    db.reader().has_its_names(&rename).await.unwrap();

    let here = Scope::new("dns", "example.com");
    assert!(db.scope(&zone()).await.unwrap().rows.is_empty());
    let memory = db.scope(&here).await.unwrap();
    assert_eq!(
        memory.rows[0],
        settled.with(|row| row.scope = here.clone().into()),
        "sealed values open under the new name"
    );
    assert_eq!((memory.conditions.len(), memory.consents.len()), (1, 1));
    assert_eq!(memory.place, Some(Hash::of(b"here")), "it is no other place under another name");
    assert_eq!(&*db.holds().await.unwrap()[0].domain, "dns/example.com");
    assert_eq!(db.pins().await.unwrap()[0].scope, here);
    assert_eq!(db.reader().status().await.unwrap().well, 0, "nobody knows how what cannot be read is");
    let events = db.reader().events(&EventFilter::default(), 0, 10).await.unwrap();
    assert_eq!(events[0].message, "provider `dns` was `pdns`; resources that go along: 1");
    // Once is enough.
    db.rename(&rename).await.unwrap();
    assert_eq!(db.reader().events(&EventFilter::default(), 0, 10).await.unwrap().len(), 1);
    db.close().await;
    drop(dir);
}

#[tokio::test]
async fn what_is_known_of_a_source_goes_along() {
    let (_dir, db) = new().await;
    let outputs = rich_row("a").tracked.outputs.clone();
    let row = row("a").with(|row| {
        row.tracked.after = [key("b")].into();
        row.tracked.outputs = outputs;
    });
    db.commit(vec![in_force("c1", &[("example.com", "1")]), Write::Rows(vec![row].into())]).await.unwrap();
    db.rename(&[renamed(Named::Source, "infra", "main")]).await.unwrap();
    let new = |name: &str| ManifestKey::new("main", "dns", "Zone", "", name);
    let rows = db.rows_with_outputs(&new("example.com")).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(*rows[0].tracked.after, [new("b")]);
    assert_eq!(db.dependants(&new("b")).await.unwrap().len(), 1, "edges follow");
    assert_eq!(db.in_force("main").await.unwrap().unwrap().commit, "c1".into());
    assert!(db.in_force("infra").await.unwrap().is_none());
    assert_eq!(db.generations("main").await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_comes_after_a_source_that_was_renamed_is_read_again_where_it_is_of_another_one() {
    let (_dir, db) = new().await;
    db.keep_rows(100);
    let of = |source: &str| ManifestKey::new(source, "dns", "Zone", "", "b");
    let row = row("a").with(|row| {
        row.manifest = ManifestKey::new("other", "dns", "Zone", "", "a");
        row.tracked.after = [of("infra")].into();
    });
    db.commit(vec![Write::Rows(vec![row].into())]).await.unwrap();
    assert_eq!(*db.all().await.unwrap()[&zone()].rows[0].tracked.after, [of("infra")]);
    db.rename(&[renamed(Named::Source, "infra", "main")]).await.unwrap();
    assert_eq!(*db.all().await.unwrap()[&zone()].rows[0].tracked.after, [of("main")]);
    assert_eq!(*db.scope(&zone()).await.unwrap().rows[0].tracked.after, [of("main")]);
}

#[tokio::test]
async fn a_write_without_an_answer_and_two_names_for_one_resource_are_refused() {
    let (_dir, db) = new().await;
    db.commit(vec![start(vec![intent(1, row("a"))], vec![])]).await.unwrap();
    for rename in [renamed(Named::Provider, "pdns", "dns"), renamed(Named::Source, "infra", "main")] {
        db.commit(vec![Write::Rows(vec![row("known")].into())]).await.unwrap();
        let error = db.rename(std::slice::from_ref(&rename)).await.unwrap_err();
        assert!(error.message.contains("has no answer yet"), "{error}");
    }
    db.commit(vec![Write::End(vec![ending(1, "done")])]).await.unwrap();
    let twin = row("known").with(|row| row.scope = Scope::new("dns", "example.com").into());
    db.commit(vec![Write::Rows(vec![twin].into())]).await.unwrap();
    let error = db.rename(&[renamed(Named::Provider, "pdns", "dns")]).await.unwrap_err();
    assert!(error.message.contains("both names track the same"), "{error}");
}
