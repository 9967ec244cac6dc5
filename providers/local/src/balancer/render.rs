//! The configuration of a balancer, as text. Pure.
//!
//! Each member has a line of its own, which ends in ` # UNIT`: so whoever drains it changes that line and nothing else. One that
//! comes besides while a revision is brought in has a line that ends in ` # UNIT surge`, and rests: it is in the file as one that
//! gets no requests. A *mark* takes a member out of service, and puts one that comes besides into it.

use super::kind::Program;
use std::collections::BTreeSet;

/// A member: its unit and its address.
pub(super) struct Member {
    pub(super) unit: String,
    pub(super) address: String,
    /// It comes besides, while a revision is brought in.
    pub(super) is_surge: bool,
}

/// What is behind the unit of one that comes besides.
const SURGE: &str = " surge";

impl Member {
    /// What its line ends in.
    fn label(&self) -> String {
        format!("{}{}", self.unit, if self.is_surge { SURGE } else { "" })
    }
    /// `word`, where it rests.
    fn at_rest<'a>(&self, word: &'a str) -> &'a str {
        if self.is_surge { word } else { "" }
    }
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

/// The configuration, with nobody marked. Without `run_as`, HAProxy stays whoever starts it.
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
                .map(|member| {
                    let (down, label) = (member.at_rest(" down"), member.label());
                    format!("        server {}{down}; # {label}\n", member.address)
                })
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
                    let (disabled, label) = (member.at_rest(" disabled"), member.label());
                    format!("    server {name} {} check inter 1s{disabled} # {label}\n", member.address)
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

/// The line of a member.
struct Line<'a> {
    /// What it says to the program.
    setting: &'a str,
    /// What it ends in.
    label: &'a str,
    unit: &'a str,
    is_surge: bool,
}

impl Line<'_> {
    fn of(line: &str) -> Option<Line<'_>> {
        let (setting, label) = line.rsplit_once(" # ")?;
        let unit = label.strip_suffix(SURGE);
        let (unit, is_surge) = (unit.unwrap_or(label), unit.is_some());
        line.trim_start().starts_with("server ").then_some(Line { setting, label, unit, is_surge })
    }
    fn is_drained(&self) -> bool {
        self.setting.ends_with(" down;") || self.setting.ends_with(" disabled")
    }
    fn is_at_rest(&self) -> bool {
        self.is_surge && self.is_drained()
    }
}

fn units(text: &str, which: impl Fn(&Line<'_>) -> bool) -> BTreeSet<String> {
    text.lines().filter_map(Line::of).filter(which).map(|line| line.unit.to_owned()).collect()
}

/// The units that have a line, without those that rest.
pub(crate) fn named(text: &str) -> BTreeSet<String> {
    units(text, |line| !line.is_at_rest())
}

/// The units whose lines say that they are drained, without those that rest.
pub(crate) fn drained(text: &str) -> BTreeSet<String> {
    units(text, |line| line.is_drained() && !line.is_surge)
}

/// The units whose lines are marked: those that are drained, and those that came besides and serve.
pub(crate) fn marked(text: &str) -> BTreeSet<String> {
    units(text, |line| line.is_drained() != line.is_surge)
}

/// The same text with exactly those of `of` marked that are in `units`; lines of others stay as they are.
pub(crate) fn with_marked(text: &str, of: impl Fn(&str) -> bool, units: &BTreeSet<String>) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    for line in text.split_inclusive('\n') {
        let bare = line.strip_suffix('\n').unwrap_or(line);
        match Line::of(bare).filter(|line| of(line.unit)) {
            Some(Line { setting, label, unit, is_surge }) => {
                let plain = setting.strip_suffix(" disabled").unwrap_or(setting);
                let (plain, end) = match plain.strip_suffix(';') {
                    Some(plain) => (plain.strip_suffix(" down").unwrap_or(plain), ";"),
                    None => (plain, ""),
                };
                let word = match (units.contains(unit) != is_surge, end) {
                    (false, _) => "",
                    (true, ";") => " down",
                    (true, _) => " disabled",
                };
                out += &format!("{plain}{word}{end} # {label}\n");
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
        let member = |n: u32, is_surge| Member {
            unit: format!("web@{n}.service"),
            address: format!("127.0.0.1:{n}"),
            is_surge,
        };
        vec![member(8001, false), member(8002, false), member(8003, true)]
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
            let text = with_marked(&plain, |_| true, &units);
            assert!(text.contains(line), "{text}");
            assert_eq!((drained(&text), marked(&text)), (units.clone(), units.clone()));
            assert_eq!(with_marked(&text, |_| true, &units), text);
            assert_eq!(with_marked(&text, |_| true, &BTreeSet::new()), plain);
            assert_eq!(with_marked(&text, |unit| unit.starts_with("other"), &BTreeSet::new()), text);
            // One that comes besides is a member while it serves.
            assert_eq!((named(&plain).len(), marked(&plain).len()), (2, 0));
            let units = BTreeSet::from(["web@8003.service".to_owned()]);
            let text = with_marked(&plain, |_| true, &units);
            assert_eq!((named(&text).len(), drained(&text).len(), marked(&text)), (3, 0, units));
            assert_eq!(with_marked(&text, |_| true, &BTreeSet::new()), plain);
        }
    }
}
