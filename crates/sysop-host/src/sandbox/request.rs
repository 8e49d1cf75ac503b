//! The fence that a program needs, for the kernel's part of it.

use std::os::fd::BorrowedFd;
use std::path::Path;

use sysop_core::policy::Fence;

/// Directories for temporary files, which a workspace fence lets a program write to.
pub(crate) const TEMPORARY_FOLDERS: [&str; 2] = ["/tmp", "/var/tmp"];

#[derive(Debug, Clone, Copy)]
pub(crate) struct FenceRequest<'a> {
    pub(crate) fence: &'a Fence,
    pub(crate) root: Option<OpenRoot<'a>>,
    /// Terminal in which the program runs.
    pub(crate) tty: Option<&'a Path>,
}

/// Root as it was opened at the start of the session. Its path could lead elsewhere by now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenRoot<'a> {
    pub(crate) folder: BorrowedFd<'a>,
    pub(crate) path: &'a Path,
}

pub(crate) fn has_network(fence: &Fence) -> bool {
    match fence {
        Fence::Off => true,
        Fence::ReadOnly { network } | Fence::Workspace { network, .. } => *network,
    }
}
