//! The page: what it needs is installed, and it is built where something of it changed.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::setup;
use crate::workspace::{cargo, root, step, target};

/// What builds it, and the Debian packages that hold it.
pub(crate) const NODE: [(&str, &str); 2] = [("node", "nodejs"), ("npm", "npm")];
/// What looks at it in tests, and the Debian packages that hold it.
const BROWSER: [(&str, &str); 3] = [
    ("chromium", "chromium fonts-dejavu-core"),
    ("ssh-keygen", "openssh-client"),
    ("sshd", "openssh-server"),
];
/// The oldest Node that builds it.
const NODE_VERSION_MIN: u32 = 20;
/// Holds what was built from: beside what it speaks of, so that both go together.
const STAMP: &str = ".stamp";
/// What the built page does not depend on.
const NOT_SOURCES: [&str; 3] = ["node_modules", "dist", "tests"];

/// Builds the page; with `--test` tests it in a browser too, and what follows goes to Playwright.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    build()?;
    match rest {
        [] => Ok(()),
        [word, rest @ ..] if word == "--test" => {
            step("build sysop", cargo().args(["build", "--locked", "--package", "sysop"]))?;
            test(rest)
        }
        [other, ..] => bail!("`cargo xtask web` knows `--test`, and not {other:?}"),
    }
}

/// Installs what the page needs and builds it, where something changed since the last time.
pub(crate) fn build() -> Result<()> {
    install()?;
    let built = web().join("dist");
    build_once(&built, &sources()?, npm(&["run", "build"]), "build the page")
}

/// Makes sure that the packages of the page are there, exactly as its lock file has them.
pub(crate) fn install() -> Result<()> {
    setup::need(&NODE)?;
    let version = node_version()?;
    if version < NODE_VERSION_MIN {
        bail!("the page is built with Node {NODE_VERSION_MIN} or newer, and this machine has {version}");
    }
    let locked = ["package.json", "package-lock.json"].map(|name| web().join(name));
    let install = npm(&["ci", "--no-audit", "--no-fund"]);
    build_once(&web().join("node_modules"), &locked, install, "install the packages of the page")
}

/// Looks at the page's code and runs its own tests.
pub(crate) fn check() -> Result<()> {
    step("lints of the page", &mut npm(&["run", "--silent", "lint"]))?;
    step("types of the page", &mut npm(&["run", "--silent", "typecheck"]))?;
    step("tests of the page's parts", &mut npm(&["run", "--silent", "test"]))
}

/// Tests the page in a browser, on a server that was built before.
pub(crate) fn test(rest: &[String]) -> Result<()> {
    browser()?;
    step("tests of the page in a browser", playwright(&target().join("debug/sysop")).args(rest))
}

/// Makes sure that there is a browser, and what a remote machine in its tests needs.
pub(crate) fn browser() -> Result<()> {
    setup::need(&BROWSER)
}

/// Playwright with this binary of sysop.
pub(crate) fn playwright(sysop: &Path) -> Command {
    let mut playwright = Command::new(web().join("node_modules/.bin/playwright"));
    playwright.args(["test", "--config", "tests"]).current_dir(web()).stdin(Stdio::null());
    playwright.env("SYSOP", sysop).env("TEST_RESULTS", target().join("page-tests"));
    playwright
}

/// The folder of the page.
pub(crate) fn web() -> PathBuf {
    root().join("web")
}

fn npm(arguments: &[&str]) -> Command {
    let mut npm = Command::new("npm");
    npm.args(arguments).current_dir(web());
    npm
}

fn node_version() -> Result<u32> {
    let said = Command::new("node").arg("--version").output().context("cannot start node")?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let major = said.trim().trim_start_matches('v').split('.').next().unwrap_or_default();
    major.parse().with_context(|| format!("node says that its version is {said:?}"))
}

/// Makes a folder by a command, unless it was made from the same files before.
fn build_once(made: &Path, from: &[PathBuf], mut how: Command, what: &str) -> Result<()> {
    let mut hasher = DefaultHasher::new();
    for path in from {
        path.strip_prefix(web()).unwrap_or(path).hash(&mut hasher);
        fs::read(path).with_context(|| format!("cannot read {}", path.display()))?.hash(&mut hasher);
    }
    let now = format!("{:016x}", hasher.finish());
    let stamp = made.join(STAMP);
    if fs::read_to_string(&stamp).is_ok_and(|last| last == now) {
        return Ok(());
    }
    step(what, &mut how)?;
    fs::write(&stamp, now).with_context(|| format!("cannot write {}", stamp.display()))
}

/// The files that the page is built from.
fn sources() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![web()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_file() {
                found.push(path);
            } else if !NOT_SOURCES.iter().any(|name| path == web().join(name)) {
                folders.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
