//! Hides this process's memory and initial secrets from the same user's other programs.
//!
//! A command run by a model has the same user. Without protection, it could read this process's memory
//! through `ptrace` or `/proc/PID/mem`, and its initial variables in `/proc/PID/environ`, even if they are
//! missing from the command's own environment. A process that is not dumpable denies both to everyone but
//! root. As a protection against root, the values of secret variables are overwritten in the memory shown by
//! `/proc/PID/environ`, once the config has been loaded.
#![expect(unsafe_code, reason = "no safe API can access the memory that /proc/PID/environ shows")]

use std::ffi::{CStr, c_char};

use sysop_host::platform;

unsafe extern "C" {
    /// Variables of this process, as used by the C library: NUL-terminated strings, then a null pointer.
    static environ: *const *mut c_char;
}

/// Denies the user's other programs access to this process's memory.
pub(crate) fn close_memory() {
    // If the kernel refuses, nothing changes.
    let _ = platform::hide_memory();
}

/// Overwrites the values of these variables with zeros. From then on, they are empty, also for child
/// processes. Does nothing if the process has a second thread.
pub(crate) fn wipe_variables(names: &[String]) {
    if !platform::is_single_threaded() {
        return;
    }
    // SAFETY: this is the only thread, and nothing else in this loop reads or changes the variables. `environ`
    // is null or an array that ends in a null pointer. Each entry is a NUL-terminated, writable string, from
    // the kernel (on the stack) or the C library. Only bytes before the NUL are written.
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
