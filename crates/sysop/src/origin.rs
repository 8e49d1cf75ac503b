//! Detects that this process was started by a command in a sysop session.
//!
//! A command proposed by a model must not create tokens, start servers or answer approvals, because it could
//! then approve itself. Therefore, subcommands that do so refuse to run under a tool call. A call is
//! recognized in three ways:
//!
//! - by an environment variable that sysop sets for its children;
//! - by a running sysop among the ancestors;
//! - by a session or terminal that this process shares with a descendant of a running sysop. This also covers
//!   `env -u`, `setsid`, `nohup` and a process whose parent has exited.
//!
//! Ancestors and names come from the kernel, and other processes cannot change them. A process that has left
//! its session, its terminal and its parents looks like a service. It may run, but a token that it creates
//! cannot answer earlier requests (`is_unattended`). Another login, cron and `systemd-run` are not detected.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;

use sysop_host::platform::{self, ProcessEntry};

use crate::cli::{Command, ConfigCommand, GuardCommand, McpCommand, SessionsCommand};
use crate::exit::CommandError;

/// Prefix of the environment variables that sysop sets for its children.
pub(crate) const CALL_VARIABLE_PREFIX: &str = "SYSOP_CALL_";
const NAME: &str = "sysop";
/// Process name of `sysop desktop`, which runs no commands but starts a server.
const WINDOW: &str = "sysop-window";
const ANCESTORS_MAX: usize = 256;

/// One process, as the kernel knows it.
#[derive(Debug, Clone, Default)]
struct ProcessInfo {
    parent: i32,
    session: i32,
    /// Controlling terminal; 0 if there is none.
    terminal: i32,
    name: String,
    /// True for a sysop that runs commands; determined when first needed.
    is_sysop: OnceCell<bool>,
}

/// Processes of this machine by id: all of them, or one and its ancestors.
#[derive(Debug, Default)]
struct ProcessTable(BTreeMap<i32, ProcessInfo>);

/// Sets this process's name, so that descendants recognize it as sysop whatever its executable is called.
pub(crate) fn name_process() {
    // Without the name, sysop is still recognized by its executable.
    let _ = platform::name_process(c"sysop");
}

/// Sets the name of a process that only shows a window.
pub(crate) fn name_window() {
    let _ = platform::name_process(c"sysop-window"); // best effort
}

/// Refuses to run a protected subcommand under a tool call.
pub(crate) fn check(command: Option<&Command>) -> Result<(), CommandError> {
    let Some(name) = protected_name(command) else { return Ok(()) };
    if !is_under_call() {
        return Ok(());
    }
    Err(CommandError::usage(format!(
        "`{name}` cannot run inside a sysop session; run it in your own terminal"
    )))
}

/// Returns the subcommand as typed, if it is protected.
fn protected_name(command: Option<&Command>) -> Option<&'static str> {
    Some(match command {
        None => "sysop",
        Some(Command::Token(_)) => "sysop token",
        Some(Command::Serve(_)) => "sysop serve",
        Some(Command::Attach(_)) => "sysop attach",
        Some(Command::Approve(_)) => "sysop approve",
        Some(Command::Connect(_)) => "sysop connect",
        Some(Command::Desktop(_)) => "sysop desktop",
        Some(Command::Exec(_)) => "sysop exec",
        Some(Command::Run(_)) => "sysop run",
        Some(Command::Undo(_)) => "sysop undo",
        Some(Command::Chat(_)) => "sysop chat",
        Some(Command::Acp) => "sysop acp",
        Some(Command::Sessions(arguments)) => match arguments.command {
            SessionsCommand::Delete { .. } => "sysop sessions delete",
            SessionsCommand::List { .. }
            | SessionsCommand::Show { .. }
            | SessionsCommand::Export { .. }
            | SessionsCommand::Report { .. } => return None,
        },
        Some(Command::Guard(GuardCommand::Confirm { .. })) => "sysop guard confirm",
        Some(Command::Guard(GuardCommand::Fire { .. })) => "sysop guard fire",
        Some(Command::Guard(GuardCommand::List { .. } | GuardCommand::Status { .. })) => return None,
        Some(Command::Mcp(command)) => match command {
            McpCommand::Add(_) => "sysop mcp add",
            McpCommand::Remove { .. } => "sysop mcp remove",
            McpCommand::Import { .. } => "sysop mcp import",
            McpCommand::Serve { .. } => "sysop mcp serve",
            McpCommand::List { .. } => return None,
        },
        Some(Command::Init) => "sysop init",
        Some(Command::Config(ConfigCommand::Set { .. })) => "sysop config set",
        Some(Command::Config(ConfigCommand::Unset { .. })) => "sysop config unset",
        Some(Command::Config(ConfigCommand::Edit)) => "sysop config edit",
        Some(Command::Trust(_)) => "sysop trust",
        Some(
            Command::Completions { .. }
            | Command::ShellInit(_)
            | Command::Man
            | Command::MockLlm(_)
            | Command::Config(ConfigCommand::Path | ConfigCommand::Show | ConfigCommand::Get { .. })
            | Command::Model(_)
            | Command::Models { .. }
            | Command::Policy(_)
            | Command::Skills(_)
            | Command::Runbook(_)
            | Command::Doctor(_)
            | Command::Audit(_),
        ) => return None,
    })
}

/// Returns true if the variables or the processes show that a command in a session started this process, or if reading
/// the processes fails. Without `/proc`, Linux shows no processes, which is not an error.
pub(crate) fn is_under_call() -> bool {
    let marked = std::env::vars_os().any(|(name, _)| is_call_variable(&name));
    if marked {
        return true;
    }
    let Ok(lineage) = platform::lineage(own_id(), ANCESTORS_MAX).map(ProcessTable::new) else { return true };
    if lineage.descends_from_session_leader(own_id()) {
        lineage.has_sysop_ancestor(own_id())
    } else {
        ProcessTable::read().map_or(true, |table| table.is_under_sysop(own_id()))
    }
}

/// Returns true if this process's session was not started by a login, so possibly no user is present.
pub(crate) fn is_unattended() -> bool {
    ProcessTable::read().map_or(true, |table| table.is_orphan(own_id()))
}

fn is_call_variable(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(CALL_VARIABLE_PREFIX.as_bytes())
}

fn own_id() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Returns the name of the acting system user: the one who logged in, even if `sudo` or `su` has changed the
/// user since then, or else the user that this process runs as. If the user has no name, returns the user id.
///
/// The kernel keeps the login user, and only privileged processes can set it. Therefore, several people who
/// share an account on a server remain distinguishable.
pub(crate) fn user_name() -> String {
    let user = platform::login_user().unwrap_or_else(|| rustix::process::geteuid().as_raw());
    platform::account_name(user).unwrap_or_else(|| format!("uid {user}"))
}

impl ProcessTable {
    fn new(processes: impl IntoIterator<Item = (i32, ProcessEntry)>) -> Self {
        Self(processes.into_iter().map(|(id, process)| (id, process.into())).collect())
    }

    /// Reads all processes.
    fn read() -> io::Result<Self> {
        platform::processes().map(Self::new)
    }

    /// Returns the ancestors of a process with their ids, nearest first. The process itself is not included.
    fn ancestors(&self, id: i32) -> impl Iterator<Item = (i32, &ProcessInfo)> {
        let with_id = |id: i32| Some((id, self.0.get(&id)?));
        std::iter::successors(with_id(id), move |(_, process)| with_id(process.parent))
            .skip(1)
            .take(ANCESTORS_MAX)
    }

    fn has_sysop_ancestor(&self, id: i32) -> bool {
        self.ancestors(id).any(|(id, process)| process.is_sysop(id))
    }

    /// Returns true if the process that opened a process's session is that process or an ancestor of it, and
    /// has not lost its own parent. If so, `is_under_sysop` depends only on the ancestors: all members of the
    /// session were started by its leader, so a sysop above one of them is above the leader too. A start
    /// then reads about five processes instead of all.
    fn descends_from_session_leader(&self, id: i32) -> bool {
        let Some(own) = self.0.get(&id) else { return false };
        let above = self.ancestors(id).any(|(id, _)| id == own.session);
        let leader = self.0.get(&own.session).filter(|_| above || own.session == id);
        leader.is_some_and(|leader| leader.terminal == own.terminal && !self.lost_parent(leader))
    }

    /// Returns true if the parent of a process is process 1 or the user's service manager, which adopt the
    /// children of processes that exit.
    fn lost_parent(&self, process: &ProcessInfo) -> bool {
        process.parent == 1 || self.0.get(&process.parent).is_some_and(|parent| parent.name == "systemd")
    }

    /// Returns true if a process is a descendant of a running sysop, or shares a session or terminal with
    /// one. Only sessions and terminals opened by sysop count, not those in which sysop itself was started.
    fn is_under_sysop(&self, id: i32) -> bool {
        if self.has_sysop_ancestor(id) {
            return true;
        }
        let Some(own) = self.0.get(&id) else { return false };
        self.0.iter().any(|(other_id, other)| {
            let shares = other.session == own.session || own.terminal != 0 && other.terminal == own.terminal;
            let began = |(id, process): (i32, &ProcessInfo)| {
                process.session != own.session
                    && (own.terminal == 0 || process.terminal != own.terminal)
                    && process.is_sysop(id)
            };
            *other_id != id && shares && self.ancestors(*other_id).any(began)
        })
    }

    /// Returns true if a process has no terminal and its session was not started by a login: the process that
    /// started the session has exited, or that process's parent is process 1 or the user's service manager.
    fn is_orphan(&self, id: i32) -> bool {
        let Some(own) = self.0.get(&id) else { return true };
        if own.terminal != 0 {
            return false;
        }
        let Some(leader) = self.0.get(&own.session) else { return own.session != 0 };
        self.lost_parent(leader)
    }
}

impl From<ProcessEntry> for ProcessInfo {
    fn from(process: ProcessEntry) -> Self {
        let ProcessEntry { parent, session, terminal, name, .. } = process;
        Self { parent, session, terminal, name, is_sysop: OnceCell::new() }
    }
}

impl ProcessInfo {
    fn is_sysop(&self, id: i32) -> bool {
        *self.is_sysop.get_or_init(|| self.name != WINDOW && runs_sysop(id, &self.name))
    }
}

/// Returns true if a process runs this executable or a file named `sysop`. If its executable cannot be
/// determined, the process name `name` is compared instead.
fn runs_sysop(id: i32, name: &str) -> bool {
    // The executable of another sysop of the same user cannot be determined, because its memory is protected.
    let Some(file) = platform::executable(id) else { return name == NAME };
    let file_name = file.file_name().unwrap_or_default().to_string_lossy();
    let identity = platform::executable_identity(id);
    file_name.trim_end_matches(" (deleted)") == NAME
        || identity.is_some() && identity == platform::own_executable_identity()
}

#[cfg(test)]
mod tests {
    use std::cell::OnceCell;
    use std::collections::{BTreeMap, BTreeSet};

    use clap::CommandFactory as _;
    use proptest::collection::vec;
    use proptest::prelude::{any, proptest};
    use proptest::sample::select;

    use super::{ProcessInfo, ProcessTable, is_call_variable, protected_name};
    use crate::cli;

    /// Builds a table from lines of `id parent session terminal name`; a process named `sysop` is a sysop.
    fn table(text: &str) -> ProcessTable {
        let processes = text.lines().map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| words[at].parse::<i32>().unwrap();
            let is_sysop = OnceCell::from(words[4] == "sysop");
            let (parent, session, terminal) = (number(1), number(2), number(3));
            (number(0), ProcessInfo { parent, session, terminal, name: words[4].to_owned(), is_sysop })
        });
        ProcessTable(processes.collect())
    }

    const MACHINE: &str = "1 0 1 0 systemd
        10 1 10 0 sshd
        11 10 11 5 bash
        12 11 11 5 sysop
        13 12 13 0 bash
        14 13 14 0 setsid
        15 12 15 7 bash
        16 15 15 7 sleep
        17 12 11 5 ssh
        18 11 11 5 vim
        20 1 13 0 left-behind
        21 1 15 7 left-behind
        22 1 22 7 left-behind
        23 1 23 0 daemon
        24 23 23 0 sh
        25 10 25 0 sh
        26 1 9 0 leaderless";

    #[test]
    fn a_process_below_sysop_is_detected_by_ancestors_session_or_terminal() {
        let table = table(MACHINE);
        for (id, what) in [
            (13, "a command"),
            (14, "after setsid"),
            (16, "in the shared terminal"),
            (17, "in the terminal of sysop, but below it"),
            (20, "left behind in the session of a command"),
            (21, "left behind in the shared terminal"),
            (22, "in another session of the shared terminal"),
        ] {
            assert!(table.is_under_sysop(id), "{id}: {what}");
        }
        for (id, what) in [
            (11, "the shell that sysop was started in"),
            (12, "sysop itself"),
            (18, "beside sysop in its terminal"),
            (23, "a daemon"),
            (25, "another login"),
            (99, "unknown"),
        ] {
            assert!(!table.is_under_sysop(id), "{id}: {what}");
        }
    }

    /// An action of a process in a random history.
    #[derive(Debug, Clone, Copy)]
    enum Deed {
        Fork,
        ForkSysop,
        NewSession,
        OpenTerminal,
        Exit,
    }

    /// Builds the table that a kernel would have after the deeds, each of a process chosen by number: children
    /// inherit session and terminal, orphans go to process 1, and a new session has no terminal. A process opens a
    /// session before it starts others, as sysop does.
    fn history(deeds: &[(usize, Deed)]) -> ProcessTable {
        let info = |parent, session, terminal, is_sysop| ProcessInfo {
            parent,
            session,
            terminal,
            name: String::new(),
            is_sysop: OnceCell::from(is_sysop),
        };
        let mut table = BTreeMap::from([(1, info(0, 1, 0, false)), (2, info(1, 2, 5, false))]);
        for (next, (chosen, deed)) in (3..).zip(deeds) {
            let ids: Vec<i32> = table.keys().copied().collect();
            let id = ids[chosen % ids.len()];
            let own = table[&id].clone();
            let has_children = table.values().any(|process| process.parent == id);
            let mut change = |change: &dyn Fn(&mut ProcessInfo)| {
                table.entry(id).and_modify(change);
            };
            match deed {
                Deed::Fork | Deed::ForkSysop => {
                    let is_sysop = matches!(deed, Deed::ForkSysop);
                    table.insert(next, info(id, own.session, own.terminal, is_sysop));
                }
                Deed::NewSession if own.session != id && !has_children => {
                    change(&|own| (own.session, own.terminal) = (id, 0));
                }
                Deed::OpenTerminal if own.session == id && own.terminal == 0 => {
                    change(&|own| own.terminal = 100 + id);
                }
                Deed::Exit if id > 1 => {
                    table.remove(&id);
                    for process in table.values_mut().filter(|process| process.parent == id) {
                        process.parent = 1;
                    }
                    if own.session == id {
                        // The terminal hangs up.
                        for process in table.values_mut().filter(|process| process.session == id) {
                            process.terminal = 0;
                        }
                    }
                }
                Deed::NewSession | Deed::OpenTerminal | Deed::Exit => {}
            }
        }
        ProcessTable(table)
    }

    proptest! {
        #[test]
        fn ancestors_suffice_below_the_leader_of_the_session(
            deeds in vec(
                (
                    any::<usize>(),
                    select(&[Deed::Fork, Deed::Fork, Deed::ForkSysop, Deed::NewSession, Deed::OpenTerminal, Deed::Exit][..]),
                ),
                0..60,
            )
        ) {
            let table = history(&deeds);
            for &id in table.0.keys().filter(|id| table.descends_from_session_leader(**id)) {
                assert_eq!(table.has_sysop_ancestor(id), table.is_under_sysop(id), "{id} in {table:?}");
            }
        }
    }

    #[test]
    fn only_a_process_cut_off_from_its_session_needs_the_whole_table() {
        let table = table(MACHINE);
        for (id, descends) in [
            (11, true),
            (12, true),
            (16, true),
            (18, true),
            (25, true),
            (20, false),
            (21, false),
            (22, false),
        ] {
            assert_eq!(table.descends_from_session_leader(id), descends, "{id}");
        }
    }

    #[test]
    fn a_process_without_terminal_or_login_is_unattended() {
        let table = table(MACHINE);
        for (id, orphan) in
            [(23, true), (24, true), (26, true), (11, false), (18, false), (25, false), (99, true)]
        {
            assert_eq!(table.is_orphan(id), orphan, "{id}");
        }
    }

    #[test]
    fn deciding_subcommands_are_reserved_for_users() {
        let name = |line: &str| {
            let words = ["sysop"].into_iter().chain(line.split_whitespace()).map(Into::into);
            protected_name(cli::parse(words).unwrap().command.as_ref())
        };
        for line in [
            "token list", "serve", "attach http://x", "connect http://x", "exec x", "run x", "chat",
            "sessions delete x", "guard confirm web1", "guard fire web1 x", "config set a b", "config edit",
            "init", "undo x 1",
        ] {
            assert!(
                name(line).is_some_and(|name| line.contains(name.trim_start_matches("sysop "))),
                "{line}"
            );
        }
        for line in [
            "doctor", "policy check ls", "config show", "sessions list", "audit verify", "man", "model get",
            "guard list x", "guard status x",
        ] {
            assert_eq!(name(line), None, "{line}");
        }
    }

    /// Names of all commands without subcommands, as typed.
    fn leaves(command: &clap::Command, path: &str) -> Vec<String> {
        let subcommands = command.get_subcommands().filter(|below| below.get_name() != "help");
        let below: Vec<String> = subcommands
            .flat_map(|below| leaves(below, format!("{path} {}", below.get_name()).trim_start()))
            .collect();
        if below.is_empty() { vec![path.to_owned()] } else { below }
    }

    #[test]
    fn the_documentation_lists_the_subcommands_that_are_for_people() {
        let arguments = ["", "x", "x x", "bash", "http://x", "--name x --scope decide", "x -- x"];
        let parsed = |line: &str| {
            arguments.iter().find_map(|more| {
                let words = ["sysop"].into_iter().chain(line.split(' ')).chain(more.split_whitespace());
                cli::parse(words.map(Into::into)).ok()
            })
        };
        let of_code: BTreeSet<String> = leaves(&cli::Arguments::command(), "")
            .iter()
            .filter_map(|line| {
                let parsed = parsed(line).unwrap_or_else(|| panic!("no arguments fit `{line}`"));
                Some(protected_name(parsed.command.as_ref())?.trim_start_matches("sysop ").to_owned())
            })
            .collect();
        let page = include_str!("../../../docs/server.md");
        let (_, list) = page.split_once("## Subcommands for people").unwrap();
        let (list, _) = list.split_once("They detect that").unwrap();
        let of_page: BTreeSet<String> = list.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        assert_eq!(of_page, of_code);
    }

    #[test]
    fn the_variables_of_tool_calls_are_recognized() {
        assert!(is_call_variable("SYSOP_CALL_0123".as_ref()));
        assert!(!is_call_variable("SYSOP_MODEL".as_ref()));
    }
}
