//! Paths as text: which name the system itself, which are so broad that a mistake is not undone.
//!
//! Resolves nothing: symbolic links, mounts and what a glob matches are unknown here.

use super::lexer::UNKNOWN;

/// Folders whose every file the machine needs to start, to be reached, or to stay what it is.
const PROTECTED: &[(&str, &str)] = &[
    ("/dev", "a device"),
    ("/boot", "the boot files"),
    ("/proc", "the kernel"),
    ("/sys", "the kernel"),
    ("/bin", "system programs"),
    ("/sbin", "system programs"),
    ("/lib", "system libraries"),
    ("/lib32", "system libraries"),
    ("/lib64", "system libraries"),
    ("/usr/bin", "system programs"),
    ("/usr/sbin", "system programs"),
    ("/usr/lib", "system libraries"),
    ("/usr/lib64", "system libraries"),
    ("/usr/libexec", "system programs"),
    ("/etc/passwd", "the account files"),
    ("/etc/passwd-", "the account files"),
    ("/etc/shadow", "the account files"),
    ("/etc/shadow-", "the account files"),
    ("/etc/group", "the account files"),
    ("/etc/gshadow", "the account files"),
    ("/etc/subuid", "the account files"),
    ("/etc/subgid", "the account files"),
    ("/etc/login.defs", "the login settings"),
    ("/etc/shells", "the login settings"),
    ("/etc/securetty", "the login settings"),
    ("/etc/nologin", "the login settings"),
    ("/etc/sudoers", "the sudo rules"),
    ("/etc/sudoers.d", "the sudo rules"),
    ("/etc/sudo.conf", "the sudo rules"),
    ("/etc/doas.conf", "the sudo rules"),
    ("/etc/polkit-1", "the privilege rules"),
    ("/etc/ssh", "the ssh server's settings"),
    ("/etc/pam.d", "the login settings"),
    ("/etc/pam.conf", "the login settings"),
    ("/etc/security", "the login settings"),
    ("/etc/nsswitch.conf", "the login settings"),
    ("/etc/fstab", "the mount table"),
    ("/etc/crypttab", "the mount table"),
    ("/etc/mdadm", "the mount table"),
    ("/etc/lvm", "the mount table"),
    ("/etc/crontab", "scheduled commands"),
    ("/etc/cron.d", "scheduled commands"),
    ("/etc/cron.hourly", "scheduled commands"),
    ("/etc/cron.daily", "scheduled commands"),
    ("/etc/cron.weekly", "scheduled commands"),
    ("/etc/cron.monthly", "scheduled commands"),
    ("/etc/anacrontab", "scheduled commands"),
    ("/var/spool/cron", "scheduled commands"),
    ("/etc/hosts.allow", "who may connect"),
    ("/etc/hosts.deny", "who may connect"),
    ("/etc/resolv.conf", "the network settings"),
    ("/etc/network", "the network settings"),
    ("/etc/netplan", "the network settings"),
    ("/etc/networkmanager", "the network settings"),
    ("/etc/systemd", "the services' settings"),
    ("/etc/init.d", "the services' settings"),
    ("/etc/inittab", "the services' settings"),
    ("/etc/rc.local", "the services' settings"),
    ("/etc/sysconfig", "the services' settings"),
    ("/etc/iptables", "the firewall"),
    ("/etc/nftables.conf", "the firewall"),
    ("/etc/nftables", "the firewall"),
    ("/etc/ufw", "the firewall"),
    ("/etc/firewalld", "the firewall"),
    ("/etc/fail2ban", "the firewall"),
    ("/etc/profile", "a shell start-up file"),
    ("/etc/profile.d", "a shell start-up file"),
    ("/etc/bash.bashrc", "a shell start-up file"),
    ("/etc/bashrc", "a shell start-up file"),
    ("/etc/zsh", "a shell start-up file"),
    ("/etc/environment", "a shell start-up file"),
    ("/etc/ld.so.preload", "the program loader"),
    ("/etc/ld.so.conf", "the program loader"),
    ("/etc/ld.so.conf.d", "the program loader"),
    ("/etc/default/grub", "the boot files"),
    ("/etc/default/ssh", "the ssh server's settings"),
    ("/etc/grub.d", "the boot files"),
    ("/etc/initramfs-tools", "the boot files"),
    ("/etc/modprobe.d", "the kernel's settings"),
    ("/etc/modules", "the kernel's settings"),
    ("/etc/modules-load.d", "the kernel's settings"),
    ("/etc/sysctl.conf", "the kernel's settings"),
    ("/etc/sysctl.d", "the kernel's settings"),
    ("/etc/udev", "the kernel's settings"),
    ("/etc/selinux", "the kernel's settings"),
    ("/etc/apparmor.d", "the kernel's settings"),
];

/// Devices that anything may be written to.
const HARMLESS_DEVICES: &[&str] =
    &["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero", "/dev/full"];

/// Names that are run or obeyed later, wherever they lie.
const AUTORUN: &[(&str, &str)] = &[
    (".ssh", "ssh keys and settings"),
    ("authorized_keys", "ssh keys and settings"),
    (".bashrc", "a shell start-up file"),
    (".bash_profile", "a shell start-up file"),
    (".bash_login", "a shell start-up file"),
    (".bash_logout", "a shell start-up file"),
    (".bash_aliases", "a shell start-up file"),
    (".profile", "a shell start-up file"),
    (".zshrc", "a shell start-up file"),
    (".zshenv", "a shell start-up file"),
    (".zprofile", "a shell start-up file"),
    (".zlogin", "a shell start-up file"),
    (".kshrc", "a shell start-up file"),
    (".cshrc", "a shell start-up file"),
    (".tcshrc", "a shell start-up file"),
    (".inputrc", "a shell start-up file"),
    (".pam_environment", "the login settings"),
    (".gitconfig", "programs that git runs"),
    (".git/config", "programs that git runs"),
    (".git/hooks", "programs that git runs"),
    (".config/git", "programs that git runs"),
    (".config/systemd", "services that start by themselves"),
    (".config/autostart", "programs that start by themselves"),
    (".config/sysop", "the rules this agent works under"),
    (".local/share/sysop", "the rules this agent works under"),
    (".sysop.toml", "the rules this agent works under"),
    (".jexida", "the rules this agent works under"),
    (".config/agent-rs", "the rules this agent works under"),
];

const SPECIAL: [char; 5] = ['*', '?', '[', '{', UNKNOWN];

/// Joins a path as written to the folder it is relative to, and removes `.`, `..` and doubled slashes.
///
/// A path relative to an unknown folder starts with [`UNKNOWN`].
pub(super) fn resolve(folder: Option<&str>, shape: &str) -> String {
    let rooted = shape.starts_with(['/', '~', UNKNOWN]);
    let joined = match folder {
        _ if rooted => shape.to_owned(),
        Some("") => shape.to_owned(),
        Some(folder) => format!("{folder}/{shape}"),
        None => format!("{UNKNOWN}/{shape}"),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                None if joined.starts_with('/') => {}
                None | Some(&"..") => parts.push(".."),
                Some(_) => {
                    parts.pop();
                }
            },
            other => parts.push(other),
        }
    }
    let lead = if joined.starts_with('/') { "/" } else { "" };
    let plain = format!("{lead}{}", parts.join("/"));
    match plain.strip_prefix("/proc/self/root") {
        Some("") => "/".to_owned(),
        Some(rest) if rest.starts_with('/') => rest.to_owned(),
        Some(_) | None => plain,
    }
}

/// What a resolved path belongs to, if it is part of the system or is obeyed later; in small letters, because
/// some file systems do not tell capitals apart.
pub(super) fn protected(resolved: &str) -> Option<&'static str> {
    let mut path = resolved.to_lowercase();
    if path.starts_with("..") {
        path = format!("/{}", path.trim_start_matches("../").trim_start_matches(".."));
    }
    if HARMLESS_DEVICES.contains(&path.as_str()) || path.starts_with("/dev/fd/") || is_shared_memory(&path) {
        return None;
    }
    let obeyed = AUTORUN.iter().find(|(name, _)| contains_component(&path, name));
    if let Some((_, what)) = obeyed {
        return Some(what);
    }
    if !path.starts_with('/') {
        return None;
    }
    let literal = path.split(SPECIAL).next().unwrap_or("");
    let cut = literal.len() < path.len();
    let hit = PROTECTED.iter().find(|(tree, _)| {
        within(&path, tree) || (cut && (tree.starts_with(literal) || within(literal, tree)))
    });
    hit.map(|(_, what)| *what)
}

/// Whether it is a file among the devices that is one like others.
pub(super) fn is_shared_memory(resolved: &str) -> bool {
    resolved.to_lowercase().starts_with("/dev/shm/")
}

/// Whether `path` is `tree` or below it.
fn within(path: &str, tree: &str) -> bool {
    path.strip_prefix(tree).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether `name` (one or more components) is in `path` on component borders.
fn contains_component(path: &str, name: &str) -> bool {
    path.match_indices(name).any(|(at, _)| {
        let before = path.get(..at).unwrap_or("");
        let after = path.get(at + name.len()..).unwrap_or("");
        (before.is_empty() || before.ends_with('/')) && (after.is_empty() || after.starts_with('/'))
    })
}

/// Whether a recursive change of this resolved path could take a whole system, home or project with it.
pub(super) fn is_broad(resolved: &str) -> bool {
    if resolved.starts_with(UNKNOWN) || resolved.is_empty() {
        return true;
    }
    let climbs = resolved.starts_with("..");
    let parts: Vec<&str> = resolved.split('/').filter(|part| !part.is_empty()).collect();
    let special = |part: &&str| part.contains(SPECIAL);
    let all = |part: &&str| part.starts_with(SPECIAL);
    if climbs {
        return parts.iter().all(|part| *part == ".." || all(part)) || protected(resolved).is_some();
    }
    if let Some(home) = resolved.strip_prefix('~') {
        return !home.contains('/') || parts.get(1).is_some_and(all);
    }
    if resolved.starts_with('/') {
        let home = parts.first().is_some_and(|first| matches!(*first, "home" | "Users")) && parts.len() <= 2;
        return parts.len() <= 1
            || home
            || parts.iter().take(2).any(special)
            || protected(resolved).is_some();
    }
    parts.first().is_some_and(all)
}

/// Whether a resolved path names a disk or a partition, as far as its name tells.
pub(super) fn is_block_device(resolved: &str) -> bool {
    const DISKS: &[&str] = &[
        "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "mapper", "dm-", "md", "loop", "disk", "sr", "nbd",
        "rdisk", "zd",
    ];
    resolved
        .to_lowercase()
        .strip_prefix("/dev/")
        .is_some_and(|name| DISKS.iter().any(|disk| name.starts_with(disk)))
}

/// Paths that bash opens as a connection.
pub(super) fn is_network(target: &str) -> bool {
    target.starts_with("/dev/tcp/") || target.starts_with("/dev/udp/")
}
