//! Whether systemd starts a unit: for want of what it did not the last time, and whether anybody may ask for it.
//!
//! systemd forgets a unit that neither runs nor is needed by another one, and with it what came of its last start. So who asks about
//! a start or for one keeps the unit in its memory, for as long as the connection is there.

use super::{
    connection::{AT_ONCE, Bus, CALL},
    objects::{UNIT, UNITS, escape},
    words::Trouble,
};
use futures_util::future::try_join_all;
use reconciled_provider::Error;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::PoisonError,
    time::{Duration, SystemTime},
};

/// What systemd says about a start or a stop of a unit that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Conditions for want of which it was passed over when it was last to be started, as its files have them:
    /// `ConditionPathExists=/etc/a`. None where it was not, or where they would be met by now.
    pub unmet: Vec<String>,
    /// Conditions about files that would not be met now, where systemd remembers nothing of a start.
    #[serde(default)]
    pub unasked: Vec<String>,
    /// Assertions for want of which its last start failed.
    pub unasserted: Vec<String>,
    /// It is started for another unit alone: `RefuseManualStart=`.
    pub refuses_start: bool,
    /// The same of a stop: `RefuseManualStop=`.
    pub refuses_stop: bool,
}

impl Start {
    /// Why it does not run, where systemd would not begin it.
    pub(crate) fn why(&self) -> Option<String> {
        let list = |all: &[String]| all.join(", ");
        match (&*self.unmet, &*self.unasserted) {
            ([], []) => None,
            ([], all) => Some(format!("it was not started, since this does not hold: {}", list(all))),
            (all, _) => Some(format!("systemd passes it over, since this is not met: {}", list(all))),
        }
    }
}

/// A condition as the bus has it: its key, whether it is one of several of which one is enough, whether it is negated, what it is
/// about, and what came of it: 1, -1, or 0 where it was not looked at.
type Test = (String, bool, bool, String, i32);

/// For so long systemd's word on a condition counts, whatever is seen from here: what it sees may be another than that.
const FRESH: Duration = Duration::from_secs(5);

impl Bus {
    /// What systemd says about starting each of these, in their order.
    pub(super) async fn last_starts(&self, names: &[String]) -> Result<Vec<Start>, Error> {
        let mut starts = Vec::with_capacity(names.len());
        for (some, listed) in names.chunks(AT_ONCE).zip(self.listed(names).await?.chunks(AT_ONCE)) {
            let asked = some.iter().zip(listed).map(async |(name, listed)| {
                // Asked for all that it knows of a unit, it reads its files as well.
                let listed = listed.as_ref().filter(|listed| !listed.is_piped);
                let Some(path) = listed.and_then(|listed| listed.object()) else {
                    return Ok(Start::default());
                };
                // One that does not run would be loaded anew for each question.
                self.keep(name).await;
                let start = self.last_start(&path).await;
                start.map_err(|trouble| trouble.error(&format!("ask systemd for {name}")))
            });
            starts.extend(try_join_all(asked).await?);
        }
        Ok(starts)
    }

    async fn last_start(&self, path: &str) -> Result<Start, Trouble> {
        let mut all = self.properties(path, UNIT).await?;
        let (at, is_met) = (all.take("ConditionTimestamp")?, all.take("ConditionResult")?);
        let conditions: Vec<Test> = all.take("Conditions")?;
        let unasked = if at > 0 { Vec::new() } else { self.unmet_now(conditions.clone()).await };
        let (asserted, holds) = (all.take("AssertTimestamp")?, all.take("AssertResult")?);
        Ok(Start {
            unmet: self.failed(at, is_met, conditions).await,
            unasked,
            unasserted: self.failed(asserted, holds, all.take("Asserts")?).await,
            refuses_start: all.take("RefuseManualStart")?,
            refuses_stop: all.take("RefuseManualStop")?,
        })
    }

    /// The conditions or assertions that failed when it was last to be started, at a time that is 0 where it was not.
    async fn failed(&self, at: u64, is_met: bool, tests: Vec<Test>) -> Vec<String> {
        if at == 0 || is_met {
            return Vec::new();
        }
        // It has them the other way round than the files do. Once it has read those again, it does not say which failed.
        let has_result = tests.iter().any(|(.., result)| *result < 0);
        let is_failed = |(.., result): &Test| !has_result || *result < 0;
        let failed: Vec<Test> = tests.into_iter().rev().filter(is_failed).collect();
        let Some(root) = self.0.root.clone() else { return failed.iter().map(said).collect() };
        let looked = failed.clone();
        let left = tokio::task::spawn_blocking(move || left(&root, looked)).await.unwrap_or_default();
        let failed = if left.is_empty() && is_fresh(at) { failed } else { left };
        failed.iter().map(said).collect()
    }

    /// Conditions about files that each of them must meet, and that are seen not to be met.
    async fn unmet_now(&self, tests: Vec<Test>) -> Vec<String> {
        let (Some(root), false) = (self.0.root.clone(), tests.is_empty()) else { return Vec::new() };
        let is_unmet = move |(key, is_one_of, is_negated, about, _): &Test| {
            !is_one_of && holds(&root, key, about) == Some(*is_negated)
        };
        let looked = tokio::task::spawn_blocking(move || tests.into_iter().rev().filter(is_unmet).collect());
        let unmet: Vec<Test> = looked.await.unwrap_or_default();
        unmet.iter().map(said).collect()
    }

    /// Has systemd keep a unit in its memory, and what becomes of it. Where it will not, that is not known.
    pub(super) async fn keep(&self, name: &str) {
        let path = format!("{UNITS}{}", escape(name));
        let is_kept = || self.0.kept.lock().unwrap_or_else(PoisonError::into_inner).contains(name);
        if !is_kept() && self.call((&path, UNIT, "Ref"), &(), CALL).await.is_ok() {
            self.0.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        }
    }

    /// It need not any longer.
    pub(super) async fn let_go(&self, name: &str) {
        if self.0.kept.lock().unwrap_or_else(PoisonError::into_inner).remove(name) {
            let path = format!("{UNITS}{}", escape(name));
            // It may have gone by itself.
            let _ = self.call((&path, UNIT, "Unref"), &(), CALL).await;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "systemd says when it looked, by this clock")]
fn is_fresh(at: u64) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.checked_sub(Duration::from_micros(at)).is_none_or(|age| age < FRESH)
}

/// A condition as a unit file has it.
fn said((key, is_one_of, is_negated, about, _): &Test) -> String {
    let mark = |is, mark| if is { mark } else { "" };
    format!("{key}={}{}{about}", mark(*is_one_of, "|"), mark(*is_negated, "!"))
}

/// What is left of what failed without those that are about files and would not fail now.
fn left(root: &Path, failed: Vec<Test>) -> Vec<Test> {
    let is_so = |test: &Test| {
        let (key, _, is_negated, about, _) = test;
        holds(root, key, about).is_some_and(|holds| holds != *is_negated)
    };
    let (one_of, mut left): (Vec<Test>, Vec<Test>) =
        failed.into_iter().partition(|(_, is_one_of, ..)| *is_one_of);
    left.retain(|test| !is_so(test));
    if !one_of.iter().any(is_so) {
        left.extend(one_of);
    }
    left
}

/// What a service with the usual protection sees other things below than systemd does, which is believed there.
const OF_EACH: [&str; 6] = ["/tmp", "/var/tmp", "/home", "/root", "/run/user", "/dev"];

/// What a condition about a file says now, before it is negated; none of all others.
fn holds(root: &Path, key: &str, about: &str) -> Option<bool> {
    let key = key.strip_prefix("Condition").or_else(|| key.strip_prefix("Assert"))?;
    if OF_EACH.iter().any(|of_each| Path::new(about).starts_with(of_each)) {
        return None;
    }
    let path: PathBuf = root.join(about.trim_start_matches('/'));
    let meta = fs::metadata(&path).ok();
    Some(match key {
        "PathExists" => meta.is_some(),
        "PathIsDirectory" => meta.is_some_and(|meta| meta.is_dir()),
        "DirectoryNotEmpty" => fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()),
        "FileNotEmpty" => meta.is_some_and(|meta| meta.is_file() && meta.len() > 0),
        "FileIsExecutable" => {
            meta.is_some_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(text: &str) -> Test {
        let (key, rest) = text.split_once('=').unwrap();
        let (is_one_of, rest) = rest.strip_prefix('|').map_or((false, rest), |rest| (true, rest));
        let (is_negated, about) = rest.strip_prefix('!').map_or((false, rest), |rest| (true, rest));
        (key.into(), is_one_of, is_negated, about.into(), -1)
    }

    #[test]
    fn conditions_about_files_are_looked_at_again() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("empty")).unwrap();
        fs::write(dir.path().join("a"), "").unwrap();
        for (texts, expect) in [
            (&["ConditionPathExists=/a"][..], &[][..]),
            (&["ConditionPathExists=!/a"], &["ConditionPathExists=!/a"]),
            (&["ConditionPathExists=!/b", "ConditionFileNotEmpty=/a"], &["ConditionFileNotEmpty=/a"]),
            (&["ConditionPathIsDirectory=/empty", "ConditionDirectoryNotEmpty=!/empty"], &[]),
            (&["ConditionPathExists=|/b", "ConditionPathExists=|/a"], &[]),
            (
                &["ConditionPathExists=|/b", "ConditionPathExists=|!/a"],
                &["ConditionPathExists=|/b", "ConditionPathExists=|!/a"],
            ),
            (&["AssertFileIsExecutable=/a"], &["AssertFileIsExecutable=/a"]),
            // Nobody knows.
            (&["ConditionPathExists=/a", "ConditionHost=!a"], &["ConditionHost=!a"]),
        ] {
            let tests: Vec<Test> = texts.iter().map(|text| test(text)).collect();
            assert_eq!(tests.iter().map(said).collect::<Vec<_>>(), texts);
            let left = left(dir.path(), tests);
            assert_eq!(left.iter().map(said).collect::<Vec<_>>(), expect, "{texts:?}");
        }
    }
}
