//! `init`: a repository to push to, and perhaps a first work tree for it.
//!
//! Guarantees: what is there and not ours is left alone; said again it repairs, and says what it changed.

use super::{Args, Exit, Out, import};
use crate::{
    api,
    config::{self, Config, Environment, LocateError},
    failure::Failure,
    operation::{ImportAsk, KEPT, PushTarget, program, target_files},
    source::{Found, Target, Work},
};
use clap::Args as ClapArgs;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Arguments of `init`.
#[derive(Clone, Debug, ClapArgs)]
pub struct InitArgs {
    /// Where the repository shall be; new, empty, or made by `init` before
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Members of this group may push
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Make a work tree with a first commit's files here
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Fill the work tree with what a provider holds; may be said again
    #[arg(long, requires = "work", num_args = 2, value_names = ["PROVIDER", "SCOPE"])]
    import: Vec<String>,
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    init: &InitArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let config = read(args, &environment)?;
    let group = init.group.as_deref().map(group).transpose()?;
    if let Some(work) = &init.work {
        is_free(work)?;
    }
    // Before anything is made: it may fail.
    let imported = imported(args, init, environment, out).await?;
    let was_there = match Target::look(&init.dir)? {
        Found::Nothing => false,
        Found::Ours => true,
        found => return Err(occupied(&init.dir, found)),
    };
    let target = Target::make(&init.dir, group.is_some())?;
    let changes = prepare(&target, config.as_ref(), group)?;
    let place = target.directory().display();
    match (was_there, changes.is_empty()) {
        (false, _) => out.talk(&format!("made {place}")),
        (true, true) => out.talk(&format!("{place} is as it should be")),
        (true, false) => changes.iter().for_each(|change| out.talk(&format!("{place}: {change}"))),
    }
    tell(&target, config.as_ref(), init.group.as_deref(), out);
    if let Some(work) = &init.work {
        fill(&target, work, imported, out)?;
    }
    Ok(Exit::Good)
}

/// The configuration, if there is one.
fn read(args: &Args, environment: &Environment) -> Result<Option<Config>, Failure> {
    let path = match config::locate(args.config.as_deref(), environment) {
        Ok(path) => path,
        Err(LocateError::None { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let (config, problems) = config::read(&path, environment);
    config.map(Some).ok_or(Failure::Problems(problems))
}

fn group(name: &str) -> Result<u32, Failure> {
    let hint = || format!("make it: groupadd --system {name}");
    api::group_id(name).ok_or_else(|| Failure::hinted(format!("there is no group `{name}`"), hint()))
}

fn is_free(work: &Path) -> Result<(), Failure> {
    match fs::read_dir(work).map(|mut entries| entries.next().is_some()) {
        Ok(true) => Err(Failure::hinted(
            format!("{} is not empty; nothing was made", work.display()),
            "name a folder that is empty or not there",
        )),
        _ => Ok(()),
    }
}

fn occupied(dir: &Path, found: Found) -> Failure {
    let dir = dir.display();
    match found {
        Found::Repository => Failure::hinted(
            format!("{dir} is a repository that `init` did not make; it is left alone"),
            format!("make another and push this one's history to it: git -C {dir} push NEW main"),
        ),
        _ => Failure::hinted(
            format!("{dir} is not empty; it is left alone"),
            "name a folder that is empty or not there",
        ),
    }
}

/// Sets what a push target needs; returns what that changed.
fn prepare(target: &Target, config: Option<&Config>, group: Option<u32>) -> Result<Vec<String>, Failure> {
    let mut changes = Vec::new();
    let mut keys = vec![("receive.advertisePushOptions", "true"), ("core.logAllRefUpdates", "true")];
    // A shared repository is made with the latter switched on: what is followed, the hook keeps from being rewound.
    let shared = [("core.sharedRepository", "group"), ("receive.denyNonFastForwards", "false")];
    keys.extend(group.iter().flat_map(|_| shared));
    for (key, value) in keys {
        if target.set(key, value)? {
            changes.push(format!("{key} set to {value}"));
        }
    }
    for file in target_files(config, target.directory(), &program()?) {
        if target.write(&file.name, &file.text, file.mode)? {
            let is_kept = file.name == KEPT;
            let why = if is_kept { ": what the hooks go by while no daemon answers" } else { "" };
            changes.push(format!("{} written{why}", file.name));
        }
    }
    if let Some(group) = group {
        match target.share(group)? {
            0 => {}
            count => changes.push(format!("{count} files and directories given to the group")),
        }
    }
    Ok(changes)
}

/// Says how to go on.
fn tell(target: &Target, config: Option<&Config>, group: Option<&str>, out: &mut Out) {
    let directory = target.directory();
    let known = config.map(|config| PushTarget::of(config, directory).sources).unwrap_or_default();
    if known.is_empty() {
        let name = directory.file_stem().unwrap_or_default().to_string_lossy();
        out.talk("next: add this to the daemon's configuration, then say `reconciled init` again:");
        out.data(&format!("sources:\n  - {{name: {name}, url: {}, branch: main}}", directory.display()));
    }
    for source in known {
        out.talk(&format!("source {} follows it", source.name));
    }
    if let Some(group) = group {
        if config.is_none_or(|config| config.api.group.as_deref() != Some(group)) {
            out.talk(&format!(
                "hint: for members of {group} to see plans and progress, let them use the daemon: api: {{group: {group}}}"
            ));
        }
        let key = format!("git config --system --add safe.directory {}", directory.display());
        out.talk(&format!("hint: for Git to let them push to what is not their own: {key}"));
    }
    out.talk("to push to it:");
    out.data(&format!("git remote add deploy {}", directory.display()));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    out.data(&format!("git remote add deploy ssh://{}{}", host.trim(), directory.display()));
}

/// The manifests of what `--import` names.
async fn imported(
    args: &Args,
    init: &InitArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Vec<(String, String)>, Failure> {
    if init.import.is_empty() {
        return Ok(Vec::new());
    }
    let ask = |pair: &[String]| {
        let [provider, scope] = pair else { return None };
        Some(ImportAsk { provider: provider.clone(), scope: scope.clone(), ..ImportAsk::default() })
    };
    let asks: Vec<ImportAsk> = init.import.chunks(2).filter_map(ask).collect();
    let (files, _) = import::files(args, &asks, environment, out).await?;
    Ok(files.into_iter().collect())
}

/// Makes the work tree.
fn fill(target: &Target, work: &Path, imported: Vec<(String, String)>, out: &mut Out) -> Result<(), Failure> {
    let tree = Work::of(target, work)?;
    let example = [("example.com.yaml".to_string(), EXAMPLE.to_string())];
    let is_imported = !imported.is_empty();
    let zones = if is_imported { imported } else { example.to_vec() };
    let mut files = Vec::new();
    if !tree.has_commits {
        files.extend([
            ("README.md".to_string(), README.to_string()),
            (".gitattributes".into(), ATTRIBUTES.into()),
        ]);
    }
    if !tree.has_commits || is_imported {
        files.extend(zones);
    }
    for (name, text) in files {
        let is_new = tree.add(&name, &text)?;
        out.talk(&format!("{}/{name} {}", work.display(), if is_new { "written" } else { "kept as it is" }));
    }
    let work = work.display();
    out.talk("next: look at the files, then deploy them:");
    out.data(&format!(
        "git -C {work} add -A\ngit -C {work} commit -m \"first state\"\ngit -C {work} push -u origin main"
    ));
    Ok(())
}

const README: &str = "\
# Desired state

What is committed here is what shall be: `git push` shows the plan, applies it and says how it ended.

    reconciled validate .              # before a commit
    git push -o reconciled.plan        # show the plan, take nothing
    git push                           # deploy

Each `*.yaml` holds manifests; `reconciled explain Zone` says what one may hold. Names of providers come from the
daemon's configuration. Secrets do not belong here.
";

const ATTRIBUTES: &str = "*.yaml text eol=lf\n*.yml text eol=lf\n";

const EXAMPLE: &str = "\
# A zone. Remove the `#`, put your own names in, and push.
#
# apiVersion: dns/v1
# kind: Zone
# metadata: {name: example.com}
# spec:
#   provider: pdns                  # an entry under `providers:` of the daemon's configuration
#   ttl: 300
#   records:
#     - {name: \"@\", type: A,   values: [192.0.2.1]}
#     - {name: www, type: CNAME, values: [example.com.]}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_a_manifest_once_its_marks_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let text: String = EXAMPLE.lines().skip(2).map(|line| line[2..].to_owned() + "\n").collect();
        fs::write(folder.path().join("example.com.yaml"), text).unwrap();
        let tree = crate::source::FolderTree::open(
            folder.path(),
            &crate::source::Paths::all(),
            crate::source::Limits::default(),
        );
        let loaded = crate::cli::validate::check(&tree.unwrap(), "dir", Default::default());
        assert_eq!((loaded.counts.manifests, loaded.problems), (1, vec![]));
    }
}
