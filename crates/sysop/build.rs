//! Tells the linker how the optimized program starts soonest, as ADR 21 decides.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SYSOP_PIE");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let known = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if !known || !is("PROFILE", "release") {
        return;
    }
    if !is("SYSOP_PIE", "1") {
        println!("cargo::rustc-link-arg-bin=sysop=-no-pie");
    }
    if has_static_unwinder() {
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// Whether the linker has the unwinder as an archive; then no library has to be loaded for it at every start.
fn has_static_unwinder() -> bool {
    let linker = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let asked = Command::new(linker).arg("-print-file-name=libgcc_eh.a").output();
    // Where there is none, the name comes back as it was asked for.
    asked.is_ok_and(|answer| {
        let found = String::from_utf8_lossy(&answer.stdout);
        answer.status.success() && Path::new(found.trim()).is_absolute()
    })
}
