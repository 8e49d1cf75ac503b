//! External programs on the user's terminal: the editor for drafts, the pager for long text.
//!
//! The front end leaves the screen, waits for the program, and takes the screen again; sessions continue meanwhile. A
//! draft is stored in a file that only its owner can read, and the file is kept if anything goes wrong.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use sysop_core::style::StyleRuns;
use sysop_core::text::neutralize;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

use crate::screen::{ProcessSignal, Screen, TerminalEvents, stop};

/// Maximum size of a draft when read back from the editor, in bytes.
pub const DRAFT_BYTES_MAX: usize = 1024 * 1024;
/// Editor that is used if the user has configured none.
const EDITOR: &str = "vi";
/// Pager that is used if the user has configured none.
const PAGER: &str = "less -R";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditorResult {
    /// The edited text, without its final newline.
    Text(String),
    /// The editor exited with a nonzero code: keep the old text.
    Unchanged,
    /// Editing failed: keep the old text. Holds the reason in one sentence, which names the draft file if it was kept.
    Failed(String),
}

/// Counter for unique draft file names.
static DRAFTS: AtomicU32 = AtomicU32::new(0);

/// Edits text in the user's editor. `editor` is a command line; `ending` is the file extension (`md`, `sh`),
/// from which editors derive the syntax highlighting. Fails if the terminal is gone.
pub async fn edit(
    screen: &mut Screen,
    events: &mut TerminalEvents,
    editor: Option<&OsStr>,
    folder: &Path,
    ending: &str,
    text: &str,
) -> io::Result<EditorResult> {
    let draft = match draft(folder, ending, text) {
        Ok(draft) => draft,
        Err(error) => {
            return Ok(EditorResult::Failed(format!(
                "cannot write a draft to {} ({error})",
                folder.display()
            )));
        }
    };
    let line = editor.unwrap_or(OsStr::new(EDITOR));
    let mut command = match command(line) {
        Ok(command) => command,
        Err(why) => {
            remove(&draft);
            return Ok(EditorResult::Failed(why));
        }
    };
    command.arg(&draft);
    Ok(match run(screen, events, command, None).await? {
        Err(error) => {
            remove(&draft);
            EditorResult::Failed(format!(
                "cannot start the editor `{}` ({error}); set $VISUAL or $EDITOR",
                shown(line)
            ))
        }
        Ok(status) if status.success() => match read_back(&draft) {
            Ok(text) => {
                remove(&draft);
                EditorResult::Text(text)
            }
            Err(why) => EditorResult::Failed(format!("{why}; saved in {}", draft.display())),
        },
        Ok(status) if status.code().is_some() => {
            remove(&draft);
            EditorResult::Unchanged
        }
        Ok(status) => EditorResult::Failed(format!(
            "the editor was killed ({status}); draft saved in {}",
            draft.display()
        )),
    })
}

/// Shows text in the user's pager. `pager` is a command line. Control sequences are neutralized; if the pager
/// is `less`, `styles` are shown as colors. The inner error is one sentence. Fails if the terminal is gone.
pub async fn page(
    screen: &mut Screen,
    events: &mut TerminalEvents,
    pager: Option<&OsStr>,
    text: &str,
    styles: &StyleRuns,
) -> io::Result<Result<(), String>> {
    let line = pager.unwrap_or(OsStr::new(PAGER));
    let mut command = match command(line) {
        Ok(command) => command,
        Err(why) => return Ok(Err(why)),
    };
    let colors = Path::new(command.as_std().get_program()).file_name() == Some(OsStr::new("less"));
    if colors {
        command.arg("-R");
    }
    let text = if colors { colored(text, styles) } else { neutralize(text).into_owned() };
    // The exit code says nothing about the text: `less` exits with 2 after an interrupt.
    let ended = run(screen, events, command, Some(text)).await?;
    Ok(ended
        .map(drop)
        .map_err(|error| format!("cannot start the pager `{}` ({error}); set $PAGER", shown(line))))
}

/// Returns the neutralized text with its styles as SGR sequences, reset at the end of each line.
fn colored(text: &str, styles: &StyleRuns) -> String {
    let mut out = String::with_capacity(text.len());
    for (piece, look) in styles.runs(text) {
        let parameters = look.legible().to_sgr();
        for line in neutralize(piece).split_inclusive('\n') {
            let (letters, end) = line.strip_suffix('\n').map_or((line, ""), |letters| (letters, "\n"));
            if parameters.is_empty() || letters.is_empty() {
                out.push_str(line);
            } else {
                write!(out, "\x1b[{parameters}m{letters}\x1b[0m{end}")
                    .expect("writing to a string cannot fail");
            }
        }
    }
    out
}

fn shown(line: &OsStr) -> String {
    neutralize(&line.to_string_lossy()).into_owned()
}

fn command(line: &OsStr) -> Result<Command, String> {
    let words = line.to_str().and_then(|line| shell_words::split(line).ok()).unwrap_or_default();
    let Some((program, arguments)) = words.split_first() else {
        return Err(format!("`{}` is not a valid command line", shown(line)));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Writes a draft to a new file that only its owner can read, and returns the path.
fn draft(folder: &Path, ending: &str, text: &str) -> io::Result<PathBuf> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let (process, mut options) = (std::process::id(), std::fs::OpenOptions::new());
    options.write(true).create_new(true).mode(0o600);
    loop {
        let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("draft-{process}-{number}.{ending}"));
        match options.open(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes())?;
                return Ok(path);
            }
            // Left behind by an earlier process with the same id.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

fn read_back(draft: &Path) -> Result<String, String> {
    let cannot = |error: &dyn std::fmt::Display| format!("cannot read the draft ({error})");
    let file = std::fs::File::open(draft).map_err(|error| cannot(&error))?;
    let mut bytes = Vec::new();
    let most = u64::try_from(DRAFT_BYTES_MAX).unwrap_or(u64::MAX);
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| cannot(&error))?;
    if bytes.len() > DRAFT_BYTES_MAX {
        return Err(format!("the draft is longer than {} KiB", DRAFT_BYTES_MAX / 1024));
    }
    let mut text = String::from_utf8(bytes).map_err(|_| "the draft is not valid UTF-8".to_owned())?;
    if text.ends_with('\n') {
        text.truncate(text.len() - if text.ends_with("\r\n") { 2 } else { 1 });
    }
    Ok(text)
}

fn remove(draft: &Path) {
    // The editor may have removed the file.
    let _ = std::fs::remove_file(draft);
}

/// Runs a program on the terminal; the inner error means that the program could not be started.
async fn run(
    screen: &mut Screen,
    events: &mut TerminalEvents,
    mut command: Command,
    input: Option<String>,
) -> io::Result<io::Result<ExitStatus>> {
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    screen.restore();
    let ended = match command.spawn() {
        Ok(mut child) => {
            let feeder = child.stdin.take().zip(input).map(|(mut pipe, text)| {
                tokio::spawn(async move {
                    // Fails if the pager exits before reading everything.
                    let _ = pipe.write_all(text.as_bytes()).await;
                })
            });
            let ended = wait(&mut child, events).await;
            if let Some(feeder) = feeder {
                feeder.abort();
            }
            ended
        }
        Err(error) => Err(error),
    };
    screen.take()?;
    Ok(ended)
}

/// Waits for the program while handling the signals that both processes receive.
async fn wait(child: &mut Child, events: &mut TerminalEvents) -> io::Result<ExitStatus> {
    loop {
        let request = tokio::select! {
            ended = child.wait() => return ended,
            request = events.next_signal() => request,
        };
        let signal = match request {
            // The program received Ctrl+C and Ctrl+\ as well, and it is the one they are meant for.
            ProcessSignal::Interrupt | ProcessSignal::Quit | ProcessSignal::Continued => continue,
            ProcessSignal::Suspend => {
                stop(events).await?;
                continue;
            }
            ProcessSignal::Terminate => Signal::TERM,
            ProcessSignal::Hangup => Signal::HUP,
        };
        events.put_back(request);
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(pid) = pid {
            // Fails if the program has already exited.
            let _ = kill_process(pid, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use sysop_core::text::split_styles;

    use super::colored;

    #[test]
    fn a_pager_gets_colors_and_nothing_else() {
        let (text, styles) = split_styles("a\x1b[31mred\nred\x1b[0m \x1b]0;t\x07\x1b[2Jb\n");
        assert_eq!(colored(&text, &styles), "a\x1b[31mred\x1b[0m\n\x1b[31mred\x1b[0m b\n");
        assert_eq!(colored("\x1b[2J", &styles), "\\x1b\x1b[31m[2J\x1b[0m");
    }
}
