//! Type-checks `sysop` for macOS, on Linux. Nothing is linked or run: both would need a Mac.

use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace::{root, step};
use crate::{dist, setup};

const TARGET: &str = "aarch64-apple-darwin";
/// Makes mimalloc use `arc4random_buf`, as on macOS 10.14, because zig lacks the headers of CommonCrypto.
const CFLAGS: &str = "-DMAC_OS_X_VERSION_MIN_REQUIRED=101400";

pub(crate) fn run() -> Result<()> {
    let mut add = Command::new("rustup");
    step("add the standard library for macOS", add.args(["target", "add", TARGET]).current_dir(root()))?;
    let programs = setup::python_tool("zigbuild", &dist::ZIG)?.join("bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([programs.clone()].into_iter().chain(std::env::split_paths(&path)))
        .context("invalid PATH")?;
    let mut check = Command::new(programs.join("cargo-zigbuild"));
    check.args(["check", "--locked", "--package", "sysop", "--target", TARGET]).current_dir(root());
    check.env("PATH", path).env("CFLAGS_aarch64_apple_darwin", CFLAGS);
    let checked = step("check sysop for macOS", &mut check);
    // cargo-zigbuild leaves it in the directory where it ran.
    let _ = std::fs::remove_file(root().join(".intentionally-empty-file.o"));
    checked
}
