//! File operations beneath a root that is opened once. No path is checked first and used later: the kernel resolves
//! each access beneath the root (`openat2` with `RESOLVE_BENEATH`), and all further steps use the opened file.
//!
//! A hard link looks like any other file, so its bytes can be read under either name. Writing to it puts a new file
//! under the name in the root and leaves the file under the other name unchanged.

use std::io::{self, Read, Write};
use std::path::Path;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, Metadata, MetadataExt, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};
use cap_tempfile::TempFile;
use rustix::fs::{Gid, OFlags, Uid, fchown};
use rustix::io::Errno;
use sysop_driver::port::CancellationToken;

use crate::machine::{
    FILE_BYTES_MAX, FileKind, FileStat, LIST_ENTRIES_MAX, Listing, MachineError, Precondition,
};
use crate::path::{RootPath, shown, split};

/// Maximum symbolic links followed in one path, as in Linux.
const LINKS_MAX: usize = 40;

pub(super) fn read(root: &Dir, path: &RootPath) -> Result<Vec<u8>, MachineError> {
    read_name(root, path.as_str(), FollowSymlinks::Yes, &path.to_string())
}

pub(super) fn write(
    root: &Dir,
    path: &RootPath,
    bytes: &[u8],
    before: &Precondition,
) -> Result<(), MachineError> {
    let told = path.to_string();
    let (folder, _) = path.split().ok_or_else(|| MachineError::IsFolder(told.clone()))?;
    if folder != "." {
        root.create_dir_all(folder).map_err(|error| plain(&error, &told))?;
    }
    let target = WriteTarget::find(root, path)?;
    target.check(before, &told)?;
    target.replace(bytes).map_err(|error| plain(&error, &told))
}

/// Removes a file. If it is a symbolic link, fails and removes neither the link nor its target.
pub(super) fn remove(root: &Dir, path: &RootPath, before: &Precondition) -> Result<(), MachineError> {
    let told = path.to_string();
    let target = WriteTarget::find(root, path)?;
    if target.links > 0 {
        return Err(MachineError::Refused(format!(
            "{told} is a symbolic link; file tools do not remove links"
        )));
    }
    target.check(before, &told)?;
    if target.there.is_none() {
        return Err(MachineError::NotFound(told));
    }
    target.folder.remove_file(&target.name).map_err(|error| plain(&error, &told))
}

pub(super) fn make_folder(root: &Dir, path: &RootPath) -> Result<(), MachineError> {
    let told = path.to_string();
    root.create_dir_all(path.as_str()).map_err(|error| plain(&error, &told))
}

pub(super) fn stat(root: &Dir, path: &RootPath) -> Result<FileStat, MachineError> {
    let told = path.to_string();
    let found = root.symlink_metadata(path.as_str()).map_err(|error| plain(&error, &told))?;
    let target = || root.read_link_contents(path.as_str());
    Ok(FileStat {
        kind: kind(&found, target),
        bytes: found.len(),
        mode: found.permissions().mode() & 0o7777,
        owner: (found.uid(), found.gid()),
        modified_s: found.mtime(),
    })
}

pub(super) fn list(root: &Dir, path: &RootPath, cancel: &CancellationToken) -> Result<Listing, MachineError> {
    let told = path.to_string();
    let folder = root.open_dir(path.as_str()).map_err(|error| plain(&error, &told))?;
    let mut listing = Listing::default();
    for entry in folder.entries().map_err(|error| plain(&error, &told))? {
        if cancel.is_cancelled() {
            return Err(MachineError::Cancelled);
        }
        let entry = entry.map_err(|error| plain(&error, &told))?;
        if listing.entries.len() == LIST_ENTRIES_MAX {
            listing.more = true;
            break;
        }
        let name = entry.file_name();
        // Skip entries that were removed in the meantime.
        if let Ok(found) = folder.symlink_metadata(&name) {
            let kind = kind(&found, || folder.read_link_contents(&name));
            listing.entries.push((name.to_string_lossy().into_owned(), kind));
        }
    }
    listing.entries.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(listing)
}

/// Target of a change: a file name in an open directory.
struct WriteTarget {
    folder: Dir,
    name: String,
    there: Option<Metadata>,
    links: usize,
}

impl WriteTarget {
    /// Follows links to the file that a change would affect. Fails if the target of a link does not exist.
    fn find(root: &Dir, path: &RootPath) -> Result<Self, MachineError> {
        let told = path.to_string();
        let mut at = path.as_str().to_owned();
        for links in 0..=LINKS_MAX {
            let (folder, name) = split(&at).ok_or_else(|| MachineError::IsFolder(told.clone()))?;
            let opened = root.open_dir(folder).map_err(|error| plain(&error, &told))?;
            let there = match opened.symlink_metadata(name) {
                Ok(found) if found.is_symlink() => {
                    let target = opened.read_link_contents(name).map_err(|error| plain(&error, &told))?;
                    at = beside(folder, &target).ok_or_else(|| MachineError::OutsideRoot(told.clone()))?;
                    continue;
                }
                Ok(found) if found.is_dir() => return Err(MachineError::IsFolder(told)),
                Ok(found) if !found.is_file() => return Err(MachineError::Special(told)),
                Ok(found) => Some(found),
                Err(error) if error.kind() == io::ErrorKind::NotFound && links == 0 => None,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(MachineError::DanglingLink(told));
                }
                Err(error) => return Err(plain(&error, &told)),
            };
            return Ok(Self { name: name.to_owned(), folder: opened, there, links });
        }
        Err(MachineError::Refused(format!("too many levels of symbolic links in {told}")))
    }

    fn check(&self, before: &Precondition, told: &str) -> Result<(), MachineError> {
        let expected = match before {
            Precondition::Any => return Ok(()),
            Precondition::Absent => self.there.is_none(),
            Precondition::Bytes(_) if self.there.is_none() => false,
            Precondition::Bytes(bytes) => {
                read_name(&self.folder, &self.name, FollowSymlinks::No, told)? == **bytes
            }
        };
        if expected { Ok(()) } else { Err(MachineError::Changed(told.to_owned())) }
    }

    /// Writes an unnamed file in the same directory, then gives it the name of the target.
    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let mut fresh = TempFile::new(&self.folder)?;
        fresh.write_all(bytes)?;
        if let Some(there) = &self.there {
            let file = fresh.as_file();
            let own = file.metadata()?;
            if (own.uid(), own.gid()) != (there.uid(), there.gid()) {
                // Only root may change the owner; otherwise the file becomes ours, as with any editor.
                let _ = fchown(file, Some(Uid::from_raw(there.uid())), Some(Gid::from_raw(there.gid())));
            }
            let mode = there.permissions().mode() & 0o7777;
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        fresh.as_file().sync_data()?;
        fresh.replace(&self.name)
    }
}

/// Converts a link's target to a path relative to the root. Returns `None` for an absolute target.
fn beside(folder: &str, target: &Path) -> Option<String> {
    let target = target.to_str().filter(|_| target.is_relative())?;
    Some(if folder == "." { target.to_owned() } else { format!("{folder}/{target}") })
}

fn read_name(dir: &Dir, name: &str, follow: FollowSymlinks, told: &str) -> Result<Vec<u8>, MachineError> {
    let mut options = OpenOptions::new();
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).expect("the flag fits in 32 bits");
    // Opening a pipe or a device must not block until its other end is opened.
    options.read(true).custom_flags(nonblocking).follow(follow);
    let mut file = dir.open_with(name, &options).map_err(|error| plain(&error, told))?;
    let found = file.metadata().map_err(|error| plain(&error, told))?;
    if found.is_dir() {
        return Err(MachineError::IsFolder(told.to_owned()));
    }
    if !found.is_file() {
        return Err(MachineError::Special(told.to_owned()));
    }
    let too_large = |bytes| MachineError::TooLarge { path: told.to_owned(), bytes, most: FILE_BYTES_MAX };
    if found.len() > FILE_BYTES_MAX {
        return Err(too_large(found.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(found.len()).unwrap_or(0) + 1);
    // Kernel files report a size of 0, and other files may grow.
    let read = (&mut file).take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| plain(&error, told))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(too_large(bytes.len() as u64));
    }
    Ok(bytes)
}

fn kind(found: &Metadata, target: impl FnOnce() -> io::Result<std::path::PathBuf>) -> FileKind {
    if found.is_symlink() {
        let target = target().map_or_else(|_| "?".to_owned(), |path| path.to_string_lossy().into_owned());
        FileKind::Link { target }
    } else if found.is_dir() {
        FileKind::Folder
    } else if found.is_file() {
        FileKind::File
    } else {
        FileKind::Special
    }
}

pub(super) fn plain(error: &io::Error, told: &str) -> MachineError {
    let told = told.to_owned();
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    match code {
        // cap-std's own refusals have no error code; the kernel returns EXDEV for a path that leaves the root.
        None if error.kind() == io::ErrorKind::PermissionDenied => MachineError::OutsideRoot(told),
        Some(Errno::XDEV) => MachineError::OutsideRoot(told),
        Some(Errno::NOENT) => MachineError::NotFound(told),
        Some(Errno::ISDIR) => MachineError::IsFolder(told),
        Some(Errno::NOTDIR) => MachineError::NotAFolder(told),
        Some(Errno::LOOP) => MachineError::Refused(format!("too many levels of symbolic links in {told}")),
        Some(Errno::NXIO) => MachineError::Special(told),
        Some(Errno::ACCESS | Errno::PERM) => MachineError::Refused(format!("{told}: permission denied")),
        Some(Errno::EXIST) => MachineError::Refused(format!("{told} exists but is not a directory")),
        Some(Errno::NAMETOOLONG) => MachineError::Refused(format!("{told}: file name too long")),
        Some(Errno::NOSPC | Errno::DQUOT) => {
            MachineError::Refused(format!("{told}: no space left on device"))
        }
        Some(Errno::ROFS) => MachineError::Refused(format!("{told}: the file system is read-only")),
        Some(_) | None => MachineError::Refused(format!("{told}: {}", shown(&error.to_string()))),
    }
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;
    use cap_std::fs::Dir;

    use super::{MachineError, Precondition, RootPath, remove, write};

    fn bytes(bytes: &[u8]) -> Precondition {
        Precondition::Bytes(std::sync::Arc::new(bytes.to_vec()))
    }

    fn root() -> (tempfile::TempDir, Dir) {
        let home = tempfile::tempdir().unwrap();
        let root = Dir::open_ambient_dir(home.path(), ambient_authority()).unwrap();
        (home, root)
    }

    #[test]
    fn a_file_changed_meanwhile_is_not_overwritten() {
        let (home, root) = root();
        let path = RootPath::parse("f", &[]).unwrap();
        let changed = Err(MachineError::Changed("f".to_owned()));
        assert_eq!(write(&root, &path, b"1", &bytes(b"0")), changed);
        assert_eq!(write(&root, &path, b"1", &Precondition::Absent), Ok(()));
        assert_eq!(write(&root, &path, b"2", &Precondition::Absent), changed);
        assert_eq!(write(&root, &path, b"2", &bytes(b"0")), changed);
        assert_eq!(remove(&root, &path, &bytes(b"0")), changed);
        assert_eq!(std::fs::read(home.path().join("f")).unwrap(), b"1");
        assert_eq!(write(&root, &path, b"2", &bytes(b"1")), Ok(()));
        assert_eq!(write(&root, &path, b"3", &Precondition::Any), Ok(()));
        assert_eq!(remove(&root, &path, &bytes(b"3")), Ok(()));
        assert_eq!(remove(&root, &path, &Precondition::Any), Err(MachineError::NotFound("f".to_owned())));
    }

    #[test]
    fn a_failed_write_leaves_no_file_behind() {
        let (home, root) = root();
        std::fs::create_dir(home.path().join("folder")).unwrap();
        let path = RootPath::parse("folder/f", &[]).unwrap();
        let target = super::WriteTarget::find(&root, &path).unwrap();
        // A directory takes the name between the lookup and the rename.
        std::fs::create_dir(home.path().join("folder/f")).unwrap();
        assert!(target.replace(b"x").is_err());
        assert_eq!(std::fs::read_dir(home.path().join("folder")).unwrap().count(), 1);
        assert!(home.path().join("folder/f").is_dir());
    }
}
