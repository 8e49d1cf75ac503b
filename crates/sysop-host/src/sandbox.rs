//! Fences: limits that the kernel enforces on a local command, whatever the policy concluded from its text.
//!
//! # Problem
//!
//! The policy reads a command and predicts its effect. The prediction can be wrong: a program does more than its name
//! says, or a parser and a shell disagree. Inside a fence, such a mistake is harmless, because the kernel refuses every
//! effect that the policy did not predict.
//!
//! # Design
//!
//! A fence has three layers, because none of them covers everything:
//! - Landlock restricts files, TCP, signals and abstract sockets to an allow list. It needs no privilege, works
//!   inside containers, and costs a tenth of a millisecond. It does not cover metadata (`chmod`), UDP before ABI 10,
//!   or sockets with a path before ABI 9.
//! - seccomp refuses system calls that Landlock does not cover: other kinds of sockets if there is no network, and
//!   changes of metadata and of other processes if nothing may be written.
//! - Capabilities of root that reach beyond files are dropped. Root without them is a user who may read everything.
//!
//! A thread enters the fence, starts the program and exits. All three layers belong to a thread and are
//! inherited by the processes that it starts. So this process stays unrestricted, `posix_spawn` still works
//! (a `fork` of a large process takes milliseconds), and no code runs between `fork` and `exec`, where little
//! is allowed. The thread must never belong to a pool, because a fence cannot be removed.
//!
//! # Rejected
//!
//! - bubblewrap: it hides files that Landlock can only deny, but takes ten times as long to start, is missing or
//!   forbidden on many servers, and its process namespace breaks `ps`, `kill` and `lsof`.
//! - Rules for the siblings of protected files such as `.git/hooks`, instead of one rule for the whole root: Landlock
//!   can only grant access and not take it away, so new files in the root could not be written.
//!
//! # Invariants
//!
//! - A program starts inside the complete fence or not at all.
//! - The fence never restricts this process.
//! - Each call gets a newly built fence, because its files may have been replaced since the last one. The fence is
//!   built before the thread starts.

mod hint;
mod request;

use std::io;
use std::sync::OnceLock;

use sysop_core::policy::Fence;
use tempfile::TempDir;

pub(crate) use self::hint::{Escape, hint};
pub(crate) use self::request::{FenceRequest, OpenRoot, TEMPORARY_FOLDERS, has_network};
use crate::platform::{KernelFence, NO_SANDBOX, SANDBOX_REMEDY};

/// Oldest Landlock ABI that fences use. With an older one, files could not be renamed into another directory.
const ABI_MIN: u32 = 2;
/// Stack size in bytes of the thread that starts a program.
const STACK_BYTES: usize = 256 * 1024;

/// Sandbox features of this machine's kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SandboxSupport {
    /// Landlock ABI; 0 if Landlock or seccomp is missing.
    abi: u32,
}

impl SandboxSupport {
    pub const NONE: Self = Self { abi: 0 };

    /// Detects the features by entering a fence in a thread. Runs once per process.
    pub fn of_kernel() -> Self {
        static FOUND: OnceLock<SandboxSupport> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let request = FenceRequest { fence: &Fence::ReadOnly { network: false }, root: None, tty: None };
            let prepared = PreparedFence::build(&request, None);
            let entered = prepared.and_then(|fence| on_thread(move || fence.enter()));
            Self { abi: entered.unwrap_or(0) }
        })
    }

    /// Returns true if commands can be fenced.
    pub fn is_usable(self) -> bool {
        self.abi >= ABI_MIN
    }

    /// Describes the enforced limits in a few words.
    pub fn summary(self) -> String {
        if !self.is_usable() {
            return match self.abi {
                0 => format!("not enforced: {NO_SANDBOX}"),
                abi => format!("not enforced: Landlock ABI {abi} is too old; ABI {ABI_MIN} is required"),
            };
        }
        let signals = if self.abi >= 6 { ", signals" } else { "" };
        format!("Landlock ABI {} and seccomp: files, TCP, UDP{signals}", self.abi)
    }

    /// Says what to do if commands cannot be fenced.
    pub fn remedy() -> &'static str {
        SANDBOX_REMEDY
    }

    /// Lists the effects that fences do not prevent on this kernel.
    pub fn gaps(self) -> Vec<&'static str> {
        let mut gaps = vec!["chmod, chown and file times (prevented only in approval mode `never`)"];
        if self.abi < 9 {
            gaps.push("path-based sockets, such as docker.sock and D-Bus");
        }
        if self.abi < 6 {
            gaps.push("signals to other processes");
        }
        if self.abi < 5 {
            gaps.push("ioctl on devices");
        }
        if self.abi < 3 {
            gaps.push("truncate (prevented only in approval mode `never`)");
        }
        gaps
    }
}

/// Fence that has been built but not yet entered.
pub(crate) struct PreparedFence {
    kernel: KernelFence,
    temporary: Option<TempDir>,
}

impl PreparedFence {
    /// Builds a fence, or returns `None` for `Fence::Off`. A read-only fence gets a temporary directory, which is the
    /// only place where the program may write.
    pub(crate) fn new(request: &FenceRequest<'_>, support: SandboxSupport) -> io::Result<Option<Self>> {
        let needs_folder = match request.fence {
            Fence::Off => return Ok(None),
            Fence::ReadOnly { .. } => true,
            Fence::Workspace { .. } => false,
        };
        if !support.is_usable() {
            return Err(io::Error::other(format!("the sandbox is {}", support.summary())));
        }
        let temporary = if needs_folder {
            // On a full or read-only disk the command runs without the directory.
            tempfile::Builder::new().prefix("sysop-").tempdir().ok()
        } else {
            None
        };
        Self::build(request, temporary).map(Some)
    }

    fn build(request: &FenceRequest<'_>, temporary: Option<TempDir>) -> io::Result<Self> {
        let kernel = KernelFence::build(request, temporary.as_ref().map(TempDir::path))?;
        Ok(Self { kernel, temporary })
    }

    /// Takes ownership of the temporary directory, which is removed when the result is dropped.
    pub(crate) fn take_temporary_folder(&mut self) -> Option<TempDir> {
        self.temporary.take()
    }

    /// Calls `start`, which starts a program, on a thread inside the fence.
    pub(crate) fn start_inside<T: Send>(self, start: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        on_thread(move || {
            self.enter().map_err(|error| io::Error::other(format!("the sandbox failed: {error}")))?;
            start()
        })
    }

    /// Restricts the calling thread for the rest of its life. Returns the Landlock ABI, or 0 if there is none.
    fn enter(self) -> io::Result<u32> {
        self.kernel.enter()
    }
}

/// Runs `act` on a new thread and waits for it.
fn on_thread<T: Send>(act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("sandbox".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, act)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the sandbox thread panicked")))
    })
}
