//! What a client's message does to its session, whichever way it came.

use std::sync::Arc;

use sysop_core::event::{ConfigChange, Input};
use sysop_core::id::CallId;
use sysop_core::policy::Rule;
use sysop_core::session::QUEUED_PROMPTS_MAX;
use sysop_driver::QUEUE_IS_FULL;
use sysop_driver::prompter::{PromptReply, Terminal, TerminalSize, TerminalView};
use sysop_driver::tokens::Scopes;
use sysop_wire::{ClientMessage, DecisionKind, DirectOrigin, ErrorCode, QuestionReply};

use crate::ServerInner;
use crate::authenticator::Caller;
use crate::registry::SessionRef;
use crate::session_feed::Follower;

/// What is told while the server comes to its end.
pub(crate) const DRAINING: &str = "the server is about to end; connect again in a moment";

/// Why a message is not acted on.
#[derive(Debug)]
pub(crate) struct MessageRejection {
    pub(crate) code: ErrorCode,
    /// One sentence.
    pub(crate) why: String,
}

pub(crate) fn rejection(code: ErrorCode, why: impl Into<String>) -> MessageRejection {
    MessageRejection { code, why: why.into() }
}

/// What came of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageOutcome {
    /// The session was told.
    Accepted,
    /// Nobody waits for it any more, or never did.
    Ignored,
}

/// Does what a message says. Greetings and watching belong to a connection and are not done here.
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
            terminal(session_ref)?.input(by, data.expose().as_bytes());
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
            check_decision(inner, session_ref, caller, tool_call_id, *decision).await?;
        }
        ClientMessage::UserMessage { content, .. } if content.trim().is_empty() => {
            return Err(rejection(ErrorCode::BadMessage, "the message is empty"));
        }
        ClientMessage::UserMessage { .. } => check_queue_capacity(inner, session_ref).await?,
        ClientMessage::Cancel { .. }
        | ClientMessage::Direct { .. }
        | ClientMessage::Configure { .. }
        | ClientMessage::Pause { .. }
        | ClientMessage::Resume { .. }
        | ClientMessage::Retry { .. }
        | ClientMessage::Clear { .. }
        | ClientMessage::Hello(_)
        | ClientMessage::TerminalAttach { .. }
        | ClientMessage::TerminalDetach { .. }
        | ClientMessage::Heartbeat {} => {}
    }
    forward_to_session(inner, session_ref, caller, &message)
}

/// Fails where a decision is none that the call's open approval takes. The rule of "always" is written here.
async fn check_decision(
    inner: &ServerInner,
    session_ref: &SessionRef,
    caller: &Caller,
    tool_call_id: &CallId,
    decision: DecisionKind,
) -> Result<(), MessageRejection> {
    let now = inner.registry.open(&session_ref.state.id).await;
    let now = now.map_err(|error| rejection(ErrorCode::Closed, error.to_string()))?;
    let known = Follower::caught_up(&now).await;
    // Of several servers another one may have told of an approval that this one has yet to hear of.
    if known.asked_about() != Some(tool_call_id)
        && !inner.registry.backend.is_logged(&session_ref.state.id, known.seq().next()).await
    {
        let why = format!("no approval of call {tool_call_id} is open; it may have been answered before");
        return Err(rejection(ErrorCode::Stale, why));
    }
    if matches!(decision, DecisionKind::AllowSession | DecisionKind::AllowAlways) && known.allows_once_only()
    {
        let why = "this kind of command can be allowed only once; nothing was decided";
        return Err(rejection(ErrorCode::BadMessage, why));
    }
    if decision == DecisionKind::AllowAlways {
        let rule = known.offered_rule().filter(|_| known.asked_about() == Some(tool_call_id));
        let why = "cannot write a rule for this call; nothing was decided";
        let rule = rule.ok_or_else(|| rejection(ErrorCode::BadMessage, why))?;
        write_rule(inner, session_ref, caller, rule).await?;
    }
    Ok(())
}

/// Writes a rule that the server made for the open approval, and gives it to the session; the call is yet to be allowed.
async fn write_rule(
    inner: &ServerInner,
    session_ref: &SessionRef,
    caller: &Caller,
    rule: Rule,
) -> Result<(), MessageRejection> {
    if !inner.is_open() {
        return Err(rejection(ErrorCode::Draining, DRAINING));
    }
    let written = inner.registry.backend.save_rule(rule).await;
    let rule = written.map_err(|why| rejection(ErrorCode::Internal, why))?;
    attribute(inner, session_ref, caller);
    send(inner, session_ref, vec![Input::Configure { change: ConfigChange::added_rule(rule) }])?;
    Ok(())
}

/// From now on it is the caller's wish what the session does.
fn attribute(inner: &ServerInner, session_ref: &SessionRef, caller: &Caller) {
    let trace = session_ref.state.trace().map(|trace| trace.to_string());
    inner.registry.backend.attribute_to(&session_ref.state.id, &caller.name, trace.as_deref());
}

/// Tells the session, once however often a message of a name comes.
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
    attribute(inner, session_ref, caller);
    if let (Some(spans), Some(trace)) = (&inner.settings.spans, session_ref.state.trace())
        && message.starts_turn()
    {
        spans.attribute_to(&session_ref.state.id, trace);
    }
    let sent = send(inner, session_ref, message.inputs(by));
    if let (Some(name), Err(_)) = (&name, &sent) {
        inner.registry.forget_delivery(&session_ref.state.id, &caller.key, name); // it may be tried again
    }
    sent
}

/// Fails where no more prompts can wait, as far as is known here: of several servers another one may work on it, and
/// could only tell of a prompt that it was not taken.
async fn check_queue_capacity(inner: &ServerInner, session_ref: &SessionRef) -> Result<(), MessageRejection> {
    let now = inner.registry.open(&session_ref.state.id).await;
    let now = now.map_err(|error| rejection(ErrorCode::Closed, error.to_string()))?;
    if Follower::caught_up(&now).await.now().queued as usize >= QUEUED_PROMPTS_MAX {
        return Err(rejection(ErrorCode::TooMany, QUEUE_IS_FULL));
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

/// Why the session was not told: it is gone, or takes no more for now.
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
    Err(rejection(ErrorCode::Stale, "this question is not open; it may have been answered before"))
}

/// The session's terminal.
pub(crate) fn terminal(session_ref: &SessionRef) -> Result<Arc<dyn Terminal>, MessageRejection> {
    let terminal = session_ref.opened.session.terminal();
    terminal.ok_or_else(|| rejection(ErrorCode::NoTerminal, "no terminal in this session"))
}

/// The session's terminal for who wants to watch it: opened if it is not, in the size of their screen.
pub(crate) async fn watch(
    session_ref: &SessionRef,
    caller: &Caller,
    size: Option<(u16, u16)>,
    scrollback_rows: usize,
) -> Result<TerminalView, MessageRejection> {
    let terminal = attach(session_ref, caller, size)?;
    terminal.watch_back(scrollback_rows).await.map_err(|why| rejection(ErrorCode::NoTerminal, why))
}

/// The session's terminal, where this caller may watch it; it gets the size of their screen.
pub(crate) fn attach(
    session_ref: &SessionRef,
    caller: &Caller,
    size: Option<(u16, u16)>,
) -> Result<Arc<dyn Terminal>, MessageRejection> {
    let terminal = terminal(session_ref)?;
    if !terminal.is_open() {
        require_operate(caller)?; // to watch is to look, to open a shell is not
    }
    if let Some((columns, rows)) = size
        && caller.scopes.operate
    {
        terminal.resize(TerminalSize { columns, rows });
    }
    Ok(terminal)
}

/// The scopes that a message needs. Where it decides what runs, the opener of the session needs no `decide`.
pub(crate) fn needed_scopes(message: &ClientMessage) -> Scopes {
    match message {
        ClientMessage::Hello(_)
        | ClientMessage::Heartbeat {}
        | ClientMessage::TerminalAttach { .. }
        | ClientMessage::TerminalDetach { .. } => Scopes::READ,
        ClientMessage::ApprovalDecision { .. } | ClientMessage::QuestionAnswer { .. } => Scopes::DECIDE,
        ClientMessage::Configure { model, approve, mode, .. } => {
            let decide = approve.is_some();
            Scopes { operate: !decide || model.is_some() || mode.is_some(), decide }
        }
        // What is typed runs without a question.
        ClientMessage::Direct { origin: DirectOrigin::Typed, .. } | ClientMessage::TerminalInput { .. } => {
            Scopes::ALL
        }
        ClientMessage::Direct { origin: DirectOrigin::Routine, .. }
        | ClientMessage::UserMessage { .. }
        | ClientMessage::ToolResult(_)
        | ClientMessage::ToolOutput { .. }
        | ClientMessage::Cancel { .. }
        | ClientMessage::Pause { .. }
        | ClientMessage::Resume { .. }
        | ClientMessage::Retry { .. }
        | ClientMessage::Clear { .. }
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

/// Fails where the caller may not make sessions do something.
pub(crate) fn require_operate(caller: &Caller) -> Result<(), MessageRejection> {
    if caller.scopes.operate {
        return Ok(());
    }
    Err(rejection(ErrorCode::Forbidden, "this token may not do that; make one with `--scope operate`"))
}

/// Fails where the caller may not decide what runs in a session. A command of the session must not decide for its own
/// calls, so a token that one may have made since the last prompt decides nothing.
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
        let what = "a token that was made after the last prompt";
        inner.registry.backend.audit_refusal(&session_ref.state.id, &caller.name, what).await;
        let why = "this token was made after the session's last prompt by a process of unknown origin, and may not \
                   decide; make one in a terminal of your own";
        return Err(rejection(ErrorCode::Forbidden, why));
    }
    if caller.scopes.decide || known.is_opened_by(caller) {
        return Ok(());
    }
    let why = "this token did not open the session and may not decide in it; make one with `--scope decide`";
    Err(rejection(ErrorCode::Forbidden, why))
}
