//! `sysop trust`: trusts a workspace on this machine until its files change, or revokes that.
//!
//! Nothing is asked: the command is the decision. It cannot run inside a session, where a model could have typed it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use sysop_core::text::neutralize_line;

use crate::app::{Machines, ToolLocation, WorkspaceInstructions};
use crate::cli::TrustArguments;
use crate::config::{TrustDecision, display_path, revoke_trust, save_trust};
use crate::exit::{CommandError, Exit};
use crate::global_flags::GlobalFlags;
use crate::settings::{HostChoice, Settings};

/// Trusts the workspace, and prints what now counts. Fails if the data directory is not writable, or if there is
/// nothing to revoke.
pub(crate) async fn run(flags: GlobalFlags, arguments: TrustArguments) -> Result<Exit> {
    let is_named = arguments.folder.is_some();
    let root = arguments.folder.or(flags.root);
    let deleted = root.as_deref().filter(|_| arguments.revoke).and_then(deleted_workspace);
    let root = root.filter(|_| deleted.is_none());
    if let Some(folder) = root.as_deref().filter(|_| is_named) {
        check_folder(folder, if arguments.revoke { "revoke the trust of" } else { "trust" })?;
    }
    let flags = GlobalFlags { root, host: Some("local".to_owned()), trust: false, ..flags };
    let settings = crate::load_quietly(&flags)?;
    let data = &settings.folders.data;
    if arguments.revoke {
        let root = deleted.as_ref().unwrap_or(&settings.root);
        let place = ToolLocation::new(HostChoice::Local, root.clone()).display_root();
        let revoked = revoke_trust(data, root, &place)
            .with_context(|| format!("cannot write to {}", display_path(data)))?;
        let root = display_path(root);
        let told = match revoked {
            Some(TrustDecision::Trusted) => format!("{root} is no longer trusted"),
            Some(TrustDecision::Refused) => format!("{root} was not trusted; its refusal is forgotten"),
            None => return Err(CommandError::failed(format!("{root} is not trusted")).into()),
        };
        return crate::emit(rows(&[told]).as_bytes());
    }
    crate::emit(rows(&trust_files(settings).await?).as_bytes())
}

fn check_folder(path: &Path, verb: &str) -> Result<(), CommandError> {
    let hint = "name the directory of a workspace";
    let shown = display_path(path);
    match path.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(CommandError::usage(format!("cannot {verb} {shown}: it is not a directory; {hint}"))),
        Err(error) => Err(CommandError::usage(format!("cannot {verb} {shown}: {error}; {hint}"))),
    }
}

/// Returns the canonical path that a directory had before it was deleted, or `None` if it exists.
fn deleted_workspace(path: &Path) -> Option<PathBuf> {
    if path.exists() {
        return None;
    }
    let path = std::path::absolute(path).ok()?;
    path.ancestors()
        .skip(1)
        .find_map(|above| Some(above.canonicalize().ok()?.join(path.strip_prefix(above).ok()?)))
}

/// Returns one row for each line. A file name with a line feed forges no row.
fn rows(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{}\n", neutralize_line(line))).collect()
}

async fn trust_files(settings: Settings) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    if let Some(file) = settings.untrusted() {
        save_trust(&settings.folders.data, file, TrustDecision::Trusted)
            .with_context(|| format!("cannot write to {}", display_path(&settings.folders.data)))?;
        lines.push(display_path(&file.path).to_string());
        lines.extend(file.left_out.iter().map(|line| format!("  {line}")));
    }
    let root = settings.root.clone();
    let place = ToolLocation::new(HostChoice::Local, root.clone());
    let instructions = WorkspaceInstructions::new(Machines::new(Arc::new(settings)), place);
    let files = instructions.trust().await.map_err(CommandError::failed)?;
    lines.extend(files.iter().map(|file| file.path.clone()));
    if lines.is_empty() {
        return Ok(vec![format!("{} has nothing that needs your trust", display_path(&root))]);
    }
    lines.insert(0, "trusted until it changes:".to_owned());
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{check_folder, rows};

    #[test]
    fn an_argument_that_is_no_directory_is_not_called_the_root() {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let file = folder.path().join("file");
        std::fs::write(&file, "").expect("the directory is writable");
        assert!(check_folder(folder.path(), "trust").is_ok());
        for verb in ["trust", "revoke the trust of"] {
            for path in [&file, Path::new("/no/such/dir")] {
                let error = check_folder(path, verb).expect_err("it is no directory").message;
                assert!(error.starts_with(&format!("cannot {verb} /")), "{error}");
                assert!(error.ends_with("; name the directory of a workspace"), "{error}");
            }
        }
    }

    #[test]
    fn a_file_name_with_a_line_feed_forges_no_row() {
        let lines = ["/srv/app\n/srv/other".to_owned(), "/srv/b".to_owned()];
        assert_eq!(rows(&lines), "/srv/app\\n/srv/other\n/srv/b\n");
    }
}
