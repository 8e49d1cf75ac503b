//! Files of a release other than the packages: install script, container file, formula, bills of materials,
//! release notes, checksums and their signature.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{VERSION, crates};
use crate::setup;
use crate::workspace::{cargo, root, step};

/// Generator for bills of materials (CycloneDX), from crates.io.
const CYCLONEDX: (&str, &str) = ("cargo-cyclonedx", "0.5.9");
/// Environment variable with the path of the secret minisign key that signs the checksums.
const SIGNING_KEY: &str = "SYSOP_SIGNING_KEY";
/// Files from the repository that a release contains unchanged.
const COPIES: [&str; 2] = ["packaging/install.sh", "packaging/Containerfile"];

/// Adds all files to a directory that contains the packages, and then the checksums.
pub(super) fn complete(folder: &Path) -> Result<()> {
    for file in COPIES {
        let name = Path::new(file).file_name().context("a file has a name")?;
        fs::copy(root().join(file), folder.join(name)).with_context(|| format!("cannot copy {file}"))?;
    }
    source(folder)?;
    materials(folder)?;
    let changelog = fs::read_to_string(root().join("CHANGELOG.md")).context("cannot read CHANGELOG.md")?;
    fs::write(folder.join("RELEASE_NOTES.md"), notes(&changelog)?)?;
    sums(folder)?;
    match std::env::var_os(SIGNING_KEY) {
        Some(key) => sign(folder, Path::new(&key)),
        None => {
            eprintln!("    not signed: {SIGNING_KEY} names no key of minisign");
            Ok(())
        }
    }
}

/// Writes the source archive of the current commit with the built page and guide, and the formula with its checksum.
fn source(folder: &Path) -> Result<()> {
    let name = format!("sysop-{VERSION}-source.tar.gz");
    step("archive the sources", &mut archive(&root(), &crates::site_files()?, &folder.join(&name)))?;
    let sum = Command::new("sha256sum").arg(folder.join(&name)).output().context("cannot start sha256sum")?;
    let sum = String::from_utf8(sum.stdout)?;
    let sum = sum.split_whitespace().next().context("sha256sum printed nothing")?;
    let formula = fs::read_to_string(root().join("packaging/sysop.rb")).context("cannot read the formula")?;
    let formula = formula.replace("@VERSION@", VERSION).replace("@SHA256@", sum);
    fs::write(folder.join("sysop.rb"), formula).context("cannot write the formula")
}

/// Returns the command that archives a repository. `added` are files outside of it, with their directories inside.
fn archive(repository: &Path, added: &[(PathBuf, PathBuf)], target: &Path) -> Command {
    let mut archive = Command::new("git");
    archive.current_dir(repository).args(["archive", "--format=tar.gz", "-o"]).arg(target);
    for (directory, file) in added {
        archive.arg(format!("--prefix=sysop-{VERSION}/{}/", directory.display()));
        archive.arg(format!("--add-file={}", file.display()));
    }
    // The last prefix is for the files of the repository.
    archive.arg(format!("--prefix=sysop-{VERSION}/")).arg("HEAD");
    archive
}

/// Writes the bills of materials for both programs.
fn materials(folder: &Path) -> Result<()> {
    setup::cargo_tool(CYCLONEDX)?;
    let tools = crate::workspace::target().join("tools/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([tools].into_iter().chain(std::env::split_paths(&path)))
        .context("invalid PATH")?;
    let mut make = cargo();
    make.args(["cyclonedx", "--format", "json", "--override-filename", "bom"]);
    step("list the dependencies", make.env("PATH", path))?;
    for name in ["sysop", "sysop-desktop"] {
        let made = root().join("crates").join(name).join("bom.json");
        fs::copy(&made, folder.join(format!("{name}-{VERSION}.cdx.json")))
            .with_context(|| format!("cannot copy {}", made.display()))?;
    }
    // The generator writes one next to each manifest.
    let crates = fs::read_dir(root().join("crates"))?.flatten().map(|entry| entry.path());
    for member in crates.chain([root().join("xtask")]) {
        // Most crates have no such file.
        let _ = fs::remove_file(member.join("bom.json"));
    }
    Ok(())
}

/// Returns the newest section of the changelog: this version's section or the unreleased one.
fn notes(changelog: &str) -> Result<String> {
    let mut sections = changelog.split("\n## ").skip(1);
    let Some(first) = sections.find(|section| section.lines().count() > 1) else {
        bail!("CHANGELOG.md has no section");
    };
    let (heading, text) = first.split_once('\n').unwrap_or((first, ""));
    let heading = if heading.starts_with("[Unreleased]") {
        VERSION.to_owned()
    } else {
        heading.replace(['[', ']'], "").trim_end_matches(" - unreleased").to_owned()
    };
    Ok(format!("# sysop {heading}\n\n{}\n", text.trim()))
}

/// Writes `SHA256SUMS` for all files in a directory.
fn sums(folder: &Path) -> Result<()> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .flatten()
        .filter(|entry| entry.path().is_file())
        .map(|entry| entry.file_name())
        .filter(|name| !name.to_string_lossy().starts_with("SHA256SUMS"))
        .collect();
    names.sort();
    let sums = fs::File::create(folder.join("SHA256SUMS")).context("cannot write the checksums")?;
    step("checksums", Command::new("sha256sum").args(names).current_dir(folder).stdout(sums))
}

fn sign(folder: &Path, key: &Path) -> Result<()> {
    setup::need(&[("minisign", "minisign")])?;
    let mut sign = Command::new("minisign");
    sign.args(["-S", "-s"]).arg(key).arg("-m").arg(folder.join("SHA256SUMS"));
    sign.args(["-t", &format!("sysop {VERSION}")]);
    step("sign the checksums", &mut sign)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Output};

    use super::{VERSION, archive, notes};
    use crate::workspace::root;

    fn git(folder: &Path, arguments: &[&str]) {
        let identity = ["-c", "user.name=x", "-c", "user.email=x@example.com"];
        let mut git = Command::new("git");
        git.current_dir(folder).args(identity).args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null");
        assert!(git.output().unwrap().status.success(), "git {arguments:?}");
    }

    #[test]
    fn the_source_archive_has_the_built_page_beside_the_sources() {
        let folder = tempfile::tempdir().unwrap();
        let (repository, page) = (folder.path().join("repository"), folder.path().join("dist/index.html"));
        fs::create_dir_all(&repository).unwrap();
        fs::create_dir_all(page.parent().unwrap()).unwrap();
        fs::write(repository.join("README.md"), "x").unwrap();
        fs::write(&page, "<p>").unwrap();
        for arguments in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "x"]] {
            git(&repository, arguments);
        }
        let target = folder.path().join("source.tar.gz");
        let added = [(PathBuf::from("crates/sysop-server/site/page"), page)];
        assert!(archive(&repository, &added, &target).status().unwrap().success());
        let list = Command::new("tar").arg("-tzf").arg(&target).output().unwrap().stdout;
        let list = String::from_utf8(list).unwrap();
        for file in ["README.md", "crates/sysop-server/site/page/index.html"] {
            assert!(list.lines().any(|line| line == format!("sysop-{VERSION}/{file}")), "{file}: {list}");
        }
    }

    /// Makes a release with an archive of each kind, whose program prints `line`, and runs the install script there.
    fn install(folder: &Path, glibc: &str) -> Output {
        let machine = std::env::consts::ARCH;
        let script = format!(
            "set -e; cd '{}'; mkdir -p bin release; printf '#!/bin/sh\\n{glibc}\\n' > bin/getconf; chmod +x bin/getconf
            for kind in linux linux-static; do
                mkdir -p $kind/bin; printf '#!/bin/sh\\necho '$kind'\\n' > $kind/bin/sysop; chmod +x $kind/bin/sysop
                tar -czf release/sysop-1.2.3-{machine}-$kind.tar.gz $kind
            done
            cd release; sha256sum *.tar.gz > SHA256SUMS
            PATH=../bin:$PATH sh '{}' --from . --prefix ../home",
            folder.display(),
            root().join("packaging/install.sh").display()
        );
        Command::new("sh").args(["-c", &script]).output().unwrap()
    }

    #[test]
    fn the_script_takes_the_static_program_where_glibc_is_old_or_missing() {
        for (glibc, kind) in [
            ("echo glibc 2.36", "linux"),
            ("echo glibc 2.29", "linux"),
            ("echo glibc 2.28", "linux-static"),
            ("echo glibc 2.4", "linux-static"),
            ("exit 1", "linux-static"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let run = install(folder.path(), glibc);
            let said = String::from_utf8_lossy(&run.stdout).into_owned();
            assert!(said.starts_with(&format!("Installed {kind} in ")), "{glibc}: {run:?}");
        }
    }

    #[test]
    fn the_release_notes_are_the_newest_section_of_the_changelog() {
        let text = "# Changelog\n\n## [Unreleased]\n\n### Added\n- x\n\n## [0.0.1]\n- y\n";
        assert_eq!(notes(text).unwrap(), format!("# sysop {VERSION}\n\n### Added\n- x\n"));
        let released = "# Changelog\n\n## [0.2.0] - 2026-01-01\n- z\n";
        assert_eq!(notes(released).unwrap(), "# sysop 0.2.0 - 2026-01-01\n\n- z\n");
        let first = "# Changelog\n\n## [0.1.0] - unreleased\n- a\n";
        assert_eq!(notes(first).unwrap(), "# sysop 0.1.0\n\n- a\n");
        assert!(notes("# Changelog\n").is_err());
    }
}
