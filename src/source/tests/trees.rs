//! What of a repository is read, and what is refused by name.

use super::*;

#[test]
fn a_commit_is_read_without_a_work_tree() {
    let (upstream, host) = (Upstream::new(), Host::new());
    let commit = upstream.commit("main", &[("zones/b.yaml", "hello\n"), ("a.yaml", ""), ("zones.txt", "x")]);
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
    let files =
        [("common/a", "x"), ("env/prod/a", "x"), ("env/test/a", "x"), ("other/a", "0123456789"), ("z", "x")];
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
    assert!(matches!(two.contents().read(&one.entries()[0]), Err(SourceError::NotListed { .. })));
}

#[test]
fn what_was_sent_of_a_tree_stands_upon_the_commit_that_has_the_rest() {
    let (upstream, host) = (Upstream::new(), Host::new());
    let commit = upstream.commit("main", &[("a.yaml", "a\n"), ("b.yaml", "b\n"), ("gone.yaml", "x")]);
    let mirror = host.mirror(&upstream.url());
    first(&mirror);
    let base = || mirror.tree_at(commit, &Paths::all()).unwrap();
    let limits = Limits { tree: 12, ..Limits::default() };
    let sent = |content: &str| {
        let files = vec![("b.yaml".into(), content.to_owned().into()), ("c.yaml".into(), "c\n".into())];
        FolderTree::of(files, vec![("link".into(), "it is one".into())], limits).unwrap()
    };
    let same = ["a.yaml".to_owned(), "b.yaml".to_owned()];
    let tree = AmendedTree::new(base(), &same, sent("new\n"), limits).unwrap();
    assert_eq!(names(&tree), ["a.yaml", "b.yaml", "c.yaml"]);
    assert_eq!(["a.yaml", "b.yaml", "c.yaml"].map(|path| read(&tree, path)), ["a\n", "new\n", "c\n"]);
    assert_eq!(refused(&tree), [("link", Reason::Told("it is one".into()))]);
    let foreign = base();
    let foreign = (&foreign as &dyn Tree).find("gone.yaml").unwrap();
    assert!(
        matches!(tree.contents().read(foreign), Err(SourceError::NotListed { .. })),
        "nobody said it is there"
    );

    let missing = AmendedTree::new(base(), &["d.yaml".into()], sent(""), limits);
    assert!(matches!(missing, Err(SourceError::NotListed { path }) if path == "d.yaml"));
    let large = AmendedTree::new(base(), &same, sent("123456789\n"), limits);
    assert!(matches!(large, Err(SourceError::TreeTooLarge { limit: 12 })), "{large:?}");
}

#[test]
fn a_tree_that_nobody_reads_holds_no_pack() {
    let (upstream, host) = (Upstream::new(), Host::new());
    let commit = upstream.commit("main", &[("a.yaml", "a\n")]);
    let mirror = host.mirror(&upstream.url());
    first(&mirror);
    let place = mirror.directory().to_str().unwrap().to_owned();
    // Of libgit2, its cache of unpacked objects is seen by nothing but the packs it belongs to.
    let is_mapped = || fs::read_to_string("/proc/self/maps").unwrap().contains(&place);
    let tree = mirror.tree_at(commit, &Paths::all()).unwrap();
    assert!(!is_mapped(), "listed");
    let contents = tree.contents();
    assert_eq!(contents.read(&tree.entries()[0]).unwrap(), "a\n");
    assert!(is_mapped(), "being read");
    drop(contents);
    assert!(!is_mapped(), "read");
    assert_eq!(read(&tree, "a.yaml"), "a\n");
}
