//! The web page: installs its dependencies, and builds it if a source has changed.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::setup;
use crate::workspace::{cargo, root, step, target};

/// Build tools, and their Debian packages.
pub(crate) const NODE: [(&str, &str); 2] = [("node", "nodejs"), ("npm", "npm")];
/// Programs that the browser tests need, each with the Debian package that provides it.
const BROWSER: [(&str, &str); 3] = [
    ("chromium", "chromium fonts-dejavu-core"),
    ("ssh-keygen", "openssh-client"),
    ("sshd", "openssh-server"),
];
/// Lighthouse, which is not among the page's own packages: it is large, and only `cargo xtask test --all` needs it.
const LIGHTHOUSE: &str = r#"{ "dependencies": { "lighthouse": "12.8.2" } }"#;
/// Oldest Node version that can build the page.
const NODE_VERSION_MIN: u32 = 20;
/// Name of the file that stores the sources' hash. The file is in the built directory: both are deleted together.
const STAMP: &str = ".stamp";
/// Directories on which the built page does not depend.
const NOT_SOURCES: [&str; 3] = ["node_modules", "dist", "tests"];

/// Builds the page; with `--test` also tests it in a browser, passing further arguments to Playwright.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    build()?;
    if !rest.iter().any(|argument| argument == "--test") {
        return Ok(());
    }
    step("build sysop", cargo().args(["build", "--locked", "--package", "sysop"]))?;
    let rest: Vec<_> =
        rest.iter().filter(|argument| !["--test", "--"].contains(&argument.as_str())).collect();
    test(&rest)
}

/// Installs the page's packages, and builds the page if a source has changed since the last build.
pub(crate) fn build() -> Result<()> {
    install()?;
    let built = web().join("dist");
    build_once(&built, &sources()?, npm(&["run", "build"]), "build the page")
}

/// Installs the page's packages exactly as in its lock file.
pub(crate) fn install() -> Result<()> {
    setup::need(&NODE)?;
    let version = node_version()?;
    if version < NODE_VERSION_MIN {
        bail!("building the page requires Node {NODE_VERSION_MIN} or newer; found {version}");
    }
    let locked = ["package.json", "package-lock.json"].map(|name| web().join(name));
    let install = npm(&["ci", "--no-audit", "--no-fund"]);
    build_once(&web().join("node_modules"), &locked, install, "install the page's npm packages")
}

/// Lints and type-checks the page, and runs its unit tests.
pub(crate) fn check() -> Result<()> {
    step("lint the page", &mut npm(&["run", "--silent", "lint"]))?;
    step("check the page's types", &mut npm(&["run", "--silent", "typecheck"]))?;
    step("run the page's unit tests", &mut npm(&["run", "--silent", "test"]))
}

/// Tests the page in a browser, on a previously built server.
pub(crate) fn test(rest: &[&String]) -> Result<()> {
    browser()?;
    step("run the page's browser tests", playwright(&target().join("debug/sysop")).args(rest))
}

/// Checks the page with Lighthouse, installed in the target directory, against a previously built server.
pub(crate) fn lighthouse() -> Result<()> {
    browser()?;
    let folder = target().join("tools/lighthouse");
    let program = folder.join("node_modules/lighthouse/cli/index.js");
    let manifest = folder.join("package.json");
    if !program.exists() || fs::read_to_string(&manifest).is_ok_and(|last| last != LIGHTHOUSE) {
        fs::create_dir_all(&folder).context("cannot create a directory for Lighthouse")?;
        fs::write(&manifest, LIGHTHOUSE).context("cannot write the package.json of Lighthouse")?;
        let mut install = Command::new("npm");
        install.args(["install", "--no-audit", "--no-fund"]);
        step("install Lighthouse", install.current_dir(&folder))?;
    }
    let mut playwright = playwright(&target().join("debug/sysop"));
    playwright.args(["--grep", "@lighthouse", "--workers", "1"]).env("LIGHTHOUSE", program);
    step("check the page with Lighthouse", &mut playwright)
}

/// Installs a browser, and the programs for the tests' remote machine.
pub(crate) fn browser() -> Result<()> {
    setup::need(&BROWSER)
}

pub(crate) fn playwright(sysop: &Path) -> Command {
    let mut playwright = Command::new(web().join("node_modules/.bin/playwright"));
    playwright.args(["test", "--config", "tests"]).current_dir(web()).stdin(Stdio::null());
    playwright.env("SYSOP", sysop).env("TEST_RESULTS", target().join("page-tests"));
    playwright
}

/// Returns the page's directory.
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
    major.parse().with_context(|| format!("unexpected version output of node: {said:?}"))
}

/// Builds the directory `made` with a command, unless already built from the same content of `from`.
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
