//! YAML → desired state: reads the manifests of every source and has each entry normalize what is its own.
//!
//! *Guarantees*: all problems of all files are found at once, each with its place; a file with an error
//! contributes nothing and is named in `SourceState::broken`; the same input gives the same output, whatever
//! the cache holds. *Caveats*: a [`Cache`] belongs to one set of provider entries; entries built anew miss it.
//!
//! It deliberately knows no Git, no network and no clock: files come in through [`Files`], outputs of other
//! resources through [`Outputs`], secrets as marks through [`SecretMarks`].
//!
//! The stages, one file each: `select` (which files), `read` (parse, or reuse), `overlay` (several paths),
//! `standing` (is it for this host, and whose), `resolve` (`${…}`), `graph` (what comes first), `normalize`,
//! `lint`, `assemble`. None calls a later one: what they share is a `Loading` of `Unit`s, and what entries answer a `Product`.

mod allowed;
mod annotations;
mod assemble;
mod build;
mod cache;
mod envelope;
pub mod explain;
mod faulty;
mod files;
mod graph;
mod hidden;
mod inputs;
mod lint;
mod loaded;
mod loading;
mod normalize;
mod outputs;
mod overlay;
mod parse;
mod paths;
mod place;
mod problems;
mod product;
mod read;
mod refer;
mod request;
mod resolve;
mod scopes;
mod secrets;
mod select;
mod standing;
mod substitute;
mod template;
mod twice;
mod unit;
mod vars;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use cache::Cache;
pub use files::Files;
pub use loaded::{Counts, Loaded, Reported};
pub use outputs::{NoOutputs, Output, Outputs};
pub use paths::on_host;
pub(crate) use refer::output_at;
pub use request::{Ailing, EntryView, Owners, Request, SourceRequest, SourceRules};
pub use secrets::{KnownSecrets, SecretMarks};

use crate::config::Host;
use reconciled_provider::{Kinds, Problem};
use request::Mode;
use secrets::AnySecret;
use std::collections::BTreeMap;

/// Loads all sources.
///
/// `cache` makes the next load cheap: a blob that did not change is not parsed again, and a manifest none of
/// whose recorded inputs changed is not normalized again.
pub fn load(request: &Request<'_>, cache: &mut Cache) -> Loaded {
    run(request, cache, Mode::Host)
}

/// What is wrong with where the manifests of a source are looked for, and the files of its variables.
pub fn misplaced(files: &dyn Files, rules: &SourceRules, host: &Host) -> Vec<Problem> {
    let mut problems = Vec::new();
    let (paths, _) = paths::paths(rules, host, &mut problems);
    problems.extend(select::choose(files, &paths, &rules.ignore).problems);
    vars::read(&rules.vars, files, &mut problems);
    problems
}

/// Checks the manifests in `files` without a configuration, chosen by `rules`.
///
/// `types` stands for the provider types of this program, one entry each; what names they have in a
/// configuration, which variables there are and what this host is called is not checked.
pub fn validate(files: &dyn Files, name: &str, types: &[EntryView], rules: SourceRules) -> Loaded {
    let source = SourceRequest {
        name: name.into(),
        revision: "".into(),
        label: "".into(),
        files,
        prunes: false,
        rules,
    };
    let known = Kinds(types.iter().flat_map(|entry| entry.kinds.0.iter().cloned()).collect());
    let request = Request {
        sources: &[source],
        lacking: &[],
        entries: types,
        ailing: &BTreeMap::new(),
        renamed: &BTreeMap::new(),
        known: &known,
        host: &Host::default(),
        owners: &Owners::new(),
        outputs: &NoOutputs,
        secrets: &AnySecret,
    };
    run(&request, &mut Cache::default(), Mode::Anywhere)
}

fn run(request: &Request<'_>, cache: &mut Cache, mode: Mode) -> Loaded {
    let mut loading = read::read(request, cache, mode);
    overlay::unite(&mut loading);
    standing::settle(&mut loading);
    overlay::report_lone(&mut loading);
    resolve::resolve(&mut loading);
    let (graph, after) = graph::order(&mut loading);
    let results = normalize::normalize(&mut loading, cache);
    graph::scopes(&mut loading, graph, &results);
    assemble::assemble(loading, after, results, cache)
}
