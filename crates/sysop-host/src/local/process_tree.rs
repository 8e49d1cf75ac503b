//! Finds and signals all processes that one command started.
//!
//! A process belongs to a command if it is in the command's session, descends from the command, or has the command's
//! mark in its environment. The mark finds processes that left the session and whose parents are gone. A process that
//! also clears its environment escapes; only a namespace or a cgroup would hold it.

use std::collections::HashMap;
use std::io;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::platform::{ProcessEntry, ProcessState, has_variable, processes};

/// Maximum number of kill passes. Each further pass catches processes that were started during the previous one.
const KILL_ROUNDS_MAX: usize = 16;

/// All processes of one command. While this exists, the command must not be reaped: its pid could be reused.
#[derive(Debug, Clone)]
pub(super) struct ProcessTree {
    leader: Pid,
    mark: String,
}

impl ProcessTree {
    /// Creates the tree of a command that leads its own session and has the variable `mark` in its environment.
    pub(super) fn new(leader: Pid, mark: String) -> Self {
        Self { leader, mark }
    }

    /// Sends SIGTERM to all processes.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM, processes);
    }

    /// Sends SIGKILL to all processes. Reads all processes, which takes a few milliseconds.
    pub(super) fn kill(&self) {
        self.kill_found(processes);
    }

    fn kill_found(&self, read: impl Fn() -> io::Result<HashMap<i32, ProcessEntry>>) {
        for _ in 0..KILL_ROUNDS_MAX {
            if !self.signal(Signal::KILL, &read) {
                return;
            }
        }
    }

    /// Returns true if at least one process is alive, or if reading the processes fails.
    pub(super) fn is_alive(&self) -> bool {
        processes().map_or(true, |processes| !self.members(&processes).is_empty())
    }

    /// Returns true if a process was alive, or if reading the processes fails. Then only the group gets the signal.
    fn signal(&self, signal: Signal, read: impl Fn() -> io::Result<HashMap<i32, ProcessEntry>>) -> bool {
        // Errors are ignored: the process is gone or belongs to another user.
        let _ = kill_process_group(self.leader, signal);
        let Ok(processes) = read() else { return true };
        let members = self.members(&processes);
        for member in &members {
            let _ = kill_process(*member, signal);
        }
        !members.is_empty()
    }

    fn members(&self, processes: &HashMap<i32, ProcessEntry>) -> Vec<Pid> {
        let leader = self.leader.as_raw_nonzero().get();
        let belongs = |pid: i32| {
            let mut at = pid;
            // Bounded, because the table is not a snapshot and could contain a cycle.
            for _ in 0..processes.len() {
                match processes.get(&at) {
                    _ if at == leader => return true,
                    Some(process) if process.session == leader => return true,
                    Some(process) => at = process.parent,
                    None => return false,
                }
            }
            false
        };
        processes
            .iter()
            .filter(|(_, process)| process.state != ProcessState::Ended)
            .filter(|(pid, _)| belongs(**pid) || has_variable(**pid, &self.mark))
            .filter_map(|(pid, _)| Pid::from_raw(*pid))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn killing_goes_on_while_the_processes_cannot_be_read() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).process_group(0).spawn().unwrap();
        let tree = ProcessTree::new(Pid::from_child(&child), "SYSOP_CALL_TEST".to_owned());
        let reads = Cell::new(0);
        tree.kill_found(|| {
            reads.set(reads.get() + 1);
            if reads.get() < 3 { Err(io::Error::other("no ps")) } else { Ok(HashMap::new()) }
        });
        assert_eq!(reads.get(), 3);
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    }
}
