//! What a panic says, kept back until the terminal is the person's own again: on the other screen nobody would ever
//! read it, and it would stay there as garbage.

use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use sysop_core::text::neutralize;

/// Panics that are kept; the first ones say most.
const PANICS_MAX: usize = 8;

struct PanicBuffer {
    /// Whether the front end is on the terminal.
    capturing: bool,
    messages: Vec<String>,
}

static PANICS: Mutex<PanicBuffer> = Mutex::new(PanicBuffer { capturing: false, messages: Vec::new() });
static HOOK: Once = Once::new();

fn panics() -> MutexGuard<'static, PanicBuffer> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on panics are kept.
pub(super) fn capture() {
    HOOK.call_once(|| {
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let mut panics = panics();
            if !panics.capturing {
                drop(panics);
                default_hook(panic);
            } else if panics.messages.len() < PANICS_MAX {
                let thread = std::thread::current();
                panics
                    .messages
                    .push(format!("thread '{}' {panic}", thread.name().unwrap_or("without a name")));
            }
        }));
    });
    panics().capturing = true;
}

/// From now on panics are told at once; so are those that were kept.
pub(super) fn flush() {
    let mut panics = panics();
    panics.capturing = false;
    for panic in std::mem::take(&mut panics.messages) {
        // There is nobody left to tell if this cannot be written.
        let _ = writeln!(std::io::stderr(), "{}", neutralize(&panic));
    }
}
