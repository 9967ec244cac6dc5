//! Tells cargo that the embedded migrations are an input of the build, and the linker how to write relocations and in which order
//! to lay functions down.

#![expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build script its target by the environment alone"
)]

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=migrations");
    // A bit for each address to relocate instead of 24 bytes, all of which are read at each start: 2.5 MB of memory.
    if env::var("TARGET").is_ok_and(|target| target.ends_with("linux-gnu")) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    // What runs side by side, most of all what runs always: 18 MB of memory. benches/order writes the list. Names of it that this
    // compiler does not know are passed over.
    println!("cargo::rerun-if-changed=src/functions.order");
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") && links_with_lld() {
        let root = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo::rustc-link-arg-bins=-Wl,--symbol-ordering-file={root}/src/functions.order");
        println!("cargo::rustc-link-arg-bins=-Wl,--no-warn-symbol-ordering");
    }
}

/// Whether rustc links with the LLD of its own, as it does for this target where neither it nor its user has another in mind. Other
/// linkers know no such list.
fn links_with_lld() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let chosen = ["linker", "link-arg", "link-self-contained"].iter().any(|option| flags.contains(option));
    if chosen
        || env::var_os("RUSTC_LINKER").is_some()
        || !env::var("TARGET").is_ok_and(|target| target == LLD)
    {
        return false;
    }
    let Some(rustc) = env::var_os("RUSTC") else { return false };
    let Ok(asked) = Command::new(rustc).args(["--print", "sysroot"]).output() else { return false };
    let sysroot = String::from_utf8_lossy(&asked.stdout);
    Path::new(sysroot.trim_end()).join("lib/rustlib").join(LLD).join("bin/gcc-ld/ld.lld").exists()
}

/// The target whose toolchains come with LLD and use it.
const LLD: &str = "x86_64-unknown-linux-gnu";
