//! A connection that is lost at each step of a guarded change, and a client that dies there.

use std::fs;
use std::path::Path;
use std::time::Duration;

use sysop_core::guard::{GuardEnd, GuardTimeout};
use sysop_core::policy::GuardOffer;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};

use super::target::{RELOAD, Session, Setup, Target};
use crate::world::{DEADLINE, wait_until};

/// File of the guard's directory whose appearance marks a step.
const STEPS: [(&str, &str); 5] = [
    ("", "the guard is being armed"),
    ("armed", "the guard is armed"),
    ("user/group", "the change runs"),
    ("user/exit", "the change has ended"),
    ("after", "the checks ran"),
];
/// Seconds after which the host rolls back; a busy machine needs most of them for a whole change.
const SECONDS: u32 = 12;
/// Seconds after which a guard rolls back if the test expects it to be confirmed; enough for a busy machine.
const CONFIRM_SECONDS: u32 = 15;

/// Way in which the client is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// The network is gone, without a word to either side.
    Cable,
    /// The client ends, with all its connections.
    Client,
}

fn find_guard(guards: &Path) -> Option<std::path::PathBuf> {
    let found = fs::read_dir(guards).ok()?.flatten().map(|entry| entry.path());
    found.into_iter().find(|path| path.join("pre").is_dir())
}

/// Waits until `file` exists in the guard's directory.
fn wait_for(target: &Target, file: &str) {
    let file = if file.is_empty() { "pre" } else { file };
    wait_until(&format!("ls -d {}/*/{file}", target.guards().display()));
}

/// Waits for the end of the guard. Returns its state; `none` if it was never armed.
fn wait_for_end(target: &Target) -> &'static str {
    const ENDS: [&str; 3] = ["confirmed", "fired", "failed"];
    let guards = target.guards();
    let at = guards.display();
    let ended = ENDS.map(|state| format!("ls {at}/*/{state}")).join(" || ");
    // A guard that could not be armed removes its files.
    wait_until(&format!("{ended} || ! ls -d {at}/*/pre"));
    let Some(guard) = find_guard(&guards) else { return "none" };
    ENDS.into_iter().find(|state| guard.join(state).exists()).expect("the guard has ended")
}

fn lose_at((file, what): (&str, &str), loss: Loss) {
    let Some(target) = Target::with(Setup::of("root")) else { return };
    let before = target.text("/etc/ssh/sshd_config");
    let change = format!("sleep 0.3; echo 'AllowUsers nobody' >>/etc/ssh/sshd_config; {RELOAD}; sleep 0.3");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let session = target.session(SECONDS);
    let offer = runtime.block_on(session.offer(&change));
    assert_eq!(offer, GuardOffer::Offered { seconds: SECONDS });
    let (host, reports) = (session.host, session.reports);
    let call = Session::call(&change);
    let running = runtime.spawn(async move {
        let guard = GuardTimeout { seconds: SECONDS };
        host.run_guarded(call, guard, DeltaSink::none(), CancellationToken::new()).await
    });
    wait_for(&target, file);
    match loss {
        Loss::Cable => target.client_ip("link set near down"),
        Loss::Client => {
            running.abort();
            runtime.block_on(session.connection.close());
        }
    }
    let ended = wait_for_end(&target);
    assert!(ended == "fired" || (ended == "none" && file.is_empty()), "{what}, {loss:?}: {ended}");
    if loss == Loss::Cable {
        target.client_ip("link set near up");
        let outcome = runtime.block_on(async { tokio::time::timeout(DEADLINE * 3, running).await });
        let outcome = outcome.expect("the call ends").unwrap();
        assert!(!outcome.output.contains("guard: confirmed"), "{what}: {}", outcome.output);
        let reports = reports.guards.lock();
        let confirmed = sysop_core::guard::GuardReport::Ended { how: GuardEnd::Confirmed };
        assert!(reports.iter().all(|(_, report)| *report != confirmed), "{what}");
    }
    assert_eq!(target.text("/etc/ssh/sshd_config"), before, "{what}, {loss:?}");
    target.assert_not_locked(what);
    let listed = runtime.block_on(target.session(SECONDS).connection.guards()).unwrap();
    assert!(listed.iter().all(|guard| guard.state == ended), "{what}, {loss:?}: {listed:?}");
}

fn lose_at_each_step(loss: Loss) {
    std::thread::scope(|scope| {
        for step in STEPS {
            scope.spawn(move || lose_at(step, loss));
        }
    });
}

#[test]
fn a_network_that_is_lost_at_any_step_leaves_no_host_locked() {
    lose_at_each_step(Loss::Cable);
}

#[test]
fn a_client_that_dies_at_any_step_leaves_no_host_locked() {
    lose_at_each_step(Loss::Client);
}

#[test]
fn a_network_that_is_lost_while_the_host_confirms_leaves_the_change() {
    let Some(target) = Target::start("root") else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let session = target.session(CONFIRM_SECONDS);
    let change = format!("echo '# kept' >>/etc/ssh/sshd_config; {RELOAD}");
    runtime.block_on(session.offer(&change));
    let (host, call) = (session.host, Session::call(&change));
    let mut running = runtime.spawn(async move {
        let guard = GuardTimeout { seconds: CONFIRM_SECONDS };
        host.run_guarded(call, guard, DeltaSink::none(), CancellationToken::new()).await
    });
    wait_for(&target, "confirmed");
    target.client_ip("link set near down");
    // The timer of the target would have fired by then.
    let fired = Duration::from_secs(u64::from(CONFIRM_SECONDS) + 1);
    let early = runtime.block_on(async { tokio::time::timeout(fired, &mut running).await });
    target.client_ip("link set near up");
    if early.is_err() {
        runtime
            .block_on(async { tokio::time::timeout(DEADLINE * 3, running).await })
            .expect("the call ends")
            .unwrap();
    }
    assert_eq!(wait_for_end(&target), "confirmed");
    assert!(target.text("/etc/ssh/sshd_config").ends_with("# kept\n"));
    target.assert_not_locked("a kept change");
}
