//! Approval question on a terminal, answered with single keys.
//!
//! A key counts only if it was pressed after the question appeared. First, the proposal is drawn. Then all
//! pending keys are discarded, as is every key pressed within `GUARD`; each such key restarts that period.
//! Only then is the question drawn and a key accepted. So keys typed ahead for the next prompt never approve a
//! command. A proposal longer than the screen is shown page by page before the question.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{
    self, DisableBracketedPaste, EnableBracketedPaste, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers,
};
use crossterm::terminal;
use sysop_core::text::visible_text;
use sysop_driver::frontend::OfferedRule;
use sysop_term::{StyleRole, TextRow, paint};

use super::editor::{edit_once, suspend};
use crate::render::{row, terminal_size, wrap};

/// Period after a proposal has been drawn during which keys are ignored.
pub(crate) const GUARD: Duration = Duration::from_millis(300);
/// Interval for checking whether a pending question has been answered elsewhere.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Message for a call that can only be allowed once.
pub(crate) const ONCE_ONLY: &str = "this kind of command can only be allowed once; press y to run it";

/// Returns the question that the user must answer before a rule is saved.
pub(crate) fn rule_question(offered: &OfferedRule) -> String {
    format!("Save this rule to {} and run the command?", visible_text(&offered.file))
}

/// The user's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApprovalOutcome {
    /// Run the call once, as shown.
    Allow,
    /// Run the call as shown, and grant what the question's `covers` describes for the session.
    AllowSession,
    /// The user edited the command. It must be shown again, with its risk and effect, before it may run.
    Edited(String),
    /// Run the call and save this rule.
    Always(OfferedRule),
    /// Reject the call, with feedback for the model or an empty string.
    Reject(String),
    StopTurn,
    /// The user pressed Ctrl+C.
    Interrupt,
    /// The question was answered elsewhere or is no longer needed.
    Withdrawn,
}

#[derive(Debug, Clone)]
pub(crate) struct ApprovalPrompt {
    /// Rows of the proposal, already laid out.
    pub(crate) rows: Vec<TextRow>,
    /// Command of the call, if it can be edited.
    pub(crate) command: Option<String>,
    /// Description of the session grant; empty if the call can be allowed only once.
    pub(crate) covers: String,
    /// Rule that "always" would save, or `None` if no rule is possible.
    pub(crate) rule: Option<OfferedRule>,
    /// Sentence that says why no rule is possible.
    pub(crate) no_rule: &'static str,
}

/// Terminal from which keys are read and on which the question is drawn.
pub(crate) trait ApprovalIo {
    /// Returns the next key, or `None` if none arrives within `wait`.
    fn key(&mut self, wait: Duration) -> io::Result<Option<KeyEvent>>;
    /// Returns the time since a fixed point.
    fn now(&self) -> Duration;
    fn row(&mut self, row: &TextRow) -> io::Result<()>;
    /// Returns the number of columns and rows of the screen.
    fn size(&self) -> (usize, usize);
    /// Removes the row drawn last, which must fit in the terminal's width.
    fn erase_row(&mut self) -> io::Result<()>;
    /// Suspends the process until a shell continues it.
    fn suspend(&mut self) -> io::Result<()>;
    /// Lets the user edit a line that initially contains `text`. Returns `None` if the user cancels.
    fn edit(&mut self, label: &str, text: &str) -> io::Result<Option<String>>;
}

/// Asks the user until they answer or `withdrawn` is set.
pub(crate) fn ask(
    console: &mut impl ApprovalIo,
    question: &ApprovalPrompt,
    withdrawn: &AtomicBool,
) -> io::Result<ApprovalOutcome> {
    if let Some(answer) = show(console, question, withdrawn)? {
        return Ok(answer);
    }
    drop_early_keys(console, withdrawn)?;
    draw_keys(console, question)?;
    loop {
        let Some(key) = next_key(console, withdrawn)? else { return Ok(ApprovalOutcome::Withdrawn) };
        if key.code == KeyCode::Char('A') {
            match &question.rule {
                Some(offered) if confirm_rule(console, offered, withdrawn)? => {
                    return Ok(ApprovalOutcome::Always(offered.clone()));
                }
                Some(_) => {}
                None => say(console, question.no_rule, StyleRole::Warn)?,
            }
            draw_keys(console, question)?;
            continue;
        }
        match letter(key) {
            Some('\u{3}') => return Ok(ApprovalOutcome::Interrupt),
            Some('y') => return Ok(ApprovalOutcome::Allow),
            Some('a') if question.covers.is_empty() => say(console, ONCE_ONLY, StyleRole::Warn)?,
            Some('a') => return Ok(ApprovalOutcome::AllowSession),
            Some('s') => return Ok(ApprovalOutcome::StopTurn),
            Some('n') => {
                if let Some(reason) = console.edit("feedback for the model (optional)", "")? {
                    return Ok(ApprovalOutcome::Reject(reason.trim().to_owned()));
                }
            }
            Some('e') => {
                if let Some(answer) = edited(console, question)? {
                    return Ok(answer);
                }
            }
            Some('?') => help(console, question)?,
            Some('\u{1a}') => console.suspend()?,
            // Other keys are ignored, without drawing the question again.
            Some(_) | None => continue,
        }
        draw_keys(console, question)?;
    }
}

/// Shows the rule as it would be saved, and asks for confirmation.
fn confirm_rule(
    console: &mut impl ApprovalIo,
    offered: &OfferedRule,
    withdrawn: &AtomicBool,
) -> io::Result<bool> {
    for line in offered.toml.lines() {
        say(console, &visible_text(line), StyleRole::Code)?;
    }
    say(console, &format!("{}  y yes  n no", rule_question(offered)), StyleRole::Strong)?;
    loop {
        let Some(key) = next_key(console, withdrawn)? else { return Ok(false) };
        match letter(key) {
            Some('y') => return Ok(true),
            Some('n' | '\u{3}') => return Ok(false),
            Some(_) | None => {}
        }
    }
}

/// Asks a yes-or-no question.
pub(crate) fn confirm(
    console: &mut impl ApprovalIo,
    question: &str,
    withdrawn: &AtomicBool,
) -> io::Result<ApprovalOutcome> {
    for line in visible_text(question).lines() {
        say(console, line, StyleRole::Strong)?;
    }
    drop_early_keys(console, withdrawn)?;
    say(console, "y yes  n no", StyleRole::Strong)?;
    loop {
        let Some(key) = next_key(console, withdrawn)? else { return Ok(ApprovalOutcome::Withdrawn) };
        match letter(key) {
            Some('\u{3}') => return Ok(ApprovalOutcome::Interrupt),
            Some('y') => return Ok(ApprovalOutcome::Allow),
            Some('n') => return Ok(ApprovalOutcome::Reject(String::new())),
            Some(_) | None => {}
        }
    }
}

fn edited(console: &mut impl ApprovalIo, question: &ApprovalPrompt) -> io::Result<Option<ApprovalOutcome>> {
    let Some(command) = &question.command else {
        say(console, "only commands can be edited; press n to reject with feedback", StyleRole::Dim)?;
        return Ok(None);
    };
    let clean = visible_text(command);
    if clean != *command {
        say(console, "removed invisible characters from the edited command", StyleRole::Warn)?;
    }
    let text = console.edit("command", &clean)?;
    Ok(match text {
        Some(text) if text.trim().is_empty() => {
            say(console, "empty command: not run", StyleRole::Dim)?;
            None
        }
        Some(text) if text != *command => Some(ApprovalOutcome::Edited(text)),
        Some(_) | None => None,
    })
}

/// Draws the proposal, one screen at a time. Returns an outcome if the question ends before the last screen.
fn show(
    console: &mut impl ApprovalIo,
    question: &ApprovalPrompt,
    withdrawn: &AtomicBool,
) -> io::Result<Option<ApprovalOutcome>> {
    let page = console.size().1.saturating_sub(3).max(3);
    let pages = question.rows.len().div_ceil(page);
    for (number, rows) in question.rows.chunks(page).enumerate() {
        for row in rows {
            console.row(row)?;
        }
        if number + 1 == pages {
            break;
        }
        drop_early_keys(console, withdrawn)?;
        let text = format!("page {} of {pages}  space next page  n no", number + 1);
        console.row(&row(&text, StyleRole::Warn))?;
        loop {
            let Some(key) = next_key(console, withdrawn)? else {
                return Ok(Some(ApprovalOutcome::Withdrawn));
            };
            match letter(key) {
                Some('\u{3}') => return Ok(Some(ApprovalOutcome::Interrupt)),
                Some(' ' | '\n') => break console.erase_row()?,
                Some('n') => return Ok(Some(ApprovalOutcome::Reject(String::new()))),
                Some(_) | None => {}
            }
        }
    }
    Ok(None)
}

fn drop_early_keys(console: &mut impl ApprovalIo, withdrawn: &AtomicBool) -> io::Result<()> {
    let mut until = console.now() + GUARD;
    loop {
        let left = until.saturating_sub(console.now());
        if left.is_zero() || withdrawn.load(Ordering::Relaxed) {
            return Ok(());
        }
        if console.key(left)?.is_some() {
            until = console.now() + GUARD;
        }
    }
}

fn next_key(console: &mut impl ApprovalIo, withdrawn: &AtomicBool) -> io::Result<Option<KeyEvent>> {
    while !withdrawn.load(Ordering::Relaxed) {
        if let Some(key) = console.key(LOOK_UP)? {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

fn say(console: &mut impl ApprovalIo, text: &str, role: StyleRole) -> io::Result<()> {
    let columns = console.size().0.saturating_sub(1);
    wrap(&row(text, role), columns, 3).iter().try_for_each(|row| console.row(row))
}

fn draw_keys(console: &mut impl ApprovalIo, question: &ApprovalPrompt) -> io::Result<()> {
    let edit = if question.command.is_some() { "e edit  " } else { "" };
    let session = if question.covers.is_empty() { "" } else { "a allow for session  " };
    let always = if question.rule.is_some() { "A always  " } else { "" };
    let text = format!("Run it?  y yes  n no  {edit}{session}{always}s stop  ? help");
    say(console, &text, StyleRole::Strong)
}

fn help(console: &mut impl ApprovalIo, question: &ApprovalPrompt) -> io::Result<()> {
    let lines = [
        "y  Run once, exactly as shown".to_owned(),
        match question.covers.as_str() {
            "" => format!("a  {ONCE_ONLY}"),
            covers => format!("a  Run, and allow for this session: {covers}"),
        },
        match &question.rule {
            Some(_) => "A  Always allow this exact command (shows the rule)".to_owned(),
            None => format!("A  {}", question.no_rule),
        },
        "e  Edit the command; its effect is shown before it runs".to_owned(),
        "n  Reject, with optional feedback".to_owned(),
        "s  Reject and stop the turn (Ctrl+C)".to_owned(),
    ];
    for line in lines {
        say(console, &line, StyleRole::Dim)?;
    }
    Ok(())
}

/// Converts a character to lowercase, Ctrl+C and Ctrl+Z to their control characters, and Enter to line feed. Returns
/// `None` for other keys.
fn letter(key: KeyEvent) -> Option<char> {
    if key.code == KeyCode::Enter {
        return Some('\n');
    }
    let KeyCode::Char(c) = key.code else { return None };
    match c {
        'c' if key.modifiers.contains(KeyModifiers::CONTROL) => return Some('\u{3}'),
        'z' if key.modifiers.contains(KeyModifiers::CONTROL) => return Some('\u{1a}'),
        _ => {}
    }
    (key.modifiers - KeyModifiers::SHIFT).is_empty().then(|| c.to_ascii_lowercase())
}

/// The user's terminal. Reads keys and draws on standard error, so that standard output is left for the answer.
pub(crate) struct TtyApprovalIo {
    started: std::time::Instant,
    color: bool,
}

impl TtyApprovalIo {
    /// Switches the terminal to raw mode until the value is dropped.
    pub(crate) fn new(color: bool) -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        // A paste then arrives as a single event that answers nothing.
        crossterm::execute!(io::stderr(), EnableBracketedPaste)?;
        Ok(Self { started: std::time::Instant::now(), color })
    }
}

impl Drop for TtyApprovalIo {
    fn drop(&mut self) {
        // The terminal may be gone; the error cannot be reported.
        let _ = crossterm::execute!(io::stderr(), DisableBracketedPaste);
        let _ = terminal::disable_raw_mode();
    }
}

impl ApprovalIo for TtyApprovalIo {
    fn key(&mut self, wait: Duration) -> io::Result<Option<KeyEvent>> {
        if !event::poll(wait)? {
            return Ok(None);
        }
        Ok(match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => Some(key),
            // A paste is not an answer, but it counts as type-ahead.
            Event::Paste(_) => Some(KeyEvent::new(KeyCode::Null, KeyModifiers::NONE)),
            Event::Key(_) | Event::Resize(..) | Event::Mouse(_) | Event::FocusGained | Event::FocusLost => {
                None
            }
        })
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn row(&mut self, row: &TextRow) -> io::Result<()> {
        write!(io::stderr(), "{}\r\n", paint::row(row, self.color))
    }

    fn size(&self) -> (usize, usize) {
        terminal_size()
    }

    fn erase_row(&mut self) -> io::Result<()> {
        write!(io::stderr(), "\u{1b}[1A\r\u{1b}[J")
    }

    fn suspend(&mut self) -> io::Result<()> {
        crossterm::execute!(io::stderr(), DisableBracketedPaste)?;
        terminal::disable_raw_mode()?;
        suspend()?;
        terminal::enable_raw_mode()?;
        crossterm::execute!(io::stderr(), EnableBracketedPaste)
    }

    fn edit(&mut self, label: &str, text: &str) -> io::Result<Option<String>> {
        let edited = edit_once(label, text, self.color);
        // The editor disables both raw mode and bracketed paste.
        terminal::enable_raw_mode()?;
        crossterm::execute!(io::stderr(), EnableBracketedPaste)?;
        edited
    }
}
