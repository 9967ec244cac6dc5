//! The keys `api` and `hook`: where the daemon listens, and what a push is told.

use super::{
    Environment,
    locate::{beside, from_here},
    reach::Listen,
    values::Period,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Where the daemon can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    /// The unix socket.
    pub socket: PathBuf,
    /// Members of this group may use it, besides root and the daemon's own user.
    pub group: Option<Arc<str>>,
    /// The address for other hosts and for forges; none listens on the socket alone.
    pub listen: Option<SocketAddr>,
}

/// What a push is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// What happens to a push whose plan is held.
    pub on_hold: OnHold,
    /// How long a push waits for its plan.
    pub plan_timeout: Duration,
    /// How long a push follows what it set off.
    pub push_timeout: Duration,
}

/// What happens to a push whose plan is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnHold {
    /// It is refused, with the line to type.
    #[default]
    Refuse,
    /// It is taken; what is held waits for consent.
    Accept,
}

#[derive(Default, Deserialize)]
pub(super) struct RawApi {
    socket: Option<String>,
    group: Option<String>,
    listen: Option<Listen>,
}

impl RawApi {
    /// Nothing is known but where the socket is, if even that.
    pub(super) fn at(socket: Option<String>) -> RawApi {
        RawApi { socket, ..RawApi::default() }
    }
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.listen.as_ref().map(|listen| listen.0)
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawHook {
    #[serde(default)]
    on_hold: OnHold,
    plan_timeout: Option<Period>,
    push_timeout: Option<Period>,
}

/// Where a system-wide instance listens.
pub const SYSTEM_SOCKET: &str = "/run/reconciled/api.sock";
const SYSTEM_STATE: &str = "/var/lib/reconciled";

impl Api {
    /// As written, with defaults for the rest.
    ///
    /// The socket is `$RUNTIME_DIRECTORY/api.sock` under systemd, [`SYSTEM_SOCKET`] for the system's own state
    /// directory, else `api.sock` in the state directory, so that two instances never share one.
    pub(super) fn of(raw: RawApi, config: Option<&Path>, state_dir: &Path, environment: &Environment) -> Api {
        let listen = raw.address();
        let socket = match (raw.socket, environment.var("RUNTIME_DIRECTORY")) {
            (Some(path), _) => beside(config, Path::new(&path)),
            // systemd joins several directories by colons; the first is ours.
            (None, Some(list)) => from_here(list.split(':').next().unwrap_or(list)).join("api.sock"),
            (None, None) if state_dir == Path::new(SYSTEM_STATE) => PathBuf::from(SYSTEM_SOCKET),
            (None, None) => state_dir.join("api.sock"),
        };
        Api { socket, listen, group: raw.group.map(Arc::from) }
    }
}

impl From<RawHook> for Hook {
    fn from(raw: RawHook) -> Hook {
        let or = |period: Option<Period>, seconds| period.map_or(Duration::from_secs(seconds), |p| p.0);
        Hook {
            on_hold: raw.on_hold,
            plan_timeout: or(raw.plan_timeout, 5),
            push_timeout: or(raw.push_timeout, 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_follows_configuration_systemd_and_state() {
        let check = |written: Option<&str>, variables: &[(&str, &str)], state: &str, expect: &str| {
            let raw = RawApi { socket: written.map(String::from), ..RawApi::default() };
            let api = Api::of(raw, None, Path::new(state), &Environment::of(variables.iter().copied()));
            assert_eq!(api.socket, Path::new(expect));
        };
        check(Some("/x/s"), &[("RUNTIME_DIRECTORY", "/run/r")], SYSTEM_STATE, "/x/s");
        check(None, &[("RUNTIME_DIRECTORY", "/run/r:/run/b")], SYSTEM_STATE, "/run/r/api.sock");
        check(None, &[], SYSTEM_STATE, SYSTEM_SOCKET);
        check(None, &[], "/srv/state", "/srv/state/api.sock");
    }
}
