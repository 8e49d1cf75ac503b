//! Plan of a guard: the files to save, the state to record and the steps of the rollback, derived from the
//! analysis of a command that may lock people out.
//!
//! The plan contains only fixed paths and fixed shell code. Words of the command select among them. The few words that
//! become part of a path are checked first; none of them becomes shell code.

use std::collections::BTreeSet;

use sysop_shell::{self as shell, Access, CommandContext, RiskClass, Survey};

use super::GuardRequest;
use crate::command_path::absolute;

mod steps;

/// Parts of a host in which a change can lock people out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    Sshd,
    /// Keys of the login user, and the modes of the directories above them.
    Keys,
    Sudo,
    /// PAM and the name service.
    Login,
    Accounts,
    Firewall,
    /// Addresses, routes and links.
    Network,
    /// Name resolution, and TCP wrappers (`/etc/hosts.allow`).
    Names,
}

impl Area {
    pub const ALL: [Self; 8] = [
        Self::Sshd,
        Self::Keys,
        Self::Sudo,
        Self::Login,
        Self::Accounts,
        Self::Firewall,
        Self::Network,
        Self::Names,
    ];

    /// Returns the name used in runbooks.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sshd => "sshd",
            Self::Keys => "keys",
            Self::Sudo => "sudo",
            Self::Login => "login",
            Self::Accounts => "accounts",
            Self::Firewall => "firewall",
            Self::Network => "network",
            Self::Names => "names",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|area| area.as_str() == name)
    }
}

/// Files to save, state to record, rollback code and checks of the guard of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardPlan {
    pub areas: BTreeSet<Area>,
    /// Absolute paths whose content is saved. A path after `@` has only its mode and owner saved.
    pub paths: Vec<String>,
    /// Shell code that records state before the change, in files that `hook` reads. Both run in the same directory.
    pub capture: String,
    /// Shell code that completes the rollback after the files have been restored.
    pub hook: String,
    /// Shell commands that must not fail after the change if they succeeded before.
    pub checks: Vec<String>,
    /// True if carrying out the plan requires root privileges.
    pub needs_root: bool,
}

/// Programs whose effect no script can undo, with the reason.
const NOT_GUARDED: [(&[&str], &str); 3] = [
    (
        &[
            "reboot", "shutdown", "halt", "poweroff", "kexec", "init", "telinit", "pm-suspend",
            "pm-hibernate", "systemd-sleep",
        ],
        "the command shuts down or restarts the machine",
    ),
    (
        &[
            "setenforce", "semanage", "semodule", "restorecon", "fixfiles", "setsebool", "load_policy",
            "aa-enforce", "aa-complain", "aa-disable", "apparmor_parser",
        ],
        "the command changes the SELinux or AppArmor policy",
    ),
    (&["killall5"], "the command kills every process"),
];
/// Subcommands of `systemctl` that stop or restart the machine.
const POWER: [&str; 15] = [
    "reboot", "poweroff", "halt", "kexec", "suspend", "hibernate", "hybrid-sleep", "suspend-then-hibernate",
    "sleep", "isolate", "rescue", "emergency", "switch-root", "exit", "soft-reboot",
];
/// Paths below which a change cannot be rolled back by a script.
const BEYOND: [(&[&str], &str); 2] = [
    (
        &["/lib", "/lib32", "/lib64", "/usr", "/bin", "/sbin", "/etc/ld.so.preload"],
        "the command changes programs that the rollback itself needs",
    ),
    (&["/boot", "/etc/fstab", "/etc/crypttab"], "the change takes effect only at the next boot"),
];
const PROGRAMS: [(Area, &[&str]); 7] = [
    (Area::Sshd, &["sshd", "ssh-keygen", "dropbear"]),
    (Area::Keys, &["ssh-copy-id"]),
    (Area::Sudo, &["visudo", "sudoedit", "doasedit"]),
    (
        Area::Login,
        &["faillock", "pam-auth-update", "authselect", "authconfig", "realm", "pam_tally2", "sssctl"],
    ),
    (
        Area::Accounts,
        &[
            "passwd", "chage", "chpasswd", "usermod", "userdel", "deluser", "groupdel", "delgroup",
            "groupmod", "gpasswd", "vipw", "vigr", "chsh", "useradd", "adduser", "groupadd", "addgroup",
            "newusers", "chfn",
        ],
    ),
    (
        Area::Firewall,
        &[
            "nft", "iptables", "ip6tables", "iptables-legacy", "ip6tables-legacy", "iptables-nft",
            "ip6tables-nft", "ebtables", "arptables", "iptables-restore", "ip6tables-restore", "ipset",
            "ufw", "firewall-cmd", "fail2ban-client", "shorewall",
        ],
    ),
    (
        Area::Network,
        &[
            "ip", "ifconfig", "route", "ifup", "ifdown", "dhclient", "dhcpcd", "nmcli", "networkctl",
            "netplan", "brctl", "bridge", "tc", "sysctl", "ethtool", "wg", "wg-quick", "hostnamectl",
            "hostname", "vconfig",
        ],
    ),
];
/// Units of each area, without `.service`.
const UNITS: [(Area, &[&str]); 4] = [
    (Area::Sshd, &["ssh", "sshd", "ssh.socket", "sshd.socket", "dropbear"]),
    (Area::Login, &["sssd", "systemd-logind", "nscd", "winbind"]),
    (
        Area::Firewall,
        &[
            "nftables", "iptables", "ip6tables", "ufw", "firewalld", "fail2ban", "docker",
            "netfilter-persistent",
        ],
    ),
    (
        Area::Network,
        &[
            "networking", "network", "NetworkManager", "systemd-networkd", "systemd-resolved",
            "wpa_supplicant", "iwd", "connman", "hostapd", "dhcpcd", "ifup", "netctl", "tailscaled",
            "wg-quick", "openvpn", "openvpn-client", "openvpn-server", "strongswan", "strongswan-starter",
            "ipsec", "zerotier-one", "netbird",
        ],
    ),
];
/// Paths of each area. The guard saves them, and recognizes the area by them.
const PATHS: [(Area, &[&str]); 7] = [
    (
        Area::Sshd,
        &[
            "/etc/ssh",
            "/etc/default/ssh",
            "/etc/sysconfig/sshd",
            "/etc/crypto-policies",
            "/etc/dropbear",
            "/etc/systemd/system/ssh.service",
            "/etc/systemd/system/ssh.service.d",
            "/etc/systemd/system/sshd.service",
            "/etc/systemd/system/sshd.service.d",
            "/etc/systemd/system/ssh.socket",
            "/etc/systemd/system/ssh.socket.d",
            "/etc/systemd/system/sockets.target.wants",
            "/etc/systemd/system/multi-user.target.wants",
        ],
    ),
    (
        Area::Sudo,
        &[
            "/etc/sudoers", "/etc/sudoers.d", "/etc/sudo.conf", "/etc/doas.conf", "/etc/polkit-1",
            "/etc/group", "/etc/gshadow",
        ],
    ),
    (
        Area::Login,
        &[
            "/etc/pam.d", "/etc/pam.conf", "/etc/security", "/etc/nsswitch.conf", "/etc/sssd",
            "/etc/krb5.conf", "/etc/login.defs", "/etc/nologin", "/run/nologin", "/etc/securetty",
            "/etc/shells",
        ],
    ),
    (
        Area::Accounts,
        &[
            "/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/subuid", "/etc/subgid",
            "/etc/shells",
        ],
    ),
    (
        Area::Firewall,
        &[
            "/etc/nftables.conf",
            "/etc/nftables.d",
            "/etc/nftables",
            "/etc/iptables",
            "/etc/sysconfig/iptables",
            "/etc/sysconfig/ip6tables",
            "/etc/ufw",
            "/etc/default/ufw",
            "/etc/firewalld",
            "/etc/fail2ban",
        ],
    ),
    (
        Area::Network,
        &[
            "/etc/network",
            "/etc/netplan",
            "/etc/systemd/network",
            "/etc/NetworkManager",
            "/etc/sysconfig/network",
            "/etc/sysconfig/network-scripts",
            "/etc/sysctl.conf",
            "/etc/sysctl.d",
            "/etc/wireguard",
            "/etc/dhcpcd.conf",
            "/etc/dhcp",
            "/etc/hostname",
        ],
    ),
    (Area::Names, &["/etc/hosts.allow", "/etc/hosts.deny", "/etc/resolv.conf", "/etc/hosts"]),
];
/// Files below the login user's home directory that are read at login.
const LOGIN_FILES: [&str; 9] = [
    ".profile", ".bashrc", ".bash_profile", ".bash_login", ".zshenv", ".zprofile", ".zshrc", ".zlogin",
    ".cshrc",
];

/// Plans the guard of a command. If a guard is requested, it also saves the files that the command writes. The error
/// says why no guard can undo the change, as a clause: `the command shuts down or restarts the machine`.
pub fn plan(
    command: &str,
    survey: &Survey,
    request: Option<GuardRequest>,
) -> Result<GuardPlan, &'static str> {
    let analysis = shell::analyze(command, survey);
    if analysis.risk.class != RiskClass::Lockout && request.is_none() {
        return Err("the command does not look like a change that can lock anyone out");
    }
    let mut found = Found {
        context: &survey.context,
        areas: BTreeSet::new(),
        paths: BTreeSet::new(),
        keeps_targets: request.is_some(),
    };
    if let Some(GuardRequest::OfArea(area)) = request {
        found.areas.insert(area);
    }
    for invocation in &analysis.invocations {
        found.invocation(&invocation.words)?;
    }
    for target in analysis.targets.iter().filter(|target| target.access == Access::Write) {
        let written = absolute(&target.word, target.folder.as_deref(), survey.context.home.as_deref());
        found.path(&written)?;
        let resolved = survey.resolved(target);
        for file in resolved.into_iter().flatten() {
            found.path(&file.path)?;
        }
        if found.keeps_targets {
            match resolved {
                Some(files) => found.paths.extend(files.iter().map(|file| file.path.clone())),
                None if target.glob || written.starts_with("/?/") => {
                    return Err("the files that the command changes are unknown");
                }
                None => drop(found.paths.insert(written)),
            }
        }
    }
    found.plan()
}

struct Found<'a> {
    context: &'a CommandContext,
    areas: BTreeSet<Area>,
    /// Paths to save in addition to the paths of the areas.
    paths: BTreeSet<String>,
    /// True if every file that the command writes is saved, not only the files of the areas.
    keeps_targets: bool,
}

impl Found<'_> {
    fn invocation(&mut self, words: &[Option<String>]) -> Result<(), &'static str> {
        let text = |word: &Option<String>| word.clone().unwrap_or_default();
        let Some(first) = words.first().map(text) else { return Ok(()) };
        let program = first.rsplit('/').next().unwrap_or_default().to_owned();
        let rest: Vec<String> = words[1..].iter().map(text).collect();
        let has = |options: &[&str]| rest.iter().any(|word| options.contains(&word.as_str()));
        if let Some((_, why)) = NOT_GUARDED.iter().find(|(names, _)| names.contains(&program.as_str())) {
            return Err(why);
        }
        match program.as_str() {
            "systemctl" if has(&POWER) => return Err("the command shuts down or restarts the machine"),
            "systemctl" | "service" | "rc-service" | "invoke-rc.d" | "update-rc.d" | "rc-update" => {
                self.units(&rest)?;
            }
            "pkill" | "killall" => {
                if has(&["-u", "-U", "--euid", "--uid", "--user"]) {
                    return Err("the command kills processes of a user, which may include the login");
                }
                self.units(&rest)?;
            }
            "loginctl" => return Err("the command ends login sessions"),
            "kill" if has(&["-1", "1"]) => return Err("the command kills every process"),
            "userdel" | "deluser"
                if has(&["-r", "-f", "-rf", "-fr", "--remove", "--remove-home", "--remove-all-files"]) =>
            {
                return Err("the command removes a home directory");
            }
            "apt" | "apt-get" | "dnf" | "yum" | "zypper" | "pacman" | "apk" | "dpkg" | "rpm" => {
                return Err("the command installs or removes packages");
            }
            _ => {}
        }
        let of_program = PROGRAMS.iter().filter(|(_, names)| names.contains(&program.as_str()));
        self.areas.extend(of_program.map(|(area, _)| *area));
        if matches!(program.as_str(), "usermod" | "gpasswd" | "deluser" | "delgroup" | "groupdel") {
            self.areas.insert(Area::Sudo); // the group that may use sudo
        }
        Ok(())
    }

    fn units(&mut self, words: &[String]) -> Result<(), &'static str> {
        for word in words {
            let kinds = [".service", ".socket"];
            let unit = kinds.iter().find_map(|kind| word.strip_suffix(kind)).unwrap_or(word);
            let name = unit.split('@').next().unwrap_or(unit);
            let is_known = |known: &&str| known.eq_ignore_ascii_case(name);
            let of_unit = UNITS.iter().filter(|(_, names)| names.iter().any(is_known));
            for (area, _) in of_unit {
                if name != unit {
                    return Err(
                        "the command changes an instance of a template unit, which sysop cannot restart",
                    );
                }
                self.areas.insert(*area);
            }
        }
        Ok(())
    }

    fn path(&mut self, path: &str) -> Result<(), &'static str> {
        let path = path.trim_end_matches('/');
        if path.is_empty() || path == "/etc" || path == "/home" || path == "/var" {
            return Err("the command changes too many files to save");
        }
        let touches = |place: &str| is_below(path, place) || is_below(place, path);
        if let Some((_, why)) =
            BEYOND.iter().find(|(places, _)| places.iter().any(|place| is_below(path, place)))
        {
            return Err(why);
        }
        let of_path = PATHS.iter().filter(|(_, places)| places.iter().any(|place| touches(place)));
        self.areas.extend(of_path.map(|(area, _)| *area));
        let unit = path.strip_prefix("/etc/systemd/system/");
        if unit.is_some_and(|unit| unit.starts_with("ssh")) {
            self.areas.insert(Area::Sshd);
        }
        let home = self.home().unwrap_or_else(|| "//".to_owned());
        if path == home || is_below(path, &format!("{home}/.ssh")) {
            self.areas.insert(Area::Keys);
        } else if LOGIN_FILES.iter().any(|file| path == format!("{home}/{file}")) {
            self.areas.insert(Area::Keys);
            self.paths.insert(path.to_owned());
        } else if path.contains("/.ssh") || path.contains("/authorized_keys") {
            // Another user's keys, or a key file elsewhere.
            self.areas.insert(Area::Keys);
            self.paths.insert(path.to_owned());
        }
        Ok(())
    }

    /// Returns the home directory of the login user if it is usable in a path.
    fn home(&self) -> Option<String> {
        let home = self.context.home.as_deref()?.trim_end_matches('/');
        (home.starts_with('/') && is_plain_path(home)).then(|| home.to_owned())
    }

    fn plan(mut self) -> Result<GuardPlan, &'static str> {
        if self.areas.is_empty() && self.paths.is_empty() {
            return Err("the files and settings that the command changes are unknown");
        }
        if self.areas.contains(&Area::Sudo) {
            self.paths.insert("@/usr/bin/sudo".to_owned());
        }
        if self.areas.contains(&Area::Keys) {
            let home = self.home().ok_or("the home directory of the login user is unknown")?;
            self.paths.insert(format!("{home}/.ssh"));
            self.paths.insert(format!("@{home}"));
        }
        if self.areas.contains(&Area::Accounts)
            && let Some(home) = self.home()
        {
            self.paths.insert(format!("@{home}"));
        }
        let of_areas = PATHS.iter().filter(|(area, _)| self.areas.contains(area));
        self.paths.extend(of_areas.flat_map(|(_, places)| places.iter().map(|place| (*place).to_owned())));
        // A path below another one is saved along with it.
        let all: Vec<String> = self.paths.iter().cloned().collect();
        let paths: Vec<String> = all
            .iter()
            .filter(|path| !all.iter().any(|other| other != *path && is_below(path, other)))
            .cloned()
            .collect();
        if !paths.iter().all(|path| is_plain_path(path.trim_start_matches('@'))) {
            return Err("a path contains a line break or another unsupported character");
        }
        let home = self.home();
        let is_own =
            |path: &String| home.as_deref().is_some_and(|home| is_below(path.trim_start_matches('@'), home));
        let needs_root = !paths.iter().all(is_own);
        let (capture, hook) = (steps::capture(&self.areas), steps::hook(&self.areas));
        let checks = steps::checks(&self.areas, self.context.user.as_deref());
        Ok(GuardPlan { areas: self.areas, paths, capture, hook, checks, needs_root })
    }
}

/// Returns true if `path` is `place` or below it. Paths are compared as they are written.
fn is_below(path: &str, place: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_plain_path(path: &str) -> bool {
    path.starts_with('/') && !path.chars().any(char::is_control)
}

#[cfg(test)]
mod tests;
