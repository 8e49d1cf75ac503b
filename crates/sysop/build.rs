//! Gives the linker the order of the released program's code.

use std::env;

/// Words in linker settings that name a linker without support for `INSERT` in a script. Such a linker keeps its own
/// order.
const OTHER_LINKERS: [&str; 3] = ["mold", "gold", "wild"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=layout.ld");
    let value = |name: &str| env::var(name).unwrap_or_default();
    let settings = ["CARGO_ENCODED_RUSTFLAGS", "RUSTC_LINKER", "LD_PRELOAD"].map(value).concat();
    let is_other = OTHER_LINKERS.iter().any(|name| settings.contains(name));
    if value("PROFILE") == "release" && value("CARGO_CFG_TARGET_OS") == "linux" && !is_other {
        // Two arguments, because `-Wl,` would split a path at its commas.
        println!("cargo:rustc-link-arg-bins=-T");
        println!("cargo:rustc-link-arg-bins={}/layout.ld", value("CARGO_MANIFEST_DIR"));
    }
}
