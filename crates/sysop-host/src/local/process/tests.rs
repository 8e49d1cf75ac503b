//! Tests of internals: waiting on a kernel without pidfds.

use std::ffi::CString;
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags, open};

use super::{ChildProcess, ExitReason, ExitWaiter};
use crate::spawn::{SpawnSpec, spawn};

fn start(command: &str) -> ChildProcess {
    let nothing = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let arguments = ["sh", "-c", command].map(|text| CString::new(text).unwrap());
    let pid = spawn(&SpawnSpec {
        program: c"/bin/sh",
        arguments: &arguments,
        environment: &[],
        mark: None,
        folder: c"/",
        stdin: nothing.as_fd(),
        output: nothing.as_fd(),
        errors: nothing.as_fd(),
    })
    .unwrap();
    ChildProcess::new(pid, "SYSOP_CALL_TEST".to_owned())
}

#[tokio::test]
async fn a_thread_waits_if_the_kernel_has_no_pidfd() {
    let mut child = start("exit 7");
    child.waiter = ExitWaiter::on_thread(child.pid);
    child.ended().await.unwrap();
    child.ended().await.unwrap();
    assert_eq!(child.reap().unwrap(), ExitReason::Exited(7));
}

#[tokio::test]
async fn a_running_program_is_not_reaped() {
    let mut child = start("exec tail -f /dev/null");
    assert!(child.reap().is_err());
    child.tree.kill();
    child.ended().await.unwrap();
    assert_eq!(child.reap().unwrap(), ExitReason::Killed { signal: 9 });
}

#[test]
fn a_program_that_does_not_exist_is_an_error() {
    let nothing = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let error = spawn(&SpawnSpec {
        program: c"/nonexistent",
        arguments: &[c"x".into()],
        environment: &[],
        mark: None,
        folder: c"/",
        stdin: nothing.as_fd(),
        output: nothing.as_fd(),
        errors: nothing.as_fd(),
    })
    .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}
