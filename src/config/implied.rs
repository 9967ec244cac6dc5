//! Entries that need not be written, because another says all that they would say.

use super::ProviderEntry;
use reconciled_provider::{
    Node,
    yaml::{NodeValue, ScalarKind},
};

/// Name and type of the entry for certificates.
const CERTIFICATES: &str = "certificates";

/// The entry for certificates of a host that has none: they may be put where the host's files may be managed, and
/// services read them again through the same bus, or not at all where there is none. A helper does both where it has the
/// rights. None where an entry of that type or name is written, and where no entry manages the files of this machine.
pub(super) fn certificates(entries: &[ProviderEntry]) -> Option<ProviderEntry> {
    if entries.iter().any(|entry| [&*entry.type_name, &*entry.name].contains(&CERTIFICATES)) {
        return None;
    }
    let is_machine = |entry: &&ProviderEntry| {
        let root = entry.rest.get("root").map_or(Some("/"), Node::as_str);
        &*entry.type_name == "host" && root == Some("/")
    };
    let host = entries.iter().find(is_machine)?;
    let shared = |key: &str| host.rest.get(key).map(|value| (word(host, key), value.clone()));
    let mut keys: Vec<_> = shared("helper").into_iter().chain(shared("paths")).collect();
    if host.rest.get("helper").is_none() {
        // Without paths there is nothing to put them into.
        host.rest.get("paths")?;
        // A host without a bus has no units in Git: none is restarted by way of a certificate either.
        let command = host.rest.get("bus").and_then(Node::as_str).map(reload).unwrap_or_default();
        let arguments = command.iter().map(|argument| word(host, argument)).collect();
        keys.push((word(host, "reload"), Node { span: host.span, value: NodeValue::Seq(arguments) }));
    }
    Some(ProviderEntry {
        name: CERTIFICATES.into(),
        type_name: CERTIFICATES.into(),
        rate: None,
        was: None,
        rest: Node { span: host.span, value: NodeValue::Map(keys) },
        ..host.clone()
    })
}

/// The command that reloads a unit of the service manager at `bus`.
fn reload(bus: &str) -> Vec<String> {
    let mut command: Vec<String> = Vec::new();
    if bus != "system" {
        // As root systemctl would ask the service manager of the machine past any bus.
        let address = format!("DBUS_SYSTEM_BUS_ADDRESS={bus}");
        command.extend(["env".into(), "SYSTEMCTL_FORCE_BUS=1".into(), address]);
    }
    command.extend(["systemctl", "try-reload-or-restart", "{unit}"].map(String::from));
    command
}

fn word(entry: &ProviderEntry, text: &str) -> Node {
    Node { span: entry.span, value: NodeValue::Scalar(text.into(), ScalarKind::Str) }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Environment, parse};
    use reconciled_provider::{EntryPolicy, Node, SourceFile};
    use std::sync::Arc;

    fn config(providers: &str) -> Config {
        let text = format!("providers:\n{providers}");
        let (config, problems) =
            parse(Arc::new(SourceFile::new("config.yaml", text)), &Environment::default());
        assert_eq!(problems, []);
        config.unwrap()
    }

    fn names(config: &Config) -> Vec<&str> {
        config.providers.iter().map(|entry| &*entry.name).collect()
    }

    #[test]
    fn a_host_needs_no_entry_for_certificates() {
        let config = config(
            "- {name: host, type: host, paths: [/etc, /srv], bus: 'unix:path=/b', policy: observe, timeout: 5s}",
        );
        assert_eq!(names(&config), ["host", "certificates"]);
        let implied = &config.providers[1];
        assert_eq!((implied.policy, implied.timeout.as_secs()), (EntryPolicy::Observe, 5));
        let words = |key: &str| -> Vec<&str> {
            implied.rest.get(key).unwrap().elements().iter().filter_map(|node| node.as_str()).collect()
        };
        assert_eq!(words("paths"), ["/etc", "/srv"]);
        assert_eq!(
            words("reload")[..3],
            ["env", "SYSTEMCTL_FORCE_BUS=1", "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/b"]
        );
        assert_eq!(words("reload")[3..], ["systemctl", "try-reload-or-restart", "{unit}"]);
    }

    #[test]
    fn without_a_bus_no_service_is_reloaded() {
        let config = config("- {name: host, type: host, paths: [/etc]}");
        assert_eq!(config.providers[1].rest.get("reload").unwrap().elements().len(), 0);
    }

    #[test]
    fn a_helper_of_the_host_has_the_rights_for_its_certificates_too() {
        let implied = |more: &str| {
            let text = format!("- {{name: host, type: host, helper: /run/reconciled-hostd.sock{more}}}");
            config(&text).providers.pop().unwrap()
        };
        let entry = implied(", paths: [/etc]");
        assert_eq!(&*entry.type_name, "certificates");
        assert_eq!(entry.rest.get("helper").and_then(Node::as_str), Some("/run/reconciled-hostd.sock"));
        assert_eq!(entry.rest.get("paths").unwrap().elements()[0].as_str(), Some("/etc"));
        let entry = implied("");
        assert!(entry.rest.get("paths").is_none() && entry.rest.get("reload").is_none());
    }

    #[test]
    fn what_is_written_is_not_implied() {
        let own =
            "- {name: host, type: host, paths: [/etc]}\n- {name: ca, type: certificates, paths: [/etc/ssl]}";
        assert_eq!(names(&config(own)), ["host", "ca"]);
        assert_eq!(names(&config("- {name: box, type: host, root: /srv/box, paths: [/etc]}")), ["box"]);
        assert_eq!(names(&config("- {name: zones, type: zonefile, directory: /z}")), ["zones"]);
    }
}
