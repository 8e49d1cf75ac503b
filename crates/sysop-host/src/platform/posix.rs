//! Parts for a system without `/proc` and pidfds: processes from `ps`, and a thread that waits for a process. Used on
//! macOS, and tested on Linux, whose `ps` has the same columns.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::io::retry_on_intr;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::process::{ProcessEntry, ProcessState, UserIds};

/// A path that no user can replace. It works also if `PATH` is unset.
const PS: &str = "/bin/ps";

/// Runs a program and returns its output. Fails if the program fails.
pub(super) fn output_of(program: &str, arguments: &[&str]) -> io::Result<String> {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("LC_ALL", "C").stdin(Stdio::null());
    let output = command.output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("{program} failed: {}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Reads all processes with `ps`, except their names, for which it calls `name`: `ps` of macOS prints a name as it is,
/// also one that contains a line break. The sessions come from the kernel, because `ps` of macOS does not show them.
pub(super) fn processes(name: impl Fn(i32) -> String) -> io::Result<HashMap<i32, ProcessEntry>> {
    let columns = ["pid=", "ppid=", "pgid=", "tty=", "stat="].map(|column| ["-o", column]);
    let table = output_of(PS, &[&["-ax"], columns.as_flattened()].concat())?;
    parse_table(&table, session, name)
}

/// Returns the session of a process, which is 0 for a thread of the kernel. Returns `None` for an unknown process.
fn session(pid: i32) -> Option<i32> {
    // SAFETY: the call uses no memory. That of rustix takes a session of 0 for impossible.
    #[expect(unsafe_code, reason = "the safe API panics about threads of the kernel")]
    let session = unsafe { libc::getsid(pid) };
    // `getsid(0)` is about this process.
    (pid > 0 && session >= 0).then_some(session)
}

/// Parses lines of `pid parent group terminal state`. A process that has ended meanwhile has no session any more, and
/// gets 0. Fails at any other line, and at a process that occurs twice.
fn parse_table<'a>(
    table: &'a str,
    session: impl Fn(i32) -> Option<i32>,
    name: impl Fn(i32) -> String,
) -> io::Result<HashMap<i32, ProcessEntry>> {
    let mut terminals: Vec<&str> = Vec::new();
    let mut numbered = |name| {
        if matches!(name, "?" | "??" | "-") {
            return 0;
        }
        let known = terminals.iter().position(|terminal| *terminal == name);
        let index = known.unwrap_or_else(|| {
            terminals.push(name);
            terminals.len() - 1
        });
        i32::try_from(index + 1).unwrap_or(i32::MAX)
    };
    let mut parse = |line: &'a str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[pid, parent, group, terminal, state] = words.as_slice() else { return None };
        let pid = pid.parse().ok()?;
        let state = match state.as_bytes().first()? {
            b'S' | b'I' => ProcessState::Sleeping,
            b'Z' => ProcessState::Ended,
            _ => ProcessState::Other,
        };
        let (parent, group) = (parent.parse().ok()?, group.parse().ok()?);
        let (session, terminal) = (session(pid).unwrap_or(0), numbered(terminal));
        Some((pid, ProcessEntry { name: name(pid), state, parent, group, session, terminal }))
    };
    let mut processes = HashMap::new();
    for line in table.lines() {
        let unexpected = || io::Error::other(format!("unexpected line of {PS}: {line:?}"));
        let (pid, entry) = parse(line).ok_or_else(unexpected)?;
        if processes.insert(pid, entry).is_some() {
            return Err(unexpected());
        }
    }
    Ok(processes)
}

/// Returns the words of the command line. A word with spaces counts as several, because `ps` joins them.
pub(super) fn arguments(pid: i32) -> Option<Vec<String>> {
    let line = output_of(PS, &["-ww", "-o", "args=", "-p", &pid.to_string()]).ok()?;
    Some(line.split_whitespace().map(str::to_owned).collect())
}

pub(super) fn user_ids(pid: i32) -> Option<UserIds> {
    let ids = output_of(PS, &["-o", "ruid=", "-o", "uid=", "-p", &pid.to_string()]).ok()?;
    let mut ids = ids.split_whitespace().map(str::parse);
    Some(UserIds { real: ids.next()?.ok()?, effective: ids.next()?.ok()? })
}

/// Returns a descriptor that becomes readable when this child exits, or when it has been reaped. A thread waits for the
/// exit and then closes the other end of a pipe.
pub(super) fn exit_descriptor(pid: Pid) -> io::Result<OwnedFd> {
    let (read, write) = io::pipe()?;
    std::thread::Builder::new().name("wait".to_owned()).spawn(move || {
        // An error means that there is no such child any more.
        let _ = retry_on_intr(|| waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT));
        drop(write);
    })?;
    Ok(read.into())
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::platform;

    fn own_pid() -> i32 {
        rustix::process::getpid().as_raw_nonzero().get()
    }

    /// Returns the name that Linux knows.
    fn name(pid: i32) -> String {
        platform::process(pid).map(|process| process.name).unwrap_or_default()
    }

    #[test]
    fn ps_and_the_kernel_agree_about_this_process() {
        let kernel = platform::process(own_pid()).unwrap();
        let ps = processes(name).unwrap().remove(&own_pid()).unwrap();
        assert_eq!((ps.parent, ps.group, ps.session), (kernel.parent, kernel.group, kernel.session));
        assert_eq!(ps.name, kernel.name);
        assert_eq!(ps.terminal == 0, kernel.terminal == 0);
        assert_eq!(user_ids(own_pid()), platform::user_ids(own_pid()));
        assert!(user_ids(i32::MAX).is_none());
        let first = std::env::args().next().unwrap();
        assert_eq!(arguments(own_pid()).unwrap()[0], first);
    }

    #[test]
    fn a_program_cannot_change_the_table_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        // Linux keeps 15 bytes of a name.
        for name_of_program in [" ", "x\n1 9 9 ? Z"] {
            let program = folder.path().join(name_of_program);
            std::os::unix::fs::symlink("/bin/cat", &program).unwrap();
            let mut child = Command::new(&program).stdin(Stdio::piped()).spawn().unwrap();
            let pid = Pid::from_child(&child).as_raw_nonzero().get();
            let table = processes(name).unwrap();
            assert_eq!((table[&pid].name.as_str(), table[&pid].parent), (name_of_program, own_pid()));
            assert_eq!(table[&1].parent, 0);
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

    #[test]
    fn lines_of_ps_are_parsed() {
        let table = "    1     0     1 ??       Ss\n  501     1   501 ttys001  S+  \n\
                       502   501   501 ttys001  Z\n  503     1   503 ttys002  R\n";
        let table = parse_table(table, |pid| (pid != 502).then_some(pid), |pid| format!("p {pid}")).unwrap();
        let entry = |pid: i32| {
            let process = &table[&pid];
            (process.name.as_str(), process.state, process.parent, process.session, process.terminal)
        };
        assert_eq!(table.len(), 4);
        assert_eq!(entry(1), ("p 1", ProcessState::Sleeping, 0, 1, 0));
        assert_eq!(entry(501), ("p 501", ProcessState::Sleeping, 1, 501, 1));
        assert_eq!(entry(502), ("p 502", ProcessState::Ended, 501, 0, 1));
        assert_eq!(entry(503), ("p 503", ProcessState::Other, 1, 503, 2));
    }

    #[test]
    fn other_output_of_ps_is_an_error() {
        for line in ["bad line", "", "7 1 7 ? S name", "7 1 7 ?", "x 1 7 ? S", "1 0 1 ? S"] {
            let table = parse_table(&format!("1 0 1 ? S\n{line}\n"), Some, |_| String::new());
            assert!(table.is_err(), "{line:?}");
        }
    }

    #[test]
    fn the_descriptor_becomes_readable_when_the_child_exits() {
        let is_readable = |descriptor: &OwnedFd, seconds| {
            let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
            poll(&mut polled, Some(&Timespec { tv_sec: seconds, tv_nsec: 0 })).unwrap() == 1
        };
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let descriptor = exit_descriptor(pid).unwrap();
        assert!(!is_readable(&descriptor, 0));
        drop(child.stdin.take());
        assert!(is_readable(&descriptor, 10));
        assert!(child.wait().unwrap().success(), "the waiting thread does not reap the child");
        assert!(is_readable(&exit_descriptor(pid).unwrap(), 10), "a child that was reaped");
    }
}
