//! Which file of a crate takes names from which: files stand in layers, and none reaches itself again.
//!
//! What counts is what a file names by a path, whether in a `use` or on the spot. A name that a module only hands on
//! is taken from where it is defined. Macros are not looked into, nor are methods, nor what only tests build.

use crate::tidy::{root, tracked};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};
use syn::{Attribute, Item, Meta, UseTree, visit::Visit};

/// The path of a module within its crate, or of an item in one.
type Names = Vec<String>;

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
                    let name = inner.ident.to_string();
                    let path = [&module[..], &[name.clone()]].concat();
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
        // As often as it is handed on, and no longer than any name is.
        for _ in 0..8 {
            let known = (0..=whole.len()).rev().find(|end| self.modules.contains_key(&whole[..*end]))?;
            let name = whole.get(..=known)?;
            let Some(on) = self.brought.get(name) else {
                return self.modules.get(&whole[..known]).copied();
            };
            let mut next = self.whole(&whole[..known].to_vec(), on)?;
            next.extend_from_slice(&whole[known + 1..]);
            whole = next;
        }
        None
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

    /// The files that reach themselves, each with those of them that it takes names from.
    fn circles(&self) -> BTreeMap<PathBuf, BTreeSet<PathBuf>> {
        let mut arrows = BTreeSet::new();
        for (from, file) in self.files.iter().enumerate() {
            let defined = file.named.iter().filter_map(|(module, path)| self.defined_in(module, path));
            arrows.extend(defined.filter(|to| *to != from).map(|to| (from, to)));
        }
        // What leads nowhere, and where nothing leads to, is in no circle.
        loop {
            let (from, to): (BTreeSet<_>, BTreeSet<_>) = arrows.iter().copied().unzip();
            let before = arrows.len();
            arrows.retain(|(a, b)| to.contains(a) && from.contains(b));
            if arrows.len() == before {
                break;
            }
        }
        let mut circles = BTreeMap::<_, BTreeSet<_>>::new();
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
        UseTree::Rename(inner) => leaf(inner.rename.to_string(), Some(inner.ident.to_string())),
        UseTree::Glob(_) => leaf("*".into(), Some("*".into())),
        UseTree::Group(inner) => inner.items.iter().for_each(|tree| leaves(tree, above, found)),
    }
}

/// The paths of more than one name that code speaks of on the spot.
struct Spoken(Vec<Names>);

impl<'ast> Visit<'ast> for Spoken {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        syn::visit::visit_path(self, path);
    }
}

fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string().contains("test"),
        Meta::Path(_) | Meta::NameValue(_) => false,
    })
}

/// The crates of the workspace, by the folders of their `Cargo.toml`.
fn crates() -> Vec<Crate> {
    let manifests = tracked().into_iter().filter(|file| file.ends_with("Cargo.toml"));
    let roots = manifests.filter_map(|file| {
        let source = root().join(file).parent()?.join("src");
        ["lib.rs", "main.rs"].iter().map(|name| source.join(name)).find(|file| file.is_file())
    });
    roots
        .map(|file| {
            let mut all = Crate::default();
            all.read(&file, &Vec::new());
            all
        })
        .collect()
}

#[test]
fn no_file_reaches_itself_through_what_it_names() {
    let crates = crates();
    let (mut arrows, mut circles) = (0, BTreeMap::new());
    for one in &crates {
        arrows += one.files.iter().map(|file| file.named.len()).sum::<usize>();
        circles.extend(one.circles());
    }
    assert!(crates.len() > 8 && arrows > 5_000, "{} crates and {arrows} names were read", crates.len());
    assert!(circles.is_empty(), "{circles:#?}");
}
