//! A shell that kills a process when the parent of that process dies, for a system without death signals. Used on
//! macOS, and tested on Linux.

use std::io;
use std::process::{Command, Stdio};

use rustix::process::{Pid, getpid, getppid};

/// Compares parents once a second: a process whose parent died gets another one. First it checks its own parent, the
/// watched process `$2`: if that process has ended, its id may belong to another process, which must not be killed.
/// Without an answer of `ps`, as when no process can be started, it asks again a second later.
const SCRIPT: &str = r#"parent() { ps -o ppid= -p "$1" | tr -d ' '; }
while :; do
  case $(parent $$) in
  "$2")
    case $(parent "$2") in
    "$1" | "") ;;
    *) exec kill -9 "$2" ;;
    esac
    ;;
  "") ;;
  *) exit ;;
  esac
  sleep 1
done"#;

/// Starts a child that kills this process when its parent dies. Fails if the parent has already died.
pub(super) fn die_with(parent: Pid) -> io::Result<()> {
    if getppid() != Some(parent) {
        return Err(io::Error::other("the parent has ended"));
    }
    // If the parent dies from now on, the watcher sees that this process has another one.
    let ids = [parent, getpid()].map(|id| id.as_raw_nonzero().to_string());
    let mut command = Command::new("/bin/sh");
    command.args(["-c", SCRIPT, "sysop-watcher"]).args(ids);
    command.env_clear().env("PATH", "/bin:/usr/bin");
    // It must not hold the pipes that tell of the end of the watched process.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Child;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::*;

    /// Starts `parent` in a shell, which runs `$1`: a process that watches itself and then becomes `watched`. The
    /// receiver gets a message when all processes that can write to the parent's output have ended.
    fn start(parent: &str, watched: &str) -> (Child, Receiver<()>) {
        start_with(SCRIPT, parent, watched)
    }

    fn start_with(script: &str, parent: &str, watched: &str) -> (Child, Receiver<()>) {
        let watched = format!(r#"sh -c "$1" watcher "$PPID" $$ & exec {watched}"#);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", parent, "parent", &watched, script]);
        let mut parent = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = parent.stdout.take().unwrap();
        let (sender, ended) = channel();
        std::thread::spawn(move || {
            output.read_to_end(&mut Vec::new()).unwrap();
            sender.send(()).unwrap();
        });
        (parent, ended)
    }

    #[test]
    fn a_process_dies_with_its_parent() {
        let (mut parent, ended) = start(r#"sh -c "$1" watched "$2"; :"#, "tail -f /dev/null");
        parent.kill().unwrap();
        ended.recv_timeout(Duration::from_secs(30)).expect("the watched process and the watcher end");
        parent.wait().unwrap();
    }

    #[test]
    fn without_an_answer_of_ps_the_watcher_asks_again() {
        let folder = tempfile::tempdir().unwrap();
        let calls = folder.path().join("calls");
        // The first answer for the watcher and the first for the watched process are missing. The fifth call, the next
        // one for the watched process, first kills the parent.
        let ps = r#"ps() {
  echo >>CALLS
  case $(($(wc -l <CALLS))) in
  1 | 3) return 1 ;;
  5) kill -9 "$(command ps "$@" | tr -d ' ')" ;;
  esac
  command ps "$@"
}
"#;
        let script = ps.replace("CALLS", &format!("'{}'", calls.display())) + SCRIPT;
        let parent = r#"sh -c "$1" watched "$2"; :"#;
        let (mut parent, ended) = start_with(&script, parent, "tail -f /dev/null");
        ended.recv_timeout(Duration::from_secs(30)).expect("the watched process and the watcher end");
        assert_eq!(parent.wait().unwrap().signal(), Some(9), "the parent died first");
    }

    #[test]
    fn nothing_is_watched_if_the_parent_has_ended() {
        assert!(die_with(getpid()).is_err());
    }

    #[test]
    fn the_watcher_ends_with_the_watched_process() {
        let (mut parent, ended) = start(r#"sh -c "$1" watched "$2"; exec >&-; read -r line"#, "true");
        ended.recv_timeout(Duration::from_secs(30)).expect("the watcher ends");
        assert!(parent.try_wait().unwrap().is_none(), "the parent lives");
        drop(parent.stdin.take());
        parent.wait().unwrap();
    }
}
