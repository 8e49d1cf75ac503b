//! What a front end holds: a session, here or on a server, and the desk at which sessions are opened and found.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use sysop_core::event::{ConfigChange, Decision, Input, Update};
use sysop_core::id::{CallId, Seq, SessionId, TurnId};
use sysop_core::message::ModelRef;
use sysop_core::policy::Rule;
use sysop_core::question::QuestionId;
use sysop_core::spec::SessionSpec;
use sysop_core::transcript::{Proposal, Transcript};

use crate::Handle;
use crate::port::SessionSummary;
use crate::prompter::{PromptReply, Terminal};

/// A live session, here or on a server.
pub trait SessionHandle: Send + Sync {
    /// Its id.
    fn id(&self) -> &SessionId;
    /// Tells it something; never blocks. The error is one sentence.
    fn send(&self, input: Input) -> Result<(), String>;
    /// What is logged after `after`, once and in order, then live. Ends when the session is gone.
    fn subscribe(&self, after: Seq) -> BoxStream<'static, Update>;
    /// Answers a question of a program; says whether it was still open, as far as is known here.
    fn answer(&self, id: QuestionId, answer: PromptReply) -> bool;
    /// Its terminal, where its host has one.
    fn terminal(&self) -> Option<Arc<dyn Terminal>>;
    /// Why it is gone, where that is known.
    fn last_error(&self) -> Option<String>;
}

impl SessionHandle for Handle {
    fn id(&self) -> &SessionId {
        self.id()
    }

    fn send(&self, input: Input) -> Result<(), String> {
        self.send(input).map_err(|error| error.to_string())
    }

    fn subscribe(&self, after: Seq) -> BoxStream<'static, Update> {
        let updates = self.subscribe(after);
        futures::stream::unfold(updates, |mut updates| async {
            let update = updates.next().await?;
            Some((update, updates))
        })
        .boxed()
    }

    fn answer(&self, id: QuestionId, answer: PromptReply) -> bool {
        self.answer(id, answer)
    }

    fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        self.terminal()
    }

    fn last_error(&self) -> Option<String> {
        self.last_error()
    }
}

/// A session that was just opened.
#[derive(Clone)]
pub struct AttachedSession {
    /// The session.
    pub session: Arc<dyn SessionHandle>,
    /// The last event that was in its log before; 0 for a new one.
    pub last: Seq,
    /// How it works. A new one is logged with its first input only, so that this is not in its log yet.
    pub spec: Arc<SessionSpec>,
}

/// The rule that the answer "always" to a proposal writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedRule {
    /// The call that waits for the answer.
    pub call: CallId,
    /// The rule as TOML, as it would be written.
    pub toml: String,
    /// The file that it would be written to, for people.
    pub file: String,
    /// The rule itself; `None` if a server keeps it.
    pub rule: Option<Rule>,
}

impl OfferedRule {
    /// The rule for a proposal of a session whose rules are written to this file.
    pub fn for_proposal(transcript: &Transcript, proposal: &Proposal, file: String) -> Option<Self> {
        let rule = proposal.always_rule(transcript.session_info()?)?;
        Some(Self { call: proposal.call.id.clone(), toml: rule.to_toml(), file, rule: Some(rule) })
    }
}

/// Gives a session a rule that was written, and allows the call that it was written for.
///
/// # Errors
/// One sentence if the session takes nothing more.
pub fn allow_by_rule(session: &dyn SessionHandle, rule: Rule, call: CallId, by: &str) -> Result<(), String> {
    session.send(Input::Configure { change: ConfigChange::added_rule(rule) })?;
    let decision = Decision::Allow { command: None };
    session.send(Input::Decision { call, decision, by: by.to_owned() })
}

/// Which session to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionSelector {
    /// Another one.
    New,
    /// An earlier one, by its id or the beginning of it.
    Existing(String),
    /// Another one, on this host.
    NewOnHost(String),
    /// Another one that has the log of an earlier one up to the prompt of a turn, which is left out.
    Fork {
        /// The earlier one.
        from: SessionId,
        /// The turn.
        before: TurnId,
    },
}

/// Where a front end opens and finds sessions. Errors are one sentence.
#[async_trait]
pub trait SessionService: Send + Sync {
    /// Opens a session.
    async fn open(&self, which: SessionSelector) -> Result<AttachedSession, String>;

    /// The sessions, the most recently changed first.
    async fn list(&self) -> Result<Vec<SessionSummary>, String>;

    /// The models that are known and can be asked, the one of the settings first. May ask their servers.
    async fn models(&self) -> Vec<ModelRef>;

    /// The whole output of a call, as its artifact has it.
    async fn artifact(&self, session: &SessionId, name: &str) -> Result<Vec<u8>, String>;

    /// Paths below the root of a session's file tools that hold `next_event`, at most `limit`, folders with a `/` at their
    /// end, those that begin with it first; nothing where they cannot be told quickly.
    async fn paths(&self, session: &SessionId, word: &str, limit: usize) -> Vec<String>;

    /// The hosts that are known by a name.
    fn hosts(&self) -> Vec<NamedItem>;

    /// The rule that answering a proposal with "always" would write; `None` where that answer is not offered.
    fn offered_rule(
        &self,
        session: &SessionId,
        transcript: &Transcript,
        proposal: &Proposal,
    ) -> Option<OfferedRule> {
        let _ = (session, transcript, proposal);
        None
    }

    /// Answers a proposal with "always": writes the rule that was offered, gives it to the session and allows the call.
    /// On an error nothing was decided.
    async fn allow_always(
        &self,
        session: &dyn SessionHandle,
        offered: &OfferedRule,
        by: &str,
    ) -> Result<(), String> {
        let _ = (session, offered, by);
        Err("cannot write rules here; the command is still pending".to_owned())
    }

    /// The routines that can be run.
    fn routines(&self) -> Vec<Routine>;
}

/// Something with a name, for lists and completions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedItem {
    /// Its name.
    pub name: String,
    /// What it is, for people.
    pub description: String,
}

/// Makes a routine's command of its variables, given as names and values; the error is one sentence.
pub type RoutineRenderer = Arc<dyn Fn(&[(String, String)]) -> Result<String, String> + Send + Sync>;

/// A command with a name and, perhaps, variables.
#[derive(Clone)]
pub struct Routine {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its variables, each with what it is.
    pub variables: Vec<NamedItem>,
    /// Makes its command.
    pub render: RoutineRenderer,
}
