//! What a panic says, kept back until the terminal is the person's own again: on the other screen nobody would ever
//! read it, and it would stay there as garbage.

use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use sysop_core::text::neutralise;

/// Panics that are kept; the first ones say most.
const KEPT_MAX: usize = 8;

struct Held {
    /// Whether the face is on the terminal.
    holds: bool,
    kept: Vec<String>,
}

static HELD: Mutex<Held> = Mutex::new(Held { holds: false, kept: Vec::new() });
static HOOK: Once = Once::new();

fn held() -> MutexGuard<'static, Held> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on panics are kept.
pub(super) fn hold() {
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let mut held = held();
            if !held.holds {
                drop(held);
                usual(panic);
            } else if held.kept.len() < KEPT_MAX {
                let thread = std::thread::current();
                held.kept.push(format!("thread '{}' {panic}", thread.name().unwrap_or("without a name")));
            }
        }));
    });
    held().holds = true;
}

/// From now on panics are told at once; so are those that were kept.
pub(super) fn tell() {
    let mut held = held();
    held.holds = false;
    for panic in std::mem::take(&mut held.kept) {
        // There is nobody left to tell if this cannot be written.
        let _ = writeln!(std::io::stderr(), "{}", neutralise(&panic));
    }
}
