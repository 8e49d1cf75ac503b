//! macOS: processes from `ps` and libproc, a thread that waits for a process, and no sandbox. It has never run; see
//! `platform`.
#![expect(unsafe_code, reason = "no safe API offers libproc and ptrace")]

use std::collections::HashMap;
use std::convert::Infallible;
use std::ffi::{CStr, OsString, c_int, c_short};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SendFlags, SocketType, socket};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};

use super::posix;
use super::process::{ProcessEntry, UserIds};
use crate::sandbox::{FenceRequest, OpenRoot};

/// Reason why there is no sandbox.
pub(crate) const NO_SANDBOX: &str = "sysop has no sandbox on macOS";
/// Way to go on without a sandbox.
pub(crate) const SANDBOX_REMEDY: &str = "run sysop on Linux, or set `sandbox = \"auto\"`";
/// Flags for a message on a socket. There is none against SIGPIPE, which Rust programs ignore anyway.
pub(crate) const SEND_FLAGS: SendFlags = SendFlags::empty();
/// `POSIX_SPAWN_SETSID` of macOS 10.15 and newer, which the libc crate lacks.
const SPAWN_SETSID: c_short = 0x0400;
/// Flags of `posix_spawn` for a new session. A program that `spawn` starts gets only its standard streams. All others,
/// which `std`, tokio and `pty_process` start, can inherit a pipe or a socket that another thread creates at that
/// moment, because macOS sets close-on-exec only afterwards.
pub(crate) const SPAWN_SESSION: c_short = SPAWN_SETSID | libc::POSIX_SPAWN_CLOEXEC_DEFAULT as c_short;

/// There is no fence on macOS, so this has no values.
pub(crate) struct KernelFence(Infallible);

impl KernelFence {
    pub(crate) fn build(request: &FenceRequest<'_>, _: Option<&Path>) -> io::Result<Self> {
        // Fields that nothing reads on a system without a fence would be dead code.
        let FenceRequest { root, tty: _tty, .. } = request;
        let _paths = root.map(|OpenRoot { folder, path }| (folder, path));
        Err(io::Error::new(io::ErrorKind::Unsupported, NO_SANDBOX))
    }

    pub(crate) fn enter(self) -> io::Result<u32> {
        match self.0 {}
    }
}

/// Reads all processes, which takes some tens of milliseconds.
pub fn processes() -> io::Result<HashMap<i32, ProcessEntry>> {
    posix::processes(name)
}

/// Returns the name of the program, or an empty one if the process has ended. The kernel tells it to every user.
fn name(pid: i32) -> String {
    // SAFETY: the kernel fills a `proc_bsdshortinfo` for this request.
    let short = unsafe { information::<libc::proc_bsdshortinfo>(pid, libc::PROC_PIDT_SHORTBSDINFO) };
    let bytes: Option<Vec<u8>> = short.map(|short| {
        let bytes = short.pbsi_comm.iter().map(|byte| byte.cast_unsigned());
        bytes.take_while(|byte| *byte != 0).collect()
    });
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}

/// Reads all processes, not only the ancestors: one `ps` for all takes less time than one for each.
pub fn lineage(_: i32, _: usize) -> io::Result<HashMap<i32, ProcessEntry>> {
    processes()
}

pub(crate) fn process(pid: i32) -> Option<ProcessEntry> {
    processes().ok()?.remove(&pid)
}

/// Returns the path of the executable, or `None` if the system hides it.
pub fn executable(pid: i32) -> Option<PathBuf> {
    let mut path = vec![0_u8; usize::try_from(libc::PROC_PIDPATHINFO_MAXSIZE).ok()?];
    let size = u32::try_from(path.len()).ok()?;
    // SAFETY: the buffer has `size` writable bytes.
    let length = unsafe { libc::proc_pidpath(pid, path.as_mut_ptr().cast(), size) };
    path.truncate(usize::try_from(length).ok().filter(|length| *length > 0)?);
    Some(OsString::from_vec(path).into())
}

/// Returns device and inode of the file at the executable's path.
pub fn executable_identity(pid: i32) -> Option<(u64, u64)> {
    fs::metadata(executable(pid)?).ok().map(|file| (file.dev(), file.ino()))
}

pub fn own_executable_identity() -> Option<(u64, u64)> {
    executable_identity(rustix::process::getpid().as_raw_nonzero().get())
}

/// Fails: macOS names a process after its executable.
pub fn name_process(_: &CStr) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Denies debuggers, and disables core dumps, also of programs that this process starts and that do not enable them.
/// macOS itself denies other access to the memory of a process, except to root. The initial environment is not hidden:
/// `ps -E` shows it to other programs of the user.
pub fn hide_memory() -> io::Result<()> {
    let maximum = getrlimit(Resource::Core).maximum;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum })?;
    // SAFETY: the request uses neither the address nor the data.
    let result = unsafe { libc::ptrace(libc::PT_DENY_ATTACH, 0, std::ptr::null_mut(), 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns true if this process certainly has one thread.
pub fn is_single_threaded() -> bool {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    // SAFETY: the kernel fills a `proc_taskinfo` for this request.
    let task = unsafe { information::<libc::proc_taskinfo>(own, libc::PROC_PIDTASKINFO) };
    task.is_some_and(|task| task.pti_threadnum == 1)
}

/// Returns the id of the user who logged in, whatever `sudo` and `su` did since, or `None` if there was no login.
pub fn login_user() -> Option<u32> {
    let name = posix::output_of("/usr/bin/logname", &[]).ok()?;
    posix::output_of("/usr/bin/id", &["-u", name.trim()]).ok()?.trim().parse().ok()
}

/// Returns the name of the account, or `None` if it has no name.
pub fn account_name(user: u32) -> Option<String> {
    let name = posix::output_of("/usr/bin/id", &["-un", &user.to_string()]).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Returns no processes if `ps` fails.
pub(crate) fn children(pid: i32) -> Vec<ProcessEntry> {
    let processes = processes().unwrap_or_default().into_values();
    processes.filter(|process| process.parent == pid).collect()
}

/// Always returns false, because macOS hides the environment of most processes. A process that has left the session and
/// the descendants of its command is therefore not found.
pub(crate) fn has_variable(_: i32, _: &str) -> bool {
    false
}

/// Returns the command line, split at spaces, or `None` if the process does not exist.
pub(crate) fn arguments(pid: i32) -> Option<Vec<String>> {
    posix::arguments(pid)
}

/// Returns the working directory, or `None` if it is unknown or removed.
pub(crate) fn working_folder(pid: i32) -> Option<PathBuf> {
    folders(pid).map(|(working, _)| working).filter(|folder| folder.is_dir())
}

/// Returns true if the process sees the same files as this one, that is, was not started by `chroot`.
pub(crate) fn shares_root(pid: i32) -> bool {
    folders(pid).is_some_and(|(_, root)| root.as_os_str().is_empty())
}

pub(crate) fn user_ids(pid: i32) -> Option<UserIds> {
    posix::user_ids(pid)
}

/// Returns true if the process has root privileges that this process lacks. For a process of root it is unknown why a
/// program has them, so the answer is false.
pub(crate) fn is_setuid_root(pid: i32) -> bool {
    user_ids(pid).is_some_and(|ids| ids.effective == 0) && !rustix::process::geteuid().is_root()
}

/// Returns a descriptor that becomes readable when this child exits, or when it has been reaped.
pub(crate) fn exit_descriptor(pid: Pid) -> io::Result<OwnedFd> {
    posix::exit_descriptor(pid)
}

/// Returns an empty file without a name, which exists as long as it is open.
pub(crate) fn anonymous_file(_: &str) -> io::Result<OwnedFd> {
    Ok(tempfile::tempfile()?.into())
}

/// Returns an unconnected socket for local connections that never blocks.
pub(crate) fn local_socket() -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    fcntl_setfl(&socket, OFlags::NONBLOCK)?;
    Ok(socket)
}

/// Does nothing: the kernel grows pipes by itself.
pub(crate) fn grow_pipe(_: impl AsFd, _: usize) {}

/// Returns the working directory and the root. The root is empty for a process without a root of its own.
fn folders(pid: i32) -> Option<(PathBuf, PathBuf)> {
    // SAFETY: the kernel fills a `proc_vnodepathinfo` for this request.
    let paths = unsafe { information::<libc::proc_vnodepathinfo>(pid, libc::PROC_PIDVNODEPATHINFO) }?;
    let path = |bytes: &[[libc::c_char; 32]; 32]| {
        let bytes = bytes.as_flattened().iter().map(|byte| byte.cast_unsigned());
        PathBuf::from(OsString::from_vec(bytes.take_while(|byte| *byte != 0).collect()))
    };
    Some((path(&paths.pvi_cdir.vip_path), path(&paths.pvi_rdir.vip_path)))
}

/// Asks the kernel about a process; returns `None` if it refuses.
///
/// # Safety
///
/// `T` must be the type that the kernel fills for this request.
unsafe fn information<T>(pid: c_int, request: c_int) -> Option<T> {
    let size = c_int::try_from(size_of::<T>()).ok()?;
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the buffer has `size` writable bytes. The value counts as initialized only if the kernel filled all of
    // it, and the caller guarantees that it is a `T`.
    unsafe {
        let filled = libc::proc_pidinfo(pid, request, 0, value.as_mut_ptr().cast(), size);
        (filled == size).then(|| value.assume_init())
    }
}
