//! Hosts for the tools: connects to each selected machine, and lists the other configured ones.

use std::time::Duration;

use futures::StreamExt;
use futures::stream;

use super::{CheckStatus, DoctorProbe, DoctorReport};
use crate::config::display_path;
use crate::settings::{ConfiguredHost, HostChoice, Settings, SshTarget};

const HOST_TIME_MAX: Duration = Duration::from_secs(20);

/// Maximum number of concurrent connections.
const HOSTS_AT_ONCE: usize = 8;

/// Maximum number of unselected machines to list.
const HOSTS_SHOWN_MAX: usize = 20;

pub(super) async fn hosts(settings: &Settings, probe: &dyn DoctorProbe, report: &mut DoctorReport) {
    if settings.host == HostChoice::Local {
        report.good("host", "this machine");
        report.good("root", &display_path(&settings.root));
    }
    let answers = stream::iter(settings.host.targets()).map(|target| async move {
        let answer = tokio::time::timeout(HOST_TIME_MAX, probe.host(target)).await;
        let late = |_| Err(format!("timed out after {} s", HOST_TIME_MAX.as_secs()));
        (target, answer.unwrap_or_else(late))
    });
    let mut answers = answers.buffered(HOSTS_AT_ONCE);
    while let Some((target, answer)) = answers.next().await {
        match answer {
            Ok(what) => report.good("host", &format!("{}: {what}", described(target))),
            Err(why) => {
                let hint = format!("run `ssh {}` to see the error", ssh_command(target));
                let why = why.strip_prefix(&format!("{}: ", target.name)).unwrap_or(&why);
                report.line(CheckStatus::Bad, "host", &format!("{}: {why}", described(target)), Some(&hint));
            }
        }
    }
    if let Some(canary) = settings.canary {
        report.good("canary", &format!("changes run on {canary} of the hosts first"));
    }
    let chosen = |name: &str| settings.host.targets().iter().any(|target| target.name == name);
    let is_other = |known: &&ConfiguredHost| !chosen(&known.target.name);
    let others: Vec<&ConfiguredHost> = settings.hosts.known.iter().filter(is_other).collect();
    for known in others.iter().take(HOSTS_SHOWN_MAX) {
        let text = format!("{}{}; not selected", described(&known.target), tags(known));
        report.line(CheckStatus::Note, "host", &text, None);
    }
    if let more @ 1.. = others.len().saturating_sub(HOSTS_SHOWN_MAX) {
        report.line(CheckStatus::Note, "host", &format!("and {more} more; see `sysop config show`"), None);
    }
}

fn tags(known: &ConfiguredHost) -> String {
    match known.tags.as_slice() {
        [] => String::new(),
        tags => format!(", tags {}", tags.join(", ")),
    }
}

/// Returns the name of a machine, its destination if that differs from the name, its root and its description.
fn described(target: &SshTarget) -> String {
    let mut text = target.name.clone();
    let place = ssh_command(target);
    if place != target.name {
        text.push_str(&format!(" ({place})"));
    }
    if let Some(root) = &target.root {
        text.push_str(&format!(", root {root}"));
    }
    if let Some(description) = &target.description {
        text.push_str(&format!(", {description}"));
    }
    text
}

/// Returns the `ssh` command that a user would type.
fn ssh_command(target: &SshTarget) -> String {
    match target.port {
        Some(port) => format!("-p {port} {}", target.destination),
        None => target.destination.clone(),
    }
}
