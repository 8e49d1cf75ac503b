//! `sysop guard`: shows a host's guards, and confirms or fires them manually.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use anyhow::Result;
use sysop_core::text::neutralize_line;
use sysop_host::{GuardStatus, GuardVerb, SshConnection};

use crate::app::Machines;
use crate::cli::{GuardArguments, GuardCommand};
use crate::exit::{CommandError, Exit};
use crate::settings::{HostChoice, Settings};
use crate::yes_no;

/// Question asked before a manual confirmation.
const UNPROVEN: &str =
    "No fresh login was tested. If logins are broken, nothing will roll the change back. Keep it?";

/// Runs the subcommand. Fails with [`Exit::Usage`] if the host or the guard is unknown, and with
/// [`Exit::Failed`] if the decision came too late or could not be carried out.
pub(crate) async fn run(settings: Settings, command: GuardCommand) -> Result<Exit> {
    let (host, id, verb) = match command {
        GuardCommand::List { host } => (host, None, None),
        GuardCommand::Status { guard: GuardArguments { host, id } } => (host, id, Some(GuardVerb::Status)),
        GuardCommand::Confirm { guard: GuardArguments { host, id } } => (host, id, Some(GuardVerb::Confirm)),
        GuardCommand::Fire { guard: GuardArguments { host, id } } => (host, id, Some(GuardVerb::Fire)),
    };
    let HostChoice::Ssh(target) = settings.hosts.resolve(&host)? else {
        return Err(CommandError::usage("guards work on ssh hosts only; name an ssh host").into());
    };
    let machines = Machines::new(Arc::new(settings));
    let connection = machines.connection(&target)?;
    let done = decide(&connection, &host, id, verb).await;
    machines.close().await;
    done.map_err(Into::into)
}

async fn decide(
    connection: &SshConnection,
    host: &str,
    id: Option<String>,
    verb: Option<GuardVerb>,
) -> Result<Exit, CommandError> {
    let unknown = |why: String| CommandError::usage(why);
    let Some(verb) = verb else {
        let guards = connection.guards().await.map_err(|error| unknown(error.to_string()))?;
        guards.iter().try_for_each(say)?;
        if guards.is_empty() {
            crate::tell(&format!("no guards on {}", neutralize_line(host)));
        }
        return Ok(Exit::Done);
    };
    let id = match id {
        Some(id) => id,
        None => {
            let guards = connection.guards().await.map_err(|error| unknown(error.to_string()))?;
            let latest = latest(guards).ok_or_else(|| unknown(format!("no guards on {host}")))?;
            latest.id
        }
    };
    if verb == GuardVerb::Confirm && !is_sure()? {
        return Err(CommandError::failed("not confirmed; the guard is unchanged"));
    }
    let found = connection.guard(verb, &id).await.map_err(|error| unknown(error.to_string()))?;
    let status =
        found.ok_or_else(|| unknown(format!("no guard {id} on {host}; see `sysop guard list {host}`")))?;
    say(&status)?;
    let wanted = match verb {
        GuardVerb::Status => return Ok(Exit::Done),
        GuardVerb::Confirm => "confirmed",
        GuardVerb::Fire => "fired",
    };
    let is_late = status.details.starts_with("late");
    if status.state == wanted && !is_late {
        return Ok(Exit::Done);
    }
    let why =
        if is_late { "too late: the guard had already ended" } else { "the guard did not end as requested" };
    Err(CommandError::failed(format!("{why} (state: {}); check the host", status.state)))
}

/// Returns the open guard, or else the one whose state changed last.
fn latest(guards: Vec<GuardStatus>) -> Option<GuardStatus> {
    let since = |guard: &GuardStatus| -> u64 {
        let of = guard.details.split(' ').find_map(|word| word.strip_prefix("since="));
        of.and_then(|seconds| seconds.parse().ok()).unwrap_or(0)
    };
    let is_open = |guard: &GuardStatus| guard.state == "armed" || guard.state == "firing";
    guards.into_iter().max_by_key(|guard| (is_open(guard), since(guard)))
}

fn say(status: &GuardStatus) -> Result<(), CommandError> {
    let GuardStatus { id, state, details } = status;
    let line = format!("{id}  {state:<9}  {details}");
    let written = writeln!(crate::StandardOutput, "{}", neutralize_line(&line));
    written.map_err(|error| CommandError::failed(error.to_string()))
}

/// Asks for confirmation on the terminal.
fn is_sure() -> Result<bool, CommandError> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CommandError::failed("`sysop guard confirm` asks on a terminal; run it in one"));
    }
    let answer = yes_no::ask(UNPROVEN).map_err(|error| CommandError::failed(format!("{error:#}")))?;
    Ok(answer == Some(true))
}

#[cfg(test)]
mod tests {
    use super::{GuardStatus, latest};

    fn guard(id: &str, state: &str, since: u64) -> GuardStatus {
        let details = format!("left=3 timer=alive boot=same since={since}");
        GuardStatus { id: id.to_owned(), state: state.to_owned(), details }
    }

    #[test]
    fn an_open_guard_comes_before_later_ones() {
        let all = vec![guard("a", "armed", 1), guard("b", "fired", 9), guard("c", "confirmed", 5)];
        assert_eq!(latest(all).unwrap().id, "a");
        assert_eq!(latest(vec![guard("b", "fired", 9), guard("c", "confirmed", 5)]).unwrap().id, "b");
        assert_eq!(latest(Vec::new()), None);
    }
}
