//! Commands of `validate` inside the sandboxes that the units bring.

use crate::units::Machine;
use std::{fs, path::Path};

/// A configuration such as Debian's: a pid, logs, ports that are root's.
const NGINX: &str = "user www-data;\npid /run/nginx.pid;\nerror_log /var/log/nginx/error.log;\nevents {}\nhttp {\n\
    access_log /var/log/nginx/access.log;\n    server { listen 80; listen [::]:80; }\n}\n";

/// The sandbox of a unit around another command.
fn with_command(unit: &str, command: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systemd").join(unit);
    let text = fs::read_to_string(file).unwrap();
    let (_, service) = text.split_once("[Service]\n").unwrap();
    let (service, _) = service.split_once("[Install]").unwrap_or((service, ""));
    // What is about the daemon and not about what it may do.
    let own = ["ExecStart=", "ExecReload=", "Type=", "StandardInput=", "Restart", "WatchdogSec="];
    let lines: Vec<&str> =
        service.lines().filter(|line| !own.iter().any(|own| line.starts_with(own))).collect();
    format!("[Service]\nType=oneshot\nExecStart={command}\n{}\n", lines.join("\n"))
}

#[tokio::test]
async fn nginx_accepts_a_configuration_where_the_daemon_and_the_helper_ask_it() {
    let Some(machine) = Machine::of("systemd", |_| {}) else { return };
    fs::write(machine.desk_path("/etc/front.conf"), NGINX).unwrap();
    for unit in ["reconciled-host.service", "reconciled-hostd.service"] {
        let name = format!("in-{unit}");
        let inside = with_command(unit, "/usr/sbin/nginx -t -c /etc/front.conf");
        fs::write(machine.file(&name), inside).unwrap();
        machine.run(&["systemctl", "daemon-reload"]);
        let started = format!("systemctl start {name} || {{ journalctl -o cat -u {name} >&2; exit 1; }}");
        machine.run(&["sh", "-c", &started]);
    }
}
