//! What of a configuration that cannot be used still says where its daemon is.
//!
//! A daemon goes on with the configuration it has read. Who wants to stop it must not have to mend the file first, so
//! that what is wrong elsewhere in it hides neither `api.socket` nor `stateDir`. Nothing else is taken from such a file.

use super::{
    Environment,
    daemon::{Api, RawApi},
    locate::state_dir,
};
use reconciled_provider::{
    Node, SourceFile,
    yaml::{Limits, parse},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where the daemon of a configuration may be.
#[derive(Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// Its socket.
    pub socket: PathBuf,
    /// Its state: that of the file, or where it says nothing that can be read, the one it would be by default. Whoever answers
    /// and has another is the daemon of somebody else.
    pub state_dir: PathBuf,
}

/// Looks for the daemon of the configuration at `path`, whatever else is wrong with that file.
pub fn whereabouts(path: &Path, environment: &Environment) -> Whereabouts {
    in_text(&fs::read_to_string(path).unwrap_or_default(), path, environment)
}

fn in_text(text: &str, path: &Path, environment: &Environment) -> Whereabouts {
    let sections: Vec<Node> = match root(text) {
        Some(root) => vec![root],
        None => sections(text).iter().filter_map(|section| root(section)).collect(),
    };
    let written = |keys: &[&str]| {
        let found = sections.iter().find_map(|section| below(section, keys));
        found.and_then(Node::as_str).map(str::to_string)
    };
    let named = written(&["stateDir"]).map(PathBuf::from);
    let state = state_dir(named.as_deref(), Some(path), environment);
    let api = Api::of(RawApi::at(written(&["api", "socket"])), Some(path), &state, environment);
    Whereabouts { socket: api.socket, state_dir: state }
}

fn below<'a>(node: &'a Node, keys: &[&str]) -> Option<&'a Node> {
    keys.iter().try_fold(node, |node, key| node.get(key))
}

fn root(text: &str) -> Option<Node> {
    parse(&SourceFile::new("configuration", text), Limits::default()).ok()?.into_iter().next()
}

/// The text by its keys of the first level, each with what is below it: one that is no YAML spoils no other.
fn sections(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for line in text.lines() {
        let begins = line.starts_with(|first: char| first.is_alphabetic());
        match all.last_mut().filter(|_| !begins) {
            Some(section) => *section += &format!("{line}\n"),
            None => all.push(format!("{line}\n")),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_is_found_whatever_else_is_wrong_with_the_file() {
        let environment = Environment::default();
        let check = |text: &str, socket: &str, state: &str| {
            let found = in_text(text, Path::new("/etc/reconciled/config.yaml"), &environment);
            let expect = Whereabouts { socket: socket.into(), state_dir: state.into() };
            assert_eq!(found, expect, "{text}");
        };
        let good = "stateDir: /srv/state\napi:\n  # here\n  socket: /run/r/s\nsources: []\n";
        check(good, "/run/r/s", "/srv/state");
        check(&format!("{good}bogus: 1\n"), "/run/r/s", "/srv/state");
        for broken in ["providers: [\n", "providers:\n  - {name: a\n", "- x\n", "a: b: c\n", "\tx\n", "api\n"]
        {
            check(&format!("{good}{broken}"), "/run/r/s", "/srv/state");
            check(&format!("sources:\n  - 'x\n{good}"), "/run/r/s", "/srv/state");
        }
        check("{stateDir: /srv/state, bogus: 1}", "/srv/state/api.sock", "/srv/state");
        check(
            "api: {socket: [7], x: y}\nstateDir: [/x]\n",
            "/run/reconciled/api.sock",
            "/var/lib/reconciled",
        );
        for nothing in ["", "bogus: 1\n", "{", "api: [\n", "stateDir:\n"] {
            check(nothing, "/run/reconciled/api.sock", "/var/lib/reconciled");
        }
    }
}
