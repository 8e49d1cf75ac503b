//! Checks the contents of the Debian packages and of the archive.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{BuiltPackages, VERSION};

/// Files in the package `sysop`, below `/usr`.
const OF_SYSOP: [&str; 10] = [
    "bin/sysop",
    "share/man/man1/sysop.1.gz",
    "share/bash-completion/completions/sysop",
    "share/zsh/vendor-completions/_sysop",
    "share/fish/vendor_completions.d/sysop.fish",
    "lib/systemd/system/sysop.service",
    "lib/systemd/system/sysop.socket",
    "lib/systemd/user/sysop.service",
    "lib/systemd/user/sysop.socket",
    "lib/sysusers.d/sysop.conf",
];
/// Files in the package `sysop-desktop`, below `/usr`.
const OF_WINDOW: [&str; 3] = [
    "bin/sysop-desktop",
    "share/applications/sysop-desktop.desktop",
    "share/icons/hicolor/scalable/apps/sysop.svg",
];

/// Checks versions, dependencies, files, modes and owners.
pub(super) fn check(made: &BuiltPackages) -> Result<()> {
    let depends_of_window = format!(
        "libc6 (>= 2.35), libcairo-gobject2, libcairo2, libgcc-s1, libgdk-pixbuf-2.0-0, \
         libglib2.0-0 | libglib2.0-0t64, libgtk-3-0 | libgtk-3-0t64, libjavascriptcoregtk-4.1-0, \
         libsoup-3.0-0, libwebkit2gtk-4.1-0, sysop (= {VERSION})"
    );
    for (package, files, depends) in [
        (&made.sysop, &OF_SYSOP[..], "libc6 (>= 2.29), libgcc-s1"),
        (&made.window, &OF_WINDOW[..], depends_of_window.as_str()),
    ] {
        let package = package.to_str().context("the path of the package is not UTF-8")?;
        let control = output("dpkg-deb", &["--field", package])?;
        ensure!(control.contains(&format!("\nVersion: {VERSION}\n")), "wrong version: {control}");
        ensure!(control.contains(&format!("\nDepends: {depends}\n")), "wrong dependencies: {control}");
        let contents = output("dpkg-deb", &["--contents", package])?;
        ensure!(contents.lines().all(|line| line.contains(" 0/0 ")), "not owned by root: {contents}");
        ensure!(contents.contains("/copyright\n"), "no copyright file: {contents}");
        for file in files {
            let line = contents.lines().find(|line| line.ends_with(&format!(" ./usr/{file}")));
            let line = line.with_context(|| format!("{file} is missing: {contents}"))?;
            let mode = if file.starts_with("bin/") { "-rwxr-xr-x " } else { "-rw-r--r-- " };
            ensure!(line.starts_with(mode), "wrong mode: {line}");
        }
    }
    let archive = format!("sysop-{VERSION}-{}-linux.tar.gz", std::env::consts::ARCH);
    let archive = made.sysop.with_file_name(archive);
    let archived =
        output("tar", &["-tzf", archive.to_str().context("the path of the archive is not UTF-8")?])?;
    for file in OF_SYSOP.iter().chain(&OF_WINDOW).chain(&["README.md", "LICENSE-MIT", "LICENSE-APACHE"]) {
        let end = format!("-linux/{file}");
        ensure!(archived.lines().any(|line| line.ends_with(&end)), "{file} is missing: {archived}");
    }
    Ok(())
}

/// Returns the output of a program; fails if the program fails.
fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let run =
        Command::new(program).args(arguments).output().with_context(|| format!("cannot start {program}"))?;
    ensure!(run.status.success(), "{program} failed: {}", String::from_utf8_lossy(&run.stderr));
    Ok(String::from_utf8(run.stdout)?)
}
