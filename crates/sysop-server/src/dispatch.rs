//! Handles clients' messages, regardless of the transport that they arrived over.

use std::sync::Arc;

use sysop_core::event::{ConfigChange, Input};
use sysop_core::id::CallId;
use sysop_core::image::{ImageHeader, PROMPT_IMAGES_MAX};
use sysop_core::policy::Rule;
use sysop_core::session::QUEUED_PROMPTS_MAX;
use sysop_driver::QUEUE_IS_FULL;
use sysop_driver::prompter::{PromptReply, Terminal, TerminalSize, TerminalView};
use sysop_driver::tokens::Scopes;
use sysop_wire::{ClientMessage, DecisionKind, DirectOrigin, ErrorCode, PromptImage, QuestionReply};

use crate::ServerInner;
use crate::authenticator::Caller;
use crate::registry::SessionRef;
use crate::session_feed::Follower;

/// Error message during shutdown.
pub(crate) const DRAINING: &str = "the server is shutting down; reconnect in a moment";

#[derive(Debug)]
pub(crate) struct MessageRejection {
    pub(crate) code: ErrorCode,
    pub(crate) why: String,
}

pub(crate) fn rejection(code: ErrorCode, why: impl Into<String>) -> MessageRejection {
    MessageRejection { code, why: why.into() }
}

/// Result of a message that was not rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageOutcome {
    /// Passed to the session.
    Accepted,
    /// No longer relevant, or a duplicate.
    Ignored,
}

/// Handles a message. Greetings and terminal attachments belong to a connection and are handled there.
pub(crate) async fn handle_message(
    inner: &ServerInner,
    session_ref: &SessionRef,
    caller: &Caller,
    message: ClientMessage,
) -> Result<MessageOutcome, MessageRejection> {
    require_scopes(inner, session_ref, caller, needed_scopes(&message)).await?;
    let by = caller.name.as_str();
    match &message {
        ClientMessage::ToolResult(result) => {
            let waited_for = session_ref.state.tool_broker.finish(&caller.key, result.clone());
            return Ok(if waited_for { MessageOutcome::Accepted } else { MessageOutcome::Ignored });
        }
        ClientMessage::ToolOutput { tool_call_id, content, .. } => {
            let waited_for = session_ref.state.tool_broker.output(&caller.key, tool_call_id, content);
            return Ok(if waited_for { MessageOutcome::Accepted } else { MessageOutcome::Ignored });
        }
        ClientMessage::QuestionAnswer { .. } => return answer(session_ref, by, &message),
        ClientMessage::TerminalInput { data, .. } => {
            let terminal = terminal(session_ref)?;
            if !terminal.is_open() {
                let why = "the terminal is not open yet; attach to it, and wait for its first output";
                return Err(rejection(ErrorCode::NoTerminal, why));
            }
            terminal.input(by, data.expose().as_bytes());
            return Ok(MessageOutcome::Accepted);
        }
        ClientMessage::TerminalResize { cols, rows, .. } => {
            terminal(session_ref)?.resize(TerminalSize { columns: *cols, rows: *rows });
            return Ok(MessageOutcome::Accepted);
        }
        ClientMessage::TerminalRelease { .. } => {
            terminal(session_ref)?.release(by);
            return Ok(MessageOutcome::Accepted);
        }
        ClientMessage::ApprovalDecision { tool_call_id, decision, .. } => {
            check_decision(inner, session_ref, tool_call_id, *decision).await?;
        }
        ClientMessage::UserMessage { content, images, .. }
            if content.trim().is_empty() && images.is_empty() =>
        {
            return Err(rejection(ErrorCode::BadMessage, "the message is empty"));
        }
        ClientMessage::UserMessage { images, .. } => {
            check_images(inner, images).await?;
            check_queue_capacity(inner, session_ref).await?;
        }
        ClientMessage::Cancel { .. }
        | ClientMessage::WithdrawPrompt { .. }
        | ClientMessage::ApprovalPreview { .. }
        | ClientMessage::Direct { .. }
        | ClientMessage::Configure { .. }
        | ClientMessage::Pause { .. }
        | ClientMessage::Resume { .. }
        | ClientMessage::Retry { .. }
        | ClientMessage::Clear { .. }
        | ClientMessage::Compact { .. }
        | ClientMessage::Background { .. }
        | ClientMessage::StopJob { .. }
        | ClientMessage::Hello(_)
        | ClientMessage::TerminalAttach { .. }
        | ClientMessage::TerminalDetach { .. }
        | ClientMessage::Heartbeat {} => {}
    }
    forward_to_session(inner, session_ref, caller, &message)
}

/// Checks that a decision fits the call's pending approval. For "allow always", writes the rule.
async fn check_decision(
    inner: &ServerInner,
    session_ref: &SessionRef,
    tool_call_id: &CallId,
    decision: DecisionKind,
) -> Result<(), MessageRejection> {
    let now = inner.registry.open(&session_ref.state.id).await;
    let now = now.map_err(|error| rejection(ErrorCode::Closed, error.to_string()))?;
    let known = Follower::caught_up(&now).await;
    // In a cluster, another server may have announced an approval whose event has not arrived here yet.
    if known.asked_about() != Some(tool_call_id)
        && !inner.registry.backend.is_logged(&session_ref.state.id, known.seq().next()).await
    {
        let why = format!("no pending approval for call {tool_call_id}; it may already have been answered");
        return Err(rejection(ErrorCode::Stale, why));
    }
    if matches!(decision, DecisionKind::AllowSession | DecisionKind::AllowAlways) && known.allows_once_only()
    {
        let why = "this kind of command can only be allowed once; it still needs approval";
        return Err(rejection(ErrorCode::BadMessage, why));
    }
    if decision == DecisionKind::AllowAlways {
        let rule = known.offered_rule().filter(|_| known.asked_about() == Some(tool_call_id));
        let why = "no rule can be written for this call; it still needs approval";
        let rule = rule.ok_or_else(|| rejection(ErrorCode::BadMessage, why))?;
        write_rule(inner, session_ref, rule).await?;
    }
    Ok(())
}

/// Writes the rule that the server offers for the pending approval and adds it to the session. Does not approve the
/// call.
async fn write_rule(
    inner: &ServerInner,
    session_ref: &SessionRef,
    rule: Rule,
) -> Result<(), MessageRejection> {
    if !inner.is_open() {
        return Err(rejection(ErrorCode::Draining, DRAINING));
    }
    let written = inner.registry.backend.save_rule(rule).await;
    let rule = written.map_err(|why| rejection(ErrorCode::Internal, why))?;
    send(inner, session_ref, vec![Input::Configure { change: ConfigChange::added_rule(rule) }])?;
    Ok(())
}

/// Attributes the turn that a message starts to its sender and trace.
fn attribute(inner: &ServerInner, session_ref: &SessionRef, caller: &Caller, is_retry: bool) {
    let (id, trace) = (&session_ref.state.id, session_ref.state.trace());
    let text = trace.as_ref().map(ToString::to_string);
    inner.registry.backend.attribute_to(id, &caller.name, text.as_deref(), is_retry);
    if let (Some(spans), Some(trace)) = (&inner.settings.spans, trace) {
        spans.attribute_to(id, trace);
    }
}

/// Passes a message to the session, once per message id.
fn forward_to_session(
    inner: &ServerInner,
    session_ref: &SessionRef,
    caller: &Caller,
    message: &ClientMessage,
) -> Result<MessageOutcome, MessageRejection> {
    let by = caller.name.as_str();
    let name = message.envelope().and_then(|envelope| envelope.message_id.clone());
    if let Some(name) = &name
        && !inner.registry.first_delivery(&session_ref.state.id, &caller.key, name)
    {
        return Ok(MessageOutcome::Ignored);
    }
    let is_retry = matches!(message, ClientMessage::Retry { .. });
    if message.starts_turn() {
        attribute(inner, session_ref, caller, is_retry);
    }
    let mut inputs = message.inputs(by);
    for input in &mut inputs {
        if let Input::Decision { person, .. } = input {
            *person = Some(caller.person.clone());
        }
    }
    let sent = send(inner, session_ref, inputs);
    if message.starts_turn() && sent.is_err() {
        inner.registry.backend.forget_request(&session_ref.state.id, by, is_retry);
    }
    if let (Some(name), Err(_)) = (&name, &sent) {
        inner.registry.forget_delivery(&session_ref.state.id, &caller.key, name); // so that the client can retry
    }
    sent
}

/// Rejects a prompt if the queue is full as far as this server knows. The check is made here because another server of
/// the cluster may run the session, and could report only afterwards that it dropped the prompt.
async fn check_queue_capacity(inner: &ServerInner, session_ref: &SessionRef) -> Result<(), MessageRejection> {
    let now = inner.registry.open(&session_ref.state.id).await;
    let now = now.map_err(|error| rejection(ErrorCode::Closed, error.to_string()))?;
    if Follower::caught_up(&now).await.now().queued as usize >= QUEUED_PROMPTS_MAX {
        return Err(rejection(ErrorCode::TooMany, QUEUE_IS_FULL));
    }
    Ok(())
}

/// Rejects images that are not stored here, and those whose stated format or size does not match the bytes.
async fn check_images(inner: &ServerInner, images: &[PromptImage]) -> Result<(), MessageRejection> {
    if images.len() > PROMPT_IMAGES_MAX {
        let why = format!("a prompt may have at most {PROMPT_IMAGES_MAX} images");
        return Err(rejection(ErrorCode::BadMessage, why));
    }
    for image in images {
        let stored = inner.registry.backend.image_header(&image.artifact).await;
        let stored = stored.map_err(|error| rejection(ErrorCode::BadMessage, error.to_string()))?;
        let stated = ImageHeader { format: image.media_type, width: image.width, height: image.height };
        if stated != stored {
            let why = format!("the image {} has another format or size than stated", image.artifact);
            return Err(rejection(ErrorCode::BadMessage, why));
        }
    }
    Ok(())
}

fn send(
    inner: &ServerInner,
    session_ref: &SessionRef,
    inputs: Vec<Input>,
) -> Result<MessageOutcome, MessageRejection> {
    if !inner.is_open() {
        return Err(rejection(ErrorCode::Draining, DRAINING));
    }
    for input in inputs {
        if let Input::Configure { change } = &input {
            inner
                .registry
                .backend
                .check_change(change)
                .map_err(|why| rejection(ErrorCode::Forbidden, why))?;
        }
        session_ref.opened.session.send(input).map_err(|why| send_error(session_ref, why))?;
    }
    Ok(MessageOutcome::Accepted)
}

/// Maps a send error: the session is closed, or temporarily overloaded.
pub(crate) fn send_error(session_ref: &SessionRef, why: String) -> MessageRejection {
    let gone = session_ref.opened.session.last_error().is_some();
    rejection(if gone { ErrorCode::Closed } else { ErrorCode::TooMany }, why)
}

fn answer(
    session_ref: &SessionRef,
    by: &str,
    message: &ClientMessage,
) -> Result<MessageOutcome, MessageRejection> {
    let Some((id, reply)) = message.answer() else { return Ok(MessageOutcome::Ignored) };
    let answer = match reply {
        QuestionReply::Given(text) => PromptReply::Given { by: by.to_owned(), text: text.into_inner() },
        QuestionReply::NoSecret => PromptReply::NoSecret,
        QuestionReply::Refused => PromptReply::Refused,
    };
    if session_ref.opened.session.answer(id, answer) {
        return Ok(MessageOutcome::Accepted);
    }
    Err(rejection(ErrorCode::Stale, "this question is closed; it may already have been answered"))
}

pub(crate) fn terminal(session_ref: &SessionRef) -> Result<Arc<dyn Terminal>, MessageRejection> {
    let terminal = session_ref.opened.session.terminal();
    terminal.ok_or_else(|| rejection(ErrorCode::NoTerminal, "no terminal in this session"))
}

/// Opens the session's terminal if necessary, sizes it to the client's screen and returns a view of it.
pub(crate) async fn watch(
    session_ref: &SessionRef,
    caller: &Caller,
    size: Option<(u16, u16)>,
    scrollback_rows: usize,
) -> Result<TerminalView, MessageRejection> {
    let terminal = attach(session_ref, caller, size)?;
    terminal.watch_back(scrollback_rows).await.map_err(|why| rejection(ErrorCode::NoTerminal, why))
}

/// Returns the session's terminal if the caller may watch it. If the caller may operate, the terminal is resized to the
/// client's screen.
pub(crate) fn attach(
    session_ref: &SessionRef,
    caller: &Caller,
    size: Option<(u16, u16)>,
) -> Result<Arc<dyn Terminal>, MessageRejection> {
    let terminal = terminal(session_ref)?;
    if !terminal.is_open() {
        require_operate(caller)?; // watching needs `read`; opening a shell does not
    }
    if let Some((columns, rows)) = size
        && caller.scopes.operate
    {
        terminal.resize(TerminalSize { columns, rows });
    }
    Ok(terminal)
}

/// Returns the scopes that a message needs. The caller who opened the session may decide without the scope `decide`.
pub(crate) fn needed_scopes(message: &ClientMessage) -> Scopes {
    match message {
        ClientMessage::Hello(_)
        | ClientMessage::Heartbeat {}
        | ClientMessage::TerminalAttach { .. }
        | ClientMessage::TerminalDetach { .. } => Scopes::READ,
        ClientMessage::ApprovalDecision { .. }
        | ClientMessage::ApprovalPreview { .. }
        | ClientMessage::QuestionAnswer { .. } => Scopes::DECIDE,
        ClientMessage::Configure { model, approve, mode, .. } => {
            let decide = approve.is_some();
            Scopes { operate: !decide || model.is_some() || mode.is_some(), decide }
        }
        // Typed commands run without approval.
        ClientMessage::Direct { origin: DirectOrigin::Typed, .. } | ClientMessage::TerminalInput { .. } => {
            Scopes::ALL
        }
        ClientMessage::Direct { origin: DirectOrigin::Routine | DirectOrigin::Plan, .. }
        | ClientMessage::UserMessage { .. }
        | ClientMessage::WithdrawPrompt { .. }
        | ClientMessage::ToolResult(_)
        | ClientMessage::ToolOutput { .. }
        | ClientMessage::Cancel { .. }
        | ClientMessage::Pause { .. }
        | ClientMessage::Resume { .. }
        | ClientMessage::Retry { .. }
        | ClientMessage::Clear { .. }
        | ClientMessage::Compact { .. }
        | ClientMessage::Background { .. }
        | ClientMessage::StopJob { .. }
        | ClientMessage::TerminalResize { .. }
        | ClientMessage::TerminalRelease { .. } => Scopes::OPERATE,
    }
}

async fn require_scopes(
    inner: &ServerInner,
    session_ref: &SessionRef,
    caller: &Caller,
    needed: Scopes,
) -> Result<(), MessageRejection> {
    if needed.operate {
        require_operate(caller)?;
    }
    if needed.decide { require_decide(inner, session_ref, caller).await } else { Ok(()) }
}

pub(crate) fn require_operate(caller: &Caller) -> Result<(), MessageRejection> {
    if caller.scopes.operate {
        return Ok(());
    }
    Err(rejection(
        ErrorCode::Forbidden,
        "this token lacks the scope `operate`; create one with `--scope operate`",
    ))
}

/// Fails if the caller may not decide in this session. A session's command must not approve the session's
/// calls, so an unattended token created after the last prompt cannot decide.
async fn require_decide(
    inner: &ServerInner,
    session_ref: &SessionRef,
    caller: &Caller,
) -> Result<(), MessageRejection> {
    let unattended = caller.token.filter(|token| token.unattended);
    if caller.scopes.decide && unattended.is_none() {
        return Ok(());
    }
    let now = inner.registry.open(&session_ref.state.id).await;
    let now = now.map_err(|error| rejection(ErrorCode::Closed, error.to_string()))?;
    let known = Follower::caught_up(&now).await;
    if let Some(token) = unattended
        && known.prompted().is_some_and(|prompted| token.created >= prompted)
    {
        let what = "a token created after the last prompt";
        inner.registry.backend.audit_refusal(&session_ref.state.id, &caller.name, what).await;
        let why = "this token was created after the session's last prompt by a process of unknown origin and cannot \
             decide; create one in your own terminal";
        return Err(rejection(ErrorCode::Forbidden, why));
    }
    // Sessions are opened with `operate`: a read-only page has the name of its token, but not this scope.
    if caller.scopes.decide || (caller.scopes.operate && known.is_opened_by(caller)) {
        return Ok(());
    }
    let why = "this token did not open the session and cannot decide in it; create one with `--scope decide`";
    Err(rejection(ErrorCode::Forbidden, why))
}
