//! `sysop shell-init`: the script that binds Alt+S in a shell, and the proposal that the script requests.
//!
//! The script calls `sysop shell-init SHELL --propose` with the typed line on standard input. The line is not
//! an argument, because other users can see arguments. Standard output receives the proposal (exit code 0),
//! or one sentence that says why there is none. The model has no tools here, and nothing is run: a proposal
//! is text, which the user reads on the command line and runs by pressing Enter.

use std::io::{self, Read as _};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use sysop_core::message::{FinishReason, HistoryMessage, Message, ModelRef, ModelRequest, Reply};
use sysop_core::mode::{Mode, SamplingDefaults};
use sysop_core::text::neutralize_line;
use sysop_driver::port::ModelEvent;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::session_provider;
use crate::cli::InitShell;
use crate::exit::{CommandError, Exit};
use crate::settings::Settings;

const LINE_BYTES_MAX: u64 = 16 * 1024;
const PROPOSAL_BYTES_MAX: usize = 16 * 1024;
/// Maximum time for which a user waits for a proposal. Ctrl+C ends the wait earlier.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Maximum number of tokens in the model's reply, including hidden reasoning.
const REPLY_TOKENS_MAX: u32 = 4096;

impl InitShell {
    fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }

    /// Returns the script that binds Alt+S.
    pub(crate) fn script(self) -> &'static str {
        match self {
            Self::Bash => include_str!("shell_init/init.bash"),
            Self::Zsh => include_str!("shell_init/init.zsh"),
            Self::Fish => include_str!("shell_init/init.fish"),
        }
    }
}

/// Returns the text for standard output, and the exit code. Ctrl+C ends the wait, even if the shell started
/// this process with SIGINT ignored.
pub(crate) async fn propose(
    shell: InitShell,
    prepare: impl FnOnce() -> Result<(Settings, ModelRef), CommandError>,
) -> Result<(String, Exit)> {
    // The search for a model takes a while. A Ctrl+C in that time counts as well.
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl+C")?;
    let proposed = async {
        let (settings, model) = prepare()?;
        tokio::time::timeout(WAIT_MAX, ask(shell, settings, model))
            .await
            .unwrap_or_else(|_| Err(CommandError::failed("the model did not answer in time")))
    };
    let proposed = tokio::select! {
        proposed = proposed => proposed,
        _ = interrupt.recv() => return Ok((String::new(), Exit::Interrupted)),
    };
    Ok(match proposed {
        Ok(command) => (format!("{command}\n"), Exit::Done),
        Err(error) => (format!("sysop: {}\n", sentence(&error.message)), error.exit),
    })
}

async fn ask(shell: InitShell, settings: Settings, model: ModelRef) -> Result<String, CommandError> {
    // On its own thread, so that a terminal as standard input does not delay a Ctrl+C.
    let line = tokio::task::spawn_blocking(|| read_line(io::stdin())).await.expect("reading cannot panic")?;
    if let Some(why) = settings.hosts.model_access(&settings.host).refusal(&model) {
        return Err(CommandError::usage(why));
    }
    let request = ModelRequest {
        model,
        system: Arc::from(system_prompt(shell)),
        messages: vec![HistoryMessage::new(Message::user(question(&settings, &line)))],
        trimmed: false,
        images: Default::default(),
        tools: Arc::from([]),
        known_tools: Arc::from([]),
        max_output_tokens: Some(settings.limits.output_tokens.unwrap_or(REPLY_TOKENS_MAX)),
        temperature: settings.temperature,
        effort: None,
        calls_as_text: false,
        must_call: false,
        text_system: None,
        mode: Mode::Chat,
        sampling_defaults: SamplingDefaults::default(),
    };
    let mut events = session_provider(settings).stream(request);
    while let Some(event) = events.next().await {
        match event {
            ModelEvent::Done(reply) => return proposal(&reply).map_err(CommandError::failed),
            ModelEvent::Failed(failure) => return Err(CommandError::failed(failure.message)),
            ModelEvent::Text(_)
            | ModelEvent::Reasoning(_)
            | ModelEvent::Notice(_)
            | ModelEvent::Restarted
            | ModelEvent::Progress(_) => {}
        }
    }
    Err(CommandError::failed("the model gave no answer"))
}

fn read_line(input: impl io::Read) -> Result<String, CommandError> {
    let mut line = String::new();
    input
        .take(LINE_BYTES_MAX + 1)
        .read_to_string(&mut line)
        .map_err(|error| CommandError::usage(format!("cannot read the line: {error}")))?;
    if line.len() as u64 > LINE_BYTES_MAX {
        return Err(CommandError::usage("the line is too long"));
    }
    if line.trim().is_empty() {
        return Err(CommandError::usage("the line is empty"));
    }
    Ok(line)
}

fn system_prompt(shell: InitShell) -> String {
    let (shell, system) = (shell.name(), std::env::consts::OS);
    format!(
        "You write commands for {shell} on {system}. The user typed a line and asks for the command that does what it \
         means: it may be a wish in plain words, or a command that is unfinished or wrong. Reply with the {shell} \
         command alone: no explanation, no prompt sign, no code fence. Prefer one line. The user reads it before it \
         runs. If no command does this, reply with one line that begins with `# ` and says why."
    )
}

fn question(settings: &Settings, line: &str) -> String {
    format!("Directory: {}\nLine:\n{line}", settings.root.display())
}

/// Extracts the command from a reply. The command contains no control characters other than newlines and
/// tabs. Fails if the reply contains no command. The error is one sentence.
fn proposal(reply: &Reply) -> Result<String, String> {
    if reply.finish == FinishReason::Length {
        return Err("the model's answer was cut off".to_owned());
    }
    let command = bare_command(reply.text.trim());
    if let Some(why) = command.strip_prefix('#')
        && !why.contains('\n')
    {
        return Err(format!("no command: {}", why.trim()));
    }
    if command.is_empty() {
        return Err("the model proposed nothing".to_owned());
    }
    if command.len() > PROPOSAL_BYTES_MAX {
        return Err("the proposal is too long".to_owned());
    }
    Ok(command.split_inclusive(['\n', '\t']).map(visible).collect())
}

/// Makes characters visible that a terminal would obey or hide, except for a final newline or tab.
fn visible(piece: &str) -> String {
    let text = piece.trim_end_matches(['\n', '\t']);
    format!("{}{}", neutralize_line(text), &piece[text.len()..])
}

/// Removes what models put around a command: a code fence, backticks, or a prompt sign.
fn bare_command(text: &str) -> &str {
    let fenced = text.split_once("```").and_then(|(_, rest)| {
        let (inside, after) = rest.split_once("```")?;
        let (_language, content) = inside.split_once('\n')?;
        (!after.contains("```")).then(|| content.trim())
    });
    let text = fenced.unwrap_or(text);
    let quoted = text.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    let text = quoted.filter(|inside| !inside.contains('`')).unwrap_or(text);
    text.strip_prefix("$ ").unwrap_or(text).trim()
}

fn sentence(message: &str) -> String {
    neutralize_line(&message.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposed(text: &str) -> Result<String, String> {
        proposal(&Reply { text: text.to_owned(), ..Reply::default() })
    }

    #[test]
    fn the_command_is_found_in_prose_and_fences() {
        for text in [
            "ls -la",
            "\n ls -la \n",
            "`ls -la`",
            "$ ls -la",
            "```bash\nls -la\n```",
            "Try:\n```\n$ ls -la\n```",
        ] {
            assert_eq!(proposed(text).as_deref(), Ok("ls -la"), "{text}");
        }
        let lines = "for f in *.log; do\n\tgzip \"$f\"\ndone";
        assert_eq!(proposed(lines).as_deref(), Ok(lines));
        assert_eq!(proposed("echo `id` `date`").as_deref(), Ok("echo `id` `date`"));
        assert_eq!(proposed("# list\nls").as_deref(), Ok("# list\nls"));
    }

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(proposed("echo a\u{1b}[2Jb\u{202e}c\rd").as_deref(), Ok("echo a\\x1b[2Jb\\u{202e}c\\rd"));
        assert_eq!(proposed("ls\u{a0}-l").as_deref(), Ok("ls\\xa0-l"));
    }

    #[test]
    fn replies_without_a_command_are_errors() {
        assert_eq!(proposed("# this needs a browser"), Err("no command: this needs a browser".to_owned()));
        assert!(proposed(" \n").is_err());
        assert!(proposed(&"x".repeat(PROPOSAL_BYTES_MAX + 1)).is_err());
        let cut = Reply { text: "rm -rf /tmp/a".into(), finish: FinishReason::Length, ..Reply::default() };
        assert!(proposal(&cut).is_err());
    }

    #[test]
    fn a_failure_is_one_line() {
        assert_eq!(
            sentence("no answer\nfrom \u{1b}x; is it running?"),
            "no answer from \\x1bx; is it running?"
        );
    }

    #[test]
    fn lines_that_are_empty_or_too_long_are_refused() {
        assert!(read_line(&b" \n"[..]).is_err());
        assert!(read_line(io::repeat(b'x')).is_err());
        assert_eq!(read_line(&b"list files"[..]).as_deref(), Ok("list files"));
    }
}
