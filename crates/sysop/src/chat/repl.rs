//! The REPL's loop: one task that takes updates, what the person says, signals and time, one after the other.

mod people;
mod shell;

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::json;
use sysop_core::event::{Change, Decision, Event, Input, Origin, Update};
use sysop_core::id::{CallId, Seq};
use sysop_core::message::ModelRef;
use sysop_core::mode::Mode;
use sysop_core::policy::ApprovalMode;
use sysop_core::question::QuestionId;
use sysop_core::session::SessionSpec;
use sysop_core::transcript::{Body, Phase, Transcript, mode_word};
use sysop_driver::face::{Opened, Routine, Session, Which};
use sysop_tui::command::{COMMANDS, Line, parse};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::approval::Answer;
use super::console::{Console, Request, Said};
use super::editor::Label;
use super::mirror::Window;
use super::plain::{Plain, lines};
use super::question::Reply;
use super::rich::Rich;
use super::screen::{Owner, Screen};
use super::terminal::Quiet;
use super::view::View;
use super::{BY, ChatContext, Form, Known, Leaving};
use crate::exit::Exit;
use crate::render::terminal_width;
use crate::render::{Ink, Look, safe, words};
use shell::Shell;

/// How often what moves is drawn.
const TICK: Duration = Duration::from_millis(120);
/// How long the prompt stays away for a turn that was asked for.
const EXPECT: Duration = Duration::from_secs(2);
/// How long leaving waits for the line editor to put the terminal in order.
const LEAVE: Duration = Duration::from_secs(1);
/// How many earlier sessions `/resume` lists.
const SESSIONS_LISTED: usize = 15;
/// Providers that a model may be named with; another word before the slash belongs to the model's name.
const PROVIDERS: [&str; 7] = ["openai", "gemini", "vertex", "ollama", "ollama+ssh", "anthropic", "demo"];

/// What the person is asked for at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    Nothing,
    Line,
    Question(CallId),
    Program(QuestionId),
    Terminal,
}

/// What has been sent and has not shown in the log yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// A turn.
    Turn,
    /// Anything.
    Event,
}

pub(super) struct Repl {
    context: ChatContext,
    routines: Vec<Routine>,
    session: std::sync::Arc<dyn Session>,
    updates: BoxStream<'static, Update>,
    transcript: Transcript,
    replay_until: Seq,
    introduced: bool,
    view: Box<dyn View>,
    screen: Screen,
    console: Console,
    asked: Asked,
    withdrawing: bool,
    answered: Option<CallId>,
    /// Questions of programs that were answered here.
    settled: HashSet<QuestionId>,
    /// The last one that was drawn.
    shown: Option<QuestionId>,
    /// Whether Ctrl+C has refused one in this turn: the next one stops it.
    question_interrupted: bool,
    /// The session's terminal, while the person wants to be in it.
    shell: Option<Shell>,
    /// Their own terminal, while the session's is on it.
    window: Option<Window>,
    pausing: bool,
    expected: Option<(Expected, Instant)>,
    draft: String,
    turn_interrupted: bool,
    prompt_interrupted: bool,
    quiet: Option<Quiet>,
    leaving: Option<Exit>,
}

/// The signals that mean something here.
struct Signals {
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    hang_up: Signal,
    resumed: Signal,
    resized: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            // SIGCONT has no name in `SignalKind`.
            resumed: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
            resized: signal(SignalKind::window_change())?,
        })
    }
}

/// What is known before the first update: all of a new session, nothing of one that is replayed.
fn transcript_of(spec: &SessionSpec, last: Seq) -> Transcript {
    if last == Seq(0) { Transcript::of(spec) } else { Transcript::new() }
}

impl Repl {
    pub(super) fn new(context: ChatContext) -> anyhow::Result<Self> {
        let (routines, hosts) = (context.desk.routines(), context.desk.hosts());
        let known = Known {
            routines: routines.iter().map(|it| (it.name.clone(), it.description.clone())).collect(),
            hosts: hosts.into_iter().map(|it| (it.name, it.description)).collect(),
        };
        let (console, colour) = match context.form {
            Form::Panels { colour } => (Console::on_terminal(context.history.clone(), known, colour), colour),
            Form::Plain => (Console::by_lines(), false),
        };
        let quiet = match context.form {
            Form::Panels { .. } => Quiet::new(),
            Form::Plain => None,
        };
        let look = Look { width: terminal_width(), colour };
        let screen = Screen::new(Box::new(io::stdout()), look, console.printer());
        let Opened { session, last, spec } = context.opened.clone();
        Ok(Self {
            updates: session.subscribe(Seq(0)),
            session,
            transcript: transcript_of(&spec, last),
            replay_until: last,
            introduced: false,
            view: view_of(context.form),
            screen,
            console,
            asked: Asked::Nothing,
            withdrawing: false,
            answered: None,
            settled: HashSet::new(),
            shown: None,
            question_interrupted: false,
            shell: None,
            window: None,
            pausing: false,
            expected: None,
            draft: String::new(),
            turn_interrupted: false,
            prompt_interrupted: false,
            quiet,
            leaving: None,
            context,
            routines,
        })
    }

    pub(super) async fn run(mut self) -> anyhow::Result<Exit> {
        let mut signals = Signals::new().context("signals cannot be received")?;
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.introduce()?;
        if let Some(text) = self.context.task.take() {
            self.send_and_expect(Input::Prompt { text }, Expected::Turn)?;
        }
        loop {
            self.ask_for_what_is_wanted()?;
            if let Some(exit) = self.leaving {
                return self.leave(exit).await;
            }
            tokio::select! {
                update = self.updates.next() => match update {
                    Some(update) => self.updated(&update)?,
                    None => self.gone()?,
                },
                said = self.console.said() => match said {
                    Some(said) => self.said(said, &mut signals).await?,
                    None => {
                        let why = "sysop hit a bug while it read the terminal; the session is kept";
                        self.view.say(why, Ink::Bad, &mut self.screen)?;
                        self.leaving = Some(Exit::Failed);
                    }
                },
                came = shell::next_of(&mut self.shell) => self.came(came)?,
                _ = signals.interrupt.recv() => self.interrupted()?,
                _ = signals.quit.recv() => self.pause()?,
                _ = signals.terminate.recv() => self.leaving = Some(Exit::Terminated),
                _ = signals.hang_up.recv() => self.leaving = Some(Exit::HungUp),
                _ = signals.resumed.recv() => self.continued(),
                _ = signals.resized.recv() => self.resized()?,
                _ = ticks.tick(), if self.moves() => self.tick()?,
            }
        }
    }

    /// Another program may have had the terminal; a line editor or a question sees to its own mode.
    fn continued(&self) {
        if self.asked == Asked::Nothing
            && let Some(quiet) = &self.quiet
        {
            quiet.apply();
        }
    }

    fn moves(&self) -> bool {
        self.running() || self.expected.is_some() || self.asked == Asked::Line
    }

    fn tick(&mut self) -> io::Result<()> {
        if self.expected.is_some_and(|(_, since)| since.elapsed() > EXPECT) {
            self.expected = None;
        }
        self.screen.flush_held()?;
        if self.asked == Asked::Nothing {
            self.view.tick(&self.transcript, &mut self.screen)?;
        }
        Ok(())
    }

    fn running(&self) -> bool {
        !matches!(self.transcript.phase(), Phase::Idle | Phase::Paused { .. })
    }

    fn updated(&mut self, update: &Update) -> io::Result<()> {
        let closed = self.closed_words(update);
        self.transcript.apply(update);
        let Update::Logged(logged) = update else {
            if let Some(text) = closed {
                self.note(&text)?;
            }
            return if self.replaying() {
                Ok(())
            } else {
                self.view.update(update, &self.transcript, &mut self.screen)
            };
        };
        match (&self.expected, &logged.event) {
            // What was before is not what came of it.
            _ if logged.seq <= self.replay_until => {}
            (Some((Expected::Turn, _)), Event::TurnStarted { .. }) | (Some((Expected::Event, _)), _) => {
                self.expected = None;
            }
            (Some((Expected::Turn, _)) | None, _) => {}
        }
        if matches!(logged.event, Event::TurnEnded { .. }) {
            self.turn_interrupted = false;
            self.question_interrupted = false;
            self.answered = None;
        }
        if matches!(logged.event, Event::TurnEnded { .. } | Event::Paused { .. }) {
            self.pausing = false;
        }
        if logged.seq > self.replay_until {
            self.introduce()?;
            self.view.update(update, &self.transcript, &mut self.screen)?;
            self.decided_elsewhere(&logged.event)?;
        }
        if !self.replaying() {
            self.introduce()?;
        }
        Ok(())
    }

    /// Says who answered the question that is open here.
    fn decided_elsewhere(&mut self, event: &Event) -> io::Result<()> {
        let Event::Decided { call, decision, by } = event else { return Ok(()) };
        if self.asked != Asked::Question(call.clone()) || self.answered.as_ref() == Some(call) {
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

    /// Once the session is known: what it is, and where it was left.
    fn introduce(&mut self) -> io::Result<()> {
        if self.introduced || self.transcript.facts().is_none() {
            return Ok(());
        }
        self.introduced = true;
        self.view.header(&self.transcript, &mut self.screen)?;
        if self.transcript.turn().0 > 0 && self.replay_until > Seq(1) {
            self.view.recap(&self.transcript, &mut self.screen)?;
        }
        Ok(())
    }

    fn gone(&mut self) -> io::Result<()> {
        let why = self.session.last_error().unwrap_or_else(|| "the session was closed".to_owned());
        self.view.say(&why, Ink::Bad, &mut self.screen)?;
        self.leaving = Some(Exit::Failed);
        Ok(())
    }

    fn wanted(&self) -> Asked {
        if self.replaying() || !self.introduced {
            return Asked::Nothing;
        }
        let proposal = match self.transcript.phase() {
            Phase::Waiting { call } if self.answered.as_ref() != Some(call) => Some(call),
            Phase::Waiting { .. }
            | Phase::Idle
            | Phase::Thinking { .. }
            | Phase::Running { .. }
            | Phase::Paused { .. }
            | Phase::Stopping => None,
        };
        match (&self.asked, proposal, self.open_question()) {
            // A proposal that a person reads is not taken from under their fingers.
            (Asked::Question(open), Some(call), _) if open == call => return Asked::Question(call.clone()),
            (_, _, Some(question)) => return Asked::Program(question.id),
            _ if self.expected.is_some() => return Asked::Nothing,
            (_, Some(call), None) => return Asked::Question(call.clone()),
            (_, None, None) if self.shell.is_some() => return Asked::Terminal,
            (_, None, None) => {}
        }
        match self.transcript.phase() {
            Phase::Idle | Phase::Paused { .. } => Asked::Line,
            Phase::Waiting { .. } | Phase::Thinking { .. } | Phase::Running { .. } | Phase::Stopping => {
                Asked::Nothing
            }
        }
    }

    fn ask_for_what_is_wanted(&mut self) -> io::Result<()> {
        if self.leaving.is_some() {
            return Ok(());
        }
        let wanted = self.wanted();
        match (&self.asked, wanted) {
            (Asked::Nothing, Asked::Line) => self.ask_line(),
            (Asked::Nothing, Asked::Question(call)) => self.ask_question(&call),
            (Asked::Nothing, Asked::Program(_)) => self.ask_for_program(),
            (Asked::Nothing, Asked::Terminal) => self.enter_shell(),
            // A line stays open while another face works: what happens is printed above it.
            (Asked::Line, Asked::Line | Asked::Nothing) | (Asked::Nothing, Asked::Nothing) => Ok(()),
            (open @ (Asked::Question(_) | Asked::Program(_) | Asked::Terminal), wanted)
                if *open == wanted =>
            {
                Ok(())
            }
            (Asked::Line, _) if !self.screen.above_is_shown() => Ok(()),
            (Asked::Line | Asked::Question(_) | Asked::Program(_) | Asked::Terminal, _) => {
                if !self.withdrawing {
                    self.withdrawing = true;
                    self.console.withdraw();
                }
                Ok(())
            }
        }
    }

    fn ask_line(&mut self) -> io::Result<()> {
        let label = self.label();
        match self.context.form {
            Form::Panels { .. } => self.screen.give(Owner::Editor)?,
            Form::Plain => {
                self.screen.blank_row()?;
                self.screen.text("You: ")?;
            }
        }
        self.asked = Asked::Line;
        self.console.request(Request::Line { label, draft: std::mem::take(&mut self.draft) });
        Ok(())
    }

    fn label(&self) -> Label {
        let mut left = String::new();
        if let Some(facts) = self.transcript.facts() {
            left = format!("{} {} ", words::short_place(facts.place()), facts.model);
            if facts.approve != ApprovalMode::Ask {
                left.push_str(&format!("{} ", mode_word(facts.approve)));
            }
            if facts.mode == Mode::Chat {
                left.push_str("chat ");
            }
        }
        if matches!(self.transcript.phase(), Phase::Paused { .. }) {
            left.push_str("paused ");
        }
        Label { left: safe(&left), sign: "› " }
    }

    fn ask_question(&mut self, call: &CallId) -> io::Result<()> {
        let Some(plan) = self.transcript.plan(call) else { return Ok(()) };
        let question = self.view.question(plan, &self.transcript, &self.screen);
        match self.context.form {
            Form::Panels { .. } => self.screen.give(Owner::Question)?,
            Form::Plain => {
                self.screen.blank_row()?;
                self.screen.text(&lines(&question.rows))?;
            }
        }
        self.asked = Asked::Question(call.clone());
        self.console.request(Request::Question(question));
        Ok(())
    }

    async fn said(&mut self, said: Said, signals: &mut Signals) -> anyhow::Result<()> {
        let withdrawn = self.withdrawing;
        let asked = match &said {
            Said::Notice(_) => self.asked.clone(),
            Said::Line(_)
            | Said::Interrupt
            | Said::End
            | Said::Withdrawn(_)
            | Said::Answer(_)
            | Said::Reply(_)
            | Said::Left
            | Said::Failed(_) => {
                self.withdrawing = false;
                self.window = None;
                self.screen.give(Owner::Screen)?;
                self.screen.entered();
                std::mem::replace(&mut self.asked, Asked::Nothing)
            }
        };
        match said {
            // A line that could not be taken back was written before the question came up.
            Said::Line(line) if withdrawn && !line.trim().is_empty() => {
                self.note("a question came up; that line was not sent")?;
                self.draft = line;
            }
            Said::Line(line) => {
                self.prompt_interrupted = false;
                self.line(&line, signals).await?;
            }
            Said::Interrupt => self.interrupted_at_prompt()?,
            Said::End => {
                self.leaving = Some(Exit::Done);
            }
            Said::Withdrawn(draft) => self.draft = draft,
            Said::Answer(answer) => {
                if let Asked::Question(call) = asked {
                    self.answer(call, answer)?;
                }
            }
            Said::Reply(reply) => {
                if let Asked::Program(id) = asked {
                    self.replied(id, reply)?;
                }
            }
            Said::Left => self.left_shell(withdrawn),
            Said::Failed(error) => anyhow::bail!("the terminal cannot be read: {error}"),
            Said::Notice(text) => self.view.say(&text, Ink::Warn, &mut self.screen)?,
        }
        Ok(())
    }

    fn answer(&mut self, call: CallId, answer: Answer) -> io::Result<()> {
        let decision = match answer {
            Answer::Allow(command) => Decision::Allow { command },
            Answer::AllowSession(command) => Decision::AllowSession { command },
            Answer::Reject(reason) => Decision::Reject { reason },
            Answer::Stop => Decision::Reject { reason: "stop".to_owned() },
            Answer::Interrupt => return self.interrupted(),
            Answer::Withdrawn => return Ok(()),
        };
        self.answered = Some(call.clone());
        self.send(Input::Decision { call, decision, by: BY.to_owned() })
    }

    fn send(&mut self, input: Input) -> io::Result<()> {
        if let Err(error) = self.session.send(input) {
            self.expected = None;
            self.view.say(&error, Ink::Bad, &mut self.screen)?;
        }
        Ok(())
    }

    fn send_and_expect(&mut self, input: Input, what: Expected) -> io::Result<()> {
        self.expected = Some((what, Instant::now()));
        self.send(input)
    }

    /// Ctrl+C while nothing is read, or in a question.
    fn interrupted(&mut self) -> io::Result<()> {
        if self.give_up_shell() {
            return Ok(());
        }
        if let Asked::Program(id) = self.asked
            && !self.settled.contains(&id)
        {
            return self.replied(id, Reply::Interrupted);
        }
        if !self.running() && self.expected.is_none() {
            return match self.context.form {
                Form::Panels { .. } => self.interrupted_at_prompt(),
                // As in the lsimons-agent design.
                Form::Plain => {
                    self.leaving = Some(Exit::Done);
                    Ok(())
                }
            };
        }
        if self.turn_interrupted {
            self.leaving = Some(Exit::Interrupted);
            return Ok(());
        }
        self.turn_interrupted = true;
        self.send(Input::Cancel)?;
        self.transcript.stopping();
        self.view.say("stopping; Ctrl+C again leaves", Ink::Warn, &mut self.screen)
    }

    fn interrupted_at_prompt(&mut self) -> io::Result<()> {
        if self.prompt_interrupted {
            self.leaving = Some(Exit::Done);
            return Ok(());
        }
        self.prompt_interrupted = true;
        self.view.say("Ctrl+C again leaves; so do Ctrl+D and /exit", Ink::Dim, &mut self.screen)
    }

    fn pause(&mut self) -> io::Result<()> {
        if !self.running() {
            return self.view.say("nothing runs that could be paused", Ink::Dim, &mut self.screen);
        }
        if self.pausing
            && self.session.terminal().is_some()
            && matches!(self.context.form, Form::Panels { .. })
        {
            return self.want_shell();
        }
        self.pausing = true;
        self.send(Input::Pause)?;
        let more = if self.session.terminal().is_some() { "; Ctrl+\\ again opens the terminal" } else { "" };
        self.view.say(&format!("pausing after this step{more}"), Ink::Warn, &mut self.screen)
    }

    async fn line(&mut self, line: &str, signals: &mut Signals) -> anyhow::Result<()> {
        match parse(line) {
            Line::Empty => {}
            Line::Prompt(text) => {
                self.view.own_prompt(&text);
                self.send_and_expect(Input::Prompt { text }, Expected::Turn)?;
            }
            Line::Shell(command) => self.direct("bash", json!({ "command": command }), Origin::Typed)?,
            Line::Undo => self.direct("undo", json!({}), Origin::Typed)?,
            Line::Run { name, values } => self.routine(&name, &values)?,
            Line::Help => self.help()?,
            Line::Exit => self.leaving = Some(Exit::Done),
            Line::Clear => {
                self.send_and_expect(Input::Clear, Expected::Event)?;
                if let Form::Panels { .. } = self.context.form {
                    self.screen.clear()?;
                    self.view.header(&self.transcript, &mut self.screen)?;
                }
            }
            Line::New => self.open(Which::New).await?,
            Line::Resume(None) if matches!(self.transcript.phase(), Phase::Paused { .. }) => {
                self.send_and_expect(Input::Resume, Expected::Event)?;
            }
            Line::Resume(None) => self.list_sessions().await?,
            Line::Resume(Some(id)) => self.open(Which::Earlier(id)).await?,
            Line::Model(name) => self.model(name.as_deref())?,
            Line::Approve(mode) => self.approve(mode)?,
            Line::Mode(mode) => self.mode(mode)?,
            Line::Host(None) => self.place()?,
            Line::Host(Some(host)) => self.open(Which::On(host)).await?,
            Line::Keys(keys) => {
                self.direct("send_keys", json!({ "keys": keys, "reasoning": "" }), Origin::Typed)?;
            }
            Line::Routines => self.list_routines()?,
            Line::OpenShell => self.open_shell(signals).await?,
            Line::Pause => self.pause()?,
            Line::Stop => self.stop()?,
            Line::Retry => self.retry()?,
            Line::Wrong(text) => self.view.say(&text, Ink::Warn, &mut self.screen)?,
        }
        Ok(())
    }

    fn note(&mut self, text: &str) -> io::Result<()> {
        self.view.say(text, Ink::Dim, &mut self.screen)
    }

    fn direct(&mut self, tool: &str, arguments: serde_json::Value, origin: Origin) -> io::Result<()> {
        let serde_json::Value::Object(arguments) = arguments else { return Ok(()) };
        self.send_and_expect(Input::Direct { tool: tool.to_owned(), arguments, origin }, Expected::Turn)
    }

    fn routine(&mut self, name: &str, values: &[(String, String)]) -> io::Result<()> {
        let Some(routine) = self.routines.iter().find(|routine| routine.name == name) else {
            let text = format!("there is no routine {name}; /routines lists them");
            return self.view.say(&text, Ink::Warn, &mut self.screen);
        };
        match (routine.render)(values) {
            Ok(command) => self.direct("bash", json!({ "command": command }), Origin::Routine),
            Err(error) => self.view.say(&error, Ink::Warn, &mut self.screen),
        }
    }

    fn help(&mut self) -> io::Result<()> {
        let mut text = String::new();
        for (name, arguments, what) in COMMANDS {
            text.push_str(&format!("{:<26} {what}\n", format!("{name} {arguments}")));
        }
        text.push_str("anything else goes to the model; Alt+Enter, or \\ at the end, begins another line");
        self.view.say(&text, Ink::Plain, &mut self.screen)
    }

    fn list_routines(&mut self) -> io::Result<()> {
        if self.routines.is_empty() {
            return self.note("there are no routines; write some into the config file as [routines.NAME]");
        }
        let lines: Vec<String> = self
            .routines
            .iter()
            .map(|routine| format!("{:<20} {}", routine.name, routine.description))
            .collect();
        self.view.say(&lines.join("\n"), Ink::Plain, &mut self.screen)
    }

    async fn list_sessions(&mut self) -> io::Result<()> {
        match self.context.desk.list().await {
            Ok(sessions) if sessions.is_empty() => self.note("there is no earlier session"),
            Ok(sessions) => {
                let lines: Vec<String> = sessions
                    .iter()
                    .take(SESSIONS_LISTED)
                    .map(|it| format!("{}  {}  {}", it.id, it.host, it.title.replace('\n', " ")))
                    .collect();
                self.view.say(&lines.join("\n"), Ink::Plain, &mut self.screen)?;
                self.note("/resume ID opens one")
            }
            Err(error) => self.view.say(&error, Ink::Bad, &mut self.screen),
        }
    }

    async fn open(&mut self, which: Which) -> io::Result<()> {
        match self.context.desk.open(which).await {
            Ok(opened) => {
                // Of the one before nothing is kept: one that lives on a server would go on lending its tools.
                self.context.opened = opened.clone();
                let Opened { session, last, spec } = opened;
                self.updates = session.subscribe(Seq(0));
                self.session = session;
                self.transcript = transcript_of(&spec, last);
                self.replay_until = last;
                self.introduced = false;
                self.answered = None;
                self.settled.clear();
                self.shown = None;
                self.shell = None;
                self.view = view_of(self.context.form);
                self.introduce()
            }
            Err(error) => self.view.say(&error, Ink::Bad, &mut self.screen),
        }
    }

    fn model(&mut self, name: Option<&str>) -> io::Result<()> {
        let Some(current) = self.transcript.facts().map(|facts| facts.model.clone()) else { return Ok(()) };
        let Some(name) = name else { return self.note(&format!("the model is {current}")) };
        let model = match name.split_once('/') {
            Some((provider, model)) if PROVIDERS.contains(&provider) && !model.is_empty() => {
                ModelRef::new(provider, model)
            }
            Some(_) | None => ModelRef::new(current.provider, name),
        };
        self.send_and_expect(Input::Configure { change: Change::Model(model) }, Expected::Event)
    }

    fn approve(&mut self, mode: Option<ApprovalMode>) -> io::Result<()> {
        if let Some(mode) = mode {
            return self.send_and_expect(Input::Configure { change: Change::Approve(mode) }, Expected::Event);
        }
        let mode = self.transcript.facts().map_or("unknown", |facts| mode_word(facts.approve));
        self.note(&format!("approval is {mode}; /approve ask, auto or never changes it"))
    }

    fn mode(&mut self, mode: Option<Mode>) -> io::Result<()> {
        if let Some(mode) = mode {
            return self.send_and_expect(Input::Configure { change: Change::Mode(mode) }, Expected::Event);
        }
        let mode = self.transcript.facts().map(|facts| facts.mode).unwrap_or_default();
        self.note(words::mode_now(mode))
    }

    fn stop(&mut self) -> io::Result<()> {
        if matches!(self.transcript.phase(), Phase::Paused { .. }) {
            return self.send_and_expect(Input::Cancel, Expected::Event);
        }
        self.note("nothing is paused")
    }

    fn retry(&mut self) -> io::Result<()> {
        let prompted = self.transcript.items().any(|item| matches!(item.body, Body::Prompt(_)));
        if !prompted {
            return self.note("there is no prompt that could be tried again");
        }
        self.send_and_expect(Input::Retry, Expected::Turn)
    }

    async fn leave(mut self, exit: Exit) -> anyhow::Result<Exit> {
        if self.context.leaving == Leaving::StopsIt && self.running() && !self.turn_interrupted {
            self.send(Input::Cancel)?;
        }
        self.window = None;
        self.left_shell(false);
        // A line of the plain form is read until it ends.
        let can_be_taken_back = match self.context.form {
            Form::Panels { .. } => self.asked != Asked::Nothing,
            Form::Plain => matches!(self.asked, Asked::Program(_)),
        };
        if can_be_taken_back {
            self.console.withdraw();
            // The editor puts the terminal in order before it answers; one that does not is not waited for.
            let _ = tokio::time::timeout(LEAVE, self.console.said()).await;
            self.screen.give(Owner::Screen)?;
        }
        self.screen.last_row(None)?;
        if self.transcript.turn().0 > 0 && matches!(self.context.form, Form::Panels { .. }) {
            let text = format!("`{}{}` goes on from here", self.context.again, self.session.id());
            self.note(&text)?;
        }
        Ok(exit)
    }
}

fn view_of(form: Form) -> Box<dyn View> {
    match form {
        Form::Panels { .. } => Box::<Rich>::default(),
        Form::Plain => Box::<Plain>::default(),
    }
}
