//! Pictures for the README, from real runs. Full screen: the real binary in tmux, with a scripted model and a
//! real shell, drawn as SVG by term-transcript. Page: a browser connected to a real server, as PNG.

mod tour;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::bench::mock::MockProcess;
use crate::workspace::{cargo, root, step, target};
use crate::{setup, web};

const SIZE: (usize, usize) = (100, 30);
/// Columns and rows of a screen that has room for the terminal next to the conversation.
const WIDE: (usize, usize) = (168, 32);
const SCREEN_MAX: Duration = Duration::from_secs(30);
/// Interval between two captures while waiting for the screen.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time for which the screen must not change before it is captured.
const STILL_FOR: Duration = Duration::from_millis(400);
/// Arguments that replace each file. A file that would look too different fails the run.
const PNGQUANT: [&str; 5] = ["--force", "--ext=.png", "--quality=70-98", "--speed=1", "--strip"];
const PICTURE_BYTES_MAX: usize = 100 * 1024;
/// Program that draws a screen, from crates.io: package and version. `anstyle-svg` 1.1 is not a replacement: it draws a
/// word's background at the wrong position if the word is preceded by `&`.
const TERM_TRANSCRIPT: (&str, &str) = ("term-transcript-cli", "0.5.0");
const STYLE: &str = include_str!("pictures/style.toml");
/// Size of a cell, and of the margin around the screen, in pixels.
const CELL: (f64, f64) = (8.4, 18.0);
const MARGIN: f64 = 10.0;
/// Script for the model, and its task.
const SCENARIO: &str = include_str!("pictures/scenario.json");
/// Scripts for the model for the picture of a long task, as a list without brackets, and the task.
const LONG_SCENARIOS: &str = include_str!("pictures/context.json");
const LONG_TASK: &str = "back up the archives, then remove the oldest one";
const TASK: &str = "the disk is almost full: find out why and free some space";
const SHELL_HOME: &str = "PS1='\\[\\e[32m\\]web1\\[\\e[0m\\]:\\w$ '\nalias ls='ls --color=always'\n";

/// A terminal session whose screen can be captured.
struct TmuxSession {
    folder: PathBuf,
    drawer: PathBuf,
}

/// Takes all pictures, or only the pictures of the TUI (`--screen`), with the binary at the given path or a newly built
/// one. `--tour` takes no pictures, and only builds the animated tour from existing ones.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    if rest == ["--tour"] {
        return tour::write();
    }
    setup::need(&[("tmux", "tmux"), ("bash", "bash"), ("git", "git")])?;
    let (screen_only, rest) = match rest {
        [word, rest @ ..] if word == "--screen" => (true, rest),
        rest => (false, rest),
    };
    let sysop = match rest {
        [path] => PathBuf::from(path),
        _ => {
            if !screen_only {
                web::build()?;
            }
            step("build sysop", cargo().args(["build", "--release", "--locked", "--package", "sysop"]))?;
            target().join("release/sysop")
        }
    };
    // A fixed path, because it appears in the pictures.
    let folder = std::env::temp_dir().join("sysop-pictures");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot clear the directory of the last run")?;
    }
    fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let workspace = folder.join("web1");
    fill(&workspace)?;
    let home = folder.clone();
    fs::write(home.join(".bashrc"), SHELL_HOME)?;
    let mock = MockProcess::start(&sysop, &folder, &[SCENARIO.to_owned(), LONG_SCENARIOS.to_owned()])?;
    let session = TmuxSession::start(&folder, &workspace, &home)?;
    session.type_text(&format!(
        "OPENAI_API_KEY=none LLM_BASE_URL=http://127.0.0.1:{}/v1 '{}' --model openai/mock",
        mock.port,
        sysop.display()
    ))?;
    session.press_key("Enter")?;
    take_all(&session)?;
    tour::write()?;
    if screen_only { Ok(()) } else { take_page(&sysop) }
}

fn take_page(sysop: &Path) -> Result<()> {
    setup::need(&[("pngquant", "pngquant")])?;
    web::build()?;
    web::browser()?;
    let mut playwright = web::playwright(sysop);
    playwright.args(["--grep", "@picture"]).env("PICTURES", root().join("docs/pictures"));
    step("pictures of the page", &mut playwright)?;
    // The guide shows some of them, and the binary carries the guide: 256 colors take a third of the bytes.
    let pictures = fs::read_dir(root().join("docs/pictures"))?.collect::<std::io::Result<Vec<_>>>()?;
    let pictures =
        pictures.iter().map(fs::DirEntry::path).filter(|path| path.extension() == Some("png".as_ref()));
    step("reduce their colors", Command::new("pngquant").args(PNGQUANT).args(pictures))
}

fn take_all(session: &TmuxSession) -> Result<()> {
    session.wait_for("Describe a task")?;
    session.wait_for("(main)")?;
    session.capture_when_still("start", "the start of a session")?;
    session.type_text(TASK)?;
    session.press_key("Enter")?;
    session.wait_for("Run this?")?;
    session.capture_when_still("review", "what a command is, and what it would do, before it runs")?;
    session.press_key("Enter")?;
    session.wait_for("archive-2024-08")?;
    session.capture("live", "output as it comes")?;
    session.wait_for("rm -rf")?;
    session.wait_for("Run this?")?;
    session.capture_when_still("danger", "a dangerous command, and why it is one")?;
    session.type_text("keep the newest two")?;
    session.press_key("Enter")?;
    session.wait_for("What I found")?;
    session.capture_when_still("answer", "the answer, with a table and code")?;
    session.resize(WIDE)?;
    session.press_key("C-t")?;
    session.wait_for("web1:~")?;
    session.type_text("ls -sh logs; git log --oneline --graph --color | head -5")?;
    session.press_key("Enter")?;
    session.wait_for("* ")?;
    session.capture_when_still("terminal", "the session's terminal beside the conversation")?;
    session.press_key("C-t")?;
    take_long_task(session)
}

fn take_long_task(session: &TmuxSession) -> Result<()> {
    session.resize(SIZE)?;
    session.type_text("/new")?;
    session.press_key("Enter")?;
    session.wait_for("Describe a task")?;
    session.type_text(LONG_TASK)?;
    session.press_key("Enter")?;
    session.wait_for("Run this?")?;
    session.wait_until_still()?;
    session.press_key("Enter")?;
    session.wait_for("until it is there")?;
    session.capture_when_still("jobs", "a task list and a background job")?;
    session.type_text("/compact")?;
    session.press_key("Enter")?;
    session.wait_for("context compacted")?;
    session.capture_when_still("long-task", "a task list, a background job, and a compacted context")?;
    session.type_text("/status")?;
    session.press_key("Enter")?;
    session.wait_for("─ Status ─")?;
    session.capture_when_still("status", "the status of a session")
}

fn fill(workspace: &Path) -> Result<()> {
    fs::create_dir_all(workspace.join("logs"))?;
    for month in 1..=9 {
        let file = workspace.join(format!("logs/archive-2024-{month:02}.tar"));
        fs::write(file, vec![b'x'; 300_000 + 40_000 * month])?;
    }
    fs::write(workspace.join("rotate.sh"), "#!/bin/sh\n# Packs the logs of the month that has passed.\n")?;
    let rotations = (1..=9).flat_map(|month| {
        (1..=28).map(move |day| {
            format!("2024-{month:02}-{day:02} 00:00:01 rotate: packed access.log and error.log, ok\n")
        })
    });
    fs::write(workspace.join("rotate.log"), rotations.collect::<String>())?;
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(workspace)
            .args(["-c", "user.name=ann", "-c", "user.email=ann@example.org"])
            .args(arguments);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").stdout(Stdio::null());
        // Fixed dates make each run create the same commits.
        git.env("GIT_AUTHOR_DATE", "2024-10-01T06:00:00Z").env("GIT_COMMITTER_DATE", "2024-10-01T06:00:00Z");
        git.status().context("cannot start git")
    };
    git(&["init", "-q", "-b", "main"])?;
    git(&["add", "rotate.sh"])?;
    for subject in ["Rotate the logs each month", "Keep the archives beside the logs"] {
        git(&["commit", "-q", "--allow-empty", "-m", subject])?;
    }
    Ok(())
}

impl TmuxSession {
    fn start(folder: &Path, workspace: &Path, home: &Path) -> Result<Self> {
        let drawer = setup::cargo_tool(TERM_TRANSCRIPT)?.with_file_name("term-transcript");
        let session = Self { folder: folder.to_owned(), drawer };
        let size = (SIZE.0.to_string(), SIZE.1.to_string());
        let mut tmux = session.tmux();
        tmux.env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .env("LC_ALL", "C.UTF-8")
            .env("SHELL", "/bin/bash")
            .env("COLORTERM", "truecolor")
            .args(["-f", "/dev/null", "new-session", "-d", "-x", &size.0, "-y", &size.1, "-c"])
            .arg(workspace)
            .arg("bash --norc");
        done(&mut tmux)?;
        done(session.tmux().args(["set", "-g", "status", "off"]))?;
        session.resize(SIZE)?;
        Ok(session)
    }

    fn resize(&self, (columns, rows): (usize, usize)) -> Result<()> {
        let size = (columns.to_string(), rows.to_string());
        done(self.tmux().args(["resize-window", "-x", &size.0, "-y", &size.1]))
    }

    fn tmux(&self) -> Command {
        let mut tmux = Command::new("tmux");
        // A relative path, because socket paths are limited to about a hundred bytes.
        tmux.current_dir(&self.folder).args(["-S", "socket"]);
        tmux
    }

    fn type_text(&self, text: &str) -> Result<()> {
        done(self.tmux().args(["send-keys", "-l", text]))
    }

    fn press_key(&self, key: &str) -> Result<()> {
        done(self.tmux().args(["send-keys", key]))
    }

    /// Returns the screen content with its escape sequences.
    fn screen(&self) -> Result<String> {
        let output = self.tmux().args(["capture-pane", "-e", "-p"]).output().context("cannot start tmux")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Waits until the screen contains `text`.
    fn wait_for(&self, text: &str) -> Result<()> {
        let until = Instant::now() + SCREEN_MAX;
        loop {
            let output = self.tmux().args(["capture-pane", "-p"]).output().context("cannot start tmux")?;
            let screen = String::from_utf8_lossy(&output.stdout).into_owned();
            if screen.contains(text) {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("`{text}` did not appear; current screen:\n{screen}");
            }
            sleep(POLL_INTERVAL);
        }
    }

    fn wait_until_still(&self) -> Result<String> {
        let (mut last, mut since) = (self.screen()?, Instant::now());
        let until = Instant::now() + SCREEN_MAX;
        while since.elapsed() < STILL_FOR && Instant::now() < until {
            sleep(POLL_INTERVAL);
            let now = self.screen()?;
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        Ok(last)
    }

    /// Saves a picture once the screen has stopped changing.
    fn capture_when_still(&self, name: &str, what: &str) -> Result<()> {
        self.wait_until_still()?;
        self.capture(name, what)
    }

    /// Saves a picture of the current screen.
    fn capture(&self, name: &str, what: &str) -> Result<()> {
        let screen = self.screen()?;
        let format = "#{window_width} #{cursor_flag} #{cursor_x} #{cursor_y}";
        let output = self.tmux().args(["display-message", "-p", format]).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers: Vec<usize> = said.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [columns, visible, column, row] = numbers[..] else {
            bail!("tmux did not report size and cursor: {said}");
        };
        let mut picture = self.draw(&screen, columns)?;
        if visible == 1 {
            picture = with_cursor(&picture, column, row);
        }
        if picture.len() > PICTURE_BYTES_MAX {
            bail!("the picture `{name}` is too large ({} bytes)", picture.len());
        }
        let folder = root().join("docs/pictures");
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{name}.svg"));
        fs::write(&path, picture).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("    {}: {what}", path.display());
        Ok(())
    }

    fn draw(&self, screen: &str, columns: usize) -> Result<String> {
        let (config, input) = (self.folder.join("picture.toml"), self.folder.join("screen"));
        let width = CELL.0 * columns as f64 + 2.0 * MARGIN;
        fs::write(&config, format!("width = {width:.0}\nwrap.hard_break_at.chars = {columns}\n{STYLE}"))?;
        fs::write(&input, screen)?;
        let mut draw = Command::new(&self.drawer);
        draw.args(["capture", "--pure-svg", "--no-inputs", "screen", "--config-path"]).arg(&config);
        let run = draw.stdin(fs::File::open(&input)?).output().context("cannot start term-transcript")?;
        if !run.status.success() {
            bail!("term-transcript failed: {}", String::from_utf8_lossy(&run.stderr));
        }
        String::from_utf8(run.stdout).context("the picture is not UTF-8")
    }
}

/// Adds a cursor to a picture: a bar at the left edge of its cell.
fn with_cursor(picture: &str, column: usize, row: usize) -> String {
    let (x, y) = (MARGIN + CELL.0 * column as f64, MARGIN + CELL.1 * row as f64);
    let picture = picture.trim_end().trim_end_matches("</svg>");
    format!("{picture}<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"2\" height=\"18\" fill=\"#d7dae0\"/>\n</svg>\n")
}

impl Drop for TmuxSession {
    fn drop(&mut self) {
        // The server may have exited already; either way nothing is left to do.
        let _ = self.tmux().arg("kill-server").stderr(Stdio::null()).status();
    }
}

fn done(command: &mut Command) -> Result<()> {
    let status = command.status().context("cannot start tmux")?;
    if !status.success() {
        bail!("{command:?} failed ({status})");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::with_cursor;

    #[test]
    fn the_cursor_is_drawn_as_a_bar() {
        assert_eq!(
            with_cursor("<svg><g/>\n</svg>\n", 2, 1),
            "<svg><g/>\n<rect x=\"26.8\" y=\"28.0\" width=\"2\" height=\"18\" fill=\"#d7dae0\"/>\n</svg>\n"
        );
    }
}
