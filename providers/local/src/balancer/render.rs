//! The configuration of a balancer, as text. Pure.
//!
//! Each member has a line of its own, which ends in ` # UNIT`: so whoever drains it changes that line and nothing else.

use super::kind::Program;
use std::collections::BTreeSet;

/// A member: its unit and its address.
pub(super) struct Member {
    pub(super) unit: String,
    pub(super) address: String,
}

/// A user and a group.
#[derive(Clone, Copy)]
pub(super) struct RunAs<'a> {
    pub(super) user: &'a str,
    pub(super) group: &'a str,
}

impl RunAs<'_> {
    /// As its packages make them.
    pub(super) const HAPROXY: RunAs<'static> = RunAs { user: "haproxy", group: "haproxy" };
}

/// The configuration, with nobody drained. Without `run_as`, HAProxy stays whoever starts it.
pub(super) fn render(
    program: Program,
    name: &str,
    listen: &str,
    run_as: Option<RunAs<'_>>,
    members: &[Member],
) -> String {
    let head = format!("# Written by reconciled: LoadBalancer/{name}. Changes are taken back.\n");
    match program {
        Program::Nginx => {
            let mut servers: String = members
                .iter()
                .map(|member| format!("        server {}; # {}\n", member.address, member.unit))
                .collect();
            if servers.is_empty() {
                // An upstream without servers is refused; this one answers nobody.
                servers = "        server 127.0.0.1:1 down;\n".into();
            }
            format!(
                "{head}worker_processes auto;\nevents {{}}\nhttp {{\n    access_log off;\n    \
                 upstream members {{\n{servers}    }}\n    server {{\n        listen {listen};\n        location / {{\n            \
                 proxy_pass http://members;\n            proxy_http_version 1.1;\n            \
                 proxy_set_header Connection \"\";\n            proxy_set_header Host $host;\n            \
                 proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n        }}\n    }}\n}}\n"
            )
        }
        Program::Haproxy => {
            let listen = if listen.contains(':') { listen.to_owned() } else { format!("*:{listen}") };
            let servers: String = members
                .iter()
                .map(|member| {
                    // HAProxy's names know no `@`.
                    let name = member.unit.replace('@', "-");
                    format!("    server {name} {} check inter 1s # {}\n", member.address, member.unit)
                })
                .collect();
            let run_as = run_as
                .map(|RunAs { user, group }| format!("    user {user}\n    group {group}\n"))
                .unwrap_or_default();
            format!(
                "{head}global\n{run_as}    maxconn 4096\ndefaults\n    mode http\n    timeout connect 2s\n    timeout client 60s\n    \
                 timeout server 60s\n    option redispatch\n    retries 3\nfrontend {name}\n    bind {listen}\n    \
                 default_backend members\nbackend members\n    balance roundrobin\n{servers}"
            )
        }
    }
}

/// How a line says that it is drained, by the program that it is for.
fn split(line: &str) -> Option<(&str, &str)> {
    let line_and_unit = line.rsplit_once(" # ")?;
    line.trim_start().starts_with("server ").then_some(line_and_unit)
}

fn is_drained(setting: &str) -> bool {
    setting.ends_with(" down;") || setting.ends_with(" disabled")
}

/// The units that have a line.
pub(crate) fn named(text: &str) -> BTreeSet<String> {
    text.lines().filter_map(split).map(|(_, unit)| unit.to_owned()).collect()
}

/// The units whose lines say that they are drained.
pub(crate) fn drained(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter_map(split);
    lines.filter(|(setting, _)| is_drained(setting)).map(|(_, unit)| unit.to_owned()).collect()
}

/// The same text with exactly those of `of` drained that are in `units`; lines of others stay as they are.
pub(crate) fn with_drained(text: &str, of: impl Fn(&str) -> bool, units: &BTreeSet<String>) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    for line in text.split_inclusive('\n') {
        let bare = line.strip_suffix('\n').unwrap_or(line);
        match split(bare).filter(|(_, unit)| of(unit)) {
            Some((setting, unit)) => {
                let plain = setting.strip_suffix(" disabled").unwrap_or(setting);
                let (plain, end) = match plain.strip_suffix(';') {
                    Some(plain) => (plain.strip_suffix(" down").unwrap_or(plain), ";"),
                    None => (plain, ""),
                };
                let word = match (units.contains(unit), end) {
                    (false, _) => "",
                    (true, ";") => " down",
                    (true, _) => " disabled",
                };
                out += &format!("{plain}{word}{end} # {unit}\n");
            }
            None => out += line,
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> Vec<Member> {
        let member = |n: u32| Member { unit: format!("web@{n}.service"), address: format!("127.0.0.1:{n}") };
        vec![member(8001), member(8002)]
    }

    #[test]
    fn a_member_is_drained_by_its_line_and_back_again() {
        for (program, line) in [
            (Program::Nginx, "        server 127.0.0.1:8002 down; # web@8002.service\n"),
            (
                Program::Haproxy,
                "    server web-8002.service 127.0.0.1:8002 check inter 1s disabled # web@8002.service\n",
            ),
        ] {
            let plain = render(program, "front", "8080", Some(RunAs::HAPROXY), &members());
            assert_eq!(drained(&plain), BTreeSet::new(), "{plain}");
            let units = BTreeSet::from(["web@8002.service".to_owned()]);
            let marked = with_drained(&plain, |_| true, &units);
            assert!(marked.contains(line), "{marked}");
            assert_eq!(drained(&marked), units);
            assert_eq!(with_drained(&marked, |_| true, &units), marked);
            assert_eq!(with_drained(&marked, |_| true, &BTreeSet::new()), plain);
            assert_eq!(with_drained(&marked, |unit| unit.starts_with("other"), &BTreeSet::new()), marked);
        }
    }
}
