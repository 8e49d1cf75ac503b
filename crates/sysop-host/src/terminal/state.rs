//! State of a running shell: its screen, the shells nested in it, its prompt, and the capture of a call. Except for the
//! recording and the clock, this module is pure: it takes output bytes and returns reply bytes.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use bytes::Bytes;
use sysop_core::outcome::SCREEN_FOLLOWS;
use sysop_core::text::neutralize_line;
use sysop_driver::prompter::{TerminalOutput, TerminalSize};
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::hidden_prompt::HiddenPrompt;
use super::marks::{self, ShellMark};
use super::output_filter::OutputFilter;
use super::plain_text::PlainText;
use super::private_use::PrivateUse;
use super::recording::Recording;
use super::screen::TerminalScreen;
use super::sequences::{SequenceKind, SequenceParser, StreamToken};
use super::shells::ShellKind;
use crate::output::redact::Secrets;

pub(super) struct TerminalState {
    sequences: SequenceParser,
    pub(super) screen: TerminalScreen,
    pub(super) private_use: PrivateUse,
    view: OutputFilter,
    recording: Option<Recording>,
    outputs: broadcast::Sender<TerminalOutput>,
    /// Shells with our hooks, outermost first.
    pub(super) shells: Vec<NestedShell>,
    /// Input of ours that is hidden from watchers, while it is hidden.
    pub(super) hidden: Option<HiddenInput>,
    /// The prompt that is drawn while output is hidden.
    hidden_prompt: HiddenPrompt,
    /// True if the innermost shell reads at its prompt.
    pub(super) ready: bool,
    /// True if text was typed at the innermost shell's prompt but not yet entered.
    pub(super) dirty: bool,
    /// True if a whole command was typed before the prompt that will read it appeared.
    ahead: bool,
    pub(super) capture: Option<CommandCapture>,
    /// The model's running command. `None` if a shell is at its prompt or a person started the running command.
    pub(super) model_command: Option<String>,
    /// Program that the shell named when it was last asked to identify itself.
    pub(super) known: Option<String>,
    /// Terminal of the innermost shell; `None` if it was not identified.
    place: Option<TtyLocation>,
    /// Machine of the first shell that was identified.
    machine: Option<String>,
    /// Program that runs commands for the first shell if we cannot analyze that shell's language.
    runner: String,
    /// Position (row, column) right after the last prompt, and the text left of that position in its row.
    prompt: Option<((usize, usize), String)>,
    /// Byte offset of the last prompt's end in the output being processed.
    prompt_at: Option<usize>,
    /// Key of the mark by which a command reports its start in a shell without hooks.
    pub(super) blind_key: Option<String>,
    /// True if a program has printed a password prompt's mark and no line has been entered since.
    pub(super) asked: bool,
    /// True if a secret has been entered since our last typed line.
    pub(super) entered: bool,
    /// Key of the mark that requests a password.
    pub(super) secret_key: String,
    /// Time of the last output.
    pub(super) printed: Instant,
    /// Number of output chunks so far.
    pub(super) prints: u64,
    pub(super) ended: Option<ShellEnd>,
}

/// Terminal device, machine, and process id of a shell.
#[derive(Debug, Clone)]
struct TtyLocation {
    tty: String,
    machine: String,
    pid: Option<u32>,
}

#[derive(Debug)]
pub(super) struct NestedShell {
    pub(super) key: String,
    pub(super) kind: ShellKind,
    /// Nonce of the command that the shell is running.
    running: Option<String>,
    /// Count that the shell reported with its last prompt.
    count: Option<u64>,
    /// True if a command has ended and the next prompt has not appeared yet.
    ended: bool,
    /// Terminal of the shell, if it was identified.
    place: Option<TtyLocation>,
    /// Directory of the shell at its last prompt, with links resolved; `None` while a command runs or if unknown.
    pub(super) folder: Option<String>,
    /// Home directory (`~`) of the shell at its last prompt.
    pub(super) home: Option<String>,
    /// Program that runs commands for this shell if we cannot analyze its language.
    pub(super) runner: String,
}

/// Hides one of our own typed lines by hiding output until an event.
#[derive(Debug)]
pub(super) struct HiddenInput {
    pub(super) until: HiddenInputEnd,
    /// Text to show when hiding ends.
    pub(super) shown: String,
}

/// Event that ends the hiding of output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HiddenInputEnd {
    /// Prompt of the shell with this key.
    PromptReady(String),
    /// Beginning of the command with this nonce.
    CommandStarted(String),
    /// Reply to the identification request with this key.
    Identified(String),
}

pub(super) struct CommandCapture {
    nonce: String,
    plain: PlainText,
    /// True while a program uses the alternate screen, whose content is no output.
    is_full_screen: bool,
    /// True if the alternate screen was added to the output.
    is_screen_shown: bool,
    pub(super) out: Vec<u8>,
    pub(super) begun: bool,
    pub(super) done: Option<CommandEnd>,
}

/// Line in place of what a program has drawn on the alternate screen.
const FULL_SCREEN_ENDED: &str = "[full-screen program ended]";

/// Line in place of what follows a switch to the alternate screen that nothing ended.
const FULL_SCREEN_LEFT: &str =
    "[the output from here on was drawn on the alternate screen, and is left out; see the terminal]";

/// Returns true if the token switches to the alternate screen, false if it switches back, and `None` for another token.
fn switched_screen(token: &StreamToken<'_>) -> Option<bool> {
    let StreamToken::Sequence(SequenceKind::Csi, bytes) = token else { return None };
    let (last, parameters) = bytes.get(2..)?.split_last()?;
    let modes = std::str::from_utf8(parameters.strip_prefix(b"?")?).ok()?;
    let is_screen = modes.split(';').any(|mode| matches!(mode, "47" | "1047" | "1049"));
    let is_set = match last {
        b'h' => true,
        b'l' => false,
        _ => return None,
    };
    is_screen.then_some(is_set)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandEnd {
    Exited(i32),
    /// The shell is at its prompt again, but the end mark was lost.
    MarkLost,
    ShellLeft,
}

impl CommandCapture {
    /// Captures the output of the command with this nonce, or all output from now on if `None`.
    pub(super) fn new(nonce: Option<String>) -> Self {
        let begun = nonce.is_none();
        Self {
            nonce: nonce.unwrap_or_default(),
            plain: PlainText::default(),
            is_full_screen: false,
            is_screen_shown: false,
            out: Vec::new(),
            begun,
            done: None,
        }
    }

    fn push(&mut self, token: &StreamToken<'_>) {
        match switched_screen(token) {
            Some(true) => self.is_full_screen = true,
            Some(false) if self.is_full_screen => {
                self.is_full_screen = false;
                self.note(FULL_SCREEN_ENDED);
            }
            Some(false) | None if self.is_full_screen => {}
            Some(false) | None => self.plain.push(token, &mut self.out),
        }
    }

    /// Adds a line of our own to the captured output.
    pub(super) fn note(&mut self, note: &str) {
        self.plain.note(note, &mut self.out);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.is_full_screen && !self.is_screen_shown {
            self.note(FULL_SCREEN_LEFT);
        }
        self.plain.finish(&mut self.out);
        self.out
    }
}

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
            hidden_prompt: HiddenPrompt::default(),
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

    pub(super) fn shell_kind(&self) -> Option<ShellKind> {
        self.shells.last().map(|shell| shell.kind)
    }

    pub(super) fn captured_bytes(&self) -> usize {
        self.capture.as_ref().map_or(0, |capture| capture.out.len())
    }

    /// Returns true if a command has ended but the next prompt has not appeared yet.
    pub(super) fn awaits_prompt(&self) -> bool {
        !self.ready
            && self.hidden.is_none()
            && self.ended.is_none()
            && self.shells.last().is_some_and(|shell| shell.ended)
    }

    /// Adds a shell in which our hooks are being installed. It is nested in the shells that are already known.
    pub(super) fn enter(&mut self, key: String, kind: ShellKind) {
        let place = self.place.clone();
        // A nested shell may run on another machine, where only `sh` is certain to exist.
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

    /// Returns the terminal and the process id of the innermost shell, if that shell was identified and runs on the
    /// first shell's machine.
    pub(super) fn shell_process(&self) -> Option<(String, u32)> {
        let tty = self.tty()?.to_owned();
        Some((tty, self.place.as_ref()?.pid?))
    }

    /// Returns the machine that the innermost shell reported, if it was identified.
    pub(super) fn machine(&self) -> Option<String> {
        self.place.as_ref().map(|place| place.machine.clone())
    }

    /// Returns the terminal of the innermost shell, if that shell runs on the first shell's machine.
    pub(super) fn tty(&self) -> Option<&str> {
        let place = self.place.as_ref()?;
        (self.machine.as_ref() == Some(&place.machine)).then_some(place.tty.as_str())
    }

    /// Hides output until the event that `hidden` names. The shell no longer counts as being at its prompt.
    pub(super) fn hide(&mut self, hidden: HiddenInput) {
        self.ready = false;
        self.dirty = false;
        self.entered = false;
        self.hidden_prompt = HiddenPrompt::default();
        self.hidden = Some(hidden);
    }

    /// Returns true if a line typed now is probably read by a shell as a command.
    pub(super) fn reads_commands(&self) -> bool {
        self.ready || self.awaits_prompt() || self.shells.is_empty()
    }

    /// Records typing by a person. Begins private use if a shell reads the typed text.
    pub(super) fn typed_by_person(&mut self, bytes: &[u8]) {
        if self.reads_commands() {
            self.private_use.begin(&self.screen);
            if bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
                self.model_command = None;
            }
        }
        self.typed(bytes);
    }

    /// Records typing by a person or by us.
    pub(super) fn typed(&mut self, bytes: &[u8]) {
        let ends = bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0x03 | 0x04));
        // The password prompt stays open until the line ends, even if asterisks are echoed.
        self.asked &= !ends;
        if self.ready {
            self.ready = !ends;
            self.dirty = !ends;
        } else if self.awaits_prompt() {
            self.ahead |= ends;
            self.dirty = !ends;
        }
    }

    /// Processes output. Returns the terminal's reply to the program.
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

    /// Processes a chunk of pure text without copying it for each consumer. Most chunks of a flood are pure text.
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

    /// Sends filtered output to the watchers.
    fn show(&self, shown: &[u8]) {
        if shown.is_empty() {
            return;
        }
        if self.outputs.receiver_count() > 0 {
            // Fails only if the last watcher has just gone.
            let _ = self.outputs.send(TerminalOutput::Bytes(Bytes::copy_from_slice(shown)));
        }
    }

    /// Returns the text of the screen that the model may see.
    pub(super) fn shared_text(&self) -> String {
        self.private_use.shared_screen().unwrap_or(&self.screen).text()
    }

    /// Returns the screen for the output of a command that is still running. The rows of a full-screen program are
    /// announced, because the other lines of the output were printed; rows that an editor shows after the end of a file
    /// are left out.
    pub(super) fn screen_of_command(&mut self) -> String {
        let screen = self.private_use.shared_screen().unwrap_or(&self.screen);
        let text = screen.text();
        if !screen.is_full() {
            return text;
        }
        if let Some(capture) = &mut self.capture {
            capture.is_screen_shown = true;
        }
        let rows = text.lines().filter(|row| *row != "~");
        std::iter::once(SCREEN_FOLLOWS).chain(rows).collect::<Vec<_>>().join("\n")
    }

    /// Returns the cursor of the screen that the model may see.
    pub(super) fn shared_cursor(&self) -> (usize, usize) {
        self.private_use.shared_screen().unwrap_or(&self.screen).cursor()
    }

    /// Returns the text typed at the prompt so far, and true if the cursor is at its end. Returns `None` if no shell is
    /// at its prompt or the text cannot be determined.
    pub(super) fn typed_line(&self) -> Option<(String, bool)> {
        if !self.ready {
            return None;
        }
        let (end, before) = self.prompt.as_ref()?;
        let (line, at_end) = self.screen.typed_since(*end)?;
        // The prompt is elsewhere if the screen has scrolled or was overwritten.
        let is_there = self.screen.letters(end.0, end.1) == *before;
        is_there.then_some((line, at_end))
    }

    /// Writes buffered recording data to its file.
    pub(super) fn flush_recording(&mut self) {
        self.record(Recording::flush);
    }

    /// Returns a new watcher's screen, with up to `scrollback_rows` rows above it, and a receiver for all later output.
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

    /// Writes to the recording. A write error ends only the recording.
    fn record(&mut self, act: impl FnOnce(&mut Recording) -> std::io::Result<()>) {
        if let Some(recording) = &mut self.recording
            && let Err(error) = act(recording)
        {
            tracing::warn!(%error, "cannot continue the terminal recording");
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
        let bytes = token.bytes();
        if self.hidden.is_some() {
            if concerns_the_keyboard(token) {
                self.print(token, bytes, raw, shown);
            } else {
                self.hidden_prompt.push(token);
            }
            return;
        }
        self.print(token, bytes, raw, shown);
        self.capture(token);
    }

    /// Appends a token to the output for the screens, the watchers and the recording.
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
            capture.push(token);
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
                self.hidden_prompt.begin();
                (shell.folder, shell.home) = (None, None);
                self.dirty = false;
                self.private_use.end();
                if self.shells[place].running.take_if(|running| *running == nonce).is_some() {
                    let ours = self.capture.as_ref().is_some_and(|capture| capture.nonce == nonce);
                    self.captured(if ours { CommandEnd::Exited(code) } else { CommandEnd::ShellLeft });
                }
            }
            // Accepted only between the end of a command and its prompt, so that running programs cannot send it.
            ShellMark::Place { folder, home } if self.shells[place].ended => {
                let shell = &mut self.shells[place];
                (shell.folder, shell.home) = (Some(folder), Some(home));
            }
            ShellMark::Place { .. } => {}
            ShellMark::PromptReady => self.at_prompt(place, key, raw, shown),
            ShellMark::SecretRequested | ShellMark::Identified { .. } => {}
        }
    }

    /// Handles the prompt of the shell at `place`, which ends at the end of `raw` and `shown`.
    fn at_prompt(&mut self, place: usize, key: &str, raw: &mut Vec<u8>, shown: &mut Vec<u8>) {
        self.prompt_at = Some(raw.len());
        // A line editor that redraws its prompt changes nothing.
        if !std::mem::take(&mut self.shells[place].ended) {
            return;
        }
        if self.is_hidden_until(&HiddenInputEnd::PromptReady(key.to_owned())) {
            self.hidden = None;
            let (line, is_continued) = (self.screen.line_to_cursor(), self.screen.is_continued());
            let missing = std::mem::take(&mut self.hidden_prompt).missing(&line, is_continued);
            SequenceParser::default().push(&missing, |token| {
                let bytes = token.bytes();
                self.print(&token, bytes, raw, shown);
            });
            self.prompt_at = Some(raw.len());
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

    /// Handles the beginning of a command, either in the shell at `place` or in a shell without hooks.
    fn begun(&mut self, place: Option<usize>, nonce: String, raw: &mut Vec<u8>, shown: &mut Vec<u8>) {
        if !self.is_hidden_until(&HiddenInputEnd::CommandStarted(nonce.clone())) {
            return;
        }
        // Output from now on belongs to the model.
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

/// Returns a random, unguessable key or nonce of 64 bits.
pub(super) fn random_key() -> String {
    format!("{:016x}", rand::random::<u64>())
}

/// Returns true if a sequence changes how keys are sent or asks for a reply. Such sequences apply even in hidden
/// output.
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
