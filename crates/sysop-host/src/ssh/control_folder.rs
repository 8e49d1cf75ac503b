//! The folder for the socket of a connection: short, because a socket's path has hardly a hundred bytes, and for
//! its owner alone, because whoever opens the socket is logged in. A process that is killed leaves its sockets
//! there; the next one takes them away.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// The longest path of a socket that every system takes (macOS), with its final zero.
const SOCKET_BYTES_MAX: usize = 104;
/// What ssh appends to the path for a moment.
const SUFFIX_BYTES: usize = 17;
/// The name of a socket, with the slash before it.
const NAME_BYTES: usize = 1 + 16;

/// How many entries of the folder are looked at for what killed processes have left.
const SWEPT_ENTRIES_MAX: usize = 256;

/// A folder that is there.
#[derive(Debug)]
pub(super) struct ControlFolder {
    path: PathBuf,
    ours: bool,
}

impl ControlFolder {
    /// Takes the wished folder, where it can be used; else another.
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
        // A fresh name that nobody else can have prepared.
        let path = PathBuf::from(format!("/tmp/sysop-{:012x}", rand::random::<u64>() >> 16));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path, ours: true })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A new path for a socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.path.join(format!("c-{:012x}", rand::random::<u64>() >> 16))
    }
}

impl Drop for ControlFolder {
    fn drop(&mut self) {
        if self.ours {
            // What is in it is ours too; that it is gone already changes nothing.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn fits(folder: &Path) -> bool {
    folder.is_absolute() && folder.as_os_str().len() + NAME_BYTES + SUFFIX_BYTES < SOCKET_BYTES_MAX
}

/// Creates it, or makes sure that nobody else can enter it.
fn prepare(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    let private =
        found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0;
    if private { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Takes sockets away behind which nobody listens any more. Those of living processes are there from the moment
/// that somebody listens, and names with a dot are on their way to that.
fn sweep(folder: &Path) {
    let ours = |name: &OsStr| {
        let bytes = name.as_encoded_bytes();
        (bytes.starts_with(b"c-") || bytes.starts_with(b"ask-")) && !bytes.contains(&b'.')
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(SWEPT_ENTRIES_MAX);
    for entry in entries.filter(|entry| ours(&entry.file_name())) {
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        if is_socket && is_left_alone(&entry.path()) {
            // Another process may have been quicker.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_left_alone(socket: &Path) -> bool {
    let Ok(address) = SocketAddrUnix::new(socket) else { return false };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let Ok(own) = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None) else { return false };
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
            // The name of a socket outlives who listened there.
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
