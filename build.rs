//! Tells cargo that the embedded migrations are an input of the build.

fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
