//! The directory with the models and the server builds: file names, which files are complete, and their removal.
//!
//! A file name contains the first digits of the hash, so a table with a different pin looks for a different
//! file. A file at its final name is complete; an unfinished one ends with `.part`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::archive;
use crate::catalog::{ModelEntry, Pin, SERVER_NAME, ServerBuild};

const HASH_DIGITS: usize = 12;
/// Extension of a model's file.
const GGUF: &str = ".gguf";

#[derive(Debug, Clone)]
pub struct ModelFolder(PathBuf);

/// A `llama-server` that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledServer {
    pub program: PathBuf,
    /// True if `sysop model get` installed the program; false if it is from PATH.
    pub pinned: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file system operation failed.
    #[error("cannot change {}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    /// The server's archive is not usable.
    #[error("the archive of llama-server cannot be used: {0}")]
    Archive(String),
}

impl ModelFolder {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Creates the directory, readable only by the user.
    pub fn create(&self) -> Result<(), FolderError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.0).map_err(|error| self.failed(error))
    }

    /// Returns the path that the model's file has when it is complete. A model without a known hash has no file.
    pub fn model_file(&self, model: &ModelEntry) -> Option<PathBuf> {
        Some(self.0.join(format!("{}-{}{GGUF}", model.name, digits(&model.pin)?)))
    }

    /// Returns the model's file if it is complete.
    pub fn installed(&self, model: &ModelEntry) -> Option<PathBuf> {
        let file = self.model_file(model)?;
        let length = fs::metadata(&file).ok().filter(fs::Metadata::is_file)?.len();
        (model.pin.size.is_none_or(|size| size == length)).then_some(file)
    }

    /// Returns the number of bytes in an unfinished download of the model, or 0 if there is none.
    pub fn part_bytes(&self, model: &ModelEntry) -> u64 {
        let part = self.model_file(model).map(|file| crate::download::part_path(&file));
        part.and_then(|part| fs::metadata(part).ok()).map_or(0, |part| part.len())
    }

    pub fn server_archive(&self, build: &ServerBuild) -> Option<PathBuf> {
        Some(self.0.join(format!("{}.tar.gz", server_name(build)?)))
    }

    /// Returns the server that `sysop model get` installed, otherwise the one on `path`, which is the value of PATH.
    pub fn server(&self, build: Option<&ServerBuild>, path: Option<&str>) -> Option<InstalledServer> {
        let pinned = build.and_then(|build| archive::find(&self.0.join(server_name(build)?)));
        if let Some(program) = pinned {
            return Some(InstalledServer { program, pinned: true });
        }
        let program = which::which_in_global(SERVER_NAME, path).ok()?.next()?;
        Some(InstalledServer { program, pinned: false })
    }

    /// Unpacks the archive of a build, which must have been checked, and removes the archive. Fails if the archive is
    /// damaged, contains no server, or the disk is full. Nothing remains at the final path.
    pub fn unpack_server(&self, build: &ServerBuild) -> Result<PathBuf, FolderError> {
        let name =
            server_name(build).ok_or_else(|| FolderError::Archive("the hash is unknown".to_owned()))?;
        let archive_file = self.0.join(format!("{name}.tar.gz"));
        let (target, fresh) = (self.0.join(&name), self.0.join(format!("{name}.fresh")));
        let unpacked = archive::unpack(&archive_file, &fresh).and_then(|()| {
            archive::find(&fresh).ok_or_else(|| format!("the program {SERVER_NAME} is missing"))?;
            let _ = fs::remove_dir_all(&target); // left incomplete by an earlier version
            fs::rename(&fresh, &target).map_err(|error| error.to_string())
        });
        if let Err(why) = unpacked {
            let _ = fs::remove_dir_all(&fresh);
            return Err(FolderError::Archive(why));
        }
        let _ = fs::remove_file(&archive_file); // only saves space
        archive::find(&target).ok_or_else(|| {
            let why = "the extracted files are missing; another process may have removed them; try again";
            FolderError::Archive(why.to_owned())
        })
    }

    /// Removes all files of a model, or of the server, including unfinished files and files with other
    /// hashes. Returns the number of freed bytes; 0 if there was nothing.
    pub fn remove(&self, name: &str) -> Result<u64, FolderError> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(self.failed(error)),
        };
        let mut freed = 0;
        for entry in entries.flatten() {
            let path = entry.path();
            if !entry.file_name().to_str().is_some_and(|file| is_of(file, name)) {
                continue;
            }
            let failed = |error| FolderError::Io { path: path.clone(), error };
            freed += size_of(&path);
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.map_err(failed)?;
        }
        Ok(freed)
    }

    /// Returns the free bytes on the disk that holds the directory.
    pub fn free_bytes(&self) -> Result<u64, FolderError> {
        crate::download::free_bytes(&self.0).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> FolderError {
        FolderError::Io { path: self.0.clone(), error }
    }
}

fn digits(pin: &Pin) -> Option<&str> {
    pin.sha256.as_deref().map(|hash| &hash[..HASH_DIGITS])
}

fn server_name(build: &ServerBuild) -> Option<String> {
    Some(format!("{SERVER_NAME}-{}", digits(&build.pin)?))
}

/// Returns true if `file` is `NAME-DIGITS` with an extension. Names may be prefixes of each other.
fn is_of(file: &str, name: &str) -> bool {
    let rest = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
    rest.and_then(|rest| rest.split_at_checked(HASH_DIGITS)).is_some_and(|(hash, ending)| {
        hash.bytes().all(|digit| digit.is_ascii_hexdigit()) && (ending.is_empty() || ending.starts_with('.'))
    })
}

fn size_of(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
    if !metadata.is_dir() {
        return metadata.len();
    }
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| size_of(&entry.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;

    fn model(name: &str) -> ModelEntry {
        let catalog = Catalog::built_in();
        let mut model = catalog.model(name).unwrap().clone();
        model.pin.size = Some(4);
        model
    }

    #[test]
    fn a_model_is_installed_only_if_its_file_has_the_size_of_the_table() {
        let dir = tempfile::tempdir().unwrap();
        let folder = ModelFolder::new(dir.path());
        let model = model("qwen3.5-2b");
        let file = folder.model_file(&model).unwrap();
        assert_eq!(file.file_name().unwrap(), "qwen3.5-2b-aaf42c8b7c3c.gguf");
        assert_eq!(folder.installed(&model), None);
        fs::write(&file, "abc").unwrap();
        assert_eq!(folder.installed(&model), None);
        fs::write(&file, "abcd").unwrap();
        assert_eq!(folder.installed(&model), Some(file));
    }

    #[test]
    fn removal_takes_the_files_of_one_model_only() {
        let dir = tempfile::tempdir().unwrap();
        let folder = ModelFolder::new(dir.path().join("models"));
        assert_eq!(folder.remove("a").unwrap(), 0);
        folder.create().unwrap();
        for file in
            ["a-0123456789ab.gguf", "a-0123456789ab.gguf.part", "a-b-0123456789ab.gguf", "a-x.gguf", "a"]
        {
            fs::write(folder.path().join(file), "1234").unwrap();
        }
        assert_eq!(folder.remove("a").unwrap(), 8);
        let mut rest: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        rest.sort();
        assert_eq!(rest, ["a", "a-b-0123456789ab.gguf", "a-x.gguf"]);
    }

    #[test]
    fn the_installed_server_precedes_the_one_on_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let folder = ModelFolder::new(dir.path().join("models"));
        let (catalog, bin) = (Catalog::built_in(), dir.path().join("bin"));
        let build = catalog.server("linux", "x86_64").unwrap();
        let path = bin.to_str();
        assert_eq!(folder.server(Some(build), path), None);
        program(&bin.join(SERVER_NAME));
        assert_eq!(folder.server(Some(build), path).map(|it| it.pinned), Some(false));
        program(&folder.path().join("llama-server-c150306eb16b/llama-b11146").join(SERVER_NAME));
        assert_eq!(folder.server(Some(build), path).map(|it| it.pinned), Some(true));
    }

    fn program(path: &Path) {
        use std::os::unix::fs::PermissionsExt;
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}
