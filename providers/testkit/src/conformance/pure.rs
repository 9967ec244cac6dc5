//! Laws of what needs no remote: manifests in, resources and words out.

use super::{
    check::{Check, ensure, skip},
    manifests,
    play::{Play, another_entry, content, found},
    subject::Sample,
};
use bytes::Bytes;
use reconciled_provider::{Claim, Lives, Observed, Resource, ResourceId};
use std::collections::BTreeSet;

pub(super) async fn the_samples_are_what_they_should_be(play: &Play<'_>) -> Check {
    let process = play.start().await;
    let initial = play.desired(&process, Sample::Initial).await?;
    ensure!(initial.len() >= 3, "Initial has {} resources, fewer than three", initial.len());
    ensure!(initial.iter().all(|r| r.spec.hash().is_some()), "a resource of Initial waits for another");
    let changed = play.desired(&process, Sample::Changed).await?;
    let differs = |list: &[Resource]| {
        initial.iter().any(|r| content(list, &r.id).is_some_and(|hash| hash != r.spec.hash()))
    };
    let is_new = |list: &[Resource]| list.iter().any(|r| content(&initial, &r.id).is_none());
    let lacks = |list: &[Resource]| initial.iter().any(|r| content(list, &r.id).is_none());
    ensure!(
        differs(&changed) && !is_new(&changed) && !lacks(&changed),
        "Changed is not Initial with other content"
    );
    let shrunk = play.desired(&process, Sample::Shrunk).await?;
    ensure!(
        !shrunk.is_empty() && lacks(&shrunk) && !is_new(&shrunk) && !differs(&shrunk),
        "Shrunk is not some of Initial as it was"
    );
    let mixed = play.desired(&process, Sample::Mixed).await?;
    ensure!(
        differs(&mixed) && is_new(&mixed) && lacks(&mixed),
        "Mixed does not change one, add one and lack one of Initial"
    );
    let foreign = play.subject.foreign(&process.scope);
    let is_declared = [&initial, &changed, &mixed].iter().any(|list| content(list, &foreign).is_some());
    ensure!(!is_declared, "a sample declares {foreign}, which is to be foreign");
    Ok(())
}

pub(super) async fn every_kind_of_the_samples_is_known(play: &Play<'_>) -> Check {
    let process = play.start().await;
    let kinds = process.provider.kinds(&process.cx).await?;
    for manifest in manifests::parse(&play.text(&process.scope, Sample::Initial)?)? {
        let Some(kind) = kinds.find(&manifest.api_version, &manifest.kind) else {
            ensure!(false, "kinds() has no {} {}", manifest.api_version, manifest.kind);
            continue;
        };
        ensure!(kind.schema.is_object(), "the schema of {} is no JSON object", kind.name);
    }
    Ok(())
}

pub(super) async fn normalize_is_pure(play: &Play<'_>) -> Check {
    let (first, second) = (play.start().await, play.start().await);
    let text = play.text(&first.scope, Sample::Initial)?;
    let kinds = first.provider.kinds(&first.cx).await?;
    // Another instance, which has other state, and has written meanwhile.
    second.converge(&play.desired(&second, Sample::Initial).await?).await?;
    let other = play.subject.connect(&first.scope, "another").await;
    for manifest in manifests::parse(&text)? {
        let once = manifests::normalize_one(&*first.provider, &kinds, &first.scope, &manifest)?;
        for provider in [&first.provider, &other] {
            let again = manifests::normalize_one(&**provider, &kinds, &first.scope, &manifest)?;
            ensure!(once == again, "the same manifest gave\n{once:?}\nand then\n{again:?}");
        }
    }
    Ok(())
}

pub(super) async fn a_manifest_for_another_entry_is_left_alone(play: &Play<'_>) -> Check {
    let process = play.start().await;
    let kinds = process.provider.kinds(&process.cx).await?;
    for mut manifest in manifests::parse(&play.text(&process.scope, Sample::Initial)?)? {
        manifest.providers = Some(another_entry());
        let taken = manifests::normalize_one(&*process.provider, &kinds, &process.scope, &manifest)?;
        ensure!(taken.is_empty(), "{} names another entry and was taken", manifest.name);
    }
    Ok(())
}

pub(super) async fn what_is_exported_normalizes_to_the_same(play: &Play<'_>) -> Check {
    let process = play.start().await;
    for sample in [Sample::Initial, Sample::Changed, Sample::Mixed, Sample::Swapped] {
        if play.subject.manifests(&process.scope, sample).is_none() {
            continue;
        }
        let desired = play.desired(&process, sample).await?;
        let text = text_of(process.provider.export(&found(&process.scope, &desired))?);
        let again = play.declared(&process, &text).await?;
        same(&desired, &again, &text)?;
    }
    Ok(())
}

/// Fails unless both are the same resources with the same content.
pub(super) fn same(left: &[Resource], right: &[Resource], text: &str) -> Check {
    let names = |list: &[Resource]| list.iter().map(|r| r.id.to_string()).collect::<Vec<_>>();
    let (before, after) = (names(left), names(right));
    ensure!(before == after, "exported {before:?}, declared {after:?} by\n{text}");
    for (a, b) in left.iter().zip(right) {
        let show = |r: &Resource| String::from_utf8_lossy(r.spec.bytes().unwrap_or_default()).into_owned();
        ensure!(a.spec.hash() == b.spec.hash(), "{}: {:?} became {:?} by\n{text}", a.id, show(a), show(b));
    }
    Ok(())
}

/// Exported documents as one text.
pub(super) fn text_of(documents: Vec<Bytes>) -> String {
    let texts: Vec<_> = documents.iter().map(|document| String::from_utf8_lossy(document)).collect();
    texts.join("\n---\n")
}

pub(super) async fn compare_finds_every_difference_and_no_other(play: &Play<'_>) -> Check {
    let process = play.start().await;
    let (initial, changed) =
        (play.desired(&process, Sample::Initial).await?, play.desired(&process, Sample::Changed).await?);
    for (before, after) in initial.iter().zip(&changed) {
        let observed = Observed::new(before.id.clone(), before.spec.bytes().unwrap_or_default());
        let provider = &process.provider;
        ensure!(provider.compare(before, &observed).is_none(), "{} differs from itself", before.id);
        let delta = provider.compare(after, &observed);
        if before.spec.hash() == after.spec.hash() {
            ensure!(delta.is_none(), "{} differs from its equal", before.id);
        } else {
            let names_fields = delta.as_ref().is_some_and(|delta| !delta.fields.is_empty());
            ensure!(names_fields, "{} differs and no field says how: {delta:?}", before.id);
            ensure!(provider.compare(after, &observed) == delta, "compare of {} is not pure", before.id);
        }
    }
    Ok(())
}

pub(super) async fn naming_and_showing_never_fail(play: &Play<'_>) -> Check {
    let (process, desired) = play.start_with(Sample::Initial).await?;
    let seen = process.observe(&desired).await?;
    let (provider, scope) = (&process.provider, &process.scope);
    let mut parts = BTreeSet::new();
    for observed in &seen.resources {
        provider.slot(&observed.id);
        provider.guard_word(scope, &observed.id);
        provider.show(&observed.id, &observed.bytes);
        if let Some(part) = provider.part(scope, &observed.id) {
            ensure!(parts.insert(part.clone()), "two resources are called #{part}");
        }
    }
    for observed in &seen.resources {
        let part = provider.part(scope, &observed.id);
        for other in parts.iter().map(|other| Some(&**other)).chain([None, Some(""), Some("/")]) {
            let is_part = provider.is_part(scope, &observed.id, other);
            ensure!(
                is_part == (part.as_deref() == other),
                "{} is called {part:?}, not {other:?}",
                observed.id
            );
        }
    }
    // The database may hold what an older version wrote.
    for id in ["", "/", "x", "//x//", "\u{e4}.\u{1f980}/\0", "a/b/c/d"].map(ResourceId::from) {
        provider.slot(&id);
        let part = provider.part(scope, &id);
        ensure!(provider.is_part(scope, &id, part.as_deref()), "{id} is called {part:?}");
        provider.guard_word(scope, &id);
        for bytes in [&b""[..], b"\n", b"\xff\xfe\0", b"300", "\u{e4}\n\n\u{e4}".as_bytes()] {
            provider.show(&id, bytes);
        }
    }
    Ok(())
}

pub(super) async fn a_claim_nobody_can_carry_is_refused(play: &Play<'_>) -> Check {
    let process = play.start().await;
    let claim = Claim {
        key: "k".into(),
        provider: process.scope.provider.clone(),
        kind: "no-such-kind".into(),
        spec: Bytes::from_static(b"\xff\0 no such thing"),
        lives: Lives::WhilePending,
    };
    let placed = process.provider.place(&claim, &[process.scope.clone()].into());
    ensure!(placed.is_err(), "a claim of no known kind was placed at {placed:?}");
    Ok(())
}

pub(super) async fn no_secret_is_printed(play: &Play<'_>) -> Check {
    let secrets = play.subject.secrets();
    if secrets.is_empty() {
        return skip("the subject names no secrets");
    }
    let (process, desired) = play.start_with(Sample::Initial).await?;
    let seen = process.observe(&desired).await?;
    let printed = format!("{:?} {seen:?} {:?}", process.provider, process.memory.rows());
    // The secret itself stays out of the message as well.
    ensure!(
        !secrets.iter().any(|s| printed.contains(s)),
        "Debug of the provider or of what it gave prints one"
    );
    Ok(())
}
