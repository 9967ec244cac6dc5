//! What a person stopped, or the time of the week: nothing of it is written until it is resumed or its time is over.
//!
//! Guarantees: pure; whatever cannot be told apart counts as meant: what has no manifest any more has no labels
//! to look at, and a claim has no source of its own.
//! It deliberately stops no observing, no planning and no bookkeeping but what a commit asks for: taking over and letting go.

use crate::selector::Selector;
use reconciled_provider::{Address, ManifestKey, Pattern, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

/// The reason of a condition that ends with what a person suspended.
pub const BY_PERSON: &str = "SuspendedByPerson";
/// Reason of a condition: the manifest says `suspend`.
pub const BY_MANIFEST: &str = "Suspended";
/// Reason of a condition that ends with what a window stopped: once it opens, or a person says so.
pub const WINDOW_CLOSED: &str = "WindowClosed";
/// How what a person may pass is done at once.
const NOW: &str = "to have it done now: reconciled sync; without a daemon: reconciled apply";
/// When what is stopped is held where a closed window is all that stops it, and lets a person's word pass.
pub(crate) const OR_ASKED_FOR: &str = "once the window opens or a person asks for it";

/// A word that nothing shall be written: a person's, or a closed window's.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspension {
    /// What `resume` names; the path of the file where a file suspends.
    pub id: Arc<str>,
    /// What is meant.
    pub extent: Extent,
    /// What is not meant all the same.
    pub except: Vec<Pattern>,
    /// Why.
    pub reason: Arc<str>,
    /// By whom.
    pub actor: Arc<str>,
    /// Since when, since the epoch.
    pub since: Duration,
    /// Until when, since the epoch; none until somebody resumes, and of a window where no opening is in sight.
    pub until: Option<Duration>,
    /// Who or what stops it.
    pub stopped_by: StoppedBy,
    /// Scopes in which something was tracked when it began, or to which that was moved since, and that were not looked at since it was
    /// over: what was changed by hand in them needs consent.
    pub scopes: BTreeSet<Scope>,
}

/// Who or what stops it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoppedBy {
    /// A person.
    #[default]
    Person,
    /// A window in time that is closed; what passes is written all the same.
    Window(Passes),
}

/// What is written although a window is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passes {
    /// What is made again as it was.
    pub heals: Heals,
    /// What a person takes back to an earlier revision.
    pub rollback: bool,
    /// What a person asks for now.
    pub manual: bool,
}

/// What is made again as it was declared while a window is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heals {
    /// Nothing.
    #[default]
    Nothing,
    /// What is protected.
    Protected,
    /// Everything.
    Everything,
}

/// What a suspension means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Everything.
    All,
    /// What this source declares or declared.
    Source(Arc<str>),
    /// What lies behind this entry.
    Provider(Arc<str>),
    /// What has such an address.
    Address(Pattern),
    /// Manifests with these labels.
    Labels(Selector),
}

/// In the words of the command line.
impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::All => f.write_str("--all"),
            Extent::Source(name) => write!(f, "--source {name}"),
            Extent::Provider(name) => write!(f, "--provider {name}"),
            Extent::Address(pattern) => write!(f, "{}", pattern.0),
            Extent::Labels(selector) => write!(f, "-l {selector}"),
        }
    }
}

/// The labels of a manifest.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

impl Suspension {
    /// True once its time is over.
    pub fn is_over(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| now >= until)
    }

    /// True when it means this resource. `manifest` is none for what no manifest declares or declared.
    pub fn means<'l>(
        &self,
        scope: &Scope,
        address: &Address,
        manifest: Option<&ManifestKey>,
        labels: impl FnOnce() -> Option<&'l Labels>,
    ) -> bool {
        let group = manifest.map_or(address.group.as_deref().unwrap_or(""), ManifestKey::group);
        let meant = match &self.extent {
            Extent::All => true,
            Extent::Source(name) => manifest.is_none_or(|key| key.source() == &**name),
            Extent::Provider(name) => scope.provider == *name,
            Extent::Address(pattern) => pattern.matches(address, group),
            Extent::Labels(wanted) => labels().is_none_or(|labels| wanted.matches(|key| labels.get(key))),
        };
        meant && !self.excepts(address, group)
    }

    /// True for what is not meant all the same.
    pub(crate) fn excepts(&self, address: &Address, group: &str) -> bool {
        self.except.iter().any(|pattern| pattern.matches(address, group))
    }

    /// True for a closed window that lets through what a person asks for now.
    pub fn lets_person(&self) -> bool {
        matches!(self.stopped_by, StoppedBy::Window(passes) if passes.manual)
    }

    /// What ends it.
    pub fn remedy(&self) -> String {
        if let StoppedBy::Window(passes) = self.stopped_by {
            let actor = &self.actor;
            return match (self.until.is_some(), passes.manual) {
                (true, true) => format!("it goes on by itself; {NOW}"),
                (true, false) => {
                    format!("it goes on by itself; `windows` of {actor} are in the daemon's configuration")
                }
                // Only so many ends are looked through: it may open all the same.
                (false, true) => format!(
                    "no opening is in sight by `windows` of {actor} in the daemon's configuration; {NOW}"
                ),
                (false, false) => format!(
                    "no opening is in sight by `windows` of {actor} in the daemon's configuration: leave some time \
                     that no `deny` covers, and that an `allow` has where there is one"
                ),
            };
        }
        match self.id.starts_with('/') {
            true => format!("to resume: rm {}", self.id),
            false => format!("to resume: reconciled resume {}", self.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(extent: Extent, except: &[&str], meant: &[&str]) {
        let suspension = Suspension {
            id: "1".into(),
            extent,
            except: except.iter().map(|text| text.parse().unwrap()).collect(),
            reason: "".into(),
            actor: "".into(),
            since: Duration::ZERO,
            until: None,
            stopped_by: StoppedBy::Person,
            scopes: BTreeSet::new(),
        };
        let web: Labels = [("team".into(), "web".into())].into();
        let key = |source| Some(ManifestKey::new(source, "dns", "Zone", "", "a.example"));
        let pdns = Scope::new("pdns", "a.example");
        let all = [
            ("web", "Zone/a.example#www/A", key("infra"), Some(&web)),
            ("other", "Zone/a.example#mx/MX", key("apps"), Some(&Labels::new())),
            ("gone", "Zone/a.example#old/A", key("infra"), None),
            ("claim", "Claim/pdns/a.example#_acme/TXT", None, None),
        ];
        let found: Vec<&str> = all
            .iter()
            .filter(|(_, address, key, labels)| {
                suspension.means(&pdns, &address.parse().unwrap(), key.as_ref(), || *labels)
            })
            .map(|(name, ..)| *name)
            .collect();
        assert_eq!(found, meant, "{}", suspension.extent);
    }

    #[test]
    fn a_window_without_an_opening_in_sight_says_what_to_do_and_one_with_one_that_it_goes_on() {
        let remedy = |until: Option<u64>, manual| {
            let window = Suspension {
                id: "window:infra".into(),
                extent: Extent::Source("infra".into()),
                except: Vec::new(),
                reason: "window closed".into(),
                actor: "source infra".into(),
                since: Duration::ZERO,
                until: until.map(Duration::from_secs),
                stopped_by: StoppedBy::Window(Passes { manual, ..Passes::default() }),
                scopes: BTreeSet::new(),
            };
            window.remedy()
        };
        for (until, manual, says, hides) in [
            (
                Some(7),
                true,
                "to have it done now: reconciled sync; without a daemon: reconciled apply",
                "in sight",
            ),
            (Some(7), false, "`windows` of source infra are in", "in sight"),
            (
                None,
                true,
                "no opening is in sight by `windows` of source infra in the daemon's configuration; to have",
                "goes on",
            ),
            (None, false, "configuration: leave some time that no `deny` covers", "goes on"),
        ] {
            let remedy = remedy(until, manual);
            assert!(remedy.contains(says) && !remedy.contains(hides), "{remedy}");
        }
    }

    #[test]
    fn what_cannot_be_told_apart_is_meant() {
        check(Extent::All, &[], &["web", "other", "gone", "claim"]);
        check(Extent::All, &["Zone/*#www/*"], &["other", "gone", "claim"]);
        check(Extent::Source("infra".into()), &[], &["web", "gone", "claim"]);
        check(Extent::Provider("pdns".into()), &[], &["web", "other", "gone", "claim"]);
        check(Extent::Provider("bind".into()), &[], &[]);
        check(Extent::Address("Zone/a.example#www/*".parse().unwrap()), &[], &["web"]);
        check(Extent::Labels("team=web".parse().unwrap()), &[], &["web", "gone", "claim"]);
        check(Extent::Labels("!team".parse().unwrap()), &[], &["other", "gone", "claim"]);
    }
}
