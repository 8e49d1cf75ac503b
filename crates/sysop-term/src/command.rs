//! Parses a line typed by the user. Used by the TUI and the REPL. Pure.

use sysop_core::auto_bounds::AutoBounds;
use sysop_core::effort::Effort;
use sysop_core::id::JobId;
use sysop_core::instructions::INIT_PROMPT;
use sysop_core::mode::Mode;
use sysop_core::policy::ApprovalMode;
use sysop_core::similar_word::edit_distance;
use sysop_core::skill::Skill;
use sysop_core::text::neutralize_line;

use crate::theme::ThemeChoice;

/// Names that can be completed in the session, each with a description.
#[derive(Debug, Clone, Default)]
pub struct CompletionNames {
    /// Skills and custom commands, without the slash.
    pub skills: Vec<(String, String)>,
    pub routines: Vec<(String, String)>,
    pub hosts: Vec<(String, String)>,
}

impl CompletionNames {
    #[must_use]
    pub fn with_skills(self, skills: &[Skill]) -> Self {
        let skills = skills.iter().map(|skill| {
            let what = neutralize_line(&skill.description);
            let what = match &skill.arguments {
                Some(arguments) => format!("{} {what}", neutralize_line(arguments)),
                None => what.into_owned(),
            };
            (skill.name.clone(), what.trim().to_owned())
        });
        Self { skills: skills.collect(), ..self }
    }
}

/// All commands: name, arguments, effect.
pub const COMMANDS: &[(&str, &str, &str)] = &[
    ("/help", "", "Show this help"),
    ("/exit", "", "Quit (Ctrl+D)"),
    ("/clear", "", "Clear the history and the screen"),
    ("/new", "", "Start a new session"),
    ("/resume", "[ID]", "Resume after a pause, or open a past session"),
    ("/model", "[PROVIDER/NAME]", "Show or change the model"),
    ("/approve", "[each|ask|auto|never]", "Show or change the approval mode"),
    ("/auto", "BOUNDS", "Run without asking within bounds, e.g. 20 commands, 30m, $0.50, @lab"),
    ("/effort", "none|minimal|low|medium|high|xhigh", "Set the reasoning effort"),
    ("/compact", "[FOCUS]", "Summarize older messages to free context"),
    ("/status", "", "Show host, model, approval, context and cost of the session"),
    ("/cost", "", "Show model calls, tokens and cost of the session"),
    ("/permissions", "[revoke N|revoke all]", "List or revoke what is allowed for this session"),
    ("/init", "", "Have the model propose an AGENTS.md for this workspace"),
    ("/trust", "", "Give the model this workspace's AGENTS.md"),
    ("/plan", "", "Run the next step proposed in read-only mode"),
    ("/mode", "[agent|chat]", "Show or change the mode: agent (with tools) or chat"),
    ("/host", "[DEST]", "Show the host, or start a session on another one"),
    ("/sessions", "[WORDS]", "Find a past session by its title or text, and resume it"),
    ("/fork", "[TURN]", "Start a new session from an earlier message"),
    ("/export", "[FILE]", "Write the session to a Markdown file"),
    ("/theme", "[NAME]", "Change the theme of the TUI: dark, light, terminal, none, auto"),
    ("/routines", "", "List the routines from the config file"),
    ("/mcp", "", "Show the MCP servers and their tools"),
    ("/run", "NAME [KEY=VALUE…]", "Run a routine"),
    ("/cmd", "COMMAND", "Run a command without the model (same as !COMMAND)"),
    ("/keys", "KEYS", "Send keys to the terminal, e.g. /keys y Enter or /keys Ctrl+C"),
    ("/shell", "", "Open the session's terminal (Ctrl+] to return)"),
    (
        "/undo",
        "[CALL]",
        "Undo the last change (of files: all edits of its turn), or a tool call by its number",
    ),
    ("/output", "[N]", "Show the kept output of the last call, or of a tool call by its number"),
    ("/jobs", "[read ID|stop ID]", "List, read or stop background commands"),
    ("/background", "", "Move the running command to the background"),
    ("/pause", "", "Pause after the current step (Ctrl+P)"),
    ("/stop", "", "Cancel the running or paused turn (Ctrl+C)"),
    ("/retry", "", "Retry the last prompt with an empty history"),
];

/// Message for `/mcp` if the config has no servers.
pub const NO_TOOL_SERVERS: &str = "no MCP servers; add one with `sysop mcp add NAME -- COMMAND`";

/// Subcommand of `/jobs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobsCommand {
    List,
    Read(JobId),
    Stop(JobId),
}

/// Subcommand of `/permissions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionsCommand {
    List,
    /// Revoke the grant with this number, counted from 1.
    Revoke(usize),
    RevokeAll,
}

/// Line typed by the user, parsed as a prompt or a command.
#[derive(Debug, Clone, PartialEq)]
pub enum InputLine {
    Empty,
    Prompt(String),
    /// A command to run verbatim.
    Shell(String),
    Help,
    Exit,
    Clear,
    Compact(Option<String>),
    Cost,
    Status,
    Permissions(PermissionsCommand),
    /// List past sessions, or only those that contain these words.
    Sessions(Option<String>),
    /// Fork before this turn's message; `None` to choose one.
    Fork(Option<u32>),
    /// Export to this file, or to one named after the session.
    Export(Option<String>),
    /// Name of a theme; `None` to choose one.
    Theme(Option<ThemeChoice>),
    Trust,
    New,
    Resume(Option<String>),
    Model(Option<String>),
    Effort(Effort),
    Approve(Option<ApprovalMode>),
    Auto(AutoBounds),
    Plan,
    Mode(Option<Mode>),
    Host(Option<String>),
    Keys(String),
    Routines,
    Mcp,
    Run {
        name: String,
        /// Variables of the routine, by name.
        values: Vec<(String, String)>,
    },
    OpenShell,
    Jobs(JobsCommand),
    Background,
    /// Show the output of the tool call with this number, or of the last call if `None`.
    Output(Option<u32>),
    /// Undo the tool call with this number, or the last change if `None`.
    Undo(Option<u64>),
    Pause,
    Stop,
    Retry,
    /// Invalid line. Holds a sentence that explains the valid form.
    Wrong(String),
}

impl InputLine {
    /// Returns true if the line runs a call without the model, which a session does only while no turn is running.
    pub fn runs_call(&self) -> bool {
        matches!(
            self,
            Self::Shell(_)
                | Self::Undo(_)
                | Self::Keys(_)
                | Self::Run { .. }
                | Self::Plan
                | Self::Jobs(JobsCommand::Read(_))
        )
    }
}

/// Parses a line. `skills` can be invoked by name; built-in commands with the same name take precedence.
///
/// ```
/// use sysop_term::command::{InputLine, parse};
///
/// assert_eq!(parse("!uptime", &[]), InputLine::Shell("uptime".to_owned()));
/// assert_eq!(parse("/help", &[]), InputLine::Help);
/// assert_eq!(parse("why is it slow?", &[]), InputLine::Prompt("why is it slow?".to_owned()));
/// ```
pub fn parse(line: &str, skills: &[Skill]) -> InputLine {
    let text = line.trim();
    if text.is_empty() {
        return InputLine::Empty;
    }
    if let Some(command) = text.strip_prefix('!') {
        return shell(command.trim(), "!COMMAND");
    }
    // The slash of a command is followed only by letters; anything else is a path or a comment.
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let is_command = is_command_word(word);
    let is_skill = word.strip_prefix('/').is_some_and(|name| skills.iter().any(|skill| skill.name == name));
    let parsed = if is_command { command(word, rest.trim()) } else { None };
    match parsed {
        Some(parsed) => parsed,
        None if is_command && !is_skill => InputLine::Wrong(match nearest(word) {
            Some(known) => format!("unknown command {word}; did you mean {known}?"),
            None => format!("unknown command {word}; see /help"),
        }),
        None => InputLine::Prompt(line.trim_end().replace("\\\n", "\n")),
    }
}

/// Returns true for a word that the prompt takes for a command, known or not: a slash and ASCII letters only.
pub fn is_command_word(word: &str) -> bool {
    word.strip_prefix('/').is_some_and(|name| name.chars().all(|c| c.is_ascii_alphabetic()))
}

fn command(word: &str, rest: &str) -> Option<InputLine> {
    let argument = (!rest.is_empty()).then(|| rest.to_owned());
    Some(match word {
        "/help" | "/" => InputLine::Help,
        "/exit" | "/quit" => InputLine::Exit,
        "/clear" => InputLine::Clear,
        "/compact" => InputLine::Compact(argument),
        "/cost" => InputLine::Cost,
        "/status" => InputLine::Status,
        "/permissions" => permissions(rest),
        "/sessions" => InputLine::Sessions(argument),
        "/fork" => fork(rest),
        "/export" => InputLine::Export(argument),
        "/theme" => theme(rest),
        "/init" => InputLine::Prompt(INIT_PROMPT.to_owned()),
        "/trust" => InputLine::Trust,
        "/effort" => match rest.trim().parse() {
            Ok(effort) => InputLine::Effort(effort),
            Err(_) => InputLine::Wrong("use /effort none, minimal, low, medium, high or xhigh".to_owned()),
        },
        "/new" => InputLine::New,
        "/resume" | "/continue" => InputLine::Resume(argument),
        "/model" => InputLine::Model(argument),
        "/approve" => approve(rest),
        "/auto" => auto(rest),
        "/plan" => InputLine::Plan,
        "/mode" => mode(rest),
        "/host" => InputLine::Host(argument),
        "/routines" => InputLine::Routines,
        "/mcp" => InputLine::Mcp,
        "/run" => run(rest),
        "/cmd" => shell(rest, "/cmd COMMAND"),
        "/keys" if rest.is_empty() => {
            InputLine::Wrong("usage: /keys KEYS, e.g. /keys ls Space -la Enter".to_owned())
        }
        "/keys" => InputLine::Keys(rest.to_owned()),
        "/shell" => InputLine::OpenShell,
        "/undo" => undo(rest),
        "/output" => output(rest),
        "/jobs" => jobs(rest),
        "/background" => InputLine::Background,
        "/pause" => InputLine::Pause,
        "/stop" => InputLine::Stop,
        "/retry" => InputLine::Retry,
        _ => return None,
    })
}

fn shell(command: &str, usage: &str) -> InputLine {
    if command.is_empty() {
        return InputLine::Wrong(format!("usage: {usage}"));
    }
    if is_change_of_directory(command) {
        let each = "each command starts in the session's directory";
        return InputLine::Wrong(format!("{each}; use /shell, or !{command} && COMMAND"));
    }
    InputLine::Shell(command.to_owned())
}

/// Returns true for a command that does nothing but change the directory of its own shell.
fn is_change_of_directory(command: &str) -> bool {
    let is_cd = command == "cd" || command.starts_with("cd ");
    is_cd && !command.contains([';', '&', '|', '<', '>', '(', '`', '\n', '#'])
}

fn approve(rest: &str) -> InputLine {
    match (rest, ApprovalMode::from_name(rest)) {
        ("", _) => InputLine::Approve(None),
        (_, Some(mode)) => InputLine::Approve(Some(mode)),
        (other, None) => {
            InputLine::Wrong(format!("unknown approval mode `{other}`; use each, ask, auto or never"))
        }
    }
}

fn auto(rest: &str) -> InputLine {
    if rest.is_empty() {
        let usage =
            "use /auto with bounds, e.g. /auto 20 commands, 30m, $0.50, @lab; /approve auto has no bounds";
        return InputLine::Wrong(usage.to_owned());
    }
    match rest.parse() {
        Ok(bounds) => InputLine::Auto(bounds),
        Err(error) => InputLine::Wrong(error.to_string()),
    }
}

fn undo(rest: &str) -> InputLine {
    match rest.trim() {
        "" => InputLine::Undo(None),
        step => match step.parse() {
            Ok(step) if step > 0 => InputLine::Undo(Some(step)),
            Ok(_) | Err(_) => InputLine::Wrong("usage: /undo [CALL], e.g. /undo 3".to_owned()),
        },
    }
}

fn output(rest: &str) -> InputLine {
    match rest.trim() {
        "" => InputLine::Output(None),
        number => match number.parse() {
            Ok(number) if number > 0 => InputLine::Output(Some(number)),
            Ok(_) | Err(_) => InputLine::Wrong("usage: /output [N], e.g. /output 3".to_owned()),
        },
    }
}

/// Returns the arguments for a call of the tool `undo`.
pub fn undo_arguments(step: Option<u64>) -> serde_json::Value {
    match step {
        Some(step) => serde_json::json!({ "step": step }),
        None => serde_json::json!({}),
    }
}

fn permissions(rest: &str) -> InputLine {
    let usage =
        || InputLine::Wrong("use /permissions, /permissions revoke N or /permissions revoke all".to_owned());
    match rest.split_whitespace().collect::<Vec<_>>().as_slice() {
        [] => InputLine::Permissions(PermissionsCommand::List),
        ["revoke", "all"] => InputLine::Permissions(PermissionsCommand::RevokeAll),
        ["revoke", number] => match number.parse() {
            Ok(number) if number > 0 => InputLine::Permissions(PermissionsCommand::Revoke(number)),
            Ok(_) | Err(_) => usage(),
        },
        _ => usage(),
    }
}

fn fork(rest: &str) -> InputLine {
    match (rest, rest.parse()) {
        ("", _) => InputLine::Fork(None),
        (_, Ok(turn)) => InputLine::Fork(Some(turn)),
        (_, Err(_)) => InputLine::Wrong("usage: /fork [TURN], e.g. /fork 3".to_owned()),
    }
}

fn theme(rest: &str) -> InputLine {
    match (rest, ThemeChoice::of(rest)) {
        ("", _) => InputLine::Theme(None),
        (_, Some(theme)) => InputLine::Theme(Some(theme)),
        (name, None) => {
            InputLine::Wrong(format!("unknown theme `{name}`; use dark, light, terminal, none or auto"))
        }
    }
}

fn jobs(rest: &str) -> InputLine {
    let mut words = rest.split_whitespace();
    let (action, id) = (words.next(), words.next().and_then(|id| id.parse().ok()).map(JobId));
    match (action, id, words.next()) {
        (None, _, _) | (Some("list"), None, None) => InputLine::Jobs(JobsCommand::List),
        (Some("read"), Some(id), None) => InputLine::Jobs(JobsCommand::Read(id)),
        (Some("stop"), Some(id), None) => InputLine::Jobs(JobsCommand::Stop(id)),
        _ => InputLine::Wrong("use /jobs, /jobs read ID or /jobs stop ID".to_owned()),
    }
}

fn mode(rest: &str) -> InputLine {
    match Mode::ALL.into_iter().find(|mode| mode.as_str() == rest) {
        None if !rest.is_empty() => InputLine::Wrong(format!("unknown mode `{rest}`; use agent or chat")),
        mode => InputLine::Mode(mode),
    }
}

fn run(rest: &str) -> InputLine {
    let Ok(words) = shell_words::split(rest) else {
        return InputLine::Wrong("unclosed quote; use /run NAME key=\"two words\"".to_owned());
    };
    let mut words = words.into_iter();
    let Some(name) = words.next() else {
        return InputLine::Wrong("usage: /run NAME [KEY=VALUE…]; see /routines".to_owned());
    };
    let mut values = Vec::new();
    for word in words {
        match word.split_once('=') {
            Some((key, value)) if !key.is_empty() => values.push((key.to_owned(), value.to_owned())),
            Some(_) | None => {
                return InputLine::Wrong(format!("`{word}` is not KEY=VALUE; use /run {name} name=nginx"));
            }
        }
    }
    InputLine::Run { name, values }
}

/// Returns the command with the most similar name, if one is similar enough. Among names that are equally similar, one
/// of the same length as `word` is more likely.
fn nearest(word: &str) -> Option<&'static str> {
    COMMANDS
        .iter()
        .map(|(name, ..)| (edit_distance(word, name), name.len().abs_diff(word.len()), *name))
        .min()
        .filter(|(distance, _, name)| {
            *distance <= edits_max(word) || (word.len() > 2 && name.starts_with(word))
        })
        .map(|(.., name)| name)
}

/// Returns the maximum edit distance at which `word` counts as a misspelled command. It is smaller for a short word,
/// because a short word is similar to many commands.
fn edits_max(word: &str) -> usize {
    if word.len() <= "/cost".len() { 1 } else { 2 }
}

/// Returns the completions for the last word of `line`, each with a description.
pub fn completions(line: &str, known_names: &CompletionNames) -> Vec<(String, String)> {
    if !line.starts_with('/') {
        return Vec::new();
    }
    let words: Vec<&str> = line.split(' ').collect();
    let from = |known: Vec<(String, String)>, begun: &str| {
        known.into_iter().filter(|(name, _)| name.starts_with(begun)).collect::<Vec<_>>()
    };
    match words.as_slice() {
        [begun] => {
            let known = COMMANDS.iter().map(|(name, _, what)| ((*name).to_owned(), (*what).to_owned()));
            let skills = known_names.skills.iter().map(|(name, what)| (format!("/{name}"), what.clone()));
            from(known.chain(skills).collect(), begun)
        }
        ["/run", begun] => from(known_names.routines.clone(), begun),
        ["/host", begun] => from(known_names.hosts.clone(), begun),
        ["/mode", begun] => {
            let modes = [("agent", "Model with tools"), ("chat", "Chat without tools")];
            let known = modes.map(|(name, what)| (name.to_owned(), what.to_owned()));
            from(known.to_vec(), begun)
        }
        ["/theme", begun] => {
            let known = ThemeChoice::ALL.map(|theme| (theme.as_str().to_owned(), String::new()));
            from(known.to_vec(), begun)
        }
        ["/permissions", begun] => {
            from(vec![("revoke".to_owned(), "Revoke a permission: revoke N, revoke all".to_owned())], begun)
        }
        ["/approve", begun] => {
            let known =
                ApprovalMode::ALL.map(|mode| (mode.as_str().to_owned(), mode.description().to_owned()));
            from(known.to_vec(), begun)
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use sysop_core::instructions::InstructionSource;
    use sysop_core::skill::SkillKind;

    use super::*;

    #[test]
    #[expect(clippy::too_many_lines, reason = "a list of cases")]
    fn command_lines_are_parsed() {
        let lines = [
            "",
            "   ",
            "hello /there",
            "/etc/passwd is what?",
            "two\\\nlines",
            "!ls -la | wc",
            "!cd /tmp",
            "!cd /tmp && ls",
            "! ",
            "/cmd df -h",
            "/cmd",
            "/help",
            "/resume 42",
            "/model ollama/phi3",
            "/approve auto",
            "/approve maybe",
            "/mode chat",
            "/mode",
            "/mode silent",
            "/run service name=nginx n=a=b",
            "/run service nginx",
            "/run service name='two words' empty=",
            "/run service name='open",
            "/host",
            "/host root@web1",
            "/keys ls Space -la Enter",
            "/keys",
            "/run",
            "/hepl",
            "/approv auto",
            "/exti",
            "/frobnicate",
            "/cots",
            "/hots",
            "/modle x",
            "/permissions",
            "/permissions revoke 2",
            "/permissions revoke 0",
            "/fork 3",
            "/fork it",
            "/theme light",
            "/theme auto",
            "/theme foo",
            "/sessions disk full",
            "/jobs",
            "/jobs stop 2",
            "/jobs read",
            "/background",
            "/check-disk web1",
            "/help me",
            "/disk",
        ];
        let skill = |name: &str| {
            Skill::read(SkillKind::Command, name, "", "text", InstructionSource::User).expect("a command")
        };
        let skills = [skill("check-disk"), skill("help"), skill("disk")];
        let read: Vec<String> =
            lines.iter().map(|line| format!("{line:?} -> {:?}", parse(line, &skills))).collect();
        expect![[r#"
            "" -> Empty
            "   " -> Empty
            "hello /there" -> Prompt("hello /there")
            "/etc/passwd is what?" -> Prompt("/etc/passwd is what?")
            "two\\\nlines" -> Prompt("two\nlines")
            "!ls -la | wc" -> Shell("ls -la | wc")
            "!cd /tmp" -> Wrong("each command starts in the session's directory; use /shell, or !cd /tmp && COMMAND")
            "!cd /tmp && ls" -> Shell("cd /tmp && ls")
            "! " -> Wrong("usage: !COMMAND")
            "/cmd df -h" -> Shell("df -h")
            "/cmd" -> Wrong("usage: /cmd COMMAND")
            "/help" -> Help
            "/resume 42" -> Resume(Some("42"))
            "/model ollama/phi3" -> Model(Some("ollama/phi3"))
            "/approve auto" -> Approve(Some(Auto))
            "/approve maybe" -> Wrong("unknown approval mode `maybe`; use each, ask, auto or never")
            "/mode chat" -> Mode(Some(Chat))
            "/mode" -> Mode(None)
            "/mode silent" -> Wrong("unknown mode `silent`; use agent or chat")
            "/run service name=nginx n=a=b" -> Run { name: "service", values: [("name", "nginx"), ("n", "a=b")] }
            "/run service nginx" -> Wrong("`nginx` is not KEY=VALUE; use /run service name=nginx")
            "/run service name='two words' empty=" -> Run { name: "service", values: [("name", "two words"), ("empty", "")] }
            "/run service name='open" -> Wrong("unclosed quote; use /run NAME key=\"two words\"")
            "/host" -> Host(None)
            "/host root@web1" -> Host(Some("root@web1"))
            "/keys ls Space -la Enter" -> Keys("ls Space -la Enter")
            "/keys" -> Wrong("usage: /keys KEYS, e.g. /keys ls Space -la Enter")
            "/run" -> Wrong("usage: /run NAME [KEY=VALUE…]; see /routines")
            "/hepl" -> Wrong("unknown command /hepl; did you mean /help?")
            "/approv auto" -> Wrong("unknown command /approv; did you mean /approve?")
            "/exti" -> Wrong("unknown command /exti; did you mean /exit?")
            "/frobnicate" -> Wrong("unknown command /frobnicate; see /help")
            "/cots" -> Wrong("unknown command /cots; did you mean /cost?")
            "/hots" -> Wrong("unknown command /hots; did you mean /host?")
            "/modle x" -> Wrong("unknown command /modle; did you mean /model?")
            "/permissions" -> Permissions(List)
            "/permissions revoke 2" -> Permissions(Revoke(2))
            "/permissions revoke 0" -> Wrong("use /permissions, /permissions revoke N or /permissions revoke all")
            "/fork 3" -> Fork(Some(3))
            "/fork it" -> Wrong("usage: /fork [TURN], e.g. /fork 3")
            "/theme light" -> Theme(Some(Named(Light)))
            "/theme auto" -> Theme(Some(Auto))
            "/theme foo" -> Wrong("unknown theme `foo`; use dark, light, terminal, none or auto")
            "/sessions disk full" -> Sessions(Some("disk full"))
            "/jobs" -> Jobs(List)
            "/jobs stop 2" -> Jobs(Stop(JobId(2)))
            "/jobs read" -> Wrong("use /jobs, /jobs read ID or /jobs stop ID")
            "/background" -> Background
            "/check-disk web1" -> Prompt("/check-disk web1")
            "/help me" -> Help
            "/disk" -> Prompt("/disk")"#]].assert_eq(&read.join("\n"));
    }

    #[test]
    fn command_words_are_completed() {
        let of = |names: &[&str]| names.iter().map(|name| ((*name).into(), "what it is".into())).collect();
        let known = CompletionNames {
            skills: of(&["check"]),
            routines: of(&["update", "service"]),
            hosts: of(&["web1", "web2", "db1"]),
        };
        let names = |line: &str| -> Vec<String> {
            completions(line, &known).into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names("/r"), ["/resume", "/routines", "/run", "/retry"]);
        assert_eq!(names("/ch"), ["/check"]);
        assert_eq!(names("/run u"), ["update"]);
        assert_eq!(names("/host w"), ["web1", "web2"]);
        assert_eq!(names("/approve "), ["each", "ask", "auto", "never"]);
        assert_eq!(names("/mode c"), ["chat"]);
        assert_eq!(names("say /r"), Vec::<String>::new());
        assert_eq!(names("/help x"), Vec::<String>::new());
    }

    #[test]
    fn every_listed_command_parses() {
        for (name, arguments, _) in COMMANDS {
            let line = if arguments.starts_with('[') || arguments.is_empty() {
                (*name).to_owned()
            } else {
                let sample = arguments.split_once('|').map_or("x", |(first, _)| first);
                format!("{name} {sample}")
            };
            let parsed = parse(&line, &[]);
            let is_prompt = parsed == InputLine::Prompt(line.clone());
            assert!(!is_prompt && !matches!(parsed, InputLine::Wrong(_)), "{line}");
        }
    }
}
