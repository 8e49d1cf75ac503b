//! What programs ask the person, in the REPL: one question after the other, each answered once.

use std::io;

use sysop_core::event::{Delta, Update};
use sysop_core::question::{Question, QuestionId};
use sysop_core::transcript::Phase;
use sysop_driver::people;

use super::{Asked, Repl};
use crate::chat::console::Request;
use crate::chat::plain::lines;
use crate::chat::question::{Reply, Sheet};
use crate::chat::screen::Owner;
use crate::chat::{BY, Form};
use crate::render::{Ink, words};

impl Repl {
    /// The oldest question that nobody has answered; none of a turn that is being stopped.
    pub(super) fn open_question(&self) -> Option<&Question> {
        if *self.transcript.phase() == Phase::Stopping {
            return None;
        }
        self.transcript.questions().iter().find(|question| !self.settled.contains(&question.id))
    }

    pub(super) fn ask_for_program(&mut self) -> io::Result<()> {
        let Some(question) = self.open_question().cloned() else { return Ok(()) };
        let look = self.screen.look();
        let sheet = match self.context.form {
            Form::Panels { .. } => {
                self.screen.give(Owner::Question)?;
                Sheet::panel(&question, look)
            }
            Form::Plain => {
                self.screen.blank_row()?;
                let sheet = Sheet::lines(&question, look.width);
                self.screen.text(&lines(&sheet.rows))?;
                Sheet { rows: Vec::new(), ..sheet }
            }
        };
        self.asked = Asked::Program(question.id);
        self.shown = Some(question.id);
        self.console.request(Request::Program(sheet));
        Ok(())
    }

    /// The person has answered; or pressed Ctrl+C, which refuses the first time and stops the turn the second.
    pub(super) fn replied(&mut self, id: QuestionId, reply: Reply) -> io::Result<()> {
        if matches!(reply, Reply::Withdrawn) || !self.settled.insert(id) {
            return Ok(());
        }
        match reply {
            Reply::Given(text) => {
                if self.session.answer(id, people::Answer::Given { by: BY.to_owned(), text }) {
                    return Ok(());
                }
                self.view.say("nobody waits for that answer any more", Ink::Warn, &mut self.screen)
            }
            Reply::NoSecret => {
                self.session.answer(id, people::Answer::NoSecret);
                // Who says so knows what to type instead.
                if self.session.terminal().is_some() && self.context.form != Form::Plain {
                    self.want_shell()?;
                }
                Ok(())
            }
            Reply::Interrupted
                if self.running() && std::mem::replace(&mut self.question_interrupted, true) =>
            {
                self.interrupted()?;
                self.session.answer(id, people::Answer::Refused);
                Ok(())
            }
            Reply::Refused | Reply::Interrupted => {
                self.session.answer(id, people::Answer::Refused);
                self.note(if self.running() { "refused; Ctrl+C stops the turn" } else { "refused" })
            }
            Reply::Withdrawn => Ok(()),
        }
    }

    /// What to say of the question that is on the terminal and went away.
    pub(super) fn closed_words(&mut self, update: &Update) -> Option<String> {
        let Update::Delta(Delta::QuestionClosed { id, by }) = update else { return None };
        if self.settled.remove(id) || self.shown != Some(*id) {
            return None;
        }
        let question = self.transcript.questions().iter().find(|question| question.id == *id)?;
        Some(match by {
            Some(by) => format!("{by} answered {}", question.from),
            None => format!("{} no longer waits for an answer", question.from),
        })
    }

    /// Says where commands run, and what goes on there.
    pub(super) fn place(&mut self) -> io::Result<()> {
        let Some(facts) = self.transcript.facts() else { return self.note("the session is not open yet") };
        let here = words::is_here(facts.place());
        let place = if here { "this machine".to_owned() } else { words::place(facts.place()) };
        let mut text = format!("commands run on {place}, files are below {}", facts.root);
        text.push_str(match self.transcript.phase() {
            Phase::Paused { .. } => "; a turn is paused there",
            Phase::Idle => "; nothing runs there",
            Phase::Thinking { .. } | Phase::Waiting { .. } | Phase::Running { .. } | Phase::Stopping => {
                "; a turn runs there"
            }
        });
        if let Some(holder) = self.transcript.holder() {
            text.push_str(&format!("; {holder} has its terminal"));
        }
        self.note(&text)?;
        let hosts = self.context.desk.hosts();
        if hosts.is_empty() {
            return Ok(());
        }
        let known: Vec<String> =
            hosts.iter().map(|host| format!("{:<20} {}", host.name, host.description)).collect();
        self.view.say(&known.join("\n"), Ink::Plain, &mut self.screen)?;
        self.note("/host DEST begins a session there")
    }
}
