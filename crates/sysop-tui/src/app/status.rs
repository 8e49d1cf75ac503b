//! Text of the two status lines: one shows the current activity, the other the session's status.

use std::time::Duration;

use sysop_core::event::PauseReason;
use sysop_core::id::{CallId, SessionId, Timestamp};
use sysop_core::mode::Mode;
use sysop_core::policy::ApprovalMode;
use sysop_core::text::neutralize_line;
use sysop_core::transcript::{PauseDelay, SessionInfo, SessionPhase, call_summary};
use sysop_core::ui_text;
use sysop_term::session_text::context_percent;

use super::server_link::OFFLINE;
use super::{App, BackgroundStatus, PendingAck, Review, ReviewMode, State};
use crate::BY;

pub(super) const SPIN: Duration = Duration::from_millis(100);
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Activity at a proposal.
pub(super) const APPROVAL_REQUIRED: &str = "Approval required";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Dim,
    /// Name of the host, emphasized because acting on the wrong host is costly.
    Host,
    Busy,
    Good,
    Warn,
    Bad,
}

/// A part of the status line that the user can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusPart {
    Host,
    /// Root of the file tools.
    Folder,
    /// Current branch of the repository at the root.
    Branch,
    Model,
    Approval,
    Sandbox,
    /// Fraction of the model's context window in use.
    Context,
    /// Tokens sent and received.
    Tokens,
    Cost,
    /// Time since the turn started.
    Time,
    Step,
}

impl StatusPart {
    /// All parts, each with its name in the config.
    pub const ALL: [(Self, &'static str); 11] = [
        (Self::Host, "host"),
        (Self::Folder, "folder"),
        (Self::Branch, "branch"),
        (Self::Model, "model"),
        (Self::Approval, "approval"),
        (Self::Sandbox, "sandbox"),
        (Self::Context, "context"),
        (Self::Tokens, "tokens"),
        (Self::Cost, "cost"),
        (Self::Time, "time"),
        (Self::Step, "step"),
    ];
    const USUAL: [Self; 11] = [
        Self::Host,
        Self::Folder,
        Self::Branch,
        Self::Model,
        Self::Approval,
        Self::Sandbox,
        Self::Context,
        Self::Tokens,
        Self::Cost,
        Self::Time,
        Self::Step,
    ];

    /// Returns the part with this name, or `None` if there is none.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(part, _)| *part)
    }
}

/// A part of the status line. Control characters in its text are neutralized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusSegment {
    pub text: String,
    pub tone: Tone,
    /// Order in which segments are dropped if space is short: the highest rank first, rank 0 never.
    pub rank: u8,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityIndicator {
    /// Symbol before the text.
    pub sign: &'static str,
    pub text: String,
    pub tone: Tone,
    /// True if the symbol is animated.
    pub moves: bool,
}

fn segment(text: impl AsRef<str>, tone: Tone, rank: u8) -> StatusSegment {
    StatusSegment { text: neutralize_line(text.as_ref()).into_owned(), tone, rank }
}

/// Formats a duration without fractions of a second, so that the width of the text rarely changes.
fn seconds(time: Duration) -> String {
    match time.as_secs() {
        short @ 0..60 => format!("{short} s"),
        long @ 60..3_600 => format!("{} min {:02} s", long / 60, long % 60),
        hours => format!("{} h {:02} min", hours / 3_600, hours % 3_600 / 60),
    }
}

impl App {
    /// Returns the segments of the session's status, from left to right.
    pub fn status(&self, now: Duration) -> Vec<StatusSegment> {
        let Some(facts) = self.transcript().session_info() else {
            if self.is_offline() {
                return vec![segment(OFFLINE, Tone::Warn, 0)];
            }
            let text = if self.session.is_some() { "reading the session…" } else { "opening…" };
            return vec![segment(text, Tone::Dim, 0)];
        };
        let chosen = if self.status_line.is_empty() { &StatusPart::USUAL[..] } else { &self.status_line };
        let mut parts: Vec<StatusSegment> = Vec::new();
        for part in chosen {
            // The branch belongs to the directory.
            match (part, self.part(*part, facts, now)) {
                (StatusPart::Branch, Some(branch)) => match parts.last_mut() {
                    Some(last) if chosen.contains(&StatusPart::Folder) => {
                        last.text = format!("{} ({})", last.text, branch.text);
                    }
                    _ => parts.push(branch),
                },
                (_, Some(segment)) => parts.push(segment),
                (_, None) => {}
            }
        }
        // The host and the mode are always shown: acting on the wrong host is costly.
        for part in [StatusPart::Approval, StatusPart::Host] {
            if !chosen.contains(&part) {
                parts.splice(0..0, self.part(part, facts, now));
            }
        }
        if self.is_offline() {
            parts.insert(0, segment(OFFLINE, Tone::Warn, 0));
        }
        if let Some(canary) = facts.canary.filter(|_| ui_text::is_fleet(&facts.host)) {
            parts.push(segment(format!("canary {canary}"), Tone::Dim, 3));
        }
        let readers = ui_text::other_readers(self.transcript().output_readers());
        parts.extend(readers.map(|readers| segment(readers, Tone::Warn, 1)));
        if facts.mode == Mode::Chat {
            parts.push(segment("chat", Tone::Plain, 0));
        }
        match self.transcript().jobs().len() {
            0 => {}
            1 => parts.push(segment("1 job", Tone::Busy, 2)),
            count => parts.push(segment(format!("{count} jobs"), Tone::Busy, 2)),
        }
        if let count @ 1.. = self.queued.len() {
            parts.push(segment(format!("{count} queued"), Tone::Busy, 1));
        }
        let sessions =
            |count: usize| if count == 1 { "1 session".to_owned() } else { format!("{count} sessions") };
        let waits = |(_, status): &&(SessionId, BackgroundStatus)| *status == BackgroundStatus::AwaitingUser;
        match (self.background_sessions.len(), self.background_sessions.iter().filter(waits).count()) {
            (0, _) => {}
            (count, 0) => parts.push(segment(format!("{} in background", sessions(count)), Tone::Busy, 2)),
            (_, waiting) => {
                parts.push(segment(format!("{} awaiting approval", sessions(waiting)), Tone::Warn, 1))
            }
        }
        if let Some(holder) = self.transcript().holder() {
            let text = if holder == BY {
                "you are using the terminal".to_owned()
            } else {
                format!("{holder} is using the terminal")
            };
            parts.push(segment(text, Tone::Warn, 0));
        }
        parts
    }

    fn part(&self, part: StatusPart, facts: &SessionInfo, now: Duration) -> Option<StatusSegment> {
        Some(match part {
            StatusPart::Host => segment(ui_text::host_summary(facts.place()), Tone::Host, 0),
            StatusPart::Folder if facts.root.is_empty() => return None,
            StatusPart::Folder => segment(self.folder(), Tone::Plain, 2),
            StatusPart::Branch => segment(self.branch.name.as_ref()?, Tone::Plain, 4),
            StatusPart::Model => segment(facts.model.to_string(), Tone::Plain, 1),
            StatusPart::Approval => {
                let tone = if facts.approve == ApprovalMode::Auto { Tone::Warn } else { Tone::Dim };
                segment(facts.approval_status(self.wall_clock(now)), tone, 0)
            }
            StatusPart::Sandbox => segment(facts.fence_label()?, Tone::Dim, 3),
            StatusPart::Context => {
                match (self.transcript().context_tokens(), context_percent(self.transcript())) {
                    (0, _) => return None,
                    (_, Some(percent)) => segment(
                        format!("ctx {percent}%"),
                        if percent >= 75 { Tone::Warn } else { Tone::Dim },
                        3,
                    ),
                    (tokens, None) => segment(format!("ctx {}", ui_text::tokens(tokens)), Tone::Dim, 5),
                }
            }
            StatusPart::Tokens => segment(ui_text::usage(self.meter.report().usage())?, Tone::Dim, 5),
            StatusPart::Cost => {
                let cost = self.meter.report().cost()?;
                let text = if cost < 0.01 { format!("${cost:.4}") } else { format!("${cost:.2}") };
                segment(text, Tone::Dim, 3)
            }
            StatusPart::Time if self.is_working() => segment(seconds(self.meter.turn(now)?), Tone::Dim, 2),
            StatusPart::Step if self.is_working() => match self.transcript().iteration() {
                0 => return None,
                step => segment(format!("step {step}/{}", facts.max_iterations), Tone::Dim, 2),
            },
            StatusPart::Time | StatusPart::Step => return None,
        })
    }

    /// Returns the session's root, with the user's local home directory as `~`.
    pub fn folder(&self) -> String {
        let Some(facts) = self.transcript().session_info() else { return String::new() };
        let home = self.home.as_deref().filter(|home| ui_text::is_local_host(&facts.host) && home.len() > 1);
        match home.and_then(|home| facts.root.strip_prefix(home)) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("~{rest}"),
            Some(_) | None => facts.root.clone(),
        }
    }

    /// Stores the branch of the repository at the session's root.
    pub fn set_branch(&mut self, branch: Option<String>) {
        self.branch.name = branch;
    }

    /// Returns true once after calls that may have switched the branch of a session on this machine. The branch of
    /// other hosts is not shown.
    pub fn take_stale_branch(&mut self) -> bool {
        let is_local =
            self.transcript().session_info().is_some_and(|facts| ui_text::is_local_host(&facts.host));
        self.branch.take_stale() && is_local
    }

    /// Returns the time at which the countdown of `auto` or of the pending approval changes.
    pub(super) fn countdown_change(&self, now: Duration) -> Option<Duration> {
        let time = self.wall_clock(now)?;
        let auto = self.transcript().session_info()?.auto.progress();
        let asked = self.review().and_then(|review| self.transcript().plan(review.call()));
        let auto = auto.and_then(|auto| auto.next_change(time));
        let expiry = asked.and_then(|plan| plan.terms.next_change(time));
        Some(now + auto.into_iter().chain(expiry).min()?)
    }

    /// Returns the time of day at `now`, if known.
    pub fn wall_clock(&self, now: Duration) -> Option<Timestamp> {
        let elapsed = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        self.started.map(|started| Timestamp(started.0.saturating_add(elapsed)))
    }

    /// Returns true while a turn is running.
    pub fn is_working(&self) -> bool {
        !self.is_replaying() && *self.transcript().phase() != SessionPhase::Idle
    }

    /// Returns true if the turn is paused and nothing of it runs anymore.
    pub fn is_paused(&self) -> bool {
        let transcript = self.transcript();
        matches!(transcript.phase(), SessionPhase::Paused { .. }) && transcript.work_before_pause().is_none()
    }

    /// Returns the current activity, or `None` if the session is only waiting for a prompt.
    pub fn activity(&self, now: Duration) -> Option<ActivityIndicator> {
        if self.is_replaying() {
            return None;
        }
        if let Some(question_prompt) = self.question_prompt() {
            let text = format!("{} is waiting for input", question_prompt.question().from);
            return Some(still("?", neutralize_line(&text).into_owned(), Tone::Warn));
        }
        if self.is_offline() {
            // Nobody knows here if the turn goes on.
            return self.review().map(|_| self.review_activity());
        }
        let moving = |text: String| {
            let at = usize::try_from(now.as_millis() / SPIN.as_millis()).unwrap_or(0) % SPINNER.len();
            let text = neutralize_line(&text).into_owned();
            Some(ActivityIndicator { sign: SPINNER[at], text, tone: Tone::Busy, moves: true })
        };
        let waited = seconds(self.meter.waited(now));
        let model =
            self.transcript().session_info().map(|facts| facts.model.name.clone()).unwrap_or_default();
        match (self.state(), self.transcript().phase()) {
            (_, SessionPhase::Stopping) => moving("Stopping… Ctrl+C again to quit".to_owned()),
            (State::ReviewAction, _) => Some(self.review_activity()),
            (_, _) if let Some(delay) = self.pause_delay() => {
                moving(format!("{}… Ctrl+P to resume, Esc to stop", ui_text::pausing(delay)))
            }
            (_, SessionPhase::Paused { reason }) => Some(still("■", paused(*reason).to_owned(), Tone::Warn)),
            // The log does not have the answer yet.
            (State::Thinking, SessionPhase::AwaitingApproval { .. }) => moving("rejecting".to_owned()),
            (State::Thinking | State::Finalizing | State::Executing, _)
                if let Some(work) = self.transcript().host_work() =>
            {
                moving(format!("{work} · {waited}"))
            }
            (State::Thinking | State::Finalizing, _)
                if let Some(work) = ui_text::preparing_call(self.transcript()) =>
            {
                moving(format!("{work} · {waited}"))
            }
            (State::Thinking | State::Finalizing, _) => moving(match self.meter.notice(now) {
                Some(notice) => format!("{notice} · {waited}"),
                None if self.is_starting_call() => "starting".to_owned(),
                None if self.progress_text().is_some() => {
                    format!("{model}: {} · {waited}", self.progress_text().unwrap_or_default())
                }
                None if self.meter.is_answering() => format!("{model} is answering · {waited}"),
                None if self.state() == State::Finalizing => {
                    format!("{model} is reading the result · {waited}")
                }
                None => format!("waiting for {model} · {waited}"),
            }),
            (State::Executing, SessionPhase::Running { call }) => moving(self.running_text(call, &waited)),
            (State::Executing, _) => moving("starting".to_owned()),
            (State::Done, _) => Some(self.end_activity(now)),
            (State::Input, _) => None,
        }
    }
}

impl App {
    /// Returns the work that a requested pause waits for, also before the log has the request.
    pub fn pause_delay(&self) -> Option<PauseDelay> {
        let work = || self.transcript().work_before_pause().unwrap_or(PauseDelay::Step);
        self.transcript().pause_delay().or_else(|| self.pausing.then(work))
    }

    /// Returns true before the first step of a turn without a model: a call of the user's own.
    fn is_starting_call(&self) -> bool {
        if let SessionPhase::Thinking { step } = self.transcript().phase() {
            return step.step == 0 && self.transcript().is_turn_without_model();
        }
        matches!(self.pending_ack, Some((PendingAck::Call, _)))
    }

    fn review_activity(&self) -> ActivityIndicator {
        match self.review().map(Review::mode) {
            Some(ReviewMode::Editing) => still("✎", "Editing".to_owned(), Tone::Warn),
            Some(ReviewMode::Rejecting) => still("✗", "Rejecting".to_owned(), Tone::Warn),
            Some(ReviewMode::Deciding | ReviewMode::ConfirmingSession | ReviewMode::ConfirmingRule)
            | None => {
                let pause = self.pause_delay().map(|delay| format!(" · {}", ui_text::will_pause(delay)));
                still("?", format!("{APPROVAL_REQUIRED}{}", pause.unwrap_or_default()), Tone::Warn)
            }
        }
    }

    /// Returns the result of the last turn. Whatever the model answered, a turn that did not reach its host was not
    /// done.
    fn end_activity(&self, now: Duration) -> ActivityIndicator {
        if let Some(missed) = self.transcript().missed_hosts() {
            return still("✗", neutralize_line(&missed).into_owned(), Tone::Bad);
        }
        let took = self.meter.turn(now).map_or_else(String::new, |took| {
            let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            format!(" in {}", ui_text::duration(milliseconds))
        });
        still("✓", format!("done{took}"), Tone::Good)
    }

    fn running_text(&self, call: &CallId, waited: &str) -> String {
        if let Some(holder) = self.transcript().holder() {
            let who = if holder == BY { "you are typing".to_owned() } else { format!("{holder} is typing") };
            return format!("agent paused while {who} in the terminal");
        }
        let what = self.transcript().plan(call).map_or("the tool".to_owned(), |plan| {
            if plan.call.text_argument("command").is_some() {
                plan.call.name.clone()
            } else {
                call_summary(&plan.call)
            }
        });
        format!("running {what} · {waited}")
    }

    fn progress_text(&self) -> Option<String> {
        self.transcript().progress().and_then(|progress| progress.summary())
    }
}

fn still(sign: &'static str, text: String, tone: Tone) -> ActivityIndicator {
    ActivityIndicator { sign, text, tone, moves: false }
}

fn paused(reason: PauseReason) -> &'static str {
    match reason {
        // The history names the reason of an interruption.
        PauseReason::Asked | PauseReason::Interrupted => "Paused. Ctrl+P to resume, Esc to cancel",
        PauseReason::Loop => "Paused by the loop guard. Ctrl+P to resume, Esc to cancel",
        PauseReason::Budget => "Paused: budget spent. Ctrl+P to resume, Esc to cancel",
    }
}
