//! A program without any shared library, for systems without glibc.
//!
//! The program links glibc statically: Rust's musl target is not available from a package registry, and since glibc
//! 2.34 host names are resolved without loading libraries at run time.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::VERSION;
use crate::setup;
use crate::workspace::{cargo, root, step, target};

/// Function of glibc that `sysop-host` calls. `std` refers to it weakly, as older versions of glibc lack it. Link-time
/// optimization makes the reference of `sysop-host` weak, too, and the linker takes nothing from an archive for a weak
/// reference. The call would then jump to address 0.
const WEAK_IN_STD: &str = "posix_spawn_file_actions_addchdir_np";

pub(super) fn build(architecture: &str) -> Result<PathBuf> {
    let triple = format!("{architecture}-unknown-linux-gnu");
    let folder = target().join("static");
    let mut build = cargo();
    build.args(["rustc", "--release", "--locked", "--package", "sysop", "--bin", "sysop"]);
    build.args(["--target", &triple, "--target-dir"]).arg(&folder);
    build.args(["--", "-C", &format!("link-arg=-Wl,-u,{WEAK_IN_STD}")]);
    build.env("RUSTFLAGS", "-C target-feature=+crt-static");
    step("build sysop without shared libraries", &mut build)?;
    Ok(folder.join(triple).join("release/sysop"))
}

/// Checks that the program needs no shared library, and packs it with the licenses.
pub(super) fn pack(sysop: &Path, architecture: &str, folder: &Path) -> Result<()> {
    let headers = Command::new("objdump").arg("-p").arg(sysop).output().context("cannot start objdump")?;
    let headers = String::from_utf8_lossy(&headers.stdout).into_owned();
    ensure!(headers.contains("Program Header"), "objdump cannot read {}", sysop.display());
    ensure!(!headers.contains("NEEDED"), "{} needs libraries", sysop.display());
    let name = format!("sysop-{VERSION}-{architecture}-linux-static");
    let content = folder.join(&name);
    fs::create_dir_all(content.join("bin"))?;
    fs::copy(sysop, content.join("bin/sysop")).context("cannot copy the program")?;
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(root().join(file), content.join(file)).with_context(|| format!("cannot copy {file}"))?;
    }
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "-C"]).arg(folder);
    tar.arg("--use-compress-program=gzip -9n")
        .arg("-cf")
        .arg(folder.join(format!("{name}.tar.gz")))
        .arg(&name);
    step("pack the static program", &mut tar)?;
    fs::remove_dir_all(content).context("cannot remove temporary files")
}

/// Runs the program in a root directory that contains only busybox.
pub(super) fn check(sysop: &Path) -> Result<()> {
    setup::need(&[("unshare", "util-linux"), ("dpkg-deb", "dpkg")])?;
    let folder = target().join("dist-trial/busybox");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot remove the last system")?;
    }
    for below in ["bin", "proc", "dev", "tmp", "root"] {
        fs::create_dir_all(folder.join(below))?;
    }
    let busybox = unpack_busybox()?;
    fs::copy(&busybox, folder.join("bin/busybox"))
        .with_context(|| format!("cannot copy {}", busybox.display()))?;
    for name in ["sh", "ls", "cat", "mkdir", "rm"] {
        symlink("busybox", folder.join("bin").join(name))?;
    }
    fs::copy(sysop, folder.join("bin/sysop")).context("cannot copy the program")?;
    let inside = r#"mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@""#;
    for arguments in [
        &["sysop", "--version"][..],
        &["sysop", "exec", "--model", "demo", "--approve", "auto", "demo: show"],
    ] {
        let mut run = Command::new("unshare");
        run.args(["--mount", "sh", "-c", inside]).arg(&folder).args(arguments).env_clear();
        run.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/root");
        step(&format!("in a root with busybox: {}", arguments.join(" ")), &mut run)?;
    }
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))
}

/// Returns the path of a busybox that needs no shared library. The package is not installed, because it would
/// replace the busybox that the tests run.
fn unpack_busybox() -> Result<PathBuf> {
    let folder = target().join("tools/busybox-static");
    // In newer releases, `/bin` is a link to `/usr/bin`, and the package has its files there.
    let unpacked = || {
        ["bin/busybox", "usr/bin/busybox"]
            .map(|path| folder.join(path))
            .into_iter()
            .find(|path| path.is_file())
    };
    if let Some(busybox) = unpacked() {
        return Ok(busybox);
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut fetch = Command::new("sh");
    // As root, apt would download as a separate user, who may not write here.
    let fetched = "rm -f ./*.deb; { [ -n \"$(apt-cache show busybox-static)\" ] || apt-get update -qq; } &&
        apt-get -qq -o APT::Sandbox::User=root download busybox-static && dpkg-deb -x busybox-static_*.deb .";
    step("unpack busybox", fetch.args(["-c", fetched]).current_dir(&folder))?;
    unpacked().context("the package has no busybox")
}
