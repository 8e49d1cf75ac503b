//! Reads the user's input when requested. Uses a separate thread, because reading a terminal blocks.
//!
//! At most one request is open. `withdraw` cancels the request, but its answer still arrives.

use std::io::{self, BufRead, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use reedline::{EditCommand, ExternalPrinter, HistoryItem, Reedline, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};
use secrecy::SecretString;
use secrecy::zeroize::{Zeroize as _, Zeroizing};
use sysop_core::question::QuestionKind;
use sysop_core::text::visible_text;
use sysop_driver::frontend::OfferedRule;
use sysop_driver::prompter;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::approval::{
    ApprovalOutcome, ApprovalPrompt, GUARD, ONCE_ONLY, TtyApprovalIo, answer_first, ask, is_command_line,
    rule_question,
};
use super::editor::{
    CommandCompleter, DrawnLine, EditorFlags, PRIVATE, PathCompleter, PromptLabel, RESUME, editor, read,
};
use super::pastes::Pastes;
use super::program_prompt::{ProgramPrompt, PromptOutcome, TtyPromptIo, ask_on_terminal, read_terminal};
use super::prompt_field::ANSWER_BYTES_MAX;
use super::type_ahead::{self, TypeAheadFlags, TypedAhead};
use super::{BY, CompletionNames};
use crate::render::safe;

const LINE_BYTES_MAX: u64 = 1024 * 1024;
/// Key that leaves the session's terminal: Ctrl+], as in telnet.
const LEAVE_KEY: u8 = 0x1d;
/// Interval at which the reader of the session's terminal checks for cancellation.
const LOOK_UP: Duration = Duration::from_millis(50);
/// Maximum number of bytes per read from the terminal.
const READ_BYTES_MAX: usize = 4096;
/// Capacity of the printer's channel. `InlineScreen` relies on it to detect that a message was printed.
const PRINTER_MESSAGES_MAX: usize = 1;

pub(crate) enum ReadRequest {
    Line {
        label: PromptLabel,
        draft: String,
    },
    /// Ask for the decision on a proposal.
    Approval(Box<ApprovalPrompt>),
    ProgramPrompt(ProgramPrompt),
    /// Read text for after the current turn.
    TypeAhead {
        draft: String,
    },
    /// Forward keys to the session's terminal.
    Terminal(Arc<dyn prompter::Terminal>),
}

#[derive(Debug)]
pub(crate) enum UserInput {
    Line(String),
    /// Ctrl+C at the prompt, with the draft that it cleared. `was_written` is true if the line had any text before.
    Interrupt {
        draft: String,
        was_written: bool,
    },
    /// Ctrl+D or the end of the input.
    End,
    /// Ctrl+P during a turn, or in the empty line of a paused one. Contains the text typed so far.
    Pause(String),
    /// The request was withdrawn. Contains the text typed so far.
    Withdrawn(String),
    /// The user's decision on a proposal.
    Approval(ApprovalOutcome),
    /// The input ended at a proposal.
    NoAnswer,
    ProgramPrompt(PromptOutcome),
    /// The user left the session's terminal, or was called away to answer a question.
    LeftTerminal,
    /// The terminal is gone, for this reason.
    Failed(io::Error),
    /// All of the text typed so far during a turn. The request is still open.
    Typing(String),
    /// A message for the user. The request is still open.
    Notice(String),
}

/// The type of reedline's own signal is private.
type Repaint = Box<dyn Fn() + Send + Sync>;

/// Handle to the reading thread.
pub(crate) struct InputReader {
    requests: Sender<ReadRequest>,
    said: UnboundedReceiver<UserInput>,
    withdrawn: Arc<AtomicBool>,
    /// Set to clear what has been typed during a turn.
    cleared: Arc<AtomicBool>,
    is_paused: Arc<AtomicBool>,
    printer: Option<SyncSender<String>>,
    /// Draws the prompt label again while a line is being edited; set once there is a line editor.
    repaint: Arc<OnceLock<Repaint>>,
}

impl InputReader {
    /// Starts a reader with a line editor on a terminal.
    pub(crate) fn on_terminal(
        history: Option<PathBuf>,
        known: Arc<RwLock<CompletionNames>>,
        paths: PathCompleter,
        color: bool,
    ) -> Self {
        let printer = ExternalPrinter::new(PRINTER_MESSAGES_MAX);
        let above = printer.sender();
        let repaint = Arc::new(OnceLock::new());
        let signal = Arc::clone(&repaint);
        let is_paused = Arc::<AtomicBool>::default();
        let paused = Arc::clone(&is_paused);
        let cleared = Arc::<AtomicBool>::default();
        let clears = Arc::clone(&cleared);
        let reader = Self::start(Some(above), move |requests, said, withdrawn| {
            let completer = CommandCompleter::new(known, paths);
            let (drawn, pastes) = (DrawnLine::default(), Pastes::default());
            let (mut editor, problem) = editor(
                history.as_deref(),
                completer,
                color,
                printer,
                EditorFlags { withdrawn: withdrawn.clone(), is_paused: paused },
                drawn.clone(),
                pastes.clone(),
            );
            let repaint = editor.repaint_signal();
            let _ = signal.set(Box::new(move || repaint.request_repaint()) as Repaint);
            if let Some(problem) = problem {
                emit(&said, UserInput::Notice(problem));
            }
            for request in requests {
                let answer = match request {
                    ReadRequest::Line { label, draft } => read_line(&mut editor, &label, draft, &drawn),
                    ReadRequest::Approval(question) => {
                        match TtyApprovalIo::new(color).and_then(|mut it| ask(&mut it, &question, &withdrawn))
                        {
                            Ok(answer) => UserInput::Approval(answer),
                            Err(error) => UserInput::Failed(error),
                        }
                    }
                    ReadRequest::ProgramPrompt(sheet) => {
                        prompt_input(ask_on_terminal(&sheet, color, &withdrawn))
                    }
                    ReadRequest::Terminal(terminal) => forward_keys(terminal.as_ref(), &withdrawn),
                    ReadRequest::TypeAhead { draft } => {
                        let flags = TypeAheadFlags { withdrawn: &withdrawn, cleared: &clears };
                        read_ahead(&mut editor, draft, &said, flags)
                    }
                };
                // A draft keeps the sign of a paste until it is sent.
                emit(
                    &said,
                    if let UserInput::Line(line) = answer {
                        UserInput::Line(pastes.expand(&line))
                    } else {
                        answer
                    },
                );
            }
        });
        Self { repaint, is_paused, cleared, ..reader }
    }

    /// Starts a reader of plain lines from standard input.
    pub(crate) fn by_lines() -> Self {
        Self::start(None, |requests, said, withdrawn| {
            let mut lines = io::stdin().lock();
            for request in requests {
                let answer = match request {
                    ReadRequest::Line { .. } => match read_echoed_line(&mut lines) {
                        Ok(Some(line)) => UserInput::Line(line),
                        Ok(None) => UserInput::End,
                        Err(error) => UserInput::Failed(error),
                    },
                    ReadRequest::Approval(question) => {
                        match ask_by_lines(&mut lines, &question, &withdrawn) {
                            Ok(Some(answer)) => UserInput::Approval(answer),
                            Ok(None) => UserInput::NoAnswer,
                            Err(error) => UserInput::Failed(error),
                        }
                    }
                    // A terminal in line mode returns one line per read, so the buffer is empty here.
                    ReadRequest::ProgramPrompt(sheet) if rustix::termios::isatty(&lines) => {
                        prompt_input(ask_on_terminal(&sheet, false, &withdrawn))
                    }
                    ReadRequest::ProgramPrompt(sheet) => {
                        prompt_input(reply_by_lines(&mut lines, &sheet, &withdrawn))
                    }
                    ReadRequest::Terminal(terminal) => forward_keys(terminal.as_ref(), &withdrawn),
                    // Lines typed during a turn stay in the input until they are read.
                    ReadRequest::TypeAhead { draft } => UserInput::Withdrawn(draft),
                };
                emit(&said, answer);
            }
        })
    }

    fn start(
        printer: Option<SyncSender<String>>,
        work: impl FnOnce(Receiver<ReadRequest>, UnboundedSender<UserInput>, Arc<AtomicBool>) + Send + 'static,
    ) -> Self {
        let (requests, taken) = channel();
        let (say, said) = unbounded_channel();
        let withdrawn = Arc::new(AtomicBool::new(false));
        let flag = withdrawn.clone();
        std::thread::spawn(move || work(taken, say, flag));
        Self {
            requests,
            said,
            withdrawn,
            cleared: Arc::default(),
            is_paused: Arc::default(),
            printer,
            repaint: Arc::default(),
        }
    }

    /// Returns the channel for rows to print above the line being edited, or `None` without a line editor.
    pub(crate) fn printer(&self) -> Option<SyncSender<String>> {
        self.printer.clone()
    }

    /// Sends a request. The answer to the previous request must have been received.
    pub(crate) fn request(&self, request: ReadRequest) {
        self.withdrawn.store(false, Ordering::Relaxed);
        self.cleared.store(false, Ordering::Relaxed);
        // A thread that has exited has already sent the reason, which will be received next.
        let _ = self.requests.send(request);
    }

    /// Draws the label of the line that is being edited again.
    pub(crate) fn repaint(&self) {
        if let Some(repaint) = self.repaint.get() {
            repaint();
        }
    }

    /// Sets if a turn is paused, which Ctrl+P in an empty line resumes.
    pub(crate) fn set_paused(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// Clears what the user has typed during a turn. It remains in the history.
    pub(crate) fn clear_typed(&self) {
        self.cleared.store(true, Ordering::Relaxed);
    }

    pub(crate) fn withdraw(&self) {
        self.withdrawn.store(true, Ordering::Relaxed);
    }

    /// Returns the next input, or `None` if no more input will arrive.
    pub(crate) async fn next_input(&mut self) -> Option<UserInput> {
        self.said.recv().await
    }
}

fn emit(said: &UnboundedSender<UserInput>, what: UserInput) {
    // The receiver is gone if the front end is about to exit.
    let _ = said.send(what);
}

fn prompt_input(reply: io::Result<PromptOutcome>) -> UserInput {
    match reply {
        Ok(reply) => UserInput::ProgramPrompt(reply),
        // No more input will arrive.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            UserInput::ProgramPrompt(PromptOutcome::Refused)
        }
        Err(error) => UserInput::Failed(error),
    }
}

/// Forwards keys to the session's terminal until the user presses the leave key or the request is withdrawn.
fn forward_keys(terminal: &dyn prompter::Terminal, withdrawn: &AtomicBool) -> UserInput {
    let pass_on = || -> io::Result<()> {
        let _raw = TtyPromptIo::new(false)?;
        // The user may be typing a password.
        let mut bytes = Zeroizing::new([0; READ_BYTES_MAX]);
        while !withdrawn.load(Ordering::Relaxed) {
            let count = read_terminal(bytes.as_mut_slice(), LOOK_UP)?;
            let typed = &bytes[..count];
            let left = typed.iter().position(|byte| *byte == LEAVE_KEY);
            let typed = &typed[..left.unwrap_or(count)];
            if !typed.is_empty() {
                terminal.input(BY, typed);
            }
            if left.is_some() {
                break;
            }
            bytes.zeroize();
        }
        Ok(())
    };
    match pass_on() {
        Ok(()) => UserInput::LeftTerminal,
        Err(error) => UserInput::Failed(error),
    }
}

/// Shows a program's question and reads the answer as a line from a pipe. The answer is not echoed.
fn reply_by_lines(
    lines: &mut impl BufRead,
    sheet: &ProgramPrompt,
    withdrawn: &AtomicBool,
) -> io::Result<PromptOutcome> {
    if sheet.kind == QuestionKind::PerhapsSecret {
        say("Is this a password or secret prompt? [y/n] ")?;
        let line = next_line(lines)?;
        say("\n")?;
        match line.as_deref().map(str::trim) {
            Some("y" | "yes") => {}
            Some("n" | "no") => return Ok(PromptOutcome::NoSecret),
            Some(_) | None => return Ok(PromptOutcome::Refused),
        }
    }
    say("Answer: ")?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(ANSWER_BYTES_MAX));
    lines.take(ANSWER_BYTES_MAX as u64).read_until(b'\n', &mut bytes)?;
    say("\n")?;
    if withdrawn.load(Ordering::Relaxed) {
        return Ok(PromptOutcome::Withdrawn);
    }
    let Ok(text) = std::str::from_utf8(&bytes) else { return Ok(PromptOutcome::Refused) };
    Ok(match text.strip_suffix('\n') {
        Some(text) => PromptOutcome::Given(SecretString::new(text.strip_suffix('\r').unwrap_or(text).into())),
        None if text.is_empty() => PromptOutcome::Refused,
        None => PromptOutcome::Given(SecretString::new(text.into())),
    })
}

fn read_line(editor: &mut Reedline, label: &PromptLabel, draft: String, drawn: &DrawnLine) -> UserInput {
    drawn.begin();
    if !draft.is_empty() && editor.current_buffer_contents().is_empty() {
        editor.run_edit_commands(&[EditCommand::InsertString(draft)]);
    }
    match read(editor, &label.drawn_on(drawn)) {
        Ok(Signal::Success(line)) => {
            // A failure to write the history must not lose the line.
            let _ = editor.sync_history();
            UserInput::Line(line)
        }
        Ok(Signal::CtrlC) => {
            let (draft, was_written) = drawn.take();
            if !draft.trim().is_empty() {
                save_line(editor, &draft);
            }
            UserInput::Interrupt { draft, was_written }
        }
        Ok(Signal::CtrlD) => UserInput::End,
        Ok(Signal::ExternalBreak(draft)) => leave_line(editor, UserInput::Withdrawn(draft)),
        Ok(Signal::HostCommand(command)) if command == RESUME => {
            let draft = editor.current_buffer_contents().to_owned();
            leave_line(editor, UserInput::Pause(draft))
        }
        Ok(_) => UserInput::Withdrawn(String::new()),
        Err(error) => UserInput::Failed(error),
    }
}

/// Clears the line, which the editor leaves on the screen.
fn leave_line(editor: &mut Reedline, said: UserInput) -> UserInput {
    editor.run_edit_commands(&[EditCommand::Clear]);
    match say("\r\u{1b}[J") {
        Ok(()) => said,
        Err(error) => UserInput::Failed(error),
    }
}

/// Adds a line to the history. A failure to write it must not lose the line.
fn save_line(editor: &mut Reedline, line: &str) {
    if line.starts_with(PRIVATE) {
        return;
    }
    let _ = editor.history_mut().save(HistoryItem::from_command_line(line));
    let _ = editor.sync_history();
}

fn read_ahead(
    editor: &mut Reedline,
    draft: String,
    said: &UnboundedSender<UserInput>,
    flags: TypeAheadFlags<'_>,
) -> UserInput {
    let show = |text: &str| emit(said, UserInput::Typing(text.to_owned()));
    match type_ahead::read(draft, flags, show) {
        Ok(TypedAhead::Line(line)) => {
            save_line(editor, &line);
            UserInput::Line(line)
        }
        Ok(TypedAhead::Pause(text)) => UserInput::Pause(text),
        Ok(TypedAhead::Cleared(text)) => {
            save_line(editor, &text);
            UserInput::Withdrawn(String::new())
        }
        Ok(TypedAhead::End) => UserInput::End,
        Ok(TypedAhead::Withdrawn(text)) => UserInput::Withdrawn(text),
        Err(error) => UserInput::Failed(error),
    }
}

/// Reads the next line, or returns `None` at the end of the input. If no terminal has echoed the line, prints
/// it, so that the output shows the whole dialog.
fn read_echoed_line(lines: &mut (impl BufRead + AsFd)) -> io::Result<Option<String>> {
    let line = next_line(lines)?;
    match &line {
        // A terminal echoes no Ctrl+D.
        None if rustix::termios::isatty(&*lines) => say("\n")?,
        Some(_) if rustix::termios::isatty(&*lines) => {}
        Some(_) | None => say(&format!("{}\n", safe(line.as_deref().unwrap_or_default())))?,
    }
    Ok(line)
}

fn next_line(lines: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    lines.take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned()))
}

/// Shows a proposal and reads the answer from the same lines as prompts. On a terminal, text typed before the
/// question is discarded. Lines from a pipe always precede the question, so they count as answers. Returns `None` at
/// the end of the input.
fn ask_by_lines(
    lines: &mut (impl BufRead + AsFd),
    question: &ApprovalPrompt,
    withdrawn: &AtomicBool,
) -> io::Result<Option<ApprovalOutcome>> {
    drop_early_lines(lines)?;
    loop {
        say(&question.line_question())?;
        let line = read_echoed_line(lines)?;
        if withdrawn.load(Ordering::Relaxed) {
            return Ok(Some(ApprovalOutcome::Withdrawn));
        }
        let Some(line) = line else { return Ok(None) };
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        if line == "A" {
            match &question.rule {
                Some(offered) if confirm_rule(lines, offered)? && !withdrawn.load(Ordering::Relaxed) => {
                    return Ok(Some(ApprovalOutcome::Always(offered.clone())));
                }
                Some(_) => {}
                None => say(&format!("{}\n", question.no_rule))?,
            }
            continue;
        }
        if is_command_line(line) {
            say(&format!("{}\n", answer_first(line)))?;
            continue;
        }
        match word.to_ascii_lowercase().as_str() {
            "y" if rest.is_empty() && word == "Y" => return Ok(Some(ApprovalOutcome::Allow)),
            "y" | "yes" if rest.is_empty() && question.is_dangerous => {
                say("dangerous: type Y (a capital letter) to run it\n")?;
            }
            "y" | "yes" if rest.is_empty() => return Ok(Some(ApprovalOutcome::Allow)),
            "a" | "always" if rest.is_empty() && question.covers.is_empty() => {
                say(&format!("{ONCE_ONLY}\n"))?
            }
            "a" | "always" if rest.is_empty() => return Ok(Some(ApprovalOutcome::AllowSession)),
            "s" | "stop" if rest.is_empty() => return Ok(Some(ApprovalOutcome::StopTurn)),
            "n" | "no" => return Ok(Some(ApprovalOutcome::Reject(rest.to_owned()))),
            "e" | "edit" if question.command.is_some() => {
                let edited = if rest.is_empty() {
                    say("Command: ")?;
                    read_echoed_line(lines)?.unwrap_or_default()
                } else {
                    rest.to_owned()
                };
                if !edited.trim().is_empty() {
                    return Ok(Some(ApprovalOutcome::Edited(edited)));
                }
            }
            _ => {
                let session = match question.covers.as_str() {
                    "" => String::new(),
                    covers => format!(", a allow for this session: {covers}"),
                };
                let yes = if question.is_dangerous { "Y" } else { "y" };
                say(&format!("{yes} run once, n [REASON] reject, e [COMMAND] edit{session}, s stop\n"))?;
            }
        }
    }
}

/// Shows the rule as it would be saved, and asks for confirmation.
fn confirm_rule(lines: &mut (impl BufRead + AsFd), offered: &OfferedRule) -> io::Result<bool> {
    for line in offered.toml.lines() {
        say(&format!("{}\n", visible_text(line)))?;
    }
    say(&format!("{} [y/n] ", rule_question(offered)))?;
    let answer = read_echoed_line(lines)?.unwrap_or_default();
    Ok(matches!(answer.trim(), "y" | "yes"))
}

fn drop_early_lines(lines: &impl AsFd) -> io::Result<()> {
    if !rustix::termios::isatty(lines) {
        return Ok(());
    }
    let mut until = Instant::now() + GUARD;
    loop {
        tcflush(lines, QueueSelector::IFlush)?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let mut ready = [PollFd::new(lines, PollFlags::IN)];
        if poll(&mut ready, Some(&timespec(left)))? > 0 {
            until = Instant::now() + GUARD;
        }
    }
}

pub(super) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
