//! Directories and files that only the user can access.

use std::io::{self, Write};
use std::path::Path;

/// Creates a directory and its parents, accessible only to the user.
pub(crate) fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Creates the directory if necessary, and checks that files can be created and removed in it.
pub(crate) fn check_private_folder(folder: &Path) -> io::Result<()> {
    create_private_folder(folder)?;
    let file = folder.join(format!(".check.{}", std::process::id()));
    std::fs::write(&file, b"x")?;
    std::fs::remove_file(&file)
}

/// Atomically writes a file that only the user can read.
pub(crate) fn replace_private_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    let _ = std::fs::remove_file(&fresh); // left behind by an earlier process with this id
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&fresh).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.and_then(|()| std::fs::rename(&fresh, path)).inspect_err(|_| {
        let _ = std::fs::remove_file(&fresh);
    })
}
