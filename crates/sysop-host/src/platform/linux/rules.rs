//! Landlock rules for a fence.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, PathBeneath, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetError, Scope, path_beneath_rules,
};
use sysop_core::policy::Fence;

use crate::sandbox::{FenceRequest, TEMPORARY_FOLDERS, has_network};

/// Newest known Landlock ABI. An older kernel enforces only the access rights that it supports.
const ABI_KNOWN: ABI = ABI::V10;

const HARMLESS_DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"];
/// Devices for programs that open terminals, share memory or add to the entropy pool.
const WORK_DEVICES: [&str; 5] = ["/dev/ptmx", "/dev/pts", "/dev/shm", "/dev/random", "/dev/urandom"];

/// Builds the rules for a fence. `temporary` is a temporary directory that only this program uses.
pub(super) fn ruleset(
    request: &FenceRequest<'_>,
    temporary: Option<&Path>,
) -> Result<RulesetCreated, RulesetError> {
    let all = AccessFs::from_all(ABI_KNOWN);
    let root = request.root.filter(|_| matches!(request.fence, Fence::Workspace { .. }));
    let mut ruleset = Ruleset::default().handle_access(all)?.scope(Scope::from_all(ABI_KNOWN))?;
    if !has_network(request.fence) {
        ruleset = ruleset.handle_access(AccessNet::from_all(ABI_KNOWN))?;
    }
    ruleset
        .create()?
        .add_rules(path_beneath_rules(["/"], AccessFs::from_read(ABI_KNOWN)))?
        .add_rules(path_beneath_rules(HARMLESS_DEVICES, AccessFs::from_file(ABI_KNOWN)))?
        .add_rules(path_beneath_rules(request.tty, AccessFs::from_file(ABI_KNOWN)))?
        .add_rules(path_beneath_rules(temporary, all))?
        .add_rules(root.map(|root| Ok::<_, RulesetError>(PathBeneath::new(root.folder, all))))?
        .add_rules(path_beneath_rules(writable_paths(request), all))
}

/// Returns the writable paths of a workspace fence outside the root: temporary directories, devices, and the configured
/// paths. A missing path gets no rule.
///
/// A path below another writable path is left out. It needs no rule, and an earlier call that may write to
/// its parent could have replaced the path with a link to anywhere.
fn writable_paths(request: &FenceRequest<'_>) -> Vec<PathBuf> {
    let Fence::Workspace { write, .. } = request.fence else { return Vec::new() };
    let is_in_root = |path: &Path| request.root.is_some_and(|root| path.starts_with(root.path));
    let mut paths: Vec<PathBuf> = TEMPORARY_FOLDERS.iter().chain(&WORK_DEVICES).map(PathBuf::from).collect();
    for path in [std::env::temp_dir()].into_iter().chain(write.iter().map(PathBuf::from)) {
        if !is_in_root(&path) && !paths.iter().any(|parent| path.starts_with(parent)) {
            paths.push(path);
        }
    }
    paths
}
