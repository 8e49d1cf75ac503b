//! Everything that differs between operating systems: processes, waiting for one, the sandbox, and a few system calls.
//!
//! Each system has a module with the same functions. `cfg(target_os)` stands here and nowhere else in the crates, which
//! a test of the repository checks. What a system cannot do is an error or an unknown value (`None`); a function for
//! which this does not hold says so. Linux uses `/proc` and pidfds. For macOS, this code has been type-checked only:
//! the part in `posix` is tested on Linux, the rest has never run.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(any(test, target_os = "macos"))]
mod posix;
mod process;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!(
    "sysop runs on Linux; another system needs a module like platform/macos.rs in sysop-host and sysop-local"
);

#[cfg(target_os = "linux")]
use self::linux as system;
#[cfg(target_os = "macos")]
use self::macos as system;

pub(crate) use self::process::UserIds;
pub use self::process::{ProcessEntry, ProcessState};
pub(crate) use self::system::{
    KernelFence, NO_SANDBOX, SANDBOX_REMEDY, SEND_FLAGS, SPAWN_SESSION, anonymous_file, arguments, children,
    exit_descriptor, grow_pipe, has_variable, is_setuid_root, local_socket, process, shares_root, user_ids,
    working_folder,
};
pub use self::system::{
    account_name, executable, executable_identity, hide_memory, is_single_threaded, lineage, login_user,
    name_process, own_executable_identity, processes,
};
