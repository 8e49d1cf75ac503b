//! Line editor with history, command completion, hints, multiple lines and sanitized pastes.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::RwLock;
use reedline::{
    AbbrExpandContext, Color, ColumnarMenu, Completer, CompletionResult, DefaultHinter, EditCommand,
    EditMode, Emacs, ExternalPrinter, FileBackedHistory, Highlighter, KeyCode, KeyModifiers, Keybindings,
    MenuBuilder, Prompt, PromptEditMode, PromptHistorySearch, PromptHistorySearchStatus, Reedline,
    ReedlineEvent, ReedlineMenu, ReedlineRawEvent, Signal, Span, StyledText, Suggestion, ValidationResult,
    Validator, default_emacs_keybindings,
};
use rustix::process::kill_current_process_group;
use sysop_term::command::completions;

use super::CompletionNames;

use crate::render::safe;

const HISTORY_ENTRIES_MAX: usize = 10_000;
const MENU: &str = "commands";
/// Command by which the editor asks its caller to suspend the process.
const SUSPEND: &str = "suspend";
/// Time within which a process that suspended itself has stopped.
const STOP_WAIT: Duration = Duration::from_millis(50);
/// Sign after the label of a prompt.
const SIGN: &str = "› ";

#[derive(Debug, Clone)]
pub(crate) struct PromptLabel {
    /// Text before the prompt sign, already sanitized. It may change while the line is being edited.
    left: Arc<RwLock<String>>,
}

impl PromptLabel {
    /// Creates a label from sanitized text.
    pub(crate) fn new(left: Arc<RwLock<String>>) -> Self {
        Self { left }
    }
}

impl Prompt for PromptLabel {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Owned(self.left.read().clone())
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed(SIGN)
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("· ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let found = match search.status {
            PromptHistorySearchStatus::Passing => "search",
            PromptHistorySearchStatus::Failing => "no match for",
        };
        Cow::Owned(format!("({found}: {}) ", safe(&search.term)))
    }

    fn get_prompt_color(&self) -> Color {
        Color::DarkGray
    }

    fn get_prompt_multiline_color(&self) -> Color {
        Color::DarkGray
    }

    fn get_indicator_color(&self) -> Color {
        Color::Cyan
    }
}

/// Creates the editor for prompts and commands. Also returns an error about the history file, if any.
pub(crate) fn editor(
    history: Option<&Path>,
    known: Arc<RwLock<CompletionNames>>,
    color: bool,
    printer: ExternalPrinter<String>,
    stop: Arc<AtomicBool>,
) -> (Reedline, Option<String>) {
    let mut editor = base(color)
        .with_external_printer(printer)
        .with_break_signal(stop)
        .with_completer(Box::new(CommandCompleter { known }))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(
            ColumnarMenu::default().with_name(MENU).with_marker(SIGN),
        )))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_hinter(Box::new(
            DefaultHinter::default().with_style(Color::DarkGray.normal()).with_min_chars(2),
        ))
        .with_validator(Box::new(BackslashContinuation));
    let Some(path) = history else { return (editor, None) };
    match open_history(path) {
        Ok(history) => editor = editor.with_history(Box::new(history)),
        Err(problem) => return (editor, Some(problem)),
    }
    (editor, None)
}

/// Lets the user edit text, of any number of lines, that is not a prompt. Returns `None` if canceled.
pub(crate) fn edit_once(label: &str, text: &str, color: bool) -> io::Result<Option<String>> {
    let mut editor = base(color);
    editor.run_edit_commands(&[EditCommand::InsertString(text.to_owned())]);
    let label = PromptLabel::new(Arc::new(RwLock::new(format!("{label} "))));
    let Signal::Success(text) = read(&mut editor, &label)? else { return Ok(None) };
    Ok(Some(text))
}

/// Reads a line. Ctrl+Z suspends the process; the line is kept until the process is continued.
pub(super) fn read(editor: &mut Reedline, label: &PromptLabel) -> io::Result<Signal> {
    loop {
        let signal = editor.read_line(label)?;
        if !matches!(&signal, Signal::HostCommand(command) if command == SUSPEND) {
            return Ok(signal);
        }
        suspend()?;
    }
}

/// Suspends the process, as Ctrl+Z does in a shell. The kernel ignores this if no shell could continue the process.
pub(super) fn suspend() -> io::Result<()> {
    kill_current_process_group(rustix::process::Signal::TSTP)?;
    // Another thread may take the signal: this one must not touch the terminal before the process stops.
    std::thread::sleep(STOP_WAIT);
    Ok(())
}

fn key_bindings() -> Keybindings {
    let mut keys = default_emacs_keybindings();
    keys.add_binding(
        KeyModifiers::CONTROL,
        KeyCode::Char('z'),
        ReedlineEvent::ExecuteHostCommand(SUSPEND.to_owned()),
    );
    // Terminals send the same byte for Ctrl+_, Ctrl+/ and Ctrl+7.
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('7'), ReedlineEvent::Edit(vec![EditCommand::Undo]));
    keys.add_binding(
        KeyModifiers::NONE,
        KeyCode::Tab,
        ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext]),
    );
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
    keys
}

fn base(color: bool) -> Reedline {
    Reedline::create()
        .with_edit_mode(Box::new(SanitizedPaste(Emacs::new(key_bindings()))))
        .with_highlighter(Box::new(PlainHighlighter))
        .with_ansi_colors(color)
        .use_bracketed_paste(true)
}

/// Opens the history file, which only its owner can read. The error is one sentence.
fn open_history(path: &Path) -> Result<FileBackedHistory, String> {
    let told = |error: &dyn std::fmt::Display| {
        format!("cannot use the history file {} ({error}); history will not be saved", path.display())
    };
    restrict_to_owner(path).map_err(|error| told(&error))?;
    FileBackedHistory::with_file(HISTORY_ENTRIES_MAX, path.to_owned()).map_err(|error| told(&error))
}

fn restrict_to_owner(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let file = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

/// Edit mode that removes control characters from pasted text, because the editor would draw them as is.
struct SanitizedPaste(Emacs);

impl EditMode for SanitizedPaste {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        let event = self.0.parse_event(event);
        let ReedlineEvent::Edit(commands) = event else { return event };
        ReedlineEvent::Edit(commands.into_iter().map(sanitize_edit).collect())
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.0.edit_mode()
    }
}

fn sanitize_edit(command: EditCommand) -> EditCommand {
    if let EditCommand::InsertString(text) = command {
        return EditCommand::InsertString(sanitize_pasted_text(&text));
    }
    command
}

/// Reduces text to characters that a keyboard could type: removes control characters except line feed and
/// tab, and removes bidirectional and invisible characters.
pub(crate) fn sanitize_pasted_text(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.chars()
        .filter(|c| {
            let hides =
                matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            !hides && (!c.is_control() || *c == '\n' || *c == '\t')
        })
        .collect()
}

/// Highlighter without colors and without `!` history expansion, because `!` starts a shell command here.
struct PlainHighlighter;

impl Highlighter for PlainHighlighter {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        let mut text = StyledText::new();
        text.push((Color::Default.normal(), line.to_owned()));
        text
    }

    fn should_expand_abbr(&self, _line: &str, _cursor: usize, _context: AbbrExpandContext) -> bool {
        false
    }
}

/// Validator for which a backslash at the end continues the line.
struct BackslashContinuation;

impl Validator for BackslashContinuation {
    fn validate(&self, line: &str) -> ValidationResult {
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        if backslashes % 2 == 1 { ValidationResult::Incomplete } else { ValidationResult::Complete }
    }
}

/// Completes words that start with `/`.
struct CommandCompleter {
    known: Arc<RwLock<CompletionNames>>,
}

impl Completer for CommandCompleter {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let start = line[..position].rfind(' ').map_or(0, |at| at + 1);
        let suggestions: Vec<Suggestion> = completions(&line[..position], &self.known.read())
            .into_iter()
            .map(|(value, description)| Suggestion {
                value,
                description: Some(description),
                span: Span::new(start, position),
                append_whitespace: true,
                ..Suggestion::default()
            })
            .collect();
        CompletionResult::fresh(suggestions)
    }
}
