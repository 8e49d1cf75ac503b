//! Line editor with history, command completion, hints, multiple lines and sanitized pastes.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use reedline::{
    AbbrExpandContext, Color, ColumnarMenu, Completer, CompletionResult, DefaultHinter, EditCommand,
    EditMode, Emacs, ExternalPrinter, FileBackedHistory, Highlighter, KeyCode, KeyModifiers, Keybindings,
    MenuBuilder, Prompt, PromptEditMode, PromptHistorySearch, PromptHistorySearchStatus, Reedline,
    ReedlineEvent, ReedlineMenu, ReedlineRawEvent, Signal, Span, StyledText, Suggestion, ValidationResult,
    Validator, default_emacs_keybindings,
};
use rustix::process::kill_current_process_group;
use sysop_core::text::visible_text;
use sysop_term::command::completions;

use super::CompletionNames;
use super::pastes::{ExpandedHistory, Pastes};

use crate::render::safe;

const HISTORY_ENTRIES_MAX: usize = 10_000;
const MENU: &str = "commands";
/// Command by which the editor asks its caller to suspend the process.
const SUSPEND: &str = "suspend";
/// Command by which the editor asks its caller to resume a paused turn.
pub(super) const RESUME: &str = "resume";
/// Beginning of a line that is not written to the history file, as in a shell and in the TUI.
pub(super) const PRIVATE: &str = " ";
/// Time within which a process that suspended itself has stopped.
const STOP_WAIT: Duration = Duration::from_millis(50);
/// Sign after the label of a prompt.
const SIGN: &str = "› ";

#[derive(Debug, Clone)]
pub(crate) struct PromptLabel {
    /// Text before the prompt sign, already sanitized. It may change while the line is being edited.
    left: Arc<RwLock<String>>,
    /// Records if the history is being searched.
    drawn: DrawnLine,
}

impl PromptLabel {
    /// Creates a label from sanitized text.
    pub(crate) fn new(left: Arc<RwLock<String>>) -> Self {
        Self { left, drawn: DrawnLine::default() }
    }

    /// Returns the label of an editor that draws its line on `drawn`.
    pub(super) fn drawn_on(&self, drawn: &DrawnLine) -> Self {
        Self { drawn: drawn.clone(), ..self.clone() }
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
        self.drawn.set_search(false);
        Cow::Borrowed(SIGN)
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("· ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        self.drawn.set_search(true);
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

/// Flags that other threads set for the editor.
#[derive(Debug, Clone, Default)]
pub(super) struct EditorFlags {
    /// Ends the reading of a line.
    pub(super) withdrawn: Arc<AtomicBool>,
    /// True while a turn is paused, so that Ctrl+P in an empty line resumes it.
    pub(super) is_paused: Arc<AtomicBool>,
}

/// Creates the editor for prompts and commands. Also returns an error about the history file, if any.
pub(super) fn editor(
    history: Option<&Path>,
    completer: CommandCompleter,
    color: bool,
    printer: ExternalPrinter<String>,
    flags: EditorFlags,
    drawn: DrawnLine,
    pastes: Pastes,
) -> (Reedline, Option<String>) {
    let mut editor = base(key_bindings(), drawn, Some(pastes.clone()), color, flags.is_paused)
        .with_external_printer(printer)
        .with_break_signal(flags.withdrawn)
        .with_completer(Box::new(completer))
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
        Ok(file) => editor = editor.with_history(Box::new(ExpandedHistory { file, pastes })),
        Err(problem) => return (editor, Some(problem)),
    }
    (editor, None)
}

/// Lets the user edit text, of any number of lines, that is not a prompt. Returns `None` if the user cancels with Esc
/// or Ctrl+C.
pub(crate) fn edit_once(label: &str, text: &str, color: bool) -> io::Result<Option<String>> {
    let mut keys = key_bindings();
    keys.add_binding(KeyModifiers::NONE, KeyCode::Esc, ReedlineEvent::CtrlC);
    let mut editor = base(keys, DrawnLine::default(), None, color, Arc::default());
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
    keys.add_binding(
        KeyModifiers::CONTROL,
        KeyCode::Char('j'),
        ReedlineEvent::Edit(vec![EditCommand::InsertNewline]),
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

/// Creates an editor that folds long pastes if `pastes` is set.
fn base(
    keys: Keybindings,
    drawn: DrawnLine,
    pastes: Option<Pastes>,
    color: bool,
    is_paused: Arc<AtomicBool>,
) -> Reedline {
    let mode = ReplEditMode::new(keys, drawn.clone(), pastes, is_paused);
    Reedline::create()
        .with_edit_mode(Box::new(mode))
        .with_highlighter(Box::new(PlainHighlighter(drawn)))
        .with_ansi_colors(color)
        .use_bracketed_paste(true)
        .with_history_exclusion_prefix(Some(PRIVATE.to_owned()))
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

/// Edit mode that removes control characters from pasted text, because the editor would draw them as is. Ctrl+C during
/// a search of the history ends only the search, and Ctrl+P in an empty line resumes a paused turn.
///
/// The editor handles all keys of a batch before a change of the terminal's size, so it would draw the line in its old
/// place, and clear the rows below it. So the change is put before the next key here, also if its event comes later.
struct ReplEditMode {
    emacs: Emacs,
    drawn: DrawnLine,
    pastes: Option<Pastes>,
    is_paused: Arc<AtomicBool>,
    /// Effect of Ctrl+P in any other line.
    earlier_line: ReedlineEvent,
    current_size: fn() -> Option<TerminalCells>,
}

/// Columns and rows of a terminal.
type TerminalCells = (u16, u16);

/// Returns the size of the terminal, if standard output is one.
fn terminal_size() -> Option<TerminalCells> {
    crossterm::terminal::size().ok()
}

impl EditMode for ReplEditMode {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        let event = self.parse_key(event);
        if self.drawn.is_search() {
            return event; // a search takes no list of events
        }
        if let ReedlineEvent::Resize(columns, rows) = event {
            self.drawn.note_size(Some((columns, rows)));
            return ReedlineEvent::Multiple(vec![event]);
        }
        let size = (self.current_size)();
        let known = self.drawn.note_size(size);
        match size.filter(|_| known.is_some() && known != size) {
            Some((columns, rows)) => {
                ReedlineEvent::Multiple(vec![ReedlineEvent::Resize(columns, rows), event])
            }
            None => event,
        }
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.emacs.edit_mode()
    }
}

impl ReplEditMode {
    fn parse_key(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        let event = self.emacs.parse_event(event);
        if event == ReedlineEvent::CtrlC && self.drawn.is_search() {
            return ReedlineEvent::Esc;
        }
        if matches!(&event, ReedlineEvent::ExecuteHostCommand(command) if command == RESUME) {
            let resumes = self.is_paused.load(Ordering::Relaxed) && self.drawn.is_empty();
            return if resumes { event } else { self.earlier_line.clone() };
        }
        let ReedlineEvent::Edit(commands) = event else { return event };
        ReedlineEvent::Edit(commands.into_iter().map(|command| self.fold(sanitize_edit(command))).collect())
    }

    fn new(
        mut keys: Keybindings,
        drawn: DrawnLine,
        pastes: Option<Pastes>,
        is_paused: Arc<AtomicBool>,
    ) -> Self {
        let (modifier, key) = (KeyModifiers::CONTROL, KeyCode::Char('p'));
        let earlier_line = keys.find_binding(modifier, key).unwrap_or(ReedlineEvent::Up);
        keys.add_binding(modifier, key, ReedlineEvent::ExecuteHostCommand(RESUME.to_owned()));
        let emacs = Emacs::new(keys);
        Self { emacs, drawn, pastes, is_paused, earlier_line, current_size: terminal_size }
    }

    /// Replaces a long paste by its sign.
    fn fold(&self, command: EditCommand) -> EditCommand {
        match (command, &self.pastes) {
            (EditCommand::InsertString(text), Some(pastes)) => EditCommand::InsertString(pastes.fold(text)),
            (command, _) => command,
        }
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

/// The line as the editor drew it last. Ctrl+C clears the editor's own line before its caller learns of the key.
#[derive(Debug, Clone, Default)]
pub(super) struct DrawnLine(Arc<Mutex<DrawnText>>);

#[derive(Debug, Default)]
struct DrawnText {
    text: String,
    /// True if the line had any text since the last `take`, or its history was searched.
    was_written: bool,
    /// True while the history is being searched.
    is_search: bool,
    /// Size of the terminal for which the line was drawn.
    size: Option<TerminalCells>,
}

impl DrawnLine {
    fn set(&self, line: &str) {
        let mut drawn = self.0.lock();
        line.clone_into(&mut drawn.text);
        drawn.was_written |= !line.is_empty();
    }

    fn set_search(&self, is_search: bool) {
        let mut drawn = self.0.lock();
        drawn.is_search = is_search;
        drawn.was_written |= is_search;
    }

    fn is_empty(&self) -> bool {
        let drawn = self.0.lock();
        drawn.text.is_empty() && !drawn.is_search
    }

    fn is_search(&self) -> bool {
        self.0.lock().is_search
    }

    /// Forgets the last line. The editor learns the size of the terminal when it begins a line.
    pub(super) fn begin(&self) {
        *self.0.lock() = DrawnText { size: terminal_size(), ..DrawnText::default() };
    }

    /// Records the size of the terminal, and returns the one before.
    fn note_size(&self, size: Option<TerminalCells>) -> Option<TerminalCells> {
        std::mem::replace(&mut self.0.lock().size, size)
    }

    /// Returns the line, and whether it had any text since the last call.
    pub(super) fn take(&self) -> (String, bool) {
        let drawn = std::mem::take(&mut *self.0.lock());
        (drawn.text, drawn.was_written)
    }
}

/// Highlighter without colors and without `!` history expansion, because `!` starts a shell command here.
struct PlainHighlighter(DrawnLine);

impl Highlighter for PlainHighlighter {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        self.0.set(line);
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
        if ends_with_continuation(line) { ValidationResult::Incomplete } else { ValidationResult::Complete }
    }
}

/// Returns true if the text ends with a backslash that continues the line.
pub(super) fn ends_with_continuation(text: &str) -> bool {
    let backslashes = text.len() - text.trim_end_matches('\\').len();
    backslashes % 2 == 1
}

/// Returns the paths under the session's root that match a word. Blocks its caller until they are known.
pub(super) type PathCompleter = Box<dyn Fn(&str) -> Vec<String> + Send>;

/// Completes commands, their arguments, and words that start with `@`.
pub(super) struct CommandCompleter {
    known: Arc<RwLock<CompletionNames>>,
    paths: PathCompleter,
}

impl CommandCompleter {
    pub(super) fn new(known: Arc<RwLock<CompletionNames>>, paths: PathCompleter) -> Self {
        Self { known, paths }
    }

    /// Returns the completions for the last word of `line`, each with a description.
    fn matches(&self, line: &str, word: &str) -> Vec<(String, String)> {
        let Some(path) = word.strip_prefix('@') else { return completions(line, &self.known.read()) };
        // The editor draws names as they are.
        let drawable = |path: &String| visible_text(path) == *path;
        let paths = (self.paths)(path).into_iter().filter(drawable);
        paths.map(|path| (format!("@{path}"), String::new())).collect()
    }
}

impl Completer for CommandCompleter {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let line = &line[..position];
        let start = line.rfind([' ', '\t', '\n']).map_or(0, |at| at + 1);
        let suggestion = |value: String, description: String| Suggestion {
            append_whitespace: !value.ends_with('/'),
            value,
            description: Some(description).filter(|text| !text.is_empty()),
            span: Span::new(start, position),
            ..Suggestion::default()
        };
        let mut suggestions: Vec<Suggestion> = self
            .matches(line, &line[start..])
            .into_iter()
            .map(|(value, description)| suggestion(value, description))
            .collect();
        // For an empty list, the menu would say `NO RECORDS FOUND`. A single suggestion is inserted without a menu.
        if suggestions.is_empty() {
            let unchanged = suggestion(line[start..].to_owned(), String::new());
            suggestions.push(Suggestion { append_whitespace: false, ..unchanged });
        }
        CompletionResult::fresh(suggestions)
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::{Event, KeyEvent};

    use super::*;

    /// Returns the line after the only completion, or the completions if there are several.
    fn completed(line: &str) -> Result<String, Vec<String>> {
        let names =
            CompletionNames { hosts: vec![("web1".into(), "The server".into())], ..Default::default() };
        let paths = |word: &str| {
            let all = ["notes.txt", "nginx/", "nginx/site.conf", "bad\u{1b}[2Jname"];
            all.iter().filter(|path| path.starts_with(word)).map(|path| (*path).to_owned()).collect()
        };
        let mut completer = CommandCompleter::new(Arc::new(RwLock::new(names)), Box::new(paths));
        let CompletionResult::Fresh { suggestions, .. } = completer.complete(line, line.len()) else {
            panic!("the completions are not complete")
        };
        let values: Vec<String> = suggestions.iter().map(|it| it.value.clone()).collect();
        let [only] = values.as_slice() else { return Err(values) };
        let space = if suggestions[0].append_whitespace { " " } else { "" };
        Ok(format!("{}{only}{space}", &line[..suggestions[0].span.start]))
    }

    #[test]
    fn a_word_after_an_at_sign_is_completed_from_the_paths_of_the_session() {
        assert_eq!(completed("compare @no"), Ok("compare @notes.txt ".to_owned()));
        assert_eq!(completed("compare @nginx/s"), Ok("compare @nginx/site.conf ".to_owned()));
        assert_eq!(
            completed("first\n@n"),
            Err(vec!["@notes.txt".into(), "@nginx/".into(), "@nginx/site.conf".into()])
        );
        assert_eq!(
            completed("@bad"),
            Ok("@bad".to_owned()),
            "a name that would change the terminal is not offered"
        );
    }

    #[test]
    fn a_change_of_the_size_stays_before_the_keys_that_follow_it() {
        let drawn = DrawnLine::default();
        let mode = ReplEditMode::new(key_bindings(), drawn.clone(), None, Arc::default());
        let mut mode = ReplEditMode { current_size: || Some((45, 20)), ..mode };
        let key = || Event::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE)).try_into().unwrap();
        let resize = |columns, rows| Event::Resize(columns, rows).try_into().unwrap();
        assert_eq!(mode.parse_event(key()), ReedlineEvent::Enter, "the line began at this size");
        drawn.note_size(Some((100, 30)));
        let before_key = vec![ReedlineEvent::Resize(45, 20), ReedlineEvent::Enter];
        assert_eq!(mode.parse_event(key()), ReedlineEvent::Multiple(before_key));
        assert_eq!(mode.parse_event(key()), ReedlineEvent::Enter);
        let resized = ReedlineEvent::Multiple(vec![ReedlineEvent::Resize(45, 20)]);
        assert_eq!(mode.parse_event(resize(45, 20)), resized);
        drawn.set_search(true);
        assert_eq!(mode.parse_event(resize(60, 20)), ReedlineEvent::Resize(60, 20));
    }

    #[test]
    fn a_word_without_completions_stays_as_it_is() {
        for line in ["hello", "look at @zzz", "/host nowhere", ""] {
            assert_eq!(completed(line), Ok(line.to_owned()));
        }
        assert_eq!(completed("/host we"), Ok("/host web1 ".to_owned()));
    }
}
