//! TCP connections through a program on the remote host, for a server that forbids forwarding.
//!
//! The relay is a script whose standard input and output are the connection. It has no terminal, so all bytes pass
//! unchanged. bash connects by itself (`/dev/tcp`); otherwise, `nc` connects. Variants of `nc` react differently to the
//! end of standard input: they close the connection, close half of it, or do nothing. Therefore, the script watches its
//! input and ends the program when the input ends. A disconnected client, a closed session and a broken connection all
//! end the input, and the server sees each of them as a closed connection.
//!
//! A client cannot close only one half of a connection, which HTTP does not need. If the server closes first, bash and
//! most variants of `nc` end at once. OpenBSD's `nc` and ncat keep the other half open until the client's next byte.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::connection::ConnectionInner;
use super::error::{SshError, last_line};
use super::forward::ForwardTarget;
use super::running_script::{END, RunningScript, START, ScriptEnd, nonce, run_script};
use super::script::{RemoteScript, ScriptInput};
use super::session::PendingOpen;

/// Timeout of [`CHOOSE`]. It is needed because a firewall may drop bash's packets.
const CHOICE_MAX: Duration = Duration::from_secs(20);
const CHOICE_BYTES_MAX: usize = 1024;
/// Exit code of [`CHOOSE`] if the host has no program that connects.
const NO_PROGRAM: i32 = 127;

/// Prints the name of the program that is to connect to host `$1`, port `$2`. If there is bash, it connects at once,
/// which shows that a server listens. If bash cannot connect, its error is printed to standard error. A bash that was
/// built without network redirections looks for a file instead; then, `nc` is used.
const CHOOSE: &str = r#"
unset BASH_ENV
if command -v bash >/dev/null 2>&1; then
  said=$(LC_ALL=C bash --norc -c 'exec 3<>"/dev/tcp/$0/$1"' "$1" "$2" 2>&1 </dev/null) && echo bash && exit
  case $said in *"No such file"*) ;; *) printf "%s\n" "$said" >&2; exit 1 ;; esac
fi
command -v nc >/dev/null 2>&1 && echo nc && exit
exit 127
"#;

/// Runs the function `connect`, which copies its input to port `$2` of host `$1`, and the server's bytes to its output.
///
/// `relay` reads the input through a pipe, because only the first part of the pipeline can see the end of the input.
/// That part then signals the main shell (`$$`), the main shell signals `relay`, and `relay` ends the program. The
/// signal is passed on in this way because each shell knows only the process id of its own child. After the end of the
/// program, `relay` waits until the first part has exited, so that no signal can reach a reused process id.
const RELAY: &str = r#"
c=; s=
stop() { s=1; [ -z "$c" ] || kill "$c" 2>/dev/null; }
join() { [ -z "$s" ] || stop; wait "$c"; e=$?; c=; wait; }
relay() {
  trap stop TERM
  exec 5<&0
  connect "$1" "$2" <&5 4<&- 5<&- & c=$!
  join
  {END}
  exec cat <&5 >/dev/null
}
exec 4<&0
trap stop TERM
{ cat <&4; kill $$; } | relay "$1" "$2" & c=$!
exec 4<&-
join
"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RelayProgram {
    Bash,
    Netcat,
}

impl RelayProgram {
    /// Finds a program on the remote host. Fails with `refused` if the host has no such program, and with
    /// [`SshError::ForwardNobody`] if nothing listens at `to`.
    pub(super) async fn find(
        inner: &ConnectionInner,
        to: &ForwardTarget,
        refused: SshError,
    ) -> Result<Self, SshError> {
        let script = RemoteScript::new(CHOOSE, &[&to.host, &to.port.to_string()]);
        let choice = run_script(inner, script, CHOICE_BYTES_MAX, CHOICE_MAX).await?;
        match (choice.status, choice.output.as_slice()) {
            (0, b"bash\n") => Ok(Self::Bash),
            (0, b"nc\n") => Ok(Self::Netcat),
            (NO_PROGRAM, _) => Err(refused),
            _ => Err(SshError::ForwardNobody {
                destination: inner.name().to_owned(),
                far: format!("{}:{}", to.host, to.port),
                why: last_line(&choice.errors),
            }),
        }
    }

    /// Returns the script, whose arguments are host and port.
    fn script(self) -> String {
        let connect = match self {
            // `relay` ends the `cat` that reads; the one that writes ends with its input.
            Self::Bash => {
                r#"exec bash --norc -c 'exec 3<>"/dev/tcp/$0/$1" 4<&0 && { cat <&4 >&3 & exec cat <&3 4<&-; }' "$1" "$2""#
            }
            Self::Netcat => r#"exec nc "$1" "$2""#,
        };
        let relay = RELAY.replace("{END}", END);
        format!("unset BASH_ENV ENV\nconnect() {{ {connect}; }}\n{START}\n{relay}")
    }

    /// Copies between a local connection and `to` until one of them is closed. Dropping it ends the remote side.
    pub(super) async fn carry(
        self,
        inner: &Arc<ConnectionInner>,
        to: &ForwardTarget,
        local: TcpStream,
    ) -> Result<(), SshError> {
        let (read, mut write) = local.into_split();
        let nonce = nonce();
        let arguments = vec![to.host.clone(), to.port.to_string()];
        let script = RemoteScript { text: self.script(), arguments, input: Some(ScriptInput::Stream(read)) };
        let mut running = RunningScript::start(inner, script, &nonce, &PendingOpen::default()).await?;
        let mut bytes = Vec::new();
        while !running.is_over() {
            running.read_next(&mut |more: &[u8]| bytes.extend_from_slice(more)).await;
            if write.write_all(&bytes).await.is_err() {
                return Ok(());
            }
            bytes.clear();
        }
        match running.conclude(inner).await {
            ScriptEnd::Exited { status, .. } => {
                tracing::debug!(status, said = running.notices(), "a relayed connection has ended");
                Ok(())
            }
            ScriptEnd::NotRun(error) | ScriptEnd::Unknown(error) => Err(error),
            ScriptEnd::NoRoot => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::process::{Child, Command};

    use super::super::marks::MarkParser;
    use super::{RelayProgram, RemoteScript, ScriptInput};

    const NONCE: &str = "0123456789abcdef";
    const DEADLINE: Duration = Duration::from_secs(20);

    /// Variants of `nc`; those not installed are skipped, except busybox.
    const NETCATS: [&str; 4] = ["busybox", "nc.openbsd", "nc.traditional", "ncat"];

    fn installed(program: &str) -> Option<std::path::PathBuf> {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
    }

    /// Each program under each shell: the shell's command line, the first directory of `PATH`, and the program.
    fn ways() -> Vec<(&'static [&'static str], tempfile::TempDir, RelayProgram)> {
        let shells: [&[&str]; 3] = [&["sh"], &["bash"], &["busybox", "sh"]];
        let netcats = NETCATS.into_iter().filter(|name| *name == "busybox" || installed(name).is_some());
        let mut ways = Vec::new();
        for shell in shells {
            ways.push((shell, tempfile::tempdir().unwrap(), RelayProgram::Bash));
            for netcat in netcats.clone() {
                let folder = tempfile::tempdir().unwrap();
                let program = installed(netcat).expect("busybox is installed by `cargo xtask setup`");
                std::os::unix::fs::symlink(program, folder.path().join("nc")).unwrap();
                ways.push((shell, folder, RelayProgram::Netcat));
            }
        }
        ways
    }

    /// Starts the script that ssh would send, in a local shell.
    async fn start(shell: &[&str], folder: &std::path::Path, program: RelayProgram, port: u16) -> Child {
        let arguments = vec!["127.0.0.1".to_owned(), port.to_string()];
        let input = Some(ScriptInput::Bytes(Vec::new()));
        let sent = RemoteScript { text: program.script(), arguments, input }.encode(NONCE);
        let mut path = std::ffi::OsString::from(folder);
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        let mut child = Command::new(shell[0])
            .args(&shell[1..])
            .args(["-c", &sent.line])
            .env("PATH", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        child.stdin.as_mut().unwrap().write_all(&sent.input).await.unwrap();
        child
    }

    #[tokio::test]
    async fn the_relay_passes_all_bytes_and_closes_at_end_of_input() {
        for (shell, folder, program) in ways() {
            let carried = tokio::time::timeout(DEADLINE, carry(shell, folder.path(), program));
            carried.await.unwrap_or_else(|_| panic!("the relay hangs: {shell:?} {program:?} {folder:?}"));
        }
    }

    async fn carry(shell: &[&str], folder: &std::path::Path, program: RelayProgram) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut child = start(shell, folder, program, port).await;
        let (mut server, _) = listener.accept().await.unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut output = child.stdout.take().unwrap();
        let sent: Vec<u8> = (0..=255).cycle().take(300_000).collect();
        let mut there = vec![0; sent.len()];
        let (written, read) = tokio::join!(input.write_all(&sent), server.read_exact(&mut there));
        written.unwrap();
        read.unwrap();
        assert!(there == sent, "{shell:?} {folder:?}");
        let (mut parser, mut back) = (MarkParser::new(NONCE), Vec::new());
        let mut buffer = vec![0; 4096];
        let answer = async {
            server.write_all(&sent).await.unwrap();
            server
        };
        let reading = async {
            while back.len() < sent.len() {
                let count = output.read(&mut buffer).await.unwrap();
                assert_ne!(count, 0, "{shell:?} {folder:?}");
                parser.take(&buffer[..count], |bytes| back.extend_from_slice(bytes), |_| {});
            }
        };
        let (mut server, ()) = tokio::join!(answer, reading);
        assert!(back == sent, "{shell:?} {folder:?}");
        // The server sends nothing more and does not close.
        drop(input);
        let closed = server.read(&mut buffer).await;
        assert!(matches!(closed, Ok(0) | Err(_)), "{shell:?} {folder:?}");
        assert!(child.wait().await.unwrap().success(), "{shell:?} {folder:?}");
    }
}
