//! Installs what building and testing need beyond cargo.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::chore::{found, step, target};

/// Programs that are needed, and the Debian packages that hold them.
const NEEDED: [(&str, &str); 20] = [
    ("cc", "gcc libc6-dev"),
    ("bash", "bash"),
    ("git", "git"),
    ("setsid", "util-linux"),
    ("ssh", "openssh-client"),
    ("sshd", "openssh-server"),
    ("dash", "dash"),
    ("zsh", "zsh"),
    ("fish", "fish"),
    ("busybox", "busybox"),
    ("tcsh", "tcsh"),
    ("ps", "procps"),
    ("ip", "iproute2"),
    ("sudo", "sudo"),
    ("vim.tiny", "vim-tiny"),
    ("less", "less"),
    ("stty", "coreutils"),
    ("script", "bsdutils"),
    ("python3", "python3 python3-venv"),
    ("initdb", "postgresql"),
];

/// What judges the description of the API, from Python's index: program and version.
const API_CHECKER: (&str, &str) = ("schemathesis", "4.32.5");

/// Makes sure that all is there.
pub(crate) fn run() -> Result<()> {
    need(&NEEDED)?;
    api_checker()
}

/// Installs the judge of the API's description, in a place of its own beside what cargo builds.
fn api_checker() -> Result<()> {
    let (name, version) = API_CHECKER;
    let folder = target().join("tools").join(name);
    let mark = folder.join(format!("is-{version}"));
    if mark.exists() {
        return Ok(());
    }
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context("cannot remove an older one")?;
    }
    let mut venv = Command::new("python3");
    step("setup: a place for Python programs", venv.args(["-m", "venv"]).arg(&folder))?;
    let mut install = Command::new(folder.join("bin/pip"));
    install.args(["install", "--quiet", "--disable-pip-version-check", &format!("{name}=={version}")]);
    step(&format!("setup: install {name} {version}"), &mut install)?;
    std::fs::write(&mark, "").context("cannot mark that it is there")
}

/// Makes sure that these programs are there, each with the packages that hold it.
pub(crate) fn need(programs: &[(&str, &str)]) -> Result<()> {
    let missing: Vec<_> = programs.iter().filter(|(program, _)| !found(program)).collect();
    if missing.is_empty() {
        let names: Vec<_> = programs.iter().map(|(program, _)| *program).collect();
        eprintln!("==> setup: all there ({})", names.join(", "));
        return Ok(());
    }
    let packages: Vec<_> = missing.iter().flat_map(|(_, packages)| packages.split(' ')).collect();
    if !found("apt-get") {
        bail!("please install {}: this machine has no apt-get", packages.join(", "));
    }
    step("setup: refresh the package lists", Command::new("apt-get").args(["update", "-qq"]))?;
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(&packages);
    step(&format!("setup: install {}", packages.join(", ")), &mut install)
}
