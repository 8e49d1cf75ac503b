//! The connection of one session: opened, kept alive, opened again, and what comes over it put where it belongs.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use serde_json::Value;
use sysop_core::event::{Event, Update};
use sysop_core::id::{CallId, Seq};
use sysop_core::message::{Arguments, ToolCall};
use sysop_driver::people::TerminalSize;
use sysop_driver::port::CancellationToken;
use sysop_wire::{ClientMessage, Decoder, ErrorCode, Hello, ServerMessage, to_line};
use tokio::time::{Instant, MissedTickBehavior};

use crate::ClientError;
use crate::api::sentence;
use crate::lend::{Line, OWN_FROM};
use crate::link::{Broken, Heard, Link};
use crate::remote::Shared;
use crate::terminal::Output;

/// How often the server is told that this client lives.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The first wait before another connection, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// How long what waits may take to be sent at the end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Follows a session until `stop`, or until it is gone for good.
pub(crate) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let mut stream =
        Stream { shared: Arc::clone(&shared), decoder: Decoder::new(), greetings: 0, said_last: None };
    // There is nothing to do before somebody looks, or something is lent.
    if shared.lender.is_none() {
        tokio::select! {
            () = stop.cancelled() => return,
            () = shared.hub.rewind.notified() => {}
        }
    }
    let (mut failures, mut lost) = (0, false);
    loop {
        let opened = tokio::select! {
            () = stop.cancelled() => return,
            opened = Link::open(&shared.api, &shared.id) => opened,
        };
        let why = match opened {
            Ok(link) => {
                if std::mem::take(&mut lost) {
                    shared.hub.notice("connected to the server again");
                }
                let over = stream.serve(link, &stop).await;
                shared.set_connected(false);
                match over {
                    Over::Stopped => return,
                    Over::Gone(why) => return shared.fail(why),
                    Over::Broken { why, greeted } => {
                        if greeted {
                            failures = 0;
                        }
                        why
                    }
                }
            }
            Err(error @ (ClientError::Refused(_) | ClientError::Unknown(_))) => {
                return shared.fail(error.to_string());
            }
            Err(error) => error.to_string(),
        };
        if !std::mem::replace(&mut lost, true) {
            shared.hub.notice(format!("{why}; trying again until it is back"));
        }
        let wait = backoff(failures);
        failures = failures.saturating_add(1);
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Longer each time, and for each client another while, so that they do not all come at once.
fn backoff(failures: u32) -> Duration {
    let (first, most) = BACKOFF;
    let whole = first.saturating_mul(1 << failures.min(10)).min(most);
    whole.mul_f64(rand::rng().random_range(0.5..1.0))
}

struct Stream {
    shared: Arc<Shared>,
    decoder: Decoder,
    /// Answers to `hello` that are still to come: what comes before the last of them is of another beginning.
    greetings: u32,
    /// Why the server ends the connection, where it said so.
    said_last: Option<(ErrorCode, String)>,
}

/// How a connection ended.
enum Over {
    /// It was wanted here.
    Stopped,
    /// There will be none any more.
    Gone(String),
    /// By itself.
    Broken { why: String, greeted: bool },
}

impl Stream {
    async fn serve(&mut self, mut link: Link, stop: &CancellationToken) -> Over {
        self.greetings = 0;
        self.said_last = None;
        let lost = self.shared.outbox().connected(link.instance.as_deref());
        for what in lost {
            self.shared.hub.notice(format!(
                "the server was started again while {what} was on the way; look whether it arrived, it is not sent twice"
            ));
        }
        self.shared.set_connected(true);
        let mut greeted = false;
        let broken = match self.talk(&mut link, stop, &mut greeted).await {
            Ok(()) => {
                // What was said last is still said, and how calls ended that were stopped just now.
                let _ = tokio::time::timeout(LAST_WORDS, self.last_words(&mut link)).await;
                link.close().await;
                return Over::Stopped;
            }
            Err(Broken(why)) => why,
        };
        match self.said_last.take() {
            Some((ErrorCode::Forbidden | ErrorCode::NoSession | ErrorCode::BadManifest, why)) => {
                Over::Gone(why)
            }
            Some((_, why)) => Over::Broken { why, greeted },
            None => Over::Broken { why: broken, greeted },
        }
    }

    /// Talks until this is to stop or the connection breaks.
    async fn talk(
        &mut self,
        link: &mut Link,
        stop: &CancellationToken,
        greeted: &mut bool,
    ) -> Result<(), Broken> {
        let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard_at = Instant::now();
        let again = self.shared.hub.take_wanted();
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
                heard = link.hear(heard_at) => {
                    let heard = heard?;
                    heard_at = Instant::now();
                    match heard {
                        Heard::Text(text) => self.heard(&text)?,
                        Heard::Pong(ping) => shared.outbox().confirmed(ping),
                        Heard::Nothing => {}
                    }
                }
                () = shared.wake.notified() => {}
                () = shared.hub.rewind.notified() => {
                    if shared.hub.take_wanted() {
                        self.hello(link, true).await?;
                    }
                }
                _ = heartbeat.tick() => link.say(to_line(&ClientMessage::Heartbeat {})).await?,
            }
        }
    }

    /// Says who this is and what it has; `again` asks for the whole log.
    async fn hello(&mut self, link: &mut Link, again: bool) -> Result<(), Broken> {
        if again {
            self.decoder = Decoder::new();
        }
        let mut hello = Hello {
            client_version: concat!("sysop ", env!("CARGO_PKG_VERSION")).to_owned(),
            resume_from: Some(self.decoder.seq()),
            ..Hello::default()
        };
        if let Some(lender) = &self.shared.lender {
            hello.tool_manifest = lender.manifest();
            lender.root().clone_into(&mut hello.workspace_root);
        }
        self.greetings += 1;
        link.say(to_line(&ClientMessage::Hello(hello))).await
    }

    /// Sends what waits.
    async fn flush(&mut self, link: &mut Link) -> Result<(), Broken> {
        loop {
            let next = self.shared.outbox().next();
            let Some((line, ping)) = next else { break };
            link.say(line).await?;
            link.ping(ping).await?;
        }
        while let Some(message) = self.shared.next_now() {
            link.say(to_line(&message)).await?;
        }
        Ok(())
    }

    async fn last_words(&mut self, link: &mut Link) -> Result<(), Broken> {
        let shared = Arc::clone(&self.shared);
        while shared.lender.as_ref().is_some_and(|lender| lender.is_busy()) {
            shared.wake.notified().await;
        }
        self.flush(link).await
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are of the session, for the decoder")]
    fn heard(&mut self, text: &str) -> Result<(), Broken> {
        // A message that this version does not know is passed over.
        let Ok(message) = serde_json::from_str::<ServerMessage>(text) else { return Ok(()) };
        match &message {
            ServerMessage::SessionCreated { place: None, .. } => {
                self.greetings = self.greetings.saturating_sub(1);
                if self.greetings == 0 {
                    if self.decoder.seq() == Seq(0) {
                        self.shared.hub.rewound();
                    }
                    self.shared.terminal.connected();
                }
                return Ok(());
            }
            ServerMessage::Error { place: None, message, code, reply_to, .. } => {
                return self.refused(*code, message, reply_to.is_some());
            }
            ServerMessage::TerminalOutput { data, reset, cols, rows, ended, .. } => {
                let size = cols.zip(*rows).map(|(columns, rows)| TerminalSize { columns, rows });
                let ended = ended.as_deref().map(sentence);
                self.shared.terminal.take(Output { data: data.clone(), reset: *reset, size, ended });
                return Ok(());
            }
            ServerMessage::ToolCancel { tool_call_id, .. } => {
                if let Some(lender) = &self.shared.lender {
                    lender.cancel(tool_call_id);
                }
                return Ok(());
            }
            ServerMessage::ToolCall { tool_call_id, name, arguments, origin, run: true, .. } => {
                if let Some(lender) = &self.shared.lender {
                    let line: Arc<dyn Line> = Arc::clone(&self.shared) as Arc<dyn Line>;
                    lender.run(call(tool_call_id, name, arguments), *origin, line);
                }
            }
            ServerMessage::ApprovalRequest { tool_call_id, name, arguments, command, .. } => {
                if let Some(lender) = &self.shared.lender {
                    lender.proposed(call(tool_call_id, name, arguments), command.clone());
                }
            }
            // This machine's own questions have these numbers.
            ServerMessage::Question { question, .. } if question.id.0 >= OWN_FROM => return Ok(()),
            ServerMessage::QuestionClosed { id, .. } if id.0 >= OWN_FROM => return Ok(()),
            _ => {}
        }
        if self.greetings > 0 {
            return Ok(()); // of another beginning
        }
        if let Some(update) = self.decoder.take(message) {
            if let (Some(lender), Update::Logged(logged)) = (&self.shared.lender, &update)
                && let Event::ToolFinished { call, .. } = &logged.event
            {
                lender.cancel(call); // nobody waits for it any more
            }
            self.shared.hub.publish(&update);
        }
        Ok(())
    }

    /// The server did not do something, or is about to end the connection.
    fn refused(&mut self, code: Option<ErrorCode>, why: &str, answers: bool) -> Result<(), Broken> {
        let why = sentence(why);
        let Some(code) = code else {
            self.shared.hub.notice(why);
            return Ok(());
        };
        match code {
            ErrorCode::BadManifest => {
                self.said_last = Some((code, why.clone()));
                return Err(Broken(why));
            }
            ErrorCode::NoTerminal => {
                if !self.shared.terminal.failed(&why) {
                    self.shared.hub.notice(why);
                }
            }
            ErrorCode::Forbidden | ErrorCode::TooSlow | ErrorCode::Draining | ErrorCode::Closed
                if !answers =>
            {
                self.said_last = Some((code, why));
            }
            ErrorCode::BadMessage
            | ErrorCode::TooLarge
            | ErrorCode::TooMany
            | ErrorCode::Forbidden
            | ErrorCode::NoSession
            | ErrorCode::Stale
            | ErrorCode::Busy
            | ErrorCode::TooSlow
            | ErrorCode::Draining
            | ErrorCode::Closed
            | ErrorCode::Internal => self.shared.hub.notice(why),
        }
        Ok(())
    }
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
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_differ() {
        for (failures, most) in [(0, 200), (1, 400), (5, 6_400), (6, 10_000), (u32::MAX, 10_000)] {
            let waits: Vec<_> = (0..20).map(|_| backoff(failures)).collect();
            let most = Duration::from_millis(most);
            assert!(waits.iter().all(|wait| *wait <= most && *wait >= most / 2), "{failures}: {waits:?}");
            assert!(waits.iter().any(|wait| *wait != waits[0]));
        }
    }
}
