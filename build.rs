//! Tells cargo that the embedded migrations are an input of the build, and the linker how to write relocations.

#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build script its target by the environment alone"
)]
fn main() {
    println!("cargo::rerun-if-changed=migrations");
    // A bit for each address to relocate instead of 24 bytes, all of which are read at each start: 2.5 MB of memory.
    if std::env::var("TARGET").is_ok_and(|target| target.ends_with("linux-gnu")) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
