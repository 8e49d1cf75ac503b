//! The ledger: facts about a session that code extracts from its events, so that no model has to remember them.
//!
//! When older messages are compacted, the ledger takes their place: the goal, the user's own words, refusals, commands
//! with their exit codes, changes, and where the session works. It is exact, costs no model call, and survives any
//! number of compactions, because it is built from the events and not from the remaining messages.

use std::collections::{BTreeSet, VecDeque};
use std::sync::OnceLock;

use sysop_shell as shell;

use crate::message::ToolCall;
use crate::outcome::{Outcome, Status};
use crate::policy::{Access, CommandContext, Survey};
use crate::token_estimate;

/// Maximum prompts kept besides the first.
const PROMPTS_MAX: usize = 64;
const PROMPT_BYTES_MAX: usize = 4_096;
const REFUSALS_MAX: usize = 32;
/// Number of first commands of a session that are kept for good, because later work often builds on what they found.
const FIRST_COMMANDS: usize = 4;
/// Maximum further commands kept. The newest are kept.
const COMMANDS_MAX: usize = 120;
const COMMAND_BYTES_MAX: usize = 512;
const COMMAND_TEXT_BYTES_MAX: usize = 120;
/// Maximum bytes of an output in the ledger. A longer output is left out, except for the last line if the command
/// failed; that line is truncated to the same limit.
const OUTPUT_BYTES_MAX: usize = 160;
const CHANGES_MAX: usize = 200;

/// Programs that change a system by other means than writing the files named in their operands.
const SYSTEM_PROGRAMS: &[&str] = &[
    "apk", "apt", "apt-get", "brew", "chmod", "chown", "crontab", "dnf", "docker", "firewall-cmd", "gem",
    "git", "groupadd", "hostnamectl", "iptables", "kill", "kubectl", "mount", "nft", "npm", "pacman",
    "passwd", "pip", "pkill", "podman", "reboot", "rpm", "service", "snap", "sysctl", "systemctl", "ufw",
    "umount", "useradd", "userdel", "usermod", "yum", "zypper",
];

/// Facts of one session. Their number is bounded: new commands and prompts replace old ones, except the first ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ledger {
    goal: String,
    prompts: VecDeque<String>,
    refusals: VecDeque<Refusal>,
    first_commands: Vec<CommandRecord>,
    commands: VecDeque<CommandRecord>,
    changes: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Refusal {
    command: String,
    /// The user's words; may be empty.
    reason: String,
}

#[derive(Debug, Clone)]
struct CommandRecord {
    host: String,
    command: String,
    /// Exit code, or the status of a command without one.
    result: String,
    /// The output if it is short, or the last line of a failed command's output.
    output: String,
    /// Objects that the command changed. They are derived from the command's text on first use, because
    /// replaying a long log needs them for only a few commands.
    changes: OnceLock<Vec<String>>,
}

impl PartialEq for CommandRecord {
    fn eq(&self, other: &Self) -> bool {
        let Self { host, command, result, output, changes: _ } = self;
        (host, command, result, output) == (&other.host, &other.command, &other.result, &other.output)
    }
}

/// Numbers of the newest entries that are left out of the ledger's text, because the messages sent along with
/// it already show them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VisibleTail {
    /// Number of newest prompts.
    pub prompts: usize,
    /// Number of newest commands.
    pub commands: usize,
}

impl Ledger {
    pub fn add_prompt(&mut self, text: &str) {
        let text = cut(text, PROMPT_BYTES_MAX).to_owned();
        if self.goal.is_empty() {
            self.goal = text;
            return;
        }
        self.prompts.push_back(text);
        if self.prompts.len() > PROMPTS_MAX {
            self.prompts.pop_front();
        }
    }

    pub fn add_refusal(&mut self, call: &ToolCall, reason: &str) {
        let refusal = Refusal { command: summary(call), reason: cut(reason, PROMPT_BYTES_MAX).to_owned() };
        self.refusals.push_back(refusal);
        if self.refusals.len() > REFUSALS_MAX {
            self.refusals.pop_front();
        }
    }

    /// Records a call that has ended on `host`.
    pub fn add_outcome(&mut self, host: &str, call: &ToolCall, outcome: &Outcome) {
        for change in &outcome.changes {
            self.add_change(format!("{host}: {}", change.path));
        }
        for change in &outcome.changed {
            self.add_change(format!("{host}: {} {}", change.name, change.how));
        }
        let record = CommandRecord {
            host: host.to_owned(),
            command: summary(call),
            result: result_text(outcome),
            output: short_output(outcome),
            changes: OnceLock::new(),
        };
        if self.first_commands.len() < FIRST_COMMANDS {
            self.first_commands.push(record);
            return;
        }
        self.commands.push_back(record);
        if self.commands.len() > COMMANDS_MAX
            && let Some(oldest) = self.commands.pop_front()
        {
            oldest.changes().iter().for_each(|change| self.add_change(change.clone()));
        }
    }

    fn add_change(&mut self, change: String) {
        if self.changes.len() < CHANGES_MAX {
            self.changes.insert(change);
        }
    }

    /// Returns the ledger as text for the model, with at most about `tokens` tokens. `place` says where the session
    /// works, and the entries in `shown` are left out. A section that is too long loses its least important lines. The
    /// goal always stays, but may be truncated.
    pub fn text(&self, place: &str, shown: VisibleTail, tokens: u64) -> String {
        let total = token_estimate::prose_bytes(tokens);
        let mut text = format!("Goal: {}\n", cut(&self.goal, total / 4));
        let prompts = newest(&self.prompts, shown.prompts);
        push_section(
            &mut text,
            "The user also said",
            prompts.iter().rev().map(|text| text.as_str()),
            total / 4,
        );
        let refusals = self.refusals.iter().rev().map(Refusal::text);
        push_section(&mut text, "Refused by the user; do not try again", refusals, total / 6);
        let changes: Vec<_> = self.all_changes().into_iter().collect();
        push_section(&mut text, "Changed so far", changes.iter().map(String::as_str), total / 6);
        let skipped_first = shown.commands.saturating_sub(self.commands.len()).min(self.first_commands.len());
        let first = &self.first_commands[..self.first_commands.len() - skipped_first];
        let first = first.iter().map(CommandRecord::text);
        push_section(&mut text, "First commands", first.rev(), total / 6);
        let rest = total.saturating_sub(text.len() + place.len());
        let latest = newest(&self.commands, shown.commands);
        push_section(
            &mut text,
            "Latest commands before the messages below",
            latest.iter().rev().map(|record| record.text()),
            rest,
        );
        text.push_str(&format!("Place: {place}\n"));
        text
    }

    /// Returns the names of the hosts on which commands ran, with `own` first.
    pub fn hosts(&self, own: &str) -> Vec<String> {
        let mut hosts = vec![own.to_owned()];
        for record in self.first_commands.iter().chain(&self.commands) {
            if !hosts.contains(&record.host) {
                hosts.push(record.host.clone());
            }
        }
        hosts
    }

    fn all_changes(&self) -> BTreeSet<String> {
        let records = self.first_commands.iter().chain(&self.commands);
        let mut changes = self.changes.clone();
        changes.extend(records.flat_map(CommandRecord::changes).cloned());
        changes
    }
}

impl Refusal {
    fn text(&self) -> String {
        match self.reason.trim() {
            "" => self.command.clone(),
            reason => format!("{} (the user: {reason})", self.command),
        }
    }
}

impl CommandRecord {
    fn changes(&self) -> &[String] {
        self.changes.get_or_init(|| changes_of(self))
    }

    fn text(&self) -> String {
        let Self { host, command, result, output, changes: _ } = self;
        let command = cut(command, COMMAND_TEXT_BYTES_MAX);
        let output = if output.is_empty() { String::new() } else { format!(": {output}") };
        format!("{host}: `{command}` -> {result}{output}")
    }
}

/// Appends a section with the lines that fit into `bytes`. `lines` begins with the most important line; they are
/// written in reverse, which puts the newest line last.
fn push_section<L: AsRef<str>>(text: &mut String, title: &str, lines: impl Iterator<Item = L>, bytes: usize) {
    let (mut kept, mut size, mut omitted) = (Vec::new(), title.len(), 0_usize);
    for line in lines {
        let line = one_line(line.as_ref());
        if omitted == 0 && size + line.len() + 3 <= bytes {
            size += line.len() + 3;
            kept.push(line);
        } else {
            omitted += 1;
        }
    }
    if kept.is_empty() && omitted == 0 {
        return;
    }
    text.push_str(title);
    if omitted > 0 {
        text.push_str(&format!(" ({omitted} more in the log)"));
    }
    text.push_str(":\n");
    for line in kept.iter().rev() {
        text.push_str("- ");
        text.push_str(line);
        text.push('\n');
    }
}

/// Returns all but the newest `shown` items.
fn newest<T>(items: &VecDeque<T>, shown: usize) -> Vec<&T> {
    items.iter().take(items.len().saturating_sub(shown)).collect()
}

fn changes_of(record: &CommandRecord) -> Vec<String> {
    let analysis = shell::analyze(&record.command, &Survey::elsewhere(CommandContext::bash()));
    if analysis.risk.class <= shell::RiskClass::ReadsRemote {
        return Vec::new();
    }
    let written = analysis.targets.iter().filter(|target| target.access == Access::Write);
    let mut changes: Vec<_> = written
        .filter(|target| !target.word.starts_with("/dev/"))
        .map(|target| format!("{}: {}", record.host, target.word))
        .collect();
    let system = analysis.invocations.iter().filter_map(|invocation| {
        let program = invocation.words.first()?.as_deref()?;
        SYSTEM_PROGRAMS.contains(&program).then(|| {
            let words: Vec<_> = invocation.words.iter().map(|word| word.as_deref().unwrap_or("…")).collect();
            format!("{}: {}", record.host, cut(&words.join(" "), COMMAND_TEXT_BYTES_MAX))
        })
    });
    changes.extend(system);
    changes
}

fn summary(call: &ToolCall) -> String {
    let command = match call.text_argument("command") {
        Some(command) => command.to_owned(),
        None => match call.text_argument("path").or_else(|| call.text_argument("keys")) {
            Some(argument) => format!("{} {argument}", call.name),
            None => call.name.clone(),
        },
    };
    cut(&command, COMMAND_BYTES_MAX).to_owned()
}

fn result_text(outcome: &Outcome) -> String {
    match (outcome.status, outcome.exit_code) {
        (Status::Ok | Status::Failed, Some(code)) => format!("exit {code}"),
        (status, _) => status.as_str().to_owned(),
    }
}

/// Returns the output if it is short enough, otherwise the last line of a failed command's output, or an empty text.
fn short_output(outcome: &Outcome) -> String {
    let output = outcome.output.trim();
    if output.len() <= OUTPUT_BYTES_MAX {
        return one_line(output);
    }
    if outcome.status == Status::Ok {
        return String::new();
    }
    cut(output.lines().last().unwrap_or_default().trim(), OUTPUT_BYTES_MAX).to_owned()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the beginning of the text, at most `bytes` long and cut between characters.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests;
