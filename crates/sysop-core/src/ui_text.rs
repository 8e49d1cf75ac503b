//! Messages for users about events, shared by all front ends. All returned messages are safe to display.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::deferred_tools;
use crate::event::{Decision, Origin, PauseReason, StopReason, TypedInput};
use crate::guard::GuardTimeout;
use crate::host_names::fold_names;
use crate::id::JobId;
use crate::job::{Job, RunningJobs};
use crate::message::{ToolCall, Usage};
use crate::missed_hosts::reason_without_host;
use crate::mode::Mode;
use crate::model_progress::ModelProgress;
use crate::outcome::{HostOutcome, Outcome, RunningProgram, Status, TURN_STOPPED};
use crate::policy::{Finding, Grant, RiskClass, Rule, refusal_for_people};
use crate::text::{neutralize, neutralize_line};
use crate::tool::CLIENT_MACHINE;
use crate::transcript::{
    ApprovalScope, CallPreparation, Decider, OutputReaders, PauseDelay, Proposal, ProposalState,
    SessionPhase, Transcript, TurnEnd, call_lines, call_summary, terminal_input_sentence,
};
use crate::undo::UNDO_TOOL;

/// Returns a line for a running job: `job 1 on web1, 2 min 10 s: sleep 600`. `run_time` is left out if unknown.
pub fn job_line(id: JobId, job: &Job, run_time: Option<&str>) -> String {
    let time = run_time.map_or_else(String::new, |time| format!(", {time}"));
    format!("job {id} on {}{time}: {}", safe(&job.host), neutralize_line(&job.command))
}

pub fn running_jobs(jobs: &RunningJobs) -> String {
    let jobs: Vec<_> = jobs.iter().map(|(id, job)| job_line(id, job, None)).collect();
    if jobs.is_empty() { "no background jobs".to_owned() } else { jobs.join("; ") }
}

/// Maximum characters of a program's prompt within the line that reports a user's answer to it.
const PROMPT_CHARS_MAX: usize = 60;
/// Start of the name of a server's machine.
const SERVER_MACHINE: &str = "local on ";

/// Formats a call: `[Tool: read_file("src/main.py")]`.
pub fn tool_line(call: &ToolCall) -> String {
    safe(&format!("[Tool: {}]", call_summary(call)))
}

/// Formats a call as [`tool_line`] does, but with its whole command, which may take further lines.
pub fn tool_lines(call: &ToolCall) -> String {
    let mut lines = call_lines(call).into_iter();
    let first = lines.next().unwrap_or_default();
    let rest: String = lines.map(|line| format!("\n{line}")).collect();
    safe(&format!("[Tool: {first}]{rest}"))
}

pub fn mode_sentence(mode: Mode) -> &'static str {
    match mode {
        Mode::Agent => "agent mode: the next turn has tools",
        Mode::Chat => "chat mode: the next turn has no tools",
    }
}

/// Returns a sentence about the current mode and how to change it.
pub fn mode_help(mode: Mode) -> &'static str {
    match mode {
        Mode::Agent => "mode: agent (tools available); use /mode chat for a chat without tools",
        Mode::Chat => "mode: chat (no tools); use /mode agent to enable tools",
    }
}

/// Returns a sentence about revoked grants.
pub fn revoked(grants: &[Grant]) -> String {
    let what: Vec<_> = grants.iter().map(covers).collect();
    format!("no longer allowed for this session: {}", what.join("; "))
}

/// Formats a duration for users, as in `340 ms`, `1.5 s` or `2 min 5 s`.
pub fn duration(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100),
        _ => format!("{} min {} s", milliseconds / 60_000, milliseconds % 60_000 / 1_000),
    }
}

/// Formats a size in bytes for users, as in `1 byte`, `12.3 kB` or `1.5 MB`. The units are decimal.
pub fn file_size(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{}.{} kB", bytes / 1_000, bytes % 1_000 / 100),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

/// Formats a number with thousands separators: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with a noun: `1 line`, `2 lines`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// Formats a token count in few characters, as in `9999`, `12 k` or `1.5 M`.
pub fn tokens(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{} k", count / 1_000),
        _ => format!("{}.{} M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

impl ModelProgress {
    /// Returns the progress for users, as in `reading the prompt: 512 of 2048 tokens (25%)` or
    /// `43 tokens received, 12 per second`. Returns `None` if nothing is known yet.
    pub fn summary(&self) -> Option<String> {
        if self.received > 0 {
            let word = if self.received == 1 { "token" } else { "tokens" };
            let received = format!("{} {word} received", tokens(self.received));
            return Some(match self.tokens_per_second() {
                Some(rate @ 1..) => format!("{received}, {rate} per second"),
                Some(0) | None => received,
            });
        }
        let (done, all) = self.prompt.filter(|(_, all)| *all > 0)?;
        let done = done.min(all);
        let (shown, of) = (tokens(done), tokens(all));
        Some(format!("reading the prompt: {shown} of {of} tokens ({}%)", done.saturating_mul(100) / all))
    }
}

/// Formats the tokens of a turn, or returns `None` if the server reported none.
pub fn usage(usage: Usage) -> Option<String> {
    (usage.input_tokens + usage.output_tokens > 0)
        .then(|| format!("{} in, {} out", tokens(usage.input_tokens), tokens(usage.output_tokens)))
}

/// Returns a line about the providers other than the current one that got tool output, or `None` if there are none.
pub fn other_readers(readers: &OutputReaders) -> Option<String> {
    let providers = readers.other_providers();
    (!providers.is_empty()).then(|| format!("output also seen by {}", providers.join(", ")))
}

/// Returns a line about terminal input by a user. Only the last line of a program's prompt is shown.
pub fn typed(by: &str, typed: &TypedInput) -> String {
    let short = |prompt: &str| -> String {
        let line = prompt.trim().lines().next_back().unwrap_or_default().trim();
        let text: String = line.chars().take(PROMPT_CHARS_MAX).collect();
        if text.len() < line.len() { format!("{text}…") } else { text }
    };
    let shown = match typed {
        TypedInput::Activity { .. } | TypedInput::Keys { .. } => typed.clone(),
        TypedInput::Secret { prompt } => TypedInput::Secret { prompt: short(prompt) },
        TypedInput::Answer { prompt, text } => {
            TypedInput::Answer { prompt: short(prompt), text: text.clone() }
        }
    };
    safe(&terminal_input_sentence(by, &shown)).replace('\n', " ")
}

/// Returns a line about the user who controls the terminal, or about the agent if no user does.
pub fn control(holder: Option<&str>) -> String {
    match holder {
        Some(holder) => format!("{holder} is using the terminal; agent paused"),
        None => "the agent is using the terminal again".to_owned(),
    }
}

/// Returns true if the user `own` needs a notice that the terminal's holder changed. Users need no notice
/// about their own actions. `mine` keeps, from one call to the next, whether `own` was the holder.
pub fn is_new_holder(holder: Option<&str>, mine: &mut bool, own: &str) -> bool {
    let was_mine = std::mem::replace(mine, holder == Some(own));
    !(*mine || was_mine && holder.is_none())
}

pub fn outcome_summary(outcome: &Outcome) -> String {
    if outcome.is_not_run() {
        return "not run".to_owned();
    }
    if outcome.is_not_started() {
        return outcome.output.clone();
    }
    let mut words = match outcome.running_program() {
        Some(RunningProgram::WaitsForInput) => "still running; it waits for input".to_owned(),
        Some(RunningProgram::FullScreen) => "still running in the terminal".to_owned(),
        Some(RunningProgram::NestedShell) => "another shell is open in the terminal".to_owned(),
        None => match outcome.job {
            Some(job) => format!("started in the background as job {job} (see /jobs)"),
            None => missed_hosts(outcome)
                .or_else(|| outcome.loss().map(str::to_owned))
                .unwrap_or_else(|| end_summary(outcome)),
        },
    };
    if let Some(code) = outcome.exit_code {
        words.push_str(&format!(", exit code {code}"));
    }
    let longest = outcome.hosts.iter().map(|host| host.duration_ms).max().unwrap_or(0);
    let took = outcome.duration_ms.max(longest);
    // The end of an interrupted call was not seen.
    let is_known = took > 0 || outcome.status != Status::Interrupted;
    let is_shown = !matches!(outcome.status, Status::Rejected | Status::Unknown);
    if is_known && is_shown && outcome.time_limit().is_none() && outcome.job.is_none() {
        words.push_str(&format!(", {}", duration(took)));
    }
    if outcome.truncated {
        words.push_str(", truncated for the model");
    }
    words
}

/// Returns on how many hosts a failed call failed, and on how many it did not run, as in `failed on 1 of 4 hosts`; or
/// `None` for a call on a single host.
fn missed_hosts(outcome: &Outcome) -> Option<String> {
    let (Status::Failed, hosts @ [_, _, ..]) = (outcome.status, outcome.hosts.as_slice()) else {
        return None;
    };
    let missed = hosts.iter().filter(|host| host.status != Status::Ok);
    let (not_run, failed): (Vec<_>, Vec<_>) =
        missed.partition(|host| host.unreachable.is_some() || host.status == Status::Rejected);
    let count = |what: &str, missed: &[&HostOutcome]| {
        (!missed.is_empty()).then(|| format!("{what} on {} of {} hosts", missed.len(), hosts.len()))
    };
    let parts: Vec<_> = count("failed", &failed).into_iter().chain(count("not run", &not_run)).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Says why a call that never started did not run. Lines after the first are details.
pub fn not_run_text(outcome: &Outcome) -> String {
    if outcome.is_not_run() {
        return outcome_summary(outcome);
    }
    let why = refusal_for_people(outcome.output.trim());
    let why = ["not run: ", "denied: "].iter().find_map(|prefix| why.strip_prefix(prefix)).unwrap_or(why);
    safe(&format!("not run: {}", why.strip_suffix("; nothing ran").unwrap_or(why)))
}

/// Says that a request failed and is tried again. `attempt` is the number of the next attempt, `wait` the time until
/// then.
pub fn retrying(wait: &str, attempt: u32, attempts: u32, reason: &str) -> String {
    format!("{RETRYING}{wait}{ATTEMPT}{attempt} of {attempts}: {reason}")
}

/// Returns true for the text of [`retrying`]. Each such text replaces the one before it.
pub fn is_retrying(text: &str) -> bool {
    text.strip_prefix(RETRYING).is_some_and(|rest| rest.contains(ATTEMPT))
}

/// Returns the text of [`retrying`] with the time that is left of the wait after `elapsed`. Returns any other text
/// unchanged.
pub fn retry_countdown(text: &str, elapsed: Duration) -> String {
    let parts = text.strip_prefix(RETRYING).and_then(|rest| rest.split_once(ATTEMPT));
    let parts = parts.and_then(|(wait, rest)| Some((wait.strip_suffix(" s")?.parse::<f64>().ok()?, rest)));
    let Some((wait, rest)) = parts else { return text.to_owned() };
    match wait - elapsed.as_secs_f64() {
        left if left >= 1.0 => format!("{RETRYING}{:.0} s{ATTEMPT}{rest}", left.ceil()),
        left if left > 0.0 => format!("{RETRYING}{left:.1} s{ATTEMPT}{rest}"),
        _ => format!("trying again{ATTEMPT}{rest}"),
    }
}

const RETRYING: &str = "retrying in ";
const ATTEMPT: &str = ", attempt ";

/// Says that an input waits until another process no longer uses the session.
pub fn waiting_for_process(process: Option<u32>) -> String {
    let process = process.map_or_else(String::new, |id| format!(" (pid {id})"));
    format!("{OTHER_PROCESS}{process}{USES_SESSION}")
}

/// Returns true for a text of [`waiting_for_process`].
pub fn is_waiting_for_process(text: &str) -> bool {
    text.starts_with(OTHER_PROCESS) && text.ends_with(USES_SESSION)
}

const OTHER_PROCESS: &str = "waiting for another sysop process";
const USES_SESSION: &str = " that is using this session";

/// Says where a call's full output is, if it was kept. `directory` is the directory of full outputs, if it is on the
/// user's machine.
pub fn full_output(outcome: &Outcome, directory: Option<&str>) -> Option<String> {
    let name = safe(outcome.artifact.as_deref()?);
    Some(match directory {
        Some(directory) => format!("full output: {}/{name}", safe(directory)),
        None => format!("full output kept on the server as {name}"),
    })
}

/// Says where the rows of an output are that a front end omitted. `number` is the number of the call in the session.
pub fn omitted_output(outcome: &Outcome, number: u32) -> String {
    match (outcome.truncated, &outcome.artifact) {
        (false, _) => format!("/output {number} shows all"),
        (true, Some(name)) => format!("truncated: /output {number} shows more, {} has all", safe(name)),
        (true, None) => format!("truncated: /output {number} shows what was kept"),
    }
}

/// Like [`outcome_summary`], but omits what the status symbol shows: `8 ms`, or `exit code 1, 8 ms`.
pub fn finished_summary(outcome: &Outcome) -> String {
    let all = outcome_summary(outcome);
    let short = match (outcome.status, outcome.exit_code) {
        (Status::Ok, Some(0)) => all.strip_prefix("ok, exit code 0, "),
        (Status::Ok, _) => all.strip_prefix("ok, "),
        (Status::Failed, Some(_)) => all.strip_prefix("failed, "),
        (
            Status::Failed
            | Status::Timeout
            | Status::Cancelled
            | Status::Interrupted
            | Status::Unknown
            | Status::Rejected,
            _,
        ) => None,
    };
    short.map_or_else(|| all.clone(), str::to_owned)
}

fn end_summary(outcome: &Outcome) -> String {
    match outcome.time_limit() {
        Some(seconds) => format!("timed out after the limit of {seconds} s"),
        None => status_summary(outcome.status),
    }
}

fn status_summary(status: Status) -> String {
    match status {
        Status::Timeout => "timed out".to_owned(),
        Status::Unknown => "outcome unknown: the connection or the output was lost; not run again".to_owned(),
        Status::Cancelled => "canceled".to_owned(),
        Status::Ok | Status::Failed | Status::Interrupted | Status::Rejected => status.as_str().to_owned(),
    }
}

/// Maximum number of groups that ended alike and have a line each. More groups share one line.
const GROUP_LINES_MAX: usize = 3;

/// Returns summaries of a call's outcomes on several hosts: one line for each group of hosts with equal outcomes. The
/// lines are in the order of the groups, which puts outliers first. If almost every host printed something else, the
/// groups that ended alike share a line.
pub fn host_groups(hosts: &[HostOutcome]) -> Vec<(String, Status)> {
    let mut group_of_reason: HashMap<&str, u32> = HashMap::new();
    let mut groups: BTreeMap<u32, Vec<&HostOutcome>> = BTreeMap::new();
    for host in hosts {
        // The outputs of hosts that were not reached for the same reason differ by their names.
        let reason = host.unreachable.as_deref().map(|why| reason_without_host(why, &host.host));
        let group = reason.map_or(host.group, |why| *group_of_reason.entry(why).or_insert(host.group));
        groups.entry(group).or_default().push(host);
    }
    let end = |host: &HostOutcome| (host.status, host.exit_code, host.unreachable.is_some());
    let mut lines = Vec::new();
    let mut merged = Vec::new();
    for group in groups.values() {
        let this = end(group[0]);
        let outputs = groups.values().filter(|other| end(other[0]) == this).count();
        if outputs <= GROUP_LINES_MAX {
            lines.push((group_summary(group, 1), group[0].status));
        } else if !merged.contains(&this) {
            merged.push(this);
            let alike: Vec<_> = hosts.iter().filter(|host| end(host) == this).collect();
            lines.push((group_summary(&alike, outputs), group[0].status));
        }
    }
    lines
}

/// Like `host_groups`, but returns one string with one line per group.
pub fn host_lines(outcome: &Outcome) -> String {
    host_groups(&outcome.hosts).into_iter().map(|(text, _)| format!("{text}\n")).collect()
}

/// Describes hosts that ended alike, with this number of different outputs.
fn group_summary(group: &[&HostOutcome], outputs: usize) -> String {
    let names: Vec<&str> = group.iter().map(|host| host.host.as_str()).collect();
    let hosts = match names.as_slice() {
        [name] => (*name).to_owned(),
        names => format!("{} hosts ({})", names.len(), fold_names(names)),
    };
    if let Some(why) = &group[0].unreachable {
        let why =
            if outputs > 1 { "they cannot be reached" } else { reason_without_host(why, &group[0].host) };
        return safe(&format!("{hosts}: not run: {why}"));
    }
    let ended = match (group[0].exit_code, group[0].status) {
        (Some(code), Status::Ok | Status::Failed) => format!("exit {code}"),
        (_, Status::Rejected) => return safe(&format!("{hosts}: not run")),
        (_, status) => status_summary(status),
    };
    let differ = if outputs > 1 { format!(", {outputs} different outputs") } else { String::new() };
    let longest = group.iter().map(|host| host.duration_ms).max().unwrap_or(0);
    safe(&format!("{hosts}: {ended}{differ}, {}", duration(longest)))
}

/// Returns true if `host` names several hosts, separated by commas, on which commands run at once.
pub fn is_fleet(host: &str) -> bool {
    host.contains(',')
}

/// Returns the names of the hosts, of which some may be URLs for a port: `ssh://joe@web1:2222`.
fn host_names(host: &str) -> Vec<&str> {
    host.split(',').map(|name| name.trim().trim_start_matches("ssh://")).collect()
}

/// Returns the full location of commands: the host's name, or the number and the names of several hosts.
pub fn place(host: &str) -> String {
    let names = host_names(host);
    let one = |name: &str| match name.rsplit_once('@') {
        Some((user, name)) if !user.is_empty() => format!("{name} as {user}"),
        Some(_) | None => name.to_owned(),
    };
    match names.as_slice() {
        [name] => one(name),
        names => {
            let names: Vec<String> = names.iter().map(|name| one(name)).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            format!("{} hosts: {}", names.len(), fold_names(&names))
        }
    }
}

/// Returns a short location of commands: the host, or the number of hosts.
pub fn host_summary(host: &str) -> String {
    if host == "none" {
        return "no host".to_owned();
    }
    match host_names(host).as_slice() {
        [name] => (*name).to_owned(),
        names => format!("{} hosts", names.len()),
    }
}

/// Returns the location of commands as parts of a status line, such as `host web1` and `user admin`.
pub fn host_status_parts(host: &str) -> Vec<String> {
    if matches!(host, "none" | CLIENT_MACHINE) {
        return vec![if host == "none" { "no host" } else { "tools on the client" }.to_owned()];
    }
    match host_names(host).as_slice() {
        [name] => match name.rsplit_once('@') {
            Some((user, name)) if !user.is_empty() => vec![format!("host {name}"), format!("user {user}")],
            Some(_) | None => vec![format!("host {name}")],
        },
        _ => vec![place(host)],
    }
}

/// Returns true if `host` is the name of this machine, `local`.
pub fn is_local_host(host: &str) -> bool {
    host == "local"
}

/// Returns the name under which a front end shows the machine of a server, such as `local on ops.example.com`.
pub fn server_machine(server: &str) -> String {
    format!("{SERVER_MACHINE}{server}")
}

/// Returns the phrase that says on which machine commands run: `on web1`. That of a server's machine is `on HOST`.
pub fn on_place(host: &str) -> String {
    format!("on {}", place(host.strip_prefix(SERVER_MACHINE).unwrap_or(host)))
}

/// Returns true for a name made by [`server_machine`].
pub fn is_server_machine(host: &str) -> bool {
    host.starts_with(SERVER_MACHINE)
}

/// Returns the reason for the end of a turn, or `None` if the end needs no explanation.
pub fn turn_end_summary(end: &TurnEnd) -> Option<String> {
    let error = end.error.as_deref().map(safe);
    match end.reason {
        StopReason::EndTurn => error,
        StopReason::MaxIterations => Some(error.unwrap_or_else(|| {
            format!("stopped after {} model calls; send `continue`, or raise max_iterations", end.iterations)
        })),
        StopReason::Cancelled => Some("stopped".to_owned()),
        StopReason::Failed => Some(error.unwrap_or_else(|| "the turn failed".to_owned())),
        StopReason::Paused => Some("canceled while paused".to_owned()),
    }
}

/// Returns the text for the status line that says what the session is waiting for. `None` if it is waiting for a
/// prompt, or if the turn has not made its first model call yet.
pub fn waiting_for(phase: &SessionPhase, model: &str, what: &str) -> Option<String> {
    match phase {
        SessionPhase::Idle => None,
        // No model has been called before a turn's first step, and a typed command has no step.
        SessionPhase::Thinking { step } if step.step == 0 => None,
        SessionPhase::Thinking { .. } => Some(format!("waiting for {model}")),
        SessionPhase::Running { .. } => Some(format!("running {what}")),
        SessionPhase::AwaitingApproval { .. } => Some("waiting for approval".to_owned()),
        SessionPhase::Stopping => Some("stopping".to_owned()),
        SessionPhase::Paused { reason } => Some(
            match reason {
                PauseReason::Asked => "paused",
                PauseReason::Loop => "paused: the model repeated a call",
                PauseReason::Interrupted => "interrupted",
                PauseReason::Budget => "paused: budget spent",
            }
            .to_owned(),
        ),
    }
}

/// Returns the text for the status line while a call is about to be proposed or to run; otherwise `None`.
pub fn preparing_call(transcript: &Transcript) -> Option<String> {
    Some(match transcript.call_preparation()? {
        CallPreparation::Start => "preparing the call".to_owned(),
        CallPreparation::Survey { host, reached, is_command } => {
            let what = if is_command { "the command" } else { "the call" };
            let is_here = is_local_host(host) || is_server_machine(host);
            match (is_here || matches!(host, "none" | CLIENT_MACHINE), reached) {
                (true, _) => format!("checking {what}"),
                (false, false) => format!("connecting to {}", safe(&host_summary(host))),
                (false, true) => format!("checking {what} on {}", safe(&host_summary(host))),
            }
        }
    })
}

/// Returns a line about a pause that was requested and has not begun.
pub fn pausing(delay: PauseDelay) -> &'static str {
    match delay {
        PauseDelay::Command => "pausing after this command",
        PauseDelay::Step => "pausing after this step",
    }
}

/// Returns a clause about a pause that was requested and has not begun, behind what the session waits for.
pub fn will_pause(delay: PauseDelay) -> &'static str {
    match delay {
        PauseDelay::Command => "pauses after this command",
        PauseDelay::Step => "pauses after this step",
    }
}

/// Describes the calls that a grant covers. The grant applies to the same host and user only.
pub fn covers(grant: &Grant) -> String {
    match grant {
        Grant::Exact { .. } => "this exact command in this directory".to_owned(),
        Grant::Program { program, subcommand: Some(subcommand) } => {
            safe(&format!("any simple `{program} {subcommand} …`, run in this directory"))
        }
        Grant::Program { program, subcommand: None } => {
            safe(&format!("any simple `{program} …` that stays below this directory"))
        }
        Grant::Tool { name } if name == "edit_file" => "all edits here, except to protected files".to_owned(),
        Grant::Tool { name } if name == "write_file" => {
            "all writes here, except to protected files".to_owned()
        }
        Grant::Tool { name } => safe(&format!("any {name} call here, except on protected files")),
    }
}

/// Says where the rule holds that the answer "always" saves.
pub const RULE_SCOPE: &str = "The rule holds in every directory, not only in this one.";

/// Returns a hint for a call that needs approval when no user can be asked. The hint names the ways to run the call.
pub fn way_to_approve(plan: &Proposal) -> String {
    let call = deferred_tools::inner_call(&plan.call);
    if call.name == UNDO_TOOL {
        return "use --yes or run interactively".to_owned();
    }
    if plan.terms.people > 1 {
        return format!(
            "{} people must allow this call: run it in a session of `sysop serve`",
            plan.terms.people
        );
    }
    if plan.risk.class.always_asks() {
        return ALWAYS_ASKS.to_owned();
    }
    let is_opaque = plan.risk.class == RiskClass::Opaque;
    if is_opaque && plan.risk.findings.iter().any(Finding::lacks_answer) {
        return "the host did not answer, so the effect is unknown: try again or run interactively"
            .to_owned();
    }
    match deferred_tools::server(&call.name) {
        Some(server) => {
            let server = safe(server);
            format!(
                "MCP tools need approval in every mode: allow this call in `sysop chat`, or set approve = \"reads\" in \
                 [mcp.{server}] to run the tools that this server declares read-only"
            )
        }
        None => {
            let rule = Rule::for_approval("local", &plan.call, &plan.command, &plan.risk);
            // `auto` asks about unknown effects, too.
            let text = match (rule.is_some(), is_opaque) {
                (true, true) => "run interactively, or allow the command with a rule in `[[policy.rules]]`",
                (true, false) => {
                    "run interactively, or allow the command with a rule in `[[policy.rules]]` or with --approve auto"
                }
                (false, true) => ALWAYS_ASKS,
                (false, false) => "run interactively, or use --approve auto",
            };
            text.to_owned()
        }
    }
}

const ALWAYS_ASKS: &str = "run it on a terminal, because this call needs approval in every mode";

/// Returns a phrase about the origin of a call that no model proposed, with the user who asked for it. A user's own
/// call without a name is by "you". `None` for a call of a model.
pub fn origin_summary(plan: &Proposal) -> Option<String> {
    let own = (plan.origin == Origin::User).then_some("you");
    origin_phrase(plan.origin, &plan.call.name, plan.asked_by.as_deref().or(own))
}

/// Returns a phrase about the origin of a call of `tool` that no model proposed, and the user who asked for it, if
/// known. `None` for a call of a model.
pub fn origin_phrase(origin: Origin, tool: &str, asked_by: Option<&str>) -> Option<String> {
    let by = |phrase: &str, verb: &str| match asked_by {
        Some(by) => format!("{phrase}{verb} by {}", neutralize_line(by)),
        None => phrase.to_owned(),
    };
    match origin {
        Origin::Model => None,
        Origin::User if tool == UNDO_TOOL => {
            Some(format!("requested by {}", neutralize_line(asked_by.unwrap_or("a user"))))
        }
        Origin::User => Some(by("typed", "")),
        Origin::Routine => Some(by("from a routine", ", started")),
        Origin::Plan => Some(by("from the plan", ", started")),
        Origin::McpClient => Some(by("from an MCP client", ", started")),
    }
}

/// Returns a summary of the decision on a call. Names the user who decided, unless that is `own`, the user of
/// this front end. `None` if the call is still waiting, or if the policy decided.
pub fn decision_summary(plan: &Proposal, own: &str) -> Option<String> {
    let name = |by: &str| if by == own { String::new() } else { format!(" by {by}") };
    let edited = if plan.edited_from.is_some() { ", edited" } else { "" };
    match &plan.state {
        // The outcome of a call that did not run has the reason.
        ProposalState::Waiting
        | ProposalState::NotRun
        | ProposalState::Rejected { by: Decider::Policy, .. }
        | ProposalState::Allowed { by: Decider::Policy, .. } => None,
        ProposalState::Allowed { by: Decider::Person(by), scope: ApprovalScope::Once } => {
            Some(format!("allowed{}{edited}", name(by)))
        }
        ProposalState::Allowed { by: Decider::Person(by), scope: ApprovalScope::Session } => {
            Some(format!("allowed for this session{}{edited}", name(by)))
        }
        // The outcome says that the turn was stopped.
        ProposalState::Rejected { by: Decider::Person(by), reason }
            if by == Decision::BY_SYSOP && reason == TURN_STOPPED =>
        {
            None
        }
        ProposalState::Rejected { by: Decider::Person(by), reason } => {
            let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            Some(format!("rejected{}{why}", name(by)))
        }
    }
}

/// Beginning of a notice that a call that a user typed does not run; the reason follows.
pub const NOT_RUN: &str = "not run: ";

/// Reason why a call that a user typed does not run, and what to do about it.
pub const PROPOSAL_WAITS: &str = "a proposal is waiting; answer it first";

/// As [`PROPOSAL_WAITS`], while a turn runs.
pub const TURN_RUNS: &str = "a turn is running; wait for it, or stop it";

/// Says why a call that a user typed would not run now. `None` if it would. `stop` names the key that stops the turn.
pub fn typed_call_refusal(transcript: &Transcript, stop: &str) -> Option<String> {
    let is_paused = || transcript.work_before_pause().is_none();
    match transcript.phase() {
        SessionPhase::Idle => None,
        SessionPhase::Paused { .. } if is_paused() => None,
        SessionPhase::AwaitingApproval { .. } => Some(format!("not run: {PROPOSAL_WAITS}")),
        SessionPhase::Thinking { .. } | SessionPhase::Running { .. } | SessionPhase::Paused { .. } => {
            Some(turn_runs(stop))
        }
        SessionPhase::Stopping => Some("not run: the turn is being stopped; wait for its end".to_owned()),
    }
}

/// Says that a call that a user typed does not run, because a turn runs. `stop` names the key that stops the turn.
pub fn turn_runs(stop: &str) -> String {
    format!("not run: {TURN_RUNS} with {stop}")
}

/// Answer to `/compact` while a turn is running.
pub const COMPACTS_LATER: &str = "the context will be compacted after this step";

/// Formats an error as programs print it: a line `error: …` and, if the text contains a hint, a line `hint: …`.
pub fn error_lines(text: &str) -> String {
    match split_hint(text) {
        (failure, Some(hint)) => format!("error: {failure}\nhint: {hint}\n"),
        (failure, None) => format!("error: {failure}\n"),
    }
}

/// Splits an error of the form `what failed; what to do` into the failure and the hint. A `;` inside
/// backticks, double quotes or parentheses does not count: it belongs to a command or a value.
pub fn split_hint(text: &str) -> (&str, Option<&str>) {
    let is_outside = |at: usize| {
        let before = &text[..at];
        let count = |mark: char| before.matches(mark).count();
        let quotes = count('"') - before.matches("\\\"").count();
        count('`').is_multiple_of(2) && quotes.is_multiple_of(2) && count('(') <= count(')')
    };
    match text.rmatch_indices("; ").map(|(at, _)| at).find(|at| is_outside(*at)) {
        Some(at) if at > 0 && at + 2 < text.len() => (&text[..at], Some(&text[at + 2..])),
        Some(_) | None => (text, None),
    }
}

/// Returns the message for `/output` if there is no such output.
pub fn no_output(number: Option<u32>) -> String {
    match number {
        Some(number) => format!("no output kept for call {number}; `/output` shows the newest"),
        None => "no call has ended yet".to_owned(),
    }
}

pub fn class(class: RiskClass) -> &'static str {
    match class {
        RiskClass::ReadOnly => "read-only",
        RiskClass::ReadsRemote => "reads over the network",
        RiskClass::Changes => "makes changes",
        RiskClass::Opaque => "effect unknown",
        RiskClass::ReadsSecret => "reads secrets",
        RiskClass::Dangerous => "dangerous",
        RiskClass::Lockout => "may lock you out",
    }
}

/// Returns the line that an approval shows about the guard of a call.
pub fn guarded(guard: GuardTimeout) -> String {
    format!("guarded: rolls back by itself after {} s unless a fresh login works", guard.seconds)
}

/// Returns the symbol to show before an outcome summary. The symbols can be told apart without colors.
pub fn status_sign(status: Status) -> &'static str {
    match status {
        Status::Ok => "✓",
        Status::Failed | Status::Timeout => "✗",
        Status::Cancelled | Status::Interrupted | Status::Unknown | Status::Rejected => "■",
    }
}

/// Returns the characters of a command that belong to another script but resemble Latin letters, each with its code
/// point. Only words that also contain Latin letters are searched.
pub fn confusables(command: &str) -> Vec<String> {
    const SHOWN_MAX: usize = 8;
    let mut found: Vec<char> = command
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().any(|c| c.is_ascii_alphabetic()))
        .flat_map(str::chars)
        .filter(|c| matches!(c, '\u{370}'..='\u{58f}' | '\u{13a0}'..='\u{13ff}' | '\u{ff21}'..='\u{ff5a}'))
        .collect();
    found.sort_unstable();
    found.dedup();
    found.truncate(SHOWN_MAX);
    found.into_iter().map(|c| format!("{c} (U+{:04X})", u32::from(c))).collect()
}

fn safe(text: &str) -> String {
    neutralize(text).into_owned()
}

#[cfg(test)]
mod tests;
