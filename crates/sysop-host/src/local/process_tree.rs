//! Finds and signals all processes that one command started.
//!
//! A process belongs to a command if it is in the command's session, descends from the command, or has the command's
//! mark in its environment. The mark finds processes that left the session and whose parents are gone. A process that
//! also clears its environment escapes; only a namespace or a cgroup would hold it.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Maximum number of kill passes. Each further pass catches processes that were started during the previous one.
const KILL_ROUNDS_MAX: usize = 16;

/// All processes of one command. While this exists, the command must not be reaped: its pid could be reused.
#[derive(Debug, Clone)]
pub(super) struct ProcessTree {
    leader: Pid,
    mark: String,
}

struct ProcessEntry {
    parent: i32,
    session: i32,
    zombie: bool,
}

impl ProcessTree {
    /// Creates the tree of a command that leads its own session and has the variable `mark` in its environment.
    pub(super) fn new(leader: Pid, mark: String) -> Self {
        Self { leader, mark }
    }

    /// Sends SIGTERM to all processes.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGKILL to all processes. Reads all of `/proc`, which takes a few milliseconds.
    pub(super) fn kill(&self) {
        for _ in 0..KILL_ROUNDS_MAX {
            if self.signal(Signal::KILL) == 0 {
                return;
            }
        }
    }

    /// Returns true if at least one process is alive.
    pub(super) fn is_alive(&self) -> bool {
        !self.members().is_empty()
    }

    fn signal(&self, signal: Signal) -> usize {
        // Errors are ignored: the process is gone or belongs to another user.
        let _ = kill_process_group(self.leader, signal);
        let members = self.members();
        for member in &members {
            let _ = kill_process(*member, signal);
        }
        members.len()
    }

    fn members(&self) -> Vec<Pid> {
        let processes = processes();
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
            .filter(|(pid, process)| !process.zombie && (belongs(**pid) || self.is_marked(**pid)))
            .filter_map(|(pid, _)| Pid::from_raw(*pid))
            .collect()
    }

    fn is_marked(&self, pid: i32) -> bool {
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
        environment
            .split(|byte| *byte == 0)
            .any(|entry| entry.strip_prefix(self.mark.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
    }
}

fn processes() -> HashMap<i32, ProcessEntry> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| Some((pid, parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect()
}

/// Parses a line of `/proc/PID/stat` (proc(5)). The process name may contain any character, so it ends at the last `)`.
fn parse(stat: &str) -> Option<ProcessEntry> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(ProcessEntry { parent, session, zombie: matches!(state, "Z" | "X") })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn process_names_with_brackets_and_spaces_are_parsed() {
        let process = parse("7 (a) R 1 (b) S 5 6 4 0 -1").expect("a line of stat");
        assert_eq!((process.parent, process.session, process.zombie), (5, 4, false));
        assert!(parse("7 (a) Z 5 6 4 0").expect("a line of stat").zombie);
        assert!(parse("").is_none());
    }
}
