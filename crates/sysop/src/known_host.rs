//! Detects a host with an unresolvable name, or a container that cannot run commands, before a task starts, and reports
//! it as a usage error.

use std::process::Stdio;
use std::time::Duration;

use sysop_host::{SshConnection, SshSettings};

use crate::app::SOCKETS;
use crate::config::nearest_word;
use crate::exit::CommandError;
use crate::settings::{HostChoice, Settings, SshTarget};

/// Timeout for `ssh -G`, for the name lookup and for the first command in a container. A host that takes longer is not
/// checked here.
const LOOKUP_MAX: Duration = Duration::from_secs(5);

/// Checks that the name of the host can be resolved, or that commands run in the container, if the tools would run on a
/// single remote host. A host behind a jump host or proxy is not checked, because its name is resolved elsewhere.
pub(crate) async fn check(settings: &Settings) -> Result<(), CommandError> {
    check_host(settings, &settings.host).await
}

/// Like [`check`], for hosts other than those in the settings.
pub(crate) async fn check_host(settings: &Settings, host: &HostChoice) -> Result<(), CommandError> {
    let HostChoice::Ssh(target) = host else { return Ok(()) };
    if sysop_host::is_container(&target.destination) {
        return check_container(settings, target).await;
    }
    let Some(name) = host_name(settings, target).await else { return Ok(()) };
    let found = tokio::time::timeout(LOOKUP_MAX, tokio::net::lookup_host((name.as_str(), 22))).await;
    match found {
        Ok(Err(_)) => {
            let next = match suggestion(settings, &target.destination) {
                _ if has_port(&target.destination) => "for a port, write `ssh://USER@HOST:PORT`".to_owned(),
                Some(meant) if meant == target.destination => format!(
                    "ssh cannot resolve it; set `host` in [hosts.{meant}], or add it to ~/.ssh/config"
                ),
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "check the spelling, or use an IP address".to_owned(),
            };
            Err(CommandError::usage(format!("unknown host {name}; {next}")))
        }
        Ok(Ok(_)) | Err(_) => Ok(()),
    }
}

/// Checks that commands can run in a container. This asks no questions and leaves no connection open, unlike with ssh.
async fn check_container(settings: &Settings, target: &SshTarget) -> Result<(), CommandError> {
    let invalid = |error: &dyn std::fmt::Display| CommandError::usage(error.to_string());
    let sockets = settings.folders.cache.join(SOCKETS);
    let container = SshConnection::new(SshSettings::new(target.destination.clone(), sockets));
    let container = container.map_err(|error| invalid(&error))?;
    match tokio::time::timeout(LOOKUP_MAX, container.machine_info()).await {
        Ok(Err(error)) => Err(invalid(&error)),
        Ok(Ok(_)) | Err(_) => Ok(()),
    }
}

/// Returns true for `HOST:PORT`, which `ssh` takes as a name. An IPv6 address has more than one colon.
fn has_port(destination: &str) -> bool {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    destination.split_once(':').is_some_and(|(_, port)| is_port(port))
}

/// Returns the most similar host name in the config or in the user's ssh config.
fn suggestion(settings: &Settings, destination: &str) -> Option<String> {
    let (user, host) = match destination.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, destination),
    };
    let mut known = settings.ssh_names();
    known.extend(settings.hosts.known.iter().map(|host| host.target.name.clone()));
    let meant = nearest_word(host, known.iter().map(String::as_str))?;
    Some(user.map_or(meant.to_owned(), |user| format!("{user}@{meant}")))
}

/// Returns the name that `ssh` would look up, according to `ssh -G`. Returns `None` if the host is behind a
/// jump host or proxy, or if `ssh -G` does not report the name.
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
