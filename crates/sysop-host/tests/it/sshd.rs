//! Runs a real sshd on a free port of this machine, with its own keys, config and home; needs no root.
//!
//! Every login shell is tested by `ForceCommand`: sshd passes the received command line to that shell, as it does for
//! a user with that login shell.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use parking_lot::Mutex;
use sysop_host::{SshConnection, SshSettings};
use tempfile::TempDir;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Login {
    /// Login shell of the user who runs the tests.
    Own,
    Bash,
    Zsh,
    Fish,
    Dash,
    /// Busybox' shell, with only busybox' tools.
    Ash,
    Csh,
    Tcsh,
    Refusing,
}

impl Login {
    fn command(self) -> Option<String> {
        let with = |shell: &str| Some(format!("exec {shell} -c \"$SSH_ORIGINAL_COMMAND\""));
        match self {
            Self::Own => None,
            Self::Bash => with("bash"),
            Self::Zsh => with("zsh"),
            Self::Fish => with("fish"),
            Self::Dash => with("dash"),
            Self::Ash => with("env PATH=\"$HOME/busybox\" \"$HOME/busybox/ash\""),
            Self::Csh => with("csh"),
            Self::Tcsh => with("tcsh"),
            Self::Refusing => Some("exec /usr/sbin/nologin".to_owned()),
        }
    }
}

/// Startup files of shells: each prints noise, and some set options that break careless scripts.
const STARTUP_FILES: [(&str, &str); 6] = [
    (".bashrc", "echo 'Welcome to bash!'; printf 'no newline'; echo warning >&2; set -eu; PAGER=less"),
    (".zshenv", "echo 'Welcome to zsh!'; echo warning >&2; set -eu"),
    (".cshrc", "echo 'Welcome to csh'"),
    (".tcshrc", "echo 'Welcome to tcsh'"),
    (".config/fish/config.fish", "echo 'Welcome to fish!'; echo warning >&2"),
    (".profile", "echo 'Welcome!'"),
];

/// Running server; dropping it ends the server and all its connections.
pub(crate) struct Sshd {
    home: TempDir,
    port: u16,
    server: Child,
}

impl Sshd {
    pub(crate) fn start(login: Login) -> Self {
        Self::with(login, "")
    }

    /// Starts a server with more lines in its config.
    pub(crate) fn with(login: Login, more: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        for (name, text) in STARTUP_FILES {
            let path = home.path().join("home").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        // Without this directory fish generates completions for all manual pages in the background.
        fs::create_dir_all(home.path().join("home/.local/share/fish/generated_completions")).unwrap();
        if login == Login::Ash {
            install_busybox(&home.path().join("home/busybox"));
        }
        for key in ["host", "user", "other"] {
            keygen(&home.path().join(key));
        }
        fs::copy(home.path().join("user.pub"), home.path().join("authorized")).unwrap();
        if rustix::process::geteuid().is_root() {
            fs::create_dir_all("/run/sshd").unwrap();
        }
        // Another process may take the free port before sshd does.
        for _ in 0..10 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            write_configs(home.path(), port, login, more);
            if let Some(server) = serve(home.path()) {
                return Self { home, port, server };
            }
        }
        panic!("sshd does not start; is openssh-server installed? `cargo xtask setup` installs it");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Settings for ssh with its own config file.
    pub(crate) fn settings(&self) -> SshSettings {
        let mut settings = SshSettings::new("far", self.path("control"));
        settings.config_file = Some(self.path("ssh_config"));
        settings
    }

    pub(crate) fn connection(&self) -> SshConnection {
        SshConnection::new(self.settings()).unwrap()
    }

    /// Prepends lines to the ssh config; they take precedence over the existing ones.
    pub(crate) fn configure(&self, lines: &str) {
        let old = fs::read_to_string(self.path("ssh_config")).unwrap();
        fs::write(self.path("ssh_config"), format!("{lines}\n{old}")).unwrap();
    }

    pub(crate) fn connections(&self) -> Vec<i32> {
        let listening = fs::read_to_string(self.path("pid")).unwrap();
        let children =
            Command::new("ps").args(["-o", "pid=", "--ppid", listening.trim()]).output().unwrap().stdout;
        let children = String::from_utf8(children).unwrap();
        children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }

    /// Kills every connection at once, like a crash; new ones are accepted.
    pub(crate) fn kill_connections(&self) {
        for pid in self.connections() {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            // The process may have ended since it was listed.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.kill_connections();
        drop(self.server.stdin.take());
        self.server.wait().unwrap();
    }
}

/// Connection shared by all tests of the process, one per login shell.
pub(crate) fn shared(login: Login) -> SshConnection {
    static SERVERS: OnceLock<Mutex<Vec<(Login, Sshd, SshConnection)>>> = OnceLock::new();
    let mut servers = SERVERS.get_or_init(Mutex::default).lock();
    if let Some((_, _, connection)) = servers.iter().find(|(known, _, _)| *known == login) {
        return connection.clone();
    }
    let server = Sshd::start(login);
    let connection = server.connection();
    servers.push((login, server, connection.clone()));
    connection
}

fn keygen(path: &Path) {
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status();
    assert!(made.unwrap().success());
}

/// Installs links for busybox' tools, and nothing else.
fn install_busybox(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let busybox = Command::new("sh").args(["-c", "command -v busybox"]).output().unwrap().stdout;
    let busybox = String::from_utf8(busybox).unwrap();
    let names = Command::new(busybox.trim()).arg("--list").output().unwrap().stdout;
    for name in String::from_utf8(names).unwrap().lines() {
        std::os::unix::fs::symlink(busybox.trim(), folder.join(name)).unwrap();
    }
}

fn write_configs(home: &Path, port: u16, login: Login, more: &str) {
    let at = |name: &str| home.join(name).display().to_string();
    let force = login.command().map(|command| format!("ForceCommand {command}\n")).unwrap_or_default();
    let server = format!(
        "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nSetEnv HOME={} SYSOP_GUARD_DIR={} SYSOP_UNDO_DIR={}\n\
         UsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         PermitRootLogin yes\nMaxStartups 1000\nUseDNS no\n{more}\n{force}",
        at("host"),
        at("authorized"),
        at("home"),
        at("guards"),
        at("undo"),
    );
    fs::write(home.join("sshd_config"), server).unwrap();
    let known = fs::read_to_string(home.join("host.pub")).unwrap();
    fs::write(home.join("known_hosts"), format!("[127.0.0.1]:{port} {known}")).unwrap();
    let client = format!(
        "Host far\n  HostName 127.0.0.1\n  Port {port}\nHost *\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
         IdentityAgent none\n  UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n",
        at("user"),
        at("known_hosts"),
    );
    fs::write(home.join("ssh_config"), client).unwrap();
    fs::set_permissions(home.join("ssh_config"), fs::Permissions::from_mode(0o600)).unwrap();
}

/// Starts the server and waits until it listens. However this process ends, the server ends with it and its files are
/// removed.
fn serve(home: &Path) -> Option<Child> {
    // Only sshd holds the write end of the error pipe, so that its end is noticed.
    let script = r#"p=$(PATH=$PATH:/usr/sbin:/sbin; command -v sshd) || exit
        "$p" -D -e -f "$1" </dev/null & s=$!; exec 2>/dev/null
        echo "$s" >"$2"; while read -r line; do :; done; kill "$s"; rm -rf "$3""#;
    let mut server = Command::new("sh")
        .args(["-c", script, "sh"])
        .args([&home.join("sshd_config"), &home.join("pid"), home])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut printed = BufReader::new(server.stderr.take().unwrap());
    let mut line = String::new();
    while printed.read_line(&mut line).unwrap() > 0 {
        if line.contains("Server listening on") {
            // Later output is discarded, so that the pipe does not fill up.
            std::thread::spawn(move || std::io::copy(&mut printed, &mut std::io::sink()));
            return Some(server);
        }
    }
    // The files are kept for the next attempt.
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(line.contains("in use"), "sshd does not start; `cargo xtask setup` installs it: {line}");
    None
}
