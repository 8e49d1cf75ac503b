//! Ends all that one command started on the remote machine, over a session beside it: `ssh` itself only hangs up.
//!
//! As on this machine, a process belongs to a command if it is in the command's session, descends from it, or
//! carries its mark in the environment. Where there is no `/proc`, descent and the process group have to do.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::connection::ConnectionInner;
use super::error::SshError;
use super::running_script::{END, RunningScript, START, ScriptOutput, collect, nonce};
use super::script::RemoteScript;
use super::session::{SILENT, SshSession};

/// How long the remote side may take to begin; where it does not, the connection is of no use any more.
const BEGIN_MAX: Duration = Duration::from_secs(5);
/// How long it may take to find and end all processes; a machine may have thousands, and be busy.
const END_MAX: Duration = Duration::from_secs(15);

/// `$1` is the mark, `$2` the number of the script that leads the session, or nothing.
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

/// What is to be ended.
#[derive(Debug, Clone)]
pub(super) struct RemoteProcessTree {
    pub(super) inner: Arc<ConnectionInner>,
    /// The variable that its processes have.
    pub(super) mark: String,
    /// The number of the script; none where it has not said so yet.
    pub(super) leader: Option<String>,
}

impl RemoteProcessTree {
    /// Asks all of it to end, and ends it. An error where nobody knows whether it has.
    pub(super) async fn end(&self) -> Result<(), SshError> {
        match self.ask().await {
            Ok(ScriptOutput { status: 0, .. }) => Ok(()),
            Ok(_) => Err(SshError::Failed {
                destination: self.inner.name().to_owned(),
                why: "some of its processes could not be ended".to_owned(),
            }),
            Err(error) => Err(error),
        }
    }

    /// The same, from a thread of its own: for what was dropped.
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
        // That others are being ended first says nothing of the connection.
        let permit = inner.spare_permit().await;
        let Some(master) = inner.running_master().await else {
            return Err(dropped("there is no connection to the host"));
        };
        let nonce = nonce();
        let text = format!("{START}\n(\n{SCRIPT}\n)\ne=$?\n{END}");
        let leader = self.leader.clone().unwrap_or_default();
        let script = RemoteScript { text, arguments: vec![self.mark.clone(), leader], input: None };
        match timeout(BEGIN_MAX, SshSession::open_spare(inner, &master, permit, script.encode(&nonce))).await
        {
            Ok(Ok(session)) => {
                Ok(collect(inner, &mut RunningScript::of(session, &nonce), 1024, END_MAX).await?)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => {
                inner.discard_master(&master).await;
                Err(dropped(SILENT))
            }
        }
    }
}
