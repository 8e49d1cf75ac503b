//! Resolves targets on the remote host with one script.

use std::sync::Arc;
use std::time::Duration;

use sysop_core::policy::{Access, ResolvedFile, ResolvedTarget, Target};

use super::connection::ConnectionInner;
use super::running_script::run_script;
use super::script::RemoteScript;
use crate::machine::{REPOSITORIES_MAX, RESOLVED_FILES_MAX, SCRIPT_TEXT_BYTES_MAX};

const RESOLVE: &str = concat!(include_str!("../real_path.sh"), include_str!("resolve.sh"));
const RESOLVE_MAX: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Resolves targets and omits those that cannot be resolved. Returns `None` if the host does not respond.
/// `session_start_s` is the start of the session by the host's clock, in seconds since the Unix epoch.
pub(super) async fn resolve(
    inner: &Arc<ConnectionInner>,
    targets: Vec<Target>,
    home: Option<&str>,
    session_start_s: i64,
) -> Option<Vec<ResolvedTarget>> {
    let (text_max, files_max) = (SCRIPT_TEXT_BYTES_MAX.to_string(), RESOLVED_FILES_MAX.to_string());
    let repositories_max = REPOSITORIES_MAX.to_string();
    let mut arguments = vec![home.unwrap_or_default(), &text_max, &files_max, &repositories_max];
    if targets.iter().any(|target| target.word.contains('\0')) {
        return None;
    }
    for target in &targets {
        let access = match target.access {
            Access::Run => "x",
            Access::Repository => "r",
            Access::Read | Access::Write => "-",
        };
        let glob = if target.glob { "g" } else { "-" };
        arguments.extend([access, glob, target.folder.as_deref().unwrap_or_default(), &target.word]);
    }
    let script = RemoteScript::new(RESOLVE, &arguments);
    let ran = run_script(inner, script, ANSWER_BYTES_MAX, RESOLVE_MAX).await.ok();
    let output = ran.filter(|ran| ran.status == 0)?.output;
    parse(targets, &output, session_start_s)
}

/// Parses `f PATH TIME TEXT` for each file, where TEXT is `m` for a missing one, and `r` or `u` at the end of each
/// target, all terminated by NUL.
fn parse(targets: Vec<Target>, output: &[u8], session_start_s: i64) -> Option<Vec<ResolvedTarget>> {
    let mut fields = output.split(|byte| *byte == 0);
    let mut resolved = Vec::new();
    for target in targets {
        let mut files: Vec<ResolvedFile> = Vec::new();
        loop {
            match fields.next()? {
                b"f" => {
                    let path = String::from_utf8_lossy(fields.next()?).into_owned();
                    let (time, text) = (fields.next()?, fields.next()?);
                    let file = read_file(path, target.access, time, text, session_start_s);
                    if !files.contains(&file) {
                        files.push(file);
                    }
                }
                b"r" => {
                    resolved.push(ResolvedTarget { target, files });
                    break;
                }
                b"u" => break,
                _ => return None,
            }
        }
    }
    Some(resolved)
}

fn read_file(path: String, access: Access, time: &[u8], text: &[u8], session_start_s: i64) -> ResolvedFile {
    // If the host cannot tell the time, the file may be new.
    let changed_s = std::str::from_utf8(time).ok().and_then(|time| time.trim().parse::<i64>().ok());
    let changed_in_session =
        access == Access::Run && changed_s.is_none_or(|changed_s| changed_s >= session_start_s);
    let script = text.strip_prefix(b"s").and_then(|text| String::from_utf8(text.to_vec()).ok());
    ResolvedFile { path, missing: text == b"m", changed_in_session, script }
}
