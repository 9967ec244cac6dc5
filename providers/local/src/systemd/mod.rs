//! Units of systemd: files of theirs, whether they are enabled and masked, and whether they run.
//!
//! A unit is one resource of the scope `systemd`. Its files are written through the same hands as all others; the manager
//! reads them again once for all units of a batch, and only then is anything restarted.

pub(crate) mod apply;
pub(crate) mod definition;
mod diff;
mod discover;
pub(crate) mod files;
pub(crate) mod health;
mod listen;
pub(crate) mod look;
mod memory;
mod normalize;
pub(crate) mod observe;
pub(crate) mod places;
pub(crate) mod reads;
pub(crate) mod refusals;
mod restarts;
pub(crate) mod unit;

pub(crate) use apply::apply;
pub(crate) use diff::diff;
pub(crate) use discover::discover;
pub(crate) use health::health;
pub(crate) use normalize::{normalize, remote};
pub(crate) use observe::observe;
pub use places::Places;
pub(crate) use restarts::{restarted, tell_ends};
pub(crate) use unit::{HistoryLimits, Unit, Why, compare, is_closed, keep, show};
pub use unit::{OnChange, RunState, UNIT, UnitSpec};

/// The name of the scope that all units of a host are in.
pub const SYSTEMD: &str = "systemd";

/// Value of `apiVersion`.
pub const API_VERSION: &str = "systemd/v1";

/// Directories from which systemd loads units of the system: whoever writes there runs anything as root.
pub(crate) const LOADED_FROM: &[&str] = &[
    DIRECTORY,
    CONTROL[0],
    CONTROL[1],
    RUNTIME,
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// Where unit files of an administrator are.
pub(crate) const DIRECTORY: &str = "/etc/systemd/system";

/// Where `systemctl edit --runtime` writes.
pub(crate) const RUNTIME: &str = "/run/systemd/system";

/// Where `systemctl set-property` writes, which outranks all other files of a unit.
pub(crate) const CONTROL: [&str; 2] = ["/etc/systemd/system.control", "/run/systemd/system.control"];
