//! Checks the C library version that a program needs.

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Libraries in the Debian packages libc6 and libgcc-s1.
const C_LIBRARIES: [&str; 7] =
    ["libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "ld-linux", "libgcc_s.so.1"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GlibcVersion(pub(crate) u32, pub(crate) u32);

impl fmt::Display for GlibcVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Checks that a program starts with the `promised` version of the C library. Fails if the program needs a
/// newer version; the error names the symbols.
pub(crate) fn check(program: &Path, promised: GlibcVersion) -> Result<()> {
    let symbols = objdump(program, "-T")?;
    let needs = required_versions(&symbols);
    if needs.is_empty() {
        bail!("{} uses no versioned glibc symbol; cannot determine the required version", program.display());
    }
    let newer: Vec<&str> = needs
        .iter()
        .filter(|(version, _)| version.is_none_or(|version| version > promised))
        .map(|(_, line)| *line)
        .collect();
    if !newer.is_empty() {
        bail!("{} requires more than glibc {promised}:\n{}", program.display(), newer.join("\n"));
    }
    let newest = needs.iter().filter_map(|(version, _)| *version).max().unwrap_or(promised);
    eprintln!("==> {} requires glibc {newest} (limit: {promised})", program.display());
    Ok(())
}

/// Checks that a program links only libraries whose Debian packages are known: the libraries of the C library and the
/// compiler, and libraries whose names begin with one of `known`. Fails if the program links any other library; the
/// error names the first one.
pub(crate) fn check_libraries(program: &Path, known: &[&str]) -> Result<()> {
    let headers = objdump(program, "-p")?;
    let mut needed = headers.lines().filter_map(|line| line.trim().strip_prefix("NEEDED")).map(str::trim);
    match needed.find(|name| !C_LIBRARIES.iter().chain(known).any(|known| name.starts_with(known))) {
        Some(name) => {
            bail!("{} requires {name}; add its package to `depends` in its Cargo.toml", program.display())
        }
        None => Ok(()),
    }
}

fn objdump(program: &Path, what: &str) -> Result<String> {
    let run = Command::new("objdump").arg(what).arg(program).output().context("cannot start objdump")?;
    if !run.status.success() {
        bail!("objdump: {}", String::from_utf8_lossy(&run.stderr));
    }
    Ok(String::from_utf8_lossy(&run.stdout).into_owned())
}

/// Returns each line that mentions a glibc version, with that version. The version is `None` if it is not a
/// number, as in `GLIBC_ABI_DT_RELR`; only a newer loader knows such a version.
fn required_versions(symbols: &str) -> Vec<(Option<GlibcVersion>, &str)> {
    let of = |line| -> Option<(Option<GlibcVersion>, &str)> {
        let (_, after) = str::split_once(line, "GLIBC_")?;
        let number = after.split(|c: char| !(c.is_ascii_digit() || c == '.')).next().unwrap_or_default();
        let mut parts = number.split('.').map(str::parse);
        let version = match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Some(GlibcVersion(major, minor)),
            (_, _) => None,
        };
        Some((version, line))
    };
    symbols.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::{GlibcVersion, check, check_libraries, required_versions};

    #[test]
    fn versions_are_compared_as_numbers() {
        let symbols = "0 DF *UND* 0 (GLIBC_2.2.5) read\n0 DF *UND* 0 (GLIBC_2.34) x\n0 DF *UND* 0 (GCC_3.0) y\n\
                       0 DF *UND* 0 (GLIBC_ABI_DT_RELR) z\n";
        let found: Vec<_> = required_versions(symbols).into_iter().map(|(version, _)| version).collect();
        assert_eq!(found, [Some(GlibcVersion(2, 2)), Some(GlibcVersion(2, 34)), None]);
        assert!(GlibcVersion(2, 9) < GlibcVersion(2, 17));
    }

    #[test]
    fn the_required_glibc_of_a_program_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("a.c"), folder.path().join("a"));
        // This symbol is as old as that version.
        std::fs::write(
            &source,
            "#include <sys/random.h>\nint main(void) { char a; return getrandom(&a, 1, 0) != 1; }",
        )
        .unwrap();
        let made = Command::new("cc").arg("-o").args([&program, &source]).status().unwrap();
        assert!(made.success());
        let refused = check(&program, GlibcVersion(2, 17)).unwrap_err().to_string();
        assert!(refused.contains("getrandom") && refused.contains("2.17"), "{refused}");
        check(&program, GlibcVersion(9, 0)).unwrap();
        check_libraries(&program, &[]).unwrap();
    }

    #[test]
    fn a_library_without_a_known_package_is_reported() {
        let program = Path::new("/bin/bash");
        let refused = check_libraries(program, &[]).unwrap_err().to_string();
        assert!(refused.contains("/bin/bash requires libtinfo.so"), "{refused}");
        check_libraries(program, &["libtinfo.so"]).unwrap();
    }
}
