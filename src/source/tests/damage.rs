//! Mirrors that are damaged, locked or in the way.

use super::*;

/// Makes a mirror, has `damage` done to it, and expects the next poll to heal it.
fn heals(damage: impl Fn(&Path)) {
    let (upstream, host) = (Upstream::new(), Host::new());
    let commit = upstream.commit("main", &[("a/b", "hello\n"), ("c", "x")]);
    let directory = {
        let mirror = host.mirror(&upstream.url());
        first(&mirror);
        mirror.directory().to_owned()
    };
    damage(&directory);
    let mirror = host.mirror(&upstream.url());
    // Only reading finds damage below the root; it leaves a mark for the poll.
    if let Ok(tree) = mirror.tree_at(commit, &Paths::all()) {
        let _ = tree.entries().iter().try_for_each(|entry| tree.contents().read(entry).map(drop));
    }
    let polled = mirror.poll(Some(commit), None);
    assert!(matches!(polled, Ok(Polled::Unchanged(_))), "{polled:?}");
    let tree = mirror.tree_at(commit, &Paths::all()).unwrap();
    assert_eq!((read(&tree, "a/b"), read(&tree, "c")), ("hello\n".into(), "x".into()));
    assert_eq!(fs::read_dir(host.state.path().join("git")).unwrap().count(), 1, "nothing is left beside it");
}

fn pack_files(mirror: &Path, extension: &str) -> Vec<std::path::PathBuf> {
    let files = fs::read_dir(mirror.join("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

fn rewrite(path: &Path, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_truncated_pack_is_cloned_again() {
    heals(|mirror| {
        let packs = pack_files(mirror, "pack");
        assert!(!packs.is_empty());
        packs.iter().for_each(|pack| rewrite(pack, |bytes| bytes.truncate(bytes.len() / 2)));
    });
}

#[test]
fn a_flipped_byte_is_cloned_again() {
    for at in [20, 60, 100, 140, 180, 220] {
        heals(|mirror| {
            for pack in pack_files(mirror, "pack") {
                rewrite(&pack, |bytes| {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 0x55;
                    }
                });
            }
        });
    }
}

#[test]
fn lost_objects_are_fetched_again() {
    heals(|mirror| fs::remove_dir_all(mirror.join("objects/pack")).unwrap());
    heals(|mirror| {
        pack_files(mirror, "idx").iter().for_each(|index| fs::write(index, "garbage").unwrap_or(()))
    });
}

#[test]
fn garbage_in_head_refs_or_config_is_cloned_again() {
    heals(|mirror| fs::write(mirror.join("HEAD"), "garbage").unwrap());
    heals(|mirror| fs::write(mirror.join("HEAD"), b"\xff\0").unwrap());
    heals(|mirror| fs::remove_file(mirror.join("HEAD")).unwrap());
    heals(|mirror| fs::write(mirror.join("config"), "[[[").unwrap());
    heals(|mirror| fs::write(mirror.join("refs/heads/main"), "garbage").unwrap());
    heals(|mirror| fs::remove_dir_all(mirror.join("refs")).unwrap());
}

#[test]
fn a_mirror_that_vanishes_or_was_never_finished_is_cloned_again() {
    heals(|mirror| fs::remove_dir_all(mirror).unwrap());
    heals(|mirror| {
        fs::remove_dir_all(mirror).unwrap();
        fs::create_dir(mirror).unwrap();
    });
    // The process was killed between the two renames of a replacement.
    heals(|mirror| fs::rename(mirror, mirror.with_extension("git.old")).unwrap());
}

#[test]
fn locks_that_a_killed_process_left_keep_nobody_out() {
    let (upstream, host) = (Upstream::new(), Host::new());
    upstream.commit("main", &[("a.yaml", "1")]);
    let mirror = host.open(host.spec(&[&upstream.url()]));
    let first = first(&mirror);
    let next = upstream.commit("main", &[("a.yaml", "2")]);
    for lock in ["refs/reconciled/in-force.lock", "refs/reconciled/offered.lock", "packed-refs.lock"] {
        let lock = mirror.directory().join(lock);
        fs::create_dir_all(lock.parent().unwrap()).unwrap();
        fs::write(lock, "").unwrap();
    }
    match mirror.poll(Some(first), None).unwrap() {
        Polled::Changed { to, .. } => assert_eq!(to.oid, next),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_damaged_mirror_stays_until_the_remote_answers() {
    let (upstream, host) = (Upstream::new(), Host::new());
    let commit = upstream.commit("main", &[("a", "hello\n")]);
    let mirror = host.mirror(&upstream.url());
    first(&mirror);
    fs::write(mirror.directory().join("damaged"), "").unwrap();
    fs::rename(upstream.path(), upstream.path().with_extension("away")).unwrap();
    let polled = mirror.poll(Some(commit), None);
    assert!(matches!(polled, Err(SourceError::RepositoryNotFound { .. })), "{polled:?}");
    assert_eq!(read(&mirror.tree_at(commit, &Paths::all()).unwrap(), "a"), "hello\n");
    fs::rename(upstream.path().with_extension("away"), upstream.path()).unwrap();
    assert!(matches!(mirror.poll(Some(commit), None), Ok(Polled::Unchanged(_))));
    assert!(!mirror.directory().join("damaged").exists());
}

#[test]
fn a_mirror_that_took_the_place_of_the_one_a_tree_is_of_is_not_taken_for_damaged() {
    let (upstream, host) = (Upstream::new(), Host::new());
    let commit = upstream.commit("main", &[("a", "hello\n")]);
    let mirror = host.mirror(&upstream.url());
    first(&mirror);
    let tree = mirror.tree_at(commit, &Paths::all()).unwrap();
    let other = Upstream::new();
    other.commit("main", &[("a", "another history\n")]);
    let place = mirror.directory().to_owned();
    fs::rename(&place, place.with_extension("away")).unwrap();
    first(&host.mirror(&other.url()));
    let read = tree.contents().read(&tree.entries()[0]);
    assert!(matches!(read, Err(SourceError::CommitNotFound { .. })), "{read:?}");
    assert!(!place.join("damaged").exists());
}
