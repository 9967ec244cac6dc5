//! Tells cargo that the embedded migrations are an input of the build, and the linker how to write relocations and in which order
//! to lay functions down.

#![expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build script its target by the environment alone"
)]

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=migrations");
    println!("cargo::rerun-if-changed=src/functions.order");
    let Some(target) = env::var("TARGET").ok().filter(|target| target.ends_with("linux-gnu")) else { return };
    // A bit for each address to relocate instead of 24 bytes, all of which are read at each start: 2.5 MB of memory.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    // Cargo runs this again for other flags, and not for another linker.
    let linker = target.to_uppercase().replace('-', "_");
    println!("cargo::rerun-if-env-changed=CARGO_TARGET_{linker}_LINKER");
    if env::var("PROFILE").is_ok_and(|profile| profile == "release")
        && let Ok(root) = env::var("CARGO_MANIFEST_DIR")
    {
        // What runs side by side, most of all what runs always: 18 MB of memory. benches/order writes the list. Names of it that
        // this compiler does not know are passed over.
        let order = [
            format!("-Wl,--symbol-ordering-file={root}/src/functions.order"),
            "-Wl,--no-warn-symbol-ordering".into(),
        ];
        if links_with(&target, &order) {
            order.iter().for_each(|option| println!("cargo::rustc-link-arg-bins={option}"));
        }
    }
}

/// Whether the linker knows these options. It is tried: LLD does, but which linker rustc takes depends on who built it, on flags, and
/// on what else is installed; and with a comma in the path no linker does.
fn links_with(target: &str, options: &[String]) -> bool {
    let (Some(rustc), Some(out)) = (env::var_os("RUSTC"), env::var_os("OUT_DIR")) else { return false };
    let source = Path::new(&out).join("trial.rs");
    if fs::write(&source, "fn main() {}\n").is_err() {
        return false;
    }
    let mut trial = Command::new(rustc);
    trial.args(["--edition", "2024", "--crate-name", "trial", "--target", target]);
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    trial.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("linker=");
        option.push(linker);
        trial.arg("-C").arg(option);
    }
    for option in options {
        trial.arg("-C").arg(format!("link-arg={option}"));
    }
    trial.arg("-o").arg(Path::new(&out).join("trial")).arg(source);
    trial.output().is_ok_and(|ended| ended.status.success())
}
