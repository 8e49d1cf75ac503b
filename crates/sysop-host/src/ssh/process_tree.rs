//! Kills all processes that a command started on the remote host, over a second session: `ssh` only hangs up.
//!
//! As on the local machine, a process belongs to a command if it is in the command's session, descends from the
//! command, or has the command's mark in its environment. If there is no `/proc`, only descent and process group are
//! used.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::connection::ConnectionInner;
use super::error::SshError;
use super::running_script::{END, RunningScript, START, ScriptOutput, collect, nonce};
use super::script::RemoteScript;
use super::session::{SILENT, SshSession};

/// Maximum time for the remote script to start. After that, the connection counts as broken.
const BEGIN_MAX: Duration = Duration::from_secs(5);
/// Maximum time to find and kill all processes. A host may have thousands of processes and may be busy.
const END_MAX: Duration = Duration::from_secs(15);

/// Kills the processes of a command. `$1` is the mark in their environment, and `$2` is the process id of the command's
/// script, or empty.
const SCRIPT: &str = r#"
mark=$1 leader=$2
case $leader in *[!0-9]*|''|0|1) leader=none ;; esac
table() {
  if [ -r /proc/self/stat ]; then
    for f in /proc/[0-9]*/stat; do
      { IFS= read -r l <"$f"; } 2>/dev/null || continue
      p=${f#/proc/}; p=${p%/stat}
      set -- ${l##*)}
      case $1 in Z|X) continue ;; esac
      rows="$rows $p:$2:$4"
    done
    for f in $(grep -l "$mark=" /proc/[0-9]*/environ 2>/dev/null); do
      p=${f#/proc/}; marked="$marked ${p%/environ}"
    done
  else
    rows=$(ps -A -o pid= -o ppid= -o pgid= -o stat= | while read -r p q g z; do
      case $z in Z*) ;; *) printf ' %s:%s:%s' "$p" "$q" "$g" ;; esac
    done)
  fi
}
members() {
  rows= marked= found= known=" $leader "
  table
  for p in $marked; do
    [ "$p" = "$leader" ] || { case " $rows" in *" $p:"*) found="$found $p" known="$known$p " ;; esac; }
  done
  more=1
  while [ "$more" ]; do
    more=
    for e in $rows; do
      p=${e%%:*} q=${e#*:} s=${e##*:}; q=${q%:*}
      case $known in *" $p "*) continue ;; esac
      case $known in
      *" $q "*) ;;
      *) [ "$s" = "$leader" ] || continue ;;
      esac
      known="$known$p " found="$found $p" more=1
    done
  done
}
gone() { for p in $found; do kill -0 "$p" 2>/dev/null && return 1; done; return 0; }
nap() { sleep 0.05 2>/dev/null || sleep 1; }
i=0
members
while [ -z "$found" ] && [ "$leader" = none ] && [ $i -lt 10 ]; do i=$((i+1)); nap; members; done
[ "$found" ] && kill -TERM $found 2>/dev/null
i=0
until gone || [ $i -ge 10 ]; do i=$((i+1)); nap; done
i=0
while members; [ "$found" ] && [ $i -lt 16 ]; do i=$((i+1)); kill -KILL $found 2>/dev/null; done
[ "$leader" = none ] || kill -KILL "$leader" 2>/dev/null
i=0
until gone || [ $i -ge 20 ]; do i=$((i+1)); nap; done
members
[ -z "$found" ]
"#;

#[derive(Debug, Clone)]
pub(super) struct RemoteProcessTree {
    pub(super) inner: Arc<ConnectionInner>,
    /// Variable that marks the processes.
    pub(super) mark: String,
    /// Process id of the script, if it was reported.
    pub(super) leader: Option<String>,
}

impl RemoteProcessTree {
    /// Stops all processes, first with SIGTERM, then with SIGKILL. Returns an error if the result is unknown.
    pub(super) async fn end(&self) -> Result<(), SshError> {
        match self.ask().await {
            Ok(ScriptOutput { status: 0, .. }) => Ok(()),
            Ok(_) => Err(SshError::Failed {
                destination: self.inner.name().to_owned(),
                why: "some processes of the command could not be killed".to_owned(),
            }),
            Err(error) => Err(error),
        }
    }

    /// Like `end`, but in a separate thread, for programs that were dropped.
    pub(super) fn end_in_background(self) {
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime
                && let Err(error) = runtime.block_on(self.end())
            {
                tracing::warn!(%error, "processes on the remote host may still run");
            }
        });
    }

    async fn ask(&self) -> Result<ScriptOutput, SshError> {
        let inner = &self.inner;
        let dropped =
            |why: &str| SshError::Dropped { destination: inner.name().to_owned(), why: why.to_owned() };
        // Waiting for a permit says nothing about the connection.
        let permit = inner.spare_permit().await;
        let master = inner.running_master().await;
        if master.is_none() && inner.settings().container().is_none() {
            return Err(dropped("there is no connection to the host"));
        }
        let nonce = nonce();
        let text = format!("{START}\n(\n{SCRIPT}\n)\ne=$?\n{END}");
        let leader = self.leader.clone().unwrap_or_default();
        let script = RemoteScript { text, arguments: vec![self.mark.clone(), leader], input: None };
        let opening = SshSession::open_spare(inner, master.as_deref(), permit, script.encode(&nonce));
        match timeout(BEGIN_MAX, opening).await {
            Ok(Ok(session)) => {
                Ok(collect(inner, &mut RunningScript::of(session, &nonce), 1024, END_MAX).await?)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => {
                if let Some(master) = master {
                    inner.discard_master(&master).await;
                }
                Err(dropped(SILENT))
            }
        }
    }
}
