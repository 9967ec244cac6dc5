//! Which file of a crate takes names from which: files stand in layers, and none reaches itself again.
//!
//! What counts is what a file names, whether in a `use` or on the spot. A name that a module only hands on is taken from where
//! it is defined. Methods do not count, nor do modules that only tests build.

use crate::tidy::{root, tracked};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};
use syn::{Attribute, Item, Macro, Meta, UseTree, visit::Visit};

/// The path of a module within its crate, or of an item in one.
type Names = Vec<String>;

/// Files, each with those that it takes names from.
type Circles = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// What a file names: by whom, and what.
struct File {
    path: PathBuf,
    /// Where it is said, a module of this file, and the path as it is written there.
    named: Vec<(Names, Names)>,
}

/// The modules of a crate.
#[derive(Default)]
struct Crate {
    files: Vec<File>,
    /// Modules, those within a file too, and the file that each is in.
    modules: BTreeMap<Names, usize>,
    /// Names that a `use` brings into a module, and the path as it is written there.
    brought: BTreeMap<Names, Names>,
}

impl Crate {
    /// The one that begins with `file`.
    fn from(file: &Path) -> Crate {
        let mut all = Crate::default();
        all.read(file, &Vec::new());
        all
    }

    /// Reads the file of a module, and those of the modules that it declares.
    fn read(&mut self, path: &Path, module: &Names) {
        let syntax = syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let above = path.parent().unwrap();
        let children =
            if matches!(stem, "mod" | "lib" | "main") { above.to_owned() } else { above.join(stem) };
        let file = self.files.len();
        self.files.push(File { path: path.to_owned(), named: Vec::new() });
        self.modules.insert(module.clone(), file);
        self.take(file, &children, module, &syntax.items);
    }

    fn take(&mut self, file: usize, children: &Path, module: &Names, items: &[Item]) {
        for item in items {
            match item {
                Item::Mod(inner) if is_of_tests(&inner.attrs) => {}
                Item::Mod(inner) => {
                    let is_elsewhere = inner.attrs.iter().any(|attribute| attribute.path().is_ident("path"));
                    assert!(!is_elsewhere, "{module:?} has {} somewhere else", inner.ident);
                    let name = inner.ident.to_string();
                    let path: Names = module.iter().chain([&name]).cloned().collect();
                    match &inner.content {
                        Some((_, items)) => {
                            self.modules.insert(path.clone(), file);
                            self.take(file, &children.join(&name), &path, items);
                        }
                        None => {
                            let flat = children.join(format!("{name}.rs"));
                            let nested = children.join(&name).join("mod.rs");
                            self.read(if flat.is_file() { &flat } else { &nested }, &path);
                        }
                    }
                }
                Item::Use(inner) if !is_of_tests(&inner.attrs) => {
                    let mut paths = Vec::new();
                    leaves(&inner.tree, &mut Vec::new(), &mut paths);
                    for (name, path) in paths {
                        self.brought.insert([&module[..], &[name]].concat(), path.clone());
                        if matches!(inner.vis, syn::Visibility::Inherited) {
                            self.files[file].named.push((module.clone(), path));
                        }
                    }
                }
                other => {
                    let mut spoken = Spoken(Vec::new());
                    spoken.visit_item(other);
                    let paths = spoken.0.into_iter().map(|path| (module.clone(), path));
                    self.files[file].named.extend(paths);
                }
            }
        }
    }

    /// The file that what a module names is defined in; none for what is of another crate, and for a module as such.
    fn defined_in(&self, module: &Names, path: &Names) -> Option<usize> {
        let mut whole = self.whole(module, path)?;
        // As often as it is handed on.
        for _ in 0..32 {
            let known = (0..=whole.len()).rev().find(|end| self.modules.contains_key(&whole[..*end]))?;
            let name = whole.get(..=known)?;
            let Some(on) = self.brought.get(name) else {
                return self.modules.get(&whole[..known]).copied();
            };
            // What is called as the crate that it is of.
            if on.first() == name.last() {
                return None;
            }
            let mut next = self.whole(&whole[..known].to_vec(), on)?;
            next.extend_from_slice(&whole[known + 1..]);
            whole = next;
        }
        panic!("{path:?} in {module:?} leads to no end")
    }

    /// A path from the root of the crate.
    fn whole(&self, module: &Names, path: &Names) -> Option<Names> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([&module[..], &path[1..]].concat()),
            "super" => Some([&module[..module.len().checked_sub(supers)?], &path[supers..]].concat()),
            _ => {
                let child = [&module[..], &path[..1]].concat();
                let is_near = self.modules.contains_key(&child) || self.brought.contains_key(&child);
                is_near.then(|| [&module[..], &path[..]].concat())
            }
        }
    }

    /// Which file takes names from which.
    fn arrows(&self) -> BTreeSet<(usize, usize)> {
        let mut arrows = BTreeSet::new();
        for (from, file) in self.files.iter().enumerate() {
            let defined = file.named.iter().filter_map(|(module, path)| self.defined_in(module, path));
            arrows.extend(defined.filter(|to| *to != from).map(|to| (from, to)));
        }
        arrows
    }

    /// The files that reach themselves, or lie between such, each with those of them that it takes names from.
    fn circles(&self) -> Circles {
        let mut arrows = self.arrows();
        // What leads nowhere, and where nothing leads to, is in no circle.
        loop {
            let (from, to): (BTreeSet<_>, BTreeSet<_>) = arrows.iter().copied().unzip();
            let before = arrows.len();
            arrows.retain(|(a, b)| to.contains(a) && from.contains(b));
            if arrows.len() == before {
                break;
            }
        }
        let mut circles = Circles::new();
        for (from, to) in arrows {
            circles.entry(self.files[from].path.clone()).or_default().insert(self.files[to].path.clone());
        }
        circles
    }
}

/// What a `use` takes: under which name, and its path.
fn leaves(tree: &UseTree, above: &mut Names, found: &mut Vec<(String, Names)>) {
    let mut leaf = |name: String, last: Option<String>| {
        found.push((name, above.iter().cloned().chain(last).collect()));
    };
    match tree {
        UseTree::Path(inner) => {
            above.push(inner.ident.to_string());
            leaves(&inner.tree, above, found);
            above.pop();
        }
        UseTree::Name(inner) if inner.ident == "self" => {
            leaf(above.last().cloned().unwrap_or_default(), None)
        }
        UseTree::Name(inner) => leaf(inner.ident.to_string(), Some(inner.ident.to_string())),
        UseTree::Rename(inner) if inner.ident == "self" => leaf(inner.rename.to_string(), None),
        UseTree::Rename(inner) => leaf(inner.rename.to_string(), Some(inner.ident.to_string())),
        UseTree::Glob(_) => leaf("*".into(), Some("*".into())),
        UseTree::Group(inner) => inner.items.iter().for_each(|tree| leaves(tree, above, found)),
    }
}

/// The paths that code speaks of on the spot, and those that it brings there.
struct Spoken(Vec<Names>);

impl<'ast> Visit<'ast> for Spoken {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut found = Vec::new();
        leaves(&item.tree, &mut Vec::new(), &mut found);
        self.0.extend(found.into_iter().map(|(_, path)| path));
    }

    /// What is in a macro has no form yet: whatever looks like a path is one.
    fn visit_macro(&mut self, made: &'ast Macro) {
        let is_of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let text: String =
            made.tokens.to_string().chars().map(|c| if is_of_path(c) { c } else { ' ' }).collect();
        let text = text.replace(" :: ", "::");
        let paths = text.split_whitespace().map(|path| path.split("::").map(str::to_owned).collect());
        self.0.extend(paths.filter(|path: &Names| path.iter().all(|name| !name.is_empty())));
        syn::visit::visit_macro(self, made);
    }
}

fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        Meta::Path(_) | Meta::NameValue(_) => false,
    })
}

/// The crates of the workspace, by the files that they begin with.
fn crates() -> Vec<Crate> {
    let of_tests = |file: &str| file.split('/').any(|part| matches!(part, "tests" | "benches"));
    let begins =
        |file: &str| file.rsplit('/').next().is_some_and(|name| matches!(name, "lib.rs" | "main.rs"));
    let roots = tracked().into_iter().filter(|file| begins(file) && !of_tests(file));
    roots.map(|file| Crate::from(&root().join(file))).collect()
}

#[test]
fn no_file_reaches_itself_through_what_it_names() {
    let crates = crates();
    let arrows: usize = crates.iter().map(|one| one.arrows().len()).sum();
    assert!(crates.len() > 10 && arrows > 3_000, "{} crates and {arrows} arrows were read", crates.len());
    let circles: Circles = crates.iter().flat_map(Crate::circles).collect();
    assert!(circles.is_empty(), "{circles:#?}");
}

#[test]
fn a_circle_is_seen_however_its_names_are_taken() {
    let circle = |first: &str, second: &str| {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write("lib.rs", "mod a; mod b; mod face;");
        write("face.rs", "pub use crate::a::A; pub use crate::b::{self as other, B};");
        write("a.rs", &format!("{first} pub struct A;"));
        write("b.rs", &format!("{second} pub struct B;"));
        Crate::from(&dir.path().join("lib.rs")).circles().len()
    };
    let of_b = ["use super::b::B;", "use crate::face::B;", "use crate::face; fn f(_: face::B) {}"];
    let of_b_too = ["pub use crate::b::B; fn f(_: B) {}", "fn f() { say!(crate::face::other::B) }"];
    for first in of_b.iter().chain(&of_b_too) {
        assert_eq!(circle(first, "fn g() { use crate::face::*; use super::face::A; }"), 2, "{first}");
        assert_eq!(circle(first, ""), 0, "{first}");
    }
    // What is only handed on, or only tests take, is no arrow.
    for first in ["pub use crate::b::B;", "#[cfg(test)] mod tests { use crate::b::B; }"] {
        assert_eq!(circle(first, "use crate::a::A;"), 0, "{first}");
    }
}
