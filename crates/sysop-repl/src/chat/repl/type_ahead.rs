//! What the user types while a turn is running. Prompts are queued by the session; commands that do not disturb the turn
//! run at once; other commands stay in the input.

use std::io;

use sysop_core::event::{Event, Input, StopReason};
use sysop_core::session::QUEUED_PROMPTS_MAX;
use sysop_core::skill::Skill;
use sysop_driver::frontend::prompt_with_images;
use sysop_term::StyleRole;
use sysop_term::command::{InputLine, parse};

use super::{ActiveRead, AwaitedUpdate, Repl, ReplSignals};
use crate::chat::input_reader::ReadRequest;

impl Repl {
    pub(super) fn read_ahead(&mut self) {
        self.active_read = ActiveRead::TypeAhead;
        self.console.request(ReadRequest::TypeAhead { draft: std::mem::take(&mut self.draft) });
    }

    /// Adds text to the draft of the next prompt, which may already have text that was returned from the queue.
    pub(super) fn add_to_draft(&mut self, text: &str) {
        if !self.draft.is_empty() && !text.is_empty() {
            self.draft.push('\n');
        }
        self.draft.push_str(text);
    }

    pub(super) async fn handle_typed_ahead(
        &mut self,
        line: &str,
        signals: &mut ReplSignals,
    ) -> anyhow::Result<()> {
        let skills: &[Skill] = match line.trim_start().starts_with('/') {
            true => self.skills.found(self.transcript.skills()).await,
            false => &[],
        };
        let parsed = parse(line, skills);
        if let InputLine::Prompt(text) = parsed {
            return Ok(self.queue(text).await?);
        }
        if self.running() && !runs_during_turn(&parsed) {
            self.add_to_draft(line);
            return Ok(
                self.note("this command must wait until the turn has ended; it is still in the input")?
            );
        }
        // The row that showed it is gone.
        self.note(&format!("› {line}"))?;
        self.handle_line(line, signals).await
    }

    /// Sends a prompt that starts a turn or is queued behind the current one. In both cases, the session's event shows it.
    async fn queue(&mut self, text: String) -> io::Result<()> {
        if self.queued.len() >= QUEUED_PROMPTS_MAX {
            self.add_to_draft(&text);
            return self.note(&format!("the queue is full ({QUEUED_PROMPTS_MAX} messages)"));
        }
        let input = prompt_with_images(self.context.service.as_ref(), self.session.id(), text.clone()).await;
        match input {
            Ok(input) => {
                if !self.running() {
                    return self.send_and_expect(input, AwaitedUpdate::Turn);
                }
                if let Input::Prompt { text, .. } = &input {
                    self.queued.push(text.clone());
                }
                self.send_and_expect(input, AwaitedUpdate::Event)
            }
            Err(error) => {
                self.add_to_draft(&text);
                self.view.say(&error, StyleRole::Bad, &mut self.screen)
            }
        }
    }

    /// Follows the session's queue: a stop drops it, and returns the prompts that were typed here to the input.
    pub(super) fn follow_queue(&mut self, event: &Event) -> io::Result<()> {
        if let Event::TurnStarted { prompt, .. } = event
            && let Some(at) = self.queued.iter().position(|text| text == prompt)
        {
            self.queued.remove(at);
        }
        let is_dropped = matches!(
            event,
            Event::CancelAsked { .. }
                | Event::HistoryCleared
                | Event::TurnEnded { reason: StopReason::Cancelled, .. }
        );
        if !is_dropped || self.queued.is_empty() {
            return Ok(());
        }
        let texts = std::mem::take(&mut self.queued);
        self.add_to_draft(&texts.join("\n"));
        let what = if texts.len() == 1 { "the queued message was" } else { "the queued messages were" };
        self.note(&format!("{what} not sent; the text is in the input again"))
    }
}

/// Returns true for lines that leave the current turn, the session and the user's terminal as they are, or that are about
/// the current turn.
fn runs_during_turn(line: &InputLine) -> bool {
    match line {
        InputLine::Empty
        | InputLine::Prompt(_)
        | InputLine::Help
        | InputLine::Exit
        | InputLine::Cost
        | InputLine::Status
        | InputLine::Permissions(_)
        | InputLine::Sessions(_)
        | InputLine::Export(_)
        | InputLine::Theme(_)
        | InputLine::Effort(_)
        | InputLine::Model(_)
        | InputLine::Approve(_)
        | InputLine::Auto(_)
        | InputLine::Mode(_)
        | InputLine::Host(None)
        | InputLine::Routines
        | InputLine::Mcp
        | InputLine::Jobs(_)
        | InputLine::Background
        | InputLine::Pause
        | InputLine::Stop
        | InputLine::Wrong(_) => true,
        InputLine::Shell(_)
        | InputLine::Undo(_)
        | InputLine::Run { .. }
        | InputLine::Keys(_)
        | InputLine::Clear
        | InputLine::Compact(_)
        | InputLine::Fork(_)
        | InputLine::Trust
        | InputLine::New
        | InputLine::Resume(_)
        | InputLine::Host(Some(_))
        | InputLine::OpenShell
        | InputLine::Retry
        | InputLine::Plan => false,
    }
}
