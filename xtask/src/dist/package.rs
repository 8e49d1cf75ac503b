//! A Debian package: its files and its control data.

use std::fmt::Write;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::VERSION;
use super::glibc::{self, GlibcVersion};
use crate::workspace::{root, step};

/// Libraries that our programs may link, and the Debian packages that contain them. Parts of the C library are covered
/// by its version.
const LIBRARIES: [(&str, &str); 15] = [
    ("libc.so.6", ""),
    ("libm.so.6", ""),
    ("libdl.so.2", ""),
    ("librt.so.1", ""),
    ("libpthread.so.0", ""),
    ("ld-linux", ""),
    ("libgcc_s.so.1", "libgcc-s1"),
    ("libwebkit2gtk-4.1.so.0", "libwebkit2gtk-4.1-0"),
    ("libjavascriptcoregtk-4.1.so.0", "libjavascriptcoregtk-4.1-0"),
    ("libgtk-3.so.0", "libgtk-3-0 | libgtk-3-0t64"),
    ("libgdk-3.so.0", "libgtk-3-0 | libgtk-3-0t64"),
    ("libsoup-3.0.so.0", "libsoup-3.0-0"),
    ("libgdk_pixbuf-2.0.so.0", "libgdk-pixbuf-2.0-0"),
    ("libcairo", "libcairo2, libcairo-gobject2"),
    // libglib, libgobject, libgio
    ("libg", "libglib2.0-0 | libglib2.0-0t64"),
];

/// A file to install, relative to `/usr` or to the folder where the archive is unpacked.
#[derive(Debug, Clone)]
pub(crate) struct PackageFile {
    place: String,
    bytes: FileContent,
    mode: u32,
}

#[derive(Debug, Clone)]
enum FileContent {
    Inline(Vec<u8>),
    CopyOf(PathBuf),
}

impl PackageFile {
    /// A compiled program.
    pub(crate) fn program(place: &str, from: &Path) -> Self {
        Self { place: place.to_owned(), bytes: FileContent::CopyOf(from.to_owned()), mode: 0o755 }
    }

    /// A text file.
    pub(crate) fn text(place: &str, text: &str) -> Self {
        Self { place: place.to_owned(), bytes: FileContent::Inline(text.as_bytes().to_vec()), mode: 0o644 }
    }

    /// A gzipped text file, reproducible byte for byte.
    pub(crate) fn packed(place: &str, text: &str) -> Result<Self> {
        let mut gzip = Command::new("gzip");
        let mut gzip = gzip
            .arg("-9n")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start gzip")?;
        let mut input = gzip.stdin.take().context("a pipe")?;
        let text = text.to_owned();
        let writes = std::thread::spawn(move || input.write_all(text.as_bytes()));
        let packed = gzip.wait_with_output().context("gzip")?;
        if writes.join().is_err() || !packed.status.success() {
            bail!("gzip failed");
        }
        Ok(Self { place: place.to_owned(), bytes: FileContent::Inline(packed.stdout), mode: 0o644 })
    }

    /// Writes the file below a folder.
    pub(crate) fn write_below(&self, below: &Path) -> Result<()> {
        let path = below.join(&self.place);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| match &self.bytes {
            FileContent::Inline(bytes) => fs::write(&path, bytes),
            FileContent::CopyOf(from) => fs::copy(from, &path).map(drop),
        });
        made.and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(self.mode)))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Control data of a package.
#[derive(Debug)]
pub(crate) struct Package<'a> {
    pub(crate) name: &'a str,
    pub(crate) architecture: &'a str,
    /// Program whose libraries become dependencies.
    pub(crate) binary: &'a Path,
    pub(crate) libc: GlibcVersion,
    /// Further dependencies.
    pub(crate) depends: &'a str,
    pub(crate) recommends: &'a str,
    pub(crate) suggests: &'a str,
    /// One-line description.
    pub(crate) about: &'a str,
    pub(crate) more: &'a str,
}

impl Package<'_> {
    /// Builds the package and returns its path.
    ///
    /// # Errors
    /// The program links a library without a known package, or dpkg-deb fails.
    pub(crate) fn build(&self, folder: &Path, mut files: Vec<PackageFile>) -> Result<PathBuf> {
        let tree = folder.join("tree").join(self.name);
        let license = fs::read_to_string(root().join("LICENSE-MIT")).context("cannot read the license")?;
        let copyright = format!(
            "Licensed under MIT (below) or Apache-2.0 (/usr/share/common-licenses/Apache-2.0).\n\n{license}"
        );
        files.push(PackageFile::text(&format!("share/doc/{}/copyright", self.name), &copyright));
        files.iter().try_for_each(|file| file.write_below(&tree.join("usr")))?;
        let size = files.iter().map(PackageFile::size).sum::<Result<u64>>()?.div_ceil(1024);
        PackageFile::text("DEBIAN/control", &self.control(size)?).write_below(&tree)?;
        let package = folder.join(format!("{}_{VERSION}_{}.deb", self.name, self.architecture));
        let mut build = Command::new("dpkg-deb");
        build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&tree).arg(&package);
        // A fixed time for all files makes the package reproducible.
        build.env("SOURCE_DATE_EPOCH", "0");
        step(&format!("pack {}", self.name), &mut build)?;
        Ok(package)
    }

    fn control(&self, size_kib: u64) -> Result<String> {
        let depends = self.dependencies()?;
        let mut text = format!(
            "Package: {}\nVersion: {VERSION}\nArchitecture: {}\nMaintainer: The sysop developers <sysop@localhost>\n\
             Section: admin\nPriority: optional\nInstalled-Size: {size_kib}\nDepends: {depends}\n",
            self.name, self.architecture
        );
        for (field, value) in [("Recommends", self.recommends), ("Suggests", self.suggests)] {
            if !value.is_empty() {
                writeln!(text, "{field}: {value}")?;
            }
        }
        write!(text, "Description: {}\n {}\n", self.about, self.more.replace('\n', "\n "))?;
        Ok(text)
    }

    fn dependencies(&self) -> Result<String> {
        let mut all = vec![format!("libc6 (>= {})", self.libc)];
        for library in glibc::libraries(self.binary)? {
            let known = LIBRARIES.iter().find(|(name, _)| library.starts_with(name));
            let Some((_, packages)) = known else {
                bail!("{} needs {library}, and no package is known that has it", self.binary.display());
            };
            all.extend(packages.split(", ").filter(|package| !package.is_empty()).map(str::to_owned));
        }
        all.extend(Some(self.depends.to_owned()).filter(|more| !more.is_empty()));
        all.sort_unstable();
        all.dedup();
        Ok(all.join(", "))
    }
}

impl PackageFile {
    fn size(&self) -> Result<u64> {
        match &self.bytes {
            FileContent::Inline(bytes) => Ok(bytes.len() as u64),
            FileContent::CopyOf(path) => {
                Ok(fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::{Package, PackageFile};
    use crate::dist::glibc::GlibcVersion;

    #[test]
    fn a_package_says_what_it_needs_and_holds_what_it_should() {
        let folder = tempfile::tempdir().unwrap();
        let program = std::env::current_exe().unwrap();
        let package = Package {
            name: "sysop",
            architecture: "amd64",
            binary: &program,
            libc: GlibcVersion(2, 17),
            depends: "other (= 1)",
            recommends: "openssh-client",
            suggests: "",
            about: "A line",
            more: "One\ntwo.",
        };
        let files = vec![
            PackageFile::program("bin/sysop", Path::new("/bin/true")),
            PackageFile::packed("share/man/man1/sysop.1.gz", "a page").unwrap(),
        ];
        let made = package.build(folder.path(), files).unwrap();
        let says = |what: &str| {
            let run = Command::new("dpkg-deb").arg(what).arg(&made).output().unwrap();
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
            String::from_utf8(run.stdout).unwrap()
        };
        let control = says("--field");
        let depends = control.lines().find(|line| line.starts_with("Depends: ")).unwrap();
        for wanted in ["libc6 (>= 2.17)", "libgcc-s1", "other (= 1)"] {
            assert!(depends.contains(wanted), "{control}");
        }
        assert!(
            control.contains("Description: A line\n One\n two.\n") && !control.contains("Suggests"),
            "{control}"
        );
        let contents = says("--contents");
        for wanted in
            ["-rwxr-xr-x root/root", "./usr/bin/sysop", "./usr/share/man/man1/sysop.1.gz", "sysop/copyright"]
        {
            assert!(contents.contains(wanted), "{contents}");
        }
    }

    #[test]
    fn the_desktop_entry_is_valid() {
        let entry = crate::workspace::root().join("crates/sysop-desktop/share/sysop-desktop.desktop");
        let run = Command::new("desktop-file-validate").arg(entry).output().unwrap();
        assert!(run.status.success() && run.stdout.is_empty(), "{}", String::from_utf8_lossy(&run.stdout));
    }
}
