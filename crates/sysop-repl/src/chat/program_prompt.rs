//! Asks the user the questions of running programs: for a password, a passphrase, or the acceptance of a host key.
//!
//! The rules of approval questions apply: the question is drawn, everything typed before it or within `GUARD`
//! after it is discarded, and only then does a key count. Secrets are not echoed, not even as stars, so that
//! their length stays hidden. The text comes from a program or a remote machine, so it is indented below a
//! line by sysop that names the origin, and cannot be mistaken for sysop's own text.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{OptionalActions, OutputModes, tcgetattr, tcsetattr};
use secrecy::SecretString;
use secrecy::zeroize::{Zeroize as _, Zeroizing};
use sysop_core::question::{Question, QuestionKind};
use sysop_term::cells::wrap_exact;
use sysop_term::question::{detail_rows, prompt_rows};
use sysop_term::{StyleRole, TextRow, paint};

use super::approval::GUARD;
use super::input_reader::timespec;
use super::keyboard::with_keyboard;
use super::prompt_field::{FieldInput, PromptField};
use crate::render::panel::Panel;
use crate::render::{RenderOptions, THEME, row, safe, terminal_width, wrap};

/// Interval for checking whether a pending question has been answered elsewhere.
const LOOK_UP: Duration = Duration::from_millis(50);
/// Maximum delay between Esc and the next byte of an escape sequence.
const ESCAPE: Duration = Duration::from_millis(50);
/// Maximum length of a program's prompt that is quoted in a sentence, in characters.
const PROMPT_CHARS_IN_A_LINE_MAX: usize = 200;
/// Maximum number of bytes per read from the terminal.
const READ_BYTES_MAX: usize = 256;
/// Maximum number of reads that discard leftover input after an answer.
const REST_READS_MAX: usize = 256;

/// The user's answer.
#[derive(Debug, Clone)]
pub(crate) enum PromptOutcome {
    /// The user answered with this text.
    Given(SecretString),
    NoSecret,
    Refused,
    /// The user declined with Ctrl+C.
    Interrupted,
    /// The question was answered elsewhere or is no longer needed.
    Withdrawn,
}

#[derive(Debug, Clone)]
pub(crate) struct ProgramPrompt {
    pub(crate) rows: Vec<TextRow>,
    pub(crate) kind: QuestionKind,
}

impl ProgramPrompt {
    pub(crate) fn panel(question: &Question, look: RenderOptions) -> Self {
        let panel = Panel::new(look);
        Self { rows: panel.around("QUESTION", question_rows(question, panel.inner())), kind: question.kind }
    }

    /// Lays out a question as plain lines.
    pub(crate) fn lines(question: &Question, columns: usize) -> Self {
        Self { rows: question_rows(question, columns), kind: question.kind }
    }
}

/// Returns a line that names the origin, and the program's prompt below it.
fn question_rows(question: &Question, columns: usize) -> Vec<TextRow> {
    let mut out = wrap(&row(&format!("{} asks:", question.from), StyleRole::Strong), columns, 2);
    out.extend(detail_rows(question, columns, THEME));
    out.extend(prompt_rows(question, columns, THEME));
    out
}

/// Terminal from which bytes are read and on which the question is drawn.
pub(crate) trait PromptIo {
    /// Reads typed bytes into `into` and returns their number. Returns 0 if none arrive within `wait`, and an
    /// error if no more will arrive.
    fn read(&mut self, into: &mut [u8], wait: Duration) -> io::Result<usize>;
    /// Returns the time since a fixed point.
    fn now(&self) -> Duration;
    /// Draws a row and moves to the next one.
    fn row(&mut self, row: &TextRow) -> io::Result<()>;
    /// Redraws the answer's row and leaves the cursor in it.
    fn answer_row(&mut self, row: &TextRow) -> io::Result<()>;
    fn columns(&self) -> usize;
}

/// Asks the user until they answer or `withdrawn` is set.
pub(crate) fn ask(
    keyboard: &mut impl PromptIo,
    sheet: &ProgramPrompt,
    withdrawn: &AtomicBool,
) -> io::Result<PromptOutcome> {
    for row in &sheet.rows {
        keyboard.row(row)?;
    }
    drop_early_bytes(keyboard, withdrawn)?;
    if sheet.kind == QuestionKind::PerhapsSecret
        && let Some(reply) = is_no_secret(keyboard, withdrawn)?
    {
        return Ok(reply);
    }
    let seen = match sheet.kind {
        QuestionKind::Text => AnswerEcho::Visible,
        QuestionKind::Secret | QuestionKind::PerhapsSecret => AnswerEcho::Hidden,
    };
    let hint = match seen {
        AnswerEcho::Visible => "Enter: send, Esc: decline",
        AnswerEcho::Hidden => "Input is hidden. Enter: send, Esc: decline",
    };
    say(keyboard, hint)?;
    let reply = read_answer(keyboard, seen, withdrawn)?;
    drop_the_rest(keyboard)?;
    keyboard.row(&TextRow::default())?;
    Ok(reply)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerEcho {
    Visible,
    Hidden,
}

fn read_answer(
    keyboard: &mut impl PromptIo,
    seen: AnswerEcho,
    withdrawn: &AtomicBool,
) -> io::Result<PromptOutcome> {
    let mut field = PromptField::new();
    draw(keyboard, &field, seen)?;
    let mut bytes = Zeroizing::new([0; READ_BYTES_MAX]);
    loop {
        let wait = if field.is_in_escape() { ESCAPE } else { LOOK_UP };
        let count = keyboard.read(bytes.as_mut_slice(), wait)?;
        if withdrawn.load(Ordering::Relaxed) {
            return Ok(PromptOutcome::Withdrawn);
        }
        if count == 0 && field.is_in_escape() {
            return Ok(PromptOutcome::Refused);
        }
        for byte in &bytes[..count] {
            match field.push(*byte) {
                FieldInput::Incomplete => {}
                FieldInput::Submitted(text) => return Ok(PromptOutcome::Given(text)),
                FieldInput::Refused => return Ok(PromptOutcome::Refused),
                FieldInput::Interrupted => return Ok(PromptOutcome::Interrupted),
                FieldInput::InvalidUtf8 => {
                    keyboard.row(&TextRow::default())?;
                    say(keyboard, "invalid UTF-8; type it again")?;
                }
            }
        }
        bytes.zeroize();
        if count > 0 {
            draw(keyboard, &field, seen)?;
        }
    }
}

fn draw(keyboard: &mut impl PromptIo, field: &PromptField, seen: AnswerEcho) -> io::Result<()> {
    let mut line = row("› ", StyleRole::Title);
    if seen == AnswerEcho::Visible {
        let text = row(&field.echo_text(), StyleRole::Text);
        // Show the end of text that is longer than the row.
        let room = keyboard.columns().saturating_sub(4);
        line.append(wrap_exact(&text.spans, room).pop().unwrap_or_default());
    }
    keyboard.answer_row(&line)
}

/// Asks the user if a question of unknown kind is for a secret. Returns `None` if it is, otherwise the outcome of the
/// question.
fn is_no_secret(keyboard: &mut impl PromptIo, withdrawn: &AtomicBool) -> io::Result<Option<PromptOutcome>> {
    say(keyboard, "Is this a password or secret prompt? y: yes, n: no, Esc: decline")?;
    let mut escape = false;
    loop {
        let mut byte = [0];
        let count = keyboard.read(&mut byte, if escape { ESCAPE } else { LOOK_UP })?;
        if withdrawn.load(Ordering::Relaxed) {
            return Ok(Some(PromptOutcome::Withdrawn));
        }
        match (count, byte[0]) {
            (0, _) if escape => return Ok(Some(PromptOutcome::Refused)),
            (0, _) => {}
            (_, 0x03) => return Ok(Some(PromptOutcome::Interrupted)),
            (_, 0x04) => return Ok(Some(PromptOutcome::Refused)),
            (_, 0x1b) => escape = true,
            // A key that sends several bytes.
            (_, _) if escape => {
                drop_early_bytes(keyboard, withdrawn)?;
                escape = false;
            }
            (_, b'y' | b'Y') => return Ok(None),
            (_, b'n' | b'N') => return Ok(Some(PromptOutcome::NoSecret)),
            (_, _) => {}
        }
    }
}

fn drop_early_bytes(keyboard: &mut impl PromptIo, withdrawn: &AtomicBool) -> io::Result<()> {
    let mut until = keyboard.now() + GUARD;
    let mut bytes = Zeroizing::new([0; READ_BYTES_MAX]);
    loop {
        let left = until.saturating_sub(keyboard.now());
        if left.is_zero() || withdrawn.load(Ordering::Relaxed) {
            return Ok(());
        }
        if keyboard.read(bytes.as_mut_slice(), left)? > 0 {
            until = keyboard.now() + GUARD;
        }
    }
}

/// Discards input pasted after the answer, because it may be secret and must not answer anything else.
fn drop_the_rest(keyboard: &mut impl PromptIo) -> io::Result<()> {
    let mut bytes = Zeroizing::new([0; READ_BYTES_MAX]);
    for _ in 0..REST_READS_MAX {
        if keyboard.read(bytes.as_mut_slice(), Duration::ZERO)? == 0 {
            break;
        }
    }
    Ok(())
}

fn say(keyboard: &mut impl PromptIo, text: &str) -> io::Result<()> {
    let columns = keyboard.columns().saturating_sub(1);
    wrap(&row(text, StyleRole::Dim), columns, 2).iter().try_for_each(|row| keyboard.row(row))
}

pub(crate) fn ask_on_terminal(
    sheet: &ProgramPrompt,
    color: bool,
    withdrawn: &AtomicBool,
) -> io::Result<PromptOutcome> {
    let mut terminal = TtyPromptIo::new(color)?;
    // Events buffered by the key reader are type-ahead, too.
    while crossterm::event::poll(Duration::ZERO)? {
        crossterm::event::read()?;
    }
    ask(&mut terminal, sheet, withdrawn)
}

/// The user's terminal in raw mode: reads bytes and draws on standard error.
pub(crate) struct TtyPromptIo {
    started: Instant,
    color: bool,
}

impl TtyPromptIo {
    /// Switches the terminal to raw mode until the value is dropped.
    pub(crate) fn new(color: bool) -> io::Result<Self> {
        crossterm::terminal::enable_raw_mode()?;
        let raw = Self { started: Instant::now(), color };
        // Keep newline translation, so that rows printed by other code still start in the first column.
        with_keyboard(|terminal| {
            let mut mode = tcgetattr(terminal)?;
            mode.output_modes.insert(OutputModes::OPOST);
            tcsetattr(terminal, OptionalActions::Now, &mode)
        })?;
        Ok(raw)
    }
}

impl Drop for TtyPromptIo {
    fn drop(&mut self) {
        // The terminal may be gone; the error cannot be reported.
        let _ = crossterm::terminal::disable_raw_mode();
    }
}

impl PromptIo for TtyPromptIo {
    fn read(&mut self, into: &mut [u8], wait: Duration) -> io::Result<usize> {
        with_keyboard(|terminal| read_bytes(terminal, into, wait))
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn row(&mut self, row: &TextRow) -> io::Result<()> {
        write!(io::stderr(), "{}\r\n", paint::row(row, self.color))
    }

    fn answer_row(&mut self, row: &TextRow) -> io::Result<()> {
        write!(io::stderr(), "\r\u{1b}[K{}", paint::row(row, self.color))
    }

    fn columns(&self) -> usize {
        terminal_width()
    }
}

/// Reads standard input and returns the number of bytes, or 0 if none arrive within `wait`. Bypasses buffers,
/// which would keep a copy.
pub(super) fn read_terminal(into: &mut [u8], wait: Duration) -> io::Result<usize> {
    read_bytes(io::stdin().as_fd(), into, wait)
}

fn read_bytes(terminal: BorrowedFd<'_>, into: &mut [u8], wait: Duration) -> io::Result<usize> {
    let mut ready = [PollFd::from_borrowed_fd(terminal, PollFlags::IN)];
    match poll(&mut ready, Some(&timespec(wait))) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(0),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    match rustix::io::read(terminal, into) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(count) => Ok(count),
        Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn one_line_summary(question: &Question) -> String {
    let whole = question.prompt.trim();
    let mut prompt: String = whole.chars().take(PROMPT_CHARS_IN_A_LINE_MAX).collect();
    if prompt.len() < whole.len() {
        prompt.push('…');
    }
    safe(&format!("{} asks `{prompt}`", question.from)).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use secrecy::ExposeSecret as _;
    use sysop_core::question::QuestionId;

    use super::*;

    /// Keyboard with its own clock and bytes at given times.
    struct Scripted {
        now: Duration,
        typed: Vec<(u64, &'static str)>,
        drawn: String,
    }

    impl PromptIo for Scripted {
        fn read(&mut self, into: &mut [u8], wait: Duration) -> io::Result<usize> {
            let next = self.typed.first().map(|(at, _)| Duration::from_millis(*at));
            match next {
                Some(at) if at <= self.now + wait => {
                    self.now = self.now.max(at);
                    let (_, text) = self.typed.remove(0);
                    into[..text.len()].copy_from_slice(text.as_bytes());
                    Ok(text.len())
                }
                None if self.now > Duration::from_secs(60) => Err(io::ErrorKind::UnexpectedEof.into()),
                Some(_) | None => {
                    self.now += wait;
                    Ok(0)
                }
            }
        }

        fn now(&self) -> Duration {
            self.now
        }

        fn row(&mut self, row: &TextRow) -> io::Result<()> {
            self.drawn.push_str(&format!("{}\n", paint::row(row, false)));
            Ok(())
        }

        fn answer_row(&mut self, row: &TextRow) -> io::Result<()> {
            self.drawn.push_str(&format!("{}\r", paint::row(row, false)));
            Ok(())
        }

        fn columns(&self) -> usize {
            60
        }
    }

    fn question(kind: QuestionKind, prompt: &str) -> Question {
        Question {
            id: QuestionId(1),
            kind,
            from: "sudo on web1".into(),
            details: Vec::new(),
            prompt: prompt.into(),
            call: None,
        }
    }

    /// Returns the outcome and everything drawn.
    fn asked(kind: QuestionKind, typed: &[(u64, &'static str)]) -> (String, String) {
        let sheet = ProgramPrompt::lines(&question(kind, "Code: "), 60);
        let mut keyboard = Scripted { now: Duration::ZERO, typed: typed.to_vec(), drawn: String::new() };
        let reply = ask(&mut keyboard, &sheet, &AtomicBool::new(false));
        let reply = match reply {
            Ok(PromptOutcome::Given(text)) => format!("given {}", text.expose_secret()),
            Ok(reply) => format!("{reply:?}"),
            Err(error) => error.kind().to_string(),
        };
        (reply, keyboard.drawn)
    }

    fn reply(kind: QuestionKind, typed: &[(u64, &'static str)]) -> String {
        asked(kind, typed).0
    }

    #[test]
    fn only_input_after_the_prompt_answers_it() {
        let secret = QuestionKind::Secret;
        assert_eq!(
            reply(secret, &[(0, "early\r"), (299, "early\r"), (700, "late"), (800, "r\r")]),
            "given later"
        );
        // Each early byte restarts the guard time.
        assert_eq!(reply(secret, &[(0, "x"), (290, "x"), (580, "x\r"), (900, "ok\r")]), "given ok");
        assert_eq!(reply(secret, &[(400, "half")]), "unexpected end of file");
        let doubt = QuestionKind::PerhapsSecret;
        assert_eq!(reply(doubt, &[(0, "n"), (400, "y"), (500, "it\r")]), "given it");
        assert_eq!(reply(doubt, &[(400, "x"), (410, "N")]), "NoSecret");
        assert_eq!(reply(doubt, &[(400, "\u{1b}")]), "Refused");
        assert_eq!(reply(doubt, &[(400, "\u{3}")]), "Interrupted");
    }

    #[test]
    fn a_lone_escape_declines_and_a_key_sequence_does_not() {
        let text = QuestionKind::Text;
        assert_eq!(reply(text, &[(400, "ye\u{1b}")]), "Refused");
        assert_eq!(reply(text, &[(400, "ye\u{1b}"), (420, "[A"), (500, "s\r")]), "given yes");
        assert_eq!(reply(text, &[(400, "\u{3}")]), "Interrupted");
    }

    #[test]
    fn only_visible_prompts_echo_their_answer() {
        let (_, drawn) = asked(QuestionKind::Secret, &[(400, "geheim"), (500, "\r")]);
        expect![[r#"
            sudo on web1 asks:
              Code:
            Input is hidden. Enter: send, Esc: decline
            › 
            › 

        "#]]
        .assert_eq(&drawn.replace('\r', "\n"));
        let (_, drawn) = asked(QuestionKind::Text, &[(400, "ye"), (500, "s"), (600, "\r")]);
        assert!(drawn.contains("› ye\r› yes\r"), "{drawn:?}");
    }

    #[test]
    fn a_prompt_cannot_imitate_ours_or_fill_the_screen() {
        let hostile = "\u{1b}[2J\u{1b}]0;x\u{7}Password:\nsysop asks:\r\u{202e}more";
        let rows: String = question_rows(&question(QuestionKind::Secret, hostile), 60)
            .iter()
            .map(|row| format!("{}\n", paint::row(row, true)))
            .collect();
        assert_eq!(sysop_term::testing::painted_intruder(&rows), None, "{rows:?}");
        let rows = question_rows(&question(QuestionKind::Secret, hostile), 60);
        assert!(rows.iter().skip(1).all(|row| paint::row(row, false).starts_with("  ")), "{rows:?}");
        let long = format!("begin {} end", "x".repeat(100_000));
        let rows = question_rows(&question(QuestionKind::Secret, &long), 60);
        let text: String = rows.iter().map(|row| paint::row(row, false)).collect();
        assert!(rows.len() < 100 && text.contains("begin") && text.ends_with(" end"), "{} rows", rows.len());
        assert!(text.contains("characters omitted"), "{text}");
    }

    #[test]
    fn debug_output_hides_a_secret_reply() {
        let printed = format!("{:?}", PromptOutcome::Given("geheim".to_owned().into()));
        assert!(!printed.contains("geheim"), "{printed}");
    }
}
