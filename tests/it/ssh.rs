//! A repository over ssh with a key that only an agent holds: a real sshd, a real ssh-agent.

use crate::env::{Env, rrsets, zone};
use reconciled_testkit::PATIENCE;
use std::{
    fs,
    net::TcpListener,
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Ends with the test.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(env: &Env, program: &str, args: &[&str]) {
    let output = Command::new(program)
        .args(args)
        .current_dir(env.path("."))
        .env("SSH_AUTH_SOCK", env.path("agent"))
        .output()
        .unwrap_or_else(|error| panic!("the tests need {program} (Debian: openssh-client): {error}"));
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Has `env` take its repository over ssh, with a key `client` of its own; `settings` are those of the server besides, `keys` those of
/// `ssh` in its configuration.
pub(crate) fn over_ssh(env: &Env, settings: &str, keys: &str) {
    for name in ["hostkey", "client"] {
        run(env, "ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", name]);
    }
    let port = sshd(env, settings);
    let host = fs::read_to_string(env.path("hostkey.pub")).unwrap();
    env.write("known_hosts", &format!("[127.0.0.1]:{port} {host}"));
    let user = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    let text = fs::read_to_string(env.path("config.yaml")).unwrap();
    let (repo, known) = (env.path("repo.git"), env.path("known_hosts"));
    let url = format!("\"ssh://{}@127.0.0.1:{port}{}\"", user.trim(), repo.display());
    let text = text.replace(
        &format!("url: {}", repo.display()),
        &format!("url: {url}, ssh: {{knownHosts: {}{keys}}}", known.display()),
    );
    assert!(text.contains("ssh://"), "{text}");
    env.write("config.yaml", &text);
}

/// Serves ssh on a free port with the keys in the folder of `env`; returns the port.
fn sshd(env: &Env, settings: &str) -> u16 {
    let at = |name: &str| env.path(name).to_str().unwrap().to_owned();
    fs::copy(env.path("client.pub"), env.path("authorized_keys")).unwrap();
    let config = format!(
        "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nPidFile none\n{settings}\n",
        at("hostkey"),
        at("authorized_keys")
    );
    env.write("sshd_config", &config);
    // sshd insists on it when it runs as root; elsewhere it neither needs nor can have it.
    let _ = fs::create_dir_all("/run/sshd");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, config) = (listener.local_addr().unwrap().port(), at("sshd_config"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let input = OwnedFd::from(stream.unwrap());
            let output = input.try_clone().unwrap();
            let child = Command::new("/usr/sbin/sshd")
                .args(["-i", "-f", &config])
                .stdin(Stdio::from(input))
                .stdout(Stdio::from(output))
                .stderr(Stdio::null())
                .spawn()
                .expect("the tests need /usr/sbin/sshd (Debian: openssh-server)");
            std::thread::spawn(move || child.wait_with_output());
        }
    });
    port
}

#[test]
fn a_key_in_the_agent_is_enough_and_without_it_the_way_out_is_told() {
    let env = Env::zonefile();
    over_ssh(&env, "", "");
    let agent =
        Command::new("ssh-agent").args(["-D", "-a"]).arg(env.path("agent")).stdout(Stdio::null()).spawn();
    let _agent = Agent(agent.expect("the tests need ssh-agent (Debian: openssh-client)"));
    let start = Instant::now();
    while !env.path("agent").exists() {
        assert!(start.elapsed() < PATIENCE, "ssh-agent makes no socket");
        std::thread::park_timeout(Duration::from_millis(10));
    }
    env.push("zone.yaml", &zone("example.com", "zones", &["{name: www, type: A, values: [192.0.2.1]}"]));
    let socket = env.path("agent");
    let apply = || env.run_with(&["apply", "--yes"], &[("SSH_AUTH_SOCK", socket.to_str().unwrap())]);
    // The agent holds no key yet; and where there is no agent, that is said.
    apply().exits(1).says(&["ssh://", "hint:"]);
    env.run(&["apply", "--yes"]).exits(1).says(&["ssh://", "agent", "hint:"]);
    run(&env, "ssh-add", &["-q", "client"]);
    fs::remove_file(env.path("client")).unwrap();
    apply().exits(0);
    assert_eq!(env.zone_rrsets("example.com"), rrsets(&[("www A", "300 192.0.2.1")]));
}
