//! Main loop of the REPL: one task that handles updates, user input, signals and ticks in turn.

mod approvals;
mod commands;
mod help;
mod interrupts;
mod label;
mod leaving;
mod opening;
mod prompter;
mod server_link;
mod shell;
mod type_ahead;

use std::collections::{HashSet, VecDeque};
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use parking_lot::RwLock;
use serde_json::json;
use sysop_core::cost_report::CostReport;
use sysop_core::event::{ConfigChange, Decision, Delta, Event, Input, Origin, Update};
use sysop_core::id::{CallId, Seq, SessionId};
use sysop_core::mode::Mode;
use sysop_core::policy::ApprovalMode;
use sysop_core::question::QuestionId;
use sysop_core::skill::Skill;
use sysop_core::spec::SessionSpec;
use sysop_core::transcript::{ItemBody, SessionPhase, Transcript, approval_label};
use sysop_core::ui_text;
use sysop_driver::frontend::{AttachedSession, Routine, SessionHandle, SessionSelector, SessionService};
use sysop_term::StyleRole;
use sysop_term::command::{InputLine, parse, undo_arguments};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::early_input::EarlyInput;
use super::editor::{PathCompleter, PromptLabel};
use super::inline_screen::{InlineScreen, TerminalOwner};
use super::input_reader::{InputReader, ReadRequest, UserInput};
use super::no_echo::NoEcho;
use super::panel_view::PanelView;
use super::plain_view::PlainView;
use super::session_skills::SessionSkills;
use super::terminal_mirror::AlternateScreen;
use super::view::{OwnCall, ReplView};
use super::{CompletionNames, ReplContext, ReplLayout};
use crate::Exit;
use crate::render::terminal_width;
use crate::render::{RenderOptions, words};
use approvals::{EditedApproval, OpenApproval};
use commands::with_own_commands;
use opening::SessionUpdates;
use server_link::ServerLink;
use shell::AttachedShell;

const LINE_NOT_SENT: &str =
    "a question appeared while you typed; your line was not sent and is still in the input";
/// Interval at which live rows are redrawn.
const TICK: Duration = Duration::from_millis(120);
/// Maximum time to hold back the prompt after a turn was requested.
const EXPECT: Duration = Duration::from_secs(2);
/// Maximum time to wait at exit for the line editor to restore the terminal.
const LEAVE: Duration = Duration::from_secs(1);
/// Maximum number of paths to complete a word with.
const PATHS_MAX: usize = 32;
/// Maximum time to wait for these paths, because no key is read meanwhile.
const PATHS_WAIT: Duration = Duration::from_secs(1);
/// Request that the user is currently answering.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ActiveRead {
    None,
    Line,
    Approval(CallId),
    ProgramPrompt(QuestionId),
    Terminal,
    /// Text for after the current turn.
    TypeAhead,
}

/// Update to expect after an input was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AwaitedUpdate {
    Turn,
    Event,
}

pub(super) struct Repl {
    context: ReplContext,
    routines: Vec<Routine>,
    skills: SessionSkills,
    session: std::sync::Arc<dyn SessionHandle>,
    updates: SessionUpdates,
    transcript: Transcript,
    cost: CostReport,
    replay_until: Seq,
    introduced: bool,
    view: Box<dyn ReplView>,
    screen: InlineScreen,
    console: InputReader,
    active_read: ActiveRead,
    withdrawing: bool,
    answered: Option<CallId>,
    edited: Option<EditedApproval>,
    open_approval: OpenApproval,
    /// Programs' questions that were answered in this front end.
    settled: HashSet<QuestionId>,
    /// Sessions of the newest list, which `/resume` opens by their numbers.
    listed: Vec<SessionId>,
    drawn_prompt: Option<QuestionId>,
    /// True after Ctrl+C declined a program's question in this turn. The next Ctrl+C stops the turn.
    question_interrupted: bool,
    /// Connection to the session's terminal while the user is using it.
    shell: Option<AttachedShell>,
    /// The user's terminal while the session's terminal is shown on it.
    alternate_screen: Option<AlternateScreen>,
    pausing: bool,
    expected: Option<(AwaitedUpdate, Instant)>,
    draft: String,
    server_link: ServerLink,
    /// Prompts that were typed here and are queued behind the current turn.
    queued: Vec<String>,
    /// Prompts of `queued` that a stop dropped, until they return to the input.
    dropped: Vec<String>,
    /// Lines that were typed before the first prompt, or that were typed during a turn and wait for its end: a command
    /// that would disturb it, and what follows.
    waiting: VecDeque<String>,
    /// Session whose root `@PATH` is completed from, for the thread of the line editor.
    completed_session: Arc<RwLock<SessionId>>,
    /// Text before the sign of the prompt.
    label: Arc<RwLock<String>>,
    turn_interrupted: bool,
    prompt_interrupted: bool,
    /// True after a warning that quitting stops background jobs, until another line.
    quit_asked: bool,
    /// True if standard input and output are a terminal.
    is_on_terminal: bool,
    no_echo: Option<NoEcho>,
    leaving: Option<Exit>,
    /// True once the session takes no more inputs.
    is_closed: bool,
    /// True after Ctrl+D during a turn.
    ends_after_turn: bool,
    /// Exit at the end of the input.
    exit_at_end: Exit,
}

struct ReplSignals {
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    hang_up: Signal,
    resumed: Signal,
    resized: Signal,
}

impl ReplSignals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            // `SignalKind` has no name for SIGCONT.
            resumed: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
            resized: signal(SignalKind::window_change())?,
        })
    }
}

/// Returns the initial transcript: complete for a new session, empty if a log will be replayed.
fn transcript_of(spec: &SessionSpec, last: Seq, session: &dyn SessionHandle) -> Transcript {
    let mut transcript = if last == Seq(0) { Transcript::of(spec) } else { Transcript::new() };
    transcript.set_viewer(session.viewer());
    transcript
}

impl Repl {
    pub(super) fn new(context: ReplContext) -> anyhow::Result<Self> {
        let (routines, hosts) = (context.service.routines(), context.service.hosts());
        let known = CompletionNames {
            routines: routines.iter().map(|it| (it.name.clone(), it.description.clone())).collect(),
            hosts: hosts.into_iter().map(|it| (it.name, it.description)).collect(),
            skills: Vec::new(),
        };
        let known = Arc::new(RwLock::new(known));
        let completed_session = Arc::new(RwLock::new(context.opened.session.id().clone()));
        let (console, color) = match context.form {
            ReplLayout::Panels { color } => {
                let paths = path_completer(&context.service, &completed_session);
                let names = Arc::clone(&known);
                (InputReader::on_terminal(context.history.clone(), names, paths, color), color)
            }
            ReplLayout::Plain => (InputReader::by_lines(), false),
        };
        let no_echo = match context.form {
            ReplLayout::Panels { .. } => NoEcho::new(),
            ReplLayout::Plain => None,
        };
        let look = RenderOptions { width: terminal_width(), color };
        let early = if no_echo.is_some() { EarlyInput::read() } else { EarlyInput::default() };
        let screen = InlineScreen::new(Box::new(io::stdout()), look, console.printer());
        let AttachedSession { session, last, spec } = context.opened.clone();
        Ok(Self {
            updates: SessionUpdates::of(session.as_ref()),
            transcript: transcript_of(&spec, last, session.as_ref()),
            session,
            cost: CostReport::default(),
            replay_until: last,
            introduced: false,
            view: view_of(context.form, &*context.service),
            screen,
            console,
            active_read: ActiveRead::None,
            withdrawing: false,
            answered: None,
            edited: None,
            open_approval: OpenApproval::default(),
            settled: HashSet::new(),
            listed: Vec::new(),
            drawn_prompt: None,
            question_interrupted: false,
            shell: None,
            alternate_screen: None,
            pausing: false,
            expected: None,
            draft: early.draft,
            server_link: ServerLink::default(),
            queued: Vec::new(),
            dropped: Vec::new(),
            waiting: early.lines.into(),
            completed_session,
            label: Arc::default(),
            turn_interrupted: false,
            prompt_interrupted: false,
            quit_asked: false,
            is_on_terminal: io::stdin().is_terminal() && io::stdout().is_terminal(),
            no_echo,
            leaving: None,
            is_closed: false,
            ends_after_turn: false,
            exit_at_end: Exit::Done,
            context,
            routines,
            skills: SessionSkills::new(known),
        })
    }

    pub(super) async fn run(mut self) -> anyhow::Result<Exit> {
        let mut signals = ReplSignals::new().context("cannot receive signals")?;
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.skills.find(&self.context.service, self.session.id());
        self.introduce()?;
        if let Some(text) = self.context.task.take() {
            self.task(text).await?;
        }
        loop {
            self.perform_waiting(&mut signals).await?;
            self.sync_active_read()?;
            if let Some(exit) = self.leaving {
                return self.leave(exit).await;
            }
            tokio::select! {
                update = self.updates.next() => match update {
                    Some(update) => self.handle_update(&update)?,
                    None => self.handle_session_closed()?,
                },
                said = self.console.next_input() => match said {
                    Some(said) => self.handle_input(said, &mut signals).await?,
                    None => {
                        let why = "internal error while reading the terminal; the session is intact";
                        self.view.say(why, StyleRole::Bad, &mut self.screen)?;
                        self.leaving = Some(Exit::Failed);
                    }
                },
                came = shell::next_shell_event(&mut self.shell) => self.handle_shell_event(came)?,
                _ = signals.interrupt.recv() => self.handle_interrupt()?,
                _ = signals.quit.recv() => self.pause()?,
                _ = signals.terminate.recv() => self.leaving = Some(Exit::Terminated),
                _ = signals.hang_up.recv() => self.leaving = Some(Exit::HungUp),
                _ = signals.resumed.recv() => self.resume_from_suspend(),
                _ = signals.resized.recv() => self.resized()?,
                _ = ticks.tick(), if self.is_animated() => self.tick()?,
            }
        }
    }

    fn is_animated(&self) -> bool {
        self.running() || self.expected.is_some() || self.active_read == ActiveRead::Line
    }

    fn tick(&mut self) -> io::Result<()> {
        if self.expected.is_some_and(|(_, since)| since.elapsed() > EXPECT) {
            self.expected = None;
        }
        self.screen.flush_pending()?;
        self.refresh_label();
        match self.active_read {
            ActiveRead::None | ActiveRead::TypeAhead => self.view.tick(&self.transcript, &mut self.screen),
            ActiveRead::Line => self.view.settle(&self.transcript, &mut self.screen),
            ActiveRead::Approval(_) | ActiveRead::ProgramPrompt(_) | ActiveRead::Terminal => Ok(()),
        }
    }

    fn running(&self) -> bool {
        let is_waiting = matches!(self.transcript.phase(), SessionPhase::Idle | SessionPhase::Paused { .. });
        !is_waiting || self.transcript.pause_delay().is_some()
    }

    fn handle_update(&mut self, update: &Update) -> io::Result<()> {
        let closed = self.closed_prompt_text(update);
        self.transcript.apply(update);
        if let Update::Logged(logged) = update {
            let model =
                self.transcript.session_info().map(|facts| facts.model.to_string()).unwrap_or_default();
            self.cost.event(&logged.event, &model, |model| self.context.prices.get(model).copied());
        }
        let Update::Logged(logged) = update else {
            // The session may have refused the answer. If it has not, the log closes the question again.
            if let Update::Delta(Delta::Notice { text }) = update {
                self.answered = None;
                self.expected.take_if(|_| text.starts_with(ui_text::NOT_RUN));
            }
            if let Some(text) = closed {
                self.note(&text)?;
            }
            return if self.replaying() {
                Ok(())
            } else {
                self.view.update(update, &self.transcript, &mut self.screen)?;
                self.tell_server_change(update)
            };
        };
        let is_foreign = self.session.is_by_another_process(logged.seq);
        match (&self.expected, &logged.event) {
            // Earlier events cannot be the result of the sent input.
            _ if logged.seq <= self.replay_until || is_foreign => {}
            // Neither can the opening of a session by its first input.
            (_, Event::SessionOpened { .. }) => {}
            (Some((AwaitedUpdate::Turn, _)), Event::TurnStarted { .. })
            | (Some((AwaitedUpdate::Event, _)), _) => {
                self.expected = None;
            }
            (Some((AwaitedUpdate::Turn, _)) | None, _) => {}
        }
        if !is_foreign {
            self.note_logged_prompt(&logged.event);
        }
        if matches!(logged.event, Event::TurnEnded { .. }) {
            self.turn_interrupted = false;
            self.question_interrupted = false;
            self.answered = None;
        }
        if let Event::ApprovalAsked { call, .. } = &logged.event {
            self.tell_second_question(&call.id)?;
        }
        let had_no_pause = self.end_pause_request(&logged.event);
        if logged.seq > self.replay_until {
            self.introduce()?;
            self.view.update(update, &self.transcript, &mut self.screen)?;
            self.decided_elsewhere(&logged.event)?;
            if had_no_pause {
                self.note("the turn ended; nothing is paused")?;
            }
            self.show_late_effect(&logged.event)?;
            self.follow_queue(&logged.event);
            if !is_foreign {
                self.note_failure(&logged.event);
            }
        }
        if !self.replaying() {
            self.introduce()?;
        }
        Ok(())
    }

    /// If the approval that is open here has been decided elsewhere, reports who decided it.
    fn decided_elsewhere(&mut self, event: &Event) -> io::Result<()> {
        let Event::Decided { call, decision, by } = event else { return Ok(()) };
        if self.active_read != ActiveRead::Approval(call.clone()) || self.answered.as_ref() == Some(call) {
            return Ok(());
        }
        let what = match decision {
            Decision::Allow { .. } | Decision::AllowSession { .. } => "allowed it",
            Decision::Reject { .. } => "rejected it",
        };
        self.note(&format!("{by} {what}"))
    }

    fn replaying(&self) -> bool {
        self.transcript.seq() < self.replay_until
    }

    fn handle_session_closed(&mut self) -> io::Result<()> {
        let why = self.session.last_error().unwrap_or_else(|| "the session was closed".to_owned());
        // The last row has the command for it.
        let why = format!("error: {}", why.trim_end_matches("; reopen it"));
        self.view.say(&why, StyleRole::Bad, &mut self.screen)?;
        // What a server did not confirm is told when the connection is closed.
        let untold = self.session.connection().undelivered;
        if let Some(prompt) = self.server_link.unlogged.take().filter(|prompt| !untold.contains(prompt)) {
            self.view.say(&format!("not sent: {prompt}"), StyleRole::Warn, &mut self.screen)?;
        }
        self.is_closed = true;
        self.leaving = Some(Exit::Failed);
        Ok(())
    }

    fn required_read(&self) -> ActiveRead {
        if self.replaying() || !self.introduced || self.updates.has_seen() {
            return ActiveRead::None;
        }
        let proposal = match self.transcript.phase() {
            SessionPhase::AwaitingApproval { call } if self.answered.as_ref() != Some(call) => Some(call),
            SessionPhase::AwaitingApproval { .. }
            | SessionPhase::Idle
            | SessionPhase::Thinking { .. }
            | SessionPhase::Running { .. }
            | SessionPhase::Paused { .. }
            | SessionPhase::Stopping => None,
        };
        match (&self.active_read, proposal, self.open_question()) {
            // An approval question is not replaced while the user is reading it.
            (ActiveRead::Approval(open), Some(call), _) if open == call => {
                return ActiveRead::Approval(call.clone());
            }
            (_, _, Some(question)) => return ActiveRead::ProgramPrompt(question.id),
            _ if self.expected.is_some() => return ActiveRead::None,
            (_, Some(call), None) if self.awaits_preview(call) => return ActiveRead::None,
            (_, Some(call), None) => return ActiveRead::Approval(call.clone()),
            (_, None, None) if self.shell.is_some() => return ActiveRead::Terminal,
            (_, None, None) => {}
        }
        match self.context.form {
            _ if !self.running() => ActiveRead::Line,
            ReplLayout::Panels { .. } => ActiveRead::TypeAhead,
            ReplLayout::Plain => ActiveRead::None,
        }
    }

    fn sync_active_read(&mut self) -> io::Result<()> {
        if self.leaving.is_some() {
            return Ok(());
        }
        self.console.set_paused(matches!(self.transcript.phase(), SessionPhase::Paused { .. }));
        let wanted = self.required_read();
        match (&self.active_read, wanted) {
            (ActiveRead::None, ActiveRead::Line) => self.ask_line(),
            (ActiveRead::None, ActiveRead::Approval(call)) => self.ask_question(&call),
            (ActiveRead::None, ActiveRead::ProgramPrompt(_)) => self.ask_for_program(),
            (ActiveRead::None, ActiveRead::Terminal) => self.enter_shell(),
            (ActiveRead::None, ActiveRead::TypeAhead) => {
                self.read_ahead();
                Ok(())
            }
            // An open line stays while another front end is in use; events are printed above it.
            (ActiveRead::Line, ActiveRead::Line | ActiveRead::TypeAhead | ActiveRead::None)
            | (ActiveRead::TypeAhead, ActiveRead::TypeAhead | ActiveRead::None)
            | (ActiveRead::None, ActiveRead::None) => Ok(()),
            (
                open @ (ActiveRead::Approval(_) | ActiveRead::ProgramPrompt(_) | ActiveRead::Terminal),
                wanted,
            ) if *open == wanted => Ok(()),
            (ActiveRead::Line, _) if !self.screen.printer_is_idle() => Ok(()),
            (
                ActiveRead::Line
                | ActiveRead::Approval(_)
                | ActiveRead::ProgramPrompt(_)
                | ActiveRead::Terminal
                | ActiveRead::TypeAhead,
                _,
            ) => {
                if !self.withdrawing {
                    self.withdrawing = true;
                    self.console.withdraw();
                }
                Ok(())
            }
        }
    }

    fn ask_line(&mut self) -> io::Result<()> {
        // A pause is no end of the turn, and its user can quit at the prompt.
        if std::mem::take(&mut self.ends_after_turn) && *self.transcript.phase() == SessionPhase::Idle {
            self.leaving = Some(self.exit_at_end);
            return Ok(());
        }
        self.return_dropped()?;
        *self.label.write() = self.label_text();
        let label = PromptLabel::new(Arc::clone(&self.label));
        match self.context.form {
            ReplLayout::Panels { .. } => self.screen.set_owner(TerminalOwner::Editor)?,
            ReplLayout::Plain => {
                self.screen.blank_row()?;
                self.screen.text("You: ")?;
            }
        }
        self.active_read = ActiveRead::Line;
        self.console.request(ReadRequest::Line { label, draft: std::mem::take(&mut self.draft) });
        Ok(())
    }

    async fn handle_input(&mut self, said: UserInput, signals: &mut ReplSignals) -> anyhow::Result<()> {
        let withdrawn = self.withdrawing;
        let active_read = match &said {
            UserInput::Notice(_) | UserInput::Typing(_) => self.active_read.clone(),
            UserInput::Line(_)
            | UserInput::Interrupt { .. }
            | UserInput::Pause(_)
            | UserInput::End
            | UserInput::Withdrawn(_)
            | UserInput::Approval(_)
            | UserInput::NoAnswer
            | UserInput::ProgramPrompt(_)
            | UserInput::LeftTerminal
            | UserInput::Failed(_) => {
                self.withdrawing = false;
                self.alternate_screen = None;
                self.screen.set_typed("")?;
                self.screen.set_owner(TerminalOwner::Output)?;
                self.screen.note_enter();
                std::mem::replace(&mut self.active_read, ActiveRead::None)
            }
        };
        let quit_asked = self.quit_asked;
        match said {
            UserInput::Line(line) if active_read == ActiveRead::TypeAhead => {
                self.handle_typed_ahead(&line, signals).await?;
                self.quit_asked &= !quit_asked;
            }
            // A line that arrives despite its withdrawal was written before the question appeared.
            UserInput::Line(line) if withdrawn && !line.trim().is_empty() => {
                self.note(LINE_NOT_SENT)?;
                self.add_to_draft(&line);
            }
            UserInput::Line(line) => {
                self.prompt_interrupted = false;
                // Another front end may have started a turn.
                if type_ahead::is_quit_word(&line) || !self.postpone(&line).await? {
                    self.handle_line(&line, signals).await?;
                }
                // Any other line takes the wish to quit back.
                self.quit_asked &= !quit_asked;
            }
            UserInput::Interrupt { draft, was_written } => self.interrupted_in_line(&draft, was_written)?,
            UserInput::End if active_read == ActiveRead::TypeAhead => self.end_after_turn()?,
            UserInput::End => self.end_of_input()?,
            UserInput::Typing(text) => self.screen.set_typed(&text)?,
            UserInput::Withdrawn(text) => self.add_to_draft(&text),
            UserInput::Pause(text) => {
                self.add_to_draft(&text);
                self.pause_or_resume()?;
            }
            UserInput::Approval(answer) => {
                if let ActiveRead::Approval(call) = active_read {
                    self.answer(call, answer).await?;
                }
            }
            UserInput::NoAnswer => {
                if let ActiveRead::Approval(call) = active_read {
                    self.end_without_answer(call).await?;
                }
            }
            UserInput::ProgramPrompt(reply) => {
                if let ActiveRead::ProgramPrompt(id) = active_read {
                    self.handle_prompt_outcome(id, reply)?;
                }
            }
            UserInput::LeftTerminal => self.left_shell(withdrawn),
            UserInput::Failed(error) => return Err(error).context("cannot read the terminal"),
            UserInput::Notice(text) => self.view.say(&text, StyleRole::Warn, &mut self.screen)?,
        }
        Ok(())
    }

    fn send(&mut self, input: Input) -> io::Result<()> {
        let is_prompt = matches!(input, Input::Prompt { .. });
        if let Err(error) = self.session.send(input) {
            self.expected = None;
            self.view.say(&error, StyleRole::Bad, &mut self.screen)?;
        } else if is_prompt {
            self.note_undelivered()?;
        }
        Ok(())
    }

    fn send_and_expect(&mut self, input: Input, what: AwaitedUpdate) -> io::Result<()> {
        self.expected = Some((what, Instant::now()));
        self.send(input)
    }

    fn compact(&mut self, focus: Option<String>) -> io::Result<()> {
        if *self.transcript.phase() != SessionPhase::Idle {
            self.note(ui_text::COMPACTS_LATER)?;
        }
        self.send_and_expect(Input::Compact { focus }, AwaitedUpdate::Event)
    }

    async fn handle_line(&mut self, line: &str, signals: &mut ReplSignals) -> anyhow::Result<()> {
        match parse(line, self.named_skills(line).await) {
            InputLine::Empty => {}
            InputLine::Prompt(text) if type_ahead::is_quit_word(&text) => {
                self.leave_or_warn(self.exit_at_end, &format!("enter {}", text.trim()))?;
            }
            InputLine::Prompt(text) => self.prompt(text).await?,
            InputLine::Shell(command) => self.direct("bash", json!({ "command": command }), Origin::User)?,
            InputLine::Undo(step) => self.direct("undo", undo_arguments(step), Origin::User)?,
            InputLine::Run { name, values } => self.routine(&name, &values)?,
            InputLine::Output(number) => self.show_output(number)?,
            InputLine::Help => self.help()?,
            InputLine::Exit => self.leave_or_warn(Exit::Done, &format!("enter {}", line.trim()))?,
            InputLine::Clear => {
                self.send_and_expect(Input::Clear, AwaitedUpdate::Event)?;
                if let ReplLayout::Panels { .. } = self.context.form {
                    self.screen.clear()?;
                    self.view.header(&self.transcript, &mut self.screen)?;
                }
            }
            InputLine::Compact(focus) => self.compact(focus)?,
            InputLine::Cost => self.note(&self.cost.line())?,
            InputLine::Status => self.status().await?,
            InputLine::Permissions(command) => self.permissions(command)?,
            InputLine::Sessions(words) => self.list_sessions(words.as_deref()).await?,
            InputLine::Fork(turn) => self.fork(turn).await?,
            InputLine::Export(file) => self.export(file.as_deref()).await?,
            InputLine::Theme(_) => {
                self.note("the REPL uses the colors of your terminal; themes are for the TUI (`sysop`)")?;
            }
            InputLine::Trust => self.trust_workspace().await?,
            InputLine::New => self.open(SessionSelector::new_after(&self.transcript)).await?,
            InputLine::Resume(None) if matches!(self.transcript.phase(), SessionPhase::Paused { .. }) => {
                self.send_and_expect(Input::Resume, AwaitedUpdate::Event)?;
            }
            InputLine::Resume(None) => self.list_sessions(None).await?,
            InputLine::Resume(Some(id)) => self.resume(id).await?,
            InputLine::Model(name) => self.model(name.as_deref()).await?,
            InputLine::Effort(effort) => {
                let change = ConfigChange::Effort(effort);
                self.send_and_expect(Input::Configure { change }, AwaitedUpdate::Event)?;
            }
            InputLine::Approve(mode) => self.approve(mode)?,
            InputLine::Auto(bounds) => self.send_and_expect(
                Input::Configure { change: ConfigChange::Auto(bounds) },
                AwaitedUpdate::Event,
            )?,
            InputLine::Mode(mode) => self.mode(mode)?,
            InputLine::Host(None) => self.show_location()?,
            InputLine::Host(Some(host)) => {
                self.open(SessionSelector::on_host_after(host, &self.transcript)).await?;
            }
            InputLine::Keys(keys) => {
                self.direct("send_keys", json!({ "keys": keys, "reasoning": "" }), Origin::User)?;
            }
            InputLine::Routines => self.list_routines()?,
            InputLine::Mcp => self.list_tool_servers().await?,
            InputLine::OpenShell => self.open_shell(signals).await?,
            InputLine::Jobs(command) => self.jobs(command)?,
            InputLine::Background if !self.running() => self.note("nothing is running")?,
            InputLine::Background => self.send(Input::Background)?,
            InputLine::Pause => self.pause()?,
            InputLine::Stop => self.stop()?,
            InputLine::Retry => self.retry()?,
            InputLine::Plan => self.run_proposed_step()?,
            InputLine::Wrong(text) => self.view.say(&text, StyleRole::Warn, &mut self.screen)?,
        }
        Ok(())
    }

    /// Returns the skills and custom commands that a line may name.
    async fn named_skills(&mut self, line: &str) -> &[Skill] {
        match line.trim_start().starts_with('/') {
            true => self.skills.found(self.transcript.skills()).await,
            false => &[],
        }
    }

    async fn trust_workspace(&mut self) -> io::Result<()> {
        match self.context.service.trust_workspace(self.session.as_ref()).await {
            Ok(text) => {
                self.skills.find(&self.context.service, self.session.id());
                self.note(&text)
            }
            Err(error) => self.view.say(&error, StyleRole::Warn, &mut self.screen),
        }
    }

    pub(super) fn note(&mut self, text: &str) -> io::Result<()> {
        self.view.say(text, StyleRole::Dim, &mut self.screen)
    }

    fn direct(&mut self, tool: &str, arguments: serde_json::Value, origin: Origin) -> io::Result<()> {
        let serde_json::Value::Object(arguments) = arguments else { return Ok(()) };
        let own_call = OwnCall::new(tool, &arguments);
        self.send_and_expect(
            Input::Direct { tool: tool.to_owned(), arguments, origin, by: None },
            AwaitedUpdate::Turn,
        )?;
        // Nothing is expected of a call that was refused. The same call of another participant is then not this one.
        if self.expected.is_some() {
            self.view.own_call(own_call);
        }
        Ok(())
    }

    pub(super) async fn open(&mut self, which: SessionSelector) -> io::Result<()> {
        match self.context.service.open(which).await {
            Ok(opened) => {
                // Release the previous session, so that a server no longer uses this machine's tools for it.
                self.context.opened = opened.clone();
                let AttachedSession { session, last, spec } = opened;
                self.updates = SessionUpdates::of(session.as_ref());
                self.transcript = transcript_of(&spec, last, session.as_ref());
                self.session = session;
                self.replay_until = last;
                self.introduced = false;
                self.answered = None;
                self.settled.clear();
                self.queued.clear();
                self.dropped.clear();
                *self.completed_session.write() = self.session.id().clone();
                self.drawn_prompt = None;
                self.shell = None;
                self.view = view_of(self.context.form, &*self.context.service);
                self.skills.find(&self.context.service, self.session.id());
                self.introduce()
            }
            Err(error) => self.view.say(&with_own_commands(&error), StyleRole::Bad, &mut self.screen),
        }
    }

    /// Runs the first proposed step under the current approval mode.
    fn run_proposed_step(&mut self) -> io::Result<()> {
        if let Some(why) = self.transcript.step_refusal() {
            return self.note(why);
        }
        let next = self.transcript.proposed_steps().first().map(|step| step.call.clone());
        let Some(call) = next else { return Ok(()) };
        self.direct(&call.name, call.arguments.to_value(), Origin::Plan)
    }

    fn approve(&mut self, mode: Option<ApprovalMode>) -> io::Result<()> {
        if let Some(mode) = mode {
            let steps = self.transcript.steps_sentence();
            if let Some(steps) = steps.filter(|_| mode != ApprovalMode::Never) {
                self.note(&steps)?;
            }
            return self.send_and_expect(
                Input::Configure { change: ConfigChange::Approve(mode) },
                AwaitedUpdate::Event,
            );
        }
        let mode = self.transcript.session_info().map_or("unknown", |facts| approval_label(facts.approve));
        self.note(&format!("approval mode: {mode}; change it with /approve each, ask, auto or never"))
    }

    fn mode(&mut self, mode: Option<Mode>) -> io::Result<()> {
        if let Some(mode) = mode {
            return self.send_and_expect(
                Input::Configure { change: ConfigChange::Mode(mode) },
                AwaitedUpdate::Event,
            );
        }
        let mode = self.transcript.session_info().map(|facts| facts.mode).unwrap_or_default();
        self.note(words::mode_help(mode))
    }

    fn retry(&mut self) -> io::Result<()> {
        let prompted = self.transcript.items().any(|item| matches!(item.body, ItemBody::Prompt(_)));
        if !prompted {
            return self.note("no prompt to retry");
        }
        self.send_and_expect(Input::Retry, AwaitedUpdate::Turn)
    }
}

/// Returns the function that completes `@PATH` for the thread of the line editor.
fn path_completer(service: &Arc<dyn SessionService>, session: &Arc<RwLock<SessionId>>) -> PathCompleter {
    let (service, session) = (Arc::clone(service), Arc::clone(session));
    let runtime = tokio::runtime::Handle::current();
    Box::new(move |word| {
        let session = session.read().clone();
        let paths =
            async { tokio::time::timeout(PATHS_WAIT, service.paths(&session, word, PATHS_MAX)).await };
        runtime.block_on(paths).unwrap_or_default()
    })
}

fn view_of(form: ReplLayout, service: &dyn SessionService) -> Box<dyn ReplView> {
    let artifacts = service.artifact_directory().map(|path| path.display().to_string());
    match form {
        ReplLayout::Panels { .. } => Box::new(PanelView::new(artifacts)),
        ReplLayout::Plain => Box::new(PlainView::new(artifacts)),
    }
}
