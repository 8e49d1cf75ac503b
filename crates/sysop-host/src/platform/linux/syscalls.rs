//! System calls that a fence refuses with `EPERM`, because Landlock does not cover their effect.
//!
//! This is a list of refused calls, not of allowed ones: any program on a server may run inside a fence, and a new
//! system call must not break it. The calls were chosen by their effect; access to files is left to Landlock.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use sysop_core::policy::Fence;

use crate::sandbox::has_network;

/// Rules by system call. A call with an empty list of rules is refused with any arguments.
type RuleMap = BTreeMap<i64, Vec<SeccompRule>>;

// Numbers missing from the libc crate; the same on all architectures.
const SYS_FCHMODAT2: i64 = 452;
const SYS_SETXATTRAT: i64 = 463;
const SYS_REMOVEXATTRAT: i64 = 466;
const SYS_FILE_SETATTR: i64 = 469;

/// Bit that marks the system call numbers of the x32 ABI, which the kernel serves under the same architecture.
#[cfg(target_arch = "x86_64")]
const X32_BIT: i64 = 0x4000_0000;

/// `TIOCSTI` and `TIOCLINUX`, which insert input into a terminal.
const TYPING_IOCTLS: [u64; 2] = [0x5412, 0x541c];
/// `FS_IOC_SETFLAGS`, its 32-bit form, and `FS_IOC_FSSETXATTR`. They change attributes even of a file open for reading.
const ATTRIBUTE_IOCTLS: [u64; 3] = [0x4008_6602, 0x4004_6602, 0x401c_5820];
/// Actions of `syslog(2)` with effects: "read and clear", "clear", "console off", "console on", and "console level".
const SYSLOG_CHANGES: [u64; 5] = [4, 5, 6, 7, 8];
/// Commands of System V IPC that change state: remove and set. Each is listed without and with the `IPC_64` bit.
const IPC_CHANGES: [u64; 4] = [0, 1, 0x100, 0x101];
/// Netlink protocols that list routes and sockets. Changing routes or sockets needs a capability that no fence keeps.
const NETLINK_READS: [u64; 2] = [0, 4];

/// Calls that change metadata of files. They are refused with any arguments.
const METADATA_CALLS: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
    libc::SYS_truncate,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Calls that change other processes, keys, queues or the machine. They are refused with any arguments.
const MACHINE_CALLS: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_writev,
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    libc::SYS_mq_unlink,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_mount,
    libc::SYS_umount2,
];

/// Calls that change a process, each with the index of the argument that names the process. 0 means the caller.
const PROCESS_CALLS: &[(i64, u8)] = &[
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
];

/// Returns the filter for a fence. It is compiled only once per kind of fence, because compiling takes as
/// long as building the rest of the fence.
pub(super) fn filter(fence: &Fence) -> Result<&'static BpfProgram, BackendError> {
    static FILTERS: [OnceLock<BpfProgram>; 4] = [const { OnceLock::new() }; 4];
    let kind = usize::from(has_network(fence)) + 2 * usize::from(matches!(fence, Fence::ReadOnly { .. }));
    if let Some(filter) = FILTERS[kind].get() {
        return Ok(filter);
    }
    let filter = compile(fence)?;
    Ok(FILTERS[kind].get_or_init(|| filter))
}

fn compile(fence: &Fence) -> Result<BpfProgram, BackendError> {
    let mut rules = RuleMap::new();
    // io_uring requests bypass the filter.
    refuse(&mut rules, libc::SYS_io_uring_setup);
    for request in TYPING_IOCTLS {
        refuse_if(&mut rules, libc::SYS_ioctl, &[equal(1, request)?])?;
    }
    if !has_network(fence) {
        refuse_network(&mut rules)?;
    }
    match fence {
        Fence::Off | Fence::Workspace { .. } => {}
        Fence::ReadOnly { .. } => refuse_changes(&mut rules)?,
    }
    #[cfg(target_arch = "x86_64")]
    rules.extend(rules.clone().into_iter().map(|(call, rules)| (call | X32_BIT, rules)));
    let (others, refused) = (SeccompAction::Allow, SeccompAction::Errno(libc::EPERM.unsigned_abs()));
    SeccompFilter::new(rules, others, refused, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// Refuses all sockets except local sockets and the netlink sockets that list routes and sockets.
fn refuse_network(rules: &mut RuleMap) -> Result<(), BackendError> {
    let (local, told) = (libc::AF_UNIX.unsigned_abs().into(), libc::AF_NETLINK.unsigned_abs().into());
    refuse_if(rules, libc::SYS_socket, &[unequal(0, local)?, unequal(0, told)?])?;
    let [routes, sockets] = NETLINK_READS;
    refuse_if(rules, libc::SYS_socket, &[equal(0, told)?, unequal(2, routes)?, unequal(2, sockets)?])
}

fn refuse_changes(rules: &mut RuleMap) -> Result<(), BackendError> {
    for call in METADATA_CALLS.iter().chain(MACHINE_CALLS) {
        refuse(rules, *call);
    }
    for (call, place) in PROCESS_CALLS {
        refuse_if(rules, *call, &[unequal(*place, 0)?])?;
    }
    refuse_if(rules, libc::SYS_prlimit64, &[unequal(0, 0)?, wide_unequal(2, 0)?])?;
    for request in ATTRIBUTE_IOCTLS {
        refuse_if(rules, libc::SYS_ioctl, &[equal(1, request)?])?;
    }
    for action in SYSLOG_CHANGES {
        refuse_if(rules, libc::SYS_syslog, &[equal(0, action)?])?;
    }
    for command in IPC_CHANGES {
        refuse_if(rules, libc::SYS_shmctl, &[equal(1, command)?])?;
        refuse_if(rules, libc::SYS_msgctl, &[equal(1, command)?])?;
        refuse_if(rules, libc::SYS_semctl, &[equal(2, command)?])?;
    }
    Ok(())
}

fn refuse(rules: &mut RuleMap, call: i64) {
    rules.insert(call, Vec::new());
}

/// Refuses a call if all conditions hold. The call's other rules stay in force.
fn refuse_if(rules: &mut RuleMap, call: i64, conditions: &[SeccompCondition]) -> Result<(), BackendError> {
    rules.entry(call).or_default().push(SeccompRule::new(conditions.to_vec())?);
    Ok(())
}

fn equal(place: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(place, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

fn unequal(place: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(place, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

/// Returns the condition that a 64-bit argument, such as a pointer, differs from `value`.
fn wide_unequal(place: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(place, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, value)
}
