//! Following a branch.

use super::*;
use std::time::Instant;

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
    // A rollback may still be kept at what was in force.
    let left = git2::Repository::open_bare(mirror.directory()).unwrap();
    let name = format!("refs/reconciled/left/{in_force}");
    assert_eq!(left.refname_to_id(&name).unwrap(), in_force.into());
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
fn what_was_accepted_last_is_known_until_it_is_taken_back_and_what_is_refused_counts_for_nothing() {
    let (upstream, host) = (Upstream::new(), Host::new());
    let old = upstream.commit("main", &[("a", "1")]);
    let mirror = host.mirror(&upstream.url());
    let accepted = || mirror.accepted().unwrap().map(|commit| commit.oid);
    assert_eq!(accepted(), None);
    first(&mirror);
    let new = upstream.commit("main", &[("a", "2")]);
    mirror.poll(Some(old), None).unwrap();
    assert_eq!(accepted(), Some(new), "it need not have come into force");
    upstream.repository.reference("refs/heads/main", old.into(), true, "test").unwrap();
    assert!(matches!(mirror.poll(Some(new), None), Err(SourceError::Rewound { .. })));
    assert_eq!(accepted(), Some(new));
    assert!(matches!(mirror.poll(Some(old), None), Ok(Polled::Unchanged(_))));
    assert_eq!(accepted(), Some(old));
}

#[test]
fn what_was_accepted_by_a_poll_that_judged_too_early_counts_for_nothing_once_it_is_a_rewind() {
    let (upstream, host) = (Upstream::new(), Host::new());
    let old = upstream.commit("main", &[("a", "1")]);
    let mirror = host.mirror(&upstream.url());
    let accepted = || mirror.accepted().unwrap().map(|commit| commit.oid);
    first(&mirror);
    let new = upstream.commit("main", &[("a", "2")]);
    mirror.poll(Some(old), None).unwrap();
    let other = upstream.commit_on("main", upstream.tree(&[("a", "3")]), Some(old.into()));
    for offered in [old, other] {
        upstream.repository.reference("refs/heads/main", offered.into(), true, "test").unwrap();
        // It began before the new one came into force.
        mirror.poll(Some(old), None).unwrap();
        assert_eq!(accepted(), Some(offered));
        assert!(matches!(mirror.poll(Some(new), None), Err(SourceError::Rewound { .. })));
        assert_eq!(accepted(), Some(new));
    }
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
fn a_url_that_lags_behind_does_not_bring_an_older_release_back() {
    let (upstream, behind, host) = (Upstream::new(), Upstream::new(), Host::new());
    let one = upstream.commit("main", &[("a", "1")]);
    assert_eq!(behind.commit("main", &[("a", "1")]), one);
    for repository in [&upstream, &behind] {
        repository.tag("v1.0.0", one);
    }
    let two = upstream.commit("main", &[("a", "2")]);
    upstream.tag("v1.1.0", two);
    let mut spec = host.spec(&[&upstream.url(), &behind.url()]);
    spec.reference = Reference::semver("1").unwrap();
    let mirror = host.open(spec.clone());
    assert_eq!(first(&mirror), two);
    fs::rename(upstream.path(), upstream.path().with_extension("away")).unwrap();
    let refused = |mirror: &Mirror| match mirror.poll(Some(two), None) {
        Err(SourceError::Rewound { in_force, offered, .. }) => assert_eq!((in_force, offered), (two, one)),
        other => panic!("{other:?}"),
    };
    refused(&mirror);
    let accepted = mirror.poll(Some(two), Some(one));
    assert!(matches!(&accepted, Ok(Polled::Changed { to, .. }) if to.oid == one), "{accepted:?}");
    // As little from a mirror that never saw what is in force.
    let other = Host::new();
    spec = other.spec(&[&behind.url()]);
    spec.reference = Reference::semver("1").unwrap();
    refused(&other.open(spec));
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
fn a_tag_or_branch_that_is_not_followed_is_had_when_it_is_asked_for() {
    let (upstream, host) = (Upstream::new(), Host::new());
    upstream.commit("main", &[("a", "1")]);
    let mirror = host.mirror(&upstream.url());
    first(&mirror);
    let side = upstream.commit("side", &[("a", "2")]);
    let tagged = upstream.commit("other", &[("a", "3")]);
    upstream.tag("v1.0.0", tagged);
    for (rev, expect, text) in [("side", side, "2"), ("v1.0.0", tagged, "3")] {
        assert_eq!(mirror.resolve(rev).unwrap().oid, expect, "{rev}");
        assert_eq!(read(&mirror.tree_at(expect, &Paths::all()).unwrap(), "a"), text);
    }
    // Nothing is offered by that, and a name of digits is no name.
    assert_ne!(mirror.resolve("main").unwrap().oid, side);
    let missing = mirror.resolve("0123456789012345678901234567890123456789");
    assert!(matches!(missing, Err(SourceError::RevisionNotFound { .. })), "{missing:?}");
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

/// What a server of Git says that has a branch `main` at `commit`.
fn advertisement(commit: Oid) -> String {
    let line = |text: String| format!("{:04x}{text}", text.len() + 4);
    let body = [
        line("# service=git-upload-pack\n".into()),
        "0000".into(),
        line(format!("{commit} HEAD\0side-band-64k ofs-delta\n")),
        line(format!("{commit} refs/heads/main\n")),
        "0000".into(),
    ]
    .concat();
    let head = "Content-Type: application/x-git-upload-pack-advertisement\r\nConnection: close";
    format!("HTTP/1.1 200 OK\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn mirrors_of_one_remote_that_are_polled_together_ask_once() {
    let (upstream, host) = (Upstream::new(), Host::new());
    let commit = upstream.commit("main", &[("a", "1")]);
    for (answers, expected) in [(true, 1), (false, 3)] {
        let server = Server::http(move |_| match answers {
            true => advertisement(commit),
            false => "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
        });
        let url = format!("http://{}/infra.git", server.address);
        let listings = Listings::default();
        let mirrors = ["one", "two", "three"].map(|name| {
            let of = |url: &str| RemoteSpec { name: name.into(), ..host.spec(&[url]) };
            // What is offered is here already.
            assert!(host.open(of(&upstream.url())).poll(Some(commit), None).is_ok());
            host.open(RemoteSpec { listings: Some(listings.clone()), ..of(&url) })
        });
        let asked = || server.requests.lock().unwrap().len();
        let wished = Instant::now();
        std::thread::scope(|scope| {
            for mirror in &mirrors {
                let polled = move || mirror.poll_since(Some(commit), None, wished);
                scope.spawn(move || assert_eq!(polled().is_ok(), answers));
            }
        });
        assert_eq!(asked(), expected, "where nobody answers, each asks for itself");
        // Who wishes later is told what is offered by then.
        assert_eq!(mirrors[0].poll(Some(commit), None).is_ok(), answers);
        assert_eq!(asked(), expected + 1);
    }
}
