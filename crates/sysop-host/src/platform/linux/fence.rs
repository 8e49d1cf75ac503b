//! Fence of the Linux kernel: Landlock, seccomp and capabilities. Its design is described in `sandbox`.

use std::io;
use std::path::Path;

use landlock::{LandlockStatus, RulesetCreated, RulesetStatus};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use seccompiler::{BpfProgram, apply_filter};
use sysop_core::policy::Fence;

use super::{rules, syscalls};
use crate::sandbox::FenceRequest;

/// Reason why there is no sandbox, if there is none.
pub(crate) const NO_SANDBOX: &str = "Landlock or seccomp is unavailable on this kernel";

/// The three layers of a fence, built but not yet entered.
pub(crate) struct KernelFence {
    ruleset: RulesetCreated,
    filter: &'static BpfProgram,
    capabilities: CapabilitySet,
}

impl KernelFence {
    /// Builds the fence. `temporary` is a temporary directory that only this program uses.
    pub(crate) fn build(request: &FenceRequest<'_>, temporary: Option<&Path>) -> io::Result<Self> {
        let ruleset = rules::ruleset(request, temporary)
            .map_err(|error| io::Error::other(format!("cannot set up the sandbox: {error}")))?;
        let filter = syscalls::filter(request.fence)
            .map_err(|error| io::Error::other(format!("cannot set up the sandbox: {error}")))?;
        Ok(Self { ruleset, filter, capabilities: kept_capabilities(request.fence) })
    }

    /// Restricts the calling thread for the rest of its life. Returns the Landlock ABI, or 0 if there is none.
    pub(crate) fn enter(self) -> io::Result<u32> {
        let held = capabilities(None)?;
        if !self.capabilities.contains(held.permitted) {
            let kept = held.permitted & self.capabilities;
            let none = CapabilitySet::empty();
            set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: none })?;
        }
        let status = self.ruleset.restrict_self().map_err(io::Error::other)?;
        if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
            return Err(io::Error::other("the kernel does not enforce the sandbox"));
        }
        apply_filter(self.filter).map_err(io::Error::other)?;
        Ok(match status.landlock {
            LandlockStatus::Available { effective_abi, kernel_abi } => {
                let known = effective_abi as u32;
                kernel_abi.and_then(|abi| abi.try_into().ok()).unwrap_or(known)
            }
            LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => 0,
        })
    }
}

/// Returns the capabilities that are needed for the files that a fence allows. With any other capability, root could
/// change more of the machine than its files.
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
