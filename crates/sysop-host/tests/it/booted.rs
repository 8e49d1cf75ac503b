//! System that was booted with systemd, for tests that change it. `cargo xtask test --all` creates it, and sets
//! `SYSOP_BOOTED` to its directory. The directory contains an ssh config with the hosts `box` (root), `boxann` (may use
//! sudo) and `boxbob`, and the process id of its systemd.

use std::path::{Path, PathBuf};
use std::process::Command;

use parking_lot::{Mutex, MutexGuard};

pub(crate) struct BootedSystem {
    folder: PathBuf,
    leader: String,
    /// The tests change one system, so one runs at a time.
    _only: MutexGuard<'static, ()>,
}

impl BootedSystem {
    /// Returns the system, or says that there is none.
    pub(crate) fn get() -> Option<Self> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let Some(folder) = std::env::var_os("SYSOP_BOOTED").map(PathBuf::from) else {
            // Written past the test harness, which would capture the note.
            let note = "\nNOT TESTED: a booted system; `cargo xtask test --all` makes one\n";
            let _ = std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes());
            return None;
        };
        let only = ONE_AT_A_TIME.lock();
        let leader = std::fs::read_to_string(folder.join("leader")).unwrap().trim().to_owned();
        Some(Self { folder, leader, _only: only })
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.folder.join("ssh_config")
    }

    /// Runs a command in the system as root, not over ssh. Returns what it prints.
    pub(crate) fn inside(&self, command: &str) -> String {
        let mut run = Command::new("nsenter");
        run.args(["-t", &self.leader, "-a", "sh", "-c", command]).env_clear();
        run.env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/root");
        let output = run.output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Returns a path of the system as this process sees it.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        Path::new("/proc").join(&self.leader).join("root").join(path.trim_start_matches('/'))
    }

    /// Logs in once, without an open connection.
    pub(crate) fn logs_in(&self, host: &str) -> bool {
        let mut login = Command::new("ssh");
        login.arg("-F").arg(self.config()).args(["-oBatchMode=yes", "-oConnectTimeout=5", host, "true"]);
        login.output().unwrap().status.success()
    }
}
