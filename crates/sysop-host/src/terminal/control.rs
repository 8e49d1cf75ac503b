//! Control of the terminal by people: decides who may type, and what is reported about people's typing.
//!
//! The agent waits from a person's first key until they release control, or until they pause for `LEASE` and the
//! terminal is back in the state in which they began. The typed text is never reported: the log receives the number of
//! keys and the duration, and the model learns only who typed and for how long. Typing is inspected only to detect
//! secrets, which are then redacted from later output.

use std::sync::{Arc, Weak};
use std::time::Duration;

use secrecy::SecretString;
use sysop_core::event::TypedInput;
use sysop_core::text::neutralize_line;
use tokio::time::{Instant, sleep_until};

use super::SharedTerminal;
use super::echo::{InputVisibility, ReportableInput, reportable_input};
use super::keys::typed_keys;
use super::live_shell::LiveShell;
use super::secret::secret_prompt;
use crate::machine::Echo;

/// Minimum time without a key before a person loses control.
const LEASE: Duration = Duration::from_secs(3);
/// Maximum pause within a stretch of typing. A stretch is classified as a whole: it is part of a secret or not.
const STRETCH: Duration = Duration::from_secs(1);
const STRETCH_BYTES_MAX: usize = 4096;
/// Maximum characters in one notice to the model about people's typing.
const NEWS_LETTERS_MAX: usize = 1000;

/// The person in control, and typing not yet reported.
#[derive(Default)]
pub(super) struct UserControl {
    holder: Option<ControlHolder>,
    /// Notices to report to the model with the next tool result.
    news: Vec<String>,
    /// Secrets typed into programs and not yet registered for redaction.
    entered: Vec<SecretString>,
    lease_watched: bool,
}

struct ControlHolder {
    by: String,
    last_key: Instant,
    /// True if the shell was at its prompt when the person took control.
    at_prompt: bool,
    /// Keys not yet reported to the log.
    keys: u64,
    /// Time of the first key that is not yet reported.
    first_key: Instant,
    /// Last typed bytes, kept until they are classified as secret or not.
    stretch: Vec<u8>,
    /// Evidence of how the text in `stretch` becomes visible.
    visibility: InputVisibility,
    /// Prompt of the secret being typed, until its line ends.
    secret: Option<String>,
    /// Bytes of the secret that were typed so far.
    secret_bytes: Vec<u8>,
    /// True while the screen shows private output of the holder.
    is_private: bool,
}

/// Start of a bracketed paste.
const PASTE: &[u8] = b"\x1b[200~";

impl SharedTerminal {
    /// Handles keys typed by a person: gives them control, classifies the keys, and sends them to the program.
    pub(super) fn typed(&self, by: &str, bytes: &[u8]) {
        let Some(live) = self.current() else { return };
        if bytes.is_empty() || live.state().ended.is_some() {
            return;
        }
        let at_prompt = live.state().ready;
        let line = || line_to_cursor(&live);
        let mut told = Vec::new();
        let taken = {
            let mut user_control = self.user_control.lock();
            let taken = user_control.holder.as_ref().is_none_or(|holder| holder.by != by);
            if taken {
                told.extend(user_control.end_stretch(line));
                user_control.holder = Some(ControlHolder::new(by, at_prompt));
            }
            taken
        };
        let people = self.people();
        if taken {
            people.control(Some(by));
        }
        let first = visibility(&live);
        let whole = first == InputVisibility::Visible && bytes.starts_with(PASTE);
        for (index, piece) in lines(bytes).enumerate() {
            let seen = match (index, visibility(&live)) {
                (0, _) => first.clone(),
                _ if whole => InputVisibility::Visible,
                // The program started by the first line may not have set its echo mode for the following lines yet.
                (_, InputVisibility::OnScreen { .. } | InputVisibility::Visible)
                    if live.echo() != Some(Echo::On) =>
                {
                    InputVisibility::Unknown
                }
                (_, seen) => seen,
            };
            let is_private = live.state().private_use.is_on();
            let secret = {
                let mut user_control = self.user_control.lock();
                if let Some(holder) = &mut user_control.holder {
                    holder.is_private = is_private;
                }
                told.extend(user_control.take(piece, seen, line));
                told.iter().any(|(_, typed)| matches!(typed, TypedInput::Secret { .. }))
                    || user_control.holder.as_ref().is_some_and(|holder| holder.secret.is_some())
            };
            let mut inner = live.state();
            inner.typed_by_person(piece);
            inner.entered |= secret;
        }
        self.report_typed(told);
        live.send(bytes.to_vec());
        self.watch_lease(&live);
    }

    pub(super) fn user_released(&self, by: &str) {
        let told = {
            let mut user_control = self.user_control.lock();
            if user_control.holder.as_ref().is_none_or(|holder| holder.by != by) {
                return;
            }
            let told = user_control.end_stretch(|| self.current().and_then(|live| line_to_cursor(&live)));
            user_control.holder = None;
            told
        };
        self.report_typed(told);
        self.people().control(None);
    }

    /// Returns the person in control, or `None` if the agent may type.
    pub(super) fn holder(&self) -> Option<String> {
        self.user_control.lock().holder.as_ref().map(|holder| holder.by.clone())
    }

    /// Returns a one-line notice for the model about typing since the last call.
    pub(super) fn take_typed_notice(&self) -> Option<String> {
        let told = self.end_stretch();
        self.report_typed(told);
        let news = std::mem::take(&mut self.user_control.lock().news);
        joined(&news)
    }

    fn end_stretch(&self) -> Option<(String, TypedInput)> {
        self.user_control.lock().end_stretch(|| self.current().and_then(|live| line_to_cursor(&live)))
    }

    /// Reports typing to the log, queues a notice for the model, and registers typed secrets for redaction.
    fn report_typed(&self, told: impl IntoIterator<Item = (String, TypedInput)>) {
        let people = self.people();
        let entered = std::mem::take(&mut self.user_control.lock().entered);
        entered.iter().for_each(|secret| self.secrets.learn(secret));
        for (by, typed) in told {
            let news = match &typed {
                TypedInput::Activity { seconds, .. } => {
                    format!(
                        "{by} typed into the terminal for {seconds} s; the output is private unless they share it"
                    )
                }
                TypedInput::Secret { .. } => format!("{by} entered a password"),
                TypedInput::Answer { .. } | TypedInput::Keys { .. } => continue,
            };
            people.typed(&by, typed);
            let mut user_control = self.user_control.lock();
            user_control.news.push(news);
        }
    }

    /// Starts the task that watches the lease, unless it is already running.
    fn watch_lease(&self, live: &LiveShell) {
        let mut user_control = self.user_control.lock();
        if !std::mem::replace(&mut user_control.lease_watched, true) {
            live.runtime.spawn(watch_lease(self.weak_self.clone()));
        }
    }

    /// Classifies a stretch of typing that has paused, and ends a lease that has expired. Returns the time of the next
    /// check, or `None` if no person is in control.
    fn check_lease(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut user_control = self.user_control.lock();
        let Some(holder) = &mut user_control.holder else {
            user_control.lease_watched = false;
            return None;
        };
        let (last_key, at_prompt) = (holder.last_key, holder.at_prompt);
        drop(user_control);
        if now >= last_key + STRETCH {
            let line = || self.current().and_then(|live| line_to_cursor(&live));
            self.user_control.lock().examine(line);
        }
        let over =
            now >= last_key + LEASE && self.current().is_none_or(|live| agent_may_resume(&live, at_prompt));
        if over {
            let mut user_control = self.user_control.lock();
            if user_control.holder.as_ref().is_some_and(|holder| holder.last_key == last_key) {
                let told = user_control.end_stretch(|| None);
                user_control.holder = None;
                user_control.lease_watched = false;
                drop(user_control);
                self.report_typed(told);
                self.people().control(None);
                return None;
            }
        }
        Some(if now < last_key + STRETCH {
            last_key + STRETCH
        } else {
            (last_key + LEASE).max(now + POLL_INTERVAL)
        })
    }
}

/// Interval for checking whether the agent may resume after a lease expired.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

async fn watch_lease(terminal: Weak<SharedTerminal>) {
    loop {
        let Some(next) = terminal.upgrade().and_then(|terminal: Arc<SharedTerminal>| terminal.check_lease())
        else {
            return;
        };
        sleep_until(next).await;
    }
}

/// Returns true if the agent may type again: the shell is at its prompt, has exited, or does not report its prompt, or
/// it was not at its prompt when the person began to type.
fn agent_may_resume(live: &LiveShell, at_prompt: bool) -> bool {
    let inner = live.state();
    inner.ready || inner.ended.is_some() || inner.shells.is_empty() || !at_prompt
}

fn joined(news: &[String]) -> Option<String> {
    let all = news.join("; ");
    let all = neutralize_line(&all);
    let mut line: String = all.chars().take(NEWS_LETTERS_MAX).collect();
    if line.len() < all.len() {
        line.push('…');
    }
    (!line.is_empty()).then_some(line)
}

/// Determines how text typed now becomes visible.
fn visibility(live: &LiveShell) -> InputVisibility {
    if let Some(open) = secret_prompt(live) {
        // Prompts from a program that the person started are private.
        let is_private = live.state().private_use.is_on();
        return InputVisibility::Secret { prompt: if is_private { String::new() } else { open.prompt } };
    }
    let (ready, marks, full) = {
        let inner = live.state();
        (inner.ready || inner.awaits_prompt(), !inner.shells.is_empty(), inner.screen.is_full())
    };
    let reads = ready || (!marks && live.shell_in_front() == Some(true));
    if reads || live.echo() == Some(Echo::On) {
        return InputVisibility::Visible;
    }
    if full {
        InputVisibility::Unknown
    } else {
        line_to_cursor(live).map_or(InputVisibility::Unknown, |before| InputVisibility::OnScreen { before })
    }
}

/// Returns the text left of the cursor, or `None` if a program uses the full screen.
fn line_to_cursor(live: &LiveShell) -> Option<String> {
    let inner = live.state();
    (!inner.screen.is_full()).then(|| inner.screen.line_to_cursor())
}

/// Splits typed bytes into lines, including their line ends.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let end = match rest.iter().position(|byte| is_end(*byte)) {
            Some(end) if rest[end..].starts_with(b"\r\n") => end + 2,
            Some(end) => end + 1,
            None => rest.len(),
        };
        let line;
        (line, rest) = rest.split_at(end);
        (!line.is_empty()).then_some(line)
    })
}

fn is_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

impl UserControl {
    /// Takes a line, or a part of one, that the holder typed. Returns a report if a secret is complete.
    fn take(
        &mut self,
        bytes: &[u8],
        visibility: InputVisibility,
        line: impl Fn() -> Option<String>,
    ) -> Vec<(String, TypedInput)> {
        let mut told = Vec::new();
        let changed = match (&visibility, self.holder.as_ref().map(|holder| &holder.visibility)) {
            (InputVisibility::OnScreen { .. }, Some(InputVisibility::OnScreen { .. })) => false,
            (now, Some(before)) => now != before,
            (_, None) => return told,
        };
        if changed {
            self.examine(&line);
        }
        let Some(holder) = &mut self.holder else { return told };
        holder.last_key = Instant::now();
        match &visibility {
            InputVisibility::Visible => holder.secret = None,
            InputVisibility::Secret { prompt } => {
                // Keeps the first text: a later one may include echoed asterisks.
                holder.secret.get_or_insert_with(|| prompt.clone());
            }
            InputVisibility::OnScreen { .. } | InputVisibility::Unknown => {}
        }
        if holder.secret.is_some() {
            let room = STRETCH_BYTES_MAX.saturating_sub(holder.secret_bytes.len());
            holder.secret_bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        } else {
            if holder.stretch.is_empty() {
                holder.visibility = visibility;
            }
            let room = STRETCH_BYTES_MAX.saturating_sub(holder.stretch.len());
            holder.stretch.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        if bytes.last().is_some_and(|byte| is_end(*byte)) {
            self.examine(&line);
            if let Some(holder) = &mut self.holder
                && let Some(prompt) = holder.secret.take()
            {
                self.entered.extend(entered_secrets(&mut holder.secret_bytes));
                told.push((holder.by.clone(), TypedInput::Secret { prompt }));
            }
        } else if bytes.iter().any(|byte| matches!(byte, 0x03 | 0x04)) {
            holder.secret = None;
            holder.secret_bytes.fill(0);
            holder.secret_bytes.clear();
        }
        told
    }

    /// Classifies the current stretch. Keeps it if it is part of a secret, and erases it otherwise.
    fn examine(&mut self, line: impl FnOnce() -> Option<String>) {
        let Some(holder) = &mut self.holder else { return };
        let mut stretch = std::mem::take(&mut holder.stretch);
        if stretch.is_empty() {
            return;
        }
        match reportable_input(&stretch, &holder.visibility, line) {
            ReportableInput::Keys(_) => holder.keys += typed_keys(&stretch).len() as u64,
            ReportableInput::Secret { prompt } => {
                holder.secret = Some(if holder.is_private { String::new() } else { prompt });
                holder.secret_bytes.extend_from_slice(&stretch);
            }
        }
        stretch.fill(0);
    }

    /// Ends the stretch and returns the holder's activity that was not reported yet. A secret is reported when its line
    /// ends.
    fn end_stretch(&mut self, line: impl FnOnce() -> Option<String>) -> Option<(String, TypedInput)> {
        self.examine(line);
        let holder = self.holder.as_mut().filter(|holder| holder.keys > 0)?;
        let keys = std::mem::take(&mut holder.keys);
        let seconds = holder.last_key.saturating_duration_since(holder.first_key).as_secs();
        holder.first_key = Instant::now();
        Some((holder.by.clone(), TypedInput::Activity { keys, seconds }))
    }
}

impl ControlHolder {
    fn new(by: &str, at_prompt: bool) -> Self {
        Self {
            by: by.to_owned(),
            last_key: Instant::now(),
            at_prompt,
            keys: 0,
            first_key: Instant::now(),
            stretch: Vec::new(),
            visibility: InputVisibility::Unknown,
            secret: None,
            secret_bytes: Vec::new(),
            is_private: false,
        }
    }
}

/// Returns the secrets that the typed bytes may represent: the bytes as typed, and the text that is left after
/// backspace and Ctrl+U. Erases the bytes.
fn entered_secrets(bytes: &mut Vec<u8>) -> Vec<SecretString> {
    let mut edited: Vec<char> = Vec::new();
    let text = String::from_utf8_lossy(bytes).replace("\x1b[200~", "").replace("\x1b[201~", "");
    bytes.fill(0);
    bytes.clear();
    let text = text.trim_end_matches(['\r', '\n']);
    for letter in text.chars() {
        match letter {
            '\x7f' | '\x08' => drop(edited.pop()),
            '\x15' => edited.clear(),
            letter => edited.push(letter),
        }
    }
    let edited: String = edited.into_iter().collect();
    let as_typed = (edited != text).then(|| SecretString::from(text));
    as_typed.into_iter().chain([SecretString::from(edited)]).collect()
}
