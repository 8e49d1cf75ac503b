//! Detects a host with an unresolvable name, or a container that cannot run commands, before a task starts, and reports
//! it as a usage error.

use std::process::Stdio;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use sysop_host::{SshConnection, SshSettings};

use crate::app::SOCKETS;
use crate::config::{ConfigEntry, ConfigOrigin, nearest_word};
use crate::exit::CommandError;
use crate::settings::{HostChoice, Settings, SshTarget};

/// Timeout for `ssh -G`, for the name lookup and for the first command in a container. A host that takes longer is not
/// checked here.
const LOOKUP_MAX: Duration = Duration::from_secs(5);

/// Maximum number of names of one list that are looked up at the same time.
const LOOKUPS_MAX: usize = 16;

/// Checks that the name of the host can be resolved, or that commands run in the container. A host behind a jump host
/// or proxy is not checked, because its name is resolved elsewhere. Of several hosts, only the names that neither the
/// config nor the ssh config has are checked: a mistyped name must not change the other hosts, but a known host that is
/// down may be missing.
pub(crate) async fn check(settings: &Settings) -> Result<(), CommandError> {
    let checked = check_host(settings, &settings.host).await;
    checked.map_err(|error| match settings.config.entry("connection.host").map(ConfigEntry::origin) {
        // A host that was just typed needs no origin.
        Some(origin @ (ConfigOrigin::File { .. } | ConfigOrigin::Environment { .. })) => {
            CommandError::usage(format!("{origin}: {}", error.message))
        }
        Some(ConfigOrigin::Flag { .. } | ConfigOrigin::Default) | None => error,
    })
}

/// Like [`check`], for hosts other than those in the settings.
pub(crate) async fn check_host(settings: &Settings, host: &HostChoice) -> Result<(), CommandError> {
    match host {
        HostChoice::Local => Ok(()),
        HostChoice::Ssh(target) if sysop_host::is_container(&target.destination) => {
            check_container(settings, target).await
        }
        HostChoice::Ssh(target) => check_name(settings, target).await,
        HostChoice::Fleet(targets) => {
            let unknown = without_entry(settings, targets);
            let checks: Vec<_> = unknown.into_iter().map(|target| check_name(settings, target)).collect();
            let checked: Vec<_> = stream::iter(checks).buffered(LOOKUPS_MAX).collect().await;
            let faults: Vec<_> =
                checked.into_iter().filter_map(Result::err).map(|error| error.message).collect();
            match faults.as_slice() {
                [] => Ok(()),
                faults => Err(CommandError::usage(joined(faults))),
            }
        }
    }
}

/// Joins sentences about unknown hosts, each with its advice behind a semicolon. Similar names are the best advice;
/// without any, the first one is given.
fn joined(faults: &[String]) -> String {
    let (sentences, advice): (Vec<_>, Vec<_>) =
        faults.iter().map(|fault| fault.split_once("; ").unwrap_or((fault, ""))).unzip();
    let mut questions: Vec<_> = advice.iter().copied().filter(|next| next.ends_with('?')).collect();
    questions.dedup();
    let next =
        if questions.is_empty() { advice.first().copied().unwrap_or_default() } else { &questions.join(" ") };
    format!("{}; {next}", sentences.join(", "))
}

/// Returns the names of the hosts in the settings for which neither the config nor the user's ssh config has an entry.
/// Containers need none.
pub(crate) fn unconfigured_names(settings: &Settings) -> Vec<&str> {
    if let Some(ConfigOrigin::File { .. }) = settings.config.entry("connection.host").map(ConfigEntry::origin)
    {
        return Vec::new();
    }
    let unknown = without_entry(settings, settings.host.targets()).into_iter();
    unknown
        .filter(|target| !settings.hosts.has_machine_of(target))
        .map(|target| target.name.as_str())
        .collect()
}

/// Returns the targets for whose name neither the config nor the user's ssh config has an entry.
fn without_entry<'t>(settings: &Settings, targets: &'t [SshTarget]) -> Vec<&'t SshTarget> {
    let names = known_names(settings);
    let is_known = |target: &&SshTarget| {
        let host = target.destination.rsplit_once('@').map_or(&*target.destination, |(_, host)| host);
        sysop_host::is_container(&target.destination)
            || [host, target.name.as_str()].iter().any(|name| names.iter().any(|known| known == name))
    };
    targets.iter().filter(|target| !is_known(target)).collect()
}

async fn check_name(settings: &Settings, target: &SshTarget) -> Result<(), CommandError> {
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
                None => "check the spelling, use an IP address, or add the name as `Host` to ~/.ssh/config"
                    .to_owned(),
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
    let known = known_names(settings);
    let meant = nearest_word(host, known.iter().map(String::as_str))?;
    Some(user.map_or(meant.to_owned(), |user| format!("{user}@{meant}")))
}

/// Returns the host names in the config and in the user's ssh config.
fn known_names(settings: &Settings) -> Vec<String> {
    let mut known = settings.ssh_names();
    known.extend(settings.hosts.known.iter().map(|host| host.target.name.clone()));
    known
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
