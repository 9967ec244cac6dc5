//! What is meant: a source, a revision, addresses, labels, an entry; or files that somebody holds in their hands.

use crate::{
    failure::Failure,
    registry,
    session::{Ask, Folder},
    source::{Entry, FolderTree, Limits, Tree},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use reconciled_engine::{Extent, Selector, SelectorError, plan::Selection};
use reconciled_provider::{Pattern, address::AddressError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{path::Path, sync::Arc};

/// What is meant, as typed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Selected {
    /// Only this source.
    pub source: Option<String>,
    /// This revision instead of the newest.
    pub rev: Option<String>,
    /// Only these addresses.
    #[serde(default)]
    pub target: Vec<String>,
    /// Only manifests with such labels, as selectors of Kubernetes: `team=web,env!=staging`.
    #[serde(default)]
    pub selector: Vec<String>,
    /// Lists every scope, also those whose version stands.
    #[serde(default)]
    pub refresh: bool,
    /// As for a person who has it applied now: past closed windows that let a person through.
    #[serde(default, rename = "byPerson")]
    pub by_person: bool,
}

impl Selected {
    /// What the words mean.
    pub fn ask(&self, folder: Option<Folder>) -> Result<Ask, Failure> {
        let targets = self.target.iter().map(|text| pattern(text)).collect::<Result<Vec<_>, _>>()?;
        let labels = self.selector.iter().map(|text| selector(text)).collect::<Result<Vec<_>, _>>()?;
        Ok(Ask {
            source: self.source.clone(),
            folder,
            rev: self.rev.clone(),
            selection: Selection { targets, labels, source: self.source.as_deref().map(Arc::from) },
            refresh: self.refresh,
            by_person: self.by_person,
            accept_rewind: None,
        })
    }
}

/// What is meant: exactly one of these.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Meant {
    /// What has such an address; for `resume` also what the suspension is called.
    pub address: Option<String>,
    /// Manifests with such labels, as selectors of Kubernetes: `team=web,env!=staging`.
    #[serde(default)]
    pub selector: Vec<String>,
    /// What lies behind this entry.
    pub provider: Option<String>,
    /// What this source declares or declared.
    pub source: Option<String>,
    /// Everything.
    #[serde(default)]
    pub all: bool,
}

impl Meant {
    pub(super) fn extent(&self) -> Result<Extent, Failure> {
        let labels = !self.selector.is_empty();
        let address = self.address.as_deref().map(pattern).transpose()?;
        let named = [address.is_some(), labels, self.provider.is_some(), self.source.is_some(), self.all];
        if named.into_iter().filter(|is_named| *is_named).count() != 1 {
            return Err(Failure::hinted(
                "it must be said what is meant, in one way",
                "name an ADDRESS, -l SELECTOR, --provider NAME, --source NAME or --all",
            ));
        }
        Ok(if let Some(pattern) = address {
            Extent::Address(pattern)
        } else if let Some(name) = &self.provider {
            Extent::Provider(name.as_str().into())
        } else if let Some(name) = &self.source {
            Extent::Source(name.as_str().into())
        } else if labels {
            Extent::Labels(selector(&self.selector.join(","))?.sorted())
        } else {
            Extent::All
        })
    }
}

/// Files that come with a question, for a daemon that cannot read them itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Upload {
    /// The files.
    pub files: Vec<UploadFile>,
    /// What was left out on the other side, and why.
    #[serde(default)]
    pub refused: Vec<(String, String)>,
    /// What both sides have: a commit that is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Paths of files that are as they were there, and are not sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same: Vec<String>,
}

/// One file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UploadFile {
    /// Relative to the root, with `/`.
    pub path: String,
    /// Its content, in base64.
    pub content: String,
}

impl Upload {
    /// All of a tree.
    pub fn of(tree: &dyn Tree) -> Result<Upload, Failure> {
        Upload::without(tree, |_| false)
    }

    /// A tree without what it has of the commit `name`.
    pub fn upon(tree: &dyn Tree, base: &dyn Tree, name: &str) -> Result<Upload, Failure> {
        let is_same = |entry: &Entry| base.find(&entry.path) == Some(entry);
        let same = tree.entries().iter().filter(|entry| is_same(entry)).map(|entry| entry.path.to_string());
        let same = same.collect();
        Ok(Upload { base: Some(name.to_owned()), same, ..Upload::without(tree, is_same)? })
    }

    fn without(tree: &dyn Tree, is_known: impl Fn(&Entry) -> bool) -> Result<Upload, Failure> {
        let contents = tree.contents();
        let file = |entry: &Entry| {
            let content = contents.read(entry).map_err(Failure::from)?;
            Ok(UploadFile { path: entry.path.to_string(), content: STANDARD.encode(content) })
        };
        let files = tree.entries().iter().filter(|entry| !is_known(entry)).map(file);
        let files = files.collect::<Result<Vec<_>, Failure>>()?;
        let refused = tree.refused().iter().map(|r| (r.path.clone(), r.reason.to_string())).collect();
        Ok(Upload { files, refused, ..Upload::default() })
    }

    /// All files of a question that leaves none out.
    pub fn whole(&self, limits: Limits) -> Result<FolderTree, Failure> {
        match &self.base {
            Some(_) => Err(Failure::plain("only a push may leave out files that are in force")),
            None => self.tree(limits),
        }
    }

    /// The files that were sent, within the same limits as any other tree's.
    ///
    /// Errors: a passed limit; a path that is none within a tree, which would be taken for a file that nobody reads.
    pub fn tree(&self, limits: Limits) -> Result<FolderTree, Failure> {
        let file = |file: &UploadFile| {
            if file.path.split('/').any(|part| matches!(part, "" | "." | "..")) {
                return Err(Failure::hinted(
                    format!("`{}` is no path of a file that is sent along", file.path),
                    "write it from the root of the tree on, without `/` before it and without `.` or `..` in it",
                ));
            }
            let content = STANDARD
                .decode(&file.content)
                .map_err(|error| Failure::plain(format!("{} is no base64: {error}", file.path)))?;
            Ok((file.path.clone(), Bytes::from(content)))
        };
        let files = self.files.iter().map(file).collect::<Result<Vec<_>, Failure>>()?;
        Ok(FolderTree::of(files, self.refused.clone(), limits)?)
    }
}

/// Reads the folder, or standard input for `-`, that somebody named on this side.
pub fn upload(dir: &Path) -> Result<Upload, Failure> {
    Upload::of(&*Folder::At(dir.to_path_buf()).open(Limits::default())?)
}

/// A selector of labels.
fn selector(text: &str) -> Result<Selector, Failure> {
    let hint = "write it like -l team=web, -l 'env!=staging', -l 'tier in (a,b)' or -l '!draft'";
    text.parse().map_err(|error: SelectorError| Failure::hinted(error.to_string(), hint))
}

/// An address pattern, as typed.
pub fn pattern(text: &str) -> Result<Pattern, Failure> {
    text.parse().map_err(|error: AddressError| match capital(text) {
        Some(near) => Failure::hinted(error.to_string(), format!("did you mean `{near}`?")),
        None => Failure::plain(error.to_string()),
    })
}

/// The address that is meant where its kind is written small.
fn capital(text: &str) -> Option<String> {
    let (word, rest) = text.split_once('/')?;
    let kinds = registry::kinds().0;
    let kind = kinds.iter().find(|kind| kind.name.eq_ignore_ascii_case(word))?;
    let near = format!("{}/{rest}", kind.name);
    near.parse::<Pattern>().is_ok().then_some(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_is_written_small_is_told_as_it_is_written() {
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(pattern(text).unwrap_err().hint().as_deref(), expect);
        };
        check("zone/example.com", Some("did you mean `Zone/example.com`?"));
        check("recordset/www#a/A", Some("did you mean `RecordSet/www#a/A`?"));
        check("nothing/x", None);
        check("nothing", None);
    }

    #[test]
    fn a_file_that_is_sent_along_with_a_path_out_of_its_tree_is_an_error() {
        let is_taken = |path: &str| {
            let files = vec![UploadFile { path: path.into(), content: String::new() }];
            Upload { files, ..Upload::default() }.tree(Limits::default()).is_ok()
        };
        for path in ["zone.yaml", "a/zone.yaml", ".hidden/zone.yaml"] {
            assert!(is_taken(path), "{path}");
        }
        for path in ["", "/zone.yaml", "../zone.yaml", "a/../zone.yaml", "./zone.yaml", "a//zone.yaml", "a/"]
        {
            assert!(!is_taken(path), "{path}");
        }
    }
}
