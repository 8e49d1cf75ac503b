//! Prompts for secrets: detects them, asks people, and passes the answer to the program.
//!
//! The bytes of an answer go only to the terminal, never to the log, the model or the recording. The model cannot type
//! while a prompt is open.

use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;
use secrecy::ExposeSecret;
use sysop_core::id::CallId;
use sysop_core::question::QuestionKind;
use sysop_driver::port::CancellationToken;
use sysop_driver::prompter::{PromptReply, PromptRequest};

use super::SharedTerminal;
use super::live_shell::LiveShell;
use super::shell_setup::quiet;
use super::state::TerminalState;
use crate::machine::Echo;

/// Time that a prompt is open before people are asked. It is needed because programs also turn echo off briefly.
pub(super) const OPEN_FOR: Duration = Duration::from_millis(100);
/// Time without output after which a remote or promptless program is checked for an open prompt for a secret.
const SILENT_FOR: Duration = Duration::from_secs(1);
/// Used instead of `SILENT_FOR` after a secret was entered: programs delay the reply to a wrong password.
const CHECKED_FOR: Duration = Duration::from_secs(5);
/// Maximum time to wait for the program to react to an answer.
const TAKEN_WAIT_MAX: Duration = Duration::from_secs(5);
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) const ENTERED: &str = "[password entered]";

/// Matches typical prompts for secrets; used where the echo mode is unknown.
static SECRET_PROMPT: LazyLock<Regex> = LazyLock::new(|| {
    // `token` and `secret` may be part of a host or directory name in a shell prompt, so the text after them is
    // restricted.
    Regex::new(concat!(
        r"(?i)((password|pass ?phrase|passcode|passwort|kennwort|contraseña|mot de passe|\bpin\b|\botp\b",
        r"|verification code|one-time code)[^\n]{0,80}[:?>]|\b(token|secret)\b[^\n@~/$]{0,80}[:?]) ?$"
    ))
    .expect("the regular expression is valid")
});

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SecretPrompt {
    pub(super) kind: QuestionKind,
    /// Prompt text as the program wrote it.
    pub(super) prompt: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretPromptOutcome {
    /// A person answered or typed into the terminal, or the program continued by itself.
    Closed {
        entered: bool,
    },
    NotASecret,
    /// A person refused to answer, or nobody could answer. The program was interrupted.
    Refused,
    Cancelled,
}

/// Returns the prompt for a secret that is open now, judging by marks, the local echo mode and the screen.
pub(super) fn secret_prompt(live: &LiveShell) -> Option<SecretPrompt> {
    let echo = live.echo();
    let inner = live.state();
    if inner.ready || inner.ended.is_some() || inner.hidden.is_some() {
        return None;
    }
    // Reading the screen costs time, so it is avoided while much is printed.
    let prompt = || inner.screen.line_to_cursor().trim().to_owned();
    if inner.asked || echo == Some(Echo::Off) {
        return Some(SecretPrompt { kind: QuestionKind::Secret, prompt: prompt() });
    }
    if echo.is_some() || !quiet(&inner, OPEN_FOR) {
        return None;
    }
    let prompt = prompt();
    let perhaps = !inner.screen.is_full() && SECRET_PROMPT.is_match(&prompt);
    perhaps.then_some(SecretPrompt { kind: QuestionKind::PerhapsSecret, prompt })
}

impl SharedTerminal {
    /// Returns the open prompt for a secret, if it has been open long enough. For a remote shell, also queries the echo
    /// mode on the remote machine if possible, without using the terminal.
    pub(super) async fn open_secret(&self, live: &LiveShell) -> Option<SecretPrompt> {
        let is_quiet = |time| quiet(&live.state(), time);
        let open = secret_prompt(live).filter(|_| is_quiet(OPEN_FOR));
        if live.remote_host.is_none() {
            let silent = open.as_ref().is_some_and(|open| open.prompt.is_empty());
            let entered = live.state().entered;
            return open.filter(|_| !silent || is_quiet(if entered { CHECKED_FOR } else { SILENT_FOR }));
        }
        if open.as_ref().is_some_and(|open| open.kind == QuestionKind::Secret) || !is_quiet(OPEN_FOR) {
            return open;
        }
        let prompt = live.state().screen.line_to_cursor().trim().to_owned();
        if open.is_none() && (prompt.is_empty() || !is_quiet(SILENT_FOR)) {
            return None;
        }
        match self.remote_echo(live).await {
            Some(Echo::Off) => Some(SecretPrompt { kind: QuestionKind::Secret, prompt }),
            Some(Echo::On) | None => open,
        }
    }

    /// Queries the echo mode of the remote terminal on its own machine. Returns `None` if the echo mode is unknown or
    /// the shell is at its prompt.
    pub(super) async fn remote_echo(&self, live: &LiveShell) -> Option<Echo> {
        let tty = {
            let inner = live.state();
            let waits = !inner.ready && inner.hidden.is_none() && inner.ended.is_none();
            inner.tty().filter(|_| waits && live.remote_host.is_some())?.to_owned()
        };
        self.machine.echo(&tty).await
    }

    /// Asks people for the secret and sends their answer to the program.
    pub(super) async fn ask_for_secret(
        &self,
        live: &LiveShell,
        open: SecretPrompt,
        call: &CallId,
        cancel: &CancellationToken,
    ) -> SecretPromptOutcome {
        let prints = live.state().prints;
        let reader = self.secret_reader(live).await;
        let asked = PromptRequest {
            kind: open.kind,
            from: reader.name,
            details: reader.details,
            prompt: open.prompt,
            call: Some(call.clone()),
        };
        let people = self.people();
        let answer = tokio::select! {
            answer = people.ask(asked) => answer,
            () = program_continued(live, prints) => return SecretPromptOutcome::Closed { entered: false },
            () = cancel.cancelled() => return SecretPromptOutcome::Cancelled,
        };
        match answer {
            PromptReply::Given { text, .. } => {
                let mut bytes = text.expose_secret().as_bytes().to_vec();
                bytes.push(b'\r');
                // A program that no longer prompts could print the secret, or run it as a command.
                let still = secret_prompt(live).is_some()
                    || (live.remote_host.is_some() && live.state().prints == prints);
                if !still {
                    return SecretPromptOutcome::Closed { entered: false };
                }
                {
                    let mut inner = live.state();
                    inner.typed(&bytes);
                    inner.entered = true;
                    if let Some(capture) = &mut inner.capture {
                        capture.note(ENTERED);
                    }
                }
                live.send(bytes);
                live.until(TAKEN_WAIT_MAX, |inner| (inner.prints != prints).then_some(())).await;
                SecretPromptOutcome::Closed { entered: true }
            }
            PromptReply::NoSecret => SecretPromptOutcome::NotASecret,
            PromptReply::Refused => {
                live.send(vec![0x03]);
                SecretPromptOutcome::Refused
            }
        }
    }
}

/// Waits until the program continues without our answer. A program counts as continuing when its echo is on again or,
/// if the echo mode is unknown, when it prints something.
async fn program_continued(live: &LiveShell, prints: u64) {
    let hidden = live.echo() == Some(Echo::Off);
    // Asterisks are the echo of a person's typing.
    let line = |inner: &TerminalState| inner.screen.line_to_cursor().trim_end_matches('*').to_owned();
    let asked = {
        let inner = live.state();
        inner.asked.then(|| line(&inner))
    };
    let over = |inner: &TerminalState| match &asked {
        _ if hidden => live.echo() != Some(Echo::Off),
        Some(asked) => !inner.asked || (inner.prints != prints && line(inner) != *asked),
        None => inner.prints != prints,
    };
    live.until(ANSWER_WAIT_MAX, |inner| (over(inner) || inner.ended.is_some()).then_some(())).await;
}

#[cfg(test)]
mod tests {
    use super::SECRET_PROMPT;

    #[test]
    fn secret_prompts_are_recognized() {
        for prompt in [
            "[sudo] password for ann: ",
            "Password:",
            "ann@web1's password: ",
            "Enter passphrase for key '/home/ann/.ssh/id': ",
            "Verification code: ",
            "PIN?",
            "Enter PEM pass phrase:",
            "Enter pass phrase for key.pem:",
            "Contraseña:",
            "Mot de passe :",
            "Kennwort: ",
            "Secret access key:",
            "Token (will be hidden): ",
        ] {
            assert!(SECRET_PROMPT.is_match(prompt), "{prompt}");
        }
        for other in [
            "$ ",
            "password changed",
            "Do you want to continue? [Y/n] ",
            "opinion: ",
            "echo password: x",
            "secret-garden:~> ",
            "token> ",
        ] {
            assert!(!SECRET_PROMPT.is_match(other), "{other}");
        }
    }
}
