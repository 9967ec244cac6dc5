//! A Terraform provider for tests: things in a folder, one file each, and every way of going wrong.
//!
//! It speaks protocol 6, or 5 where `TOY_PROTOCOL` says so. `TOY_START` makes it fail before it says where it listens:
//! `die`, `garbage`, `old`, `deaf`; or listen where it should not: `open`. With `TOY_CHILD` it starts a program and
//! writes its number there; to what `TOY_STARTS` names it adds its own, and to what `TOY_ENDS` names
//! `asked` when it is asked to end, and `ended` when it does; to what `TOY_CALLS` names it adds the name of each call. With
//! `TOY_JSON` it gives states back as JSON. Things have identities unless `TOY_NAMELESS` is set, and can be listed unless
//! `TOY_LISTLESS` is; with `TOY_STRICT` it does nothing with one whose identity does not come along. The lowest id that is free
//! is given to a new thing, with `TOY_FRESH` one that none had before. What goes wrong with a thing is said by its attribute
//! `fault`.

mod answer;
mod change;
mod environment;
mod form;
mod schema;
mod server;
mod there;
mod thing;

use environment::{is_put_down, variable};
use reconciled_cloud::wire::{COOKIE_NAME, COOKIE_VALUE};
use std::{io::Write, path::PathBuf, process::ExitCode, time::Duration};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if variable(COOKIE_NAME).as_deref() != Some(COOKIE_VALUE) {
        let _ = writeln!(std::io::stderr(), "This binary is a plugin.");
        return ExitCode::FAILURE;
    }
    if !is_put_down("TOY_STARTS", &std::process::id().to_string()) {
        return ExitCode::FAILURE;
    }
    let protocol: u8 = variable("TOY_PROTOCOL").and_then(|number| number.parse().ok()).unwrap_or(6);
    let folder = variable("PLUGIN_UNIX_SOCKET_DIR").map(PathBuf::from).unwrap_or_else(std::env::temp_dir);
    let path = folder.join("toy.sock");
    let say = |line: &str| {
        let mut out = std::io::stdout();
        let _ = writeln!(out, "{line}");
        let _ = out.flush();
    };
    match variable("TOY_START").as_deref() {
        Some("die") => {
            let _ = writeln!(std::io::stderr(), "the toy is broken");
            return ExitCode::from(3);
        }
        Some("garbage") => say("hello, world"),
        Some("old") => say(&format!("1|4|unix|{}|netrpc|", path.display())),
        Some("deaf") => {
            say(&format!("1|{protocol}|unix|{}|grpc|", path.display()));
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        Some("open") => {
            let Ok(listener) = tokio::net::TcpListener::bind("127.0.0.1:0").await else {
                return ExitCode::FAILURE;
            };
            let Ok(address) = listener.local_addr() else { return ExitCode::FAILURE };
            say(&format!("1|{protocol}|tcp|{address}|grpc|"));
            server::serve(async || Some(listener.accept().await.ok()?.0), protocol).await;
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    if let Some(told) = variable("TOY_CHILD") {
        // A program that outlives who started it, unless somebody sees to it.
        let child = std::process::Command::new("/bin/sleep").arg("600").spawn();
        let Ok(Ok(())) = child.map(|child| std::fs::write(told, child.id().to_string())) else {
            return ExitCode::FAILURE;
        };
    }
    let Ok(listener) = tokio::net::UnixListener::bind(&path) else { return ExitCode::FAILURE };
    say(&format!("1|{protocol}|unix|{}|grpc|", path.display()));
    server::serve(async || Some(listener.accept().await.ok()?.0), protocol).await;
    if is_put_down("TOY_ENDS", "ended") { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
