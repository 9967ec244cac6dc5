//! Each state a source can be in, made with real repositories and real servers.

use std::fs;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::fixture::*;
use super::*;

/// Polls for the first time and returns the commit.
fn first(mirror: &Mirror) -> Oid {
    match mirror.poll(None, None).unwrap() {
        Polled::Changed { from: None, to, .. } => to.oid,
        other => panic!("{other:?}"),
    }
}

fn names(tree: &dyn Tree) -> Vec<&str> {
    tree.entries().iter().map(|entry| &*entry.path).collect()
}

fn refused(tree: &dyn Tree) -> Vec<(&str, Reason)> {
    tree.refused().iter().map(|refused| (refused.path.as_str(), refused.reason.clone())).collect()
}

fn read(tree: &dyn Tree, path: &str) -> String {
    let content = tree.read(tree.find(path).unwrap()).unwrap();
    String::from_utf8(content.to_vec()).unwrap()
}

/// The files below a directory, for noticing that something was fetched.
fn files_below(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries.map(|entry| if entry.path().is_dir() { files_below(&entry.path()) } else { 1 }).sum()
}

mod trees {
    use super::*;

    #[test]
    fn a_commit_is_read_without_a_work_tree() {
        let (upstream, host) = (Upstream::new(), Host::new());
        let commit =
            upstream.commit("main", &[("zones/b.yaml", "hello\n"), ("a.yaml", ""), ("zones.txt", "x")]);
        let mirror = host.mirror(&upstream.url());
        assert_eq!(first(&mirror), commit);
        let tree = mirror.tree_at(commit, &Paths::all()).unwrap();
        assert_eq!(names(&tree), ["a.yaml", "zones.txt", "zones/b.yaml"]);
        assert_eq!(read(&tree, "zones/b.yaml"), "hello\n");
        let entry = &tree.entries()[2];
        assert_eq!((entry.size, entry.oid), (6, Oid::of_blob(b"hello\n").unwrap()));
        let info = tree.revision().unwrap();
        assert_eq!(info.author, "A U Thor <author@example.com>");
        assert_eq!((info.subject.as_str(), info.time), ("zones: add www", 1_700_000_000));
        assert_eq!(info.short(), commit.to_string()[..7]);
        assert!(info.parents.is_empty());
    }

    #[test]
    fn every_odd_entry_is_refused_by_name_and_the_rest_is_listed() {
        let (upstream, host) = (Upstream::new(), Host::new());
        let blob = upstream.blob(b"x");
        let large = upstream.blob(b"0123456789abcdefg");
        let directory = upstream.tree(&[("config", "x")]);
        let below = upstream.raw_tree(&[("120000", b"link", blob), ("100755", b"ok.yaml", blob)]);
        let tree = upstream.raw_tree(&[
            ("100644", b"ok.yaml", blob),
            ("120000", b"evil.yaml", upstream.blob(b"/etc/passwd")),
            ("160000", b"module", blob),
            ("100644", b"\xff.yaml", blob),
            ("40000", b".GIT", directory),
            ("40000", b".git", directory),
            ("40000", b"..", directory),
            ("100644", b".", blob),
            ("100644", b"a\\b", blob),
            ("100644", b"large.yaml", large),
            ("100644", b"tree.yaml", directory),
            ("40000", b"below", below),
        ]);
        let commit = upstream.commit_tree("main", tree);
        let mut spec = host.spec(&[&upstream.url()]);
        spec.limits.file = 16;
        let mirror = host.open(spec);
        first(&mirror);
        let tree = mirror.tree_at(commit, &Paths::all()).unwrap();
        assert_eq!(names(&tree), ["below/ok.yaml", "ok.yaml"]);
        assert_eq!(
            refused(&tree),
            [
                (".", Reason::ReservedName),
                ("..", Reason::ReservedName),
                (".GIT", Reason::ReservedName),
                (".git", Reason::ReservedName),
                ("a\\b", Reason::ReservedName),
                ("below/link", Reason::Symlink),
                ("evil.yaml", Reason::Symlink),
                ("large.yaml", Reason::TooLarge { size: 17, limit: 16 }),
                ("module", Reason::Submodule),
                ("tree.yaml", Reason::NotAFile),
                ("\u{fffd}.yaml", Reason::NotUtf8),
            ]
        );
    }

    #[test]
    fn a_tree_over_a_limit_is_an_error_even_when_it_repeats_itself() {
        let (upstream, host) = (Upstream::new(), Host::new());
        let heavy = upstream.commit("main", &[("a", "0123456789"), ("b", "0123456789")]);
        // Ten levels of ten: a handful of objects, ten billion empty files.
        let mut bomb = upstream.tree(&[("empty", "")]);
        for _ in 0..10 {
            let names: Vec<[u8; 1]> = (b'0'..=b'9').map(|name| [name]).collect();
            let entries: Vec<_> = names.iter().map(|name| ("40000", &name[..], bomb)).collect();
            bomb = upstream.raw_tree(&entries);
        }
        let bomb = upstream.commit_tree("main", bomb);
        let mut spec = host.spec(&[&upstream.url()]);
        spec.limits = Limits { file: 15, tree: 19, entries: 10_000 };
        let mirror = host.open(spec);
        first(&mirror);
        let tree = |commit| mirror.tree_at(commit, &Paths::all()).unwrap_err();
        assert!(matches!(tree(heavy), SourceError::TreeTooLarge { limit: 19 }));
        assert!(matches!(tree(bomb), SourceError::TooManyEntries { limit: 10_000 }));
    }

    #[test]
    fn a_path_filter_does_not_walk_the_rest() {
        let (upstream, host) = (Upstream::new(), Host::new());
        let files = [
            ("common/a", "x"),
            ("env/prod/a", "x"),
            ("env/test/a", "x"),
            ("other/a", "0123456789"),
            ("z", "x"),
        ];
        let commit = upstream.commit("main", &files);
        let mut spec = host.spec(&[&upstream.url()]);
        // What lies outside would pass the limit.
        spec.limits.tree = 5;
        let mirror = host.open(spec);
        first(&mirror);
        let tree = |paths: &[&str]| mirror.tree_at(commit, &Paths::new(paths).unwrap());
        assert_eq!(names(&tree(&["env/prod", "common"]).unwrap()), ["common/a", "env/prod/a"]);
        assert_eq!(names(&tree(&["z"]).unwrap()), ["z"]);
        assert!(matches!(tree(&["."]), Err(SourceError::TreeTooLarge { .. })));
        match tree(&["env/stage", "common"]) {
            Err(SourceError::PathNotFound { path, .. }) => assert_eq!(path, "env/stage"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_entry_of_another_tree_is_not_read() {
        let (upstream, host) = (Upstream::new(), Host::new());
        let one = upstream.commit("main", &[("a", "one")]);
        let two = upstream.commit("main", &[("a", "two")]);
        let mirror = host.mirror(&upstream.url());
        first(&mirror);
        let one = mirror.tree_at(one, &Paths::all()).unwrap();
        let two = mirror.tree_at(two, &Paths::all()).unwrap();
        assert!(matches!(two.read(&one.entries()[0]), Err(SourceError::NotListed { .. })));
    }
}

mod polls {
    use super::*;

    #[test]
    fn an_unchanged_remote_is_not_fetched() {
        let (upstream, host) = (Upstream::new(), Host::new());
        let commit = upstream.commit("main", &[("a", "x")]);
        let mirror = host.mirror(&upstream.url());
        first(&mirror);
        let before = files_below(mirror.directory());
        // Another branch is no business of this source.
        upstream.commit("other", &[("b", "y")]);
        for _ in 0..3 {
            match mirror.poll(Some(commit), None).unwrap() {
                Polled::Unchanged(info) => assert_eq!(info.oid, commit),
                other => panic!("{other:?}"),
            }
        }
        // One ref more, since the first poll did not know what is in force.
        assert_eq!(files_below(&mirror.directory().join("objects")), 2);
        assert_eq!(files_below(mirror.directory()), before + 1);
    }

    #[test]
    fn a_new_commit_is_fetched_from_a_path_and_a_file_url_alike() {
        for scheme in ["", "file://"] {
            let (upstream, host) = (Upstream::new(), Host::new());
            let one = upstream.commit("main", &[("a", "1")]);
            let mirror = host.mirror(&format!("{scheme}{}", upstream.url()));
            assert_eq!(first(&mirror), one);
            let two = upstream.commit("main", &[("a", "2")]);
            match mirror.poll(Some(one), None).unwrap() {
                Polled::Changed { from, to, .. } => {
                    assert_eq!((from, to.oid, to.parents), (Some(one), two, vec![one]));
                }
                other => panic!("{other:?}"),
            }
            assert!(mirror.descends(one, two).unwrap());
            assert!(!mirror.descends(two, one).unwrap());
        }
    }

    #[test]
    fn a_rewound_branch_is_refused_until_exactly_that_commit_is_accepted() {
        let (upstream, host) = (Upstream::new(), Host::new());
        let base = upstream.commit("main", &[("a", "0")]);
        let in_force = upstream.commit("main", &[("a", "1")]);
        let mirror = host.mirror(&upstream.url());
        first(&mirror);
        let offered = upstream.commit_on("main", upstream.tree(&[("a", "2")]), Some(base.into()));
        for consent in [None, Some(in_force), Some(base)] {
            match mirror.poll(Some(in_force), consent) {
                Err(error @ SourceError::Rewound { in_force: from, offered: to, .. }) => {
                    assert_eq!((from, to), (in_force, offered));
                    assert!(error.hint().ends_with(&format!(" --accept-rewind {offered}")));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(read(&mirror.tree_at(in_force, &Paths::all()).unwrap(), "a"), "1");
        assert_eq!(mirror.resolve("main").unwrap().oid, in_force);
        let accepted = mirror.poll(Some(in_force), Some(offered)).unwrap();
        assert!(matches!(accepted, Polled::Changed { to, .. } if to.oid == offered));
        assert!(matches!(mirror.poll(Some(offered), None), Ok(Polled::Unchanged(_))));
        // The consent was for one commit, not for the branch.
        upstream.commit_on("main", upstream.tree(&[("a", "3")]), Some(base.into()));
        assert!(matches!(mirror.poll(Some(offered), Some(offered)), Err(SourceError::Rewound { .. })));
    }

    #[test]
    fn an_old_commit_offered_again_is_a_rewind() {
        let (upstream, host) = (Upstream::new(), Host::new());
        let old = upstream.commit("main", &[("a", "1")]);
        let new = upstream.commit("main", &[("a", "2")]);
        let mirror = host.mirror(&upstream.url());
        first(&mirror);
        upstream.repository.reference("refs/heads/main", old.into(), true, "test").unwrap();
        assert!(matches!(mirror.poll(Some(new), None), Err(SourceError::Rewound { .. })));
    }

    #[test]
    fn a_missing_branch_says_which_exist_and_keeps_what_is_in_force() {
        let (upstream, host) = (Upstream::new(), Host::new());
        let commit = upstream.commit("main", &[("a", "1")]);
        let mirror = host.mirror(&upstream.url());
        first(&mirror);
        upstream
            .repository
            .find_reference("refs/heads/main")
            .unwrap()
            .rename("refs/heads/master", true, "")
            .unwrap();
        match mirror.poll(Some(commit), None) {
            Err(error @ SourceError::MissingBranch { .. }) => {
                assert!(error.to_string().ends_with("has no branch main; it has master"), "{error}");
                assert_eq!(error.hint(), "did you mean master?");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(read(&mirror.tree_at(commit, &Paths::all()).unwrap(), "a"), "1");
    }

    #[test]
    fn an_empty_repository_is_a_state_of_its_own() {
        let (upstream, host) = (Upstream::new(), Host::new());
        let mirror = host.mirror(&upstream.url());
        assert!(matches!(mirror.poll(None, None), Err(SourceError::Empty { .. })));
        let commit = upstream.commit("main", &[("a", "1")]);
        assert_eq!(first(&mirror), commit);
    }

    #[test]
    fn tags_ranges_and_commits_are_followed() {
        let upstream = Upstream::new();
        let one = upstream.commit("main", &[("a", "1")]);
        upstream.tag("v1.0.0", one);
        let two = upstream.commit("side", &[("a", "2")]);
        upstream.tag("v1.1.0", two);
        let three = upstream.commit("main", &[("a", "3")]);
        for (reference, expect) in [
            (Reference::Tag("v1.0.0".into()), one),
            (Reference::semver("1").unwrap(), two),
            (Reference::Commit(three), three),
            // On no tip, so that everything has to be fetched to find it.
            (Reference::Commit(one), one),
        ] {
            let host = Host::new();
            let mut spec = host.spec(&[&upstream.url()]);
            spec.reference = reference.clone();
            let mirror = host.open(spec);
            assert_eq!(first(&mirror), expect, "{reference}");
            let again = mirror.poll(Some(expect), None);
            assert!(matches!(again, Ok(Polled::Unchanged(_))), "{reference}: {again:?}");
        }
        let host = Host::new();
        let mut spec = host.spec(&[&upstream.url()]);
        spec.reference = Reference::Commit([7; 20].into());
        let missing = host.open(spec).poll(None, None);
        assert!(matches!(missing, Err(SourceError::CommitNotFound { .. })), "{missing:?}");
    }

    #[test]
    fn a_revision_is_what_a_person_types() {
        let (upstream, host) = (Upstream::new(), Host::new());
        let one = upstream.commit("main", &[("a", "1")]);
        let two = upstream.commit("main", &[("a", "2")]);
        let mirror = host.mirror(&upstream.url());
        first(&mirror);
        for (rev, expect) in
            [("main", two), ("HEAD", two), ("main~1", one), (&two.to_string(), two), (&one.short(), one)]
        {
            assert_eq!(mirror.resolve(rev).unwrap().oid, expect, "{rev}");
        }
        let long = [
            "é".repeat(1000),
            "a".repeat(300),
            "a/".repeat(600),
            "main~".repeat(100),
            format!("{two}~{}", u64::MAX),
        ];
        let odd = [
            "nope",
            "main~9",
            "",
            "main^{tree}",
            "a b..c",
            "a\0b",
            "@{-1}",
            "@{9}",
            "main@{yesterday}",
            "main@{u}",
            ":/[",
            ":/nobody",
            ":0:a",
            "main:a",
            "main:",
            "..",
            "../../HEAD",
            "/",
            "~",
            "^",
            "^{/[}",
            "main^{}^{tag}",
            "\n",
            "main^99",
            "refs/heads/",
            "refs/heads/a.lock",
            "-v",
            "@{",
            "main^{",
            "main@{-1}",
            "0000000000000000000000000000000000000000",
        ];
        for rev in long.iter().map(String::as_str).chain(odd) {
            let missing = mirror.resolve(rev);
            assert!(matches!(missing, Err(SourceError::RevisionNotFound { .. })), "{rev}: {missing:?}");
        }
        let missing = mirror.tree_at([7; 20].into(), &Paths::all());
        assert!(matches!(missing, Err(SourceError::CommitNotFound { .. })));
    }

    #[test]
    fn no_revision_that_is_typed_makes_the_mirror_look_damaged() {
        let (upstream, host) = (Upstream::new(), Host::new());
        upstream.commit("main", &[("a", "1")]);
        let mirror = host.mirror(&upstream.url());
        first(&mirror);
        proptest!(|(rev in r"(main|HEAD|[a-f0-9]{4,40}|\PC{0,9})?([~^@:{}/.\-0-9a-z]{0,8}|\PC{0,600})")| {
            let resolved = mirror.resolve(&rev);
            prop_assert!(matches!(resolved, Ok(_) | Err(SourceError::RevisionNotFound { .. })), "{resolved:?}");
        });
    }

    #[test]
    fn many_packs_become_one_and_nothing_is_lost() {
        let (upstream, host) = (Upstream::new(), Host::new());
        let mirror = host.mirror(&upstream.url());
        let packs = || {
            let folder = fs::read_dir(mirror.directory().join("objects/pack")).unwrap();
            let paths = folder.map(|entry| entry.unwrap().path());
            paths.filter(|path| path.extension().is_some_and(|e| e == "pack")).collect::<Vec<_>>()
        };
        let mut all = Vec::new();
        let mut most = 0;
        for number in 0..60 {
            all.push(upstream.commit("main", &[("a.yaml", &format!("n: {number}"))]));
            mirror.poll(all.iter().rev().nth(1).copied(), None).unwrap();
            most = most.max(packs().len());
            for path in packs() {
                // As if it were of another day: what is young may belong to a fetch that is still going on.
                let file = fs::File::open(path).unwrap();
                file.set_modified(std::time::UNIX_EPOCH).unwrap();
            }
        }
        assert!((50..=52).contains(&most) && packs().len() < 20, "{most} packs, then {}", packs().len());
        for (number, commit) in all.iter().enumerate() {
            let tree = mirror.tree_at(*commit, &Paths::all()).unwrap();
            assert_eq!(read(&tree, "a.yaml"), format!("n: {number}"));
        }
    }

    #[test]
    fn a_fetch_over_the_cap_is_stopped() {
        let (upstream, host) = (Upstream::new(), Host::new());
        // Digests do not compress.
        let noise: String =
            (0..2_000).map(|n| Oid::of_blob(&[n as u8, (n >> 8) as u8]).unwrap().to_string()).collect();
        upstream.commit("main", &[("a", &noise)]);
        let mut spec = host.spec(&[&upstream.url()]);
        spec.fetch.bytes = 10_000;
        let stopped = host.open(spec).poll(None, None);
        assert!(matches!(stopped, Err(SourceError::TransferTooLarge { limit: 10_000, .. })), "{stopped:?}");

        let host = Host::new();
        let mut spec = host.spec(&[&upstream.url()]);
        spec.fetch.time = Duration::ZERO;
        let stopped = host.open(spec).poll(None, None);
        assert!(matches!(stopped, Err(SourceError::TransferTooSlow { .. })), "{stopped:?}");
    }

    #[test]
    fn a_specification_that_names_nothing_is_refused() {
        let host = Host::new();
        let open = |spec| Mirror::open(host.state.path(), spec).unwrap_err();
        for name in ["", ".", "..", "a/b", ".hidden", &"x".repeat(129)] {
            let mut spec = host.spec(&["/srv/a.git"]);
            spec.name = name.to_owned();
            assert!(matches!(open(spec), SourceError::InvalidName { .. }), "{name}");
        }
        assert!(matches!(open(host.spec(&[])), SourceError::NoUrl { .. }));
        let mut spec = host.spec(&["/srv/a.git"]);
        spec.reference = Reference::Branch("main:refs/heads/x".into());
        assert!(matches!(open(spec), SourceError::InvalidReference { .. }));
    }
}

mod damage {
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
            let _ = tree.entries().iter().try_for_each(|entry| tree.read(entry).map(drop));
        }
        let polled = mirror.poll(Some(commit), None);
        assert!(matches!(polled, Ok(Polled::Unchanged(_))), "{polled:?}");
        let tree = mirror.tree_at(commit, &Paths::all()).unwrap();
        assert_eq!((read(&tree, "a/b"), read(&tree, "c")), ("hello\n".into(), "x".into()));
        assert_eq!(
            fs::read_dir(host.state.path().join("git")).unwrap().count(),
            1,
            "nothing is left beside it"
        );
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
}

mod remotes {
    use super::*;

    /// Polls a remote that cannot be read, without and with a revision in force.
    fn fails(url: &str) -> SourceError {
        let host = Host::new();
        host.mirror(url).poll(None, None).unwrap_err()
    }

    fn response(status: &str, headers: &str) -> String {
        format!("HTTP/1.1 {status}\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n")
    }

    fn token() -> Credentials {
        let token = SecretSource::new(|| Ok("hunter2-token".to_owned().into()));
        Credentials { token: Some(token), ..Credentials::default() }
    }

    #[test]
    fn a_closed_port_is_unreachable_over_every_transport() {
        for scheme in ["http", "https", "ssh"] {
            let error = fails(&format!("{scheme}://{}/infra.git", closed_port()));
            assert!(matches!(error, SourceError::Unreachable { .. }), "{scheme}: {error:?}");
        }
    }

    #[test]
    fn a_path_without_a_repository_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("missing.git")] {
            let error = fails(path.to_str().unwrap());
            assert!(matches!(error, SourceError::RepositoryNotFound { .. }), "{error:?}");
        }
    }

    #[test]
    fn the_second_url_is_tried_when_the_first_fails() {
        let (upstream, host) = (Upstream::new(), Host::new());
        let commit = upstream.commit("main", &[("a", "x")]);
        let closed = format!("http://{}/infra.git", closed_port());
        let mirror = host.open(host.spec(&[&closed, "/nowhere/infra.git", &upstream.url()]));
        assert_eq!(first(&mirror), commit);

        let host = Host::new();
        let error = host.open(host.spec(&[&closed, "/nowhere/infra.git"])).poll(None, None).unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with("none of 2 urls can be read: http://127.0.0.1:"), "{said}");
        assert!(
            said.contains("cannot be reached: ") && said.contains("/nowhere/infra.git is not a"),
            "{said}"
        );
    }

    #[test]
    fn a_rejected_token_is_shown_once_and_never_printed() {
        let server =
            Server::http(|_| response("401 Unauthorized", "WWW-Authenticate: Basic realm=\"git\"\r\n"));
        let host = Host::new();
        let url = format!("http://ci:hunter2-url@{}/infra.git", server.address);
        for credentials in [token(), Credentials::default()] {
            let mut spec = host.spec(&[&url]);
            spec.credentials = credentials;
            assert!(!format!("{spec:?}").contains("hunter2"));
            let mirror = host.open(spec);
            let error = mirror.poll(None, None).unwrap_err();
            assert!(matches!(error, SourceError::Authentication { .. }), "{error:?}");
            assert!(!everything_said(&error).contains("hunter2"), "{}", everything_said(&error));
        }
        let requests = server.requests.lock().unwrap();
        let shown = |secret: &str| {
            use base64::Engine;
            let line = format!("Basic {}", base64::prelude::BASE64_STANDARD.encode(secret));
            requests.iter().filter(|request| request.contains(&line)).count()
        };
        assert!(shown("ci:hunter2-token") <= 1, "{requests:?}");
        assert!(shown("ci:hunter2-url") <= 2, "{requests:?}");
    }

    #[test]
    fn a_token_is_sent_to_the_host_that_asks_for_it() {
        let server = Server::http(|request| match request.contains("Authorization: Basic ") {
            true => response("404 Not Found", ""),
            false => response("401 Unauthorized", "WWW-Authenticate: Basic realm=\"git\"\r\n"),
        });
        let host = Host::new();
        let mut spec = host.spec(&[&format!("http://{}/infra.git", server.address)]);
        spec.credentials = token();
        let error = host.open(spec).poll(None, None).unwrap_err();
        assert!(matches!(error, SourceError::RepositoryNotFound { .. }), "{error:?}");
        assert_eq!(server.requests.lock().unwrap().len(), 2);
    }

    #[test]
    fn a_token_that_cannot_be_read_is_an_error_of_its_own() {
        let server =
            Server::http(|_| response("401 Unauthorized", "WWW-Authenticate: Basic realm=\"git\"\r\n"));
        let host = Host::new();
        let mut spec = host.spec(&[&format!("http://{}/infra.git", server.address)]);
        spec.credentials.token = Some(SecretSource::new(|| Err("no such file: gh".into())));
        let error = host.open(spec).poll(None, None).unwrap_err();
        assert!(matches!(error, SourceError::Credential { .. }), "{error:?}");
        assert!(everything_said(&error).contains("no such file: gh"));
    }

    #[test]
    fn statuses_of_a_server_are_told_apart() {
        for (status, expect) in [
            ("403 Forbidden", "Authentication"),
            ("404 Not Found", "RepositoryNotFound"),
            ("429 Too Many Requests", "Unreachable"),
            ("503 Service Unavailable", "Unreachable"),
            ("200 OK", "Protocol"),
        ] {
            let server = Server::http(move |_| response(status, ""));
            let error = fails(&format!("http://{}/infra.git", server.address));
            assert!(format!("{error:?}").starts_with(expect), "{status}: {error:?}");
        }
    }

    #[test]
    fn a_redirect_to_another_host_is_not_followed() {
        let other = Server::http(|_| response("404 Not Found", ""));
        let location =
            format!("http://localhost:{}/infra.git/info/refs?service=git-upload-pack", other.address.port());
        let server = Server::http(move |_| response("302 Found", &format!("Location: {location}\r\n")));
        let host = Host::new();
        let mut spec = host.spec(&[&format!("http://{}/infra.git", server.address)]);
        spec.credentials = token();
        let error = host.open(spec).poll(None, None).unwrap_err();
        assert!(matches!(error, SourceError::Protocol { .. }), "{error:?}");
        assert_eq!(server.requests.lock().unwrap().len(), 1);
        assert!(other.requests.lock().unwrap().is_empty(), "nothing reached the other host");
    }

    #[test]
    fn a_certificate_nobody_vouches_for_is_refused() {
        let (server, _) = Server::https("localhost");
        let host = Host::new();
        let mut spec = host.spec(&[&format!("https://localhost:{}/infra.git", server.address.port())]);
        spec.credentials = token();
        let error = host.open(spec).poll(None, None).unwrap_err();
        assert!(matches!(error, SourceError::Tls { .. }), "{error:?}");
        assert!(server.requests.lock().unwrap().is_empty(), "no request was sent");
    }

    /// The trust store is a matter of the process, so the test runs itself again with another one.
    #[test]
    fn a_trusted_certificate_is_accepted_for_its_own_name_only() {
        const PORTS: &str = "RECONCILED_TEST_HTTPS_PORTS";
        #[expect(clippy::disallowed_methods, reason = "the child of this test is told by the environment")]
        let ports = std::env::var(PORTS);
        if let Ok(ports) = ports {
            let (right, wrong) = ports.split_once(' ').unwrap();
            let error = fails(&format!("https://localhost:{right}/infra.git"));
            assert!(matches!(error, SourceError::RepositoryNotFound { .. }), "{error:?}");
            let error = fails(&format!("https://localhost:{wrong}/infra.git"));
            assert!(matches!(error, SourceError::Tls { .. }), "{error:?}");
            return;
        }
        let (right, certificate) = Server::https("localhost");
        let (wrong, other_certificate) = Server::https("git.example");
        let store = tempfile::NamedTempFile::new().unwrap();
        fs::write(store.path(), certificate + &other_certificate).unwrap();
        let module = module_path!().split_once("::").unwrap().1;
        let name = format!("{module}::a_trusted_certificate_is_accepted_for_its_own_name_only");
        let again = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name])
            .env(PORTS, format!("{} {}", right.address.port(), wrong.address.port()))
            .env("SSL_CERT_FILE", store.path())
            .output()
            .unwrap();
        assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stdout));
        assert_eq!(right.requests.lock().unwrap().len(), 1, "the child ran and its request arrived");
        assert!(wrong.requests.lock().unwrap().is_empty(), "no request was sent");
    }

    #[test]
    fn only_configured_local_urls_are_exempt_from_the_ownership_check() {
        let (upstream, host) = (Upstream::new(), Host::new());
        let commit = upstream.commit("main", &[("a", "x")]);
        // Only root can give a repository away; another user proves the file's content at least.
        let is_given_away = std::os::unix::fs::chown(upstream.path(), Some(54_321), None).is_ok();
        if is_given_away {
            assert!(git2::Repository::open(upstream.path()).is_err(), "libgit2 checks the owner");
        }
        let mirror = host.mirror(&upstream.url());
        assert_eq!(first(&mirror), commit);
        assert!(process::is_allowed(&upstream.path().canonicalize().unwrap()));
        assert!(!process::is_allowed(Path::new("/")) && !process::is_allowed(mirror.directory()));
    }
}

mod ssh {
    use super::*;

    /// Polls through sshd with the keys of the host that are known and a key of the client.
    fn poll(sshd: &Sshd, url: &str, known: &[&str], key: Option<SshKey>) -> Result<Polled, SourceError> {
        let host = Host::new();
        let mut spec = host.spec(&[url]);
        spec.known_hosts = Some(sshd.known_hosts(known));
        spec.credentials.ssh = key;
        host.open(spec).poll(None, None)
    }

    #[test]
    fn a_known_host_is_fetched_from_with_a_key_file() {
        let (upstream, sshd) = (Upstream::new(), Sshd::start());
        let commit = upstream.commit("main", &[("a", "x")]);
        let url = sshd.url(&upstream.path());
        // Each type alone: libssh2 would ask for ecdsa first, whatever is known.
        for known in [&["host_ed25519.pub"][..], &["host_ecdsa.pub"], &["host_ecdsa.pub", "host_ed25519.pub"]]
        {
            match poll(&sshd, &url, known, sshd.key("client")) {
                Ok(Polled::Changed { to, .. }) => assert_eq!(to.oid, commit),
                other => panic!("{known:?}: {other:?}"),
            }
        }
        let locked = |passphrase: &'static str| SshKey::File {
            path: sshd.path("locked"),
            passphrase: Some(SecretSource::new(move || Ok(passphrase.to_owned().into()))),
        };
        let polled = poll(&sshd, &url, &["host_ed25519.pub"], Some(locked("open sesame")));
        assert!(polled.is_ok(), "{polled:?}");
        let error = poll(&sshd, &url, &["host_ed25519.pub"], Some(locked("hunter2"))).unwrap_err();
        assert!(matches!(error, SourceError::Authentication { .. }), "{error:?}");
        assert!(!everything_said(&error).contains("hunter2"));
    }

    #[test]
    fn an_unknown_host_is_refused_with_the_line_to_type() {
        let (upstream, sshd) = (Upstream::new(), Sshd::start());
        upstream.commit("main", &[("a", "x")]);
        let error = poll(&sshd, &sshd.url(&upstream.path()), &[], sshd.key("client")).unwrap_err();
        let port = sshd.address.port();
        assert!(matches!(error, SourceError::UnknownHostKey { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("[127.0.0.1]:{port} is not known")), "{error}");
        assert!(
            error.hint().starts_with(&format!("run `ssh-keyscan -p {port} 127.0.0.1 >>")),
            "{}",
            error.hint()
        );
    }

    #[test]
    fn a_host_with_another_key_is_refused() {
        let (upstream, sshd) = (Upstream::new(), Sshd::start());
        upstream.commit("main", &[("a", "x")]);
        let error =
            poll(&sshd, &sshd.url(&upstream.path()), &["stranger.pub"], sshd.key("client")).unwrap_err();
        assert!(matches!(error, SourceError::HostKeyMismatch { .. }), "{error:?}");
    }

    #[test]
    fn a_key_the_host_does_not_know_is_an_authentication_failure() {
        let (upstream, sshd) = (Upstream::new(), Sshd::start());
        let url = sshd.url(&upstream.path());
        let error = poll(&sshd, &url, &["host_ed25519.pub"], sshd.key("stranger")).unwrap_err();
        assert!(matches!(error, SourceError::Authentication { .. }), "{error:?}");
        let error = poll(&sshd, &url, &["host_ed25519.pub"], sshd.key("missing")).unwrap_err();
        assert!(matches!(error, SourceError::Credential { .. }), "{error:?}");
    }

    #[test]
    fn a_missing_repository_is_not_found() {
        let sshd = Sshd::start();
        let url = sshd.url(Path::new("/nowhere/infra.git"));
        let error = poll(&sshd, &url, &["host_ed25519.pub"], sshd.key("client")).unwrap_err();
        assert!(matches!(error, SourceError::RepositoryNotFound { .. }), "{}", everything_said(&error));
    }
}
