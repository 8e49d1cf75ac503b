//! Gives the linker the order of the released program's code.

use std::env;

/// Words in linker settings that name a linker without support for `INSERT` in a script. Such a linker keeps its own
/// order.
const OTHER_LINKERS: [&str; 3] = ["mold", "gold", "wild"];
/// Variable that leaves the linker's own order if it is set. Valgrind reads symbols only in the section `.text`, so
/// that `cargo xtask layout` needs a program without the other section.
const OWN_ORDER: &str = "SYSOP_NO_LAYOUT";
/// Variables that name the linker. `mold -run` replaces it through `LD_PRELOAD`.
const SETTINGS: [&str; 3] = ["CARGO_ENCODED_RUSTFLAGS", "RUSTC_LINKER", "LD_PRELOAD"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=layout.ld");
    println!("cargo:rerun-if-env-changed={OWN_ORDER}");
    SETTINGS.iter().for_each(|name| println!("cargo:rerun-if-env-changed={name}"));
    let value = |name: &str| env::var(name).unwrap_or_default();
    let settings = SETTINGS.map(value).join(" ");
    let mut words = settings.split(|sign: char| !sign.is_ascii_alphanumeric());
    let keeps_order = words.any(|word| OTHER_LINKERS.contains(&word)) || env::var_os(OWN_ORDER).is_some();
    if value("PROFILE") == "release" && value("CARGO_CFG_TARGET_OS") == "linux" && !keeps_order {
        // Two arguments, because `-Wl,` would split a path at its commas.
        println!("cargo:rustc-link-arg-bins=-T");
        println!("cargo:rustc-link-arg-bins={}/layout.ld", value("CARGO_MANIFEST_DIR"));
    }
}
