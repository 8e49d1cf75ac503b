//! Starts a program as the leader of a new session, without a terminal, using `posix_spawn`.
//!
//! Because of the new session, `sudo`, `ssh` and similar programs report a missing terminal instead of prompting on
//! sysop's terminal, and all processes that a command starts can be found. `std` can create a session only in a hook
//! between `fork` and `exec`, and `fork` copies the page tables of the whole process. With 300 MB in use, this takes 10
//! ms, while `posix_spawn` takes 0.1 ms. Unsafe code in the crate is in this module and in `platform`.
#![expect(
    unsafe_code,
    reason = "no safe API offers a new session in posix_spawn or waits for our own descriptors"
)]

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use rustix::process::Pid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::platform::{SPAWN_SESSION, exit_descriptor};

/// Signals that are reset to their default action in the program, even if this process ignores or handles them.
const DEFAULT_SIGNALS: [libc::c_int; 9] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGPIPE,
    libc::SIGTERM,
    libc::SIGCHLD,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// Resets the signals of `DEFAULT_SIGNALS` to their default action, and unblocks all signals, in a program that gets
/// its own terminal. If this process ignores Ctrl+C, as under `nohup` or in a script's background job, the program
/// would ignore it too and could not be stopped.
pub(crate) fn with_default_signals(command: pty_process::Command) -> pty_process::Command {
    // SAFETY: between fork and exec the hook calls only signal, sigemptyset and sigprocmask, which POSIX allows
    // there. It allocates nothing, takes no lock, and touches no memory except its own frame.
    unsafe {
        command.pre_exec(|| {
            for signal in DEFAULT_SIGNALS {
                if libc::signal(signal, libc::SIG_DFL) == libc::SIG_ERR {
                    return Err(io::Error::last_os_error());
                }
            }
            let mut none = MaybeUninit::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            if libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        })
    }
}

pub(crate) struct SpawnSpec<'a> {
    /// Absolute path of the executable.
    pub(crate) program: &'a CStr,
    /// All arguments, including the program's name.
    pub(crate) arguments: &'a [CString],
    /// Environment as `NAME=VALUE`. The program inherits no other variables.
    pub(crate) environment: &'a [CString],
    /// One more variable, which marks the call's processes so that they can be found.
    pub(crate) mark: Option<&'a CStr>,
    pub(crate) folder: &'a CStr,
    pub(crate) stdin: BorrowedFd<'a>,
    pub(crate) output: BorrowedFd<'a>,
    /// Standard error; often the same as `output`.
    pub(crate) errors: BorrowedFd<'a>,
}

/// Starts the program. Besides its standard streams, the program inherits only descriptors without the close-on-exec
/// flag; all descriptors of this process have that flag.
pub(crate) fn spawn(start: &SpawnSpec<'_>) -> io::Result<Pid> {
    let actions = FileActions::new(start)?;
    let attributes = SpawnAttributes::new()?;
    let arguments = pointers(start.arguments, None);
    let environment = pointers(start.environment, start.mark);
    let mut pid: libc::pid_t = 0;
    // SAFETY: all pointers refer to live, initialized values. `program` and the entries of both arrays are
    // NUL-terminated strings that outlive the call, both arrays end in a null pointer, and posix_spawn writes only to
    // `pid`.
    let code = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            start.program.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            arguments.as_ptr(),
            environment.as_ptr(),
        )
    };
    checked(code)?;
    Pid::from_raw(pid).ok_or_else(|| io::Error::other("the system returned no process id"))
}

/// Opens a descriptor that becomes readable when the process exits. Fails before Linux 5.3.
pub(crate) fn watch_exit(pid: Pid) -> io::Result<AsyncFd<OwnedFd>> {
    let descriptor = exit_descriptor(pid)?;
    // SAFETY: an `OwnedFd` is the same open descriptor until it is dropped, and `AsyncFd` drops it only after
    // deregistering it from the reactor.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?)
}

fn pointers(texts: &[CString], last: Option<&CStr>) -> Vec<*mut libc::c_char> {
    let texts = texts.iter().map(CString::as_c_str).chain(last);
    texts.map(|text| text.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

fn checked(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

struct FileActions(libc::posix_spawn_file_actions_t);

impl FileActions {
    fn new(start: &SpawnSpec<'_>) -> io::Result<Self> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: init writes the whole value if it returns 0, and only then is it assumed to be initialized.
        let mut actions = unsafe {
            checked(libc::posix_spawn_file_actions_init(raw.as_mut_ptr()))?;
            Self(raw.assume_init())
        };
        let targets = [(start.stdin, 0), (start.output, 1), (start.errors, 2)];
        for (source, target) in targets {
            // SAFETY: the value is initialized; the call only stores two numbers in it.
            checked(unsafe {
                libc::posix_spawn_file_actions_adddup2(&raw mut actions.0, source.as_raw_fd(), target)
            })?;
        }
        // SAFETY: the value is initialized; the call copies the NUL-terminated path.
        checked(unsafe {
            libc::posix_spawn_file_actions_addchdir_np(&raw mut actions.0, start.folder.as_ptr())
        })?;
        Ok(actions)
    }
}

impl Drop for FileActions {
    fn drop(&mut self) {
        // SAFETY: the value was initialized and is destroyed once.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

struct SpawnAttributes(libc::posix_spawnattr_t);

impl SpawnAttributes {
    fn new() -> io::Result<Self> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: init writes the whole value if it returns 0, and only then is it assumed to be initialized.
        let mut attributes = unsafe {
            checked(libc::posix_spawnattr_init(raw.as_mut_ptr()))?;
            Self(raw.assume_init())
        };
        let flags = SPAWN_SESSION
            | libc::c_short::try_from(libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK)
                .expect("the flags fit in a c_short");
        let mut none = MaybeUninit::uninit();
        let mut defaults = MaybeUninit::uninit();
        // SAFETY: sigemptyset initializes a whole set, so both are initialized before they are read; the
        // signal numbers are constants of the system, and the attributes are initialized.
        unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigemptyset(defaults.as_mut_ptr());
            for signal in DEFAULT_SIGNALS {
                libc::sigaddset(defaults.as_mut_ptr(), signal);
            }
            checked(libc::posix_spawnattr_setsigmask(&raw mut attributes.0, none.as_ptr()))?;
            checked(libc::posix_spawnattr_setsigdefault(&raw mut attributes.0, defaults.as_ptr()))?;
            checked(libc::posix_spawnattr_setflags(&raw mut attributes.0, flags))?;
        }
        Ok(attributes)
    }
}

impl Drop for SpawnAttributes {
    fn drop(&mut self) {
        // SAFETY: the value was initialized and is destroyed once.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}
