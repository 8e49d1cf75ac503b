//! Guards over a real sshd. The target has its own mount, process and network namespace, so that the tests change the
//! real paths (`/etc/ssh`, `/etc/sudoers`) of a copy. A cable connects it with the namespace of the client. Needs root;
//! without it, each test says that it was not run.

mod accounts;
mod booted;
mod cuts;
mod fleet;
mod network;
mod target;

use std::fs;
use std::time::Instant;

use serde_json::json;
use sysop_core::guard::{GuardEnd, GuardTimeout};
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::Status;
use sysop_core::policy::GuardOffer;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_host::GuardVerb;

use self::target::{RELOAD, Session, Setup, Target};
use crate::world::DEADLINE;

#[tokio::test]
async fn a_harmless_change_is_confirmed_by_two_fresh_logins() {
    let Some(target) = Target::start("root") else { return };
    let session = target.session(60);
    let began = Instant::now();
    let outcome =
        session.guarded(&format!("echo '# hello' >>/etc/ssh/sshd_config; {RELOAD}; echo done")).await;
    eprintln!("a guarded change took {:?}", began.elapsed());
    assert_eq!(outcome.status, Status::Ok, "{}", outcome.output);
    assert!(
        outcome.output.starts_with("done\n") && outcome.output.contains("confirmed after two fresh logins")
    );
    assert_eq!(session.endings(), [GuardEnd::Confirmed]);
    assert!(target.text("/etc/ssh/sshd_config").ends_with("# hello\n"));
    let listed = session.connection.guards().await.unwrap();
    assert_eq!((listed.len(), listed[0].state.as_str()), (1, "confirmed"));
}

#[tokio::test]
async fn the_undo_of_a_guarded_change_runs_under_a_guard() {
    let Some(target) = Target::start("root") else { return };
    let session = target.session(60);
    let before = target.text("/etc/ssh/sshd_config");
    let change = format!("echo '# hello' >>/etc/ssh/sshd_config; {RELOAD}");
    let outcome = session.guarded(&change).await;
    assert_eq!(outcome.status, Status::Ok, "{}", outcome.output);
    let serde_json::Value::Object(arguments) =
        json!({ "step": 1, "call": "call-1", "records": outcome.records, "undoes": change })
    else {
        panic!()
    };
    let arguments = Arguments::Object(arguments);
    let undo = ToolCall { id: CallId::new("u1"), wire_id: None, name: "undo".to_owned(), arguments };
    let GuardOffer::Offered { seconds } = session.host.survey(&undo).await.guard else {
        panic!("no guard: {:?}", session.host.survey(&undo).await)
    };
    let guard = GuardTimeout { seconds };
    let undone = session.host.run_guarded(undo, guard, DeltaSink::none(), CancellationToken::new()).await;
    assert_eq!(undone.status, Status::Ok, "{}", undone.output);
    assert!(undone.output.contains("confirmed after two fresh logins"), "{}", undone.output);
    assert_eq!(session.endings(), [GuardEnd::Confirmed, GuardEnd::Confirmed]);
    assert_eq!(target.text("/etc/ssh/sshd_config"), before);
}

#[tokio::test]
async fn a_change_that_locks_out_is_rolled_back() {
    for change in [
        format!("echo 'AllowUsers nobody' >>/etc/ssh/sshd_config; {RELOAD}"),
        format!("echo 'Port 2222' >>/etc/ssh/sshd_config; {RELOAD}"),
        "rm ~/.ssh/authorized_keys".to_owned(),
    ] {
        let Some(target) = Target::start("root") else { return };
        let session = target.session(60);
        let before = target.text("/etc/ssh/sshd_config");
        let outcome = session.guarded(&change).await;
        assert_eq!(outcome.status, Status::Failed, "{change}: {}", outcome.output);
        assert!(outcome.output.contains("ROLLED BACK"), "{change}: {}", outcome.output);
        assert_eq!(outcome.output.matches("a fresh login failed").count(), 1, "{}", outcome.output);
        assert_eq!(session.endings(), [GuardEnd::Fired]);
        assert_eq!(target.text("/etc/ssh/sshd_config"), before);
        target.assert_not_locked(&change);
    }
}

#[tokio::test]
async fn a_broken_config_is_rolled_back_by_its_check() {
    let Some(target) = Target::start("root") else { return };
    let session = target.session(60);
    let outcome = session.guarded("echo Prot 1 >>/etc/ssh/sshd_config").await;
    assert!(outcome.output.contains("Bad configuration option"), "{}", outcome.output);
    assert!(!target.text("/etc/ssh/sshd_config").contains("Prot"));
    let outcome =
        session.guarded("kill $(cat /run/sshd.pid); echo AllowUsers x >>/etc/ssh/sshd_config").await;
    assert!(outcome.output.contains("ROLLED BACK"), "{}", outcome.output);
    target.assert_not_locked("the dead server was started again");
}

#[tokio::test]
async fn a_firewall_that_refuses_new_logins_is_rolled_back() {
    let Some(target) = Target::start("root") else { return };
    let session = target.session(20);
    let before = target.inside("nft -s list ruleset");
    let rules = "table inet t { chain c { type filter hook input priority 0; ct state established accept; \
                 tcp dport 22 reject with tcp reset; }; }";
    let outcome = session.guarded(&format!("echo '{rules}' | nft -f -")).await;
    assert!(outcome.output.contains("ROLLED BACK"), "{}", outcome.output);
    assert_eq!(target.inside("nft -s list ruleset"), before);
    target.assert_not_locked(&outcome.output);
}

#[tokio::test]
async fn broken_sudo_rules_are_rolled_back_though_sudo_is_gone() {
    let Some(target) = Target::start("ann") else { return };
    let session = target.session(30);
    let before = target.text("/etc/sudoers");
    let outcome = session.guarded("sudo sed -i /NOPASSWD/d /etc/sudoers").await;
    assert!(outcome.output.contains("ROLLED BACK"), "{}", outcome.output);
    assert_eq!(target.text("/etc/sudoers"), before);
    assert_eq!(target.inside("id >/dev/null; sudo -u ann sudo -n id -u"), "0\n");
}

#[tokio::test]
async fn a_lost_connection_leaves_the_decision_to_the_host() {
    let Some(target) = Target::start("root") else { return };
    let session = target.session(6);
    // The change kills the connection, and its mistake lets nobody in again.
    let change = format!(
        "echo AllowUsers nobody >>/etc/ssh/sshd_config; {RELOAD}; sleep 0.3; pkill -f 'sshd: root'; sleep 100"
    );
    let outcome = session.guarded(&change).await;
    assert!(!target.text("/etc/ssh/sshd_config").contains("nobody"), "{}", outcome.output);
    assert!(outcome.output.contains("guard:"), "{}", outcome.output);
    assert_ne!(session.endings(), [GuardEnd::Confirmed], "{}", outcome.output);
    target.assert_not_locked(&outcome.output);
}

#[tokio::test]
async fn a_change_that_cuts_the_connection_and_works_is_confirmed() {
    let Some(target) = Target::start("root") else { return };
    let session = target.session(40);
    let change = format!("echo '# ok' >>/etc/ssh/sshd_config; {RELOAD}; sleep 0.3; pkill -f 'sshd: root'");
    let outcome = session.guarded(&change).await;
    assert_eq!(session.endings(), [GuardEnd::Confirmed], "{}", outcome.output);
    assert!(target.text("/etc/ssh/sshd_config").ends_with("# ok\n"));
}

#[tokio::test]
async fn a_stopped_call_is_rolled_back() {
    let Some(target) = Target::start("root") else { return };
    let session = target.session(60);
    let before = target.text("/etc/ssh/sshd_config");
    let cancel = CancellationToken::new();
    let (stop, file) = (cancel.clone(), target.at("/etc/ssh/sshd_config"));
    let stopping = tokio::task::spawn_blocking(move || {
        let until = Instant::now() + DEADLINE;
        while !fs::read_to_string(&file).unwrap_or_default().contains("# half") {
            assert!(Instant::now() < until);
        }
        stop.cancel();
    });
    let outcome = session.guarded_until("echo '# half' >>/etc/ssh/sshd_config; sleep 100", cancel).await;
    stopping.await.unwrap();
    assert_eq!(outcome.status, Status::Cancelled, "{}", outcome.output);
    assert!(outcome.output.contains("ROLLED BACK"), "{}", outcome.output);
    assert_eq!(target.text("/etc/ssh/sshd_config"), before);
}

#[tokio::test]
async fn a_full_disk_does_not_stop_the_rollback() {
    let Some(target) = Target::start("root") else { return };
    let session = target.session(60);
    let before = target.text("/etc/ssh/sshd_config");
    let change = format!(
        "echo AllowUsers nobody >>/etc/ssh/sshd_config; {RELOAD}; cat /dev/zero >/etc/full 2>&1; true"
    );
    let outcome = session.guarded(&change).await;
    assert!(outcome.output.contains("guard:"), "{}", outcome.output);
    assert_eq!(target.text("/etc/ssh/sshd_config"), before, "{}", outcome.output);
    target.assert_not_locked(&outcome.output);
}

#[tokio::test]
async fn keys_of_the_login_user_are_guarded_without_root() {
    let Some(target) = Target::start("ann") else { return };
    target.inside("sed -i /NOPASSWD/d /etc/sudoers");
    let session = target.session(30);
    let keys = format!("{}/home/.ssh/authorized_keys", target.home.path().display());
    let before = target.text(&keys);
    let outcome = session.guarded(&format!("echo nothing >{keys}")).await;
    assert!(outcome.output.contains("ROLLED BACK"), "{}", outcome.output);
    assert_eq!(target.text(&keys), before);
    let GuardOffer::Refused { why } = session.offer("sudo systemctl restart sshd").await else { panic!() };
    assert!(why.contains("needs root"), "{why}");
}

#[tokio::test]
async fn an_open_guard_is_named_when_a_session_connects_and_blocks_a_second_one() {
    let Some(target) = Target::start("root") else { return };
    let guards = target.guards();
    let script = target.home.path().join("guard.sh");
    fs::write(&script, include_str!("../../src/ssh/guard/guard.sh")).unwrap();
    let armed = target.inside(&format!(
        "SYSOP_GUARD_DIR=/etc/guards sh -c 'S=$(cat {0}); . {0}' sysop-guard arm other 60 0 '' '' '' /etc/hosts",
        script.display()
    ));
    assert!(armed.starts_with("G other armed"), "{armed}");
    let session = target.session(60);
    let outcome = session.guarded("echo '# no' >>/etc/ssh/sshd_config").await;
    assert!(
        outcome.output.contains("not run: the guard could not be armed (guard other is still armed"),
        "{}",
        outcome.output
    );
    assert!(
        session
            .reports
            .notices
            .lock()
            .iter()
            .any(|notice| notice.contains("far: guard other will roll a change back"))
    );
    assert!(!target.text("/etc/ssh/sshd_config").contains("# no") && session.endings().is_empty());
    let fired = session.connection.guard(GuardVerb::Fire, "other").await.unwrap().unwrap();
    assert_eq!(fired.state, "fired");
    let late = session.connection.guard(GuardVerb::Confirm, "other").await.unwrap().unwrap();
    assert_eq!(late.state, "fired");
    assert_eq!(session.connection.guard(GuardVerb::Status, "nobody").await.unwrap(), None);
    assert!(guards.join("other/fired").exists());
}

#[tokio::test]
async fn a_host_without_fresh_logins_is_asked_about_without_a_guard() {
    let Some(target) = Target::start("root") else { return };
    let session = target.session(60);
    let change = "echo '# x' >>/etc/ssh/sshd_config";
    assert!(matches!(session.offer(change).await, GuardOffer::Offered { seconds: 60 }));
    target.inside("mv /run/sshd.pid /run/x; kill $(cat /run/x)");
    let run = session.host.run_guarded(
        Session::call(change),
        GuardTimeout { seconds: 60 },
        DeltaSink::none(),
        CancellationToken::new(),
    );
    let outcome = run.await;
    assert!(outcome.output.contains("fresh login fails even before the change"), "{}", outcome.output);
    let GuardOffer::Refused { why } = session.offer(change).await else { panic!("offered") };
    assert!(why.contains("fresh login failed"), "{why}");
    assert!(!target.text("/etc/ssh/sshd_config").contains("# x"));
}

#[tokio::test]
async fn other_systems_are_asked_about_without_a_guard() {
    let Some(target) = Target::with(Setup { system: Some("FreeBSD"), ..Setup::of("root") }) else { return };
    let session = target.session(60);
    let GuardOffer::Refused { why } = session.offer("echo x >>/etc/ssh/sshd_config").await else {
        panic!("offered")
    };
    assert_eq!(why, "guards work on Linux hosts only");
}
