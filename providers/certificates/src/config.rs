//! Host configuration of a `type: certificates` entry.

use crate::place::{Again, Here, Place};
use reconciled_provider::Error;
use serde::Deserialize;
use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

/// Keys of the entry besides those every entry has.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Directories below which certificates may be put, and nowhere else. Needed, unless there is a `helper`.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Socket of the helper, which puts certificates in place and makes services read them, where its own configuration
    /// allows it.
    pub helper: Option<PathBuf>,
    /// Directory for certificates whose manifest says `secretName` and no `output`: they are put into the directory of that
    /// name in it.
    pub directory: Option<String>,
    /// Command that makes a service read its files again; `{unit}` is what a manifest names in `reload`. An empty one: no
    /// manifest may name any. Default: `[systemctl, try-reload-or-restart, "{unit}"]`, which a `helper` does itself.
    #[serde(default = "default_reload")]
    pub reload: Vec<String>,
    /// Command that restarts a service which goes on showing another certificate, where a manifest says `escalate`; `{unit}`
    /// is what it names in `reload`. An empty one: no manifest may say so. Default: `reload` with `try-restart`, where that is
    /// a call of `systemctl`, else none.
    pub restart: Option<Vec<String>>,
    /// Address at which HTTP-01 challenges are answered. Default: `"[::]:80"`.
    #[serde(default = "default_listen")]
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// Address at which TLS-ALPN-01 challenges are answered. Default: `"[::]:443"`.
    #[serde(default = "default_listen_tls")]
    #[schemars(with = "String")]
    pub listen_tls: SocketAddr,
    /// Whose limits on orders and certificates are kept here too: `letsencrypt` or `none`. Default: those of Let's Encrypt
    /// for its production server, and none for others.
    pub limits: Option<Limits>,
    /// Where keys, certificates and accounts are kept; handed over apart.
    #[serde(skip)]
    #[schemars(skip)]
    pub state: PathBuf,
    /// What the marks of directories call this instance; handed over apart.
    #[serde(skip)]
    #[schemars(skip)]
    pub instance: Arc<str>,
    /// Names that the entry had before, whose state is beside its own; handed over apart.
    #[serde(skip)]
    #[schemars(skip)]
    pub former: Vec<String>,
    /// What no manifest may touch: the state and the configuration of this program; handed over apart.
    #[serde(skip)]
    #[schemars(skip)]
    pub reserved: Vec<String>,
    /// How long a call or a command may take; handed over apart.
    #[serde(skip, default = "default_timeout")]
    #[schemars(skip)]
    pub timeout: Duration,
    /// Told the name of each place at which a test may end the process; handed over apart.
    #[serde(skip, default = "default_passed")]
    #[schemars(skip)]
    pub passed: fn(&str),
    /// Who has the rights where certificates are put; handed over apart.
    #[serde(skip, default = "default_place")]
    #[schemars(skip)]
    pub place: Arc<dyn Place>,
}

/// Whose limits are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Limits {
    /// Those of Let's Encrypt.
    LetsEncrypt,
    /// None: who refuses, refuses.
    None,
}

fn default_passed() -> fn(&str) {
    |_| {}
}

fn default_place() -> Arc<dyn Place> {
    Arc::new(Here)
}

fn default_reload() -> Vec<String> {
    ["systemctl", "try-reload-or-restart", "{unit}"].map(String::from).into()
}

fn default_listen() -> SocketAddr {
    SocketAddr::from(([0; 8], 80))
}

fn default_listen_tls() -> SocketAddr {
    SocketAddr::from(([0; 8], 443))
}

fn default_timeout() -> Duration {
    Duration::from_secs(30)
}

impl Config {
    /// A configuration that keeps what it issues in `state` and puts it below `paths`.
    pub fn new(state: impl Into<PathBuf>, paths: &[&str]) -> Config {
        Config {
            paths: paths.iter().map(|path| (*path).into()).collect(),
            directory: None,
            helper: None,
            reload: default_reload(),
            restart: None,
            listen: default_listen(),
            listen_tls: default_listen_tls(),
            limits: None,
            state: state.into(),
            instance: Arc::default(),
            former: Vec::new(),
            reserved: Vec::new(),
            timeout: default_timeout(),
            passed: default_passed(),
            place: default_place(),
        }
    }

    /// A configuration of no host in particular: every path may be right.
    pub(crate) fn anywhere() -> Config {
        let directory = Some("/etc/ssl".into());
        Config { directory, ..Config::new("/nonexistent", &["/"]) }
    }

    /// Refuses what cannot work.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let problem = |text: String, hint: &str| Err(Error::invalid(text).hint(hint));
        if self.helper.as_ref().is_some_and(|helper| !helper.is_absolute()) {
            return problem("helper of a certificates entry is no absolute path".into(), "write it from /");
        }
        if self.paths.is_empty() && self.helper.is_none() {
            return problem(
                "paths of a certificates entry is empty or missing, so nothing could be put anywhere".into(),
                "write the directories below which certificates may be put: paths: [/etc/ssl]",
            );
        }
        for path in self.paths.iter().chain(&self.directory) {
            if let Err(why) = check_path(path) {
                return problem(
                    format!("`{path}` of a certificates entry {why}"),
                    "write an absolute path: /etc/ssl",
                );
            }
        }
        if let Some(directory) = self.directory.as_ref().filter(|path| !self.allows(&format!("{path}/x"))) {
            return problem(
                format!("directory `{directory}` of a certificates entry is in none of its `paths`"),
                "add it to `paths`",
            );
        }
        let is_no_program = |argv: &Vec<String>| {
            argv.first().is_some_and(|program| program.is_empty() || program.contains('{'))
        };
        if is_no_program(&self.reload) {
            return problem(
                "reload of a certificates entry names no program".into(),
                "write an argument list: reload: [systemctl, reload, \"{unit}\"]",
            );
        }
        if self.restart.as_ref().is_some_and(is_no_program) {
            return problem(
                "restart of a certificates entry names no program".into(),
                "write an argument list: restart: [systemctl, try-restart, \"{unit}\"]",
            );
        }
        Ok(())
    }

    /// Refuses to have services read their files again where the host has no command for that.
    pub(crate) fn check_reload(&self, entry: &str) -> Result<(), Error> {
        if !self.reload.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(format!("provider `{entry}` makes no service read its files again")).hint(
            "in the host configuration, write `bus: system` for the host entry, or an entry of `type: certificates` \
             with reload: [systemctl, try-reload-or-restart, \"{unit}\"]; or leave `reload` out",
        ))
    }

    /// The command that restarts a service; none where the host has none.
    pub(crate) fn restart(&self) -> Option<Vec<String>> {
        if let Some(argv) = &self.restart {
            return Some(argv.clone()).filter(|argv| !argv.is_empty());
        }
        let is_verb = |word: &&String| {
            matches!(&***word, "try-reload-or-restart" | "reload-or-restart" | "reload" | "try-restart")
        };
        let is_systemctl = self.reload.iter().any(|word| word == "systemctl" || word.ends_with("/systemctl"));
        let verb = self.reload.iter().find(is_verb).filter(|_| is_systemctl)?;
        let word = |known: &String| if known == verb { "try-restart".to_owned() } else { known.clone() };
        Some(self.reload.iter().map(word).collect())
    }

    /// True when what an authority gives is counted here as well.
    pub(crate) fn counts(&self, server: &str) -> bool {
        match self.limits {
            Some(limits) => limits == Limits::LetsEncrypt,
            None => server.starts_with("https://acme-v02.api.letsencrypt.org/"),
        }
    }

    /// True when a certificate may be put at `path`: strictly below one of the directories. Without any the helper says it.
    pub(crate) fn allows(&self, path: &str) -> bool {
        let is_below = |above: &str| {
            let rest = path.strip_prefix(above.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'))
        };
        let is_own = |own: &String| own == path || is_below(own);
        let is_allowed = match self.paths.is_empty() {
            true => self.helper.is_some(),
            false => self.paths.iter().any(|allowed| is_below(allowed)),
        };
        is_allowed && !self.reserved.iter().any(is_own)
    }

    /// The directories that are allowed, in words for people.
    pub(crate) fn allowed(&self) -> String {
        match self.paths.is_empty() {
            true => "what its helper allows, and nothing of reconciled's own".into(),
            false => self.paths.join(", "),
        }
    }
}

/// True for the command that systemd itself, or who asks it for us, needs none for.
pub(crate) fn is_usual(command: &[String], again: Again) -> bool {
    let verb = match again {
        Again::Read => "try-reload-or-restart",
        Again::Start => "try-restart",
    };
    command == ["systemctl", verb, "{unit}"]
}

/// What is wrong with an absolute path, in words that follow it.
pub(crate) fn check_path(path: &str) -> Result<(), &'static str> {
    match path.strip_prefix('/') {
        None => Err("does not begin with a slash"),
        Some("") => Ok(()),
        Some(rest) if rest.split('/').any(|part| part.is_empty()) => Err("has a slash too many"),
        Some(rest) if rest.split('/').any(|part| part == "." || part == "..") => Err("has `.` or `..` in it"),
        Some(rest) if rest.contains(|c: char| c.is_control()) => Err("has a control character in it"),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_says_where_certificates_may_be_put_and_means_it() {
        let mut config = Config::new("/state", &["/etc/ssl", "/srv"]);
        config.reserved = vec!["/srv/state".into()];
        assert!(config.validate().is_ok());
        assert!(config.allows("/etc/ssl/web") && config.allows("/srv/a/b"));
        for path in ["/etc/ssl", "/etc/ssl/", "/etc/sslx/a", "/root/x", "/srv/state", "/srv/state/x"] {
            assert!(!config.allows(path), "{path}");
        }
        let refused = |config: Config| config.validate().unwrap_err().message.clone();
        assert!(refused(Config::new("/state", &[])).contains("empty"));
        assert!(refused(Config::new("/state", &["etc"])).contains("slash"));
        assert!(refused(Config::new("/state", &["/etc/../root"])).contains(".."));
        let directory = Some("/var/x".to_owned());
        assert!(
            refused(Config { directory, ..Config::new("/state", &["/etc"]) }).contains("none of its `paths`")
        );
        let reload = |program: &str| vec![program.to_owned()];
        for program in ["", "{unit}"] {
            let config = Config { reload: reload(program), ..Config::new("/state", &["/etc"]) };
            assert!(refused(config).contains("reload of a certificates entry names no program"));
            let config = Config { restart: Some(reload(program)), ..Config::new("/state", &["/etc"]) };
            assert!(refused(config).contains("restart of a certificates entry names no program"));
        }
    }

    #[test]
    fn limits_are_counted_for_the_production_server_of_lets_encrypt_unless_the_host_says_whose() {
        let servers = [
            "https://acme-v02.api.letsencrypt.org/directory",
            "https://acme-staging-v02.api.letsencrypt.org/directory",
            "https://acme-v02.api.letsencrypt.org.example/directory",
            "https://acme.zerossl.com/v2/DV90",
        ];
        let check = |limits, expect: [bool; 4]| {
            let config = Config { limits, ..Config::new("/state", &["/etc"]) };
            assert_eq!(servers.map(|server| config.counts(server)), expect, "{limits:?}");
        };
        check(None, [true, false, false, false]);
        check(Some(Limits::LetsEncrypt), [true; 4]);
        check(Some(Limits::None), [false; 4]);
    }

    #[test]
    fn a_service_is_restarted_as_it_is_reloaded_unless_the_host_says_how() {
        let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
        let of = |reload: &str, restart: Option<&str>| {
            let (reload, restart) = (words(reload), restart.map(words));
            Config { reload, restart, ..Config::new("/state", &["/etc"]) }.restart()
        };
        assert_eq!(Config::new("/state", &["/etc"]).restart(), Some(words("systemctl try-restart {unit}")));
        let afar = "/usr/bin/env BUS=x systemctl try-reload-or-restart {unit}";
        assert_eq!(of(afar, None), Some(words("/usr/bin/env BUS=x systemctl try-restart {unit}")));
        assert_eq!(of("rndc reload", None), None);
        assert_eq!(of("", None), None);
        assert_eq!(
            of("rndc reload", Some("/etc/init.d/{unit} restart")),
            Some(words("/etc/init.d/{unit} restart"))
        );
        assert_eq!(of("systemctl reload {unit}", Some("")), None);
    }
}
