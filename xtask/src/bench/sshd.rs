//! Remote machines for measurements: our own sshd on loopback, and the same sshd behind a slow link.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::workspace::step;

/// Delay in each direction of the slow link.
const ONE_WAY_DELAY: Duration = Duration::from_millis(50);
/// Maximum number of attempts to find a port, because a free port may be taken before sshd binds it.
const PORT_ATTEMPTS_MAX: usize = 10;

/// A running sshd with its own keys and config, killed on drop.
pub(crate) struct BenchSshd {
    server: Child,
    folder: PathBuf,
}

impl BenchSshd {
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        // A home directory without files: a login shell's startup files are not part of our cost.
        fs::create_dir_all(folder.join("home")).context("cannot create a folder for sshd")?;
        for key in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(key));
            step(&format!("create a key for {key}"), &mut keygen)?;
        }
        if fs::metadata("/proc/self").is_ok_and(|found| std::os::unix::fs::MetadataExt::uid(&found) == 0) {
            fs::create_dir_all("/run/sshd")
                .context("cannot create /run/sshd, which sshd requires as root")?;
        }
        for _ in 0..PORT_ATTEMPTS_MAX {
            let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
            write_server_config(folder, port)?;
            if let Some(server) = serve(folder)? {
                let far = Self { server, folder: folder.to_owned() };
                write_client_config(folder, port, start_delay_proxy(port)?)?;
                return Ok(far);
            }
        }
        bail!("no free port for sshd");
    }

    /// Path of the ssh config that defines `near1`, `near2`, … and `far1`, `far2`, …
    pub(crate) fn config(&self) -> PathBuf {
        self.folder.join("ssh_config")
    }

    pub(crate) fn ssh(&self) -> Command {
        let mut command = Command::new("ssh");
        // A relative path, because socket paths are limited to about a hundred bytes.
        command.current_dir(&self.folder).args(["-F", "ssh_config", "-o", "BatchMode=yes"]);
        command
    }
}

impl Drop for BenchSshd {
    fn drop(&mut self) {
        // The server may have exited already; either way nothing is left to do.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn write_server_config(folder: &Path, port: u16) -> Result<()> {
    let at = |name: &str| folder.join(name).display().to_string();
    let text = format!(
        "ListenAddress 127.0.0.1:{port}\nHostKey \"{}\"\nAuthorizedKeysFile \"{}\"\nPidFile none\nUsePAM no\n\
         StrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n\
         MaxStartups 100\nMaxSessions 100\nUseDNS no\nSetEnv \"HOME={}\"\n",
        at("host"),
        at("user.pub"),
        at("home"),
    );
    fs::write(folder.join("sshd_config"), text).context("cannot write a config for sshd")
}

fn write_client_config(folder: &Path, near: u16, far: u16) -> Result<()> {
    let at = |name: &str| folder.join(name).display().to_string();
    let key = fs::read_to_string(folder.join("host.pub")).context("cannot read the host key")?;
    fs::write(folder.join("known_hosts"), format!("bench {key}"))?;
    let text = format!(
        "Host near*\n  Port {near}\nHost far*\n  Port {far}\nHost *\n  HostName 127.0.0.1\n  HostKeyAlias bench\n  \
         IdentityFile \"{}\"\n  IdentitiesOnly yes\n  IdentityAgent none\n  UserKnownHostsFile \"{}\"\n  \
         GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n",
        at("user"),
        at("known_hosts"),
    );
    fs::write(folder.join("ssh_config"), text).context("cannot write a config for ssh")
}

/// Starts the server and waits until it listens. Returns `None` if its port is taken.
fn serve(folder: &Path) -> Result<Option<Child>> {
    // sshd re-executes itself by the path it was started with.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let sshd = places.map(|place| place.join("sshd")).find(|sshd| sshd.is_file());
    let sshd = sshd.context("sshd not found; install openssh-server")?;
    let mut server = Command::new(sshd)
        .args(["-D", "-e", "-f"])
        .arg(folder.join("sshd_config"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start sshd")?;
    let mut printed = BufReader::new(server.stderr.take().context("sshd was started with a pipe")?);
    let mut said = String::new();
    while printed.read_line(&mut said)? > 0 {
        if said.contains("Server listening on") {
            // Later output is irrelevant, but must not fill the pipe.
            thread::spawn(move || std::io::copy(&mut printed, &mut std::io::sink()));
            return Ok(Some(server));
        }
    }
    server.wait()?;
    if said.contains("in use") {
        return Ok(None);
    }
    bail!("sshd did not start: {}", said.trim());
}

/// Returns a port that relays to the server and delays every byte in both directions, like a link to another
/// continent. The delay costs no CPU time, so many machines can be simulated at once.
fn start_delay_proxy(server: u16) -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            // A connection that cannot be forwarded is closed by dropping it.
            let Ok(far) = TcpStream::connect(("127.0.0.1", server)) else { continue };
            if let (Ok(near_too), Ok(far_too)) = (near.try_clone(), far.try_clone()) {
                thread::spawn(move || relay_delayed(near, far));
                thread::spawn(move || relay_delayed(far_too, near_too));
            }
        }
    });
    Ok(port)
}

/// Relays one direction of a connection.
fn relay_delayed(mut from: TcpStream, mut to: TcpStream) {
    // Without `TCP_NODELAY` the kernel adds its own delays.
    let _ = to.set_nodelay(true);
    let (sender, travelling) = channel();
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let bytes = from.read(&mut buffer).unwrap_or(0);
            // An empty chunk marks the end.
            let piece = (Instant::now() + ONE_WAY_DELAY, buffer[..bytes].to_vec());
            if sender.send(piece).is_err() || bytes == 0 {
                return;
            }
        }
    });
    write_delayed(&travelling, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

fn write_delayed(travelling: &Receiver<(Instant, Vec<u8>)>, to: &mut TcpStream) {
    while let Ok((due, piece)) = travelling.recv() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if piece.is_empty() || to.write_all(&piece).is_err() {
            return;
        }
    }
}
