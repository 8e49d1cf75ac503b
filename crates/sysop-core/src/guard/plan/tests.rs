//! Plans of typical commands.

use super::UNITS;
use super::{Area, GuardPlan, plan};
use crate::guard::GuardRequest;
use crate::policy::{CommandContext, Dialect, Survey};

fn survey() -> Survey {
    let text = |text: &str| Some(text.to_owned());
    Survey::elsewhere(CommandContext {
        dialect: Dialect::Bash,
        own_shell: false,
        folder: text("/home/ann"),
        root: text("/home/ann"),
        home: text("/home/ann"),
        user: text("ann"),
        uid: Some(1000),
        host: text("web1"),
    })
}

fn planned(command: &str) -> GuardPlan {
    plan(command, &survey(), None).unwrap_or_else(|why| panic!("{command}: {why}"))
}

fn areas(command: &str) -> Vec<Area> {
    planned(command).areas.into_iter().collect()
}

#[test]
fn each_area_is_recognized_by_its_programs_units_and_paths() {
    for (command, expected) in [
        ("sudo systemctl restart sshd", &[Area::Sshd][..]),
        ("sudo systemctl stop ssh.service", &[Area::Sshd]),
        ("echo AllowUsers ann | sudo tee -a /etc/ssh/sshd_config.d/x.conf", &[Area::Sshd]),
        ("sudo sh -c 'echo Port 2222 >> /etc/ssh/sshd_config'", &[Area::Sshd]),
        ("echo key >> ~/.ssh/authorized_keys", &[Area::Keys]),
        ("chmod 777 ~/.ssh", &[Area::Keys]),
        ("sudo cp /tmp/x /etc/sudoers.d/web", &[Area::Sudo]),
        ("sudo sed -i s/a/b/ /etc/pam.d/common-auth", &[Area::Login]),
        ("sudo usermod -s /bin/false ann", &[Area::Sudo, Area::Accounts]),
        ("sudo nft -f /tmp/rules", &[Area::Firewall]),
        ("sudo ufw enable", &[Area::Firewall]),
        ("sudo systemctl restart nftables", &[Area::Firewall]),
        ("sudo ip route del default", &[Area::Network]),
        ("sudo netplan apply", &[Area::Network]),
        ("sudo systemctl stop strongswan", &[Area::Network]),
        ("sudo systemctl stop systemd-networkd.socket", &[Area::Network]),
        ("echo ALL: ALL | sudo tee /etc/hosts.deny", &[Area::Names]),
    ] {
        assert_eq!(areas(command), expected, "{command}");
    }
}

#[test]
fn units_that_a_guard_watches_are_recorded_and_restarted() {
    let mut guarded = 0;
    for name in UNITS.iter().flat_map(|(_, names)| *names) {
        let Ok(plan) = plan(&format!("sudo systemctl stop {name}"), &survey(), None) else { continue };
        guarded += 1;
        let is_recorded = plan.capture.split([' ', ';', '\n']).any(|word| word == *name);
        // The hook of the ssh server restarts its services.
        let is_service = ["ssh", "sshd"].contains(name) && plan.hook.contains("for u in ssh sshd ");
        assert!(is_recorded || is_service, "{name}: {}", plan.capture);
    }
    assert!(guarded >= 15, "{guarded}");
}

#[test]
fn a_change_that_no_script_can_revert_has_no_plan() {
    for (command, why) in [
        ("sudo reboot", "shuts down or restarts"),
        ("sudo systemctl poweroff", "shuts down or restarts"),
        ("sudo systemctl stop wg-quick@wg7", "instance of a template unit"),
        ("sudo systemctl restart openvpn-client@office.service", "instance of a template unit"),
        ("sudo setenforce 1", "SELinux or AppArmor"),
        ("sudo pkill -u ann", "processes of a user"),
        ("sudo userdel -r bob", "home directory"),
        ("sudo nft flush ruleset; sudo reboot", "shuts down or restarts"),
        ("sudo rm -rf /etc", "too many files"),
        ("ls", "does not look like"),
    ] {
        let refused = plan(command, &survey(), None).unwrap_err();
        assert!(refused.contains(why), "{command}: {refused}");
    }
}

#[test]
fn keys_of_the_login_user_need_no_root() {
    let keys = planned("echo key >> ~/.ssh/authorized_keys");
    assert_eq!(keys.paths, ["/home/ann/.ssh", "@/home/ann"]);
    assert!(!keys.needs_root);
    assert!(planned("sudo systemctl restart sshd").needs_root);
    assert!(planned("echo key >> ~/.ssh/authorized_keys; sudo nft flush ruleset").needs_root);
}

#[test]
fn a_path_with_a_line_break_is_refused() {
    let mut survey = survey();
    survey.context.home = Some("/home/a\nnn".to_owned());
    let refused = plan("sudo tee /srv/.ssh/authorized_keys", &survey, None).unwrap_err();
    assert!(refused.contains("home directory"), "{refused}");
}

#[test]
fn words_of_the_command_never_become_shell_code() {
    let plan = planned("sudo usermod -s '$(touch /tmp/x)' 'ann;reboot'");
    let text = [plan.capture, plan.hook, plan.checks.join("\n")].join("\n");
    assert!(!text.contains("touch /tmp/x") && !text.contains("ann;reboot"), "{text}");
}

#[test]
fn a_requested_guard_keeps_what_the_command_writes() {
    let of = |command: &str, request| plan(command, &survey(), Some(request));
    let files = of("echo on >/srv/flag; cp a b", GuardRequest::OfCommand).unwrap();
    assert_eq!(files.paths, ["/home/ann/b", "/srv/flag"]);
    assert!(files.areas.is_empty() && files.needs_root);
    assert!(!of("touch mine", GuardRequest::OfCommand).unwrap().needs_root);
    let firewall = of("./open-ports", GuardRequest::OfArea(Area::Firewall)).unwrap();
    assert_eq!(firewall.areas.into_iter().collect::<Vec<_>>(), [Area::Firewall]);
    for (command, why) in [
        ("./open-ports", "are unknown"),
        ("rm *.conf", "files that the command changes"),
        ("reboot", "shuts down or restarts"),
        ("rm -rf /etc", "too many files"),
    ] {
        let refused = of(command, GuardRequest::OfCommand).unwrap_err();
        assert!(refused.contains(why), "{command}: {refused}");
    }
    for area in Area::ALL {
        let value = GuardRequest::OfArea(area).to_value();
        assert_eq!(GuardRequest::from_value(&value), Some(GuardRequest::OfArea(area)));
    }
}
