//! `sysop desktop`: starts the program that shows the page in a window, or explains why it cannot.
//!
//! The window program links the web engine, so that this program does not have to. The window program also starts the
//! server.
//! This module handles the failures that cannot be shown in a window: a missing display, window program or
//! web engine.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use sysop_core::id::SessionId;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::Storage;
use crate::cli::DesktopArguments;
use crate::exit::{CommandError, Exit};
use crate::global_flags::{GlobalFlags, ResumeTarget};
use crate::settings::Settings;
use crate::{sessions, tell};

const HELPER: &str = "sysop-desktop";
/// Maximum time to keep reading the window program's standard error after the program has exited.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Exit code of the dynamic linker if a library is missing.
const LINKER_FAILED: i32 = 127;
/// Text in the dynamic linker's error between the name of the program and the name of the library.
const LINKER_SAYS: &str = ": error while loading shared libraries: ";

/// Opens the window and waits until it is closed.
pub(crate) async fn run(flags: GlobalFlags, arguments: DesktopArguments) -> Result<Exit> {
    crate::origin::name_window();
    let display = ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().filter_map(std::env::var_os);
    if display.into_iter().all(|display| display.is_empty()) {
        let why = "no display (DISPLAY and WAYLAND_DISPLAY are not set); use `sysop` in a terminal, or `sysop \
         serve` and a browser";
        return Err(CommandError::usage(why).into());
    }
    let own = std::env::current_exe().context("cannot determine the path of this program")?;
    let helper = find_helper(&own)?;
    let wanted = match (arguments.session, &flags.resume) {
        (Some(text), _) => Some(ResumeTarget::Session(SessionId::new(text))),
        (None, resume) => resume.clone(),
    };
    let session = match wanted {
        Some(wanted) => Some(find_session(&flags, &wanted).await?),
        None => None,
    };
    let mut command = tokio::process::Command::new(&helper);
    command.arg("--sysop").arg(&own);
    if let Some(session) = session {
        command.arg(format!("--session={session}"));
    }
    command.arg("--").args(server_flags(&flags)).stdin(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn();
    let mut child = child.map_err(|error| {
        CommandError::usage(format!(
            "cannot start {} ({error}); reinstall the package {HELPER}, or use `sysop serve`",
            helper.display()
        ))
    })?;
    let said = child.stderr.take().context("cannot capture the standard error of sysop-desktop")?;
    let said = said.into_owned_fd().context("cannot read the output of sysop-desktop")?;
    let (heard, hears) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || heard.send(relay_stderr(std::fs::File::from(said))));
    let status = wait(&mut child).await?;
    // The web engine's processes may keep the pipe open; the wait is bounded.
    let missing = tokio::time::timeout(LAST_WORDS, hears).await;
    end_of(status, missing.ok().and_then(Result::ok).flatten())
}

fn end_of(status: ExitStatus, missing: Option<String>) -> Result<Exit> {
    match (status.code(), missing) {
        (Some(0), _) => Ok(Exit::Done),
        (Some(LINKER_FAILED), missing) => {
            let missing = missing.unwrap_or_else(|| "a library".to_owned());
            Err(CommandError::usage(format!(
                "sysop-desktop cannot start: {missing} is missing; install the web engine (Debian, Ubuntu: apt \
                 install libwebkit2gtk-4.1-0), or use `sysop serve` with a browser"
            ))
            .into())
        }
        // The program has printed the reason.
        (Some(code), _) if code == i32::from(Exit::Usage.code()) => Ok(Exit::Usage),
        (Some(_), _) => Ok(Exit::Failed),
        (None, _) => {
            Err(CommandError::failed(format!("sysop-desktop was killed ({status}), and its server stopped"))
                .into())
        }
    }
}

/// Waits until the window program exits. Forwards SIGTERM, SIGINT and SIGHUP as SIGTERM.
async fn wait(child: &mut tokio::process::Child) -> Result<ExitStatus> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    let mut hang_up = signal(SignalKind::hangup()).context("cannot listen for signals")?;
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    loop {
        tokio::select! {
            status = child.wait() => return status.context("cannot wait for sysop-desktop"),
            Some(()) = terminate.recv() => {}
            Some(()) = interrupt.recv() => {}
            Some(()) = hang_up.recv() => {}
        }
        if let Some(pid) = pid {
            // The process may have exited, but it has not been reaped, so its id has not been reused.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

/// Returns the path of the window program, which is next to this program or on the PATH.
fn find_helper(own: &Path) -> Result<PathBuf, CommandError> {
    let beside = own.with_file_name(HELPER);
    if beside.is_file() {
        return Ok(beside);
    }
    which::which(HELPER).map_err(|_| {
        CommandError::usage(format!(
            "`{HELPER}` not found next to {} or on PATH; install the package {HELPER} (from source: cargo build \
             --release --package {HELPER}), or use `sysop serve` with a browser",
            own.display()
        ))
    })
}

/// Returns the full id of the wanted session. It is resolved here so that errors appear on the terminal.
async fn find_session(flags: &GlobalFlags, wanted: &ResumeTarget) -> Result<SessionId> {
    let kept = Storage::open(&Settings::load(flags)?).await?;
    let store = kept.store();
    let found = match wanted {
        ResumeTarget::Latest | ResumeTarget::LatestWithUndo => sessions::most_recent(store.as_ref()).await,
        ResumeTarget::Session(id) => sessions::resolve_id(store.as_ref(), id.as_str()).await,
    };
    kept.close().await;
    found.map_err(|error| match error.exit_code() == Exit::Usage.code() {
        true => CommandError::usage(error.to_string()).into(),
        false => CommandError::failed(error.to_string()).into(),
    })
}

/// Returns the flags for the server, without `--resume` and `--continue`: the window selects the session.
fn server_flags(flags: &GlobalFlags) -> Vec<std::ffi::OsString> {
    let GlobalFlags {
        host,
        canary,
        model,
        approve,
        root,
        profile,
        config,
        creates_config: _,
        resume_latest: _,
        resume: _,
        verbose,
        quiet,
        max_cost,
        max_tokens_total,
        max_minutes,
        trust,
        no_color,
    } = flags;
    let mut given: Vec<std::ffi::OsString> = Vec::new();
    let mut give = |name: &str, value: std::ffi::OsString| {
        let mut flag = std::ffi::OsString::from(format!("--{name}="));
        flag.push(value);
        given.push(flag);
    };
    let texts = [
        ("host", host.clone()),
        ("canary", canary.map(|number| number.to_string())),
        ("model", model.as_ref().map(|model| model.to_string().trim_end_matches('/').to_owned())),
        ("approve", approve.map(|approve| approve.as_str().to_owned())),
        ("profile", profile.map(|profile| profile.as_str().to_owned())),
        ("max-cost", max_cost.map(|cost| cost.to_string())),
        ("max-tokens-total", max_tokens_total.map(|tokens| tokens.to_string())),
        ("max-minutes", max_minutes.map(|minutes| minutes.to_string())),
    ];
    for (name, value) in texts {
        value.into_iter().for_each(|value| give(name, value.into()));
    }
    for (name, path) in [("root", root), ("config", config)] {
        path.iter().for_each(|path| give(name, path.into()));
    }
    given.extend(std::iter::repeat_n("--verbose".into(), usize::from(*verbose)));
    given.extend(quiet.then(|| "--quiet".into()));
    given.extend(trust.then(|| "--trust".into()));
    given.extend(no_color.then(|| "--no-color".into()));
    given
}

/// Forwards the window program's standard error. An error from the dynamic linker is not forwarded; instead,
/// the missing library named in it is returned.
fn relay_stderr(said: impl Read) -> Option<String> {
    let mut missing = None;
    let mut said = BufReader::new(said);
    let mut line = Vec::new();
    while said.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let text = String::from_utf8_lossy(&line);
        match text.split_once(LINKER_SAYS) {
            Some((_, about)) => {
                let library = about.split(':').next().unwrap_or_default().trim();
                missing = Some(sysop_core::text::neutralize_line(library).into_owned());
            }
            None => tell(text.trim_end()),
        }
        line.clear();
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::{relay_stderr, server_flags};
    use crate::cli::{self, Command};

    #[test]
    fn the_server_gets_the_given_flags() {
        let given = "--model ollama/phi3 --approve auto --root /a --host web1 --canary 1 --profile coder --config \
         c.toml \
                     -vv --trust --max-cost 0.5 --max-minutes 3 --no-color --resume=0198";
        let line = ["sysop"].into_iter().chain(given.split(' ')).chain(["desktop"]);
        let parsed = cli::parse(line.map(Into::into)).unwrap();
        assert!(matches!(parsed.command, Some(Command::Desktop(_))));
        let flags = server_flags(&parsed.global);
        let again = [std::ffi::OsString::from("sysop"), "serve".into()].into_iter().chain(flags.clone());
        let mut again = cli::parse(again).unwrap().global;
        assert!(again.resume.is_none(), "the server opens no session by itself: {flags:?}");
        again.resume.clone_from(&parsed.global.resume);
        assert_eq!(format!("{again:?}"), format!("{:?}", parsed.global));
    }

    #[test]
    fn linker_errors_are_explained_and_other_output_passes() {
        let said = "hello\n/usr/bin/sysop-desktop: error while loading shared libraries: libx.so.0: cannot open shared \
                    object file: No such file or directory\n";
        assert_eq!(relay_stderr(said.as_bytes()).as_deref(), Some("libx.so.0"));
        assert_eq!(relay_stderr("hello\n".as_bytes()), None);
    }
}
