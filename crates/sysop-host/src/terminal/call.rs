//! Model calls in the terminal: running a command to its end, and pressing keys.
//!
//! The end of a command is accepted only with its own nonce. If no mark can arrive, the call ends with the facts known
//! so far, and never with a guessed exit code.

use std::sync::Arc;
use std::time::Duration;

use sysop_core::id::CallId;
use sysop_core::outcome::{
    CONNECTION_ENDED, EXIT_CODE_LOST, FULL_SCREEN_RUNS, INNER_SHELL_ENDED, PAGER_IS_OPEN, Status,
    WAITS_FOR_ANSWER, nested_shell_note,
};
use sysop_core::policy::{Dialect, reads_with_git};
use sysop_core::question::QuestionKind;
use sysop_driver::port::CancellationToken;
use tokio::sync::MutexGuard;
use tokio::time::{Instant, sleep, sleep_until};

use super::call_end::{CallEnd, CallError};
use super::heuristics::{is_pager, is_question, opens_shell};
use super::incomplete_command::incomplete_command;
use super::live_shell::{KILL_LINE, LiveShell};
use super::secret::{ENTERED, OPEN_FOR, SecretPrompt, SecretPromptOutcome, secret_prompt};
use super::shell_setup::{
    identify_and_set_up, interactive_shell, is_blind_rest, is_prompt, quiet, set_up, set_up_again,
};
use super::shells::{self, ShellKind};
use super::state::{
    CommandCapture, CommandEnd, HiddenInput, HiddenInputEnd, ShellEnd, TerminalState, random_key,
};
use super::{SharedTerminal, keys};
use crate::machine::{Echo, MachineError};
use crate::output::capture::Capture;
use crate::survey::TerminalUse;

/// Maximum time for a shell to show its prompt after a command.
const PROMPT_WAIT: Duration = Duration::from_secs(1);
/// Maximum time for a shell to accept a line that we typed.
const TAKEN_WAIT_MAX: Duration = Duration::from_secs(10);
/// Maximum time for a program to end after an interrupt.
const INTERRUPT_WAIT: Duration = Duration::from_millis(700);
/// Maximum time for fish to show its prompt, or to exit, after the end of a command.
const FISH_WAIT_MAX: Duration = Duration::from_millis(1500);
/// Maximum number of interrupts that are sent. One may not be enough: when the kernel handles Ctrl+C, it discards
/// pending output, which may include marks.
const INTERRUPTS: usize = 3;
/// Time without output after which a screen counts as settled.
const SETTLED: Duration = Duration::from_millis(100);
/// Used instead of `SETTLED` if the keys have changed nothing yet.
const SETTLED_UNSEEN: Duration = Duration::from_millis(300);
/// Used instead of `SETTLED` while a command started by the keys is running.
const SETTLED_COMMAND: Duration = Duration::from_millis(1000);
const KEYS_WAIT_MAX: Duration = Duration::from_secs(3);
/// Time without output before a full-screen program counts as having drawn its first screen.
const FULL_SCREEN_QUIET: Duration = Duration::from_millis(250);
/// Time without output before a running program may count as waiting at a prompt of its own.
const PROGRAM_QUIET: Duration = Duration::from_millis(400);
/// Time without output before a program counts as asking a question in the middle of a line.
const QUESTION_QUIET: Duration = Duration::from_secs(3);
/// Time without output before a shell without marks counts as being at its prompt.
const BLIND_QUIET: Duration = Duration::from_millis(500);
/// Number of consecutive checks, one per `POLL_INTERVAL`, in which a shell without marks must be silent after a
/// command. This is a number instead of a time, because on a busy machine much time may pass in which neither the shell
/// nor this process runs.
const BLIND_POLLS: u32 = 25;
const PASTE_END: &[u8] = b"\x1b[201~";
/// Interval for checking state that sends no notification.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Result of typing one of our own lines into the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineAcceptance {
    Accepted,
    Rejected,
    /// No reaction in time: the shell may still read the line.
    Unknown,
}

struct TerminalCall<'a> {
    terminal: &'a SharedTerminal,
    live: &'a LiveShell,
    call: &'a CallId,
    cancel: &'a CancellationToken,
    /// Text of a prompt that, according to a person, does not ask for a secret.
    no_secret: Option<String>,
}

/// Discards the capture and interrupts the program if the call is dropped.
struct CaptureGuard<'a>(&'a LiveShell);

impl Drop for CaptureGuard<'_> {
    fn drop(&mut self) {
        if self.0.state().capture.is_some() {
            self.0.end_capture();
            self.0.send(vec![0x03]);
        }
    }
}

impl SharedTerminal {
    /// Runs a command at the shell's prompt. Returns when the command ends, when the terminal is handed over to another
    /// program, or after `limit`.
    pub(crate) async fn run_command(
        &self,
        command: &str,
        limit: Duration,
        capture: &mut Capture<'_>,
        call: &CallId,
        cancel: &CancellationToken,
    ) -> Result<CallEnd, CallError> {
        let (_turn, live) = until_cancelled(cancel, self.begin_call()).await??;
        let mut using = TerminalCall { terminal: self, live: &live, call, cancel, no_secret: None };
        using.prepare(capture).await?;
        using.ensure_prompt().await?;
        self.check_place(&live, TerminalUse::Command, call).await?;
        let _open = CaptureGuard(&live);
        if let Some(what) = incomplete_command(command) {
            return Err(CallError::Refused(format!("incomplete command: {what}; nothing ran")));
        }
        let kind = live.state().shell_kind();
        let dialect = kind.filter(|kind| kind.evaluates_commands()).map_or(Dialect::Sh, ShellKind::dialect);
        let guarded = reads_with_git(command, dialect);
        let end = if kind.is_none() {
            using.type_blind(command, guarded)?;
            using.follow_blind(limit, capture).await
        } else {
            match using.type_command(command, guarded).await {
                LineAcceptance::Accepted => using.follow(command, limit, capture).await,
                LineAcceptance::Rejected => CallEnd::new(
                    Status::Unknown,
                    "the shell did not accept the command; check the screen with send_keys",
                ),
                LineAcceptance::Unknown => CallEnd::new(
                    Status::Unknown,
                    "it is unknown whether the shell accepted the command, which may still run. Ctrl+C was sent; check \
                     the effects before you run the command again",
                ),
            }
        };
        capture.take(&live.end_capture());
        Ok(end)
    }

    /// Waits for earlier calls to end and opens the shell.
    async fn begin_call(&self) -> Result<(MutexGuard<'_, ()>, Arc<LiveShell>), MachineError> {
        Ok((self.call_lock.lock().await, self.open().await?))
    }

    /// Presses keys and captures the screen after it has settled.
    pub(crate) async fn send_keys(
        &self,
        keys: &str,
        capture: &mut Capture<'_>,
        call: &CallId,
        cancel: &CancellationToken,
    ) -> Result<CallEnd, CallError> {
        let (_turn, live) = until_cancelled(cancel, self.begin_call()).await??;
        let mut using = TerminalCall { terminal: self, live: &live, call, cancel, no_secret: None };
        using.prepare(capture).await?;
        self.check_place(&live, TerminalUse::Keys, call).await?;
        let mut notes = using.press_keys(keys).await?;
        using.show_screen(capture, |state| state.shared_text());
        notes.push(using.screen_as_line());
        let status = if cancel.is_cancelled() { Status::Cancelled } else { Status::Ok };
        Ok(CallEnd { status, exit_code: None, notes })
    }
}

async fn until_cancelled<T>(
    cancel: &CancellationToken,
    work: impl Future<Output = T>,
) -> Result<T, MachineError> {
    tokio::select! {
        () = cancel.cancelled() => Err(MachineError::Cancelled),
        done = work => Ok(done),
    }
}

impl TerminalCall<'_> {
    /// Waits until no person is in control, and then adds notices about the events since the last call to the output in
    /// `capture`. Fails if a prompt for a secret is open.
    async fn prepare(&mut self, capture: &mut Capture<'_>) -> Result<(), CallError> {
        let free = async {
            while self.terminal.holder().is_some() {
                sleep(POLL_INTERVAL).await;
            }
        };
        until_cancelled(self.cancel, free).await?;
        for news in
            [self.terminal.take_notice().await, self.terminal.take_typed_notice()].into_iter().flatten()
        {
            capture.take(format!("[{news}]\n").as_bytes());
        }
        self.live.until(PROMPT_WAIT, |inner| (!inner.awaits_prompt()).then_some(())).await;
        if let Some(open) = self.open_secret_prompt().await {
            let prompt = open.prompt.clone();
            let told = match self.terminal.ask_for_secret(self.live, open, self.call, self.cancel).await {
                SecretPromptOutcome::Cancelled => return Err(MachineError::Cancelled.into()),
                SecretPromptOutcome::NotASecret => {
                    self.no_secret = Some(prompt);
                    return Ok(());
                }
                SecretPromptOutcome::Refused => "no one answered the prompt; stopped with Ctrl+C",
                SecretPromptOutcome::Closed { entered: true } => ENTERED,
                SecretPromptOutcome::Closed { entered: false } => "the prompt closed without an answer",
            };
            self.settle(false).await;
            let screen = self.live.state().shared_text();
            return Err(CallError::Refused(format!(
                "nothing was typed: a program is waiting for a secret, which only the user may enter ({told}). Current \
                 screen:\n{screen}"
            )));
        }
        Ok(())
    }

    /// Returns the prompt for a secret during which nothing may be typed, or `None` if no such prompt is open. A new
    /// prompt is observed for a moment, because programs also turn echo off briefly. The echo mode of a remote terminal
    /// is queried at once, because a prompt that is not recognized would receive the text that is typed.
    async fn open_secret_prompt(&self) -> Option<SecretPrompt> {
        let mut hidden_since = None;
        loop {
            let mut open = self.terminal.open_secret(self.live).await;
            let mut waits = secret_prompt(self.live).is_some();
            if open.is_none() && self.terminal.remote_echo(self.live).await == Some(Echo::Off) {
                let since = *hidden_since.get_or_insert_with(Instant::now);
                waits = true;
                open = (since.elapsed() >= OPEN_FOR).then(|| SecretPrompt {
                    kind: QuestionKind::Secret,
                    prompt: self.live.state().screen.line_to_cursor().trim().to_owned(),
                });
            }
            if let Some(open) = open {
                let known = self.no_secret.as_ref() == Some(&open.prompt);
                return (!known).then_some(open);
            }
            if !waits || self.cancel.is_cancelled() {
                return None;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Makes sure that a shell is at its prompt, or fails.
    async fn ensure_prompt(&self) -> Result<(), CallError> {
        let live = self.live;
        let is_ready = |inner: &mut TerminalState| (inner.ready && !inner.dirty).then_some(());
        let wait = |limit| live.until(limit, is_ready);
        let interrupted = live.state().dirty;
        if interrupted {
            // A person has typed part of a line, which must not become part of the command.
            live.state().ready = false;
            live.send(vec![0x03]);
            if wait(PROMPT_WAIT).await.is_none() {
                // The interrupt may have discarded the end of a paste, so that later input would count as pasted.
                if live.state().screen.takes_paste() {
                    live.send(PASTE_END.to_vec());
                    sleep(SETTLED).await;
                }
                // An interrupt may be lost if it coincides with another, or if the shell is about to read.
                live.send(vec![0x03]);
            }
        }
        if live.state().shells.is_empty() {
            let at_rest = |inner: &mut TerminalState| self.is_blind_end(inner).then_some(());
            if live.until(PROMPT_WAIT, at_rest).await.is_some() {
                return Ok(());
            }
            return Err(self.busy());
        }
        if wait(PROMPT_WAIT).await.is_some() {
            if interrupted {
                self.wait_for_silence().await;
            }
            return Ok(());
        }
        if self.has_lost_marks().await && set_up_again(live).await {
            return Ok(());
        }
        if self.enter_nested(None).await.is_some() {
            return Ok(());
        }
        Err(self.busy())
    }

    /// Waits until the shell is silent. Each interrupt produces a prompt, and a prompt that comes late would look like
    /// the reaction to the next command.
    async fn wait_for_silence(&self) {
        let begun = Instant::now();
        while begun.elapsed() < PROMPT_WAIT {
            let left = SETTLED.saturating_sub(self.live.state().printed.elapsed());
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }

    fn busy(&self) -> CallError {
        let screen = self.live.state().shared_text();
        CallError::Refused(format!(
            "nothing ran: a program is still running in the terminal. Answer it or end it with send_keys (for example \
             Ctrl+C, q, or `exit` for a shell), then run the command. Current screen:\n{screen}"
        ))
    }

    /// Types a command and waits until the shell accepts it. Otherwise interrupts the line in time.
    async fn type_command(&self, command: &str, guarded: bool) -> LineAcceptance {
        let nonce = random_key();
        let (key, kind) = {
            let mut inner = self.live.state();
            let Some(shell) = inner.shells.last() else { return LineAcceptance::Rejected };
            let found = (shell.key.clone(), shell.kind);
            inner.capture = Some(CommandCapture::new(Some(nonce.clone())));
            found
        };
        let mut lines = shells::lines(kind, &nonce, command, guarded);
        let last = lines.pop().unwrap_or_default();
        for line in lines {
            self.live.type_line(
                &line,
                HiddenInput { until: HiddenInputEnd::PromptReady(key.clone()), shown: String::new() },
            );
            let taken = self.live.until(TAKEN_WAIT_MAX, |inner| inner.ready.then_some(())).await;
            if taken.is_none() {
                self.retract_line();
                return LineAcceptance::Unknown;
            }
        }
        self.live.state().model_command = Some(command.to_owned());
        self.live.type_line(
            &last,
            HiddenInput { until: HiddenInputEnd::CommandStarted(nonce), shown: command.to_owned() },
        );
        let begun = self.live.until(TAKEN_WAIT_MAX, |inner| {
            let begun = inner.capture.as_ref().is_some_and(|capture| capture.begun);
            (begun || inner.ready || inner.ended.is_some()).then_some(begun || inner.ended.is_some())
        });
        match begun.await {
            Some(true) => return LineAcceptance::Accepted,
            Some(false) => {}
            None => {
                self.retract_line();
                return LineAcceptance::Unknown;
            }
        }
        self.live.state().hidden = None;
        LineAcceptance::Rejected
    }

    /// Interrupts a line that we typed, or deletes the line if the shell has not read it yet.
    fn retract_line(&self) {
        {
            let mut inner = self.live.state();
            inner.hidden = None;
            // Part of the line may still be there when the next command is typed.
            inner.dirty = true;
        }
        self.live.send(vec![0x03, KILL_LINE]);
    }

    /// Captures the output of the typed command until it ends, times out, is canceled, or hands the terminal over.
    async fn follow(&mut self, command: &str, limit: Duration, capture: &mut Capture<'_>) -> CallEnd {
        let mut changes = self.live.changes();
        let mut taken = Vec::new();
        let mut left = limit;
        let mut looked = Instant::now();
        let mut noted = None;
        loop {
            changes.mark_unchanged();
            self.live.captured(&mut taken);
            capture.take(&taken);
            capture.settle().await;
            if let Some(end) = self.ended() {
                let mut end = self.after_shell_exit(end).await;
                end.notes.splice(0..0, noted);
                return end;
            }
            if self.cancel.is_cancelled() {
                return self.stop().await;
            }
            match self.secret(&mut noted).await {
                None => {}
                Some(SecretPromptOutcome::Cancelled) => return self.stop().await,
                Some(_) => {
                    looked = Instant::now();
                    continue;
                }
            }
            if let Some(end) = self.detect_handover(command, capture).await {
                return end;
            }
            let now = Instant::now();
            if self.terminal.holder().is_none() {
                left = left.saturating_sub(now - looked);
            }
            looked = now;
            if left.is_zero() {
                return self.timed_out(limit, capture);
            }
            self.wait(&mut changes, capture).await;
        }
    }

    /// Waits up to `POLL_INTERVAL` for a change, then displays output that is due.
    async fn wait(&self, changes: &mut tokio::sync::watch::Receiver<u64>, capture: &mut Capture<'_>) {
        let look = Instant::now() + POLL_INTERVAL;
        let due = capture.display_due();
        tokio::select! {
            () = self.cancel.cancelled() => {}
            _ = changes.changed() => {}
            () = sleep_until(due.unwrap_or(look).min(look)) => {}
        }
        if due.is_some_and(|due| Instant::now() >= due) {
            capture.display();
        }
    }

    /// Waits for the exit of fish, which reports the end of `exit` like the end of any other command before it exits.
    async fn after_shell_exit(&self, end: CallEnd) -> CallEnd {
        if self.live.state().shell_kind() == Some(ShellKind::Fish) {
            self.live
                .until(FISH_WAIT_MAX, |inner| (inner.ready || inner.ended.is_some()).then_some(()))
                .await;
        }
        self.ended().unwrap_or(end)
    }

    fn ended(&self) -> Option<CallEnd> {
        let inner = self.live.state();
        let Some(ended) = inner.ended else {
            return Some(match inner.capture.as_ref()?.done? {
                CommandEnd::Exited(code) => CallEnd::exited(code),
                CommandEnd::MarkLost => CallEnd::new(Status::Unknown, EXIT_CODE_LOST),
                CommandEnd::ShellLeft => CallEnd::new(Status::Unknown, INNER_SHELL_ENDED),
            });
        };
        let next = format!("{ended}; the next call opens a new one");
        Some(match ended {
            ShellEnd::Exited(255) if self.live.remote_host.is_some() => {
                CallEnd::new(Status::Unknown, format!("{CONNECTION_ENDED}{next}"))
            }
            ShellEnd::Exited(code) => CallEnd { notes: vec![next], ..CallEnd::exited(code) },
            ShellEnd::Killed(_) => CallEnd::new(Status::Failed, next),
            ShellEnd::Unknown => CallEnd::new(Status::Unknown, next),
        })
    }

    /// Handles an open prompt for a secret, if any.
    async fn secret(&mut self, noted: &mut Option<String>) -> Option<SecretPromptOutcome> {
        let open = self.terminal.open_secret(self.live).await?;
        if self.no_secret.as_ref() == Some(&open.prompt) {
            return None;
        }
        let prompt = open.prompt.clone();
        let attended = self.terminal.ask_for_secret(self.live, open, self.call, self.cancel).await;
        match attended {
            SecretPromptOutcome::NotASecret => self.no_secret = Some(prompt),
            SecretPromptOutcome::Refused => {
                *noted = Some("no one entered the requested secret; stopped with Ctrl+C".to_owned());
                let refused = |inner: &mut TerminalState| {
                    let done = inner.capture.as_ref().is_none_or(|capture| capture.done.is_some());
                    (done || inner.ended.is_some()).then_some(())
                };
                self.live.until(2 * INTERRUPT_WAIT, refused).await;
            }
            SecretPromptOutcome::Closed { .. } | SecretPromptOutcome::Cancelled => {}
        }
        Some(attended)
    }

    /// Checks whether the running command has handed the terminal over to a full-screen program, a pager, a nested
    /// shell or a question. Also detects lost end marks.
    async fn detect_handover(&self, command: &str, capture: &mut Capture<'_>) -> Option<CallEnd> {
        if self.terminal.holder().is_some() {
            return None;
        }
        let (full, line, column, still) = {
            let inner = self.live.state();
            let still = Instant::now().saturating_duration_since(inner.printed);
            // Reading the screen costs time, so it is avoided while much is printed.
            if still < FULL_SCREEN_QUIET {
                return None;
            }
            (inner.screen.is_full(), inner.screen.line_to_cursor(), inner.screen.cursor().1, still)
        };
        let told = if full && still >= FULL_SCREEN_QUIET {
            FULL_SCREEN_RUNS
        } else if full || still < PROGRAM_QUIET {
            return None;
        } else if is_pager(&line) {
            PAGER_IS_OPEN
        } else if self.has_lost_marks().await {
            set_up_again(self.live).await;
            return self.ended().or_else(|| Some(CallEnd::new(Status::Unknown, EXIT_CODE_LOST)));
        } else if let Some(kind) = self.enter_nested(Some(command)).await {
            return Some(CallEnd::new(Status::Unknown, nested_shell_note(kind.name())));
        } else if column > 0 && still >= QUESTION_QUIET && (self.live.is_raw() || is_question(&line)) {
            WAITS_FOR_ANSWER
        } else {
            return None;
        };
        // The captured output already ends with a question that was written as a line.
        if told != WAITS_FOR_ANSWER || !is_question(&line) {
            self.show_screen(capture, TerminalState::screen_of_command);
        }
        Some(CallEnd::new(Status::Unknown, told))
    }

    fn timed_out(&self, limit: Duration, capture: &mut Capture<'_>) -> CallEnd {
        self.show_screen(capture, TerminalState::screen_of_command);
        let note = format!(
            "the command is still running after {} s; check again, send input with send_keys, or stop it with Ctrl+C",
            limit.as_secs()
        );
        CallEnd::new(Status::Timeout, note)
    }

    /// Interrupts the running program. Captured output is kept.
    async fn stop(&self) -> CallEnd {
        for _ in 0..INTERRUPTS {
            self.live.send(vec![0x03]);
            let over = self.live.until(INTERRUPT_WAIT, |inner| {
                let done = inner.capture.as_ref().is_none_or(|capture| capture.done.is_some());
                let blind = inner.shells.is_empty() && self.is_blind_end(inner);
                (done || blind || inner.ended.is_some()).then_some(())
            });
            if over.await.is_some() {
                return CallEnd::new(Status::Cancelled, "stopped");
            }
        }
        let note =
            "the call was stopped, but the program ignored Ctrl+C and is still running in the terminal";
        CallEnd::new(Status::Cancelled, note)
    }

    /// Returns true if the shell is at its prompt but its marks were lost. For a remote shell, the remote machine is
    /// queried without using the terminal.
    async fn has_lost_marks(&self) -> bool {
        let (kind, process) = {
            let inner = self.live.state();
            let Some(kind) = inner.shell_kind() else { return false };
            let prompt = inner.screen.takes_paste() || is_prompt(&inner.screen.line_to_cursor());
            let at_rest = !inner.ready
                && inner.hidden.is_none()
                && inner.ended.is_none()
                && quiet(&inner, PROGRAM_QUIET);
            if inner.shells.len() != 1 || !at_rest || !prompt {
                return false;
            }
            (kind, inner.shell_process())
        };
        let (in_front, is_raw) = if self.live.remote_host.is_none() {
            (self.live.shell_in_front() == Some(true), self.live.is_raw())
        } else {
            let Some((tty, shell)) = process else { return false };
            let Some(found) = self.terminal.machine.foreground(&tty, shell).await else { return false };
            (found.is_shell, found.is_raw)
        };
        // The marks may have arrived in the meantime.
        in_front && (!kind.has_line_editor() || is_raw) && !self.live.state().ready
    }

    /// Installs our hooks in a nested shell that is at its prompt. Returns the kind of the shell, or `None` if there is
    /// no such shell.
    async fn enter_nested(&self, command: Option<&str>) -> Option<ShellKind> {
        let (prompt, paste) = {
            let inner = self.live.state();
            if inner.ready || inner.hidden.is_some() || inner.ended.is_some() || inner.screen.is_full() {
                return None;
            }
            (is_prompt(&inner.screen.line_to_cursor()), inner.screen.takes_paste())
        };
        if self.live.remote_host.is_none()
            && let Some(kind) = interactive_shell(self.live)
        {
            let reads = if kind.has_line_editor() { self.live.is_raw() && (paste || prompt) } else { prompt };
            return if reads && set_up(self.live, kind).await { Some(kind) } else { None };
        }
        let asks_shell =
            command.is_some_and(opens_shell) && prompt && quiet(&self.live.state(), 2 * PROGRAM_QUIET);
        if asks_shell { identify_and_set_up(self.live).await } else { None }
    }

    /// Types a command into a shell without marks. The typed line makes `sh` run the command.
    fn type_blind(&self, command: &str, guarded: bool) -> Result<(), CallError> {
        let nonce = random_key();
        let line = shells::beside(&nonce, command, guarded).ok_or_else(|| {
            let long = "the command is too long for this shell; write it to a file first";
            CallError::Refused(long.to_owned())
        })?;
        {
            let mut inner = self.live.state();
            inner.capture = Some(CommandCapture::new(Some(nonce.clone())));
            inner.blind_key = Some(nonce.clone());
            inner.model_command = Some(command.to_owned());
            inner.printed = Instant::now();
        }
        let hidden = HiddenInput { until: HiddenInputEnd::CommandStarted(nonce), shown: command.to_owned() };
        self.live.type_line(&line, hidden);
        Ok(())
    }

    /// Shows output to watchers again, in case the shell did not run the line that `type_blind` typed. The start of
    /// that line would have ended the hiding.
    fn reveal_blind(&self) {
        let mut inner = self.live.state();
        inner.hidden = None;
        inner.blind_key = None;
    }

    /// Captures the output of a shell that does not report its commands, until it appears to be at its prompt again.
    async fn follow_blind(&mut self, limit: Duration, capture: &mut Capture<'_>) -> CallEnd {
        let mut changes = self.live.changes();
        let mut taken = Vec::new();
        let deadline = Instant::now() + limit;
        let mut noted = None;
        let mut looks = 0;
        loop {
            changes.mark_unchanged();
            self.live.captured(&mut taken);
            capture.take(&taken);
            capture.settle().await;
            if let Some(end) = self.ended() {
                return end;
            }
            if self.cancel.is_cancelled()
                || self.secret(&mut noted).await == Some(SecretPromptOutcome::Cancelled)
            {
                return self.stop().await;
            }
            let waits = self.live.shell_waits();
            looks = if is_blind_rest(&self.live.state(), waits, POLL_INTERVAL) { looks + 1 } else { 0 };
            if looks > if waits.is_some() { BLIND_POLLS } else { 2 * BLIND_POLLS } {
                self.reveal_blind();
                let note = "exit code unknown: this shell does not report it";
                return CallEnd {
                    notes: noted.into_iter().chain([note.to_owned()]).collect(),
                    ..CallEnd::new(Status::Unknown, "")
                };
            }
            if Instant::now() >= deadline {
                self.reveal_blind();
                return self.timed_out(limit, capture);
            }
            self.wait(&mut changes, capture).await;
        }
    }

    /// Returns true if a shell without marks appears to be at its prompt.
    fn is_blind_end(&self, inner: &TerminalState) -> bool {
        let waits = self.live.shell_waits();
        is_blind_rest(inner, waits, if waits.is_some() { BLIND_QUIET } else { 2 * BLIND_QUIET })
    }

    /// Presses keys one line at a time, so that no key goes to a prompt for a secret that an earlier line opened.
    /// Returns notes for the model.
    async fn press_keys(&mut self, keys: &str) -> Result<Vec<String>, CallError> {
        let strokes = keys::parse(keys);
        if strokes.is_empty() {
            return Err(CallError::Refused("`keys` contains no key".to_owned()));
        }
        let mut notes = Vec::new();
        let mut at_shell = false;
        let lines: Vec<_> = strokes.split_inclusive(keys::is_enter).collect();
        for (index, line) in lines.iter().enumerate() {
            let mode = {
                let mut inner = self.live.state();
                let ends = line.last().is_some_and(keys::is_enter);
                at_shell |= inner.ready && ends;
                if inner.reads_commands() && !inner.dirty {
                    inner.private_use.end_silently();
                }
                if ends && inner.reads_commands() {
                    inner.model_command = Some(format!("keys: {keys}"));
                }
                inner.screen.key_mode()
            };
            let bytes: Vec<u8> = line.iter().flat_map(|stroke| keys::encode(stroke, mode)).collect();
            self.live.state().typed(&bytes);
            self.live.send(bytes);
            let last = index + 1 == lines.len();
            let entered = self.settle(at_shell && last).await;
            if at_shell && !last {
                self.wait_for_line_taken().await;
            }
            notes.extend(entered.into_iter().map(str::to_owned));
            if self.cancel.is_cancelled() {
                break;
            }
            if !last && (entered.is_some() || self.open_secret_prompt().await.is_some()) {
                notes.push("the remaining keys were not sent: a program asked for a secret".to_owned());
                break;
            }
        }
        Ok(notes)
    }

    /// Waits until the shell has started the command of the typed line, because only then the terminal shows the modes
    /// that the command sets.
    async fn wait_for_line_taken(&self) {
        let begun = |inner: &mut TerminalState| {
            let edits = self.live.is_raw() && self.live.shell_in_front() == Some(true);
            (inner.ready || inner.screen.is_full() || inner.ended.is_some() || !edits).then_some(())
        };
        self.live.until(PROMPT_WAIT, begun).await;
    }

    /// Waits until the screen has settled and handles prompts for secrets. Returns a note on the last prompt, if any.
    async fn settle(&mut self, command: bool) -> Option<&'static str> {
        let begun = Instant::now();
        let prints = self.live.state().prints;
        let mut waited = Duration::ZERO;
        let mut told = None;
        let mut changes = self.live.changes();
        loop {
            let silent = {
                let inner = self.live.state();
                let since = inner.printed.max(begun + waited);
                let at_rest = !command || inner.ready || inner.screen.is_full() || inner.ended.is_some();
                let enough = match at_rest || (self.live.is_raw() && self.live.shell_in_front() != Some(true))
                {
                    true if inner.prints == prints => SETTLED_UNSEEN,
                    true => SETTLED,
                    false => SETTLED_COMMAND,
                };
                Instant::now().saturating_duration_since(since) >= enough
            };
            let asked = Instant::now();
            let mut noted = None;
            match self.secret(&mut noted).await {
                None => {}
                Some(SecretPromptOutcome::Cancelled) => return told,
                Some(attended) => {
                    waited += asked.elapsed();
                    told = match attended {
                        SecretPromptOutcome::Closed { entered: true } => Some(ENTERED),
                        SecretPromptOutcome::Refused => {
                            Some("no one entered the secret; stopped with Ctrl+C")
                        }
                        SecretPromptOutcome::Closed { entered: false }
                        | SecretPromptOutcome::NotASecret
                        | SecretPromptOutcome::Cancelled => told,
                    };
                    continue;
                }
            }
            if silent || begun.elapsed() >= KEYS_WAIT_MAX + waited || self.cancel.is_cancelled() {
                return told;
            }
            tokio::select! {
                () = self.cancel.cancelled() => {}
                _ = changes.changed() => {}
                () = sleep(POLL_INTERVAL) => {}
            }
        }
    }

    fn show_screen(&self, capture: &mut Capture<'_>, text: fn(&mut TerminalState) -> String) {
        let mut taken = Vec::new();
        self.live.captured(&mut taken);
        capture.take(&taken);
        let screen = text(&mut self.live.state());
        capture.take(format!("{screen}\n").as_bytes());
    }

    fn screen_as_line(&self) -> String {
        let inner = self.live.state();
        let (row, column) = inner.shared_cursor();
        let what = match (&inner.ended, inner.ready, inner.screen.is_full()) {
            (Some(ended), ..) => return format!("{ended}; the next call opens a new one"),
            (None, true, _) => "the shell is at its prompt",
            (None, false, _) if inner.private_use.is_on() && !inner.shells.is_empty() => {
                "a program started by the user is running; its output is private unless the user shares it"
            }
            (None, false, true) => "a full-screen program is running",
            (None, false, false) if inner.shells.is_empty() => "it is unknown whether a program is running",
            (None, false, false) => "a program is running",
        };
        format!("current screen; cursor in row {}, column {}; {what}", row + 1, column + 1)
    }
}
