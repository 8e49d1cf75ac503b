//! Detects an unresolvable host before a task starts, and ends as a usage error.

use std::process::Stdio;
use std::time::Duration;

use crate::exit::CommandError;
use crate::settings::{HostChoice, Settings, SshTarget};

/// Maximum time for a name lookup; slower ones are left to `ssh`.
const LOOKUP_MAX: Duration = Duration::from_secs(5);

/// Fails if the tools would run on one host whose name cannot be resolved. Hosts behind a jump host or proxy are resolved
/// elsewhere and not checked.
///
/// # Errors
/// If the name is unknown.
pub(crate) async fn check(settings: &Settings) -> Result<(), CommandError> {
    let HostChoice::Ssh(target) = &settings.host else { return Ok(()) };
    let Some(name) = host_name(settings, target).await else { return Ok(()) };
    let found = tokio::time::timeout(LOOKUP_MAX, tokio::net::lookup_host((name.as_str(), 22))).await;
    match found {
        Ok(Err(_)) => {
            Err(CommandError::usage(format!("unknown host {name}; check the spelling, or use an IP address")))
        }
        Ok(Ok(_)) | Err(_) => Ok(()),
    }
}

/// Returns the name that `ssh` would look up, according to `ssh -G`; `None` if there is none or it is unknown.
async fn host_name(settings: &Settings, target: &SshTarget) -> Option<String> {
    let mut command = tokio::process::Command::new("ssh");
    command.arg("-G").stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    if let Some(config) = &settings.ssh_config {
        command.arg("-F").arg(config);
    }
    command.arg("--").arg(&target.destination);
    let told = tokio::time::timeout(LOOKUP_MAX, command.output()).await.ok()?.ok()?;
    let told = String::from_utf8(told.stdout).ok().filter(|_| told.status.success())?;
    let value = |key: &str| told.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    let proxied = ["proxyjump", "proxycommand"].iter().any(|key| value(key).is_some_and(|it| it != "none"));
    value("hostname").filter(|_| !proxied).map(str::to_owned)
}
