//! Protected places: files for logins and the network, files that are obeyed or run later, and secrets.
//!
//! The shell rules and the file tools share these lists. A place is written as a path and covers everything below it:
//! `/etc/ssh` is matched from the root, `~/.ssh` in anybody's home directory, and `.git/hooks` wherever these
//! components occur. `*` matches any characters of one component. Places are lowercase, because some file systems are
//! case-insensitive.

use std::sync::OnceLock;

use super::lexer::UNKNOWN;
use super::path_match::{PathParts, Relation, covers};
use crate::risk::RiskClass;

struct Kind {
    class: RiskClass,
    what: &'static str,
    /// Places separated by single spaces.
    text: &'static str,
    /// The places of `text`, split on first use.
    places: OnceLock<Vec<&'static str>>,
}

impl Kind {
    fn places(&self) -> impl Iterator<Item = &'static str> {
        self.places.get_or_init(|| self.text.split(' ').collect()).iter().copied()
    }
}

const fn kind(class: RiskClass, what: &'static str, places: &'static str) -> Kind {
    Kind { class, what, text: places, places: OnceLock::new() }
}

use RiskClass::{Dangerous, Lockout, ReadsSecret};

/// Places that are protected against changes, with the effect of a change. The first kind that matches counts, so
/// lockouts come first.
static WRITTEN: [Kind; 26] = [
    kind(
        Lockout,
        "the ssh server's settings",
        "/etc/ssh /etc/default/ssh /etc/sysconfig/sshd /run/sshd /etc/crypto-policies /etc/dropbear \
         /etc/systemd/system/ssh* /lib/systemd/system/ssh* /usr/lib/systemd/system/ssh*",
    ),
    kind(Lockout, "ssh keys and settings", ".ssh authorized_keys authorized_keys2"),
    kind(
        Lockout,
        "the sudo rules",
        "/etc/sudoers /etc/sudoers.d /etc/sudo.conf /etc/doas.conf /etc/polkit-1 /usr/bin/sudo /usr/share/polkit-1 \
         /usr/local/etc/sudoers /usr/local/etc/sudoers.d",
    ),
    kind(
        Lockout,
        "the login settings",
        "/etc/pam.d /etc/pam.conf /etc/security /etc/nsswitch.conf /etc/sssd /etc/krb5.conf /etc/login.defs \
         /etc/nologin /run/nologin /var/run/nologin /etc/securetty /etc/shells",
    ),
    kind(
        Lockout,
        "the account files",
        "/etc/passwd /etc/passwd- /etc/shadow /etc/shadow- /etc/group /etc/group- /etc/gshadow /etc/gshadow- \
         /etc/subuid /etc/subgid /etc/master.passwd",
    ),
    kind(
        Lockout,
        "the firewall",
        "/etc/nftables.conf /etc/nftables.d /etc/nftables /etc/iptables /etc/sysconfig/iptables \
         /etc/sysconfig/ip6tables /etc/ufw /etc/firewalld /etc/pf.conf /etc/fail2ban /etc/hosts.allow /etc/hosts.deny",
    ),
    kind(
        Lockout,
        "the network settings",
        "/etc/network /etc/netplan /etc/systemd/network /etc/networkmanager /etc/sysconfig/network-scripts \
         /etc/sysconfig/network /etc/sysctl.conf /etc/sysctl.d /etc/wireguard /etc/dhcpcd.conf /etc/dhcp",
    ),
    kind(Lockout, "kernel access rules", "/etc/selinux /etc/apparmor.d /etc/apparmor"),
    kind(Dangerous, "a device", "/dev"),
    kind(
        Dangerous,
        "the boot files",
        "/boot /efi /etc/default/grub* /etc/grub.d /etc/initramfs-tools /etc/kernel /etc/dracut.conf*",
    ),
    kind(Dangerous, "the kernel", "/proc /sys"),
    kind(
        Dangerous,
        "the kernel's settings",
        "/etc/modprobe.d /etc/modules /etc/modules-load.d /etc/udev /usr/lib/udev /lib/udev /run/udev /etc/binfmt.d",
    ),
    kind(
        Dangerous,
        "system programs",
        "/bin /sbin /usr/bin /usr/sbin /usr/libexec /usr/local/bin /usr/local/sbin /snap/bin",
    ),
    kind(
        Dangerous,
        "programs of the user",
        "~/bin ~/.local/bin ~/.cargo/bin ~/go/bin ~/.npm-global ~/.local/lib/python*",
    ),
    kind(
        Dangerous,
        "system libraries",
        "/lib /lib32 /lib64 /usr/lib /usr/lib32 /usr/lib64 /usr/local/lib /usr/local/lib64",
    ),
    kind(
        Dangerous,
        "the program loader",
        "/etc/ld.so.preload /etc/ld.so.conf /etc/ld.so.conf.d /etc/ld.so.cache",
    ),
    kind(
        Dangerous,
        "the mount table",
        "/etc/fstab /etc/crypttab /etc/mdadm /etc/lvm /etc/exports /etc/auto.*",
    ),
    kind(
        Dangerous,
        "scheduled commands",
        "/etc/crontab /etc/cron* /etc/anacrontab /var/spool/cron /var/spool/at /var/spool/anacron /etc/at.* /var/at \
         /etc/periodic",
    ),
    kind(Dangerous, "the resolver's settings", "/etc/resolv.conf /etc/hosts /etc/host.conf"),
    kind(
        Dangerous,
        "services and their triggers",
        "/etc/systemd /run/systemd /etc/init.d /etc/init /etc/inittab /etc/rc* /etc/sysconfig /etc/xinetd* \
         /etc/inetd.conf /etc/dbus-1 /usr/share/dbus-1 /etc/supervisor* /etc/sv /etc/runit /etc/s6 /etc/conf.d \
         /etc/default /etc/tmpfiles.d /etc/sysusers.d /etc/environment.d /etc/xdg /library/launchdaemons \
         /library/launchagents ~/.config/systemd ~/.local/share/systemd ~/.config/autostart ~/.config/upstart \
         ~/.local/share/dbus-1 ~/library/launchagents ~/.config/user-tmpfiles.d ~/.local/share/applications \
         ~/.xinitrc ~/.xsession ~/.xsessionrc ~/.xprofile ~/.config/i3 ~/.config/sway ~/.config/hypr \
         ~/.config/plasma-workspace ~/.config/openbox ~/.config/mimeapps.list",
    ),
    kind(
        Dangerous,
        "hooks run by other programs",
        "/etc/apt /etc/dpkg /etc/rpm /etc/yum* /etc/dnf /etc/zypp /etc/pacman* /etc/apk /usr/share/libalpm \
         /var/lib/dpkg /etc/logrotate* /etc/networkmanager/dispatcher.d /etc/ppp /etc/update-motd.d /etc/motd.d \
         /etc/acpi /etc/kernel /etc/needrestart /etc/letsencrypt/renewal* /etc/rsyslog* /etc/audit /etc/alternatives \
         /etc/ssl/openssl.cnf /etc/resolvconf",
    ),
    kind(
        Dangerous,
        "a shell start-up file",
        "/etc/profile /etc/profile.d /etc/bash.bashrc /etc/bash.bashrc.d /etc/bashrc /etc/bash /etc/bash_completion* \
         /etc/zsh* /etc/zprofile /etc/zlog* /etc/fish /etc/csh* /etc/ksh* /etc/environment /etc/inputrc /etc/skel \
         .bashrc .bashrc.d .bash_profile .bash_login .bash_logout .bash_aliases .bash_completion* .profile .profile.d \
         .zshrc .zshrc.d .zshenv .zprofile .zlogin .zlogout .zshrc.local .oh-my-zsh .kshrc .mkshrc .cshrc .tcshrc \
         .login .logout .shrc .shinit .inputrc .config/fish .config/bash .config/zsh .config/starship.toml \
         .config/powershell .bash_it .zim .zinit .p10k.zsh .envrc .config/direnv .direnvrc \
         .local/share/bash-completion",
    ),
    kind(
        Dangerous,
        "the login settings",
        ".pam_environment ~/.config/environment.d .rhosts .shosts /etc/hosts.equiv .k5login .forward .procmailrc",
    ),
    kind(
        Dangerous,
        "programs run by git",
        ".gitconfig .git/config .git/config.worktree .git/hooks .git/info/attributes .git/modules .config/git \
         /etc/gitconfig .githooks .husky .gitmodules .hgrc .hg/hgrc .pre-commit-config.yaml",
    ),
    kind(
        Dangerous,
        "settings that make programs run other programs",
        ".vimrc .gvimrc .exrc .vim .config/nvim .config/vim .emacs .emacs.d .config/emacs .config/doom .nanorc \
         .config/helix .tmux.conf .config/tmux .screenrc .lesskey .lessfilter .config/lesskey .npmrc .yarnrc \
         .yarnrc.yml .pnpmrc .cargo/config .cargo/config.toml .cargo/env .config/pip .pip pip.conf .pydistutils.cfg \
         .pypirc .condarc .gemrc .bundle/config .irbrc .pryrc .m2/settings.xml .gradle/init* \
         .gradle/gradle.properties .sbt .rprofile .julia/config .pythonrc .pythonstartup .perldb .gdbinit .lldbinit .aws/config \
         .config/gdb .psqlrc .sqliterc .mailcap .muttrc .config/mutt .wgetrc .curlrc .config/curlrc .aria2 \
         .ansible.cfg ~/.ansible /etc/ansible/ansible.cfg .terraformrc .docker/config.json .docker/cli-plugins \
         /etc/docker .kube .config/containers /etc/containers .config/flatpak .local/share/flatpak/overrides \
         /var/lib/flatpak /etc/flatpak .config/kitty .config/alacritty .config/wezterm .wezterm.lua \
         .config/terminator .config/ranger .config/lf .config/yazi .vscode/tasks.json .vscode/settings.json \
         .vscode/launch.json .vscode/extensions .vscode-server .idea .config/code .fleet .zed .config/zed \
         .devcontainer .config/gh .config/mise .config/asdf .asdfrc .tool-versions .mise.toml .config/htop \
         .config/mpv .gnupg .config/aerc .claude .cursor .mcp.json",
    ),
    kind(
        Dangerous,
        "sysop's own settings",
        ".config/sysop .local/share/sysop .local/state/sysop .sysop.toml .sysop sysop.db sysop.db-wal sysop.db-shm \
         sysop-*.token /etc/sysop /var/lib/sysop-guard /var/lib/sysop-undo .jexida .config/agent-rs",
    ),
];

/// Places that hold secrets, each with the kind of secret that reading it reveals. Only reading the content
/// counts; listing the names in a directory is harmless.
static READ: [Kind; 10] = [
    kind(
        ReadsSecret,
        "the account files",
        "/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/master.passwd /etc/security/opasswd \
         /var/backups/*shadow* /etc/sudoers /etc/sudoers.d",
    ),
    kind(
        ReadsSecret,
        "the memory or environment of processes",
        "/proc/*/environ /proc/*/mem /proc/*/fd /proc/*/root /proc/*/cwd /proc/*/auxv /proc/*/maps /proc/*/task \
         /proc/*/map_files /proc/kcore /dev/mem /dev/kmem /proc/keys",
    ),
    kind(
        ReadsSecret,
        "private keys",
        "/etc/ssh/ssh_host_*_key /etc/ssl/private /etc/pki/tls/private /etc/pki/private /etc/letsencrypt/archive \
         /etc/letsencrypt/live /etc/letsencrypt/accounts /etc/wireguard /etc/openvpn /etc/ipsec.secrets \
         /etc/ipsec.d/private /etc/swanctl/private /etc/dropbear .ssh/id_* .ssh/identity .ssh/*.pem .ssh/*.key \
         .ssh/*key .ssh/*_rsa .ssh/*_ed25519 .ssh/*_ecdsa .ssh/*_dsa .ssh/keys .gnupg/private-keys-v1.d \
         .gnupg/secring* .gnupg/*.key .age .config/sops .config/age",
    ),
    kind(
        ReadsSecret,
        "network passwords",
        "/etc/networkmanager/system-connections /etc/wpa_supplicant* /var/lib/iwd /etc/ppp/*-secrets \
         /etc/chap-secrets /var/lib/tailscale",
    ),
    kind(
        ReadsSecret,
        "access tokens and passwords",
        ".aws/credentials .aws/sso .aws/cli .kube /etc/kubernetes/pki /etc/kubernetes/*.conf /var/lib/kubelet /etc/rancher \
         /var/run/secrets /run/secrets /var/lib/docker/swarm .netrc _netrc .pgpass .my.cnf .mylogin.cnf \
         /etc/mysql/debian.cnf .docker/config.json .git-credentials .config/git/credentials .config/gh \
         .config/hub .config/glab-cli .config/gcloud .azure .config/doctl .config/heroku .config/op .oci .aliyun \
         .config/rclone .rclone.conf .s3cfg .boto .npmrc .yarnrc.yml .pypirc .gem/credentials .cargo/credentials* \
         .terraform.d/credentials* .terraformrc .vault-token .config/containers/auth.json .smbcredentials /etc/cifs* \
         /etc/samba/private /var/lib/samba/private .config/hcloud .config/openstack clouds.yaml .m2/settings.xml \
         .m2/settings-security.xml .gradle/gradle.properties .cloudflared .fly .config/stripe .huggingface \
         .cache/huggingface/token .config/openai .config/anthropic .claude/.credentials.json .codex/auth.json \
         .htpasswd .msmtprc .fetchmailrc .authinfo .authinfo.gpg .config/msmtp terraform.tfstate /etc/krb5.keytab \
         *.keytab /etc/ceph /etc/sasldb2 /etc/postfix/sasl*",
    ),
    kind(
        ReadsSecret,
        "a password store",
        ".password-store .local/share/keyrings .local/share/kwalletd .gnome2/keyrings *.kdbx *.kdb .config/keepassxc \
         .config/bitwarden library/keychains .config/1password .lastpass .config/pass",
    ),
    kind(
        ReadsSecret,
        "a browser's data",
        ".mozilla .config/google-chrome* .config/chromium .config/bravesoftware .config/microsoft-edge* \
         .config/vivaldi .config/opera .librewolf .thunderbird snap/firefox snap/chromium \
         .var/app/org.mozilla.firefox library/application*/google/chrome library/application*/firefox logins.json \
         key4.db cookies.sqlite",
    ),
    kind(
        ReadsSecret,
        "shell history",
        ".bash_history .zsh_history .zhistory .histfile .sh_history .ksh_history .ash_history .history \
         .local/share/fish .python_history .psql_history .mysql_history .sqlite_history .node_repl_history \
         .rediscli_history .lesshst .viminfo",
    ),
    kind(
        ReadsSecret,
        "keys in the settings of a program",
        ".env .env.* *.env .envrc *.pem *.p12 *.pfx *.jks *.ppk *.key id_rsa id_dsa id_ecdsa id_ed25519 id_ecdsa_sk \
         id_ed25519_sk secrets.yaml secrets.yml credentials.json service-account*.json",
    ),
    kind(
        ReadsSecret,
        "sysop's keys and sessions",
        ".config/sysop/config* .config/sysop/rules* .config/sysop/trust* .config/sysop/*token* .config/sysop \
         .local/share/sysop .local/state/sysop sysop.db sysop.db-wal sysop.db-shm sysop-*.token /etc/sysop \
         /var/lib/sysop-guard /var/lib/sysop-undo",
    ),
];

/// Names that match a place in [`READ`] but hold nothing secret.
const PUBLIC: &str = ".env.example .env.sample .env.template .env.dist *.pub known_hosts .env.test cacert.pem \
    ca-certificates.crt ca.pem fullchain.pem chain.pem cert.pem pubkey.pem public.pem *pub*.pem \
    *cert*.pem cert*.pem";

/// Devices that are safe to write to.
const HARMLESS_DEVICES: &[&str] =
    &["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero", "/dev/full"];

/// Returns the risk class of writing to a path and a description of the place, or `None` if the path is not protected.
pub(super) fn written(path: &str, home: Option<&str>) -> Option<(RiskClass, &'static str)> {
    let path = normal(path);
    if is_harmless_device(&path) {
        return None;
    }
    find(&WRITTEN, &path, home, Relation::Within).or_else(|| unplaced_below_root(&path))
}

/// Assesses an absolute path that contains an expansion. The path may lead to any place that has the same beginning.
fn unplaced_below_root(path: &str) -> Option<(RiskClass, &'static str)> {
    let literal = path
        .split(UNKNOWN)
        .next()
        .filter(|literal| literal.len() < path.len() && literal.starts_with('/'))?;
    let reached = |kind: &&Kind| kind.places().any(|place| place.starts_with(literal));
    WRITTEN.iter().find(reached).map(|kind| (Dangerous, kind.what))
}

/// Like [`written`], but for a directory that is changed with all its contents, including the protected
/// places below it. So a change of a home directory counts like a change of the `.ssh` directory in it.
pub(super) fn tree_written(path: &str, home: Option<&str>) -> Option<(RiskClass, &'static str)> {
    let path = normal(path);
    if is_harmless_device(&path) {
        return None;
    }
    find(&WRITTEN, &path, home, Relation::Within).or_else(|| find(&WRITTEN, &path, home, Relation::Above))
}

/// Returns a description of the secret that is shown by reading the content of a path, if any.
pub(super) fn read(path: &str, home: Option<&str>) -> Option<&'static str> {
    let path = normal(path);
    let name = path.rsplit('/').next().unwrap_or("");
    if PUBLIC.split(' ').any(|public| covers(public, name)) {
        return None;
    }
    find(&READ, &path, home, Relation::Within).map(|(_, what)| what)
}

/// Returns a description of the secret that is shown by reading a path and all files below it, if any.
pub(super) fn tree_read(path: &str, home: Option<&str>) -> Option<&'static str> {
    let path = normal(path);
    find(&READ, &path, home, Relation::Within)
        .or_else(|| find(&READ, &path, home, Relation::Above))
        .map(|(_, what)| what)
}

/// Like [`tree_read`], but for a program that skips files and directories with hidden names.
pub(super) fn visible_read(path: &str, home: Option<&str>) -> Option<&'static str> {
    let path = normal(path);
    let parts = PathParts::new(&path, home);
    let is_visible = |place: &&str| place.starts_with('/') && !place.contains("/.");
    let hit = |kind: &&Kind| kind.places().filter(is_visible).any(|place| parts.has(Relation::Above, place));
    find(&READ, &path, home, Relation::Within)
        .map(|(_, what)| what)
        .or_else(|| READ.iter().find(hit).map(|kind| kind.what))
}

fn is_harmless_device(path: &str) -> bool {
    HARMLESS_DEVICES.contains(&path) || path.starts_with("/dev/fd/") || path.starts_with("/dev/shm/")
}

fn normal(path: &str) -> String {
    let path = path.to_lowercase();
    match path.strip_prefix("/private/") {
        Some(rest) if ["etc", "var", "tmp"].iter().any(|folder| rest.starts_with(folder)) => {
            format!("/{rest}")
        }
        Some(_) | None => path,
    }
}

fn find(
    kinds: &'static [Kind],
    path: &str,
    home: Option<&str>,
    relation: Relation,
) -> Option<(RiskClass, &'static str)> {
    let climbed = path
        .starts_with("..")
        .then(|| format!("/{}", path.trim_start_matches("../").trim_start_matches("..")));
    let home = home.map(str::to_lowercase);
    let parts = PathParts::new(climbed.as_deref().unwrap_or(path), home.as_deref());
    let hit = |kind: &&Kind| kind.places().any(|place| parts.has(relation, place));
    kinds.iter().find(hit).map(|kind| (kind.class, kind.what))
}

/// Returns true for names of variables that are typical of keys and passwords. Lowercase words like `key`, `monkey` and
/// `pass` are too common in scripts to count.
pub(super) fn is_secret_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"]
        .iter()
        .any(|part| upper.contains(part))
        || ["_KEY", "APIKEY", "_PASS", "_PW", "_PWD"].iter().any(|end| upper.ends_with(end))
        || name.contains("KEY")
        || matches!(name, "PASS" | "PW")
}
