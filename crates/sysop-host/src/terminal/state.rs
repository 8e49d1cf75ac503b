//! What is known of a running shell: its screen, which shells are in it, whether one is at its prompt, and what
//! a call captures. Pure but for the recording: bytes in, bytes to answer out.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use bytes::Bytes;
use sysop_core::text::neutralize_line;
use sysop_driver::prompter::{TerminalOutput, TerminalSize};
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::marks::{self, ShellMark};
use super::output_filter::OutputFilter;
use super::plain_text::PlainText;
use super::private_use::PrivateUse;
use super::recording::Recording;
use super::screen::TerminalScreen;
use super::sequences::{SequenceKind, SequenceParser, StreamToken};
use super::shells::ShellKind;
use crate::output::redact::Secrets;

/// The state of a terminal.
pub(super) struct TerminalState {
    sequences: SequenceParser,
    pub(super) screen: TerminalScreen,
    /// Private use by people, and the screen without it.
    pub(super) private_use: PrivateUse,
    view: OutputFilter,
    recording: Option<Recording>,
    outputs: broadcast::Sender<TerminalOutput>,
    /// The shells that tell of their commands, each inside the one before.
    pub(super) shells: Vec<NestedShell>,
    /// Our own typing, which nobody is shown.
    pub(super) hidden: Option<HiddenInput>,
    /// Whether the innermost shell reads at its prompt.
    pub(super) ready: bool,
    /// Whether something was typed at that prompt that is no command yet.
    pub(super) dirty: bool,
    /// Whether a whole command was typed before the prompt was there that will take it.
    ahead: bool,
    pub(super) capture: Option<CommandCapture>,
    /// The command of the model's that runs; `None` where a shell is at its prompt, or a person started what runs.
    pub(super) model_command: Option<String>,
    /// Which program the shell is that was asked, as it has said.
    pub(super) known: Option<String>,
    /// Where the innermost shell is that was asked.
    place: Option<TtyLocation>,
    /// The machine of the first shell that was asked.
    machine: Option<String>,
    /// The program that runs commands beside the first shell, where that is of another language.
    runner: String,
    /// The end of the last prompt, by row and column, and what stood before it in its row.
    prompt: Option<((usize, usize), String)>,
    /// Where the last prompt ends in the output that is being taken.
    prompt_at: Option<usize>,
    /// The key of the mark by which a command says that it begins in a shell without marks.
    pub(super) blind_key: Option<String>,
    /// Whether a program has asked for a password by its mark, and no line was ended since.
    pub(super) asked: bool,
    /// Whether a secret was entered since the last line of ours.
    pub(super) entered: bool,
    /// The key of that mark.
    pub(super) secret_key: String,
    /// When something was printed last.
    pub(super) printed: Instant,
    /// How many times something was printed.
    pub(super) prints: u64,
    pub(super) ended: Option<ShellEnd>,
}

/// A terminal, by its name and that of its machine, and the shell in it.
#[derive(Debug, Clone)]
struct TtyLocation {
    tty: String,
    machine: String,
    pid: Option<u32>,
}

/// A shell that tells of its commands.
#[derive(Debug)]
pub(super) struct NestedShell {
    pub(super) key: String,
    pub(super) kind: ShellKind,
    /// The nonce of the command that runs in it.
    running: Option<String>,
    /// The count of its last prompt.
    count: Option<u64>,
    /// Whether a command ended and its prompt was not seen yet.
    ended: bool,
    /// Where it is, if it was asked.
    place: Option<TtyLocation>,
    /// Its folder at its last prompt, without links; none where a command runs, or nobody can tell.
    pub(super) folder: Option<String>,
    /// What `~` stood for at its last prompt.
    pub(super) home: Option<String>,
    /// The program that runs commands beside it, where it is of another language.
    pub(super) runner: String,
}

/// Until when nothing is shown.
#[derive(Debug)]
pub(super) struct HiddenInput {
    pub(super) until: HiddenInputEnd,
    /// What is shown in its place when it is over.
    pub(super) shown: String,
}

/// What ends the hiding.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HiddenInputEnd {
    /// A prompt of the shell with this key.
    PromptReady(String),
    /// The beginning of the command with this nonce.
    CommandStarted(String),
    /// The answer to which shell it is, with this key.
    Identified(String),
}

/// What a call captures.
pub(super) struct CommandCapture {
    nonce: String,
    plain: PlainText,
    pub(super) out: Vec<u8>,
    pub(super) begun: bool,
    pub(super) done: Option<CommandEnd>,
}

/// How a captured command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandEnd {
    /// By itself.
    Exited(i32),
    /// The shell is at its prompt again, but the mark did not come through.
    MarkLost,
    /// With the shell that ran it, which was inside another.
    ShellLeft,
}

impl CommandCapture {
    /// Of the command with this nonce, from its beginning; or, without one, of all from now on.
    pub(super) fn new(nonce: Option<String>) -> Self {
        let begun = nonce.is_none();
        Self {
            nonce: nonce.unwrap_or_default(),
            plain: PlainText::default(),
            out: Vec::new(),
            begun,
            done: None,
        }
    }

    /// Adds a line of ours.
    pub(super) fn note(&mut self, note: &str) {
        self.plain.note(note, &mut self.out);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.plain.finish(&mut self.out);
        self.out
    }
}

/// How the shell ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShellEnd {
    Exited(i32),
    Killed(i32),
    Unknown,
}

impl ShellEnd {
    pub(super) fn of(status: Option<ExitStatus>) -> Self {
        match status.map(|status| (status.code(), status.signal())) {
            Some((Some(code), _)) => Self::Exited(code),
            Some((None, Some(signal))) => Self::Killed(signal),
            Some((None, None)) | None => Self::Unknown,
        }
    }
}

impl std::fmt::Display for ShellEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "the shell ended with exit code {code}"),
            Self::Killed(signal) => write!(f, "the shell was killed by signal {signal}"),
            Self::Unknown => f.write_str("the shell ended"),
        }
    }
}

impl TerminalState {
    pub(super) fn new(
        size: TerminalSize,
        runner: String,
        outputs: broadcast::Sender<TerminalOutput>,
        recording: Option<Recording>,
    ) -> Self {
        Self {
            sequences: SequenceParser::default(),
            screen: TerminalScreen::new(size),
            private_use: PrivateUse::default(),
            view: OutputFilter::default(),
            recording,
            outputs,
            shells: Vec::new(),
            hidden: None,
            ready: false,
            dirty: false,
            ahead: false,
            capture: None,
            model_command: None,
            known: None,
            place: None,
            machine: None,
            runner,
            prompt: None,
            prompt_at: None,
            blind_key: None,
            asked: false,
            entered: false,
            secret_key: random_key(),
            printed: Instant::now(),
            prints: 0,
            ended: None,
        }
    }

    /// The shell that reads now.
    pub(super) fn shell_kind(&self) -> Option<ShellKind> {
        self.shells.last().map(|shell| shell.kind)
    }

    /// Bytes that wait for the call that captures.
    pub(super) fn captured_bytes(&self) -> usize {
        self.capture.as_ref().map_or(0, |capture| capture.out.len())
    }

    /// Whether a command has ended whose prompt is on its way.
    pub(super) fn awaits_prompt(&self) -> bool {
        !self.ready
            && self.hidden.is_none()
            && self.ended.is_none()
            && self.shells.last().is_some_and(|shell| shell.ended)
    }

    /// A shell that was made to tell, inside those that are known.
    pub(super) fn enter(&mut self, key: String, kind: ShellKind) {
        let place = self.place.clone();
        // An inner shell may be on another machine, where only `sh` is certain.
        let runner = if self.shells.is_empty() { self.runner.clone() } else { "sh".to_owned() };
        self.shells.push(NestedShell {
            key,
            kind,
            running: None,
            count: None,
            ended: true,
            place,
            folder: None,
            home: None,
            runner,
        });
    }

    /// Terminal and process of the innermost shell, where it is on the machine of the first one and was asked.
    pub(super) fn shell_process(&self) -> Option<(String, u32)> {
        let tty = self.tty()?.to_owned();
        Some((tty, self.place.as_ref()?.pid?))
    }

    /// The machine of the innermost shell by its own word, where it was asked.
    pub(super) fn machine(&self) -> Option<String> {
        self.place.as_ref().map(|place| place.machine.clone())
    }

    /// The terminal of the innermost shell, where it is on the machine of the first one.
    pub(super) fn tty(&self) -> Option<&str> {
        let place = self.place.as_ref()?;
        (self.machine.as_ref() == Some(&place.machine)).then_some(place.tty.as_str())
    }

    /// Shows nothing from now on, until the next prompt at the earliest.
    pub(super) fn hide(&mut self, hidden: HiddenInput) {
        self.ready = false;
        self.dirty = false;
        self.entered = false;
        self.hidden = Some(hidden);
    }

    /// Whether a line that is typed now is a command of a shell, as far as one can tell.
    pub(super) fn reads_commands(&self) -> bool {
        self.ready || self.awaits_prompt() || self.shells.is_empty()
    }

    /// A person typed.
    pub(super) fn typed_by_person(&mut self, bytes: &[u8]) {
        if self.reads_commands() {
            self.private_use.begin(&self.screen);
            if bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
                self.model_command = None;
            }
        }
        self.typed(bytes);
    }

    /// Somebody typed at a prompt.
    pub(super) fn typed(&mut self, bytes: &[u8]) {
        let ends = bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0x03 | 0x04));
        // A password is asked for until its end, also where stars are shown for it.
        self.asked &= !ends;
        if self.ready {
            self.ready = !ends;
            self.dirty = !ends;
        } else if self.awaits_prompt() {
            self.ahead |= ends;
            self.dirty = !ends;
        }
    }

    /// Takes output; gives what is to be answered to the program.
    pub(super) fn take(&mut self, chunk: &[u8], secrets: &Secrets) -> Vec<u8> {
        self.printed = Instant::now();
        self.prints += 1;
        if self.hidden.is_none() && self.sequences.is_text(chunk) {
            self.take_text(chunk, secrets);
            return Vec::new();
        }
        let (mut raw, mut shown) = (Vec::with_capacity(chunk.len()), Vec::with_capacity(chunk.len()));
        let mut sequences = std::mem::take(&mut self.sequences);
        let mut plain = true;
        sequences.push(chunk, |token| {
            plain &= matches!(token, StreamToken::Text(_));
            self.token(&token, &mut raw, &mut shown);
        });
        self.sequences = sequences;
        let reply = match self.prompt_at.take() {
            Some(end) => {
                let mut reply = self.screen.advance(&raw[..end]);
                self.prompt = Some((self.screen.cursor(), self.screen.line_to_cursor()));
                reply.extend(self.screen.advance(&raw[end..]));
                reply
            }
            None if plain => {
                self.screen.push_text(&raw);
                Vec::new()
            }
            None => self.screen.advance(&raw),
        };
        self.show(&shown);
        self.private_use.advance_shared();
        let recorded = self.private_use.take_recordable();
        if !recorded.is_empty() {
            self.record(|recording| recording.output(secrets, &recorded));
        }
        reply
    }

    /// The same for what is nothing but text, as most of a flood is: without a copy for each that looks.
    fn take_text(&mut self, text: &[u8], secrets: &Secrets) {
        self.screen.push_text(text);
        self.private_use.push_text(text);
        let mut filtered = Vec::new();
        let shown = if self.view.passes(text) {
            text
        } else {
            self.view.push(&StreamToken::Text(text), &mut filtered);
            &filtered
        };
        self.show(shown);
        if !self.private_use.is_on() {
            self.record(|recording| recording.output(secrets, shown));
        }
        self.capture(&StreamToken::Text(text));
    }

    /// Gives watchers what they may see.
    fn show(&self, shown: &[u8]) {
        if shown.is_empty() {
            return;
        }
        if self.outputs.receiver_count() > 0 {
            // The last of them may just have gone.
            let _ = self.outputs.send(TerminalOutput::Bytes(Bytes::copy_from_slice(shown)));
        }
    }

    /// The screen as the model may see it.
    pub(super) fn shared_text(&self) -> String {
        self.private_use.shared_screen().unwrap_or(&self.screen).text()
    }

    /// The cursor of that screen.
    pub(super) fn shared_cursor(&self) -> (usize, usize) {
        self.private_use.shared_screen().unwrap_or(&self.screen).cursor()
    }

    /// What is typed at the prompt so far, and whether the cursor is behind all of it. None where no shell is at its
    /// prompt, or what was typed cannot be seen.
    pub(super) fn typed_line(&self) -> Option<(String, bool)> {
        if !self.ready {
            return None;
        }
        let (end, before) = self.prompt.as_ref()?;
        let (line, at_end) = self.screen.typed_since(*end)?;
        // The screen has scrolled, or something else was drawn over it.
        let is_there = self.screen.letters(end.0, end.1) == *before;
        is_there.then_some((line, at_end))
    }

    /// Puts on the disk what was recorded.
    pub(super) fn flush_recording(&mut self) {
        self.record(Recording::flush);
    }

    /// What a watcher begins with, of what is above the screen so many rows, and all that comes after it.
    pub(super) fn subscribe(&self, scrollback_rows: usize) -> (Bytes, broadcast::Receiver<TerminalOutput>) {
        (Bytes::from(self.screen.picture(scrollback_rows)), self.outputs.subscribe())
    }

    pub(super) fn resize(&mut self, size: TerminalSize) {
        self.screen.resize(size);
        self.private_use.resize(size);
        self.prompt = None;
        self.record(|recording| recording.resized(size));
        let _ = self.outputs.send(TerminalOutput::Resized(size));
    }

    pub(super) fn end(&mut self, ended: ShellEnd) {
        self.ended = Some(ended);
        self.ready = false;
        self.hidden = None;
        self.record(Recording::flush);
        let _ = self.outputs.send(TerminalOutput::Ended(ended.to_string()));
    }

    /// A disk that does not take the recording ends it, and nothing else.
    fn record(&mut self, act: impl FnOnce(&mut Recording) -> std::io::Result<()>) {
        if let Some(recording) = &mut self.recording
            && let Err(error) = act(recording)
        {
            tracing::warn!(%error, "the recording of the terminal ends here");
            self.recording = None;
        }
    }

    fn token(&mut self, token: &StreamToken<'_>, raw: &mut Vec<u8>, shown: &mut Vec<u8>) {
        if let StreamToken::Sequence(SequenceKind::Osc, bytes) = token
            && marks::is_mark(bytes)
        {
            if let Some((key, mark)) = marks::parse(bytes) {
                self.mark(&key, mark, raw, shown);
            }
            return;
        }
        let bytes = match token {
            StreamToken::Text(bytes) | StreamToken::Sequence(_, bytes) => *bytes,
            StreamToken::Control(byte) => std::slice::from_ref(byte),
        };
        if self.hidden.is_some() {
            if concerns_the_keyboard(token) {
                self.print(token, bytes, raw, shown);
            }
            return;
        }
        self.print(token, bytes, raw, shown);
        self.capture(token);
    }

    /// Puts a token on its way to the screens, the watchers and the recording.
    fn print(&mut self, token: &StreamToken<'_>, bytes: &[u8], raw: &mut Vec<u8>, shown: &mut Vec<u8>) {
        raw.extend_from_slice(bytes);
        let before = shown.len();
        self.view.push(token, shown);
        self.private_use.push(bytes, &shown[before..]);
    }

    fn capture(&mut self, token: &StreamToken<'_>) {
        if let Some(capture) = &mut self.capture
            && !self.private_use.is_on()
            && capture.begun
            && capture.done.is_none()
        {
            capture.plain.push(token, &mut capture.out);
        }
    }

    fn mark(&mut self, key: &str, mark: ShellMark, raw: &mut Vec<u8>, shown: &mut Vec<u8>) {
        match &mark {
            ShellMark::SecretRequested => {
                self.asked |= key == self.secret_key;
                return;
            }
            ShellMark::Identified { program, tty, machine, pid } => {
                if self.is_hidden_until(&HiddenInputEnd::Identified(key.to_owned())) {
                    self.machine.get_or_insert_with(|| machine.clone());
                    let (tty, machine) = (tty.clone(), machine.clone());
                    self.place = Some(TtyLocation { tty, machine, pid: *pid });
                    self.known = Some(program.clone());
                }
                return;
            }
            ShellMark::CommandStarted(nonce) if self.blind_key.as_deref() == Some(key) => {
                self.blind_key = None;
                return self.begun(None, nonce.clone(), raw, shown);
            }
            ShellMark::CommandStarted(_)
            | ShellMark::CommandEnded { .. }
            | ShellMark::Place { .. }
            | ShellMark::PromptReady => {}
        }
        let Some(place) = self.shells.iter().position(|shell| shell.key == key) else { return };
        if place + 1 < self.shells.len() {
            self.shells.truncate(place + 1);
            self.captured(CommandEnd::ShellLeft);
        }
        if let Some(place) = &self.shells[place].place {
            self.place = Some(place.clone());
        }
        match mark {
            ShellMark::CommandStarted(nonce) => self.begun(Some(place), nonce, raw, shown),
            ShellMark::CommandEnded { nonce, code, count } => {
                let shell = &mut self.shells[place];
                if count.is_some() && count == shell.count {
                    return;
                }
                shell.count = count;
                shell.ended = true;
                (shell.folder, shell.home) = (None, None);
                self.dirty = false;
                self.private_use.end();
                if self.shells[place].running.take_if(|running| *running == nonce).is_some() {
                    let ours = self.capture.as_ref().is_some_and(|capture| capture.nonce == nonce);
                    self.captured(if ours { CommandEnd::Exited(code) } else { CommandEnd::ShellLeft });
                }
            }
            // Only between the end of a command and its prompt: what a program prints later counts for nothing.
            ShellMark::Place { folder, home } if self.shells[place].ended => {
                let shell = &mut self.shells[place];
                (shell.folder, shell.home) = (Some(folder), Some(home));
            }
            ShellMark::Place { .. } => {}
            ShellMark::PromptReady => self.at_prompt(place, key, raw.len()),
            ShellMark::SecretRequested | ShellMark::Identified { .. } => {}
        }
    }

    /// The prompt of the shell at `place` ends where so many bytes were shown of what is being taken.
    fn at_prompt(&mut self, place: usize, key: &str, shown: usize) {
        self.prompt_at = Some(shown);
        // An editor that draws its prompt again is where it was.
        if !std::mem::take(&mut self.shells[place].ended) {
            return;
        }
        if self.is_hidden_until(&HiddenInputEnd::PromptReady(key.to_owned())) {
            self.hidden = None;
        }
        if self.hidden.is_none() && self.shells[place].running.take().is_some() {
            self.captured(CommandEnd::MarkLost);
        }
        self.ready = !std::mem::take(&mut self.ahead);
        if self.hidden.is_none() {
            self.model_command = None;
        }
        self.asked = false;
    }

    /// A command has begun, in the shell at `place` or in one without marks.
    fn begun(&mut self, place: Option<usize>, nonce: String, raw: &mut Vec<u8>, shown: &mut Vec<u8>) {
        if !self.is_hidden_until(&HiddenInputEnd::CommandStarted(nonce.clone())) {
            return;
        }
        // What comes now is the model's.
        self.private_use.end_silently();
        if let Some(hidden) = self.hidden.take() {
            for line in hidden.shown.lines() {
                let line = neutralize_line(line);
                for bytes in [line.as_bytes(), b"\r\n"] {
                    raw.extend_from_slice(bytes);
                    shown.extend_from_slice(bytes);
                    self.private_use.push(bytes, bytes);
                }
            }
        }
        if let Some(capture) = &mut self.capture {
            capture.begun |= capture.nonce == nonce;
        }
        if let Some(place) = place {
            self.shells[place].running = Some(nonce);
        }
    }

    fn is_hidden_until(&self, until: &HiddenInputEnd) -> bool {
        self.hidden.as_ref().is_some_and(|hidden| hidden.until == *until)
    }

    fn captured(&mut self, done: CommandEnd) {
        let Some(capture) = self.capture.as_mut().filter(|capture| capture.begun) else { return };
        if capture.done.is_none() || done == CommandEnd::ShellLeft {
            capture.done = Some(done);
        }
    }
}

/// A random text that nobody can guess, for keys and nonces.
pub(super) fn random_key() -> String {
    format!("{:016x}", rand::random::<u64>())
}

/// Whether a sequence changes how keys are sent, or wants an answer: it counts also where nothing is shown.
fn concerns_the_keyboard(token: &StreamToken<'_>) -> bool {
    let StreamToken::Sequence(kind, bytes) = token else { return false };
    match (kind, bytes.last()) {
        (SequenceKind::Csi, Some(b'n' | b'c')) => true,
        (SequenceKind::Csi, Some(b'h' | b'l')) => {
            matches!(bytes.get(2..bytes.len() - 1), Some(b"?1" | b"?2004" | b"?25"))
        }
        (SequenceKind::Escape, Some(b'=' | b'>')) => true,
        _ => false,
    }
}
