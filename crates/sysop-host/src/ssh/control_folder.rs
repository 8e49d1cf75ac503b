//! Directory of a connection's socket. Its path is short, because socket paths are limited to about a hundred bytes. It
//! is private, because anyone who can use the socket is logged in. A killed process leaves its sockets behind; the next
//! process removes them.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, connect};

use crate::platform::local_socket;

/// Bytes of the longest socket path that every system accepts, with the NUL byte. macOS has the lowest limit.
const SOCKET_BYTES_MAX: usize = 104;
/// Length in bytes of the suffix that ssh temporarily appends to the socket's path.
const SUFFIX_BYTES: usize = 17;
/// Length in bytes of a socket's name with the preceding slash.
const NAME_BYTES: usize = 1 + 16;

/// Maximum directory entries checked for sockets of killed processes.
const SWEPT_ENTRIES_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct ControlFolder {
    path: PathBuf,
    ours: bool,
}

impl ControlFolder {
    /// Opens the directory `wished` if it is usable, else `sysop` in `$XDG_RUNTIME_DIR`, else a new one below `/tmp`.
    pub(super) fn open(wished: &Path) -> io::Result<Self> {
        if fits(wished) && prepare(wished).is_ok() {
            sweep(wished);
            return Ok(Self { path: wished.to_owned(), ours: false });
        }
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(|folder| PathBuf::from(folder).join("sysop"));
        if let Some(folder) = runtime.filter(|folder| folder.is_absolute() && fits(folder))
            && prepare(&folder).is_ok()
        {
            sweep(&folder);
            return Ok(Self { path: folder, ours: false });
        }
        // Random, so that no other user can create it in advance.
        let path = PathBuf::from(format!("/tmp/sysop-{:012x}", rand::random::<u64>() >> 16));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path, ours: true })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.path.join(format!("c-{:012x}", rand::random::<u64>() >> 16))
    }
}

impl Drop for ControlFolder {
    fn drop(&mut self) {
        if self.ours {
            // Everything in the directory is ours. The directory may already be gone.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn fits(folder: &Path) -> bool {
    folder.is_absolute() && folder.as_os_str().len() + NAME_BYTES + SUFFIX_BYTES < SOCKET_BYTES_MAX
}

/// Creates the directory, or verifies that only the owner can enter it.
fn prepare(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    let private =
        found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0;
    if private { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Removes sockets that no process listens on. A running process gives a socket its final name only once it listens.
/// Sockets with a dot in their name are still being set up and are kept.
fn sweep(folder: &Path) {
    let ours = |name: &OsStr| {
        let bytes = name.as_encoded_bytes();
        (bytes.starts_with(b"c-") || bytes.starts_with(b"ask-")) && !bytes.contains(&b'.')
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(SWEPT_ENTRIES_MAX);
    for entry in entries.filter(|entry| ours(&entry.file_name())) {
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        if is_socket && is_left_alone(&entry.path()) {
            // Another process may have removed it first.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_left_alone(socket: &Path) -> bool {
    let Ok(address) = SocketAddrUnix::new(socket) else { return false };
    let Ok(own) = local_socket() else { return false };
    matches!(connect(&own, &address), Err(Errno::CONNREFUSED))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use super::{ControlFolder, SOCKET_BYTES_MAX, SUFFIX_BYTES};

    #[test]
    fn a_long_or_shared_control_directory_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let short = home.path().join("s");
        let folder = ControlFolder::open(&short).unwrap();
        assert!(folder.socket().starts_with(&short));
        let mode = std::fs::metadata(&short).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700);
        let open = home.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        for unfit in [home.path().join("l".repeat(100)), open, "relative".into()] {
            let folder = ControlFolder::open(&unfit).unwrap();
            let socket = folder.socket();
            assert!(!socket.starts_with(&unfit));
            assert!(socket.as_os_str().len() + SUFFIX_BYTES < SOCKET_BYTES_MAX);
            let parent = socket.parent().unwrap();
            assert_eq!(std::fs::metadata(parent).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn our_control_directory_is_removed() {
        let folder = ControlFolder { path: tempfile::tempdir().unwrap().keep(), ours: true };
        let path = folder.path.clone();
        std::fs::write(path.join("rest"), "").unwrap();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn only_files_of_killed_processes_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("s");
        drop(ControlFolder::open(&folder).unwrap());
        let left = ["c-0123", "ask-0123"];
        for name in left.into_iter().chain(["other", "c-0123.new"]) {
            // A socket's file remains after its listener closes.
            drop(UnixListener::bind(folder.join(name)).unwrap());
        }
        let _living = UnixListener::bind(folder.join("c-4567")).unwrap();
        std::fs::write(folder.join("c-file"), "").unwrap();
        ControlFolder::open(&folder).unwrap();
        let names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["c-0123.new", "c-4567", "c-file", "other"]);
    }
}
