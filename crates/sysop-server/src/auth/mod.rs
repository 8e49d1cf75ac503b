//! Who may enter: tokens, the page's cookie, the names by which the server is called and the pages that may call it.
//!
//! It decides of requests, not of sessions. Nothing here says, logs or stores a token; what is wrong with one is not told.

mod answers;
mod gate;
mod place;
mod proxy;
mod token;
mod tokens;

#[cfg(test)]
mod tests;

use sysop_wire::ClientMessage;

pub use self::gate::{Gate, GateSettings};
pub use self::place::{Authority, BadPlace, Exposed, Exposure, Origin, Places};
pub use self::proxy::{BadNetwork, Proxies};
pub use self::token::{NewToken, mint};
pub use self::tokens::{Bearer, Shown, Tokens};
use crate::Scope;

/// What a message on a socket asks of its sender: who may only look, may say hello, watch the terminal as it is, and stay.
pub fn scope_of(message: &ClientMessage) -> Scope {
    match message {
        ClientMessage::Hello(hello) if hello.tool_manifest.is_empty() => Scope::Read,
        ClientMessage::TerminalAttach { cols: None, rows: None, .. }
        | ClientMessage::TerminalDetach { .. }
        | ClientMessage::Heartbeat {} => Scope::Read,
        ClientMessage::Hello(_)
        | ClientMessage::UserMessage { .. }
        | ClientMessage::ToolResult(_)
        | ClientMessage::ToolOutput { .. }
        | ClientMessage::Cancel { .. }
        | ClientMessage::ApprovalDecision { .. }
        | ClientMessage::QuestionAnswer { .. }
        | ClientMessage::Direct { .. }
        | ClientMessage::Configure { .. }
        | ClientMessage::Pause { .. }
        | ClientMessage::Resume { .. }
        | ClientMessage::Retry { .. }
        | ClientMessage::Clear { .. }
        | ClientMessage::TerminalAttach { .. }
        | ClientMessage::TerminalInput { .. }
        | ClientMessage::TerminalResize { .. }
        | ClientMessage::TerminalRelease { .. } => Scope::Operate,
    }
}
