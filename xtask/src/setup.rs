//! Installs the requirements for building and testing, except for cargo itself.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::web;
use crate::workspace::{cargo, is_installed, root, step, target};

/// Programs needed to build `sysop`, and their Debian packages.
const BUILD: &[(&str, &str)] = &[("cc", "gcc libc6-dev"), ("bash", "bash")];

/// Programs that only the tests need: shells, servers, and tools that the tests drive.
const TESTS: &[(&str, &str)] = &[
    ("git", "git"),
    ("unshare", "util-linux"),
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
    ("nft", "nftables"),
    ("ipset", "ipset"),
    ("iptables", "iptables"),
    ("strace", "strace"),
    ("rsync", "rsync"),
    ("unzip", "unzip"),
    ("patch", "patch"),
    ("vim.tiny", "vim-tiny"),
    ("less", "less"),
    ("stty", "coreutils"),
    ("script", "bsdutils"),
    ("python3", "python3 python3-venv"),
    ("initdb", "postgresql"),
    ("sqlite3", "sqlite3"),
    ("curl", "curl"),
    ("jq", "jq"),
    ("nginx", "nginx-light"),
    ("caddy", "caddy"),
    ("haproxy", "haproxy"),
    ("systemd-socket-activate", "systemd"),
    ("pvcreate", "lvm2"),
];

/// Programs that the tasks of `cargo xtask eval`, their checks and its proxy need, besides those in every Debian
/// system.
pub(crate) const EVAL: &[(&str, &str)] =
    &[("git", "git"), ("sqlite3", "sqlite3"), ("curl", "curl"), ("find", "findutils"), ("cmp", "diffutils")];

/// Validator for the API description, from PyPI: program and version.
const API_CHECKER: (&str, &str) = ("schemathesis", "4.32.5");

/// Client for the Agent Client Protocol, from npm, with its Node: the directory in `xtask` with a lock file.
const ACP_CLIENT: &str = "acpx";

/// MCP reference servers for the tests, from PyPI: directory and packages.
const MCP_PYTHON: (&str, &[&str]) = ("mcp-servers", &["mcp-server-time==2026.10.19"]);

/// MCP reference servers from npm: the directory in `xtask` with their lock file.
const MCP_NODE: &str = "mcp-npm";

/// Builder for Debian packages, from crates.io: name and version.
pub(crate) const CARGO_DEB: (&str, &str) = ("cargo-deb", "3.8.0");

/// Requirements of the window's tests: a display, a message bus, fonts, a validator for the desktop entry.
const WINDOW: &[(&str, &str)] = &[
    ("Xvfb", "xvfb"),
    ("dbus-daemon", "dbus-daemon"),
    ("fc-list", "fontconfig fonts-dejavu-core"),
    ("dpkg-deb", "dpkg"),
    ("objdump", "binutils"),
    ("desktop-file-validate", "desktop-file-utils"),
    ("pkg-config", "pkg-config"),
];
/// Web engine: its pkg-config name, and the Debian package to build against.
const ENGINE: (&str, &str) = ("webkit2gtk-4.1", "libwebkit2gtk-4.1-dev");

/// Installs the requirements for building `sysop`.
pub(crate) fn build() -> Result<()> {
    need(BUILD)
}

/// Installs the requirements for building and testing `sysop`.
pub(crate) fn tests() -> Result<()> {
    build()?;
    need(TESTS)?;
    need(EVAL)?;
    let (name, version) = API_CHECKER;
    python_tool(name, &[&format!("{name}=={version}")])?;
    python_tool(MCP_PYTHON.0, MCP_PYTHON.1)?;
    npm_tool(ACP_CLIENT)?;
    npm_tool(MCP_NODE)
}

/// Installs the requirements for building and testing the window.
pub(crate) fn desktop() -> Result<()> {
    need(WINDOW)?;
    let (engine, package) = ENGINE;
    let known = Command::new("pkg-config").args(["--exists", engine]).status();
    if known.context("cannot start pkg-config")?.success() {
        return Ok(());
    }
    install(&[package])
}

/// Installs programs from PyPI into a separate directory in the target directory. Returns that directory.
pub(crate) fn python_tool(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let folder = target().join("tools").join(name);
    let mark = folder.join(format!("is-{}", packages.join("-")));
    if mark.exists() {
        return Ok(folder);
    }
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context("cannot remove an older installation")?;
    }
    let mut venv = Command::new("python3");
    step("setup: create a Python environment", venv.args(["-m", "venv"]).arg(&folder))?;
    let mut install = Command::new(folder.join("bin/pip"));
    install.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages);
    step(&format!("setup: install {}", packages.join(", ")), &mut install)?;
    std::fs::write(&mark, "").context("cannot record the installation")?;
    Ok(folder)
}

/// Installs programs from npm into a separate directory in the target directory, exactly as in the lock file
/// in this crate's directory `name`.
fn npm_tool(name: &str) -> Result<()> {
    need(&web::NODE)?;
    let folder = target().join("tools").join(name);
    let source = root().join("xtask").join(name);
    let lock = std::fs::read(source.join("package-lock.json")).context("cannot read the lock file")?;
    let mark = folder.join("installed");
    if std::fs::read(&mark).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    std::fs::create_dir_all(&folder).context("cannot create a folder for npm packages")?;
    for file in ["package.json", "package-lock.json"] {
        std::fs::copy(source.join(file), folder.join(file)).context("cannot copy a file for npm")?;
    }
    let mut install = Command::new("npm");
    // `npm ci` rejects a lock file that lacks the optional packages missing from the registry.
    install.args(["install", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder);
    step(&format!("setup: install {name}"), &mut install)?;
    std::fs::write(&mark, lock).context("cannot record the installation")
}

/// Installs a cargo subcommand from crates.io into the target directory; returns the path of its program.
pub(crate) fn cargo_tool(tool: (&str, &str)) -> Result<PathBuf> {
    cargo_tool_with(tool, &[])
}

/// Like `cargo_tool`, with additional options for `cargo install`, such as the program's features.
pub(crate) fn cargo_tool_with((name, version): (&str, &str), options: &[&str]) -> Result<PathBuf> {
    let tools = target().join("tools");
    let mut install = cargo();
    install.args(["install", "--quiet", "--locked", "--version", version, name, "--root"]).arg(&tools);
    install.args(options);
    // Has no effect if exactly this version is installed.
    step(&format!("setup: install {name} {version}"), &mut install)?;
    Ok(tools.join("bin").join(name))
}

/// Installs missing programs; each entry is a program and its Debian packages.
pub(crate) fn need(programs: &[(&str, &str)]) -> Result<()> {
    let missing: Vec<_> = programs.iter().filter(|(program, _)| !is_installed(program)).collect();
    if missing.is_empty() {
        let names: Vec<_> = programs.iter().map(|(program, _)| *program).collect();
        eprintln!("==> setup: already installed ({})", names.join(", "));
        return Ok(());
    }
    let packages: Vec<_> = missing.iter().flat_map(|(_, packages)| packages.split(' ')).collect();
    install(&packages)
}

fn install(packages: &[&str]) -> Result<()> {
    if !is_installed("apt-get") {
        bail!("install {} (apt-get not found)", packages.join(", "));
    }
    step("setup: refresh the package lists", Command::new("apt-get").args(["update", "-qq"]))?;
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages);
    step(&format!("setup: install {}", packages.join(", ")), &mut install)
}
