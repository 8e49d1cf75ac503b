//! Pictures for the README, from real runs. Of the full screen: the real binary in tmux, a scripted model, a real shell, and
//! what is on the screen as SVG. Of the page: a browser on a real server, as PNG.

mod svg;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::bench::mock::MockProcess;
use crate::workspace::{cargo, root, step, target};
use crate::{setup, web};

/// The size of the screen, in cells.
const SIZE: (usize, usize) = (100, 30);
/// The same where the terminal has room beside the conversation.
const WIDE: (usize, usize) = (168, 32);
/// How long the screen may take to look as it should.
const SCREEN_MAX: Duration = Duration::from_secs(30);
/// How often it is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long it must look the same before it is drawn.
const STILL_FOR: Duration = Duration::from_millis(400);
/// The largest picture, in bytes.
const PICTURE_BYTES_MAX: usize = 100 * 1024;
/// What the model says, and what it is asked.
const SCENARIO: &str = include_str!("pictures/scenario.json");
const TASK: &str = "the disk of this machine is nearly full: find out why, and make room";
const SHELL_HOME: &str = "PS1='\\[\\e[32m\\]web1\\[\\e[0m\\]:\\w$ '\nalias ls='ls --color=always'\n";

/// A person at a terminal that can be looked at.
struct TmuxSession {
    folder: PathBuf,
}

/// Makes all pictures anew, or those of the full screen alone (`--screen`), with the binary whose path is given or with one
/// that is built.
pub(crate) fn run(rest: &[String]) -> Result<()> {
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
    // Its path is in the pictures.
    let folder = std::env::temp_dir().join("sysop-pictures");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot clear the folder of the last run")?;
    }
    fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let workspace = folder.join("web1");
    fill(&workspace)?;
    let home = folder.clone();
    fs::write(home.join(".bashrc"), SHELL_HOME)?;
    let mock = MockProcess::start(&sysop, &folder, &[SCENARIO.to_owned()])?;
    let session = TmuxSession::start(&folder, &workspace, &home)?;
    session.type_text(&format!(
        "OPENAI_API_KEY=none LLM_BASE_URL=http://127.0.0.1:{}/v1 '{}' --model openai/mock",
        mock.port,
        sysop.display()
    ))?;
    session.press_key("Enter")?;
    take_all(&session)?;
    if screen_only { Ok(()) } else { take_page(&sysop) }
}

/// The page, as a browser draws it.
fn take_page(sysop: &Path) -> Result<()> {
    web::build()?;
    web::browser()?;
    let mut playwright = web::playwright(sysop);
    playwright.args(["--grep", "@picture"]).env("PICTURES", root().join("docs/pictures"));
    step("pictures of the page", &mut playwright)
}

fn take_all(session: &TmuxSession) -> Result<()> {
    session.wait_for("say what you want")?;
    session.type_text(TASK)?;
    session.press_key("Enter")?;
    session.wait_for("Run this?")?;
    session.capture_when_still("review", "what a command is, and what it would do, before it runs")?;
    session.press_key("Enter")?;
    // The second command takes its time.
    session.wait_for("step 2/")?;
    session.wait_for("Run this?")?;
    session.wait_until_still()?;
    session.press_key("Enter")?;
    session.wait_for("archive-2024-08")?;
    session.capture("live", "output as it comes")?;
    session.wait_for("rm -rf")?;
    session.wait_for("Run this?")?;
    session.capture_when_still("danger", "a dangerous command, and why it is one")?;
    session.press_key("r")?;
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
    session.capture_when_still("terminal", "the session's terminal beside the conversation")
}

/// A folder with something in it to work on.
fn fill(workspace: &Path) -> Result<()> {
    fs::create_dir_all(workspace.join("logs"))?;
    for month in 1..=9 {
        let file = workspace.join(format!("logs/archive-2024-{month:02}.tar"));
        fs::write(file, vec![b'x'; 300_000 + 40_000 * month])?;
    }
    fs::write(workspace.join("rotate.sh"), "#!/bin/sh\n# Packs the logs of the month that has passed.\n")?;
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(workspace)
            .args(["-c", "user.name=ann", "-c", "user.email=ann@example.org"])
            .args(arguments);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").stdout(Stdio::null());
        // So that each run makes the same commits.
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
        let session = Self { folder: folder.to_owned() };
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
        // The folder, because a socket's path has hardly a hundred bytes.
        tmux.current_dir(&self.folder).args(["-S", "socket"]);
        tmux
    }

    fn type_text(&self, text: &str) -> Result<()> {
        done(self.tmux().args(["send-keys", "-l", text]))
    }

    fn press_key(&self, key: &str) -> Result<()> {
        done(self.tmux().args(["send-keys", key]))
    }

    /// What is on the screen.
    fn screen(&self) -> Result<String> {
        let output = self.tmux().args(["capture-pane", "-e", "-p"]).output().context("cannot start tmux")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Waits until this is on it.
    fn wait_for(&self, text: &str) -> Result<()> {
        let until = Instant::now() + SCREEN_MAX;
        loop {
            let output = self.tmux().args(["capture-pane", "-p"]).output().context("cannot start tmux")?;
            let screen = String::from_utf8_lossy(&output.stdout).into_owned();
            if screen.contains(text) {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("`{text}` did not come; on the screen is:\n{screen}");
            }
            sleep(POLL_INTERVAL);
        }
    }

    /// Waits until nothing moves.
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

    /// Keeps a picture of what is there when nothing moves any more.
    fn capture_when_still(&self, name: &str, what: &str) -> Result<()> {
        self.wait_until_still()?;
        self.capture(name, what)
    }

    /// Keeps a picture of what is there now.
    fn capture(&self, name: &str, what: &str) -> Result<()> {
        let screen = self.screen()?;
        let format = "#{window_width} #{window_height} #{cursor_flag} #{cursor_x} #{cursor_y}";
        let output = self.tmux().args(["display-message", "-p", format]).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers: Vec<usize> = said.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [columns, rows, seen, column, row] = numbers[..] else {
            bail!("tmux tells no size and no cursor: {said}");
        };
        let picture = svg::draw(&screen, (columns, rows), (seen == 1).then_some((column, row)));
        if picture.len() > PICTURE_BYTES_MAX {
            bail!("the picture `{name}` has {} bytes, which is too many", picture.len());
        }
        let folder = root().join("docs/pictures");
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{name}.svg"));
        fs::write(&path, picture).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("    {}: {what}", path.display());
        Ok(())
    }
}

impl Drop for TmuxSession {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to do about either.
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
