//! Distribution: binaries that start on old systems, an archive, Debian packages, and other release files.
//!
//! There are two packages, as the window program needs a web engine that servers lack: `sysop` alone runs anywhere.

mod container;
mod contents;
mod crates;
mod glibc;
mod install_test;
mod release;
mod static_build;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use self::glibc::GlibcVersion;
use crate::workspace::{cargo, root, step, target};
use crate::{docs, setup, web};

/// Oldest supported C library for `sysop`, from 2019: the first whose `posix_spawn` can change the directory.
const OLDEST: GlibcVersion = GlibcVersion(2, 29);
/// Oldest supported C library for the window program: every system with webkit2gtk-4.1 has at least this one.
const GLIBC_MIN_DESKTOP: GlibcVersion = GlibcVersion(2, 35);
/// Tools for building against an old C library, from PyPI.
pub(crate) const ZIG: [&str; 2] = ["cargo-zigbuild==0.24.0", "ziglang==0.13.0.post1"];
/// Other build tools, and their Debian packages.
const REQUIRED_TOOLS: [(&str, &str); 6] = [
    ("dpkg-deb", "dpkg"),
    ("objdump", "binutils"),
    ("tar", "tar"),
    ("gzip", "gzip"),
    ("sha256sum", "coreutils"),
    ("desktop-file-validate", "desktop-file-utils"),
];
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Files whose content `sysop` prints, and the arguments that print it.
const GENERATED: [(&str, &[&str]); 4] = [
    ("sysop.1", &["man"]),
    ("completions.bash", &["completions", "bash"]),
    ("completions.zsh", &["completions", "zsh"]),
    ("completions.fish", &["completions", "fish"]),
];
/// Prefixes of the names of libraries that the window program may link, besides the libraries of the C library.
/// `depends` in its Cargo.toml names their Debian packages.
const LIBRARIES_OF_WINDOW: [&str; 8] = [
    "libwebkit2gtk-4.1.so.0",
    "libjavascriptcoregtk-4.1.so.0",
    "libgtk-3.so.0",
    "libgdk-3.so.0",
    "libsoup-3.0.so.0",
    "libgdk_pixbuf-2.0.so.0",
    "libcairo",
    // libglib, libgobject, libgio
    "libg",
];

/// Builds the programs and packages them, or packages programs that were built elsewhere. With `--static`,
/// also builds a program without shared libraries. With `--try`, also installs the packages in fresh systems
/// and runs the programs there.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    let (mut tries, mut is_static, mut built) = (false, false, None);
    let mut rest = rest.iter();
    while let Some(flag) = rest.next() {
        match (flag.as_str(), rest.as_slice().first()) {
            ("--try", _) => tries = true,
            ("--static", _) => is_static = true,
            ("--with", Some(folder)) => {
                built = Some(PathBuf::from(folder));
                rest.next();
            }
            (_, _) => {
                bail!(
                    "usage: cargo xtask dist [--static] [--try] [--with DIR]; DIR contains programs that are already built"
                )
            }
        }
    }
    setup::need(&REQUIRED_TOOLS)?;
    let (sysop, window) = match built {
        Some(folder) => (folder.join("sysop"), folder.join("sysop-desktop")),
        None => {
            setup::desktop()?;
            // The page is embedded in the binary; without this build, that page has build instructions.
            web::build()?;
            docs::build()?;
            (build_sysop()?, build_window()?)
        }
    };
    glibc::check(&sysop, OLDEST)?;
    glibc::check_libraries(&sysop, &[])?;
    glibc::check(&window, GLIBC_MIN_DESKTOP)?;
    glibc::check_libraries(&window, &LIBRARIES_OF_WINDOW)?;
    let folder = target().join("packages");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot remove the previous packages")?;
    }
    let made = pack(&sysop, &window, &folder)?;
    contents::check(&made)?;
    if is_static {
        let (architecture, _) = architecture()?;
        let program = static_build::build(architecture)?;
        static_build::pack(&program, architecture, &folder)?;
        if tries {
            static_build::check(&program)?;
        }
    }
    release::complete(&folder)?;
    crates::check()?;
    eprintln!("==> created in {}", folder.display());
    if tries { install_test::run(&made, &sysop) } else { Ok(()) }
}

/// Returns the name of this machine's architecture in the archive, and its name in the Debian packages.
fn architecture() -> Result<(&'static str, &'static str)> {
    match std::env::consts::ARCH {
        "x86_64" => Ok(("x86_64", "amd64")),
        "aarch64" => Ok(("aarch64", "arm64")),
        other => bail!("packaging for {other} is not supported"),
    }
}

/// Builds `sysop` against the oldest supported C library. Returns the path of the program.
fn build_sysop() -> Result<PathBuf> {
    let venv = setup::python_tool("zigbuild", &ZIG)?;
    let (architecture, _) = architecture()?;
    let triple = format!("{architecture}-unknown-linux-gnu");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([venv.join("bin")].into_iter().chain(std::env::split_paths(&path)))
        .context("invalid PATH")?;
    let mut build = cargo();
    build.args(["zigbuild", "--release", "--locked", "--package", "sysop", "--target"]);
    build.arg(format!("{triple}.{OLDEST}")).env("PATH", path);
    step(&format!("build sysop for glibc {OLDEST} and newer"), &mut build)?;
    Ok(target().join(triple).join("release/sysop"))
}

/// Builds the window program against this system's web engine. Returns the path of the program.
fn build_window() -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--release", "--locked", "--package", "sysop-desktop"]);
    step("build sysop-desktop", &mut build)?;
    Ok(target().join("release/sysop-desktop"))
}

struct BuiltPackages {
    sysop: PathBuf,
    window: PathBuf,
}

/// Builds the Debian packages and the archive in `folder`, which must be empty.
///
/// The manifests of the crates define the packages (`package.metadata.deb`). The archive contains the same files.
fn pack(sysop: &Path, window: &Path, folder: &Path) -> Result<BuiltPackages> {
    let entry = root().join("crates/sysop-desktop/share/sysop-desktop.desktop");
    step("validate the desktop entry", Command::new("desktop-file-validate").arg(&entry))?;
    let tree = folder.join("tree");
    // cargo-deb looks here for the files that are built in `target/release`.
    let built = tree.join("release");
    fs::create_dir_all(&built).with_context(|| format!("cannot create {}", built.display()))?;
    for (name, from) in [("sysop", sysop), ("sysop-desktop", window)] {
        fs::copy(from, built.join(name)).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    for (name, arguments) in GENERATED {
        let run = Command::new(sysop).args(arguments).output().context("cannot start the built program")?;
        if !run.status.success() {
            bail!("`sysop {}` failed: {}", arguments.join(" "), String::from_utf8_lossy(&run.stderr));
        }
        fs::write(built.join(name), run.stdout).with_context(|| format!("cannot write {name}"))?;
    }
    step("compress the manual", Command::new("gzip").arg("-9n").arg(built.join("sysop.1")))?;
    let (architecture, debian) = architecture()?;
    let cargo_deb = setup::cargo_tool(setup::CARGO_DEB)?;
    let build = |name: &str| -> Result<PathBuf> {
        let package = folder.join(format!("{name}_{VERSION}_{debian}.deb"));
        let mut build = Command::new(&cargo_deb);
        build.args(["--locked", "--no-build", "--no-strip", "--package", name, "--output"]).arg(&package);
        // A fixed timestamp for all files makes the package reproducible.
        build.current_dir(root()).env("CARGO_TARGET_DIR", &tree).env("SOURCE_DATE_EPOCH", "0");
        step(&format!("pack {name}"), &mut build)?;
        Ok(package)
    };
    let made = BuiltPackages { sysop: build("sysop")?, window: build("sysop-desktop")? };
    let name = format!("sysop-{VERSION}-{architecture}-linux");
    let archive = folder.join(format!("{name}.tar.gz"));
    pack_archive(&made, &tree, &name, &archive)?;
    fs::remove_dir_all(&tree).context("cannot remove temporary files")?;
    Ok(made)
}

/// Packs the files of both packages into a relocatable archive. All files are in one directory, `name`.
fn pack_archive(made: &BuiltPackages, tree: &Path, name: &str, archive: &Path) -> Result<()> {
    let unpacked = tree.join("unpacked");
    for package in [&made.sysop, &made.window] {
        step("unpack a package", Command::new("dpkg-deb").arg("-x").arg(package).arg(&unpacked))?;
    }
    let content = tree.join(name);
    fs::rename(unpacked.join("usr"), &content).context("cannot move the unpacked files")?;
    // The archive contains the licenses separately.
    fs::remove_dir_all(content.join("share/doc")).context("cannot remove the documentation directory")?;
    for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(root().join(file), content.join(file)).with_context(|| format!("cannot copy {file}"))?;
    }
    let mut tar = Command::new("tar");
    tar.args([
        "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX", "--mtime=@0",
    ]);
    tar.arg("-C").arg(tree).args(["--use-compress-program=gzip -9n", "-cf"]).arg(archive).arg(name);
    step("pack the archive", &mut tar)
}
