//! What the model does in the terminal: runs a command to its end, and presses keys.
//!
//! The end of a command is believed only with its own nonce. Where no mark can come, the call ends with what is
//! known, and never with an exit code that nobody saw.

use std::time::Duration;

use sysop_core::id::CallId;
use sysop_core::outcome::Status;
use sysop_core::question::QuestionKind;
use sysop_driver::port::CancellationToken;
use tokio::time::{Instant, sleep, sleep_until};

use super::live::{KILL_LINE, Live};
use super::looks::{is_pager, is_question, opens_shell};
use super::open::{ask_and_set_up, is_prompt, kind_of_process, quiet, set_up, set_up_again};
use super::secret::{Attended, ENTERED, OPEN_FOR, OpenPrompt, secret_prompt};
use super::shells::{self, ShellKind};
use super::state::{Capturing, Done, Ended, Hidden, Inner, Until, random_key};
use super::unfinished::unfinished;
use super::{SharedTerminal, keys};
use crate::machine::{Echo, MachineError};
use crate::output::capture::Capture;

/// How long a shell has to come back to its prompt after a command.
const PROMPT_WAIT: Duration = Duration::from_secs(1);
/// How long it has to take a line of ours.
const TAKEN_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long an interrupted program has to end.
const INTERRUPT_WAIT: Duration = Duration::from_millis(700);
/// How long fish has between the end of a command and its prompt, or its own end.
const FISH_WAIT_MAX: Duration = Duration::from_millis(1500);
/// How often it is interrupted: the system drops what is on its way when it passes Ctrl+C on, marks as well.
const INTERRUPTS: usize = 3;
/// How long a screen does not change that has settled.
const SETTLED: Duration = Duration::from_millis(100);
/// The same where the keys have changed nothing yet.
const SETTLED_UNSEEN: Duration = Duration::from_millis(300);
/// The same while a command runs that was just begun by keys.
const SETTLED_COMMAND: Duration = Duration::from_millis(1000);
/// How long keys are waited for.
const KEYS_WAIT_MAX: Duration = Duration::from_secs(3);
/// How long a program that has the whole screen draws its first picture.
const FULL_SCREEN_QUIET: Duration = Duration::from_millis(250);
/// How long a program is silent that is at a prompt of its own.
const PROGRAM_QUIET: Duration = Duration::from_millis(400);
/// How long a program is silent that asks something in the middle of a line.
const QUESTION_QUIET: Duration = Duration::from_secs(3);
/// How long a shell is silent whose commands have no marks.
const BLIND_QUIET: Duration = Duration::from_millis(500);
/// How often in a row, each `LOOK`, it is seen silent after a command. Looks and no time: on a busy
/// machine much time may pass in which neither that shell nor this process gets to run.
const BLIND_LOOKS: u32 = 25;
/// What ends a paste.
const PASTE_END: &[u8] = b"\x1b[201~";
/// How often it is looked at what tells of no change by itself.
const LOOK: Duration = Duration::from_millis(20);

/// How a call ended.
#[derive(Debug)]
pub(crate) struct CallEnd {
    pub(crate) status: Status,
    pub(crate) exit_code: Option<i32>,
    /// What is said below the output, a line each.
    pub(crate) notes: Vec<String>,
}

/// Why a call did nothing.
#[derive(Debug)]
pub(crate) enum Answered {
    Machine(MachineError),
    Refused(String),
}

impl From<MachineError> for Answered {
    fn from(error: MachineError) -> Self {
        Self::Machine(error)
    }
}

impl CallEnd {
    fn new(status: Status, note: impl Into<String>) -> Self {
        Self { status, exit_code: None, notes: vec![note.into()] }
    }

    fn exited(code: i32) -> Self {
        let status = if code == 0 { Status::Ok } else { Status::Failed };
        Self { status, exit_code: Some(code), notes: vec![format!("exit code {code}")] }
    }
}

/// Whether the shell took a line of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Yes,
    No,
    /// It said nothing in time: the line may be on its way to it.
    Unknown,
}

/// One call's use of the terminal.
struct Use<'a> {
    terminal: &'a SharedTerminal,
    live: &'a Live,
    call: &'a CallId,
    cancel: &'a CancellationToken,
    /// A prompt that a person said is none for a secret.
    no_secret: Option<String>,
}

/// Ends a capture whose call was dropped, and what it captured.
struct Open<'a>(&'a Live);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.0.inner().capture.is_some() {
            self.0.end_capture();
            self.0.send(vec![0x03]);
        }
    }
}

impl SharedTerminal {
    /// Runs a command in the shell that is at its prompt; ends with it, or after `limit` without it.
    pub(crate) async fn run_command(
        &self,
        command: &str,
        limit: Duration,
        capture: &mut Capture<'_>,
        call: &CallId,
        cancel: &CancellationToken,
    ) -> Result<CallEnd, Answered> {
        let begin = async {
            let turn = self.turn.lock().await;
            let live = self.open().await?;
            Ok::<_, MachineError>((turn, live))
        };
        let (_turn, live) = until_cancelled(cancel, begin).await??;
        let mut using = Use { terminal: self, live: &live, call, cancel, no_secret: None };
        using.prepare(capture).await?;
        using.at_prompt().await?;
        let _open = Open(&live);
        let kind = live.inner().shell_kind();
        if kind.is_some_and(|kind| kind != ShellKind::Fish)
            && let Some(what) = unfinished(command)
        {
            return Err(Answered::Refused(format!("incomplete command: {what}; nothing was run")));
        }
        let blind = kind.is_none();
        let end = if blind {
            using.type_blind(command);
            using.follow_blind(limit, capture).await
        } else {
            match using.type_command(command).await {
                Taken::Yes => using.follow(command, limit, capture).await,
                Taken::No => CallEnd::new(
                    Status::Unknown,
                    "the shell did not take the command; look at the screen with send_keys",
                ),
                Taken::Unknown => CallEnd::new(
                    Status::Unknown,
                    "nobody knows whether the shell took the command; it may still run. It was sent Ctrl+C; look at \
                     what it has done before you run it again",
                ),
            }
        };
        capture.take(&live.end_capture());
        Ok(end)
    }

    /// Presses keys and shows the screen when it has settled.
    pub(crate) async fn send_keys(
        &self,
        keys: &str,
        capture: &mut Capture<'_>,
        call: &CallId,
        cancel: &CancellationToken,
    ) -> Result<CallEnd, Answered> {
        let begin = async {
            let turn = self.turn.lock().await;
            let live = self.open().await?;
            Ok::<_, MachineError>((turn, live))
        };
        let (_turn, live) = until_cancelled(cancel, begin).await??;
        let mut using = Use { terminal: self, live: &live, call, cancel, no_secret: None };
        using.prepare(capture).await?;
        let mut notes = using.press(keys).await?;
        using.show_screen(capture);
        notes.push(using.standing());
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

impl Use<'_> {
    /// Waits for the control and tells what happened since the last call. Refuses where a secret is asked for.
    async fn prepare(&mut self, capture: &mut Capture<'_>) -> Result<(), Answered> {
        let free = async {
            while self.terminal.holder().is_some() {
                sleep(LOOK).await;
            }
        };
        until_cancelled(self.cancel, free).await?;
        for news in [self.terminal.news().await, self.terminal.typed_news()].into_iter().flatten() {
            capture.take(format!("[{news}]\n").as_bytes());
        }
        self.live.until(PROMPT_WAIT, |inner| (!inner.is_between()).then_some(())).await;
        if let Some(open) = self.guarding().await {
            let prompt = open.prompt.clone();
            let told = match self.terminal.attend_secret(self.live, open, self.call, self.cancel).await {
                Attended::Cancelled => return Err(MachineError::Cancelled.into()),
                Attended::NoSecret => {
                    self.no_secret = Some(prompt);
                    return Ok(());
                }
                Attended::Refused => "nobody entered it; it was stopped with Ctrl+C",
                Attended::Over { entered: true } => ENTERED,
                Attended::Over { entered: false } => "that is over",
            };
            self.settle(false).await;
            let screen = self.live.inner().screen.text();
            return Err(Answered::Refused(format!(
                "nothing was typed: a program waited for a secret, which only a person may enter ({told}). The screen \
                 now:\n{screen}"
            )));
        }
        Ok(())
    }

    /// A prompt for a secret to which nothing may be typed now. One that has just come is waited out: it may be a
    /// program's that only turns the echo off for a moment. A far terminal is asked at once: what is typed into it
    /// while it is silent would be gone.
    async fn guarding(&self) -> Option<OpenPrompt> {
        let mut hidden_since = None;
        loop {
            let mut open = self.terminal.open_secret(self.live).await;
            let mut waits = secret_prompt(self.live).is_some();
            if open.is_none() && self.terminal.far_echo(self.live).await == Some(Echo::Hidden) {
                let since = *hidden_since.get_or_insert_with(Instant::now);
                waits = true;
                open = (since.elapsed() >= OPEN_FOR).then(|| OpenPrompt {
                    kind: QuestionKind::Secret,
                    prompt: self.live.inner().screen.line_to_cursor().trim().to_owned(),
                });
            }
            if let Some(open) = open {
                let known = self.no_secret.as_ref() == Some(&open.prompt);
                return (!known).then_some(open);
            }
            if !waits || self.cancel.is_cancelled() {
                return None;
            }
            sleep(LOOK).await;
        }
    }

    /// Makes sure that a shell reads.
    async fn at_prompt(&self) -> Result<(), Answered> {
        let live = self.live;
        let is_ready = |inner: &mut Inner| (inner.ready && !inner.dirty).then_some(());
        let wait = |limit| live.until(limit, is_ready);
        let interrupted = live.inner().dirty;
        if interrupted {
            // Half a line of somebody's stands there; it must not become a part of the command.
            live.inner().ready = false;
            live.send(vec![0x03]);
            if wait(PROMPT_WAIT).await.is_none() {
                // An interrupt may have thrown away the end of a paste, and what comes then is taken for more of it.
                if live.inner().screen.takes_paste() {
                    live.send(PASTE_END.to_vec());
                    sleep(SETTLED).await;
                }
                // One that meets another, or a shell that is about to read, may be lost.
                live.send(vec![0x03]);
            }
        }
        if live.inner().shells.is_empty() {
            let at_rest = |inner: &mut Inner| self.is_blind_end(inner).then_some(());
            if live.until(PROMPT_WAIT, at_rest).await.is_some() {
                return Ok(());
            }
            return Err(self.busy());
        }
        if wait(PROMPT_WAIT).await.is_some() {
            if interrupted {
                self.silence().await;
            }
            return Ok(());
        }
        if self.is_lost() && set_up_again(live).await {
            return Ok(());
        }
        if self.enter_nested(None).await.is_some() {
            return Ok(());
        }
        Err(self.busy())
    }

    /// Waits until the shell is silent: each interrupt brings a prompt of its own, and one that comes late would look
    /// like the answer to the command that is typed next.
    async fn silence(&self) {
        let begun = Instant::now();
        while begun.elapsed() < PROMPT_WAIT {
            let left = SETTLED.saturating_sub(self.live.inner().printed.elapsed());
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }

    fn busy(&self) -> Answered {
        let screen = self.live.inner().screen.text();
        Answered::Refused(format!(
            "nothing was run: a program still runs in the terminal. Answer it or end it with send_keys (as in Ctrl+C or \
             q), then run the command. The screen now:\n{screen}"
        ))
    }

    /// Types a command; says whether the shell took it. What is still on its way is followed by what stops it.
    async fn type_command(&self, command: &str) -> Taken {
        let nonce = random_key();
        let (key, kind) = {
            let mut inner = self.live.inner();
            let Some(shell) = inner.shells.last() else { return Taken::No };
            let found = (shell.key.clone(), shell.kind);
            inner.capture = Some(Capturing::new(Some(nonce.clone())));
            found
        };
        let mut lines = shells::lines(kind, &nonce, command);
        let last = lines.pop().unwrap_or_default();
        for line in lines {
            self.live.type_line(&line, Hidden { until: Until::Ready(key.clone()), shown: String::new() });
            let taken = self.live.until(TAKEN_WAIT_MAX, |inner| inner.ready.then_some(())).await;
            if taken.is_none() {
                self.take_back();
                return Taken::Unknown;
            }
        }
        self.live.type_line(&last, Hidden { until: Until::Begun(nonce), shown: command.to_owned() });
        let begun = self.live.until(TAKEN_WAIT_MAX, |inner| {
            let begun = inner.capture.as_ref().is_some_and(|capture| capture.begun);
            (begun || inner.ready || inner.ended.is_some()).then_some(begun || inner.ended.is_some())
        });
        match begun.await {
            Some(true) => return Taken::Yes,
            Some(false) => {}
            None => {
                self.take_back();
                return Taken::Unknown;
            }
        }
        self.live.inner().hidden = None;
        Taken::No
    }

    /// Sends after a line of ours what interrupts it, or takes it away where it was not read.
    fn take_back(&self) {
        {
            let mut inner = self.live.inner();
            inner.hidden = None;
            // Half of it may stand there when the next command is to be typed.
            inner.dirty = true;
        }
        self.live.send(vec![0x03, KILL_LINE]);
    }

    /// Takes the output of the command that was typed until it ends, or until there is something to be said.
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
                let mut end = self.with_shell(end).await;
                end.notes.splice(0..0, noted);
                return end;
            }
            if self.cancel.is_cancelled() {
                return self.stop().await;
            }
            match self.secret(&mut noted).await {
                None => {}
                Some(Attended::Cancelled) => return self.stop().await,
                Some(_) => {
                    looked = Instant::now();
                    continue;
                }
            }
            if let Some(end) = self.handed_over(command, capture).await {
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

    /// Waits for a change, a while at most, and displays what is due.
    async fn wait(&self, changes: &mut tokio::sync::watch::Receiver<u64>, capture: &mut Capture<'_>) {
        let look = Instant::now() + LOOK;
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

    /// fish tells the end of `exit` as that of any command, before its own.
    async fn with_shell(&self, end: CallEnd) -> CallEnd {
        if self.live.inner().shell_kind() == Some(ShellKind::Fish) {
            self.live
                .until(FISH_WAIT_MAX, |inner| (inner.ready || inner.ended.is_some()).then_some(()))
                .await;
        }
        self.ended().unwrap_or(end)
    }

    /// How the command ended, if it has.
    fn ended(&self) -> Option<CallEnd> {
        let inner = self.live.inner();
        let Some(ended) = inner.ended else {
            return Some(match inner.capture.as_ref()?.done? {
                Done::Code(code) => CallEnd::exited(code),
                Done::Lost => CallEnd::new(Status::Unknown, "the command ended, but its exit code was lost"),
                Done::Left => CallEnd::new(
                    Status::Unknown,
                    "the inner shell ended; commands now go to the one around it",
                ),
            });
        };
        let next = format!("{ended}; the next call opens a new one");
        Some(match ended {
            Ended::Exited(255) if self.live.far.is_some() => {
                CallEnd::new(Status::Unknown, format!("the connection ended; {next}"))
            }
            Ended::Exited(code) => CallEnd { notes: vec![next], ..CallEnd::exited(code) },
            Ended::Killed(_) => CallEnd::new(Status::Failed, next),
            Ended::Unknown => CallEnd::new(Status::Unknown, next),
        })
    }

    /// Sees to a prompt for a secret, where one is open.
    async fn secret(&mut self, noted: &mut Option<String>) -> Option<Attended> {
        let open = self.terminal.open_secret(self.live).await?;
        if self.no_secret.as_ref() == Some(&open.prompt) {
            return None;
        }
        let prompt = open.prompt.clone();
        let attended = self.terminal.attend_secret(self.live, open, self.call, self.cancel).await;
        match attended {
            Attended::NoSecret => self.no_secret = Some(prompt),
            Attended::Refused => {
                *noted = Some("nobody entered the secret that it asked for; stopped with Ctrl+C".to_owned());
                let refused = |inner: &mut Inner| {
                    let done = inner.capture.as_ref().is_none_or(|capture| capture.done.is_some());
                    (done || inner.ended.is_some()).then_some(())
                };
                self.live.until(2 * INTERRUPT_WAIT, refused).await;
            }
            Attended::Over { .. } | Attended::Cancelled => {}
        }
        Some(attended)
    }

    /// Whether the terminal is somebody else's before the command has ended: a full-screen program's, another
    /// shell's, one's that waits for an answer.
    async fn handed_over(&self, command: &str, capture: &mut Capture<'_>) -> Option<CallEnd> {
        if self.terminal.holder().is_some() {
            return None;
        }
        let (full, line, column, still) = {
            let inner = self.live.inner();
            let still = Instant::now().saturating_duration_since(inner.printed);
            // Looking at the screen while much is printed would hold that up.
            if still < FULL_SCREEN_QUIET {
                return None;
            }
            (inner.screen.is_full(), inner.screen.line_to_cursor(), inner.screen.cursor().1, still)
        };
        let told = if full && still >= FULL_SCREEN_QUIET {
            "a program has the whole screen and still runs; go on with send_keys, and end it before the next command"
        } else if full || still < PROGRAM_QUIET {
            return None;
        } else if is_pager(&line) {
            "a pager still shows its output; page with send_keys (Space), end it with q"
        } else if self.is_lost() {
            set_up_again(self.live).await;
            return self.ended().or_else(|| {
                Some(CallEnd::new(Status::Unknown, "the command ended, but its exit code was lost"))
            });
        } else if let Some(kind) = self.enter_nested(Some(command)).await {
            let note =
                format!("another shell ({}) runs inside; commands now go to it until `exit`", kind.name());
            return Some(CallEnd::new(Status::Unknown, note));
        } else if column > 0 && still >= QUESTION_QUIET && (self.live.is_raw() || is_question(&line)) {
            "it still runs and seems to wait for an answer; answer with send_keys"
        } else {
            return None;
        };
        self.show_screen(capture);
        Some(CallEnd::new(Status::Unknown, told))
    }

    fn timed_out(&self, limit: Duration, capture: &mut Capture<'_>) -> CallEnd {
        self.show_screen(capture);
        let note = format!(
            "it still runs after {} s; look again or answer with send_keys, end it with Ctrl+C",
            limit.as_secs()
        );
        CallEnd::new(Status::Timeout, note)
    }

    /// Interrupts what runs; what was captured stays.
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
        let note = "stopped; the program did not heed Ctrl+C and still runs in the terminal";
        CallEnd::new(Status::Cancelled, note)
    }

    /// Whether the shell is at its prompt without having told so: something took our marks away.
    fn is_lost(&self) -> bool {
        let inner = self.live.inner();
        let Some(kind) = inner.shell_kind() else { return false };
        let outermost = inner.shells.len() == 1;
        let prompt = inner.screen.takes_paste() || is_prompt(&inner.screen.line_to_cursor());
        let at_rest =
            !inner.ready && inner.hidden.is_none() && inner.ended.is_none() && quiet(&inner, PROGRAM_QUIET);
        drop(inner);
        outermost
            && at_rest
            && prompt
            && self.live.shell_in_front() == Some(true)
            && (!kind.edits() || self.live.is_raw())
    }

    /// Makes a shell tell that was started inside the one before, where one is at its prompt.
    async fn enter_nested(&self, command: Option<&str>) -> Option<ShellKind> {
        let (prompt, paste) = {
            let inner = self.live.inner();
            if inner.ready || inner.hidden.is_some() || inner.ended.is_some() || inner.screen.is_full() {
                return None;
            }
            (is_prompt(&inner.screen.line_to_cursor()), inner.screen.takes_paste())
        };
        if self.live.far.is_none()
            && let Some(kind) = interactive_shell(self.live)
        {
            let reads = if kind.edits() { self.live.is_raw() && (paste || prompt) } else { prompt };
            return if reads && set_up(self.live, kind).await { Some(kind) } else { None };
        }
        let asks_shell =
            command.is_some_and(opens_shell) && prompt && quiet(&self.live.inner(), 2 * PROGRAM_QUIET);
        if asks_shell { ask_and_set_up(self.live).await } else { None }
    }

    /// Types a command into a shell that cannot tell of it.
    fn type_blind(&self, command: &str) {
        let mut bytes = command.replace("\r\n", "\r").replace('\n', "\r").into_bytes();
        bytes.push(b'\r');
        {
            let mut inner = self.live.inner();
            inner.capture = Some(Capturing::new(None));
            inner.printed = Instant::now();
        }
        self.live.send(bytes);
    }

    /// Takes what a shell prints that cannot tell the end of a command, until it is at rest.
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
            if self.cancel.is_cancelled() || self.secret(&mut noted).await == Some(Attended::Cancelled) {
                return self.stop().await;
            }
            let waits = self.live.shell_waits();
            looks = if is_blind_rest(&self.live.inner(), waits, LOOK) { looks + 1 } else { 0 };
            if looks > if waits.is_some() { BLIND_LOOKS } else { 2 * BLIND_LOOKS } {
                let note = "exit code unknown: this shell cannot tell it";
                return CallEnd {
                    notes: noted.into_iter().chain([note.to_owned()]).collect(),
                    ..CallEnd::new(Status::Unknown, "")
                };
            }
            if Instant::now() >= deadline {
                return self.timed_out(limit, capture);
            }
            self.wait(&mut changes, capture).await;
        }
    }

    /// Whether a shell without marks seems to be at its prompt.
    fn is_blind_end(&self, inner: &Inner) -> bool {
        let waits = self.live.shell_waits();
        is_blind_rest(inner, waits, if waits.is_some() { BLIND_QUIET } else { 2 * BLIND_QUIET })
    }

    /// Presses keys one line at a time, so that none goes to a prompt for a secret that one of them opens.
    async fn press(&mut self, keys: &str) -> Result<Vec<String>, Answered> {
        let strokes = keys::parse(keys);
        if strokes.is_empty() {
            return Err(Answered::Refused("there is no key in `keys`".to_owned()));
        }
        let mut notes = Vec::new();
        let mut at_shell = false;
        let lines: Vec<_> = strokes.split_inclusive(is_enter).collect();
        for (index, line) in lines.iter().enumerate() {
            let mode = {
                let inner = self.live.inner();
                at_shell |= inner.ready && line.last().is_some_and(is_enter);
                inner.screen.key_mode()
            };
            let bytes: Vec<u8> = line.iter().flat_map(|stroke| keys::encode(stroke, mode)).collect();
            self.live.inner().typed(&bytes);
            self.live.send(bytes);
            let last = index + 1 == lines.len();
            let entered = self.settle(at_shell && last).await;
            if at_shell && !last {
                self.left_the_editor().await;
            }
            notes.extend(entered.into_iter().map(str::to_owned));
            if self.cancel.is_cancelled() {
                break;
            }
            if !last && (entered.is_some() || self.guarding().await.is_some()) {
                notes.push("the keys after that were not pressed: a program asked for a secret".to_owned());
                break;
            }
        }
        Ok(notes)
    }

    /// Waits until the shell has begun with the line that it was given: what its command does with the terminal is
    /// seen only then.
    async fn left_the_editor(&self) {
        let begun = |inner: &mut Inner| {
            let edits = self.live.is_raw() && self.live.shell_in_front() == Some(true);
            (inner.ready || inner.screen.is_full() || inner.ended.is_some() || !edits).then_some(())
        };
        self.live.until(PROMPT_WAIT, begun).await;
    }

    /// Waits until the screen has settled, and sees to a prompt for a secret; says what came of that one.
    async fn settle(&mut self, command: bool) -> Option<&'static str> {
        let begun = Instant::now();
        let prints = self.live.inner().prints;
        let mut waited = Duration::ZERO;
        let mut told = None;
        let mut changes = self.live.changes();
        loop {
            let silent = {
                let inner = self.live.inner();
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
                Some(Attended::Cancelled) => return told,
                Some(attended) => {
                    waited += asked.elapsed();
                    told = match attended {
                        Attended::Over { entered: true } => Some(ENTERED),
                        Attended::Refused => Some("nobody entered the secret; stopped with Ctrl+C"),
                        Attended::Over { entered: false } | Attended::NoSecret | Attended::Cancelled => told,
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
                () = sleep(LOOK) => {}
            }
        }
    }

    fn show_screen(&self, capture: &mut Capture<'_>) {
        let mut taken = Vec::new();
        self.live.captured(&mut taken);
        capture.take(&taken);
        let screen = self.live.inner().screen.text();
        capture.take(format!("{screen}\n").as_bytes());
    }

    /// What stands on the screen, in one line.
    fn standing(&self) -> String {
        let inner = self.live.inner();
        let (row, column) = inner.screen.cursor();
        let what = match (&inner.ended, inner.ready, inner.screen.is_full()) {
            (Some(ended), ..) => return format!("{ended}; the next call opens a new one"),
            (None, true, _) => "the shell is at its prompt",
            (None, false, true) => "a full-screen program runs",
            (None, false, false) if inner.shells.is_empty() => "nobody can tell whether a program runs",
            (None, false, false) => "a program runs",
        };
        format!("screen as it is now; cursor in row {}, column {}; {what}", row + 1, column + 1)
    }
}

fn is_enter(stroke: &keys::Stroke) -> bool {
    keys::encode(stroke, keys::KeyMode::default()).ends_with(b"\r")
}

/// Whether a shell without marks was silent so long, and is at its prompt as far as can be seen; `waits` is what the
/// system says of it.
fn is_blind_rest(inner: &Inner, waits: Option<bool>, silent: Duration) -> bool {
    quiet(inner, silent) && waits.unwrap_or_else(|| is_prompt(&inner.screen.line_to_cursor()))
}

/// The interactive shell that is in the foreground of a terminal of this machine, where it is not the first one.
fn interactive_shell(live: &Live) -> Option<ShellKind> {
    let front = live.foreground()?;
    if Some(front) == live.pid() {
        return None;
    }
    let pid = front.as_raw_nonzero().get();
    let kind = kind_of_process(pid)?;
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let interactive = line
        .split(|byte| *byte == 0)
        .skip(1)
        .filter(|argument| !argument.is_empty() && argument != b"sh" && argument != b"ash")
        .all(|argument| argument.starts_with(b"-") && argument != b"-c");
    interactive.then_some(kind)
}
