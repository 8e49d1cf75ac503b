//! Removes the artifacts of a deleted session.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use sysop_core::id::{SessionId, Timestamp};

use super::artifacts::{is_image, is_output, is_preimage};

/// Removes the artifacts in `files` and the recordings of the session's terminal from the directory. `last` is the time
/// at which the session last stored a file. A pre-image or image that was stored again after that time belongs to
/// another session, even if that session's log does not mention it yet, so it is kept. Errors are only logged.
pub fn purge_session(folder: &Path, files: &HashSet<String>, session: &SessionId, last: Timestamp) {
    for name in files {
        let path = folder.join(name);
        let gone = if is_output(name) || ((is_preimage(name) || is_image(name)) && !is_newer(&path, last)) {
            fs::remove_file(path)
        } else {
            Ok(())
        };
        log_failure(name, gone);
    }
    let recordings = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    for entry in
        recordings.filter(|entry| entry.file_name().to_str().is_some_and(|name| is_recording(name, session)))
    {
        log_failure("a recording", fs::remove_file(entry.path()));
    }
}

fn log_failure(name: &str, gone: io::Result<()>) {
    if let Err(error) = gone
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "cannot remove {name} of a deleted session");
    }
}

/// Returns true if the file was stored again after `last`, or if its time is unknown.
fn is_newer(path: &Path, last: Timestamp) -> bool {
    let kept = path.metadata().and_then(|found| found.modified());
    let since = kept.ok().and_then(|kept| kept.duration_since(UNIX_EPOCH).ok());
    since.is_none_or(|since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX) > last.0)
}

/// Returns a file name for a recording of this session's terminal.
pub(crate) fn recording_name(session: Option<&SessionId>) -> String {
    let number = rand::random::<u64>();
    match session.map(SessionId::as_str) {
        Some(id) if id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') => {
            format!("terminal-{id}-{number:016x}.cast")
        }
        Some(_) | None => format!("terminal-{number:016x}.cast"),
    }
}

fn is_recording(name: &str, session: &SessionId) -> bool {
    let rest = name.strip_prefix("terminal-").and_then(|rest| rest.strip_prefix(session.as_str()));
    let number = rest.and_then(|rest| rest.strip_prefix('-')).and_then(|rest| rest.strip_suffix(".cast"));
    number.is_some_and(|number| number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs;
    use std::time::{Duration, SystemTime};

    use sysop_core::id::{SessionId, Timestamp};

    use super::{purge_session, recording_name};
    use crate::output::artifacts::Artifacts;

    fn now() -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        Timestamp(i64::try_from(since.as_millis()).unwrap())
    }

    #[tokio::test]
    async fn purging_removes_only_named_files_and_own_recordings() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("artefacts");
        let artifacts = Artifacts::new(folder.clone(), 100);
        let output = artifacts.store_output(b"of this one").await.unwrap();
        let other = artifacts.store_output(b"of another").await.unwrap();
        let before = artifacts.store_preimage(b"before").unwrap();
        let [own, not_own] = ["s-1", "s-1-2"].map(|id| recording_name(Some(&SessionId::new(id))));
        for name in [&own, &not_own] {
            artifacts.create(name).unwrap();
        }
        fs::write(home.path().join("secret"), "").unwrap();
        let names = [output.as_str(), before.as_str(), "preimages/../../secret", "../secret", own.as_str()];
        let files = HashSet::from(names.map(str::to_owned));
        purge_session(&folder, &files, &SessionId::new("s-1"), now());
        let there = |name: &str| folder.join(name).exists();
        assert_eq!((there(&output), there(&before), there(&own)), (false, false, false));
        assert!(there(&other) && there(&not_own) && home.path().join("secret").exists());
        purge_session(&folder, &files, &SessionId::new("s-1"), now()); // missing files are not an error
    }

    #[test]
    fn artifacts_stored_again_meanwhile_are_kept() {
        let home = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::new(home.path().to_owned(), 100);
        let name = artifacts.store_preimage(b"before").unwrap();
        let path = home.path().join(&name);
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        fs::File::open(&path).unwrap().set_modified(long_ago).unwrap();
        let last = Timestamp(now().0 - 60_000);
        // Another session stores the same bytes; its log does not name them yet.
        assert_eq!(artifacts.store_preimage(b"before").unwrap(), name);
        purge_session(home.path(), &HashSet::from([name]), &SessionId::new("s"), last);
        assert!(path.exists());
    }
}
