//! Runs the user's hooks and the notifier: hooks decide before a call, and both receive events.
//!
//! A call waits for its hooks. For everything else, programs run in the background, one after the other, so
//! that a slow program delays no session. A program gets one JSON object on standard input, with redacted
//! commands and never with a token.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sysop_core::approval::approval_id;
use sysop_core::event::{Event, Logged, Origin};
use sysop_core::hook::{HookAnswer, HookQuestion};
use sysop_core::id::{CallId, SessionId};
use sysop_core::outcome::Status;
use sysop_core::text::neutralize_line;
use sysop_driver::hooks::SessionHooks;
use sysop_server::audit::CommandRedactor;
use tokio_util::task::TaskTracker;

use crate::config::{Hook, HookPoint, Notify, OnError, UserProgram};
use crate::settings::HostChoice;
use crate::user_program::{Finished, run};

/// Maximum number of reports waiting or running; further ones are dropped.
const REPORTS_MAX: usize = 256;
const REASON_CHARS_MAX: usize = 400;
/// Maximum length of a prompt or command passed to a program, in characters.
const TEXT_CHARS_MAX: usize = 8192;
/// Maximum number of calls whose commands are remembered for `command.after`.
const CALLS_MAX: usize = 256;
/// Maximum time at exit for pending reports to be delivered.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(15);

/// The user's programs, shared by all sessions of a process.
pub(crate) struct UserHooks {
    hooks: Vec<Hook>,
    notify: Option<Notify>,
    /// Base URL of sysop's web page, for links to sessions; `None` if no server runs.
    page: Mutex<Option<String>>,
    redactor: CommandRedactor,
    reports: TaskTracker,
    waiting: AtomicUsize,
    /// Held while a report is running; waiters acquire it in order of arrival.
    turn: tokio::sync::Mutex<()>,
}

impl UserHooks {
    pub(crate) fn new(hooks: Vec<Hook>, notify: Option<Notify>, redactor: CommandRedactor) -> Self {
        Self {
            hooks,
            notify,
            page: Mutex::default(),
            redactor,
            reports: TaskTracker::new(),
            waiting: AtomicUsize::new(0),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Sets the base URL of sysop's web page, for links.
    pub(crate) fn set_page(&self, page: String) {
        *self.page.lock() = Some(page);
    }

    /// Returns the hooks for a session on these hosts, or `None` if no program is configured.
    pub(crate) fn of_session(self: &Arc<Self>, host: &HostChoice) -> Option<Arc<dyn SessionHooks>> {
        if self.hooks.is_empty() && self.notify.is_none() {
            return None;
        }
        let hosts = match host {
            HostChoice::Local => vec![host.to_string()],
            HostChoice::Ssh(_) | HostChoice::Fleet(_) => {
                host.targets().iter().map(|target| target.name.clone()).collect()
            }
        };
        Some(Arc::new(SessionPrograms {
            programs: Arc::clone(self),
            host: host.to_string(),
            hosts,
            calls: Mutex::default(),
        }))
    }

    /// Waits until all reports have been delivered, up to a limit.
    pub(crate) async fn close(&self) {
        self.reports.close();
        if tokio::time::timeout(CLOSE_TIME_MAX, self.reports.wait()).await.is_err() {
            tracing::warn!("some hooks did not end in time");
        }
    }

    /// Runs programs in the background, one after the other.
    fn report(self: &Arc<Self>, programs: Vec<UserProgram>, about: Value) {
        if programs.is_empty() {
            return;
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= REPORTS_MAX {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!("hooks cannot keep up; an event was not reported");
            return;
        }
        let own = Arc::clone(self);
        self.reports.spawn(async move {
            let turn = own.turn.lock().await;
            for program in programs {
                match run(&program, &about).await {
                    Ok(Finished { code: Some(0), .. }) => {}
                    Ok(Finished { code, error, .. }) => {
                        tracing::warn!(program = program.run[0], code, error, "a hook failed");
                    }
                    Err(why) => tracing::warn!(program = program.run[0], why, "a hook failed"),
                }
            }
            drop(turn);
            own.waiting.fetch_sub(1, Ordering::Relaxed);
        });
    }

    fn link(&self, session: &SessionId) -> Option<String> {
        let configured = self.notify.as_ref().and_then(|notify| notify.url.clone());
        let page = configured.or_else(|| self.page.lock().clone())?;
        Some(format!("{}/#/s/{session}", page.trim_end_matches('/')))
    }

    fn matching(&self, point: HookPoint, text: &str) -> impl Iterator<Item = &Hook> {
        self.hooks
            .iter()
            .filter(move |hook| hook.on == point)
            .filter(move |hook| hook.pattern.as_ref().is_none_or(|pattern| pattern.is_match(text)))
    }
}

struct SessionPrograms {
    programs: Arc<UserHooks>,
    host: String,
    hosts: Vec<String>,
    /// Tool and command of each running call.
    calls: Mutex<HashMap<CallId, (String, String)>>,
}

#[async_trait]
impl SessionHooks for SessionPrograms {
    async fn ask(&self, session: &SessionId, question: HookQuestion) -> HookAnswer {
        let about = || self.question(session, &question);
        self.answer(HookPoint::CommandBefore, &question.command, about).await
    }

    async fn ask_about_prompt(&self, session: &SessionId, prompt: &str) -> HookAnswer {
        let about = || {
            let mut about = self.about(HookPoint::Prompt.as_str(), session);
            merge(&mut about, json!({ "prompt": self.text(prompt) }));
            about
        };
        self.answer(HookPoint::Prompt, prompt, about).await
    }

    async fn ask_about_approval(&self, session: &SessionId, asked: &Logged) -> HookAnswer {
        let Event::ApprovalAsked { command, .. } = &asked.event else { return HookAnswer::Pass };
        self.answer(HookPoint::Approval, command, || self.approval(session, asked)).await
    }

    fn report(&self, session: &SessionId, events: &[Arc<Logged>]) {
        for logged in events {
            self.report_one(session, logged);
        }
    }
}

impl SessionPrograms {
    /// Runs the hooks of an event, one after the other, until one denies. Returns the strictest answer.
    async fn answer(&self, point: HookPoint, text: &str, about: impl FnOnce() -> Value + Send) -> HookAnswer {
        let mut hooks = self.programs.matching(point, text).peekable();
        if hooks.peek().is_none() {
            return HookAnswer::Pass;
        }
        let about = about();
        let mut answer = HookAnswer::Pass;
        for hook in hooks {
            answer = answer.stricter(answer_of(hook, run(&hook.program, &about).await));
            if matches!(answer, HookAnswer::Deny { .. }) {
                break;
            }
        }
        answer
    }

    /// Returns the JSON object about a pending approval, for hooks and for the notifier.
    fn approval(&self, session: &SessionId, asked: &Logged) -> Value {
        let mut about = self.about(HookPoint::Approval.as_str(), session);
        if let Event::ApprovalAsked { call, command, reason, risk, preview, terms, .. } = &asked.event {
            merge(
                &mut about,
                json!({
                    "id": approval_id(session, asked.seq),
                    "call": call.id.as_str(),
                    "tool": call.name,
                    "command": self.text(command),
                    "reason": self.text(reason),
                    "risk": risk.class,
                    "preview": preview,
                    "people": terms.people,
                    "expiresAt": terms.expires,
                    "url": self.programs.link(session),
                }),
            );
        }
        about
    }

    fn about(&self, event: &str, session: &SessionId) -> Value {
        json!({ "event": event, "session": session.as_str(), "host": self.host, "hosts": self.hosts })
    }

    fn text(&self, text: &str) -> String {
        self.programs.redactor.command(text).chars().take(TEXT_CHARS_MAX).collect()
    }

    fn question(&self, session: &SessionId, question: &HookQuestion) -> Value {
        let mut about = self.about(HookPoint::CommandBefore.as_str(), session);
        let findings: Vec<_> = question.risk.findings.iter().map(|finding| finding.why.as_str()).collect();
        let origin = match question.origin {
            Origin::Model => "model",
            Origin::User => "user",
            Origin::Routine => "routine",
            Origin::Plan => "plan",
            Origin::McpClient => "mcp_client",
        };
        merge(
            &mut about,
            json!({
                "call": question.call.id.as_str(),
                "tool": question.call.name,
                "command": self.text(&question.command),
                "reason": self.text(&question.reason),
                "risk": question.risk.class,
                "findings": findings,
                "mode": question.mode.as_str(),
                "origin": origin,
                "verdict": question.verdict,
            }),
        );
        about
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "hooks receive only these events")]
    fn report_one(&self, session: &SessionId, logged: &Logged) {
        match &logged.event {
            Event::ToolStarted { call, .. } => {
                let mut calls = self.calls.lock();
                if calls.len() >= CALLS_MAX {
                    calls.clear(); // calls whose end never came
                }
                let argument = ["command", "keys", "path"].iter().find_map(|name| call.text_argument(name));
                let command = argument.unwrap_or_default().to_owned();
                calls.insert(call.id.clone(), (call.name.clone(), command));
            }
            Event::ToolFinished { call, outcome } => {
                let Some((tool, command)) = self.calls.lock().remove(call) else { return };
                if outcome.status == Status::Rejected {
                    return; // the log names a call that was denied by its start, but it never ran
                }
                let about = || {
                    json!({
                        "call": call.as_str(),
                        "tool": tool,
                        "command": self.text(&command),
                        "status": outcome.status,
                        "exitCode": outcome.exit_code,
                        "durationMs": outcome.duration_ms,
                    })
                };
                self.tell(HookPoint::CommandAfter, session, &command, about);
            }
            Event::ApprovalAsked { .. } => {
                if let Some(notify) = &self.programs.notify {
                    self.programs.report(vec![notify.program.clone()], self.approval(session, logged));
                }
            }
            Event::TurnEnded { reason, error, .. } => {
                let about = || json!({ "reason": reason.as_str(), "error": error.as_deref().map(|text| self.text(text)) });
                self.tell(HookPoint::End, session, reason.as_str(), about);
            }
            _ => {}
        }
    }

    /// Runs the hooks of an event. `more` returns further data about the event for the hooks; called only if a hook
    /// matches.
    fn tell(&self, point: HookPoint, session: &SessionId, text: &str, more: impl FnOnce() -> Value) {
        let programs: Vec<_> = self.programs.matching(point, text).map(|hook| hook.program.clone()).collect();
        if programs.is_empty() {
            return;
        }
        let mut about = self.about(point.as_str(), session);
        merge(&mut about, more());
        self.programs.report(programs, about);
    }
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}

/// Returns the answer from one hook. A hook never allows a call.
fn answer_of(hook: &Hook, finished: Result<Finished, String>) -> HookAnswer {
    let name = hook.program.run[0].rsplit('/').next().unwrap_or_default();
    let said = match finished {
        Err(why) => Err(format!("failed: {why}")),
        Ok(Finished { code: Some(2), output, error }) => {
            let reason = decision(&output).ok().flatten().map(|(_, reason)| reason);
            let reason = reason.filter(|reason| !reason.is_empty()).unwrap_or(error);
            Ok(Some((true, reason)))
        }
        Ok(Finished { code: Some(0), output, .. }) => {
            decision(&output).map_err(|why| format!("failed: {why}"))
        }
        Ok(Finished { code: Some(code), .. }) => Err(format!("exited with code {code}")),
        Ok(Finished { code: None, .. }) => Err("was killed".to_owned()),
    };
    match said {
        Ok(None) => HookAnswer::Pass,
        Ok(Some((denies, reason))) => {
            let reason = if reason.trim().is_empty() {
                format!("{} gave no reason", shown(name))
            } else {
                shown(&reason)
            };
            if denies { HookAnswer::Deny { reason } } else { HookAnswer::Ask { reason } }
        }
        Err(why) => {
            let reason = shown(&format!("the hook `{name}` {why}"));
            match hook.on_error {
                OnError::Deny => HookAnswer::Deny { reason },
                OnError::Ask => HookAnswer::Ask { reason },
                OnError::Ignore => HookAnswer::Pass,
            }
        }
    }
}

/// Parses a hook's output. Returns `(true, reason)` for "deny", `(false, reason)` for "ask", or `None` if the hook does
/// not object.
fn decision(output: &str) -> Result<Option<(bool, String)>, String> {
    if output.trim().is_empty() {
        return Ok(None);
    }
    let answer: Value =
        serde_json::from_str(output.trim()).map_err(|_| "the output is not JSON".to_owned())?;
    let reason = answer["reason"].as_str().unwrap_or_default().to_owned();
    match answer["decision"].as_str() {
        Some("deny") => Ok(Some((true, reason))),
        Some("ask") => Ok(Some((false, reason))),
        None if answer.is_object() && answer["decision"].is_null() => Ok(None),
        _ => Err("the `decision` is neither \"deny\" nor \"ask\"".to_owned()),
    }
}

fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    neutralize_line(&line).chars().take(REASON_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
