//! Hides this process's memory and initial secrets from other programs of the same user.
//!
//! A command run by a model is a program of the same user. Without protection it could read this process's memory
//! through `ptrace` or `/proc/PID/mem`, and its initial variables in `/proc/PID/environ`, even if the command's own
//! environment lacks them. A process that is not dumpable denies both to everyone but root. As a protection against
//! root, the values of secret variables are overwritten in the memory that `/proc/PID/environ` shows, once the config
//! has read them.
#![expect(unsafe_code, reason = "no safe call reaches the block of memory that /proc/PID/environ shows")]

use std::ffi::{CStr, c_char};

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

unsafe extern "C" {
    /// Variables of this process, as the C library finds them: zero-terminated strings, and a null pointer at the end.
    static environ: *const *mut c_char;
}

/// Denies other programs of the user access to this process's memory. Also disables core dumps.
pub(crate) fn close_memory() {
    // If the kernel refuses, nothing changes.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Overwrites the values of these variables with zeros. They are empty from then on, also for child processes. Does nothing
/// if the process has a second thread.
pub(crate) fn wipe_variables(names: &[String]) {
    if !is_single_threaded() {
        return;
    }
    // SAFETY: this is the only thread, so nothing reads or changes the variables meanwhile, and nothing in this loop does.
    // `environ` is null or an array that ends in a null pointer. Each entry is a zero-terminated, writable string: the
    // kernel put it on the stack, or the C library allocated it. Only bytes before the terminating zero are written.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let start = *entry;
            let bytes = CStr::from_ptr(start).to_bytes();
            let length = bytes.len();
            let value = bytes.iter().position(|byte| *byte == b'=').map(|equals| equals + 1);
            let is_named = |end: usize| names.iter().any(|name| name.as_bytes() == &bytes[..end - 1]);
            if let Some(value) = value.filter(|value| is_named(*value)) {
                start.add(value).write_bytes(0, length - value);
            }
            entry = entry.add(1);
        }
    }
}

fn is_single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}
