//! The terminal on which questions are answered: standard input, or the controlling terminal if standard input is
//! something else, such as the data of a task. crossterm makes the same choice.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::OnceLock;

use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use crate::platform::READS_CONTROLLING_TERMINAL;

const CONTROLLING_TERMINAL: &str = "/dev/tty";

/// Returns the controlling terminal if there is one and its keys can be read.
fn controlling_terminal() -> Option<&'static File> {
    static OPENED: OnceLock<Option<File>> = OnceLock::new();
    let open = || File::options().read(true).write(true).open(CONTROLLING_TERMINAL).ok();
    OPENED.get_or_init(|| open().filter(|_| READS_CONTROLLING_TERMINAL)).as_ref()
}

/// Returns true if a user can press keys: standard input is a terminal, or the process is in the foreground of its
/// controlling terminal.
pub fn has_keyboard() -> bool {
    let in_foreground = |terminal: &File| tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp());
    io::stdin().is_terminal() || controlling_terminal().is_some_and(in_foreground)
}

/// Passes the terminal on which keys are pressed to `use_terminal`; standard input if there is no terminal.
pub(crate) fn with_keyboard<T>(use_terminal: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return use_terminal(stdin.as_fd());
    }
    match controlling_terminal() {
        Some(terminal) => use_terminal(terminal.as_fd()),
        None => use_terminal(stdin.as_fd()),
    }
}
