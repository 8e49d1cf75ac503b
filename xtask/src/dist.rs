//! Distribution: binaries that start on old systems, an archive, Debian packages, checksums.
//!
//! There are two packages, because the window program needs a web engine and servers have none: `sysop` alone runs
//! anywhere.

mod glibc;
mod install_test;
mod package;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use self::glibc::GlibcVersion;
use self::package::{Package, PackageFile};
use crate::workspace::{cargo, root, step, target};
use crate::{setup, web};

/// Oldest supported C library of `sysop`, from 2019: the first whose `posix_spawn` can change the folder.
const OLDEST: GlibcVersion = GlibcVersion(2, 29);
/// Oldest supported C library of the window program: every system with its web engine (webkit2gtk-4.1) has at least
/// this.
const GLIBC_MIN_DESKTOP: GlibcVersion = GlibcVersion(2, 35);
/// Tools to build against an old C library, from PyPI.
const ZIG: [&str; 2] = ["cargo-zigbuild==0.24.0", "ziglang==0.13.0.post1"];
/// Further build tools, and their Debian packages.
const REQUIRED_TOOLS: [(&str, &str); 6] = [
    ("dpkg-deb", "dpkg"),
    ("objdump", "binutils"),
    ("tar", "tar"),
    ("gzip", "gzip"),
    ("sha256sum", "coreutils"),
    ("desktop-file-validate", "desktop-file-utils"),
];
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Shells, and their folders for completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/sysop"),
    ("zsh", "share/zsh/vendor-completions/_sysop"),
    ("fish", "share/fish/vendor_completions.d/sysop.fish"),
];

/// Builds everything, or packages programs built elsewhere; `--try` then installs the packages in fresh systems and
/// runs the programs there.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    let (mut tries, mut built) = (false, None);
    let mut rest = rest.iter();
    while let Some(flag) = rest.next() {
        match (flag.as_str(), rest.as_slice().first()) {
            ("--try", _) => tries = true,
            ("--with", Some(folder)) => {
                built = Some(PathBuf::from(folder));
                rest.next();
            }
            (_, _) => {
                bail!("`cargo xtask dist` takes --try, and --with FOLDER where programs are that were built")
            }
        }
    }
    setup::need(&REQUIRED_TOOLS)?;
    let (sysop, window) = match built {
        Some(folder) => (folder.join("sysop"), folder.join("sysop-desktop")),
        None => {
            setup::desktop()?;
            // The page is embedded in the binary; without this build, a page with build instructions would be.
            web::build()?;
            (build_sysop()?, build_window()?)
        }
    };
    glibc::check(&sysop, OLDEST)?;
    glibc::check(&window, GLIBC_MIN_DESKTOP)?;
    let made = pack(&sysop, &window)?;
    eprintln!("==> made in {}", folder().display());
    if tries { install_test::run(&made) } else { Ok(()) }
}

/// Returns the folder of the packages.
fn folder() -> PathBuf {
    target().join("packages")
}

fn architecture() -> Result<(&'static str, &'static str)> {
    match std::env::consts::ARCH {
        "x86_64" => Ok(("x86_64", "amd64")),
        "aarch64" => Ok(("aarch64", "arm64")),
        other => bail!("nobody has tried to pack for {other}"),
    }
}

/// Builds the program against the oldest C library.
fn build_sysop() -> Result<PathBuf> {
    let venv = setup::python_tool("zigbuild", &ZIG)?;
    let (architecture, _) = architecture()?;
    let triple = format!("{architecture}-unknown-linux-gnu");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([venv.join("bin")].into_iter().chain(std::env::split_paths(&path)))
        .context("the PATH cannot be used")?;
    let mut build = cargo();
    build.args(["zigbuild", "--release", "--locked", "--package", "sysop", "--target"]);
    build.arg(format!("{triple}.{OLDEST}")).env("PATH", path);
    step(&format!("build sysop for glibc {OLDEST} and newer"), &mut build)?;
    Ok(target().join(triple).join("release/sysop"))
}

/// Builds the window program against this system's web engine.
fn build_window() -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--release", "--locked", "--package", "sysop-desktop"]);
    step("build sysop-desktop", &mut build)?;
    Ok(target().join("release/sysop-desktop"))
}

/// Paths of the built packages.
struct BuiltPackages {
    sysop: PathBuf,
    window: PathBuf,
}

fn pack(sysop: &Path, window: &Path) -> Result<BuiltPackages> {
    let folder = folder();
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot remove what was made before")?;
    }
    let (architecture, debian) = architecture()?;
    let own = files_of_sysop(sysop)?;
    let of_window = files_of_window(window)?;

    let name = format!("sysop-{VERSION}-{architecture}-linux");
    let tree = folder.join("tree").join(&name);
    own.iter().chain(&of_window).try_for_each(|file| file.write_below(&tree))?;
    PackageFile::text("README.md", &fs::read_to_string(root().join("README.md"))?).write_below(&tree)?;
    for license in ["LICENSE-MIT", "LICENSE-APACHE"] {
        PackageFile::text(license, &fs::read_to_string(root().join(license))?).write_below(&tree)?;
    }
    let archive = folder.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "-C"]);
    tar.arg(folder.join("tree")).args(["--use-compress-program=gzip -9n", "-cf"]).arg(&archive).arg(&name);
    step("pack the archive", &mut tar)?;

    let of_sysop = Package {
        name: "sysop",
        architecture: debian,
        binary: sysop,
        libc: OLDEST,
        depends: "",
        recommends: "ca-certificates, openssh-client",
        suggests: "sysop-desktop, git",
        about: "AI operator for terminals and servers",
        more: "You say what you want; a model proposes the next step; you see it, edit it,\nallow it or refuse it; \
               it runs, here or on any machine that your own ssh reaches.",
    };
    let with_window = Package {
        name: "sysop-desktop",
        architecture: debian,
        binary: window,
        libc: GLIBC_MIN_DESKTOP,
        depends: &format!("sysop (= {VERSION})"),
        recommends: "xdg-utils",
        suggests: "",
        about: "AI operator for terminals and servers, in a window",
        more: "The page of sysop in a window of its own, with a server that lives as long as\nthe window.",
    };
    let made = BuiltPackages {
        sysop: of_sysop.build(&folder, own)?,
        window: with_window.build(&folder, of_window)?,
    };
    fs::remove_dir_all(folder.join("tree")).context("cannot tidy up")?;
    let names =
        [&archive, &made.sysop, &made.window].map(|path| path.file_name().unwrap_or_default().to_owned());
    let sums = fs::File::create(folder.join("SHA256SUMS")).context("cannot write the checksums")?;
    step("checksums", Command::new("sha256sum").args(names).current_dir(&folder).stdout(sums))?;
    Ok(made)
}

fn files_of_sysop(sysop: &Path) -> Result<Vec<PackageFile>> {
    let says = |arguments: &[&str]| -> Result<String> {
        let run = Command::new(sysop).args(arguments).output().context("cannot start what was built")?;
        if !run.status.success() {
            bail!("`sysop {}` failed: {}", arguments.join(" "), String::from_utf8_lossy(&run.stderr));
        }
        Ok(String::from_utf8(run.stdout)?)
    };
    let mut files = vec![
        PackageFile::program("bin/sysop", sysop),
        PackageFile::packed("share/man/man1/sysop.1.gz", &says(&["man"])?)?,
    ];
    for (shell, place) in COMPLETIONS {
        files.push(PackageFile::text(place, &says(&["completions", shell])?));
    }
    Ok(files)
}

fn files_of_window(window: &Path) -> Result<Vec<PackageFile>> {
    let share = root().join("crates/sysop-desktop/share");
    let entry = share.join("sysop-desktop.desktop");
    step("the desktop entry is valid", Command::new("desktop-file-validate").arg(&entry))?;
    let text =
        |name: &str| fs::read_to_string(share.join(name)).with_context(|| format!("cannot read {name}"));
    Ok(vec![
        PackageFile::program("bin/sysop-desktop", window),
        PackageFile::text("share/applications/sysop-desktop.desktop", &text("sysop-desktop.desktop")?),
        PackageFile::text("share/icons/hicolor/scalable/apps/sysop.svg", &text("sysop.svg")?),
    ])
}
