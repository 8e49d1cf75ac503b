//! Keeps what this process holds from other programs of the same user: its memory, and the keys that it was started with.
//!
//! A command that a model runs is a program of the same user. It could read the memory of this process by `ptrace` or
//! `/proc/PID/mem`, and the variables it began with in `/proc/PID/environ`, whatever the command's own environment lacks.
//! A process that is not dumpable is closed to both but for root. For root the values of secret variables are overwritten
//! where the kernel shows them, once the config has read them.
#![expect(unsafe_code, reason = "no safe call reaches the block of memory that /proc/PID/environ shows")]

use std::ffi::{CStr, c_char};

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

unsafe extern "C" {
    /// The variables of this process, as the C library finds them: strings that end in a zero byte, and a null pointer.
    static environ: *const *mut c_char;
}

/// Closes the memory of this process to other programs of its user. There is no core dump either.
pub(crate) fn close_memory() {
    // Where the kernel refuses, things are as they were before.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Overwrites the values of these variables with zeros. They are empty from here on, also for what this process starts.
/// Does nothing if the process has a second thread.
pub(crate) fn wipe_variables(names: &[String]) {
    if !is_single_threaded() {
        return;
    }
    // SAFETY: this is the only thread, so that nobody reads or changes the variables meanwhile, and nothing in this loop
    // does. `environ` is null or an array that ends in a null pointer, and each entry is a string that ends in a zero byte
    // and may be written to: the kernel put it on the stack, or the C library allocated it. Only bytes before that zero byte
    // are written to.
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
