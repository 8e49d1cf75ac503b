//! Approval question on a terminal, answered with single keys.
//!
//! A key counts only if it was pressed after the question appeared. First, the proposal is drawn. Then all
//! pending keys are discarded, as is every key pressed within `GUARD`; each such key restarts that period.
//! Only then is the question drawn and a key accepted. So keys typed ahead for the next prompt never approve a
//! command. A proposal longer than the screen is shown page by page before the question; what is typed at a page counts
//! as at the question, but nothing is allowed before its last page.
//!
//! A letter counts only if no other letter follows it within `SETTLE`: a user who types a sentence at the question
//! wants to say something, so the sentence becomes feedback. Its first letter may be `y`, so a dangerous command needs
//! `Y` and Enter, however slowly the user types. A `/command` or `!command` is no feedback.

mod pager;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{
    self, DisableBracketedPaste, EnableBracketedPaste, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers,
};
use crossterm::terminal;
use parking_lot::Mutex;
use sysop_core::event::Origin;
use sysop_core::policy::RiskClass;
use sysop_core::text::visible_text;
use sysop_core::transcript::{Proposal, Transcript};
use sysop_core::ui_text::RULE_SCOPE;
use sysop_driver::frontend::OfferedRule;
use sysop_term::command::is_command_word;
use sysop_term::diff::FileEdit;
use sysop_term::{StyleRole, TextRow, paint};

use self::pager::{PageKey, Pager};
use super::editor::{edit_once, suspend};
use crate::render::{row, terminal_size, words, wrap};

/// Period after a proposal has been drawn during which keys are ignored.
pub(crate) const GUARD: Duration = Duration::from_millis(300);
/// Period after a letter within which another one makes both the beginning of a text.
pub(crate) const SETTLE: Duration = Duration::from_millis(400);
/// Silence after a text that answers nothing, before a key counts again.
const TEXT_GUARD: Duration = Duration::from_secs(1);
/// Interval for checking whether a pending question has been answered elsewhere.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Question about a call.
pub(crate) const RUN: &str = "Run it?";
/// Question about an edit of a file.
pub(crate) const APPLY: &str = "Apply it?";
/// Message for a call that can only be allowed once.
pub(crate) const ONCE_ONLY: &str = "this kind of command can only be allowed once";
/// Message for a key that allows a call before all of it was shown.
const READ_FIRST: &str = "not at the end yet: press q to show the rest and the question";
/// Message for Esc and Ctrl+D, which other programs take for a cancellation.
const HOW_TO_REJECT: &str = "nothing has run; press n to reject it, or s (Ctrl+C) to stop the turn";
/// Message for `y` at a dangerous command.
const CAPITAL_Y: &str = "dangerous: press Y (Shift+y), then Enter, to run it";

/// Lowercase letters that are keys at a question or at a page.
const KEYS: &str = "yaensbq";

/// Message for Ctrl+P.
const PAUSE_LATER: &str = "answer first; the turn can be paused after that";

/// Returns the message for a line that would be a command at the prompt.
pub(crate) fn answer_first(line: &str) -> &'static str {
    match line.split_whitespace().next() {
        Some("/stop" | "/exit" | "/quit") => "answer first: s stops the turn",
        _ => "answer first; /commands work at the prompt",
    }
}

/// Returns true for a line that the prompt would take for a command.
pub(crate) fn is_command_line(line: &str) -> bool {
    let word = line.split_whitespace().next().unwrap_or_default();
    word.starts_with('!') || is_command_word(word)
}

/// Returns the question that the user must answer before a rule is saved.
pub(crate) fn rule_question(offered: &OfferedRule) -> String {
    let file = visible_text(&offered.file);
    format!("{RULE_SCOPE}\nSave this rule to {file} and run the command?")
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
    /// First words of the question.
    pub(crate) ask: &'static str,
    /// Rows of the proposal, already laid out.
    pub(crate) rows: Vec<TextRow>,
    /// Command of the call, if it can be edited.
    pub(crate) command: Option<String>,
    /// True if the call needs more than a single key.
    pub(crate) is_dangerous: bool,
    /// Description of the session grant; empty if the call can be allowed only once.
    pub(crate) covers: String,
    /// Rule that "always" would save, or `None` if no rule is possible.
    pub(crate) rule: Option<OfferedRule>,
    /// Sentence that says why no rule is possible.
    pub(crate) no_rule: &'static str,
    /// Effect of the call, if it becomes known while the question is open.
    pub(crate) late_effect: LateEffect,
    pub(crate) text_use: TextUse,
}

/// Use of a text with which a user rejects a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextUse {
    /// The model that proposed the call gets it.
    Feedback,
    /// No model waits for an answer: the text is recorded and goes to the input, from which the user can send it.
    Draft,
    /// It is only recorded.
    Record,
}

impl TextUse {
    /// Returns the words for a line that says what Enter does with the text, and the label of the text.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Feedback => ("reject with this text", "feedback for the model"),
            Self::Draft => ("reject and take this text to the input", "text for the input"),
            Self::Record => ("reject with this text", "reason"),
        }
    }

    /// Returns the line of the help about other text.
    fn help(self, subject: &str) -> String {
        match self {
            Self::Feedback => format!("Any other text is feedback; Enter rejects the {subject} with it"),
            Self::Draft => format!("Any other text goes to the input; Enter rejects the {subject}"),
            Self::Record => format!("Any other text is a reason; Enter rejects the {subject} with it"),
        }
    }
}

/// Lines about the effect of a call that were not known when its question was drawn.
#[derive(Debug, Clone, Default)]
pub(crate) struct LateEffect(Arc<Mutex<Vec<String>>>);

impl LateEffect {
    /// Lets the open question show these lines.
    pub(crate) fn show(&self, lines: Vec<String>) {
        self.0.lock().extend(lines);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl ApprovalPrompt {
    /// Creates the question about a proposal that is laid out as `rows`.
    pub(crate) fn new(rows: Vec<TextRow>, plan: &Proposal, transcript: &Transcript) -> Self {
        let ask = if FileEdit::of(&plan.call).is_some() { APPLY } else { RUN };
        Self {
            ask,
            rows,
            command: plan.call.text_argument("command").map(|_| plan.command.clone()),
            is_dangerous: matches!(plan.risk.class, RiskClass::Dangerous | RiskClass::Lockout),
            covers: words::session_scope(plan),
            rule: None,
            no_rule: words::no_rule_reason(plan, transcript),
            late_effect: LateEffect::default(),
            text_use: match plan.origin {
                Origin::Model | Origin::McpClient => TextUse::Feedback,
                Origin::User | Origin::Routine | Origin::Plan => TextUse::Record,
            },
        }
    }

    /// Returns the word for what would be allowed.
    fn subject(&self) -> &'static str {
        match (self.ask == APPLY, &self.command) {
            (true, _) => "change",
            (false, Some(_)) => "command",
            (false, None) => "call",
        }
    }

    /// Returns the question for an answer that is read as a line.
    pub(crate) fn line_question(&self) -> String {
        let edit = if self.command.is_some() { "/e" } else { "" };
        let session = if self.covers.is_empty() { "" } else { "/a" };
        let always = if self.rule.is_some() { "/A" } else { "" };
        // A capital in a list of answers would mean that Enter stands for it.
        let choice = if self.is_dangerous { "type Y to run, or n" } else { "y/n" };
        format!("{} [{choice}{edit}{session}{always}/s] ", self.ask)
    }
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

/// Input at a question.
#[derive(Debug, PartialEq, Eq)]
enum QuestionInput {
    /// A letter that no other one followed.
    Letter(char),
    /// A letter and Enter.
    EnteredLetter(char),
    /// The beginning of a text.
    Text(String),
    /// A key that turns a page.
    Page(PageKey),
    /// Esc or Ctrl+D.
    Escape,
    /// Another key without a character, also one that took back the letter before it.
    OtherKey,
    /// Ctrl+C.
    Interrupt,
    /// Ctrl+Z.
    Suspend,
    /// Ctrl+P.
    Pause,
    Withdrawn,
}

/// Effect of an input at a question.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one value at a time, and it lives until the next key"
)]
enum QuestionStep {
    Answer(ApprovalOutcome),
    /// The question must be drawn again.
    Ask,
    /// The proposal must be drawn again, because the user has seen another command since.
    ShowAgain,
    Nothing,
}

impl From<Option<ApprovalOutcome>> for QuestionStep {
    fn from(answer: Option<ApprovalOutcome>) -> Self {
        answer.map_or(Self::Ask, Self::Answer)
    }
}

/// Asks the user until they answer or `withdrawn` is set.
pub(crate) fn ask(
    console: &mut impl ApprovalIo,
    question: &ApprovalPrompt,
    withdrawn: &AtomicBool,
) -> io::Result<ApprovalOutcome> {
    let mut pager = Pager::new(console, question);
    let mut step = QuestionStep::ShowAgain;
    loop {
        match step {
            QuestionStep::Answer(answer) => return Ok(answer),
            QuestionStep::Ask => pager.draw_keys(console)?,
            QuestionStep::ShowAgain => pager.draw(console, withdrawn)?,
            QuestionStep::Nothing => {}
        }
        let typed = match first_key(console, &pager, question, withdrawn)? {
            Some(key) => input_of(console, key, withdrawn)?,
            None => QuestionInput::Withdrawn,
        };
        step = match pager.turn(console, &typed)? {
            Some(step) => step,
            None if !pager.is_at_question() && may_allow(&typed) => {
                say(console, READ_FIRST, StyleRole::Warn)?;
                QuestionStep::Ask
            }
            None => handle_input(console, &pager, question, typed, withdrawn)?,
        };
    }
}

/// Returns true for a letter that can allow the call.
fn may_allow(typed: &QuestionInput) -> bool {
    matches!(
        typed,
        QuestionInput::Letter('y' | 'Y' | 'a' | 'A') | QuestionInput::EnteredLetter('y' | 'Y' | 'a' | 'A')
    )
}

fn handle_input(
    console: &mut impl ApprovalIo,
    pager: &Pager<'_>,
    question: &ApprovalPrompt,
    typed: QuestionInput,
    withdrawn: &AtomicBool,
) -> io::Result<QuestionStep> {
    let is_entered = matches!(typed, QuestionInput::EnteredLetter(_));
    let letter = match typed {
        QuestionInput::Letter(letter) | QuestionInput::EnteredLetter(letter) => letter,
        QuestionInput::Text(text) => return Ok(message(console, question, &text)?.into()),
        QuestionInput::Page(_) | QuestionInput::OtherKey => return Ok(QuestionStep::Nothing),
        QuestionInput::Escape => {
            say(console, HOW_TO_REJECT, StyleRole::Dim)?;
            return Ok(QuestionStep::Ask);
        }
        QuestionInput::Interrupt => return Ok(QuestionStep::Answer(ApprovalOutcome::Interrupt)),
        QuestionInput::Suspend => {
            console.suspend()?;
            return Ok(QuestionStep::Ask);
        }
        QuestionInput::Pause => {
            say(console, PAUSE_LATER, StyleRole::Warn)?;
            return Ok(QuestionStep::Ask);
        }
        QuestionInput::Withdrawn => return Ok(QuestionStep::Answer(ApprovalOutcome::Withdrawn)),
    };
    match letter {
        'Y' if question.is_dangerous && is_entered => {
            return Ok(QuestionStep::Answer(ApprovalOutcome::Allow));
        }
        'Y' if question.is_dangerous => return Ok(confirm_dangerous(console, question, withdrawn)?.into()),
        'y' if question.is_dangerous => say(console, CAPITAL_Y, StyleRole::Warn)?,
        'y' | 'Y' => return Ok(QuestionStep::Answer(ApprovalOutcome::Allow)),
        'a' if question.covers.is_empty() => say(console, ONCE_ONLY, StyleRole::Warn)?,
        'a' => return Ok(confirm_session(console, question, withdrawn)?.into()),
        'A' => match &question.rule {
            Some(offered) if confirm_rule(console, offered, withdrawn)? => {
                return Ok(QuestionStep::Answer(ApprovalOutcome::Always(offered.clone())));
            }
            Some(_) => {}
            None => say(console, question.no_rule, StyleRole::Warn)?,
        },
        's' | 'S' => return Ok(QuestionStep::Answer(ApprovalOutcome::StopTurn)),
        'n' | 'N' if is_entered => return Ok(QuestionStep::Answer(ApprovalOutcome::Reject(String::new()))),
        'n' | 'N' => {
            let keys = format!("Enter rejects the {}, Esc returns to the question", question.subject());
            say(console, &keys, StyleRole::Dim)?;
            let (_, label) = question.text_use.words();
            let reason = console.edit(&format!("{label} (optional)"), "")?;
            return Ok(reason.map(|reason| ApprovalOutcome::Reject(reason.trim().to_owned())).into());
        }
        'e' | 'E' => return edit_command(console, question),
        '?' => help(console, pager, question)?,
        // Other letters are ignored, without drawing the question again.
        _ => return Ok(QuestionStep::Nothing),
    }
    Ok(QuestionStep::Ask)
}

/// Lets the user continue a text that they began to type at the question. It rejects the call, unless it is an answer.
fn message(
    console: &mut impl ApprovalIo,
    question: &ApprovalPrompt,
    text: &str,
) -> io::Result<Option<ApprovalOutcome>> {
    let (effect, label) = question.text_use.words();
    say(console, &format!("Enter: {effect}, Esc: back"), StyleRole::Dim)?;
    let Some(text) = console.edit(label, text)? else { return Ok(None) };
    let text = text.trim();
    if is_command_line(text) {
        say(console, answer_first(text), StyleRole::Warn)?;
        return Ok(None);
    }
    Ok(match text.to_lowercase().as_str() {
        "y" | "yes" if question.is_dangerous && text != "Y" => {
            say(console, CAPITAL_Y, StyleRole::Warn)?;
            None
        }
        "y" | "yes" => Some(ApprovalOutcome::Allow),
        "no" | "n" => Some(ApprovalOutcome::Reject(String::new())),
        "stop" | "s" => Some(ApprovalOutcome::StopTurn),
        // What is left of a text that the user deleted.
        lower if lower.chars().count() < 2 => None,
        _ => Some(ApprovalOutcome::Reject(text.to_owned())),
    })
}

/// Waits for the Enter after the `Y` that runs a dangerous command.
fn confirm_dangerous(
    console: &mut impl ApprovalIo,
    question: &ApprovalPrompt,
    withdrawn: &AtomicBool,
) -> io::Result<Option<ApprovalOutcome>> {
    say(console, "dangerous: press Enter to run it; Esc returns to the question", StyleRole::Warn)?;
    Ok(match continue_input(console, 'Y', Duration::MAX, withdrawn)? {
        QuestionInput::EnteredLetter(_) => Some(ApprovalOutcome::Allow),
        QuestionInput::Text(text) => message(console, question, &text)?,
        QuestionInput::Interrupt => Some(ApprovalOutcome::Interrupt),
        QuestionInput::Withdrawn => Some(ApprovalOutcome::Withdrawn),
        QuestionInput::Letter(_)
        | QuestionInput::Page(_)
        | QuestionInput::Escape
        | QuestionInput::OtherKey
        | QuestionInput::Pause
        | QuestionInput::Suspend => None,
    })
}

/// Asks for the second `a`. Any other key returns to the question.
fn confirm_session(
    console: &mut impl ApprovalIo,
    question: &ApprovalPrompt,
    withdrawn: &AtomicBool,
) -> io::Result<Option<ApprovalOutcome>> {
    // A key that is held down repeats itself.
    drop_early_keys(console, GUARD, withdrawn)?;
    let text = format!("press a again to allow it for this session: {}", question.covers);
    say(console, &text, StyleRole::Strong)?;
    Ok(match next_input(console, withdrawn)? {
        QuestionInput::Letter('a') | QuestionInput::EnteredLetter('a') => Some(ApprovalOutcome::AllowSession),
        QuestionInput::Text(text) => message(console, question, &text)?,
        // The `a` was the beginning of a text.
        QuestionInput::Letter(letter) if letter.is_lowercase() && !KEYS.contains(letter) => {
            message(console, question, &format!("a{letter}"))?
        }
        QuestionInput::Interrupt => Some(ApprovalOutcome::Interrupt),
        QuestionInput::Withdrawn => Some(ApprovalOutcome::Withdrawn),
        QuestionInput::Letter(_)
        | QuestionInput::EnteredLetter(_)
        | QuestionInput::Page(_)
        | QuestionInput::Escape
        | QuestionInput::OtherKey
        | QuestionInput::Pause
        | QuestionInput::Suspend => None,
    })
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
    let question = rule_question(offered);
    Ok(confirm(console, &question, withdrawn)? == ApprovalOutcome::Allow)
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
    drop_early_keys(console, GUARD, withdrawn)?;
    say(console, "y yes  n no", StyleRole::Strong)?;
    loop {
        match next_input(console, withdrawn)? {
            QuestionInput::Letter('y' | 'Y') | QuestionInput::EnteredLetter('y' | 'Y') => {
                return Ok(ApprovalOutcome::Allow);
            }
            QuestionInput::Letter('n' | 'N') | QuestionInput::EnteredLetter('n' | 'N') => {
                return Ok(ApprovalOutcome::Reject(String::new()));
            }
            QuestionInput::Interrupt => return Ok(ApprovalOutcome::Interrupt),
            QuestionInput::Withdrawn => return Ok(ApprovalOutcome::Withdrawn),
            QuestionInput::Text(_) => {
                // The rest of the text must not answer.
                drop_early_keys(console, TEXT_GUARD, withdrawn)?;
                say(console, "y yes  n no", StyleRole::Strong)?;
            }
            QuestionInput::Letter(_)
            | QuestionInput::EnteredLetter(_)
            | QuestionInput::Page(_)
            | QuestionInput::Escape
            | QuestionInput::OtherKey
            | QuestionInput::Pause
            | QuestionInput::Suspend => {}
        }
    }
}

fn edit_command(console: &mut impl ApprovalIo, question: &ApprovalPrompt) -> io::Result<QuestionStep> {
    let Some(command) = &question.command else {
        say(console, "only commands can be edited; press n to reject with feedback", StyleRole::Dim)?;
        return Ok(QuestionStep::Ask);
    };
    let clean = visible_text(command);
    if clean != *command {
        say(console, "removed invisible characters from the edited command", StyleRole::Warn)?;
    }
    say(console, "Enter shows the effect before it runs, Esc discards the edit", StyleRole::Dim)?;
    let told = match console.edit("command", &clean)? {
        Some(text) if text.trim().is_empty() => "empty command: not run",
        Some(text) if text != *command => return Ok(QuestionStep::Answer(ApprovalOutcome::Edited(text))),
        Some(_) => "the command is unchanged",
        None => "edit discarded",
    };
    say(console, told, StyleRole::Dim)?;
    Ok(QuestionStep::ShowAgain)
}

/// Discards keys until none was pressed for `quiet`.
fn drop_early_keys(console: &mut impl ApprovalIo, quiet: Duration, withdrawn: &AtomicBool) -> io::Result<()> {
    let mut until = console.now() + quiet;
    loop {
        let left = until.saturating_sub(console.now());
        if left.is_zero() || withdrawn.load(Ordering::Relaxed) {
            return Ok(());
        }
        if console.key(left)?.is_some() {
            until = console.now() + quiet;
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

/// Returns the next key at the question. Meanwhile, shows an effect that becomes known.
fn first_key(
    console: &mut impl ApprovalIo,
    pager: &Pager<'_>,
    question: &ApprovalPrompt,
    withdrawn: &AtomicBool,
) -> io::Result<Option<KeyEvent>> {
    while !withdrawn.load(Ordering::Relaxed) {
        let late = question.late_effect.take();
        late.iter().try_for_each(|line| say(console, line, StyleRole::Dim))?;
        if !late.is_empty() {
            pager.draw_keys(console)?;
        }
        if let Some(key) = console.key(LOOK_UP)? {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

fn next_input(console: &mut impl ApprovalIo, withdrawn: &AtomicBool) -> io::Result<QuestionInput> {
    let Some(key) = next_key(console, withdrawn)? else { return Ok(QuestionInput::Withdrawn) };
    input_of(console, key, withdrawn)
}

fn input_of(
    console: &mut impl ApprovalIo,
    key: KeyEvent,
    withdrawn: &AtomicBool,
) -> io::Result<QuestionInput> {
    match character(key) {
        Some('\u{3}') => Ok(QuestionInput::Interrupt),
        Some('\u{4}') => Ok(QuestionInput::Escape),
        Some('\u{1a}') => Ok(QuestionInput::Suspend),
        Some('\u{10}') => Ok(QuestionInput::Pause),
        Some(' ' | '\n') => Ok(QuestionInput::Page(PageKey::Next)),
        Some(c) if !c.is_control() => continue_input(console, c, SETTLE, withdrawn),
        Some(_) | None => Ok(named_key(key.code)),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "no other key has a meaning at a question")]
fn named_key(code: KeyCode) -> QuestionInput {
    match code {
        KeyCode::PageDown => QuestionInput::Page(PageKey::Next),
        KeyCode::PageUp => QuestionInput::Page(PageKey::Back),
        KeyCode::Home => QuestionInput::Page(PageKey::First),
        KeyCode::End => QuestionInput::Page(PageKey::Rest),
        KeyCode::Esc => QuestionInput::Escape,
        _ => QuestionInput::OtherKey,
    }
}

/// Reads the keys that follow the character `first`, each within `settle` of the one before.
fn continue_input(
    console: &mut impl ApprovalIo,
    first: char,
    settle: Duration,
    withdrawn: &AtomicBool,
) -> io::Result<QuestionInput> {
    let mut text = String::from(first);
    let mut until = console.now().saturating_add(settle);
    while !withdrawn.load(Ordering::Relaxed) {
        let left = until.saturating_sub(console.now());
        if left.is_zero() {
            return Ok(QuestionInput::Letter(first));
        }
        let Some(key) = console.key(left.min(LOOK_UP))? else { continue };
        match character(key) {
            Some('\u{3}') => return Ok(QuestionInput::Interrupt),
            Some('\n') => return Ok(QuestionInput::EnteredLetter(first)),
            Some(c) if !c.is_control() => {
                text.push(c);
                // A key that is held down repeats itself.
                if c != first {
                    return Ok(QuestionInput::Text(text));
                }
                until = console.now().saturating_add(settle);
            }
            Some(_) | None => return Ok(QuestionInput::OtherKey),
        }
    }
    Ok(QuestionInput::Withdrawn)
}

fn say(console: &mut impl ApprovalIo, text: &str, role: StyleRole) -> io::Result<()> {
    let columns = console.size().0.saturating_sub(1);
    wrap(&row(text, role), columns, 3).iter().try_for_each(|row| console.row(row))
}

fn draw_question(console: &mut impl ApprovalIo, question: &ApprovalPrompt) -> io::Result<()> {
    let edit = if question.command.is_some() { "e edit  " } else { "" };
    let session = if question.covers.is_empty() { "" } else { "a allow for session  " };
    let always = if question.rule.is_some() { "A always  " } else { "" };
    let yes = if question.is_dangerous { "Y, Enter: run" } else { "y yes" };
    let ask = question.ask;
    let text = format!("{ask}  {yes}  n no  {edit}{session}{always}s stop  ? help");
    say(console, &text, StyleRole::Strong)
}

fn help(console: &mut impl ApprovalIo, pager: &Pager<'_>, question: &ApprovalPrompt) -> io::Result<()> {
    if pager.has_pages() {
        say(console, "Space  Next page; b  Previous page; q  The rest and the question", StyleRole::Dim)?;
    }
    let lines = [
        match question.is_dangerous {
            true => "Y  Run once, exactly as shown; a dangerous command also needs Enter",
            false => "y  Run once, exactly as shown",
        }
        .to_owned(),
        match question.covers.as_str() {
            "" => format!("a  {ONCE_ONLY}"),
            covers => format!("a  Run, and allow for this session: {covers}"),
        },
        match &question.rule {
            Some(_) => "A  Always allow this exact command (shows the rule)".to_owned(),
            None => {
                let why = question.no_rule.strip_prefix("no rule possible: ").unwrap_or(question.no_rule);
                format!("A  Not available: {why}")
            }
        },
        "e  Edit the command; its effect is shown before it runs".to_owned(),
        match question.text_use {
            TextUse::Feedback => "n  Reject, with optional feedback".to_owned(),
            TextUse::Draft => "n  Reject, with optional text for the input".to_owned(),
            TextUse::Record => "n  Reject, with an optional reason".to_owned(),
        },
        "s  Reject and stop the turn (Ctrl+C)".to_owned(),
        question.text_use.help(question.subject()),
    ];
    for line in lines {
        say(console, &line, StyleRole::Dim)?;
    }
    Ok(())
}

/// Returns the character of a key: control characters for Ctrl+C, Ctrl+D, Ctrl+P and Ctrl+Z, line feed for Enter,
/// `None` for a key without one.
fn character(key: KeyEvent) -> Option<char> {
    if key.code == KeyCode::Enter {
        return Some('\n');
    }
    let KeyCode::Char(c) = key.code else { return None };
    match c {
        'c' if key.modifiers.contains(KeyModifiers::CONTROL) => return Some('\u{3}'),
        'd' if key.modifiers.contains(KeyModifiers::CONTROL) => return Some('\u{4}'),
        'p' if key.modifiers.contains(KeyModifiers::CONTROL) => return Some('\u{10}'),
        'z' if key.modifiers.contains(KeyModifiers::CONTROL) => return Some('\u{1a}'),
        _ => {}
    }
    (key.modifiers - KeyModifiers::SHIFT).is_empty().then_some(c)
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
