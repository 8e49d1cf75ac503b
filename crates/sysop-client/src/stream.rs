//! Connection of one session: opens it, keeps it alive, reconnects, and dispatches received messages.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use serde_json::Value;
use sysop_core::event::{Delta, Event, Update};
use sysop_core::id::{CallId, Seq};
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::question::Question;
use sysop_driver::frontend::OfferedRule;
use sysop_driver::port::CancellationToken;
use sysop_driver::prompter::TerminalSize;
use sysop_wire::{
    ClientMessage, Decoder, ErrorCode, Hello, LogPosition, ServerMessage, SessionState, to_json_line,
};
use tokio::time::{Instant, MissedTickBehavior};

use crate::ClientError;
use crate::api::sentence;
use crate::client_tools::{LocalToolExecutor, Uplink};
use crate::outbox::Refusal;
use crate::session::RemoteSessionInner;
use crate::session_socket::{SessionSocket, SocketError, SocketEvent};
use crate::terminal::TerminalUpdate;

const HEARTBEAT: Duration = Duration::from_secs(10);
/// Delay before the first reconnection and maximum delay, both without jitter.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Maximum length, in characters, of the name that the server gives for the program that asks a question.
const CLAIM_CHARS_MAX: usize = 100;
/// Maximum time to send pending messages and to read the replies before this client closes the connection.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Notice about a prompt that a server refused because it is shutting down.
const PROMPT_WAITS: &str = "the server is shutting down; your last message waits for the next connection";

/// Notice about a prompt from before the user could see that the turn is paused.
const WAITS_FOR_PAUSE: &str = "the turn is paused; your message waits until you resume or stop it";

/// Follows a session until `stop` is canceled or the session is gone for good.
pub(crate) async fn run(shared: Arc<RemoteSessionInner>, stop: CancellationToken) {
    follow(&shared, &stop).await;
    shared.give_up_prompts();
}

async fn follow(shared: &Arc<RemoteSessionInner>, stop: &CancellationToken) {
    let mut stream = SessionConnection {
        shared: Arc::clone(shared),
        decoder: Decoder::new(),
        greetings: 0,
        history: Seq(0),
        last_error: None,
    };
    // Without a front end or lent tools there is nothing to do.
    if shared.tool_executor.is_none() {
        tokio::select! {
            () = stop.cancelled() => return,
            () = shared.fanout.rewind.notified() => {}
        }
    }
    let (mut failures, mut lost) = (0, false);
    loop {
        let opened = tokio::select! {
            () = stop.cancelled() => return,
            opened = SessionSocket::open(&shared.api, &shared.id) => opened,
        };
        let why = match opened {
            Ok(link) => {
                let restarted = shared.outbox.lock().connected(link.instance.as_deref());
                if std::mem::take(&mut lost) {
                    shared.fanout.notice("reconnected to the server");
                }
                for what in restarted {
                    shared.fanout.notice(format!(
                        "the server restarted while {what} was being sent; check whether it arrived"
                    ));
                }
                let over = stream.serve(link, stop).await;
                shared.set_connected(false);
                match over {
                    ConnectionOutcome::Stopped => return,
                    ConnectionOutcome::SessionGone(why) => return shared.fail(why),
                    ConnectionOutcome::Lost { why, greeted } => {
                        if greeted {
                            failures = 0;
                        }
                        why
                    }
                }
            }
            Err(error @ (ClientError::Refused(_) | ClientError::Unknown(_) | ClientError::Invalid(_))) => {
                return shared.fail(error.to_string());
            }
            Err(error) => error.to_string(),
        };
        let clauses = shared.connection_lost();
        if !std::mem::replace(&mut lost, true) {
            let clauses: String = clauses.iter().map(|clause| format!("; {clause}")).collect();
            shared.fanout.notice(format!("{why}{clauses}; reconnecting…"));
        }
        let wait = backoff(failures);
        failures = failures.saturating_add(1);
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Returns the delay before a reconnection: exponential backoff with jitter, so that clients do not reconnect in step.
fn backoff(failures: u32) -> Duration {
    let (first, most) = BACKOFF;
    let whole = first.saturating_mul(1 << failures.min(10)).min(most);
    whole.mul_f64(rand::rng().random_range(0.5..1.0))
}

struct SessionConnection {
    shared: Arc<RemoteSessionInner>,
    decoder: Decoder,
    /// Number of `hello` messages that the server has yet to answer. Messages that arrive before the last answer belong
    /// to an earlier replay.
    greetings: u32,
    /// Last event of the log at the time of the last answer. Later events show changes of the session.
    history: Seq,
    /// Code and message of the error that the server sent as its reason to end the connection.
    last_error: Option<(ErrorCode, String)>,
}

enum ConnectionOutcome {
    /// Closed by this client.
    Stopped,
    /// The session is gone, so this client does not reconnect.
    SessionGone(String),
    Lost {
        why: String,
        greeted: bool,
    },
}

impl SessionConnection {
    async fn serve(&mut self, mut link: SessionSocket, stop: &CancellationToken) -> ConnectionOutcome {
        self.greetings = 0;
        self.last_error = None;
        self.shared.set_connected(true);
        let mut greeted = false;
        let broken = match self.run_socket(&mut link, stop, &mut greeted).await {
            Ok(()) => {
                self.shared.outbox.lock().begin_close();
                let closing = self.flush_and_close(&mut link);
                if !matches!(tokio::time::timeout(LAST_WORDS, closing).await, Ok(Ok(()))) {
                    link.close().await;
                }
                return ConnectionOutcome::Stopped;
            }
            Err(SocketError(why)) => why,
        };
        match self.last_error.take() {
            Some((ErrorCode::Forbidden | ErrorCode::NoSession | ErrorCode::BadManifest, why)) => {
                ConnectionOutcome::SessionGone(why)
            }
            Some((_, why)) => ConnectionOutcome::Lost { why, greeted },
            None => ConnectionOutcome::Lost { why: broken, greeted },
        }
    }

    /// Exchanges messages until `stop` or until the connection breaks.
    async fn run_socket(
        &mut self,
        link: &mut SessionSocket,
        stop: &CancellationToken,
        greeted: &mut bool,
    ) -> Result<(), SocketError> {
        let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_received = Instant::now();
        let again = self.shared.fanout.take_rewind_request();
        self.hello(link, again).await?;
        loop {
            if self.greetings == 0 {
                *greeted = true;
                self.flush(link).await?;
            }
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                heard = link.receive(last_received) => {
                    let heard = heard?;
                    last_received = Instant::now();
                    match heard {
                        SocketEvent::Text(text) => self.handle_text(&text)?,
                        SocketEvent::Pong(ping) => shared.outbox.lock().confirmed(ping),
                        SocketEvent::Alive => {}
                    }
                }
                () = shared.wake.notified() => {}
                () = shared.fanout.rewind.notified() => {
                    if shared.fanout.take_rewind_request() {
                        self.hello(link, true).await?;
                    }
                }
                _ = heartbeat.tick() => link.send_text(to_json_line(&ClientMessage::Heartbeat {})).await?,
            }
        }
    }

    /// Sends `hello` with the client's position in the log. If `again` is true, requests the whole log.
    async fn hello(&mut self, link: &mut SessionSocket, again: bool) -> Result<(), SocketError> {
        if again {
            self.decoder = Decoder::new();
        }
        let mut hello = Hello {
            client_version: concat!("sysop ", env!("CARGO_PKG_VERSION")).to_owned(),
            resume_from: Some(self.decoder.seq()),
            ..Hello::default()
        };
        if let Some(tool_executor) = &self.shared.tool_executor {
            hello.tool_manifest = tool_executor.manifest();
            tool_executor.root().clone_into(&mut hello.workspace_root);
        }
        self.greetings += 1;
        self.shared.outbox.lock().note_replay();
        link.send_text(to_json_line(&ClientMessage::Hello(hello))).await
    }

    /// Sends all pending messages, first those that need a confirmation and then the transient ones.
    async fn flush(&mut self, link: &mut SessionSocket) -> Result<(), SocketError> {
        loop {
            let next = self.shared.outbox.lock().next();
            let Some((line, ping)) = next else { break };
            link.send_text(line).await?;
            link.ping(ping).await?;
        }
        while let Some(message) = self.shared.next_transient() {
            link.send_text(to_json_line(&message)).await?;
        }
        Ok(())
    }

    /// Sends pending messages and the results of calls that were just stopped, waits for their confirmation, and closes
    /// the connection. Prompts are sent once the log shows that the turn is not paused. A refusal may arrive after the
    /// confirmation, so reads until the server closes, too.
    async fn flush_and_close(&mut self, link: &mut SessionSocket) -> Result<(), SocketError> {
        self.flush_before_close(link).await?;
        link.close().await;
        let mut last_received = Instant::now();
        while let Ok(heard) = link.receive(last_received).await {
            if let SocketEvent::Text(text) = heard {
                self.note_answer(&text);
            }
            last_received = Instant::now();
        }
        Ok(())
    }

    async fn flush_before_close(&mut self, link: &mut SessionSocket) -> Result<(), SocketError> {
        let shared = Arc::clone(&self.shared);
        while shared.tool_executor.as_ref().is_some_and(|tool_executor| tool_executor.is_busy()) {
            shared.wake.notified().await;
        }
        self.flush(link).await?;
        let mut last_received = Instant::now();
        let awaits = || {
            let outbox = shared.outbox.lock();
            outbox.awaits_confirmation() || outbox.awaits_log()
        };
        while awaits() {
            match link.receive(last_received).await? {
                SocketEvent::Pong(ping) => shared.outbox.lock().confirmed(ping),
                SocketEvent::Text(text) => self.note_answer(&text),
                SocketEvent::Alive => {}
            }
            last_received = Instant::now();
            // A confirmed first setting releases the prompts that wait for it, as the end of the log does.
            self.flush(link).await?;
        }
        Ok(())
    }

    /// Records the refusal of a message, or the state of the session, while the connection is being closed. Ignores all
    /// other messages.
    fn note_answer(&mut self, text: &str) {
        match serde_json::from_str(text) {
            Ok(ServerMessage::Error { code: Some(code), reply_to: Some(id), .. }) => {
                self.shared.message_refused(&id, code);
            }
            Ok(message) => self.note_state(&message),
            Err(_) => {}
        }
        self.note_progress(serde_json::from_str(text).ok());
    }

    /// Records what a message says about the end of the log, the approval mode and a pause of the session.
    #[expect(clippy::wildcard_enum_match_arm, reason = "other messages say nothing about them")]
    fn note_state(&mut self, message: &ServerMessage) {
        let mut outbox = self.shared.outbox.lock();
        match message {
            ServerMessage::SessionCreated { position: None, approve, last_seq, .. } => {
                self.greetings = self.greetings.saturating_sub(1);
                self.history = last_seq.unwrap_or_default();
                outbox.note_mode(*approve);
            }
            ServerMessage::Configured { approve: Some(mode), position, .. }
                if position.seq > self.history =>
            {
                outbox.note_mode(*mode);
            }
            ServerMessage::State { now, .. } => outbox.note_pause(now.state == SessionState::Paused),
            _ => {}
        }
    }

    /// Notes the end of the history that the server repeats, if the message at `position` is its last one.
    fn note_progress(&self, position: Option<LogPosition>) {
        let complete = position.filter(|position| !position.more);
        let seq = complete.map_or(self.decoder.seq(), |position| position.seq);
        if self.greetings == 0 && seq >= self.history && self.shared.outbox.lock().note_caught_up() {
            self.shared.fanout.notice(WAITS_FOR_PAUSE);
        }
    }

    fn handle_text(&mut self, text: &str) -> Result<(), SocketError> {
        let Ok(message) = serde_json::from_str::<ServerMessage>(text) else {
            // Ignore messages that this version does not know, except for their position.
            self.note_progress(serde_json::from_str(text).ok());
            return Ok(());
        };
        let position = message.position();
        self.note_state(&message);
        self.handle_message(message)?;
        self.note_progress(position);
        Ok(())
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the decoder handles the session's messages")]
    fn handle_message(&mut self, message: ServerMessage) -> Result<(), SocketError> {
        match &message {
            ServerMessage::SessionCreated { position: None, .. } => {
                if self.greetings == 0 {
                    if self.decoder.seq() == Seq(0) {
                        self.shared.fanout.begin_replay();
                    }
                    self.shared.terminal.connected();
                }
                return Ok(());
            }
            ServerMessage::Error { position: None, message, code, reply_to, .. } => {
                return self.handle_error(*code, message, reply_to.as_deref());
            }
            ServerMessage::TerminalOutput { data, reset, cols, rows, ended, .. } => {
                let size = cols.zip(*rows).map(|(columns, rows)| TerminalSize { columns, rows });
                let ended = ended.as_deref().map(sentence);
                self.shared.terminal.take(TerminalUpdate { data: data.clone(), reset: *reset, size, ended });
                return Ok(());
            }
            ServerMessage::ToolCancel { tool_call_id, .. } => {
                if let Some(tool_executor) = &self.shared.tool_executor {
                    tool_executor.cancel(tool_call_id);
                }
                return Ok(());
            }
            ServerMessage::ToolCall { tool_call_id, name, arguments, origin, run: true, .. } => {
                if let Some(tool_executor) = &self.shared.tool_executor {
                    let line: Arc<dyn Uplink> = Arc::clone(&self.shared) as Arc<dyn Uplink>;
                    tool_executor.run(call(tool_call_id, name, arguments), *origin, line);
                }
            }
            ServerMessage::ApprovalRequest { tool_call_id, name, always, rules_file, .. } => {
                // A server-side rule does not decide what may run here.
                let local = |executor: &Arc<LocalToolExecutor>| executor.is_announced(name);
                let always =
                    always.clone().filter(|_| !self.shared.tool_executor.as_ref().is_some_and(local));
                self.shared.set_offered_rule(always.map(|toml| {
                    let (call, file) = (tool_call_id.clone(), rules_file.clone().unwrap_or_default());
                    OfferedRule { call, toml, file, rule: None }
                }));
            }
            // Ids in this range belong to this machine's own questions.
            ServerMessage::Question { question, .. } if question.id.is_of_client() => {
                return Ok(());
            }
            ServerMessage::QuestionClosed { id, .. } if id.is_of_client() => return Ok(()),
            _ => {}
        }
        if self.greetings > 0 {
            return Ok(()); // from an earlier replay
        }
        let Some(mut update) = self.decoder.take(message) else { return Ok(()) };
        self.shared.own_name.iter().for_each(|own| own.localize(&mut update));
        self.shared.server_machine.rename(&mut update);
        let update = match (update, &self.shared.tool_executor) {
            (Update::Logged(logged), Some(tool_executor)) => {
                if let Event::ToolFinished { call, .. } = &logged.event {
                    tool_executor.cancel(call); // no longer awaited
                }
                Update::Logged(tool_executor.judge_event(logged))
            }
            (Update::Delta(Delta::Question { question }), _) => {
                let question = from_server(question, &self.shared.api.server().display_url());
                Update::Delta(Delta::Question { question })
            }
            (update, _) => update,
        };
        self.shared.fanout.publish(&update);
        Ok(())
    }

    /// Handles an error message from the server: the refusal of a request, or the announced end of the connection.
    #[expect(clippy::wildcard_enum_match_arm, reason = "other refusals are shown unchanged")]
    fn handle_error(
        &mut self,
        code: Option<ErrorCode>,
        why: &str,
        reply_to: Option<&str>,
    ) -> Result<(), SocketError> {
        let refusal = code.zip(reply_to).map(|(code, id)| self.shared.message_refused(id, code));
        match refusal {
            Some(Refusal::PromptWaits) => {
                self.shared.fanout.notice(PROMPT_WAITS);
                return Ok(());
            }
            Some(Refusal::SettingWaits) => return Ok(()),
            Some(Refusal::PromptsNeedMode) => {
                self.shared.fanout.notice(needs_mode(why));
                return Ok(());
            }
            Some(Refusal::Dropped) | None => {}
        }
        let answers = reply_to.is_some();
        let why = match code {
            // The server's own text tells programs to reconnect, as this client does.
            Some(ErrorCode::Draining) if answers => "not sent; the server is shutting down".to_owned(),
            Some(ErrorCode::Draining) => "the server is shutting down".to_owned(),
            Some(_) | None => sentence(why),
        };
        let Some(code) = code else {
            self.shared.fanout.notice(why);
            return Ok(());
        };
        match code {
            ErrorCode::BadManifest => {
                self.last_error = Some((code, why.clone()));
                return Err(SocketError(why));
            }
            ErrorCode::NoTerminal => {
                if !self.shared.terminal.failed(&why) {
                    self.shared.fanout.notice(why);
                }
            }
            ErrorCode::Forbidden
            | ErrorCode::NoSession
            | ErrorCode::TooSlow
            | ErrorCode::Draining
            | ErrorCode::Closed
                if !answers =>
            {
                self.last_error = Some((code, why));
            }
            _ => self.shared.fanout.notice(why),
        }
        Ok(())
    }
}

/// Returns the notice about a refused approval mode of a new session, without which no prompt is sent.
fn needs_mode(why: &str) -> String {
    let why = sentence(why);
    format!(
        "the approval mode of this session is not set: {why}; your messages wait until you choose one with /approve"
    )
}

/// Marks a question as coming from the server, and adds details that name the server as the recipient of the
/// answer. The program's name and all other details are labeled as claims by the server.
fn from_server(question: Question, server: &str) -> Question {
    let claimed: String = sentence(&question.from).chars().take(CLAIM_CHARS_MAX).collect();
    let own = [
        format!("Warning: your answer goes to {server}, which alone decides who reads it."),
        format!("The server names {claimed} as the program."),
    ];
    let claims = question.details.iter().map(|detail| format!("Details from the server: {detail}"));
    let details = own.into_iter().chain(claims).collect();
    Question { from: format!("the server {server}"), details, ..question }
}

fn call(id: &CallId, name: &str, arguments: &Value) -> ToolCall {
    let arguments = match arguments {
        Value::Object(map) => Arguments::Object(map.clone()),
        Value::String(text) => Arguments::Invalid(text.clone()),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
            Arguments::Invalid(other.to_string())
        }
    };
    ToolCall { id: id.clone(), wire_id: None, name: name.to_owned(), arguments }
}

#[cfg(test)]
mod hostile_server;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconnect_delays_grow_to_a_limit_with_jitter() {
        for (failures, most) in [(0, 200), (1, 400), (5, 6_400), (6, 10_000), (u32::MAX, 10_000)] {
            let waits: Vec<_> = (0..20).map(|_| backoff(failures)).collect();
            let most = Duration::from_millis(most);
            assert!(waits.iter().all(|wait| *wait <= most && *wait >= most / 2), "{failures}: {waits:?}");
            assert!(waits.iter().any(|wait| *wait != waits[0]));
        }
    }
}
