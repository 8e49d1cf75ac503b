//! `sysop approve`: lists the approvals waiting on a server, and answers one.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use secrecy::SecretString;
use sysop_client::approvals::{ApprovalClient, WaitingApproval};
use sysop_client::{ClientError, PinnedCertificate, ServerAddress};
use sysop_core::auto_bounds::short_time;
use sysop_core::id::Timestamp;
use sysop_core::text::neutralize_line;
use sysop_core::ui_text;
use sysop_driver::port::Clock;

use crate::cli::ApproveArguments;
use crate::config::display_path;
use crate::exit::{CommandError, Exit};
use crate::settings::Settings;
use crate::token_file::{address_of, certificate_of, read_token, token_files};

/// Maximum number of times to reload the list until it reflects an answer.
const POLLS_MAX: u32 = 20;
const POLL: Duration = Duration::from_millis(100);
const COMMAND_CHARS_MAX: usize = 300;

/// Lists the waiting approvals, or answers one. Fails if no server is running, the server rejects the token,
/// or no approval has this id.
pub(crate) async fn run(
    settings: &Settings,
    clock: &dyn Clock,
    arguments: &ApproveArguments,
    out: &mut impl Write,
) -> Result<Exit> {
    let mut waiting = Vec::new();
    for client in clients(settings)? {
        match client.waiting().await {
            Ok(list) => {
                let client = std::sync::Arc::new(client);
                waiting.extend(list.into_iter().map(|approval| (std::sync::Arc::clone(&client), approval)));
            }
            // A token file may outlive its server.
            Err(ClientError::Unreachable(why)) if settings.environment.value(URL).is_none() => {
                tracing::debug!(why, "a server is gone");
            }
            Err(error) => return Err(failure(error).into()),
        }
    }
    let Some(id) = &arguments.id else {
        let rows: Vec<_> = waiting.iter().map(|(_, approval)| approval).collect();
        write_list(&rows, clock.now(), out)?;
        return Ok(Exit::Done);
    };
    let Some((client, approval)) = waiting.iter().find(|(_, approval)| approval.id == *id) else {
        let why = format!(
            "no pending approval `{}`; run `sysop approve` to list the approvals",
            neutralize_line(id)
        );
        return Err(CommandError::usage(why).into());
    };
    client.answer(approval, arguments.reject.as_deref()).await.map_err(failure)?;
    report(client, approval, arguments.reject.is_some(), out).await
}

/// Reports the effect of an answer: the call runs, or it waits for another person.
async fn report(
    client: &ApprovalClient,
    approval: &WaitingApproval,
    rejected: bool,
    out: &mut impl Write,
) -> Result<Exit> {
    let command = neutralize_line(&approval.command);
    for _ in 0..POLLS_MAX {
        let list = client.waiting().await.map_err(failure)?;
        match list.iter().find(|other| other.id == approval.id) {
            None => {
                writeln!(out, "{}: {command}", if rejected { "Rejected" } else { "Allowed" })?;
                return Ok(Exit::Done);
            }
            Some(now) if now.given.len() > approval.given.len() => {
                writeln!(
                    out,
                    "Allowed ({} of {} approvals; another person must also allow it): {command}",
                    now.given.len(),
                    now.approvals
                )?;
                return Ok(Exit::Done);
            }
            Some(_) => tokio::time::sleep(POLL).await,
        }
    }
    let why = if approval.approvals > 1 && !approval.given.is_empty() {
        "the call is still pending: you have already allowed it, and another person must also allow it"
    } else {
        "the call is still pending; run `sysop approve` to see it"
    };
    Err(CommandError::failed(why.to_owned()).into())
}

/// Environment variable with a server's URL.
const URL: &str = "SYSOP_URL";
const TOKEN: &str = "SYSOP_TOKEN";

/// Returns the servers to query: the one set in the environment, or else this user's servers on this machine.
fn clients(settings: &Settings) -> Result<Vec<ApprovalClient>> {
    let value = |name: &str| settings.environment.value(name).filter(|value| !value.is_empty());
    let token = value(TOKEN).map(|token| SecretString::from(token.to_owned()));
    let addresses = match value(URL) {
        Some(url) => vec![ServerAddress::parse(url, token).map_err(failure)?],
        None => local_servers(&settings.folders.data)?,
    };
    Ok(addresses
        .into_iter()
        .map(|address| ApprovalClient::new(address).map_err(failure))
        .collect::<Result<_, _>>()?)
}

/// Returns this user's servers on this machine. Fails if there are none, or none whose token file can be used.
fn local_servers(data: &Path) -> Result<Vec<ServerAddress>, CommandError> {
    let mut servers = Vec::new();
    let mut refusal = None;
    for path in token_files(data) {
        let Some(address) = address_of(&path) else { continue };
        let token = match read_token(&path) {
            Ok(token) => token,
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "skipping this token file");
                refusal = Some(unusable_token_file(&path, &error));
                continue;
            }
        };
        let certificate = certificate_of(&path);
        let scheme = if certificate.is_symlink() { "https" } else { "http" };
        let server = ServerAddress::parse(&format!("{scheme}://{address}"), Some(token)).map_err(failure)?;
        servers.push(match scheme {
            "https" => match PinnedCertificate::read(&certificate) {
                Ok(pinned) => server.with_certificate(pinned),
                Err(error) => {
                    tracing::warn!(%error, path = %path.display(), "skipping this token file");
                    refusal = Some(CommandError::failed(error.to_string()));
                    continue;
                }
            },
            _ => server,
        });
    }
    if servers.is_empty() {
        let none = "no server of yours with a token file is running on this machine; start one with `sysop serve \
                    --token-file PATH`, or set SYSOP_URL and SYSOP_TOKEN";
        return Err(refusal.unwrap_or_else(|| CommandError::usage(none)));
    }
    Ok(servers)
}

fn unusable_token_file(path: &Path, error: &io::Error) -> CommandError {
    let shown = display_path(path);
    let hint = if error.kind() == io::ErrorKind::NotFound {
        format!("remove {shown} and start the server again")
    } else {
        format!("run `chmod 600 {shown}`")
    };
    CommandError::failed(format!("cannot use the token file {shown} ({error}); {hint}"))
}

fn write_list(waiting: &[&WaitingApproval], now: Timestamp, out: &mut impl Write) -> Result<()> {
    if waiting.is_empty() {
        writeln!(out, "No pending approvals.")?;
        return Ok(());
    }
    for approval in waiting {
        let line = |text: &str| -> String { neutralize_line(text).chars().take(COMMAND_CHARS_MAX).collect() };
        let since = |from: Timestamp, to: Timestamp| {
            short_time(u64::try_from(to.0.saturating_sub(from.0)).unwrap_or_default() / 1000)
        };
        let mut facts = vec![
            line(&approval.host),
            ui_text::class(approval.risk).to_owned(),
            format!("waiting {}", since(approval.asked_at, now)),
        ];
        facts.extend(approval.expires_at.map(|at| format!("expires in {}", since(now, at))));
        if approval.approvals > 1 {
            let given = approval.given.iter().map(|by| line(by)).collect::<Vec<_>>().join(", ");
            let by = if given.is_empty() { String::new() } else { format!(" ({given})") };
            facts.push(format!("{} of {} people{by}", approval.given.len(), approval.approvals));
        }
        writeln!(out, "{}  {}", line(&approval.id), facts.join(" · "))?;
        writeln!(out, "    {}", line(&approval.command))?;
        for effect in &approval.preview {
            writeln!(out, "    {}", line(effect))?;
        }
        if !approval.reason.is_empty() {
            writeln!(out, "    reason: {}", line(&approval.reason))?;
        }
    }
    Ok(())
}

fn failure(error: ClientError) -> CommandError {
    let message = error.to_string();
    match error {
        ClientError::Address(_) | ClientError::NoToken => CommandError::usage(message),
        ClientError::Refused(_)
        | ClientError::Unknown(_)
        | ClientError::Invalid(_)
        | ClientError::Busy(_)
        | ClientError::Unreachable(_)
        | ClientError::Failed(_)
        | ClientError::Ledger(_) => CommandError::failed(message),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::local_servers;

    #[test]
    fn a_token_file_that_others_can_read_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let told = || local_servers(folder.path()).unwrap_err().message;
        assert!(told().starts_with("no server of yours"), "{}", told());
        let link = folder.path().join("sysop-127.0.0.1-1.token");
        std::os::unix::fs::symlink(folder.path().join("gone"), &link).unwrap();
        assert!(told().contains("sysop-127.0.0.1-1.token and start the server again"), "{}", told());
        let path = folder.path().join("sysop-127.0.0.1-2.token");
        std::fs::write(&path, "secret").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(told().contains("readable by its owner alone); run `chmod 600 "), "{}", told());
        assert!(told().ends_with("sysop-127.0.0.1-2.token`"), "{}", told());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(local_servers(folder.path()).unwrap().len(), 1);
    }
}
