//! The full-screen front end: history, the proposal or the live output, and the input; the session's terminal beside
//! them. Draws a `Transcript`, sends `Input`s, decides nothing about a session.
//!
//! `app` is a pure state: keys and updates in, `Action`s out, time as an argument. `frame` lays out what `view` draws.
//! `screen` takes the person's terminal and gives it back; `pane` is the session's terminal; `picker` is a list with
//! a search. Only the run loop (`run`) does IO.
#![warn(missing_docs)]

pub mod app;
pub mod external_program;
pub mod frame;
pub mod picker;
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

pub use run::{TuiExit, run};

use futures::future::BoxFuture;
use sysop_driver::frontend::{AttachedSession, SessionService};
use sysop_term::ThemeName;

/// The name under which this front end answers approvals.
pub const BY: &str = "tui";

/// What the front end needs.
pub struct TuiContext {
    /// Opens the desk and the session to begin with, after the first frame is on the screen.
    pub open: BoxFuture<'static, OpenResult>,
    /// What to ask of the session first.
    pub task: Option<String>,
    /// Where typed messages are remembered; nowhere if none.
    pub history: Option<PathBuf>,
    /// What the person should know first.
    pub notice: Option<String>,
    /// How it looks at first.
    pub theme: ThemeName,
    /// Keeps how it looks for the next start; gives a sentence that says where, or why it does not. May block.
    pub keep_theme: Arc<dyn Fn(ThemeName) -> String + Send + Sync>,
    /// What tokens cost, by `PROVIDER/NAME`.
    pub prices: HashMap<String, Price>,
    /// The person's programs for long texts, as they were found in the environment.
    pub programs: ExternalPrograms,
    /// The folder for what is being edited.
    pub drafts: PathBuf,
    /// The kind of the person's terminal.
    pub kind: screen::TerminalKind,
    /// What becomes of a turn that runs when the person leaves.
    pub leaving: RunningTurnPolicy,
}

/// What becomes of a turn that runs when the person leaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunningTurnPolicy {
    /// It is stopped: it would end with this process.
    #[default]
    Cancel,
    /// It goes on: the session lives elsewhere.
    Continue,
}

/// Why there is no session to begin with; `Display` is one sentence.
pub type OpenError = Box<dyn std::error::Error + Send + Sync>;

/// A session and the desk it was opened at, or why there is none.
pub type OpenResult = Result<(Arc<dyn SessionService>, AttachedSession), OpenError>;

/// What a million tokens cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Price {
    /// Of input.
    pub input: f64,
    /// Of output.
    pub output: f64,
    /// Of input that came from a cache; as much as other input where nobody said.
    pub cached: Option<f64>,
}

/// Programs that are given the terminal for a while; command lines, split by the shell's rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExternalPrograms {
    /// `$VISUAL` or `$EDITOR`.
    pub editor: Option<OsString>,
    /// `$PAGER`.
    pub pager: Option<OsString>,
}
