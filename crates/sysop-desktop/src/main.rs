//! `sysop-desktop`: shows the page of a server of its own in a window. `sysop desktop` starts it.
//!
//! It stands without any crate of ours: what it knows of sysop is its command line, its pipes and its page. And no other
//! crate links a web engine (`docs/adr/0017`).

mod arguments;
mod news;
mod one;
mod page;
mod place;
mod server;
mod state;
mod tell;
mod window;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

use crate::arguments::{Arguments, Asked};
use crate::one::Place;
use crate::state::Folders;

/// It did not work.
const FAILED: u8 = 1;
/// It cannot work as it was started, or here.
const UNUSABLE: u8 = 2;

fn main() -> ExitCode {
    let arguments = match arguments::parse(std::env::args_os().skip(1)) {
        Ok(Asked::Window(arguments)) => arguments,
        Ok(Asked::Text(text)) => {
            // There is nobody left to tell if this cannot be printed.
            let _ = std::io::stdout().write_all(text.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            tell::error(&format!("{error:#}"));
            return ExitCode::from(UNUSABLE);
        }
    };
    match run(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            tell::error(&format!("{error:#}"));
            ExitCode::from(FAILED)
        }
    }
}

fn run(arguments: Arguments) -> Result<u8> {
    let folders = Folders::of(&|name| std::env::var_os(name))?;
    folders.make()?;
    let only = match one::take(&folders.runtime, arguments.session.as_deref())? {
        Place::Mine(only) => only,
        Place::Raised => {
            if !arguments.server.is_empty() {
                tell::note("the window was open already, and keeps the flags that it was started with");
            }
            return Ok(0);
        }
    };
    if gtk::init().is_err() {
        tell::error(
            "the display cannot be opened (see DISPLAY and WAYLAND_DISPLAY); `sysop serve` prints an address for a browser",
        );
        return Ok(UNUSABLE);
    }
    window::show(arguments, &folders, only)
}
