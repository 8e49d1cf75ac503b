//! The live row below the panels.

use std::time::Instant;

use sysop_core::transcript::{SessionPhase, Transcript};
use sysop_term::cells::width;
use sysop_term::{StyleRole, TextRow};

use super::super::live_output::LiveOutput;
use super::PanelView;
use crate::render::panel::Panel;
use crate::render::{RenderOptions, row, safe, span, truncate, words};

/// Minimum width in columns of the running command in the live row.
const WAIT_COLUMNS_MIN: usize = 20;
pub(super) const FRAMES: [&str; 8] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧"];

/// Clock of the current wait.
#[derive(Default)]
pub(super) struct WaitClock {
    began: Option<Instant>,
    /// Words for the wait, as they were before a pause was requested.
    wait: Option<String>,
    /// Words for the requested pause.
    pausing: Option<String>,
}

impl WaitClock {
    /// Returns the time at which the wait began. What a requested pause waits for has begun before the request, and
    /// goes on if the request is taken back.
    fn began(&mut self, waiting: Option<&str>, is_pausing: bool, now: Instant) -> Instant {
        let (pausing, goes_on) = if is_pausing {
            (waiting, self.pausing.is_none() || self.pausing.as_deref() == waiting)
        } else {
            (None, self.wait.as_deref() == waiting)
        };
        if !is_pausing || !goes_on {
            self.wait = waiting.map(str::to_owned);
        }
        self.pausing = pausing.map(str::to_owned);
        if !goes_on {
            self.began = Some(now);
        }
        *self.began.get_or_insert(now)
    }
}

impl PanelView {
    /// Returns the live row, which shows streaming text or the current wait. Returns `None` if it is empty.
    pub(super) fn moving_row(&mut self, transcript: &Transcript, columns: usize) -> Option<TextRow> {
        let delay = transcript.pause_delay();
        let waiting = match delay {
            Some(delay) => Some(words::pausing(delay).to_owned()),
            None => words::wait(transcript),
        };
        let progress = transcript.progress().and_then(|progress| progress.summary());
        let now = Instant::now();
        let began = self.wait_clock.began(waiting.as_deref(), delay.is_some(), now);
        if let Some(tail) = self.answer.as_ref().filter(|answer| answer.is_open).and_then(|answer| {
            let tail = answer.markdown.tail()?;
            let panel = Panel::new(RenderOptions { width: columns, color: true });
            Some(panel.row(truncate(tail, panel.inner())))
        }) {
            return Some(tail);
        }
        let waiting = waiting?;
        let is_paused = matches!(transcript.phase(), SessionPhase::Paused { .. });
        let is_pausing = is_paused && transcript.pause_delay().is_some();
        if is_paused && !is_pausing || matches!(transcript.phase(), SessionPhase::AwaitingApproval { .. }) {
            return None;
        }
        let seconds = now.duration_since(began).as_secs();
        let mut news = row(&format!(" · {seconds} s"), StyleRole::Dim);
        let retry = Some(self.retry.clone()).filter(|retry| !retry.is_empty());
        let more = retry
            .or_else(|| transcript.host_work().map(safe))
            .or(progress)
            .or_else(|| self.output.as_ref().and_then(LiveOutput::waiting))
            .or_else(|| Some(self.newest_line.clone()).filter(|line| !line.is_empty()))
            .or_else(|| self.reasoning.lines().next_back().map(str::to_owned));
        if let Some(more) = more {
            news.push(span(&format!(" · {more}"), StyleRole::Dim));
        }
        let keys = if columns < 60 || *transcript.phase() == SessionPhase::Stopping {
            ""
        } else if columns < 80 || transcript.pause_delay().is_some() {
            " · Ctrl+C stop"
        } else {
            " · Ctrl+C stop · Ctrl+P pause"
        };
        let room = columns.saturating_sub(1 + width(keys));
        // The command is known; the newest progress is not, so the command gives way first.
        let what = row(&format!("{} {waiting}", FRAMES[self.frame]), StyleRole::Title);
        let mut out = truncate(&what, room.saturating_sub(news.width()).max(WAIT_COLUMNS_MIN));
        out.append(news);
        out = truncate(&out, room);
        out.push(span(keys, StyleRole::Dim));
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use sysop_core::event::{Event, Logged, Origin, Update};
    use sysop_core::id::{Seq, Timestamp, TurnId};

    use super::*;
    use crate::chat::fake_session;

    #[test]
    fn a_host_that_has_not_answered_yet_is_named() {
        let mut transcript = Transcript::new();
        let spec = Arc::new(fake_session::spec("slow"));
        let events = [
            Event::SessionOpened { spec, opened_by: None },
            Event::TurnStarted {
                turn: TurnId(1),
                prompt: String::new(),
                origin: Origin::User,
                images: Vec::new(),
                by: None,
            },
        ];
        for (seq, event) in (1..).zip(events) {
            transcript.apply(&Update::Logged(Arc::new(Logged { seq: Seq(seq), at: Timestamp(0), event })));
        }
        let row = PanelView::new(None).moving_row(&transcript, 100).expect("a call is prepared");
        assert!(row.text().contains("connecting to slow"), "{}", row.text());
    }

    #[test]
    fn the_clock_of_a_command_goes_on_while_a_pause_is_requested() {
        let mut clock = WaitClock::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut seconds = |waiting: &str, is_pausing, now| {
            at(now).duration_since(clock.began(Some(waiting), is_pausing, at(now))).as_secs()
        };
        assert_eq!(seconds("running make", false, 0), 0);
        assert_eq!(seconds("running make", false, 3), 3);
        assert_eq!(seconds("pausing after this command", true, 4), 4);
        assert_eq!(seconds("pausing after this command", true, 5), 5);
        assert_eq!(seconds("running make", false, 6), 6);
        assert_eq!(seconds("waiting for demo/one", false, 8), 0);
        // A pause that was requested of the model waits for a command next.
        assert_eq!(seconds("pausing after this step", true, 9), 1);
        assert_eq!(seconds("pausing after this command", true, 10), 0);
        assert_eq!(seconds("running make", false, 11), 0);
    }
}
