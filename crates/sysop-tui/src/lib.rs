//! The full-screen front end: history, proposal or live output, composer, and the session's terminal next to them. The
//! front end draws a `Transcript` and sends `Input`s, but makes no decisions about a session.
//!
//! `app` is pure state: it takes keys, updates and the time, and returns `Action`s. `frame` divides the screen and
//! draws everything but the history, which `view` draws. `screen` takes over the user's terminal and restores it,
//! `terminal_pane` shows the session's terminal, and `picker` is a searchable list. Only the run loop (`run`) performs
//! I/O.

pub mod app;
mod clipboard_image;
pub mod external_program;
pub mod frame;
pub mod picker;
mod prompt_history_file;
mod run;
pub mod screen;
pub mod terminal_pane;
#[cfg(test)]
mod tests;
pub mod view;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

pub use app::StatusPart;
pub use run::{TuiExit, run};

use futures::future::BoxFuture;
use sysop_core::model_table::ModelPrice;
use sysop_driver::frontend::{AttachedSession, SessionService};
use sysop_term::{ThemeChoice, ThemeName};

/// Name under which this front end answers approvals.
pub const BY: &str = "tui";

/// Everything the front end needs from its caller.
pub struct TuiContext {
    /// Future that connects to the session service and opens the first session; run after the first frame.
    pub open: BoxFuture<'static, OpenResult>,
    /// Prompt to send first, if any.
    pub task: Option<String>,
    /// File of the prompt history. If `None`, the history is not stored.
    pub history: Option<PathBuf>,
    /// Flash message to show at startup, if any.
    pub notice: Option<String>,
    pub theme: ThemeName,
    /// Saves the theme for the next start. Returns a sentence that names the file or the error. May block.
    pub keep_theme: Arc<dyn Fn(ThemeChoice) -> String + Send + Sync>,
    /// Prices of tokens, by `PROVIDER/NAME`.
    pub prices: HashMap<String, ModelPrice>,
    /// The user's editor and pager, as set in the environment.
    pub programs: ExternalPrograms,
    pub drafts: PathBuf,
    pub kind: screen::TerminalKind,
    pub leaving: RunningTurnPolicy,
    /// True if the theme follows the terminal's background color; `theme` is used until that is known.
    pub detects_theme: bool,
    /// Parts of the status line; the default parts if empty.
    pub status_line: Vec<StatusPart>,
    /// The user's home directory, which is shown as `~`.
    pub home: Option<String>,
    pub clipboard: ClipboardAccess,
}

/// Access to the clipboard of the user's desktop, from which images are pasted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClipboardAccess {
    Wayland,
    X11,
    /// The terminal is on another machine, connected over ssh.
    Remote,
    /// There is no desktop.
    #[default]
    None,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunningTurnPolicy {
    /// Cancel the turn, because it would end with this process anyway.
    #[default]
    Cancel,
    /// Leave the turn running, because the session lives in another process.
    Continue,
}

/// Error from opening the first session. Its `Display` output is one sentence.
pub type OpenError = Box<dyn std::error::Error + Send + Sync>;

pub type OpenResult = Result<(Arc<dyn SessionService>, AttachedSession), OpenError>;

/// External programs, as command lines that are split into words by shell rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExternalPrograms {
    /// `$VISUAL` or `$EDITOR`.
    pub editor: Option<OsString>,
    /// `$PAGER`.
    pub pager: Option<OsString>,
}
