//! Text of the two status lines: one shows the current activity, the other the status of the session.

use std::time::Duration;

use sysop_core::event::PauseReason;
use sysop_core::id::{SessionId, Timestamp};
use sysop_core::mode::Mode;
use sysop_core::policy::ApprovalMode;
use sysop_core::text::neutralize_line;
use sysop_core::transcript::{SessionPhase, call_summary};
use sysop_core::ui_text;

use super::{App, BackgroundStatus, State};
use crate::BY;

pub(super) const SPIN: Duration = Duration::from_millis(100);
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Dim,
    /// Name of the host, which is emphasized because acting on the wrong host is costly.
    Host,
    Busy,
    Good,
    Warn,
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
            let text = if self.session.is_some() { "reading the session…" } else { "opening…" };
            return vec![segment(text, Tone::Dim, 0)];
        };
        let mut parts = vec![
            segment(ui_text::host_summary(facts.place()), Tone::Host, 0),
            segment(facts.model.to_string(), Tone::Plain, 1),
            segment(
                facts.approval_status(self.wall_clock(now)),
                if facts.approve == ApprovalMode::Auto { Tone::Warn } else { Tone::Dim },
                0,
            ),
        ];
        parts.extend(facts.fence_label().map(|word| segment(word, Tone::Dim, 3)));
        let readers = ui_text::other_readers(self.transcript().output_readers());
        parts.extend(readers.map(|readers| segment(readers, Tone::Warn, 1)));
        if facts.mode == Mode::Chat {
            parts.push(segment("chat", Tone::Plain, 0));
        }
        if let context @ 1.. = self.meter.context() {
            parts.push(segment(format!("ctx {}", ui_text::tokens(context)), Tone::Dim, 5));
        }
        if let Some(usage) = ui_text::usage(self.transcript().usage()) {
            parts.push(segment(usage, Tone::Dim, 4));
        }
        if let Some(cost) = self.meter.report().cost() {
            let text = if cost < 0.01 { format!("${cost:.4}") } else { format!("${cost:.2}") };
            parts.push(segment(text, Tone::Dim, 3));
        }
        if self.is_working() {
            if let Some(time) = self.meter.turn(now) {
                parts.push(segment(seconds(time), Tone::Dim, 2));
            }
            if let step @ 1.. = self.transcript().iteration() {
                parts.push(segment(format!("step {step}/{}", facts.max_iterations), Tone::Dim, 2));
            }
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

    /// Returns the time of day at `now`, if known.
    fn wall_clock(&self, now: Duration) -> Option<Timestamp> {
        let elapsed = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        self.started.map(|started| Timestamp(started.0.saturating_add(elapsed)))
    }

    /// Returns true while a turn runs.
    pub fn is_working(&self) -> bool {
        !self.is_replaying() && *self.transcript().phase() != SessionPhase::Idle
    }

    /// Returns the current activity, or `None` if the session only waits for a prompt.
    pub fn activity(&self, now: Duration) -> Option<ActivityIndicator> {
        if self.is_replaying() {
            return None;
        }
        if let Some(question_prompt) = self.question_prompt() {
            let text = format!("{} is waiting for input", question_prompt.question().from);
            return Some(still("?", neutralize_line(&text).into_owned(), Tone::Warn));
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
            (_, SessionPhase::Paused { .. }) if self.transcript().still_running().is_some() => {
                moving("Pausing after this command… Ctrl+P to resume, Esc to stop".to_owned())
            }
            (_, SessionPhase::Paused { reason }) => Some(still("■", paused(*reason).to_owned(), Tone::Warn)),
            (State::ReviewAction, _) => Some(still("?", "Approval required".to_owned(), Tone::Warn)),
            (State::Thinking | State::Finalizing, _) => moving(match self.meter.notice() {
                Some(notice) => format!("{notice} · {waited}"),
                None if self.meter.is_answering() => format!("{model} is answering · {waited}"),
                None if self.state() == State::Finalizing => {
                    format!("{model} is reading the result · {waited}")
                }
                None => format!("waiting for {model} · {waited}"),
            }),
            (State::Executing, SessionPhase::Running { call }) => {
                if let Some(holder) = self.transcript().holder() {
                    let who = if holder == BY {
                        "you are typing".to_owned()
                    } else {
                        format!("{holder} is typing")
                    };
                    return moving(format!("agent paused while {who} in the terminal"));
                }
                let what = self.transcript().plan(call).map_or("the tool".to_owned(), |plan| {
                    if plan.call.text_argument("command").is_some() {
                        plan.call.name.clone()
                    } else {
                        call_summary(&plan.call)
                    }
                });
                moving(format!("running {what} · {waited}"))
            }
            (State::Executing, _) => moving("starting".to_owned()),
            (State::Done, _) => {
                let took = self
                    .meter
                    .turn(now)
                    .map(|took| {
                        format!(
                            " in {}",
                            ui_text::duration(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
                        )
                    })
                    .unwrap_or_default();
                Some(still("✓", format!("done{took}"), Tone::Good))
            }
            (State::Input, _) => None,
        }
    }
}

fn still(sign: &'static str, text: String, tone: Tone) -> ActivityIndicator {
    ActivityIndicator { sign, text, tone, moves: false }
}

fn paused(reason: PauseReason) -> &'static str {
    match reason {
        PauseReason::Asked => "Paused. Ctrl+P to resume, Esc to cancel",
        PauseReason::Loop => "Paused by the loop guard. Ctrl+P to resume, Esc to cancel",
        PauseReason::Interrupted => "Interrupted. Ctrl+P to resume, Esc to cancel",
        PauseReason::Budget => "Paused: budget spent. Ctrl+P to resume, Esc to cancel",
    }
}
