//! Unpacks a server build's archive, whose hash has already been verified, and finds the program in it.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use crate::catalog::SERVER_NAME;

const UNPACKED_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Maximum depth of the program in the directory: `llama-b11146/llama-server` or `build/bin/llama-server`.
const DEPTH_MAX: usize = 3;

/// Unpacks a `.tar.gz` file into the directory `target`, which is emptied first. Fails if an entry lies outside
/// `target`.
pub(crate) fn unpack(archive: &Path, target: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(target); // left by an earlier attempt
    fs::create_dir_all(target).map_err(|error| error.to_string())?;
    let file = File::open(archive).map_err(|error| error.to_string())?;
    let mut unpacked = tar::Archive::new(GzDecoder::new(file).take(UNPACKED_BYTES_MAX));
    unpacked.set_preserve_mtime(false);
    for entry in unpacked.entries().map_err(|error| error.to_string())? {
        let mut entry = entry.map_err(|error| error.to_string())?;
        let inside = entry.unpack_in(target).map_err(|error| error.to_string())?;
        if !inside {
            return Err("an entry would be extracted outside the target directory".to_owned());
        }
    }
    Ok(())
}

/// Returns the server program below a directory.
pub(crate) fn find(folder: &Path) -> Option<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    for _ in 0..DEPTH_MAX {
        let direct = folders.iter().map(|folder| folder.join(SERVER_NAME)).find(|program| program.is_file());
        if direct.is_some() {
            return direct;
        }
        let inner = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        let inner = inner.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders = inner.map(|entry| entry.path()).collect();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};

    fn archive(path: &Path, entries: &[(&str, &str)]) {
        let mut builder = tar::Builder::new(GzEncoder::new(File::create(path).unwrap(), Compression::fast()));
        for (name, text) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o755);
            // `set_path` refuses what a hostile archive contains.
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            builder.append(&header, text.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap();
    }

    #[test]
    fn a_build_is_unpacked_and_its_program_found() {
        let dir = tempfile::tempdir().unwrap();
        let (file, target) = (dir.path().join("a.tar.gz"), dir.path().join("out"));
        archive(&file, &[("llama-b1/llama-server", "program"), ("llama-b1/libggml.so", "library")]);
        unpack(&file, &target).unwrap();
        assert_eq!(find(&target), Some(target.join("llama-b1/llama-server")));
    }

    #[test]
    fn an_archive_that_leaves_its_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (file, target) = (dir.path().join("a.tar.gz"), dir.path().join("in/out"));
        archive(&file, &[("../escaped", "x")]);
        assert!(unpack(&file, &target).is_err());
        assert!(!dir.path().join("in/escaped").exists());
    }

    #[test]
    fn a_damaged_archive_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.tar.gz");
        fs::write(&file, "no archive").unwrap();
        assert!(unpack(&file, &dir.path().join("out")).is_err());
    }
}
