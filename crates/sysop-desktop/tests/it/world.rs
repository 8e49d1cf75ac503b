//! A home for each test, the programs started in it, and observations of their processes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

use crate::display::{Display, wait};

/// Path of the window program.
pub(crate) const HELPER: &str = env!("CARGO_BIN_EXE_sysop-desktop");

/// Returns the path of `sysop`, next to the window program.
pub(crate) fn sysop() -> PathBuf {
    let sysop = Path::new(HELPER).with_file_name("sysop");
    assert!(sysop.is_file(), "{} is missing; `cargo build --package sysop` makes it", sysop.display());
    sysop
}

/// A temporary home and its environment.
pub(crate) struct World {
    home: TempDir,
    environment: Vec<(String, String)>,
}

impl World {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        for folder in ["work", "run"] {
            fs::create_dir(home.path().join(folder)).unwrap();
        }
        let run = home.path().join("run").to_str().unwrap().to_owned();
        let environment = [
            ("PATH", std::env::var("PATH").unwrap()),
            ("HOME", home.path().to_str().unwrap().to_owned()),
            ("XDG_RUNTIME_DIR", run),
            // No message bus of this machine, and none started automatically.
            ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent".to_owned()),
            ("NO_AT_BRIDGE", "1".to_owned()),
            ("GSETTINGS_BACKEND", "memory".to_owned()),
            ("GIO_USE_VFS", "local".to_owned()),
            ("LIBGL_ALWAYS_SOFTWARE", "1".to_owned()),
            // A port without a listener, so that no test meets an Ollama of this machine.
            ("OLLAMA_HOST", "127.0.0.1:1".to_owned()),
        ];
        Self { home, environment: environment.map(|(name, value)| (name.to_owned(), value)).into() }
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    /// Writes an executable file.
    pub(crate) fn program(&self, path: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub(crate) fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.path("work")).args(arguments).stdin(Stdio::null());
        command
    }

    /// Starts a program on a display.
    pub(crate) fn start(&self, display: &Display, program: &Path, arguments: &[&str]) -> DesktopProcess {
        DesktopProcess::of(self.command(program, arguments).env("DISPLAY", &display.name))
    }

    /// Starts `sysop desktop` with the scripted model.
    pub(crate) fn desktop(&self, display: &Display) -> DesktopProcess {
        self.start(display, &sysop(), &["desktop", "--model", "demo"])
    }
}

/// A running program with its process group.
pub(crate) struct DesktopProcess {
    child: Child,
    said: Arc<Mutex<String>>,
    listens: JoinHandle<()>,
}

impl DesktopProcess {
    fn of(command: &mut Command) -> Self {
        let mut child = command
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let said = Arc::new(Mutex::new(String::new()));
        let (from, into) = (child.stderr.take().unwrap(), Arc::clone(&said));
        let listens = std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                let mut said = into.lock();
                said.push_str(&line);
                said.push('\n');
            }
        });
        Self { child, said, listens }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Returns the standard error output so far.
    pub(crate) fn said(&self) -> String {
        self.said.lock().clone()
    }

    /// Returns the process with the window, started by `sysop desktop`.
    pub(crate) fn helper(&self) -> i32 {
        let own = self.pid();
        wait("the helper", || children(own).into_iter().find(|pid| is(*pid, "sysop-desktop")))
    }

    /// Returns the server of the window.
    pub(crate) fn server(&self) -> i32 {
        let helper = self.helper();
        wait("the server", || children(helper).into_iter().find(|pid| is(*pid, "sysop")))
    }

    /// Waits for the exit; returns status and output.
    pub(crate) fn end(&mut self) -> (ExitStatus, String) {
        let status = wait("the end of the program", || self.child.try_wait().unwrap());
        wait("the end of what it says", || self.listens.is_finished().then_some(()));
        (status, self.said())
    }
}

impl Drop for DesktopProcess {
    #[expect(clippy::print_stdout, reason = "it is for whoever reads of the failure")]
    fn drop(&mut self) {
        // The server has its own process group, and ends because its pipe closes.
        let _ = kill_process_group(Pid::from_raw(self.pid()).unwrap(), Signal::KILL);
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("it said:\n{}", self.said());
        }
    }
}

pub(crate) fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

pub(crate) fn terminate(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
}

/// Waits until a process is gone or a zombie.
pub(crate) fn wait_until_gone(pid: i32) {
    wait("the end of a process", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        matches!(state, None | Some('Z' | 'X')).then_some(())
    });
}

fn is(pid: i32, name: &str) -> bool {
    // The kernel keeps fifteen bytes of a name.
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name)
}

fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn children(of: i32) -> Vec<i32> {
    let parent = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(") ").next()?.split(' ').nth(1)?.parse::<i32>().ok()
    };
    processes().into_iter().filter(|pid| parent(pid) == Some(of)).collect()
}

/// Returns all command lines and environments below a process, as visible to users of this machine.
pub(crate) fn command_lines(of: i32) -> String {
    let mut all = String::new();
    let mut next = vec![of];
    while let Some(pid) = next.pop() {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        all.push_str(&String::from_utf8_lossy(&line));
        all.push('\n');
        next.extend(children(pid));
    }
    all
}

/// Returns the port on which a process listens.
pub(crate) fn port_of(pid: i32) -> u16 {
    wait("the port of the server", || {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
        let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
        let own: Vec<String> = links.filter_map(|link| Some(link.to_str()?.to_owned())).collect();
        let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).ok()?;
        table.lines().skip(1).find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let socket = format!("socket:[{}]", fields.get(9)?);
            let listens = *fields.get(3)? == "0A" && own.contains(&socket);
            let (_, port) = fields.get(1)?.split_once(':')?;
            listens.then(|| u16::from_str_radix(port, 16).ok())?
        })
    })
}

/// Sends a request to a server, like a program with a token.
pub(crate) fn ask(port: u16, token: &str, method: &str, path: &str, body: &str) -> serde_json::Value {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 2"), "{answer}");
    serde_json::from_str(body).unwrap_or_default()
}
