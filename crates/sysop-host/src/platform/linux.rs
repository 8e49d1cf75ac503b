//! Linux: processes from `/proc` (proc(5)), pidfds, memory files, and fences (`fence`).

mod fence;
mod rules;
mod syscalls;

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socket_with};
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, pidfd_open, set_dumpable_behavior};

pub(crate) use self::fence::{KernelFence, NO_SANDBOX};
use super::process::{ProcessEntry, ProcessState, UserIds};

/// Way to get a sandbox, or to go on without it.
pub(crate) const SANDBOX_REMEDY: &str =
    "use a kernel with Landlock (5.19 or later), or set `sandbox = \"auto\"`";
/// Flags for a message on a socket: no SIGPIPE if the other end is closed.
pub(crate) const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL;
/// Flags of `posix_spawn` for a new session.
pub(crate) const SPAWN_SESSION: libc::c_short = libc::POSIX_SPAWN_SETSID;
/// Maximum length of a line in `/proc/PID/stat`: 52 numbers and a short name.
const STAT_BYTES_MAX: usize = 2048;
/// Value of `/proc/self/loginuid` in a process that was not started by a login.
const NO_LOGIN: &str = "4294967295";

/// Reads all processes, which takes a few milliseconds. Returns none if there is no `/proc`.
pub fn processes() -> io::Result<HashMap<i32, ProcessEntry>> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    Ok(pids.filter_map(|pid| Some((pid, process(pid)?))).collect())
}

/// Reads a process and its ancestors, at most `most` processes, instead of all.
pub fn lineage(pid: i32, most: usize) -> io::Result<HashMap<i32, ProcessEntry>> {
    let with_id = |pid: i32| Some((pid, process(pid)?));
    let lineage = std::iter::successors(with_id(pid), |(_, process)| with_id(process.parent));
    Ok(lineage.take(most).collect())
}

/// Returns `None` if the process or `/proc` does not exist.
pub(crate) fn process(pid: i32) -> Option<ProcessEntry> {
    // A single `read` is enough: the kernel returns the whole line.
    let mut line = [0; STAT_BYTES_MAX];
    let length = fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
    parse_stat(&String::from_utf8_lossy(&line[..length]))
}

/// Returns the path of the executable; a removed one ends in ` (deleted)`. Returns `None` if the system hides it.
pub fn executable(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// Returns device and inode of the executable, even if its path leads to another file by now.
pub fn executable_identity(pid: i32) -> Option<(u64, u64)> {
    identity(Path::new(&format!("/proc/{pid}/exe")))
}

pub fn own_executable_identity() -> Option<(u64, u64)> {
    identity(Path::new("/proc/self/exe"))
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Sets the name of this process in the table of processes; at most 15 bytes are kept.
pub fn name_process(name: &CStr) -> io::Result<()> {
    Ok(rustix::thread::set_name(name)?)
}

/// Denies the user's other programs access to this process's memory. Also disables core dumps.
pub fn hide_memory() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Returns true if this process certainly has one thread.
pub fn is_single_threaded() -> bool {
    fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// Returns the id of the user who logged in, whatever `sudo` and `su` did since, or `None` if there was no login. The
/// kernel keeps this id, and only privileged processes can set it.
pub fn login_user() -> Option<u32> {
    parse_login(fs::read_to_string("/proc/self/loginuid").ok()?.trim())
}

fn parse_login(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text != NO_LOGIN)
}

/// Returns the name of the account, or `None` if it has no name.
pub fn account_name(user: u32) -> Option<String> {
    let accounts = fs::read_to_string("/etc/passwd").ok()?;
    let user = user.to_string();
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == user && !name.is_empty()).then(|| name.to_owned())
    })
}

pub(crate) fn children(pid: i32) -> Vec<ProcessEntry> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split(' ').filter_map(|child| process(child.parse().ok()?)).collect()
}

/// Returns true if the process's initial environment has the variable.
pub(crate) fn has_variable(pid: i32, name: &str) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    environment
        .split(|byte| *byte == 0)
        .any(|entry| entry.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
}

/// Returns the command line, or `None` if the process does not exist.
pub(crate) fn arguments(pid: i32) -> Option<Vec<String>> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line);
    Some(line.trim_end_matches('\0').split('\0').map(str::to_owned).collect())
}

/// Returns the working directory, or `None` if it is unknown or removed.
pub(crate) fn working_folder(pid: i32) -> Option<PathBuf> {
    let folder = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    // Suffix that the kernel appends to a removed directory.
    (!folder.to_string_lossy().ends_with(" (deleted)")).then_some(folder)
}

/// Returns true if the process sees the same files as this one: the same mounts and the same root.
pub(crate) fn shares_root(pid: i32) -> bool {
    ["ns/mnt", "root"].iter().all(|name| {
        let of = |process: &str| fs::read_link(format!("/proc/{process}/{name}")).ok();
        let theirs = of(&pid.to_string());
        theirs.is_some() && theirs == of("self")
    })
}

pub(crate) fn user_ids(pid: i32) -> Option<UserIds> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut ids = ids.split_whitespace().map(str::parse);
    Some(UserIds { real: ids.next()?.ok()?, effective: ids.next()?.ok()? })
}

/// Returns true if the process has root privileges because of its executable. The file is checked through the process,
/// because its path may lead to another file.
pub(crate) fn is_setuid_root(pid: i32) -> bool {
    if let Ok(file) = fs::metadata(format!("/proc/{pid}/exe")) {
        return file.uid() == 0 && file.mode() & 0o4000 != 0;
    }
    // The kernel hides the executable of a process with more privileges than ours.
    user_ids(pid).is_some_and(|ids| ids.effective == 0) && !rustix::process::geteuid().is_root()
}

/// Returns a descriptor that becomes readable when the process exits. Fails before Linux 5.3.
pub(crate) fn exit_descriptor(pid: Pid) -> io::Result<OwnedFd> {
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Returns an empty file without a name, which exists as long as it is open.
pub(crate) fn anonymous_file(name: &str) -> io::Result<OwnedFd> {
    Ok(memfd_create(name, MemfdFlags::CLOEXEC)?)
}

/// Returns an unconnected socket for local connections that never blocks.
pub(crate) fn local_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Sets the capacity of a pipe to about `bytes`. Errors are ignored: a smaller pipe is only slower.
pub(crate) fn grow_pipe(pipe: impl AsFd, bytes: usize) {
    let _ = fcntl_setpipe_size(pipe, bytes);
}

/// Parses a line of `/proc/PID/stat`: `id (name) state parent group session terminal …`. The name may contain any
/// character, so it ends at the last `)`.
fn parse_stat(line: &str) -> Option<ProcessEntry> {
    let (start, rest) = line.rsplit_once(')')?;
    let (_, name) = start.split_once('(')?;
    let mut fields = rest.split_whitespace();
    let state = match fields.next()? {
        "S" => ProcessState::Sleeping,
        "Z" | "X" => ProcessState::Ended,
        _ => ProcessState::Other,
    };
    let mut number = || fields.next()?.parse().ok();
    let (parent, group, session, terminal) = (number()?, number()?, number()?, number()?);
    Some(ProcessEntry { name: name.to_owned(), state, parent, group, session, terminal })
}

#[cfg(test)]
mod tests {
    use super::{ProcessState, parse_login, parse_stat};

    #[test]
    fn process_names_with_parentheses_and_spaces_are_parsed() {
        let process = parse_stat("7 (a) 1 (sysop) S 12 7 9 34817 7 4194304").unwrap();
        assert_eq!((process.parent, process.group, process.session, process.terminal), (12, 7, 9, 34817));
        assert_eq!((process.name.as_str(), process.state), ("a) 1 (sysop", ProcessState::Sleeping));
        assert_eq!(parse_stat("7 (a) Z 5 6 4 0").unwrap().state, ProcessState::Ended);
        assert!(parse_stat("7 sysop S 12").is_none());
        assert!(parse_stat("").is_none());
    }

    #[test]
    fn a_process_without_a_login_has_no_login_user() {
        assert_eq!(parse_login("1000"), Some(1000));
        assert_eq!(parse_login("4294967295"), None, "a service");
        assert_eq!(parse_login(""), None, "a kernel without audit");
        assert_eq!(parse_login("x"), None);
    }
}
