//! Fences: what the kernel lets a command on this machine do, whatever its text was judged to be.
//!
//! The policy reads a command and says what it would do. A reading can be wrong: a program does more than its name says, a
//! parser and a shell disagree. Behind a fence such a mistake costs nothing, because the kernel refuses what the command was
//! not judged to do.
//!
//! A fence has three layers, because no single one sees all:
//! - Landlock holds files, TCP, signals and abstract sockets to a list of what is allowed. It asks for no privilege, works
//!   inside containers, and costs a tenth of a millisecond. It does not see metadata (`chmod`), UDP before ABI 10, or sockets
//!   with a path before ABI 9.
//! - seccomp refuses system calls that Landlock does not see: sockets of other kinds where there is no network, and changes of
//!   metadata and of other processes where nothing may be written.
//! - Capabilities of root that reach past files are dropped. Root without them is a user who may read everything.
//!
//! The fence is entered by a thread, which then starts the program and ends. All three layers belong to a thread and pass to
//! what it starts, so that the process stays free, `posix_spawn` goes on to work (a `fork` of a large process takes
//! milliseconds), and none of this runs between `fork` and `exec`, where little is allowed. Such a thread must never be one of
//! a pool: nothing undoes a fence.
//!
//! Rejected: bubblewrap. It hides what Landlock can only deny, but it takes ten times as long to start, is missing or forbidden
//! on many servers, and its process namespace breaks `ps`, `kill` and `lsof`. Also rejected: listing the siblings of protected
//! files such as `.git/hooks`. Landlock allows and never subtracts, so that new files in the root could not be written.
//!
//! Invariants: a program starts inside the whole fence or not at all; the fence never holds this process; a fence is built
//! before the thread starts, for each call anew, because its files may have been replaced since.

mod hint;
mod rules;
mod syscalls;

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::OnceLock;

use landlock::{LandlockStatus, RestrictionStatus, RulesetCreated, RulesetStatus};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use seccompiler::{BpfProgram, apply_filter};
use sysop_core::policy::Fence;
use tempfile::TempDir;

pub(crate) use self::hint::{Escape, hint};

/// The oldest Landlock that is used: before it, no file could be renamed into another folder.
const ABI_MIN: u32 = 2;
/// The stack of the thread that starts a program.
const STACK_BYTES: usize = 256 * 1024;

/// What the kernel of this machine offers for fences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SandboxSupport {
    /// The version of Landlock; 0 where it or seccomp is missing.
    abi: u32,
}

impl SandboxSupport {
    /// No fences.
    pub const NONE: Self = Self { abi: 0 };

    /// What this kernel offers: a thread enters a fence to see. Asked once for each process.
    pub fn of_kernel() -> Self {
        static FOUND: OnceLock<SandboxSupport> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let request = FenceRequest { fence: &Fence::ReadOnly { network: false }, root: None, tty: None };
            let prepared = PreparedFence::build(&request, None);
            let entered = prepared.and_then(|fence| on_thread(move || fence.enter()));
            match entered.map(|status| status.landlock) {
                Ok(LandlockStatus::Available { effective_abi, kernel_abi }) => {
                    let known = effective_abi as u32;
                    Self { abi: kernel_abi.and_then(|abi| abi.try_into().ok()).unwrap_or(known) }
                }
                Ok(LandlockStatus::NotEnabled | LandlockStatus::NotImplemented) | Err(_) => Self::NONE,
            }
        })
    }

    /// Whether a command can be fenced.
    pub fn is_usable(self) -> bool {
        self.abi >= ABI_MIN
    }

    /// What is enforced, in a few words.
    pub fn summary(self) -> String {
        if !self.is_usable() {
            return match self.abi {
                0 => "not enforced: this kernel has no Landlock, or forbids it or seccomp here".to_owned(),
                abi => format!("not enforced: Landlock ABI {abi} is too old, {ABI_MIN} is needed"),
            };
        }
        let signals = if self.abi >= 6 { ", signals" } else { "" };
        format!("Landlock ABI {} and seccomp: files, TCP, UDP{signals}", self.abi)
    }

    /// What fences do not hold with this kernel.
    pub fn gaps(self) -> Vec<&'static str> {
        let mut gaps = vec!["chmod, chown and times of files (but in `never`)"];
        if self.abi < 9 {
            gaps.push("sockets with a path, such as docker.sock and D-Bus");
        }
        if self.abi < 6 {
            gaps.push("signals to other processes");
        }
        if self.abi < 5 {
            gaps.push("ioctl on devices");
        }
        if self.abi < 3 {
            gaps.push("truncate (but in `never`)");
        }
        gaps
    }
}

/// A fence that is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FenceRequest<'a> {
    pub(crate) fence: &'a Fence,
    /// The root of the session.
    pub(crate) root: Option<OpenRoot<'a>>,
    /// The terminal that the program runs in.
    pub(crate) tty: Option<&'a Path>,
}

/// A root that was opened when its session began: its path could lead elsewhere by now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenRoot<'a> {
    pub(crate) folder: BorrowedFd<'a>,
    pub(crate) path: &'a Path,
}

/// A fence that is built and not entered.
pub(crate) struct PreparedFence {
    ruleset: RulesetCreated,
    filter: &'static BpfProgram,
    /// What root may keep.
    capabilities: CapabilitySet,
    temporary: Option<TempDir>,
}

impl PreparedFence {
    /// Builds a fence with a temporary folder of its own, where nothing else may be written; `None` for no fence.
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
            // A full or read-only disk leaves the command without one.
            tempfile::Builder::new().prefix("sysop-").tempdir().ok()
        } else {
            None
        };
        Self::build(request, temporary).map(Some)
    }

    fn build(request: &FenceRequest<'_>, temporary: Option<TempDir>) -> io::Result<Self> {
        let ruleset = rules::ruleset(request, temporary.as_ref().map(TempDir::path))
            .map_err(|error| io::Error::other(format!("the sandbox cannot be built: {error}")))?;
        let filter = syscalls::filter(request.fence)
            .map_err(|error| io::Error::other(format!("the sandbox cannot be built: {error}")))?;
        Ok(Self { ruleset, filter, capabilities: kept_capabilities(request.fence), temporary })
    }

    /// The folder that is the program's own; it is removed when this is dropped.
    pub(crate) fn take_temporary_folder(&mut self) -> Option<TempDir> {
        self.temporary.take()
    }

    /// Starts a program by `start` on a thread inside the fence.
    pub(crate) fn start_inside<T: Send>(self, start: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        on_thread(move || {
            self.enter().map_err(|error| io::Error::other(format!("the sandbox failed: {error}")))?;
            start()
        })
    }

    /// Fences the calling thread, for as long as it lives.
    fn enter(self) -> io::Result<RestrictionStatus> {
        let held = capabilities(None)?;
        if !self.capabilities.contains(held.permitted) {
            let kept = held.permitted & self.capabilities;
            let none = CapabilitySet::empty();
            set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: none })?;
        }
        let status = self.ruleset.restrict_self().map_err(io::Error::other)?;
        if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
            return Err(io::Error::other("the kernel does not enforce it"));
        }
        apply_filter(self.filter).map_err(io::Error::other)?;
        Ok(status)
    }
}

/// Runs something on a thread of its own and waits for it.
fn on_thread<T: Send>(act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("sandbox".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, act)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread of the sandbox broke")))
    })
}

/// The capabilities that matter for the files that a fence allows; without them root could change the machine past its files.
fn kept_capabilities(fence: &Fence) -> CapabilitySet {
    let reads = CapabilitySet::DAC_READ_SEARCH | CapabilitySet::SYS_PTRACE | CapabilitySet::SYSLOG;
    let connects = CapabilitySet::NET_RAW | CapabilitySet::NET_BIND_SERVICE;
    let writes = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::KILL
        | CapabilitySet::SETGID
        | CapabilitySet::SETUID;
    match fence {
        Fence::Off => CapabilitySet::all(),
        Fence::ReadOnly { network: false } => reads,
        Fence::ReadOnly { network: true } => reads | connects,
        Fence::Workspace { network: false, .. } => reads | writes,
        Fence::Workspace { network: true, .. } => reads | writes | connects,
    }
}
