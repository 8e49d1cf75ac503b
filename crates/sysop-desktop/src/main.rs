//! `sysop-desktop`: starts a server and shows the server's page in a window. Started by `sysop desktop`.
//!
//! Depends on no crate of the workspace: the interface to sysop is the command line, pipes and the page. No other crate
//! links a web engine (`docs/adr/0017`).

mod arguments;
mod navigation;
mod notifications;
mod page;
mod server;
mod single_instance;
mod stderr;
mod window;
mod window_state;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

use crate::arguments::{CliAction, WindowArguments};
use crate::single_instance::LockOutcome;
use crate::window_state::DataDirs;

/// Exit code for a failure.
const FAILED: u8 = 1;
/// Exit code for invalid arguments, or for a system that cannot show the window.
const UNUSABLE: u8 = 2;

fn main() -> ExitCode {
    let arguments = match arguments::parse(std::env::args_os().skip(1)) {
        Ok(CliAction::OpenWindow(arguments)) => arguments,
        Ok(CliAction::PrintText(text)) => {
            // A failure to print cannot be reported anywhere.
            let _ = std::io::stdout().write_all(text.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            stderr::error(&format!("{error:#}"));
            return ExitCode::from(UNUSABLE);
        }
    };
    match run(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            stderr::error(&format!("{error:#}"));
            ExitCode::from(FAILED)
        }
    }
}

fn run(arguments: WindowArguments) -> Result<u8> {
    let folders = DataDirs::of(&|name| std::env::var_os(name))?;
    folders.create_all()?;
    let instance = match single_instance::take(&folders.runtime, arguments.session.as_deref())? {
        LockOutcome::Acquired(instance) => instance,
        LockOutcome::AlreadyRunning => {
            if !arguments.server.is_empty() {
                stderr::note("a window is already open; it keeps its own options");
            }
            return Ok(0);
        }
    };
    if gtk::init().is_err() {
        stderr::error("cannot open the display (DISPLAY, WAYLAND_DISPLAY); use `sysop serve` and a browser");
        return Ok(UNUSABLE);
    }
    window::show(arguments, &folders, instance)
}
