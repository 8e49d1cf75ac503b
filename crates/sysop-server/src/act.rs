//! What a client's message does to its session, whichever way it came.

use std::sync::Arc;

use sysop_core::event::Input;
use sysop_core::session::QUEUED_PROMPTS_MAX;
use sysop_driver::QUEUE_IS_FULL;
use sysop_driver::people::{Answer, Terminal, TerminalSize, TerminalView};
use sysop_wire::{ClientMessage, ErrorCode, QuestionReply};

use crate::Inner;
use crate::follow::Follower;
use crate::guard::{Caller, Scope};
use crate::house::Room;

/// What is told while the server comes to its end.
pub(crate) const DRAINING: &str = "the server is about to end; connect again in a moment";

/// Why a message is not acted on.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) code: ErrorCode,
    /// One sentence.
    pub(crate) why: String,
}

pub(crate) fn refused(code: ErrorCode, why: impl Into<String>) -> Refused {
    Refused { code, why: why.into() }
}

/// What came of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acted {
    /// The session was told.
    Done,
    /// Nobody waits for it any more, or never did.
    Ignored,
}

/// Does what a message says. Greetings and watching belong to a connection and are not done here.
pub(crate) async fn act(
    inner: &Inner,
    room: &Room,
    caller: &Caller,
    message: ClientMessage,
) -> Result<Acted, Refused> {
    need(caller, Scope::Operate)?;
    let by = caller.name.as_str();
    match &message {
        ClientMessage::ToolResult(result) => {
            let waited_for = room.state.lending.finish(&caller.key, result.clone());
            return Ok(if waited_for { Acted::Done } else { Acted::Ignored });
        }
        ClientMessage::ToolOutput { tool_call_id, content, .. } => {
            let waited_for = room.state.lending.output(&caller.key, tool_call_id, content);
            return Ok(if waited_for { Acted::Done } else { Acted::Ignored });
        }
        ClientMessage::QuestionAnswer { .. } => return answer(room, by, &message),
        ClientMessage::TerminalInput { data, .. } => {
            terminal(room)?.input(by, data.expose().as_bytes());
            return Ok(Acted::Done);
        }
        ClientMessage::TerminalResize { cols, rows, .. } => {
            terminal(room)?.resize(TerminalSize { columns: *cols, rows: *rows });
            return Ok(Acted::Done);
        }
        ClientMessage::TerminalRelease { .. } => {
            terminal(room)?.release(by);
            return Ok(Acted::Done);
        }
        ClientMessage::ApprovalDecision { tool_call_id, .. } => {
            let now = inner.house.open(&room.state.id).await;
            let now = now.map_err(|error| refused(ErrorCode::Closed, error.to_string()))?;
            let known = Follower::caught_up(&now).await;
            // Of several servers another one may have told of an approval that this one has yet to hear of.
            if known.asked_about() != Some(tool_call_id)
                && !inner.house.rooms.is_logged(&room.state.id, known.seq().next()).await
            {
                let why =
                    format!("no approval of call {tool_call_id} is open; it may have been answered before");
                return Err(refused(ErrorCode::Stale, why));
            }
        }
        ClientMessage::UserMessage { content, .. } if content.trim().is_empty() => {
            return Err(refused(ErrorCode::BadMessage, "the message is empty"));
        }
        ClientMessage::UserMessage { .. } => has_room(inner, room).await?,
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
    pass_on(inner, room, caller, &message)
}

/// Tells the session, once however often a message of a name comes.
fn pass_on(inner: &Inner, room: &Room, caller: &Caller, message: &ClientMessage) -> Result<Acted, Refused> {
    let by = caller.name.as_str();
    let name = message.envelope().and_then(|envelope| envelope.message_id.clone());
    if let Some(name) = &name
        && !inner.house.is_news(&room.state.id, &caller.key, name)
    {
        return Ok(Acted::Ignored);
    }
    let trace = room.state.trace();
    inner.house.rooms.acts(&room.state.id, by, trace.as_ref().map(ToString::to_string).as_deref());
    if let (Some(spans), Some(trace)) = (&inner.settings.spans, trace)
        && message.begins_a_turn()
    {
        spans.acts(&room.state.id, trace);
    }
    let sent = send(inner, room, message.inputs(by));
    if let (Some(name), Err(_)) = (&name, &sent) {
        inner.house.is_no_news(&room.state.id, &caller.key, name); // it may be tried again
    }
    sent
}

/// Fails where no more prompts can wait, as far as is known here: of several servers another one may work on it, and
/// could only tell of a prompt that it was not taken.
async fn has_room(inner: &Inner, room: &Room) -> Result<(), Refused> {
    let now = inner.house.open(&room.state.id).await;
    let now = now.map_err(|error| refused(ErrorCode::Closed, error.to_string()))?;
    if Follower::caught_up(&now).await.now().queued as usize >= QUEUED_PROMPTS_MAX {
        return Err(refused(ErrorCode::TooMany, QUEUE_IS_FULL));
    }
    Ok(())
}

fn send(inner: &Inner, room: &Room, inputs: Vec<Input>) -> Result<Acted, Refused> {
    if !inner.is_open() {
        return Err(refused(ErrorCode::Draining, DRAINING));
    }
    for input in inputs {
        if let Input::Configure { change } = &input {
            inner.house.rooms.permits(change).map_err(|why| refused(ErrorCode::Forbidden, why))?;
        }
        room.opened.session.send(input).map_err(|why| unsent(room, why))?;
    }
    Ok(Acted::Done)
}

/// Why the session was not told: it is gone, or takes no more for now.
pub(crate) fn unsent(room: &Room, why: String) -> Refused {
    let gone = room.opened.session.last_error().is_some();
    refused(if gone { ErrorCode::Closed } else { ErrorCode::TooMany }, why)
}

fn answer(room: &Room, by: &str, message: &ClientMessage) -> Result<Acted, Refused> {
    let Some((id, reply)) = message.answer() else { return Ok(Acted::Ignored) };
    let answer = match reply {
        QuestionReply::Given(text) => Answer::Given { by: by.to_owned(), text: text.into_inner() },
        QuestionReply::NoSecret => Answer::NoSecret,
        QuestionReply::Refused => Answer::Refused,
    };
    if room.opened.session.answer(id, answer) {
        return Ok(Acted::Done);
    }
    Err(refused(ErrorCode::Stale, "this question is not open; it may have been answered before"))
}

/// The session's terminal.
pub(crate) fn terminal(room: &Room) -> Result<Arc<dyn Terminal>, Refused> {
    let terminal = room.opened.session.terminal();
    terminal.ok_or_else(|| refused(ErrorCode::NoTerminal, "this session has no terminal"))
}

/// The session's terminal for who wants to watch it: opened if it is not, in the size of their screen.
pub(crate) async fn watch(
    room: &Room,
    caller: &Caller,
    size: Option<(u16, u16)>,
    scrollback_rows: usize,
) -> Result<TerminalView, Refused> {
    let terminal = attach(room, caller, size)?;
    terminal.watch_back(scrollback_rows).await.map_err(|why| refused(ErrorCode::NoTerminal, why))
}

/// The session's terminal, where this caller may watch it; it gets the size of their screen.
pub(crate) fn attach(
    room: &Room,
    caller: &Caller,
    size: Option<(u16, u16)>,
) -> Result<Arc<dyn Terminal>, Refused> {
    let terminal = terminal(room)?;
    if !terminal.is_open() {
        need(caller, Scope::Operate)?; // to watch is to look, to open a shell is not
    }
    if let Some((columns, rows)) = size
        && caller.scope >= Scope::Operate
    {
        terminal.resize(TerminalSize { columns, rows });
    }
    Ok(terminal)
}

/// Fails where the caller may not do what this scope allows.
pub(crate) fn need(caller: &Caller, scope: Scope) -> Result<(), Refused> {
    if caller.scope >= scope {
        return Ok(());
    }
    Err(refused(ErrorCode::Forbidden, "this token may only look; make one with `--scope operate`"))
}
