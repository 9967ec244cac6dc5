//! Unit files as systemd means them: which change needs the unit to run anew.
//!
//! Two files mean the same when they have the same settings, whatever their comments, their order of sections, and what is
//! only for people (`Description=`) or for enabling (`[Install]`). Limits of a cgroup count as little: systemd gives those
//! to what runs whenever it reads its files.

use reconciled_provider::Hash;
use std::collections::BTreeMap;

/// Settings of `systemd.resource-control(5)` that take effect while a unit runs.
const LIMITS: &[&str] = &[
    "AllowedCPUs",
    "AllowedMemoryNodes",
    "CPUQuota",
    "CPUQuotaPeriodSec",
    "CPUWeight",
    "IODeviceLatencyTargetSec",
    "IODeviceWeight",
    "IOReadBandwidthMax",
    "IOReadIOPSMax",
    "IOWeight",
    "IOWriteBandwidthMax",
    "IOWriteIOPSMax",
    "MemoryHigh",
    "MemoryLow",
    "MemoryMax",
    "MemoryMin",
    "MemorySwapMax",
    "StartupCPUWeight",
    "StartupIOWeight",
    "TasksMax",
];

/// Settings, with their sections, that are taken over while a unit runs: a service was not started with its command for a reload, which
/// systemd has from the files it read last, and a mount can be given its options anew.
const TAKEN_OVER: &[(&str, &str)] = &[("Service", "ExecReload"), ("Mount", "Options")];

/// A section that systemd does not read: what an instance reads besides its unit file.
const READS: &str = "X-Reconciled";

/// The unit file `text` of a service that reads these files, each a path and the hash of what is declared there: another
/// content of one is another revision.
pub(crate) fn reading(text: &str, files: &[(String, String)]) -> String {
    if files.is_empty() {
        return text.to_owned();
    }
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let lines: String = files.iter().map(|(path, hash)| format!("Reads={path} {hash}\n")).collect();
    format!("{text}{end}[{READS}]\n{lines}")
}

/// A hash of what fragment and drop-ins, in this order, make a running unit be.
pub(crate) fn effective<'a>(files: impl IntoIterator<Item = &'a str>) -> String {
    hash(settings(files))
}

/// The same without what is taken over while it runs.
pub(crate) fn fixed<'a>(files: impl IntoIterator<Item = &'a str>) -> String {
    let mut settings = settings(files);
    settings.retain(|(section, key), _| !TAKEN_OVER.contains(&(section.as_str(), key.as_str())));
    hash(settings)
}

/// Values by section and key.
type Settings = BTreeMap<(String, String), Vec<String>>;

fn hash(settings: Settings) -> String {
    Hash::of(format!("{settings:?}").as_bytes()).to_string()
}

fn settings<'a>(files: impl IntoIterator<Item = &'a str>) -> Settings {
    let mut settings = Settings::new();
    for file in files {
        let mut section = String::new();
        for line in logical_lines(file) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name.to_owned();
                continue;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            let (key, value) = (key.trim(), value.trim());
            let is_for_people = section == "Unit" && matches!(key, "Description" | "Documentation");
            let is_limit =
                matches!(&*section, "Service" | "Slice" | "Socket" | "Mount") && LIMITS.contains(&key);
            if is_limit
                || section == "Install"
                || section.starts_with("X-") && section != READS
                || key.starts_with("X-")
                || is_for_people
            {
                continue;
            }
            let values = settings.entry((section.clone(), key.to_owned())).or_default();
            match value {
                // An empty value takes back what was said before.
                "" => values.clear(),
                value => values.push(value.to_owned()),
            }
        }
    }
    settings.retain(|_, values| !values.is_empty());
    settings
}

/// Lines without comments, with those that end in a backslash joined to the next one.
fn logical_lines(text: &str) -> Vec<String> {
    let (mut lines, mut open) = (Vec::new(), String::new());
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            continue;
        }
        match line.strip_suffix('\\') {
            Some(part) => {
                open.push_str(part);
                open.push(' ');
            }
            None => {
                open.push_str(line);
                lines.push(std::mem::take(&mut open));
            }
        }
    }
    lines.push(open);
    lines
}

/// True for a service that is done once its command is: of these files nothing has it stay active.
pub(crate) fn ends_by_itself<'a>(files: impl IntoIterator<Item = &'a str>) -> bool {
    let settings = settings(files);
    let last = |key: &str| settings.get(&("Service".into(), key.into())).and_then(|values| values.last());
    let stays = last("RemainAfterExit").is_some_and(|value| is_true(value));
    last("Type").is_some_and(|value| value == "oneshot") && !stays
}

/// Whether a unit is started and stopped for other units alone, as far as its files say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refuses {
    /// It is not started for anybody who asks.
    pub(crate) start: Option<bool>,
    /// It is not stopped, nor restarted.
    pub(crate) stop: Option<bool>,
}

/// What these files refuse.
pub(crate) fn refuses<'a>(files: impl IntoIterator<Item = &'a str>) -> Refuses {
    let settings = settings(files);
    let last = |key: &str| {
        let values = settings.get(&("Unit".into(), key.into()))?;
        values.last().map(|value| is_true(value))
    };
    Refuses { start: last("RefuseManualStart"), stop: last("RefuseManualStop") }
}

/// True where the file says under which conditions it is started.
pub(crate) fn has_conditions(text: &str) -> bool {
    settings([text]).keys().any(|(section, key)| {
        section == "Unit" && (key.starts_with("Condition") || key.starts_with("Assert"))
    })
}

/// How systemd reads a word for yes or no.
fn is_true(value: &str) -> bool {
    ["1", "yes", "y", "true", "t", "on"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// True when the file says how it is enabled.
pub(crate) fn has_install(text: &str) -> bool {
    logical_lines(text).iter().any(|line| line == "[Install]")
}

/// The keys of `[Install]` that have a value.
pub(crate) fn install(text: &str) -> Vec<String> {
    installs(text).into_iter().map(|(key, _)| key).collect()
}

/// The directories that a link is made in when the unit is enabled, such as `multi-user.target.wants`.
pub(crate) fn links(text: &str) -> Vec<String> {
    let mut directories = Vec::new();
    for (key, value) in installs(text) {
        let end = match &*key {
            "WantedBy" => "wants",
            "RequiredBy" => "requires",
            _ => continue,
        };
        // What systemd fills in is not known here.
        let names = value.split_whitespace().filter(|name| !name.contains('%') && !name.contains('/'));
        directories.extend(names.map(|name| format!("{name}.{end}")));
    }
    directories
}

/// What `[Install]` says, without what has no value.
fn installs(text: &str) -> Vec<(String, String)> {
    let (mut found, mut is_inside) = (Vec::new(), false);
    for line in logical_lines(text) {
        if line.starts_with('[') {
            is_inside = line == "[Install]";
        } else if let (true, Some((key, value))) = (is_inside, line.split_once('=')) {
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            found.extend((!value.is_empty()).then_some((key, value)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: &str = "[Unit]\nDescription=a\n[Service]\nExecStart=/bin/a \\\n  -x\nEnvironment=A=1\n";

    #[test]
    fn what_is_for_people_or_for_enabling_needs_no_restart() {
        let is_same = |a: &str, b: &str| effective([a]) == effective([b]);
        assert!(is_same(UNIT, &UNIT.replace("Description=a", "Description=b")));
        assert!(is_same(UNIT, &format!("# comment\n{UNIT}[Install]\nWantedBy=multi-user.target\n")));
        assert!(is_same(UNIT, "[Service]\nEnvironment=A=1\nExecStart = /bin/a  -x\n"));
        assert!(!is_same(UNIT, &UNIT.replace("/bin/a", "/bin/b")));
        assert!(!is_same(UNIT, &format!("{UNIT}Environment=B=2\n")));
        assert!(is_same(UNIT, &format!("{UNIT}MemoryMax=1G\nTasksMax=5\n")));
        assert!(!is_same(UNIT, &format!("{UNIT}LimitNOFILE=5\n")), "that is of the process");
    }

    #[test]
    fn a_mount_takes_over_its_options_and_nothing_else() {
        let mount = "[Mount]\nWhat=tmpfs\nWhere=/a\nOptions=size=1m\n";
        let (other, elsewhere) = (mount.replace("1m", "2m"), mount.replace("What=tmpfs", "What=x"));
        assert!(effective([mount]) != effective([&*other]) && fixed([mount]) == fixed([&*other]));
        assert_ne!(fixed([mount]), fixed([&*elsewhere]));
    }

    #[test]
    fn how_a_service_is_told_to_read_its_configuration_is_nothing_it_was_started_with() {
        let told = format!("{UNIT}ExecReload=/bin/kill -HUP $MAINPID\n");
        assert!(effective([UNIT]) != effective([&*told]) && fixed([UNIT]) == fixed([&*told]));
        let stopped = format!("{UNIT}ExecStop=/bin/kill -HUP $MAINPID\n");
        assert_ne!(fixed([UNIT]), fixed([&*stopped]));
    }

    #[test]
    fn drop_ins_add_and_an_empty_value_takes_back() {
        let with = |drop_in: &str| effective([UNIT, drop_in]);
        assert_eq!(with("[Service]\nEnvironment=\nEnvironment=A=1\n"), effective([UNIT]));
        assert_ne!(with("[Service]\nEnvironment=\n"), effective([UNIT]));
        assert_ne!(with("[Service]\nNice=5\n"), effective([UNIT]));
    }

    #[test]
    fn another_file_that_is_read_is_another_meaning() {
        let reads = |hash: &str| reading(UNIT, &[("/etc/a".into(), hash.into())]);
        assert_eq!(reading(UNIT, &[]), UNIT);
        assert!(reads("1").ends_with("\n[X-Reconciled]\nReads=/etc/a 1\n"));
        assert!(
            effective([&*reads("1")]) != effective([&*reads("2")])
                && effective([UNIT]) != effective([&*reads("1")])
        );
    }

    #[test]
    fn what_is_refused_and_what_has_to_be_met_is_found() {
        let of = |text: &str| {
            let Refuses { start, stop } = refuses([text]);
            (start == Some(true), stop == Some(true), has_conditions(text))
        };
        assert_eq!(of(UNIT), (false, false, false));
        assert_eq!(of("[Unit]\nRefuseManualStart=yes\nRefuseManualStop=off\n"), (true, false, false));
        assert_eq!(of("[Unit]\nRefuseManualStop=no\nRefuseManualStop=On\n"), (false, true, false));
        assert_eq!(of("[Service]\nRefuseManualStop=yes\n"), (false, false, false));
        assert_eq!(of("[Unit]\nConditionPathExists=/a\n"), (false, false, true));
        assert!(has_conditions("[Unit]\nAssertHost=a\n") && !has_conditions("# [Unit]\n#AssertHost=a\n"));
    }

    #[test]
    fn how_it_is_enabled_is_found() {
        assert!(has_install("[Unit]\n [Install] \nAlias=x\n"));
        assert!(!has_install("# [Install]\n[Unit]\n"));
        assert_eq!(install("[Install]\nWantedBy=a\nAlias=\n[Unit]\nWants=b\n"), ["WantedBy"]);
        let text = "[Install]\nWantedBy=a.target b@%i.target\nRequiredBy = c.service\nAlias=d.service\n";
        assert_eq!(links(text), ["a.target.wants", "c.service.requires"]);
    }
}
