//! Guards on a system that was booted with systemd: units, logind, PAM, and the programs that configure networks.

use std::time::Instant;

use sysop_core::guard::{GuardEnd, GuardTimeout};
use sysop_core::policy::GuardOffer;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use tempfile::TempDir;

use super::target::Session;
use crate::booted::BootedSystem;
use crate::world::DEADLINE;

/// Prints what a rollback has to restore.
const STATE: &str = "cd /etc; find ssh pam.d sudoers.d network netplan ufw passwd group shadow sudoers -type f \
    -exec sha256sum {} + | sort; systemctl is-enabled ssh; systemctl is-active ssh; ip -4 -o addr show dev host0; ip route; \
    nft -s list ruleset";

fn session(system: &BootedSystem, host: &str, seconds: u32) -> (Session, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Session::open(host, &system.config(), folder.path(), seconds), folder)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn assert_not_locked(system: &BootedSystem, host: &str, what: &str) {
    let until = Instant::now() + DEADLINE;
    while !system.logs_in(host) {
        assert!(Instant::now() < until, "{what}: still locked out");
    }
}

fn heals(system: &BootedSystem, host: &str, seconds: u32, change: &str) {
    let before = system.inside(STATE);
    assert!(before.contains("ssh/sshd_config") && before.contains("active"), "{before}");
    let (session, _folder) = session(system, host, seconds);
    let outcome = runtime().block_on(session.guarded(change));
    assert!(outcome.output.contains("ROLLED BACK"), "{change}: {}", outcome.output);
    assert_eq!(session.endings(), [GuardEnd::Fired], "{change}");
    assert_eq!(system.inside(STATE), before, "{change}: {}", outcome.output);
    assert_not_locked(system, host, change);
}

#[test]
fn changes_of_the_ssh_service_heal() {
    let Some(system) = BootedSystem::get() else { return };
    for change in [
        "echo AllowUsers nobody >>/etc/ssh/sshd_config; systemctl reload ssh",
        "echo Port 2222 >>/etc/ssh/sshd_config; systemctl restart ssh",
        "echo Prot 1 >>/etc/ssh/sshd_config; systemctl restart ssh",
        "systemctl stop ssh",
        "systemctl disable --now ssh",
        "mkdir -p /etc/systemd/system/ssh.service.d; printf '[Service]\nExecStart=\nExecStart=/bin/false\n' >/etc/systemd/system/ssh.service.d/x.conf; systemctl daemon-reload; systemctl restart ssh",
        "pkill -x sshd",
    ] {
        heals(&system, "box", 15, change);
    }
}

#[test]
fn changes_of_logins_heal_with_pam() {
    let Some(system) = BootedSystem::get() else { return };
    for change in [
        "echo 'account required pam_deny.so' | sudo tee -a /etc/pam.d/common-account",
        "sudo usermod -e 1 ann",
        "sudo usermod -s /usr/sbin/nologin ann",
        "sudo rm /etc/sudoers.d/ann",
        "sudo visudo -c; echo 'ann ALL=(ALL) ALL' | sudo tee -a /etc/sudoers.d/ann",
    ] {
        heals(&system, "boxann", 30, change);
    }
    // With PAM, a locked password does not refuse keys.
    let (session, _folder) = session(&system, "boxann", 30);
    let outcome = runtime().block_on(session.guarded("sudo passwd -q -l ann"));
    assert_eq!(session.endings(), [GuardEnd::Confirmed], "{}", outcome.output);
}

#[test]
fn a_firewall_that_is_switched_on_is_switched_off() {
    let Some(system) = BootedSystem::get() else { return };
    heals(&system, "box", 12, "ufw --force enable");
    heals(
        &system,
        "box",
        12,
        "printf 'flush ruleset\ntable inet f { chain i { type filter hook input priority 0; policy drop; }; }\n' >/etc/nftables.conf; systemctl restart nftables",
    );
    system.inside("systemctl stop nftables");
}

#[test]
fn changes_of_firewalld_heal() {
    let Some(system) = BootedSystem::get() else { return };
    // The unit counts as started before its rules are loaded.
    system.inside("systemctl start firewalld; until firewall-cmd -q --state; do sleep 0.1; done");
    for change in ["firewall-cmd --panic-on", "firewall-cmd --remove-service=ssh"] {
        heals(&system, "box", 30, change);
        let state = system
            .inside("firewall-cmd --query-panic; firewall-cmd --query-service=ssh; firewall-cmd --state");
        assert_eq!(state, "no\nyes\nrunning\n", "{change}: firewalld knows its rules");
    }
    system.inside("systemctl stop firewalld");
}

#[test]
fn ifupdown_heals() {
    let Some(system) = BootedSystem::get() else { return };
    system.inside(
        "printf 'auto host0\niface host0 inet static\n address 192.0.2.2/24\n gateway 192.0.2.1\n' >/etc/network/interfaces; \
         ip addr flush dev host0; ifup --force host0",
    );
    assert_not_locked(&system, "box", "ifup");
    heals(&system, "box", 12, "ifdown host0");
    heals(
        &system,
        "box",
        12,
        "sed -i s/192.0.2.2/192.0.2.66/ /etc/network/interfaces; ip addr flush dev host0; ifup --force host0",
    );
    system.inside("rm /etc/network/interfaces; rm -f /run/network/ifstate");
}

#[test]
fn netplan_heals() {
    let Some(system) = BootedSystem::get() else { return };
    // A container may not trigger udev; without that, netplan gives up.
    system.inside("printf '#!/bin/sh\\n' >/usr/local/bin/udevadm; chmod 755 /usr/local/bin/udevadm");
    system.inside(
        "mkdir -p /etc/netplan; printf 'network:\n version: 2\n renderer: networkd\n ethernets:\n  host0:\n   addresses: [192.0.2.2/24]\n   routes: [{to: default, via: 192.0.2.1}]\n' >/etc/netplan/a.yaml; \
         chmod 600 /etc/netplan/a.yaml; systemctl start systemd-networkd; netplan apply",
    );
    assert_not_locked(&system, "box", "netplan");
    heals(&system, "box", 20, "sed -i s/192.0.2.2/192.0.2.66/ /etc/netplan/a.yaml; netplan apply; sleep 2");
    heals(
        &system,
        "box",
        20,
        "systemctl stop systemd-networkd systemd-networkd.socket; ip addr flush dev host0",
    );
    system.inside("rm /etc/netplan/a.yaml; netplan apply; systemctl stop systemd-networkd.socket systemd-networkd; \
        ip addr flush dev host0; ip addr add 192.0.2.2/24 brd + dev host0; ip link set host0 up; ip route add default via 192.0.2.1");
}

#[test]
fn network_manager_heals() {
    let Some(system) = BootedSystem::get() else { return };
    system.inside(
        "ip addr flush dev host0; systemctl start NetworkManager; nmcli -w 10 con add type ethernet ifname host0 con-name wire \
         ipv4.method manual ipv4.addresses 192.0.2.2/24 ipv4.gateway 192.0.2.1 ipv6.method disabled; nmcli -w 10 con up wire",
    );
    assert_not_locked(&system, "box", "nmcli");
    heals(&system, "box", 20, "nmcli con down wire");
    heals(&system, "box", 20, "nmcli con mod wire ipv4.addresses 192.0.2.66/24; nmcli con up wire");
    system.inside("nmcli con del wire; systemctl stop NetworkManager; \
        ip addr flush dev host0; ip addr add 192.0.2.2/24 brd + dev host0; ip link set host0 up; ip route add default via 192.0.2.1");
}

/// Sets logind's `KillUserProcesses`.
fn kill_user_processes(system: &BootedSystem, value: &str) {
    system.inside(&format!(
        "mkdir -p /etc/systemd/logind.conf.d; printf '[Login]\nKillUserProcesses={value}\n' >/etc/systemd/logind.conf.d/k.conf; \
         systemctl restart systemd-logind"
    ));
    let told = system.inside("busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager KillUserProcesses");
    assert_eq!(told.trim(), if value == "yes" { "b true" } else { "b false" });
}

#[test]
fn a_timer_of_systemd_outlives_a_client_whose_processes_are_killed() {
    let Some(system) = BootedSystem::get() else { return };
    kill_user_processes(&system, "yes");
    let before = system.inside(STATE);
    let runtime = runtime();
    let (session, _folder) = session(&system, "boxann", 6);
    let change =
        "echo AllowUsers nobody | sudo tee -a /etc/ssh/sshd_config; sudo systemctl reload ssh; sleep 60";
    assert_eq!(runtime.block_on(session.offer(change)), GuardOffer::Offered { seconds: 6 });
    let (host, call) = (session.host, Session::call(change));
    let running = runtime.spawn(async move {
        let guard = GuardTimeout { seconds: 6 };
        host.run_guarded(call, guard, DeltaSink::none(), CancellationToken::new()).await
    });
    let until = Instant::now() + DEADLINE;
    while !std::fs::read_to_string(system.at("/etc/ssh/sshd_config")).unwrap().contains("AllowUsers nobody") {
        assert!(Instant::now() < until, "the change never runs");
    }
    let units = system.inside("systemctl list-units 'sysop-guard-*' --no-legend --plain");
    assert!(units.contains("sysop-guard-") && units.contains("running"), "{units}");
    running.abort();
    runtime.block_on(session.connection.close());
    let until = Instant::now() + DEADLINE;
    while system.inside(STATE) != before {
        assert!(Instant::now() < until, "the timer of systemd does not roll back");
    }
    assert_not_locked(&system, "boxann", "KillUserProcesses");
    kill_user_processes(&system, "no");
}

#[test]
fn without_a_timer_that_survives_nothing_is_guarded() {
    let Some(system) = BootedSystem::get() else { return };
    let runtime = runtime();
    kill_user_processes(&system, "yes");
    let keys = "echo '# x' >>~/.ssh/authorized_keys";
    let (killed, _folder) = session(&system, "boxbob", 30);
    let GuardOffer::Refused { why } = runtime.block_on(killed.offer(keys)) else { panic!("offered") };
    assert_eq!(why, "the host has no timer that outlives the connection");
    kill_user_processes(&system, "no");
    let (survives, _folder) = session(&system, "boxbob", 30);
    assert_eq!(runtime.block_on(survives.offer(keys)), GuardOffer::Offered { seconds: 30 });
    let outcome = runtime.block_on(survives.guarded("rm ~/.ssh/authorized_keys"));
    assert!(outcome.output.contains("ROLLED BACK"), "{}", outcome.output);
    assert_not_locked(&system, "boxbob", "keys");
}
