//! Installs the packages in systems that contain none of our files, and runs the programs there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{BuiltPackages, container};
use crate::workspace::{root, step, target};
use crate::{booted, setup};

/// Source of the test systems.
const MIRROR: &str = "http://deb.debian.org/debian";
/// A system older than the build system: glibc 2.31, and no web engine for the window.
const OLD: &str = "bullseye";
/// First release that has the web engine.
const WITH_ENGINE: &str = "bookworm";
const NEW: &str = "trixie";
/// Tests for the guide's commands, which run inside the systems.
const GUIDE_TESTS: &str = "docs/guide/tests";

pub(crate) fn run(made: &BuiltPackages, sysop: &Path) -> Result<()> {
    setup::need(&[("debootstrap", "debootstrap"), ("chroot", "coreutils"), ("unshare", "util-linux")])?;
    let folder = made.sysop.parent().context("a package has a folder")?;
    for suite in [OLD, NEW] {
        let system = DebianChroot::new(suite)?;
        system.copy_package(&made.sysop)?;
        system.run_guide_test("installed.sh", "tmp")?;
        system.remove()?;
    }
    let old = DebianChroot::new(OLD)?;
    copy_files(folder, &old.folder.join("tmp/release"))?;
    old.run_guide_test("script.sh", "tmp/release")?;
    old.copy_package(&made.sysop)?;
    old.install(&[&made.sysop])?;
    old.expect_output(&["gzip", "-dc", "/usr/share/man/man1/sysop.1.gz"], ".TH sysop 1")?;
    old.expect_failure(&["sysop", "desktop"], "no display")?;
    old.expect_failure(&["env", "DISPLAY=:1", "sysop", "desktop"], "package sysop-desktop")?;
    old.remove()?;

    let new = DebianChroot::new(WITH_ENGINE)?;
    new.copy_package(&made.sysop)?;
    new.copy_package(&made.window)?;
    new.install(&[&made.sysop, &made.window])?;
    new.expect_output(&["sysop-desktop", "--version"], "sysop-desktop ")?;
    new.expect_failure(&["env", "DISPLAY=:1", "sysop", "desktop"], "cannot open the display")?;
    try_container(&new, made, sysop)?;
    let mut packages = new.command();
    packages.args(["apt-get", "install", "-y", "-qq", "--no-install-recommends"]);
    packages.args(["systemd-sysv", "dbus", "dbus-user-session", "libpam-systemd", "curl"]);
    step("install systemd there", packages.stdout(fs::File::create("/dev/null")?))?;
    fs::copy(root().join(GUIDE_TESTS).join("systemd.sh"), new.folder.join("opt/systemd.sh"))
        .context("cannot copy the test")?;
    booted::run_script(&new.folder, "/opt/systemd.sh", "both servers work")?;
    new.remove()
}

/// Builds and runs the release's container, with a Debian as its base, and uses a container as a host.
fn try_container(debian: &DebianChroot, made: &BuiltPackages, sysop: &Path) -> Result<()> {
    let context = target().join("dist-trial/container");
    fs::create_dir_all(&context).with_context(|| format!("cannot make {}", context.display()))?;
    let package = made.sysop.file_name().context("a package has a name")?;
    fs::copy(&made.sysop, context.join(package)).context("cannot copy the package")?;
    fs::copy(root().join("packaging/Containerfile"), context.join("Containerfile")).context("cannot copy")?;
    container::check(&debian.folder, &context)?;
    container::check_host(sysop, &context)
}

/// Copies the files in a directory, without its subdirectories.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?.flatten() {
        if entry.path().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).context("cannot copy a file")?;
        }
    }
    Ok(())
}

struct DebianChroot {
    folder: PathBuf,
}

impl DebianChroot {
    fn new(suite: &str) -> Result<Self> {
        let folder = target().join("dist-trial").join(suite);
        let system = Self { folder };
        if system.folder.exists() {
            system.remove()?;
        }
        let made = system.folder.parent().map_or(Ok(()), fs::create_dir_all);
        made.with_context(|| format!("cannot make {}", system.folder.display()))?;
        let mut bootstrap = Command::new("debootstrap");
        bootstrap.args(["--variant=minbase", suite]).arg(&system.folder).arg(MIRROR);
        step(
            &format!("create a fresh {suite} system (as root)"),
            bootstrap.stdout(fs::File::create("/dev/null")?),
        )?;
        Ok(system)
    }

    fn copy_package(&self, package: &Path) -> Result<()> {
        let name = package.file_name().context("a package has a name")?;
        fs::copy(package, self.folder.join("tmp").join(name)).context("cannot copy the package")?;
        Ok(())
    }

    /// Runs a test for the guide's commands in a directory of the system.
    fn run_guide_test(&self, name: &str, folder: &str) -> Result<()> {
        fs::copy(root().join(GUIDE_TESTS).join(name), self.folder.join("tmp").join(name))
            .with_context(|| format!("cannot copy {name}"))?;
        self.expect_output(&["sh", "-c", &format!("cd /{folder} && sh /tmp/{name}")], "sysop ")
    }

    fn install(&self, packages: &[&Path]) -> Result<()> {
        let mut install = self.command();
        install.args(["apt-get", "install", "-y", "-qq", "--no-install-recommends"]);
        for package in packages {
            let name = package.file_name().context("a package has a name")?;
            install.arg(Path::new("/tmp").join(name));
        }
        step("install there", install.stdout(fs::File::create("/dev/null")?))
    }

    fn command(&self) -> Command {
        let mut command = Command::new("unshare");
        // Programs look themselves up in /proc. The mount lasts only as long as this command's namespace.
        let inside = r#"mount --rbind /proc "$0/proc" && exec chroot "$0" "$@""#;
        command.args(["--mount", "sh", "-c", inside]).arg(&self.folder).env_clear();
        command
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", "/root")
            .env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    fn run(&self, arguments: &[&str]) -> Result<(bool, String)> {
        let run = self.command().args(arguments).output().context("cannot start unshare")?;
        let said = [run.stdout, run.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        eprintln!("    {}: {}", arguments.join(" "), said.lines().next().unwrap_or_default());
        Ok((run.status.success(), said))
    }

    fn expect_output(&self, arguments: &[&str], wanted: &str) -> Result<()> {
        match self.run(arguments)? {
            (true, said) if said.contains(wanted) => Ok(()),
            (_, said) => bail!("expected {wanted:?} from {}, got:\n{said}", arguments.join(" ")),
        }
    }

    fn expect_failure(&self, arguments: &[&str], wanted: &str) -> Result<()> {
        match self.run(arguments)? {
            (false, said) if said.contains(wanted) => Ok(()),
            (_, said) => bail!("expected {} to fail with {wanted:?}, got:\n{said}", arguments.join(" ")),
        }
    }

    fn remove(&self) -> Result<()> {
        // Nothing is mounted in the directory any more.
        fs::remove_dir_all(&self.folder).with_context(|| format!("cannot remove {}", self.folder.display()))
    }
}
