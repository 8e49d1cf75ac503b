//! Buffers panic messages until the terminal is restored, because they would garble the alternate screen.

use std::io::Write as _;
use std::sync::Once;

use parking_lot::Mutex;
use sysop_core::text::neutralize;

/// Maximum number of messages to keep. The first ones are kept, because they are the most useful.
const PANICS_MAX: usize = 8;

struct PanicBuffer {
    /// True while the front end is using the terminal.
    capturing: bool,
    messages: Vec<String>,
}

static PANICS: Mutex<PanicBuffer> = Mutex::new(PanicBuffer { capturing: false, messages: Vec::new() });
static HOOK: Once = Once::new();

pub(super) fn capture() {
    HOOK.call_once(|| {
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let mut panics = PANICS.lock();
            if !panics.capturing {
                drop(panics);
                default_hook(panic);
            } else if panics.messages.len() < PANICS_MAX {
                let thread = std::thread::current();
                panics.messages.push(format!("thread '{}' {panic}", thread.name().unwrap_or("<unnamed>")));
            }
        }));
    });
    PANICS.lock().capturing = true;
}

/// Prints the buffered messages and stops buffering.
pub(super) fn flush() {
    let mut panics = PANICS.lock();
    panics.capturing = false;
    for panic in std::mem::take(&mut panics.messages) {
        // Standard error may be closed.
        let _ = writeln!(std::io::stderr(), "{}", neutralize(&panic));
    }
}
