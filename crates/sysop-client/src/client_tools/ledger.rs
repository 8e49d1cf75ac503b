//! Record of the calls that this machine has run. The record prevents a call from running a second time, even if its
//! result was lost on the way to the server or this process was killed.
//!
//! Each session has one file, which only one process at a time can lock. The file has a line for each call
//! that started and a line for each result. If a call in the file has no result, the process exited during
//! the call, and the server gets the status `interrupted` for it.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sysop_core::id::CallId;
use sysop_core::outcome::{Outcome, Status};
use sysop_wire::ToolResult;

use crate::ClientError;

/// Maximum number of remembered calls. More are not needed, because a server repeats requests only for calls of the
/// running turn.
const CALLS_MAX: usize = 1_024;
/// Maximum total size of the stored results, in bytes. If all results together are larger, the oldest results are
/// discarded, and only the fact that their calls ran is kept.
const RESULT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum length of a line, in bytes. Longer lines are skipped when the file is read.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;
const LEDGERS_MAX: usize = 64;

/// Record of the calls of one session, kept in memory and in a locked file.
pub(crate) struct Ledger {
    state: Mutex<State>,
}

struct State {
    file: File,
    calls: HashMap<CallId, LedgerCall>,
    /// Ids of the remembered calls, oldest first.
    order: VecDeque<CallId>,
    result_bytes: usize,
}

enum LedgerCall {
    Running,
    Done(Box<ToolResult>),
    /// The call ran, but its result was discarded to save space.
    Forgotten,
}

pub(crate) enum CallClaim {
    /// The call was unknown until now, and the caller of `claim` must run it.
    Claimed,
    Running,
    Done(Box<ToolResult>),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LedgerLine {
    Began(CallId),
    Ended(Box<ToolResult>),
}

impl Ledger {
    /// Opens the ledger of a session and locks it against other processes.
    pub(crate) fn open(folder: &Path, server: &str, session: &str) -> Result<Self, ClientError> {
        // The server chooses the session's name, so it is not used as a file name.
        let name = blake3::hash(format!("{server}\n{session}").as_bytes()).to_hex();
        let path = folder.join(format!("{name}.jsonl"));
        Self::at(folder, &path).map_err(|error| {
            ClientError::Ledger(if error.kind() == io::ErrorKind::WouldBlock {
                "another sysop on this machine already offers its tools to this session; stop it, or start a new \
                 session"
                    .to_owned()
            } else {
                let path = path.display();
                format!(
                    "cannot use the call ledger at {path}: {error}"
                )
            })
        })
    }

    fn at(folder: &Path, path: &PathBuf) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        prune(folder, path);
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
            TryLockError::Error(error) => error,
        })?;
        let state = State { file, calls: HashMap::new(), order: VecDeque::new(), result_bytes: 0 };
        let ledger = Self { state: Mutex::new(state) };
        ledger.read()?;
        Ok(ledger)
    }

    /// Reads the existing lines and rewrites the file without outdated lines. A truncated line is skipped, so a call
    /// whose first line is truncated counts as never started.
    fn read(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        for line in BufReader::new(state.file.try_clone()?).split(b'\n') {
            let line = line?;
            if line.len() > LINE_BYTES_MAX {
                continue;
            }
            match serde_json::from_slice(&line) {
                Ok(LedgerLine::Began(call)) => state.put(&call, LedgerCall::Running),
                Ok(LedgerLine::Ended(result)) => {
                    state.put(&result.tool_call_id.clone(), LedgerCall::Done(result))
                }
                Err(_) => {}
            }
        }
        let mut text = Vec::new();
        for id in state.order.clone() {
            match state.calls.get(&id) {
                Some(LedgerCall::Running) => {
                    let result = Box::new(ToolResult::new(id.clone(), interrupted()));
                    text.extend(line(&LedgerLine::Ended(result.clone())));
                    state.put(&id, LedgerCall::Done(result));
                }
                Some(LedgerCall::Done(result)) => text.extend(line(&LedgerLine::Ended(result.clone()))),
                Some(LedgerCall::Forgotten) | None => text.extend(line(&LedgerLine::Began(id))),
            }
        }
        // Rewritten in place, because a new file would not carry the lock. After a crash at this point,
        // earlier calls are forgotten or count as interrupted; none of them is running.
        state.file.set_len(0)?;
        state.file.write_all(&text)?;
        state.file.sync_data()
    }

    /// Returns the state of a call. An unknown call counts as running from now on, and the caller must run that call.
    pub(crate) fn claim(&self, call: &CallId) -> CallClaim {
        let mut state = self.state.lock();
        match state.calls.get(call) {
            Some(LedgerCall::Running) => CallClaim::Running,
            Some(LedgerCall::Done(result)) => CallClaim::Done(result.clone()),
            Some(LedgerCall::Forgotten) => {
                let gone =
                    Outcome::new(Status::Unknown, "the call ran long ago; its result is no longer stored");
                CallClaim::Done(Box::new(ToolResult::new(call.clone(), gone)))
            }
            None => {
                state.put(call, LedgerCall::Running);
                CallClaim::Claimed
            }
        }
    }

    /// Records that a call is about to run. If `changes` is true, which means that the call may change something, the
    /// record is on disk when this method returns.
    pub(crate) fn begin(&self, call: &CallId, changes: bool) -> io::Result<()> {
        let mut state = self.state.lock();
        state.file.write_all(&line(&LedgerLine::Began(call.clone())))?;
        if changes { state.file.sync_data() } else { Ok(()) }
    }

    pub(crate) fn end(&self, result: &ToolResult) {
        let mut state = self.state.lock();
        state.put(&result.tool_call_id, LedgerCall::Done(Box::new(result.clone())));
        // If this fails, the call is `interrupted` after a crash, so it still never runs twice.
        let _ = state.file.write_all(&line(&LedgerLine::Ended(Box::new(result.clone()))));
    }
}

impl State {
    fn put(&mut self, id: &CallId, call: LedgerCall) {
        self.result_bytes += size(&call);
        match self.calls.insert(id.clone(), call) {
            Some(before) => self.result_bytes -= size(&before),
            None => self.order.push_back(id.clone()),
        }
        while self.order.len() > CALLS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.result_bytes -= self.calls.remove(&oldest).as_ref().map_or(0, size);
        }
        for old in &self.order {
            if self.result_bytes <= RESULT_BYTES_MAX {
                break;
            }
            if let Some(call @ LedgerCall::Done(_)) = self.calls.get_mut(old) {
                self.result_bytes -= size(call);
                *call = LedgerCall::Forgotten;
            }
        }
    }
}

fn size(call: &LedgerCall) -> usize {
    match call {
        LedgerCall::Done(result) => result.output.len(),
        LedgerCall::Running | LedgerCall::Forgotten => 0,
    }
}

fn line(line: &LedgerLine) -> Vec<u8> {
    let mut text = serde_json::to_vec(line).expect("lines are plain structs with text keys");
    text.push(b'\n');
    text
}

fn interrupted() -> Outcome {
    let why = "the client process ended during the call; its result is unknown, and it was not repeated";
    Outcome::new(Status::Interrupted, why)
}

/// Removes the oldest ledgers of other sessions if there are more than `LEDGERS_MAX`. Ledgers that another process has
/// locked are kept, and failures are ignored.
fn prune(folder: &Path, own: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut ledgers: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.path() != own && entry.path().extension().is_some_and(|kind| kind == "jsonl"))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    ledgers.sort();
    for (_, path) in ledgers.iter().take(ledgers.len().saturating_sub(LEDGERS_MAX)) {
        if File::open(path).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(call: &str, text: &str) -> ToolResult {
        ToolResult::new(CallId::new(call), Outcome::ok(text))
    }

    fn open(folder: &Path) -> Ledger {
        Ledger::open(folder, "http://s", "../../etc").unwrap()
    }

    fn done(ledger: &Ledger, call: &str) -> (Status, String) {
        match ledger.claim(&CallId::new(call)) {
            CallClaim::Done(result) => (result.status.unwrap(), result.output),
            CallClaim::Claimed => panic!("unknown"),
            CallClaim::Running => panic!("running"),
        }
    }

    #[test]
    fn a_call_runs_once_and_later_requests_get_the_same_result() {
        let folder = tempfile::tempdir().unwrap();
        let id = CallId::new("a");
        {
            let ledger = open(folder.path());
            assert!(matches!(ledger.claim(&id), CallClaim::Claimed));
            assert!(matches!(ledger.claim(&id), CallClaim::Running));
            ledger.begin(&id, true).unwrap();
            ledger.end(&result("a", "one"));
            assert_eq!(done(&ledger, "a"), (Status::Ok, "one".to_owned()));
        }
        assert_eq!(done(&open(folder.path()), "a"), (Status::Ok, "one".to_owned()));
    }

    #[test]
    fn calls_that_ran_when_the_process_ended_stay_interrupted() {
        let folder = tempfile::tempdir().unwrap();
        let (began, asked) = (CallId::new("began"), CallId::new("asked"));
        {
            let ledger = open(folder.path());
            ledger.claim(&began);
            ledger.begin(&began, false).unwrap();
            ledger.claim(&asked); // the user is asked; nothing has run
        }
        for _ in 0..2 {
            let ledger = open(folder.path());
            assert_eq!(done(&ledger, "began").0, Status::Interrupted);
        }
        assert!(matches!(open(folder.path()).claim(&asked), CallClaim::Claimed));
    }

    #[test]
    fn one_process_holds_a_ledger_and_its_name_cannot_leave_the_directory() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("ledgers");
        let first = open(&inside);
        let second = Ledger::open(&inside, "http://s", "../../etc").err().unwrap();
        assert!(second.to_string().contains("another sysop"), "{second}");
        drop(first);
        open(&inside);
        assert_eq!(fs::read_dir(&inside).unwrap().count(), 1);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_ledger_is_bounded_and_skips_a_truncated_line() {
        let folder = tempfile::tempdir().unwrap();
        let large = "x".repeat(RESULT_BYTES_MAX / 2);
        {
            let ledger = open(folder.path());
            for call in ["a", "b", "c"] {
                ledger.claim(&CallId::new(call));
                ledger.end(&result(call, &large));
            }
            assert_eq!(done(&ledger, "a").0, Status::Unknown);
            assert_eq!(done(&ledger, "c").0, Status::Ok);
            ledger.state.lock().file.write_all(b"{\"began\":\"hal").unwrap();
        }
        let ledger = open(folder.path());
        (0..CALLS_MAX + 10).for_each(|n| drop(ledger.claim(&CallId::new(format!("n{n}")))));
        assert_eq!(ledger.state.lock().calls.len(), CALLS_MAX);
        assert_eq!(ledger.state.lock().result_bytes, 0, "the oldest results were discarded");
    }

    #[test]
    fn old_ledgers_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        (0..LEDGERS_MAX + 5).for_each(|n| drop(Ledger::open(folder.path(), "s", &n.to_string()).unwrap()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), LEDGERS_MAX + 1);
    }
}
